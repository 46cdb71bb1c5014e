// test/transport/ibverbs_test.cc - what the transport ibverbs does with its device, by counts. Needs a
// device.
#include "test/transport/ibverbs_support.h"
#include "test/transport/transport_harness.h"

extern "C" {
#include "transport/ibverbs/counters.h"
}

using namespace harness;

namespace {

constexpr uint64_t kMiB = 1 << 20;
const gcoll_transport *const kIbverbs = &gcoll_transport_ibverbs;

gcoll_ib_counters counters(Rank &rank) {
    gcoll_ib_counters found;
    gcoll_ib_get_counters(rank.endpoint, &found);
    return found;
}

class Ibverbs : public ibverbs_support::NeedsDevice {};

// Two ranks whose queue pairs stand.
class Two : public Group {
  public:
    Two() : Group(kIbverbs, 2) {
        connect(0, 1);
        for (uint32_t r = 0; r < 2; r++) {
            (*this)[r].send(1 - r, 99, 0, 8);
            (*this)[r].receive(1 - r, 99, 0, 8);
        }
        EXPECT_TRUE(turn_until_done());
    }
};

TEST_F(Ibverbs, AnEagerMessageIsOneWorkRequest) {
    for (uint64_t bytes : {0u, 8u, 64u, 1000u, 8000u}) {
        Two two;
        gcoll_ib_counters before = counters(two[0]), before_there = counters(two[1]);
        for (uint32_t i = 0; i < 10; i++) {
            two[1].receive(0, 1, i, bytes);
            two[0].send(1, 1, i, bytes);
            EXPECT_TRUE(two.turn_until_done());
        }
        EXPECT_EQ(counters(two[0]).work_requests - before.work_requests, 10u) << bytes;
        EXPECT_EQ(counters(two[0]).bytes_copied - before.bytes_copied, 10 * bytes);
        EXPECT_EQ(counters(two[1]).completions - before_there.completions, 10u);
        EXPECT_EQ(counters(two[1]).bytes_copied - before_there.bytes_copied, 10 * bytes);
        two[1].check();
    }
}

TEST_F(Ibverbs, MessagesThatArePostedTogetherShareADoorbell) {
    Two two;
    gcoll_ib_counters before = counters(two[0]);
    for (uint32_t i = 0; i < 10; i++)
        two[0].send(1, 1, i, 100);
    kIbverbs->flush(two[0].endpoint);
    gcoll_ib_counters after = counters(two[0]);
    EXPECT_EQ(after.work_requests - before.work_requests, 10u);
    EXPECT_EQ(after.doorbells - before.doorbells, 1u);
    for (uint32_t i = 0; i < 10; i++)
        two[1].receive(0, 1, i, 100);
    EXPECT_TRUE(two.turn_until_done());
    EXPECT_LE(counters(two[0]).completions - before.completions, 2u) << "not each asks for one";
    two[1].check();
}

TEST_F(Ibverbs, ALargeMessageIsNotCopied) {
    for (bool late : {false, true}) {
        Two two;
        gcoll_ib_counters before[2] = {counters(two[0]), counters(two[1])};
        if (late)
            two[0].send(1, 1, 0, 4 * kMiB);
        else
            two[1].receive(0, 1, 0, 4 * kMiB);
        two.turn([&, i = 0]() mutable { return i++ == 50; });
        if (late)
            two[1].receive(0, 1, 0, 4 * kMiB);
        else
            two[0].send(1, 1, 0, 4 * kMiB);
        EXPECT_TRUE(two.turn_until_done());
        for (uint32_t r = 0; r < 2; r++) {
            gcoll_ib_counters after = counters(two[r]);
            EXPECT_EQ(after.work_requests - before[r].work_requests, late && r == 0 ? 2u : 1u)
                << "an offer if it was not granted, a write; a grant";
            EXPECT_EQ(after.bytes_copied - before[r].bytes_copied, 0u);
            EXPECT_EQ(after.bytes_written - before[r].bytes_written, 4 * kMiB);
            EXPECT_EQ(after.registrations - before[r].registrations, 1u);
            EXPECT_EQ(after.deregistrations - before[r].deregistrations, 1u)
                << "it stays no longer than the message";
        }
        two[1].check();
    }
}

// What is reduced as it comes needs no copy either: it is consumed where the device put it.
TEST_F(Ibverbs, ConsumedBytesComeByTheRing) {
    Two two;
    two[1].receive(0, 1, 0, 3 * kMiB, 4);
    two[0].send(1, 1, 0, 3 * kMiB);
    EXPECT_TRUE(two.turn_until_done());
    gcoll_ib_counters before = counters(two[1]), before_there = counters(two[0]);
    two[1].receive(0, 1, 1, 3 * kMiB, 4);
    two[0].send(1, 1, 1, 3 * kMiB);
    EXPECT_TRUE(two.turn_until_done());
    EXPECT_EQ(counters(two[1]).bytes_copied - before.bytes_copied, 0u);
    EXPECT_EQ(counters(two[1]).registrations - before.registrations, 0u) << "the ring stays";
    EXPECT_EQ(counters(two[1]).work_requests - before.work_requests, 24u) << "a grant for each chunk";
    EXPECT_GE(counters(two[0]).work_requests - before_there.work_requests, 24u);
    EXPECT_LE(counters(two[0]).work_requests - before_there.work_requests, 26u)
        << "a write for each, and the word that the grants' slots are free";
    two[1].check();
}

TEST_F(Ibverbs, AttachedMemoryIsRegisteredOnce) {
    Two two;
    std::vector<uint8_t> data[2];
    void *handles[2];
    for (uint32_t r = 0; r < 2; r++) {
        data[r].assign(kMiB, static_cast<uint8_t>(r));
        ASSERT_EQ(kIbverbs->attach(two[r].endpoint, data[r].data(), kMiB, r == 1, kMiB, &handles[r]),
                  GCOLL_OK);
        EXPECT_NE(handles[r], nullptr);
    }
    gcoll_ib_counters before[2] = {counters(two[0]), counters(two[1])};
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t part = i % 2;
        int done = 0;
        gcoll_message messages[2] = {};
        for (uint32_t r = 0; r < 2; r++) {
            messages[r].stream = 7;
            messages[r].index = i;
            messages[r].bytes = kMiB / 2;
            messages[r].data = data[r].data() + part * kMiB / 2;
            messages[r].owner = &done;
            messages[r].done = [](gcoll_message *m) { ++*static_cast<int *>(m->owner); };
        }
        kIbverbs->post_recv(two[1].endpoint, 0, &messages[1]);
        kIbverbs->post_send(two[0].endpoint, 1, &messages[0]);
        EXPECT_TRUE(two.turn([&] { return done == 2; }));
    }
    for (uint32_t r = 0; r < 2; r++) {
        EXPECT_EQ(counters(two[r]).registrations - before[r].registrations, 0u);
        EXPECT_EQ(data[r], std::vector<uint8_t>(kMiB, 0));
        kIbverbs->detach(two[r].endpoint, handles[r]);
        EXPECT_EQ(counters(two[r]).deregistrations - before[r].deregistrations, 1u);
    }
}

// A key is worth nothing once its memory is concealed, whatever else is registered there.
TEST_F(Ibverbs, ExposedMemoryIsRegisteredByItself) {
    Two two;
    std::vector<uint8_t> data(kMiB);
    gcoll_exposed first, second;
    void *handle;
    gcoll_endpoint *endpoint = two[0].endpoint;
    gcoll_ib_counters before = counters(two[0]);
    ASSERT_EQ(kIbverbs->expose(endpoint, data.data(), kMiB, &first), GCOLL_OK);
    ASSERT_EQ(kIbverbs->expose(endpoint, data.data(), kMiB, &second), GCOLL_OK);
    ASSERT_EQ(kIbverbs->attach(endpoint, data.data(), kMiB, true, kMiB, &handle), GCOLL_OK);
    EXPECT_NE(first.key, second.key);
    EXPECT_EQ(counters(two[0]).registrations - before.registrations, 3u);
    for (gcoll_exposed *exposed : {&first, &second})
        kIbverbs->conceal(endpoint, exposed);
    EXPECT_EQ(counters(two[0]).deregistrations - before.deregistrations, 2u);
    kIbverbs->detach(endpoint, handle);
    EXPECT_EQ(counters(two[0]).deregistrations - before.deregistrations, 3u);
}

// Who leaves still gets frames until its goodbye is acknowledged, and does not answer them.
TEST_F(Ibverbs, NothingFollowsAGoodbye) {
    Two two;
    gcoll_ib_counters before = counters(two[1]);
    for (uint32_t i = 0; i < 28; i++)
        two[1].send(0, 1, i, 100);
    // All but the last few are in the other's completion queue when the third completion is in ours.
    EXPECT_TRUE(two[1].until([&] { return counters(two[1]).completions - before.completions >= 3; }));
    two[0].close();
    EXPECT_TRUE(two[1].until([&] { return !two[1].departed.empty() || !two[1].failed.empty(); }));
    EXPECT_EQ(two[1].departed.size(), 1u);
    for (const Failed &failed : two[1].failed)
        ADD_FAILURE() << failed.text;
}

TEST_F(Ibverbs, WhatNoLargeMessageUsesIsNotAttached) {
    Two two;
    std::vector<uint8_t> data(kMiB);
    void *handle = &data;
    ASSERT_EQ(kIbverbs->attach(two[0].endpoint, data.data(), kMiB, true, 4096, &handle), GCOLL_OK);
    EXPECT_EQ(handle, nullptr);
    kIbverbs->detach(two[0].endpoint, handle);
}

} // namespace
