// What contexts go by: fitted when they are created, or from a file; the same on every rank, and told.
#include "collective_support.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

namespace {

using namespace collective_support;
using gcoll_test::Folder;
using gcoll_test::Job;
using gcoll_test::run_threads;
using gcoll_test::told;

std::string explained(gcoll_context *context, uint64_t count) {
    char text[16384] = "";
    EXPECT_GCOLL_OK(gcoll_context_explain(context, GCOLL_ALLREDUCE, count, GCOLL_FLOAT32, GCOLL_SUM, 0,
                                          nullptr, text, sizeof text));
    return text;
}

// The last line.
std::string basis(gcoll_context *context, uint64_t count = 10) {
    std::string text = explained(context, count);
    size_t at = text.rfind('\n', text.size() - 2);
    return text.substr(at + 1);
}

std::string lines(const gcoll_context *context) {
    char text[512] = "";
    EXPECT_GCOLL_OK(gcoll_context_tuning(context, text, sizeof text));
    return text;
}

Job job_of(uint32_t size, const char *transport, const char *tuning) {
    Job job;
    job.size = size;
    job.transport = transport;
    job.adjust = [tuning](uint32_t, gcoll_context_options *options) { options->tuning = tuning; };
    return job;
}

std::string file_in(const Folder &folder, const std::string &text, const char *name = "f.tuning") {
    std::string path = folder.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
}

struct Variable {
    explicit Variable(const char *value) { setenv("GCOLL_TUNING", value, 1); }
    ~Variable() { unsetenv("GCOLL_TUNING"); }
};

TEST(Fit, AllRanksGoByTheSame) {
    for (const char *transport : {"tcp", "inproc"})
        for (uint32_t size : {1u, 2u, 3u, 5u, 8u}) {
            std::mutex lock;
            std::set<std::string> seen;
            run_threads(job_of(size, transport, "fit"), [&](uint32_t rank, gcoll_context *context) {
                std::string all = lines(context);
                for (uint64_t count = 1; count < 100000; count *= 8)
                    all += explained(context, count);
                {
                    std::lock_guard<std::mutex> guard(lock);
                    seen.insert(all);
                }
                EXPECT_EQ(basis(context).find("fitted") != std::string::npos, size > 1) << basis(context);
                std::vector<float> data(1000);
                std::vector<double> want = small_sums(size, 1000);
                for (uint64_t i = 0; i < 1000; i++)
                    data[i] = small(rank, i);
                EXPECT_GCOLL_OK(
                    gcoll_allreduce(context, nullptr, data.data(), 1000, GCOLL_FLOAT32, GCOLL_SUM, nullptr));
                for (uint64_t i = 0; i < 1000; i++)
                    EXPECT_EQ(data[i], static_cast<float>(want[i]));
            });
            EXPECT_EQ(seen.size(), 1u) << transport << " " << size;
        }
}

TEST(Fit, NumbersAreOfThisWorldAndDuplicatesKeepThem) {
    run_threads(job_of(3, "tcp", "fit"), [](uint32_t, gcoll_context *context) {
        double alpha, beta, gamma;
        std::string text = lines(context);
        ASSERT_EQ(sscanf(text.c_str(),
                         "for transport=tcp ranks=3 local=3\ncost alpha_ns=%lf beta_ps=%lf gamma_ps=%lf",
                         &alpha, &beta, &gamma),
                  3)
            << text;
        EXPECT_GT(alpha, 100);
        EXPECT_LT(alpha, 1e9);
        EXPECT_GE(beta, 1);
        EXPECT_GE(gamma, 1);
        gcoll_context *other = nullptr;
        ASSERT_GCOLL_OK(gcoll_context_duplicate(context, &other));
        EXPECT_EQ(lines(other), text);
        EXPECT_EQ(basis(other), basis(context));
        EXPECT_GCOLL_OK(gcoll_barrier(other, nullptr));
        gcoll_context_destroy(other);
    });
}

const char kFile[] = "gcoll-tuning 1\n"
                     "for transport=inproc ranks=4\n"
                     "cost alpha_ns=5000 beta_ps=300 gamma_ps=100\n"
                     "choose allreduce 0 100 ring linear\n"
                     "choose allreduce 100 - linear:segment=1Ki\n";

TEST(File, DecidesWhereItKnowsTheShape) {
    Folder folder;
    std::string path = file_in(folder, kFile), gone = folder.path() + "/gone";
    Job job = job_of(4, "inproc", nullptr);
    // Only rank 0 has it.
    job.adjust = [&](uint32_t rank, gcoll_context_options *options) {
        options->tuning = rank == 0 ? path.c_str() : gone.c_str();
    };
    run_threads(job, [&](uint32_t, gcoll_context *context) {
        gcoll_context *other = nullptr;
        ASSERT_GCOLL_OK(gcoll_context_duplicate(context, &other));
        for (gcoll_context *c : {context, other}) {
            float data[50] = {};
            gcoll_operation *operation = nullptr;
            for (uint64_t count : {5, 50}) {
                ASSERT_GCOLL_OK(gcoll_allreduce_create(c, nullptr, data, count, GCOLL_FLOAT32, GCOLL_SUM,
                                                       nullptr, &operation));
                EXPECT_STREQ(gcoll_operation_algorithm(operation),
                             count == 5 ? "ring" : "linear:segment=1Ki");
                EXPECT_GCOLL_OK(gcoll_operation_run(operation));
                gcoll_operation_destroy(operation);
            }
            EXPECT_EQ(basis(c, 5), "chosen by line 4 of '" + path + "'\n");
            EXPECT_EQ(basis(c, 50), "chosen by line 5 of '" + path + "'\n");
            EXPECT_EQ(explained(c, 5).rfind("allreduce of 5 float32 by 4 ranks: ring\n", 0), 0u);
            char text[4096];
            ASSERT_GCOLL_OK(gcoll_context_explain(c, GCOLL_BROADCAST, 5, GCOLL_FLOAT32, GCOLL_SUM, 0, nullptr,
                                                  text, sizeof text));
            EXPECT_NE(std::string(text).find("chosen by cost: alpha 5.00 us"), std::string::npos) << text;
            EXPECT_NE(std::string(text).find("of line 3 of '"), std::string::npos) << text;
        }
        gcoll_context_destroy(other);
    });
}

TEST(File, OfAnotherNumberOfRanksGivesItsCosts) {
    Folder folder;
    std::string path = file_in(folder, kFile);
    run_threads(job_of(3, "inproc", path.c_str()), [&](uint32_t, gcoll_context *context) {
        EXPECT_NE(basis(context).find("chosen by cost: alpha 5.00 us"), std::string::npos) << basis(context);
        EXPECT_NE(basis(context).find("for 4 ranks, 4 on a host"), std::string::npos) << basis(context);
    });
    run_threads(job_of(4, "tcp", path.c_str()), [&](uint32_t, gcoll_context *context) {
        EXPECT_NE(basis(context).find("alpha 6.00 us"), std::string::npos) << basis(context);
        EXPECT_NE(basis(context).find("built in"), std::string::npos) << basis(context);
    });
}

// An operation that does not commute cannot go by ring, which the file has first.
TEST(File, WhatDoesNotServeIsPassedOver) {
    Folder folder;
    std::string path = file_in(folder, kFile);
    run_threads(job_of(4, "inproc", path.c_str()), [](uint32_t, gcoll_context *context) {
        gcoll_user_op op = {[](void *, const void *, const void *, uint64_t, gcoll_type, void *) {}, nullptr,
                            0};
        gcoll_collective_options options;
        gcoll_collective_options_init(&options);
        options.user_op = &op;
        char text[8192];
        ASSERT_GCOLL_OK(gcoll_context_explain(context, GCOLL_ALLREDUCE, 5, GCOLL_FLOAT32, GCOLL_USER, 0,
                                              &options, text, sizeof text));
        EXPECT_EQ(std::string(text).rfind("allreduce of 5 float32 by 4 ranks: linear\n", 0), 0u) << text;
    });
}

TEST(Precedence, OptionThenVariableThenFit) {
    Folder folder;
    std::string path = file_in(folder, kFile);
    Variable variable(path.c_str());
    const gcoll_cost_parameters cost = {1, 2, 3};
    const struct {
        const char *tuning;
        bool cost;
        const char *says;
    } table[] = {{nullptr, false, "line 3 of"},
                 {"", false, "line 3 of"},
                 {"default", false, "built in"},
                 {"fit", false, "fitted"},
                 {nullptr, true, "given by options.cost"}};
    for (const auto &row : table) {
        Job job = job_of(4, "inproc", row.tuning);
        job.adjust = [&](uint32_t, gcoll_context_options *options) {
            options->tuning = row.tuning;
            options->cost = row.cost ? &cost : nullptr;
        };
        run_threads(job, [&](uint32_t, gcoll_context *context) {
            char text[8192];
            ASSERT_GCOLL_OK(gcoll_context_explain(context, GCOLL_BROADCAST, 5, GCOLL_FLOAT32, GCOLL_SUM, 0,
                                                  nullptr, text, sizeof text));
            EXPECT_NE(std::string(text).find(row.says), std::string::npos) << text;
        });
    }
    gcoll_context_options options;
    gcoll_context_options_init(&options);
    options.cost = &cost;
    options.tuning = "fit";
    gcoll_context *context = nullptr;
    EXPECT_EQ(gcoll_context_create(&options, &context), GCOLL_ERR_INVALID);
    EXPECT_NE(std::string(gcoll_last_error()).find("options.tuning"), std::string::npos)
        << gcoll_last_error();
}

// ---- Failures -------------------------------------------------------------------------------------------

// What each rank's creation came to.
std::map<uint32_t, std::string>
create_all(uint32_t size, const char *transport,
           const std::function<void(uint32_t, gcoll_context_options *)> &adjust) {
    gcoll_test::Watchdog watchdog(60);
    gcoll_store *store = nullptr;
    gcoll_hub *hub = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_memory_create(&store));
    EXPECT_GCOLL_OK(gcoll_hub_create(size, &hub));
    std::mutex lock;
    std::map<uint32_t, std::string> outcomes;
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < size; rank++)
        threads.emplace_back([&, rank] {
            gcoll_context_options options;
            gcoll_context_options_init(&options);
            options.rank = rank;
            options.size = size;
            options.store = store;
            options.hub = hub;
            options.transport = transport;
            options.timeout_ms = 20000;
            adjust(rank, &options);
            gcoll_context *context = nullptr;
            std::string outcome = told(gcoll_context_create(&options, &context));
            gcoll_context_destroy(context);
            std::lock_guard<std::mutex> guard(lock);
            outcomes[rank] = outcome;
        });
    for (std::thread &thread : threads)
        thread.join();
    gcoll_hub_destroy(hub);
    gcoll_store_destroy(store);
    return outcomes;
}

TEST(Failure, OfTheFileIsToldOnEveryRank) {
    Folder folder;
    const std::string bad = file_in(folder, "gcoll-tuning 1\nfor transport=tcp ranks=no\n", "bad");
    const std::string huge = file_in(folder, "gcoll-tuning 1\n" + std::string(70000, '#'), "huge");
    const std::string empty = file_in(folder, "", "empty"), gone = folder.path() + "/gone";
    const struct {
        std::string path, says;
    } table[] = {{bad, "line 2: ranks: found 'no'"},
                 {huge, "allowed: up to 61440"},
                 {empty, "line 1: version"},
                 {gone, "cannot be opened: No such file"},
                 {folder.path(), "is no regular file"},
                 {folder.path() + "/two\nlines", "more than one line for a name"},
                 {"/dev/zero", "is no regular file"}};
    for (const auto &row : table)
        for (uint32_t size : {1u, 3u}) {
            auto outcomes = create_all(size, "inproc", [&](uint32_t, gcoll_context_options *options) {
                options->tuning = row.path.c_str();
            });
            for (const auto &outcome : outcomes)
                EXPECT_NE(outcome.second.find(row.says), std::string::npos)
                    << "rank " << outcome.first << ": " << outcome.second;
        }
}

TEST(Failure, CostsThatDifferNameTheRank) {
    const gcoll_cost_parameters ours = {1, 2, 3}, theirs = {1, 2, 4};
    auto outcomes = create_all(3, "inproc", [&](uint32_t rank, gcoll_context_options *options) {
        options->cost = rank == 2 ? &theirs : &ours;
    });
    EXPECT_EQ(outcomes[0], "ok");
    EXPECT_NE(outcomes[2].find("options.cost: rank 2 has alpha 1, beta 2, gamma 4"), std::string::npos)
        << outcomes[2];
}

TEST(Failure, NoneForCostsOfAnySize) {
    const gcoll_cost_parameters cost = {1e300, 1e100, 0};
    for (const auto &outcome :
         create_all(3, "inproc", [&](uint32_t, gcoll_context_options *options) { options->cost = &cost; }))
        EXPECT_EQ(outcome.second, "ok") << outcome.first;
}

// A store through which one rank fails, or dies, where it asks how costs are found: before it measures.
struct Trap {
    gcoll_store *base;
    bool deadly;
};

gcoll_status trap_get(void *self, const char *key, void *value, size_t capacity, size_t *bytes) {
    auto *trap = static_cast<Trap *>(self);
    if (strlen(key) > 7 && strcmp(key + strlen(key) - 7, "/tuning") == 0) {
        if (trap->deadly)
            _exit(0);
        return gcoll_store_error(GCOLL_ERR_IO, "the trap");
    }
    return gcoll_store_get(trap->base, key, value, capacity, bytes);
}

gcoll_store *trapped(Trap *trap) {
    static const gcoll_store_ops ops = {
        sizeof ops,
        "trap",
        [](void *self, const char *key, const void *value, size_t bytes) {
            return gcoll_store_set(static_cast<Trap *>(self)->base, key, value, bytes);
        },
        trap_get,
        [](void *self, const char *key, int64_t timeout_ms) {
            return gcoll_store_wait(static_cast<Trap *>(self)->base, key, timeout_ms);
        },
        [](void *self, const char *key, int64_t delta, int64_t *value) {
            return gcoll_store_add(static_cast<Trap *>(self)->base, key, delta, value);
        },
        [](void *self, const char *key) { return gcoll_store_remove(static_cast<Trap *>(self)->base, key); },
        nullptr};
    gcoll_store *store = nullptr;
    EXPECT_GCOLL_OK(gcoll_store_create(&ops, trap, &store));
    return store;
}

TEST(Failure, OfAPartnerEndsTheMeasurement) {
    for (const char *transport : {"tcp", "inproc"}) {
        Trap trap = {nullptr, false};
        gcoll_store *store = nullptr;
        std::mutex lock;
        auto outcomes = create_all(4, transport, [&](uint32_t rank, gcoll_context_options *options) {
            options->tuning = "fit";
            std::lock_guard<std::mutex> guard(lock);
            if (rank != 1)
                return;
            trap.base = options->store;
            options->store = store = trapped(&trap);
        });
        for (const auto &outcome : outcomes)
            EXPECT_NE(outcome.second, "ok") << transport << " " << outcome.first;
        EXPECT_NE(outcomes[1].find("the trap"), std::string::npos) << outcomes[1];
        EXPECT_NE((outcomes[3] + outcomes[0]).find("rank 1"), std::string::npos)
            << outcomes[3] << outcomes[0];
        gcoll_store_destroy(store);
    }
}

TEST(Failure, ACrashOfAPartnerIsToldInTime) {
    Folder folder; // what a rank that died has left stays in it
    gcoll_test::Processes ranks(4, [&](uint32_t rank) {
        gcoll_store *store = nullptr;
        EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 10000, &store));
        Trap trap = {store, true};
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

} // namespace
