/*
 * gcoll/record/watch.c - GCOLL_WATCH: a socket at which the process says what its contexts do, for gcoll_top.
 *
 * The socket lies in a folder of the user's that nobody else may enter. Who connects gets one JSON object and
 * the end; nothing is read from it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "gcoll/base/hash.h"
#include "gcoll/record/service.h"

#define VARIABLE    "GCOLL_WATCH"
#define BACKLOG     16
#define PATIENCE_MS 500 /* with somebody who reads slowly; others wait meanwhile */

/* False: nobody is to watch. folder "": the usual one. */
static gcoll_status read_variable(bool *wanted, const char **folder) {
    const char *given = getenv(VARIABLE);
    *wanted = given && given[0] != '\0' && strcmp(given, "0") != 0 && strcmp(given, "off") != 0;
    *folder = "";
    if (!*wanted || strcmp(given, "1") == 0 || strcmp(given, "on") == 0)
        return GCOLL_OK;
    *folder = given;
    return given[0] == '/' ? GCOLL_OK
                           : gcoll_error(GCOLL_ERR_INVALID,
                                         VARIABLE ": is '%.40s'; allowed are 0, 1 and the path of a folder, "
                                                  "from the root on",
                                         given);
}

/* Makes the usual folder. In /tmp anybody may have made one of that name. */
static bool make_folder(char *folder, size_t bytes, char *why, size_t why_bytes) {
    struct stat is;
    const uid_t user = geteuid();
    snprintf(folder, bytes, "/tmp/gcoll-%lu", (unsigned long)user);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        snprintf(why, why_bytes, "cannot make '%s': %s", folder, strerror(errno));
    else if (lstat(folder, &is) != 0)
        snprintf(why, why_bytes, "cannot look at '%s': %s", folder, strerror(errno));
    else if (!S_ISDIR(is.st_mode) || is.st_uid != user || (is.st_mode & 077) != 0)
        snprintf(why, why_bytes, "'%s' is no folder of this user's alone", folder);
    else
        return true;
    return false;
}

static int make_socket(const char *path, char *why, size_t why_bytes) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    memcpy(address.sun_path, path, strlen(path) + 1);
    const bool is_bound = fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    if (is_bound && chmod(path, 0600) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    snprintf(why, why_bytes, "cannot listen at '%s': %s", path, strerror(errno));
    if (is_bound)
        unlink(path);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* So that gcoll_top knows its own host's sockets in a folder that hosts share. */
static unsigned host_hash(void) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return (unsigned)gcoll_hash_text(GCOLL_HASH_START, host);
}

/* Opens the socket of this process. False: why. Its name says which rank this is, for as long as it cannot
 * say so itself.
 */
static bool offer(const gcoll_context *context, const char *given, char *why, size_t why_bytes) {
    char folder[PATH_MAX], path[sizeof((struct sockaddr_un *)0)->sun_path];
    if (given[0] != '\0')
        snprintf(folder, sizeof folder, "%s", given);
    else if (!make_folder(folder, sizeof folder, why, why_bytes))
        return false;
    /* Processes of two containers may have the same number. */
    if ((size_t)snprintf(path, sizeof path, "%s/%ld-%08x-%04x-%uof%u.sock", folder, (long)getpid(),
                         host_hash(), (unsigned)gcoll_now_ns() & 0xffffU, context->rank,
                         context->size) >= sizeof path) {
        snprintf(why, why_bytes, "'%.60s...' is too long a folder for a socket", folder);
        return false;
    }
    const int fd = make_socket(path, why, why_bytes);
    if (fd >= 0)
        gcoll_service_listen(fd, path);
    return fd >= 0;
}

gcoll_status gcoll_record_take_watch(gcoll_context *context) {
    char why[PATH_MAX + 128] = "";
    const char *folder;
    bool wanted;
    gcoll_status status = read_variable(&wanted, &folder);
    if (status != GCOLL_OK || !wanted)
        return status;
    status = gcoll_service_start(VARIABLE);
    gcoll_service_begin_offer();
    const bool is_offered =
        status != GCOLL_OK || gcoll_service_is_listening() || offer(context, folder, why, sizeof why);
    gcoll_service_end_offer();
    if (!is_offered) /* a job is not refused for want of a view */
        gcoll_log(context, GCOLL_LOG_WARNING, VARIABLE ": %s; gcoll_top will not see this process", why);
    return status;
}

/* ---- Answers ------------------------------------------------------------------------------------ */

static bool may_watch(int fd) {
    struct ucred who;
    socklen_t bytes = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 &&
           (who.uid == geteuid() || who.uid == 0);
}

static void send_all(int fd, const char *text, size_t bytes) {
    const struct timeval patience = {.tv_usec = PATIENCE_MS * 1000};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    const int64_t until_ms = gcoll_now_ms() + PATIENCE_MS;
    while (bytes > 0 && gcoll_now_ms() < until_ms) {
        const ssize_t sent = send(fd, text, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return;
        text += sent > 0 ? sent : 0;
        bytes -= sent > 0 ? (size_t)sent : 0;
    }
}

void gcoll_watch_answer(int listener, pthread_mutex_t *lock, gcoll_record *const *first) {
    char *text = NULL;
    size_t bytes = 0;
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        gcoll_service_rest(); /* no descriptors: the connection waits, and would be looked at all the time */
    if (fd < 0)
        return;
    FILE *file = may_watch(fd) ? open_memstream(&text, &bytes) : NULL;
    if (file) {
        const char *before = "";
        fprintf(file, "{\n\"gcoll_watch\": 1,\n\"process\": %ld,\n\"contexts\": [", (long)getpid());
        pthread_mutex_lock(lock);
        for (gcoll_record *record = *first; record; record = record->next) {
            fputs(before, file);
            gcoll_record_write_view(file, record->context);
            before = ",";
        }
        pthread_mutex_unlock(lock);
        fputs("]\n}\n", file);
        if (fclose(file) == 0)
            send_all(fd, text, bytes);
        free(text);
    }
    close(fd);
}
