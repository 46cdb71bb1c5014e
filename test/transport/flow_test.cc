// Flow control alone: two flows, joined by a link that the tests make up, and random schedules of all that
// may happen to them. The oracle is what was posted: each message arrives once, whole, where it belongs.
// Ranks wait: some of what they post comes only after a message that they receive. Such a schedule must come
// to its end if the messages can be numbered so that nobody waits for a later one. Schedules in which nobody
// waits have fewer promises than messages.
#include "test/kit/sanitizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

extern "C" {
#include "transport/flow/flow.h"
}

namespace {

using Bytes = std::vector<uint8_t>;
using Key = std::pair<uint64_t, uint32_t>; // stream, index

constexpr uint64_t kEager = 40, kPool = 300; // room for three messages on credit

// The bytes of a message are those of a generator that its key seeds.
Bytes contents(uint32_t from, const Key &key, uint64_t bytes) {
    std::minstd_rand random(static_cast<uint32_t>(1 + from + 7 * key.first + 1000 * key.second));
    Bytes made(bytes);
    for (uint8_t &each : made)
        each = static_cast<uint8_t>(random() >> 8);
    return made;
}

// What travels: in the order in which it was put on the link.
struct Item {
    enum { Control, Credit, Data } what;
    gcoll_flow_frame frame = {};
    Bytes open;
    uint32_t credit = 0;
    Bytes bytes;
};

struct Send {
    gcoll_message message = {};
    Bytes data, open;
    uint32_t order = UINT32_MAX; // of posting
    bool is_done = false;
};

struct Receive {
    gcoll_message message = {};
    Bytes data;
    uint64_t room = 0;
    bool is_posted = false, is_done = false, was_seen = false;
};

struct Side {
    gcoll_flow flow = {}; // the first member
    uint32_t rank = 0;
    std::deque<Item> control;
    std::deque<gcoll_message *> messages; // that may be sent
    std::deque<Item> link;                // to the other side
    std::map<Key, std::unique_ptr<Send>> sends;
    std::map<Key, std::unique_ptr<Receive>> receives;
    std::vector<Bytes> opened; // fingerprints that came
    std::string failure;
    uint32_t unexpected = 0;
    uint32_t next_on_credit = 0; // of the order of posting
    bool owes = false, overtakes = false;
    std::vector<gcoll_message *> completed;
};

Side &side_of(gcoll_flow *flow) {
    return *reinterpret_cast<Side *>(flow);
}

void control(gcoll_flow *flow, const gcoll_flow_frame *said) {
    Item item{Item::Control, *said, {}, 0, {}};
    if (said->open)
        item.open.assign(said->open, said->open + GCOLL_FINGERPRINT_BYTES);
    side_of(flow).control.push_back(item);
}

// A message goes on credit: none that was posted before it may still wait for that.
void note_credited(Side &side, const gcoll_message &message) {
    const uint32_t order = side.sends[Key{message.stream, message.index}]->order;
    side.overtakes |= order < side.next_on_credit;
    side.next_on_credit = order + 1;
}

void enqueue(gcoll_flow *flow, gcoll_message *message) {
    Side &side = side_of(flow);
    side.messages.push_back(message);
    if (message->flags & GCOLL_FLOW_ON_CREDIT)
        note_credited(side, *message);
}

void owe(gcoll_flow *flow) {
    side_of(flow).owes = true;
}

void deliver(gcoll_flow *flow, gcoll_slot *slot) {
    (void)flow;
    if (!slot->message->consume && slot->received > 0)
        memcpy(slot->message->data, slot->held, slot->received);
}

void complete(gcoll_flow *flow, gcoll_message *message) {
    side_of(flow).completed.push_back(message);
}

void unexpected(gcoll_flow *flow) {
    side_of(flow).unexpected++;
}

void fail(gcoll_flow *flow, gcoll_status status, const char *text) {
    (void)status;
    if (side_of(flow).failure.empty())
        side_of(flow).failure = text;
}

const gcoll_flow_lane kLane = {control, enqueue, owe, deliver, complete, unexpected, fail, nullptr, nullptr};

// One schedule: some messages each way, posted, moved, looked for and taken back in random order.
class Schedule {
  public:
    explicit Schedule(uint32_t seed) : random_(seed) {
        for (uint32_t rank = 0; rank < 2; rank++) {
            Side &side = sides_[rank];
            side.rank = rank;
            gcoll_flow_init(&side.flow, &kLane, 1 - rank, kEager, kPool);
        }
        const uint32_t count = 1 + below(24), waits = below(3);
        promises_ = waits > 0 ? 100 : 3;
        for (Side &side : sides_)
            side.flow.promises_max = promises_;
        for (uint32_t i = 0; i < count; i++)
            make(below(2), Key{below(3), i}, waits);
        std::shuffle(posts_.begin(), posts_.end(), random_);
    }
    ~Schedule() {
        for (Side &side : sides_)
            gcoll_flow_drop(&side.flow);
    }

    void run() {
        for (uint32_t steps = below(200); steps > 0 && good(); steps--)
            step();
        for (Side &side : sides_)
            connect(side);
        for (uint32_t idle = 0; idle < 50 && good(); idle++) // all that is left is posted, and moves
            if (move_something() || post())
                idle = 0;
        if (good())
            check_end();
    }

    // Empty, or what was wrong.
    std::string wrong;

  private:
    struct Post {
        uint32_t rank;
        bool is_send;
        Key key;
        const Receive *after; // NULL, or what this rank has to receive before
    };

    uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
    bool good() { return wrong.empty(); }
    void say(const std::string &what) {
        if (wrong.empty())
            wrong = what;
    }

    void make(uint32_t from, const Key &key, uint32_t waits) {
        const uint64_t sizes[] = {0, 1, 20, kEager - 1, kEager, kEager + 1, 100, kPool, 1000};
        const uint64_t bytes = sizes[below(9)];
        auto send = std::make_unique<Send>();
        send->data = contents(from, key, bytes);
        send->message.stream = key.first;
        send->message.index = key.second;
        send->message.bytes = bytes;
        send->message.data = send->data.data();
        send->message.announced = below(3) == 0;
        if (below(3) == 0) {
            send->open = contents(from + 2, key, GCOLL_FINGERPRINT_BYTES);
            send->message.open = send->open.data();
        }
        auto receive = std::make_unique<Receive>();
        const bool any_size = below(3) == 0;
        receive->room = any_size ? sizes[below(9)] : bytes;
        receive->data.assign(std::max<uint64_t>(receive->room, 1), 0xee);
        receive->message.stream = key.first;
        receive->message.index = key.second;
        receive->message.any_size = any_size;
        receive->message.data = receive->data.data();
        sides_[from].sends[key] = std::move(send);
        sides_[1 - from].receives[key] = std::move(receive);
        posts_.push_back({from, true, key, something(from, waits)});
        posts_.push_back({1 - from, false, key, something(1 - from, waits)});
        made_[1 - from].push_back(sides_[1 - from].receives[key].get());
    }

    // Something of a lower number that the rank receives.
    const Receive *something(uint32_t rank, uint32_t waits) {
        const auto &made = made_[rank];
        return made.empty() || below(3) >= waits ? nullptr : made[below(static_cast<uint32_t>(made.size()))];
    }

    void step() {
        const uint32_t kind = below(10);
        if (kind < 4)
            post();
        else if (kind == 4)
            connect(sides_[below(2)]);
        else if (kind == 5)
            take_back(sides_[below(2)]);
        else if (kind == 6)
            peek(sides_[below(2)]);
        else
            move_something();
        check();
    }

    // Posts something that has not to wait. False: there is nothing.
    bool post() {
        const auto may = [](const Post &each) { return !each.after || each.after->is_done; };
        const auto at = std::find_if(posts_.begin(), posts_.end(), may);
        if (at == posts_.end())
            return false;
        const Post post = *at;
        posts_.erase(at);
        Side &side = sides_[post.rank];
        if (post.is_send) {
            side.sends[post.key]->order = posted_++;
            if (below(2) || !send_now(side, *side.sends[post.key]))
                gcoll_flow_post_send(&side.flow, &side.sends[post.key]->message);
        } else if (below(2) || !receive_now(side, *side.receives[post.key])) {
            post_receive(side, *side.receives[post.key]);
        }
        check();
        return true;
    }

    void post_receive(Side &side, Receive &receive) {
        receive.message.bytes = receive.room;
        receive.message.consume = nullptr;
        receive.is_posted = true;
        if (!gcoll_flow_post_recv(&side.flow, &receive.message, false))
            say("a receive was refused: " + side.failure);
    }

    // As a lane does that has nothing else to write.
    bool send_now(Side &side, Send &send) {
        if (!side.messages.empty() || !side.control.empty() ||
            !gcoll_flow_send_now(&side.flow, &send.message))
            return false;
        note_credited(side, send.message);
        side.messages.push_front(&send.message);
        send_fragment(side, true);
        return true;
    }

    // The next frame that comes is perhaps the message.
    bool receive_now(Side &side, Receive &receive) {
        std::deque<Item> &link = sides_[1 - side.rank].link;
        if (receive.message.any_size || !side.flow.is_connected || link.empty() ||
            link.front().what != Item::Data || link.front().bytes.size() != link.front().frame.total)
            return false;
        Item &item = link.front();
        item.frame.open = item.open.empty() ? nullptr : item.open.data();
        if (!gcoll_flow_recv_now(&side.flow, &item.frame, &receive.message))
            return false;
        if (!item.open.empty())
            side.opened.push_back(item.open);
        std::copy(item.bytes.begin(), item.bytes.end(), receive.data.begin());
        receive.is_posted = true;
        side.completed.push_back(&receive.message);
        link.pop_front();
        return true;
    }

    void connect(Side &side) {
        if (!side.flow.is_connected)
            gcoll_flow_connect(&side.flow, kEager, kPool);
    }

    void take_back(Side &side) {
        for (auto &[key, receive] : side.receives) {
            if (!receive->is_posted || receive->is_done || below(4) > 0)
                continue;
            gcoll_slot *slot = gcoll_flow_posted(&side.flow, &receive->message);
            if (slot && gcoll_flow_take_back(&side.flow, slot)) {
                receive->is_posted = false;
                posts_.push_back({side.rank, false, key, nullptr});
            }
        }
    }

    // What is seen is a message that was sent, of its size, and that no receive waits for.
    void peek(Side &side) {
        for (auto &[key, receive] : side.receives) {
            uint64_t bytes = 0;
            if (gcoll_flow_peek(&side.flow, key.first, key.second, &bytes) &&
                (receive->is_posted || bytes != sides_[1 - side.rank].sends[key]->data.size()))
                say("peeked at a message that is not there");
        }
    }

    // What a peek would see from now on was told of.
    void check_unexpected(Side &side, uint32_t told) {
        for (auto &[key, receive] : side.receives) {
            uint64_t bytes = 0;
            if (receive->was_seen || !gcoll_flow_peek(&side.flow, key.first, key.second, &bytes))
                continue;
            receive->was_seen = true;
            if (side.unexpected == told)
                say("a message came unnoticed");
        }
    }

    // Puts something on a link, or takes something off it. False: there is nothing to do.
    bool move_something() {
        for (uint32_t tries = 0; tries < 2; tries++) {
            Side &from = sides_[below(2)];
            if (below(2) ? depart(from) || arrive(from) : arrive(from) || depart(from)) {
                check();
                return true;
            }
        }
        return false;
    }

    bool depart(Side &from) {
        if (!from.flow.is_connected)
            return false;
        if (!from.control.empty() && (from.messages.empty() || below(2))) {
            from.link.push_back(from.control.front());
            from.control.pop_front();
            return true;
        }
        if (from.owes) {
            give_back(from);
            return true;
        }
        if (from.messages.empty())
            return false;
        // Control frames overtake data that has not begun, never data that has.
        while (!from.control.empty()) {
            from.link.push_back(from.control.front());
            from.control.pop_front();
        }
        send_fragment(from);
        return true;
    }

    void give_back(Side &from) {
        Item item{Item::Credit, {}, {}, static_cast<uint32_t>(from.flow.owed), {}};
        from.owes = false;
        gcoll_flow_give_back(&from.flow, from.flow.owed);
        from.link.push_back(item);
    }

    void send_fragment(Side &from, bool whole = false) {
        gcoll_message *message = from.messages.front();
        Send &send = *from.sends[Key{message->stream, message->index}];
        from.messages.pop_front();
        if (send.is_done || message != &send.message)
            say("a message was enqueued twice");
        const uint64_t left = message->bytes - message->moved;
        const uint64_t count = !whole && left > 0 && below(2) ? 1 + below(static_cast<uint32_t>(left)) : left;
        Item item{Item::Data, {}, {}, 0, {}};
        item.frame.kind = GCOLL_FLOW_DATA;
        item.frame.stream = message->stream;
        item.frame.index = message->index;
        item.frame.total = message->bytes;
        item.frame.on_credit = (message->flags & GCOLL_FLOW_ON_CREDIT) != 0;
        item.frame.is_ahead = (message->flags & GCOLL_FLOW_AHEAD) != 0;
        if (message->open && !(message->flags & GCOLL_FLOW_OPENED))
            item.open = send.open;
        const auto begin = send.data.begin() + static_cast<std::ptrdiff_t>(message->moved);
        item.bytes.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
        message->flags |= GCOLL_FLOW_OPENED;
        give_back(from); // it travels with the message
        from.link.push_back(item);
        gcoll_flow_sent(&from.flow, message);
        message->moved += count;
        if (message->moved < message->bytes)
            from.messages.push_back(message);
        else
            send.is_done = true;
    }

    bool arrive(Side &from) {
        Side &to = sides_[1 - from.rank];
        if (from.link.empty() || !to.flow.is_connected)
            return false;
        Item item = from.link.front();
        const uint32_t told = to.unexpected;
        from.link.pop_front();
        if (!item.open.empty())
            to.opened.push_back(item.open);
        item.frame.open = item.open.empty() ? nullptr : item.open.data();
        if (item.what == Item::Credit)
            gcoll_flow_on_credit(&to.flow, item.credit);
        else if (item.what == Item::Data)
            take_fragment(to, item);
        else
            gcoll_flow_on_control(&to.flow, &item.frame);
        check_unexpected(to, told);
        return true;
    }

    void take_fragment(Side &to, const Item &item) {
        gcoll_slot *slot = gcoll_flow_fragment(&to.flow, &item.frame, item.bytes.size());
        if (!slot)
            return;
        uint8_t *at = slot->message ? static_cast<uint8_t *>(slot->message->data) : slot->held;
        if (!item.bytes.empty() && !(slot->message && slot->message->consume))
            memcpy(at + slot->received, item.bytes.data(), item.bytes.size());
        slot->received += item.bytes.size();
        if (slot->received == slot->total && slot->message)
            gcoll_flow_finish(&to.flow, slot);
    }

    // A receive has what was sent, once; and the fingerprints that were posted before it came before it.
    void check_done(Side &to, gcoll_message *message) {
        const Key key{message->stream, message->index};
        Receive &receive = *to.receives[key];
        const Send &send = *sides_[1 - to.rank].sends[key];
        if (receive.is_done || !receive.is_posted)
            say("a receive was done twice, or unasked");
        receive.is_done = true;
        if (message->bytes != send.data.size())
            say("a receive was done with a wrong size");
        const bool fits = send.data.size() <= receive.room;
        for (size_t i = 0; i < receive.data.size(); i++)
            if (receive.data[i] != (fits && i < send.data.size() ? send.data[i] : 0xee))
                say("a receive has wrong bytes");
        if (message->opened != !send.open.empty())
            say("a receive is wrong about its fingerprint");
        for (const auto &[other, earlier] : sides_[1 - to.rank].sends)
            if (other.first == key.first && !earlier->open.empty() && earlier->order <= send.order &&
                std::count(to.opened.begin(), to.opened.end(), earlier->open) != 1)
                say("a fingerprint came late, or twice");
    }

    // What holds at any time: nobody fails, and memory is bounded.
    void check() {
        for (Side &side : sides_) {
            const gcoll_flow &flow = side.flow;
            for (gcoll_message *message : side.completed)
                check_done(side, message);
            side.completed.clear();
            if (!side.failure.empty())
                say(side.failure);
            if (flow.held > kPool || flow.used > kPool || flow.owed > flow.used)
                say("the pool overflows");
            if (flow.granted > promises_ || flow.promised > promises_ || flow.asked > promises_ ||
                flow.offered > promises_)
                say("too many promises");
            if (side.overtakes)
                say("a small message overtook another");
            const gcoll_message *waits = flow.waiting.oldest ? flow.waiting.oldest->message : nullptr;
            if (waits && flow.is_connected && waits->bytes + GCOLL_FLOW_OVERHEAD_BYTES <= flow.credit)
                say("a message waits though there is credit");
            check_grants(side);
        }
    }

    // Whoever posted a receive that must be granted was given its grant, or the limit of grants is in the
    // way.
    void check_grants(Side &side) {
        const bool is_crowded = side.flow.used > kPool / 2;
        for (const auto &each : side.receives) {
            const Receive &receive = *each.second;
            if (!receive.is_posted || receive.is_done || side.flow.is_starved || !side.flow.is_connected)
                continue;
            const gcoll_slot *slot = gcoll_flow_posted(&side.flow, &receive.message);
            if (slot && !(slot->flags & (GCOLL_FLOW_STARTED | GCOLL_FLOW_GRANTED)) &&
                (is_crowded || receive.message.bytes > kEager || (slot->flags & GCOLL_FLOW_OFFERED) ||
                 (receive.message.any_size && side.flow.offered == promises_)))
                say("a receive was not granted");
        }
    }

    void check_end() {
        if (!posts_.empty())
            say("ranks wait for ever");

        for (Side &side : sides_) {
            for (const auto &each : side.sends)
                if (!each.second->is_done)
                    say("a send was forgotten");
            for (const auto &each : side.receives)
                if (!each.second->is_done)
                    say("a receive was forgotten");
            const gcoll_flow &flow = side.flow;
            if (flow.incoming.slots.count || flow.outgoing.slots.count || flow.held || flow.granted ||
                flow.promised || flow.asked || flow.offered || flow.opened_ahead || flow.used != flow.owed)
                say("something is remembered that is over");
            if (flow.credit + sides_[1 - side.rank].flow.owed != kPool)
                say("credit was lost");
            if (gcoll_flow_owes(&flow))
                say("credit is owed and not given back");
        }
    }

    std::mt19937 random_;
    Side sides_[2];
    std::vector<Post> posts_;
    std::vector<const Receive *> made_[2];
    uint32_t posted_ = 0, promises_ = 0;
};

// GCOLL_FLOW_SCHEDULES: so many, in place of ten thousand.
// A receive of a message that needs a grant is posted on one side, and its send on the other, before or after
// the grant has come. Returns whether the message goes as one for a plain receive.
bool goes_as_plain(bool is_plain, bool sends_first) {
    Side sender, receiver;
    gcoll_flow_init(&sender.flow, &kLane, 1, kEager, kPool);
    gcoll_flow_init(&receiver.flow, &kLane, 0, kEager, kPool);
    for (Side *side : {&sender, &receiver})
        gcoll_flow_connect(&side->flow, kEager, kPool);
    gcoll_message sent = {}, got = {};
    sent.bytes = got.bytes = kEager + 1;
    got.granule = 1;
    if (!is_plain)
        got.consume = [](void *, uint64_t, const void *, uint64_t) {};
    if (sends_first)
        gcoll_flow_post_send(&sender.flow, &sent);
    EXPECT_TRUE(gcoll_flow_post_recv(&receiver.flow, &got, false));
    for (const Item &item : receiver.control)
        gcoll_flow_on_control(&sender.flow, &item.frame);
    if (!sends_first)
        gcoll_flow_post_send(&sender.flow, &sent);
    EXPECT_EQ(sender.messages.size(), 1u);
    for (Side *side : {&sender, &receiver})
        gcoll_flow_drop(&side->flow);
    return (sent.flags & GCOLL_FLOW_GRANTED_PLAIN) != 0;
}

TEST(Flow, AGrantSaysWhetherItsReceiveIsPlain) {
    for (bool sends_first : {false, true})
        for (bool is_plain : {false, true})
            EXPECT_EQ(goes_as_plain(is_plain, sends_first), is_plain) << sends_first;
}

TEST(Flow, RandomSchedulesDeliverEachMessageOnce) {
    const char *asked = getenv("GCOLL_FLOW_SCHEDULES");
    const uint32_t count = asked ? static_cast<uint32_t>(atoi(asked)) : gcoll_test::repeats(10000, 2000);
    for (uint32_t seed = 0; seed < count; seed++) {
        Schedule schedule(seed);
        schedule.run();
        ASSERT_EQ(schedule.wrong, "") << "seed " << seed;
    }
}

} // namespace
