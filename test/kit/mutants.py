"""Breaks a C file one rule at a time, and expects a test to notice: for tests that are to find faults in rules."""
import os
import subprocess
import sys
import tempfile
import time


def run_mutants(path: str, mutants: list[tuple[str, str]], environment: dict[str, str],
                arguments: tuple[str, ...] = ()) -> int:
    """Runs the test against each mutant of `path`, a file of the source folder. The command line is
    SOURCE-FOLDER COMPILER TEST-OBJECTS...: all objects of the test's program but that of `path`.

    Each mutant is the file with one text replaced by another. It is compiled, linked with the objects, and run with
    the arguments and the environment. A mutant that passes, or whose text is not found exactly once, is told. So is
    the file as it is, which runs first, if it fails. Gives the exit status: 1 if anything was told."""
    root, compiler, objects = sys.argv[1], sys.argv[2], sys.argv[3:]
    with open(os.path.join(root, path), encoding="utf-8") as file:
        source = file.read()
    survivors = 0
    limit = 300.0  # seconds, of the file as it is
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "mutant")
        for number, (old, new) in enumerate([("", "")] + mutants):
            if source.count(old) != 1 and old:
                print(f"mutant {number}: {source.count(old)} times in {path}: {old!r}")
                survivors += 1
                continue
            with open(name + ".c", "w", encoding="utf-8") as file:
                file.write(source.replace(old, new) if old else source)
            subprocess.run([compiler, "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-w", "-I" + root, "-c", name + ".c",
                            "-o", name + ".o"], check=True)
            subprocess.run([compiler, *objects, name + ".o", "-lgtest", "-lstdc++", "-lm", "-lpthread", "-o", name],
                           check=True)
            begun = time.monotonic()
            try:
                passes = subprocess.run([name, "--gtest_brief=1", *arguments], env=dict(os.environ, **environment),
                                        timeout=limit, check=False, capture_output=True).returncode == 0
            except subprocess.TimeoutExpired:
                passes = False
            if not old:
                limit = max(30.0, 10 * (time.monotonic() - begun))  # a mutant may wait for ever
            if passes != (not old):
                print(f"mutant {number} {'passes' if passes else 'fails, and is no mutant'}: {old!r} -> {new!r}")
                survivors += 1
    print(f"{len(mutants)} mutants, {survivors} not noticed")
    return int(survivors > 0)
