/* transport/size.h - adapts a posted receive to the size of its message, once that is known. */
#ifndef GCOLL_TRANSPORT_SIZE_H
#define GCOLL_TRANSPORT_SIZE_H

#include "transport/transport.h"

static inline void gcoll_message_discard(void *arg, uint64_t offset, const void *data, uint64_t bytes) {
    (void)arg;
    (void)offset;
    (void)data;
    (void)bytes;
}

/* Gives a posted receive the size of its message, `total` bytes. False: the receive does not allow that size.
 * A message that is larger than the receive gets a consume function that drops it. No byte of it has been
 * delivered yet.
 */
static inline bool gcoll_message_take_size(gcoll_message *receive, uint64_t total) {
    if (receive->bytes == total)
        return true;
    if (!receive->any_size)
        return false;
    if (total > receive->bytes) {
        receive->consume = gcoll_message_discard;
        receive->granule = 1;
    }
    receive->bytes = total;
    return true;
}

#endif
