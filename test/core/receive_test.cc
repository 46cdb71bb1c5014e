// Receives whose messages have other sizes than their buffers, receives from any of several ranks that are
// started, and probes.
#include "test/kit/calls.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

namespace {

using namespace gcoll_test;

constexpr uint8_t kUnwritten = 0xEE;

// Copied from one long pattern, at an offset of each message's own: sanitizers are slow byte by byte.
std::vector<uint8_t> message_of(uint32_t source, uint32_t tag, uint64_t number, uint64_t bytes) {
    constexpr uint64_t kOffsets = 60000, kLongest = 600000;
    static const std::vector<uint8_t> pattern = [] {
        std::vector<uint8_t> made(kOffsets + kLongest);
        std::mt19937 random(4711);
        for (uint8_t &byte : made)
            byte = static_cast<uint8_t>(random());
        return made;
    }();
    const auto begin =
        pattern.begin() + static_cast<std::ptrdiff_t>((source * 8900 + tag * 570 + number) % kOffsets);
    return {begin, begin + static_cast<std::ptrdiff_t>(bytes)};
}

// What a receive of `room` bytes must hold after a message.
std::vector<uint8_t> image_of(std::vector<uint8_t> message, uint64_t room) {
    if (message.size() > room)
        message.clear();
    message.resize(room, kUnwritten);
    return message;
}

class Receives : public testing::TestWithParam<const char *> {};

// ---- Sizes that differ ----------------------------------------------------------------------------------

enum Form { kBlocking, kWaited, kTested, kLookedAt, kForms };

// Ends a receive in one of the ways there are, and asks for its source and size in the way that fits.
gcoll_status end(gcoll_context *context, Form form, gcoll_request *request, uint32_t *source,
                 uint64_t *bytes) {
    gcoll_status status = GCOLL_OK;
    uint32_t index = 9;
    int done = 0;
    if (form == kLookedAt) {
        EXPECT_GCOLL_OK(gcoll_wait_any(&request, 1, &index));
        EXPECT_GCOLL_OK(gcoll_request_source(request, source));
        EXPECT_GCOLL_OK(gcoll_request_bytes(request, bytes));
        status = gcoll_request_wait(&request);
    } else if (form == kTested) {
        while (status == GCOLL_OK && !done)
            status = gcoll_request_test(&request, &done);
    } else {
        status = gcoll_request_wait(&request);
    }
    EXPECT_EQ(request, nullptr);
    uint32_t last_source = 99;
    uint64_t last_bytes = 99;
    const std::string text = gcoll_last_error();
    EXPECT_GCOLL_OK(gcoll_context_last_received(context, &last_source, &last_bytes));
    if (form == kLookedAt) {
        EXPECT_EQ(*source, last_source);
        EXPECT_EQ(*bytes, last_bytes);
    }
    *source = last_source;
    *bytes = last_bytes;
    return status;
}

struct Plan {
    uint32_t source, tag; // source 0: any
    uint64_t room;
    Form form;
};

// Ranks 1 and 2 send to rank 0: tag 1 for receives from one rank, tag 2 for receives from any of both. The
// model: the messages of a source and a tag come in order, one for each receive.
void random_receives(uint32_t rank, gcoll_context *context, uint64_t seed,
                     const std::vector<uint64_t> &sizes) {
    constexpr uint64_t kMessages = 30; // of a source with a tag
    std::mt19937_64 random(seed);
    std::vector<uint64_t> size_of[3][3]; // by source and tag
    for (uint32_t source = 1; source <= 2; source++)
        for (uint32_t tag = 1; tag <= 2; tag++)
            for (uint64_t i = 0; i < kMessages; i++)
                size_of[source][tag].push_back(sizes[random() % sizes.size()]);
    std::mt19937_64 own(seed * 3 + rank);
    if (rank > 0) {
        std::vector<std::vector<uint8_t>> data;
        std::vector<gcoll_request *> requests;
        uint64_t next[3] = {0, 0, 0};
        if (seed % 2)
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        for (uint64_t i = 0; i < 2 * kMessages; i++) {
            uint32_t tag = next[1] == kMessages ? 2 : next[2] == kMessages ? 1 : 1 + own() % 2;
            data.push_back(message_of(rank, tag, next[tag], size_of[rank][tag][next[tag]]));
            next[tag]++;
            requests.push_back(nullptr);
            ASSERT_GCOLL_OK(gcoll_pair_send_start(pair_to(context, 0), tag, data.back().data(),
                                                  data.back().size(), &requests.back()));
        }
        if (seed % 2 == 0)
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        for (gcoll_request *&request : requests)
            EXPECT_GCOLL_OK(gcoll_request_wait(&request));
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        return;
    }
    std::vector<Plan> plans;
    uint64_t seen[3] = {0, 0, 0};
    for (uint32_t source = 0; source <= 2; source++)
        for (uint64_t i = 0; i < (source ? 1 : 2) * kMessages; i++)
            plans.push_back({source, source ? 1u : 2u, 0, static_cast<Form>(own() % kForms)});
    std::shuffle(plans.begin(), plans.end(), own);
    std::vector<std::vector<uint8_t>> data(plans.size());
    std::vector<gcoll_request *> requests(plans.size());
    std::vector<gcoll_status> outcomes(plans.size(), GCOLL_OK);
    std::vector<uint32_t> sources(plans.size());
    std::vector<uint64_t> bytes(plans.size());
    const uint32_t peers[2] = {2, 1};
    // Before the barrier in half of the cases, so that blocking receives come after it.
    const bool is_early = seed % 2 == 1;
    if (!is_early)
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
    for (size_t i = 0; i < plans.size(); i++) {
        Plan &plan = plans[i];
        uint64_t size = sizes[own() % sizes.size()];
        if (plan.source) // by the size that will come
            size = size_of[plan.source][1][seen[plan.source]++];
        plan.room = own() % 3 == 0 ? size
                    : own() % 2    ? size + own() % 1000
                                   : size - std::min(size, own() % 70);
        data[i].assign(plan.room + 1, kUnwritten);
        if (plan.form == kBlocking && is_early)
            plan.form = kWaited;
        if (plan.form == kBlocking && plan.source) {
            outcomes[i] = gcoll_pair_recv(pair_to(context, plan.source), plan.tag, data[i].data(), plan.room);
        } else if (plan.form == kBlocking) {
            uint32_t source = 77;
            outcomes[i] =
                gcoll_context_recv_any(context, peers, 2, plan.tag, data[i].data(), plan.room, &source);
            EXPECT_EQ(source == 77, outcomes[i] != GCOLL_OK);
        } else if (plan.source) {
            ASSERT_GCOLL_OK(gcoll_pair_recv_start(pair_to(context, plan.source), plan.tag, data[i].data(),
                                                  plan.room, &requests[i]));
        } else {
            ASSERT_GCOLL_OK(gcoll_context_recv_any_start(context, peers, 2, plan.tag, data[i].data(),
                                                         plan.room, &requests[i]));
        }
        if (plan.form == kBlocking)
            EXPECT_GCOLL_OK(gcoll_context_last_received(context, &sources[i], &bytes[i]));
    }
    if (is_early)
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
    std::vector<size_t> order(plans.size());
    for (size_t i = 0; i < order.size(); i++)
        order[i] = i;
    std::shuffle(order.begin(), order.end(), own);
    for (size_t i : order)
        if (plans[i].form != kBlocking)
            outcomes[i] = end(context, plans[i].form, requests[i], &sources[i], &bytes[i]);
    uint64_t next[3][3] = {};
    for (size_t i = 0; i < plans.size(); i++) {
        const Plan &plan = plans[i];
        ASSERT_TRUE(plan.source ? sources[i] == plan.source : sources[i] == 1 || sources[i] == 2) << i;
        const uint64_t number = next[sources[i]][plan.tag]++;
        ASSERT_LT(number, kMessages) << i;
        const uint64_t size = size_of[sources[i]][plan.tag][number];
        EXPECT_EQ(bytes[i], size) << i;
        EXPECT_EQ(outcomes[i], size <= plan.room ? GCOLL_OK : GCOLL_ERR_MISMATCH) << i;
        EXPECT_TRUE(data[i] == image_of(size > plan.room ? std::vector<uint8_t>()
                                                         : message_of(sources[i], plan.tag, number, size),
                                        plan.room + 1))
            << i << ": " << size << " bytes into " << plan.room;
    }
    EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
    EXPECT_GCOLL_OK(gcoll_context_health(context));
}

TEST_P(Receives, OfRandomSizesAgainstAModel) {
    const std::vector<uint64_t> sizes = {0, 1, 3, 64, 65, 1000, 65472, 65473, 262144, 262145};
    for (uint64_t seed = 1; seed <= 4; seed++)
        run_threads(3, GetParam(), [&](uint32_t rank, gcoll_context *context) {
            random_receives(rank, context, seed, sizes);
        });
}

TEST_P(Receives, OfRandomSizesWithTinyPools) {
    const std::vector<uint64_t> sizes = {0, 1, 3, 63, 64, 65, 100, 5000};
    for (uint64_t seed = 5; seed <= 10; seed++)
        run_threads(with_tiny_pools(job_on(GetParam(), 3)), [&](uint32_t rank, gcoll_context *context) {
            random_receives(rank, context, seed, sizes);
        });
}

void expect_too_large(gcoll_context *context, gcoll_status status, uint64_t room, uint64_t sent,
                      uint32_t tag) {
    EXPECT_EQ(status, GCOLL_ERR_MISMATCH);
    const std::string text = gcoll_last_error();
    for (const std::string &part : {"is " + std::to_string(room), "of " + std::to_string(sent),
                                    std::string("rank 0"), "tag " + std::to_string(tag)})
        EXPECT_NE(text.find(part), std::string::npos) << text;
    uint64_t bytes = 0;
    EXPECT_GCOLL_OK(gcoll_context_last_received(context, nullptr, &bytes));
    EXPECT_EQ(bytes, sent);
    EXPECT_GCOLL_OK(gcoll_context_health(context));
}

// A message that is too large fails its receive, in each form, and nothing else.
TEST_P(Receives, OfTooMuchFailAlone) {
    constexpr uint32_t kReceives = 7;
    for (uint64_t sent : {1u, 100u, 1000000u})
        run_threads(2, GetParam(), [sent](uint32_t rank, gcoll_context *context) {
            const uint64_t room = sent - 1;
            gcoll_pair *pair = pair_to(context, 1 - rank);
            std::vector<uint8_t> data(sent, rank ? kUnwritten : 5);
            if (rank == 0) {
                for (uint32_t tag = 1; tag <= kReceives; tag++)
                    EXPECT_GCOLL_OK(gcoll_pair_send(pair, tag, data.data(), sent));
                EXPECT_GCOLL_OK(gcoll_pair_recv(pair, 9, nullptr, 0));
                EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
                return;
            }
            gcoll_request *request = nullptr;
            const uint32_t peer = 0;
            uint32_t source = 7;
            int done = 0;
            expect_too_large(context, gcoll_pair_recv(pair, 1, data.data(), room), room, sent, 1);
            EXPECT_GCOLL_OK(gcoll_pair_recv_start(pair, 2, data.data(), room, &request));
            expect_too_large(context, gcoll_request_wait(&request), room, sent, 2);
            EXPECT_EQ(request, nullptr);
            EXPECT_GCOLL_OK(gcoll_pair_recv_start(pair, 3, data.data(), room, &request));
            gcoll_status status = GCOLL_OK;
            while (status == GCOLL_OK)
                status = gcoll_request_test(&request, &done);
            expect_too_large(context, status, room, sent, 3);
            EXPECT_EQ(done, 0);
            EXPECT_EQ(request, nullptr);
            EXPECT_GCOLL_OK(gcoll_pair_recv_start(pair, 4, data.data(), room, &request));
            expect_too_large(context, gcoll_request_wait_for(&request, 20000), room, sent, 4);
            EXPECT_EQ(request, nullptr);
            expect_too_large(context,
                             gcoll_context_recv_any(context, &peer, 1, 5, data.data(), room, &source), room,
                             sent, 5);
            EXPECT_EQ(source, 7u);
            EXPECT_GCOLL_OK(gcoll_context_recv_any_start(context, &peer, 1, 6, data.data(), room, &request));
            expect_too_large(context, gcoll_request_wait(&request), room, sent, 6);
            expect_too_large(context, gcoll_pair_sendrecv(pair, 9, nullptr, 0, pair, 7, data.data(), room),
                             room, sent, 7);
            EXPECT_TRUE(data == std::vector<uint8_t>(sent, kUnwritten));
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        });
}

TEST_P(Receives, TellTheirSizeOnlyWhenTheyHaveOne) {
    run_threads(
        2, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            gcoll_pair *pair = pair_to(context, 1 - rank);
            gcoll_request *receive = nullptr, *send = nullptr, *barrier = nullptr;
            const uint32_t peer = 1 - rank;
            uint32_t source = 77, index = 7;
            uint64_t bytes = 77;
            uint8_t in[8] = {}, out[3] = {1, 2, 3};
            EXPECT_EQ(gcoll_context_last_received(context, &source, &bytes), GCOLL_ERR_STATE);
            EXPECT_EQ(gcoll_context_last_received(nullptr, &source, &bytes), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_request_bytes(nullptr, &bytes), GCOLL_ERR_STATE);
            EXPECT_EQ(gcoll_request_source(nullptr, &source), GCOLL_ERR_STATE);
            EXPECT_GCOLL_OK(gcoll_context_recv_any_start(context, &peer, 1, 1, in, sizeof in, &receive));
            EXPECT_EQ(gcoll_request_bytes(receive, &bytes), GCOLL_ERR_STATE);
            EXPECT_EQ(gcoll_request_source(receive, &source), GCOLL_ERR_STATE);
            EXPECT_EQ(gcoll_request_source(receive, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_request_bytes(receive, nullptr), GCOLL_ERR_INVALID);
            EXPECT_GCOLL_OK(gcoll_barrier_start(context, nullptr, &barrier));
            EXPECT_GCOLL_OK(gcoll_pair_send_start(pair, 1, out, sizeof out, &send));
            EXPECT_GCOLL_OK(gcoll_wait_any(&barrier, 1, &index));
            EXPECT_GCOLL_OK(gcoll_wait_any(&send, 1, &index));
            EXPECT_EQ(gcoll_request_bytes(send, &bytes), GCOLL_ERR_STATE) << "a send";
            EXPECT_EQ(gcoll_request_source(barrier, &source), GCOLL_ERR_STATE) << "a collective";
            EXPECT_EQ(source, 77u);
            EXPECT_EQ(bytes, 77u);
            EXPECT_GCOLL_OK(gcoll_wait_any(&receive, 1, &index));
            EXPECT_GCOLL_OK(gcoll_request_bytes(receive, &bytes));
            EXPECT_GCOLL_OK(gcoll_request_source(receive, &source));
            EXPECT_EQ(bytes, 3u);
            EXPECT_EQ(source, peer);
            gcoll_request *ended = receive;
            EXPECT_GCOLL_OK(gcoll_request_wait(&receive));
            EXPECT_EQ(gcoll_request_bytes(ended, &bytes), GCOLL_ERR_STATE);
            EXPECT_GCOLL_OK(gcoll_request_wait(&send));
            EXPECT_GCOLL_OK(gcoll_request_wait(&barrier));
            EXPECT_GCOLL_OK(gcoll_context_last_received(context, nullptr, nullptr));
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        });
}

// ---- From any, started ----------------------------------------------------------------------------------

// The list of ranks is copied; those that began first are served first; a receive from one rank goes before.
TEST_P(Receives, FromAnyAreServedInOrder) {
    run_threads(
        3, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            constexpr uint64_t kAnys = 20;
            if (rank > 0) {
                EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
                for (uint64_t i = 0; i < kAnys / 2 + (rank == 2 ? 2 : 0); i++) {
                    uint64_t word = rank * 1000 + i;
                    EXPECT_GCOLL_OK(gcoll_pair_send(pair_to(context, 0), 4, &word, sizeof word));
                }
                return;
            }
            std::vector<gcoll_request *> requests(kAnys);
            std::vector<uint64_t> words(kAnys), direct(2);
            std::vector<uint32_t> peers = {1, 2};
            gcoll_request *directed[2] = {};
            for (uint64_t i = 0; i < kAnys; i++)
                EXPECT_GCOLL_OK(gcoll_context_recv_any_start(context, peers.data(), 2, 4, &words[i],
                                                             sizeof words[i], &requests[i]));
            peers.assign(2, 4711);
            for (uint32_t i = 0; i < 2; i++)
                EXPECT_GCOLL_OK(gcoll_pair_recv_start(pair_to(context, 2), 4, &direct[i], sizeof direct[i],
                                                      &directed[i]));
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            uint64_t next[3] = {0, 0, 2};
            uint32_t left = kAnys;
            while (left > 0) { // whichever is done
                uint32_t index = 0, source = 0;
                ASSERT_GCOLL_OK(gcoll_wait_any(requests.data(), kAnys, &index));
                ASSERT_GCOLL_OK(gcoll_request_wait(&requests[index]));
                ASSERT_GCOLL_OK(gcoll_context_last_received(context, &source, nullptr));
                EXPECT_EQ(words[index] / 1000, source);
                left--;
            }
            for (uint64_t i = 0; i < kAnys; i++)
                EXPECT_EQ(words[i] % 1000, next[words[i] / 1000]++) << i;
            for (uint32_t i = 0; i < 2; i++) {
                EXPECT_GCOLL_OK(gcoll_request_wait(&directed[i]));
                EXPECT_EQ(direct[i], 2000 + i);
            }
        });
}

TEST_P(Receives, FromAnyAreCancelled) {
    run_threads(
        2, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            const uint32_t peer = 1 - rank;
            gcoll_request *requests[3] = {};
            uint64_t words[3] = {7, 7, 7}, word = 40 + rank;
            for (uint32_t i = 0; i < 3; i++)
                EXPECT_GCOLL_OK(
                    gcoll_context_recv_any_start(context, &peer, 1, 6, &words[i], 8, &requests[i]));
            EXPECT_GCOLL_OK(
                gcoll_request_cancel(&requests[1])); // in the middle, at the end, and at the front
            EXPECT_GCOLL_OK(gcoll_request_cancel(&requests[2]));
            EXPECT_GCOLL_OK(gcoll_request_cancel(&requests[0]));
            EXPECT_EQ(requests[1], nullptr);
            EXPECT_GCOLL_OK(gcoll_context_recv_any_start(context, &peer, 1, 6, &words[0], 8, &requests[0]));
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            gcoll_request *send = nullptr;
            uint32_t index;
            EXPECT_GCOLL_OK(gcoll_pair_send_start(pair_to(context, peer), 6, &word, 8, &send));
            EXPECT_GCOLL_OK(gcoll_wait_any(requests, 1, &index));
            EXPECT_EQ(gcoll_request_cancel(&requests[0]), GCOLL_ERR_STATE) << "its message has come";
            EXPECT_GCOLL_OK(gcoll_request_wait(&requests[0]));
            EXPECT_GCOLL_OK(gcoll_request_wait(&send));
            EXPECT_EQ(words[0], 40 + peer);
            EXPECT_EQ(words[1], 7u);
            EXPECT_EQ(words[2], 7u);
        });
}

TEST_P(Receives, FromAnyOfThoseWhoHaveLeftFail) {
    for (Form form : {kBlocking, kWaited, kTested}) {
        Group group(job_on(GetParam(), 3));
        const uint32_t peers[2] = {1, 2};
        uint64_t got = 0;
        gcoll_request *request = nullptr;
        std::thread others[2];
        for (uint32_t rank : peers)
            others[rank - 1] = std::thread([&group, rank] {
                uint64_t data = 33;
                EXPECT_GCOLL_OK(gcoll_barrier(group[rank], nullptr));
                if (rank == 2)
                    EXPECT_GCOLL_OK(gcoll_pair_send(pair_to(group[2], 0), 1, &data, sizeof data));
                group.leave(rank);
            });
        EXPECT_GCOLL_OK(gcoll_context_recv_any_start(group[0], peers, 2, 1, &got, sizeof got, &request));
        EXPECT_GCOLL_OK(gcoll_barrier(group[0], nullptr));
        EXPECT_GCOLL_OK(gcoll_request_wait(&request));
        EXPECT_EQ(got, 33u);
        const int64_t before = now_ms();
        uint32_t source = 9;
        gcoll_status status = GCOLL_OK;
        int done = 0;
        if (form == kBlocking)
            status = gcoll_context_recv_any(group[0], peers, 2, 1, &got, sizeof got, &source);
        else
            EXPECT_GCOLL_OK(gcoll_context_recv_any_start(group[0], peers, 2, 1, &got, sizeof got, &request));
        if (form == kWaited)
            status = gcoll_request_wait(&request);
        while (form == kTested && status == GCOLL_OK && !done)
            status = gcoll_request_test(&request, &done);
        EXPECT_EQ(status, GCOLL_ERR_PEER) << told(status);
        EXPECT_EQ(request, nullptr);
        EXPECT_EQ(source, 9u);
        EXPECT_LT(now_ms() - before, 10000) << "long before the timeout";
        for (std::thread &other : others)
            other.join();
    }
}

// Nobody sends: the timeout names the ranks' silence in all forms, and breaks the context.
TEST_P(Receives, FromAnyTimeOut) {
    for (Form form : {kBlocking, kWaited, kTested}) {
        std::atomic<uint32_t> over{0};
        run_threads(job_on(GetParam(), 2), [&](uint32_t rank, gcoll_context *context) {
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            if (rank == 1) {
                EXPECT_TRUE(await(over, 1, 30000));
                return;
            }
            const uint32_t peer = 1;
            uint32_t source = 0;
            uint64_t word = 0;
            gcoll_request *request = nullptr;
            gcoll_status status = GCOLL_OK;
            int done = 0;
            EXPECT_GCOLL_OK(gcoll_pair_set_timeout(pair_to(context, 1), 300));
            if (form == kBlocking)
                status = gcoll_context_recv_any(context, &peer, 1, 1, &word, 8, &source);
            else
                EXPECT_GCOLL_OK(gcoll_context_recv_any_start(context, &peer, 1, 1, &word, 8, &request));
            if (form == kWaited)
                status = gcoll_request_wait(&request);
            while (form == kTested && status == GCOLL_OK && !done)
                status = gcoll_request_test(&request, &done);
            EXPECT_EQ(status, GCOLL_ERR_TIMEOUT) << told(status);
            EXPECT_EQ(request, nullptr);
            EXPECT_EQ(gcoll_context_health(context), GCOLL_ERR_TIMEOUT);
            over = 1;
        });
    }
}

// Destroyed with the context, they leave nothing behind, and the others learn of it.
TEST_P(Receives, FromAnyAreFreedWithTheirContext) {
    std::atomic<uint32_t> met{0};
    run_threads(2, GetParam(), [&](uint32_t rank, gcoll_context *context) {
        uint64_t words[5];
        const uint32_t peer = 1 - rank;
        gcoll_request *request = nullptr;
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        met++;
        EXPECT_TRUE(await(met, 2));
        if (rank == 0) {
            for (uint64_t &word : words)
                EXPECT_GCOLL_OK(gcoll_context_recv_any_start(context, &peer, 1, 1, &word, 8, &request));
            return;
        }
        gcoll_status status = gcoll_pair_recv(pair_to(context, 0), 2, words, 8);
        EXPECT_EQ(status, GCOLL_ERR_PEER) << told(status);
        EXPECT_EQ(gcoll_context_culprit(context), 0);
    });
}

// The context's own thread finds the message: over inproc a send ends only when its receive is posted.
TEST(ReceivesWithThread, FromAnyGoOnBetweenCalls) {
    std::atomic<uint32_t> sent{0};
    Job job = job_on("inproc", 3);
    job.adjust = [](uint32_t, gcoll_context_options *options) { options->progress_thread = 1; };
    run_threads(job, [&](uint32_t rank, gcoll_context *context) {
        const uint32_t peers[2] = {1, 2};
        constexpr uint32_t kEach = 30;
        if (rank > 0) {
            for (uint64_t i = 0; i < kEach; i++)
                EXPECT_GCOLL_OK(gcoll_pair_send(pair_to(context, 0), 1, &i, sizeof i));
            sent++;
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
            return;
        }
        std::vector<gcoll_request *> requests(2 * kEach);
        std::vector<uint64_t> words(2 * kEach);
        uint64_t next[3] = {};
        for (uint32_t i = 0; i < 2 * kEach; i++)
            EXPECT_GCOLL_OK(gcoll_context_recv_any_start(context, peers, 2, 1, &words[i], 8, &requests[i]));
        EXPECT_TRUE(await(sent, 2, 20000));
        for (uint32_t i = 0; i < 2 * kEach; i++) {
            uint32_t source = 0;
            EXPECT_GCOLL_OK(gcoll_request_wait(&requests[i]));
            ASSERT_GCOLL_OK(gcoll_context_last_received(context, &source, nullptr));
            EXPECT_EQ(words[i], next[source % 3]++);
        }
        EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
    });
}

// ---- Probes ---------------------------------------------------------------------------------------------

TEST_P(Receives, ProbesTellWhatHasCome) {
    run_threads(
        3, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            const std::vector<uint64_t> sizes = {0, 8, 300000};
            if (rank > 0) {
                for (uint64_t size : sizes) {
                    std::vector<uint8_t> data = message_of(rank, 5, 0, size + rank);
                    EXPECT_GCOLL_OK(gcoll_pair_send(pair_to(context, 0), 5, data.data(), data.size()));
                }
                EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
                return;
            }
            const uint32_t peers[2] = {2, 1};
            int found = 7;
            uint32_t source = 7;
            uint64_t bytes = 7;
            EXPECT_GCOLL_OK(gcoll_context_probe(context, peers, 2, 6, &found, &source, &bytes));
            EXPECT_EQ(found, 0) << "another tag";
            EXPECT_EQ(source, 7u);
            EXPECT_EQ(bytes, 7u);
            for (uint64_t size : sizes)
                for (uint32_t peer : {1u, 2u}) {
                    found = 0;
                    while (!found)
                        ASSERT_GCOLL_OK(gcoll_pair_probe(pair_to(context, peer), 5, &found, &bytes));
                    EXPECT_EQ(bytes, size + peer);
                    if (peer == 2) { // both are here
                        ASSERT_GCOLL_OK(gcoll_context_probe(context, peers, 2, 5, &found, nullptr, nullptr));
                        EXPECT_EQ(found, 1);
                    }
                    if (peer == 1)
                        continue;
                    for (uint32_t i : {0u, 1u}) { // what has come of rank 2 stands before rank 1
                        const uint32_t taken = peers[i];
                        ASSERT_GCOLL_OK(
                            gcoll_context_probe(context, peers + i, 2 - i, 5, &found, &source, &bytes));
                        EXPECT_EQ(found, 1);
                        EXPECT_EQ(source, taken) << "the first in the list";
                        ASSERT_EQ(bytes, size + taken);
                        std::vector<uint8_t> data(bytes);
                        EXPECT_GCOLL_OK(gcoll_pair_recv(pair_to(context, source), 5, data.data(), bytes));
                        EXPECT_TRUE(data == message_of(source, 5, 0, bytes));
                    }
                }
            EXPECT_GCOLL_OK(gcoll_context_probe(context, peers, 2, 5, &found, &source, &bytes));
            EXPECT_EQ(found, 0) << "all have been taken";
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        });
}

TEST_P(Receives, ProbesOfThoseWhoHaveLeftBreakNothing) {
    Group group(job_on(GetParam(), 3));
    std::thread other([&] {
        uint64_t data = 33;
        EXPECT_GCOLL_OK(gcoll_barrier(group[1], nullptr));
        EXPECT_GCOLL_OK(gcoll_pair_send(pair_to(group[1], 0), 1, &data, sizeof data));
        group.leave(1);
    });
    std::thread third([&] { EXPECT_GCOLL_OK(gcoll_barrier(group[2], nullptr)); });
    const uint32_t peer = 1;
    uint64_t bytes = 0, word = 0;
    int found = 0;
    EXPECT_GCOLL_OK(gcoll_barrier(group[0], nullptr));
    while (!found)
        ASSERT_GCOLL_OK(gcoll_context_probe(group[0], &peer, 1, 1, &found, nullptr, &bytes));
    EXPECT_EQ(bytes, 8u);
    EXPECT_GCOLL_OK(gcoll_pair_recv(pair_to(group[0], 1), 1, &word, 8));
    other.join();
    third.join();
    gcoll_status status = GCOLL_OK;
    const int64_t begun = now_ms();
    while (status == GCOLL_OK && now_ms() - begun < 10000) {
        status = gcoll_context_probe(group[0], &peer, 1, 1, &found, nullptr, &bytes);
        EXPECT_TRUE(status != GCOLL_OK || !found);
    }
    EXPECT_EQ(status, GCOLL_ERR_PEER) << told(status);
    EXPECT_NE(std::string(gcoll_last_error()).find("rank 1"), std::string::npos) << gcoll_last_error();
    EXPECT_GCOLL_OK(gcoll_context_health(group[0]));
}

TEST_P(Receives, BadArgumentsBreakNothing) {
    run_threads(
        2, GetParam(),
        [](uint32_t rank, gcoll_context *context) {
            const uint32_t other = 1 - rank, beyond = 2;
            gcoll_request *request = nullptr;
            uint8_t data = 0;
            int found = 7;
            EXPECT_EQ(gcoll_context_recv_any_start(nullptr, &other, 1, 0, &data, 1, &request),
                      GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_recv_any_start(context, nullptr, 1, 0, &data, 1, &request),
                      GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_recv_any_start(context, &other, 0, 0, &data, 1, &request),
                      GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_recv_any_start(context, &other, 1, 0, nullptr, 1, &request),
                      GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_recv_any_start(context, &other, 1, 0, &data, 1, nullptr),
                      GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_recv_any_start(context, &rank, 1, 0, &data, 1, &request),
                      GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_recv_any_start(context, &beyond, 1, 0, &data, 1, &request),
                      GCOLL_ERR_INVALID);
            EXPECT_NE(std::string(gcoll_last_error()).find("peers[0]"), std::string::npos)
                << gcoll_last_error();
            EXPECT_EQ(request, nullptr);
            EXPECT_EQ(gcoll_context_probe(nullptr, &other, 1, 0, &found, nullptr, nullptr),
                      GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_probe(context, nullptr, 1, 0, &found, nullptr, nullptr),
                      GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_probe(context, &other, 0, 0, &found, nullptr, nullptr),
                      GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_probe(context, &other, 1, 0, nullptr, nullptr, nullptr),
                      GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_probe(context, &beyond, 1, 0, &found, nullptr, nullptr),
                      GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_pair_probe(nullptr, 0, &found, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_pair_probe(pair_to(context, other), 0, nullptr, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(found, 7);
            EXPECT_GCOLL_OK(gcoll_barrier(context, nullptr));
        });
}

INSTANTIATE_TEST_SUITE_P(Transports, Receives, transports(),
                         [](const testing::TestParamInfo<const char *> &row) {
                             return std::string(row.param);
                         });

} // namespace
