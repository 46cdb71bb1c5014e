/*
 * gcoll/gcoll.h - the whole public interface of gcoll, a library of collective operations without MPI.
 *
 * The shortest way: open a store that all ranks can see, create a context, call a collective.
 *
 *     gcoll_store *store;
 *     gcoll_context *context;
 *     gcoll_context_options options;
 *     gcoll_store_open("file:/tmp/rendezvous", 30000, &store);
 *     gcoll_context_options_init(&options);
 *     options.rank = rank;
 *     options.size = size;
 *     options.store = store;
 *     gcoll_context_create(&options, &context);
 *     gcoll_allreduce(context, NULL, data, count, GCOLL_FLOAT32, GCOLL_SUM, NULL);
 *     gcoll_context_destroy(context);
 *     gcoll_store_destroy(store);
 *
 * Read on in: gcoll/status.h (errors), gcoll/types.h (types and operations), gcoll/store.h (rendezvous),
 * gcoll/context.h (contexts, requests, pairs), gcoll/collectives.h (blocking collectives, algorithms by
 * name), gcoll/operations.h (started and persistent ones), gcoll/memory.h (buffers on GPUs), gcoll/region.h
 * (one-sided access), gcoll/plan.h (writing algorithms), gcoll/simulate.h (what plans would cost),
 * gcoll/arrival.h (ranks that are late).
 */
#ifndef GCOLL_H
#define GCOLL_H

#include "gcoll/arrival.h"
#include "gcoll/collectives.h"
#include "gcoll/context.h"
#include "gcoll/device.h"
#include "gcoll/ibverbs.h"
#include "gcoll/memory.h"
#include "gcoll/operations.h"
#include "gcoll/plan.h"
#include "gcoll/region.h"
#include "gcoll/simulate.h"
#include "gcoll/status.h"
#include "gcoll/store.h"
#include "gcoll/types.h"
#include "gcoll/version.h"

#endif
