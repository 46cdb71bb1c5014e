#!/usr/bin/env python3
"""Breaks the rules of the agreement one at a time, and expects the model checker and the random schedules to notice.

Usage: agree_mutants.py SOURCE-FOLDER COMPILER AGREE-TEST-OBJECTS...
Each mutant is gcoll/council/agree.c with one text replaced by another; test/kit/mutants.py runs
them, without the long cases.
"""
import sys

from mutants import run_mutants  # test/kit, by PYTHONPATH

MUTANTS = [
    # A leader decides before all have accepted; or proposes before all have contributed.
    ("!a->voices[rank].accepted)\n            return;", "!a->voices[rank].accepted && rank + 1 < a->size)\n            return;"),
    ("!a->voices[rank].accepted)\n            return;", "false)\n            return;"),
    ("!a->voices[rank].contributed)\n            return;", "!a->voices[rank].contributed && rank > a->rank + 1)\n            return;"),
    # A new leader does not take over what was accepted: at all, of others, of its own.
    ("if (a->best_ballot != GCOLL_AGREE_NONE ?", "if (false ?"),
    ("    a->best_ballot = ballot;\n", "    if (rank == a->rank)\n        a->best_ballot = ballot;\n"),
    ("a->row.data, a->row.count, a->ballot,", "a->row.data, a->row.count, GCOLL_AGREE_NONE,"),
    ("a->ballot == GCOLL_AGREE_NONE ? NULL : &a->accord);", "NULL);"),
    ("    a->ballot = ballot;\n    if (copy", "    if (copy"),
    # The accord is passed on to nobody, or by nobody; and answers to those that come late.
    ("    send_to_all(a, PASS, &a->accord);\n", ""),
    ("        pass_on(a);\n    if (leader", "        a->settled = true;\n    if (leader"),
    ("gcoll_agree_is_gone(a, a->teller))\n", "false)\n"),
    ("        if (teller == GCOLL_AGREE_NONE)\n            pass_on(a);", "        a->settled = teller == GCOLL_AGREE_NONE;"),
    ("    else if (a->proposed) /* the sender", "    else if (false) /* the sender"),
    # A rank leaves too early, or is never let go.
    ("    a->decided = true;\n    a->teller = teller;", "    a->decided = a->settled = true;\n    a->teller = teller;"),
    ("!a->voices[rank].decided)\n            return;", "false)\n            return;"),
    ("    send_to_all(a, DONE, NULL);\n", ""),
    ("        send_to(a, from, DECIDED, NULL, NULL);", "        ;"),
    ("        if (a->teller == a->rank && !a->settled)\n            look_whether_all_decided(a);\n", ""),
    ("        a->settled = a->settled || a->decided;", "        ;"),
    # What the accord is made of.
    ("        if (!gcoll_agree_is_gone(a, rank)) {\n            bits &=", "        if (!gcoll_agree_is_gone(a, rank) || a->voices[rank].contributed) {\n            bits &="),
    ("            bits &= a->voices[rank].bits;", "            bits = a->voices[rank].bits;"),
    ("a->voices[rank].number < number ?", "a->voices[rank].number > number ?"),
    ("    memcpy(data + NUMBER + NUMBER, a->gone, set);", "    memset(data + NUMBER + NUMBER, 0, set);"),
    # Sets: not merged; not sent; no new leader after a merge; no word to a rank that is thought to be gone.
    ("    merge(a, bytes + HEAD);\n", ""),
    ("    memcpy(bytes + HEAD, a->gone, set);", "    memset(bytes + HEAD, 0, set);"),
    ("    if (grown)\n        follow(a);\n", ""),
    ("    tell(a, rank);\n    follow(a);", "    follow(a);"),
    ("            tell(a, rank);\n            grown", "            grown"),
    ("            tell(a, other);", "            ;"),
    ("        a->is_left_out = true;\n", ""),
    ("    if (gcoll_agree_is_gone(a, from))\n        return NULL;", "    if (false)\n        return NULL;"),
    # A new leader calls nobody; a rank keeps to its old leader.
    ("    send_to_all(a, CALL, NULL);\n", ""),
    ("            give(a);\n", "            ;\n"),
    # An old instance's message counts.
    ("    if (gcoll_agree_instance_of(bytes, HEAD) != a->instance)\n        return NULL;", ""),
    # Bytes that are not there.
    ("    if (count < HEAD + set)\n        return \"a message that is too short\";", ""),
    ("count - at < SHORT ||", ""),
    (" || gcoll_get_le(data + at, SHORT) > count - at - SHORT)", ")"),
    ("    return at == count;", "    return true;"),
    ("count < GIVE_HEAD || row > count - GIVE_HEAD", "false"),
    ("ballot >= a->size || !is_accord(a, accord", "!is_accord(a, accord"),
    ("    if (ballot >= a->size)\n        return", "    if (false)\n        return"),
]

if __name__ == "__main__":
    sys.exit(run_mutants("gcoll/council/agree.c", MUTANTS, {"GCOLL_AGREE_SCHEDULES": "20000"},
                         ("--gtest_fail_fast", "--gtest_filter=-*Long*")))
