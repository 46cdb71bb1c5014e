/* tools/top/json.c - a view as JSON, for programs (docs/watch.md). */
#include <json-c/json.h>
#include <string.h>
#include <unistd.h>

#include "tools/json.h"
#include "tools/top/top.h"

static const char *state_word(top_state state) {
    return state == TOP_ANSWERS ? "answers" : state == TOP_STOPPED ? "stopped" : "silent";
}

static void put(struct json_object *to, const char *name, struct json_object *value) {
    json_object_object_add(to, name, value);
}

static void put_text(struct json_object *to, const char *name, const char *text) {
    put(to, name, json_object_new_string(text));
}

static void put_whole(struct json_object *to, const char *name, uint64_t value) {
    put(to, name, json_object_new_uint64(value));
}

static void put_seconds(struct json_object *to, const char *name, int64_t ns) {
    put(to, name, tool_json_number((double)(ns > 0 ? ns : 0) * 1e-9));
}

static struct json_object *operation_of(const top_context *c) {
    struct json_object *to = json_object_new_object();
    char call[200];
    trace_say_call(&c->operation, call, sizeof call);
    put_whole(to, "number", c->operation.number);
    put_text(to, "call", call);
    put_text(to, "state",
             c->operation.state == TRACE_RUNS   ? "in flight"
             : c->operation.state == TRACE_DONE ? "done"
                                                : "failed");
    put_seconds(to, "since_s", c->now - c->operation.begun);
    return to;
}

static struct json_object *wait_of(const trace_rank *who) {
    struct json_object *to = json_object_new_object(), *peers = json_object_new_array();
    for (int i = 0; i < TRACE_PEERS && who->waits_peer[i] != TRACE_NONE; i++)
        json_object_array_add(peers, json_object_new_uint64(who->waits_peer[i]));
    put(to, "ranks", peers);
    put(to, "more_ranks", json_object_new_boolean(who->waits_for_more));
    put_seconds(to, "since_s", who->dumped - who->waits_since);
    put_whole(to, "step", who->waits_step);
    put_whole(to, "steps", who->waits_steps);
    return to;
}

static struct json_object *context_of(const top_view *view, const top_context *c) {
    struct json_object *to = json_object_new_object();
    put_text(to, "job", c->who.job);
    put_text(to, "group", c->who.group);
    put_whole(to, "rank", c->who.rank);
    put_whole(to, "size", c->who.size);
    put_text(to, "host", c->who.host);
    put_text(to, "transport", c->who.transport);
    put_whole(to, "process", (uint64_t)c->process);
    put_text(to, "state", state_word(c->state));
    if (c->state != TOP_ANSWERS)
        put_seconds(to, "silent_s", view->at - c->silent_since);
    put(to, "broken", json_object_new_boolean(c->is_broken));
    if (c->culprit != TRACE_NONE)
        put_whole(to, "culprit", c->culprit);
    put_whole(to, "begun", c->begun);
    put_whole(to, "done", c->done);
    put_whole(to, "failed", c->failed);
    put_whole(to, "sent_bytes", c->sent_bytes);
    put_whole(to, "received_bytes", c->received_bytes);
    put_whole(to, "retransmitted", c->retransmitted);
    put_seconds(to, "asleep_s", (int64_t)c->asleep_ns);
    if (c->has_rates) {
        put(to, "operations_per_s", tool_json_number(c->operations_per_s));
        put(to, "sent_bytes_per_s", tool_json_number(c->sent_per_s));
        put(to, "received_bytes_per_s", tool_json_number(c->received_per_s));
        put(to, "busy", tool_json_number(c->busy));
    }
    if (c->operation.number != 0)
        put(to, "operation", operation_of(c));
    if (c->who.waits)
        put(to, "waits_for", wait_of(&c->who));
    return to;
}

bool top_print_json(const top_view *view, FILE *file) {
    struct json_object *all = json_object_new_object(), *contexts = json_object_new_array(),
                       *strangers = json_object_new_array();
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    for (size_t i = 0; i < view->count; i++)
        json_object_array_add(contexts, context_of(view, &view->contexts[i]));
    for (size_t i = 0; i < view->stranger_count; i++) {
        struct json_object *one = json_object_new_object();
        put_whole(one, "process", (uint64_t)view->strangers[i].process);
        put_whole(one, "rank", view->strangers[i].rank);
        put_whole(one, "size", view->strangers[i].size);
        put_text(one, "state", state_word(view->strangers[i].state));
        put_seconds(one, "silent_s", view->at - view->strangers[i].silent_since);
        json_object_array_add(strangers, one);
    }
    put_text(all, "host", host);
    put(all, "contexts", contexts);
    put(all, "silent_processes", strangers);
    const char *text = json_object_to_json_string_ext(all, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                               JSON_C_TO_STRING_NOSLASHESCAPE);
    const bool good = text && fprintf(file, "%s\n", text) > 0;
    json_object_put(all);
    return good;
}
