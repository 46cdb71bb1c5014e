/*
 * gcoll/plan/simulate_ports.c - assigns ports to messages.
 *
 * A message needs a send port of its rank and a receive port of its peer at the same time. If nodes have
 * ports and the two ranks are on different nodes, it also needs a port of each node; if nodes' memories have
 * ports and the two ranks are on the same node, a port of that node's memory, as long as the send port. Ports
 * never idle for the sake of order: of the messages that could start, the one that was matched first does.
 * Ties go by the order in which its ends posted at that instant, then by the sender's rank and step.
 *
 * A message that cannot start waits in one heap only, at the first busy ports that it met. When these are
 * free, it starts or goes on to wait for others. So nothing is scanned, but a message may move as often as
 * there are other messages in its way.
 */
#include <stdlib.h>

#include "gcoll/plan/simulate_internal.h"

#define MOST_PORTS 4 /* ports that a message needs: sender, receiver, and their nodes */

/* ---- Heaps of messages: pairing heaps, linked through the steps ---------------------------------------- */

static bool before(const gcoll_sim *sim, uint32_t a, uint32_t b) {
    const gcoll_sim_step *x = &sim->steps[a], *y = &sim->steps[b];
    if (x->matched != y->matched)
        return x->matched < y->matched;
    return x->order != y->order ? x->order < y->order : a < b;
}

static uint32_t merge(gcoll_sim *sim, uint32_t a, uint32_t b) {
    if (a == GCOLL_SIM_NONE || b == GCOLL_SIM_NONE)
        return a == GCOLL_SIM_NONE ? b : a;
    if (before(sim, b, a)) {
        uint32_t swap = a;
        a = b;
        b = swap;
    }
    sim->steps[b].next = sim->steps[a].child;
    sim->steps[a].child = b;
    return a;
}

static void add(gcoll_sim *sim, gcoll_sim_ports *ports, uint32_t send) {
    sim->steps[send].next = sim->steps[send].child = GCOLL_SIM_NONE;
    ports->waiting = merge(sim, ports->waiting, send);
}

static void remove_first(gcoll_sim *sim, gcoll_sim_ports *ports) {
    uint32_t child = sim->steps[ports->waiting].child, pairs = GCOLL_SIM_NONE, all = GCOLL_SIM_NONE;
    while (child != GCOLL_SIM_NONE) {
        uint32_t second = sim->steps[child].next;
        uint32_t rest = second == GCOLL_SIM_NONE ? GCOLL_SIM_NONE : sim->steps[second].next;
        uint32_t pair = merge(sim, child, second);
        sim->steps[pair].next = pairs;
        pairs = pair;
        child = rest;
    }
    while (pairs != GCOLL_SIM_NONE) {
        uint32_t rest = sim->steps[pairs].next;
        all = merge(sim, all, pairs);
        pairs = rest;
    }
    ports->waiting = all;
}

/* ---- Ports --------------------------------------------------------------------------------------- */

gcoll_status gcoll_sim_ports_create(gcoll_sim *sim) {
    const uint64_t size = sim->v.size, nodes = sim->nodes, all = 2 * (size + nodes) + sim->memories;
    const uint64_t each = sim->options.ports, node_each = sim->options.node_ports;
    const uint64_t memory_each = sim->options.memory_ports;
    sim->ports = gcoll_sim_allocate(all, sizeof *sim->ports);
    sim->slots = gcoll_sim_allocate(2 * (size * each + nodes * node_each) + sim->memories * memory_each,
                                    sizeof *sim->slots);
    if (!sim->ports || !sim->slots)
        return GCOLL_ERR_NO_MEMORY;
    gcoll_sim_slot *next = sim->slots;
    for (uint64_t i = 0; i < all; i++) {
        gcoll_sim_ports *ports = &sim->ports[i];
        ports->slots = next;
        ports->count = (uint32_t)(i < 2 * size ? each : i < 2 * (size + nodes) ? node_each : memory_each);
        ports->waiting = ports->listed = GCOLL_SIM_NONE;
        for (uint32_t k = 0; k < ports->count; k++)
            next[k].message = GCOLL_SIM_NONE;
        next += ports->count;
    }
    return GCOLL_OK;
}

/* The ports that a message needs: `sending` ports on the sender's side, then those on the receiver's, in all
 * `count`. */
typedef struct needs {
    gcoll_sim_ports *ports[MOST_PORTS];
    uint32_t sending, count;
} needs;

static needs needs_of(const gcoll_sim *sim, uint32_t send) {
    const uint64_t size = sim->v.size;
    uint32_t from = sim->steps[send].rank, to = gcoll_sim_plan_step(sim, send)->peer;
    gcoll_sim_ports *nodes = &sim->ports[2 * size];
    const bool within = gcoll_sim_level(sim, from, to) == 1;
    if (within && sim->memories > 0)
        return (needs){
            {&sim->ports[from], &nodes[2 * sim->nodes + sim->node[from]], &sim->ports[size + to]}, 2, 3};
    if (within || sim->nodes == 0)
        return (needs){{&sim->ports[from], &sim->ports[size + to]}, 1, 2};
    return (needs){{&sim->ports[from], &nodes[sim->node[from]], &sim->ports[size + to],
                    &nodes[sim->nodes + sim->node[to]]},
                   2,
                   4};
}

static gcoll_sim_slot *soonest(const gcoll_sim_ports *ports) {
    gcoll_sim_slot *best = &ports->slots[0];
    for (uint32_t k = 1; k < ports->count; k++)
        if (ports->slots[k].free_at < best->free_at)
            best = &ports->slots[k];
    return best;
}

/* Lists ports as candidates if messages wait for them; the order is that of their first waiting message. */
static gcoll_status consider(gcoll_sim *sim, gcoll_sim_ports *ports) {
    if (ports->waiting == GCOLL_SIM_NONE || ports->listed == ports->waiting)
        return GCOLL_OK;
    ports->listed = ports->waiting;
    const gcoll_sim_step *first = &sim->steps[ports->waiting];
    return gcoll_sim_heap_push(
        &sim->candidates, (gcoll_sim_entry){first->matched, (uint64_t)first->order << 32 | ports->waiting,
                                            (uint32_t)(ports - sim->ports), ports->waiting});
}

gcoll_status gcoll_sim_ports_freed(gcoll_sim *sim, uint32_t send, bool at_receiver) {
    needs n = needs_of(sim, send);
    gcoll_status status = GCOLL_OK;
    const uint32_t first = at_receiver ? n.sending : 0, end = at_receiver ? n.count : n.sending;
    for (uint32_t i = first; i < end && !status; i++)
        status = consider(sim, n.ports[i]);
    return status;
}

/* ---- Starting ------------------------------------------------------------------------------------ */

static gcoll_status start(gcoll_sim *sim, uint32_t send, const needs *n, gcoll_sim_price price) {
    gcoll_sim_step *step = &sim->steps[send];
    int64_t latest = -1;
    step->start = sim->now;
    sim->steps[step->whole].started = true;
    for (uint32_t i = 0; i < n->count; i++) {
        gcoll_sim_slot *slot = soonest(n->ports[i]);
        int64_t latency = i < n->sending ? 0 : price.latency;
        /* If the message had to wait: the port that came free last let it start. */
        if (step->start > step->matched && slot->message != GCOLL_SIM_NONE &&
            slot->free_at - latency > latest) {
            latest = slot->free_at - latency;
            step->port_cause = slot->message;
        }
        slot->free_at =
            sim->now + latency + price.hold; /* beyond the limit, the push of the events below fails */
        slot->message = send;
        if (i == 0)
            step->port = (uint32_t)(slot - n->ports[i]->slots);
        else if (i == n->sending)
            sim->steps[gcoll_sim_partner(sim, send)].port = (uint32_t)(slot - n->ports[i]->slots);
    }
    gcoll_status status = gcoll_sim_push(sim, price.hold, GCOLL_SIM_LEFT, send);
    if (!status)
        status = gcoll_sim_push(sim, price.latency + price.hold, GCOLL_SIM_CAME, send);
    return status;
}

static bool is_held(const gcoll_sim *sim, const gcoll_sim_ports *ports, int64_t latency) {
    return soonest(ports)->free_at > sim->now + latency;
}

/* Has receive ports looked at again when their first waiting message may take them. When a message leaves,
 * those of its own latency may; with others, the time is another. */
static gcoll_status look_again(gcoll_sim *sim, const gcoll_sim_ports *ports, uint32_t send, int64_t latency) {
    if (!sim->mixed)
        return GCOLL_OK;
    return gcoll_sim_push(sim, soonest(ports)->free_at - latency - sim->now, GCOLL_SIM_FREED, send);
}

/* Starts the first message that waits for these ports, or moves it to other ports that are busy. */
static gcoll_status serve(gcoll_sim *sim, gcoll_sim_ports *ports) {
    const uint32_t send = ports->waiting;
    needs n = needs_of(sim, send);
    gcoll_sim_price price;
    gcoll_status status = gcoll_sim_price_message(sim, send, &price);
    gcoll_sim_ports *held = NULL;
    bool receives = false; /* `held` is at the receiver */
    for (uint32_t i = 0; !status && i < n.count; i++)
        if (held != ports && is_held(sim, n.ports[i], i < n.sending ? 0 : price.latency)) {
            held = n.ports[i];
            receives = i >= n.sending;
        }
    if (status || held == ports) /* still busy: tried again when they are freed */
        return status || !receives ? status : look_again(sim, ports, send, price.latency);
    remove_first(sim, ports);
    if (held) {
        add(sim, held, send);
        status = consider(sim, held);
    } else {
        status = start(sim, send, &n, price);
    }
    return status ? status : consider(sim, ports);
}

gcoll_status gcoll_sim_dispatch(gcoll_sim *sim) {
    gcoll_status status = GCOLL_OK;
    while (sim->matched.head != GCOLL_SIM_NONE && !status) {
        uint32_t send = gcoll_sim_take(sim, &sim->matched);
        gcoll_sim_ports *ports = needs_of(sim, send).ports[0];
        add(sim, ports, send);
        status = consider(sim, ports);
    }
    while (sim->candidates.count > 0 && !status) {
        gcoll_sim_entry candidate = gcoll_sim_heap_pop(&sim->candidates);
        gcoll_sim_ports *ports = &sim->ports[candidate.what];
        if (ports->waiting != candidate.id) /* another message is first now, and is listed itself */
            continue;
        ports->listed = GCOLL_SIM_NONE;
        status = serve(sim, ports);
    }
    return status;
}
