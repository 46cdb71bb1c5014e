// Jobs over ibverbs that go wrong, and what they leave behind: keys that are wrong, memory that cannot be
// registered, ranks that end in the midst. Needs a device, and counts what it has by `rdma resource`.
#include "test/kit/harness.h"
#include "test/transport/ibverbs_support.h"

extern "C" {
#include "test/transport/ibverbs_peek.h"
}

#include <linux/capability.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>

namespace {

using gcoll_test::Group;
using gcoll_test::Job;
using gcoll_test::now_ms;

constexpr int64_t kSoonMs = 8000; // well below the time-out

Job job_of(uint32_t size) {
    Job job;
    job.size = size;
    job.transport = "ibverbs";
    return job;
}

class IbverbsJobs : public ibverbs_support::NeedsDevice {};

// ---- Registration
// ------------------------------------------------------------------------------------------

constexpr uint64_t kElements = 300000;

// Runs `once` with a sum of the ranks' numbers several times. The first may register memory, later ones not.
void only_the_first_registers(gcoll_context *context, std::vector<float> &data,
                              const std::function<gcoll_status()> &once) {
    const uint32_t ranks = gcoll_context_size(context);
    uint64_t registered = 0;
    for (int turn = 0; turn < 4; turn++) {
        std::fill(data.begin(), data.end(), static_cast<float>(gcoll_context_rank(context) + 1));
        EXPECT_GCOLL_OK(once());
        EXPECT_EQ(data, std::vector<float>(kElements, static_cast<float>(ranks * (ranks + 1) / 2)));
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        const uint64_t now = ibverbs_counters_of(context).registrations;
        if (turn > 0)
            EXPECT_EQ(now, registered) << "turn " << turn;
        registered = now;
    }
    EXPECT_GT(registered, 0u);
}

TEST_F(IbverbsJobs, ASecondRunOfAPreparedPlanRegistersNothing) {
    for (const char *algorithm : {"ring", "recursive_doubling", "halving_doubling"})
        gcoll_test::run_threads(
            job_of(3),
            [&](uint32_t, gcoll_context *context) {
                std::vector<float> data(kElements);
                gcoll_operation *operation = nullptr;
                gcoll_allreduce_options options;
                gcoll_allreduce_options_init(&options);
                options.algorithm = algorithm;
                ASSERT_GCOLL_OK(gcoll_allreduce_create(context, nullptr, data.data(), kElements,
                                                       GCOLL_FLOAT32, GCOLL_SUM, &options, &operation));
                only_the_first_registers(
                    context, data, [&] { return gcoll_operation_run(operation); });
                gcoll_operation_destroy(operation);
            });
}

TEST_F(IbverbsJobs, WithACacheNorDoesASecondCall) {
    gcoll_ibverbs_options ibverbs;
    gcoll_ibverbs_options_init(&ibverbs);
    ibverbs.cache_bytes = 64 << 20;
    Job job = job_of(3);
    job.adjust = [&](uint32_t, gcoll_context_options *options) { options->ibverbs = &ibverbs; };
    gcoll_test::run_threads(job, [](uint32_t, gcoll_context *context) {
        std::vector<float> data(kElements);
        only_the_first_registers(context, data, [&] {
            return gcoll_allreduce(context, nullptr, data.data(), kElements, GCOLL_FLOAT32, GCOLL_SUM,
                                   nullptr);
        });
    });
}

// ---- Keys -------------------------------------------------------------------------------------------------

// Where a key of a region has what the device checks, and what it is asked for.
constexpr size_t kAddressAt = 48, kRkeyAt = 56;

void with_forged_key(size_t at, uint64_t change, bool gets) {
    gcoll_test::run_threads(
        job_of(3),
        [&](uint32_t rank, gcoll_context *context) {
            std::vector<uint8_t> memory(4096), data(64);
            gcoll_region *region = nullptr;
            gcoll_region_key own = {}, keys[3];
            EXPECT_GCOLL_OK(gcoll_region_create(context, memory.data(), memory.size(), &region));
            EXPECT_GCOLL_OK(gcoll_region_export(region, &own));
            EXPECT_GCOLL_OK(gcoll_allgather(context, &own, keys, sizeof own, GCOLL_UINT8, nullptr));
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            uint32_t found;
            memcpy(&found, keys[1].bytes + at, sizeof found);
            found += static_cast<uint32_t>(change);
            memcpy(keys[1].bytes + at, &found, sizeof found);
            const int64_t begun = now_ms();
            gcoll_status status = gcoll_barrier(context, nullptr);
            if (status == GCOLL_OK && rank == 0)
                status = gets ? gcoll_get(context, &keys[1], 0, data.data(), data.size())
                              : gcoll_put(context, &keys[1], 0, data.data(), data.size(), 0);
            else if (status == GCOLL_OK)
                status = gcoll_barrier(context, nullptr);
            const std::string text = gcoll_last_error();
            EXPECT_LT(now_ms() - begun, kSoonMs);
            EXPECT_EQ(status, GCOLL_ERR_PEER) << text;
            EXPECT_NE(text.find("remote access error"), std::string::npos) << text;
            EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
            EXPECT_EQ(memory, std::vector<uint8_t>(4096)) << "nobody wrote";
            gcoll_region_destroy(region);
        });
}

TEST_F(IbverbsJobs, AWrongRemoteKeyIsRefused) {
    for (bool gets : {false, true})
        with_forged_key(kRkeyAt, 0x1234500, gets);
}

TEST_F(IbverbsJobs, AnAddressBeyondTheRegionIsRefused) {
    for (bool gets : {false, true})
        with_forged_key(kAddressAt, 4096 - 32, gets);
}

// ---- Locked memory ----------------------------------------------------------------------------------------

// Root is above the limit as long as it has the capability.
void limit_locked_memory(uint64_t bytes) {
    const rlimit limit = {bytes, bytes};
    ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2] = {};
    ASSERT_EQ(syscall(SYS_capset, &header, none), 0);
}

TEST_F(IbverbsJobs, TooLittleLockedMemoryIsToldWithTheNumbers) {
    for (uint64_t limit : {64u << 10, 2u << 20}) // not even for a queue pair; not for what is sent
        gcoll_test::run_processes(
            2, 20000,
            [&](uint32_t rank, gcoll_store *store) {
                gcoll_context_options options = gcoll_test::options_of(job_of(2), rank, store, nullptr);
                gcoll_context *context = nullptr;
                if (rank == 1)
                    limit_locked_memory(limit);
                EXPECT_GCOLL_OK(gcoll_context_create(&options, &context));
                std::vector<float> data(1 << 20, 1);
                const int64_t begun = now_ms();
                const gcoll_status status = gcoll_allreduce(context, nullptr, data.data(), data.size(),
                                                            GCOLL_FLOAT32, GCOLL_SUM, nullptr);
                const std::string text = gcoll_last_error();
                EXPECT_LT(now_ms() - begun, kSoonMs);
                EXPECT_NE(status, GCOLL_OK);
                EXPECT_EQ(text.find("reported by rank 1") != std::string::npos, rank == 0) << text;
                EXPECT_NE(text.find("cannot register"), std::string::npos) << text;
                EXPECT_NE(text.find("bytes of locked memory, and its limit is " + std::to_string(limit)),
                          std::string::npos)
                    << text;
                gcoll_context_destroy(context);
                return 0;
            });
}

// ---- What is left -----------------------------------------------------------------------------------------

size_t entries(const char *folder) {
    size_t count = 0;
    for (const auto &entry : std::filesystem::directory_iterator(folder))
        count += !entry.path().empty();
    return count;
}

// Of all devices, and of this process.
std::map<std::string, size_t> resources() {
    std::map<std::string, size_t> found;
    FILE *pipe = popen("rdma resource show", "r");
    char line[512] = "";
    while (pipe && fgets(line, sizeof line, pipe)) {
        std::istringstream words(line);
        std::string word;
        size_t count = 0;
        words >> word >> word; // the device
        while (words >> word >> count)
            found[word] += count;
    }
    EXPECT_EQ(pipe ? pclose(pipe) : -1, 0);
    EXPECT_TRUE(found.count("qp") && found.count("mr") && found.count("cq") && found.count("ctx"))
        << "'rdma resource show' told nothing: " << line;
    found["files"] = entries("/proc/self/fd");
    found["threads"] = entries("/proc/self/task");
    return found;
}

std::string in_words(const std::map<std::string, size_t> &counts) {
    std::string text;
    for (const auto &[name, count] : counts)
        text += name + " " + std::to_string(count) + " ";
    return text;
}

void reduce(gcoll_context *context, uint64_t count, gcoll_status expected) {
    std::vector<float> data(count, 1);
    const gcoll_status status =
        gcoll_allreduce(context, nullptr, data.data(), count, GCOLL_FLOAT32, GCOLL_SUM, nullptr);
    EXPECT_EQ(status, expected) << gcoll_test::told(status);
}

TEST_F(IbverbsJobs, FiftyContextsLeaveNothingBehind) {
    auto one = [](uint32_t, gcoll_context *context) {
        std::vector<uint8_t> memory(10000);
        gcoll_region *region = nullptr;
        reduce(context, 100, GCOLL_OK);
        reduce(context, 50000, GCOLL_OK);
        EXPECT_GCOLL_OK(gcoll_region_create(context, memory.data(), memory.size(), &region));
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        gcoll_region_destroy(region);
    };
    gcoll_test::run_threads(job_of(2), one); // what is opened once for all
    const auto before = resources();
    for (int i = 0; i < 25; i++)
        gcoll_test::run_threads(job_of(2), one);
    EXPECT_EQ(in_words(resources()), in_words(before));
}

TEST_F(IbverbsJobs, ThoseThatBreakLeaveNothingBehind) {
    gcoll_test::run_threads(job_of(3),
                            [](uint32_t, gcoll_context *context) { reduce(context, 9, GCOLL_OK); });
    const auto before = resources();
    for (int i = 0; i < 4; i++) {
        gcoll_test::run_threads(job_of(3), [](uint32_t rank, gcoll_context *context) {
            reduce(context, 200000, GCOLL_OK);
            reduce(context, 200000 + rank / 2, GCOLL_ERR_MISMATCH);
        });
        gcoll_test::run_threads(job_of(3), [](uint32_t rank, gcoll_context *context) {
            std::vector<float> data(200000, 1);
            gcoll_request *request = nullptr;
            reduce(context, 9, GCOLL_OK);
            if (rank > 0) { // rank 0 leaves
                EXPECT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, data.data(), data.size(),
                                                      GCOLL_FLOAT32, GCOLL_SUM, nullptr, &request));
                EXPECT_EQ(gcoll_request_wait(&request), GCOLL_ERR_PEER);
            }
        });
    }
    EXPECT_EQ(in_words(resources()), in_words(before));
}

TEST_F(IbverbsJobs, ThoseThatAreKilledLeaveNothingBehind) {
    const auto before = resources();
    {
        gcoll_test::Folder folder;
        gcoll_test::Shared<std::atomic<uint32_t>> rounds;
        gcoll_test::Processes ranks(3, [&](uint32_t rank) {
            gcoll_store *store = nullptr;
            gcoll_context *context = nullptr;
            EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 10000, &store));
            gcoll_context_options options = gcoll_test::options_of(job_of(3), rank, store, nullptr);
            EXPECT_GCOLL_OK(gcoll_context_create(&options, &context));
            std::vector<float> data(200000);
            while (gcoll_allreduce(context, nullptr, data.data(), data.size(), GCOLL_FLOAT32, GCOLL_SUM,
                                   nullptr) == GCOLL_OK)
                (*rounds)++;
            return gcoll_context_culprit(context) == 1 ? 0 : 1; // and ends as it is
        });
        EXPECT_TRUE(gcoll_test::await(*rounds, 6, 20000));
        ranks.signal(1, SIGKILL);
        ranks.expect_success(kSoonMs, 1);
    }
    EXPECT_EQ(in_words(resources()), in_words(before));
}

} // namespace
