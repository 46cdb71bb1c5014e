// test/transport/branch_test.cc - endpoints that share the connections of another: the whole contract of
// transports (transport_test.cc), held against them, and what peers may say of groups.
#include <sys/wait.h>

#include <map>
#include <mutex>

#include "test/kit/allocations.h"
#include "test/transport/raw_peer.h"

extern "C" {
#include "transport/session/branch.h"
}

using namespace raw_peer;

namespace {

// Trunks that are not closed yet, by the endpoint that a test knows. A test may use several threads.
std::mutex trunks_lock;
std::map<gcoll_endpoint *, gcoll_endpoint *> trunks;

// Opens a trunk of the same ranks, and an endpoint that shares its connections.
gcoll_status open_branch_of(const gcoll_transport *over, const gcoll_endpoint_options *options,
                            const gcoll_events *events, gcoll_endpoint **endpoint) {
    const gcoll_events none = {};
    gcoll_endpoint *trunk = nullptr;
    const gcoll_status status = over->open(options, &none, &trunk);
    if (status != GCOLL_OK)
        return status;
    kTcp->set_spin(trunk, options->spin_us);
    const gcoll_status shared = open_shared(kTcp->shared, trunk, options, events, endpoint);
    if (shared != GCOLL_OK) {
        kTcp->close(trunk, 0);
        return shared;
    }
    std::lock_guard<std::mutex> lock(trunks_lock);
    trunks[*endpoint] = trunk;
    return GCOLL_OK;
}

gcoll_endpoint *take_trunk(gcoll_endpoint *endpoint) {
    std::lock_guard<std::mutex> lock(trunks_lock);
    gcoll_endpoint *trunk = trunks[endpoint];
    trunks.erase(endpoint);
    return trunk;
}

// The end of the connection then is that of the endpoint.
void close_branch(gcoll_endpoint *endpoint, int64_t limit_ms) {
    kTcp->close(take_trunk(endpoint), limit_ms);
    kTcp->shared->close(endpoint, limit_ms);
}

void abandon_branch(gcoll_endpoint *endpoint) {
    gcoll_endpoint *trunk = take_trunk(endpoint);
    kTcp->abandon(trunk);
    kTcp->shared->abandon(endpoint);
}

// The same of a trunk that is closed at once.
gcoll_status open_orphan_of(const gcoll_transport *over, const gcoll_endpoint_options *options,
                            const gcoll_events *events, gcoll_endpoint **endpoint) {
    const gcoll_status status = open_branch_of(over, options, events, endpoint);
    if (status != GCOLL_OK)
        return status;
    kTcp->close(take_trunk(*endpoint), 1000);
    return GCOLL_OK;
}

gcoll_status open_branch(const gcoll_endpoint_options *options, const gcoll_events *events,
                         gcoll_endpoint **endpoint) {
    return open_branch_of(kTcp, options, events, endpoint);
}

gcoll_status open_orphan(const gcoll_endpoint_options *options, const gcoll_events *events,
                         gcoll_endpoint **endpoint) {
    return open_orphan_of(kTcp, options, events, endpoint);
}

// Of trunks with several connections to each peer.
gcoll_status open_striped_branch(const gcoll_endpoint_options *options, const gcoll_events *events,
                                 gcoll_endpoint **endpoint) {
    return open_branch_of(striped(), options, events, endpoint);
}

gcoll_status open_striped_orphan(const gcoll_endpoint_options *options, const gcoll_events *events,
                                 gcoll_endpoint **endpoint) {
    return open_orphan_of(striped(), options, events, endpoint);
}

using Open = gcoll_status (*)(const gcoll_endpoint_options *, const gcoll_events *, gcoll_endpoint **);

gcoll_transport make(const char *name, Open open, bool is_orphan) {
    gcoll_transport transport = *kTcp->shared;
    transport.name = name;
    transport.open = open;
    if (!is_orphan) {
        transport.close = close_branch;
        transport.abandon = abandon_branch;
    }
    return transport;
}

const gcoll_transport branch_transport = make("branch", open_branch, false),
                      orphan_transport = make("orphan", open_orphan, true),
                      striped_branch = make("striped_branch", open_striped_branch, false),
                      striped_orphan = make("striped_orphan", open_striped_orphan, true);
const int tests_branches = setenv("GCOLL_TEST_TRANSPORTS", "branch,orphan,striped_branch,striped_orphan", 0);

// ---- A peer that speaks of groups -------------------------------------------------------------------------

// A rank with a group, and a peer that it welcomes.
struct GroupStage : Stage {
    GroupStage() : own(rank, small_options_of(0, 2)), branch(own.rank) {}
    Branch own;
    Rank &branch;
};

void garbage(const std::string &name, const std::vector<Bytes> &said) {
    SCOPED_TRACE(name);
    GroupStage stage;
    auto peer = stage.peer();
    for (const Bytes &bytes : said)
        peer->say(bytes);
    ASSERT_TRUE(stage.rank.until([&] { return !stage.rank.failed.empty(); }));
    EXPECT_EQ(stage.rank.failed[0].status, GCOLL_ERR_PROTOCOL);
    EXPECT_EQ(stage.rank.failed[0].text.find("sent garbage ("), 0u) << stage.rank.failed[0].text;
    ASSERT_EQ(stage.branch.failed.size(), 1u) << "all that share the connection are told";
    EXPECT_EQ(stage.branch.failed[0].text, stage.rank.failed[0].text);
}

TEST(Branch, GarbageIsCalledSo) {
    garbage("a group twice", {frame(kGroup, kNumber), frame(kGroup, kNumber)});
    garbage("a word of a lane", {grouped(kNumber, frame(kLane, 0, 1))});
    garbage("a witness", {grouped(kNumber, frame(kWitness, 1, 1))});
    garbage("a probe of no group", {grouped(0, frame(kPing))});
    garbage("a message of no group", {grouped(0, frame(kData | kCredited, 1, 0))});
    garbage("a group after goodbye", {frame(kGoodbye), frame(kGroup, kNumber)});
    garbage("too large for credit", {grouped(kNumber, frame(kData | kCredited, 1, 0, kEager + 1, 1))});
    garbage("not granted", {grouped(kNumber, frame(kData, 1, 0, 100, 100))});
    garbage("credit that was never used", {grouped(kNumber, frame(kCredit, 0, 0, 0, 0, 1))});
    garbage("a grant twice", {grouped(kNumber, frame(kGrant, 1, 0)), grouped(kNumber, frame(kGrant, 1, 0))});
    garbage("credit in a group's own frame", {frame(kGroup, kNumber, 0, 0, 0, 5)});
    garbage("a payload in a group's own frame", {frame(kGroup, kNumber, 0, 0, 4)});
}

// Messages of the same stream and index belong to the group, to the trunk, or to a group that was left.
TEST(Branch, EachFrameIsOfItsGroup) {
    GroupStage stage;
    stage.rank.receive(1, 1, 0, 10);
    stage.branch.receive(1, 1, 0, 20);
    auto peer = stage.peer();
    const Bytes own = frame(kData | kCredited, 1, 0, 10, 10) + Bytes(10, 'a');
    const Bytes of_group = frame(kData | kCredited, 1, 0, 20, 20) + Bytes(20, 'b');
    const Bytes unknown = frame(kData | kCredited, 1, 0, 5000, 3000) + Bytes(3000, 'c');
    for (uint64_t number : {uint64_t(77), kNumber + 1, UINT64_MAX})
        for (const Bytes &said : {unknown, frame(kPing), frame(kGrant, 1, 0), frame(kOffer, 1, 0, 9999),
                                  frame(kCredit, 0, 0, 0, 0, 99), frame(kGoodbye), unknown})
            peer->say(grouped(number, said));
    peer->say(grouped(kNumber, of_group) + own);
    ASSERT_TRUE(stage.rank.until([&] { return stage.rank.done + stage.branch.done == 2; }));
    EXPECT_EQ(stage.rank.messages[0]->bytes, Bytes(10, 'a'));
    EXPECT_EQ(stage.branch.messages[0]->bytes, Bytes(20, 'b'));
    EXPECT_TRUE(stage.rank.failed.empty() && stage.branch.failed.empty());
    EXPECT_TRUE(stage.rank.departed.empty() && stage.branch.departed.empty());
}

TEST(Branch, AGoodbyeIsOfOneAlone) {
    {
        GroupStage stage;
        auto peer = stage.peer();
        peer->say(grouped(kNumber, frame(kGoodbye)));
        ASSERT_TRUE(stage.rank.until([&] { return !stage.branch.departed.empty(); }));
        EXPECT_TRUE(stage.rank.departed.empty());
        stage.rank.receive(1, 1, 0, 10); // the trunk goes on
        peer->say(frame(kData | kCredited, 1, 0, 10, 10) + Bytes(10, 'x'));
        ASSERT_TRUE(stage.rank.until_done());
    }
    {
        GroupStage stage;
        auto peer = stage.peer();
        peer->say(grouped(0, frame(kGoodbye)));
        ASSERT_TRUE(stage.rank.until([&] { return !stage.rank.departed.empty(); }));
        EXPECT_TRUE(stage.branch.departed.empty());
        stage.branch.receive(1, 1, 0, 10);
        peer->say(grouped(kNumber, frame(kData | kCredited, 1, 0, 10, 10) + Bytes(10, 'x')));
        ASSERT_TRUE(stage.rank.until([&] { return stage.branch.done == 1; }));
        peer->say(frame(kGoodbye));
        peer->shut();
        ASSERT_TRUE(stage.rank.until([&] { return !stage.branch.departed.empty(); }));
        EXPECT_EQ(stage.rank.departed.size(), 1u);
    }
}

TEST(Branch, AMismatchIsOfOneAlone) {
    GroupStage stage;
    stage.rank.receive(1, 1, 0, 10);
    stage.branch.receive(1, 1, 0, 20);
    auto peer = stage.peer();
    peer->say(grouped(kNumber, frame(kData | kCredited, 1, 0, 21, 21) + Bytes(21, 'x')));
    ASSERT_TRUE(stage.rank.until([&] { return !stage.branch.failed.empty(); }));
    EXPECT_EQ(stage.branch.failed[0].status, GCOLL_ERR_MISMATCH);
    EXPECT_EQ(stage.branch.failed[0].text, "sent 21 bytes where 20 were expected");
    peer->say(grouped(kNumber, frame(kData | kCredited, 1, 1, 21, 21) + Bytes(21, 'x')));
    peer->say(frame(kData | kCredited, 1, 0, 10, 10) + Bytes(10, 'x'));
    ASSERT_TRUE(stage.rank.until_done());
    EXPECT_TRUE(stage.rank.failed.empty());
    EXPECT_EQ(stage.branch.failed.size(), 1u);
    EXPECT_EQ(stage.branch.messages[0]->bytes, Bytes(20, kUnwritten));
}

// What a rank remembers of groups that it does not know: nothing. Of a group that it has, and in which it has
// posted nothing yet: what the pool holds, and no more.
TEST(Branch, FramesBeforeTheirReceivesAreBounded) {
    GroupStage stage;
    auto peer = stage.peer();
    const gcoll_net *net = gcoll_net_of(stage.rank.endpoint);
    const Bytes early = frame(kData | kCredited, 1, 0, kEager, kEager) + Bytes(kEager, 'x');
    for (uint64_t number = 1; number <= 200; number++)
        peer->say(grouped(number, early));
    peer->say(grouped(kNumber, early));
    ASSERT_TRUE(stage.rank.until([&] {
        uint64_t bytes = 0;
        return stage.branch.transport->peek(stage.branch.endpoint, 1, 1, 0, &bytes) && bytes == kEager;
    }));
    const gcoll_channel *const channel = net->sessions[1]->channels;
    ASSERT_TRUE(channel);
    EXPECT_EQ(channel->next, nullptr) << "200 numbers that no group has";
    EXPECT_EQ(net->sessions[1]->flow.held, 0u);
    Bytes many;
    for (uint32_t index = 1; index < 100; index++)
        many =
            many + grouped(kNumber, frame(kData | kCredited, 1, index, kEager, kEager) + Bytes(kEager, 'x'));
    peer->say(many);
    ASSERT_TRUE(stage.rank.until([&] { return !stage.rank.failed.empty(); }));
    EXPECT_EQ(stage.rank.failed[0].status, GCOLL_ERR_PROTOCOL);
    EXPECT_EQ(channel->flow.used,
              kPool / (kEager + GCOLL_FLOW_OVERHEAD_BYTES) * (kEager + GCOLL_FLOW_OVERHEAD_BYTES));
}

// ---- A peer that reads nothing ----------------------------------------------------------------------------

constexpr uint64_t kStuck = 64 << 20; // more than the kernel takes

gcoll_session *session_of(const Rank &rank) {
    return gcoll_net_of(rank.endpoint)->sessions[1];
}

// Sends a message of which the kernel takes a part, as the peer does not read it. Whatever this rank says
// afterwards waits behind it.
void get_stuck(Rank &trunk, Rank &from, Raw &peer, gcoll_message &message) {
    const size_t before = peer.heard().size();
    const Bytes grant = frame(kGrant, 7, 0);
    message.stream = 7;
    message.bytes = kStuck;
    message.done = [](gcoll_message *) {};
    from.transport->post_send(from.endpoint, 1, &message);
    ASSERT_TRUE(trunk.until([&] { return peer.heard().size() > before; })) << "it is offered";
    peer.say(&from == &trunk ? grant : grouped(kNumber, grant));
    const gcoll_session_output &out = session_of(trunk)->output;
    uint64_t written = 0;
    int times = 0;
    ASSERT_TRUE(trunk.until([&] {
        times = out.cut.payload_bytes > 0 && out.written == written ? times + 1 : 0;
        written = out.written;
        return times > 10;
    }));
}

// The child has no copy of the buffers, and frees the messages of an endpoint once it has abandoned it.
// stuck: 0: the trunk; 1: the group; 2: neither.
void abandon_in_child(bool trunk_first, int stuck) {
    SCOPED_TRACE(std::to_string(trunk_first) + " " + std::to_string(stuck));
    const Pages buffer(kStuck), of_trunk(4096), of_group(4096);
    const Pages *const pages[] = {&of_trunk, &of_group};
    GroupStage stage;
    Rank *const both[] = {&stage.rank, &stage.branch};
    auto peer = stage.peer();
    const auto say = [&](int which, uint32_t index) {
        gcoll_message &message = pages[which]->messages()[1 + index];
        message.index = index;
        message.bytes = 10;
        message.data = buffer.at;
        message.done = [](gcoll_message *) {};
        both[which]->transport->post_send(both[which]->endpoint, 1, &message);
    };
    if (stuck < 2) {
        pages[stuck]->messages()[0].data = buffer.at;
        get_stuck(stage.rank, *both[stuck], *peer, pages[stuck]->messages()[0]);
    }
    for (uint32_t index : {0, 1})
        for (int which : {0, 1}) {
            say(which, index);
            if (index == 0)
                kTcp->flush(stage.rank.endpoint);
        }
    const gcoll_net *net = gcoll_net_of(stage.rank.endpoint);
    ASSERT_TRUE(net->sessions[1]->output.messages.first) << "messages wait to be sent";
    ASSERT_EQ(net->completed.first != nullptr, stuck == 2) << "and others to be told of";
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        buffer.take_away();
        for (int which : {trunk_first ? 0 : 1, trunk_first ? 1 : 0}) {
            both[which]->transport->abandon(both[which]->endpoint);
            pages[which]->take_away();
        }
        _exit(testing::Test::HasFailure());
    }
    int ended = 0;
    ASSERT_EQ(waitpid(child, &ended, 0), child);
    EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0) << "the child ended with " << ended;
    peer->shut();
}

TEST(Branch, AForkedChildTouchesNoMessage) {
    for (bool trunk_first : {true, false})
        for (int stuck : {0, 1, 2})
            abandon_in_child(trunk_first, stuck);
}

// Nobody has told the peer that this rank left the group, if they had not met then.
TEST(Branch, AProbeOfAGroupThatWasLeftIsAnsweredByAGoodbye) {
    const std::vector<uint8_t> bytes(kStuck);
    gcoll_message stuck = {};
    stuck.data = const_cast<uint8_t *>(bytes.data());
    GroupStage stage;
    auto peer = stage.peer();
    const Bytes goodbye = grouped(77, frame(kGoodbye));
    peer->say(grouped(77, frame(kPing)));
    ASSERT_TRUE(stage.rank.until([&] { return peer->heard().size() >= kAnswerBytes + goodbye.size(); }));
    EXPECT_EQ(Bytes(peer->heard().begin() + kAnswerBytes, peer->heard().end()), goodbye);
    // Answers that the peer does not read take no more memory than others.
    get_stuck(stage.rank, stage.rank, *peer, stuck);
    Bytes many;
    for (int i = 0; i < 500; i++)
        many = std::move(many) + grouped(77, frame(kPing));
    stage.rank.receive(1, 1, 0, 10);
    std::thread speaker([&] { peer->say(many + frame(kData | kCredited, 1, 0, 10, 10) + Bytes(10, 'x')); });
    EXPECT_TRUE(stage.rank.until_done());
    speaker.join();
    EXPECT_LT(gcoll_bytes_left(&session_of(stage.rank)->output.control), 10000u);
    EXPECT_TRUE(stage.rank.failed.empty());
    peer->shut();
}

// What it was granted comes while its goodbye waits.
TEST(Branch, AClosedOneHearsNoMore) {
    const std::vector<uint8_t> bytes(kStuck);
    gcoll_message stuck = {};
    stuck.data = const_cast<uint8_t *>(bytes.data());
    GroupStage stage;
    auto peer = stage.peer();
    stage.branch.receive(1, 1, 0, 5000);
    const size_t before = peer->heard().size();
    peer->say(grouped(kNumber, frame(kOffer, 1, 0, 5000)));
    ASSERT_TRUE(stage.rank.until([&] { return peer->heard().size() > before; })) << "it is granted";
    get_stuck(stage.rank, stage.rank, *peer, stuck);
    peer->say(grouped(kNumber, frame(kData, 1, 0, 5000, 5000) + Bytes(5000, 'x')));
    stage.branch.close();
    stage.rank.receive(1, 1, 0, 10);
    peer->say(frame(kData | kCredited, 1, 0, 10, 10) + Bytes(10, 'x'));
    ASSERT_TRUE(stage.rank.until_done());
    EXPECT_TRUE(stage.rank.failed.empty()) << stage.rank.failed[0].text;
    peer->shut();
}

TEST(Branch, APeerOfOthersDelaysNoGroup) {
    const std::vector<uint8_t> bytes(kStuck);
    gcoll_message stuck = {};
    stuck.data = const_cast<uint8_t *>(bytes.data());
    Stage stage(small_options_of(0, 3));
    auto peer = stage.peer();
    get_stuck(stage.rank, stage.rank, *peer, stuck);
    int times = 0; // the kernel may have taken a little more meanwhile
    ASSERT_TRUE(stage.rank.until([&] {
        kTcp->probe(stage.rank.endpoint, 1);
        times = gcoll_bytes_left(&session_of(stage.rank)->output.control) > 0 ? times + 1 : 0;
        return times > 300;
    }));
    const uint32_t members[] = {0, 2};
    const gcoll_events none = {};
    gcoll_endpoint_options options = small_options_of(0, 2);
    options.trunk = stage.rank.endpoint;
    options.members = members;
    gcoll_endpoint *group = nullptr;
    ASSERT_EQ(kTcp->shared->open(&options, &none, &group), GCOLL_OK);
    const gcoll_note note = note_of(GCOLL_ERR_ABORTED, 0, "enough");
    const auto begun = Clock::now();
    kTcp->shared->abort(group, &note, 10000);
    EXPECT_LT(Clock::now() - begun, std::chrono::seconds(5));
    kTcp->shared->close(group, 1000);
    peer->shut();
}

// Else the next frame, the abort of the trunk, would be taken for one of the group.
TEST(Branch, WithoutMemoryForAFrameItsGroupIsNotNamed) {
    GroupStage stage;
    auto peer = stage.peer();
    const auto probe = [&] {
        kTcp->shared->probe(stage.branch.endpoint, 1);
        kTcp->flush(stage.rank.endpoint);
    };
    const size_t first = kAnswerBytes + grouped(kNumber, frame(kPing)).size();
    probe();
    ASSERT_TRUE(stage.rank.until([&] { return peer->heard().size() == first; }));
    session_of(stage.rank)->output.control.capacity = frame(kGroup).size(); // of 4096 bytes
    gcoll_test::allocations_left = 1;
    probe();
    gcoll_test::allocations_left = 0;
    ASSERT_TRUE(stage.rank.until([&] { return !stage.rank.failed.empty(); }));
    EXPECT_EQ(stage.rank.failed[0].status, GCOLL_ERR_NO_MEMORY);
    const gcoll_note note = note_of(GCOLL_ERR_NO_MEMORY, 0, "no memory");
    kTcp->abort(stage.rank.endpoint, &note, 1000);
    ASSERT_GT(peer->heard().size(), first + frame(kAbort).size());
    EXPECT_EQ(peer->heard()[first + 3], kAbort);
}

TEST(Branch, AWitnessIsHeardByThoseWhoDoubt) {
    GroupStage stage;
    auto peer = stage.peer();
    const Bytes witness = frame(kWitness, 5, 1, 1);
    peer->say(witness);
    ASSERT_TRUE(stage.rank.until([&] { return !stage.rank.witnessed.empty(); }));
    EXPECT_TRUE(stage.branch.witnessed.empty());
    kTcp->shared->set_doubt(stage.branch.endpoint, 1);
    peer->say(witness);
    ASSERT_TRUE(stage.rank.until([&] { return !stage.branch.witnessed.empty(); }));
    EXPECT_EQ(stage.branch.witnessed[0].about, 1u);
    EXPECT_EQ(stage.branch.witnessed[0].ago_ms, 5);
}

TEST(Branch, OneNumberIsOfOneGroup) {
    GroupStage stage;
    const gcoll_endpoint_options options = small_options_of(0, 2);
    const gcoll_events none = {};
    gcoll_endpoint *second = nullptr;
    EXPECT_EQ(open_shared(kTcp->shared, stage.rank.endpoint, &options, &none, &second), GCOLL_ERR_PROTOCOL);
    EXPECT_EQ(second, nullptr);
    stage.branch.close();
    ASSERT_EQ(open_shared(kTcp->shared, stage.rank.endpoint, &options, &none, &second), GCOLL_OK);
    kTcp->shared->close(second, 1000);
}

// A group ends while the kernel has a part of a frame of its, and others wait behind. The frame is
// finished from a copy, nothing of the group comes after its last word, and the trunk goes on.
TEST(Branch, AGroupThatEndsAmidItsMessages) {
    for (bool aborts : {true, false}) {
        SCOPED_TRACE(aborts);
        GroupStage stage;
        auto peer = stage.peer();
        const size_t begin = peer->heard().size();
        for (uint32_t i = 0; i < 3; i++)
            stage.branch.send(1, 5, i, 16 << 20);
        for (auto &message : stage.branch.messages)
            std::fill(message->bytes.begin(), message->bytes.end(), uint8_t{1});
        peer->say(grouped(kNumber, frame(kGrant, 5, 0)) + grouped(kNumber, frame(kGrant, 5, 1)) +
                  grouped(kNumber, frame(kGrant, 5, 2)));
        const gcoll_session_output *const out = &gcoll_net_of(stage.rank.endpoint)->sessions[1]->output;
        ASSERT_TRUE(stage.rank.until([&] { return out->cut.payload_bytes > 0 && out->messages.first; }));
        const gcoll_note note = note_of(GCOLL_ERR_ABORTED, 0, "enough");
        if (aborts)
            stage.branch.transport->abort(stage.branch.endpoint, &note, 100);
        else
            stage.branch.close();
        stage.branch.messages.clear();
        stage.rank.send(1, 7, 0, 100);
        bool is_over = false, is_through = false, is_of_group = false;
        size_t at = begin;
        ASSERT_TRUE(stage.rank.until([&] {
            const Bytes &heard = peer->heard();
            while (!is_through && at + 32 <= heard.size()) {
                const uint8_t kind = heard[at + 3] & 15;
                const uint64_t payload = get(heard, at + 24, 4);
                if (at + 32 + payload > heard.size())
                    break;
                EXPECT_EQ(get(heard, at, 2), 0x6763u);
                if (is_of_group) {
                    EXPECT_FALSE(is_over) << "kind " << int(kind);
                    is_over = kind == kAbort || kind == kGoodbye;
                    if (kind == kData)
                        for (uint64_t i = 0; i < payload; i += 4093)
                            EXPECT_NE(heard[at + 32 + i], 0) << i;
                } else if (kind == kData) {
                    is_through = get(heard, at + 8, 8) == 7;
                }
                is_of_group = kind == kGroup;
                at += 32 + payload;
            }
            return is_through;
        }));
        EXPECT_TRUE(is_over);
        EXPECT_TRUE(stage.rank.failed.empty());
    }
}

// Whatever a peer says, nothing worse than a failure follows.
TEST(Branch, RandomFramesDoNoHarm) {
    std::mt19937_64 random(8);
    for (int i = 0; i < 150; i++) {
        GroupStage stage;
        Rank *const both[] = {&stage.rank, &stage.branch};
        for (uint32_t k = 0; k < 4; k++)
            for (Rank *each : both) {
                each->receive(1, 0, k, random() % 2000, random() % 2 ? 1 : 0);
                each->send(1, 0, k, random() % 5000, true);
            }
        auto peer = stage.peer();
        for (int k = 0; k < 60; k++) {
            uint64_t total = random() % 3 ? random() % 2000 : random() >> (random() % 64);
            auto fragment =
                static_cast<uint32_t>(random() % 3 ? std::min<uint64_t>(total, 2000) : random() % 500);
            uint8_t kind = static_cast<uint8_t>(random() % 4 ? kData | kCredited : 1 + random() % 9);
            bool plain = (kind & 15) != kData;
            Bytes bytes =
                frame(kind, random() % 2, static_cast<uint32_t>(random() % 8), total, plain ? 0 : fragment,
                      random() % 8 ? 0 : static_cast<uint32_t>(random() % 200));
            if (!plain)
                bytes = bytes + Bytes(fragment, 'x');
            if (random() % 2)
                bytes = grouped(random() % 8 ? kNumber : random() % 3, bytes);
            peer->say(bytes);
            if (random() % 4 == 0)
                both[stage.branch.endpoint ? random() % 2 : 0]->progress(0);
            if (random() % 100 == 0)
                stage.branch.close();
            peer->heard();
        }
        peer->shut();
        ASSERT_TRUE(stage.rank.until([&] {
            return !stage.rank.failed.empty() || !stage.rank.departed.empty() || !stage.rank.aborted.empty();
        }));
    }
}

} // namespace

extern "C" {
const gcoll_transport *const gcoll_transports[] = {&branch_transport, &orphan_transport, &striped_branch,
                                                   &striped_orphan, nullptr};
const gcoll_lane_row gcoll_lane_rows[] = {{"tcp", gcoll_tcp_options, &gcoll_lane_tcp},
                                          {nullptr, nullptr, nullptr}};
}
