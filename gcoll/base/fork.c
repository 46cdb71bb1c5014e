/* gcoll/base/fork.c - counts forks, and replaces descriptors in a forked child; see fork.h. */
#include "gcoll/base/fork.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

uint32_t gcoll_forks;

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* guards the list, and is held while a process forks */
static gcoll_descriptor *descriptors;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int watch_error;

void gcoll_fork_hold(void) {
    pthread_mutex_lock(&lock);
}

void gcoll_fork_release(void) {
    pthread_mutex_unlock(&lock);
}

/* Opens a descriptor on which socket operations fail. */
static int open_dead_end(void) {
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/* Replaces the entered descriptors, in the forked child. The child has one thread, and may call only
 * functions that are safe in a signal handler. */
static void replace_descriptors(void) {
    int dead_end = descriptors ? open_dead_end() : -1;
    bool has_taken_its_number = false;
    if (descriptors &&
        dead_end < 0) { /* no descriptor number is free: close the first descriptor to free its number */
        close(descriptors->fd);
        dead_end = open_dead_end();
    }
    while (descriptors) {
        gcoll_descriptor *each = descriptors;
        if (each->fd == dead_end)
            has_taken_its_number = true;
        else if (dead_end < 0 || dup3(dead_end, each->fd, O_CLOEXEC) < 0)
            close(each->fd);
        descriptors = each->next;
        each->next = NULL;
        each->link = NULL;
    }
    if (dead_end >= 0 && !has_taken_its_number)
        close(dead_end);
}

static void become_child(void) {
    gcoll_forks++;
    replace_descriptors();
    pthread_mutex_unlock(&lock);
}

static void watch(void) {
    watch_error = pthread_atfork(gcoll_fork_hold, gcoll_fork_release, become_child);
}

gcoll_status gcoll_fork_watch(void) {
    pthread_once(&once, watch);
    return watch_error == 0 ? GCOLL_OK
                            : gcoll_error(GCOLL_ERR_NO_MEMORY, "cannot watch for forks: no memory");
}

void gcoll_descriptor_enter(gcoll_descriptor *descriptor, int fd) {
    descriptor->fd = fd;
    descriptor->next = descriptors;
    descriptor->link = &descriptors;
    if (descriptors)
        descriptors->link = &descriptor->next;
    descriptors = descriptor;
}

void gcoll_descriptor_leave(gcoll_descriptor *descriptor) {
    if (!descriptor->link)
        return;
    *descriptor->link = descriptor->next;
    if (descriptor->next)
        descriptor->next->link = descriptor->link;
    descriptor->next = NULL;
    descriptor->link = NULL;
}
