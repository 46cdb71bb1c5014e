// test/core/fit_test.cc - tests of measuring costs when a context is created: the messages between rank 0 and
// its partners, and what all ranks are told if one fails.
#include "test/algorithms/tuning_support.h"

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using namespace tuning_support;
using gcoll_test::Folder;

// A store in which one rank fails or dies when it asks how costs are found, before it measures.
struct Trap {
    gcoll_store *base = nullptr;
    bool deadly = false, late = false, harmless = false; // late: only once what was agreed is known
    std::string forged;                                  // what the rank gets or sets instead
    std::atomic<uint32_t> overwritten{0};                // that it said what was agreed
};

bool ends(const std::string &key, const std::string &end) {
    return key.size() > end.size() && key.compare(key.size() - end.size(), end.size(), end) == 0;
}

gcoll_status trap_get(void *self, const char *key, void *value, size_t capacity, size_t *bytes) {
    auto *trap = static_cast<Trap *>(self);
    const std::string name = key;
    if (ends(name, "/tuning") && trap->deadly)
        _exit(0);
    if (ends(name, "/tuning") && trap->late) {
        const std::string agreed = name.substr(0, name.size() - 6) + "agreed";
        EXPECT_GCOLL_OK(gcoll_store_wait(trap->base, agreed.c_str(), 20000));
    }
    if (ends(name, "/tuning") && !trap->harmless)
        return gcoll_store_error(GCOLL_ERR_IO, "the trap");
    return gcoll_store_get(trap->base, key, value, capacity, bytes);
}

gcoll_status trap_set(void *self, const char *key, const void *value, size_t bytes) {
    auto *trap = static_cast<Trap *>(self);
    trap->overwritten += ends(key, "/agreed");
    if (ends(key, "/tuning") && !trap->forged.empty())
        return gcoll_store_set(trap->base, key, trap->forged.data(), trap->forged.size());
    return gcoll_store_set(trap->base, key, value, bytes);
}

gcoll_store *trapped(Trap *trap) {
    static const gcoll_store_ops ops = {
        sizeof ops,
        "trap",
        trap_set,
        trap_get,
        [](void *self, const char *key, int64_t timeout_ms) {
            return gcoll_store_wait(static_cast<Trap *>(self)->base, key, timeout_ms);
        },
        [](void *self, const char *key, int64_t delta, int64_t *value) {
            return gcoll_store_add(static_cast<Trap *>(self)->base, key, delta, value);
        },
        [](void *self, const char *key) { return gcoll_store_remove(static_cast<Trap *>(self)->base, key); },
        nullptr,
        nullptr,
        nullptr,
        nullptr,
        nullptr};
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_create(&ops, trap, &store));
    return store;
}

// Creates four contexts, one of which has the trap for its store.
std::map<uint32_t, std::string> create_with(Trap *trap, uint32_t who, const char *transport,
                                            const char *tuning, int64_t timeout_ms = 20000) {
    gcoll_store *store = nullptr;
    std::mutex lock;
    auto outcomes = create_all(4, transport, [&](uint32_t rank, gcoll_context_options *options) {
        std::lock_guard<std::mutex> guard(lock);
        options->tuning = tuning;
        options->timeout_ms = timeout_ms;
        if (rank != who)
            return;
        trap->base = options->store;
        options->store = store = trapped(trap);
    });
    gcoll_store_destroy(store);
    return outcomes;
}

TEST(FitFailure, OfAPartnerEndsTheMeasurement) {
    for (const char *transport : {"tcp", "inproc"}) {
        Trap trap;
        auto outcomes = create_with(&trap, 1, transport, "fit");
        for (const auto &outcome : outcomes)
            EXPECT_NE(outcome.second, "ok") << transport << " " << outcome.first;
        EXPECT_NE(outcomes[1].find("the trap"), std::string::npos) << outcomes[1];
        EXPECT_NE((outcomes[3] + outcomes[0]).find("rank 1"), std::string::npos)
            << outcomes[3] << outcomes[0];
    }
}

// Rank 0's decision stands, because other ranks may use it already.
TEST(FitFailure, AfterAllAgreedIsOneRanksOwn) {
    for (uint32_t who : {1u, 3u}) { // who would be measured with, and who would not
        Trap trap;
        trap.late = true;
        auto outcomes = create_with(&trap, who, "inproc", "default");
        for (const auto &outcome : outcomes)
            EXPECT_EQ(outcome.second == "ok", outcome.first != who) << outcome.first << outcome.second;
        EXPECT_EQ(trap.overwritten, 0u);
    }
}

// A rank does not answer because its store hangs: the first one that rank 0 asks, or the last one, when the
// other has finished.
TEST(FitFailure, AWedgedPartnerIsNamedByAll) {
    for (const char *transport : {"tcp", "inproc"}) {
        for (uint32_t wedged : {1u, 2u}) {
            Trap trap;
            trap.late = trap.harmless = true;
            auto outcomes = create_with(&trap, wedged, transport, "fit", 1500);
            const std::string text = "rank " + std::to_string(wedged) + " does not answer";
            for (uint32_t rank : {0u, 3 - wedged, 3u})
                EXPECT_NE(outcomes[rank].find(text), std::string::npos)
                    << transport << " " << rank << ": " << outcomes[rank];
            EXPECT_EQ(trap.overwritten, 0u);
        }
    }
}

TEST(FitFailure, ACrashOfAPartnerIsToldInTime) {
    Folder folder; // what a rank that died has left stays in it
    gcoll_test::Processes ranks(4, [&](uint32_t rank) {
        gcoll_store *store = nullptr;
        EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 10000, &store));
        Trap trap;
        trap.base = store;
        trap.deadly = true;
        gcoll_store *mine = rank == 1 ? trapped(&trap) : store;
        gcoll_context_options options;
        gcoll_context_options_init(&options);
        options.rank = rank;
        options.size = 4;
        options.store = mine;
        options.tuning = "fit";
        options.timeout_ms = 10000;
        gcoll_context *context = nullptr;
        int64_t start = gcoll_test::now_ms();
        gcoll_status status = gcoll_context_create(&options, &context);
        EXPECT_NE(status, GCOLL_OK);
        EXPECT_NE(std::string(gcoll_last_error()).find("rank 1"), std::string::npos) << gcoll_last_error();
        EXPECT_LT(gcoll_test::now_ms() - start, 15000);
        gcoll_context_destroy(context);
        gcoll_store_destroy(store);
        return 0;
    });
    ranks.expect_success(30000);
}

// ---- The measurement's own protocol ---------------------------------------------------------------------

std::vector<uint8_t> request_of(uint32_t bytes) {
    return {uint8_t(bytes), uint8_t(bytes >> 8), uint8_t(bytes >> 16), uint8_t(bytes >> 24)};
}

// A rank 0 that announces a measurement, makes none, and then asks without end.
std::string served(std::vector<uint8_t> request, uint32_t times, uint32_t *answers) {
    gcoll_store *store = nullptr, *mine = nullptr;
    gcoll_hub *hub = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_memory_create(&store));
    EXPECT_GCOLL_OK(gcoll_hub_create(2, &hub));
    Trap trap;
    trap.base = store;
    trap.harmless = true;
    trap.forged = "fit";
    mine = trapped(&trap);
    Job job = job_of(2, "inproc", "default");
    std::string outcome;
    std::thread partner([&] {
        gcoll_context_options options = gcoll_test::options_of(job, 1, store, hub);
        gcoll_context *context = nullptr;
        outcome = told(gcoll_context_create(&options, &context));
        gcoll_context_destroy(context);
    });
    gcoll_context_options options = gcoll_test::options_of(job, 0, mine, hub);
    options.tuning = "default";
    gcoll_context *context = nullptr;
    gcoll_pair *pair = nullptr;
    EXPECT_GCOLL_OK(gcoll_context_create(&options, &context));
    EXPECT_GCOLL_OK(gcoll_context_pair(context, 1, &pair));
    std::vector<uint8_t> data(512 << 10);
    for (*answers = 0; *answers < times; ++*answers)
        if (gcoll_pair_sendrecv(pair, UINT32_MAX, request.data(), request.size(), pair, UINT32_MAX,
                                data.data(), data.size()) != GCOLL_OK)
            break;
    partner.join();
    gcoll_context_destroy(context);
    gcoll_store_destroy(mine);
    gcoll_hub_destroy(hub);
    gcoll_store_destroy(store);
    return outcome;
}

TEST(FitProtocol, APartnerAnswersSoOftenAndSoMuch) {
    gcoll_test::Watchdog watchdog(60);
    uint32_t answers = 0;
    EXPECT_NE(served(request_of(4), 1000, &answers).find("rank 0 asks for more than 70 answers"),
              std::string::npos);
    EXPECT_EQ(answers, 69u); // as many as a measurement can want
    EXPECT_NE(
        served(request_of((256 << 10) + 1), 1, &answers).find("asks for 262145 bytes; allowed: up to 262144"),
        std::string::npos);
    EXPECT_EQ(answers, 0u);
}

// A store that tells its rank to measure nothing, and gives it a decision at once instead of rank 0's.
gcoll_store *indifferent(gcoll_store **base) {
    static const gcoll_store_ops ops = {
        sizeof ops,
        "indifferent",
        [](void *self, const char *key, const void *value, size_t bytes) {
            return gcoll_store_set(*static_cast<gcoll_store **>(self), key, value, bytes);
        },
        [](void *self, const char *key, void *value, size_t capacity, size_t *bytes) {
            std::string text = ends(key, "/tuning") ? "set" : "1";
            for (int i = 0; i < 7 && text[0] == '1'; i++)
                text += " 0000000000000000";
            text += text[0] == '1' ? " 0 inproc" : "";
            if (!ends(key, "/tuning") && !ends(key, "/agreed"))
                return gcoll_store_get(*static_cast<gcoll_store **>(self), key, value, capacity, bytes);
            memcpy(value, text.data(), *bytes = text.size());
            return GCOLL_OK;
        },
        [](void *self, const char *key, int64_t timeout_ms) {
            return ends(key, "/agreed")
                       ? GCOLL_OK
                       : gcoll_store_wait(*static_cast<gcoll_store **>(self), key, timeout_ms);
        },
        [](void *self, const char *key, int64_t delta, int64_t *value) {
            return gcoll_store_add(*static_cast<gcoll_store **>(self), key, delta, value);
        },
        [](void *self, const char *key) {
            return gcoll_store_remove(*static_cast<gcoll_store **>(self), key);
        },
        nullptr,
        nullptr,
        nullptr,
        nullptr,
        nullptr};
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_create(&ops, base, &store));
    return store;
}

// Measures costs with a partner that takes so long for an answer, which lacks so many bytes. Returns how
// often it was asked. *outcome: what rank 0's context goes by, or its error.
uint32_t measured(uint32_t pause_us, uint32_t lacks, std::string *outcome) {
    gcoll_store *store = nullptr;
    gcoll_hub *hub = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_memory_create(&store));
    EXPECT_GCOLL_OK(gcoll_hub_create(2, &hub));
    gcoll_store *mine = indifferent(&store);
    Job job = job_of(2, "inproc", "fit");
    uint32_t asked = 0;
    std::thread partner([&] {
        gcoll_context_options options = gcoll_test::options_of(job, 1, mine, hub);
        gcoll_context *context = nullptr;
        gcoll_pair *pair = nullptr;
        ASSERT_GCOLL_OK(gcoll_context_create(&options, &context));
        ASSERT_GCOLL_OK(gcoll_context_pair(context, 0, &pair));
        std::vector<uint8_t> request(4), data(256 << 10);
        gcoll_status status = GCOLL_OK;
        for (uint32_t bytes = 1; status == GCOLL_OK && bytes > 0;) {
            status = gcoll_pair_recv(pair, UINT32_MAX, request.data(), request.size());
            bytes = request[0] | request[1] << 8 | request[2] << 16;
            usleep(pause_us);
            if (status != GCOLL_OK || bytes == 0)
                break;
            asked++;
            status = gcoll_pair_send(pair, UINT32_MAX, data.data(), bytes - lacks);
        }
        gcoll_context_destroy(context);
    });
    gcoll_context_options options = gcoll_test::options_of(job, 0, store, hub);
    gcoll_context *context = nullptr;
    gcoll_status status = gcoll_context_create(&options, &context);
    *outcome = status == GCOLL_OK ? lines(context) : told(status);
    partner.join();
    gcoll_context_destroy(context);
    gcoll_store_destroy(mine);
    gcoll_hub_destroy(hub);
    gcoll_store_destroy(store);
    return asked;
}

// If an exchange takes long, rank 0 makes only a few. Here a partner answers after 6 ms.
TEST(FitProtocol, ASlowPartnerIsAskedSeldom) {
    gcoll_test::Watchdog watchdog(60);
    std::string outcome;
    EXPECT_EQ(measured(6000, 0, &outcome), 4u); // a first and a second small one, and larger ones
    EXPECT_NE(outcome.find("alpha_ns="), std::string::npos) << outcome;
}

// The time of a shorter message says nothing about the one that was asked for.
TEST(FitProtocol, ShortMessagesAreRefused) {
    gcoll_test::Watchdog watchdog(60);
    std::string outcome;
    EXPECT_EQ(measured(0, 1, &outcome), 1u);
    EXPECT_NE(outcome.find("rank 1 sent 3 bytes; allowed are 4"), std::string::npos) << outcome;
    uint32_t answers = 0;
    outcome = served({4, 0, 0}, 1, &answers);
    EXPECT_NE(outcome.find("rank 0 sent 3 bytes; allowed are 4"), std::string::npos) << outcome;
    EXPECT_EQ(answers, 0u);
}

// Messages of a measurement are none that the caller received.
TEST(FitProtocol, NoMessageOfItIsTheCallers) {
    gcoll_test::run_threads(
        job_of(3, "inproc", "fit"),
        [](uint32_t, gcoll_context *context) {
            EXPECT_NE(lines(context).find("alpha_ns="), std::string::npos) << lines(context);
            EXPECT_EQ(gcoll_context_last_received(context, nullptr, nullptr), GCOLL_ERR_STATE);
        });
}

} // namespace
