// test/transport/shm_ring_test.cc - the rings of the lane shm: order, room, sleep, and memory that lies.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" {
#include "transport/flow/flow.h"
#include "transport/shm/ring.h"
}

namespace {

constexpr uint32_t kData = GCOLL_RING_MARK | GCOLL_FLOW_DATA;

// Shared memory between two pages that nobody may touch.
class Memory {
  public:
    explicit Memory(uint32_t ring_bytes) : bytes_(gcoll_ring_memory(ring_bytes)) {
        all_ = static_cast<uint8_t *>(
            mmap(nullptr, bytes_ + 2 * GCOLL_RING_PAGE, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
        EXPECT_EQ(mprotect(at(), bytes_, PROT_READ | PROT_WRITE), 0);
        for (uint32_t which : {0u, 1u}) {
            gcoll_ring_write_to(&writer[which], at(), ring_bytes, which);
            gcoll_ring_read_from(&reader[which], at(), ring_bytes, which);
        }
    }
    ~Memory() { munmap(all_, bytes_ + 2 * GCOLL_RING_PAGE); }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    uint8_t *at() { return all_ + GCOLL_RING_PAGE; }
    size_t bytes() const { return bytes_; }
    gcoll_ring_side *side(uint32_t which) { return gcoll_ring_side_of(at(), which); }

    gcoll_ring_writer writer[2]; // of ranks 0 and 1 of the pair
    gcoll_ring_reader reader[2];

  private:
    size_t bytes_;
    uint8_t *all_;
};

uint8_t content(uint64_t number, uint32_t i) {
    return static_cast<uint8_t>(number * 31 + i * 7 + (i >> 8));
}

// Writes frame `number` of up to that many bytes. False: there is no room.
bool write_frame(gcoll_ring_writer &w, uint64_t number, uint32_t bytes, bool opens, uint32_t *written) {
    const uint32_t word = kData | (opens ? GCOLL_RING_OPEN : 0U);
    const uint32_t head_bytes = sizeof(gcoll_ring_head) + (opens ? GCOLL_FINGERPRINT_BYTES : 0);
    uint32_t room = 0;
    EXPECT_TRUE(gcoll_ring_room(&w, gcoll_ring_frame_bytes(word, bytes), &room));
    if (room < GCOLL_RING_LINE)
        return false;
    gcoll_ring_head head = {};
    head.bytes = std::min(bytes, room - head_bytes);
    head.stream = number;
    head.total = ~number;
    head.index = static_cast<uint32_t>(number * 3);
    head.credit = static_cast<uint32_t>(number * 5);
    uint8_t *at = gcoll_ring_place(&w);
    std::memcpy(at + 4, reinterpret_cast<uint8_t *>(&head) + 4, sizeof head - 4);
    for (uint32_t i = 0; opens && i < GCOLL_FINGERPRINT_BYTES; i++)
        at[sizeof head + i] = static_cast<uint8_t>(number + i);
    for (uint32_t i = 0; i < head.bytes; i++)
        at[head_bytes + i] = content(number, i);
    gcoll_ring_publish(&w, word, gcoll_ring_frame_bytes(word, head.bytes));
    *written = head.bytes;
    return true;
}

// Checks frame `number`. False: it is not there.
bool read_frame(gcoll_ring_reader &r, uint64_t number, bool opens, uint32_t *bytes) {
    gcoll_ring_frame f = {};
    const bool is_seen = gcoll_ring_has_frame(&r);
    const gcoll_ring_found found = gcoll_ring_next(&r, &f);
    if (found == GCOLL_RING_EMPTY) {
        EXPECT_FALSE(is_seen);
        return false;
    }
    EXPECT_EQ(found, GCOLL_RING_FRAME);
    EXPECT_EQ(f.head.word, kData | (opens ? GCOLL_RING_OPEN : 0U));
    EXPECT_EQ(f.head.stream, number);
    EXPECT_EQ(f.head.total, ~number);
    EXPECT_EQ(f.head.index, static_cast<uint32_t>(number * 3));
    EXPECT_EQ(f.head.credit, static_cast<uint32_t>(number * 5));
    for (uint32_t i = 0; opens && i < GCOLL_FINGERPRINT_BYTES; i++)
        EXPECT_EQ(f.open[i], static_cast<uint8_t>(number + i));
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < f.head.bytes; i++)
        wrong += f.payload[i] != content(number, i);
    EXPECT_EQ(wrong, 0u) << "of frame " << number;
    *bytes = f.head.bytes;
    gcoll_ring_pass(&r, &f);
    return true;
}

TEST(ShmRing, SizesArePowersOfTwoWithinLimits) {
    for (uint64_t good : {uint64_t{GCOLL_RING_LEAST}, uint64_t{65536}, uint64_t{GCOLL_RING_MOST}})
        EXPECT_TRUE(gcoll_ring_is_size(good)) << good;
    for (uint64_t bad : {uint64_t{0}, uint64_t{1}, uint64_t{GCOLL_RING_LEAST / 2}, uint64_t{65536 + 64},
                         uint64_t{2} * GCOLL_RING_MOST, UINT64_MAX})
        EXPECT_FALSE(gcoll_ring_is_size(bad)) << bad;
}

// Frames of all sizes, many laps, both ways at once; the reader is sometimes late and sometimes tells late.
TEST(ShmRing, FramesComeWholeAndInOrder) {
    for (uint32_t ring_bytes : {4096u, 8192u, 65536u}) {
        Memory m(ring_bytes);
        std::mt19937 random(ring_bytes);
        uint64_t sent[2] = {0, 0}, got[2] = {0, 0};
        std::vector<uint32_t> sizes[2];
        uint32_t fulls = 0, cuts = 0;
        for (int turn = 0; turn < 60000; turn++) {
            const uint32_t w = random() % 2;
            uint32_t bytes = random() % 4 ? random() % 200 : random() % ring_bytes, done = 0;
            if (random() % 2) {
                const bool opens = sent[w] % 3 == 0;
                if (write_frame(m.writer[w], sent[w], bytes, opens, &done)) {
                    sent[w]++;
                    sizes[w].push_back(done);
                    cuts += done < bytes;
                } else {
                    fulls++;
                }
            } else {
                for (uint32_t n = random() % 8;
                     n > 0 && read_frame(m.reader[1 - w], got[w], got[w] % 3 == 0, &done); n--)
                    ASSERT_EQ(done, sizes[w][got[w]++]);
                if (random() % 2)
                    gcoll_ring_tell(&m.reader[1 - w]);
            }
        }
        for (uint32_t w : {0u, 1u}) {
            uint32_t done = 0;
            while (read_frame(m.reader[1 - w], got[w], got[w] % 3 == 0, &done))
                ASSERT_EQ(done, sizes[w][got[w]++]);
            EXPECT_EQ(got[w], sent[w]);
            EXPECT_GT(m.writer[w].written, 20u * ring_bytes);
        }
        EXPECT_GT(fulls, 100u);
        EXPECT_GT(cuts, 100u);
    }
}

// What earlier laps have left is never taken for a frame: payloads are full of words that say there is one.
TEST(ShmRing, OldBytesAreNoFrames) {
    Memory m(4096);
    gcoll_ring_writer &w = m.writer[0];
    for (int lap = 0; lap < 1000; lap++) {
        uint32_t room = 0;
        const uint32_t wanted = 64u * (1 + static_cast<uint32_t>(lap) % 40);
        ASSERT_TRUE(gcoll_ring_room(&w, wanted, &room));
        ASSERT_GE(room, 64u);
        const uint32_t frame = std::min(room, wanted);
        std::vector<uint32_t> words(frame / 4, kData);
        words[1] = frame - 32;
        std::memcpy(gcoll_ring_place(&w) + 4, words.data() + 1, frame - 4);
        gcoll_ring_publish(&w, kData, frame);
        gcoll_ring_frame f;
        ASSERT_EQ(gcoll_ring_next(&m.reader[1], &f), GCOLL_RING_FRAME);
        gcoll_ring_pass(&m.reader[1], &f);
        ASSERT_EQ(gcoll_ring_next(&m.reader[1], &f), GCOLL_RING_EMPTY);
        ASSERT_TRUE(gcoll_ring_tell(&m.reader[1]));
        ASSERT_FALSE(gcoll_ring_tell(&m.reader[1]));
    }
}

// ---- Two threads ----------------------------------------------------------------------------------------

// A rank that can sleep and be woken as the lane does it.
class Sleeper {
  public:
    void ring() {
        std::lock_guard<std::mutex> lock(mutex_);
        rung_++;
        condition_.notify_one();
    }
    // False: nobody has woken it within a minute.
    bool sleep() {
        std::unique_lock<std::mutex> lock(mutex_);
        const bool is_woken =
            condition_.wait_for(lock, std::chrono::seconds(60), [this] { return rung_ > 0; });
        rung_ = 0;
        return is_woken;
    }

  private:
    std::mutex mutex_;
    std::condition_variable condition_;
    int rung_ = 0;
};

void say(gcoll_ring_side *own, uint32_t sleeps) {
    __atomic_store_n(&own->sleeps, sleeps, __ATOMIC_RELAXED);
    gcoll_ring_fence();
}

void wake(const gcoll_ring_side *peer, uint32_t flag, Sleeper &sleeper) {
    gcoll_ring_fence();
    if (__atomic_load_n(&peer->sleeps, __ATOMIC_RELAXED) & flag)
        sleeper.ring();
}

// One thread writes and the other reads, in the same memory, as two processes do; both sleep whenever there
// is nothing to do. ThreadSanitizer sees each access of both.
TEST(ShmRing, TwoThreadsSleepAndNeitherMissesTheOther) {
    constexpr uint64_t kFrames = 10000;
    Memory m(4096);
    Sleeper writer, reader;
    std::thread other([&] {
        std::mt19937 random(1);
        for (uint64_t number = 0; number < kFrames; number++) {
            const uint32_t bytes = random() % 8 ? random() % 100 : random() % 1500;
            uint32_t done = 0;
            while (!write_frame(m.writer[0], number, bytes, number % 3 == 0, &done)) {
                say(m.side(0), GCOLL_RING_WANTS_ROOM);
                if (write_frame(m.writer[0], number, bytes, number % 3 == 0, &done)) {
                    say(m.side(0), 0);
                    break;
                }
                ASSERT_TRUE(writer.sleep()) << "room came, and nobody said so";
                say(m.side(0), 0);
            }
            wake(m.side(1), GCOLL_RING_SLEEPS, reader);
        }
    });
    std::mt19937 random(2);
    for (uint64_t number = 0; number < kFrames;) {
        uint32_t done = 0;
        if (read_frame(m.reader[1], number, number % 3 == 0, &done)) {
            number++;
            if (random() % 4)
                continue;
            gcoll_ring_tell(&m.reader[1]);
            wake(m.side(0), GCOLL_RING_WANTS_ROOM, writer);
            continue;
        }
        gcoll_ring_tell(&m.reader[1]);
        wake(m.side(0), GCOLL_RING_WANTS_ROOM, writer);
        say(m.side(1), GCOLL_RING_SLEEPS);
        if (!gcoll_ring_has_frame(&m.reader[1]))
            ASSERT_TRUE(reader.sleep()) << "frame " << number << " came, and nobody said so";
        say(m.side(1), 0);
    }
    other.join();
}

// ---- Memory that lies -----------------------------------------------------------------------------------

// Whatever stands there: what is called a frame lies within the ring, and nothing beyond is read.
TEST(ShmRing, GarbageStaysWithinTheRing) {
    Memory m(4096);
    std::mt19937_64 random(3);
    gcoll_ring_reader &r = m.reader[0]; // of the ring before the page that nobody may touch
    uint32_t found[3] = {};
    for (int i = 0; i < 200000; i++) {
        for (size_t at = 0; at < 64; at += 8) {
            const uint64_t value = random() >> random() % 64;
            std::memcpy(m.at() + GCOLL_RING_PAGE + 4096 + random() % 512 * 8, &value, 8);
        }
        uint32_t word = static_cast<uint32_t>(random());
        if (random() % 4)
            word = GCOLL_RING_MARK | (word & 0x7ff);
        uint32_t bytes = static_cast<uint32_t>(random() >> random() % 64);
        if (random() % 2)
            bytes = 4096 - static_cast<uint32_t>(r.read % 4096) - static_cast<uint32_t>(random() % 96);
        auto *head = reinterpret_cast<gcoll_ring_head *>(m.at() + GCOLL_RING_PAGE + 4096 + r.read % 4096);
        head->word = random() % 16 ? word : 0;
        head->bytes = bytes;
        gcoll_ring_frame f;
        const gcoll_ring_found what = gcoll_ring_next(&r, &f);
        found[what]++;
        if (what == GCOLL_RING_FRAME) {
            ASSERT_GE(f.payload, r.bytes);
            ASSERT_LE(f.payload + f.head.bytes, r.bytes + 4096);
            uint64_t sum = 0;
            for (uint32_t k = 0; k < f.head.bytes; k++)
                sum += f.payload[k];
            ASSERT_LE(sum, 255u * 4096);
            gcoll_ring_pass(&r, &f);
        } else {
            r.read += 64;
        }
        ASSERT_EQ(r.read % 64, 0u);
    }
    for (uint32_t each : found)
        EXPECT_GT(each, 1000u);
}

// What the reader says that it has taken counts only if it has been written, and never goes back.
TEST(ShmRing, AReaderThatLiesIsNotBelieved) {
    for (uint64_t lie : {uint64_t{64}, uint64_t{128 + 64}, uint64_t{128 - 1}, UINT64_MAX, uint64_t{1} << 63,
                         uint64_t{4096}, uint64_t{0} - 64}) {
        Memory m(4096);
        uint32_t done = 0, room = 0;
        for (uint64_t i = 0; i < 4; i++)
            ASSERT_TRUE(write_frame(m.writer[0], i, 64, false, &done));
        m.side(1)->taken = 128;
        ASSERT_TRUE(gcoll_ring_room(&m.writer[0], 4096, &room));
        const uint64_t written = m.writer[0].written;
        ASSERT_EQ(written, 4u * 128);
        m.side(1)->taken = lie;
        const bool is_true = lie >= 128 && lie <= written && lie % 64 == 0;
        EXPECT_EQ(gcoll_ring_room(&m.writer[0], 4096, &room), is_true) << lie;
        EXPECT_LE(room, 4096u);
    }
}

} // namespace
