/* tools/plan_write.c - writes plans as JSON, a step a line. */
#include <stdlib.h>

#include "tools/plan_file.h"

typedef unsigned long long ull;

/* The steps that each step waits for, of all steps in one array: those of step i end at end[i]. */
typedef struct waits {
    uint32_t *from, *end;
} waits;

static void free_waits(waits *w) {
    free(w->from);
    free(w->end);
}

static bool find_waits(const gcoll_plan *plan, waits *w) {
    w->from = calloc(plan->successor_count + (size_t)1, sizeof *w->from);
    w->end = calloc(plan->step_count + (size_t)1, sizeof *w->end);
    if (!w->from || !w->end) {
        free_waits(w);
        return false;
    }
    for (uint32_t i = 1; i < plan->step_count; i++)
        w->end[i] = w->end[i - 1] + plan->steps[i - 1].dependencies;
    for (uint32_t i = 0; i < plan->step_count; i++)
        for (uint32_t k = 0; k < plan->steps[i].successors; k++)
            w->from[w->end[plan->successors[plan->steps[i].first_successor + k]]++] = i;
    return true;
}

static void write_place(FILE *to, const char *key, gcoll_ref ref) {
    fprintf(to, ", \"%s\": [\"%s\", %u, %llu]", key, tool_plan_spaces[ref.space], ref.index, (ull)ref.offset);
}

/* A list of numbers, without its brackets. */
static void write_numbers32(FILE *to, const uint32_t *numbers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        fprintf(to, "%s%u", i ? ", " : "", numbers[i]);
}

static void write_offsets(FILE *to, const char *key, const uint64_t *offsets, uint32_t size) {
    fprintf(to, ", \"%s\": [", key);
    for (uint32_t i = 0; i <= size; i++)
        fprintf(to, "%s%llu", i ? ", " : "", (ull)offsets[i]);
    fputc(']', to);
}

static void write_step(FILE *to, const gcoll_plan *plan, const gcoll_step *s) {
    fprintf(to, "{\"op\": \"%s\", \"round\": %u, \"count\": %llu", gcoll_step_kind_name(s->kind), s->round,
            (ull)s->count);
    if (gcoll_step_is_message(s))
        fprintf(to, ", \"peer\": %u", s->peer);
    if (s->received_first)
        fputs(", \"received_first\": true", to);
    if (s->count == 0)
        return;
    if (s->kind != GCOLL_STEP_SEND)
        write_place(to, "dst", s->dst);
    if (s->kind != GCOLL_STEP_RECV && s->kind != GCOLL_STEP_DIVIDE)
        write_place(to, "a", s->a);
    if (gcoll_step_has_b(s))
        write_place(to, "b", s->b);
    if (s->kind != GCOLL_STEP_FOLD)
        return;
    fputs(", \"operands\": [", to);
    for (uint32_t i = 0; i < s->operand_count; i++)
        fprintf(to, "%s%u", i ? ", " : "", plan->operands[s->first_operand + i]);
    fputc(']', to);
}

static void write_memory(FILE *to, const gcoll_problem *p) {
    const struct {
        const char *key;
        const uint32_t *list;
    } lists[] = {{"in_memory", p->in_memory}, {"out_memory", p->out_memory}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (lists[i].list) {
            fprintf(to, ", \"%s\": [", lists[i].key);
            write_numbers32(to, lists[i].list, p->buffers);
            fputc(']', to);
        }
    if (p->staging.local == GCOLL_LOCAL_PEER)
        fputs(", \"devices_read_peers\": true", to);
    if (p->staging.direct)
        fputs(", \"direct\": true", to);
}

static void write_header(FILE *to, const gcoll_plan *plan) {
    const gcoll_problem *p = &plan->problem;
    fprintf(to, "{\"rank\": %u, \"count\": %llu", p->rank, (ull)p->count);
    if (p->buffers > 1)
        fprintf(to, ", \"buffers\": %u", p->buffers);
    if (p->in_place)
        fputs(", \"in_place\": true", to);
    if (p->offsets)
        write_offsets(to, "offsets", p->offsets, p->size);
    if (p->recv_offsets)
        write_offsets(to, "recv_offsets", p->recv_offsets, p->size);
    write_memory(to, p);
    if (plan->divisor != 1)
        fprintf(to, ", \"divisor\": %u", plan->divisor);
    if (plan->scratch > 0)
        fprintf(to, ", \"scratch\": %llu", (ull)plan->scratch);
    if (plan->window != GCOLL_WINDOW_UNBOUNDED)
        fprintf(to, ", \"window\": %u", plan->window);
}

static bool write_plan(FILE *to, const gcoll_plan *plan) {
    waits w;
    if (!find_waits(plan, &w))
        return false;
    write_header(to, plan);
    fputs(", \"steps\": [", to);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const gcoll_step *s = &plan->steps[i];
        fputs(i ? ",\n  " : "\n  ", to);
        write_step(to, plan, s);
        if (s->dependencies > 0) {
            fputs(", \"after\": [", to);
            write_numbers32(to, w.from + w.end[i] - s->dependencies, s->dependencies);
            fputc(']', to);
        }
        fputc('}', to);
    }
    fputs("]}", to);
    free_waits(&w);
    return true;
}

bool tool_plan_file_write(FILE *to, const char *name, const gcoll_plan *const *plans, uint32_t size) {
    const gcoll_problem *p = &plans[0]->problem;
    struct json_object *quoted = json_object_new_string(name);
    bool good = quoted;
    fprintf(to,
            "{\"" TOOL_PLAN_VERSION_KEY "\": %d, \"algorithm\": %s, \"collective\": \"%s\", \"ranks\": %u",
            TOOL_PLAN_VERSION, json_object_to_json_string_ext(quoted, JSON_C_TO_STRING_PLAIN),
            gcoll_collective_name(p->collective), size);
    if (gcoll_collective_has_root(p->collective))
        fprintf(to, ", \"root\": %u", p->root);
    if (p->exchanges > 0)
        fprintf(to, ", \"exchanges\": %u", p->exchanges);
    if (p->average)
        fputs(", \"average\": true", to);
    if (gcoll_codec_is_set(&p->codec)) {
        char codec[GCOLL_CODEC_TEXT_MAX];
        gcoll_codec_format(&p->codec, codec);
        fprintf(to, ", \"codec\": \"%s\"", codec);
    }
    if (p->segment > 0)
        fprintf(to, ", \"segment\": %llu", (ull)p->segment);
    fputs(", \"plans\": [", to);
    for (uint32_t r = 0; r < size && good; r++) {
        fputs(r ? ",\n " : "\n ", to);
        good = write_plan(to, plans[r]);
    }
    fputs("]}\n", to);
    json_object_put(quoted);
    return good;
}
