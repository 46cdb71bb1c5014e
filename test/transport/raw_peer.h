// test/transport/raw_peer.h - plain sockets that speak the protocol of transport/session, or nearly.
//
// Everything is put together here byte by byte, not by the code under test.
#ifndef GCOLL_RAW_PEER_H
#define GCOLL_RAW_PEER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test/transport/endpoint_options.h"
#include "test/transport/transport_harness.h"

extern "C" {
#include "gcoll/base/sha256.h"
}

namespace raw_peer {

using namespace harness;

using Bytes = std::vector<uint8_t>;

// The protocol, by its description.
enum Kind { kData = 1, kOffer, kGrant, kRevoke, kCredit, kAbort, kGoodbye, kPing, kPong, kWitness, kLane };
inline constexpr uint8_t kOpen = 0x80, kCredited = 0x40, kAhead = 0x10;
inline constexpr size_t kTagBytes = 32, kHelloBytes = 80 + kTagBytes, kChallengeBytes = 24 + kTagBytes,
                        kProofBytes = 8 + kTagBytes, kReplyBytes = 64 + kTagBytes;
inline constexpr size_t kAnswerBytes = kChallengeBytes + kReplyBytes; // to a caller who is let in
inline constexpr uint32_t kVersion = 3;
inline constexpr uint64_t kPool = 4096, kEager = 1000; // of all endpoints here

inline void put(Bytes &bytes, uint64_t value, size_t count) {
    for (size_t i = 0; i < count; i++)
        bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

inline uint64_t get(const Bytes &bytes, size_t at, size_t count) {
    uint64_t value = 0;
    for (size_t i = 0; i < count; i++)
        value |= static_cast<uint64_t>(bytes[at + i]) << (8 * i);
    return value;
}

inline Bytes frame(uint8_t kind, uint64_t stream = 0, uint32_t index = 0, uint64_t total = 0,
                   uint32_t fragment = 0, uint32_t credit = 0) {
    Bytes bytes;
    put(bytes, 0x6763, 2);
    put(bytes, kVersion, 1);
    put(bytes, kind, 1);
    put(bytes, index, 4);
    put(bytes, stream, 8);
    put(bytes, total, 8);
    put(bytes, fragment, 4);
    put(bytes, credit, 4);
    return bytes;
}

inline Bytes operator+(Bytes a, const Bytes &b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

// ---- The handshake, by the description in transport/session/proof.h ----

inline Bytes hmac(const Bytes &key, const std::string &label, const Bytes &data) {
    gcoll_hmac mac;
    Bytes digest(kTagBytes);
    gcoll_hmac_begin(&mac, key.data(), key.size());
    gcoll_hmac_add(&mac, label.c_str(), label.size() + 1);
    gcoll_hmac_add(&mac, data.data(), data.size());
    gcoll_hmac_end(&mac, digest.data());
    return digest;
}

inline const Bytes kRawGroup(16, 0x42);

// By which an endpoint with that token is called.
inline Bytes key_of(const Bytes &token, const Bytes &secret = {}, const Bytes &group = kRawGroup) {
    return hmac(secret, "gcoll key of a link", group + token);
}

// What both sides have said, but for the tag that each message ends with.
struct Transcript {
    Bytes key, hello, challenge;
    Bytes tagged(const std::string &label, const Bytes &bytes) const {
        return bytes + hmac(key, label, hello + challenge + bytes);
    }
    Bytes challenged() {
        Bytes bytes = {'g', 'c', 'o', 'l', 'l', 'C', 'H', 0};
        return challenge = tagged("challenge", bytes + Bytes(16, 0x77));
    }
    // The answer to a challenge; nothing if that is wrong.
    Bytes proof(const Bytes &from_peer) {
        const Bytes bytes(from_peer.begin(), from_peer.end() - kTagBytes);
        if (tagged("challenge", bytes) != from_peer || get(bytes, 0, 8) != 0x0048436c6c6f6367)
            return {};
        challenge = from_peer;
        return tagged("proof", {'g', 'c', 'o', 'l', 'l', 'P', 'R', 0});
    }
    Bytes session_key() const { return hmac(key, "gcoll key of a session", hello + challenge); }
};

struct Hello {
    uint32_t version = kVersion, oldest = kVersion, from = 1, to = 0;
    Bytes group = kRawGroup;
    Bytes token; // of the address that is called
    Bytes secret;
    Bytes nonce = Bytes(16, 0x31);
    Bytes lanes = {1, 0, 0, 0, 0, 0, 0, 0}; // tcp alone
    uint64_t eager = kEager, pool = kPool;
    Bytes bytes() const {
        Bytes all = {'g', 'c', 'o', 'l', 'l', 'H', 'I', 0};
        put(all, version, 4);
        put(all, from, 4);
        put(all, to, 4);
        put(all, oldest, 4);
        all = all + group + nonce;
        put(all, eager, 8);
        put(all, pool, 8);
        all = all + lanes;
        return all + hmac(key_of(token, secret, group), "hello", all);
    }
    Transcript transcript() const { return {key_of(token, secret, group), bytes(), {}}; }
};

struct Reply {
    uint32_t verdict = 0, version = kVersion, from = 1, to = 0;
    Bytes group = kRawGroup;
    uint64_t eager = kEager, pool = kPool;
    Bytes lanes = {1, 0, 0, 0, 0, 0, 0, 0};
    Bytes untagged() const {
        Bytes all = {'g', 'c', 'o', 'l', 'l', 'R', 'E', 0};
        put(all, verdict, 4);
        put(all, version, 4);
        put(all, from, 4);
        put(all, to, 4);
        all = all + group;
        put(all, eager, 8);
        put(all, pool, 8);
        return all + lanes;
    }
    Bytes bytes(const Transcript &after) const { return after.tagged("reply", untagged()); }
    // By somebody who cannot make a tag.
    Bytes untold() const { return untagged() + Bytes(kTagBytes, 0); }
};

// CRC32C by its definition.
inline uint32_t crc32c(const Bytes &bytes) {
    uint32_t crc = ~0u;
    for (uint8_t byte : bytes) {
        crc ^= byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
    }
    return ~crc;
}

inline constexpr uint8_t kChecked = 0x20;

// A whole frame with checksums. extra: a fingerprint, or the text of an abort.
inline Bytes checked(Bytes header, const Bytes &extra = {}, const Bytes &payload = {}) {
    header[3] |= kChecked;
    put(header, crc32c(payload), 4);
    put(header, crc32c(extra), 4);
    put(header, 0, 4);
    put(header, crc32c(header), 4);
    return header + extra + payload;
}

inline gcoll_endpoint_options small_options_of(uint32_t rank, uint32_t size) {
    gcoll_endpoint_options options = options_of(rank, size);
    options.eager_pool_bytes = kPool;
    options.eager_bytes = kEager;
    options.interface = "127.0.0.1";
    return options;
}

inline std::string field(const std::string &address, const std::string &name) {
    size_t at = address.find(";" + name + "=") + name.size() + 2;
    return address.substr(at, address.find(';', at) - at);
}

inline Bytes token_of(const std::string &address) {
    std::string hex = field(address, "token");
    Bytes token;
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
        token.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    return token;
}

// ---- Endpoints that share the connections of another ----

inline constexpr uint8_t kGroup = 13;
inline constexpr uint64_t kNumber = 0x4242424242424243; // of the group of options_of, changed by open_shared

inline gcoll_status open_shared(const gcoll_transport *shared, gcoll_endpoint *trunk,
                                const gcoll_endpoint_options *options, const gcoll_events *events,
                                gcoll_endpoint **endpoint) {
    std::vector<uint32_t> members(options->size);
    for (uint32_t rank = 0; rank < options->size; rank++)
        members[rank] = rank;
    gcoll_endpoint_options own = *options;
    own.trunk = trunk;
    own.members = members.data();
    own.group[0] ^= shared == kTcp->shared ? 1 : 2;
    return shared->open(&own, events, endpoint);
}

// An endpoint of the same ranks that shares the connections of `trunk`.
struct Branch {
    Branch(Rank &trunk, const gcoll_endpoint_options &options) : over(of(trunk)), rank(&over, options) {}
    static gcoll_transport of(const Rank &trunk) {
        static thread_local gcoll_endpoint *opens_on;
        opens_on = trunk.endpoint;
        gcoll_transport transport = *kTcp->shared;
        transport.open = [](const gcoll_endpoint_options *options, const gcoll_events *events,
                            gcoll_endpoint **endpoint) {
            return open_shared(kTcp->shared, opens_on, options, events, endpoint);
        };
        return transport;
    }
    gcoll_transport over;
    Rank rank;
};

inline Bytes grouped(uint64_t number, const Bytes &said) {
    return frame(kGroup, number) + said;
}

// Memory that can be taken away, as that of the caller is in a forked child.
class Pages {
  public:
    explicit Pages(size_t bytes)
        : bytes_(bytes), at(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
        EXPECT_NE(at, MAP_FAILED);
    }
    ~Pages() { munmap(at, bytes_); }
    Pages(const Pages &) = delete;
    Pages &operator=(const Pages &) = delete;
    void take_away() const { EXPECT_EQ(mprotect(at, bytes_, PROT_NONE), 0); }
    gcoll_message *messages() const { return static_cast<gcoll_message *>(at); }

  private:
    const size_t bytes_;

  public:
    void *const at;
};

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

// Plays the calling side of a handshake. turn(condition) drives the other side until it holds. Returns the
// verdict of the reply, which may come in place of the challenge; 99 if neither comes, or a tag is wrong.
template <class Turn> uint64_t shake(Raw &raw, const Hello &hello, Turn turn, Transcript *all = nullptr) {
    Transcript said = hello.transcript();
    raw.say(said.hello);
    turn([&] { return raw.heard().size() >= kChallengeBytes || raw.is_closed(); });
    if (raw.heard().size() < kChallengeBytes)
        return 99;
    const bool is_asked = raw.heard()[5] == 'C';
    if (is_asked)
        raw.say(said.proof(Bytes(raw.heard().begin(), raw.heard().begin() + kChallengeBytes)));
    const size_t at = is_asked ? kChallengeBytes : 0;
    turn([&] { return raw.heard().size() >= at + kReplyBytes || raw.is_closed(); });
    if (raw.heard().size() < at + kReplyBytes)
        return 99;
    const auto reply = raw.heard().begin() + static_cast<std::ptrdiff_t>(at);
    if (said.tagged("reply", Bytes(reply, reply + kReplyBytes - kTagBytes)) !=
        Bytes(reply, reply + kReplyBytes))
        return 99;
    if (all)
        *all = said;
    return get(raw.heard(), at + 8, 4);
}

// Plays the called side, by that key: a rank has connected to `raw`.
template <class Turn> Transcript challenge(Raw &raw, const Bytes &key, Turn turn) {
    Transcript said = {key, {}, {}};
    EXPECT_TRUE(turn([&] { return raw.heard().size() == kHelloBytes; }));
    const Bytes untagged(raw.heard().begin(), raw.heard().end() - kTagBytes);
    EXPECT_EQ(said.tagged("hello", untagged), raw.heard());
    said.hello = raw.heard();
    raw.say(said.challenged());
    EXPECT_TRUE(turn([&] { return raw.heard().size() == kHelloBytes + kProofBytes; }));
    EXPECT_EQ(said.hello + said.tagged("proof", {'g', 'c', 'o', 'l', 'l', 'P', 'R', 0}), raw.heard());
    return said;
}

// Rank 0 of two is real; rank 1 is ours to play.
struct Stage {
    Stage() : Stage(small_options_of(0, 2)) {}
    explicit Stage(const gcoll_endpoint_options &options) : rank(kTcp, options), address(rank.address()) {}

    // Shakes hands as rank 1.
    std::unique_ptr<Raw> peer() {
        auto raw = std::make_unique<Raw>(address);
        Hello hello;
        hello.token = token_of(address);
        EXPECT_EQ(shake(*raw, hello, [&](auto condition) { return rank.until(condition); }), 0u)
            << "not welcome";
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

} // namespace raw_peer

#endif
