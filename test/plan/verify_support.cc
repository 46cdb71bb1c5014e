// test/plan/verify_support.cc - see verify_support.h.
#include "test/plan/verify_support.h"

#include <algorithm>
#include <map>

namespace verify_test {

Plan Plan::of(const gcoll_plan &plan) {
    Plan made;
    made.problem = plan.problem;
    made.window = plan.window;
    made.divisor = plan.divisor;
    made.scratch = plan.scratch;
    if (plan.operands)
        made.operands.assign(plan.operands, plan.operands + plan.operand_count);
    if (plan.problem.in_memory)
        made.in_memory.assign(plan.problem.in_memory, plan.problem.in_memory + plan.problem.buffers);
    if (plan.problem.out_memory)
        made.out_memory.assign(plan.problem.out_memory, plan.problem.out_memory + plan.problem.buffers);
    made.problem.in_memory = made.problem.out_memory = nullptr;
    made.steps.assign(plan.steps, plan.steps + plan.step_count);
    for (const gcoll_step &step : made.steps)
        made.next.emplace_back(plan.successors + step.first_successor,
                               plan.successors + step.first_successor + step.successors);
    return made;
}

uint32_t Plan::add(gcoll_step step, const std::vector<uint32_t> &after) {
    uint32_t number = static_cast<uint32_t>(steps.size());
    if (number > 0 && step.round < steps.back().round)
        step.round = steps.back().round;
    steps.push_back(step);
    next.emplace_back();
    for (uint32_t before : after)
        next[before].push_back(number);
    number_messages();
    return number;
}

static gcoll_step make_step(gcoll_step_kind kind, uint32_t peer, uint64_t count) {
    gcoll_step step{};
    step.kind = static_cast<uint8_t>(kind);
    step.peer = peer;
    step.count = count;
    return step;
}

uint32_t Plan::send(uint32_t peer, gcoll_ref a, uint64_t count, const std::vector<uint32_t> &after) {
    gcoll_step step = make_step(GCOLL_STEP_SEND, peer, count);
    step.a = a;
    return add(step, after);
}

uint32_t Plan::recv(uint32_t peer, gcoll_ref dst, uint64_t count, const std::vector<uint32_t> &after) {
    gcoll_step step = make_step(GCOLL_STEP_RECV, peer, count);
    step.dst = dst;
    return add(step, after);
}

uint32_t Plan::recv_reduce(uint32_t peer, gcoll_ref dst, gcoll_ref a, uint64_t count,
                           const std::vector<uint32_t> &after, bool received_first) {
    gcoll_step step = make_step(GCOLL_STEP_RECV_REDUCE, peer, count);
    step.dst = dst;
    step.a = a;
    step.received_first = received_first;
    return add(step, after);
}

uint32_t Plan::reduce(gcoll_ref dst, gcoll_ref a, gcoll_ref b, uint64_t count,
                      const std::vector<uint32_t> &after) {
    gcoll_step step = make_step(GCOLL_STEP_REDUCE, 0, count);
    step.dst = dst;
    step.a = a;
    step.b = b;
    return add(step, after);
}

uint32_t Plan::copy(gcoll_ref dst, gcoll_ref a, uint64_t count, const std::vector<uint32_t> &after) {
    gcoll_step step = make_step(GCOLL_STEP_COPY, 0, count);
    step.dst = dst;
    step.a = a;
    return add(step, after);
}

uint32_t Plan::divide(gcoll_ref dst, uint64_t count, const std::vector<uint32_t> &after) {
    gcoll_step step = make_step(GCOLL_STEP_DIVIDE, 0, count);
    step.dst = dst;
    return add(step, after);
}

uint32_t Plan::fold(gcoll_ref dst, gcoll_ref a, const std::vector<uint16_t> &of, uint64_t count,
                    const std::vector<uint32_t> &after) {
    gcoll_step step = make_step(GCOLL_STEP_FOLD, 0, count);
    step.dst = dst;
    step.a = a;
    uint32_t number = add(step, after);
    set_operands(number, of);
    return number;
}

void Plan::set_operands(uint32_t step, const std::vector<uint16_t> &of) {
    steps[step].first_operand = static_cast<uint32_t>(operands.size());
    steps[step].operand_count = static_cast<uint32_t>(of.size());
    operands.insert(operands.end(), of.begin(), of.end());
}

std::vector<uint16_t> Plan::operands_of(const gcoll_step &step) const {
    auto first = operands.begin() + step.first_operand;
    return {first, first + step.operand_count};
}

std::vector<gcoll_ref> Plan::places_of(const gcoll_step &step) const {
    std::vector<gcoll_ref> made;
    for (uint16_t index : operands_of(step)) {
        made.push_back(step.a);
        made.back().index = index;
    }
    return made;
}

uint32_t Plan::memory(gcoll_ref ref) const {
    if (ref.space == GCOLL_SCRATCH)
        return GCOLL_HOST_MEMORY;
    const bool input = problem.in_place ? out_memory.empty() : ref.space == GCOLL_IN;
    const std::vector<uint32_t> &list = input ? in_memory : out_memory;
    return ref.index < list.size() ? list[ref.index] : GCOLL_HOST_MEMORY;
}

void Plan::drop(uint32_t step) {
    const std::vector<uint32_t> heirs = next[step];
    for (std::vector<uint32_t> &list : next) {
        auto found = std::find(list.begin(), list.end(), step);
        if (found == list.end())
            continue;
        list.erase(found);
        list.insert(list.end(), heirs.begin(), heirs.end());
        std::sort(list.begin(), list.end());
        list.erase(std::unique(list.begin(), list.end()), list.end());
    }
    steps.erase(steps.begin() + step);
    next.erase(next.begin() + step);
    for (std::vector<uint32_t> &list : next)
        for (uint32_t &to : list)
            to -= to > step;
    number_messages();
}

void Plan::insert_after(uint32_t step, gcoll_step extra) {
    for (std::vector<uint32_t> &list : next)
        for (uint32_t &to : list)
            to += to > step;
    steps.insert(steps.begin() + step + 1, extra);
    next.insert(next.begin() + step + 1, next[step]);
    next[step] = {step + 1};
    number_messages();
}

void Plan::number_messages() {
    std::map<uint32_t, uint32_t> sent, received;
    for (gcoll_step &step : steps)
        if (step.kind == GCOLL_STEP_SEND)
            step.message = sent[step.peer]++;
        else if (step.kind == GCOLL_STEP_RECV || step.kind == GCOLL_STEP_RECV_REDUCE)
            step.message = received[step.peer]++;
}

std::vector<std::vector<bool>> Plan::closure() const {
    size_t n = steps.size();
    std::vector<std::vector<bool>> reaches(n, std::vector<bool>(n));
    for (size_t i = n; i-- > 0;) {
        for (uint32_t j : next[i]) {
            reaches[i][j] = true;
            for (size_t k = 0; k < n; k++)
                reaches[i][k] = reaches[i][k] || reaches[j][k];
        }
    }
    return reaches;
}

Job make_job(gcoll_collective collective, uint32_t size, uint64_t count, bool in_place, uint32_t buffers) {
    Job job(size);
    for (uint32_t r = 0; r < size; r++) {
        job[r].problem.collective = collective;
        job[r].problem.rank = r;
        job[r].problem.size = size;
        job[r].problem.count = count;
        job[r].problem.in_place = in_place;
        job[r].problem.buffers = buffers;
    }
    return job;
}

Flat::Flat(const Job &job)
    : plans_(job.size()), steps_(job.size()), successors_(job.size()), operands_(job.size()),
      in_memory_(job.size()), out_memory_(job.size()) {
    for (size_t r = 0; r < job.size(); r++) {
        std::vector<gcoll_step> &steps = steps_[r] = job[r].steps;
        for (gcoll_step &step : steps)
            step.dependencies = 0;
        for (size_t i = 0; i < steps.size(); i++) {
            steps[i].first_successor = static_cast<uint32_t>(successors_[r].size());
            steps[i].successors = static_cast<uint32_t>(job[r].next[i].size());
            for (uint32_t to : job[r].next[i]) {
                steps[to].dependencies++;
                successors_[r].push_back(to);
            }
        }
        gcoll_plan &plan = plans_[r];
        plan.problem = job[r].problem;
        plan.step_count = static_cast<uint32_t>(steps.size());
        plan.successor_count = static_cast<uint32_t>(successors_[r].size());
        plan.rounds = steps.empty() ? 0 : steps.back().round + 1;
        plan.window = job[r].window;
        plan.divisor = job[r].divisor;
        plan.scratch = job[r].scratch;
        plan.steps = steps.data();
        plan.successors = successors_[r].data();
        operands_[r] = job[r].operands;
        plan.operands = operands_[r].empty() ? nullptr : operands_[r].data();
        plan.operand_count = static_cast<uint32_t>(operands_[r].size());
        in_memory_[r] = job[r].in_memory;
        out_memory_[r] = job[r].out_memory;
        plan.problem.in_memory = in_memory_[r].empty() ? nullptr : in_memory_[r].data();
        plan.problem.out_memory = out_memory_[r].empty() ? nullptr : out_memory_[r].data();
    }
}

gcoll_status Flat::verify(gcoll_verify_report *report) {
    std::vector<const gcoll_plan *> pointers;
    for (const gcoll_plan &plan : plans_)
        pointers.push_back(&plan);
    return gcoll_verify(pointers.data(), static_cast<uint32_t>(pointers.size()), report);
}

std::string verdict(const Job &job, gcoll_verify_report *report) {
    return Flat(job).verify(report) == GCOLL_OK ? "" : gcoll_last_error();
}

uint32_t memory_of(const gcoll_problem &problem, gcoll_ref ref) {
    if (ref.space == GCOLL_SCRATCH)
        return 0;
    return 1 + ref.index + (ref.space == GCOLL_OUT && !problem.in_place ? problem.buffers : 0);
}

namespace {

struct Range {
    uint32_t memory;
    uint64_t begin, end;
    bool write;
};

std::vector<Range> ranges_of(const Plan &plan, const gcoll_step &step) {
    std::vector<Range> made;
    auto touch = [&](gcoll_ref ref, bool write) {
        made.push_back({memory_of(plan.problem, ref), ref.offset, ref.offset + step.count, write});
    };
    if (step.kind == GCOLL_STEP_SEND || step.kind == GCOLL_STEP_RECV_REDUCE ||
        step.kind == GCOLL_STEP_REDUCE || step.kind == GCOLL_STEP_COPY)
        touch(step.a, false);
    if (step.kind == GCOLL_STEP_REDUCE)
        touch(step.b, false);
    if (step.kind == GCOLL_STEP_FOLD)
        for (gcoll_ref place : plan.places_of(step))
            touch(place, false);
    if (step.kind != GCOLL_STEP_SEND)
        touch(step.dst, true);
    return made;
}

bool conflict(const Plan &plan, const gcoll_step &x, const gcoll_step &y) {
    for (const Range &a : ranges_of(plan, x))
        for (const Range &b : ranges_of(plan, y))
            if ((a.write || b.write) && a.memory == b.memory && a.begin < b.end && b.begin < a.end)
                return true;
    return false;
}

// What a step of this kind may not touch.
bool step_strays(const Plan &plan, const gcoll_step &s) {
    const bool peer = plan.problem.staging.local == GCOLL_LOCAL_PEER;
    const uint32_t a = plan.memory(s.a), b = plan.memory(s.b), dst = plan.memory(s.dst);
    if (s.count == 0)
        return false;
    switch (s.kind) {
    case GCOLL_STEP_SEND:
        return a != GCOLL_HOST_MEMORY;
    case GCOLL_STEP_RECV:
        return dst != GCOLL_HOST_MEMORY;
    case GCOLL_STEP_RECV_REDUCE:
        return (a | dst) != GCOLL_HOST_MEMORY;
    case GCOLL_STEP_REDUCE:
        return (a | b | dst) != GCOLL_HOST_MEMORY;
    case GCOLL_STEP_COPY:
        return a != GCOLL_HOST_MEMORY && dst != GCOLL_HOST_MEMORY && a != dst && !peer;
    case GCOLL_STEP_FOLD:
        for (gcoll_ref place : plan.places_of(s))
            if (plan.memory(place) == GCOLL_HOST_MEMORY || (plan.memory(place) != dst && !peer))
                return true;
        return dst == GCOLL_HOST_MEMORY;
    default:
        return false;
    }
}

} // namespace

bool strays(const Job &job) {
    for (const Plan &plan : job)
        for (const gcoll_step &step : plan.steps)
            if (step_strays(plan, step))
                return true;
    return false;
}

bool crosses_twice(const Job &job) {
    for (const Plan &plan : job) {
        std::map<std::pair<uint32_t, uint64_t>, int> in, out; // memory and element: how often
        int most = 0;
        for (const gcoll_step &s : plan.steps) {
            if (s.kind != GCOLL_STEP_COPY)
                continue;
            const bool from_host = plan.memory(s.a) == GCOLL_HOST_MEMORY;
            const bool to_host = plan.memory(s.dst) == GCOLL_HOST_MEMORY;
            for (uint64_t e = 0; e < s.count; e++) {
                if (to_host && !from_host)
                    most = std::max(most, ++in[{memory_of(plan.problem, s.a), s.a.offset + e}]);
                if (from_host && !to_host)
                    most = std::max(most, ++out[{memory_of(plan.problem, s.dst), s.dst.offset + e}]);
            }
        }
        if (most > 1)
            return true;
    }
    return false;
}

bool has_race(const Job &job) {
    for (const Plan &plan : job) {
        const auto reaches = plan.closure();
        for (size_t i = 0; i < plan.steps.size(); i++)
            for (size_t j = i + 1; j < plan.steps.size(); j++)
                if (!reaches[i][j] && conflict(plan, plan.steps[i], plan.steps[j]))
                    return true;
    }
    return false;
}

} // namespace verify_test
