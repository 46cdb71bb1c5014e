/*
 * tools/trace/page.c - a picture of the last operations (SVG), and a page that has it and the tables (HTML).
 * Both need no other file.
 *
 * A rank that hangs does so for seconds, where operations take microseconds. So the time axis has two scales:
 * up to the moment at which the last operation that is done had ended, and from there to the end.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/html.h"
#include "tools/trace/trace.h"

#define WINDOW     40   /* operations that are shown, of the rank that has most */
#define LANES_MOST 256  /* ranks */
#define WIDTH      1200 /* of the picture */
#define LEFT       90
#define RIGHT      190
#define TOP        34
#define LANE       22
#define BAR        14
#define HANG_PART  0.25 /* of the axis, for what hangs */
#define LEAST_BAR  0.8

typedef struct axis {
    int64_t begin, split, end; /* split == end: one scale */
    uint64_t first;            /* operation */
} axis;

static double place(const axis *a, int64_t time) {
    const double width = WIDTH - LEFT - RIGHT, near = a->split < a->end ? width * (1 - HANG_PART) : width;
    if (time <= a->begin)
        return LEFT;
    if (time <= a->split)
        return LEFT + near * ((double)(time - a->begin) / (double)(a->split - a->begin));
    if (time >= a->end)
        return LEFT + width;
    return LEFT + near + (width - near) * ((double)(time - a->split) / (double)(a->end - a->split));
}

static axis find_axis(const trace_job *job) {
    axis a = {INT64_MAX, INT64_MIN, INT64_MIN, 0};
    uint64_t last = 0;
    for (uint32_t i = 0; i < job->count; i++)
        if (job->ranks[i].count > 0 && job->ranks[i].operations[job->ranks[i].count - 1].number > last)
            last = job->ranks[i].operations[job->ranks[i].count - 1].number;
    a.first = last > WINDOW ? last - WINDOW + 1 : 1;
    for (uint32_t i = 0; i < job->count; i++)
        for (size_t k = 0; k < job->ranks[i].count; k++) {
            const trace_operation *o = &job->ranks[i].operations[k];
            if (o->number < a.first)
                continue;
            a.begin = o->entered < a.begin ? o->entered : a.begin;
            a.end = o->ended > a.end ? o->ended : a.end;
            const int64_t known = o->state == TRACE_DONE ? o->ended : o->begun;
            a.split = known > a.split ? known : a.split;
        }
    if (a.begin > a.end)
        return (axis){0, 1, 1, a.first};
    a.end = a.end > a.begin ? a.end : a.begin + 1;
    a.split = a.split > a.begin ? a.split : a.begin + 1;
    if ((double)(a.end - a.split) < 0.5 * (double)(a.split - a.begin)) /* one scale shows both */
        a.split = a.end;
    return a;
}

static size_t colour_of(const char *collective) {
    size_t sum = 0;
    static const char *const known[] = {"allreduce", "broadcast",      "barrier",
                                        "allgather", "reduce_scatter", "alltoall"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i], collective) == 0)
            return i;
    for (; *collective; collective++)
        sum = sum * 31 + (unsigned char)*collective;
    return sum % HTML_COLOURS;
}

/* ---- The picture ----------------------------------------------------------------------------------------
 */

static void draw_axis(const axis *a, double bottom, FILE *file) {
    char said[32];
    const int64_t span = a->split - a->begin;
    for (int i = 0; i <= 4; i++) {
        const int64_t time = a->begin + (int64_t)((double)span * i / 4);
        const double x = place(a, time);
        trace_say_time(time - a->begin, said);
        fprintf(file, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%.1f\"/>", x, x, TOP - 6,
                bottom);
        fprintf(file, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s%s</text>\n", x,
                TOP - 12, i > 0 ? "+" : "", i > 0 ? said : "0");
    }
    if (a->split == a->end)
        return;
    trace_say_time(a->end - a->split, said);
    fprintf(file, "<line class=\"split\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%.1f\"/>", place(a, a->split),
            place(a, a->split), TOP - 6, bottom);
    fprintf(file, "<text class=\"tick\" x=\"%.1f\" y=\"%d\" text-anchor=\"end\">%s later</text>\n",
            place(a, a->end), TOP - 12, said);
}

static void draw_operation(const axis *a, const trace_operation *o, uint32_t rank, double top, FILE *file) {
    static const char *const classes[] = {"runs", "done", "failed"}, *const words[] = {"in flight for",
                                                                                       "took",
                                                                                       "failed after"};
    char call[200], took[32], model[32];
    const double from = place(a, o->entered), to = place(a, o->ended);
    trace_say_call(o, call, sizeof call);
    trace_say_time(o->ended - o->entered, took);
    fprintf(file,
            "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"%s\"><title>rank "
            "%" PRIu32 ", operation %" PRIu64 ": ",
            classes[o->state], from, top, to - from > LEAST_BAR ? to - from : LEAST_BAR, BAR,
            html_colours[colour_of(o->collective)], rank, o->number);
    html_text(file, call);
    fprintf(file, "; %s %s", words[o->state], took);
    if (o->predicted >= 0) {
        trace_say_time(o->predicted, model);
        fprintf(file, "; the model says %s", model);
    }
    fputs("</title></rect>", file);
}

static void draw_rank(const axis *a, const trace_rank *rank, double top, FILE *file) {
    fprintf(file, "<text class=\"rank\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">rank %" PRIu32 "</text>",
            LEFT - 10, top + BAR - 2.5, rank->rank);
    for (size_t k = 0; k < rank->count; k++)
        if (rank->operations[k].number >= a->first)
            draw_operation(a, &rank->operations[k], rank->rank, top, file);
    if (rank->waits) {
        fprintf(file, "<text class=\"wait\" x=\"%d\" y=\"%.1f\">waits for", WIDTH - RIGHT + 10,
                top + BAR - 2.5);
        for (int i = 0; i < TRACE_PEERS && rank->waits_peer[i] != TRACE_NONE; i++)
            fprintf(file, "%s %" PRIu32, i > 0 ? "," : "", rank->waits_peer[i]);
        fprintf(file, "%s</text>", rank->waits_for_more ? ", ..." : "");
    }
    fputc('\n', file);
}

/* A rank without a dump. */
static void draw_absent(uint32_t rank, double top, FILE *file) {
    fprintf(file,
            "<text class=\"rank\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">rank %" PRIu32
            "</text><text class=\"wait\" x=\"%d\" y=\"%.1f\">no dump</text>\n",
            LEFT - 10, top + BAR - 2.5, rank, LEFT + 6, top + BAR - 2.5);
}

static void draw_legend(const trace_job *job, const axis *a, double top, FILE *file) {
    bool seen[HTML_COLOURS] = {false};
    double x = LEFT;
    for (uint32_t i = 0; i < job->count; i++)
        for (size_t k = 0; k < job->ranks[i].count; k++) {
            const trace_operation *o = &job->ranks[i].operations[k];
            const size_t colour = colour_of(o->collective);
            if (o->number < a->first || seen[colour])
                continue;
            seen[colour] = true;
            fprintf(file,
                    "<rect x=\"%.0f\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/><text "
                    "class=\"tick\" x=\"%.0f\" y=\"%.1f\">",
                    x, top, html_colours[colour], x + 17, top + 10.5);
            html_text(file, o->collective);
            fputs("</text>", file);
            x += 34 + 7.5 * (double)strlen(o->collective);
        }
    fprintf(file,
            "<rect class=\"runs\" x=\"%.0f\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"#999\"/><text "
            "class=\"tick\" x=\"%.0f\" "
            "y=\"%.1f\">not done</text>\n",
            x, top, x + 17, top + 10.5);
}

static void draw(const trace_job *job, FILE *file) {
    const axis a = find_axis(job);
    const uint32_t lanes = job->size < LANES_MOST ? job->size : LANES_MOST;
    const double bottom = TOP + (double)lanes * LANE, height = bottom + 30;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" role=\"img\" "
            "aria-label=\"The last operations of each rank\">\n"
            "<style>text{font:12px system-ui,sans-serif;fill:#24292f}.tick{fill:#57606a;font-size:11px}"
            ".grid{stroke:#d0d7de}.split{stroke:#cf222e;stroke-dasharray:4 3}.wait{fill:#cf222e}"
            ".runs,.failed{stroke:#cf222e;stroke-width:1.5;fill-opacity:.45}.paper{fill:#fff}"
            "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.tick{fill:#9da7b3}.grid{stroke:#373e47}"
            ".paper{fill:#161b22}.wait{fill:#ff7b72}}</style>\n"
            "<rect class=\"paper\" width=\"%d\" height=\"%.0f\"/>\n",
            WIDTH, height, WIDTH, height);
    draw_axis(&a, bottom, file);
    for (uint32_t lane = 0; lane < lanes; lane++) {
        const trace_rank *rank = trace_rank_of(job, lane);
        const double top = TOP + (double)lane * LANE + (LANE - BAR) / 2.0;
        if (rank)
            draw_rank(&a, rank, top, file);
        else
            draw_absent(lane, top, file);
    }
    draw_legend(job, &a, bottom + 10, file);
    if (lanes < job->size)
        fprintf(file,
                "<text class=\"wait\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%" PRIu32
                " more ranks are not drawn</text>\n",
                WIDTH - 10, bottom + 20, job->size - lanes);
    fputs("</svg>\n", file);
}

/* ---- The page --------------------------------------------------------------------------------------- */

static const char style[] = "svg{min-width:760px}";

/* Writes the report's parts. Each begins with a line that is not indented, and an empty one behind it. */
static void write_sections(char *report, FILE *file) {
    bool is_open = false;
    size_t empty = 0; /* lines that are written if something follows in the same part */
    char *next = report;
    while (next && *next) {
        char *line = next;
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (line[0] != '\0' && line[0] != ' ' && next && next[0] == '\n') {
            fputs(is_open ? "</pre></section>\n<section><h2>" : "<section><h2>", file);
            html_text(file, line);
            fputs(strcmp(line, "Why it broke") == 0 ? "</h2><pre class=\"wrap\">" : "</h2><pre>", file);
            is_open = true;
            empty = 0;
            next++;
        } else if (line[0] == '\0') {
            empty++;
        } else if (is_open) {
            for (; empty > 0; empty--)
                fputc('\n', file);
            html_text(file, line);
            fputc('\n', file);
        }
    }
    if (is_open)
        fputs("</pre></section>\n", file);
}

bool trace_write_page(const trace_job *job, FILE *file) {
    char *report = NULL;
    size_t bytes = 0;
    FILE *text = open_memstream(&report, &bytes);
    if (!text)
        return false;
    trace_report(job, text);
    if (fclose(text) != 0) {
        free(report);
        return false;
    }
    html_begin(file, job->job, style);
    fputs("<h1>Job ", file);
    html_text(file, job->job);
    fprintf(file, "</h1><p>%" PRIu32 " of %" PRIu32 " ranks left a dump; group ", job->count, job->size);
    html_text(file, job->group);
    fputs("</p>\n<section><h2>The last operations</h2>\n", file);
    draw(job, file);
    fputs("</section>\n", file);
    char *body = strstr(report, "\n\n"); /* behind the line that names the job */
    write_sections(body ? body + 2 : report, file);
    html_end(file);
    free(report);
    return true;
}

bool trace_write_picture(const trace_job *job, FILE *file) {
    draw(job, file);
    return true;
}
