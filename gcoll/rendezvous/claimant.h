/* gcoll/rendezvous/claimant.h - who has claimed a rank: a process of a host, and whether it lives
 * (claimant.c). */
#ifndef GCOLL_RENDEZVOUS_CLAIMANT_H
#define GCOLL_RENDEZVOUS_CLAIMANT_H

#include "gcoll/base/base.h"

#define GCOLL_CLAIMANT_NAME 64  /* bytes of a host's name, with the terminator */
#define GCOLL_CLAIMANT_TEXT 160 /* as it stands in the store, with the terminator */
#define GCOLL_CLAIMANT_SAID 128 /* as a message says it, with the terminator */

/* Begins the claim of a rank that has left before all met. */
#define GCOLL_LEFT_MARK '!'

typedef struct gcoll_claimant {
    uint64_t host;  /* gcoll_host_identity */
    uint64_t space; /* inode of the PID namespace; 0: not known */
    uint64_t pid;
    uint64_t start;     /* when the process began, in ticks since the boot; 0: not known */
    uint64_t nonce;     /* of this claim: a process may make several contexts */
    uint64_t waited_ms; /* for its launch, before it claimed the rank */
    char name[GCOLL_CLAIMANT_NAME];
} gcoll_claimant;

typedef enum gcoll_life {
    GCOLL_LIFE_UNKNOWN = 0, /* its process cannot be seen from here */
    GCOLL_LIFE_ALIVE,
    GCOLL_LIFE_DEAD
} gcoll_life;

/* This process, with a fresh nonce. */
gcoll_status gcoll_claimant_self(gcoll_claimant *self);
void gcoll_claimant_write(const gcoll_claimant *claimant, char text[GCOLL_CLAIMANT_TEXT]);
/* False if the text is no claimant's: it comes from the store, where another program may have put it. */
bool gcoll_claimant_read(const char *text, gcoll_claimant *claimant);
/* "process 12 on host 'name'" */
void gcoll_claimant_say(const gcoll_claimant *claimant, char text[GCOLL_CLAIMANT_SAID]);
bool gcoll_claimant_is_process(const gcoll_claimant *a, const gcoll_claimant *b);
/* By the process alone: exact on this host and in this PID namespace, else unknown. */
gcoll_life gcoll_claimant_life(const gcoll_claimant *self, const gcoll_claimant *other);
/* Whether a process that lives seems to be on its way out: it was killed, or its main thread has ended. It
 * may stay alive all the same, by other threads. */
bool gcoll_claimant_is_ending(const gcoll_claimant *self, const gcoll_claimant *other);

#endif
