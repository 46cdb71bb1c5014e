/* gcoll/base/tls.c - TLS 1.3 by OpenSSL 3, see tls.h. */
#include "gcoll/base/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gcoll/base/openssl.h"
#include "gcoll/base/private_file.h"
#include "gcoll/base/text.h"

/* One system call reads up to so many bytes, and one writes them. */
#define READ_BYTES  (128U << 10)
#define WRITE_BYTES (128U << 10)
/* The first of them come by a call of their own: a wait that finds nothing need not ask OpenSSL. */
#define FIRST_BYTES 512U
/* Most that a record takes with all that is around it; RFC 8446, 5.2. */
#define RECORD_ROOM (GCOLL_TLS_RECORD_MAX + 5U + 256U)
/* New keys after so many bytes: AES-GCM may encrypt 2^24.5 records by one (RFC 8446, 5.5). */
#ifndef REKEY_BYTES /* a test has less */
#define REKEY_BYTES (UINT64_C(64) << 30)
#endif
#define FILE_MOST     (16 << 20)
#define KEY_FILE_MOST (64 << 10)
#define CHAIN_MAX     100 /* certificates between ours and the authority's, as OpenSSL has it */
/* The reasons of OpenSSL's errors that are alerts of the other side. */
#define ALERT_FIRST 1000
#define ALERT_LAST  1255
#define NAME_SAID   80

static const char ciphers_of_keys[] = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
static const char ciphers_of_certificates[] =
    "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384";
static const uint8_t first_cipher[] = {0x13, 0x01}; /* a pre-shared key is one of its hash */
static const uint8_t identity[] = "gcoll";          /* of the key: a connection has but one */
static const char channel_label[] = "EXPORTER-gcoll channel";

struct gcoll_tls_setup {
    SSL_CTX *context;
    BIO_METHOD *method; /* of our end of a connection; lives as long as the process */
    atomic_uint owners;
    bool certifies;
};

struct gcoll_tls {
    gcoll_tls_setup *setup; /* shared */
    SSL *ssl;
    int fd;
    bool is_done;
    bool asks_kernel; /* when something is to be read, until it has given less than there was room for */
    bool is_ahead;    /* gcoll_tls_read_ahead */
    bool is_empty;    /* OpenSSL has nothing that it could give without more bytes */
    bool has_ended;   /* the stream */
    bool was_refused;
    bool waits; /* OpenSSL waits for the socket */
    int error;  /* of a system call that failed; 0: none did */
    int held;   /* the same, while bytes before it are still to be read: the kernel tells it once */
    int broken; /* for ever, by this error number; 0: it is not */
    uint8_t key[GCOLL_TLS_KEY_BYTES];
    uint8_t *out; /* WRITE_BYTES; ciphertext for the kernel */
    size_t begin, end;
    uint8_t first[FIRST_BYTES];
    size_t first_bytes;            /* that came, and OpenSSL has not taken */
    uint64_t sent;                 /* bytes since the keys were new */
    char name[GCOLL_TLS_NAME_MAX]; /* that the other side's certificate must have; "": any */
    char problem[GCOLL_TLS_TEXT_MAX];
};

/* ---- Our end of the socket, which OpenSSL calls ----------------------------------------------------- */

/* Offers the ciphertext to the kernel. False: errno. */
static bool write_out(gcoll_tls *tls) {
    while (tls->begin < tls->end) {
        const ssize_t sent =
            send(tls->fd, tls->out + tls->begin, tls->end - tls->begin, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return false;
        tls->begin += (size_t)sent;
    }
    tls->begin = tls->end = 0;
    return true;
}

static int take_out(BIO *bio, const char *bytes, size_t count, size_t *taken) {
    gcoll_tls *tls = gcoll_openssl_api.BIO_get_data(bio);
    gcoll_openssl_api.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    if (tls->end + count > WRITE_BYTES && !write_out(tls)) {
        memmove(tls->out, tls->out + tls->begin, tls->end - tls->begin);
        tls->end -= tls->begin;
        tls->begin = 0;
    }
    *taken = WRITE_BYTES - tls->end < count ? WRITE_BYTES - tls->end : count;
    if (*taken == 0 && count > 0) {
        tls->waits = true;
        gcoll_openssl_api.BIO_set_flags(bio, BIO_FLAGS_WRITE | BIO_FLAGS_SHOULD_RETRY);
        return 0;
    }
    memcpy(tls->out + tls->end, bytes, *taken);
    tls->end += *taken;
    return 1;
}

/* As recv; once it has given less than there is room for, only when it is asked for again. */
static ssize_t ask_kernel(gcoll_tls *tls, void *bytes, size_t room) {
    ssize_t got = -1;
    errno = tls->held != 0 ? tls->held : EAGAIN;
    while (tls->asks_kernel && tls->held == 0 && (got = recv(tls->fd, bytes, room, MSG_DONTWAIT)) < 0 &&
           errno == EINTR) {
    }
    if (tls->is_done && got > 0 && (size_t)got < room)
        tls->asks_kernel = false; /* saves a system call */
    if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        tls->held = errno;
    return got;
}

/* Whether OpenSSL can do anything. Else there is nothing, and errno says why. */
static bool has_something(gcoll_tls *tls) {
    if (!tls->is_ahead || !tls->is_empty)
        return true;
    const ssize_t got = ask_kernel(tls, tls->first, sizeof tls->first);
    if (got > 0)
        tls->first_bytes = (size_t)got;
    return got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

static int bring_in(BIO *bio, char *bytes, size_t room, size_t *brought) {
    gcoll_tls *tls = gcoll_openssl_api.BIO_get_data(bio);
    gcoll_openssl_api.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    const size_t first = tls->first_bytes < room ? tls->first_bytes : room;
    memcpy(bytes, tls->first, first);
    memmove(tls->first, tls->first + first, tls->first_bytes - first);
    tls->first_bytes -= first;
    const ssize_t got = first < room ? ask_kernel(tls, bytes + first, room - first) : 0;
    *brought = first + (got > 0 ? (size_t)got : 0);
    if (*brought > 0)
        return 1;
    if (got == 0)
        tls->has_ended = true;
    else if (errno == EAGAIN || errno == EWOULDBLOCK)
        tls->waits = true;
    else
        tls->error = errno;
    if (tls->waits)
        gcoll_openssl_api.BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
    return 0;
}

static long control(BIO *bio, int command, long number, void *pointer) {
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH; /* write_out is called by whoever sends */
}

static BIO_METHOD *make_method(void) {
    const gcoll_openssl *api = &gcoll_openssl_api;
    BIO_METHOD *method = api->BIO_meth_new(api->BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gcoll");
    if (method && api->BIO_meth_set_write_ex(method, take_out) &&
        api->BIO_meth_set_read_ex(method, bring_in) && api->BIO_meth_set_ctrl(method, control))
        return method;
    api->BIO_meth_free(method);
    return NULL;
}

/* ---- Pre-shared keys -------------------------------------------------------------------------------- */

static SSL_SESSION *session_of(SSL *ssl) {
    const gcoll_openssl *api = &gcoll_openssl_api;
    const gcoll_tls *tls = api->SSL_get_ex_data(ssl, 0);
    const SSL_CIPHER *cipher = api->SSL_CIPHER_find(ssl, first_cipher);
    SSL_SESSION *session = cipher ? api->SSL_SESSION_new() : NULL;
    if (session && api->SSL_SESSION_set1_master_key(session, tls->key, sizeof tls->key) &&
        api->SSL_SESSION_set_cipher(session, cipher) &&
        api->SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    api->SSL_SESSION_free(session);
    return NULL;
}

/* Of the side that connects. */
static int use_key(SSL *ssl, const EVP_MD *digest, const unsigned char **id, size_t *id_bytes,
                   SSL_SESSION **session) {
    (void)
        digest; /* not NULL: the other side wants another group, and the same hash as all our ciphers have */
    *session = session_of(ssl);
    *id = identity;
    *id_bytes = sizeof identity;
    return *session != NULL;
}

/* Of the side that is called. No session: the handshake goes on without a key, and fails for that. */
static int find_key(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **session) {
    const bool is_known = id_bytes == sizeof identity && memcmp(id, identity, sizeof identity) == 0;
    *session = is_known ? session_of(ssl) : NULL;
    return !is_known || *session;
}

/* ---- Setups ----------------------------------------------------------------------------------------- */

/* What OpenSSL says of the latest error. */
static const char *reason(void) {
    const unsigned long error = gcoll_openssl_api.ERR_peek_last_error();
    const char *text = gcoll_openssl_api.ERR_reason_error_string(error);
    return text ? text : "no reason given";
}

static gcoll_status refuse_file(const char *from, const char *name, const char *what) {
    char text[GCOLL_TLS_TEXT_MAX];
    snprintf(text, sizeof text, "%s", reason());
    gcoll_text_clean(text);
    return gcoll_error(GCOLL_ERR_INVALID, "%s: '%.*s' is no file of %s in PEM form (%s)", from, NAME_SAID,
                       name, what, text);
}

static const char *or_else(const char *text, const char *other) {
    return text ? text : other;
}

/* Asked for the password of a key: there is none, and nobody at a terminal to ask. */
static int no_password(char *text, int room, int writes, void *arg) {
    (void)text;
    (void)room;
    (void)writes;
    (void)arg;
    return -1;
}

/* OpenSSL would wait for a pipe, and read a device for ever. */
static gcoll_status check_file(const char *from, const char *name) {
    struct stat about;
    if (stat(name, &about) != 0)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: cannot open '%.*s': %s", from, NAME_SAID, name,
                           strerror(errno));
    if (!S_ISREG(about.st_mode) || about.st_size > FILE_MOST)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: '%.*s' is no regular file of up to %d bytes", from,
                           NAME_SAID, name, FILE_MOST);
    return GCOLL_OK;
}

/* Of a file that nobody else can read. NULL: it has none, and OpenSSL says why. */
static gcoll_status read_key(const char *from, const char *name, EVP_PKEY **key) {
    const gcoll_openssl *api = &gcoll_openssl_api;
    char text[KEY_FILE_MOST];
    gcoll_descriptor descriptor = {0};
    int fd;
    size_t have = 0;
    ssize_t got;
    const gcoll_status status = gcoll_private_file_open(name, from, &descriptor, &fd);
    if (status != GCOLL_OK)
        return status;
    while (have < sizeof text &&
           ((got = read(fd, text + have, sizeof text - have)) > 0 || (got < 0 && errno == EINTR)))
        have += got > 0 ? (size_t)got : 0;
    gcoll_private_file_close(&descriptor, fd);
    BIO *bio = api->BIO_new_mem_buf(text, (int)have);
    *key = bio ? api->PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
    api->BIO_free(bio);
    gcoll_forget_secret(text, have);
    return GCOLL_OK;
}

static gcoll_status read_files(SSL_CTX *context, const gcoll_tls_files *files) {
    const gcoll_openssl *api = &gcoll_openssl_api;
    const char *certificate_from = or_else(files->certificate_from, "certificate");
    const char *key_from = or_else(files->key_from, "key");
    if (!files->certificate != !files->key)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is set without %s; allowed are both or none",
                           files->key ? key_from : certificate_from,
                           files->key ? certificate_from : key_from);
    const char *authority_from = or_else(files->authority_from, "authority");
    gcoll_status status = files->authority ? check_file(authority_from, files->authority) : GCOLL_OK;
    if (status == GCOLL_OK && files->certificate)
        status = check_file(certificate_from, files->certificate);
    if (status != GCOLL_OK)
        return status;
    if (files->authority && !api->SSL_CTX_load_verify_file(context, files->authority))
        return refuse_file(authority_from, files->authority, "certificates");
    if (!files->authority && files->trusts_system && !api->SSL_CTX_set_default_verify_paths(context))
        return gcoll_error(GCOLL_ERR_IO, "TLS: this system's trusted certificates cannot be read");
    if (!files->certificate)
        return GCOLL_OK;
    if (!api->SSL_CTX_use_certificate_chain_file(context, files->certificate))
        return refuse_file(certificate_from, files->certificate, "a certificate");
    EVP_PKEY *key = NULL;
    status = read_key(key_from, files->key, &key);
    if (status != GCOLL_OK)
        return status;
    if (!key)
        return refuse_file(key_from, files->key, "a private key without a password");
    const bool fits = api->SSL_CTX_use_PrivateKey(context, key) && api->SSL_CTX_check_private_key(context);
    api->EVP_PKEY_free(key);
    if (!fits)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: '%.*s' is not the key of the certificate of %s", key_from,
                           NAME_SAID, files->key, certificate_from);
    return GCOLL_OK;
}

static bool set_up(gcoll_tls_setup *setup) {
    const gcoll_openssl *api = &gcoll_openssl_api;
    SSL_CTX *context = setup->context = api->SSL_CTX_new(api->TLS_method());
    if (!context || !api->SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL) ||
        !api->SSL_CTX_set_ciphersuites(context,
                                       setup->certifies ? ciphers_of_certificates : ciphers_of_keys) ||
        !api->SSL_CTX_set_num_tickets(context, 0))
        return false;
    api->SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    api->SSL_CTX_ctrl(context, SSL_CTRL_MODE,
                      SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER, NULL);
    api->SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    api->SSL_CTX_set_default_read_buffer_len(context, READ_BYTES);
    /* Where there is no certificate, this refuses whoever shows one in place of the key. */
    api->SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    api->SSL_CTX_set_verify_depth(context, CHAIN_MAX);
    if (!setup->certifies) {
        api->SSL_CTX_set_psk_use_session_callback(context, use_key);
        api->SSL_CTX_set_psk_find_session_callback(context, find_key);
    }
    return true;
}

/* One for all, as OpenSSL has a limited number of kinds, for as long as the process lives. NULL: no memory.
 */
static BIO_METHOD *method_of_all(void) {
    static atomic_uintptr_t made;
    uintptr_t method = atomic_load(&made), none = 0;
    if (method != 0)
        return (BIO_METHOD *)method;
    BIO_METHOD *own = make_method();
    if (!own || atomic_compare_exchange_strong(&made, &none, (uintptr_t)own))
        return own;
    gcoll_openssl_api.BIO_meth_free(own); /* another thread was faster */
    return (BIO_METHOD *)none;
}

gcoll_status gcoll_tls_setup_create(const gcoll_tls_files *files, gcoll_tls_setup **out) {
    gcoll_status status = gcoll_openssl_load();
    if (status != GCOLL_OK)
        return status;
    gcoll_tls_setup *setup = calloc(1, sizeof *setup);
    if (!setup)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "TLS: no memory");
    atomic_init(&setup->owners, 1);
    setup->certifies = files->certificate || files->authority || files->key || files->trusts_system;
    setup->method = method_of_all();
    gcoll_openssl_api.ERR_clear_error();
    if (!setup->method || !set_up(setup))
        status = gcoll_error(GCOLL_ERR_NO_MEMORY, "TLS: OpenSSL cannot be set up (%s)", reason());
    else
        status = read_files(setup->context, files);
    gcoll_openssl_api.ERR_clear_error();
    if (status != GCOLL_OK)
        gcoll_tls_setup_destroy(setup);
    else
        *out = setup;
    return status;
}

gcoll_tls_setup *gcoll_tls_setup_share(gcoll_tls_setup *setup) {
    if (setup)
        atomic_fetch_add(&setup->owners, 1);
    return setup;
}

void gcoll_tls_setup_destroy(gcoll_tls_setup *setup) {
    if (!setup || atomic_fetch_sub(&setup->owners, 1) > 1)
        return;
    gcoll_openssl_api.SSL_CTX_free(setup->context);
    free(setup);
}

bool gcoll_tls_setup_certifies(const gcoll_tls_setup *setup) {
    return setup->certifies;
}

/* ---- Connections ------------------------------------------------------------------------------------ */

/* Whether it is an address, of which `text` gets what certificates have: no scope. */
static bool is_address(const char *name, char text[INET6_ADDRSTRLEN]) {
    struct in6_addr bits;
    snprintf(text, INET6_ADDRSTRLEN, "%.*s", (int)strcspn(name, "%"), name);
    return inet_pton(AF_INET, text, &bits) == 1 || inet_pton(AF_INET6, text, &bits) == 1;
}

/* The other side's certificate must have the name; a server of many names learns which one is meant. */
static bool expect(SSL *ssl, const gcoll_tls_side *side) {
    const gcoll_openssl *api = &gcoll_openssl_api;
    char name[GCOLL_TLS_NAME_MAX], address[INET6_ADDRSTRLEN];
    if (!side->name)
        return true;
    if (is_address(side->name, address))
        return api->X509_VERIFY_PARAM_set1_ip_asc(api->SSL_get0_param(ssl), address);
    api->SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    snprintf(name, sizeof name, "%s", side->name);
    return api->SSL_set1_host(ssl, name) &&
           (side->is_server ||
            api->SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name));
}

static bool open_ssl(gcoll_tls *tls, const gcoll_tls_side *side) {
    const gcoll_openssl *api = &gcoll_openssl_api;
    tls->ssl = api->SSL_new(tls->setup->context);
    BIO *bio = tls->ssl ? api->BIO_new(tls->setup->method) : NULL;
    if (!bio)
        return false;
    api->BIO_set_data(bio, tls);
    api->BIO_set_init(bio, 1);
    api->SSL_set_bio(tls->ssl, bio, bio);
    if (side->is_server)
        api->SSL_set_accept_state(tls->ssl);
    else
        api->SSL_set_connect_state(tls->ssl);
    if (side->is_server && !api->SSL_set_session_id_context(tls->ssl, identity, sizeof identity))
        return false; /* a server that asks for certificates needs one, and a client has none */
    return api->SSL_set_ex_data(tls->ssl, 0, tls) && expect(tls->ssl, side);
}

gcoll_status gcoll_tls_create(gcoll_tls_setup *setup, const gcoll_tls_side *side, gcoll_tls **out) {
    gcoll_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "TLS: no memory for a connection");
    tls->setup = gcoll_tls_setup_share(setup);
    tls->fd = side->fd;
    snprintf(tls->name, sizeof tls->name, "%s", side->name ? side->name : "");
    tls->asks_kernel = true;
    if (side->key)
        memcpy(tls->key, side->key, sizeof tls->key);
    tls->out = malloc(WRITE_BYTES);
    if (!tls->out || !open_ssl(tls, side)) {
        gcoll_openssl_api.ERR_clear_error();
        gcoll_tls_destroy(tls);
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "TLS: no memory for a connection");
    }
    *out = tls;
    return GCOLL_OK;
}

void gcoll_tls_destroy(gcoll_tls *tls) {
    if (!tls)
        return;
    gcoll_openssl_api.SSL_free(tls->ssl);
    gcoll_tls_setup_destroy(tls->setup);
    gcoll_forget_secret(tls->key, sizeof tls->key);
    free(tls->out);
    free(tls);
}

/* ---- What went wrong -------------------------------------------------------------------------------- */

/* Says why OpenSSL has failed: by an alert of the other side, for its certificate, or for something else. */
static void explain(gcoll_tls *tls) {
    const gcoll_openssl *api = &gcoll_openssl_api;
    const unsigned long error = api->ERR_peek_last_error();
    const int code = ERR_GET_REASON(error);
    const long verified = api->SSL_get_verify_result(tls->ssl);
    const bool is_ssl = ERR_GET_LIB(error) == ERR_LIB_SSL;
    if (is_ssl && code >= ALERT_FIRST && code <= ALERT_LAST) {
        const char *alert = api->SSL_alert_desc_string_long(code - ALERT_FIRST);
        tls->was_refused = true;
        snprintf(tls->problem, sizeof tls->problem, "refused TLS: %s",
                 strcmp(alert, "unknown") == 0 ? reason() : alert);
    } else if (is_ssl && code == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        const bool is_name =
            verified == X509_V_ERR_HOSTNAME_MISMATCH || verified == X509_V_ERR_IP_ADDRESS_MISMATCH;
        snprintf(tls->problem, sizeof tls->problem, "shows a certificate that is refused here: %s%s%.100s",
                 api->X509_verify_cert_error_string(verified), is_name ? ", wanted is " : "",
                 is_name ? tls->name : "");
    } else {
        snprintf(tls->problem, sizeof tls->problem, "failed at TLS: %s", reason());
    }
    gcoll_text_clean(tls->problem);
}

/* What the result of a function of OpenSSL comes to: 1, 0 (more is needed), or -1 and errno, if the stream
 * has ended ECONNRESET. Failures are for ever. SSL_get_error is not asked: it wants this thread's queue of
 * errors cleared before each call, which takes longer than the rest of ours. Our end of the socket knows
 * whether OpenSSL waits for it. */
static int outcome(gcoll_tls *tls, int result) {
    const gcoll_openssl *api = &gcoll_openssl_api;
    if (result > 0)
        return 1;
    if (tls->waits)
        return 0;
    const unsigned long latest = api->ERR_peek_last_error();
    const bool is_alert = ERR_GET_LIB(latest) == ERR_LIB_SSL && ERR_GET_REASON(latest) >= ALERT_FIRST &&
                          ERR_GET_REASON(latest) <= ALERT_LAST;
    const bool was_closed = !is_alert && api->SSL_get_shutdown(tls->ssl) & SSL_RECEIVED_SHUTDOWN;
    if (tls->has_ended || (tls->error == 0 && (was_closed || latest == 0))) {
        tls->has_ended = true;
        tls->broken = ECONNRESET;
    } else if (tls->error != 0) {
        tls->broken = tls->error;
    } else {
        tls->broken = EPROTO;
        explain(tls);
        write_out(tls); /* the alert */
    }
    api->ERR_clear_error();
    errno = tls->broken;
    return -1;
}

bool gcoll_tls_has_failed(const gcoll_tls *tls) {
    return tls->broken != 0;
}

const char *gcoll_tls_problem(const gcoll_tls *tls) {
    return tls->problem;
}

bool gcoll_tls_was_refused(const gcoll_tls *tls) {
    return tls->was_refused;
}

/* ---- The handshake ---------------------------------------------------------------------------------- */

int gcoll_tls_shake(gcoll_tls *tls) {
    const gcoll_openssl *api = &gcoll_openssl_api;
    if (tls->broken != 0) {
        errno = tls->broken;
        return -1;
    }
    tls->waits = false;
    const int result = outcome(tls, api->SSL_do_handshake(tls->ssl));
    if (result < 0)
        return -1;
    if (!write_out(tls) && errno != EAGAIN && errno != EWOULDBLOCK) {
        tls->broken = errno;
        return -1;
    }
    if (result == 1 && !tls->setup->certifies && !api->SSL_session_reused(tls->ssl)) {
        tls->broken = errno = EPROTO;
        snprintf(tls->problem, sizeof tls->problem, "speaks TLS without the key of both sides");
        return -1;
    }
    tls->is_done = result == 1;
    return result;
}

bool gcoll_tls_is_done(const gcoll_tls *tls) {
    return tls->is_done;
}

bool gcoll_tls_export(gcoll_tls *tls, uint8_t channel[GCOLL_SHA256_BYTES]) {
    const bool is_made =
        gcoll_openssl_api.SSL_export_keying_material(tls->ssl, channel, GCOLL_SHA256_BYTES, channel_label,
                                                     sizeof channel_label - 1, NULL, 0, 0) == 1;
    if (!is_made)
        gcoll_openssl_api.ERR_clear_error();
    return is_made;
}

void gcoll_tls_read_ahead(gcoll_tls *tls) {
    gcoll_openssl_api.SSL_set_read_ahead(tls->ssl, 1);
    tls->is_ahead = true;
}

/* ---- Sending ---------------------------------------------------------------------------------------- */

/* Makes one record, for which there is room. */
static bool encrypt(gcoll_tls *tls, const uint8_t *bytes, size_t count) {
    size_t taken = 0;
    tls->waits = false;
    if (outcome(tls, gcoll_openssl_api.SSL_write_ex(tls->ssl, bytes, count, &taken)) == 1 && taken == count) {
        tls->sent += count;
        return true;
    }
    if (tls->broken == 0) {
        tls->broken = EPROTO;
        snprintf(tls->problem, sizeof tls->problem, "failed at TLS: a record was cut");
    }
    return false;
}

/* Where the bytes that are still to be sent begin. */
typedef struct place {
    const struct iovec *pieces;
    size_t count, piece, offset;
} place;

/* Takes up to a record's bytes: from where they lie, if they lie together, else by a copy to `room`. */
static const uint8_t *gather(place *at, uint8_t room[GCOLL_TLS_RECORD_MAX], size_t *count) {
    *count = 0;
    while (at->piece < at->count && *count < GCOLL_TLS_RECORD_MAX) {
        const struct iovec *piece = &at->pieces[at->piece];
        const uint8_t *bytes = (const uint8_t *)piece->iov_base + at->offset;
        const size_t left = piece->iov_len - at->offset;
        size_t most = GCOLL_TLS_RECORD_MAX - *count;
        most = left < most ? left : most;
        at->offset += most;
        if (most == left) {
            at->piece++;
            at->offset = 0;
        }
        if (*count == 0 && (most == GCOLL_TLS_RECORD_MAX || at->piece == at->count)) {
            *count = most;
            return bytes;
        }
        if (most > 0)
            memcpy(room + *count, bytes, most);
        *count += most;
    }
    return room;
}

bool gcoll_tls_flush(gcoll_tls *tls) {
    return write_out(tls);
}

size_t gcoll_tls_unsent(const gcoll_tls *tls) {
    return tls->end - tls->begin;
}

ssize_t gcoll_tls_send(gcoll_tls *tls, const struct iovec *pieces, size_t count) {
    uint8_t room[GCOLL_TLS_RECORD_MAX];
    place at = {.pieces = pieces, .count = count};
    size_t total = 0, bytes;
    if (!write_out(tls))
        return -1;
    if (tls->broken != 0) { /* an alert goes first: it tells the other side why */
        errno = tls->broken;
        return -1;
    }
    while (at.piece < at.count) {
        if (WRITE_BYTES - tls->end < RECORD_ROOM && !write_out(tls))
            break;
        const uint8_t *record = gather(&at, room, &bytes);
        if (bytes == 0)
            break;
        if (!encrypt(tls, record, bytes)) {
            errno = tls->broken;
            return total > 0 ? (ssize_t)total : -1;
        }
        total += bytes;
    }
    if (tls->sent >= REKEY_BYTES) { /* said before the next record; if there is no memory, tried again then */
        if (gcoll_openssl_api.SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
            tls->sent = 0;
        else
            gcoll_openssl_api.ERR_clear_error();
    }
    write_out(tls); /* an error of the socket shows in the next call */
    return (ssize_t)total;
}

/* ---- Receiving -------------------------------------------------------------------------------------- */

/* Fills what is left of a piece. As outcome. */
static int decrypt(gcoll_tls *tls, const struct iovec *piece, size_t have, size_t *got) {
    const gcoll_openssl *api = &gcoll_openssl_api;
    if (tls->is_ahead && tls->is_empty && tls->first_bytes == 0 && !tls->asks_kernel)
        return 0;
    tls->waits = false;
    const int result = outcome(
        tls, api->SSL_read_ex(tls->ssl, (uint8_t *)piece->iov_base + have, piece->iov_len - have, got));
    tls->is_empty = result == 0 || (result == 1 && !tls->asks_kernel && tls->first_bytes == 0 &&
                                    !api->SSL_has_pending(tls->ssl));
    return result;
}

ssize_t gcoll_tls_recv(gcoll_tls *tls, const struct iovec *pieces, size_t count, bool asks_kernel) {
    size_t total = 0;
    if (tls->broken != 0) {
        errno = tls->broken;
        return tls->has_ended ? 0 : -1;
    }
    tls->asks_kernel = asks_kernel;
    if (!has_something(tls))
        return -1;
    for (size_t i = 0; i < count; i++) {
        for (size_t have = 0; have < pieces[i].iov_len;) {
            size_t got = 0;
            const int result = decrypt(tls, &pieces[i], have, &got);
            if (result == 1) {
                have += got;
                total += got;
                continue;
            }
            if (result == 0)
                errno = EAGAIN;
            if (total > 0)
                return (ssize_t)total;
            return tls->has_ended ? 0 : -1;
        }
    }
    return (ssize_t)total;
}
