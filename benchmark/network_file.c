/* benchmark/network_file.c - writes what was measured of each pair of ranks as a network file. */
#include "benchmark/network_file.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "benchmark/replace.h"

static bool complain(const char *path) {
    cli_complain("--network-out: %s: %s", path, strerror(errno));
    return false;
}

static void write_text(FILE *file, const char *text) {
    struct json_object *object = json_object_new_string(text);
    (void)fputs(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN), file);
    json_object_put(object);
}

static void write_hosts(FILE *file, const bench_network *n) {
    const char *separator = "";
    (void)fputs("  \"hosts\": [", file);
    for (uint32_t r = 0; r < n->ranks; r++) {
        bool is_known = false;
        for (uint32_t other = 0; other < r && !is_known; other++)
            is_known = strcmp(n->names[other], n->names[r]) == 0;
        if (is_known)
            continue;
        (void)fprintf(file, "%s\n    {\"name\": ", separator);
        write_text(file, n->names[r]);
        (void)fprintf(file, ", \"ranks\": [%u", r);
        for (uint32_t other = r + 1; other < n->ranks; other++)
            if (strcmp(n->names[other], n->names[r]) == 0)
                (void)fprintf(file, ", %u", other);
        (void)fputs("]}", file);
        separator = ",";
    }
    (void)fputs("\n  ],\n", file);
}

static void write_matrix(FILE *file, const char *name, const double *numbers, uint32_t size,
                         const char *end) {
    (void)fprintf(file, "    \"%s\": [", name);
    for (uint32_t i = 0; i < size; i++) {
        (void)fprintf(file, "%s\n      [", i > 0 ? "," : "");
        for (uint32_t k = 0; k < size; k++)
            (void)fprintf(file, "%s%.4g", k > 0 ? ", " : "", numbers[(size_t)i * size + k]);
        (void)fputc(']', file);
    }
    (void)fprintf(file, "\n    ]%s\n", end);
}

bool bench_network_write(const bench_options *options, const bench_network *n) {
    bench_replacement made;
    char about[256];
    if (!bench_replace_begin(options->network_out, &made))
        return complain(options->network_out);
    FILE *file = made.file;
    (void)snprintf(about, sizeof about, "measured by gcoll_bench %s over %s", gcoll_version(),
                   options->transport);
    (void)fputs("{\n  \"gcoll_network\": 1,\n  \"about\": ", file);
    write_text(file, about);
    (void)fputs(",\n", file);
    write_hosts(file, n);
    (void)fputs("  \"matrix\": {\n    \"of\": \"ranks\",\n", file);
    write_matrix(file, "delay_us", n->delay_us, n->ranks, ",");
    write_matrix(file, "ns_per_byte", n->ns_per_byte, n->ranks, "");
    (void)fputs("  }\n}\n", file);
    return bench_replace_end(&made, true) || complain(options->network_out);
}
