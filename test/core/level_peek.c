/* test/core/level_peek.c - maps of hosts as texts, for the tests of two levels of cost. */
#include "test/core/level_peek.h"

#include "gcoll/rendezvous/meeting.h"

int level_write(const uint64_t *hosts, uint32_t size, uint32_t *node, char *text, size_t bytes) {
    return gcoll_hosts_number(hosts, size, node) == GCOLL_OK && gcoll_hosts_write(node, size, text, bytes);
}

int level_read(const char *text, uint32_t size, uint32_t *node) {
    bool is_map = false;
    return gcoll_hosts_read(text, size, node, &is_map) == GCOLL_OK && is_map;
}

uint32_t level_most(const uint32_t *node, uint32_t size) {
    return gcoll_hosts_most(node, size);
}
