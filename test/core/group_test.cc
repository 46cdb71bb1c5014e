// Contexts of some ranks of another: splits, and groups that their members create.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "test/kit/calls.h"
#include "test/kit/descriptors.h"
extern "C" {
#include "transport/inproc/inproc.h"
}

namespace {

using namespace gcoll_test;

struct ContextDeleter {
    void operator()(gcoll_context *context) const { gcoll_context_destroy(context); }
};
using Context = std::unique_ptr<gcoll_context, ContextDeleter>;

std::string cause_of(const gcoll_context *context) {
    gcoll_context_health(context);
    return gcoll_last_error();
}

Context split(gcoll_context *parent, int32_t color, int32_t key = 0) {
    gcoll_context *child = nullptr;
    EXPECT_GCOLL_OK(gcoll_context_split(parent, color, key, &child));
    return Context(child);
}

Context create_group(gcoll_context *parent, const std::vector<uint32_t> &ranks, uint32_t tag = 0) {
    gcoll_context *child = nullptr;
    EXPECT_GCOLL_OK(
        gcoll_context_create_group(parent, ranks.data(), static_cast<uint32_t>(ranks.size()), tag, &child));
    return Context(child);
}

// The values of all ranks of the context in its order, by each form of a call.
std::vector<uint32_t> gather_in_form(gcoll_context *context, uint32_t value, int form) {
    std::vector<uint32_t> all(gcoll_context_size(context), UINT32_MAX);
    gcoll_request *request = nullptr;
    gcoll_operation *operation = nullptr;
    if (form == 0) {
        EXPECT_GCOLL_OK(gcoll_allgather(context, &value, all.data(), 1, GCOLL_UINT32, nullptr));
    } else if (form == 1) {
        EXPECT_GCOLL_OK(
            gcoll_allgather_start(context, &value, all.data(), 1, GCOLL_UINT32, nullptr, &request));
        EXPECT_GCOLL_OK(gcoll_request_wait(&request));
    } else {
        EXPECT_GCOLL_OK(
            gcoll_allgather_create(context, &value, all.data(), 1, GCOLL_UINT32, nullptr, &operation));
        for (int round = 0; round < 2; round++)
            EXPECT_GCOLL_OK(gcoll_operation_run(operation));
        gcoll_operation_destroy(operation);
    }
    return all;
}

// That the context has these ranks of its parent in this order, and works in all forms.
void expect_group(gcoll_context *child, uint32_t parent_rank, const std::vector<uint32_t> &ranks) {
    ASSERT_NE(child, nullptr);
    ASSERT_EQ(gcoll_context_size(child), ranks.size());
    for (uint32_t i = 0; i < ranks.size(); i++)
        EXPECT_EQ(gcoll_context_parent_rank(child, i), ranks[i]);
    EXPECT_EQ(gcoll_context_parent_rank(child, static_cast<uint32_t>(ranks.size())), UINT32_MAX);
    EXPECT_EQ(ranks[gcoll_context_rank(child)], parent_rank);
    for (int form = 0; form < 3; form++)
        EXPECT_EQ(gather_in_form(child, parent_rank, form), ranks) << "form " << form;
}

// One that nobody listened at just now.
uint16_t free_port() {
    sockaddr_in address = {};
    socklen_t bytes = sizeof address;
    address.sin_family = AF_INET;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, reinterpret_cast<sockaddr *>(&address), bytes) != 0 ||
        getsockname(listener, reinterpret_cast<sockaddr *>(&address), &bytes) != 0)
        abort();
    close(listener);
    return ntohs(address.sin_port);
}

class Groups : public testing::TestWithParam<const char *> {
  protected:
    static Job job(uint32_t size, int64_t timeout_ms = 20000) { return job_on(GetParam(), size, timeout_ms); }
};

// ---- Splits ---------------------------------------------------------------------------------------------

struct Wish {
    int32_t color, key;
};

// Few colors and keys, so that both often agree; some ranks want none.
std::vector<Wish> wishes_of(uint32_t size, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<Wish> wishes(size);
    for (Wish &wish : wishes) {
        wish.color = static_cast<int32_t>(random() % 4) - 1;
        wish.key = static_cast<int32_t>(random() % 3) - 1;
        if (wish.color == 2)
            wish.color = INT32_MAX;
    }
    return wishes;
}

// Who is in a group, by what the header promises: the ranks of a color, by key and then by rank.
std::vector<uint32_t> members_of(const std::vector<Wish> &wishes, int32_t color) {
    std::vector<uint32_t> ranks;
    for (int32_t key = -1; key <= 1; key++)
        for (uint32_t rank = 0; rank < wishes.size(); rank++)
            if (wishes[rank].color == color && wishes[rank].key == key)
                ranks.push_back(rank);
    return ranks;
}

TEST_P(Groups, SplitByColorAndKey) {
    for (uint32_t size : {1u, 2u, 5u, 7u, 13u})
        run_threads(
            job(size),
            [size](uint32_t rank, gcoll_context *parent) {
                for (uint32_t seed = 0; seed < 6; seed++) {
                    const std::vector<Wish> wishes = wishes_of(size, seed);
                    gcoll_context *out = parent;
                    EXPECT_GCOLL_OK(gcoll_context_split(parent, wishes[rank].color, wishes[rank].key, &out));
                    Context child(out);
                    if (wishes[rank].color == GCOLL_COLOR_NONE)
                        EXPECT_EQ(out, nullptr);
                    else
                        expect_group(out, rank, members_of(wishes, wishes[rank].color));
                    EXPECT_EQ(sum_of(parent, rank), size * (size - 1) / 2) << "the parent goes on";
                }
            });
}

TEST_P(Groups, SplitOfASplit) {
    run_threads(
        job(8),
        [](uint32_t rank, gcoll_context *parent) {
            const int32_t odd = static_cast<int32_t>(rank % 2);
            const Context half = split(parent, odd, -static_cast<int32_t>(rank)); // 7 5 3 1, 6 4 2 0
            const uint32_t base = odd ? 7 : 6;
            expect_group(half.get(), rank, {base, base - 2, base - 4, base - 6});
            const uint32_t mine = gcoll_context_rank(half.get());
            const Context quarter = split(half.get(), static_cast<int32_t>(mine / 2), 0);
            const uint32_t first = mine / 2 * 2;
            expect_group(quarter.get(), mine, {first, first + 1}); // by the numbers of the half
            EXPECT_EQ(sum_of(quarter.get(), rank), 2 * (base - 2 * first) - 2);
            gcoll_context *copy = nullptr;
            ASSERT_GCOLL_OK(gcoll_context_duplicate(quarter.get(), &copy));
            EXPECT_EQ(sum_of(copy, 3), 6u);
            EXPECT_EQ(gcoll_context_parent_rank(copy, 1), 1u);
            gcoll_context_destroy(copy);
        });
}

TEST_P(Groups, SplitWorksBesideItsParentAndOutlivesIt) {
    Group group(job(6));
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < 6; rank++)
        threads.emplace_back([&group, rank] {
            Context child = split(group[rank], rank < 2 ? 0 : 1);
            const uint64_t size = rank < 2 ? 2 : 4;
            std::thread busy([&child, size] {
                for (uint64_t round = 0; round < 200; round++)
                    ASSERT_EQ(sum_of(child.get(), round), size * round);
            });
            for (uint64_t round = 0; round < 100; round++)
                ASSERT_EQ(sum_of(group[rank], round + rank), 6 * round + 15);
            busy.join();
            group.leave(rank);
            for (uint64_t round = 0; round < 50; round++)
                ASSERT_EQ(sum_of(child.get(), round), size * round);
        });
    for (std::thread &thread : threads)
        thread.join();
}

TEST_P(Groups, OneContextBreaksWithoutTheOther) {
    std::atomic<uint32_t> through{0};
    run_threads(job(5), [&](uint32_t rank, gcoll_context *parent) {
        const int32_t color = rank == 4 ? 1 : 0;
        Context first = split(parent, color), second = split(parent, color);
        EXPECT_EQ(sum_of(first.get(), 1), color ? 1u : 4u);
        EXPECT_GCOLL_OK(gcoll_barrier(parent, nullptr)); // all are through with that
        if (rank == 1)
            gcoll_context_abort(first.get(), "enough of this group");
        uint64_t word = 0;
        gcoll_status status =
            gcoll_allreduce(first.get(), nullptr, &word, 1, GCOLL_UINT64, GCOLL_SUM, nullptr);
        EXPECT_EQ(status, color ? GCOLL_OK : GCOLL_ERR_ABORTED) << told(status);
        gcoll_context *refused = nullptr;
        if (rank != 4) {
            EXPECT_EQ(gcoll_context_split(first.get(), 0, 0, &refused), GCOLL_ERR_ABORTED);
            EXPECT_TRUE(says("enough of this group")) << gcoll_last_error();
            const uint32_t list[] = {gcoll_context_rank(first.get())};
            EXPECT_EQ(gcoll_context_create_group(first.get(), list, 1, 0, &refused), GCOLL_ERR_ABORTED);
            EXPECT_EQ(refused, nullptr);
        }
        EXPECT_EQ(sum_of(parent, 1), 5u);
        EXPECT_EQ(sum_of(second.get(), 1), color ? 1u : 4u);
        through++; // nobody aborts the parent while another rank is in that call
        EXPECT_TRUE(await(through, 5));
        if (rank == 0)
            gcoll_context_abort(parent, "enough of all");
        EXPECT_EQ(gcoll_barrier(parent, nullptr), GCOLL_ERR_ABORTED);
        EXPECT_EQ(gcoll_context_split(parent, 0, 0, &refused), GCOLL_ERR_ABORTED);
        EXPECT_TRUE(says("enough of all")) << gcoll_last_error();
        EXPECT_EQ(sum_of(second.get(), 2), color ? 2u : 8u);
    });
}

TEST_P(Groups, AThousandSplitsLeaveNoDescriptor) {
    const uint32_t rounds =
        std::string(GetParam()) == "ibverbs" ? 50 : 1000; // an emulated device is slow to open
    std::atomic<uint32_t> before{0}, after{0};
    run_threads(job(3), [&](uint32_t rank, gcoll_context *parent) {
        split(parent, 0).reset(); // what is made once
        EXPECT_GCOLL_OK(gcoll_barrier(parent, nullptr));
        if (rank == 0)
            before = static_cast<uint32_t>(open_descriptors());
        EXPECT_GCOLL_OK(gcoll_barrier(parent, nullptr));
        for (uint32_t round = 0; round < rounds; round++) {
            const Context child = split(parent, rank == round % 3 ? GCOLL_COLOR_NONE : 0);
            if (child && round % 50 == 0)
                ASSERT_EQ(sum_of(child.get(), 1), 2u);
        }
        EXPECT_GCOLL_OK(gcoll_barrier(parent, nullptr));
        if (rank == 0)
            after = static_cast<uint32_t>(open_descriptors());
        EXPECT_GCOLL_OK(gcoll_barrier(parent, nullptr));
    });
    EXPECT_EQ(before, after);
}

TEST_P(Groups, SplitWithAProgressThread) {
    Job each = job(4);
    each.adjust = [](uint32_t, gcoll_context_options *options) { options->progress_thread = 1; };
    run_threads(each, [](uint32_t rank, gcoll_context *parent) {
        const Context child = split(parent, static_cast<int32_t>(rank % 2));
        expect_group(child.get(), rank, {rank % 2, rank % 2 + 2});
        const std::vector<uint32_t> all = {3, 1, 0};
        if (rank != 2)
            expect_group(create_group(parent, all, 5).get(), rank, all);
    });
}

TEST_P(Groups, WrongArgumentsBreakNothing) {
    run_threads(
        job(3),
        [](uint32_t rank, gcoll_context *parent) {
            gcoll_context *out = parent;
            EXPECT_EQ(gcoll_context_split(nullptr, 0, 0, &out), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_split(parent, 0, 0, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_split(parent, -2, 0, &out), GCOLL_ERR_INVALID);
            EXPECT_TRUE(says("color: is -2")) << gcoll_last_error();
            const std::vector<uint32_t> far = {rank, 3}, twice = {1, rank, 1}, without = {(rank + 1) % 3},
                                        well = {rank};
            EXPECT_EQ(gcoll_context_create_group(parent, far.data(), 2, 0, &out), GCOLL_ERR_INVALID);
            EXPECT_TRUE(says("ranks[1]: is 3")) << gcoll_last_error();
            EXPECT_EQ(gcoll_context_create_group(parent, twice.data(), 3, 0, &out), GCOLL_ERR_INVALID);
            EXPECT_TRUE(says("is 1, as ranks[0]")) << gcoll_last_error();
            EXPECT_EQ(gcoll_context_create_group(parent, without.data(), 1, 0, &out), GCOLL_ERR_INVALID);
            EXPECT_TRUE(says("without this rank")) << gcoll_last_error();
            EXPECT_EQ(gcoll_context_create_group(parent, well.data(), 0, 0, &out), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_create_group(parent, well.data(), 4, 0, &out), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_create_group(parent, nullptr, 1, 0, &out), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_create_group(nullptr, well.data(), 1, 0, &out), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_create_group(parent, well.data(), 1, 0, nullptr), GCOLL_ERR_INVALID);
            EXPECT_EQ(gcoll_context_parent_rank(nullptr, 0), UINT32_MAX);
            EXPECT_EQ(gcoll_context_parent_rank(parent, 2), 2u);
            EXPECT_EQ(out, parent) << "outputs are written on success only";
            EXPECT_EQ(sum_of(parent, 1), 3u);
        });
}

TEST_P(Groups, ASplitBesideABarrierIsAMismatch) {
    run_threads(
        job(3, 5000),
        [](uint32_t rank, gcoll_context *parent) {
            gcoll_context *child = nullptr;
            gcoll_status status =
                rank == 1 ? gcoll_barrier(parent, nullptr) : gcoll_context_split(parent, 0, 0, &child);
            EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
            EXPECT_EQ(child, nullptr);
        });
}

// A rank whose ports are all in use cannot open its end. Its group fails, with that reason; other groups and
// the parent do not.
TEST(GroupsOverTcp, ARankWithoutAPortFailsItsGroupOnly) {
    Job each;
    const uint16_t port = free_port();
    const std::string name = std::to_string(port);
    each.size = 5;
    each.transport = "tcp";
    each.adjust = [port](uint32_t rank, gcoll_context_options *options) {
        if (rank == 3)
            options->port_min = options->port_max = port;
    };
    run_threads(each, [&](uint32_t rank, gcoll_context *parent) {
        gcoll_context *child = nullptr;
        gcoll_status status = gcoll_context_split(parent, static_cast<int32_t>(rank % 2), 0, &child);
        if (rank % 2 == 0) {
            EXPECT_EQ(status, GCOLL_OK) << told(status);
            expect_group(child, rank, {0, 2, 4});
        } else {
            EXPECT_NE(status, GCOLL_OK);
            EXPECT_TRUE(says(name)) << gcoll_last_error();
            if (rank == 1)
                EXPECT_TRUE(status == GCOLL_ERR_PEER && says("rank 1 of the new context, 3 of its parent"))
                    << told(status);
        }
        gcoll_context_destroy(child);
        child = nullptr;
        const std::vector<uint32_t> list = {4, 3, 0};
        if (rank == 4 || rank == 3 || rank == 0) {
            status = gcoll_context_create_group(parent, list.data(), 3, 1, &child);
            EXPECT_TRUE(status != GCOLL_OK && says(name)) << told(status);
        }
        EXPECT_EQ(child, nullptr);
        EXPECT_EQ(sum_of(parent, 1), 5u);
    });
}

// ---- Groups by their members ----------------------------------------------------------------------------

TEST_P(Groups, MembersAloneCreateAGroup) {
    const std::vector<std::vector<uint32_t>> lists = {{5, 1, 3}, {0, 6}, {2}};
    run_threads(job(7), [&](uint32_t rank, gcoll_context *parent) { // rank 4 does nothing
        for (const std::vector<uint32_t> &list : lists)
            if (std::count(list.begin(), list.end(), rank))
                expect_group(create_group(parent, list, 77).get(), rank, list);
    });
}

TEST_P(Groups, ManyGroupsOfOneTag) {
    run_threads(
        job(5),
        [](uint32_t rank, gcoll_context *parent) {
            for (uint32_t seed = 0; seed < 60; seed++) { // on each rank in the same order
                std::mt19937 random(seed);
                std::vector<uint32_t> list = {0, 1, 2, 3, 4};
                std::shuffle(list.begin(), list.end(), random);
                list.resize(1 + random() % 5);
                if (!std::count(list.begin(), list.end(), rank))
                    continue;
                const Context child = create_group(parent, list);
                ASSERT_TRUE(child);
                if (seed % 6 == 0)
                    expect_group(child.get(), rank, list);
            }
            EXPECT_EQ(sum_of(parent, 1), 5u);
        });
}

// More members than meet at one rank.
TEST_P(Groups, ATreeOfMembers) {
    const uint32_t size = 45;
    std::vector<uint32_t> list;
    for (uint32_t rank = 1; rank < size - 1; rank++)
        list.push_back(rank);
    std::mt19937 random(1);
    std::shuffle(list.begin(), list.end(), random);
    ASSERT_GT(list.size(), 33u);
    run_threads(job(size, 60000), [&](uint32_t rank, gcoll_context *parent) {
        if (std::count(list.begin(), list.end(), rank))
            expect_group(create_group(parent, list, UINT32_MAX).get(), rank, list);
    });
}

// Messages of the caller's with the tag of the group are on their way meanwhile.
TEST_P(Groups, TagsAreApartFromThoseOfPairs) {
    run_threads(
        job(3),
        [](uint32_t rank, gcoll_context *parent) {
            gcoll_pair *next = nullptr, *before = nullptr;
            ASSERT_GCOLL_OK(gcoll_context_pair(parent, (rank + 1) % 3, &next));
            ASSERT_GCOLL_OK(gcoll_context_pair(parent, (rank + 2) % 3, &before));
            gcoll_request *sent = nullptr;
            uint64_t mine = 1000 + rank, got = 0;
            ASSERT_GCOLL_OK(gcoll_pair_send_start(next, 7, &mine, sizeof mine, &sent));
            const Context child = create_group(parent, {2, 0, 1}, 7);
            ASSERT_GCOLL_OK(gcoll_pair_recv(before, 7, &got, sizeof got));
            EXPECT_EQ(got, 1000u + (rank + 2) % 3);
            EXPECT_GCOLL_OK(gcoll_request_wait(&sent));
            expect_group(child.get(), rank, {2, 0, 1});
        });
}

// Messages by which members create a group are none that the caller received.
TEST_P(Groups, MessagesOfACreationAreNotTheCallers) {
    run_threads(
        job(3),
        [](uint32_t rank, gcoll_context *parent) {
            uint64_t out = 5, in = 0, bytes = 0;
            uint32_t source = 9;
            gcoll_pair *next = nullptr, *before = nullptr;
            gcoll_request *sent = nullptr;
            Context child = create_group(parent, {2, 0, 1});
            EXPECT_EQ(gcoll_context_last_received(parent, &source, &bytes), GCOLL_ERR_STATE);
            EXPECT_EQ(gcoll_context_last_received(child.get(), &source, &bytes), GCOLL_ERR_STATE);
            ASSERT_GCOLL_OK(gcoll_context_pair(parent, (rank + 1) % 3, &next));
            ASSERT_GCOLL_OK(gcoll_context_pair(parent, (rank + 2) % 3, &before));
            ASSERT_GCOLL_OK(gcoll_pair_send_start(next, 0, &out, 1 + rank, &sent));
            ASSERT_GCOLL_OK(gcoll_pair_recv(before, 0, &in, sizeof in));
            ASSERT_GCOLL_OK(gcoll_request_wait(&sent));
            child = create_group(parent, {0, 1, 2});
            EXPECT_GCOLL_OK(gcoll_context_last_received(parent, &source, &bytes));
            EXPECT_EQ(source, (rank + 2) % 3);
            EXPECT_EQ(bytes, 1 + source);
        });
}

void expect_mismatch(const Job &job, const std::vector<std::vector<uint32_t>> &lists,
                     const std::string &text) {
    run_threads(
        job,
        [&](uint32_t rank, gcoll_context *parent) {
            gcoll_context *child = nullptr;
            gcoll_status status = gcoll_context_create_group(
                parent, lists[rank].data(), static_cast<uint32_t>(lists[rank].size()), 3, &child);
            EXPECT_EQ(status, GCOLL_ERR_MISMATCH) << told(status);
            EXPECT_TRUE(says(text)) << gcoll_last_error();
            EXPECT_EQ(child, nullptr);
            EXPECT_EQ(gcoll_context_health(parent), GCOLL_ERR_MISMATCH) << "ranks are out of step";
        });
}

TEST_P(Groups, DifferentListsAreAMismatch) {
    expect_mismatch(job(3, 8000), {{0, 1, 2}, {0, 2, 1}, {0, 1, 2}},
                    "ranks[1] is 1 on rank 0 and 2 on rank 1");
    expect_mismatch(job(3, 8000), {{0, 1, 2}, {0, 1, 2}, {0, 2}}, "ranks[1] is 1 on rank 0 and 2 on rank 2");
    expect_mismatch(job(4, 8000), {{3, 0, 1, 2}, {3, 0, 1, 2}, {3, 0, 1, 2}, {3, 0, 1}},
                    "ranks has 4 entries on rank 0 and 3 on rank 3");
}

// The third rank is in no gcoll call; it must be named.
TEST_P(Groups, AMemberThatDoesNotComeIsNamed) {
    std::atomic<uint32_t> done{0};
    run_threads(job(4, 800), [&](uint32_t rank, gcoll_context *parent) {
        EXPECT_EQ(sum_of(parent, 1), 4u); // all are connected
        if (rank == 2) {
            EXPECT_TRUE(await(done, 2));
            return;
        }
        if (rank != 3) {
            const std::vector<uint32_t> list = {2, 1, 0};
            gcoll_context *child = nullptr;
            const int64_t began = now_ms();
            gcoll_status status = gcoll_context_create_group(parent, list.data(), 3, 9, &child);
            EXPECT_EQ(status, GCOLL_ERR_TIMEOUT) << told(status);
            EXPECT_LT(now_ms() - began, 8000);
            EXPECT_TRUE(says("group of 3 ranks, tag 9")) << gcoll_last_error();
            EXPECT_TRUE(says("rank 2")) << gcoll_last_error();
            EXPECT_EQ(gcoll_context_culprit(parent), 2);
            EXPECT_EQ(child, nullptr);
            done++;
        }
    });
}

// Rank 2 does not come either, but its thread answers probes. Rank 0 waits for rank 2, and rank 1 for rank 0.
// Rank 1 has waited for longer, and must not blame rank 0.
TEST_P(Groups, AMemberThatOnlyAnswersIsNamed) {
    constexpr int64_t kLimitMs = 1600, kLaterMs = 100;
    std::atomic<uint32_t> over{0};
    Job each = job(3, kLimitMs);
    each.adjust = [](uint32_t, gcoll_context_options *options) { options->progress_thread = 1; };
    run_threads(each, [&](uint32_t rank, gcoll_context *parent) {
        const std::vector<uint32_t> list = {0, 1, 2};
        gcoll_context *child = nullptr;
        EXPECT_EQ(sum_of(parent, 1), 3u); // all are connected
        if (rank == 2) {
            EXPECT_TRUE(await(over, 2, 20000));
        } else {
            if (rank == 0)
                std::this_thread::sleep_for(std::chrono::milliseconds(kLaterMs));
            const gcoll_status status = gcoll_context_create_group(parent, list.data(), 3, 9, &child);
            EXPECT_EQ(status, GCOLL_ERR_TIMEOUT) << told(status);
            EXPECT_TRUE(says("waiting for rank 2")) << gcoll_last_error();
            EXPECT_EQ(child, nullptr);
            EXPECT_EQ(gcoll_context_culprit(parent), 2);
            over++;
        }
    });
}

// ---- Ranks that die -------------------------------------------------------------------------------------

// A dead rank is noticed by the group and by the parent, each by its own numbers.
TEST(GroupsInProcess, ADeadRankBreaksBoth) {
    Job each;
    each.size = 6;
    Group group(each);
    std::vector<std::thread> threads;
    std::atomic<uint32_t> ready{0};
    for (uint32_t rank = 0; rank < 6; rank++)
        threads.emplace_back([&, rank] {
            gcoll_context *parent = group[rank];
            const Context child = split(parent, rank < 2 ? 0 : 1, -static_cast<int32_t>(rank)); // 5 4 3 2
            EXPECT_EQ(sum_of(child.get(), 1), rank < 2 ? 2u : 4u);
            EXPECT_EQ(sum_of(parent, 1), 6u);
            ready++;
            EXPECT_TRUE(await(ready, 6));
            if (rank == 4) {
                EXPECT_GCOLL_OK(gcoll_inproc_kill(group.hub(), 4));
                return;
            }
            uint64_t word = 0;
            gcoll_status status =
                gcoll_allreduce(child.get(), nullptr, &word, 1, GCOLL_UINT64, GCOLL_SUM, nullptr);
            EXPECT_EQ(status, rank < 2 ? GCOLL_OK : GCOLL_ERR_PEER) << told(status);
            if (rank >= 2) {
                EXPECT_EQ(gcoll_context_culprit(child.get()), 1);
                EXPECT_TRUE(says("(rank 1 is rank 4 of the parent)")) << gcoll_last_error();
            }
            EXPECT_EQ(gcoll_barrier(parent, nullptr), GCOLL_ERR_PEER);
            EXPECT_EQ(gcoll_context_culprit(parent), 4) << cause_of(parent);
        });
    for (std::thread &thread : threads)
        thread.join();
}

// The same in a group of all ranks, which have other numbers there.
TEST(GroupsInProcess, ADeadRankBreaksAGroupOfAll) {
    Job each;
    each.size = 3;
    each.timeout_ms = 5000;
    Group group(each);
    std::vector<std::thread> threads;
    std::atomic<uint32_t> ready{0};
    for (uint32_t rank = 0; rank < 3; rank++)
        threads.emplace_back([&, rank] {
            const Context child = split(group[rank], 0, -static_cast<int32_t>(rank)); // 2 1 0
            EXPECT_EQ(sum_of(child.get(), 1), 3u);
            ready++;
            EXPECT_TRUE(await(ready, 3));
            if (rank == 2) {
                EXPECT_GCOLL_OK(gcoll_inproc_kill(group.hub(), 2));
                return;
            }
            EXPECT_EQ(gcoll_barrier(child.get(), nullptr), GCOLL_ERR_PEER) << gcoll_last_error();
            EXPECT_EQ(gcoll_context_culprit(child.get()), 0) << cause_of(child.get());
        });
    for (std::thread &thread : threads)
        thread.join();
}

// The same for processes, one of which is killed.
TEST(GroupsOfProcesses, AKilledRankBreaksBoth) {
    Folder folder;
    Shared<std::atomic<uint32_t>> ready;
    Processes ranks(4, [&](uint32_t rank) {
        gcoll_store *store = nullptr;
        EXPECT_GCOLL_OK(gcoll_store_open(folder.url().c_str(), 20000, &store));
        Job each;
        each.size = 4;
        each.transport = process_transport();
        gcoll_context *parent = join(store, each, rank);
        Context child = split(parent, rank == 0 ? 1 : 0);
        const std::vector<uint32_t> list = {3, 0};
        Context pair = rank == 3 || rank == 0 ? create_group(parent, list, 4) : Context();
        EXPECT_EQ(sum_of(child.get(), 1), rank == 0 ? 1u : 3u);
        if (pair)
            EXPECT_EQ(sum_of(pair.get(), 1), 2u);
        (*ready)++;
        EXPECT_TRUE(await(*ready, 4));
        if (rank == 3)
            raise(SIGKILL);
        EXPECT_EQ(gcoll_barrier(child.get(), nullptr), rank == 0 ? GCOLL_OK : GCOLL_ERR_PEER);
        if (rank != 0)
            EXPECT_EQ(gcoll_context_culprit(child.get()), 2) << cause_of(child.get());
        if (pair) {
            EXPECT_EQ(gcoll_barrier(pair.get(), nullptr), GCOLL_ERR_PEER);
            EXPECT_EQ(gcoll_context_culprit(pair.get()), 0) << cause_of(pair.get());
        }
        EXPECT_EQ(gcoll_barrier(parent, nullptr), GCOLL_ERR_PEER);
        EXPECT_EQ(gcoll_context_culprit(parent), 3) << cause_of(parent);
        pair.reset();
        child.reset();
        gcoll_context_destroy(parent);
        gcoll_store_destroy(store);
        return 0;
    });
    ranks.expect_success(60000, 3);
}

// A member that dies before it comes is named at once.
TEST(GroupsInProcess, ADeadMemberIsNamed) {
    Job each;
    each.size = 4;
    std::atomic<uint32_t> through{0}, left{0};
    run_threads(each, [&](uint32_t rank, gcoll_context *parent) {
        EXPECT_EQ(sum_of(parent, 1), 4u);
        through++; // nobody breaks the parent while another rank is in that call
        EXPECT_TRUE(await(through, 4));
        const std::vector<uint32_t> list = {3, 1, 2};
        gcoll_context *child = nullptr;
        if (rank == 3) {
            left = 1;
            return; // leaves
        }
        if (rank == 0)
            return;
        EXPECT_TRUE(await(left, 1));
        gcoll_status status = gcoll_context_create_group(parent, list.data(), 3, 0, &child);
        EXPECT_EQ(status, GCOLL_ERR_PEER) << told(status);
        EXPECT_TRUE(says("rank 3")) << gcoll_last_error();
        EXPECT_EQ(gcoll_context_culprit(parent), 3);
    });
}

INSTANTIATE_TEST_SUITE_P(Transports, Groups, transports(),
                         [](const auto &place) { return std::string(place.param); });

} // namespace
