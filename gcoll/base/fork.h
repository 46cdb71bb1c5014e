/*
 * gcoll/base/fork.h - counts forks of this process, and keeps a child from sharing its descriptors.
 *
 * A forked child has copies of its parent's descriptors. A copy of a socket keeps the connection open when
 * the parent dies, so that peers do not learn of it, and lets the child write into the parent's stream. So
 * whoever owns such a descriptor enters it here. In the child each of them is replaced by one that leads
 * nowhere, under the same number: to close it once more, as its owner may do, closes nothing else.
 *
 * Programs that are started by vfork, posix_spawn or exec see nothing of this: they get no descriptor of
 * gcoll's.
 */
#ifndef GCOLL_FORK_H
#define GCOLL_FORK_H

#include "gcoll/base/base.h"

/* How often this process and those before it forked since gcoll_fork_watch was called first. What was made
 * when the number was another one belongs to the process that this one was forked from. */
extern uint32_t gcoll_forks __attribute__((visibility("hidden")));

/* Counts forks from now on. GCOLL_ERR_NO_MEMORY if the system cannot. */
gcoll_status gcoll_fork_watch(void);

/* A descriptor that a child must not share. Its owner allocates it, zeroed, and leaves before freeing it. */
typedef struct gcoll_descriptor {
    int fd;
    struct gcoll_descriptor *next, **link;
} gcoll_descriptor;

/* Between the two no thread forks: for making a descriptor and entering it, and for leaving and closing one.
 * Not to be nested. */
void gcoll_fork_hold(void);
void gcoll_fork_release(void);
/* Forks must be held. To leave one that is not entered does nothing. */
void gcoll_descriptor_enter(gcoll_descriptor *descriptor, int fd);
void gcoll_descriptor_leave(gcoll_descriptor *descriptor);

#endif
