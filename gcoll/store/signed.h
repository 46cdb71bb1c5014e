/* gcoll/store/signed.h - a view of a store, whose values are signed by the job's secret (signed.c). */
#ifndef GCOLL_STORE_SIGNED_H
#define GCOLL_STORE_SIGNED_H

#include "gcoll/store.h"

/* secret: 32 bytes made of the job's; NULL: it has none. The view does not own base, which must outlive it. A
 * value that is not signed, or by another secret, is PROTOCOL, and so is a signed one if there is no secret.
 */
gcoll_status gcoll_store_signed_create(gcoll_store *base, const uint8_t *secret, gcoll_store **store);

#endif
