/* algorithms/group_butterfly_fold.c - one factor of the group butterfly: its steps to reduce and to spread.
 */
#include "algorithms/group_butterfly.h"

typedef gcoll_group_place place;

typedef struct side { /* what all steps of a factor share */
    const gcoll_group_walk *w;
    const gcoll_group_factor *f;
    gcoll_builder *b;
} side;

static uint32_t peer_at(const side *s, uint32_t up) {
    return s->f->before + (s->f->member + up) % s->f->size * s->f->stride;
}

static place buffer(gcoll_ref ref) {
    return (place){ref, 0, 0};
}

static gcoll_ref at(place p, uint64_t element) {
    return gcoll_ref_add(p.ref, (element < p.origin ? p.cycle : 0) + element - p.origin);
}

static void send(const side *s, uint32_t peer, place from, uint32_t first, uint32_t number) {
    gcoll_group_runs runs = gcoll_group_at(s->w, s->f, first, number);
    for (int i = 0; i < 2; i++)
        gcoll_plan_send(s->b, peer, at(from, runs.begin[i]), runs.count[i]);
}

static void receive(const side *s, uint32_t peer, place to, uint32_t first, uint32_t number) {
    gcoll_group_runs runs = gcoll_group_at(s->w, s->f, first, number);
    for (int i = 0; i < 2; i++)
        gcoll_plan_recv(s->b, peer, at(to, runs.begin[i]), runs.count[i]);
}

static void receive_reduce(const side *s, uint32_t peer, place to, place a, uint32_t first, uint32_t number) {
    gcoll_group_runs runs = gcoll_group_at(s->w, s->f, first, number);
    for (int i = 0; i < 2; i++)
        gcoll_plan_recv_reduce(s->b, peer, at(to, runs.begin[i]), at(a, runs.begin[i]), runs.count[i]);
}

static void reduce(const side *s, place to, place a, place x, uint32_t first, uint32_t number) {
    gcoll_group_runs runs = gcoll_group_at(s->w, s->f, first, number);
    for (int i = 0; i < 2; i++)
        gcoll_plan_reduce(s->b, at(to, runs.begin[i]), at(a, runs.begin[i]), at(x, runs.begin[i]),
                          runs.count[i]);
}

/* One result: what is kept and what is sent never share a placement, so everything adds up in OUT. */
static void fold_to_one(const side *s, uint32_t i, gcoll_ref data) {
    uint32_t placements = gcoll_group_placements(s->f, i), half = placements / 2, odd = placements % 2;
    const place out = buffer(gcoll_out(0, 0)), partial = i == 0 ? buffer(data) : out;
    if (i == 0 && odd) { /* placement 0 sits this step out; in the next its chunk is one of several in OUT */
        gcoll_group_runs own = gcoll_group_at(s->w, s->f, 0, 1);
        gcoll_plan_copy(s->b, at(out, own.begin[0]), at(partial, own.begin[0]), own.count[0]);
    }
    send(s, peer_at(s, s->f->size - half), partial, half + odd, half);
    receive_reduce(s, peer_at(s, half), out, partial, odd, half);
}

/* Several results: the first `results` placements hold a sum to be finished there and one to be sent on. They
 * part at the first odd N, where the former sits out; the latter then moves to `apart`. What comes in
 * overlaps what goes out, so it waits in `inbox`: reduced straight into place, both sides would wait for the
 * other's send to end. */
typedef struct sums {
    place passing, kept, apart, inbox;
    bool parted;
} sums;

static void fold_to_several(const side *s, uint32_t i, sums *q) {
    uint32_t placements = gcoll_group_placements(s->f, i), half = placements / 2, odd = placements % 2;
    uint32_t down = peer_at(s, s->f->size - half), up = peer_at(s, half), number = gcoll_group_sent(s->f, i);
    const place out = buffer(gcoll_out(0, 0));
    send(s, down, q->passing, half + odd, number);
    if (odd && !q->parted) {
        receive_reduce(s, up, q->apart, q->passing, 1, number);
        q->passing = q->apart;
        q->parted = true;
        return;
    }
    receive(s, up, q->inbox, odd, number);
    if (!odd) {
        reduce(s, out, q->kept, q->inbox, 0, q->parted ? s->f->results : number);
        q->kept = out;
    }
    if (q->parted)
        reduce(s, q->apart, q->apart, q->inbox, 1, gcoll_group_passing(s->f, i));
    else
        q->passing = q->kept;
}

/* Later factors move parts of what the first that saves steps does, so its room is enough for all. */
gcoll_group_room gcoll_group_reserve(const gcoll_group_walk *w, gcoll_builder *b) {
    gcoll_group_room room = {.inbox = buffer(gcoll_scratch(0)), .apart = buffer(gcoll_scratch(0))};
    const gcoll_group_factor *f = gcoll_group_first_saving(w);
    if (f == NULL)
        return room;
    gcoll_group_runs runs = gcoll_group_at(w, f, 0, gcoll_group_window(f));
    uint64_t count = runs.count[0] + runs.count[1], cycle = runs.begin[0] + runs.count[0] - runs.begin[1];
    room.inbox = (place){gcoll_plan_scratch(b, count), runs.begin[0], cycle};
    if (gcoll_group_any_parts(w))
        room.apart = (place){gcoll_plan_scratch(b, count), runs.begin[0], cycle};
    return room;
}

void gcoll_group_fold(const gcoll_group_walk *w, const gcoll_group_factor *f, const gcoll_group_room *room,
                      gcoll_builder *b, gcoll_ref data) {
    const side s = {w, f, b};
    sums q = {buffer(data), buffer(data), room->apart, room->inbox, false};
    for (uint32_t i = 0; i < f->steps; i++) {
        if (f->results == 1)
            fold_to_one(&s, i, data);
        else
            fold_to_several(&s, i, &q);
        gcoll_plan_round(b);
    }
}

/* Step i backwards: the lower placements, complete, go to the upper ones. */
void gcoll_group_spread(const gcoll_group_walk *w, const gcoll_group_factor *f, gcoll_builder *b) {
    const side s = {w, f, b};
    const place out = buffer(gcoll_out(0, 0));
    for (uint32_t i = f->steps - f->r; i-- > 0;) {
        uint32_t placements = gcoll_group_placements(f, i), half = placements / 2, odd = placements % 2;
        send(&s, peer_at(&s, half), out, odd, half);
        receive(&s, peer_at(&s, f->size - half), out, half + odd, half);
        gcoll_plan_round(b);
    }
}
