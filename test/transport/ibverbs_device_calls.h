// Calls whose buffers lie in the memory of devices, or in part: what they are given, what must come of them,
// and by which form they are made.
#ifndef GCOLL_TEST_IBVERBS_DEVICE_CALLS_H
#define GCOLL_TEST_IBVERBS_DEVICE_CALLS_H

#include <algorithm>

#include "gcoll/plan.h"
#include "test/kit/harness.h"
#include "test/kit/pretend_device.h"

namespace ibverbs_devices {

using pretend::Machine;
using Bytes = std::vector<uint8_t>;

constexpr uint32_t kRanks = 3;
constexpr uint64_t kEager = 8128; // the largest message that goes by slots, where it may

inline uint8_t value(uint32_t rank, uint64_t i, uint32_t run) {
    return static_cast<uint8_t>((i + 1) * 2654435761u >> 13) ^ static_cast<uint8_t>(rank * 59 + run * 101);
}

struct Call {
    gcoll_collective collective;
    std::string algorithm;
    uint64_t bytes = 0; // of a block, or of the vector
    uint32_t number = 0, root = 0;

    bool has_blocks() const { return collective != GCOLL_BROADCAST && collective != GCOLL_PAIRWISE_EXCHANGE; }
    uint64_t total() const { return bytes * (has_blocks() ? kRanks : 1); }
    uint64_t in_bytes(uint32_t rank) const {
        switch (collective) {
        case GCOLL_ALLGATHER:
        case GCOLL_GATHER:
            return bytes;
        case GCOLL_SCATTER:
            return rank == root ? total() : 0;
        default:
            return total();
        }
    }
    uint64_t out_bytes(uint32_t rank) const {
        if (collective == GCOLL_GATHER)
            return rank == root ? total() : 0;
        return collective == GCOLL_SCATTER ? bytes : total();
    }
    uint8_t expected(uint32_t rank, uint64_t i, uint32_t run) const {
        const uint32_t block = bytes > 0 ? static_cast<uint32_t>(i / bytes) : 0;
        const uint64_t inner = bytes > 0 ? i % bytes : 0;
        switch (collective) {
        case GCOLL_BROADCAST:
            return value(root, i, run);
        case GCOLL_SCATTER:
            return value(root, rank * bytes + i, run);
        case GCOLL_ALLTOALL:
            return value(block, rank * bytes + inner, run);
        case GCOLL_PAIRWISE_EXCHANGE: {
            const uint32_t peer = rank ^ (i < gcoll_chunk_begin(bytes, 2, 1) ? 1 : 2);
            return value(peer < kRanks ? peer : rank, i, run);
        }
        default:
            return value(block, inner, run);
        }
    }
    std::string told(uint32_t rank) const {
        return std::string(gcoll_collective_name(collective)) + " of " + std::to_string(bytes) + " by " +
               algorithm + ", call " + std::to_string(number) + ", rank " + std::to_string(rank);
    }
};

// In the memory of a device, or of the host.
class Buffer {
  public:
    Buffer(Machine &machine, uint64_t bytes, bool on_device, gcoll_memory_kind kind)
        : machine_(machine), bytes_(bytes), host_(on_device ? 0 : bytes + 1) {
        if (on_device) // not where a page begins
            whole_ = static_cast<uint8_t *>(machine.allocate(0, bytes + kShift, kind));
    }
    ~Buffer() { // kernels may still be at it
        const pretend::Task *last = machine_.default_stream(0)->latest();
        while (last && !last->done.load(std::memory_order_acquire))
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        machine_.free(whole_);
    }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    uint8_t *data() { return bytes_ == 0 ? nullptr : whole_ ? whole_ + kShift : host_.data(); }
    bool is_on_device() const { return whole_ && bytes_ > 0; }
    // By a kernel, late: poison stands there before.
    void write(const Bytes &bytes) {
        if (is_on_device()) {
            machine_.write(data(), Bytes(bytes_, pretend::kPoison).data(), bytes_);
            machine_.write_later(machine_.default_stream(0), data(), bytes.data(), bytes_);
        } else {
            std::copy(bytes.begin(), bytes.end(), host_.begin());
        }
    }
    Bytes read() {
        Bytes bytes(bytes_);
        if (is_on_device())
            machine_.read(data(), bytes.data(), bytes_);
        else
            std::copy_n(host_.begin(), bytes_, bytes.begin());
        return bytes;
    }
    // A kernel of the caller's reads it: until then it must not change.
    void read_later(Bytes &to) {
        to.assign(bytes_, 0);
        if (is_on_device())
            machine_.read_later(machine_.default_stream(0), data(), to.data(), bytes_);
    }

  private:
    static constexpr uint64_t kShift = 48;
    Machine &machine_;
    const uint64_t bytes_;
    Bytes host_;
    uint8_t *whole_ = nullptr;
};

// A rank's part of a call.
class Part {
  public:
    Part(Machine &machine, const Call &call, uint32_t rank, gcoll_memory_kind kind = GCOLL_MEMORY_DEVICE)
        : call_(call), rank_(rank), in_(machine, is_moved() ? 0 : call.in_bytes(rank), lies(0), kind),
          out_(machine, call.out_bytes(rank), lies(1), kind) {}

    gcoll_status run(gcoll_context *context) {
        gcoll_operation *operation = nullptr;
        gcoll_request *request = nullptr;
        prepare(0);
        if (call_.number % 3 == 0)
            return begin(context, nullptr, nullptr);
        if (call_.number % 3 == 1) {
            const gcoll_status status = begin(context, &request, nullptr);
            return status == GCOLL_OK ? gcoll_request_wait(&request) : status;
        }
        gcoll_status status = begin(context, nullptr, &operation);
        if (status == GCOLL_OK)
            status = gcoll_operation_run(operation);
        if (status == GCOLL_OK) {
            check();
            prepare(1);
            status = gcoll_operation_run(operation);
        }
        gcoll_operation_destroy(operation);
        return status;
    }

    void check() {
        const Bytes got = out_.read();
        Bytes want(got.size());
        for (uint64_t i = 0; i < want.size(); i++)
            want[i] = call_.expected(rank_, i, run_);
        if (got != want) {
            const auto at = std::mismatch(want.begin(), want.end(), got.begin());
            ADD_FAILURE() << call_.told(rank_) << ", run " << run_ << ": wrong from byte "
                          << at.first - want.begin() << " of " << want.size()
                          << " on: " << static_cast<int>(*at.second) << " for "
                          << static_cast<int>(*at.first);
        }
        if (out_.is_on_device() && !is_moved()) {
            EXPECT_EQ(before_, Bytes(before_.size(), 0x5a))
                << call_.told(rank_) << ": written before the caller's stream was done with it";
        }
    }
    bool is_on_device() const { return in_.is_on_device() || out_.is_on_device(); }

  private:
    bool is_moved() const { return call_.collective == GCOLL_BROADCAST; } // in place
    // Mostly on devices, sometimes not on all ranks, or not all.
    bool lies(int out) const {
        switch (call_.number % 8) {
        case 3:
            return rank_ != 1;
        case 5:
            return (rank_ + static_cast<uint32_t>(out)) % 2 == 0;
        default:
            return true;
        }
    }

    void prepare(uint32_t run) {
        run_ = run;
        Bytes input(call_.in_bytes(rank_));
        for (uint64_t i = 0; i < input.size(); i++)
            input[i] = value(rank_, i, run);
        if (is_moved()) {
            out_.write(input);
            return;
        }
        in_.write(input);
        out_.write(Bytes(call_.out_bytes(rank_), 0x5a));
        out_.read_later(before_);
    }

#define BEGIN(NAME, ...)                                                                                     \
    (request     ? gcoll_##NAME##_start(context, __VA_ARGS__, request)                                       \
     : operation ? gcoll_##NAME##_create(context, __VA_ARGS__, operation)                                    \
                 : gcoll_##NAME(context, __VA_ARGS__))
    gcoll_status begin(gcoll_context *context, gcoll_request **request, gcoll_operation **operation) {
        gcoll_broadcast_options broadcast;
        gcoll_broadcast_options_init(&broadcast);
        gcoll_collective_options options;
        gcoll_collective_options_init(&options);
        broadcast.algorithm = options.algorithm = call_.algorithm.c_str();
        const gcoll_type type = GCOLL_UINT8;
        const void *in = in_.data();
        void *out = out_.data();
        switch (call_.collective) {
        case GCOLL_BROADCAST:
            return BEGIN(broadcast, out, call_.bytes, type, call_.root, &broadcast);
        case GCOLL_ALLGATHER:
            return BEGIN(allgather, in, out, call_.bytes, type, &options);
        case GCOLL_GATHER:
            return BEGIN(gather, in, out, call_.bytes, type, call_.root, &options);
        case GCOLL_SCATTER:
            return BEGIN(scatter, in, out, call_.bytes, type, call_.root, &options);
        case GCOLL_ALLTOALL:
            return BEGIN(alltoall, in, out, call_.bytes, type, &options);
        default:
            return BEGIN(pairwise_exchange, in, out, call_.bytes, type, 0, &options);
        }
    }
#undef BEGIN

    const Call &call_;
    const uint32_t rank_;
    Bytes before_; // kernels write it until the buffers are gone
    Buffer in_, out_;
    uint32_t run_ = 0;
};

inline std::vector<Call> all_calls() {
    static const gcoll_collective collectives[] = {GCOLL_BROADCAST, GCOLL_ALLGATHER, GCOLL_GATHER,
                                                   GCOLL_SCATTER,   GCOLL_ALLTOALL,  GCOLL_PAIRWISE_EXCHANGE};
    std::vector<Call> calls;
    const auto add = [&](gcoll_collective collective, const std::string &algorithm, uint64_t bytes) {
        const auto number = static_cast<uint32_t>(calls.size());
        const bool has_root =
            collective == GCOLL_BROADCAST || collective == GCOLL_GATHER || collective == GCOLL_SCATTER;
        calls.push_back({collective, algorithm, bytes, number, has_root ? number % kRanks : 0});
    };
    for (const gcoll_collective collective : collectives)
        for (const std::string &algorithm : gcoll_test::algorithms(gcoll_collective_name(collective))) {
            for (const uint64_t bytes : {uint64_t{0}, uint64_t{4}, kEager, kEager + 1})
                add(collective, algorithm, bytes);
            if (calls.size() % 3 == 0)
                add(collective, algorithm + ":segment=3Ki", 20001);
        }
    for (const gcoll_collective collective : collectives)
        add(collective, "auto", uint64_t{1} << 20);
    return calls;
}

} // namespace ibverbs_devices

#endif
