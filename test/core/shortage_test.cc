// test/core/shortage_test.cc - tests with a rank that runs out of memory or descriptors: all ranks name this
// rank and no other, and no rank chooses another algorithm because of it.
#include "test/kit/allocations.h"
#include "test/kit/harness.h"
#include "test/kit/sanitizer.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <sys/resource.h>
#include <unistd.h>

namespace {

using gcoll_test::allocations_failed;
using gcoll_test::allocations_left;
using gcoll_test::Folder;
using gcoll_test::Job;
using gcoll_test::run_threads;
using gcoll_test::told;

constexpr uint32_t kRanks = 3, kVictim = 1;
constexpr uint64_t kCount = 3000;

// Limits this process to so many further descriptors.
void leave_descriptors(uint32_t more) {
    std::vector<int> open_now;
    rlimit limit;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (uint32_t i = 0; i <= more; i++) // the lowest that are free
        open_now.push_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    limit.rlim_cur = static_cast<rlim_t>(open_now.back());
    for (int fd : open_now)
        close(fd);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

// ---- Descriptors while joining ----------------------------------------------------------------------------
// The first test of this file, so that libuv, which opens a pipe once in a process, has not done so yet.

// How a rank's joining ended, and after how long.
struct Joined {
    std::atomic<int> status[kRanks];
    std::atomic<int64_t> ms[kRanks];
    char text[kRanks][1024];
};

int join_with(Joined &joined, uint32_t rank, uint32_t more, const std::string &url) {
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_open(url.c_str(), 10000, &store));
    Job job;
    job.size = kRanks;
    job.transport = "tcp";
    job.timeout_ms = 3000;
    gcoll_context_options options = gcoll_test::options_of(job, rank, store, nullptr);
    gcoll_context *context = nullptr;
    if (rank == kVictim)
        leave_descriptors(more);
    const int64_t before = gcoll_test::now_ms();
    const gcoll_status status = gcoll_context_create(&options, &context);
    rlimit limit; // for what sanitizers do at the end of a process
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = std::max<rlim_t>(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, 1024));
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    joined.ms[rank] = gcoll_test::now_ms() - before;
    snprintf(joined.text[rank], sizeof joined.text[rank], "%s", told(status).c_str());
    joined.status[rank] = status;
    gcoll_context_destroy(context);
    gcoll_store_destroy(store);
    return 0;
}

// Of numbers of descriptors. Under a sanitizer, every other one: later, two ranks get the even ones, and four
// the odd ones.
const uint32_t kStep = gcoll_test::repeats(1, 2);

// No number of descriptors makes a process abort. A rank that can tell the others why it could not join does
// so, so that they do not wait in vain.
TEST(DescriptorsOnJoining, WhoHasTooFewSaysSo) {
    constexpr uint32_t kEnoughToTell = 2, kMost = 16;
    for (uint32_t more = 0; more < kMost; more += kStep) {
        SCOPED_TRACE(std::to_string(more) + " descriptors");
        Folder folder;
        gcoll_test::Shared<Joined> joined;
        gcoll_test::Processes processes(
            kRanks, [&](uint32_t rank) { return join_with(*joined, rank, more, folder.url()); });
        processes.expect_success(20000);
        if (joined->status[kVictim] == GCOLL_OK)
            continue;
        EXPECT_EQ(joined->status[kVictim], GCOLL_ERR_NO_MEMORY) << joined->text[kVictim];
        for (uint32_t rank = 0; rank < kRanks && more >= kEnoughToTell; rank++) {
            EXPECT_NE(std::string(joined->text[rank]).find("no file descriptors left"), std::string::npos)
                << "rank " << rank << ": " << joined->text[rank];
            EXPECT_LT(joined->ms[rank], 2500) << "the timeout is 3 s: " << joined->text[rank];
        }
    }
}

int descriptors() {
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

// Frameworks make contexts for many groups, and never use some. Such a context has a listener for its
// address and two spare ones; an event loop comes with the first call.
TEST(DescriptorsOfAContext, AreThreeBeforeItIsUsed) {
    gcoll_test::run_processes(
        2, 20000,
        [](uint32_t rank, gcoll_store *store) {
            Job job;
            job.size = 2;
            job.transport = "tcp";
            gcoll_context_options options = gcoll_test::options_of(job, rank, store, nullptr);
            options.interface = "127.0.0.1";
            const int before = descriptors();
            gcoll_context *context = nullptr;
            EXPECT_GCOLL_OK(gcoll_context_create(&options, &context));
            EXPECT_EQ(descriptors() - before, 3);
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            EXPECT_GT(descriptors() - before, 3) << "what counts them counts none";
            gcoll_context_destroy(context);
            EXPECT_GCOLL_OK(gcoll_context_create(&options, &context));
            gcoll_context_destroy(context); // without having been used
            return testing::Test::HasFailure() ? 1 : 0;
        });
}

// ---- Memory -----------------------------------------------------------------------------------------------

enum class Form { Blocking, Started, Persistent };

gcoll_status run_in(Form form, gcoll_context *context, const gcoll_collective_call *call) {
    gcoll_request *request = nullptr;
    gcoll_operation *operation = nullptr;
    gcoll_status status;
    switch (form) {
    case Form::Blocking:
        return gcoll_call_run(context, call);
    case Form::Started:
        status = gcoll_call_start(context, call, &request);
        return status == GCOLL_OK ? gcoll_request_wait(&request) : status;
    default:
        status = gcoll_call_create(context, call, &operation);
        if (status == GCOLL_OK)
            status = gcoll_operation_run(operation);
        gcoll_operation_destroy(operation);
        return status;
    }
}

// The data are one buffer, or a list of three.
enum class Layout { Vector, List };

gcoll_status sum_in(Form form, gcoll_context *context, std::vector<float> &data, const char *algorithm,
                    Layout layout = Layout::Vector) {
    const uint64_t counts[] = {7, data.size() - 57, 50};
    void *const list[] = {&data[0], &data[7], &data[data.size() - 50]};
    gcoll_collective_call call;
    gcoll_collective_call_init(&call);
    call.collective = GCOLL_ALLREDUCE;
    call.type = GCOLL_FLOAT32;
    call.op = GCOLL_SUM;
    call.algorithm = algorithm;
    if (layout == Layout::Vector) {
        call.output = data.data();
        call.count = data.size();
    } else {
        call.outputs = list;
        call.counts = counts;
        call.entries = 3;
    }
    return run_in(form, context, &call);
}

// The result of a job in which the victim's nth allocation failed.
struct Outcome {
    gcoll_status status[kRanks];
    int64_t culprit[kRanks];
    std::string text[kRanks];
    bool failed = false; // there was an nth allocation
};

Outcome run_short(const char *transport, const char *algorithm, const char *tuning, Form form, Layout layout,
                  int64_t nth) {
    Outcome outcome = {};
    Job job;
    job.size = kRanks;
    job.transport = transport;
    job.timeout_ms = 30000; // nobody waits so long
    job.adjust = [&](uint32_t, gcoll_context_options *options) {
        if (tuning)
            options->tuning = tuning;
    };
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        std::vector<float> data(kCount, static_cast<float>(rank + 1));
        allocations_left = rank == kVictim ? nth : 0;
        allocations_failed = 0;
        gcoll_status status = sum_in(form, context, data, algorithm, layout);
        allocations_left = 0;
        if (rank == kVictim)
            outcome.failed = allocations_failed > 0;
        outcome.status[rank] = status;
        outcome.text[rank] = gcoll_last_error();
        outcome.culprit[rank] = gcoll_context_culprit(context);
        for (uint64_t i = 0; status == GCOLL_OK && i < kCount; i++)
            ASSERT_EQ(data[i], kRanks * (kRanks + 1) / 2.0f) << i;
    });
    return outcome;
}

// A call that runs out of memory tells the other ranks why. The creation of an operation sends nothing, so
// they hear of it when the victim leaves.
void check(const Outcome &outcome, Form form) {
    for (uint32_t rank = 0; rank < kRanks; rank++) {
        SCOPED_TRACE("rank " + std::to_string(rank) + ": " + outcome.text[rank]);
        if (outcome.status[rank] == GCOLL_OK)
            continue;
        EXPECT_TRUE(outcome.culprit[rank] == kVictim || outcome.culprit[rank] == -1) << outcome.culprit[rank];
        if (form == Form::Persistent && rank != kVictim) {
            EXPECT_TRUE(outcome.status[rank] == GCOLL_ERR_PEER ||
                        outcome.status[rank] == GCOLL_ERR_NO_MEMORY);
            continue;
        }
        EXPECT_EQ(outcome.status[rank], GCOLL_ERR_NO_MEMORY);
        if (form != Form::Persistent) {
            EXPECT_EQ(outcome.culprit[rank], kVictim);
            EXPECT_NE(outcome.text[rank].find("rank 1"), std::string::npos);
        }
    }
}

// Fails each allocation of the victim in turn, until the job succeeds because there is no further one.
void every_allocation(const char *transport, const char *algorithm, const char *tuning,
                      Layout layout = Layout::Vector) {
    for (Form form : {Form::Blocking, Form::Started, Form::Persistent}) {
        int64_t failures = 0;
        for (int64_t nth = 1; nth < 400; nth++) {
            SCOPED_TRACE(std::string(transport) + ", " + (algorithm ? algorithm : "auto") + ", form " +
                         std::to_string(static_cast<int>(form)) + ", allocation " + std::to_string(nth));
            Outcome outcome = run_short(transport, algorithm, tuning, form, layout, nth);
            check(outcome, form);
            if (!outcome.failed || testing::Test::HasFailure())
                break;
            failures += outcome.status[kVictim] != GCOLL_OK;
        }
        EXPECT_GT(failures, 2);
    }
}

class Memory : public testing::TestWithParam<const char *> {};

TEST_P(Memory, WhoRunsOutIsNamedAndNobodyElse) {
    every_allocation(GetParam(), nullptr, nullptr);
}

TEST(MemoryForLists, WhoRunsOutIsNamedAndNobodyElse) {
    every_allocation("inproc", nullptr, nullptr, Layout::List);
}

TEST(MemoryForChoosing, WhatCannotBeJudgedIsNoReasonToTakeAnother) {
    every_allocation("inproc", "hierarchical", nullptr);
}

// The rule's first choice needs memory to be evaluated. Ranks that have the memory take it.
TEST(MemoryForChoosing, ARulesNextChoiceIsNotTaken) {
    Folder folder;
    const std::string path = folder.path() + "/rules";
    std::ofstream(path) << "gcoll-tuning 1\nfor transport=inproc ranks=" << kRanks
                        << "\nchoose allreduce 0 - hierarchical ring\n";
    every_allocation("inproc", nullptr, path.c_str());
}

INSTANTIATE_TEST_SUITE_P(Over, Memory, testing::Values("inproc", "tcp", "tcp:connections=2"),
                         [](const auto &over) {
                             std::string name = over.param;
                             std::replace_if(
                                 name.begin(), name.end(), [](char c) { return !isalnum(c); }, '_');
                             return name;
                         });

// ---- Memory for groups ------------------------------------------------------------------------------------

enum class Way { Duplicate, Split, Group };

gcoll_status make_child(Way way, gcoll_context *parent, gcoll_context **child) {
    const uint32_t ranks[kRanks] = {2, 0, 1};
    return way == Way::Duplicate ? gcoll_context_duplicate(parent, child)
           : way == Way::Split   ? gcoll_context_split(parent, 0, 0, child)
                                 : gcoll_context_create_group(parent, ranks, kRanks, 0, child);
}

using Make = std::function<gcoll_status(gcoll_context *, gcoll_context **)>;
using IsRefused = std::function<bool(const gcoll_context *, gcoll_status)>;

// Makes a context of three ranks out of another one, while the victim's nth allocation fails. Ranks that are
// refused get none, all of them or none; others that get none lack memory. Returns whether there was such an
// allocation.
bool make_short(int64_t nth, bool recovers, const Make &make, const IsRefused &is_refused) {
    std::atomic<uint32_t> created{0}, refused{0};
    bool failed = false;
    Job job;
    job.size = kRanks;
    job.timeout_ms = 8000;
    job.adjust = [recovers](uint32_t, gcoll_context_options *options) { options->recovery = recovers; };
    run_threads(job, [&](uint32_t rank, gcoll_context *parent) {
        gcoll_context *child = nullptr;
        allocations_left = rank == kVictim ? nth : 0;
        allocations_failed = 0;
        const gcoll_status status = make(parent, &child);
        allocations_left = 0;
        if (rank == kVictim)
            failed = allocations_failed > 0;
        SCOPED_TRACE("rank " + std::to_string(rank) + ": " + told(status));
        EXPECT_EQ(status == GCOLL_OK, child != nullptr);
        if (status == GCOLL_OK)
            created++;
        else if (is_refused(parent, status))
            refused++;
        else
            EXPECT_TRUE(status == GCOLL_ERR_NO_MEMORY && (!recovers || rank == kVictim));
        gcoll_context_destroy(child);
    });
    EXPECT_TRUE(refused == 0 || refused == kRanks) << refused;
    EXPECT_TRUE(failed || created == kRanks) << created;
    return failed;
}

void every_allocation_of(const std::string &what, bool recovers, const Make &make,
                         const IsRefused &is_refused) {
    int64_t nth = 1;
    for (bool failed = true; failed && !testing::Test::HasFailure(); nth++) {
        SCOPED_TRACE(what + ", allocation " + std::to_string(nth));
        ASSERT_LT(nth, 400);
        failed = make_short(nth, recovers, make, is_refused);
    }
    EXPECT_GT(nth, 20);
}

// Either no rank gets the child, or ranks that do not get it find the parent broken.
TEST(MemoryForGroups, LacksAreNeverTakenForSuccess) {
    for (Way way : {Way::Duplicate, Way::Split, Way::Group})
        every_allocation_of(
            "way " + std::to_string(static_cast<int>(way)), false,
            [way](gcoll_context *parent, gcoll_context **child) { return make_child(way, parent, child); },
            [](const gcoll_context *parent, gcoll_status) {
                return gcoll_context_health(parent) == GCOLL_OK;
            });
}

// If the victim could not open its end, nobody gets a context, and each rank is told why.
TEST(MemoryForShrinking, LacksAreNeverTakenForSuccess) {
    every_allocation_of(
        "shrink", true,
        [](gcoll_context *parent, gcoll_context **child) {
            return gcoll_context_shrink(parent, nullptr, child);
        },
        [](const gcoll_context *, gcoll_status status) {
            return status == GCOLL_ERR_PEER && strstr(gcoll_last_error(), "could not open its end");
        });
}

// A rank alone keeps no other waiting, and may try again.
TEST(MemoryAlone, BreaksNothing) {
    run_threads(
        1, "inproc",
        [](uint32_t, gcoll_context *context) {
            std::vector<float> data(100, 1);
            allocations_left = 1;
            gcoll_status status = sum_in(Form::Blocking, context, data, nullptr);
            allocations_left = 0;
            EXPECT_EQ(status, GCOLL_ERR_NO_MEMORY);
            EXPECT_EQ(gcoll_context_culprit(context), -1);
            EXPECT_GCOLL_OK(sum_in(Form::Blocking, context, data, nullptr));
        });
}

// ---- Descriptors later ------------------------------------------------------------------------------------

int run_without_descriptors(Form form, uint32_t rank, uint32_t size, uint32_t more, const std::string &url) {
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_open(url.c_str(), 10000, &store));
    Job job;
    job.size = size;
    job.timeout_ms = 10000;
    gcoll_context *context = gcoll_test::join(store, job, rank);
    if (!context)
        return gcoll_test::kFailed;
    if (rank == kVictim)
        leave_descriptors(more);
    const int64_t begun = gcoll_test::now_ms();
    gcoll_status status = GCOLL_OK;
    for (int i = 0; i < 3 && status == GCOLL_OK; i++) { // by connections of several kinds
        std::vector<float> data(i == 1 ? 1 : 1000, 1);
        status = sum_in(form, context, data, nullptr);
        for (float element : data)
            EXPECT_TRUE(status != GCOLL_OK || element == static_cast<float>(size)) << element;
    }
    const std::string text = told(status);
    if (status != GCOLL_OK) {
        EXPECT_EQ(gcoll_context_culprit(context), kVictim) << "rank " << rank << ": " << text;
        EXPECT_EQ(status, GCOLL_ERR_NO_MEMORY) << "rank " << rank << ": " << text;
        EXPECT_NE(text.find("no file descriptors left (RLIMIT_NOFILE is "), std::string::npos)
            << "rank " << rank << ": " << text;
        EXPECT_NE(text.find("ulimit -n"), std::string::npos) << text;
        EXPECT_LT(gcoll_test::now_ms() - begun, 5000) << "rank " << rank << ": " << text;
    }
    gcoll_context_destroy(context);
    gcoll_store_destroy(store);
    return status == GCOLL_OK ? 0 : 1;
}

class Descriptors : public testing::TestWithParam<Form> {};

TEST_P(Descriptors, WhoHasNoneLeftIsNamedByAll) {
    const Form form = GetParam();
    for (uint32_t size : {2u, 4u})
        for (uint32_t more = kStep > 1 ? size / 2 - 1 : 0; more < 8; more += kStep) {
            SCOPED_TRACE(std::to_string(size) + " ranks, " + std::to_string(more) + " descriptors");
            Folder folder;
            gcoll_test::Processes processes(size, [&](uint32_t rank) {
                return run_without_descriptors(form, rank, size, more, folder.url());
            });
            int first = -1;
            for (uint32_t rank = 0; rank < size; rank++) {
                gcoll_test::Outcome outcome = processes.wait(rank, 30000);
                EXPECT_TRUE(outcome.ended) << "rank " << rank;
                EXPECT_NE(outcome.code, gcoll_test::kFailed) << "rank " << rank;
                first = rank == 0 ? outcome.code : first;
                if (more < 2) // not even for one connection
                    EXPECT_EQ(outcome.code, 1) << "rank " << rank;
            }
        }
}

const char *const form_names[] = {"blocking", "started", "persistent"};
INSTANTIATE_TEST_SUITE_P(Forms, Descriptors, testing::Values(Form::Blocking, Form::Started, Form::Persistent),
                         [](const testing::TestParamInfo<Form> &row) {
                             return std::string(form_names[static_cast<int>(row.param)]);
                         });

} // namespace
