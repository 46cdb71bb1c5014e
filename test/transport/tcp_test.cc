// test/transport/tcp_test.cc - messages over TCP: limits, order, flow control; and waiting for them.
#include <sys/mman.h>
#include <sys/resource.h>

#include <set>

#include "test/transport/tcp_support.h"

using namespace harness;

namespace {

TEST(Tcp, EverySizeAroundEveryLimit) {
    const uint64_t fragment = GCOLL_WIRE_FRAGMENT_MAX, input = GCOLL_SESSION_INPUT_BYTES,
                   copy = GCOLL_SESSION_COPY_MAX;
    const uint64_t eager = 100000, hot = GCOLL_SESSION_HOT_BYTES;
    std::vector<uint64_t> sizes = {0, 1, 15, 16, 17};
    for (uint64_t limit : {copy, input - 32, input, eager, hot, fragment, 2 * fragment})
        for (uint64_t bytes : {limit - 1, limit, limit + 1})
            sizes.push_back(bytes);
    for (bool early : {true, false})
        for (uint32_t granule : {0u, 1u, 2u, 4u, 8u, 12u, 16u}) {
            Two two([&](gcoll_endpoint_options &o) { o.eager_bytes = eager; });
            two.connect(1, 0);
            auto receive = [&] {
                uint32_t index = 0;
                for (uint64_t bytes : sizes)
                    two[1].receive(0, 1, index++, granule ? bytes - bytes % granule : bytes, granule);
            };
            if (early)
                receive();
            uint32_t index = 0;
            for (uint64_t bytes : sizes)
                two[0].send(1, 1, index++, granule ? bytes - bytes % granule : bytes, bytes % 2);
            if (!early) {
                auto soon = Clock::now() + std::chrono::milliseconds(20);
                two.turn([&] { return Clock::now() > soon; });
                receive();
            }
            ASSERT_TRUE(two.turn([&] { return two.all_done(); })) << early << granule;
            two.check();
        }
}

TEST(Tcp, MemoryThatCannotBeReadIsReported) {
    Two two;
    ASSERT_TRUE(two.meet());
    const size_t bytes = 100000;
    void *unreadable = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(unreadable, MAP_FAILED);
    gcoll_message message = {};
    message.stream = 1;
    message.bytes = bytes;
    message.data = unreadable;
    message.done = [](gcoll_message *) { ADD_FAILURE() << "done"; };
    kTcp->post_send(two[0].endpoint, 1, &message);
    ASSERT_TRUE(two.turn([&] { return !two[0].failed.empty(); }));
    EXPECT_EQ(two[0].failed[0].status, GCOLL_ERR_INVALID);
    EXPECT_EQ(two[0].failed[0].text.find("was to be sent memory that cannot be read"), 0u);
    munmap(unreadable, bytes);
}

TEST(Tcp, AWrongSizeIsReportedThoughThePeerHasDeparted) {
    for (bool reported : {false, true}) {
        Two two;
        ASSERT_TRUE(two.meet());
        two[0].send(1, 1, 0, 400);
        ASSERT_TRUE(two[0].until_done());
        two[0].close();
        while (two.pair(1)->state != GCOLL_SESSION_DEPARTED)
            gcoll_session_read(two.pair(1), SIZE_MAX);
        if (reported)
            ASSERT_TRUE(two.turn([&] { return !two[1].departed.empty(); }));
        two[1].receive(0, 1, 0, 404);
        ASSERT_TRUE(two.turn([&] { return !two[1].failed.empty(); }));
        EXPECT_EQ(two[1].failed[0].status, GCOLL_ERR_MISMATCH);
        EXPECT_EQ(two[1].failed[0].text, "sent 400 bytes where 404 were expected");
        two[1].progress(0);
        EXPECT_EQ(two[1].failed.size(), 1u);
        EXPECT_EQ(two[1].departed.size(), reported ? 1u : 0u);
    }
}

// Offers overtake data: those of messages that are granted and not sent yet count too.
TEST(Tcp, OffersStayWithinTheirLimit) {
    const uint32_t first = GCOLL_FLOW_PROMISES_MAX, more = 100;
    Two two([](gcoll_endpoint_options &o) { o.eager_bytes = 1; });
    ASSERT_TRUE(two.meet());
    for (uint32_t i = 0; i < first; i++)
        two[0].send(1, 1, i, 2);
    ASSERT_TRUE(two.turn([&] { return two.pair(1)->flow.offered == first || !two[1].failed.empty(); }));
    for (uint32_t i = 0; i < first; i++)
        two[1].receive(0, 1, i, 2);
    while (two.pair(0)->output.messages.first == nullptr) { // until some are granted
        kTcp->flush(two[1].endpoint);
        gcoll_session_read(two.pair(0), SIZE_MAX);
    }
    for (uint32_t i = first; i < first + more; i++) {
        two[0].send(1, 1, i, 2);
        two[1].receive(0, 1, i, 2);
    }
    ASSERT_TRUE(two.turn([&] { return two.all_done() || !two[1].failed.empty(); }));
    two.check();
    EXPECT_EQ(two.pair(0)->flow.untold.oldest, nullptr);
    EXPECT_EQ(two.pair(0)->flow.asked, 0u);
}

// Times at the end of what their type holds.
TEST(Tcp, TimesDoNotOverflow) {
    Two two([](gcoll_endpoint_options &o) {
        o.connect_timeout_ms = INT64_MAX;
        o.spin_us = INT64_MAX;
    });
    ASSERT_TRUE(two.meet());
    kTcp->set_spin(two[0].endpoint, INT64_MAX);
    two[0].progress(1000);
    kTcp->set_spin(two[0].endpoint, 0);
    two[1].send(0, 1, 0, 1);
    two[0].receive(1, 1, 0, 1);
    two[1].progress(0);
    two[0].progress(INT64_MAX);
    EXPECT_TRUE(two.all_done());
    gcoll_note note = {};
    kTcp->abort(two[0].endpoint, &note, INT64_MAX);
}

// Elements of one message arrive in pieces that end anywhere, as other messages are in between.
TEST(Tcp, ConsumeGetsWholeElementsFromOddPieces) {
    Two two;
    two.connect(0, 1);
    std::mt19937 random(7);
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t granule = 1 + random() % 16;
        uint64_t bytes = (random() % 3 ? random() % 5000 : 2 * kMiB + random() % 9999) / granule * granule;
        two[0].send(1, i, 0, bytes);
        two[1].receive(0, i, 0, bytes, granule);
        two[0].send(1, i, 1, 1 + i % 13);
        two[1].receive(0, i, 1, 1 + i % 13);
    }
    ASSERT_TRUE(two.turn([&] { return two.all_done(); }));
    two.check();
}

// Thousands of messages in flight whose order has nothing to do with that of the receives.
void flood(uint64_t pool, uint64_t largest, uint32_t count, uint64_t seed) {
    Two two([&](gcoll_endpoint_options &o) { o.eager_pool_bytes = pool; });
    two.connect(0, 1);
    two.connect(1, 0);
    std::mt19937_64 random(seed);
    struct Post {
        uint32_t rank;
        bool is_send;
        uint64_t stream;
        uint32_t index;
        uint64_t bytes;
        uint32_t granule;
    };
    std::vector<Post> posts;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t from = static_cast<uint32_t>(random() % 2), granule = static_cast<uint32_t>(random() % 5);
        uint64_t bytes = random() % 3 ? random() % 100 : random() % largest;
        bytes = granule ? bytes / granule * granule : bytes;
        posts.push_back({from, true, i % 7, i, bytes, 0});
        posts.push_back({1 - from, false, i % 7, i, bytes, granule});
    }
    std::shuffle(posts.begin(), posts.end(), random);
    auto check_pools = [&] {
        for (uint32_t r = 0; r < 2; r++) {
            gcoll_session *pair = two.pair(r);
            ASSERT_LE(pair->flow.held, pool);
            ASSERT_LE(pair->flow.used, pool);
        }
    };
    for (const Post &post : posts) {
        if (post.is_send)
            two[post.rank].send(1 - post.rank, post.stream, post.index, post.bytes, random() % 4 == 0);
        else
            two[post.rank].receive(1 - post.rank, post.stream, post.index, post.bytes, post.granule);
        if (random() % 4 == 0) {
            two[random() % 2].progress(0);
            check_pools();
        }
    }
    ASSERT_TRUE(two.turn([&] {
        check_pools();
        return two.all_done();
    })) << two[0].done
        << "+" << two[1].done << " of " << 2 * count;
    two.check();
    for (uint32_t r = 0; r < 2; r++) { // nothing is remembered that is over
        two.turn([&] { return two.pair(r)->flow.promised == 0; });
        EXPECT_EQ(two.pair(r)->flow.held, 0u);
        EXPECT_EQ(two.pair(r)->flow.incoming.slots.count, 0u);
        EXPECT_EQ(two.pair(r)->flow.outgoing.slots.count, 0u);
        EXPECT_EQ(two.pair(r)->flow.granted, 0u);
        EXPECT_EQ(two.pair(r)->flow.offered, 0u);
        EXPECT_EQ(two.pair(r)->flow.asked, 0u);
        EXPECT_EQ(two.pair(r)->flow.used, two.pair(r)->flow.owed);
    }
}

TEST(Tcp, FloodThroughATinyPool) {
    flood(4096, 3000, 4000, 1);
}
TEST(Tcp, FloodThroughTheLeastPool) {
    flood(GCOLL_FLOW_POOL_MIN, 1000, 2000, 2);
}
TEST(Tcp, FloodOfLargeMessages) {
    flood(65536, 400000, 300, 3);
}
TEST(Tcp, FloodThroughARoomyPool) {
    flood(4 << 20, 100000, 2000, 4);
}

// The pool is full of messages that nobody waits for; those somebody waits for come all the same.
TEST(Tcp, AFullPoolDoesNotStopWhatIsAwaited) {
    for (bool receiver_first : {true, false}) {
        Two two([&](gcoll_endpoint_options &o) { o.eager_pool_bytes = 4096; });
        ASSERT_TRUE(two.meet());
        if (receiver_first)
            two[1].receive(0, 2, 0, 100);
        for (uint32_t i = 0; i < 1000; i++)
            two[0].send(1, 1, i, 50);
        Message &awaited = two[0].send(1, 2, 0, 100);
        if (!receiver_first)
            two[1].receive(0, 2, 0, 100);
        ASSERT_TRUE(two.turn([&] { return awaited.dones == 1 && two[1].messages.back()->dones == 1; }));
        EXPECT_LT(two[0].done, 200u); // the others are still waiting
        for (uint32_t i = 1000; i-- > 0;)
            two[1].receive(0, 1, i, 50);
        ASSERT_TRUE(two.turn([&] { return two.all_done(); }));
        two.check();
    }
}

TEST(Tcp, DifferentSizesAreAMismatchWhoeverIsFirst) {
    const uint64_t small = 404, large = kMiB;
    for (uint64_t sent : {small, small + 1, large, large + 1})
        for (uint64_t expected : {small, large})
            for (bool receiver_first : {true, false}) {
                if (sent == expected)
                    continue;
                Two two;
                ASSERT_TRUE(two.meet());
                auto soon = Clock::now() + std::chrono::milliseconds(5);
                if (receiver_first)
                    two[1].receive(0, 1, 0, expected);
                else
                    two[0].send(1, 1, 0, sent);
                two.turn([&] { return Clock::now() > soon; });
                if (receiver_first)
                    two[0].send(1, 1, 0, sent);
                else
                    two[1].receive(0, 1, 0, expected);
                ASSERT_TRUE(two.turn([&] { return !two[1].failed.empty(); })) << sent << " " << expected;
                EXPECT_EQ(two[1].failed[0].status, GCOLL_ERR_MISMATCH);
                EXPECT_EQ(two[1].failed[0].text, "sent " + std::to_string(sent) + " bytes where " +
                                                     std::to_string(expected) + " were expected");
                EXPECT_EQ(two[1].messages.back()->dones, 0);
                // The connection still carries the news.
                gcoll_note note = note_of(GCOLL_ERR_MISMATCH, 0, "they differ");
                kTcp->abort(two[1].endpoint, &note, 1000);
                ASSERT_TRUE(two.turn([&] { return !two[0].aborted.empty(); }));
                EXPECT_STREQ(two[0].aborted[0].note.text, "they differ");
            }
}

TEST(Tcp, AFingerprintOfAMessageThatMustWaitTravelsAhead) {
    Two two;
    ASSERT_TRUE(two.meet());
    two[0].send(1, 5, 0, kMiB, true); // waits for a grant that does not come yet
    ASSERT_TRUE(two.turn([&] { return two[1].opened.size() == 1; }));
    EXPECT_EQ(two[1].opened[0].stream, 5u);
    two[1].receive(0, 5, 0, kMiB);
    ASSERT_TRUE(two.turn([&] { return two.all_done(); }));
    EXPECT_EQ(two[1].opened.size(), 1u); // once
    two.check();
}

TEST(Tcp, SmallMessagesOvertakeALargeOne) {
    Two two;
    ASSERT_TRUE(two.meet());
    two[1].receive(0, 1, 0, 16 * kMiB);
    two[1].receive(0, 1, 1, 4);
    two[0].send(1, 1, 0, 16 * kMiB);
    Message &small = two[0].send(1, 1, 1, 4);
    ASSERT_TRUE(two.turn([&] { return two[1].messages.back()->dones == 1; }));
    EXPECT_EQ(small.dones, 1);
    EXPECT_LT(two[1].done, two[1].messages.size());
    ASSERT_TRUE(two.turn([&] { return two.all_done(); }));
    two.check();
}

// ---- Waiting -----------------------------------------------------------------------------------------

TEST(Tcp, ABlockedWaitUsesNoProcessor) {
    Two two;
    ASSERT_TRUE(two.meet());
    two[0].receive(1, 1, 0, 100);
    auto cpu = [] {
        rusage usage;
        getrusage(RUSAGE_THREAD, &usage);
        return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
               static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
    };
    double before = cpu();
    auto begun = Clock::now();
    EXPECT_FALSE(two[0].progress(300000));
    auto took = std::chrono::duration<double, std::milli>(Clock::now() - begun).count();
    EXPECT_LT(cpu() - before, 30);
    EXPECT_GE(took, 299);
    EXPECT_LT(took, 2000);
}

TEST(Tcp, SpinningEndsInBlocking) {
    Two two([](gcoll_endpoint_options &o) { o.spin_us = 2000; });
    ASSERT_TRUE(two.meet());
    two[0].receive(1, 1, 0, 100);
    std::thread sender([&] {
        auto soon = Clock::now() + std::chrono::milliseconds(30);
        while (Clock::now() < soon)
            two[1].progress(1000);
        two[1].send(0, 1, 0, 100);
        EXPECT_TRUE(two[1].until_done());
    });
    EXPECT_TRUE(two[0].progress(10000000)); // at once when it comes, whether spinning or blocked
    sender.join();
    two.check();
}

// Two ranks of which rank 1 has read so many messages directly that libuv does not poll its socket any more.
struct Unwatched : Two {
    Unwatched() : Two([](gcoll_endpoint_options &o) { o.spin_us = 1000000; }) {
        EXPECT_TRUE(meet());
        for (uint32_t i = 0; i < 200 && tcp(1)->unwatched == nullptr; i++) {
            ranks[1]->receive(0, 1, i, 100);
            ranks[0]->send(1, 1, i, 100);
            EXPECT_TRUE(turn([&] { return all_done(); }));
        }
        EXPECT_EQ(tcp(1)->unwatched, pair(1)->socket);
        EXPECT_EQ(pair(1)->posted, 0u);
    }
    gcoll_net *tcp(uint32_t r) { return gcoll_net_of(ranks[r]->endpoint); }
};

TEST(Tcp, ASocketThatIsReadDirectlyIsNotPolled) {
    Unwatched two;
    for (uint32_t i = 0; i < 1000; i++) { // and stays so while that goes on
        two[1].receive(0, 2, i, 100);
        two[0].send(1, 2, i, 100);
        ASSERT_TRUE(two.turn([&] { return two.all_done(); }));
        ASSERT_EQ(two.tcp(1)->unwatched, two.pair(1)->socket) << i;
    }
    two.check();
}

TEST(Tcp, WhatNoReceiveWaitsForIsSeenThoughTheSocketWasNotPolled) {
    Unwatched two;
    kTcp->probe(two[0].endpoint, 1);
    EXPECT_TRUE(two.turn([&] { return !two[0].answered.empty(); }));
    EXPECT_EQ(two.tcp(1)->unwatched, nullptr);
    two.check();
}

TEST(Tcp, APeerThatLeavesIsNoticedThoughTheSocketWasNotPolled) {
    for (bool awaited : {false, true}) {
        Unwatched two;
        if (awaited)
            two[1].receive(0, 3, 0, 100);
        two[0].close();
        EXPECT_TRUE(two.turn([&] { return two[1].departed.size() == 1; })) << awaited;
        EXPECT_EQ(two.tcp(1)->unwatched, nullptr);
    }
}

TEST(Tcp, ASleeperIsWokenByASocketThatWasNotPolled) {
    Unwatched two;
    two[1].receive(0, 3, 0, 100);
    two[1].progress(0);
    ASSERT_NE(two.tcp(1)->unwatched, nullptr);
    two[0].send(1, 3, 0, 100);
    kTcp->flush(two[0].endpoint);
    auto begun = Clock::now();
    gcoll_net_block(two.tcp(1), 20000000);
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(10));
    EXPECT_EQ(two.tcp(1)->unwatched, nullptr);
    EXPECT_TRUE(two.turn([&] { return two.all_done(); }));
    two.check();
}

// What nobody waits for comes all the same, while others are waited for and while the thread sleeps.
TEST(Tcp, AReceiveInTheBackgroundCostsNoPolls) {
    Unwatched two;
    for (uint32_t i = 0; i < 10; i++) {
        two[1].receive(0, 4, i, 100, 0, true);
        EXPECT_EQ(two.pair(1)->posted, 0u);
        two[1].progress(0);
        EXPECT_EQ(two.tcp(1)->hot_count, 0u);
        two[0].send(1, 4, i, 100);
        kTcp->flush(two[0].endpoint);
        if (i % 2 == 0)
            gcoll_net_block(two.tcp(1), 20000000);
        EXPECT_TRUE(two.turn([&] { return two.all_done(); }));
        EXPECT_EQ(two.pair(1)->posted, 0u);
    }
    two[1].receive(0, 4, 10, 100, 0, true);
    two[1].receive(0, 5, 0, 100);
    EXPECT_EQ(two.pair(1)->posted, 1u);
    two[0].send(1, 4, 10, 100);
    two[0].send(1, 5, 0, 100);
    EXPECT_TRUE(two.turn([&] { return two.all_done(); }));
    EXPECT_EQ(two.pair(1)->posted, 0u);
    two.check();
}

// What the peer's kernel takes is no sign of life of a peer that was asked and does not answer.
TEST(Tcp, WhatIsAcknowledgedBehindAProbeDoesNotCount) {
    Two two;
    ASSERT_TRUE(two.meet());
    gcoll_endpoint *endpoint = two[0].endpoint;
    const gcoll_session *pair = gcoll_net_of(endpoint)->sessions[1];
    auto all_taken = [&] { // by the kernel of a peer that reads nothing
        kTcp->moves(endpoint);
        return pair->output.messages.first == nullptr && pair->alive.taken == pair->output.data_end;
    };
    gcoll_sight first, later, answered;
    two[0].send(1, 5, 0, 1000);
    ASSERT_TRUE(two[0].until(all_taken));
    kTcp->look(endpoint, 1, &first);
    kTcp->probe(endpoint, 1);
    two[0].progress(0);
    for (uint32_t i = 1; i < 3; i++) {
        uint32_t moves = kTcp->moves(endpoint);
        two[0].send(1, 5, i, 1000);
        ASSERT_TRUE(two[0].until(all_taken));
        EXPECT_NE(kTcp->moves(endpoint), moves) << "it moves all the same";
        kTcp->look(endpoint, 1, &later);
        EXPECT_EQ(later.heard, first.heard);
        EXPECT_LE(later.taken, first.taken + 100) << "up to the probe";
    }
    for (uint32_t i = 0; i < 3; i++)
        two[1].receive(0, 5, i, 1000);
    EXPECT_TRUE(two.turn([&] { return two[0].answered.size() == 1; }));
    kTcp->look(endpoint, 1, &answered);
    EXPECT_GT(answered.heard, later.heard);
    EXPECT_GE(answered.taken, first.taken + 2000);
}

// Rank 0 asks rank 2 about rank 1, which answers rank 2 and is then asked no more.
TEST(Tcp, AThirdRankTellsWhoIsAlive) {
    Group group(kTcp, 3);
    for (uint32_t r = 0; r < 3; r++)
        group.connect(group[r]);
    for (uint32_t r = 0; r < 3; r++)
        for (uint32_t peer = 0; peer < 3; peer++)
            if (peer != r) {
                group[r].send(peer, 1, 0, 10);
                group[r].receive(peer, 1, 0, 10);
            }
    ASSERT_TRUE(group.turn_until_done());
    kTcp->set_doubt(group[0].endpoint, 1);
    kTcp->probe(group[0].endpoint, 1); // is not asked about itself
    ASSERT_TRUE(group.turn([&] {
        kTcp->probe(group[0].endpoint, 2);
        return !group[0].witnessed.empty();
    }));
    EXPECT_EQ(group[0].witnessed[0].peer, 2u);
    EXPECT_EQ(group[0].witnessed[0].about, 1u);
    EXPECT_GE(group[0].witnessed[0].ago_ms, 0);
    EXPECT_FALSE(group[0].answered.empty());
    kTcp->set_doubt(group[0].endpoint, UINT32_MAX);
    group[0].answered.clear();
    ASSERT_TRUE(group.turn([&] { // what was asked before is answered before
        kTcp->probe(group[0].endpoint, 2);
        return group[0].answered.size() >= 3;
    }));
    size_t told = group[0].witnessed.size();
    group[0].answered.clear();
    ASSERT_TRUE(group.turn([&] {
        kTcp->probe(group[0].endpoint, 2);
        return group[0].answered.size() >= 3;
    }));
    EXPECT_EQ(group[0].witnessed.size(), told);
}

// A line of ranks, of which 1 and 2 pass on what rank 0 asks about rank 4, and what rank 3 knows.
TEST(Tcp, AQuestionIsPassedOn) {
    Group group(kTcp, 5);
    for (uint32_t r = 0; r < 4; r++) {
        group.connect(r, r + 1);
        group[r].send(r + 1, 1, 0, 10);
        group[r + 1].receive(r, 1, 0, 10);
    }
    ASSERT_TRUE(group.turn_until_done());
    kTcp->set_doubt(group[0].endpoint, 4);
    ASSERT_TRUE(group.turn([&] {
        kTcp->probe(group[0].endpoint, 1);
        return !group[0].witnessed.empty();
    }));
    EXPECT_EQ(group[0].witnessed[0].peer, 3u);
    EXPECT_EQ(group[0].witnessed[0].about, 4u);
    group[4].close(); // nobody knows it any more
    ASSERT_TRUE(group.turn([&] { return group[3].departed.size() == 1; }));
    kTcp->set_doubt(group[0].endpoint, UINT32_MAX);
    for (int rounds = 0; rounds < 2; rounds++) { // all that was under way has come
        group[0].answered.clear();
        kTcp->probe(group[0].endpoint, 1);
        ASSERT_TRUE(group.turn([&] { return !group[0].answered.empty(); }));
    }
    kTcp->set_doubt(group[0].endpoint, 4);
    group[0].witnessed.clear();
    for (int rounds = 0; rounds < 5; rounds++) {
        group[0].answered.clear();
        kTcp->probe(group[0].endpoint, 1);
        ASSERT_TRUE(group.turn([&] { return !group[0].answered.empty(); }));
    }
    EXPECT_TRUE(group[0].witnessed.empty());
}

// A thread that is held up between setting its alarm and polling must not wait for good.
TEST(Tcp, AnAlarmThatIsDueAlreadyEndsTheWait) {
    Two two;
    auto begun = Clock::now();
    for (int i = 0; i < 10; i++)
        gcoll_net_block(gcoll_net_of(two[0].endpoint), 0);
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(2));
}

TEST(Tcp, AWakeIsNotLostWhenNobodyWaits) {
    Two two;
    kTcp->wake(two[0].endpoint);
    auto begun = Clock::now();
    EXPECT_FALSE(two[0].progress(10000000));
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5));
}

} // namespace
