// test/verify_oracle.cc - runs jobs on data, see verify_support.h.
#include <algorithm>

#include "test/verify_support.h"

namespace verify_test {

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
    bool rubbish;
};

Element contribution(uint64_t rank, uint64_t buffer, uint64_t position) {
    uint64_t x = mix(mix(mix(rank) + buffer) + position);
    return {x, mix(x + 1), mix(x + 2), mix(x + 3) | 1, false};
}

Element combine(const Element &l, const Element &r) {
    return {l.sum + r.sum, mix(l.tree + r.tree), l.word * r.power + r.word, l.power * r.power,
            l.rubbish || r.rubbish};
}

// Any one-to-one function shows whether it was applied once.
Element divided(const Element &x) {
    return {x.sum * 3 + 1, mix(x.tree ^ 5), x.word, x.power, x.rubbish};
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
        while (move(absent)) {
        }
    }

    bool finished(uint32_t rank) const { return oldest_[rank] == job_[rank].steps.size(); }
    bool read_rubbish() const { return read_rubbish_; }
    const Data &output(uint32_t rank, uint32_t k) const {
        return memory_[rank][memory_of(job_[rank].problem, gcoll_out(k, 0))];
    }

  private:
    // Starts or ends a step, a random one of those that can be; false if none can.
    bool move(uint32_t absent) {
        size_t n = active_.size(), first = n ? random_() % n : 0;
        for (size_t tried = 0; tried < n; tried++) {
            size_t place = (first + tried) % n;
            auto [rank, step] = active_[place];
            if (rank == absent || !(may_start(rank, step) || may_end(rank, step)))
                continue;
            if (live_[rank][step].state == State::waiting)
                start(rank, step);
            else
                end(rank, step, place);
            return true;
        }
        return false;
    }

    void create(uint32_t r) {
        const gcoll_problem &problem = job_[r].problem;
        live_.emplace_back(job_[r].steps.size());
        partners_.emplace_back();
        for (const gcoll_step &step : job_[r].steps)
            partners_[r].push_back(step.kind == GCOLL_STEP_SEND || is_recv(step) ? find_partner(r, step)
                                                                                 : -1);
        for (const auto &list : job_[r].next)
            for (uint32_t to : list)
                live_[r][to].missing++;
        for (uint32_t i = 0; i < live_[r].size(); i++)
            if (live_[r][i].missing == 0)
                active_.emplace_back(r, i);
        oldest_.push_back(0);
        memory_.emplace_back(1 + (problem.in_place ? 1 : 2) * problem.buffers, rubbish(problem.count));
        memory_[r][0] = rubbish(job_[r].scratch);
        for (uint32_t k = 0; k < problem.buffers; k++)
            for (uint64_t e = 0; e < problem.count; e++)
                if (problem.collective != GCOLL_BROADCAST || (r == problem.root && k == 0))
                    memory_[r][1 + k][e] = contribution(r, k, e);
    }

    Data rubbish(uint64_t count) {
        Data made(static_cast<size_t>(count));
        for (Element &x : made)
            x = {random_(), random_(), random_(), random_(), true};
        return made;
    }

    bool may_start(uint32_t rank, uint32_t i) const {
        const Plan &plan = job_[rank];
        return live_[rank][i].state == State::waiting && live_[rank][i].missing == 0 &&
               plan.steps[i].round <= uint64_t{plan.steps[oldest_[rank]].round} + plan.window;
    }

    static bool is_recv(const gcoll_step &s) {
        return s.kind == GCOLL_STEP_RECV || s.kind == GCOLL_STEP_RECV_REDUCE;
    }

    // The other side of a message: its step, or -1.
    int64_t partner(uint32_t rank, uint32_t i) const { return partners_[rank][i]; }

    int64_t find_partner(uint32_t rank, const gcoll_step &s) const {
        for (uint32_t j = 0; s.peer < job_.size() && j < job_[s.peer].steps.size(); j++) {
            const gcoll_step &other = job_[s.peer].steps[j];
            bool opposite = s.kind == GCOLL_STEP_SEND ? is_recv(other) : other.kind == GCOLL_STEP_SEND;
            if (opposite && other.peer == rank && other.message == s.message)
                return j;
        }
        return -1;
    }

    bool may_end(uint32_t rank, uint32_t i) const {
        const gcoll_step &s = job_[rank].steps[i];
        if (live_[rank][i].state != State::started)
            return false;
        if (s.kind != GCOLL_STEP_SEND && !is_recv(s))
            return true;
        int64_t other = partner(rank, i);
        if (s.kind == GCOLL_STEP_SEND && buffered(rank, i))
            return true;
        return other >= 0 && live_[s.peer][static_cast<uint32_t>(other)].state != State::waiting;
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
        for (const Data *data : {&live.a, &live.b})
            for (const Element &x : *data)
                read_rubbish_ = read_rubbish_ || x.rubbish;
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

    // Ends step i, which is at `place` in active_.
    void end(uint32_t rank, uint32_t i, size_t place) {
        const gcoll_step &s = job_[rank].steps[i];
        Live &live = live_[rank][i];
        take(rank, i);
        Data result = live.a;
        if (is_recv(s)) {
            uint32_t other = static_cast<uint32_t>(partner(rank, i));
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
        active_[place] = active_.back();
        active_.pop_back();
        for (uint32_t to : job_[rank].next[i])
            if (--live_[rank][to].missing == 0)
                active_.emplace_back(rank, to);
        uint32_t &oldest = oldest_[rank];
        while (oldest < live_[rank].size() && live_[rank][oldest].state == State::done)
            oldest++;
    }

    const Job &job_;
    std::mt19937_64 random_;
    Buffering buffering_;
    uint64_t salt_ = random_();
    std::vector<std::vector<Live>> live_;
    std::vector<std::vector<Data>> memory_;
    std::vector<std::vector<int64_t>> partners_;
    std::vector<std::pair<uint32_t, uint32_t>> active_; // rank and step: dependencies done, itself not
    std::vector<uint32_t> oldest_;                      // by rank: the first step that is not done
    bool read_rubbish_ = false;
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
    Outcome outcome{false, true, true, true, machine.read_rubbish()};
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
