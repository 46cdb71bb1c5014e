/*
 * tools/network.c - reads network files (docs/network.md).
 *
 * A file says where the ranks are, and then what messages cost: by links between hosts, or by a matrix.
 * Nothing in it is trusted: keys, sizes and numbers are checked, and the first mistake ends the reading.
 */
#include "tools/network.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/text.h"
#include "tools/fields.h"

#define VERSION        1
#define VERSION_KEY    "gcoll_network"
#define MOST_BYTES     ((size_t)32 << 20) /* a matrix of 1024 ranks has 20 MB */
#define MOST_HOSTS     GCOLL_NETWORK_MAX_PLACES
#define MOST_US        1e9 /* of a delay: as of --alpha */
#define LEAST_RATE     1.0
#define MOST_RATE      1e15
#define MOST_NS        (8e9 / LEAST_RATE) /* of a byte */
#define NAME_BYTES     65
#define NOWHERE        UINT32_MAX
#define BITS_OF_A_BYTE 8

/* A file that is being read. */
typedef struct reading {
    field_reader fields;
    tool_network *to;
    uint32_t places;           /* of to->links: hosts, or ranks for a matrix of ranks */
    bool by_rank;              /* which of the two */
    char (*names)[NAME_BYTES]; /* of the hosts */
} reading;

static size_t length_of(struct json_object *array) {
    return array ? json_object_array_length(array) : 0;
}

static struct json_object *at(struct json_object *array, size_t index) {
    return json_object_array_get_idx(array, index);
}

static bool out_of_memory(reading *r) {
    return field_wrong(&r->fields, "out of memory");
}

/* ---- Hosts --------------------------------------------------------------------------------------------- */

static bool find_host(const reading *r, const char *name, uint32_t *host) {
    for (*host = 0; *host < r->to->hosts; ++*host)
        if (strcmp(r->names[*host], name) == 0)
            return true;
    return false;
}

static bool read_host_name(reading *r, struct json_object *from, uint32_t host) {
    struct json_object *name;
    uint32_t other;
    if (!field_text(&r->fields, from, "name", false, r->names[host], NAME_BYTES))
        return false;
    json_object_object_get_ex(from, "name", &name);
    const int bytes = json_object_get_string_len(name);
    if (bytes == 0 || bytes >= NAME_BYTES)
        return field_wrong(&r->fields, "'name' has %d bytes; allowed are 1 to %d", bytes, NAME_BYTES - 1);
    if (find_host(r, r->names[host], &other) && other < host)
        return field_wrong(&r->fields, "'name' is '%s', as that of hosts[%" PRIu32 "]", r->names[host],
                           other);
    return true;
}

static bool read_host(reading *r, struct json_object *from, uint32_t host) {
    static const char *const known[] = {"name", "ranks", NULL};
    struct json_object *ranks;
    if (!json_object_is_type(from, json_type_object))
        return field_wrong(&r->fields, "is no object");
    if (!field_known(&r->fields, from, known) || !read_host_name(r, from, host) ||
        !field_object(&r->fields, from, "ranks", json_type_array, &ranks))
        return false;
    if (length_of(ranks) == 0)
        return field_wrong(&r->fields, "'ranks' is missing or empty; allowed is a list of ranks");
    if (length_of(ranks) > GCOLL_MAX_RANKS - r->to->ranks)
        return field_wrong(&r->fields, "'ranks' has rank number %u of the file; allowed are %u",
                           GCOLL_MAX_RANKS + 1, GCOLL_MAX_RANKS);
    r->to->ranks += (uint32_t)length_of(ranks);
    r->to->most = length_of(ranks) > r->to->most ? (uint32_t)length_of(ranks) : r->to->most;
    return true;
}

/* Puts the ranks of a host, which were counted before, to it. */
static bool place_ranks(reading *r, struct json_object *from, uint32_t host) {
    struct json_object *ranks = json_object_object_get(from, "ranks");
    for (size_t i = 0; i < length_of(ranks); i++) {
        struct json_object *one = at(ranks, i);
        const int64_t rank = json_object_is_type(one, json_type_int) ? json_object_get_int64(one) : -1;
        if (rank < 0 || rank >= r->to->ranks)
            return field_wrong(&r->fields,
                               "'ranks[%zu]' is %s; allowed are 0 to %" PRIu32 ", as the file has %" PRIu32
                               " ranks",
                               i, one ? json_object_to_json_string_ext(one, JSON_C_TO_STRING_PLAIN) : "null",
                               r->to->ranks - 1, r->to->ranks);
        if (r->to->host[rank] != NOWHERE)
            return field_wrong(&r->fields, "'ranks[%zu]' is %" PRId64 ", which is on host '%s' already", i,
                               rank, r->names[r->to->host[rank]]);
        r->to->host[rank] = host;
    }
    return true;
}

static bool allocate_hosts(reading *r) {
    r->to->host = malloc(r->to->ranks * sizeof *r->to->host);
    if (!r->to->host)
        return out_of_memory(r);
    for (uint32_t i = 0; i < r->to->ranks; i++)
        r->to->host[i] = NOWHERE;
    return true;
}

/* All ranks from 0 on must be there, each once: as many as there are numbers, each below that. */
static bool read_hosts(reading *r, struct json_object *hosts) {
    const size_t count = length_of(hosts);
    if (count == 0 || count > MOST_HOSTS)
        return field_wrong(&r->fields, "'hosts' has %zu entries; allowed are 1 to %u", count, MOST_HOSTS);
    r->names = calloc(count, sizeof *r->names);
    if (!r->names)
        return out_of_memory(r);
    r->to->hosts = (uint32_t)count;
    for (uint32_t h = 0; h < count; h++)
        if (!read_host(r, at(hosts, h), h))
            return field_in(&r->fields, "hosts[%" PRIu32 "]", h);
    if (!allocate_hosts(r))
        return false;
    for (uint32_t h = 0; h < count; h++)
        if (!place_ranks(r, at(hosts, h), h))
            return field_in(&r->fields, "hosts[%" PRIu32 "]", h);
    return true;
}

/* A matrix of ranks without hosts: each rank has one of its own. */
static bool take_ranks_for_hosts(reading *r, size_t ranks) {
    r->to->ranks = r->to->hosts = (uint32_t)ranks;
    r->to->most = 1;
    if (!allocate_hosts(r))
        return false;
    for (uint32_t i = 0; i < ranks; i++)
        r->to->host[i] = i;
    return true;
}

/* ---- Links --------------------------------------------------------------------------------------------- */

static bool make_links(reading *r, const gcoll_simulate_link *link) {
    r->places = r->by_rank ? r->to->ranks : r->to->hosts;
    if (gcoll_network_create(r->to->ranks, r->by_rank ? NULL : r->to->host, link, &r->to->links) == GCOLL_OK)
        return true;
    return field_wrong(&r->fields, "%s", gcoll_last_error());
}

static bool set_link(reading *r, uint32_t from, uint32_t to, const gcoll_simulate_link *link) {
    return gcoll_network_set(r->to->links, from, to, link) == GCOLL_OK ||
           field_wrong(&r->fields, "%s", gcoll_last_error());
}

/* A link's delay, rate and overhead; `first` is one more key that it may have, or NULL. */
static bool read_link(reading *r, struct json_object *from, const char *first, gcoll_simulate_link *link) {
    const char *const known[] = {"delay_us", "rate_bit_per_s", "overhead_us", first, NULL};
    double delay_us = 0, rate = LEAST_RATE;
    struct json_object *overhead;
    if (!json_object_is_type(from, json_type_object))
        return field_wrong(&r->fields, "is no object");
    if (!field_known(&r->fields, from, known) ||
        !field_real(&r->fields, from, "delay_us", 0, MOST_US, &delay_us) ||
        !field_real(&r->fields, from, "rate_bit_per_s", LEAST_RATE, MOST_RATE, &rate))
        return false;
    double overhead_us = delay_us;
    if (json_object_object_get_ex(from, "overhead_us", &overhead) &&
        !field_real(&r->fields, from, "overhead_us", 0, delay_us, &overhead_us))
        return false;
    *link = (gcoll_simulate_link){delay_us * 1e-6, BITS_OF_A_BYTE / rate, (delay_us - overhead_us) * 1e-6};
    return true;
}

static bool read_ends(reading *r, struct json_object *from, uint32_t ends[2]) {
    struct json_object *between;
    if (!field_object(&r->fields, from, "between", json_type_array, &between))
        return false;
    if (length_of(between) != 2)
        return field_wrong(&r->fields,
                           "'between' is missing or has %zu entries; allowed are 2 names of hosts",
                           length_of(between));
    for (size_t i = 0; i < 2; i++) {
        struct json_object *name = at(between, i);
        char shown[NAME_BYTES];
        snprintf(shown, sizeof shown, "%s", name ? json_object_get_string(name) : "null");
        gcoll_text_clean(shown);
        if (!json_object_is_type(name, json_type_string) || !find_host(r, shown, &ends[i]))
            return field_wrong(&r->fields, "'between[%zu]' is '%s'; allowed is a name of 'hosts'", i, shown);
    }
    return true;
}

static bool read_one_link(reading *r, struct json_object *from, bool *seen) {
    gcoll_simulate_link link = {0, 0, 0};
    uint32_t ends[2] = {0, 0};
    if (!read_link(r, from, "between", &link) || !read_ends(r, from, ends))
        return false;
    const uint32_t hosts = r->to->hosts;
    if (seen[(size_t)ends[0] * hosts + ends[1]])
        return field_wrong(&r->fields, "is the second link between '%s' and '%s'; allowed is one",
                           r->names[ends[0]], r->names[ends[1]]);
    seen[(size_t)ends[0] * hosts + ends[1]] = seen[(size_t)ends[1] * hosts + ends[0]] = true;
    return set_link(r, ends[0], ends[1], &link) && set_link(r, ends[1], ends[0], &link);
}

static bool read_link_list(reading *r, struct json_object *list) {
    const size_t pairs = (size_t)r->to->hosts * r->to->hosts; /* never 0 */
    bool *seen = calloc(pairs > 0 ? pairs : 1, sizeof *seen);
    bool good = seen || out_of_memory(r);
    for (size_t i = 0; good && i < length_of(list); i++)
        good = read_one_link(r, at(list, i), seen) || field_in(&r->fields, "links[%zu]", i);
    free(seen);
    return good;
}

static bool read_links(reading *r, struct json_object *all) {
    struct json_object *found, *list, *within;
    gcoll_simulate_link link;
    if (!field_object(&r->fields, all, "default", json_type_object, &found) ||
        !field_object(&r->fields, all, "within", json_type_object, &within) ||
        !field_object(&r->fields, all, "links", json_type_array, &list))
        return false;
    if (!found)
        return field_wrong(&r->fields, "'default' is missing; allowed is a link, or a 'matrix' instead");
    if (!read_link(r, found, NULL, &link))
        return field_in(&r->fields, "default");
    if (!make_links(r, &link))
        return false;
    if (within && !read_link(r, within, NULL, &link))
        return field_in(&r->fields, "within");
    for (uint32_t h = 0; within && h < r->to->hosts; h++)
        if (!set_link(r, h, h, &link))
            return false;
    return read_link_list(r, list);
}

/* ---- Matrices ------------------------------------------------------------------------------------------ */

static bool check_matrix(reading *r, struct json_object *rows, const char *name, size_t size) {
    if (length_of(rows) != size)
        return field_wrong(&r->fields, "'%s' has %zu rows; allowed are %zu, one for each %s", name,
                           length_of(rows), size, r->by_rank ? "rank" : "host");
    for (size_t i = 0; i < size; i++)
        if (!json_object_is_type(at(rows, i), json_type_array) || length_of(at(rows, i)) != size)
            return field_wrong(&r->fields, "'%s[%zu]' is no row of %zu numbers", name, i, size);
    return true;
}

static bool read_entry(reading *r, struct json_object *rows, const char *name, size_t i, size_t k,
                       double most, double *to) {
    struct json_object *number = at(at(rows, i), k);
    const bool is_number =
        json_object_is_type(number, json_type_double) || json_object_is_type(number, json_type_int);
    *to = is_number ? json_object_get_double(number) : -1;
    return (*to >= 0 && *to <= most) ||
           field_wrong(&r->fields, "'%s[%zu][%zu]' is %s; allowed are 0 to %g", name, i, k,
                       number ? json_object_to_json_string_ext(number, JSON_C_TO_STRING_PLAIN) : "null",
                       most);
}

static bool read_entries(reading *r, struct json_object *delays, struct json_object *bytes) {
    for (uint32_t i = 0; i < r->places; i++)
        for (uint32_t k = 0; k < r->places; k++) {
            double us, ns;
            if (!read_entry(r, delays, "delay_us", i, k, MOST_US, &us) ||
                !read_entry(r, bytes, "ns_per_byte", i, k, MOST_NS, &ns))
                return false;
            const gcoll_simulate_link link = {us * 1e-6, ns * 1e-9, 0};
            if (!set_link(r, i, k, &link))
                return false;
        }
    return true;
}

/* hosts: NULL if the file has none. */
static bool read_matrix(reading *r, struct json_object *matrix, struct json_object *hosts) {
    static const char *const known[] = {"of", "delay_us", "ns_per_byte", NULL};
    struct json_object *delays, *bytes;
    char of[16];
    if (!field_known(&r->fields, matrix, known) ||
        !field_text(&r->fields, matrix, "of", false, of, sizeof of) ||
        !field_object(&r->fields, matrix, "delay_us", json_type_array, &delays) ||
        !field_object(&r->fields, matrix, "ns_per_byte", json_type_array, &bytes))
        return false;
    r->by_rank = strcmp(of, "ranks") == 0;
    if (!r->by_rank && strcmp(of, "hosts") != 0)
        return field_wrong(&r->fields, "'of' is '%s'; allowed are hosts, ranks", of);
    if (!r->by_rank && !hosts)
        return field_wrong(&r->fields, "'of' is 'hosts', but the file has no 'hosts'");
    const size_t rows = length_of(delays);
    if (rows == 0 || rows > GCOLL_NETWORK_MAX_PLACES)
        return field_wrong(&r->fields, "'delay_us' has %zu rows; allowed are 1 to %u", rows,
                           GCOLL_NETWORK_MAX_PLACES);
    if (!hosts && !take_ranks_for_hosts(r, rows))
        return false;
    const size_t size = r->by_rank ? r->to->ranks : r->to->hosts;
    const gcoll_simulate_link none = {0, 0, 0};
    return check_matrix(r, delays, "delay_us", size) && check_matrix(r, bytes, "ns_per_byte", size) &&
           make_links(r, &none) && read_entries(r, delays, bytes);
}

/* ---- The file ------------------------------------------------------------------------------------------ */

static bool read_all(reading *r, struct json_object *all) {
    static const char *const known[] = {VERSION_KEY, "about", "hosts",  "default",
                                        "within",    "links", "matrix", NULL};
    static const char *const by_links[] = {"default", "within", "links", NULL};
    struct json_object *hosts, *matrix;
    int64_t version;
    if (!json_object_is_type(all, json_type_object))
        return field_wrong(&r->fields, "is no JSON object");
    if (!field_known(&r->fields, all, known) ||
        !field_whole(&r->fields, all, VERSION_KEY, INT64_MAX, false, 0, &version) ||
        !field_object(&r->fields, all, "hosts", json_type_array, &hosts) ||
        !field_object(&r->fields, all, "matrix", json_type_object, &matrix))
        return false;
    if (version != VERSION)
        return field_wrong(&r->fields, "'" VERSION_KEY "' is %" PRId64 "; allowed is %d", version, VERSION);
    for (size_t i = 0; matrix && by_links[i]; i++)
        if (json_object_object_get_ex(all, by_links[i], NULL))
            return field_wrong(&r->fields, "'%s' is found with 'matrix'; allowed is one of both",
                               by_links[i]);
    if (!hosts && !matrix)
        return field_wrong(&r->fields, "'hosts' is missing; allowed are hosts, or a matrix of ranks");
    if (hosts && !read_hosts(r, hosts))
        return false;
    if (matrix)
        return read_matrix(r, matrix, hosts) || field_in(&r->fields, "matrix");
    return read_links(r, all);
}

/* The mean of links, as it is added up. */
typedef struct mean {
    gcoll_simulate_link sum;
    double pairs;
} mean;

static void add(mean *to, const gcoll_simulate_link *link, double pairs) {
    to->sum.alpha += pairs * link->alpha;
    to->sum.beta += pairs * link->beta;
    to->sum.latency += pairs * link->latency;
    to->pairs += pairs;
}

static gcoll_simulate_link mean_of(const mean *m) {
    return (gcoll_simulate_link){m->sum.alpha / m->pairs, m->sum.beta / m->pairs, m->sum.latency / m->pairs};
}

/* Adds the links between all pairs of ranks, pairs of places together. */
static bool find_means(reading *r) {
    tool_network *n = r->to;
    mean between = {0}, within = {0};
    uint32_t *first = calloc(r->places, sizeof *first), *count = calloc(r->places, sizeof *count);
    for (uint32_t rank = n->ranks; first && count && rank-- > 0;) {
        const uint32_t place = r->by_rank ? rank : n->host[rank];
        first[place] = rank;
        count[place]++;
    }
    for (uint32_t a = 0; first && count && a < r->places; a++)
        for (uint32_t b = 0; b < r->places; b++) {
            gcoll_simulate_link link;
            (void)gcoll_network_link(n->links, first[a], first[b], &link); /* both are ranks */
            const double pairs = (double)count[a] * (a == b ? count[b] - 1.0 : count[b]);
            add(n->host[first[a]] == n->host[first[b]] ? &within : &between, &link, pairs);
        }
    const bool good = first && count;
    free(first);
    free(count);
    if (!good)
        return out_of_memory(r);
    if (between.pairs > 0)
        n->between = mean_of(&between);
    n->within = within.pairs > 0 ? mean_of(&within) : n->between;
    if (between.pairs == 0)
        n->between = n->within;
    return true;
}

bool tool_network_read(const char *flag, const char *path, tool_network *network) {
    tool_network made = {.path = path};
    reading r = {.fields = {.path = path}, .to = &made};
    size_t bytes = 0;
    char *text = field_load(&r.fields, MOST_BYTES, &bytes);
    struct json_object *all = text ? field_parse(&r.fields, text, bytes) : NULL;
    const bool good = all && read_all(&r, all) && find_means(&r);
    json_object_put(all);
    free(text);
    free(r.names);
    if (good) {
        *network = made;
    } else {
        cli_complain("%s: network file '%s': %s", flag, path, r.fields.problem);
        tool_network_free(&made);
    }
    return good;
}

bool tool_read_network(const cli_flag *flag, const char *text, void *to) {
    tool_network *network = to, read;
    if (!tool_network_read(flag->name, text, &read))
        return false;
    tool_network_free(network);
    *network = read;
    return true;
}

void tool_network_free(tool_network *network) {
    gcoll_network_destroy(network->links);
    free(network->host);
    *network = (tool_network){0};
}
