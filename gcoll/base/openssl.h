/* gcoll/base/openssl.h - OpenSSL 3, opened at run time. Only tls.c and openssl.c include it. */
#ifndef GCOLL_BASE_OPENSSL_H
#define GCOLL_BASE_OPENSSL_H

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "gcoll/base/base.h"

#define GCOLL_OPENSSL_SSL(X)                                                                                 \
    X(SSL_CIPHER_find)                                                                                       \
    X(SSL_CTX_check_private_key)                                                                             \
    X(SSL_CTX_ctrl)                                                                                          \
    X(SSL_CTX_free)                                                                                          \
    X(SSL_CTX_get0_param)                                                                                    \
    X(SSL_CTX_load_verify_file)                                                                              \
    X(SSL_CTX_new)                                                                                           \
    X(SSL_CTX_set_ciphersuites)                                                                              \
    X(SSL_CTX_set_default_read_buffer_len)                                                                   \
    X(SSL_CTX_set_default_verify_paths)                                                                      \
    X(SSL_CTX_set_num_tickets)                                                                               \
    X(SSL_CTX_set_options)                                                                                   \
    X(SSL_CTX_set_psk_find_session_callback)                                                                 \
    X(SSL_CTX_set_psk_use_session_callback)                                                                  \
    X(SSL_CTX_set_verify)                                                                                    \
    X(SSL_CTX_set_verify_depth)                                                                              \
    X(SSL_CTX_use_PrivateKey)                                                                                \
    X(SSL_CTX_use_certificate_chain_file)                                                                    \
    X(SSL_SESSION_free)                                                                                      \
    X(SSL_SESSION_new)                                                                                       \
    X(SSL_SESSION_set1_master_key)                                                                           \
    X(SSL_SESSION_set_cipher)                                                                                \
    X(SSL_SESSION_set_protocol_version)                                                                      \
    X(SSL_alert_desc_string_long)                                                                            \
    X(SSL_ctrl)                                                                                              \
    X(SSL_do_handshake)                                                                                      \
    X(SSL_export_keying_material)                                                                            \
    X(SSL_free)                                                                                              \
    X(SSL_get0_param)                                                                                        \
    X(SSL_get_ex_data)                                                                                       \
    X(SSL_get_shutdown)                                                                                      \
    X(SSL_get_verify_result)                                                                                 \
    X(SSL_key_update)                                                                                        \
    X(SSL_has_pending)                                                                                       \
    X(SSL_new)                                                                                               \
    X(SSL_read_ex)                                                                                           \
    X(SSL_session_reused)                                                                                    \
    X(SSL_set1_host)                                                                                         \
    X(SSL_set_accept_state)                                                                                  \
    X(SSL_set_bio)                                                                                           \
    X(SSL_set_connect_state)                                                                                 \
    X(SSL_set_ex_data)                                                                                       \
    X(SSL_set_hostflags)                                                                                     \
    X(SSL_set_session_id_context)                                                                            \
    X(SSL_set_read_ahead)                                                                                    \
    X(SSL_write_ex)                                                                                          \
    X(TLS_method)

#define GCOLL_OPENSSL_CRYPTO(X)                                                                              \
    X(BIO_clear_flags)                                                                                       \
    X(BIO_get_data)                                                                                          \
    X(BIO_get_new_index)                                                                                     \
    X(BIO_meth_free)                                                                                         \
    X(BIO_meth_new)                                                                                          \
    X(BIO_meth_set_ctrl)                                                                                     \
    X(BIO_meth_set_read_ex)                                                                                  \
    X(BIO_meth_set_write_ex)                                                                                 \
    X(BIO_free)                                                                                              \
    X(BIO_new_mem_buf)                                                                                       \
    X(BIO_new)                                                                                               \
    X(BIO_set_data)                                                                                          \
    X(BIO_set_flags)                                                                                         \
    X(BIO_set_init)                                                                                          \
    X(EVP_PKEY_free)                                                                                         \
    X(PEM_read_bio_PrivateKey)                                                                               \
    X(OPENSSL_init_crypto)                                                                                   \
    X(ERR_clear_error)                                                                                       \
    X(ERR_peek_last_error)                                                                                   \
    X(ERR_reason_error_string)                                                                               \
    X(X509_VERIFY_PARAM_set1_ip_asc)                                                                         \
    X(X509_verify_cert_error_string)

typedef struct gcoll_openssl {
#define GCOLL_OPENSSL_FIELD(name) __typeof__(name) *(name);
    GCOLL_OPENSSL_SSL(GCOLL_OPENSSL_FIELD)
    GCOLL_OPENSSL_CRYPTO(GCOLL_OPENSSL_FIELD)
#undef GCOLL_OPENSSL_FIELD
} gcoll_openssl;

/* The functions. Written once, by the first gcoll_openssl_load that succeeds. */
extern gcoll_openssl gcoll_openssl_api;

/* Opens the libraries, the first time. UNSUPPORTED says what this host lacks. */
gcoll_status gcoll_openssl_load(void);

#endif
