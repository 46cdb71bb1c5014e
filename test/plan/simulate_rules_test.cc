// What every timeline and critical path must obey, whatever the plan: checked from the plans themselves.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "test/kit/sanitizer.h"
#include "test/plan/simulate_support.h"

namespace gcoll_test {
namespace {

constexpr double kTick = 1.5e-12; // a picosecond, and the rounding of a difference

bool Sends(const gcoll_step &s) {
    return s.kind == GCOLL_STEP_SEND;
}
bool Receives(const gcoll_step &s) {
    return s.kind == GCOLL_STEP_RECV || s.kind == GCOLL_STEP_RECV_REDUCE;
}

// A run with its timeline, by step: the message (SEND or RECV event) and the work (others).
struct Timeline {
    const std::vector<Plan> &plans;
    const gcoll_simulate_options &options;
    Simulation run;
    std::vector<std::vector<const gcoll_simulate_event *>> message, work;
    std::vector<std::vector<double>> ends;
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> receives; // from, to, message -> step

    Timeline(const std::vector<Plan> &all, gcoll_simulate_options &o)
        : plans(all), options(o), message(all.size()), work(all.size()), ends(all.size()) {
        o.timeline = true;
        run = Simulate(plans, o);
        for (uint32_t r = 0; r < plans.size(); r++) {
            message[r].resize(plans[r]->step_count);
            work[r].resize(plans[r]->step_count);
            for (uint32_t i = 0; i < plans[r]->step_count; i++)
                if (Receives(plans[r]->steps[i]))
                    receives[{plans[r]->steps[i].peer, r, plans[r]->steps[i].message}] = i;
        }
        for (uint64_t k = 0; run && k < run->event_count; k++) {
            const gcoll_simulate_event &e = run->events[k];
            bool moves = e.kind == GCOLL_SIMULATE_SEND || e.kind == GCOLL_SIMULATE_RECV;
            (moves ? message : work)[e.rank][e.step] = &e;
        }
        for (uint32_t r = 0; run && r < plans.size(); r++)
            FindEnds(r);
    }

    // A fence has no event, as it takes no time: it is done when what it waits for is.
    void FindEnds(uint32_t r) {
        const gcoll_plan &plan = *plans[r];
        ends[r].resize(plan.step_count);
        for (uint32_t i = 0; i < plan.step_count; i++) {
            const gcoll_simulate_event *last = work[r][i] ? work[r][i] : message[r][i];
            if (last)
                ends[r][i] = last->end;
            for (uint32_t k = 0; k < plan.steps[i].successors; k++) {
                double &end = ends[r][plan.successors[plan.steps[i].first_successor + k]];
                end = std::max(end, ends[r][i]);
            }
        }
    }

    double Arrival(uint32_t rank) const { return options.arrival ? options.arrival[rank] : 0; }
    double Slowness(uint32_t rank) const { return options.slowness ? options.slowness[rank] : 1; }
    bool SameNode(uint32_t a, uint32_t b) const {
        return options.ranks_per_node && a / options.ranks_per_node == b / options.ranks_per_node;
    }
    // When a step was done, at the earliest.
    double End(uint32_t rank, uint32_t i) const { return ends[rank][i]; }
    // A fence has no event.
    double Begin(uint32_t rank, uint32_t i) const {
        const gcoll_simulate_event *first = message[rank][i] ? message[rank][i] : work[rank][i];
        return first ? first->begin : run->time;
    }
};

// Every step once, of the right kind and size, after all it depends on and within its window.
void CheckSteps(const Timeline &t) {
    for (uint32_t r = 0; r < t.plans.size(); r++) {
        const gcoll_plan &plan = *t.plans[r];
        for (uint32_t i = 0; i < plan.step_count; i++) {
            const gcoll_step &s = plan.steps[i];
            bool fence = s.kind == GCOLL_STEP_COPY && s.count == 0;
            ASSERT_EQ(Sends(s) || Receives(s), t.message[r][i] != nullptr);
            ASSERT_TRUE(s.kind == GCOLL_STEP_SEND || s.kind == GCOLL_STEP_RECV || fence || t.work[r][i]);
            bool early = Receives(s) && t.options.eager_bytes; // may come in before it is wanted
            if (!early) {
                ASSERT_GE(t.Begin(r, i), t.Arrival(r) - kTick);
                for (uint32_t k = 0; plan.window != GCOLL_WINDOW_UNBOUNDED && k < i; k++)
                    if (plan.steps[k].round + plan.window < s.round)
                        ASSERT_GE(t.Begin(r, i), t.End(r, k)) << "rank " << r << " step " << i;
            }
            for (uint32_t k = 0; k < s.successors; k++) {
                uint32_t next = plan.successors[s.first_successor + k];
                bool next_early = Receives(plan.steps[next]) && t.options.eager_bytes;
                if (!next_early)
                    ASSERT_GE(t.Begin(r, next), t.End(r, i)) << "rank " << r << " step " << next;
            }
        }
    }
}

// How many messages of the same round to the same peer, pieces of one message, began before this one and when
// it did. A segment that goes on where the one before it ends is no piece: it was cut.
std::pair<int, int> Pieces(const Timeline &t, uint32_t rank, uint32_t i) {
    const gcoll_plan &plan = *t.plans[rank];
    std::vector<uint32_t> pieces;
    bool found = false;
    for (uint32_t k = 0; k < plan.step_count; k++) {
        const gcoll_step &s = plan.steps[k];
        if (!Sends(s) || s.peer != plan.steps[i].peer || s.round != plan.steps[i].round)
            continue;
        const gcoll_step *last = pieces.empty() ? nullptr : &plan.steps[pieces.back()];
        if (last && plan.problem.segment > 0 && last->count == plan.problem.segment &&
            last->a.space == s.a.space && last->a.offset + last->count == s.a.offset) {
            if (found)
                break;
            pieces.clear();
        }
        pieces.push_back(k);
        found = found || k == i;
    }
    int before = 0, with = 0;
    for (uint32_t k : pieces) {
        before += k != i && t.message[rank][k]->begin < t.message[rank][i]->begin;
        with += k != i && t.message[rank][k]->begin == t.message[rank][i]->begin;
    }
    return {before, with};
}

// Both ends of a message hold their ports for as long as it takes, `latency` apart; work takes what it
// should.
void CheckDurations(const Timeline &t) {
    const gcoll_simulate_options &o = t.options;
    for (uint32_t r = 0; r < t.plans.size(); r++)
        for (uint32_t i = 0; i < t.plans[r]->step_count; i++) {
            const gcoll_step &s = t.plans[r]->steps[i];
            double bytes = double(s.count) * o.type_bytes;
            if (Sends(s)) {
                const gcoll_simulate_link &link = t.SameNode(r, s.peer) ? o.host : o.network;
                const gcoll_simulate_event &send = *t.message[r][i];
                const gcoll_simulate_event &recv = *t.message[s.peer][t.receives.at({r, s.peer, s.message})];
                double slow = std::max(t.Slowness(r), t.Slowness(s.peer));
                auto [before, with] = Pieces(t, r, i);
                double start_up = before ? 0 : link.alpha - link.latency;
                if (!before && with && send.end - send.begin < slow * (start_up + link.beta * bytes) - kTick)
                    start_up = 0; // another one that began at the same time pays
                double hold = slow * (start_up + link.beta * bytes);
                ASSERT_NEAR(hold, send.end - send.begin, kTick);
                ASSERT_NEAR(hold, recv.end - recv.begin, kTick);
                ASSERT_NEAR(link.latency, recv.begin - send.begin, kTick);
                ASSERT_EQ(bytes, double(send.bytes));
                ASSERT_EQ(r, recv.peer);
                ASSERT_LE(send.ready, send.begin);
            } else if (s.kind == GCOLL_STEP_RECV_REDUCE || s.kind == GCOLL_STEP_REDUCE) {
                const gcoll_simulate_event &work = *t.work[r][i];
                ASSERT_NEAR(t.Slowness(r) * o.gamma * bytes, work.end - work.begin, kTick);
                ASSERT_LE(work.ready, work.begin + kTick);
            } else if (t.work[r][i] && t.work[r][i]->kind == GCOLL_SIMULATE_COPY_OUT) {
                const gcoll_simulate_event &work = *t.work[r][i];
                ASSERT_NEAR(o.device.alpha + o.device.out * bytes, work.end - work.begin, kTick);
            }
        }
}

// Nothing overlaps on one port, or on one processor; ports are as many as there are.
void CheckPorts(const Timeline &t) {
    std::map<std::tuple<uint32_t, int, uint32_t>, double> free; // rank, kind, port -> since when
    for (uint64_t k = 0; k < t.run->event_count; k++) {
        const gcoll_simulate_event &e = t.run->events[k];
        bool moves = e.kind == GCOLL_SIMULATE_SEND || e.kind == GCOLL_SIMULATE_RECV;
        if (k > 0)
            ASSERT_LE(t.run->events[k - 1].begin, e.begin);
        if (moves)
            ASSERT_LT(e.port, t.options.ports ? t.options.ports : 1);
        if (e.begin == e.end) // holds nothing
            continue;
        bool by_device = e.device != GCOLL_SIMULATE_NOBODY;
        ASSERT_EQ(by_device, e.kind >= GCOLL_SIMULATE_COPY_IN);
        int lane = moves ? e.kind : !by_device ? -1 : std::min<int>(e.kind, GCOLL_SIMULATE_FOLD);
        double &since = free[{e.rank, lane, moves ? e.port : by_device ? e.device : 0}];
        ASSERT_GE(e.begin, since) << "rank " << e.rank << " step " << e.step;
        since = std::max(since, e.end);
    }
}

// Messages between nodes: never more at once than the nodes have ports.
void CheckNodePorts(const Timeline &t) {
    if (t.options.node_ports == 0)
        return;
    std::map<std::pair<uint32_t, int>, std::vector<std::pair<double, int>>> changes; // node, kind
    for (uint64_t k = 0; k < t.run->event_count; k++) {
        const gcoll_simulate_event &e = t.run->events[k];
        bool moves = e.kind == GCOLL_SIMULATE_SEND || e.kind == GCOLL_SIMULATE_RECV;
        if (!moves || t.SameNode(e.rank, e.peer) || e.begin == e.end)
            continue;
        auto &list = changes[{e.rank / t.options.ranks_per_node, int(e.kind)}];
        list.emplace_back(e.begin, 1);
        list.emplace_back(e.end, -1);
    }
    for (auto &[node, list] : changes) {
        std::sort(list.begin(), list.end()); // at one time, ends come first
        int now = 0;
        for (auto [time, change] : list)
            ASSERT_LE(now += change, int(t.options.node_ports));
    }
}

using Intervals = std::vector<std::pair<double, double>>;

// When all of `ports` are held by some of these events.
Intervals Saturated(const std::vector<const gcoll_simulate_event *> &events, uint32_t ports) {
    std::vector<std::pair<double, int>> changes;
    for (const gcoll_simulate_event *e : events)
        if (e->begin < e->end) {
            changes.emplace_back(e->begin, 1);
            changes.emplace_back(e->end, -1);
        }
    std::sort(changes.begin(), changes.end());
    Intervals all;
    uint32_t held = 0;
    for (size_t i = 0; i < changes.size(); i++) {
        held += uint32_t(changes[i].second);
        if (held >= ports && i + 1 < changes.size())
            all.emplace_back(changes[i].first, changes[i + 1].first);
    }
    return all;
}

// No message waits while all the ports that it needs are free. (Where latencies differ, a message under way
// may hold a receive port for later.)
void CheckNoNeedlessWait(const Timeline &t) {
    const gcoll_simulate_options &o = t.options;
    if (o.ranks_per_node && o.host.latency != o.network.latency)
        return;
    const uint32_t nodes = o.node_ports ? o.ranks_per_node : 0;
    std::map<std::pair<uint32_t, int>, std::vector<const gcoll_simulate_event *>> rank_events, node_events;
    for (uint64_t k = 0; k < t.run->event_count; k++) {
        const gcoll_simulate_event &e = t.run->events[k];
        if (e.kind != GCOLL_SIMULATE_SEND && e.kind != GCOLL_SIMULATE_RECV)
            continue;
        rank_events[{e.rank, int(e.kind)}].push_back(&e);
        if (nodes && !t.SameNode(e.rank, e.peer))
            node_events[{e.rank / nodes, int(e.kind)}].push_back(&e);
    }
    std::map<std::pair<uint32_t, int>, Intervals> ranks_full, nodes_full;
    for (auto &[key, events] : rank_events)
        ranks_full[key] = Saturated(events, o.ports ? o.ports : 1);
    for (auto &[key, events] : node_events)
        nodes_full[key] = Saturated(events, o.node_ports);
    for (auto &[key, events] : rank_events)
        for (const gcoll_simulate_event *send : events) {
            if (send->kind != GCOLL_SIMULATE_SEND)
                continue;
            const gcoll_step &s = t.plans[send->rank]->steps[send->step];
            const gcoll_simulate_event *recv =
                t.message[s.peer][t.receives.at({send->rank, s.peer, s.message})];
            bool early = o.eager_bytes && send->bytes <= o.eager_bytes;
            double at = early ? send->ready : std::max(send->ready, recv->ready);
            Intervals full = ranks_full[{send->rank, GCOLL_SIMULATE_SEND}];
            auto add = [&](const Intervals &more, double shift) {
                for (auto [begin, end] : more)
                    full.emplace_back(begin - shift, end - shift);
            };
            const double latency = recv->begin - send->begin;
            add(ranks_full[{s.peer, GCOLL_SIMULATE_RECV}], latency);
            if (nodes && !t.SameNode(send->rank, s.peer)) {
                add(nodes_full[{send->rank / nodes, GCOLL_SIMULATE_SEND}], 0);
                add(nodes_full[{s.peer / nodes, GCOLL_SIMULATE_RECV}], latency);
            }
            std::sort(full.begin(), full.end());
            for (auto [begin, end] : full)
                if (begin <= at + 2 * kTick)
                    at = std::max(at, end);
            ASSERT_LE(send->begin, at + 2 * kTick) << "rank " << send->rank << " step " << send->step;
        }
}

// The path runs from the end to 0 without a gap, along things that are there.
void CheckPath(const Timeline &t) {
    const gcoll_simulation &run = *t.run;
    double at = run.time;
    for (uint64_t k = 0; k < run.path_count; k++) {
        const gcoll_simulate_piece &p = run.path[k];
        ASSERT_EQ(at, p.end);
        ASSERT_LT(p.begin, p.end);
        at = p.begin;
        if (p.kind == GCOLL_SIMULATE_ARRIVAL) {
            ASSERT_EQ(k + 1, run.path_count);
            ASSERT_NEAR(t.Arrival(p.rank), p.end, kTick);
            continue;
        }
        bool moves = p.kind == GCOLL_SIMULATE_SEND || p.kind == GCOLL_SIMULATE_RECV;
        const gcoll_simulate_event *e = (moves ? t.message : t.work)[p.rank][p.step];
        ASSERT_NE(nullptr, e);
        ASSERT_EQ(p.kind, e->kind);
        ASSERT_EQ(p.peer, e->peer);
        ASSERT_LE(p.begin, e->begin + kTick);
        ASSERT_LE(p.end, e->end + t.options.network.latency + kTick);
        if (p.reason == GCOLL_SIMULATE_BY_PORT) {
            ASSERT_LT(k + 1, run.path_count);
            ASSERT_EQ(GCOLL_SIMULATE_SEND, run.path[k + 1].kind);
        }
    }
    ASSERT_EQ(0.0, at);
}

void CheckTotals(const Timeline &t) {
    double last = 0, elapsed = 0;
    for (uint32_t r = 0; r < t.plans.size(); r++) {
        uint64_t sent = 0, received = 0;
        double finish = t.Arrival(r);
        for (uint32_t i = 0; i < t.plans[r]->step_count; i++) {
            const gcoll_step &s = t.plans[r]->steps[i];
            sent += Sends(s) ? s.count * t.options.type_bytes : 0;
            received += Receives(s) ? s.count * t.options.type_bytes : 0;
            finish = std::max(finish, t.End(r, i));
        }
        ASSERT_EQ(sent, t.run->sent_bytes[r]);
        ASSERT_EQ(received, t.run->received_bytes[r]);
        ASSERT_GE(t.run->finish[r], finish - kTick); // later if the processor was busy when a send had left
        last = std::max(last, t.run->finish[r]);
        elapsed += t.run->finish[r] - t.Arrival(r);
    }
    ASSERT_EQ(last, t.run->time);
    ASSERT_NEAR(elapsed / double(t.plans.size()), t.run->mean_elapsed, kTick);
}

struct Given {
    gcoll_simulate_options options;
    std::vector<double> arrival, slowness;
};

// Parameters at random: durations from nothing to much, so that ties and waits of all sorts come up.
void MakeUp(std::mt19937 &random, uint32_t size, Given *given) {
    auto pick = [&](std::initializer_list<double> from) { return *(from.begin() + random() % from.size()); };
    gcoll_simulate_options o;
    gcoll_simulate_options_init(&o);
    o.network = {pick({0, 1e-6, 3e-6}), pick({0, 1e-9, 7.3e-10}), 0};
    o.network.latency = o.network.alpha * pick({0, 0, 0.25, 1});
    o.gamma = pick({0, 1e-9, 2.5e-10});
    o.copy = pick({0, 0, 4e-10});
    o.device = {pick({0, 2e-6}), pick({0, 8e-10}), pick({0, 5e-10}), pick({0, 1e-11})};
    o.type_bytes = 4;
    o.ports = uint32_t(pick({0, 1, 2, 5}));
    o.eager_bytes = uint64_t(pick({0, 0, 64, 1e9}));
    if (random() % 2) {
        o.ranks_per_node = 1 + random() % (size + 1);
        o.host = {o.network.alpha / 3, o.network.beta / 2, 0};
        o.host.latency = std::min(o.host.alpha, o.network.latency * pick({0, 0.5, 1}));
        o.node_ports = uint32_t(pick({0, 1, 3}));
    }
    for (uint32_t r = 0; r < size; r++) {
        given->arrival.push_back(random() % 3 ? 0 : 1e-5 * double(random() % 4));
        given->slowness.push_back(random() % 4 ? 1 : 2.5);
    }
    o.arrival = random() % 2 ? given->arrival.data() : nullptr;
    o.slowness = random() % 2 ? given->slowness.data() : nullptr;
    given->options = o;
}

TEST(SimulateRules, HoldForEveryAlgorithm) {
    std::mt19937 random(7);
    for (const gcoll_algorithm *const *row = gcoll_algorithms; *row; row++)
        for (uint32_t size : {1u, 2u, 3u, 5u, 8u, 13u, 16u}) {
            const gcoll_algorithm &a = **row;
            uint64_t counts[] = {size * UINT64_C(300), size + 1, 1};
            gcoll_problem problem = Problem(a.collective, 0, size, counts[random() % 3]);
            problem.count = a.collective == GCOLL_BARRIER ? 0 : problem.count;
            problem.segment = random() % 3 ? 0 : random() % 2 ? 100 : 400;
            SetFallbacks(&problem, &a);
            const uint32_t memory[] = {GCOLL_DEVICE_MEMORY(0), GCOLL_DEVICE_MEMORY(uint32_t(random() % 2))};
            if (random() % 2)
                problem.in_memory = problem.out_memory = memory;
            problem.staging.whole = random() % 2;
            if (problem.in_memory && (a.collective == GCOLL_ALLREDUCE || a.collective == GCOLL_BROADCAST))
                problem.buffers = 2;
            if (a.applies && a.applies(&problem) != GCOLL_OK)
                continue;
            std::vector<Plan> plans = CreateAll(a, problem);
            ASSERT_TRUE(plans[0]) << a.name << " P=" << size << ": " << gcoll_last_error();
            for (int k = 0; k < 3; k++) {
                Given given;
                MakeUp(random, size, &given);
                SCOPED_TRACE(std::string(a.name) + " P=" + std::to_string(size));
                Timeline t(plans, given.options);
                ASSERT_TRUE(t.run) << gcoll_last_error();
                CheckSteps(t);
                CheckDurations(t);
                CheckPorts(t);
                CheckNodePorts(t);
                CheckNoNeedlessWait(t);
                CheckPath(t);
                CheckTotals(t);
                if (HasFatalFailure())
                    return;
            }
        }
}

TEST(SimulateRules, SameInputSameEvents) {
    std::mt19937 random(11);
    for (const char *name : {"ring", "group_butterfly"}) {
        gcoll_problem problem = Problem(GCOLL_ALLREDUCE, 0, 21, 2100);
        problem.option[0] = 0;
        for (int k = 0; k < 8; k++) {
            Given given;
            MakeUp(random, 21, &given);
            given.options.timeline = true;
            Simulation one = Simulate(CreateAll(name, problem), given.options);
            Simulation two = Simulate(CreateAll(name, problem), given.options);
            ASSERT_TRUE(one && two) << gcoll_last_error();
            ASSERT_GT(one->event_count, 0u);
            ASSERT_EQ(one->event_count, two->event_count);
            for (uint64_t i = 0; i < one->event_count; i++) {
                const gcoll_simulate_event &x = one->events[i], &y = two->events[i];
                ASSERT_EQ(std::tie(x.ready, x.begin, x.end, x.bytes, x.rank, x.step, x.peer, x.port, x.kind),
                          std::tie(y.ready, y.begin, y.end, y.bytes, y.rank, y.step, y.peer, y.port, y.kind));
            }
            ASSERT_EQ(one->path_count, two->path_count);
            given.options.timeline = false; // which changes nothing else
            Simulation three = Simulate(CreateAll(name, problem), given.options);
            ASSERT_EQ(one->time, three->time);
            ASSERT_EQ(nullptr, three->events);
        }
    }
}

TEST(SimulateRules, PathSaysWhatWasWaitedFor) {
    std::vector<Plan> plans = CreateAll("ring", Problem(GCOLL_ALLREDUCE, 0, 2, 2000));
    gcoll_simulate_options o = Options(1e-6, 0, 1e-9);
    std::vector<double> arrival{0, 5e-6};
    o.arrival = arrival.data();
    Simulation run = Simulate(plans, o);
    ASSERT_TRUE(run) << gcoll_last_error();
    // Two hops each way, the first with a reduction, and before that the wait for rank 1.
    ASSERT_EQ(4u, run->path_count);
    const gcoll_simulate_kind kinds[] = {GCOLL_SIMULATE_RECV, GCOLL_SIMULATE_REDUCE, GCOLL_SIMULATE_RECV,
                                         GCOLL_SIMULATE_ARRIVAL};
    for (int k = 0; k < 4; k++)
        EXPECT_EQ(kinds[k], run->path[k].kind);
    EXPECT_EQ(GCOLL_SIMULATE_BY_ARRIVAL, run->path[2].reason);
    EXPECT_EQ(1u, run->path[2].rank);
    EXPECT_EQ(1u, run->path[3].rank);
    EXPECT_EQ(GCOLL_SIMULATE_NOBODY, run->path[3].step);
    // A receiver that waited for its sender.
    plans = CreateAll("binomial", Problem(GCOLL_BROADCAST, 0, 2, 10));
    std::swap(arrival[0], arrival[1]);
    o.network.latency = 0.5e-6;
    run = Simulate(plans, o);
    ASSERT_EQ(2u, run->path_count);
    EXPECT_EQ(1u, run->path[0].rank);
    EXPECT_EQ(GCOLL_SIMULATE_BY_PEER, run->path[0].reason);
    EXPECT_EQ(0u, run->path[1].rank);
    // One port: whoever comes last waited for all others.
    plans = CreateAll("linear", Problem(GCOLL_GATHER, 0, 6, 6000));
    o.arrival = nullptr;
    run = Simulate(plans, o);
    ASSERT_EQ(5u, run->path_count);
    for (int k = 0; k < 4; k++)
        EXPECT_EQ(GCOLL_SIMULATE_BY_PORT, run->path[k].reason);
    EXPECT_EQ(GCOLL_SIMULATE_BY_ARRIVAL, run->path[4].reason);
    EXPECT_STREQ("reduce", gcoll_simulate_kind_name(GCOLL_SIMULATE_REDUCE));
    EXPECT_STREQ("peer", gcoll_simulate_reason_name(GCOLL_SIMULATE_BY_PEER));
    EXPECT_STREQ("?", gcoll_simulate_kind_name(GCOLL_SIMULATE_KIND_COUNT));
    EXPECT_STREQ("?", gcoll_simulate_reason_name(GCOLL_SIMULATE_REASON_COUNT));
}

TEST(SimulateRules, ThousandsOfRanksInSeconds) {
    auto begin = std::chrono::steady_clock::now();
    gcoll_problem problem =
        Problem(GCOLL_ALLREDUCE, 0, gcoll_test::is_short() ? 512 : 4096, UINT64_C(1) << 20);
    problem.option[0] = 3;
    Simulation run = Simulate(CreateAll("group_butterfly", problem), Options(1e-6, 1e-10, 1e-10));
    ASSERT_TRUE(run) << gcoll_last_error();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

} // namespace
} // namespace gcoll_test
