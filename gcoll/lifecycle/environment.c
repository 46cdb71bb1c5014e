/*
 * gcoll/lifecycle/environment.c - reads rank, size, job and store of this process from the environment
 * variables of launchers.
 *
 * A launcher is a row of a table of variable names. It is complete if its rank and its size are set. The
 * first complete row counts, and the other complete rows must agree with it: a program that one launcher
 * started within another cannot know which of them was meant. GCOLL_RANK and GCOLL_SIZE, or GCOLL_SOURCE,
 * decide such cases.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/hash.h"
#include "gcoll/base/text.h"
#include "gcoll/environment.h"
#include "gcoll/lifecycle/lifecycle.h"

#define QUOTE_MAX 48  /* bytes of a value in a message */
#define HOST_MAX  254 /* bytes of a host's name, with the NUL */
#define PMI_STORE "pmi:"
/* Derived ports lie below the ports from 32768 on, which Linux assigns to sockets. */
#define FIRST_PORT 20000u
#define PORTS      12768u
/* Steps of Slurm from this number on are batch scripts and shells, not ranks that srun started. */
#define SLURM_SPECIAL_STEP UINT64_C(0xfffffff0)

typedef struct launcher {
    const char *name;
    const char *rank, *size;
    const char *local_rank, *local_size; /* NULL: the launcher sets none */
    const char *ids[2];                  /* names of the job; joined if both are set */
    bool size_alone;                     /* its size may be set although it started no ranks */
} launcher;

#define OWN 0 /* row of GCOLL_RANK and GCOLL_SIZE, which take precedence */

static const launcher launchers[] = {
    {"gcoll", "GCOLL_RANK", "GCOLL_SIZE", "GCOLL_LOCAL_RANK", "GCOLL_LOCAL_SIZE", {NULL, NULL}, false},
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"TORCHELASTIC_RUN_ID", "MASTER_PORT"},
     false},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL, {"SLURM_JOB_ID", "SLURM_STEP_ID"}, true},
    {"openmpi",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", NULL},
     false},
    {"pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", {NULL, NULL}, false},
    {"pmix", "PMIX_RANK", "GCOLL_SIZE", NULL, NULL, {"PMIX_NAMESPACE", NULL}, true},
    {"kubernetes", "JOB_COMPLETION_INDEX", "GCOLL_SIZE", NULL, NULL, {NULL, NULL}, true},
};

#define LAUNCHERS (sizeof launchers / sizeof launchers[0])

/* ---- Single variables ----------------------------------------------------------------------- */

/* The value of the variable; NULL if it is not set or empty. */
static const char *value_of(const char *variable) {
    const char *text = variable ? getenv(variable) : NULL;
    return text && text[0] != '\0' ? text : NULL;
}

static const char *quote(const char *text, char room[QUOTE_MAX]) {
    snprintf(room, QUOTE_MAX, "%s", text);
    gcoll_text_clean(room);
    return room;
}

static gcoll_status odd(const char *variable, const char *text, const char *allowed) {
    char room[QUOTE_MAX];
    return gcoll_error(GCOLL_ERR_INVALID, "%s: is '%s'; allowed %s", variable, quote(text, room), allowed);
}

static gcoll_status read_number(const char *variable, uint32_t least, uint32_t most, uint32_t *number) {
    const char *text = value_of(variable);
    uint64_t value = 0;
    char allowed[48];
    if (text && gcoll_text_parse_whole(text, strlen(text), most, &value) && value >= least) {
        *number = (uint32_t)value;
        return GCOLL_OK;
    }
    snprintf(allowed, sizeof allowed, "is a number of %" PRIu32 " to %" PRIu32, least, most);
    return odd(variable, text ? text : "", allowed);
}

/* ---- Which launcher ------------------------------------------------------------------------- */

/* Whether srun started this process as a rank. Batch scripts have most of Slurm's variables, too. */
static bool is_slurm_task(void) {
    const char *step = value_of("SLURM_STEP_ID");
    uint64_t number = 0;
    return step && gcoll_text_parse_whole(step, strlen(step), SLURM_SPECIAL_STEP - 1, &number);
}

static bool is_there(const launcher *l) {
    if (strcmp(l->name, "slurm") == 0 && !is_slurm_task())
        return false;
    return value_of(l->rank) || (!l->size_alone && value_of(l->size));
}

static bool is_complete(const launcher *l) {
    return is_there(l) && value_of(l->rank) && value_of(l->size);
}

static gcoll_status read_rank(const launcher *l, uint32_t *rank, uint32_t *size) {
    gcoll_status status = read_number(l->size, 1, GCOLL_MAX_RANKS, size);
    return status == GCOLL_OK ? read_number(l->rank, 0, *size - 1, rank) : status;
}

/* The error for a launcher that has set only its rank or only its size. */
static gcoll_status missing(const launcher *l) {
    const char *present = l->size, *absent = l->rank;
    char room[QUOTE_MAX], allowed[64] = "0 to the number of ranks less 1";
    if (value_of(l->rank)) {
        present = l->rank;
        absent = l->size;
        snprintf(allowed, sizeof allowed, "1 to %u", GCOLL_MAX_RANKS);
    }
    const char *text = value_of(present);
    return gcoll_error(GCOLL_ERR_INVALID, "%s: is not set, but %s is '%s' (%s); allowed are %s", absent,
                       present, quote(text ? text : "", room), l->name, allowed);
}

/* Finds the launcher that GCOLL_SOURCE names. */
static gcoll_status named_launcher(const char *name, const launcher **found) {
    char allowed[128] = "are ";
    gcoll_text list = {.text = allowed, .bytes = sizeof allowed, .used = strlen(allowed)};
    for (size_t i = 0; i < LAUNCHERS; i++) {
        gcoll_text_add(&list, "%s%s", i > 0 ? ", " : "", launchers[i].name);
        if (strcmp(name, launchers[i].name) != 0)
            continue;
        *found = &launchers[i];
        if (is_complete(*found))
            return GCOLL_OK;
        if (is_there(*found))
            return missing(*found);
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is not set, but GCOLL_SOURCE is '%s'%s", (*found)->rank,
                           name, strcmp(name, "slurm") == 0 ? ", or this is no step of srun" : "");
    }
    return odd("GCOLL_SOURCE", name, allowed);
}

static gcoll_status find_launcher(const launcher **found) {
    const launcher *const own = &launchers[OWN];
    const launcher *partial = NULL;
    for (size_t i = 0; i < LAUNCHERS; i++) {
        const launcher *l = &launchers[i];
        if (is_complete(l)) {
            *found = l;
            return GCOLL_OK;
        }
        if (value_of(own->rank))
            return missing(own);
        if (!partial && l != own && is_there(l))
            partial = l;
    }
    if (partial || is_there(own))
        return missing(partial ? partial : own);
    return gcoll_error(
        GCOLL_ERR_NOT_FOUND,
        "no launcher's variables are set: set GCOLL_RANK, GCOLL_SIZE and GCOLL_STORE, or start by "
        "torchrun, srun, mpirun or mpiexec");
}

static gcoll_status check_others(const launcher *found, uint32_t rank, uint32_t size) {
    const launcher *const own = &launchers[OWN];
    uint32_t other_rank, other_size;
    if (value_of(own->size)) { /* GCOLL_SIZE without GCOLL_RANK */
        gcoll_status status = read_number(own->size, 1, GCOLL_MAX_RANKS, &other_size);
        if (status != GCOLL_OK || other_size != size)
            return status != GCOLL_OK ? status : missing(own);
    }
    for (size_t i = 0; i < LAUNCHERS; i++) {
        const launcher *other = &launchers[i];
        if (other == found || !is_complete(other))
            continue;
        gcoll_status status = read_rank(other, &other_rank, &other_size);
        if (status != GCOLL_OK)
            return status;
        if (other_rank != rank || other_size != size)
            return gcoll_error(
                GCOLL_ERR_INVALID,
                "%s and %s disagree: %s is %u and %s is %u, but %s is %u and %s is %u; allowed is one "
                "rank and size, or GCOLL_SOURCE=%s or %s to say which counts",
                found->name, other->name, found->rank, rank, found->size, size, other->rank, other_rank,
                other->size, other_size, found->name, other->name);
    }
    return GCOLL_OK;
}

/* ---- Local ranks and the job ---------------------------------------------------------------- */

/* The name of gcoll's variable if it is set, else of the launcher's; NULL if neither is set. */
static const char *first_set(const char *own, const char *others) {
    return value_of(own) ? own : value_of(others) ? others : NULL;
}

static gcoll_status read_local(const launcher *l, gcoll_environment *to) {
    const char *size = first_set(launchers[OWN].local_size, l->local_size);
    const char *rank = first_set(launchers[OWN].local_rank, l->local_rank);
    gcoll_status status = GCOLL_OK;
    if (size)
        status = read_number(size, 1, to->size, &to->local_size);
    if (status == GCOLL_OK && rank)
        status = read_number(rank, 0, (size ? to->local_size : to->size) - 1, &to->local_rank);
    return status;
}

/* Derives the job's name from the launcher's ids. Their bytes and length may not be allowed in a name;
 * then a hash of them is used. */
static void name_job(const launcher *l, gcoll_environment *to) {
    const char *ids[2] = {value_of(l->ids[0]), value_of(l->ids[1])};
    if (!ids[0] && !ids[1])
        return;
    const char *first = ids[0] ? ids[0] : ids[1];
    const char *second = ids[0] && ids[1] ? ids[1] : "";
    const int length =
        snprintf(to->job, sizeof to->job, "%s-%s%s%s", l->name, first, second[0] ? "." : "", second);
    if (length < 0 || (size_t)length >= sizeof to->job || !gcoll_job_is_name(to->job)) {
        uint64_t hash = gcoll_hash_text(GCOLL_HASH_START, first);
        hash = gcoll_hash_text(gcoll_hash_word(hash, '.'), second);
        snprintf(to->job, sizeof to->job, "%s-%016" PRIx64, l->name, hash);
    }
}

/* Reads or derives the job's name. *is_named: the name differs from those of other jobs on the same
 * hosts. */
static gcoll_status read_job(const launcher *l, gcoll_environment *to, bool *is_named) {
    const char *given = value_of("GCOLL_JOB");
    if (given && !gcoll_job_is_name(given))
        return odd("GCOLL_JOB", given, "are " GCOLL_JOB_NAMES);
    if (given)
        snprintf(to->job, sizeof to->job, "%s", given);
    else
        name_job(l, to);
    *is_named = strcmp(to->job, "default") != 0;
    return GCOLL_OK;
}

/* ---- The first host of a Slurm node list ---------------------------------------------------- */

#define DIGITS     "0123456789"
#define HOST_BYTES DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._-"

/* Appends to a host's name. False if it gets too long. */
static bool put(char host[HOST_MAX], const char *text, size_t bytes) {
    const size_t used = strlen(host);
    if (bytes >= HOST_MAX - used)
        return false;
    memcpy(host + used, text, bytes);
    host[used + bytes] = '\0';
    return true;
}

/* Reads a bracket such as "003-005,7]" and appends its first number as it stands. Moves *at behind the
 * bracket. */
static bool put_first_number(const char **at, char host[HOST_MAX]) {
    bool is_first = true;
    do {
        size_t digits = strspn(*at, DIGITS);
        if (digits == 0 || (is_first && !put(host, *at, digits)))
            return false;
        is_first = false;
        *at += digits;
        if (**at == '-') {
            digits = strspn(++*at, DIGITS);
            if (digits == 0)
                return false;
            *at += digits;
        }
        if (**at != ',' && **at != ']')
            return false;
    } while (*(*at)++ == ',');
    return true;
}

/* Finds the first host of a node list, for example "rack3n003" in "rack[3-4]n[003-005,7],other". Reads
 * the list up to the end of its first item. False if the text is not such a list. */
static bool first_host(const char *list, char host[HOST_MAX]) {
    host[0] = '\0';
    while (*list != '\0' && *list != ',') {
        const size_t plain = strspn(list, HOST_BYTES);
        if (!put(host, list, plain))
            return false;
        list += plain;
        if (*list == '[') {
            list++;
            if (!put_first_number(&list, host))
                return false;
        } else if (plain == 0) {
            return false;
        }
    }
    return host[0] != '\0';
}

/* ---- The store ------------------------------------------------------------------------------ */

/* Sets the store's URL to a port of the host that all ranks of the job compute alike. Jobs with other
 * names usually get other ports. */
static void meet_at(const char *host, gcoll_environment *to) {
    const char *master = value_of("MASTER_PORT");
    uint64_t taken = 0;
    uint64_t port = FIRST_PORT + gcoll_hash_mix(gcoll_hash_text(GCOLL_HASH_START, to->job)) % PORTS;
    const bool is_name = !strchr(host, ':');
    if (master && gcoll_text_parse_whole(master, strlen(master), UINT16_MAX, &taken) && taken == port)
        port ^= 1; /* torchrun's own store listens there */
    snprintf(to->store, sizeof to->store, "tcp://%s%s%s:%" PRIu64, is_name ? "" : "[", host,
             is_name ? "" : "]", port);
}

static gcoll_status meet_at_master(const char *host, gcoll_environment *to) {
    const size_t length = strlen(host);
    if (length >= HOST_MAX || strspn(host, strchr(host, ':') ? HOST_BYTES ":%" : HOST_BYTES) != length)
        return odd("MASTER_ADDR", host, "is a host's name or address");
    meet_at(host, to);
    return GCOLL_OK;
}

static gcoll_status meet_at_first_node(gcoll_environment *to) {
    char host[HOST_MAX];
    const char *variable = first_set("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST");
    if (!variable)
        return GCOLL_OK;
    if (!first_host(value_of(variable), host))
        return odd(variable, value_of(variable), "is a list such as node[003-005,7],other");
    meet_at(host, to);
    return GCOLL_OK;
}

static gcoll_status read_store(const launcher *l, bool is_named, gcoll_environment *to) {
    const char *url = value_of("GCOLL_STORE"), *master = value_of("MASTER_ADDR");
    if (url && strlen(url) >= sizeof to->store)
        return gcoll_error(GCOLL_ERR_INVALID, "GCOLL_STORE: has %zu bytes; allowed are up to %zu",
                           strlen(url), sizeof to->store - 1);
    if (url) {
        snprintf(to->store, sizeof to->store, "%s", url);
        return GCOLL_OK;
    }
    if (is_named && master) /* without a name the port would be the same for other jobs */
        return meet_at_master(master, to);
    if (is_named && strcmp(l->name, "slurm") == 0)
        return meet_at_first_node(to);
    if (is_named && to->local_size == to->size)
        meet_at("127.0.0.1", to);
    else if (strcmp(l->name, "pmi") == 0 && value_of("PMI_FD"))
        snprintf(to->store, sizeof to->store, PMI_STORE);
    return GCOLL_OK;
}

/* ---- Public functions ----------------------------------------------------------------------- */

void gcoll_environment_init(gcoll_environment *environment) {
    memset(environment, 0, sizeof *environment);
    environment->struct_size = sizeof *environment;
    environment->local_rank = UINT32_MAX;
    snprintf(environment->job, sizeof environment->job, "default");
}

gcoll_status gcoll_environment_read(gcoll_environment *environment) {
    const launcher *l = &launchers[OWN];
    const char *source = value_of("GCOLL_SOURCE");
    bool is_named = false;
    gcoll_environment known;
    if (!environment)
        return gcoll_error(GCOLL_ERR_INVALID, "environment: is NULL");
    gcoll_environment_init(&known);
    gcoll_status status =
        gcoll_options_read_named(&known, sizeof known, sizeof known, environment, "environment.struct_size");
    if (status != GCOLL_OK)
        return status;
    gcoll_environment_init(&known);
    status = source ? named_launcher(source, &l) : find_launcher(&l);
    if (status == GCOLL_OK)
        status = read_rank(l, &known.rank, &known.size);
    if (status == GCOLL_OK && !source && l != &launchers[OWN])
        status = check_others(l, known.rank, known.size);
    if (status == GCOLL_OK)
        status = read_local(l, &known);
    if (status == GCOLL_OK)
        status = read_job(l, &known, &is_named);
    if (status == GCOLL_OK)
        status = read_store(l, is_named, &known);
    if (status != GCOLL_OK)
        return status;
    known.source = l->name;
    *environment = known;
    return GCOLL_OK;
}

gcoll_status gcoll_context_create_from_env(const gcoll_context_options *given, gcoll_context **out) {
    gcoll_context_options options;
    gcoll_environment environment;
    gcoll_store *store = NULL;
    if (!out)
        return gcoll_error(GCOLL_ERR_INVALID, "context: is NULL");
    gcoll_context_options_init(&options);
    gcoll_environment_init(&environment);
    gcoll_status status = gcoll_context_options_read(&options, given);
    if (status == GCOLL_OK && options.store)
        status =
            gcoll_error(GCOLL_ERR_INVALID, "options.store: is set; allowed is NULL, or gcoll_context_create");
    if (status == GCOLL_OK)
        status = gcoll_environment_read(&environment);
    if (status == GCOLL_OK && environment.size > 1 && environment.store[0] == '\0')
        status = gcoll_error(
            GCOLL_ERR_INVALID,
            "GCOLL_STORE: is not set, and cannot be derived from the variables of %s; allowed is the URL "
            "of a store, the same on all ranks",
            environment.source);
    if (status != GCOLL_OK)
        return status;
    options.struct_size = sizeof options;
    options.rank = environment.rank;
    options.size = environment.size;
    if (!options.job)
        options.job = environment.job;
    if (!options.launch && !value_of("GCOLL_LAUNCH") && strcmp(environment.store, PMI_STORE) == 0)
        options.launch = PMI_STORE; /* no other launch can reach the store */
    if (environment.size > 1)
        status =
            gcoll_store_open(environment.store,
                             options.timeout_ms > 0 ? options.timeout_ms : GCOLL_DEFAULT_TIMEOUT_MS, &store);
    if (status != GCOLL_OK)
        return status;
    options.store = store;
    status = gcoll_context_create(&options, out);
    if (status == GCOLL_OK)
        (*out)->settings.owned_store = store;
    else
        gcoll_store_destroy(store);
    return status;
}
