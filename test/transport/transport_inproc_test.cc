// test/transport/transport_inproc_test.cc - ranks of one process: what the hub adds, and the faults it can
// show.
#include <atomic>
#include <set>

#include "test/transport/transport_harness.h"

extern "C" {
#include "transport/inproc/inproc.h"
}

using namespace harness;

namespace {

const gcoll_transport *const kInproc = &gcoll_transport_inproc;

gcoll_status try_open(gcoll_endpoint_options options, gcoll_endpoint **endpoint) {
    gcoll_events events = {};
    return kInproc->open(&options, &events, endpoint);
}

TEST(Inproc, HubChecksItsArguments) {
    gcoll_hub *hub = nullptr;
    EXPECT_EQ(gcoll_hub_create(0, &hub), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_hub_create(UINT32_MAX, &hub), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_hub_create(2, nullptr), GCOLL_ERR_INVALID);
    EXPECT_EQ(hub, nullptr);
    gcoll_hub_destroy(nullptr);
}

TEST(Inproc, OpenChecksItsOptions) {
    Group group(kInproc, 2);
    gcoll_endpoint *endpoint = nullptr;
    gcoll_endpoint_options options = group.options();
    EXPECT_EQ(try_open(options, &endpoint), GCOLL_ERR_INVALID); // rank 1 is there
    options.size = 3;
    EXPECT_EQ(try_open(options, &endpoint), GCOLL_ERR_INVALID);
    EXPECT_NE(std::strstr(gcoll_last_error(), "3"), nullptr) << gcoll_last_error();
    options.size = 2;
    options.rank = 2;
    EXPECT_EQ(try_open(options, &endpoint), GCOLL_ERR_INVALID);
    options.rank = 0;
    options.hub = nullptr;
    EXPECT_EQ(try_open(options, &endpoint), GCOLL_ERR_INVALID);
    group[0].close(); // a rank that left does not come back
    EXPECT_EQ(try_open(group.options(), &endpoint), GCOLL_ERR_INVALID);
    EXPECT_EQ(endpoint, nullptr);
}

TEST(Inproc, AddressOfAnotherHubIsRefused) {
    Group one(kInproc, 2), other(kInproc, 2);
    EXPECT_EQ(kInproc->connect(one[0].endpoint, 1, other.address(1).c_str()), GCOLL_ERR_INVALID);
    EXPECT_EQ(kInproc->connect(one[0].endpoint, 1, one.address(0).c_str()), GCOLL_ERR_INVALID);
    EXPECT_EQ(kInproc->connect(one[0].endpoint, 0, one.address(0).c_str()), GCOLL_ERR_INVALID);
    EXPECT_EQ(kInproc->connect(one[0].endpoint, 2, one.address(1).c_str()), GCOLL_ERR_INVALID);
}

// A duplicated context lives on its parent's hub under a group of its own.
TEST(Inproc, GroupsOfOneHubDoNotMeet) {
    Group first(kInproc, 2);
    gcoll_endpoint_options options = first.options();
    options.group[0] ^= 1;
    for (int generation = 0; generation < 3; generation++) { // a group that ended may be used again
        options.rank = 0;
        Rank zero(kInproc, options);
        zero.send(1, 1, 0, 10);
        EXPECT_EQ(kInproc->connect(zero.endpoint, 1, first.address(1).c_str()), GCOLL_OK);
        first.connect(0, 1);
        first[1].receive(0, 1, 0, 10);
        for (int i = 0; i < 10; i++) {
            EXPECT_FALSE(zero.progress(0));
            EXPECT_FALSE(first[1].progress(0));
        }
        options.rank = 1;
        Rank one(kInproc, options); // comes late; what was posted is there
        one.receive(0, 1, 0, 10);
        EXPECT_TRUE(one.until_done());
        EXPECT_TRUE(zero.until_done());
        one.check();
        zero.close();
        EXPECT_TRUE(one.until([&] { return one.departed.size() == 1; }));
    }
}

TEST(Inproc, LateRanksLearnWhoHasLeft) {
    Group group(kInproc, 3);
    gcoll_note note = note_of(GCOLL_ERR_ABORTED, 0, "why");
    kInproc->abort(group[0].endpoint, &note, 100);
    group.connect(2, 0);
    EXPECT_TRUE(group.turn([&] { return group[2].aborted.size() == 1; }));
    EXPECT_STREQ(group[2].aborted[0].note.text, "why");
    group[0].close();
    EXPECT_TRUE(group.turn([&] { return group[2].departed.size() == 1; }));
    group.connect(1, 0);
    EXPECT_TRUE(group.turn([&] { return group[1].departed.size() == 1; }));
    EXPECT_EQ(group[1].aborted.size(), 1u);
    EXPECT_EQ(group[2].aborted.size(), 1u);
}

TEST(Inproc, ASendWaitsForItsReceive) {
    Group group(kInproc, 2);
    group.connect(0, 1);
    group[0].send(1, 1, 0, 1);
    group[0].send(1, 1, 1, 0);
    for (int i = 0; i < 10; i++) {
        EXPECT_FALSE(group[0].progress(0));
        EXPECT_FALSE(group[1].progress(0));
    }
    group[1].receive(0, 1, 1, 0);
    group[1].receive(0, 1, 0, 1);
    EXPECT_TRUE(group.turn_until_done());
}

// A room outlives those who leave it before others come.
TEST(Inproc, ARankThatComesAfterAllOthersHaveLeftLearnsIt) {
    gcoll_hub *hub = nullptr;
    ASSERT_EQ(gcoll_hub_create(2, &hub), GCOLL_OK);
    for (int generation = 0; generation < 2; generation++) {
        gcoll_endpoint_options options = {};
        options.size = 2;
        options.hub = hub;
        options.group[0] = static_cast<uint8_t>(generation);
        Rank zero(kInproc, options);
        std::string address = zero.address();
        zero.close();
        options.rank = 1;
        Rank one(kInproc, options);
        EXPECT_EQ(kInproc->connect(one.endpoint, 0, address.c_str()), GCOLL_OK);
        EXPECT_TRUE(one.until([&] { return one.departed.size() == 1; }));
    }
    gcoll_hub_destroy(hub);
}

TEST(Inproc, AMessageThatIsMatchedButNotMovedIsTakenBack) {
    for (bool aborts : {false, true}) {
        Group group(kInproc, 2);
        group.connect(0, 1);
        group[0].send(1, 1, 0, 1000);
        group[1].progress(0);
        group[1].receive(0, 1, 0, 1000); // finds it, and moves nothing before the next progress
        gcoll_note note = note_of(GCOLL_ERR_ABORTED, 0, "");
        if (aborts)
            kInproc->abort(group[0].endpoint, &note, 100);
        else
            group[0].close();
        group[0].messages.clear(); // the sanitizers watch
        EXPECT_TRUE(group[1].progress(0));
        EXPECT_EQ(group[1].done, 0u);
        EXPECT_EQ(group[1].aborted.size() + group[1].departed.size(), 1u);
    }
}

// Rank 1 is in the middle of rank 0's bytes when rank 0 aborts: abort waits for it to look up.
void abort_during_copy(uint64_t size, int dones) {
    struct {
        std::atomic<bool> copying{false}, aborting{false}, left{false};
        uint64_t sum = 0;
        int dones = 0;
    } state;
    Group group(kInproc, 2);
    group.connect(0, 1);
    group[0].send(1, 1, 0, size);
    gcoll_message slow = {};
    slow.stream = 1;
    slow.bytes = size;
    slow.granule = 1;
    slow.consume_arg = slow.owner = &state;
    slow.consume = [](void *arg, uint64_t, const void *data, uint64_t bytes) {
        auto *shared = static_cast<decltype(&state)>(arg);
        shared->copying = true;
        while (!shared->aborting)
            std::this_thread::yield();
        for (uint64_t i = 0; i < bytes; i++)
            shared->sum += static_cast<const uint8_t *>(data)[i];
        shared->left = true;
    };
    slow.done = [](gcoll_message *message) { static_cast<decltype(&state)>(message->owner)->dones++; };
    kInproc->post_recv(group[1].endpoint, 0, &slow);
    std::thread receiver([&] { EXPECT_TRUE(group[1].until([&] { return !group[1].aborted.empty(); })); });
    while (!state.copying)
        std::this_thread::yield();
    gcoll_note note = note_of(GCOLL_ERR_ABORTED, UINT32_MAX, "enough");
    state.aborting = true;
    kInproc->abort(group[0].endpoint, &note, 1000);
    EXPECT_TRUE(state.left);
    group[0].messages.clear(); // nobody reads it any more: the sanitizers watch
    receiver.join();
    EXPECT_FALSE(group[0].progress(0)); // no done follows
    EXPECT_EQ(state.dones, dones);
}

TEST(Inproc, AbortWaitsForACopyThatReadsItsMemory) {
    abort_during_copy(1 << 20, 0); // cut short
    abort_during_copy(1000, 1);    // in its last piece: the receiver has it all
}

// ---- Faults ---------------------------------------------------------------------------------------------

// All events and bytes of a run of random traffic by one thread.
std::vector<std::string> shuffled_run(uint64_t seed) {
    constexpr uint32_t kRanks = 4;
    std::vector<std::string> log;
    Group group(kInproc, kRanks,
                [&](gcoll_hub *hub) { EXPECT_EQ(gcoll_inproc_shuffle(hub, seed), GCOLL_OK); });
    auto traffic = random_traffic(kRanks, 12, 1);
    for (uint32_t r = 0; r < kRanks; r++) {
        group[r].log = [&log](const std::string &line) { log.push_back(line); };
        group.connect(group[r]);
        post_traffic(group[r], traffic, 1, true);
    }
    EXPECT_TRUE(group.turn_until_done());
    for (uint32_t r = 0; r < kRanks; r++)
        group[r].check();
    for (uint32_t r = 0; r < kRanks; r++)
        group[r].close();
    return log;
}

TEST(InprocShuffle, SameSeedSameOrderOtherSeedOtherOrder) {
    std::set<std::vector<std::string>> runs;
    for (uint64_t seed = 0; seed < 5; seed++) {
        auto run = shuffled_run(seed);
        EXPECT_EQ(run, shuffled_run(seed)) << "seed " << seed;
        runs.insert(run);
    }
    EXPECT_EQ(runs.size(), 5u);
}

TEST(InprocShuffle, MessagesOvertakeOneAnother) {
    std::set<std::vector<uint32_t>> orders;
    for (uint64_t seed = 0; seed < 50; seed++) {
        std::vector<uint32_t> order;
        Group group(kInproc, 2, [&](gcoll_hub *hub) { gcoll_inproc_shuffle(hub, seed); });
        group.connect(0, 1);
        for (uint32_t i = 0; i < 3; i++)
            group[1].receive(0, i, 0, 100).then = [&order](Message &message) {
                order.push_back(static_cast<uint32_t>(message.m.stream));
            };
        for (uint32_t i = 0; i < 3; i++)
            group[0].send(1, i, 0, 100);
        EXPECT_TRUE(group.turn_until_done());
        orders.insert(order);
    }
    EXPECT_EQ(orders.size(), 6u); // every order of three
}

TEST(InprocShuffle, FingerprintsAreNotOvertaken) {
    for (uint64_t seed = 0; seed < 50; seed++) {
        Group group(kInproc, 2, [&](gcoll_hub *hub) { gcoll_inproc_shuffle(hub, seed); });
        group.connect(0, 1);
        size_t unheard = 0;
        for (uint64_t stream = 1; stream <= 4; stream++)
            for (uint32_t i = 0; i < 4; i++)
                group[1].receive(0, stream, i, 16).then = [&](Message &message) {
                    unheard +=
                        std::none_of(group[1].opened.begin(), group[1].opened.end(),
                                     [&](const Opened &opened) { return opened.stream == message.m.stream; });
                };
        for (uint64_t stream = 1; stream <= 4; stream++)
            for (uint32_t i = 0; i < 4; i++)
                group[0].send(1, stream, 3 - i, 16, i == 0);
        EXPECT_TRUE(group.turn_until_done());
        EXPECT_EQ(unheard, 0u) << "seed " << seed;
        for (const auto &message : group[1].messages)
            EXPECT_EQ(message->m.opened, message->m.index == 3);
    }
}

TEST(InprocShuffle, ThreadsAndWaitsWorkAsWell) {
    for (uint64_t seed = 0; seed < 6; seed++) {
        Group group(kInproc, 3, [&](gcoll_hub *hub) { gcoll_inproc_shuffle(hub, seed); });
        auto traffic = random_traffic(3, 20, seed);
        group.each([&](Rank &rank) {
            group.connect(rank);
            post_traffic(rank, traffic, seed, true);
            EXPECT_TRUE(rank.until_done());
            rank.check();
        });
        group[0].close();
        for (uint32_t r = 1; r < 3; r++)
            EXPECT_TRUE(group[r].until([&] { return group[r].departed.size() == 1; }));
    }
}

TEST(InprocShuffle, DepartureIsTheLastThatIsHeard) {
    for (uint64_t seed = 0; seed < 40; seed++) {
        Group group(kInproc, 2, [&](gcoll_hub *hub) { gcoll_inproc_shuffle(hub, seed); });
        group.connect(0, 1);
        for (uint32_t i = 0; i < 4; i++) {
            group[0].send(1, 1, i, 100);
            group[1].receive(0, 1, i, 100);
        }
        while (group[1].done < 4)
            group[1].progress(0);
        group[1].close();
        EXPECT_TRUE(group[0].until([&] { return group[0].departed.size() == 1; }));
        group[0].check();
    }
}

TEST(InprocShuffle, ComesBeforeTheFirstRank) {
    Group group(kInproc, 2);
    EXPECT_EQ(gcoll_inproc_shuffle(group.hub(), 1), GCOLL_ERR_STATE);
}

TEST(InprocFault, RanksAreChecked) {
    Group group(kInproc, 2);
    EXPECT_EQ(gcoll_inproc_kill(group.hub(), 2), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_inproc_stall(group.hub(), 2, true), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_inproc_partition(group.hub(), 0, 2, true), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_inproc_drop(group.hub(), 2, 0, 0), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_inproc_corrupt(group.hub(), 0, 2, 0, 0, 0), GCOLL_ERR_INVALID);
}

TEST(InprocFault, AKilledRankFailsForItsPeersAndFallsSilent) {
    for (uint64_t seed = 0; seed < 12; seed++) {
        Group group(kInproc, 4, [&](gcoll_hub *hub) {
            if (seed)
                gcoll_inproc_shuffle(hub, seed);
        });
        group.connect(0, 1);
        group.connect(2, 0);
        for (uint32_t peer = 1; peer < 3; peer++) {
            group[0].send(peer, 1, 0, 2000000);
            group[0].receive(peer, 1, 0, 500);
            group[peer].send(0, 1, 0, 500);
            group[peer].receive(0, 1, 0, 2000000);
        }
        for (uint64_t i = 0; i < seed; i++)
            for (uint32_t r = 0; r < 4; r++)
                group[r].progress(0);
        EXPECT_EQ(gcoll_inproc_kill(group.hub(), 0), GCOLL_OK);
        size_t done = group[0].done;
        EXPECT_TRUE(group.turn([&] { return group[1].failed.size() == 1 && group[2].failed.size() == 1; }));
        for (uint32_t peer = 1; peer < 3; peer++) {
            EXPECT_EQ(group[peer].failed[0].peer, 0u);
            EXPECT_EQ(group[peer].failed[0].status, GCOLL_ERR_PEER);
            EXPECT_EQ(group[peer].failed[0].text, "closed the connection");
            group[peer].messages.clear(); // ours again
        }
        group.connect(3, 0);
        EXPECT_TRUE(group.turn([&] { return group[3].failed.size() == 1; }));
        EXPECT_EQ(group[3].failed[0].text, "refused the connection");
        group[0].send(1, 2, 0, 10);
        EXPECT_FALSE(group[0].progress(100));
        EXPECT_EQ(group[0].done, done);
        group[0].close();
        for (uint32_t peer = 1; peer < 4; peer++) {
            group[peer].progress(0);
            EXPECT_EQ(group[peer].failed.size(), 1u);
            EXPECT_TRUE(group[peer].departed.empty());
        }
    }
}

TEST(InprocFault, KillingAtAnyMomentLeavesNobodyWithADeadMessage) {
    for (uint64_t round = 0; round < 20; round++) {
        Group group(kInproc, 3);
        auto traffic = random_traffic(3, 16, round);
        std::atomic<bool> started{false};
        std::thread killer([&] {
            while (!started)
                std::this_thread::yield();
            gcoll_inproc_kill(group.hub(), 0);
        });
        group.each([&](Rank &rank) {
            group.connect(rank);
            if (rank.rank == round % 3)
                started = true;
            post_traffic(rank, traffic, round, true);
            if (rank.rank == 0) {
                for (int i = 0; i < 20; i++)
                    rank.progress(100);
                rank.close();
                rank.messages.clear();
                return;
            }
            // Two of three pairs break (or end, if rank 0 is killed too late); the third does its work.
            EXPECT_TRUE(rank.until([&] {
                size_t done = 0;
                for (auto &message : rank.messages)
                    done += message->dones && message->peer != 0;
                return done == 32 && rank.failed.size() + rank.departed.size() == 1;
            }));
            auto with_dead = [](const std::unique_ptr<Message> &message) { return message->peer == 0; };
            rank.messages.erase(std::remove_if(rank.messages.begin(), rank.messages.end(), with_dead),
                                rank.messages.end());
            rank.check();
            rank.progress(0);
            EXPECT_EQ(rank.failed.size() + rank.departed.size(), 1u);
        });
        killer.join();
    }
}

TEST(InprocFault, AStalledRankAnswersNothingUntilItGoesOn) {
    Group group(kInproc, 2);
    group.connect(0, 1);
    EXPECT_EQ(gcoll_inproc_stall(group.hub(), 1, true), GCOLL_OK);
    kInproc->probe(group[0].endpoint, 1);
    group[0].send(1, 1, 0, 8);
    group[1].receive(0, 1, 0, 8);
    for (int i = 0; i < 10; i++) {
        EXPECT_FALSE(group[0].progress(0));
        EXPECT_FALSE(group[1].progress(1000));
    }
    EXPECT_EQ(gcoll_inproc_stall(group.hub(), 1, false), GCOLL_OK);
    EXPECT_TRUE(group.turn_until_done());
    EXPECT_TRUE(group.turn([&] { return group[0].answered.size() == 1; }));
    group[1].check();
}

TEST(InprocFault, NothingCrossesACutUntilItIsMended) {
    Group group(kInproc, 3);
    for (uint32_t r = 0; r < 3; r++)
        group.connect(group[r]);
    EXPECT_EQ(gcoll_inproc_partition(group.hub(), 1, 0, true), GCOLL_OK);
    for (uint32_t r = 0; r < 3; r++)
        for (uint32_t peer = 0; peer < 3; peer++) {
            if (peer == r)
                continue;
            group[r].send(peer, 1, 0, 100, true);
            group[r].receive(peer, 1, 0, 100);
        }
    kInproc->probe(group[0].endpoint, 1);
    EXPECT_TRUE(group.turn([&] { return group[2].done == 4 && group[0].done == 2 && group[1].done == 2; }));
    for (int i = 0; i < 10; i++)
        for (uint32_t r = 0; r < 3; r++)
            EXPECT_FALSE(group[r].progress(100));
    EXPECT_TRUE(group[0].answered.empty());
    EXPECT_EQ(gcoll_inproc_partition(group.hub(), 0, 1, false), GCOLL_OK);
    EXPECT_TRUE(group.turn_until_done());
    EXPECT_TRUE(group.turn([&] { return group[0].answered.size() == 1; }));
    for (uint32_t r = 0; r < 3; r++)
        group[r].check();
}

TEST(InprocFault, ADroppedMessageIsDoneForItsSenderOnly) {
    Group group(kInproc, 2);
    EXPECT_EQ(gcoll_inproc_drop(group.hub(), 0, 1, 1), GCOLL_OK);
    group.connect(0, 1);
    for (uint32_t i = 0; i < 3; i++) {
        group[0].send(1, i, 0, 100, true);
        group[1].receive(0, i, 0, 100);
        group[1].send(0, i, 0, 100);
        group[0].receive(1, i, 0, 100);
    }
    EXPECT_TRUE(group.turn([&] { return group[0].done == 6 && group[1].done == 5; }));
    for (int i = 0; i < 10; i++)
        EXPECT_FALSE(group[1].progress(0));
    EXPECT_EQ(group[1].opened.size(), 2u);
    for (auto &message : group[1].messages)
        EXPECT_EQ(message->dones, message->is_send || message->m.stream != 1 ? 1 : 0);
}

TEST(InprocFault, ACorruptedMessageDiffersInOneByte) {
    for (uint32_t granule : {0u, 1u, 8u, 12u})
        for (uint64_t byte : {0u, 1023u, 1024u, 2999u}) {
            Group group(kInproc, 2);
            EXPECT_EQ(gcoll_inproc_corrupt(group.hub(), 0, 1, 5, 1, byte), GCOLL_OK);
            group.connect(0, 1);
            for (uint32_t i = 0; i < 3; i++)
                group[0].send(1, 5, i, 3000);
            for (uint32_t i = 0; i < 3; i++)
                group[1].receive(0, 5, i, 3000, granule);
            EXPECT_TRUE(group.turn_until_done());
            group[0].check(); // the sender's memory stays as it is
            group[1].messages[1]->bytes[byte] ^= 1;
            group[1].check();
        }
}

TEST(InprocFault, CorruptsTheFirstThatIsLongEnough) {
    Group group(kInproc, 2);
    EXPECT_EQ(gcoll_inproc_corrupt(group.hub(), 0, 1, GCOLL_INPROC_ANY_STREAM, 0, 50), GCOLL_OK);
    group.connect(0, 1);
    const uint64_t sizes[] = {0, 50, 51, 100};
    for (uint32_t i = 0; i < 4; i++) {
        group[1].receive(0, i, 0, sizes[i]);
        group[0].send(1, i, 0, sizes[i]);
        EXPECT_TRUE(group.turn_until_done());
    }
    group[1].messages[2]->bytes[50] ^= 1;
    group[1].check();
}

} // namespace
