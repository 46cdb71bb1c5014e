// test/verify_support.cc - see verify_support.h.
#include "test/verify_support.h"

#include <algorithm>
#include <map>
#include <memory>

namespace verify_test {

Plan Plan::of(const gcoll_plan &plan) {
    Plan made;
    made.problem = plan.problem;
    made.window = plan.window;
    made.divisor = plan.divisor;
    made.scratch = plan.scratch;
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
    for (gcoll_step &step : steps) {
        if (step.kind == GCOLL_STEP_SEND)
            step.message = sent[step.peer]++;
        else if (step.kind == GCOLL_STEP_RECV || step.kind == GCOLL_STEP_RECV_REDUCE)
            step.message = received[step.peer]++;
    }
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

Flat::Flat(const Job &job) : plans_(job.size()), steps_(job.size()), successors_(job.size()) {
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

namespace {

struct Range {
    uint32_t memory;
    uint64_t begin, end;
    bool write;
};

// SCRATCH is memory 0, then IN and OUT, which are one if in place.
uint32_t memory_of(const gcoll_problem &problem, gcoll_ref ref) {
    if (ref.space == GCOLL_SCRATCH)
        return 0;
    return 1 + ref.index + (ref.space == GCOLL_OUT && !problem.in_place ? problem.buffers : 0);
}

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

} // namespace

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

namespace {

uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// An element under three operations at once: a sum, one that commutes but does not associate, and the
// concatenation of words (as their polynomial hash), which associates but does not commute.
struct Element {
    uint64_t sum, tree, word, power;
};

Element contribution(uint64_t rank, uint64_t buffer, uint64_t position) {
    uint64_t x = mix(mix(mix(rank) + buffer) + position);
    return {x, mix(x + 1), mix(x + 2), mix(x + 3) | 1};
}

Element combine(const Element &l, const Element &r) {
    return {l.sum + r.sum, mix(l.tree + r.tree), l.word * r.power + r.word, l.power * r.power};
}

// Any one-to-one function shows whether it was applied once.
Element divided(const Element &x) {
    return {x.sum * 3 + 1, mix(x.tree ^ 5), x.word, x.power};
}

enum class State { waiting, started, done };

using Data = std::vector<Element>;

struct Live {
    State state = State::waiting;
    uint32_t missing = 0;
    bool taken = false; // operands are copied out
    Data a, b;
};

class Machine {
  public:
    Machine(const Job &job, uint32_t seed, Buffering buffering)
        : job_(job), random_(seed), buffering_(buffering) {
        for (uint32_t r = 0; r < job.size(); r++)
            create(r);
    }

    // Until nothing can move. Nobody of rank `absent` moves.
    void run(uint32_t absent = UINT32_MAX) {
        for (;;) {
            std::vector<std::pair<uint32_t, uint32_t>> moves;
            for (uint32_t r = 0; r < job_.size(); r++)
                for (uint32_t i = 0; r != absent && i < job_[r].steps.size(); i++)
                    if (may_start(r, i) || may_end(r, i))
                        moves.emplace_back(r, i);
            if (moves.empty())
                return;
            auto [rank, step] = moves[random_() % moves.size()];
            if (live_[rank][step].state == State::waiting)
                start(rank, step);
            else
                end(rank, step);
        }
    }

    bool finished(uint32_t rank) const { return oldest(rank) == job_[rank].steps.size(); }
    const Data &output(uint32_t rank, uint32_t k) const {
        return memory_[rank][memory_of(job_[rank].problem, gcoll_out(k, 0))];
    }

  private:
    void create(uint32_t r) {
        const gcoll_problem &problem = job_[r].problem;
        live_.emplace_back(job_[r].steps.size());
        for (const auto &list : job_[r].next)
            for (uint32_t to : list)
                live_[r][to].missing++;
        memory_.emplace_back(1 + (problem.in_place ? 1 : 2) * problem.buffers, rubbish(problem.count));
        memory_[r][0] = rubbish(job_[r].scratch);
        for (uint32_t k = 0; k < problem.buffers; k++)
            for (uint64_t e = 0; e < problem.count; e++)
                if (problem.collective != GCOLL_BROADCAST || (r == problem.root && k == 0))
                    memory_[r][1 + k][e] = contribution(r, k, e);
    }

    Data rubbish(uint64_t count) {
        Data made(count);
        for (Element &x : made)
            x = {random_(), random_(), random_(), random_()};
        return made;
    }

    uint32_t oldest(uint32_t rank) const {
        uint32_t i = 0;
        while (i < live_[rank].size() && live_[rank][i].state == State::done)
            i++;
        return i;
    }

    bool may_start(uint32_t rank, uint32_t i) const {
        const Plan &plan = job_[rank];
        return live_[rank][i].state == State::waiting && live_[rank][i].missing == 0 &&
               plan.steps[i].round <= uint64_t{plan.steps[oldest(rank)].round} + plan.window;
    }

    static bool is_recv(const gcoll_step &s) {
        return s.kind == GCOLL_STEP_RECV || s.kind == GCOLL_STEP_RECV_REDUCE;
    }

    // The other side of a message: its step, or nothing.
    const uint32_t *partner(uint32_t rank, uint32_t i) const {
        const gcoll_step &s = job_[rank].steps[i];
        auto &known = partners_[{rank, i}];
        for (uint32_t j = 0; !known && j < job_[s.peer].steps.size(); j++) {
            const gcoll_step &other = job_[s.peer].steps[j];
            bool opposite = s.kind == GCOLL_STEP_SEND ? is_recv(other) : other.kind == GCOLL_STEP_SEND;
            if (opposite && other.peer == rank && other.message == s.message)
                known = std::make_unique<uint32_t>(j);
        }
        return known.get();
    }

    bool may_end(uint32_t rank, uint32_t i) const {
        const gcoll_step &s = job_[rank].steps[i];
        if (live_[rank][i].state != State::started)
            return false;
        if (s.kind != GCOLL_STEP_SEND && !is_recv(s))
            return true;
        const uint32_t *other = partner(rank, i);
        if (s.kind == GCOLL_STEP_SEND && buffered(rank, i))
            return true;
        return other && live_[s.peer][*other].state != State::waiting;
    }

    // Whether the transport takes this message before its receive has started.
    bool buffered(uint32_t rank, uint32_t i) const {
        bool coin = mix(mix(rank + salt_) + i) % 2;
        return buffering_ == Buffering::all || (buffering_ == Buffering::some && coin);
    }

    Data read(uint32_t rank, gcoll_ref ref, uint64_t count) const {
        const Data &memory = memory_[rank][memory_of(job_[rank].problem, ref)];
        return Data(memory.begin() + ref.offset, memory.begin() + ref.offset + count);
    }

    void write(uint32_t rank, gcoll_ref ref, const Data &data) {
        Data &memory = memory_[rank][memory_of(job_[rank].problem, ref)];
        std::copy(data.begin(), data.end(), memory.begin() + ref.offset);
    }

    void take(uint32_t rank, uint32_t i) {
        const gcoll_step &s = job_[rank].steps[i];
        Live &live = live_[rank][i];
        if (live.taken)
            return;
        live.taken = true;
        if (s.kind == GCOLL_STEP_DIVIDE)
            live.a = read(rank, s.dst, s.count);
        else if (s.kind != GCOLL_STEP_RECV && s.count > 0)
            live.a = read(rank, s.a, s.count);
        if (s.kind == GCOLL_STEP_REDUCE)
            live.b = read(rank, s.b, s.count);
    }

    void start(uint32_t rank, uint32_t i) {
        const gcoll_step &s = job_[rank].steps[i];
        live_[rank][i].state = State::started;
        if (random_() % 2)
            return; // operands are read at the end
        take(rank, i);
        if (s.kind != GCOLL_STEP_SEND && s.count > 0)
            write(rank, s.dst, rubbish(s.count));
    }

    void end(uint32_t rank, uint32_t i) {
        const gcoll_step &s = job_[rank].steps[i];
        Live &live = live_[rank][i];
        take(rank, i);
        Data result = live.a;
        if (is_recv(s)) {
            uint32_t other = *partner(rank, i);
            take(s.peer, other);
            const Data &received = live_[s.peer][other].a;
            for (uint64_t e = 0; s.kind == GCOLL_STEP_RECV_REDUCE && e < s.count; e++)
                result[e] =
                    s.received_first ? combine(received[e], live.a[e]) : combine(live.a[e], received[e]);
            if (s.kind == GCOLL_STEP_RECV)
                result = received;
        }
        for (uint64_t e = 0; e < result.size(); e++) {
            if (s.kind == GCOLL_STEP_REDUCE)
                result[e] = combine(live.a[e], live.b[e]);
            else if (s.kind == GCOLL_STEP_DIVIDE)
                result[e] = divided(result[e]);
        }
        if (s.kind != GCOLL_STEP_SEND && s.count > 0)
            write(rank, s.dst, result);
        live.state = State::done;
        for (uint32_t to : job_[rank].next[i])
            live_[rank][to].missing--;
    }

    const Job &job_;
    std::mt19937_64 random_;
    Buffering buffering_;
    uint64_t salt_ = random_();
    std::vector<std::vector<Live>> live_;
    std::vector<std::vector<Data>> memory_;
    mutable std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<uint32_t>> partners_;
};

// What element `position` must be; .tree means nothing.
Element expected(const Job &job, uint64_t position) {
    const gcoll_problem &problem = job[0].problem;
    if (problem.collective == GCOLL_BROADCAST)
        return contribution(problem.root, 0, position);
    Element all = contribution(0, 0, position);
    for (uint32_t r = 0; r < job.size(); r++)
        for (uint32_t k = r == 0 ? 1 : 0; k < job[r].problem.buffers; k++)
            all = combine(all, contribution(r, k, position));
    return problem.average ? divided(all) : all;
}

} // namespace

Outcome execute(const Job &job, uint32_t seed, Buffering buffering) {
    Machine machine(job, seed, buffering);
    machine.run();
    Outcome outcome{false, true, true, true};
    for (uint32_t r = 0; r < job.size(); r++) {
        outcome.deadlock = outcome.deadlock || !machine.finished(r);
        for (uint32_t k = 0; k < job[r].problem.buffers; k++) {
            for (uint64_t e = 0; job[r].problem.collective != GCOLL_BARRIER && e < job[r].problem.count;
                 e++) {
                const Element want = expected(job, e), got = machine.output(r, k)[e];
                outcome.right = outcome.right && got.sum == want.sum;
                outcome.ordered = outcome.ordered && got.word == want.word && got.power == want.power;
                outcome.rank_identical = outcome.rank_identical && got.tree == machine.output(0, 0)[e].tree;
            }
        }
    }
    outcome.right = outcome.right && !outcome.deadlock;
    return outcome;
}

bool barrier_holds(const Job &job) {
    for (uint32_t late = 0; late < job.size(); late++) {
        Machine machine(job, late, Buffering::all);
        machine.run(late);
        for (uint32_t r = 0; r < job.size(); r++)
            if (r != late && machine.finished(r))
                return false;
    }
    return true;
}

} // namespace verify_test
