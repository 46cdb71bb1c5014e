// The monitor when reports and announcements come late, in another order or not at all, and when rank 0 dies.
#include "test/monitor/arrival_support.h"

#include <unistd.h>

#include <atomic>

extern "C" {
#include "transport/inproc/inproc.h"
}

namespace {

using namespace arrival_support;
using gcoll_test::Processes;
using gcoll_test::run_processes;
using gcoll_test::run_threads;
using gcoll_test::told;

// Nothing comes when it is sent, and other messages overtake it.
TEST(Faults, RanksAgreeInAnyOrderOfMessages) {
    for (uint64_t seed = 1; seed <= 12; seed++) {
        Agreement agreement;
        Job job = watched(2 + static_cast<uint32_t>(seed) % 5, "inproc", seed % 3 == 0);
        job.prepare = [seed](gcoll_hub *hub) { ASSERT_GCOLL_OK(gcoll_inproc_shuffle(hub, seed)); };
        run_threads(job, [&](uint32_t rank, gcoll_context *context) {
            for (uint32_t call = 0; call < 40; call++) {
                ASSERT_GCOLL_OK(gcoll_arrival_begin(context));
                if (collective_support::mix(seed * 1000 + call / 8) % job.size == rank)
                    stay_away_us(1000);
                if (seed % 3 == 0 && (rank + call) % 2 == 0)
                    ASSERT_GCOLL_OK(gcoll_arrival_edge(context, 0.5));
                ASSERT_GCOLL_OK(sum(context, 2000 + call % 2, call));
                int32_t token = rank == 1 ? 7 : 0;
                ASSERT_GCOLL_OK(gcoll_broadcast(context, &token, 1, GCOLL_INT32, 1, nullptr));
                EXPECT_EQ(token, 7);
            }
            agreement.add(common(stats(context, 0)) + "; " + common(stats(context, 1)) + "; " +
                          common(stats(context, 2)));
        });
    }
}

// From a broadcast of rank 0, nothing but reports goes to rank 0: the first of each other rank is lost. The
// ranks go on, and rank 0 decides without.
TEST(Faults, LostReportsAreNotMissed) {
    Agreement agreement;
    Job job = watched(4, "inproc");
    job.prepare = [](gcoll_hub *hub) {
        for (uint32_t rank = 1; rank < 4; rank++)
            ASSERT_GCOLL_OK(gcoll_inproc_drop(hub, rank, 0, 0));
    };
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        for (int32_t call = 0; call < 60; call++) {
            int32_t value = rank == 0 ? call : -1;
            ASSERT_GCOLL_OK(gcoll_broadcast(context, &value, 1, GCOLL_INT32, 0, nullptr));
            EXPECT_EQ(value, call);
        }
        const gcoll_site_stats seen = stats(context);
        agreement.add(common(seen));
        EXPECT_GE(seen.announcements, 2u);
        EXPECT_EQ(seen.heeded, 0u);
    });
}

// To a reduce of rank 0, nothing but announcements comes from rank 0. The one that rank 2 does not get is as
// bad as any message that is lost: an error, and no result that is wrong. Rank 2 waits for rank 0, which has
// gone on, as if it made no such call.
TEST(Faults, ALostAnnouncementEndsInAnError) {
    Job job = watched(4, "inproc");
    job.timeout_ms = 1500;
    job.prepare = [](gcoll_hub *hub) { ASSERT_GCOLL_OK(gcoll_inproc_drop(hub, 0, 2, 0)); };
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        gcoll_status status = GCOLL_OK;
        int32_t call = 0;
        for (; call < 200 && status == GCOLL_OK; call++) {
            const int32_t mine = call;
            int32_t total = -1;
            status = gcoll_reduce(context, &mine, &total, 1, GCOLL_INT32, GCOLL_SUM, 0, nullptr);
            if (status == GCOLL_OK && rank == 0)
                EXPECT_EQ(total, 4 * call);
            if (status == GCOLL_OK && call % 4 == 3)
                status = gcoll_barrier(context, nullptr);
        }
        EXPECT_NE(status, GCOLL_OK);
        if (rank == 2) {
            EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
            EXPECT_EQ(call, 5); /* the first that an announcement is waited for */
        }
    });
}

// Rank 0 makes the others' calls in another form, so that it has nothing to announce. It is told as soon as
// it is asked whether it is alive, long before time is out.
TEST(Faults, ADeciderThatCallsInAnotherFormIsTold) {
    for (bool named : {false, true}) {
        Job job = watched(3, "tcp");
        job.timeout_ms = 4000;
        run_threads(job, [&](uint32_t rank, gcoll_context *context) {
            gcoll_status status = GCOLL_OK;
            for (uint32_t call = 0; call < 8 && status == GCOLL_OK; call++) {
                const gcoll_allreduce_options options =
                    collective_support::by("ring"); // which auto takes, too
                float one = 1;
                gcoll_request *request = nullptr;
                if (rank != 0 || named) {
                    status = gcoll_allreduce(context, nullptr, &one, 1, GCOLL_FLOAT32, GCOLL_SUM,
                                             rank == 0 ? &options : nullptr);
                    continue;
                }
                status = gcoll_allreduce_start(context, nullptr, &one, 1, GCOLL_FLOAT32, GCOLL_SUM, nullptr,
                                               &request);
                if (status == GCOLL_OK)
                    status = gcoll_request_wait(&request);
            }
            EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
            EXPECT_NE(told(status).find("rank 0 does not block in it, or names an algorithm"),
                      std::string::npos)
                << told(status);
            EXPECT_EQ(gcoll_context_culprit(context), 0);
        });
    }
}

// A wrong byte in an announcement is found, and rank 0 named.
TEST(Faults, AnAnnouncementWithoutSenseIsRefused) {
    for (uint64_t byte : {1, 4, 8, 16, 24, 35, 55}) {
        Job job = watched(3, "inproc");
        job.prepare = [byte](gcoll_hub *hub) {
            ASSERT_GCOLL_OK(gcoll_inproc_corrupt(hub, 0, 1, (UINT64_C(1) << 61) | 2, 0, byte));
        };
        run_threads(job, [&](uint32_t rank, gcoll_context *context) {
            gcoll_status status = GCOLL_OK;
            for (uint32_t call = 0; call < 20 && status == GCOLL_OK; call++)
                status = sum(context, 10, call);
            EXPECT_NE(status, GCOLL_OK) << byte;
            if (rank == 1) {
                EXPECT_TRUE(status == GCOLL_ERR_PROTOCOL || status == GCOLL_ERR_MISMATCH) << told(status);
                EXPECT_NE(told(status).find("the monitor"), std::string::npos) << told(status);
            }
        });
    }
}

// The edge that rank 1 reports before call 6 is changed into one before a call that nobody will come to. Who
// reports no more edges is asked for none: announcements get rare again.
TEST(Faults, AReportOfACallFarAwayIsIgnored) {
    for (uint64_t byte : {23, 39}) { // the last of the call, and of the latest one
        Agreement agreement;
        Job job = watched(3, "inproc", true);
        job.prepare = [byte](gcoll_hub *hub) {
            for (uint32_t index = 0; index < 4; index++)
                ASSERT_GCOLL_OK(gcoll_inproc_corrupt(hub, 1, 0, (UINT64_C(1) << 61) | 1, index, byte));
        };
        run_threads(job, [&](uint32_t rank, gcoll_context *context) {
            for (uint32_t call = 0; call < 60; call++) {
                if (rank == 1 && call < 10) {
                    ASSERT_GCOLL_OK(gcoll_arrival_begin(context));
                    ASSERT_GCOLL_OK(gcoll_arrival_edge(context, 0.5));
                }
                ASSERT_GCOLL_OK(sum(context, 100, call));
                ASSERT_GCOLL_OK(gcoll_barrier(context, nullptr));
            }
            const gcoll_site_stats seen = stats(context);
            agreement.add(common(seen));
            EXPECT_LT(seen.announcements, 30u) << byte;
        });
    }
}

// Rank 0 dies where the others wait for what it decides, or soon before or after.
TEST(Faults, ADeciderThatDiesIsNamed) {
    for (uint32_t last = 2; last <= 6; last++) {
        gcoll_test::Folder folder;
        Processes processes(3, [&](uint32_t rank) {
            Job job = watched(3, gcoll_test::process_transport());
            gcoll_store *store = nullptr;
            EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 20000, &store));
            gcoll_context *context = gcoll_test::join(store, job, rank);
            if (!context)
                return 1;
            gcoll_status status = GCOLL_OK;
            for (uint32_t call = 0; call < 30 && status == GCOLL_OK; call++) {
                if (rank == 0 && call == last)
                    _exit(0);
                status = sum(context, 1000, call);
            }
            EXPECT_EQ(status, GCOLL_ERR_PEER) << told(status);
            EXPECT_EQ(gcoll_context_culprit(context), 0);
            gcoll_context_destroy(context);
            gcoll_store_destroy(store);
            return 0;
        });
        processes.expect_success(20000);
    }
}

// Rank 0 stops for a while: the others wait for it as for any rank, and agree afterwards.
TEST(Faults, ADeciderThatStopsForAWhileIsWaitedFor) {
    Agreement agreement;
    gcoll_hub *hub = nullptr;
    Job job = watched(4, "inproc");
    job.prepare = [&](gcoll_hub *made) { hub = made; };
    std::atomic<uint32_t> arrived{0};
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        for (uint32_t call = 0; call < 30; call++) {
            if (call % 10 == 4 && rank == 0) {
                ASSERT_GCOLL_OK(gcoll_inproc_stall(hub, 0, true));
                EXPECT_TRUE(gcoll_test::await(arrived, 3 * (call / 10 + 1)));
                stay_away_us(20000);
                ASSERT_GCOLL_OK(gcoll_inproc_stall(hub, 0, false));
            } else if (call % 10 == 4) {
                arrived++;
            }
            ASSERT_GCOLL_OK(sum(context, 500, call));
        }
        agreement.add(common(stats(context)));
    });
}

// Rank 3 sends to rank 2 in each reduce, and leaves. Rank 0 comes later, announces to it in vain, and goes on
// with rank 1.
TEST(Faults, WhoHasLeftADuplicateNeedsNoAnnouncement) {
    std::atomic<uint32_t> left{0};
    Job job;
    job.size = 4;
    job.transport = "tcp";
    job.adjust = [](uint32_t, gcoll_context_options *options) {
        static const gcoll_cost_parameters costs = {6e-6, 0.25e-9, 0.1e-9}; // by which it is a binomial tree
        options->monitor = 1;
        options->cost = &costs;
    };
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        gcoll_context *other = nullptr;
        ASSERT_GCOLL_OK(gcoll_context_duplicate(context, &other));
        if (rank == 0) {
            EXPECT_TRUE(gcoll_test::await(left, 1));
        }
        for (int32_t call = 0; call < 3; call++) {
            int32_t total = -1;
            EXPECT_GCOLL_OK(gcoll_reduce(other, &call, &total, 1, GCOLL_INT32, GCOLL_SUM, 0, nullptr));
        }
        gcoll_pair *pair = nullptr;
        if (rank < 2) {
            EXPECT_GCOLL_OK(gcoll_context_pair(other, 1 - rank, &pair));
        }
        for (int32_t i = 0; pair && i < 20; i++) {
            int32_t got = -1;
            EXPECT_GCOLL_OK(gcoll_pair_sendrecv(pair, 1, &i, sizeof i, pair, 1, &got, sizeof got));
            usleep(5000); // what comes of the attempt comes meanwhile
        }
        gcoll_context_destroy(other);
        left += rank == 3;
    });
}

// ---- Creation -------------------------------------------------------------------------------------------

TEST(Creation, RanksThatDifferInTheMonitorAreTold) {
    for (uint32_t odd : {0u, 2u})
        for (const char *transport : {"inproc", "tcp"}) {
            gcoll_test::Watchdog watchdog(60);
            gcoll_store *store = nullptr;
            gcoll_hub *hub = nullptr;
            ASSERT_GCOLL_OK(gcoll_store_memory_create(&store));
            ASSERT_GCOLL_OK(gcoll_hub_create(3, &hub));
            Job job;
            job.size = 3;
            job.transport = transport;
            job.timeout_ms = 5000;
            std::atomic<uint32_t> mismatches{0};
            std::vector<std::thread> ranks;
            for (uint32_t rank = 0; rank < 3; rank++)
                ranks.emplace_back([&, rank] {
                    gcoll_context_options options = gcoll_test::options_of(job, rank, store, hub);
                    options.monitor = rank == odd;
                    gcoll_context *context = nullptr;
                    gcoll_status status = gcoll_context_create(&options, &context);
                    const bool differs = rank != 0 && (rank == odd || odd == 0);
                    if (differs) {
                        EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
                        EXPECT_NE(told(status).find("options.monitor: is"), std::string::npos)
                            << told(status);
                        mismatches++;
                    } else if (status ==
                               GCOLL_OK) { // the others learn of it at the latest by their first call
                        status = sum(context, 10);
                    }
                    EXPECT_NE(status, GCOLL_OK);
                    gcoll_context_destroy(context);
                });
            for (std::thread &rank : ranks)
                rank.join();
            EXPECT_GT(mismatches.load(), 0u);
            gcoll_hub_destroy(hub);
            gcoll_store_destroy(store);
        }
}

} // namespace
