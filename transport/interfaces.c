/* transport/interfaces.c - chooses addresses of this host by a list of interfaces; see interfaces.h. */
#include "transport/interfaces.h"

#include <stdlib.h>
#include <string.h>

#include "gcoll/base/text.h"

/* Longest part of a list that an error shows. */
#define SHOWN_MAX 80
/* Longest item, with its NUL: an address with a scope and a prefix is shorter. */
#define ITEM_MAX 80
/* What an error lists of this host. */
#define HOST_TEXT_MAX 512

#define EXCLUDE '^'

bool gcoll_interfaces_excludes(const char *list) {
    return list[0] == EXCLUDE;
}

/* ---- Items --------------------------------------------------------------------------------------- */

typedef struct item {
    char text[ITEM_MAX];
    gcoll_host_address address; /* if is_address */
    bool is_address;
    bool is_subnet; /* an address with a prefix */
} item;

/* Takes the item at *at, and moves *at behind its comma; NULL behind the last one. False if it is malformed:
 * then only its text is set, cut off. */
static bool take_item(const char **at, item *it) {
    const size_t length = strcspn(*at, ",");
    const char *rest = (*at)[length] == ',' ? *at + length + 1 : NULL;
    memset(it, 0, sizeof *it);
    memcpy(it->text, *at, length < ITEM_MAX ? length : ITEM_MAX - 1);
    *at = rest;
    if (length == 0 || length >= ITEM_MAX)
        return false;
    it->is_address = gcoll_host_address_parse(it->text, &it->address, &it->is_subnet);
    if (it->is_address)
        return true;
    for (const char *c = it->text; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == '\x7f' || *c == '/' || *c == EXCLUDE)
            return false;
    return true;
}

/* Whether a name fits a pattern, in which each * stands for any characters, or none. */
static bool fits_pattern(const char *pattern, const char *name) {
    const char *star = NULL, *retry = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            retry = name;
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star) { /* the last star takes one character more */
            pattern = star + 1;
            name = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static bool fits(const item *it, const gcoll_host_address *address) {
    if (!it->is_address)
        return fits_pattern(it->text, address->interface);
    if (it->address.interface[0] != '\0' && strcmp(it->address.interface, address->interface) != 0)
        return false;
    return it->is_subnet ? gcoll_host_address_near(&it->address, address, it->address.prefix)
                         : gcoll_host_address_equal(&it->address, address);
}

/* ---- Errors -------------------------------------------------------------------------------------- */

/* "lo (127.0.0.1), eth0 (10.0.0.7)" */
static void list_host(const gcoll_host_address *all, uint32_t count, char text[HOST_TEXT_MAX]) {
    gcoll_text to = {text, HOST_TEXT_MAX, 0};
    text[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        char address[GCOLL_ADDRESS_NAME_MAX];
        gcoll_host_address_text(&all[i], address, sizeof address);
        gcoll_text_add(&to, "%s%s (%s)", i > 0 ? ", " : "", all[i].interface, address);
    }
    if (count == 0)
        gcoll_text_add(&to, "no interface that is up");
}

/* Begins an error: the list by its name, and its text. */
static void begin(gcoll_text *to, const char *from, const char *list) {
    char shown[SHOWN_MAX + sizeof "..."];
    gcoll_text text = {shown, sizeof shown, 0};
    gcoll_text_add(&text, "%.*s%s", SHOWN_MAX, list, strlen(list) > SHOWN_MAX ? "..." : "");
    gcoll_text_clean(shown);
    gcoll_text_add(to, "%s: is '%s'", from, shown);
}

gcoll_status gcoll_interfaces_check(const char *from, const char *list) {
    char head[SHOWN_MAX + 64];
    gcoll_text to = {head, sizeof head, 0};
    if (strnlen(list, GCOLL_INTERFACES_TEXT_MAX) == GCOLL_INTERFACES_TEXT_MAX) {
        begin(&to, from, list);
        return gcoll_error(GCOLL_ERR_INVALID, "%s, which is too long; allowed are up to %d bytes", head,
                           GCOLL_INTERFACES_TEXT_MAX - 1);
    }
    const char *at = list + gcoll_interfaces_excludes(list);
    while (at) {
        item it;
        if (take_item(&at, &it))
            continue;
        begin(&to, from, list);
        gcoll_text_clean(it.text);
        if (it.text[0] == '\0')
            return gcoll_error(GCOLL_ERR_INVALID,
                               "%s, in which an item is missing; allowed are names, addresses and subnets, "
                               "joined by commas",
                               head);
        return gcoll_error(
            GCOLL_ERR_INVALID,
            "%s, in which '%s' is no name, address or subnet; allowed are such as eth0, eth*, "
            "10.0.0.7 and 10.0.0.0/8, joined by commas, and one ^ ahead of all to exclude them",
            head, it.text);
    }
    return GCOLL_OK;
}

/* ---- The choice ---------------------------------------------------------------------------------- */

static bool is_taken(const gcoll_host_address *taken, uint32_t count, const gcoll_host_address *address) {
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(taken[i].interface, address->interface) == 0 &&
            gcoll_host_address_equal(&taken[i], address))
            return true;
    return false;
}

/* The address that stands for the interface of all[first] in an item: one that is not link-local, if there is
 * one. */
static const gcoll_host_address *best_of(const item *it, const gcoll_host_address *all, uint32_t count,
                                         uint32_t first) {
    for (uint32_t i = first; i < count; i++)
        if (strcmp(all[i].interface, all[first].interface) == 0 && fits(it, &all[i]) &&
            !gcoll_host_address_is_link_local(&all[i]))
            return &all[i];
    return &all[first];
}

/* Whether an address of the same interface comes earlier and fits, too. */
static bool is_later(const item *it, const gcoll_host_address *all, uint32_t index) {
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(all[i].interface, all[index].interface) == 0 && fits(it, &all[i]))
            return true;
    return false;
}

/* Adds to `taken` one address of each interface that the item fits. */
static uint32_t take_fitting(const item *it, const gcoll_host_address *all, uint32_t count,
                             gcoll_host_address *taken, uint32_t used) {
    for (uint32_t i = 0; i < count; i++) {
        if (!fits(it, &all[i]) || is_later(it, all, i))
            continue;
        const gcoll_host_address *best = best_of(it, all, count, i);
        if (!is_taken(taken, used, best))
            taken[used++] = *best;
    }
    return used;
}

static bool is_excluded(const char *items, const gcoll_host_address *address) {
    while (items) {
        item it;
        if (take_item(&items, &it) && fits(&it, address))
            return true;
    }
    return false;
}

gcoll_status gcoll_interfaces_choose(const char *from, const char *list, gcoll_host_address *all,
                                     uint32_t *count) {
    gcoll_status status = gcoll_interfaces_check(from, list);
    if (status != GCOLL_OK)
        return status;
    gcoll_host_address *taken = calloc((size_t)*count + 1, sizeof *taken);
    uint32_t used = 0;
    if (!taken)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for %u addresses", *count);
    if (gcoll_interfaces_excludes(list)) {
        for (uint32_t i = 0; i < *count; i++)
            if (!gcoll_host_address_is_link_local(&all[i]) && !is_excluded(list + 1, &all[i]))
                taken[used++] = all[i];
    } else {
        const char *at = list;
        while (at) {
            item it;
            if (take_item(&at, &it))
                used = take_fitting(&it, all, *count, taken, used);
        }
    }
    if (used == 0) {
        char host[HOST_TEXT_MAX], head[SHOWN_MAX + 64];
        gcoll_text to = {head, sizeof head, 0};
        list_host(all, *count, host);
        begin(&to, from, list);
        status = gcoll_error(GCOLL_ERR_INVALID, "%s, which %s; this host has %s", head,
                             gcoll_interfaces_excludes(list) ? "leaves nothing" : "fits nothing", host);
    } else {
        memcpy(all, taken, used * sizeof *taken);
        *count = used;
    }
    free(taken);
    return status;
}
