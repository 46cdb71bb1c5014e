// test/core/fork_test.cc - tests of forked children of a rank: the library refuses their calls, and the job
// does not notice them.
#include "test/kit/calls.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace gcoll_test;

constexpr uint32_t kRanks = 3;
constexpr uint32_t kForker = 1;
constexpr int64_t kLimitMs = 60000;

// A rank with everything that a context can have.
struct Rank {
    Rank(gcoll_store *store, uint32_t rank, bool thread = false) : number(rank) {
        Job job;
        job.size = kRanks;
        job.adjust = [thread](uint32_t, gcoll_context_options *options) {
            options->progress_thread = thread ? 1 : 0;
        };
        context = join(store, job, rank);
        EXPECT_GCOLL_OK(
            gcoll_allreduce_create(context, nullptr, &kept, 1, GCOLL_INT64, GCOLL_SUM, nullptr, &operation));
        EXPECT_GCOLL_OK(gcoll_context_pair(context, (rank + 1) % kRanks, &pair));
        EXPECT_GCOLL_OK(gcoll_region_create(context, &memory, sizeof memory, &region));
        EXPECT_GCOLL_OK(gcoll_pair_recv_start(pair, 5, &got, sizeof got, &request));
    }
    // Makes a call in each form, whose result needs all ranks.
    void sum(int rounds) {
        for (int64_t round = 0; round < rounds && !testing::Test::HasFailure(); round++) {
            int64_t one = number + round, two = number + round;
            gcoll_request *started = nullptr;
            kept = number + round;
            EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, &one, 1, GCOLL_INT64, GCOLL_SUM, nullptr));
            EXPECT_GCOLL_OK(
                gcoll_allreduce_start(context, nullptr, &two, 1, GCOLL_INT64, GCOLL_SUM, nullptr, &started));
            EXPECT_GCOLL_OK(gcoll_operation_run(operation));
            EXPECT_GCOLL_OK(gcoll_request_wait(&started));
            for (int64_t each : {one, two, kept})
                EXPECT_EQ(each, 3 + 3 * round) << "rank " << number << ", round " << round;
        }
    }
    void finish() {
        gcoll_pair *last = nullptr;
        EXPECT_GCOLL_OK(gcoll_context_pair(context, (number + kRanks - 1) % kRanks, &last));
        EXPECT_GCOLL_OK(gcoll_pair_send(last, 5, &number, sizeof number));
        EXPECT_GCOLL_OK(gcoll_request_wait(&request));
        EXPECT_EQ(got, (number + 1) % kRanks);
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        destroy();
    }
    void destroy() {
        gcoll_operation_destroy(operation);
        gcoll_region_destroy(region);
        gcoll_context_destroy(context);
    }
    // In a child: expects that every call is refused with a text that names the parent.
    void expect_refused() {
        const std::string owner = "process " + std::to_string(getppid());
        int64_t one = 1;
        int done = 7;
        uint32_t index = 7;
        uint64_t count = 0;
        gcoll_request *started = nullptr;
        gcoll_operation *made = nullptr;
        gcoll_pair *other = nullptr;
        gcoll_region *area = nullptr;
        gcoll_context *copy = nullptr;
        const std::vector<std::function<gcoll_status()>> calls = {
            [&] { return gcoll_allreduce(context, nullptr, &one, 1, GCOLL_INT64, GCOLL_SUM, nullptr); },
            [&] { return gcoll_barrier_start(context, nullptr, &started); },
            [&] { return gcoll_barrier_create(context, nullptr, &made); },
            [&] { return gcoll_operation_start(operation); },
            [&] { return gcoll_operation_run(operation); },
            [&] { return gcoll_request_wait(&request); },
            [&] { return gcoll_request_test(&request, &done); },
            [&] { return gcoll_request_wait_for(&request, 1); },
            [&] { return gcoll_request_cancel(&request); },
            [&] { return gcoll_wait_any(&request, 1, &index); },
            [&] { return gcoll_context_pair(context, number == 0 ? 1 : 0, &other); },
            [&] { return gcoll_pair_send(pair, 1, &one, sizeof one); },
            [&] { return gcoll_pair_recv(pair, 1, &one, sizeof one); },
            [&] { return gcoll_pair_send_start(pair, 1, &one, sizeof one, &started); },
            [&] { return gcoll_region_create(context, &one, sizeof one, &area); },
            [&] { return gcoll_region_notified(region, &count); },
            [&] { return gcoll_context_duplicate(context, &copy); },
            [&] { return gcoll_context_split(context, 0, 0, &copy); },
            [&] { return gcoll_context_create_group(context, &number, 1, 0, &copy); },
            [&] { return gcoll_context_health(context); },
        };
        for (size_t i = 0; i < calls.size(); i++) {
            gcoll_status status = calls[i]();
            EXPECT_EQ(status, GCOLL_ERR_STATE) << "call " << i << ": " << told(status);
            EXPECT_TRUE(says(owner)) << "call " << i << ": " << gcoll_last_error();
        }
        EXPECT_EQ(gcoll_context_culprit(context), -1);
        gcoll_context_abort(context, "by a child"); // must do nothing
    }
    uint32_t number, got = 9;
    int64_t kept = 0, memory = 0;
    gcoll_context *context = nullptr;
    gcoll_operation *operation = nullptr;
    gcoll_pair *pair = nullptr;
    gcoll_region *region = nullptr;
    gcoll_request *request = nullptr;
};

// The child makes all calls while the other ranks continue.
void children_are_refused(bool thread) {
    run_processes(
        kRanks, kLimitMs,
        [thread](uint32_t number, gcoll_store *store) {
            Rank rank(store, number, thread);
            rank.sum(3);
            if (number == kForker)
                in_child([&] { rank.expect_refused(); });
            rank.sum(30);
            rank.finish();
            return 0;
        });
}

TEST(Forks, AChildIsRefusedAndSumsStayRight) {
    children_are_refused(false);
}

TEST(Forks, AChildIsRefusedBesideAThread) {
    children_are_refused(true);
}

// The child destroys everything like any process, including requests in flight. No rank is told.
TEST(Forks, AChildThatDestroysTellsNobody) {
    run_processes(
        kRanks, kLimitMs,
        [](uint32_t number, gcoll_store *store) {
            Rank rank(store, number);
            rank.sum(3);
            if (number == kForker) {
                in_child([&] {
                    gcoll_operation_destroy(rank.operation);
                    gcoll_region_destroy(rank.region);
                    gcoll_context_destroy(rank.context);
                });
                in_child([&] { gcoll_context_destroy(rank.context); });
            }
            rank.sum(30);
            rank.finish();
            return 0;
        });
}

// A rank forks before it has any connection. The child gets copies of the listener only.
TEST(Forks, AChildOfAFreshContext) {
    run_processes(
        kRanks, kLimitMs,
        [](uint32_t number, gcoll_store *store) {
            Job job;
            job.size = kRanks;
            gcoll_context *context = join(store, job, number);
            in_child([&] {
                EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_STATE);
                gcoll_context_destroy(context);
            });
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            gcoll_context_destroy(context);
            return 0;
        });
}

// If the progress thread may be at work at the fork, the child frees the context or leaves it as it is. It
// never waits.
TEST(Forks, AChildDestroysBesideAThread) {
    run_processes(
        kRanks, kLimitMs,
        [](uint32_t number, gcoll_store *store) {
            Rank rank(store, number, true);
            rank.sum(3);
            for (int i = 0; number == kForker && i < 5; i++) {
                pid_t child = fork();
                if (child == 0) {
                    alarm(20);
                    gcoll_context_destroy(rank.context);
                    _exit(0); // leaks are allowed
                }
                int ended = 0;
                EXPECT_EQ(waitpid(child, &ended, 0), child);
                EXPECT_EQ(ended, 0);
            }
            rank.sum(30);
            rank.finish();
            return 0;
        });
}

TEST(Forks, AChildMayMakeAContextOfItsOwn) {
    Folder folder;
    run_processes(kRanks, kLimitMs, [&](uint32_t number, gcoll_store *store) {
        Rank rank(store, number);
        rank.sum(1);
        in_child([&] {
            gcoll_store *own = nullptr;
            Job job;
            job.size = kRanks;
            job.name = "children";
            ASSERT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 10000, &own));
            gcoll_context *context = join(own, job, number);
            int64_t one = 1;
            EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, &one, 1, GCOLL_INT64, GCOLL_SUM, nullptr));
            EXPECT_EQ(one, kRanks);
            gcoll_context_destroy(context);
            gcoll_store_destroy(own);
            rank.destroy();
        });
        rank.sum(3);
        rank.finish();
        return 0;
    });
}

// A program that a rank starts gets none of its descriptors, and disturbs nothing.
TEST(Forks, ProgramsAreStartedAsEver) {
    run_processes(
        kRanks, kLimitMs,
        [](uint32_t number, gcoll_store *store) {
            Rank rank(store, number);
            rank.sum(1);
            char name[] = "true";
            char *const arguments[] = {name, nullptr};
            char *const none[] = {nullptr};
            int ended = -1;
            pid_t spawned = 0, forked = 0;
            EXPECT_EQ(posix_spawnp(&spawned, name, nullptr, nullptr, arguments, none), 0);
            EXPECT_EQ(waitpid(spawned, &ended, 0), spawned);
            EXPECT_EQ(ended, 0);
            forked = fork();
            if (forked == 0) {
                execvp(name, arguments);
                _exit(1);
            }
            EXPECT_EQ(waitpid(forked, &ended, 0), forked);
            EXPECT_EQ(ended, 0);
            EXPECT_EQ(system("exit 0"), 0);
            rank.sum(10);
            rank.finish();
            return 0;
        });
}

// All ranks are in one process, so the child has copies of all.
TEST(Forks, AChildOfRanksInOneProcess) {
    Job job;
    job.size = 2;
    Group group(job);
    in_child([&] {
        for (uint32_t rank = 0; rank < 2; rank++) {
            EXPECT_EQ(gcoll_barrier(group[rank], nullptr), GCOLL_ERR_STATE);
            gcoll_context_destroy(group[rank]);
        }
    });
    std::thread other([&] { EXPECT_GCOLL_OK(gcoll_barrier(group[1], nullptr)); });
    EXPECT_GCOLL_OK(gcoll_barrier(group[0], nullptr));
    other.join();
}

// ---- A parent that dies --------------------------------------------------------------------------------

enum Form { kBlocking, kStarted, kPersistent };

struct Board {
    std::atomic<uint32_t> rounds, child, over;
    std::atomic<int64_t> culprit[kRanks], told_ms[kRanks];
};

gcoll_status sum_once(Rank &rank, Form form) {
    int64_t one = rank.number;
    gcoll_request *request = nullptr;
    if (form == kBlocking)
        return gcoll_allreduce(rank.context, nullptr, &one, 1, GCOLL_INT64, GCOLL_SUM, nullptr);
    if (form == kPersistent)
        return gcoll_operation_run(rank.operation);
    gcoll_status status =
        gcoll_allreduce_start(rank.context, nullptr, &one, 1, GCOLL_INT64, GCOLL_SUM, nullptr, &request);
    return status == GCOLL_OK ? gcoll_request_wait(&request) : status;
}

class ForksOfTheDying : public testing::TestWithParam<Form> {};

TEST_P(ForksOfTheDying, AreNotTakenForTheParent) {
    Folder folder;
    Shared<Board> board;
    const Form form = GetParam();
    Processes ranks(kRanks, [&](uint32_t number) {
        gcoll_store *store = nullptr;
        EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 10000, &store));
        Rank rank(store, number);
        rank.sum(2);
        if (number == kForker) {
            pid_t child = fork();
            if (child == 0) { // lives on, with copies of all that its parent had
                await(board->over, 1, 30000);
                _exit(0);
            }
            board->child = static_cast<uint32_t>(child);
        }
        gcoll_status status = GCOLL_OK;
        while (status == GCOLL_OK) {
            status = sum_once(rank, form);
            board->rounds += number == kForker;
        }
        board->told_ms[number] = now_ms();
        board->culprit[number] = gcoll_context_culprit(rank.context);
        EXPECT_EQ(status, GCOLL_ERR_PEER) << told(status);
        rank.destroy();
        gcoll_store_destroy(store);
        return 0;
    });
    EXPECT_TRUE(await(board->child, 1, 20000));
    EXPECT_TRUE(await(board->rounds, 10, 20000));
    const int64_t killed = now_ms();
    ranks.signal(kForker, SIGKILL);
    ranks.expect_success(20000, kForker);
    EXPECT_EQ(kill(static_cast<pid_t>(board->child.load()), 0), 0) << "the child lived all the while";
    board->over = 1;
    for (uint32_t rank = 0; rank < kRanks; rank++) {
        if (rank == kForker)
            continue;
        EXPECT_EQ(board->culprit[rank], kForker);
        EXPECT_LT(board->told_ms[rank] - killed, 1000);
    }
}

const char *const form_names[] = {"blocking", "started", "persistent"};
INSTANTIATE_TEST_SUITE_P(Forms, ForksOfTheDying, testing::Values(kBlocking, kStarted, kPersistent),
                         [](const testing::TestParamInfo<Form> &row) {
                             return std::string(form_names[row.param]);
                         });

} // namespace
