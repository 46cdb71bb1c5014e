/*
 * transport/ibverbs/device.c - chooses the device, port and GID, and opens the device.
 *
 * Every active port that the options allow is a candidate. The best port has a GID with an address that the
 * side channel publishes, and the order of these addresses counts: peers reach the address, so they reach the
 * port. Next come InfiniBand ports, which need no IP address; last come RoCE ports with any other address.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/text.h"
#include "transport/ibverbs/ib.h"

#define SEEN_BYTES 512
/* Ranks of candidates: 0 and on for published addresses. */
#define RANK_INFINIBAND 1000
#define RANK_ANYWHERE   2000
#define RANK_NONE       3000
#define PKEY_MEMBER     0x7fffU /* without the bit for full membership */

typedef struct search {
    gcoll_ib *ib;
    const gcoll_address *own;
    uint32_t best;
    gcoll_ib_place place;
    struct ibv_context *context; /* the best port's device, opened */
    gcoll_text seen;
} search;

uint32_t gcoll_ib_mtu_bytes(enum ibv_mtu mtu) {
    return 128U << mtu;
}

/* Adds to the ports found, and why each was rejected. */
#define NOTE(search, format, ...)                                                                            \
    gcoll_text_add(&(search)->seen, "%s" format, (search)->seen.used > 0 ? "; " : "", __VA_ARGS__)

/* ---- GIDs ------------------------------------------------------------------------------------------ */

static uint32_t rank_of_gid(const search *s, const gcoll_ib_gid *gid) {
    if (!gid->roce_v2 || gid->index > UINT8_MAX) /* queue pairs have eight bits for the index */
        return RANK_NONE;
    for (uint32_t i = 0; i < s->own->count; i++)
        if (gcoll_host_address_equal(&s->own->hosts[i], &gid->address))
            return i;
    return RANK_ANYWHERE;
}

/* Chooses the best GID of the port, or the one that the options name. */
static uint32_t choose_gid(const search *s, struct ibv_context *context, const struct ibv_port_attr *port,
                           gcoll_ib_place *place) {
    int wanted = s->ib->options.gid_index;
    uint32_t best = RANK_NONE;
    gcoll_ib_gid *gids;
    uint32_t count = gcoll_ib_read_gids(&s->ib->verbs, context, place->name, place->port,
                                        (uint32_t)port->gid_tbl_len, &gids);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = rank_of_gid(s, &gids[i]);
        if (wanted >= 0) /* an explicit index may be of any type */
            rank = gids[i].index == wanted ? 0 : RANK_NONE;
        if (rank < best) {
            best = rank;
            place->gid_index = gids[i].index;
            place->gid = gids[i].gid;
        }
    }
    free(gids);
    return best;
}

static gcoll_status find_pkey(search *s, struct ibv_context *context, const struct ibv_port_attr *port,
                              gcoll_ib_place *place) {
    uint32_t wanted = s->ib->options.pkey;
    place->pkey_index = 0;
    for (uint32_t i = 0; wanted > 0 && i < port->pkey_tbl_len; i++) {
        __be16 found = 0;
        if (s->ib->verbs.query_pkey(context, place->port, (int)i, &found) == 0 &&
            (be16toh(found) & PKEY_MEMBER) == (wanted & PKEY_MEMBER)) {
            place->pkey_index = (uint16_t)i;
            return GCOLL_OK;
        }
    }
    if (wanted > 0) {
        NOTE(s, "%s port %u has no partition key 0x%04x", place->name, place->port, wanted);
        return GCOLL_ERR_INVALID;
    }
    return GCOLL_OK;
}

/* ---- Ports ----------------------------------------------------------------------------------------- */

static enum ibv_mtu choose_mtu(const search *s, const struct ibv_port_attr *port) {
    enum ibv_mtu mtu = port->active_mtu;
    while (mtu > IBV_MTU_256 && s->ib->options.mtu > 0 && gcoll_ib_mtu_bytes(mtu) > s->ib->options.mtu)
        mtu = (enum ibv_mtu)(mtu - 1);
    return mtu;
}

static uint32_t rank_of_port(search *s, struct ibv_context *context, gcoll_ib_place *place) {
    const gcoll_verbs *verbs = &s->ib->verbs;
    struct ibv_port_attr port;
    uint32_t rank = RANK_INFINIBAND;
    int error = gcoll_verbs_query_port(verbs, context, place->port, &port);
    if (error != 0) {
        NOTE(s, "%s port %u cannot be asked (%s)", place->name, place->port, strerror(error));
        return RANK_NONE;
    }
    if (port.state != IBV_PORT_ACTIVE) {
        NOTE(s, "%s port %u is not active but %s", place->name, place->port,
             verbs->port_state_str(port.state));
        return RANK_NONE;
    }
    place->ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
    place->lid = port.lid;
    place->mtu = choose_mtu(s, &port);
    place->message_max = port.max_msg_sz < GCOLL_IB_PIECE_MAX ? port.max_msg_sz : GCOLL_IB_PIECE_MAX;
    place->gid_index = 0;
    if (place->ethernet)
        rank = choose_gid(s, context, &port, place);
    if (rank == RANK_NONE)
        NOTE(s, "%s port %u has no such GID, or none of type RoCE v2", place->name, place->port);
    if (rank != RANK_NONE && find_pkey(s, context, &port, place) != GCOLL_OK)
        return RANK_NONE;
    return rank;
}

static void try_device(search *s, struct ibv_device *device) {
    const gcoll_verbs *verbs = &s->ib->verbs;
    const char *name = verbs->get_device_name(device);
    if (s->ib->options.device && strcmp(s->ib->options.device, name) != 0) {
        NOTE(s, "%s is there", name);
        return;
    }
    struct ibv_context *context = verbs->open_device(device);
    struct ibv_device_attr attributes;
    if (!context || verbs->query_device(context, &attributes) != 0) {
        NOTE(s, "%s cannot be opened (%s)", name, strerror(errno));
        if (context)
            verbs->close_device(context);
        return;
    }
    if (s->ib->options.port > attributes.phys_port_cnt)
        NOTE(s, "%s has %u ports", name, attributes.phys_port_cnt);
    for (uint32_t port = 1; port <= attributes.phys_port_cnt; port++) {
        gcoll_ib_place place = {.port = (uint8_t)port};
        if (s->ib->options.port > 0 && s->ib->options.port != port)
            continue;
        snprintf(place.name, sizeof place.name, "%s", name);
        uint32_t rank = rank_of_port(s, context, &place);
        if (rank < s->best) {
            if (s->context && s->context != context)
                verbs->close_device(s->context);
            s->best = rank;
            s->place = place;
            s->context = context;
            s->ib->cq_most = (uint32_t)attributes.max_cqe;
        }
    }
    if (s->context != context)
        verbs->close_device(context);
}

gcoll_status gcoll_ib_open_device(gcoll_ib *ib, const gcoll_address *own) {
    char seen[SEEN_BYTES] = "";
    search s = {.ib = ib, .own = own, .best = RANK_NONE, .seen = {seen, sizeof seen, 0}};
    int count = 0;
    struct ibv_device **list = ib->verbs.get_device_list(&count);
    for (int i = 0; list && i < count; i++)
        try_device(&s, list[i]);
    if (list)
        ib->verbs.free_device_list(list);
    if (count == 0 || !list)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                           "ibverbs: this host has no device (is its kernel module loaded, and "
                           "/dev/infiniband there?)");
    if (!s.context && ib->options.device)
        return gcoll_error(GCOLL_ERR_INVALID, "ibverbs.device: '%s' is not there, or cannot be used: %s",
                           ib->options.device, seen);
    if (!s.context)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "ibverbs: no device can be used: %s", seen);
    ib->place = s.place;
    ib->context = s.context;
    return GCOLL_OK;
}
