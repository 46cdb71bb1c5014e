// test/algorithms/hierarchical_test.cc - allreduce by hosts, for hosts of every shape.
#include "test/kit/allreduce_oracle.h"
#include "test/kit/plan_rounds.h"

#include <map>
#include <set>

namespace gcoll_test {
namespace {

using Map = std::vector<uint32_t>; // rank to host

const gcoll_algorithm &Hierarchical() {
    return *Algorithm("hierarchical", GCOLL_ALLREDUCE);
}

uint32_t Words(const char *const *words) {
    uint32_t count = 0;
    while (words[count] != nullptr)
        count++;
    return count;
}

std::string Text(const Map &map) {
    std::string text;
    for (uint32_t host : map)
        text += (text.empty() ? "" : ",") + std::to_string(host);
    return text;
}

gcoll_problem MapProblem(const Map &map, uint64_t count) {
    gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, uint32_t(map.size()), count);
    SetFallbacks(&problem, &Hierarchical());
    problem.node = map.data();
    return problem;
}

uint32_t Fewest(const Map &map) {
    std::map<uint32_t, uint32_t> ranks;
    uint32_t fewest = UINT32_MAX;
    for (uint32_t host : map)
        ranks[host]++;
    for (const auto &host : ranks)
        fewest = std::min(fewest, host.second);
    return fewest;
}

// Every algorithm across and within, in place and not.
void ProveMap(const Map &map, int64_t leaders) {
    const gcoll_option *options = Hierarchical().options;
    const uint64_t size = map.size();
    for (uint32_t across = 0; across < Words(options[0].words); across++)
        for (uint32_t within = 0; within < Words(options[1].words); within++)
            for (int64_t r = -1; r <= (across == 0 ? 3 : -1); r++)
                for (uint64_t count : {uint64_t(0), uint64_t(1), size - 1, 4 * size, 3 * size + 1})
                    for (bool in_place : {false, true}) {
                        SCOPED_TRACE("hosts " + Text(map) + " across " + options[0].words[across] +
                                     " within " + options[1].words[within] + " r=" + std::to_string(r) +
                                     " leaders=" + std::to_string(leaders) + " n=" + std::to_string(count) +
                                     (in_place ? " in place" : ""));
                        gcoll_problem problem = MapProblem(map, count);
                        problem.option[3] = leaders;
                        problem.in_place = in_place;
                        problem.option[0] = across;
                        problem.option[1] = within;
                        problem.option[2] = r;
                        ProveAllreduce(Hierarchical(), problem, false);
                        if (testing::Test::HasFailure())
                            return;
                    }
}

std::vector<Map> Maps() {
    std::vector<Map> maps = {
        {5},
        {5, 5},
        {9, 2},
        {3, 3, 3, 3, 3, 3, 3},
        {0, 1, 2, 3, 4, 5, 6}, // one host; a rank on each
        {0, 0, 0, 1, 2, 2},
        {0, 1, 1, 1, 1},
        {0, 0, 0, 0, 1},
        {0, 0, 1, 1, 1},
        {4, 4, 2, 2, 2, 2, 0, 0, 0}, // uneven
        {0, 1, 0, 1, 0, 1},
        {2, 1, 0, 2, 1, 0},
        {7, 8, 8, 7},
        {7, 8, 8, 7, 7},                                    // interleaved
        {UINT32_MAX, 0, UINT32_MAX, 0, 1u << 31, 1u << 31}, // numbers are names
    };
    for (uint32_t hosts = 2; hosts <= 4; hosts++)
        for (uint32_t ranks = 2; ranks <= 4; ranks++) {
            Map rows, cards;
            for (uint32_t i = 0; i < hosts * ranks; i++) {
                rows.push_back(i / ranks);
                cards.push_back(i % hosts);
            }
            maps.push_back(rows);
            maps.push_back(cards);
        }
    std::mt19937 random(11);
    for (int i = 0; i < 30; i++) {
        Map map(2 + random() % 11);
        uint32_t hosts = 1 + random() % 5;
        for (uint32_t &host : map)
            host = random() % hosts;
        maps.push_back(map);
    }
    return maps;
}

TEST(Hierarchical, SumsWhateverTheHosts) {
    for (const Map &map : Maps()) {
        ProveMap(map, GCOLL_BY_COST);
        if (HasFailure())
            return;
    }
}

TEST(Hierarchical, SumsWhateverTheLeaders) {
    for (const Map &map : Maps())
        for (uint32_t leaders = 1; leaders < Fewest(map) && !HasFailure(); leaders++)
            ProveMap(map, leaders);
}

// No leaders, and more than there can be, are all ranks of the smallest host.
TEST(Hierarchical, LeadersAreAtMostTheSmallestHost) {
    const auto text = [](const Map &map, int64_t leaders) {
        gcoll_problem problem = MapProblem(map, 100);
        problem.option[3] = leaders;
        char *bytes = nullptr;
        size_t size = 0;
        FILE *file = open_memstream(&bytes, &size);
        for (const Plan &plan : CreateAll(Hierarchical(), problem))
            gcoll_plan_print(plan.get(), file);
        fclose(file);
        std::string printed(bytes, size);
        free(bytes);
        return printed;
    };
    for (const Map &map : Maps()) {
        const std::string all = text(map, Fewest(map));
        for (int64_t leaders : {int64_t(GCOLL_BY_COST), int64_t(0), int64_t(Fewest(map)) + 1, int64_t(4096)})
            EXPECT_EQ(text(map, leaders), all) << Text(map) << " leaders=" << leaders;
    }
}

// Even hosts of consecutive ranks: claims and costs are what the verifier finds.
TEST(Hierarchical, ClaimsAndCostsOfEvenHosts) {
    const gcoll_option *options = Hierarchical().options;
    for (uint32_t hosts = 1; hosts <= 6; hosts++)
        for (uint32_t ranks = 1; ranks <= 5; ranks++)
            for (uint32_t across = 0; across < Words(options[0].words); across++)
                for (uint32_t within = 0; within < Words(options[1].words); within++)
                    for (int64_t r = 0; r <= (across == 0 ? 3 : 0); r++) {
                        Map map;
                        for (uint32_t i = 0; i < hosts * ranks; i++)
                            map.push_back(i / ranks);
                        SCOPED_TRACE("hosts " + Text(map) + " across " + options[0].words[across] +
                                     " within " + options[1].words[within] + " r=" + std::to_string(r));
                        gcoll_problem problem = MapProblem(map, 4 * map.size());
                        problem.option[0] = across;
                        problem.option[1] = within;
                        problem.option[2] = r;
                        gcoll_verify_report found{};
                        ProveAllreduce(Hierarchical(), problem, true, &found);
                        bool folds = across > 2 && (hosts & (hosts - 1)) != 0; // then ranks differ
                        if (!HasFailure() && !folds)
                            ExpectCost(Hierarchical(), problem, found);
                        if (HasFailure())
                            return;
                    }
}

TEST(Hierarchical, WithoutAMapAllRanksShareAHost) {
    for (uint32_t size = 1; size <= 9; size++) {
        gcoll_problem problem = MapProblem({}, 4 * size);
        problem.size = size;
        problem.node = nullptr;
        ProveAllreduce(Hierarchical(), problem, true);
    }
}

// With no map, claims and cost list no ranks, so that selection takes no time; they are those of a map of one
// host.
TEST(Hierarchical, ClaimsAndCostsWithoutAMap) {
    for (uint32_t size : {1u, 2u, 3u, 8u, 13u, 100u})
        for (uint64_t count : {0u, 1u, 7u, 1000u}) {
            const std::vector<uint32_t> map(size, 7);
            gcoll_problem problem = MapProblem(map, count), without = problem;
            without.node = nullptr;
            gcoll_cost cost, found;
            Hierarchical().cost(&problem, &cost);
            Hierarchical().cost(&without, &found);
            EXPECT_EQ(0, memcmp(&cost, &found, sizeof cost)) << size << " ranks";
            EXPECT_EQ(Hierarchical().claims(&problem), Hierarchical().claims(&without)) << size << " ranks";
        }
}

// Ranks of different hosts exchange messages only if they stand at the same place, and the hosts' links carry
// what a ring over hosts would: 2(h-1) n in all, however many ranks a host has.
TEST(Hierarchical, SharesCrossBetweenHostsOnce) {
    for (uint32_t hosts : {2u, 3u, 5u})
        for (uint32_t ranks : {1u, 2u, 4u}) {
            Map map;
            for (uint32_t i = 0; i < hosts * ranks; i++)
                map.push_back(i / ranks);
            const uint64_t n = 12 * map.size();
            uint64_t crossing = 0;
            std::vector<Plan> plans = CreateAll(Hierarchical(), MapProblem(map, n));
            for (uint32_t rank = 0; rank < map.size(); rank++)
                for (uint32_t i = 0; i < plans[rank]->step_count; i++) {
                    const gcoll_step &s = plans[rank]->steps[i];
                    if (s.kind != GCOLL_STEP_SEND || map[rank] == map[s.peer])
                        continue;
                    EXPECT_EQ(rank % ranks, s.peer % ranks);
                    crossing += s.count;
                }
            EXPECT_EQ(2 * (hosts - 1) * n, crossing) << hosts << " hosts of " << ranks;
        }
}

// Only leaders send to other hosts and receive from there, as many on each host as were asked for, and each
// with the leader of its share. The hosts' links carry as much as with any other number of them.
TEST(Hierarchical, OnlyLeadersCross) {
    for (const Map &map : Maps())
        for (uint32_t leaders = 1; leaders <= Fewest(map); leaders++) {
            const std::set<uint32_t> hosts(map.begin(), map.end());
            const uint64_t n = 60 * hosts.size();
            gcoll_problem problem = MapProblem(map, n);
            problem.option[2] = 0;
            problem.option[3] = leaders;
            std::map<uint32_t, std::set<uint32_t>> crossing;
            uint64_t crossed = 0;
            std::vector<Plan> plans = CreateAll(Hierarchical(), problem);
            for (uint32_t rank = 0; rank < map.size(); rank++)
                for (uint32_t i = 0; i < plans[rank]->step_count; i++) {
                    const gcoll_step &s = plans[rank]->steps[i];
                    if (s.kind != GCOLL_STEP_SEND || map[rank] == map[s.peer])
                        continue;
                    crossing[map[rank]].insert(rank);
                    crossing[map[s.peer]].insert(s.peer);
                    crossed += s.count;
                }
            for (const auto &host : crossing)
                EXPECT_EQ(host.second.size(), leaders) << Text(map);
            EXPECT_EQ(crossing.size(), hosts.size() > 1 ? hosts.size() : 0) << Text(map);
            EXPECT_EQ(crossed, 2 * (hosts.size() - 1) * n) << Text(map) << " leaders=" << leaders;
        }
}

// A message belongs to one round, whichever end one asks, also where hosts have more or fewer ranks.
TEST(Hierarchical, BothEndsAgreeOnRounds) {
    for (const Map &map : Maps())
        for (uint32_t leaders = 1; leaders <= Fewest(map); leaders++) {
            gcoll_problem problem = MapProblem(map, 10 * map.size());
            problem.option[3] = leaders;
            const MessageRounds rounds = RoundsOfMessages(CreateAll(Hierarchical(), problem));
            EXPECT_EQ(rounds.sent, rounds.received) << Text(map) << " leaders=" << leaders;
        }
}

} // namespace
} // namespace gcoll_test
