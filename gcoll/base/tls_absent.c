/* gcoll/base/tls_absent.c - in builds without TLS: says so when it is asked for. */
#include "gcoll/base/tls.h"

#include <errno.h>

gcoll_status gcoll_tls_setup_create(const gcoll_tls_files *files, gcoll_tls_setup **setup) {
    (void)files;
    (void)setup;
    return gcoll_error(
        GCOLL_ERR_UNSUPPORTED,
        "TLS: this build has none (CMake option GCOLL_OPENSSL); it needs the headers of OpenSSL 3 "
        "(libssl-dev, or openssl-devel of Fedora)");
}

/* There is no setup, so nothing below is ever called but for NULL. */

gcoll_tls_setup *gcoll_tls_setup_share(gcoll_tls_setup *setup) {
    return setup;
}

void gcoll_tls_setup_destroy(gcoll_tls_setup *setup) {
    (void)setup;
}

bool gcoll_tls_setup_certifies(const gcoll_tls_setup *setup) {
    (void)setup;
    return false;
}

gcoll_status gcoll_tls_create(gcoll_tls_setup *setup, const gcoll_tls_side *side, gcoll_tls **tls) {
    (void)setup;
    (void)side;
    (void)tls;
    return gcoll_error(GCOLL_ERR_UNSUPPORTED, "TLS: this build has none");
}

void gcoll_tls_destroy(gcoll_tls *tls) {
    (void)tls;
}

static int absent(const gcoll_tls *tls) {
    (void)tls;
    errno = ENOSYS;
    return -1;
}

int gcoll_tls_shake(gcoll_tls *tls) {
    return absent(tls);
}

bool gcoll_tls_is_done(const gcoll_tls *tls) {
    (void)tls;
    return false;
}

bool gcoll_tls_export(gcoll_tls *tls, uint8_t channel[GCOLL_SHA256_BYTES]) {
    (void)channel;
    return absent(tls) == 0;
}

void gcoll_tls_read_ahead(gcoll_tls *tls) {
    (void)tls;
}

ssize_t gcoll_tls_send(gcoll_tls *tls, const struct iovec *pieces, size_t count) {
    (void)pieces;
    (void)count;
    return absent(tls);
}

size_t gcoll_tls_unsent(const gcoll_tls *tls) {
    (void)tls;
    return 0;
}

bool gcoll_tls_flush(gcoll_tls *tls) {
    return absent(tls) == 0;
}

ssize_t gcoll_tls_recv(gcoll_tls *tls, const struct iovec *pieces, size_t count, bool asks_kernel) {
    (void)pieces;
    (void)count;
    (void)asks_kernel;
    return absent(tls);
}

bool gcoll_tls_has_failed(const gcoll_tls *tls) {
    (void)tls;
    return true;
}

const char *gcoll_tls_problem(const gcoll_tls *tls) {
    (void)tls;
    return "";
}

bool gcoll_tls_was_refused(const gcoll_tls *tls) {
    (void)tls;
    return false;
}
