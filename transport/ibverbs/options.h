/* transport/ibverbs/options.h - the options as an endpoint uses them. Needs no headers of libibverbs. */
#ifndef GCOLL_IB_OPTIONS_H
#define GCOLL_IB_OPTIONS_H

#include "gcoll/base/base.h"
#include "gcoll/ibverbs.h"
#include "transport/choice.h"

/* The options of the lane; ended by name NULL. */
extern const gcoll_lane_option gcoll_ib_lane_options[];

/* Checks options that are complete, as gcoll_lane_complete makes them. NULL: takes them from the environment
 * and defaults. `device` stays borrowed. INVALID names the field or the variable. */
gcoll_status gcoll_ib_options_read(const gcoll_ibverbs_options *given, gcoll_ibverbs_options *options);

#endif
