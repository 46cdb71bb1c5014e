/* tools/show.c - what a rank does, in words, or what all do as a file of plans. */
#include "tools/commands.h"
#include "tools/job.h"
#include "tools/output.h"
#include "tools/plan_file.h"
#include "tools/words.h"

static void print_ranks(const tool_options *o, const tool_job *job, FILE *file) {
    for (uint32_t r = 0; r < job->size; r++)
        if (o->rank < 0 || o->rank == (int64_t)r)
            gcoll_plan_print(job->plans[r], file);
}

/* Whether --rank is one of so many, and fits --format. */
static bool check_rank(const tool_options *o, uint32_t size) {
    if (o->rank >= (int64_t)size)
        cli_complain("--rank: is %lld; allowed with %u rank%s is 0 to %u, all", (long long)o->rank, size,
                     tool_plural(size), size - 1);
    else if (o->format == TOOL_JSON && o->rank_given && o->rank >= 0)
        cli_complain("--rank: is %lld; allowed with --format json is all", (long long)o->rank);
    else
        return true;
    return false;
}

static int print_job(const tool_options *o, const char *name, const tool_job *job) {
    FILE *file = tool_open_output(o);
    bool good = file;
    if (file && o->format == TOOL_JSON) {
        good = tool_plan_file_write(file, name, (const gcoll_plan *const *)job->plans, job->size);
        if (!good)
            cli_complain("out of memory for the plans of %u ranks", job->size);
    } else if (file) {
        fprintf(file, "%s\n", name);
        print_ranks(o, job, file);
    }
    if (file && !tool_close_output(o, file))
        good = false;
    return good ? TOOL_OK : TOOL_FAILED;
}

static int show_file(const tool_options *o) {
    tool_plan_file file;
    int status = CLI_USAGE;
    const uint64_t *count = o->count.count ? &o->count.values[0] : NULL;
    if (!tool_plan_file_read("--plan", o->plan, count, &file))
        return CLI_USAGE;
    if (check_rank(o, file.size))
        status = print_job(o, file.name, &(tool_job){file.size, file.plans});
    tool_plan_file_free(&file);
    return status;
}

int tool_show(const tool_options *options) {
    tool_shape shape;
    tool_job job;
    char text[256];
    int status = TOOL_FAILED;
    if ((!options->plan && options->ranks.count != 1) || options->count.count > 1) {
        cli_complain("show takes one number of --ranks and one of --count");
        return CLI_USAGE;
    }
    if (options->plan)
        return show_file(options);
    uint32_t size = (uint32_t)options->ranks.values[0];
    if (!check_rank(options, size))
        return CLI_USAGE;
    uint64_t count = options->count.count ? options->count.values[0] : size;
    if (!tool_shape_of(options, options->algorithm, size, count, &shape))
        return CLI_USAGE;
    if (tool_job_of(&shape, &job)) {
        gcoll_choice_format(&shape.choice, text, sizeof text);
        status = print_job(options, text, &job);
        tool_job_free(&job);
    }
    tool_shape_free(&shape);
    return status;
}
