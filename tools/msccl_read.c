/*
 * tools/msccl_read.c - reads MSCCL's XML, as msccl-tools writes it (docs/plans-as-files.md).
 *
 *     <algo name=".." ngpus="2" coll="allreduce" nchunksperloop="2" inplace="0">
 *       <gpu id="0" s_chunks="0">
 *         <tb id="0" send="1" recv="1" chan="0">
 *           <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1"
 * hasdep="0"/>
 *
 * GPUs, blocks and steps stand in the order of their numbers. The reader ignores attributes that
 * do not change the schedule (proto, nchannels, minBytes, ...). It trusts nothing in a file: the first
 * mistake ends the reading, and the error names its line.
 */
#include <expat.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/text.h"
#include "tools/msccl.h"

#define MOST_GPUS   4096
#define MOST_CHUNKS (1 << 20)
#define MOST_BLOCKS 1024 /* of a GPU */
#define MOST_STEPS  8192 /* of a GPU: MSCCL itself has 256 a block */

static const char *const elements[] = {"algo", "gpu", "tb", "step"};
#define DEPTHS (sizeof elements / sizeof elements[0])

static const struct {
    const char *name;
    bool src, dst;
} types[MSCCL_TYPE_COUNT] = {
    [MSCCL_S] = {"s", true, false},      [MSCCL_R] = {"r", false, true},
    [MSCCL_RCS] = {"rcs", false, true},  [MSCCL_RRS] = {"rrs", true, false},
    [MSCCL_RRC] = {"rrc", true, true},   [MSCCL_RRCS] = {"rrcs", true, true},
    [MSCCL_CPY] = {"cpy", true, true},   [MSCCL_RE] = {"re", true, true},
    [MSCCL_NOP] = {"nop", false, false},
};

typedef struct reading {
    field_reader *fields;
    msccl_schedule *to;
    XML_Parser parser;
    uint32_t depth; /* of the element that is open, from 1; 0: none */
    uint32_t gpus;  /* that were read */
    bool failed;
} reading;

static uint32_t line_of(const reading *r) {
    return (uint32_t)XML_GetCurrentLineNumber(r->parser);
}

/* ---- Attributes ---------------------------------------------------------------------------------------- */

/* The value of an attribute; NULL: it is missing. */
static const char *find(const char *const *attributes, const char *name) {
    for (; *attributes; attributes += 2)
        if (strcmp(attributes[0], name) == 0)
            return attributes[1];
    return NULL;
}

/* Refuses an attribute, with what was found and what is allowed. */
static bool bad(reading *r, const char *name, const char *found, const char *allowed) {
    char text[64];
    if (!found)
        return field_wrong(r->fields, "'%s' is missing; allowed are %s", name, allowed);
    snprintf(text, sizeof text, "%s", found);
    gcoll_text_clean(text);
    return field_wrong(r->fields, "'%s' is '%s'; allowed are %s", name, text, allowed);
}

/* A whole number from `least` to `most`. */
static bool read_number(reading *r, const char *const *attributes, const char *name, long least, long most,
                        int32_t *to) {
    const char *text = find(attributes, name);
    char *end = NULL, allowed[64];
    const bool digits = text && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
    const long value = digits ? strtol(text, &end, 10) : 0;
    *to = (int32_t)value;
    if (digits && *end == '\0' && end > text && value >= least && value <= most)
        return true;
    snprintf(allowed, sizeof allowed, "%ld to %ld", least, most);
    return bad(r, name, text, allowed);
}

/* The same for a number that may be missing or -1, which *to says as MSCCL_NONE. */
static bool read_optional(reading *r, const char *const *attributes, const char *name, long most,
                          int32_t *to) {
    *to = MSCCL_NONE;
    const char *text = find(attributes, name);
    return !text || strcmp(text, "-1") == 0 || read_number(r, attributes, name, 0, most, to);
}

/* The number of an element, which is the one that comes next. */
static bool read_next(reading *r, const char *const *attributes, const char *name, uint32_t next,
                      uint32_t most) {
    int32_t found;
    if (next >= most)
        return field_wrong(r->fields, "is number %" PRIu32 "; allowed are %" PRIu32, next + 1, most);
    return read_number(r, attributes, name, (long)next, (long)next, &found);
}

static bool read_flag(reading *r, const char *const *attributes, const char *name, bool *to) {
    int32_t found = 0;
    const bool good = !find(attributes, name) || read_number(r, attributes, name, 0, 1, &found);
    *to = found;
    return good;
}

/* ---- Elements ------------------------------------------------------------------------------------------ */

static msccl_gpu *last_gpu(const reading *r) {
    return &r->to->gpus[r->gpus - 1];
}

static bool read_algo(reading *r, const char *const *attributes) {
    msccl_schedule *to = r->to;
    const char *name = find(attributes, "name"), *word = find(attributes, "coll");
    int32_t gpus, chunks;
    bool in_place, apart;
    if (!word)
        return field_wrong(r->fields, "'coll' is missing");
    if (gcoll_collective_parse(strcmp(word, "reducescatter") == 0 ? "reduce_scatter" : word,
                               &to->collective) != GCOLL_OK)
        return field_wrong(r->fields, "'coll': %s", gcoll_last_error());
    if (!read_number(r, attributes, "ngpus", 1, MOST_GPUS, &gpus) ||
        !read_number(r, attributes, "nchunksperloop", 1, MOST_CHUNKS, &chunks) ||
        !read_flag(r, attributes, "inplace", &in_place) || !read_flag(r, attributes, "outofplace", &apart))
        return false;
    if (gcoll_collective_has_blocks(to->collective) && chunks % gpus != 0)
        return field_wrong(r->fields,
                           "'nchunksperloop' is %" PRId32 "; allowed for %s by %" PRId32
                           " GPUs are multiples of that",
                           chunks, gcoll_collective_name(to->collective), gpus);
    to->in_place = in_place && !apart;
    to->chunks = (uint32_t)chunks;
    snprintf(to->name, sizeof to->name, "%s", name && *name ? name : "msccl");
    gcoll_text_clean(to->name);
    to->gpus = calloc((size_t)gpus, sizeof *to->gpus);
    if (!to->gpus)
        return field_wrong(r->fields, "out of memory");
    to->gpu_count = (uint32_t)gpus;
    return true;
}

static bool read_gpu(reading *r, const char *const *attributes) {
    int32_t scratch = 0;
    if (!read_next(r, attributes, "id", r->gpus, r->to->gpu_count) ||
        (find(attributes, "s_chunks") && !read_number(r, attributes, "s_chunks", 0, MOST_CHUNKS, &scratch)))
        return false;
    r->to->gpus[r->gpus++] = (msccl_gpu){.line = line_of(r), .scratch = (uint32_t)scratch};
    return true;
}

/* Room for one more of an array that doubles. */
static bool reserve(reading *r, void *array, uint32_t count, uint32_t *room, size_t bytes) {
    void *old, *more;
    if (count < *room)
        return true;
    memcpy(&old, array, sizeof old);
    more = realloc(old, (*room ? 2 * *room : 16) * bytes);
    if (!more)
        return field_wrong(r->fields, "out of memory");
    memcpy(array, &more, sizeof more);
    *room = *room ? 2 * *room : 16;
    return true;
}

static bool read_block(reading *r, const char *const *attributes) {
    msccl_gpu *gpu = last_gpu(r);
    msccl_block block = {.line = line_of(r), .first = gpu->step_count};
    const int32_t self = (int32_t)r->gpus - 1;
    const long last = (long)r->to->gpu_count - 1;
    if (!read_next(r, attributes, "id", gpu->block_count, MOST_BLOCKS) ||
        !read_optional(r, attributes, "send", last, &block.send) ||
        !read_optional(r, attributes, "recv", last, &block.recv) ||
        !read_optional(r, attributes, "chan", MOST_BLOCKS, &block.channel))
        return false;
    if (block.send == self || block.recv == self)
        return bad(r, block.send == self ? "send" : "recv",
                   find(attributes, block.send == self ? "send" : "recv"), "other GPUs than this one");
    for (uint32_t b = 0; b < gpu->block_count; b++) {
        const msccl_block *other = &gpu->blocks[b];
        const bool sends = block.send != MSCCL_NONE && block.send == other->send;
        if (block.channel == other->channel &&
            (sends || (block.recv != MSCCL_NONE && block.recv == other->recv)))
            return field_wrong(r->fields,
                               "%s GPU %" PRId32 " on channel %" PRId32 ", as the tb of line %" PRIu32
                               " does; allowed is one",
                               sends ? "sends to" : "receives from", sends ? block.send : block.recv,
                               block.channel, other->line);
    }
    if (!reserve(r, &gpu->blocks, gpu->block_count, &gpu->block_room, sizeof block))
        return false;
    gpu->blocks[gpu->block_count++] = block;
    return true;
}

/* How many chunks a buffer of a GPU has. */
static uint32_t room_of(const reading *r, gcoll_space space) {
    gcoll_problem p = {.collective = r->to->collective,
                       .rank = r->gpus - 1,
                       .size = r->to->gpu_count,
                       .buffers = 1,
                       .count = r->to->chunks};
    return space == GCOLL_SCRATCH
               ? last_gpu(r)->scratch
               : (uint32_t)(space == GCOLL_IN ? gcoll_problem_in_count(&p) : gcoll_problem_out_count(&p));
}

static bool read_place(reading *r, const char *const *attributes, const char *buffer, const char *offset,
                       uint32_t chunks, gcoll_ref *to) {
    static const char letters[] = {[GCOLL_IN] = 'i', [GCOLL_OUT] = 'o', [GCOLL_SCRATCH] = 's'};
    const char *word = find(attributes, buffer);
    uint16_t space = 0;
    int32_t at;
    while (space <= GCOLL_SCRATCH && !(word && word[0] == letters[space] && word[1] == '\0'))
        space++;
    if (space > GCOLL_SCRATCH)
        return bad(r, buffer, word, "i, o, s");
    const uint32_t room = room_of(r, (gcoll_space)space);
    if (chunks > room)
        return field_wrong(r->fields, "'cnt' is %" PRIu32 "; allowed in '%s' are 1 to %" PRIu32, chunks, word,
                           room);
    if (!read_number(r, attributes, offset, 0, (long)room - (long)chunks, &at))
        return false;
    *to = gcoll_ref_make((gcoll_space)space, 0, (uint64_t)at);
    return true;
}

static bool read_type(reading *r, const char *const *attributes, msccl_type *type) {
    const char *word = find(attributes, "type");
    for (uint32_t i = 0; word && i < MSCCL_TYPE_COUNT; i++)
        if (strcmp(word, types[i].name) == 0) {
            *type = (msccl_type)i;
            return true;
        }
    return bad(r, "type", word, "s, r, rcs, rrs, rrc, rrcs, cpy, re, nop");
}

static bool read_wait(reading *r, const char *const *attributes, msccl_step *s) {
    if (!read_optional(r, attributes, "depid", MOST_BLOCKS - 1, &s->on_block) ||
        !read_optional(r, attributes, "deps", MOST_STEPS - 1, &s->on_step))
        return false;
    if ((s->on_block == MSCCL_NONE) != (s->on_step == MSCCL_NONE))
        return field_wrong(r->fields, "'%s' is missing or -1; allowed are both of depid and deps, or none",
                           s->on_block == MSCCL_NONE ? "depid" : "deps");
    return read_flag(r, attributes, "hasdep", &s->awaited);
}

static bool read_step(reading *r, const char *const *attributes) {
    msccl_gpu *gpu = last_gpu(r);
    msccl_block *block = &gpu->blocks[gpu->block_count - 1];
    msccl_step s = {.line = line_of(r), .block = gpu->block_count - 1};
    int32_t chunks = 0;
    if (gpu->step_count >= MOST_STEPS)
        return field_wrong(r->fields, "is step %" PRIu32 " of its GPU; allowed are %d", gpu->step_count + 1,
                           MOST_STEPS);
    if (!read_next(r, attributes, "s", block->count, MOST_STEPS) || !read_type(r, attributes, &s.type) ||
        !read_wait(r, attributes, &s))
        return false;
    if (s.type != MSCCL_NOP && !read_number(r, attributes, "cnt", 1, MOST_CHUNKS, &chunks))
        return false;
    s.chunks = (uint32_t)chunks;
    if ((types[s.type].src && !read_place(r, attributes, "srcbuf", "srcoff", s.chunks, &s.src)) ||
        (types[s.type].dst && !read_place(r, attributes, "dstbuf", "dstoff", s.chunks, &s.dst)))
        return false;
    if ((msccl_sends(s.type) && block->send == MSCCL_NONE) ||
        (msccl_receives(s.type) && block->recv == MSCCL_NONE))
        return field_wrong(r->fields, "'type' is '%s', but its tb has no '%s'", types[s.type].name,
                           msccl_sends(s.type) && block->send == MSCCL_NONE ? "send" : "recv");
    if (!reserve(r, &gpu->steps, gpu->step_count, &gpu->step_room, sizeof s))
        return false;
    gpu->steps[gpu->step_count++] = s;
    block->count++;
    return true;
}

/* ---- The file ------------------------------------------------------------------------------------------ */

/* Puts before the problem where in the file it is, and ends the parsing. */
static void fail(reading *r, uint32_t depth) {
    const uint32_t line = line_of(r), gpu = r->gpus - 1;
    if (depth == DEPTHS) {
        const msccl_block *block = &last_gpu(r)->blocks[last_gpu(r)->block_count - 1];
        field_in(r->fields, "line %" PRIu32 ": GPU %" PRIu32 ", tb %" PRIu32 ", step %" PRIu32, line, gpu,
                 last_gpu(r)->block_count - 1, block->count);
    } else if (depth > 2) {
        field_in(r->fields, "line %" PRIu32 ": GPU %" PRIu32 ", tb %" PRIu32, line, gpu,
                 last_gpu(r)->block_count);
    } else {
        field_in(r->fields, "line %" PRIu32 ": %s", line, depth > 0 ? elements[depth - 1] : "file");
    }
    r->failed = true;
    XML_StopParser(r->parser, XML_FALSE);
}

static void XMLCALL begin(void *user, const char *name, const char **attributes) {
    static bool (*const readers[DEPTHS])(reading *, const char *const *) = {read_algo, read_gpu, read_block,
                                                                            read_step};
    reading *r = user;
    const uint32_t depth = r->depth;
    if (r->failed)
        return;
    if (depth == DEPTHS || strcmp(name, elements[depth]) != 0) {
        char shown[32];
        snprintf(shown, sizeof shown, "%s", name);
        gcoll_text_clean(shown);
        field_wrong(r->fields, "element '%s' is found; allowed here %s%s", shown,
                    depth == DEPTHS ? "is none" : "is ", depth == DEPTHS ? "" : elements[depth]);
        fail(r, 0);
        return;
    }
    if (readers[depth](r, (const char *const *)attributes))
        r->depth++;
    else
        fail(r, depth + 1);
}

static void XMLCALL end(void *user, const char *name) {
    reading *r = user;
    (void)name;
    r->depth--;
}

/* A document type may declare entities, which no schedule needs. */
static void XMLCALL refuse_doctype(void *user, const char *name, const char *system, const char *public,
                                   int internal) {
    reading *r = user;
    (void)name, (void)system, (void)public, (void)internal;
    field_wrong(r->fields, "a document type is found; allowed is none");
    fail(r, 0);
}

static bool check_wait(const msccl_gpu *gpu, const msccl_step *s, field_reader *fields) {
    if (s->on_block == MSCCL_NONE)
        return true;
    if ((uint32_t)s->on_block >= gpu->block_count)
        return field_wrong(fields, "'depid' is %" PRId32 "; allowed are 0 to %" PRIu32, s->on_block,
                           gpu->block_count - 1);
    const msccl_block *block = &gpu->blocks[s->on_block];
    if ((uint32_t)s->on_step >= block->count)
        return field_wrong(fields, "'deps' is %" PRId32 "; tb %" PRId32 " has %" PRIu32 " steps", s->on_step,
                           s->on_block, block->count);
    const msccl_step *other = &gpu->steps[block->first + (uint32_t)s->on_step];
    return other->awaited || field_wrong(fields,
                                         "waits for step %" PRId32 " of tb %" PRId32 " (line %" PRIu32
                                         "), whose 'hasdep' is 0; allowed is 1",
                                         s->on_step, s->on_block, other->line);
}

/* A step may wait for a step that comes later in the file. */
static bool check_waits(const reading *r) {
    for (uint32_t g = 0; g < r->gpus; g++) {
        const msccl_gpu *gpu = &r->to->gpus[g];
        for (uint32_t i = 0; i < gpu->step_count; i++) {
            const msccl_step *s = &gpu->steps[i];
            if (!check_wait(gpu, s, r->fields))
                return field_in(r->fields, "line %" PRIu32 ": GPU %" PRIu32 ", tb %" PRIu32 ", step %" PRIu32,
                                s->line, g, s->block, i - gpu->blocks[s->block].first);
        }
    }
    return true;
}

static bool parse(reading *r, const char *text, size_t bytes) {
    if (XML_Parse(r->parser, text, (int)bytes, XML_TRUE) == XML_STATUS_OK)
        return r->gpus == r->to->gpu_count ||
               field_wrong(r->fields, "has %" PRIu32 " gpu elements; allowed are %" PRIu32 ", its 'ngpus'",
                           r->gpus, r->to->gpu_count);
    return r->failed || field_wrong(r->fields, "line %" PRIu32 ": is no XML: %s", line_of(r),
                                    XML_ErrorString(XML_GetErrorCode(r->parser)));
}

bool msccl_read(field_reader *fields, const char *text, size_t bytes, msccl_schedule *to) {
    reading r = {.fields = fields, .to = to, .parser = XML_ParserCreate(NULL)};
    if (!r.parser)
        return field_wrong(fields, "out of memory");
    XML_SetUserData(r.parser, &r);
    XML_SetElementHandler(r.parser, begin, end);
    XML_SetStartDoctypeDeclHandler(r.parser, refuse_doctype);
    const bool good = parse(&r, text, bytes) && !r.failed && check_waits(&r);
    XML_ParserFree(r.parser);
    return good;
}

void msccl_free(msccl_schedule *schedule) {
    for (uint32_t g = 0; schedule->gpus && g < schedule->gpu_count; g++) {
        free(schedule->gpus[g].blocks);
        free(schedule->gpus[g].steps);
    }
    free(schedule->gpus);
    *schedule = (msccl_schedule){0};
}
