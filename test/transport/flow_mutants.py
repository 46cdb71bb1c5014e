#!/usr/bin/env python3
"""Breaks the rules of flow control one at a time, and expects the random schedules of flow_test to notice.

Usage: flow_mutants.py SOURCE-FOLDER COMPILER FLOW-TEST-OBJECTS...
Each mutant is transport/flow/flow.c with one text replaced by another; it is compiled, linked with the objects
of the test, and run. A mutant that passes, or whose text is not found, fails this test.
"""
import os
import subprocess
import sys
import tempfile
import time

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
    ("    slot->flags = GCOLL_FLOW_PROMISED;\n    flow->promised++;", "    slot->flags = GCOLL_FLOW_PROMISED;"),
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
]


def main() -> int:
    root, compiler, objects = sys.argv[1], sys.argv[2], sys.argv[3:]
    path = os.path.join(root, "transport/flow/flow.c")
    with open(path, encoding="utf-8") as file:
        source = file.read()
    survivors = 0
    limit = 200  # seconds, of flow control as it is
    with tempfile.TemporaryDirectory() as folder:
        for number, (old, new) in enumerate([("", "")] + MUTANTS):
            if source.count(old) != 1 and old:
                print(f"mutant {number}: {source.count(old)} times in flow.c: {old!r}")
                survivors += 1
                continue
            name = os.path.join(folder, "flow")
            with open(name + ".c", "w", encoding="utf-8") as file:
                file.write(source.replace(old, new) if old else source)
            subprocess.run([compiler, "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-w", "-I" + root, "-c", name + ".c",
                            "-o", name + ".o"], check=True)
            subprocess.run([compiler, *objects, name + ".o", "-lgtest", "-lstdc++", "-lm", "-lpthread", "-o", name],
                           check=True)
            environment = dict(os.environ, GCOLL_FLOW_SCHEDULES="10000")
            begun = time.monotonic()
            try:
                passes = subprocess.run([name, "--gtest_brief=1"], env=environment, timeout=limit, check=False,
                                        capture_output=True).returncode == 0
            except subprocess.TimeoutExpired:
                passes = False
            if not old:
                limit = max(30, 10 * (time.monotonic() - begun))  # a mutant may wait for ever
            if passes != (not old):
                print(f"mutant {number} {'passes' if passes else 'fails, and is no mutant'}: {old!r} -> {new!r}")
                survivors += 1
    print(f"{len(MUTANTS)} mutants, {survivors} not noticed")
    return survivors > 0


if __name__ == "__main__":
    sys.exit(main())
