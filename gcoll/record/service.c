/*
 * gcoll/record/service.c - the thread for who asks from outside, and the contexts of the process that it
 * knows.
 *
 * It is made with the first context that wants it, and lives as long as the process. Nothing of it exists
 * without GCOLL_DUMP_SIGNAL and GCOLL_WATCH.
 */
#include "gcoll/record/service.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WRITE_FILES '!'
#define LOOK_AGAIN  '.'

static struct service {
    pthread_mutex_t lock;
    pthread_mutex_t offers;
    gcoll_record *first;   /* of the contexts of this process */
    int wake[2];           /* a pipe, whose first end the thread reads */
    int listener;          /* -1: none */
    char folder[PATH_MAX]; /* GCOLL_DUMP_DIR when a context was made last: this thread does not read the
                            * environment, which others may change */
    char path[108];        /* of the listener's socket, which process `owner` made */
    long owner;
    bool is_running;
    bool heeds_forks;
} service = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .offers = PTHREAD_MUTEX_INITIALIZER, .wake = {-1, -1}, .listener = -1};

static void wake(char what) {
    const ssize_t written = write(service.wake[1], &what, 1); /* a full pipe has a request already */
    (void)written;
}

void gcoll_service_request_files(void) {
    wake(WRITE_FILES);
}

void gcoll_service_rest(void) {
    const struct timespec pause = {.tv_nsec = 100000000};
    nanosleep(&pause, NULL);
}

static void write_files(void) {
    pthread_mutex_lock(&service.lock);
    for (gcoll_record *record = service.first; record; record = record->next)
        if (gcoll_record_dump_to(record->context, service.folder[0] ? service.folder : ".", false) !=
            GCOLL_OK)
            dprintf(STDERR_FILENO, "gcoll: GCOLL_DUMP_SIGNAL: %s\n",
                    gcoll_last_error()); /* the log is the driving thread's */
    pthread_mutex_unlock(&service.lock);
}

static void *serve(void *arg) {
    (void)arg;
    char some[64];
    for (;;) {
        pthread_mutex_lock(&service.lock);
        struct pollfd wanted[] = {{.fd = service.wake[0], .events = POLLIN},
                                  {.fd = service.listener, .events = POLLIN}};
        pthread_mutex_unlock(&service.lock);
        if (poll(wanted, 2, -1) < 0) {
            gcoll_service_rest(); /* no memory, or a signal that is none of this thread's */
            continue;
        }
        if (wanted[0].revents != 0) {
            const ssize_t got = read(wanted[0].fd, some, sizeof some);
            if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
                return NULL;
            if (got > 0 && memchr(some, WRITE_FILES, (size_t)got))
                write_files();
        }
        if (wanted[1].revents != 0)
            gcoll_watch_answer(wanted[1].fd, &service.lock, &service.first);
    }
}

/* In a child: thread, contexts and socket are its parent's, and the lock may be held by nobody who is there.
 */
static void forget(void) {
    for (int i = 0; i < 2; i++) {
        if (service.wake[i] >= 0)
            close(service.wake[i]);
        service.wake[i] = -1; /* the handler, which stays, writes to nothing */
    }
    if (service.listener >= 0)
        close(service.listener);
    service.listener = -1;
    pthread_mutex_init(&service.lock, NULL);
    pthread_mutex_init(&service.offers, NULL);
    service.first = NULL;
    service.is_running = false;
}

/* The thread lives as long as the process, and so must the library. */
static void stay(void) {
    Dl_info self;
    if (dladdr(&service, &self) != 0)
        dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static gcoll_status begin_thread(const char *wanted_by) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, kept;
    if (pipe2(service.wake, O_CLOEXEC | O_NONBLOCK) != 0)
        return gcoll_error(GCOLL_ERR_IO, "%s: cannot make a pipe: %s", wanted_by, strerror(errno));
    sigfillset(&all); /* the thread takes none of the program's signals */
    pthread_sigmask(SIG_SETMASK, &all, &kept);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    const int error = pthread_create(&thread, &attributes, serve, NULL);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    if (error == 0)
        return GCOLL_OK;
    close(service.wake[0]);
    close(service.wake[1]);
    service.wake[0] = service.wake[1] = -1;
    return gcoll_error(GCOLL_ERR_NO_MEMORY, "%s: cannot make a thread: %s", wanted_by, strerror(error));
}

static gcoll_status start(const char *wanted_by) {
    if (service.is_running)
        return GCOLL_OK;
    if (!service.heeds_forks && pthread_atfork(NULL, NULL, forget) != 0)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "%s: no memory", wanted_by);
    service.heeds_forks = true;
    gcoll_status status = begin_thread(wanted_by);
    if (status != GCOLL_OK)
        return status;
    stay();
    service.is_running = true;
    return GCOLL_OK;
}

gcoll_status gcoll_service_start(const char *wanted_by) {
    pthread_mutex_lock(&service.lock);
    gcoll_status status = start(wanted_by);
    pthread_mutex_unlock(&service.lock);
    return status;
}

/* ---- The socket --------------------------------------------------------------------------------- */

void gcoll_service_listen(int fd, const char *path) {
    pthread_mutex_lock(&service.lock);
    service.listener = fd;
    service.owner = (long)getpid();
    snprintf(service.path, sizeof service.path, "%s", path);
    pthread_mutex_unlock(&service.lock);
    wake(LOOK_AGAIN);
}

bool gcoll_service_is_listening(void) {
    pthread_mutex_lock(&service.lock);
    const bool is = service.listener >= 0;
    pthread_mutex_unlock(&service.lock);
    return is;
}

void gcoll_service_begin_offer(void) {
    pthread_mutex_lock(&service.offers);
}

void gcoll_service_end_offer(void) {
    pthread_mutex_unlock(&service.offers);
}

/* At the end of the process. What is killed leaves its file, which gcoll_top removes. */
__attribute__((destructor)) static void tidy(void) {
    if (service.path[0] && service.owner == (long)getpid())
        unlink(service.path);
}

/* ---- Contexts ----------------------------------------------------------------------------------- */

void gcoll_record_watch(gcoll_context *context) {
    if (!context->record)
        return;
    pthread_mutex_lock(&service.lock);
    const char *folder = getenv("GCOLL_DUMP_DIR");
    snprintf(service.folder, sizeof service.folder, "%s", folder ? folder : "");
    if (service.is_running) {
        context->record->context = context;
        context->record->next = service.first;
        service.first = context->record;
    }
    pthread_mutex_unlock(&service.lock);
}

void gcoll_record_unwatch(gcoll_context *context) {
    if (!context->record || !context->record->context || gcoll_is_forked(context))
        return;
    pthread_mutex_lock(&service.lock);
    gcoll_record **link = &service.first;
    while (*link && *link != context->record)
        link = &(*link)->next;
    if (*link)
        *link = context->record->next;
    pthread_mutex_unlock(&service.lock);
    context->record->context = NULL;
}
