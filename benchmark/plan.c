/*
 * benchmark/plan.c - --plan: the plans of a file (docs/plans-as-files.md), run as an algorithm.
 *
 * The file is not trusted. It is read by the readers of gcoll_plan, as drafts. The algorithm's planner writes
 * the draft of its rank by the public functions of planners: the same steps, each of which waits for the same
 * others. Before anything is run, gcoll_verify proves the plans of all ranks as they will be run.
 *
 * A file is for calls in place or for others, while an algorithm must do both. Where the call is of the other
 * kind, the planner adds a copy before the first step: of the input to the output, if that is the larger one,
 * else of the input to scratch, on which the steps then work.
 */
#include "benchmark/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plan_file.h"

/* Of a schedule for any size, unless --bytes says otherwise: elements in a chunk. */
static const uint64_t usual_chunks[4] = {1, 64, 4096, 65536};

/* The plans of all ranks for one number of elements. */
typedef struct sized_plan {
    uint64_t count;
    tool_plan_file file;
} sized_plan;

struct bench_plan {
    sized_plan *sizes;
    size_t size_count;
    uint32_t ranks;
    gcoll_algorithm algorithm;
};

/* The planner has no argument of its own, and a program runs the plans of one file only. */
static const bench_plan *the_plan;

static const sized_plan *find(const bench_plan *plan, uint64_t count) {
    for (size_t i = 0; i < plan->size_count; i++)
        if (plan->sizes[i].count == count)
            return &plan->sizes[i];
    return NULL;
}

/* ---- The planner -----------------------------------------------------------------------------------------
 */

/* A draft that is being written. */
typedef struct writing {
    const gcoll_problem *problem;
    gcoll_builder *b;
    const tool_plan_draft *draft;
    gcoll_ref scratch,
        image; /* the draft's scratch; scratch that takes the place of the larger buffer or of IN */
    bool has_image;
    uint32_t added; /* steps before the draft's own */
    uint32_t *after;
} writing;

static bool output_is_smaller(const gcoll_problem *p) {
    return gcoll_problem_out_count(p) < gcoll_problem_in_count(p);
}

/* Where the draft's place lies in this call. In place, the draft calls the larger buffer OUT. */
static gcoll_ref place(const writing *w, gcoll_ref ref) {
    if (ref.space == GCOLL_SCRATCH)
        return gcoll_ref_add(w->scratch, ref.offset);
    if (w->has_image && (w->draft->problem.in_place || ref.space == GCOLL_IN))
        return gcoll_ref_add(w->image, ref.offset);
    return ref.space == GCOLL_IN ? gcoll_in(0, ref.offset) : gcoll_out(0, ref.offset);
}

/* Whether the steps work on scratch in the place of the larger buffer, or of IN. Of a broadcast, only the
 * root has an input. */
static bool needs_image(const gcoll_problem *p, const tool_plan_draft *draft) {
    if (draft->problem.in_place)
        return output_is_smaller(p);
    return p->in_place && (p->collective != GCOLL_BROADCAST || p->rank == p->root);
}

/* Steps that are added before the draft's own. */
static uint32_t count_added(const gcoll_problem *p, const tool_plan_draft *draft) {
    return needs_image(p, draft) || (draft->problem.in_place && !p->in_place);
}

static void add_first(writing *w) {
    const gcoll_problem *p = w->problem;
    const uint64_t count = gcoll_problem_in_count(p);
    w->has_image = needs_image(p, w->draft);
    w->added = count_added(p, w->draft);
    if (w->added == 0)
        return;
    if (w->has_image)
        w->image = gcoll_plan_scratch(w->b, count);
    gcoll_plan_after(w->b, NULL, 0);
    gcoll_plan_copy(w->b, w->has_image ? w->image : gcoll_out(0, gcoll_problem_in_shift(&w->draft->problem)),
                    gcoll_in(0, 0), count);
}

/* If all was done on scratch, the output is copied from there. */
static void add_last(writing *w) {
    const gcoll_problem *p = w->problem;
    if (!w->has_image || !w->draft->problem.in_place)
        return;
    for (uint32_t i = 0; i < w->draft->step_count + w->added; i++)
        w->after[i] = i;
    gcoll_plan_after(w->b, w->after, w->draft->step_count + w->added);
    gcoll_plan_copy(w->b, gcoll_out(0, 0),
                    gcoll_ref_add(w->image, gcoll_problem_out_shift(&w->draft->problem)),
                    gcoll_problem_out_count(p));
}

static void add_step(const writing *w, const gcoll_step *s) {
    gcoll_builder *b = w->b;
    const gcoll_ref dst = place(w, s->dst), a = place(w, s->a);
    switch ((gcoll_step_kind)s->kind) {
    case GCOLL_STEP_SEND:
        gcoll_plan_send(b, s->peer, a, s->count);
        break;
    case GCOLL_STEP_RECV:
        gcoll_plan_recv(b, s->peer, dst, s->count);
        break;
    case GCOLL_STEP_RECV_REDUCE:
        if (s->received_first)
            gcoll_plan_recv_reduce_left(b, s->peer, dst, a, s->count);
        else
            gcoll_plan_recv_reduce(b, s->peer, dst, a, s->count);
        break;
    case GCOLL_STEP_REDUCE:
        gcoll_plan_reduce(b, dst, a, place(w, s->b), s->count);
        break;
    case GCOLL_STEP_COPY:
        gcoll_plan_copy(b, dst, a, s->count);
        break;
    default: /* check_draft refuses others */
        gcoll_plan_refuse(b, GCOLL_ERR_INTERNAL, "plan file: a step that no planner writes");
    }
}

static void write_plan(const gcoll_problem *problem, gcoll_builder *b) {
    const sized_plan *sized = find(the_plan, problem->count);
    if (!sized) { /* plan_applies refuses it */
        gcoll_plan_refuse(b, GCOLL_ERR_INTERNAL, "plan file: no plan for %llu elements",
                          (unsigned long long)problem->count);
        return;
    }
    writing w = {.problem = problem, .b = b, .draft = &sized->file.drafts[problem->rank]};
    w.after = malloc(((size_t)w.draft->step_count + w.draft->after_room + 2) * sizeof *w.after);
    if (!w.after) {
        gcoll_plan_refuse(b, GCOLL_ERR_NO_MEMORY, "plan file: out of memory");
        return;
    }
    gcoll_plan_window(b, w.draft->window);
    w.scratch = gcoll_plan_scratch(b, w.draft->scratch);
    add_first(&w);
    for (uint32_t i = 0; i < w.draft->step_count; i++) {
        const uint32_t begin = i ? w.draft->after_end[i - 1] : 0, count = w.draft->after_end[i] - begin;
        for (uint32_t k = 0; k < count; k++)
            w.after[k] = w.draft->after[begin + k] + w.added;
        if (w.added > 0)
            w.after[count] = 0;
        gcoll_plan_round_at_least(b, w.draft->steps[i].round);
        gcoll_plan_after(b, w.after, count + w.added);
        add_step(&w, &w.draft->steps[i]);
    }
    add_last(&w);
    free(w.after);
}

/* Says what the algorithm claims: nothing. The verifier has proved the result. */
static uint32_t plan_claims(const gcoll_problem *p) {
    return gcoll_trivial_claims(p);
}

/* A plan has no formula, and auto is not asked. */
static void plan_cost(const gcoll_problem *p, gcoll_cost *cost) {
    *cost = (gcoll_cost){.steps = 2.0 * p->size, .sent = 2.0 * (double)p->count, .reduced = (double)p->count};
}

static gcoll_status plan_applies(const gcoll_problem *p) {
    const sized_plan *sized = find(the_plan, p->count);
    if (!sized || sized->file.size != p->size)
        return gcoll_unsupported("plan file: has no plan for %llu elements by %u ranks",
                                 (unsigned long long)p->count, p->size);
    if (p->root != sized->file.drafts[0].problem.root)
        return gcoll_unsupported("plan file: its root is %u", sized->file.drafts[0].problem.root);
    return GCOLL_OK;
}

/* ---- Reading ---------------------------------------------------------------------------------------------
 */

/* Refuses what a planner cannot say, or what the benchmark's calls do not do. */
static bool check_draft(const bench_options *o, uint32_t rank, const tool_plan_draft *d) {
    const gcoll_problem *p = &d->problem;
    const char *what = p->buffers != 1                 ? "several buffers"
                       : p->in_memory || p->out_memory ? "memory of devices"
                       : p->average                    ? "an average, which --op avg makes of any sum"
                                                       : NULL;
    for (uint32_t i = 0; i < d->step_count && !what; i++)
        if (d->steps[i].kind > GCOLL_STEP_COPY)
            what = gcoll_step_kind_name(d->steps[i].kind);
    for (uint32_t r = 0; r <= p->size && !what; r++)
        if (p->offsets && p->offsets[r] != gcoll_chunk_begin(p->count, p->size, r))
            what = "blocks that are not even";
    if (p->recv_offsets && !what)
        what = "'recv_offsets'";
    if (what)
        cli_complain("--plan: plan file '%s': rank %" PRIu32 ": has %s; allowed to be run are plans without",
                     o->plan, rank, what);
    return !what;
}

/* A call of the benchmark, in place or not. */
static gcoll_problem problem_of(const sized_plan *sized, uint32_t rank, bool in_place) {
    const gcoll_problem *said = &sized->file.drafts[rank].problem;
    const gcoll_traits traits = gcoll_collective_traits(said->collective);
    return (gcoll_problem){.collective = said->collective,
                           .rank = rank,
                           .size = sized->file.size,
                           .root = said->root,
                           .exchanges = said->exchanges,
                           .buffers = 1,
                           .in_place = in_place && traits.takes_in_place &&
                                       (!traits.in_place_at_root || rank == said->root),
                           .count = sized->count};
}

/* Says what the verifier found, with the line of the step that it names. */
static void say_wrong(const bench_options *o, const sized_plan *sized, bool in_place) {
    const tool_plan_file *file = &sized->file;
    uint32_t rank, step;
    if (file->lines && sscanf(gcoll_last_error(), "rank %u, step %u", &rank, &step) == 2 &&
        rank < file->size) {
        const gcoll_problem problem = problem_of(sized, rank, in_place);
        const uint32_t added = count_added(&problem, &file->drafts[rank]);
        if (step >= added && step - added < file->drafts[rank].step_count) {
            cli_complain("--plan: plan file '%s': line %" PRIu32 ": %s", o->plan,
                         file->lines[rank][step - added], gcoll_last_error());
            return;
        }
    }
    cli_complain("--plan: plan file '%s': %s", o->plan, gcoll_last_error());
}

/* Proves the plans of all ranks, as they are run. */
static bool prove(const bench_options *o, const sized_plan *sized, bool in_place) {
    const uint32_t size = sized->file.size;
    gcoll_plan **plans = calloc(size, sizeof(gcoll_plan *));
    gcoll_verify_report report;
    gcoll_status status = GCOLL_OK;
    if (!plans) {
        cli_complain("--plan: out of memory");
        return false;
    }
    for (uint32_t rank = 0; rank < size && status == GCOLL_OK; rank++) {
        const gcoll_problem problem = problem_of(sized, rank, in_place);
        status = gcoll_plan_create(&the_plan->algorithm, &problem, &plans[rank]);
    }
    if (status == GCOLL_OK)
        status = gcoll_verify((const gcoll_plan *const *)plans, size, &report);
    if (status != GCOLL_OK)
        say_wrong(o, sized, in_place);
    for (uint32_t rank = 0; rank < size; rank++)
        gcoll_plan_destroy(plans[rank]);
    free(plans);
    return status == GCOLL_OK;
}

/* Reads the plans for so many elements, or, if that is NULL, for as many as the file says or for one a
 * chunk. */
static bool read_size(const bench_options *o, const uint64_t *elements, sized_plan *to) {
    if (!tool_plan_file_drafts("--plan", o->plan, elements, &to->file))
        return false;
    to->count = to->file.drafts[0].problem.count;
    for (uint32_t rank = 0; rank < to->file.size; rank++)
        if (!check_draft(o, rank, &to->file.drafts[rank]))
            return false;
    return true;
}

/* Refuses flags that the file answers, or that are for something else. */
static bool check_flags(const bench_options *o) {
    const struct {
        const char *flag;
        bool given;
        const char *allowed;
    } others[] = {{"--collective", o->collective != NULL, NULL},
                  {"--algorithm", o->algorithm != NULL, NULL},
                  {"--root", o->root > 0, NULL},
                  {"--exchanges", o->exchanges > 0, NULL},
                  {"--inputs", o->inputs > 1, NULL},
                  {"--device", o->on_device, NULL},
                  {"--codec", o->codec != NULL, NULL},
                  {"--order", o->order > GCOLL_ORDER_ANY, "any"},
                  {"--same", o->same >= 0 && o->same != GCOLL_SAME_NOWHERE, "nowhere"},
                  {"--tune", o->tune != NULL, NULL},
                  {"--tune-check", o->tune_check, NULL},
                  {"--network-out", o->network_out != NULL, NULL}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i].given) {
            cli_complain("%s: found with --plan, whose file says what is run; allowed is %s%sto leave it out",
                         others[i].flag, others[i].allowed ? others[i].allowed : "",
                         others[i].allowed ? ", or " : "");
            return false;
        }
    return true;
}

/* A file of plans for one number of elements has no other sizes. */
static bool set_only_size(bench_options *o, uint64_t bytes) {
    char text[32];
    if (o->sizes.count > 1 || (o->sizes.count == 1 && o->sizes.values[0] != bytes)) {
        cli_complain("--bytes: is %" PRIu64 "%s; allowed with --plan is %" PRIu64 ", for which '%s' is",
                     o->sizes.values[0], o->sizes.count > 1 ? ",..." : "", bytes, o->plan);
        return false;
    }
    snprintf(text, sizeof text, "%" PRIu64, bytes);
    return o->sizes.count == 1 || cli_parse_list("--plan", text, 0, UINT64_MAX, &o->sizes);
}

static bool set_sizes(bench_options *o, const sized_plan *first, bool is_open, size_t element) {
    if (!is_open)
        return set_only_size(o, first->count * element);
    const uint64_t least = first->count * element;
    char text[128];
    snprintf(text, sizeof text, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, least * usual_chunks[0],
             least * usual_chunks[1], least * usual_chunks[2], least * usual_chunks[3]);
    if (o->sizes.count == 0 && !cli_parse_list("--plan", text, 0, UINT64_MAX, &o->sizes))
        return false;
    for (size_t i = 0; i < o->sizes.count; i++)
        if (o->sizes.values[i] == 0 || o->sizes.values[i] % least != 0) {
            cli_complain("--bytes: is %" PRIu64 "; allowed with --plan are multiples of %" PRIu64
                         " bytes, an element in each of the %" PRIu64 " chunks of '%s'",
                         o->sizes.values[i], least, first->count, o->plan);
            return false;
        }
    return true;
}

/* Reads the plans of each size, and proves them for both kinds of calls. */
static bool read_sizes(bench_options *o, bench_plan *plan, bool is_open, size_t element) {
    plan->sizes = calloc(o->sizes.count, sizeof *plan->sizes);
    if (!plan->sizes) {
        cli_complain("--plan: out of memory");
        return false;
    }
    for (size_t i = 0; i < o->sizes.count; i++) {
        const uint64_t elements = o->sizes.values[i] / element;
        plan->size_count++;
        if (!read_size(o, is_open ? &elements : NULL, &plan->sizes[i]))
            return false;
        const bool own = plan->sizes[i].file.drafts[0].problem.in_place;
        if (!prove(o, &plan->sizes[i], own) || !prove(o, &plan->sizes[i], !own))
            return false;
    }
    return true;
}

bool bench_plan_read(bench_options *o) {
    const size_t element = gcoll_type_size(o->type);
    sized_plan first = {0};
    bool good = check_flags(o);
    bench_plan *plan = good ? calloc(1, sizeof *plan) : NULL;
    if (!good)
        return false;
    o->planned = plan;
    the_plan = plan;
    if (!plan) {
        cli_complain("out of memory");
        return false;
    }
    good = read_size(o, NULL, &first);
    if (good) {
        const gcoll_problem *p = &first.file.drafts[0].problem;
        plan->algorithm = (gcoll_algorithm){.name = "plan_file",
                                            .collective = p->collective,
                                            .summary = "the plans of a file",
                                            .source = o->plan,
                                            .plan = write_plan,
                                            .claims = plan_claims,
                                            .cost = plan_cost,
                                            .applies = plan_applies};
        o->collective = gcoll_collective_name(p->collective);
        o->algorithm = plan->algorithm.name;
        o->root = p->root;
        o->exchanges = p->exchanges;
        plan->ranks = first.file.size;
        good = set_sizes(o, &first, first.file.is_open, element) &&
               read_sizes(o, plan, first.file.is_open, element);
    }
    tool_plan_file_free(&first.file);
    return good;
}

uint32_t bench_plan_ranks(const bench_options *options) {
    return options->planned->ranks;
}

const gcoll_algorithm *bench_plan_algorithm(const bench_options *options) {
    return options->planned ? &options->planned->algorithm : NULL;
}

void bench_plan_free(bench_options *options) {
    bench_plan *plan = options->planned;
    for (size_t i = 0; plan && i < plan->size_count; i++)
        tool_plan_file_free(&plan->sizes[i].file);
    if (plan)
        free(plan->sizes);
    free(plan);
    options->planned = NULL;
    the_plan = NULL;
}
