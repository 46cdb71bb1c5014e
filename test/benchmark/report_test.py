"""gcoll_bench --report: the page says what the run's JSON says, loads nothing, and escapes every text.

The environment names the program: GCOLL_BENCH.
"""

import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

BENCH = os.environ["GCOLL_BENCH"]
KINDS = ("collective", "ranks", "transport", "inputs", "type", "op", "device", "local_reduction", "arrival", "compute_ms",
         "monitor", "checksum", "codec", "prescale", "postscale")
EMPTY = {"meta", "br"}


class Page(html.parser.HTMLParser):
    """What a page has: tables by heading, texts, elements with their attributes. A tag that is not closed is an error."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts, self.tables, self.scripts = [], [], [], [], []
        self.row = self.heading = None
        self.feed(text)
        self.close()
        assert not self.open, "not closed: %s" % self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in EMPTY:
            self.open.append(tag)
        if tag == "h2":
            self.heading = ""
        elif tag == "table":
            self.tables.append((self.heading, [], []))
        elif tag == "th":
            self.tables[-1][1].append(dict(attributes)["data-key"])
        elif tag == "tr" and self.tables:
            self.row = []
        elif tag == "td":
            self.row.append("")

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, "</%s> within %s" % (tag, self.open)
        self.open.pop()
        if tag == "tr" and self.row:
            self.tables[-1][2].append(self.row)

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            self.scripts.append(data)
            return
        self.texts.append(data)
        if self.open and self.open[-1] == "h2":
            self.heading += data
        if self.open and self.open[-1] == "td":
            self.row[-1] += data


def bench(*arguments):
    return subprocess.run([BENCH] + list(arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
                          encoding="utf-8")


def lines_of(path):
    """The objects of a file of JSON lines, with numbers as they are written."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line, parse_float=str, parse_int=str) for line in file]


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.page = os.path.join(folder.name, "page.html")
        self.results = os.path.join(folder.name, "results.json")

    def run_bench(self, *arguments):
        done = bench("--report", self.page, "--format", "json", "--output", self.results, "--transport", "inproc",
                     "--iterations", "3", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.page, encoding="utf-8") as file:
            self.text = file.read()
        return Page(self.text)

    def check_loads_nothing(self, page, text):
        for tag, attributes in page.elements:
            self.assertNotIn(tag, ("link", "img", "iframe", "object", "embed", "base", "audio", "video", "a", "use", "image"))
            for name, value in attributes.items():
                self.assertNotIn(name, ("src", "href", "xlink:href", "srcset", "action"))
                self.assertFalse(name.startswith("on"), name)
                self.assertNotIn("url(", value or "")
        for script in page.scripts:
            self.assertNotRegex(script, r"url\(|@import|fetch|XMLHttp|import\(|//[a-z]")
        self.assertIn("default-src 'none'", text)

    def check_tables(self, page, rows):
        """Each row of the JSON is in the table of its kind, number by number; and nothing else is."""
        found = []
        for heading, keys, cells in page.tables:
            for line in cells:
                self.assertEqual(len(line), len(keys), heading)
                found.append((heading, dict(zip(keys, line))))
        self.assertEqual(len(found), len(rows))
        for row in rows:
            wanted = {key: value for key, value in row.items() if value is not None and key not in KINDS}
            same = [place for place, (heading, cells) in enumerate(found)
                    if heading.startswith("%s, %s rank" % (row["collective"], row["ranks"]))
                    and all(cells.get(key, cells["line"] if key == "algorithm" else None) == value
                            for key, value in wanted.items())]
            self.assertTrue(same, "%s is not in %s" % (wanted, found))
            del found[same[0]]

    def test_numbers_are_those_of_the_run(self):
        page = self.run_bench("--local", "3", "--algorithm", "ring,auto,star", "--bytes", "4,52,64Ki", "--rounding")
        rows = lines_of(self.results)
        self.assertEqual(len(rows), 9)
        self.check_tables(page, rows)
        self.check_loads_nothing(page, self.text)
        self.assertEqual([heading for heading, _, _ in page.tables], ["allreduce, 3 ranks, inproc, float32, sum"])
        # A line for each algorithm that was asked for, with a mark for each size: in two pictures, and in its own.
        lines = [attributes["data-line"] for tag, attributes in page.elements if tag == "g"]
        self.assertEqual(sorted(lines), sorted(["0", "1", "2"] * 2))
        self.assertEqual(sum(tag == "circle" for tag, _ in page.elements), 9 * 3)
        self.assertEqual(sum(tag == "svg" for tag, _ in page.elements), 2 + 3 + 3) # 3 in the legend
        self.assertIn("gcoll_bench --report %s --format json" % self.page, "".join(page.texts))
        for name in ("host", "system", "processor", "memory", "date"):
            self.assertIn(name, page.texts)
        self.assertIn("Every element of every result was right.", page.texts)

    def test_every_collective_and_calls_without_bytes(self):
        page = self.run_bench("--local", "5", "--collective", "all", "--algorithm", "auto", "--bytes", "0,1000")
        self.check_tables(page, lines_of(self.results))
        self.assertEqual(len(page.tables), 10)
        self.check_loads_nothing(page, self.text)

    def test_runs_with_and_without_a_codec_are_told_apart(self):
        common = ("--local", "2", "--bytes", "4Ki", "--algorithm", "ring")
        self.run_bench(*common)
        with open(self.results, encoding="utf-8") as file:
            plain = file.read()
        self.run_bench(*common, "--codec", "int8:block=128,seed=7", "--prescale", "-2", "--postscale", "-0.5")
        with open(self.results, "a", encoding="utf-8") as file:
            file.write(plain)
        done = bench("--results", self.results, "--report", self.page)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.page, encoding="utf-8") as file:
            page = Page(file.read())
        self.check_tables(page, lines_of(self.results))
        head = "allreduce, 2 ranks, inproc, float32, sum"
        self.assertEqual([heading for heading, _, _ in page.tables],
                         [head + ", codec int8:block=128,seed=7, prescale -2, postscale -0.5", head])

    def test_paced_calls_have_their_columns(self):
        page = self.run_bench("--local", "3", "--bytes", "1Ki,4Ki", "--arrival", "one-late:1ms", "--no-check")
        self.check_tables(page, lines_of(self.results))
        self.assertIn("from_last_us", page.tables[0][1])
        self.assertIn("Results were not all checked.", page.texts)

    def test_results_of_earlier_runs(self):
        self.run_bench("--local", "2", "--algorithm", "ring,star", "--bytes", "4,1Ki")
        other = os.path.join(self.folder, "other.html")
        done = bench("--results", self.results, "--report=" + other)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        with open(other, encoding="utf-8") as file:
            page = Page(file.read())
        self.check_tables(page, lines_of(self.results))

    def test_the_page_does_not_replace_the_results(self):
        self.run_bench("--local", "2", "--algorithm", "ring", "--bytes", "4")
        with open(self.results, encoding="utf-8") as file:
            before = file.read()
        done = bench("--results", self.results, "--report", os.path.join(self.folder, ".", "results.json"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("the file that --results reads", done.stderr)
        with open(self.results, encoding="utf-8") as file:
            self.assertEqual(file.read(), before)
        with open(self.results, "a", encoding="utf-8") as file:
            file.write(before.strip().splitlines()[-1] + " garbage\n")
        done = bench("--results", self.results, "--report", self.page)
        self.assertEqual(done.returncode, 1)
        self.assertIn("has text after its end", done.stderr)

    def test_hostile_texts_are_escaped(self):
        evil = "<script>alert(1)</script>\"' onload=x&amp;\u00e9\u0007"
        row = {"collective": evil, "algorithm": evil, "transport": evil, "ranks": 2, "bytes": 4, "p50_us": 1.5, evil: evil,
               evil + "_us": 3}
        with open(self.results, "w", encoding="utf-8") as file:
            file.write(json.dumps({"about": {"title": evil, "host": evil, evil: evil}}) + "\n")
            for size in (4, 8):
                file.write(json.dumps(dict(row, bytes=size)) + "\n\n")
        done = bench("--results", self.results, "--report", self.page)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.page, encoding="utf-8") as file:
            text = file.read()
        page = Page(text)
        self.check_loads_nothing(page, text)
        self.assertEqual(sum(tag == "script" for tag, _ in page.elements), 1)
        self.assertNotIn("alert(1)", "".join(page.scripts))
        seen = evil.replace("\u0007", "?")
        self.assertEqual(page.tables[0][2][0][0], seen)
        self.assertIn(seen, page.tables[0][2][0][1:])
        self.assertEqual(page.tables[0][0], "%s, 2 ranks, %s" % (seen, seen))
        self.assertGreaterEqual("".join(page.texts).count(seen), 8)

    def test_numbers_at_the_edge_make_a_page(self):
        rows = [dict(p50_us=value, min_us=value, max_us=value, p95_us=value, p99_us=value, busbw_GBps=value, bytes=size)
                for value in (0, 1e-300, 1e300, 7) for size in (0, 1, 2 ** 62)]
        with open(self.results, "w", encoding="utf-8") as file:
            for number, row in enumerate(rows):
                file.write(json.dumps(dict(row, collective="x", algorithm="a%d" % (number // 3), ranks=1)) + "\n")
        done = bench("--results", self.results, "--report", self.page)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.page, encoding="utf-8") as file:
            page = Page(file.read())
        for tag, attributes in page.elements:
            for name, value in attributes.items():
                self.assertNotRegex(value or "", r"(?i)\b(nan|inf)\b", (tag, name))

    def test_wrong_results_of_the_line_are_told(self):
        with open(self.results, "w", encoding="utf-8") as file:
            file.write('{"collective":"barrier","algorithm":"x","ranks":2,"p50_us":1,"wrong":7}\n')
        self.assertEqual(bench("--results", self.results, "--report", self.page).returncode, 0)
        with open(self.page, encoding="utf-8") as file:
            self.assertIn("7 wrong elements", Page(file.read()).texts)

    def test_a_password_of_the_store_is_not_on_the_page(self):
        done = bench("--report", self.page, "--local", "1", "--iterations", "1", "--bytes", "4", "--job", "a'b")
        self.assertEqual(done.returncode, 2)
        os.mkdir(os.path.join(self.folder, "s:"))
        self.run_bench("--rank", "0", "--size", "1", "--store", "file:%s/s://me:secret@h" % self.folder, "--transport", "tcp",
                       "--bytes", "4")
        self.assertNotIn("secret", self.text)
        self.assertIn("s://...@h", "".join(Page(self.text).texts))

    # ---- What cannot be written or read

    def refused(self, status, text, *arguments):
        done = bench(*arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(text, done.stderr)
        return done

    def test_places_that_cannot_be_written(self):
        nowhere = os.path.join(self.folder, "none", "page.html")
        done = self.refused(1, "--report: %s: No such file or directory" % nowhere, "--report", nowhere, "--bytes", "4")
        self.assertEqual(done.stdout, "") # before anything is measured
        self.refused(1, "--report: %s: Is a directory" % self.folder, "--report", self.folder, "--bytes", "4")
        full = os.path.join(self.folder, "full") # a program that replaced it would harm nothing but the link
        os.symlink("/dev/full", full)
        self.refused(1, "--report: %s: No space left on device" % full, "--report", full, "--transport", "inproc", "--bytes", "4",
                     "--iterations", "1")
        self.assertEqual(os.readlink(full), "/dev/full")

    def test_what_is_there_stays_where_there_is_no_room(self):
        self.run_bench("--local", "2", "--bytes", "4,8")
        limited = ["sh", "-c", "ulimit -f 4; trap '' XFSZ; exec \"$@\"", "sh", BENCH, "--results", self.results, "--report",
                   self.page]
        done = subprocess.run(limited, stderr=subprocess.PIPE, encoding="utf-8", timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--report: %s: File too large" % self.page, done.stderr)
        with open(self.page, encoding="utf-8") as file:
            self.assertEqual(file.read(), self.text)
        self.assertEqual(sorted(os.listdir(self.folder)), ["page.html", "results.json"])

    def test_a_page_into_a_pipe(self):
        done = bench("--report", "/proc/self/fd/1", "--output", "/dev/null", "--transport", "inproc", "--bytes", "4",
                     "--iterations", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(Page(done.stdout).tables), 1)

    def test_flags_that_do_not_go_together(self):
        for other in (["--tune", self.folder + "/t"], ["--tune-check"], ["--network-out", self.folder + "/n"]):
            self.refused(2, "--report: found with %s" % other[0], "--report", self.page, *other)
        self.refused(2, "--results: found without --report", "--results", self.results)
        self.refused(2, "--bytes: found with --results", "--report", self.page, "--results", self.results, "--bytes", "4")

    def test_results_that_are_none(self):
        good = '{"collective":"barrier","algorithm":"x","ranks":2,"p50_us":1}\n'
        for text, wrong in ((good + "{", "line 2 "), ("[1]", "line 1 is no object"), ("null", "line 1 is null"),
                            (good.replace('"x"', "1"), 'line 1 has no text "algorithm"'),
                            (good.replace("barrier", "").replace('""', "null"), 'line 1 has no text "collective"'),
                            (good.replace(":1}", ":null}"), 'line 1 has no number "p50_us"'),
                            (good.replace(":1}", ":-1}"), 'line 1 has no number "p50_us"'),
                            (good.replace(":1}", ":NaN}"), 'line 1 has no number "p50_us"'),
                            (good.replace(":1}", ":1e999}"), 'line 1 has no number "p50_us"'),
                            (good.replace(":1}", ':1,"x":{}}'), "line 1 has a member"),
                            ('{"about":1}\n', "line 1 has an \"about\""), ('{"about":{}}\n' * 2, "line 2 is the second"),
                            ("", "has no line"), ("\n\n", "has no line")):
            with self.subTest(text=text):
                with open(self.results, "w", encoding="utf-8") as file:
                    file.write(text)
                self.refused(1, "--results: %s: %s" % (self.results, wrong), "--results", self.results, "--report", self.page)
                self.assertFalse(os.path.exists(self.page))
        self.refused(1, "--results: /none: No such file", "--results", "/none", "--report", self.page)


if __name__ == "__main__":
    unittest.main()
