/* gcoll/record/service.h - a thread of the library beside the program's, for who asks from outside: it writes
 * files when a signal comes (signal.c), and answers gcoll_top (watch.c). */
#ifndef GCOLL_RECORD_SERVICE_H
#define GCOLL_RECORD_SERVICE_H

#include "gcoll/record/record.h"

/* Makes the thread, if there is none. `wanted_by` names the variable in errors. */
gcoll_status gcoll_service_start(const char *wanted_by);
/* Makes it write all files. Safe within a handler of a signal; does nothing in a process without a thread. */
void gcoll_service_request_files(void);
/* Has it answer at this listening socket, of the file `path`, which goes when the process ends. */
void gcoll_service_listen(int fd, const char *path);
bool gcoll_service_is_listening(void);
/* Around the two: contexts may be made by several threads. */
void gcoll_service_begin_offer(void);
void gcoll_service_end_offer(void);
/* On its thread: a pause where nothing can be done now. */
void gcoll_service_rest(void);

/* watch.c: accepts a connection, and sends it the state of all contexts of the list *first. Takes `lock`,
 * which guards the list. */
void gcoll_watch_answer(int listener, pthread_mutex_t *lock, gcoll_record *const *first);

#endif
