/* tools/words.h - things of plans in words. */
#ifndef GCOLL_TOOL_WORDS_H
#define GCOLL_TOOL_WORDS_H

#include "tools/shape.h"

#define TOOL_TEXT 512u

/* "rank-identical, ordered", or "nothing". */
void tool_claims_text(uint32_t claims, char text[TOOL_TEXT]);
/* The names of single claims: the index-th, its bit in *bit; NULL past the end. */
const char *tool_claim_name(uint32_t index, uint32_t *bit);
/* "0 to 20, or -1: chosen by cost"; "cyclic, xor". */
void tool_allowed_text(const gcoll_option *option, char text[TOOL_TEXT]);
void tool_fallback_text(const gcoll_option *option, char text[TOOL_TEXT]);
/* What a shape is besides its algorithm: "7 ranks, 63 elements, root 3, in place, ...". With a type's name
 * (else NULL) "63 elements of float32". */
void tool_shape_text(const tool_shape *shape, const char *type, char text[TOOL_TEXT]);
/* "", or "s" of more than one. */
const char *tool_plural(uint64_t count);

#endif
