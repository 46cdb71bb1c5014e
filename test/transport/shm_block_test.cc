// test/transport/shm_block_test.cc - memory of gcoll_memory_alloc over the lane shm: messages that the
// receiver reads where they lie, blocks that come and go, and peers that die, abort or lie meanwhile.
#include "test/transport/raw_peer.h"
#include "test/transport/shm_support.h"

#include "test/kit/descriptors.h"
#include "test/kit/forbidden_call.h"
#include "test/kit/sanitizer.h"

#include <atomic>
#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern "C" {
#include "gcoll/base/block.h"
#include "gcoll/base/fork.h"
#include "gcoll/memory.h"
#include "transport/session/connect.h"
#include "transport/session/session.h"
#include "transport/shm/shm.h"
}

using namespace harness;
using gcoll_test::open_descriptors;

namespace {

constexpr uint64_t kMap = GCOLL_SHM_MAP_BYTES;

class Block {
  public:
    explicit Block(size_t bytes) {
        void *memory = nullptr;
        EXPECT_EQ(gcoll_memory_alloc(bytes, &memory), GCOLL_OK) << gcoll_last_error();
        at_ = static_cast<uint8_t *>(memory);
    }
    ~Block() { free(); }
    Block(const Block &) = delete;
    Block &operator=(const Block &) = delete;
    void free() {
        EXPECT_EQ(gcoll_memory_free(at_), GCOLL_OK) << gcoll_last_error();
        at_ = nullptr;
    }
    uint8_t *at() const { return at_; }

  private:
    uint8_t *at_ = nullptr;
};

// Mappings of this process of blocks, its own and its peers'.
uint32_t block_mappings() {
    return gcoll_test::mappings("gcoll-memory");
}
// Of blocks that ranks of this process have and `lent` of them have mapped once more. With ThreadSanitizer
// both use one mapping.
uint32_t mappings_of(uint32_t blocks, uint32_t lent) {
    return blocks + (&__tsan_init ? 0 : lent);
}

// Sends a message of a block, which the peer maps then. Its stream is of no other message.
void lend(Group &group, uint32_t from, uint32_t to, uint8_t *at, uint64_t bytes = kMap) {
    static std::atomic<uint64_t> stream{1000000};
    const uint64_t its = stream++;
    gcoll_block_place place;
    ASSERT_TRUE(gcoll_block_find(at, bytes, &place));
    group[from].send(to, its, 0, bytes, false, false, at);
    group[to].receive(from, its, 0, bytes);
    ASSERT_TRUE(group.turn_until_done());
    ASSERT_TRUE(group.turn([&] { return pair_of(group[from], to)->blocks.asked.id == 0; }));
    ASSERT_NE(gcoll_shm_find_block(pair_of(group[to], from), place.id), nullptr);
}

uint64_t pulled(Group &group, uint32_t by, uint32_t from) {
    return pair_of(group[by], from)->pulls.count;
}

// ---- Memory ---------------------------------------------------------------------------------------------

TEST(Memory, IsZeroAndAlignedAndLeavesNothing) {
    const size_t before = open_descriptors();
    {
        std::vector<std::unique_ptr<Block>> blocks;
        for (size_t bytes : {size_t{1}, size_t{4096}, size_t{4097}, size_t{40} << 20}) {
            blocks.push_back(std::make_unique<Block>(bytes));
            uint8_t *at = blocks.back()->at();
            EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % static_cast<size_t>(sysconf(_SC_PAGESIZE)), 0u);
            EXPECT_EQ(std::count(at, at + bytes, 0), static_cast<std::ptrdiff_t>(bytes));
            std::fill_n(at, bytes, uint8_t{7});
        }
        EXPECT_EQ(open_descriptors(), before + 4);
        EXPECT_EQ(block_mappings(), 4u);
    }
    EXPECT_EQ(open_descriptors(), before);
    EXPECT_EQ(block_mappings(), 0u);
}

TEST(Memory, WrongArguments) {
    void *memory = nullptr;
    uint8_t local = 0;
    EXPECT_EQ(gcoll_memory_alloc(0, &memory), GCOLL_ERR_INVALID);
    EXPECT_EQ(std::string(gcoll_last_error()).find("bytes: is 0; allowed are 1 to "), 0u);
    EXPECT_EQ(gcoll_memory_alloc(1, nullptr), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_memory_alloc(SIZE_MAX, &memory), GCOLL_ERR_INVALID);
    EXPECT_EQ(gcoll_memory_alloc(size_t{1} << 46, &memory), GCOLL_ERR_NO_MEMORY) << gcoll_last_error();
    EXPECT_EQ(gcoll_memory_free(nullptr), GCOLL_OK);
    EXPECT_EQ(gcoll_memory_free(&local), GCOLL_ERR_INVALID);
    Block block(8192);
    EXPECT_EQ(gcoll_memory_free(block.at() + 4096), GCOLL_ERR_INVALID);
    EXPECT_NE(std::string(gcoll_last_error()).find("allowed is what gcoll_memory_alloc has given"),
              std::string::npos);
    Block other(8192);
    uint8_t *at = other.at();
    other.free();
    EXPECT_EQ(gcoll_memory_free(at), GCOLL_ERR_INVALID);
}

// The kernel would end the process by a signal.
TEST(Memory, LimitsAreHeeded) {
    rlimit before = {}, low = {};
    void *memory = nullptr;
    const size_t descriptors = open_descriptors();
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    low = before;
    low.rlim_cur = 8191;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
    EXPECT_EQ(gcoll_memory_alloc(8192, &memory), GCOLL_ERR_NO_MEMORY);
    const std::string text = gcoll_last_error();
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(text, "gcoll_memory_alloc of 8192 bytes: cannot set the size of memory to share: " +
                        std::string(strerror(EFBIG)));
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = 0;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    EXPECT_EQ(gcoll_memory_alloc(8192, &memory), GCOLL_ERR_NO_MEMORY);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(open_descriptors(), descriptors);
    EXPECT_EQ(block_mappings(), 0u);
}

TEST(Memory, BlocksAreFoundByTheirBytes) {
    const Block one(10000), two(8192);
    gcoll_block_place place = {}, again = {};
    ASSERT_TRUE(gcoll_block_find(one.at() + 5000, 7288, &place)); // to the end of the page
    EXPECT_EQ(place.start, one.at());
    EXPECT_EQ(place.offset, 5000u);
    EXPECT_EQ(place.bytes, 12288u);
    EXPECT_FALSE(gcoll_block_find(one.at() + 5000, 7289, &again));
    EXPECT_FALSE(gcoll_block_find(one.at() + 5000, UINT64_MAX, &again));
    EXPECT_FALSE(gcoll_block_find(&place, 1, &again));
    ASSERT_TRUE(gcoll_block_find(two.at(), 8192, &again));
    EXPECT_NE(again.id, place.id);
    EXPECT_TRUE(gcoll_block_is_alive(&place));
    std::vector<uint64_t> ids;
    for (int i = 0; i < 100; i++) { // most get the same address
        const Block block(4096);
        ASSERT_TRUE(gcoll_block_find(block.at(), 1, &again));
        ids.push_back(again.id);
    }
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
    EXPECT_FALSE(gcoll_block_is_alive(&again));
}

// Any number of threads, and no block is lost or found in another's place.
TEST(Memory, ThreadsAllocateAndFreeAtOnce) {
    std::vector<std::thread> threads;
    std::atomic<uint32_t> wrong{0};
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&] {
            for (int i = 0; i < 200; i++) {
                void *memory = nullptr;
                gcoll_block_place place;
                wrong += gcoll_memory_alloc(4096, &memory) != GCOLL_OK;
                *static_cast<uint8_t *>(memory) = 1;
                wrong += !gcoll_block_find(memory, 4096, &place) || place.start != memory;
                wrong += gcoll_memory_free(memory) != GCOLL_OK;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(block_mappings(), 0u);
}

// A forked child has neither blocks nor descriptors of its parent, and may have blocks of its own.
TEST(Memory, AForkedChildHasNoPartInIt) {
    const bool can_keep = gcoll_test::can_keep_from_children();
    Block block(1 << 20);
    gcoll_block_place place;
    ASSERT_TRUE(gcoll_block_find(block.at(), 1, &place));
    gcoll_fork_hold();
    const int fd = gcoll_block_descriptor_held(&place);
    gcoll_fork_release();
    block.at()[5] = 9;
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        alarm(30);
        struct stat about = {};
        void *memory = nullptr;
        int wrong = can_keep && block_mappings() != 0 ? 1 : 0;
        wrong |= fstat(fd, &about) == 0 && about.st_size > 0 ? 2 : 0;
        wrong |= gcoll_block_find(block.at(), 1, &place) ? 4 : 0;
        wrong |= gcoll_memory_free(block.at()) != GCOLL_ERR_INVALID ? 8 : 0;
        wrong |= gcoll_memory_alloc(1 << 20, &memory) != GCOLL_OK ? 16 : 0;
        wrong |= !gcoll_block_find(memory, 1, &place) ? 32 : 0;
        wrong |= gcoll_memory_free(memory) != GCOLL_OK ? 64 : 0;
        _exit(wrong);
    }
    int ended = 0;
    ASSERT_EQ(waitpid(child, &ended, 0), child);
    EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0) << "the child ended with " << ended;
    EXPECT_EQ(block.at()[5], 9);
    EXPECT_TRUE(gcoll_block_is_alive(&place));
    if (!can_keep)
        GTEST_SKIP() << "all but the mapping: madvise(MADV_DONTFORK) does nothing here";
}

// A forked child that has closed all descriptors may have others under their numbers, which stay open.
TEST(Memory, AForkedChildKeepsWhatItHasOpened) {
    const Block blocks[2] = {Block(4096), Block(4096)};
    int numbers[2];
    for (int i = 0; i < 2; i++) {
        gcoll_block_place place;
        ASSERT_TRUE(gcoll_block_find(blocks[i].at(), 1, &place));
        gcoll_fork_hold();
        numbers[i] = gcoll_block_descriptor_held(&place);
        gcoll_fork_release();
    }
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        alarm(30);
        void *memory = nullptr;
        int ends[2], wrong = 0;
        char byte = 0;
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
        if (pipe(ends) != 0)
            _exit(1);
        const int high[2] = {fcntl(ends[0], F_DUPFD, 512), fcntl(ends[1], F_DUPFD, 512)};
        close(ends[0]);
        close(ends[1]);
        if (dup2(high[0], numbers[0]) < 0 || dup2(high[1], numbers[1]) < 0)
            _exit(2);
        wrong |= gcoll_memory_alloc(4096, &memory) != GCOLL_OK ? 4 : 0;
        wrong |= gcoll_memory_free(memory) != GCOLL_OK ? 8 : 0;
        wrong |= gcoll_memory_free(blocks[0].at()) != GCOLL_ERR_INVALID ? 16 : 0;
        wrong |= write(numbers[1], "x", 1) != 1 ? 32 : 0;
        wrong |= read(numbers[0], &byte, 1) != 1 || byte != 'x' ? 64 : 0;
        _exit(wrong);
    }
    int ended = 0;
    ASSERT_EQ(waitpid(child, &ended, 0), child);
    EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == 0) << "the child ended with " << ended;
}

// A signal undoes the taking of pages that it interrupts.
TEST(Memory, SignalsWithoutAnEndAreAnError) {
    const size_t before = open_descriptors();
    std::string lacking;
    std::thread([&] {
        void *memory = nullptr;
        lacking = gcoll_test::forbid(SYS_fallocate, 9, 0, EINTR);
        if (!lacking.empty())
            return;
        EXPECT_EQ(gcoll_memory_alloc(8192, &memory), GCOLL_ERR_IO);
        EXPECT_EQ(
            std::string(gcoll_last_error()),
            "gcoll_memory_alloc of 8192 bytes: signals leave no time to take pages of memory to share: " +
                std::string(strerror(EINTR)));
    }).join();
    EXPECT_EQ(open_descriptors(), before);
    EXPECT_EQ(block_mappings(), 0u);
    if (!lacking.empty())
        GTEST_SKIP() << "this machine lacks " << lacking;
}

// ---- Messages -------------------------------------------------------------------------------------------

// Messages of all sizes, at all offsets, in both directions, to memory and reduced, in one stream with others
// that go through the ring.
TEST(ShmPulls, AllSizesAtAllOffsetsAmongOthers) {
    constexpr size_t kBytes = size_t{24} << 20;
    const Lanes lanes("shm:pull_bytes=0"); // what is in no block goes through the ring
    take_descriptors_of_process();
    const size_t before = open_descriptors();
    {
        Group group(shm(), 2);
        const Block from[2] = {Block(kBytes), Block(kBytes)}, to[2] = {Block(kBytes), Block(kBytes)};
        meet(group);
        for (uint32_t r = 0; r < 2; r++)
            lend(group, r, 1 - r, from[r].at());
        const uint64_t sizes[] = {1, 1000, kMap - 1, kMap, kMap + 1, 100003, 131072, 131073, 400009, 1200000};
        const uint64_t offsets[] = {0, 1, 3, 8, 63, 4095};
        const uint32_t granules[] = {0, 1, 4, 12, 16};
        uint64_t wanted[2] = {pulled(group, 0, 1), pulled(group, 1, 0)};
        uint32_t index = 0;
        for (uint32_t r = 0; r < 2; r++) {
            uint64_t used = 0, at = 0;
            for (uint64_t size : sizes)
                for (uint64_t offset : offsets) {
                    const uint32_t granule = granules[index % 5];
                    const uint64_t bytes = granule ? size - size % granule : size;
                    uint8_t *place = from[r].at() + at + offset;
                    if (at + offset + bytes > kBytes)
                        break;
                    group[r].send(1 - r, 7, index, bytes, index % 3 == 0, false, place);
                    group[1 - r].receive(r, 7, index, bytes, granule, false,
                                         index % 2 ? to[1 - r].at() + used : nullptr);
                    wanted[1 - r] += bytes >= kMap;
                    at += (offset + bytes + 4095) / 4096 * 4096;
                    used += bytes;
                    index++;
                    group[r].send(1 - r, 7, index, bytes); // ordinary memory
                    group[1 - r].receive(r, 7, index, bytes, granule);
                    index++;
                }
        }
        EXPECT_GT(index, 200u);
        ASSERT_TRUE(group.turn_until_done());
        for (uint32_t r = 0; r < 2; r++) {
            group[r].check();
            EXPECT_EQ(pulled(group, r, 1 - r), wanted[r]);
        }
        EXPECT_EQ(block_mappings(), mappings_of(4, 2));
    }
    EXPECT_EQ(open_descriptors(), before);
    EXPECT_EQ(block_mappings(), 0u);
}

// A send is done when its message has been read, and not before.
TEST(ShmPulls, ASendEndsWhenItsMessageHasBeenRead) {
    constexpr uint64_t kBytes = 4 << 20;
    Group group(shm(), 2);
    const Block block(kBytes);
    meet(group);
    lend(group, 0, 1, block.at());
    const Message &sent = group[0].send(1, 5, 0, kBytes, false, false, block.at());
    const Message &got = group[1].receive(0, 5, 0, kBytes, 4);
    ASSERT_TRUE(group.turn([&] { return got.consumed > 0; }));
    EXPECT_LT(got.consumed, kBytes); // it looks at everything else in between
    for (int i = 0; i < 1000; i++)
        group[0].progress(0);
    EXPECT_EQ(sent.dones, 0);
    ASSERT_TRUE(group[1].until([&] { return got.dones == 1; }));
    EXPECT_EQ(sent.dones, 0);
    ASSERT_TRUE(group[0].until_done());
    group[1].check();
}

// Messages that come before their receive is posted, on credit: they are held as others are.
TEST(ShmPulls, UnexpectedMessagesAreHeld) {
    const Lanes lanes("shm:map_bytes=2000:eager_bytes=50000:pool_bytes=1Mi");
    Group group(shm(), 2);
    const Block block(1 << 20);
    meet(group);
    lend(group, 0, 1, block.at());
    const uint64_t before = pulled(group, 1, 0);
    for (uint32_t i = 0; i < 10; i++)
        group[0].send(1, 6, i, 30000, i % 2, false, block.at() + i * 31000);
    ASSERT_TRUE(group.turn([&] { return pulled(group, 1, 0) == before + 10; }));
    ASSERT_TRUE(group[0].until_done()); // their memory is free again
    std::memset(block.at(), 0, 1 << 20);
    for (uint32_t i = 0; i < 10; i++)
        group[1].receive(0, 6, i, 30000, i % 3 ? 4 : 0);
    ASSERT_TRUE(group[1].until_done());
    group[1].check();
}

// Each rank uses its memory again as soon as its sends are done, while others are on their way.
TEST(ShmPulls, BothWaysAtOnceInThreads) {
    constexpr uint32_t kRounds = 60;
    constexpr uint64_t kBytes = 300000;
    Group group(shm(), 3);
    meet(group);
    std::atomic<uint64_t> count{0};
    group.each([&](Rank &rank) {
        Block block(3 * kBytes);
        for (uint32_t i = 0; i < kRounds; i++) {
            for (uint32_t peer = 0; peer < 3; peer++)
                if (peer != rank.rank) {
                    rank.receive(peer, 5, i, kBytes, i % 2 ? 4 : 0);
                    rank.send(peer, 5, i, kBytes, false, false, block.at() + peer * kBytes);
                }
            ASSERT_TRUE(rank.until_done());
            for (const auto &message : rank.messages)
                for (uint64_t b = 0;
                     !message->is_send && message->m.stream == 5 && message->m.index == i && b < kBytes;
                     b += 97)
                    ASSERT_EQ(message->at[b], pattern(message->peer, rank.rank, 5, i, b));
        }
        for (uint32_t peer = 0; peer < 3; peer++)
            if (peer != rank.rank)
                count += pair_of(rank, peer)->pulls.count;
        rank.messages.clear();
        rank.done = 0;
        for (uint32_t peer = 0; peer < 3; peer++) // all are done with the blocks
            if (peer != rank.rank) {
                rank.send(peer, 6, 0, 1);
                rank.receive(peer, 6, 0, 1);
            }
        ASSERT_TRUE(rank.until_done());
    });
    EXPECT_GT(count, 6 * kRounds / 2); // the first go through the ring
}

TEST(ShmPulls, TheOptionTurnsThemOff) {
    const Lanes lanes("shm:map_bytes=0");
    Group group(shm(), 2);
    const Block block(1 << 20);
    meet(group);
    for (uint32_t i = 0; i < 5; i++) {
        group[0].send(1, 5, i, 1 << 20, false, false, block.at());
        group[1].receive(0, 5, i, 1 << 20);
        ASSERT_TRUE(group.turn_until_done());
    }
    EXPECT_EQ(pulled(group, 1, 0), 0u);
    EXPECT_EQ(block_mappings(), 1u);
}

// ---- Blocks ---------------------------------------------------------------------------------------------

// The sender sees each piece that the receiver has read: a transfer that moves is no silent peer.
TEST(ShmPulls, TheSenderSeesThatAMessageMoves) {
    constexpr uint64_t kBytes = 1 << 20;
    Group group(shm(), 2);
    meet(group);
    const Block block(kBytes);
    lend(group, 0, 1, block.at());
    group[0].send(1, 9, 0, kBytes, false, false, block.at());
    group[1].receive(0, 9, 0, kBytes);
    const auto taken = [&] {
        gcoll_lane_sight sight = {};
        gcoll_lane_shm.look(gcoll_net_session(gcoll_net_of(group[0].endpoint), 1), &sight);
        return sight.taken;
    };
    const gcoll_shm_pulls &pulls = pair_of(group[1], 0)->pulls;
    ASSERT_TRUE(group.turn([&] { return pulls.first != nullptr; }));
    uint32_t seen = 0;
    for (uint64_t before = taken(); pulls.first != nullptr; before = taken()) {
        const uint64_t read = pulls.bytes;
        group[1].progress(0);
        if (pulls.bytes != read)
            EXPECT_GE(taken(), before + pulls.bytes - read) << ++seen;
        seen += pulls.bytes != read;
    }
    EXPECT_GT(seen, 3u);
    ASSERT_TRUE(group.turn_until_done());
    // It is not believed more than there was.
    __atomic_store_n(&gcoll_ring_side_of(pair_of(group[0], 1)->memory, 1)->pulled_bytes, UINT64_MAX,
                     __ATOMIC_RELAXED);
    const uint64_t most = taken();
    EXPECT_LT(most, kBytes * 3);
    group[0].progress(0);
    EXPECT_EQ(taken(), most);
}

// The lower rank stands first, and sends at once. Its block comes by another way than its last word of the
// meeting, and so before it.
TEST(ShmPulls, ABlockThatComesBeforeTheLastWordIsTaken) {
    const Lanes lanes("shm:map_bytes=1Ki");
    Group group(shm(), 2);
    const Block block(4096);
    gcoll_block_place place;
    ASSERT_TRUE(gcoll_block_find(block.at(), 2000, &place));
    for (uint32_t r = 0; r < 2; r++)
        group.connect(group[r]);
    group[0].send(1, 5, 0, 2000, false, false, block.at());
    group[1].receive(0, 5, 0, 2000);
    const auto has_asked = [&] {
        const gcoll_session *session = gcoll_net_session(gcoll_net_of(group[0].endpoint), 1);
        return session && gcoll_session_has_taken(session, &gcoll_lane_shm) && pair_of(group[0], 1) &&
               pair_of(group[0], 1)->blocks.asked.id != 0;
    };
    for (int i = 0; i < 100000 && !has_asked(); i++) {
        group[1].progress(0);
        group[0].progress(0);
    }
    ASSERT_TRUE(has_asked());
    EXPECT_EQ(pair_of(group[1], 0)->state, GCOLL_SHM_MEETS);
    ASSERT_TRUE(group.turn_until_done());
    ASSERT_TRUE(group.turn([&] { return !has_asked(); }));
    EXPECT_NE(gcoll_shm_find_block(pair_of(group[1], 0), place.id), nullptr);
}

// A freed block is unmapped by the peer, and one at the same address is another one.
TEST(ShmPulls, BlocksAreFreedAndAllocatedAgain) {
    take_descriptors_of_process();
    Group group(shm(), 2);
    meet(group);
    const size_t before = open_descriptors();
    for (uint32_t i = 0; i < 20; i++) {
        Block block(i % 2 ? 500000 : 300000);
        lend(group, 0, 1, block.at());
        const uint64_t count = pulled(group, 1, 0);
        group[0].send(1, 8, i, 270000, false, false, block.at() + i);
        group[1].receive(0, 8, i, 270000);
        ASSERT_TRUE(group.turn_until_done());
        EXPECT_EQ(pulled(group, 1, 0), count + 1);
        EXPECT_EQ(block_mappings(), mappings_of(1, 1));
        block.free();
        ASSERT_TRUE(group.turn([&] { return pair_of(group[1], 0)->blocks.mapped.count == 0; }));
        EXPECT_EQ(block_mappings(), 0u);
    }
    group[1].check();
    EXPECT_EQ(open_descriptors(), before);
}

// More blocks than are mapped at a time: the others go through the ring, until some are freed.
TEST(ShmPulls, MoreBlocksThanAreMapped) {
    constexpr uint32_t kBlocks = GCOLL_SHM_BLOCKS_MOST + 20;
    const Lanes lanes("shm:map_bytes=4Ki");
    rlimit limit = {};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit before = limit;
    limit.rlim_cur = limit.rlim_max;
    if (limit.rlim_max < kBlocks + 200)
        GTEST_SKIP() << "this machine lacks descriptors: ulimit -Hn is " << limit.rlim_max;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    {
        Group group(shm(), 2);
        std::vector<std::unique_ptr<Block>> blocks;
        meet(group);
        for (uint32_t i = 0; i < kBlocks; i++) {
            blocks.push_back(std::make_unique<Block>(4096));
            group[0].send(1, 5, i, 4096, false, false, blocks[i]->at());
            group[1].receive(0, 5, i, 4096);
            ASSERT_TRUE(group.turn_until_done());
            ASSERT_TRUE(group.turn([&] { return pair_of(group[0], 1)->blocks.asked.id == 0; }));
        }
        EXPECT_EQ(pair_of(group[1], 0)->blocks.mapped.count, GCOLL_SHM_BLOCKS_MOST);
        for (uint32_t i = 0; i < kBlocks; i++) {
            group[0].send(1, 6, i, 4096, false, false, blocks[i]->at());
            group[1].receive(0, 6, i, 4096);
        }
        ASSERT_TRUE(group.turn_until_done());
        EXPECT_EQ(pulled(group, 1, 0), GCOLL_SHM_BLOCKS_MOST);
        for (uint32_t i = 0; i < 30; i++)
            blocks[i]->free();
        ASSERT_TRUE(group.turn(
            [&] { return pair_of(group[1], 0)->blocks.mapped.count == GCOLL_SHM_BLOCKS_MOST - 30; }));
        lend(group, 0, 1, blocks[kBlocks - 1]->at(), 4096);
        group[1].check();
    }
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(block_mappings(), 0u);
}

// A receiver that has no descriptor free says so, and gets the messages through the ring.
TEST(ShmPulls, ABlockThatCannotBeMappedGoesThroughTheRing) {
    Group group(shm(), 2);
    const Block block(1 << 20);
    rlimit limit = {};
    meet(group);
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit before = limit;
    limit.rlim_cur = 0;
    for (uint32_t i = 0; i < 3; i++) {
        group[0].send(1, 5, i, 1 << 20, false, false, block.at());
        group[1].receive(0, 5, i, 1 << 20);
    }
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_TRUE(group.turn_until_done());
    EXPECT_TRUE(group.turn([&] { return pair_of(group[0], 1)->blocks.asked.id == 0; }));
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(pulled(group, 1, 0), 0u);
    EXPECT_EQ(pair_of(group[0], 1)->blocks.lent.count, 1u);
    EXPECT_EQ(block_mappings(), 1u);
}

// Nor does it suffer where the kernel maps no more for it (vm.max_map_count, ulimit -v): all blocks go
// through the ring, and when there is room again, new ones are mapped.
TEST(ShmPulls, BlocksBeyondTheKernelsLimitGoThroughTheRing) {
    constexpr uint32_t kBlocks = 20;
    const Lanes lanes("shm:map_bytes=4Ki");
    std::string lacking;
    take_descriptors_of_process();
    const size_t before = open_descriptors();
    {
        Group group(shm(), 2);
        std::vector<std::unique_ptr<Block>> blocks;
        meet(group);
        for (uint32_t i = 0; i < kBlocks; i++)
            blocks.push_back(std::make_unique<Block>(1 << 20));
        std::thread([&] { // drives both ranks
            lacking = gcoll_test::forbid(SYS_mmap, 3, MAP_SHARED, ENOMEM);
            for (uint32_t i = 0; i < 3 * kBlocks && lacking.empty(); i++) {
                group[0].send(1, 5, i, 1 << 20, false, false, blocks[i % kBlocks]->at());
                group[1].receive(0, 5, i, 1 << 20, i % 2 ? 4 : 0);
                EXPECT_TRUE(group.turn_until_done());
                EXPECT_TRUE(group.turn([&] { return pair_of(group[0], 1)->blocks.asked.id == 0; }));
            }
        })
            .join();
        if (!lacking.empty())
            GTEST_SKIP() << "this machine lacks " << lacking;
        group[1].check();
        EXPECT_EQ(pulled(group, 1, 0), 0u);
        EXPECT_EQ(pair_of(group[1], 0)->blocks.mapped.count, 0u);
        EXPECT_EQ(block_mappings(), kBlocks);
        EXPECT_TRUE(group[0].failed.empty() && group[1].failed.empty());
        blocks[0] = std::make_unique<Block>(1 << 20);
        lend(group, 0, 1, blocks[0]->at());
        blocks.clear();
        ASSERT_TRUE(group.turn([&] { return pair_of(group[0], 1)->blocks.lent.count == 0; }));
    }
    EXPECT_EQ(open_descriptors(), before);
    EXPECT_EQ(block_mappings(), 0u);
}

// ---- The end of a peer ----------------------------------------------------------------------------------

// Rank 1 leaves, aborts or dies while rank 0 reads a message where it lies; then its owner may write there.
// The message does not come, and nothing is left.
TEST(ShmPulls, ASenderThatEndsAmidAMessage) {
    constexpr uint64_t kBytes = 8 << 20;
    take_descriptors_of_process();
    for (int news = 0; news < 3; news++)
        for (uint32_t granule : {0u, 4u}) {
            SCOPED_TRACE(std::to_string(news));
            const size_t before = open_descriptors();
            {
                Group group(shm(), 2);
                Block block(kBytes);
                meet(group);
                lend(group, 1, 0, block.at());
                const Message &got = group[0].receive(1, 9, 0, kBytes, granule);
                group[1].send(0, 9, 0, kBytes, false, false, block.at());
                const uint64_t bytes = pair_of(group[0], 1)->pulls.bytes;
                ASSERT_TRUE(group.turn([&] { return pair_of(group[0], 1)->pulls.bytes > bytes; }));
                const gcoll_note note = note_of(GCOLL_ERR_ABORTED, 1, "had enough");
                if (news == 0)
                    group[1].close();
                else if (news == 1)
                    shm()->abort(group[1].endpoint, &note, 1000);
                else
                    shutdown(gcoll_net_session(gcoll_net_of(group[1].endpoint), 0)->socket->fd, SHUT_RDWR);
                if (news < 2)
                    std::memset(block.at(), 0xdd, kBytes);
                ASSERT_TRUE(group[0].until([&] {
                    return !group[0].departed.empty() || !group[0].aborted.empty() ||
                           !group[0].failed.empty();
                }));
                if (news < 2)
                    EXPECT_EQ(got.dones, 0);
                EXPECT_EQ(group[0].departed.size(), news == 0 ? 1u : 0u);
                EXPECT_EQ(group[0].aborted.size(), news == 1 ? 1u : 0u);
                EXPECT_EQ(group[0].failed.size(), news == 2 ? 1u : 0u);
            }
            EXPECT_EQ(open_descriptors(), before);
            EXPECT_EQ(block_mappings(), 0u);
        }
}

// The same of a message that nobody waits for yet: a receive that is posted before the news gets nothing of
// it.
TEST(ShmPulls, AnUnexpectedMessageThatIsTakenBack) {
    constexpr uint64_t kBytes = 30000;
    const Lanes lanes("shm:map_bytes=2000:eager_bytes=50000:pool_bytes=1Mi");
    for (bool aborts : {false, true})
        for (uint32_t granule : {0u, 4u}) {
            Group group(shm(), 2);
            const Block block(1 << 20);
            meet(group);
            lend(group, 1, 0, block.at());
            gcoll_shm_pair *reader = pair_of(group[0], 1);
            const uint64_t before = reader->pulls.bytes;
            group[1].send(0, 6, 0, kBytes, false, false, block.at());
            shm()->flush(group[1].endpoint);
            // As the sender does before its callers have their memory again; its news comes later.
            __atomic_store_n(&gcoll_ring_side_of(reader->memory, 1 - reader->which)->withdrawn, 1,
                             __ATOMIC_RELEASE);
            std::memset(block.at(), 0xdd, kBytes);
            ASSERT_TRUE(group[0].until([&] { return reader->pulls.bytes > before; }));
            EXPECT_EQ(reader->pulls.bytes, before + kBytes);
            const Message &got = group[0].receive(1, 6, 0, kBytes, granule);
            for (int i = 0; i < 10; i++)
                group[0].progress(0);
            const gcoll_note note = note_of(GCOLL_ERR_ABORTED, 1, "had enough");
            if (aborts)
                shm()->abort(group[1].endpoint, &note, 1000);
            else
                group[1].close();
            ASSERT_TRUE(group[0].until([&] {
                return !group[0].departed.empty() || !group[0].aborted.empty() || !group[0].failed.empty();
            }));
            EXPECT_EQ(got.dones, 0);
        }
}

// The receiver ends amid a message: the sender hears of it, and its send is not done.
TEST(ShmPulls, AReceiverThatEndsAmidAMessage) {
    constexpr uint64_t kBytes = 8 << 20;
    for (bool aborts : {false, true}) {
        Group group(shm(), 2);
        Block block(kBytes);
        meet(group);
        lend(group, 0, 1, block.at());
        const Message &sent = group[0].send(1, 9, 0, kBytes, false, false, block.at());
        group[1].receive(0, 9, 0, kBytes);
        const uint64_t bytes = pair_of(group[1], 0)->pulls.bytes;
        ASSERT_TRUE(group.turn([&] { return pair_of(group[1], 0)->pulls.bytes > bytes; }));
        const gcoll_note note = note_of(GCOLL_ERR_ABORTED, 1, "had enough");
        if (aborts)
            shm()->abort(group[1].endpoint, &note, 1000);
        else
            group[1].close();
        ASSERT_TRUE(group[0].until([&] { return !group[0].departed.empty() || !group[0].aborted.empty(); }));
        EXPECT_EQ(sent.dones, 0);
    }
}

// What the receiver has read counts before the news that it left: the send is done.
TEST(ShmPulls, WhatWasReadCountsBeforeTheNewsOfTheReader) {
    for (int i = 0; i < 10; i++) {
        Group group(shm(), 2);
        Block block(1 << 20);
        meet(group);
        lend(group, 0, 1, block.at());
        const Message &sent = group[0].send(1, 9, 0, 1 << 20, false, false, block.at());
        group[1].receive(0, 9, 0, 1 << 20);
        shm()->flush(group[0].endpoint);
        while (group[1].done != group[1].messages.size()) {
            group[1].progress(0);
            if (pair_of(group[0], 1)->pulls.lent_count == 0) // until it refers to the message
                group[0].progress(0);
        }
        EXPECT_EQ(sent.dones, 0);
        group[1].close();
        ASSERT_TRUE(group[0].until([&] { return !group[0].departed.empty(); }));
        EXPECT_EQ(sent.dones, 1);
    }
}

// A process that is killed while its memory is read: the memory stays until the reader is done with it.
TEST(ShmPulls, AKilledSender) {
    take_descriptors_of_process();
    const size_t before = open_descriptors();
    constexpr uint64_t kBytes = 16 << 20;
    for (int how = 0; how < 2; how++) {
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
            if (child == 0) {
                Block block(kBytes);
                rank.send(0, 1, 0, kBytes, true, false, block.at());
                EXPECT_TRUE(rank.until_done());
                EXPECT_TRUE(rank.until([&] { return pair_of(rank, 0)->blocks.asked.id == 0; }));
                rank.send(0, 2, 0, kBytes, false, false, block.at());
                EXPECT_TRUE(rank.until([&] { return pair_of(rank, 0)->pulls.lent_count > 0; }));
                if (how == 1)
                    gcoll_memory_free(block.at()); // its own fault
                kill(getpid(), SIGKILL);
            }
            rank.receive(1, 1, 0, kBytes, 4);
            ASSERT_TRUE(rank.until_done());
            const Message &got = rank.receive(1, 2, 0, kBytes, 4);
            ASSERT_TRUE(rank.until([&] { return !rank.failed.empty() || got.dones > 0; }));
            ASSERT_TRUE(rank.until([&] { return !rank.failed.empty(); }));
            EXPECT_EQ(rank.failed[0].status, GCOLL_ERR_PEER);
            EXPECT_EQ(rank.failed[0].text, "closed the connection");
            EXPECT_EQ(block_mappings(), 0u);
        }
        int ended = 0;
        ASSERT_EQ(waitpid(child, &ended, 0), child);
        EXPECT_TRUE(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL) << ended;
    }
    EXPECT_EQ(open_descriptors(), before);
}

// ---- Lies -----------------------------------------------------------------------------------------------

gcoll_ring_head head_of(uint32_t kind, uint64_t stream, uint64_t total = 0, uint32_t index = 0,
                        uint32_t bytes = 0) {
    gcoll_ring_head head = {};
    head.word = GCOLL_RING_MARK | kind;
    head.stream = stream;
    head.total = total;
    head.index = index;
    head.bytes = bytes;
    return head;
}

// Rank 1 has lent a block of kBytes to rank 0, which waits for message (3, 0) of kBytes, and lies.
struct BlockLiar {
    static constexpr uint64_t kBytes = 1 << 20;
    BlockLiar() : group(shm(), 2), block(kBytes) {
        meet(group);
        lend(group, 1, 0, block.at());
        gcoll_block_find(block.at(), 1, &place);
        got = &group[0].receive(1, 3, 0, kBytes);
        for (int i = 0; i < 100; i++)
            for (uint32_t r = 0; r < 2; r++)
                group[r].progress(0); // it is granted
        liar = pair_of(group[1], 0);
    }
    void put(gcoll_ring_head head, const void *payload = nullptr) {
        ASSERT_TRUE(gcoll_shm_put(liar, &head, nullptr, payload));
    }
    void refer(uint64_t id, uint64_t offset, uint64_t total = kBytes, uint64_t stream = 3) {
        const gcoll_shm_reference to = {id, offset};
        put(head_of(GCOLL_SHM_REFERS, stream, total, 0, sizeof to), &to);
    }
    void expect(const std::string &text) {
        ASSERT_TRUE(group[0].until([&] { return !group[0].failed.empty(); })) << text;
        EXPECT_EQ(group[0].failed[0].status, GCOLL_ERR_PROTOCOL);
        EXPECT_EQ(group[0].failed[0].text, "sent garbage (" + text + ")");
        EXPECT_EQ(got->dones, 0);
    }
    Group group;
    Block block;
    gcoll_block_place place = {};
    gcoll_shm_pair *liar = nullptr;
    Message *got = nullptr;
};

TEST(ShmPullLies, TheTruthIsBelieved) {
    BlockLiar liar;
    liar.refer(liar.place.id, 0);
    liar.liar->pulls.lent_count++;
    EXPECT_TRUE(liar.group[0].until_done());
}

TEST(ShmPullLies, ReferencesToWhatIsNotLent) {
    const char *beyond = "a message beyond its block", *unknown = "a message in a block that it has not lent";
    const struct {
        uint64_t id_beyond, offset, total;
        const char *text;
    } rows[] = {
        {1, 0, BlockLiar::kBytes, unknown},
        {UINT64_MAX / 2, 0, BlockLiar::kBytes, unknown},
        {0, 1, BlockLiar::kBytes, beyond},
        {0, BlockLiar::kBytes, BlockLiar::kBytes, beyond},
        {0, BlockLiar::kBytes + 1, BlockLiar::kBytes, beyond},
        {0, UINT64_MAX, BlockLiar::kBytes, beyond},
        {0, UINT64_MAX - BlockLiar::kBytes + 1, BlockLiar::kBytes, beyond},
        {0, 0, UINT64_MAX, beyond},
        {0, 16, UINT64_MAX - 8, beyond},
        {0, 0, 0, "a reference of a size that cannot be"},
    };
    for (const auto &row : rows) {
        BlockLiar liar;
        liar.refer(liar.place.id + row.id_beyond, row.offset, row.total);
        liar.expect(row.text);
    }
    BlockLiar ungranted;
    ungranted.refer(ungranted.place.id, 0, BlockLiar::kBytes, 4);
    ungranted.expect("a message that was not granted");
    BlockLiar wrong_size;
    wrong_size.refer(wrong_size.place.id, 0, 100);
    ASSERT_TRUE(wrong_size.group[0].until([&] { return !wrong_size.group[0].failed.empty(); }));
    EXPECT_EQ(wrong_size.group[0].failed[0].status, GCOLL_ERR_MISMATCH);
}

TEST(ShmPullLies, FramesThatDoNotFit) {
    const uint8_t payload[64] = {};
    const char *before = "a block before the one before it was answered for";
    const char *unasked = "an answer for a block that was not asked for";
    const char *unlent = "the end of a block that it has not lent";
    const struct {
        gcoll_ring_head head;
        const char *text;
    } rows[] = {
        {head_of(GCOLL_SHM_LENDS, 0), before},
        {head_of(GCOLL_SHM_LENDS, 1, 0, 0, 8), "a control frame with a payload"},
        {head_of(GCOLL_SHM_LENDS | GCOLL_RING_CREDITED, 1),
         "a flag that is not allowed in this kind of frame"},
        {head_of(GCOLL_SHM_TAKES, 0), unasked},
        {head_of(GCOLL_SHM_TAKES, 77, 0, 1), unasked},
        {head_of(GCOLL_SHM_FREED, 77), unlent},
        {head_of(GCOLL_SHM_REFERS, 3, BlockLiar::kBytes, 0, 8), "a reference of a size that cannot be"},
        {head_of(GCOLL_SHM_REFERS, 3, BlockLiar::kBytes, 0, 24), "a reference of a size that cannot be"},
        {head_of(GCOLL_SHM_UNREAD, 3), "it asks for a message that was not lent"},
        {head_of(GCOLL_SHM_UNREAD + 1, 3), "a frame of unknown kind"},
    };
    for (const auto &row : rows) {
        BlockLiar liar;
        liar.put(row.head, payload);
        liar.expect(row.text);
    }
    BlockLiar twice;
    twice.put(head_of(GCOLL_SHM_LENDS, 77));
    twice.put(head_of(GCOLL_SHM_LENDS, 78));
    twice.expect(before);
    BlockLiar freed;
    freed.put(head_of(GCOLL_SHM_FREED, freed.place.id));
    freed.refer(freed.place.id, 0);
    freed.expect("a message in a block that it has not lent");
    BlockLiar again;
    again.refer(again.place.id, 0);
    again.refer(again.place.id, 0);
    again.expect("a message twice");
    BlockLiar both;
    both.refer(both.place.id, 0);
    both.put(head_of(GCOLL_FLOW_DATA, 3, BlockLiar::kBytes, 0, 64), payload);
    both.expect("a fragment of a message that lies in its own memory");
}

// A block that is freed while it is read: it stays until that is done.
TEST(ShmPullLies, ABlockThatIsFreedTooEarly) {
    BlockLiar liar;
    liar.refer(liar.place.id, 0);
    liar.liar->pulls.lent_count++;
    liar.put(head_of(GCOLL_SHM_FREED, liar.place.id));
    ASSERT_TRUE(liar.group[0].until([&] { return liar.got->dones == 1; }));
    EXPECT_EQ(pair_of(liar.group[0], 1)->blocks.mapped.count, 0u);
    EXPECT_EQ(block_mappings(), 1u);
}

TEST(ShmPullLies, CountsThatCannotBe) {
    for (uint64_t count : {uint64_t{2}, uint64_t{0x1000}, UINT64_MAX}) {
        Group group(shm(), 2);
        const Block block(1 << 20);
        meet(group);
        lend(group, 0, 1, block.at());
        const Message &sent = group[0].send(1, 3, 0, 1 << 20, false, false, block.at());
        group[1].receive(0, 3, 0, 1 << 20);
        ASSERT_TRUE(group.turn([&] { return pair_of(group[0], 1)->pulls.lent.first != nullptr; }));
        gcoll_shm_pair *liar = pair_of(group[1], 0);
        __atomic_store_n(&gcoll_ring_side_of(liar->memory, liar->which)->pulled,
                         pair_of(group[0], 1)->pulls.returned + count, __ATOMIC_RELEASE);
        ASSERT_TRUE(group[0].until([&] { return !group[0].failed.empty(); }));
        EXPECT_EQ(group[0].failed[0].text, "sent garbage (it has read more messages than were lent)");
        EXPECT_EQ(sent.dones, 0);
    }
}

// A peer that takes a message back, and neither ends nor says why.
TEST(ShmPullLies, AMessageThatIsTakenBack) {
    BlockLiar liar;
    __atomic_store_n(&gcoll_ring_side_of(liar.liar->memory, liar.liar->which)->withdrawn, 1,
                     __ATOMIC_RELEASE);
    liar.refer(liar.place.id, 0);
    ASSERT_TRUE(liar.group[0].until([&] { return !liar.group[0].failed.empty(); }));
    EXPECT_EQ(liar.group[0].failed[0].text, "took back a message that was being received");
    EXPECT_EQ(liar.got->dones, 0);
}

// Memory that could end or harm its reader is not mapped, and its descriptor not kept.
TEST(ShmPullLies, MemoryThatWouldBeNoGood) {
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    const auto memory = [](off_t bytes, int seals, bool is_whole = true) {
        const int fd = memfd_create("gcoll-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        EXPECT_EQ(ftruncate(fd, bytes), 0);
        if (is_whole && bytes > 0)
            EXPECT_EQ(fallocate(fd, 0, 0, bytes), 0);
        EXPECT_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
        return fd;
    };
    const struct {
        std::function<int()> make;
        bool is_good;
    } rows[] = {
        {[&] { return memory(1 << 20, kSeals); }, true},
        {[&] { return memory(1 << 20, kSeals | F_SEAL_WRITE); }, true},
        {[&] { return memory(1 << 20, 0); }, false},
        {[&] { return memory(1 << 20, F_SEAL_SHRINK | F_SEAL_GROW); }, false},
        {[&] { return memory(1 << 20, F_SEAL_GROW | F_SEAL_SEAL); }, false},
        {[&] { return memory(0, kSeals); }, false},
        {[&] { return memory(1 << 20, kSeals, false); }, false},
        {[&] { return memory(off_t{1} << 40, kSeals, false); }, false},
        {[] { return open("/dev/zero", O_RDWR | O_CLOEXEC); }, false},
        {[] { return -1; }, false},
    };
    BlockLiar liar;
    for (const auto &row : rows) {
        const size_t before = open_descriptors();
        const int fd = row.make();
        const uint64_t id = 1000000 + static_cast<uint64_t>(&row - rows);
        liar.liar->blocks.asked.id = id;
        ASSERT_EQ(gcoll_shm_door_send(liar.liar, GCOLL_SHM_BLOCK, fd), 0);
        liar.liar->blocks.asked.id = 0;
        gcoll_shm_door_read(pair_of(liar.group[0], 1)->shm);
        EXPECT_EQ(gcoll_shm_find_block(pair_of(liar.group[0], 1), id) != nullptr, row.is_good) << &row - rows;
        if (fd >= 0)
            close(fd);
        EXPECT_EQ(open_descriptors(), before);
    }
}

// Another rank's memory can be read, and not written.
TEST(ShmPullLies, PeersCannotWriteThere) {
    const Block block(4096);
    gcoll_block_place place;
    ASSERT_TRUE(gcoll_block_find(block.at(), 1, &place));
    gcoll_fork_hold();
    const int fd = gcoll_block_descriptor_held(&place);
    gcoll_fork_release();
    if (!(fcntl(fd, F_GET_SEALS) & F_SEAL_FUTURE_WRITE))
        GTEST_SKIP() << "this machine lacks F_SEAL_FUTURE_WRITE";
    EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    EXPECT_NE(ftruncate(fd, 0), 0);
    EXPECT_NE(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
    void *at = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
    ASSERT_NE(at, MAP_FAILED);
    block.at()[9] = 8;
    EXPECT_EQ(static_cast<uint8_t *>(at)[9], 8);
    munmap(at, 4096);
}

} // namespace
