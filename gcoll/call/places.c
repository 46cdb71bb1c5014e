/* gcoll/call/places.c - finds the memory in which each buffer lies, and decides where several buffers of
 * one process are reduced. */
#include <stdio.h>
#include <string.h>

#include "gcoll/call/call.h"

/* ---- Names -------------------------------------------------------------------------------- */

static const char *const kind_names[GCOLL_MEMORY_KIND_COUNT] = {"find", "host", "pinned", "managed",
                                                                "device"};
static const char *const local_names[GCOLL_MEMORY_LOCAL_COUNT] = {"auto", "host", "device", "peer", "nccl"};

const char *gcoll_memory_kind_name(gcoll_memory_kind kind) {
    return (unsigned)kind < GCOLL_MEMORY_KIND_COUNT ? kind_names[kind] : "?";
}

const char *gcoll_memory_local_name(gcoll_memory_local local) {
    return (unsigned)local < GCOLL_MEMORY_LOCAL_COUNT ? local_names[local] : "?";
}

gcoll_status gcoll_memory_local_parse(const char *name, gcoll_memory_local *local) {
    if (!local)
        return gcoll_error(GCOLL_ERR_INVALID, "local: is NULL");
    for (unsigned i = 0; name && i < GCOLL_MEMORY_LOCAL_COUNT; i++)
        if (strcmp(name, local_names[i]) == 0) {
            *local = (gcoll_memory_local)i;
            return GCOLL_OK;
        }
    return gcoll_error(GCOLL_ERR_INVALID, "local: is '%.40s'; allowed are auto, host, device, peer, nccl",
                       name ? name : "NULL");
}

void gcoll_memory_init(gcoll_memory *memory) {
    memset(memory, 0, sizeof *memory);
    memory->struct_size = sizeof *memory;
    memory->device = GCOLL_ANY_DEVICE;
}

/* ---- Where buffers lie -------------------------------------------------------------------- */

static gcoll_status check_declared(const gcoll_memory *given, const gcoll_place *place, const char *name,
                                   uint32_t k) {
    const bool is_on_device = place->kind >= GCOLL_MEMORY_MANAGED;
    if (given->kind != GCOLL_MEMORY_FIND && given->kind != place->kind)
        return gcoll_error(GCOLL_ERR_INVALID, "options.memory.kind: is %s, but %s[%u] lies in %s memory",
                           gcoll_memory_kind_name(given->kind), name, k, gcoll_memory_kind_name(place->kind));
    if (is_on_device && given->device != GCOLL_ANY_DEVICE && (uint32_t)given->device != place->device)
        return gcoll_error(GCOLL_ERR_INVALID, "options.memory.device: is %d, but %s[%u] lies on device %u",
                           given->device, name, k, place->device);
    return GCOLL_OK;
}

static gcoll_status find(gcoll_acceleration *acceleration, const gcoll_memory *given, const void *buffer,
                         const char *name, uint32_t k, uint32_t *memory) {
    gcoll_place place = {.kind = GCOLL_MEMORY_HOST};
    *memory = GCOLL_HOST_MEMORY;
    if (!buffer)
        return GCOLL_OK;
    gcoll_status status = gcoll_memory_locate(acceleration, buffer, &place);
    if (status != GCOLL_OK)
        return gcoll_error(status, "%s[%u]: %s", name, k, gcoll_last_error());
    if (place.kind >= GCOLL_MEMORY_MANAGED) {
        if (place.device >= GCOLL_MAX_DEVICES)
            return gcoll_error(GCOLL_ERR_UNSUPPORTED, "%s[%u]: lies on device %u; allowed are 0 to %u", name,
                               k, place.device, GCOLL_MAX_DEVICES - 1u);
        *memory = GCOLL_DEVICE_MEMORY(place.device);
    }
    return check_declared(given, &place, name, k);
}

/* Looks up the memory of every buffer. *found: some lie in device memory. */
static gcoll_status find_all(gcoll_arguments *arguments, gcoll_acceleration *acceleration,
                             const gcoll_memory *given, bool *found) {
    const gcoll_call *call = &arguments->call;
    uint32_t *in = gcoll_memory_room(acceleration), *out = in + call->buffers;
    uint32_t hash = 1;
    *found = false;
    for (uint32_t k = 0; k < call->buffers; k++) {
        gcoll_status status = find(acceleration, given, arguments->buffers.out[k], "output", k, &out[k]);
        in[k] = out[k];
        if (status == GCOLL_OK && !call->in_place)
            status = find(acceleration, given, arguments->buffers.in[k], "input", k, &in[k]);
        if (status != GCOLL_OK)
            return status;
        if (!arguments->buffers.out[k]) /* a missing buffer counts as lying where its partner lies */
            out[k] = in[k];
        else if (!call->in_place && !arguments->buffers.in[k])
            in[k] = out[k];
        const bool is_on_device = in[k] != GCOLL_HOST_MEMORY || out[k] != GCOLL_HOST_MEMORY;
        const bool is_there = arguments->buffers.out[k] || (!call->in_place && arguments->buffers.in[k]);
        if (given->streams && given->streams[k] && is_there && !is_on_device)
            return gcoll_error(GCOLL_ERR_INVALID,
                               "options.memory.streams[%u]: is a stream, but the buffer lies in host memory, "
                               "which is read and written from the call on; wait for it, and pass NULL",
                               k);
        *found = *found || is_on_device;
        hash = (hash * 31 + in[k]) * 31 + out[k];
    }
    if (!*found)
        return GCOLL_OK;
    arguments->call.places = hash ? hash : 1;
    arguments->blocks.in_memory = in;
    arguments->blocks.out_memory = out;
    return GCOLL_OK;
}

/* Refuses device memory in a list: devices cannot gather and scatter it. */
static gcoll_status refuse_list(const gcoll_list *list, const char *name, gcoll_acceleration *acceleration,
                                const gcoll_memory *given) {
    for (uint32_t k = 0; k < list->entries; k++) {
        uint32_t memory;
        const void *buffer = list->offsets[k + 1] > list->offsets[k] ? list->at[k] : NULL;
        gcoll_status status = find(acceleration, given, buffer, name, k, &memory);
        if (status == GCOLL_OK && memory != GCOLL_HOST_MEMORY)
            status = gcoll_error(GCOLL_ERR_UNSUPPORTED,
                                 "%s[%u]: lies in the memory of device %u; lists of buffers must lie in host "
                                 "memory",
                                 name, k, memory - 1);
        if (status != GCOLL_OK)
            return status;
    }
    return GCOLL_OK;
}

static gcoll_status refuse_lists(const gcoll_arguments *arguments, gcoll_acceleration *acceleration,
                                 const gcoll_memory *given) {
    gcoll_status status = refuse_list(&arguments->buffers.in_list, "inputs", acceleration, given);
    return status == GCOLL_OK ? refuse_list(&arguments->buffers.out_list, "outputs", acceleration, given)
                              : status;
}

/* ---- Where several buffers are reduced ---------------------------------------------------- */

/* Cost model in seconds: the start of a copy or kernel; one byte between host and device, within a
 * device, from a peer device, and reduced by the host. Orders of magnitude suffice, because the costs of the
 * ways differ by as much. */
#define BEGIN_S       8e-6
#define CROSS_S_BYTE  (1 / 12e9)
#define DEVICE_S_BYTE (1 / 500e9)
#define PEER_S_BYTE   (1 / 20e9)
#define REDUCE_S_BYTE (1 / 10e9)

/* How the buffers are spread over memories. */
typedef struct census {
    uint32_t buffers, memories, most; /* most: buffers in the memory that holds most of them */
    uint32_t memory;                  /* memory of the first output */
    bool has_host;                    /* some buffers lie in host memory */
    bool is_separate;                 /* each buffer is on a device of its own */
    bool has_targets;                 /* each memory with several inputs also has an output */
} census;

static census count(const gcoll_arguments *arguments) {
    const uint32_t n = arguments->call.buffers;
    const uint32_t *in = arguments->blocks.in_memory, *out = arguments->blocks.out_memory;
    census c = {.buffers = n, .memory = out[0], .has_targets = true};
    for (uint32_t k = 0; k < n; k++) {
        uint32_t alike = 0, first = k;
        bool has_target = in[k] == GCOLL_HOST_MEMORY;
        for (uint32_t j = 0; j < n; j++) {
            alike += in[j] == in[k];
            first = in[j] == in[k] && j < first ? j : first;
            has_target = has_target || out[j] == in[k];
        }
        c.memories += first == k;
        c.most = alike > c.most ? alike : c.most;
        c.has_host = c.has_host || in[k] == GCOLL_HOST_MEMORY || out[k] == GCOLL_HOST_MEMORY;
        c.has_targets = c.has_targets && (has_target || alike == 1);
    }
    c.is_separate = c.memories == n && !c.has_host;
    return c;
}

static double cost_of(const census *c, gcoll_local local, double bytes) {
    const double folded = BEGIN_S + (c->most + 1) * bytes * DEVICE_S_BYTE;
    if (local == GCOLL_LOCAL_HOST) /* copies between the host and one device run one after the other */
        return 2 * c->most * (BEGIN_S + bytes * CROSS_S_BYTE) + (c->buffers - 1) * bytes * REDUCE_S_BYTE;
    if (local == GCOLL_LOCAL_DEVICE)
        return (c->most > 1 ? 2 * folded : 0) + 2 * (BEGIN_S + bytes * CROSS_S_BYTE) +
               (c->memories - 1) * bytes * REDUCE_S_BYTE;
    return 2 * (folded + (c->memories - 1) * bytes * PEER_S_BYTE) + 2 * (BEGIN_S + bytes * CROSS_S_BYTE);
}

/* Whether the device of the first output can access the memory of all buffers, to reduce and to copy. */
static gcoll_status check_reach(gcoll_acceleration *acceleration, const gcoll_arguments *arguments,
                                gcoll_reach reach) {
    const uint32_t to = arguments->blocks.out_memory[0];
    for (uint32_t k = 0; k < arguments->call.buffers; k++) {
        const uint32_t memories[] = {arguments->blocks.in_memory[k], arguments->blocks.out_memory[k]};
        for (int i = 0; i < 2; i++) {
            if (to == GCOLL_HOST_MEMORY || memories[i] == GCOLL_HOST_MEMORY)
                return gcoll_error(GCOLL_ERR_UNSUPPORTED, "buffer %u lies in host memory",
                                   to == GCOLL_HOST_MEMORY ? 0 : k);
            if (memories[i] == to)
                continue;
            gcoll_status status = gcoll_memory_reaches(acceleration, reach, to, memories[i]);
            if (status != GCOLL_OK)
                return status;
        }
    }
    return GCOLL_OK;
}

static gcoll_local cheapest(gcoll_acceleration *acceleration, const gcoll_arguments *arguments,
                            double bytes) {
    const census c = count(arguments);
    if (!c.has_targets)
        return GCOLL_LOCAL_HOST;
    const double host = cost_of(&c, GCOLL_LOCAL_HOST, bytes), device = cost_of(&c, GCOLL_LOCAL_DEVICE, bytes);
    const gcoll_local best = host < device ? GCOLL_LOCAL_HOST : GCOLL_LOCAL_DEVICE;
    if (c.has_host || c.memories == 1 ||
        cost_of(&c, GCOLL_LOCAL_PEER, bytes) >= (host < device ? host : device) ||
        check_reach(acceleration, arguments, GCOLL_REACH_PEER) != GCOLL_OK)
        return best;
    return GCOLL_LOCAL_PEER;
}

/* NCCL 2.10, the oldest that is used, has the first ten types, and no operations beyond arithmetic and
 * extremes. */
static gcoll_status check_nccl_has(gcoll_type type, gcoll_op op) {
    if (type > GCOLL_FLOAT64)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "it has no type '%s'", gcoll_type_name(type));
    if (op > GCOLL_AVG)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "it has no operation '%s'", gcoll_op_name(op));
    return GCOLL_OK;
}

/* Decides where several buffers are reduced. Only the host can apply a user's function, or reduce where
 * no output has room for a whole vector. */
static gcoll_status choose_local(gcoll_arguments *arguments, gcoll_acceleration *acceleration,
                                 gcoll_memory_local local) {
    gcoll_call *call = &arguments->call;
    const bool is_users = call->op == GCOLL_USER && call->collective == GCOLL_ALLREDUCE;
    const bool has_no_room = call->buffers > 1 && call->collective == GCOLL_REDUCE_SCATTER;
    const double bytes = (double)(call->count * call->element_bytes);
    if (has_no_room && local != GCOLL_MEMORY_LOCAL_AUTO && local != GCOLL_MEMORY_LOCAL_HOST)
        return gcoll_error(
            GCOLL_ERR_UNSUPPORTED,
            "options.memory.local: is %s; several buffers of reduce_scatter are reduced on the "
            "host, as no output has room for a whole vector: allowed are auto and host",
            gcoll_memory_local_name(local));
    if (is_users && local != GCOLL_MEMORY_LOCAL_AUTO && local != GCOLL_MEMORY_LOCAL_HOST)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED,
                           "options.memory.local: is %s, but op is a function of the caller's, which runs on "
                           "the host",
                           gcoll_memory_local_name(local));
    if (local == GCOLL_MEMORY_LOCAL_AUTO)
        call->local = is_users || has_no_room ? GCOLL_LOCAL_HOST
                      : call->buffers == 1    ? GCOLL_LOCAL_DEVICE
                                              : cheapest(acceleration, arguments, bytes);
    else
        call->local = local == GCOLL_MEMORY_LOCAL_NCCL ? GCOLL_LOCAL_PEER : (gcoll_local)local;
    if (local < GCOLL_MEMORY_LOCAL_PEER)
        return GCOLL_OK;
    const bool by_nccl = local == GCOLL_MEMORY_LOCAL_NCCL;
    gcoll_status status = GCOLL_OK;
    if (by_nccl && call->buffers > 1 && !count(arguments).is_separate)
        status = gcoll_error(GCOLL_ERR_UNSUPPORTED, "each buffer must be on a device of its own");
    else if (by_nccl && call->buffers > 1 && call->collective == GCOLL_ALLREDUCE)
        status = check_nccl_has((gcoll_type)call->type, (gcoll_op)call->op);
    if (status == GCOLL_OK)
        status = check_reach(acceleration, arguments, by_nccl ? GCOLL_REACH_NCCL : GCOLL_REACH_PEER);
    arguments->buffers.reach = by_nccl ? GCOLL_REACH_NCCL : GCOLL_REACH_PEER;
    if (status != GCOLL_OK)
        return gcoll_error(status, "options.memory.local: is %s: %s", gcoll_memory_local_name(local),
                           gcoll_last_error());
    return GCOLL_OK;
}

/* ---- Together ----------------------------------------------------------------------------- */

static gcoll_status check_given(const gcoll_memory *given, const gcoll_acceleration *acceleration) {
    if ((unsigned)given->kind >= GCOLL_MEMORY_KIND_COUNT)
        return gcoll_error(GCOLL_ERR_INVALID, "options.memory.kind: is %d; allowed are 0 to %d",
                           (int)given->kind, GCOLL_MEMORY_KIND_COUNT - 1);
    if ((unsigned)given->local >= GCOLL_MEMORY_LOCAL_COUNT)
        return gcoll_error(GCOLL_ERR_INVALID, "options.memory.local: is %d; allowed are 0 to %d",
                           (int)given->local, GCOLL_MEMORY_LOCAL_COUNT - 1);
    if (given->device < GCOLL_ANY_DEVICE)
        return gcoll_error(GCOLL_ERR_INVALID, "options.memory.device: is %d; allowed are -1 and more",
                           given->device);
    const bool asks = given->kind >= GCOLL_MEMORY_MANAGED || given->streams || given->device >= 0 ||
                      given->local >= GCOLL_MEMORY_LOCAL_PEER;
    if (!acceleration && asks)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.memory.%s: is set for memory of devices, but this context takes host "
                           "memory only (gcoll_context_options.accelerator)",
                           given->kind >= GCOLL_MEMORY_MANAGED ? "kind"
                           : given->streams                    ? "streams"
                           : given->device >= 0                ? "device"
                                                               : "local");
    return GCOLL_OK;
}

/* No data moves on this rank. In an alltoall_v, a rank may send nothing and still receive. */
static bool is_empty(const gcoll_arguments *arguments, uint32_t size) {
    const uint64_t *received = arguments->blocks.recv_offsets;
    return arguments->call.count == 0 && (!received || received[size] == 0);
}

gcoll_status gcoll_memory_read(gcoll_arguments *arguments, gcoll_context *context,
                               const gcoll_memory *memory) {
    gcoll_acceleration *acceleration = context->acceleration;
    if (!acceleration && !memory)
        return GCOLL_OK; /* the common case */
    gcoll_memory given;
    gcoll_memory_init(&given);
    gcoll_status status =
        gcoll_options_read_named(&given, sizeof given, sizeof given, memory, "options.memory->struct_size");
    if (status != GCOLL_OK)
        return status;
    status = check_given(&given, acceleration);
    if (status != GCOLL_OK || !acceleration || is_empty(arguments, context->size))
        return status;
    const bool has_list = arguments->call.in_list > 0 || arguments->call.out_list > 0;
    bool found;
    if (has_list)
        status = refuse_lists(arguments, acceleration, &given);
    if (status == GCOLL_OK)
        status = find_all(arguments, acceleration, &given, &found);
    if (status == GCOLL_OK && found && has_list)
        status =
            gcoll_error(GCOLL_ERR_UNSUPPORTED,
                        "%s: lies in the memory of a device; beside a list of buffers it must lie in host "
                        "memory",
                        arguments->call.in_list > 0 ? "output" : "input");
    if (status != GCOLL_OK || !found)
        return status;
    arguments->buffers.streams = given.streams;
    arguments->call.direct = gcoll_memory_may_be_direct(context) &&
                             !gcoll_collective_reduces((gcoll_collective)arguments->call.collective);
    return choose_local(arguments, acceleration, given.local);
}

bool gcoll_memory_gives_way(gcoll_context *context, const gcoll_call *call, gcoll_status status) {
    if (status != GCOLL_ERR_UNSUPPORTED || !call->direct ||
        gcoll_memory_direct(context) != GCOLL_IB_DEVICE_MEMORY_POSSIBLE)
        return false;
    gcoll_memory_tell_staged(context);
    return true;
}
