/* transport/queue.h - queues of messages, linked by their own `next`, and of bytes; first in, first out. */
#ifndef GCOLL_TRANSPORT_QUEUE_H
#define GCOLL_TRANSPORT_QUEUE_H

#include "transport/transport.h"

/* Zeroed is empty. A message is in at most one queue. */
typedef struct gcoll_message_queue {
    gcoll_message *first, *last;
} gcoll_message_queue;

static inline void gcoll_message_push(gcoll_message_queue *queue, gcoll_message *message) {
    message->next = NULL;
    if (queue->last)
        queue->last->next = message;
    else
        queue->first = message;
    queue->last = message;
}

/* Takes out the first message. The queue has one. */
static inline gcoll_message *gcoll_message_pop(gcoll_message_queue *queue) {
    gcoll_message *message = queue->first;
    queue->first = message->next;
    if (!queue->first)
        queue->last = NULL;
    message->next = NULL;
    return message;
}

static inline bool gcoll_message_is_queued(const gcoll_message_queue *queue, const gcoll_message *message) {
    const gcoll_message *each = queue->first;
    while (each && each != message)
        each = each->next;
    return each;
}

/* Frames to be sent, in one piece of memory. Zeroed is empty, and owns nothing. */
typedef struct gcoll_byte_queue {
    uint8_t *bytes; /* frees whoever owns the queue */
    size_t begin, end, capacity;
} gcoll_byte_queue;

static inline size_t gcoll_bytes_left(const gcoll_byte_queue *queue) {
    return queue->end - queue->begin;
}

/* Makes room behind `end` for `count` bytes. False without memory: then nothing has changed. */
bool gcoll_bytes_reserve(gcoll_byte_queue *queue, size_t count);

/* Takes out all messages of that channel. */
static inline void gcoll_message_queue_drop(gcoll_message_queue *queue, const struct gcoll_channel *channel) {
    gcoll_message *message = queue->first;
    queue->first = queue->last = NULL;
    while (message) {
        gcoll_message *next = message->next;
        if (message->channel != channel)
            gcoll_message_push(queue, message);
        message = next;
    }
}

/* Forgets all messages. */
static inline void gcoll_message_queue_clear(gcoll_message_queue *queue) {
    queue->first = queue->last = NULL;
}

#endif
