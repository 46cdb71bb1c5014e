// test/kit/pretend_device_test.cc - tests of the pretend devices: they are late, they refuse misuse, and
// ThreadSanitizer sees a missing wait.
#include "test/kit/pretend_device.h"

#include <gtest/gtest.h>

#include <cstring>

namespace {

using pretend::Call;
using pretend::Kit;
using pretend::kPoison;
using pretend::Machine;
using pretend::table;

constexpr int64_t kPatienceMs = 20000;

class Pretend : public testing::Test {
  protected:
    void open(const Kit &kit, bool times = false) {
        machine_ = std::make_unique<Machine>(kit);
        Machine::Here here(*machine_);
        gcoll_accelerator_options options = {};
        options.times = times;
        ASSERT_EQ(table.open(&options, &a_), GCOLL_OK);
    }

    void TearDown() override {
        if (!a_)
            return;
        EXPECT_EQ(table.drain(a_, kPatienceMs), GCOLL_OK);
        table.close(a_);
        if (misuse_ == 0)
            EXPECT_EQ(machine_->violations(), std::vector<std::string>());
        EXPECT_EQ(machine_->violations().size(), misuse_);
        const pretend::Statistics left = machine_->statistics();
        EXPECT_EQ(left.tickets + left.gates + left.open + left.pinned_bytes, 0u);
    }

    template <class T> T *device(const std::vector<T> &values, uint32_t number = 0) {
        T *memory = static_cast<T *>(machine_->allocate(number, values.size() * sizeof(T)));
        machine_->write(memory, values.data(), values.size() * sizeof(T));
        return memory;
    }

    template <class T> std::vector<T> seen(const T *memory, size_t count) {
        std::vector<T> values(count);
        machine_->read(memory, values.data(), count * sizeof(T));
        return values;
    }

    gcoll_ticket *copy(void *dst, uint32_t dst_memory, const void *src, uint32_t src_memory, uint64_t bytes,
                       std::vector<gcoll_gate *> gates = {}) {
        gcoll_ticket *ticket = nullptr;
        EXPECT_EQ(table.copy(a_, dst, dst_memory, src, src_memory, bytes, gates.data(),
                             static_cast<uint32_t>(gates.size()), &ticket),
                  GCOLL_OK)
            << gcoll_last_error();
        return ticket;
    }

    bool is_done(gcoll_ticket *ticket) {
        bool done = false;
        EXPECT_EQ(table.test(a_, ticket, &done, nullptr), GCOLL_OK) << gcoll_last_error();
        return done;
    }

    void finish(gcoll_ticket *ticket) {
        const int64_t end = gcoll_now_ms() + kPatienceMs;
        while (!is_done(ticket))
            if (gcoll_now_ms() >= end)
                FAIL() << "not done after " << kPatienceMs << " ms";
    }

    // Expects that a call was refused, and the violation noted.
    void refused(gcoll_status status) {
        EXPECT_EQ(status, GCOLL_ERR_INTERNAL);
        misuse_++;
        EXPECT_EQ(machine_->violations().size(), misuse_);
    }

    std::unique_ptr<Machine> machine_;
    gcoll_accelerator *a_ = nullptr;
    size_t misuse_ = 0;
};

using PretendDeathTest = Pretend;

// ---- Memory --------------------------------------------------------------------------------------------

TEST_F(PretendDeathTest, TheHostCannotTouchIt) {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    Kit kit;
    kit.devices = 2;
    open(kit);
    char *memory = static_cast<char *>(machine_->allocate(1, 100));
    volatile char *touched = memory + 42;
    const std::string told = "host touched the memory of pretend device 1 at offset 42";
    EXPECT_DEATH(*touched = 1, told);
    EXPECT_DEATH((void)*touched, told);
    char own[8] = {};
    EXPECT_DEATH(exit(memcmp(own, memory + 42, 8)), told);
    auto *managed = static_cast<volatile char *>(machine_->allocate(0, 8, GCOLL_MEMORY_MANAGED));
    EXPECT_DEATH(*managed = 1, "pretend device 0 at offset 0");
    machine_->free(memory);
    EXPECT_DEATH(*touched = 1, told);
}

TEST_F(Pretend, NewMemoryIsPoison) {
    open(Kit());
    const std::vector<uint8_t> poison(1000, kPoison);
    EXPECT_EQ(seen(static_cast<uint8_t *>(machine_->allocate(0, 1000)), 1000), poison);
    void *pinned = nullptr;
    ASSERT_EQ(table.pin(a_, 1000, &pinned), GCOLL_OK);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pinned) % 64, 0u);
    EXPECT_EQ(memcmp(pinned, poison.data(), 1000), 0);
    EXPECT_EQ(a_->statistics().pinned_bytes, 1000u);
    table.unpin(a_, pinned, 1000);
}

TEST_F(Pretend, AddressesTellWhereTheyLie) {
    Kit kit;
    kit.devices = 3;
    open(kit);
    EXPECT_EQ(table.device_count(a_), 3u);
    gcoll_place place = {};
    char own = 0;
    char *far = static_cast<char *>(machine_->allocate(2, 100));
    struct {
        const void *address;
        gcoll_memory_kind kind;
        uint32_t device;
    } cases[] = {{far, GCOLL_MEMORY_DEVICE, 2},
                 {far + 99, GCOLL_MEMORY_DEVICE, 2},
                 {machine_->allocate(1, 8, GCOLL_MEMORY_MANAGED), GCOLL_MEMORY_MANAGED, 1},
                 {machine_->allocate(0, 8, GCOLL_MEMORY_PINNED), GCOLL_MEMORY_PINNED, 0},
                 {&own, GCOLL_MEMORY_HOST, 0},
                 {nullptr, GCOLL_MEMORY_HOST, 0}};
    for (const auto &expected : cases) {
        ASSERT_EQ(table.locate(a_, expected.address, &place), GCOLL_OK);
        EXPECT_EQ(place.kind, expected.kind);
        EXPECT_EQ(place.device, expected.device);
    }
    machine_->free(far);
    EXPECT_EQ(table.locate(a_, far, &place), GCOLL_ERR_INVALID);
}

TEST_F(Pretend, AddressesAreUsedAgainLast) {
    Kit kit;
    kit.device_bytes = 1 << 20;
    open(kit);
    void *one = machine_->allocate(0, 1000);
    machine_->free(one);
    EXPECT_NE(machine_->allocate(0, 1000), one);
    for (int i = 0; i < 20; i++) // more than the device has, one after the other
        machine_->free(machine_->allocate(0, 300000));
}

// ---- Lateness ------------------------------------------------------------------------------------------

TEST_F(Pretend, ACopyIsPoisonUntilItIsDone) {
    open(Kit());
    const std::vector<int32_t> values = {1, 2, 3};
    int32_t *from = device(values);
    std::vector<int32_t> to = {7, 7, 7};
    a_->hold(true);
    gcoll_ticket *ticket = copy(to.data(), 0, from, 1, 12);
    for (int i = 0; i < 100; i++)
        EXPECT_FALSE(is_done(ticket));
    EXPECT_EQ(to, std::vector<int32_t>(3, static_cast<int32_t>(0xdbdbdbdb)));
    a_->hold(false);
    finish(ticket);
    EXPECT_EQ(to, values);
    EXPECT_EQ(a_->statistics().in_bytes, 12u);
    EXPECT_EQ(a_->statistics().out_bytes, 0u);
}

TEST_F(Pretend, ACopyReadsTheHostLate) {
    open(Kit());
    std::vector<int32_t> from = {1, 2, 3};
    int32_t *to = device<int32_t>({0, 0, 0});
    a_->hold(true);
    gcoll_ticket *ticket = copy(to, 1, from.data(), 0, 12);
    from[1] = 20; // too early: the copy is still under way
    a_->hold(false);
    finish(ticket);
    EXPECT_EQ(seen(to, 3), std::vector<int32_t>({1, 20, 3}));
    EXPECT_EQ(a_->statistics().out_bytes, 12u);
}

// Tasks of one lane run in order. Tasks of different lanes run in any order.
TEST_F(Pretend, LanesOvertakeEachOther) {
    int overtaken = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        Kit kit;
        kit.seed = seed;
        open(kit);
        int32_t *memory = device<int32_t>({1, 2});
        int32_t first = 0, second = 5;
        gcoll_ticket *in = copy(&first, 0, memory, 1, 4), *out = copy(memory + 1, 1, &second, 0, 4);
        bool in_done = false, out_done = false;
        while (!in_done && !out_done) {
            out_done = is_done(out);
            in_done = is_done(in);
        }
        overtaken += out_done && !in_done;
        if (!in_done)
            finish(in);
        if (!out_done)
            finish(out);
        EXPECT_EQ(first, 1);
        EXPECT_EQ(seen(memory + 1, 1)[0], 5);
        TearDown();
    }
    EXPECT_GT(overtaken, 0);
    EXPECT_LT(overtaken, 20);
}

TEST_F(Pretend, WhatIsBehindAGateWaitsForTheStream) {
    Kit kit;
    kit.devices = 2;
    open(kit);
    for (pretend::Stream *stream : {machine_->new_stream(1), machine_->default_stream(1)}) {
        const std::vector<int32_t> values = {4, 5, 6};
        auto *memory = static_cast<int32_t *>(machine_->allocate(1, 12));
        stream->hold(true);
        machine_->write_later(stream, memory, values.data(), 12);
        gcoll_gate *gate = nullptr;
        void *handle = stream == machine_->default_stream(1) ? nullptr : stream;
        ASSERT_EQ(table.make_gate(a_, 1, handle, &gate), GCOLL_OK);
        std::vector<int32_t> to(3);
        gcoll_ticket *ticket = copy(to.data(), 0, memory, 2, 12, {gate});
        for (int i = 0; i < 100; i++)
            EXPECT_FALSE(is_done(ticket));
        table.put_gate(a_, gate); // the ticket still waits for the gate
        EXPECT_FALSE(is_done(ticket));
        stream->hold(false);
        finish(ticket);
        EXPECT_EQ(to, values);
    }
}

TEST_F(Pretend, AGateIsForWhatTheStreamHadBefore) {
    open(Kit());
    pretend::Stream *stream = machine_->new_stream(0);
    int32_t *memory = device<int32_t>({1});
    gcoll_gate *gate = nullptr;
    ASSERT_EQ(table.make_gate(a_, 0, stream, &gate), GCOLL_OK);
    stream->hold(true);
    const int32_t nine = 9;
    int32_t to = 0;
    machine_->write_later(stream, memory, &nine, 4);
    finish(copy(&to, 0, memory, 1, 4, {gate}));
    EXPECT_EQ(to, 1);
    stream->hold(false);
    table.put_gate(a_, gate);
    ASSERT_EQ(table.make_gate(a_, 0, stream, &gate), GCOLL_OK);
    finish(copy(&to, 0, memory, 1, 4, {gate}));
    EXPECT_EQ(to, 9);
    table.put_gate(a_, gate);
    EXPECT_EQ(table.make_gate(a_, 0, &to, &gate), GCOLL_ERR_INVALID) << "no stream";
}

// ---- Arithmetic ----------------------------------------------------------------------------------------

template <class T> std::vector<T> numbers(uint32_t of, size_t count) {
    std::vector<T> values(count);
    for (size_t i = 0; i < count; i++)
        values[i] = static_cast<T>((i * 7 + of * 13) % 9 + 1);
    return values;
}

template <class T> class PretendFold : public Pretend {};
using Types = testing::Types<int8_t, uint8_t, int32_t, uint32_t, int64_t, uint64_t, float, double>;
TYPED_TEST_SUITE(PretendFold, Types);

template <class T> gcoll_type type_of() {
    if (std::is_same<T, float>::value)
        return GCOLL_FLOAT32;
    if (std::is_same<T, double>::value)
        return GCOLL_FLOAT64;
    const bool is_signed = std::is_signed<T>::value;
    if (sizeof(T) == 1)
        return is_signed ? GCOLL_INT8 : GCOLL_UINT8;
    if (sizeof(T) == 4)
        return is_signed ? GCOLL_INT32 : GCOLL_UINT32;
    return is_signed ? GCOLL_INT64 : GCOLL_UINT64;
}

TYPED_TEST(PretendFold, IsAPlainLoop) {
    using T = TypeParam;
    constexpr size_t kCount = 37;
    Kit kit;
    kit.devices = 2;
    this->open(kit, true);
    const std::vector<T> x = numbers<T>(0, kCount), y = numbers<T>(1, kCount), z = numbers<T>(2, kCount);
    for (gcoll_op op : {GCOLL_SUM, GCOLL_PRODUCT, GCOLL_MIN, GCOLL_MAX, GCOLL_AVG})
        for (bool onto : {false, true}) {
            const void *operands[] = {this->device(x), this->device(y), this->device(z, 1)};
            const uint32_t devices[] = {0, 0, 1};
            gcoll_fold fold = {};
            T *to = static_cast<T *>(const_cast<void *>(operands[1]));
            if (!onto)
                to = static_cast<T *>(this->machine_->allocate(0, kCount * sizeof(T)));
            fold.dst = to;
            fold.operands = operands;
            fold.devices = devices;
            fold.operand_count = 3;
            fold.count = kCount;
            fold.type = type_of<T>();
            fold.op = op;
            gcoll_ticket *ticket = nullptr;
            ASSERT_EQ(table.fold(this->a_, &fold, nullptr, 0, &ticket), GCOLL_OK) << gcoll_last_error();
            bool done = false;
            gcoll_ticket_time time = {};
            while (!done)
                ASSERT_EQ(table.test(this->a_, ticket, &done, &time), GCOLL_OK);
            EXPECT_GT(time.ns, 0);
            std::vector<T> want(kCount);
            for (size_t i = 0; i < kCount; i++)
                want[i] = static_cast<T>(op == GCOLL_PRODUCT ? x[i] * y[i] * z[i]
                                         : op == GCOLL_MIN   ? std::min({x[i], y[i], z[i]})
                                         : op == GCOLL_MAX   ? std::max({x[i], y[i], z[i]})
                                                             : x[i] + y[i] + z[i]);
            EXPECT_EQ(this->seen(to, kCount), want) << gcoll_op_name(op);
        }
    T *data = this->device(x);
    gcoll_ticket *ticket = nullptr;
    ASSERT_EQ(table.divide(this->a_, 0, data, kCount, type_of<T>(), 3, nullptr, 0, &ticket), GCOLL_OK);
    this->finish(ticket);
    std::vector<T> want = x;
    for (T &value : want)
        value = static_cast<T>(value / 3);
    EXPECT_EQ(this->seen(data, kCount), want);
    EXPECT_EQ(this->a_->statistics().folds, 10u);
    EXPECT_EQ(this->a_->statistics().divides, 1u);
}

// ---- Misuse ---------------------------------------------------------------------------------------------

TEST_F(Pretend, NothingIsBegunBeforeWhatItDependsOn) {
    open(Kit());
    int32_t *memory = device<int32_t>({1, 2, 3, 4});
    int32_t host[4] = {};
    a_->hold(true);
    gcoll_ticket *ticket = copy(host, 0, memory, 1, 8), *other = nullptr, *reader = nullptr;
    refused(table.copy(a_, memory + 1, 1, host + 2, 0, 4, nullptr, 0, &other)); // writes what is read
    refused(table.copy(a_, memory + 3, 1, host + 1, 0, 4, nullptr, 0, &other)); // reads what is written
    refused(table.copy(a_, host + 1, 0, memory + 3, 1, 4, nullptr, 0, &other)); // writes what is written
    refused(table.divide(a_, 0, memory, 1, GCOLL_INT32, 2, nullptr, 0, &other));
    reader = copy(host + 2, 0, memory, 1, 8); // reads what is read
    a_->hold(false);
    finish(ticket);
    finish(reader);
    finish(copy(memory + 1, 1, host + 2, 0, 4));
}

TEST_F(Pretend, PlacesAreWhatTheyAreSaidToBe) {
    Kit kit;
    kit.devices = 2;
    kit.peers = false;
    open(kit);
    int32_t *memory = device<int32_t>({1, 2, 3, 4}), *far = device<int32_t>({1}, 1);
    int32_t host[8] = {};
    gcoll_ticket *ticket = nullptr;
    refused(table.copy(a_, host, 1, memory, 1, 4, nullptr, 0, &ticket));
    refused(table.copy(a_, host, 0, memory, 2, 4, nullptr, 0, &ticket));
    refused(table.copy(a_, host, 0, memory, 0, 4, nullptr, 0, &ticket));
    refused(table.copy(a_, host, 0, memory + 2, 1, 12, nullptr, 0, &ticket)); // beyond the end
    refused(table.copy(a_, host, 0, host + 1, 0, 4, nullptr, 0, &ticket));
    refused(table.copy(a_, host, 0, memory, 1, 0, nullptr, 0, &ticket));
    refused(table.copy(a_, far, 2, memory, 1, 4, nullptr, 0, &ticket));
    refused(table.divide(a_, 1, memory, 1, GCOLL_INT32, 2, nullptr, 0, &ticket));
    const void *operands[] = {memory, far};
    const uint32_t devices[] = {0, 1};
    gcoll_fold fold = {};
    fold.dst = memory;
    fold.operands = operands;
    fold.devices = devices;
    fold.operand_count = 2;
    fold.count = 1;
    fold.type = GCOLL_INT32;
    refused(table.fold(a_, &fold, nullptr, 0, &ticket));
    EXPECT_EQ(table.reaches(a_, GCOLL_REACH_PEER, 0, 1), GCOLL_ERR_UNSUPPORTED);
    EXPECT_EQ(table.reaches(a_, GCOLL_REACH_NCCL, 0, 1), GCOLL_ERR_UNSUPPORTED);
}

TEST_F(Pretend, PinnedMemoryStaysUnderWhatIsUnderWay) {
    open(Kit());
    int32_t *memory = device<int32_t>({1});
    void *pinned = nullptr;
    ASSERT_EQ(table.pin(a_, 4, &pinned), GCOLL_OK);
    a_->hold(true);
    gcoll_ticket *ticket = copy(pinned, 0, memory, 1, 4);
    table.unpin(a_, pinned, 4);
    misuse_++;
    table.unpin(a_, pinned, 8);
    misuse_++;
    EXPECT_EQ(machine_->violations().size(), misuse_);
    a_->hold(false);
    finish(ticket);
    table.unpin(a_, pinned, 4);
    bool done = false;
    refused(table.test(a_, ticket, &done, nullptr)); // the ticket is gone
}

// ---- Failures ------------------------------------------------------------------------------------------

TEST_F(Pretend, CallsFailAsTheyAreTold) {
    open(Kit());
    int32_t *memory = device<int32_t>({1});
    int32_t host = 0;
    gcoll_ticket *ticket = nullptr;
    a_->fail_at(Call::kCopy, 1);
    finish(copy(&host, 0, memory, 1, 4));
    EXPECT_EQ(table.copy(a_, &host, 0, memory, 1, 4, nullptr, 0, &ticket), GCOLL_ERR_IO);
    EXPECT_STREQ(gcoll_last_error(), "pretendMemcpyAsync: call 2 fails, as it was told to");
    void *pinned = nullptr;
    a_->fail_at(Call::kPin, 0);
    EXPECT_EQ(table.pin(a_, 4, &pinned), GCOLL_ERR_IO);
    gcoll_gate *gate = nullptr;
    a_->fail_at(Call::kMakeGate, 0);
    EXPECT_EQ(table.make_gate(a_, 0, nullptr, &gate), GCOLL_ERR_IO);
    ticket = copy(&host, 0, memory, 1, 4);
    a_->fail_at(Call::kTest, 0);
    bool done = false;
    EXPECT_EQ(table.test(a_, ticket, &done, nullptr), GCOLL_ERR_IO);
    EXPECT_EQ(a_->statistics().tickets, 0u);
    EXPECT_EQ(table.drain(a_, kPatienceMs), GCOLL_OK); // the copy writes to `host` until then
}

TEST_F(Pretend, ACopyThatNeverEndsIsNotDrained) {
    open(Kit());
    int32_t *memory = device<int32_t>({1});
    int32_t host = 0;
    a_->stick_at(0);
    gcoll_ticket *ticket = copy(&host, 0, memory, 1, 4);
    for (int i = 0; i < 1000; i++)
        ASSERT_FALSE(is_done(ticket));
    EXPECT_EQ(table.drain(a_, 20), GCOLL_ERR_TIMEOUT);
    EXPECT_EQ(static_cast<uint32_t>(host), 0xdbdbdbdb);
    a_->let_go();
    EXPECT_EQ(table.drain(a_, kPatienceMs), GCOLL_OK);
    EXPECT_EQ(host, 1);
}

// ---- What ThreadSanitizer sees -------------------------------------------------------------------------

#if defined(__SANITIZE_THREAD__)
// Accesses memory of an operation with or without waiting for it. Without, the sanitizer ends the program
// with its exit code.
void race(Machine &machine, gcoll_accelerator *a, bool waits) {
    const int32_t one = 1;
    auto *memory = static_cast<int32_t *>(machine.allocate(0, 4));
    machine.write(memory, &one, 4);
    auto *host = static_cast<int32_t *>(machine.allocate(0, 4, GCOLL_MEMORY_PINNED));
    gcoll_ticket *ticket = nullptr;
    table.copy(a, host, 0, memory, 1, 4, nullptr, 0, &ticket);
    bool done = false;
    // The operation has long ended, but a thread that does not ask cannot know.
    for (int64_t end = gcoll_now_ms() + 200; gcoll_now_ms() < end && !(waits && done);)
        if (waits)
            table.test(a, ticket, &done, nullptr);
    const int32_t got = *host;
    exit(got == 1 ? 3 : 4);
}

TEST_F(PretendDeathTest, WhoDoesNotAskRaces) {
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    open(Kit());
    EXPECT_EXIT(race(*machine_, a_, true), testing::ExitedWithCode(3), "");
    EXPECT_EXIT(race(*machine_, a_, false), testing::ExitedWithCode(66), "data race");
}
#endif

} // namespace
