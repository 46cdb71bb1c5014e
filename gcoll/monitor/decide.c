/*
 * gcoll/monitor/decide.c - rank 0's decision: when each rank is expected to arrive, and which plan pays for
 * that.
 *
 * A rank is expected at the median of its latest arrivals, or when it reported that it would arrive. If the
 * last rank is later than the first by more than a threshold, arrival-aware algorithms are compared with the
 * ordinary choice (predict.c), and again when what was learned changes. Arrivals are rounded, and
 * small differences from the plan in force are ignored, so that plans are reused.
 */
#include <stdlib.h>
#include <string.h>

#include "gcoll/monitor/monitor_internal.h"
#include "gcoll/tuning/tuning.h"

/* An imbalance must exceed all three limits. In segments: the ring itself hides one. */
#define SEGMENTS 2
/* As a part of the operation: ranks leave the previous meeting at times that differ by such a part. */
#define OPERATION_PART 16
/* In time: a busy machine delays any call by as much. */
#define LEAST_NS INT64_C(50000)
/* Reports and announcements may take 1/COST_PART of the time between calls. */
#define COST_PART 1000
/* The interval in calls while the time from call to call is unknown. The interval may always grow to
 * this. */
#define USUAL_INTERVAL 8
/* While nothing changes, the interval may also grow to this time. A message between two short calls costs
 * more than itself: ranks that share processors fall out of step, and recover in some 0.6 ms. */
#define STEADY_NS 100e6
/* A rank that reported an edge is expected to do so again within this many calls. */
#define EDGE_CALLS 4
/* Delays beyond this many segments for each rank are not distinguished. */
#define FARTHEST 8

/* ---- Reports -------------------------------------------------------------------------------- */

void gcoll_arrival_note_sample(gcoll_site *site, uint32_t rank, const gcoll_arrival_sample *sample) {
    gcoll_arrival_view *view = &site->views[rank];
    if (sample->call + GCOLL_ARRIVAL_SAMPLES <= view->newest)
        return;
    view->samples[sample->call % GCOLL_ARRIVAL_SAMPLES] = *sample;
    if (sample->call > view->newest)
        view->newest = sample->call;
}

static bool reports_edges(const gcoll_site *site, const gcoll_arrival_view *view) {
    return view->expected_call > 0 && view->expected_call + EDGE_CALLS > site->next;
}

/* Whether to decide now: all reports for the next call have arrived, or a rank waits. */
static bool is_ripe(const gcoll_arrival *arrival, const gcoll_site *site) {
    if (site->now.interval != 1 || site->has_pending || site->calls + 1 != site->next)
        return false;
    if (site->asked_call >= site->next)
        return true;
    if (site->edge_call < site->next)
        return false;
    for (uint32_t rank = 0; rank < arrival->context->size; rank++)
        if (reports_edges(site, &site->views[rank]) && site->views[rank].expected_call < site->next)
            return false;
    return true;
}

void gcoll_arrival_ripen(gcoll_arrival *arrival, gcoll_site *site) {
    site->is_ripe = is_ripe(arrival, site);
    if (site->is_ripe)
        gcoll_arrival_call(arrival->context);
}

void gcoll_arrival_note_expected(gcoll_arrival *arrival, gcoll_site *site, uint32_t rank,
                                 gcoll_arrival_report kind, uint64_t call, int64_t expected_ns) {
    gcoll_arrival_view *view = &site->views[rank];
    if (call < view->expected_call)
        return;
    if (kind == GCOLL_ARRIVAL_EDGE) {
        view->expected_call = call;
        site->edge_call = call > site->edge_call ? call : site->edge_call;
    } else {
        site->asked_call = call > site->asked_call ? call : site->asked_call;
        view->expected_call = call;
    }
    view->expected_ns = expected_ns;
    gcoll_arrival_ripen(arrival, site);
}

/* ---- Comparing calls ------------------------------------------------------------------------ */

static const gcoll_arrival_sample *sample_of(const gcoll_site *site, uint32_t rank, uint64_t call) {
    const gcoll_arrival_sample *sample = &site->views[rank].samples[call % GCOLL_ARRIVAL_SAMPLES];
    return sample->call == call && sample->since_ns >= 0 ? sample : NULL;
}

/* Compares the arrivals of one call, if all ranks reported it. */
static void compare_call(const gcoll_arrival *arrival, gcoll_site *site, uint64_t call) {
    const uint32_t size = arrival->context->size;
    int64_t first = INT64_MAX, last = -1, shortest = INT64_MAX;
    for (uint32_t rank = 0; rank < size; rank++) {
        const gcoll_arrival_sample *sample = sample_of(site, rank, call);
        if (!sample)
            return;
        first = sample->since_ns < first ? sample->since_ns : first;
        last = sample->since_ns > last ? sample->since_ns : last;
        shortest = sample->elapsed_ns < shortest ? sample->elapsed_ns : shortest;
    }
    site->operation_ns =
        site->operation_ns > 0 ? site->operation_ns + (shortest - site->operation_ns) / 4 : shortest;
    for (uint32_t rank = 0; rank < size; rank++) {
        gcoll_arrival_view *view = &site->views[rank];
        const int64_t since = sample_of(site, rank, call)->since_ns, late = since - first;
        view->compared++;
        view->late += late > site->threshold_ns;
        view->last += late > site->threshold_ns && since == last;
        view->late_sum_ns += (double)late;
        view->late_most_ns = late > view->late_most_ns ? late : view->late_most_ns;
    }
}

static void compare(const gcoll_arrival *arrival, gcoll_site *site) {
    uint64_t newest = UINT64_MAX;
    for (uint32_t rank = 0; rank < arrival->context->size; rank++)
        newest = site->views[rank].newest < newest ? site->views[rank].newest : newest;
    uint64_t call = site->compared + 1;
    if (newest >= GCOLL_ARRIVAL_SAMPLES && call <= newest - GCOLL_ARRIVAL_SAMPLES)
        call = newest - GCOLL_ARRIVAL_SAMPLES + 1;
    for (; call <= newest; call++)
        compare_call(arrival, site, call);
    site->compared = newest > site->compared ? newest : site->compared;
}

/* ---- Expected arrivals ---------------------------------------------------------------------- */

static int by_time(const void *left, const void *right) {
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* The median of the latest arrivals; -1 if none is known. */
static int64_t usual_time(const gcoll_arrival_view *view) {
    int64_t times[GCOLL_ARRIVAL_SAMPLES];
    size_t count = 0;
    for (uint32_t i = 0; i < GCOLL_ARRIVAL_SAMPLES; i++)
        if (view->samples[i].call > 0 && view->samples[i].call + GCOLL_ARRIVAL_SAMPLES > view->newest &&
            view->samples[i].since_ns >= 0)
            times[count++] = view->samples[i].since_ns;
    if (count == 0)
        return -1;
    qsort(times, count, sizeof times[0], by_time);
    return times[count / 2];
}

static int64_t expected_time(const gcoll_arrival *arrival, const gcoll_site *site, uint32_t rank) {
    const gcoll_arrival_view *view = &site->views[rank];
    if (view->expected_call == site->next)
        return view->expected_ns;
    const int64_t usual = usual_time(view);
    if (site->now.interval != 1 || !reports_edges(site, view) || !arrival->met)
        return usual;
    const int64_t passed = gcoll_now_ns() - arrival->met_ns; /* the rank has not reached its edge yet */
    return usual > passed ? usual : passed;
}

/* Fills in when each rank is expected, in nanoseconds after the first. False if nothing is known of some
 * rank. */
static bool expect(const gcoll_arrival *arrival, const gcoll_site *site, int64_t *late, int64_t *imbalance) {
    const uint32_t size = arrival->context->size;
    int64_t first = INT64_MAX;
    bool known = true;
    *imbalance = 0;
    for (uint32_t rank = 0; rank < size; rank++) {
        late[rank] = expected_time(arrival, site, rank);
        known = known && late[rank] >= 0;
        first = late[rank] < first ? late[rank] : first;
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        late[rank] = known ? late[rank] - first : 0;
        *imbalance = late[rank] > *imbalance ? late[rank] : *imbalance;
    }
    return known;
}

/* ---- The decision --------------------------------------------------------------------------- */

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* The time to move and reduce one P-th of the vector, by the cost parameters of auto. */
static int64_t segment_time(const gcoll_context *context, const gcoll_site *site) {
    gcoll_cost_parameters cost;
    gcoll_sharing sharing;
    gcoll_basis_numbers(context->basis, false, &cost, &sharing);
    const double bytes = (double)site->key.count * site->key.element_bytes;
    const double ns = 1e9 * (cost.alpha + (cost.beta + cost.gamma) * bytes / context->size);
    return ns < 1 ? 1 : ns < 1e15 ? (int64_t)ns : INT64_C(1000000000000000);
}

/* The mean time from call to call on rank 0, over the latest calls; 0: not known. */
static double round_ns(const gcoll_site *site) {
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < GCOLL_ARRIVAL_SAMPLES; i++) {
        const gcoll_arrival_sample *sample = &site->views[0].samples[i];
        if (sample->call == 0)
            continue;
        sum += (double)sample->elapsed_ns + (sample->since_ns > 0 ? (double)sample->since_ns : 0);
        count++;
    }
    return count > 0 ? sum / count : 0;
}

/* The least interval in calls at which one report and one announcement for each rank stay cheap. */
static uint32_t least_interval(const gcoll_context *context, const gcoll_site *site) {
    gcoll_cost_parameters cost;
    gcoll_sharing sharing;
    gcoll_basis_numbers(context->basis, false, &cost, &sharing);
    const double message = sharing.message > 0 ? sharing.message : cost.alpha;
    const double cost_ns = 1e9 * message * 2 * (context->size - 1.0) * COST_PART, round = round_ns(site);
    const double calls = round > 0 ? cost_ns / round : USUAL_INTERVAL;
    return calls < GCOLL_ARRIVAL_FEWEST ? GCOLL_ARRIVAL_FEWEST
           : calls < GCOLL_ARRIVAL_MOST ? (uint32_t)calls
                                        : GCOLL_ARRIVAL_MOST;
}

static uint32_t interval_of(const gcoll_context *context, const gcoll_site *site, bool is_changed) {
    if (context->guard.driver && site->edge_call > 0 && site->edge_call + EDGE_CALLS > site->next)
        return 1;
    const uint32_t least = least_interval(context, site);
    if (is_changed || site->now.interval < GCOLL_ARRIVAL_FEWEST)
        return least;
    const double round = round_ns(site), calls = round > 0 ? STEADY_NS / round : USUAL_INTERVAL;
    const uint32_t steady = calls < GCOLL_ARRIVAL_MOST ? (uint32_t)calls : GCOLL_ARRIVAL_MOST;
    const uint32_t usual = least > USUAL_INTERVAL ? least : USUAL_INTERVAL;
    const uint32_t most = steady > usual ? steady : usual, doubled = 2 * site->now.interval;
    return doubled < most ? doubled : most;
}

/* Rounds arrivals to multiples of a unit, as they are announced. */
static void quantise(gcoll_arrival_decision *decision, uint32_t size) {
    const int64_t farthest = decision->unit_ns * 2 * FARTHEST * size;
    for (uint32_t rank = 0; rank < size; rank++) {
        const int64_t late = decision->arrival_ns[rank] < farthest ? decision->arrival_ns[rank] : farthest;
        decision->arrival_ns[rank] = (late + decision->unit_ns / 2) / decision->unit_ns * decision->unit_ns;
    }
}

/* Whether the arrivals are close to those of an earlier decision. */
static bool is_near(const gcoll_arrival_decision *now, const gcoll_arrival_decision *next, uint32_t size) {
    const int64_t farthest = now->unit_ns * 2 * FARTHEST * size;
    for (uint32_t rank = 0; rank < size; rank++) {
        const int64_t was = now->arrival_ns[rank];
        const int64_t late = next->arrival_ns[rank] < farthest ? next->arrival_ns[rank] : farthest;
        if (llabs(late - was) > larger(2 * now->unit_ns, was / 4))
            return false;
    }
    return true;
}

static void copy_decision(gcoll_arrival_decision *to, const gcoll_arrival_decision *from, uint32_t size) {
    int64_t *const arrivals = to->arrival_ns;
    *to = *from;
    to->arrival_ns = arrivals;
    memcpy(arrivals, from->arrival_ns, size * sizeof *arrivals);
}

static gcoll_status choose(gcoll_arrival *arrival, gcoll_site *site, bool is_heeded) {
    const uint32_t size = arrival->context->size;
    gcoll_arrival_decision *decision = &site->pending;
    decision->algorithm = NULL;
    decision->id = decision->hash = 0;
    const char *ordinary = gcoll_call_learned(arrival->context, &site->key);
    if (ordinary != site->ordinary)
        site->is_tried = false;
    site->ordinary = ordinary;
    if (is_heeded && site->is_tried && is_near(&site->tried, decision, size)) {
        copy_decision(decision, &site->tried, size);
        return GCOLL_OK;
    }
    quantise(decision, size);
    if (!is_heeded)
        return GCOLL_OK;
    gcoll_status status = gcoll_arrival_predict(arrival, site, decision);
    if (status != GCOLL_OK)
        return status;
    if (!site->tried.arrival_ns)
        site->tried.arrival_ns = calloc(size, sizeof *site->tried.arrival_ns);
    if (!site->tried.arrival_ns)
        return gcoll_error(GCOLL_ERR_NO_MEMORY, "no memory for arrivals of %u ranks", size);
    copy_decision(&site->tried, decision, size);
    site->is_tried = true;
    return GCOLL_OK;
}

gcoll_status gcoll_arrival_decide(gcoll_arrival *arrival, gcoll_site *site) {
    gcoll_context *context = arrival->context;
    gcoll_arrival_decision *decision = &site->pending;
    int64_t imbalance;
    site->is_ripe = false;
    decision->segment_ns = segment_time(context, site);
    decision->unit_ns = larger(decision->segment_ns / 2, 1000);
    site->threshold_ns =
        larger(larger(SEGMENTS * decision->segment_ns, site->operation_ns / OPERATION_PART), LEAST_NS);
    compare(arrival, site);
    const bool known = expect(arrival, site, decision->arrival_ns, &imbalance);
    /* Hysteresis: an arrival-aware plan stays in use until the imbalance is clearly smaller. */
    const int64_t threshold = site->now.id > 0 ? site->threshold_ns / 4 * 3 : site->threshold_ns;
    const bool is_heeded = known && imbalance > threshold && context->size >= GCOLL_ARRIVAL_LEAST_RANKS &&
                           context->size <= GCOLL_ARRIVAL_MOST_RANKS && site->key.blocks_hash == 0 &&
                           gcoll_arrival_has_plans((gcoll_collective)site->key.collective);
    site->is_predicted = is_heeded;
    gcoll_status status = choose(arrival, site, is_heeded);
    if (status != GCOLL_OK) { /* no memory or no plan: use the ordinary choice */
        decision->algorithm = NULL;
        decision->id = decision->hash = 0;
    }
    decision->imbalance_ns = known ? imbalance : 0;
    const bool is_changed = decision->id != site->now.id;
    decision->interval = interval_of(context, site, is_changed || !known);
    return gcoll_arrival_announce(arrival, site);
}
