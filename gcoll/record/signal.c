/*
 * gcoll/record/signal.c - writes the files of all contexts of the process when a signal comes.
 *
 * The handler writes a byte to a pipe; a thread of the library reads it and writes the files. The thread is
 * made with the first context and lives as long as the process. Nothing of this exists without
 * GCOLL_DUMP_SIGNAL.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gcoll/base/text.h"
#include "gcoll/record/record.h"

#define VARIABLE "GCOLL_DUMP_SIGNAL"
#define FOLDER   "GCOLL_DUMP_DIR"

/* The contexts of this process, for the thread. */
static struct watched {
    pthread_mutex_t lock;
    gcoll_record *first;
    int wake[2]; /* a pipe; the handler has its second end */
    bool is_ready;
    bool heeds_forks;
} watched = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = {-1, -1}};

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
    const ssize_t written = write(watched.wake[1], "!", 1); /* a full pipe has a request already */
    (void)written;
    errno = kept;
}

static void *serve(void *arg) {
    (void)arg;
    char some[64];
    for (;;) {
        const ssize_t got = read(watched.wake[0], some, sizeof some);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return NULL;
        const char *folder = getenv(FOLDER);
        pthread_mutex_lock(&watched.lock);
        for (gcoll_record *record = watched.first; record; record = record->next)
            if (!atomic_load(&record->has_cause) &&
                gcoll_record_dump_to(record->context, folder && folder[0] ? folder : ".", false) != GCOLL_OK)
                dprintf(STDERR_FILENO, "gcoll: %s: %s\n", VARIABLE,
                        gcoll_last_error()); /* the log is the driving thread's */
        pthread_mutex_unlock(&watched.lock);
    }
}

/* In a child: the thread and the contexts are its parent's, and the lock may be held by nobody who is there.
 */
static void forget(void) {
    for (int i = 0; i < 2; i++) {
        if (watched.wake[i] >= 0)
            close(watched.wake[i]);
        watched.wake[i] = -1; /* the handler, which stays, writes to nothing */
    }
    pthread_mutex_init(&watched.lock, NULL);
    watched.first = NULL;
    watched.is_ready = false;
}

/* The thread lives as long as the process, and so must the library. */
static void stay(void) {
    Dl_info self;
    if (dladdr(&watched, &self) != 0)
        dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static gcoll_status begin_thread(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, kept;
    int wake[2];
    if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0)
        return gcoll_error(GCOLL_ERR_IO, VARIABLE ": cannot make a pipe: %s", strerror(errno));
    fcntl(wake[0], F_SETFL, fcntl(wake[0], F_GETFL) & ~O_NONBLOCK);
    memcpy(watched.wake, wake, sizeof wake);
    sigfillset(&all); /* the thread takes none of the program's signals */
    pthread_sigmask(SIG_SETMASK, &all, &kept);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    const int error = pthread_create(&thread, &attributes, serve, NULL);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    if (error == 0)
        return GCOLL_OK;
    watched.wake[0] = watched.wake[1] = -1;
    close(wake[0]);
    close(wake[1]);
    return gcoll_error(GCOLL_ERR_NO_MEMORY, VARIABLE ": cannot make a thread: %s", strerror(error));
}

/* Takes the signal, unless the program has a handler of its own. */
static gcoll_status prepare(int number) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
    if (sigaction(number, NULL, &before) != 0)
        return gcoll_error(GCOLL_ERR_INVALID, VARIABLE ": signal %d cannot be taken: %s", number,
                           strerror(errno));
    if ((before.sa_flags & SA_SIGINFO) != 0 ||
        (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN && before.sa_handler != on_signal))
        return gcoll_error(GCOLL_ERR_INVALID, VARIABLE ": signal %d has a handler of the program's", number);
    if (!watched.heeds_forks && pthread_atfork(NULL, NULL, forget) != 0)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, VARIABLE ": no memory");
    watched.heeds_forks = true;
    gcoll_status status = begin_thread();
    if (status != GCOLL_OK)
        return status;
    stay();
    sigaction(number, &action, NULL);
    watched.is_ready = true;
    return GCOLL_OK;
}

gcoll_status gcoll_record_take_signal(void) {
    int number;
    gcoll_status status = read_variable(&number);
    if (status != GCOLL_OK || number == 0)
        return status;
    pthread_mutex_lock(&watched.lock);
    if (!watched.is_ready)
        status = prepare(number);
    pthread_mutex_unlock(&watched.lock);
    return status;
}

void gcoll_record_watch(gcoll_context *context) {
    if (!context->record)
        return;
    pthread_mutex_lock(&watched.lock);
    if (watched.is_ready) {
        context->record->context = context;
        context->record->next = watched.first;
        watched.first = context->record;
    }
    pthread_mutex_unlock(&watched.lock);
}

void gcoll_record_unwatch(gcoll_context *context) {
    if (!context->record || !context->record->context || gcoll_is_forked(context))
        return;
    pthread_mutex_lock(&watched.lock);
    gcoll_record **link = &watched.first;
    while (*link && *link != context->record)
        link = &(*link)->next;
    if (*link)
        *link = context->record->next;
    pthread_mutex_unlock(&watched.lock);
    context->record->context = NULL;
}
