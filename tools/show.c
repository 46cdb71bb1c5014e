/* tools/show.c - what a rank does, in words. */
#include "tools/commands.h"
#include "tools/job.h"
#include "tools/output.h"
#include "tools/words.h"

static void print_ranks(const tool_options *o, const tool_job *job, FILE *file) {
    for (uint32_t r = 0; r < job->size; r++)
        if (o->rank < 0 || o->rank == (int64_t)r)
            gcoll_plan_print(job->plans[r], file);
}

int tool_show(const tool_options *options) {
    tool_shape shape;
    tool_job job;
    char text[256];
    int status = TOOL_FAILED;
    if (options->ranks.count != 1 || options->count.count > 1) {
        cli_complain("show takes one number of --ranks and one of --count");
        return CLI_USAGE;
    }
    uint32_t size = (uint32_t)options->ranks.values[0];
    if (options->rank >= (int64_t)size) {
        cli_complain("--rank: is %lld; allowed with %u rank%s is 0 to %u, all", (long long)options->rank,
                     size, tool_plural(size), size - 1);
        return CLI_USAGE;
    }
    uint64_t count = options->count.count ? options->count.values[0] : size;
    if (!tool_shape_of(options, options->algorithm, size, count, &shape))
        return CLI_USAGE;
    if (tool_job_of(&shape, &job)) {
        FILE *file = tool_open_output(options);
        gcoll_choice_format(&shape.choice, text, sizeof text);
        if (file) {
            fprintf(file, "%s\n", text);
            print_ranks(options, &job, file);
            status = tool_close_output(options, file) ? TOOL_OK : TOOL_FAILED;
        }
        tool_job_free(&job);
    }
    tool_shape_free(&shape);
    return status;
}
