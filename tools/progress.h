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

/* Begins work at 0 of 1. `name` is the line's first word and must stay as it is until the end. */
void cli_progress_begin(const char *name);
/* Says which part of the work is done, 0 to 1, and by `format` what is being done; NULL: as said before. Does
 * nothing outside of work. */
void cli_progress(double done, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Takes the line off the terminal. The next cli_progress brings it back. */
void cli_progress_hide(void);
/* Ends work, and takes the line off. */
void cli_progress_end(void);

#ifdef __cplusplus
}
#endif

#endif
