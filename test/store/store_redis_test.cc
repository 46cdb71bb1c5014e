// test/store/store_redis_test.cc - tests of the Redis store: login, lost connections, and servers that fail
// in every way.
#include "test/kit/certificates.h"
#include "test/store/store_support.h"

#include <mutex>

using namespace store_support;

namespace {

class StoreRedis : public testing::Test {
  protected:
    void SetUp() override {
        if (!RedisServer::installed())
            GTEST_SKIP() << "redis-server is not installed";
    }
    // Expects that opening fails in time with `status` and a text that has each of `words`, but not the
    // password.
    static void refuses(const std::string &url, gcoll_status status, const std::vector<std::string> &words,
                        int64_t timeout_ms = 2000) {
        gcoll_store *store = nullptr;
        auto began = Clock::now();
        EXPECT_EQ(gcoll_store_open(url.c_str(), timeout_ms, &store), status) << gcoll_last_error();
        EXPECT_LT(ms_since(began), static_cast<double>(timeout_ms) + kLateMs);
        for (const std::string &word : words)
            EXPECT_TRUE(last_error_has(word)) << word << " is not in: " << gcoll_last_error();
        EXPECT_FALSE(last_error_has("hunter2")) << gcoll_last_error();
        EXPECT_EQ(store, nullptr);
    }
    static bool has_word(const std::string &request, const std::string &word) {
        return request.find(word) != std::string::npos;
    }
};

TEST_F(StoreRedis, AServerThatIsDownIsNamedAtOnce) {
    std::string name = "127.0.0.1:" + std::to_string(closed_port());
    auto began = Clock::now();
    refuses("redis://" + name, GCOLL_ERR_IO, {name, strerror(ECONNREFUSED)}, 20000);
    EXPECT_LT(ms_since(began), kLateMs);
}

TEST_F(StoreRedis, ANameThatDoesNotResolveEndsInTime) {
    gcoll_store *store = nullptr;
    auto began = Clock::now();
    gcoll_status status = gcoll_store_open("redis://no-such-host.invalid:7777", 400, &store);
    EXPECT_TRUE(status == GCOLL_ERR_IO || status == GCOLL_ERR_TIMEOUT);
    EXPECT_LT(ms_since(began), 400 + kLateMs);
    EXPECT_TRUE(last_error_has("no-such-host.invalid:7777")) << gcoll_last_error();
}

TEST_F(StoreRedis, NamesResolve) {
    RedisServer server;
    ASSERT_TRUE(server.running());
    Store store = open_store("redis://localhost:" + std::to_string(server.port()) + "/");
    EXPECT_EQ(set(store.get(), "k", "v"), GCOLL_OK);
    EXPECT_NE(server.ask("GET k").find("v"), std::string::npos) << "values are plain strings";
}

TEST_F(StoreRedis, PasswordsAreCheckedAndNeverShown) {
    RedisServer server({"--requirepass", "hunter2@/:%"});
    ASSERT_TRUE(server.running());
    Store store = open_store(server.url(":hunter2%40%2F%3a%25@"));
    EXPECT_EQ(set(store.get(), "k", "v"), GCOLL_OK);
    EXPECT_EQ(get(open_store(server.url("default:hunter2%40%2f%3A%25@")).get(), "k"), "v");
    refuses(server.url(":hunter2@"), GCOLL_ERR_IO, {server.name(), "WRONGPASS"});
    refuses(server.url("default:hunter2x@"), GCOLL_ERR_IO, {server.name(), "WRONGPASS"});
    refuses(server.url("nobody:hunter2%40%2F%3a%25@"), GCOLL_ERR_IO, {server.name(), "WRONGPASS"});
    refuses(server.url(), GCOLL_ERR_IO, {server.name(), "NOAUTH"});
}

TEST_F(StoreRedis, UsersOfAnAccessListLogIn) {
    RedisServer server({"--user", "alice", "on", ">hunter2", "~job/*", "+@all"});
    ASSERT_TRUE(server.running());
    Store store = open_store(server.url("alice:hunter2@"));
    int64_t sum = 0;
    EXPECT_EQ(set(store.get(), "job/k", "v"), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(gcoll_store_add(store.get(), "job/n", 2, &sum), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(gcoll_store_wait(store.get(), "job/n", 100), GCOLL_OK);
    EXPECT_EQ(set(store.get(), "else/k", "v"), GCOLL_ERR_IO);
    EXPECT_TRUE(last_error_has("NOPERM") && last_error_has("else/k")) << gcoll_last_error();
    refuses(server.url("alice:wrong@"), GCOLL_ERR_IO, {"WRONGPASS"});
}

// Some servers quote the words of a command that they do not know.
TEST_F(StoreRedis, APasswordThatTheServerQuotesIsNotShown) {
    FakeServer server([](int fd, int) {
        FakeServer::converse(
            fd,
            [](const std::string &) {
                return std::string(
                    "-ERR unknown command 'AUTH', with args beginning with: 'me' 'hunter2-and-mo");
            });
    });
    FakeServer whole([](int fd, int) {
        FakeServer::converse(fd, [](const std::string &) {
            return std::string(
                "-ERR unknown command 'AUTH', with args beginning with: 'me' 'hunter2-and'\r\n");
        });
    });
    refuses("redis://me:hunter2-and-more@" + server.name(), GCOLL_ERR_TIMEOUT, {server.name()}, 200);
    refuses("redis://me:hunter2-and-more@" + whole.name(), GCOLL_ERR_IO, {whole.name(), "ERR"}, 2000);
}

TEST_F(StoreRedis, DatabasesAreApart) {
    RedisServer server;
    ASSERT_TRUE(server.running());
    Store zero = open_store(server.url()), one = open_store(server.url("", "/1"));
    EXPECT_EQ(set(zero.get(), "k", "zero"), GCOLL_OK);
    EXPECT_EQ(get(one.get(), "k"), "<not found>");
    EXPECT_EQ(set(one.get(), "k", "one"), GCOLL_OK);
    EXPECT_EQ(get(open_store(server.url("", "/0")).get(), "k"), "zero");
    ASSERT_TRUE(server.restart());
    EXPECT_EQ(set(one.get(), "k", "one"), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(get(zero.get(), "k"), "<not found>") << "a new connection must choose the database again";
    refuses(server.url("", "/99"), GCOLL_ERR_IO, {server.name(), "99", "out of range"});
}

TEST_F(StoreRedis, WaitersBlockInTheServerAndOneSetWakesThemAll) {
    constexpr int kWaiters = 20;
    RedisServer server;
    ASSERT_TRUE(server.running());
    std::atomic<int> woken{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kWaiters; i++)
        threads.emplace_back([&] {
            Store store = open_store(server.url());
            woken += gcoll_store_wait(store.get(), "go", 20000) == GCOLL_OK;
        });
    auto began = Clock::now();
    while (server.ask("INFO clients").find("blocked_clients:20\r") == std::string::npos)
        ASSERT_LT(ms_since(began), 10000);
    Store store = open_store(server.url());
    EXPECT_EQ(set(store.get(), "go", "x"), GCOLL_OK);
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(woken, kWaiters);
    EXPECT_EQ(get(store.get(), "go"), "x");
    std::string counts = server.ask("INFO commandstats");
    EXPECT_NE(counts.find("cmdstat_brpoplpush:calls=20,"), std::string::npos) << "they polled: " << counts;
    EXPECT_EQ(gcoll_store_remove(store.get(), "go"), GCOLL_OK);
    EXPECT_EQ(server.ask("DBSIZE"), ":0\r\n");
}

TEST_F(StoreRedis, AWaitOutlivesARestart) {
    RedisServer server;
    ASSERT_TRUE(server.running());
    gcoll_status status = GCOLL_ERR_INTERNAL;
    std::thread waiter([&] {
        Store store = open_store(server.url());
        status = gcoll_store_wait(store.get(), "go", 20000);
    });
    auto began = Clock::now();
    while (server.ask("INFO clients").find("blocked_clients:1\r") == std::string::npos)
        ASSERT_LT(ms_since(began), 10000);
    ASSERT_TRUE(server.restart());
    EXPECT_EQ(set(open_store(server.url()).get(), "go", "x"), GCOLL_OK);
    waiter.join();
    EXPECT_EQ(status, GCOLL_OK);
}

TEST_F(StoreRedis, AnIdleConnectionThatWasLostIsMadeAnew) {
    RedisServer server;
    ASSERT_TRUE(server.running());
    Store store = open_store(server.url());
    int64_t sum = 0;
    for (int round = 0; round < 2; round++) {
        ASSERT_TRUE(server.restart());
        EXPECT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_OK) << gcoll_last_error();
        EXPECT_EQ(sum, 1);
        ASSERT_TRUE(server.restart());
        EXPECT_EQ(set(store.get(), "k", "v"), GCOLL_OK) << gcoll_last_error();
        EXPECT_EQ(get(store.get(), "k"), "v");
    }
}

TEST_F(StoreRedis, AServerThatStaysAwayEndsRequestsInTime) {
    RedisServer server;
    ASSERT_TRUE(server.running());
    Store store = open_store(server.url(), 250);
    server.stop();
    int64_t sum;
    for (int i = 0; i < 4; i++) {
        auto began = Clock::now();
        gcoll_status status = i == 0   ? set(store.get(), "the-key", "v")
                              : i == 1 ? gcoll_store_add(store.get(), "the-key", 1, &sum)
                              : i == 2 ? gcoll_store_remove(store.get(), "the-key")
                                       : gcoll_store_wait(store.get(), "the-key", 100);
        EXPECT_EQ(status, GCOLL_ERR_IO);
        EXPECT_LT(ms_since(began), 350 + kLateMs);
        EXPECT_TRUE(last_error_has(server.name()) && last_error_has("the-key")) << gcoll_last_error();
        EXPECT_FALSE(last_error_has("unknown")) << "an add that was never sent has a known outcome";
    }
}

// The server is frozen, so the add may or may not happen later.
TEST_F(StoreRedis, AFrozenServerEndsRequestsInTime) {
    RedisServer server;
    ASSERT_TRUE(server.running());
    Store store = open_store(server.url(), 200);
    ASSERT_EQ(kill(server.pid(), SIGSTOP), 0);
    int64_t sum = 55;
    auto began = Clock::now();
    EXPECT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_ERR_TIMEOUT);
    EXPECT_TRUE(last_error_has("outcome is unknown")) << gcoll_last_error();
    EXPECT_EQ(sum, 55);
    EXPECT_LT(ms_since(began), 200 + kLateMs);
    began = Clock::now();
    EXPECT_EQ(gcoll_store_wait(store.get(), "n", 100), GCOLL_ERR_TIMEOUT);
    EXPECT_LT(ms_since(began), 300 + kLateMs);
    kill(server.pid(), SIGCONT);
    EXPECT_EQ(set(store.get(), "k", "v"), GCOLL_OK) << gcoll_last_error();
}

TEST_F(StoreRedis, AnAddIsSentOnceAndASetAgain) {
    std::mutex lock;
    int adds = 0, sets = 0;
    FakeServer server([&](int fd, int) {
        FakeServer::converse(fd, [&](const std::string &request) -> std::string {
            std::lock_guard<std::mutex> guard(lock);
            if (has_word(request, "PING"))
                return "+PONG\r\n";
            if (has_word(request, "INCRBY")) {
                adds++;
                return ""; // the connection ends after the request
            }
            return ++sets < 3 ? "" : ":1\r\n";
        });
    });
    Store store = open_store(server.url(), 5000);
    int64_t sum = 55;
    EXPECT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_ERR_IO);
    EXPECT_TRUE(last_error_has("outcome is unknown") && last_error_has("\"n\"")) << gcoll_last_error();
    EXPECT_EQ(sum, 55);
    EXPECT_EQ(set(store.get(), "k", "v"), GCOLL_OK) << gcoll_last_error();
    std::lock_guard<std::mutex> guard(lock);
    EXPECT_EQ(adds, 1);
    EXPECT_EQ(sets, 3);
}

TEST_F(StoreRedis, AServerThatLoadsItsDataIsWaitedFor) {
    std::atomic<int> answers{0};
    FakeServer server([&](int fd, int) {
        FakeServer::converse(fd, [&](const std::string &) -> std::string {
            return ++answers % 3 != 0 ? "-LOADING Redis is loading the dataset in memory\r\n"
                   : answers == 3     ? "+PONG\r\n"
                                      : "$1\r\n7\r\n";
        });
    });
    Store store = open_store(server.url(), 5000);
    int64_t sum = 0;
    EXPECT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(sum, 7);
    EXPECT_EQ(answers, 6);
}

// Before Redis 6 a blocking command takes whole seconds only.
TEST_F(StoreRedis, AnOldServersWholeSecondsDoNotMakeAWaitLate) {
    FakeServer server([&](int fd, int) {
        FakeServer::converse(fd, [&](const std::string &request) -> std::string {
            if (has_word(request, "PING"))
                return "+PONG\r\n";
            if (has_word(request, "EXISTS"))
                return ":0\r\n";
            if (has_word(request, "0.1"))
                return "-ERR timeout is not an integer or out of range\r\n";
            char byte; // blocks for a second, or until the client hangs up
            return recv(fd, &byte, 1, 0) <= 0 ? "" : "+never\r\n";
        });
    });
    Store store = open_store(server.url(), 5000);
    for (int i = 0; i < 2; i++) {
        auto began = Clock::now();
        EXPECT_EQ(gcoll_store_wait(store.get(), "k", 150), GCOLL_ERR_TIMEOUT) << gcoll_last_error();
        EXPECT_GE(ms_since(began), 150);
        EXPECT_LT(ms_since(began), 150 + kLateMs);
        EXPECT_TRUE(last_error_has("not set within 150 ms")) << gcoll_last_error();
    }
}

TEST_F(StoreRedis, NonsenseIsRefusedInTime) {
    for (const std::string &answer :
         {std::string("HTTP/1.1 400 Bad Request\r\n\r\n"), std::string("*2147483647\r\n"),
          std::string("*1\r\n*2147483647\r\n"), std::string("$99999999999999999999\r\n"),
          std::string("$-7\r\n"), std::string("$x\r\n"), std::string("\0\0\0\0", 4), std::string(":12x\r\n"),
          std::string("+PONG\r\n+PONG\r\n"), std::string("$3\r\nabc\r\n"),
          std::string("-") + std::string(200000, '\x1b') + "\r\n", std::string("-\x1b[2J\r\n"),
          std::string("$70000000\r\n") + std::string(200000, 'x')}) {
        FakeServer server(
            [&](int fd, int) { FakeServer::converse(fd, [&](const std::string &) { return answer; }); });
        gcoll_store *store = nullptr;
        auto began = Clock::now();
        gcoll_status status = gcoll_store_open(server.url().c_str(), 3000, &store);
        EXPECT_TRUE(status == GCOLL_ERR_PROTOCOL || status == GCOLL_ERR_IO) << status << gcoll_last_error();
        EXPECT_LT(ms_since(began), 1500) << answer.substr(0, 20);
        EXPECT_TRUE(last_error_has(server.name())) << gcoll_last_error();
        EXPECT_EQ(strchr(gcoll_last_error(), '\x1b'), nullptr);
    }
}

TEST_F(StoreRedis, WrongAnswersToRequestsAreRefused) {
    std::mutex lock;
    std::string answer; // guarded by lock
    FakeServer server([&](int fd, int) {
        FakeServer::converse(fd, [&](const std::string &request) -> std::string {
            std::lock_guard<std::mutex> guard(lock);
            return has_word(request, "PING") ? "+PONG\r\n" : answer;
        });
    });
    for (const char *text : {"+OK\r\n", "*-1\r\n", "$-1\r\n", ":5\r\n", "$3\r\nabc\r\n", "$0\r\n\r\n"}) {
        {
            std::lock_guard<std::mutex> guard(lock);
            answer = text;
        }
        std::string shape(text);
        Store store = open_store(server.url(), 300);
        char room[2];
        size_t bytes = 9;
        int64_t sum = 9;
        bool empty = shape[1] == '0'; // the one value that fits the room
        EXPECT_EQ(gcoll_store_get(store.get(), "k", room, sizeof room, &bytes) == GCOLL_OK, empty) << text;
        EXPECT_EQ(bytes, empty ? 0u : 9u);
        EXPECT_NE(gcoll_store_add(store.get(), "k", 1, &sum), GCOLL_OK) << text;
        EXPECT_EQ(sum, 9);
        gcoll_status status = gcoll_store_remove(store.get(), "k");
        EXPECT_EQ(status, shape[0] == ':' ? GCOLL_OK : GCOLL_ERR_PROTOCOL) << text;
    }
}

TEST_F(StoreRedis, ASilentOrDrippingServerEndsInTime) {
    FakeServer silent([](int fd, int) {
        FakeServer::converse(fd, [fd](const std::string &) {
            char byte;
            (void)!recv(fd, &byte, 1, 0);
            return std::string();
        });
    });
    refuses(silent.url(), GCOLL_ERR_TIMEOUT, {silent.name(), "did not answer in time"}, 150);
    FakeServer dripping([](int fd, int) {
        pollfd item = {fd, POLLIN | POLLRDHUP, 0};
        for (char byte = '+'; send(fd, &byte, 1, MSG_NOSIGNAL) == 1; byte = 'a') {
            item.events = POLLRDHUP;
            if (poll(&item, 1, 10) > 0)
                return;
        }
    });
    refuses(dripping.url(), GCOLL_ERR_TIMEOUT, {dripping.name(), "did not answer in time"}, 150);
}

// ---- Deadlines of a handle ----

// Expects that each request ends in time, including the new connection that it makes.
void all_end_in(gcoll_store *store, int64_t timeout_ms) {
    int64_t sum;
    for (int i = 0; i < 7; i++) {
        auto began = Clock::now();
        const int64_t own_ms = i == 6 ? 100 : 0;
        gcoll_status status = i == 0   ? set(store, "k", "v")
                              : i == 1 ? gcoll_store_add(store, "k", 1, &sum)
                              : i == 2 ? gcoll_store_remove(store, "k")
                              : i == 3 ? gcoll_store_set_new(store, "k", "v", 1)
                              : i == 4 ? gcoll_store_keep(store, "k", 1000)
                                       : gcoll_store_wait(store, "k", own_ms);
        EXPECT_TRUE(status == GCOLL_ERR_TIMEOUT || status == GCOLL_ERR_IO) << i << ": " << gcoll_last_error();
        EXPECT_LT(ms_since(began), static_cast<double>(timeout_ms + own_ms) + kLateMs) << i;
    }
    auto began = Clock::now();
    EXPECT_EQ(get(store, "k")[0], '<');
    EXPECT_LT(ms_since(began), static_cast<double>(timeout_ms) + kLateMs);
}

TEST_F(StoreRedis, ATimeoutOfTheHandleBoundsRequestsToAFrozenServer) {
    RedisServer server;
    ASSERT_TRUE(server.running());
    Store store = open_store(server.url(), 60000);
    ASSERT_EQ(set(store.get(), "k", "5"), GCOLL_OK);
    ASSERT_EQ(kill(server.pid(), SIGSTOP), 0);
    ASSERT_EQ(gcoll_store_set_timeout(store.get(), 150), GCOLL_OK);
    all_end_in(store.get(), 150);
    gcoll_store *other = nullptr;
    auto began = Clock::now();
    EXPECT_EQ(gcoll_store_open(server.url().c_str(), 300, &other), GCOLL_ERR_TIMEOUT)
        << "it accepts, and is silent";
    EXPECT_GE(ms_since(began), 299);
    EXPECT_LT(ms_since(began), 300 + kLateMs);
    // The name has two addresses, which share the time. The server has at most one of them.
    began = Clock::now();
    EXPECT_NE(gcoll_store_open(("redis://localhost:" + std::to_string(server.port())).c_str(), 300, &other),
              GCOLL_OK);
    EXPECT_LT(ms_since(began), 300 + kLateMs);
    ASSERT_EQ(kill(server.pid(), SIGCONT), 0);
    ASSERT_EQ(gcoll_store_set_timeout(store.get(), -1), GCOLL_OK);
    EXPECT_EQ(set(store.get(), "again", "v"), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(get(store.get(), "again"), "v");
}

TEST_F(StoreRedis, ATimeoutOfTheHandleBoundsRequestsToADeadServer) {
    RedisServer server;
    ASSERT_TRUE(server.running());
    Store store = open_store(server.url(), 60000);
    ASSERT_EQ(set(store.get(), "k", "5"), GCOLL_OK);
    server.stop();
    ASSERT_EQ(gcoll_store_set_timeout(store.get(), 150), GCOLL_OK);
    all_end_in(store.get(), 150);
}

// Imitates a host that drops packets: nobody accepts, and the queue of the listener is full.
TEST_F(StoreRedis, ConnectingToWhatDropsPacketsEndsInTime) {
    uint16_t port;
    int listener = listen_any(&port);
    ASSERT_EQ(listen(listener, 0), 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    std::vector<int> crowd;
    for (bool full = false; !full && crowd.size() < 64;) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)!connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof address);
        pollfd item = {fd, POLLOUT, 0};
        full = poll(&item, 1, 100) == 0;
        crowd.push_back(fd);
    }
    ASSERT_LT(crowd.size(), 64u);
    gcoll_store *store = nullptr;
    auto began = Clock::now();
    EXPECT_EQ(gcoll_store_open(("redis://127.0.0.1:" + std::to_string(port)).c_str(), 300, &store),
              GCOLL_ERR_TIMEOUT)
        << gcoll_last_error();
    EXPECT_GE(ms_since(began), 299);
    EXPECT_LT(ms_since(began), 300 + kLateMs);
    for (int fd : crowd)
        close(fd);
    close(listener);
}

// ---- Claims and lifetimes ----

TEST_F(StoreRedis, ASetNewWhoseAnswerIsLostIsNotSentTwice) {
    std::atomic<int> asked{0};
    FakeServer server([&](int fd, int) {
        FakeServer::converse(fd, [&](const std::string &request) -> std::string {
            if (has_word(request, "PING"))
                return "+PONG\r\n";
            asked++;
            return "";
        });
    });
    Store store = open_store(server.url(), 5000);
    auto began = Clock::now();
    EXPECT_EQ(gcoll_store_set_new(store.get(), "the-key", "v", 1), GCOLL_ERR_IO);
    EXPECT_TRUE(last_error_has("unknown") && last_error_has("the-key")) << gcoll_last_error();
    EXPECT_EQ(asked, 1);
    EXPECT_LT(ms_since(began), kLateMs);
}

// Returns the server's lifetime of a key. The mark must have about the same lifetime, or neither has one.
int64_t lifetime(const RedisServer &server, const std::string &key) {
    std::string value = server.ask("PTTL " + key), mark = server.ask("PTTL " + key + "!");
    int64_t ms = atoll(value.c_str() + 1), other = atoll(mark.c_str() + 1);
    EXPECT_EQ(ms > 0, other > 0) << value << mark;
    EXPECT_LE(std::abs(ms - other), 5000);
    return ms;
}

TEST_F(StoreRedis, AKeptKeyEndsWithItsMark) {
    RedisServer server;
    ASSERT_TRUE(server.running());
    Store store = open_store(server.url());
    for (bool made_new : {false, true}) {
        ASSERT_EQ(made_new ? gcoll_store_set_new(store.get(), "k", "v", 1) : set(store.get(), "k", "v"),
                  GCOLL_OK);
        EXPECT_EQ(lifetime(server, "k"), -1) << "keys last, unless they are kept";
        ASSERT_EQ(gcoll_store_keep(store.get(), "k", 60000), GCOLL_OK);
        EXPECT_GT(lifetime(server, "k"), 30000);
        ASSERT_EQ(gcoll_store_keep(store.get(), "k", 50), GCOLL_OK);
        for (auto began = Clock::now(); get(store.get(), "k") == "v" && ms_since(began) < 10000;)
            std::this_thread::yield();
        EXPECT_EQ(get(store.get(), "k"), "<not found>");
        // The server gives the mark its lifetime a moment later: it may be there for a millisecond more.
        for (auto began = Clock::now(); server.ask("DBSIZE") != ":0\r\n" && ms_since(began) < 5000;)
            std::this_thread::yield();
        EXPECT_EQ(server.ask("DBSIZE"), ":0\r\n");
        EXPECT_EQ(gcoll_store_wait(store.get(), "k", 0), GCOLL_ERR_TIMEOUT);
        EXPECT_EQ(gcoll_store_keep(store.get(), "k", 1000), GCOLL_ERR_NOT_FOUND);
    }
}

// A kept key neither becomes permanent nor ends before its time, whatever request follows.
TEST_F(StoreRedis, AKeptKeyKeepsItsLifetime) {
    RedisServer server;
    ASSERT_TRUE(server.running());
    Store store = open_store(server.url());
    int64_t sum = 0;
    ASSERT_EQ(set(store.get(), "k", "1"), GCOLL_OK);
    ASSERT_EQ(gcoll_store_keep(store.get(), "k", 600000), GCOLL_OK);
    // Shortens the lifetime in the server, so that a request that starts it again shows.
    const auto nearly_over = [&] {
        ASSERT_EQ(server.ask("PEXPIRE k 60000"), ":1\r\n");
        ASSERT_EQ(server.ask("PEXPIRE k! 60000"), ":1\r\n");
    };
    nearly_over();
    ASSERT_EQ(set(store.get(), "k", "2"), GCOLL_OK);
    EXPECT_GT(lifetime(server, "k"), 300000) << "set";
    nearly_over();
    ASSERT_EQ(gcoll_store_add(store.get(), "k", 1, &sum), GCOLL_OK);
    EXPECT_EQ(sum, 3);
    EXPECT_GT(lifetime(server, "k"), 300000) << "add";
    ASSERT_EQ(gcoll_store_wait(store.get(), "k", 1000), GCOLL_OK);
    EXPECT_GT(lifetime(server, "k"), 300000) << "a wait moves the mark";
    EXPECT_EQ(gcoll_store_set_new(store.get(), "k", "x", 1), GCOLL_ERR_STATE);
    EXPECT_GT(lifetime(server, "k"), 300000) << "set_new";
    ASSERT_EQ(gcoll_store_remove(store.get(), "k"), GCOLL_OK);
    ASSERT_EQ(set(store.get(), "k", "1"), GCOLL_OK);
    EXPECT_EQ(lifetime(server, "k"), -1) << "removed, it begins without one";
    // This waiter blocks before the mark exists, and is served after the key has its lifetime.
    ASSERT_EQ(gcoll_store_keep(store.get(), "k", 600000), GCOLL_OK);
    ASSERT_EQ(server.ask("DEL k!"), ":1\r\n");
    std::thread waiter([&] {
        Store mine = open_store(server.url());
        EXPECT_EQ(gcoll_store_wait(mine.get(), "k", 20000), GCOLL_OK);
    });
    while (server.ask("INFO clients").find("blocked_clients:1") == std::string::npos)
        std::this_thread::yield();
    ASSERT_EQ(gcoll_store_keep(store.get(), "k", 600000), GCOLL_OK);
    waiter.join();
    EXPECT_GT(lifetime(server, "k"), 300000);
}

TEST_F(StoreRedis, ServersThatRefuseWritesSayWhy) {
    RedisServer full({"--maxmemory", "1", "--maxmemory-policy", "noeviction"});
    RedisServer replica({"--replicaof", "127.0.0.1", "1"});
    ASSERT_TRUE(full.running() && replica.running());
    for (const auto &[server, word] : {std::pair<RedisServer *, const char *>(&full, "OOM"),
                                       std::pair<RedisServer *, const char *>(&replica, "READONLY")}) {
        Store store = open_store(server->url());
        int64_t sum;
        auto began = Clock::now();
        EXPECT_EQ(set(store.get(), "the-key", "v"), GCOLL_ERR_IO);
        EXPECT_TRUE(last_error_has(word) && last_error_has(server->name()) && last_error_has("the-key"))
            << gcoll_last_error();
        EXPECT_EQ(gcoll_store_add(store.get(), "the-key", 1, &sum), GCOLL_ERR_IO);
        EXPECT_TRUE(last_error_has(word)) << gcoll_last_error();
        EXPECT_FALSE(last_error_has("unknown")) << gcoll_last_error();
        EXPECT_EQ(get(store.get(), "the-key"), "<not found>");
        EXPECT_LT(ms_since(began), kLateMs);
    }
}

TEST_F(StoreRedis, KeysOfAnotherProgramAreNotMistaken) {
    RedisServer server;
    ASSERT_TRUE(server.running());
    Store store = open_store(server.url());
    ASSERT_EQ(server.ask("LPUSH list x"), ":1\r\n");
    ASSERT_EQ(server.ask("SETRANGE long 69000 x"), ":69001\r\n");
    EXPECT_EQ(get(store.get(), "list"), "<input or output failed>");
    EXPECT_TRUE(last_error_has("WRONGTYPE") && last_error_has("\"list\"")) << gcoll_last_error();
    std::string text = get(store.get(), "long");
    EXPECT_EQ(text[0], '<') << text.size();
    EXPECT_EQ(set(store.get(), "list", "mine"), GCOLL_OK) << "a set replaces whatever is there";
    EXPECT_EQ(get(store.get(), "list"), "mine");
}

TEST_F(StoreRedis, AddsFromManyProcessesAreAtomic) {
    constexpr int kProcesses = 4, kAdds = 200;
    RedisServer server;
    ASSERT_TRUE(server.running());
    EXPECT_EQ(add_in_processes(kProcesses, server.url(), kAdds), kProcesses);
    EXPECT_EQ(get(open_store(server.url()).get(), "n"), std::to_string(3 * kProcesses * kAdds));
}

// ---- TLS ------------------------------------------------------------------------------------------------

class StoreRedisTls : public StoreRedis {
  protected:
    void SetUp() override {
        StoreRedis::SetUp();
        if (IsSkipped())
            return;
        gcoll_store *store = nullptr;
        if (gcoll_store_open("rediss://127.0.0.1:1", 1000, &store) == GCOLL_ERR_UNSUPPORTED)
            GTEST_SKIP() << gcoll_last_error();
        if (!gcoll_test::has_openssl())
            GTEST_SKIP() << "lacks the program openssl";
        // Without TLS the server does not know the option.
        if (!gcoll_test::shell(
                "(redis-server --port 0 --tls-auth-clients no | grep -q 'not listen anywhere')"))
            GTEST_SKIP() << "redis-server has no TLS";
        for (const char *name : {"GCOLL_REDIS_CA", "GCOLL_REDIS_CERTIFICATE", "GCOLL_REDIS_KEY"})
            unsetenv(name);
        ASSERT_TRUE(authority.issue("server", "IP:127.0.0.1,DNS:localhost") &&
                    authority.issue("client", "DNS:client"));
    }
    std::vector<std::string> files_of(const gcoll_test::Authority &by, const std::string &name,
                                      const std::string &clients) {
        return {"--tls-cert-file",    by.file(name),    "--tls-key-file",     by.key(name),
                "--tls-ca-cert-file", authority.file(), "--tls-auth-clients", clients};
    }
    static std::string url(const RedisServer &server, const std::string &login, const std::string &tail) {
        return "rediss://" + login + server.name() + tail;
    }

    TemporaryFolder folder;
    gcoll_test::Authority authority{folder.path(), "authority"}, other{folder.path(), "other"};
};

TEST_F(StoreRedisTls, ValuesComeAndGo) {
    std::vector<std::string> words = files_of(authority, "server", "no");
    words.insert(words.end(), {"--requirepass", "hunter2"});
    RedisServer server(words, "--tls-port");
    ASSERT_TRUE(server.running());
    const std::string by = url(server, ":hunter2@", "/2?ca=" + authority.file());
    Store store = open_store(by);
    ASSERT_TRUE(store);
    const std::string large(GCOLL_STORE_VALUE_MAX, 'x');
    int64_t sum = 0;
    for (int i = 0; i < 50; i++)
        EXPECT_EQ(gcoll_store_add(store.get(), "n", 2, &sum), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(sum, 100);
    EXPECT_EQ(set(store.get(), "large", large), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(get(open_store(by).get(), "large"), large);
    EXPECT_EQ(gcoll_store_wait(store.get(), "never", 200), GCOLL_ERR_TIMEOUT);
    ASSERT_TRUE(server.restart());
    EXPECT_EQ(set(store.get(), "k", "v"), GCOLL_OK) << "connects again: " << gcoll_last_error();
    EXPECT_EQ(get(store.get(), "k"), "v");
    refuses(url(server, ":hunter2x@", "?ca=" + authority.file()), GCOLL_ERR_IO, {"WRONGPASS"});
    Store by_name = open_store("rediss://:hunter2@localhost:" + std::to_string(server.port()) +
                               "?ca=" + authority.file());
    EXPECT_EQ(set(by_name.get(), "k", "v"), GCOLL_OK);
    setenv("GCOLL_REDIS_CA", authority.file().c_str(), 1);
    EXPECT_EQ(set(open_store(url(server, ":hunter2@", "")).get(), "k", "v"), GCOLL_OK);
    unsetenv("GCOLL_REDIS_CA");
}

TEST_F(StoreRedisTls, BadServersAreRefused) {
    ASSERT_TRUE(authority.issue("old", "IP:127.0.0.1", -1) && authority.issue("elsewhere", "IP:127.0.0.2") &&
                other.issue("foreign", "IP:127.0.0.1"));
    const struct {
        const gcoll_test::Authority *by;
        const char *name, *said;
    } rows[] = {{&authority, "old", "shows a certificate that is refused here: certificate has expired"},
                {&authority, "elsewhere", "shows a certificate that is refused here: IP address mismatch"},
                {&other, "foreign", "shows a certificate that is refused here: "}};
    for (const auto &row : rows) {
        RedisServer server(files_of(*row.by, row.name, "no"), "--tls-port");
        ASSERT_TRUE(server.running());
        refuses(url(server, ":hunter2@", "?ca=" + authority.file()), GCOLL_ERR_IO, {server.name(), row.said});
        refuses(url(server, ":hunter2@", ""), GCOLL_ERR_IO,
                {server.name(), "shows a certificate that is refused here: "});
    }
    RedisServer plain;
    refuses(url(plain, ":hunter2@", "?ca=" + authority.file()), GCOLL_ERR_TIMEOUT,
            {plain.name(), "did not answer TLS in time; if it has no TLS, the URL is redis://"}, 500);
    RedisServer server(files_of(authority, "server", "no"), "--tls-port");
    refuses("redis://:hunter2@" + server.name(), GCOLL_ERR_IO, {server.name()});
    refuses(url(server, ":hunter2@", "?ca=/nowhere"), GCOLL_ERR_INVALID,
            {"?ca= of the URL (or GCOLL_REDIS_CA): cannot open '/nowhere'"});
}

TEST_F(StoreRedisTls, ServersThatWantACertificateGetOne) {
    RedisServer server(files_of(authority, "server", "yes"), "--tls-port");
    ASSERT_TRUE(server.running());
    const std::string ca = "?ca=" + authority.file();
    refuses(url(server, "", ca), GCOLL_ERR_IO, {server.name(), "refused TLS: "});
    Store store = open_store(
        url(server, "", ca + "&certificate=" + authority.file("client") + "&key=" + authority.key("client")));
    EXPECT_EQ(set(store.get(), "k", "v"), GCOLL_OK) << gcoll_last_error();
    refuses(url(server, "", ca + "&certificate=" + authority.file("client")), GCOLL_ERR_INVALID,
            {"?certificate= of the URL (or GCOLL_REDIS_CERTIFICATE): is set without ?key= of the URL"});
}

// A server that does not answer, or stops in the middle of the handshake.
TEST_F(StoreRedisTls, EveryWaitEnds) {
    for (const std::string &said : {std::string(), std::string("\x16\x03\x03\x01\x00", 5)}) {
        FakeServer server([&](int fd, int) {
            EXPECT_EQ(send(fd, said.data(), said.size(), MSG_NOSIGNAL), static_cast<ssize_t>(said.size()));
            std::this_thread::sleep_for(std::chrono::milliseconds(800));
        });
        refuses("rediss://" + server.name(), GCOLL_ERR_TIMEOUT, {"did not answer TLS in time"}, 500);
    }
}

} // namespace
