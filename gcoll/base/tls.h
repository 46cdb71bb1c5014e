/*
 * gcoll/base/tls.h - TLS 1.3 on a connected socket that does not block, by OpenSSL 3. The library is opened
 * when TLS is first asked for; a build without its headers says so then.
 *
 * Both sides show who they are by a key of 32 bytes that both have (an external pre-shared key, with
 * ephemeral keys for each connection), or by certificates.
 *
 * Sending and receiving look like sendmsg and recvmsg. But what was taken to be sent may still lie here, as
 * ciphertext that the kernel did not take: gcoll_tls_unsent counts it. And what has come from the kernel may
 * lie here too: a socket that is not readable may have more to receive, until gcoll_tls_recv says EAGAIN.
 */
#ifndef GCOLL_BASE_TLS_H
#define GCOLL_BASE_TLS_H

#include <sys/uio.h>

#include "gcoll/base/base.h"
#include "gcoll/base/sha256.h"

#define GCOLL_TLS_KEY_BYTES  GCOLL_SHA256_BYTES
#define GCOLL_TLS_TEXT_MAX   192
#define GCOLL_TLS_NAME_MAX   256 /* of a name in a certificate, with the NUL */
#define GCOLL_TLS_RECORD_MAX 16384

typedef struct gcoll_tls_setup gcoll_tls_setup; /* what connections have in common; for several threads */
typedef struct gcoll_tls gcoll_tls;             /* one connection */

/* PEM files. All NULL: keys that both sides have, and no certificates. */
typedef struct gcoll_tls_files {
    const char *certificate; /* ours, and the chain up to the authority */
    const char *key;         /* of our certificate */
    const char *authority;   /* certificates of those who may have signed the other side's */
    /* NULL, or what errors call the three, as "options.tls_certificate". */
    const char *certificate_from, *key_from, *authority_from;
    bool trusts_system; /* without `authority`, those that this system trusts */
} gcoll_tls_files;

/* UNSUPPORTED: this build or this host has no TLS. INVALID, IO: a file; the text names it. Nobody else but
 * its owner may read the file of the key. */
gcoll_status gcoll_tls_setup_create(const gcoll_tls_files *files, gcoll_tls_setup **setup);
/* Several owners: the last one to let go frees it. NULL is fine. */
gcoll_tls_setup *gcoll_tls_setup_share(gcoll_tls_setup *setup);
void gcoll_tls_setup_destroy(gcoll_tls_setup *setup);
/* Whether each side shows a certificate, rather than that it has the key. */
bool gcoll_tls_setup_certifies(const gcoll_tls_setup *setup);

typedef struct gcoll_tls_side {
    int fd; /* borrowed */
    bool is_server;
    const uint8_t *key; /* GCOLL_TLS_KEY_BYTES; of a setup without certificates */
    const char *name;   /* NULL, or the DNS name or address that the other side's certificate must have */
} gcoll_tls_side;

/* NO_MEMORY. */
gcoll_status gcoll_tls_create(gcoll_tls_setup *setup, const gcoll_tls_side *side, gcoll_tls **tls);
/* Says nothing to the other side. NULL is fine. */
void gcoll_tls_destroy(gcoll_tls *tls);

/* Goes on with the handshake. 1: it is done. 0: more must come, or the kernel took not everything. -1: it
 * failed; gcoll_tls_problem says why. */
int gcoll_tls_shake(gcoll_tls *tls);
bool gcoll_tls_is_done(const gcoll_tls *tls);
/* After the handshake: 32 bytes that both sides of this connection know, and of no other. */
bool gcoll_tls_export(gcoll_tls *tls, uint8_t channel[GCOLL_SHA256_BYTES]);
/* From now on reads as much at once as the kernel has. Before that it takes no byte beyond what is asked for,
 * but for the rest of a record. */
void gcoll_tls_read_ahead(gcoll_tls *tls);

/* As sendmsg: how many bytes were taken, or -1 and errno. EAGAIN: none, until the kernel has taken what is
 * unsent. EPROTO: TLS itself failed, see gcoll_tls_problem. Pieces need not be the same when it is called
 * again. */
ssize_t gcoll_tls_send(gcoll_tls *tls, const struct iovec *pieces, size_t count);
/* Bytes that the kernel has not taken yet. */
size_t gcoll_tls_unsent(const gcoll_tls *tls);
/* Offers them to the kernel. False: errno. */
bool gcoll_tls_flush(gcoll_tls *tls);

/* As recvmsg: fills the pieces as far as bytes are there. 0: the stream ended, which is not the same as that
 * the other side has said so. EPROTO: what came is not what the other side sent. asks_kernel false: only what
 * lies here already. */
ssize_t gcoll_tls_recv(gcoll_tls *tls, const struct iovec *pieces, size_t count, bool asks_kernel);

/* Whether the stream has ended, or TLS failed: what is called from now on says so. */
bool gcoll_tls_has_failed(const gcoll_tls *tls);
/* Why it failed, as something that the other side did: "refused TLS: certificate expired". Without any key,
 * printable. "": it did not. */
const char *gcoll_tls_problem(const gcoll_tls *tls);
/* Whether the other side has broken it off, and why is in the problem. */
bool gcoll_tls_was_refused(const gcoll_tls *tls);

#endif
