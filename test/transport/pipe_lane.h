/* test/transport/pipe_lane.h - what a test makes the lane of pipes do wrong. */
#ifndef GCOLL_TEST_PIPE_LANE_H
#define GCOLL_TEST_PIPE_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/lane.h"

/* Each end says where its pipe is, and then that it has opened the other's. It stands when it has done so,
 * and the other has. */
typedef enum pipe_moment {
    PIPE_NEVER = 0,
    PIPE_AT_BEGIN,  /* before it has said anything */
    PIPE_AT_PLACE,  /* when it hears where the other's pipe is */
    PIPE_AT_OPENED, /* when it hears that the other has opened its own: the other stands already */
    PIPE_MOMENTS
} pipe_moment;

#define PIPE_RANKS 64
/* Frames that a poll takes, as a device's queue is polled in portions. */
#define PIPE_FRAMES_A_POLL 32

/* By rank. Zeroed, all works. */
typedef struct pipe_faults {
    bool absent[PIPE_RANKS]; /* cannot be opened */
    pipe_moment refuses[PIPE_RANKS];
    bool mute[PIPE_RANKS];    /* does not say that it has opened the other's pipe */
    bool holds[PIPE_RANKS];   /* reads nothing from its pipes */
    bool breaks[PIPE_RANKS];  /* its pipes break at the next poll */
    bool lingers[PIPE_RANKS]; /* says for ever that something has not arrived yet */
    bool flushes[PIPE_RANKS]; /* its flush alone writes, and tells nobody that something moved */
} pipe_faults;
extern pipe_faults pipe_faulty;

extern const gcoll_lane pipe_lane;

/* Lets the pipe that the session writes to hold more, as if the peer had read, and wakes who writes to it.
 * May be called while another thread makes progress. */
void pipe_widen(const gcoll_session *session);

#endif
