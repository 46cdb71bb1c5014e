// test/core/argument_test.cc - tests that wrong arguments are refused by name and break nothing; and the list
// of algorithms.
#include "test/kit/collective_support.h"

namespace {

using namespace collective_support;
using gcoll_test::algorithms;
using gcoll_test::run_threads;
using gcoll_test::told;

// ---- Arguments that are refused
// -----------------------------------------------------------------------------

void expect_refused(gcoll_status status, gcoll_status want, const char *word) {
    EXPECT_EQ(status, want) << word << ": " << told(status);
    EXPECT_NE(std::string(gcoll_last_error()).find(word), std::string::npos)
        << "'" << gcoll_last_error() << "' does not name " << word;
}

void refuse_buffers(gcoll_context *c, float *data) {
    char *bytes = reinterpret_cast<char *>(data);
    expect_refused(gcoll_allreduce(c, nullptr, nullptr, 4, GCOLL_FLOAT32, GCOLL_SUM, nullptr),
                   GCOLL_ERR_INVALID, "output");
    expect_refused(gcoll_allreduce(c, nullptr, bytes + 1, 4, GCOLL_FLOAT32, GCOLL_SUM, nullptr),
                   GCOLL_ERR_INVALID, "aligned");
    expect_refused(gcoll_allreduce(c, bytes + 2, data + 8, 4, GCOLL_FLOAT32, GCOLL_SUM, nullptr),
                   GCOLL_ERR_INVALID, "input");
    expect_refused(gcoll_allreduce(c, data, data + 3, 4, GCOLL_FLOAT32, GCOLL_SUM, nullptr),
                   GCOLL_ERR_INVALID, "overlap");
    expect_refused(gcoll_broadcast(c, nullptr, 4, GCOLL_FLOAT32, 0, nullptr), GCOLL_ERR_INVALID,
                   "data: is NULL");
    void *absent[] = {data, nullptr};
    gcoll_broadcast_options several;
    gcoll_broadcast_options_init(&several);
    several.buffers = absent;
    several.buffer_count = 2;
    expect_refused(gcoll_broadcast(c, nullptr, 4, GCOLL_FLOAT32, 0, &several), GCOLL_ERR_INVALID,
                   "options.buffers[1]: is NULL");
    expect_refused(gcoll_allreduce(c, nullptr, data, UINT64_MAX / 2, GCOLL_FLOAT32, GCOLL_SUM, nullptr),
                   GCOLL_ERR_INVALID, "count");
    const void *overlapping[] = {data, data + 2};
    gcoll_allreduce_options options = by(nullptr);
    options.buffers = 2;
    expect_refused(gcoll_allreduce(c, nullptr, nullptr, 4, GCOLL_FLOAT32, GCOLL_SUM, &options),
                   GCOLL_ERR_INVALID, "inputs");
    options.inputs = overlapping;
    expect_refused(gcoll_allreduce(c, nullptr, nullptr, 4, GCOLL_FLOAT32, GCOLL_SUM, &options),
                   GCOLL_ERR_INVALID, "overlap");
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_SUM, &options),
                   GCOLL_ERR_INVALID, "buffers");
    options.buffers = 1025;
    expect_refused(gcoll_allreduce(c, nullptr, nullptr, 4, GCOLL_FLOAT32, GCOLL_SUM, &options),
                   GCOLL_ERR_INVALID, "1024");
}

void refuse_the_rest(gcoll_context *c, float *data) {
    expect_refused(gcoll_allreduce(nullptr, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_SUM, nullptr),
                   GCOLL_ERR_INVALID, "context");
    expect_refused(gcoll_barrier(nullptr, nullptr), GCOLL_ERR_INVALID, "context");
    expect_refused(gcoll_context_health(nullptr), GCOLL_ERR_INVALID, "context: is NULL");
    for (int which = 0; which < 3; which++) {
        gcoll_type type;
        (void)gcoll_type_parse("?", &type); // another text before each
        if (which == 0)
            EXPECT_EQ(gcoll_context_rank(nullptr), UINT32_MAX);
        else if (which == 1)
            EXPECT_EQ(gcoll_context_size(nullptr), 0u);
        else
            EXPECT_EQ(gcoll_context_culprit(nullptr), -1);
        EXPECT_STREQ(gcoll_last_error(), "context: is NULL") << which;
    }
    gcoll_memory memory;
    gcoll_memory_init(&memory);
    memory.struct_size = 3;
    gcoll_allreduce_options placed = by(nullptr);
    placed.memory = &memory;
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_SUM, &placed), GCOLL_ERR_INVALID,
                   "options.memory->struct_size: is 3; allowed");
    // An error text is one line without control characters, whatever the caller's text has.
    gcoll_allreduce_options odd = by("ring\x1b[2J\n\x7f\xc3\xa4");
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_SUM, &odd), GCOLL_ERR_INVALID,
                   "'ring?[2J??\xc3\xa4'");
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_TYPE_COUNT, GCOLL_SUM, nullptr),
                   GCOLL_ERR_INVALID, "type");
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_OP_COUNT, nullptr),
                   GCOLL_ERR_INVALID, "op");
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_BAND, nullptr),
                   GCOLL_ERR_INVALID, "float32");
    expect_refused(gcoll_allreduce(c, nullptr, data, 2, GCOLL_COMPLEX64, GCOLL_MAX, nullptr),
                   GCOLL_ERR_INVALID, "op: is max with type complex64; allowed are sum, product, avg, and");
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_LXOR, nullptr),
                   GCOLL_ERR_INVALID, "op: is lxor with type float32; allowed are sum,");
    expect_refused(gcoll_reduce(c, data, data + 16, 2, GCOLL_FLOAT32_INT32, GCOLL_SUM, 0, nullptr),
                   GCOLL_ERR_INVALID, "allowed are minloc, maxloc, and");
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_USER, nullptr),
                   GCOLL_ERR_INVALID, "user_op");
    expect_refused(gcoll_broadcast(c, data, 4, GCOLL_FLOAT32, 3, nullptr), GCOLL_ERR_INVALID, "root");
    for (const char *text :
         {"rign", "ring:segment=", "ring:r=1", "group_butterfly:r=x", "binomial", ":", ""}) {
        gcoll_allreduce_options options = by(text);
        expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_SUM, &options),
                       GCOLL_ERR_INVALID, "allowed");
    }
    std::string endless(1000, 'x');
    gcoll_allreduce_options options = by(endless.c_str());
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_SUM, &options),
                   GCOLL_ERR_INVALID, "algorithm");
    options = by(nullptr);
    options.struct_size = 0;
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_SUM, &options),
                   GCOLL_ERR_INVALID, "struct_size");
}

void refuse_blocks(gcoll_context *c, float *data) {
    const uint64_t counts[3] = {1, 2, 3}, huge[3] = {1, UINT64_MAX, 3}, large[3] = {1, UINT64_MAX / 8, 3};
    const gcoll_type type = GCOLL_FLOAT32;
    float *far = data + 16;
    const uint32_t rank = gcoll_context_rank(c);
    expect_refused(gcoll_allgather_v(c, data, far, nullptr, type, nullptr), GCOLL_ERR_INVALID, "counts");
    expect_refused(gcoll_allgather_v(c, data, far, huge, type, nullptr), GCOLL_ERR_INVALID, "counts[1]");
    expect_refused(gcoll_allgather_v(c, data, far, large, type, nullptr), GCOLL_ERR_INVALID, "count");
    expect_refused(gcoll_allgather(c, data, far, UINT64_MAX / 2, type, nullptr), GCOLL_ERR_INVALID, "count");
    expect_refused(gcoll_allgather(c, data, nullptr, 1, type, nullptr), GCOLL_ERR_INVALID, "output");
    expect_refused(gcoll_allgather(c, nullptr, far, 1, type, nullptr), GCOLL_ERR_INVALID, "input");
    expect_refused(gcoll_allgather(c, far + (rank + 1) % 3, far, 1, type, nullptr), GCOLL_ERR_INVALID,
                   "overlap");
    expect_refused(gcoll_reduce_scatter(c, far, far + (rank + 1) % 3, 1, type, GCOLL_SUM, nullptr),
                   GCOLL_ERR_INVALID, "overlap");
    expect_refused(gcoll_reduce_scatter_v(c, data, nullptr, counts, type, GCOLL_SUM, nullptr),
                   GCOLL_ERR_INVALID, "output");
    expect_refused(gcoll_reduce_scatter(c, data, far, 1, type, GCOLL_BXOR, nullptr), GCOLL_ERR_INVALID,
                   "float32");
    expect_refused(gcoll_reduce_scatter(c, data, far, 1, type, GCOLL_USER, nullptr), GCOLL_ERR_INVALID,
                   "user_op");
    expect_refused(gcoll_reduce(c, nullptr, data, 1, type, GCOLL_SUM, (rank + 1) % 3, nullptr),
                   GCOLL_ERR_INVALID, "input");
    expect_refused(gcoll_reduce(c, data, nullptr, 1, type, GCOLL_SUM, rank, nullptr), GCOLL_ERR_INVALID,
                   "output");
    expect_refused(gcoll_gather(c, data, far, 1, type, 3, nullptr), GCOLL_ERR_INVALID, "root");
    expect_refused(gcoll_scatter_v(c, nullptr, data, counts, type, rank, nullptr), GCOLL_ERR_INVALID,
                   "input");
    expect_refused(gcoll_alltoall(c, data, data, 1, type, nullptr), GCOLL_ERR_INVALID, "in place");
    expect_refused(gcoll_alltoall(c, data, data + 1, 1, type, nullptr), GCOLL_ERR_INVALID, "overlap");
    expect_refused(gcoll_alltoall_v(c, data, far, counts, nullptr, type, nullptr), GCOLL_ERR_INVALID,
                   "recv_counts");
    expect_refused(gcoll_alltoall_v(c, data, far, counts, large, type, nullptr), GCOLL_ERR_INVALID, "count");
    const uint64_t others[3] = {2, 3, 1};
    expect_refused(gcoll_alltoall_v(c, data, far, counts, others, type, nullptr), GCOLL_ERR_INVALID,
                   "recv_counts[");
    expect_refused(gcoll_pairwise_exchange(c, data, data, 4, type, 0, nullptr), GCOLL_ERR_INVALID,
                   "in place");
    expect_refused(gcoll_pairwise_exchange(c, data, far, 4, type, 33, nullptr), GCOLL_ERR_INVALID,
                   "exchanges");
    gcoll_collective_options options;
    gcoll_collective_options_init(&options);
    options.algorithm = "rign";
    expect_refused(gcoll_allgather(c, data, far, 1, type, &options), GCOLL_ERR_INVALID, "allowed");
    gcoll_collective_options_init(&options);
    options.struct_size = 3;
    expect_refused(gcoll_allgather(c, data, far, 1, type, &options), GCOLL_ERR_INVALID, "struct_size");
}

// Collectives that do not allow several buffers refuse them.
void refuse_several(gcoll_context *c, float *data) {
    const gcoll_type type = GCOLL_FLOAT32;
    float *far = data + 16;
    const uint64_t counts[3] = {1, 1, 1};
    const void *inputs[2] = {data, data + 4};
    void *outputs[2] = {far, far + 4};
    for (int field = 0; field < 3; field++) {
        gcoll_collective_options options;
        gcoll_collective_options_init(&options);
        const char *const name = field == 0   ? "options.buffers"
                                 : field == 1 ? "options.inputs"
                                              : "options.outputs";
        options.buffers = field == 0 ? 2 : 0;
        options.inputs = field == 1 ? inputs : nullptr;
        options.outputs = field == 2 ? outputs : nullptr;
        const gcoll_status bad = GCOLL_ERR_INVALID;
        expect_refused(gcoll_reduce(c, data, far, 1, type, GCOLL_SUM, 0, &options), bad, name);
        expect_refused(gcoll_allgather(c, data, far, 1, type, &options), bad, name);
        expect_refused(gcoll_allgather_v(c, data, far, counts, type, &options), bad, name);
        expect_refused(gcoll_gather(c, data, far, 1, type, 0, &options), bad, name);
        expect_refused(gcoll_scatter(c, data, far, 1, type, 0, &options), bad, name);
        expect_refused(gcoll_alltoall(c, data, far, 1, type, &options), bad, name);
        expect_refused(gcoll_pairwise_exchange(c, data, far, 4, type, 0, &options), bad, name);
    }
    gcoll_collective_options options;
    gcoll_collective_options_init(&options);
    options.buffers = 2;
    const auto call = [&](const void *in, void *out) {
        return gcoll_reduce_scatter(c, in, out, 1, type, GCOLL_SUM, &options);
    };
    expect_refused(call(nullptr, nullptr), GCOLL_ERR_INVALID, "options.inputs");
    options.inputs = inputs;
    options.outputs = outputs;
    expect_refused(call(data, nullptr), GCOLL_ERR_INVALID, "input");
    expect_refused(call(nullptr, far), GCOLL_ERR_INVALID, "output");
    inputs[1] = data + 2; // of three elements each
    expect_refused(call(nullptr, nullptr), GCOLL_ERR_INVALID, "overlap");
    inputs[1] = data + 4;
    outputs[0] = data + 4 + (gcoll_context_rank(c) + 1) % 3; // not this rank's block
    expect_refused(call(nullptr, nullptr), GCOLL_ERR_INVALID, "overlap");
    outputs[0] = data + gcoll_context_rank(c); // one of two in place
    expect_refused(call(nullptr, nullptr), GCOLL_ERR_INVALID, "overlap");
    outputs[0] = nullptr;
    expect_refused(call(nullptr, nullptr), GCOLL_ERR_INVALID, "options.outputs[0]: is NULL");
    options.buffers = 1025;
    expect_refused(call(nullptr, nullptr), GCOLL_ERR_INVALID, "1024");
    expect_refused(gcoll_reduce_scatter_v(c, nullptr, nullptr, counts, type, GCOLL_SUM, &options),
                   GCOLL_ERR_INVALID, "1024");
}

// Callers that were compiled before options had a limit of memory have smaller options.
TEST(Arguments, OlderOptionsAreTaken) {
    run_threads(
        2, "inproc",
        [](uint32_t, gcoll_context *context) {
            float data = 1;
            gcoll_allreduce_options options = by("ring");
            options.struct_size = offsetof(gcoll_allreduce_options, memory_limit_bytes);
            options.memory_limit_bytes = 1; // beyond the struct that is announced
            EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, &data, 1, GCOLL_FLOAT32, GCOLL_SUM, &options));
            EXPECT_EQ(data, 2.0f);
            gcoll_broadcast_options older;
            gcoll_broadcast_options_init(&older);
            older.struct_size = offsetof(gcoll_broadcast_options, memory_limit_bytes);
            EXPECT_GCOLL_OK(gcoll_broadcast(context, &data, 1, GCOLL_FLOAT32, 0, &older));
            gcoll_collective_options common;
            gcoll_collective_options_init(&common);
            common.struct_size = offsetof(gcoll_collective_options, inputs);
            common.buffers = 7; // beyond it
            common.outputs = reinterpret_cast<void **>(&data);
            float sums[2] = {3, 4}, sum = 0;
            EXPECT_GCOLL_OK(gcoll_reduce_scatter(context, sums, &sum, 1, GCOLL_FLOAT32, GCOLL_SUM, &common));
            EXPECT_EQ(sum, gcoll_context_rank(context) == 0 ? 6.0f : 8.0f);
            EXPECT_GCOLL_OK(gcoll_allgather(context, &sum, sums, 1, GCOLL_FLOAT32, &common));
        });
}

TEST(Arguments, BadOnesAreNamedAndBreakNothing) {
    run_threads(
        3, "tcp",
        [](uint32_t rank, gcoll_context *context) {
            std::vector<float> data(32, 1.0f);
            for (int repeat = 0; repeat < 2; repeat++) {
                if (repeat > 0 || rank != 1) // also while others are in step with nobody
                    refuse_buffers(context, data.data());
                refuse_the_rest(context, data.data());
                refuse_blocks(context, data.data());
                refuse_several(context, data.data());
                EXPECT_EQ(gcoll_context_health(context), GCOLL_OK);
                EXPECT_EQ(gcoll_context_culprit(context), -1);
                float one = 1;
                EXPECT_GCOLL_OK(
                    gcoll_allreduce(context, nullptr, &one, 1, GCOLL_FLOAT32, GCOLL_SUM, nullptr));
                EXPECT_EQ(one, 3.0f);
            }
        });
}

TEST(Algorithms, ListsAndChecks) {
    for (const char *collective : {"allreduce", "broadcast", "barrier", "reduce", "reduce_scatter",
                                   "allgather", "gather", "scatter", "alltoall", "pairwise_exchange"}) {
        std::vector<std::string> names = algorithms(collective);
        EXPECT_FALSE(names.empty()) << collective;
        for (const std::string &name : names)
            EXPECT_GCOLL_OK(gcoll_algorithm_check(collective, (name + ":segment=64Ki").c_str()));
        EXPECT_EQ(gcoll_algorithm_at(collective, 100000, nullptr, nullptr), GCOLL_ERR_NOT_FOUND);
        EXPECT_EQ(gcoll_algorithm_check(collective, "none"), GCOLL_ERR_INVALID);
        EXPECT_GCOLL_OK(gcoll_algorithm_check(collective, "auto"));
        EXPECT_GCOLL_OK(gcoll_algorithm_check(collective, nullptr));
    }
    EXPECT_EQ(gcoll_algorithm_at("allgatherish", 0, nullptr, nullptr), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_algorithm_at(nullptr, 0, nullptr, nullptr), GCOLL_ERR_INVALID);
}

TEST(Algorithms, SayWhetherTheyUseArrivalTimes) {
    const struct {
        const char *collective, *text;
        int uses;
    } table[] = {
        {"broadcast", "arrival_tree", 1},
        {"broadcast", "arrival_tree:segment=64Ki", 1},
        {"allreduce", "sorted_linear_tree", 1},
        {"allreduce", "ring", 0},
        {"broadcast", "binomial", 0},
        {"broadcast", "auto", 0},
        {"broadcast", nullptr, 0},
    };
    for (const auto &row : table) {
        int uses = -1;
        EXPECT_GCOLL_OK(gcoll_algorithm_uses_arrival(row.collective, row.text, &uses));
        EXPECT_EQ(row.uses, uses) << row.collective << " " << (row.text ? row.text : "NULL");
    }
    int kept = 7;
    expect_refused(gcoll_algorithm_uses_arrival("allreduce", "arrival_tree", &kept), GCOLL_ERR_INVALID,
                   "arrival_tree");
    expect_refused(gcoll_algorithm_uses_arrival("reducing", "ring", &kept), GCOLL_ERR_INVALID, "reducing");
    expect_refused(gcoll_algorithm_uses_arrival(nullptr, "ring", &kept), GCOLL_ERR_INVALID, "collective");
    expect_refused(gcoll_algorithm_uses_arrival("allreduce", "ring", nullptr), GCOLL_ERR_INVALID,
                   "uses: is NULL");
    EXPECT_EQ(kept, 7);
}

TEST(Transports, AreListedAndAccepted) {
    const char *name = nullptr;
    std::vector<std::string> names;
    while (gcoll_transport_at(static_cast<uint32_t>(names.size()), &name) == GCOLL_OK)
        names.push_back(name);
    EXPECT_EQ(names, (std::vector<std::string>{"tcp", "inproc", "shm", "ibverbs"}));
    name = nullptr;
    for (uint32_t index : {4u, UINT32_MAX})
        expect_refused(gcoll_transport_at(index, &name), GCOLL_ERR_NOT_FOUND, "allowed are 0 to 3");
    EXPECT_EQ(name, nullptr);
    expect_refused(gcoll_transport_at(0, nullptr), GCOLL_ERR_INVALID, "name: is NULL");
}

} // namespace
