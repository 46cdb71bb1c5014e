/* tools/draw.c - a picture of a job: ranks from top to bottom, simulated time from left to right, an arrow
 * from where a message leaves to where it has come in. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plan_tool.h"
#include "tools/svg.h"

#define US            1e6
#define MOST_RANKS    64u
#define MOST_MESSAGES 20000u
#define MOST_LABELS   96u /* messages; with more, labels would hide one another */

#define TITLE_TEXT  900u
#define LANE        44.0 /* pixels from rank to rank */
#define LEFT        70.0
#define RIGHT       40.0
#define TOP         54.0 /* and the lines of the title */
#define TITLE_SIZE  16.0
#define TITLE_LINE  22.0
#define TITLE_GLYPH 9.0 /* pixels that a letter takes at most, on average */
#define LEGEND      64.0
#define MESSAGE     96.0 /* pixels that the shortest message should have */
#define WIDTH_LEAST 520.0
#define WIDTH_MOST  6000.0

#define INK      "#222222"
#define GREY     "#b8b8b8"
#define FAINT    "#eeeeee"
#define COPY     "#8a8a8a"
#define MOVED    "#1f6fb4" /* data that overwrite or are new */
#define REDUCED  "#c8501e" /* data that are reduced */
#define SIGNALED "#6a8f3c"
#define ARRIVED  "#8040a0"

typedef struct picture {
    FILE *file;
    const tool_job *job;
    const gcoll_simulation *simulation;
    const gcoll_simulate_event **sends; /* by position of their receive among the events */
    double *arrival;                    /* by rank, seconds; NULL: all at 0 */
    double scale;                       /* pixels a second */
    double top, right;                  /* of the first rank's line; of the picture's drawn part */
    uint64_t messages;
} picture;

static double x_of(const picture *p, double seconds) {
    return LEFT + seconds * p->scale;
}

static double y_of(const picture *p, uint32_t rank) {
    return p->top + LANE * rank;
}

static const gcoll_step *step_of(const picture *p, const gcoll_simulate_event *e) {
    return &p->job->plans[e->rank]->steps[e->step];
}

/* ---- Which send belongs to a receive ----------------------------------------------------------------------
 */

typedef struct end {
    uint32_t sender, receiver, message;
    bool receives;
    uint64_t event;
} end;

static int compare_ends(const void *x, const void *y) {
    const end *a = x, *b = y;
    const uint32_t left[] = {a->sender, a->receiver, a->message, a->receives};
    const uint32_t right[] = {b->sender, b->receiver, b->message, b->receives};
    for (int i = 0; i < 4; i++)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return 0;
}

static bool match(picture *p) {
    const gcoll_simulation *s = p->simulation;
    end *ends = calloc(s->event_count + 1, sizeof *ends);
    uint64_t count = 0;
    p->sends = calloc(s->event_count + 1, sizeof(void *));
    for (uint64_t i = 0; ends != NULL && i < s->event_count; i++) {
        const gcoll_simulate_event *e = &s->events[i];
        bool receives = e->kind == GCOLL_SIMULATE_RECV;
        if (!receives && e->kind != GCOLL_SIMULATE_SEND)
            continue;
        ends[count++] = (end){receives ? e->peer : e->rank, receives ? e->rank : e->peer,
                              step_of(p, e)->message, receives, i};
    }
    if (ends != NULL)
        qsort(ends, count, sizeof *ends, compare_ends);
    for (uint64_t i = 0; p->sends != NULL && i + 1 < count; i += 2)
        p->sends[ends[i + 1].event] = &s->events[ends[i].event];
    p->messages = count / 2;
    free(ends);
    return ends != NULL && p->sends != NULL;
}

/* ---- Drawing --------------------------------------------------------------------------------------------
 */

/* "4", "3Ki", "1Mi" */
static int short_number(char *text, size_t room, uint64_t number) {
    static const char *const units[] = {"", "Ki", "Mi", "Gi", "Ti"};
    size_t unit = 0;
    while (number > 0 && number % 1024 == 0 && unit + 1 < sizeof units / sizeof units[0]) {
        number /= 1024;
        unit++;
    }
    return snprintf(text, room, "%" PRIu64 "%s", number, units[unit]);
}

/* The elements that a receive fills: "[3, 5)" of OUT, "scratch[0, 2)"; nothing for a signal. */
static void label_of(const gcoll_step *s, char text[96]) {
    int used;
    text[0] = '\0';
    if (s->count == 0)
        return;
    used = snprintf(text, 96, "%s[", s->dst.space == GCOLL_SCRATCH ? "scratch" : "");
    used += short_number(text + used, 32, s->dst.offset);
    used += snprintf(text + used, 4, ",");
    used += short_number(text + used, 32, s->dst.offset + s->count);
    snprintf(text + used, 4, ")");
}

static void draw_message(const picture *p, const gcoll_simulate_event *send, const gcoll_simulate_event *recv,
                         bool labels) {
    const gcoll_step *s = step_of(p, recv);
    const char *color = s->count == 0 ? SIGNALED : s->kind == GCOLL_STEP_RECV_REDUCE ? REDUCED : MOVED;
    double x1 = x_of(p, send->begin), x2 = x_of(p, recv->end), y1 = y_of(p, send->rank),
           y2 = y_of(p, recv->rank);
    char text[96];
    if (!labels) {
        svg_arrow(p->file, x1, y1, x2, y2, color, 1.5);
        if (s->kind == GCOLL_STEP_RECV_REDUCE)
            svg_dot(p->file, x2, y2, 4.5, REDUCED);
        return;
    }
    label_of(s, text);
    /* Nearer to the arrow's end, where fewer cross; by a part of a lane, however far it goes. */
    double part = 1 - 0.35 * LANE / fabs(y2 - y1);
    svg_text(p->file, x1 + part * (x2 - x1) - 3, y1 + part * (y2 - y1) + 3, 10, "end", color, text);
}

static void draw_events(const picture *p) {
    const gcoll_simulation *s = p->simulation;
    for (uint64_t i = 0; i < s->event_count; i++) {
        const gcoll_simulate_event *e = &s->events[i];
        double width = x_of(p, e->end) - x_of(p, e->begin), y = y_of(p, e->rank);
        bool computes = e->kind >= GCOLL_SIMULATE_REDUCE;
        const char *color = e->kind == GCOLL_SIMULATE_REDUCE ? REDUCED : COPY;
        if (computes)
            svg_box(p->file, x_of(p, e->begin) - 2, y - 4, width > 4 ? width : 4, 8, color);
    }
    for (int labels = 0; labels < (p->messages <= MOST_LABELS ? 2 : 1); labels++) /* over all arrows */
        for (uint64_t i = 0; i < s->event_count; i++)
            if (s->events[i].kind == GCOLL_SIMULATE_RECV && p->sends[i] != NULL)
                draw_message(p, p->sends[i], &s->events[i], labels == 1);
}

/* A round number of microseconds, so that there are 4 to 10 ticks. */
static double tick_of(double span_us) {
    double tick = 1e-6;
    while (tick * 10 < span_us)
        tick *= 10;
    return span_us / tick < 2 ? tick / 5 : span_us / tick < 5 ? tick / 2 : tick;
}

/* Its line, which is thin until it arrives, and strokes where it arrives late and where it is done. */
static void draw_rank(const picture *p, uint32_t r) {
    const double y = y_of(p, r), done = x_of(p, p->simulation->finish[r]);
    const double came = p->arrival != NULL ? x_of(p, p->arrival[r]) : LEFT;
    char text[64];
    snprintf(text, sizeof text, "rank %u", r);
    svg_text(p->file, LEFT - 12, y + 4, 12, "end", INK, text);
    if (came > LEFT)
        svg_line(p->file, LEFT, y, came, y, FAINT, 1);
    svg_line(p->file, came, y, p->right, y, GREY, 1);
    if (came > LEFT)
        svg_line(p->file, came, y - 8, came, y + 8, ARRIVED, 2.5);
    svg_line(p->file, done, y - 6, done, y + 6, INK, 1.5);
}

static void draw_axes(const picture *p) {
    const double bottom = y_of(p, p->simulation->size - 1) + 16, span_us = US * p->simulation->time;
    char text[64];
    for (double us = 0, tick = tick_of(span_us); span_us > 0 && us <= span_us * 1.0001; us += tick) {
        double x = x_of(p, us / US);
        svg_line(p->file, x, p->top - 16, x, bottom, FAINT, 1);
        snprintf(text, sizeof text, "%g", us);
        svg_text(p->file, x, p->top - 20, 10, "middle", COPY, text);
    }
    svg_text(p->file, LEFT - 12, p->top - 20, 10, "end", COPY, "us");
    for (uint32_t r = 0; r < p->simulation->size; r++)
        draw_rank(p, r);
}

static void draw_legend(const picture *p, double y) {
    FILE *f = p->file;
    svg_arrow(f, LEFT, y, LEFT + 34, y, MOVED, 1.5);
    svg_text(f, LEFT + 40, y + 4, 11, "start", INK, "moved");
    svg_arrow(f, LEFT + 90, y, LEFT + 124, y, REDUCED, 1.5);
    svg_dot(f, LEFT + 124, y, 4.5, REDUCED);
    svg_text(f, LEFT + 134, y + 4, 11, "start", INK, "reduced on arrival");
    svg_arrow(f, LEFT + 248, y, LEFT + 282, y, SIGNALED, 1.5);
    svg_text(f, LEFT + 288, y + 4, 11, "start", INK, "signal");
    svg_box(f, LEFT, y + 18, 16, 8, REDUCED);
    svg_text(f, LEFT + 22, y + 26, 11, "start", INK, "reduces");
    svg_box(f, LEFT + 90, y + 18, 16, 8, COPY);
    svg_text(f, LEFT + 112, y + 26, 11, "start", INK, "copies, divides");
    svg_line(f, LEFT + 250, y + 16, LEFT + 250, y + 28, INK, 1.5);
    svg_text(f, LEFT + 258, y + 26, 11, "start", INK, "is done");
    if (p->arrival == NULL)
        return;
    svg_line(f, LEFT + 340, y + 14, LEFT + 340, y + 30, ARRIVED, 2.5);
    svg_text(f, LEFT + 348, y + 26, 11, "start", INK, "arrives");
}

/* Draws the title, in as many lines as it needs, broken at spaces; returns how many. With NULL for a file it
 * only counts. */
static uint32_t draw_title(FILE *file, const char *title, double width) {
    const size_t most = (size_t)(width / TITLE_GLYPH);
    uint32_t lines = 0;
    char line[TITLE_TEXT];
    while (*title != '\0') {
        size_t length = strlen(title);
        if (length > most) {
            length = most;
            while (length > 0 && title[length] != ' ')
                length--;
            if (length == 0) /* one long word */
                length = strcspn(title, " ");
        }
        snprintf(line, sizeof line, "%.*s", (int)length, title);
        if (file != NULL)
            svg_text(file, LEFT, 28 + TITLE_LINE * lines, TITLE_SIZE, "start", INK, line);
        lines++;
        title += length;
        title += strspn(title, " ");
    }
    return lines;
}

/* So that the shortest message is seen. */
static double scale_of(const picture *p) {
    const gcoll_simulation *s = p->simulation;
    double shortest = s->time;
    for (uint64_t i = 0; i < s->event_count; i++)
        if (p->sends[i] != NULL && s->events[i].end > p->sends[i]->begin &&
            s->events[i].end - p->sends[i]->begin < shortest)
            shortest = s->events[i].end - p->sends[i]->begin;
    double width = shortest > 0 ? MESSAGE * s->time / shortest : WIDTH_LEAST;
    width = width < WIDTH_LEAST ? WIDTH_LEAST : width > WIDTH_MOST ? WIDTH_MOST : width;
    return s->time > 0 ? width / s->time : 0;
}

static bool draw(const tool_options *o, const tool_shape *shape, picture *p) {
    char algorithm[256], what[TOOL_TEXT], title[TITLE_TEXT];
    if (!tool_arrivals(o, p->simulation->size, &p->arrival))
        return false;
    if (!match(p)) {
        cli_complain("out of memory");
        return false;
    }
    if (p->messages > MOST_MESSAGES) {
        cli_complain("found %" PRIu64 " messages; allowed in a picture: up to %u", p->messages,
                     MOST_MESSAGES);
        return false;
    }
    p->file = tool_open_output(o);
    if (p->file == NULL)
        return false;
    p->scale = scale_of(p);
    const double drawn = p->simulation->time * p->scale;
    p->right = LEFT + (drawn > WIDTH_LEAST ? drawn : WIDTH_LEAST) + 8;
    gcoll_choice_format(&shape->choice, algorithm, sizeof algorithm);
    tool_shape_text(shape, NULL, what);
    snprintf(title, sizeof title, "%s by %s: %s", o->collective, algorithm, what);
    const double room = p->right + RIGHT - LEFT;
    p->top = TOP + TITLE_LINE * draw_title(NULL, title, room);
    const double bottom = y_of(p, p->simulation->size - 1) + 44;
    svg_begin(p->file, p->right + RIGHT, bottom + LEGEND);
    draw_title(p->file, title, room);
    draw_axes(p);
    draw_events(p);
    draw_legend(p, bottom);
    svg_end(p->file);
    return tool_close_output(o, p->file);
}

int tool_draw(const tool_options *options) {
    tool_shape shape;
    tool_job job;
    int status = TOOL_FAILED;
    if (options->ranks.count != 1 || options->count.count > 1 || options->ranks.values[0] > MOST_RANKS) {
        cli_complain("draw takes one number of --ranks, up to %u, and one of --count", MOST_RANKS);
        return CLI_USAGE;
    }
    uint32_t size = (uint32_t)options->ranks.values[0];
    uint64_t count = options->count.count ? options->count.values[0] : size;
    if (!tool_shape_of(options, options->algorithm, size, count, &shape))
        return CLI_USAGE;
    if (tool_job_of(&shape, &job)) {
        gcoll_simulation *simulation = tool_run_job(options, &job, true);
        picture p = {.job = &job, .simulation = simulation};
        if (simulation != NULL && draw(options, &shape, &p))
            status = TOOL_OK;
        free(p.arrival);
        free(p.sends);
        gcoll_simulation_destroy(simulation);
        tool_job_free(&job);
    }
    tool_shape_free(&shape);
    return status;
}
