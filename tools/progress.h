/*
 * tools/progress.h - how far a program is, and how long it will still take, on a line of the terminal.
 *
 * The line is for people: where standard error is no terminal, nothing is written. It comes after 2 s, is
 * rewritten at most 5 times a second, and no longer than the terminal is wide. It has no escape codes.
 * A program has one such line, as it has one standard error. Whoever writes to the terminal hides it before;
 * cli_complain does. All functions may be called by any thread.
 */
#ifndef GCOLL_CLI_PROGRESS_H
#define GCOLL_CLI_PROGRESS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Begins work of `total` units, which should take about the same time each. `name` is the line's first word
 * and must stay as it is until the end. */
void cli_progress_begin(const char *name, double total);
/* Says how many units are done by now, and by `format` what is being done; NULL: as said before. Like the
 * next two, it does nothing outside of work. */
void cli_progress(double done, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Says that so many more units are done. */
void cli_progress_add(double units);
/* Takes the line off the terminal. It comes back when work goes on. */
void cli_progress_hide(void);
/* Ends work, and takes the line off. */
void cli_progress_end(void);

#ifdef __cplusplus
}
#endif

#endif
