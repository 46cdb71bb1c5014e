/*
 * benchmark/buffers.c - the buffers of a rank: where they lie, and what is put into them and read from them.
 *
 * Values are made and compared in host memory. For buffers that the host does not reach there is a mirror of
 * the size of one, from which they are filled and into which they are read.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "benchmark/buffers.h"
#include "benchmark/state.h"

#define PAGE_BYTES 4096u

/* ---- --device ----------------------------------------------------------------------------------------- */

/* Numbers joined by commas. */
static bool is_list(const char *text) {
    for (;;) {
        const size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 4)
            return false;
        text += digits;
        if (*text != ',')
            return *text == '\0';
        text++;
    }
}

bool bench_read_device(const cli_flag *flag, const char *text, void *options) {
    static const char allowed[] = "one of host, cuda, cuda:N[,N]... (each once, from 0 to 1023), cuda:all";
    bench_options *o = options;
    const char *list = strncmp(text, "cuda:", 5) == 0 ? text + 5 : "0";
    o->device = text;
    o->on_device = strcmp(text, "host") != 0;
    free(o->devices.values);
    o->devices = (cli_list){0};
    if (!o->on_device || strcmp(text, "cuda:all") == 0)
        return true;
    if ((list == text + 5 || strcmp(text, "cuda") == 0) && is_list(list)) {
        if (!cli_parse_list(flag->name, list, 0, UINT64_MAX, &o->devices))
            return false;
        bool good = true;
        for (size_t i = 0; i < o->devices.count; i++) {
            good = good && o->devices.values[i] < GCOLL_MAX_DEVICES;
            for (size_t j = 0; j < i; j++)
                good = good && o->devices.values[i] != o->devices.values[j];
        }
        if (good)
            return true;
    }
    return cli_bad(flag->name, text, allowed);
}

const bench_memory *bench_memory_of(const bench_options *options) {
    return options->on_device ? &bench_cuda_memory
           : options->shared  ? &bench_shared_memory
                              : &bench_host_memory;
}

static bool devices_are_there(const bench_options *o) {
    uint32_t found = 0;
    if (!bench_memory_of(o)->count(&found))
        return false;
    for (size_t i = 0; i < o->devices.count; i++) {
        if (o->devices.values[i] >= found) {
            cli_complain("--device: is '%s'; allowed on this machine are devices from 0 to %u", o->device,
                         found - 1);
            return false;
        }
    }
    return true;
}

/* Checks the devices in a child process: a process that has opened a driver cannot share it with its
 * children, and the ranks are children. */
bool bench_devices_ready(const bench_options *options) {
    if (!options->on_device)
        return true;
    int how = 0;
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        const bool good = devices_are_there(options);
        (void)fflush(stderr);
        _exit(good ? BENCH_OK : BENCH_FAILED);
    }
    pid_t ended = -1;
    do {
        ended = pid > 0 ? waitpid(pid, &how, 0) : -1;
    } while (ended < 0 && pid > 0 && errno == EINTR);
    if (ended < 0) {
        cli_complain("--device: a process that looks for devices: %s", strerror(errno));
        return false;
    }
    if (WIFSIGNALED(how)) {
        cli_complain("--device: looking for devices ended by signal %d (%s)", WTERMSIG(how),
                     strsignal(WTERMSIG(how)));
    }
    return WIFEXITED(how) && WEXITSTATUS(how) == BENCH_OK;
}

/* ---- A rank's ------------------------------------------------------------------------------------------ */

/* Round robin over the devices, by all buffers of all ranks. */
static bool deal_out(bench_state *state) {
    const bench_options *o = state->options;
    const uint64_t first = (uint64_t)state->rank * o->inputs;
    uint32_t found = 0;
    if (!state->memory->count(&found))
        return false;
    for (uint32_t k = 0; k < o->inputs; k++) {
        const size_t named = o->devices.count;
        state->devices[k] =
            named > 0 ? (uint32_t)o->devices.values[(first + k) % named] : (uint32_t)((first + k) % found);
        /* A stream for each device: that of the first buffer on it. */
        uint32_t j = 0;
        while (state->devices[j] != state->devices[k])
            j++;
        state->streams[k] = state->streams[j];
        if (j == k && !state->memory->open_stream(state->devices[k], &state->streams[k]))
            return false;
    }
    return true;
}

static bool set_up_devices(bench_state *state, uint64_t bytes) {
    const uint32_t count = state->options->inputs;
    if (!state->memory->upload)
        return true;
    state->streams = calloc(count, sizeof *state->streams);
    state->mirror = calloc(1, bytes > 0 ? bytes : 1);
    if (!state->streams || !state->mirror) {
        cli_complain("rank %u: out of memory for the contents of a buffer of %" PRIu64 " bytes", state->rank,
                     bytes);
        return false;
    }
    if (!deal_out(state))
        return false;
    gcoll_memory_init(&state->where);
    state->where.kind = GCOLL_MEMORY_DEVICE;
    state->where.streams = state->streams;
    state->where.local = state->options->local_reduction;
    return true;
}

/* Allocates buffers and touches their pages, so that no timed run has page faults. */
static bool allocate_all(bench_state *state, void **buffers, uint64_t bytes) {
    for (uint32_t k = 0; k < state->options->inputs; k++) {
        const uint64_t rounded = (bytes / PAGE_BYTES + 1) * PAGE_BYTES;
        if (!state->memory->allocate(state->devices[k], rounded, &buffers[k])) {
            cli_complain("rank %u: out of memory for buffer %u of %u of %" PRIu64 " bytes", state->rank, k,
                         state->options->inputs, rounded);
            return false;
        }
        if (!bench_commit(state, k, buffers[k], bytes)) /* zeros */
            return false;
    }
    return true;
}

bool bench_buffers_open(bench_state *state) {
    const bench_options *o = state->options;
    const uint64_t bytes = bench_largest_size(o);
    state->memory = bench_memory_of(o);
    state->in = calloc(o->inputs, sizeof *state->in);
    state->out = calloc(o->inputs, sizeof *state->out);
    state->devices = calloc(o->inputs, sizeof *state->devices);
    if (!state->in || !state->out || !state->devices) {
        cli_complain("rank %u: out of memory for %u buffers", state->rank, o->inputs);
        return false;
    }
    return set_up_devices(state, bytes) && allocate_all(state, state->in, bench_needs_input(o) ? bytes : 0) &&
           allocate_all(state, state->out, bytes);
}

void bench_buffers_close(bench_state *state) {
    const bool any = state->in && state->out && state->devices;
    for (uint32_t k = 0; any && k < state->options->inputs; k++) {
        const uint32_t device = state->devices[k];
        state->memory->release(device, state->in[k]);
        state->memory->release(device, state->out[k]);
        bool is_own = state->streams && state->streams[k];
        for (uint32_t j = 0; j < k && is_own; j++)
            is_own = state->streams[j] != state->streams[k];
        if (is_own)
            state->memory->close_stream(device, state->streams[k]);
    }
    free((void *)state->in);
    free((void *)state->out);
    free((void *)state->streams);
    free(state->devices);
    free(state->mirror);
}

unsigned char *bench_draft(const bench_state *state, void *buffer) {
    return state->memory->upload ? state->mirror : buffer;
}

bool bench_commit(const bench_state *state, uint32_t k, void *buffer, uint64_t bytes) {
    return !state->memory->upload || bytes == 0 ||
           state->memory->upload(state->devices[k], state->streams[k], buffer, state->mirror, bytes);
}

const unsigned char *bench_read(const bench_state *state, uint32_t k, const void *buffer, uint64_t bytes) {
    if (!state->memory->download)
        return buffer;
    const bool good = bytes == 0 || state->memory->download(state->devices[k], state->streams[k],
                                                            state->mirror, buffer, bytes);
    return good ? state->mirror : NULL;
}

/* ---- Host memory ----------------------------------------------------------------------------------------
 */

static bool count_host(uint32_t *devices) {
    *devices = 1;
    return true;
}

static bool allocate_host(uint32_t device, uint64_t bytes, void **buffer) {
    (void)device;
    *buffer = aligned_alloc(PAGE_BYTES, bytes);
    if (*buffer)
        memset(*buffer, 0, bytes);
    return *buffer;
}

static void release_host(uint32_t device, void *buffer) {
    (void)device;
    free(buffer);
}

const bench_memory bench_host_memory = {
    .count = count_host, .allocate = allocate_host, .release = release_host};

static bool allocate_shared(uint32_t device, uint64_t bytes, void **buffer) {
    (void)device;
    if (gcoll_memory_alloc(bytes, buffer) == GCOLL_OK) {
        memset(*buffer, 0, bytes);
        return true;
    }
    cli_complain("--shared: %s", gcoll_last_error());
    return false;
}

static void release_shared(uint32_t device, void *buffer) {
    (void)device;
    (void)gcoll_memory_free(buffer); /* NULL, or what it has given */
}

const bench_memory bench_shared_memory = {
    .count = count_host, .allocate = allocate_shared, .release = release_shared};
