// test/base/map_test.cc - the hash table of items against a std::map, with hashes that collide.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>

extern "C" {
#include "gcoll/base/map.h"
}

namespace {

struct Item {
    gcoll_map_item item; // the first member
    uint32_t key;
};

Item *item_of(gcoll_map_item *item) {
    return reinterpret_cast<Item *>(item);
}

// Three keys share each hash, and all hashes the low bits of a few.
uint64_t hash_of(uint32_t key) {
    return uint64_t(key / 3) << 4 | key % 7;
}

class Map : public testing::Test {
  protected:
    ~Map() override { gcoll_map_free(&map_); }
    Item *find(uint32_t key) {
        for (gcoll_map_item *item = gcoll_map_first(&map_, hash_of(key)); item; item = gcoll_map_next(item))
            if (item_of(item)->key == key)
                return item_of(item);
        return nullptr;
    }
    gcoll_map map_ = {};
};

TEST_F(Map, EmptyHoldsNothing) {
    EXPECT_EQ(gcoll_map_first(&map_, 0), nullptr);
    gcoll_map_visit(
        &map_, [](void *, gcoll_map_item *) { FAIL(); }, nullptr);
    gcoll_map_clear(&map_);
    gcoll_map_free(&map_);
    EXPECT_EQ(map_.count, 0u);
}

TEST_F(Map, HoldsWhatAnOracleHolds) {
    std::mt19937 random(5);
    std::map<uint32_t, std::unique_ptr<Item>> oracle;
    for (int turn = 0; turn < 20000; turn++) {
        const uint32_t key = random() % 1000;
        const auto known = oracle.find(key);
        ASSERT_EQ(find(key), known == oracle.end() ? nullptr : known->second.get());
        if (known == oracle.end()) {
            auto made = std::make_unique<Item>();
            made->key = key;
            ASSERT_TRUE(gcoll_map_add(&map_, &made->item, hash_of(key)));
            oracle[key] = std::move(made);
        } else if (turn % 3 == 0) {
            gcoll_map_remove(&map_, &known->second->item);
            oracle.erase(known);
        }
        ASSERT_EQ(map_.count, oracle.size());
    }
    EXPECT_GT(map_.count, 500u);
    EXPECT_GE(map_.mask + 1, map_.count); // it has grown
}

TEST_F(Map, AVisitSeesEachItemOnceAndMayRemoveIt) {
    Item items[300];
    for (uint32_t i = 0; i < 300; i++) {
        items[i].key = i;
        ASSERT_TRUE(gcoll_map_add(&map_, &items[i].item, hash_of(i)));
    }
    struct Visit {
        gcoll_map *map;
        std::map<uint32_t, int> seen;
    } visit = {&map_, {}};
    gcoll_map_visit(
        &map_,
        [](void *arg, gcoll_map_item *item) {
            auto *v = static_cast<Visit *>(arg);
            v->seen[item_of(item)->key]++;
            if (item_of(item)->key % 2)
                gcoll_map_remove(v->map, item);
        },
        &visit);
    EXPECT_EQ(visit.seen.size(), 300u);
    for (auto &each : visit.seen)
        EXPECT_EQ(each.second, 1);
    for (uint32_t i = 0; i < 300; i++)
        EXPECT_EQ(find(i), i % 2 ? nullptr : &items[i]);
    gcoll_map_clear(&map_);
    EXPECT_EQ(find(0), nullptr);
    EXPECT_TRUE(gcoll_map_add(&map_, &items[1].item, hash_of(1)));
    EXPECT_EQ(find(1), &items[1]);
}

} // namespace
