/*
 * tools/trace/links.c - messages, found again on both sides: which links are slow, and how long each step
 * took beside what the cost model says.
 *
 * A message moves when both sides have posted it and the one before it on the same link has come. So a late
 * sender or receiver makes no link slow, nor does a queue. What is slow is measured against what messages of
 * about the same size take on other links.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/trace/trace.h"

#define CLASSES       65  /* of sizes: 0, and each power of two */
#define LISTED        8   /* links */
#define LINK_LEAST    4   /* messages of a link */
#define SLOW          1.5 /* times what is usual, */
#define LOST          0.1 /* and so much of the time in operations is lost by it */
#define QUARTERS      4   /* of the operations */
#define KINDS_LISTED  4   /* calls whose steps are listed, */
#define ROUNDS_LISTED 12  /* and so many steps of each */

/* ---- Messages ------------------------------------------------------------------------------------ */

static int by_key(const trace_step *a, const trace_step *b) {
    if (a->operation != b->operation)
        return a->operation < b->operation ? -1 : 1;
    if (a->peer != b->peer)
        return a->peer < b->peer ? -1 : 1;
    return a->message < b->message ? -1 : a->message > b->message;
}

static int by_key_of(const void *a, const void *b) {
    return by_key(*(const trace_step *const *)a, *(const trace_step *const *)b);
}

/* The sends of a rank, in the order of by_key. NULL: out of memory. */
static const trace_step **list_sends(const trace_rank *rank, size_t *count) {
    const trace_step **sends = calloc(rank->step_count + 1, sizeof(const trace_step *));
    *count = 0;
    for (size_t i = 0; sends && i < rank->step_count; i++)
        if (rank->steps[i].kind == TRACE_SEND)
            sends[(*count)++] = &rank->steps[i];
    if (sends)
        qsort((void *)sends, *count, sizeof(const trace_step *), by_key_of);
    return sends;
}

static const trace_step *find_send(const trace_step *const *sends, size_t count, const trace_step *receive,
                                   uint32_t to) {
    trace_step wanted = *receive;
    wanted.peer = to;
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (by_key(sends[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && by_key(sends[low], &wanted) == 0 ? sends[low] : NULL;
}

static int by_link(const void *a, const void *b) {
    const trace_message *one = a, *other = b;
    if (one->from != other->from)
        return one->from < other->from ? -1 : 1;
    if (one->to != other->to)
        return one->to < other->to ? -1 : 1;
    return one->done < other->done ? -1 : one->done > other->done;
}

/* Adds the messages that `to` has received from `from`. False: out of memory. */
static bool match_pair(const trace_step *const *sends, size_t send_count, const trace_rank *from,
                       const trace_rank *to, trace_messages *all) {
    for (size_t i = 0; i < to->step_count; i++) {
        const trace_step *receive = &to->steps[i];
        if (receive->kind != TRACE_RECEIVE || receive->peer != from->rank || receive->done == TRACE_NEVER)
            continue;
        const trace_step *send = find_send(sends, send_count, receive, to->rank);
        if (!send)
            continue;
        trace_message *more = trace_make_room(all->list, all->count, &all->room, sizeof *more);
        if (!more)
            return false;
        all->list = more;
        all->list[all->count++] = (trace_message){.operation = receive->operation,
                                                  .bytes = receive->bytes,
                                                  .from = from->rank,
                                                  .to = to->rank,
                                                  .round = receive->round,
                                                  .sent = send->begun,
                                                  .wanted = receive->begun,
                                                  .done = receive->done};
    }
    return true;
}

bool trace_match(const trace_job *job, trace_messages *all) {
    *all = (trace_messages){.count = 0};
    bool good = true, *talks = calloc(job->size, sizeof *talks);
    for (uint32_t i = 0; i < job->count && good && talks; i++) {
        size_t count;
        const trace_step **sends = list_sends(&job->ranks[i], &count);
        memset(talks, 0, job->size * sizeof *talks);
        for (size_t k = 0; sends && k < count; k++)
            talks[sends[k]->peer] = true;
        good = sends;
        for (uint32_t k = 0; k < job->count && good; k++)
            if (talks[job->ranks[k].rank])
                good = match_pair(sends, count, &job->ranks[i], &job->ranks[k], all);
        free((void *)sends);
    }
    good = good && talks;
    free(talks);
    if (!good)
        trace_messages_free(all);
    return good;
}

void trace_messages_free(trace_messages *all) {
    free(all->list);
    *all = (trace_messages){.count = 0};
}

/* Whether it is known how long a message took. If it was wanted long after it was sent, it may have been
 * there already. */
static bool is_seen(const trace_message *m) {
    return m->wanted - m->sent <= m->done - m->start;
}

/* Sorts the messages by link, and sets the time at which each began to move. Removes the messages whose
 * duration cannot be known. */
static void find_starts(trace_messages *all) {
    size_t kept = 0;
    if (all->count > 0)
        qsort(all->list, all->count, sizeof *all->list, by_link);
    for (size_t i = 0; i < all->count; i++) {
        trace_message *m = &all->list[i];
        const trace_message *before = i > 0 ? m - 1 : NULL;
        m->start = m->sent > m->wanted ? m->sent : m->wanted;
        if (before && before->from == m->from && before->to == m->to && before->done > m->start)
            m->start = before->done;
        if (m->start > m->done)
            m->start = m->done;
    }
    for (size_t i = 0; i < all->count; i++)
        if (is_seen(&all->list[i]))
            all->list[kept++] = all->list[i];
    all->count = kept;
}

/* ---- Slow links ---------------------------------------------------------------------------------- */

typedef struct link {
    uint32_t from, to;
    uint64_t messages, bytes;
    double took, usual; /* ns, of all its messages; what they take elsewhere */
    double quarter_took[QUARTERS], quarter_usual[QUARTERS];
} link;

static size_t class_of(uint64_t bytes) {
    return bytes == 0 ? 0 : 64 - (size_t)__builtin_clzll(bytes);
}

static int by_value(const void *a, const void *b) {
    const double one = *(const double *)a, other = *(const double *)b;
    return one < other ? -1 : one > other;
}

static bool is_next(const trace_messages *all, size_t i) {
    return i == 0 || all->list[i].from != all->list[i - 1].from || all->list[i].to != all->list[i - 1].to;
}

/* Of each class of sizes, the median over the links of what a message takes on average; 0: two links do not
 * have any. Averages, as a message that was there before it was wanted shows no time of its own. False: out
 * of memory. */
static bool find_usual(const trace_messages *all, double usual[CLASSES]) {
    double *means = calloc(all->count + 1, sizeof *means);
    bool has[CLASSES] = {false};
    for (size_t i = 0; i < all->count; i++)
        has[class_of(all->list[i].bytes)] = true;
    for (size_t class = 0; means && class < CLASSES; class ++) {
        size_t links = 0, messages = 0;
        double took = 0;
        usual[class] = 0;
        for (size_t i = 0; has[class] && i <= all->count; i++) {
            if (messages > 0 && (i == all->count || is_next(all, i))) {
                means[links++] = took / (double)messages;
                took = 0;
                messages = 0;
            }
            if (i == all->count || class_of(all->list[i].bytes) != class)
                continue;
            took += (double)(all->list[i].done - all->list[i].start);
            messages++;
        }
        qsort(means, links, sizeof *means, by_value);
        usual[class] = links > 1 ? means[(links - 1) / 2] : 0;
    }
    free(means);
    return means;
}

static int by_loss(const void *a, const void *b) {
    const link *one = a, *other = b;
    const double x = one->took - one->usual, y = other->took - other->usual;
    return x > y ? -1 : x < y;
}

static link *list_links(const trace_messages *all, const double usual[CLASSES], uint64_t first, uint64_t last,
                        size_t *count) {
    link *links = calloc(all->count + 1, sizeof *links);
    *count = 0;
    for (size_t i = 0; links && i < all->count; i++) {
        const trace_message *m = &all->list[i];
        const double usually = usual[class_of(m->bytes)], took = (double)(m->done - m->start);
        if (is_next(all, i))
            links[(*count)++] = (link){.from = m->from, .to = m->to};
        link *l = &links[*count - 1];
        const uint64_t quarter = (m->operation - first) * QUARTERS / (last - first + 1);
        if (usually <= 0)
            continue;
        l->messages++;
        l->bytes += m->bytes;
        l->took += took;
        l->usual += usually;
        l->quarter_took[quarter] += took;
        l->quarter_usual[quarter] += usually;
    }
    return links;
}

static void say_rate(double bytes, double ns, char text[32]) {
    if (bytes <= 0 || ns <= 0)
        snprintf(text, 32, "-");
    else
        snprintf(text, 32, "%.3g MB/s", bytes / ns * 1e3);
}

/* As files may say anything. */
static int64_t whole_ns(double ns) {
    return ns < 0 ? 0 : ns < 1e18 ? (int64_t)ns : INT64_C(1000000000000000000);
}

/* The rank at one end of all of them; TRACE_NONE: there is none, or they are one pair, which has two. */
static uint32_t common_end(const link *links, size_t count) {
    uint32_t ends[2] = {links[0].from, links[0].to};
    for (size_t i = 1; i < count; i++)
        for (int k = 0; k < 2; k++)
            if (links[i].from != ends[k] && links[i].to != ends[k])
                ends[k] = TRACE_NONE;
    return ends[0] == TRACE_NONE ? ends[1] : ends[1] == TRACE_NONE ? ends[0] : TRACE_NONE;
}

static void print_links(const link *links, size_t count, FILE *file) {
    fprintf(file,
            "\nSlow links: messages that take longer than those of their size elsewhere\n\n%6s    %-6s %9s "
            "%12s %12s "
            "%8s %12s  %s\n",
            "from", "to", "messages", "rate", "elsewhere", "times", "lost", "times in each quarter");
    for (size_t i = 0; i < count; i++) {
        const link *l = &links[i];
        char rate[32], usual[32], lost[32];
        say_rate((double)l->bytes, l->took, rate);
        say_rate((double)l->bytes, l->usual, usual);
        trace_say_time(whole_ns(l->took - l->usual), lost);
        fprintf(file, "%6" PRIu32 " -> %-6" PRIu32 " %9" PRIu64 " %12s %12s %8.1f %12s ", l->from, l->to,
                l->messages, rate, usual, l->took / l->usual, lost);
        for (int q = 0; q < QUARTERS; q++)
            if (l->quarter_usual[q] > 0)
                fprintf(file, " %5.1f", l->quarter_took[q] / l->quarter_usual[q]);
            else
                fprintf(file, " %5s", "-");
        fputc('\n', file);
    }
    const uint32_t end = count > 1 ? common_end(links, count) : TRACE_NONE;
    if (end != TRACE_NONE)
        fprintf(file, "\n  Rank %" PRIu32 " is at one end of all of them\n", end);
}

/* The time that a rank was in those operations. */
static double time_in(const trace_rank *rank, uint64_t first, uint64_t last) {
    double sum = 0;
    for (size_t i = 0; i < rank->count; i++)
        if (rank->operations[i].number >= first && rank->operations[i].number <= last)
            sum += (double)(rank->operations[i].ended - rank->operations[i].begun);
    return sum;
}

static void list_slow(const trace_job *job, const trace_messages *all, FILE *file) {
    double usual[CLASSES];
    uint64_t first = UINT64_MAX, last = 0;
    size_t count = 0, slow = 0;
    for (size_t i = 0; i < all->count; i++) {
        first = all->list[i].operation < first ? all->list[i].operation : first;
        last = all->list[i].operation > last ? all->list[i].operation : last;
    }
    double whole = 0;
    for (uint32_t i = 0; i < job->count; i++) {
        const double its = time_in(&job->ranks[i], first, last);
        whole = its > whole ? its : whole;
    }
    link *links = find_usual(all, usual) ? list_links(all, usual, first, last, &count) : NULL;
    for (size_t i = 0; i < count; i++)
        if (links[i].messages >= LINK_LEAST && links[i].usual > 0 && links[i].took >= SLOW * links[i].usual &&
            links[i].took - links[i].usual >= LOST * whole)
            links[slow++] = links[i];
    if (slow > 0)
        qsort(links, slow, sizeof *links, by_loss);
    /* What is lost elsewhere, as the queue behind the slow one may be, is no news beside it. */
    while (slow > 1 && links[slow - 1].took - links[slow - 1].usual < 0.1 * (links[0].took - links[0].usual))
        slow--;
    if (slow > 0)
        print_links(links, slow < LISTED ? slow : LISTED, file);
    free(links);
}

/* ---- Steps --------------------------------------------------------------------------------------- */

typedef struct step_time {
    const trace_operation *call;
    uint32_t round;
    uint64_t bytes;
    int64_t took, predicted; /* predicted -1: unknown */
} step_time;

static int by_call(const void *a, const void *b) {
    const step_time *one = a, *other = b;
    const int order = trace_compare_calls(one->call, other->call);
    if (order != 0)
        return order;
    if (one->round != other->round)
        return one->round < other->round ? -1 : 1;
    return one->took < other->took ? -1 : one->took > other->took;
}

static int64_t predict(const trace_rank *to, const trace_rank *from, uint64_t bytes) {
    const bool is_near = to->host_alpha_ps > 0 && strcmp(to->host, from->host) == 0;
    const double alpha = (double)(is_near ? to->host_alpha_ps : to->alpha_ps) * 1e-3,
                 beta = (double)(is_near ? to->host_beta_fs : to->beta_fs) * 1e-6;
    return alpha > 0 ? whole_ns(alpha + beta * (double)bytes) : -1;
}

static void print_round(const step_time *all, size_t count, FILE *file) {
    char median[32], longest[32], predicted[32] = "-";
    const step_time *middle = &all[count / 2];
    trace_say_time(middle->took, median);
    trace_say_time(all[count - 1].took, longest);
    if (middle->predicted >= 0)
        trace_say_time(middle->predicted, predicted);
    fprintf(file, "%8" PRIu32 " %9zu %12" PRIu64 " %12s %12s %12s\n", all->round, count, middle->bytes,
            median, longest, predicted);
}

static void print_steps(const step_time *all, size_t count, FILE *file) {
    const trace_operation *call = NULL;
    uint32_t kinds = 0, rounds = 0, left_out = 0;
    for (size_t first = 0, end; first < count; first = end) {
        char text[200];
        for (end = first; end < count && all[end].round == all[first].round &&
                          trace_compare_calls(all[end].call, all[first].call) == 0;)
            end++;
        if (!call || trace_compare_calls(call, all[first].call) != 0) {
            if (left_out > 0)
                fprintf(file, "  and %" PRIu32 " more steps\n", left_out);
            if (++kinds > KINDS_LISTED)
                return;
            call = all[first].call;
            rounds = left_out = 0;
            trace_say_call(call, text, sizeof text);
            fprintf(file, "\nMessages of each step of %s\n\n%8s %9s %12s %12s %12s %12s\n", text, "step",
                    "messages", "bytes", "median", "longest", "predicted");
        }
        if (++rounds <= ROUNDS_LISTED)
            print_round(&all[first], end - first, file);
        else
            left_out++;
    }
    if (left_out > 0)
        fprintf(file, "  and %" PRIu32 " more steps\n", left_out);
}

static void list_steps(const trace_job *job, const trace_messages *all, FILE *file) {
    step_time *times = calloc(all->count + 1, sizeof *times);
    const trace_rank **ranks = calloc(job->size, sizeof(const trace_rank *));
    size_t count = 0;
    for (uint32_t i = 0; ranks && i < job->count; i++)
        ranks[job->ranks[i].rank] = &job->ranks[i];
    for (size_t i = 0; times && ranks && i < all->count; i++) {
        const trace_message *m = &all->list[i];
        const trace_operation *call = trace_find(ranks[m->to], m->operation);
        if (call)
            times[count++] = (step_time){call, m->round, m->bytes, m->done - m->start,
                                         predict(ranks[m->to], ranks[m->from], m->bytes)};
    }
    if (count > 0) {
        qsort(times, count, sizeof *times, by_call);
        print_steps(times, count, file);
    }
    free((void *)ranks);
    free(times);
}

void trace_report_links(const trace_job *job, trace_messages *all, FILE *file) {
    find_starts(all);
    if (all->count > 0)
        list_slow(job, all, file);
}

void trace_report_steps(const trace_job *job, const trace_messages *all, FILE *file) {
    if (all->count > 0)
        list_steps(job, all, file);
}
