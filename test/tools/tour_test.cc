// The search for short tours, against all tours of a few places, and against tours that are known to be the
// shortest.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "tools/tour.h"

namespace {

using lengths = std::vector<double>;
using order = std::vector<uint32_t>;

order by_number(uint32_t size) {
    order all(size);
    std::iota(all.begin(), all.end(), 0u);
    return all;
}

double sum_along(const lengths &length, const order &tour) {
    double sum = 0;
    for (size_t i = 0; i < tour.size(); i++)
        sum += length[tour[i] * tour.size() + tour[(i + 1) % tour.size()]];
    return sum;
}

double shortest_of_all(const lengths &length, uint32_t size) {
    order tour = by_number(size);
    double best = sum_along(length, tour);
    while (std::next_permutation(tour.begin() + 1, tour.end()))
        best = std::min(best, sum_along(length, tour));
    return best;
}

lengths at_random(uint32_t size, bool symmetric, std::mt19937 &random) {
    lengths length(size_t(size) * size, 0);
    for (uint32_t a = 0; a < size; a++)
        for (uint32_t b = 0; b < size; b++)
            if (a != b)
                length[a * size + b] =
                    symmetric && b < a ? length[b * size + a] : double(1 + random() % 1000);
    return length;
}

bool has_all(order tour) {
    const uint32_t size = uint32_t(tour.size());
    std::sort(tour.begin(), tour.end());
    return tour == by_number(size);
}

TEST(Tour, IsTheShortestOfAFewPlaces) {
    std::mt19937 random(5);
    for (uint32_t size = 1; size <= 8; size++)
        for (int trial = 0; trial < 30; trial++) {
            const lengths length = at_random(size, trial % 2 == 0, random);
            order tour = by_number(size);
            std::shuffle(tour.begin(), tour.end(), random);
            ASSERT_TRUE(tool_tour_search(length.data(), size, 32, 1, tour.data()));
            ASSERT_TRUE(has_all(tour));
            EXPECT_EQ(tour[0], 0u);
            EXPECT_DOUBLE_EQ(sum_along(length, tour), shortest_of_all(length, size)) << size << " " << trial;
            EXPECT_DOUBLE_EQ(tool_tour_length(length.data(), size, tour.data()), sum_along(length, tour));
        }
}

// The shortest tour of points on a circle goes round it.
TEST(Tour, GoesRoundACircle) {
    for (uint32_t size : {9u, 24u, 60u}) {
        std::mt19937 random(size);
        order seat = by_number(size);
        std::shuffle(seat.begin(), seat.end(), random);
        lengths length(size_t(size) * size);
        for (uint32_t a = 0; a < size; a++)
            for (uint32_t b = 0; b < size; b++)
                length[a * size + b] =
                    2 * std::fabs(std::sin(M_PI * (double(seat[a]) - double(seat[b])) / size));
        order tour = by_number(size);
        ASSERT_TRUE(tool_tour_search(length.data(), size, 8, 1, tour.data()));
        ASSERT_TRUE(has_all(tour));
        EXPECT_NEAR(sum_along(length, tour), 2 * size * std::sin(M_PI / size), 1e-9);
    }
}

// One way round costs nothing, and it is hidden; no range may be reversed on it.
TEST(Tour, HeedsDirections) {
    const uint32_t size = 12;
    std::mt19937 random(7);
    order hidden = by_number(size);
    std::shuffle(hidden.begin() + 1, hidden.end(), random);
    lengths length(size * size, 1);
    for (uint32_t i = 0; i < size; i++)
        length[hidden[i] * size + hidden[(i + 1) % size]] = 0.25;
    order tour = by_number(size);
    ASSERT_TRUE(tool_tour_search(length.data(), size, 64, 1, tour.data()));
    EXPECT_EQ(tour, hidden);
}

TEST(Tour, IsNeverLongerThanTheGivenOneAndAlwaysTheSame) {
    std::mt19937 random(9);
    for (uint32_t size : {3u, 7u, 16u, 50u}) {
        const lengths length = at_random(size, false, random);
        const double before = sum_along(length, by_number(size));
        order first = by_number(size), second = by_number(size);
        ASSERT_TRUE(tool_tour_search(length.data(), size, 5, 3, first.data()));
        ASSERT_TRUE(tool_tour_search(length.data(), size, 5, 3, second.data()));
        EXPECT_EQ(first, second);
        EXPECT_LE(sum_along(length, first), before);
        // What was found cannot be bettered by the moves of another try of the same kind.
        order again = first;
        ASSERT_TRUE(tool_tour_search(length.data(), size, 1, 3, again.data()));
        EXPECT_EQ(again, first);
    }
    // Nothing to choose: any order is as good.
    const lengths flat(25, 0);
    order tour = {3, 1, 0, 4, 2};
    ASSERT_TRUE(tool_tour_search(flat.data(), 5, 9, 1, tour.data()));
    EXPECT_EQ(tour, (order{0, 4, 2, 3, 1}));
}

} // namespace
