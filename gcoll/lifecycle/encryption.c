/*
 * gcoll/lifecycle/encryption.c - reads options.encryption and options.tls_..., or else the variables
 * GCOLL_ENCRYPTION and GCOLL_TLS_....
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/tls.h"
#include "gcoll/lifecycle/lifecycle.h"

#define RANK_MARK "{rank}"
#define JOB_MARK  "{job}"
#define RANK_MOST 10 /* digits of a rank */
#define FORMS     "'off', 'auth', 'on' and 'on:ibverbs'"
#define SAID      80

/* An option, and the variable that fills it in if the program left it open. */
typedef struct choice {
    const char *text; /* NULL: neither says anything */
    const char *from; /* which of the two */
} choice;

static choice choose(const char *given, const char *option, const char *variable) {
    const char *text = given && given[0] != '\0' ? NULL : getenv(variable);
    if (text && text[0] != '\0')
        return (choice){text, variable};
    return (choice){given && given[0] != '\0' ? given : NULL, option};
}

typedef struct wanted {
    choice level, certificate, key, authority, name;
} wanted;

static wanted read_all(const gcoll_context_options *o) {
    return (wanted){choose(o->encryption, "options.encryption", "GCOLL_ENCRYPTION"),
                    choose(o->tls_certificate, "options.tls_certificate", "GCOLL_TLS_CERTIFICATE"),
                    choose(o->tls_key, "options.tls_key", "GCOLL_TLS_KEY"),
                    choose(o->tls_ca, "options.tls_ca", "GCOLL_TLS_CA"),
                    choose(o->tls_name, "options.tls_name", "GCOLL_TLS_NAME")};
}

/* The text with what stands for a mark in its place. NULL: no memory. */
static char *replace(const char *text, const char *mark, const char *by) {
    const char *at = strstr(text, mark);
    if (!at)
        return strdup(text);
    const size_t room = strlen(text) + strlen(by) + 1;
    char *made = malloc(room);
    if (made)
        snprintf(made, room, "%.*s%s%s", (int)(at - text), text, by, at + strlen(mark));
    return made;
}

/* A DNS name has these, and a rule of names its marks besides. */
static bool is_rule(const char *text) {
    const char *allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    for (const char *at = text; *at != '\0';)
        if (strncmp(at, RANK_MARK, sizeof RANK_MARK - 1) == 0)
            at += sizeof RANK_MARK - 1;
        else if (strncmp(at, JOB_MARK, sizeof JOB_MARK - 1) == 0)
            at += sizeof JOB_MARK - 1;
        else if (!strchr(allowed, *at++))
            return false;
    return true;
}

static gcoll_status read_name(gcoll_settings *settings, const choice *name) {
    const char *rank = name->text ? strstr(name->text, RANK_MARK) : NULL;
    const char *job = name->text ? strstr(name->text, JOB_MARK) : NULL;
    if (!name->text)
        return GCOLL_OK;
    if (!is_rule(name->text) || (rank && strstr(rank + 1, RANK_MARK)) || (job && strstr(job + 1, JOB_MARK)))
        return gcoll_error(GCOLL_ERR_INVALID,
                           "%s: is '%.*s'; allowed is a DNS name, with " RANK_MARK " and " JOB_MARK
                           " once each at most",
                           name->from, SAID, name->text);
    settings->encryption.names = replace(name->text, JOB_MARK, settings->job);
    if (!settings->encryption.names)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a context");
    if (strlen(settings->encryption.names) + RANK_MOST >= GCOLL_TLS_NAME_MAX)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is longer than the %d bytes of a DNS name", name->from,
                           GCOLL_TLS_NAME_MAX - RANK_MOST - 1);
    return GCOLL_OK;
}

static gcoll_status turn_on(gcoll_settings *settings, const wanted *w) {
    const choice *files[] = {&w->certificate, &w->key, &w->authority};
    const choice *set = NULL, *open = NULL;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        set = files[i]->text ? files[i] : set;
        open = files[i]->text ? open : files[i];
    }
    if (set && open)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "%s: is set, and %s is not; allowed are all of certificate, key "
                           "and authorities, or none",
                           set->from, open->from);
    if (!set && w->name.text)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is set without options.tls_certificate", w->name.from);
    if (!set && !settings->endpoint.secret)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "%s: is '%.*s', and there is neither a secret (options.secret_file) nor a "
                           "certificate (options.tls_certificate)",
                           w->level.from, SAID, w->level.text);
    const gcoll_tls_files paths = {.certificate = w->certificate.text,
                                   .key = w->key.text,
                                   .authority = w->authority.text,
                                   .certificate_from = w->certificate.from,
                                   .key_from = w->key.from,
                                   .authority_from = w->authority.from};
    gcoll_status status = read_name(settings, &w->name);
    if (status == GCOLL_OK)
        status = gcoll_tls_setup_create(&paths, &settings->encryption.setup);
    if (status == GCOLL_OK)
        settings->endpoint.encryption = &settings->encryption;
    return status;
}

gcoll_status gcoll_encryption_read(gcoll_settings *settings, const gcoll_context_options *options) {
    const wanted w = read_all(options);
    const char *level = w.level.text ? w.level.text : settings->endpoint.secret ? "auth" : "off";
    settings->encryption.lets_ibverbs = strcmp(level, "on:ibverbs") == 0;
    if (settings->encryption.lets_ibverbs || strcmp(level, "on") == 0)
        return turn_on(settings, &w);
    const bool is_off = strcmp(level, "off") == 0;
    if (!is_off && strcmp(level, "auth") != 0)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is '%.*s'; allowed are " FORMS, w.level.from, SAID, level);
    if (is_off && settings->endpoint.secret)
        return gcoll_error(GCOLL_ERR_INVALID,
                           "%s: is 'off', and the job has a secret; allowed with one are 'auth' and 'on'",
                           w.level.from);
    if (!is_off && !settings->endpoint.secret)
        return gcoll_error(GCOLL_ERR_INVALID, "%s: is 'auth', and there is no secret (options.secret_file)",
                           w.level.from);
    const choice *unused[] = {&w.certificate, &w.key, &w.authority, &w.name};
    for (size_t i = 0; i < sizeof unused / sizeof unused[0]; i++)
        if (unused[i]->text)
            return gcoll_error(GCOLL_ERR_INVALID,
                               "%s: is set, and options.encryption is '%s'; allowed with it "
                               "is 'on'",
                               unused[i]->from, level);
    return GCOLL_OK;
}

static bool has_ranks(const gcoll_encryption *encryption) {
    return encryption->names && strstr(encryption->names, RANK_MARK);
}

gcoll_status gcoll_encryption_copy(gcoll_settings *settings, const gcoll_settings *from,
                                   const uint32_t *ranks, uint32_t size) {
    const gcoll_encryption *old = &from->encryption;
    gcoll_encryption *own = &settings->encryption;
    if (!old->setup)
        return GCOLL_OK;
    *own = (gcoll_encryption){.setup = gcoll_tls_setup_share(old->setup), .lets_ibverbs = old->lets_ibverbs};
    settings->endpoint.encryption = own;
    own->names = old->names ? strdup(old->names) : NULL;
    const bool has_numbers = has_ranks(old) && (ranks || old->numbers);
    own->numbers = has_numbers ? calloc(size > 0 ? size : 1, sizeof *own->numbers) : NULL;
    if ((old->names && !own->names) || (has_numbers && !own->numbers))
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for a context of %u ranks", size);
    for (uint32_t i = 0; own->numbers && i < size; i++) {
        const uint32_t rank = ranks ? ranks[i] : i;
        own->numbers[i] = old->numbers ? old->numbers[rank] : rank;
    }
    return GCOLL_OK;
}

void gcoll_encryption_free(gcoll_settings *settings) {
    gcoll_tls_setup_destroy(settings->encryption.setup);
    free(settings->encryption.names);
    free(settings->encryption.numbers);
    memset(&settings->encryption, 0, sizeof settings->encryption);
    settings->endpoint.encryption = NULL;
}

const char *gcoll_encryption_say(const gcoll_settings *settings) {
    const gcoll_tls_setup *setup = settings->encryption.setup;
    if (!setup)
        return "";
    return gcoll_tls_setup_certifies(setup) ? ", encrypted by certificates" : ", encrypted by the secret";
}

gcoll_status gcoll_encryption_may_grow(const gcoll_settings *settings) {
    if (has_ranks(&settings->encryption))
        return gcoll_error(GCOLL_ERR_INVALID,
                           "options.tls_name: has " RANK_MARK ", and a rank that joins later has no number; "
                           "allowed is a name without it");
    return GCOLL_OK;
}
