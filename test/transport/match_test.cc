// test/transport/match_test.cc - the table of messages against a std::map.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <utility>
#include <vector>

extern "C" {
#include "transport/match.h"
}

namespace {

using Key = std::pair<uint64_t, uint32_t>;

class Match : public testing::Test {
  protected:
    ~Match() override { gcoll_match_clear(&match); }
    gcoll_match match = {};
};

TEST_F(Match, EmptyHoldsNothing) {
    EXPECT_EQ(gcoll_match_find(&match, 0, 0), nullptr);
    gcoll_match_clear(&match);
    gcoll_match_clear(&match);
    EXPECT_EQ(match.slots.count, 0u);
}

TEST_F(Match, NewSlotsAreZeroed) {
    gcoll_slot *slot = gcoll_match_add(&match, 5, 6);
    ASSERT_NE(slot, nullptr);
    slot->flags = 77;
    slot->total = 88;
    slot->carried = 9;
    gcoll_match_remove(&match, slot);
    slot = gcoll_match_add(&match, 1, 2);
    EXPECT_EQ(slot->stream, 1u);
    EXPECT_EQ(slot->index, 2u);
    EXPECT_EQ(slot->flags, 0u);
    EXPECT_EQ(slot->total, 0u);
    EXPECT_EQ(slot->carried, 0u);
    EXPECT_EQ(slot->message, nullptr);
    EXPECT_EQ(slot->held, nullptr);
}

TEST_F(Match, AgreesWithAMapUnderRandomUse) {
    std::mt19937_64 random(4);
    std::map<Key, gcoll_slot *> oracle;
    size_t most = 0;
    for (int i = 0; i < 100000; i++) {
        // Phases of growth and of decline; keys near and far.
        bool grows = (i / 10000) % 2 == 0;
        Key key = {(random() % 64) << (random() % 2 ? 0 : 40), static_cast<uint32_t>(random() % 100)};
        auto known = oracle.find(key);
        gcoll_slot *found = gcoll_match_find(&match, key.first, key.second);
        ASSERT_EQ(found, known == oracle.end() ? nullptr : known->second);
        if (!found && (grows || random() % 4 == 0)) {
            gcoll_slot *slot = gcoll_match_add(&match, key.first, key.second);
            ASSERT_NE(slot, nullptr);
            slot->held = static_cast<uint8_t *>(std::malloc(8)); // freed with the slot
            oracle[key] = slot;
        } else if (found && (!grows || random() % 4 == 0)) {
            gcoll_match_remove(&match, found);
            oracle.erase(known);
        }
        ASSERT_EQ(match.slots.count, oracle.size());
        most = std::max(most, oracle.size());
    }
    EXPECT_GT(most, 2000u);
    for (auto &each : oracle)
        ASSERT_EQ(gcoll_match_find(&match, each.first.first, each.first.second), each.second);
}

// Keys as an ill-meaning peer would choose them against a linear hash of these well-known factors.
TEST_F(Match, ChosenKeysDoNotShareABucket) {
    const uint64_t factors[] = {0x632be59bd9b4e019, 0x9e3779b97f4a7c15, 1, uint64_t(1) << 32,
                                uint64_t(1) << 63};
    for (uint64_t factor : factors) {
        for (uint32_t i = 0; i < 20000; i++)
            ASSERT_NE(gcoll_match_add(&match, 7 - factor * i, i), nullptr);
        size_t longest = 0;
        for (uint32_t i = 0; i <= match.slots.mask; i++) {
            size_t length = 0;
            for (gcoll_map_item *item = match.slots.buckets[i]; item; item = item->next)
                length++;
            longest = std::max(longest, length);
        }
        EXPECT_LT(longest, 20u) << factor; // random keys: about 7
        gcoll_match_clear(&match);
    }
}

TEST_F(Match, VisitSeesEverySlotOnceAndMayRemoveIt) {
    struct Visit {
        gcoll_match *match;
        std::map<Key, int> seen;
    } visit = {&match, {}};
    for (uint32_t i = 0; i < 1000; i++)
        ASSERT_NE(gcoll_match_add(&match, i % 7, i), nullptr);
    gcoll_match_visit(
        &match,
        [](void *arg, gcoll_slot *slot) {
            auto *v = static_cast<Visit *>(arg);
            v->seen[{slot->stream, slot->index}]++;
            if (slot->index % 2)
                gcoll_match_remove(v->match, slot);
        },
        &visit);
    EXPECT_EQ(visit.seen.size(), 1000u);
    for (auto &each : visit.seen)
        EXPECT_EQ(each.second, 1);
    EXPECT_EQ(match.slots.count, 500u);
    for (uint32_t i = 0; i < 1000; i++)
        EXPECT_EQ(gcoll_match_find(&match, i % 7, i) != nullptr, i % 2 == 0) << i;
}

TEST_F(Match, SteadyTrafficTakesNoMoreMemory) {
    for (uint32_t i = 0; i < 10; i++)
        ASSERT_NE(gcoll_match_add(&match, 1, i), nullptr);
    void *chunks = match.chunks;
    for (uint32_t i = 0; i < 100000; i++) {
        gcoll_slot *oldest = gcoll_match_find(&match, 1, i);
        ASSERT_NE(oldest, nullptr);
        gcoll_match_remove(&match, oldest);
        ASSERT_NE(gcoll_match_add(&match, 1, i + 10), nullptr);
    }
    EXPECT_EQ(match.chunks, chunks);
}

TEST_F(Match, ListsKeepTheOrder) {
    gcoll_slot_list list = {};
    std::vector<gcoll_slot *> order;
    std::mt19937_64 random(5);
    for (uint32_t i = 0; i < 200; i++) {
        gcoll_slot *slot = gcoll_match_add(&match, 9, i);
        ASSERT_NE(slot, nullptr);
        gcoll_slot_append(&list, slot);
        order.push_back(slot);
        if (random() % 3 == 0) {
            size_t at = random() % order.size();
            gcoll_slot_unlink(&list, order[at]);
            order.erase(order.begin() + static_cast<std::ptrdiff_t>(at));
        }
        std::vector<gcoll_slot *> forward, backward;
        for (gcoll_slot *each = list.oldest; each; each = each->newer)
            forward.push_back(each);
        for (gcoll_slot *each = list.newest; each; each = each->older)
            backward.insert(backward.begin(), each);
        ASSERT_EQ(forward, order);
        ASSERT_EQ(backward, order);
    }
}

// A list of untold slots, in any order of use, beside an ordinary list of the same slots.
TEST_F(Match, UntoldSlotsKeepTheirOrder) {
    std::mt19937_64 random(5);
    gcoll_slot_list untold = {}, waiting = {};
    std::vector<gcoll_slot *> oracle, all;
    for (uint32_t i = 0; i < 200; i++) {
        all.push_back(gcoll_match_add(&match, 1, i));
        gcoll_slot_append(&waiting, all.back());
    }
    for (int step = 0; step < 20000; step++) {
        gcoll_slot *slot = all[random() % all.size()];
        const auto at = std::find(oracle.begin(), oracle.end(), slot);
        if (at == oracle.end()) {
            gcoll_untold_append(&untold, slot);
            oracle.push_back(slot);
        } else {
            gcoll_untold_unlink(&untold, slot);
            oracle.erase(at);
        }
        ASSERT_EQ(untold.oldest, oracle.empty() ? nullptr : oracle.front());
        ASSERT_EQ(untold.newest, oracle.empty() ? nullptr : oracle.back());
    }
    for (gcoll_slot *slot : oracle) {
        EXPECT_EQ(untold.oldest, slot);
        gcoll_untold_unlink(&untold, slot);
    }
    EXPECT_EQ(untold.oldest, nullptr);
    size_t count = 0;
    for (const gcoll_slot *slot = waiting.oldest; slot; slot = slot->newer)
        EXPECT_EQ(slot, all[count++]);
    EXPECT_EQ(count, all.size());
}

} // namespace
