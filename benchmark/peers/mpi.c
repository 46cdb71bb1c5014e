/* benchmark/peers/mpi.c - gcoll_peer_openmpi and gcoll_peer_mpich: the collectives of an MPI library.
 *
 * One source, built once for each library that is found. Ranks are started by that library's mpirun. Calls
 * are out of place, float32, MPI_SUM; a broadcast has one buffer. */
#include <mpi.h>
#include <stdlib.h>

#include "peer.h"

const char cli_program[] = "gcoll_peer_" PEER_MPI;

static const peer_program about = {
    .about = "times the collectives of " PEER_MPI ", whose mpirun starts it\n",
    .algorithms = "Algorithms are the library's own choice: --algorithm is not for this program.\n",
    .starts_ranks = false,
};

typedef struct mpi_state {
    const peer_options *options;
    int rank, size;
    peer_collective collective;
    int count; /* elements of the whole vector */
    float *in, *out;
} mpi_state;

static bool good(int code) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code != MPI_SUCCESS) {
        (void)MPI_Error_string(code, text, &length);
        cli_complain("%s", text);
    }
    return code == MPI_SUCCESS;
}

static bool run(void *self) {
    const mpi_state *s = self;
    int block = s->count / s->size;
    switch (s->collective) {
    case PEER_ALLREDUCE:
        return good(MPI_Allreduce(s->in, s->out, s->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
    case PEER_ALLGATHER:
        return good(MPI_Allgather(s->in, block, MPI_FLOAT, s->out, block, MPI_FLOAT, MPI_COMM_WORLD));
    case PEER_REDUCE_SCATTER:
        return good(MPI_Reduce_scatter_block(s->in, s->out, block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
    case PEER_BROADCAST:
        return good(MPI_Bcast(s->out, s->count, MPI_FLOAT, 0, MPI_COMM_WORLD));
    case PEER_ALLTOALL:
        return good(MPI_Alltoall(s->in, block, MPI_FLOAT, s->out, block, MPI_FLOAT, MPI_COMM_WORLD));
    default:
        return good(MPI_Barrier(MPI_COMM_WORLD));
    }
}

static bool barrier(void *self) {
    (void)self;
    return good(MPI_Barrier(MPI_COMM_WORLD));
}

static bool max(void *self, double *values, uint32_t count) {
    (void)self;
    return good(MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
}

static bool measure(mpi_state *s, const peer_job *job, uint64_t bytes) {
    size_t room = (bytes + 127) / 64 * 64;
    bool in_place = s->collective == PEER_BROADCAST;
    s->count = (int)(bytes / sizeof(float));
    s->out = aligned_alloc(64, room);
    s->in = in_place ? s->out : aligned_alloc(64, room);
    bool done = false;
    if (!s->in || !s->out) {
        cli_complain("out of memory for two vectors of %llu bytes", (unsigned long long)bytes);
    } else {
        peer_call call = {.program = PEER_MPI,
                          .collective = s->collective,
                          .bytes = bytes,
                          .in = s->in,
                          .out = s->out,
                          .self = s,
                          .run = run};
        done = peer_measure(job, s->options, &call);
    }
    if (!in_place)
        free(s->in);
    free(s->out);
    return done;
}

static bool measure_sizes(const peer_options *options) {
    mpi_state s = {.options = options, .collective = options->collective};
    bool is_barrier = options->collective == PEER_BARRIER;
    if (!good(MPI_Comm_rank(MPI_COMM_WORLD, &s.rank)) || !good(MPI_Comm_size(MPI_COMM_WORLD, &s.size)))
        return false;
    peer_job job = {
        .rank = (uint32_t)s.rank, .size = (uint32_t)s.size, .self = &s, .barrier = barrier, .max = max};
    for (size_t i = 0; i < (is_barrier ? 1 : options->sizes.count); i++) {
        uint64_t bytes = peer_round_bytes(options->collective, options->sizes.values[i], job.size);
        if (bytes / sizeof(float) > INT32_MAX) {
            cli_complain("%llu bytes: MPI counts elements in an int", (unsigned long long)bytes);
            return false;
        }
        if ((bytes > 0 || is_barrier) && !measure(&s, &job, bytes))
            return false;
    }
    return true;
}

static int run_job(const peer_options *options) {
    peer_limit(options->limit_s);
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS)
        return PEER_FAILED;
    if (!measure_sizes(options))
        (void)MPI_Abort(MPI_COMM_WORLD, PEER_FAILED);
    return MPI_Finalize() == MPI_SUCCESS ? PEER_OK : PEER_FAILED;
}

int main(int argc, char **argv) {
    peer_options options;
    if (!peer_options_parse(&about, argc, argv, &options))
        return CLI_USAGE;
    int status = PEER_OK;
    if (options.help) {
        peer_print_help(&about);
    } else if (options.algorithm) {
        cli_complain("--algorithm: the library chooses by itself");
        status = CLI_USAGE;
    } else {
        status = run_job(&options);
    }
    peer_options_free(&options);
    return status;
}
