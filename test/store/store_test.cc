// test/store/store_test.cc - tests of every kind of store against a plain map, and of the checks of
// arguments.
#include "test/store/store_support.h"
#include "test/store/store_user.h"

#include <climits>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>

using namespace store_support;

namespace {

// ---- All kinds ----

// The fixture of all kinds of stores. handle() gives a store that the calling thread may use: the shared one
// if threads may share it, else a new one.
class StoreKinds : public testing::TestWithParam<const char *> {
  protected:
    using Handle = std::shared_ptr<gcoll_store>;

    void SetUp() override {
        kind_ = GetParam();
        gcoll_store *store = nullptr;
        if (kind_ == "memory" || kind_ == "prefix")
            ASSERT_EQ(gcoll_store_memory_create(&store), GCOLL_OK);
        if (kind_ == "user")
            ASSERT_EQ(gcoll_store_create(&user_ops, new UserStore, &store), GCOLL_OK);
        if (kind_ == "redis") {
            if (!RedisServer::installed())
                GTEST_SKIP() << "redis-server is not installed";
            server_ = std::make_unique<RedisServer>();
            ASSERT_TRUE(server_->running());
        }
        if (kind_ == "tcp") {
            url_ = "tcp://127.0.0.1:" + std::to_string(closed_port());
            ASSERT_EQ(gcoll_store_open((url_ + "?serve=yes").c_str(), 10000, &store), GCOLL_OK)
                << gcoll_last_error();
        }
        shared_ = Store(store);
        if (kind_ == "prefix") {
            ASSERT_EQ(gcoll_store_prefix_create(shared_.get(), "job-1/gen_2", &store), GCOLL_OK);
            view_ = Store(store);
        }
    }
    Handle handle() {
        if (kind_ == "file")
            return open_store("file:" + folder_.path());
        if (kind_ == "redis")
            return open_store(server_->url());
        if (kind_ == "tcp")
            return open_store(url_);
        return Handle(kind_ == "prefix" ? view_.get() : shared_.get(), [](gcoll_store *) {});
    }
    // Starts threads that each add 1 to the counter "n" `adds` times. They give the sums to `note`, one
    // thread at a time.
    std::vector<std::thread> start_adders(int count, int adds, const std::function<void(int64_t sum)> &note) {
        std::vector<std::thread> threads;
        for (int i = 0; i < count; i++)
            threads.emplace_back([this, adds, note] {
                Handle store = handle();
                for (int k = 0; k < adds; k++) {
                    int64_t sum = 0;
                    EXPECT_EQ(gcoll_store_add(store.get(), "n", 1, &sum), GCOLL_OK) << gcoll_last_error();
                    std::lock_guard<std::mutex> guard(noting_);
                    note(sum);
                }
            });
        return threads;
    }
    size_t key_max() const { return GCOLL_STORE_KEY_MAX - (kind_ == "prefix" ? strlen("job-1/gen_2/") : 0); }

    std::string kind_;

  private:
    TemporaryFolder folder_;
    std::unique_ptr<RedisServer> server_;
    std::string url_;
    Store shared_, view_; // the view is destroyed first
    std::mutex noting_;   // guards what start_adders's `note` writes
};

std::string random_bytes(std::mt19937 &random, size_t bytes) {
    std::string text(bytes, '\0');
    for (char &c : text)
        c = static_cast<char>(random());
    return text;
}

TEST_P(StoreKinds, SetsGetsAndReplacesValuesOfEverySize) {
    Handle store = handle();
    std::mt19937 random(1);
    for (size_t bytes : {size_t(1), size_t(0), size_t(255), size_t(65535), size_t(GCOLL_STORE_VALUE_MAX),
                         size_t(3), size_t(0)}) {
        std::string value = random_bytes(random, bytes);
        ASSERT_EQ(set(store.get(), "key", value), GCOLL_OK) << gcoll_last_error();
        EXPECT_EQ(get(store.get(), "key"), value);
    }
    EXPECT_EQ(gcoll_store_set(store.get(), "empty", nullptr, 0), GCOLL_OK);
    size_t bytes = 7;
    EXPECT_EQ(gcoll_store_get(store.get(), "empty", nullptr, 0, &bytes), GCOLL_OK);
    EXPECT_EQ(bytes, 0u);
}

TEST_P(StoreKinds, ChecksSizes) {
    Handle store = handle();
    std::string large(GCOLL_STORE_VALUE_MAX + 1, 'x');
    EXPECT_EQ(set(store.get(), "the-key", large), GCOLL_ERR_INVALID);
    EXPECT_TRUE(last_error_has("the-key") && last_error_has("65537") && last_error_has("65536"))
        << gcoll_last_error();
    EXPECT_EQ(get(store.get(), "the-key"), "<not found>");
    ASSERT_EQ(set(store.get(), "the-key", "12345"), GCOLL_OK);
    char room[8] = "unused";
    size_t bytes = 99;
    EXPECT_EQ(gcoll_store_get(store.get(), "the-key", room, 4, &bytes), GCOLL_ERR_INVALID);
    EXPECT_TRUE(last_error_has("the-key")) << gcoll_last_error();
    EXPECT_EQ(bytes, 99u);
    EXPECT_STREQ(room, "unused");
    EXPECT_EQ(gcoll_store_get(store.get(), "the-key", room, 5, &bytes), GCOLL_OK);
    EXPECT_EQ(std::string(room, bytes), "12345");
}

TEST_P(StoreKinds, RefusesBadKeysAndTakesOddOnes) {
    Handle handle_ = handle();
    gcoll_store *store = handle_.get();
    std::string longest(key_max(), 'k');
    for (const std::string &key :
         {std::string(""), std::string("/a"), std::string("a/"), std::string("a//b"), std::string("/"),
          std::string("a b"), std::string("a\nb"), std::string("a+b"), std::string("a!"),
          std::string("a\xc3\xa4"), std::string("%"), std::string("a,b"), longest + "k",
          std::string(100000, 'k')}) {
        char room[8];
        size_t bytes;
        int64_t sum;
        EXPECT_EQ(set(store, key, "v"), GCOLL_ERR_INVALID) << key;
        EXPECT_EQ(gcoll_store_get(store, key.c_str(), room, sizeof room, &bytes), GCOLL_ERR_INVALID) << key;
        EXPECT_EQ(gcoll_store_wait(store, key.c_str(), 0), GCOLL_ERR_INVALID) << key;
        EXPECT_EQ(gcoll_store_add(store, key.c_str(), 1, &sum), GCOLL_ERR_INVALID) << key;
        EXPECT_EQ(gcoll_store_remove(store, key.c_str()), GCOLL_ERR_INVALID) << key;
        for (const char *c = gcoll_last_error(); *c != '\0'; c++)
            EXPECT_TRUE(*c >= ' ' && *c <= '~') << "an unprintable byte in the text for key " << key;
    }
    std::vector<std::string> odd = {
        ".", "..",  "../a", "./a", "a/..", "a/.", ".tmp",  ".lock", "-",    "_",     "-/-",
        "a", "a.b", "a-b",  "a_b", "A",    "a/b", "a/b/c", "ab",    "a/bc", longest, longest.substr(1)};
    for (const std::string &key : odd)
        ASSERT_EQ(set(store, key, "value of " + key), GCOLL_OK) << gcoll_last_error();
    for (const std::string &key : odd)
        EXPECT_EQ(get(store, key), "value of " + key);
    for (const std::string &key : odd) {
        ASSERT_EQ(gcoll_store_remove(store, key.c_str()), GCOLL_OK) << gcoll_last_error();
        EXPECT_EQ(get(store, key), "<not found>") << key;
    }
}

TEST_P(StoreKinds, AgreesWithAMapUnderRandomUse) {
    Handle handle_ = handle();
    gcoll_store *store = handle_.get();
    std::map<std::string, std::string> oracle;
    std::mt19937 random(7);
    for (int i = 0; i < 400; i++) {
        std::string key = "k" + std::to_string(random() % 5) + (random() % 2 ? "" : "/x");
        int64_t sum = 0, delta = static_cast<int64_t>(random() % 2001) - 1000;
        switch (random() % 5) {
        case 0:
            oracle[key] = random() % 3 == 0 ? random_bytes(random, random() % 300) : std::to_string(delta);
            ASSERT_EQ(set(store, key, oracle[key]), GCOLL_OK);
            break;
        case 1:
            ASSERT_EQ(get(store, key), oracle.count(key) ? oracle[key] : "<not found>");
            break;
        case 2:
            ASSERT_EQ(gcoll_store_wait(store, key.c_str(), 0),
                      oracle.count(key) ? GCOLL_OK : GCOLL_ERR_TIMEOUT);
            break;
        case 3: {
            std::string old = oracle.count(key) ? oracle[key] : "0";
            bool number = old == std::to_string(atoll(old.c_str()));
            ASSERT_EQ(gcoll_store_add(store, key.c_str(), delta, &sum),
                      number ? GCOLL_OK : GCOLL_ERR_INVALID);
            if (number) {
                ASSERT_EQ(sum, atoll(old.c_str()) + delta);
                oracle[key] = std::to_string(sum);
            }
            break;
        }
        default:
            oracle.erase(key);
            ASSERT_EQ(gcoll_store_remove(store, key.c_str()), GCOLL_OK);
        }
    }
}

TEST_P(StoreKinds, CountersAreExactToSixtyFourBits) {
    Handle handle_ = handle();
    gcoll_store *store = handle_.get();
    int64_t sum = 0;
    ASSERT_EQ(gcoll_store_add(store, "c", INT64_MAX - 1, &sum), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(sum, INT64_MAX - 1);
    ASSERT_EQ(gcoll_store_add(store, "c", 1, &sum), GCOLL_OK);
    EXPECT_EQ(sum, INT64_MAX);
    EXPECT_EQ(gcoll_store_add(store, "c", 1, &sum), GCOLL_ERR_INVALID);
    EXPECT_EQ(sum, INT64_MAX) << "an output was written on failure";
    EXPECT_EQ(get(store, "c"), "9223372036854775807");
    ASSERT_EQ(gcoll_store_add(store, "d", INT64_MIN, &sum), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(sum, INT64_MIN);
    EXPECT_EQ(get(store, "d"), "-9223372036854775808");
    EXPECT_EQ(gcoll_store_add(store, "d", -1, &sum), GCOLL_ERR_INVALID);
    for (const char *text : {"", "-", "+1", " 1", "1 ", "01", "-0", "1x", "9223372036854775808", "0x1"}) {
        ASSERT_EQ(set(store, "the-key", text), GCOLL_OK);
        EXPECT_EQ(gcoll_store_add(store, "the-key", 1, &sum), GCOLL_ERR_INVALID) << text;
        EXPECT_TRUE(last_error_has("the-key")) << gcoll_last_error();
        EXPECT_EQ(get(store, "the-key"), text);
    }
}

// Includes "user", whose table has no set_new.
TEST_P(StoreKinds, SetNewTakesAbsentKeysOnly) {
    Handle handle_ = handle();
    gcoll_store *store = handle_.get();
    auto set_new = [&](const std::string &key, const std::string &value) {
        return gcoll_store_set_new(store, key.c_str(), value.data(), value.size());
    };
    EXPECT_EQ(set_new("a/key", "first"), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(get(store, "a/key"), "first");
    EXPECT_EQ(gcoll_store_wait(store, "a/key", 0), GCOLL_OK);
    EXPECT_EQ(set_new("a/key", "second"), GCOLL_ERR_STATE);
    EXPECT_TRUE(last_error_has("a/key")) << gcoll_last_error();
    EXPECT_EQ(get(store, "a/key"), "first");
    ASSERT_EQ(set(store, "set", ""), GCOLL_OK);
    EXPECT_EQ(set_new("set", "x"), GCOLL_ERR_STATE) << "an empty value is one";
    EXPECT_EQ(get(store, "set"), "");
    int64_t sum;
    ASSERT_EQ(gcoll_store_add(store, "added", 1, &sum), GCOLL_OK);
    EXPECT_EQ(set_new("added", "x"), GCOLL_ERR_STATE);
    ASSERT_EQ(gcoll_store_remove(store, "a/key"), GCOLL_OK);
    EXPECT_EQ(get(store, "a/key"), "<not found>");
    EXPECT_EQ(set_new("a/key", std::string(GCOLL_STORE_VALUE_MAX, 'v')), GCOLL_OK) << gcoll_last_error();
    ASSERT_EQ(set(store, "a/key", "5"), GCOLL_OK) << "a set replaces it";
    EXPECT_EQ(gcoll_store_add(store, "a/key", 1, &sum), GCOLL_OK);
    EXPECT_EQ(sum, 6);
    EXPECT_EQ(gcoll_store_set_new(store, "b", nullptr, 0), GCOLL_OK);
    EXPECT_EQ(gcoll_store_set_new(store, "c", nullptr, 1), GCOLL_ERR_INVALID);
    EXPECT_EQ(set_new("c", std::string(GCOLL_STORE_VALUE_MAX + 1, 'v')), GCOLL_ERR_INVALID);
    EXPECT_EQ(set_new("c d", "v"), GCOLL_ERR_INVALID);
}

TEST_P(StoreKinds, SetNewHasOneWinner) {
    constexpr int kThreads = 6, kRounds = 25;
    std::atomic<int> won[kRounds] = {}, lost[kRounds] = {};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; i++) {
        threads.emplace_back([&, i] {
            Handle store = handle();
            std::string mine(static_cast<size_t>(1 + i * 1000), static_cast<char>('a' + i));
            for (int round = 0; round < kRounds; round++) {
                std::string key = "claim." + std::to_string(round);
                gcoll_status status = gcoll_store_set_new(store.get(), key.c_str(), mine.data(), mine.size());
                won[round] += status == GCOLL_OK;
                lost[round] += status == GCOLL_ERR_STATE;
                ASSERT_EQ(gcoll_store_wait(store.get(), key.c_str(), 20000), GCOLL_OK);
                std::string value = get(store.get(), key);
                EXPECT_EQ(value == mine, status == GCOLL_OK) << "round " << round;
                ASSERT_FALSE(value.empty());
                EXPECT_EQ(value, std::string(1 + static_cast<size_t>(value[0] - 'a') * 1000, value[0]))
                    << "torn";
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    for (int round = 0; round < kRounds; round++) {
        EXPECT_EQ(won[round], 1) << "round " << round;
        EXPECT_EQ(lost[round], kThreads - 1) << "round " << round;
    }
}

TEST_P(StoreKinds, KeptKeysStayWhileTheyAreKept) {
    Handle handle_ = handle();
    gcoll_store *store = handle_.get();
    EXPECT_EQ(gcoll_store_keep(store, "absent", 1000), kind_ == "user" ? GCOLL_OK : GCOLL_ERR_NOT_FOUND);
    ASSERT_EQ(set(store, "k", "v"), GCOLL_OK);
    EXPECT_EQ(gcoll_store_keep(store, "k", 0), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_store_keep(store, "k k", 1), GCOLL_ERR_INVALID);
    for (int64_t ttl : {int64_t(3600 * 1000), int64_t(30) * 86400 * 1000, INT64_MAX}) {
        EXPECT_EQ(gcoll_store_keep(store, "k", ttl), GCOLL_OK) << gcoll_last_error();
        EXPECT_EQ(get(store, "k"), "v");
        EXPECT_EQ(gcoll_store_wait(store, "k", 0), GCOLL_OK);
    }
    EXPECT_EQ(gcoll_store_remove(store, "k"), GCOLL_OK);
    EXPECT_EQ(gcoll_store_wait(store, "k", 0), GCOLL_ERR_TIMEOUT);
}

TEST_P(StoreKinds, ATimeoutIsTakenAndGivenBack) {
    Handle handle_ = handle();
    gcoll_store *store = handle_.get();
    EXPECT_EQ(gcoll_store_set_timeout(store, -2), GCOLL_ERR_INVALID);
    for (int64_t timeout : {int64_t(2000), INT64_MAX, int64_t(-1)}) {
        EXPECT_EQ(gcoll_store_set_timeout(store, timeout), GCOLL_OK) << gcoll_last_error();
        int64_t sum;
        EXPECT_EQ(gcoll_store_add(store, "n", 1, &sum), GCOLL_OK) << gcoll_last_error();
        EXPECT_EQ(gcoll_store_wait(store, "n", 1000), GCOLL_OK);
        EXPECT_EQ(gcoll_store_wait(store, "absent", 1), GCOLL_ERR_TIMEOUT);
    }
}

TEST_P(StoreKinds, WaitEndsByItsDeadlineAndNotBefore) {
    Handle store = handle();
    ASSERT_EQ(set(store.get(), "other", "x"), GCOLL_OK);
    for (int timeout : {0, 1, 37, 150}) {
        auto began = Clock::now();
        EXPECT_EQ(gcoll_store_wait(store.get(), "absent", timeout), GCOLL_ERR_TIMEOUT);
        double took = ms_since(began);
        EXPECT_GE(took, timeout);
        EXPECT_LT(took, timeout + kLateMs);
        EXPECT_TRUE(last_error_has("absent")) << gcoll_last_error();
    }
    EXPECT_EQ(gcoll_store_wait(store.get(), "other", -1), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_store_wait(store.get(), "other", INT64_MAX), GCOLL_OK);
}

// Half of the waiters wait for a key that is set, half for one that is added to. All must return, whether
// they wait already or begin later.
TEST_P(StoreKinds, OneSetOrAddWakesAllWaiters) {
    constexpr int kWaiters = 16;
    std::atomic<int> ready{0}, woken{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kWaiters; i++) {
        threads.emplace_back([&, i] {
            Handle store = handle();
            ready++;
            woken += gcoll_store_wait(store.get(), i % 2 ? "go/set" : "go/add", 20000) == GCOLL_OK;
        });
    }
    Handle store = handle();
    while (ready < kWaiters)
        std::this_thread::yield();
    // Spends 30 ms in a wait for another key: after it most of the threads block.
    EXPECT_EQ(gcoll_store_wait(store.get(), "go", 30), GCOLL_ERR_TIMEOUT);
    auto began = Clock::now();
    EXPECT_EQ(set(store.get(), "go/set", ""), GCOLL_OK);
    int64_t sum;
    EXPECT_EQ(gcoll_store_add(store.get(), "go/add", 1, &sum), GCOLL_OK);
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(woken, kWaiters);
    EXPECT_LT(ms_since(began), 5000) << "some were not woken, but found the key at their deadline";
    EXPECT_EQ(gcoll_store_wait(store.get(), "go/set", 0), GCOLL_OK);
    EXPECT_EQ(gcoll_store_wait(store.get(), "go/add", 0), GCOLL_OK);
}

TEST_P(StoreKinds, AddsFromManyThreadsAreAtomic) {
    constexpr int kThreads = 8, kAdds = 40;
    std::multiset<int64_t> results;
    for (std::thread &thread : start_adders(kThreads, kAdds, [&](int64_t sum) { results.insert(sum); }))
        thread.join();
    std::multiset<int64_t> expected;
    for (int64_t i = 1; i <= kThreads * kAdds; i++)
        expected.insert(i);
    EXPECT_EQ(results, expected);
    EXPECT_EQ(get(handle().get(), "n"), std::to_string(kThreads * kAdds));
}

// Between two removals the counter is 1, 2, 3, and so on. So over the whole run, no value may appear more
// often than the one below it. A lost update breaks that.
TEST_P(StoreKinds, AddsStayAtomicWhileTheCounterIsRemoved) {
    constexpr int kThreads = 4, kAdds = 60;
    std::map<int64_t, int> seen;
    std::atomic<int> left{kThreads * kAdds};
    std::vector<std::thread> threads = start_adders(kThreads, kAdds, [&](int64_t sum) {
        seen[sum]++;
        left--;
    });
    Handle store = handle();
    while (left > 0)
        ASSERT_EQ(gcoll_store_remove(store.get(), "n"), GCOLL_OK) << gcoll_last_error();
    for (std::thread &thread : threads)
        thread.join();
    int total = 0;
    for (const auto &[value, times] : seen) {
        total += times;
        EXPECT_GE(value, 1);
        if (value > 1)
            EXPECT_GE(seen[value - 1], times) << "value " << value;
    }
    EXPECT_EQ(total, kThreads * kAdds);
}

TEST_P(StoreKinds, ReadersSeeTheOldValueOrTheNew) {
    std::atomic<bool> done{false};
    Handle store = handle();
    ASSERT_EQ(set(store.get(), "v", std::string(10, 'a')), GCOLL_OK);
    std::thread reader([&] {
        Handle mine = handle();
        while (!done) {
            std::string value = get(mine.get(), "v");
            ASSERT_TRUE(!value.empty() && value.find_first_not_of(value[0]) == std::string::npos)
                << value.size() << " bytes, torn";
            ASSERT_EQ(value.size(), static_cast<size_t>(value[0] - 'a') * 2000 + 10);
        }
    });
    for (int i = 0; i < 200; i++)
        EXPECT_EQ(set(store.get(), "v",
                      std::string(static_cast<size_t>(i % 26 * 2000 + 10), static_cast<char>('a' + i % 26))),
                  GCOLL_OK);
    done = true;
    reader.join();
}

TEST_P(StoreKinds, RemovingIsFinal) {
    Handle store = handle();
    int64_t sum = 0;
    EXPECT_EQ(gcoll_store_remove(store.get(), "k"), GCOLL_OK);
    ASSERT_EQ(gcoll_store_add(store.get(), "k", 5, &sum), GCOLL_OK);
    ASSERT_EQ(gcoll_store_remove(store.get(), "k"), GCOLL_OK);
    EXPECT_EQ(gcoll_store_wait(store.get(), "k", 0), GCOLL_ERR_TIMEOUT);
    EXPECT_EQ(get(store.get(), "k"), "<not found>");
    EXPECT_TRUE(last_error_has("k")) << gcoll_last_error();
    ASSERT_EQ(gcoll_store_add(store.get(), "k", 2, &sum), GCOLL_OK);
    EXPECT_EQ(sum, 2);
}

INSTANTIATE_TEST_SUITE_P(All, StoreKinds, testing::Values("memory", "prefix", "file", "redis", "tcp", "user"),
                         [](const auto &kind) { return std::string(kind.param); });

// ---- Arguments ----

TEST(StoreArguments, NullIsNamed) {
    gcoll_store *store = nullptr;
    EXPECT_EQ(gcoll_store_memory_create(nullptr), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_store_open(nullptr, 1, &store), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_store_open("file:/tmp", 1, nullptr), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_store_prefix_create(nullptr, "p", &store), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_store_create(nullptr, nullptr, &store), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_store_set(nullptr, "k", "v", 1), GCOLL_ERR_INVALID);
    EXPECT_TRUE(last_error_has("store is NULL")) << gcoll_last_error();
    gcoll_store_destroy(nullptr);
    ASSERT_EQ(gcoll_store_memory_create(&store), GCOLL_OK);
    Store owner(store);
    size_t bytes;
    EXPECT_EQ(gcoll_store_set(store, nullptr, "v", 1), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_store_set(store, "k", nullptr, 1), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_store_set_new(nullptr, "k", "v", 1), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_store_set_new(store, nullptr, "v", 1), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_store_set_timeout(nullptr, 1), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_store_keep(nullptr, "k", 1), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_store_get(store, "k", nullptr, 1, &bytes), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_store_get(store, "k", &bytes, 1, nullptr), GCOLL_ERR_INVALID);
    int64_t sum;
    EXPECT_EQ(gcoll_store_add(store, "k", 4, nullptr), GCOLL_OK) << "the new value is optional";
    EXPECT_EQ(gcoll_store_add(store, "k", 0, &sum), GCOLL_OK);
    EXPECT_EQ(sum, 4);
}

TEST(StoreArguments, AnIncompleteTableOfOperationsIsRefused) {
    gcoll_store *store = nullptr;
    gcoll_store_ops ops = user_ops;
    ops.struct_size = offsetof(gcoll_store_ops, set_new) - 1;
    EXPECT_EQ(gcoll_store_create(&ops, nullptr, &store), GCOLL_ERR_INVALID);
    ops = user_ops;
    ops.wait = nullptr;
    EXPECT_EQ(gcoll_store_create(&ops, nullptr, &store), GCOLL_ERR_INVALID);
    ops = user_ops;
    ops.name = nullptr;
    EXPECT_EQ(gcoll_store_create(&ops, nullptr, &store), GCOLL_ERR_INVALID);
    EXPECT_EQ(store, nullptr);
    ops = user_ops;
    ops.destroy = nullptr;
    UserStore self;
    ASSERT_EQ(gcoll_store_create(&ops, &self, &store), GCOLL_OK);
    EXPECT_EQ(set(store, "k", "v"), GCOLL_OK);
    gcoll_store_destroy(store);
    EXPECT_EQ(self.values["k"], "v");
}

// A program that was compiled before set_new, set_timeout and keep gives a shorter table. The library must
// not read beyond it.
TEST(StoreArguments, ATableOfTheFirstVersionStillWorks) {
    gcoll_store_ops ops = user_ops;
    ops.struct_size = offsetof(gcoll_store_ops, set_new);
    ops.set_new = [](void *, const char *, const void *, size_t) {
        abort();
        return GCOLL_OK;
    };
    ops.set_timeout = [](void *, int64_t) {
        abort();
        return GCOLL_OK;
    };
    ops.keep = [](void *, const char *, int64_t) {
        abort();
        return GCOLL_OK;
    };
    gcoll_store *made = nullptr;
    ASSERT_EQ(gcoll_store_create(&ops, new UserStore, &made), GCOLL_OK) << gcoll_last_error();
    Store store(made);
    EXPECT_EQ(gcoll_store_set_new(made, "k", "v", 1), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(gcoll_store_set_new(made, "k", "w", 1), GCOLL_ERR_STATE);
    EXPECT_EQ(get(made, "k"), "v");
    EXPECT_EQ(gcoll_store_set_timeout(made, 1), GCOLL_OK);
    EXPECT_EQ(gcoll_store_keep(made, "k", 1), GCOLL_OK);
    EXPECT_EQ(gcoll_store_remove(made, "k"), GCOLL_OK);
    EXPECT_EQ(gcoll_store_set_new(made, "k", "w", 1), GCOLL_OK) << "a remove frees the key";
}

TEST(StoreArguments, OperationsThatCameLaterAreUsedWhereTheyAre) {
    gcoll_store_ops ops = user_ops;
    ops.set_new = [](void *, const char *, const void *, size_t) { return GCOLL_ERR_STATE; };
    ops.set_timeout = [](void *, int64_t timeout_ms) {
        return timeout_ms == -1 ? GCOLL_OK : GCOLL_ERR_ABORTED;
    };
    ops.keep = [](void *, const char *, int64_t ttl_ms) {
        return ttl_ms == 7 ? GCOLL_OK : GCOLL_ERR_ABORTED;
    };
    gcoll_store *made = nullptr, *view = nullptr;
    ASSERT_EQ(gcoll_store_create(&ops, new UserStore, &made), GCOLL_OK);
    Store store(made);
    ASSERT_EQ(gcoll_store_prefix_create(made, "p", &view), GCOLL_OK);
    Store prefix(view);
    for (gcoll_store *each : {made, view}) {
        EXPECT_EQ(gcoll_store_set_new(each, "k", "v", 1), GCOLL_ERR_STATE);
        EXPECT_EQ(gcoll_store_set_timeout(each, -1), GCOLL_OK);
        EXPECT_EQ(gcoll_store_set_timeout(each, 5), GCOLL_ERR_ABORTED);
        EXPECT_EQ(gcoll_store_keep(each, "k", 7), GCOLL_OK);
        EXPECT_EQ(gcoll_store_keep(each, "k", 8), GCOLL_ERR_ABORTED);
    }
}

TEST(StoreArguments, SetNewWithoutAnOperationOfItsOwnNeedsRoomForACounter) {
    gcoll_store *made = nullptr;
    ASSERT_EQ(gcoll_store_create(&user_ops, new UserStore, &made), GCOLL_OK);
    Store store(made);
    std::string longest(GCOLL_STORE_KEY_MAX - 4, 'k');
    EXPECT_EQ(gcoll_store_set_new(made, longest.c_str(), "v", 1), GCOLL_OK) << gcoll_last_error();
    EXPECT_EQ(gcoll_store_set_new(made, (longest + "k").c_str(), "v", 1), GCOLL_ERR_INVALID);
    EXPECT_TRUE(last_error_has("251")) << gcoll_last_error();
    EXPECT_EQ(set(made, longest + "k", "v"), GCOLL_OK);
    EXPECT_EQ(gcoll_store_remove(made, (longest + "k").c_str()), GCOLL_OK);
}

TEST(StoreArguments, AUsersStatusAndTextComeThrough) {
    gcoll_store_ops ops = user_ops;
    ops.remove = [](void *, const char *) { return gcoll_store_error(GCOLL_ERR_ABORTED, "100%s of it"); };
    ops.get = [](void *, const char *, void *, size_t capacity, size_t *bytes) {
        *bytes = capacity + 1;
        return GCOLL_OK;
    };
    ops.destroy = nullptr;
    gcoll_store *store = nullptr;
    ASSERT_EQ(gcoll_store_create(&ops, nullptr, &store), GCOLL_OK);
    Store owner(store);
    EXPECT_EQ(gcoll_store_remove(store, "k"), GCOLL_ERR_ABORTED);
    EXPECT_STREQ(gcoll_last_error(), "100%s of it");
    char room[4];
    size_t bytes = 77;
    EXPECT_EQ(gcoll_store_get(store, "k", room, sizeof room, &bytes), GCOLL_ERR_IO)
        << "a size beyond the room";
    EXPECT_EQ(bytes, 77u);
}

// A user's store may fail without a text, and with a number that is no status. The result is a status of
// gcoll, and the text is not that of an earlier error.
TEST(StoreArguments, AUsersFailureIsAlwaysAStatusWithAText) {
    static gcoll_status given;
    static const char *said;
    const auto fail = [] { return said ? gcoll_store_error(given, said) : given; };
    static const auto failing = +fail;
    gcoll_store_ops ops = user_ops;
    ops.set = [](void *, const char *, const void *, size_t) { return failing(); };
    ops.get = [](void *, const char *, void *, size_t, size_t *) { return failing(); };
    ops.wait = [](void *, const char *, int64_t) { return failing(); };
    ops.add = [](void *, const char *, int64_t, int64_t *) { return failing(); };
    ops.remove = [](void *, const char *) { return failing(); };
    ops.set_new = [](void *, const char *, const void *, size_t) { return failing(); };
    ops.keep = [](void *, const char *, int64_t) { return failing(); };
    ops.get_wait = [](void *, const char *, void *, size_t, size_t *, int64_t) { return failing(); };
    ops.destroy = nullptr;
    ops.struct_size = sizeof ops;
    gcoll_store *store = nullptr;
    ASSERT_EQ(gcoll_store_create(&ops, nullptr, &store), GCOLL_OK);
    Store owner(store);
    char room[4];
    size_t bytes;
    int64_t sum;
    const std::vector<std::function<gcoll_status()>> calls = {
        [&] { return gcoll_store_set(store, "k", "v", 1); },
        [&] { return gcoll_store_get(store, "k", room, sizeof room, &bytes); },
        [&] { return gcoll_store_wait(store, "k", 10); },
        [&] { return gcoll_store_add(store, "k", 1, &sum); },
        [&] { return gcoll_store_remove(store, "k"); },
        [&] { return gcoll_store_set_new(store, "k", "v", 1); },
        [&] { return gcoll_store_keep(store, "k", 10); },
        [&] { return gcoll_store_get_wait(store, "k", room, sizeof room, &bytes, 10); },
    };
    for (int number : {1, 2, 5, 12, 13, 99, -4})
        for (const char *text : {static_cast<const char *>(nullptr), "the disk is full"})
            for (size_t i = 0; i < calls.size(); i++) {
                given = static_cast<gcoll_status>(number);
                said = text;
                gcoll_store_error(GCOLL_ERR_PEER, "an earlier error");
                const gcoll_status status = calls[i]();
                const std::string told = gcoll_last_error();
                EXPECT_EQ(status, number > 0 && number <= 12 ? number : GCOLL_ERR_IO) << i;
                EXPECT_NE(told.find(text ? text : "gave no reason"), std::string::npos) << i << told;
                if (number > 12 || number < 0)
                    EXPECT_NE(told.find("status " + std::to_string(number)), std::string::npos) << i << told;
            }
    gcoll_store_error(GCOLL_ERR_PEER, "an earlier error");
    given = GCOLL_OK;
    said = nullptr;
    EXPECT_EQ(gcoll_store_set(store, "k", "v", 1), GCOLL_OK);
    EXPECT_STREQ(gcoll_last_error(), "an earlier error");
}

TEST(StoreArguments, BadUrlsSayWhatIsAllowedAndHideThePassword) {
    for (const char *url : {"",
                            "x",
                            "/tmp/x",
                            "http://user:hunter2@h",
                            "file:",
                            "redis:",
                            "redis:/h",
                            "redis://",
                            "redis://:1",
                            "redis://h:0",
                            "redis://h:65536",
                            "redis://h:",
                            "redis://h:x",
                            "redis://h/x",
                            "redis://h/1/2",
                            "redis://h/99999999999",
                            "redis://h?x",
                            "redis://h h",
                            "redis://[::1",
                            "redis://[::1]x",
                            "redis://[]",
                            "redis://::1",
                            "redis://user@h",
                            "redis://:@h",
                            "redis://user:hunter2@",
                            "redis://user:hunter2%@h",
                            "redis://user:hunter2%zz@h",
                            "redis://user:hunter2%00@h",
                            "redis://user:hunter2@h:x",
                            "redis://user:hunter2",
                            "redis://hunter2@h",
                            "redis://u:hunter2@h/hunter2",
                            "rediss:/user:hunter2@h",
                            "rediss://user:hunter2@",
                            "rediss://user:hunter2@h?hunter2",
                            "rediss://user:hunter2@h/0?ca=",
                            "rediss://user:hunter2@h?ca=a&ca=hunter2",
                            "rediss://user:hunter2@h?ca=%hunter2",
                            "redis://user:hunter2@h/0?ca=hunter2"}) {
        gcoll_store *store = nullptr;
        EXPECT_EQ(gcoll_store_open(url, 1000, &store), GCOLL_ERR_INVALID) << url;
        EXPECT_TRUE(last_error_has("redis://[user:password@]host[:port][/db]")) << url << gcoll_last_error();
        EXPECT_FALSE(last_error_has("hunter2")) << gcoll_last_error();
        EXPECT_EQ(store, nullptr);
    }
    gcoll_store *store = nullptr;
    for (int64_t timeout : {int64_t(0), int64_t(-1), INT64_MIN})
        EXPECT_EQ(gcoll_store_open("file:/tmp", timeout, &store), GCOLL_ERR_INVALID);
}

TEST(StorePrefix, KeysAreTheBasesUnderThePrefix) {
    gcoll_store *base, *outer, *inner;
    ASSERT_EQ(gcoll_store_memory_create(&base), GCOLL_OK);
    Store base_owner(base);
    ASSERT_EQ(gcoll_store_prefix_create(base, "a", &outer), GCOLL_OK);
    Store outer_owner(outer);
    ASSERT_EQ(gcoll_store_prefix_create(outer, "b/c", &inner), GCOLL_OK);
    Store inner_owner(inner);
    ASSERT_EQ(set(inner, "k", "v"), GCOLL_OK);
    EXPECT_EQ(get(base, "a/b/c/k"), "v");
    EXPECT_EQ(get(outer, "b/c/k"), "v");
    EXPECT_EQ(get(base, "k"), "<not found>");
    ASSERT_EQ(gcoll_store_remove(base, "a/b/c/k"), GCOLL_OK);
    EXPECT_EQ(get(inner, "k"), "<not found>");
    for (const char *prefix : {"", "/", "a/", "/a", "a b"}) {
        gcoll_store *store = nullptr;
        EXPECT_EQ(gcoll_store_prefix_create(base, prefix, &store), GCOLL_ERR_INVALID) << prefix;
        EXPECT_EQ(store, nullptr);
    }
    std::string longest(GCOLL_STORE_KEY_MAX - 2, 'p');
    gcoll_store *narrow = nullptr;
    EXPECT_EQ(gcoll_store_prefix_create(base, (longest + "p").c_str(), &narrow), GCOLL_ERR_INVALID);
    ASSERT_EQ(gcoll_store_prefix_create(base, longest.c_str(), &narrow), GCOLL_OK);
    Store narrow_owner(narrow);
    EXPECT_EQ(set(narrow, "k", "v"), GCOLL_OK);
    EXPECT_EQ(get(base, longest + "/k"), "v");
    EXPECT_EQ(set(narrow, "kk", "v"), GCOLL_ERR_INVALID);
    EXPECT_TRUE(last_error_has("kk")) << gcoll_last_error();
}

} // namespace
