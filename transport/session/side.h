/*
 * transport/session/side.h - a TCP endpoint as the side channel of another transport.
 *
 * That transport owns the endpoint and moves its data by other means; this is what it needs of it beyond the
 * table of operations: one wait for both, and the addresses that were chosen.
 */
#ifndef GCOLL_SIDE_H
#define GCOLL_SIDE_H

#include "transport/address.h"
#include "transport/transport.h"

/* From now on a progress that waits returns when fd is readable, without *moved. One descriptor at most. */
gcoll_status gcoll_net_watch(gcoll_endpoint *endpoint, int fd);
/* To be called before fd is closed. */
void gcoll_net_unwatch(gcoll_endpoint *endpoint);
/* Whether the descriptor was seen readable, or `wake` was called, since this was asked. */
bool gcoll_net_was_watched(gcoll_endpoint *endpoint);
bool gcoll_net_was_woken(gcoll_endpoint *endpoint);

/* The counter of `moves`, for the other transport to add what it moved. Lives as long as the endpoint. */
uint32_t *gcoll_net_moves_counter(gcoll_endpoint *endpoint);

/* What the endpoint publishes: the preferred address first. */
const gcoll_address *gcoll_net_own_address(const gcoll_endpoint *endpoint);

#endif
