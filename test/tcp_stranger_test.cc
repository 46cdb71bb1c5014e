// test/tcp_stranger_test.cc - strangers at the port, and peers that do not keep to the protocol.
//
// The frames are put together here byte by byte, not by the code under test.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport_harness.h"

extern "C" {
#include "transport/tcp/tcp.h"
}

using namespace harness;

namespace {

using Bytes = std::vector<uint8_t>;
const gcoll_transport *const kTcp = &gcoll_transport_tcp;

// The protocol, by its description.
enum Kind { kData = 1, kOffer, kGrant, kRevoke, kCredit, kAbort, kGoodbye, kPing, kPong };
constexpr uint8_t kOpen = 0x80, kCredited = 0x40;
constexpr size_t kHelloBytes = 80, kReplyBytes = 56;
constexpr uint64_t kPool = 4096, kEager = 1000; // of all endpoints here

void put(Bytes &bytes, uint64_t value, size_t count) {
    for (size_t i = 0; i < count; i++)
        bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

uint64_t get(const Bytes &bytes, size_t at, size_t count) {
    uint64_t value = 0;
    for (size_t i = 0; i < count; i++)
        value |= static_cast<uint64_t>(bytes[at + i]) << (8 * i);
    return value;
}

Bytes frame(uint8_t kind, uint64_t stream = 0, uint32_t index = 0, uint64_t total = 0, uint32_t fragment = 0,
            uint32_t credit = 0) {
    Bytes bytes;
    put(bytes, 0x6763, 2);
    put(bytes, 1, 1);
    put(bytes, kind, 1);
    put(bytes, index, 4);
    put(bytes, stream, 8);
    put(bytes, total, 8);
    put(bytes, fragment, 4);
    put(bytes, credit, 4);
    return bytes;
}

Bytes operator+(Bytes a, const Bytes &b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

struct Hello {
    uint32_t version = 1, from = 1, to = 0;
    Bytes group = Bytes(16, 0x42);
    Bytes token;
    uint64_t eager = kEager, pool = kPool;
    Bytes bytes() const {
        Bytes all = {'g', 'c', 'o', 'l', 'l', 'H', 'I', 0};
        put(all, version, 4);
        put(all, from, 4);
        put(all, to, 4);
        put(all, 0, 4);
        all = all + group + token;
        put(all, eager, 8);
        put(all, pool, 8);
        put(all, 0, 8);
        return all;
    }
};

struct Reply {
    uint32_t verdict = 0, version = 1, from = 1, to = 0;
    Bytes group = Bytes(16, 0x42);
    uint64_t eager = kEager, pool = kPool;
    Bytes bytes() const {
        Bytes all = {'g', 'c', 'o', 'l', 'l', 'R', 'E', 0};
        put(all, verdict, 4);
        put(all, version, 4);
        put(all, from, 4);
        put(all, to, 4);
        all = all + group;
        put(all, eager, 8);
        put(all, pool, 8);
        return all;
    }
};

gcoll_endpoint_options options_of(uint32_t rank, uint32_t size) {
    gcoll_endpoint_options options = {};
    options.rank = rank;
    options.size = size;
    std::memset(options.group, 0x42, sizeof options.group);
    options.connect_timeout_ms = 10000;
    options.eager_pool_bytes = kPool;
    options.eager_bytes = kEager;
    options.interface = "127.0.0.1";
    return options;
}

std::string field(const std::string &address, const std::string &name) {
    size_t at = address.find(";" + name + "=") + name.size() + 2;
    return address.substr(at, address.find(';', at) - at);
}

Bytes token_of(const std::string &address) {
    std::string hex = field(address, "token");
    Bytes token;
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
        token.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    return token;
}

// A plain socket connected to an endpoint.
class Raw {
  public:
    explicit Raw(const std::string &address) {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in where = {};
        where.sin_family = AF_INET;
        where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        where.sin_port = htons(static_cast<uint16_t>(std::stoi(field(address, "port"))));
        EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr *>(&where), sizeof where), 0) << strerror(errno);
    }
    explicit Raw(int accepted) : fd(accepted) {}
    ~Raw() { shut(); }
    Raw(const Raw &) = delete;
    Raw &operator=(const Raw &) = delete;
    void shut() {
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    void say(const Bytes &bytes) {
        size_t said = 0;
        while (said < bytes.size()) {
            ssize_t n = send(fd, bytes.data() + said, bytes.size() - said, MSG_NOSIGNAL);
            if (n <= 0)
                return; // the other side had enough
            said += static_cast<size_t>(n);
        }
    }
    void say(const std::string &text) { say(Bytes(text.begin(), text.end())); }
    // What has come so far.
    const Bytes &heard() {
        uint8_t some[4096];
        for (;;) {
            ssize_t n = recv(fd, some, sizeof some, MSG_DONTWAIT);
            if (n > 0)
                all_.insert(all_.end(), some, some + n);
            else {
                ended = n == 0 || (errno != EAGAIN && errno != EINTR);
                return all_;
            }
        }
    }
    bool is_closed() {
        heard();
        return ended;
    }
    int fd;
    bool ended = false;

  private:
    Bytes all_;
};

// Rank 0 of two is real; rank 1 is ours to play.
struct Stage {
    Stage() : rank(kTcp, options_of(0, 2)), address(rank.address()) {}

    // Shakes hands as rank 1.
    std::unique_ptr<Raw> peer() {
        auto raw = std::make_unique<Raw>(address);
        Hello hello;
        hello.token = token_of(address);
        raw->say(hello.bytes());
        EXPECT_TRUE(rank.until([&] { return raw->heard().size() >= kReplyBytes; }));
        EXPECT_EQ(get(raw->heard(), 8, 4), 0u) << "not welcome";
        return raw;
    }
    void expect_garbage(const std::string &what) {
        ASSERT_TRUE(rank.until([&] { return !rank.failed.empty(); })) << what;
        EXPECT_EQ(rank.failed[0].status, GCOLL_ERR_PROTOCOL) << rank.failed[0].text;
        EXPECT_EQ(rank.failed[0].text.find("sent garbage ("), 0u) << rank.failed[0].text;
        EXPECT_EQ(rank.failed[0].peer, 1u);
    }
    Rank rank;
    std::string address;
};

// What a welcomed peer says, and that it is taken for garbage.
void garbage(const std::string &name, const std::vector<Bytes> &said,
             const std::function<void(Rank &)> &before = nullptr) {
    SCOPED_TRACE(name);
    Stage stage;
    if (before)
        before(stage.rank);
    auto peer = stage.peer();
    for (const Bytes &bytes : said)
        peer->say(bytes);
    stage.expect_garbage(name);
    for (int i = 0; i < 5; i++)
        stage.rank.progress(0);
    EXPECT_EQ(stage.rank.failed.size(), 1u);
    EXPECT_EQ(stage.rank.done, 0u);
}

TEST(TcpPeer, GarbageIsCalledSo) {
    Bytes bad = frame(kData | kCredited, 1, 0, 4, 4);
    bad[0] ^= 1;
    garbage("bad magic", {bad});
    bad = frame(kData | kCredited, 1, 0, 4, 4);
    bad[2] = 2;
    garbage("bad version", {bad});
    garbage("unknown kind", {frame(10)});
    garbage("unknown flag", {frame(kData | 0x20, 1, 0, 4, 4)});
    garbage("http", {Bytes(100, 'G')});
    garbage("fragment over its limit", {frame(kData | kCredited, 1, 0, UINT64_MAX, (1u << 20) + 1)});
    garbage("fragment over its message", {frame(kData | kCredited, 1, 0, 3, 4)});
    garbage("payload in a control frame", {frame(kPing, 0, 0, 0, 4)});
    garbage("frame after goodbye", {frame(kGoodbye), frame(kPing)});
    garbage("too long an abort", {frame(kAbort, 9, 1, 0, 256), Bytes(256, 'x')});
    garbage("a hello again", {Hello().bytes()});
}

TEST(TcpPeer, FragmentsMustFitTheirMessage) {
    Bytes start = frame(kData | kCredited, 1, 0, 100, 40) + Bytes(40, 'x');
    garbage("another total", {start, frame(kData | kCredited, 1, 0, 101, 40)});
    garbage("more than is missing", {start, frame(kData | kCredited, 1, 0, 100, 61)});
    garbage("another flag", {start, frame(kData, 1, 0, 100, 40)});
    garbage("once more", {start + frame(kData | kCredited, 1, 0, 100, 60) + Bytes(60, 'x'),
                          frame(kData | kCredited, 1, 0, 100, 60)});
    garbage("an empty message twice", {frame(kData | kCredited, 1, 0), frame(kData | kCredited, 1, 0)});
}

TEST(TcpPeer, LimitsMustBeKept) {
    garbage("too large for credit", {frame(kData | kCredited, 1, 0, kEager + 1, 1)});
    garbage("not granted", {frame(kData, 1, 0, 100, 100)});
    garbage("not granted though posted", {frame(kData, 1, 0, 100, 100)},
            [](Rank &rank) { rank.receive(1, 1, 0, 101); });
    Bytes flood;
    for (uint32_t i = 0; i < kPool / (kEager + 64) + 1; i++)
        flood = flood + frame(kData | kCredited, 1, i, kEager, kEager) + Bytes(kEager, 'x');
    garbage("pool overrun", {flood});
    flood.clear();
    for (uint32_t i = 0; i < kPool / 64 + 1; i++)
        flood = flood + frame(kData | kCredited, 1, i);
    garbage("pool overrun by empty messages", {flood});
    garbage("credit that was never used", {frame(kCredit, 0, 0, 0, 0, 1)});
    garbage("credit on any frame", {frame(kPing, 0, 0, 0, 0, UINT32_MAX)});
    garbage("credit twice", {frame(kCredit, 0, 0, 0, 0, 164), frame(kCredit, 0, 0, 0, 0, 1)}, [](Rank &rank) {
        Message &message = rank.send(1, 1, 0, 100);
        message.then = [](Message &m) { m.rank->done--; }; // it does go out
    });
}

TEST(TcpPeer, PromisesMustMakeSense) {
    garbage("a grant twice", {frame(kGrant, 1, 0), frame(kGrant, 1, 0)});
    garbage("a revoke of nothing", {frame(kRevoke, 1, 0)});
    garbage("a revoke twice", {frame(kGrant, 1, 0), frame(kRevoke, 1, 0), frame(kRevoke, 1, 0)});
    garbage("an offer twice", {frame(kOffer, 1, 0, 5000), frame(kOffer, 1, 0, 5000)});
    garbage("an offer of what is here",
            {frame(kData | kCredited, 1, 0, 10, 10) + Bytes(10, 'x'), frame(kOffer, 1, 0, 10)});
    garbage("another size than offered", {frame(kOffer, 1, 0, 10), frame(kData | kCredited, 1, 0, 11, 11)});
}

TEST(TcpPeer, AMessageOfAnotherSizeIsAMismatch) {
    for (uint64_t sent : {uint64_t(400), uint64_t(100000)}) {
        Stage stage;
        stage.rank.receive(1, 1, 0, 404);
        auto peer = stage.peer();
        peer->say(frame(kData | kCredited, 1, 0, sent, 400) + Bytes(400, 'x'));
        ASSERT_TRUE(stage.rank.until([&] { return !stage.rank.failed.empty(); }));
        EXPECT_EQ(stage.rank.failed[0].status, GCOLL_ERR_MISMATCH);
        EXPECT_EQ(stage.rank.failed[0].text,
                  "sent " + std::to_string(sent) + " bytes where 404 were expected");
        EXPECT_EQ(stage.rank.messages[0]->bytes, Bytes(404, kUnwritten));
        gcoll_note note = {GCOLL_ERR_MISMATCH, 1, "sizes differ"};
        kTcp->abort(stage.rank.endpoint, &note, 1000); // it can still be told
        Bytes heard = peer->heard();
        std::string text(heard.begin(), heard.end());
        EXPECT_NE(text.find("sizes differ"), std::string::npos);
    }
}

TEST(TcpPeer, AnAbortIsCleanedUp) {
    Stage stage;
    auto peer = stage.peer();
    Bytes text(255, 0xff);
    text[0] = 'a';
    text[1] = '\n';
    peer->say(frame(kAbort, 0xffffffffffffffffu, 77, 0, 255) + text);
    ASSERT_TRUE(stage.rank.until([&] { return !stage.rank.aborted.empty(); }));
    const gcoll_note &note = stage.rank.aborted[0].note;
    EXPECT_EQ(note.status, GCOLL_ERR_ABORTED);
    EXPECT_EQ(note.culprit, 77u);
    EXPECT_EQ(std::string(note.text), "a" + std::string(254, '?'));
    peer->shut(); // it told why: no second report
    for (int i = 0; i < 20; i++)
        stage.rank.progress(1000);
    EXPECT_TRUE(stage.rank.failed.empty());
    EXPECT_EQ(stage.rank.aborted.size(), 1u);
}

TEST(TcpPeer, EofInTheMiddleOfAnythingIsAFailure) {
    Bytes whole = frame(kData | kCredited | kOpen, 1, 0, 100, 100) + Bytes(32, 'f') + Bytes(100, 'x');
    for (size_t cut : {size_t(0), size_t(1), size_t(31), size_t(32), size_t(50), size_t(64), size_t(65),
                       whole.size() - 1, whole.size()}) {
        Stage stage;
        stage.rank.receive(1, 1, 0, 100);
        auto peer = stage.peer();
        peer->say(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut)));
        peer->shut();
        ASSERT_TRUE(stage.rank.until([&] { return !stage.rank.failed.empty(); }));
        EXPECT_EQ(stage.rank.failed[0].status, GCOLL_ERR_PEER);
        EXPECT_EQ(stage.rank.failed[0].text, "closed the connection");
        EXPECT_EQ(stage.rank.done, cut == whole.size() ? 1u : 0u);
        EXPECT_EQ(stage.rank.opened.size(), cut >= 64 ? 1u : 0u);
    }
}

// Byte by byte is as good as all at once.
TEST(TcpPeer, FramesMayComeInAnyPieces) {
    Bytes all;
    std::vector<uint64_t> sizes = {0, 1, 13, 900, 77};
    for (uint32_t i = 0; i < sizes.size(); i++) {
        Bytes payload;
        for (uint64_t k = 0; k < sizes[i]; k++)
            payload.push_back(pattern(1, 0, 3, i, k));
        all = all + frame(kData | kCredited | kOpen, 3, i, sizes[i], static_cast<uint32_t>(sizes[i])) +
              Bytes(32, static_cast<uint8_t>(i)) + payload + frame(kPing);
    }
    for (uint32_t granule : {0u, 1u}) {
        Stage stage;
        for (uint32_t i = 0; i < sizes.size(); i++)
            stage.rank.receive(1, 3, i, sizes[i], granule);
        auto peer = stage.peer();
        for (uint8_t byte : all) {
            peer->say(Bytes{byte});
            stage.rank.progress(0);
        }
        ASSERT_TRUE(stage.rank.until_done());
        stage.rank.check();
        EXPECT_EQ(stage.rank.opened.size(), sizes.size());
        EXPECT_TRUE(stage.rank.failed.empty());
    }
}

// Whatever a peer says, nothing worse than a failure follows.
TEST(TcpPeer, RandomFramesDoNoHarm) {
    std::mt19937_64 random(8);
    for (int i = 0; i < 150; i++) {
        Stage stage;
        for (uint32_t k = 0; k < 4; k++) {
            stage.rank.receive(1, 0, k, random() % 2000, random() % 2 ? 1 : 0);
            stage.rank.send(1, 0, k, random() % 5000, true);
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
            peer->say(plain ? bytes : bytes + Bytes(fragment, 'x'));
            if (random() % 4 == 0)
                stage.rank.progress(0);
            peer->heard();
        }
        peer->shut();
        ASSERT_TRUE(stage.rank.until([&] {
            return !stage.rank.failed.empty() || !stage.rank.departed.empty() || !stage.rank.aborted.empty();
        }));
    }
}

// ---- Strangers ---------------------------------------------------------------------------------------

// Two real ranks of three exchange messages all the time that `visit` runs.
void undisturbed(const std::function<void(const std::string &, const std::function<void()> &)> &visit) {
    Rank a(kTcp, options_of(0, 3)), b(kTcp, options_of(1, 3));
    std::string address = a.address();
    ASSERT_EQ(kTcp->connect(b.endpoint, 0, address.c_str()), GCOLL_OK);
    uint32_t index = 0;
    auto exchange = [&] {
        for (uint64_t bytes : {uint64_t(4), kEager + 1}) {
            a.send(1, 1, index, bytes);
            b.receive(0, 1, index, bytes);
            b.send(0, 1, index, bytes);
            a.receive(1, 1, index, bytes);
            index++;
        }
        auto limit = Clock::now() + kPatience;
        while (a.done < a.messages.size() || b.done < b.messages.size()) {
            ASSERT_LT(Clock::now(), limit);
            a.progress(0);
            b.progress(0);
        }
    };
    visit(address, exchange);
    exchange();
    a.check();
    b.check();
    EXPECT_TRUE(a.failed.empty());
    EXPECT_TRUE(b.failed.empty());
    EXPECT_TRUE(a.opened.empty());
    a.close();
    ASSERT_TRUE(b.until([&] { return !b.departed.empty(); }));
}

TEST(TcpStranger, WhoIsSilentDoesNotDisturb) {
    undisturbed([](const std::string &address, const std::function<void()> &exchange) {
        Raw silent(address);
        for (int i = 0; i < 20; i++)
            exchange();
        EXPECT_FALSE(silent.is_closed());
    });
}

TEST(TcpStranger, WhoTalksNonsenseIsSentAway) {
    undisturbed([](const std::string &address, const std::function<void()> &exchange) {
        std::mt19937 random(9);
        Bytes noise(5000);
        for (uint8_t &byte : noise)
            byte = static_cast<uint8_t>(random());
        std::string http =
            "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: somebody/1.0\r\nAccept: */*\r\n\r\n";
        for (const Bytes &talk :
             {noise, Bytes(http.begin(), http.end()), Bytes(80, 0), frame(kPing) + Bytes(80, 0)}) {
            Raw stranger(address);
            stranger.say(talk);
            for (int i = 0; i < 10000 && !stranger.is_closed(); i++)
                exchange();
            EXPECT_TRUE(stranger.is_closed());
            EXPECT_TRUE(stranger.heard().empty());
        }
    });
}

TEST(TcpStranger, HalfAGreetingWaitsForTheOtherHalf) {
    Stage stage;
    Hello hello;
    hello.token = token_of(stage.address);
    Bytes bytes = hello.bytes();
    ASSERT_EQ(bytes.size(), kHelloBytes);
    Raw slow(stage.address);
    for (uint8_t byte : bytes) {
        EXPECT_TRUE(slow.heard().empty());
        slow.say(Bytes{byte});
        stage.rank.progress(0);
    }
    ASSERT_TRUE(stage.rank.until([&] { return slow.heard().size() == kReplyBytes; }));
    EXPECT_EQ(get(slow.heard(), 8, 4), 0u);
}

TEST(TcpStranger, WhoLacksGroupOrTokenHearsNothing) {
    undisturbed([](const std::string &address, const std::function<void()> &exchange) {
        for (size_t bit = 0; bit < 256; bit += 17) {
            Hello hello;
            hello.from = 2;
            hello.token = token_of(address);
            (bit < 128 ? hello.token : hello.group)[bit % 128 / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
            Raw stranger(address);
            stranger.say(hello.bytes());
            for (int i = 0; i < 10000 && !stranger.is_closed(); i++)
                exchange();
            EXPECT_TRUE(stranger.is_closed());
            EXPECT_TRUE(stranger.heard().empty());
        }
    });
}

TEST(TcpStranger, WhoIsWrongOtherwiseHearsWhy) {
    undisturbed([](const std::string &address, const std::function<void()> &exchange) {
        auto verdict = [&](const std::function<void(Hello &)> &change) {
            Hello hello;
            hello.from = 2;
            hello.token = token_of(address);
            change(hello);
            Raw stranger(address);
            stranger.say(hello.bytes());
            for (int i = 0; i < 10000 && !stranger.is_closed(); i++)
                exchange();
            EXPECT_EQ(stranger.heard().size(), kReplyBytes);
            return stranger.heard().size() == kReplyBytes ? get(stranger.heard(), 8, 4) : 99;
        };
        EXPECT_EQ(verdict([](Hello &h) { h.version = 2; }), 1u);
        EXPECT_EQ(verdict([](Hello &h) { h.to = 1; }), 2u);
        EXPECT_EQ(verdict([](Hello &h) { h.from = 3; }), 2u);
        EXPECT_EQ(verdict([](Hello &h) { h.from = UINT32_MAX; }), 2u);
        EXPECT_EQ(verdict([](Hello &h) { h.from = 0; }), 2u);
        EXPECT_EQ(verdict([](Hello &h) { h.from = 1; }), 3u); // is connected already
        EXPECT_EQ(verdict([](Hello &h) { h.pool = 0; }), 2u);
        EXPECT_EQ(verdict([](Hello &h) { h.pool = UINT64_MAX; }), 2u);
        EXPECT_EQ(verdict([](Hello &h) { h.eager = h.pool; }), 2u);
    });
}

TEST(TcpStranger, ACrowdIsBoundedAndDoesNotDisturb) {
    undisturbed([](const std::string &address, const std::function<void()> &exchange) {
        std::vector<std::unique_ptr<Raw>> crowd;
        for (int i = 0; i < 200; i++) {
            crowd.push_back(std::make_unique<Raw>(address));
            if (i % 3 == 0)
                crowd.back()->say("hello? ");
            if (i % 20 == 0)
                exchange();
        }
        auto waiting = [&] {
            int count = 0;
            for (auto &each : crowd)
                count += !each->is_closed();
            return count;
        };
        for (int i = 0; i < 10000 && waiting() > 64; i++)
            exchange();
        EXPECT_EQ(waiting(), 64);
        EXPECT_TRUE(crowd[0]->is_closed());
        EXPECT_FALSE(crowd[199]->is_closed());
        // A real rank gets in all the same.
        Hello hello;
        hello.from = 2;
        hello.token = token_of(address);
        Raw peer(address);
        peer.say(hello.bytes());
        for (int i = 0; i < 10000 && peer.heard().size() < kReplyBytes; i++)
            exchange();
        EXPECT_EQ(peer.heard().size(), kReplyBytes);
        peer.say(frame(kGoodbye));
    });
}

TEST(TcpStranger, ComingAndGoingDoesNotDisturb) {
    undisturbed([](const std::string &address, const std::function<void()> &exchange) {
        for (int i = 0; i < 300; i++) {
            Raw stranger(address);
            if (i % 4 == 1) {
                linger hard = {1, 0}; // a reset instead of an end
                setsockopt(stranger.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
            }
            if (i % 4 == 2)
                stranger.say("x");
            if (i % 10 == 0)
                exchange();
        }
    });
}

// ---- A stranger where a peer should be ---------------------------------------------------------------

void dial_failure(const Bytes &answer, gcoll_status status, const std::string &text) {
    SCOPED_TRACE(text);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in where = {};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof where;
    ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr *>(&where), sizeof where), 0);
    ASSERT_EQ(listen(listener, 4), 0);
    ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr *>(&where), &length), 0);
    Rank rank(kTcp, options_of(0, 2));
    std::string address = rank.address(), port = field(address, "port");
    std::string there = std::to_string(ntohs(where.sin_port));
    address.replace(address.find("port=" + port) + 5, port.size(), there);
    ASSERT_EQ(kTcp->connect(rank.endpoint, 1, address.c_str()), GCOLL_OK);
    pollfd ready = {listener, POLLIN, 0};
    ASSERT_TRUE(rank.until([&] { return poll(&ready, 1, 0) == 1; }));
    Raw fake(accept(listener, nullptr, nullptr));
    ASSERT_TRUE(rank.until([&] { return fake.heard().size() == kHelloBytes; }));
    EXPECT_EQ(get(fake.heard(), 16, 4), 1u); // to rank 1
    fake.say(answer);
    ASSERT_TRUE(rank.until([&] { return !rank.failed.empty(); }));
    EXPECT_EQ(rank.failed[0].status, status);
    EXPECT_EQ(rank.failed[0].text.find(text), 0u) << rank.failed[0].text;
    close(listener);
}

TEST(TcpStranger, AnswersOfSomebodyElseAreNotTrusted) {
    std::string http = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n";
    dial_failure(Bytes(http.begin(), http.end()), GCOLL_ERR_PEER,
                 "sent garbage (no answer to a greeting) at ");
    Reply reply;
    reply.verdict = 17;
    dial_failure(reply.bytes(), GCOLL_ERR_PEER, "sent garbage (an unknown answer to a greeting) at ");
    reply = Reply();
    reply.from = 0;
    dial_failure(reply.bytes(), GCOLL_ERR_PEER, "sent garbage (an answer for somebody else) at ");
    reply = Reply();
    reply.group[3] ^= 1;
    dial_failure(reply.bytes(), GCOLL_ERR_PEER, "sent garbage (an answer for somebody else) at ");
    reply = Reply();
    reply.pool = 0;
    dial_failure(reply.bytes(), GCOLL_ERR_PEER, "sent garbage (a welcome with impossible limits) at ");
}

TEST(TcpStranger, RefusalsAreTold) {
    Reply reply;
    reply.verdict = 1;
    reply.version = 9;
    dial_failure(reply.bytes(), GCOLL_ERR_PROTOCOL,
                 "speaks version 9 of the protocol, and this rank version 1");
    reply.verdict = 2;
    dial_failure(reply.bytes(), GCOLL_ERR_PROTOCOL, "is another rank at ");
    reply.verdict = 4;
    dial_failure(reply.bytes(), GCOLL_ERR_PEER, "has given up on this rank");
}

} // namespace
