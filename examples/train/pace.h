/* pace.h - the clock, and ranks that are slower than they need be. */
#ifndef TRAIN_PACE_H
#define TRAIN_PACE_H

double clock_now(void); /* seconds since some time in the past */

typedef struct pace {
    double least; /* seconds that the computation for one image lasts at least */
    double slow;  /* so much longer than that, or than it took: 0.1 is ten percent */
} pace;

/* The computation for an image began at `begin` and is over: sleeps for what it should have lasted beyond
 * that. */
void pace_keep(const pace *self, double begin);

#endif
