/* transport/queue.h - a queue of messages, first in, first out, linked by their own `next`. */
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

/* Forgets all messages. */
static inline void gcoll_message_queue_clear(gcoll_message_queue *queue) {
    queue->first = queue->last = NULL;
}

#endif
