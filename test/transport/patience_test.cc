// How a wait passes its time: decisions, counted. Nothing here reads a clock.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

extern "C" {
#include "transport/session/patience.h"
}

namespace {

constexpr int64_t kSpin = 200000;    // ns
constexpr int64_t kBare = 300;       // of a yield that nobody takes
constexpr int64_t kTurn = 5000;      // of one that a peer takes
constexpr int64_t kShortTurn = 1450; // of one that a peer takes who has nearly nothing to do
constexpr int64_t kSlice = 3000000;  // of one that a busy stranger takes

gcoll_patience ready(uint32_t rank = 0) {
    gcoll_patience p = {};
    gcoll_patience_init(&p, kSpin, rank);
    return p;
}

struct Counts {
    int polls = 0, yields = 0, naps = 0, sleeps = 0;
};

// A wait whose first `polls` polls find nothing, with yields that last `yield_ns`; ends early if it sleeps.
Counts wait(gcoll_patience *p, int polls, int64_t yield_ns) {
    Counts counts;
    gcoll_patience_begin(p);
    while (counts.polls < polls && counts.sleeps == 0) {
        switch (gcoll_patience_next(p, 0)) {
        case GCOLL_PATIENCE_SLEEP:
            counts.sleeps++;
            continue;
        case GCOLL_PATIENCE_NAP:
            counts.naps++;
            break;
        case GCOLL_PATIENCE_YIELD:
            counts.yields++;
            gcoll_patience_yielded(p, yield_ns);
            break;
        case GCOLL_PATIENCE_POLL:
            break;
        }
        counts.polls++;
    }
    return counts;
}

// Waits that sleep at once, until one does not.
int sleepy(gcoll_patience *p) {
    int waits = 0;
    while (wait(p, 1, kBare).sleeps > 0)
        waits++;
    return waits;
}

void steal(gcoll_patience *p) {
    gcoll_patience_yielded(p, kSlice);
}

TEST(Patience, OneThatHasItsCoreToItselfHardlyYields) {
    gcoll_patience p = ready();
    const Counts counts = wait(&p, 100 * GCOLL_PATIENCE_POLLS, kBare);
    EXPECT_EQ(counts.yields, 100);
    EXPECT_EQ(counts.naps + counts.sleeps, 0);
}

// Waits are short: what one has learned is for the next.
TEST(Patience, ShortWaitsYieldAsSeldomAsALongOne) {
    gcoll_patience p = ready();
    int yields = 0;
    for (int i = 0; i < 100 * GCOLL_PATIENCE_POLLS; i++)
        yields += wait(&p, 1, kBare).yields;
    EXPECT_EQ(yields, 100);
}

TEST(Patience, OneThatSharesItsCoreYieldsAfterEachEmptyPoll) {
    gcoll_patience p = ready();
    gcoll_patience_yielded(&p, kBare);
    gcoll_patience_yielded(&p, kTurn);
    const Counts counts = wait(&p, 32, kTurn);
    EXPECT_EQ(counts.yields, 32);
    // and stops when nobody takes it any more
    EXPECT_EQ(wait(&p, 1, kBare).yields, 1);
    EXPECT_EQ(wait(&p, GCOLL_PATIENCE_POLLS - 1, kBare).yields, 0);
}

// What a yield costs differs from machine to machine, so the first ones need not show it.
TEST(Patience, TurnsAreToldFromBareYieldsOnFastAndOnSlowMachines) {
    gcoll_patience fast = ready(), slow = ready();
    gcoll_patience_yielded(&fast, 100);
    gcoll_patience_yielded(&fast, 600);
    EXPECT_EQ(wait(&fast, 10, 600).yields, 10);
    gcoll_patience_yielded(&slow, 900);
    gcoll_patience_yielded(&slow, 1100);
    EXPECT_EQ(wait(&slow, GCOLL_PATIENCE_POLLS - 1, 900).yields, 0);
    for (const int64_t turn : {kTurn, kShortTurn}) {
        gcoll_patience unknown = ready(); // shares its core from the start
        gcoll_patience_yielded(&unknown, turn);
        EXPECT_EQ(wait(&unknown, 10, turn).yields, 10);
    }
}

TEST(Patience, NapsWhenTurnsAreTakenAgainAndAgainAndEverMoreSeldom) {
    gcoll_patience p = ready();
    gcoll_patience_yielded(&p, kTurn);
    const int polls = 4 * GCOLL_PATIENCE_NAP_MOST;
    const int naps = wait(&p, polls, kTurn).naps;
    int most = 0, least = 0;
    for (int at = 0, nap = GCOLL_PATIENCE_NAP_FIRST; at + nap <= polls;) {
        at += nap;
        most++;
        least += at * 2 <= polls;
        nap = nap < GCOLL_PATIENCE_NAP_MOST ? 2 * nap : nap;
    }
    EXPECT_LE(naps, most);
    EXPECT_GE(naps, least);
    // one alone on its core never does
    gcoll_patience alone = ready();
    EXPECT_EQ(wait(&alone, polls, kBare).naps, 0);
}

// So many yields until the first nap, and from each to the next.
std::vector<int> yields_before_naps(gcoll_patience p, size_t naps) {
    std::vector<int> yields;
    gcoll_patience_yielded(&p, kTurn);
    for (int since = 1; yields.size() < naps; since++) {
        const gcoll_patience_step step = gcoll_patience_next(&p, 0);
        if (step == GCOLL_PATIENCE_NAP) {
            yields.push_back(since);
            since = 0;
        } else {
            EXPECT_EQ(step, GCOLL_PATIENCE_YIELD);
            gcoll_patience_yielded(&p, kTurn);
        }
    }
    return yields;
}

// A nap lasts as long as some twenty turns. Ranks next to each other nap at moments that lie further apart.
TEST(Patience, RanksDoNotNapAtTheSameTime) {
    for (uint32_t rank = 0; rank < 64; rank++) {
        const std::vector<int> one = yields_before_naps(ready(rank), 4),
                               other = yields_before_naps(ready(rank + 1), 4);
        EXPECT_GT(std::abs(one[0] - other[0]), 20) << rank;
        EXPECT_NE(one, other) << rank;
        for (size_t i = 0; i < one.size(); i++) {
            EXPECT_GE(one[i], GCOLL_PATIENCE_NAP_FIRST << i);
            EXPECT_LE(one[i], GCOLL_PATIENCE_NAP_FIRST << (i + 1));
        }
    }
}

TEST(Patience, SleepsWhenNothingCameForAsLongAsItMayPoll) {
    gcoll_patience p = ready();
    gcoll_patience_begin(&p);
    EXPECT_NE(gcoll_patience_next(&p, kSpin - 1), GCOLL_PATIENCE_SLEEP);
    EXPECT_EQ(gcoll_patience_next(&p, kSpin), GCOLL_PATIENCE_SLEEP);
    gcoll_patience never = {};
    gcoll_patience_begin(&never);
    EXPECT_EQ(gcoll_patience_next(&never, 0), GCOLL_PATIENCE_SLEEP);
}

TEST(Patience, AStolenYieldMakesTheNextWaitsSleep) {
    gcoll_patience p = ready();
    gcoll_patience_begin(&p);
    steal(&p);
    EXPECT_EQ(gcoll_patience_next(&p, 0), GCOLL_PATIENCE_SLEEP); // this one too
    EXPECT_EQ(sleepy(&p), GCOLL_PATIENCE_SLEEPY_FIRST - 1);
}

TEST(Patience, TheftsThatFollowOneAnotherCostMoreAndMoreAndAreForgottenInTheEnd) {
    gcoll_patience p = ready();
    for (int waits = GCOLL_PATIENCE_SLEEPY_FIRST; waits < GCOLL_PATIENCE_SLEEPY_MOST; waits *= 2) {
        steal(&p);
        EXPECT_EQ(sleepy(&p), waits - 1);
    }
    for (int i = 0; i < 40; i++) {
        steal(&p);
        EXPECT_EQ(sleepy(&p), GCOLL_PATIENCE_SLEEPY_MOST - 1);
    }
    for (int i = 0; i < GCOLL_PATIENCE_CALM; i++)
        wait(&p, 1, kBare);
    steal(&p);
    EXPECT_EQ(sleepy(&p), GCOLL_PATIENCE_SLEEPY_FIRST - 1);
}

} // namespace
