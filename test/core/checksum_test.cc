// test/core/checksum_test.cc - tests of contexts with checksums: what ranks are told when bits flip between
// them.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <random>
#include <sys/socket.h>
#include <unistd.h>

#include "test/kit/calls.h"

extern "C" {
#include "test/core/route_peek.h"
#include "transport/inproc/inproc.h"
}

namespace {

using namespace gcoll_test;

// ---- A wire that flips a bit ----------------------------------------------------------------------------

// A relay between two ranks. It takes one connection, makes one to a given port, and forwards all bytes. It
// flips one bit of one byte.
class Wire {
  public:
    // `back` decides which way the byte goes: from the rank that was called, or to it.
    Wire(bool back, uint64_t offset, int bit) : back_(back), offset_(offset), bit_(bit) {
        listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in where = loopback(0);
        socklen_t size = sizeof where;
        EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr *>(&where), size), 0);
        EXPECT_EQ(listen(listener_, 4), 0);
        EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr *>(&where), &size), 0);
        port_ = ntohs(where.sin_port);
        thread_ = std::thread([this] { run(); });
    }
    ~Wire() {
        over_ = true;
        thread_.join();
        close(listener_);
    }
    Wire(const Wire &) = delete;
    Wire &operator=(const Wire &) = delete;
    static uint16_t divert(void *arg, uint16_t port) {
        static_cast<Wire *>(arg)->target_ = port;
        return static_cast<Wire *>(arg)->port_;
    }
    bool flipped() const { return flipped_; }

  private:
    static sockaddr_in loopback(uint16_t port) {
        sockaddr_in where = {};
        where.sin_family = AF_INET;
        where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        where.sin_port = htons(port);
        return where;
    }
    // Forwards some bytes. Returns false at the end of the stream.
    bool pass(int from, int to, bool back) {
        uint8_t bytes[16384];
        ssize_t count = recv(from, bytes, sizeof bytes, 0);
        if (count <= 0) {
            shutdown(to, SHUT_WR);
            return false;
        }
        uint64_t &passed = passed_[back];
        if (back == back_ && offset_ >= passed && offset_ - passed < static_cast<uint64_t>(count)) {
            uint8_t &byte = bytes[offset_ - passed];
            byte = static_cast<uint8_t>(byte ^ 1u << bit_);
            flipped_ = true;
        }
        passed += static_cast<uint64_t>(count);
        // If the receiver has closed its connection, the relay still reads: closing with unread bytes would
        // cut off data on the way back.
        for (ssize_t done = 0, sent = 0; done < count && sent >= 0; done += sent)
            sent = send(to, bytes + done, static_cast<size_t>(count - done), MSG_NOSIGNAL);
        return true;
    }
    void pass_all(int from, int to, bool back) {
        pollfd one = {from, POLLIN, 0};
        while (!over_)
            if (poll(&one, 1, 20) > 0 && !pass(from, to, back))
                return;
    }
    void run() {
        pollfd one = {listener_, POLLIN, 0};
        while (!over_ && poll(&one, 1, 20) <= 0) {
        }
        int here = over_ ? -1 : accept(listener_, nullptr, nullptr);
        if (here < 0)
            return;
        int there = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in where = loopback(target_);
        EXPECT_EQ(connect(there, reinterpret_cast<sockaddr *>(&where), sizeof where), 0);
        // Each direction has a thread: a rank that does not read must not keep the other one from hearing
        // why.
        std::thread returning([&] { pass_all(there, here, true); });
        pass_all(here, there, false);
        returning.join();
        close(here);
        close(there);
    }
    int listener_;
    uint16_t port_ = 0;
    std::atomic<uint16_t> target_{0};
    std::atomic<bool> over_{false}, flipped_{false};
    bool back_;
    uint64_t offset_, passed_[2] = {};
    int bit_;
    std::thread thread_;
};

using Work = std::function<gcoll_status(uint32_t rank, gcoll_context *context)>;

constexpr uint64_t kElements = 200000, kHandshake = 152; // in each direction

// Runs two ranks; rank 0 connects to rank 1 through the wire. Expects that each gets an error that blames no
// rank.
void expect_noticed(const Work &work, bool back, uint64_t offset, int bit) {
    Wire wire(back, offset, bit);
    Job job;
    job.size = 2;
    job.transport = "tcp";
    job.adjust = [](uint32_t, gcoll_context_options *options) {
        options->checksum = 1;
        options->interface = "127.0.0.1";
    };
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        route_by(context, rank == 0 ? Wire::divert : nullptr, &wire);
        gcoll_status status = work(rank, context);
        if (status == GCOLL_OK) // the last that it had to do with the other went well
            status = gcoll_barrier(context, nullptr);
        EXPECT_EQ(status, GCOLL_ERR_IO) << told(status);
        EXPECT_NE(std::string(gcoll_last_error())
                      .find("data was changed on the way from rank " + std::to_string(back ? 1 : 0)),
                  std::string::npos)
            << gcoll_last_error();
        EXPECT_EQ(gcoll_context_culprit(context), -1);
    });
    EXPECT_TRUE(wire.flipped());
}

gcoll_status sum(uint32_t rank, gcoll_context *context) {
    std::vector<float> data(kElements, static_cast<float>(rank + 1));
    gcoll_allreduce_options options;
    gcoll_allreduce_options_init(&options);
    options.algorithm = "ring";
    gcoll_status status =
        gcoll_allreduce(context, nullptr, data.data(), data.size(), GCOLL_FLOAT32, GCOLL_SUM, &options);
    if (status == GCOLL_OK)
        EXPECT_EQ(data, std::vector<float>(kElements, 3.0f)) << "a wrong result is told to be right";
    return status;
}

// In an allreduce both ranks receive and forward data: one half is reduced, the other goes straight into the
// buffer.
TEST(Checksums, FlippedBitsOfAnAllreduceAreNoticed) {
    std::mt19937 random(25);
    for (int run = 0; run < 25; run++) {
        const bool back = run % 2;
        const uint64_t offset = kHandshake + random() % (kElements * 4 / 2);
        SCOPED_TRACE("byte " + std::to_string(offset));
        expect_noticed(sum, back, offset, static_cast<int>(random() % 8));
    }
}

TEST(Checksums, FlippedBitsOfABroadcastAreNoticed) {
    for (uint64_t offset :
         {kHandshake, kHandshake + 30, kHandshake + 60, kHandshake + 5000, uint64_t(700000)})
        expect_noticed(
            [](uint32_t rank, gcoll_context *context) {
                std::vector<float> data(kElements, rank == 0 ? 7.0f : 0.0f);
                gcoll_status status =
                    gcoll_broadcast(context, data.data(), data.size(), GCOLL_FLOAT32, 0, nullptr);
                if (status == GCOLL_OK)
                    EXPECT_EQ(data, std::vector<float>(kElements, 7.0f));
                return status;
            },
            false, offset, 6);
}

TEST(Checksums, FlippedBitsOfMessagesAreNoticed) {
    for (uint64_t bytes : {uint64_t(64), uint64_t(10000), uint64_t(1) << 20})
        expect_noticed(
            [bytes](uint32_t rank, gcoll_context *context) {
                std::vector<uint8_t> data(bytes, rank == 0 ? 7 : 0);
                gcoll_pair *pair = nullptr;
                EXPECT_GCOLL_OK(gcoll_context_pair(context, 1 - rank, &pair));
                return rank == 0 ? gcoll_pair_send(pair, 3, data.data(), bytes)
                                 : gcoll_pair_recv(pair, 3, data.data(), bytes);
            },
            false, kHandshake + bytes, 0);
}

TEST(Checksums, FlippedBitsOfAccessesAreNoticed) {
    for (bool put : {true, false})
        expect_noticed(
            [put](uint32_t rank, gcoll_context *context) {
                constexpr uint64_t kBytes = 1 << 20;
                std::vector<uint8_t> mine(kBytes, static_cast<uint8_t>(rank + 1));
                gcoll_region *region = nullptr;
                gcoll_region_key key = {};
                if (rank == 1) {
                    EXPECT_GCOLL_OK(gcoll_region_create(context, mine.data(), kBytes, &region));
                    EXPECT_GCOLL_OK(gcoll_region_export(region, &key));
                }
                gcoll_status status =
                    gcoll_broadcast(context, key.bytes, sizeof key.bytes, GCOLL_UINT8, 1, nullptr);
                EXPECT_GCOLL_OK(status);
                if (rank == 0)
                    status = put ? gcoll_put(context, &key, 0, mine.data(), kBytes, 0)
                                 : gcoll_get(context, &key, 0, mine.data(), kBytes);
                if (status == GCOLL_OK)
                    status = gcoll_barrier(context, nullptr);
                gcoll_region_destroy(region);
                return status;
            },
            !put, 500000, 3);
}

// ---- In one process -------------------------------------------------------------------------------------

TEST(Checksums, FlippedBitsInOneProcessAreNoticed) {
    for (uint64_t byte : {uint64_t(0), uint64_t(5000), uint64_t(399999)}) {
        Job job;
        job.size = 2;
        job.adjust = [](uint32_t, gcoll_context_options *options) { options->checksum = 1; };
        job.prepare = [byte](gcoll_hub *hub) {
            EXPECT_GCOLL_OK(gcoll_inproc_corrupt(hub, 0, 1, GCOLL_INPROC_ANY_STREAM, 0, byte));
        };
        run_threads(job, [&](uint32_t rank, gcoll_context *context) {
            gcoll_status status = sum(rank, context);
            EXPECT_EQ(status, GCOLL_ERR_IO) << told(status);
            EXPECT_NE(std::string(gcoll_last_error()).find("data was changed on the way from rank 0"),
                      std::string::npos)
                << gcoll_last_error();
            EXPECT_EQ(gcoll_context_culprit(context), -1);
        });
    }
}

// ---- What ranks are told --------------------------------------------------------------------------------

class ChecksumOptions : public testing::TestWithParam<const char *> {};

TEST_P(ChecksumOptions, TheyMustBeTheSame) {
    if (std::string(GetParam()) == "ibverbs")
        GTEST_SKIP() << "has none";
    Job job = job_on(GetParam(), 2);
    job.adjust = [](uint32_t rank, gcoll_context_options *options) { options->checksum = rank == 1; };
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        gcoll_status status = sum(rank, context);
        EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
        const std::string text = gcoll_last_error();
        EXPECT_NE(text.find("options.checksum: is "), std::string::npos) << text;
        EXPECT_TRUE(text.find("1 on rank 1") != std::string::npos &&
                    text.find("0 on rank 0") != std::string::npos)
            << text;
    });
}

// If ranks measure, they connect when the context is created, and the difference shows there.
TEST_P(ChecksumOptions, ADifferenceEndsTheCreationThatConnects) {
    if (std::string(GetParam()) == "ibverbs")
        GTEST_SKIP() << "has none";
    gcoll_store *store = nullptr;
    gcoll_hub *hub = nullptr;
    ASSERT_GCOLL_OK(gcoll_store_memory_create(&store));
    ASSERT_GCOLL_OK(gcoll_hub_create(2, &hub));
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < 2; rank++)
        threads.emplace_back([&, rank] {
            const Job job = job_on(GetParam(), 2);
            gcoll_context_options options = options_of(job, rank, store, hub);
            options.tuning = "fit";
            options.checksum = rank == 0;
            gcoll_context *context = nullptr;
            const int64_t begun = now_ms();
            gcoll_status status = gcoll_context_create(&options, &context);
            EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
            EXPECT_NE(std::string(gcoll_last_error()).find("options.checksum: is "), std::string::npos)
                << gcoll_last_error();
            EXPECT_LT(now_ms() - begun, job.timeout_ms);
        });
    for (std::thread &thread : threads)
        thread.join();
    gcoll_hub_destroy(hub);
    gcoll_store_destroy(store);
}

INSTANTIATE_TEST_SUITE_P(Some, ChecksumOptions, transports(),
                         [](const auto &param) { return std::string(param.param); });

TEST(Checksums, OptionsAreChecked) {
    gcoll_store *store = nullptr;
    ASSERT_GCOLL_OK(gcoll_store_memory_create(&store));
    Job job;
    job.size = 2;
    job.transport = "tcp";
    gcoll_context_options options = options_of(job, 0, store, nullptr);
    gcoll_context *context = nullptr;
    options.checksum = 2;
    EXPECT_EQ(gcoll_context_create(&options, &context), GCOLL_ERR_INVALID);
    EXPECT_NE(std::string(gcoll_last_error()).find("options.checksum: is 2; allowed are 0 and 1"),
              std::string::npos)
        << gcoll_last_error();
    // The options of an older caller end before this field.
    options.checksum = 2;
    options.size = 1;
    options.struct_size = offsetof(gcoll_context_options, checksum);
    EXPECT_GCOLL_OK(gcoll_context_create(&options, &context));
    gcoll_context_destroy(context);
    gcoll_store_destroy(store);
}

TEST(Checksums, RdmaDevicesHaveTheirOwn) {
    gcoll_endpoint_options options = {};
    options.size = 2;
    options.checksum = true;
    gcoll_endpoint *endpoint = nullptr;
    gcoll_events events = {};
    EXPECT_EQ(gcoll_transport_ibverbs.open(&options, &events, &endpoint), GCOLL_ERR_UNSUPPORTED);
    if (std::string(gcoll_last_error()).find("built without") == std::string::npos) {
        EXPECT_NE(std::string(gcoll_last_error()).find("options.checksum: is 1"), std::string::npos)
            << gcoll_last_error();
    }
}

// A duplicate has checksums like its parent. Regions use messages if there is no hardware for them.
TEST(Checksums, DuplicatesAndRegionsHaveThem) {
    Job job;
    job.size = 2;
    job.transport = "tcp";
    job.adjust = [](uint32_t, gcoll_context_options *options) { options->checksum = 1; };
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        gcoll_context *copy = nullptr;
        ASSERT_GCOLL_OK(gcoll_context_duplicate(context, &copy));
        EXPECT_GCOLL_OK(sum(rank, copy));
        EXPECT_TRUE(route_has_checksum(copy));
        gcoll_context_destroy(copy);
    });
}

} // namespace
