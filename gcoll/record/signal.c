/* gcoll/record/signal.c - the signal of GCOLL_DUMP_SIGNAL: its handler asks the service thread to write the
 * files of all contexts of the process. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/text.h"
#include "gcoll/record/service.h"

#define VARIABLE "GCOLL_DUMP_SIGNAL"

static gcoll_status read_variable(int *number) {
    const struct {
        const char *name;
        int number;
    } names[] = {{"USR1", SIGUSR1},    {"SIGUSR1", SIGUSR1}, {"USR2", SIGUSR2},
                 {"SIGUSR2", SIGUSR2}, {"HUP", SIGHUP},      {"SIGHUP", SIGHUP}};
    const char *given = getenv(VARIABLE);
    uint64_t value;
    *number = 0;
    if (!given || given[0] == '\0')
        return GCOLL_OK;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(given, names[i].name) == 0)
            *number = names[i].number;
    if (*number == 0 && gcoll_text_parse_whole(given, strlen(given), (uint64_t)SIGRTMAX, &value) &&
        value >= (uint64_t)SIGRTMIN)
        *number = (int)value;
    return *number != 0 ? GCOLL_OK
                        : gcoll_error(GCOLL_ERR_INVALID,
                                      VARIABLE ": is '%.40s'; allowed are USR1, USR2, HUP and %d to %d",
                                      given, SIGRTMIN, SIGRTMAX);
}

static void on_signal(int number) {
    (void)number;
    const int kept = errno;
    gcoll_service_request_files();
    errno = kept;
}

/* Unless the program has a handler of its own. */
gcoll_status gcoll_record_take_signal(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
    int number;
    gcoll_status status = read_variable(&number);
    if (status != GCOLL_OK || number == 0)
        return status;
    if (sigaction(number, NULL, &before) != 0)
        return gcoll_error(GCOLL_ERR_INVALID, VARIABLE ": signal %d cannot be taken: %s", number,
                           strerror(errno));
    if ((before.sa_flags & SA_SIGINFO) != 0 ||
        (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN && before.sa_handler != on_signal))
        return gcoll_error(GCOLL_ERR_INVALID, VARIABLE ": signal %d has a handler of the program's", number);
    status = gcoll_service_start(VARIABLE);
    if (status == GCOLL_OK && before.sa_handler != on_signal)
        sigaction(number, &action, NULL);
    return status;
}
