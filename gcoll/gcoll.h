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
 * Read on, from simple to advanced:
 *
 *     gcoll/status.h       status codes and error texts
 *     gcoll/types.h        element types and reduction operations
 *     gcoll/store.h        stores, by which ranks find each other
 *     gcoll/environment.h  a job's rank, size and store from its launcher's variables
 *     gcoll/context.h      contexts, requests, messages between two ranks
 *     gcoll/collectives.h  collectives that block; algorithms by name
 *     gcoll/operations.h   collectives that do not block, and collectives that are prepared once
 *     gcoll/memory.h       buffers in the memory of GPUs
 *     gcoll/region.h       one-sided access: put and get
 *     gcoll/recovery.h     going on after a failure: agreement, and a context of the ranks that are left
 *     gcoll/arrival.h      ranks that are late
 *     gcoll/trace.h        what happened: the last operations of a context
 *     gcoll/device.h       interfaces and devices of this machine
 *     gcoll/ibverbs.h      options for InfiniBand and RoCE
 *     gcoll/plan.h         writing and verifying algorithms
 *     gcoll/simulate.h     what a plan would cost
 */
#ifndef GCOLL_H
#define GCOLL_H

#include "gcoll/arrival.h"
#include "gcoll/collectives.h"
#include "gcoll/context.h"
#include "gcoll/device.h"
#include "gcoll/environment.h"
#include "gcoll/ibverbs.h"
#include "gcoll/memory.h"
#include "gcoll/operations.h"
#include "gcoll/plan.h"
#include "gcoll/recovery.h"
#include "gcoll/region.h"
#include "gcoll/simulate.h"
#include "gcoll/stats.h"
#include "gcoll/status.h"
#include "gcoll/store.h"
#include "gcoll/trace.h"
#include "gcoll/types.h"
#include "gcoll/version.h"

#endif
