/* gcoll/plan/spans.c - the last writer and the readers since, for each element of a buffer: an ordered map.
 *
 * The buffer is [0, infinity), cut into spans; each has one last writer and one list of readers since. A span
 * ends where the next begins. A write merges all spans that it covers, so old accesses leave the map. */
#include <stdlib.h>
#include <string.h>

#include "gcoll/plan/builder_internal.h"

/* A block has 1 KiB: at this size, moving its spans costs about as much as looking one up. */
#define BLOCK_SPANS 62

typedef struct span {
    uint64_t begin;
    uint32_t writer;  /* step or GCOLL_NO_STEP */
    uint32_t readers; /* index of a list in gcoll_spans.readers, or GCOLL_NO_STEP */
} span;

struct gcoll_span_block {
    uint32_t count; /* never 0 */
    span spans[BLOCK_SPANS];
};

typedef struct position {
    uint32_t block, index;
} position;

static bool insert_block(gcoll_spans *s, uint32_t at, gcoll_span_block *block) {
    if (s->block_count == s->block_capacity) {
        uint32_t capacity = s->block_capacity ? 2 * s->block_capacity : 4;
        gcoll_span_block **blocks = realloc(s->blocks, capacity * sizeof(gcoll_span_block *));
        if (!blocks)
            return false;
        s->blocks = blocks;
        s->block_capacity = capacity;
    }
    memmove(s->blocks + at + 1, s->blocks + at, (s->block_count - at) * sizeof(gcoll_span_block *));
    s->blocks[at] = block;
    s->block_count++;
    return true;
}

/* Begins with one untouched span that covers the whole buffer. */
static bool start(gcoll_spans *s) {
    gcoll_span_block *block = malloc(sizeof *block);
    if (!block)
        return false;
    block->count = 1;
    block->spans[0] = (span){0, GCOLL_NO_STEP, GCOLL_NO_STEP};
    if (!insert_block(s, 0, block)) {
        free(block);
        return false;
    }
    return true;
}

static bool holds(const gcoll_spans *s, uint32_t block, uint64_t offset) {
    return s->blocks[block]->spans[0].begin <= offset &&
           (block + 1 == s->block_count || offset < s->blocks[block + 1]->spans[0].begin);
}

static uint32_t find_block(gcoll_spans *s, uint64_t offset) {
    if (s->hint < s->block_count && holds(s, s->hint, offset))
        return s->hint;
    uint32_t low = 0, high = s->block_count; /* the block is in [low, high) */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (s->blocks[middle]->spans[0].begin <= offset)
            low = middle;
        else
            high = middle;
    }
    s->hint = low;
    return low;
}

/* The span that offset lies in. */
static position locate(gcoll_spans *s, uint64_t offset) {
    uint32_t block = find_block(s, offset);
    const gcoll_span_block *b = s->blocks[block];
    uint32_t low = 0, high = b->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (b->spans[middle].begin <= offset)
            low = middle;
        else
            high = middle;
    }
    return (position){block, low};
}

static span *at(const gcoll_spans *s, position p) {
    return &s->blocks[p.block]->spans[p.index];
}

/* False past the last span. */
static bool next(const gcoll_spans *s, position *p) {
    if (++p->index < s->blocks[p->block]->count)
        return true;
    p->index = 0;
    return ++p->block < s->block_count;
}

/* Moves the upper half of a full block to a new one behind it. */
static bool halve(gcoll_spans *s, position *p) {
    gcoll_span_block *full = s->blocks[p->block], *upper = malloc(sizeof *upper);
    if (!upper)
        return false;
    if (!insert_block(s, p->block + 1, upper)) {
        free(upper);
        return false;
    }
    uint32_t keep = full->count / 2;
    upper->count = full->count - keep;
    memcpy(upper->spans, full->spans + keep, upper->count * sizeof *upper->spans);
    full->count = keep;
    if (p->index >= keep) {
        p->block++;
        p->index -= keep;
    }
    return true;
}

/* Makes a span begin at offset, and finds its position. */
static bool cut(gcoll_spans *s, uint64_t offset, position *p) {
    *p = locate(s, offset);
    if (at(s, *p)->begin == offset)
        return true;
    if (s->blocks[p->block]->count == BLOCK_SPANS && !halve(s, p))
        return false;
    gcoll_span_block *b = s->blocks[p->block];
    memmove(b->spans + p->index + 1, b->spans + p->index, (b->count - p->index) * sizeof *b->spans);
    b->count++;
    p->index++;
    b->spans[p->index].begin = offset;
    return true;
}

/* Removes `count` spans from p on; the block of p keeps at least the span before p. */
static void erase(gcoll_spans *s, position p, uint32_t count) {
    gcoll_span_block *b = s->blocks[p.block];
    uint32_t here = b->count - p.index < count ? b->count - p.index : count;
    memmove(b->spans + p.index, b->spans + p.index + here, (b->count - p.index - here) * sizeof *b->spans);
    b->count -= here;
    count -= here;
    uint32_t first = p.block + 1, last = first;
    while (count > 0 && s->blocks[last]->count <= count) {
        count -= s->blocks[last]->count;
        free(s->blocks[last++]);
    }
    memmove(s->blocks + first, s->blocks + last, (s->block_count - last) * sizeof(gcoll_span_block *));
    s->block_count -= last - first;
    if (count > 0) {
        b = s->blocks[first];
        b->count -= count;
        memmove(b->spans, b->spans + count, b->count * sizeof *b->spans);
    }
}

static bool add_reader(gcoll_spans *s, span *read, uint32_t step) {
    if (s->reader_count == s->reader_capacity) {
        uint32_t capacity = s->reader_capacity ? 2 * s->reader_capacity : 64;
        if (capacity <= s->reader_capacity)
            return false;
        gcoll_span_reader *readers = realloc(s->readers, capacity * sizeof *readers);
        if (!readers)
            return false;
        s->readers = readers;
        s->reader_capacity = capacity;
    }
    s->readers[s->reader_count] = (gcoll_span_reader){step, read->readers};
    read->readers = s->reader_count++;
    return true;
}

bool gcoll_spans_read(gcoll_spans *s, gcoll_builder *builder, uint64_t begin, uint64_t end, uint32_t step) {
    position p, stop;
    if ((s->block_count == 0 && !start(s)) || !cut(s, end, &stop) || !cut(s, begin, &p))
        return false;
    do {
        span *read = at(s, p);
        if (read->begin >= end)
            break;
        if (read->writer != GCOLL_NO_STEP)
            gcoll_builder_wait_for(builder, read->writer);
        if (!add_reader(s, read, step))
            return false;
    } while (next(s, &p));
    return true;
}

bool gcoll_spans_write(gcoll_spans *s, gcoll_builder *builder, uint64_t begin, uint64_t end, uint32_t step) {
    position p, stop;
    if ((s->block_count == 0 && !start(s)) || !cut(s, end, &stop) || !cut(s, begin, &p))
        return false;
    position first = p;
    uint32_t covered = 0;
    do {
        const span *old = at(s, p);
        if (old->begin >= end)
            break;
        covered++;
        /* Readers wait for the last writer themselves, so wait for the writer only if there are no readers.
         */
        if (old->readers == GCOLL_NO_STEP && old->writer != GCOLL_NO_STEP)
            gcoll_builder_wait_for(builder, old->writer);
        for (uint32_t r = old->readers; r != GCOLL_NO_STEP; r = s->readers[r].next)
            gcoll_builder_wait_for(builder, s->readers[r].step);
    } while (next(s, &p));
    *at(s, first) = (span){begin, step, GCOLL_NO_STEP};
    if (covered > 1)
        erase(s, (position){first.block, first.index + 1}, covered - 1);
    return true;
}

void gcoll_spans_clear(gcoll_spans *s) {
    for (uint32_t i = 0; i < s->block_count; i++)
        free(s->blocks[i]);
    free(s->blocks);
    free(s->readers);
    *s = (gcoll_spans){0};
}
