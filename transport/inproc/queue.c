/* transport/inproc/queue.c - finds and drops messages of one peer in queues and tables. */
#include <stddef.h>

#include "gcoll/base/hash.h"
#include "transport/inproc/internal.h"

gcoll_message *gcoll_inproc_queue_take(gcoll_message_queue *queue, gcoll_message **slot,
                                       gcoll_message *before) {
    gcoll_message *message = *slot;
    *slot = message->next;
    if (queue->last == message)
        queue->last = before;
    message->next = NULL;
    return message;
}

bool gcoll_inproc_queue_has(const gcoll_message_queue *queue, uint32_t peer) {
    for (const gcoll_message *message = queue->first; message; message = message->next)
        if (message->peer == peer)
            return true;
    return false;
}

void gcoll_inproc_queue_drop(gcoll_message_queue *queue, uint32_t peer) {
    gcoll_message *before = NULL;
    gcoll_message **slot = &queue->first;
    while (*slot) {
        if ((*slot)->peer == peer) {
            gcoll_inproc_queue_take(queue, slot, before);
        } else {
            before = *slot;
            slot = &before->next;
        }
    }
}

/* ---- Tables ---------------------------------------------------------------------------------------- */

static gcoll_message *message_of(gcoll_map_item *item) {
    return (gcoll_message *)(void *)((char *)item - offsetof(gcoll_message, item));
}

gcoll_status gcoll_inproc_table_init(gcoll_map *table) {
    return gcoll_map_grow(table) ? GCOLL_OK
                                 : gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a table of messages");
}

static uint64_t hash(uint32_t peer, uint64_t stream, uint32_t index) {
    return gcoll_hash_mix(gcoll_hash_mix(stream) + (((uint64_t)peer << 32) | index));
}

void gcoll_inproc_table_put(gcoll_map *table, gcoll_message *message) {
    gcoll_map_add(table, &message->item, hash(message->peer, message->stream, message->index));
}

gcoll_message *gcoll_inproc_table_find(const gcoll_map *table, uint32_t peer, uint64_t stream,
                                       uint32_t index) {
    if (table->count == 0)
        return NULL;
    gcoll_map_item *item = gcoll_map_first(table, hash(peer, stream, index));
    for (; item; item = gcoll_map_next(item)) {
        gcoll_message *message = message_of(item);
        if (message->peer == peer && message->stream == stream && message->index == index)
            return message;
    }
    return NULL;
}

gcoll_message *gcoll_inproc_table_take(gcoll_map *table, uint32_t peer, uint64_t stream, uint32_t index) {
    gcoll_message *message = gcoll_inproc_table_find(table, peer, stream, index);
    if (message)
        gcoll_map_remove(table, &message->item);
    return message;
}

typedef struct drop {
    gcoll_map *table;
    uint32_t peer;
} drop;

static void drop_item(void *arg, gcoll_map_item *item) {
    const drop *d = arg;
    if (message_of(item)->peer == d->peer)
        gcoll_map_remove(d->table, item);
}

void gcoll_inproc_table_drop(gcoll_map *table, uint32_t peer) {
    if (table->count > 0)
        gcoll_map_visit(table, drop_item, &(drop){table, peer});
}
