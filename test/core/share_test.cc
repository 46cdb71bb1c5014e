// test/core/share_test.cc - contexts that share connections (options.share): that they work beside one
// another, what they cost, and that each breaks and ends by itself.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "test/kit/allocations.h"
#include "test/kit/descriptors.h"
#include "test/kit/harness.h"
#include "test/kit/sanitizer.h"

namespace {

// Called when a rank has opened its end of a new context, whose records are not exchanged yet.
std::function<void()> when_opened;
// What ibverbs says of this machine.
std::atomic<bool> has_device{false};

} // namespace

extern "C" {
// The linker sends calls of gcoll_ib_is_likely here.
bool __real_gcoll_ib_is_likely();
bool __wrap_gcoll_ib_is_likely() {
    return has_device || __real_gcoll_ib_is_likely();
}
// The linker sends calls of gcoll_rendezvous_record here.
void __real_gcoll_rendezvous_record(const char *address, char *record);
void __wrap_gcoll_rendezvous_record(const char *address, char *record) {
    if (when_opened)
        when_opened();
    __real_gcoll_rendezvous_record(address, record);
}
}

namespace {

using namespace gcoll_test;

constexpr const char *kStriped = "tcp:connections=3", *kWide = "tcp:connections=4";

struct ContextDeleter {
    void operator()(gcoll_context *context) const { gcoll_context_destroy(context); }
};
using Context = std::unique_ptr<gcoll_context, ContextDeleter>;

Job job_of(uint32_t size, const char *transport = "tcp", int64_t timeout_ms = 20000, bool checksum = false) {
    Job job;
    job.size = size;
    job.transport = transport;
    job.timeout_ms = timeout_ms;
    job.adjust = [checksum](uint32_t, gcoll_context_options *options) {
        options->share = 1;
        options->tuning = "default";
        options->checksum = checksum;
    };
    return job;
}

// As `join`, over the transport of the job.
Context create(gcoll_store *store, const Job &job, uint32_t rank) {
    const gcoll_context_options options = options_of(job, rank, store, nullptr);
    gcoll_context *context = nullptr;
    EXPECT_GCOLL_OK(gcoll_context_create(&options, &context));
    return Context(context);
}

Context split(gcoll_context *parent, int32_t color, int32_t key = 0) {
    gcoll_context *child = nullptr;
    EXPECT_GCOLL_OK(gcoll_context_split(parent, color, key, &child));
    return Context(child);
}

Context create_group(gcoll_context *parent, const std::vector<uint32_t> &ranks, uint32_t tag = 0) {
    gcoll_context *child = nullptr;
    EXPECT_GCOLL_OK(
        gcoll_context_create_group(parent, ranks.data(), static_cast<uint32_t>(ranks.size()), tag, &child));
    return Context(child);
}

std::string cause_of(const gcoll_context *context) {
    gcoll_context_health(context);
    return gcoll_last_error();
}

// An allreduce whose result is known: rank r of the context gives seed + r + i in element i.
gcoll_status sum_in(gcoll_context *context, uint64_t count, uint32_t seed) {
    const uint32_t size = gcoll_context_size(context), rank = gcoll_context_rank(context);
    std::vector<uint32_t> data(count);
    for (uint64_t i = 0; i < count; i++)
        data[i] = seed + rank + static_cast<uint32_t>(i);
    const gcoll_status status =
        gcoll_allreduce(context, nullptr, data.data(), count, GCOLL_UINT32, GCOLL_SUM, nullptr);
    for (uint64_t i = 0; status == GCOLL_OK && i < count; i++)
        if (data[i] != size * (seed + static_cast<uint32_t>(i)) + size * (size - 1) / 2) {
            ADD_FAILURE() << "element " << i << " of " << count << ": " << data[i];
            break;
        }
    return status;
}

// ---- Results ----------------------------------------------------------------------------------------------

class Share : public testing::TestWithParam<const char *> {};

TEST_P(Share, ContextsOfAllKindsWorkBesideTheirParent) {
    for (bool checksum : {false, true})
        run_threads(
            job_of(5, GetParam(), 20000, checksum),
            [](uint32_t rank, gcoll_context *parent) {
                const Context twin = split(parent, 0, -static_cast<int32_t>(rank));
                const Context half = split(parent, static_cast<int32_t>(rank % 2));
                const Context nested =
                    split(half.get(), static_cast<int32_t>(gcoll_context_rank(half.get()) / 2));
                gcoll_context *copy = nullptr;
                EXPECT_GCOLL_OK(gcoll_context_duplicate(parent, &copy));
                const Context owner(copy);
                Context three;
                if (rank != 1 && rank != 3)
                    three = create_group(parent, {4, 0, 2}, 9);
                for (uint64_t count : {0, 1, 7, 1000, 120000})
                    for (gcoll_context *each :
                         {parent, twin.get(), half.get(), nested.get(), copy, three.get(), parent})
                        if (each)
                            EXPECT_GCOLL_OK(sum_in(each, count, rank == 99 ? 0 : 5));
                EXPECT_EQ(gcoll_context_parent_rank(twin.get(), 0), 4u);
            });
}

// Operations of many contexts are in flight at once, begun and ended in any order.
TEST_P(Share, OperationsOfManyContextsInFlight) {
    constexpr uint32_t kRanks = 4, kGroups = 12, kRounds = 6;
    run_threads(job_of(kRanks, GetParam()), [](uint32_t rank, gcoll_context *parent) {
        std::mt19937 same(11), own(rank);
        std::vector<Context> groups;
        for (uint32_t i = 0; i < kGroups; i++) {
            const uint32_t members = 1 + same() % ((1U << kRanks) - 1);
            groups.push_back(split(parent, members >> rank & 1 ? 0 : GCOLL_COLOR_NONE));
        }
        for (uint32_t round = 0; round < kRounds; round++) {
            std::vector<uint64_t> counts;
            for (uint32_t i = 0; i < kGroups; i++)
                counts.push_back(same() % 3 == 0 ? same() % 200000 : same() % 300);
            std::vector<uint32_t> order;
            for (uint32_t i = 0; i < kGroups; i++)
                if (groups[i])
                    order.push_back(i);
            std::vector<std::vector<uint32_t>> data(kGroups);
            std::vector<gcoll_request *> requests(kGroups);
            std::shuffle(order.begin(), order.end(), own);
            for (uint32_t i : order) {
                data[i].assign(counts[i], gcoll_context_rank(groups[i].get()) + i);
                EXPECT_GCOLL_OK(gcoll_allreduce_start(groups[i].get(), nullptr, data[i].data(), counts[i],
                                                      GCOLL_UINT32, GCOLL_SUM, nullptr, &requests[i]));
            }
            EXPECT_GCOLL_OK(sum_in(parent, 100, round));
            // A started operation advances in calls on its own context, so all are tested in turn.
            uint32_t left = static_cast<uint32_t>(order.size());
            const int64_t begun = now_ms();
            while (left > 0 && now_ms() - begun < 20000)
                for (uint32_t i : order) {
                    int done = 0;
                    if (!requests[i])
                        continue;
                    EXPECT_GCOLL_OK(gcoll_request_test(&requests[i], &done));
                    left -= done != 0;
                }
            ASSERT_EQ(left, 0u);
            for (uint32_t i : order) {
                const uint32_t size = gcoll_context_size(groups[i].get());
                const uint32_t expected = size * i + size * (size - 1) / 2;
                EXPECT_EQ(std::count(data[i].begin(), data[i].end(), expected),
                          static_cast<int64_t>(counts[i]))
                    << "group " << i << ", round " << round;
            }
        }
    });
}

TEST_P(Share, PairsOfDifferentContextsDoNotMix) {
    run_threads(
        job_of(2, GetParam()),
        [](uint32_t rank, gcoll_context *parent) {
            const Context a = split(parent, 0), b = split(parent, 0);
            gcoll_context *const all[] = {parent, a.get(), b.get()};
            gcoll_pair *pairs[3];
            for (int i = 0; i < 3; i++)
                EXPECT_GCOLL_OK(gcoll_context_pair(all[i], 1 - rank, &pairs[i]));
            for (uint64_t count : {1, 100000}) { // the same tag everywhere, received in another order
                std::vector<std::vector<int>> sent(3), got(3);
                std::vector<gcoll_request *> sends(3);
                for (int i = 0; i < 3; i++) {
                    sent[i].assign(count, 10 * i + static_cast<int>(rank));
                    got[i].assign(count, -1);
                    EXPECT_GCOLL_OK(
                        gcoll_pair_send_start(pairs[i], 7, sent[i].data(), count * sizeof(int), &sends[i]));
                }
                for (int i : {2, 0, 1})
                    EXPECT_GCOLL_OK(gcoll_pair_recv(pairs[i], 7, got[i].data(), count * sizeof(int)));
                for (int i = 0; i < 3; i++) {
                    EXPECT_GCOLL_OK(gcoll_request_wait(&sends[i]));
                    EXPECT_EQ(std::count(got[i].begin(), got[i].end(), 10 * i + 1 - static_cast<int>(rank)),
                              static_cast<int64_t>(count));
                }
            }
        });
}

// Several connections a peer are the parent's alone; its groups' messages stay in order on the first one.
INSTANTIATE_TEST_SUITE_P(Over, Share, testing::Values("tcp", "inproc", kStriped), [](const auto &over) {
    return std::string(over.param) == kStriped ? std::string("connections") : std::string(over.param);
});

// ---- Costs ------------------------------------------------------------------------------------------------

struct Cost {
    std::atomic<int64_t> alone[4], idle[4], used[4], idle_bytes[4], used_bytes[4], left[4];
};

// libuv keeps a pipe for signals of the process, from its first loop on. A loop, which is made when it is
// first needed, has four descriptors, and one in reserve once it has made a connection.
constexpr int64_t kOfProcess = 2, kOfLoop = 5;

// 1,000 groups of a few ranks each, all used, where contexts of their own would need 3,000 descriptors and
// more.
TEST(ShareCosts, AThousandGroupsUnderALimitOf1024Descriptors) {
    constexpr uint32_t kRanks = 4, kGroups = 1000;
    Shared<Cost> cost;
    run_processes(kRanks, 100000, [&](uint32_t rank, gcoll_store *store) {
        const rlimit limit = {1024, 1024};
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
        const auto before = static_cast<int64_t>(open_descriptors());
        const Job job = job_of(kRanks);
        Context parent(join(store, job, rank));
        if (!parent)
            return kFailed;
        const auto taken = [before] { return static_cast<int64_t>(open_descriptors()) - before; };
        cost->alone[rank] = taken();
        EXPECT_GCOLL_OK(sum_in(parent.get(), 10, 1));
        const int64_t bytes = allocated_bytes;
        std::vector<Context> groups;
        std::mt19937 same(5);
        uint32_t mine = 0;
        for (uint32_t i = 0; i < kGroups; i++) {
            const uint32_t members = i % 4 == 0 ? 15 : 1 + same() % 15;
            groups.push_back(split(parent.get(), members >> rank & 1 ? 0 : GCOLL_COLOR_NONE));
            mine += gcoll_context_size(groups.back().get()) > 1;
        }
        cost->idle_bytes[rank] = (allocated_bytes - bytes) / mine;
        cost->idle[rank] = taken();
        for (uint32_t i = 0; i < kGroups; i++)
            if (groups[i])
                EXPECT_GCOLL_OK(sum_in(groups[i].get(), 3 + i % 50, i));
        cost->used_bytes[rank] = (allocated_bytes - bytes) / mine;
        cost->used[rank] = taken();
        for (uint32_t i = 0; i < kGroups; i++) // in another order on each rank
            groups[(i * 7 + rank * 100) % kGroups].reset();
        EXPECT_GCOLL_OK(sum_in(parent.get(), 10, 1));
        parent.reset();
        cost->left[rank] = taken();
        return 0;
    });
    for (uint32_t rank = 0; rank < kRanks; rank++) {
        printf("rank %u: %lld descriptors by itself, %lld with %u groups, %lld when all are used; bytes a "
               "group: %lld idle, %lld used\n",
               rank, static_cast<long long>(cost->alone[rank]), static_cast<long long>(cost->idle[rank]),
               kGroups, static_cast<long long>(cost->used[rank]),
               static_cast<long long>(cost->idle_bytes[rank]),
               static_cast<long long>(cost->used_bytes[rank]));
        EXPECT_GT(cost->alone[rank], 0);
        EXPECT_LE(cost->idle[rank], cost->alone[rank] + kOfProcess + kOfLoop + kRanks - 1) << "connections";
        EXPECT_LE(cost->used[rank], cost->alone[rank] + kOfProcess + kOfLoop + kRanks - 1);
        EXPECT_LE(cost->left[rank], kOfProcess);
    }
}

// ---- Breaking, and leaving --------------------------------------------------------------------------------

TEST(ShareFailures, AnAbortOfAGroupBreaksNoOther) {
    run_threads(
        job_of(3),
        [](uint32_t rank, gcoll_context *parent) {
            for (int round = 0; round < 10; round++) {
                SCOPED_TRACE(round);
                const Context broken = split(parent, 0), other = split(parent, 0);
                if (round % 2 == 0)
                    EXPECT_GCOLL_OK(sum_in(broken.get(), 10, 1));
                EXPECT_GCOLL_OK(gcoll_barrier(parent, nullptr)); // all are through with it
                if (rank == 0) {
                    gcoll_context_abort(broken.get(), "enough");
                    EXPECT_EQ(sum_in(broken.get(), 1, 1), GCOLL_ERR_ABORTED);
                } else {
                    EXPECT_EQ(sum_in(broken.get(), 300000, 1), GCOLL_ERR_ABORTED) << gcoll_last_error();
                    EXPECT_EQ(gcoll_context_culprit(broken.get()), 0);
                    EXPECT_NE(cause_of(broken.get()).find("enough"), std::string::npos);
                }
                EXPECT_GCOLL_OK(sum_in(other.get(), 300000, 1));
                EXPECT_GCOLL_OK(sum_in(parent, 1000, 1));
            }
        });
}

// In the middle of large messages, in both directions, with other groups' messages behind them.
TEST(ShareFailures, AnAbortInTheMiddleOfMessages) {
    run_threads(
        job_of(2),
        [](uint32_t rank, gcoll_context *parent) {
            std::mt19937 same(3);
            for (int round = 0; round < 30; round++) {
                SCOPED_TRACE(round);
                const Context broken = split(parent, 0), other = split(parent, 0);
                const uint64_t count = 1 + same() % 3000000;
                auto data = std::make_unique<std::vector<uint32_t>>(count, 1);
                std::vector<uint32_t> more(200000, rank + 1);
                gcoll_request *request = nullptr, *second = nullptr;
                const gcoll_status begun = gcoll_allreduce_start(broken.get(), nullptr, data->data(), count,
                                                                 GCOLL_UINT32, GCOLL_SUM, nullptr, &request);
                EXPECT_TRUE(begun == GCOLL_OK || begun == GCOLL_ERR_ABORTED) << told(begun);
                EXPECT_GCOLL_OK(gcoll_allreduce_start(other.get(), nullptr, more.data(), more.size(),
                                                      GCOLL_UINT32, GCOLL_SUM, nullptr, &second));
                const int tests = static_cast<int>(same() % 20);
                int done = 0;
                for (int i = 0; i < tests && request; i++)
                    gcoll_request_test(&request, &done);
                if (rank == static_cast<uint32_t>(round % 2))
                    gcoll_context_abort(broken.get(), "enough");
                if (request)
                    gcoll_request_wait(&request);
                data.reset(); // nothing touches it from now on
                EXPECT_GCOLL_OK(gcoll_request_wait(&second));
                EXPECT_EQ(std::count(more.begin(), more.end(), 3u), 200000);
                EXPECT_GCOLL_OK(sum_in(parent, 1000, 1));
            }
        });
}

TEST(ShareFailures, IfTheParentBreaksSoDoItsGroups) {
    std::atomic<uint32_t> ready{0};
    run_threads(job_of(4), [&](uint32_t rank, gcoll_context *parent) {
        const Context all = split(parent, 0), pair = split(parent, static_cast<int32_t>(rank / 2));
        EXPECT_GCOLL_OK(sum_in(all.get(), 10, 1));
        EXPECT_GCOLL_OK(sum_in(pair.get(), 10, 1));
        ready++;
        if (rank == 3) {
            ASSERT_TRUE(await(ready, 4));
            gcoll_context_abort(parent, "enough");
            EXPECT_EQ(sum_in(parent, 1, 1), GCOLL_ERR_ABORTED);
            EXPECT_EQ(sum_in(pair.get(), 1, 1), GCOLL_ERR_ABORTED);
        } else {
            EXPECT_EQ(sum_in(all.get(), 1, 1), GCOLL_ERR_ABORTED);
            EXPECT_EQ(gcoll_context_culprit(all.get()), 3);
        }
        EXPECT_EQ(sum_in(parent, 1, 1), GCOLL_ERR_ABORTED);
        EXPECT_EQ(sum_in(pair.get(), 1, 1), GCOLL_ERR_ABORTED);
        EXPECT_NE(cause_of(pair.get()).find("the context whose connections this one shares broke"),
                  std::string::npos)
            << cause_of(pair.get());
    });
}

TEST(ShareFailures, AMismatchBreaksItsGroupAlone) {
    run_threads(
        job_of(2),
        [](uint32_t rank, gcoll_context *parent) {
            const Context broken = split(parent, 0), other = split(parent, 0);
            EXPECT_EQ(sum_in(broken.get(), 10 + rank, 1), GCOLL_ERR_MISMATCH);
            EXPECT_GCOLL_OK(sum_in(other.get(), 10, 1));
            EXPECT_GCOLL_OK(sum_in(parent, 10, 1));
        });
}

// The rank that is waited for is busy elsewhere on the same connections, and its traffic there is no
// progress.
TEST(ShareFailures, AGroupTimesOutWhileOthersAreBusy) {
    std::atomic<bool> over{false};
    run_threads(job_of(3, "tcp", 1000), [&](uint32_t rank, gcoll_context *parent) {
        const Context late = split(parent, 0), busy = split(parent, rank > 0 ? 0 : GCOLL_COLOR_NONE);
        EXPECT_GCOLL_OK(sum_in(late.get(), 10, 1));
        if (rank == 0) {
            const int64_t begun = now_ms();
            EXPECT_EQ(sum_in(late.get(), 10, 1), GCOLL_ERR_TIMEOUT);
            EXPECT_LT(now_ms() - begun, 5000);
            EXPECT_NE(cause_of(late.get()).find("timed out"), std::string::npos);
            over = true;
        } else {
            uint32_t goes = 1; // both decide alike: rank 1 says when it is over
            for (int i = 0; goes; i++) {
                goes = rank == 1 ? !over : 0;
                EXPECT_GCOLL_OK(gcoll_broadcast(busy.get(), &goes, 1, GCOLL_UINT32, 0, nullptr));
                EXPECT_GCOLL_OK(sum_in(busy.get(), 1000, 1));
            }
            // By what rank 0 sent before it gave up, unless its word has been read.
            const gcoll_status status = sum_in(late.get(), 10, 1);
            EXPECT_TRUE(status == GCOLL_OK || status == GCOLL_ERR_TIMEOUT) << told(status);
        }
        EXPECT_GCOLL_OK(sum_in(parent, 10, 1));
    });
}

TEST(ShareFailures, ARankThatDiesBreaksAllItsGroups) {
    constexpr uint32_t kRanks = 4, kVictim = 2;
    Shared<std::atomic<uint32_t>> ready;
    Folder folder;
    Processes processes(kRanks, [&](uint32_t rank) {
        gcoll_store *store = nullptr;
        EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 10000, &store));
        Context parent(join(store, job_of(kRanks), rank));
        if (!parent)
            return kFailed;
        std::vector<Context> groups;
        for (int i = 0; i < 20; i++)
            groups.push_back(split(parent.get(), 0));
        const Context without = split(parent.get(), rank == kVictim ? 1 : 0);
        for (const Context &group : groups)
            EXPECT_GCOLL_OK(sum_in(group.get(), 10, 1));
        EXPECT_GCOLL_OK(sum_in(without.get(), 10, 1));
        ++*ready;
        if (rank == kVictim)
            pause();
        for (const Context &group : groups) {
            EXPECT_EQ(sum_in(group.get(), 100000, 1), GCOLL_ERR_PEER) << cause_of(group.get());
            EXPECT_EQ(gcoll_context_culprit(group.get()), int64_t(kVictim)) << cause_of(group.get());
        }
        EXPECT_NE(gcoll_barrier(parent.get(), nullptr), GCOLL_OK);
        EXPECT_EQ(gcoll_context_culprit(parent.get()), int64_t(kVictim)) << cause_of(parent.get());
        groups.clear();
        parent.reset();
        gcoll_store_destroy(store);
        return testing::Test::HasFailure() ? 1 : 0;
    });
    ASSERT_TRUE(await(*ready, kRanks, 20000));
    processes.signal(kVictim, SIGKILL);
    processes.expect_success(20000, kVictim);
}

enum class Form { kBlocking, kStarted, kPersistent };

// A sum of zeros in one of the three forms.
gcoll_status sum_by(Form form, gcoll_context *context, std::vector<uint32_t> &data) {
    gcoll_request *request = nullptr;
    gcoll_operation *operation = nullptr;
    gcoll_status status;
    switch (form) {
    case Form::kBlocking:
        return gcoll_allreduce(context, nullptr, data.data(), data.size(), GCOLL_UINT32, GCOLL_SUM, nullptr);
    case Form::kStarted:
        status = gcoll_allreduce_start(context, nullptr, data.data(), data.size(), GCOLL_UINT32, GCOLL_SUM,
                                       nullptr, &request);
        return status == GCOLL_OK ? gcoll_request_wait(&request) : status;
    default:
        status = gcoll_allreduce_create(context, nullptr, data.data(), data.size(), GCOLL_UINT32, GCOLL_SUM,
                                        nullptr, &operation);
        if (status == GCOLL_OK)
            status = gcoll_operation_run(operation);
        gcoll_operation_destroy(operation);
        return status;
    }
}

// Its large messages go by several connections on the parent, and by one on the groups. In each context it
// has another number. Each rank waits in each form, on the parent first or last.
TEST(ShareFailures, ARankThatDiesAmidLargeMessagesIsNamedToAll) {
    constexpr uint32_t kRanks = 4, kVictim = 2;
    constexpr uint64_t kCount = 3000000;
    for (bool parent_first : {false, true}) {
        SCOPED_TRACE(parent_first);
        Folder folder;
        Shared<std::atomic<uint32_t>> summed;
        Processes processes(kRanks, [&](uint32_t rank) {
            gcoll_store *store = nullptr;
            EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 10000, &store));
            Context parent = create(store, job_of(kRanks, kWide), rank);
            if (!parent)
                return kFailed;
            std::vector<Context> groups;
            groups.push_back(split(parent.get(), 0, -static_cast<int32_t>(rank)));
            groups.push_back(split(groups[0].get(), 0, static_cast<int32_t>((rank + 1) % kRanks)));
            groups.push_back(create_group(parent.get(), {2, 0, 3, 1}));
            groups.push_back(create_group(groups[2].get(), {0, 1, 2, 3}, 4));
            std::vector<gcoll_context *> all = {parent.get()};
            for (const Context &group : groups)
                all.push_back(group.get());
            std::vector<std::vector<uint32_t>> first(all.size(), std::vector<uint32_t>(kCount)),
                second(all.size(), std::vector<uint32_t>(1000));
            std::vector<gcoll_request *> requests(all.size());
            for (gcoll_context *each : all)
                EXPECT_GCOLL_OK(sum_in(each, 10, 1));
            ++*summed;
            if (rank == kVictim) // its death may take with it what the others have not read
                await(*summed, kRanks);
            for (size_t i = 0; i < all.size(); i++) { // large ones are on their way in all of them
                const gcoll_status begun = gcoll_allreduce_start(
                    all[i], nullptr, first[i].data(), kCount, GCOLL_UINT32, GCOLL_SUM, nullptr, &requests[i]);
                EXPECT_TRUE(begun == GCOLL_OK || begun == GCOLL_ERR_PEER) << told(begun);
            }
            if (rank == kVictim) {
                int done = 0;
                for (gcoll_request *&request : requests)
                    gcoll_request_test(&request, &done);
                raise(SIGKILL);
            }
            const uint32_t numbers[] = {2, 1, 3, 0, 0}; // the victim's
            std::vector<size_t> order = {1, 2, 3, 4};
            order.insert(parent_first ? order.begin() : order.end(), 0);
            for (size_t i : order) {
                SCOPED_TRACE(i);
                const auto form = static_cast<Form>((rank + i) % 3);
                EXPECT_EQ(sum_by(form, all[i], second[i]), GCOLL_ERR_PEER) << cause_of(all[i]);
                EXPECT_EQ(gcoll_context_culprit(all[i]), int64_t(numbers[i])) << cause_of(all[i]);
                if (requests[i])
                    EXPECT_EQ(gcoll_request_wait(&requests[i]), GCOLL_ERR_PEER) << cause_of(all[i]);
            }
            if (rank % 2 == 0)
                parent.reset();
            groups.clear();
            parent.reset();
            gcoll_store_destroy(store);
            return testing::Test::HasFailure() ? 1 : 0;
        });
        processes.expect_success(60000, kVictim);
    }
}

// All ranks have opened their ends of the new context then, and no rank knows the addresses of the others.
TEST(ShareFailures, ARankThatDiesWhileAGroupIsMade) {
    constexpr uint32_t kRanks = 3, kVictim = 1;
    using Make = gcoll_status (*)(gcoll_context *, gcoll_context **);
    const Make makes[] = {gcoll_context_duplicate,
                          [](gcoll_context *parent, gcoll_context **child) {
                              return gcoll_context_split(
                                  parent, 0, -static_cast<int32_t>(gcoll_context_rank(parent)), child);
                          },
                          [](gcoll_context *parent, gcoll_context **child) {
                              const uint32_t ranks[] = {2, 0, 1};
                              return gcoll_context_create_group(parent, ranks, kRanks, 5, child);
                          }};
    for (size_t i = 0; i < std::size(makes); i++) {
        SCOPED_TRACE(i);
        Shared<std::atomic<uint32_t>> opened;
        Folder folder;
        Processes processes(kRanks, [&](uint32_t rank) {
            gcoll_store *store = nullptr;
            gcoll_context *child = nullptr;
            EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 10000, &store));
            Context parent(join(store, job_of(kRanks), rank));
            if (!parent)
                return kFailed;
            EXPECT_GCOLL_OK(sum_in(parent.get(), 10, 1));
            when_opened = [&] {
                ++*opened;
                if (rank == kVictim && await(*opened, kRanks, 20000))
                    raise(SIGKILL);
            };
            EXPECT_EQ(makes[i](parent.get(), &child), GCOLL_ERR_PEER) << gcoll_last_error();
            EXPECT_EQ(child, nullptr);
            EXPECT_EQ(gcoll_context_culprit(parent.get()), int64_t(kVictim)) << cause_of(parent.get());
            parent.reset();
            gcoll_store_destroy(store);
            return testing::Test::HasFailure() ? 1 : 0;
        });
        processes.expect_success(30000, kVictim);
    }
}

// What a rank sent before it left is still received, and whoever waits for more is told.
TEST(ShareFailures, AGroupThatIsFreedWhileItsPeersUseIt) {
    run_threads(
        job_of(3),
        [](uint32_t rank, gcoll_context *parent) {
            for (int round = 0; round < 10; round++) {
                SCOPED_TRACE(round);
                Context group = split(parent, 0);
                gcoll_pair *pair = nullptr;
                const int value = 41;
                int got = 0;
                if (rank == 0) {
                    EXPECT_GCOLL_OK(gcoll_context_pair(group.get(), 1, &pair));
                    EXPECT_GCOLL_OK(gcoll_pair_send(pair, 1, &value, sizeof value));
                    group.reset();
                } else if (rank == 1) {
                    EXPECT_GCOLL_OK(gcoll_context_pair(group.get(), 0, &pair));
                    EXPECT_GCOLL_OK(gcoll_pair_recv(pair, 1, &got, sizeof got));
                    EXPECT_EQ(got, value);
                }
                EXPECT_GCOLL_OK(gcoll_barrier(parent, nullptr)); // the group breaks afterwards
                if (rank != 0) {
                    EXPECT_EQ(gcoll_barrier(group.get(), nullptr), GCOLL_ERR_PEER);
                    EXPECT_NE(cause_of(group.get()).find("left the job"), std::string::npos)
                        << cause_of(group.get());
                }
                EXPECT_GCOLL_OK(sum_in(parent, 1000, 1));
            }
        });
}

// Ranks 0 and 3 have not met when rank 0 frees the group, so its goodbye has not reached rank 3.
TEST(ShareFailures, AGroupThatIsFreedBeforeItsRanksMeet) {
    std::atomic<uint32_t> freed{0};
    run_threads(job_of(8, "tcp", 8000), [&](uint32_t rank, gcoll_context *parent) {
        Context group = split(parent, 0);
        if (rank == 0) {
            group.reset();
            freed = 1;
        } else if (rank == 3 && await(freed, 1)) {
            gcoll_pair *pair = nullptr;
            int got = 0;
            EXPECT_GCOLL_OK(gcoll_context_pair(group.get(), 0, &pair));
            EXPECT_EQ(gcoll_pair_recv(pair, 1, &got, sizeof got), GCOLL_ERR_PEER) << cause_of(group.get());
            EXPECT_NE(cause_of(group.get()).find("left the job"), std::string::npos) << cause_of(group.get());
        }
        EXPECT_GCOLL_OK(gcoll_barrier(parent, nullptr));
    });
}

// The others are in the middle of large messages to it, and to one another.
TEST(ShareFailures, AGroupThatIsFreedWhileItsPeersSend) {
    for (const char *transport : {"tcp", kStriped})
        run_threads(
            job_of(3, transport),
            [](uint32_t rank, gcoll_context *parent) {
                std::mt19937 same(4);
                for (uint32_t round = 0; round < repeats(15, 6); round++) {
                    SCOPED_TRACE(round);
                    Context group = split(parent, 0);
                    const Context other = split(parent, 0);
                    const uint64_t count = 100000 + same() % 2000000;
                    auto data = std::make_unique<std::vector<uint32_t>>(count, 1);
                    gcoll_request *request = nullptr;
                    const gcoll_status begun =
                        gcoll_allreduce_start(group.get(), nullptr, data->data(), count, GCOLL_UINT32,
                                              GCOLL_SUM, nullptr, &request);
                    EXPECT_TRUE(begun == GCOLL_OK || begun == GCOLL_ERR_PEER) << told(begun);
                    if (rank == static_cast<uint32_t>(round % 3)) {
                        int done = 0;
                        for (uint32_t i = same() % 20; i > 0 && request; i--)
                            gcoll_request_test(&request, &done);
                        group.reset();
                        data.reset(); // nothing touches it from now on
                    } else {
                        same.discard(1);
                        const gcoll_status ended = request ? gcoll_request_wait(&request) : begun;
                        EXPECT_TRUE(ended == GCOLL_OK || ended == GCOLL_ERR_PEER) << told(ended);
                    }
                    EXPECT_GCOLL_OK(sum_in(other.get(), 300000, 1));
                    EXPECT_GCOLL_OK(sum_in(parent, 1000000, 1));
                }
            });
}

// What was sent on the parent by several connections arrives, although the parent is freed at once and its
// groups keep the connections.
TEST(ShareFailures, WhatAParentSentArrivesAfterItIsFreed) {
    constexpr uint64_t kBytes = 9000001;
    constexpr int kRounds = 5;
    for (int round = 0; round < kRounds; round++) {
        Shared<std::atomic<uint32_t>> through;
        run_processes(2, 60000, [&](uint32_t rank, gcoll_store *store) {
            Context parent = create(store, job_of(2, kStriped), rank);
            if (!parent)
                return kFailed;
            const Context group = split(parent.get(), 0);
            std::vector<uint8_t> data(kBytes, rank == 0 ? 7 : 0);
            gcoll_pair *pair = nullptr;
            EXPECT_GCOLL_OK(gcoll_context_pair(parent.get(), 1 - rank, &pair));
            if (rank == 0) {
                EXPECT_GCOLL_OK(gcoll_pair_send(pair, 3, data.data(), kBytes));
                parent.reset();
                data.clear();
                data.shrink_to_fit();
            } else {
                EXPECT_GCOLL_OK(gcoll_pair_recv(pair, 3, data.data(), kBytes));
                EXPECT_EQ(std::count(data.begin(), data.end(), 7), int64_t(kBytes));
            }
            EXPECT_GCOLL_OK(sum_in(group.get(), 1000000, 1));
            ++*through;
            EXPECT_TRUE(await(*through, 2));
            if (parent)
                EXPECT_EQ(gcoll_barrier(parent.get(), nullptr), GCOLL_ERR_PEER) << "rank 0 has left it";
            return testing::Test::HasFailure() ? 1 : 0;
        });
    }
}

TEST(ShareFailures, TheParentMayBeDestroyedFirst) {
    constexpr uint32_t kRanks = 3;
    Shared<Cost> cost;
    Shared<std::atomic<uint32_t>> through;
    run_processes(kRanks, 60000, [&](uint32_t rank, gcoll_store *store) {
        Context parent(join(store, job_of(kRanks), rank));
        if (!parent)
            return kFailed;
        Context group = split(parent.get(), 0), other = split(parent.get(), 0);
        const Context unmet = create_group(parent.get(), {0, 1, 2});
        EXPECT_GCOLL_OK(sum_in(group.get(), 10, 1));
        if (rank == 0) // the others still use it
            parent.reset();
        EXPECT_GCOLL_OK(sum_in(group.get(), 300000, 1));
        ++*through;
        EXPECT_TRUE(await(*through, kRanks)); // a parent that breaks breaks the group
        if (parent)
            EXPECT_EQ(gcoll_barrier(parent.get(), nullptr), GCOLL_ERR_PEER) << "rank 0 has left it";
        return testing::Test::HasFailure() ? 1 : 0;
    });
    run_processes(kRanks, 60000, [&](uint32_t rank, gcoll_store *store) {
        const auto before = static_cast<int64_t>(open_descriptors());
        Context parent(join(store, job_of(kRanks), rank));
        if (!parent)
            return kFailed;
        Context group = split(parent.get(), 0), other = split(parent.get(), 0);
        EXPECT_GCOLL_OK(sum_in(group.get(), 10, 1));
        parent.reset(); // on all ranks
        for (int i = 0; i < 50; i++) {
            EXPECT_GCOLL_OK(sum_in(group.get(), 100000, 1));
            EXPECT_GCOLL_OK(sum_in(other.get(), 10, 1)); // connects ranks that have not met
        }
        Context later = split(group.get(), 0);
        EXPECT_GCOLL_OK(sum_in(later.get(), 10, 1));
        group.reset();
        EXPECT_GCOLL_OK(sum_in(later.get(), 10, 1));
        later.reset();
        other.reset();
        cost->left[rank] = static_cast<int64_t>(open_descriptors()) - before;
        return testing::Test::HasFailure() ? 1 : 0;
    });
    for (uint32_t rank = 0; rank < kRanks; rank++)
        EXPECT_LE(cost->left[rank], kOfProcess);
}

// ---- Forks ------------------------------------------------------------------------------------------------

// The process forks while large messages of all contexts are on their way, on the parent by several
// connections. The child frees what it has, in any order, and the rank goes on.
TEST(ShareForks, AChildFreesAllAmidTheirMessages) {
    constexpr uint32_t kRanks = 3;
    constexpr uint64_t kCount = 700000;
    for (const char *transport : {"tcp", kWide})
        run_processes(kRanks, 100000, [&](uint32_t rank, gcoll_store *store) {
            Context parent = create(store, job_of(kRanks, transport), rank);
            if (!parent)
                return kFailed;
            const Context group = split(parent.get(), 0), other = split(group.get(), 0);
            gcoll_context *const all[] = {parent.get(), group.get(), other.get()};
            for (gcoll_context *each : all)
                EXPECT_GCOLL_OK(sum_in(each, 10, 1));
            for (int round = 0; round < static_cast<int>(repeats(6, 4)); round++) {
                SCOPED_TRACE(round);
                std::vector<std::vector<uint32_t>> data(3, std::vector<uint32_t>(kCount, rank));
                gcoll_request *requests[3] = {};
                for (int i = 0; i < 3; i++)
                    EXPECT_GCOLL_OK(gcoll_allreduce_start(all[i], nullptr, data[i].data(), kCount,
                                                          GCOLL_UINT32, GCOLL_SUM, nullptr, &requests[i]));
                int done = 0;
                for (int tests = 0; tests < 3 * round; tests++)
                    for (gcoll_request *&request : requests)
                        if (request)
                            EXPECT_GCOLL_OK(gcoll_request_test(&request, &done));
                if (rank == 1)
                    in_child([&] {
                        std::vector<std::vector<uint32_t>>().swap(data);
                        for (int i = 0; i < 3; i++) {
                            gcoll_context *each = all[(round + (round < 3 ? i : 3 - i)) % 3];
                            EXPECT_EQ(sum_in(each, 1, 1), GCOLL_ERR_STATE);
                            gcoll_context_destroy(each);
                        }
                    });
                for (int i = 0; i < 3; i++) {
                    if (requests[i])
                        EXPECT_GCOLL_OK(gcoll_request_wait(&requests[i]));
                    EXPECT_EQ(std::count(data[i].begin(), data[i].end(), 3u), int64_t(kCount));
                }
            }
            return testing::Test::HasFailure() ? 1 : 0;
        });
}

// An operation of the caller's forks amid a call on one of them. The child may not touch any of them.
TEST(ShareForks, AChildOfACallTouchesNone) {
    constexpr int kForks = 5;
    run_processes(2, 100000, [&](uint32_t rank, gcoll_store *store) {
        Context parent = create(store, job_of(2, kWide), rank);
        if (!parent)
            return kFailed;
        const Context group = split(parent.get(), 0);
        int made = 0;
        // An operation of the caller's runs inside the call.
        gcoll_user_op op = {};
        const std::function<void()> forks = [&] {
            if (rank != 1 || made++ >= kForks)
                return;
            fflush(nullptr);
            const pid_t child = fork();
            if (child == 0) {
                alarm(60);
                for (gcoll_context *each :
                     {made % 2 ? parent.get() : group.get(), made % 2 ? group.get() : parent.get()}) {
                    gcoll_context_destroy(each); // does nothing
                    EXPECT_EQ(sum_in(each, 1, 1), GCOLL_ERR_STATE);
                }
                _exit(testing::Test::HasFailure() ? kFailed : 0);
            }
            int ended = 0;
            EXPECT_EQ(waitpid(child, &ended, 0), child);
            EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0) << "the child ended with " << ended;
        };
        op.arg = const_cast<std::function<void()> *>(&forks);
        op.commutative = 1;
        op.reduce = [](void *to, const void *x, const void *y, uint64_t count, gcoll_type, void *arg) {
            for (uint64_t i = 0; i < count; i++)
                static_cast<uint32_t *>(to)[i] =
                    static_cast<const uint32_t *>(x)[i] + static_cast<const uint32_t *>(y)[i];
            (*static_cast<std::function<void()> *>(arg))();
            return GCOLL_OK;
        };
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.user_op = &op;
        for (int round = 0; round < kForks; round++)
            for (gcoll_context *each : {parent.get(), group.get()}) {
                std::vector<uint32_t> data(1000000, rank + 1);
                EXPECT_GCOLL_OK(gcoll_allreduce(each, nullptr, data.data(), data.size(), GCOLL_UINT32,
                                                GCOLL_USER, &options));
                EXPECT_EQ(std::count(data.begin(), data.end(), 3u), 1000000);
            }
        EXPECT_TRUE(rank == 0 || made >= kForks) << made;
        return testing::Test::HasFailure() ? 1 : 0;
    });
}

// ---- Use --------------------------------------------------------------------------------------------------

TEST_P(Share, ASecondThreadIsRefusedOnAnyOfThem) {
    run_threads(
        job_of(2, GetParam()),
        [](uint32_t, gcoll_context *parent) {
            const Context a = split(parent, 0), b = split(parent, 0);
            struct Look {
                gcoll_context *other, *parent;
                gcoll_status own, thread, above;
                std::string text;
            } look = {b.get(), parent, GCOLL_OK, GCOLL_OK, GCOLL_OK, ""};
            // An operation of the caller's runs inside a call on `a`.
            gcoll_user_op op = {};
            op.arg = &look;
            op.commutative = 1;
            op.reduce = [](void *to, const void *x, const void *y, uint64_t count, gcoll_type, void *arg) {
                Look *seen = static_cast<Look *>(arg);
                for (uint64_t i = 0; i < count; i++)
                    static_cast<uint32_t *>(to)[i] =
                        static_cast<const uint32_t *>(x)[i] + static_cast<const uint32_t *>(y)[i];
                seen->own = gcoll_barrier(seen->other, nullptr);
                seen->above = gcoll_barrier(seen->parent, nullptr);
                std::thread([seen] {
                    seen->thread = gcoll_barrier(seen->other, nullptr);
                    seen->text = gcoll_last_error();
                }).join();
                return GCOLL_OK;
            };
            gcoll_allreduce_options options;
            gcoll_allreduce_options_init(&options);
            options.user_op = &op;
            options.algorithm = "recursive_doubling";
            uint32_t value = 1;
            EXPECT_GCOLL_OK(gcoll_allreduce(a.get(), nullptr, &value, 1, GCOLL_UINT32, GCOLL_USER, &options));
            EXPECT_EQ(value, 2u);
            EXPECT_EQ(look.own, GCOLL_ERR_STATE);
            EXPECT_EQ(look.above, GCOLL_ERR_STATE);
            EXPECT_EQ(look.thread, GCOLL_ERR_STATE);
            EXPECT_NE(look.text.find("options.share"), std::string::npos) << look.text;
            EXPECT_GCOLL_OK(sum_in(b.get(), 10, 1));
        });
}

TEST(ShareOptions, WrongOnesAreNamed) {
    gcoll_context_options options;
    gcoll_context *context = nullptr;
    gcoll_context_options_init(&options);
    options.share = 1;
    options.progress_thread = 1;
    EXPECT_EQ(gcoll_context_create(&options, &context), GCOLL_ERR_INVALID);
    EXPECT_NE(std::string(gcoll_last_error()).find("options.share"), std::string::npos);
}

// Whether or not there is such a device.
TEST(ShareOptions, RefusedOverIbverbs) {
    for (const char *transport : {"ibverbs", "ibverbs,tcp", "tcp,ibverbs", "shm,ibverbs,tcp"}) {
        gcoll_context_options options;
        gcoll_context *context = nullptr;
        gcoll_context_options_init(&options);
        options.share = 1;
        options.size = 1;
        options.transport = transport;
        EXPECT_EQ(gcoll_context_create(&options, &context), GCOLL_ERR_UNSUPPORTED) << transport;
        EXPECT_EQ(std::string(gcoll_last_error()),
                  "options.share: is 1; not possible over ibverbs, only over tcp and inproc");
        EXPECT_EQ(context, nullptr);
    }
}

// "auto", or no transport, is not refused on a machine with devices: it then is tcp.
TEST(ShareOptions, WithoutATransportItIsTcp) {
    const std::string variable = getenv("GCOLL_TRANSPORT") ? getenv("GCOLL_TRANSPORT") : "";
    unsetenv("GCOLL_TRANSPORT");
    has_device = true;
    for (const char *transport : {static_cast<const char *>(nullptr), "auto"})
        run_threads(job_of(2, transport), [](uint32_t rank, gcoll_context *parent) {
            const Context child = split(parent, 0);
            const std::string to = "to rank " + std::to_string(1 - rank);
            char text[1024];
            for (gcoll_context *each : {parent, child.get()})
                EXPECT_GCOLL_OK(sum_in(each, 10, 1));
            EXPECT_GCOLL_OK(gcoll_context_lanes(parent, text, sizeof text));
            EXPECT_EQ(std::string(text), to + ": tcp\n");
            EXPECT_GCOLL_OK(gcoll_context_lanes(child.get(), text, sizeof text));
            EXPECT_EQ(std::string(text), to + ": tcp, by a connection that is shared\n");
        });
    has_device = false;
    if (!variable.empty())
        setenv("GCOLL_TRANSPORT", variable.c_str(), 1);
}

// All at once, and no rank is blamed that did nothing.
TEST(ShareOptions, RanksThatDifferAreTold) {
    Job job = job_of(5);
    job.adjust = [](uint32_t rank, gcoll_context_options *options) {
        options->share = rank == 0;
        options->tuning = "default";
    };
    run_threads(job, [](uint32_t, gcoll_context *parent) {
        for (bool by_list : {false, true}) {
            gcoll_context *child = nullptr;
            const uint32_t all[] = {0, 1, 2, 3, 4};
            EXPECT_EQ(by_list ? gcoll_context_create_group(parent, all, 5, 0, &child)
                              : gcoll_context_split(parent, 0, 0, &child),
                      GCOLL_ERR_MISMATCH);
            EXPECT_NE(std::string(gcoll_last_error()).find("options.share: is "), std::string::npos)
                << gcoll_last_error();
            EXPECT_EQ(child, nullptr);
        }
        EXPECT_GCOLL_OK(sum_in(parent, 10, 1)); // a mistake that all learn of breaks nothing
    });
}

} // namespace
