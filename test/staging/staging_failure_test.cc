// Devices that fail, ranks that die and jobs that are aborted in the middle of staging; wrong declarations.
#include "test/kit/collective_support.h"
#include "test/staging/staging_calls.h"

#include <future>

extern "C" {
#include "transport/inproc/inproc.h"
}

namespace {

using namespace staging;
using gcoll_test::Job;
using gcoll_test::now_ms;
using pretend::Kit;

constexpr uint32_t kRanks = 3;
constexpr int64_t kEndsMs = 15000; // far more than the limits within which a context gives up

Call sum(const char *algorithm, uint32_t buffers, Form form = kStarted) {
    Call call;
    call.size = kRanks;
    call.counts = {100};
    call.buffers.assign(kRanks, buffers);
    call.algorithm = algorithm;
    call.form = form;
    return call;
}

Layout on_devices(uint32_t buffers) {
    Layout layout;
    Place place;
    place.kind = GCOLL_MEMORY_DEVICE;
    layout.in.assign(buffers, place);
    layout.out.assign(buffers, place);
    return layout;
}

struct Result {
    gcoll_status status = GCOLL_OK;
    std::string text;
};

// All ranks begin a sum; `meddle` is called by rank 1 before it; what came of it, by rank.
using Meddle = std::function<void(gcoll_accelerator *accelerator)>;
std::vector<Result> reduce_with(
    pretend::Machine &machine, const Job &job, uint32_t buffers, const Meddle &meddle,
    const std::function<void()> &then = [] {}, // while buffers are still there
    Form form = kStarted) {
    Problem problem(sum("ring", buffers, form));
    std::vector<std::unique_ptr<Flight>> flights; // outlive the contexts
    for (uint32_t rank = 0; rank < kRanks; rank++)
        flights.push_back(std::make_unique<Flight>(problem, rank, on_devices(buffers), machine));
    std::vector<Result> results(kRanks);
    std::vector<gcoll_accelerator *> accelerators(kRanks);
    const int64_t begun = now_ms();
    gcoll_test::run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        accelerators[rank] = accelerate(context, machine);
        if (rank == 1)
            meddle(accelerators[rank]);
        results[rank].status = flights[rank]->start(context, "ring");
        if (results[rank].status == GCOLL_OK)
            results[rank].status = flights[rank]->finish();
        results[rank].text = gcoll_last_error();
    });
    EXPECT_LT(now_ms() - begun, kEndsMs);
    then();
    for (gcoll_accelerator *accelerator : accelerators) // what is stuck may hold up others on its lane
        EXPECT_EQ(accelerator->drain(10000), GCOLL_OK);
    return results;
}

Job job_of(int64_t timeout_ms) {
    Job job;
    job.size = kRanks;
    job.timeout_ms = timeout_ms;
    return job;
}

struct Failing {
    pretend::Call call;
    uint64_t nth;
    const char *told;
};

class StagingFails : public testing::TestWithParam<std::tuple<Failing, Form>> {};

TEST_P(StagingFails, WithTheWordsOfTheDevice) {
    const auto [failing, form] = GetParam();
    const pretend::Call call = failing.call;
    const uint64_t nth = failing.nth;
    pretend::Machine machine;
    const std::vector<Result> results = reduce_with(
        machine, job_of(5000), 2, [&](gcoll_accelerator *accelerator) { accelerator->fail_at(call, nth); },
        [] {}, form);
    EXPECT_EQ(results[1].status, GCOLL_ERR_IO) << results[1].text;
    EXPECT_NE(results[1].text.find(failing.told), std::string::npos) << results[1].text;
    for (uint32_t rank : {0u, 2u}) {
        EXPECT_NE(results[rank].status, GCOLL_OK);
        EXPECT_NE(results[rank].text.find("rank 1"), std::string::npos) << results[rank].text;
    }
    expect_clean(machine);
}

INSTANTIATE_TEST_SUITE_P(
    Calls, StagingFails,
    testing::Combine(testing::Values(Failing{pretend::Call::kCopy, 0, "pretendMemcpyAsync: call 1 fails"},
                                     Failing{pretend::Call::kCopy, 3, "pretendMemcpyAsync: call 4 fails"},
                                     Failing{pretend::Call::kFold, 0, "pretendLaunchKernel(fold): call 1"},
                                     Failing{pretend::Call::kTest, 0, "pretendEventQuery: call 1 fails"},
                                     Failing{pretend::Call::kTest, 9, "pretendEventQuery: call 10 fails"},
                                     Failing{pretend::Call::kPin, 0, "pretendHostAlloc: call 1 fails"},
                                     Failing{pretend::Call::kMakeGate, 0, "pretendEventRecord: call 1 fails"},
                                     Failing{pretend::Call::kLocate, 0,
                                             "pretendPointerGetAttributes: call 1"}),
                     testing::Values(kBlocking, kStarted, kPersistent)));

// A reduction of the caller's own runs on the host, between the copies. No rank copies a result to its device
// that rank 1's failed reduction is part of: Flight compares what a rank takes for success.
class StagingRefused : public testing::TestWithParam<std::tuple<const char *, uint32_t, Form>> {};

TEST_P(StagingRefused, ByTheCallersReduction) {
    const auto [algorithm, buffers, form] = GetParam();
    pretend::Machine machine;
    Call call = sum(algorithm, buffers, form);
    call.op = GCOLL_USER;
    Problem problem(call);
    std::vector<std::unique_ptr<Flight>> flights; // outlive the contexts
    for (uint32_t rank = 0; rank < kRanks; rank++)
        flights.push_back(std::make_unique<Flight>(problem, rank, on_devices(buffers), machine));
    flights[1]->refuse();
    std::vector<gcoll_accelerator *> accelerators(kRanks);
    const int64_t begun = now_ms();
    gcoll_test::run_threads(job_of(20000), [&](uint32_t rank, gcoll_context *context) {
        accelerators[rank] = accelerate(context, machine);
        gcoll_status status = flights[rank]->start(context, call.algorithm);
        if (status == GCOLL_OK)
            status = flights[rank]->finish();
        if (rank == 1 || status != GCOLL_OK) {
            EXPECT_EQ(status, GCOLL_ERR_ABORTED) << gcoll_last_error();
            EXPECT_NE(std::string(gcoll_last_error()).find("rank 1: options.user_op failed with status 5"),
                      std::string::npos)
                << gcoll_last_error();
        }
        EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_ABORTED);
        EXPECT_EQ(gcoll_context_culprit(context), 1);
    });
    EXPECT_LT(now_ms() - begun, kEndsMs);
    for (gcoll_accelerator *accelerator : accelerators)
        EXPECT_EQ(accelerator->drain(10000), GCOLL_OK);
    // Where devices were too slow for the contexts to wait for them, contexts have left them as they are.
    EXPECT_EQ(machine.violations(), std::vector<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Some, StagingRefused,
                         testing::Combine(testing::Values("auto", "sorted_linear_tree:segment=40"),
                                          testing::Values(1u, 2u),
                                          testing::Values(kBlocking, kStarted, kPersistent)));

// Memory that a device may still touch is not freed: unpinning it would be noted.
TEST(StagingHangs, AndIsGivenUpWithItsMemory) {
    pretend::Machine machine;
    gcoll_accelerator *stuck = nullptr;
    const Meddle stick = [&](gcoll_accelerator *accelerator) {
        stuck = accelerator;
        accelerator->stick_at(0);
    };
    const std::vector<Result> results = reduce_with(machine, job_of(500), 1, stick, [&] {
        EXPECT_EQ(machine.violations(), std::vector<std::string>());
        EXPECT_GE(machine.statistics().open, 1u) << "what is at work is not closed";
        EXPECT_GT(machine.statistics().pinned_bytes, 0u);
        stuck->let_go();
    });
    for (const Result &result : results)
        EXPECT_EQ(result.status, GCOLL_ERR_TIMEOUT) << result.text;
    // What another rank gave to the same lane is held up as well, and that rank may be the first to say so.
    const std::string &text = results[1].text;
    EXPECT_NE(text.find("a device of rank "), std::string::npos) << text;
    EXPECT_NE(text.find(" has not finished its work"), std::string::npos) << text;
}

// Two operations: one waits for a rank that does not come, the other for a device.
TEST(StagingHangs, AndIsNotBlamedForARankThatDoes) {
    pretend::Machine machine;
    gcoll_accelerator *stuck = nullptr;
    std::promise<void> is_over;
    std::future<void> over = is_over.get_future();
    void *device = machine.allocate(0, 16);
    int32_t host[2][4] = {}; // outlives the contexts
    Job job = job_of(2000);
    job.size = 2;
    gcoll_test::run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        if (rank == 1) {
            over.wait();
            return;
        }
        stuck = accelerate(context, machine);
        stuck->stick_at(0);
        gcoll_request *first = nullptr, *second = nullptr;
        EXPECT_GCOLL_OK(
            gcoll_allreduce_start(context, nullptr, host[0], 4, GCOLL_INT32, GCOLL_SUM, nullptr, &first));
        EXPECT_GCOLL_OK(
            gcoll_allreduce_start(context, device, host[1], 4, GCOLL_INT32, GCOLL_SUM, nullptr, &second));
        EXPECT_EQ(gcoll_request_wait(&first), GCOLL_ERR_TIMEOUT);
        EXPECT_NE(std::string(gcoll_last_error()).find("rank 1 does not answer"), std::string::npos)
            << gcoll_last_error();
        EXPECT_EQ(gcoll_context_culprit(context), 1);
        EXPECT_EQ(gcoll_request_wait(&second), GCOLL_ERR_TIMEOUT);
        is_over.set_value();
    });
    EXPECT_EQ(machine.violations(), std::vector<std::string>());
    stuck->let_go();
    EXPECT_EQ(stuck->drain(10000), GCOLL_OK);
    machine.free(device);
}

// Rank 1 makes so much progress, and then meets its end.
void end_in_the_middle(int turns, bool dies) {
    pretend::Machine machine;
    Problem problem(sum("ring:segment=40", 2));
    std::vector<std::unique_ptr<Flight>> flights;
    for (uint32_t rank = 0; rank < kRanks; rank++)
        flights.push_back(std::make_unique<Flight>(problem, rank, on_devices(2), machine));
    gcoll_hub *hub = nullptr;
    Job job = job_of(5000);
    job.prepare = [&](gcoll_hub *made) { hub = made; };
    const int64_t begun = now_ms();
    run_staged(job, machine, [&](uint32_t rank, gcoll_context *context, gcoll_accelerator *) {
        ASSERT_EQ(flights[rank]->start(context, "ring:segment=40"), GCOLL_OK) << gcoll_last_error();
        for (int turn = 0; rank == 1 && turn < turns; turn++)
            ASSERT_EQ(flights[rank]->turn(), GCOLL_OK) << gcoll_last_error();
        if (rank == 1 && dies) {
            EXPECT_GCOLL_OK(gcoll_inproc_kill(hub, 1));
            return;
        }
        if (rank == 1)
            gcoll_context_abort(context, "enough");
        const gcoll_status status = flights[rank]->finish(); // right, if it was done by then
        if (status != GCOLL_OK)
            EXPECT_EQ(status, dies ? GCOLL_ERR_PEER : GCOLL_ERR_ABORTED) << gcoll_last_error();
    });
    EXPECT_LT(now_ms() - begun, kEndsMs);
}

TEST(StagingEnds, WhenARankDiesInTheMiddle) {
    for (int turns : {0, 1, 3, 10, 30, 100})
        end_in_the_middle(turns, true);
}

TEST(StagingEnds, WhenTheJobIsAbortedInTheMiddle) {
    for (int turns : {0, 1, 3, 10, 30, 100})
        end_in_the_middle(turns, false);
}

// ---- Wrong declarations --------------------------------------------------------------------------------

gcoll_status declared(gcoll_context *context, void *data, gcoll_memory memory) {
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    options.memory = &memory;
    return gcoll_allreduce(context, nullptr, data, 4, GCOLL_INT32, GCOLL_SUM, &options);
}

void expect_told(gcoll_status status, gcoll_status want, const char *words) {
    EXPECT_EQ(status, want);
    EXPECT_NE(std::string(gcoll_last_error()).find(words), std::string::npos) << gcoll_last_error();
}

TEST(StagingDeclared, WhatIsNotTrueIsRefused) {
    Kit kit;
    kit.devices = 2;
    kit.peers = false;
    pretend::Machine machine(kit);
    Job job;
    job.size = 1;
    run_staged(job, machine, [&](uint32_t, gcoll_context *context, gcoll_accelerator *) {
        void *device = machine.allocate(1, 16), *pinned = machine.allocate(0, 16, GCOLL_MEMORY_PINNED);
        int32_t host[4] = {};
        gcoll_memory memory;
        gcoll_memory_init(&memory);
        memory.kind = GCOLL_MEMORY_HOST;
        expect_told(declared(context, device, memory), GCOLL_ERR_INVALID, "memory.kind: is host");
        expect_told(declared(context, pinned, memory), GCOLL_ERR_INVALID, "lies in pinned memory");
        memory.kind = GCOLL_MEMORY_DEVICE;
        expect_told(declared(context, host, memory), GCOLL_ERR_INVALID, "memory.kind: is device");
        EXPECT_GCOLL_OK(declared(context, device, memory));
        memory.device = 0;
        expect_told(declared(context, device, memory), GCOLL_ERR_INVALID, "memory.device: is 0");
        memory.device = 1;
        EXPECT_GCOLL_OK(declared(context, device, memory));
        memory.kind = GCOLL_MEMORY_FIND;
        memory.device = GCOLL_ANY_DEVICE;
        machine.free(device);
        expect_told(declared(context, device, memory), GCOLL_ERR_INVALID, "pretendPointerGetAttributes");
        EXPECT_GCOLL_OK(declared(context, host, memory));
        machine.free(pinned);
    });
}

// Every form of every call with a list says which buffer lies on which device, and breaks nothing. Pinned
// memory is host memory, and a buffer without elements may lie anywhere.
TEST(StagingDeclared, ListsOfBuffersInTheMemoryOfADeviceAreRefused) {
    Kit kit;
    kit.devices = 2;
    pretend::Machine machine(kit);
    Job job;
    job.size = kRanks;
    run_staged(job, machine, [&](uint32_t, gcoll_context *context, gcoll_accelerator *) {
        constexpr uint64_t kBytes = 4 * sizeof(int32_t);
        const uint64_t counts[kRanks] = {4, 4, 4}, none[kRanks] = {4, 0, 4};
        std::vector<std::vector<int32_t>> memory(3 * kRanks, std::vector<int32_t>(4 * kRanks, 1));
        void *device = machine.allocate(1, kBytes * kRanks);
        void *pinned = machine.allocate(0, kBytes, GCOLL_MEMORY_PINNED);
        machine.write(pinned, memory[0].data(), kBytes);
        void *in[kRanks], *out[kRanks], *mixed[kRanks];
        for (uint32_t r = 0; r < kRanks; r++) {
            in[r] = memory[r].data();
            out[r] = memory[kRanks + r].data();
            mixed[r] = r == 1 ? device : r == 2 ? pinned : memory[2 * kRanks].data();
        }
        const char *const in_text =
            "inputs[1]: lies in the memory of device 1; lists of buffers must lie in host";
        const char *const out_text =
            "outputs[1]: lies in the memory of device 1; lists of buffers must lie in host";
        using collective_support::kBlocking, collective_support::kStarted, collective_support::kPersistent;
        for (const collective_support::Form form : {kBlocking, kStarted, kPersistent}) {
            const auto refused = [](gcoll_status status, const char *text) {
                expect_told(status, GCOLL_ERR_UNSUPPORTED, text);
            };
            const auto sum = [&](void *const *from, void *const *to, const uint64_t *n) {
                return CALL(form, allreduce_list, context, from, to, n, kRanks, GCOLL_INT32, GCOLL_SUM,
                            nullptr);
            };
            refused(sum(mixed, out, counts), in_text);
            refused(sum(in, mixed, counts), out_text);
            refused(sum(nullptr, mixed, counts), out_text); // in place
            EXPECT_GCOLL_OK(sum(mixed, out, none));

            const auto scatter = [&](void *const *from, void *to) {
                return CALL(form, reduce_scatter_list, context, from, to, counts, GCOLL_INT32, GCOLL_SUM,
                            nullptr);
            };
            refused(scatter(mixed, out[0]), in_text);
            refused(scatter(in, device),
                    "output: lies in the memory of a device; beside a list of buffers it must");

            const auto gather = [&](const void *from, void *const *to) {
                return CALL(form, allgather_list, context, from, to, counts, GCOLL_INT32, nullptr);
            };
            refused(gather(in[0], mixed), out_text);
            refused(gather(device, out),
                    "input: lies in the memory of a device; beside a list of buffers it must");

            const auto exchange = [&](void *const *from, void *const *to) {
                return CALL(form, alltoall_list, context, from, to, counts, counts, GCOLL_INT32, nullptr);
            };
            refused(exchange(mixed, out), in_text);
            refused(exchange(in, mixed), out_text);

            EXPECT_GCOLL_OK(gcoll_context_health(context));
            mixed[1] = memory[2 * kRanks + 1].data();
            EXPECT_GCOLL_OK(sum(mixed, out, counts));
            EXPECT_EQ(*static_cast<int32_t *>(out[1]), static_cast<int32_t>(kRanks));
            mixed[1] = device;
        }
        machine.free(device);
        machine.free(pinned);
    });
}

// What could not be asked after may still be under way: it has ended before the call returns.
TEST(StagingEnds, WhenNobodyKnowsWhetherItWasDone) {
    pretend::Machine machine;
    Job job;
    job.size = 1;
    run_staged(job, machine, [&](uint32_t, gcoll_context *context, gcoll_accelerator *accelerator) {
        void *device = machine.allocate(0, 16);
        int32_t host[4] = {};
        accelerator->fail_at(pretend::Call::kTest, 0);
        expect_told(gcoll_allreduce(context, device, host, 4, GCOLL_INT32, GCOLL_SUM, nullptr), GCOLL_ERR_IO,
                    "pretendEventQuery: call 1 fails");
        machine.free(device);
    });
}

// Before anything begins: what a device refuses then breaks the context.
TEST(StagingDeclared, WhatNcclCannotDoIsRefused) {
    Kit kit;
    kit.devices = 2;
    kit.nccl = true;
    pretend::Machine machine(kit);
    Job job;
    job.size = 1;
    run_staged(job, machine, [&](uint32_t, gcoll_context *context, gcoll_accelerator *) {
        const int32_t values[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
        void *data[2] = {machine.allocate(0, 16), machine.allocate(1, 16)};
        for (int k = 0; k < 2; k++)
            machine.write(data[k], values[k], 16);
        gcoll_memory memory;
        gcoll_memory_init(&memory);
        memory.local = GCOLL_MEMORY_LOCAL_NCCL;
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.memory = &memory;
        options.inputs = data;
        options.buffers = 2;
        expect_told(gcoll_allreduce(context, nullptr, nullptr, 4, GCOLL_INT16, GCOLL_MAX, &options),
                    GCOLL_ERR_UNSUPPORTED, "memory.local: is nccl: it has no type 'int16'");
        for (gcoll_op op : {GCOLL_BAND, GCOLL_BOR, GCOLL_BXOR, GCOLL_LAND})
            expect_told(gcoll_allreduce(context, nullptr, nullptr, 4, GCOLL_INT32, op, &options),
                        GCOLL_ERR_UNSUPPORTED, "memory.local: is nccl: it has no operation");
        EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, nullptr, 4, GCOLL_INT32, GCOLL_MAX, &options));
        for (void *each : data) {
            int32_t found[4];
            machine.read(each, found, 16);
            EXPECT_EQ(memcmp(found, values[1], 16), 0);
            machine.free(each);
        }
    });
}

// All ranks must agree on what is refused, wherever their buffers lie.
TEST(StagingDeclared, AStreamOfABufferThatTheHostReadsAtOnceIsRefused) {
    pretend::Machine machine;
    Job job;
    job.size = 1;
    run_staged(job, machine, [&](uint32_t, gcoll_context *context, gcoll_accelerator *) {
        int32_t data[4] = {1, 2, 3, 4};
        void *streams[] = {data};
        gcoll_memory memory;
        gcoll_memory_init(&memory);
        memory.streams = streams;
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.memory = &memory;
        expect_told(gcoll_allreduce(context, nullptr, data, 4, GCOLL_INT32, GCOLL_SUM, &options),
                    GCOLL_ERR_INVALID, "memory.streams[0]: is a stream, but the buffer lies in host memory");
        streams[0] = nullptr;
        EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, data, 4, GCOLL_INT32, GCOLL_SUM, &options));
    });
}

TEST(StagingDeclared, WhatStagingNeedsIsBeyondTheLimitOfMemory) {
    pretend::Machine machine;
    Job job;
    job.size = 1;
    run_staged(job, machine, [&](uint32_t, gcoll_context *context, gcoll_accelerator *accelerator) {
        void *device = machine.allocate(0, 16);
        gcoll_memory memory;
        gcoll_memory_init(&memory);
        memory.local = GCOLL_MEMORY_LOCAL_HOST;
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.memory = &memory;
        options.memory_limit_bytes = 4;
        EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, device, 4, GCOLL_INT32, GCOLL_SUM, &options));
        EXPECT_GE(accelerator->statistics().most_pinned_bytes, 16u);
        machine.free(device);
    });
}

// What an input in device memory was like is not copied, so a call that would overwrite it is refused.
TEST(StagingKeepsInput, UnlessACallInPlaceWouldOverwriteIt) {
    pretend::Machine machine;
    run_staged(job_of(5000), machine, [&](uint32_t rank, gcoll_context *context, gcoll_accelerator *) {
        Place place;
        place.kind = GCOLL_MEMORY_DEVICE;
        Field data(machine, place, 40), result(machine, place, 40);
        const Bytes ones(40, static_cast<uint8_t>(rank + 1));
        data.write(0, ones);
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.keep_input = 1;
        EXPECT_EQ(gcoll_allreduce(context, nullptr, data.data(), 40, GCOLL_UINT8, GCOLL_SUM, &options),
                  GCOLL_ERR_UNSUPPORTED);
        EXPECT_NE(std::string(gcoll_last_error()).find("options.keep_input"), std::string::npos)
            << gcoll_last_error();
        EXPECT_EQ(data.read(0, 40), ones);
        EXPECT_GCOLL_OK(
            gcoll_allreduce(context, data.data(), result.data(), 40, GCOLL_UINT8, GCOLL_SUM, &options));
        EXPECT_EQ(result.read(0, 40), Bytes(40, 6));
        EXPECT_EQ(data.read(0, 40), ones);
    });
}

} // namespace
