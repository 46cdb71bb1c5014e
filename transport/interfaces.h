/*
 * transport/interfaces.h - chooses addresses of this host by a list, which is options.interface.
 *
 * Items are joined by commas: a name of an interface ("eth0"), in which each * stands for any characters
 * ("eth*"); an address ("10.0.0.7", "fe80::1%eth0"); a subnet ("10.0.0.0/8"). The order is that of
 * preference. An item stands for one address of each interface that it fits. Items that fit nothing are
 * passed over, as hosts of one job may differ, but something must be left.
 *
 * "::" alone stands for all addresses, those that the host gets later included: it is what to listen at, and
 * all others that the host has now are told to peers.
 *
 * A list that begins with ^ excludes: "^docker0,veth*" stands for all addresses that no item fits, except for
 * link-local ones.
 */
#ifndef GCOLL_INTERFACES_H
#define GCOLL_INTERFACES_H

#include "transport/address.h"

#define GCOLL_INTERFACES_EVERYWHERE "::"

/* Longest list, with its NUL. */
#define GCOLL_INTERFACES_TEXT_MAX 1024

/* Keeps in all[0 .. *count-1] the chosen addresses, the preferred one first. from: what errors call the list.
 * INVALID: the list or an item is malformed, or nothing is left; the text lists what this host has. */
gcoll_status gcoll_interfaces_choose(const char *from, const char *list, gcoll_host_address *all,
                                     uint32_t *count);

/* Checks the form of a list; whether it fits an address of this host stays open. INVALID. */
gcoll_status gcoll_interfaces_check(const char *from, const char *list);

/* Whether the list excludes. */
bool gcoll_interfaces_excludes(const char *list);

#endif
