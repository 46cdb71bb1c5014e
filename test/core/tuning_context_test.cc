// test/core/tuning_context_test.cc - tests of the costs by which contexts choose: measured at creation or
// read from a file, the same on every rank, and reported.
#include "test/algorithms/tuning_support.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

extern "C" {
#include "algorithms/select/tuning_file.h"
#include "gcoll/base/base.h"
}

namespace {

using namespace collective_support;
using namespace tuning_support;
using gcoll_test::Folder;
using gcoll_test::run_threads;

std::string explained(gcoll_context *context, uint64_t count) {
    char text[16384] = "";
    EXPECT_GCOLL_OK(gcoll_context_explain(context, GCOLL_ALLREDUCE, count, GCOLL_FLOAT32, GCOLL_SUM, 0,
                                          nullptr, text, sizeof text));
    return text;
}

// Returns the last line of the explanation.
std::string basis(gcoll_context *context, uint64_t count = 10) {
    std::string text = explained(context, count);
    size_t at = text.rfind('\n', text.size() - 2);
    return text.substr(at + 1);
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
    run_threads(
        job_of(3, "tcp", "fit"),
        [](uint32_t, gcoll_context *context) {
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

// Groups have none: their ranks are others.
TEST(File, ATourIsForTheRingsOfItsJob) {
    Folder folder;
    for (const std::string transport : {"inproc", "tcp"}) {
        const std::string path = file_in(folder, "gcoll-tuning 1\nfor transport=" + transport +
                                                     " ranks=4\ncost alpha_ns=5 beta_ps=300 gamma_ps=100\n"
                                                     "tour 2 0 3 1\n");
        run_threads(job_of(4, transport.c_str(), path.c_str()), [&](uint32_t rank, gcoll_context *context) {
            gcoll_context *other = nullptr, *group = nullptr;
            EXPECT_NE(lines(context).find("\ntour 2 0 3 1\n"), std::string::npos) << lines(context);
            ASSERT_GCOLL_OK(gcoll_context_duplicate(context, &other));
            ASSERT_GCOLL_OK(gcoll_context_split(context, 0, static_cast<int32_t>(4 - rank), &group));
            EXPECT_EQ(lines(group).find("tour"), std::string::npos) << lines(group);
            EXPECT_EQ(explained(group, 10000).find("tour_ring"), std::string::npos);
            const std::vector<double> want = small_sums(4, 10000);
            for (gcoll_context *c : {context, other}) {
                EXPECT_NE(explained(c, 10000).find("\n  tour_ring "), std::string::npos)
                    << explained(c, 10000);
                std::vector<float> data(10000), all(40000), part(2500);
                gcoll_allreduce_options options;
                gcoll_collective_options others;
                gcoll_allreduce_options_init(&options);
                gcoll_collective_options_init(&others);
                options.algorithm = others.algorithm = "tour_ring";
                for (uint64_t i = 0; i < data.size(); i++)
                    data[i] = small(rank, i);
                ASSERT_GCOLL_OK(
                    gcoll_allgather(c, data.data(), all.data(), data.size(), GCOLL_FLOAT32, &others));
                ASSERT_GCOLL_OK(gcoll_reduce_scatter(c, data.data(), part.data(), data.size() / 4,
                                                     GCOLL_FLOAT32, GCOLL_SUM, &others));
                ASSERT_GCOLL_OK(gcoll_allreduce(c, nullptr, data.data(), data.size(), GCOLL_FLOAT32,
                                                GCOLL_SUM, &options));
                for (uint64_t i = 0; i < data.size(); i++) {
                    ASSERT_EQ(data[i], static_cast<float>(want[i]));
                    for (uint32_t from = 0; from < 4; from++)
                        ASSERT_EQ(all[from * data.size() + i], small(from, i));
                    if (i < part.size())
                        ASSERT_EQ(part[i], static_cast<float>(want[rank * part.size() + i]));
                }
                ASSERT_EQ(gcoll_allreduce(group, nullptr, data.data(), 1, GCOLL_FLOAT32, GCOLL_SUM, &options),
                          GCOLL_ERR_UNSUPPORTED);
                EXPECT_NE(std::string(gcoll_last_error())
                              .find("tour_ring goes along a tour, and this context has none"),
                          std::string::npos)
                    << gcoll_last_error();
            }
            gcoll_context_destroy(group);
            gcoll_context_destroy(other);
        });
    }
}

TEST(File, ATourForAnotherPlacementIsNotUsedWithoutAWord) {
    Folder folder;
    const std::string path =
        file_in(folder, "gcoll-tuning 1\nfor transport=inproc ranks=2 local=1\ntour 1 0\n");
    std::string logs[2];
    Job job = job_of(2, "inproc", nullptr);
    job.adjust = [&](uint32_t rank, gcoll_context_options *options) {
        options->tuning = path.c_str();
        options->log_arg = &logs[rank];
        options->log = [](void *arg, gcoll_log_level, const char *text) {
            static_cast<std::string *>(arg)->append(text).append("\n");
        };
    };
    const char *const unused =
        "line 2: its tour is not used: local is 1, and 2 ranks share the processors of rank 0";
    run_threads(job, [unused](uint32_t, gcoll_context *context) {
        const std::string text = explained(context, 10000);
        EXPECT_EQ(text.find("tour_ring"), std::string::npos);
        EXPECT_NE(text.find(unused), std::string::npos) << text;
    });
    EXPECT_NE(logs[0].find(unused), std::string::npos) << logs[0];
}

TEST(File, DecidesWhereItKnowsTheShape) {
    Folder folder;
    std::string path = file_in(folder, kFile), gone = folder.path() + "/gone";
    Job job = job_of(4, "inproc", nullptr);
    // Only rank 0 has the file.
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

// The explanation names what the call does. This includes an algorithm that depends on which ranks share a
// host: this one serves only while that is unknown.
TEST(File, IsExplainedAsItIsDone) {
    Folder folder;
    std::string path = file_in(folder, "gcoll-tuning 1\n"
                                       "for transport=inproc ranks=4\n"
                                       "choose allreduce 0 - blind ring\n");
    static gcoll_algorithm blind = *gcoll_registry_find(nullptr, GCOLL_ALLREDUCE, "hierarchical");
    blind.name = "blind";
    blind.applies = [](const gcoll_problem *problem) {
        return problem->node == nullptr ? GCOLL_OK : gcoll_error(GCOLL_ERR_UNSUPPORTED, "sees hosts");
    };
    run_threads(job_of(4, "inproc", path.c_str()), [&](uint32_t, gcoll_context *context) {
        ASSERT_GCOLL_OK(gcoll_context_register(context, &blind));
        EXPECT_EQ(explained(context, 1000).rfind("allreduce of 1000 float32 by 4 ranks: ring\n", 0), 0u)
            << explained(context, 1000);
        float data[1000] = {};
        gcoll_operation *operation = nullptr;
        ASSERT_GCOLL_OK(gcoll_allreduce_create(context, nullptr, data, 1000, GCOLL_FLOAT32, GCOLL_SUM,
                                               nullptr, &operation));
        EXPECT_STREQ(gcoll_operation_algorithm(operation), "ring");
        EXPECT_EQ(basis(context, 1000), "chosen by line 3 of '" + path + "'\n");
        gcoll_operation_destroy(operation);
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); // hosts can be asked for while all are there
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

// An operation that does not commute cannot use the ring, which is first in the file.
TEST(File, WhatDoesNotServeIsPassedOver) {
    Folder folder;
    std::string path = file_in(folder, kFile);
    run_threads(job_of(4, "inproc", path.c_str()), [](uint32_t, gcoll_context *context) {
        gcoll_user_op op = {
            [](void *, const void *, const void *, uint64_t, gcoll_type, void *) { return GCOLL_OK; },
            nullptr, 0, 0};
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
            std::atomic<uint32_t> here{0};
            auto outcomes = create_all(size, "inproc", [&](uint32_t, gcoll_context_options *options) {
                options->tuning = row.path.c_str();
                here++; // rank 0 does not wait for long for others that are to hear of it
                EXPECT_TRUE(gcoll_test::await(here, size));
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

} // namespace
