/* tools/verify.c - proves algorithms over a grid of shapes, and checks what they claim. */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/output.h"
#include "tools/plan_file.h"
#include "tools/progress.h"
#include "tools/verify.h"
#include "tools/words.h"

/* Units are (target, number of ranks), the targets in order, of one target the most ranks first. */
typedef struct grid {
    const tool_options *options;
    tool_targets targets;
    uint32_t *sizes; /* falling, no two alike */
    uint32_t size_count;
    tool_proof *proofs; /* by unit */
    uint32_t *missing;  /* by target: units that are not done */
    size_t printed;     /* targets */
    uint64_t proved, skipped;
    uint32_t failures;
    FILE *file;
} grid;

static void run_unit(void *arg, uint32_t unit) {
    grid *g = arg;
    tool_prove(g->options, &g->targets.at[unit / g->size_count], g->sizes[unit % g->size_count],
               &g->proofs[unit]);
}

/* The sum over all numbers of ranks; of failures, the one with the fewest ranks. */
static tool_proof sum_of(const grid *g, size_t target) {
    tool_proof sum = {.proved = 0};
    for (uint32_t i = g->size_count; i-- > 0;) {
        const tool_proof *p = &g->proofs[target * g->size_count + i];
        if (p->skipped > 0 && sum.skipped == 0)
            memcpy(sum.reason, p->reason, sizeof sum.reason);
        if (p->failed && !sum.failed)
            memcpy(sum.text, p->text, sizeof sum.text);
        sum.failed = sum.failed || p->failed;
        sum.proved += p->proved;
        sum.repeated += p->repeated;
        sum.skipped += p->skipped;
    }
    return sum;
}

static void print_json(FILE *file, const char *collective, const char *algorithm, const tool_proof *sum) {
    struct json_object *object = json_object_new_object();
    json_object_object_add(object, "collective", json_object_new_string(collective));
    json_object_object_add(object, "algorithm", json_object_new_string(algorithm));
    json_object_object_add(object, "verified", json_object_new_boolean(!sum->failed));
    json_object_object_add(object, "checked", json_object_new_uint64(sum->proved));
    json_object_object_add(object, "repeated", json_object_new_uint64(sum->repeated));
    json_object_object_add(object, "skipped", json_object_new_uint64(sum->skipped));
    json_object_object_add(object, "reason", sum->skipped ? json_object_new_string(sum->reason) : NULL);
    json_object_object_add(object, "error", sum->failed ? json_object_new_string(sum->text) : NULL);
    fprintf(file, "%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
    json_object_put(object);
}

static void print_proof(FILE *file, tool_format format, gcoll_collective collective, const char *name,
                        const tool_proof *sum) {
    if (format == TOOL_JSON) {
        print_json(file, gcoll_collective_name(collective), name, sum);
        return;
    }
    fprintf(file, "%-18s %-28s %8" PRIu64 " checked", gcoll_collective_name(collective), name, sum->proved);
    if (sum->skipped > 0)
        fprintf(file, ", %" PRIu64 " skipped (%s)", sum->skipped, sum->reason);
    fprintf(file, "%s%s\n", sum->failed ? ", FAILED: " : "", sum->failed ? sum->text : "");
    fflush(file);
}

static void print_target(grid *g, size_t target) {
    const gcoll_choice *choice = &g->targets.at[target].choice;
    tool_proof sum = sum_of(g, target);
    char name[256];
    gcoll_choice_format(choice, name, sizeof name);
    g->proved += sum.proved;
    g->skipped += sum.skipped;
    g->failures += sum.failed;
    cli_progress_hide();
    print_proof(g->file, g->options->format, choice->algorithm->collective, name, &sum);
}

static void unit_done(void *arg, uint32_t unit, int signal) {
    grid *g = arg;
    tool_proof *proof = &g->proofs[unit];
    if (signal != 0) {
        char doing[TOOL_TEXT];
        snprintf(doing, sizeof doing, "%.400s", proof->text);
        snprintf(proof->text, sizeof proof->text, "%s of %s: crashed: %s",
                 g->targets.at[unit / g->size_count].choice.algorithm->name, doing, strsignal(signal));
        proof->failed = true;
    }
    cli_progress_add(tool_work_of(g->sizes[unit % g->size_count]));
    g->missing[unit / g->size_count]--;
    while (g->printed < g->targets.count && g->missing[g->printed] == 0)
        print_target(g, g->printed++);
}

static int falling(const void *x, const void *y) {
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return (a < b) - (a > b);
}

static bool fill_sizes(grid *g) {
    const cli_list *ranks = &g->options->ranks;
    g->sizes = calloc(ranks->count, sizeof *g->sizes);
    for (size_t i = 0; g->sizes && i < ranks->count; i++)
        g->sizes[i] = (uint32_t)ranks->values[i];
    if (g->sizes)
        qsort(g->sizes, ranks->count, sizeof *g->sizes, falling);
    for (size_t i = 0; g->sizes && i < ranks->count; i++)
        if (g->size_count == 0 || g->sizes[i] != g->sizes[g->size_count - 1])
            g->sizes[g->size_count++] = g->sizes[i];
    return g->sizes;
}

static int verify_all(grid *g) {
    const size_t units = g->targets.count * g->size_count;
    const size_t bytes = units * sizeof *g->proofs;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t jobs = g->options->jobs ? g->options->jobs : processors > 0 ? (uint32_t)processors : 1;
    tool_work work = {(uint32_t)units, run_unit, unit_done, g};
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    g->missing = calloc(g->targets.count, sizeof *g->missing);
    if (memory == MAP_FAILED || !g->missing) {
        cli_complain("out of memory for %zu results", units);
        free(g->missing);
        return TOOL_FAILED;
    }
    g->proofs = memory;
    for (size_t t = 0; t < g->targets.count; t++)
        g->missing[t] = g->size_count;
    double work_of_target = 0;
    for (uint32_t i = 0; i < g->size_count; i++)
        work_of_target += tool_work_of(g->sizes[i]);
    cli_progress_begin("verify", work_of_target * (double)g->targets.count);
    bool good = tool_run_work(&work, jobs);
    cli_progress_end();
    if (good && g->options->format == TOOL_TABLE)
        fprintf(g->file,
                "%zu algorithm%s, %" PRIu64 " job%s checked, %" PRIu64 " skipped, %u algorithm%s failed\n",
                g->targets.count, tool_plural(g->targets.count), g->proved, tool_plural(g->proved),
                g->skipped, g->failures, tool_plural(g->failures));
    munmap(memory, bytes);
    free(g->missing);
    return good && g->failures == 0 ? TOOL_OK : TOOL_FAILED;
}

/* Proves the plans of a file, which hold for one number of elements; adds to *proof. */
static bool prove_file(const tool_options *o, const uint64_t *count, tool_plan_file *file,
                       tool_proof *proof) {
    if (!tool_plan_file_read("--plan", o->plan, count, file))
        return false;
    const gcoll_status status = tool_plan_file_verify(file, &(gcoll_verify_report){0});
    proof->proved += status == GCOLL_OK;
    if (status != GCOLL_OK && !proof->failed)
        snprintf(proof->text, sizeof proof->text, "%s of %u rank%s, %" PRIu64 " element%s: %s", o->plan,
                 file->size, tool_plural(file->size), file->plans[0]->problem.count,
                 tool_plural(file->plans[0]->problem.count), gcoll_last_error());
    proof->failed = proof->failed || status != GCOLL_OK;
    return true;
}

static int verify_file(const tool_options *o) {
    tool_proof proof = {.proved = 0};
    tool_plan_file file = {0};
    size_t i = 0;
    do {
        tool_plan_file_free(&file);
        if (!prove_file(o, o->count.count ? &o->count.values[i] : NULL, &file, &proof))
            return CLI_USAGE;
    } while (++i < o->count.count);
    FILE *to = tool_open_output(o);
    if (to)
        print_proof(to, o->format, file.plans[0]->problem.collective, file.name, &proof);
    tool_plan_file_free(&file);
    return to && tool_close_output(o, to) && !proof.failed ? TOOL_OK : TOOL_FAILED;
}

/* Whether the algorithms that were named build the tree of --order. Others are skipped where they do not. */
static bool trees_fit(const grid *g) {
    for (size_t t = 0; t < g->targets.count; t++)
        for (uint32_t i = g->size_count; g->targets.at[t].is_named && i-- > 0;)
            if (!tool_builds_tree(g->options, &g->targets.at[t], g->sizes[i])) {
                cli_complain("--%s", gcoll_last_error());
                return false;
            }
    return true;
}

int tool_verify(const tool_options *options) {
    grid g = {.options = options};
    if (options->plan)
        return verify_file(options);
    if (!fill_sizes(&g)) {
        cli_complain("out of memory");
        return TOOL_FAILED;
    }
    int status = CLI_USAGE;
    gcoll_collective named;
    const bool one = gcoll_collective_parse(options->collective, &named) == GCOLL_OK; /* else all */
    const uint32_t fewest = g.sizes[g.size_count - 1];
    if (one && !tool_flags_fit(options, named)) {
        status = CLI_USAGE;
    } else if (options->root_given && options->root >= fewest) {
        cli_complain("--root: is %u; allowed with %u rank%s is 0 to %u", options->root, fewest,
                     tool_plural(fewest), fewest - 1);
    } else if (tool_find_targets(options, &g.targets)) {
        const bool fits = trees_fit(&g);
        status = fits ? TOOL_FAILED : CLI_USAGE;
        g.file = fits ? tool_open_output(options) : NULL;
        if (g.file) {
            status = verify_all(&g);
            if (!tool_close_output(options, g.file))
                status = TOOL_FAILED;
        }
        free(g.targets.at);
    }
    free(g.sizes);
    return status;
}
