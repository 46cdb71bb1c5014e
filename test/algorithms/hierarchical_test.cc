// test/algorithms/hierarchical_test.cc - allreduce by hosts, for hosts of every shape.
#include "test/kit/allreduce_oracle.h"
#include "test/kit/plan_rounds.h"

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

// Every algorithm across and within, in place and not.
void ProveMap(const Map &map) {
    const gcoll_option *options = Hierarchical().options;
    const uint64_t size = map.size();
    for (uint32_t across = 0; across < Words(options[0].words); across++)
        for (uint32_t within = 0; within < Words(options[1].words); within++)
            for (int64_t r = -1; r <= (across == 0 ? 3 : -1); r++)
                for (uint64_t count : {uint64_t(0), uint64_t(1), size - 1, 4 * size, 3 * size + 1})
                    for (bool in_place : {false, true}) {
                        SCOPED_TRACE("hosts " + Text(map) + " across " + options[0].words[across] +
                                     " within " + options[1].words[within] + " r=" + std::to_string(r) +
                                     " n=" + std::to_string(count) + (in_place ? " in place" : ""));
                        gcoll_problem problem = MapProblem(map, count);
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
        ProveMap(map);
        if (HasFailure())
            return;
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

// A message belongs to one round, whichever end one asks, also where hosts have more or fewer ranks.
TEST(Hierarchical, BothEndsAgreeOnRounds) {
    for (const Map &map : Maps()) {
        std::vector<Plan> plans = CreateAll(Hierarchical(), MapProblem(map, 10 * map.size()));
        const MessageRounds rounds = RoundsOfMessages(plans);
        EXPECT_EQ(rounds.sent, rounds.received) << Text(map);
    }
}

} // namespace
} // namespace gcoll_test
