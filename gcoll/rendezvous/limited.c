/*
 * gcoll/rendezvous/limited.c - an allgather over a store that can only set a key and wait for a key.
 *
 * It serves stores that lack a get that does not wait, add or remove, so that ranks cannot be claimed in
 * them. In each round each rank writes its row. Rank 0 waits for the rows of all ranks and writes the table,
 * in as few keys as values allow. All others wait for the table. exchange.c does the rounds.
 *
 * The keys are below "gcoll/<job>/", with the launch in between if it has an identity. "x.1.<rank>" and
 * "t.1.<part>" are row and table of the first round. "<generation>/x.<round>.<rank>" and
 * "<generation>/t.<round>.<part>" are those of the other rounds.
 *
 * The keys of the first round may be left from an earlier launch, and cannot be removed. No other process can
 * have written a rank's own row. So a rank that does not find its own row in the table waits for a newer
 * table. While rank 0 waits for a rank in the second round, it reads the first rows of that rank and of
 * others again. If one has changed, it writes the table anew.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gcoll/rendezvous/meeting.h"
#include "gcoll/store/signed.h"

#define SLICE_MS     100 /* of a wait, after which rank 0 looks for a newer first row */
#define LOOKS        32u /* ranks that rank 0 looks at in one go */
#define LOOK_MS      20  /* interval at which a rank looks for a newer table */
#define LEAST_ASK_MS 100 /* for a store to answer */
#define LISTED       8   /* missing ranks named in an error */

struct gcoll_limited {
    gcoll_context *context;
    gcoll_store *store;
    int64_t deadline_ms;
    uint32_t round, rounds; /* the current round; the number of rounds begun */
    uint8_t *first;         /* rank 0: the table of the first round */
    size_t first_bytes;     /* of a row of it */
    uint32_t looked;        /* counts looks for newer rows */
    size_t parts[GCOLL_EXCHANGE_ROUNDS + 1];
    char unlike[320]; /* of a key that another secret has signed, for the error; "": there was none */
};

static int64_t left_ms(const gcoll_limited *l) {
    const int64_t left = l->deadline_ms - gcoll_now_ms();
    return left > 0 ? left : 0;
}

static void key_of(const gcoll_limited *l, char key[GCOLL_STORE_KEY_MAX + 1], char what, uint32_t round,
                   uint32_t number) {
    if (round == 1 || l->context->rendezvous->generation[0] == '\0')
        gcoll_rendezvous_key(l->context, key, "%c.%u.%u", what, round, number);
    else
        gcoll_rendezvous_key(l->context, key, "%s/%c.%u.%u", l->context->rendezvous->generation, what, round,
                             number);
}

static gcoll_status set(const gcoll_limited *l, const char *key, const void *value, size_t bytes) {
    const int64_t left = left_ms(l);
    gcoll_store_set_timeout(l->store, left > LEAST_ASK_MS ? left : LEAST_ASK_MS);
    gcoll_status status = gcoll_store_set(l->store, key, value, bytes);
    if (status == GCOLL_OK) /* if the job crashes, the store may drop it */
        gcoll_store_keep(l->store, key, GCOLL_KEEP_MS);
    return status;
}

/* Waits for a value of `bytes` bytes. TIMEOUT: there is none, or one of another size, from another launch.
 */
static gcoll_status get(gcoll_limited *l, const char *key, void *value, size_t bytes, int64_t wait_ms) {
    const int64_t left = left_ms(l);
    size_t got = 0;
    uint8_t *room = malloc(bytes + 1); /* a wrong value must not reach the table */
    if (!room)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %zu bytes of the store", bytes);
    gcoll_store_set_timeout(l->store, left > LEAST_ASK_MS ? left : LEAST_ASK_MS);
    gcoll_status status =
        gcoll_store_get_wait(l->store, key, room, bytes, &got, wait_ms < left ? wait_ms : left);
    /* In the first round it may be of an earlier launch, with another secret. */
    const bool is_unlike = status == GCOLL_ERR_PROTOCOL && l->round <= 1;
    if (is_unlike)
        snprintf(l->unlike, sizeof l->unlike, "; %s", gcoll_last_error());
    if (is_unlike || status == GCOLL_ERR_INVALID || (status == GCOLL_OK && got != bytes)) {
        status = GCOLL_ERR_TIMEOUT;
        usleep(LOOK_MS * 1000);
    }
    if (status == GCOLL_OK)
        memcpy(value, room, bytes);
    free(room);
    return status;
}

/* Rows that did not come keep the bytes that exchange.c put there before. */
static gcoll_status check_missing(const gcoll_limited *l, const uint8_t *all, size_t bytes) {
    char list[128] = "";
    uint32_t missing = 0;
    for (uint32_t rank = 0; rank < l->context->size; rank++) {
        const size_t used = strlen(list);
        if (gcoll_exchange_row_is_there(all + rank * bytes, bytes))
            continue;
        if (missing++ < LISTED)
            snprintf(list + used, sizeof list - used, "%s%u", used ? ", " : "", rank);
    }
    if (missing == 0)
        return GCOLL_OK;
    return gcoll_error(
        GCOLL_ERR_TIMEOUT, "job '%s'%s: %u of %u ranks did not join within %" PRId64 " ms: %s%s%s",
        l->context->settings.job, l->context->rendezvous->meeting->launch_said, missing, l->context->size,
        l->context->settings.timeout_ms, list, missing > LISTED ? ", ..." : "", l->unlike);
}

/* ---- Rank 0 ------------------------------------------------------------------------------- */

static size_t rows_in_part(size_t bytes) {
    return GCOLL_STORE_SIGNED_MAX / bytes;
}

static gcoll_status write_table(gcoll_limited *l, uint32_t round, const uint8_t *all, size_t bytes) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    const size_t rows = rows_in_part(bytes);
    gcoll_status status = GCOLL_OK;
    l->parts[round] = (l->context->size + rows - 1) / rows;
    for (size_t part = 0; part < l->parts[round] && status == GCOLL_OK; part++) {
        const size_t from = part * rows, left = l->context->size - from;
        key_of(l, key, 't', round, (uint32_t)part);
        status = set(l, key, all + from * bytes, (left < rows ? left : rows) * bytes);
    }
    return status;
}

/* Looks for newer first rows of some ranks, from this rank on, in turn. The row of a rank that does not go on
 * may have been that of an earlier launch. */
static gcoll_status look_again(gcoll_limited *l, uint32_t from) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    const uint32_t left = l->context->size - from, looks = left < LOOKS ? left : LOOKS;
    gcoll_status status = GCOLL_OK;
    bool has_changed = false;
    uint8_t *now = malloc(l->first_bytes);
    if (!now)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a row of the store");
    for (uint32_t i = 0; i < looks && status == GCOLL_OK; i++) {
        const uint32_t rank = from + l->looked++ % left;
        uint8_t *known = l->first + rank * l->first_bytes;
        key_of(l, key, 'x', 1, rank);
        status = get(l, key, now, l->first_bytes, SLICE_MS);
        if (status == GCOLL_OK && memcmp(known, now, l->first_bytes) != 0) {
            memcpy(known, now, l->first_bytes);
            has_changed = true;
        }
        status = status == GCOLL_ERR_TIMEOUT ? GCOLL_OK : status;
    }
    free(now);
    return status == GCOLL_OK && has_changed ? write_table(l, 1, l->first, l->first_bytes) : status;
}

/* Waits for the row of a rank, and leaves it as it is if the time is over. It looks at least once, because
 * the time may have passed while it waited for others. */
static gcoll_status await_row(gcoll_limited *l, uint32_t rank, uint8_t *row, size_t bytes) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    gcoll_status status;
    bool is_last;
    key_of(l, key, 'x', l->round, rank);
    do {
        is_last = left_ms(l) == 0;
        status = get(l, key, row, bytes, SLICE_MS);
        if (status == GCOLL_OK && l->round == 1 && !gcoll_exchange_hello_fits(l->context, row, bytes)) {
            status = GCOLL_ERR_TIMEOUT; /* an earlier launch of another size, most likely: told at the end */
            usleep(LOOK_MS * 1000);
        }
        if (status == GCOLL_ERR_TIMEOUT && l->round == 2 && !is_last) {
            const gcoll_status looked = look_again(l, rank);
            status = looked == GCOLL_OK ? status : looked;
        }
    } while (status == GCOLL_ERR_TIMEOUT && !is_last);
    return status == GCOLL_ERR_TIMEOUT ? GCOLL_OK : status;
}

static gcoll_status gather(gcoll_limited *l, const void *mine, size_t bytes, uint8_t *all) {
    gcoll_status status = GCOLL_OK;
    memcpy(all, mine, bytes);
    for (uint32_t rank = 1; rank < l->context->size && status == GCOLL_OK; rank++)
        status = await_row(l, rank, all + rank * bytes, bytes);
    if (status == GCOLL_OK)
        status = write_table(l, l->round, all, bytes); /* also one that lacks rows: the others see which */
    if (status == GCOLL_OK && l->round == 1) {
        l->first = malloc(l->context->size * bytes);
        l->first_bytes = bytes;
        if (!l->first)
            return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %zu bytes of each of %u ranks", bytes,
                               l->context->size);
        memcpy(l->first, all, l->context->size * bytes);
    }
    return status;
}

/* ---- The others --------------------------------------------------------------------------- */

static gcoll_status read_table(gcoll_limited *l, uint8_t *all, size_t bytes, int64_t wait_ms) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    const size_t rows = rows_in_part(bytes);
    gcoll_status status = GCOLL_OK;
    for (size_t from = 0; from < l->context->size && status == GCOLL_OK; from += rows) {
        const size_t left = l->context->size - from;
        key_of(l, key, 't', l->round, (uint32_t)(from / rows));
        status = get(l, key, all + from * bytes, (left < rows ? left : rows) * bytes, wait_ms);
    }
    return status;
}

/* Rank 0 may be there and wait for others: its deadline counts from its own start. */
static gcoll_status no_word(const gcoll_limited *l, bool stale) {
    const gcoll_context *context = l->context;
    if (l->round > 1)
        return gcoll_error(GCOLL_ERR_TIMEOUT,
                           "job '%s'%s: rank 0 joined, but still waited for other ranks after %" PRId64 " ms",
                           context->settings.job, context->rendezvous->meeting->launch_said,
                           context->settings.timeout_ms);
    return gcoll_error(GCOLL_ERR_TIMEOUT,
                       "job '%s'%s: no word of rank 0 within %" PRId64
                       " ms: rank 0 did not join, or waits for ranks that did not%s",
                       context->settings.job, context->rendezvous->meeting->launch_said,
                       context->settings.timeout_ms,
                       stale ? "; or rank 0 of another launch did, as the store cannot keep launches apart "
                               "(options.launch)"
                             : "");
}

static gcoll_status follow(gcoll_limited *l, const void *mine, size_t bytes, uint8_t *all) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    bool stale = false;
    key_of(l, key, 'x', l->round, l->context->rank);
    gcoll_status status = set(l, key, mine, bytes);
    l->deadline_ms += GCOLL_WORD_MS; /* rank 0 says who is missing when its time is over */
    while (status == GCOLL_OK) {
        status = read_table(l, all, bytes, left_ms(l));
        if (status == GCOLL_OK && memcmp(all + l->context->rank * bytes, mine, bytes) == 0)
            break;
        stale = stale || status == GCOLL_OK;
        if (status != GCOLL_OK && status != GCOLL_ERR_TIMEOUT)
            break;
        if (left_ms(l) == 0) {
            status = no_word(l, stale);
            break;
        }
        status = GCOLL_OK;
        usleep(LOOK_MS * 1000);
    }
    l->deadline_ms -= GCOLL_WORD_MS;
    return status;
}

/* ---- Both --------------------------------------------------------------------------------- */

gcoll_status gcoll_limited_create(gcoll_context *context, gcoll_store *store, int64_t deadline_ms,
                                  gcoll_limited **out) {
    gcoll_limited *l = calloc(1, sizeof *l);
    if (!l)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a context");
    *l = (gcoll_limited){.context = context, .store = store, .deadline_ms = deadline_ms};
    *out = l;
    return GCOLL_OK;
}

gcoll_status gcoll_limited_exchange(void *arg, const void *mine, size_t bytes, void *all) {
    gcoll_limited *l = arg;
    l->round = ++l->rounds;
    gcoll_status status = l->context->rank == 0 ? gather(l, mine, bytes, all) : follow(l, mine, bytes, all);
    return status == GCOLL_OK ? check_missing(l, all, bytes) : status;
}

void gcoll_limited_end(gcoll_limited *l, bool all_are_through) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    const bool removes = all_are_through && (gcoll_store_lacks(l->store) & GCOLL_STORE_LACKS_REMOVE) == 0;
    gcoll_status status = GCOLL_OK;
    for (uint32_t round = 1; removes && round <= l->rounds && status == GCOLL_OK; round++) {
        gcoll_store_set_timeout(l->store, LEAST_ASK_MS + left_ms(l));
        key_of(l, key, 'x', round, l->context->rank);
        if (l->context->rank > 0)
            status = gcoll_store_remove(l->store, key);
        for (size_t part = 0; part < l->parts[round] && status == GCOLL_OK; part++) {
            key_of(l, key, 't', round, (uint32_t)part);
            status = gcoll_store_remove(l->store, key);
        }
    }
    gcoll_store_set_timeout(l->store, -1);
    free(l->first);
    free(l);
}
