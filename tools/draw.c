/* tools/draw.c - a picture of a job: ranks from top to bottom, simulated time from left to right, an arrow
 * from where a message leaves to where it has come in.
 *
 * If devices take part, each rank has lanes below its line. Their bars show when its devices and ports are
 * busy, so work that overlaps in time stands one above the other. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/output.h"
#include "tools/simulate.h"
#include "tools/svg.h"
#include "tools/words.h"

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
#define WIDTH_MOST  1280.0 /* what fits a page; where time to scale does not, it goes in equal columns */
#define TICK_LEAST  44.0   /* pixels from one label of a column to the next */
#define LANE_HEIGHT 11.0   /* pixels of a lane of a device or port */
#define LANE_BAR    8.0
#define LANE_LEFT   90.0 /* pixels for their names */
#define LANE_LEGEND 24.0
#define LANES_WIDTH 960.0 /* least, and what the shortest message should have then */
#define LANES_SHORT 24.0
#define MOST_LANES  16u

#define INK      "#222222"
#define GREY     "#b8b8b8"
#define FAINT    "#eeeeee"
#define SHADE    "#f5f5f5" /* of a lane */
#define COPY     "#8a8a8a"
#define MOVED    "#1f6fb4" /* data that overwrite or are new */
#define REDUCED  "#c8501e" /* data that are reduced */
#define SIGNALED "#6a8f3c"
#define ARRIVED  "#8040a0"
#define TO_HOST  "#2f9e74"
#define TO_DEV   "#7b61b5"
#define WITHIN   "#c9a227"

/* A kind of lane that some rank needs. */
typedef struct lane {
    gcoll_simulate_kind kind; /* SEND, RECV, COPY_IN, COPY_OUT; FOLD: whatever is done within a device */
    uint32_t device;
} lane;

typedef struct picture {
    FILE *file;
    const tool_job *job;
    const gcoll_simulation *simulation;
    const gcoll_simulate_event **sends; /* by position of their receive among the events */
    double *arrival;                    /* by rank, seconds; NULL: all at 0 */
    double span;                        /* seconds that the width stands for */
    double scale;                       /* pixels a second; in columns: pixels a column */
    double *columns; /* NULL: to scale; else the times at which they begin, of which the first is 0 */
    uint64_t column_count;
    double left, top, right; /* of time 0; of the first rank's line; of the drawn part */
    uint64_t messages;
    lane lanes[MOST_LANES]; /* of each rank, from top to bottom; none without devices */
    uint32_t lane_count;
} picture;

/* The last column that begins at this time or before. */
static uint64_t column_of(const picture *p, double seconds) {
    uint64_t low = 0, high = p->column_count;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (p->columns[middle] <= seconds)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static double x_of(const picture *p, double seconds) {
    if (!p->columns)
        return p->left + seconds * p->scale;
    const uint64_t i = column_of(p, seconds);
    const double begin = p->columns[i], end = i + 1 < p->column_count ? p->columns[i + 1] : p->span;
    const double part = end > begin && seconds > begin ? (seconds - begin) / (end - begin) : 0;
    return p->left + ((double)i + (part < 1 ? part : 1)) * p->scale;
}

static double y_of(const picture *p, uint32_t rank) {
    return p->top + (LANE + LANE_HEIGHT * p->lane_count) * rank;
}

/* The middle of a lane. */
static double lane_y(const picture *p, uint32_t rank, uint32_t index) {
    return y_of(p, rank) + 14 + LANE_HEIGHT * index;
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
    for (uint64_t i = 0; ends && i < s->event_count; i++) {
        const gcoll_simulate_event *e = &s->events[i];
        bool receives = e->kind == GCOLL_SIMULATE_RECV;
        if (!receives && e->kind != GCOLL_SIMULATE_SEND)
            continue;
        ends[count++] = (end){receives ? e->peer : e->rank, receives ? e->rank : e->peer,
                              step_of(p, e)->message, receives, i};
    }
    if (ends)
        qsort(ends, count, sizeof *ends, compare_ends);
    for (uint64_t i = 0; p->sends && i + 1 < count; i += 2)
        p->sends[ends[i + 1].event] = &s->events[ends[i].event];
    p->messages = count / 2;
    free(ends);
    return ends && p->sends;
}

/* ---- Lanes ----------------------------------------------------------------------------------------------
 */

static gcoll_simulate_kind lane_kind(gcoll_simulate_kind kind) {
    return kind > GCOLL_SIMULATE_FOLD ? GCOLL_SIMULATE_FOLD : kind;
}

/* The lane of an event; lane_count: it has none. */
static uint32_t lane_of(const picture *p, const gcoll_simulate_event *e) {
    uint32_t i = 0;
    while (i < p->lane_count && (p->lanes[i].kind != lane_kind(e->kind) || p->lanes[i].device != e->device))
        i++;
    return i;
}

/* In the order in which data pass through them. */
static uint32_t lane_place(const lane *l) {
    switch (l->kind) {
    case GCOLL_SIMULATE_FOLD:
        return 0;
    case GCOLL_SIMULATE_COPY_IN:
        return 1;
    case GCOLL_SIMULATE_COPY_OUT:
        return 4;
    default:
        return l->kind == GCOLL_SIMULATE_SEND ? 2 : 3;
    }
}

static void add_lane(picture *p, gcoll_simulate_kind kind, uint32_t device) {
    const lane added = {kind, device};
    uint32_t at = p->lane_count++;
    for (; at > 0 && (lane_place(&p->lanes[at - 1]) > lane_place(&added) ||
                      (p->lanes[at - 1].kind == kind && p->lanes[at - 1].device > device));
         at--)
        p->lanes[at] = p->lanes[at - 1];
    p->lanes[at] = added;
}

/* False: there are too many. */
static bool find_lanes(picture *p) {
    const gcoll_simulation *s = p->simulation;
    for (uint64_t i = 0; i < s->event_count; i++) {
        const gcoll_simulate_event *e = &s->events[i];
        if (e->device == GCOLL_SIMULATE_NOBODY || lane_of(p, e) < p->lane_count)
            continue;
        if (p->lane_count + 3 > MOST_LANES)
            return false;
        add_lane(p, lane_kind(e->kind), e->device);
    }
    p->left = p->lane_count > 0 ? LANE_LEFT : LEFT;
    if (p->lane_count > 0 && p->messages > 0) {
        add_lane(p, GCOLL_SIMULATE_SEND, GCOLL_SIMULATE_NOBODY);
        add_lane(p, GCOLL_SIMULATE_RECV, GCOLL_SIMULATE_NOBODY);
    }
    return true;
}

static void name_lanes(const picture *p, uint32_t rank) {
    bool several = false;
    for (uint32_t i = 1; i < p->lane_count; i++)
        several = several || p->lanes[i].kind == p->lanes[i - 1].kind;
    for (uint32_t i = 0; i < p->lane_count; i++) {
        const gcoll_simulate_kind kind = p->lanes[i].kind;
        const char *name = kind == GCOLL_SIMULATE_COPY_IN    ? "to host"
                           : kind == GCOLL_SIMULATE_COPY_OUT ? "from host"
                           : kind == GCOLL_SIMULATE_FOLD     ? "on device"
                           : kind == GCOLL_SIMULATE_SEND     ? "sends"
                                                             : "receives";
        const double y = lane_y(p, rank, i);
        char text[48];
        if (several && p->lanes[i].device != GCOLL_SIMULATE_NOBODY)
            snprintf(text, sizeof text, "%s, %u", name, p->lanes[i].device);
        else
            snprintf(text, sizeof text, "%s", name);
        svg_box(p->file, p->left, y - LANE_BAR / 2, p->right - p->left, LANE_BAR, SHADE);
        svg_text(p->file, p->left - 8, y + 3, 9, "end", COPY, text);
    }
}

static void draw_bar(const picture *p, const gcoll_simulate_event *e, uint32_t index) {
    const double x = x_of(p, e->begin), width = x_of(p, e->end) - x, gap = width > 3 ? 0.7 : 0;
    const char *color = e->kind == GCOLL_SIMULATE_COPY_IN    ? TO_HOST
                        : e->kind == GCOLL_SIMULATE_COPY_OUT ? TO_DEV
                        : e->kind >= GCOLL_SIMULATE_FOLD     ? WITHIN
                                                             : MOVED;
    const gcoll_step *s = &p->job->plans[e->rank]->steps[e->step];
    if (e->kind == GCOLL_SIMULATE_RECV && s->kind == GCOLL_STEP_RECV_REDUCE)
        color = REDUCED;
    svg_box(p->file, x, lane_y(p, e->rank, index) - LANE_BAR / 2, width > 1 ? width - gap : 1, LANE_BAR,
            color);
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
    if (p->lane_count > 0) { /* the bars are the message: the arrow says whose */
        y1 = lane_y(p, send->rank, lane_of(p, send));
        y2 = lane_y(p, recv->rank, lane_of(p, recv));
        svg_line(p->file, x1, y1, x2, y2, color, 0.5);
        return;
    }
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
        bool computes = e->kind >= GCOLL_SIMULATE_REDUCE && e->device == GCOLL_SIMULATE_NOBODY;
        const char *color = e->kind == GCOLL_SIMULATE_REDUCE ? REDUCED : COPY;
        if (computes)
            svg_box(p->file, x_of(p, e->begin) - 2, y - 4, width > 4 ? width : 4, 8, color);
    }
    const int passes = p->messages <= MOST_LABELS && p->lane_count == 0 ? 2 : 1;
    for (int labels = 0; labels < passes; labels++) /* over all arrows */
        for (uint64_t i = 0; i < s->event_count; i++)
            if (s->events[i].kind == GCOLL_SIMULATE_RECV && p->sends[i])
                draw_message(p, p->sends[i], &s->events[i], labels == 1);
    for (uint64_t i = 0; i < s->event_count; i++)
        if (lane_of(p, &s->events[i]) < p->lane_count)
            draw_bar(p, &s->events[i], lane_of(p, &s->events[i]));
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
    const double came = p->arrival ? x_of(p, p->arrival[r]) : p->left;
    char text[64];
    snprintf(text, sizeof text, "rank %u", r);
    svg_text(p->file, p->left - 12, y + 4, 12, "end", INK, text);
    name_lanes(p, r);
    if (came > p->left)
        svg_line(p->file, p->left, y, came, y, FAINT, 1);
    svg_line(p->file, came, y, p->right, y, GREY, 1);
    if (came > p->left)
        svg_line(p->file, came, y - 8, came, y + 8, ARRIVED, 2.5);
    svg_line(p->file, done, y - 6, done, y + 6, INK, 1.5);
}

static void draw_tick(const picture *p, double us) {
    const double bottom = y_of(p, p->simulation->size) - LANE + 16, x = x_of(p, us / US);
    char text[64];
    svg_line(p->file, x, p->top - 16, x, bottom, FAINT, 1);
    snprintf(text, sizeof text, "%g", us);
    svg_text(p->file, x, p->top - 20, 10, "middle", COPY, text);
}

static void draw_axes(const picture *p) {
    const double span_us = US * p->span;
    svg_text(p->file, p->left - 12, p->top - 20, 10, "end", COPY, "us");
    if (p->columns) {
        double last = p->left - TICK_LEAST;
        for (uint64_t i = 0; i < p->column_count; i++) {
            const double x = p->left + (double)i * p->scale;
            if (x - last < TICK_LEAST)
                continue;
            draw_tick(p, US * p->columns[i]);
            last = x;
        }
        return;
    }
    for (double us = 0, tick = tick_of(span_us); span_us > 0 && us <= span_us * 1.0001; us += tick)
        draw_tick(p, us);
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
    if (p->columns)
        svg_text(f, LEFT + 340, y + 4, 11, "start", INK, "time is not to scale");
    svg_box(f, LEFT, y + 18, 16, 8, REDUCED);
    svg_text(f, LEFT + 22, y + 26, 11, "start", INK, "reduces");
    svg_box(f, LEFT + 90, y + 18, 16, 8, COPY);
    svg_text(f, LEFT + 112, y + 26, 11, "start", INK, "copies, divides");
    svg_line(f, LEFT + 250, y + 16, LEFT + 250, y + 28, INK, 1.5);
    svg_text(f, LEFT + 258, y + 26, 11, "start", INK, "is done");
    if (!p->arrival)
        return;
    svg_line(f, LEFT + 340, y + 14, LEFT + 340, y + 30, ARRIVED, 2.5);
    svg_text(f, LEFT + 348, y + 26, 11, "start", INK, "arrives");
}

/* Lanes have names, but not all colours do. */
static void draw_lane_legend(const picture *p, double y) {
    FILE *f = p->file;
    const double x = p->left;
    svg_box(f, x, y - 4, 16, LANE_BAR, MOVED);
    svg_text(f, x + 22, y + 4, 11, "start", INK, "moved");
    svg_box(f, x + 80, y - 4, 16, LANE_BAR, REDUCED);
    svg_text(f, x + 102, y + 4, 11, "start", INK, "to be reduced; on a rank's own line: it reduces");
    svg_box(f, x + 370, y - 4, 16, LANE_BAR, COPY);
    svg_text(f, x + 392, y + 4, 11, "start", INK, "it copies, divides");
    svg_line(f, x + 510, y - 6, x + 510, y + 6, INK, 1.5);
    svg_text(f, x + 518, y + 4, 11, "start", INK, "it is done");
    if (!p->arrival)
        return;
    svg_line(f, x + 600, y - 8, x + 600, y + 8, ARRIVED, 2.5);
    svg_text(f, x + 608, y + 4, 11, "start", INK, "it arrives");
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
        if (file)
            svg_text(file, LEFT, 28 + TITLE_LINE * lines, TITLE_SIZE, "start", INK, line);
        lines++;
        title += length;
        title += strspn(title, " ");
    }
    return lines;
}

static int compare_times(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

/* A column begins wherever a message begins or has come in, and where the picture ends. */
static bool find_columns(picture *p) {
    const gcoll_simulation *s = p->simulation;
    uint64_t count = 0, distinct = 1;
    double *times = calloc(2 * p->messages + 2, sizeof *times);
    if (!times)
        return false;
    times[count++] = 0;
    for (uint64_t i = 0; i < s->event_count; i++)
        if (p->sends[i]) {
            times[count++] = p->sends[i]->begin;
            times[count++] = s->events[i].end;
        }
    times[count++] = p->span;
    qsort(times, count, sizeof *times, compare_times);
    for (uint64_t i = 1; i < count; i++)
        if (times[i] > times[distinct - 1])
            times[distinct++] = times[i];
    p->columns = times;
    p->column_count = distinct;
    const double all = MESSAGE * (double)(distinct - 1);
    p->scale = (all < WIDTH_LEAST  ? WIDTH_LEAST
                : all > WIDTH_MOST ? WIDTH_MOST
                                   : all) /
               (double)(distinct - 1);
    return true;
}

/* The scale at which the shortest message is visible. */
static double scale_of(const picture *p) {
    const gcoll_simulation *s = p->simulation;
    double shortest = s->time;
    for (uint64_t i = 0; i < s->event_count; i++)
        if (p->sends[i] && s->events[i].end > p->sends[i]->begin &&
            s->events[i].end - p->sends[i]->begin < shortest)
            shortest = s->events[i].end - p->sends[i]->begin;
    const double least = p->lane_count > 0 ? LANES_WIDTH : WIDTH_LEAST;
    double width = shortest > 0 ? (p->lane_count > 0 ? LANES_SHORT : MESSAGE) * p->span / shortest : least;
    width = width < least ? least : width;
    return p->span > 0 ? width / p->span : 0;
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
        cli_complain("found %" PRIu64 " messages; allowed in a picture are up to %u", p->messages,
                     MOST_MESSAGES);
        return false;
    }
    if (!find_lanes(p)) {
        cli_complain("--devices: is more than a picture has lanes for; allowed is up to %u",
                     (MOST_LANES - 2) / 3);
        return false;
    }
    p->span = p->simulation->time < o->span_us / US ? o->span_us / US : p->simulation->time;
    p->scale = scale_of(p);
    double drawn = p->span * p->scale;
    if (drawn > WIDTH_MOST && p->lane_count > 0) { /* bars tell how long, and stay to scale */
        drawn = WIDTH_MOST;
        p->scale = drawn / p->span;
    } else if (drawn > WIDTH_MOST) {
        if (!find_columns(p)) {
            cli_complain("out of memory");
            return false;
        }
        drawn = (double)(p->column_count - 1) * p->scale;
    }
    p->file = tool_open_output(o);
    if (!p->file)
        return false;
    p->right = p->left + (drawn > WIDTH_LEAST ? drawn : WIDTH_LEAST) + 8;
    gcoll_choice_format(&shape->choice, algorithm, sizeof algorithm);
    tool_shape_text(shape, NULL, what);
    snprintf(title, sizeof title, "%s by %s: %s", o->collective, algorithm, what);
    const double room = p->right + RIGHT - LEFT;
    p->top = TOP + TITLE_LINE * draw_title(NULL, title, room);
    const double bottom = y_of(p, p->simulation->size);
    svg_begin(p->file, p->right + RIGHT, bottom + (p->lane_count > 0 ? LANE_LEGEND : LEGEND));
    draw_title(p->file, title, room);
    draw_axes(p);
    for (uint32_t r = 0; r < p->simulation->size; r++)
        draw_rank(p, r);
    draw_events(p);
    if (p->lane_count > 0)
        draw_lane_legend(p, bottom);
    else
        draw_legend(p, bottom);
    svg_end(p->file);
    return tool_close_output(o, p->file);
}

int tool_draw(const tool_options *options) {
    tool_shape shape;
    tool_job job;
    int status = TOOL_FAILED;
    if (options->ranks.count != 1 || options->count.count > 1) {
        cli_complain("draw takes one number of --ranks, and one of --count");
        return CLI_USAGE;
    }
    if (options->ranks.values[0] > MOST_RANKS) {
        cli_complain("--ranks: is %" PRIu64 "; allowed for draw is 1 to %u", options->ranks.values[0],
                     MOST_RANKS);
        return CLI_USAGE;
    }
    uint32_t size = (uint32_t)options->ranks.values[0];
    uint64_t count = options->count.count ? options->count.values[0] : size;
    if (!tool_shape_of(options, options->algorithm, size, count, &shape))
        return CLI_USAGE;
    if (tool_job_of(&shape, &job)) {
        gcoll_simulation *simulation = tool_run_job(options, &job, true);
        picture p = {.job = &job, .simulation = simulation};
        if (simulation && draw(options, &shape, &p))
            status = TOOL_OK;
        free(p.columns);
        free(p.arrival);
        free(p.sends);
        gcoll_simulation_destroy(simulation);
        tool_job_free(&job);
    }
    tool_shape_free(&shape);
    return status;
}
