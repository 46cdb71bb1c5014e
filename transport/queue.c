/* transport/queue.c - room in a queue of bytes; see queue.h. */
#include "transport/queue.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 4096

bool gcoll_bytes_reserve(gcoll_byte_queue *queue, size_t count) {
    const size_t left = gcoll_bytes_left(queue);
    if (left == 0 || (queue->capacity - queue->end < count && queue->begin > 0)) {
        if (left > 0)
            memmove(queue->bytes, queue->bytes + queue->begin, left);
        queue->begin = 0;
        queue->end = left;
    }
    if (queue->capacity - queue->end >= count)
        return true;
    size_t capacity = queue->capacity < FIRST_BYTES ? FIRST_BYTES : queue->capacity * 2;
    if (capacity < queue->end + count) /* a frame that was cut may have left any size */
        capacity = queue->end + count;
    uint8_t *more = realloc(queue->bytes, capacity);
    if (!more)
        return false;
    queue->bytes = more;
    queue->capacity = capacity;
    return true;
}
