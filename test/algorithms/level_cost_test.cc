// test/algorithms/level_cost_test.cc - tests of costs with two levels: what formulas say of hosts is what the
// plans do, and times are those of closed formulas and of the simulator.
#include "test/kit/allreduce_oracle.h"

#include <cmath>
#include <map>
#include <set>

#include "test/plan/simulate_support.h"

extern "C" {
#include "algorithms/select/tuning_file.h"
}

namespace gcoll_test {
namespace {

using Map = std::vector<uint32_t>; // rank to host

Map Rows(uint32_t hosts, uint32_t ranks) {
    Map map;
    for (uint32_t i = 0; i < hosts * ranks; i++)
        map.push_back(i / ranks);
    return map;
}

Map Dealt(uint32_t hosts, uint32_t ranks) {
    Map map;
    for (uint32_t i = 0; i < hosts * ranks; i++)
        map.push_back(i % hosts);
    return map;
}

std::string Text(const Map &map) {
    std::string text;
    for (uint32_t host : map)
        text += std::to_string(host) + " ";
    return text;
}

uint32_t Most(const Map &map) {
    std::map<uint32_t, uint32_t> ranks;
    uint32_t most = 0;
    for (uint32_t host : map)
        most = std::max(most, ++ranks[host]);
    return most;
}

gcoll_problem ProblemOn(const gcoll_algorithm &algorithm, const Map &map, uint64_t count) {
    gcoll_problem problem = Problem(algorithm.collective, 0, uint32_t(map.size()), count);
    SetFallbacks(&problem, &algorithm);
    problem.node = map.data();
    return problem;
}

// What the plans of all ranks do: elements that the busiest host sends to others (or receives, if more), and
// that the busiest rank sends within its host.
struct Traffic {
    double link = 0, within = 0;
};

Traffic Count(const gcoll_algorithm &algorithm, const gcoll_problem &problem) {
    std::map<uint32_t, double> out, in;
    Traffic t;
    for (const Plan &plan : CreateAll(algorithm, problem)) {
        double within = 0;
        EXPECT_TRUE(plan) << gcoll_last_error();
        for (uint32_t i = 0; plan && i < plan->step_count; i++) {
            const gcoll_step &s = plan->steps[i];
            if (s.kind != GCOLL_STEP_SEND)
                continue;
            const uint32_t from = problem.node[plan->problem.rank], to = problem.node[s.peer];
            if (from == to)
                within += double(s.count);
            else
                t.link = std::max({t.link, out[from] += double(s.count), in[to] += double(s.count)});
        }
        t.within = std::max(t.within, within);
    }
    return t;
}

struct Said {
    gcoll_cost cost{};
    gcoll_load load{};
    double link = 0; // as algorithms.h describes it
};

Said Say(const gcoll_algorithm &algorithm, const gcoll_problem &problem, uint32_t most) {
    Said s;
    algorithm.cost(&problem, &s.cost);
    s.load = gcoll_load_of(&algorithm, &problem, &s.cost);
    const double sent = s.cost.sent - s.load.within_sent;
    const double senders = s.load.crossing > 0 ? std::max(s.load.crossing * most, 1.0) : most;
    s.link = std::min(senders * sent, std::max(s.load.sent, sent));
    return s;
}

// Every rank sends the same in these, so that the formulas are exact for even hosts.
TEST(LevelCost, IsWhatThePlansDo) {
    const struct {
        gcoll_collective collective;
        const char *name;
        bool powers; // formulas know hosts for powers of two only
    } rows[] = {{GCOLL_ALLREDUCE, "ring", false},           {GCOLL_ALLREDUCE, "ring_chunked", false},
                {GCOLL_ALLREDUCE, "segmented_ring", false}, {GCOLL_ALLREDUCE, "ring_full", false},
                {GCOLL_ALLGATHER, "ring", false},           {GCOLL_REDUCE_SCATTER, "ring", false},
                {GCOLL_ALLREDUCE, "hierarchical", false},   {GCOLL_ALLREDUCE, "halving_doubling", true},
                {GCOLL_ALLREDUCE, "rabenseifner", true},    {GCOLL_ALLREDUCE, "recursive_doubling", true},
                {GCOLL_ALLREDUCE, "group_butterfly", true}, {GCOLL_ALLGATHER, "recursive_doubling", true}};
    const Map maps[] = {Rows(4, 2), Rows(2, 4), Rows(8, 2),  Rows(4, 4),  Rows(3, 2),  Rows(3, 3),
                        Rows(5, 3), Rows(8, 1), Dealt(4, 2), Dealt(2, 4), Dealt(3, 2), Dealt(4, 4)};
    for (const auto &row : rows) {
        const gcoll_algorithm &algorithm = *Algorithm(row.name, row.collective);
        for (const Map &map : maps) {
            if (row.powers && (map.size() & (map.size() - 1)) != 0)
                continue;
            for (int64_t r = 0; r <= (std::string(row.name) == "group_butterfly" ? 4 : 0); r++) {
                gcoll_problem problem = ProblemOn(algorithm, map, 48 * map.size());
                problem.option[0] = std::string(row.name) == "group_butterfly" ? r : problem.option[0];
                const Traffic done = Count(algorithm, problem);
                const Said said = Say(algorithm, problem, Most(map));
                SCOPED_TRACE(std::string(row.name) + " on " + Text(map) + "r=" + std::to_string(r));
                EXPECT_DOUBLE_EQ(said.link, done.link);
                if (said.load.within_sent > 0) // rings count within as between, as their hops wait for those
                    EXPECT_DOUBLE_EQ(said.load.within_sent, done.within);
                EXPECT_EQ(said.load.within_sent > 0, said.load.within_steps > 0);
                EXPECT_LE(said.load.within_steps, said.cost.steps);
                EXPECT_LE(said.load.within_hops, said.load.hops);
            }
        }
    }
}

// Whatever the hosts, no row says that fewer bytes cross by the busiest link than do, nor more within hosts
// than the whole. Rows are of all collectives, with unequal hosts, and any number of ranks.
TEST(LevelCost, NeverLeavesOutWhatCrosses) {
    const Map maps[] = {Rows(4, 2),      Dealt(3, 3),        {0, 0, 0, 1, 1},       {0, 1, 1, 1, 1, 1, 1},
                        {0, 1, 0, 2, 1}, {2, 2, 1, 1, 0, 2}, {0, 0, 0, 0, 0, 1, 2}, Rows(5, 3)};
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row != nullptr; row++) {
        if ((*row)->staging != nullptr || (*row)->collective == GCOLL_BARRIER)
            continue;
        for (const Map &map : maps) {
            gcoll_problem problem = ProblemOn(**row, map, 48 * map.size());
            for (uint32_t i = 0; (*row)->options != nullptr && (*row)->options[i].name != nullptr; i++)
                if (problem.option[i] == GCOLL_BY_COST)
                    problem.option[i] = 1;
            if ((*row)->applies != nullptr && (*row)->applies(&problem) != GCOLL_OK)
                continue;
            const Said said = Say(**row, problem, Most(map));
            SCOPED_TRACE(std::string(gcoll_collective_name((*row)->collective)) + " " + (*row)->name +
                         " on " + Text(map));
            EXPECT_LE(said.load.within_sent, said.cost.sent * (1 + 1e-12));
            EXPECT_LE(said.load.within_steps, said.cost.steps);
            // Within a host of the busiest rank's: formulas of trees are of the path, which the rest
            // overlaps.
            EXPECT_GE(said.link * 1.01,
                      std::min(Count(**row, problem).link, said.cost.sent - said.load.within_sent));
        }
    }
}

const gcoll_levels kWithin(uint32_t most) {
    return {2e-6, 1e-10, most, 0};
}
const gcoll_cost_parameters kCost = {50e-6, 8e-9, 0};

double Seconds(const char *name, const Map &map, uint64_t count, int64_t option = 0,
               gcoll_sharing sharing = {}) {
    const gcoll_algorithm &algorithm = *Algorithm(name, GCOLL_ALLREDUCE);
    const gcoll_levels within = kWithin(Most(map));
    const gcoll_needs needs = {0, 0, &sharing, &within};
    gcoll_problem problem = ProblemOn(algorithm, map, count);
    problem.option[strcmp(name, "hierarchical") == 0 ? 2 : 0] = option;
    return gcoll_algorithm_seconds(&algorithm, &problem, 1, &needs, &kCost);
}

// By hand, for hosts of 2 ranks, n bytes.
TEST(LevelCost, TimesByHand) {
    const double n = 48000, a = kCost.alpha, b = kCost.beta, a2 = kWithin(2).alpha, b2 = kWithin(2).beta;
    const Map map = Rows(4, 2);
    // Within: n/2 there and back. Across: 3/2 of n/2 from each of two ranks.
    EXPECT_NEAR(Seconds("hierarchical", map, 48000), 2 * (a2 + b2 * n / 2) + 4 * a + 1.5 * n * b, 1e-12);
    EXPECT_NEAR(Seconds("halving_doubling", map, 48000), 2 * (a2 + b2 * n / 2) + 4 * a + 1.5 * n * b, 1e-12);
    EXPECT_NEAR(Seconds("hierarchical", map, 48000, 2), 2 * (a2 + b2 * n / 2) + 2 * a + 2 * n * b, 1e-12);
    // 14 hops of n/8, of which one rank of a host sends across at a time.
    EXPECT_NEAR(Seconds("ring", map, 48000), 14 * (a + n / 8 * b), 1e-12);
    EXPECT_NEAR(Seconds("ring", Dealt(4, 2), 48000), 14 * (a + 2 * n / 8 * b), 1e-12);
    // Three steps of n, the first of them within a host; both ranks of a host send.
    EXPECT_NEAR(Seconds("recursive_doubling", map, 48000), a2 + b2 * n + 2 * (a + 2 * n * b), 1e-12);
    EXPECT_NEAR(Seconds("recursive_doubling", Rows(8, 1), 48000), 3 * (a + n * b), 1e-12);
    // All ranks send to rank 0 and back: no more than all of it crosses.
    EXPECT_NEAR(Seconds("linear", map, 48000), 14 * (a + n * b), 1e-12);
    // Uneven: the host of three gives its whole vector to two ranks, which halve the rest of the way.
    const double uneven = Seconds("hierarchical", {0, 0, 0, 1, 1}, 48000);
    EXPECT_GT(uneven, 2 * a + n * b);
    EXPECT_LT(uneven, 2 * a + n * b + 4 * (a2 + b2 * n));
    // What messages save that wait for no other: half of alpha, within hosts as between them. Hops: 2.
    const gcoll_sharing sharing = {a / 2, 0, 0, 0};
    EXPECT_NEAR(Seconds("linear", map, 48000, 0, sharing), 14 * (a + n * b) - 12 * a / 2, 1e-12);
    EXPECT_NEAR(Seconds("hierarchical", map, 48000, 0, sharing), Seconds("hierarchical", map, 48000), 1e-12);
}

// Where ranks share processors, a quarter of the smaller one of way and work comes on top. Two processors:
// half of all 3 messages of 8 ranks, half of the chain of 3, and 3 waits of a message.
TEST(LevelCost, WorkAndWayOverlapForTheMostPart) {
    const double n = 48000, m = 1e-3;
    const gcoll_sharing crowded = {0, m, 0, 4};
    const double way = Seconds("recursive_doubling", Rows(4, 2), 48000), work = m * (12 + 1.5 + 3);
    EXPECT_NEAR(way, 2e-6 + 1e-10 * n + 2 * (50e-6 + 2 * n * 8e-9), 1e-12);
    EXPECT_NEAR(Seconds("recursive_doubling", Rows(4, 2), 48000, 0, crowded), work + way / 4, 1e-12);
}

// Without a map, or without costs of a second level, nothing changes.
TEST(LevelCost, OfOneLevelIsAsBefore) {
    const gcoll_levels within = kWithin(2);
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row != nullptr; row++) {
        if ((*row)->staging != nullptr)
            continue;
        const Map map = Rows(4, 2);
        gcoll_problem problem = ProblemOn(**row, map, 960);
        problem.node = nullptr;
        if ((*row)->applies != nullptr && (*row)->applies(&problem) != GCOLL_OK)
            continue;
        const gcoll_sharing sharing = {20e-6, 5e-6, 1e-9, 4};
        const gcoll_needs two = {0, 0, &sharing, &within}, one = {0, 0, &sharing, nullptr};
        EXPECT_EQ(gcoll_algorithm_seconds(*row, &problem, 4, &two, &kCost),
                  gcoll_algorithm_seconds(*row, &problem, 4, &one, &kCost))
            << (*row)->name;
    }
}

// The simulator, with one link a host and a memory that all ranks of a host may use at once, agrees with the
// formulas for algorithms that go in step.
TEST(LevelCost, IsThatOfTheSimulator) {
    for (const Map &map : {Rows(4, 2), Rows(2, 4), Rows(4, 4), Rows(3, 2), Dealt(4, 2)})
        for (const char *name : {"hierarchical", "halving_doubling", "recursive_doubling", "ring"}) {
            const bool power = (map.size() & (map.size() - 1)) == 0;
            if (!power && strcmp(name, "hierarchical") != 0 && strcmp(name, "ring") != 0)
                continue;
            const gcoll_algorithm &algorithm = *Algorithm(name, GCOLL_ALLREDUCE);
            const uint64_t count = 960 * map.size() * 100;
            const gcoll_problem problem = ProblemOn(algorithm, map, count);
            gcoll_simulate_options o = Options(kCost.alpha, kCost.beta);
            o.host = {kWithin(2).alpha, kWithin(2).beta, 0};
            o.network.latency = kCost.alpha; // the link is held by bytes only
            o.node = map.data();
            o.node_ports = 1;
            auto run = Simulate(CreateAll(algorithm, problem), o);
            ASSERT_TRUE(run) << gcoll_last_error();
            const double said = Seconds(name, map, count);
            EXPECT_NEAR(said / run->time, 1, 0.15) << name << " on " << Text(map) << said << " " << run->time;
        }
}

// ---- Leaders --------------------------------------------------------------------------------------------

const Map kLeaderMaps[] = {Rows(3, 8), Rows(4, 4),  Rows(2, 6), Rows(5, 3),
                           Rows(2, 2), Dealt(3, 5), Rows(3, 7)};

gcoll_problem WithLeaders(const Map &map, uint64_t count, int64_t leaders, int64_t within = 0) {
    gcoll_problem problem = ProblemOn(*Algorithm("hierarchical", GCOLL_ALLREDUCE), map, count);
    problem.option[1] = within;
    problem.option[2] = 0;
    problem.option[3] = leaders;
    return problem;
}

// Even hosts: what goes by the link, all messages and all bytes are what the plans do. No rank sends more
// within its host than the row says.
TEST(LevelCost, OfLeadersIsWhatThePlansDo) {
    const gcoll_algorithm &algorithm = *Algorithm("hierarchical", GCOLL_ALLREDUCE);
    for (const Map &map : kLeaderMaps)
        for (uint32_t leaders = 1; leaders <= Most(map); leaders++)
            for (int64_t within : {0, 1}) {
                SCOPED_TRACE(Text(map) + "leaders=" + std::to_string(leaders) + " within " +
                             std::to_string(within));
                const gcoll_problem problem = WithLeaders(map, 840 * map.size(), leaders, within);
                const Traffic done = Count(algorithm, problem);
                const Said said = Say(algorithm, problem, Most(map));
                EXPECT_DOUBLE_EQ(said.link, done.link);
                EXPECT_GE(said.load.within_sent, done.within);
                double sent = 0, reduced = 0, messages = 0;
                for (const Plan &plan : CreateAll(algorithm, problem)) {
                    std::set<std::pair<uint32_t, uint32_t>> sends; // pieces of a round to a peer are one
                    for (uint32_t i = 0; i < plan->step_count; i++) {
                        const gcoll_step &s = plan->steps[i];
                        if (s.kind == GCOLL_STEP_SEND)
                            sends.insert({s.round, s.peer});
                        sent += s.kind == GCOLL_STEP_SEND ? double(s.count) : 0;
                        reduced += s.kind == GCOLL_STEP_RECV_REDUCE || s.kind == GCOLL_STEP_REDUCE
                                       ? double(s.count)
                                       : 0;
                    }
                    messages += double(sends.size());
                }
                EXPECT_NEAR(said.load.sent, sent, 1e-9 * sent);
                EXPECT_NEAR(said.load.reduced, reduced, 1e-9 * reduced);
                EXPECT_GE(said.load.messages, messages);
                EXPECT_LE(said.load.messages, 1.25 * messages);
            }
}

// In the one-port model, where a message holds the link of its host for alpha, too; and where the link is
// held by bytes only. There the link carries one share while another waits for alpha, which the formula does
// not know; that counts where both take about as long, with 16 KiB.
TEST(LevelCost, OfLeadersIsThatOfTheSimulator) {
    const gcoll_algorithm &algorithm = *Algorithm("hierarchical", GCOLL_ALLREDUCE);
    const gcoll_sharing apart = {0, 0, 0, 0};
    for (const Map &map : kLeaderMaps)
        for (uint64_t count : {64u, 16384u, 262144u, 4194304u})
            for (uint32_t leaders = 1; leaders <= Most(map); leaders++)
                for (const gcoll_sharing *sharing : {static_cast<const gcoll_sharing *>(nullptr), &apart}) {
                    if (sharing != nullptr && count == 16384)
                        continue;
                    const gcoll_problem problem = WithLeaders(map, count, leaders);
                    const gcoll_levels within = kWithin(Most(map));
                    const gcoll_needs needs = {0, 0, sharing, &within};
                    gcoll_simulate_options o = Options(kCost.alpha, kCost.beta);
                    o.host = {within.alpha, within.beta, 0};
                    o.network.latency = sharing ? kCost.alpha : 0;
                    o.node = map.data();
                    o.node_ports = 1;
                    auto run = Simulate(CreateAll(algorithm, problem), o);
                    ASSERT_TRUE(run) << gcoll_last_error();
                    const double said = gcoll_algorithm_seconds(&algorithm, &problem, 1, &needs, &kCost);
                    EXPECT_NEAR(said / run->time, 1, 0.15) << Text(map) << "leaders=" << leaders << " of "
                                                           << count << (sharing ? " bytes only" : "");
                }
}

// Selection takes the number of leaders that the simulator finds the fastest, or one that is as good within
// 15
// %: few for short vectors where a host has one link, which takes one message at a time; all where every rank
// has a link of its own.
TEST(LevelCost, LeadersAreChosen) {
    const gcoll_algorithm &algorithm = *Algorithm("hierarchical", GCOLL_ALLREDUCE);
    std::map<bool, std::set<int64_t>> taken;
    for (const Map &map : kLeaderMaps)
        for (uint64_t count : {64u, 4096u, 65536u, 1048576u, 8388608u})
            for (bool one_link : {true, false}) {
                gcoll_levels within = kWithin(Most(map));
                within.links = one_link ? 1 : Most(map);
                const gcoll_needs needs = {0, 0, nullptr, &within};
                gcoll_simulate_options o = Options(kCost.alpha, kCost.beta);
                o.host = {within.alpha, within.beta, 0};
                o.node = map.data();
                o.node_ports = one_link ? 1 : 0;
                const gcoll_problem problem = WithLeaders(map, count, GCOLL_BY_COST);
                gcoll_choice choice = {};
                choice.algorithm = &algorithm;
                std::copy(problem.option, problem.option + GCOLL_MAX_OPTIONS, choice.option);
                ASSERT_EQ(GCOLL_OK, gcoll_choice_resolve(&problem, 1, &needs, &kCost, &choice));
                ASSERT_GE(choice.option[3], 1);
                const auto time = [&](int64_t leaders) {
                    return Simulate(CreateAll(algorithm, WithLeaders(map, count, leaders)), o)->time;
                };
                double best = HUGE_VAL;
                for (int64_t leaders = 1; leaders <= Most(map); leaders++)
                    best = std::min(best, time(leaders));
                const int64_t leaders = std::min<int64_t>(choice.option[3], Most(map));
                EXPECT_LE(time(leaders), 1.15 * best) << Text(map) << count << " leaders=" << leaders;
                if (!one_link)
                    EXPECT_LE(Most(map), choice.option[3]) << Text(map) << count;
                else if (count == 64)
                    EXPECT_EQ(1, choice.option[3]) << Text(map);
                taken[one_link].insert(leaders);
            }
    EXPECT_GE(taken[true].size(), 3u);
}

// Selection ends where values of an option change nothing, and misses none that is better.
TEST(LevelCost, NoValueOfAnOptionIsMissed) {
    const Map maps[] = {Rows(3, 8), Rows(4, 2), Rows(1, 5), Rows(7, 1), {0, 0, 0, 1, 1}, Rows(6, 6)};
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row != nullptr; row++)
        for (const Map &map : maps)
            for (uint64_t count : {0u, 1u, 5u, 1000u, 3000000u}) {
                const gcoll_option *o = (*row)->options;
                gcoll_problem problem =
                    ProblemOn(**row, map, (*row)->collective == GCOLL_BARRIER ? 0 : count);
                gcoll_choice choice = {};
                choice.algorithm = *row;
                std::copy(problem.option, problem.option + GCOLL_MAX_OPTIONS, choice.option);
                int by_cost[GCOLL_MAX_OPTIONS], open = 0;
                for (int i = 0; o != nullptr && o[i].name != nullptr; i++)
                    if (problem.option[i] == GCOLL_BY_COST && o[i].words == nullptr)
                        by_cost[open++] = i;
                if (open == 0 || open > 2)
                    continue;
                const gcoll_levels within = kWithin(Most(map));
                const gcoll_needs needs = {0, 0, nullptr, &within};
                if (gcoll_choice_resolve(&problem, 1, &needs, &kCost, &choice) != GCOLL_OK ||
                    choice.option[by_cost[0]] == GCOLL_BY_COST) // does not apply
                    continue;
                const auto seconds = [&](int64_t first, int64_t second) {
                    problem.option[by_cost[0]] = first;
                    if (open > 1)
                        problem.option[by_cost[1]] = second;
                    return gcoll_algorithm_seconds(*row, &problem, 1, &needs, &kCost);
                };
                const auto next = [](const gcoll_option &option, int64_t v) {
                    return option.doubling ? 2 * v : v + 1;
                };
                double best = HUGE_VAL;
                const gcoll_option &x = o[by_cost[0]], &y = o[by_cost[open - 1]];
                for (int64_t i = x.doubling ? 1 : 0; i <= x.max; i = next(x, i))
                    for (int64_t k = y.doubling ? 1 : 0; k <= (open > 1 ? y.max : 1); k = next(y, k))
                        best = std::min(best, seconds(i, k));
                EXPECT_EQ(best, seconds(choice.option[by_cost[0]], choice.option[by_cost[open - 1]]))
                    << (*row)->name << " on " << Text(map) << count;
            }
}

} // namespace
} // namespace gcoll_test
