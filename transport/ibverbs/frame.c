/* transport/ibverbs/frame.c - encodes and decodes frames and hellos. All integers are little-endian; received
 * bytes are checked as far as that is possible without the pair. */
#include <string.h>

#include "gcoll/base/bytes.h"
#include "transport/flow/flow.h"
#include "transport/ibverbs/frame.h"

#define VERSION       1
#define KIND_MASK     0x0fU
#define NUMBER_MAX    UINT32_C(0xffffff) /* numbers of queue pairs and packets have 24 bits */
#define ETHERNET_BIT  1U
#define BY_DEVICE_BIT 2U

static const uint8_t hello_magic[8] = {'g', 'c', 'o', 'l', 'l', 'I', 'B', VERSION};

uint32_t gcoll_ib_frame_bytes(const gcoll_ib_frame *frame) {
    bool has_extra = frame->kind == GCOLL_IB_PIECE || (frame->flags & GCOLL_IB_OPEN);
    return has_extra ? GCOLL_IB_FIXED_BYTES : GCOLL_IB_HEADER_BYTES;
}

uint32_t gcoll_ib_put_frame(uint8_t *bytes, const gcoll_ib_frame *frame) {
    bytes[0] = (uint8_t)(frame->kind | frame->flags);
    bytes[1] = VERSION;
    gcoll_put_le(bytes + 2, frame->slots, 2);
    gcoll_put_le(bytes + 4, frame->index, 4);
    gcoll_put_le(bytes + 8, frame->stream, 8);
    gcoll_put_le(bytes + 16, frame->total, 8);
    gcoll_put_le(bytes + 24, frame->credit, 4);
    gcoll_put_le(bytes + 28, frame->handle, 4);
    if (frame->kind == GCOLL_IB_PIECE) {
        gcoll_put_le(bytes + 32, frame->offset, 8);
        gcoll_put_le(bytes + 40, frame->bytes, 8);
        gcoll_put_le(bytes + 48, frame->address, 8);
        gcoll_put_le(bytes + 56, frame->rkey, 4);
        gcoll_put_le(bytes + 60, 0, 4);
    }
    return gcoll_ib_frame_bytes(frame);
}

uint32_t gcoll_ib_copy_frame(uint8_t *to, const uint8_t *from, const gcoll_ib_frame *owed) {
    gcoll_ib_frame kind = {.kind = from[0] & KIND_MASK, .flags = (uint8_t)(from[0] & ~KIND_MASK)};
    uint32_t bytes = gcoll_ib_frame_bytes(&kind);
    memcpy(to, from, bytes);
    gcoll_put_le(to + 2, owed->slots, 2);
    gcoll_put_le(to + 24, owed->credit, 4);
    return bytes;
}

static const char *check_piece(const gcoll_ib_frame *frame) {
    if (frame->handle >= GCOLL_IB_PIECES)
        return "a piece with an impossible handle";
    if (frame->bytes == 0 || frame->bytes > GCOLL_IB_PIECE_MAX || frame->offset > frame->total ||
        frame->bytes > frame->total - frame->offset)
        return "a piece beyond its message";
    return NULL;
}

static const char *check_flags(const gcoll_ib_frame *frame) {
    static const uint8_t flags_of[GCOLL_IB_KINDS] = {
        [GCOLL_IB_DATA] = GCOLL_IB_OPEN | GCOLL_IB_CREDITED | GCOLL_IB_AHEAD,
        [GCOLL_IB_OFFER] = GCOLL_IB_OPEN,
        [GCOLL_IB_CREDIT] = GCOLL_IB_OPEN | GCOLL_IB_AHEAD,
    };
    if (frame->flags & ~flags_of[frame->kind])
        return "a flag that is not allowed in this kind of frame";
    if ((frame->flags & GCOLL_IB_OPEN) && (frame->flags & GCOLL_IB_AHEAD))
        return "a fingerprint twice";
    return NULL;
}

const char *gcoll_ib_get_frame(const uint8_t *bytes, uint32_t count, gcoll_ib_frame *frame) {
    memset(frame, 0, sizeof *frame);
    if (count < GCOLL_IB_HEADER_BYTES || bytes[1] != VERSION)
        return "a frame of another version";
    frame->kind = bytes[0] & KIND_MASK;
    frame->flags = (uint8_t)(bytes[0] & ~KIND_MASK);
    frame->slots = (uint16_t)gcoll_get_le(bytes + 2, 2);
    frame->index = (uint32_t)gcoll_get_le(bytes + 4, 4);
    frame->stream = gcoll_get_le(bytes + 8, 8);
    frame->total = gcoll_get_le(bytes + 16, 8);
    frame->credit = (uint32_t)gcoll_get_le(bytes + 24, 4);
    frame->handle = (uint32_t)gcoll_get_le(bytes + 28, 4);
    if (frame->kind == 0 || frame->kind >= GCOLL_IB_KINDS)
        return "a frame of unknown kind";
    const char *wrong = check_flags(frame);
    if (wrong)
        return wrong;
    uint32_t fixed = gcoll_ib_frame_bytes(frame);
    if (count < fixed || (frame->kind == GCOLL_IB_DATA
                              ? frame->total != count - fixed
                              : frame->kind != GCOLL_IB_PROOF && count != fixed)) /* a proof fills a packet */
        return "a frame of another length than it says";
    if (frame->kind != GCOLL_IB_PIECE)
        return NULL;
    frame->offset = gcoll_get_le(bytes + 32, 8);
    frame->bytes = gcoll_get_le(bytes + 40, 8);
    frame->address = gcoll_get_le(bytes + 48, 8);
    frame->rkey = (uint32_t)gcoll_get_le(bytes + 56, 4);
    return check_piece(frame);
}

bool gcoll_ib_is_proof(const uint8_t *bytes) {
    return bytes[0] == GCOLL_IB_PROOF && bytes[1] == VERSION;
}

/* ---- Hellos ---------------------------------------------------------------------------------------- */

void gcoll_ib_put_hello(uint8_t *bytes, const gcoll_ib_hello *hello) {
    memset(bytes, 0, GCOLL_IB_HELLO_BYTES);
    memcpy(bytes, hello_magic, sizeof hello_magic);
    gcoll_put_le(bytes + 8, hello->qpn, 4);
    gcoll_put_le(bytes + 12, hello->psn, 4);
    gcoll_put_le(bytes + 16, hello->lid, 2);
    bytes[18] = (uint8_t)hello->mtu;
    bytes[19] = (uint8_t)((hello->ethernet ? ETHERNET_BIT : 0) | (hello->by_device ? BY_DEVICE_BIT : 0));
    gcoll_put_le(bytes + 20, hello->depth, 4);
    gcoll_put_le(bytes + 24, hello->piece_max, 4);
    gcoll_put_le(bytes + 32, hello->eager_bytes, 8);
    gcoll_put_le(bytes + 40, hello->pool_bytes, 8);
    memcpy(bytes + 48, hello->gid.raw, sizeof hello->gid.raw);
}

static const char *check_hello(const gcoll_ib_hello *hello) {
    static const uint8_t no_gid[sizeof hello->gid.raw];
    if (hello->qpn > NUMBER_MAX || hello->psn > NUMBER_MAX)
        return "a queue pair that cannot be";
    if (hello->mtu < IBV_MTU_256 || hello->mtu > IBV_MTU_4096)
        return "an MTU that cannot be";
    if (hello->ethernet ? memcmp(hello->gid.raw, no_gid, sizeof no_gid) == 0 : hello->lid == 0)
        return "no address of its port";
    if (hello->depth != GCOLL_IB_DEPTH || hello->piece_max < GCOLL_IB_CHUNK_BYTES ||
        hello->piece_max > GCOLL_IB_PIECE_MAX)
        return "queues of another depth";
    if (hello->eager_bytes > GCOLL_IB_EAGER_MAX || hello->pool_bytes < GCOLL_FLOW_POOL_MIN ||
        hello->pool_bytes > GCOLL_FLOW_POOL_MAX ||
        hello->eager_bytes > hello->pool_bytes / 2 - GCOLL_FLOW_OVERHEAD_BYTES)
        return "limits that cannot be";
    return NULL;
}

const char *gcoll_ib_get_hello(const uint8_t *bytes, gcoll_ib_hello *hello) {
    memset(hello, 0, sizeof *hello);
    if (memcmp(bytes, hello_magic, sizeof hello_magic) != 0)
        return "a hello of another version";
    hello->qpn = (uint32_t)gcoll_get_le(bytes + 8, 4);
    hello->psn = (uint32_t)gcoll_get_le(bytes + 12, 4);
    hello->lid = (uint16_t)gcoll_get_le(bytes + 16, 2);
    hello->mtu = (enum ibv_mtu)bytes[18];
    hello->ethernet = (bytes[19] & ETHERNET_BIT) != 0;
    hello->by_device = (bytes[19] & BY_DEVICE_BIT) != 0;
    hello->depth = (uint32_t)gcoll_get_le(bytes + 20, 4);
    hello->piece_max = (uint32_t)gcoll_get_le(bytes + 24, 4);
    hello->eager_bytes = gcoll_get_le(bytes + 32, 8);
    hello->pool_bytes = gcoll_get_le(bytes + 40, 8);
    memcpy(hello->gid.raw, bytes + 48, sizeof hello->gid.raw);
    return check_hello(hello);
}
