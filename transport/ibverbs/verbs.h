/*
 * transport/ibverbs/verbs.h - the functions of libibverbs, which is opened at run time.
 *
 * The headers are needed to compile; the library is opened at run time, so that a program runs where it is
 * not installed. What the headers define inline (posting, polling, arming) goes through the device's own
 * table and needs no entry here. Names are those of the library without "ibv_".
 */
#ifndef GCOLL_IBVERBS_VERBS_H
#define GCOLL_IBVERBS_VERBS_H

/* Its inline functions convert as they like. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <infiniband/verbs.h>
#pragma GCC diagnostic pop

#include "gcoll/base/base.h"

typedef struct gcoll_verbs {
    struct ibv_device **(*get_device_list)(int *count);
    void (*free_device_list)(struct ibv_device **list);
    const char *(*get_device_name)(struct ibv_device *device);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attributes);
    int (*query_port)(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attributes);
    int (*query_pkey)(struct ibv_context *context, uint8_t port, int index, __be16 *pkey);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *address, size_t bytes, int access);
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
    int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int entries, void *arg,
                                struct ibv_comp_channel *channel, int vector);
    int (*resize_cq)(struct ibv_cq *cq, int entries);
    int (*destroy_cq)(struct ibv_cq *cq);
    int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **arg);
    void (*ack_cq_events)(struct ibv_cq *cq, unsigned int events);
    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask);
    int (*destroy_qp)(struct ibv_qp *qp);
    const char *(*wc_status_str)(enum ibv_wc_status status);
    const char *(*port_state_str)(enum ibv_port_state state);
    /* NULL in libraries before version 32 of rdma-core. */
    ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries, size_t most,
                               uint32_t flags, size_t entry_bytes);
    /* NULL in libraries before versions 34 and 20. */
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova, int fd,
                                    int access);
    struct ibv_mr *(*reg_mr_at)(struct ibv_pd *pd, void *address, size_t bytes, uint64_t iova, int access);
} gcoll_verbs;

/* UNSUPPORTED says what is missing. The library stays loaded: what it has opened cannot be unloaded. */
gcoll_status gcoll_verbs_load(gcoll_verbs *verbs);

/* ibv_query_port, which the headers make of two. Returns 0 or an errno. */
int gcoll_verbs_query_port(const gcoll_verbs *verbs, struct ibv_context *context, uint8_t port,
                           struct ibv_port_attr *attributes);

#endif
