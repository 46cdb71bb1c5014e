/* test/core/record_peek.c - see record_peek.h. */
#include "test/core/record_peek.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "gcoll/context/context.h"
#include "gcoll/record/record.h"

#define LAST_SHAPE_WORD (GCOLL_RECORD_ROUNDS - GCOLL_RECORD_COUNT)

struct record_rows {
    gcoll_context context;
    _Atomic uint64_t written;
    uint64_t reads;
};

record_rows *record_rows_create(void) {
    record_rows *rows = calloc(1, sizeof *rows);
    if (!rows)
        return NULL;
    gcoll_record *record = rows->context.record = calloc(1, sizeof *record);
    if (record)
        record->steps = calloc(GCOLL_RECORD_STEPS, sizeof record->steps[0]);
    if (!record || !record->steps) {
        record_rows_free(rows);
        return NULL;
    }
    return rows;
}

void record_rows_free(record_rows *rows) {
    if (!rows)
        return;
    if (rows->context.record)
        free((void *)rows->context.record->steps);
    free(rows->context.record);
    free(rows);
}

void record_rows_write(record_rows *rows) {
    const uint64_t number = atomic_load_explicit(&rows->written, memory_order_relaxed) + 1;
    gcoll_record_shape shape = {0};
    for (int i = 0; i <= LAST_SHAPE_WORD; i++)
        shape.words[i] = number;
    gcoll_record_begin(&rows->context, number, number, number, &shape, false);
    const gcoll_step step = {.kind = GCOLL_STEP_SEND, .message = (uint32_t)number};
    gcoll_record_step_begin(rows->context.record, number, &step, number);
    atomic_store_explicit(&rows->written, number, memory_order_release);
}

static void count(record_found *found, bool is_there, bool is_whole) {
    found->gone += !is_there;
    found->whole += is_there && is_whole;
    found->torn += is_there && !is_whole;
}

void record_rows_read(record_rows *rows, record_found *operations, record_found *steps) {
    const uint64_t written = atomic_load_explicit(&rows->written, memory_order_acquire);
    if (written < GCOLL_RECORD_STEPS)
        return;
    uint64_t words[GCOLL_RECORD_WORDS] = {0};
    const uint64_t ahead = 1 + rows->reads++ % 64;
    uint64_t number = written - GCOLL_RECORD_OPERATIONS + ahead;
    bool is_there = gcoll_record_read(rows->context.record, number, words), is_whole = true;
    for (int i = 0; i < GCOLL_RECORD_WORDS; i++)
        is_whole = is_whole && words[i] == (i == GCOLL_RECORD_DONE ? 0 : number);
    count(operations, is_there, is_whole);

    number = written - GCOLL_RECORD_STEPS + ahead;
    is_there = gcoll_record_read_step(rows->context.record, number, words);
    count(steps, is_there,
          words[GCOLL_RECORD_STEP_OPERATION] == number && words[GCOLL_RECORD_STEP_BYTES] == number &&
              words[GCOLL_RECORD_STEP_MESSAGE] == (uint32_t)number);
}
