/*
 * gcoll/lifecycle/secret.c - reads the job's secret: options.secret, options.secret_file, or else the
 * variables GCOLL_SECRET_FILE and GCOLL_SECRET.
 *
 * Only a hash of it is kept. No part of it ever reaches a message.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gcoll/base/private_file.h"
#include "gcoll/base/sha256.h"
#include "gcoll/lifecycle/lifecycle.h"
#include "gcoll/store/signed.h"
#include "transport/interfaces.h"

#define FILE_VARIABLE "GCOLL_SECRET_FILE"
#define VARIABLE      "GCOLL_SECRET"
#define NAME_MAX_SAID 80

static gcoll_status set_secret(gcoll_settings *settings, const void *secret, size_t bytes, const char *from) {
    static const char label[] = "gcoll secret of a job";
    if (bytes < GCOLL_SECRET_MIN || bytes > GCOLL_SECRET_MAX)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: has %zu bytes; allowed are %d to %d", from, bytes,
                           GCOLL_SECRET_MIN, GCOLL_SECRET_MAX);
    gcoll_hmac mac;
    gcoll_hmac_begin(&mac, secret, bytes);
    gcoll_hmac_add(&mac, label, sizeof label);
    gcoll_hmac_end(&mac, settings->secret);
    settings->endpoint.secret = settings->secret;
    return GCOLL_OK;
}

/* A line end is none of the secret's. */
static size_t without_line_end(const char *text, size_t bytes) {
    if (bytes > 0 && text[bytes - 1] == '\n')
        bytes--;
    return bytes > 0 && text[bytes - 1] == '\r' ? bytes - 1 : bytes;
}

/* Reads up to `room` bytes. Returns how many, or -1 with errno. */
static ssize_t read_all(int fd, char *text, size_t room) {
    size_t have = 0;
    while (have < room) {
        const ssize_t got = read(fd, text + have, room - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

static gcoll_status read_file(gcoll_settings *settings, const char *name, const char *from) {
    char text[GCOLL_SECRET_MAX + 3]; /* a line end, and one byte more than is allowed */
    gcoll_descriptor descriptor = {0};
    int fd;
    gcoll_status status = gcoll_private_file_open(name, from, &descriptor, &fd);
    if (status != GCOLL_OK)
        return status;
    const ssize_t have = read_all(fd, text, sizeof text);
    if (have < 0)
        status = gcoll_error(GCOLL_ERR_IO, "%s: cannot read '%.*s': %s", from, NAME_MAX_SAID, name,
                             strerror(errno));
    else if ((size_t)have == sizeof text)
        status = gcoll_error(GCOLL_ERR_INVALID, "%s: '%.*s' has more than %d bytes; allowed are %d to %d",
                             from, NAME_MAX_SAID, name, GCOLL_SECRET_MAX, GCOLL_SECRET_MIN, GCOLL_SECRET_MAX);
    else
        status = set_secret(settings, text, without_line_end(text, (size_t)have), from);
    gcoll_forget_secret(text, sizeof text);
    gcoll_private_file_close(&descriptor, fd);
    return status;
}

static const char *value_of(const char *variable) {
    const char *text = getenv(variable);
    return text && text[0] != '\0' ? text : NULL;
}

gcoll_status gcoll_secret_read(gcoll_settings *settings, const gcoll_context_options *o) {
    if (o->secret && o->secret_file)
        return gcoll_error(GCOLL_ERR_INVALID, "options.secret_file: is set beside options.secret; allowed "
                                              "is one");
    if (!o->secret && o->secret_bytes != 0)
        return gcoll_error(GCOLL_ERR_INVALID, "options.secret_bytes: is %zu, and options.secret NULL",
                           o->secret_bytes);
    if (o->secret)
        return set_secret(settings, o->secret, o->secret_bytes, "options.secret");
    if (o->secret_file)
        return read_file(settings, o->secret_file, "options.secret_file");
    const char *file = value_of(FILE_VARIABLE), *text = value_of(VARIABLE);
    if (file && text)
        return gcoll_error(GCOLL_ERR_INVALID, FILE_VARIABLE ": is set beside " VARIABLE "; allowed is one");
    if (file)
        return read_file(settings, file, FILE_VARIABLE);
    return text ? set_secret(settings, text, strlen(text), VARIABLE) : GCOLL_OK;
}

void gcoll_secret_copy(gcoll_settings *settings, const gcoll_settings *from) {
    if (!from->endpoint.secret)
        return;
    memcpy(settings->secret, from->secret, sizeof settings->secret);
    settings->endpoint.secret = settings->secret;
}

gcoll_status gcoll_secret_use_store(gcoll_settings *settings) {
    if (!settings->store || settings->signed_store)
        return GCOLL_OK;
    const gcoll_status status =
        gcoll_store_signed_create(settings->store, settings->endpoint.secret, &settings->signed_store);
    settings->plain_store = settings->store;
    if (status == GCOLL_OK)
        settings->store = settings->signed_store;
    return status;
}

void gcoll_secret_free(gcoll_settings *settings) {
    gcoll_store_destroy(settings->signed_store);
    settings->signed_store = NULL;
    settings->endpoint.secret = NULL;
    gcoll_forget_secret(settings->secret, sizeof settings->secret);
}

void gcoll_secret_warn(gcoll_context *context) {
    char text[GCOLL_ADDRESS_MAX];
    gcoll_address address;
    if (context->rank != 0 || !context->endpoint || context->settings.endpoint.secret ||
        context->settings.endpoint.encryption || context->transport == &gcoll_transport_inproc ||
        context->transport->address(context->endpoint, text, sizeof text) != GCOLL_OK ||
        gcoll_address_parse(text, &address) != GCOLL_OK)
        return;
    for (uint32_t i = 0; i < address.count; i++) {
        if (gcoll_host_address_is_loopback(&address.hosts[i]))
            continue;
        gcoll_host_address_text(&address.hosts[i], text, sizeof text);
        gcoll_log(context, GCOLL_LOG_WARNING,
                  "rank 0 listens at %s, and the job has no secret: whoever can read its store can join it "
                  "(options.secret_file)",
                  text);
        return;
    }
}
