#!/usr/bin/env python3
"""Breaks the rules of flow control one at a time, and expects the random schedules of flow_test to notice.

Usage: flow_mutants.py SOURCE-FOLDER COMPILER FLOW-TEST-OBJECTS...
Each mutant is transport/flow/flow.c with one text replaced by another; test/kit/mutants.py runs them.
"""
import sys

from mutants import run_mutants  # test/kit, by PYTHONPATH

MUTANTS = [
    ("flow->used > flow->pool_bytes / 2", "flow->used > flow->pool_bytes"),
    ("cost(message->bytes) <= flow->credit", "true"),
    ("flow->credit -= cost(message->bytes);", ""),
    ("message->flags |= GCOLL_FLOW_ON_CREDIT;", ""),
    ("        message->flags |= GCOLL_FLOW_FOLLOWS;", "        ;"),
    ("    if (slot->flags & GCOLL_FLOW_LISTED)\n", "    if (0)\n"),
    ("message->flags |= GCOLL_FLOW_OPENED | GCOLL_FLOW_AHEAD;", "message->flags |= GCOLL_FLOW_OPENED;"),
    ("    open_ahead(flow, slot->message);\n", ""),
    ("    if (flow->asked < flow->promises_max) {", "    if (true) {"),
    ("if (flow->untold.oldest && flow->asked < flow->promises_max)", "if (false)"),
    ("    flow->asked--;\n", ""),
    ("return message->open || message->announced;", "return false;"),
    ("if (!flow->waiting.oldest && has_credit(flow, message))", "if (has_credit(flow, message))"),
    ("    gcoll_match_remove(&flow->outgoing, slot);\n    flow->promised--;\n    if (has_pieces",
     "    gcoll_match_remove(&flow->outgoing, slot);\n    if (has_pieces"),
    ("            gcoll_slot_unlink(&flow->waiting, slot);\n            slot->flags &= ~(uint32_t)GCOLL_FLOW_LISTED;\n"
     "            gcoll_flow_offer(flow, slot);", "            ;"),
    ("    flow->credit += credit;\n    send_waiting(flow);", "    flow->credit += credit;"),
    ("        send_waiting(flow); /* it may have been the oldest", "        /* it may have been the oldest"),
    ("(is_plain ? GCOLL_FLOW_PLAIN : 0U);\n    flow->promised++;", "(is_plain ? GCOLL_FLOW_PLAIN : 0U);"),
    ("(is_plain ? GCOLL_FLOW_PLAIN : 0U);", "0;"),
    ("message->flags |= is_plain ? GCOLL_FLOW_GRANTED_PLAIN : 0U;", ""),
    ("message->flags |= slot->flags & GCOLL_FLOW_PLAIN ? GCOLL_FLOW_GRANTED_PLAIN : 0U;", ""),
    ("!slot->message->consume};", "true};"),
    ("slot->message->bytes > flow->eager_bytes ||", ""),
    ("(slot->flags & GCOLL_FLOW_OFFERED) ||\n", "false ||\n"),
    ("           is_crowded(flow) || (slot", "           (slot"),
    (" || (slot->message->any_size && is_mute(flow))", ""),
    ("    slot->flags |= GCOLL_FLOW_GRANTED;\n", ""),
    ("        flow->is_starved = true;\n", ""),
    ("flow->owed += cost(slot->total);", "flow->owed += slot->total;"),
    ("        if (gcoll_flow_owes(flow))\n            flow->lane->owe(flow);", "        ;"),
    ("message->opened = (slot->flags & GCOLL_FLOW_HAS_OPEN) != 0;", "message->opened = false;"),
    ("    flow->held -= slot->total;\n    if (slot->received", "    if (slot->received"),
    ("    if (slot->received == slot->total)\n        gcoll_flow_finish", "    if (true)\n        gcoll_flow_finish"),
    ("(GCOLL_FLOW_STARTED | GCOLL_FLOW_GRANTED | GCOLL_FLOW_OFFERED)", "(GCOLL_FLOW_STARTED | GCOLL_FLOW_OFFERED)"),
    ("    else if (slot->flags & GCOLL_FLOW_UNGRANTED)\n        grant(flow, slot);", ""),
    ("    if (flow->offered == flow->promises_max) /*", "    if (false) /*"),
    ("    flow->offered++;\n", ""),
    ("        flow->offered--;\n", "        ;\n"),
    ("    flow->opened_ahead--;\n", ""),
    ("    if (changes)\n        take_size(flow, slot, arrival->total);", ""),
    ("            flow->lane->control(flow, &revoke);", "            ;"),
    ("        flow->granted--;\n        if", "        if"),
    ("    if (on_credit)\n        flow->used += cost(slot->total);", ""),
    ("(is_crowded(flow) && !was_crowded) ||", "false ||"),
    ("(flow->is_starved && flow->granted <= flow->promises_max / 2)", "false"),
    ("    if (!slot->message)\n        flow->held += slot->total;\n", ""),
    ("arrival->open || arrival->is_ahead ?", "arrival->open ?"),
    ("    notice(flow, slot);\n    return slot;", "    return slot;"),
    ("if (flow->waiting.oldest || !has_credit(flow, message)) /*", "if (!has_credit(flow, message)) /*"),
    ("if (flow->waiting.oldest || !has_credit(flow, message)) /*", "if (flow->waiting.oldest) /*"),
    ("    take_credit(flow, message);\n    return true;", "    return true;"),
    ("    flow->used += cost(arrival->total);\n    if", "    if"),
    ("    if (is_crowded(flow) && !was_crowded)\n", "    if (false)\n"),
    ("    flow->owed += cost(arrival->total);\n", ""),
    ("    if (gcoll_flow_owes(flow))\n        flow->lane->owe(flow);\n    message", "    message"),
    ("message->opened = arrival->open != NULL;", "message->opened = false;"),
    ("arrival->index != message->index ||", "false ||"),
    (" ||\n        gcoll_match_find(&flow->incoming, message->stream, message->index))\n        return false;\n    flow->used",
     ")\n        return false;\n    flow->used"),
]

if __name__ == "__main__":
    sys.exit(run_mutants("transport/flow/flow.c", MUTANTS, {"GCOLL_FLOW_SCHEDULES": "10000"}))
