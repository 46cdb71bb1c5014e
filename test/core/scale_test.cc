// test/core/scale_test.cc - tests with sixty-four ranks on one machine: they meet quickly, and everything
// still works.
#include "test/kit/harness.h"

#include <arpa/inet.h>
#include <cstdio>
#include <netinet/in.h>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using gcoll_test::Job;
using gcoll_test::now_ms;
using gcoll_test::run_threads;
using gcoll_test::Shared;

constexpr uint32_t kRanks = 64;
constexpr int64_t kStartMs = 10000; // from the first fork to the last rank through its first barrier

void sums(uint32_t rank, gcoll_context *context) {
    constexpr uint64_t kCount = 1000;
    for (const char *algorithm : {"auto", "ring", "group_butterfly:r=0", "group_butterfly:r=6"}) {
        std::vector<float> data(kCount);
        for (uint64_t i = 0; i < kCount; i++)
            data[i] = static_cast<float>((rank + i) % 64);
        gcoll_allreduce_options options;
        gcoll_allreduce_options_init(&options);
        options.algorithm = algorithm;
        ASSERT_GCOLL_OK(
            gcoll_allreduce(context, nullptr, data.data(), kCount, GCOLL_FLOAT32, GCOLL_SUM, &options));
        for (uint64_t i = 0; i < kCount; i++)
            ASSERT_EQ(data[i], 2016.0f) << algorithm << " at " << i; // 0 + 1 + ... + 63
    }
}

struct Times {
    std::atomic<int64_t> joined[kRanks], through[kRanks];
};

struct Used {
    std::atomic<int64_t> us[kRanks];
};

int64_t processor_us() {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * INT64_C(1000000) + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
}

// Runs sixty-four processes that meet at this URL and compute.
void sixty_four_processes(const char *kind, const std::string &url) {
    constexpr int64_t kLimitMs = 60000;
    Shared<Times> times;
    int64_t start = now_ms();
    gcoll_test::Processes processes(kRanks, [&](uint32_t rank) {
        gcoll_store *store = nullptr;
        EXPECT_GCOLL_OK(gcoll_store_open(url.c_str(), kLimitMs, &store));
        Job job;
        job.size = kRanks;
        gcoll_context *context = store ? gcoll_test::join(store, job, rank) : nullptr;
        if (!context)
            return gcoll_test::kFailed;
        times->joined[rank] = now_ms();
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        times->through[rank] = now_ms();
        sums(rank, context);
        gcoll_context_destroy(context);
        gcoll_store_destroy(store);
        return 0;
    });
    processes.expect_success(kLimitMs);
    int64_t ended = now_ms(), joined = 0, through = 0;
    for (uint32_t rank = 0; rank < kRanks; rank++) {
        joined = std::max(joined, times->joined[rank].load());
        through = std::max(through, times->through[rank].load());
    }
    printf("64 processes, %s store: all joined after %lld ms, through the first barrier after %lld ms, gone "
           "after %lld ms\n",
           kind, static_cast<long long>(joined - start), static_cast<long long>(through - start),
           static_cast<long long>(ended - start));
    EXPECT_LT(through - start, kStartMs);
}

TEST(Scale, SixtyFourProcesses) {
    gcoll_test::Folder folder;
    sixty_four_processes("file", folder.url());
    EXPECT_EQ(folder.files(), std::vector<std::string>()) << "left behind in the store";
}

TEST(Scale, SixtyFourProcessesOfWhichOneServes) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); // for a port that is free
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr *>(&address), size), 0);
    ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size), 0);
    close(fd);
    sixty_four_processes("tcp", "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
}

TEST(Scale, SixtyFourThreads) {
    run_threads(
        kRanks, "inproc",
        [](uint32_t rank, gcoll_context *context) {
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            sums(rank, context);
        });
}

// Ranks that wait for a late one sleep. All together they take less processor time than one spinning rank.
TEST(Scale, WaitingForALateRankTakesNoProcessor) {
    constexpr useconds_t kLateUs = 1000000;
    constexpr int64_t kAllowedUs = kLateUs / 2; // of all ranks together; on 2 cores those that spin take 2 s
    Shared<Used> used;
    gcoll_test::run_processes(kRanks, 60000, [&](uint32_t rank, gcoll_store *store) {
        Job job;
        job.size = kRanks;
        gcoll_context *context = gcoll_test::join(store, job, rank);
        if (!context)
            return gcoll_test::kFailed;
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr)); // connections are made
        int64_t before = processor_us();
        if (rank == kRanks / 3)
            usleep(kLateUs);
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        used->us[rank] = processor_us() - before;
        gcoll_context_destroy(context);
        return 0;
    });
    int64_t sum = 0;
    for (uint32_t rank = 0; rank < kRanks; rank++)
        sum += used->us[rank];
    EXPECT_GT(sum, 0);
    EXPECT_LT(sum, kAllowedUs);
}

} // namespace
