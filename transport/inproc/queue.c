/* transport/inproc/queue.c - queues and tables of messages, which link by their own fields. */
#include <stdlib.h>

#include "transport/inproc/internal.h"

/* Enough that small jobs never grow it; a table doubles when it holds a message a bucket. */
#define FIRST_BUCKETS 64

void gcoll_queue_push(gcoll_queue *queue, gcoll_message *message) {
    message->next = NULL;
    if (queue->last)
        queue->last->next = message;
    else
        queue->first = message;
    queue->last = message;
}

gcoll_message *gcoll_queue_take(gcoll_queue *queue, gcoll_message **slot, gcoll_message *before) {
    gcoll_message *message = *slot;
    *slot = message->next;
    if (queue->last == message)
        queue->last = before;
    message->next = NULL;
    return message;
}

bool gcoll_queue_has(const gcoll_queue *queue, uint32_t peer) {
    for (const gcoll_message *message = queue->first; message; message = message->next)
        if (message->flags == peer)
            return true;
    return false;
}

void gcoll_queue_drop(gcoll_queue *queue, uint32_t peer) {
    gcoll_message *before = NULL;
    gcoll_message **slot = &queue->first;
    while (*slot) {
        if ((*slot)->flags == peer) {
            gcoll_queue_take(queue, slot, before);
        } else {
            before = *slot;
            slot = &before->next;
        }
    }
}

gcoll_status gcoll_table_init(gcoll_table *table) {
    gcoll_message **buckets = calloc(FIRST_BUCKETS, sizeof(gcoll_message *));
    if (!buckets)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a table of %d messages", FIRST_BUCKETS);
    table->buckets = buckets;
    table->bucket_count = FIRST_BUCKETS;
    table->count = 0;
    return GCOLL_OK;
}

void gcoll_table_free(gcoll_table *table) {
    free((void *)table->buckets);
    *table = (gcoll_table){NULL, 0, 0};
}

/* Mixes all bits into the low ones, which choose the bucket (the finaliser of MurmurHash3). */
static size_t hash(uint32_t peer, uint64_t stream, uint32_t index) {
    uint64_t h = stream * UINT64_C(0x9e3779b97f4a7c15) + (((uint64_t)peer << 32) | index);
    h = (h ^ (h >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    h = (h ^ (h >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return (size_t)(h ^ (h >> 33));
}

static gcoll_message **bucket_of(gcoll_message **buckets, size_t bucket_count, uint32_t peer, uint64_t stream,
                                 uint32_t index) {
    return &buckets[hash(peer, stream, index) & (bucket_count - 1)];
}

/* Without memory for it the table stays as it is, only slower. */
static void grow(gcoll_table *table) {
    size_t bucket_count = table->bucket_count * 2;
    gcoll_message **buckets = calloc(bucket_count, sizeof(gcoll_message *));
    if (!buckets)
        return;
    for (size_t i = 0; i < table->bucket_count; i++) {
        gcoll_message *next;
        for (gcoll_message *message = table->buckets[i]; message; message = next) {
            gcoll_message **bucket =
                bucket_of(buckets, bucket_count, message->flags, message->stream, message->index);
            next = message->next;
            message->next = *bucket;
            *bucket = message;
        }
    }
    free((void *)table->buckets);
    table->buckets = buckets;
    table->bucket_count = bucket_count;
}

void gcoll_table_put(gcoll_table *table, gcoll_message *message) {
    if (table->count >= table->bucket_count)
        grow(table);
    gcoll_message **bucket =
        bucket_of(table->buckets, table->bucket_count, message->flags, message->stream, message->index);
    message->next = *bucket;
    *bucket = message;
    table->count++;
}

gcoll_message *gcoll_table_take(gcoll_table *table, uint32_t peer, uint64_t stream, uint32_t index) {
    if (table->count == 0)
        return NULL;
    gcoll_message **slot = bucket_of(table->buckets, table->bucket_count, peer, stream, index);
    for (; *slot; slot = &(*slot)->next) {
        gcoll_message *message = *slot;
        if (message->flags != peer || message->stream != stream || message->index != index)
            continue;
        *slot = message->next;
        message->next = NULL;
        table->count--;
        return message;
    }
    return NULL;
}

bool gcoll_table_has(const gcoll_table *table, uint32_t peer, uint64_t stream, uint32_t index) {
    if (table->count == 0)
        return false;
    const gcoll_message *message = *bucket_of(table->buckets, table->bucket_count, peer, stream, index);
    while (message && (message->flags != peer || message->stream != stream || message->index != index))
        message = message->next;
    return message != NULL;
}

void gcoll_table_drop(gcoll_table *table, uint32_t peer) {
    for (size_t i = 0; i < table->bucket_count && table->count > 0; i++) {
        gcoll_message **slot = &table->buckets[i];
        while (*slot) {
            if ((*slot)->flags != peer) {
                slot = &(*slot)->next;
                continue;
            }
            *slot = (*slot)->next;
            table->count--;
        }
    }
}

void gcoll_table_clear(gcoll_table *table) {
    for (size_t i = 0; i < table->bucket_count; i++)
        table->buckets[i] = NULL;
    table->count = 0;
}
