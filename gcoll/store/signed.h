/* gcoll/store/signed.h - a view of a store, whose values are signed by the job's secret (signed.c). */
#ifndef GCOLL_STORE_SIGNED_H
#define GCOLL_STORE_SIGNED_H

#include "gcoll/store.h"

/* The longest value of a view, signed or not: all ranks cut what they write in the same way. */
#define GCOLL_STORE_SIGNED_MAX (GCOLL_STORE_VALUE_MAX - 78)

/* What each error of a wrong signature has in its text. */
#define GCOLL_STORE_SIGNED_SAYS "(options.secret)"

/* The text that was signed, if `text` is signed, else `text`. Nobody vouches for it. */
const char *gcoll_store_signed_text(const char *text);

/* secret: 32 bytes made of the job's; NULL: it has none. The view does not own base, which must outlive it. A
 * value that is not signed, or by another secret, is PROTOCOL, and so is a signed one if there is no secret.
 */
gcoll_status gcoll_store_signed_create(gcoll_store *base, const uint8_t *secret, gcoll_store **store);

#endif
