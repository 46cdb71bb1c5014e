// test/core/encryption_test.cc - options.encryption and options.tls_...: who meets, what is said when they do
// not, and that nobody on the way reads or changes anything.
#include <sys/stat.h>
#include <sys/syscall.h>

#include <fstream>

#include "gcoll/recovery.h"
#include "test/kit/calls.h"
#include "test/kit/certificates.h"
#include "test/kit/collective_support.h"
#include "test/kit/middle_man.h"
#include "test/kit/variable.h"

namespace {

using namespace collective_support;
using namespace gcoll_test;

const char kSecret[] = "a secret of 30 bytes, of no use";
using Adjust = std::function<void(uint32_t rank, gcoll_context_options *options)>;

void give_secret(gcoll_context_options *options) {
    options->secret = kSecret;
    options->secret_bytes = strlen(kSecret);
}

struct Ending {
    gcoll_status status = GCOLL_OK;
    std::string text;
    bool says(const std::string &what) const { return text.find(what) != std::string::npos; }
};

Ending alone(const std::function<void(gcoll_context_options *)> &change) {
    gcoll_context_options options;
    gcoll_context_options_init(&options);
    options.tuning = "default";
    options.transport = "tcp";
    change(&options);
    gcoll_context *context = nullptr;
    Ending ending = {gcoll_context_create(&options, &context), ""};
    if (ending.status != GCOLL_OK)
        ending.text = gcoll_last_error();
    gcoll_context_destroy(context);
    return ending;
}

void expect_sum(gcoll_context *context, uint64_t count = 1000) {
    std::vector<float> data(count, 1);
    ASSERT_EQ(sum_floats(context, data, "auto"), GCOLL_OK) << gcoll_last_error();
    for (const float value : data)
        ASSERT_EQ(value, static_cast<float>(gcoll_context_size(context)));
}

// Creates the contexts of a job in threads, by a store, and calls the body of those that are there.
std::vector<Ending> create_all(const Job &job, gcoll_store *store, const Body &body) {
    Watchdog watchdog(60);
    std::vector<Ending> endings(job.size);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < job.size; rank++)
        threads.emplace_back([&, rank] {
            gcoll_context_options options = options_of(job, rank, store, nullptr);
            gcoll_context *context = nullptr;
            endings[rank].status = gcoll_context_create(&options, &context);
            if (endings[rank].status != GCOLL_OK)
                endings[rank].text = gcoll_last_error();
            else
                body(rank, context);
            gcoll_context_destroy(context);
        });
    for (std::thread &thread : threads)
        thread.join();
    return endings;
}

class Encryption : public testing::Test {
  protected:
    void SetUp() override {
        const Ending ending = alone([](auto o) {
            give_secret(o);
            o->encryption = "on";
        });
        if (ending.status == GCOLL_ERR_UNSUPPORTED)
            GTEST_SKIP() << ending.text;
        ASSERT_EQ(ending.status, GCOLL_OK) << ending.text;
    }

  private:
    Variable text_{"GCOLL_SECRET", nullptr}, file_{"GCOLL_SECRET_FILE", nullptr},
        level_{"GCOLL_ENCRYPTION", nullptr}, certificate_{"GCOLL_TLS_CERTIFICATE", nullptr},
        key_{"GCOLL_TLS_KEY", nullptr}, ca_{"GCOLL_TLS_CA", nullptr}, name_{"GCOLL_TLS_NAME", nullptr};
};

// ---- Options --------------------------------------------------------------------------------------------

TEST_F(Encryption, OptionsThatMakeNoSenseAreRefused) {
    const struct {
        std::function<void(gcoll_context_options *)> change;
        const char *said;
    } rows[] = {
        {[](auto o) { o->encryption = "yes"; },
         "options.encryption: is 'yes'; allowed are 'off', 'auth', 'on' and 'on:ibverbs'"},
        {[](auto o) { o->encryption = "on:shm"; }, "options.encryption: is 'on:shm'; allowed are"},
        {[](auto o) { o->encryption = "auth"; }, "options.encryption: is 'auth', and there is no secret"},
        {[](auto o) { o->encryption = "on"; }, "options.encryption: is 'on', and there is neither a secret "
                                               "(options.secret_file) nor a certificate"},
        {[](auto o) {
             give_secret(o);
             o->encryption = "off";
         },
         "options.encryption: is 'off', and the job has a secret"},
        {[](auto o) { o->tls_ca = "/nowhere"; },
         "options.tls_ca: is set, and options.encryption is 'off'; allowed with it is 'on'"},
        {[](auto o) {
             give_secret(o);
             o->encryption = "on";
             o->tls_certificate = "/nowhere";
         },
         "options.tls_certificate: is set, and options.tls_ca is not"},
        {[](auto o) {
             give_secret(o);
             o->encryption = "on";
             o->tls_name = "a";
         },
         "options.tls_name: is set without options.tls_certificate"},
        {[](auto o) {
             give_secret(o);
             o->encryption = "on";
             o->tls_certificate = o->tls_key = o->tls_ca = "/nowhere";
             o->tls_name = "a*";
         },
         "options.tls_name: is 'a*'; allowed is a DNS name, with {rank} and {job} once each at most"},
        {[](auto o) {
             give_secret(o);
             o->encryption = "on";
             o->tls_certificate = o->tls_key = o->tls_ca = "/nowhere";
             o->tls_name = "{rank}-{rank}";
         },
         "options.tls_name: is '{rank}-{rank}'; allowed is"},
        {[](auto o) {
             give_secret(o);
             o->encryption = "on";
             o->tls_certificate = o->tls_key = o->tls_ca = "/nowhere";
         },
         "options.tls_ca: cannot open '/nowhere': No such file or directory"},
    };
    for (const auto &row : rows) {
        const Ending ending = alone(row.change);
        EXPECT_EQ(ending.status, GCOLL_ERR_INVALID) << row.said;
        EXPECT_TRUE(ending.says(row.said)) << ending.text << "\nlacks: " << row.said;
        EXPECT_FALSE(ending.says(kSecret));
    }
    Variable level("GCOLL_ENCRYPTION", "maybe");
    EXPECT_TRUE(alone([](auto) {}).says("GCOLL_ENCRYPTION: is 'maybe'; allowed are"));
    EXPECT_EQ(alone([](auto o) { o->encryption = "off"; }).status, GCOLL_OK) << "options come first";
}

TEST_F(Encryption, LanesThatCannotEncryptAreRefused) {
    for (const char *transport : {"tcp:connections=4", "ibverbs"}) {
        Job job = job_on(transport, 2, 20000);
        job.adjust = [](uint32_t, gcoll_context_options *options) {
            give_secret(options);
            options->encryption = "on";
        };
        gcoll_store *store = nullptr;
        ASSERT_EQ(gcoll_store_memory_create(&store), GCOLL_OK);
        for (const Ending &ending : create_all(job, store, [](uint32_t, gcoll_context *) { FAIL(); }))
            EXPECT_TRUE(ending.status == GCOLL_ERR_INVALID || ending.status == GCOLL_ERR_UNSUPPORTED)
                << ending.text;
        gcoll_store_destroy(store);
    }
    const Ending several = alone([](auto o) {
        give_secret(o);
        o->encryption = "on";
        o->transport = "tcp:connections=4";
    });
    EXPECT_EQ(several.status, GCOLL_OK) << "one rank has no connections";
}

// ---- Who meets ------------------------------------------------------------------------------------------

TEST_F(Encryption, ContextsOfAllKindsWork) {
    for (const char *transport : {"tcp", "shm,tcp", "auto", "inproc"}) {
        SCOPED_TRACE(transport);
        for (const int share : {0, 1}) {
            Job job = job_on(transport, 4, 20000);
            job.adjust = [&](uint32_t, gcoll_context_options *options) {
                give_secret(options);
                options->encryption = "on";
                options->share = share && strcmp(transport, "tcp") == 0;
                options->recovery = !options->share;
            };
            run_threads(job, [](uint32_t rank, gcoll_context *context) {
                for (const uint64_t count : {1, 1000, 300000})
                    expect_sum(context, count);
                gcoll_context *copy = nullptr, *half = nullptr;
                EXPECT_GCOLL_OK(gcoll_context_duplicate(context, &copy));
                EXPECT_GCOLL_OK(gcoll_context_split(context, static_cast<int>(rank % 2), 0, &half));
                expect_sum(copy);
                expect_sum(half);
                gcoll_context_destroy(half);
                gcoll_context_destroy(copy);
            });
        }
    }
}

TEST_F(Encryption, RanksThatDifferAreToldSo) {
    for (const uint32_t who : {0U, 1U}) {
        gcoll_store *store = nullptr;
        ASSERT_EQ(gcoll_store_memory_create(&store), GCOLL_OK);
        Job job = job_on("tcp", 2, 3000);
        job.adjust = [&](uint32_t rank, gcoll_context_options *options) {
            give_secret(options);
            options->encryption = rank == who ? "on" : "auth";
        };
        std::vector<Ending> endings(2);
        const std::vector<Ending> created =
            create_all(job, store, [&](uint32_t rank, gcoll_context *context) {
                std::vector<float> data(10, 1);
                endings[rank].status = sum_floats(context, data, "auto");
                endings[rank].text = gcoll_last_error();
            });
        int told = 0;
        for (uint32_t rank = 0; rank < 2; rank++) {
            const Ending &ending = created[rank].status != GCOLL_OK ? created[rank] : endings[rank];
            EXPECT_NE(ending.status, GCOLL_OK);
            EXPECT_TRUE(ending.says("options.encryption: is ")) << ending.text;
            EXPECT_FALSE(ending.says(kSecret));
            told++;
        }
        EXPECT_EQ(told, 2);
        gcoll_store_destroy(store);
    }
}

// A rank whose message is sent may stay away from gcoll: all of it is in the kernel then, and nothing waits
// here for the next call. Rank 1 reads slowly at first, so that the socket is full.
TEST_F(Encryption, WhatIsSentHasLeft) {
    Job job = job_on("tcp", 2, 20000);
    job.adjust = [](uint32_t, gcoll_context_options *options) {
        give_secret(options);
        options->encryption = "on";
    };
    run_threads(job, [](uint32_t rank, gcoll_context *context) {
        for (const size_t bytes : {8000000, 8100000, 8200001, 9000000, 12000001, 20000000}) {
            std::vector<uint8_t> data(bytes, rank == 0 ? 7 : 0);
            gcoll_request *request = nullptr;
            gcoll_broadcast_options options;
            gcoll_broadcast_options_init(&options);
            options.algorithm = "binomial";
            EXPECT_GCOLL_OK(
                gcoll_broadcast_start(context, data.data(), bytes, GCOLL_UINT8, 0, &options, &request));
            int done = 0;
            if (rank == 1) {
                for (int i = 0; i < 20 && !done; i++) // lets it come
                    EXPECT_GCOLL_OK(gcoll_request_test(&request, &done));
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
            }
            const int64_t begun = now_ms();
            if (!done)
                EXPECT_GCOLL_OK(gcoll_request_wait(&request));
            if (rank == 0)
                std::this_thread::sleep_for(std::chrono::milliseconds(1000));
            else
                EXPECT_LT(now_ms() - begun, 700) << bytes;
            EXPECT_EQ(data, std::vector<uint8_t>(bytes, 7));
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        }
    });
}

// ---- Certificates ---------------------------------------------------------------------------------------

class Certificates : public Encryption {
  protected:
    void SetUp() override {
        Encryption::SetUp();
        if (!has_openssl())
            GTEST_SKIP() << "lacks the program openssl";
        for (const std::string rank : {"0", "1", "2", "3"})
            ASSERT_TRUE(authority.issue(rank, "DNS:rank-" + rank + ".default.example"));
    }
    struct Files {
        std::string certificate, key, ca;
    };
    Files files_of(const Authority &signer, const std::string &name, const Authority &trusted) {
        return {signer.file(name), signer.key(name), trusted.file()};
    }
    static void give(gcoll_context_options *options, const Files &files) {
        options->encryption = "on";
        options->tls_certificate = files.certificate.c_str();
        options->tls_key = files.key.c_str();
        options->tls_ca = files.ca.c_str();
    }
    Folder folder;
    Authority authority{folder.path(), "authority"}, other{folder.path(), "other"};
};

// With and without a secret besides. In contexts of some ranks, names are still those of the first context.
TEST_F(Certificates, RanksMeetByThem) {
    std::vector<Files> files;
    for (const std::string rank : {"0", "1", "2", "3"})
        files.push_back(files_of(authority, rank, authority));
    for (const bool has_secret : {false, true})
        for (const char *name : {static_cast<const char *>(nullptr), "rank-{rank}.{job}.example"}) {
            Job job = job_on("tcp", 4, 20000);
            job.adjust = [&](uint32_t rank, gcoll_context_options *options) {
                if (has_secret)
                    give_secret(options);
                give(options, files[rank]);
                options->tls_name = name;
            };
            run_threads(job, [](uint32_t rank, gcoll_context *context) {
                expect_sum(context);
                gcoll_context *half = nullptr, *less = nullptr;
                EXPECT_GCOLL_OK(
                    gcoll_context_split(context, static_cast<int>(rank > 0), -static_cast<int>(rank), &half));
                expect_sum(half);
                EXPECT_GCOLL_OK(gcoll_context_split(half, static_cast<int>(rank == 1), 0, &less));
                expect_sum(less);
                gcoll_context_destroy(less);
                gcoll_context_destroy(half);
            });
        }
}

// Rank 1 has a bad one, as server and as client: both ranks end with an error that says what is wrong.
TEST_F(Certificates, BadOnesAreToldOnBothSides) {
    ASSERT_TRUE(authority.issue("old", "DNS:rank-1.default.example", -1) &&
                other.issue("foreign", "DNS:rank-1.default.example"));
    const Files good = files_of(authority, "0", authority);
    const struct {
        Files files;
        std::string seen, heard; // one of them on each side
    } rows[] = {
        {files_of(authority, "old", authority), "certificate has expired", "certificate expired"},
        {files_of(other, "foreign", authority), "unable to get local issuer certificate", "unknown CA"},
        {files_of(authority, "2", authority), "hostname mismatch", "bad certificate"},
    };
    for (const auto &row : rows)
        for (const uint32_t bad : {0U, 1U}) {
            SCOPED_TRACE(row.seen);
            gcoll_store *store = nullptr;
            ASSERT_EQ(gcoll_store_memory_create(&store), GCOLL_OK);
            Job job = job_on("tcp", 2, 5000);
            job.adjust = [&](uint32_t rank, gcoll_context_options *options) {
                give_secret(options);
                give(options, rank == bad ? row.files : good);
                options->tls_name = rank == bad ? "rank-0.{job}.example" : "rank-1.{job}.example";
            };
            std::vector<Ending> endings(2);
            const std::vector<Ending> created =
                create_all(job, store, [&](uint32_t rank, gcoll_context *context) {
                    std::vector<float> data(10, 1);
                    endings[rank].status = sum_floats(context, data, "auto");
                    endings[rank].text = gcoll_last_error();
                });
            for (uint32_t rank = 0; rank < 2; rank++) {
                const Ending &ending = created[rank].status != GCOLL_OK ? created[rank] : endings[rank];
                EXPECT_NE(ending.status, GCOLL_OK);
                EXPECT_TRUE(ending.says(row.seen) || ending.says(row.heard)) << rank << ": " << ending.text;
                EXPECT_FALSE(ending.says(kSecret));
            }
            gcoll_store_destroy(store);
        }
}

TEST_F(Certificates, NobodyJoinsLaterWhereNamesHaveNumbers) {
    const Files files = files_of(authority, "0", authority);
    gcoll_store *store = nullptr;
    ASSERT_EQ(gcoll_store_memory_create(&store), GCOLL_OK);
    Job job = job_on("tcp", 1, 5000);
    job.adjust = [&](uint32_t, gcoll_context_options *options) {
        give(options, files);
        options->tls_name = "rank-{rank}.{job}.example";
        options->recovery = 1;
    };
    run_threads(job, [&](uint32_t, gcoll_context *context) {
        gcoll_grow_options options;
        gcoll_grow_options_init(&options);
        options.store = store;
        gcoll_context *grown = nullptr;
        EXPECT_EQ(gcoll_context_grow(context, &options, &grown), GCOLL_ERR_INVALID);
        EXPECT_NE(std::string(gcoll_last_error()).find("options.tls_name: has {rank}"), std::string::npos)
            << gcoll_last_error();
    });
    gcoll_store_destroy(store);
}

// ---- On the way -----------------------------------------------------------------------------------------

// Two ranks, each of which reaches the other by somebody in the middle.
class Between {
  public:
    explicit Between(const MiddleMan::Change &change) : change_(change) {
        EXPECT_EQ(gcoll_store_memory_create(&store_), GCOLL_OK);
    }
    ~Between() { gcoll_store_destroy(store_); }
    Between(const Between &) = delete;
    Between &operator=(const Between &) = delete;

    // Creates both contexts and calls the body.
    std::vector<Ending> run(const Adjust &adjust,
                            const std::function<Ending(uint32_t, gcoll_context *)> &body) {
        std::vector<Ending> endings(2);
        std::vector<std::thread> threads;
        for (uint32_t rank = 0; rank < 2; rank++)
            threads.emplace_back([&, rank] {
                gcoll_context_options options = options_of(job_on("tcp", 2, 1500), rank, store_, nullptr);
                options.interface = "127.0.0.1";
                adjust(rank, &options);
                here = this;
                gcoll_context *context = nullptr;
                endings[rank].status = gcoll_context_create(&options, &context);
                if (endings[rank].status != GCOLL_OK)
                    endings[rank].text = gcoll_last_error();
                else
                    endings[rank] = body(rank, context);
                gcoll_context_destroy(context);
                here = nullptr;
            });
        for (std::thread &thread : threads)
            thread.join();
        return endings;
    }
    // The port at which somebody listens in the place of whoever does at this one.
    uint16_t divert(uint16_t port) {
        std::lock_guard<std::mutex> guard(lock_);
        std::unique_ptr<MiddleMan> &man = men_[port];
        if (!man)
            man.reset(new MiddleMan(port, change_));
        return man->port();
    }
    bool has_changed() const {
        return std::any_of(
            men_.begin(), men_.end(), [](const auto &man) { return man.second->has_changed(); });
    }
    bool has_seen(const MiddleMan::Bytes &bytes) const {
        return std::any_of(
            men_.begin(), men_.end(), [&](const auto &man) { return man.second->has_seen(bytes); });
    }

    static thread_local Between *here; // of a rank's thread

  private:
    const MiddleMan::Change change_;
    gcoll_store *store_ = nullptr;
    std::mutex lock_;
    std::map<uint16_t, std::unique_ptr<MiddleMan>> men_;
};

thread_local Between *Between::here = nullptr;

const MiddleMan::Change kNone = {MiddleMan::kFlip, false, SIZE_MAX, 1};

// What goes by can be read with 'auth', and not with 'on'.
TEST_F(Encryption, NobodyOnTheWayReadsIt) {
    for (const char *level : {"auth", "on"}) {
        Between between(kNone);
        const MiddleMan::Bytes said(64, 0xa7);
        const std::vector<Ending> endings = between.run(
            [&](uint32_t, gcoll_context_options *options) {
                give_secret(options);
                options->encryption = level;
            },
            [&](uint32_t rank, gcoll_context *context) {
                std::vector<uint8_t> data(50000, rank == 0 ? 0xa7 : 0);
                gcoll_broadcast_options options;
                gcoll_broadcast_options_init(&options);
                Ending ending = {gcoll_broadcast(context, data.data(), data.size(), GCOLL_UINT8, 0, &options),
                                 ""};
                ending.text = gcoll_last_error();
                for (const uint8_t byte : data)
                    EXPECT_EQ(byte, 0xa7);
                return ending;
            });
        for (const Ending &ending : endings)
            EXPECT_EQ(ending.status, GCOLL_OK) << ending.text;
        EXPECT_EQ(between.has_seen(said), strcmp(level, "auth") == 0);
        EXPECT_FALSE(between.has_seen(MiddleMan::Bytes(kSecret, kSecret + strlen(kSecret))));
    }
}

// Whatever is changed on the way, no rank gets a wrong result. Where it is more than the handshake, which is
// made again, a rank gets an error.
TEST_F(Encryption, NothingThatWasChangedIsAResult) {
    Watchdog watchdog(3000);
    constexpr size_t kHandshake = 1500;              // more than its bytes in one direction
    const char *wish = getenv("GCOLL_TEST_CHANGES"); // 10000: some twenty minutes
    const int rounds = wish ? atoi(wish) : 120;
    std::atomic<int> next{0}, changed{0}, errors{0}, unnoticed{0};
    std::vector<std::thread> workers;
    for (int worker = 0; worker < 8; worker++)
        workers.emplace_back([&] {
            for (int round = next++; round < rounds; round = next++) {
                std::mt19937 random(static_cast<uint32_t>(round));
                MiddleMan::Change change = {static_cast<MiddleMan::How>(random() % MiddleMan::kHows),
                                            random() % 2 == 0, random() % 30000,
                                            static_cast<uint32_t>(random())};
                if (round % 6 == 0)
                    change.at %= kHandshake;
                Between between(change);
                const std::vector<Ending> endings = between.run(
                    [](uint32_t, gcoll_context_options *options) {
                        give_secret(options);
                        options->encryption = "on";
                    },
                    [&](uint32_t rank, gcoll_context *context) {
                        Ending ending;
                        for (uint32_t i = 0; i < 4 && ending.status == GCOLL_OK; i++) {
                            std::vector<float> data(10000);
                            for (size_t j = 0; j < data.size(); j++)
                                data[j] = small(rank + i, j);
                            ending.status = sum_floats(context, data, "linear");
                            for (size_t j = 0; j < data.size() && ending.status == GCOLL_OK; j++)
                                if (data[j] != small(i, j) + small(1 + i, j)) {
                                    ADD_FAILURE() << "a wrong result in round " << round;
                                    break;
                                }
                        }
                        ending.text = gcoll_last_error();
                        return ending;
                    });
                if (!between.has_changed())
                    continue;
                changed++;
                const bool is_told = endings[0].status != GCOLL_OK || endings[1].status != GCOLL_OK;
                errors += is_told;
                unnoticed += !is_told;
                EXPECT_TRUE(is_told || change.at < kHandshake)
                    << "round " << round << ": how " << change.how << " at " << change.at;
            }
        });
    for (std::thread &worker : workers)
        worker.join();
    EXPECT_GT(errors, rounds / 2);
    printf("%d of %d jobs were changed on the way: %d ended with an error, in %d the handshake was made "
           "again or "
           "said the same; no result was wrong\n",
           changed.load(), rounds, errors.load(), unnoticed.load());
}

} // namespace

// In place of the C library's, also for libuv: connections of ranks go by somebody in the middle.
extern "C" int connect(int fd, const sockaddr *where, socklen_t bytes) {
    sockaddr_in other;
    if (Between::here && where->sa_family == AF_INET) {
        memcpy(&other, where, sizeof other);
        other.sin_port = htons(Between::here->divert(ntohs(other.sin_port)));
        where = reinterpret_cast<const sockaddr *>(&other);
    }
    return static_cast<int>(syscall(SYS_connect, fd, where, bytes));
}
