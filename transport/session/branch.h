/*
 * transport/session/branch.h - endpoints that share the connections of another endpoint, their trunk.
 *
 * A branch is the endpoint of a group of the trunk's ranks. It has a number, which all ranks of the group
 * know, and for each peer a channel: flow control and matching of its own, on the trunk's session with that
 * peer. Frames of a channel follow a GROUP frame with the number. A frame of a number that this rank does not
 * know belongs to a group that it has left, and is thrown away; a probe of it is answered by a goodbye. All
 * of them go by the session's own connection, also where large messages of the trunk are striped over others:
 * so no goodbye or abort of a group overtakes its messages, and none of its messages another.
 *
 * A trunk that is closed while it has branches says so to its peers and lives on for them.
 */
#ifndef GCOLL_BRANCH_H
#define GCOLL_BRANCH_H

#include "transport/session/session.h"

typedef enum gcoll_channel_state {
    GCOLL_CHANNEL_OPEN,
    GCOLL_CHANNEL_DEPARTED, /* the peer left the group; complete messages of its may still be received */
    GCOLL_CHANNEL_FAILED
} gcoll_channel_state;

/* The state of a branch for one peer. */
struct gcoll_channel {
    gcoll_flow flow; /* the first member */
    gcoll_branch *branch;
    gcoll_session *session;
    uint32_t rank; /* the peer's, of the branch */
    gcoll_channel_state state;
    uint32_t posted; /* receives that somebody waits for; they count in session->posted, too */

    bool ping, pong, credit; /* are to be said */
    uint32_t answers;        /* the number of the PING that a pong answers */
    bool speaks;             /* in the list of that name of the session */
    bool told;               /* the peer aborted the group: it need not be told of our abort */
    gcoll_channel *next_speaking;
    gcoll_channel *next, **link; /* of the session */
    gcoll_map_item item;         /* in net->channel_map */

    uint64_t data_end, taken; /* where its latest message ends in the stream; how much of that was
                               * acknowledged when it was last looked at */
    uint64_t heard;           /* session->heard, the same */

    gcoll_channel *next_fault; /* in net->faults */
    gcoll_status fault;        /* to be reported; GCOLL_OK: none */
    char *fault_text;          /* NULL: no memory for it */
};

struct gcoll_branch {
    gcoll_net *net;
    uint64_t number;
    uint32_t rank, size;
    uint32_t *members;        /* the trunk's rank of each rank */
    gcoll_channel **channels; /* by rank; NULL until needed */
    gcoll_events events;
    gcoll_net_voice voice;
    uint32_t moves; /* as net->moves */
    bool leaving; /* it aborted or closes, or its trunk aborted: messages are dropped, nothing is reported */
    gcoll_note *note;           /* of its abort, if it aborted by itself and there was memory for it */
    gcoll_branch *next, **link; /* in net->branches */
    gcoll_map_item item;        /* in net->branch_map */
};

extern const gcoll_transport gcoll_transport_branch;

/* The channel of a group on this session; made if need be. NULL: this rank is not in such a group, or memory
 * ran out, which progress then tells. */
gcoll_channel *gcoll_channel_find(gcoll_session *session, uint64_t number);
/* Lists it among those that have something to say. */
void gcoll_channel_speak(gcoll_channel *channel);
/* The peer asks whether this rank is alive in a group that it does not know. */
void gcoll_branch_on_strange_ping(gcoll_session *session, uint64_t number);
/* What the peer said of the group. */
void gcoll_channel_aborted(gcoll_channel *channel, const gcoll_note *note);
void gcoll_channel_departed(gcoll_channel *channel);

/* The session is connected: tells the peer of branches that aborted before. */
void gcoll_branches_connected(gcoll_session *session);
/* Its lane stands. */
void gcoll_channels_connect(gcoll_session *session);
/* The peer closed its endpoint, which lives on for its branches. */
void gcoll_session_gone(gcoll_session *session);
/* The session has failed or departed, as its verdict says. is_told: the branches know the cause. */
void gcoll_branches_announce(gcoll_session *session, bool is_told);
/* The peer's trunk aborted, and with it all of its branches. */
void gcoll_branches_aborted(gcoll_net *net, const gcoll_session *from, const gcoll_note *note);
/* Our trunk aborts. */
void gcoll_branches_break(gcoll_net *net, const gcoll_note *note);
/* Ranks are those of the trunk. */
void gcoll_branches_witnessed(gcoll_net *net, uint32_t by, uint32_t about, int64_t ago_ms);
/* Reports channels that failed by themselves. */
void gcoll_branches_report(gcoll_net *net);
/* The trunk is closed for its caller, and lives on for its branches. */
void gcoll_net_live_on(gcoll_net *net, int64_t limit_ms);

/* The same in a forked child: forgets the trunk's messages, and tells nobody. */
void gcoll_net_forget_own(gcoll_net *net);

#endif
