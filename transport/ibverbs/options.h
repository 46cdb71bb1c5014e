/* transport/ibverbs/options.h - the options as an endpoint uses them. Needs no headers of libibverbs. */
#ifndef GCOLL_IB_OPTIONS_H
#define GCOLL_IB_OPTIONS_H

#include "gcoll/base/base.h"
#include "gcoll/ibverbs.h"

/* Completes what the caller gave (NULL: nothing) by the environment and defaults. `device` stays borrowed.
 * INVALID names the field and its variable. */
gcoll_status gcoll_ib_options_read(const gcoll_ibverbs_options *given, gcoll_ibverbs_options *options);

#endif
