// The executor of the accelerator "cuda" over the tests' own runtime: what is done, in which order, on which
// device, and what remains.
#include "test/cuda/cuda_executor_support.h"

#include <algorithm>
#include <chrono>
#include <random>

namespace {

using namespace cuda_executor;

using CudaExecutor = Executor;

TEST_F(CudaExecutor, OpeningTouchesNoDevice) {
    EXPECT_EQ(cuda.device_count(a), 3u);
    EXPECT_TRUE(fake_cuda::touched().empty());
    int *x = device_array<int>(2, {1});
    gcoll_place place = {};
    ASSERT_EQ(cuda.locate(a, x, &place), GCOLL_OK);
    EXPECT_TRUE(fake_cuda::touched().empty());
    EXPECT_EQ(finish(copy(pin(4), 0, x, 3, 4)), GCOLL_OK);
    EXPECT_EQ(fake_cuda::touched(), (std::set<int>{0, 2})); // 0 is the caller's, made current again
}

TEST(CudaOpen, SaysInTheDriversWordsWhatIsMissing) {
    gcoll_accelerator *a = nullptr;
    fake_cuda::reset(0, 1);
    EXPECT_EQ(cuda.open(nullptr, &a), GCOLL_ERR_UNSUPPORTED);
    expect_text("there is no device");
    fake_cuda::fail("cudaGetDeviceCount", cudaErrorNoDevice);
    EXPECT_EQ(cuda.open(nullptr, &a), GCOLL_ERR_UNSUPPORTED);
    expect_text("cuda: cudaGetDeviceCount: no device, says the fake (cudaErrorOfTheFake)");
    fake_cuda::fail("cudaGetDeviceCount", cudaErrorInitializationError); // in a child of fork
    EXPECT_EQ(cuda.open(nullptr, &a), GCOLL_ERR_UNSUPPORTED);
    EXPECT_EQ(fake_cuda::pending_error(), cudaSuccess);
    EXPECT_EQ(a, nullptr);
    cuda.close(nullptr);
}

TEST_F(CudaExecutor, CopiesEveryWayWhenTheRuntimeGetsToIt) {
    const std::vector<int> values = {1, 2, 3, 4, 5, 6, 7};
    const size_t bytes = values.size() * sizeof(int);
    int *d0 = device_array<int>(0, std::vector<int>(7)), *d1 = device_array<int>(1, values);
    int *d1b = device_array<int>(1, std::vector<int>(7));
    int *host = static_cast<int *>(pin(bytes));
    memset(host, 0, bytes);
    fake_cuda::freeze(true);
    gcoll_ticket *ticket = copy(host, 0, d1, 2, bytes);
    bool done = true;
    ASSERT_EQ(cuda.test(a, ticket, &done, nullptr), GCOLL_OK);
    EXPECT_FALSE(done);
    EXPECT_EQ(host[0], 0);
    fake_cuda::freeze(false);
    EXPECT_EQ(finish(ticket), GCOLL_OK);
    EXPECT_EQ(values_of(host, 7), values);
    EXPECT_EQ(finish(copy(d0, 1, host, 0, bytes)), GCOLL_OK);
    EXPECT_EQ(values_of(d0, 7), values);
    EXPECT_EQ(finish(copy(d1b, 2, d1, 2, bytes)), GCOLL_OK);
    EXPECT_EQ(values_of(d1b, 7), values);
    memset(d0, 0, bytes);
    EXPECT_EQ(finish(copy(d0, 1, d1b, 2, bytes)), GCOLL_OK);
    EXPECT_EQ(values_of(d0, 7), values);
    EXPECT_EQ(fake_cuda::calls("cudaMemcpyPeerAsync"), 1);
    EXPECT_EQ(finish(copy(d0, 1, d1b, 2, 0)), GCOLL_OK); // nothing, done in its turn
    cuda.unpin(a, host, bytes);
}

TEST_F(CudaExecutor, RefusesMemoriesThatAreNone) {
    int *d0 = device_array<int>(0, {1}), host = 0;
    gcoll_ticket *ticket = nullptr;
    EXPECT_EQ(cuda.copy(a, &host, 0, &host, 0, 4, nullptr, 0, &ticket), GCOLL_ERR_INVALID);
    EXPECT_EQ(cuda.copy(a, &host, 0, d0, 4, 4, nullptr, 0, &ticket), GCOLL_ERR_INVALID);
    expect_text("a copy from device 3 to host memory, of 3 devices");
    EXPECT_EQ(cuda.divide(a, 3, d0, 1, GCOLL_INT32, 2, nullptr, 0, &ticket), GCOLL_ERR_INVALID);
    EXPECT_EQ(cuda.divide(a, 0, d0, 1, GCOLL_INT32, 0, nullptr, 0, &ticket), GCOLL_ERR_INVALID);
    gcoll_gate *gate = nullptr;
    EXPECT_EQ(cuda.make_gate(a, 3, nullptr, &gate), GCOLL_ERR_INVALID);
    // What is said to be device memory and is not, the runtime finds out.
    EXPECT_EQ(cuda.copy(a, pin(4), 0, &host, 1, 4, nullptr, 0, &ticket), GCOLL_ERR_INVALID);
    expect_text("cudaMemcpyAsync of 4 bytes from device 0 to host memory");
    EXPECT_EQ(ticket, nullptr);
}

// The caller's kernels write the buffer late; gcoll reads it, then writes it.
TEST_F(CudaExecutor, GatesOrderWhatIsBegunAfterTheCallersStreams) {
    int without = 0;
    for (unsigned seed = 0; seed < 200; seed++) {
        end();
        begin(seed, false);
        for (bool gated : {true, false}) {
            int *x = device_array<int>(1, {0}), *y = device_array<int>(1, {0});
            cudaStream_t caller = fake_cuda::make_stream(1);
            for (int i = 1; i <= 5; i++) {
                fake_cuda::enqueue(
                    1, caller, [x, i] { *x = i; });
                fake_cuda::enqueue(1, nullptr, [y, i] { *y = 10 * i; });
            }
            std::vector<gcoll_gate *> gates;
            if (gated)
                gates = {gate(1, caller), gate(1, nullptr)};
            int *host = static_cast<int *>(pin(2 * sizeof(int)));
            gcoll_ticket *first = copy(host, 0, x, 2, sizeof(int), gates);
            gcoll_ticket *second = copy(host + 1, 0, y, 2, sizeof(int), gates);
            EXPECT_EQ(finish(second), GCOLL_OK);
            EXPECT_EQ(finish(first), GCOLL_OK);
            if (gated)
                EXPECT_EQ(values_of(host, 2), (std::vector<int>{5, 50}));
            else
                without += host[0] != 5 || host[1] != 50;
            for (gcoll_gate *g : gates)
                cuda.put_gate(a, g);
            cuda.unpin(a, host, 2 * sizeof(int));
            fake_cuda::run_all();
        }
    }
    EXPECT_GT(without, 20) << "this runtime finds no wrong order, so the test says nothing";
}

TEST_F(CudaExecutor, GatesOrderFoldsAndDivisionsToo) {
    for (unsigned seed = 0; seed < 100; seed++) {
        end();
        begin(seed, false);
        int *x = device_array<int>(1, {0}), *y = device_array<int>(1, {7}), *z = device_array<int>(1, {0});
        cudaStream_t caller = fake_cuda::make_stream(1);
        fake_cuda::enqueue(
            1, caller, [x] { *x = 1; });
        fake_cuda::enqueue(1, caller, [x, z] { *x = 13, *z = 90; });
        gcoll_gate *g = gate(1, caller);
        Fold fold(1, x, 1);
        fold.add(x, 1).add(y, 1);
        gcoll_ticket *folded = nullptr, *divided = nullptr;
        ASSERT_EQ(cuda.fold(a, fold.get(), &g, 1, &folded), GCOLL_OK) << gcoll_last_error();
        ASSERT_EQ(cuda.divide(a, 1, z, 1, GCOLL_INT32, 4, &g, 1, &divided), GCOLL_OK);
        cuda.put_gate(a, g);
        EXPECT_EQ(finish(folded), GCOLL_OK);
        EXPECT_EQ(finish(divided), GCOLL_OK);
        EXPECT_EQ(*x, 20);
        EXPECT_EQ(*z, 22);
    }
}

// What the caller queues after the call is not waited for, and a gate's event is used again at once.
TEST_F(CudaExecutor, GatesStandForTheirMoment) {
    int *x = device_array<int>(0, {1}), *host = static_cast<int *>(pin(sizeof(int)));
    cudaStream_t caller = fake_cuda::make_stream(0), other = fake_cuda::make_stream(0);
    fake_cuda::enqueue(0, caller, [x] { *x = 2; });
    gcoll_gate *first = gate(0, caller);
    gcoll_ticket *before = copy(host, 0, x, 1, sizeof(int), {first});
    cuda.put_gate(a, first);
    gcoll_gate *second = gate(0, other);
    const size_t events = fake_cuda::live_events();
    fake_cuda::enqueue(0, other, [] {});
    EXPECT_EQ(finish(before), GCOLL_OK);
    EXPECT_EQ(*host, 2);
    fake_cuda::run_all();
    fake_cuda::hold(other, true);
    fake_cuda::enqueue(0, other, [x] { *x = 3; });
    EXPECT_EQ(finish(copy(host, 0, x, 1, sizeof(int), {second})), GCOLL_OK);
    EXPECT_EQ(*host, 2);
    EXPECT_EQ(fake_cuda::live_events(), events);
    fake_cuda::hold(other, false);
    cuda.put_gate(a, second);
    cuda.put_gate(a, nullptr);
}

TEST_F(CudaExecutor, GatesAreAskedWhetherTheyAreOpen) {
    ASSERT_EQ(cudaSetDevice(2), cudaSuccess);
    int *x = device_array<int>(1, {0});
    cudaStream_t caller = fake_cuda::make_stream(1);
    fake_cuda::hold(caller, true);
    fake_cuda::enqueue(1, caller, [x] { *x = 7; });
    gcoll_gate *g = gate(1, caller);
    bool done = true;
    for (int i = 0; i < 20; i++) {
        EXPECT_EQ(cuda.test_gate(a, g, &done), GCOLL_OK);
        EXPECT_FALSE(done);
        EXPECT_EQ(fake_cuda::pending_error(), cudaSuccess);
    }
    fake_cuda::hold(caller, false);
    fake_cuda::run_all();
    fake_cuda::fail("cudaEventQuery", cudaErrorIllegalAddress);
    EXPECT_EQ(cuda.test_gate(a, g, &done), GCOLL_ERR_IO);
    EXPECT_FALSE(done);
    EXPECT_NE(std::string(gcoll_last_error()).find("cudaEventQuery"), std::string::npos)
        << gcoll_last_error();
    EXPECT_EQ(cuda.test_gate(a, g, &done), GCOLL_OK);
    EXPECT_TRUE(done);
    EXPECT_EQ(*x, 7);
    EXPECT_EQ(fake_cuda::current_device(), 2);
    EXPECT_EQ(fake_cuda::touched().count(0), 0u) << "asking is about device 1";
    cuda.put_gate(a, g);
}

TEST_F(CudaExecutor, TicketsAndGatesComeFromPools) {
    int *x = device_array<int>(0, {1, 2, 3, 4}), *host = static_cast<int *>(pin(4 * sizeof(int)));
    size_t events = 0;
    for (int round = 0; round < 200; round++) {
        std::vector<gcoll_ticket *> tickets;
        gcoll_gate *g = gate(0, nullptr);
        for (int i = 0; i < 4; i++)
            tickets.push_back(copy(host + i, 0, x + i, 1, sizeof(int), {g}));
        cuda.put_gate(a, g);
        std::rotate(tickets.begin(), tickets.begin() + round % 4, tickets.end());
        for (gcoll_ticket *t : tickets)
            EXPECT_EQ(finish(t), GCOLL_OK);
        if (round == 0)
            events = fake_cuda::live_events();
    }
    EXPECT_EQ(fake_cuda::live_events(), events);
    EXPECT_EQ(fake_cuda::calls("cudaStreamCreateWithFlags"), 4);
}

TEST_F(CudaExecutor, FoldsFromTheLeftInAsManyLaunchesAsItTakes) {
    const size_t count = 11;
    for (uint32_t n : {1u, 2u, 3u, 63u, 64u, 65u, 127u, 128u, 200u}) {
        std::vector<float> sum(count);
        float *dst = device_array<float>(1, sum);
        Fold fold(1, dst, count);
        fold.fold.type = GCOLL_FLOAT32;
        fold.fold.op = GCOLL_AVG; // adds
        for (uint32_t k = 0; k < n; k++) {
            std::vector<float> x(count);
            for (size_t i = 0; i < count; i++)
                x[i] = 1.0F / static_cast<float>(k + i + 1);
            for (size_t i = 0; i < count; i++)
                sum[i] = k == 0 ? x[i] : sum[i] + x[i];
            fold.add(device_array<float>(1, x), 1);
        }
        const int launches = fake_cuda::calls("cudaLaunchKernel");
        gcoll_ticket *ticket = nullptr;
        ASSERT_EQ(cuda.fold(a, fold.get(), nullptr, 0, &ticket), GCOLL_OK) << gcoll_last_error();
        EXPECT_EQ(finish(ticket), GCOLL_OK);
        EXPECT_EQ(values_of(dst, count), sum) << n;
        EXPECT_EQ(fake_cuda::calls("cudaLaunchKernel") - launches,
                  n <= 64 ? 1 : 1 + static_cast<int>((n - 64 + 62) / 63));
    }
}

TEST_F(CudaExecutor, FoldsIntoAnOperand) {
    int *x = device_array<int>(0, {1}), *y = device_array<int>(0, {20});
    Fold fold(0, y, 1);
    fold.add(x, 0).add(y, 0);
    gcoll_ticket *ticket = nullptr;
    ASSERT_EQ(cuda.fold(a, fold.get(), nullptr, 0, &ticket), GCOLL_OK);
    EXPECT_EQ(finish(ticket), GCOLL_OK);
    EXPECT_EQ(*y, 21);
    for (int i = 0; i < 63; i++)
        fold.add(x, 0);
    ticket = nullptr;
    ASSERT_EQ(cuda.fold(a, fold.get(), nullptr, 0, &ticket), GCOLL_OK); // the second of 65
    EXPECT_EQ(finish(ticket), GCOLL_OK);
    EXPECT_EQ(*y, 21 + 64);
    fold.fold.dst = device_array<int>(0, {0});
    fold.add(fold.fold.dst, 0);
    EXPECT_EQ(cuda.fold(a, fold.get(), nullptr, 0, &ticket), GCOLL_ERR_UNSUPPORTED); // the 66th
    expect_text("one of the first 64");
}

TEST_F(CudaExecutor, RefusesFoldsThatAreNone) {
    int *x = device_array<int>(0, {1});
    gcoll_ticket *ticket = nullptr;
    Fold fold(0, x, 1);
    fold.add(x, 0).add(x, 0);
    fold.fold.op = GCOLL_USER;
    EXPECT_EQ(cuda.fold(a, fold.get(), nullptr, 0, &ticket), GCOLL_ERR_UNSUPPORTED);
    fold.fold.op = GCOLL_BAND;
    fold.fold.type = GCOLL_FLOAT32;
    EXPECT_EQ(cuda.fold(a, fold.get(), nullptr, 0, &ticket), GCOLL_ERR_INVALID);
    fold.fold.type = GCOLL_INT32;
    fold.devices[1] = 3;
    EXPECT_EQ(cuda.fold(a, fold.get(), nullptr, 0, &ticket), GCOLL_ERR_INVALID);
    fold.devices[1] = 0;
    fold.operands.clear();
    EXPECT_EQ(cuda.fold(a, fold.get(), nullptr, 0, &ticket), GCOLL_ERR_INVALID);
}

TEST_F(CudaExecutor, ReadsPeersWhereTheyCanBeRead) {
    int *x = device_array<int>(0, {1}), *y = device_array<int>(2, {20}), *z = device_array<int>(0, {0});
    Fold fold(0, z, 1);
    fold.add(x, 0).add(y, 2);
    gcoll_ticket *ticket = nullptr;
    fake_cuda::allow_peers(false);
    EXPECT_EQ(cuda.reaches(a, GCOLL_REACH_PEER, 0, 2), GCOLL_ERR_UNSUPPORTED);
    expect_text("device 0 cannot read the memory of 2");
    EXPECT_EQ(cuda.fold(a, fold.get(), nullptr, 0, &ticket), GCOLL_ERR_UNSUPPORTED);
    EXPECT_EQ(cuda.reaches(a, GCOLL_REACH_PEER, 1, 1), GCOLL_OK);
    fake_cuda::allow_peers(true);
    EXPECT_EQ(cuda.reaches(a, GCOLL_REACH_PEER, 0, 2), GCOLL_OK);
    EXPECT_EQ(cuda.reaches(a, GCOLL_REACH_PEER, 0, 2), GCOLL_OK);
    EXPECT_EQ(fake_cuda::calls("cudaDeviceEnablePeerAccess"), 1);
    ASSERT_EQ(cuda.fold(a, fold.get(), nullptr, 0, &ticket), GCOLL_OK);
    EXPECT_EQ(finish(ticket), GCOLL_OK);
    EXPECT_EQ(*z, 21);
    cudaSetDevice(1); // the caller has enabled it
    cudaDeviceEnablePeerAccess(0, 0);
    cudaSetDevice(0);
    EXPECT_EQ(cuda.reaches(a, GCOLL_REACH_PEER, 1, 0), GCOLL_OK);
    EXPECT_EQ(fake_cuda::pending_error(), cudaSuccess);
    EXPECT_EQ(cuda.reaches(a, GCOLL_REACH_PEER, 0, 3), GCOLL_ERR_INVALID);
}

TEST_F(CudaExecutor, TheCallersDeviceStaysCurrent) {
    ASSERT_EQ(cudaSetDevice(2), cudaSuccess);
    int *x = device_array<int>(0, {6, 6}), *y = device_array<int>(1, {5, 5}),
        *host = static_cast<int *>(pin(64));
    gcoll_place place = {};
    EXPECT_EQ(cuda.locate(a, x, &place), GCOLL_OK);
    gcoll_gate *g = gate(1, nullptr);
    EXPECT_EQ(fake_cuda::current_device(), 2);
    gcoll_ticket *tickets[5] = {copy(host, 0, x, 1, 8, {g}), copy(x, 1, y, 2, 8)};
    Fold fold(0, x, 2);
    fold.add(x, 0).add(y, 1);
    EXPECT_EQ(cuda.fold(a, fold.get(), &g, 1, &tickets[2]), GCOLL_OK);
    EXPECT_EQ(fake_cuda::current_device(), 2);
    EXPECT_EQ(cuda.divide(a, 1, y, 2, GCOLL_INT32, 2, nullptr, 0, &tickets[3]), GCOLL_OK);
    EXPECT_EQ(fake_cuda::current_device(), 2);
    void *more = pin(100 << 20);
    EXPECT_EQ(fake_cuda::current_device(), 2);
    cuda.unpin(a, more, 100 << 20);
    cuda.put_gate(a, g);
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(finish(tickets[i]), GCOLL_OK);
        EXPECT_EQ(fake_cuda::current_device(), 2);
    }
    EXPECT_EQ(cuda.drain(a, 1000), GCOLL_OK);
    EXPECT_EQ(fake_cuda::current_device(), 2);
    end();
    EXPECT_EQ(fake_cuda::current_device(), 2);
}

TEST_F(CudaExecutor, TimesAreTakenIfAskedFor) {
    int *x = device_array<int>(0, {1}), *host = static_cast<int *>(pin(4));
    gcoll_ticket_time time = {-1};
    EXPECT_EQ(finish(copy(host, 0, x, 1, 4), &time), GCOLL_OK);
    EXPECT_EQ(time.ns, 0);
    EXPECT_EQ(fake_cuda::calls("cudaEventElapsedTime"), 0);
    end();
    begin(1, true);
    x = device_array<int>(0, {1}), host = static_cast<int *>(pin(4));
    EXPECT_EQ(finish(copy(host, 0, x, 1, 4), &time), GCOLL_OK);
    EXPECT_GE(time.ns, 1000000); // one step of the fake is a millisecond
    EXPECT_LE(time.ns, 3000000);
}

TEST_F(CudaExecutor, LocatesWhateverItIsGiven) {
    gcoll_place place = {};
    int local = 0;
    const struct {
        const void *address;
        gcoll_memory_kind kind;
        uint32_t device;
    } cases[] = {
        {&local, GCOLL_MEMORY_HOST, 0},
        {nullptr, GCOLL_MEMORY_HOST, 0},
        {pin(8), GCOLL_MEMORY_PINNED, 0},
        {fake_cuda::allocate(2, 8), GCOLL_MEMORY_DEVICE, 2},
        {fake_cuda::allocate(1, 8, cudaMemoryTypeManaged), GCOLL_MEMORY_MANAGED, 1},
    };
    for (const auto &c : cases) {
        ASSERT_EQ(cuda.locate(a, c.address, &place), GCOLL_OK) << gcoll_last_error();
        EXPECT_EQ(place.kind, c.kind);
        EXPECT_EQ(place.device, c.device);
    }
    fake_cuda::fail("cudaPointerGetAttributes", cudaErrorInvalidValue);
    ASSERT_EQ(cuda.locate(a, &local, &place), GCOLL_OK);
    EXPECT_EQ(place.kind, GCOLL_MEMORY_HOST);
    EXPECT_EQ(cuda.locate(a, fake_cuda::allocate(7, 8), &place), GCOLL_ERR_UNSUPPORTED);
    expect_text("says device 7, of 3 devices");
}

TEST_F(CudaExecutor, PinnedMemoryIsKeptWithinItsBound) {
    constexpr size_t kept = 64 << 20;
    struct Held {
        void *memory;
        size_t bytes;
    };
    std::vector<Held> held;
    std::mt19937 random(5);
    size_t used = 0, most = 0, first_calls = 0;
    for (int i = 0; i < 3000; i++) {
        if (held.empty() || (random() % 2 && held.size() < 6)) {
            size_t bytes = random() % 4 == 0 ? random() % (40 << 20) : random() % (1 << 20);
            void *memory = pin(bytes);
            EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
            held.push_back({memory, bytes});
            used += 2 * bytes + (128 << 10); // a block may be twice as large as asked for, and has grains
            most = std::max(most, used);
        } else {
            Held h = held[random() % held.size()];
            held.erase(
                std::find_if(held.begin(), held.end(), [&](const Held &x) { return x.memory == h.memory; }));
            cuda.unpin(a, h.memory, h.bytes);
            used -= 2 * h.bytes + (128 << 10);
        }
        ASSERT_LE(fake_cuda::live_pinned_bytes(), std::max(kept, most));
    }
    for (const Held &h : held)
        cuda.unpin(a, h.memory, h.bytes);
    first_calls = static_cast<size_t>(fake_cuda::calls("cudaHostAlloc"));
    for (int i = 0; i < 100; i++) // the same again and again: pinned once at most
        cuda.unpin(a, pin(3 << 20), 3 << 20);
    EXPECT_LE(static_cast<size_t>(fake_cuda::calls("cudaHostAlloc")), first_calls + 1);
    void *large = pin(300 << 20);
    cuda.unpin(a, large, 300 << 20);
    EXPECT_EQ(pin(300 << 20), large); // more than is kept, but it was used at once
    EXPECT_LE(fake_cuda::live_pinned_bytes(), size_t{400} << 20);
}

TEST_F(CudaExecutor, PinnedMemoryGivesWayWhenThereIsNoMore) {
    cuda.unpin(a, pin(10 << 20), 10 << 20);
    fake_cuda::fail("cudaHostAlloc", cudaErrorMemoryAllocation);
    void *memory = pin(30 << 20); // the idle block was given back, and it was tried again
    EXPECT_EQ(fake_cuda::live_pinned_bytes(), size_t{30} << 20);
    fake_cuda::fail("cudaHostAlloc", cudaErrorMemoryAllocation);
    void *none = nullptr;
    EXPECT_EQ(cuda.pin(a, 30 << 20, &none), GCOLL_ERR_NO_MEMORY);
    expect_text("cudaHostAlloc of 31457280 bytes: words of the fake (cudaErrorMemoryAllocation)");
    EXPECT_EQ(cuda.pin(a, UINT64_MAX, &none), GCOLL_ERR_NO_MEMORY);
    EXPECT_EQ(none, nullptr);
    EXPECT_NE(memory, nullptr);
}

TEST_F(CudaExecutor, DrainWaitsForAllThatWasBegunAndNotForEver) {
    int *x = device_array<int>(0, {4}), *y = device_array<int>(1, {9}), *host = static_cast<int *>(pin(64));
    memset(host, 0, 64);
    EXPECT_EQ(cuda.drain(a, 0), GCOLL_OK);
    fake_cuda::freeze(true);
    copy(host, 0, x, 1, 4);
    copy(host + 1, 0, y, 2, 4);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(cuda.drain(a, 30), GCOLL_ERR_TIMEOUT);
    expect_text("after 30 ms");
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(25));
    EXPECT_EQ(cuda.drain(a, -1), GCOLL_ERR_TIMEOUT); // asks once
    fake_cuda::freeze(false);
    EXPECT_EQ(cuda.drain(a, 10000), GCOLL_OK);
    EXPECT_EQ(values_of(host, 2), (std::vector<int>{4, 9}));
    const size_t events = fake_cuda::live_events();
    EXPECT_EQ(finish(copy(host, 0, x, 1, 4)), GCOLL_OK); // by a ticket that was forgotten
    EXPECT_EQ(fake_cuda::live_events(), events);
}

TEST_F(CudaExecutor, DrainTakesWhatFailedForEnded) {
    int *x = device_array<int>(0, {4}), *host = static_cast<int *>(pin(4));
    copy(host, 0, x, 1, 4);
    fake_cuda::run_all();
    fake_cuda::fail("cudaStreamQuery", cudaErrorIllegalAddress);
    EXPECT_EQ(cuda.drain(a, 1000), GCOLL_OK);
}

// What a device may still write is left to it; all else goes.
TEST_F(CudaExecutor, ClosingDoesNotWait) {
    int *x = device_array<int>(0, {4}), *host = static_cast<int *>(pin(4));
    fake_cuda::freeze(true);
    copy(host, 0, x, 1, 4);
    cuda.close(a);
    a = nullptr;
    EXPECT_EQ(fake_cuda::live_events(), 0u);
    EXPECT_EQ(fake_cuda::live_streams(), 0u);
    EXPECT_GT(fake_cuda::live_pinned_bytes(), 0u);
    fake_cuda::run_all();
    EXPECT_EQ(*host, 4);
}

} // namespace
