// Arguments that are refused by name and break nothing, and the list of algorithms.
#include "collective_support.h"

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
    expect_refused(gcoll_broadcast(c, nullptr, 4, GCOLL_FLOAT32, 0, nullptr), GCOLL_ERR_INVALID, "NULL");
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
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, static_cast<gcoll_type>(10), GCOLL_SUM, nullptr),
                   GCOLL_ERR_INVALID, "type");
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, static_cast<gcoll_op>(9), nullptr),
                   GCOLL_ERR_INVALID, "op");
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_BAND, nullptr),
                   GCOLL_ERR_INVALID, "float32");
    expect_refused(gcoll_allreduce(c, nullptr, data, 4, GCOLL_FLOAT32, GCOLL_USER, nullptr),
                   GCOLL_ERR_INVALID, "user_op");
    expect_refused(gcoll_broadcast(c, data, 4, GCOLL_FLOAT32, 3, nullptr), GCOLL_ERR_INVALID, "root");
    for (const char *text :
         {"rign", "ring:segment=", "ring:r=1", "group_butterfly:r=x", "binomial", ":", ""}) {
        gcoll_allreduce_options options = by(text);
        if (text[0])
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

TEST(Arguments, BadOnesAreNamedAndBreakNothing) {
    run_threads(3, "tcp", [](uint32_t rank, gcoll_context *context) {
        std::vector<float> data(32, 1.0f);
        for (int repeat = 0; repeat < 2; repeat++) {
            if (repeat > 0 || rank != 1) // also while others are in step with nobody
                refuse_buffers(context, data.data());
            refuse_the_rest(context, data.data());
            EXPECT_EQ(gcoll_context_health(context), GCOLL_OK);
            EXPECT_EQ(gcoll_context_culprit(context), -1);
            float one = 1;
            EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, &one, 1, GCOLL_FLOAT32, GCOLL_SUM, nullptr));
            EXPECT_EQ(one, 3.0f);
        }
    });
}

TEST(Algorithms, ListsAndChecks) {
    for (const char *collective : {"allreduce", "broadcast", "barrier"}) {
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

} // namespace
