#!/usr/bin/env python3
"""Breaks the rules of the agreement one at a time, and expects the model checker and the random schedules to notice.

Usage: agree_mutants.py SOURCE-FOLDER COMPILER AGREE-TEST-OBJECTS...
Each mutant is gcoll/council/agree.c with one text replaced by another; it is compiled, linked with the objects of
the test, and run without the long cases. A mutant that passes, or whose text is not found, fails this test.
"""
import os
import subprocess
import sys
import tempfile
import time

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


def main() -> int:
    root, compiler, objects = sys.argv[1], sys.argv[2], sys.argv[3:]
    path = os.path.join(root, "gcoll/council/agree.c")
    with open(path, encoding="utf-8") as file:
        source = file.read()
    survivors = 0
    limit = 300.0  # seconds, of the agreement as it is
    with tempfile.TemporaryDirectory() as folder:
        for number, (old, new) in enumerate([("", "")] + MUTANTS):
            if source.count(old) != 1 and old:
                print(f"mutant {number}: {source.count(old)} times in agree.c: {old!r}")
                survivors += 1
                continue
            name = os.path.join(folder, "agree")
            with open(name + ".c", "w", encoding="utf-8") as file:
                file.write(source.replace(old, new) if old else source)
            subprocess.run([compiler, "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-w", "-I" + root, "-c", name + ".c",
                            "-o", name + ".o"], check=True)
            subprocess.run([compiler, *objects, name + ".o", "-lgtest", "-lstdc++", "-lm", "-lpthread", "-o", name],
                           check=True)
            environment = dict(os.environ, GCOLL_AGREE_SCHEDULES="20000")
            begun = time.monotonic()
            try:
                passes = subprocess.run([name, "--gtest_brief=1", "--gtest_fail_fast", "--gtest_filter=-*Long*"],
                                        env=environment, timeout=limit, check=False,
                                        capture_output=True).returncode == 0
            except subprocess.TimeoutExpired:
                passes = False
            if not old:
                limit = max(30.0, 10 * (time.monotonic() - begun))  # a mutant may wait for ever
            if passes != (not old):
                print(f"mutant {number} {'passes' if passes else 'fails, and is no mutant'}: {old!r} -> {new!r}")
                survivors += 1
    print(f"{len(MUTANTS)} mutants, {survivors} not noticed")
    return survivors > 0


if __name__ == "__main__":
    sys.exit(main())
