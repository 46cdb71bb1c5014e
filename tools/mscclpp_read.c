/*
 * tools/mscclpp_read.c - reads execution plans of MSCCL++ (versions 0.4 to 0.6).
 *
 * JSON's reader does not tell lines. So the text is walked once more, for the line on which each operation
 * begins. Nothing in a file is trusted: names, numbers and places are checked, and the first mistake ends the
 * reading.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/text.h"
#include "tools/mscclpp.h"

#define MOST_GPUS     4096u
#define MOST_BLOCKS   1024u
#define MOST_OPS      8192u /* of a block */
#define MOST_CHUNKS   (1u << 20)
#define MOST_CHANNELS 1024u /* of a GPU */
#define MOST_BARRIERS 1024u /* of a GPU */

static const char *const type_names[MSCCLPP_TYPE_COUNT] = {"nop", "barrier", "put",    "pws",  "pwsf",
                                                           "get", "copy",    "signal", "wait", "flush",
                                                           "re",  "rs",      "rrc",    "rrcs"};

/* Operations of MSCCL++ that are no messages of memory. */
static const struct {
    const char *name, *what;
} others[] = {{"ppkt", "packets"}, {"rspkt", "packets"}, {"cpkt", "packets"},
              {"tpkt", "packets"}, {"rpkt", "packets"},  {"glres", "in-network reduction (NVLS)"}};

static const char *const kinds[] = {"sm", "proxy", "none"};

typedef struct reading {
    field_reader *fields;
    mscclpp_schedule *to;
    uint32_t *lines; /* of the operations, in the order of the file */
    uint32_t line_count, line_room, next_line;
    uint32_t gpu, block;
    mscclpp_channel *keys; /* of the block: which of the GPU's channels it uses, `other` being its number */
    uint32_t key_count, key_room;
} reading;

static bool out_of_memory(const reading *r) {
    return field_wrong(r->fields, "out of memory");
}

/* Makes room for one more entry. */
static bool reserve(const reading *r, void *array, uint32_t *room, uint32_t used, size_t bytes) {
    void **at = array;
    if (used < *room)
        return true;
    void *more = realloc(*at, (2 * (size_t)*room + 16) * bytes);
    if (!more)
        return out_of_memory(r);
    *at = more;
    *room = 2 * *room + 16;
    return true;
}

/* ---- Lines -----------------------------------------------------------------------------------------------
 */

#define DEPTH 7 /* {"gpus": [{"threadblocks": [{"ops": [{ */

/* Notes the line of each object that is DEPTH deep, under these keys. The text has been found to be JSON. */
static bool find_lines(reading *r, const char *text) {
    static const char *const wanted[DEPTH] = {"", "\"gpus\"", "", "\"threadblocks\"", "", "\"ops\"", ""};
    bool matches[DEPTH + 1] = {true};
    const char *key = "";
    uint32_t line = 1, depth = 0;
    for (const char *at = text; *at; at++) {
        if (*at == '\n') {
            line++;
        } else if (*at == '"') {
            key = at; /* or a value, which no bracket follows */
            at = field_skip_string(at);
            if (!*at)
                break;
        } else if (*at == '{' || *at == '[') {
            if (depth < DEPTH) {
                const bool is_list = depth % 2 == 1;
                matches[depth + 1] = matches[depth] && (*at == '[') == is_list &&
                                     strncmp(key, wanted[depth], strlen(wanted[depth])) == 0;
            }
            depth++;
            if (depth == DEPTH && matches[DEPTH]) {
                if (!reserve(r, &r->lines, &r->line_room, r->line_count, sizeof *r->lines))
                    return false;
                r->lines[r->line_count++] = line;
            }
        } else if (*at == '}' || *at == ']') {
            depth--;
        }
    }
    return true;
}

/* ---- Fields ----------------------------------------------------------------------------------------------
 */

static mscclpp_gpu *this_gpu(const reading *r) {
    return &r->to->gpus[r->gpu];
}

/* A list, which may be missing unless it is needed. */
static bool read_list(const reading *r, struct json_object *from, const char *name, size_t most,
                      struct json_object **list, size_t *count) {
    if (!field_object(r->fields, from, name, json_type_array, list))
        return false;
    *count = *list ? json_object_array_length(*list) : 0;
    return *count <= most ||
           field_wrong(r->fields, "'%s' has %zu entries; allowed are 0 to %zu", name, *count, most);
}

static bool read_space(const reading *r, struct json_object *from, const char *name, uint16_t *to) {
    char word[8];
    if (!field_text(r->fields, from, name, false, word, sizeof word))
        return false;
    const char *at = word[0] && !word[1] ? strchr("ios", word[0]) : NULL;
    if (!at)
        return field_wrong(r->fields, "'%s' is '%s'; allowed are 'i', 'o', 's'", name, word);
    *to = *at == 'i' ? GCOLL_IN : *at == 'o' ? GCOLL_OUT : GCOLL_SCRATCH;
    return true;
}

static bool read_kind(const reading *r, struct json_object *from, const char *name, uint8_t *to) {
    char word[16];
    if (!field_text(r->fields, from, name, false, word, sizeof word))
        return false;
    for (*to = 0; *to < sizeof kinds / sizeof kinds[0]; ++*to)
        if (strcmp(word, kinds[*to]) == 0)
            return true;
    return field_wrong(r->fields, "'%s' is '%s'; allowed are 'sm', 'proxy', 'none'%s", name, word,
                       strcmp(word, "nvls") == 0 ? ": reduction within the network (NVLS) is no message"
                                                 : "");
}

/* Whether so many chunks from ref on lie in the space of a GPU. */
static bool check_place(const reading *r, uint32_t gpu, gcoll_ref ref, uint32_t chunks) {
    const uint32_t room = r->to->gpus[gpu].chunks[ref.space];
    if (ref.offset <= room && chunks <= room - ref.offset)
        return true;
    return field_wrong(r->fields,
                       "chunks %" PRIu64 " + %" PRIu32 " of '%c' of GPU %" PRIu32 "; it has %" PRIu32,
                       ref.offset, chunks, "ios"[ref.space], gpu, room);
}

static bool read_place(const reading *r, struct json_object *from, const char *space, const char *offset,
                       uint32_t chunks, gcoll_ref *to) {
    uint16_t where = 0;
    int64_t at;
    if (!read_space(r, from, space, &where) ||
        !field_whole(r->fields, from, offset, MOST_CHUNKS, false, 0, &at))
        return false;
    *to = gcoll_ref_make((gcoll_space)where, 0, (uint64_t)at);
    return check_place(r, r->gpu, *to, chunks);
}

/* ---- Channels --------------------------------------------------------------------------------------------
 */

static bool read_channel(reading *r, struct json_object *from) {
    mscclpp_gpu *gpu = this_gpu(r);
    mscclpp_channel made = {0};
    struct json_object *peers;
    char found[FIELD_SHOWN];
    size_t count;
    if (!json_object_is_type(from, json_type_object))
        return field_wrong(r->fields, "is no object");
    if (!read_kind(r, from, "type", &made.kind) || !read_space(r, from, "srcbuff", &made.local) ||
        !read_space(r, from, "dstbuff", &made.remote) ||
        !read_list(r, from, "connectedTo", MOST_CHUNKS, &peers, &count))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct json_object *entry = json_object_array_get_idx(peers, i);
        const int64_t peer = json_object_is_type(entry, json_type_int) ? json_object_get_int64(entry) : -1;
        if (peer < 0 || peer >= r->to->gpu_count || peer == r->gpu) {
            field_show(entry, found);
            return field_wrong(r->fields,
                               "'connectedTo[%zu]' is %s; allowed are 0 to %" PRIu32 ", but not this GPU", i,
                               found, r->to->gpu_count - 1);
        }
        if (!reserve(r, &gpu->channels, &gpu->channel_room, gpu->channel_count, sizeof *gpu->channels))
            return false;
        if (gpu->channel_count == MOST_CHANNELS)
            return field_wrong(r->fields, "'connectedTo' makes more than %u channels of the GPU",
                               MOST_CHANNELS);
        made.peer = (uint32_t)peer;
        gpu->channels[gpu->channel_count++] = made;
    }
    return true;
}

/* Joins the ends: the k-th channel of a kind to a peer is the k-th of that kind back. */
static bool join_channels(const reading *r) {
    for (uint32_t g = 0; g < r->to->gpu_count; g++) {
        mscclpp_gpu *gpu = &r->to->gpus[g];
        for (uint32_t c = 0; c < gpu->channel_count; c++) {
            mscclpp_channel *channel = &gpu->channels[c];
            const mscclpp_gpu *peer = &r->to->gpus[channel->peer];
            uint32_t number = 0, other = 0;
            for (uint32_t k = 0; k < c; k++)
                number += gpu->channels[k].kind == channel->kind && gpu->channels[k].peer == channel->peer;
            while (other < peer->channel_count && !(peer->channels[other].kind == channel->kind &&
                                                    peer->channels[other].peer == g && number-- == 0))
                other++;
            channel->other = other; /* behind the last one: there is none, and nobody may wait there */
        }
    }
    return true;
}

static bool same_key(const mscclpp_channel *a, const mscclpp_channel *b) {
    return a->local == b->local && a->remote == b->remote && a->kind == b->kind;
}

/* The number-th of some channels with this key; UINT32_MAX: there is none. */
static uint32_t find_channel(const mscclpp_channel *channels, uint32_t count, const mscclpp_channel *key,
                             uint32_t number) {
    for (uint32_t c = 0; c < count; c++)
        if (same_key(&channels[c], key) && number-- == 0)
            return c;
    return UINT32_MAX;
}

/* An entry of the channels of a block: which of the GPU's with that key it uses. */
static bool read_key(reading *r, struct json_object *from) {
    const mscclpp_gpu *gpu = this_gpu(r);
    mscclpp_channel key = {0};
    struct json_object *list;
    char found[FIELD_SHOWN];
    size_t count;
    if (!json_object_is_type(from, json_type_object))
        return field_wrong(r->fields, "is no object");
    if (!read_kind(r, from, "ctype", &key.kind) || !read_space(r, from, "src", &key.local) ||
        !read_space(r, from, "dst", &key.remote) || !read_list(r, from, "cids", MOST_CHUNKS, &list, &count))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct json_object *entry = json_object_array_get_idx(list, i);
        const int64_t id = json_object_is_type(entry, json_type_int) ? json_object_get_int64(entry) : -1;
        key.other = id < 0 || id > UINT32_MAX
                        ? UINT32_MAX
                        : find_channel(gpu->channels, gpu->channel_count, &key, (uint32_t)id);
        if (key.other == UINT32_MAX) {
            field_show(entry, found);
            return field_wrong(r->fields,
                               "'cids[%zu]' is %s; allowed is the number of one of the GPU's channels of "
                               "this kind and these buffers",
                               i, found);
        }
        if (!reserve(r, &r->keys, &r->key_room, r->key_count, sizeof *r->keys))
            return false;
        r->keys[r->key_count++] = key;
    }
    return true;
}

/* ---- Operations ------------------------------------------------------------------------------------------
 */

/* i_cids or o_cids, with the buffers of their channels. has_data: offsets mean chunks of remote memory. */
static bool read_ends(const reading *r, struct json_object *from, const char *buffers, const char *name,
                      bool has_data, const mscclpp_op *op, mscclpp_end *ends, uint32_t *count) {
    struct json_object *list, *key_of;
    mscclpp_channel key = {0};
    size_t entries;
    if (!read_list(r, from, name, MSCCLPP_ENDS, &list, &entries) ||
        !field_object(r->fields, from, buffers, json_type_object, &key_of))
        return false;
    if (entries == 0 || !key_of)
        return field_wrong(r->fields, "'%s' is missing or empty, which '%s' needs",
                           entries == 0 ? name : buffers, type_names[op->type]);
    if (!read_kind(r, from, "ctype", &key.kind) || !read_space(r, key_of, "src", &key.local) ||
        !read_space(r, key_of, "dst", &key.remote))
        return false;
    for (size_t i = 0; i < entries; i++) {
        struct json_object *entry = json_object_array_get_idx(list, i);
        int64_t id, offset;
        if (!json_object_is_type(entry, json_type_object))
            return field_wrong(r->fields, "'%s[%zu]' is no object", name, i);
        if (!field_whole(r->fields, entry, "id", MOST_CHUNKS, false, 0, &id) ||
            !field_whole(r->fields, entry, "off", MOST_CHUNKS, false, 0, &offset))
            return field_in(r->fields, "'%s[%zu]'", name, i);
        const uint32_t found = find_channel(r->keys, r->key_count, &key, (uint32_t)id);
        if (found == UINT32_MAX)
            return field_wrong(r->fields, "'%s[%zu]' is channel %" PRId64 ", which this block does not have",
                               name, i, id);
        ends[i] = (mscclpp_end){r->keys[found].other, (uint32_t)offset};
        const mscclpp_channel *channel = &this_gpu(r)->channels[ends[i].channel];
        if (channel->other == r->to->gpus[channel->peer].channel_count)
            return field_wrong(r->fields,
                               "'%s[%zu]' has no other end: GPU %" PRIu32 " has fewer channels to this one",
                               name, i, channel->peer);
        if (has_data &&
            !check_place(r, channel->peer, gcoll_ref_make((gcoll_space)channel->remote, 0, (uint64_t)offset),
                         op->chunks))
            return field_in(r->fields, "'%s[%zu]'", name, i);
    }
    *count = (uint32_t)entries;
    return true;
}

/* srcs or dsts: places of this GPU. `needed` of them, or any number if that is 0. */
static bool read_places(const reading *r, struct json_object *from, const char *name, uint32_t needed,
                        const mscclpp_op *op, gcoll_ref *to, uint32_t *count) {
    struct json_object *list;
    size_t entries;
    if (!read_list(r, from, name, MSCCLPP_ENDS, &list, &entries))
        return false;
    if (entries == 0 || (needed > 0 && entries != needed))
        return field_wrong(r->fields, "'%s' has %zu entries, which '%s' needs one of for each channel", name,
                           entries, type_names[op->type]);
    for (size_t i = 0; i < entries; i++) {
        struct json_object *entry = json_object_array_get_idx(list, i);
        if (!json_object_is_type(entry, json_type_object))
            return field_wrong(r->fields, "'%s[%zu]' is no object", name, i);
        if (!read_place(r, entry, "buff", "off", op->chunks, &to[i]))
            return field_in(r->fields, "'%s[%zu]'", name, i);
    }
    *count = (uint32_t)entries;
    return true;
}

static bool read_type(const reading *r, struct json_object *from, mscclpp_type *to) {
    char word[32], allowed[160];
    gcoll_text list = {allowed, sizeof allowed, 0};
    if (!field_text(r->fields, from, "name", false, word, sizeof word))
        return false;
    for (uint32_t t = 0; t < MSCCLPP_TYPE_COUNT; t++)
        if (strcmp(word, type_names[t]) == 0) {
            *to = (mscclpp_type)t;
            return true;
        }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(word, others[i].name) == 0)
            return field_wrong(r->fields,
                               "'%s' uses %s, which gcoll has not; allowed are plans of put, get, copy, "
                               "signal, wait and reductions",
                               word, others[i].what);
    for (uint32_t t = 0; t < MSCCLPP_TYPE_COUNT; t++)
        gcoll_text_add(&list, "%s%s", t ? ", " : "", type_names[t]);
    return field_wrong(r->fields,
                       "'name' is '%s', which is no operation of MSCCL++ 0.4 to 0.6; allowed are %s", word,
                       allowed);
}

static bool read_deps(reading *r, struct json_object *from, mscclpp_op *op) {
    mscclpp_gpu *gpu = this_gpu(r);
    struct json_object *list;
    size_t count;
    if (!read_list(r, from, "deps", MOST_OPS, &list, &count))
        return false;
    op->first_dep = gpu->dep_count;
    op->deps = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        struct json_object *entry = json_object_array_get_idx(list, i);
        mscclpp_dep dep;
        if (!json_object_is_type(entry, json_type_object))
            return field_wrong(r->fields, "'deps[%zu]' is no object", i);
        if (!field_small(r->fields, entry, "tb", false, 0, &dep.block) ||
            !field_small(r->fields, entry, "step", false, 0, &dep.step) ||
            !reserve(r, &gpu->deps, &gpu->dep_room, gpu->dep_count, sizeof *gpu->deps))
            return false;
        gpu->deps[gpu->dep_count++] = dep;
    }
    return true;
}

static bool read_barrier(const reading *r, struct json_object *from, mscclpp_op *op) {
    int64_t id;
    if (!field_whole(r->fields, from, "barrier_id", MOST_BARRIERS - 1, false, 0, &id))
        return false;
    op->barrier = (uint32_t)id;
    return true;
}

/* The fields that an operation of its type has. */
static bool read_parts(reading *r, struct json_object *from, mscclpp_op *op) {
    const mscclpp_type t = op->type;
    const bool puts = t == MSCCLPP_PUT || t == MSCCLPP_PWS || t == MSCCLPP_PWSF;
    const bool reads = t == MSCCLPP_GET || t == MSCCLPP_RRC || t == MSCCLPP_RRCS;
    const bool sends = puts || t == MSCCLPP_RS || t == MSCCLPP_RRCS;
    const bool has_pair =
        t == MSCCLPP_COPY || t == MSCCLPP_RE || t == MSCCLPP_RS || t == MSCCLPP_RRC || t == MSCCLPP_RRCS;
    const bool has_data = puts || reads || has_pair;
    int64_t chunks;
    if (!field_whole(r->fields, from, "cnt", MOST_CHUNKS, !has_data, 0, &chunks))
        return false;
    op->chunks = (uint32_t)chunks;
    if (has_data && chunks == 0)
        return field_wrong(r->fields, "'cnt' is 0; allowed for '%s' are 1 and more", type_names[t]);
    if (has_pair && (!read_place(r, from, "srcbuff", "srcoff", op->chunks, &op->src) ||
                     !read_place(r, from, "dstbuff", "dstoff", op->chunks, &op->dst)))
        return false;
    if ((reads || t == MSCCLPP_WAIT) && !read_ends(r, from, "i_buff", "i_cids", reads, op, op->in, &op->ins))
        return false;
    if ((sends || t == MSCCLPP_SIGNAL) &&
        !read_ends(r, from, "o_buff", "o_cids", sends, op, op->out, &op->outs))
        return false;
    if ((puts || t == MSCCLPP_RE || t == MSCCLPP_RS) &&
        !read_places(r, from, "srcs", puts ? op->outs : 0, op, op->srcs, &op->src_count))
        return false;
    if (t == MSCCLPP_GET && !read_places(r, from, "dsts", op->ins, op, op->dsts, &op->dst_count))
        return false;
    if (t == MSCCLPP_BARRIER)
        return read_barrier(r, from, op) &&
               field_small(r->fields, from, "nthread_blocks", false, 0, &op->participants);
    return t != MSCCLPP_NOP || read_deps(r, from, op);
}

static bool read_op(reading *r, struct json_object *from) {
    mscclpp_gpu *gpu = this_gpu(r);
    if (r->next_line == r->line_count)
        return field_wrong(r->fields, "has a key twice");
    if (!reserve(r, &gpu->ops, &gpu->op_room, gpu->op_count, sizeof *gpu->ops))
        return false;
    mscclpp_op *op = &gpu->ops[gpu->op_count];
    *op = (mscclpp_op){.line = r->lines[r->next_line++], .block = r->block};
    const bool good = json_object_is_type(from, json_type_object)
                          ? read_type(r, from, &op->type) && read_parts(r, from, op)
                          : field_wrong(r->fields, "is no object");
    const uint32_t number = gpu->op_count++ - gpu->blocks[r->block].first;
    return good || field_in(r->fields, "line %" PRIu32 ": GPU %" PRIu32 ", tb %" PRIu32 ", step %" PRIu32,
                            op->line, r->gpu, r->block, number);
}

/* Each barrier is for as many blocks as have it. */
static bool check_barriers(const reading *r) {
    const mscclpp_gpu *gpu = this_gpu(r);
    uint32_t counts[MOST_BARRIERS] = {0}, last[MOST_BARRIERS] = {0};
    for (uint32_t i = 0; i < gpu->op_count; i++) {
        const mscclpp_op *op = &gpu->ops[i];
        if (op->type != MSCCLPP_BARRIER || (counts[op->barrier] > 0 && last[op->barrier] == op->block))
            continue;
        counts[op->barrier]++;
        last[op->barrier] = op->block;
    }
    for (uint32_t i = 0; i < gpu->op_count; i++) {
        const mscclpp_op *op = &gpu->ops[i];
        if (op->type != MSCCLPP_BARRIER || counts[op->barrier] == op->participants)
            continue;
        field_wrong(r->fields,
                    "'nthread_blocks' is %" PRIu32 ", but %" PRIu32 " blocks have barrier %" PRIu32,
                    op->participants, counts[op->barrier], op->barrier);
        return field_in(r->fields, "line %" PRIu32 ": GPU %" PRIu32 ", tb %" PRIu32, op->line, r->gpu,
                        op->block);
    }
    return true;
}

/* Whether an operation may wait for this one: it is there, and in the same block it comes before. */
static bool check_dep(const reading *r, const mscclpp_op *op, uint32_t number, const mscclpp_dep *dep) {
    const mscclpp_gpu *gpu = this_gpu(r);
    const bool is_there = dep->block < gpu->block_count && dep->step < gpu->blocks[dep->block].count;
    if (is_there && (dep->block != op->block || dep->step < number))
        return true;
    field_wrong(r->fields, "waits for step %" PRIu32 " of tb %" PRIu32 ", which %s", dep->step, dep->block,
                is_there ? "does not come before it" : "is not there");
    return field_in(r->fields, "line %" PRIu32 ": GPU %" PRIu32 ", tb %" PRIu32 ", step %" PRIu32, op->line,
                    r->gpu, op->block, number);
}

static bool check_waits(const reading *r) {
    const mscclpp_gpu *gpu = this_gpu(r);
    if (!check_barriers(r))
        return false;
    for (uint32_t i = 0; i < gpu->op_count; i++) {
        const mscclpp_op *op = &gpu->ops[i];
        for (uint32_t d = 0; d < op->deps; d++)
            if (!check_dep(r, op, i - gpu->blocks[op->block].first, &gpu->deps[op->first_dep + d]))
                return false;
    }
    return true;
}

/* ---- GPUs ------------------------------------------------------------------------------------------------
 */

/* Whether the problem says already where it is. */
static bool names_line(const reading *r) {
    return strncmp(r->fields->problem, "line ", strlen("line ")) == 0;
}

typedef bool (*entry_fn)(reading *r, struct json_object *from);

static bool read_each(reading *r, struct json_object *from, const char *name, size_t most, entry_fn read) {
    struct json_object *list;
    size_t count;
    if (!read_list(r, from, name, most, &list, &count))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!read(r, json_object_array_get_idx(list, i)))
            return names_line(r) ? false : field_in(r->fields, "%s[%zu]", name, i);
    return true;
}

static bool read_block(reading *r, struct json_object *from) {
    mscclpp_gpu *gpu = this_gpu(r);
    uint32_t id;
    r->key_count = 0;
    r->block = gpu->block_count;
    if (!json_object_is_type(from, json_type_object))
        return field_wrong(r->fields, "is no object");
    if (!field_small(r->fields, from, "id", false, 0, &id) ||
        !read_each(r, from, "channels", MOST_CHUNKS, read_key))
        return false;
    if (id != r->block)
        return field_wrong(r->fields, "'id' is %" PRIu32 "; allowed is %" PRIu32 ", its place", id, r->block);
    gpu->blocks[gpu->block_count++] = (mscclpp_block){.first = gpu->op_count};
    const bool good = read_each(r, from, "ops", MOST_OPS, read_op);
    gpu->blocks[r->block].count = gpu->op_count - gpu->blocks[r->block].first;
    return good;
}

static bool read_chunks(reading *r, struct json_object *from) {
    static const char *const names[3] = {
        [GCOLL_IN] = "inputChunks", [GCOLL_OUT] = "outputChunks", [GCOLL_SCRATCH] = "scratchChunks"};
    mscclpp_gpu *gpu = this_gpu(r);
    uint32_t id;
    if (!json_object_is_type(from, json_type_object))
        return field_wrong(r->fields, "is no object");
    if (!field_small(r->fields, from, "id", false, 0, &id))
        return false;
    if (id != r->gpu)
        return field_wrong(r->fields, "'id' is %" PRIu32 "; allowed is %" PRIu32 ", its place", id, r->gpu);
    for (int space = 0; space < 3; space++) {
        int64_t chunks;
        if (!field_whole(r->fields, from, names[space], MOST_CHUNKS, false, 0, &chunks))
            return false;
        gpu->chunks[space] = (uint32_t)chunks;
    }
    return read_each(r, from, "channels", MOST_CHUNKS, read_channel);
}

static bool read_gpu(reading *r, struct json_object *from) {
    mscclpp_gpu *gpu = this_gpu(r);
    gpu->blocks = calloc(MOST_BLOCKS, sizeof *gpu->blocks);
    return (gpu->blocks || out_of_memory(r)) && read_each(r, from, "threadblocks", MOST_BLOCKS, read_block) &&
           check_waits(r);
}

/* Finds the chunks of the vector, and that each GPU has the input and output of the collective. A buffer of
 * no chunks is not used. */
static bool check_chunks(reading *r) {
    mscclpp_schedule *s = r->to;
    const bool gathers = s->collective == GCOLL_ALLGATHER, scatters = s->collective == GCOLL_REDUCE_SCATTER;
    const uint64_t in = s->gpus[0].chunks[GCOLL_IN], out = s->gpus[0].chunks[GCOLL_OUT];
    const uint64_t all = gathers    ? (out ? out : in * s->gpu_count)
                         : scatters ? (in ? in : out * s->gpu_count)
                                    : (in ? in : out);
    const bool has_blocks = gcoll_collective_has_blocks(s->collective);
    if (all == 0 || all > MOST_CHUNKS || (has_blocks && all % s->gpu_count != 0))
        return field_wrong(r->fields, "has %" PRIu64 " chunks in all; allowed are 1 to %u%s", all,
                           MOST_CHUNKS, has_blocks ? ", a multiple of the GPUs" : "");
    s->chunks = (uint32_t)all;
    for (uint32_t g = 0; g < s->gpu_count; g++) {
        const uint32_t block = s->chunks / s->gpu_count;
        const uint32_t wanted[2] = {gathers ? block : s->chunks, scatters ? block : s->chunks};
        for (int space = 0; space < 2; space++)
            if (s->gpus[g].chunks[space] != 0 && s->gpus[g].chunks[space] != wanted[space])
                return field_wrong(r->fields,
                                   "gpus[%" PRIu32 "]: '%s' is %" PRIu32 "; allowed are %" PRIu32 " and 0", g,
                                   space == GCOLL_IN ? "inputChunks" : "outputChunks",
                                   s->gpus[g].chunks[space], wanted[space]);
    }
    return true;
}

static bool read_collective(const reading *r, struct json_object *all) {
    static const struct {
        const char *name;
        gcoll_collective collective;
    } known[] = {{"allreduce", GCOLL_ALLREDUCE},          {"allgather", GCOLL_ALLGATHER},
                 {"reducescatter", GCOLL_REDUCE_SCATTER}, {"reduce_scatter", GCOLL_REDUCE_SCATTER},
                 {"broadcast", GCOLL_BROADCAST},          {"alltoall", GCOLL_ALLTOALL}};
    char word[32];
    if (!field_text(r->fields, all, "collective", false, word, sizeof word))
        return false;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(word, known[i].name) == 0) {
            r->to->collective = known[i].collective;
            return true;
        }
    return field_wrong(
        r->fields,
        "'collective' is '%s'; allowed are allreduce, allgather, reducescatter, broadcast, alltoall", word);
}

static bool read_all(reading *r, struct json_object *all, tool_plan_file *file) {
    mscclpp_schedule *s = r->to;
    struct json_object *gpus, *in_place;
    size_t count;
    if (!field_text(r->fields, all, "name", false, file->name, sizeof file->name) ||
        !read_collective(r, all) || !field_object(r->fields, all, "inplace", json_type_boolean, &in_place) ||
        !read_list(r, all, "gpus", MOST_GPUS, &gpus, &count))
        return false;
    s->in_place = in_place && json_object_get_boolean(in_place);
    if (count == 0)
        return field_wrong(r->fields, "'gpus' is empty; allowed are 1 to %u", MOST_GPUS);
    s->gpus = calloc(count, sizeof *s->gpus);
    if (!s->gpus)
        return out_of_memory(r);
    s->gpu_count = (uint32_t)count;
    for (entry_fn read = read_chunks; read; read = read == read_chunks ? read_gpu : NULL) {
        for (r->gpu = 0; r->gpu < count; r->gpu++)
            if (!read(r, json_object_array_get_idx(gpus, r->gpu)))
                return names_line(r) ? false : field_in(r->fields, "gpus[%" PRIu32 "]", r->gpu);
        if (read == read_chunks && (!join_channels(r) || !check_chunks(r)))
            return false;
    }
    return r->next_line == r->line_count || field_wrong(r->fields, "has a key twice");
}

bool mscclpp_is(struct json_object *all) {
    return json_object_is_type(all, json_type_object) && json_object_object_get_ex(all, "gpus", NULL) &&
           !json_object_object_get_ex(all, TOOL_PLAN_VERSION_KEY, NULL);
}

bool mscclpp_read(tool_plan_text *from, struct json_object *all, mscclpp_schedule *to) {
    reading r = {.fields = &from->fields, .to = to};
    const bool good = find_lines(&r, from->text) && read_all(&r, all, from->to);
    free(r.lines);
    free(r.keys);
    return good;
}

void mscclpp_free(mscclpp_schedule *schedule) {
    for (uint32_t g = 0; schedule->gpus && g < schedule->gpu_count; g++) {
        free(schedule->gpus[g].channels);
        free(schedule->gpus[g].blocks);
        free(schedule->gpus[g].ops);
        free(schedule->gpus[g].deps);
    }
    free(schedule->gpus);
}
