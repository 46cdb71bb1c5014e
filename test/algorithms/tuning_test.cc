// Tuning files: what is read, what is refused and where, and what is looked up.
#include <cmath>

#include <gtest/gtest.h>

#include "test/kit/plan_runner.h"

extern "C" {
#include "algorithms/select/tuning_file.h"
}

namespace gcoll_test {
namespace {

struct Tuning : gcoll_tuning {
    gcoll_status status;
    explicit Tuning(const std::string &lines) : gcoll_tuning{} {
        status = gcoll_tuning_parse(lines.data(), lines.size(), "F", this);
    }
    ~Tuning() { gcoll_tuning_free(this); }
    Tuning(const Tuning &) = delete;
    Tuning &operator=(const Tuning &) = delete;
};

const std::string kFirst = "gcoll-tuning 1\n";
const std::string kGood = kFirst + "# of a machine\n\n"
                                   "for transport=tcp ranks=8 local=4\n"
                                   "cost alpha_ns=6000 beta_ps=250 gamma_ps=100 latency_ns=2000\n"
                                   "choose allreduce 0 4Ki group_butterfly:r=3 ring # small\r\n"
                                   "choose allreduce 4Ki 1Mi ring:segment=64Ki\n"
                                   "\tchoose  barrier 0 - dissemination\n"
                                   "for ranks=2 transport=tcp\n"
                                   "choose allreduce 100 - mine:x=1 linear\n"
                                   "tour 1 0";

TEST(TuningFile, IsRead) {
    Tuning tuning(kGood);
    ASSERT_EQ(tuning.status, GCOLL_OK) << gcoll_last_error();
    ASSERT_EQ(tuning.section_count, 2u);
    const gcoll_tuning_section &first = tuning.sections[0], &second = tuning.sections[1];
    EXPECT_STREQ(first.transport, "tcp");
    EXPECT_EQ(first.ranks, 8u);
    EXPECT_EQ(first.local, 4u);
    EXPECT_EQ(first.line, 4u);
    EXPECT_EQ(first.cost_line, 5u);
    EXPECT_DOUBLE_EQ(first.cost.alpha, 6e-6);
    EXPECT_DOUBLE_EQ(first.cost.beta, 250e-12);
    EXPECT_DOUBLE_EQ(first.cost.gamma, 100e-12);
    EXPECT_DOUBLE_EQ(first.sharing.latency, 2e-6);
    EXPECT_EQ(first.sharing.message, 0);
    EXPECT_EQ(second.local, 2u) << "all on one host, if nothing is said";
    EXPECT_EQ(second.cost_line, 0u);
    EXPECT_EQ(first.levels.alpha, 0) << "a line of one level";
    EXPECT_EQ(first.levels.beta, 0);
    Tuning levels(kFirst + "for transport=tcp ranks=8\ncost host_beta_ps=100 alpha_ns=9000 host_alpha_ns=700 "
                           "beta_ps=800 gamma_ps=1");
    ASSERT_EQ(levels.status, GCOLL_OK) << gcoll_last_error();
    EXPECT_DOUBLE_EQ(levels.sections[0].levels.alpha, 7e-7);
    EXPECT_DOUBLE_EQ(levels.sections[0].levels.beta, 1e-10);
    EXPECT_DOUBLE_EQ(levels.sections[0].cost.alpha, 9e-6);

    const gcoll_tuning_rule *rule = gcoll_tuning_rule_for(&tuning, &first, GCOLL_ALLREDUCE, 4095);
    ASSERT_NE(rule, nullptr);
    EXPECT_EQ(rule->line, 6u);
    ASSERT_EQ(rule->count, 2u);
    EXPECT_STREQ(rule->choice[0], "group_butterfly:r=3");
    EXPECT_STREQ(rule->choice[1], "ring");
    rule = gcoll_tuning_rule_for(&tuning, &first, GCOLL_ALLREDUCE, 4096);
    ASSERT_NE(rule, nullptr);
    EXPECT_EQ(rule->line, 7u);
    EXPECT_EQ(gcoll_tuning_rule_for(&tuning, &first, GCOLL_ALLREDUCE, 1 << 20), nullptr);
    EXPECT_EQ(gcoll_tuning_rule_for(&tuning, &first, GCOLL_REDUCE, 5), nullptr);
    EXPECT_NE(gcoll_tuning_rule_for(&tuning, &first, GCOLL_BARRIER, 0), nullptr);
    EXPECT_EQ(gcoll_tuning_rule_for(&tuning, &second, GCOLL_ALLREDUCE, 99), nullptr);
    EXPECT_NE(gcoll_tuning_rule_for(&tuning, &second, GCOLL_ALLREDUCE, UINT64_MAX), nullptr);
}

TEST(TuningFile, ATourIsThatOfItsSection) {
    Tuning tuning(kFirst +
                  "for transport=tcp ranks=3\n  tour\t2 0 1 # found\nfor transport=tcp ranks=20\n"
                  "tour 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0\nfor transport=shm ranks=3\n");
    ASSERT_EQ(tuning.status, GCOLL_OK) << gcoll_last_error();
    ASSERT_NE(tuning.sections[0].tour, nullptr);
    EXPECT_EQ(std::vector<uint32_t>(tuning.sections[0].tour, tuning.sections[0].tour + 3),
              (std::vector<uint32_t>{2, 0, 1}));
    for (uint32_t i = 0; i < 20; i++)
        EXPECT_EQ(tuning.sections[1].tour[i], 19 - i);
    EXPECT_EQ(tuning.sections[2].tour, nullptr);
}

TEST(TuningFile, TheNearestSectionIsFoundAndOnlyTheExactOneHolds) {
    Tuning tuning(kFirst + "for transport=tcp ranks=4\nfor transport=tcp ranks=16\n"
                           "for transport=tcp ranks=16 local=2\nfor transport=inproc ranks=5\n");
    ASSERT_EQ(tuning.status, GCOLL_OK) << gcoll_last_error();
    const struct {
        const char *transport;
        uint32_t ranks, local, line;
        bool exact;
    } table[] = {{"tcp", 4, 4, 2, true},   {"tcp", 4, 2, 2, false},   {"tcp", 7, 7, 2, false},
                 {"tcp", 9, 9, 3, false},  {"tcp", 16, 16, 3, true},  {"tcp", 16, 2, 4, true},
                 {"tcp", 64, 2, 4, false}, {"tcp", 64, 64, 3, false}, {"inproc", 5, 5, 5, true}};
    for (const auto &row : table) {
        bool exact = !row.exact;
        const gcoll_tuning_section *found =
            gcoll_tuning_section_for(&tuning, row.transport, row.ranks, row.local, &exact);
        ASSERT_NE(found, nullptr);
        EXPECT_EQ(found->line, row.line) << row.ranks << " " << row.local;
        EXPECT_EQ(exact, row.exact) << row.ranks << " " << row.local;
    }
    bool exact = true;
    EXPECT_EQ(gcoll_tuning_section_for(&tuning, "rdma", 4, 4, &exact), nullptr);
    EXPECT_FALSE(exact);
}

TEST(TuningFile, ErrorsNameLineAndField) {
    const std::string head = kFirst + "for transport=tcp ranks=8\n",
                      cost = "cost alpha_ns=1 beta_ps=1 gamma_ps=1";
    const struct {
        std::string text, says;
    } table[] = {
        {"", "line 1: version: found ''; allowed: gcoll-tuning 1"},
        {"gcoll-tuning 2\n", "line 1: version: found 'gcoll-tuning 2'"},
        {"{\"a\":1}", "line 1: version"},
        {head + cost + " host_alpha_ns=5", "line 3: host_alpha_ns, host_beta_ps: found 'one of them'"},
        {head + cost + " host_beta_ps=5", "line 3: host_alpha_ns, host_beta_ps: found 'one of them'"},
        {head + cost + " host_alpha_ns=-5 host_beta_ps=5", "line 3: host_alpha_ns: found '-5'"},
        {head + cost + " host_alpha_ns=5 host_beta_ps=x", "line 3: host_beta_ps: found 'x'"},
        {head + cost + " host_alpha_ns=5 host_beta_ps=1000000000001", "line 3: host_beta_ps"},
        {kFirst + "fro transport=tcp", "line 2: line: found 'fro'; allowed: for, cost, choose"},
        {kFirst + "for ranks=8", "line 2: transport: found 'nothing'"},
        {kFirst + "for transport=TCP ranks=8", "line 2: transport: found 'TCP'"},
        {kFirst + "for transport=" + std::string(32, 'a') + " ranks=8", "line 2: transport"},
        {kFirst + "for transport=tcp", "line 2: ranks: found 'nothing'; allowed: 1 to"},
        {kFirst + "for transport=tcp ranks=0", "line 2: ranks: found '0'"},
        {kFirst + "for transport=tcp ranks=-1", "line 2: ranks: found '-1'"},
        {kFirst + "for transport=tcp ranks=99999999999999999999", "line 2: ranks"},
        {kFirst + "for transport=tcp ranks=8 local=9", "line 2: local: found '9'"},
        {kFirst + "for transport=tcp ranks=8 ranks=8", "line 2: key: found 'ranks=8'; allowed: each once"},
        {kFirst + "for transport=tcp ranks=8 hosts=2", "line 2: key: found 'hosts=2'"},
        {kFirst + "for transport=tcp ranks", "line 2: key: found 'ranks'"},
        {head + "for transport=tcp ranks=8 local=8", "line 3: for: transport tcp with 8 ranks, 8 on a host, "
                                                     "stands in line 2"},
        {kFirst + cost, "line 2: line: found 'cost'; allowed: 'for' first"},
        {head + cost + "\n" + cost, "line 4: line: found 'cost'"},
        {head + "cost alpha_ns=1 beta_ps=1", "line 3: gamma_ps: found 'nothing'"},
        {head + "cost alpha_ns=1.5 beta_ps=1 gamma_ps=1", "line 3: alpha_ns: found '1.5'"},
        {head + "cost alpha_ns=nan beta_ps=1 gamma_ps=1", "line 3: alpha_ns: found 'nan'"},
        {head + "cost alpha_ns=10000000001 beta_ps=1 gamma_ps=1", "line 3: alpha_ns"},
        {head + cost + " latency_ns=2", "line 3: latency_ns: found '2'; allowed: 0 to alpha_ns"},
        {head + cost + " delta=2", "line 3: key: found 'delta=2'"},
        {kFirst + "choose allreduce 0 - ring", "line 2: line: found 'choose'; allowed: 'for' first"},
        {head + "choose", "line 3: line: found 'choose'; allowed: choose COLLECTIVE"},
        {head + "choose allreduce 0 -", "line 3: line"},
        {head + "choose allreduce 0 - a b c d e f g h i", "line 3: line"},
        {head + "choose allreduce 0 - a b c d e f g h i j k l m n o p", "line 3: line: found"},
        {head + "choose allredude 0 - ring", "line 3: collective: found 'allredude'"},
        {head + "choose allreduce x - ring", "line 3: from: found 'x'"},
        {head + "choose allreduce 0 9000000000Gi ring", "line 3: to: found '9000000000Gi'"},
        {head + "choose allreduce 0 0 ring", "line 3: to: found '0'; allowed: more"},
        {head + "choose allreduce 4Ki 1Ki ring", "line 3: to: found '1Ki'"},
        {head + "choose allreduce 0 10 ring\nchoose allreduce 9 20 ring",
         "line 4: from, to: meets the sizes of "
         "line 3"},
        {kFirst + "tour 0 1", "line 2: line: found 'tour'; allowed: 'for' first"},
        {head + "tour 0 1 2 3 4 5 6 7\ntour 7 6 5 4 3 2 1 0",
         "line 4: line: found 'tour'; allowed: one line"},
        {head + "tour", "line 3: tour: found '0 ranks'; allowed: each of 0 to 7 once"},
        {head + "tour 0 1 2 3 4 5 6 # 7", "line 3: tour: found '7 ranks'; allowed: each of 0 to 7 once"},
        {head + "tour 0 1 2 3 4 5 6 6", "line 3: tour: found '6'; allowed: each of 0 to 7 once"},
        {head + "tour 0 1 2 3 4 5 6 7 0", "line 3: tour: found '0'; allowed: each of 0 to 7 once"},
        {head + "tour 0 1 2 3 4 5 6 8", "line 3: tour: found '8'; allowed: each of 0 to 7 once"},
        {head + "tour 0,1,2,3,4,5,6,7", "line 3: tour: found '1 ranks'"},
        {head + "tour 0 1 2 3 4 5 6 7,", "line 3: tour: found '7,'; allowed: each of 0 to 7 once"},
        {head + "tours 0 1 2 3 4 5 6 7", "line 3: line: found 'tours'; allowed: for, cost, choose, tour"},
        {kFirst + "for transport=tcp ranks=1048576\ntour 0", "line 3: tour: found '1 ranks'"},
        {head + "choose allreduce 0 - auto", "line 3: algorithm: found 'auto'"},
        {head + "choose allreduce 0 - :r=2", "line 3: algorithm: found ':r=2'"},
        {head + "choose allreduce 0 - ring:speed=1", "line 3: ring has no option 'speed'"},
        {head + "choose allreduce 0 - ring:segment=x", "line 3: ring: segment 'x'"},
        {head + "choose allreduce 0 - " + std::string(128, 'x'), "line 3: algorithm"},
        {head + "choose allreduce 0 - ri\x1b[2Jng", "line 3: holds a control character"},
        {head + std::string("choose\0allreduce", 16), "line 3: holds a control character"},
        {kFirst + std::string(GCOLL_TUNING_BYTES_MAX, '#'), "bytes; allowed: up to"},
    };
    for (const auto &row : table) {
        Tuning tuning(row.text);
        EXPECT_EQ(tuning.status, GCOLL_ERR_INVALID) << row.text;
        EXPECT_EQ(std::string(gcoll_last_error()).find("F: "), 0u) << gcoll_last_error();
        EXPECT_NE(std::string(gcoll_last_error()).find(row.says), std::string::npos)
            << gcoll_last_error() << "\nwanted: " << row.says;
    }
}

// Any cut of a good file is read or refused, and nothing beyond its end is looked at.
TEST(TuningFile, AnyBeginningIsHandled) {
    for (size_t bytes = 0; bytes <= kGood.size(); bytes++) {
        std::vector<char> exact(kGood.begin(), kGood.begin() + static_cast<std::ptrdiff_t>(bytes));
        gcoll_tuning tuning{};
        gcoll_status status = gcoll_tuning_parse(exact.data(), bytes, "F", &tuning);
        EXPECT_TRUE(status == GCOLL_OK || status == GCOLL_ERR_INVALID) << bytes;
        gcoll_tuning_free(&tuning);
    }
}

TEST(TuningRule, TheFirstThatServesIsTaken) {
    Tuning tuning(kFirst + "for transport=tcp ranks=5\n"
                           "choose allreduce 0 - unheard_of ring:segment=64Ki recursive_doubling linear");
    ASSERT_EQ(tuning.status, GCOLL_OK) << gcoll_last_error();
    const gcoll_cost_parameters parameters = {1e-5, 1e-9, 1e-10};
    const struct {
        uint32_t claims;
        uint64_t scratch;
        const char *takes;
    } table[] = {{0, 0, "ring"},
                 {GCOLL_CLAIM_RANK_IDENTICAL, 0, "ring"},
                 {GCOLL_CLAIM_ORDERED, 0, "recursive_doubling"},
                 {GCOLL_CLAIM_ORDERED, 10, "linear"},
                 {0, 10, "ring"}};
    for (const auto &row : table) {
        gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 5, 1000);
        const gcoll_needs needs = {row.claims, row.scratch, nullptr, nullptr};
        gcoll_choice choice;
        ASSERT_EQ(GCOLL_OK,
                  gcoll_tuning_take(&tuning.rules[0], nullptr, &problem, 4, &needs, &parameters, &choice));
        EXPECT_STREQ(choice.algorithm->name, row.takes) << row.claims << " " << row.scratch;
        EXPECT_EQ(choice.segment_bytes, strcmp(row.takes, "ring") == 0 ? 65536u : 0u);
    }
    Tuning none(kFirst + "for transport=tcp ranks=5\nchoose allreduce 0 - unheard_of ring");
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 5, 1000);
    const gcoll_needs ordered = {GCOLL_CLAIM_ORDERED, 0, nullptr, nullptr};
    gcoll_choice choice;
    EXPECT_EQ(GCOLL_ERR_NOT_FOUND,
              gcoll_tuning_take(&none.rules[0], nullptr, &problem, 4, &ordered, &parameters, &choice));
}

// Names that "auto" begins with are names.
TEST(TuningRule, OnlyAutoItselfIsRefused) {
    for (const char *name : {"a", "aut", "automatic", "a:x=1"}) {
        Tuning tuning(kFirst + "for transport=tcp ranks=5\nchoose allreduce 0 - " + name);
        EXPECT_EQ(tuning.status, GCOLL_OK) << gcoll_last_error();
    }
    for (const char *name : {"auto", "auto:x=1"}) {
        Tuning tuning(kFirst + "for transport=tcp ranks=5\nchoose allreduce 0 - " + name);
        EXPECT_EQ(tuning.status, GCOLL_ERR_INVALID) << name;
    }
}

// The time of the named algorithm, an allreduce of 1000 float32, and what auto takes.
struct Found {
    const char *name;
    double seconds;
    std::string chosen;
};

Found look(uint32_t ranks, const gcoll_sharing &sharing, const gcoll_cost_parameters &parameters,
           const char *name, uint64_t count = 1000) {
    Found found = {name, -1, ""};
    const gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, ranks, count);
    const gcoll_needs needs = {GCOLL_CLAIM_ALL & ~(GCOLL_CLAIM_PAIRS | GCOLL_CLAIM_LEFT), 0, &sharing,
                               nullptr};
    gcoll_choice choice;
    EXPECT_EQ(gcoll_choose(
                  nullptr, &problem, 4, &needs, &parameters, &choice,
                  [](void *arg, const gcoll_candidate *c) {
                      auto *f = static_cast<Found *>(arg);
                      if (strcmp(c->choice.algorithm->name, f->name) == 0)
                          f->seconds = c->seconds;
                  },
                  &found),
              GCOLL_OK);
    found.chosen = choice.algorithm->name;
    return found;
}

// Where ranks share processors, what all of them do together counts; where none do, it does not.
TEST(Sharing, ManyMessagesCostWhereProcessorsAreShared) {
    const gcoll_cost_parameters parameters = {1e-6, 0, 0};
    gcoll_sharing sharing = {1e-6, 1e-6, 0, 1};
    const auto seconds = [&](const char *name) { return look(8, sharing, parameters, name).seconds; };
    EXPECT_DOUBLE_EQ(seconds("recursive_doubling"), 3e-6) << "three steps, one after the other";
    sharing.crowd = 8; // one processor does it all: 8 ranks, 3 messages each, 3 turns
    EXPECT_DOUBLE_EQ(seconds("recursive_doubling"), 24e-6 + 3e-6);
    sharing.crowd = 4; // two do half of it each, but not of the three that follow one another
    EXPECT_DOUBLE_EQ(seconds("recursive_doubling"), 12e-6 + 1.5e-6 + 3e-6);
    sharing.crowd = 2;
    EXPECT_DOUBLE_EQ(seconds("recursive_doubling"), 6e-6 + 3e-6 * 3 / 4 + 1.5e-6);
    // 14 messages; on the way two with both ends, and 12 with the root's; two hops.
    EXPECT_DOUBLE_EQ(seconds("linear"), 3.5e-6 + 8e-6 * 3 / 4 + 1e-6);
    EXPECT_DOUBLE_EQ(seconds("nonoverlapping"), 3.5e-6 + 6e-6 * 3 / 4 + 3e-6);
}

// Four ranks on two cores, small vectors: the model gives six algorithms nearly the same time. The one with
// the fewest messages, and of those the one with the fewest steps, is taken, whatever its bytes add.
TEST(Sharing, OfNearlyEqualOnesTheFewestMessagesAreTaken) {
    const gcoll_cost_parameters parameters = {2.9e-6, 3e-11, 1e-11};
    const gcoll_sharing two_cores = {1.45e-6, 2.9e-6, 6e-11, 2}, own_cores = {1.45e-6, 2.9e-6, 6e-11, 1};
    const double linear = look(4, two_cores, parameters, "linear").seconds;
    for (const char *other : {"dual_root", "recursive_doubling"})
        EXPECT_NEAR(look(4, two_cores, parameters, other).seconds, linear, 0.02 * linear) << other;
    EXPECT_LT(look(4, two_cores, parameters, "dual_root").seconds, linear);
    EXPECT_EQ(look(4, two_cores, parameters, "linear").chosen, "linear");
    EXPECT_NE(look(4, own_cores, parameters, "linear").chosen, "linear");
    // The same times for larger vectors: there the cheapest is taken.
    const gcoll_cost_parameters fast = {2.9e-6, 3e-11 / 16, 1e-11 / 16};
    const gcoll_sharing fast_cores = {1.45e-6, 2.9e-6, 6e-11 / 16, 2};
    EXPECT_DOUBLE_EQ(look(4, fast_cores, fast, "linear", 16000).seconds, linear);
    EXPECT_NE(look(4, fast_cores, fast, "linear", 16000).chosen, "linear");
}

// One that all others send to needs as many connections: not what auto does to many ranks, however few the
// hops.
TEST(Sharing, ManyAtOnceAreForFewRanks) {
    const gcoll_cost_parameters parameters = {8e-6, 2e-10, 4e-11};
    for (uint32_t ranks : {8u, 16u, 17u, 64u, 256u}) {
        const gcoll_sharing two_cores = {4e-6, 8e-6, 4e-10, ranks / 2.0};
        const std::string chosen = look(ranks, two_cores, parameters, "linear").chosen;
        EXPECT_EQ(chosen == "linear" || chosen == "star", ranks <= 16) << chosen << " by " << ranks;
    }
}

// A row may have a cost without bounds, for what must not be chosen: it stays last, and a number.
TEST(Sharing, WhatHasNoBoundsIsLast) {
    gcoll_registry registry = {nullptr, 0};
    static gcoll_algorithm endless = *gcoll_registry_find(nullptr, GCOLL_ALLREDUCE, "linear");
    endless.name = "endless";
    endless.load = nullptr;
    endless.cost = [](const gcoll_problem *, gcoll_cost *cost) { *cost = {HUGE_VAL, HUGE_VAL, HUGE_VAL, 0}; };
    ASSERT_EQ(gcoll_registry_add(&registry, &endless), GCOLL_OK) << gcoll_last_error();
    const gcoll_cost_parameters parameters = {1e-6, 0, 0};
    const gcoll_sharing none = {0, 0, 0, 0}, crowded = {5e-7, 1e-6, 0, 4};
    for (const gcoll_sharing *sharing : {static_cast<const gcoll_sharing *>(nullptr), &none, &crowded}) {
        gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 8, 1000);
        const gcoll_needs needs = {0, 0, sharing, nullptr};
        gcoll_choice choice;
        double seconds = 0;
        ASSERT_EQ(gcoll_choose(
                      &registry, &problem, 4, &needs, &parameters, &choice,
                      [](void *arg, const gcoll_candidate *c) {
                          if (strcmp(c->choice.algorithm->name, "endless") == 0)
                              *static_cast<double *>(arg) = c->seconds;
                      },
                      &seconds),
                  GCOLL_OK);
        EXPECT_EQ(seconds, HUGE_VAL);
        EXPECT_STRNE(choice.algorithm->name, "endless");
    }
    gcoll_registry_clear(&registry);
}

// What rows say of all ranks together is what their plans do. Rows that stage device memory say what the row
// says that they stand on, if it says anything.
TEST(Load, IsThatOfThePlans) {
    uint32_t rows = 0;
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row != nullptr; row++) {
        if ((*row)->load == nullptr || (*row)->staging != nullptr)
            continue;
        rows++;
        for (uint32_t size : {1u, 2u, 3u, 5u, 8u, 13u}) {
            std::vector<Plan> owned;
            std::vector<const gcoll_plan *> plans;
            const uint64_t count = (*row)->collective == GCOLL_BARRIER ? 0 : 960 * 13; // equal blocks
            gcoll_problem problem = Problem((*row)->collective, 0, size, count);
            for (uint32_t i = 0; (*row)->options != nullptr && (*row)->options[i].name != nullptr; i++)
                problem.option[i] =
                    (*row)->options[i].words != nullptr ? 0 : std::min<int64_t>(4, (*row)->options[i].max);
            gcoll_load load = {};
            (*row)->load(&problem, &load);
            EXPECT_EQ(load.within_steps + load.within_hops + load.within_sent + load.crossing, 0)
                << (*row)->name << " knows of no hosts";
            if (size > 1 && load.messages == 0) { // says something of hosts only
                rows -= size == 2;
                break;
            }
            double messages = 0, reduced = 0;
            for (problem.rank = 0; problem.rank < size; problem.rank++) {
                gcoll_plan *plan = nullptr;
                ASSERT_EQ(gcoll_plan_create(*row, &problem, &plan), GCOLL_OK) << gcoll_last_error();
                owned.emplace_back(plan);
                plans.push_back(plan);
                for (uint32_t s = 0; s < plan->step_count; s++) {
                    const gcoll_step &step = plan->steps[s];
                    messages += step.kind == GCOLL_STEP_SEND;
                    reduced += step.kind == GCOLL_STEP_REDUCE || step.kind == GCOLL_STEP_RECV_REDUCE
                                   ? static_cast<double>(step.count)
                                   : 0;
                }
            }
            gcoll_verify_report report;
            ASSERT_EQ(gcoll_verify(plans.data(), size, &report), GCOLL_OK) << gcoll_last_error();
            EXPECT_EQ(load.messages, messages) << (*row)->name << " by " << size;
            EXPECT_EQ(load.sent, static_cast<double>(report.sent_total)) << (*row)->name << " by " << size;
            EXPECT_EQ(load.reduced, reduced) << (*row)->name << " by " << size;
        }
    }
    EXPECT_GE(rows, 22u);
}

} // namespace
} // namespace gcoll_test
