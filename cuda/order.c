/* cuda/order.c - gates and tickets: waiting on devices, and testing whether work is done. */
#include <stdlib.h>
#include <time.h>

#include "cuda/internal.h"

static gcoll_status new_event(uint32_t device, bool times, cudaEvent_t *event) {
    cudaError_t error = cudaEventCreateWithFlags(event, times ? cudaEventDefault : cudaEventDisableTiming);
    if (error != cudaSuccess) {
        *event = NULL;
        return gcoll_cuda_failed(error, "cudaEventCreateWithFlags on device %u", device);
    }
    return GCOLL_OK;
}

static void drop_event(cudaEvent_t event) {
    if (event && cudaEventDestroy(event) != cudaSuccess)
        (void)cudaGetLastError();
}

/* Gates. */

static void free_gate(gcoll_gate *gate) {
    drop_event(gate->event);
    free(gate);
}

/* The device is current. */
static gcoll_status take_gate(gcoll_accelerator *accelerator, uint32_t device, gcoll_gate **gate) {
    gcoll_gate *g = accelerator->devices[device].spare_gates;
    gcoll_status status = GCOLL_OK;
    if (g) {
        accelerator->devices[device].spare_gates = g->next;
        *gate = g;
        return GCOLL_OK;
    }
    g = calloc(1, sizeof *g);
    if (!g)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "cuda: out of memory for a gate");
    g->device = device;
    status = new_event(device, false, &g->event);
    if (status != GCOLL_OK) {
        free(g);
        return status;
    }
    *gate = g;
    return GCOLL_OK;
}

gcoll_status gcoll_cuda_make_gate(gcoll_accelerator *accelerator, uint32_t device, void *stream,
                                  gcoll_gate **gate) {
    int before = 0;
    gcoll_gate *made = NULL;
    gcoll_status status = gcoll_cuda_enter(accelerator, device, &before);
    if (status != GCOLL_OK)
        return status;
    status = take_gate(accelerator, device, &made);
    if (status == GCOLL_OK) {
        cudaError_t error = cudaEventRecord(made->event, stream);
        if (error != cudaSuccess) {
            status = gcoll_cuda_failed(error, "cudaEventRecord on the caller's stream %p of device %u",
                                       stream, device);
            gcoll_cuda_put_gate(accelerator, made);
        } else {
            *gate = made;
        }
    }
    gcoll_cuda_leave(accelerator, device, before);
    return status;
}

/* Returns a gate. Its event can be reused at once: a stream that waits for it waits for the work recorded
 * when the wait was enqueued. */
void gcoll_cuda_put_gate(gcoll_accelerator *accelerator, gcoll_gate *gate) {
    if (!gate)
        return;
    gate->next = accelerator->devices[gate->device].spare_gates;
    accelerator->devices[gate->device].spare_gates = gate;
}

gcoll_status gcoll_cuda_test_gate(gcoll_accelerator *accelerator, gcoll_gate *gate, bool *done) {
    int before = 0;
    gcoll_status status = gcoll_cuda_enter(accelerator, gate->device, &before);
    *done = false;
    if (status != GCOLL_OK)
        return status;
    cudaError_t error = cudaEventQuery(gate->event);
    *done = error == cudaSuccess;
    if (error == cudaErrorNotReady)
        (void)cudaGetLastError(); /* no error of anybody's */
    else if (error != cudaSuccess)
        status =
            gcoll_cuda_failed(error, "cudaEventQuery for the caller's stream of device %u", gate->device);
    gcoll_cuda_leave(accelerator, gate->device, before);
    return status;
}

gcoll_status gcoll_cuda_wait_for_gates(cudaStream_t stream, gcoll_gate *const *gates, uint32_t gate_count) {
    for (uint32_t i = 0; i < gate_count; i++) {
        cudaError_t error = cudaStreamWaitEvent(stream, gates[i]->event, 0);
        if (error != cudaSuccess)
            return gcoll_cuda_failed(error, "cudaStreamWaitEvent for a stream of device %u",
                                     gates[i]->device);
    }
    return GCOLL_OK;
}

/* Tickets. */

static void free_ticket(gcoll_ticket *ticket) {
    drop_event(ticket->begun);
    drop_event(ticket->ended);
    free(ticket);
}

static void put_ticket(gcoll_accelerator *accelerator, gcoll_ticket *ticket) {
    gcoll_cuda_device *device = &accelerator->devices[ticket->device];
    if (ticket->back) {
        *ticket->back = ticket->next;
        if (ticket->next)
            ticket->next->back = ticket->back;
    }
    ticket->back = NULL;
    ticket->next = device->spare_tickets;
    device->spare_tickets = ticket;
}

/* The device is current. */
static gcoll_status take_ticket(gcoll_accelerator *accelerator, uint32_t device, gcoll_ticket **ticket) {
    gcoll_ticket *t = accelerator->devices[device].spare_tickets;
    gcoll_status status = GCOLL_OK;
    if (t) {
        accelerator->devices[device].spare_tickets = t->next;
        *ticket = t;
        return GCOLL_OK;
    }
    t = calloc(1, sizeof *t);
    if (!t)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "cuda: out of memory for a ticket");
    t->device = device;
    status = new_event(device, accelerator->times, &t->ended);
    if (status == GCOLL_OK && accelerator->times)
        status = new_event(device, true, &t->begun);
    if (status != GCOLL_OK) {
        free_ticket(t);
        return status;
    }
    *ticket = t;
    return GCOLL_OK;
}

gcoll_status gcoll_cuda_begin(gcoll_accelerator *accelerator, uint32_t device, gcoll_cuda_lane lane,
                              gcoll_gate *const *gates, uint32_t gate_count, gcoll_ticket **ticket,
                              int *before) {
    gcoll_ticket *t = NULL;
    gcoll_status status = gcoll_cuda_enter(accelerator, device, before);
    if (status != GCOLL_OK)
        return status;
    cudaStream_t stream = accelerator->devices[device].lanes[lane];
    status = take_ticket(accelerator, device, &t);
    if (status == GCOLL_OK)
        status = gcoll_cuda_wait_for_gates(stream, gates, gate_count);
    if (status == GCOLL_OK && accelerator->times) {
        cudaError_t error = cudaEventRecord(t->begun, stream);
        if (error != cudaSuccess)
            status = gcoll_cuda_failed(error, "cudaEventRecord on device %u", device);
    }
    if (status != GCOLL_OK) {
        if (t)
            put_ticket(accelerator, t);
        gcoll_cuda_leave(accelerator, device, *before);
        return status;
    }
    *ticket = t;
    return GCOLL_OK;
}

gcoll_status gcoll_cuda_end(gcoll_accelerator *accelerator, gcoll_cuda_lane lane, gcoll_status status,
                            gcoll_ticket **ticket, int before) {
    gcoll_ticket *t = *ticket;
    if (status == GCOLL_OK) {
        cudaError_t error = cudaEventRecord(t->ended, accelerator->devices[t->device].lanes[lane]);
        if (error != cudaSuccess)
            status = gcoll_cuda_failed(error, "cudaEventRecord on device %u", t->device);
    }
    gcoll_cuda_leave(accelerator, t->device, before);
    if (status != GCOLL_OK) {
        *ticket = NULL;
        put_ticket(accelerator, t);
        return status;
    }
    t->next = accelerator->tickets;
    t->back = &accelerator->tickets;
    if (t->next)
        t->next->back = &t->next;
    accelerator->tickets = t;
    return GCOLL_OK;
}

/* The time between a ticket's two events, which must both have completed. */
static gcoll_status elapsed(const gcoll_ticket *ticket, int64_t *ns) {
    float ms = 0;
    cudaError_t error = cudaEventElapsedTime(&ms, ticket->begun, ticket->ended);
    if (error != cudaSuccess)
        return gcoll_cuda_failed(error, "cudaEventElapsedTime on device %u", ticket->device);
    *ns = (int64_t)((double)ms * 1e6);
    return GCOLL_OK;
}

gcoll_status gcoll_cuda_test(gcoll_accelerator *accelerator, gcoll_ticket *ticket, bool *done,
                             gcoll_ticket_time *time) {
    int before = 0;
    const uint32_t device = ticket->device;
    int64_t ns = 0;
    gcoll_status status = gcoll_cuda_enter(accelerator, device, &before);
    cudaError_t error = cudaSuccess;
    if (status == GCOLL_OK) {
        error = cudaEventQuery(ticket->ended);
        if (error == cudaErrorNotReady)
            (void)cudaGetLastError(); /* no error of anybody's */
        else if (error != cudaSuccess)
            status = gcoll_cuda_failed(error, "cudaEventQuery of something begun on device %u", device);
        else if (accelerator->times)
            status = elapsed(ticket, &ns);
        gcoll_cuda_leave(accelerator, device, before);
    }
    if (error == cudaErrorNotReady) {
        *done = false;
        return GCOLL_OK;
    }
    put_ticket(accelerator, ticket);
    if (status != GCOLL_OK)
        return status;
    *done = true;
    if (time)
        time->ns = ns;
    return GCOLL_OK;
}

/* Whether no lane has work in flight. Failed work counts as ended. */
static bool is_idle(gcoll_accelerator *accelerator) {
    bool idle = true;
    for (uint32_t d = 0; d < accelerator->device_count; d++) {
        const gcoll_cuda_device *device = &accelerator->devices[d];
        for (int lane = 0; lane < GCOLL_CUDA_LANES; lane++) {
            if (!device->lanes[lane])
                continue;
            cudaError_t error = cudaStreamQuery(device->lanes[lane]);
            if (error != cudaSuccess)
                (void)cudaGetLastError();
            idle = idle && error != cudaErrorNotReady;
        }
    }
    return idle;
}

/* Waits for all work in flight. It tests lanes, not tickets, so as to include work that was started but got
 * no ticket. */
gcoll_status gcoll_cuda_drain(gcoll_accelerator *accelerator, int64_t timeout_ms) {
    const int64_t end = gcoll_now_ms() + (timeout_ms > 0 ? timeout_ms : 0);
    struct timespec pause = {.tv_nsec = 20000};
    int before = 0;
    /* These calls need no current device. But if this thread has none, the runtime would initialise device 0,
     * so make one of ours current. */
    bool entered =
        accelerator->has_home && gcoll_cuda_enter(accelerator, accelerator->home, &before) == GCOLL_OK;
    bool idle = is_idle(accelerator);
    while (!idle && gcoll_now_ms() < end) {
        (void)nanosleep(&pause, NULL);
        pause.tv_nsec = pause.tv_nsec < 500000 ? 2 * pause.tv_nsec : 1000000;
        idle = is_idle(accelerator);
    }
    if (entered)
        gcoll_cuda_leave(accelerator, accelerator->home, before);
    if (!idle)
        return gcoll_error(GCOLL_ERR_TIMEOUT, "cuda: work in progress has not ended after %lld ms",
                           (long long)timeout_ms);
    while (accelerator->tickets)
        put_ticket(accelerator, accelerator->tickets);
    return GCOLL_OK;
}

void gcoll_cuda_close_device(gcoll_accelerator *accelerator, uint32_t number) {
    gcoll_cuda_device *device = &accelerator->devices[number];
    for (gcoll_ticket *t = accelerator->tickets, *next = NULL; t; t = next) {
        next = t->next;
        if (t->device == number)
            put_ticket(accelerator, t);
    }
    for (gcoll_ticket *t = device->spare_tickets, *next = NULL; t; t = next) {
        next = t->next;
        free_ticket(t);
    }
    for (gcoll_gate *g = device->spare_gates, *next = NULL; g; g = next) {
        next = g->next;
        free_gate(g);
    }
    drop_event(device->joined);
    for (int lane = 0; lane < GCOLL_CUDA_LANES; lane++)
        if (device->lanes[lane] && cudaStreamDestroy(device->lanes[lane]) != cudaSuccess)
            (void)cudaGetLastError();
    free(device->reads);
    *device = (gcoll_cuda_device){.is_set_up = false};
}
