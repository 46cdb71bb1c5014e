// test/core/rendezvous_test.cc - tests of the rendezvous: missing ranks are named, keys of earlier runs do no
// harm, and no key remains.
#include "test/kit/harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace {

using gcoll_test::await;
using gcoll_test::Folder;
using gcoll_test::Job;
using gcoll_test::NoLaunch;
using gcoll_test::Processes;
using gcoll_test::Shared;
using gcoll_test::told;
using Flag = std::atomic<uint32_t>;

gcoll_store *open_store(const std::string &url) {
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_open(url.c_str(), 10000, &store));
    return store;
}

void use(gcoll_context *context) {
    uint32_t size = gcoll_context_size(context);
    uint64_t word = gcoll_context_rank(context);
    EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, &word, 1, GCOLL_UINT64, GCOLL_SUM, nullptr));
    EXPECT_EQ(word, size * (size - 1) / 2);
}

// Runs a whole rank: it joins, works and leaves.
int life(gcoll_store *store, const Job &job, uint32_t rank) {
    gcoll_context *context = gcoll_test::join(store, job, rank);
    if (!context)
        return gcoll_test::kFailed;
    use(context);
    gcoll_context_destroy(context);
    return 0;
}

int life(const Folder &folder, const Job &job, uint32_t rank) {
    gcoll_store *store = open_store(folder.url());
    int code = life(store, job, rank);
    gcoll_store_destroy(store);
    return code;
}

Job job_of(uint32_t size, const char *name = nullptr, int64_t timeout_ms = 20000) {
    Job job;
    job.size = size;
    job.name = name;
    job.transport = "tcp";
    job.timeout_ms = timeout_ms;
    return job;
}

// ---- Somebody is missing ----------------------------------------------------------------------------------

struct Timed {
    gcoll_status status;
    std::string text;
    int64_t ms; // since before the first of them began: rank 0 tells the others when its own time is over
};

// Creates contexts for the ranks that are there, in threads. Returns the error that each got.
std::vector<Timed> create_without(const Job &job, const std::vector<uint32_t> &ranks, gcoll_store *store) {
    std::vector<Timed> results(ranks.size());
    std::vector<std::thread> threads;
    const int64_t before = gcoll_test::now_ms();
    for (size_t k = 0; k < ranks.size(); k++)
        threads.emplace_back([&, k] {
            gcoll_context_options options = gcoll_test::options_of(job, ranks[k], store, nullptr);
            gcoll_context *context = nullptr;
            gcoll_status status = gcoll_context_create(&options, &context);
            results[k] = {status, gcoll_last_error(), gcoll_test::now_ms() - before};
            EXPECT_EQ(context, nullptr);
        });
    for (std::thread &thread : threads)
        thread.join();
    return results;
}

TEST(Missing, AllNameTheSameRanks) {
    gcoll_test::Watchdog watchdog(60);
    gcoll_store *store = nullptr;
    ASSERT_GCOLL_OK(gcoll_store_memory_create(&store));
    for (const Timed &result : create_without(job_of(6, "m", 700), {0, 1, 4, 5}, store)) {
        EXPECT_EQ(result.status, GCOLL_ERR_TIMEOUT) << result.text;
        EXPECT_NE(result.text.find("2 of 6"), std::string::npos) << result.text;
        EXPECT_NE(result.text.find("2, 3"), std::string::npos) << result.text;
        EXPECT_NE(result.text.find("'m'"), std::string::npos) << result.text;
        EXPECT_GE(result.ms, 690);
        EXPECT_LT(result.ms, 700 + 1000);
    }
    gcoll_store_destroy(store);
}

// A rank that was started with another size is named by itself and by all others. No rank continues.
TEST(Missing, RanksOfAnotherSizeAreNamed) {
    gcoll_test::Watchdog watchdog(60);
    for (const std::vector<uint32_t> &sizes :
         {std::vector<uint32_t>{4, 3, 4, 4}, {4, 4, 4, 5}, {3, 2, 3}, {2, 3}, {5, 5, 5, 6, 5}}) {
        gcoll_store *store = nullptr;
        ASSERT_GCOLL_OK(gcoll_store_memory_create(&store));
        std::vector<Timed> results(sizes.size());
        std::vector<std::thread> threads;
        for (uint32_t rank = 0; rank < sizes.size(); rank++)
            threads.emplace_back([&, rank] {
                gcoll_context_options options =
                    gcoll_test::options_of(job_of(sizes[rank], "sizes", 8000), rank, store, nullptr);
                gcoll_context *context = nullptr;
                results[rank].status = gcoll_context_create(&options, &context);
                results[rank].text = gcoll_last_error();
                EXPECT_EQ(context, nullptr);
            });
        for (std::thread &thread : threads)
            thread.join();
        for (uint32_t rank = 0; rank < sizes.size(); rank++) {
            EXPECT_EQ(results[rank].status, sizes[rank] == sizes[0] ? GCOLL_ERR_PEER : GCOLL_ERR_MISMATCH)
                << "rank " << rank << " of " << sizes[rank] << ": " << results[rank].text;
            EXPECT_NE(results[rank].text.find("options.size"), std::string::npos) << results[rank].text;
        }
        gcoll_store_destroy(store);
    }
}

TEST(Missing, RankZeroToo) {
    gcoll_test::Watchdog watchdog(60);
    gcoll_store *store = nullptr;
    ASSERT_GCOLL_OK(gcoll_store_memory_create(&store));
    for (const Timed &result : create_without(job_of(3, nullptr, 300), {1, 2}, store)) {
        EXPECT_EQ(result.status, GCOLL_ERR_TIMEOUT);
        EXPECT_NE(result.text.find("rank 0"), std::string::npos) << result.text;
        EXPECT_LT(result.ms, 300 + 700);
    }
    gcoll_store_destroy(store);
}

TEST(Missing, TheNextAttemptSucceeds) {
    gcoll_test::Watchdog watchdog(60);
    Folder folder;
    {
        gcoll_store *store = open_store(folder.url());
        for (const Timed &result : create_without(job_of(3, "again", 300), {0}, store))
            EXPECT_EQ(result.status, GCOLL_ERR_TIMEOUT);
        for (const Timed &result : create_without(job_of(3, "again", 300), {2}, store))
            EXPECT_EQ(result.status, GCOLL_ERR_TIMEOUT);
        gcoll_store_destroy(store);
    }
    Processes ranks(3, [&](uint32_t rank) { return life(folder, job_of(3, "again"), rank); });
    ranks.expect_success(20000);
}

// ---- Leftovers
// ----------------------------------------------------------------------------------------------

// Moments at which all ranks of a run are killed.
enum Moment { kWaitingForRankZero, kWaitingForTheLast, kWorking };

void crash(const Folder &folder, const Job &job, Moment moment) {
    Shared<Flag> reached;
    uint32_t there = moment == kWorking ? job.size : job.size - 1;
    uint32_t first = moment == kWaitingForRankZero ? 1 : 0;
    Processes ranks(there, [&](uint32_t index) {
        gcoll_store *store = open_store(folder.url());
        if (moment != kWorking)
            ++*reached;
        gcoll_context *context = gcoll_test::join(store, job, first + index);
        use(context);
        ++*reached;
        for (;;)
            pause();
        return 0;
    });
    EXPECT_TRUE(await(*reached, there));
    int64_t end = gcoll_test::now_ms() + 10000;
    while (moment == kWaitingForTheLast && folder.files().size() < there && gcoll_test::now_ms() < end)
        usleep(1000); // until each has left its mark
    for (uint32_t index = 0; index < there; index++)
        ranks.signal(index, SIGKILL);
    for (uint32_t index = 0; index < there; index++)
        EXPECT_EQ(ranks.wait(index, 5000).signal, SIGKILL);
}

TEST(Leftovers, OfKilledRunsHarmNobody) {
    Folder folder;
    bool leaves = false;
    for (Moment moment : {kWaitingForRankZero, kWaitingForTheLast, kWorking, kWaitingForRankZero, kWorking}) {
        crash(folder, job_of(4, "same"), moment);
        leaves = leaves || moment != kWaitingForRankZero; // who only waits has claimed nothing
        EXPECT_EQ(folder.files().empty(), !leaves);
        Processes ranks(4, [&](uint32_t rank) { return life(folder, job_of(4, "same"), rank); });
        ranks.expect_success(20000);
    }
}

// Keys of an earlier run, and worse ones.
TEST(Leftovers, ForgedKeysHarmNobody) {
    NoLaunch no_launch;
    Folder folder;
    gcoll_store *store = open_store(folder.url());
    const char *nonce = "00112233445566778899aabbccddeeff";
    const std::string old = "ffffffffffffffffffffffffffffffff";
    const std::string dead = "0123456789abcdef 7 7 7 0000000000000007 0 elsewhere";
    std::map<std::string, std::string> keys;
    for (int rank = 0; rank < 4; rank++) {
        keys["gcoll/default/join." + std::to_string(rank)] = nonce; // of an earlier version
        keys["gcoll/default/" + old + "/rank." + std::to_string(rank)] = dead;
        keys["gcoll/default/" + old + "/addr." + std::to_string(rank)] = "tcp1;host=0;port=1 0 0 " + dead;
    }
    keys["gcoll/default/launch"] = old + " 4 " + dead; // of a host that is gone
    keys["gcoll/default/" + old + "/here"] = "4";
    keys["gcoll/default/" + old + "/go"] = "go";
    for (const auto &key : keys)
        ASSERT_GCOLL_OK(gcoll_store_set(store, key.first.c_str(), key.second.data(), key.second.size()));
    Processes ranks(4, [&](uint32_t rank) { return life(folder, job_of(4), rank); });
    ranks.expect_success(20000);
    gcoll_store_destroy(store);
}

// A rank crashes after it has published its address, and comes back before all ranks are there. It counts as
// one rank of its host.
TEST(Leftovers, ARankThatStartsAgainIsCountedOnce) {
    Folder folder;
    Job job = job_of(3, "reborn");
    job.adjust = [](uint32_t, gcoll_context_options *options) { options->tuning = "default"; };
    const auto counts = [&](uint32_t rank) {
        gcoll_store *store = open_store(folder.url());
        gcoll_context *context = gcoll_test::join(store, job, rank);
        char text[512] = "";
        EXPECT_GCOLL_OK(gcoll_context_tuning(context, text, sizeof text));
        EXPECT_NE(strstr(text, "ranks=3 local=3\n"), nullptr) << text;
        use(context);
        gcoll_context_destroy(context);
        gcoll_store_destroy(store);
        return 0;
    };
    // Returns the address of rank 1 in the store.
    const auto address = [&] {
        const std::string end = "+addr.1";
        std::stringstream text;
        for (const std::string &name : folder.files())
            if (name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0)
                text << std::ifstream(folder.path() + "/" + name).rdbuf();
        return text.str();
    };
    const auto await_other = [&](const std::string &than) { // an empty one is none
        for (int64_t end = gcoll_test::now_ms() + 10000; gcoll_test::now_ms() < end; usleep(1000))
            if (std::string now = address(); !now.empty() && now != than)
                return now;
        return than;
    };
    Processes early(2, counts);
    const std::string first = await_other("");
    EXPECT_FALSE(first.empty());
    early.signal(1, SIGKILL);
    EXPECT_EQ(early.wait(1, 5000).signal, SIGKILL);
    Processes reborn(1, [&](uint32_t) { return counts(1); });
    EXPECT_NE(await_other(first), first);
    Processes last(1, [&](uint32_t) { return counts(2); });
    reborn.expect_success(20000);
    last.expect_success(20000);
    EXPECT_EQ(early.wait(0, 5000).code, 0);
    EXPECT_TRUE(folder.files().empty());
}

TEST(Leftovers, AnotherProgramsValueIsNamed) {
    NoLaunch no_launch;
    Folder folder;
    gcoll_store *store = open_store(folder.url());
    ASSERT_GCOLL_OK(gcoll_store_set(store, "gcoll/default/launch", "hello", 5));
    gcoll_context_options options = gcoll_test::options_of(job_of(2, nullptr, 500), 0, store, nullptr);
    gcoll_context *context = nullptr;
    gcoll_status status = gcoll_context_create(&options, &context);
    EXPECT_EQ(status, GCOLL_ERR_PROTOCOL) << told(status);
    EXPECT_NE(std::string(gcoll_last_error()).find("launch"), std::string::npos) << gcoll_last_error();
    gcoll_store_destroy(store);
}

// ---- Again and again, and side by side ------------------------------------------------------------------

TEST(Rendezvous, TheSameJobTenTimesInARow) {
    gcoll_test::run_processes(
        4, 30000,
        [](uint32_t rank, gcoll_store *store) {
            for (int repeat = 0; repeat < 10; repeat++)
                if (life(store, job_of(4, "once-more"), rank) != 0)
                    return gcoll_test::kFailed;
            return 0;
        });
}

TEST(Rendezvous, TwoJobsOnOneStore) {
    gcoll_test::run_processes(
        6, 30000,
        [](uint32_t rank, gcoll_store *store) {
            return life(store, job_of(3, rank < 3 ? "left" : "left.right"), rank % 3);
        });
}

TEST(Rendezvous, RanksThatComeLate) {
    Shared<Flag> come;
    gcoll_test::run_processes(4, 30000, [&](uint32_t rank, gcoll_store *store) {
        // one after another, and rank 0 last
        uint32_t turn = rank == 0 ? 3 : rank - 1;
        EXPECT_TRUE(await(*come, turn));
        ++*come;
        return life(store, job_of(4), rank);
    });
}

TEST(Rendezvous, StoreMayBeUsedByTheCallerToo) {
    gcoll_test::run_processes(
        3, 30000,
        [](uint32_t rank, gcoll_store *store) {
            gcoll_store *view = nullptr;
            EXPECT_GCOLL_OK(gcoll_store_prefix_create(store, "mine/and-only", &view));
            int code = life(view, job_of(3), rank);
            gcoll_store_destroy(view);
            return code;
        });
}

// ---- Redis
// --------------------------------------------------------------------------------------------------

// A redis-server at a free port; without a URL if redis-server is not installed.
class RedisServer {
  public:
    RedisServer() {
        std::string port = free_port();
        pid_ = fork();
        if (pid_ == 0) {
            std::string log = folder_.path() + "/log";
            execlp("redis-server", "redis-server", "--port", port.c_str(), "--bind", "127.0.0.1", "--save",
                   "", "--dir", folder_.path().c_str(), "--logfile", log.c_str(),
                   static_cast<char *>(nullptr));
            _exit(127);
        }
        std::string url = "redis://127.0.0.1:" + port;
        for (int64_t end = gcoll_test::now_ms() + 10000; gcoll_test::now_ms() < end; usleep(10000)) {
            gcoll_store *store = nullptr;
            if (gcoll_store_open(url.c_str(), 1000, &store) == GCOLL_OK) {
                gcoll_store_destroy(store);
                url_ = url;
                return;
            }
        }
    }
    ~RedisServer() {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    const std::string &url() const { return url_; }

  private:
    // The port is closed again before the server takes it. The kernel hands out other ports first.
    static std::string free_port();
    Folder folder_;
    pid_t pid_ = -1;
    std::string url_;
};

std::string RedisServer::free_port() {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr *>(&address), length), 0);
    EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr *>(&address), &length), 0);
    close(fd);
    return std::to_string(ntohs(address.sin_port));
}

TEST(Rendezvous, OverRedis) {
    if (system("command -v redis-server > /dev/null 2>&1") != 0)
        GTEST_SKIP() << "redis-server is not installed";
    RedisServer server;
    ASSERT_FALSE(server.url().empty()) << "redis-server did not start";
    Processes ranks(4, [&](uint32_t rank) {
        gcoll_store *store = open_store(server.url());
        int code = 0;
        for (int repeat = 0; repeat < 5 && code == 0; repeat++)
            code = life(store, job_of(4, "red"), rank);
        gcoll_store_destroy(store);
        return code;
    });
    ranks.expect_success(30000);
}

} // namespace
