// test/plan/verify_mutants.cc - see verify_mutants.h.
#include "test/plan/verify_mutants.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "test/plan/verify_grid.h"

namespace verify_test {
namespace {

bool is_recv(const gcoll_step &s) {
    return s.kind == GCOLL_STEP_RECV || s.kind == GCOLL_STEP_RECV_REDUCE;
}

bool is_message(const gcoll_step &s) {
    return s.kind == GCOLL_STEP_SEND || is_recv(s);
}

// The places that a step names.
std::vector<gcoll_ref *> refs(gcoll_step &s) {
    std::vector<gcoll_ref *> made;
    if (s.count == 0)
        return made;
    if (s.kind != GCOLL_STEP_SEND)
        made.push_back(&s.dst);
    if (s.kind != GCOLL_STEP_RECV && s.kind != GCOLL_STEP_DIVIDE)
        made.push_back(&s.a);
    if (s.kind == GCOLL_STEP_REDUCE)
        made.push_back(&s.b);
    return made;
}

uint32_t partner_of(const Job &job, uint32_t rank, uint32_t i) {
    const gcoll_step &s = job[rank].steps[i];
    const std::vector<gcoll_step> &others = job[s.peer].steps;
    uint32_t j = 0;
    while (!(is_message(others[j]) && is_recv(others[j]) != is_recv(s) && others[j].peer == rank &&
             others[j].message == s.message))
        j++;
    return j;
}

// From the memory of a device to the host's, or back.
bool crosses(const Plan &plan, const gcoll_step &s) {
    return s.kind == GCOLL_STEP_COPY && s.count > 0 &&
           (plan.memory(s.a) == GCOLL_HOST_MEMORY) != (plan.memory(s.dst) == GCOLL_HOST_MEMORY);
}

class Mutants {
  public:
    explicit Mutants(const Job &job) : job_(job) {}

    void run() {
        ASSERT_EQ(judge(job_), "");
        for (uint32_t r = 0; r < job_.size() && !failed(); r++) {
            for (uint32_t i = 0; i < job_[r].steps.size() && !failed(); i++)
                spoil_step(r, i);
            spoil_plan(r);
            spoil_memories(r);
        }
        spoil_rounds();
        spoil_problems();
    }

    Tallies tallies;

  private:
    static bool failed() { return ::testing::Test::HasFailure(); }

    // What the verifier says, held against the oracle.
    static std::string judge(const Job &job) {
        gcoll_verify_report report;
        const std::string text = verdict(job, &report);
        if (text.empty())
            judge_accepted(job, report);
        else
            EXPECT_TRUE(confirmed(job, text)) << text;
        return text;
    }

    static bool confirmed(const Job &job, const std::string &text) {
        auto says = [&](const char *part) { return text.find(part) != std::string::npos; };
        if (says("cannot reach") || says("is done by a device") || says("does not say they can"))
            return strays(job);
        if (says("once is enough"))
            return crosses_twice(job);
        if (says("deadlock"))
            return execute(job, 1, Buffering::none).deadlock;
        if (says("races with"))
            return has_race(job);
        if (says("may leave the barrier"))
            return !barrier_holds(job);
        if (says("holds no data")) // of use or not
            return execute(job, 2, Buffering::none).read_rubbish;
        if (!says("in the end") && !says("comes in twice") && !says("combines element") &&
            !says("divides a value") && !says("divides a sum"))
            return true; // structure and messages: nothing that could be run
        const Outcome outcome = execute(job, 2, Buffering::none);
        if (says("comes in twice"))
            return outcome.reduced_twice || !outcome.right;
        if (says("combines element"))
            return outcome.misplaced || !outcome.right;
        if (says("divides a sum"))
            return outcome.divided_early || !outcome.right;
        return !outcome.right;
    }

    static void judge_accepted(const Job &job, const gcoll_verify_report &report) {
        EXPECT_FALSE(has_race(job));
        EXPECT_FALSE(strays(job));
        EXPECT_FALSE(crosses_twice(job));
        for (uint32_t seed = 0; seed < 6; seed++) {
            Outcome outcome = execute(job, seed, static_cast<Buffering>(seed % 3));
            EXPECT_FALSE(outcome.deadlock);
            EXPECT_TRUE(outcome.right);
            EXPECT_FALSE(outcome.read_rubbish);
            EXPECT_EQ(outcome.rank_identical, (report.claims & GCOLL_CLAIM_RANK_IDENTICAL) != 0);
            EXPECT_EQ(outcome.ordered, (report.claims & GCOLL_CLAIM_ORDERED) != 0);
            EXPECT_EQ(outcome.pairs, (report.claims & GCOLL_CLAIM_PAIRS) != 0);
            EXPECT_EQ(outcome.left, (report.claims & GCOLL_CLAIM_LEFT) != 0);
        }
        if (job[0].problem.collective == GCOLL_BARRIER)
            EXPECT_TRUE(barrier_holds(job));
    }

    std::string consider(const std::string &kind, const Job &mutant) {
        SCOPED_TRACE(kind);
        std::string text = judge(mutant);
        (text.empty() ? tallies[kind].equivalent : tallies[kind].caught)++;
        return text;
    }

    void must_be_caught(const std::string &kind, const Job &mutant) {
        EXPECT_NE(consider(kind, mutant), "") << kind;
    }

    // Calls change(step) on a copy.
    template <class Change> void one_side(const std::string &kind, uint32_t r, uint32_t i, Change change) {
        Job mutant = job_;
        change(mutant[r].steps[i]);
        consider(kind, mutant);
    }

    // The same on both sides of a message.
    template <class Change> void both_sides(const std::string &kind, uint32_t r, uint32_t i, Change change) {
        Job mutant = job_;
        change(mutant[r].steps[i]);
        change(mutant[job_[r].steps[i].peer].steps[partner_of(job_, r, i)]);
        consider(kind, mutant);
    }

    void spoil_step(uint32_t r, uint32_t i) {
        SCOPED_TRACE("rank " + std::to_string(r) + ", step " + std::to_string(i));
        const gcoll_step &s = job_[r].steps[i];
        Job mutant = job_;
        mutant[r].drop(i);
        const char *kind = s.kind == GCOLL_STEP_DIVIDE ? "drop a divide"
                           : crosses(job_[r], s)       ? "drop a copy"
                                                       : "drop a step";
        if (consider(kind, mutant)
                .empty()) // a fence, or a sum of a regular pattern that nobody needs here: the
            return;       // oracle agrees, and what becomes of it is of no interest
        spoil_ranges(r, i);
        spoil_places(r, i);
        spoil_edges(r, i);
        if (is_message(s))
            spoil_message(r, i);
        if (s.kind == GCOLL_STEP_REDUCE || s.kind == GCOLL_STEP_RECV_REDUCE)
            spoil_reduction(r, i);
        if (s.kind == GCOLL_STEP_DIVIDE || s.kind == GCOLL_STEP_COPY) {
            mutant = job_;
            mutant[r].insert_after(i, s);
            consider(s.kind == GCOLL_STEP_DIVIDE ? "divide twice" : "copy twice", mutant);
        }
        if (s.kind == GCOLL_STEP_FOLD)
            spoil_fold(r, i);
        if (i + 1 < job_[r].steps.size())
            swap_neighbours(r, i);
    }

    void spoil_ranges(uint32_t r, uint32_t i) {
        const gcoll_step &s = job_[r].steps[i];
        one_side("lengthen", r, i, [](gcoll_step &x) { x.count++; });
        if (s.count == 0)
            return;
        one_side("shorten", r, i, [](gcoll_step &x) { x.count--; });
        Job copy = job_;
        for (size_t k = 0; k < refs(copy[r].steps[i]).size(); k++)
            for (uint64_t by : {uint64_t{1}, UINT64_MAX})
                one_side("shift", r, i, [&](gcoll_step &x) { refs(x)[k]->offset += by; });
        for (uint64_t by : {uint64_t{1}, UINT64_MAX})
            one_side("shift all", r, i, [&](gcoll_step &x) {
                for (gcoll_ref *ref : refs(x))
                    ref->offset += by;
            });
    }

    void spoil_places(uint32_t r, uint32_t i) {
        Job copy = job_;
        for (size_t k = 0; k < refs(copy[r].steps[i]).size(); k++)
            for (uint16_t space : {GCOLL_IN, GCOLL_OUT, GCOLL_SCRATCH})
                for (uint16_t index = 0; index < job_[r].problem.buffers; index++)
                    change_place(r, i, k, space, index);
    }

    void change_place(uint32_t r, uint32_t i, size_t k, uint16_t space, uint16_t index) {
        Job mutant = job_;
        const gcoll_step &s = job_[r].steps[i];
        gcoll_ref &ref = *refs(mutant[r].steps[i])[k];
        if (ref.space == space && ref.index == index)
            return;
        ref.space = space;
        ref.index = index;
        const bool by_host = is_message(s) || s.kind == GCOLL_STEP_REDUCE;
        if (by_host && job_[r].memory(ref) != GCOLL_HOST_MEMORY)
            must_be_caught("host step on a device", mutant);
        else
            consider(k == 0 && s.kind != GCOLL_STEP_SEND ? "change dst" : "change operand", mutant);
    }

    // Operands one less, one twice, another buffer's, in another order, on another device.
    void spoil_fold(uint32_t r, uint32_t i) {
        const std::vector<uint16_t> operands = job_[r].operands_of(job_[r].steps[i]);
        auto with = [&](const std::vector<uint16_t> &changed) {
            Job mutant = job_;
            mutant[r].set_operands(i, changed);
            return mutant;
        };
        for (size_t k = 0; k < operands.size(); k++) {
            std::vector<uint16_t> changed = operands;
            changed.erase(changed.begin() + static_cast<long>(k));
            must_be_caught("drop an operand", with(changed));
            changed = operands;
            changed.push_back(operands[k]);
            must_be_caught("fold an operand twice", with(changed));
            for (uint16_t index = 0; index <= job_[r].problem.buffers; index++) {
                changed = operands;
                changed[k] = index;
                if (index != operands[k])
                    must_be_caught("fold another buffer", with(changed));
            }
            changed = operands;
            std::swap(changed[k], changed.front());
            consider("swap operands of a fold", with(changed));
        }
    }

    // The plans are for buffers in other memories than they lie in.
    void spoil_memories(uint32_t r) {
        for (std::vector<uint32_t> Plan::*list : {&Plan::in_memory, &Plan::out_memory})
            for (size_t k = 0; k < (job_[r].*list).size(); k++)
                for (uint32_t memory : {GCOLL_HOST_MEMORY, GCOLL_DEVICE_MEMORY(0), GCOLL_DEVICE_MEMORY(5)}) {
                    Job mutant = job_;
                    (mutant[r].*list)[k] = memory;
                    if (memory != (job_[r].*list)[k])
                        consider("move a buffer", mutant);
                }
    }

    void spoil_edges(uint32_t r, uint32_t i) {
        for (size_t k = 0; k < job_[r].next[i].size(); k++) {
            Job mutant = job_;
            uint32_t to = job_[r].next[i][k];
            mutant[r].next[i].erase(mutant[r].next[i].begin() + static_cast<long>(k));
            if (mutant[r].closure()[i][to])
                EXPECT_EQ(consider("drop an implied edge", mutant), "");
            else if (crosses(job_[r], job_[r].steps[i]) || crosses(job_[r], job_[r].steps[to]))
                consider("drop an edge of a copy", mutant);
            else
                consider("drop an edge", mutant);
        }
    }

    void spoil_message(uint32_t r, uint32_t i) {
        const gcoll_step &s = job_[r].steps[i];
        for (uint32_t peer = 0; peer <= job_.size(); peer++) {
            Job mutant = job_;
            mutant[r].steps[i].peer = peer;
            mutant[r].number_messages();
            if (peer != s.peer)
                must_be_caught("change the peer", mutant);
        }
        swap_with_next_message(r, i);
        if (s.kind != GCOLL_STEP_SEND)
            return;
        Job mutant = job_;
        mutant[s.peer].drop(partner_of(job_, r, i));
        mutant[r].drop(i);
        consider("drop a message", mutant);
        if (s.count == 0)
            return;
        both_sides("shorten a message", r, i, [](gcoll_step &x) { x.count--; });
        for (uint64_t by : {uint64_t{1}, UINT64_MAX})
            both_sides("shift a message", r, i, [&](gcoll_step &x) {
                for (gcoll_ref *ref : refs(x))
                    ref->offset += by;
            });
    }

    // Two messages of one direction between the same ranks change their order on one side.
    void swap_with_next_message(uint32_t r, uint32_t i) {
        std::vector<gcoll_step> steps = job_[r].steps;
        for (uint32_t j = i + 1; j < steps.size(); j++) {
            if (!is_message(steps[j]) || is_recv(steps[j]) != is_recv(steps[i]) ||
                steps[j].peer != steps[i].peer)
                continue;
            Job mutant = job_;
            gcoll_step &x = mutant[r].steps[i], &y = mutant[r].steps[j];
            std::swap(x, y);
            std::swap(x.round, y.round);
            std::swap(x.message, y.message);
            if (steps[i].count > 0)
                consider("swap two messages", mutant);
            return;
        }
    }

    void spoil_reduction(uint32_t r, uint32_t i) {
        const gcoll_step &s = job_[r].steps[i];
        gcoll_step again = s;
        again.kind = GCOLL_STEP_REDUCE;
        again.a = s.dst;
        again.b = s.kind == GCOLL_STEP_REDUCE ? s.b : s.a;
        Job mutant = job_;
        mutant[r].insert_after(i, again);
        must_be_caught("reduce twice", mutant);
        one_side("swap operands", r, i, [](gcoll_step &x) {
            std::swap(x.a, x.kind == GCOLL_STEP_REDUCE ? x.b : x.a);
            x.received_first = !x.received_first;
        });
        if (s.kind == GCOLL_STEP_RECV_REDUCE)
            one_side("receive without reducing", r, i, [](gcoll_step &x) { x.kind = GCOLL_STEP_RECV; });
        else
            one_side("copy in place of reducing", r, i, [](gcoll_step &x) { x.kind = GCOLL_STEP_COPY; });
    }

    // Two neighbours that do not depend on each other change places, with their messages' numbers.
    void swap_neighbours(uint32_t r, uint32_t i) {
        const auto &list = job_[r].next[i];
        if (std::find(list.begin(), list.end(), i + 1) != list.end())
            return;
        Job mutant = job_;
        Plan &plan = mutant[r];
        std::swap(plan.steps[i], plan.steps[i + 1]);
        std::swap(plan.steps[i].round, plan.steps[i + 1].round);
        std::swap(plan.next[i], plan.next[i + 1]);
        for (auto &next : plan.next)
            for (uint32_t &to : next)
                to = to == i ? i + 1 : to == i + 1 ? i : to;
        plan.number_messages();
        consider("swap neighbours", mutant);
    }

    void spoil_plan(uint32_t r) {
        Job mutant = job_;
        if (job_[r].scratch > 0) {
            mutant[r].scratch--;
            consider("take scratch away", mutant);
        }
        mutant = job_;
        mutant[r].divisor++;
        consider(job_[r].problem.average ? "change the divisor" : "change a divisor that is not used",
                 mutant);
        for (uint32_t window : {0u, 1u}) {
            mutant = job_;
            mutant[r].window = window;
            consider("narrow one window", mutant);
        }
    }

    void spoil_rounds() {
        for (uint32_t window : {0u, 1u, 2u, GCOLL_WINDOW_UNBOUNDED}) {
            Job mutant = job_;
            for (Plan &plan : mutant)
                plan.window = window;
            consider("set all windows", mutant);
            for (Plan &plan : mutant)
                for (uint32_t i = 0; i < plan.steps.size(); i++)
                    plan.steps[i].round = i; // one after the other
            consider("a round for each step", mutant);
            for (uint32_t i = 0; i < mutant[0].steps.size(); i++)
                mutant[0].steps[i].round = 0;
            consider("rank 0 all in one round", mutant);
        }
    }

    // The plans are for another root, or other blocks, than all of them say.
    void spoil_problems() {
        const gcoll_problem &p = job_[0].problem;
        Job mutant = job_;
        for (Plan &plan : mutant)
            plan.problem.root = (p.root + 1) % p.size;
        if (verify_grid::has_root(p.collective))
            consider("change the root", mutant);
        mutant = job_;
        for (Plan &plan : mutant)
            plan.problem.exchanges = gcoll_problem_exchanges(&p) + 1;
        if (p.collective == GCOLL_PAIRWISE_EXCHANGE)
            consider("change the exchanges", mutant);
        for (uint32_t r = 1; r < p.size && verify_grid::has_blocks(p.collective); r++) {
            std::vector<uint64_t> offsets;
            for (uint32_t i = 0; i <= p.size; i++)
                offsets.push_back(gcoll_block_begin(&p, i));
            offsets[r] += offsets[r] < offsets[r + 1] ? 1 : 0;
            mutant = job_;
            for (Plan &plan : mutant)
                plan.problem.offsets = offsets.data();
            consider("move a block's begin", mutant);
        }
    }

    const Job job_;
};

} // namespace

Tallies spoil(const Job &job) {
    Mutants mutants(job);
    mutants.run();
    return mutants.tallies;
}

} // namespace verify_test
