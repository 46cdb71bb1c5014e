"""The line that shows how far a program is: on a terminal only, with percent and the time that is left, erased at the end.

Usage: progress_test.py [Plan] [Bench]. The environment names programs, GCOLL_PLAN and GCOLL_BENCH, and GCOLL_TREE, the source tree.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
import unittest

PLAN = os.environ["GCOLL_PLAN"]
BENCH = os.environ.get("GCOLL_BENCH") # only for Bench
LINE = re.compile(r"^(\w+): (\d+) %(?:, (?:(\d+) h )?(?:(\d+) min ?)?(?:(\d+) s)? left)?(?:: (.*))?$")

# Searches rings: exactly as many steps as tries, so a run can be made as long as is wanted.
SEARCH = ["arrival", "--collective", "allreduce", "--algorithm", "ring", "--ranks", "12", "--bytes", "1Mi", "--arrival",
          "one-late:1ms"]


class Terminal:
    """A terminal that keeps the lines it shows."""

    def __init__(self, columns):
        self.columns, self.lines, self.at, self.wrapped = columns, [""], 0, False

    def take(self, text):
        for letter in text:
            if letter == "\n":
                self.lines.append("")
                self.at = 0
            elif letter == "\r":
                self.at = 0
            else:
                assert letter >= " ", "the code %r" % letter
                self.wrapped = self.wrapped or self.at >= self.columns
                line = self.lines[-1].ljust(self.at)
                self.lines[-1] = line[:self.at] + letter + line[self.at + 1:]
                self.at += 1


def send(process, number):
    """Sends a signal to a process and those that it started."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError: # they have ended
        pass


def slow_down(process, ended):
    """Lets a process and those that it started run a tenth of the time, as on a slow machine. Its lines come when a clock says so; what
    it computes until then does not matter."""
    while not ended.is_set():
        send(process, signal.SIGSTOP)
        ended.wait(0.045)
        send(process, signal.SIGCONT)
        ended.wait(0.005)


def watch(command, columns=80, term="xterm", out_too=False, limit=100, is_slow=True):
    """Runs a command whose standard error is a terminal, and standard output, too, or else a pipe; slowly, unless said otherwise.
    Returns the status, the terminal, what was written to it with its times, and what came by the pipe."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    settings = termios.tcgetattr(slave)
    settings[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    begun = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=slave if out_too else subprocess.PIPE, stderr=slave,
                               env=dict(os.environ, TERM=term), start_new_session=True)
    os.close(slave)
    ended = threading.Event()
    slower = threading.Thread(target=slow_down, args=(process, ended))
    if is_slow:
        slower.start()
    writes, out = [], b""
    sources = [master] + ([] if out_too else [process.stdout.fileno()])
    try:
        while sources:
            ready = select.select(sources, [], [], limit)[0]
            if not ready:
                send(process, signal.SIGKILL)
                raise AssertionError("nothing for %d s" % limit)
            for source in ready:
                try:
                    data = os.read(source, 4096)
                except OSError: # the terminal's other side is closed
                    data = b""
                if not data:
                    sources.remove(source)
                elif source == master:
                    writes.append((time.monotonic() - begun, data.decode("ascii")))
                else:
                    out += data
    finally:
        ended.set()
        if is_slow:
            slower.join()
    status = process.wait()
    os.close(master)
    if process.stdout:
        process.stdout.close()
    terminal = Terminal(columns)
    for _, text in writes:
        terminal.take(text)
    return status, terminal, writes, out.decode()


def shown(writes):
    """The lines that were shown in turn, with their times."""
    return [(when, line.strip()) for when, text in writes for line in re.split(r"[\r\n]", text) if LINE.match(line.strip())]


def piped(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", timeout=100)
    return done.returncode, done.stdout, done.stderr


def watch_long_enough(command_of, size, power, seconds, **how):
    """Watches a command that takes at least so many seconds, of the size that this needs on this machine now. Its time grows by about
    that power of the size. Returns the command, the seconds that it took, the terminal, what was written to it, and what came by the
    pipe."""
    while True:
        begun = time.monotonic()
        status, terminal, writes, out = watch(command_of(size), **how)
        took = time.monotonic() - begun
        assert status == 0, terminal.lines
        if took >= seconds:
            return command_of(size), took, terminal, writes, out
        size = max(size + 1, int(size * min(4, (1.2 * seconds / max(took, 0.02)) ** (1 / power))))


def search_of(tries):
    return [PLAN] + SEARCH + ["--tries", str(tries)]


class Progress(unittest.TestCase):
    """What all lines have in common."""

    def check_lines(self, lines, name):
        self.assertGreater(len(lines), 3)
        percents = []
        for when, line in lines:
            match = LINE.match(line)
            self.assertEqual(match.group(1), name)
            percents.append(int(match.group(2)))
            self.assertGreaterEqual(when, 2)
        self.assertEqual(percents, sorted(percents))
        self.assertLessEqual(percents[-1], 100)
        # Ten a second at most, from the third second on. A line is read late on a busy machine, and never early.
        for before, (when, _) in enumerate(lines):
            self.assertLessEqual(before, (when - 2) / 0.1)
        return percents


class Plan(Progress):
    """gcoll_plan and scripts."""

    def test_percent_and_time_on_a_terminal_and_the_same_output_as_in_a_pipe(self):
        command, took, terminal, writes, out = watch_long_enough(search_of, 400, 1, 4)
        lines = shown(writes)
        percents = self.check_lines(lines, "arrival")
        self.assertLess(percents[0], 70)
        self.assertGreater(percents[-1], 80)
        # The steps are alike, so what is said to be left is about what it then takes, be the machine busy or not.
        when, line = lines[len(lines) // 2]
        match = LINE.match(line)
        left = 60 * int(match.group(4) or 0) + int(match.group(5) or 0)
        self.assertGreater(left, 0)
        self.assertLess(left, 3 * (took - when) + 2)
        self.assertGreater(left, (took - when) / 3 - 1)
        self.assertEqual([line.strip() for line in terminal.lines], [""]) # erased
        self.assertEqual(piped(command), (0, out, ""))

    def test_short_runs_show_nothing(self):
        status, _, writes, out = watch([PLAN] + SEARCH + ["--tries", "50"], is_slow=False)
        self.assertEqual((status, writes), (0, []))
        self.assertIn("best of", out)

    def test_narrow_terminals_and_those_without_codes(self):
        for columns, term in ((14, "dumb"), (6, "xterm")): # the terminal refuses escape codes
            _, _, terminal, writes, _ = watch_long_enough(search_of, 1600, 1, 2.7, columns=columns, term=term)
            self.assertTrue(writes)
            self.assertFalse(terminal.wrapped)
            self.assertEqual([line.strip() for line in terminal.lines], [""])

    def test_results_on_the_terminal_are_not_mixed_with_the_line(self):
        command, _, terminal, writes, _ = watch_long_enough(lambda tries: search_of(tries // 2) + ["--operations", "2"], 1600, 1, 2.7,
                                                            out_too=True)
        self.assertTrue(shown(writes))
        wanted = piped(command)[1].split("\n")
        self.assertEqual([line.rstrip() for line in terminal.lines], [line.rstrip() for line in wanted])

    def test_verify(self):
        command, _, terminal, writes, _ = watch_long_enough(lambda ranks: [
            PLAN, "verify", "--collective", "allreduce", "--algorithm", "ring,star,linear", "--ranks", "1-%d" % ranks, "--jobs", "1"],
            20, 2.5, 3.5, out_too=True)
        self.check_lines(shown(writes), "verify")
        self.assertEqual([line.rstrip() for line in terminal.lines], [line.rstrip() for line in piped(command)[1].split("\n")])

    def test_compare_simulate_and_stats(self):
        for command, name in ((["compare", "--algorithm", "ring,linear", "--bytes", "64:1Mi:x2", "--ranks"], "compare"),
                              (["simulate", "--algorithm", "ring", "--bytes", "64:1Mi:x2", "--ranks"], "simulate"),
                              (["stats", "--algorithm", "ring", "--count", "64,128,256,512,1024,2048", "--ranks"], "stats")):
            run, _, terminal, writes, _ = watch_long_enough(lambda ranks, flags=command: [PLAN] + flags + [str(ranks)], 12, 2, 2.7,
                                                            out_too=True)
            self.assertTrue(all(LINE.match(line).group(1) == name for _, line in shown(writes)))
            self.assertTrue(shown(writes), command)
            self.assertEqual([line.rstrip() for line in terminal.lines],
                             [line.rstrip() for line in piped(run)[1].split("\n")])

    def test_scripts_show_the_same_line(self):
        command = ["bash", "-c", ". %s/scripts/progress.sh; export LC_ALL=C; progress_begin script 40; for ((i = 1; i <= 40; i++)); do "
                   "read -rt 0.1 <> <(:) || :; progress_add 1 \"step $i\"; done; progress_end; echo done" % os.environ["GCOLL_TREE"]]
        status, terminal, writes, out = watch(command, is_slow=False)
        self.assertEqual((status, out), (0, "done\n"))
        lines = shown(writes)
        self.check_lines(lines, "script")
        self.assertRegex(lines[-1][1], r"^script: (9\d|100) %, \d s left: step \d+$")
        self.assertEqual([line.strip() for line in terminal.lines], [""])
        self.assertEqual(piped(command), (0, "done\n", ""))
        _, terminal, _, _ = watch(command, columns=11, is_slow=False)
        self.assertFalse(terminal.wrapped)


class Bench(Progress):
    """gcoll_bench."""

    def test_bench(self):
        command = [BENCH, "--local", "2", "--transport", "inproc", "--algorithm", "ring,star", "--bytes", "4,8,12", "--format", "csv",
                   "--time"]
        status, terminal, writes, _ = watch(command + ["0.8s"], out_too=True)
        self.assertEqual(status, 0)
        lines = shown(writes)
        self.check_lines(lines, "gcoll_bench")
        self.assertRegex(lines[-1][1], "allreduce by star, (8|12) bytes") # on a busy machine the last size may end before a line
        self.assertEqual(len(terminal.lines), 8)
        for line in terminal.lines[1:-1]:
            self.assertRegex(line, r"^allreduce,(ring|star[^,]*),inproc,2,[^ ]*$")
        status, out, err = piped(command + ["10ms"])
        self.assertEqual((status, len(out.split("\n")), err), (0, 8, ""))

    def test_tune_says_more_lines_and_erases_its_own(self):
        path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "progress_test-%d.tuning" % os.getpid())
        command = [BENCH, "--local", "2", "--transport", "inproc", "--collective", "allreduce", "--algorithm", "ring,star,linear",
                   "--bytes", "4,64,1Ki,16Ki", "--tune", path]
        try:
            status, terminal, writes, _ = watch(command)
        finally:
            if os.path.exists(path):
                os.remove(path)
        self.assertEqual(status, 0)
        self.assertTrue(shown(writes))
        said = [line.rstrip() for line in terminal.lines]
        self.assertEqual(len(said), 5)
        self.assertEqual(said[-1], "")
        for line in said[:-1]:
            self.assertRegex(line, r"^gcoll_bench: allreduce of \w+ bytes: .* us(, kept[^%]*)?; then [^%]*$")

    def test_networks(self):
        path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "progress_test-%d.json" % os.getpid())
        try:
            status, terminal, writes, out = watch([BENCH, "--local", "12", "--transport", "inproc", "--network-out", path,
                                                   "--time", "0.4s"])
        finally:
            if os.path.exists(path):
                os.remove(path)
        self.assertEqual((status, out), (0, ""))
        self.assertTrue(shown(writes))
        self.assertEqual([line.strip() for line in terminal.lines], [""])


if __name__ == "__main__":
    unittest.main()
