/* tools/prove.c - proves one algorithm for one number of ranks, in all of its cases.
 *
 * Many cases have the same plans, e.g. if an option exceeds its effect, or if the algorithm ignores the
 * surroundings. Plans are compared by a 128-bit hash of their contents, and equal plans are proved once. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/job.h"
#include "tools/verify.h"
#include "tools/words.h"

/* ---- Plans that were seen -------------------------------------------------------------------------------
 */

typedef struct fingerprint {
    uint64_t low, high;
} fingerprint;

typedef struct seen {
    fingerprint key;
    uint32_t claims;
    bool used;
} seen;

static uint64_t mixed(uint64_t hash, uint64_t x, uint64_t factor) {
    hash = (hash ^ x) * factor;
    return hash ^ (hash >> 29);
}

static void mix(fingerprint *f, uint64_t x) {
    f->low = mixed(f->low, x, UINT64_C(0x9e3779b97f4a7c15));
    f->high = mixed(f->high, x, UINT64_C(0xc2b2ae3d27d4eb4f));
}

static void mix_ref(fingerprint *f, gcoll_ref ref) {
    mix(f, ref.offset << 8 ^ (uint64_t)ref.index << 2 ^ ref.space);
}

static void mix_plan(fingerprint *f, const gcoll_plan *plan) {
    const gcoll_problem *p = &plan->problem;
    const uint64_t entries = gcoll_problem_offset_entries(p);
    mix(f, (uint64_t)p->root << 32 | p->rank);
    mix(f, (uint64_t)p->exchanges << 34 | (uint64_t)p->buffers << 2 | (uint64_t)p->in_place << 1 |
               (uint64_t)p->average);
    mix(f, p->count);
    mix(f, (uint64_t)plan->window << 32 | plan->divisor);
    mix(f, plan->scratch);
    mix(f, entries);
    for (uint64_t i = 0; i < entries; i++)
        mix(f, plan->offsets[i]);
    for (uint32_t k = 0; k < p->buffers; k++)
        mix(f, (uint64_t)gcoll_problem_memory(p, gcoll_in(k, 0)) << 32 |
                   gcoll_problem_memory(p, gcoll_out(k, 0)));
    mix(f, p->staging.local);
    for (uint32_t i = 0; i < plan->operand_count; i++)
        mix(f, plan->operands[i]);
    mix(f, (uint64_t)plan->step_count << 32 | plan->successor_count);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const gcoll_step *s = &plan->steps[i];
        mix(f, (uint64_t)s->kind << 33 | (uint64_t)s->received_first << 32 | s->peer);
        mix(f, (uint64_t)s->message << 32 | s->round);
        mix(f, (uint64_t)s->first_successor << 32 | s->successors);
        mix(f, s->count);
        mix_ref(f, s->dst);
        mix_ref(f, s->a);
        mix_ref(f, s->b);
    }
    for (uint32_t i = 0; i < plan->successor_count; i++)
        mix(f, plan->successors[i]);
}

static fingerprint fingerprint_of(const tool_job *job) {
    fingerprint f = {1, 2};
    for (uint32_t r = 0; r < job->size; r++)
        mix_plan(&f, job->plans[r]);
    return f;
}

/* ---- A case ---------------------------------------------------------------------------------------------
 */

typedef struct prover {
    tool_cases cases;
    tool_proof *proof;
    seen *table; /* of `room`, a power of two, more than there are cases */
    uint64_t room;
    fingerprint *probes; /* by setting: of its telling case; zero if it does not apply */
    uint64_t *alike;     /* by setting: the first one that has the same plans */
} prover;

static seen *look_up(prover *p, fingerprint key) {
    uint64_t at = key.low & (p->room - 1);
    while (p->table[at].used && (p->table[at].key.low != key.low || p->table[at].key.high != key.high))
        at = (at + 1) & (p->room - 1);
    return &p->table[at];
}

GCOLL_PRINTF(3, 4)
static void fail(prover *p, const tool_shape *shape, const char *format, ...) {
    char algorithm[256], text[TOOL_TEXT], what[TOOL_TEXT];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    gcoll_choice_format(&shape->choice, algorithm, sizeof algorithm);
    tool_shape_text(shape, NULL, text);
    snprintf(p->proof->text, sizeof p->proof->text, "%s of %.400s: %s", algorithm, text, what);
    p->proof->failed = true;
}

/* Whether the claims must be exactly the properties that hold. With empty blocks or hosts of several sizes,
 * more may hold by chance. */
static bool is_regular(const gcoll_problem *p) {
    for (uint32_t r = 0; r < p->size && p->offsets; r++)
        if (gcoll_block_count(p, r) == 0)
            return false;
    uint32_t first = 0;
    for (uint32_t r = 0; r < p->size && p->node; r++) {
        uint32_t here = 0;
        for (uint32_t other = 0; other < p->size; other++)
            here += p->node[other] == p->node[r];
        first = r == 0 ? here : first;
        if (here != first)
            return false;
    }
    const uint64_t block = p->codec.block ? p->codec.block : 1; /* that vectors are cut in */
    return p->collective == GCOLL_BARRIER ||
           (p->count / block + (p->count % block != 0) >= p->size && p->buffers == 1);
}

static void compare_claims(prover *p, const tool_shape *shape, const tool_job *job, uint32_t found) {
    gcoll_problem problem = shape->problem;
    char text[TOOL_TEXT];
    problem.offsets = job->plans[0]->problem.offsets;
    problem.recv_offsets = job->plans[0]->problem.recv_offsets;
    uint32_t claimed = gcoll_algorithm_claims(shape->choice.algorithm, &problem);
    if (p->cases.options->devices > 1)
        claimed &= found | ~(GCOLL_CLAIM_PAIRS | GCOLL_CLAIM_LEFT); /* each device reduces its own first */
    if (claimed & ~found) {
        tool_claims_text(claimed & ~found, text);
        fail(p, shape, "claims a property that does not hold: %s", text);
    } else if ((found & ~claimed) && is_regular(&problem)) {
        tool_claims_text(found & ~claimed, text);
        fail(p, shape, "does not claim a property that holds: %s", text);
    }
}

static void judge(prover *p, const tool_shape *shape, const tool_job *job) {
    const fingerprint key = fingerprint_of(job);
    seen *entry = look_up(p, key);
    if (entry->used) {
        p->proof->repeated++;
    } else {
        gcoll_verify_report report;
        if (tool_job_verify(job, &report) != GCOLL_OK) {
            fail(p, shape, "%s", gcoll_last_error());
            return;
        }
        *entry = (seen){key, report.claims, true};
        p->proof->proved++;
    }
    compare_claims(p, shape, job, entry->claims);
}

/* The plans of all ranks, if the algorithm builds the tree that is asked for; as tool_job_create. */
static gcoll_status create_job(const prover *p, const tool_shape *shape, tool_job *job, uint32_t *rank) {
    const gcoll_status status = tool_shape_keeps_bits(p->cases.options, shape);
    *rank = 0;
    return status == GCOLL_OK ? tool_job_create(shape, job, rank) : status;
}

/* Makes the plans of all ranks. False: they could not be made; the reason is counted. */
static bool make(prover *p, const tool_shape *shape, tool_job *job) {
    uint32_t rank;
    gcoll_status status = create_job(p, shape, job, &rank);
    if (status == GCOLL_OK)
        return true;
    if (status == GCOLL_ERR_UNSUPPORTED && rank == 0) {
        if (p->proof->skipped++ == 0)
            snprintf(p->proof->reason, sizeof p->proof->reason, "%u rank%s: %.200s", shape->problem.size,
                     tool_plural(shape->problem.size), gcoll_last_error());
    } else if (status == GCOLL_ERR_UNSUPPORTED) {
        fail(p, shape, "rank %u has no plan though rank 0 has: %s", rank, gcoll_last_error());
    } else {
        fail(p, shape, "rank %u: no plan: %s", rank, gcoll_last_error());
    }
    return false;
}

/* ---- Settings that make no difference -------------------------------------------------------------------
 */

/* A setting is a combination of options in certain surroundings. Many have the same plans: they are built for
 * one case that tells most, and where they are equal there, the first stands for the others in all cases. */

static uint64_t largest_count(const tool_cases *c) {
    uint64_t most = 0;
    for (size_t i = 0; i < c->options->count.count; i++)
        most = most < c->options->count.values[i] ? c->options->count.values[i] : most;
    return c->target->choice.algorithm->collective == GCOLL_BARRIER ? 0 : most;
}

/* The fingerprint of a setting: of its plans for the first root, even blocks and the most elements. Zero: it
 * does not apply. */
static fingerprint probe(const prover *p, uint64_t setting) {
    tool_shape shape;
    tool_job job;
    fingerprint made = {0, 0};
    uint32_t rank;
    tool_cases_at(&p->cases, setting * p->cases.per_setting, &shape);
    shape.problem.count = largest_count(&p->cases);
    if (create_job(p, &shape, &job, &rank) != GCOLL_OK)
        return made;
    made = fingerprint_of(&job);
    tool_job_free(&job);
    return made;
}

static void probe_all(prover *p) {
    for (uint64_t i = 0; i < p->cases.settings; i++) {
        const fingerprint made = p->probes[i] = probe(p, i);
        uint64_t first = made.low == 0 ? i : 0;
        while (first < i && (p->probes[first].low != made.low || p->probes[first].high != made.high))
            first++;
        p->alike[i] = first;
    }
}

/* Settings that have the same plans must claim the same. */
static void compare_alike(prover *p, uint64_t index) {
    const uint64_t per = p->cases.per_setting, first = p->alike[index / per] * per + index % per;
    tool_shape shape, other;
    char text[256];
    tool_cases_at(&p->cases, index, &shape);
    tool_cases_at(&p->cases, first, &other);
    p->proof->repeated++;
    if (gcoll_algorithm_claims(shape.choice.algorithm, &shape.problem) ==
        gcoll_algorithm_claims(shape.choice.algorithm, &other.problem))
        return;
    gcoll_choice_format(&other.choice, text, sizeof text);
    fail(p, &shape, "has the plans of %s but other claims", text);
}

static void prove_case(prover *p, uint64_t index) {
    const uint64_t setting = index / p->cases.per_setting;
    tool_shape shape;
    tool_job job;
    const uint64_t plain = setting - setting % TOOL_SURROUNDINGS;
    if (p->alike[setting] != setting) {
        compare_alike(p, index);
        return;
    }
    if (setting != plain && p->probes[setting].low == 0 && p->probes[plain].low == 0)
        return; /* options that do not apply do so nowhere: once is enough */
    tool_cases_at(&p->cases, index, &shape);
    tool_shape_text(&shape, NULL, p->proof->text); /* should the planner crash */
    if (!make(p, &shape, &job))
        return;
    judge(p, &shape, &job);
    tool_job_free(&job);
}

static bool create(prover *p, const tool_options *options, const tool_target *target, uint32_t size) {
    if (!tool_cases_create(options, target, size, &p->cases))
        return false;
    for (p->room = 16; p->room < 2 * p->cases.total;)
        p->room *= 2;
    p->table = calloc(p->room, sizeof *p->table);
    p->probes = calloc(p->cases.settings, sizeof *p->probes);
    p->alike = calloc(p->cases.settings, sizeof *p->alike);
    if (!p->table || !p->probes || !p->alike)
        return false;
    snprintf(p->proof->text, sizeof p->proof->text, "%u rank%s", size,
             tool_plural(size)); /* should the planner crash */
    probe_all(p);
    return true;
}

void tool_prove(const tool_options *options, const tool_target *target, uint32_t size, tool_proof *proof) {
    prover p = {.proof = proof};
    *proof = (tool_proof){.proved = 0};
    if (!create(&p, options, target, size)) {
        proof->failed = true;
        snprintf(proof->text, sizeof proof->text, "out of memory");
    }
    for (uint64_t i = 0; i < p.cases.total && !proof->failed; i++)
        prove_case(&p, i);
    free(p.alike);
    free(p.probes);
    free(p.table);
    tool_cases_free(&p.cases);
}

bool tool_builds_tree(const tool_options *options, const tool_target *target, uint32_t size) {
    const gcoll_algorithm *a = target->choice.algorithm;
    tool_cases cases;
    bool applies = false, builds = !tool_cases_create(options, target, size, &cases);
    tool_shape shape, last;
    for (uint64_t i = 0; i < cases.settings && !builds; i++) {
        tool_cases_at(&cases, i * cases.per_setting, &shape);
        shape.problem.count = largest_count(&cases);
        if (a->applies && a->applies(&shape.problem) != GCOLL_OK)
            continue;
        applies = true;
        last = shape;
        builds = tool_shape_keeps_bits(options, &shape) == GCOLL_OK;
    }
    if (applies && !builds) /* settings that do not apply have set another error since */
        (void)tool_shape_keeps_bits(options, &last);
    tool_cases_free(&cases);
    return builds || !applies;
}
