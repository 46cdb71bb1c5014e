/* test/core/level_peek.h - maps of hosts as texts, for the tests of two levels of cost. */
#ifndef GCOLL_TEST_LEVEL_PEEK_H
#define GCOLL_TEST_LEVEL_PEEK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers the hosts and writes the map. Returns 0 if the text does not fit. */
int level_write(const uint64_t *hosts, uint32_t size, uint32_t *node, char *text, size_t bytes);
/* Returns whether the text is a map of `size` ranks, with the numbers in node. */
int level_read(const char *text, uint32_t size, uint32_t *node);
/* Returns the ranks of the largest of several hosts, else 1. */
uint32_t level_most(const uint32_t *node, uint32_t size);

#ifdef __cplusplus
}
#endif

#endif
