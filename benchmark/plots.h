/* benchmark/plots.h - pictures of results, as SVG within a page. */
#ifndef GCOLL_BENCH_PLOTS_H
#define GCOLL_BENCH_PLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The times of one algorithm at one size, in microseconds. Negative: not known. */
typedef struct bench_point {
    double bytes;
    double min, p50, p95, p99, max;
    double busbw; /* GB/s */
} bench_point;

/* One algorithm. The name is borrowed. */
typedef struct bench_line {
    const char *name;
    bench_point *points; /* in ascending order of bytes */
    size_t count;
} bench_line;

/* The rules of style that the pictures need, for the page's head. */
extern const char bench_plots_style[];
/* The program of the page: a click on a name in the legend hides its line, or shows it again. */
extern const char bench_plots_script[];

/* Whether the lines have two sizes above 0 at least, so that curves can be drawn. */
bool bench_plots_has_curves(const bench_line *lines, size_t count);
/* A line each: the median over bytes, and the bandwidth over bytes. */
void bench_plot_times(FILE *file, const bench_line *lines, size_t count);
void bench_plot_bandwidth(FILE *file, const bench_line *lines, size_t count);
/* One line's percentiles over bytes, with the axes that all `lines` have in common. */
void bench_plot_percentiles(FILE *file, const bench_line *lines, size_t count, size_t which);
/* For one size: a bar a line, from the smallest time to the largest one. */
void bench_plot_bars(FILE *file, const bench_line *lines, size_t count);
void bench_plot_legend(FILE *file, const bench_line *lines, size_t count);

#endif
