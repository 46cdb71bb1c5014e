/* benchmark/page_file.c - the file that --report writes, from a run or from results of earlier runs. */
#include "benchmark/page_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "benchmark/host.h"
#include "benchmark/page.h"
#include "benchmark/replace.h"

/* ---- What was asked for ------------------------------------------------------------------------------- */

/* Writes an argument as a shell would have it. A password in the URL of a store does not belong on a page. */
static void write_argument(FILE *f, const char *argument) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:,=+@%^[]";
    const char *scheme = strstr(argument, "://");
    const char *at = scheme ? strrchr(scheme, '@') : NULL;
    const size_t hidden_from = at ? (size_t)(scheme - argument) + 3 : 0;
    const size_t hidden_to = at ? (size_t)(at - argument) : 0;
    const bool quotes = argument[0] == '\0' || argument[strspn(argument, plain)] != '\0';
    if (quotes)
        fputc('\'', f);
    for (size_t i = 0; argument[i] != '\0'; i++) {
        if (at && i == hidden_from)
            fputs("...", f);
        if (i >= hidden_from && i < hidden_to)
            continue;
        if (argument[i] == '\'')
            fputs("'\\'", f);
        fputc(argument[i], f);
    }
    if (quotes)
        fputc('\'', f);
}

static bool add(struct json_object *about, const char *name, const char *text) {
    struct json_object *value = json_object_new_string(text);
    return value && json_object_object_add(about, name, value) == 0;
}

static bool add_command(struct json_object *about, const bench_options *o) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    if (!f)
        return false;
    fputs(cli_program, f);
    for (int i = 1; i < o->argc; i++) {
        fputc(' ', f);
        write_argument(f, o->argv[i]);
    }
    const bool good = fclose(f) == 0 && add(about, "command", text);
    free(text);
    return good;
}

/* ---- The file ----------------------------------------------------------------------------------------- */

static bool no_memory(void) {
    cli_complain("--report: out of memory");
    return false;
}

static bool write_file(const char *path, const bench_page *page) {
    bench_replacement made;
    if (!bench_replace_begin(path, &made)) {
        cli_complain("--report: %s: %s", path, strerror(errno));
        return false;
    }
    const bool whole = bench_page_write(page, made.file);
    const bool kept = bench_replace_end(&made, whole);
    if (!whole)
        return no_memory();
    if (!kept)
        cli_complain("--report: %s: %s", path, strerror(errno));
    return kept;
}

bool bench_page_write_run(const bench_options *options, struct json_object *rows) {
    char text[64];
    struct json_object *about = json_object_new_object();
    (void)snprintf(text, sizeof text, "%s %s", cli_program, gcoll_version());
    const bool good = about && add(about, "title", "Collective operations of gcoll") &&
                      add_command(about, options) && add(about, "program", text) &&
                      bench_host_describe(about);
    const bool written = good ? write_file(options->report, &(bench_page){about, rows}) : no_memory();
    json_object_put(about);
    return written;
}

/* ---- Results of earlier runs -------------------------------------------------------------------------- */

/* Takes a line: a result, or an object whose one member `about` has facts. NULL, or what is wrong with it. */
static const char *take_line(const char *line, bench_page *page) {
    struct json_tokener *tokener = json_tokener_new();
    if (!tokener)
        return "is more than memory can hold";
    struct json_object *object = json_tokener_parse_ex(tokener, line, (int)strlen(line) + 1), *about = NULL;
    const enum json_tokener_error error = json_tokener_get_error(tokener);
    const size_t end = json_tokener_get_parse_end(tokener);
    json_tokener_free(tokener);
    if (!object)
        return error == json_tokener_success    ? "is null"
               : error == json_tokener_continue ? "ends too early"
                                                : json_tokener_error_desc(error);
    const char *wrong = NULL;
    if (line[end + strspn(line + end, " \t\r\n")] != '\0') {
        wrong = "has text after its end";
    } else if (json_object_is_type(object, json_type_object) &&
               json_object_object_get_ex(object, "about", &about)) {
        if (!json_object_is_type(about, json_type_object))
            wrong = "has an \"about\" that is no object";
        else if (page->about)
            wrong = "is the second one with \"about\"";
        else
            page->about = json_object_get(about);
    } else {
        wrong = bench_page_refuses(object);
        if (!wrong && json_object_array_add(page->rows, json_object_get(object)) != 0)
            wrong = "is more than memory can hold";
    }
    json_object_put(object);
    return wrong;
}

/* Whether both are there, as one file. */
static bool is_one_file(const char *one, const char *other) {
    struct stat a, b;
    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static bool read_results(const char *path, bench_page *page) {
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0, number = 0;
    bool good = file;
    while (good && getline(&line, &room, file) >= 0) {
        number++;
        if (line[strspn(line, " \t\r\n")] == '\0')
            continue;
        const char *wrong = take_line(line, page);
        if (wrong) {
            cli_complain("--results: %s: line %zu %s; allowed are lines that --format json prints", path,
                         number, wrong);
            good = false;
        }
    }
    if (!file || ferror(file)) {
        cli_complain("--results: %s: %s", path, strerror(errno));
        good = false;
    } else if (good && json_object_array_length(page->rows) == 0) {
        cli_complain("--results: %s: has no line; allowed are lines that --format json prints", path);
        good = false;
    }
    if (file)
        (void)fclose(file);
    free(line);
    return good;
}

int bench_page_write_results(const bench_options *options) {
    if (is_one_file(options->results, options->report)) {
        cli_complain("--report: is '%s', the file that --results reads; allowed is another one",
                     options->report);
        return BENCH_USAGE;
    }
    bench_page page = {.rows = json_object_new_array()};
    const bool good =
        page.rows ? read_results(options->results, &page) && write_file(options->report, &page) : no_memory();
    json_object_put(page.about);
    json_object_put(page.rows);
    return good ? BENCH_OK : BENCH_FAILED;
}
