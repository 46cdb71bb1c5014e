/*
 * benchmark/page.c - results as one page of HTML: a section for each kind of call, with pictures and a table.
 *
 * Rows are the objects of --format json, whatever members they have: members that tell kinds of calls apart
 * are the heading of a section, all others are columns of its table, in their order and with their digits.
 */
#include "benchmark/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "benchmark/plots.h"
#include "tools/html.h"

/* The members that tell kinds of calls apart. */
static const char *const kinds[] = {
    "collective", "ranks",      "transport", "inputs", "type",     "op",    "device",   "local_reduction",
    "arrival",    "compute_ms", "monitor",   "with",   "checksum", "codec", "prescale", "postscale"};
#define KINDS (sizeof kinds / sizeof kinds[0])

/* So many pictures of percentiles are shown at once; more are behind a click. */
#define OPEN_PERCENTILES 6u

static const char style[] =
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 14px;margin:0;font-size:14px}"
    "dt{color:var(--faint)}dd{margin:0;overflow-wrap:anywhere}"
    ".table{overflow-x:auto;margin:14px 0 0}table{border-collapse:collapse;font-size:13px;"
    "font-variant-numeric:tabular-nums}"
    "th,td{padding:3px 10px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--line)}"
    "th{color:var(--faint);font-weight:600;vertical-align:bottom}"
    "th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:var(--card)}"
    ".wrong{color:var(--bad);font-weight:700}details{margin:14px 0 0}summary{cursor:pointer}"
    "@media(max-width:600px){dl{grid-template-columns:1fr}dd{margin:0 0 6px}"
    "td:first-child{max-width:40vw;white-space:normal;overflow-wrap:anywhere}}";

static const char *text_of(struct json_object *row, const char *key) {
    struct json_object *value = json_object_object_get(row, key);
    return value ? json_object_get_string(value) : "";
}

static const char *line_of(struct json_object *row) {
    const char *line = text_of(row, "line");
    return line[0] != '\0' ? line : text_of(row, "algorithm");
}

static double number_of(struct json_object *row, const char *key) {
    struct json_object *value = json_object_object_get(row, key);
    return value ? json_object_get_double(value) : -1;
}

const char *bench_page_refuses(struct json_object *row) {
    static const char *const texts[] = {"collective", "algorithm"}, *const numbers[] = {"ranks", "p50_us"};
    if (!json_object_is_type(row, json_type_object))
        return "is no object";
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!json_object_is_type(json_object_object_get(row, texts[i]), json_type_string))
            return i == 0 ? "has no text \"collective\"" : "has no text \"algorithm\"";
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct json_object *value = json_object_object_get(row, numbers[i]);
        if (!(json_object_is_type(value, json_type_int) || json_object_is_type(value, json_type_double)) ||
            !(json_object_get_double(value) >= 0 && isfinite(json_object_get_double(value))))
            return i == 0 ? "has no number \"ranks\" of at least 0"
                          : "has no number \"p50_us\" of at least 0";
    }
    json_object_object_foreach(row, key, value) {
        if (json_object_is_type(value, json_type_object) || json_object_is_type(value, json_type_array))
            return "has a member that is an object or an array";
        (void)key;
    }
    return NULL;
}

static bool is_kind(const char *key) {
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(kinds[i], key) == 0)
            return true;
    return false;
}

static bool same_kind(struct json_object *a, struct json_object *b) {
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(text_of(a, kinds[i]), text_of(b, kinds[i])) != 0)
            return false;
    return true;
}

/* ---- A section ---------------------------------------------------------------------------------------- */

/* Rows of one kind, in their order. */
typedef struct group {
    struct json_object **rows;
    size_t count;
    bench_line *lines; /* one for each algorithm, in the order of the rows */
    size_t line_count;
} group;

static int smaller_first(const void *a, const void *b) {
    const double x = ((const bench_point *)a)->bytes, y = ((const bench_point *)b)->bytes;
    return (x > y) - (x < y);
}

/* A barrier has no bytes, and no bandwidth. */
static void add_point(bench_line *line, struct json_object *row) {
    const double bytes = number_of(row, "bytes");
    line->points[line->count++] = (bench_point){.bytes = bytes > 0 ? bytes : 0,
                                                .min = number_of(row, "min_us"),
                                                .p50 = number_of(row, "p50_us"),
                                                .p95 = number_of(row, "p95_us"),
                                                .p99 = number_of(row, "p99_us"),
                                                .max = number_of(row, "max_us"),
                                                .busbw = number_of(row, "busbw_GBps")};
}

static bool has_size(const bench_line *line, struct json_object *row) {
    const double bytes = number_of(row, "bytes");
    for (size_t k = 0; k < line->count; k++)
        if (line->points[k].bytes == (bytes > 0 ? bytes : 0))
            return true;
    return false;
}

static void free_lines(group *g) {
    for (size_t i = 0; i < g->line_count; i++)
        free(g->lines[i].points);
    free(g->lines);
}

static bool find_lines(group *g) {
    g->lines = calloc(g->count, sizeof *g->lines);
    for (size_t r = 0; g->lines && r < g->count; r++) {
        const char *name = line_of(g->rows[r]);
        size_t i = 0; /* results of the same calls a second time are a line of their own */
        while (i < g->line_count &&
               (strcmp(g->lines[i].name, name) != 0 || has_size(&g->lines[i], g->rows[r])))
            i++;
        if (i == g->line_count) {
            g->lines[i] = (bench_line){.name = name, .points = calloc(g->count, sizeof(bench_point))};
            if (!g->lines[i].points)
                return false;
            g->line_count++;
        }
        add_point(&g->lines[i], g->rows[r]);
    }
    for (size_t i = 0; i < g->line_count; i++)
        qsort(g->lines[i].points, g->lines[i].count, sizeof(bench_point), smaller_first);
    return g->lines;
}

static void write_heading(FILE *f, struct json_object *row) {
    fputs("<section><h2>", f);
    html_text(f, text_of(row, "collective"));
    fprintf(f, ", %s rank%s", text_of(row, "ranks"), strcmp(text_of(row, "ranks"), "1") == 0 ? "" : "s");
    for (size_t i = 2; i < KINDS; i++) {
        const char *text = text_of(row, kinds[i]);
        if (text[0] == '\0' || (strcmp(kinds[i], "inputs") == 0 && strcmp(text, "1") == 0))
            continue;
        fputs(", ", f);
        if (i > 2 && strcmp(kinds[i], "type") != 0 && strcmp(kinds[i], "op") != 0)
            fprintf(f, "%s ", kinds[i]);
        html_text(f, text);
    }
    fputs("</h2>\n", f);
}

static void write_percentiles(FILE *f, const group *g) {
    fprintf(f,
            "<details%s><summary>Percentiles of each algorithm</summary><p>Line and dots: the median. Bands: "
            "from the smallest time to the 95th percentile, and to the largest time. Dotted: the 99th "
            "percentile.</p><div class=\"plots small\">\n",
            g->line_count <= OPEN_PERCENTILES ? " open" : "");
    for (size_t i = 0; i < g->line_count; i++) {
        fputs("<figure><figcaption>", f);
        html_text(f, g->lines[i].name);
        fputs("</figcaption>", f);
        bench_plot_percentiles(f, g->lines, g->line_count, i);
        fputs("</figure>\n", f);
    }
    fputs("</div></details>\n", f);
}

static void write_pictures(FILE *f, const group *g) {
    if (!bench_plots_has_curves(g->lines, g->line_count)) {
        fputs(
            "<div class=\"plots bars\"><figure><figcaption>Time of a call. Mark: the median. Bands: from the "
            "smallest time to the 95th percentile, and to the largest time.</figcaption>\n",
            f);
        bench_plot_bars(f, g->lines, g->line_count);
        fputs("</figure></div>\n", f);
        return;
    }
    fputs("<div class=\"plots\"><figure><figcaption>Median time of a call</figcaption>\n", f);
    bench_plot_times(f, g->lines, g->line_count);
    fputs("</figure><figure><figcaption>Bus bandwidth by the median</figcaption>\n", f);
    bench_plot_bandwidth(f, g->lines, g->line_count);
    fputs("</figure></div>\n", f);
    bench_plot_legend(f, g->lines, g->line_count);
    write_percentiles(f, g);
}

/* The unit stands in a column's name, as in p50_us. */
static void write_column(FILE *f, const char *key) {
    static const struct {
        const char *end, *unit;
    } units[] = {{"_us", "us"}, {"_GBps", "GB/s"}, {"_bytes", "bytes"}, {"_ms", "ms"}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        const size_t length = strlen(key), end = strlen(units[i].end);
        if (length > end && strcmp(key + length - end, units[i].end) == 0) {
            fprintf(f, "<th data-key=\"");
            html_text(f, key);
            fputs("\">", f);
            char name[80];
            (void)snprintf(name, sizeof name, "%.*s", (int)(length - end), key);
            html_text(f, name);
            fprintf(f, "<br>%s</th>", units[i].unit);
            return;
        }
    }
    fputs("<th data-key=\"", f);
    html_text(f, key);
    fputs("\">", f);
    html_text(f, key);
    fputs("</th>", f);
}

/* The members of rows in the order in which they come first, but for kinds, for the names of lines, and for
 * those that no row has. */
static bool find_columns(const group *g, struct json_object *columns) {
    bool names_differ = false;
    for (size_t r = 0; r < g->count; r++)
        names_differ = names_differ || strcmp(line_of(g->rows[r]), text_of(g->rows[r], "algorithm")) != 0;
    for (size_t r = 0; r < g->count; r++) {
        json_object_object_foreach(g->rows[r], key, value) {
            if (value && !is_kind(key) && strcmp(key, "line") != 0 &&
                (names_differ || strcmp(key, "algorithm") != 0) &&
                !json_object_object_get_ex(columns, key, NULL) &&
                json_object_object_add(columns, key, NULL) != 0)
                return false;
        }
    }
    return true;
}

static bool write_table(FILE *f, const group *g) {
    struct json_object *columns = json_object_new_object();
    const bool good = columns && find_columns(g, columns);
    if (good) {
        fputs("<div class=\"table\"><table><thead><tr>", f);
        fputs("<th data-key=\"line\">asked for</th>", f);
        json_object_object_foreach(columns, key, none) {
            (void)none;
            write_column(f, key);
        }
        fputs("</tr></thead><tbody>\n", f);
    }
    for (size_t r = 0; good && r < g->count; r++) {
        fputs("<tr><td>", f);
        html_text(f, line_of(g->rows[r]));
        fputs("</td>", f);
        json_object_object_foreach(columns, key, none) {
            const bool is_wrong = strcmp(key, "wrong") == 0 && number_of(g->rows[r], key) > 0;
            (void)none;
            fputs(is_wrong ? "<td class=\"wrong\">" : "<td>", f);
            html_text(f, text_of(g->rows[r], key));
            fputs("</td>", f);
        }
        fputs("</tr>\n", f);
    }
    if (good)
        fputs("</tbody></table></div></section>\n", f);
    json_object_put(columns);
    return good;
}

static bool write_group(FILE *f, group *g) {
    bool good = find_lines(g);
    if (good) {
        write_heading(f, g->rows[0]);
        write_pictures(f, g);
        good = write_table(f, g);
    }
    free_lines(g);
    return good;
}

/* ---- The page ----------------------------------------------------------------------------------------- */

static void write_about(FILE *f, struct json_object *about) {
    if (!about)
        return;
    fputs("<section><dl>\n", f);
    json_object_object_foreach(about, key, value) {
        if (strcmp(key, "title") == 0)
            continue;
        fputs("<dt>", f);
        html_text(f, key);
        fputs("</dt><dd>", f);
        html_text(f, value ? json_object_get_string(value) : "");
        fputs("</dd>\n", f);
    }
    fputs("</dl></section>\n", f);
}

static void write_verdict(FILE *f, struct json_object *rows) {
    const size_t count = json_object_array_length(rows);
    size_t checked = 0;
    double wrong = 0;
    for (size_t i = 0; i < count; i++) {
        const double here = number_of(json_object_array_get_idx(rows, i), "wrong");
        checked += here >= 0;
        wrong += here > 0 ? here : 0;
    }
    if (wrong > 0)
        fprintf(f, "<p class=\"wrong\">%.0f wrong elements</p>\n", wrong);
    else if (count > 0 && checked == count)
        fputs("<p>Every element of every result was right.</p>\n", f);
    else if (count > 0)
        fputs("<p>Results were not all checked.</p>\n", f);
    else
        fputs("<p>There are no results.</p>\n", f);
}

/* A section for each kind, in the order in which kinds come first. */
static bool write_groups(FILE *f, struct json_object *rows) {
    const size_t count = json_object_array_length(rows);
    bool *done = calloc(count + 1, sizeof *done);
    struct json_object **members = calloc(count + 1, sizeof(void *));
    bool good = done && members;
    for (size_t first = 0; good && first < count; first++) {
        group g = {.rows = members};
        for (size_t i = first; !done[first] && i < count; i++) {
            struct json_object *row = json_object_array_get_idx(rows, i);
            if (i == first || (!done[i] && same_kind(row, json_object_array_get_idx(rows, first))))
                members[g.count++] = row;
        }
        for (size_t i = first, k = 0; i < count && k < g.count; i++)
            if (json_object_array_get_idx(rows, i) == members[k]) {
                done[i] = true;
                k++;
            }
        good = g.count == 0 || write_group(f, &g);
    }
    free(members);
    free(done);
    return good;
}

bool bench_page_write(const bench_page *page, FILE *f) {
    const char *title = page->about ? text_of(page->about, "title") : "";
    title = title[0] != '\0' ? title : "gcoll_bench";
    char *head = malloc(sizeof style + strlen(bench_plots_style));
    if (!head)
        return false;
    memcpy(head, style, sizeof style);
    memcpy(head + sizeof style - 1, bench_plots_style, strlen(bench_plots_style) + 1);
    html_begin(f, title, head);
    free(head);
    fputs("<h1>", f);
    html_text(f, title);
    fputs("</h1>\n", f);
    write_verdict(f, page->rows);
    write_about(f, page->about);
    const bool good = write_groups(f, page->rows);
    fprintf(f, "<script>%s</script>\n", bench_plots_script);
    html_end(f);
    return good;
}
