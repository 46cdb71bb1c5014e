// Random schedules of the agreement, of up to 64 ranks and several instances; and messages with hostile
// bytes.
//
// GCOLL_AGREE_SCHEDULES: how many schedules (100,000; ctest sets fewer for sanitizers). GCOLL_AGREE_SEED:
// only the one with this seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "test/council/agree_peek.h"
#include "test/kit/sanitizer.h"

namespace {

using namespace agree;

struct Node;

struct World {
    explicit World(uint64_t given) : seed(given), random(given) {}

    uint32_t any(uint32_t count) { return static_cast<uint32_t>(random() >> 11) % count; }
    bool happens(uint32_t in_thousand) { return any(1000) < in_thousand; }

    uint64_t seed;
    std::mt19937_64 random;
    uint32_t size = 0, crashes = 0, mistakes = 0; // the last two: still to come
    bool has_mistakes = false;
    uint64_t instances = 1;
    size_t longest_row = 0;
    uint32_t crash_rate = 0, learn_rate = 0, favour_rate = 0; // in a thousand
    std::vector<std::unique_ptr<Node>> nodes;
    std::vector<Bytes> accords; // by instance; with mistakes, those of the nodes count instead
};

// A rank: its owner, as agree.h asks for one.
struct Node {
    Node(World *in, uint32_t number)
        : world(in), rank(number), gone(gcoll_agree_set_bytes(in->size)), channel(in->size),
          accords(in->instances + 1) {}
    Node(const Node &) = delete;
    Node &operator=(const Node &) = delete;

    World *world;
    uint32_t rank;
    Bytes gone;
    gcoll_agree a = {};
    bool is_dead = false;
    std::vector<std::deque<Bytes>> channel; // from each rank
    std::vector<Bytes> accords;             // by instance
    uint32_t sends_left = UINT32_MAX;       // before it crashes

    ~Node() { gcoll_agree_end(&a); }

    void begin(uint64_t instance) {
        gcoll_agree_end(&a);
        a = {};
        a.rank = rank;
        a.size = world->size;
        a.instance = instance;
        a.gone = gone.data();
        a.arg = this;
        a.send = [](void *arg, uint32_t to, const uint8_t *bytes, size_t count) {
            Node &self = *static_cast<Node *>(arg);
            Node &other = *self.world->nodes[to];
            if (to == self.rank)
                fail("a rank sends to itself");
            if (self.sends_left == 0)
                return true;
            self.sends_left -= self.sends_left != UINT32_MAX;
            if (!other.is_dead)
                other.channel[self.rank].emplace_back(bytes, bytes + count);
            return true;
        };
        const Contribution given = contribution(rank, instance, world->seed, world->longest_row);
        if (!gcoll_agree_begin(&a, given.bits, given.number, given.row.data(), given.row.size()))
            fail("begin fails");
    }
    bool is_silent() const { return is_dead || a.is_left_out; }
    bool is_over() const { return is_silent() || (a.settled && a.instance == world->instances); }
    bool thinks_gone(uint32_t other) const { return gone[other / 8] >> other % 8 & 1; }
};

// After each step of a rank that lives until then.
void look(World &world, Node &node) {
    const gcoll_agree &a = node.a;
    if (a.failed || (a.is_left_out && !world.has_mistakes))
        fail("a rank is left out, or fails");
    const std::string waits = wrong_waits(a);
    if (!waits.empty())
        fail(waits);
    if (!a.decided)
        return;
    Bytes &accord = world.has_mistakes ? node.accords[a.instance] : world.accords[a.instance];
    const Bytes own(a.accord.data, a.accord.data + a.accord.count);
    if (own == accord)
        return;
    if (!accord.empty())
        fail("two accords");
    const std::string wrong = wrong_accord(a.accord, a.size, a.instance, world.seed, world.longest_row);
    if (!wrong.empty())
        fail("an accord in which is wrong: " + wrong);
    for (uint32_t rank = 0; rank < a.size; rank++)
        if (gcoll_accord_is_gone(&a.accord, rank) && !world.nodes[rank]->is_dead && !world.has_mistakes)
            fail("the accord counts a rank as gone that is not");
    accord = own;
}

void finish_step(World &world, Node &node) {
    if (node.sends_left != UINT32_MAX) { // it crashes in this step
        node.is_dead = true;
        world.crashes--;
    }
    look(world, node);
}

// One step of the rank, if it has any. A crash comes in the midst of a step, or before it.
bool step(World &world, Node &node, bool learns) {
    if (node.is_over())
        return false;
    if (world.crashes > 0 && world.happens(world.crash_rate))
        node.sends_left = world.any(world.size);
    if (node.a.settled) {
        for (uint32_t peer = 0; peer < world.size; peer++)
            if (world.nodes[peer]->is_silent() && world.happens(world.learn_rate))
                node.gone[peer / 8] = static_cast<uint8_t>(node.gone[peer / 8] | 1U << peer % 8);
        node.begin(node.a.instance + 1);
        finish_step(world, node);
        return true;
    }
    const uint32_t first = world.any(world.size);
    if (world.mistakes > 0 && first != node.rank && world.happens(20)) {
        world.mistakes--;
        gcoll_agree_lose(&node.a, first);
        finish_step(world, node);
        return true;
    }
    for (uint32_t i = 0; i < world.size; i++) {
        const uint32_t peer = (first + i) % world.size;
        std::deque<Bytes> &channel = node.channel[peer];
        if (world.nodes[peer]->is_silent() && !node.thinks_gone(peer) &&
            (learns || world.happens(world.learn_rate))) {
            channel.clear();
            gcoll_agree_lose(&node.a, peer);
        } else if (!channel.empty() && gcoll_agree_instance_of(channel.front().data(),
                                                               channel.front().size()) <= node.a.instance) {
            const Bytes message = std::move(channel.front());
            channel.pop_front();
            const char *text = gcoll_agree_take(&node.a, peer, message.data(), message.size());
            if (text)
                fail(text);
        } else {
            continue;
        }
        finish_step(world, node);
        return true;
    }
    node.sends_left = UINT32_MAX;
    return false;
}

void set_up(World &world) {
    const uint32_t kind = world.any(100);
    if (world.size == 0)
        world.size = kind < 80 ? 2 + world.any(5) : 2 + world.any(12);
    world.crashes = world.any(4) ? world.any(world.size) : 0;
    world.instances = 1 + world.any(3);
    world.longest_row = world.any(2) ? 300 : world.any(20);
    world.crash_rate = 1U << world.any(9);
    world.learn_rate = 1 + world.any(1000);
    world.favour_rate = world.any(1000);
    world.accords.resize(world.instances + 1);
    for (uint32_t rank = 0; rank < world.size; rank++)
        world.nodes.emplace_back(new Node(&world, rank));
    for (auto &node : world.nodes)
        node->begin(1);
}

void run(World &world) {
    set_up(world);
    uint32_t favourite = 0, idle = 0;
    while (idle < 4) {
        if (world.happens(100))
            favourite = world.any(world.size);
        const uint32_t rank = world.happens(world.favour_rate) ? favourite : world.any(world.size);
        if (step(world, *world.nodes[rank], false))
            continue;
        idle++;
        for (uint32_t i = 0; idle == 4 && i < world.size; i++) // maybe all are idle
            if (step(world, *world.nodes[(rank + i) % world.size], i + 1 == world.size))
                idle = 0;
        if (idle == 4)
            for (auto &node : world.nodes)
                if (idle == 4 && step(world, *node, true))
                    idle = 0;
    }
    for (auto &node : world.nodes)
        if (!node->is_over())
            fail("rank " + std::to_string(node->rank) + " waits for ever");
}

uint64_t number_of(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : otherwise;
}

uint64_t schedule_count() {
    return number_of("GCOLL_AGREE_SCHEDULES", 100000);
}

// Runs schedules until one fails. Returns its seed and what it says.
template <class Run> std::string schedules(uint64_t count, Run run_one) {
    const uint64_t only = number_of("GCOLL_AGREE_SEED", 0);
    for (uint64_t seed = only ? only : 1; seed <= (only ? only : count); seed++) {
        World world(seed);
        try {
            run_one(world);
        } catch (const std::exception &error) {
            return "seed " + std::to_string(seed) + ": " + error.what();
        }
    }
    return "";
}

TEST(AgreeRandom, Schedules) {
    EXPECT_EQ("", schedules(schedule_count(), run));
}

// Ranks that live are thought to be gone. Two that decide differently each think that the other is gone.
TEST(AgreeRandom, Mistakes) {
    EXPECT_EQ("", schedules(
                      schedule_count() / 4,
                      [](World &world) {
                          world.has_mistakes = true;
                          world.mistakes = 1 + world.any(4);
                          run(world);
                          for (auto &one : world.nodes)
                              for (auto &other : world.nodes)
                                  for (uint64_t instance = 1; instance <= world.instances; instance++)
                                      if (!one->is_dead && !other->is_dead &&
                                          !one->accords[instance].empty() &&
                                          !other->accords[instance].empty() &&
                                          one->accords[instance] != other->accords[instance] &&
                                          !one->thinks_gone(other->rank))
                                          fail("ranks that think of each other as alive differ");
                      }));
}

TEST(AgreeRandom, SixtyFourRanks) {
    EXPECT_EQ("", schedules(
                      gcoll_test::repeats(100, 20),
                      [](World &world) {
                          world.size = 64 - world.any(3) * world.any(31);
                          run(world);
                      }));
}

// Bytes in memory of exactly their size.
struct Exact {
    explicit Exact(const Bytes &bytes) : count(bytes.size()), data(static_cast<uint8_t *>(malloc(count))) {
        std::copy(bytes.begin(), bytes.end(), data);
    }
    Exact(const Exact &) = delete;
    Exact &operator=(const Exact &) = delete;
    ~Exact() { free(data); }
    size_t count;
    uint8_t *data;
};

void mutate(World &world, Bytes &bytes) {
    for (uint32_t changes = 1 + world.any(3); changes > 0; changes--) {
        const uint32_t length = static_cast<uint32_t>(bytes.size());
        const uint32_t at = length ? world.any(length) : 0;
        switch (world.any(7)) {
        case 0: // another kind
            if (length)
                bytes[0] = static_cast<uint8_t>(world.any(10));
            break;
        case 1:
            bytes.resize(at);
            break;
        case 2:
            bytes.resize(length + world.any(40), static_cast<uint8_t>(world.any(256)));
            break;
        case 3:
            if (length)
                bytes[at] = static_cast<uint8_t>(world.any(256));
            break;
        case 4: // a number of all ones
            for (uint32_t i = at; i < length && i < at + 4; i++)
                bytes[i] = 0xff;
            break;
        case 5:
            if (length)
                bytes[at] = static_cast<uint8_t>(bytes[at] ^ 1U << world.any(8));
            break;
        default: // anything
            bytes.resize(world.any(120));
            for (uint8_t &byte : bytes)
                byte = static_cast<uint8_t>(world.any(256));
        }
    }
}

// Everything that an owner may ask, asked.
void ask(const gcoll_agree &a) {
    gcoll_agree_each_waited(
        &a, [](void *, uint32_t) {}, nullptr);
    if (!a.decided)
        return;
    uint64_t sum = gcoll_accord_bits(&a.accord) + gcoll_accord_number(&a.accord);
    for (uint32_t rank = 0; rank < a.size; rank++) {
        size_t bytes = 0;
        const uint8_t *row = gcoll_accord_row(&a.accord, a.size, rank, &bytes);
        for (size_t i = 0; row && i < bytes; i++)
            sum += row[i];
    }
    volatile uint64_t kept = sum; // all bytes have been read
    (void)kept;
}

// Some ranks send anything. Nobody has to agree; nothing may be read or written that is not there.
void run_hostile(World &world) {
    set_up(world);
    const uint32_t rate = 1 + world.any(500);
    for (uint32_t steps = 0; steps < 40 * world.size; steps++) {
        Node &node = *world.nodes[world.any(world.size)];
        const uint32_t peer = world.any(world.size);
        std::deque<Bytes> &channel = node.channel[peer];
        if (peer == node.rank)
            continue;
        if (world.happens(5))
            gcoll_agree_lose(&node.a, peer);
        if (channel.empty())
            continue;
        Bytes bytes = channel.front();
        if (world.happens(rate))
            mutate(world, bytes);
        else if (world.happens(900)) // or it comes again
            channel.pop_front();
        const Exact exact(bytes);
        if (gcoll_agree_instance_of(exact.data, exact.count) <= node.a.instance) {
            const char *text = gcoll_agree_take(&node.a, peer, exact.data, exact.count);
            if (text && strlen(text) == 0)
                fail("an empty text");
        }
        ask(node.a);
        if (node.a.settled && node.a.instance < world.instances)
            node.begin(node.a.instance + 1);
    }
}

TEST(AgreeRandom, HostileBytes) {
    EXPECT_EQ("", schedules(schedule_count() / 4, run_hostile));
}

// An owner without memory for a message makes the machine fail, which takes everything and waits for nobody.
TEST(AgreeRandom, AFailedMachine) {
    for (uint32_t rank = 0; rank < 3; rank++) {
        World world(1);
        world.size = 3;
        Node node(&world, rank);
        gcoll_agree &a = node.a;
        a.rank = rank;
        a.size = 3;
        a.instance = 1;
        a.gone = node.gone.data();
        a.send = [](void *, uint32_t, const uint8_t *, size_t) { return false; };
        EXPECT_FALSE(gcoll_agree_begin(&a, 1, 2, nullptr, 0));
        EXPECT_TRUE(a.failed);
        Bytes call(kHead + 1);
        call[0] = Call;
        call[1] = 1;
        EXPECT_EQ(nullptr, gcoll_agree_take(&a, (rank + 1) % 3, call.data(), call.size()));
        gcoll_agree_lose(&a, (rank + 1) % 3);
        gcoll_agree_lose(&a, (rank + 2) % 3);
        gcoll_agree_each_waited(
            &a, [](void *, uint32_t) { ADD_FAILURE(); }, nullptr);
        EXPECT_FALSE(a.decided);
    }
}

// Every message of an agreement, cut to each length and with each byte changed: a text comes back, or
// nothing.
TEST(AgreeRandom, EveryCutOfEveryMessage) {
    World world(1);
    world.size = 3;
    world.instances = 1;
    world.longest_row = 5;
    for (uint32_t rank = 0; rank < world.size; rank++)
        world.nodes.emplace_back(new Node(&world, rank));
    std::vector<Bytes> messages;
    for (auto &node : world.nodes)
        node->begin(1);
    for (bool moves = true; moves;) {
        moves = false;
        for (auto &node : world.nodes)
            for (uint32_t peer = 0; peer < world.size; peer++)
                while (!node->channel[peer].empty()) {
                    messages.push_back(node->channel[peer].front());
                    node->channel[peer].pop_front();
                    moves = true;
                    EXPECT_EQ(nullptr, gcoll_agree_take(&node->a, peer, messages.back().data(),
                                                        messages.back().size()));
                }
    }
    ASSERT_EQ(14U, messages.size());
    messages.push_back(
        *std::find_if(messages.begin(), messages.end(), [](const Bytes &m) { return m[0] == Decide; }));
    messages.back()[0] = Pass;
    for (const Bytes &message : messages)
        for (size_t length = 0; length < message.size(); length++) {
            Node node(&world, 0);
            node.begin(1);
            const Exact exact(Bytes(message.begin(), message.begin() + static_cast<ptrdiff_t>(length)));
            EXPECT_NE(nullptr, gcoll_agree_take(&node.a, 1, exact.data, exact.count)) << length;
            ask(node.a);
            Bytes changed = message;
            changed[length] = static_cast<uint8_t>(~changed[length]);
            const Exact other(changed);
            (void)gcoll_agree_take(&node.a, 2, other.data, other.count);
            ask(node.a);
        }
    EXPECT_EQ(0U, gcoll_agree_instance_of(messages[0].data(), kHead - 1));
    Bytes give = *std::find_if(messages.begin(), messages.end(), [](const Bytes &m) { return m[0] == Give; });
    give.insert(give.end(), messages.back().begin() + kHead + 1,
                messages.back().end());                     // an accepted accord,
    for (const uint8_t ballot : {uint8_t{0}, uint8_t{3}}) { // of a rank that there is or not
        Node node(&world, 0);
        node.begin(1);
        const size_t at = kHead + 1 + 8 + 8 + 4;
        give[at] = ballot;
        give[at + 1] = give[at + 2] = give[at + 3] = 0;
        EXPECT_EQ(ballot != 0, gcoll_agree_take(&node.a, 1, give.data(), give.size()) != nullptr);
    }
    for (Bytes message : messages) {
        Node node(&world, 0);
        node.begin(1);
        message.push_back(0);
        EXPECT_NE(nullptr, gcoll_agree_take(&node.a, 1, message.data(), message.size()))
            << name_of(message[0]);
        message.pop_back();
        message[kHead - 4] = 3; // the ballot: of a rank that there is not
        EXPECT_NE(nullptr, gcoll_agree_take(&node.a, 1, message.data(), message.size()))
            << name_of(message[0]);
        message[kHead - 4] = 0;
        message[0] = Pass + 1;
        EXPECT_NE(nullptr, gcoll_agree_take(&node.a, 1, message.data(), message.size()));
    }
    for (auto &node : world.nodes)
        node->channel.clear();
}

} // namespace
