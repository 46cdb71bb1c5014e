// test/plan/verify_staging_test.cc - proves every algorithm with its buffers in the memory of devices, over a
// grid of ranks, counts, buffers, layouts and ways of staging, taken by chance, the same in each run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "test/plan/verify_grid.h"

namespace verify_grid {
namespace {

class Draw {
  public:
    explicit Draw(uint64_t seed) : random_(seed) {}
    template <class T, size_t N> T of(const T (&list)[N]) { return list[random_() % N]; }
    uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  private:
    std::mt19937_64 random_;
};

void add_blocks(Operation &operation, Draw &draw) {
    const uint32_t size = operation.problem.size;
    for (uint32_t r = 0; r < size && has_blocks(operation.problem.collective); r++)
        operation.blocks.push_back(draw.below(4));
    for (uint32_t from = 0; from < size && operation.problem.collective == GCOLL_ALLTOALL; from++) {
        operation.pairs.emplace_back();
        for (uint32_t to = 0; to < size; to++)
            operation.pairs.back().push_back(draw.below(3));
    }
    operation.use_blocks();
}

Operation any_operation(const gcoll_algorithm &algorithm, uint32_t size, Draw &draw) {
    const gcoll_collective collective = algorithm.collective;
    const uint64_t counts[] = {0, 1, size - 1, size, 63, 1000};
    Operation operation(collective, size, collective == GCOLL_BARRIER ? 0 : draw.of(counts));
    gcoll_problem &p = operation.problem;
    if (has_root(collective))
        p.root = draw.below(size);
    if (collective == GCOLL_PAIRWISE_EXCHANGE)
        p.exchanges = draw.below(log2_ceil(size) + 3);
    operation.place = draw.of({Place::apart, Place::in_place, Place::mixed});
    if (has_buffers(collective))
        p.buffers = draw.of({1u, 2u, 3u, 8u});
    p.average = gcoll_collective_reduces(collective) && draw.below(3) == 0;
    operation.mixed_buffers = has_buffers(collective) && !p.average && draw.below(8) == 0;
    if (size <= 17 && draw.below(4) == 0)
        add_blocks(operation, draw);
    p.segment = size <= 17 && draw.below(2) ? 7 : 0;
    p.staging.local = draw.of({GCOLL_LOCAL_AUTO, GCOLL_LOCAL_HOST, GCOLL_LOCAL_DEVICE, GCOLL_LOCAL_PEER});
    p.staging.whole = draw.below(2);
    const auto setting = settings(algorithm, size);
    const auto &chosen = setting[draw.below(static_cast<uint32_t>(setting.size()))];
    std::copy(chosen.begin(), chosen.end(), p.option);
    operation.use_layout(static_cast<Layout>(1 + draw.below(layout_count - 1)));
    return operation;
}

// Some rows say it themselves.
gcoll_local local_of(const gcoll_algorithm &algorithm, const Operation &operation) {
    return algorithm.staging ? algorithm.staging->local : operation.problem.staging.local;
}

// Devices refuse that have not what they are to reduce, or nothing to reduce it into. The host never does.
bool may_be_refused(const gcoll_algorithm &algorithm, const Operation &operation) {
    const bool several = operation.problem.buffers > 1 || operation.mixed_buffers;
    const gcoll_local local = local_of(algorithm, operation);
    return several && (local == GCOLL_LOCAL_DEVICE || local == GCOLL_LOCAL_PEER) &&
           (operation.layout != Layout::device || operation.problem.collective == GCOLL_REDUCE_SCATTER);
}

// One rank's buffers are reduced one after the other, unless several devices reduce theirs by themselves:
// then the tree is another one, and where they take turns, so is the order.
uint32_t claims_kept(const gcoll_algorithm &algorithm, const Operation &operation) {
    const Layout layout = operation.layout;
    uint32_t kept = GCOLL_CLAIM_ALL;
    const gcoll_local local = local_of(algorithm, operation);
    const bool several = (operation.problem.buffers > 1 || operation.mixed_buffers) &&
                         (local == GCOLL_LOCAL_AUTO || local == GCOLL_LOCAL_DEVICE);
    if (operation.mixed_buffers || // trees are claimed for as many buffers on every rank
        (several && (layout == Layout::halves || layout == Layout::spread || layout == Layout::shared)))
        kept &= ~uint32_t{GCOLL_CLAIM_PAIRS | GCOLL_CLAIM_LEFT};
    if (several && (layout == Layout::spread || layout == Layout::shared))
        kept &= ~uint32_t{GCOLL_CLAIM_ORDERED};
    return kept;
}

// The plans of the same operation in host memory.
void check_scratch(const gcoll_algorithm &algorithm, const Operation &operation, const Plans &plans) {
    Operation plain = operation;
    plain.layout = Layout::host;
    Plans without(algorithm, plain);
    for (uint32_t r = 0; r < operation.problem.size; r++) {
        gcoll_problem problem = operation.of(r);
        EXPECT_LE(plans.scratch(r), without.scratch(r) + gcoll_staging_bound(&problem)) << "rank " << r;
    }
}

// What crosses: no more than the buffers hold.
void check_report(const gcoll_algorithm &algorithm, const Operation &operation,
                  const gcoll_verify_report &report) {
    uint64_t in = 0, out = 0;
    for (uint32_t r = 0; r < operation.problem.size; r++) {
        const gcoll_problem p = operation.of(r);
        in = std::max(in, p.buffers * std::max(gcoll_problem_in_count(&p), gcoll_problem_out_count(&p)));
        out = std::max(out, p.buffers * gcoll_problem_out_count(&p));
    }
    EXPECT_LE(report.copied_in_max, in);
    EXPECT_LE(report.copied_out_max, 2 * in);
    if (local_of(algorithm, operation) == GCOLL_LOCAL_HOST)
        EXPECT_EQ(report.folded_max, 0u);
}

// Returns whether there was a plan to prove.
bool check(const gcoll_algorithm &algorithm, const Operation &operation) {
    SCOPED_TRACE(operation.describe(algorithm));
    gcoll_problem problem = operation.of(0);
    if (algorithm.applies && algorithm.applies(&problem) != GCOLL_OK)
        return false;
    Plans plans(algorithm, operation);
    if (plans.status() == GCOLL_ERR_UNSUPPORTED) {
        EXPECT_TRUE(may_be_refused(algorithm, operation)) << gcoll_last_error();
        EXPECT_EQ(std::strncmp(gcoll_last_error(), "local: ", 7), 0) << gcoll_last_error();
        return false;
    }
    gcoll_verify_report report;
    EXPECT_EQ(plans.verify(&report), GCOLL_OK) << gcoll_last_error();
    if (::testing::Test::HasFailure())
        return true;
    EXPECT_EQ(gcoll_algorithm_claims(&algorithm, &problem) & claims_kept(algorithm, operation) &
                  ~report.claims,
              0u);
    check_scratch(algorithm, operation, plans);
    check_report(algorithm, operation, report);
    return true;
}

uint32_t tries(uint32_t size) {
    const uint32_t most = size <= 9 ? 30 : size <= 17 ? 10 : size <= 32 ? 4 : 2;
    return small_grid ? (most + 4) / 5 : most;
}

std::vector<const gcoll_algorithm *> all_algorithms() {
    std::vector<const gcoll_algorithm *> made;
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row; row++)
        made.push_back(*row);
    return made;
}

class StagingGrid : public ::testing::TestWithParam<const gcoll_algorithm *> {};

TEST_P(StagingGrid, Verifies) {
    const gcoll_algorithm &algorithm = *GetParam();
    uint32_t proved = 0;
    for (uint32_t size : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 21, 31, 32, 64}) {
        Draw draw(size * 7919 + static_cast<uint32_t>(algorithm.collective));
        for (uint32_t i = 0; i < tries(size) && !HasFailure(); i++)
            proved += check(algorithm, any_operation(algorithm, size, draw));
    }
    EXPECT_GT(proved, 10u);
}

INSTANTIATE_TEST_SUITE_P(All, StagingGrid, ::testing::ValuesIn(all_algorithms()), [](const auto &of) {
    return std::string(gcoll_collective_name(of.param->collective)) + "_" + of.param->name;
});

} // namespace
} // namespace verify_grid
