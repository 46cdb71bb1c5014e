/* transport/transports.c - the transports of this build. "auto" takes the first. */
#include "transport/transport.h"

const gcoll_transport *const gcoll_transports[] = {&gcoll_transport_tcp, &gcoll_transport_inproc,
                                                   &gcoll_transport_ibverbs, NULL};
