/* gcoll/rendezvous/claimant.h - the claimant of a rank: a process on a host, and whether it is alive
 * (claimant.c). */
#ifndef GCOLL_RENDEZVOUS_CLAIMANT_H
#define GCOLL_RENDEZVOUS_CLAIMANT_H

#include "gcoll/base/base.h"

#define GCOLL_CLAIMANT_NAME 64  /* room for a host's name, with the NUL */
#define GCOLL_CLAIMANT_TEXT 160 /* room for a claimant's text in the store, with the NUL */
#define GCOLL_CLAIMANT_SAID 128 /* room for a claimant's text in a message, with the NUL */

/* First byte of the claim of a process that failed to join, and left. */
#define GCOLL_LEFT_MARK '!'

typedef struct gcoll_claimant {
    uint64_t host;  /* gcoll_host_identity */
    uint64_t space; /* inode of the PID namespace; 0: unknown */
    uint64_t pid;
    uint64_t start;     /* start of the process, in ticks since the boot; 0: unknown */
    uint64_t nonce;     /* random, for this claim: a process may make several contexts */
    uint64_t waited_ms; /* time that it waited for a launch before it claimed the rank */
    char name[GCOLL_CLAIMANT_NAME];
} gcoll_claimant;

typedef enum gcoll_life {
    GCOLL_LIFE_UNKNOWN = 0, /* this rank cannot see the process */
    GCOLL_LIFE_ALIVE,
    GCOLL_LIFE_DEAD
} gcoll_life;

/* Describes this process, with a new nonce. */
gcoll_status gcoll_claimant_self(gcoll_claimant *self);
/* Writes a claimant as text for the store. */
void gcoll_claimant_write(const gcoll_claimant *claimant, char text[GCOLL_CLAIMANT_TEXT]);
/* Parses a claimant from the store. Returns false if it is none: another program may have written the
 * text. */
bool gcoll_claimant_read(const char *text, gcoll_claimant *claimant);
/* Describes a claimant for a message: "process 12 on host 'name'". */
void gcoll_claimant_say(const gcoll_claimant *claimant, char text[GCOLL_CLAIMANT_SAID]);
/* Returns the time since the boot of this host, in ms: the clock by which processes start. */
int64_t gcoll_claimant_clock_ms(void);
/* Returns for how long this process has existed, in ms, rounded up to a tick; 0: unknown. */
int64_t gcoll_claimant_age_ms(const gcoll_claimant *self);
/* Returns whether both claimants are the same process. */
bool gcoll_claimant_is_process(const gcoll_claimant *a, const gcoll_claimant *b);
/* Returns whether the other claimant's process lives. This is exact for a process on this host in this PID
 * namespace, and unknown for others. */
gcoll_life gcoll_claimant_life(const gcoll_claimant *self, const gcoll_claimant *other);
/* Returns whether a living process seems to be ending: it was killed, or its main thread has ended. Its other
 * threads may keep it alive all the same. */
bool gcoll_claimant_is_ending(const gcoll_claimant *self, const gcoll_claimant *other);

#endif
