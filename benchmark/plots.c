/*
 * benchmark/plots.c - pictures of results, as SVG within a page.
 *
 * Colours follow the system's light or dark by the page's variables. More lines than there are colours have
 * the same colours again, dashed.
 */
#include "benchmark/plots.h"

#include <math.h>
#include <string.h>

#include "tools/html.h"

#define WIDTH        560.0
#define HEIGHT       330.0
#define LEFT         62.0
#define RIGHT        14.0
#define TOP          12.0
#define BOTTOM       44.0
#define SMALL        300.0 /* width of a picture of percentiles */
#define SMALL_TOP    200.0 /* and its height */
#define BAR          22.0  /* height of a row of bars */
#define LEAST        1e-12 /* what is drawn: beyond it, figures are none that were measured */
#define MOST         1e24
#define DASHES       4u
#define MOST_X       8   /* labels of the axis of bytes */
#define LETTER       6.6 /* about the width of one */
#define MOST_LETTERS 70u

const char bench_plots_style[] =
    ".plots{display:flex;flex-wrap:wrap;gap:16px}.plots figure{margin:0;flex:1 1 "
    "460px;min-width:0;overflow-x:auto}"
    ".plots svg{min-width:440px}.small figure{flex:0 1 300px}.small svg{min-width:260px}.bars "
    "svg{max-width:820px}"
    "figcaption{font-size:13px;color:var(--faint)}"
    "svg text{font:12px system-ui,sans-serif;fill:var(--faint)}"
    ".grid{stroke:var(--line)}.l{fill:none;stroke-width:2}"
    ".s0{--c:#0072b2}.s1{--c:#b87a00}.s2{--c:#00805f}.s3{--c:#b0568c}.s4{--c:#3a8fc4}.s5{--c:#c65200}.s6{--c:"
    "#7a6c00}"
    "@media(prefers-color-scheme:dark){.s0{--c:#58a6e0}.s1{--c:#e69f00}.s2{--c:#1fc59b}.s3{--c:#e08fbf}"
    ".s4{--c:#8fcdf2}.s5{--c:#ff8a4c}.s6{--c:#d6c64a}}"
    ".l{stroke:var(--c)}.m{fill:var(--c);stroke:none}.band{fill:var(--c);fill-opacity:.18;stroke:none}"
    ".d1{stroke-dasharray:7 4}.d2{stroke-dasharray:2 3}.d3{stroke-dasharray:9 3 2 3}"
    ".thin{stroke-width:1}.off{opacity:.08}"
    ".legend{display:flex;flex-wrap:wrap;gap:2px 4px;margin:10px 0 0}"
    ".legend button{all:unset;cursor:pointer;display:flex;align-items:center;gap:6px;padding:2px "
    "6px;font-size:13px;"
    "overflow-wrap:anywhere;border-radius:4px}.legend button:focus-visible{outline:2px solid var(--faint)}"
    ".legend button[aria-pressed=false]{opacity:.4}.legend svg{flex:none;width:26px;min-width:26px}";

const char bench_plots_script[] =
    "document.querySelectorAll('.legend button').forEach(function(b){b.onclick=function(){"
    "var on=b.getAttribute('aria-pressed')==='false';b.setAttribute('aria-pressed',on);"
    "b.closest('section').querySelectorAll('g[data-line=\"'+b.dataset.line+'\"]').forEach(function(g){"
    "g.classList.toggle('off',!on)})}});";

/* ---- Scales ------------------------------------------------------------------------------------------- */

typedef struct scale {
    double low, high; /* of values */
    double from, to;  /* where these are in the picture */
    bool is_log;
} scale;

static double place(const scale *s, double value) {
    const double part =
        s->is_log ? log(value / s->low) / log(s->high / s->low) : (value - s->low) / (s->high - s->low);
    return s->from + (s->to - s->from) * part;
}

/* Whether it can be drawn. */
static bool is_positive(double value) {
    return value > LEAST && value < MOST;
}

/* The smallest and largest positive values of all lines, by a function of points. */
typedef double value_fn(const bench_point *point);

static double bytes_of(const bench_point *p) {
    return p->bytes;
}
static double p50_of(const bench_point *p) {
    return p->p50;
}
static double busbw_of(const bench_point *p) {
    return p->busbw;
}
static double min_of(const bench_point *p) {
    return p->min;
}
static double p95_of(const bench_point *p) {
    return p->p95;
}
static double p99_of(const bench_point *p) {
    return p->p99;
}
static double max_of(const bench_point *p) {
    return p->max;
}

static void extend(const bench_line *lines, size_t count, value_fn *of, double *low, double *high) {
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < lines[i].count; k++) {
            const double value = of(&lines[i].points[k]);
            if (!is_positive(value))
                continue;
            *low = *high > 0 && *low < value ? *low : value;
            *high = *high > value ? *high : value;
        }
}

static scale scale_of_bytes(const bench_line *lines, size_t count, double from, double to) {
    scale s = {0, 0, from, to, true};
    extend(lines, count, bytes_of, &s.low, &s.high);
    if (!(s.low < s.high)) {
        s.low = s.high > 0 ? s.high / 2 : 1;
        s.high = 4 * s.low;
    }
    return s;
}

/* The next one of 1, 2, 5, 10, 20, ..., downwards or upwards. */
static double round_time(double us, bool up) {
    static const double digits[] = {1, 2, 5, 10};
    const double decade = pow(10, floor(log10(us)));
    size_t i = 0;
    while (i < 3 && digits[i] * decade < us * (1 - 1e-9))
        i++;
    const bool is_above = digits[i] * decade > us * (1 + 1e-9);
    if (is_above && !up && i > 0)
        i--;
    return digits[i] * decade;
}

static scale scale_of_times(double low, double high, double from, double to) {
    scale s = {1, 10, from, to, true};
    if (high > 0) {
        s.low = round_time(low, false);
        s.high = round_time(high, true);
    }
    s.high = s.high > s.low ? s.high : 10 * s.low;
    return s;
}

static void say_bytes(double bytes, char text[24]) {
    static const char *const units[] = {"", "Ki", "Mi", "Gi", "Ti"};
    size_t unit = 0;
    while (unit < 4 && bytes >= 1024) {
        bytes /= 1024;
        unit++;
    }
    (void)snprintf(text, 24, "%.4g%s", bytes, units[unit]);
}

static void say_time(double us, char text[24]) {
    if (us < 1e3)
        (void)snprintf(text, 24, "%g us", us);
    else if (us < 1e6)
        (void)snprintf(text, 24, "%g ms", us / 1e3);
    else
        (void)snprintf(text, 24, "%g s", us / 1e6);
}

/* ---- Axes --------------------------------------------------------------------------------------------- */

static void begin(FILE *f, double width, double height, const char *label) {
    fprintf(f, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s\">\n", width, height, label);
}

static void grid_x(FILE *f, const scale *y, double x, const char *text) {
    fprintf(f,
            "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
            x, x, y->to, y->from, x, y->from + 17, text);
}

static void grid_y(FILE *f, const scale *x, double y, const char *text) {
    fprintf(f,
            "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
            x->from, x->to, y, y, x->from - 6, y + 4, text);
}

static void axis_of_bytes(FILE *f, const scale *x, const scale *y, int most) {
    const int first = (int)ceil(log2(x->low) - 1e-9), last = (int)floor(log2(x->high) + 1e-9);
    int step = 1;
    while ((last - first) / step + 1 > most)
        step *= 2;
    for (int power = first; power <= last; power += step) {
        char text[24];
        say_bytes(ldexp(1, power), text);
        grid_x(f, y, place(x, ldexp(1, power)), text);
    }
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">bytes</text>\n", x->to, y->from + 34);
}

/* Calls `line` for the round times of an axis: 1, 2, 5 of each decade, or where that is crowded, 1. */
typedef void line_fn(FILE *f, const scale *other, double place, const char *text);

static void axis_of_times(FILE *f, const scale *times, const scale *other, line_fn *line) {
    const bool is_crowded = times->high / times->low > 500;
    double us = times->low;
    while (us <= times->high * (1 + 1e-9)) {
        char text[24];
        const double decades = log10(us);
        if (!is_crowded || fabs(decades - round(decades)) < 1e-6) {
            say_time(us, text);
            line(f, other, place(times, us), text);
        }
        us = round_time(us * 1.5, true);
    }
}

/* From 0, in steps of 1, 2 or 5. */
static void axis_from_zero(FILE *f, const scale *x, const scale *y, const char *unit) {
    double step = pow(10, floor(log10(y->high)));
    while (y->high / step > 6)
        step *= 2;
    while (y->high / step < 3)
        step /= 2;
    for (int i = 0; i * step <= y->high * (1 + 1e-9); i++) {
        char text[40];
        (void)snprintf(text, sizeof text, "%.3g%s", i * step, i == 0 ? "" : unit);
        grid_y(f, x, place(y, i * step), text);
    }
}

/* ---- Lines -------------------------------------------------------------------------------------------- */

static void style_of(FILE *f, size_t line, const char *more) {
    fprintf(f, "class=\"l s%zu d%zu%s\"", line % HTML_COLOURS, line / HTML_COLOURS % DASHES, more);
}

static void polyline(FILE *f, const bench_line *line, size_t number, value_fn *of, const scale *x,
                     const scale *y, const char *more) {
    bool is_open = false;
    for (size_t k = 0; k < line->count; k++) {
        const bench_point *p = &line->points[k];
        if (!is_positive(p->bytes) || !is_positive(of(p)))
            continue;
        if (!is_open) {
            fputs("<polyline ", f);
            style_of(f, number, more);
            fputs(" points=\"", f);
        }
        fprintf(f, "%s%.1f,%.1f", is_open ? " " : "", place(x, p->bytes), place(y, of(p)));
        is_open = true;
    }
    if (is_open)
        fputs("\"/>", f);
}

static void dots(FILE *f, const bench_line *line, size_t number, value_fn *of, const scale *x, const scale *y,
                 const char *unit) {
    for (size_t k = 0; k < line->count; k++) {
        const bench_point *p = &line->points[k];
        char bytes[24];
        if (!is_positive(p->bytes) || !is_positive(of(p)))
            continue;
        say_bytes(p->bytes, bytes);
        fprintf(f, "<circle class=\"m s%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\"><title>",
                number % HTML_COLOURS, place(x, p->bytes), place(y, of(p)));
        html_text(f, line->name);
        fprintf(f, ", %s bytes: %g %s</title></circle>", bytes, of(p), unit);
    }
}

static void curves(FILE *f, const bench_line *lines, size_t count, value_fn *of, const scale *x,
                   const scale *y, const char *unit) {
    for (size_t i = count; i-- > 0;) { /* the first one lies on top */
        fprintf(f, "<g data-line=\"%zu\">", i);
        polyline(f, &lines[i], i, of, x, y, "");
        dots(f, &lines[i], i, of, x, y, unit);
        fputs("</g>\n", f);
    }
}

bool bench_plots_has_curves(const bench_line *lines, size_t count) {
    double low = 0, high = 0;
    extend(lines, count, bytes_of, &low, &high);
    return low < high;
}

void bench_plot_times(FILE *f, const bench_line *lines, size_t count) {
    const scale x = scale_of_bytes(lines, count, LEFT, WIDTH - RIGHT);
    double low = 0, high = 0;
    extend(lines, count, p50_of, &low, &high);
    const scale y = scale_of_times(low, high, HEIGHT - BOTTOM, TOP);
    begin(f, WIDTH, HEIGHT, "The median time over bytes");
    axis_of_bytes(f, &x, &y, MOST_X);
    axis_of_times(f, &y, &x, grid_y);
    curves(f, lines, count, p50_of, &x, &y, "us");
    fputs("</svg>\n", f);
}

void bench_plot_bandwidth(FILE *f, const bench_line *lines, size_t count) {
    const scale x = scale_of_bytes(lines, count, LEFT, WIDTH - RIGHT);
    scale y = {0, 0, HEIGHT - BOTTOM, TOP, false};
    double low = 0;
    extend(lines, count, busbw_of, &low, &y.high);
    y.high = y.high > 0 ? 1.05 * y.high : 1;
    begin(f, WIDTH, HEIGHT, "The bus bandwidth over bytes");
    axis_of_bytes(f, &x, &y, MOST_X);
    axis_from_zero(f, &x, &y, " GB/s");
    curves(f, lines, count, busbw_of, &x, &y, "GB/s");
    fputs("</svg>\n", f);
}

/* From the smallest to the largest time. */
static void band(FILE *f, const bench_line *line, size_t number, value_fn *from, value_fn *to, const scale *x,
                 const scale *y) {
    fprintf(f, "<polygon class=\"band s%zu\" points=\"", number % HTML_COLOURS);
    for (size_t k = 0; k < 2 * line->count; k++) {
        const bool back = k >= line->count;
        const bench_point *p = &line->points[back ? 2 * line->count - 1 - k : k];
        value_fn *of = back ? to : from;
        if (is_positive(p->bytes) && is_positive(from(p)) && is_positive(to(p)))
            fprintf(f, "%.1f,%.1f ", place(x, p->bytes), place(y, of(p)));
    }
    fputs("\"/>", f);
}

void bench_plot_percentiles(FILE *f, const bench_line *lines, size_t count, size_t which) {
    const bench_line *line = &lines[which];
    const scale x = scale_of_bytes(lines, count, LEFT, SMALL - RIGHT);
    double low = 0, high = 0;
    extend(lines, count, min_of, &low, &high);
    extend(lines, count, p50_of, &low, &high);
    extend(lines, count, max_of, &low, &high);
    const scale y = scale_of_times(low, high, SMALL_TOP - BOTTOM, TOP);
    begin(f, SMALL, SMALL_TOP, "Percentiles of the time over bytes");
    axis_of_bytes(f, &x, &y, 4);
    axis_of_times(f, &y, &x, grid_y);
    band(f, line, which, min_of, max_of, &x, &y);
    band(f, line, which, min_of, p95_of, &x, &y);
    polyline(f, line, which % HTML_COLOURS, p99_of, &x, &y, " thin d2");
    polyline(f, line, which % HTML_COLOURS, p50_of, &x, &y, "");
    dots(f, line, which, p50_of, &x, &y, "us");
    fputs("</svg>\n", f);
}

void bench_plot_bars(FILE *f, const bench_line *lines, size_t count) {
    double low = 0, high = 0;
    size_t longest = 0;
    extend(lines, count, min_of, &low, &high);
    extend(lines, count, p50_of, &low, &high);
    extend(lines, count, max_of, &low, &high);
    for (size_t i = 0; i < count; i++)
        longest = strlen(lines[i].name) > longest ? strlen(lines[i].name) : longest;
    const double left = LETTER * (double)(longest < MOST_LETTERS ? longest : MOST_LETTERS) + 16,
                 bottom = TOP + BAR * (double)count;
    const double width = WIDTH + left;
    const scale y = {0, 1, bottom, TOP, false};
    const scale x = scale_of_times(low, high, left, width - 30);
    begin(f, width, bottom + 24, "Times of each algorithm");
    axis_of_times(f, &x, &y, grid_x);
    for (size_t i = 0; i < count; i++) {
        const bench_point *p = &lines[i].points[0];
        const double middle = TOP + BAR * ((double)i + 0.5);
        fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", left - 8, middle + 4);
        html_text(f, lines[i].name);
        fprintf(f, "</text><g data-line=\"%zu\">", i);
        if (is_positive(p->min) && is_positive(p->max)) {
            fprintf(f, "<rect class=\"band s%zu\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\"/>",
                    i % HTML_COLOURS, place(&x, p->min), middle - 6, place(&x, p->max) - place(&x, p->min),
                    12.0);
        }
        if (is_positive(p->min) && is_positive(p->p95)) {
            fprintf(f, "<rect class=\"band s%zu\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\"/>",
                    i % HTML_COLOURS, place(&x, p->min), middle - 6, place(&x, p->p95) - place(&x, p->min),
                    12.0);
        }
        if (is_positive(p->p50)) {
            fprintf(f, "<rect class=\"m s%zu\" x=\"%.1f\" y=\"%.1f\" width=\"3\" height=\"14\"><title>",
                    i % HTML_COLOURS, place(&x, p->p50) - 1.5, middle - 7);
            html_text(f, lines[i].name);
            fprintf(f, ": %g us</title></rect>", p->p50);
        }
        fputs("</g>\n", f);
    }
    fputs("</svg>\n", f);
}

void bench_plot_legend(FILE *f, const bench_line *lines, size_t count) {
    fputs("<div class=\"legend\">", f);
    for (size_t i = 0; i < count; i++) {
        fprintf(f,
                "<button type=\"button\" aria-pressed=\"true\" data-line=\"%zu\"><svg viewBox=\"0 0 26 8\" "
                "aria-hidden=\"true\"><line x1=\"0\" x2=\"26\" y1=\"4\" y2=\"4\" ",
                i);
        style_of(f, i, "");
        fputs("/></svg>", f);
        html_text(f, lines[i].name);
        fputs("</button>\n", f);
    }
    fputs("</div>\n", f);
}
