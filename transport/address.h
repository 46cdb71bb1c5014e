/*
 * transport/address.h - the address text that a rank publishes, so that its peers can connect.
 *
 * One word: "tcp1;host=<16 hex>;token=<32 hex>;port=4711;a=10.0.0.7/24;a=fe80::1%eth0/64". host tells
 * machines (or network namespaces) apart; token is random, and whoever connects must know it; each a= is
 * an address of an interface with the length of its subnet's prefix, the preferred one first. ";sum=crc32c"
 * says that frames carry checksums, ";auth=1" that whoever connects must know the job's secret, too,
 * ";tls=psk" or ";tls=x509" that connections are encrypted, by a key of the secret or by certificates.
 */
#ifndef GCOLL_ADDRESS_H
#define GCOLL_ADDRESS_H

#include <net/if.h>
#include <sys/socket.h>

#include "transport/session/wire.h"
#include "transport/transport.h"

/* A host with hundreds of virtual interfaces still fits its text into GCOLL_ADDRESS_MAX. */
#define GCOLL_ADDRESS_HOSTS 32
/* "[fe80::...%interface]:65535" */
#define GCOLL_ADDRESS_NAME_MAX 96

typedef struct gcoll_host_address {
    struct sockaddr_storage where; /* AF_INET or AF_INET6; port 0 */
    uint8_t prefix;                /* bits of the subnet */
    char interface[IF_NAMESIZE];   /* "" if not known */
} gcoll_host_address;

typedef enum gcoll_address_tls {
    GCOLL_ADDRESS_CLEAR,
    GCOLL_ADDRESS_PSK, /* encrypted, by a key of the job's secret */
    GCOLL_ADDRESS_X509 /* by certificates */
} gcoll_address_tls;

typedef struct gcoll_address {
    uint64_t host;
    uint8_t token[GCOLL_WIRE_TOKEN_BYTES];
    uint16_t port;
    uint32_t count;
    gcoll_host_address hosts[GCOLL_ADDRESS_HOSTS];
    bool checksum; /* frames carry checksums */
    bool secret;   /* the job has one */
    gcoll_address_tls tls;
} gcoll_address;

/* INVALID if it does not fit. */
gcoll_status gcoll_address_format(const gcoll_address *address, char *text, size_t bytes);

/* Parses a text, which may come from anybody. PROTOCOL says what is wrong with it. */
gcoll_status gcoll_address_parse(const char *text, gcoll_address *address);

/* Which of peer's addresses to try, best first, as seen from a host with the addresses `own`: loopback
 * first on the same host and never on another, then addresses in a subnet of ours (which fe80::/10 is not),
 * then the rest in the peer's order, those that are our own last. Returns how many; 0 if there is no hope. */
uint32_t gcoll_address_choose(const gcoll_address *own, const gcoll_address *peer,
                              uint32_t order[GCOLL_ADDRESS_HOSTS]);

/* The scope of a link-local address names an interface of the peer's host. On another host it is replaced by
 * an interface of ours: the one of that name, else the one of a link-local address, else the first. */
void gcoll_address_localize(const gcoll_address *own, gcoll_address *peer);

bool gcoll_host_address_is_loopback(const gcoll_host_address *address);
bool gcoll_host_address_is_link_local(const gcoll_host_address *address);
/* The same bits of address, whatever the port and scope. */
bool gcoll_host_address_equal(const gcoll_host_address *a, const gcoll_host_address *b);
/* Whether b lies in the subnet of `bits` bits around a. */
bool gcoll_host_address_near(const gcoll_host_address *a, const gcoll_host_address *b, uint32_t bits);

/* "10.0.0.7", "fe80::1%eth0/64": an address, scope and prefix optional. false if it is none. *has_prefix
 * tells whether there was one; else prefix is all bits. */
bool gcoll_host_address_parse(const char *text, gcoll_host_address *address, bool *has_prefix);

/* The address alone: "10.0.0.7", "fe80::1%eth0". */
void gcoll_host_address_text(const gcoll_host_address *address, char *text, size_t bytes);

/* "10.0.0.7:4711", "[::1]:4711". */
void gcoll_host_address_name(const gcoll_host_address *address, uint16_t port, char *text, size_t bytes);

/* Ready for connect() or bind(). */
void gcoll_host_address_at_port(const gcoll_host_address *address, uint16_t port,
                                struct sockaddr_storage *where);

#endif
