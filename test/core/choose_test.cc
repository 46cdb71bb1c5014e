// test/core/choose_test.cc - tests of the algorithm that a context chooses: with registered algorithms,
// limits of memory and several hosts; and of the text that explains the choice.
#include "test/kit/collective_support.h"

#include <fstream>
#include <map>
#include <mutex>
#include <set>

namespace {

using namespace collective_support;
using gcoll_test::Job;
using gcoll_test::run_threads;
using gcoll_test::told;

// ---- An algorithm of the caller's -----------------------------------------------------------------------

// Reduces along a chain to the last rank, and passes the result back.
void plan_chain(const gcoll_problem *p, gcoll_builder *b) {
    const gcoll_ref out = gcoll_out(0, 0);
    if (p->size == 1)
        gcoll_plan_copy(b, out, gcoll_in(0, 0), p->count);
    if (p->rank > 0)
        gcoll_plan_recv_reduce_left(b, p->rank - 1, out, gcoll_in(0, 0), p->count);
    if (p->rank + 1 < p->size) {
        gcoll_plan_send(b, p->rank + 1, p->rank > 0 ? out : gcoll_in(0, 0), p->count);
        gcoll_plan_recv(b, p->rank + 1, out, p->count);
    }
    if (p->rank > 0)
        gcoll_plan_send(b, p->rank - 1, out, p->count);
}

uint32_t chain_claims(const gcoll_problem *p) {
    return gcoll_left_claims(p);
}

void dear(const gcoll_problem *p, gcoll_cost *cost) {
    *cost = {1e6, 1e6 * static_cast<double>(p->count), 0, 0};
}

void cheap(const gcoll_problem *, gcoll_cost *cost) {
    *cost = {0.001, 0, 0, 0};
}

gcoll_algorithm chain_of(const char *name, void (*cost)(const gcoll_problem *, gcoll_cost *)) {
    gcoll_algorithm algorithm = {};
    algorithm.name = name;
    algorithm.collective = GCOLL_ALLREDUCE;
    algorithm.summary = "to the last rank and back";
    algorithm.source = "none";
    algorithm.plan = plan_chain;
    algorithm.claims = chain_claims;
    algorithm.cost = cost;
    return algorithm;
}

std::string taken(gcoll_context *context, const char *algorithm, uint64_t limit = 0) {
    float data[50];
    gcoll_allreduce_options options = by(algorithm);
    options.memory_limit_bytes = limit;
    gcoll_operation *operation = nullptr;
    gcoll_status status =
        gcoll_allreduce_create(context, nullptr, data, 50, GCOLL_FLOAT32, GCOLL_SUM, &options, &operation);
    std::string name = status == GCOLL_OK ? gcoll_operation_algorithm(operation) : told(status);
    gcoll_operation_destroy(operation);
    return name;
}

// With costs for bytes only, auto chooses the fewest bytes; with costs for messages only, the fewest
// messages.
TEST(Auto, ReckonsWithTheContextsNumbers) {
    const gcoll_cost_parameters latency = {1, 0, 0}, bandwidth = {0, 1, 0};
    std::mutex lock;
    std::map<const gcoll_cost_parameters *, std::set<std::string>> names;
    for (const gcoll_cost_parameters *cost : {&latency, &bandwidth}) {
        Job job;
        job.size = 5;
        job.adjust = [cost](uint32_t, gcoll_context_options *options) { options->cost = cost; };
        run_threads(job, [&](uint32_t, gcoll_context *context) {
            gcoll_context *other = nullptr;
            ASSERT_GCOLL_OK(gcoll_context_duplicate(context, &other));
            for (gcoll_context *c : {context, other}) {
                std::string name = taken(c, nullptr);
                std::lock_guard<std::mutex> guard(lock);
                names[cost].insert(name);
            }
            gcoll_context_destroy(other);
        });
    }
    EXPECT_EQ(names[&latency], std::set<std::string>{"group_butterfly:r=3"});
    ASSERT_EQ(names[&bandwidth].size(), 1u);
    EXPECT_EQ(names[&bandwidth].count("group_butterfly:r=3"), 0u);
}

TEST(Registered, ServesByNameAndByCost) {
    static const gcoll_algorithm slow = chain_of("slow_chain", dear), fast = chain_of("fast_chain", cheap);
    run_threads(4, "tcp", [](uint32_t rank, gcoll_context *context) {
        EXPECT_NE(taken(context, "slow_chain").find("allowed"), std::string::npos);
        std::string before = taken(context, nullptr);
        EXPECT_GCOLL_OK(gcoll_context_register(context, &slow));
        EXPECT_EQ(taken(context, nullptr), before);
        EXPECT_EQ(taken(context, "slow_chain"), "slow_chain");
        EXPECT_GCOLL_OK(gcoll_context_register(context, &fast));
        EXPECT_EQ(taken(context, nullptr), "fast_chain")
            << "what auto chose before is not taken from the cache";
        EXPECT_EQ(gcoll_context_register(context, &fast), GCOLL_ERR_INVALID) << "twice";
        EXPECT_EQ(gcoll_context_register(context, nullptr), GCOLL_ERR_INVALID);
        EXPECT_EQ(gcoll_context_register(nullptr, &fast), GCOLL_ERR_INVALID);

        gcoll_context *other = nullptr;
        ASSERT_GCOLL_OK(gcoll_context_duplicate(context, &other));
        for (gcoll_context *c : {context, other})
            for (const char *name : {"slow_chain", "fast_chain", "slow_chain:segment=64", "auto"}) {
                std::vector<float> data(100);
                std::vector<double> want = small_sums(4, 100);
                for (uint64_t i = 0; i < 100; i++)
                    data[i] = small(rank, i);
                gcoll_allreduce_options options = by(name);
                EXPECT_GCOLL_OK(
                    gcoll_allreduce(c, nullptr, data.data(), 100, GCOLL_FLOAT32, GCOLL_SUM, &options));
                for (uint64_t i = 0; i < 100; i++)
                    EXPECT_EQ(data[i], static_cast<float>(want[i])) << name;
            }
        EXPECT_EQ(taken(other, nullptr), "fast_chain") << "a duplicate has it too";
        gcoll_context_destroy(other);
    });
}

// ---- What enters a choice --------------------------------------------------------------------------------

// Arguments of the cost function, from all ranks together.
std::atomic<uint64_t> ranks_seen{0}, in_place_seen{0}, buffers_seen{0}, least_seen{0}, most_seen{0};

void note_cost(const gcoll_problem *p, gcoll_cost *cost) {
    uint64_t total = p->count;
    for (uint32_t r = 0; p->recv_offsets && r <= p->size; r++)
        total += p->offsets[r] * (r + 1) + p->recv_offsets[r] * (r + 7);
    for (uint64_t least = least_seen; total < least && !least_seen.compare_exchange_weak(least, total);) {
    }
    for (uint64_t most = most_seen; total > most && !most_seen.compare_exchange_weak(most, total);) {
    }
    ranks_seen |= p->rank;
    in_place_seen |= p->in_place;
    buffers_seen |= p->buffers;
    *cost = {1e9, 1e9, 0, 0};
}

TEST(Choice, GoesByWhatAllRanksHaveInCommon) {
    static gcoll_algorithm noting[3] = {chain_of("noting", note_cost), chain_of("noting", note_cost),
                                        chain_of("noting", note_cost)};
    noting[1].collective = GCOLL_ALLTOALL;
    noting[2].collective = GCOLL_REDUCE;
    for (int what = 0; what < 3; what++) {
        ranks_seen = in_place_seen = buffers_seen = most_seen = 0;
        least_seen = UINT64_MAX;
        run_threads(3, "inproc", [what](uint32_t rank, gcoll_context *context) {
            std::vector<float> in(3000, 1.0f), out(3000);
            gcoll_operation *operation = nullptr;
            ASSERT_GCOLL_OK(gcoll_context_register(context, &noting[what]));
            const uint64_t sent[3] = {rank * 10 + 1, rank * 20 + 2, rank * 300};
            uint64_t received[3] = {5, 70, 0}; // nothing is sent: ranks need not agree
            received[rank] = sent[rank];
            if (what == 0) {
                const void *buffers[3] = {in.data(), in.data() + 50, in.data() + 100};
                gcoll_allreduce_options options = by(nullptr);
                options.inputs = buffers;
                options.buffers = rank + 1;
                ASSERT_GCOLL_OK(gcoll_allreduce_create(context, nullptr, nullptr, 50, GCOLL_FLOAT32,
                                                       GCOLL_SUM, &options, &operation));
            } else if (what == 1) {
                ASSERT_GCOLL_OK(gcoll_alltoall_v_create(context, in.data(), out.data(), sent, received,
                                                        GCOLL_FLOAT32, nullptr, &operation));
            } else {
                ASSERT_GCOLL_OK(gcoll_reduce_create(context, rank == 1 ? nullptr : in.data(), out.data(), 50,
                                                    GCOLL_FLOAT32, GCOLL_SUM, 1, nullptr, &operation));
            }
            gcoll_operation_destroy(operation);
        });
        EXPECT_EQ(ranks_seen.load(), 0u) << what;
        EXPECT_EQ(in_place_seen.load(), 0u) << what;
        EXPECT_EQ(buffers_seen.load(), 1u) << what;
        EXPECT_EQ(least_seen.load(), most_seen.load()) << what;
        EXPECT_GT(most_seen.load(), 0u) << what;
    }
}

// ---- Limits of memory -----------------------------------------------------------------------------------

void plan_greedy(const gcoll_problem *p, gcoll_builder *b) {
    gcoll_plan_scratch(b, 1000);
    plan_chain(p, b);
}

void greedy_cost(const gcoll_problem *, gcoll_cost *cost) {
    *cost = {0.0001, 0, 0, 1000};
}

void false_cost(const gcoll_problem *, gcoll_cost *cost) {
    *cost = {0.0001, 0, 0, 10};
}

TEST(MemoryLimit, AutoObeysAndNamedOnesAreRefused) {
    static const gcoll_algorithm modest = chain_of("modest", cheap);
    static gcoll_algorithm greedy = chain_of("greedy", greedy_cost), liar = chain_of("liar", false_cost);
    greedy.plan = liar.plan = plan_greedy;
    run_threads(3, "inproc", [](uint32_t, gcoll_context *context) {
        ASSERT_GCOLL_OK(gcoll_context_register(context, &modest));
        ASSERT_GCOLL_OK(gcoll_context_register(context, &greedy));
        EXPECT_EQ(taken(context, nullptr), "greedy");
        EXPECT_EQ(taken(context, nullptr, 4000), "greedy");
        EXPECT_EQ(taken(context, nullptr, 3999), "modest");
        EXPECT_EQ(taken(context, nullptr, 1), "modest");
        EXPECT_EQ(taken(context, "greedy", 4000), "greedy");
        std::string refused = taken(context, "greedy", 3999);
        EXPECT_NE(refused.find("4000 bytes"), std::string::npos) << refused;
        EXPECT_NE(refused.find("3999"), std::string::npos) << refused;
        ASSERT_GCOLL_OK(gcoll_context_register(context, &liar));
        EXPECT_EQ(taken(context, "liar", 4000), "liar");
        EXPECT_NE(taken(context, "liar", 3999).find("1000 elements"), std::string::npos);
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
    });
}

// ---- Algorithms that do not apply -----------------------------------------------------------------------

gcoll_status refuse(const gcoll_problem *p) {
    return gcoll_unsupported("not with %u ranks", p->size);
}

uint32_t claims_of_refused(const gcoll_problem *) {
    ADD_FAILURE() << "claims are asked for";
    return 0;
}

void cost_of_refused(const gcoll_problem *, gcoll_cost *cost) {
    ADD_FAILURE() << "the cost is asked for";
    *cost = {0, 0, 0, 0};
}

TEST(Refused, NothingElseIsAskedAndTheReasonTold) {
    static gcoll_algorithm picky = chain_of("picky", cost_of_refused);
    picky.applies = refuse;
    picky.claims = claims_of_refused;
    run_threads(3, "inproc", [](uint32_t, gcoll_context *context) {
        ASSERT_GCOLL_OK(gcoll_context_register(context, &picky));
        EXPECT_NE(taken(context, nullptr), "picky");
        EXPECT_NE(taken(context, nullptr, 4000), "picky");
        for (uint64_t limit : {0, 4000}) {
            std::string refused = taken(context, "picky", limit);
            EXPECT_NE(refused.find("not with 3 ranks"), std::string::npos) << refused;
        }
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
    });
}

// ---- Hosts ----------------------------------------------------------------------------------------------

std::atomic<uint32_t> hosts_seen{0};

void plan_by_hosts(const gcoll_problem *p, gcoll_builder *b) {
    for (uint32_t rank = 0; rank < p->size; rank++)
        hosts_seen += p->node && p->node[rank] == 0; // all of a test are on one
    plan_chain(p, b);
}

TEST(Hosts, AreLookedUpForAnAlgorithmThatAsks) {
    static gcoll_algorithm by_hosts = chain_of("by_hosts", cheap), careless = chain_of("careless", cheap);
    by_hosts.plan = careless.plan = plan_by_hosts;
    by_hosts.uses_node = true;
    for (const char *transport : {"tcp", "inproc"}) {
        hosts_seen = 0;
        run_threads(3, transport, [](uint32_t, gcoll_context *context) {
            ASSERT_GCOLL_OK(gcoll_context_register(context, &by_hosts));
            ASSERT_GCOLL_OK(gcoll_context_register(context, &careless));
            EXPECT_EQ(taken(context, nullptr), "by_hosts") << "auto does not look, and takes it as it is";
            EXPECT_EQ(taken(context, "careless"), "careless");
            EXPECT_EQ(hosts_seen.load(), 0u);
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); // all have looked at the counter
            gcoll_context *other = nullptr;
            ASSERT_GCOLL_OK(gcoll_context_duplicate(context, &other));
            EXPECT_EQ(taken(context, "by_hosts"), "by_hosts");
            EXPECT_EQ(taken(other, "by_hosts"), "by_hosts");
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); // nobody leaves before all have looked
            EXPECT_GCOLL_OK(gcoll_barrier(other, nullptr));
            gcoll_context_destroy(other);
        });
        EXPECT_EQ(hosts_seen.load(), 2 * 3 * 3u) << transport;
    }
}

// A tuning file's rule was measured with the algorithm given by name, where hosts are looked up. So the rule
// looks them up, too.
TEST(Hosts, AreLookedUpForARuleAsByName) {
    static gcoll_algorithm by_hosts = chain_of("by_hosts", cheap);
    by_hosts.plan = plan_by_hosts;
    by_hosts.uses_node = true;
    gcoll_test::Folder folder;
    const std::string path = folder.path() + "/f.tuning";
    std::ofstream(path) << "gcoll-tuning 1\nfor transport=inproc ranks=3\nchoose allreduce 0 - by_hosts\n";
    Job job;
    job.size = 3;
    job.transport = "inproc";
    job.adjust = [&](uint32_t, gcoll_context_options *options) { options->tuning = path.c_str(); };
    hosts_seen = 0;
    run_threads(job, [](uint32_t, gcoll_context *context) {
        ASSERT_GCOLL_OK(gcoll_context_register(context, &by_hosts));
        EXPECT_EQ(taken(context, nullptr), "by_hosts");
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); // nobody leaves before all have looked
    });
    EXPECT_EQ(hosts_seen.load(), 3 * 3u);
}

// One rank names the algorithm that auto takes on the other rank. The algorithm is the same, but not the
// plan.
TEST(Hosts, NamingIsNotChoosing) {
    static gcoll_algorithm by_hosts = chain_of("by_hosts", cheap);
    by_hosts.uses_node = true;
    run_threads(2, "tcp", [](uint32_t rank, gcoll_context *context) {
        float data[5] = {};
        gcoll_allreduce_options options = by(rank == 0 ? "by_hosts" : "auto");
        ASSERT_GCOLL_OK(gcoll_context_register(context, &by_hosts));
        gcoll_status status = gcoll_allreduce(context, nullptr, data, 5, GCOLL_FLOAT32, GCOLL_SUM, &options);
        if (status == GCOLL_OK)
            status = gcoll_barrier(context, nullptr);
        EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
        EXPECT_NE(std::string(gcoll_last_error()).find("chosen by auto"), std::string::npos)
            << gcoll_last_error();
    });
}

TEST(Hosts, OfRanksThatLeftAreMissedByName) {
    for (const char *transport : {"inproc", "tcp"}) {
        Job job;
        job.size = 3;
        job.transport = transport;
        gcoll_test::Group group(job);
        gcoll_allreduce_options options = by("hierarchical");
        float data[5] = {};
        group.leave(2);
        for (uint32_t rank = 0; rank < 2; rank++) {
            EXPECT_EQ(gcoll_allreduce(group[rank], nullptr, data, 5, GCOLL_FLOAT32, GCOLL_SUM, &options),
                      GCOLL_ERR_PEER);
            EXPECT_NE(std::string(gcoll_last_error()).find("rank 2 left the job"), std::string::npos)
                << gcoll_last_error();
            EXPECT_EQ(gcoll_context_culprit(group[rank]), 2);
        }
    }
}

// ---- What it says ---------------------------------------------------------------------------------------

TEST(Explain, NamesTheChoiceAndItsRunnersUp) {
    run_threads(
        4, "inproc",
        [](uint32_t, gcoll_context *context) {
            for (int c = 0; c < GCOLL_COLLECTIVE_COUNT; c++) {
                auto what = static_cast<gcoll_collective>(c);
                char text[8192];
                ASSERT_GCOLL_OK(gcoll_context_explain(context, what, 1000, GCOLL_FLOAT32, GCOLL_SUM, 1,
                                                      nullptr, text, sizeof text));
                std::string all = text, first = all.substr(0, all.find('\n'));
                for (const std::string &name : gcoll_test::algorithms(gcoll_collective_name(what)))
                    EXPECT_EQ(all.find("\n  " + name) == std::string::npos, name.rfind("cuda_", 0) == 0)
                        << name << " (other rows under another name are left out) in " << all;
                // The first line names an algorithm that the lines below it list.
                std::string choice = first.substr(first.rfind(' ') + 1);
                EXPECT_EQ(all.find("\n  " + choice), first.size()) << all;
                EXPECT_EQ(first.rfind(gcoll_collective_name(what), 0), 0u) << first;
            }
            char text[8192], tiny[10];
            ASSERT_GCOLL_OK(gcoll_context_explain(context, GCOLL_ALLREDUCE, 50, GCOLL_FLOAT32, GCOLL_SUM, 0,
                                                  nullptr, text, sizeof text));
            std::string all = text, first = all.substr(0, all.find('\n'));
            EXPECT_EQ(first.substr(first.rfind(' ') + 1), taken(context, nullptr)) << "what is run";
            ASSERT_GCOLL_OK(gcoll_context_explain(context, GCOLL_ALLREDUCE, 50, GCOLL_FLOAT32, GCOLL_SUM, 0,
                                                  nullptr, tiny, sizeof tiny));
            EXPECT_EQ(std::string(tiny), all.substr(0, 9));
            // An operation that does not commute excludes some algorithms, and the text says why.
            gcoll_user_op op = {
                [](void *, const void *, const void *, uint64_t, gcoll_type, void *) { return GCOLL_OK; },
                nullptr, 0, 0};
            gcoll_collective_options options;
            gcoll_collective_options_init(&options);
            options.user_op = &op;
            ASSERT_GCOLL_OK(gcoll_context_explain(context, GCOLL_ALLREDUCE, 50, GCOLL_FLOAT32, GCOLL_USER, 0,
                                                  &options, text, sizeof text));
            EXPECT_NE(std::string(text).find("no: does not keep rank order"), std::string::npos) << text;
            EXPECT_EQ(gcoll_context_explain(context, GCOLL_ALLREDUCE, 50, GCOLL_FLOAT32, GCOLL_SUM, 0,
                                            nullptr, nullptr, 10),
                      GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_explain(context, GCOLL_COLLECTIVE_COUNT, 50, GCOLL_FLOAT32, GCOLL_SUM, 0,
                                            nullptr, text, sizeof text),
                      GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_explain(context, GCOLL_REDUCE, 50, GCOLL_FLOAT32, GCOLL_SUM, 4, nullptr,
                                            text, sizeof text),
                      GCOLL_ERR_INVALID);
        });
}

struct Log {
    std::mutex lock;
    std::vector<std::string> lines;
};

TEST(Explain, TheLogNamesEachShapeOnce) {
    Log log;
    Job job;
    job.size = 1;
    job.adjust = [&](uint32_t, gcoll_context_options *options) {
        options->log_arg = &log;
        options->log = [](void *arg, gcoll_log_level level, const char *text) {
            auto *self = static_cast<Log *>(arg);
            std::lock_guard<std::mutex> guard(self->lock);
            if (level == GCOLL_LOG_INFO && std::string(text).find(" of 77 float32: ") != std::string::npos)
                self->lines.push_back(text);
        };
    };
    run_threads(job, [](uint32_t, gcoll_context *context) {
        std::vector<float> data(77), out(77);
        for (int repeat = 0; repeat < 3; repeat++) {
            EXPECT_GCOLL_OK(
                gcoll_allreduce(context, nullptr, data.data(), 77, GCOLL_FLOAT32, GCOLL_SUM, nullptr));
            EXPECT_GCOLL_OK(gcoll_allgather(context, data.data(), out.data(), 77, GCOLL_FLOAT32, nullptr));
        }
    });
    ASSERT_EQ(log.lines.size(), 2u);
    EXPECT_NE(log.lines[0].find("chosen by auto"), std::string::npos) << log.lines[0];
    EXPECT_EQ(log.lines[0].rfind("allreduce", 0), 0u);
    EXPECT_EQ(log.lines[1].rfind("allgather", 0), 0u);
}

} // namespace
