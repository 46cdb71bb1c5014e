// The verifier on plans whose messages are encoded: it proves every algorithm that takes a codec over a grid,
// and catches mutations. A mutant that it accepts is run on numbers: all ranks must get the same bits, close
// to the exact sums.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "test/plan/verify_grid.h"

extern "C" {
#include "gcoll/plan/steps.h"
}

namespace {

using verify_grid::Operation;
using verify_grid::Place;

gcoll_codec codec_of(const char *text) {
    gcoll_codec codec;
    EXPECT_EQ(GCOLL_OK, gcoll_codec_parse(text, &codec)) << gcoll_last_error();
    return codec;
}

// The plans of all ranks, which a test may change.
class Job {
  public:
    Job(const gcoll_algorithm &algorithm, const Operation &operation) {
        for (uint32_t rank = 0; rank < operation.problem.size; rank++) {
            gcoll_plan *plan = nullptr;
            const gcoll_problem problem = operation.of(rank);
            EXPECT_EQ(GCOLL_OK, gcoll_plan_create(&algorithm, &problem, &plan)) << gcoll_last_error();
            plans_.push_back(plan);
        }
    }
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;
    ~Job() {
        for (gcoll_plan *plan : plans_)
            gcoll_plan_destroy(plan);
    }
    uint32_t size() const { return static_cast<uint32_t>(plans_.size()); }
    gcoll_plan &operator[](uint32_t rank) { return *plans_[rank]; }
    gcoll_status verify(gcoll_verify_report *report = nullptr) const {
        return gcoll_verify(plans_.data(), size(), report);
    }

  private:
    std::vector<gcoll_plan *> plans_;
};

std::vector<const gcoll_algorithm *> with_codecs(gcoll_collective collective) {
    std::vector<const gcoll_algorithm *> found;
    const gcoll_algorithm *a;
    for (uint32_t i = 0; (a = gcoll_registry_at(nullptr, collective, i)); i++)
        if (a->takes_codec)
            found.push_back(a);
    return found;
}

const gcoll_collective kCollectives[] = {GCOLL_ALLREDUCE, GCOLL_REDUCE_SCATTER, GCOLL_ALLGATHER,
                                         GCOLL_BROADCAST};

// ---- The grid
// ----------------------------------------------------------------------------------------------

void prove(const gcoll_algorithm &algorithm, const Operation &operation) {
    const gcoll_problem &p = operation.problem;
    Job job(algorithm, operation);
    gcoll_verify_report report = {};
    ASSERT_EQ(GCOLL_OK, job.verify(&report)) << gcoll_last_error();
    const gcoll_problem first = operation.of(0);
    const uint32_t claims = gcoll_algorithm_claims(&algorithm, &first);
    EXPECT_EQ(0u, claims & ~report.claims);
    EXPECT_NE(0u, report.claims & GCOLL_CLAIM_RANK_IDENTICAL);
    if (p.size == 1 || p.count == 0)
        EXPECT_EQ(0u, report.encodings);
    else if (!gcoll_collective_reduces(p.collective))
        EXPECT_EQ(1u, report.encodings);
    else // at most once a rank, as docs/codecs.md says
        EXPECT_TRUE(report.encodings >= 1 && report.encodings <= p.size)
            << report.encodings << " of " << p.size;
}

class CodecGrid : public ::testing::TestWithParam<uint32_t> {};

TEST_P(CodecGrid, EveryAlgorithmGivesAllRanksTheSame) {
    const uint32_t size = GetParam();
    uint64_t proved = 0;
    for (const gcoll_collective collective : kCollectives)
        for (const gcoll_algorithm *algorithm : with_codecs(collective))
            for (const char *codec : {"bf16", "fp16:seed=1", "int8:block=8", "fp8:block=16,seed=2"})
                for (const std::vector<int64_t> &setting : verify_grid::settings(*algorithm, size))
                    for (uint64_t count : {0, 1, 37, 200})
                        for (int variant = 0; variant < 4; variant++) {
                            Operation operation(collective, size, count);
                            gcoll_problem &p = operation.problem;
                            p.codec = codec_of(codec);
                            std::copy(setting.begin(), setting.end(), p.option);
                            operation.place = variant % 2    ? Place::in_place
                                              : variant == 2 ? Place::mixed
                                                             : Place::apart;
                            p.segment = variant == 1 ? 11 : 0;
                            p.average = variant == 3 && gcoll_collective_reduces(collective);
                            p.buffers = variant == 2 && verify_grid::has_buffers(collective) ? 2 : 1;
                            p.root = verify_grid::has_root(collective) ? (size - 1) / 2 : 0;
                            if (verify_grid::has_blocks(collective) && variant > 1)
                                for (uint32_t r = 0; r < size; r++)
                                    operation.blocks.push_back(count == 0 ? 0 : (r * 29 + 3 * count) % 43);
                            operation.use_blocks();
                            const gcoll_problem first = operation.of(0);
                            if (algorithm->applies && algorithm->applies(&first) != GCOLL_OK)
                                continue;
                            SCOPED_TRACE(operation.describe(*algorithm) + " codec=" + codec);
                            prove(*algorithm, operation);
                            proved++;
                            if (HasFailure())
                                return;
                        }
    EXPECT_GT(proved, 1000u);
}

INSTANTIATE_TEST_SUITE_P(Sizes, CodecGrid, ::testing::Values(1u, 2u, 3u, 4u, 5u, 7u, 8u, 13u));

TEST(CodecPlans, AreRefusedWhereTheyCannotBe) {
    Operation operation(GCOLL_ALLREDUCE, 4, 100);
    operation.problem.codec = codec_of("int8");
    const gcoll_problem p = operation.of(0);
    gcoll_plan *plan = nullptr;
    const gcoll_algorithm *other = gcoll_registry_find(nullptr, GCOLL_ALLREDUCE, "recursive_doubling");
    EXPECT_EQ(GCOLL_ERR_UNSUPPORTED, gcoll_plan_create(other, &p, &plan));
    EXPECT_NE(nullptr, strstr(gcoll_last_error(), "codec: is int8, but recursive_doubling"));
    Operation reduce(GCOLL_REDUCE, 4, 100);
    reduce.problem.codec = operation.problem.codec;
    const gcoll_problem q = reduce.of(0);
    EXPECT_EQ(GCOLL_ERR_UNSUPPORTED,
              gcoll_plan_create(gcoll_registry_find(nullptr, GCOLL_REDUCE, "binomial"), &q, &plan));
    EXPECT_NE(nullptr, strstr(gcoll_last_error(), "codec: is int8 for reduce; allowed are allreduce"));
    Operation staged(GCOLL_ALLREDUCE, 4, 100);
    staged.problem.codec = operation.problem.codec;
    staged.use_layout(verify_grid::Layout::device);
    const gcoll_problem on_device = staged.of(0);
    EXPECT_EQ(GCOLL_ERR_UNSUPPORTED,
              gcoll_plan_create(gcoll_registry_find(nullptr, GCOLL_ALLREDUCE, "ring"), &on_device, &plan));
    EXPECT_NE(nullptr, strstr(gcoll_last_error(), "device memory"));
}

// Algorithms without the flag are those whose ranks would round each for itself: the verifier says so.
TEST(CodecPlans, OfRanksThatRoundForThemselvesAreCaught) {
    gcoll_algorithm row = *gcoll_registry_find(nullptr, GCOLL_ALLREDUCE, "recursive_doubling");
    row.takes_codec = true;
    for (const char *codec : {"bf16", "int8:block=8", "int8:block=8,seed=1"}) {
        Operation operation(GCOLL_ALLREDUCE, 4, 100);
        operation.problem.codec = codec_of(codec);
        Job job(row, operation);
        EXPECT_EQ(GCOLL_ERR_INVALID, job.verify()) << codec;
        EXPECT_NE(nullptr, strstr(gcoll_last_error(), "are rounded otherwise than on rank 0"))
            << gcoll_last_error();
    }
}

TEST(CodecPlans, MustAgreeOnTheCodec) {
    Operation operation(GCOLL_ALLREDUCE, 3, 100);
    operation.problem.codec = codec_of("int8:block=8");
    const gcoll_algorithm *ring = gcoll_registry_find(nullptr, GCOLL_ALLREDUCE, "ring");
    Job job(*ring, operation);
    job[1].problem.codec.seed = 1;
    EXPECT_EQ(GCOLL_ERR_INVALID, job.verify());
    EXPECT_NE(nullptr, strstr(gcoll_last_error(), "codec")) << gcoll_last_error();
}

// ---- Running on numbers ----------------------------------------------------------------------------------

// Runs the plans step by step in their order; messages are copied when they are sent.
class Machine {
  public:
    explicit Machine(Job &job) : job_(job) {
        for (uint32_t r = 0; r < job.size(); r++) {
            const gcoll_problem &p = job[r].problem;
            Memory m;
            m.in.resize(gcoll_problem_space_count(&p, GCOLL_IN));
            m.out.assign(gcoll_problem_space_count(&p, GCOLL_OUT), NAN);
            m.scratch.assign(job[r].scratch, NAN);
            for (size_t i = 0; i < m.in.size(); i++)
                m.in[i] = value(r, i);
            if (p.in_place)
                m.out = m.in;
            memories_.push_back(m);
        }
    }
    static float value(uint32_t rank, size_t i) {
        return (i % 11 == 3 ? 20.0f : 1.0f) * std::sin(static_cast<float>(rank * 91 + i * 7 + 1));
    }
    // False: it stands still.
    bool run() {
        std::vector<uint32_t> at(job_.size(), 0);
        std::map<std::vector<uint32_t>, std::vector<float>> sent;
        for (bool moved = true; moved;) {
            moved = false;
            for (uint32_t r = 0; r < job_.size(); r++)
                for (; at[r] < job_[r].step_count; at[r]++, moved = true) {
                    const gcoll_step &s = job_[r].steps[at[r]];
                    if (s.kind == GCOLL_STEP_SEND && s.count > 0) {
                        const float *from = place(r, s.a);
                        sent[{r, s.peer, s.message}] = {from, from + s.count};
                    } else if (gcoll_step_is_message(&s) && s.count > 0) {
                        const auto found = sent.find({s.peer, r, s.message});
                        if (found == sent.end())
                            break;
                        std::copy(found->second.begin(), found->second.end(), place(r, s.dst));
                    } else if (s.count > 0) {
                        local(r, s);
                    }
                }
        }
        for (uint32_t r = 0; r < job_.size(); r++)
            if (at[r] < job_[r].step_count)
                return false;
        return true;
    }
    const std::vector<float> &out(uint32_t rank) const { return memories_[rank].out; }

  private:
    struct Memory {
        std::vector<float> in, out, scratch;
    };
    float *place(uint32_t r, gcoll_ref ref) {
        Memory &m = memories_[r];
        std::vector<float> &of = ref.space == GCOLL_SCRATCH ? m.scratch
                                 : ref.space == GCOLL_IN    ? m.in
                                                            : m.out;
        return of.data() + ref.offset;
    }
    void local(uint32_t r, const gcoll_step &s) {
        const gcoll_codec &codec = job_[r].problem.codec;
        float *dst = place(r, s.dst);
        const float *a = place(r, s.a), *b = place(r, s.b);
        switch (s.kind) {
        case GCOLL_STEP_ENCODE:
            gcoll_codec_encode(&codec, dst, a, s.count, r * 1000 + at_++);
            break;
        case GCOLL_STEP_DECODE:
            gcoll_codec_decode(&codec, dst, a, s.count);
            break;
        case GCOLL_STEP_DECODE_REDUCE:
            gcoll_codec_decode_sum(&codec, dst, a, b, s.count);
            break;
        case GCOLL_STEP_REDUCE:
            for (uint64_t i = 0; i < s.count; i++)
                dst[i] = a[i] + b[i];
            break;
        case GCOLL_STEP_COPY:
            memmove(dst, a, s.count * sizeof(float));
            break;
        default:
            FAIL() << "kind " << static_cast<int>(s.kind);
        }
    }
    Job &job_;
    std::vector<Memory> memories_;
    uint64_t at_ = 0;
};

// Whether all ranks get the same bits, near the exact sums.
bool is_right(Job &job) {
    Machine machine(job);
    if (!machine.run())
        return false;
    for (uint32_t r = 0; r < job.size(); r++)
        for (size_t i = 0; i < machine.out(r).size(); i++) {
            double exact = 0;
            for (uint32_t k = 0; k < job.size(); k++)
                exact += static_cast<double>(Machine::value(k, i));
            const float got = machine.out(r)[i];
            if (memcmp(&got, &machine.out(0)[i], sizeof got) != 0 ||
                !(std::fabs(static_cast<double>(got) - exact) < 20.0 * job.size() * 0.3))
                return false;
        }
    return true;
}

// ---- Mutants
// -----------------------------------------------------------------------------------------------

struct Tally {
    int caught = 0, equivalent = 0;
};

class CodecMutants : public ::testing::TestWithParam<const char *> {
  protected:
    std::map<std::string, Tally> tallies_;

    // Judges the job after change(step) of one step, and takes the change back.
    template <class Change>
    bool consider(const std::string &kind, Job &job, uint32_t rank, uint32_t i, Change change) {
        gcoll_step &step = job[rank].steps[i];
        const gcoll_step before = step;
        change(step);
        const bool accepted = job.verify() == GCOLL_OK;
        if (accepted) {
            EXPECT_TRUE(is_right(job))
                << kind << ", rank " << rank << ", step " << i << ": accepted, but wrong";
            tallies_[kind].equivalent++;
        } else {
            tallies_[kind].caught++;
        }
        step = before;
        return !accepted;
    }

    // A step of no effect that keeps its edges.
    static void drop(gcoll_step &step) {
        step.kind = GCOLL_STEP_COPY;
        step.count = 0;
    }

    void spoil(Job &job, uint32_t rank, uint32_t i) {
        const gcoll_step s = job[rank].steps[i];
        if (s.count == 0)
            return;
        if (gcoll_step_is_codec(&s)) {
            consider("drop", job, rank, i, drop);
            consider(
                "other kind", job, rank, i,
                [](gcoll_step &x) {
                    x.kind = x.kind == GCOLL_STEP_DECODE_REDUCE ? static_cast<uint8_t>(GCOLL_STEP_REDUCE)
                                                                : static_cast<uint8_t>(GCOLL_STEP_COPY);
                });
            consider(
                "encode in place of decode", job, rank, i,
                [](gcoll_step &x) {
                    x.kind = x.kind == GCOLL_STEP_ENCODE ? static_cast<uint8_t>(GCOLL_STEP_DECODE)
                                                         : static_cast<uint8_t>(GCOLL_STEP_ENCODE);
                });
            consider(
                "one element less", job, rank, i, [](gcoll_step &x) { x.count--; });
            consider(
                "one element more", job, rank, i, [](gcoll_step &x) { x.count++; });
            consider(
                "moved result", job, rank, i, [](gcoll_step &x) { x.dst.offset++; });
            consider("moved source", job, rank, i, [](gcoll_step &x) { x.a.offset++; });
            if (s.a.offset > 0)
                consider("source before", job, rank, i, [](gcoll_step &x) { x.a.offset--; });
            if (s.kind == GCOLL_STEP_DECODE_REDUCE) {
                consider(
                    "moved words", job, rank, i, [](gcoll_step &x) { x.b.offset++; });
                consider("operands swapped", job, rank, i,
                         [](gcoll_step &x) { x.received_first = !x.received_first; });
            }
        } else if (s.kind == GCOLL_STEP_SEND) {
            consider(
                "sends other words", job, rank, i, [](gcoll_step &x) { x.a.offset++; });
            consider("sends the elements", job, rank, i, [](gcoll_step &x) { x.a = gcoll_out(0, 0); });
        } else if (s.kind == GCOLL_STEP_RECV) {
            consider(
                "receives elsewhere", job, rank, i, [](gcoll_step &x) { x.dst.offset++; });
            consider("receives to the result", job, rank, i, [](gcoll_step &x) { x.dst = gcoll_out(0, 0); });
        }
        const uint32_t edges = job[rank].steps[i].successors;
        if (edges > 0) // the last edge away
            consider("no edge", job, rank, i, [&](gcoll_step &x) { x.successors--; });
    }
};

TEST_P(CodecMutants, AreCaught) {
    for (const char *name : {"ring", "halving_doubling", "tree_pipelined", "linear"})
        for (uint32_t size : {2u, 3u, 4u}) {
            Operation operation(GCOLL_ALLREDUCE, size, 45);
            operation.problem.codec = codec_of(GetParam());
            Job job(*gcoll_registry_find(nullptr, GCOLL_ALLREDUCE, name), operation);
            SCOPED_TRACE(std::string(name) + " of " + std::to_string(size));
            ASSERT_EQ(GCOLL_OK, job.verify()) << gcoll_last_error();
            ASSERT_TRUE(is_right(job));
            for (uint32_t r = 0; r < size; r++)
                for (uint32_t i = 0; i < job[r].step_count; i++)
                    spoil(job, r, i);
        }
    for (const auto &[kind, tally] : tallies_) {
        if (kind != "operands swapped") // sums commute
            EXPECT_GT(tally.caught, 0) << kind;
        if (kind != "operands swapped" && kind != "no edge") // where there is another path
            EXPECT_EQ(0, tally.equivalent) << kind;
    }
}

INSTANTIATE_TEST_SUITE_P(All, CodecMutants, ::testing::Values("bf16", "int8:block=8", "fp8:block=16,seed=4"));

// An owner that keeps its own sum, not what it sent; and one that encodes it twice, with two seeds.
TEST(CodecPlans, AnOwnerThatKeepsItsSumIsCaught) {
    Operation operation(GCOLL_ALLREDUCE, 3, 48);
    operation.problem.codec = codec_of("int8:block=8");
    Job job(*gcoll_registry_find(nullptr, GCOLL_ALLREDUCE, "ring"), operation);
    int dropped = 0;
    for (uint32_t i = 1; i < job[1].step_count; i++) {
        gcoll_step &s = job[1].steps[i];
        if (s.kind != GCOLL_STEP_DECODE || job[1].steps[i - 1].kind != GCOLL_STEP_ENCODE)
            continue;
        s.kind = GCOLL_STEP_COPY;
        s.count = 0;
        dropped++;
    }
    ASSERT_EQ(1, dropped);
    EXPECT_EQ(GCOLL_ERR_INVALID, job.verify());
    EXPECT_NE(nullptr, strstr(gcoll_last_error(), "are rounded otherwise than on rank 0"))
        << gcoll_last_error();
}

} // namespace
