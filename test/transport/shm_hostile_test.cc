// test/transport/shm_hostile_test.cc - peers of the lane shm that lie: in words, in what they hand over, and
// in the memory that both map. Whatever they do, this rank goes on or fails with an error that says so.
//
// Environment: GCOLL_TEST_SCRIBBLES is the number of scribbles over shared memory (40,000 under a sanitizer,
// which sees what they lead to; else 10,000).
#include "test/transport/raw_peer.h"
#include "test/transport/shm_support.h"

#include "test/kit/descriptors.h"
#include "test/kit/sanitizer.h"

#include <atomic>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/un.h>

extern "C" {
#include "gcoll/memory.h"
#include "transport/session/session.h"
#include "transport/shm/shm.h"
}

using namespace harness;
using gcoll_test::open_descriptors;
using raw_peer::Bytes;

namespace {

// Closes without waiting for the peer, as there are thousands of them.
void end_at_once(Rank &rank) {
    rank.transport->close(rank.endpoint, 0);
    rank.endpoint = nullptr;
}

// ---- Words and datagrams --------------------------------------------------------------------------------

constexpr uint8_t kHello = 1, kGiven = 2, kMapped = 3, kReady = 4, kBell = 5; // words
constexpr uint32_t kMemory = 2, kMappedToo = 3;                               // datagrams

// A rank that speaks what it is told to, to a real rank.
class Liar {
  public:
    // own: the liar's rank, 0 or 1.
    explicit Liar(uint32_t own)
        : own_(own), real(&gcoll_transport_shm, raw_peer::small_options_of(1 - own, 2)), raw(real.address()) {
        door_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        EXPECT_EQ(gcoll_random_bytes(&hello, sizeof hello), GCOLL_OK);
        hello.version = 4;
        hello.ring_bytes = 8192;
        hello.eager_bytes = 1000;
        hello.pool_bytes = 4096;
        hello.host = gcoll_host_identity();
        const sockaddr_un at = name(hello.name);
        EXPECT_EQ(bind(door_, reinterpret_cast<const sockaddr *>(&at), kNameBytes), 0) << strerror(errno);
        raw_peer::Hello greeting;
        greeting.from = own;
        greeting.to = 1 - own;
        greeting.token = raw_peer::token_of(real.address());
        greeting.lanes[0] = GCOLL_LANE_SHM;
        EXPECT_EQ(raw_peer::shake(
                      raw, greeting, [&](auto condition) { return real.until(condition); }),
                  0u);
        EXPECT_TRUE(real.until([&] { return words(kHello, sizeof theirs + 8) > 0; }));
        const Bytes said = last_;
        if (said.size() >= 8 + sizeof theirs)
            std::memcpy(&theirs, said.data() + 8, sizeof theirs);
    }
    ~Liar() {
        end_at_once(real);
        close(door_);
    }

    void say(const Bytes &payload, uint64_t kind = 0) {
        Bytes frame =
            raw_peer::frame(raw_peer::kLane, kind, GCOLL_LANE_SHM, 0, static_cast<uint32_t>(payload.size()));
        frame.insert(frame.end(), payload.begin(), payload.end());
        raw.say(frame);
    }
    void say_hello() {
        Bytes word(8 + sizeof hello, 0);
        word[0] = kHello;
        std::memcpy(word.data() + 8, &hello, sizeof hello);
        say(word);
    }
    void say_proof(uint8_t word, const uint8_t *proof) {
        Bytes said(1 + GCOLL_RING_PROOF, word);
        std::memcpy(said.data() + 1, proof, GCOLL_RING_PROOF);
        said.push_back(0); // it does not read other memory of the peer
        say(said);
    }

    // fds: descriptors that go with it.
    void send(uint32_t kind, const std::vector<int> &fds = {}, bool is_token_right = true,
              uint64_t block = 0) {
        struct {
            uint32_t kind, from;
            uint8_t token[GCOLL_SHM_TOKEN];
            uint64_t block;
        } d = {kind, own_, {}, block};
        std::memcpy(d.token, theirs.token, sizeof d.token);
        d.token[3] ^= is_token_right ? 0 : 1;
        const sockaddr_un to = name(theirs.name);
        iovec piece = {&d, sizeof d};
        alignas(cmsghdr) char with[CMSG_SPACE(8 * sizeof(int))] = {};
        msghdr header = {};
        header.msg_name = const_cast<sockaddr_un *>(&to);
        header.msg_namelen = kNameBytes;
        header.msg_iov = &piece;
        header.msg_iovlen = 1;
        if (!fds.empty()) {
            header.msg_control = with;
            header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
            cmsghdr *part = CMSG_FIRSTHDR(&header);
            part->cmsg_level = SOL_SOCKET;
            part->cmsg_type = SCM_RIGHTS;
            part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
            std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
        }
        EXPECT_GT(sendmsg(door_, &header, 0), 0) << strerror(errno);
    }
    // The memory that the real rank has sent; NULL: none has come. about: of it, if not NULL.
    uint8_t *receive(struct stat *about = nullptr) {
        uint8_t bytes[64];
        iovec piece = {bytes, sizeof bytes};
        alignas(cmsghdr) char with[CMSG_SPACE(sizeof(int))] = {};
        msghdr header = {};
        header.msg_iov = &piece;
        header.msg_iovlen = 1;
        header.msg_control = with;
        header.msg_controllen = sizeof with;
        if (recvmsg(door_, &header, MSG_CMSG_CLOEXEC) <= 0 || !CMSG_FIRSTHDR(&header))
            return nullptr;
        int fd;
        std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof fd);
        if (about)
            EXPECT_EQ(fstat(fd, about), 0);
        void *at = mmap(nullptr, gcoll_ring_memory(8192), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        return at == MAP_FAILED ? nullptr : static_cast<uint8_t *>(at);
    }

    // Words and refusals that have come: of this kind and size. `last_` is the latest.
    size_t words(uint8_t word, size_t bytes) {
        size_t count = 0;
        each([&](uint64_t kind, const Bytes &payload) {
            if (kind == 0 && payload.size() == bytes && payload[0] == word) {
                count++;
                last_ = payload;
            }
        });
        return count;
    }
    std::string refusal() {
        std::string text;
        each([&](uint64_t kind, const Bytes &payload) {
            if (kind == 1)
                text.assign(payload.begin(), payload.end());
        });
        return text;
    }
    const Bytes &last() const { return last_; }

    // The real rank fails. As there is no other lane, it tells its text.
    void expect_failure(const std::string &text) {
        ASSERT_TRUE(real.until([&] { return !real.failed.empty(); })) << text;
        EXPECT_EQ(real.failed[0].text, text);
    }

  private:
    static constexpr socklen_t kNameBytes = sizeof(sa_family_t) + 1 + 10 + 32;
    static sockaddr_un name(const uint8_t *random) {
        sockaddr_un at = {};
        at.sun_family = AF_UNIX;
        std::string text = "gcoll-shm-";
        char hex[3];
        for (int i = 0; i < GCOLL_SHM_TOKEN; i++) {
            snprintf(hex, sizeof hex, "%02x", random[i]);
            text += hex;
        }
        std::memcpy(at.sun_path + 1, text.data(), text.size());
        return at;
    }
    void each(const std::function<void(uint64_t, const Bytes &)> &fn) {
        const Bytes &all = raw.heard();
        size_t at = raw_peer::kAnswerBytes;
        while (at + 32 <= all.size()) {
            const size_t count = raw_peer::get(all, at + 24, 4);
            if (at + 32 + count > all.size())
                return;
            if ((all[at + 3] & 0x0f) == raw_peer::kLane)
                fn(raw_peer::get(all, at + 8, 8),
                   Bytes(all.begin() + static_cast<std::ptrdiff_t>(at + 32),
                         all.begin() + static_cast<std::ptrdiff_t>(at + 32 + count)));
            at += 32 + count;
        }
    }

    uint32_t own_;
    int door_;
    Bytes last_;

  public:
    Rank real;
    raw_peer::Raw raw;
    gcoll_shm_hello hello, theirs;
};

int memory(size_t bytes, int seals) {
    const int fd = memfd_create("gcoll-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// The test's own honesty: a liar that does not lie is taken for a peer.
TEST(ShmLies, TheTruthIsBelieved) {
    {
        Liar lower(0);
        lower.say_hello();
        const int fd = memory(gcoll_ring_memory(8192), kSeals);
        auto *at = static_cast<uint8_t *>(
            mmap(nullptr, gcoll_ring_memory(8192), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
        std::memset(gcoll_ring_side_of(at, 0)->proof, 7, GCOLL_RING_PROOF);
        lower.send(kMemory, {fd});
        lower.say({kGiven});
        ASSERT_TRUE(lower.real.until([&] { return lower.words(kMapped, 18) == 1; }));
        EXPECT_EQ(Bytes(lower.last().begin() + 1, lower.last().begin() + 17), Bytes(16, 7));
        lower.say_proof(kReady, gcoll_ring_side_of(at, 1)->proof);
        ASSERT_TRUE(lower.real.until([&] { return pair_of(lower.real, 0)->state == GCOLL_SHM_STANDS; }));
        munmap(at, gcoll_ring_memory(8192));
        close(fd);
    }
    Liar higher(1);
    higher.say_hello();
    ASSERT_TRUE(higher.real.until([&] { return higher.words(kGiven, 1) == 1; }));
    uint8_t *at = higher.receive();
    ASSERT_NE(at, nullptr);
    higher.send(kMappedToo);
    higher.say_proof(kMapped, gcoll_ring_side_of(at, 0)->proof);
    ASSERT_TRUE(higher.real.until([&] { return higher.words(kReady, 18) == 1; }));
    EXPECT_EQ(pair_of(higher.real, 1)->state, GCOLL_SHM_STANDS);
    munmap(at, gcoll_ring_memory(8192));
}

// All pages of the memory are there when it is handed over. If one were lacking when it is first touched,
// that would end the process.
TEST(ShmLies, MemoryThatIsHandedOverHasAllItsPages) {
    const size_t bytes = gcoll_ring_memory(8192);
    const int fd = memory(bytes, 0);
    const bool can_take = fallocate(fd, 0, 0, static_cast<off_t>(bytes)) == 0;
    close(fd);
    if (!can_take)
        GTEST_SKIP() << "this machine lacks fallocate for memory: " << strerror(errno);
    Liar higher(1);
    struct stat about = {};
    higher.say_hello();
    ASSERT_TRUE(higher.real.until([&] { return higher.words(kGiven, 1) == 1; }));
    uint8_t *at = higher.receive(&about);
    ASSERT_NE(at, nullptr);
    munmap(at, bytes);
    EXPECT_EQ(static_cast<size_t>(about.st_size), bytes);
    EXPECT_GE(static_cast<size_t>(about.st_blocks) * 512, bytes);
}

TEST(ShmLies, WordsThatDoNotFit) {
    const std::vector<Bytes> wrong = {{},
                                      {0},
                                      {kHello},
                                      Bytes(8 + sizeof(gcoll_shm_hello) + 1, kHello),
                                      {kGiven},
                                      {kMapped},
                                      Bytes(17, kMapped),
                                      Bytes(17, kReady),
                                      {kBell},
                                      {6},
                                      Bytes(GCOLL_LANE_WORD_MAX, 0xff)};
    for (uint32_t own : {0u, 1u})
        for (bool is_met : {false, true})
            for (const Bytes &word : wrong) {
                Liar liar(own);
                if (is_met) {
                    if ((own == 0 && word == Bytes{kGiven}) || (own == 1 && word == Bytes(17, kMapped)))
                        continue; /* what is to come; below */
                    liar.say_hello();
                }
                liar.say(word);
                liar.expect_failure("sent garbage (a word of shm that does not fit)");
            }
}

TEST(ShmLies, HellosThatCannotBe) {
    const struct {
        std::function<void(gcoll_shm_hello &)> change;
        const char *why;
    } rows[] = {
        {[](auto &h) { h.host ^= 1; }, "is on another host, or in another container or network namespace"},
        {[](auto &h) { h.version = 1; }, "speaks another version of shm"},
        {[](auto &h) { h.ring_bytes = 0; }, "has sizes that cannot be"},
        {[](auto &h) { h.ring_bytes = 8191; }, "has sizes that cannot be"},
        {[](auto &h) { h.ring_bytes = UINT32_MAX; }, "has sizes that cannot be"},
        {[](auto &h) { h.ring_bytes = 1u << 31; }, "has sizes that cannot be"},
        {[](auto &h) { h.pool_bytes = UINT64_MAX; }, "has sizes that cannot be"},
        {[](auto &h) { h.eager_bytes = h.pool_bytes + 1; }, "has sizes that cannot be"},
        {[](auto &h) { h.eager_bytes = h.pool_bytes / 2; }, "has sizes that cannot be"},
        {[](auto &h) {
             h.pool_bytes = GCOLL_FLOW_POOL_MIN - 1;
             h.eager_bytes = 1;
         },
         "has sizes that cannot be"},
        {[](auto &h) { h.name[0] ^= 1; },
         "cannot be reached by a socket of this host, as in another network namespace: Connection refused"},
    };
    for (const auto &row : rows) {
        Liar liar(1);
        row.change(liar.hello);
        liar.say_hello();
        liar.expect_failure(row.why);
    }
}

TEST(ShmLies, MemoryThatWouldBeNoGood) {
    const size_t good = gcoll_ring_memory(8192);
    const struct {
        std::function<int()> make;
        const char *why;
    } rows[] = {
        {[=] { return memory(good, 0); }, "offers memory that could shrink"},
        {[=] { return memory(good, F_SEAL_SHRINK | F_SEAL_GROW); }, "offers memory that could shrink"},
        {[=] { return memory(good, F_SEAL_GROW | F_SEAL_SEAL); }, "offers memory that could shrink"},
        {[=] { return memory(good - 1, kSeals); }, "offers memory of another size than it said"},
        {[=] { return memory(good + 4096, kSeals); }, "offers memory of another size than it said"},
        {[=] { return memory(gcoll_ring_memory(16384), kSeals); },
         "offers memory of another size than it said"},
        {[=] { return memory(0, kSeals); }, "offers memory of a size that cannot be"},
        {[=] { return memory(size_t{1} << 40, kSeals); }, "offers memory of a size that cannot be"},
        {[=] { return memory(good, kSeals | F_SEAL_WRITE); },
         "offers memory that cannot be mapped here: Operation not permitted"},
        {[] { return open("/dev/zero", O_RDWR | O_CLOEXEC); }, "offers memory that could shrink"},
        {[] { return open("/dev/null", O_RDWR | O_CLOEXEC); }, "offers memory that could shrink"},
        {[] { return -1; }, "sends no memory"},
    };
    for (const auto &row : rows) {
        const size_t before = open_descriptors();
        {
            Liar liar(0);
            const int fd = row.make();
            liar.say_hello();
            liar.send(kMemory, fd < 0 ? std::vector<int>{} : std::vector<int>{fd});
            liar.say({kGiven});
            liar.expect_failure(row.why);
            close(fd);
        }
        EXPECT_EQ(open_descriptors(), before) << row.why;
    }
}

TEST(ShmLies, WhatWasSaidToBeSentAndWasNot) {
    Liar lower(0);
    lower.say_hello();
    lower.send(kMemory, {0}, false); // for another pair
    lower.say({kGiven});
    lower.expect_failure("sent what did not come by the socket of this host");
    Liar higher(1);
    higher.say_hello();
    ASSERT_TRUE(higher.real.until([&] { return higher.words(kGiven, 1) == 1; }));
    higher.say_proof(kMapped, higher.hello.token);
    higher.expect_failure("sent what did not come by the socket of this host");
}

TEST(ShmLies, WrongProofs) {
    Liar higher(1);
    higher.say_hello();
    ASSERT_TRUE(higher.real.until([&] { return higher.words(kGiven, 1) == 1; }));
    higher.send(kMappedToo);
    higher.say_proof(kMapped, higher.hello.token);
    higher.expect_failure("does not see what this rank writes to the memory that both share");
    Liar lower(0);
    const int fd = memory(gcoll_ring_memory(8192), kSeals);
    lower.say_hello();
    lower.send(kMemory, {fd});
    lower.say({kGiven});
    ASSERT_TRUE(lower.real.until([&] { return lower.words(kMapped, 18) == 1; }));
    lower.say_proof(kReady, lower.hello.token);
    lower.expect_failure("sent garbage (a wrong proof that it shares memory)");
    close(fd);
}

// Whether descriptors for which a receiver has no room are closed, as by Linux. Emulators may keep them.
bool closes_what_has_no_room() {
    const size_t before = open_descriptors();
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
    char byte = 0;
    iovec piece = {&byte, 1};
    const std::vector<int> fds(4, ends[0]);
    alignas(cmsghdr) char with[CMSG_SPACE(4 * sizeof(int))] = {};
    msghdr header = {};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = with;
    header.msg_controllen = sizeof with;
    cmsghdr *part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(4 * sizeof(int));
    std::memcpy(CMSG_DATA(part), fds.data(), 4 * sizeof(int));
    EXPECT_EQ(sendmsg(ends[0], &header, 0), 1) << strerror(errno);
    header.msg_controllen = CMSG_SPACE(sizeof(int));
    EXPECT_EQ(recvmsg(ends[1], &header, MSG_CMSG_CLOEXEC), 1) << strerror(errno);
    part = CMSG_FIRSTHDR(&header);
    for (size_t at = CMSG_LEN(0); part && at + sizeof(int) <= part->cmsg_len; at += sizeof(int)) {
        int fd;
        std::memcpy(&fd, reinterpret_cast<uint8_t *>(part) + at, sizeof fd);
        close(fd);
    }
    close(ends[0]);
    close(ends[1]);
    return open_descriptors() == before;
}

// Datagrams of anyone on the host, many of them, with and without descriptors: none is kept, and the two
// ranks meet all the same.
TEST(ShmLies, StrangersAtTheSocket) {
    const bool closes = closes_what_has_no_room();
    const size_t before = open_descriptors();
    {
        Liar lower(0);
        lower.say_hello();
        const int fd = memory(gcoll_ring_memory(8192), kSeals);
        for (uint32_t i = 0; i < 300; i++) {
            lower.send(i % 5, std::vector<int>(i % 4, fd), i % 5 == kMemory ? false : i % 3 == 0);
            for (int turn = 0; turn < 200; turn++) // so that the socket is looked at
                lower.real.progress(0);
        }
        EXPECT_TRUE(lower.real.failed.empty());
        EXPECT_EQ(pair_of(lower.real, 0)->memory, nullptr);
        close(fd);
    }
    if (!closes)
        GTEST_SKIP() << "all but the count of descriptors: recvmsg keeps open here what has no room";
    EXPECT_EQ(open_descriptors(), before);
}

// ---- Scribbles ------------------------------------------------------------------------------------------

// Writes nonsense over memory that two ranks share, half of it where it hurts most.
class Scribbler {
  public:
    Scribbler(gcoll_shm_pair *pair, uint64_t seed)
        : memory_(static_cast<uint8_t *>(pair->memory)), bytes_(pair->memory_bytes),
          ring_bytes_(pair->ring_bytes), random_(seed) {}

    void scribble() {
        switch (random_() % 8) {
        case 0: { // what a rank says that it has taken or read, or whether it sleeps
            gcoll_ring_side *side = gcoll_ring_side_of(memory_, random_() % 2);
            if (random_() % 4 == 0)
                store(&side->pulled, random_() % 2 ? random_() % 4 : random_());
            if (random_() % 16 == 0)
                store(&side->withdrawn, random_() % 2);
            if (random_() % 2)
                store(&side->sleeps, random_());
            else
                store(&side->taken, random_() % 2 ? side->taken + 64 * (random_() % 8) : random_());
            return;
        }
        case 1:
        case 2: // a head, nearly right
            for (size_t line = random_() % (ring_bytes_ / 64), count = 1 + random_() % 64; count > 0; count--)
                put_head(line++ % (ring_bytes_ / 64));
            return;
        default: { // anything, anywhere
            const size_t count = 1 + random_() % 64, at = random_() % (bytes_ - count);
            for (size_t i = 0; i < count; i++)
                __atomic_store_n(memory_ + at + i, static_cast<uint8_t>(random_()), __ATOMIC_RELAXED);
        }
        }
    }

  private:
    template <class T> void store(T *to, uint64_t value) {
        __atomic_store_n(to, static_cast<T>(value), __ATOMIC_RELAXED);
    }
    void put_head(size_t line) {
        auto *head = reinterpret_cast<gcoll_ring_head *>(memory_ + GCOLL_RING_PAGE +
                                                         random_() % 2 * ring_bytes_ + 64 * line);
        store(&head->bytes, random_() % 4 == 0 ? sizeof(gcoll_shm_reference)
                            : random_() % 4    ? random_() % 128
                                               : random_() >> random_() % 64);
        store(&head->stream, random_() % 4);
        store(&head->total, random_() % 4 ? head->bytes + random_() % 2 * 64 : random_() >> random_() % 64);
        store(&head->index, random_() % 64);
        store(&head->credit, random_() % 4 ? 0 : random_() % 2048);
        const uint32_t flags = static_cast<uint32_t>(random_() % 8) << 8;
        store(&head->word, GCOLL_RING_MARK | flags | static_cast<uint32_t>(random_() % 11));
    }

    uint8_t *memory_;
    size_t bytes_;
    uint32_t ring_bytes_;
    std::mt19937_64 random_;
};

uint64_t scribbles_wanted() {
    const char *given = std::getenv("GCOLL_TEST_SCRIBBLES");
    return given                        ? std::strtoull(given, nullptr, 10)
           : gcoll_test::is_sanitized() ? gcoll_test::repeats(100000, 40000)
                                        : 10000;
}

// Two ranks that have met, and have messages of all kinds under way.
struct Victims {
    explicit Victims(uint64_t seed) : group(&gcoll_transport_shm, 2) {
        group.connect(0, 1);
        for (uint32_t r = 0; r < 2; r++) {
            group[r].send(1 - r, 3, 63, 8);
            group[r].receive(1 - r, 3, 63, 8);
        }
        EXPECT_TRUE(group.turn_until_done());
        for (uint32_t r = 0; seed % 2 && r < 2; r++) {
            group[r].send(1 - r, 3, 62, GCOLL_SHM_MAP_BYTES, false, false, block_of(r));
            group[1 - r].receive(r, 3, 62, GCOLL_SHM_MAP_BYTES);
        }
        EXPECT_TRUE(group.turn_until_done());
        std::mt19937_64 random(seed);
        for (uint32_t r = 0; r < 2; r++)
            for (uint32_t i = 0; i < 30; i++) {
                const uint64_t bytes = i % 10 == 9 ? 600000 : random() % 3000 / 12 * 12;
                // The largest lie in memory that the peer may have mapped.
                group[r].send(1 - r, i % 3, i, bytes, i % 4 == 0, false,
                              bytes == 600000 ? block_of(r) + 600000 * (i / 10) : nullptr);
                group[1 - r].receive(r, i % 3, i, bytes, i % 2 ? 12 : 0);
            }
    }
    // The second message of each is done at most once, and a failure has a cause that can be.
    void check() {
        for (uint32_t r = 0; r < 2; r++) {
            for (const auto &message : group[r].messages)
                EXPECT_LE(message->dones, 1);
            for (const Failed &failed : group[r].failed)
                EXPECT_TRUE(failed.status == GCOLL_ERR_PROTOCOL || failed.status == GCOLL_ERR_MISMATCH ||
                            failed.status == GCOLL_ERR_PEER || failed.status == GCOLL_ERR_NO_MEMORY)
                    << failed.status << " " << failed.text;
        }
    }
    // Blocks outlive all groups: half of the groups meet with them lent.
    static uint8_t *block_of(uint32_t rank) {
        static uint8_t *blocks[2] = {allocate(), allocate()};
        return blocks[rank];
    }
    static uint8_t *allocate() {
        void *memory = nullptr;
        EXPECT_EQ(gcoll_memory_alloc(1800000, &memory), GCOLL_OK);
        return static_cast<uint8_t *>(memory);
    }
    Group group;
};

// Scribbles between the steps of both ranks: repeatable by its seed.
TEST(ShmScribbles, BetweenStepsOfBothRanks) {
    const uint64_t wanted = scribbles_wanted() / 5; // a meeting takes longer than they do
    uint64_t done = 0, rounds = 0, failures = 0;
    for (; done < wanted; rounds++) {
        SCOPED_TRACE("round " + std::to_string(rounds));
        Victims victims(rounds);
        Group &group = victims.group;
        Scribbler scribbler(pair_of(group[rounds % 2], 1 - rounds % 2), rounds);
        const uint64_t a_step = 1 + rounds % 16;
        for (int step = 0; step < 60 && group[0].failed.empty() && group[1].failed.empty(); step++) {
            for (uint64_t i = 0; i < a_step; i++, done++)
                scribbler.scribble();
            for (uint32_t r = 0; r < 2; r++)
                group[r].progress(0);
        }
        failures += !group[0].failed.empty() || !group[1].failed.empty();
        victims.check();
        for (uint32_t r = 0; r < 2; r++)
            end_at_once(group[r]);
        ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(failures, rounds / 4) << "of " << rounds;
}

// Scribbles of another thread at any moment, while this one reads and writes.
TEST(ShmScribbles, AtAnyMoment) {
    const uint64_t wanted = scribbles_wanted();
    std::atomic<uint64_t> done{0};
    uint64_t rounds = 0, failures = 0;
    for (; done < wanted; rounds++) {
        SCOPED_TRACE("round " + std::to_string(rounds));
        Victims victims(rounds);
        Rank &rank = victims.group[0];
        std::atomic<bool> is_over{false};
        Scribbler scribbler(pair_of(victims.group[1], 0), rounds);
        std::thread other([&] {
            while (!is_over) {
                scribbler.scribble();
                done++;
                if (done % 64 == 0)
                    std::this_thread::yield();
            }
        });
        const uint64_t before = done;
        const auto begun = Clock::now();
        while (rank.failed.empty() && done - before < 5000 && Clock::now() - begun < std::chrono::seconds(1))
            rank.progress(0);
        is_over = true;
        other.join();
        failures += !rank.failed.empty();
        victims.check();
        for (uint32_t r = 0; r < 2; r++)
            end_at_once(victims.group[r]);
        ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(failures, rounds / 4) << "of " << rounds;
}

} // namespace
