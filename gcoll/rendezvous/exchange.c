/*
 * gcoll/rendezvous/exchange.c - the ranks of a job meet by an allgather: the caller's own, in place of a
 * store, or one over a store that lacks operations (limited.c).
 *
 * There are three rounds. Each rank first gives the size of the job and a generation, of which rank 0's
 * counts. Then it gives the length of its record. Last, it gives the record, or "!" and why it has none. No
 * rank claims its number, and no launch is looked for: each rank that takes part in the allgather is of this
 * launch, and the place of its data is its number.
 *
 * A row is a magic number, the round, the rank, the rank's data, and a checksum of all that. So rows that
 * never came, came in part or lie at the wrong place are recognised before use. A rank that finds something
 * wrong still takes part in the next rounds, so that the others learn the reason.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/bytes.h"
#include "gcoll/base/crc32c.h"
#include "gcoll/base/text.h"
#include "gcoll/rendezvous/rendezvous.h"

#define MAGIC        UINT32_C(0x67636f31) /* "gco1" */
#define WORD         sizeof(uint32_t)
#define HEAD_BYTES   (3 * WORD)                         /* magic, round, rank */
#define AROUND_BYTES (4 * WORD)                         /* and the checksum behind */
#define UNTOUCHED    0xa5                               /* every byte of a row before the exchange */
#define HELLO_BYTES  (WORD + GCOLL_GENERATION_TEXT - 1) /* the size of the job, and a generation */
#define REASON_BYTES 300

/* One round: `all` has a row for each rank. */
typedef struct table {
    uint8_t *all;
    size_t bytes; /* of a row */
} table;

static uint8_t *row_of(const table *t, uint32_t rank) {
    return t->all + rank * t->bytes;
}

static const uint8_t *said_by(const table *t, uint32_t rank) {
    return row_of(t, rank) + HEAD_BYTES;
}

static uint32_t word_at(const uint8_t *at) {
    return (uint32_t)gcoll_get_le(at, WORD);
}

bool gcoll_exchange_row_is_there(const uint8_t *row, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (row[i] != UNTOUCHED)
            return true;
    return false;
}

static bool is_whole(const uint8_t *row, size_t bytes) {
    return word_at(row) == MAGIC && gcoll_crc32c_find()(0, row, bytes - WORD) == word_at(row + bytes - WORD);
}

bool gcoll_exchange_hello_fits(const gcoll_context *context, const uint8_t *row, size_t bytes) {
    return is_whole(row, bytes) && word_at(row + HEAD_BYTES) == context->size;
}

static gcoll_status check_row(const gcoll_context *context, const char *name, const table *t, uint32_t round,
                              uint32_t rank) {
    const uint8_t *row = row_of(t, rank);
    if (!gcoll_exchange_row_is_there(row, t->bytes))
        return gcoll_error(GCOLL_ERR_PROTOCOL, "%s: gave rank %u nothing of rank %u, in round %u", name,
                           context->rank, rank, round);
    if (!is_whole(row, t->bytes))
        return gcoll_error(
            GCOLL_ERR_PROTOCOL,
            "%s: the %zu bytes that it gave rank %u of rank %u, in round %u, are not what a rank of "
            "gcoll gave it",
            name, t->bytes, context->rank, rank, round);
    if (word_at(row + WORD) != round)
        return gcoll_error(GCOLL_ERR_MISMATCH,
                           "%s: gave rank %u the data of rank %u of round %u, in round %u", name,
                           context->rank, rank, word_at(row + WORD), round);
    if (word_at(row + 2 * WORD) != rank)
        return gcoll_error(
            GCOLL_ERR_MISMATCH,
            "%s: gave rank %u the data of rank %u at the place of rank %u; allowed is the order of "
            "ranks, and each rank once",
            name, context->rank, word_at(row + 2 * WORD), rank);
    return GCOLL_OK;
}

/* Does a round, and makes the table. *rows: whether the rows are valid. All other failures are returned, and
 * end the meeting. */
static gcoll_status exchange(const gcoll_context *context, const gcoll_exchange *by, uint32_t round,
                             const void *mine, size_t bytes, table *t, gcoll_status *rows) {
    const size_t row = bytes + AROUND_BYTES;
    uint8_t *own = calloc(1, row);
    *t = (table){calloc(context->size, row), row};
    if (!own || !t->all) {
        free(own);
        free(t->all);
        t->all = NULL;
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %zu bytes of each of %u ranks", row,
                           context->size);
    }
    memset(t->all, UNTOUCHED, context->size * row);
    gcoll_put_le(own, MAGIC, WORD);
    gcoll_put_le(own + WORD, round, WORD);
    gcoll_put_le(own + 2 * WORD, context->rank, WORD);
    memcpy(own + HEAD_BYTES, mine, bytes);
    gcoll_put_le(own + row - WORD, gcoll_crc32c_find()(0, own, row - WORD), WORD);
    const uint32_t errors = gcoll_error_count();
    gcoll_status status = by->fn(by->arg, own, row, t->all);
    if (status != GCOLL_OK && by->fn != gcoll_limited_exchange) {
        char reason[REASON_BYTES];
        snprintf(reason, sizeof reason, "%.*s", (int)sizeof reason - 1,
                 gcoll_error_count() != errors ? gcoll_last_error() : "it gave no reason");
        status = gcoll_error(status > GCOLL_OK && status <= GCOLL_ERR_INTERNAL ? status : GCOLL_ERR_IO,
                             "%s: failed on rank %u in round %u with status %d: %s", by->name, context->rank,
                             round, (int)status, reason);
    }
    *rows = status;
    for (uint32_t rank = 0; *rows == GCOLL_OK && rank < context->size; rank++)
        *rows = check_row(context, by->name, t, round, rank);
    free(own);
    if (status != GCOLL_OK) {
        free(t->all);
        t->all = NULL;
    }
    return status;
}

gcoll_status gcoll_exchange_hello(gcoll_context *context, const gcoll_exchange *by, gcoll_status *rows) {
    char generation[GCOLL_GENERATION_TEXT] = "";
    uint8_t mine[HELLO_BYTES];
    table t;
    gcoll_status status = gcoll_generation_make(generation);
    if (status != GCOLL_OK)
        return status;
    gcoll_put_le(mine, context->size, WORD);
    memcpy(mine + WORD, generation, GCOLL_GENERATION_TEXT - 1);
    status = exchange(context, by, 1, mine, sizeof mine, &t, rows);
    if (status != GCOLL_OK)
        return status;
    for (uint32_t rank = 0; *rows == GCOLL_OK && rank < context->size; rank++)
        if (word_at(said_by(&t, rank)) != context->size)
            *rows = gcoll_error(GCOLL_ERR_MISMATCH, "options.size: is %u on rank %u, but %u on rank %u",
                                context->size, context->rank, word_at(said_by(&t, rank)), rank);
    if (*rows == GCOLL_OK) {
        memcpy(generation, said_by(&t, 0) + WORD, GCOLL_GENERATION_TEXT - 1);
        gcoll_generation_set(context, generation);
    }
    free(t.all);
    return GCOLL_OK;
}

/* The longest record of all ranks. */
static gcoll_status longest(gcoll_context *context, const gcoll_exchange *by, size_t own, size_t *most) {
    uint8_t mine[WORD];
    table t;
    gcoll_status rows = GCOLL_OK;
    gcoll_put_le(mine, own, WORD);
    gcoll_status status = exchange(context, by, 2, mine, sizeof mine, &t, &rows);
    if (status != GCOLL_OK)
        return status;
    *most = own;
    for (uint32_t rank = 0; rows == GCOLL_OK && rank < context->size; rank++) {
        const uint32_t bytes = word_at(said_by(&t, rank));
        if (bytes == 0 || bytes > GCOLL_RECORD_MAX)
            rows = gcoll_error(GCOLL_ERR_PROTOCOL, "rank %u has a record of %u bytes; allowed are 1 to %u",
                               rank, bytes, GCOLL_RECORD_MAX);
        else if (bytes > *most)
            *most = bytes;
    }
    free(t.all);
    return rows; /* then the length of the rows of the last round is unknown */
}

gcoll_status gcoll_exchange_records(gcoll_context *context, const gcoll_exchange *by, const char *record) {
    const size_t own = strlen(record) + 1;
    size_t most = own;
    table t;
    gcoll_status rows = GCOLL_OK, status = longest(context, by, own, &most);
    char *mine = status == GCOLL_OK ? calloc(1, most) : NULL;
    if (status == GCOLL_OK && !mine)
        status = gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %zu bytes", most);
    if (status != GCOLL_OK)
        return status;
    memcpy(mine, record, own);
    status = exchange(context, by, 3, mine, most, &t, &rows);
    free(mine);
    if (status != GCOLL_OK)
        return status;
    for (uint32_t rank = 0; rows == GCOLL_OK && rank < context->size; rank++) {
        char text[GCOLL_RECORD_MAX + 1];
        snprintf(text, sizeof text, "%.*s", (int)most, (const char *)said_by(&t, rank));
        gcoll_text_clean(text);
        rows = text[0] == '!' && rank != context->rank
                   ? gcoll_error(GCOLL_ERR_PEER, "rank %u could not join: %.*s", rank, REASON_BYTES, text + 1)
               : text[0] == '!' ? GCOLL_OK
                                : gcoll_rendezvous_take_record(context, rank, text);
    }
    free(t.all);
    return rows;
}
