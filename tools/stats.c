/* tools/stats.c - what plans cost, counted in the proved plans themselves. */
#include <inttypes.h>
#include <json-c/json.h>

#include "tools/commands.h"
#include "tools/job.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/words.h"

typedef struct record {
    const char *collective, *algorithm;
    uint32_t ranks;
    uint64_t count;
    gcoll_verify_report report;
    bool verified;
    bool staged; /* buffers lie in device memory */
} record;

static void print_json(FILE *file, const record *r) {
    struct json_object *object = json_object_new_object();
    const gcoll_verify_report *p = &r->report;
    bool identical = p->claims & GCOLL_CLAIM_RANK_IDENTICAL;
    json_object_object_add(object, "collective", json_object_new_string(r->collective));
    json_object_object_add(object, "algorithm", json_object_new_string(r->algorithm));
    json_object_object_add(object, "ranks", json_object_new_uint64(r->ranks));
    json_object_object_add(object, "count", json_object_new_uint64(r->count));
    json_object_object_add(object, "steps", json_object_new_uint64(p->steps));
    json_object_object_add(object, "sent_max", json_object_new_uint64(p->sent_max));
    json_object_object_add(object, "sent_total", json_object_new_uint64(p->sent_total));
    json_object_object_add(object, "reduced_max", json_object_new_uint64(p->reduced_max));
    json_object_object_add(object, "scratch_max", json_object_new_uint64(p->scratch_max));
    json_object_object_add(object, "messages_max", json_object_new_uint64(p->messages_max));
    if (r->staged) {
        json_object_object_add(object, "copied_in_max", json_object_new_uint64(p->copied_in_max));
        json_object_object_add(object, "copied_out_max", json_object_new_uint64(p->copied_out_max));
        json_object_object_add(object, "folded_max", json_object_new_uint64(p->folded_max));
    }
    json_object_object_add(object, "verified", json_object_new_boolean(r->verified));
    json_object_object_add(object, "rank_identical", json_object_new_boolean(r->verified && identical));
    fprintf(file, "%s\n", json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
    json_object_put(object);
}

static void print_row(FILE *file, const record *r) {
    const gcoll_verify_report *p = &r->report;
    bool identical = p->claims & GCOLL_CLAIM_RANK_IDENTICAL;
    fprintf(file,
            "%7u %11" PRIu64 " %6u %12" PRIu64 " %13" PRIu64 " %12" PRIu64 " %12" PRIu64 " %9" PRIu64
            "  %-8s %-14s %s\n",
            r->ranks, r->count, p->steps, p->sent_max, p->sent_total, p->reduced_max, p->scratch_max,
            p->messages_max, r->verified ? "yes" : "NO", r->verified && identical ? "yes" : "no",
            r->algorithm);
    if (r->staged)
        fprintf(file,
                "# copied to the host: %" PRIu64 ", from there: %" PRIu64 ", reduced by devices: %" PRIu64
                "\n",
                p->copied_in_max, p->copied_out_max, p->folded_max);
}

static void print_head(FILE *file, const char *collective) {
    fprintf(file, "# %s; in elements\n", collective);
    fprintf(file, "#%6s %11s %6s %12s %13s %12s %12s %9s  %-8s %-14s %s\n", "ranks", "count", "steps",
            "sent_max", "sent_total", "reduced_max", "scratch_max", "messages", "verified", "rank_identical",
            "algorithm");
}

/* Counts the costs of a case. A case that cannot be proved is printed, too, with its error on standard
 * error. */
static int measure(const tool_options *o, FILE *file, uint32_t size, uint64_t count, bool first) {
    tool_shape shape;
    tool_job job;
    char text[256], what[TOOL_TEXT];
    if (!tool_shape_of(o, o->algorithm, size, count, &shape))
        return CLI_USAGE;
    int status = TOOL_FAILED;
    if (tool_job_of(&shape, &job)) {
        gcoll_choice_format(&shape.choice, text, sizeof text);
        record r = {o->collective, text, size, shape.problem.count, {0}, false, false};
        r.staged = shape.problem.in_memory;
        r.verified = tool_job_verify(&job, &r.report) == GCOLL_OK;
        status = r.verified ? TOOL_OK : TOOL_FAILED;
        tool_shape_text(&shape, NULL, what);
        if (!r.verified)
            cli_complain("%s of %s: %s", text, what, gcoll_last_error());
        cli_progress_hide();
        if (o->format == TOOL_TABLE && first)
            print_head(file, o->collective);
        if (o->format == TOOL_JSON)
            print_json(file, &r);
        else
            print_row(file, &r);
        tool_job_free(&job);
    }
    tool_shape_free(&shape);
    return status;
}

int tool_stats(const tool_options *options) {
    FILE *file = tool_open_output(options);
    int status = file ? TOOL_OK : TOOL_FAILED;
    bool first = true;
    tool_grid_begin("stats", options, options->count.count);
    for (size_t i = 0; i < options->ranks.count && status != CLI_USAGE && file; i++)
        for (size_t k = 0; k < options->count.count || k == 0; k++) {
            uint32_t size = (uint32_t)options->ranks.values[i];
            uint64_t count = options->count.count ? options->count.values[k] : size;
            int one = measure(options, file, size, count, first);
            status = one != TOOL_OK ? one : status;
            first = false;
            cli_progress_add(tool_work_of(options->ranks.values[i]));
            if (one == CLI_USAGE)
                break;
        }
    cli_progress_end();
    if (file && !tool_close_output(options, file))
        status = TOOL_FAILED;
    return status;
}
