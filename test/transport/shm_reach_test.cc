// test/transport/shm_reach_test.cc - messages over the lane shm that the receiver reads in the sender's
// memory, whatever memory that is: which ones, what stands in their way, and peers that die or lie meanwhile.
#include "test/transport/raw_peer.h"
#include "test/transport/shm_support.h"

#include "test/kit/descriptors.h"
#include "test/kit/forbidden_call.h"

#include <csignal>
#include <sys/mman.h>
#include <sys/wait.h>

using namespace harness;
using gcoll_test::open_descriptors;

namespace {

constexpr uint64_t kLarge = 1 << 20; // of two ranks: read whatever is in it

// Whether the kernel lets this process be read at all.
bool can_reach() {
    Group group(shm(), 2);
    meet(group);
    return pair_of(group[0], 1)->reaches && pair_of(group[1], 0)->reaches;
}
#define NEEDS_REACH()                                                                                        \
    if (!can_reach())                                                                                        \
    GTEST_SKIP() << "this machine lacks process_vm_readv between processes of a user"

uint64_t pulled(Group &group, uint32_t by) {
    return pair_of(group[by], 1 - by)->pulls.count;
}

// Both send; granule as in Rank::receive.
void exchange(Group &group, uint32_t index, uint64_t bytes, uint32_t granule = 0, bool settled = false) {
    for (uint32_t r = 0; r < 2; r++)
        group[r].receive(1 - r, 5, index, bytes, granule);
    for (uint32_t r = 0; r < 2; r++) {
        group[r].settles = settled;
        group[r].send(1 - r, 5, index, bytes);
    }
    ASSERT_TRUE(group.turn_until_done());
    for (uint32_t r = 0; r < 2; r++)
        group[r].check();
}

TEST(ShmReach, WhatIsReadAndWhatGoesThroughTheRing) {
    NEEDS_REACH();
    const struct {
        uint64_t bytes;
        uint32_t granule;
        bool settled;
        uint64_t read;
    } rows[] = {
        {kLarge, 0, false, 1},
        {kLarge + 1, 0, false, 1},
        {kLarge - 1, 0, false, 0},          // written just now, so the ring is as fast
        {kLarge - 1, 0, true, 1},           //
        {kLarge, 4, false, 0},              // reduced
        {GCOLL_SHM_PULL_BYTES, 0, true, 1}, //
        {GCOLL_SHM_PULL_BYTES - 1, 0, true, 0},
        {UINT64_C(4) << 20, 0, true, 0}, // put past the caches
        {(UINT64_C(4) << 20) - 1, 0, true, 1},
    };
    uint32_t index = 0;
    Group group(shm(), 2);
    meet(group);
    for (const auto &row : rows) {
        SCOPED_TRACE(std::to_string(row.bytes));
        const uint64_t before[] = {pulled(group, 0), pulled(group, 1)};
        exchange(group, index++, row.bytes, row.granule, row.settled);
        for (uint32_t r = 0; r < 2; r++)
            EXPECT_EQ(pulled(group, r) - before[r], row.read) << "by rank " << r;
    }
    // A message one way: the sender has nothing to read meanwhile.
    const uint64_t before = pulled(group, 1);
    group[1].receive(0, 6, 0, kLarge);
    group[0].send(1, 6, 0, kLarge);
    ASSERT_TRUE(group.turn_until_done());
    EXPECT_EQ(pulled(group, 1), before);
}

TEST(ShmReach, EitherSideTurnsItOff) {
    for (const char *off : {"shm:pull_bytes=0", "shm"}) {
        const Lanes lanes(off);
        Group group(shm(), 2);
        meet(group);
        if (pair_of(group[0], 1)->is_reached && strcmp(off, "shm") == 0)
            pair_of(group[0], 1)->is_reached = false; // as its peer would have said
        exchange(group, 0, kLarge);
        EXPECT_EQ(pulled(group, 1), 0u);
    }
}

// Where the kernel forbids it, as in many containers, all goes through the ring.
TEST(ShmReach, WithoutTheSystemCallItGoesThroughTheRing) {
    std::string lacking;
    std::thread([&] { // drives both ranks
        lacking = gcoll_test::forbid(SYS_process_vm_readv, 6, 0, EPERM);
        if (!lacking.empty())
            return;
        Group group(shm(), 2);
        meet(group);
        EXPECT_FALSE(pair_of(group[0], 1)->reaches || pair_of(group[0], 1)->is_reached);
        exchange(group, 0, 3 * kLarge);
        EXPECT_EQ(pulled(group, 0) + pulled(group, 1), 0u);
    })
        .join();
    if (!lacking.empty())
        GTEST_SKIP() << "this machine lacks " << lacking;
}

// Memory that this process has and the kernel does not copy for others, as that of some devices: here pages
// that nobody may read, under a message that is never looked at, as it is aborted before.
TEST(ShmReach, MemoryThatCannotBeReadGoesThroughTheRing) {
    NEEDS_REACH();
    Group group(shm(), 2);
    meet(group);
    void *memory = mmap(nullptr, 2 * kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    std::memset(memory, 1, 2 * kLarge);
    gcoll_message message = {};
    message.data = memory;
    message.bytes = 2 * kLarge;
    message.flags = GCOLL_FLOW_GRANTED_PLAIN;
    group[0].receive(1, 5, 0, 8);
    EXPECT_TRUE(gcoll_shm_is_in_reach(pair_of(group[0], 1), &message));
    ASSERT_EQ(mprotect(static_cast<char *>(memory) + kLarge, kLarge, PROT_NONE), 0);
    EXPECT_FALSE(gcoll_shm_is_in_reach(pair_of(group[0], 1), &message));
    munmap(memory, 2 * kLarge);
    group[1].send(0, 5, 0, 8);
    EXPECT_TRUE(group.turn_until_done());
}

// A receive that is posted late finds what was held; with a large limit, messages come unasked.
TEST(ShmReach, UnexpectedMessagesGoThroughTheRing) {
    NEEDS_REACH();
    const Lanes lanes("shm:eager_bytes=2Mi:pool_bytes=16Mi");
    Group group(shm(), 2);
    meet(group);
    for (uint32_t r = 0; r < 2; r++)
        group[r].send(1 - r, 5, 0, kLarge);
    for (int i = 0; i < 1000; i++)
        for (uint32_t r = 0; r < 2; r++)
            group[r].progress(0);
    for (uint32_t r = 0; r < 2; r++)
        group[r].receive(1 - r, 5, 0, kLarge);
    ASSERT_TRUE(group.turn_until_done());
    for (uint32_t r = 0; r < 2; r++) {
        group[r].check();
        EXPECT_EQ(pulled(group, r), 0u);
    }
}

// ---- Lies -----------------------------------------------------------------------------------------------

// Rank 1 refers to its memory, and lies; rank 0 waits for message (3, 0).
struct ReachLiar {
    explicit ReachLiar(uint32_t granule = 0) : group(shm(), 2) {
        meet(group);
        got = &group[0].receive(1, 3, 0, kLarge, granule);
        for (int i = 0; i < 100; i++)
            for (uint32_t r = 0; r < 2; r++)
                group[r].progress(0); // it is granted
    }
    // The message that rank 1 would write if it were asked to; NULL: none.
    void refer(uint64_t address, gcoll_message *message = nullptr) {
        gcoll_shm_pair *liar = pair_of(group[1], 0);
        const gcoll_shm_reference to = {0, address};
        gcoll_ring_head head = {};
        head.word = GCOLL_RING_MARK | GCOLL_SHM_REFERS;
        head.stream = 3;
        head.total = kLarge;
        head.bytes = sizeof to;
        ASSERT_TRUE(gcoll_shm_put(liar, &head, nullptr, &to));
        if (message)
            gcoll_message_push(&liar->pulls.lent, message);
        liar->pulls.lent_count++;
        liar->pulls.lent_bytes += kLarge;
    }
    void expect(gcoll_status status, const std::string &text) {
        ASSERT_TRUE(group[0].until([&] { return !group[0].failed.empty(); })) << text;
        EXPECT_EQ(group[0].failed[0].status, status);
        EXPECT_EQ(group[0].failed[0].text, text);
        EXPECT_EQ(got->dones, 0);
    }
    Group group;
    Message *got = nullptr;
};

TEST(ShmReachLies, TheTruthIsBelieved) {
    NEEDS_REACH();
    ReachLiar liar;
    std::vector<uint8_t> memory(kLarge);
    write_pattern(memory.data(), 1, 0, 3, 0, kLarge);
    liar.refer(reinterpret_cast<uintptr_t>(memory.data()));
    EXPECT_TRUE(liar.group[0].until_done());
    liar.group[0].check();
}

// No sender refers to what is reduced, but a peer that does is believed: pieces that hold whole elements.
TEST(ShmReachLies, WhatIsReducedMayBeReferredToAsWell) {
    NEEDS_REACH();
    for (uint32_t granule : {1u, 4u, 16u}) {
        ReachLiar liar(granule);
        std::vector<uint8_t> memory(kLarge);
        write_pattern(memory.data(), 1, 0, 3, 0, kLarge);
        liar.refer(reinterpret_cast<uintptr_t>(memory.data()));
        EXPECT_TRUE(liar.group[0].until_done());
        liar.group[0].check();
        EXPECT_EQ(pulled(liar.group, 0), 1u);
    }
}

// ---- Memory that can be read no more --------------------------------------------------------------------

// Drives a rank by this thread, whose reads fail from now on. Returns what is lacking for that, or "".
std::string drive_without_reading(Rank *rank) {
    const std::string lacking = gcoll_test::forbid(SYS_process_vm_readv, 6, 0, EPERM);
    if (lacking.empty() && rank)
        EXPECT_TRUE(rank->until_done());
    return lacking;
}

// A right that ends while a job runs is nobody's death: what was referred to is written instead.
TEST(ShmReach, ARightThatEndsMeanwhile) {
    NEEDS_REACH();
    std::string lacking;
    std::thread([&] { lacking = drive_without_reading(nullptr); }).join();
    if (!lacking.empty())
        GTEST_SKIP() << "this machine lacks " << lacking;
    for (uint32_t messages : {1u, 2u, 7u}) {
        SCOPED_TRACE(messages);
        Group group(shm(), 2);
        meet(group);
        exchange(group, 0, kLarge);
        ASSERT_EQ(pulled(group, 1), 1u);
        for (uint32_t i = 1; i <= messages; i++)
            for (uint32_t r = 0; r < 2; r++)
                group[r].receive(1 - r, 5, i, kLarge + i);
        for (int i = 0; i < 100; i++)
            for (uint32_t r = 0; r < 2; r++)
                group[r].progress(0); // grants
        for (uint32_t i = 1; i <= messages; i++)
            group[0].send(1, 5, i, kLarge + i);
        ASSERT_TRUE(group[0].until([&] { return pair_of(group[0], 1)->pulls.lent.first; }));
        for (uint32_t i = 1; i <= messages; i++)
            group[1].send(0, 5, i, kLarge + i);
        std::thread reader(drive_without_reading, &group[1]);
        EXPECT_TRUE(group[0].until_done());
        reader.join();
        for (uint32_t r = 0; r < 2; r++)
            group[r].check();
        EXPECT_EQ(pulled(group, 1), 1u);
        EXPECT_FALSE(pair_of(group[0], 1)->is_reached);
        exchange(group, messages + 1, kLarge);
        EXPECT_EQ(pulled(group, 1), 1u);
    }
}

// Pages that a handler of signals makes readable, as programs do that look after their own pages. The kernel
// gives up there; the sender, which owns them, does not.
uint8_t *guarded_pages;
constexpr size_t kGuarded = 64 << 10;
void unguard(int) {
    if (mprotect(guarded_pages, kGuarded, PROT_READ | PROT_WRITE) != 0)
        _exit(99);
}
class Guard {
  public:
    Guard(void *memory, size_t at, int protection) {
        const uintptr_t begin = reinterpret_cast<uintptr_t>(memory) + at;
        guarded_pages = reinterpret_cast<uint8_t *>((begin + kGuarded - 1) / kGuarded * kGuarded);
        struct sigaction handler = {};
        handler.sa_handler = unguard;
        EXPECT_EQ(sigaction(SIGSEGV, &handler, &before_), 0);
        EXPECT_EQ(mprotect(guarded_pages, kGuarded, protection), 0);
    }
    ~Guard() {
        unguard(0);
        EXPECT_EQ(sigaction(SIGSEGV, &before_, nullptr), 0);
    }
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;

  private:
    struct sigaction before_ = {};
};

// Also where part of it has been read, and reduced: nothing is taken twice.
TEST(ShmReach, ASendersProtectedPagesAreWrittenByItself) {
    NEEDS_REACH();
    for (uint32_t granule : {0u, 1u, 4u, 16u}) {
        SCOPED_TRACE(granule);
        ReachLiar liar(granule);
        std::vector<uint8_t> memory(kLarge);
        write_pattern(memory.data(), 1, 0, 3, 0, kLarge);
        gcoll_message message = {};
        message.data = memory.data();
        message.bytes = kLarge;
        message.stream = 3;
        int dones = 0;
        message.owner = &dones;
        message.done = [](gcoll_message *ended) { ++*static_cast<int *>(ended->owner); };
        const Guard guard(memory.data(), kLarge / 2, PROT_NONE);
        liar.refer(reinterpret_cast<uintptr_t>(memory.data()), &message);
        ASSERT_TRUE(liar.group[0].until([&] {
            liar.group[1].progress(0);
            return liar.got->dones > 0 || !liar.group[0].failed.empty();
        }));
        liar.group[0].check();
        EXPECT_TRUE(liar.group[1].until([&] { return dones > 0; }));
        EXPECT_EQ(dones, 1);
        EXPECT_EQ(pulled(liar.group, 0), 0u);
        EXPECT_GE(pair_of(liar.group[0], 1)->pulls.bytes, kLarge / 4); // had been read before
    }
}

// Pages that are not there yet may take long to come, in the kernel, where nobody looks at the time.
TEST(ShmReach, PagesThatAreNotInMemoryGoThroughTheRing) {
    NEEDS_REACH();
    Group group(shm(), 2);
    meet(group);
    group[0].receive(1, 5, 0, 8);
    auto *memory = static_cast<uint8_t *>(
        mmap(nullptr, 2 * kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    ASSERT_TRUE(madvise(memory, 2 * kLarge, MADV_NOHUGEPAGE) == 0 || errno == EINVAL); // there are none
    for (size_t at = 0; at < 2 * kLarge; at += 512)
        memory[at] = 1;
    gcoll_message message = {};
    message.data = memory + 100;
    message.bytes = 2 * kLarge - 200;
    message.flags = GCOLL_FLOW_GRANTED_PLAIN;
    EXPECT_TRUE(gcoll_shm_is_in_reach(pair_of(group[0], 1), &message));
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    for (size_t at : {page, kLarge, 2 * kLarge - 2 * page}) {
        ASSERT_EQ(madvise(memory + at, page, MADV_DONTNEED), 0);
        EXPECT_FALSE(gcoll_shm_is_in_reach(pair_of(group[0], 1), &message)) << at;
        memory[at] = 1;
        EXPECT_TRUE(gcoll_shm_is_in_reach(pair_of(group[0], 1), &message)) << at;
    }
    munmap(memory, 2 * kLarge);
    group[1].send(0, 5, 0, 8);
    EXPECT_TRUE(group.turn_until_done());
}

// The receiver's memory is its own: what the kernel may not write to, the process does.
TEST(ShmReach, AReceiversProtectedPagesAreItsOwnAffair) {
    NEEDS_REACH();
    ReachLiar liar;
    std::vector<uint8_t> memory(kLarge);
    write_pattern(memory.data(), 1, 0, 3, 0, kLarge);
    {
        const Guard guard(liar.got->m.data, kLarge / 2, PROT_READ);
        liar.refer(reinterpret_cast<uintptr_t>(memory.data()));
        EXPECT_TRUE(liar.group[0].until_done());
    }
    liar.group[0].check();
    EXPECT_EQ(pulled(liar.group, 0), 1u);
}

// The receiver asks for what it cannot read. A peer that has nothing to write then says so.
TEST(ShmReachLies, AddressesOfNothing) {
    NEEDS_REACH();
    for (uint64_t address : {UINT64_C(0), UINT64_C(4096), UINT64_MAX / 2, UINT64_MAX - kLarge}) {
        ReachLiar liar;
        liar.refer(address);
        ASSERT_TRUE(liar.group[1].until([&] {
            liar.group[0].progress(0);
            return !liar.group[1].failed.empty();
        }));
        EXPECT_EQ(liar.group[1].failed[0].text, "sent garbage (it asks for a message that was not lent)");
        EXPECT_EQ(liar.got->dones, 0);
    }
    ReachLiar liar;
    liar.refer(UINT64_MAX - kLarge + 1);
    liar.expect(GCOLL_ERR_PROTOCOL, "sent garbage (a message beyond all memory)");
}

TEST(ShmReachLies, ARestThatIsNotAPartOfWhatWasLent) {
    NEEDS_REACH();
    const struct {
        uint64_t stream, total;
        uint32_t index, times;
    } rows[] = {{6, 0, 0, 1}, {5, 0, 1, 1}, {5, kLarge, 0, 1}, {5, UINT64_MAX, 0, 1}, {5, 0, 0, 2}};
    for (const auto &row : rows) {
        Group group(shm(), 2);
        meet(group);
        for (uint32_t r = 0; r < 2; r++)
            group[r].receive(1 - r, 5, 0, kLarge);
        for (int i = 0; i < 100; i++)
            for (uint32_t r = 0; r < 2; r++)
                group[r].progress(0); // grants
        const Message &sent = group[0].send(1, 5, 0, kLarge);
        ASSERT_TRUE(group[0].until([&] { return pair_of(group[0], 1)->pulls.lent.first; }));
        gcoll_ring_head head = {};
        head.word = GCOLL_RING_MARK | GCOLL_SHM_UNREAD;
        head.stream = row.stream;
        head.total = row.total;
        head.index = row.index;
        for (uint32_t i = 0; i < row.times; i++)
            ASSERT_TRUE(gcoll_shm_put(pair_of(group[1], 0), &head, nullptr, nullptr));
        ASSERT_TRUE(group[0].until([&] { return !group[0].failed.empty(); }));
        EXPECT_EQ(group[0].failed[0].status, GCOLL_ERR_PROTOCOL);
        EXPECT_EQ(group[0].failed[0].text, "sent garbage (it asks for a message that was not lent)");
        EXPECT_EQ(sent.dones, 0);
    }
}

TEST(ShmReachLies, AReferenceToOneWhoDoesNotRead) {
    const Lanes lanes("shm:pull_bytes=0");
    ReachLiar liar;
    std::vector<uint8_t> memory(kLarge);
    liar.refer(reinterpret_cast<uintptr_t>(memory.data()));
    liar.expect(GCOLL_ERR_PROTOCOL, "sent garbage (a message in a block that it has not lent)");
}

// The process has another program, or another process has its number: its token is not where it was.
TEST(ShmReachLies, AnotherProcessIsNotTakenForThePeer) {
    NEEDS_REACH();
    ReachLiar liar;
    std::vector<uint8_t> memory(kLarge);
    pair_of(liar.group[1], 0)->own.token[0] ^= 1;
    liar.refer(reinterpret_cast<uintptr_t>(memory.data()));
    liar.expect(GCOLL_ERR_PEER, "has ended, or is another process than the one that was met");
}

// ---- The end of a peer ----------------------------------------------------------------------------------

// A process that is killed while its memory is read: the message does not come, or whole, and its end is
// told.
TEST(ShmReach, AKilledSender) {
    NEEDS_REACH();
    take_descriptors_of_process();
    const size_t before = open_descriptors();
    constexpr uint64_t kBytes = (4 << 20) - 8;
    for (int how = 0; how < 4; how++) {
        int up[2], down[2];
        ASSERT_EQ(pipe(up), 0);
        ASSERT_EQ(pipe(down), 0);
        fflush(nullptr);
        const pid_t child = fork();
        const uint32_t own = child == 0 ? 1 : 0;
        const int in = child == 0 ? down[0] : up[0], out = child == 0 ? up[1] : down[1];
        if (child == 0)
            alarm(100);
        {
            Rank rank(shm(), options_of(own, 2));
            char text[GCOLL_ADDRESS_MAX] = {};
            std::memcpy(text, rank.address().c_str(), rank.address().size());
            ASSERT_EQ(write(out, text, sizeof text), static_cast<ssize_t>(sizeof text));
            ASSERT_EQ(read(in, text, sizeof text), static_cast<ssize_t>(sizeof text));
            for (int fd : {up[0], up[1], down[0], down[1]})
                close(fd);
            ASSERT_EQ(shm()->connect(rank.endpoint, 1 - own, text), GCOLL_OK);
            rank.send(1 - own, 1, 0, kLarge);
            rank.receive(1 - own, 1, 0, kLarge);
            ASSERT_TRUE(rank.until_done());
            const Message &got = rank.receive(1 - own, 2, 0, kBytes);
            if (child == 0) {
                rank.send(0, 2, 0, kBytes);
                EXPECT_TRUE(rank.until([&] { return pair_of(rank, 0)->pulls.lent_count > 1; }));
                for (int i = 0; i < 100 * how; i++)
                    sched_yield();
                kill(getpid(), SIGKILL);
            }
            ASSERT_TRUE(rank.until([&] { return !rank.failed.empty(); }));
            EXPECT_EQ(rank.failed[0].status, GCOLL_ERR_PEER);
            EXPECT_EQ(rank.failed[0].text, "closed the connection");
            if (got.dones > 0)
                rank.check();
        }
        int ended = 0;
        ASSERT_EQ(waitpid(child, &ended, 0), child);
        EXPECT_TRUE(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL) << ended;
    }
    EXPECT_EQ(open_descriptors(), before);
}

} // namespace
