// test/transport/lane_test.cc - which lane two ranks take, and what a lane needs: by the one of pipe_lane.c.
//
// This program has the lanes pipe and tcp. It also holds the whole contract of transports against the lane
// pipe (transport_test.cc), as transport "pipe".
#include "test/transport/raw_peer.h"

extern "C" {
#include "test/transport/pipe_lane.h"
#include "transport/session/connect.h"
#include "transport/session/session.h"
}

using namespace harness;

namespace {

bool by_auto; // "auto" chose the lanes

gcoll_status open_with(const std::vector<const char *> &names, const gcoll_endpoint_options *options,
                       const gcoll_events *events, gcoll_endpoint **endpoint) {
    static gcoll_lane_option connections[2] = {};
    connections[0].name = "connections";
    static const gcoll_lane_row several = {"tcp", connections, &gcoll_lane_tcp};
    std::vector<gcoll_lane_choice> lanes(names.size());
    for (size_t i = 0; i < names.size(); i++) {
        for (const gcoll_lane_row *row = gcoll_lane_rows; row->name; row++)
            if (std::string(names[i]) == row->name)
                lanes[i].lane = row;
        if (std::string(names[i]) == "tcp:connections=2") { // two lanes
            lanes[i].lane = &several;
            lanes[i].given = 1;
            lanes[i].value[0] = 2;
        }
    }
    gcoll_endpoint_options with = *options;
    with.lanes = lanes.data();
    with.lane_count = static_cast<uint32_t>(lanes.size());
    with.may_lack = by_auto;
    return gcoll_transport_tcp.open(&with, events, endpoint);
}

// What each rank offers in the test that runs; else pipe alone.
std::vector<std::vector<const char *>> offers;

gcoll_transport with_pipes() {
    gcoll_transport transport = gcoll_transport_tcp;
    transport.name = "pipe";
    transport.open = [](const gcoll_endpoint_options *options, const gcoll_events *events,
                        gcoll_endpoint **endpoint) {
        const std::vector<const char *> pipe = {"pipe"};
        return open_with(options->rank < offers.size() ? offers[options->rank] : pipe, options, events,
                         endpoint);
    };
    return transport;
}

const gcoll_transport pipe_transport = with_pipes();
const int tests_pipe = setenv("GCOLL_TEST_TRANSPORTS", "pipe", 0);

class Lanes : public testing::Test {
  protected:
    void SetUp() override {
        offers.clear();
        by_auto = false;
        pipe_faulty = {};
    }
    void TearDown() override { SetUp(); }
};

std::string lane(Group &group, uint32_t rank, uint32_t peer) {
    char text[1024];
    pipe_transport.explain(group[rank].endpoint, peer, text, sizeof text);
    return text;
}

// Every rank sends messages of all sizes to every other.
void exchange(Group &group) {
    for (uint32_t r = 0; r < group.size(); r++)
        group.connect(group[r]);
    for (uint32_t r = 0; r < group.size(); r++)
        for (uint32_t peer = 0; peer < group.size(); peer++)
            for (uint32_t i = 0; peer != r && i < 12; i++) {
                group[r].send(peer, 5, i, i < 2 ? i : uint64_t{1} << (2 * i - 1));
                group[r].receive(peer, 5, i, i < 2 ? i : uint64_t{1} << (2 * i - 1));
            }
    EXPECT_TRUE(group.turn_until_done());
}

TEST_F(Lanes, TheLowerRanksOrderCounts) {
    offers = {{"pipe", "tcp"}, {"tcp", "pipe"}, {"tcp", "pipe"}};
    Group group(&pipe_transport, 3);
    exchange(group);
    EXPECT_EQ(lane(group, 0, 1), "pipe");
    EXPECT_EQ(lane(group, 1, 0), "pipe");
    EXPECT_EQ(lane(group, 1, 2), "tcp");
    EXPECT_EQ(lane(group, 2, 1), "tcp");
}

TEST_F(Lanes, AJobMayMixThem) {
    offers = {{"pipe", "tcp"}, {"tcp"}, {"pipe", "tcp"}, {"tcp", "pipe"}, {"pipe", "tcp"}};
    pipe_faulty.refuses[4] = PIPE_AT_BEGIN;
    Group group(&pipe_transport, 5);
    exchange(group);
    EXPECT_EQ(lane(group, 0, 2), "pipe");
    EXPECT_EQ(lane(group, 0, 1), "tcp (pipe: the other rank does not offer it)");
    EXPECT_EQ(lane(group, 1, 0), "tcp");
    EXPECT_EQ(lane(group, 2, 3), "pipe");
    EXPECT_EQ(lane(group, 4, 0), "tcp (pipe: has no pipes today)");
    EXPECT_EQ(lane(group, 0, 4), "tcp (pipe: refused by the other rank: has no pipes today)");
}

TEST_F(Lanes, OneThatAutoChoseIsPassedOverIfItCannotBeOpened) {
    offers = {{"pipe", "tcp"}, {"pipe", "tcp"}, {"tcp"}};
    by_auto = pipe_faulty.absent[1] = true;
    Group group(&pipe_transport, 3);
    exchange(group);
    EXPECT_EQ(lane(group, 0, 1), "tcp (pipe: the other rank does not offer it)");
    EXPECT_EQ(lane(group, 1, 0), "tcp (pipe: this host has no pipes)");
    EXPECT_EQ(lane(group, 1, 2), "tcp (pipe: this host has no pipes)");
    EXPECT_EQ(lane(group, 2, 1), "tcp");
}

TEST_F(Lanes, OneThatIsNamedOrTheLastMustOpen) {
    pipe_faulty.absent[0] = true;
    gcoll_endpoint_options options = {};
    options.size = 2;
    gcoll_events events = {};
    gcoll_endpoint *endpoint = nullptr;
    for (const auto &names : {std::vector<const char *>{"pipe", "tcp"}, {"tcp", "pipe"}, {"pipe"}}) {
        by_auto = std::string(names[0]) == "tcp" || names.size() == 1;
        EXPECT_EQ(open_with(names, &options, &events, &endpoint), GCOLL_ERR_UNSUPPORTED);
        EXPECT_STREQ(gcoll_last_error(), "this host has no pipes");
    }
}

// A wait may write in its last flush after a sleep, when nobody polls any more. It tells of what it wrote,
// and sleeps after that.
TEST_F(Lanes, NobodySleepsOverAMessageThatIsWritten) {
    constexpr uint64_t kBytes = 50000; // a pipe holds one and a part of the next
    Group group(&pipe_transport, 2);
    meet(group);
    const gcoll_net *net = gcoll_net_of(group[0].endpoint);
    const auto is_swept = [&] { return !uv_is_active(reinterpret_cast<const uv_handle_t *>(&net->sweeper)); };
    ASSERT_TRUE(group[0].until(is_swept)); // it would end the sleep
    const size_t met = group[0].done;
    pipe_faulty.flushes[0] = pipe_faulty.holds[1] = true;
    for (uint32_t i = 0; i < 3; i++)
        group[0].send(1, 5, i, kBytes);
    for (int i = 0; i < 10; i++)
        group[0].progress(0);
    ASSERT_EQ(group[0].done, met + 1);
    std::thread sleeper([&] {
        const auto begun = Clock::now();
        group[0].progress(20 * 1000000);
        EXPECT_LT(Clock::now() - begun, std::chrono::seconds(10));
    });
    const auto limit = Clock::now() + std::chrono::seconds(10);
    while (!__atomic_load_n(&net->asleep, __ATOMIC_SEQ_CST) && Clock::now() < limit)
        std::this_thread::yield();
    pipe_widen(gcoll_net_session(net, 1));
    sleeper.join();
    EXPECT_EQ(group[0].done, met + 3);
    pipe_faulty = {};
    for (uint32_t i = 0; i < 3; i++)
        group[1].receive(0, 5, i, kBytes);
    EXPECT_TRUE(group.turn_until_done());
}

TEST_F(Lanes, BothRefusing) {
    offers = {{"pipe", "tcp"}, {"pipe", "tcp"}};
    pipe_faulty.refuses[0] = pipe_faulty.refuses[1] = PIPE_AT_BEGIN;
    for (int i = 0; i < 20; i++) {
        Group group(&pipe_transport, 2);
        exchange(group);
        EXPECT_EQ(lane(group, 0, 1).substr(0, 3), "tcp");
    }
}

TEST_F(Lanes, WithoutACommonOneNobodyIsBlamed) {
    offers = {{"pipe"}, {"tcp"}};
    Group group(&pipe_transport, 2);
    group.connect(0, 1);
    for (uint32_t r = 0; r < 2; r++) {
        EXPECT_TRUE(group.turn([&] { return !group[r].failed.empty(); }));
        ASSERT_EQ(group[r].failed.size(), 1u);
        EXPECT_EQ(group[r].failed[0].status, GCOLL_ERR_MISMATCH);
    }
    EXPECT_EQ(group[0].failed[0].text, "offers transport tcp, and this rank pipe: none is the same");
    EXPECT_EQ(group[1].failed[0].text, "offers transport pipe, and this rank tcp: none is the same");
}

// ---- Refusals at odd times ------------------------------------------------------------------------------

const char *const kRefusal = "has no pipes today";

TEST_F(Lanes, TheLastOneRefusedFailsBothWheneverThatIs) {
    for (pipe_moment moment : {PIPE_AT_BEGIN, PIPE_AT_PLACE, PIPE_AT_OPENED}) {
        SCOPED_TRACE(moment);
        offers = {{"pipe"}, {"pipe"}};
        pipe_faulty.refuses[0] = moment;
        Group group(&pipe_transport, 2);
        group.connect(0, 1);
        for (uint32_t r = 0; r < 2; r++) {
            ASSERT_TRUE(group.turn([&] { return !group[r].failed.empty(); }));
            EXPECT_EQ(group[r].failed.size(), 1u);
        }
        EXPECT_EQ(group[0].failed[0].text, kRefusal);
        EXPECT_EQ(group[1].failed[0].status, GCOLL_ERR_PEER);
        EXPECT_EQ(group[1].failed[0].text,
                  std::string("cannot be reached by pipe (refused by the other rank: ") + kRefusal + ")");
    }
}

// Each rank refuses at any moment, with messages waiting at both, and tcp as the alternative. A rank whose
// lane stood when the other refused cannot go on, as messages may have gone by it; it fails by the other's
// reason, although frames of the next lane follow. In all other cases both take the next lane.
class LanesAfter : public Lanes, public testing::WithParamInterface<const char *> {};

TEST_P(LanesAfter, RefusalsAtAllMoments) {
    for (int first = PIPE_NEVER; first < PIPE_MOMENTS; first++)
        for (int second = PIPE_NEVER; second < PIPE_MOMENTS; second++) {
            SCOPED_TRACE(std::to_string(first) + " and " + std::to_string(second));
            offers = {{"pipe", GetParam()}, {"pipe", GetParam()}};
            pipe_faulty.refuses[0] = static_cast<pipe_moment>(first);
            pipe_faulty.refuses[1] = static_cast<pipe_moment>(second);
            Group group(&pipe_transport, 2);
            const bool fails = first != second && first % 3 == 0 && second % 3 == 0;
            if (!fails) {
                exchange(group);
                for (uint32_t r = 0; r < 2; r++)
                    EXPECT_EQ(lane(group, r, 1 - r).substr(0, 4), first || second ? "tcp " : "pipe");
                continue;
            }
            const uint32_t stood = first == PIPE_NEVER ? 0 : 1;
            for (uint32_t r = 0; r < 2; r++)
                group[r].send(1 - r, 5, 0, 100, true);
            group.connect(0, 1);
            ASSERT_TRUE(group.turn([&] { return !group[stood].failed.empty(); }));
            EXPECT_EQ(group[stood].failed[0].status, GCOLL_ERR_PEER);
            EXPECT_EQ(group[stood].failed[0].text,
                      std::string("cannot be reached by pipe (refused by the other rank: ") + kRefusal + ")");
        }
}

INSTANTIATE_TEST_SUITE_P(Pipes, LanesAfter, testing::Values("tcp", "tcp:connections=2"),
                         [](const auto &row) { return std::string(row.index == 0 ? "tcp" : "stripes"); });

TEST_F(Lanes, ALaneThatBreaksBeforeItStandsIsLeftForTheNext) {
    offers = {{"pipe", "tcp"}, {"pipe", "tcp"}};
    pipe_faulty.mute[0] = pipe_faulty.mute[1] = true;
    Group group(&pipe_transport, 2);
    group.connect(0, 1);
    ASSERT_TRUE(group.turn(
        [&] { return lane(group, 0, 1) == "pipe, not yet" && lane(group, 1, 0) == "pipe, not yet"; }));
    pipe_faulty.breaks[0] = true;
    exchange(group);
    EXPECT_EQ(lane(group, 0, 1), "tcp (pipe: broke its pipe before it could be used)");
    EXPECT_EQ(lane(group, 1, 0),
              "tcp (pipe: refused by the other rank: broke its pipe before it could be used)");
}

TEST_F(Lanes, ALaneThatBreaksLaterFailsTheSession) {
    Group group(&pipe_transport, 2);
    group.connect(0, 1);
    ASSERT_TRUE(group.turn([&] { return lane(group, 0, 1) == "pipe"; }));
    pipe_faulty.breaks[0] = true;
    ASSERT_TRUE(group.turn([&] { return !group[0].failed.empty(); }));
    EXPECT_EQ(group[0].failed[0].status, GCOLL_ERR_PEER);
    EXPECT_EQ(group[0].failed[0].text, "broke its pipe");
}

gcoll_session *session_of(Group &group, uint32_t rank, uint32_t peer) {
    return gcoll_net_session(gcoll_net_of(group[rank].endpoint), peer);
}

// A group of two in which rank 0 waits for the pipe to stand, and would have tcp to fall back on.
std::unique_ptr<Group> half_met() {
    offers = {{"pipe", "tcp"}, {"pipe", "tcp"}};
    pipe_faulty.mute[1] = true;
    auto group = std::make_unique<Group>(&pipe_transport, 2);
    group->connect(0, 1);
    EXPECT_TRUE(group->turn([&] { return lane(*group, 0, 1) == "pipe, not yet"; }));
    return group;
}

void lose_connection(Group &group, uint32_t rank, uint32_t peer) {
    shutdown(session_of(group, rank, peer)->socket->fd, SHUT_RDWR);
}

// A lane may notice only now that it broke. No other lane is begun on a session that is lost, or that this
// rank is leaving.
TEST_F(Lanes, ARefusalAfterTheSessionFailedIsIgnored) {
    auto group = half_met();
    gcoll_session *session = session_of(*group, 0, 1);
    lose_connection(*group, 1, 0);
    ASSERT_TRUE(group->turn([&] { return !(*group)[0].failed.empty(); }));
    gcoll_session_refuse(session, GCOLL_ERR_PEER, "came too late");
    EXPECT_EQ(lane(*group, 0, 1), "not connected");
    (*group)[0].progress(0);
    EXPECT_EQ((*group)[0].failed.size(), 1u);
    EXPECT_EQ((*group)[0].failed[0].text, "closed the connection");
}

TEST_F(Lanes, ARefusalBeforeAFailureIsReportedIsIgnored) {
    auto group = half_met();
    gcoll_session *session = session_of(*group, 0, 1);
    gcoll_session_fail(session, GCOLL_ERR_PEER, "did something bad");
    gcoll_session_refuse(session, GCOLL_ERR_PEER, "came too late");
    EXPECT_EQ(lane(*group, 0, 1), "pipe, not yet");
    (*group)[0].progress(0);
    ASSERT_EQ((*group)[0].failed.size(), 1u);
    EXPECT_EQ((*group)[0].failed[0].text, "did something bad");
}

TEST_F(Lanes, ARefusalWhileLeavingIsIgnored) {
    auto group = half_met();
    gcoll_session *session = session_of(*group, 0, 1);
    const gcoll_note note = note_of(GCOLL_ERR_ABORTED, 0, "had enough");
    pipe_transport.abort((*group)[0].endpoint, &note, 1000);
    gcoll_session_refuse(session, GCOLL_ERR_PEER, "came too late");
    EXPECT_EQ(lane(*group, 0, 1), "pipe, not yet");
    ASSERT_TRUE((*group)[1].until([&] { return !(*group)[1].aborted.empty(); }));
    EXPECT_STREQ((*group)[1].aborted[0].note.text, "had enough");
    EXPECT_TRUE((*group)[1].failed.empty()) << (*group)[1].failed[0].text;
}

TEST_F(Lanes, ASecondRefusalOfTheLastOneIsIgnored) {
    offers = {{"pipe"}, {"pipe"}};
    pipe_faulty.mute[1] = true;
    Group group(&pipe_transport, 2);
    group.connect(0, 1);
    ASSERT_TRUE(group.turn([&] { return lane(group, 0, 1) == "pipe, not yet"; }));
    gcoll_session *session = session_of(group, 0, 1);
    gcoll_session_refuse(session, GCOLL_ERR_PEER, "does not work");
    gcoll_session_refuse(session, GCOLL_ERR_PEER, "does not work either");
    EXPECT_EQ(lane(group, 0, 1), "pipe, not yet (pipe: does not work)");
    group[0].progress(0);
    ASSERT_EQ(group[0].failed.size(), 1u);
    EXPECT_EQ(group[0].failed[0].text, "does not work");
}

// Words that no rank says: the pair fails, and nothing else happens.
TEST_F(Lanes, WordsThatCannotBe) {
    const struct {
        const char *what;
        uint64_t kind; // 0: a word, 1: a refusal
        uint32_t number;
        std::string text;
    } rows[] = {
        {"a word of no kind", 2, 200, ""},
        {"a word of a lane that was not taken", 0, 1, ""},
        {"a word of a lane that was not taken", 0, 199, ""},
        {"a word of a lane that was not taken", 1, 0x100C8, "text"},
    };
    for (const auto &row : rows) {
        SCOPED_TRACE(row.what);
        gcoll_endpoint_options options = raw_peer::small_options_of(0, 2);
        Rank rank(&pipe_transport, options);
        raw_peer::Raw raw(rank.address());
        raw_peer::Hello hello;
        hello.token = raw_peer::token_of(rank.address());
        hello.lanes[0] = 200;
        ASSERT_EQ(raw_peer::shake(raw, hello, [&](auto condition) { return rank.until(condition); }), 0u);
        raw_peer::Bytes word =
            raw_peer::frame(raw_peer::kLane, row.kind, row.number, 0, static_cast<uint32_t>(row.text.size()));
        word.insert(word.end(), row.text.begin(), row.text.end());
        raw.say(word);
        ASSERT_TRUE(rank.until([&] { return !rank.failed.empty(); }));
        EXPECT_EQ(rank.failed[0].status, GCOLL_ERR_PROTOCOL);
        EXPECT_EQ(rank.failed[0].text, std::string("sent garbage (") + row.what + ")");
    }
}

// ---- News of a peer, behind what it has sent ------------------------------------------------------------

enum class News { kDeparture, kAbort, kLoss };

bool has_news(Group &group) {
    return !group[0].departed.empty() || !group[0].aborted.empty() || !group[0].failed.empty();
}

struct Behind {
    News news;
    uint32_t count; // of messages
    uint32_t granule;
    bool is_posted; // before they come
};

// Makes rank 0 look at its connections in the next progress, before it polls lanes.
void look_first(Group &group) {
    gcoll_net_of(group[0].endpoint)->polls = UINT32_MAX / 2;
}

void tell(Group &group, News news) {
    const gcoll_note note = note_of(GCOLL_ERR_ABORTED, 1, "had enough");
    if (news == News::kDeparture)
        group[1].close();
    else if (news == News::kAbort)
        pipe_transport.abort(group[1].endpoint, &note, 1000);
    else
        lose_connection(group, 1, 0);
}

// About as many as one poll takes, and about twelve times as many.
constexpr uint32_t kCounts[] = {0, 1, PIPE_FRAMES_A_POLL, PIPE_FRAMES_A_POLL + 1,
                                12 * PIPE_FRAMES_A_POLL - 1};

// Rank 1 sends messages by the pipe, and then news by the connection. All messages are in the pipe, but rank
// 0 reads the connection first. The messages count before the news: else a rank would fail for a peer that
// has done all its work.
void take_news(const Behind &b) {
    Group group(&pipe_transport, 2);
    meet(group);
    std::vector<std::string> order;
    auto post = [&] {
        for (uint32_t i = 0; i < b.count; i++)
            group[0].receive(1, 9, i, 4 * (i % 13), b.granule);
    };
    if (b.is_posted)
        post();
    for (uint32_t i = 0; i < b.count; i++)
        group[1].send(0, 9, i, 4 * (i % 13));
    ASSERT_TRUE(group[1].until_done()); // they are in the pipe
    group[0].log = [&](const std::string &said) {
        if (said.find("consumes") == std::string::npos)
            order.push_back(said.substr(2, said.find(' ', 2) - 2));
    };
    tell(group, b.news);
    ASSERT_TRUE(group[0].until([&] {
        look_first(group);
        return has_news(group);
    }));
    if (!b.is_posted)
        post();
    ASSERT_TRUE(group[0].until_done()) << group[0].done << " of " << group[0].messages.size();
    group[0].check();
    EXPECT_EQ(group[0].departed.size(), b.news == News::kDeparture ? 1u : 0u);
    EXPECT_EQ(group[0].aborted.size(), b.news == News::kAbort ? 1u : 0u);
    EXPECT_EQ(group[0].failed.size(), b.news == News::kLoss ? 1u : 0u);
    if (b.is_posted) {
        ASSERT_EQ(order.size(), b.count + 1u);
        EXPECT_EQ(std::count(order.begin(), order.end() - 1, "received"), b.count);
    }
}

TEST_F(Lanes, WhatAPeerSentCountsBeforeItsDeparture) {
    for (uint32_t count : kCounts)
        for (uint32_t granule : {0, 4})
            for (bool is_posted : {true, false}) {
                SCOPED_TRACE(std::to_string(count) + (is_posted ? " posted" : " not posted"));
                take_news({News::kDeparture, count, granule, is_posted});
            }
}

TEST_F(Lanes, WhatAPeerSentCountsBeforeItsAbort) {
    for (uint32_t count : kCounts)
        for (bool is_posted : {true, false}) {
            SCOPED_TRACE(std::to_string(count) + (is_posted ? " posted" : " not posted"));
            take_news({News::kAbort, count, 4, is_posted});
        }
}

TEST_F(Lanes, WhatAPeerSentCountsBeforeItsConnectionIsLost) {
    for (uint32_t count : kCounts)
        for (uint32_t granule : {0, 4}) {
            SCOPED_TRACE(count);
            take_news({News::kLoss, count, granule, true});
        }
}

// A lane that brings nothing more is asked only once: the news is not held up.
TEST_F(Lanes, NewsComeWhereTheLaneBringsNothing) {
    for (News news : {News::kDeparture, News::kAbort, News::kLoss}) {
        Group group(&pipe_transport, 2);
        meet(group);
        group[0].receive(1, 9, 0, 100);
        group[1].send(0, 9, 0, 100);
        ASSERT_TRUE(group[1].until_done());
        pipe_faulty.holds[0] = true;
        tell(group, news);
        ASSERT_TRUE(group[0].until([&] { return has_news(group); }));
        pipe_faulty.holds[0] = false;
    }
}

// What was sent does not arrive before the time to leave is over. The goodbye is said all the same: the peer
// does not take this rank for dead.
TEST_F(Lanes, AGoodbyeIsSaidWhenTheTimeIsOver) {
    Group group(&pipe_transport, 2);
    meet(group);
    pipe_faulty.lingers[1] = true;
    pipe_transport.close(group[1].endpoint, 50);
    group[1].endpoint = nullptr;
    ASSERT_TRUE(group[0].until([&] { return has_news(group); }));
    EXPECT_TRUE(group[0].failed.empty()) << group[0].failed[0].text;
}

} // namespace

extern "C" {
const gcoll_transport *const gcoll_transports[] = {&pipe_transport, nullptr};
}
