// test/plan/verify_grid_test.cc - proves every algorithm of the table over a grid of ranks, counts and
// options, and holds it to its own claims, cost and restrictions.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "test/plan/verify_grid.h"

namespace verify_grid {
namespace {

// ---- Operations -------------------------------------------------------------------------------------------

// A few operations of each kind for every number of ranks, and mixtures by chance, the same in each run.
class Operations {
  public:
    Operations(gcoll_collective collective, uint32_t size, uint32_t salt)
        : collective_(collective), size_(size), random_(size * 977 + salt * 31 + collective) {}

    std::vector<Operation> plain() {
        std::vector<Operation> made;
        uint32_t number = 0;
        for (uint64_t count : counts())
            for (Place place : {Place::apart, Place::in_place}) {
                Operation operation(collective_, size_, count);
                operation.place = place;
                operation.problem.root = has_root(collective_) ? roots()[number++ % 3] : 0;
                if (place == Place::apart || has_in_place(collective_))
                    made.push_back(operation);
            }
        return made;
    }

    Operation mixture() {
        Operation operation(collective_, size_, counts()[pick(collective_ == GCOLL_BARRIER ? 1 : 7)]);
        gcoll_problem &p = operation.problem;
        operation.place = static_cast<Place>(pick(3));
        if (has_root(collective_))
            p.root = roots()[pick(3)];
        if (has_buffers(collective_) && pick(3) == 0)
            p.buffers = 3;
        if (gcoll_collective_reduces(collective_)) {
            p.average = pick(3) == 0;
            p.order = static_cast<gcoll_order>(pick(4));
        }
        if (has_buffers(collective_) && p.order >= GCOLL_ORDER_PAIRS)
            p.buffers = 1 + pick(3) * pick(4);
        else if (has_buffers(collective_) && !p.average)
            operation.mixed_buffers = pick(6) == 0;
        if (collective_ == GCOLL_PAIRWISE_EXCHANGE)
            p.exchanges = pick(log2_ceil(size_) + 3);
        if (pick(2) == 0)
            add_blocks(operation);
        if (pick(2) == 0)
            operation.node = nodes();
        if (pick(2) == 0)
            add_arrivals(operation);
        if (pick(4) != 0)
            operation.tour = tour();
        const uint64_t segments[] = {0, 0, (p.count + 2) / 3, p.count + 1, 2, 1};
        p.segment = segments[pick(size_ > 20 ? 2 : p.count > 100 ? 4 : 6)];
        return operation;
    }

  private:
    uint32_t pick(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

    std::vector<uint64_t> counts() const {
        uint64_t size = size_;
        if (collective_ == GCOLL_BARRIER)
            return {0};
        return {0, 1, size - 1, size, 3 * size + 1, 4 * size, 1000};
    }
    std::vector<uint32_t> roots() const { return {0, size_ / 2, size_ - 1}; }

    // Of blocks: all in one, many empty, or of every size.
    uint64_t block(uint32_t kind, uint32_t rank, uint32_t chosen) {
        if (kind == 0)
            return rank == chosen ? size_ + 2 : 0;
        return kind == 1 ? pick(2) * pick(4) : 1 + pick(5);
    }

    void add_blocks(Operation &operation) {
        uint32_t kind = pick(3), chosen = pick(size_);
        for (uint32_t rank = 0; rank < size_ && has_blocks(collective_); rank++)
            operation.blocks.push_back(block(kind, rank, chosen));
        for (uint32_t from = 0; from < size_ && collective_ == GCOLL_ALLTOALL; from++) {
            operation.pairs.emplace_back();
            for (uint32_t to = 0; to < size_; to++)
                operation.pairs.back().push_back(block(kind, to, (chosen + from) % size_));
        }
        operation.use_blocks();
    }

    // One host, a host each, pairs, dealt out in turn, or hosts of different sizes.
    std::vector<uint32_t> nodes() {
        uint32_t kind = pick(5), node = 0;
        std::vector<uint32_t> made;
        for (uint32_t rank = 0; rank < size_; rank++) {
            node += kind == 4 && pick(3) == 0 ? 1 : 0;
            const uint32_t kinds[] = {7, rank, rank / 2, rank % 3, node};
            made.push_back(kinds[kind]);
        }
        return made;
    }

    std::vector<uint32_t> tour() {
        std::vector<uint32_t> made(size_);
        std::iota(made.begin(), made.end(), 0u);
        std::shuffle(made.begin(), made.end(), random_);
        return made;
    }

    void add_arrivals(Operation &operation) {
        uint32_t kind = pick(3), late = pick(size_);
        operation.problem.segment_ns = 10;
        for (uint32_t rank = 0; rank < size_; rank++) {
            const int64_t kinds[] = {static_cast<int64_t>(pick(40)), rank == late ? 10 * size_ : 0, rank * 4};
            operation.arrival.push_back(kinds[kind]);
        }
    }

    gcoll_collective collective_;
    uint32_t size_;
    std::mt19937 random_;
};

// ---- Checks -----------------------------------------------------------------------------------------------

// Whether every rank gets enough for all to show. With fewer elements, or in blocks of none, a wrong plan
// may give the right result, and a plan more than its algorithm claims.
bool telling(const Operation &operation) {
    auto full = [](const std::vector<uint64_t> &counts) {
        return std::count(counts.begin(), counts.end(), 0u) == 0;
    };
    return !operation.mixed_buffers && operation.problem.count >= operation.problem.size &&
           full(operation.blocks) && std::all_of(operation.pairs.begin(), operation.pairs.end(), full);
}

// Whether the planner, unasked whether it applies, makes a right plan. In a process of its own: a planner may
// rely on not being asked.
bool right_if_planned(const gcoll_algorithm &algorithm, const Operation &operation) {
    pid_t child = fork();
    if (child == 0) {
        fclose(stderr); // a sanitizer's report is of no interest
        alarm(60);
        Plans plans(algorithm, operation, true);
        gcoll_verify_report report;
        _exit(plans.verify(&report) == GCOLL_OK ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status == 0;
}

// A refusal must have a reason: what the planner would make of the problem must be no plan, or a wrong one.
// Unless what the problem lacks is knowledge of hosts or arrivals.
void check_refusal(const gcoll_algorithm &algorithm, const Operation &operation) {
    gcoll_problem problem = operation.of(0);
    gcoll_plan *plan = nullptr;
    EXPECT_EQ(gcoll_plan_create(&algorithm, &problem, &plan), GCOLL_ERR_UNSUPPORTED);
    std::vector<uint32_t> node(problem.size);
    std::vector<int64_t> arrival(problem.size);
    problem.node = problem.node ? problem.node : node.data();
    problem.arrival_ns = problem.arrival_ns ? problem.arrival_ns : arrival.data();
    if (algorithm.applies(&problem) == GCOLL_OK)
        return;
    EXPECT_FALSE(problem.size > 1 && telling(operation) && right_if_planned(algorithm, operation))
        << "refused, and yet the plan is right";
}

// Whether the plan goes by hosts, which its cost then shows, or may go by arrivals or a tour.
bool by_layout(const gcoll_algorithm &algorithm, const Operation &operation) {
    gcoll_problem problem = operation.of(0), hostless = problem;
    gcoll_cost cost{}, without{};
    hostless.node = nullptr;
    if (!operation.arrival.empty() || (algorithm.uses_tour && !operation.tour.empty()) ||
        (algorithm.applies && algorithm.applies(&hostless) != GCOLL_OK))
        return true;
    algorithm.cost(&problem, &cost);
    algorithm.cost(&hostless, &without);
    return cost.steps != without.steps || cost.sent != without.sent || cost.reduced != without.reduced ||
           cost.scratch != without.scratch;
}

void check_claims(const gcoll_algorithm &algorithm, const Operation &operation, uint32_t found) {
    gcoll_problem problem = operation.of(0);
    uint32_t claims = gcoll_algorithm_claims(&algorithm, &problem);
    if (operation.mixed_buffers) // trees are claimed for as many buffers on every rank
        claims &= ~(GCOLL_CLAIM_PAIRS | GCOLL_CLAIM_LEFT);
    EXPECT_EQ(claims & ~found, 0u) << "claims what does not hold";
    if (by_layout(algorithm, operation)) // what one layout or order happens to give need not be claimed
        found &= ~(GCOLL_CLAIM_PAIRS | GCOLL_CLAIM_LEFT | GCOLL_CLAIM_ORDERED);
    if (telling(operation))
        EXPECT_EQ(found & ~claims, 0u) << "does not claim what holds";
}

// On some rank.
bool sums_in_scratch(const Operation &operation) {
    for (uint32_t rank = 0; rank < operation.problem.size; rank++) {
        const gcoll_problem problem = operation.of(rank);
        if (gcoll_problem_sums_in_scratch(&problem))
            return true;
    }
    return false;
}

// The busiest rank's way is no shorter than the longest chain, and carries at least what any port does.
// Chunks that are not all alike are rounded up by less than one element in each of two ranges a message.
void check_cost(const gcoll_algorithm &algorithm, const Operation &operation, const Plans &plans,
                const gcoll_verify_report &report) {
    gcoll_problem problem = operation.of(0);
    gcoll_cost cost{};
    algorithm.cost(&problem, &cost);
    if (sums_in_scratch(operation)) /* which formulas do not speak of */
        cost.scratch += static_cast<double>(problem.count);
    const bool combines = algorithm.takes_order && problem.order >= GCOLL_ORDER_PAIRS && problem.buffers > 1;
    const bool has_subtrees = problem.order == GCOLL_ORDER_PAIRS && problem.buffers > 2;
    if (has_subtrees && !combines) /* which formulas do not speak of */
        cost.scratch += static_cast<double>(problem.count * (problem.buffers / 2));
    EXPECT_GE(cost.scratch, static_cast<double>(report.scratch_max));
    const int64_t owners =
        algorithm.takes_order ? problem.option[0] : 0; // which may cut otherwise than ranks do
    const bool alike =
        owners <= 0 || owners > problem.size || problem.count % static_cast<uint64_t>(owners) == 0;
    if (!combines && !has_subtrees && alike && operation.blocks.empty() &&
        problem.count % problem.size == 0 && !by_layout(algorithm, operation) && !operation.mixed_buffers)
        EXPECT_DOUBLE_EQ(cost.scratch, static_cast<double>(report.scratch_max));
    bool passes = problem.segment > 0 || problem.buffers > 1 || operation.mixed_buffers;
    if (passes || !operation.blocks.empty())
        return; // more than the formulas speak of
    EXPECT_GE(cost.steps, report.steps);
    if (!operation.arrival.empty())
        return; // formulas are for all together
    double spare = 2 * cost.steps;
    EXPECT_GE(cost.sent + spare, static_cast<double>(std::max(report.sent_max, plans.most_received())));
    EXPECT_GE(cost.reduced + spare, static_cast<double>(report.reduced_max));
}

// Each rank chooses by itself, so that what a choice depends on must be the same for all of them.
void check_agreement(const gcoll_algorithm &algorithm, const Operation &operation) {
    const gcoll_problem first = operation.of(0);
    const gcoll_status applies = algorithm.applies ? algorithm.applies(&first) : GCOLL_OK;
    for (uint32_t rank : {operation.problem.root, first.size / 2, first.size - 1}) {
        gcoll_problem problem = operation.of(rank);
        EXPECT_EQ(applies, algorithm.applies ? algorithm.applies(&problem) : GCOLL_OK) << rank;
        if (applies != GCOLL_OK)
            continue;
        gcoll_cost cost{}, theirs{};
        algorithm.cost(&first, &cost);
        algorithm.cost(&problem, &theirs);
        EXPECT_TRUE(cost.steps == theirs.steps && cost.sent == theirs.sent &&
                    cost.reduced == theirs.reduced && cost.scratch == theirs.scratch)
            << "cost by rank " << rank;
        const uint32_t unlike = operation.mixed_buffers ? GCOLL_CLAIM_PAIRS | GCOLL_CLAIM_LEFT : 0;
        EXPECT_EQ(gcoll_algorithm_claims(&algorithm, &first) | unlike,
                  gcoll_algorithm_claims(&algorithm, &problem) | unlike)
            << rank;
    }
}

void check(const gcoll_algorithm &algorithm, const Operation &operation) {
    SCOPED_TRACE(operation.describe(algorithm));
    gcoll_problem problem = operation.of(0);
    bool alike = operation.pairs.empty(); // else a rank knows only its own blocks
    if (alike)
        check_agreement(algorithm, operation);
    if (algorithm.applies && algorithm.applies(&problem) != GCOLL_OK) {
        check_refusal(algorithm, operation);
        return;
    }
    gcoll_verify_report report;
    Plans plans(algorithm, operation);
    ASSERT_EQ(plans.verify(&report), GCOLL_OK) << gcoll_last_error();
    check_claims(algorithm, operation, report.claims);
    if (alike)
        check_cost(algorithm, operation, plans, report);
    if (problem.segment > 0)
        EXPECT_LE(plans.largest_step(), problem.segment);
}

// ---- The grid ---------------------------------------------------------------------------------------------

uint32_t mixtures(uint32_t size) {
    if (small_grid)
        return size <= 8 ? 10 : 3;
    return size <= 9 ? 24 : size <= 20 ? 8 : size <= 32 ? 3 : size <= 64 ? 2 : 1;
}

void check_size(const gcoll_algorithm &algorithm, uint32_t size) {
    uint32_t salt = 0;
    for (const std::vector<int64_t> &setting : settings(algorithm, size)) {
        Operations operations(algorithm.collective, size, salt++);
        std::vector<Operation> list;
        if (size <= (small_grid ? 7 : 17))
            list = operations.plain();
        for (uint32_t i = 0; i < mixtures(size); i++)
            list.push_back(operations.mixture());
        for (Operation &operation : list) {
            std::copy(setting.begin(), setting.end(), operation.problem.option);
            check(algorithm, operation);
            if (::testing::Test::HasFailure())
                return;
        }
    }
}

struct Cell {
    const gcoll_algorithm *algorithm;
    uint32_t first, last; // ranks
};

std::vector<Cell> cells() {
    std::vector<Cell> made;
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row; row++) {
        if (small_grid)
            for (auto [first, last] : {std::pair{1u, 9u}, {13u, 13u}, {16u, 17u}, {33u, 33u}})
                made.push_back({*row, first, last});
        else
            for (auto [first, last] :
                 {std::pair{1u, 32u}, {33u, 64u}, {127u, 127u}, {128u, 128u}, {251u, 251u}})
                made.push_back({*row, first, last});
    }
    return made;
}

class Grid : public ::testing::TestWithParam<Cell> {};

TEST_P(Grid, Verifies) {
    for (uint32_t size = GetParam().first; size <= GetParam().last && !HasFailure(); size++)
        check_size(*GetParam().algorithm, size);
}

INSTANTIATE_TEST_SUITE_P(All, Grid, ::testing::ValuesIn(cells()), [](const auto &cell) {
    const gcoll_algorithm &algorithm = *cell.param.algorithm;
    return std::string(gcoll_collective_name(algorithm.collective)) + "_" + algorithm.name + "_" +
           std::to_string(cell.param.first) + "_" + std::to_string(cell.param.last);
});

} // namespace
} // namespace verify_grid
