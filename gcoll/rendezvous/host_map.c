/* gcoll/rendezvous/host_map.c - numbers the hosts of a job, and writes which rank is on which host as a text.
 *
 * Hosts are numbered from 0 in the order of their first ranks. The text goes through the ranks in order. It
 * has items, with commas between: "first-last*ranks", for so many ranks on each of these hosts one after the
 * other, or "host*ranks"; then "xN" if the item comes N times. So "0-3*8" is four hosts of eight ranks, and
 * "0-2*1x4" twelve ranks that are dealt out to three hosts in turn. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/text.h"
#include "gcoll/rendezvous/meeting.h"

/* ---- Numbers ------------------------------------------------------------------------------ */

typedef struct resident {
    uint64_t host;
    uint32_t rank;
} resident;

static int by_host(const void *a, const void *b) {
    const resident *x = a, *y = b;
    if (x->host != y->host)
        return x->host < y->host ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

gcoll_status gcoll_hosts_number(const uint64_t *hosts, uint32_t size, uint32_t *node) {
    resident *all = calloc(size, sizeof *all);
    if (!all)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the hosts of %u ranks", size);
    for (uint32_t rank = 0; rank < size; rank++)
        all[rank] = (resident){hosts[rank], rank};
    qsort(all, size, sizeof *all, by_host);
    for (uint32_t i = 0, first = 0; i < size; i++) {
        first = all[i].host == all[first].host ? first : i;
        node[all[i].rank] = all[first].rank;
    }
    free(all);
    return GCOLL_OK;
}

uint32_t gcoll_hosts_most(const uint32_t *node, uint32_t size) {
    uint32_t most = 0, hosts = 0;
    uint32_t *ranks = calloc(size, sizeof *ranks);
    for (uint32_t rank = 0; ranks && rank < size; rank++) {
        const uint32_t here = ++ranks[node[rank]];
        hosts += here == 1;
        most = here > most ? here : most;
    }
    const bool counted = ranks;
    free(ranks);
    return !counted ? 0 : hosts > 1 ? most : 1;
}

/* ---- Text --------------------------------------------------------------------------------- */

typedef struct item {
    uint32_t first, last; /* hosts */
    uint32_t ranks;       /* of each */
    uint32_t times;
} item;

static bool write_item(gcoll_text *to, const item *i, size_t bytes) {
    if (i->times == 0)
        return true;
    gcoll_text_add(to, "%s%" PRIu32, to->used > 0 ? "," : "", i->first);
    if (i->last > i->first)
        gcoll_text_add(to, "-%" PRIu32, i->last);
    gcoll_text_add(to, "*%" PRIu32, i->ranks);
    if (i->times > 1)
        gcoll_text_add(to, "x%" PRIu32, i->times);
    return to->used + 1 < bytes;
}

static bool is_again(const item *a, const item *b) {
    return a->times > 0 && a->first == b->first && a->last == b->last && a->ranks == b->ranks;
}

/* Adds an item, after the one before it, which may be the same. */
static bool add_item(gcoll_text *to, item *before, const item *next, size_t bytes) {
    if (is_again(before, next)) {
        before->times++;
        return true;
    }
    const bool fits = write_item(to, before, bytes);
    *before = *next;
    return fits;
}

static bool write_map(const uint32_t *node, uint32_t *index, uint32_t size, char *text, size_t bytes) {
    gcoll_text to = {text, bytes, 0};
    item before = {0}, now = {0};
    uint32_t hosts = 0;
    bool fits = true;
    text[0] = '\0';
    for (uint32_t rank = 0, next; rank < size && fits; rank = next) {
        for (next = rank + 1; next < size && node[next] == node[rank];)
            next++;
        if (node[rank] == rank) /* the first rank of its host */
            index[rank] = hosts++;
        const uint32_t host = index[node[rank]];
        if (now.times > 0 && host == now.last + 1 && next - rank == now.ranks) {
            now.last++;
            continue;
        }
        if (now.times > 0)
            fits = add_item(&to, &before, &now, bytes);
        now = (item){host, host, next - rank, 1};
    }
    return fits && add_item(&to, &before, &now, bytes) && write_item(&to, &before, bytes);
}

bool gcoll_hosts_write(const uint32_t *node, uint32_t size, char *text, size_t bytes) {
    uint32_t *index = calloc(size, sizeof *index);
    const bool fits = index && write_map(node, index, size, text, bytes);
    free(index);
    return fits;
}

/* Reads digits; false if there are none, or the number is too large. */
static bool read_number(const char **at, uint32_t *number) {
    const size_t digits = strspn(*at, "0123456789");
    uint64_t value = 0;
    if (digits == 0 || !gcoll_text_parse_whole(*at, digits, UINT32_MAX, &value))
        return false;
    *at += digits;
    *number = (uint32_t)value;
    return true;
}

/* Steps over the mark if it is there. */
static bool skip(const char **at, char mark) {
    const bool is_there = **at == mark;
    *at += is_there;
    return is_there;
}

static bool read_item(const char **at, item *i) {
    *i = (item){.times = 1};
    if (!read_number(at, &i->first))
        return false;
    i->last = i->first;
    if (skip(at, '-') && (!read_number(at, &i->last) || i->last < i->first))
        return false;
    if (!skip(at, '*') || !read_number(at, &i->ranks) || i->ranks == 0)
        return false;
    return !skip(at, 'x') || (read_number(at, &i->times) && i->times > 0);
}

/* The ranks of a map that is being read. */
typedef struct reading {
    uint32_t *node, *first; /* first: by host, its first rank */
    uint32_t size, ranks, hosts;
} reading;

/* A host that is new must have the next number, and no rank may be left over. */
static bool place(reading *r, uint32_t host, uint32_t ranks) {
    if (host > r->hosts || ranks > r->size - r->ranks)
        return false;
    if (host == r->hosts)
        r->first[r->hosts++] = r->ranks;
    for (uint32_t end = r->ranks + ranks; r->ranks < end; r->ranks++)
        r->node[r->ranks] = r->first[host];
    return true;
}

static bool read_map(const char *text, reading *r) {
    item i;
    while (r->ranks < r->size) {
        if (!read_item(&text, &i))
            return false;
        for (uint32_t time = 0; time < i.times; time++)
            for (uint32_t host = i.first; host <= i.last; host++)
                if (r->ranks == r->size || !place(r, host, i.ranks))
                    return false;
        if (r->ranks < r->size && *text++ != ',')
            return false;
    }
    return *text == '\0';
}

gcoll_status gcoll_hosts_read(const char *text, uint32_t size, uint32_t *node, bool *is_map) {
    reading r = {.node = node, .first = calloc(size, sizeof(uint32_t)), .size = size};
    if (!r.first)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the hosts of %u ranks", size);
    *is_map = read_map(text, &r);
    free(r.first);
    return GCOLL_OK;
}

/* ---- In a context -------------------------------------------------------------------------- */

/* Keeps the map, for which the context then asks the store no more. */
static void keep(gcoll_context *context, uint32_t *node) {
    free(context->rendezvous->node);
    context->rendezvous->node = node;
}

static gcoll_status no_memory(const gcoll_context *context) {
    return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for the hosts of %u ranks", context->size);
}

gcoll_status gcoll_rendezvous_note_hosts(gcoll_context *context, const uint64_t *hosts) {
    uint32_t most = 1, *node = calloc(context->size, sizeof *node);
    if (!node)
        return no_memory(context);
    gcoll_status status = gcoll_hosts_number(hosts, context->size, node);
    if (status == GCOLL_OK)
        most = gcoll_hosts_most(node, context->size);
    if (most == 0)
        status = no_memory(context);
    for (uint32_t rank = 1; rank < context->size; rank++)
        context->rendezvous->spans_hosts |= hosts[rank] != hosts[0];
    if (most > 1)
        keep(context, node);
    else
        free(node);
    return status;
}

/* The number of each rank's host, as far as that needs no store; NULL: not known here. */
static gcoll_status find_hosts(gcoll_context *context, const uint32_t **node) {
    gcoll_note cause;
    uint32_t missing;
    *node = context->rendezvous->node;
    if (*node || !gcoll_rendezvous_has_addresses(context))
        return GCOLL_OK;
    return gcoll_rendezvous_hosts(context, node, &missing, &cause);
}

gcoll_status gcoll_rendezvous_levels(gcoll_context *context, const uint32_t **node, uint32_t *most) {
    const gcoll_status status = find_hosts(context, node);
    *most = 1;
    if (status == GCOLL_OK && *node)
        *most = gcoll_hosts_most(*node, context->size);
    if (*most <= 1)
        *node = NULL;
    return *most == 0 ? no_memory(context) : status;
}

gcoll_status gcoll_rendezvous_spans_hosts(gcoll_context *context, bool *spans) {
    const uint32_t *node;
    const gcoll_status status = find_hosts(context, &node);
    *spans = context->rendezvous->spans_hosts;
    for (uint32_t rank = 1; status == GCOLL_OK && node && rank < context->size; rank++)
        *spans |= node[rank] != node[0];
    return status;
}

gcoll_status gcoll_rendezvous_take_map(gcoll_context *context, const char *text, uint32_t *most) {
    bool is_map = false;
    uint32_t *node = calloc(context->size, sizeof *node);
    if (!node)
        return no_memory(context);
    gcoll_status status = gcoll_hosts_read(text, context->size, node, &is_map);
    *most = 1;
    if (status == GCOLL_OK && is_map)
        *most = gcoll_hosts_most(node, context->size);
    if (*most == 0)
        status = no_memory(context);
    else if (status == GCOLL_OK && *most == 1) /* rank 0 writes no map of one level */
        status = gcoll_error(GCOLL_ERR_PROTOCOL, "'%.60s' is no map of %u ranks to several hosts", text,
                             context->size);
    if (status == GCOLL_OK)
        keep(context, node);
    else
        free(node);
    return status;
}
