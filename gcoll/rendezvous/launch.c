/*
 * gcoll/rendezvous/launch.c - finds the identity of the launch that this process belongs to, if it has one.
 *
 * The identity comes from the option, else from GCOLL_LAUNCH, else from the launcher's variables, provided
 * that it started exactly the ranks of this job: then they name something that no other launch shares. The
 * innermost launcher counts: ranks that mpirun started within a batch job inherit the batch script's
 * variables on the first host only. Every condition must hold on all ranks or on none, because ranks with
 * different identities never meet.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/hash.h"
#include "gcoll/base/text.h"
#include "gcoll/rendezvous/meeting.h"

#define VARIABLE   "GCOLL_LAUNCH"
#define LAUNCH_MAX 256
/* Slurm step numbers from here on do not belong to an srun, but to batch scripts and interactive shells. All
 * of their children inherit the variables. */
#define SLURM_SPECIAL_STEP UINT64_C(0xfffffff0)

static bool is_number(const char *text, uint64_t *number) {
    char *end = NULL;
    if (!text || text[0] < '0' || text[0] > '9')
        return false;
    *number = strtoull(text, &end, 10);
    return *end == '\0';
}

static bool says_size(const char *variable, uint32_t size) {
    uint64_t number = 0;
    return is_number(getenv(variable), &number) && number == size;
}

/* Writes "<kind>:<identity of the launch>" from the launcher's variables, or "". */
static void ask_launcher(uint32_t size, char name[LAUNCH_MAX]) {
    uint64_t step = 0;
    const char *space = getenv("PMIX_NAMESPACE"), *job = getenv("SLURM_JOB_ID"),
               *text = getenv("SLURM_STEP_ID"), *restarts = getenv("SLURM_RESTART_COUNT");
    name[0] = '\0';
    if (getenv("OMPI_COMM_WORLD_SIZE")) {
        if (says_size("OMPI_COMM_WORLD_SIZE", size) && space && space[0])
            snprintf(name, LAUNCH_MAX, "pmix:%s", space);
    } else if (getenv("SLURM_PROCID") && says_size("SLURM_NTASKS", size) && job && job[0] &&
               is_number(text, &step) && step < SLURM_SPECIAL_STEP) {
        const bool again = restarts && restarts[0]; /* a requeued job numbers its steps from 0 again */
        snprintf(name, LAUNCH_MAX, "slurm:%s.%s%s%s", job, text, again ? "." : "", again ? restarts : "");
    }
}

/* Finds the name of the launch. An empty option means no identity, whatever the environment says. */
static gcoll_status find_name(const gcoll_context *context, const char *launch, char name[LAUNCH_MAX]) {
    const char *variable = getenv(VARIABLE), *given = launch ? launch : variable;
    if (!given || (!launch && given[0] == '\0')) {
        ask_launcher(context->size, name);
        return GCOLL_OK;
    }
    if (strlen(given) >= LAUNCH_MAX)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: has %zu bytes; allowed are up to %d",
                           launch ? "options.launch" : VARIABLE, strlen(given), LAUNCH_MAX - 1);
    snprintf(name, LAUNCH_MAX, "%s", given);
    return GCOLL_OK;
}

gcoll_status gcoll_meeting_create(gcoll_context *context, const char *launch, int64_t deadline_ms) {
    char name[LAUNCH_MAX];
    gcoll_meeting *meeting = calloc(1, sizeof *meeting);
    if (!meeting)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a context");
    context->rendezvous->meeting = meeting;
    meeting->began_ms = gcoll_now_ms();
    meeting->deadline_ms = deadline_ms;
    meeting->creating = true;
    gcoll_status status = find_name(context, launch, name);
    if (status == GCOLL_OK)
        status = gcoll_claimant_self(&meeting->self);
    if (status != GCOLL_OK || name[0] == '\0')
        return status;
    snprintf(meeting->launch, sizeof meeting->launch, "l.%016" PRIx64 "/",
             gcoll_hash_text(GCOLL_HASH_START, name));
    gcoll_text_clean(name);
    snprintf(meeting->launch_said, sizeof meeting->launch_said, ", launch '%.64s'", name);
    return GCOLL_OK;
}
