// Vectors that are lists of buffers, by every algorithm and in all forms, against plain loops.
#include "test/kit/collective_support.h"

#include <cstring>
#include <numeric>

namespace {

using namespace collective_support;
using namespace gcoll_test;

using Counts = std::vector<uint64_t>;
using T = int32_t;

T value(uint32_t rank, uint64_t i) {
    return static_cast<T>(mix(rank * 7919 + i) % 1000);
}

uint64_t sum_of(const Counts &counts) {
    return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

// Buffers of their own, in no order in memory, each with guards. A buffer without elements is NULL.
class List {
  public:
    explicit List(const Counts &counts, T fill = -7) : counts_(counts), memory_(counts.size()) {
        at_.resize(counts.size());
        for (size_t turn = 0; turn < counts.size(); turn++) {
            const size_t k = (turn * 7 + 3) % counts.size() == turn ? turn : counts.size() - 1 - turn;
            memory_[k].assign(counts[k] + 2 * kGuard, kGuarded);
            std::fill(begin(k), begin(k) + counts[k], fill);
            at_[k] = counts[k] > 0 ? begin(k) : nullptr;
        }
    }
    // As one vector, it holds these.
    void set(const std::vector<T> &vector) {
        size_t i = 0;
        for (size_t k = 0; k < counts_.size(); k++)
            for (uint64_t j = 0; j < counts_[k]; j++)
                begin(k)[j] = vector[i++];
    }
    std::vector<T> vector() const {
        std::vector<T> all;
        for (size_t k = 0; k < counts_.size(); k++)
            all.insert(all.end(), memory_[k].begin() + kGuard, memory_[k].end() - kGuard);
        return all;
    }
    bool is_guarded() const {
        for (const std::vector<T> &memory : memory_)
            for (size_t i = 0; i < kGuard; i++)
                if (memory[i] != kGuarded || memory[memory.size() - 1 - i] != kGuarded)
                    return false;
        return true;
    }
    const void *const *in() const { return at_.data(); }
    void *const *out() { return at_.data(); }
    T *begin(size_t k) { return memory_[k].data() + kGuard; }

  private:
    static constexpr std::ptrdiff_t kGuard = 3;
    static constexpr T kGuarded = -99;
    Counts counts_;
    std::vector<std::vector<T>> memory_;
    std::vector<void *> at_;
};

std::vector<T> values(uint32_t rank, uint64_t count) {
    std::vector<T> all(count);
    for (uint64_t i = 0; i < count; i++)
        all[i] = value(rank, i);
    return all;
}

std::vector<T> reduced(uint32_t size, uint64_t count, gcoll_op op) {
    std::vector<T> all = values(0, count);
    for (uint32_t rank = 1; rank < size; rank++)
        for (uint64_t i = 0; i < count; i++)
            all[i] = op == GCOLL_MAX ? std::max(all[i], value(rank, i)) : all[i] + value(rank, i);
    for (uint64_t i = 0; i < count && op == GCOLL_AVG; i++)
        all[i] /= static_cast<T>(size);
    return all;
}

// ---- Allreduce ------------------------------------------------------------------------------------------

std::vector<Counts> lists() {
    std::vector<Counts> all = {{},
                               {0},
                               {5},
                               {0, 0, 0},
                               {1, 2, 3},
                               {1, 1, 1},
                               {0, 7, 0, 100, 0, 1},
                               {300, 1, 1, 1, 300},
                               {2, 2, 2, 2},
                               {64, 64},
                               {1000, 3}};
    Counts many(37);
    for (size_t k = 0; k < many.size(); k++)
        many[k] = mix(k) % 29;
    all.push_back(many);
    return all;
}

enum How { kApart, kNoInputs, kEqual };

gcoll_status reduce_list(gcoll_context *context, const Counts &counts, gcoll_op op, How how, Form form,
                         const gcoll_allreduce_options *options) {
    const uint32_t rank = gcoll_context_rank(context), size = gcoll_context_size(context);
    const auto entries = static_cast<uint32_t>(counts.size());
    const std::vector<T> mine = values(rank, sum_of(counts)), want = reduced(size, mine.size(), op);
    List in(counts), out(counts);
    in.set(mine);
    if (how != kApart)
        out.set(mine);
    const void *const *inputs = how == kApart ? in.in() : how == kEqual ? out.in() : nullptr;
    gcoll_request *request = nullptr;
    gcoll_operation *operation = nullptr;
    gcoll_status status;
    if (form == kBlocking) {
        status = gcoll_allreduce_list(context, inputs, out.out(), counts.data(), entries, GCOLL_INT32, op,
                                      options);
    } else if (form == kStarted) { // arrays are copied
        Counts gone = counts;
        std::vector<void *> pointers(out.out(), out.out() + entries);
        std::vector<const void *> sources(in.in(), in.in() + entries);
        status =
            gcoll_allreduce_list_start(context, how == kApart ? sources.data() : nullptr, pointers.data(),
                                       gone.data(), entries, GCOLL_INT32, op, options, &request);
        std::fill(gone.begin(), gone.end(), 1000000);
        std::fill(pointers.begin(), pointers.end(), nullptr);
        std::fill(sources.begin(), sources.end(), nullptr);
        if (status == GCOLL_OK)
            status = gcoll_request_wait(&request);
    } else {
        status = gcoll_allreduce_list_create(context, inputs, out.out(), counts.data(), entries, GCOLL_INT32,
                                             op, options, &operation);
        for (int run = 0; run < 2 && status == GCOLL_OK; run++) {
            if (how != kApart)
                out.set(mine);
            status = gcoll_operation_run(operation);
        }
        gcoll_operation_destroy(operation);
    }
    if (status != GCOLL_OK)
        return status;
    EXPECT_TRUE(out.vector() == want) << "how " << how << ", form " << form;
    EXPECT_TRUE(in.vector() == mine) << "an input changed";
    EXPECT_TRUE(in.is_guarded() && out.is_guarded());
    return status;
}

class Lists : public testing::TestWithParam<Place> {};

TEST_P(Lists, AllreduceByEveryAlgorithm) {
    auto [ranks, transport] = GetParam();
    const uint32_t size = ranks;
    std::atomic<uint32_t> served{0};
    run_threads(size, transport, [&](uint32_t, gcoll_context *context) {
        int turn = 0;
        for (const Counts &counts : lists())
            for (const std::string &text : allreduce_texts(size)) {
                gcoll_allreduce_options options = by(text.c_str());
                const gcoll_status status =
                    reduce_list(context, counts, GCOLL_SUM, static_cast<How>(turn % 3),
                                static_cast<Form>(turn / 3 % 3), &options);
                turn++;
                if (status == GCOLL_ERR_UNSUPPORTED && text != "auto")
                    continue;
                EXPECT_EQ(status, GCOLL_OK) << text << ": " << told(status);
                served++;
            }
    });
    EXPECT_GE(served.load(), lists().size() * 10 * size);
}

TEST_P(Lists, AllreduceInEveryFormAndPlace) {
    auto [size, transport] = GetParam();
    run_threads(size, transport, [](uint32_t, gcoll_context *context) {
        for (const Counts &counts : lists())
            for (const How how : {kApart, kNoInputs, kEqual})
                for (const Form form : {kBlocking, kStarted, kPersistent})
                    EXPECT_GCOLL_OK(reduce_list(context, counts, how == kApart ? GCOLL_AVG : GCOLL_MAX, how,
                                                form, nullptr));
    });
}

// Messages of several reads, whose ends lie anywhere in the buffers; lists of the same vector in turn.
TEST_P(Lists, AllreduceOfLongVectors) {
    auto [size, transport] = GetParam();
    run_threads(size, transport, [](uint32_t, gcoll_context *context) {
        const uint64_t n = 60001;
        const std::vector<Counts> turns = {{n}, {1, n - 1}, {n - 2, 2}, {n / 3, n / 2, n - n / 3 - n / 2}};
        for (int repeat = 0; repeat < 2; repeat++)
            for (const Counts &counts : turns)
                for (const char *text : {"auto", "ring", "recursive_doubling", "rabenseifner"}) {
                    gcoll_allreduce_options options = by(text);
                    const gcoll_status status =
                        reduce_list(context, counts, GCOLL_SUM, kApart, static_cast<Form>(repeat), &options);
                    EXPECT_TRUE(status == GCOLL_OK ||
                                (status == GCOLL_ERR_UNSUPPORTED && strcmp(text, "auto") != 0))
                        << text << ": " << told(status);
                }
    });
}

// x -> a x + b modulo 256, two bytes: does not commute.
struct Affine {
    uint8_t a, b;
};

gcoll_status compose(void *dst, const void *a, const void *b, uint64_t count, gcoll_type, void *) {
    for (uint64_t i = 0; i < count; i++) {
        const Affine f = static_cast<const Affine *>(a)[i], g = static_cast<const Affine *>(b)[i];
        static_cast<Affine *>(dst)[i] = {static_cast<uint8_t>(f.a * g.a),
                                         static_cast<uint8_t>(f.b * g.a + g.b)};
    }
    return GCOLL_OK;
}

struct Long { // of bytes that transports do not hand over in parts
    Affine parts[15];
};

gcoll_status compose_long(void *dst, const void *a, const void *b, uint64_t count, gcoll_type type,
                          void *arg) {
    return compose(dst, a, b, 15 * count, type, arg);
}

template <class E> E affine(uint32_t rank, uint64_t i) {
    E made;
    auto *bytes = reinterpret_cast<uint8_t *>(&made);
    for (size_t k = 0; k < sizeof made; k++)
        bytes[k] = static_cast<uint8_t>(mix(rank * 31337 + i * 64 + k));
    return made;
}

template <class E> void ordered_list(uint32_t rank, gcoll_context *context, gcoll_reduce_fn reduce) {
    const Counts counts = {4, 0, 1, 900, 13};
    const gcoll_user_op op = {reduce, nullptr, 0, sizeof(E)};
    for (const Form form : {kBlocking, kStarted, kPersistent}) {
        std::vector<std::vector<E>> in, out;
        std::vector<const void *> inputs;
        std::vector<void *> outputs;
        uint64_t i = 0;
        for (const uint64_t count : counts) {
            in.emplace_back(count);
            out.emplace_back(count);
            for (E &element : in.back())
                element = affine<E>(rank, i++);
            inputs.push_back(in.back().data());
            outputs.push_back(out.back().data());
        }
        gcoll_allreduce_options options = by("auto");
        options.user_op = &op;
        EXPECT_GCOLL_OK(CALL(form, allreduce_list, context, inputs.data(), outputs.data(), counts.data(), 5,
                             GCOLL_UINT8, GCOLL_USER, &options));
        i = 0;
        for (const std::vector<E> &buffer : out)
            for (const E &element : buffer) {
                E want = affine<E>(0, i);
                for (uint32_t r = 1; r < gcoll_context_size(context); r++) {
                    const E next = affine<E>(r, i);
                    reduce(&want, &want, &next, 1, GCOLL_UINT8, nullptr);
                }
                EXPECT_EQ(memcmp(&element, &want, sizeof want), 0) << i;
                i++;
            }
    }
}

TEST_P(Lists, AllreduceKeepsTheOrderOfRanks) {
    auto [size, transport] = GetParam();
    run_threads(size, transport, [](uint32_t rank, gcoll_context *context) {
        ordered_list<Affine>(rank, context, compose);
        ordered_list<Long>(rank, context, compose_long);
    });
}

// ---- A buffer for each rank -----------------------------------------------------------------------------

std::vector<Counts> blocks(uint32_t size) {
    std::vector<Counts> all;
    for (uint64_t count : {0u, 1u, 100u, 3000u}) {
        all.emplace_back(size, count);
        Counts uneven(size);
        for (uint32_t rank = 0; rank < size; rank++)
            uneven[rank] = (rank * 5 + count) % 7 * (count > 3 ? 40 : 1); // some are 0
        all.push_back(uneven);
    }
    return all;
}

std::vector<std::string> texts_of(const char *collective) {
    std::vector<std::string> texts = {"auto", "auto", "auto"};
    for (const std::string &name : algorithms(collective)) {
        texts.push_back(name);
        texts.push_back(name + ":segment=36");
    }
    return texts;
}

gcoll_collective_options with(const std::string &algorithm) {
    gcoll_collective_options options;
    gcoll_collective_options_init(&options);
    options.algorithm = algorithm.c_str();
    return options;
}

bool is_served(gcoll_status status, const std::string &text) {
    EXPECT_TRUE(status == GCOLL_OK || (status == GCOLL_ERR_UNSUPPORTED && text != "auto"))
        << text << ": " << told(status);
    return status == GCOLL_OK;
}

std::vector<T> slice(const std::vector<T> &all, const Counts &counts, uint32_t rank) {
    const auto begin =
        static_cast<std::ptrdiff_t>(std::accumulate(counts.begin(), counts.begin() + rank, uint64_t{0}));
    return std::vector<T>(all.begin() + begin,
                          all.begin() + begin + static_cast<std::ptrdiff_t>(counts[rank]));
}

std::vector<T> gathered(const Counts &counts) {
    std::vector<T> all;
    for (uint32_t rank = 0; rank < counts.size(); rank++) {
        const std::vector<T> block = values(rank, counts[rank]);
        all.insert(all.end(), block.begin(), block.end());
    }
    return all;
}

// Rank 1 makes the call without a list: they match.
TEST_P(Lists, Allgather) {
    auto [size, transport] = GetParam();
    run_threads(size, transport, [](uint32_t rank, gcoll_context *context) {
        int turn = 0;
        for (const Counts &counts : blocks(gcoll_context_size(context)))
            for (const std::string &text : texts_of("allgather"))
                for (const bool in_place : {false, true}) {
                    const Form form = static_cast<Form>(turn++ % 3);
                    const gcoll_collective_options options = with(text);
                    const std::vector<T> mine = values(rank, counts[rank]);
                    List out(counts);
                    std::vector<T> single(sum_of(counts));
                    std::copy(mine.begin(), mine.end(), out.begin(rank));
                    const void *in = in_place ? out.out()[rank] : mine.data();
                    const gcoll_status status =
                        rank == 1 ? CALL(form, allgather_v, context, mine.data(), single.data(),
                                         counts.data(), GCOLL_INT32, &options)
                                  : CALL(form, allgather_list, context, in, out.out(), counts.data(),
                                         GCOLL_INT32, &options);
                    if (!is_served(status, text))
                        continue;
                    EXPECT_TRUE((rank == 1 ? single : out.vector()) == gathered(counts)) << text;
                    EXPECT_TRUE(out.is_guarded());
                }
    });
}

TEST_P(Lists, ReduceScatter) {
    auto [size, transport] = GetParam();
    run_threads(size, transport, [](uint32_t rank, gcoll_context *context) {
        const uint32_t ranks = gcoll_context_size(context);
        int turn = 0;
        for (const Counts &counts : blocks(ranks))
            for (const std::string &text : texts_of("reduce_scatter"))
                for (const bool in_place : {false, true}) {
                    const Form form =
                        in_place ? static_cast<Form>(turn++ % 2) : static_cast<Form>(turn++ % 3);
                    const gcoll_collective_options options = with(text);
                    const std::vector<T> mine = values(rank, sum_of(counts));
                    List in(counts);
                    in.set(mine);
                    std::vector<T> out(counts[rank], -1);
                    T *to = in_place ? in.begin(rank) : out.data();
                    if (counts[rank] == 0 && in_place)
                        to = nullptr;
                    const gcoll_status status = CALL(form, reduce_scatter_list, context, in.in(), to,
                                                     counts.data(), GCOLL_INT32, GCOLL_SUM, &options);
                    if (!is_served(status, text))
                        continue;
                    const std::vector<T> want = slice(reduced(ranks, mine.size(), GCOLL_SUM), counts, rank);
                    EXPECT_TRUE(in_place ? std::equal(want.begin(), want.end(), in.begin(rank)) : out == want)
                        << text;
                    for (uint32_t r = 0; r < ranks; r++)
                        EXPECT_TRUE((in_place && r == rank) ||
                                    slice(in.vector(), counts, r) == slice(mine, counts, r));
                    EXPECT_TRUE(in.is_guarded());
                }
    });
}

TEST_P(Lists, Alltoall) {
    auto [size, transport] = GetParam();
    run_threads(size, transport, [](uint32_t rank, gcoll_context *context) {
        const uint32_t ranks = gcoll_context_size(context);
        int turn = 0;
        const auto between = [](uint64_t kind, uint32_t from, uint32_t to) {
            return kind == 0 ? uint64_t{5} : (from * 3 + to * 5) % 7 * kind;
        };
        for (const uint64_t kind : {uint64_t{0}, uint64_t{1}, uint64_t{400}})
            for (const std::string &text : texts_of("alltoall")) {
                const Form form = static_cast<Form>(turn++ % 3);
                const gcoll_collective_options options = with(text);
                Counts sent, received;
                std::vector<T> want;
                for (uint32_t peer = 0; peer < ranks; peer++) {
                    sent.push_back(between(kind, rank, peer));
                    received.push_back(between(kind, peer, rank));
                    Counts theirs;
                    for (uint32_t to = 0; to < ranks; to++)
                        theirs.push_back(between(kind, peer, to));
                    const std::vector<T> block = slice(values(peer, sum_of(theirs)), theirs, rank);
                    want.insert(want.end(), block.begin(), block.end());
                }
                List in(sent), out(received);
                in.set(values(rank, sum_of(sent)));
                if (is_served(CALL(form, alltoall_list, context, in.in(), out.out(), sent.data(),
                                   received.data(), GCOLL_INT32, &options),
                              text))
                    EXPECT_TRUE(out.vector() == want) << text << ", kind " << kind;
                EXPECT_TRUE(in.is_guarded() && out.is_guarded());
            }
    });
}

// By a struct, also gather and scatter, equal blocks, and a list on one side only.
TEST_P(Lists, ByAStruct) {
    auto [size, transport] = GetParam();
    run_threads(size, transport, [](uint32_t rank, gcoll_context *context) {
        const uint32_t ranks = gcoll_context_size(context), root = ranks - 1;
        const uint64_t n = 50;
        const Counts equal(ranks, n);
        for (const bool by_counts : {false, true}) {
            gcoll_collective_call call;
            gcoll_collective_call_init(&call);
            call.type = GCOLL_INT32;
            call.root = root;
            call.count = by_counts ? 0 : n;
            call.counts = by_counts ? equal.data() : nullptr;
            const std::vector<T> mine = values(rank, n), whole = values(rank, n * ranks);

            gcoll_collective_call gather = call;
            gather.collective = GCOLL_GATHER;
            List gathered_list(equal);
            gather.input = mine.data();
            gather.outputs = rank == root ? gathered_list.out() : nullptr;
            EXPECT_GCOLL_OK(gcoll_call_run(context, &gather));
            if (rank == root)
                EXPECT_TRUE(gathered_list.vector() == gathered(equal));

            gcoll_collective_call scatter = call;
            scatter.collective = GCOLL_SCATTER;
            List source(equal);
            source.set(whole);
            std::vector<T> out(n);
            scatter.inputs = rank == root ? source.in() : nullptr;
            scatter.output = rank == root ? source.begin(root) : out.data(); // in place at the root
            EXPECT_GCOLL_OK(gcoll_call_run(context, &scatter));
            EXPECT_TRUE(rank == root ? source.vector() == whole
                                     : out == slice(values(root, n * ranks), equal, rank));

            gcoll_collective_call alltoall = call;
            alltoall.collective = GCOLL_ALLTOALL;
            alltoall.recv_counts = call.counts;
            List to(equal);
            alltoall.input = whole.data();
            alltoall.outputs = to.out();
            EXPECT_GCOLL_OK(gcoll_call_run(context, &alltoall));
            for (uint32_t peer = 0; peer < ranks; peer++)
                EXPECT_TRUE(slice(to.vector(), equal, peer) == slice(values(peer, n * ranks), equal, rank));

            gcoll_collective_call allreduce = call;
            allreduce.collective = GCOLL_ALLREDUCE;
            allreduce.count = 0;
            allreduce.counts = equal.data();
            allreduce.entries = ranks;
            allreduce.outputs = source.out();
            source.set(whole);
            EXPECT_GCOLL_OK(gcoll_call_run(context, &allreduce));
            EXPECT_TRUE(source.vector() == reduced(ranks, n * ranks, GCOLL_SUM));
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Some, Lists, testing::Combine(testing::Values(1u, 2u, 3u, 5u, 8u), transports()),
                         place_name);

// ---- Errors ---------------------------------------------------------------------------------------------

// In every form, the call is refused and the context goes on.
TEST(ListErrors, NameTheEntry) {
    run_threads(
        1, "inproc",
        [](uint32_t, gcoll_context *context) {
            T memory[16] = {};
            const uint64_t counts[] = {2, 3, 4};
            void *fine[] = {memory, memory + 2, memory + 5}, *missing[] = {memory, nullptr, memory + 5};
            void *odd[] = {memory, reinterpret_cast<char *>(memory) + 9, memory + 5};
            void *overlapping[] = {memory, memory + 1, memory + 5},
                 *other[] = {memory + 9, memory + 2, memory + 12};
            const auto refused = [&](const void *const *in, void *const *out, const uint64_t *n,
                                     uint32_t entries, const gcoll_allreduce_options *options,
                                     const char *text) {
                for (const Form form : {kBlocking, kStarted, kPersistent}) {
                    EXPECT_EQ(CALL(form, allreduce_list, context, in, out, n, entries, GCOLL_INT32, GCOLL_SUM,
                                   options),
                              GCOLL_ERR_INVALID);
                    EXPECT_NE(std::string(gcoll_last_error()).find(text), std::string::npos)
                        << gcoll_last_error();
                }
            };
            refused(nullptr, nullptr, counts, 3, nullptr, "outputs: is NULL");
            refused(nullptr, fine, nullptr, 3, nullptr, "counts: is NULL");
            refused(nullptr, missing, counts, 3, nullptr, "outputs[1]: is NULL");
            refused(missing, other, counts, 3, nullptr, "inputs[1]: is NULL");
            refused(nullptr, odd, counts, 3, nullptr, "outputs[1]: ");
            refused(nullptr, overlapping, counts, 3, nullptr, "two of them overlap");
            refused(other, fine, counts, 3, nullptr, "two of them overlap"); // in place in one of them
            refused(nullptr, fine, counts, GCOLL_MAX_LIST + 1, nullptr,
                    "entries: is 65537; allowed are 0 to 65536");
            const uint64_t large[] = {2, UINT64_MAX, 4};
            refused(nullptr, fine, large, 3, nullptr, "counts[1]: is 18446744073709551615");
            const uint64_t too_many[] = {2, UINT64_MAX / 4, 4};
            refused(nullptr, fine, too_many, 3, nullptr, "exceed the address space");
            gcoll_allreduce_options options = by(nullptr);
            options.buffers = 1;
            refused(nullptr, fine, counts, 3, &options, "options.buffers: is 1, but the call has a list");
            EXPECT_GCOLL_OK(
                gcoll_allreduce_list(context, nullptr, fine, counts, 3, GCOLL_INT32, GCOLL_SUM, nullptr));

            EXPECT_EQ(gcoll_allgather_list(context, memory, nullptr, counts, GCOLL_INT32, nullptr),
                      GCOLL_ERR_INVALID);
            EXPECT_STREQ(gcoll_last_error(), "outputs: is NULL");
            EXPECT_EQ(
                gcoll_reduce_scatter_list(context, nullptr, memory, counts, GCOLL_INT32, GCOLL_SUM, nullptr),
                GCOLL_ERR_INVALID);
            EXPECT_STREQ(gcoll_last_error(), "inputs: is NULL");
            EXPECT_EQ(gcoll_alltoall_list(context, fine, fine, counts, counts, GCOLL_INT32, nullptr),
                      GCOLL_ERR_INVALID);
            EXPECT_NE(std::string(gcoll_last_error()).find("overlap"), std::string::npos)
                << gcoll_last_error();
        });
}

TEST(ListErrors, NameTheFieldOfAStruct) {
    run_threads(
        1, "inproc",
        [](uint32_t, gcoll_context *context) {
            T memory[4] = {};
            void *list[] = {memory};
            const uint64_t counts[] = {1};
            gcoll_collective_call call;
            const auto refused = [&](const char *text) {
                EXPECT_EQ(gcoll_call_run(context, &call), GCOLL_ERR_INVALID);
                EXPECT_NE(std::string(gcoll_last_error()).find(text), std::string::npos)
                    << gcoll_last_error();
            };
            gcoll_collective_call_init(&call);
            call.collective = GCOLL_BROADCAST;
            call.type = GCOLL_INT32;
            call.outputs = list;
            refused("call.outputs: is set, but broadcast has no use for it");
            call.collective = GCOLL_ALLGATHER;
            call.inputs = list;
            refused("call.inputs: is set, but allgather has no use for it");
            call.inputs = nullptr;
            call.entries = 1;
            refused("call.entries: is set, but allgather has no use for it");
            call.entries = 0;
            call.output = memory;
            refused("call.output: is set beside a list of buffers");
            call.collective = GCOLL_ALLREDUCE;
            call.output = nullptr;
            call.entries = 1;
            call.count = 1;
            call.counts = counts;
            refused("call.count: is 1 beside call.counts");
            call.count = 0;
            EXPECT_GCOLL_OK(gcoll_call_run(context, &call));
            call.outputs = nullptr;
            refused("outputs: is NULL");
            // A struct of a caller that does not know these fields.
            call.struct_size = offsetof(gcoll_collective_call, inputs);
            call.counts = nullptr;
            call.output = memory;
            call.count = 1;
            EXPECT_GCOLL_OK(gcoll_call_run(context, &call));
        });
}

} // namespace
