// test/transport/transport_test.cc - what transport.h promises, held against every transport.
#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <unistd.h>

#include "test/transport/transport_harness.h"

using namespace harness;

namespace {

constexpr uint64_t kMiB = 1 << 20;

class Transport : public testing::TestWithParam<const gcoll_transport *> {};

TEST_P(Transport, AddressIsOneWordOfText) {
    Group group(GetParam(), 2);
    std::set<std::string> seen;
    for (uint32_t r = 0; r < group.size(); r++) {
        const std::string &text = group.address(r);
        EXPECT_FALSE(text.empty());
        EXPECT_LT(text.size(), static_cast<size_t>(GCOLL_ADDRESS_MAX));
        for (char c : text)
            EXPECT_TRUE(c > ' ' && c < 127) << text;
        EXPECT_TRUE(seen.insert(text).second) << text;
    }
}

TEST_P(Transport, AddressOfOneByteIsRefused) {
    Group group(GetParam(), 1);
    char text[1] = {'x'};
    EXPECT_EQ(GetParam()->address(group[0].endpoint, text, sizeof text), GCOLL_ERR_INVALID);
    EXPECT_EQ(text[0], 'x');
}

TEST_P(Transport, NoAddressAtAllIsRefused) {
    Group group(GetParam(), 2);
    std::string longest(2 * GCOLL_ADDRESS_MAX, ':');
    for (const char *text : {"", "nonsense", "::::::", "tcp", "inproc:1:2", "\xff\xfe\x01", longest.c_str()})
        EXPECT_NE(GetParam()->connect(group[0].endpoint, 1, text), GCOLL_OK) << text;
    group.connect(0, 1); // the pair is none the worse
    group[0].send(1, 1, 0, 8);
    group[1].receive(0, 1, 0, 8);
    EXPECT_TRUE(group.turn_until_done());
    group[1].check();
}

TEST_P(Transport, EverySizeArrivesWhetherItIsAwaitedOrNot) {
    const uint64_t sizes[] = {0, 1, 4, 100, 4095, 4096, 4097, 65537, 2 * kMiB + 3};
    constexpr uint32_t ranks = 3;
    for (bool late : {false, true}) {
        Group group(GetParam(), ranks);
        group.each([&](Rank &rank) {
            group.connect(rank);
            for (int half = 0; half < 2; half++) {
                uint32_t index = 0;
                for (uint64_t bytes : sizes) {
                    for (uint32_t peer = 0; peer < ranks; peer++) {
                        if (peer == rank.rank)
                            continue;
                        if (late == (half == 0))
                            rank.send(peer, 7, index, bytes);
                        else
                            rank.receive(peer, 7, index, bytes);
                    }
                    index++;
                }
                for (int i = 0; i < 10; i++)
                    rank.progress(0);
            }
            EXPECT_TRUE(rank.until_done());
            rank.check();
        });
    }
}

TEST_P(Transport, RandomTrafficArrivesExactlyOnce) {
    for (uint32_t ranks = 2; ranks <= 5; ranks++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            Group group(GetParam(), ranks);
            auto traffic = random_traffic(ranks, 16, seed);
            group.each([&](Rank &rank) {
                bool early = (seed + rank.rank) % 2;
                if (early)
                    group.connect(rank);
                rank.tries_now = seed >= 2 || rank.rank == 0;
                post_traffic(rank, traffic, seed, seed != 3);
                if (!early)
                    group.connect(rank);
                EXPECT_TRUE(rank.until_done()) << rank.done << " of " << rank.messages.size();
            });
            for (int i = 0; i < 20; i++) // nothing comes twice
                for (uint32_t r = 0; r < ranks; r++)
                    EXPECT_FALSE(group[r].progress(0));
            for (uint32_t r = 0; r < ranks; r++)
                group[r].check();
        }
}

TEST_P(Transport, OneThreadDrivesAllRanks) {
    Group group(GetParam(), 4);
    auto traffic = random_traffic(4, 16, 99);
    for (uint32_t r = 0; r < 4; r++) {
        group.connect(group[r]);
        post_traffic(group[r], traffic, 5, true);
    }
    EXPECT_TRUE(group.turn_until_done());
    for (uint32_t r = 0; r < 4; r++)
        group[r].check();
}

TEST_P(Transport, OneSideConnects) {
    Group group(GetParam(), 2);
    group.connect(1, 0);
    group.connect(1, 0);
    group[0].send(1, 1, 0, 100);
    group[0].receive(1, 1, 0, 100);
    group[1].send(0, 1, 0, 100);
    group[1].receive(0, 1, 0, 100);
    EXPECT_TRUE(group.turn_until_done());
    group.connect(0, 1); // it has connected to us already: nothing happens
    group[0].send(1, 1, 1, 100);
    group[1].receive(0, 1, 1, 100);
    EXPECT_TRUE(group.turn_until_done());
    group[0].check();
    group[1].check();
}

// Within the calls of one thread, message by message: what is said of them, in order, and which of them did.
TEST_P(Transport, MessagesThatMoveWithinTheCallAreWhole) {
    Group group(GetParam(), 2);
    meet(group);
    group[0].tries_now = group[1].tries_now = true;
    std::vector<std::string> said;
    group[1].log = [&](const std::string &text) { said.push_back(text); };
    std::vector<std::string> wanted;
    uint32_t index = 0;
    for (uint64_t bytes : {0u, 1u, 4u, 64u, 1000u, 4096u, 16384u, 16385u, 100000u})
        for (uint32_t granule : {0u, 1u}) {
            group[0].send(1, 9, index, bytes, true);
            group[1].receive(0, 9, index, bytes, granule);
            ASSERT_TRUE(group.turn_until_done());
            wanted.push_back("1 opened 0 9 " + std::to_string(static_cast<uint8_t>(9 + index)));
            wanted.push_back("1 received 0 9 " + std::to_string(index++));
        }
    said.erase(std::remove_if(said.begin(), said.end(),
                              [](const std::string &text) { return text.find("consumes") == 2; }),
               said.end());
    EXPECT_EQ(said, wanted);
    group[0].check();
    group[1].check();
}

// Far more than a pool holds, of all sizes, by one rank that receives in order and one that is behind.
TEST_P(Transport, MessagesThatMoveWithinTheCallKeepToFlowControl) {
    constexpr uint32_t kMessages = 600, kBehind = 300;
    const auto bytes = [](uint32_t i) { return i % 7 == 0 ? 70000u : i % 3 == 0 ? 9000u : 8u; };
    Group group(GetParam(), 2);
    meet(group);
    group.each([&](Rank &rank) {
        const uint32_t peer = 1 - rank.rank, behind = rank.rank == 0 ? 0 : kBehind;
        rank.tries_now = true;
        for (uint32_t i = 0; i < kMessages + behind; i++) {
            if (i < kMessages)
                rank.send(peer, 3, i, bytes(i), i % 2);
            if (i >= behind)
                rank.receive(peer, 3, i - behind, bytes(i - behind), i % 2);
            if (i % 16 == 0)
                rank.progress(0);
        }
        EXPECT_TRUE(rank.until_done()) << rank.done << " of " << rank.messages.size();
        rank.check();
    });
}

// Far more than a transport may buffer, awaited in the reverse order, both ways at once.
TEST_P(Transport, UnawaitedMessagesWaitWithoutDeadlock) {
    constexpr uint32_t kMessages = 40;
    Group group(GetParam(), 2);
    group.each([&](Rank &rank) {
        uint32_t peer = 1 - rank.rank;
        group.connect(rank);
        for (uint32_t i = 0; i < kMessages; i++)
            rank.send(peer, 1, i, (i % 2) ? 100000 : 3000);
        for (int i = 0; i < 50; i++)
            rank.progress(100);
        for (uint32_t i = kMessages; i-- > 0;) {
            rank.receive(peer, 1, i, (i % 2) ? 100000 : 3000, (i % 3) ? 4 : 0);
            rank.progress(0);
        }
        EXPECT_TRUE(rank.until_done());
        rank.check();
    });
}

TEST_P(Transport, DoneMayPost) {
    constexpr uint32_t kRanks = 3, kLaps = 200;
    Group group(GetParam(), kRanks);
    group.each([&](Rank &rank) {
        uint32_t left = (rank.rank + kRanks - 1) % kRanks, right = (rank.rank + 1) % kRanks;
        std::function<void(Message &)> pass_on = [&](Message &received) {
            uint32_t lap = received.m.index;
            if (lap + 1 < kLaps)
                rank.receive(left, 1, lap + 1, 40, lap % 2 ? 8 : 0).then = pass_on;
            if (rank.rank != 0)
                rank.send(right, 1, lap, 40);
            else if (lap + 1 < kLaps)
                rank.send(right, 1, lap + 1, 40);
        };
        group.connect(rank);
        rank.receive(left, 1, 0, 40).then = pass_on;
        if (rank.rank == 0)
            rank.send(right, 1, 0, 40);
        EXPECT_TRUE(rank.until([&] { return rank.done == 2 * kLaps; })) << rank.done;
        rank.check();
    });
}

TEST_P(Transport, FingerprintComesAheadOfReceives) {
    Group group(GetParam(), 2);
    const uint64_t sizes[] = {0, 8, kMiB};
    group.connect(0, 1);
    for (uint32_t i = 0; i < 3; i++)
        group[0].send(1, 100 + i, i, sizes[i], true);
    group[0].send(1, 100, 7, 16, false);
    EXPECT_TRUE(group.turn([&] { return group[1].opened.size() == 3; }));
    EXPECT_EQ(group[1].done, 0u);
    for (uint32_t i = 0; i < 3; i++)
        group[1].receive(0, 100 + i, i, sizes[i]);
    group[1].receive(0, 100, 7, 16);
    EXPECT_TRUE(group.turn_until_done());
    group[1].check();
    ASSERT_EQ(group[1].opened.size(), 3u); // once a message, and none for those without
    std::set<uint64_t> streams;
    for (const Opened &opened : group[1].opened) {
        EXPECT_EQ(opened.peer, 0u);
        ASSERT_TRUE(opened.stream >= 100 && opened.stream < 103);
        EXPECT_TRUE(streams.insert(opened.stream).second);
        auto index = static_cast<uint32_t>(opened.stream - 100);
        for (uint32_t k = 0; k < GCOLL_FINGERPRINT_BYTES; k++)
            EXPECT_EQ(opened.fingerprint[k], static_cast<uint8_t>(opened.stream + index + k));
    }
    EXPECT_TRUE(group[0].opened.empty());
}

TEST_P(Transport, FingerprintComesBeforeItsMessageIsDone) {
    Group group(GetParam(), 2);
    std::vector<std::string> log;
    group[1].log = [&](const std::string &line) { log.push_back(line); };
    for (uint32_t i = 0; i < 20; i++)
        group[1].receive(0, i, 0, i * 10007);
    group.connect(1, 0);
    for (uint32_t i = 0; i < 20; i++)
        group[0].send(1, i, 0, i * 10007, true);
    EXPECT_TRUE(group.turn_until_done());
    for (uint32_t i = 0; i < 20; i++) {
        auto position = [&](const std::string &start) {
            return std::find_if(log.begin(), log.end(),
                                [&](const std::string &line) { return line.rfind(start, 0) == 0; });
        };
        auto opened = position("1 opened 0 " + std::to_string(i) + " ");
        auto received = position("1 received 0 " + std::to_string(i) + " ");
        ASSERT_NE(received, log.end());
        EXPECT_LT(opened, received);
    }
}

// What was posted after the message that carries it: small or large, and whichever receive is posted first.
TEST_P(Transport, FingerprintComesBeforeLaterMessagesAreDone) {
    const uint64_t sizes[] = {16, kMiB};
    for (uint64_t first : sizes)
        for (uint64_t second : sizes) {
            SCOPED_TRACE(std::to_string(first) + ", then " + std::to_string(second));
            Group group(GetParam(), 2);
            Message &later = group[1].receive(0, 5, 0, second); // may be granted ahead
            bool came = false;
            later.then = [&](Message &) { came = !group[1].opened.empty(); };
            group.connect(1, 0);
            group[0].send(1, 5, 1, first, true);
            group[0].send(1, 5, 0, second);
            Message &opening = group[1].receive(0, 5, 1, first);
            EXPECT_TRUE(group.turn_until_done());
            group[1].check();
            EXPECT_TRUE(came);
            EXPECT_TRUE(opening.m.opened);
            EXPECT_FALSE(later.m.opened);
        }
}

// So many messages wait that no more may be offered: then fingerprints travel in frames of their own. Each
// comes once, and is known to belong to its message; large and small ones, and such as were granted before
// they are sent.
TEST_P(Transport, FingerprintsComeOnceBeyondTheLimitOfOffers) {
    constexpr uint32_t kMost = 65536, kIdle = 5000; // offers on a pair; small messages that use up all credit
    Group group(GetParam(), 2);
    std::vector<uint8_t> bytes(kMiB);
    std::vector<gcoll_message> waiting(kMost + kIdle);
    const auto wait = [&](uint32_t index, uint64_t size) {
        waiting[index] = {};
        waiting[index].stream = 4;
        waiting[index].index = index;
        waiting[index].bytes = size;
        waiting[index].data = bytes.data();
        waiting[index].done = [](gcoll_message *) {};
        GetParam()->post_send(group[0].endpoint, 1, &waiting[index]);
    };
    const auto grants_arrive = [&] { group.turn([i = 0]() mutable { return i++ == 50; }); };
    group.connect(0, 1);
    group[0].send(1, 3, 0, 8);
    group[1].receive(0, 3, 0, 8);
    EXPECT_TRUE(group.turn_until_done());
    for (uint32_t i = 0; i < kMost; i++)
        wait(i, kMiB);
    uint64_t stream = 5;
    for (uint64_t size : {kMiB, uint64_t(4)}) {
        for (uint32_t i = 0; i < kIdle && size < kMiB; i++)
            wait(kMost + i, 0);
        for (bool granted : {false, true}) {
            SCOPED_TRACE(std::to_string(size) + (granted ? " bytes, granted" : " bytes"));
            const size_t told = group[1].opened.size();
            Message *opening = granted ? &group[1].receive(0, stream, 0, size) : nullptr;
            grants_arrive();
            group[0].send(1, stream, 0, size, true);
            group[0].send(1, stream, 1, size);
            EXPECT_TRUE(group.turn([&] { return group[1].opened.size() == told + 1; }));
            Message &later = group[1].receive(0, stream, 1, size);
            EXPECT_TRUE(group.turn([&] { return later.dones == 1; }));
            EXPECT_FALSE(later.m.opened);
            opening = granted ? opening : &group[1].receive(0, stream, 0, size);
            EXPECT_TRUE(group.turn([&] { return opening->dones == 1; }));
            EXPECT_TRUE(opening->m.opened);
            EXPECT_EQ(group[1].opened.size(), told + 1);
            stream++;
        }
    }
    group.each([](Rank &rank) { rank.close(); }); // before the memory goes
}

// Two ranks, of which rank 0 has used up its offers to rank 1, but for `spare`: so many messages wait for
// receives. Then all messages of zero bytes that there is credit for wait, too.
class Flooded : public Group {
  public:
    static constexpr uint32_t kMost = 65536, kSmall = 5000;
    static constexpr uint64_t kLarge = 150000;

    explicit Flooded(const gcoll_transport *transport, uint32_t spare = 0, bool uses_credit = false)
        : Group(transport, 2), transport_(transport), bytes_(kLarge), sink_(kLarge),
          waiting_(kMost - spare + (uses_credit ? kSmall : 0)), received_(kMost) {
        connect(0, 1);
        (*this)[0].send(1, kMeeting, 0, 8);
        (*this)[1].receive(0, kMeeting, 0, 8);
        EXPECT_TRUE(turn_until_done());
        for (uint32_t i = 0; i < waiting_.size(); i++)
            transport->post_send((*this)[0].endpoint, 1,
                                 prepare(waiting_[i], i, i < kMost - spare ? kLarge : 0, bytes_));
    }
    ~Flooded() {
        each([](Rank &rank) { rank.close(); }); // before the memory goes
    }
    // Receives more of the large messages, the oldest first: as many offers end.
    bool end_offers(uint32_t count) {
        const uint32_t from = ended_;
        for (; ended_ < from + count; ended_++)
            transport_->post_recv((*this)[1].endpoint, 0, prepare(received_[ended_], ended_, kLarge, sink_));
        return turn([this] { return arrived_ == 2 * ended_; });
    }

  private:
    static constexpr uint64_t kMeeting = 2, kStream = 4;

    gcoll_message *prepare(gcoll_message &message, uint32_t index, uint64_t size,
                           std::vector<uint8_t> &data) {
        message = {};
        message.stream = kStream;
        message.index = index;
        message.bytes = size;
        message.data = data.data();
        message.owner = this;
        message.done = [](gcoll_message *m) { static_cast<Flooded *>(m->owner)->arrived_ += m->bytes > 0; };
        return &message;
    }

    const gcoll_transport *transport_;
    std::vector<uint8_t> bytes_, sink_;
    std::vector<gcoll_message> waiting_, received_;
    uint32_t ended_ = 0, arrived_ = 0;
};

// They are told of one by one as earlier offers end, in the order of posting: large ones and such as wait for
// credit, with fingerprint and without.
TEST_P(Transport, MessagesAreToldOfInOrderBeyondTheLimitOfOffers) {
    constexpr uint32_t kUntold = 10;
    const bool has_limit = std::strcmp(GetParam()->name, "inproc") != 0;
    Flooded group(GetParam(), 0, true);
    const auto size_of = [](uint32_t i) { return i % 3 == 1 ? 40 + i : Flooded::kLarge + i; };
    const auto is_seen = [&](uint32_t i) {
        uint64_t bytes = 0;
        const bool found = GetParam()->peek(group[1].endpoint, 0, 100, i, &bytes);
        EXPECT_EQ(bytes, found ? size_of(i) : 0);
        return found;
    };
    const auto seen = [&] {
        uint32_t count = 0;
        while (count < kUntold && is_seen(count))
            count++;
        return count;
    };
    for (uint32_t i = 0; i < kUntold; i++)
        group[0].send(1, 100, i, size_of(i), i % 2 == 0, true);
    for (uint32_t ended = 0; ended <= kUntold; ended++) {
        SCOPED_TRACE(ended);
        ASSERT_TRUE(group.turn([&] { return seen() >= ended; }));
        group.turn([i = 0]() mutable { return i++ == 50; });
        for (uint32_t i = ended; i < kUntold && has_limit; i++)
            EXPECT_FALSE(is_seen(i)) << i;
        ASSERT_TRUE(group.end_offers(1));
    }
    std::vector<const Message *> received;
    for (uint32_t i = kUntold; i-- > 0;)
        received.push_back(&group[1].receive(0, 100, i, size_of(i), i % 4 == 0 ? 1 : 0));
    ASSERT_TRUE(group.turn_until_done());
    group[1].check();
    for (const Message *message : received)
        EXPECT_EQ(message->m.opened, message->m.index % 2 == 0) << message->m.index;
    EXPECT_EQ(group[1].opened.size(), kUntold / 2);
    EXPECT_TRUE(group[0].failed.empty() && group[1].failed.empty());
}

// A receive that is posted brings a message without any offer; then the next ones are told of.
TEST_P(Transport, GrantsComeBeforeOffersBeyondTheLimitOfOffers) {
    constexpr uint32_t kUntold = 12;
    Flooded group(GetParam(), 0, true);
    const auto size_of = [](uint32_t i) { return i % 4 < 2 ? Flooded::kLarge : 40; };
    const auto is_seen = [&](uint32_t i) {
        uint64_t bytes = 0;
        return GetParam()->peek(group[1].endpoint, 0, 100, i, &bytes);
    };
    for (uint32_t i = 0; i < kUntold; i++)
        group[0].send(1, 100, i, size_of(i), i % 2 == 0, true);
    for (uint32_t i : {4u, 0u, 11u, 3u, 1u, 2u, 10u, 9u}) { // of all kinds: in the middle, first and last
        group[1].receive(0, 100, i, size_of(i));
        ASSERT_TRUE(group.turn([&] { return group[1].done == group[1].messages.size(); })) << i;
    }
    for (uint32_t i : {5u, 6u, 7u, 8u}) {
        ASSERT_TRUE(group.end_offers(1));
        ASSERT_TRUE(group.turn([&] { return is_seen(i); })) << i;
    }
    ASSERT_TRUE(group.end_offers(3));
    for (uint32_t i : {5u, 6u, 7u, 8u})
        group[1].receive(0, 100, i, size_of(i));
    // Large ones that are under way while an offer ends. The first of these have offers again.
    constexpr uint32_t kOffers = 7, kParts = 8;
    for (uint32_t i = 0; i < kOffers + kParts; i++)
        group[0].send(1, 200, i, kMiB, i % 2 == 0);
    for (uint32_t i = kOffers; i < kOffers + kParts; i++) {
        group[1].receive(0, 200, i, kMiB, 4);
        ASSERT_TRUE(group.end_offers(1));
    }
    for (uint32_t i = 0; i < kOffers; i++)
        group[1].receive(0, 200, i, kMiB, 4);
    ASSERT_TRUE(group.turn_until_done());
    group[1].check();
    EXPECT_EQ(group[1].opened.size(), kUntold / 2 + (kOffers + kParts + 1) / 2);
    EXPECT_TRUE(group[0].failed.empty() && group[1].failed.empty());
}

// A receive of any size gets its message, however large, though no offer ends. With credit the receiver has
// no other reason to grant a small receive.
TEST_P(Transport, AnySizeIsReceivedBeyondTheLimitOfOffers) {
    const uint64_t sizes[] = {0, 40, 5000, Flooded::kLarge, 2 * Flooded::kLarge};
    for (bool uses_credit : {false, true}) {
        Flooded group(GetParam(), 0, uses_credit);
        const auto turns = [&] { group.turn([i = 0]() mutable { return i++ == 20; }); };
        uint32_t index = 0;
        for (uint64_t sent : sizes)
            for (uint64_t room : sizes)
                for (bool is_early : {false, true}) {
                    SCOPED_TRACE(std::to_string(sent) + " bytes, room for " + std::to_string(room) +
                                 (is_early ? ", early" : "") + (uses_credit ? "" : ", with credit"));
                    Message *receive = is_early ? &group[1].receive_any_size(0, 100, index, room) : nullptr;
                    turns();
                    group[0].send(1, 100, index, sent, index % 3 == 0, true);
                    turns();
                    receive = is_early ? receive : &group[1].receive_any_size(0, 100, index, room);
                    ASSERT_TRUE(group.turn_until_done());
                    EXPECT_EQ(receive->m.bytes, sent);
                    EXPECT_EQ(receive->m.opened, index % 3 == 0);
                    for (uint64_t i = 0; i < room; i += 97)
                        ASSERT_EQ(receive->bytes[i],
                                  sent <= room && i < sent ? pattern(0, 1, 100, index, i) : kUnwritten);
                    index++;
                }
        ASSERT_TRUE(group.end_offers(2));
        EXPECT_TRUE(group[0].failed.empty() && group[1].failed.empty());
    }
}

// Both ranks post in any order, while only a few offers of rank 0 can be open.
TEST_P(Transport, RandomTrafficArrivesBeyondTheLimitOfOffers) {
    for (uint32_t spare : {0u, 2u}) {
        SCOPED_TRACE("spare " + std::to_string(spare));
        std::mt19937_64 random(spare + 1);
        Flooded group(GetParam(), spare, true);
        for (uint64_t seed = 0; seed < 3; seed++) {
            auto traffic = random_traffic(2, 48, 10 * spare + seed);
            for (Traffic &each : traffic)
                each.stream += (seed + 1) << 40;
            std::shuffle(traffic.begin(), traffic.end(), random);
            size_t opens = group[1].opened.size();
            std::vector<Traffic> later;
            for (const Traffic &t : traffic) { // sends run ahead of some receives and behind others
                const bool send_first = random() % 2;
                opens += t.to == 1 && t.open;
                for (bool sends : {send_first, !send_first}) {
                    if (sends)
                        group[t.from].send(t.to, t.stream, t.index, t.bytes, t.open, random() % 2);
                    else if (random() % 3 == 0)
                        group[t.to].receive(t.from, t.stream, t.index, t.bytes, t.granule);
                    else
                        later.push_back(t);
                    if (random() % 4 == 0)
                        group[random() % 2].progress(0);
                }
                if (random() % 8 == 0)
                    ASSERT_TRUE(group.end_offers(1));
            }
            std::shuffle(later.begin(), later.end(), random);
            for (const Traffic &t : later) {
                group[t.to].receive(t.from, t.stream, t.index, t.bytes, t.granule);
                if (random() % 4 == 0)
                    group[random() % 2].progress(0);
            }
            ASSERT_TRUE(group.turn_until_done()) << group[0].done << " and " << group[1].done;
            EXPECT_EQ(group[1].opened.size(), opens);
        }
        for (uint32_t r = 0; r < 2; r++) {
            group[r].check();
            for (const Failed &failed : group[r].failed)
                ADD_FAILURE() << failed.text;
        }
    }
}

// What was not told of is dropped like any other message, whoever ends it.
TEST_P(Transport, AbortDropsMessagesBeyondTheLimitOfOffers) {
    for (bool peer_leaves : {false, true}) {
        Flooded group(GetParam(), 0, true);
        for (uint32_t i = 0; i < 20; i++)
            group[0].send(1, 100, i, i % 2 ? 40 : Flooded::kLarge, i % 3 == 0, true);
        group.turn([i = 0]() mutable { return i++ == 20; });
        if (peer_leaves) {
            group[1].close();
            EXPECT_TRUE(group.turn([&] { return !group[0].departed.empty(); }));
        } else {
            const gcoll_note note = note_of(GCOLL_ERR_TIMEOUT, 0, "enough");
            GetParam()->abort(group[0].endpoint, &note, 1000);
        }
        group[0].messages.clear(); // no byte of theirs is touched from now on: the sanitizer watches
        const size_t done = group[0].done;
        group.turn([i = 0]() mutable { return i++ == 20; });
        EXPECT_EQ(group[0].done, done);
    }
}

TEST_P(Transport, ProgressWaitsUpToItsLimit) {
    for (int64_t spin_us : {0, 5000, 1000000}) {
        Group group(GetParam(), 2);
        GetParam()->set_spin(group[0].endpoint, spin_us);
        group[0].progress(0);
        auto start = Clock::now();
        EXPECT_FALSE(group[0].progress(20000));
        auto took = Clock::now() - start;
        EXPECT_GE(took, std::chrono::milliseconds(19));
        EXPECT_LT(took, std::chrono::seconds(5));
    }
}

TEST_P(Transport, WakeEndsAWait) {
    for (int64_t spin_us : {0, 10000000}) {
        Group group(GetParam(), 2);
        GetParam()->set_spin(group[0].endpoint, spin_us);
        std::atomic<bool> returned{false};
        std::thread waiter([&] {
            group[0].progress(15000000);
            returned = true;
        });
        auto start = Clock::now();
        while (!returned) {
            GetParam()->wake(group[0].endpoint);
            std::this_thread::yield();
        }
        waiter.join();
        EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
    }
}

// Whether the kernel says that this thread of ours sleeps.
bool sleeps(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string text;
    std::getline(file, text);
    const size_t name_end = text.rfind(')');
    return name_end != std::string::npos && text.compare(name_end, 3, ") S") == 0;
}

// A wake that comes before the wait is kept by a flag; this one finds the waiter asleep.
TEST_P(Transport, OneWakeEndsAWaitThatSleeps) {
    Group group(GetParam(), 2);
    GetParam()->set_spin(group[0].endpoint, 0);
    std::atomic<pid_t> thread{0};
    std::thread waiter([&] {
        thread = gettid();
        group[0].progress(15000000);
    });
    for (int seen = 0; seen < 100; seen = thread != 0 && sleeps(thread) ? seen + 1 : 0)
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    auto start = Clock::now();
    GetParam()->wake(group[0].endpoint);
    waiter.join();
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
}

// Each waits far longer than all of it may take: one wake-up that is lost fails it.
TEST_P(Transport, AMessageEndsAWait) {
    constexpr uint32_t kRounds = 200;
    Group group(GetParam(), 2);
    group.connect(0, 1);
    auto start = Clock::now();
    group.each([&](Rank &rank) {
        for (uint32_t i = 0; i < kRounds; i++) {
            rank.receive(1 - rank.rank, 1, i, 8);
            if (rank.rank == i % 2)
                rank.send(1 - rank.rank, 2, i, 8);
            else
                rank.receive(1 - rank.rank, 2, i, 8);
            rank.send(1 - rank.rank, 1, i, 8);
            while (rank.done < rank.messages.size() && Clock::now() - start < kPatience)
                rank.progress(15000000);
        }
        rank.check();
    });
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
}

TEST_P(Transport, ClosingDepartsFromAllConnectedAfterTheLastMessage) {
    Group group(GetParam(), 4);
    group.each([&](Rank &rank) {
        if (rank.rank == 0) {
            for (uint32_t peer = 1; peer < 4; peer++) {
                if (peer < 3)
                    group.connect(0, peer);
                if (peer < 3)
                    rank.send(peer, 1, 0, 300000);
            }
            EXPECT_TRUE(rank.until_done());
            rank.close();
            return;
        }
        if (rank.rank == 3) // never connected: hears nothing
            return;
        rank.receive(0, 1, 0, 300000);
        rank.receive(0, 1, 1, 10); // never sent
        EXPECT_TRUE(rank.until([&] { return !rank.departed.empty(); }));
        EXPECT_EQ(rank.done, 1u);
        rank.messages.pop_back(); // the second is ours again
        rank.check();
    });
    for (uint32_t r = 1; r < 4; r++) {
        group[r].progress(0);
        EXPECT_EQ(group[r].departed.size(), r < 3 ? 1u : 0u);
        EXPECT_TRUE(group[r].failed.empty());
    }
    group[1].send(0, 2, 0, 10); // on a broken pair nothing happens
    group[1].receive(0, 2, 0, 10);
    for (int i = 0; i < 10; i++)
        EXPECT_FALSE(group[1].progress(0));
}

TEST_P(Transport, AbortTellsAllConnectedAndDropsEverything) {
    constexpr uint32_t kRanks = 4;
    Group group(GetParam(), kRanks);
    const gcoll_note note = note_of(GCOLL_ERR_TIMEOUT, 2, "step 3 of ring waited 1000 ms");
    for (uint32_t r = 0; r < kRanks; r++)
        group.connect(group[r]);
    for (uint32_t peer = 1; peer < kRanks; peer++) { // all pairs of rank 0 are up before the storm
        group[0].send(peer, 9, 0, 8);
        group[peer].receive(0, 9, 0, 8);
    }
    ASSERT_TRUE(group.turn_until_done());
    auto traffic = random_traffic(kRanks, 16, 7);
    group.each([&](Rank &rank) {
        post_traffic(rank, traffic, 3, true);
        if (rank.rank == 0) {
            for (uint32_t peer = 1; peer < kRanks; peer++)
                rank.send(peer, 1000, 0, 3 * kMiB);
            for (int i = 0; i < 5; i++)
                rank.progress(0);
            GetParam()->abort(rank.endpoint, &note, 1000);
            rank.messages.clear(); // no byte of theirs is touched from now on: the sanitizer watches
            size_t done = rank.done;
            for (int i = 0; i < 50; i++)
                rank.progress(100);
            EXPECT_EQ(rank.done, done);
            return;
        }
        auto from_0 = [](const Aborted &aborted) { return aborted.from == 0; };
        EXPECT_TRUE(
            rank.until([&] { return std::count_if(rank.aborted.begin(), rank.aborted.end(), from_0) == 1; }));
        for (const Aborted &aborted : rank.aborted) { // others may have been faster to pass it on
            EXPECT_EQ(aborted.note.status, note.status);
            EXPECT_EQ(aborted.note.culprit, note.culprit);
            EXPECT_EQ(aborted.note.passed_on, aborted.from != 0);
            EXPECT_STREQ(aborted.note.text, note.text);
        }
        gcoll_note passed_on = note;
        passed_on.passed_on = true;
        GetParam()->abort(rank.endpoint, &passed_on, 1000); // as contexts do when they hear of it
        rank.messages.clear();
    });
}

TEST_P(Transport, ProbeIsAnsweredByProgressOnly) {
    Group group(GetParam(), 2);
    group.connect(0, 1);
    group[0].send(1, 1, 0, 8);
    group[1].receive(0, 1, 0, 8);
    ASSERT_TRUE(group.turn_until_done());
    GetParam()->set_position(group[1].endpoint, UINT64_C(0x1234567890ABCDEF));
    GetParam()->set_position(group[0].endpoint, 5);
    GetParam()->probe(group[0].endpoint, 1);
    for (int i = 0; i < 20; i++)
        group[0].progress(1000);
    EXPECT_TRUE(group[0].answered.empty());
    EXPECT_TRUE(group.turn([&] { return !group[0].answered.empty(); }));
    EXPECT_EQ(group[0].answered[0].peer, 1u);
    EXPECT_EQ(group[0].answered[0].position, UINT64_C(0x1234567890ABCDEF));
    EXPECT_TRUE(group[1].answered.empty());
    GetParam()->set_position(group[1].endpoint, 6);
    GetParam()->probe(group[0].endpoint, 1);
    EXPECT_TRUE(group.turn([&] { return group[0].answered.size() == 2; }));
    EXPECT_EQ(group[0].answered[1].position, 6u);
}

// What long waits go by: anything that comes is heard, and data that moves is counted, and told.
TEST_P(Transport, WhatMovesIsCountedAndTold) {
    const gcoll_transport *transport = GetParam();
    Group group(transport, 2);
    group.connect(0, 1);
    group[0].send(1, 1, 0, 8);
    group[1].receive(0, 1, 0, 8);
    ASSERT_TRUE(group.turn_until_done());
    gcoll_sight before, after;
    transport->look(group[1].endpoint, 0, &before);
    uint32_t moves = transport->moves(group[1].endpoint);
    transport->probe(group[1].endpoint, 0); // an answer is heard, and moves nothing
    ASSERT_TRUE(group.turn([&] { return group[1].answered.size() == 1; }));
    transport->look(group[1].endpoint, 0, &after);
    EXPECT_GT(after.heard, before.heard);
    EXPECT_EQ(after.mute_ms, 0);
    EXPECT_EQ(group[1].answered[0].answer.news_of, UINT32_MAX);
    if (std::strcmp(transport->name, "ibverbs") != 0) // which may have credit on its way
        EXPECT_EQ(transport->moves(group[1].endpoint), moves);
    group[0].send(1, 1, 1, 100000);
    group[1].receive(0, 1, 1, 100000);
    ASSERT_TRUE(group.turn_until_done());
    EXPECT_NE(transport->moves(group[1].endpoint), moves);
    transport->set_news(group[0].endpoint, 0, 12345);
    transport->probe(group[1].endpoint, 0);
    ASSERT_TRUE(group.turn([&] { return group[1].answered.size() == 2; }));
    EXPECT_NE(group[1].answered[1].answer.moves, group[1].answered[0].answer.moves);
    EXPECT_EQ(group[1].answered[1].answer.news_of, 0u);
    EXPECT_EQ(group[1].answered[1].answer.news, 12345u);
}

TEST_P(Transport, SizesThatDifferBreakThePairAtTheReceiver) {
    for (uint64_t bytes : {UINT64_C(12), 2 * kMiB})
        for (bool shorter : {false, true})
            for (bool early : {false, true}) {
                Group group(GetParam(), 2);
                uint64_t expected = shorter ? bytes / 2 : bytes * 2;
                group.connect(0, 1);
                if (early)
                    group[1].receive(0, 1, 0, expected);
                group.turn([&, i = 0]() mutable { return i++ == 20; });
                group[0].send(1, 1, 0, bytes);
                group.turn([&, i = 0]() mutable { return i++ == 20; });
                if (!early)
                    group[1].receive(0, 1, 0, expected);
                ASSERT_TRUE(group.turn([&] { return group[1].failed.size() == 1; }));
                EXPECT_EQ(group[1].failed[0].status, GCOLL_ERR_MISMATCH) << group[1].failed[0].text;
                EXPECT_NE(group[1].failed[0].text.find(std::to_string(bytes)), std::string::npos)
                    << group[1].failed[0].text;
                EXPECT_NE(group[1].failed[0].text.find(std::to_string(expected)), std::string::npos)
                    << group[1].failed[0].text;
                EXPECT_EQ(group[1].done, 0u);
                group[0].send(1, 2, 0, 8, true); // nothing more happens on this pair
                group[1].receive(0, 2, 0, 8);
                for (int i = 0; i < 20; i++) {
                    group[0].progress(0);
                    EXPECT_FALSE(group[1].progress(0));
                }
                EXPECT_TRUE(group[1].opened.empty());
                // The sender is told why by the abort that follows.
                gcoll_note note = note_of(GCOLL_ERR_MISMATCH, 0, "sizes");
                GetParam()->abort(group[1].endpoint, &note, 1000);
                EXPECT_TRUE(group.turn([&] { return !group[0].aborted.empty(); }));
                EXPECT_STREQ(group[0].aborted.at(0).note.text, "sizes");
                EXPECT_TRUE(group[0].failed.empty());
            }
}

// Receives of any size in a random order of posts and progress: a message that fits is there with its size
// and nothing beyond it, a larger one is dropped and told, every send is done, and the pair goes on.
TEST_P(Transport, ReceivesOfAnySizeTakeWhatFitsAndDropTheRest) {
    const std::vector<uint64_t> sizes = {0,    1,     7,     64,    65,    100,   1000,   2000,
                                         8191, 16385, 65471, 65472, 65473, 65537, 262144, 262145};
    struct Post {
        bool is_send;
        uint32_t number;
    };
    for (uint64_t seed = 1; seed <= 6; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937_64 random(seed);
        Group group(GetParam(), 2);
        constexpr uint32_t kMessages = 32;
        std::vector<uint64_t> sent(kMessages), room(kMessages);
        std::vector<Post> posts;
        std::vector<const Message *> receives(kMessages);
        for (uint32_t i = 0; i < kMessages; i++) {
            sent[i] = sizes[random() % sizes.size()];
            switch (random() % 4) {
            case 0:
                room[i] = sent[i];
                break;
            case 1:
                room[i] = sent[i] + 1 + random() % 3 * 30000;
                break;
            case 2:
                room[i] = sent[i] - std::min<uint64_t>(sent[i], 1);
                break;
            default:
                room[i] = sizes[random() % sizes.size()];
                break;
            }
            posts.push_back({true, i});
            posts.push_back({false, i});
        }
        std::shuffle(posts.begin(), posts.end(), random);
        if (seed % 3 > 0)
            group.connect(0, 1);
        for (const Post &post : posts) {
            const uint64_t stream = 3 + post.number / 8;
            if (post.is_send)
                group[0].send(1, stream, post.number % 8, sent[post.number], false, random() % 2);
            else
                receives[post.number] =
                    &group[1].receive_any_size(0, stream, post.number % 8, room[post.number]);
            for (uint64_t turns = seed % 4 ? random() % 4 : 0; turns > 0; turns--)
                group[random() % 2].progress(0);
        }
        if (seed % 3 == 0)
            group.connect(1, 0);
        ASSERT_TRUE(group.turn_until_done());
        for (uint32_t i = 0; i < kMessages; i++) {
            const Message &message = *receives[i];
            ASSERT_EQ(message.m.bytes, sent[i]) << i;
            const uint64_t got = sent[i] <= room[i] ? sent[i] : 0;
            const uint8_t *found = message.bytes.data();
            uint64_t right = right_pattern(found, 0, 1, message.m.stream, message.m.index, got);
            while (right >= got && right < room[i] && found[right] == kUnwritten)
                right++;
            ASSERT_EQ(right, room[i]) << "message " << i << " of " << sent[i];
        }
        EXPECT_TRUE(group[0].failed.empty() && group[1].failed.empty());
        for (uint64_t bytes : sizes) { // sizes that agree, as collectives have them
            group[1].receive(0, 1000, static_cast<uint32_t>(bytes), bytes);
            group[0].send(1, 1000, static_cast<uint32_t>(bytes), bytes);
            ASSERT_TRUE(group.turn_until_done());
            EXPECT_EQ(group[1].messages.back()->bytes, group[0].messages.back()->bytes);
        }
    }
}

TEST_P(Transport, ClosesWithMessagesPosted) {
    Group group(GetParam(), 3);
    auto traffic = random_traffic(3, 12, 11);
    group.each([&](Rank &rank) {
        group.connect(rank);
        post_traffic(rank, traffic, 1, true);
        rank.send(1, 5000, 0, 2 * kMiB);
        for (uint32_t i = 0; i < 3 * rank.rank; i++)
            rank.progress(0);
        rank.close();
        rank.messages.clear();
    });
}

TEST_P(Transport, PeekSeesWhatNoReceiveWaitsFor) {
    for (uint64_t bytes : {uint64_t{0}, uint64_t{100}, uint64_t{200000}, 2 * kMiB}) {
        Group group(GetParam(), 2);
        auto seen = [&](uint64_t stream, uint32_t index) {
            uint64_t size = ~UINT64_C(0);
            bool is_there = GetParam()->peek(group[1].endpoint, 0, stream, index, &size);
            EXPECT_EQ(size, is_there ? bytes : ~UINT64_C(0));
            return is_there;
        };
        group.connect(0, 1);
        EXPECT_FALSE(seen(5, 3));
        group[0].send(1, 5, 3, bytes);
        EXPECT_TRUE(group.turn([&] { return seen(5, 3); })) << bytes;
        EXPECT_FALSE(seen(5, 2));
        EXPECT_FALSE(seen(4, 3));
        group[1].receive(0, 5, 3, bytes);
        EXPECT_FALSE(seen(5, 3)) << "a receive has it";
        EXPECT_TRUE(group.turn_until_done());
        EXPECT_FALSE(seen(5, 3));
        group[1].check();
    }
}

// Whoever has looked for a message in vain does not sleep on when it comes.
TEST_P(Transport, PeekInVainWakesProgress) {
    for (uint64_t bytes : {uint64_t{8}, 2 * kMiB}) {
        Group group(GetParam(), 2);
        std::atomic<bool> seen{false};
        group.connect(0, 1);
        group[0].send(1, 1, 0, 1);
        group[1].receive(0, 1, 0, 1);
        EXPECT_TRUE(group.turn_until_done());
        group.each([&](Rank &rank) {
            if (rank.rank == 0) {
                rank.send(1, 2, 0, bytes);
                EXPECT_TRUE(rank.until([&] { return seen.load(); }));
                return;
            }
            auto begun = Clock::now();
            uint64_t size;
            while (!GetParam()->peek(rank.endpoint, 0, 2, 0, &size) && Clock::now() - begun < kPatience)
                EXPECT_TRUE(rank.progress(2 * 20 * 1000000)) << "slept to the end";
            EXPECT_LT(Clock::now() - begun, kPatience);
            seen = true;
        });
        group[1].receive(0, 2, 0, bytes);
        EXPECT_TRUE(group.turn_until_done());
        group[1].check();
    }
}

// A message that the peer is told of is seen though others before it have used up all that may go unasked.
TEST_P(Transport, PeekSeesPastAFullPool) {
    Group group(GetParam(), 2);
    group.connect(0, 1);
    for (uint32_t i = 0; i < 500; i++)
        group[0].send(1, 1, i, 1000);
    Message &last = group[0].send(1, 2, 0, 10, false, true);
    uint64_t size = 0;
    EXPECT_TRUE(group.turn([&] { return GetParam()->peek(group[1].endpoint, 0, 2, 0, &size); }));
    EXPECT_EQ(size, 10u);
    EXPECT_EQ(last.dones, 0) << "the pool was not full";
    group[1].receive(0, 2, 0, 10);
    EXPECT_TRUE(group.turn([&] { return last.dones == 1; }));
    for (uint32_t i = 0; i < 500; i++)
        group[1].receive(0, 1, i, 1000);
    EXPECT_TRUE(group.turn_until_done());
    group[1].check();
}

INSTANTIATE_TEST_SUITE_P(All, Transport,
                         testing::ValuesIn(transports_to_test("inproc,tcp,tcp_connections_3,shm")),
                         [](const testing::TestParamInfo<const gcoll_transport *> &named) {
                             return std::string(named.param->name);
                         });

} // namespace
