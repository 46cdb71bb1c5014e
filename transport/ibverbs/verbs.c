/* transport/ibverbs/verbs.c - opens libibverbs and finds its functions. */
#include "transport/ibverbs/verbs.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const char library_name[] = "libibverbs.so.1";

typedef struct entry {
    const char *name;
    size_t offset;
    bool is_needed;
} entry;

#define ENTRY(name)                                                                                          \
    { "ibv_" #name, offsetof(gcoll_verbs, name), true }

static const entry entries[] = {
    ENTRY(get_device_list),
    ENTRY(free_device_list),
    ENTRY(get_device_name),
    ENTRY(open_device),
    ENTRY(close_device),
    ENTRY(query_device),
    ENTRY(query_port),
    ENTRY(query_pkey),
    ENTRY(alloc_pd),
    ENTRY(dealloc_pd),
    ENTRY(reg_mr),
    ENTRY(dereg_mr),
    ENTRY(create_comp_channel),
    ENTRY(destroy_comp_channel),
    ENTRY(create_cq),
    ENTRY(resize_cq),
    ENTRY(destroy_cq),
    ENTRY(get_cq_event),
    ENTRY(ack_cq_events),
    ENTRY(create_qp),
    ENTRY(modify_qp),
    ENTRY(destroy_qp),
    ENTRY(wc_status_str),
    ENTRY(port_state_str),
    {"_ibv_query_gid_table", offsetof(gcoll_verbs, query_gid_table), false},
    {"ibv_reg_dmabuf_mr", offsetof(gcoll_verbs, reg_dmabuf_mr), false},
    {"ibv_reg_mr_iova", offsetof(gcoll_verbs, reg_mr_at), false},
};

gcoll_status gcoll_verbs_load(gcoll_verbs *verbs) {
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "ibverbs: the library of rdma-core cannot be loaded: %s",
                           dlerror());
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        void *found = dlsym(library, entries[i].name);
        if (!found && entries[i].is_needed) {
            dlclose(library);
            return gcoll_error(GCOLL_ERR_UNSUPPORTED, "ibverbs: %s has no function %s", library_name,
                               entries[i].name);
        }
        memcpy((char *)verbs + entries[i].offset, &found, sizeof found);
    }
    dlclose(library);
    return GCOLL_OK;
}

int gcoll_verbs_query_port(const gcoll_verbs *verbs, struct ibv_context *context, uint8_t port,
                           struct ibv_port_attr *attributes) {
    struct verbs_context *extended = verbs_get_ctx_op(context, query_port);
    memset(attributes, 0, sizeof *attributes);
    if (extended)
        return extended->query_port(context, port, attributes, sizeof *attributes);
    return verbs->query_port(context, port, (struct _compat_ibv_port_attr *)(void *)attributes);
}
