// test/kit/plan_runner.h - runs the plans of all ranks on plain vectors, by the rules in gcoll/plan/steps.h
// and in the hardest order that they allow: a message moves only when both ends may start, and ready steps
// run in random order.
#ifndef GCOLL_TEST_PLAN_RUNNER_H
#define GCOLL_TEST_PLAN_RUNNER_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

extern "C" {
#include "algorithms/algorithms.h"
}

namespace gcoll_test {

struct PlanDeleter {
    void operator()(gcoll_plan *plan) const { gcoll_plan_destroy(plan); }
};
using Plan = std::unique_ptr<gcoll_plan, PlanDeleter>;

inline gcoll_problem Problem(gcoll_collective collective, uint32_t rank, uint32_t size, uint64_t count) {
    gcoll_problem problem{};
    problem.collective = collective;
    problem.rank = rank;
    problem.size = size;
    problem.count = count;
    problem.buffers = 1;
    return problem;
}

// Finds an algorithm by its name; without a collective, the first of that name.
inline const gcoll_algorithm *Algorithm(const std::string &name,
                                        gcoll_collective collective = GCOLL_COLLECTIVE_COUNT) {
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row; row++)
        if ((*row)->name == name &&
            (collective == GCOLL_COLLECTIVE_COUNT || (*row)->collective == collective))
            return *row;
    return nullptr;
}

inline void SetFallbacks(gcoll_problem *problem, const gcoll_algorithm *algorithm) {
    for (int i = 0; algorithm->options && algorithm->options[i].name; i++)
        problem->option[i] = algorithm->options[i].fallback;
}

// Creates one rank's plan. On failure there is a test failure, and the result is null.
inline Plan Create(const gcoll_algorithm &algorithm, const gcoll_problem &problem) {
    gcoll_plan *plan = nullptr;
    if (gcoll_plan_create(&algorithm, &problem, &plan) != GCOLL_OK)
        return nullptr;
    return Plan(plan);
}
inline Plan Create(const std::string &algorithm, const gcoll_problem &problem) {
    return Create(*Algorithm(algorithm, problem.collective), problem);
}

inline std::vector<Plan> CreateAll(const gcoll_algorithm &algorithm, gcoll_problem problem) {
    std::vector<Plan> plans;
    for (problem.rank = 0; problem.rank < problem.size; problem.rank++)
        plans.push_back(Create(algorithm, problem));
    return plans;
}
inline std::vector<Plan> CreateAll(const std::string &algorithm, const gcoll_problem &problem) {
    return CreateAll(*Algorithm(algorithm, problem.collective), problem);
}

template <class T> class Runner {
  public:
    using Buffer = std::vector<T>;
    std::function<T(const T &, const T &)> op;
    std::function<T(const T &, uint32_t)> divide;
    std::vector<std::vector<Buffer>> in, out; // [rank][buffer][element]
    std::string error;

    Runner(const std::vector<Plan> &all, uint32_t seed) : plans(all), random(seed) {
        for (const Plan &plan : plans) {
            in.emplace_back(plan->problem.buffers, Buffer(plan->problem.count));
            out.emplace_back(plan->problem.buffers, Buffer(plan->problem.count));
            scratch.emplace_back(plan->scratch);
            waits.emplace_back();
            for (uint32_t i = 0; i < plan->step_count; i++)
                waits.back().push_back(plan->steps[i].dependencies);
            done.emplace_back(plan->step_count, false);
        }
    }

    // Runs all plans. In place, inputs are read from `out`. An access of the host to a device's memory is an
    // error.
    bool Run() {
        std::vector<std::pair<uint32_t, uint32_t>> open; // rank, step
        for (uint32_t rank = 0; rank < plans.size(); rank++)
            for (uint32_t i = 0; i < plans[rank]->step_count; i++) {
                const gcoll_step &s = plans[rank]->steps[i];
                open.emplace_back(rank, i);
                if (s.count > 0 && Strays(rank, s))
                    error = "a step that reaches into the wrong memory";
                if (s.kind == GCOLL_STEP_RECV || s.kind == GCOLL_STEP_RECV_REDUCE)
                    receives[{s.peer, rank, s.message}] = i;
            }
        while (!open.empty()) {
            std::shuffle(open.begin(), open.end(), random);
            std::vector<std::pair<uint32_t, uint32_t>> left;
            for (auto [rank, i] : open)
                if (!done[rank][i])
                    Try(rank, i);
            for (auto [rank, i] : open)
                if (!done[rank][i])
                    left.emplace_back(rank, i);
            if (left.size() == open.size())
                error = "deadlock";
            if (!error.empty())
                return false;
            open = left;
        }
        return true;
    }

  private:
    const std::vector<Plan> &plans;
    std::mt19937 random;
    std::vector<Buffer> scratch;
    std::vector<std::vector<uint32_t>> waits;
    std::vector<std::vector<bool>> done;
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> receives; // from, to, message

    bool Ready(uint32_t rank, uint32_t i) const {
        const gcoll_plan &plan = *plans[rank];
        if (waits[rank][i] != 0)
            return false;
        if (plan.window == GCOLL_WINDOW_UNBOUNDED)
            return true;
        for (uint32_t k = 0; k < i; k++) // rounds never decrease
            if (!done[rank][k])
                return plan.steps[i].round - plan.steps[k].round <= plan.window;
        return true;
    }

    // Returns whether a step of the host names a device's memory, or a fold of a device names any other
    // memory.
    bool Strays(uint32_t rank, const gcoll_step &s) const {
        const gcoll_problem &p = plans[rank]->problem;
        const bool device = gcoll_problem_memory(&p, s.dst) != GCOLL_HOST_MEMORY;
        switch (s.kind) {
        case GCOLL_STEP_SEND:
            return gcoll_problem_memory(&p, s.a) != GCOLL_HOST_MEMORY;
        case GCOLL_STEP_RECV:
            return device;
        case GCOLL_STEP_RECV_REDUCE:
            return device || gcoll_problem_memory(&p, s.a) != GCOLL_HOST_MEMORY;
        case GCOLL_STEP_REDUCE:
            return device || gcoll_problem_memory(&p, s.a) != GCOLL_HOST_MEMORY ||
                   gcoll_problem_memory(&p, s.b) != GCOLL_HOST_MEMORY;
        case GCOLL_STEP_FOLD:
            for (uint32_t i = 0; i < s.operand_count; i++)
                if (gcoll_problem_memory(&p, Operand(rank, s, i)) == GCOLL_HOST_MEMORY)
                    return true;
            return !device;
        default:
            return false;
        }
    }

    gcoll_ref Operand(uint32_t rank, const gcoll_step &s, uint32_t i) const {
        gcoll_ref ref = s.a;
        ref.index = plans[rank]->operands[s.first_operand + i];
        return ref;
    }

    T Fold(uint32_t rank, const gcoll_step &s, uint64_t e) {
        T value = At(rank, Operand(rank, s, 0), e);
        for (uint32_t i = 1; i < s.operand_count; i++)
            value = op(value, At(rank, Operand(rank, s, i), e));
        return value;
    }

    T &At(uint32_t rank, gcoll_ref ref, uint64_t e) {
        if (ref.space == GCOLL_SCRATCH)
            return scratch[rank].at(ref.offset + e);
        bool input = ref.space == GCOLL_IN && !plans[rank]->problem.in_place;
        return (input ? in : out)[rank].at(ref.index).at(ref.offset + e);
    }

    void Finish(uint32_t rank, uint32_t i) {
        const gcoll_step &s = plans[rank]->steps[i];
        done[rank][i] = true;
        for (uint32_t k = 0; k < s.successors; k++)
            waits[rank][plans[rank]->successors[s.first_successor + k]]--;
    }

    void Try(uint32_t rank, uint32_t i) {
        const gcoll_step &s = plans[rank]->steps[i];
        if (s.kind == GCOLL_STEP_RECV || s.kind == GCOLL_STEP_RECV_REDUCE || !Ready(rank, i))
            return;
        if (s.kind == GCOLL_STEP_SEND) {
            Send(rank, i);
            return;
        }
        for (uint64_t e = 0; e < s.count; e++)
            if (s.kind == GCOLL_STEP_REDUCE)
                At(rank, s.dst, e) = op(At(rank, s.a, e), At(rank, s.b, e));
            else if (s.kind == GCOLL_STEP_COPY)
                At(rank, s.dst, e) = At(rank, s.a, e);
            else if (s.kind == GCOLL_STEP_FOLD)
                At(rank, s.dst, e) = Fold(rank, s, e);
            else
                At(rank, s.dst, e) = divide(At(rank, s.dst, e), plans[rank]->divisor);
        Finish(rank, i);
    }

    void Send(uint32_t rank, uint32_t i) {
        const gcoll_step &s = plans[rank]->steps[i];
        auto found = receives.find({rank, s.peer, s.message});
        if (found == receives.end()) {
            error = "a message that nobody receives";
            return;
        }
        const gcoll_step &r = plans[s.peer]->steps[found->second];
        if (r.count != s.count)
            error = "a message of two sizes";
        if (!error.empty() || !Ready(s.peer, found->second))
            return;
        for (uint64_t e = 0; e < s.count; e++) {
            const T got = At(rank, s.a, e);
            if (r.kind == GCOLL_STEP_RECV)
                At(s.peer, r.dst, e) = got;
            else if (r.received_first)
                At(s.peer, r.dst, e) = op(got, At(s.peer, r.a, e));
            else
                At(s.peer, r.dst, e) = op(At(s.peer, r.a, e), got);
        }
        Finish(rank, i);
        Finish(s.peer, found->second);
    }
};

} // namespace gcoll_test

#endif
