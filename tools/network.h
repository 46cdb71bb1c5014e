/* tools/network.h - a network file: the hosts of a job, and what messages between its ranks cost. */
#ifndef GCOLL_TOOL_NETWORK_H
#define GCOLL_TOOL_NETWORK_H

#include "gcoll/simulate.h"
#include "tools/cli.h"

/* All zero: no file was given, and there is nothing to free. */
typedef struct tool_network {
    const char *path; /* borrowed */
    gcoll_network *links;
    uint32_t ranks, hosts;
    uint32_t *host; /* by rank: 0 .. hosts-1 */
    uint32_t most;  /* ranks on the largest host */
    /* Mean links over the pairs of ranks on different hosts, and on the same host. If there are no such
     * pairs, both are the same. */
    gcoll_simulate_link between, within;
} tool_network;

/* Reads a network file (docs/network.md), whose name must outlive the network. On success *network is
 * replaced, and what it held is not freed. False: it has been said what is wrong. */
bool tool_network_read(const char *flag, const char *path, tool_network *network);
/* The same for a row of flags; what the network held is freed. */
cli_reader tool_read_network;
void tool_network_free(tool_network *network);

#endif
