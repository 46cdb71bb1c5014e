/* tools/order.c - the order of ranks in which a ring is the fastest on a network. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/select/tuning_file.h"
#include "tools/commands.h"
#include "tools/json.h"
#include "tools/output.h"
#include "tools/ring.h"
#include "tools/tour.h"
#include "tools/words.h"

#define MS 1e3
#define US 1e6
#define NS 1e9
#define PS 1e12

/* A ring passes on messages over all its links at once, so in the end it goes at the pace of the slowest one.
 * Tours are short by the sum of their links; with the links to this power, by the slowest one. */
#define POWER 8

/* An order by the slowest link replaces one by the sum only if it is faster by so much: links that few
 * messages use leave room for others, of which the file says nothing. */
#define NEAR 0.98
/* If hosts have several ranks, the first order visits each host once, and others replace it only if they are
 * faster by so much: ranks share their host's link when they are measured, so that times of its links differ
 * by chance. Of 11 measurements at 200 Mbit/s, 8 gave orders of links that visit a host twice, 5 % faster by
 * simulation and half as fast when they ran. */
#define NEAR_BY_HOST 0.8

#define MOST_RANKS GCOLL_NETWORK_MAX_PLACES

/* An order and what it costs. */
typedef struct priced {
    tool_ring ring;
    double around_s;  /* a message over each link of the ring, one after the other */
    double slowest_s; /* a message over the slowest link */
    double time_s;    /* the allreduce, in virtual time */
} priced;

typedef struct study {
    const tool_options *options;
    tool_shape shape; /* for tool_ring_run */
    uint32_t size;
    uint64_t bytes;
    double *seconds; /* a message from rank a to rank b: a * size + b */
    double *lengths; /* the same to a power, for a tour */
} study;

static bool prepare(study *s) {
    const size_t pairs = (size_t)s->size * s->size;
    const double part = (double)s->bytes / s->size;
    s->seconds = calloc(pairs, sizeof *s->seconds);
    s->lengths = calloc(pairs, sizeof *s->lengths);
    if (!s->seconds || !s->lengths) {
        cli_complain("out of memory for %u ranks", s->size);
        return false;
    }
    for (uint32_t a = 0; a < s->size; a++)
        for (uint32_t b = 0; b < s->size; b++) {
            gcoll_simulate_link link;
            if (gcoll_network_link(s->options->network.links, a, b, &link) != GCOLL_OK) {
                cli_complain("%s", gcoll_last_error());
                return false;
            }
            s->seconds[(size_t)a * s->size + b] = a == b ? 0 : link.alpha + link.beta * part;
        }
    return tool_ring_prepare(&s->shape);
}

static bool price(study *s, priced *p) {
    p->around_s = tool_tour_length(s->seconds, s->size, p->ring.order);
    p->slowest_s = 0;
    for (uint32_t i = 0; i < s->size; i++)
        p->slowest_s = fmax(
            p->slowest_s, s->seconds[(size_t)p->ring.order[i] * s->size + p->ring.order[(i + 1) % s->size]]);
    gcoll_simulation *simulation = tool_ring_run(s->options, &s->shape, &p->ring);
    if (simulation)
        p->time_s = simulation->time;
    gcoll_simulation_destroy(simulation);
    return simulation;
}

/* Sets the lengths of links by host: a link between two hosts gets the mean time of all links between them,
 * and a link within a host gets 0. The shortest tour then visits each host once. */
static bool set_lengths_by_host(study *s) {
    const tool_network *n = &s->options->network;
    const size_t hosts = n->hosts;
    double *sum = calloc(hosts * hosts, sizeof *sum), *count = calloc(hosts * hosts, sizeof *count);
    const bool good = sum && count;
    if (!good)
        cli_complain("out of memory for %u hosts", n->hosts);
    for (int pass = 0; pass < 2 && good; pass++)
        for (uint32_t a = 0; a < s->size; a++)
            for (uint32_t b = 0; b < s->size; b++) {
                const size_t link = (size_t)a * s->size + b, between = n->host[a] * hosts + n->host[b];
                if (pass == 0) {
                    sum[between] += s->seconds[link];
                    count[between]++;
                } else {
                    s->lengths[link] = n->host[a] == n->host[b] ? 0 : sum[between] / count[between];
                }
            }
    free(sum);
    free(count);
    return good;
}

/* Sets the length of each link to its time, raised to a power. */
static void set_lengths_by_link(study *s, int power) {
    const size_t pairs = (size_t)s->size * s->size;
    double most = 0;
    for (size_t i = 0; i < pairs; i++)
        most = fmax(most, s->seconds[i]);
    for (size_t i = 0; i < pairs; i++)
        s->lengths[i] = most > 0 ? pow(s->seconds[i] / most, power) : 0;
}

/* Searches the tour with the least sum of study.lengths. It replaces *found if its simulated allreduce takes
 * less than `share` of the time of the allreduce of *found. */
static bool search(study *s, double share, priced *found) {
    priced tried;
    if (!tool_ring_create(s->size, &tried.ring))
        return false;
    bool good = tool_tour_search(s->lengths, s->size, s->options->tours, s->options->seed, tried.ring.order);
    if (!good)
        cli_complain("out of memory for %u ranks", s->size);
    good = good && price(s, &tried);
    if (good && tried.time_s < share * found->time_s) {
        const priced swap = *found;
        *found = tried;
        tried = swap;
    }
    tool_ring_free(&tried.ring);
    return good;
}

/* ---- Printing ------------------------------------------------------------------------------------------ */

static void print_row(FILE *file, const char *name, const priced *p) {
    fprintf(file, "%14.3f %12.3f %14.3f  %-7s ", US * p->around_s, US * p->slowest_s, US * p->time_s, name);
    for (uint32_t i = 0; i < p->ring.size; i++)
        fprintf(file, " %u", p->ring.order[i]);
    fputc('\n', file);
}

static void print_table(const study *s, FILE *file, const priced *by_rank, const priced *found) {
    fprintf(file, "# ring of %u ranks on %s: allreduce of %" PRIu64 " bytes in messages of %" PRIu64 "\n",
            s->size, s->options->network.path, s->bytes, s->bytes / s->size);
    fprintf(file, "#%13s %12s %14s  order\n", "around us", "slowest us", "allreduce us");
    print_row(file, "by rank", by_rank);
    print_row(file, "found", found);
}

static struct json_object *json_of(const priced *p) {
    struct json_object *object = json_object_new_object(), *order = json_object_new_array();
    json_object_object_add(object, "around_us", tool_json_number(US * p->around_s));
    json_object_object_add(object, "slowest_us", tool_json_number(US * p->slowest_s));
    json_object_object_add(object, "time_us", tool_json_number(US * p->time_s));
    for (uint32_t i = 0; i < p->ring.size; i++)
        json_object_array_add(order, json_object_new_uint64(p->ring.order[i]));
    json_object_object_add(object, "order", order);
    return object;
}

static void print_json(const study *s, FILE *file, const priced *by_rank, const priced *found) {
    struct json_object *object = json_object_new_object();
    json_object_object_add(object, "ranks", json_object_new_uint64(s->size));
    json_object_object_add(object, "bytes", json_object_new_uint64(s->bytes));
    json_object_object_add(object, "by_rank", json_of(by_rank));
    json_object_object_add(object, "found", json_of(found));
    fprintf(file, "%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
    json_object_put(object);
}

/* Writes a tuning file: the means of the network as costs, and the order found. */
static void write_tuning(const study *s, FILE *to, const priced *by_rank, const priced *found) {
    const tool_options *o = s->options;
    const tool_network *n = &o->network;
    uint32_t local = o->local_ranks;
    for (uint32_t r = 0; r < s->size && o->local_ranks == 0; r++)
        local += n->host[r] == n->host[0];
    fprintf(to,
            "gcoll-tuning 1\n# gcoll_plan order: a ring takes %.3f ms for an allreduce of %" PRIu64
            " bytes, by rank %.3f\n",
            MS * found->time_s, s->bytes, MS * by_rank->time_s);
    fprintf(to, "for transport=%s ranks=%u local=%u\n", o->transport, s->size, local);
    fprintf(to, "cost alpha_ns=%.0f beta_ps=%.0f gamma_ps=%.0f", NS * n->between.alpha, PS * n->between.beta,
            1e3 * o->gamma_ns);
    if (n->most > 1 && n->hosts > 1)
        fprintf(to, " host_alpha_ns=%.0f host_beta_ps=%.0f", NS * n->within.alpha, PS * n->within.beta);
    fputs("\ntour", to);
    for (uint32_t i = 0; i < s->size; i++)
        fprintf(to, " %u", found->ring.order[i]);
    fputc('\n', to);
}

/* Prints the tuning file if the library accepts it. The library may refuse the transport or the costs. False:
 * the error has been said. */
static bool print_tuning(const study *s, FILE *file, const priced *by_rank, const priced *found) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    gcoll_tuning check;
    if (to)
        write_tuning(s, to, by_rank, found);
    bool good = to && fclose(to) == 0;
    if (!good)
        cli_complain("out of memory for %u ranks", s->size);
    else if (gcoll_tuning_parse(text, bytes, "--format tuning", &check) == GCOLL_OK)
        gcoll_tuning_free(&check);
    else {
        cli_complain("%s", gcoll_last_error());
        good = false;
    }
    if (good)
        fputs(text, file);
    free(text);
    return good;
}

static bool show(const study *s, const priced *by_rank, const priced *found) {
    FILE *file = tool_open_output(s->options);
    if (!file)
        return false;
    bool good = true;
    if (s->options->format == TOOL_JSON)
        print_json(s, file, by_rank, found);
    else if (s->options->format == TOOL_TUNING)
        good = print_tuning(s, file, by_rank, found);
    else
        print_table(s, file, by_rank, found);
    return tool_close_output(s->options, file) && good;
}

static bool run(study *s) {
    priced by_rank = {0}, found = {0};
    bool good = prepare(s) && tool_ring_create(s->size, &by_rank.ring) &&
                tool_ring_create(s->size, &found.ring) && price(s, &by_rank) && price(s, &found);
    const bool shares = s->options->network.most > 1;
    if (good && shares)
        good = set_lengths_by_host(s) && search(s, 1, &found);
    if (good) {
        set_lengths_by_link(s, 1);
        good = search(s, shares ? NEAR_BY_HOST : 1, &found);
    }
    if (good) {
        set_lengths_by_link(s, POWER);
        good = search(s, shares ? NEAR_BY_HOST : NEAR, &found);
    }
    good = good && show(s, &by_rank, &found);
    tool_ring_free(&by_rank.ring);
    tool_ring_free(&found.ring);
    return good;
}

int tool_order(const tool_options *o) {
    study s = {.options = o};
    if (!o->network.path) {
        cli_complain("--network: is missing; allowed is a network file (docs/network.md)");
        return CLI_USAGE;
    }
    if (o->ranks.count != 1 || o->bytes.count != 1) {
        cli_complain("order takes one number of --ranks and one of --bytes");
        return CLI_USAGE;
    }
    if (o->ranks.values[0] < 2 || o->ranks.values[0] > MOST_RANKS) {
        cli_complain("--ranks: is %" PRIu64 "; allowed for order is 2 to %u", o->ranks.values[0], MOST_RANKS);
        return CLI_USAGE;
    }
    if (o->format == TOOL_TUNING && o->ranks.values[0] != o->network.ranks) {
        cli_complain("--ranks: is %" PRIu64 "; allowed for a tuning file is %u, all of %s",
                     o->ranks.values[0], o->network.ranks, o->network.path);
        return CLI_USAGE;
    }
    s.size = (uint32_t)o->ranks.values[0];
    s.bytes = o->bytes.values[0];
    if (!tool_problem_of(o, s.size, tool_elements(o, s.bytes), &s.shape))
        return CLI_USAGE;
    const bool good = run(&s);
    tool_shape_free(&s.shape);
    free(s.seconds);
    free(s.lengths);
    return good ? TOOL_OK : TOOL_FAILED;
}
