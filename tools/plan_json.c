/*
 * tools/plan_json.c - reads plans that tool_plan_file_write wrote, or somebody else in that format.
 *
 * Nothing in a file is trusted: keys, sizes and numbers are checked, and the first mistake ends the reading.
 * Where steps lie in memory is not looked at here; that is done where plans are made of the drafts.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gcoll/base/text.h"
#include "tools/mscclpp.h"

#define MOST_OPERANDS GCOLL_MAX_BUFFERS

/* A file that is being read, and memory for what one plan or step has. */
typedef struct reading {
    field_reader *fields;
    tool_plan_file *to;
    gcoll_problem problem; /* what all ranks share */
    uint64_t *offsets;     /* two tables of size + 1 */
    uint32_t memory[2 * GCOLL_MAX_BUFFERS];
    uint16_t operands[MOST_OPERANDS];
    uint32_t *after;
    size_t after_room;
    uint32_t last_round;
    bool in_place; /* this rank's plan */
} reading;

static size_t length_of(struct json_object *array) {
    return array ? json_object_array_length(array) : 0;
}

static bool out_of_memory(reading *r) {
    return field_wrong(r->fields, "out of memory");
}

/* Refuses a value that was found where others are allowed. */
static bool bad_entry(reading *r, const char *name, size_t index, struct json_object *value,
                      const char *allowed) {
    char text[FIELD_SHOWN];
    field_show(value, text);
    return field_wrong(r->fields, "'%s[%zu]' is %s; allowed are %s", name, index, text, allowed);
}

/* Entry `index` of a list: a whole number from `least` to `most`. */
static bool read_entry(reading *r, struct json_object *list, const char *name, size_t index, uint64_t least,
                       uint64_t most, uint64_t *to) {
    struct json_object *entry = json_object_array_get_idx(list, index);
    char allowed[64];
    const int64_t value = json_object_is_type(entry, json_type_int) ? json_object_get_int64(entry) : -1;
    *to = (uint64_t)value;
    if (value >= 0 && *to >= least && *to <= most)
        return true;
    snprintf(allowed, sizeof allowed, "%" PRIu64 " to %" PRIu64, least, most);
    return bad_entry(r, name, index, entry, allowed);
}

/* A field that is true or false; missing, it is false. */
static bool read_flag(reading *r, struct json_object *from, const char *name, bool *to) {
    struct json_object *found;
    if (!field_object(r->fields, from, name, json_type_boolean, &found))
        return false;
    *to = found && json_object_get_boolean(found);
    return true;
}

/* Elements of a vector, of scratch or of a step. */
static bool read_count(reading *r, struct json_object *from, const char *name, bool may_lack, uint64_t *to) {
    int64_t value;
    const bool good = field_whole(r->fields, from, name, (int64_t)TOOL_PLAN_MOST_COUNT, may_lack, 0, &value);
    *to = (uint64_t)value;
    return good;
}

/* ---- Steps --------------------------------------------------------------------------------------------- */

/* A place: ["out", 0, 12] is element 12 of OUT[0]. */
static bool read_place(reading *r, struct json_object *from, const char *name, gcoll_ref *to) {
    struct json_object *place;
    uint64_t index, offset;
    uint16_t space = 0;
    if (!field_object(r->fields, from, name, json_type_array, &place))
        return false;
    if (length_of(place) != 3)
        return field_wrong(
            r->fields,
            "'%s' is missing or has %zu entries; allowed are 3: in, out or scratch, which one, offset", name,
            length_of(place));
    struct json_object *word = json_object_array_get_idx(place, 0);
    while (space <= GCOLL_SCRATCH && !(json_object_is_type(word, json_type_string) &&
                                       strcmp(json_object_get_string(word), tool_plan_spaces[space]) == 0))
        space++;
    if (space > GCOLL_SCRATCH)
        return bad_entry(r, name, 0, word, "\"in\", \"out\", \"scratch\"");
    if (space == GCOLL_IN && r->in_place)
        return bad_entry(r, name, 0, word, "\"out\", \"scratch\", as this rank is in place");
    if (!read_entry(r, place, name, 1, 0, GCOLL_MAX_BUFFERS - 1, &index) ||
        !read_entry(r, place, name, 2, 0, TOOL_PLAN_MOST_COUNT, &offset))
        return false;
    *to = gcoll_ref_make((gcoll_space)space, (uint32_t)index, offset);
    return true;
}

static bool read_kind(reading *r, struct json_object *from, uint8_t *kind) {
    char word[32], allowed[160];
    gcoll_text list = {allowed, sizeof allowed, 0};
    if (!field_text(r->fields, from, "op", false, word, sizeof word))
        return false;
    for (*kind = 0; *kind < GCOLL_STEP_KIND_COUNT; ++*kind) {
        if (strcmp(word, gcoll_step_kind_name(*kind)) == 0)
            return true;
        gcoll_text_add(&list, "%s'%s'", *kind ? ", " : "", gcoll_step_kind_name(*kind));
    }
    return field_wrong(r->fields, "'op' is '%s'; allowed are %s", word, allowed);
}

static bool read_operands(reading *r, struct json_object *from, gcoll_step *s) {
    struct json_object *list;
    if (!field_object(r->fields, from, "operands", json_type_array, &list))
        return false;
    if (length_of(list) < 2 || length_of(list) > MOST_OPERANDS)
        return field_wrong(r->fields, "'operands' is missing or has %zu entries; allowed are 2 to %u",
                           length_of(list), MOST_OPERANDS);
    s->operand_count = (uint32_t)length_of(list);
    for (uint32_t i = 0; i < s->operand_count; i++) {
        uint64_t index;
        if (!read_entry(r, list, "operands", i, 0, GCOLL_MAX_BUFFERS - 1, &index))
            return false;
        r->operands[i] = (uint16_t)index;
    }
    return true;
}

/* The places that a step of this kind has, and no others. */
static bool read_places(reading *r, struct json_object *from, gcoll_step *s) {
    const bool some = s->count > 0, sends = s->kind == GCOLL_STEP_SEND;
    const struct {
        const char *name;
        bool has;
        gcoll_ref *to;
    } places[] = {
        {"dst", some && !sends, &s->dst},
        {"a", some && s->kind != GCOLL_STEP_RECV && s->kind != GCOLL_STEP_DIVIDE, &s->a},
        {"b", some && gcoll_step_has_b(s), &s->b},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        *places[i].to = gcoll_out(0, 0);
        if (places[i].has && !read_place(r, from, places[i].name, places[i].to))
            return false;
        if (!places[i].has && json_object_object_get_ex(from, places[i].name, NULL))
            return field_wrong(r->fields, "'%s' is found, which '%s' of %" PRIu64 " elements has not",
                               places[i].name, gcoll_step_kind_name(s->kind), s->count);
    }
    return true;
}

/* The numbers rise, so that none comes twice. */
static bool read_after(reading *r, struct json_object *from, uint32_t number, uint32_t *count) {
    struct json_object *list;
    if (!field_object(r->fields, from, "after", json_type_array, &list))
        return false;
    *count = 0;
    if (length_of(list) > r->after_room) {
        uint32_t *more = realloc(r->after, length_of(list) * sizeof *more);
        if (!more)
            return out_of_memory(r);
        r->after = more;
        r->after_room = length_of(list);
    }
    for (size_t i = 0; i < length_of(list); i++) {
        const uint64_t least = i ? r->after[i - 1] + UINT64_C(1) : 0;
        uint64_t step;
        if (least >= number)
            return bad_entry(r, "after", i, json_object_array_get_idx(list, i),
                             "earlier steps, each once, in rising order");
        if (!read_entry(r, list, "after", i, least, number - UINT64_C(1), &step))
            return false;
        r->after[i] = (uint32_t)step;
    }
    *count = (uint32_t)length_of(list);
    return true;
}

static bool read_peer(reading *r, struct json_object *from, gcoll_step *s) {
    const bool given = json_object_object_get_ex(from, "peer", NULL);
    if (!gcoll_step_is_message(s))
        return !given ||
               field_wrong(r->fields, "'peer' is found, which '%s' has not", gcoll_step_kind_name(s->kind));
    if (!field_small(r->fields, from, "peer", false, 0, &s->peer))
        return false;
    if (s->peer >= r->problem.size || s->peer == r->problem.rank)
        return field_wrong(r->fields,
                           "'peer' is %" PRIu32 "; allowed are 0 to %" PRIu32 ", but not this rank", s->peer,
                           r->problem.size - 1);
    return true;
}

/* Runs keep a count for each round, so a small file must not have many. */
#define MOST_ROUND (INT64_C(1) << 24)

static bool read_step(reading *r, struct json_object *from, uint32_t number, gcoll_step *s, uint32_t *after) {
    static const char *const known[] = {"op", "round",    "count", "peer", "received_first", "dst", "a",
                                        "b",  "operands", "after", NULL};
    int64_t round;
    *s = (gcoll_step){0};
    if (!json_object_is_type(from, json_type_object))
        return field_wrong(r->fields, "is no object");
    if (!field_known(r->fields, from, known) || !read_kind(r, from, &s->kind) ||
        !field_whole(r->fields, from, "round", MOST_ROUND, true, r->last_round, &round) ||
        !read_count(r, from, "count", false, &s->count) ||
        !read_flag(r, from, "received_first", &s->received_first) || !read_peer(r, from, s) ||
        !read_places(r, from, s) || !read_after(r, from, number, after))
        return false;
    s->round = (uint32_t)round;
    if (s->round < r->last_round)
        return field_wrong(
            r->fields, "'round' is %" PRIu32 "; allowed are %" PRIu32 ", that of the step before, and more",
            s->round, r->last_round);
    r->last_round = s->round;
    if (s->received_first && s->kind != GCOLL_STEP_RECV_REDUCE && s->kind != GCOLL_STEP_DECODE_REDUCE)
        return field_wrong(r->fields, "'received_first' is true, which '%s' has not",
                           gcoll_step_kind_name(s->kind));
    if (s->count == 0 && s->kind != GCOLL_STEP_SEND && s->kind != GCOLL_STEP_RECV &&
        s->kind != GCOLL_STEP_COPY)
        return field_wrong(r->fields, "'count' is 0; allowed for '%s' are 1 and more",
                           gcoll_step_kind_name(s->kind));
    return s->kind != GCOLL_STEP_FOLD || read_operands(r, from, s);
}

/* ---- Plans --------------------------------------------------------------------------------------------- */

static bool read_offsets(reading *r, struct json_object *from, const char *name, uint64_t *to,
                         const uint64_t **offsets) {
    struct json_object *list;
    const uint32_t size = r->problem.size;
    *offsets = NULL;
    if (!field_object(r->fields, from, name, json_type_array, &list) || !list)
        return !json_object_object_get_ex(from, name, NULL);
    if (length_of(list) != size + (size_t)1)
        return field_wrong(r->fields, "'%s' has %zu entries; allowed are %" PRIu32 ", one more than ranks",
                           name, length_of(list), size + 1);
    for (size_t i = 0; i <= size; i++)
        if (!read_entry(r, list, name, i, 0, TOOL_PLAN_MOST_COUNT, &to[i]))
            return false;
    *offsets = to;
    return true;
}

static bool read_memory(reading *r, struct json_object *from, const char *name, uint32_t buffers,
                        uint32_t *to, const uint32_t **memory) {
    struct json_object *list;
    *memory = NULL;
    if (!field_object(r->fields, from, name, json_type_array, &list) || !list)
        return !json_object_object_get_ex(from, name, NULL);
    if (length_of(list) != buffers)
        return field_wrong(r->fields, "'%s' has %zu entries; allowed are %" PRIu32 ", one for each buffer",
                           name, length_of(list), buffers);
    for (uint32_t i = 0; i < buffers; i++) {
        uint64_t value;
        if (!read_entry(r, list, name, i, 0, GCOLL_MAX_DEVICES, &value))
            return false;
        to[i] = (uint32_t)value;
    }
    *memory = to;
    return true;
}

/* Reads the rank's part of the problem. */
static bool read_problem(reading *r, struct json_object *from, gcoll_problem *p) {
    int64_t buffers;
    bool peers;
    if (!read_count(r, from, "count", false, &p->count) ||
        !field_whole(r->fields, from, "buffers", GCOLL_MAX_BUFFERS, true, 1, &buffers) ||
        !read_flag(r, from, "in_place", &p->in_place) ||
        !read_offsets(r, from, "offsets", r->offsets, &p->offsets) ||
        !read_offsets(r, from, "recv_offsets", r->offsets + p->size + 1, &p->recv_offsets) ||
        !read_memory(r, from, "in_memory", (uint32_t)buffers, r->memory, &p->in_memory) ||
        !read_memory(r, from, "out_memory", (uint32_t)buffers, r->memory + GCOLL_MAX_BUFFERS,
                     &p->out_memory) ||
        !read_flag(r, from, "devices_read_peers", &peers) ||
        !read_flag(r, from, "direct", &p->staging.direct))
        return false;
    p->buffers = (uint32_t)buffers;
    p->staging.local = peers ? GCOLL_LOCAL_PEER : GCOLL_LOCAL_AUTO;
    return true;
}

static bool read_steps(reading *r, struct json_object *from, tool_plan_draft *draft) {
    struct json_object *steps;
    uint64_t scratch;
    if (!field_object(r->fields, from, "steps", json_type_array, &steps))
        return false;
    if (!steps)
        return field_wrong(r->fields, "'steps' is missing");
    if (!read_count(r, from, "scratch", true, &scratch) ||
        !field_small(r->fields, from, "window", true, GCOLL_WINDOW_UNBOUNDED, &draft->window))
        return false;
    tool_draft_scratch(draft, scratch);
    r->last_round = 0;
    for (size_t i = 0; i < length_of(steps); i++) {
        gcoll_step step;
        uint32_t after = 0;
        if (!read_step(r, json_object_array_get_idx(steps, i), (uint32_t)i, &step, &after))
            return field_in(r->fields, "step %zu", i);
        tool_draft_step(draft, &step, r->operands, r->after, after);
    }
    return true;
}

static bool read_plan(reading *r, struct json_object *from, uint32_t rank) {
    static const char *const known[] = {"rank",      "count",      "buffers",
                                        "in_place",  "offsets",    "recv_offsets",
                                        "in_memory", "out_memory", "devices_read_peers",
                                        "direct",    "divisor",    "scratch",
                                        "window",    "steps",      NULL};
    tool_plan_draft *draft = &r->to->drafts[rank];
    int64_t said, divisor;
    if (!json_object_is_type(from, json_type_object))
        return field_wrong(r->fields, "is no object");
    if (!field_known(r->fields, from, known) ||
        !field_whole(r->fields, from, "rank", GCOLL_MAX_RANKS, false, 0, &said) ||
        !field_range(r->fields, from, "divisor", 1, UINT32_MAX, true, 1, &divisor))
        return false;
    if (said != rank)
        return field_wrong(
            r->fields, "'rank' is %" PRId64 "; allowed is %" PRIu32 ", as plans stand in the order of ranks",
            said, rank);
    r->problem.rank = rank;
    gcoll_problem p = r->problem;
    if (!read_problem(r, from, &p))
        return false;
    r->in_place = p.in_place;
    tool_draft_begin(draft, &p);
    draft->divisor = (uint32_t)divisor;
    return read_steps(r, from, draft) && (!draft->failed || out_of_memory(r));
}

/* ---- The file ------------------------------------------------------------------------------------------ */

static bool read_head(reading *r, struct json_object *all) {
    static const char *const known[] = {
        TOOL_PLAN_VERSION_KEY, "about",   "algorithm", "collective", "ranks", "root",
        "exchanges",           "average", "segment",   "codec",      "plans", NULL};
    gcoll_problem *p = &r->problem;
    char collective[32], codec[GCOLL_CODEC_TEXT_MAX];
    int64_t version, ranks, exchanges;
    if (!json_object_is_type(all, json_type_object))
        return field_wrong(r->fields, "is no JSON object");
    if (!field_whole(r->fields, all, TOOL_PLAN_VERSION_KEY, INT64_MAX, false, 0, &version))
        return false;
    if (version != TOOL_PLAN_VERSION)
        return field_wrong(r->fields, "'" TOOL_PLAN_VERSION_KEY "' is %" PRId64 "; allowed is %d", version,
                           TOOL_PLAN_VERSION);
    if (!field_known(r->fields, all, known) ||
        !field_text(r->fields, all, "algorithm", false, r->to->name, sizeof r->to->name) ||
        !field_text(r->fields, all, "collective", false, collective, sizeof collective) ||
        !field_range(r->fields, all, "ranks", 1, GCOLL_MAX_RANKS, false, 1, &ranks) ||
        !field_small(r->fields, all, "root", true, 0, &p->root) ||
        !field_whole(r->fields, all, "exchanges", GCOLL_MAX_EXCHANGES, true, 0, &exchanges) ||
        !read_flag(r, all, "average", &p->average) || !read_count(r, all, "segment", true, &p->segment))
        return false;
    if (gcoll_collective_parse(collective, &p->collective) != GCOLL_OK)
        return field_wrong(r->fields, "%s", gcoll_last_error());
    if (!field_text(r->fields, all, "codec", true, codec, sizeof codec))
        return false;
    if (gcoll_codec_parse(codec, &p->codec) != GCOLL_OK)
        return field_wrong(r->fields, "%s", gcoll_last_error());
    p->size = (uint32_t)ranks;
    p->exchanges = (uint32_t)exchanges;
    return true;
}

static bool read_all(reading *r, struct json_object *all) {
    struct json_object *plans;
    if (!read_head(r, all) || !field_object(r->fields, all, "plans", json_type_array, &plans))
        return false;
    const uint32_t size = r->problem.size;
    if (size == 0 || length_of(plans) != size)
        return field_wrong(r->fields,
                           "'plans' has %zu entries and 'ranks' is %" PRIu32
                           "; allowed is one plan for each rank",
                           length_of(plans), size);
    r->offsets = calloc(2 * (size + (size_t)1), sizeof *r->offsets);
    r->to->drafts = calloc(size, sizeof *r->to->drafts);
    if (!r->offsets || !r->to->drafts)
        return out_of_memory(r);
    r->to->size = size;
    for (uint32_t rank = 0; rank < size; rank++)
        if (!read_plan(r, json_object_array_get_idx(plans, rank), rank))
            return field_in(r->fields, "rank %" PRIu32, rank);
    return true;
}

/* A schedule of MSCCL++, which is JSON, too. */
static bool read_mscclpp(tool_plan_text *from, struct json_object *all) {
    mscclpp_schedule schedule = {0};
    bool good = mscclpp_read(from, all, &schedule);
    from->to->is_open = true;
    if (good)
        good = mscclpp_plan(&from->fields, &schedule, from->elements ? *from->elements : schedule.chunks,
                            from->to);
    mscclpp_free(&schedule);
    return good;
}

bool tool_plan_read_json(tool_plan_text *from) {
    reading *r = calloc(1, sizeof *r);
    struct json_object *all = NULL;
    if (!r)
        return field_wrong(&from->fields, "out of memory");
    r->fields = &from->fields;
    r->to = from->to;
    all = field_parse(&from->fields, from->text, from->bytes);
    const bool is_mscclpp = all && mscclpp_is(all);
    bool good = all && (is_mscclpp ? read_mscclpp(from, all) : read_all(r, all));
    if (good && from->elements && !is_mscclpp)
        good = field_wrong(&from->fields,
                           "has elements of its own, but a number of them is given; allowed is one of both");
    json_object_put(all);
    free(r->after);
    free(r->offsets);
    free(r);
    return good;
}
