// test/transport/transport_harness.h - ranks with recorded events and checked messages, on any transport.
#ifndef GCOLL_TRANSPORT_HARNESS_H
#define GCOLL_TRANSPORT_HARNESS_H

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "gcoll/base/base.h"
#include "gcoll/context.h"
#include "transport/choice.h"
#include "transport/transport.h"
}

namespace harness {

inline const gcoll_transport *const kTcp = &gcoll_transport_tcp;

using Clock = std::chrono::steady_clock;

// A hang shows as a failed wait, not as a test that never ends.
constexpr auto kPatience = std::chrono::seconds(60);
constexpr uint8_t kUnwritten = 0xEE;

// How many connections a rank asks for by the transport of `striped`; ranks beyond it: 3.
inline std::vector<uint32_t> connections_of_ranks;

// "tcp:connections=3", as a transport by itself.
inline const gcoll_transport *striped() {
    static const gcoll_transport transport = [] {
        gcoll_transport made = gcoll_transport_tcp;
        made.name = "tcp_connections_3";
        made.open = [](const gcoll_endpoint_options *options, const gcoll_events *events,
                       gcoll_endpoint **endpoint) {
            gcoll_lane_option rows[2] = {};
            rows[0].name = "connections";
            const gcoll_lane_row *tcp = gcoll_lane_rows;
            while (std::string(tcp->name) != "tcp")
                tcp++;
            const gcoll_lane_row row = {tcp->name, rows, tcp->lane};
            gcoll_lane_choice choice = {};
            choice.lane = &row;
            choice.given = 1;
            choice.value[0] =
                options->rank < connections_of_ranks.size() ? connections_of_ranks[options->rank] : 3;
            gcoll_endpoint_options with = *options;
            with.lanes = &choice;
            with.lane_count = 1;
            return gcoll_transport_tcp.open(&with, events, endpoint);
        };
        return made;
    }();
    return &transport;
}

// Those that the environment names ("ibverbs", "tcp,ibverbs"; what is unknown fails), or `usual`.
inline std::vector<const gcoll_transport *> transports_to_test(const std::string &usual) {
    const char *wanted = std::getenv("GCOLL_TEST_TRANSPORTS");
    std::istringstream names(wanted && *wanted ? wanted : usual);
    std::vector<const gcoll_transport *> found;
    for (std::string name; std::getline(names, name, ',');) {
        if (name == striped()->name) {
            found.push_back(striped());
            continue;
        }
        const gcoll_transport *const *at = gcoll_transports;
        while (*at && name != (*at)->name)
            at++;
        if (!*at) {
            std::fprintf(stderr, "GCOLL_TEST_TRANSPORTS: there is no transport '%s'\n", name.c_str());
            std::exit(2);
        }
        found.push_back(*at);
    }
    return found;
}

// Whether all endpoints are to have checksums, as GCOLL_TEST_CHECKSUM=1 in the environment says.
inline bool with_checksum() {
    const char *wanted = std::getenv("GCOLL_TEST_CHECKSUM");
    return wanted && std::string(wanted) == "1";
}

// Messages are cut from one long noise, each at a place of its own: to make and to compare them byte by byte
// would take most of the tests' time. The length is a prime, so parts of a message that were swapped show.
constexpr uint64_t kNoise = 65521;
inline const uint8_t *noise() {
    static const std::vector<uint8_t> bytes = [] {
        std::mt19937_64 random(1);
        std::vector<uint8_t> made(2 * kNoise);
        for (uint64_t i = 0; i < kNoise; i++)
            made[i] = made[kNoise + i] = static_cast<uint8_t>(random());
        return made;
    }();
    return bytes.data();
}

// Where byte `offset` of a message stands there.
inline uint64_t noise_at(uint32_t from, uint32_t to, uint64_t stream, uint32_t index, uint64_t offset) {
    uint64_t x = stream * 0x9E3779B97F4A7C15u + from * 0x1000193u + to * 0x10001F3u + index * 0x5BD1E995u;
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    return ((x >> 32) + offset) % kNoise;
}

// What byte `offset` of a message must be.
inline uint8_t pattern(uint32_t from, uint32_t to, uint64_t stream, uint32_t index, uint64_t offset) {
    return noise()[noise_at(from, to, stream, index, offset)];
}

inline void write_pattern(uint8_t *data, uint32_t from, uint32_t to, uint64_t stream, uint32_t index,
                          uint64_t bytes) {
    for (uint64_t done = 0, part; done < bytes; done += part) {
        part = std::min(bytes - done, kNoise);
        std::memcpy(data + done, noise() + noise_at(from, to, stream, index, done), part);
    }
}

// How many of the message's first bytes are what they must be.
inline uint64_t right_pattern(const uint8_t *data, uint32_t from, uint32_t to, uint64_t stream,
                              uint32_t index, uint64_t bytes) {
    for (uint64_t done = 0, part; done < bytes; done += part) {
        const uint8_t *wanted = noise() + noise_at(from, to, stream, index, done);
        part = std::min(bytes - done, kNoise);
        if (std::memcmp(data + done, wanted, part) != 0)
            return done +
                   static_cast<uint64_t>(std::mismatch(wanted, wanted + part, data + done).first - wanted);
    }
    return bytes;
}

class Rank;

struct Message {
    gcoll_message m = {};
    Rank *rank = nullptr;
    uint32_t peer = 0;
    bool is_send = false;
    int dones = 0;
    uint64_t consumed = 0;
    std::map<uint64_t, uint64_t> pieces; // consumed ones: where each begins, and its bytes
    std::vector<uint8_t> bytes;
    uint8_t *at = nullptr; // where the bytes are: `bytes`, or memory of the test
    uint8_t fingerprint[GCOLL_FINGERPRINT_BYTES] = {};
    std::function<void(Message &)> then; // from inside done
};

struct Opened {
    uint32_t peer;
    uint64_t stream;
    std::vector<uint8_t> fingerprint;
};

struct Failed {
    uint32_t peer;
    gcoll_status status;
    std::string text;
};

struct Aborted {
    uint32_t from;
    gcoll_note note;
};

inline gcoll_note note_of(gcoll_status status, uint32_t culprit, const std::string &text) {
    gcoll_note note = {};
    note.status = status;
    note.culprit = culprit;
    snprintf(note.text, sizeof note.text, "%s", text.c_str());
    return note;
}

struct Answered {
    uint32_t peer;
    uint64_t position;
    gcoll_answer answer;
};

struct Witnessed {
    uint32_t peer, about;
    int64_t ago_ms;
};

class Rank {
  public:
    Rank(const gcoll_transport *operations, const gcoll_endpoint_options &options)
        : transport(operations), rank(options.rank) {
        gcoll_events events = {this,       on_opened,   on_failed,    on_departed,
                               on_aborted, on_answered, on_witnessed, on_changed};
        EXPECT_EQ(transport->open(&options, &events, &endpoint), GCOLL_OK) << gcoll_last_error();
    }
    ~Rank() { end(); }
    Rank(const Rank &) = delete;
    Rank &operator=(const Rank &) = delete;

    void close() {
        if (endpoint)
            transport->close(endpoint, 1000);
        endpoint = nullptr;
    }

    // At the end of a test: what `log` has captured may be gone, and closing a trunk drives its branches.
    void end() {
        log = nullptr;
        close();
    }

    std::string address() {
        char text[GCOLL_ADDRESS_MAX];
        EXPECT_EQ(transport->address(endpoint, text, sizeof text), GCOLL_OK) << gcoll_last_error();
        return text;
    }

    Message &send(uint32_t peer, uint64_t stream, uint32_t index, uint64_t bytes, bool open = false,
                  bool announced = false, uint8_t *at = nullptr) {
        Message &message = make(peer, stream, index, bytes, at);
        message.is_send = true;
        write_pattern(message.at, rank, peer, stream, index, bytes);
        for (uint32_t i = 0; i < GCOLL_FINGERPRINT_BYTES; i++)
            message.fingerprint[i] = static_cast<uint8_t>(stream + index + i);
        message.m.open = open ? message.fingerprint : nullptr;
        message.m.announced = announced;
        message.m.settled = settles;
        if (tries_now && send_now(message))
            on_done(&message.m);
        else
            transport->post_send(endpoint, peer, &message.m);
        return message;
    }

    // As a transport without send_now and recv_now: nothing moves within the call.
    bool send_now(Message &message) {
        return transport->send_now && message.m.bytes <= GCOLL_NOW_BYTES &&
               transport->send_now(endpoint, message.peer, &message.m);
    }
    bool recv_now(Message &message, uint32_t looks) {
        return transport->recv_now && message.m.bytes <= GCOLL_NOW_BYTES &&
               transport->recv_now(endpoint, message.peer, &message.m, looks);
    }

    // granule 0: into memory; else by consume.
    Message &receive(uint32_t peer, uint64_t stream, uint32_t index, uint64_t bytes, uint32_t granule = 0,
                     bool background = false, uint8_t *at = nullptr) {
        Message &message = make(peer, stream, index, bytes, at);
        message.m.granule = granule;
        message.m.background = background;
        if (granule) {
            message.m.data = nullptr;
            message.m.consume = on_consume;
            message.m.consume_arg = &message;
        }
        if (tries_now && recv_now(message, 3))
            on_done(&message.m);
        else
            transport->post_recv(endpoint, peer, &message.m);
        return message;
    }

    // Of a message of any size, into `room` bytes.
    Message &receive_any_size(uint32_t peer, uint64_t stream, uint32_t index, uint64_t room) {
        Message &message = make(peer, stream, index, room);
        message.m.granule = 1;
        message.m.any_size = true;
        transport->post_recv(endpoint, peer, &message.m);
        return message;
    }

    bool progress(int64_t wait_us) {
        bool moved = false;
        EXPECT_EQ(transport->progress(endpoint, wait_us, &moved), GCOLL_OK) << gcoll_last_error();
        return moved;
    }

    // Makes progress until the condition holds; false if it never does.
    template <class Condition> bool until(Condition condition) {
        auto limit = Clock::now() + kPatience;
        while (!condition()) {
            if (Clock::now() > limit)
                return false;
            transport->flush(endpoint);
            progress(1000);
        }
        return true;
    }
    bool until_done() {
        return until([this] { return done == messages.size(); });
    }

    // Every message was done exactly once, and every received byte is right.
    void check() {
        for (auto &message : messages)
            check_message(*message);
    }

    const gcoll_transport *transport;
    gcoll_endpoint *endpoint = nullptr;
    uint32_t rank;
    bool tries_now = false; // messages that are posted try first to move within the call
    bool settles = false;   // messages that are sent were there before (gcoll_message.settled)
    std::deque<std::unique_ptr<Message>> messages;
    size_t done = 0;
    std::vector<Opened> opened;
    std::vector<Failed> failed;
    std::vector<Failed> changed;
    std::vector<uint32_t> departed;
    std::vector<Aborted> aborted;
    std::vector<Answered> answered;
    std::vector<Witnessed> witnessed;
    std::function<void(const std::string &)> log; // hears of every callback, in order

  private:
    Message &make(uint32_t peer, uint64_t stream, uint32_t index, uint64_t bytes, uint8_t *at = nullptr) {
        messages.push_back(std::make_unique<Message>());
        Message &message = *messages.back();
        message.rank = this;
        message.peer = peer;
        if (!at)
            message.bytes.resize(bytes);
        message.at = at ? at : message.bytes.data();
        std::fill_n(message.at, bytes, kUnwritten);
        message.m.stream = stream;
        message.m.index = index;
        message.m.bytes = bytes;
        message.m.data = message.at;
        message.m.done = on_done;
        message.m.owner = &message;
        return message;
    }

    void check_message(const Message &message) {
        const gcoll_message &m = message.m;
        ASSERT_EQ(message.dones, 1) << "rank " << rank << (message.is_send ? " to " : " from ")
                                    << message.peer << " stream " << m.stream << " index " << m.index;
        if (m.consume)
            ASSERT_EQ(message.consumed, m.bytes);
        if (message.is_send && message.at != message.bytes.data())
            return; /* memory of the test, which may have used or freed it since */
        uint32_t from = message.is_send ? rank : message.peer;
        uint32_t to = message.is_send ? message.peer : rank;
        const uint64_t right = right_pattern(message.at, from, to, m.stream, m.index, m.bytes);
        ASSERT_EQ(right, m.bytes) << "the byte there from " << from << " to " << to << " is wrong";
    }

    void say(const char *what, uint64_t a, uint64_t b, uint64_t c) {
        if (log)
            log(std::to_string(rank) + " " + what + " " + std::to_string(a) + " " + std::to_string(b) + " " +
                std::to_string(c));
    }

    static void on_consume(void *arg, uint64_t offset, const void *data, uint64_t bytes) {
        auto &message = *static_cast<Message *>(arg);
        if (message.rank->transport != striped())
            EXPECT_EQ(offset, message.consumed);
        EXPECT_GT(bytes, 0u);
        EXPECT_EQ(bytes % message.m.granule, 0u);
        EXPECT_EQ(offset % message.m.granule, 0u);
        ASSERT_LE(offset, message.m.bytes);
        ASSERT_LE(bytes, message.m.bytes - offset);
        const auto next = message.pieces.upper_bound(offset);
        EXPECT_TRUE(next == message.pieces.end() || offset + bytes <= next->first) << "consumed twice";
        EXPECT_TRUE(next == message.pieces.begin() ||
                    std::prev(next)->first + std::prev(next)->second <= offset)
            << "consumed twice";
        message.pieces[offset] = bytes;
        EXPECT_EQ(message.dones, 0);
        std::memcpy(message.at + offset, data, bytes);
        message.consumed += bytes;
        message.rank->say("consumes", message.peer, message.m.stream, bytes);
    }

    static void on_done(gcoll_message *m) {
        auto &message = *static_cast<Message *>(m->owner);
        message.dones++;
        message.rank->done++;
        message.rank->say(message.is_send ? "sent" : "received", message.peer, m->stream, m->index);
        if (message.then)
            message.then(message);
    }

    static void on_opened(void *arg, uint32_t peer, uint64_t stream, const uint8_t *fingerprint) {
        auto &self = *static_cast<Rank *>(arg);
        self.opened.push_back({peer, stream, {fingerprint, fingerprint + GCOLL_FINGERPRINT_BYTES}});
        self.say("opened", peer, stream, fingerprint[0]);
    }
    static void on_failed(void *arg, uint32_t peer, gcoll_status status, const char *text) {
        auto &self = *static_cast<Rank *>(arg);
        self.failed.push_back({peer, status, text});
        self.say("failed", peer, status, 0);
    }
    static void on_changed(void *arg, uint32_t peer, const char *text) {
        auto &self = *static_cast<Rank *>(arg);
        self.changed.push_back({peer, GCOLL_ERR_IO, text});
        self.say("changed", peer, 0, 0);
    }
    static void on_departed(void *arg, uint32_t peer) {
        auto &self = *static_cast<Rank *>(arg);
        self.departed.push_back(peer);
        self.say("departed", peer, 0, 0);
    }
    static void on_aborted(void *arg, uint32_t from, const gcoll_note *note) {
        auto &self = *static_cast<Rank *>(arg);
        self.aborted.push_back({from, *note});
        self.say("aborted", from, 0, 0);
    }
    static void on_answered(void *arg, uint32_t peer, const gcoll_answer *answer) {
        auto &self = *static_cast<Rank *>(arg);
        self.answered.push_back({peer, answer->position, *answer});
        self.say("answered", peer, answer->position, 0);
    }
    static void on_witnessed(void *arg, uint32_t peer, uint32_t about, int64_t ago_ms) {
        auto &self = *static_cast<Rank *>(arg);
        self.witnessed.push_back({peer, about, ago_ms});
        self.say("witnessed", peer, about, 0);
    }
};

// All ranks of a group, in this process.
class Group {
  public:
    Group(const gcoll_transport *transport, uint32_t size,
          const std::function<void(gcoll_hub *)> &prepare = nullptr)
        : transport_(transport) {
        EXPECT_EQ(gcoll_hub_create(size, &hub_), GCOLL_OK);
        if (prepare)
            prepare(hub_);
        EXPECT_EQ(gcoll_random_bytes(options_.group, sizeof options_.group), GCOLL_OK);
        options_.size = size;
        options_.connect_timeout_ms =
            60000; // lanes wait for a part of it before they give way: on a busy machine, too
        options_.eager_pool_bytes = 256 * 1024; // small, so that tests run into it
        options_.checksum = with_checksum();
        options_.hub = std::strcmp(transport->name, "inproc") == 0 ? hub_ : nullptr;
        for (uint32_t r = 0; r < size; r++) {
            options_.rank = r;
            ranks_.push_back(std::make_unique<Rank>(transport, options_));
            addresses_.push_back(ranks_.back()->address());
        }
    }
    ~Group() {
        each([](Rank &rank) { rank.end(); }); // side by side: closing may wait for one another
        gcoll_hub_destroy(hub_);
    }

    uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
    Rank &operator[](uint32_t r) { return *ranks_[r]; }
    const std::string &address(uint32_t r) const { return addresses_[r]; }
    gcoll_hub *hub() { return hub_; }
    const gcoll_endpoint_options &options() const { return options_; }

    void connect(uint32_t from, uint32_t to) {
        Rank &rank = *ranks_[from];
        EXPECT_EQ(transport_->connect(rank.endpoint, to, addresses_[to].c_str()), GCOLL_OK)
            << gcoll_last_error();
    }
    // As contexts do: both sides may connect, at the same time.
    void connect(Rank &rank) {
        for (uint32_t peer = 0; peer < size(); peer++)
            if (peer != rank.rank)
                connect(rank.rank, peer);
    }

    // Runs fn for every rank, each in its own thread.
    void each(const std::function<void(Rank &)> &fn) {
        std::vector<std::thread> threads;
        for (auto &rank : ranks_)
            threads.emplace_back([&fn, &rank] { fn(*rank); });
        for (auto &thread : threads)
            thread.join();
    }

    // Drives all ranks in this thread, in turn, until the condition holds.
    template <class Condition> bool turn(Condition condition) {
        auto limit = Clock::now() + kPatience;
        while (!condition()) {
            if (Clock::now() > limit)
                return false;
            for (auto &rank : ranks_)
                if (rank->endpoint)
                    rank->progress(0);
        }
        return true;
    }
    bool turn_until_done() {
        return turn([this] {
            for (auto &rank : ranks_)
                if (rank->done != rank->messages.size())
                    return false;
            return true;
        });
    }

  private:
    const gcoll_transport *transport_;
    gcoll_hub *hub_ = nullptr;
    gcoll_endpoint_options options_ = {};
    std::vector<std::unique_ptr<Rank>> ranks_;
    std::vector<std::string> addresses_;
};

// A message in each direction between all ranks, by one thread.
inline void meet(Group &group) {
    for (uint32_t r = 0; r < group.size(); r++) {
        group.connect(group[r]);
        for (uint32_t peer = 0; peer < group.size(); peer++)
            if (peer != r) {
                group[r].send(peer, 1, 0, 100, true);
                group[r].receive(peer, 1, 0, 100);
            }
    }
    ASSERT_TRUE(group.turn_until_done());
}

// Random traffic between all ranks: the same on every rank that asks with the same seed.
struct Traffic {
    uint32_t from, to;
    uint64_t stream;
    uint32_t index;
    uint64_t bytes;
    bool open;
    uint32_t granule; // 0: into memory
};

inline std::vector<Traffic> random_traffic(uint32_t size, uint32_t messages_a_pair, uint64_t seed) {
    static const uint64_t sizes[] = {0,    1,     4,     7,     64,    1000,   4096,   4099,
                                     8192, 16384, 65535, 65536, 65537, 100003, 150000, 400009};
    static const uint32_t granules[] = {1, 2, 3, 4, 8, 12, 16};
    std::mt19937_64 random(seed);
    std::vector<Traffic> traffic;
    for (uint32_t from = 0; from < size; from++)
        for (uint32_t to = 0; to < size; to++)
            for (uint32_t i = 0; from != to && i < messages_a_pair; i++) {
                // Several indexes a stream; streams far apart, as tags and sequence numbers are.
                Traffic t = {from, to, (i / 4) * 0x100000000u + (i / 4), i % 4, 0, i % 4 == 0, 0};
                uint64_t bytes = sizes[random() % (random() % 8 ? 12 : 16)];
                t.granule = random() % 2 ? granules[random() % 7] : 0;
                t.bytes = t.granule ? bytes - bytes % t.granule : bytes;
                traffic.push_back(t);
            }
    return traffic;
}

// Posts this rank's side of the traffic in a random order.
inline void post_traffic(Rank &rank, std::vector<Traffic> traffic, uint64_t seed, bool progress) {
    std::mt19937_64 random(seed * 1000003 + rank.rank);
    std::shuffle(traffic.begin(), traffic.end(), random);
    for (const Traffic &t : traffic) {
        if (t.from == rank.rank)
            rank.send(t.to, t.stream, t.index, t.bytes, t.open);
        if (t.to == rank.rank)
            rank.receive(t.from, t.stream, t.index, t.bytes, t.granule, random() % 4 == 0);
        if (progress && random() % 4 == 0)
            rank.progress(0);
    }
}

} // namespace harness

#endif
