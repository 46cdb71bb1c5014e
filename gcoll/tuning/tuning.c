/*
 * gcoll/tuning/tuning.c - makes all ranks agree, when a context is created, on the cost parameters and
 * tuning rules that `auto` uses.
 *
 * Rank 0 decides. It uses the caller's numbers, a tuning file, a measurement (lifecycle/fit.c) or built-in
 * numbers. The other ranks read the result from the store, so their numbers are the same to the bit, and
 * only rank 0 needs the file. Ranks that met without a store get it by broadcasts. Rank 0 writes two keys
 * below "gcoll/<job>/<generation>/":
 *
 *   tuning   before it publishes its address: "set", "given", "fit", or "file", a space, the file's name, a
 *            newline and the contents of the file
 *   agreed   after "go": the number of ranks on rank 0's host, the numbers as the hexadecimal digits of
 *            their bits, a digit of flags (1: options.monitor, 2: nothing is learned), and rank 0's
 *            transport. With two levels of cost "within" follows, alpha and beta within a host, and which
 *            rank is on which host (host_map.c).
 *
 * Instead of "agreed", rank 0 may write "!", a status, a space and the reason of a failure (meeting.c), and
 * so may a rank whose measurement failed.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gcoll/base/bytes.h"
#include "gcoll/base/text.h"
#include "gcoll/rendezvous/rendezvous.h"
#include "gcoll/store/signed.h"
#include "gcoll/tuning/basis.h"

#define VARIABLE          "GCOLL_TUNING"
#define FIT               "fit"
#define BUILT_IN          "default"
#define FIXED             "fixed" /* alone, or with one of the others: "fixed:my.tuning" */
#define VALUE_MAX         GCOLL_STORE_SIGNED_MAX
#define AGREED_MAX        768
#define NUMBERS           7
#define REASON_BYTES      400
#define UNUSED_TOUR_BYTES (GCOLL_BASIS_NAME_MAX + 160)
#define MAP_BYTES         400 /* a job whose map of hosts is longer has one level of cost */
#define WITHIN            " within"

/* Cost parameters of loopback TCP on a server of 2023. Only the ratios matter. */
#define DEFAULT_ALPHA_S 6e-6    /* a message */
#define DEFAULT_BETA_S  2.5e-10 /* a byte: 4 GB/s */
#define DEFAULT_GAMMA_S 1e-10   /* a byte reduced: 10 GB/s */

static const gcoll_cost_parameters built_in = {DEFAULT_ALPHA_S, DEFAULT_BETA_S, DEFAULT_GAMMA_S};

/* ---- The basis ---------------------------------------------------------------------------- */

gcoll_basis *gcoll_basis_hold(gcoll_basis *basis) {
    atomic_fetch_add(&basis->users, 1);
    return basis;
}

void gcoll_basis_drop(gcoll_basis *basis) {
    if (!basis || atomic_fetch_sub(&basis->users, 1) > 1)
        return;
    if (basis->whole)
        gcoll_basis_drop(basis->whole);
    else
        gcoll_tuning_free(&basis->tuning);
    free(basis->text);
    free(basis);
}

gcoll_status gcoll_basis_create(const gcoll_cost_parameters *given, gcoll_basis **basis) {
    gcoll_basis *made = calloc(1, sizeof *made);
    if (!made)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a context");
    made->users = 1;
    made->kind = given ? GCOLL_BASIS_GIVEN : GCOLL_BASIS_BUILT_IN;
    made->cost = given ? *given : built_in;
    *basis = made;
    return GCOLL_OK;
}

void gcoll_basis_numbers(const gcoll_basis *basis, bool is_fixed, gcoll_cost_parameters *cost,
                         gcoll_sharing *sharing) {
    *cost = is_fixed && basis->kind == GCOLL_BASIS_FITTED ? built_in : basis->cost;
    /* The number of ranks that share a processor depends on where they happen to run. */
    *sharing = is_fixed ? (gcoll_sharing){0} : basis->sharing;
}

bool gcoll_basis_learns(const gcoll_basis *basis) {
    return !basis->is_fixed && (basis->kind == GCOLL_BASIS_FITTED || basis->kind == GCOLL_BASIS_FILE);
}

/* Where ranks happen to run must not influence results that are the same in every run. */
const gcoll_levels *gcoll_basis_levels(const gcoll_basis *basis, bool is_fixed) {
    return basis->levels.most > 1 && !is_fixed ? &basis->levels : NULL;
}

/* ---- Rank 0, before the ranks meet -------------------------------------------------------- */

static gcoll_status cannot(const char *path, const char *what, int error) {
    char text[GCOLL_ERRNO_TEXT_MAX];
    return gcoll_error(gcoll_status_of_errno(error), "tuning file '%.200s': %s: %s", path, what,
                       gcoll_errno_text(error, text));
}

/* Reads a regular file. O_NONBLOCK: opening something else, such as a FIFO, must not wait. Reading one
 * byte more than allowed shows that the file is too long. */
gcoll_status gcoll_tuning_read(const char *path, char *text, size_t *bytes) {
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return cannot(path, "cannot be opened", errno);
    gcoll_status status = GCOLL_OK;
    ssize_t got = 1;
    *bytes = 0;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode))
        status = gcoll_error(GCOLL_ERR_INVALID, "tuning file '%.200s': is no regular file", path);
    while (status == GCOLL_OK && got > 0 && *bytes <= GCOLL_TUNING_BYTES_MAX) {
        got = read(file, text + *bytes, GCOLL_TUNING_BYTES_MAX + 1 - *bytes);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got < 0)
            status = cannot(path, "cannot be read", errno);
        else
            *bytes += (size_t)got;
    }
    close(file);
    return status;
}

static gcoll_status parse(gcoll_basis *basis, const char *path, const char *text, size_t bytes) {
    char name[GCOLL_BASIS_NAME_MAX + 24];
    snprintf(basis->name, sizeof basis->name, "%s", path);
    snprintf(name, sizeof name, "tuning file '%s'", basis->name);
    basis->kind = GCOLL_BASIS_FILE;
    return gcoll_tuning_parse(text, bytes, name, &basis->tuning);
}

/* Reads the file into basis->text, in the form in which the store holds it. */
static gcoll_status load(gcoll_basis *basis, const char *path) {
    if (strchr(path, '\n')) /* a newline ends the name in the store's value */
        return gcoll_error(GCOLL_ERR_INVALID, "tuning file '%.200s': has more than one line for a name",
                           path);
    basis->text = malloc(VALUE_MAX);
    if (!basis->text)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "tuning file '%.200s': no memory", path);
    size_t head = (size_t)snprintf(basis->text, VALUE_MAX, "file %.*s\n", GCOLL_BASIS_NAME_MAX - 1, path);
    size_t bytes = 0;
    gcoll_status status = gcoll_tuning_read(path, basis->text + head, &bytes);
    if (status == GCOLL_OK)
        status = parse(basis, path, basis->text + head, bytes);
    basis->text_bytes = head + bytes;
    return status;
}

static const char *word_of(const gcoll_basis *basis) {
    return basis->kind == GCOLL_BASIS_FITTED ? "fit" : basis->kind == GCOLL_BASIS_GIVEN ? "given" : "set";
}

gcoll_status gcoll_tuning_begin(gcoll_context *context, const char *option) {
    gcoll_basis *basis = context->basis;
    const char *wanted = option && option[0] ? option : getenv(VARIABLE);
    gcoll_status status = GCOLL_OK;
    if (context->rank != 0)
        return GCOLL_OK;
    if (wanted && strncmp(wanted, FIXED, strlen(FIXED)) == 0 && strchr(":", wanted[strlen(FIXED)])) {
        basis->is_fixed = true;
        wanted += strlen(FIXED);
        if (wanted[0] == ':' && wanted[1] == '\0')
            return gcoll_error(GCOLL_ERR_INVALID, "options.tuning: is '" FIXED ":'; allowed are '" FIXED
                                                  "' and '" FIXED ":' with a tuning file or 'fit' behind it");
        wanted += wanted[0] == ':';
    }
    if (!wanted || !wanted[0])
        wanted = FIT;
    if (basis->kind != GCOLL_BASIS_GIVEN && strcmp(wanted, FIT) == 0)
        basis->kind = context->size > 1 ? GCOLL_BASIS_FITTED : GCOLL_BASIS_BUILT_IN;
    else if (basis->kind != GCOLL_BASIS_GIVEN && strcmp(wanted, BUILT_IN) != 0)
        status = load(basis, wanted);
    if (status != GCOLL_OK || context->size == 1 || !context->settings.store)
        return status;
    char key[GCOLL_STORE_KEY_MAX + 1];
    gcoll_rendezvous_key_of(context, key, "tuning");
    if (basis->kind == GCOLL_BASIS_FILE) {
        status = gcoll_visit_set(context, key, basis->text, basis->text_bytes);
        free(basis->text); /* not needed any more */
        basis->text = NULL;
        return status;
    }
    const char *word = word_of(basis);
    return gcoll_visit_set(context, key, word, strlen(word));
}

/* ---- Rank 0, after the ranks have met ----------------------------------------------------- */

static void numbers_of(gcoll_basis *basis, double *numbers[NUMBERS]) {
    double *const all[NUMBERS] = {&basis->cost.alpha,      &basis->cost.beta,       &basis->cost.gamma,
                                  &basis->sharing.latency, &basis->sharing.message, &basis->sharing.byte,
                                  &basis->sharing.crowd};
    memcpy(numbers, all, sizeof all);
}

/* Costs are those of the transport that takes messages the longest way: to other hosts, if there are any. */
static gcoll_status name_transport(gcoll_context *context) {
    gcoll_basis *basis = context->basis;
    const gcoll_transport *transport = context->transport;
    bool spans = false;
    const gcoll_status status =
        transport->beyond && context->size > 1 ? gcoll_rendezvous_spans_hosts(context, &spans) : GCOLL_OK;
    snprintf(basis->transport, sizeof basis->transport, "%s", spans ? transport->beyond : transport->name);
    return status;
}

/* Finds the section of the file that supplies the costs, and whether its rules apply. All ranks find the
 * same. */
static void find_section(gcoll_context *context) {
    gcoll_basis *basis = context->basis;
    basis->section = gcoll_tuning_section_for(&basis->tuning, basis->transport, context->size,
                                              basis->local_ranks, &basis->exact);
}

/* A file that was made for so many ranks, but for another `local`, is likely a mistake. The text is empty if
 * there is none. */
static void describe_unused_tour(const gcoll_context *context, char *text, size_t bytes) {
    const gcoll_basis *basis = context->basis;
    const gcoll_tuning_section *s = basis->section;
    text[0] = '\0';
    if (s && s->tour && s->ranks == context->size && !basis->exact && !basis->whole)
        snprintf(text, bytes,
                 "tuning file '%s': line %u: its tour is not used: local is %u, and %u ranks share the "
                 "processors of rank 0",
                 basis->name, s->line, s->local, basis->local_ranks);
}

static void warn_of_tour(gcoll_context *context) {
    char text[UNUSED_TOUR_BYTES];
    describe_unused_tour(context, text, sizeof text);
    if (text[0])
        gcoll_log(context, GCOLL_LOG_WARNING, "%s", text);
}

/* Takes the costs of the file's section, if it has any. */
static void use_section(gcoll_basis *basis) {
    if (!basis->section || basis->section->cost_line == 0)
        return;
    basis->cost = basis->section->cost;
    basis->sharing = basis->section->sharing;
    basis->levels = basis->section->levels;
}

static gcoll_status drop_levels(gcoll_basis *basis) {
    basis->levels = (gcoll_levels){0};
    return GCOLL_OK;
}

/* Whether the costs within hosts apply: if several ranks share a host, and others do not. */
static gcoll_status find_levels(gcoll_context *context) {
    const uint32_t *node = NULL;
    gcoll_basis *basis = context->basis;
    if (basis->levels.alpha <= 0 && basis->levels.beta <= 0)
        return drop_levels(basis);
    gcoll_status status = gcoll_rendezvous_levels(context, &node, &basis->levels.most);
    return status == GCOLL_OK && !node ? drop_levels(basis) : status;
}

/* How many ranks share a processor stays as it is: the other ranks are still there. */
gcoll_status gcoll_basis_part(gcoll_context *context, gcoll_basis *whole, uint32_t local_ranks) {
    gcoll_basis *made = NULL;
    gcoll_status status = gcoll_basis_create(&whole->cost, &made);
    if (status != GCOLL_OK)
        return status;
    made->kind = whole->kind;
    made->is_fixed = whole->is_fixed;
    made->sharing = whole->sharing;
    made->levels = whole->levels;
    made->local_ranks = local_ranks;
    memcpy(made->transport, whole->transport, sizeof made->transport);
    memcpy(made->name, whole->name, sizeof made->name);
    made->tuning = whole->tuning;
    made->whole = gcoll_basis_hold(whole);
    context->basis = made;
    if (made->kind == GCOLL_BASIS_FILE) {
        find_section(context);
        use_section(made);
        made->sharing.crowd = whole->sharing.crowd;
    }
    /* A part of a job of one level has one. Records of all members are here, so all find the same. */
    return whole->levels.most > 1 && context->size > 1 ? find_levels(context) : drop_levels(made);
}

/* Reads a number from the digits of its bits; false if it is none, or not finite, or negative. */
static bool read_bits(const char *text, int *at, double *number) {
    uint64_t bits;
    int read = 0;
    if (sscanf(text + *at, " %16" SCNx64 "%n", &bits, &read) != 1)
        return false;
    *at += read;
    memcpy(number, &bits, sizeof bits);
    return *number >= 0 && isfinite(*number);
}

#define FLAG_MONITOR 1U
#define FLAG_FIXED   2U

static unsigned flags_of(const gcoll_context *context) {
    return (context->settings.monitor ? FLAG_MONITOR : 0) | (context->basis->is_fixed ? FLAG_FIXED : 0);
}

/* ---- For ranks that join ------------------------------------------------------------------ */

#define TAKEN_NUMBERS (NUMBERS + 2)

/* The numbers that a text of costs has. */
static void taken_numbers_of(gcoll_basis *basis, double *numbers[TAKEN_NUMBERS]) {
    numbers_of(basis, numbers);
    numbers[NUMBERS] = &basis->levels.alpha;
    numbers[NUMBERS + 1] = &basis->levels.beta;
}

void gcoll_basis_write(const gcoll_context *context, char text[GCOLL_BASIS_TEXT_MAX]) {
    gcoll_basis *basis = context->basis;
    double *numbers[TAKEN_NUMBERS];
    gcoll_text to = {text, GCOLL_BASIS_TEXT_MAX, 0};
    /* Without its rules a file gives costs alone. */
    gcoll_text_add(&to, "%u", (unsigned)(basis->kind == GCOLL_BASIS_FILE ? GCOLL_BASIS_GIVEN : basis->kind));
    taken_numbers_of(basis, numbers);
    for (size_t i = 0; i < TAKEN_NUMBERS; i++) {
        uint64_t bits;
        memcpy(&bits, numbers[i], sizeof bits);
        gcoll_text_add(&to, " %016" PRIx64, bits);
    }
    gcoll_text_add(&to, " %u %s", flags_of(context),
                   basis->transport[0] ? basis->transport : context->transport->name);
}

gcoll_status gcoll_basis_take(gcoll_context *context, const char *text) {
    double *numbers[TAKEN_NUMBERS];
    unsigned kind = 0, flags = 0;
    int at = 0;
    gcoll_status status = gcoll_basis_create(NULL, &context->basis);
    if (status != GCOLL_OK)
        return status;
    gcoll_basis *basis = context->basis;
    bool is_right = sscanf(text, "%1u%n", &kind, &at) == 1 && kind <= GCOLL_BASIS_FITTED;
    taken_numbers_of(basis, numbers);
    for (size_t i = 0; i < TAKEN_NUMBERS && is_right; i++)
        is_right = read_bits(text, &at, numbers[i]);
    if (!is_right || sscanf(text + at, " %1u %15[a-z]", &flags, basis->transport) != 2)
        return gcoll_error(GCOLL_ERR_PROTOCOL, "the costs '%.60s' make no sense", text);
    basis->kind = (gcoll_basis_kind)kind;
    basis->local_ranks = gcoll_rendezvous_sharing(context, 0);
    context->settings.monitor = (flags & FLAG_MONITOR) != 0;
    basis->is_fixed = (flags & FLAG_FIXED) != 0;
    return find_levels(context);
}

static gcoll_status decide(gcoll_context *context, const gcoll_fit *fit, uint32_t local_ranks) {
    gcoll_basis *basis = context->basis;
    const uint32_t *node = NULL;
    uint32_t most = 1;
    basis->local_ranks = local_ranks;
    gcoll_status status = name_transport(context);
    if (status == GCOLL_OK && context->size > 2)
        status = gcoll_rendezvous_levels(context, &node, &most);
    if (status == GCOLL_OK && basis->kind == GCOLL_BASIS_FITTED)
        status = fit->measure(context, node, &basis->cost, &basis->sharing, &basis->levels);
    if (basis->kind == GCOLL_BASIS_FILE) {
        find_section(context);
        warn_of_tour(context);
        use_section(basis);
    }
    if (status == GCOLL_OK && context->size > 1)
        status = find_levels(context);
    if (basis->kind == GCOLL_BASIS_FITTED || basis->kind == GCOLL_BASIS_FILE)
        basis->sharing.crowd = (double)local_ranks / gcoll_host_cores();
    return status;
}

static void publish(gcoll_context *context, const char *text) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    gcoll_rendezvous_key_of(context, key, "agreed");
    gcoll_visit_set_new(context, key, text); /* the first value stays, as ranks may have read it already */
}

/* Publishes the last error as the reason of the failure, and sets it again, because the store may have
 * set another. */
static gcoll_status publish_failure(gcoll_context *context, gcoll_status status) {
    char text[AGREED_MAX], reason[REASON_BYTES];
    snprintf(reason, sizeof reason, "%s", gcoll_last_error());
    snprintf(text, sizeof text, "!%d rank %u: %s", (int)status, context->rank, reason);
    publish(context, text);
    return gcoll_error(status, "%s", reason);
}

/* The costs within hosts, and the map of hosts. Without room for the map there is one level of cost. */
static void write_levels(gcoll_context *context, char *text, size_t bytes) {
    const uint32_t *node = NULL;
    uint32_t most = 0;
    gcoll_basis *basis = context->basis;
    const double numbers[2] = {basis->levels.alpha, basis->levels.beta};
    uint64_t bits[2];
    char map[MAP_BYTES];
    memcpy(bits, numbers, sizeof bits);
    if (gcoll_rendezvous_levels(context, &node, &most) == GCOLL_OK && node &&
        gcoll_hosts_write(node, context->size, map, sizeof map))
        snprintf(text, bytes, WITHIN " %016" PRIx64 " %016" PRIx64 " %s", bits[0], bits[1], map);
    else
        drop_levels(basis);
}

/* What rank 0 has decided, as the others read it. */
static void write_agreed(gcoll_context *context, char text[AGREED_MAX]) {
    double *numbers[NUMBERS];
    int used = snprintf(text, AGREED_MAX, "%u", context->basis->local_ranks);
    numbers_of(context->basis, numbers);
    for (size_t i = 0; i < NUMBERS; i++) {
        uint64_t bits;
        memcpy(&bits, numbers[i], sizeof bits);
        used += snprintf(text + used, AGREED_MAX - (size_t)used, " %016" PRIx64, bits);
    }
    used += snprintf(text + used, AGREED_MAX - (size_t)used, " %u %s", flags_of(context),
                     context->basis->transport);
    if (context->basis->levels.most > 1)
        write_levels(context, text + used, AGREED_MAX - (size_t)used);
}

static gcoll_status lead(gcoll_context *context, const gcoll_fit *fit, uint32_t local_ranks) {
    char text[AGREED_MAX];
    gcoll_status status = decide(context, fit, local_ranks);
    if (status != GCOLL_OK)
        return publish_failure(context, status);
    write_agreed(context, text);
    char key[GCOLL_STORE_KEY_MAX + 1];
    gcoll_rendezvous_key_of(context, key, "agreed");
    status = gcoll_visit_set_new(context, key, text);
    if (status != GCOLL_ERR_STATE)
        return status;
    status = gcoll_visit_text(context, key, text, sizeof text); /* why a partner failed */
    return status == GCOLL_OK ? gcoll_rendezvous_verdict(text) : status;
}

/* ---- The other ranks ---------------------------------------------------------------------- */

static gcoll_status nonsense(gcoll_context *context, const char *name) {
    char key[GCOLL_STORE_KEY_MAX + 1];
    gcoll_rendezvous_key_of(context, key, name);
    return gcoll_error(GCOLL_ERR_PROTOCOL, "the store's key '%s' makes no sense; another program's?", key);
}

/* Reads the value of "tuning"; a file's value is "file NAME\n" and the contents. */
static gcoll_status read_tuning(gcoll_context *context, char *value, size_t bytes) {
    gcoll_basis *basis = context->basis;
    char *newline = memchr(value, '\n', bytes);
    if (strcmp(value, "fit") == 0)
        basis->kind = GCOLL_BASIS_FITTED;
    else if (strcmp(value, "set") == 0)
        basis->kind = GCOLL_BASIS_BUILT_IN;
    else if (strcmp(value, "given") == 0)
        basis->kind = GCOLL_BASIS_GIVEN;
    else if (bytes > 5 && memcmp(value, "file ", 5) == 0 && newline) {
        *newline = '\0';
        gcoll_text_clean(value + 5); /* the name may appear in messages */
        return parse(basis, value + 5, newline + 1, bytes - (size_t)(newline + 1 - value));
    } else
        return nonsense(context, "tuning");
    return GCOLL_OK;
}

static gcoll_status get_tuning(gcoll_context *context) {
    char key[GCOLL_STORE_KEY_MAX + 1], *value = malloc(VALUE_MAX + 1);
    size_t bytes = 0;
    if (!value)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a tuning file");
    gcoll_rendezvous_key_of(context, key, "tuning");
    gcoll_status status = gcoll_visit_get(context, key, value, VALUE_MAX, &bytes);
    if (status == GCOLL_OK) {
        value[bytes] = '\0';
        status = read_tuning(context, value, bytes);
    }
    free(value);
    return status;
}

/* What follows the transport. */
static gcoll_status read_levels(gcoll_context *context, const char *text) {
    gcoll_levels *levels = &context->basis->levels;
    char map[MAP_BYTES] = "";
    int at = (int)strlen(WITHIN);
    if (text[0] == '\0')
        return drop_levels(context->basis);
    if (strncmp(text, WITHIN, strlen(WITHIN)) != 0 || !read_bits(text, &at, &levels->alpha) ||
        !read_bits(text, &at, &levels->beta) || text[at] != ' ' || strlen(text + at + 1) >= sizeof map)
        return nonsense(context, "agreed");
    snprintf(map, sizeof map, "%s", text + at + 1);
    gcoll_text_clean(map);
    return gcoll_rendezvous_take_map(context, map, &levels->most);
}

static gcoll_status read_agreed(gcoll_context *context, const char *text, bool *monitor) {
    gcoll_basis *basis = context->basis;
    unsigned flags = 0;
    double *numbers[NUMBERS];
    int at = 0, read = 0;
    if (text[0] == '!')
        return gcoll_rendezvous_verdict(text);
    if (sscanf(text, "%7" SCNu32 "%n", &basis->local_ranks, &at) != 1)
        return nonsense(context, "agreed");
    numbers_of(basis, numbers);
    for (size_t i = 0; i < NUMBERS; i++)
        if (!read_bits(text, &at, numbers[i]))
            return nonsense(context, "agreed");
    if (sscanf(text + at, " %1u %15[a-z]%n", &flags, basis->transport, &read) != 2)
        return nonsense(context, "agreed");
    *monitor = (flags & FLAG_MONITOR) != 0;
    basis->is_fixed = (flags & FLAG_FIXED) != 0;
    return read_levels(context, text + at + read);
}

static gcoll_status await_agreed(gcoll_context *context, int64_t deadline_ms, bool *monitor) {
    char value[AGREED_MAX + 1];
    const char *agreed = gcoll_rendezvous_agreed(context);
    if (agreed[0])
        return read_agreed(context, agreed, monitor);
    gcoll_status status =
        gcoll_rendezvous_await(context, "agreed", deadline_ms + GCOLL_WORD_MS, value, sizeof value);
    if (status == GCOLL_ERR_TIMEOUT && !gcoll_rendezvous_was_told(context))
        return gcoll_error(status,
                           "job '%s': rank 0 did not publish the cost of messages within %" PRId64 " ms",
                           context->settings.job, context->settings.timeout_ms);
    if (status != GCOLL_OK)
        return status;
    return read_agreed(context, value, monitor);
}

/* Reports the failed measurement of this rank, so that the others need not wait for rank 0, which may be
 * gone. If rank 0 has published a result, that stays, as ranks may have read it already. */
static gcoll_status report(gcoll_context *context, gcoll_status status) {
    char key[GCOLL_STORE_KEY_MAX + 1], value[AGREED_MAX + 1], reason[REASON_BYTES];
    size_t bytes;
    snprintf(reason, sizeof reason, "%s", gcoll_last_error());
    gcoll_rendezvous_key_of(context, key, "agreed");
    gcoll_status there = gcoll_visit_get(context, key, value, AGREED_MAX, &bytes);
    gcoll_error(status, "%s", reason);
    return there == GCOLL_ERR_NOT_FOUND ? publish_failure(context, status) : status;
}

static gcoll_status follow(gcoll_context *context, const gcoll_fit *fit, int64_t deadline_ms, bool *monitor) {
    const bool is_asked = fit->asks(context);
    gcoll_status status = is_asked ? get_tuning(context) : GCOLL_OK;
    if (status == GCOLL_OK && is_asked && context->basis->kind == GCOLL_BASIS_FITTED) {
        status = fit->serve(context);
        if (status != GCOLL_OK)
            return report(context, status);
    }
    if (status == GCOLL_OK)
        status = await_agreed(context, deadline_ms, monitor);
    if (status == GCOLL_OK && !is_asked) /* read only now: rank 0 may have published a failure instead */
        status = get_tuning(context);
    if (status == GCOLL_OK && context->basis->kind == GCOLL_BASIS_FILE)
        find_section(context);
    return status;
}

/* ---- Without a store ---------------------------------------------------------------------- */

/* Rank 0's kind of basis, and its tuning file. */
static gcoll_status share_tuning(gcoll_context *context, const gcoll_fit *fit) {
    gcoll_basis *basis = context->basis;
    const char *own = basis->text ? basis->text : word_of(basis);
    uint64_t bytes = basis->text ? basis->text_bytes : strlen(own);
    uint8_t size[sizeof bytes];
    gcoll_put_le(size, bytes, sizeof size);
    gcoll_status status = fit->spread(context, size, sizeof size);
    if (status != GCOLL_OK)
        return status;
    bytes = gcoll_get_le(size, sizeof size);
    if (bytes == 0 || bytes > VALUE_MAX)
        return gcoll_error(GCOLL_ERR_PROTOCOL,
                           "rank 0 has a tuning of %" PRIu64 " bytes; allowed are 1 to %d", bytes, VALUE_MAX);
    char *text = calloc(1, bytes + 1);
    if (!text)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a tuning file");
    if (context->rank == 0)
        memcpy(text, own, bytes);
    status = fit->spread(context, text, bytes);
    if (status == GCOLL_OK && context->rank != 0)
        status = read_tuning(context, text, bytes);
    free(text);
    free(basis->text);
    basis->text = NULL;
    return status;
}

static gcoll_status share(gcoll_context *context, const gcoll_fit *fit, uint32_t local_ranks, bool *monitor) {
    char agreed[AGREED_MAX] = "";
    gcoll_status status = share_tuning(context, fit);
    if (status == GCOLL_OK && context->rank == 0)
        status = decide(context, fit, local_ranks);
    else if (status == GCOLL_OK && context->basis->kind == GCOLL_BASIS_FITTED && fit->asks(context))
        status = fit->serve(context);
    if (status == GCOLL_OK && context->rank == 0)
        write_agreed(context, agreed);
    if (status == GCOLL_OK)
        status = fit->spread(context, agreed, sizeof agreed);
    agreed[sizeof agreed - 1] = '\0';
    if (status == GCOLL_OK && context->rank != 0)
        status = read_agreed(context, agreed, monitor);
    if (status == GCOLL_OK && context->rank != 0 && context->basis->kind == GCOLL_BASIS_FILE)
        find_section(context);
    return status;
}

/* ---- Both --------------------------------------------------------------------------------- */

static bool differ(const gcoll_cost_parameters *a, const gcoll_cost_parameters *b) {
    return a->alpha != b->alpha || a->beta != b->beta || a->gamma != b->gamma;
}

gcoll_status gcoll_tuning_agree(gcoll_context *context, const gcoll_fit *fit, uint32_t local_ranks,
                                int64_t deadline_ms) {
    const gcoll_cost_parameters mine = context->basis->cost;
    const bool given = context->basis->kind == GCOLL_BASIS_GIVEN;
    const int64_t timeout_ms = context->settings.timeout_ms, least = timeout_ms / GCOLL_FIT_LEAST_PART;
    const int64_t until_ms = deadline_ms - gcoll_now_ms();
    const int64_t left =
        until_ms < timeout_ms ? until_ms : timeout_ms; /* an allgather takes time of its own */
    bool monitor = context->settings.monitor;          /* the value on rank 0 */
    context->basis->local_ranks = local_ranks;
    if (context->size == 1)
        return decide(context, fit, local_ranks);
    context->settings.timeout_ms = left > least ? left : least + 1;
    gcoll_status status;
    if (context->settings.store) {
        gcoll_meeting_extend(context, deadline_ms + least);
        gcoll_visits_until(context, deadline_ms + least + GCOLL_TELL_MS); /* also while measuring */
        status = context->rank == 0 ? lead(context, fit, local_ranks)
                                    : follow(context, fit, deadline_ms + least, &monitor);
    } else {
        status = share(context, fit, local_ranks, &monitor);
    }
    context->settings.timeout_ms = timeout_ms;
    if (status == GCOLL_OK && context->rank != 0 && context->settings.monitor != monitor) {
        gcoll_break(context, GCOLL_ERR_MISMATCH, context->rank,
                    "options.monitor: is %d on rank %u and %d on rank 0; allowed is one value for all ranks",
                    context->settings.monitor, context->rank, monitor);
        return gcoll_context_settle(context);
    }
    if (status == GCOLL_OK && given && differ(&mine, &context->basis->cost)) {
        gcoll_break(context, GCOLL_ERR_MISMATCH, context->rank,
                    "options.cost: rank %u has alpha %g, beta %g, gamma %g, and rank 0 has other values",
                    context->rank, mine.alpha, mine.beta, mine.gamma);
        status = gcoll_context_settle(context);
    }
    return status;
}

/* ---- Queries ------------------------------------------------------------------------------ */

const gcoll_tuning_rule *gcoll_basis_rule_for(const gcoll_basis *basis, gcoll_collective collective,
                                              uint64_t bytes) {
    return basis->exact ? gcoll_tuning_rule_for(&basis->tuning, basis->section, collective, bytes) : NULL;
}

/* Members of a group stand elsewhere than ranks of those numbers. */
const uint32_t *gcoll_basis_tour(const gcoll_basis *basis) {
    return basis->exact && !basis->whole ? basis->section->tour : NULL;
}

void gcoll_basis_describe(const gcoll_context *context, const gcoll_tuning_rule *rule, bool is_fixed,
                          char *text, size_t bytes) {
    const gcoll_basis *b = context->basis;
    const gcoll_basis_kind kind = is_fixed && b->kind == GCOLL_BASIS_FITTED ? GCOLL_BASIS_BUILT_IN : b->kind;
    gcoll_cost_parameters cost;
    gcoll_sharing sharing;
    static const char *const kinds[] = {[GCOLL_BASIS_BUILT_IN] = "built in",
                                        [GCOLL_BASIS_GIVEN] = "given by options.cost",
                                        [GCOLL_BASIS_FITTED] = "fitted when the context was created",
                                        [GCOLL_BASIS_FILE] = "built in"};
    char from[GCOLL_BASIS_NAME_MAX + 128];
    if (rule) {
        snprintf(text, bytes, "chosen by line %u of '%s'\n", rule->line, b->name);
        return;
    }
    gcoll_basis_numbers(b, is_fixed, &cost, &sharing);
    snprintf(from, sizeof from, "%s", kinds[kind]);
    if (b->section && b->section->cost_line > 0)
        snprintf(from, sizeof from, "of line %u of '%s', for %u ranks, %u on a host", b->section->cost_line,
                 b->name, b->section->ranks, b->section->local);
    char shared[128] = "";
    if (sharing.crowd > 0)
        snprintf(shared, sizeof shared,
                 "of alpha without waiting %.2f us; of processors %.2f us, %.3f ns; %.2f ranks a core; ",
                 (cost.alpha - sharing.latency) * 1e6, sharing.message * 1e6, sharing.byte * 1e9,
                 sharing.crowd);
    char within[96] = "";
    const gcoll_levels *levels = gcoll_basis_levels(b, is_fixed);
    if (levels)
        snprintf(within, sizeof within,
                 "within a host alpha %.2f us, beta %.3f ns; %u ranks on the largest; ", levels->alpha * 1e6,
                 levels->beta * 1e9, levels->most);
    char tour[UNUSED_TOUR_BYTES];
    describe_unused_tour(context, tour, sizeof tour);
    snprintf(text, bytes, "chosen by cost: alpha %.2f us, beta %.3f ns, gamma %.3f ns; %s%s%s%s%s\n",
             cost.alpha * 1e6, cost.beta * 1e9, cost.gamma * 1e9, within, shared, from, tour[0] ? "; " : "",
             tour);
}

gcoll_status gcoll_context_tuning(const gcoll_context *context, char *text, size_t bytes) {
    if (!context || !text || bytes == 0)
        return gcoll_error(GCOLL_ERR_INVALID, "%s",
                           context ? "text: is NULL or of 0 bytes" : "context: is NULL");
    const gcoll_basis *b = context->basis;
    char within[96] = "";
    if (b->levels.most > 1)
        snprintf(within, sizeof within, " host_alpha_ns=%.0f host_beta_ps=%.0f", b->levels.alpha * 1e9,
                 b->levels.beta * 1e12);
    const uint32_t *tour = gcoll_basis_tour(b);
    gcoll_text to = {text, bytes, 0};
    text[0] = '\0';
    gcoll_text_add(
        &to,
        "for transport=%s ranks=%u local=%u\n"
        "cost alpha_ns=%.0f beta_ps=%.0f gamma_ps=%.0f latency_ns=%.0f message_ns=%.0f byte_ps=%.0f%s\n",
        b->transport, context->size, b->local_ranks, b->cost.alpha * 1e9, b->cost.beta * 1e12,
        b->cost.gamma * 1e12, b->sharing.latency * 1e9, b->sharing.message * 1e9, b->sharing.byte * 1e12,
        within);
    for (uint32_t i = 0; tour && i < context->size; i++)
        gcoll_text_add(&to, "%s%u", i ? " " : "tour ", tour[i]);
    if (tour)
        gcoll_text_add(&to, "\n");
    return GCOLL_OK;
}
