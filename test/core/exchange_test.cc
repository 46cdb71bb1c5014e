// Creation by an allgather of the caller's, without a store.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "test/kit/calls.h"

namespace {

using namespace gcoll_test;

// An allgather among threads. A fault may spoil what a rank gets, or make its call fail.
class Allgather {
  public:
    struct Got { // what a call has gathered, before it returns
        uint32_t rank, round;
        size_t bytes;
        uint8_t *all;
    };
    using Fault = std::function<int(const Got &got)>; // the status to return

    explicit Allgather(uint32_t size, Fault fault = nullptr) : size_(size), fault_(std::move(fault)) {}

    gcoll_status gather(uint32_t rank, const void *mine, size_t bytes, void *all) {
        std::unique_lock<std::mutex> guard(lock_);
        const uint32_t round = round_;
        if (there_ == 0)
            rows_.assign(size_ * bytes, 0);
        if (rows_.size() != size_ * bytes)
            return gcoll_store_error(GCOLL_ERR_MISMATCH, "the test's ranks give different sizes");
        memcpy(rows_.data() + rank * bytes, mine, bytes);
        if (++there_ == size_) {
            full_ = rows_;
            there_ = 0;
            round_++;
            changed_.notify_all();
        }
        changed_.wait_for(guard, std::chrono::seconds(5), [&] { return round_ > round || over_; });
        if (round_ == round)
            return gcoll_store_error(GCOLL_ERR_TIMEOUT, "the test's ranks did not all come");
        const Got got = {rank, round + 1, bytes, static_cast<uint8_t *>(all)};
        memcpy(all, full_.data(), full_.size());
        const int status = fault_ ? fault_(got) : 0;
        if (status == 0)
            return GCOLL_OK;
        over_ = true;
        changed_.notify_all();
        return gcoll_store_error(static_cast<gcoll_status>(status), "the test wants it");
    }
    uint32_t rounds() {
        std::lock_guard<std::mutex> guard(lock_);
        return round_;
    }

  private:
    const uint32_t size_;
    const Fault fault_;
    std::mutex lock_;
    std::condition_variable changed_;
    std::vector<uint8_t> rows_, full_;
    uint32_t there_ = 0, round_ = 0;
    bool over_ = false;
};

struct Caller {
    Allgather *allgather;
    uint32_t rank;

    static gcoll_status call(void *arg, const void *mine, size_t bytes, void *all) {
        auto *self = static_cast<Caller *>(arg);
        return self->allgather->gather(self->rank, mine, bytes, all);
    }
};

struct Ending {
    gcoll_status status = GCOLL_OK;
    std::string text;
};

// Creates a context on each rank, runs the body where that works, and tells how creation ended.
std::vector<Ending> create_all(const Job &job, Allgather *allgather, const Body &body) {
    Watchdog watchdog(120);
    std::vector<Ending> endings(job.size);
    std::vector<Caller> callers(job.size);
    std::vector<std::thread> threads;
    gcoll_hub *hub = nullptr;
    EXPECT_GCOLL_OK(gcoll_hub_create(job.size, &hub));
    for (uint32_t rank = 0; rank < job.size; rank++)
        threads.emplace_back([&, rank] {
            callers[rank] = {allgather, rank};
            gcoll_context_options options = options_of(job, rank, nullptr, hub);
            options.exchange = Caller::call;
            options.exchange_arg = &callers[rank];
            gcoll_context *context = nullptr;
            endings[rank].status = gcoll_context_create(&options, &context);
            if (endings[rank].status != GCOLL_OK)
                endings[rank].text = gcoll_last_error();
            else if (body)
                body(rank, context);
            gcoll_context_destroy(context);
        });
    for (std::thread &thread : threads)
        thread.join();
    gcoll_hub_destroy(hub);
    return endings;
}

void expect_created(const Job &job, const Body &body) {
    Allgather allgather(job.size);
    for (const Ending &ending : create_all(job, &allgather, body))
        EXPECT_EQ(ending.status, GCOLL_OK) << ending.text;
    EXPECT_EQ(allgather.rounds(), job.size > 1 ? 3u : 0u) << "as the header says";
}

// What all ranks must end with, when one of the allgathers does that.
void expect_failure(const Job &job, const Allgather::Fault &fault, gcoll_status status,
                    const std::vector<std::string> &texts) {
    Allgather allgather(job.size, fault);
    for (const Ending &ending : create_all(job, &allgather, nullptr)) {
        EXPECT_EQ(ending.status, status) << ending.text;
        for (const std::string &text : texts)
            EXPECT_NE(ending.text.find(text), std::string::npos) << ending.text << "\nlacks: " << text;
    }
}

class Exchanges : public testing::TestWithParam<const char *> {
  protected:
    static Job job(uint32_t size) { return job_on(GetParam(), size); }
};

void sum_in_all_forms(gcoll_context *context) {
    const uint64_t size = gcoll_context_size(context), rank = gcoll_context_rank(context);
    for (int form = 0; form < 3; form++) {
        uint64_t word = rank;
        gcoll_request *request = nullptr;
        gcoll_operation *operation = nullptr;
        if (form == 0) {
            EXPECT_GCOLL_OK(gcoll_allreduce(context, nullptr, &word, 1, GCOLL_UINT64, GCOLL_SUM, nullptr));
        } else if (form == 1) {
            EXPECT_GCOLL_OK(gcoll_allreduce_start(context, nullptr, &word, 1, GCOLL_UINT64, GCOLL_SUM,
                                                  nullptr, &request));
            EXPECT_GCOLL_OK(gcoll_request_wait(&request));
        } else {
            EXPECT_GCOLL_OK(gcoll_allreduce_create(context, nullptr, &word, 1, GCOLL_UINT64, GCOLL_SUM,
                                                   nullptr, &operation));
            EXPECT_GCOLL_OK(gcoll_operation_run(operation));
            gcoll_operation_destroy(operation);
        }
        EXPECT_EQ(word, size * (size - 1) / 2) << "form " << form;
    }
}

// ---- That it works --------------------------------------------------------------------------------------

TEST_P(Exchanges, RanksMeetWithoutAStore) {
    for (uint32_t size : {1u, 2u, 5u, 13u})
        expect_created(
            job(size),
            [size](uint32_t rank, gcoll_context *context) {
                EXPECT_EQ(gcoll_context_rank(context), rank);
                EXPECT_EQ(gcoll_context_size(context), size);
                sum_in_all_forms(context);
                uint32_t word = 1;
                gcoll_allreduce_options options;
                gcoll_allreduce_options_init(&options);
                options.algorithm = "hierarchical"; // asks which ranks share a host
                EXPECT_GCOLL_OK(
                    gcoll_allreduce(context, nullptr, &word, 1, GCOLL_UINT32, GCOLL_SUM, &options));
                EXPECT_EQ(word, size);
            });
}

TEST_P(Exchanges, GroupsOfWhatMetWithoutAStore) {
    expect_created(
        job(5),
        [](uint32_t rank, gcoll_context *context) {
            gcoll_context *copy = nullptr, *half = nullptr;
            ASSERT_GCOLL_OK(gcoll_context_duplicate(context, &copy));
            ASSERT_GCOLL_OK(gcoll_context_split(copy, static_cast<int32_t>(rank % 2), 0, &half));
            sum_in_all_forms(copy);
            sum_in_all_forms(half);
            gcoll_context_destroy(copy);
            gcoll_context_destroy(half);
        });
}

TEST_P(Exchanges, WithAProgressThreadAndTheMonitor) {
    Job each = job(3);
    each.adjust = [](uint32_t, gcoll_context_options *options) {
        options->progress_thread = options->monitor = 1;
    };
    expect_created(each, [](uint32_t, gcoll_context *context) { sum_in_all_forms(context); });
}

TEST_P(Exchanges, RankZeroMeasuresOrReadsAFile) {
    const Folder folder;
    const std::string path = folder.path() + "/tuning";
    std::ofstream(path) << "gcoll-tuning 1\n"
                        << "for transport=" << GetParam() << " ranks=5 local=5\n"
                        << "cost alpha_ns=12345 beta_ps=67 gamma_ps=89 latency_ns=1 message_ns=2 byte_ps=3\n";
    for (const char *tuning : {"fit", path.c_str()}) {
        std::mutex lock;
        std::vector<std::string> said;
        Job each = job(5);
        each.adjust = [tuning](uint32_t rank, gcoll_context_options *options) {
            options->tuning = rank == 0 ? tuning : "default"; // rank 0's counts
        };
        expect_created(each, [&](uint32_t, gcoll_context *context) {
            char text[512];
            EXPECT_GCOLL_OK(gcoll_context_tuning(context, text, sizeof text));
            std::lock_guard<std::mutex> guard(lock);
            said.push_back(text);
        });
        for (const std::string &each_said : said)
            EXPECT_EQ(each_said, said[0]);
        if (tuning == path)
            EXPECT_NE(said[0].find("alpha_ns=12345 "), std::string::npos) << said[0];
    }
}

// ---- That it fails clearly ------------------------------------------------------------------------------

TEST_P(Exchanges, WrongOptions) {
    gcoll_context_options options;
    gcoll_context *context = nullptr;
    Caller caller = {nullptr, 0};
    gcoll_context_options_init(&options);
    options.size = 2;
    EXPECT_EQ(gcoll_context_create(&options, &context), GCOLL_ERR_INVALID);
    EXPECT_NE(std::string(gcoll_last_error()).find("options.exchange"), std::string::npos);
    options.exchange = Caller::call;
    options.exchange_arg = &caller;
    EXPECT_GCOLL_OK(gcoll_store_memory_create(&options.store));
    EXPECT_EQ(gcoll_context_create(&options, &context), GCOLL_ERR_INVALID);
    EXPECT_NE(std::string(gcoll_last_error()).find("options.exchange: is set beside options.store"),
              std::string::npos);
    gcoll_store_destroy(options.store);
    EXPECT_EQ(context, nullptr);
}

TEST_P(Exchanges, AFailureOfTheAllgatherIsTheResult) {
    for (uint32_t round = 1; round <= 3; round++)
        for (int status : {int(GCOLL_ERR_PEER), 77, -5}) {
            Allgather allgather(3, [round, status](const Allgather::Got &got) {
                return got.round == round && got.rank == 1 ? status : 0;
            });
            const std::vector<Ending> endings = create_all(job(3), &allgather, nullptr);
            EXPECT_EQ(endings[1].status, status == GCOLL_ERR_PEER ? GCOLL_ERR_PEER : GCOLL_ERR_IO);
            EXPECT_NE(endings[1].text.find("options.exchange: failed on rank 1 in round " +
                                           std::to_string(round) + " with status " + std::to_string(status) +
                                           ": the test wants it"),
                      std::string::npos)
                << endings[1].text;
            for (uint32_t rank : {0u, 2u}) {
                EXPECT_NE(endings[rank].status, GCOLL_OK);
                EXPECT_NE(endings[rank].text, "");
            }
        }
}

TEST_P(Exchanges, MissingBytesAreNoticed) {
    for (uint32_t round = 1; round <= 3; round++) {
        const std::string said = ", in round " + std::to_string(round);
        expect_failure( // the last row is cut off
            job(3),
            [round](const Allgather::Got &got) {
                if (got.round == round)
                    memset(got.all + 3 * got.bytes - 3, 0xa5, 3);
                return 0;
            },
            GCOLL_ERR_PROTOCOL, {"of rank 2" + said, "options.exchange"});
        expect_failure(job(3),
                       [round](const Allgather::Got &got) {
                           if (got.round == round)
                               memset(got.all + got.bytes, 0xa5, got.bytes);
                           return 0;
                       },
                       GCOLL_ERR_PROTOCOL, {"gave rank ", "nothing of rank 1" + said});
    }
}

TEST_P(Exchanges, GarbageOfOneRankIsNoticed) {
    for (uint32_t round = 1; round <= 3; round++)
        for (uint8_t garbage : {0x00, 0x41, 0xff})
            expect_failure(
                job(3),
                [round, garbage](const Allgather::Got &got) {
                    if (got.round == round)
                        memset(got.all + 2 * got.bytes, garbage, got.bytes);
                    return 0;
                },
                GCOLL_ERR_PROTOCOL, {"of rank 2, in round " + std::to_string(round)});
}

// One rank alone finds something wrong. It goes on with the rounds, so the others are told.
TEST_P(Exchanges, WhatOneRankFindsReachesTheOthers) {
    Allgather allgather(3, [](const Allgather::Got &got) {
        if (got.round == 1 && got.rank == 1)
            got.all[5] ^= 1;
        return 0;
    });
    const std::vector<Ending> endings = create_all(job(3), &allgather, nullptr);
    EXPECT_EQ(endings[1].status, GCOLL_ERR_PROTOCOL) << endings[1].text;
    for (uint32_t rank : {0u, 2u}) {
        EXPECT_EQ(endings[rank].status, GCOLL_ERR_PEER) << endings[rank].text;
        EXPECT_NE(endings[rank].text.find("rank 1 could not join: options.exchange"), std::string::npos)
            << endings[rank].text;
    }
}

TEST_P(Exchanges, AWrongOrderIsNamed) {
    expect_failure(
        job(3),
        [](const Allgather::Got &got) {
            if (got.round == 1) {
                std::vector<uint8_t> row(got.all, got.all + got.bytes);
                memcpy(got.all, got.all + got.bytes, got.bytes);
                memcpy(got.all + got.bytes, row.data(), got.bytes);
            }
            return 0;
        },
        GCOLL_ERR_MISMATCH, {"the data of rank 1 at the place of rank 0"});
}

TEST_P(Exchanges, RankZeroFailsWithItsTuning) {
    Job each = job(3);
    each.adjust = [](uint32_t, gcoll_context_options *options) { options->tuning = "/nowhere/tuning"; };
    Allgather allgather(3);
    const std::vector<Ending> endings = create_all(each, &allgather, nullptr);
    EXPECT_EQ(endings[0].status, GCOLL_ERR_IO) << endings[0].text;
    EXPECT_EQ(endings[1].status, GCOLL_ERR_PEER) << endings[1].text;
    EXPECT_EQ(endings[2].text, "rank 0 could not join: " + endings[0].text);
}

TEST_P(Exchanges, DifferentMonitorsAreAMismatch) {
    Job each = job(3);
    each.adjust = [](uint32_t rank, gcoll_context_options *options) { options->monitor = rank == 1; };
    Allgather allgather(3);
    const std::vector<Ending> endings = create_all(each, &allgather, nullptr);
    EXPECT_EQ(endings[1].status, GCOLL_ERR_MISMATCH) << endings[1].text;
    EXPECT_NE(endings[1].text.find("options.monitor: is 1 on rank 1"), std::string::npos) << endings[1].text;
}

INSTANTIATE_TEST_SUITE_P(Transports, Exchanges, transports(),
                         [](const auto &place) { return std::string(place.param); });

} // namespace
