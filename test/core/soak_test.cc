// test/core/soak_test.cc - random collectives of random sizes, always two in flight, checked against plain
// loops.
//
// Environment: GCOLL_TEST_SOAK is the number of collectives; GCOLL_TEST_SEED repeats an earlier run.
#include "test/kit/harness.h"
#include "test/kit/setting.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>

namespace {

using gcoll_test::setting;
using gcoll_test::transports;

constexpr uint32_t kCallsAContext = 500;
constexpr uint32_t kMostBytesLog2 = 18;

enum Kind {
    kAllreduce,
    kReduce,
    kReduceScatter,
    kReduceScatterV,
    kBroadcast,
    kAllgather,
    kAllgatherV,
    kGather,
    kGatherV,
    kScatter,
    kScatterV,
    kAlltoall,
    kBarrier,
    kKinds
};

const char *const kCollectives[kKinds] = {
    "allreduce", "reduce", "reduce_scatter", "reduce_scatter", "broadcast", "allgather", "allgather",
    "gather",    "gather", "scatter",        "scatter",        "alltoall",  "barrier"};
constexpr gcoll_type kTypes[] = {GCOLL_UINT8, GCOLL_INT32, GCOLL_INT64, GCOLL_FLOAT32, GCOLL_FLOAT64};
constexpr gcoll_op kOps[] = {GCOLL_SUM, GCOLL_MIN, GCOLL_MAX};

// A random call, the same on every rank.
struct Call {
    uint32_t number, size, root;
    Kind kind;
    gcoll_type type;
    gcoll_op op;
    std::vector<uint64_t> counts; // of blocks; a vector that is none has one
    bool in_place;
    std::string algorithm;

    uint64_t total() const { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); }
    uint64_t offset(uint32_t block) const {
        return std::accumulate(counts.begin(), counts.begin() + block, uint64_t{0});
    }
    bool has_blocks() const { return kind != kAllreduce && kind != kReduce && kind != kBroadcast; }
};

uint32_t pick(std::mt19937 &random, uint64_t of) {
    return static_cast<uint32_t>(random() % of);
}

Call random_call(std::mt19937 &random, uint32_t number, uint32_t size) {
    Call call = {number,
                 size,
                 pick(random, size),
                 static_cast<Kind>(pick(random, kKinds)),
                 kTypes[pick(random, 5)],
                 kOps[pick(random, 3)],
                 {},
                 pick(random, 4) == 0,
                 "auto"};
    const uint64_t scale = (uint64_t{1} << pick(random, kMostBytesLog2 + 1)) / gcoll_type_size(call.type);
    const bool varies = call.kind == kReduceScatterV || call.kind == kAllgatherV || call.kind == kGatherV ||
                        call.kind == kScatterV;
    const uint32_t blocks = call.has_blocks() ? size : 1;
    uint64_t count = 0;
    for (uint32_t block = 0; block < blocks; block++) {
        if (block == 0 || varies)
            count = pick(random, scale / blocks + 2);
        call.counts.push_back(varies && pick(random, 5) == 0 ? 0 : count);
    }
    if (pick(random, 2)) {
        const auto names = gcoll_test::algorithms(kCollectives[call.kind]);
        call.algorithm = names[pick(random, names.size())];
    }
    return call;
}

// Element i of a rank's input: small, so that every sum is exact in every type.
int64_t value_at(const Call &call, uint32_t rank, uint64_t i) {
    const auto mixed = static_cast<uint32_t>((i + 1) * 2654435761u ^ (call.number * 40503u + rank * 977u));
    return (mixed >> 16) % 50;
}

int64_t reduced_at(const Call &call, uint64_t i) {
    int64_t result = value_at(call, 0, i);
    for (uint32_t rank = 1; rank < call.size; rank++) {
        const int64_t value = value_at(call, rank, i);
        result = call.op == GCOLL_SUM   ? result + value
                 : call.op == GCOLL_MIN ? std::min(result, value)
                                        : std::max(result, value);
    }
    return result;
}

template <class T> void write_as(std::vector<uint8_t> &bytes, const Call &call, uint32_t rank) {
    for (uint64_t i = 0; i < bytes.size() / sizeof(T); i++) {
        const T element = static_cast<T>(value_at(call, rank, i));
        memcpy(&bytes[i * sizeof(T)], &element, sizeof(T));
    }
}

template <class T> int64_t read_as(const std::vector<uint8_t> &bytes, uint64_t i) {
    T element;
    memcpy(&element, &bytes[i * sizeof(T)], sizeof(T));
    return static_cast<int64_t>(element);
}

constexpr uint8_t kBeyond = 0x5a;

// One rank's part of a call.
class Flight {
  public:
    Flight(const Call &call, uint32_t rank) : call_(call), rank_(rank), bytes_(gcoll_type_size(call.type)) {
        input_.resize(input_elements() * bytes_);
        output_.assign(output_elements() * bytes_ + 1, kBeyond);
        write(input_);
        if (call.kind == kBroadcast && rank == call.root)
            std::copy(input_.begin(), input_.end(), output_.begin());
        in_place_ = call.in_place && (call.kind == kAllreduce || call.kind == kReduce);
        if (in_place_ && !output_.empty() && output_elements() > 0)
            std::copy(input_.begin(), input_.end(), output_.begin());
    }

    gcoll_status start(gcoll_context *context, const std::string &algorithm) {
        gcoll_collective_options options;
        gcoll_collective_options_init(&options);
        options.algorithm = algorithm.c_str();
        const bool holds = output_elements() > 0 || rank_ == call_.root;
        const void *input = in_place_ && holds ? nullptr : input_.data();
        switch (call_.kind) {
        case kAllreduce: {
            gcoll_allreduce_options own;
            gcoll_allreduce_options_init(&own);
            own.algorithm = options.algorithm;
            return gcoll_allreduce_start(context, input, output_.data(), call_.total(), call_.type, call_.op,
                                         &own, &request_);
        }
        case kReduce:
            return gcoll_reduce_start(context, input, output_.data(), call_.total(), call_.type, call_.op,
                                      call_.root, &options, &request_);
        case kReduceScatter:
            return gcoll_reduce_scatter_start(context, input_.data(), output_.data(), call_.counts[0],
                                              call_.type, call_.op, &options, &request_);
        case kReduceScatterV:
            return gcoll_reduce_scatter_v_start(context, input_.data(), output_.data(), call_.counts.data(),
                                                call_.type, call_.op, &options, &request_);
        default:
            return start_moving(context, options);
        }
    }

    gcoll_status finish() {
        gcoll_status status = gcoll_request_wait(&request_);
        if (status == GCOLL_OK)
            check();
        return status;
    }

    std::string told() const {
        return "call " + std::to_string(call_.number) + ", " + kCollectives[call_.kind] + " by " +
               call_.algorithm + " of " + std::to_string(call_.total()) + " " + gcoll_type_name(call_.type) +
               ", " + gcoll_op_name(call_.op) + ", root " + std::to_string(call_.root) + ", rank " +
               std::to_string(rank_);
    }

  private:
    gcoll_status start_moving(gcoll_context *context, const gcoll_collective_options &options) {
        const uint64_t *counts = call_.counts.data();
        const void *input = input_.data();
        void *output = output_.data();
        switch (call_.kind) {
        case kBroadcast: {
            gcoll_broadcast_options own;
            gcoll_broadcast_options_init(&own);
            own.algorithm = options.algorithm;
            return gcoll_broadcast_start(context, output, counts[0], call_.type, call_.root, &own, &request_);
        }
        case kAllgather:
            return gcoll_allgather_start(context, input, output, counts[0], call_.type, &options, &request_);
        case kAllgatherV:
            return gcoll_allgather_v_start(context, input, output, counts, call_.type, &options, &request_);
        case kGather:
            return gcoll_gather_start(context, input, output, counts[0], call_.type, call_.root, &options,
                                      &request_);
        case kGatherV:
            return gcoll_gather_v_start(context, input, output, counts, call_.type, call_.root, &options,
                                        &request_);
        case kScatter:
            return gcoll_scatter_start(context, input, output, counts[0], call_.type, call_.root, &options,
                                       &request_);
        case kScatterV:
            return gcoll_scatter_v_start(context, input, output, counts, call_.type, call_.root, &options,
                                         &request_);
        case kAlltoall:
            return gcoll_alltoall_start(context, input, output, counts[0], call_.type, &options, &request_);
        default: {
            gcoll_barrier_options own;
            gcoll_barrier_options_init(&own);
            own.algorithm = options.algorithm;
            return gcoll_barrier_start(context, &own, &request_);
        }
        }
    }

    uint64_t input_elements() const {
        switch (call_.kind) {
        case kAllgather:
        case kAllgatherV:
        case kGather:
        case kGatherV:
            return call_.counts[rank_];
        case kBarrier:
            return 0;
        default: // of a root alone, it is not looked at elsewhere
            return call_.total();
        }
    }

    uint64_t output_elements() const {
        switch (call_.kind) {
        case kReduceScatter:
        case kReduceScatterV:
        case kScatter:
        case kScatterV:
            return call_.counts[rank_];
        case kReduce:
        case kGather:
        case kGatherV:
            return rank_ == call_.root ? call_.total() : 0;
        case kBarrier:
            return 0;
        default:
            return call_.total();
        }
    }

    // Returns the expected element i of the output, which is element `inner` of block `block`.
    int64_t expected(uint64_t i, uint32_t block, uint64_t inner) const {
        switch (call_.kind) {
        case kAllreduce:
        case kReduce:
            return reduced_at(call_, i);
        case kReduceScatter:
        case kReduceScatterV:
            return reduced_at(call_, call_.offset(rank_) + i);
        case kBroadcast:
            return value_at(call_, call_.root, i);
        case kScatter:
        case kScatterV:
            return value_at(call_, call_.root, call_.offset(rank_) + i);
        case kAlltoall:
            return value_at(call_, block, call_.offset(rank_) + inner);
        default: // allgather, gather
            return value_at(call_, block, inner);
        }
    }

    void check() const {
        uint32_t block = 0;
        uint64_t inner = 0;
        for (uint64_t i = 0; i < output_elements(); i++, inner++) {
            while (call_.has_blocks() && block + 1 < call_.size && inner >= call_.counts[block]) {
                block++;
                inner = 0;
            }
            ASSERT_EQ(read(output_, i), expected(i, block, inner)) << told() << ", position " << i;
        }
        ASSERT_EQ(output_.back(), kBeyond) << told() << ": written beyond the end";
    }

    void write(std::vector<uint8_t> &bytes) const {
        switch (call_.type) {
        case GCOLL_UINT8:
            return write_as<uint8_t>(bytes, call_, rank_);
        case GCOLL_INT32:
            return write_as<int32_t>(bytes, call_, rank_);
        case GCOLL_INT64:
            return write_as<int64_t>(bytes, call_, rank_);
        case GCOLL_FLOAT32:
            return write_as<float>(bytes, call_, rank_);
        default:
            return write_as<double>(bytes, call_, rank_);
        }
    }

    int64_t read(const std::vector<uint8_t> &bytes, uint64_t i) const {
        switch (call_.type) {
        case GCOLL_UINT8:
            return read_as<uint8_t>(bytes, i);
        case GCOLL_INT32:
            return read_as<int32_t>(bytes, i);
        case GCOLL_INT64:
            return read_as<int64_t>(bytes, i);
        case GCOLL_FLOAT32:
            return read_as<float>(bytes, i);
        default:
            return read_as<double>(bytes, i);
        }
    }

    Call call_;
    uint32_t rank_;
    size_t bytes_;
    bool in_place_ = false;
    std::vector<uint8_t> input_, output_;
    gcoll_request *request_ = nullptr;
};

void soak(gcoll_context *context, uint32_t rank, uint32_t calls, uint32_t seed) {
    std::mt19937 random(seed);
    std::unique_ptr<Flight> earlier;
    for (uint32_t number = 0; number < calls && !testing::Test::HasFailure(); number++) {
        const Call call = random_call(random, number, gcoll_context_size(context));
        auto flight = std::make_unique<Flight>(call, rank);
        gcoll_status status = flight->start(context, call.algorithm);
        if (status == GCOLL_ERR_UNSUPPORTED) // by every rank alike: it is not for so many of them
            status = flight->start(context, "auto");
        ASSERT_EQ(status, GCOLL_OK) << flight->told() << ": " << gcoll_last_error();
        if (earlier)
            ASSERT_EQ(earlier->finish(), GCOLL_OK) << earlier->told() << ": " << gcoll_last_error();
        earlier = std::move(flight);
    }
    if (earlier)
        ASSERT_EQ(earlier->finish(), GCOLL_OK) << earlier->told() << ": " << gcoll_last_error();
}

class Soak : public testing::TestWithParam<const char *> {};

TEST_P(Soak, TwoInFlight) {
    const uint32_t calls = setting("GCOLL_TEST_SOAK", 300);
    uint32_t seed = setting("GCOLL_TEST_SEED", std::random_device{}());
    const int64_t begun = gcoll_test::now_ms();
    for (uint32_t done = 0; done < calls && !HasFailure(); done += kCallsAContext, seed++) {
        const uint32_t ranks = 3 + seed % 2;
        SCOPED_TRACE("seed " + std::to_string(seed));
        gcoll_test::run_threads(ranks, GetParam(), [&](uint32_t rank, gcoll_context *context) {
            SCOPED_TRACE("seed " + std::to_string(seed));
            soak(context, rank, std::min(kCallsAContext, calls - done), seed);
        });
    }
    printf("%u collectives, up to seed %u, in %lld ms\n", calls, seed - 1,
           static_cast<long long>(gcoll_test::now_ms() - begun));
}

INSTANTIATE_TEST_SUITE_P(Transports, Soak, transports(),
                         [](const auto &given) { return std::string(given.param); });

} // namespace
