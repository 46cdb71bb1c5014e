/*
 * tools/progress.c - how far a program is, on a line of the terminal.
 *
 * The line is erased by spaces: a terminal without escape codes shows it as well. Text that is no printable
 * ASCII, for instance from the name of a file, is shown as question marks.
 */
#include "tools/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define QUIET_NS   INT64_C(2000000000) /* before the first line */
#define PERIOD_NS  INT64_C(200000000)  /* between two lines */
#define WIDTH      80u                 /* of a terminal that does not say */
#define MOST_WIDTH 160u                /* of a line */

/* The program's line. Standard error's own lock guards it. */
static struct line {
    const char *name; /* NULL: no work, or no terminal */
    char doing[MOST_WIDTH];
    double done, total;
    int64_t begun_ns, advanced_ns, drawn_ns; /* advanced_ns: when `done` grew last */
    size_t shown;                            /* letters on the terminal now */
} line;

static int64_t now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The last column stays empty: a letter there may wrap. */
static size_t width(void) {
    struct winsize size;
    const size_t columns =
        ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : WIDTH;
    return columns - 1 < MOST_WIDTH ? columns - 1 : MOST_WIDTH;
}

/* Replaces the text on the line. The new text is ASCII; spaces overwrite the end of a longer old text. */
static void show(const char *text, size_t letters) {
    char bytes[2 * MOST_WIDTH + 3];
    size_t used = 0;
    const size_t wide = width(), shown = line.shown < wide ? line.shown : wide;
    letters = letters < wide ? letters : wide;
    bytes[used++] = '\r';
    memcpy(bytes + used, text, letters);
    used += letters;
    if (shown > letters) {
        memset(bytes + used, ' ', shown - letters);
        used += shown - letters;
    }
    if (letters == 0)
        bytes[used++] = '\r';
    (void)fwrite(bytes, 1, used, stderr);
    (void)fflush(stderr);
    line.shown = letters;
}

/* 12 s, 3 min 5 s, 2 h 10 min */
static void say_time(double seconds, char text[32]) {
    const long s = seconds < 1e7 ? lround(ceil(seconds)) : 10000000;
    if (s < 60)
        (void)snprintf(text, 32, "%ld s", s);
    else if (s < 3600)
        (void)snprintf(text, 32, "%ld min %ld s", s / 60, s % 60);
    else
        (void)snprintf(text, 32, "%ld h %ld min", s / 3600, s / 60 % 60);
}

/* By the pace until `done` grew last; if that end has passed, by the pace until now. */
static double seconds_left(int64_t now) {
    const double part = line.done / line.total, elapsed = (double)(now - line.begun_ns) / 1e9;
    const double left = (double)(line.advanced_ns - line.begun_ns) / 1e9 / part - elapsed;
    return left > 0 || part >= 1 ? left : elapsed * (1 - part) / part;
}

static void draw(int64_t now) {
    char text[MOST_WIDTH + 64], left[32] = "";
    if (line.done > 0)
        say_time(seconds_left(now), left);
    int length =
        snprintf(text, sizeof text, "%s: %.0f %%%s%s%s%s%s", line.name, floor(100 * line.done / line.total),
                 left[0] ? ", " : "", left, left[0] ? " left" : "", line.doing[0] ? ": " : "", line.doing);
    length = length < (int)sizeof text ? length : (int)sizeof text - 1;
    for (int i = 0; i < length; i++)
        if (text[i] < ' ' || text[i] > '~')
            text[i] = '?';
    show(text, length > 0 ? (size_t)length : 0);
    line.drawn_ns = now;
}

static void hide(void) {
    if (line.shown > 0)
        show("", 0);
}

/* Estimates may be worse later: what was done stays done. */
static void advance(double done) {
    const int64_t now = now_ns();
    done = done < line.total ? done : line.total;
    if (done > line.done) {
        line.done = done;
        line.advanced_ns = now;
    }
    if (now - line.begun_ns >= QUIET_NS && now - line.drawn_ns >= PERIOD_NS)
        draw(now);
}

void cli_progress_begin(const char *name, double total) {
    flockfile(stderr);
    if (isatty(STDERR_FILENO) && total > 0)
        line = (struct line){.name = name, .total = total, .begun_ns = now_ns()};
    funlockfile(stderr);
}

void cli_progress(double done, const char *format, ...) {
    flockfile(stderr);
    if (line.name && format) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(line.doing, sizeof line.doing, format, arguments);
        va_end(arguments);
    }
    if (line.name)
        advance(done);
    funlockfile(stderr);
}

void cli_progress_add(double units) {
    flockfile(stderr);
    if (line.name)
        advance(line.done + units);
    funlockfile(stderr);
}

void cli_progress_hide(void) {
    flockfile(stderr);
    hide();
    funlockfile(stderr);
}

void cli_progress_end(void) {
    flockfile(stderr);
    hide();
    line.name = NULL;
    funlockfile(stderr);
}
