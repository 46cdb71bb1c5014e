/* gcoll/base/openssl.c - opens the libraries of OpenSSL 3 and finds their functions. */
#include "gcoll/base/openssl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

typedef struct entry {
    const char *name;
    size_t offset;
} entry;

#define ENTRY(name) {#name, offsetof(gcoll_openssl, name)},

static const entry ssl_entries[] = {GCOLL_OPENSSL_SSL(ENTRY)};
static const entry crypto_entries[] = {GCOLL_OPENSSL_CRYPTO(ENTRY)};

gcoll_openssl gcoll_openssl_api;

static gcoll_status find(gcoll_openssl *functions, const char *name, const entry *entries, size_t count) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library)
        return gcoll_error(GCOLL_ERR_UNSUPPORTED, "TLS: the library of OpenSSL 3 cannot be loaded: %s",
                           dlerror());
    for (size_t i = 0; i < count; i++) {
        void *found = dlsym(library, entries[i].name);
        if (!found) {
            dlclose(library);
            return gcoll_error(GCOLL_ERR_UNSUPPORTED, "TLS: %s has no function %s", name, entries[i].name);
        }
        memcpy((char *)functions + entries[i].offset, &found, sizeof found);
    }
    dlclose(library);
    return GCOLL_OK;
}

gcoll_status gcoll_openssl_load(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows, and the functions */
    static bool is_loaded;
    gcoll_openssl found;
    gcoll_status status = GCOLL_OK;
    pthread_mutex_lock(&lock);
    if (!is_loaded) {
        status =
            find(&found, "libcrypto.so.3", crypto_entries, sizeof crypto_entries / sizeof crypto_entries[0]);
        if (status == GCOLL_OK)
            status = find(&found, "libssl.so.3", ssl_entries, sizeof ssl_entries / sizeof ssl_entries[0]);
        if (status == GCOLL_OK)
            gcoll_openssl_api = found;
        /* Nothing is cleaned up at exit: threads of contexts may still use it then. */
        if (status == GCOLL_OK)
            found.OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
        is_loaded = status == GCOLL_OK;
    }
    pthread_mutex_unlock(&lock);
    return status;
}
