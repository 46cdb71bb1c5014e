// test/plan/verify_mutation_test.cc - right plans of every algorithm, in many shapes, to be spoiled by
// verify_mutants.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "test/kit/sanitizer.h"
#include "test/plan/verify_grid.h"
#include "test/plan/verify_mutants.h"

extern "C" {
#include "algorithms/algorithms.h"
}

namespace verify_test {
namespace {

Job plan_job(const gcoll_algorithm &algorithm, const verify_grid::Operation &operation) {
    Job job;
    for (uint32_t rank = 0; rank < operation.problem.size; rank++) {
        gcoll_plan *plan = nullptr;
        gcoll_problem problem = operation.of(rank);
        EXPECT_EQ(gcoll_plan_create(&algorithm, &problem, &plan), GCOLL_OK) << gcoll_last_error();
        if (!plan)
            return job;
        job.push_back(Plan::of(*plan));
        job.back().problem.offsets = problem.offsets; // those of the plan end with it
        job.back().problem.recv_offsets = problem.recv_offsets;
        gcoll_plan_destroy(plan);
    }
    return job;
}

struct Shape {
    const char *name;
    verify_grid::Place place;
    bool average, blocks;
    uint32_t buffers;
    uint64_t count_per_rank, count_more, segment;
    verify_grid::Layout layout = verify_grid::Layout::host;
    gcoll_local local = GCOLL_LOCAL_AUTO;
    bool whole = false;
    gcoll_order order = GCOLL_ORDER_DEFAULT;
};

const Shape shapes[] = {
    {"in_place", verify_grid::Place::in_place, false, false, 1, 1, 0, 0},
    {"out_of_place", verify_grid::Place::apart, false, true, 1, 2, 1, 0},
    {"average", verify_grid::Place::in_place, true, false, 2, 1, 0, 0},
    {"segments", verify_grid::Place::mixed, false, true, 2, 1, 1, 1},
};

// For algorithms that build the tree that is wanted, of all buffers.
const Shape tree_shapes[] = {
    {"pairs", verify_grid::Place::in_place, false, true, 3, 1, 1, 0, verify_grid::Layout::host,
     GCOLL_LOCAL_AUTO, false, GCOLL_ORDER_PAIRS},
    {"left", verify_grid::Place::apart, true, false, 2, 1, 0, 1, verify_grid::Layout::host, GCOLL_LOCAL_AUTO,
     false, GCOLL_ORDER_LEFT},
};

// The same with buffers in the memory of devices.
const Shape staged_shapes[] = {
    {"device", verify_grid::Place::apart, false, true, 2, 1, 0, 0, verify_grid::Layout::device},
    {"whole", verify_grid::Place::in_place, true, false, 2, 1, 0, 0, verify_grid::Layout::ranks,
     GCOLL_LOCAL_DEVICE, true},
    {"peer", verify_grid::Place::mixed, false, false, 2, 1, 0, 1, verify_grid::Layout::spread,
     GCOLL_LOCAL_PEER},
    {"halves", verify_grid::Place::mixed, true, true, 4, 1, 0, 0, verify_grid::Layout::halves,
     GCOLL_LOCAL_DEVICE},
    {"outputs", verify_grid::Place::apart, false, false, 2, 1, 0, 0, verify_grid::Layout::outputs,
     GCOLL_LOCAL_HOST},
};

verify_grid::Operation make_operation(gcoll_collective collective, uint32_t size, const Shape &shape) {
    uint64_t count = shape.count_per_rank * size + shape.count_more;
    verify_grid::Operation made(collective, size, collective == GCOLL_BARRIER ? 0 : count);
    made.place = shape.place;
    made.problem.root = verify_grid::has_root(collective) ? size / 2 : 0;
    made.problem.average = shape.average && gcoll_collective_reduces(collective);
    made.problem.buffers = verify_grid::has_buffers(collective) ? shape.buffers : 1;
    made.problem.segment = shape.segment;
    made.problem.order = shape.order;
    for (uint32_t r = 0; shape.blocks && r < size && verify_grid::has_blocks(collective); r++)
        made.blocks.push_back((r + 2) % 3);
    for (uint32_t from = 0; shape.blocks && from < size && collective == GCOLL_ALLTOALL; from++) {
        made.pairs.emplace_back();
        for (uint32_t to = 0; to < size; to++)
            made.pairs.back().push_back((from + 2 * to) % 3);
    }
    made.use_blocks();
    // Devices have no room for what several buffers of a reduce_scatter come to.
    const bool has_room = collective != GCOLL_REDUCE_SCATTER || made.problem.buffers == 1;
    made.problem.staging.local = has_room ? shape.local : GCOLL_LOCAL_HOST;
    made.problem.staging.whole = shape.whole;
    made.use_layout(shape.layout);
    return made;
}

// Two hosts, of which one has more ranks, for algorithms that go by hosts.
void place_on_hosts(const gcoll_algorithm &algorithm, verify_grid::Operation *operation) {
    for (uint32_t r = 0; algorithm.uses_node && operation->problem.size > 3 && r < operation->problem.size;
         r++)
        operation->node.push_back(r % 5 % 2);
}

// From the last rank to the first, for algorithms that go along a tour.
void place_on_tour(const gcoll_algorithm &algorithm, verify_grid::Operation *operation) {
    for (uint32_t r = 0; algorithm.uses_tour && r < operation->problem.size; r++)
        operation->tour.push_back(operation->problem.size - 1 - r);
}

struct Case {
    const gcoll_algorithm *algorithm;
    uint32_t size;
    std::vector<int64_t> setting;
    const Shape *shape;
    uint32_t number;
};

// A sanitizer is twenty times slower; the verifier's memory is what is of interest then.
const bool few = gcoll_test::is_short();

// Two settings a size, each in another shape; more ranks and a step an element are too many steps to spoil
// each.
std::vector<Case> cases() {
    std::vector<Case> made;
    uint32_t number = 0;
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row; row++)
        for (uint32_t size : {2u, 3u, 4u, 5u, 7u}) {
            const auto settings = verify_grid::settings(**row, size);
            for (uint32_t i = 0; i < (size > 5 ? 1 : 2); i++, number++) {
                if (few && (size != 3 || i > 0))
                    continue;
                const Shape *shape = &shapes[size > 4 ? number % 3 : number % 4];
                Case c{*row, size, settings[(number * 7) % settings.size()], shape, number};
                verify_grid::Operation operation = make_operation((*row)->collective, size, *shape);
                std::copy(c.setting.begin(), c.setting.end(), operation.problem.option);
                gcoll_problem problem = operation.of(0);
                if (!(*row)->applies || (*row)->applies(&problem) == GCOLL_OK)
                    made.push_back(c);
            }
        }
    return made;
}

std::vector<Case> tree_cases() {
    std::vector<Case> made;
    uint32_t number = 0;
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row; row++)
        for (const Shape &shape : tree_shapes)
            for (uint32_t size : {2u, 3u, 4u})
                if ((*row)->takes_order && (!few || size == 3))
                    made.push_back({*row, size, verify_grid::settings(**row, size)[0], &shape, number++});
    return made;
}

// All ways of staging, each with another number of ranks.
std::vector<Case> staged_cases() {
    std::vector<Case> made;
    uint32_t number = 0;
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row; row++)
        for (const Shape &shape : staged_shapes) {
            const uint32_t size = 2 + number++ % 3;
            const auto settings = verify_grid::settings(**row, size);
            Case c{*row, size, settings[(number * 5) % settings.size()], &shape, number};
            verify_grid::Operation operation = make_operation((*row)->collective, size, shape);
            std::copy(c.setting.begin(), c.setting.end(), operation.problem.option);
            gcoll_problem problem = operation.of(0);
            if (!(few && number % 5) && (!(*row)->applies || (*row)->applies(&problem) == GCOLL_OK))
                made.push_back(c);
        }
    return made;
}

class Mutation : public ::testing::TestWithParam<Case> {};

// Each way to stage wrongly that the plans offer must have been tried.
void check_staged(const Job &job, Tallies &tallies) {
    bool copies = false, folds = false, hosts = false;
    for (const Plan &plan : job)
        for (const gcoll_step &s : plan.steps) {
            const bool in = plan.memory(s.a) == GCOLL_HOST_MEMORY,
                       to = plan.memory(s.dst) == GCOLL_HOST_MEMORY;
            copies = copies || (s.kind == GCOLL_STEP_COPY && s.count > 0 && in != to);
            folds = folds || s.kind == GCOLL_STEP_FOLD;
        }
    for (const Plan &plan : job)
        for (const gcoll_step &s : plan.steps)
            hosts = hosts || (copies && s.kind == GCOLL_STEP_RECV);
    for (const char *kind : {"drop a copy", "copy twice"})
        EXPECT_TRUE(!copies || tallies[kind].caught > 0) << kind;
    // Where fences stand between copies and messages, an edge that joins two of them may be of no use.
    const bool fenced = job[0].problem.staging.whole;
    EXPECT_TRUE(!copies || fenced || tallies["drop an edge of a copy"].caught > 0);
    EXPECT_TRUE(!hosts || tallies["host step on a device"].caught > 0);
    for (const char *kind : {"drop an operand", "fold an operand twice", "fold another buffer"})
        EXPECT_EQ(folds, tallies[kind].caught > 0) << kind;
}

TEST_P(Mutation, IsCaughtOrHarmless) {
    const Case &c = GetParam();
    verify_grid::Operation operation = make_operation(c.algorithm->collective, c.size, *c.shape);
    std::copy(c.setting.begin(), c.setting.end(), operation.problem.option);
    place_on_hosts(*c.algorithm, &operation);
    place_on_tour(*c.algorithm, &operation);
    SCOPED_TRACE(operation.describe(*c.algorithm));
    const Job job = plan_job(*c.algorithm, operation);
    Tallies tallies = spoil(job);
    int caught = 0;
    for (const auto &[kind, tally] : tallies) {
        caught += tally.caught;
        printf("%-36s %6d caught %6d equivalent\n", kind.c_str(), tally.caught, tally.equivalent);
    }
    EXPECT_GT(caught, 4);
    check_staged(job, tallies);
    if (c.algorithm->collective != GCOLL_ALLREDUCE)
        return;
    for (const char *kind : {"drop a step", "drop a message", "change the peer", "change dst",
                             "change operand", "shift", "shift all", "shorten", "lengthen"})
        EXPECT_GT(tallies[kind].caught, 0) << kind;
    for (const char *kind : {"drop a divide", "divide twice", "change the divisor"})
        EXPECT_EQ(tallies[kind].caught > 0, c.shape->average) << kind;
}

std::string name_of(const ::testing::TestParamInfo<Case> &of) {
    return std::string(gcoll_collective_name(of.param.algorithm->collective)) + "_" +
           of.param.algorithm->name + "_P" + std::to_string(of.param.size) + "_" + of.param.shape->name +
           "_" + std::to_string(of.param.number);
}

INSTANTIATE_TEST_SUITE_P(All, Mutation, ::testing::ValuesIn(cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Trees, Mutation, ::testing::ValuesIn(tree_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Staged, Mutation, ::testing::ValuesIn(staged_cases()), name_of);

} // namespace
} // namespace verify_test
