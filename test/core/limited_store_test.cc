// Contexts with stores that lack operations: each combination, keys of earlier launches, ranks that do not
// come.
#include <cstring>
#include <memory>
#include <string>

#include "test/kit/harness.h"
#include "test/store/store_user.h"

namespace {

using gcoll_test::Job;
using gcoll_test::told;
using gcoll_test::transports;
using store_support::UserStore;

constexpr uint32_t kLacksAll =
    GCOLL_STORE_LACKS_GET | GCOLL_STORE_LACKS_WAIT | GCOLL_STORE_LACKS_ADD | GCOLL_STORE_LACKS_REMOVE;

gcoll_status get_wait(void *self, const char *key, void *value, size_t capacity, size_t *bytes,
                      int64_t timeout_ms) {
    gcoll_status status = store_support::user_wait(self, key, timeout_ms);
    return status == GCOLL_OK ? store_support::user_get(self, key, value, capacity, bytes) : status;
}

gcoll_store_ops ops_without(uint32_t lacks) {
    gcoll_store_ops ops = {};
    ops.struct_size = sizeof ops;
    ops.name = "limited";
    ops.set = store_support::user_set;
    ops.get = lacks & GCOLL_STORE_LACKS_GET ? nullptr : store_support::user_get;
    ops.wait = lacks & GCOLL_STORE_LACKS_WAIT ? nullptr : store_support::user_wait;
    ops.add = lacks & GCOLL_STORE_LACKS_ADD ? nullptr : store_support::user_add;
    ops.remove = lacks & GCOLL_STORE_LACKS_REMOVE ? nullptr : store_support::user_remove;
    if (lacks & (GCOLL_STORE_LACKS_GET | GCOLL_STORE_LACKS_WAIT))
        ops.get_wait = get_wait;
    return ops;
}

// A store that many threads may use, whose keys the test sees.
struct Limited {
    explicit Limited(uint32_t lacks) : ops(ops_without(lacks)) {
        EXPECT_GCOLL_OK(gcoll_store_create(&ops, &user, &store));
    }
    ~Limited() { gcoll_store_destroy(store); }
    size_t keys() {
        std::lock_guard<std::mutex> guard(user.lock);
        return user.values.size();
    }
    // The value of the key that ends like this, or "".
    std::string value(const std::string &end) {
        std::lock_guard<std::mutex> guard(user.lock);
        for (const auto &item : user.values)
            if (item.first.size() > end.size() &&
                item.first.compare(item.first.size() - end.size(), end.size(), end) == 0)
                return item.second;
        return "";
    }
    gcoll_store_ops ops;
    UserStore user;
    gcoll_store *store = nullptr;
};

struct Ending {
    gcoll_status status = GCOLL_ERR_INTERNAL;
    std::string text;
};

// Creates a context on these ranks, and adds up over all where that works. before: what a rank waits for.
std::vector<Ending> launch(const Job &job, gcoll_store *store, const std::vector<uint32_t> &ranks,
                           const std::function<void(uint32_t rank)> &before = nullptr) {
    gcoll_test::Watchdog watchdog(120);
    std::vector<Ending> endings(job.size);
    std::vector<std::thread> threads;
    gcoll_hub *hub = nullptr;
    EXPECT_GCOLL_OK(gcoll_hub_create(job.size, &hub));
    for (uint32_t rank : ranks)
        threads.emplace_back([&, rank] {
            if (before)
                before(rank);
            gcoll_context_options options = gcoll_test::options_of(job, rank, store, hub);
            gcoll_context *context = nullptr;
            endings[rank].status = gcoll_context_create(&options, &context);
            endings[rank].text = gcoll_last_error();
            uint64_t word = rank;
            if (context) {
                EXPECT_GCOLL_OK(
                    gcoll_allreduce(context, nullptr, &word, 1, GCOLL_UINT64, GCOLL_SUM, nullptr));
                EXPECT_EQ(word, job.size * (job.size - 1) / 2);
            }
            gcoll_context_destroy(context);
        });
    for (std::thread &thread : threads)
        thread.join();
    gcoll_hub_destroy(hub);
    return endings;
}

std::vector<uint32_t> all_of(uint32_t size) {
    std::vector<uint32_t> ranks;
    for (uint32_t rank = 0; rank < size; rank++)
        ranks.push_back(rank);
    return ranks;
}

void expect_launched(const Job &job, gcoll_store *store) {
    for (const Ending &ending : launch(job, store, all_of(job.size)))
        EXPECT_EQ(ending.status, GCOLL_OK) << ending.text;
}

class LimitedStores : public testing::TestWithParam<const char *> {
  protected:
    Job job(uint32_t size, int64_t timeout_ms = 20000) const {
        Job made;
        made.size = size;
        made.transport = GetParam();
        made.timeout_ms = timeout_ms;
        return made;
    }
};

TEST_P(LimitedStores, EachCombinationIsEnough) {
    for (uint32_t lacks = 0; lacks <= kLacksAll; lacks++) {
        SCOPED_TRACE(lacks);
        Limited limited(lacks);
        EXPECT_EQ(gcoll_store_lacks(limited.store), lacks);
        for (uint32_t size : {2u, 5u})
            expect_launched(job(size), limited.store);
        if (lacks & GCOLL_STORE_LACKS_REMOVE)
            EXPECT_LE(limited.keys(), 6u * (2 + 5)) << "as the header says";
        else
            EXPECT_EQ(limited.keys(), 0u);
    }
}

TEST_P(LimitedStores, AViewLacksWhatItsBaseLacks) {
    Limited limited(kLacksAll);
    gcoll_store *view = nullptr, *second = nullptr;
    ASSERT_GCOLL_OK(gcoll_store_prefix_create(limited.store, "group/7", &view));
    ASSERT_GCOLL_OK(gcoll_store_prefix_create(view, "more", &second));
    EXPECT_EQ(gcoll_store_lacks(second), kLacksAll);
    expect_launched(job(3), second);
    EXPECT_NE(limited.value("/t.1.0"), "");
    gcoll_store_destroy(second);
    gcoll_store_destroy(view);
}

// Without remove, each launch finds the keys of those before it, also of other sizes.
TEST_P(LimitedStores, KeysOfEarlierLaunchesDoNoHarm) {
    Limited limited(kLacksAll);
    for (uint32_t size : {3u, 3u, 5u, 2u, 3u})
        expect_launched(job(size), limited.store);
}

// Rank 0 takes the old row of a rank that is late for that rank's, and must correct itself.
TEST_P(LimitedStores, ALateRankIsNotTakenForItsPredecessor) {
    Limited limited(kLacksAll);
    expect_launched(job(3), limited.store);
    const std::string old = limited.value("/t.1.0");
    ASSERT_NE(old, "");
    const auto endings = launch(job(3), limited.store, all_of(3), [&](uint32_t rank) {
        for (int look = 0; rank == 1 && look < 10000 && limited.value("/t.1.0") == old; look++)
            usleep(1000);
    });
    for (const Ending &ending : endings)
        EXPECT_EQ(ending.status, GCOLL_OK) << ending.text;
}

TEST_P(LimitedStores, RanksThatDoNotComeAreNamed) {
    for (bool again : {false, true}) { // in an empty store, and after a launch in which they came
        Limited limited(kLacksAll);
        if (again)
            expect_launched(job(4), limited.store);
        auto endings = launch(job(4, 700), limited.store, {0, 1, 3});
        for (uint32_t rank : {0u, 1u, 3u}) {
            EXPECT_EQ(endings[rank].status, GCOLL_ERR_TIMEOUT) << endings[rank].text;
            if (!again || rank == 0)
                EXPECT_NE(endings[rank].text.find("1 of 4 ranks did not join within 700 ms: 2"),
                          std::string::npos)
                    << endings[rank].text;
        }
        endings = launch(job(4, 700), limited.store, {1, 2});
        for (uint32_t rank : {1u, 2u}) {
            EXPECT_EQ(endings[rank].status, GCOLL_ERR_TIMEOUT) << endings[rank].text;
            EXPECT_NE(endings[rank].text.find("no word of rank 0 within 700 ms"), std::string::npos)
                << endings[rank].text;
        }
    }
}

// A late rank goes on though rank 0 waits for another one, which does not come: the old rows of both are in
// the store.
TEST_P(LimitedStores, ALateRankDoesNotWaitBehindOneThatDoesNotCome) {
    Limited limited(kLacksAll);
    expect_launched(job(3), limited.store);
    const std::string old = limited.value("/t.1.0");
    const auto endings = launch(job(3, 2000), limited.store, {0, 2}, [&](uint32_t rank) {
        for (int look = 0; rank == 2 && look < 1500 && limited.value("/t.1.0") == old; look++)
            usleep(1000);
    });
    for (uint32_t rank : {0u, 2u}) {
        EXPECT_EQ(endings[rank].status, GCOLL_ERR_TIMEOUT) << endings[rank].text;
        EXPECT_NE(endings[rank].text.find("1 of 3 ranks did not join within 2000 ms: 1"), std::string::npos)
            << endings[rank].text;
    }
}

TEST_P(LimitedStores, DifferentSizesAreAMismatch) {
    Limited limited(kLacksAll);
    Job each = job(3, 700);
    each.transport = "tcp";
    each.adjust = [](uint32_t rank, gcoll_context_options *options) { options->size = rank == 1 ? 4 : 3; };
    const auto endings = launch(each, limited.store, all_of(3));
    EXPECT_EQ(endings[0].status, GCOLL_ERR_MISMATCH) << endings[0].text;
    EXPECT_NE(endings[0].text.find("options.size: is 3 on rank 0, but 4 on rank 1"), std::string::npos)
        << endings[0].text;
    EXPECT_NE(endings[1].status, GCOLL_OK);
    EXPECT_NE(endings[2].status, GCOLL_OK);
}

TEST_P(LimitedStores, AnErrorOfTheStoreIsTheResult) {
    Limited limited(kLacksAll);
    limited.ops.set = [](void *, const char *, const void *, size_t) {
        return gcoll_store_error(GCOLL_ERR_IO, "the disk is full");
    };
    for (const Ending &ending : launch(job(2, 2000), limited.store, all_of(2))) {
        EXPECT_NE(ending.status, GCOLL_OK);
        EXPECT_TRUE(ending.text.find("the disk is full") != std::string::npos ||
                    ending.status == GCOLL_ERR_TIMEOUT)
            << ending.text;
    }
}

// Rank 0 has come, and waits for rank 2 longer than rank 1 waits for rank 0. The store has old rows of all.
TEST(LimitedStoreWaits, ARankZeroThatWaitsForOthersIsNotMissing) {
    Limited limited(kLacksAll);
    Job each;
    each.size = 3;
    expect_launched(each, limited.store);
    each.adjust = [](uint32_t rank, gcoll_context_options *options) {
        options->timeout_ms = rank == 0 ? 2000 : 1000;
    };
    const auto endings = launch(each, limited.store, {0, 1});
    EXPECT_EQ(endings[1].status, GCOLL_ERR_TIMEOUT);
    EXPECT_NE(endings[1].text.find("rank 0 joined, but still waited for other ranks after 1000 ms"),
              std::string::npos)
        << endings[1].text;
}

TEST(LimitedStoreCalls, WhatIsMissingIsUnsupported) {
    Limited limited(kLacksAll);
    char value[8];
    size_t bytes = 0;
    int64_t sum = 0;
    EXPECT_EQ(gcoll_store_get(limited.store, "k", value, sizeof value, &bytes), GCOLL_ERR_UNSUPPORTED);
    EXPECT_NE(std::string(gcoll_last_error()).find("limited store has no get"), std::string::npos);
    EXPECT_EQ(gcoll_store_wait(limited.store, "k", 1), GCOLL_ERR_UNSUPPORTED);
    EXPECT_EQ(gcoll_store_add(limited.store, "k", 1, &sum), GCOLL_ERR_UNSUPPORTED);
    EXPECT_EQ(gcoll_store_remove(limited.store, "k"), GCOLL_ERR_UNSUPPORTED);
    EXPECT_EQ(gcoll_store_set_new(limited.store, "k", "v", 1), GCOLL_ERR_UNSUPPORTED);
    EXPECT_EQ(gcoll_store_get_wait(limited.store, "k", value, sizeof value, &bytes, 1), GCOLL_ERR_TIMEOUT);
    EXPECT_EQ(gcoll_store_get_wait(limited.store, "k", value, sizeof value, &bytes, -1), GCOLL_ERR_INVALID);
    EXPECT_GCOLL_OK(gcoll_store_set(limited.store, "k", "value", 5));
    EXPECT_GCOLL_OK(gcoll_store_get_wait(limited.store, "k", value, sizeof value, &bytes, 1));
    EXPECT_EQ(std::string(value, bytes), "value");
    EXPECT_EQ(gcoll_store_get_wait(limited.store, "k", value, 2, &bytes, 1), GCOLL_ERR_INVALID);
    for (uint32_t lacks : {uint32_t(GCOLL_STORE_LACKS_GET), uint32_t(GCOLL_STORE_LACKS_WAIT)}) {
        gcoll_store_ops ops = ops_without(lacks);
        ops.get_wait = nullptr;
        gcoll_store *store = nullptr;
        EXPECT_EQ(gcoll_store_create(&ops, nullptr, &store), GCOLL_ERR_INVALID);
        EXPECT_NE(std::string(gcoll_last_error()).find("get_wait"), std::string::npos);
        EXPECT_EQ(store, nullptr);
    }
}

// Of a whole store, by its wait and get: also when the key comes later.
TEST(LimitedStoreCalls, AWholeStoreCanGetAndWait) {
    gcoll_store *store = nullptr;
    ASSERT_GCOLL_OK(gcoll_store_memory_create(&store));
    EXPECT_EQ(gcoll_store_lacks(store), 0u);
    std::thread later([store] { EXPECT_GCOLL_OK(gcoll_store_set(store, "k", "value", 5)); });
    char value[8];
    size_t bytes = 0;
    EXPECT_GCOLL_OK(gcoll_store_get_wait(store, "k", value, sizeof value, &bytes, 20000));
    EXPECT_EQ(std::string(value, bytes), "value");
    EXPECT_EQ(gcoll_store_get_wait(store, "other", value, sizeof value, &bytes, 0), GCOLL_ERR_TIMEOUT);
    later.join();
    gcoll_store_destroy(store);
}

// A key that is gone again when the wait for it has ended is waited for again, but not beyond the limit.
TEST(LimitedStoreCalls, AKeyThatComesAndGoesIsNotAwaitedForEver) {
    gcoll_test::Watchdog watchdog(20);
    Limited limited(0);
    gcoll_store *store = nullptr;
    limited.ops.wait = [](void *, const char *, int64_t) { return GCOLL_OK; };
    ASSERT_GCOLL_OK(gcoll_store_create(&limited.ops, &limited.user, &store));
    char value[8];
    size_t bytes = 0;
    for (int64_t wait_ms : {0, 20}) {
        EXPECT_EQ(gcoll_store_get_wait(store, "k", value, sizeof value, &bytes, wait_ms), GCOLL_ERR_TIMEOUT);
        EXPECT_NE(std::string(gcoll_last_error()).find("\"k\""), std::string::npos) << gcoll_last_error();
    }
    gcoll_store_destroy(store);
}

INSTANTIATE_TEST_SUITE_P(Transports, LimitedStores, transports(),
                         [](const auto &place) { return std::string(place.param); });

} // namespace
