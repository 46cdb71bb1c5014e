// test/algorithms/collective_planner_test.cc - planners of reduce, reduce_scatter, allgather and alltoall: on
// data, with an operation that keeps the order of its operands in sight; their published numbers; their costs
// against the simulator.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>

extern "C" {
#include "gcoll/simulate.h"
}

#include "test/kit/plan_runner.h"

namespace gcoll_test {
namespace {

// An element: where in the vector it belongs, and whose contributions it has, in the order of the operands.
struct Element {
    uint64_t position = UINT64_MAX;
    std::vector<uint32_t> ranks;
    bool operator==(const Element &o) const { return position == o.position && ranks == o.ranks; }
};

Element Concatenate(const Element &a, const Element &b) {
    Element r = a;
    if (a.position != b.position)
        r.position = UINT64_MAX - 1;
    r.ranks.insert(r.ranks.end(), b.ranks.begin(), b.ranks.end());
    return r;
}

struct Row {
    gcoll_collective collective;
    const char *name;
};

const Row rows[] = {
    {GCOLL_REDUCE, "binomial"},     {GCOLL_REDUCE, "reduce_scatter_gather"},
    {GCOLL_REDUCE, "ring"},         {GCOLL_REDUCE_SCATTER, "circulant"},
    {GCOLL_REDUCE_SCATTER, "ring"}, {GCOLL_REDUCE_SCATTER, "halving_doubling"},
    {GCOLL_ALLGATHER, "circulant"}, {GCOLL_ALLGATHER, "ring"},
    {GCOLL_ALLGATHER, "linear"},    {GCOLL_ALLGATHER, "recursive_doubling"},
    {GCOLL_ALLTOALL, "pairwise"},   {GCOLL_ALLTOALL, "linear"},
    {GCOLL_ALLTOALL, "bruck"},
};

bool Reduces(gcoll_collective collective) {
    return collective == GCOLL_REDUCE || collective == GCOLL_REDUCE_SCATTER;
}

// What a test asks of a row; blocks may be uneven (not for alltoall and reduce).
struct Case {
    Row row;
    uint32_t size, root;
    uint64_t count;
    bool in_place, uneven;
    std::string text() const {
        return std::string(gcoll_collective_name(row.collective)) + " " + row.name +
               " P=" + std::to_string(size) + " n=" + std::to_string(count) +
               " root=" + std::to_string(root) + (in_place ? " in place" : "") + (uneven ? " uneven" : "");
    }
};

// Runs the case on data and compares every element with what the table of gcoll/plan.h says.
void Check(Case c, uint32_t seed) {
    std::vector<uint64_t> offsets(c.size + 1);
    for (uint32_t r = 0; r < c.size; r++) // sizes 4 0 3 0 2 ...
        offsets[r + 1] = offsets[r] + (r % 2 ? 0 : 4 - r / 2 % 5);
    if (c.uneven)
        c.count = offsets[c.size];
    SCOPED_TRACE(c.text());
    gcoll_problem problem = Problem(c.row.collective, 0, c.size, c.count);
    problem.root = c.root;
    problem.offsets = c.uneven ? offsets.data() : nullptr;
    const gcoll_algorithm *algorithm = Algorithm(c.row.name, c.row.collective);
    std::vector<Plan> plans;
    for (problem.rank = 0; problem.rank < c.size; problem.rank++) {
        problem.in_place = c.in_place && (c.row.collective != GCOLL_REDUCE || problem.rank == c.root);
        plans.push_back(Create(*algorithm, problem));
        ASSERT_TRUE(plans.back()) << gcoll_last_error();
    }
    Runner<Element> run(plans, seed);
    run.op = Concatenate;
    const bool gathers = c.row.collective == GCOLL_ALLGATHER;
    for (uint32_t r = 0; r < c.size; r++) {
        const gcoll_problem &p = plans[r]->problem;
        run.out[r][0].resize(p.count + gcoll_problem_out_count(&p));
        uint64_t first = gathers ? gcoll_block_begin(&p, r) : 0;
        for (uint64_t e = 0; e < gcoll_problem_in_count(&p); e++)
            (p.in_place ? run.out : run.in)[r][0][e + (p.in_place ? first : 0)] = {first + e, {r}};
    }
    ASSERT_TRUE(run.Run()) << run.error;
    std::vector<uint32_t> everybody(c.size);
    std::iota(everybody.begin(), everybody.end(), 0u);
    bool ordered = true;
    for (uint32_t r = 0; r < c.size; r++) {
        const gcoll_problem &p = plans[r]->problem;
        const uint64_t first = c.row.collective == GCOLL_REDUCE_SCATTER ? gcoll_block_begin(&p, r) : 0;
        for (uint64_t e = 0; e < gcoll_problem_out_count(&p); e++) {
            Element got = run.out[r][0][e + (p.in_place ? first : 0)], want;
            if (Reduces(c.row.collective)) {
                ordered = ordered && got.ranks == everybody;
                std::sort(got.ranks.begin(), got.ranks.end());
                want = {first + e, everybody};
            } else if (gathers) {
                uint32_t owner = 0;
                while (gcoll_block_begin(&p, owner + 1) <= e)
                    owner++;
                want = {e, {owner}};
            } else {
                uint64_t block = gcoll_block_count(&p, r);
                want = {gcoll_block_begin(&p, r) + e % block, {uint32_t(e / block)}};
            }
            ASSERT_TRUE(want == got) << "rank " << r << " element " << e << " is of position "
                                     << got.position;
        }
    }
    if (!Reduces(c.row.collective))
        return;
    const bool claimed = gcoll_algorithm_claims(algorithm, &problem) & GCOLL_CLAIM_ORDERED;
    if (c.count >= c.size && !c.uneven) // else those blocks that are out of order may be empty
        EXPECT_EQ(claimed, ordered);
    else
        EXPECT_TRUE(ordered || !claimed);
}

TEST(CollectivePlanners, OnData) {
    for (const Row &row : rows)
        for (uint32_t size = 1; size <= 17; size++)
            for (uint64_t count : {uint64_t(size) - 1, uint64_t(2 * size + 1)})
                for (bool in_place : {false, true}) {
                    if (in_place && row.collective == GCOLL_ALLTOALL)
                        continue;
                    for (uint32_t root = 0; root < (row.collective == GCOLL_REDUCE ? size : 1); root++)
                        Check({row, size, root, count, in_place, false}, size);
                    if (row.collective == GCOLL_REDUCE_SCATTER || row.collective == GCOLL_ALLGATHER)
                        Check({row, size, 0, 0, in_place, true}, size + 1);
                    if (HasFatalFailure())
                        return;
                }
}

// ---- Numbers ----------------------------------------------------------------------------------------

struct Job {
    std::vector<Plan> owned;
    std::vector<const gcoll_plan *> plans;
    gcoll_cost cost{};
    uint64_t count = 0, block = 0;

    Job(const Row &row, uint32_t size, uint32_t root = 0) {
        uint32_t pieces = 1; // also of the largest power of two
        while (2 * pieces <= size)
            pieces *= 2;
        block = 2 * pieces;
        count = block * size;
        gcoll_problem problem = Problem(row.collective, 0, size, count);
        problem.root = root;
        const gcoll_algorithm *algorithm = Algorithm(row.name, row.collective);
        owned = CreateAll(*algorithm, problem);
        for (const Plan &plan : owned)
            plans.push_back(plan.get());
        algorithm->cost(&problem, &cost);
    }
    gcoll_verify_report Report() const {
        gcoll_verify_report report{};
        EXPECT_EQ(GCOLL_OK, gcoll_verify(plans.data(), uint32_t(plans.size()), &report))
            << gcoll_last_error();
        return report;
    }
    // Time units of a microsecond for a message, an element, an element reduced.
    double Simulate(double alpha, double beta, double gamma) const {
        gcoll_simulate_options options;
        gcoll_simulate_options_init(&options);
        options.network.alpha = alpha * 1e-6;
        options.network.beta = beta * 1e-6;
        options.gamma = gamma * 1e-6;
        gcoll_simulation *simulation = nullptr;
        EXPECT_EQ(GCOLL_OK, gcoll_simulate(plans.data(), uint32_t(plans.size()), &options, &simulation))
            << gcoll_last_error();
        double time = simulation ? simulation->time * 1e6 : -1;
        gcoll_simulation_destroy(simulation);
        return time;
    }
};

uint32_t Log2Ceil(uint32_t size) {
    uint32_t log = 0;
    while ((uint64_t{1} << log) < size)
        log++;
    return log;
}

const uint32_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 24, 31, 32, 33, 48, 63, 64};

// The longest chain of messages, and what the busiest rank sends and reduces, by hand for each algorithm.
TEST(CollectivePlanners, StepsAndElementsAsPublished) {
    for (const Row &row : rows)
        for (uint32_t size : sizes) {
            Job job(row, size);
            SCOPED_TRACE(std::string(gcoll_collective_name(row.collective)) + " " + row.name +
                         " P=" + std::to_string(size));
            const std::string name = row.name;
            const bool power = (size & (size - 1)) == 0;
            const uint32_t log = Log2Ceil(size);
            const uint64_t others = job.count - job.block;
            gcoll_verify_report report = job.Report();
            if (name == "ring" && row.collective != GCOLL_REDUCE) {
                EXPECT_EQ(size - 1, report.steps);
                EXPECT_EQ(others, report.sent_max);
            } else if (name == "ring") {
                EXPECT_EQ(size == 1 ? 0 : size, report.steps); // the gather's messages come all at once
                EXPECT_EQ(size == 1 ? 0 : job.count, report.sent_max);
            } else if (name == "circulant") {
                EXPECT_EQ(log, report.steps);
                EXPECT_EQ(others, report.sent_max);
                EXPECT_LE(report.messages_max, 2 * log);
            } else if (name == "linear" || name == "pairwise") {
                EXPECT_EQ(size == 1 ? 0 : name == "linear" ? 1 : size - 1, report.steps);
                EXPECT_EQ(others, report.sent_max);
                EXPECT_EQ(size - 1, report.messages_max);
            } else if (name == "binomial") {
                EXPECT_EQ(log, report.steps);
                EXPECT_LE(report.messages_max, 1u);
                EXPECT_EQ(log * job.count, report.reduced_max);
            } else if (name == "bruck") {
                EXPECT_EQ(log, report.steps);
                EXPECT_EQ(log, report.messages_max);
                EXPECT_LE(report.sent_max, log * job.count / 2);
                if (power)
                    EXPECT_EQ(log * job.count / 2, report.sent_max);
            } else if (name == "halving_doubling" && power) {
                EXPECT_EQ(log + (log > 1), report.steps);
                EXPECT_EQ(others + (log > 1 ? job.block : 0), report.sent_max);
            } else if (name == "reduce_scatter_gather" && power) {
                EXPECT_EQ(2 * log, report.steps);
            } else if (name == "recursive_doubling" && power) {
                EXPECT_EQ(log, report.steps);
                EXPECT_EQ(others, report.sent_max);
            }
            if (Reduces(row.collective) && name != "binomial" && (power || name != "halving_doubling") &&
                (power || name != "reduce_scatter_gather"))
                EXPECT_EQ(others, report.reduced_max);
            if (!Reduces(row.collective))
                EXPECT_EQ(0u, report.reduced_max);
        }
}

// One port: what the formulas say is what the simulator finds, to the step and element for most; those whose
// heads say "nearly" or "at most" may be off a little for P no power of two.
TEST(CollectivePlanners, CostsAreWhatTheSimulatorFinds) {
    for (const Row &row : rows)
        for (uint32_t size : sizes)
            for (uint32_t root : {0u, size - 1}) {
                if (root > 0 && row.collective != GCOLL_REDUCE)
                    continue;
                SCOPED_TRACE(std::string(gcoll_collective_name(row.collective)) + " " + row.name +
                             " P=" + std::to_string(size) + " root=" + std::to_string(root));
                Job job(row, size, root);
                const std::string name = row.name;
                const bool power = (size & (size - 1)) == 0;
                const bool nearly = !power && (name == "halving_doubling" || name == "reduce_scatter_gather");
                const double share = nearly ? 0.15 : 1e-9;
                EXPECT_NEAR(job.cost.steps, job.Simulate(1, 0, 0), nearly ? 1 : 1e-9);
                EXPECT_NEAR(job.cost.sent, job.Simulate(0, 1, 0), share * job.cost.sent);
                EXPECT_NEAR(job.cost.reduced, job.Simulate(0, 0, 1), share * job.cost.reduced);
            }
}

// ---- Limits -----------------------------------------------------------------------------------------

TEST(CollectivePlanners, BruckNeedsBlocksThatAllKnow) {
    const uint64_t send[] = {0, 1, 3}, receive[] = {0, 1, 2};
    gcoll_problem problem = Problem(GCOLL_ALLTOALL, 0, 2, 3);
    problem.offsets = send;
    problem.recv_offsets = receive;
    gcoll_plan *plan = nullptr;
    EXPECT_EQ(GCOLL_ERR_UNSUPPORTED, gcoll_plan_create(Algorithm("bruck", GCOLL_ALLTOALL), &problem, &plan));
    EXPECT_NE(nullptr, strstr(gcoll_last_error(), "offsets")) << gcoll_last_error();
    EXPECT_EQ(nullptr, plan);
    EXPECT_EQ(GCOLL_OK, gcoll_plan_create(Algorithm("pairwise", GCOLL_ALLTOALL), &problem, &plan));
    gcoll_plan_destroy(plan);
}

TEST(CollectivePlanners, LogarithmicPlansStaySmall) {
    const Row logarithmic[] = {
        {GCOLL_REDUCE, "binomial"},          {GCOLL_REDUCE, "reduce_scatter_gather"},
        {GCOLL_REDUCE_SCATTER, "circulant"}, {GCOLL_REDUCE_SCATTER, "halving_doubling"},
        {GCOLL_ALLGATHER, "circulant"},      {GCOLL_ALLGATHER, "recursive_doubling"}};
    for (const Row &row : logarithmic)
        for (uint32_t rank : {0u, 1u, 349525u, 1048575u}) {
            Plan plan = Create(row.name, Problem(row.collective, rank, 1048576, UINT64_C(1) << 32));
            ASSERT_TRUE(plan) << row.name << ": " << gcoll_last_error();
            EXPECT_LE(plan->step_count, 6u * 20) << row.name;
        }
}

// ---- Counts that only the root knows --------------------------------------------------------------------

std::string Steps(const gcoll_problem &problem, const char *name) {
    char *text = nullptr;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    const Plan plan = Create(name, problem);
    gcoll_plan_print(plan.get(), file);
    fclose(file);
    std::string all(text, bytes);
    free(text);
    return all.substr(all.find('\n') + 1); // without the head, which says the count
}

// A rank that knows only its own block plans what it plans when it knows all, which the verifier has proved.
TEST(RootCounts, LinearPlansNeedOnlyTheOwnBlock) {
    for (uint32_t size : {1u, 2u, 3u, 7u, 16u})
        for (uint32_t root = 0; root < size; root++)
            for (gcoll_collective collective : {GCOLL_GATHER, GCOLL_SCATTER})
                for (uint32_t rank = 0; rank < size; rank++)
                    for (uint64_t segment : {0u, 3u}) {
                        std::vector<uint64_t> all(size + 1), own(size + 1);
                        for (uint32_t r = 0; r < size; r++)
                            all[r + 1] = all[r] + r * 3 % 5;
                        for (uint32_t r = rank + 1; r <= size; r++)
                            own[r] = all[rank + 1] - all[rank];
                        gcoll_problem problem{};
                        problem.collective = collective;
                        problem.rank = rank;
                        problem.size = size;
                        problem.root = root;
                        problem.buffers = 1;
                        problem.segment = segment;
                        problem.count = all[size];
                        problem.offsets = all.data();
                        const std::string want = Steps(problem, "linear");
                        if (rank == root)
                            continue;
                        problem.count = own[size];
                        problem.offsets = own.data();
                        EXPECT_EQ(Steps(problem, "linear"), want) << "rank " << rank << " of " << size;
                    }
}

} // namespace
} // namespace gcoll_test
