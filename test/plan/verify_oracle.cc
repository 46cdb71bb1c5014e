// test/plan/verify_oracle.cc - runs jobs on data, see verify_support.h.
#include <algorithm>

#include "test/plan/verify_support.h"

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
    uint64_t parts; // a bit a contribution, by rank and buffer, as long as there are few
    uint64_t index; // in its buffer of IN
};

// Element `index` of a buffer of a rank's IN.
Element contribution(uint64_t rank, uint64_t buffer, uint64_t index) {
    uint64_t x = mix(mix(mix(rank) + buffer) + index);
    return {x, mix(x + 1), mix(x + 2), mix(x + 3) | 1, false, uint64_t{1} << (rank * 4 + buffer) % 64, index};
}

Element combine(const Element &l, const Element &r) {
    return {l.sum + r.sum,
            mix(l.tree + r.tree),
            l.word * r.power + r.word,
            l.power * r.power,
            l.rubbish || r.rubbish,
            l.parts | r.parts,
            l.index};
}

// Any one-to-one function shows whether it was applied once.
Element divided(const Element &x) {
    return {x.sum * 3 + 1, mix(x.tree ^ 5), x.word, x.power, x.rubbish, x.parts, x.index};
}

// ---- What the collectives are, in plain words, apart from the library's own
// ----------------------------------

uint64_t begin_of(uint64_t n, uint64_t parts, const uint64_t *offsets, uint64_t i) {
    return offsets ? offsets[i] : i * n / parts;
}

uint64_t block_begin(const gcoll_problem &p, uint64_t r) {
    return begin_of(p.count, p.size, p.offsets, r);
}

uint64_t block_count(const gcoll_problem &p, uint64_t r) {
    return block_begin(p, r + 1) - block_begin(p, r);
}

uint64_t from_begin(const gcoll_problem &p,
                    uint64_t r) { // alltoall without offsets: all blocks for us are alike
    return p.recv_offsets ? p.recv_offsets[r] : r * block_count(p, p.rank);
}

struct Extent {
    uint64_t count, shift; // elements; where they begin in the memory that IN and OUT share, in place
};

Extent input(const gcoll_problem &p) {
    switch (p.collective) {
    case GCOLL_BARRIER:
        return {0, 0};
    case GCOLL_ALLGATHER:
    case GCOLL_GATHER:
        return {block_count(p, p.rank), p.in_place ? block_begin(p, p.rank) : 0};
    case GCOLL_SCATTER:
        return {p.rank == p.root ? p.count : 0, 0};
    default:
        return {p.count, 0};
    }
}

Extent output_of(const gcoll_problem &p) {
    switch (p.collective) {
    case GCOLL_BARRIER:
        return {0, 0};
    case GCOLL_REDUCE:
    case GCOLL_GATHER:
        return {p.rank == p.root ? p.count : 0, 0};
    case GCOLL_REDUCE_SCATTER:
    case GCOLL_SCATTER:
        return {block_count(p, p.rank), p.in_place ? block_begin(p, p.rank) : 0};
    case GCOLL_ALLTOALL:
        return {from_begin(p, p.size), 0};
    default:
        return {p.count, 0};
    }
}

bool reduces(const gcoll_problem &p) {
    return p.collective == GCOLL_ALLREDUCE || p.collective == GCOLL_REDUCE ||
           p.collective == GCOLL_REDUCE_SCATTER;
}

enum class State { waiting, started, done };

using Data = std::vector<Element>;

struct Live {
    State state = State::waiting;
    uint32_t missing = 0;
    bool taken = false; // operands are copied out
    Data a, b;
    std::vector<Data> more; // of a fold: operands after the first
};

class Machine {
  public:
    Machine(const Job &job, uint32_t seed, Buffering buffering)
        : job_(job), random_(seed), buffering_(buffering) {
        for (uint32_t r = 0; r < job.size(); r++) {
            create(r);
            for (uint32_t k = 0; k < job[r].problem.buffers; k++)
                all_parts_ |= contribution(r, k, 0).parts;
        }
    }

    // Until nothing can move. Nobody of rank `absent` moves.
    void run(uint32_t absent = UINT32_MAX) {
        while (move(absent)) {
        }
    }

    bool finished(uint32_t rank) const { return oldest_[rank] == job_[rank].steps.size(); }
    bool read_rubbish() const { return read_rubbish_; }
    bool reduced_twice() const { return reduced_twice_; }
    bool divided_early() const { return divided_early_; }
    bool misplaced() const { return misplaced_; }
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
        const Extent in = input(problem), out = output_of(problem);
        memory_.emplace_back();
        memory_[r].push_back(rubbish(job_[r].scratch));
        for (uint32_t k = 0; k < problem.buffers; k++)
            memory_[r].push_back(rubbish(problem.in_place ? std::max(in.count, out.count) : in.count));
        for (uint32_t k = 0; k < problem.buffers && !problem.in_place; k++)
            memory_[r].push_back(rubbish(out.count));
        for (uint32_t k = 0; k < problem.buffers; k++)
            for (uint64_t e = 0; e < in.count; e++)
                if (problem.collective != GCOLL_BROADCAST || (r == problem.root && k == 0))
                    memory_[r][1 + k][e + in.shift] = contribution(r, k, e);
    }

    Data rubbish(uint64_t count) {
        Data made(static_cast<size_t>(count));
        for (Element &x : made)
            x = {random_(), random_(), random_(), random_(), true, 0, 0};
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
        else if (s.kind == GCOLL_STEP_FOLD)
            take_operands(rank, s, live);
        else if (s.kind != GCOLL_STEP_RECV && s.count > 0)
            live.a = read(rank, s.a, s.count);
        if (s.kind == GCOLL_STEP_REDUCE)
            live.b = read(rank, s.b, s.count);
        for (const Data *data : {&live.a, &live.b})
            look_at(*data);
        for (const Data &data : live.more)
            look_at(data);
    }

    void take_operands(uint32_t rank, const gcoll_step &s, Live &live) const {
        for (gcoll_ref place : job_[rank].places_of(s))
            live.more.push_back(read(rank, place, s.count));
        live.a = live.more.front();
        live.more.erase(live.more.begin());
    }

    void look_at(const Data &data) {
        for (const Element &x : data)
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

    // As a step does it, noting what should not be.
    Element reduce(const Element &l, const Element &r) {
        reduced_twice_ = reduced_twice_ || (l.parts & r.parts) != 0;
        misplaced_ = misplaced_ || l.index != r.index;
        return combine(l, r);
    }

    Element divide(const Element &x) {
        divided_early_ = divided_early_ || x.parts != all_parts_;
        return divided(x);
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
                    s.received_first ? reduce(received[e], live.a[e]) : reduce(live.a[e], received[e]);
            if (s.kind == GCOLL_STEP_RECV)
                result = received;
        }
        for (uint64_t e = 0; e < result.size(); e++) {
            if (s.kind == GCOLL_STEP_REDUCE)
                result[e] = reduce(live.a[e], live.b[e]);
            else if (s.kind == GCOLL_STEP_DIVIDE)
                result[e] = divide(result[e]);
            for (const Data &next : live.more)
                result[e] = reduce(result[e], next[e]);
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
    bool read_rubbish_ = false, reduced_twice_ = false, divided_early_ = false, misplaced_ = false;
    uint64_t all_parts_ = 0;
};

// ---- What the collectives promise
// ------------------------------------------------------------------------------

// What all ranks put in, each its buffers one after the other.
Data contributions(const Job &job, uint64_t position) {
    Data all;
    for (uint32_t r = 0; r < job.size(); r++)
        for (uint32_t k = 0; k < job[r].problem.buffers; k++)
            all.push_back(contribution(r, k, position));
    return all;
}

// The reduction, one contribution after the other.
Element left_fold(const Job &job, uint64_t position) {
    const Data leaves = contributions(job, position);
    Element all = leaves[0];
    for (size_t i = 1; i < leaves.size(); i++)
        all = combine(all, leaves[i]);
    return job[0].problem.average ? divided(all) : all;
}

// The reduction, neighbours first, then neighbouring pairs, ...: who has no neighbour goes on alone.
Element neighbours(const Job &job, uint64_t position) {
    Data level = contributions(job, position);
    while (level.size() > 1) {
        Data above;
        for (size_t i = 0; i < level.size(); i += 2)
            above.push_back(i + 1 < level.size() ? combine(level[i], level[i + 1]) : level[i]);
        level = above;
    }
    return job[0].problem.average ? divided(level[0]) : level[0];
}

// Which of a rank's blocks of OUT element e is in: begin(i) <= e < begin(i + 1).
template <class Begin> uint32_t owner_of(uint64_t e, Begin begin) {
    uint32_t i = 0;
    while (begin(i + 1) <= e)
        i++;
    return i;
}

// What element e of rank's OUT must be; of a reduction .tree means nothing.
Element expected(const Job &job, uint32_t rank, uint64_t e) {
    const gcoll_problem &p = job[rank].problem;
    auto block = [&](uint32_t i) { return block_begin(p, i); };
    switch (p.collective) {
    case GCOLL_BROADCAST:
        return contribution(p.root, 0, e);
    case GCOLL_SCATTER:
        return contribution(p.root, 0, block(rank) + e);
    case GCOLL_REDUCE_SCATTER:
        return left_fold(job, block(rank) + e);
    case GCOLL_ALLGATHER:
    case GCOLL_GATHER: {
        uint32_t owner = owner_of(e, block);
        return contribution(owner, 0, e - block(owner));
    }
    case GCOLL_ALLTOALL: {
        uint32_t owner = owner_of(e, [&](uint32_t i) { return from_begin(p, i); });
        return contribution(owner, 0, block_begin(job[owner].problem, rank) + e - from_begin(p, owner));
    }
    case GCOLL_PAIRWISE_EXCHANGE: {
        uint32_t chunks = p.exchanges;
        for (uint64_t reached = 1; p.exchanges == 0 && reached < p.size; reached *= 2)
            chunks++;
        if (chunks == 0)
            return contribution(rank, 0, e);
        uint32_t c = owner_of(e, [&](uint32_t i) { return begin_of(p.count, chunks, nullptr, i); });
        uint64_t partner = rank ^ (uint64_t{1} << c);
        return contribution(partner < p.size ? partner : rank, 0, e);
    }
    default:
        return left_fold(job, e);
    }
}

// Where element e of rank's OUT stands in the vector that is reduced.
uint64_t position_of(const gcoll_problem &p, uint64_t e) {
    return p.collective == GCOLL_REDUCE_SCATTER ? block_begin(p, p.rank) + e : e;
}

// In place, the input outside of the output's block stays as it was.
bool keeps_rest(const gcoll_problem &p, uint32_t k, const Data &memory) {
    const Extent in = input(p), out = output_of(p);
    for (uint64_t e = 0; p.in_place && in.shift == 0 && e < in.count; e++)
        if ((e < out.shift || e >= out.shift + out.count) && memory[e].sum != contribution(p.rank, k, e).sum)
            return false;
    return true;
}

} // namespace

Outcome execute(const Job &job, uint32_t seed, Buffering buffering) {
    Machine machine(job, seed, buffering);
    machine.run();
    Outcome outcome{false,
                    true,
                    true,
                    true,
                    true,
                    true,
                    machine.read_rubbish(),
                    machine.reduced_twice(),
                    machine.divided_early(),
                    machine.misplaced()};
    bool folded = true, paired = true;
    for (uint32_t r = 0; r < job.size(); r++) {
        const gcoll_problem &p = job[r].problem;
        const Extent out = output_of(p);
        outcome.deadlock = outcome.deadlock || !machine.finished(r);
        for (uint32_t k = 0; k < p.buffers; k++) {
            outcome.right = outcome.right && keeps_rest(p, k, machine.output(r, k));
            for (uint64_t e = 0; e < out.count; e++) {
                const Element want = expected(job, r, e), got = machine.output(r, k)[e + out.shift];
                outcome.right = outcome.right && got.sum == want.sum;
                outcome.ordered = outcome.ordered && got.word == want.word && got.power == want.power;
                if (p.collective == GCOLL_ALLREDUCE)
                    outcome.rank_identical =
                        outcome.rank_identical && got.tree == machine.output(0, 0)[e].tree;
                if (!reduces(p))
                    continue;
                folded = folded && got.tree == left_fold(job, position_of(p, e)).tree;
                paired = paired && got.tree == neighbours(job, position_of(p, e)).tree;
            }
        }
    }
    outcome.left = folded;
    outcome.pairs = paired;
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
