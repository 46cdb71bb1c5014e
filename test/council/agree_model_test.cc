// A model checker for the agreement: all states that ranks, their channels and their crashes can reach.
//
// A state is the machine of each rank, a FIFO channel for each ordered pair, and which ranks have crashed.
// From each state the checker tries every transition:
//   - a rank takes the message at the head of a channel, and sends all that follows from it;
//   - a rank crashes: between two steps, or in one, with any prefix of its messages out;
//   - a rank learns of a crash, at any time after it, and takes no more messages of the dead rank. As it may
//     learn before it takes the messages that wait, any suffix of them may be lost, as over TCP;
//   - by mistake, a rank thinks that a live one is gone. All mistakes are about one rank, or about any.
//     Or links break with all that is under way, and both ends may learn of that at any time;
//   - with several instances, a settled rank begins the next one. It holds back messages of later ones.
// A settled rank takes no message until it begins another instance, as one that has returned to its caller;
// with `stays` it goes on to take them, until it leaves at any time.
//
// All ranks begin at once: a message waits in its channel for a rank that begins late, and a crash that a
// rank learns of before its beginning makes the same machine as one that it learns of right after it.
//
// Machines and messages are numbered, and the result of a step is kept by these numbers. So each step of a
// machine is computed once, and a state is a few numbers. The set of states holds 63 bits of a hash of each.
//
// Two reductions, both sound. A CALL whose set its receiver has already changes nothing there, now or later:
// it is taken out of the channel at once. So are messages of a crashed rank to a rank that has learned of the
// crash.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "test/council/agree_peek.h"

namespace {

using namespace agree;

constexpr uint32_t kMost = 6; // ranks
constexpr uint32_t kInstances = 4;
constexpr uint32_t kDead = UINT32_MAX, kLeft = UINT32_MAX - 1;
constexpr size_t kRow = 3;
constexpr size_t kMostStates = 100000000; // 2 GiB

struct Config {
    uint32_t size, crashes;
    uint32_t instances = 1;
    bool stays = false; // settled ranks take messages, and leave at any time
    enum { None, OneVictim, AnyVictim, Links } mistakes = None;
    uint32_t mistakes_max = 0;
    bool reduces = true;
};

struct Message {
    Bytes bytes;
    uint32_t set;
    uint64_t instance;
};

struct Step {
    uint32_t machine = 0;
    bool is_between = false; // two instances, of which the accord of the first has counted
    uint16_t accord = 0;     // on which the rank has decided by then; 0: none
    std::vector<std::pair<uint8_t, uint16_t>> sends;
};

// All machines, messages and accords that have come up, by number.
class World {
  public:
    explicit World(const Config &given) : config(given) {}

    struct Entry {
        Machine machine;
        uint32_t gone;
        bool takes; // messages
    };

    enum What { Begins, Loses, Takes };

    Step begin(uint32_t rank, uint64_t instance, const Bytes &gone) {
        Step made;
        Machine machine(rank, config.size, instance, gone);
        const Contribution given = contribution(rank, instance, 0, kRow);
        attach(machine, made);
        if (!gcoll_agree_begin(&machine.a, given.bits, given.number, given.row.data(), given.row.size()))
            fail("begin fails");
        finish(std::move(machine), made);
        return made;
    }

    const Step &step(uint32_t before, What what, uint32_t peer, uint32_t message) {
        const uint64_t key = static_cast<uint64_t>(before) << 24 | what << 20 | peer << 16 | message;
        auto found = steps_.find(key);
        if (found != steps_.end())
            return found->second;
        Machine machine = machines[before].machine;
        if (what == Begins)
            return steps_.emplace(key, begin(machine.a.rank, machine.a.instance + 1, machine.gone()))
                .first->second;
        Step made;
        attach(machine, made);
        if (what == Loses && !takes(machine.a)) {
            machine.set_gone(peer);
            made.is_between = true;
        } else if (what == Loses) {
            gcoll_agree_lose(&machine.a, peer);
        } else {
            const Bytes bytes = messages[message].bytes;
            const char *text = gcoll_agree_take(&machine.a, peer, bytes.data(), bytes.size());
            if (text)
                fail(std::string("take: ") + text);
        }
        finish(std::move(machine), made);
        return steps_.emplace(key, std::move(made)).first->second;
    }

    const Config config;
    std::vector<Entry> machines;
    std::vector<Message> messages;
    std::vector<uint32_t> accords{0}; // the set of ranks gone in each

  private:
    struct Sender {
        World *world;
        Step *step;
    } sender_ = {};

    void attach(Machine &machine, Step &step) {
        sender_ = {this, &step};
        machine.a.arg = &sender_;
        machine.a.send = [](void *arg, uint32_t to, const uint8_t *bytes, size_t count) {
            Sender &sender = *static_cast<Sender *>(arg);
            sender.step->sends.emplace_back(static_cast<uint8_t>(to),
                                            sender.world->number(Bytes(bytes, bytes + count)));
            return true;
        };
    }

    uint16_t number(const Bytes &bytes) {
        const auto made = message_numbers_.emplace(bytes, static_cast<uint16_t>(messages.size()));
        if (made.second) {
            if (messages.size() == UINT16_MAX)
                fail("too many messages");
            messages.push_back({bytes, bytes[kHead], gcoll_agree_instance_of(bytes.data(), bytes.size())});
        }
        return made.first->second;
    }

    static void put(Bytes &to, uint64_t value) {
        for (int i = 0; i < 8; i++)
            to.push_back(static_cast<uint8_t>(value >> 8 * i));
    }
    static void put(Bytes &to, const gcoll_agree_bytes &bytes) {
        put(to, bytes.count);
        to.insert(to.end(), bytes.data, bytes.data + bytes.count);
    }

    // Tells a machine from all others. Of one that takes nothing any more, only its place and its set count.
    Bytes text_of(const Machine &machine) const {
        const gcoll_agree &a = machine.a;
        Bytes text;
        put(text, a.rank);
        put(text, a.instance);
        put(text, machine.gone()[0]);
        put(text, uint64_t{a.settled} << 1 | uint64_t{a.is_left_out});
        if (!takes(a))
            return text;
        put(text, uint64_t{a.leader} << 32 | a.ballot);
        put(text, uint64_t{a.teller} << 32 | a.best_ballot);
        put(text, uint64_t{a.decided} << 1 | uint64_t{a.proposed});
        put(text, a.accord);
        put(text, a.best);
        for (uint32_t rank = 0; a.voices && rank < a.size; rank++) {
            const gcoll_agree_voice &voice = a.voices[rank];
            put(text,
                uint64_t{voice.contributed} << 2 | uint64_t{voice.accepted} << 1 | uint64_t{voice.decided});
            put(text, voice.bits);
            put(text, voice.number);
            put(text, voice.row);
        }
        return text;
    }

    bool takes(const gcoll_agree &a) const { return !a.is_left_out && (!a.settled || config.stays); }

    void finish(Machine machine, Step &step) {
        const gcoll_agree &a = machine.a;
        if (a.failed)
            fail("a machine failed");
        const std::string wrong = wrong_waits(a);
        if (!wrong.empty())
            fail("rank " + std::to_string(a.rank) + " " + wrong);
        step.accord = a.decided && !step.is_between ? number(a) : static_cast<uint16_t>(0);
        const auto made = machine_numbers_.emplace(text_of(machine), static_cast<uint32_t>(machines.size()));
        step.machine = made.first->second;
        if (made.second) {
            const bool does_take = takes(a);
            const uint32_t gone = machine.gone()[0];
            machines.push_back({std::move(machine), gone, does_take});
        }
    }

    uint16_t number(const gcoll_agree &a) {
        Bytes text;
        put(text, a.instance);
        put(text, a.accord);
        const auto made = accord_numbers_.emplace(text, static_cast<uint16_t>(accords.size()));
        if (!made.second)
            return made.first->second;
        const std::string wrong = wrong_accord(a.accord, a.size, a.instance, 0, kRow);
        if (!wrong.empty())
            fail("an accord in which is wrong: " + wrong);
        uint32_t gone = 0;
        for (uint32_t rank = 0; rank < a.size; rank++)
            gone |= uint32_t{gcoll_accord_is_gone(&a.accord, rank)} << rank;
        accords.push_back(gone);
        return made.first->second;
    }

    std::map<Bytes, uint32_t> machine_numbers_;
    std::map<Bytes, uint16_t> message_numbers_, accord_numbers_;
    std::unordered_map<uint64_t, Step> steps_;
};

struct Channel {
    uint8_t count = 0;
    std::array<uint16_t, 15> messages = {};

    void push(uint16_t message) {
        if (count == messages.size())
            fail("a channel is full");
        messages[count++] = message;
    }
    void remove(uint32_t at) {
        std::copy(messages.begin() + at + 1, messages.begin() + count, messages.begin() + at);
        count--;
    }
};

struct State {
    std::array<uint32_t, kMost> machine = {};
    // By instance, on which accord ranks have decided: without mistakes, all of them; else by rank.
    std::array<std::array<uint16_t, kMost>, kInstances> accord = {};
    uint8_t crashes = 0, mistakes = 0, victim = 0;
    std::array<uint8_t, kMost> broken = {};                     // links, by rank: to which ranks
    std::array<std::array<Channel, kMost>, kMost> channel = {}; // from, to
};

struct Transition {
    enum Kind : uint8_t { Take, Learn, Suspect, Begin, Leave, Break, Crash } kind;
    uint8_t rank, peer;
    uint8_t prefix; // the messages that get out before the rank crashes; kWhole: it does not
};
constexpr uint8_t kWhole = UINT8_MAX;

// The set of states that have come up: hashes, of which the lowest bit says whether the state is on the path.
class Seen {
  public:
    Seen() : table_(1 << 16) {}

    // Returns whether the state is new, or on the path.
    enum Found { New, OnPath, Done };
    Found add(uint64_t hash) {
        if (count_ * 2 > table_.size())
            grow();
        uint64_t &place = find(table_, hash | 1);
        if (place)
            return place & 1 ? OnPath : Done;
        place = hash | 1;
        count_++;
        return New;
    }
    void leave(uint64_t hash) { find(table_, hash | 1) &= ~1ULL; }
    size_t count() const { return count_; }

  private:
    static uint64_t &find(std::vector<uint64_t> &table, uint64_t hash) {
        size_t at = (hash >> 20) & (table.size() - 1);
        while (table[at] && (table[at] | 1) != hash)
            at = (at + 1) & (table.size() - 1);
        return table[at];
    }
    void grow() {
        std::vector<uint64_t> larger(table_.size() * 2);
        for (const uint64_t hash : table_)
            if (hash)
                find(larger, hash | 1) = hash;
        table_.swap(larger);
    }

    std::vector<uint64_t> table_;
    size_t count_ = 0;
};

struct Report {
    size_t states = 0, ends = 0, machines = 0, messages = 0, accords = 0;
    // Of ends with suspicions: those in which a live rank that is not left out waits for ever, and those in
    // which two that are not left out differ.
    size_t stuck = 0, left_out = 0;
    std::array<size_t, 3> differ = {};
    std::string failure, way; // way: to the first of those
};

class Checker {
  public:
    explicit Checker(const Config &config) : config_(config), world_(config) {}

    Report run() {
        try {
            search();
        } catch (const std::exception &error) {
            report_.failure = std::string(error.what()) + "\n" + trace();
        }
        report_.states = seen_.count();
        report_.machines = world_.machines.size();
        report_.messages = world_.messages.size();
        report_.accords = world_.accords.size() - 1;
        return report_;
    }

  private:
    struct Frame {
        State state;
        uint64_t hash;
        std::vector<Transition> transitions;
        size_t next;
    };

    void search() {
        State first;
        for (uint32_t rank = 0; rank < config_.size; rank++) {
            const Step step = world_.begin(rank, 1, Bytes(1));
            first.machine[rank] = step.machine;
            for (const auto &sent : step.sends)
                first.channel[rank][sent.first].push(sent.second);
        }
        tidy(first);
        enter(first);
        while (!path_.empty()) {
            Frame &top = path_.back();
            if (top.next == top.transitions.size()) {
                seen_.leave(top.hash);
                path_.pop_back();
                continue;
            }
            State after = top.state;
            apply(after, top.transitions[top.next++]);
            tidy(after);
            enter(after);
        }
    }

    void enter(const State &state) {
        const uint64_t hash = hash_of(state);
        const Seen::Found found = seen_.add(hash);
        if (found == Seen::OnPath)
            fail("a circle: ranks send to one another without end");
        if (found == Seen::Done)
            return;
        if (seen_.count() > kMostStates)
            fail("more states than this is made for");
        path_.push_back({state, hash, {}, 0});
        list(path_.back().state, path_.back().transitions);
    }

    bool is_in(const State &state, uint32_t rank) const { return state.machine[rank] < kLeft; }
    const World::Entry &entry(const State &state, uint32_t rank) const {
        return world_.machines[state.machine[rank]];
    }
    uint64_t instance(const State &state, uint32_t rank) const {
        return entry(state, rank).machine.a.instance;
    }
    bool is_settled(const State &state, uint32_t rank) const { return entry(state, rank).machine.a.settled; }
    bool is_left_out(const State &state, uint32_t rank) const {
        return is_in(state, rank) && entry(state, rank).machine.a.is_left_out;
    }

    // All transitions; those of a rank that can crash come in all lengths.
    void list(const State &state, std::vector<Transition> &all) {
        bool is_end = true;
        for (uint8_t rank = 0; rank < config_.size; rank++) {
            if (!is_in(state, rank))
                continue;
            const bool takes = entry(state, rank).takes;
            const bool is_between = is_settled(state, rank) && instance(state, rank) < config_.instances;
            for (uint8_t peer = 0; (takes || is_between) && peer < config_.size; peer++) {
                const Channel &channel = state.channel[peer][rank];
                const bool is_gone = entry(state, rank).gone >> peer & 1;
                if (takes && channel.count &&
                    world_.messages[channel.messages[0]].instance <= instance(state, rank))
                    list_step(state, {Transition::Take, rank, peer, kWhole}, all, is_end);
                if (!is_gone && (state.machine[peer] == kDead || is_left_out(state, peer) ||
                                 is_broken(state, rank, peer)))
                    list_step(state, {Transition::Learn, rank, peer, kWhole}, all, is_end);
                else if (!is_gone && peer != rank && is_in(state, peer) &&
                         state.mistakes < config_.mistakes_max)
                    list_mistake(state, rank, peer, all, is_end);
            }
            if (is_between)
                list_step(state, {Transition::Begin, rank, 0, kWhole}, all, is_end);
            if (is_settled(state, rank) && config_.stays)
                all.push_back({Transition::Leave, rank, 0, kWhole});
            if (state.crashes < config_.crashes)
                all.push_back({Transition::Crash, rank, 0, 0});
        }
        if (is_end)
            look_at_end(state);
    }

    void list_mistake(const State &state, uint8_t rank, uint8_t peer, std::vector<Transition> &all,
                      bool &is_end) {
        if (config_.mistakes == Config::Links)
            all.push_back({Transition::Break, rank, peer, kWhole});
        else if (config_.mistakes == Config::AnyVictim || state.mistakes == 0 || state.victim == peer)
            list_step(state, {Transition::Suspect, rank, peer, kWhole}, all, is_end);
    }

    static bool is_broken(const State &state, uint32_t rank, uint32_t peer) {
        return state.broken[rank] >> peer & 1;
    }

    void list_step(const State &state, Transition transition, std::vector<Transition> &all, bool &is_end) {
        if (transition.kind != Transition::Suspect)
            is_end = false;
        all.push_back(transition);
        const size_t sends = step_of(state, transition).sends.size();
        for (size_t prefix = 1; prefix < sends && state.crashes < config_.crashes; prefix++) {
            transition.prefix = static_cast<uint8_t>(prefix);
            all.push_back(transition);
        }
    }

    const Step &step_of(const State &state, const Transition &t) {
        const uint32_t machine = state.machine[t.rank];
        if (t.kind == Transition::Take)
            return world_.step(machine, World::Takes, t.peer, state.channel[t.peer][t.rank].messages[0]);
        if (t.kind == Transition::Begin)
            return world_.step(machine, World::Begins, 0, 0);
        return world_.step(machine, World::Loses, t.peer, 0);
    }

    void apply(State &state, const Transition &t) {
        if (t.kind == Transition::Crash) {
            crash(state, t.rank);
            return;
        }
        if (t.kind == Transition::Leave) {
            state.machine[t.rank] = kLeft;
            return;
        }
        if (t.kind == Transition::Break) {
            state.mistakes++;
            state.broken[t.rank] = static_cast<uint8_t>(state.broken[t.rank] | 1U << t.peer);
            state.broken[t.peer] = static_cast<uint8_t>(state.broken[t.peer] | 1U << t.rank);
            return;
        }
        const Step &step = step_of(state, t);
        if (t.kind == Transition::Take)
            state.channel[t.peer][t.rank].remove(0);
        if (t.kind == Transition::Suspect) {
            state.mistakes++;
            state.victim = config_.mistakes == Config::OneVictim ? t.peer : uint8_t{0};
        }
        for (size_t i = 0; i < step.sends.size() && i < t.prefix; i++) {
            const uint32_t to = step.sends[i].first;
            if (is_in(state, to))
                state.channel[t.rank][to].push(step.sends[i].second);
        }
        state.machine[t.rank] = step.machine;
        if (step.accord)
            decide(state, t.rank, step.accord);
        if (t.prefix != kWhole)
            crash(state, t.rank);
    }

    // Also what a rank decides that dies in the same step counts.
    void decide(State &state, uint32_t rank, uint16_t accord) {
        const uint32_t place = config_.mistakes ? rank : 0;
        uint16_t &first = state.accord[instance(state, rank) - 1][place];
        if (first && first != accord)
            fail("two accords");
        first = accord;
        if (config_.mistakes)
            return;
        for (uint32_t other = 0; other < config_.size; other++)
            if (world_.accords[accord] >> other & 1 && state.machine[other] != kDead)
                fail("the accord counts a rank as gone that is not");
    }

    void crash(State &state, uint32_t rank) {
        state.machine[rank] = kDead;
        state.crashes++;
    }

    // Takes away what makes no difference any more.
    void tidy(State &state) const {
        for (uint32_t to = 0; to < config_.size; to++) {
            const bool is_deaf =
                !is_in(state, to) || (!entry(state, to).takes &&
                                      (is_left_out(state, to) || instance(state, to) == config_.instances));
            for (uint32_t from = 0; from < config_.size; from++) {
                Channel &channel = state.channel[from][to];
                if (is_deaf || is_broken(state, from, to) ||
                    (state.machine[from] == kDead && entry(state, to).gone >> from & 1)) {
                    channel.count = 0;
                    continue;
                }
                if (config_.mistakes || !config_.reduces)
                    continue; // with mistakes, a call of a rank that is thought to be gone is answered
                for (uint32_t i = channel.count; i-- > 0;) {
                    const Message &message = world_.messages[channel.messages[i]];
                    if (message.bytes[0] == Call && !(message.set & ~entry(state, to).gone))
                        channel.remove(i);
                }
            }
        }
    }

    void look_at_end(const State &state) {
        report_.ends++;
        for (uint32_t rank = 0; rank < config_.size; rank++) {
            if (!is_in(state, rank) || is_settled(state, rank))
                continue;
            if (!config_.mistakes)
                fail("rank " + std::to_string(rank) + " waits for ever");
            if (is_left_out(state, rank))
                report_.left_out++;
            else
                report_.stuck++;
            if (report_.stuck == 1 && report_.way.empty())
                report_.way = trace();
        }
        for (uint32_t rank = 0; config_.mistakes && rank < config_.size; rank++)
            for (uint32_t other = 0; other < rank; other++)
                if (is_in(state, rank) && is_in(state, other) && do_differ(state, rank, other))
                    report_.differ[thinks_gone(state, rank, other) + thinks_gone(state, other, rank)]++;
    }

    static bool do_differ(const State &state, uint32_t rank, uint32_t other) {
        for (const auto &accord : state.accord)
            if (accord[rank] && accord[other] && accord[rank] != accord[other])
                return true;
        return false;
    }

    bool thinks_gone(const State &state, uint32_t rank, uint32_t other) const {
        return entry(state, rank).gone >> other & 1;
    }

    // The way to the last state, a line for each transition.
    std::string trace() {
        std::string text;
        for (const Frame &frame : path_) {
            if (frame.next == 0)
                break;
            const Transition &t = frame.transitions[frame.next - 1];
            static const char *const kinds[] = {"takes",  "learns of",   "suspects", "begins",
                                                "leaves", "breaks with", "crashes"};
            text += "rank " + std::to_string(t.rank) + " " + kinds[t.kind];
            if (t.kind == Transition::Take)
                text += std::string(" ") +
                        name_of(world_.messages[frame.state.channel[t.peer][t.rank].messages[0]].bytes[0]) +
                        " of";
            if (t.kind <= Transition::Suspect || t.kind == Transition::Break)
                text += " rank " + std::to_string(t.peer);
            if (t.kind < Transition::Leave) {
                text += ", sends";
                size_t sent = 0;
                for (const auto &each : step_of(frame.state, t).sends)
                    text += (sent++ == t.prefix ? std::string(" (crash)") : "") + " " +
                            name_of(world_.messages[each.second].bytes[0]) + ">" + std::to_string(each.first);
            }
            text += "\n";
        }
        return text;
    }

    uint64_t hash_of(const State &state) const {
        uint64_t hash = mix(state.crashes, state.mistakes, state.victim);
        for (uint32_t rank = 0; rank < config_.size; rank++) {
            hash = mix(hash, state.machine[rank], state.broken[rank]);
            for (const auto &accord : state.accord)
                hash = mix(hash, accord[rank], 0);
            for (uint32_t to = 0; to < config_.size; to++) {
                const Channel &channel = state.channel[rank][to];
                hash = mix(hash, channel.count, rank << 4 | to);
                for (uint32_t i = 0; i < channel.count; i++)
                    hash = mix(hash, channel.messages[i], i);
            }
        }
        return hash;
    }

    const Config config_;
    World world_;
    Seen seen_;
    std::vector<Frame> path_;
    Report report_;
};

Report check(const Config &config) {
    const Report report = Checker(config).run();
    static const char *const mistakes[] = {"mistakes", "mistakes about one rank", "mistakes", "broken links"};
    printf("%u ranks, up to %u crashes, %u instances, settled ranks %s, up to %u %s: %zu states, %zu ends, "
           "%zu machines, "
           "%zu messages, %zu accords; stuck %zu, left out %zu, differ %zu %zu %zu\n",
           config.size, config.crashes, config.instances, config.stays ? "stay" : "return",
           config.mistakes_max, mistakes[config.mistakes], report.states, report.ends, report.machines,
           report.messages, report.accords, report.stuck, report.left_out, report.differ[0], report.differ[1],
           report.differ[2]);
    fflush(stdout);
    EXPECT_EQ("", report.failure);
    return report;
}

// The subsets of the ranks that up to so many crashes leave, but the empty one: each is the base of an
// accord.
size_t subsets(uint32_t size, uint32_t crashes) {
    size_t count = 0;
    for (uint32_t gone = 0; gone + 1 < 1U << size; gone++)
        count += static_cast<uint32_t>(__builtin_popcount(gone)) <= crashes;
    return count;
}

void check_crashes(uint32_t size, uint32_t crashes, uint32_t instances, bool stays) {
    Config config{size, crashes};
    config.instances = instances;
    config.stays = stays;
    EXPECT_EQ(instances * subsets(size, crashes), check(config).accords);
}

// With mistakes, a rank that does not settle is left out, and two that decide differently each think that the
// other is gone.
Report check_mistakes(uint32_t size, uint32_t crashes, decltype(Config::mistakes) mistakes, uint32_t most,
                      uint32_t instances = 1) {
    Config config{size, crashes};
    config.instances = instances;
    config.mistakes = mistakes;
    config.mistakes_max = most;
    const Report report = check(config);
    EXPECT_EQ(0U, report.stuck) << report.way;
    EXPECT_EQ(0U, report.differ[0]);
    EXPECT_EQ(0U, report.differ[1]);
    return report;
}

TEST(AgreeModel, UpToFourRanks) {
    for (uint32_t size = 1; size <= 4; size++)
        check_crashes(size, size - 1, 1, false);
}

TEST(AgreeModel, SettledRanksThatStay) {
    for (uint32_t size = 2; size <= 4; size++)
        check_crashes(size, size - 1, 1, true);
}

TEST(AgreeModel, SeveralInstances) {
    for (uint32_t size = 1; size <= 4; size++)
        check_crashes(size, size - 1, size < 4 ? 3 : 2, false);
}

TEST(AgreeModel, FiveRanks) {
    check_crashes(5, 3, 1, false);
}

TEST(AgreeModel, OneRankIsThoughtToBeGone) {
    for (uint32_t size = 2; size <= 3; size++)
        for (uint32_t crashes = 0; crashes < size; crashes++)
            for (uint32_t most = 1; most < size; most++)
                EXPECT_EQ(0U, check_mistakes(size, crashes, Config::OneVictim, most).differ[2]);
    EXPECT_EQ(0U, check_mistakes(4, 0, Config::OneVictim, 1).differ[2]);
}

TEST(AgreeModel, AnyRanksAreThoughtToBeGone) {
    EXPECT_LT(0U, check_mistakes(2, 1, Config::AnyVictim, 2).differ[2]); // each goes on alone
    EXPECT_EQ(0U, check_mistakes(3, 0, Config::AnyVictim, 2).differ[2]);
    EXPECT_LT(0U, check_mistakes(3, 1, Config::AnyVictim, 6).differ[2]);
}

TEST(AgreeModel, LinksThatBreak) {
    EXPECT_LT(0U, check_mistakes(2, 1, Config::Links, 1).differ[2]);
    EXPECT_EQ(0U, check_mistakes(3, 0, Config::Links, 1).differ[2]);
    EXPECT_LT(0U, check_mistakes(3, 1, Config::Links, 3).differ[2]);
}

TEST(AgreeModel, SeveralInstancesWithMistakes) {
    check_mistakes(2, 1, Config::AnyVictim, 2, 3);
    check_mistakes(3, 1, Config::OneVictim, 1, 2);
    check_mistakes(3, 0, Config::OneVictim, 2, 2);
    check_mistakes(3, 1, Config::Links, 1, 2);
}

// The reductions take nothing away but ways to the same ends.
TEST(AgreeModel, ReductionsKeepTheEnds) {
    for (uint32_t size = 2; size <= 4; size++) {
        Config config{size, size - 1};
        const Report with = check(config);
        config.reduces = false;
        const Report without = check(config);
        EXPECT_EQ(with.ends, without.ends);
        EXPECT_EQ(with.accords, without.accords);
        EXPECT_LE(with.states, without.states);
    }
}

TEST(AgreeModelLong, FiveRanks) {
    check_crashes(5, 4, 1, false);
    check_crashes(5, 4, 1, true);
}

TEST(AgreeModelLong, SeveralInstances) {
    check_crashes(4, 3, 4, false);
    check_crashes(5, 1, 2, false);
}

TEST(AgreeModelLong, FourRanksWithMistakes) {
    check_mistakes(4, 1, Config::OneVictim, 1);
    check_mistakes(4, 0, Config::OneVictim, 3);
    check_mistakes(4, 0, Config::AnyVictim, 2);
    check_mistakes(4, 0, Config::Links, 2);
}

// GCOLL_AGREE_MODEL=SIZE,CRASHES,INSTANCES,STAYS,MISTAKES,MOST: another choice, by hand.
TEST(AgreeModel, ByHand) {
    Config config{0, 0};
    uint32_t stays = 0, mistakes = 0;
    const char *text = getenv("GCOLL_AGREE_MODEL");
    if (!text)
        return;
    ASSERT_EQ(6, sscanf(text, "%u,%u,%u,%u,%u,%u", &config.size, &config.crashes, &config.instances, &stays,
                        &mistakes, &config.mistakes_max));
    config.stays = stays != 0;
    config.mistakes = static_cast<decltype(Config::mistakes)>(mistakes);
    check(config);
}

} // namespace
