/*
 * gcoll/learn/learn.h - the interface of learning: auto's choice for calls that come often is measured, and
 * replaced if another algorithm is faster.
 *
 *   judge.h  judge.c   what is tried, and what is kept: pure decisions
 *   site.c             kinds of calls, their lessons and times, and the hooks in each call
 *   save.c             what was learned, as a tuning file
 *   tree.c             times go up a tree of the ranks to rank 0, lessons come down it
 *
 * The rest of the core knows it by hooks (context/hooks.h) and as an activity (live/live.h).
 */
#ifndef GCOLL_LEARN_LEARN_H
#define GCOLL_LEARN_LEARN_H

#include "gcoll/live/live.h"

extern const gcoll_activity gcoll_learn_activity;

/* Makes context->learn and its hooks, if the basis of the context lets calls learn. */
gcoll_status gcoll_learn_create(gcoll_context *context);
/* Rank 0, before the endpoint closes: writes what was learned to the file of GCOLL_TUNING_SAVE, if that is
 * set. */
void gcoll_learn_save(gcoll_context *context);
/* Requires a closed endpoint. Does nothing without context->learn. */
void gcoll_learn_destroy(gcoll_context *context);

#endif
