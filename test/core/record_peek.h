#ifndef GCOLL_TEST_CORE_RECORD_PEEK_H
#define GCOLL_TEST_CORE_RECORD_PEEK_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A recorder by itself, without the calls that it is for. NULL: no memory. */
typedef struct record_rows record_rows;
record_rows *record_rows_create(void);
void record_rows_free(record_rows *rows);

/* Writes the next row of operations and of steps. Every word of a row is the number of the row, or is
 * computed from it. */
void record_rows_write(record_rows *rows);

/* Reads, from another thread, a row of each that is overwritten soon. */
typedef struct record_found {
    uint64_t whole, torn, gone;
} record_found;
void record_rows_read(record_rows *rows, record_found *operations, record_found *steps);

#ifdef __cplusplus
}
#endif

#endif /* GCOLL_TEST_CORE_RECORD_PEEK_H */
