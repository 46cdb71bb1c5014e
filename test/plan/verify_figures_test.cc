// test/plan/verify_figures_test.cc - holds algorithms to the numbers that are published for them: steps,
// elements sent and reduced. With P elements, elements are chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "test/plan/verify_grid.h"

namespace verify_grid {
namespace {

struct Figures {
    gcoll_verify_report found;
    gcoll_cost cost;
};

// Of an algorithm by name and options, with `count` elements.
Figures measure(gcoll_collective collective, const std::string &text, uint32_t size, uint64_t count,
                Place place = Place::in_place) {
    Figures figures{};
    gcoll_choice choice;
    if (gcoll_choice_parse(nullptr, text.c_str(), collective, &choice) != GCOLL_OK) {
        ADD_FAILURE() << gcoll_last_error();
        return figures;
    }
    Operation operation(collective, size, count);
    operation.place = place;
    std::copy(std::begin(choice.option), std::end(choice.option), operation.problem.option);
    Plans plans(*choice.algorithm, operation);
    EXPECT_EQ(plans.verify(&figures.found), GCOLL_OK)
        << operation.describe(*choice.algorithm) << ": " << gcoll_last_error();
    gcoll_problem problem = operation.of(0);
    choice.algorithm->cost(&problem, &figures.cost);
    return figures;
}

// The same, of an algorithm whose cost is that of its busiest rank: what it sends and reduces.
Figures measure_busiest(gcoll_collective collective, const std::string &text, uint32_t size, uint64_t count,
                        Place place = Place::in_place) {
    Figures figures = measure(collective, text, size, count, place);
    EXPECT_DOUBLE_EQ(figures.cost.sent, static_cast<double>(figures.found.sent_max)) << text << " P=" << size;
    EXPECT_DOUBLE_EQ(figures.cost.reduced, static_cast<double>(figures.found.reduced_max))
        << text << " P=" << size;
    return figures;
}

std::vector<uint32_t> sizes() {
    std::vector<uint32_t> made;
    for (uint32_t size = 1; size <= (small_grid ? 20 : 64); size++)
        made.push_back(size);
    made.insert(made.end(), {127, 128});
    if (!small_grid)
        made.push_back(251);
    return made;
}

TEST(Figures, Ring) {
    for (uint32_t size : sizes()) {
        for (Place place : {Place::apart, Place::in_place}) {
            Figures f = measure_busiest(GCOLL_ALLREDUCE, "ring", size, 3 * size, place);
            EXPECT_EQ(f.cost.steps, 2 * (size - 1)) << size;
            EXPECT_EQ(f.found.steps, 2 * (size - 1)) << size;
            EXPECT_EQ(f.found.sent_max, 6 * (size - 1)) << size;
            EXPECT_EQ(f.found.reduced_max, 3 * (size - 1)) << size;
        }
    }
}

TEST(Figures, SortedLinearTree) {
    for (uint32_t size : sizes()) {
        Figures f = measure(GCOLL_ALLREDUCE, "sorted_linear_tree", size, size);
        EXPECT_EQ(f.cost.sent, 3 * (size - 1)) << "of the last segment, with those that go before it";
        EXPECT_EQ(f.cost.reduced, 2 * (size - 1)) << size;
        EXPECT_EQ(f.found.steps, 2 * (size - 1)) << "the way of one segment; the last starts P-1 later";
        EXPECT_EQ(f.cost.steps, 3 * (size - 1)) << size;
        EXPECT_GE(f.cost.sent, f.found.sent_max) << size;
        EXPECT_GE(f.cost.reduced, f.found.reduced_max) << size;
        EXPECT_EQ(f.found.reduced_max, size > 1 ? size : 0u) << size;
        EXPECT_EQ(f.found.sent_max, size > 2 ? 2 * size : size > 1 ? size : 0u) << size;
        EXPECT_TRUE((f.found.claims & GCOLL_CLAIM_ORDERED)) << size;
    }
}

void check_butterfly(uint32_t size, uint32_t r, Place place) {
    uint32_t L = log2_ceil(size);
    Figures f = measure_busiest(GCOLL_ALLREDUCE, "group_butterfly:r=" + std::to_string(r), size, size, place);
    uint64_t spare = ((uint64_t{1} << r) - 1) * (L > 0 ? L - 1 : 0);
    SCOPED_TRACE("P=" + std::to_string(size) + " r=" + std::to_string(r));
    EXPECT_EQ(f.found.steps, 2 * L - r);
    EXPECT_EQ(f.cost.steps, 2 * L - r);
    if (r < L) {
        EXPECT_LE(f.found.sent_max, 2 * (size - 1) + spare);
        EXPECT_LE(f.found.reduced_max, size - 1 + 2 * spare);
    }
    if (r == 0) {
        EXPECT_EQ(f.found.sent_max, 2 * (size - 1));
        EXPECT_EQ(f.found.reduced_max, size - 1);
        EXPECT_TRUE((f.found.claims & GCOLL_CLAIM_RANK_IDENTICAL));
    }
    if (r == L && L > 0)
        EXPECT_EQ(f.found.sent_max, uint64_t{size} * L);
    if (r == L && L > 1)
        EXPECT_LE(f.found.reduced_max, uint64_t{size} * (2 * L - 2));
}

TEST(Figures, GroupButterfly) {
    for (uint32_t size : sizes())
        for (uint32_t r = 0; r <= log2_ceil(size); r++)
            for (Place place : {Place::apart, Place::in_place})
                check_butterfly(size, r, place);
}

TEST(Figures, GroupButterflyByThePaper) {
    struct Row {
        uint32_t size, r, steps;
        uint64_t sent;
    };
    for (const Row &row : {Row{7, 0, 6, 12},
                           {7, 1, 5, 14},
                           {7, 2, 4, 18},
                           {7, 3, 3, 21},
                           {127, 0, 14, 252},
                           {127, 4, 10, 342},
                           {127, 7, 7, 889}}) {
        Figures f = measure_busiest(GCOLL_ALLREDUCE, "group_butterfly:r=" + std::to_string(row.r), row.size,
                                    row.size);
        EXPECT_EQ(f.found.steps, row.steps) << row.size << " " << row.r;
        EXPECT_EQ(f.found.sent_max, row.sent) << row.size << " " << row.r;
    }
}

uint32_t most_ones(uint32_t size) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < size; i++)
        most = std::max(most, static_cast<uint32_t>(__builtin_popcount(i)));
    return most;
}

TEST(Figures, BinomialTrees) {
    for (uint32_t size : sizes()) {
        Figures f = measure_busiest(GCOLL_BROADCAST, "binomial", size, size);
        EXPECT_EQ(f.found.steps, most_ones(size)) << "to rank i in as many hops as i has ones";
        EXPECT_EQ(f.found.sent_total, uint64_t{size} * (size - 1)) << "each but the root gets it once";
        EXPECT_EQ(f.cost.steps, log2_ceil(size));

        f = measure_busiest(GCOLL_SCATTER, "binomial", size, 2 * size);
        EXPECT_EQ(f.found.steps, most_ones(size)) << size;
        EXPECT_EQ(f.found.messages_max, log2_ceil(size)) << size;
        f = measure(GCOLL_GATHER, "binomial", size, 2 * size);
        EXPECT_EQ(f.found.steps, most_ones(size)) << size;
        EXPECT_EQ(f.found.messages_max, size > 1 ? 1u : 0u) << size;
        EXPECT_EQ(f.cost.sent, 2 * (size - 1)) << "received by the root";
    }
}

TEST(Figures, OneStep) {
    for (uint32_t size : sizes()) {
        const uint32_t one = size > 1 ? 1 : 0;
        Figures f = measure_busiest(GCOLL_BROADCAST, "one_to_all", size, 5);
        EXPECT_EQ(f.found.steps, one) << size;
        EXPECT_EQ(f.found.sent_max, 5 * (size - 1)) << size;
        f = measure_busiest(GCOLL_SCATTER, "linear", size, size);
        EXPECT_EQ(f.found.steps, one) << size;
        EXPECT_EQ(f.found.sent_total, size - 1) << size;
        f = measure(GCOLL_GATHER, "linear", size, size);
        EXPECT_EQ(f.found.steps, one) << size;
        EXPECT_EQ(f.found.sent_total, size - 1) << size;
        f = measure_busiest(GCOLL_PAIRWISE_EXCHANGE, "halving_doubling", size, log2_ceil(size), Place::apart);
        EXPECT_EQ(f.found.steps, one) << "no exchange waits for another";
        EXPECT_EQ(f.found.messages_max, log2_ceil(size)) << size;
        EXPECT_EQ(f.found.sent_max, log2_ceil(size)) << size;
    }
}

TEST(Figures, Barriers) {
    for (uint32_t size : sizes()) {
        Figures f = measure(GCOLL_BARRIER, "dissemination", size, 0);
        EXPECT_EQ(f.found.steps, log2_ceil(size)) << size;
        EXPECT_EQ(f.found.messages_max, log2_ceil(size)) << size;
        f = measure(GCOLL_BARRIER, "all_to_all", size, 0);
        EXPECT_EQ(f.found.steps, size > 1 ? 1u : 0u) << size;
        EXPECT_EQ(f.found.messages_max, size - 1) << size;
        f = measure(GCOLL_BARRIER, "all_to_one", size, 0);
        EXPECT_EQ(f.found.steps, size > 1 ? 2u : 0u) << size;
        EXPECT_EQ(f.found.messages_max, size - 1) << size;
    }
}

TEST(Figures, LongBroadcasts) {
    for (uint32_t size : sizes()) {
        uint32_t L = log2_ceil(size);
        for (const char *name :
             {"scatter_allgather:allgather=ring", "scatter_allgather:allgather=doubling"}) {
            Figures f = measure_busiest(GCOLL_BROADCAST, name, size, size);
            EXPECT_EQ(f.found.sent_max, 2 * (size - 1)) << name << size;
            EXPECT_LE(f.found.sent_total, uint64_t{size} * (size - 1)) << "nothing is sent where it is";
        }
        EXPECT_EQ(measure(GCOLL_BROADCAST, "scatter_allgather:allgather=doubling", size, size).cost.steps,
                  2 * L);
        Figures f = measure(GCOLL_BROADCAST, "chain:slices=6", size, 12);
        EXPECT_EQ(f.found.steps, size - 1) << "the way of one slice";
        EXPECT_EQ(f.found.messages_max, size > 1 ? 6u : 0u) << size;
        EXPECT_EQ(f.found.sent_total, 12 * (size - 1)) << size;
        EXPECT_EQ(f.cost.steps, size > 1 ? 6 + size - 2 : 0) << size;
    }
}

} // namespace
} // namespace verify_grid
