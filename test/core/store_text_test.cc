// test/core/store_text_test.cc - tests that texts from the store are filtered before they reach a message or
// a log, because another program may have written them.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "test/kit/harness.h"

namespace {

using gcoll_test::Job;
using gcoll_test::told;

constexpr size_t kSignature = 78; // for which the view of a context has room
const std::string kEvil = "\x1b[2J\r\n\x07\x7f\xc2\x9b" + std::string(3000, 'y');

void expect_printable(const std::string &text) {
    EXPECT_LT(text.size(), 1024u);
    for (char c : text)
        ASSERT_TRUE(c >= ' ' && c <= '~') << "byte " << (c & 0xff) << " in: " << text;
}

// A view of a store that forges one kind of value. Each cause that a rank left ("!", a number, a text) ends
// in control characters and is long; or each address ("tcp1;...") has control characters.
struct Forger {
    gcoll_store *base = nullptr;
    const char *marks = "!"; // which values are forged, by their first byte
    std::atomic<uint32_t> forged{0};

    static gcoll_status set(void *self, const char *key, const void *value, size_t bytes) {
        return gcoll_store_set(static_cast<Forger *>(self)->base, key, value, bytes);
    }
    static gcoll_status get(void *self, const char *key, void *value, size_t capacity, size_t *bytes) {
        auto *forger = static_cast<Forger *>(self);
        gcoll_status status = gcoll_store_get(forger->base, key, value, capacity, bytes);
        if (status != GCOLL_OK || *bytes == 0 || !strchr(forger->marks, *static_cast<char *>(value)))
            return status;
        std::string text(static_cast<char *>(value), *bytes);
        text.insert(text[0] == '!' ? text.size() : 1, kEvil);
        *bytes = std::min(capacity - kSignature, text.size());
        memcpy(value, text.data(), *bytes);
        forger->forged++;
        return GCOLL_OK;
    }
    static gcoll_status wait(void *self, const char *key, int64_t timeout_ms) {
        return gcoll_store_wait(static_cast<Forger *>(self)->base, key, timeout_ms);
    }
    static gcoll_status add(void *self, const char *key, int64_t delta, int64_t *value) {
        return gcoll_store_add(static_cast<Forger *>(self)->base, key, delta, value);
    }
    static gcoll_status remove(void *self, const char *key) {
        return gcoll_store_remove(static_cast<Forger *>(self)->base, key);
    }
    static gcoll_status set_new(void *self, const char *key, const void *value, size_t bytes) {
        return gcoll_store_set_new(static_cast<Forger *>(self)->base, key, value, bytes);
    }
};

const gcoll_store_ops kForgerOps = {sizeof kForgerOps, "forger",    Forger::set,    Forger::get,
                                    Forger::wait,      Forger::add, Forger::remove, nullptr,
                                    Forger::set_new,   nullptr,     nullptr,        nullptr};

TEST(StoreTexts, WhatARankSaysOfAFailedJoinIsPrintable) {
    gcoll_test::Watchdog watchdog(60);
    Forger forger;
    gcoll_store *store = nullptr;
    ASSERT_GCOLL_OK(gcoll_store_memory_create(&forger.base));
    ASSERT_GCOLL_OK(gcoll_store_create(&kForgerOps, &forger, &store));
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < 3; rank++)
        threads.emplace_back([&, rank] {
            Job job;
            job.size = rank == 1 ? 4 : 3; // a size of its own, which all are told
            job.transport = "tcp";
            job.timeout_ms = 8000;
            gcoll_context_options options = gcoll_test::options_of(job, rank, store, nullptr);
            gcoll_context *context = nullptr;
            gcoll_status status = gcoll_context_create(&options, &context);
            EXPECT_EQ(status, rank == 1 ? GCOLL_ERR_MISMATCH : GCOLL_ERR_PEER) << told(status);
            EXPECT_NE(std::string(gcoll_last_error()).find("options.size"), std::string::npos)
                << gcoll_last_error();
            expect_printable(gcoll_last_error());
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_GE(forger.forged, 2u) << "nobody read a cause, so nothing is tested";
    gcoll_store_destroy(store);
    gcoll_store_destroy(forger.base);
}

// Ranks as threads, each with its own view of the store. `left`: how many have destroyed their contexts.
void run_over(const std::vector<gcoll_store *> &views, std::atomic<uint32_t> &left,
              const std::function<void(uint32_t rank, gcoll_context *context)> &body) {
    gcoll_test::Watchdog watchdog(60);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < views.size(); rank++)
        threads.emplace_back([&, rank] {
            Job job;
            job.size = static_cast<uint32_t>(views.size());
            job.transport = "tcp";
            job.adjust = [](uint32_t, gcoll_context_options *options) { options->tuning = "default"; };
            gcoll_context_options options = gcoll_test::options_of(job, rank, views[rank], nullptr);
            gcoll_context *context = nullptr;
            ASSERT_GCOLL_OK(gcoll_context_create(&options, &context));
            body(rank, context);
            gcoll_context_destroy(context);
            left++;
        });
    for (std::thread &thread : threads)
        thread.join();
}

// Rank 1 breaks before rank 0 has its address. Then the cause is in the place of the address.
TEST(StoreTexts, TheCauseThatARankLeftIsPrintable) {
    Forger forger;
    gcoll_store *forged = nullptr;
    ASSERT_GCOLL_OK(gcoll_store_memory_create(&forger.base));
    ASSERT_GCOLL_OK(gcoll_store_create(&kForgerOps, &forger, &forged));
    std::atomic<uint32_t> left{0};
    run_over({forged, forger.base}, left, [&](uint32_t rank, gcoll_context *context) {
        if (rank == 1) {
            gcoll_context_abort(context, "had enough");
            EXPECT_EQ(gcoll_barrier(context, nullptr), GCOLL_ERR_ABORTED);
            return;
        }
        EXPECT_TRUE(gcoll_test::await(left, 1));
        gcoll_status status = gcoll_barrier(context, nullptr);
        EXPECT_EQ(status, GCOLL_ERR_ABORTED) << told(status);
        EXPECT_NE(std::string(gcoll_last_error()).find("had enough"), std::string::npos)
            << gcoll_last_error();
        expect_printable(gcoll_last_error());
    });
    EXPECT_GE(forger.forged, 1u) << "the cause came another way, so nothing is tested";
    gcoll_store_destroy(forged);
    gcoll_store_destroy(forger.base);
}

// Rank 2 breaks, and rank 1 by its report; both leave the cause in the store. Rank 0 finds that of either.
// The reason reads like a report itself.
TEST(StoreTexts, ACauseNamesTheRankThatReportedItOnce) {
    for (uint32_t found : {1u, 2u}) {
        SCOPED_TRACE("the cause that rank " + std::to_string(found) + " left");
        gcoll_store *store = nullptr;
        ASSERT_GCOLL_OK(gcoll_store_memory_create(&store));
        std::atomic<uint32_t> met{0}, left{0};
        run_over({store, store, store}, left, [&](uint32_t rank, gcoll_context *context) {
            gcoll_pair *pair = nullptr;
            uint8_t byte = 0;
            EXPECT_GCOLL_OK(gcoll_context_pair(context, rank == 0 ? found : 3 - rank, &pair));
            if (rank == 1)
                EXPECT_GCOLL_OK(gcoll_pair_send(pair, 0, &byte, 1));
            if (rank == 2)
                EXPECT_GCOLL_OK(gcoll_pair_recv(pair, 0, &byte, 1));
            met++;
            EXPECT_TRUE(rank == 0 ? gcoll_test::await(left, 2) : gcoll_test::await(met, 3));
            if (rank == 2)
                gcoll_context_abort(context, "stop (reported by rank 7)");
            EXPECT_EQ(gcoll_pair_recv(pair, 1, &byte, 1), GCOLL_ERR_ABORTED);
            EXPECT_EQ(std::string(gcoll_last_error()),
                      std::string("rank 2 aborted: stop (reported by rank 7)") +
                          (rank == 2 ? "" : " (reported by rank 2)"));
        });
        gcoll_store_destroy(store);
    }
}

// An error quotes an address that no transport understands.
TEST(StoreTexts, AnAddressThatMakesNoSenseIsPrintable) {
    Forger forger;
    gcoll_store *forged = nullptr;
    ASSERT_GCOLL_OK(gcoll_store_memory_create(&forger.base));
    ASSERT_GCOLL_OK(gcoll_store_create(&kForgerOps, &forger, &forged));
    std::atomic<uint32_t> joined{0}, told_of{0}, left{0};
    run_over({forged, forger.base}, left, [&](uint32_t rank, gcoll_context *context) {
        joined++;
        EXPECT_TRUE(gcoll_test::await(joined, 2));
        if (rank == 0) {
            static const char address_begins[] = "t"; // "tcp1;..."
            forger.marks = address_begins;
            gcoll_pair *pair = nullptr;
            char byte = 0;
            EXPECT_GCOLL_OK(gcoll_context_pair(context, 1, &pair));
            EXPECT_NE(gcoll_pair_send(pair, 0, &byte, 1), GCOLL_OK);
            expect_printable(gcoll_last_error());
            forger.marks = "!";
            told_of++;
        }
        EXPECT_TRUE(gcoll_test::await(told_of, 1));
    });
    EXPECT_GE(forger.forged, 1u);
    gcoll_store_destroy(forged);
    gcoll_store_destroy(forger.base);
}

} // namespace
