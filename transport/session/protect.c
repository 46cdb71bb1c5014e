/*
 * transport/session/protect.c - TLS of a new connection, between the challenge and the proof.
 *
 * Until then everything goes in clear: it is known to be of members, and which ones, before a handshake of
 * TLS is paid for. Its key is made of the link's key and both nonces (proof.h); or both ranks show
 * certificates. The proof and all that follows go by TLS, and the tags of the proof and of the reply are for
 * this connection of TLS alone: nobody between the two ranks can pass them on.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/session/connect.h"
#include "transport/session/session.h"

#define RANK_MARK "{rank}"

gcoll_status gcoll_net_set_encryption(gcoll_net *net, const gcoll_encryption *encryption) {
    gcoll_encryption *own = &net->encryption;
    if (!encryption || !encryption->setup)
        return GCOLL_OK;
    *own = (gcoll_encryption){.setup = gcoll_tls_setup_share(encryption->setup),
                              .lets_ibverbs = encryption->lets_ibverbs};
    own->names = encryption->names ? strdup(encryption->names) : NULL;
    own->numbers = encryption->numbers ? calloc(net->size, sizeof *own->numbers) : NULL;
    if (!own->names != !encryption->names || !own->numbers != !encryption->numbers)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for an endpoint of %u ranks", net->size);
    if (own->numbers)
        memcpy(own->numbers, encryption->numbers, net->size * sizeof *own->numbers);
    net->address.tls = gcoll_tls_setup_certifies(own->setup) ? GCOLL_ADDRESS_X509 : GCOLL_ADDRESS_PSK;
    return GCOLL_OK;
}

void gcoll_net_end_encryption(gcoll_net *net) {
    gcoll_tls_setup_destroy(net->encryption.setup);
    free(net->encryption.names);
    free(net->encryption.numbers);
    memset(&net->encryption, 0, sizeof net->encryption);
}

/* The name that the certificate of a rank must have; NULL: any. */
static const char *name_of(const gcoll_encryption *encryption, uint32_t rank, char name[GCOLL_TLS_NAME_MAX]) {
    const char *rule = encryption->names;
    const char *mark = rule ? strstr(rule, RANK_MARK) : NULL;
    if (!mark)
        return rule;
    snprintf(name, GCOLL_TLS_NAME_MAX, "%.*s%u%s", (int)(mark - rule), rule,
             encryption->numbers ? encryption->numbers[rank] : rank, mark + sizeof RANK_MARK - 1);
    return name;
}

static gcoll_status begin(gcoll_link *link) {
    const gcoll_net *net = link->net;
    const bool is_server = link->role != GCOLL_LINK_DIALER;
    uint8_t key[GCOLL_TLS_KEY_BYTES];
    char name[GCOLL_TLS_NAME_MAX];
    gcoll_proof_key_of_tls(key, &link->proof);
    const gcoll_tls_side side = {
        .fd = link->socket->fd,
        .is_server = is_server,
        .key = key,
        .name = name_of(&net->encryption, is_server ? link->hello.from : link->session->rank, name)};
    const gcoll_status status = gcoll_tls_create(gcoll_net_tls(net), &side, &link->socket->tls);
    gcoll_forget_secret(key, sizeof key);
    return status;
}

int gcoll_link_protect(gcoll_link *link, char problem[GCOLL_TLS_TEXT_MAX]) {
    gcoll_socket *socket = link->socket;
    problem[0] = '\0';
    if (!socket->tls) {
        const gcoll_status status = begin(link);
        if (status != GCOLL_OK) {
            gcoll_net_fail(link->net, status);
            return -1;
        }
    }
    if (link->proof.has_channel && gcoll_tls_unsent(socket->tls) == 0)
        return 1;
    int done = gcoll_tls_shake(socket->tls);
    const bool wants_write = done >= 0 && gcoll_tls_unsent(socket->tls) > 0;
    if (wants_write)
        done = 0; /* a chain of certificates may be more than a fresh socket takes */
    if (wants_write != socket->wants_write) {
        socket->wants_write = wants_write;
        gcoll_socket_poll(socket);
    }
    if (done == 1 && !gcoll_tls_export(socket->tls, link->proof.channel)) {
        snprintf(problem, GCOLL_TLS_TEXT_MAX, "failed at TLS: OpenSSL exports no key");
        return -1;
    }
    link->proof.has_channel = link->proof.has_channel || done == 1;
    if (done < 0)
        snprintf(problem, GCOLL_TLS_TEXT_MAX, "%s", gcoll_tls_problem(socket->tls));
    return done;
}
