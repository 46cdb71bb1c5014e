/*
 * gcoll/lifecycle/grow.c - newcomers: they wait in the store, and the ranks of a context make a new context
 * with them (gcoll/recovery.h).
 *
 * Keys below "gcoll/<job>/grow/". A newcomer is named by a nonce of 16 hex digits.
 *
 * "place.<0 to 15>" is the nonce of a newcomer that waits. It claims the first place that is free. If its
 * nonce does not stand there any more, it claims again.
 *
 * "in.<nonce>" is the answer of the lowest rank that is left: "<generation> <size> <rank>" of the new
 * context.
 *
 * "ends.<generation>.<nonce>" is the newcomer's record and the address of its council; or "!" and a reason.
 *
 * "table.<generation>.<nonce>.<part>" holds the costs and the ends of all ranks. Two ranks write it, so that
 * the newcomers get it also if one of them dies at this moment.
 *
 * A try has three agreements. In the first two, on the old context's council, only the row of the lowest rank
 * that is left counts for newcomers. By the first, the ranks agree on a generation, and on the newcomers by
 * their places. Newcomers and ranks open their ends. By the second, the ranks get the ends of all. By the
 * third, on the new context's council, all of them, newcomers too, agree that all are in. If somebody is gone
 * by then, all drop the new context and begin again. After each try the lowest rank removes the keys.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gcoll/accelerate/accelerate.h"
#include "gcoll/base/text.h"
#include "gcoll/council/council.h"
#include "gcoll/lifecycle/child.h"
#include "gcoll/recovery.h"
#include "gcoll/store/signed.h"

#define NONCE_TEXT 17
#define ANSWER_MS  INT64_C(1000) /* for a newcomer to open its ends */
#define PART       4             /* of the time limit that a rank may spend on the store while others wait */
#define SLICE_MS   INT64_C(100)  /* of a newcomer's waits; then it looks whether its place is still its own */
#define PAUSE_US   5000
#define LEAST_MS   INT64_C(100) /* for requests that tidy up */
#define KEEP_MS    INT64_C(86400000)
#define TRIES      16
#define PART_BYTES 60000 /* of a table, in a value of the store */
#define WRITERS    2     /* ranks that write the tables */
#define ADMIT      "calls gcoll_context_grow (admission)"

_Static_assert(PART_BYTES <= GCOLL_STORE_SIGNED_MAX, "a part of a table is a value of the store");

/* ---- The store ------------------------------------------------------------------------------ */

typedef struct desk {
    gcoll_store *store;
    const char *job;
    int64_t limit_ms; /* on the clock */
} desk;

typedef char key_text[GCOLL_STORE_KEY_MAX + 1];

GCOLL_PRINTF(3, 4)
static void key_of(const desk *d, key_text key, const char *format, ...) {
    va_list arguments;
    const int used = snprintf(key, sizeof(key_text), "gcoll/%s/grow/", d->job);
    va_start(arguments, format);
    vsnprintf(key + used, sizeof(key_text) - (size_t)used, format, arguments);
    va_end(arguments);
}

static int64_t left_ms(const desk *d) {
    const int64_t left = d->limit_ms - gcoll_now_ms();
    return left > 0 ? left : 0;
}

static void limit(const desk *d) {
    const int64_t left = left_ms(d);
    gcoll_store_set_timeout(d->store, left > LEAST_MS ? left : LEAST_MS);
}

static gcoll_status set(const desk *d, const char *key, const void *value, size_t bytes) {
    limit(d);
    gcoll_status status = gcoll_store_set(d->store, key, value, bytes);
    if (status == GCOLL_OK)
        gcoll_store_keep(d->store, key, KEEP_MS);
    return status;
}

/* Gets a text of at most size - 1 bytes; *bytes: without the NUL that is added. wait_ms 0: if it is there. */
static gcoll_status get(const desk *d, const char *key, char *text, size_t size, size_t *bytes,
                        int64_t wait_ms) {
    limit(d);
    gcoll_status status = wait_ms > 0 ? gcoll_store_get_wait(d->store, key, text, size - 1, bytes, wait_ms)
                                      : gcoll_store_get(d->store, key, text, size - 1, bytes);
    if (status == GCOLL_ERR_INVALID)
        status =
            gcoll_error(GCOLL_ERR_PROTOCOL, "the store's key '%s' makes no sense; another program's?", key);
    if (status == GCOLL_OK)
        text[*bytes] = '\0';
    return status;
}

static void discard(const desk *d, const char *key) {
    limit(d);
    gcoll_store_remove(d->store, key);
}

/* Whether a place is held by the newcomer. A store that fails says no to nothing. */
static bool holds(const desk *d, uint32_t place, const char *nonce) {
    key_text key;
    char now[NONCE_TEXT + 1];
    size_t bytes = 0;
    key_of(d, key, "place.%u", place);
    const gcoll_status status = get(d, key, now, sizeof now, &bytes, 0);
    return status == GCOLL_OK ? strcmp(now, nonce) == 0 : status != GCOLL_ERR_NOT_FOUND;
}

static void free_place(const desk *d, uint32_t place, const char *nonce) {
    key_text key;
    if (!holds(d, place, nonce))
        return;
    key_of(d, key, "place.%u", place);
    discard(d, key);
}

/* Removes what was written for a newcomer, and by it. */
static void remove_keys(const desk *d, const char *generation, const char *nonce, uint32_t parts) {
    key_text key;
    key_of(d, key, "ends.%s.%s", generation, nonce);
    discard(d, key);
    for (uint32_t part = 0; part < parts; part++) {
        key_of(d, key, "table.%s.%s.%u", generation, nonce, part);
        discard(d, key);
    }
}

static gcoll_status check_store(const gcoll_store *store, const char *option) {
    if (!store)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL; newcomers wait in a store", option);
    if (gcoll_store_lacks(store) != 0)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "%s: lacks operations, which newcomers need", option);
    return GCOLL_OK;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Texts one after the other, each with its end. */
typedef struct texts {
    char *data;
    size_t bytes, room;
} texts;

static gcoll_status add_bytes(texts *t, const void *data, size_t bytes) {
    if (!t->data || t->bytes + bytes > t->room) {
        const size_t room = 2 * (t->bytes + bytes) + 1;
        char *more = realloc(t->data, room);
        if (!more)
            return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the addresses of a context");
        t->data = more;
        t->room = room;
    }
    if (bytes > 0)
        memcpy(t->data + t->bytes, data, bytes);
    t->bytes += bytes;
    return GCOLL_OK;
}

static gcoll_status add_text(texts *t, const char *text) {
    return add_bytes(t, text, strlen(text) + 1);
}

/* Copies the next text, without bytes that are not printable. False: there is none, or it is too long. */
static bool next_text(const char *data, size_t bytes, size_t *at, char *text, size_t size) {
    const char *end = *at < bytes ? memchr(data + *at, '\0', bytes - *at) : NULL;
    const size_t length = end ? (size_t)(end - data) - *at : 0;
    if (!end || length >= size)
        return false;
    memcpy(text, data + *at, length + 1);
    gcoll_text_clean(text);
    *at += length + 1;
    return true;
}

/* Takes the ends of one rank after the other, from a table. */
static gcoll_status take_all_ends(gcoll_context *context, const texts *t, size_t at) {
    char record[GCOLL_RECORD_MAX], address[GCOLL_ADDRESS_MAX];
    gcoll_status status = GCOLL_OK;
    for (uint32_t rank = 0; status == GCOLL_OK && rank < context->size; rank++) {
        if (!next_text(t->data, t->bytes, &at, record, sizeof record) ||
            !next_text(t->data, t->bytes, &at, address, sizeof address))
            return gcoll_error(GCOLL_ERR_PROTOCOL, "the ends of rank %u are missing in a table", rank);
        status = gcoll_rendezvous_take_record(context, rank, record);
        if (status == GCOLL_OK && rank != context->rank)
            status = gcoll_council_know(context, rank, address);
    }
    return status;
}

/* Takes a table: the costs, and the ends of all ranks. */
static gcoll_status take_table(gcoll_context *context, const texts *t) {
    char costs[GCOLL_BASIS_TEXT_MAX];
    size_t at = 0;
    if (!next_text(t->data, t->bytes, &at, costs, sizeof costs))
        return gcoll_error(GCOLL_ERR_PROTOCOL, "the costs are missing in a table");
    gcoll_status status = take_all_ends(context, t, at);
    return status == GCOLL_OK ? gcoll_basis_take(context, costs) : status;
}

/* ---- All in ---------------------------------------------------------------------------------- */

/* The third agreement. *again: somebody is gone. */
static gcoll_status agree_all_in(gcoll_context *context, int64_t timeout_ms, bool *again) {
    gcoll_agree_bytes accord = {0};
    const gcoll_motion motion = {.doing = ADMIT, .bits = UINT64_MAX, .timeout_ms = timeout_ms};
    gcoll_status status = gcoll_council_agree(context, &motion, &accord);
    for (uint32_t rank = 0; status == GCOLL_OK && rank < context->size; rank++)
        *again = *again || gcoll_accord_is_gone(&accord, rank);
    free(accord.data);
    return status;
}

static gcoll_status destroy_with(gcoll_context *context, gcoll_status status) {
    char text[1024];
    snprintf(text, sizeof text, "%s", gcoll_last_error());
    gcoll_context_destroy(context);
    return status == GCOLL_OK ? status : gcoll_error(status, "%s", text);
}

/* ---- Inside ---------------------------------------------------------------------------------- */

typedef struct newcomer {
    uint32_t place;
    char nonce[NONCE_TEXT];
} newcomer;

/* A try to grow. */
typedef struct growth {
    gcoll_child c;
    desk d;
    const gcoll_grow_options *o;
    newcomer newcomers[GCOLL_GROW_MOST];
    uint32_t count;   /* of them */
    uint32_t members; /* ranks that are left */
    uint32_t parts;   /* of the table */
    bool leads;
} growth;

/* The clock by which the store must have answered, so that the other ranks do not take this one for gone. */
static int64_t store_limit(const growth *g, int64_t most_ms) {
    const int64_t limit_ms = gcoll_timeout_of(g->c.parent, g->o->timeout_ms) / PART;
    return gcoll_now_ms() + (limit_ms < most_ms ? limit_ms : most_ms);
}

static gcoll_motion motion_of(const growth *g, const char *doing, const void *row, size_t bytes) {
    return (gcoll_motion){.doing = doing,
                          .bits = UINT64_MAX,
                          .row = row,
                          .row_bytes = bytes,
                          .timeout_ms = g->o->timeout_ms,
                          .child = g->c.context};
}

static bool is_nonce(const char *text) {
    return strlen(text) == NONCE_TEXT - 1 && strspn(text, "0123456789abcdef") == NONCE_TEXT - 1;
}

/* Reads which newcomers wait. A place that holds something else is freed. */
static gcoll_status read_places(growth *g, newcomer waiting[GCOLL_GROW_MOST], uint32_t *count) {
    const uint32_t most = g->o->most ? g->o->most : GCOLL_GROW_MOST;
    *count = 0;
    for (uint32_t place = 0; place < GCOLL_GROW_MOST && *count < most; place++) {
        key_text key;
        char nonce[NONCE_TEXT + 1];
        size_t bytes = 0;
        key_of(&g->d, key, "place.%u", place);
        const gcoll_status status = get(&g->d, key, nonce, sizeof nonce, &bytes, 0);
        if (status == GCOLL_ERR_PROTOCOL || (status == GCOLL_OK && !is_nonce(nonce)))
            discard(&g->d, key);
        else if (status == GCOLL_OK) {
            waiting[*count].place = place;
            memcpy(waiting[(*count)++].nonce, nonce, NONCE_TEXT);
        } else if (status != GCOLL_ERR_NOT_FOUND)
            return status;
    }
    return GCOLL_OK;
}

/* Whether this rank is the lowest that it knows to be left. It need not be right. */
static bool seems_to_lead(gcoll_context *parent) {
    for (uint32_t rank = 0; rank < parent->rank; rank++)
        if (!gcoll_council_knows_gone(parent, rank))
            return false;
    return true;
}

static void write_failure(gcoll_status status, char *row, size_t size) {
    snprintf(row, size, "!%d %.*s", (int)status, GCOLL_REASON_BYTES, gcoll_last_error());
}

/* The failure of a rank, as all others get it. */
static gcoll_status read_failure(const char *row) {
    char *reason = NULL;
    const long status = strtol(row + 1, &reason, 10);
    return gcoll_error(status > GCOLL_OK && status <= GCOLL_ERR_INTERNAL ? (gcoll_status)status
                                                                         : GCOLL_ERR_PROTOCOL,
                       "%.*s", GCOLL_REASON_BYTES, reason[0] == ' ' ? reason + 1 : reason);
}

/* The row of the first agreement: "<generation>", and " <place> <nonce>" of each newcomer; or "?" of a rank
 * that did not ask the store; or "!" and why it failed. */
#define PLACES_MAX (GCOLL_GENERATION_TEXT + GCOLL_GROW_MOST * (NONCE_TEXT + 4) + GCOLL_REASON_BYTES)

static void write_places(growth *g, char row[PLACES_MAX]) {
    newcomer waiting[GCOLL_GROW_MOST];
    uint32_t count = 0;
    char generation[GCOLL_GENERATION_TEXT];
    gcoll_text to = {row, PLACES_MAX, 0};
    gcoll_text_add(&to, "?");
    g->leads = seems_to_lead(g->c.parent);
    if (!g->leads)
        return;
    g->d.limit_ms = store_limit(g, ANSWER_MS * PART);
    gcoll_status status = gcoll_generation_make(generation);
    if (status == GCOLL_OK)
        status = read_places(g, waiting, &count);
    if (status != GCOLL_OK) {
        write_failure(status, row, PLACES_MAX);
        return;
    }
    to.used = 0;
    gcoll_text_add(&to, "%s", generation);
    for (uint32_t i = 0; i < count; i++)
        gcoll_text_add(&to, " %u %s", waiting[i].place, waiting[i].nonce);
}

/* Takes the row of the lowest rank. *again: it did not know that it would be the lowest. */
static gcoll_status take_places(growth *g, const char *row, bool *again) {
    char generation[GCOLL_GENERATION_TEXT];
    int at = 0, used = 0;
    g->count = 0;
    if (row[0] == '!')
        return read_failure(row);
    *again = row[0] == '?';
    if (*again)
        return GCOLL_OK;
    bool is_right = sscanf(row, "%32[0-9a-f]%n", generation, &at) == 1 && at == GCOLL_GENERATION_TEXT - 1;
    while (is_right && row[at] != '\0') {
        newcomer *n = &g->newcomers[g->count];
        is_right = g->count++ < GCOLL_GROW_MOST &&
                   sscanf(row + at, " %2" SCNu32 " %16[0-9a-f]%n", &n->place, n->nonce, &used) == 2 &&
                   n->place < GCOLL_GROW_MOST && is_nonce(n->nonce);
        at += used;
    }
    if (!is_right) {
        g->count = 0;
        return gcoll_error(GCOLL_ERR_PROTOCOL, "rank %u brought broken places of newcomers", g->c.ranks[0]);
    }
    memcpy(g->c.generation, generation, sizeof generation);
    return GCOLL_OK;
}

/* Finds the ranks of the new context, newcomers behind. */
static gcoll_status find_members(growth *g, const gcoll_agree_bytes *accord) {
    gcoll_child *c = &g->c;
    c->ranks = calloc((size_t)c->parent->size + GCOLL_GROW_MOST, sizeof *c->ranks);
    if (!c->ranks)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %u ranks", c->parent->size);
    for (uint32_t rank = 0; rank < c->parent->size; rank++) {
        if (gcoll_accord_is_gone(accord, rank))
            continue;
        if (rank == c->parent->rank)
            c->rank = c->size;
        c->ranks[c->size++] = rank;
    }
    g->members = c->size;
    g->leads = c->rank == 0;
    return GCOLL_OK;
}

/* The row of the lowest rank, as a text. */
static gcoll_status row_of_lowest(const growth *g, const gcoll_agree_bytes *accord, const char **row,
                                  size_t *bytes) {
    *row = (const char *)gcoll_council_row(g->c.parent, accord, g->c.ranks[0], bytes);
    if (*bytes == 0 || (*row)[*bytes - 1] != '\0')
        return gcoll_error(GCOLL_ERR_PROTOCOL, "rank %u brought a broken row", g->c.ranks[0]);
    return GCOLL_OK;
}

static gcoll_status agree_on_newcomers(growth *g, gcoll_agree_bytes *accord, bool *again) {
    char row[PLACES_MAX];
    const char *lowest = NULL;
    size_t bytes = 0;
    write_places(g, row);
    const gcoll_motion motion = motion_of(g, "calls gcoll_context_grow", row, strlen(row) + 1);
    gcoll_status status = gcoll_council_agree(g->c.parent, &motion, accord);
    if (status == GCOLL_OK)
        status = find_members(g, accord);
    if (status == GCOLL_OK)
        status = row_of_lowest(g, accord, &lowest, &bytes);
    if (status == GCOLL_OK)
        status = take_places(g, lowest, again);
    if (status == GCOLL_OK && !*again)
        for (uint32_t i = 0; i < g->count; i++)
            g->c.ranks[g->c.size++] = GCOLL_NO_RANK;
    if (g->c.size > GCOLL_MAX_RANKS)
        status = gcoll_error(GCOLL_ERR_INVALID, "the new context would have %u ranks; allowed are %u",
                             g->c.size, GCOLL_MAX_RANKS);
    return status;
}

/* Lets the newcomers in, and collects their ends. "": a newcomer did not answer, and has lost its place. */
static gcoll_status collect(growth *g, texts *row) {
    key_text key;
    char text[GCOLL_ENDS_MAX + 1];
    bool all = true;
    gcoll_status status = GCOLL_OK;
    const size_t before = row->bytes;
    g->d.limit_ms = store_limit(g, ANSWER_MS);
    for (uint32_t i = 0; i < g->count && status == GCOLL_OK; i++) {
        key_of(&g->d, key, "in.%s", g->newcomers[i].nonce);
        const int bytes = snprintf(text, sizeof text, "%s %u %u", g->c.generation, g->c.size, g->members + i);
        status = set(&g->d, key, text, (size_t)bytes);
    }
    for (uint32_t i = 0; i < g->count && status == GCOLL_OK; i++) {
        size_t bytes = 0, end = 0;
        const int64_t left = left_ms(&g->d);
        key_of(&g->d, key, "ends.%s.%s", g->c.generation, g->newcomers[i].nonce);
        status = get(&g->d, key, text, sizeof text, &bytes, left);
        end = status == GCOLL_OK ? strlen(text) + 1 : 0;
        const bool is_there = status == GCOLL_OK && text[0] != '!' && end < bytes &&
                              strlen(text + end) + 1 == bytes - end && row->bytes + bytes < GCOLL_ROW_MAX / 2;
        if (status == GCOLL_OK && is_there)
            status = add_bytes(row, text, bytes);
        else if (status == GCOLL_OK || status == GCOLL_ERR_TIMEOUT || status == GCOLL_ERR_NOT_FOUND ||
                 status == GCOLL_ERR_PROTOCOL) {
            gcoll_log(g->c.parent, GCOLL_LOG_WARNING, "a newcomer did not answer, and is not admitted");
            free_place(&g->d, g->newcomers[i].place, g->newcomers[i].nonce);
            all = false;
            status = GCOLL_OK;
        }
    }
    if (status == GCOLL_OK && !all)
        row->bytes = before;
    return status;
}

/* The row of the second agreement: this rank's ends; of the lowest rank, behind them the costs and the ends
 * of all newcomers, or nothing if one of them is missing, or "!" and why it failed. */
static gcoll_status make_row(growth *g, texts *row) {
    char ends[GCOLL_ENDS_MAX], costs[GCOLL_BASIS_TEXT_MAX], failure[GCOLL_REASON_BYTES + 16];
    const size_t bytes = gcoll_child_open_ends(&g->c, ends);
    gcoll_status status = add_bytes(row, ends, bytes);
    if (status != GCOLL_OK || !g->leads || ends[0] == '!')
        return status;
    gcoll_basis_write(g->c.parent, costs);
    status = add_text(row, costs);
    if (status == GCOLL_OK)
        status = collect(g, row);
    if (status != GCOLL_OK) {
        write_failure(status, failure, sizeof failure);
        row->bytes = 0;
        status = add_text(row, failure);
    }
    return status;
}

/* Makes the table of the rows. *again: a newcomer is missing. */
static gcoll_status make_table(growth *g, const gcoll_agree_bytes *accord, texts *table, bool *again) {
    const char *lowest = NULL;
    char text[GCOLL_ENDS_MAX], address[GCOLL_ADDRESS_MAX];
    size_t bytes = 0, at = 0, own = 0;
    gcoll_status status = row_of_lowest(g, accord, &lowest, &bytes);
    if (status != GCOLL_OK)
        return status;
    if (lowest[0] == '!')
        return lowest[1] >= '0' && lowest[1] <= '9'
                   ? read_failure(lowest)
                   : gcoll_error(GCOLL_ERR_PEER, "rank %u could not open its end: %.*s", g->c.ranks[0],
                                 GCOLL_REASON_BYTES, lowest + 1);
    bool is_right = next_text(lowest, bytes, &at, text, sizeof text) &&
                    next_text(lowest, bytes, &at, text, sizeof text) &&
                    next_text(lowest, bytes, &at, text, GCOLL_BASIS_TEXT_MAX);
    *again = is_right && at == bytes;
    if (!is_right)
        return gcoll_error(GCOLL_ERR_PROTOCOL, "rank %u brought a broken row", g->c.ranks[0]);
    if (*again)
        return GCOLL_OK;
    status = add_text(table, text);
    for (uint32_t rank = 0; rank < g->members && status == GCOLL_OK; rank++) {
        const char *row = (const char *)gcoll_council_row(g->c.parent, accord, g->c.ranks[rank], &own);
        size_t from = 0;
        is_right = next_text(row, own, &from, text, sizeof text);
        if (is_right && text[0] == '!')
            return gcoll_error(GCOLL_ERR_PEER, "rank %u could not open its end: %.*s", g->c.ranks[rank],
                               GCOLL_REASON_BYTES, text + 1);
        if (!is_right || !next_text(row, own, &from, address, sizeof address))
            return gcoll_error(GCOLL_ERR_PROTOCOL, "rank %u brought a broken row", g->c.ranks[rank]);
        status = add_text(table, text);
        if (status == GCOLL_OK)
            status = add_text(table, address);
    }
    return status == GCOLL_OK ? add_bytes(table, lowest + at, bytes - at) : status;
}

static gcoll_status write_tables(growth *g, const texts *table) {
    gcoll_status status = GCOLL_OK;
    g->d.limit_ms = store_limit(g, ANSWER_MS * PART);
    for (uint32_t i = 0; i < g->count; i++)
        for (uint32_t part = g->parts; part-- > 0 && status == GCOLL_OK;) {
            key_text key;
            char value[PART_BYTES + 16];
            const size_t from = (size_t)part * PART_BYTES;
            const size_t bytes = table->bytes - from < PART_BYTES ? table->bytes - from : PART_BYTES;
            const int head = snprintf(value, sizeof value, "%u ", g->parts);
            memcpy(value + head, table->data + from, bytes);
            key_of(&g->d, key, "table.%s.%s.%u", g->c.generation, g->newcomers[i].nonce, part);
            status = set(&g->d, key, value, (size_t)head + bytes);
        }
    return status;
}

/* Enters the new context together with the newcomers. A rank that cannot is gone from it, and so the others
 * begin again. */
static gcoll_status enter(growth *g, const texts *table, bool *again) {
    gcoll_child *c = &g->c;
    gcoll_status status = c->opened == GCOLL_OK ? GCOLL_OK : gcoll_error(c->opened, "%s", c->reason);
    g->parts = (uint32_t)((table->bytes + PART_BYTES - 1) / PART_BYTES);
    if (status == GCOLL_OK)
        status = take_table(c->context, table);
    if (status == GCOLL_OK && c->rank < WRITERS) {
        const gcoll_status written = write_tables(g, table); /* the other rank may write them, too */
        if (written != GCOLL_OK)
            gcoll_log(c->parent, GCOLL_LOG_WARNING, "newcomers do not get the addresses: %s",
                      gcoll_last_error());
    }
    if (status == GCOLL_OK)
        status = agree_all_in(c->context, g->o->timeout_ms, again);
    return status;
}

static gcoll_status try_once(growth *g, bool *again) {
    gcoll_agree_bytes members = {0}, ends = {0};
    texts row = {0}, table = {0};
    gcoll_status status = agree_on_newcomers(g, &members, again);
    const bool goes_on = status == GCOLL_OK && !*again && g->count > 0;
    if (goes_on)
        status = make_row(g, &row);
    if (goes_on && status == GCOLL_OK) {
        const gcoll_motion motion = motion_of(g, "calls gcoll_context_grow (addresses)", row.data, row.bytes);
        status = gcoll_council_agree(g->c.parent, &motion, &ends);
    }
    if (goes_on && status == GCOLL_OK)
        *again = !gcoll_accord_have_same_gone(&members, &ends, g->c.parent->size);
    if (goes_on && status == GCOLL_OK && !*again)
        status = make_table(g, &ends, &table, again);
    if (goes_on && status == GCOLL_OK && !*again)
        status = enter(g, &table, again);
    free(members.data);
    free(ends.data);
    free(row.data);
    free(table.data);
    return status;
}

/* After a try: the lowest rank removes its keys; if it failed or begins again, the places stay, and newcomers
 * that live are asked again. */
static void tidy_up(growth *g, bool is_done) {
    g->d.limit_ms = store_limit(g, ANSWER_MS * PART);
    for (uint32_t i = 0; g->leads && i < g->count; i++) {
        key_text key;
        key_of(&g->d, key, "in.%s", g->newcomers[i].nonce);
        discard(&g->d, key);
        remove_keys(&g->d, g->c.generation, g->newcomers[i].nonce, g->parts);
        if (is_done)
            free_place(&g->d, g->newcomers[i].place, g->newcomers[i].nonce);
    }
    gcoll_store_set_timeout(g->d.store, -1);
}

static gcoll_status complete(gcoll_child *c) {
    c->context->parent_ranks = c->ranks;
    c->ranks = NULL;
    gcoll_context_tune_spin(c->context, gcoll_rendezvous_sharing(c->context, c->rank));
    return gcoll_context_finish(c->context, c->parent->guard.driver);
}

static gcoll_status grow(gcoll_context *context, const gcoll_grow_options *o, gcoll_store *store,
                         gcoll_context **out) {
    gcoll_status status = GCOLL_OK;
    bool again = true, none = false;
    *out = NULL;
    gcoll_context_settle(context); /* the others may not know yet that it is broken */
    for (uint32_t i = 0; i < TRIES && again && status == GCOLL_OK; i++) {
        growth g = {.c = {.parent = context, .doing = "grow the context"}, .d = {store, o->job, 0}, .o = o};
        again = false;
        status = try_once(&g, &again);
        none = status == GCOLL_OK && !again && g.count == 0;
        const bool is_done = status == GCOLL_OK && !again && !none;
        char text[1024];
        snprintf(text, sizeof text, "%s", gcoll_last_error());
        tidy_up(&g, is_done);
        if (status != GCOLL_OK)
            gcoll_error(status, "%s", text);
        if (is_done)
            status = complete(&g.c);
        free(g.c.ranks);
        if (is_done && status == GCOLL_OK)
            *out = g.c.context;
        else if (g.c.context)
            destroy_with(g.c.context, status);
    }
    if (again && status == GCOLL_OK)
        status =
            gcoll_error(GCOLL_ERR_PEER, "%d tries to grow the context found a rank or newcomer gone", TRIES);
    return status;
}

void gcoll_grow_options_init(gcoll_grow_options *options) {
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
}

static gcoll_status check_grow(const gcoll_context *context, gcoll_grow_options *o) {
    gcoll_status status = gcoll_timeout_check("options.timeout_ms", o->timeout_ms);
    if (!o->job)
        o->job = "default";
    if (status == GCOLL_OK && o->most > GCOLL_GROW_MOST)
        status = gcoll_error(GCOLL_ERR_INVALID, "options.most: is %u; allowed are 0 (all) to %d", o->most,
                             GCOLL_GROW_MOST);
    if (status == GCOLL_OK && !gcoll_job_is_name(o->job))
        status =
            gcoll_error(GCOLL_ERR_INVALID, "options.job: is '%.80s'; allowed are " GCOLL_JOB_NAMES, o->job);
    if (status == GCOLL_OK)
        status = check_store(o->store, "options.store");
    if (status == GCOLL_OK && context->transport == &gcoll_transport_inproc)
        status = gcoll_error(GCOLL_ERR_UNSUPPORTED, "newcomers cannot join a context over inproc");
    return status == GCOLL_OK ? gcoll_encryption_may_grow(&context->settings) : status;
}

gcoll_status gcoll_context_grow(gcoll_context *context, const gcoll_grow_options *options,
                                gcoll_context **out) {
    if (!context || !options || !out)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL",
                           !context  ? "context"
                           : options ? "grown"
                                     : "options");
    gcoll_grow_options known;
    gcoll_grow_options_init(&known);
    gcoll_status status = gcoll_options_read(&known, sizeof known, sizeof known, options);
    if (status == GCOLL_OK)
        status = check_grow(context, &known);
    if (status == GCOLL_OK)
        status = gcoll_enter(context);
    if (status != GCOLL_OK)
        return status;
    gcoll_context *grown = NULL;
    gcoll_store *store = NULL;
    status = gcoll_store_signed_create(known.store, context->settings.endpoint.secret, &store);
    if (status == GCOLL_OK)
        status = grow(context, &known, store, &grown);
    gcoll_store_destroy(store);
    if (status == GCOLL_OK)
        *out = grown;
    gcoll_leave(context);
    return status;
}

/* ---- Newcomers ------------------------------------------------------------------------------- */

/* A newcomer. */
typedef struct guest {
    desk d;
    const gcoll_context_options *o;
    const gcoll_network *network;
    const gcoll_settings *keys; /* of its secret and its certificate */
    int64_t timeout_ms;
    char nonce[NONCE_TEXT];
    char answer[128]; /* the latest; "": none yet */
    char generation[GCOLL_GENERATION_TEXT];
    uint32_t place;
    bool has_place;
    uint32_t parts;    /* of the table */
    const char *stage; /* for the error of the time limit */
    gcoll_context *context;
} guest;

static gcoll_status too_late(const guest *g) {
    return gcoll_error(GCOLL_ERR_TIMEOUT, "job '%s': was not admitted within %" PRId64 " ms: %s", g->d.job,
                       g->timeout_ms, g->stage);
}

static gcoll_status draw_nonce(guest *g) {
    uint8_t random[8];
    gcoll_status status = gcoll_random_bytes(random, sizeof random);
    for (size_t i = 0; status == GCOLL_OK && i < sizeof random; i++)
        snprintf(g->nonce + 2 * i, 3, "%02x", random[i]);
    return status;
}

/* Claims a place. Without a free one *has_place stays false. */
static gcoll_status claim_place(guest *g) {
    for (uint32_t place = 0; place < GCOLL_GROW_MOST; place++) {
        key_text key;
        key_of(&g->d, key, "place.%u", place);
        limit(&g->d);
        const gcoll_status status = gcoll_store_set_new(g->d.store, key, g->nonce, strlen(g->nonce));
        if (status == GCOLL_OK) {
            gcoll_store_keep(g->d.store, key, KEEP_MS);
            g->place = place;
            g->has_place = true;
            return GCOLL_OK;
        }
        if (status != GCOLL_ERR_STATE)
            return status;
    }
    g->stage = "all places for newcomers are taken, and no rank calls gcoll_context_grow";
    return GCOLL_OK;
}

/* Waits for a place, and for an answer that is not the latest. */
static gcoll_status await_answer(guest *g) {
    key_text key;
    char answer[sizeof g->answer];
    size_t bytes = 0;
    key_of(&g->d, key, "in.%s", g->nonce);
    while (left_ms(&g->d) > 0) {
        gcoll_status status = GCOLL_OK;
        g->stage = "no rank of the job has called gcoll_context_grow";
        g->has_place = g->has_place && holds(&g->d, g->place, g->nonce);
        if (!g->has_place)
            status = claim_place(g);
        if (status == GCOLL_OK)
            status = get(&g->d, key, answer, sizeof answer, &bytes, SLICE_MS);
        if (status == GCOLL_OK && strcmp(answer, g->answer) != 0) {
            memcpy(g->answer, answer, sizeof answer);
            return GCOLL_OK;
        }
        if (status == GCOLL_OK)
            usleep(PAUSE_US);
        else if (status != GCOLL_ERR_TIMEOUT && status != GCOLL_ERR_NOT_FOUND)
            return status;
    }
    return too_late(g);
}

/* Makes the context that the answer describes, and opens its ends. */
static gcoll_status open_context(guest *g, char ends[GCOLL_ENDS_MAX], size_t *bytes) {
    char address[GCOLL_ADDRESS_MAX] = "", council[GCOLL_ADDRESS_MAX] = "";
    const char *answer = g->answer;
    gcoll_context_options o = *g->o;
    int end = 0;
    if (sscanf(answer, "%32[0-9a-f] %7" SCNu32 " %7" SCNu32 "%n", g->generation, &o.size, &o.rank, &end) !=
            3 ||
        answer[end] != '\0' || strlen(g->generation) != GCOLL_GENERATION_TEXT - 1 || o.size < 2 ||
        o.size > GCOLL_MAX_RANKS || o.rank == 0 || o.rank >= o.size)
        return gcoll_error(GCOLL_ERR_PROTOCOL, "job '%s': the answer to a newcomer makes no sense", g->d.job);
    gcoll_status status = gcoll_context_allocate(&o, &g->context);
    if (status != GCOLL_OK)
        return status;
    g->context->settings.store = NULL; /* its ranks met without one */
    gcoll_secret_copy(&g->context->settings, g->keys);
    status = gcoll_encryption_copy(&g->context->settings, g->keys, NULL, o.size);
    if (status == GCOLL_OK)
        status = gcoll_network_use(g->context, g->network);
    if (status == GCOLL_OK)
        status = gcoll_memory_open(g->context, o.accelerator, o.accelerator_times != 0);
    gcoll_generation_set(g->context, g->generation);
    if (status == GCOLL_OK)
        status = gcoll_context_open(g->context);
    if (status == GCOLL_OK)
        status = g->context->transport->address(g->context->endpoint, address, sizeof address);
    if (status == GCOLL_OK)
        status = gcoll_council_open(g->context, council);
    if (status != GCOLL_OK)
        return status;
    gcoll_rendezvous_record(address, ends);
    *bytes = strlen(ends) + 1;
    memcpy(ends + *bytes, council, strlen(council) + 1);
    *bytes += strlen(council) + 1;
    return GCOLL_OK;
}

/* Waits for a part of the table. *again: the ranks have dropped this try. */
static gcoll_status await_part(guest *g, uint32_t part, texts *table, bool *again) {
    key_text key, answer;
    char value[PART_BYTES + 17], now[sizeof g->answer];
    size_t bytes = 0;
    int head = 0;
    key_of(&g->d, key, "table.%s.%s.%u", g->generation, g->nonce, part);
    key_of(&g->d, answer, "in.%s", g->nonce);
    gcoll_status status = GCOLL_ERR_TIMEOUT;
    while (status == GCOLL_ERR_TIMEOUT || status == GCOLL_ERR_NOT_FOUND) {
        if (left_ms(&g->d) == 0)
            return too_late(g);
        status = get(&g->d, key, value, sizeof value, &bytes, SLICE_MS);
        if (status != GCOLL_ERR_TIMEOUT)
            continue;
        const gcoll_status asked = get(&g->d, answer, now, sizeof now, &(size_t){0}, 0);
        if (asked == GCOLL_ERR_NOT_FOUND || (asked == GCOLL_OK && strcmp(now, g->answer) != 0)) {
            *again = true;
            return GCOLL_OK;
        }
    }
    if (status != GCOLL_OK)
        return status;
    if (sscanf(value, "%3" SCNu32 "%n", &g->parts, &head) != 1 || g->parts == 0 || value[head] != ' ')
        return gcoll_error(GCOLL_ERR_PROTOCOL, "the store's key '%s' makes no sense", key);
    head++;
    return add_bytes(table, value + head, bytes - (size_t)head);
}

static gcoll_status enter_as_guest(guest *g, bool *again) {
    key_text key;
    char ends[GCOLL_ENDS_MAX], failure[GCOLL_REASON_BYTES + 16];
    size_t bytes = 0;
    texts table = {0};
    gcoll_status status = await_answer(g);
    if (status != GCOLL_OK)
        return status;
    g->stage = "the ranks of the job did not go on after they had let it in";
    status = open_context(g, ends, &bytes);
    key_of(&g->d, key, "ends.%s.%s", g->generation, g->nonce);
    if (status != GCOLL_OK) {
        write_failure(status, failure, sizeof failure);
        set(&g->d, key, failure, strlen(failure) + 1);
        return gcoll_error(status, "%s", strchr(failure, ' ') + 1);
    }
    status = set(&g->d, key, ends, bytes);
    g->parts = 1;
    for (uint32_t part = 0; status == GCOLL_OK && !*again && part < g->parts; part++)
        status = await_part(g, part, &table, again);
    if (status == GCOLL_OK && !*again)
        status = take_table(g->context, &table);
    free(table.data);
    if (status == GCOLL_OK && !*again)
        status = gcoll_council_reach(g->context, 0); /* else the ranks would let it in again and again */
    if (status == GCOLL_OK && !*again) {
        gcoll_context_tune_spin(g->context, gcoll_rendezvous_sharing(g->context, g->context->rank));
        status = agree_all_in(g->context, g->o->timeout_ms, again);
        *again = *again || status == GCOLL_ERR_PEER; /* the others begin again, or have gone on without it */
        status = *again ? GCOLL_OK : status;
    }
    return status;
}

/* Leaves nothing in the store; its place only if it begins again. */
static void leave_store(guest *g, bool again) {
    key_text key;
    if (g->has_place && !again) {
        free_place(&g->d, g->place, g->nonce);
        key_of(&g->d, key, "in.%s", g->nonce);
        discard(&g->d, key);
    }
    if (g->generation[0] != '\0')
        remove_keys(&g->d, g->generation, g->nonce, g->parts);
    g->generation[0] = '\0';
    g->parts = 0;
    gcoll_store_set_timeout(g->d.store, -1);
}

static gcoll_status join_as_guest(guest *g) {
    gcoll_status status = draw_nonce(g);
    bool again = true;
    while (status == GCOLL_OK && again) {
        again = false;
        status = enter_as_guest(g, &again);
        char text[1024];
        snprintf(text, sizeof text, "%s", gcoll_last_error());
        leave_store(g, again);
        if (status != GCOLL_OK)
            gcoll_error(status, "%s", text);
        if (status == GCOLL_OK && !again)
            status = gcoll_context_finish(g->context, g->o->progress_thread != 0);
        if (status != GCOLL_OK || again) {
            destroy_with(g->context, status);
            g->context = NULL;
        }
    }
    return status;
}

/* rank and size are those of the new context, which nobody knows yet. */
static gcoll_status read_join(gcoll_context_options *o, const gcoll_context_options *options) {
    gcoll_status status = gcoll_context_options_read(o, options);
    if (status != GCOLL_OK)
        return status;
    o->rank = 0;
    o->size = 1;
    o->recovery = 1;
    if (!o->job)
        o->job = "default";
    if (o->exchange)
        return gcoll_error(GCOLL_ERR_INVALID, "options.exchange: is set; newcomers wait in a store");
    status = gcoll_context_options_check(o);
    return status == GCOLL_OK ? check_store(o->store, "options.store") : status;
}

gcoll_status gcoll_context_join(const gcoll_context_options *options, gcoll_context **joined) {
    if (!options || !joined)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is NULL", options ? "joined" : "options");
    const int64_t began_ms = gcoll_now_ms();
    gcoll_context_options known = {0};
    gcoll_network network = {0};
    gcoll_status status = read_join(&known, options);
    if (status == GCOLL_OK)
        status = gcoll_network_read(&known, &network);
    if (status != GCOLL_OK)
        return status;
    const int64_t timeout_ms = known.timeout_ms ? known.timeout_ms : GCOLL_DEFAULT_TIMEOUT_MS;
    gcoll_settings keys = {.store = known.store};
    snprintf(keys.job, sizeof keys.job, "%s", known.job);
    if (network.transport == &gcoll_transport_inproc)
        status = gcoll_error(GCOLL_ERR_UNSUPPORTED, "newcomers cannot join over inproc");
    if (status == GCOLL_OK)
        status = gcoll_secret_read(&keys, &known);
    if (status == GCOLL_OK)
        status = gcoll_encryption_read(&keys, &known);
    if (status == GCOLL_OK)
        status = gcoll_encryption_may_grow(&keys);
    if (status == GCOLL_OK)
        status = gcoll_secret_use_store(&keys);
    guest g = {.d = {keys.store, known.job, began_ms + timeout_ms},
               .o = &known,
               .network = &network,
               .keys = &keys,
               .timeout_ms = timeout_ms};
    if (status == GCOLL_OK)
        status = join_as_guest(&g);
    gcoll_secret_free(&keys);
    gcoll_encryption_free(&keys);
    gcoll_network_free(&network);
    if (status == GCOLL_OK)
        *joined = g.context;
    return status;
}
