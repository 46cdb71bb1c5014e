// test/core/launch_test.cc - tests of launches of a job that share a store. Two launches at once never mix,
// and a dead launch is taken over. If a rank dies, is claimed twice or has a store that does not answer, it
// is named in time.
//
// Environment: GCOLL_TEST_REPEATS multiplies the number of trials with two launches and with killed ranks.
#include "test/kit/harness.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "test/core/launch_peek.h"

namespace {

using gcoll_test::await;
using gcoll_test::Folder;
using gcoll_test::Job;
using gcoll_test::NoLaunch;
using gcoll_test::now_ms;
using gcoll_test::Processes;
using gcoll_test::Shared;

constexpr uint32_t kMost = 12;

int repeats(int trials) {
    const char *text = getenv("GCOLL_TEST_REPEATS");
    return text ? trials * atoi(text) : trials;
}

// Results of up to kMost processes, in memory that they share.
struct Told {
    std::atomic<uint32_t> waiting, pid[kMost];
    std::atomic<int> status[kMost];                  // -1: not known yet
    std::atomic<uint64_t> least[kMost], most[kMost]; // of the groups that it worked with
    std::atomic<int64_t> at_ms[kMost];
    char text[kMost][1024];
};

struct Outcomes {
    Shared<Told> told;
    Outcomes() {
        for (uint32_t i = 0; i < kMost; i++)
            told->status[i] = -1;
    }
    std::string text(uint32_t i) const { return told->text[i]; }
    bool is_ok(uint32_t i) const { return told->status[i] == GCOLL_OK; }
    // Returns whether the process worked with ranks of another launch than its own.
    bool is_mixed(uint32_t i) const { return is_ok(i) && told->least[i] != told->most[i]; }
};

Job job_of(uint32_t size, int64_t timeout_ms = 20000) {
    Job job;
    job.size = size;
    job.name = "same";
    job.transport = "tcp";
    job.timeout_ms = timeout_ms;
    return job;
}

// Runs a rank of launch `group`, and notes its result under `index`.
int live(const Outcomes &out, const std::string &url, const Job &job, uint32_t rank, uint32_t index,
         uint64_t group) {
    gcoll_store *store = nullptr;
    gcoll_status status = gcoll_store_open(url.c_str(), 30000, &store);
    gcoll_context_options options = gcoll_test::options_of(job, rank, store, nullptr);
    gcoll_context *context = nullptr;
    Told &told = *out.told;
    told.pid[index] = static_cast<uint32_t>(getpid());
    told.waiting++;
    if (status == GCOLL_OK)
        status = gcoll_context_create(&options, &context);
    uint64_t least = group, most = group;
    if (status == GCOLL_OK)
        status = gcoll_allreduce(context, nullptr, &least, 1, GCOLL_UINT64, GCOLL_MIN, nullptr);
    if (status == GCOLL_OK)
        status = gcoll_allreduce(context, nullptr, &most, 1, GCOLL_UINT64, GCOLL_MAX, nullptr);
    snprintf(told.text[index], sizeof told.text[index], "%s", status == GCOLL_OK ? "" : gcoll_last_error());
    told.least[index] = least;
    told.most[index] = most;
    told.at_ms[index] = now_ms();
    told.status[index] = status;
    gcoll_context_destroy(context);
    gcoll_store_destroy(store);
    return 0;
}

bool contains(const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
}

std::string process(const Outcomes &out, uint32_t index) {
    return "process " + std::to_string(out.told->pid[index].load()) + " on host '";
}

// Waits until the store has this many keys whose name contains the part.
bool await_keys(const Folder &folder, const std::string &part, size_t count) {
    for (int64_t end = now_ms() + 10000; now_ms() < end; usleep(500)) {
        size_t found = 0;
        for (const std::string &name : folder.files())
            found += name[0] != '.' && contains(name, part);
        if (found >= count)
            return true;
    }
    return false;
}

struct Created {
    gcoll_status status = GCOLL_OK;
    std::string text;
    int64_t ms = 0;
};

Created create(gcoll_store *store, const Job &job, uint32_t rank) {
    gcoll_context_options options = gcoll_test::options_of(job, rank, store, nullptr);
    gcoll_context *context = nullptr;
    const int64_t before = now_ms();
    Created made;
    made.status = gcoll_context_create(&options, &context);
    made.text = gcoll_last_error();
    made.ms = now_ms() - before;
    gcoll_context_destroy(context);
    return made;
}

// A store of the test, in which `hook` decides about each request.
enum class Deed { kDo, kSkip, kFail, kLoseAnswer };

struct Hooked {
    gcoll_store *base;
    std::function<Deed(const std::string &verb, const std::string &key)> hook;
    gcoll_store *make();
    gcoll_status pass(const char *verb, const char *key, const std::function<gcoll_status()> &request) {
        const Deed deed = hook(verb, key);
        if (deed == Deed::kSkip)
            return GCOLL_OK;
        if (deed == Deed::kFail)
            return gcoll_store_error(GCOLL_ERR_IO, "no space left");
        const gcoll_status status = request();
        return deed == Deed::kDo ? status
                                 : gcoll_store_error(GCOLL_ERR_IO, "connection lost, outcome unknown");
    }
    static Hooked *of(void *self) { return static_cast<Hooked *>(self); }
};

gcoll_store *Hooked::make() {
    static const gcoll_store_ops ops = [] {
        gcoll_store_ops made = {};
        made.struct_size = sizeof made;
        made.name = "hooked";
        made.set = [](void *self, const char *key, const void *value, size_t bytes) {
            return of(self)->pass("set", key,
                                  [&] { return gcoll_store_set(of(self)->base, key, value, bytes); });
        };
        made.get = [](void *self, const char *key, void *value, size_t capacity, size_t *bytes) {
            return of(self)->pass(
                "get", key, [&] { return gcoll_store_get(of(self)->base, key, value, capacity, bytes); });
        };
        made.wait = [](void *self, const char *key, int64_t timeout_ms) {
            return of(self)->pass("wait", key,
                                  [&] { return gcoll_store_wait(of(self)->base, key, timeout_ms); });
        };
        made.add = [](void *self, const char *key, int64_t delta, int64_t *value) {
            return of(self)->pass("add", key,
                                  [&] { return gcoll_store_add(of(self)->base, key, delta, value); });
        };
        made.remove = [](void *self, const char *key) {
            return of(self)->pass("remove", key, [&] { return gcoll_store_remove(of(self)->base, key); });
        };
        made.set_new = [](void *self, const char *key, const void *value, size_t bytes) {
            return of(self)->pass("set_new", key,
                                  [&] { return gcoll_store_set_new(of(self)->base, key, value, bytes); });
        };
        return made;
    }();
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_create(&ops, this, &store));
    return store;
}

Created create(Hooked hooked, const Job &job, uint32_t rank) {
    gcoll_store *store = hooked.make();
    const Created made = create(store, job, rank);
    gcoll_store_destroy(store);
    return made;
}

// ---- Two launches ---------------------------------------------------------------------------------------

TEST(Launches, TwoAtOnceNeverMix) {
    NoLaunch no_launch;
    int mixed = 0, joined = 0, refused = 0;
    for (int trial = 0; trial < repeats(2); trial++) {
        Folder folder;
        Outcomes out;
        Processes ranks(8, [&](uint32_t i) {
            return live(out, folder.url(), job_of(4, 3000), i / 2, i, i % 2); // the two come side by side
        });
        ranks.expect_success(20000);
        for (uint32_t i = 0; i < 8; i++) {
            mixed += out.is_mixed(i);
            joined += out.is_ok(i);
            refused += contains(out.text(i), "is claimed twice");
            EXPECT_TRUE(out.is_ok(i) || contains(out.text(i), "claimed twice") ||
                        contains(out.text(i), "did not join"))
                << i << ": " << out.text(i);
        }
    }
    EXPECT_EQ(mixed, 0);
    printf("two at once: %d trials of 2 x 4 ranks: %d ranks joined, %d were told of a rank claimed twice, %d "
           "mixed\n",
           repeats(2), joined, refused, mixed);
}

// Two launches with different identities do not disturb each other.
TEST(Launches, TwoWithIdentitiesBothRun) {
    NoLaunch no_launch;
    for (int trial = 0; trial < repeats(2); trial++) {
        Folder folder;
        Outcomes out;
        Processes ranks(8, [&](uint32_t i) {
            Job job = job_of(4);
            job.adjust = [i](uint32_t, gcoll_context_options *options) {
                options->launch = i % 2 ? "b" : "a";
            };
            return live(out, folder.url(), job, i / 2, i, i % 2);
        });
        ranks.expect_success(20000);
        for (uint32_t i = 0; i < 8; i++)
            EXPECT_TRUE(out.is_ok(i) && !out.is_mixed(i)) << i << ": " << out.text(i);
        EXPECT_TRUE(folder.files().empty());
    }
}

// Rank 0 of a launch never came. Its ranks 1 to 3 still wait when the job is started again.
TEST(Launches, OneThatWaitsForItsRankZeroNeverMixesWithTheNext) {
    NoLaunch no_launch;
    int mixed = 0, joined = 0;
    for (int trial = 0; trial < repeats(2); trial++) {
        Folder folder;
        Outcomes out;
        Processes old(3, [&](uint32_t i) { return live(out, folder.url(), job_of(4, 3000), i + 1, i, 0); });
        EXPECT_TRUE(await(out.told->waiting, 3));
        Processes next(4, [&](uint32_t i) { return live(out, folder.url(), job_of(4, 3000), i, 3 + i, 1); });
        old.expect_success(20000);
        next.expect_success(20000);
        for (uint32_t i = 0; i < 7; i++) {
            mixed += out.is_mixed(i);
            joined += out.is_ok(i);
        }
    }
    EXPECT_EQ(mixed, 0);
    printf("a launch without its rank 0 beside the next: %d trials: %d ranks joined, %d mixed\n", repeats(2),
           joined, mixed);
}

// Rank 0 was there and was killed. The new launch is not disturbed, and the old one names its rank 0.
TEST(Launches, OneWhoseRankZeroDiedIsTakenOver) {
    NoLaunch no_launch;
    for (int trial = 0; trial < repeats(2); trial++) {
        Folder folder;
        Outcomes out;
        Processes old(3, [&](uint32_t i) { return live(out, folder.url(), job_of(4), i, i, 0); });
        EXPECT_TRUE(await_keys(folder, "addr.", 3));
        old.signal(0, SIGKILL);
        EXPECT_EQ(old.wait(0, 5000).signal, SIGKILL);
        Processes next(4, [&](uint32_t i) { return live(out, folder.url(), job_of(4), i, 3 + i, 1); });
        next.expect_success(20000);
        old.expect_success(20000, 0);
        for (uint32_t i = 1; i < 3; i++)
            EXPECT_TRUE(contains(out.text(i), "rank 0, " + process(out, 0)) && contains(out.text(i), "died"))
                << out.text(i);
        for (uint32_t i = 3; i < 7; i++)
            EXPECT_TRUE(out.is_ok(i) && !out.is_mixed(i)) << i << ": " << out.text(i);
    }
}

// Each rank destroys a context and at once creates the next one of the same name, while others are still in
// the first.
TEST(Launches, OneAfterTheOtherByTheSameProcesses) {
    NoLaunch no_launch;
    Folder folder;
    Processes ranks(4, [&](uint32_t rank) {
        Outcomes out;
        for (uint32_t round = 0; round < 4; round++) {
            live(out, folder.url(), job_of(4), rank, rank, round);
            EXPECT_TRUE(out.is_ok(rank) && !out.is_mixed(rank)) << out.text(rank);
        }
        return 0;
    });
    ranks.expect_success(30000);
    EXPECT_TRUE(folder.files().empty());
}

// ---- Claimed twice --------------------------------------------------------------------------------------

class ClaimedTwice : public testing::TestWithParam<uint32_t> {};

TEST_P(ClaimedTwice, IsNamedOnAll) {
    NoLaunch no_launch;
    const uint32_t rank = GetParam();
    Folder folder;
    Outcomes out;
    Processes waiting(2, [&](uint32_t i) { return live(out, folder.url(), job_of(3), i, i, 0); });
    EXPECT_TRUE(await_keys(folder, "addr.", 2));
    Processes second(1, [&](uint32_t) { return live(out, folder.url(), job_of(3), rank, 2, 0); });
    second.expect_success(10000);
    waiting.expect_success(10000);
    const std::string what = "rank " + std::to_string(rank) + " is claimed twice";
    for (uint32_t i = 0; i < 3; i++) {
        EXPECT_EQ(out.told->status[i], GCOLL_ERR_MISMATCH) << out.text(i);
        EXPECT_TRUE(contains(out.text(i), what)) << out.text(i);
        EXPECT_TRUE(contains(out.text(i), process(out, rank)) && contains(out.text(i), process(out, 2)))
            << out.text(i);
    }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ClaimedTwice, testing::Values(0u, 1u));

class DyingLaunch : public testing::TestWithParam<uint32_t> {};

// Rank 0 of an old launch dies after a rank of the new one has found that launch, and before it claims its
// number there. Rank 1 is held by a living process of the old launch, rank 2 is free. The new launch is not
// disturbed.
TEST_P(DyingLaunch, RefusesNobody) {
    NoLaunch no_launch;
    const uint32_t first = GetParam();
    Folder folder;
    Outcomes out;
    Processes old(2, [&](uint32_t i) { return live(out, folder.url(), job_of(3), i, i, 0); });
    EXPECT_TRUE(await_keys(folder, "addr.", 2));
    std::atomic<uint32_t> killed{0};
    Created made[3];
    const auto joins = [&](uint32_t rank) {
        gcoll_store *store = nullptr;
        EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 30000, &store));
        made[rank] = create(Hooked{store,
                                   [&](const std::string &verb, const std::string &key) {
                                       if (verb == "set_new" && contains(key, "/rank.") && killed == 0) {
                                           old.signal(1, SIGSTOP); // it must not tell of the death first
                                           old.signal(0, SIGKILL);
                                           EXPECT_EQ(old.wait(0, 5000).signal, SIGKILL);
                                           killed = 1;
                                       }
                                       return Deed::kDo;
                                   }},
                            job_of(3), rank);
        gcoll_store_destroy(store);
    };
    std::vector<std::thread> threads;
    threads.emplace_back(joins, first);
    EXPECT_TRUE(await(killed, 1));
    threads.emplace_back(joins, 0);
    threads.emplace_back(joins, 3 - first);
    for (std::thread &thread : threads)
        thread.join();
    old.signal(1, SIGCONT);
    for (const Created &each : made)
        EXPECT_EQ(each.status, GCOLL_OK) << each.text;
    old.expect_success(20000, 0);
    EXPECT_TRUE(contains(out.text(1), "rank 0, " + process(out, 0)) && contains(out.text(1), "died"))
        << out.text(1);
}

INSTANTIATE_TEST_SUITE_P(Ranks, DyingLaunch, testing::Values(1u, 2u));

// A rank that failed tries again at once, while keys of the failed launch remain: it waits for the next
// launch.
TEST(Launches, ARankThatRetriesWaitsForTheNext) {
    NoLaunch no_launch;
    Folder folder;
    Outcomes out;
    Processes ranks(3, [&](uint32_t rank) {
        Outcomes first;
        Job job = job_of(3);
        if (rank == 2) { // the others wait by then: who comes later would join the next launch at once
            EXPECT_TRUE(await_keys(folder, "addr.", 2));
            job.adjust = [](uint32_t, gcoll_context_options *options) { options->interface = "nonesuch"; };
        }
        live(first, folder.url(), job, rank, rank, 0);
        EXPECT_FALSE(first.is_ok(rank));
        EXPECT_TRUE(contains(first.text(rank), "nonesuch")) << first.text(rank);
        return live(out, folder.url(), job_of(3), rank, rank, 1);
    });
    ranks.expect_success(20000);
    for (uint32_t rank = 0; rank < 3; rank++)
        EXPECT_TRUE(out.is_ok(rank)) << out.text(rank);
    EXPECT_EQ(folder.files(), std::vector<std::string>()) << "left behind in the store";
}

// ---- Somebody dies --------------------------------------------------------------------------------------

class DeathAtRendezvous : public testing::TestWithParam<bool> {};

// Kills a rank while all other ranks but the last wait for the last one. They must name the dead rank long
// before the timeout.
TEST_P(DeathAtRendezvous, IsNamedByAllOthers) {
    NoLaunch no_launch;
    int64_t longest = 0;
    int told = 0;
    for (int trial = 0; trial < repeats(2); trial++) {
        const uint32_t size = 4 + static_cast<uint32_t>(trial) % 5, there = size - 1;
        const uint32_t victim = GetParam() ? 0 : 1 + static_cast<uint32_t>(trial) % (there - 1);
        Folder folder;
        Outcomes out;
        Processes ranks(there,
                        [&](uint32_t rank) { return live(out, folder.url(), job_of(size), rank, rank, 0); });
        EXPECT_TRUE(await_keys(folder, "addr.", there));
        const int64_t killed_ms = now_ms();
        ranks.signal(victim, SIGKILL);
        ranks.expect_success(15000, victim);
        const std::string name = "rank " + std::to_string(victim) + ", " + process(out, victim);
        for (uint32_t rank = 0; rank < there; rank++) {
            if (rank == victim)
                continue;
            EXPECT_EQ(out.told->status[rank], GCOLL_ERR_PEER) << out.text(rank);
            EXPECT_TRUE(contains(out.text(rank), name) && contains(out.text(rank), "died while it joined"))
                << out.text(rank);
            EXPECT_LT(out.told->at_ms[rank] - killed_ms, 10000) << "the timeout is 20 s";
            longest = std::max<int64_t>(longest, out.told->at_ms[rank] - killed_ms);
            told++;
        }
    }
    printf("rank %s killed at rendezvous: %d trials of 4 to 8 ranks: %d were told of it, the last after %lld "
           "ms\n",
           GetParam() ? "0" : "k", repeats(2), told, static_cast<long long>(longest));
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeathAtRendezvous, testing::Bool());

// Kills a rank at any moment of its start. No living rank is ever blamed, and none hangs.
TEST(DeathAtRendezvous, AtAnyMomentBlamesNobodyElse) {
    NoLaunch no_launch;
    int joined = 0, told = 0, timed_out = 0;
    for (int trial = 0; trial < repeats(2); trial++) {
        const uint32_t size = 4 + static_cast<uint32_t>(trial) % 5,
                       victim = static_cast<uint32_t>(trial) % size;
        Folder folder;
        Outcomes out;
        Processes ranks(
            size, [&](uint32_t rank) { return live(out, folder.url(), job_of(size, 2000), rank, rank, 0); });
        usleep(static_cast<useconds_t>((20000 + trial * 7919) %
                                       300000)); // not to wait for anything: any moment will do
        ranks.signal(victim, SIGKILL);
        ranks.expect_success(20000, victim);
        for (uint32_t rank = 0; rank < size; rank++) {
            if (rank == victim)
                continue;
            const std::string text = out.text(rank), name = "rank " + std::to_string(victim);
            joined += out.is_ok(rank);
            timed_out += out.told->status[rank] == GCOLL_ERR_TIMEOUT;
            told += contains(text, "died while it joined");
            if (out.is_ok(rank))
                continue;
            EXPECT_TRUE(contains(text, name + " ") || contains(text, name + ",") ||
                        contains(text, name + ":") ||
                        contains(text, "did not join within 2000 ms: " + std::to_string(victim)))
                << "rank " << victim << " was killed: " << text;
            for (uint32_t other = 0; other < size; other++) {
                const std::string blamed = "rank " + std::to_string(other) + ", process";
                EXPECT_TRUE(other == victim || !contains(text, blamed)) << text;
            }
        }
    }
    printf("killed at any moment: %d trials: %d ranks were done, %d heard of a death, %d of a timeout\n",
           repeats(2), joined, told, timed_out);
}

// A rank is killed and started again before the kernel has removed the old process: its main thread has
// ended, but not the other one.
TEST(DeathAtRendezvous, AProcessThatIsEndingHasNoClaim) {
    NoLaunch no_launch;
    Folder folder;
    Outcomes out;
    Processes old(2, [&](uint32_t rank) {
        if (rank == 0)
            return live(out, folder.url(), job_of(3), 0, 0, 0);
        std::thread([&] { live(out, folder.url(), job_of(3), 1, 1, 0); }).detach();
        EXPECT_TRUE(await_keys(folder, "addr.1", 1));
        syscall(SYS_exit, 0); // this thread alone, and without a destructor
        return 0;
    });
    EXPECT_TRUE(await_keys(folder, "addr.", 2));
    usleep(50000); // for the thread to end
    Processes again(1, [&](uint32_t) { return live(out, folder.url(), job_of(3), 1, 2, 0); });
    EXPECT_TRUE(await(out.told->waiting, 3));
    usleep(150000); // it has met the claim
    old.signal(1, SIGKILL);
    EXPECT_EQ(old.wait(1, 5000).signal, SIGKILL);
    Processes last(1, [&](uint32_t) { return live(out, folder.url(), job_of(3), 2, 3, 0); });
    last.expect_success(20000);
    again.expect_success(20000);
    old.expect_success(20000, 1);
    for (uint32_t i : {0u, 2u, 3u})
        EXPECT_TRUE(out.is_ok(i)) << i << ": " << out.text(i);
}

// ---- Ranks of other hosts -------------------------------------------------------------------------------

// Claims of a rank on another host, whose process cannot be seen here.
const std::string kElsewhere = "00000000deadbeef 77 7 7 000000000000000";
const std::string kGeneration = "0123456789abcdef0123456789abcdef";

std::string elsewhere(int nonce) {
    return kElsewhere + std::to_string(nonce) + " 0 elsewhere";
}

void put(gcoll_store *store, const std::string &key, const std::string &value) {
    EXPECT_GCOLL_OK(gcoll_store_set(store, key.c_str(), value.data(), value.size()));
}

std::string get(gcoll_store *store, const std::string &key) {
    char value[1024];
    size_t bytes = 0;
    return gcoll_store_get(store, key.c_str(), value, sizeof value, &bytes) == GCOLL_OK
               ? std::string(value, bytes)
               : "";
}

// Renews a lease until it goes out of scope.
class Alive {
  public:
    Alive(gcoll_store *store, const std::string &key)
        : thread_([this, store, key] {
              for (int beat = 1; !over_; beat++, std::this_thread::sleep_for(std::chrono::milliseconds(20)))
                  put(store, key, std::to_string(beat));
          }) {}
    ~Alive() {
        over_ = true;
        thread_.join();
    }

  private:
    std::atomic<bool> over_{false};
    std::thread thread_;
};

// Returns a claim of this process, with another PID.
std::string claim_here(const std::string &pid) {
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_memory_create(&store));
    Job job = job_of(2, 200);
    job.adjust = [](uint32_t, gcoll_context_options *options) { options->launch = ""; };
    std::string launch;
    create(Hooked{store,
                  [&](const std::string &verb, const std::string &key) {
                      if (verb == "remove" && key == "gcoll/same/launch")
                          launch = get(store, key);
                      return Deed::kDo;
                  }},
           job, 0);
    gcoll_store_destroy(store);
    // a generation, the size, and the claim: host, PID namespace, PID, start, nonce, time waited, name
    size_t at = 0;
    for (int word = 0; word < 4; word++)
        at = launch.find(' ', at) + 1;
    const size_t claim = launch.find(' ', launch.find(' ') + 1) + 1, end = launch.find(' ', at);
    EXPECT_EQ(launch.substr(at, end - at), std::to_string(getpid())) << launch;
    return launch.substr(claim, at - claim) + pid + launch.substr(end);
}

// The claim of a process of this host that has ended.
std::string dead_claim() {
    return claim_here("2147483647"); // no process has this number
}

// Returns the nonce in a claim.
std::string nonce_of(const std::string &claim) {
    std::string nonce;
    for (size_t at = 0, word = 0; word < 5; word++, at = claim.find(' ', at) + 1)
        nonce = claim.substr(at, claim.find(' ', at) - at);
    return nonce;
}

class Elsewhere : public testing::Test {
  protected:
    Elsewhere() { EXPECT_GCOLL_OK(gcoll_store_memory_create(&store_)); }
    ~Elsewhere() override { gcoll_store_destroy(store_); }
    NoLaunch no_launch_;
    gcoll_test::Watchdog watchdog_{60};
    gcoll_store *store_ = nullptr;
    const std::string job_ = "gcoll/same/", generation_ = job_ + kGeneration + "/";
};

// A launch whose rank 0 shows no life is a leftover. No rank joins it, and the next rank 0 takes it over.
TEST_F(Elsewhere, ADeadLaunchIsTakenOver) {
    put(store_, job_ + "launch", kGeneration + " 2 " + elsewhere(1));
    put(store_, generation_ + "alive.0", "17");
    Created made[2];
    std::thread other([&] { made[1] = create(store_, job_of(2), 1); });
    made[0] = create(store_, job_of(2), 0);
    other.join();
    for (const Created &rank : made)
        EXPECT_EQ(rank.status, GCOLL_OK) << rank.text;
    EXPECT_GE(made[0].ms, 2900) << "it was given no time to show that it lives";
}

// A launch whose rank 0 lives by its lease ends with an error for both claimants, and by nothing else.
TEST_F(Elsewhere, ALivingLaunchIsClaimedTwice) {
    put(store_, job_ + "launch", kGeneration + " 2 " + elsewhere(1));
    Alive alive(store_, generation_ + "alive.0");
    const Created made = create(store_, job_of(2), 0);
    EXPECT_EQ(made.status, GCOLL_ERR_MISMATCH) << made.text;
    EXPECT_TRUE(contains(made.text, "rank 0 is claimed twice, by process 7 on host 'elsewhere'"))
        << made.text;
    EXPECT_EQ(get(store_, generation_ + "go"), "!8 " + made.text);
}

TEST_F(Elsewhere, ALivingRankIsClaimedTwice) {
    put(store_, job_ + "launch", kGeneration + " 3 " + elsewhere(1));
    put(store_, generation_ + "rank.2", elsewhere(2));
    Alive lead(store_, generation_ + "alive.0"), rank(store_, generation_ + "alive.2");
    const Created made = create(store_, job_of(3), 2);
    EXPECT_EQ(made.status, GCOLL_ERR_MISMATCH) << made.text;
    EXPECT_TRUE(contains(made.text, "rank 2 is claimed twice, by process 7 on host 'elsewhere'"))
        << made.text;
    EXPECT_EQ(get(store_, generation_ + "agreed"), "!8 " + made.text);
    EXPECT_EQ(get(store_, generation_ + "rank.2"), elsewhere(2));
}

// Rank 0 stops showing life after rank 1 has joined it.
TEST_F(Elsewhere, ADeadRankZeroIsNamed) {
    put(store_, job_ + "launch", kGeneration + " 3 " + elsewhere(1));
    Created made;
    auto lead = std::make_unique<Alive>(store_, generation_ + "alive.0");
    std::thread other([&] { made = create(store_, job_of(3), 1); });
    EXPECT_EQ(gcoll_store_wait(store_, (generation_ + "addr.1").c_str(), 10000), GCOLL_OK);
    const int64_t stopped_ms = now_ms();
    lead.reset();
    other.join();
    EXPECT_EQ(made.status, GCOLL_ERR_PEER) << made.text;
    EXPECT_TRUE(contains(made.text, "rank 0, process 7 on host 'elsewhere', showed no life for seconds while "
                                    "ranks joined: it died, was stopped, or does not reach the store"))
        << made.text;
    EXPECT_GE(now_ms() - stopped_ms, 2900);
    EXPECT_LT(now_ms() - stopped_ms, 15000) << "the timeout is 20 s";
}

TEST_F(Elsewhere, ADeadRankIsNamed) {
    Created made;
    std::thread lead([&] { made = create(store_, job_of(3), 0); });
    EXPECT_EQ(gcoll_store_wait(store_, (job_ + "launch").c_str(), 10000), GCOLL_OK);
    const std::string generation = job_ + get(store_, job_ + "launch").substr(0, 32) + "/";
    put(store_, generation + "rank.2", elsewhere(2));
    put(store_, generation + "alive.2", "9");
    lead.join();
    EXPECT_EQ(made.status, GCOLL_ERR_PEER) << made.text;
    EXPECT_TRUE(contains(made.text, "rank 2, process 7 on host 'elsewhere', showed no life for seconds"))
        << made.text;
    EXPECT_LT(made.ms, 15000) << "the timeout is 20 s";
}

// A rank that showed no life was replaced. It must not continue beside its successor.
TEST_F(Elsewhere, ARankThatWasReplacedSaysSo) {
    put(store_, job_ + "launch", kGeneration + " 2 " + elsewhere(1));
    Alive lead(store_, generation_ + "alive.0");
    Created made;
    std::thread rank([&] { made = create(store_, job_of(2), 1); });
    EXPECT_EQ(gcoll_store_wait(store_, (generation_ + "addr.1").c_str(), 10000), GCOLL_OK);
    std::string claim = get(store_, generation_ + "rank.1");
    put(store_, generation_ + "rank.1." + nonce_of(claim), elsewhere(3));
    put(store_, generation_ + "addr.1", "its heir's");
    put(store_, generation_ + "go", "go");
    rank.join();
    EXPECT_EQ(made.status, GCOLL_ERR_MISMATCH) << made.text;
    EXPECT_TRUE(contains(made.text, "process 7 on host 'elsewhere' has taken its place")) << made.text;
    EXPECT_EQ(get(store_, generation_ + "addr.1"), "its heir's");
    EXPECT_EQ(get(store_, generation_ + "rank.1"), claim);
    EXPECT_EQ(get(store_, generation_ + "left"), "") << "its heir will be counted";
}

// The replaced rank wakes up before it has published its address.
TEST_F(Elsewhere, ARankThatWasReplacedLeavesItsHeirsAddress) {
    put(store_, job_ + "launch", kGeneration + " 2 " + elsewhere(1));
    Alive lead(store_, generation_ + "alive.0");
    bool replaced = false;
    const Created made =
        create(Hooked{store_,
                      [&](const std::string &verb, const std::string &key) {
                          const std::string claim = get(store_, generation_ + "rank.1");
                          if (verb == "get" && key == job_ + "launch" && !claim.empty() && !replaced) {
                              replaced = true;
                              std::this_thread::sleep_for(std::chrono::milliseconds(1200)); // as if stopped
                              put(store_, generation_ + "rank.1." + nonce_of(claim), elsewhere(3));
                              put(store_, generation_ + "addr.1", "its heir's");
                          }
                          return Deed::kDo;
                      }},
               job_of(2), 1);
    EXPECT_EQ(made.status, GCOLL_ERR_MISMATCH) << made.text;
    EXPECT_TRUE(contains(made.text, "process 7 on host 'elsewhere' has taken its place")) << made.text;
    EXPECT_EQ(get(store_, generation_ + "addr.1"), "its heir's");
    EXPECT_EQ(get(store_, generation_ + "go"), "") << "the launch goes on with its heir";
    EXPECT_EQ(get(store_, generation_ + "left"), "") << "its heir will be counted";
}

// A rank finds its number claimed by a living process, but the launch says go before the rank can end it. The
// rank joins the next launch, however long that takes to come.
TEST_F(Elsewhere, ARankThatALaunchWentByWaitsForTheNext) {
    put(store_, job_ + "launch", kGeneration + " 3 " + elsewhere(1));
    put(store_, generation_ + "rank.1", elsewhere(2));
    Alive lead(store_, generation_ + "alive.0"), rank(store_, generation_ + "alive.1");
    std::atomic<uint32_t> gone{0}, waits{0};
    Created made[3];
    std::thread second([&] {
        made[1] = create(Hooked{store_,
                                [&](const std::string &verb, const std::string &key) {
                                    if (verb == "set_new" && key == generation_ + "go" && gone == 0) {
                                        gcoll_store_remove(store_, (job_ + "launch").c_str());
                                        put(store_, key, "go");
                                        gone = 1;
                                    }
                                    waits += verb == "wait" && contains(key, "/go");
                                    return Deed::kDo;
                                }},
                         job_of(3), 1);
        waits = 100;
    });
    EXPECT_TRUE(await(gone, 1));
    std::thread first([&] { made[0] = create(store_, job_of(3), 0); });
    EXPECT_TRUE(await(waits, 3)) << "it waits for rank 2";
    made[2] = create(store_, job_of(3), 2);
    first.join();
    second.join();
    for (const Created &each : made)
        EXPECT_EQ(each.status, GCOLL_OK) << each.text;
}

// The last rank came just before the deadline, so rank 0 measures after it. Then the other ranks wait longer.
TEST_F(Elsewhere, RanksWaitForARankZeroThatGoesOnLate) {
    const int64_t normal_ms = now_ms() + 2000 + 250;
    put(store_, job_ + "launch", kGeneration + " 4 " + elsewhere(1));
    put(store_, generation_ + "go", "go");
    put(store_, generation_ + "tuning", "set");
    Alive lead(store_, generation_ + "alive.0");
    const Created made =
        create(Hooked{store_,
                      [&](const std::string &verb, const std::string &key) {
                          if (verb == "wait" && contains(key, "/agreed") && now_ms() >= normal_ms) {
                              std::string text = "1";
                              for (int number = 0; number < 7; number++)
                                  text += " 0000000000000000";
                              put(store_, key, text + " 0 tcp");
                          }
                          return Deed::kDo;
                      }},
               job_of(4, 2000), 3);
    EXPECT_EQ(made.status, GCOLL_OK) << made.text;
    EXPECT_GE(now_ms(), normal_ms);
}

// Rank 0 lives, but does not say go. A rank that gave up earlier and left counts as joined.
TEST_F(Elsewhere, ARankZeroThatDoesNotGoOnIsNamed) {
    put(store_, job_ + "launch", kGeneration + " 3 " + elsewhere(1));
    put(store_, generation_ + "rank.2", "!" + elsewhere(2));
    Alive lead(store_, generation_ + "alive.0");
    const Created made = create(store_, job_of(3, 300), 1);
    EXPECT_EQ(made.status, GCOLL_ERR_TIMEOUT) << made.text;
    EXPECT_TRUE(contains(made.text, "rank 0, process 7 on host 'elsewhere', did not go on within 300 ms, "
                                    "though all ranks joined"))
        << made.text;
}

// As before, but no rank can write to the store any more. The rank that gives up first must not appear as
// missing.
TEST_F(Elsewhere, ARankZeroThatDoesNotGoOnIsNamedWhereNobodyCanWrite) {
    put(store_, job_ + "launch", kGeneration + " 3 " + elsewhere(1));
    Alive lead(store_, generation_ + "alive.0");
    std::atomic<bool> full{false};
    const auto joins = [&](uint32_t rank, int64_t timeout_ms) {
        return create(Hooked{store_,
                             [&](const std::string &verb, const std::string &) {
                                 const bool writes = verb == "set" || verb == "set_new" || verb == "add";
                                 return writes && full ? Deed::kFail : Deed::kDo;
                             }},
                      job_of(3, timeout_ms), rank);
    };
    Created first, last;
    std::thread one([&] { first = joins(1, 200); }), other([&] { last = joins(2, 900); });
    for (const char *name : {"addr.1", "addr.2"})
        EXPECT_EQ(gcoll_store_wait(store_, (generation_ + name).c_str(), 10000), GCOLL_OK);
    full = true;
    one.join();
    other.join();
    for (const Created &made : {first, last}) {
        EXPECT_FALSE(contains(made.text, "rank 1") || contains(made.text, "rank 2") ||
                     contains(made.text, "did not join"))
            << made.text;
        EXPECT_NE(made.status, GCOLL_OK);
    }
}

// Two ranks find at the same time that the time is over. Both report the first reason.
TEST_F(Elsewhere, TheFirstReasonIsEverybodys) {
    put(store_, job_ + "launch", kGeneration + " 3 " + elsewhere(1));
    Alive lead(store_, generation_ + "alive.0");
    const Created made = create(Hooked{store_,
                                       [&](const std::string &verb, const std::string &key) {
                                           if (verb == "set_new" && key == generation_ + "go")
                                               put(store_, key, "!10 the first reason");
                                           return Deed::kDo;
                                       }},
                                job_of(3, 200), 1);
    EXPECT_EQ(made.status, 10) << made.text;
    EXPECT_EQ(made.text, "the first reason");
}

// Rank 0 says go at the moment at which another rank gives up. That rank continues.
TEST_F(Elsewhere, GoInTheLastMomentIsHeard) {
    put(store_, job_ + "launch", kGeneration + " 4 " + elsewhere(1));
    put(store_, generation_ + "tuning", "set");
    Alive lead(store_, generation_ + "alive.0");
    const Created made = create(Hooked{store_,
                                       [&](const std::string &verb, const std::string &key) {
                                           if (verb == "set_new" && key == generation_ + "go") {
                                               put(store_, key, "go");
                                               std::string text = "1";
                                               for (int number = 0; number < 7; number++)
                                                   text += " 0000000000000000";
                                               put(store_, generation_ + "agreed", text + " 0 tcp");
                                           }
                                           return Deed::kDo;
                                       }},
                                job_of(4, 400), 3);
    EXPECT_EQ(made.status, GCOLL_OK) << made.text;
}

// Two launches run at once. The second rank 0 comes when ranks of both have met, and gets the error, too.
TEST_F(Elsewhere, ARankZeroThatComesToLaunchesThatMetIsTold) {
    const std::string why = "job 'same': rank 1 is claimed twice, by process 7 on host 'elsewhere' and by "
                            "process 8 on host 'elsewhere'";
    put(store_, job_ + "launch", kGeneration + " 2 " + elsewhere(1));
    put(store_, generation_ + "go", "!8 " + why);
    Alive alive(store_, generation_ + "alive.0");
    std::thread end([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        gcoll_store_remove(store_, (job_ + "launch").c_str());
    });
    const Created made = create(store_, job_of(2, 3000), 0);
    end.join();
    EXPECT_EQ(made.status, GCOLL_ERR_MISMATCH) << made.text;
    EXPECT_EQ(made.text, why);
    EXPECT_EQ(get(store_, job_ + "launch"), "");
}

// As before, but the launch is taken away when a look for notes of refused processes is due. The look finds
// nothing, and its error is not the reason.
TEST_F(Elsewhere, ARankZeroThatIsToldAndLooksForNotesKeepsTheReason) {
    const std::string why = "job 'same': rank 1 is claimed twice, by process 7 on host 'elsewhere' and by "
                            "process 8 on host 'elsewhere'";
    put(store_, job_ + "launch", kGeneration + " 2 " + elsewhere(1));
    put(store_, generation_ + "go", "!8 " + why);
    Alive alive(store_, generation_ + "alive.0");
    int64_t looked_ms = now_ms(); // or the start
    int looks = 0;
    std::string before; // the previous request
    const Created made = create(Hooked{store_,
                                       [&](const std::string &verb, const std::string &key) {
                                           const bool hears =
                                               verb == "get" && key == job_ + "launch" && before != "set_new";
                                           if (hears && (now_ms() - looked_ms >= 252 || looks == 3))
                                               gcoll_store_remove(store_, key.c_str());
                                           if (key == job_ + "refused") {
                                               looked_ms = now_ms();
                                               looks++;
                                           }
                                           before = verb;
                                           return Deed::kDo;
                                       }},
                                job_of(2, 20000), 0);
    EXPECT_EQ(made.status, GCOLL_ERR_MISMATCH) << made.text;
    EXPECT_EQ(made.text, why);
}

// A rank 0 that has got the error before, and tries again, waits for the next launch.
TEST_F(Elsewhere, ARankZeroThatTriesAgainWaitsForTheNext) {
    char host[64] = "";
    EXPECT_EQ(gethostname(host, sizeof host - 1), 0);
    const std::string self = "process " + std::to_string(getpid()) + " on host '" + host + "'";
    put(store_, job_ + "launch", kGeneration + " 2 " + elsewhere(1));
    put(store_, generation_ + "go",
        "!8 rank 0 is claimed twice, by process 7 on host 'elsewhere' and by " + self);
    Alive alive(store_, generation_ + "alive.0");
    Created made[2];
    std::thread lead([&] { made[0] = create(store_, job_of(2), 0); });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    gcoll_store_remove(store_, (job_ + "launch").c_str());
    made[1] = create(store_, job_of(2), 1);
    lead.join();
    for (const Created &each : made)
        EXPECT_EQ(each.status, GCOLL_OK) << each.text;
}

// ---- Launches that are over -----------------------------------------------------------------------------

// A launch whose time is over, with an unmarked claim of rank 1. Rank 2 is missing in it, and comes now.
class Over : public Elsewhere, public testing::WithParamInterface<bool> {
  protected:
    Over() {
        put(store_, job_ + "launch", kGeneration + " 3 " + elsewhere(1));
        put(store_, generation_ + "rank.1", elsewhere(2));
        put(store_, generation_ + "go", "!4 " + why_);
        if (GetParam()) // whoever wrote the verdict was killed before this key
            put(store_, generation_ + "agreed", "!4 " + why_);
    }
    const std::string why_ = "job 'same': 1 of 3 ranks did not join within 300 ms: 2";
    Alive lead_{store_, generation_ + "alive.0"};
};

// It may belong to the next launch, and is there when that comes.
TEST_P(Over, ALaunchWhoseTimeIsOverTakesNoRankAlong) {
    Created made[3];
    std::vector<std::thread> threads;
    threads.emplace_back([&] { made[2] = create(store_, job_of(3), 2); });
    EXPECT_EQ(gcoll_store_wait(store_, (generation_ + "left").c_str(), 10000), GCOLL_OK) << "it leaves";
    EXPECT_EQ(get(store_, generation_ + "rank.2").substr(0, 1), "!");
    EXPECT_GCOLL_OK(gcoll_store_remove(store_, (job_ + "launch").c_str()));
    for (uint32_t rank = 0; rank < 2; rank++)
        threads.emplace_back([&, rank] { made[rank] = create(store_, job_of(3), rank); });
    for (std::thread &thread : threads)
        thread.join();
    for (const Created &each : made)
        EXPECT_EQ(each.status, GCOLL_OK) << each.text;
}

// The next launch does not come. Rank 0 is not said to be missing: it was there before.
TEST_P(Over, ALaunchWhoseTimeIsOverIsToldByTheTimeout) {
    const Created made = create(store_, job_of(3, 700), 2);
    EXPECT_EQ(made.status, GCOLL_ERR_TIMEOUT) << made.text;
    EXPECT_TRUE(
        contains(made.text, "no launch to join came within 700 ms; the last one, of rank 0, process 7 "
                            "on host 'elsewhere', was over when this rank came: " +
                                why_))
        << made.text;
    EXPECT_FALSE(contains(made.text, "rank 0 did not join")) << made.text;
}

INSTANTIATE_TEST_SUITE_P(Keys, Over, testing::Bool());

// A process is seen to be dead, and its claim was read without the mark that it left before it ended. Nobody
// takes the rank over: it would be counted twice among those that left, and the verdict be removed too early.
TEST_F(Elsewhere, ARankThatLeftWhileItsClaimWasReadHasNoHeir) {
    const std::string claim = dead_claim(), why = "job 'same': rank 2 is claimed twice";
    put(store_, job_ + "launch", kGeneration + " 3 " + elsewhere(1));
    put(store_, generation_ + "rank.1", claim);
    Alive lead(store_, generation_ + "alive.0");
    bool read = false;
    const Created made = create(Hooked{store_,
                                       [&](const std::string &verb, const std::string &key) {
                                           if (read && key == job_ + "launch") {
                                               put(store_, generation_ + "go", "!8 " + why);
                                               put(store_, generation_ + "agreed", "!8 " + why);
                                               put(store_, generation_ + "rank.1", "!" + claim);
                                           }
                                           read = read || (verb == "get" && key == generation_ + "rank.1");
                                           return Deed::kDo;
                                       }},
                                job_of(3), 1);
    EXPECT_EQ(made.status, GCOLL_ERR_MISMATCH) << made.text;
    EXPECT_EQ(made.text, why);
    EXPECT_EQ(get(store_, generation_ + "left"), "") << "the process that had the rank is counted";
}

// All ranks but rank 0 have left. As long as its launch stands, ranks may join it, and find the verdict.
TEST_F(Elsewhere, AVerdictStaysAsLongAsTheLaunch) {
    const std::string why = "job 'same': rank 2 is claimed twice";
    for (bool stands : {true, false}) {
        int64_t left = 0;
        put(store_, job_ + "launch", kGeneration + " 3 " + elsewhere(1));
        EXPECT_GCOLL_OK(gcoll_store_add(store_, (generation_ + "left").c_str(), 2, &left));
        put(store_, generation_ + "go", "!8 " + why);
        put(store_, generation_ + "agreed", "!8 " + why);
        Alive lead(store_, generation_ + "alive.0");
        const Created made = create(Hooked{store_,
                                           [&](const std::string &verb, const std::string &) {
                                               if (verb == "add" && !stands)
                                                   gcoll_store_remove(store_, (job_ + "launch").c_str());
                                               return Deed::kDo;
                                           }},
                                    job_of(3), stands ? 1 : 2);
        EXPECT_EQ(made.status, GCOLL_ERR_MISMATCH) << made.text;
        EXPECT_EQ(get(store_, generation_ + "go"), stands ? "!8 " + why : "");
        EXPECT_GCOLL_OK(gcoll_store_remove(store_, (generation_ + "left").c_str()));
    }
}

// A rank gave up and marked its claim, but could not write why. It has not died.
TEST_F(Elsewhere, ARankThatLeftWithoutAWordIsNotSaidToHaveDied) {
    const std::string claim = dead_claim();
    int looks = 0;
    const Created made = create(Hooked{store_,
                                       [&](const std::string &verb, const std::string &key) {
                                           if (verb == "get" && contains(key, "/rank.2"))
                                               put(store_, key.substr(0, key.find("/rank.")) + "/rank.2",
                                                   ++looks < 2 ? claim : "!" + claim);
                                           return Deed::kDo;
                                       }},
                                job_of(3), 0);
    EXPECT_EQ(made.status, GCOLL_ERR_PEER) << made.text;
    EXPECT_TRUE(contains(made.text, "rank 2, process 2147483647 on host '") &&
                contains(made.text, "', ended while ranks joined, and left no reason"))
        << made.text;
    EXPECT_FALSE(contains(made.text, "died")) << made.text;
}

TEST(Launches, ARankZeroThatLeftWithoutAWordIsNotSaidToHaveDied) {
    NoLaunch no_launch;
    Folder folder;
    Outcomes out;
    Processes lead(1, [&](uint32_t) { return live(out, folder.url(), job_of(3), 0, 0, 0); });
    EXPECT_TRUE(await_keys(folder, "addr.0", 1));
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 30000, &store));
    bool ended = false;
    const Created made = create(Hooked{store,
                                       [&](const std::string &verb, const std::string &key) {
                                           if (verb == "wait" && !contains(key, "/launch") && !ended) {
                                               ended = true;
                                               gcoll_store_remove(store, "gcoll/same/launch");
                                               lead.signal(0, SIGKILL);
                                               EXPECT_EQ(lead.wait(0, 5000).signal, SIGKILL);
                                           }
                                           return Deed::kDo;
                                       }},
                                job_of(3), 1);
    EXPECT_EQ(made.status, GCOLL_ERR_PEER) << made.text;
    EXPECT_TRUE(contains(made.text, "rank 0, " + process(out, 0)) &&
                contains(made.text, "', ended while ranks joined, and left no reason"))
        << made.text;
    gcoll_store_destroy(store);
}

// ---- Machines and stores that are slow ------------------------------------------------------------------

// Creates a rank of eight whose time is over when the others are still missing. `hook` comes before each
// request after that. Returns the verdict that it has left.
std::string out_of_time(gcoll_store *store, uint32_t rank, Created &made, const std::function<void()> &hook) {
    const std::string job = "gcoll/same/";
    const int64_t deadline_ms = now_ms() + 300;
    std::unique_ptr<Alive> lead;
    if (rank > 0) {
        put(store, job + "launch", kGeneration + " 8 " + elsewhere(1));
        lead = std::make_unique<Alive>(store, job + kGeneration + "/alive.0");
    }
    std::string go;
    made = create(Hooked{store,
                         [&](const std::string &verb, const std::string &key) {
                             if (contains(key, "/addr."))
                                 go = key.substr(0, key.find("addr.")) + "go";
                             if (verb == "get" && now_ms() >= deadline_ms)
                                 hook();
                             return Deed::kDo;
                         }},
                  job_of(8, 300), rank);
    return get(store, go);
}

class OutOfTime : public Elsewhere, public testing::WithParamInterface<uint32_t> {};

// The store answers so slowly that the time is not enough to look for the missing ranks. It is enough to tell
// the others: a rank that ends without a word seems to have died. Nobody is named who was not looked for.
TEST_P(OutOfTime, ASlowStoreKeepsNoVerdictBack) {
    Created made;
    const std::string verdict = out_of_time(
        store_, GetParam(), made, [] { std::this_thread::sleep_for(std::chrono::milliseconds(60)); });
    EXPECT_EQ(made.status, GCOLL_ERR_TIMEOUT) << made.text;
    EXPECT_TRUE(contains(made.text, "the ranks did not meet within 300 ms, and the store answers too slowly"))
        << made.text;
    EXPECT_EQ(verdict, "!4 " + made.text);
}

// The machine does not run the process for longer than the closing of a creation takes.
TEST_P(OutOfTime, ABusyMachineKeepsNoVerdictBack) {
    Created made;
    bool slept = false;
    const std::string verdict = out_of_time(store_, GetParam(), made, [&] {
        if (!slept)
            std::this_thread::sleep_for(std::chrono::milliseconds(1000));
        slept = true;
    });
    EXPECT_EQ(made.status, GCOLL_ERR_TIMEOUT) << made.text;
    EXPECT_EQ(verdict, "!4 " + made.text);
    EXPECT_FALSE(contains(made.text, "did not join")) << made.text;
}

INSTANTIATE_TEST_SUITE_P(Ranks, OutOfTime, testing::Values(0u, 1u));

// ---- Refused processes ----------------------------------------------------------------------------------

// An old launch on another host holds rank 0 and `holds`. A process of the new launch is refused that rank,
// and the old launch ends. The ranks of the new launch that come then must not wait for the refused one, and
// not say that it did not join. If it tries again, they must all meet.
class Refused : public Elsewhere, public testing::WithParamInterface<std::pair<uint32_t, bool>> {};

TEST_P(Refused, IsNotWaitedFor) {
    const uint32_t holds = GetParam().first;
    const bool again = GetParam().second;
    put(store_, job_ + "launch", kGeneration + " 3 " + elsewhere(1));
    if (holds > 0)
        put(store_, generation_ + "rank.1", elsewhere(2));
    Alive lead(store_, generation_ + "alive.0"), rank(store_, generation_ + "alive.1");
    std::atomic<uint32_t> looks[3] = {};
    std::atomic<uint32_t> back{0}, more[3] = {}; // more requests since the note is gone
    const auto looks_for = [&](uint32_t self) { return self != holds && (holds == 0 || self == 0); };
    const auto await_others = [&](const std::atomic<uint32_t> *counts, uint32_t count) {
        for (uint32_t self = 0; self < 3; self++)
            EXPECT_TRUE(!looks_for(self) || await(counts[self], count));
    };
    // The note stays until all have seen it who look, in their first look (rank 2 does not look if it finds a
    // rank 0). Then the refused process tries again, and comes when the others have gone on for a while.
    const auto hook = [&](uint32_t self, const std::string &verb, const std::string &key) {
        const bool refused = key == job_ + "refused";
        if (self == holds) {
            if (refused && verb == "remove")
                await_others(looks, 2);
            if (back == 1 && verb == "set_new")
                await_others(more, holds == 0 ? 2 : 6);
        } else if (refused && verb == "get") {
            if (++looks[self] >= 2 && get(store_, key).empty()) {
                EXPECT_TRUE(await(back, 1));
                more[self]++;
            }
        } else if (more[self] > 0) {
            more[self]++;
        }
        return Deed::kDo;
    };
    const auto joins = [&](uint32_t self) {
        return create(Hooked{store_, [&hook, self](const std::string &verb,
                                                   const std::string &key) { return hook(self, verb, key); }},
                      job_of(3), self);
    };
    Created made[3], first;
    std::vector<std::thread> threads;
    threads.emplace_back([&] {
        first = joins(holds);
        back = 1;
        made[holds] = again ? joins(holds) : first;
    });
    EXPECT_EQ(gcoll_store_wait(store_, (job_ + "refused").c_str(), 10000), GCOLL_OK);
    EXPECT_GCOLL_OK(gcoll_store_remove(store_, (job_ + "launch").c_str()));
    for (uint32_t other = 0; other < 3; other++)
        if (other != holds)
            threads.emplace_back([&, other] { made[other] = joins(other); });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(first.status, GCOLL_ERR_MISMATCH) << first.text;
    EXPECT_TRUE(contains(first.text, "rank " + std::to_string(holds) + " is claimed twice, by process 7 on "))
        << first.text;
    for (const Created &each : made) {
        EXPECT_EQ(each.status, again ? GCOLL_OK : GCOLL_ERR_MISMATCH) << each.text;
        EXPECT_TRUE(again || each.text == first.text) << each.text;
        EXPECT_LT(each.ms, 15000) << "the timeout is 20 s";
    }
    EXPECT_EQ(get(store_, job_ + "refused"), "") << "is left behind";
    EXPECT_EQ(get(store_, job_ + "twice") == "", again) << "stays until a launch is complete";
}

INSTANTIATE_TEST_SUITE_P(Ranks, Refused,
                         testing::Values(std::make_pair(1u, false), std::make_pair(1u, true),
                                         std::make_pair(0u, false), std::make_pair(0u, true)));

// The note of a process on another host that was refused rank `rank`, so many ms ago by its own account.
std::string note_of(uint32_t rank, int64_t past_ms, const std::string &verdict) {
    return std::to_string(rank) + " 5 " + std::to_string(past_ms) + " " + elsewhere(6) + "\n" + verdict;
}

// Creates rank 0 of three, beside a note that changes with each look, if `changes`. Ranks 1 and 2 come after
// `looks` looks, or never.
std::vector<Created> beside_note(gcoll_store *store, const std::function<std::string(int look)> &note,
                                 int looks, bool changes = true, int64_t timeout_ms = 20000) {
    std::atomic<uint32_t> seen{0};
    std::vector<Created> made(3);
    std::vector<std::thread> threads;
    threads.emplace_back([&] {
        made[0] =
            create(Hooked{store,
                          [&](const std::string &verb, const std::string &key) {
                              if (verb == "get" && key == "gcoll/same/refused")
                                  put(store, key, note(changes ? static_cast<int>(++seen) : (++seen, 0)));
                              return Deed::kDo;
                          }},
                   job_of(3, timeout_ms), 0);
        seen = 1000;
    });
    EXPECT_TRUE(looks == 0 || await(seen, static_cast<uint32_t>(looks)));
    for (uint32_t rank = 1; rank < 3 && looks > 0; rank++)
        threads.emplace_back([&, rank] { made[rank] = create(store, job_of(3, timeout_ms), rank); });
    for (std::thread &thread : threads)
        thread.join();
    return made;
}

// Rank 0 waited already when the process was refused. So it need not see whether that process comes back.
TEST_F(Elsewhere, ARefusedRankIsNotWaitedForByRanksThatWaited) {
    const auto note = [](int look) { return note_of(2, look, "!8 rank 2 is claim\x1b[d twice"); };
    const Created made = beside_note(store_, note, 0)[0];
    EXPECT_EQ(made.status, GCOLL_ERR_MISMATCH) << made.text;
    EXPECT_EQ(made.text, "rank 2 is claim?[d twice");
    EXPECT_LT(made.ms, 15000) << "the timeout is 20 s";
}

// A process that has ended leads the launch in the store. If that launch failed, no rank is said to have
// died.
TEST_F(Elsewhere, ALaunchThatFailedIsToldByTheTimeout) {
    Created made;
    made = create(Hooked{store_,
                         [&](const std::string &verb, const std::string &key) {
                             return verb == "remove" && key == job_ + "launch" ? Deed::kSkip : Deed::kDo;
                         }},
                  job_of(2, 100), 0);
    std::string launch = get(store_, job_ + "launch");
    const std::string pid = " " + std::to_string(getpid()) + " ";
    ASSERT_TRUE(contains(launch, pid));
    launch.replace(launch.find(pid), pid.size(), " 2147483647 "); // no process has this number
    put(store_, job_ + "launch", launch);
    const std::string why = made.text, begun = "; the one that had begun, process 2147483647 on host '";
    made = create(store_, job_of(2, 300), 1);
    EXPECT_EQ(made.status, GCOLL_ERR_TIMEOUT) << made.text;
    EXPECT_TRUE(contains(made.text, begun) && contains(made.text, ", ended: " + why)) << made.text;
    EXPECT_GCOLL_OK(gcoll_store_remove(store_, (job_ + launch.substr(0, 32) + "/go").c_str()));
    made = create(store_, job_of(2, 300), 1);
    EXPECT_TRUE(contains(made.text, begun) && contains(made.text, ", died")) << made.text;
}

// The process was refused when rank 0 began to wait, and stays. So it may still come back until the time is
// over.
TEST_F(Elsewhere, ARefusedRankThatDidNotComeBackIsNamedByTheTimeout) {
    const int64_t began_ms = now_ms();
    const auto note = [&](int) { return note_of(2, now_ms() - began_ms, "!8 rank 2 is claimed twice"); };
    const Created made = beside_note(store_, note, 0, true, 2000)[0];
    EXPECT_EQ(made.status, GCOLL_ERR_MISMATCH) << made.text;
    EXPECT_EQ(made.text, "rank 2 is claimed twice");
    EXPECT_GE(made.ms, 2000);
}

// This process was started after the refusal, so it belongs to a new attempt, in which the rank is missing
// for another reason.
TEST_F(Elsewhere, ANoteFromBeforeThisProcessIsNotHeededByTheTimeout) {
    const auto note = [](int look) { return note_of(2, 80000000 + look, "!8 rank 2 is claimed twice"); };
    const Created made = beside_note(store_, note, 0, true, 1500)[0];
    EXPECT_EQ(made.status, GCOLL_ERR_TIMEOUT) << made.text;
    EXPECT_TRUE(contains(made.text, "2 of 3 ranks did not join within 1500 ms: 1, 2")) << made.text;
}

// The ranks of the refused process's launch come when its note is gone. They wait for their timeouts, and
// then say what has happened: the refused process is not missing.
TEST_F(Elsewhere, ARefusalIsToldByTheTimeoutOfLateRanks) {
    put(store_, job_ + "launch", kGeneration + " 2 " + elsewhere(1));
    auto lead = std::make_unique<Alive>(store_, generation_ + "alive.0");
    Created refused = create(store_, job_of(2), 0);
    EXPECT_EQ(refused.status, GCOLL_ERR_MISMATCH) << refused.text;
    EXPECT_EQ(get(store_, job_ + "refused"), "");
    EXPECT_GCOLL_OK(gcoll_store_remove(store_, (job_ + "launch").c_str()));
    const Created late = create(store_, job_of(2, 300), 1);
    EXPECT_EQ(late.status, GCOLL_ERR_MISMATCH) << late.text;
    EXPECT_EQ(late.text, refused.text);
    EXPECT_GE(late.ms, 300);
    Created made[2];
    std::thread other([&] { made[1] = create(store_, job_of(2), 1); });
    made[0] = create(store_, job_of(2), 0);
    other.join();
    for (const Created &each : made)
        EXPECT_EQ(each.status, GCOLL_OK) << each.text;
    EXPECT_EQ(get(store_, job_ + "twice"), "") << "a launch was complete";
}

// Memos of refusals that do not concern the missing rank, or not this process, change nothing.
TEST_F(Elsewhere, MemosOfOthersAreNotHeeded) {
    timespec clock = {};
    clock_gettime(CLOCK_BOOTTIME, &clock);
    const int64_t now = clock.tv_sec * 1000 + clock.tv_nsec / 1000000, hour = 3600000;
    const std::string here = claim_here(std::to_string(getpid())), why = "\n!8 rank is claimed twice";
    const auto memo = [&](uint32_t rank, int64_t at, int64_t timeout, const std::string &who) {
        return std::to_string(rank) + " " + std::to_string(at) + " " + std::to_string(timeout) + " " + who +
               why;
    };
    const struct {
        std::string memo, what;
        gcoll_status status;
    } trials[] = {
        {memo(2, now - 100, 20000, here), "as it is meant", GCOLL_ERR_MISMATCH},
        {memo(1, now - 100, 20000, here), "this rank is there", GCOLL_ERR_TIMEOUT},
        {memo(0, now - 100, 20000, here), "of the reader's own rank", GCOLL_ERR_TIMEOUT},
        {memo(2, now - 100, 20, here), "too long ago", GCOLL_ERR_TIMEOUT},
        {memo(2, std::max<int64_t>(now - hour, 1), 80000000, here), "before this process", GCOLL_ERR_TIMEOUT},
        {memo(2, now - 100, 20000, elsewhere(6)), "on another host", GCOLL_ERR_TIMEOUT},
        {"2 nonsense" + why, "nonsense", GCOLL_ERR_TIMEOUT},
    };
    for (const auto &trial : trials) {
        Created made[2];
        for (int attempt = 0; attempt < 5; attempt++) { // a busy machine may leave no time to look
            put(store_, job_ + "twice", trial.memo);
            std::thread other([&] { made[1] = create(store_, job_of(3, 3000), 1); });
            made[0] = create(store_, job_of(3, 500), 0);
            other.join();
            if (!contains(made[0].text, "too slowly") && !contains(made[1].text, "too slowly"))
                break;
        }
        for (const Created &each : made) {
            EXPECT_EQ(each.status, trial.status) << trial.what << ": " << each.text;
            EXPECT_TRUE(contains(each.text, trial.status == GCOLL_ERR_MISMATCH ? "claimed twice" : "ms: 2"))
                << trial.what << ": " << each.text;
        }
    }
}

// Notes that concern no rank that is missing, and notes that make no sense, change nothing.
TEST_F(Elsewhere, NotesOfOthersAreNotHeeded) {
    const std::string why = "!8 rank 2 is claimed twice";
    const auto constant = [&](int) { return note_of(2, 7, why); }; // its process was killed
    const std::function<std::string(int)> notes[] = {
        [&](int look) { return note_of(2, 80000000 + look, why); }, // this process was started after it
        [&](int look) { return note_of(0, look, why); },            // this rank is there
        [&](int look) { return note_of(3, look, why); },            // of a job of another size
        [&](int look) { return note_of(2, look, "!4 did not join"); },
        [&](int look) { return note_of(2, look, "go"); },
        [&](int look) { return note_of(2, look, "!8 " + std::string(2000, 'x')); },
        [&](int look) { return note_of(2, -look, why); },
        [&](int look) { return "2 5 " + std::to_string(look) + " nonsense\n" + why; },
        [&](int look) { return std::to_string(look); },
    };
    std::vector<std::thread> threads; // all at once, each with a store of its own
    const auto ignored = [](const std::function<std::string(int)> &note, bool changes) {
        gcoll_store *store = nullptr;
        EXPECT_GCOLL_OK(gcoll_store_memory_create(&store));
        for (const Created &each : beside_note(store, note, 3, changes))
            EXPECT_EQ(each.status, GCOLL_OK) << note(1) << ": " << each.text;
        gcoll_store_destroy(store);
    };
    threads.emplace_back(ignored, constant, false);
    for (const auto &note : notes)
        threads.emplace_back(ignored, note, true);
    for (std::thread &thread : threads)
        thread.join();
}

// The refused process has come back, though its note is still there.
TEST_F(Elsewhere, ARefusedRankThatIsThereIsNotMissed) {
    std::vector<Created> made(3);
    std::atomic<uint32_t> looks{0};
    const auto joins = [&](uint32_t rank) {
        made[rank] = create(Hooked{store_,
                                   [&](const std::string &verb, const std::string &key) {
                                       if (verb != "get" || key != job_ + "refused" || rank != 0)
                                           return Deed::kDo;
                                       const std::string launch = get(store_, job_ + "launch").substr(0, 32);
                                       gcoll_store_wait(store_, (job_ + launch + "/addr.2").c_str(), 10000);
                                       put(store_, key, note_of(2, static_cast<int64_t>(++looks), "!8 why"));
                                       return Deed::kDo;
                                   }},
                            job_of(3), rank);
    };
    std::thread lead(joins, 0), back(joins, 2);
    EXPECT_TRUE(await(looks, 4));
    std::thread last(joins, 1);
    for (std::thread *thread : {&lead, &back, &last})
        thread->join();
    for (const Created &each : made)
        EXPECT_EQ(each.status, GCOLL_OK) << each.text;
}

// ---- Launches of a process that lives -------------------------------------------------------------------

// Rank 0's claim was made, but the store's answer was lost. Rank 0 ends the launch that it began.
TEST_F(Elsewhere, ALaunchWhoseAnswerWasLostIsEnded) {
    bool lost = false;
    Created made[2];
    made[0] = create(Hooked{store_,
                            [&](const std::string &verb, const std::string &key) {
                                if (verb != "set_new" || key != job_ + "launch" || lost)
                                    return Deed::kDo;
                                lost = true;
                                return Deed::kLoseAnswer;
                            }},
                     job_of(2), 0);
    EXPECT_EQ(made[0].status, GCOLL_ERR_IO) << made[0].text;
    EXPECT_TRUE(contains(made[0].text, "outcome unknown")) << made[0].text;
    EXPECT_EQ(get(store_, job_ + "launch"), "");
    std::thread other([&] { made[1] = create(store_, job_of(2), 1); });
    made[0] = create(store_, job_of(2), 0);
    other.join();
    for (const Created &each : made)
        EXPECT_EQ(each.status, GCOLL_OK) << each.text;
}

// A launch has failed, and its rank 0 lives but could not remove it. The next rank 0 does.
TEST_F(Elsewhere, ALaunchThatWasLeftBehindIsTakenOver) {
    Created made[2];
    made[0] = create(Hooked{store_,
                            [&](const std::string &verb, const std::string &key) {
                                return verb == "remove" && key == job_ + "launch" ? Deed::kSkip : Deed::kDo;
                            }},
                     job_of(2, 100), 0);
    EXPECT_EQ(made[0].status, GCOLL_ERR_TIMEOUT) << made[0].text;
    const std::string left = get(store_, job_ + "launch");
    EXPECT_NE(left, "");
    made[0] = create(store_, job_of(2, 300), 0);
    EXPECT_TRUE(contains(made[0].text, "an earlier launch, whose rank 0 is ")) << made[0].text;
    std::thread lead([&] { made[0] = create(store_, job_of(2, 8000), 0); });
    for (int64_t end = now_ms() + 10000; now_ms() < end && get(store_, job_ + "launch") == left;)
        usleep(1000);
    made[1] = create(store_, job_of(2, 8000), 1);
    lead.join();
    for (const Created &each : made)
        EXPECT_EQ(each.status, GCOLL_OK) << each.text;
}

// ---- Stores that do not answer --------------------------------------------------------------------------

// A store of the test. Once it is stuck, each request takes all the time that it is given.
struct Stuck {
    gcoll_store *base = nullptr;
    std::atomic<bool> stuck{false};
    std::atomic<int> slow_ms{0}; // for each request
    std::atomic<int> kept{0}, sets{0};
    int64_t limit_ms = 30000;       // the store's own timeout
    int64_t shortest_ms = 86400000; // of the lifetimes that were given
    int64_t until_ms = 0;           // the latest time that a request was given
    std::string only;               // kept keys that contain it count
    std::string address;            // the latest key of an address that was set

    static Stuck *of(void *self) { return static_cast<Stuck *>(self); }
    gcoll_status pass() const {
        std::this_thread::sleep_for(std::chrono::milliseconds(slow_ms));
        if (!stuck)
            return GCOLL_OK;
        std::this_thread::sleep_for(std::chrono::milliseconds(limit_ms));
        return gcoll_store_error(GCOLL_ERR_IO, "the store is stuck");
    }
    gcoll_store *make();
};

gcoll_store *Stuck::make() {
    static const gcoll_store_ops ops = [] {
        gcoll_store_ops made = {};
        made.struct_size = sizeof made;
        made.name = "stuck";
        made.set = [](void *self, const char *key, const void *value, size_t bytes) {
            gcoll_status status = of(self)->pass();
            of(self)->sets++;
            if (strstr(key, "/addr."))
                of(self)->address = key;
            return status != GCOLL_OK ? status : gcoll_store_set(of(self)->base, key, value, bytes);
        };
        made.get = [](void *self, const char *key, void *value, size_t capacity, size_t *bytes) {
            gcoll_status status = of(self)->pass();
            return status != GCOLL_OK ? status : gcoll_store_get(of(self)->base, key, value, capacity, bytes);
        };
        made.wait = [](void *self, const char *key, int64_t timeout_ms) {
            gcoll_status status = of(self)->pass();
            return status != GCOLL_OK ? status : gcoll_store_wait(of(self)->base, key, timeout_ms);
        };
        made.add = [](void *self, const char *key, int64_t delta, int64_t *value) {
            gcoll_status status = of(self)->pass();
            of(self)->sets++;
            return status != GCOLL_OK ? status : gcoll_store_add(of(self)->base, key, delta, value);
        };
        made.remove = [](void *self, const char *key) {
            gcoll_status status = of(self)->pass();
            return status != GCOLL_OK ? status : gcoll_store_remove(of(self)->base, key);
        };
        made.set_new = [](void *self, const char *key, const void *value, size_t bytes) {
            gcoll_status status = of(self)->pass();
            of(self)->sets++;
            return status != GCOLL_OK ? status : gcoll_store_set_new(of(self)->base, key, value, bytes);
        };
        made.set_timeout = [](void *self, int64_t timeout_ms) {
            of(self)->limit_ms = timeout_ms >= 0 ? timeout_ms : 30000;
            if (timeout_ms >= 0)
                of(self)->until_ms = std::max(of(self)->until_ms, now_ms() + timeout_ms);
            return GCOLL_OK;
        };
        made.keep = [](void *self, const char *key, int64_t ttl_ms) {
            of(self)->shortest_ms = std::min(of(self)->shortest_ms, ttl_ms);
            EXPECT_LE(ttl_ms, 86400000);
            of(self)->kept += strstr(key, of(self)->only.c_str()) != nullptr;
            return gcoll_store_keep(of(self)->base, key, ttl_ms);
        };
        return made;
    }();
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_create(&ops, this, &store));
    return store;
}

class Stores : public testing::Test {
  protected:
    Stores() {
        EXPECT_GCOLL_OK(gcoll_store_memory_create(&base_));
        for (uint32_t rank = 0; rank < 2; rank++) {
            ranks_[rank].base = base_;
            stores_[rank] = ranks_[rank].make();
        }
    }
    ~Stores() override {
        for (gcoll_store *store : stores_)
            gcoll_store_destroy(store);
        gcoll_store_destroy(base_);
    }
    // Runs two ranks in threads, each with its own store.
    void run(const std::function<void(uint32_t rank, gcoll_context *context)> &body) {
        std::thread other([&] { one(1, body); });
        one(0, body);
        other.join();
    }
    void one(uint32_t rank, const std::function<void(uint32_t, gcoll_context *)> &body) {
        Job job = job_of(2);
        job.adjust = adjust_;
        gcoll_context_options options = gcoll_test::options_of(job, rank, stores_[rank], nullptr);
        gcoll_context *context = nullptr;
        EXPECT_GCOLL_OK(gcoll_context_create(&options, &context));
        if (context)
            body(rank, context);
    }
    gcoll_test::Watchdog watchdog_{100};
    gcoll_store *base_ = nullptr, *stores_[2] = {};
    Stuck ranks_[2];
    std::function<void(uint32_t rank, gcoll_context_options *options)> adjust_;
};

TEST_F(Stores, OneThatIsStuckHoldsUpNoDestroy) {
    for (bool broken : {false, true}) {
        std::atomic<uint32_t> there{0};
        run([&](uint32_t rank, gcoll_context *context) {
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            ++there;
            EXPECT_TRUE(await(there, 2));
            ranks_[rank].stuck = true;
            if (broken)
                gcoll_context_abort(context, "as is tested");
            const int64_t before = now_ms();
            gcoll_context_destroy(context);
            EXPECT_LT(now_ms() - before, 5000) << "its own timeout is 30 s";
            ranks_[rank].stuck = false;
        });
    }
}

// A store that answers slowly, as of a machine with many more ranks than processors, is not stuck: ranks take
// all their keys away, also when they broke.
class SlowStores : public Stores, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Broken, SlowStores, testing::Bool());

TEST_P(SlowStores, HaveNothingLeftInThem) {
    std::atomic<uint32_t> there{0};
    run([&](uint32_t rank, gcoll_context *context) {
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        ++there;
        EXPECT_TRUE(await(there, 2));
        ranks_[rank].slow_ms = 300; // of three requests at least, where a rank gives the stuck one a second
        if (GetParam())
            gcoll_context_abort(context, "as is tested");
        gcoll_context_destroy(context);
    });
    for (const char *name : {"/addr.0", "/addr.1", "/go", "/left", "/tuning", "/agreed"}) {
        const std::string &address = ranks_[1].address;
        const std::string key = address.substr(0, address.find("/addr.")) + name;
        char value[1];
        size_t bytes;
        EXPECT_EQ(gcoll_store_get(base_, key.c_str(), value, 1, &bytes), GCOLL_ERR_NOT_FOUND) << key;
    }
}

TEST_F(Stores, OneThatIsStuckHoldsUpNoCreate) {
    for (uint32_t rank = 0; rank < 2; rank++) {
        ranks_[rank].stuck = true;
        const Created made = create(stores_[rank], job_of(2, 700), rank);
        EXPECT_EQ(made.status, GCOLL_ERR_IO) << made.text;
        EXPECT_TRUE(contains(made.text, "the store is stuck")) << made.text;
        EXPECT_LT(made.ms, 5000) << "its own timeout is 30 s";
        EXPECT_EQ(ranks_[rank].limit_ms, 30000) << "it has its own timeout back";
    }
}

// Waiting for rank 0's word, writing a verdict and leaving share one deadline, however slow the store is.
TEST_F(Stores, CreationHasOneDeadline) {
    NoLaunch no_launch;
    const std::string job = "gcoll/same/";
    put(base_, job + "launch", kGeneration + " 3 " + elsewhere(1));
    Alive lead(base_, job + kGeneration + "/alive.0");
    const int64_t deadline_ms = now_ms() + 300;
    const Created made = create(stores_[1], job_of(3, 300), 1);
    EXPECT_EQ(made.status, GCOLL_ERR_TIMEOUT) << made.text;
    EXPECT_GT(ranks_[1].until_ms, deadline_ms) << "it did not have to give up";
    const int64_t closing_ms = 750, busy_ms = 350; // of the machine, between a decision and the request
    EXPECT_LE(ranks_[1].until_ms - deadline_ms, closing_ms + busy_ms);
}

// The store is stuck from the moment at which the rank waits for the others.
TEST_F(Stores, OneThatGetsStuckHoldsUpNoCreate) {
    Created made;
    std::thread rank([&] { made = create(stores_[0], job_of(2, 1500), 0); });
    while (ranks_[0].sets < 3) // tuning, launch, address
        std::this_thread::yield();
    ranks_[0].stuck = true;
    rank.join();
    EXPECT_EQ(made.status, GCOLL_ERR_IO) << made.text;
    EXPECT_LT(made.ms, 6000) << "its own timeout is 30 s";
}

// Every key has a lifetime. A context that lives renews the lifetime of its address.
TEST_F(Stores, KeysAreKept) {
    run([&](uint32_t rank, gcoll_context *context) {
        Stuck &store = ranks_[rank];
        EXPECT_EQ(store.kept, store.sets);
        EXPECT_EQ(store.shortest_ms, 86400000);
        store.only = "/addr." + std::to_string(rank);
        store.kept = 0;
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        EXPECT_EQ(store.kept, 0) << "once an hour will do";
        launch_peek_hour(context);
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        EXPECT_EQ(store.kept, 1);
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        EXPECT_EQ(store.kept, 1);
        store.only = "/go"; // without which all keys would seem lost
        launch_peek_hour(context);
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        EXPECT_EQ(store.kept, 2);
        gcoll_context_destroy(context);
    });
}

// Keys of a launch that failed serve ranks that come late, and need not be there for a day.
TEST_F(Stores, KeysOfALaunchThatFailedAreKeptBriefly) {
    const Created made = create(stores_[0], job_of(2, 100), 0);
    EXPECT_EQ(made.status, GCOLL_ERR_TIMEOUT) << made.text;
    EXPECT_EQ(ranks_[0].kept, ranks_[0].sets);
    EXPECT_EQ(ranks_[0].shortest_ms, 3600000);
}

// A context that makes no blocking call renews it, too.
TEST_F(Stores, KeysAreKeptByTestsAndBoundedWaits) {
    run([&](uint32_t rank, gcoll_context *context) {
        Stuck &store = ranks_[rank];
        store.only = "/addr." + std::to_string(rank);
        for (bool tests : {true, false}) {
            store.kept = 0;
            launch_peek_hour(context);
            for (int i = 0; i < 16; i++) { // only some look at the clock
                gcoll_request *request = nullptr;
                ASSERT_EQ(gcoll_barrier_start(context, nullptr, &request), GCOLL_OK);
                for (int done = 0; tests && !done;)
                    ASSERT_EQ(gcoll_request_test(&request, &done), GCOLL_OK);
                if (!tests)
                    ASSERT_EQ(gcoll_request_wait_for(&request, 20000), GCOLL_OK);
            }
            EXPECT_EQ(store.kept, 1) << (tests ? "tested" : "waited for");
        }
        gcoll_operation *operation = nullptr;
        EXPECT_GCOLL_OK(gcoll_barrier_create(context, nullptr, &operation));
        store.kept = 0;
        launch_peek_hour(context);
        for (int i = 0; i < 16; i++) {
            EXPECT_GCOLL_OK(gcoll_operation_start(operation));
            for (int done = 0; !done;)
                ASSERT_EQ(gcoll_operation_test(operation, &done), GCOLL_OK);
        }
        EXPECT_EQ(store.kept, 1) << "an operation that is tested";
        gcoll_operation_destroy(operation);
        gcoll_context_destroy(context);
    });
}

// The progress thread renews it, too, although a receive is always posted and the thread never rests.
TEST_F(Stores, KeysAreKeptByABusyThread) {
    adjust_ = [](uint32_t, gcoll_context_options *options) { options->progress_thread = 1; };
    run([&](uint32_t rank, gcoll_context *context) {
        Stuck &store = ranks_[rank];
        gcoll_pair *pair = nullptr;
        gcoll_request *request = nullptr;
        uint32_t data = 0;
        EXPECT_GCOLL_OK(gcoll_context_pair(context, 1 - rank, &pair));
        EXPECT_GCOLL_OK(gcoll_pair_recv_start(pair, 1, &data, sizeof data, &request));
        store.only = "/addr.";
        store.kept = 0;
        launch_peek_hour(context);
        for (int64_t end = now_ms() + 10000; now_ms() < end && store.kept == 0;)
            usleep(1000);
        EXPECT_EQ(store.kept, 1);
        EXPECT_GCOLL_OK(gcoll_pair_send(pair, 1, &rank, sizeof rank));
        EXPECT_GCOLL_OK(gcoll_request_wait(&request));
        gcoll_context_destroy(context);
    });
}

// If the store has lost the address of a living rank, the rank writes it again.
TEST_F(Stores, AnAddressThatWasLostComesBack) {
    run([&](uint32_t rank, gcoll_context *context) {
        const std::string key = ranks_[rank].address, address = get(base_, key);
        EXPECT_NE(address, "");
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        EXPECT_GCOLL_OK(gcoll_store_remove(base_, key.c_str()));
        launch_peek_hour(context);
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        EXPECT_EQ(get(base_, key), address);
        gcoll_context_destroy(context);
    });
}

// The store's server was restarted and lost its keys. No rank is blamed.
TEST_F(Stores, OneThatLostItsKeysIsBlamedAndNoRank) {
    std::atomic<uint32_t> there{0}, lost{0}, over{0};
    adjust_ = [](uint32_t, gcoll_context_options *options) { options->tuning = "default"; };
    run([&](uint32_t rank, gcoll_context *context) {
        ++there;
        EXPECT_TRUE(await(there, 2));
        if (rank == 0) {
            const std::string address = ranks_[0].address;
            const std::string generation = address.substr(0, address.find("addr."));
            for (const char *key : {"addr.0", "addr.1", "go", "agreed", "tuning"})
                EXPECT_GCOLL_OK(gcoll_store_remove(base_, (generation + key).c_str()));
        }
        ++lost;
        EXPECT_TRUE(await(lost, 2));
        EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_IO);
        const std::string text = gcoll_last_error();
        EXPECT_TRUE(contains(text, "the store has lost the keys of job 'same'")) << text;
        EXPECT_EQ(gcoll_context_culprit(context), -1) << text;
        ++over;
        EXPECT_TRUE(await(over, 2));
        gcoll_context_destroy(context);
    });
}

// Another program overwrote the addresses. No rank is blamed. The error names the broken part: an address
// without sense, an incomplete token, or an address that does not lead to the rank.
TEST_F(Stores, ABrokenAddressIsNoRanksFault) {
    const std::vector<std::pair<std::string, std::string>> trials = {
        {"port=", "'port=0'"}, {"token=", "'token=0'"}, {"a=", "has no part 'a='"}};
    adjust_ = [](uint32_t, gcoll_context_options *options) { options->tuning = "default"; };
    for (const auto &trial : trials) {
        std::atomic<uint32_t> there{0}, broken{0};
        run([&](uint32_t rank, gcoll_context *context) {
            ++there;
            EXPECT_TRUE(await(there, 2));
            const std::string key = ranks_[rank].address, record = get(base_, key);
            const size_t part = record.find(";" + trial.first) + 1, value = part + trial.first.size();
            const size_t end = record.find(trial.first == "a=" ? ' ' : ';', value);
            put(base_, key,
                trial.first == "a=" ? record.substr(0, part - 1) + record.substr(end)
                                    : record.substr(0, value) + "0" + record.substr(end));
            ++broken;
            EXPECT_TRUE(await(broken, 2));
            EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_PROTOCOL);
            const std::string text = gcoll_last_error();
            EXPECT_TRUE(contains(text, "the store holds a broken address of rank ") &&
                        contains(text, trial.second))
                << text;
            EXPECT_TRUE(contains(text, "/addr.")) << text;
            EXPECT_EQ(gcoll_context_culprit(context), -1) << text;
            gcoll_context_destroy(context);
        });
    }
}

// ---- Identities -----------------------------------------------------------------------------------------

// Sets environment variables as long as the object lives.
class Variables {
  public:
    using Value = std::pair<const char *, const char *>;
    Variables(std::initializer_list<Value> values) : values_(values) {
        for (const Value &each : values_)
            setenv(each.first, each.second, 1);
    }
    ~Variables() {
        for (const Value &each : values_)
            unsetenv(each.first);
    }

  private:
    std::vector<Value> values_;
};

// Returns the error of a rank that waits in vain, which names the launch.
std::string waits(const char *launch = nullptr) {
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_memory_create(&store));
    Job job = job_of(4, 20);
    job.adjust = [launch](uint32_t, gcoll_context_options *options) { options->launch = launch; };
    const Created made = create(store, job, 1);
    EXPECT_EQ(made.status, GCOLL_ERR_TIMEOUT) << made.text;
    gcoll_store_destroy(store);
    return made.text;
}

TEST(Identity, IsTheOptionTheVariableOrTheLaunchers) {
    NoLaunch no_launch;
    EXPECT_FALSE(contains(waits(), "launch '"));
    EXPECT_TRUE(contains(waits("mine"), "launch 'mine'"));
    Variables slurm{
        {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "17"}, {"SLURM_STEP_ID", "3"}};
    EXPECT_TRUE(contains(waits(), "launch 'slurm:17.3'"));
    EXPECT_FALSE(contains(waits(""), "launch '"));
    { // a job that was requeued has its old number, and counts its steps from 0 again
        Variables requeued{{"SLURM_RESTART_COUNT", "2"}};
        EXPECT_TRUE(contains(waits(), "launch 'slurm:17.3.2'"));
    }
    {
        Variables given{{"GCOLL_LAUNCH", "theirs"}};
        EXPECT_TRUE(contains(waits(), "launch 'theirs'"));
        EXPECT_TRUE(contains(waits("mine"), "launch 'mine'"));
        EXPECT_FALSE(contains(waits(""), "launch '"));
    }
    { // mpirun within a batch job: the batch script's variables are not those of all ranks
        Variables mpirun{{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_NAMESPACE", "prterun-1"}};
        EXPECT_TRUE(contains(waits(), "launch 'pmix:prterun-1'"));
        Variables other{{"OMPI_COMM_WORLD_SIZE", "8"}};
        EXPECT_FALSE(contains(waits(), "launch '")) << "another size";
    }
    {
        Variables batch{{"SLURM_STEP_ID", "4294967291"}};
        EXPECT_FALSE(contains(waits(), "launch '")) << "what a batch script starts has its step in common";
    }
    Variables step{{"SLURM_STEP_ID", "3"}, {"SLURM_NTASKS", "5"}};
    EXPECT_FALSE(contains(waits(), "launch '")) << "another size";
}

// Rank 0 was started without an identity of the launch, and another rank with one. They do not find each
// other, and the error says why.
TEST_F(Elsewhere, ARankZeroWithoutAnIdentityIsNamedToThoseWithOne) {
    put(store_, job_ + "launch", kGeneration + " 2 " + elsewhere(1));
    Job job = job_of(2, 200);
    job.adjust = [](uint32_t, gcoll_context_options *options) { options->launch = "mine"; };
    const Created made = create(store_, job, 1);
    EXPECT_EQ(made.status, GCOLL_ERR_TIMEOUT) << made.text;
    EXPECT_TRUE(contains(made.text, "launch 'mine': rank 0 did not join within 200 ms; rank 0 of a launch "
                                    "without an identity, process 7 on host 'elsewhere', did"))
        << made.text;
}

// Some ranks were started with an identity, and the others without one: nobody joins the other kind, and each
// says what the other lacks. The ranks of `named` have it.
void expect_two_kinds(const std::vector<bool> &named, gcoll_store *store) {
    const auto size = static_cast<uint32_t>(named.size());
    std::vector<Created> made(size);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < size; rank++)
        threads.emplace_back([&, rank] {
            Job job = job_of(size, 2000);
            job.adjust = [&](uint32_t r, gcoll_context_options *options) {
                options->launch = named[r] ? "mine" : "";
            };
            made[rank] = create(store, job, rank);
        });
    for (std::thread &thread : threads)
        thread.join();
    const std::string same = "options.launch or GCOLL_LAUNCH must be the same on every rank";
    for (uint32_t rank = 0; rank < size; rank++) {
        const std::string &text = made[rank].text;
        EXPECT_EQ(made[rank].status, GCOLL_ERR_TIMEOUT) << text;
        EXPECT_TRUE(contains(text, named[rank] ? "a launch without an identity" : "of launch 'mine'"))
            << text;
        EXPECT_TRUE(contains(text, "process " + std::to_string(getpid()) + " on host '")) << text;
        EXPECT_TRUE(contains(text, same)) << text;
    }
    for (const char *key : {"named", "unnamed"})
        EXPECT_EQ(get(store, std::string("gcoll/same/") + key), "") << "is left behind";
}

TEST_F(Elsewhere, RanksWithAndWithoutAnIdentityAreToldOfEachOther) {
    expect_two_kinds({true, false, false}, store_);
    expect_two_kinds({false, true}, store_);
}

// What another host's dead job has left is no rank that waits; nor is anything that makes no sense.
TEST_F(Elsewhere, ATraceOfARankThatNoLongerWaitsIsNotTold) {
    const std::string dead = "1 5 " + elsewhere(1) + "\nlaunch 'theirs'";
    int looks = 0;
    for (const std::string &trace : {dead, std::string("1 5 nonsense\n"), std::string(500, '7')}) {
        put(store_, job_ + "named", trace);
        const Created made = create(Hooked{store_,
                                           [&](const std::string &verb, const std::string &key) {
                                               looks += verb == "get" && key == job_ + "named";
                                               return Deed::kDo;
                                           }},
                                    job_of(2, 800), 0);
        EXPECT_EQ(made.status, GCOLL_ERR_TIMEOUT) << made.text;
        EXPECT_TRUE(contains(made.text, "1 of 2 ranks did not join within 800 ms: 1")) << made.text;
        EXPECT_FALSE(contains(made.text, "waited too")) << made.text;
    }
    EXPECT_GE(looks, 4) << "too few to tell whether it changes";
}

// One that changes is told, though nobody here can see its process.
TEST_F(Elsewhere, ATraceFromAnotherHostIsTold) {
    std::atomic<int> beat{0};
    const Created made = create(Hooked{store_,
                                       [&](const std::string &verb, const std::string &key) {
                                           if (verb == "get" && key == job_ + "named")
                                               put(store_, key,
                                                   "1 " + std::to_string(++beat) + " " + elsewhere(1) +
                                                       "\nlaunch 'th\x1b[irs'");
                                           return Deed::kDo;
                                       }},
                                job_of(2, 1000), 0);
    EXPECT_GE(beat, 2);
    EXPECT_TRUE(
        contains(made.text, "; rank 1 of launch 'th?[irs', process 7 on host 'elsewhere', waited too: "))
        << made.text;
}

// Ranks that soon meet do not ask for traces, nor for notes of refused processes.
TEST_F(Elsewhere, RanksThatDoNotWaitLongLeaveNoTrace) {
    std::atomic<int> traces{0};
    Created made[2];
    const auto joins = [&](uint32_t rank) {
        made[rank] = create(Hooked{store_,
                                   [&](const std::string &, const std::string &key) {
                                       traces += contains(key, "named") || contains(key, "refused");
                                       return Deed::kDo;
                                   }},
                            job_of(2), rank);
    };
    std::thread other([&] { joins(1); });
    joins(0);
    other.join();
    for (const Created &each : made)
        EXPECT_EQ(each.status, GCOLL_OK) << each.text;
    EXPECT_EQ(traces, 0);
}

// The store fails slowly to remove a trace, for which it gets little time. That is no reason to ask it
// nothing more: a rank that cannot join then still tells the others why.
TEST_F(Elsewhere, ATraceThatIsRemovedSlowlyKeepsNoReasonBack) {
    Alive lead(store_, generation_ + "alive.0");
    int removes = 0;
    const Created made =
        create(Hooked{store_,
                      [&](const std::string &verb, const std::string &key) {
                          if (key != job_ + "unnamed" || (verb != "set" && verb != "remove"))
                              return Deed::kDo;
                          if (verb == "set") { // this rank has waited for long
                              put(store_, job_ + "launch", kGeneration + " 3 " + elsewhere(1));
                              return Deed::kDo;
                          }
                          removes++;
                          std::this_thread::sleep_for(std::chrono::milliseconds(230));
                          return Deed::kFail;
                      }},
               job_of(2), 1);
    EXPECT_EQ(made.status, GCOLL_ERR_MISMATCH) << made.text;
    EXPECT_EQ(removes, 1);
    const std::string verdict = get(store_, generation_ + "go");
    EXPECT_TRUE(contains(verdict, "rank 1 could not join: options.size: is 2 on rank 1, but 3 on rank 0"))
        << verdict;
}

TEST(Identity, IsNotTooLong) {
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_memory_create(&store));
    const std::string name(256, 'x');
    Job job = job_of(4, 20);
    job.adjust = [&](uint32_t, gcoll_context_options *options) { options->launch = name.c_str(); };
    const Created made = create(store, job, 1);
    EXPECT_EQ(made.status, GCOLL_ERR_INVALID);
    EXPECT_TRUE(contains(made.text, "options.launch: has 256 bytes")) << made.text;
    gcoll_store_destroy(store);
}

} // namespace
