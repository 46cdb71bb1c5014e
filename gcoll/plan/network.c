/* gcoll/plan/network.c - a network in which each pair of places has its own link. */
#include <stdlib.h>

#include "gcoll/plan/simulate_internal.h"

struct gcoll_network {
    uint32_t ranks, places;
    uint32_t *place;            /* by rank */
    gcoll_simulate_link *links; /* from place a to place b: a * places + b */
};

static gcoll_status find_places(gcoll_network *network, const uint32_t *place) {
    for (uint32_t r = 0; r < network->ranks; r++) {
        const uint32_t at = place ? place[r] : r;
        if (at >= GCOLL_NETWORK_MAX_PLACES)
            return gcoll_error(GCOLL_ERR_INVALID, "place[%u]: is %u; allowed are 0 to %u", r, at,
                               GCOLL_NETWORK_MAX_PLACES - 1);
        network->place[r] = at;
        network->places = at >= network->places ? at + 1 : network->places;
    }
    return GCOLL_OK;
}

static gcoll_status fill(gcoll_network *network, const uint32_t *place, const gcoll_simulate_link *link) {
    network->place = gcoll_sim_allocate(network->ranks, sizeof *network->place);
    if (!network->place)
        return GCOLL_ERR_NO_MEMORY;
    gcoll_status status = find_places(network, place);
    if (status)
        return status;
    const size_t pairs = (size_t)network->places * network->places;
    network->links = gcoll_sim_allocate(pairs, sizeof *network->links);
    if (!network->links)
        return GCOLL_ERR_NO_MEMORY;
    for (size_t i = 0; i < pairs; i++)
        network->links[i] = *link;
    return GCOLL_OK;
}

gcoll_status gcoll_network_create(uint32_t ranks, const uint32_t *place, const gcoll_simulate_link *link,
                                  gcoll_network **network) {
    if (!link || !network)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", link ? "network" : "link");
    if (ranks == 0 || ranks > GCOLL_MAX_RANKS)
        return gcoll_error(GCOLL_ERR_INVALID, "ranks: is %u; allowed are 1 to %u", ranks, GCOLL_MAX_RANKS);
    gcoll_status status = gcoll_sim_check_link("link", link);
    if (status)
        return status;
    gcoll_network *made = gcoll_sim_allocate(1, sizeof *made);
    if (!made)
        return GCOLL_ERR_NO_MEMORY;
    made->ranks = ranks;
    status = fill(made, place, link);
    if (status)
        gcoll_network_destroy(made);
    else
        *network = made;
    return status;
}

gcoll_status gcoll_network_set(gcoll_network *network, uint32_t from, uint32_t to,
                               const gcoll_simulate_link *link) {
    if (!network || !link)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", network ? "link" : "network");
    if (from >= network->places || to >= network->places)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is place %u; allowed are 0 to %u",
                           from >= network->places ? "from" : "to", from >= network->places ? from : to,
                           network->places - 1);
    gcoll_status status = gcoll_sim_check_link("link", link);
    if (!status)
        network->links[(size_t)from * network->places + to] = *link;
    return status;
}

const gcoll_simulate_link *gcoll_network_at(const gcoll_network *network, uint32_t sender,
                                            uint32_t receiver) {
    return &network->links[(size_t)network->place[sender] * network->places + network->place[receiver]];
}

gcoll_status gcoll_network_link(const gcoll_network *network, uint32_t sender, uint32_t receiver,
                                gcoll_simulate_link *link) {
    if (!network || !link)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", network ? "link" : "network");
    if (sender >= network->ranks || receiver >= network->ranks)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is rank %u; allowed are 0 to %u",
                           sender >= network->ranks ? "sender" : "receiver",
                           sender >= network->ranks ? sender : receiver, network->ranks - 1);
    *link = *gcoll_network_at(network, sender, receiver);
    return GCOLL_OK;
}

uint32_t gcoll_network_ranks(const gcoll_network *network) {
    return network->ranks;
}

bool gcoll_network_latencies_differ(const gcoll_network *network) {
    const size_t pairs = (size_t)network->places * network->places;
    for (size_t i = 1; i < pairs; i++)
        if (network->links[i].latency != network->links[0].latency)
            return true;
    return false;
}

void gcoll_network_destroy(gcoll_network *network) {
    if (!network)
        return;
    free(network->links);
    free(network->place);
    free(network);
}
