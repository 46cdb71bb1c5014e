/* benchmark/main.c - gcoll_bench: times and checks the collective operations of gcoll. */
#include <errno.h>
#include <string.h>

#include "benchmark/buffers.h"
#include "benchmark/devices.h"
#include "benchmark/flags.h"
#include "benchmark/launch.h"
#include "benchmark/page_file.h"
#include "benchmark/replace.h"
#include "benchmark/run.h"
#include "benchmark/tune_file.h"

static int run(const bench_options *options, FILE *output) {
    if (options->local == 0)
        return bench_single_rank(options, output);
    return options->inproc ? bench_local_threads(options, output) : bench_local_processes(options, output);
}

/* Opened here, so that it fails before anything is started. Only rank 0 prints. */
static FILE *open_output(const bench_options *options) {
    if (!options->output || options->rank > 0)
        return stdout;
    FILE *output = fopen(options->output, "we");
    if (!output)
        cli_complain("--output: %s: %s", options->output, strerror(errno));
    return output;
}

int main(int argc, char **argv) {
    bench_options options;
    int status = BENCH_USAGE;
    if (bench_options_parse(&options, argc, argv)) {
        FILE *output = NULL;
        if (options.help) {
            bench_print_help(stdout);
            status = BENCH_OK;
        } else if (options.version) {
            (void)printf("gcoll_bench %s\n", gcoll_version());
            status = BENCH_OK;
        } else if (!(output = open_output(&options))) {
            status = BENCH_FAILED;
        } else if (options.list_devices) {
            status = bench_list_devices(output);
        } else if (!bench_devices_ready(&options)) {
            status = BENCH_FAILED;
        } else if (options.tune && options.rank <= 0 && !bench_tune_ready(options.tune)) {
            status = BENCH_FAILED;
        } else if (options.network_out && options.rank <= 0 &&
                   !bench_replace_ready("--network-out", options.network_out)) {
            status = BENCH_FAILED;
        } else if (options.report && options.rank <= 0 && !bench_replace_ready("--report", options.report)) {
            status = BENCH_FAILED;
        } else if (options.results) {
            status = bench_page_write_results(&options);
        } else {
            status = run(&options, output);
        }
        if (output && output != stdout && fclose(output) != 0 && status == BENCH_OK) {
            cli_complain("--output: %s: %s", options.output, strerror(errno));
            status = BENCH_FAILED;
        }
    } else {
        (void)fputs("gcoll_bench: try --help\n", stderr);
    }
    bench_options_free(&options);
    return status;
}
