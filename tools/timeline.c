/* tools/timeline.c - writes a simulation as Chrome trace JSON. A rank is a process, with one lane for its
 * processor, one for each port and three for each device; a message is an arrow. The JSON is written without
 * a library, event by event, as there may be millions; none of its texts needs escaping. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/timeline.h"

#define US        1e6
#define SEND_LANE 1u
#define RECV_LANE (SEND_LANE + GCOLL_SIMULATE_MAX_PORTS)
#define PROCESSOR 0u
#define DEVICES   (RECV_LANE + GCOLL_SIMULATE_MAX_PORTS) /* three lanes each */

static uint32_t lane_of(const gcoll_simulate_event *e) {
    if (e->kind == GCOLL_SIMULATE_SEND)
        return SEND_LANE + (e->port == GCOLL_SIMULATE_NOBODY ? 0 : e->port);
    if (e->kind == GCOLL_SIMULATE_RECV)
        return RECV_LANE + (e->port == GCOLL_SIMULATE_NOBODY ? 0 : e->port);
    if (e->device == GCOLL_SIMULATE_NOBODY)
        return PROCESSOR;
    return DEVICES + 3 * e->device +
           (e->kind == GCOLL_SIMULATE_COPY_IN    ? 0
            : e->kind == GCOLL_SIMULATE_COPY_OUT ? 1
                                                 : 2);
}

static void name_lane(FILE *f, uint32_t rank, uint32_t lane, const char *name) {
    fprintf(f, ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"%s\"}}",
            rank, lane, name);
}

/* Names the lanes of the devices on which the rank has buffers. */
static void name_devices(FILE *f, const gcoll_problem *p) {
    static const char *const does[] = {"to host", "from host", "within"};
    char name[64];
    for (uint32_t k = 0; k < p->buffers && p->in_memory; k++) {
        if (p->in_memory[k] == GCOLL_HOST_MEMORY || (k > 0 && p->in_memory[k] == p->in_memory[k - 1]))
            continue;
        const uint32_t device = p->in_memory[k] - 1;
        for (uint32_t i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "device %u: %s", device, does[i]);
            name_lane(f, p->rank, DEVICES + 3 * device + i, name);
        }
    }
}

static void print_event(FILE *f, const tool_job *job, const gcoll_simulate_event *e) {
    bool message = e->kind == GCOLL_SIMULATE_SEND || e->kind == GCOLL_SIMULATE_RECV;
    bool sends = e->kind == GCOLL_SIMULATE_SEND;
    char name[64];
    if (message)
        snprintf(name, sizeof name, "%s %u", sends ? "send to" : "receive from", e->peer);
    else
        snprintf(name, sizeof name, "%s", gcoll_simulate_kind_name(e->kind));
    fprintf(f,
            ",\n{\"ph\":\"X\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.6f,\"dur\":%.6f,"
            "\"args\":{\"step\":%u,\"bytes\":%" PRIu64 ",\"waited_us\":%.6f}}",
            name, e->rank, lane_of(e), US * e->begin, US * (e->end - e->begin), e->step, e->bytes,
            US * (e->begin - e->ready));
    if (!message)
        return;
    uint32_t number = job->plans[e->rank]->steps[e->step].message;
    fprintf(f,
            ",\n{\"ph\":\"%s\",\"cat\":\"message\",\"name\":\"message\",\"id\":\"%u-%u-%u\",\"pid\":%u,"
            "\"tid\":%u,"
            "\"ts\":%.6f}",
            sends ? "s" : "f\",\"bp\":\"e", sends ? e->rank : e->peer, sends ? e->peer : e->rank, number,
            e->rank, lane_of(e), US * (sends ? e->begin : e->end));
}

bool tool_write_timeline(const char *path, const tool_job *job, const gcoll_simulation *s) {
    FILE *f = fopen(path, "we");
    if (!f) {
        cli_complain("--timeline: %s: %s", path, strerror(errno));
        return false;
    }
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", f);
    for (uint32_t r = 0; r < s->size; r++) {
        fprintf(f, "%s{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"rank %u\"}}",
                r ? ",\n" : "", r, r);
        name_lane(f, r, PROCESSOR, "processor");
        name_lane(f, r, SEND_LANE, "sends");
        name_lane(f, r, RECV_LANE, "receives");
        name_devices(f, &job->plans[r]->problem);
    }
    for (uint64_t i = 0; i < s->event_count; i++)
        print_event(f, job, &s->events[i]);
    fputs("\n]}\n", f);
    bool good = !ferror(f);
    good = fclose(f) == 0 && good;
    if (!good)
        cli_complain("--timeline: %s: %s", path, strerror(errno));
    return good;
}
