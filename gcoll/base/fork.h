/*
 * gcoll/base/fork.h - counts forks of this process, and keeps a forked child from sharing its descriptors.
 *
 * A forked child has copies of its parent's descriptors. A copy of a socket keeps the connection open after
 * the parent dies, so peers do not notice the death. It also lets the child write into the parent's stream.
 * So the owner of such a descriptor enters it here. In the child, each entered descriptor is replaced under
 * the same number by one that leads nowhere. The owner may close it again, and nothing else is closed.
 *
 * Programs started by vfork, posix_spawn or exec get no descriptor of gcoll.
 */
#ifndef GCOLL_FORK_H
#define GCOLL_FORK_H

#include "gcoll/base/base.h"

/* The number of forks of this process and its ancestors since the first call of gcoll_fork_watch. An
 * object that was made under another number belongs to the parent process. */
extern uint32_t gcoll_forks __attribute__((visibility("hidden")));

/* Counts forks from now on. GCOLL_ERR_NO_MEMORY if the system cannot. */
gcoll_status gcoll_fork_watch(void);

/* A descriptor that a child must not share. The owner allocates it, zeroed, and must leave before freeing
 * it. */
typedef struct gcoll_descriptor {
    int fd;
    struct gcoll_descriptor *next, **link;
} gcoll_descriptor;

/* No thread forks between hold and release. Hold while making and entering a descriptor, and while
 * leaving and closing it. Not to be nested. */
void gcoll_fork_hold(void);
void gcoll_fork_release(void);
/* Require forks to be held. Leaving a descriptor that is not entered does nothing. */
void gcoll_descriptor_enter(gcoll_descriptor *descriptor, int fd);
void gcoll_descriptor_leave(gcoll_descriptor *descriptor);

#endif
