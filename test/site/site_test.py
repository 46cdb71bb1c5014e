"""The site as it was made: every link leads to something, nothing is loaded from outside, and the search finds what it should.

The environment has GCOLL_TREE, the source tree, and GCOLL_SITE, the folder with the site's source and html.
"""

import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

TREE = os.environ["GCOLL_TREE"]
SITE = os.environ["GCOLL_SITE"]
SOURCES = os.path.join(TREE, "tools", "site", "sources.py")

# Elements and attributes by which a browser loads something as it shows a page.
LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("iframe", "src"), ("object", "data"), ("source", "src"),
          ("use", "href"), ("image", "href"), ("form", "action")}


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.loaded, self.styles = set(), [], [], []
        self.named, self.link = {}, "" # links by their text
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        self.feed(self.text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.ids.add(value)
            if (tag, name) == ("a", "href"):
                self.links.append(value or "")
                self.link = value or ""
            elif (tag, name) in LOADED and not (tag == "link" and dict(attributes).get("rel") in ("canonical",)):
                self.loaded.append(value or "")
            elif name == "style":
                self.styles.append(value or "")

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)

    def handle_data(self, data):
        if self.link:
            self.named.setdefault(data, []).append(self.link)

    def handle_endtag(self, tag):
        if tag == "a":
            self.link = ""


def pages_of(folder):
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".html"):
                path = os.path.join(place, name)
                found[os.path.relpath(path, folder)] = Page(path)
    return found


def is_outside(link):
    return bool(re.match(r"(?:[a-z]+:)?//|(?:https?|ftp|mailto|data):", link, flags=re.I)) and not link.startswith("data:")


def problems_of_links(pages, folder):
    """Links and files within the site that are not there."""
    found = []
    for name, page in pages.items():
        for link in page.links + page.loaded:
            if is_outside(link) or link.startswith("data:") or link in ("#", ""):
                continue
            path, _, anchor = link.partition("#")
            path = urllib.parse.unquote(path.partition("?")[0])
            target = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            if target.startswith("..") or os.path.isabs(target) or not os.path.isfile(os.path.join(folder, target)):
                found.append("%s: %s is not there" % (name, link))
            elif anchor and target in pages and urllib.parse.unquote(anchor) not in pages[target].ids:
                found.append("%s: %s has no such anchor" % (name, link))
    return found


def problems_of_requests(pages, folder):
    """What would be loaded from outside."""
    found = ["%s loads %s" % (name, link) for name, page in pages.items() for link in page.loaded if is_outside(link)]
    for name, page in pages.items():
        found += ["%s: a style loads %s" % (name, style) for style in page.styles if re.search(r"url\(\s*['\"]?(?:https?:)?//", style)]
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if name.endswith(".css"):
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                found += ["%s loads %s" % (path, link) for link in
                          re.findall(r"(?:@import\s+|url\()\s*['\"]?((?:https?:)?/[^'\")\s]+)", text)]
    return found


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.join(SITE, "html")
        cls.pages = pages_of(cls.folder)

    def test_every_document_of_the_tree_is_there(self):
        tracked = [os.path.join("docs", name) for name in os.listdir(os.path.join(TREE, "docs")) if name.endswith(".md")]
        self.assertGreater(len(tracked), 30)
        for name in tracked + ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"]:
            self.assertIn(name[:-3] + ".html", self.pages)
        self.assertIn("index.html", self.pages)

    def test_every_link_leads_somewhere(self):
        self.assertGreater(sum(len(page.links) for page in self.pages.values()), 5000)
        self.assertEqual(problems_of_links(self.pages, self.folder), [])

    def test_nothing_is_loaded_from_outside(self):
        self.assertEqual(problems_of_requests(self.pages, self.folder), [])
        for name, page in self.pages.items():
            for script in re.findall(r"<script[^>]*>(.*?)</script>", page.text, flags=re.S):
                self.assertNotRegex(script, r"https?://|import\(", name)

    def test_the_theme_is_whole(self):
        """Debian's package of it is not; tools/site/conf.py mends it."""
        with open(os.path.join(self.folder, "_static", "styles", "furo.css"), encoding="utf-8") as file:
            style = file.read()
        self.assertRegex(style, r"@media \(prefers-color-scheme: dark\)\s*\{\s*body:not\(\[data-theme=\"?light\"?\]\)\s*\{[^}]*--color-background-primary")
        self.assertIn("margin: 0", style)
        with open(os.path.join(self.folder, "_static", "scripts", "furo.js"), encoding="utf-8") as file:
            self.assertNotRegex(file.read(), r"(?m)^import ")

    def test_every_function_is_described(self):
        """The reference of its header has a link with its name, and the check of links says that there is something."""
        count = 0
        for name in sorted(os.listdir(os.path.join(TREE, "gcoll"))):
            if not name.endswith(".h"):
                continue
            with open(os.path.join(TREE, "gcoll", name), encoding="ascii") as file:
                functions = re.findall(r"^GCOLL_API [^;{]*?\b(gcoll_\w+)\(", file.read(), flags=re.M)
            for function in functions:
                links = self.pages["reference/%s.html" % name[:-2]].named.get(function, [])
                self.assertTrue(any("#gcoll-" in link for link in links), function)
                count += 1
        self.assertGreater(count, 200)

    def test_algorithms_have_pictures(self):
        with open(os.path.join(TREE, "docs", "algorithms.md"), encoding="utf-8") as file:
            sections = re.findall(r"^### ([a-z0-9_]+)$", file.read(), flags=re.M)
        pictures = [link for link in self.pages["docs/algorithms.html"].loaded if link.endswith(".svg")]
        if not pictures:
            self.skipTest("there is no gcoll_plan to draw them")
        self.assertGreater(len(sections), 40)
        self.assertEqual(len(pictures), len(sections))

    def test_the_index_of_the_search(self):
        with open(os.path.join(self.folder, "searchindex.js"), encoding="utf-8") as file:
            text = file.read()
        index = json.loads(text[text.index("(") + 1:text.rindex(")")])
        for title, document in (("gcoll_allreduce", "reference/collectives"), ("The same bits", "docs/algorithms"),
                                ("Installing", "docs/install")):
            places = [index["docnames"][place[0]] for place in index["alltitles"][title]]
            self.assertIn(document, places)
        self.assertTrue(any(term.startswith("rabenseifn") for term in index["terms"])) # the stem


class Checks(unittest.TestCase):
    """The checks above notice what they are for."""

    def site(self, **files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in files.items():
            with open(os.path.join(folder.name, name.replace("_", ".")), "w", encoding="utf-8") as file:
                file.write(text)
        return pages_of(folder.name), folder.name

    def test_links(self):
        pages, folder = self.site(a_html='<a href="b.html#x">1</a><a href="b.html#y">2</a><a href="c.html">3</a><a href="#z">4</a>'
                                         '<img src="d.svg"><a href="https://e">5</a>', b_html='<p id="x">')
        self.assertEqual(problems_of_links(pages, folder), [
            "a.html: b.html#y has no such anchor", "a.html: c.html is not there", "a.html: #z has no such anchor",
            "a.html: d.svg is not there"])

    def test_requests(self):
        pages, folder = self.site(a_html='<img src="https://x/a.png"><script src="//x/b.js"></script><a href="https://good">1</a>'
                                         '<p style="background:url(http://x)">', c_css="@import 'https://x/f.css'; a{b:url(x.png); c:url(/y.css)}")
        self.assertEqual([problem.split("loads")[1].strip() for problem in problems_of_requests(pages, folder)],
                         ["https://x/a.png", "//x/b.js", "background:url(http://x)", "https://x/f.css", "/y.css"])


class Sources(unittest.TestCase):
    """sources.py on a small tree."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree, self.out = os.path.join(folder.name, "tree"), os.path.join(folder.name, "out")
        os.makedirs(self.tree)
        for name in ("docs", "gcoll", "examples", "bindings", "tools"):
            os.symlink(os.path.join(TREE, name), os.path.join(self.tree, name))
        for name in os.listdir(TREE):
            if name.endswith(".md") or name == "LICENSE":
                os.symlink(os.path.join(TREE, name), os.path.join(self.tree, name))
        for name in ("transport", "cuda", "test", "scripts", "benchmark", "algorithms"):
            os.symlink(os.path.join(TREE, name), os.path.join(self.tree, name))

    def make(self):
        return subprocess.run([sys.executable, SOURCES, self.tree, self.out], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              encoding="utf-8", timeout=120)

    def change(self, name, change):
        path = os.path.join(self.tree, name)
        with open(path, encoding="utf-8") as file:
            text = change(file.read())
        os.remove(path)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(os.path.join(self.out, name), encoding="utf-8") as file:
            return file.read()

    def test_links_of_documents(self):
        self.change("CONTRIBUTING.md", lambda text: text + """
[a](README.md#two-commands) [b](gcoll/gcoll.h) [c](gcoll/store.h) [d](examples/launch) [e](examples/allreduce.c) [`f`](docs/python.md)
`[g](nowhere.md)`

    [h](nowhere.md)

```
[i](nowhere.md)
```
""")
        self.assertEqual(self.make().returncode, 0)
        self.assertIn("""
[a](index.md#two-commands) [b](reference/index.md) [c](reference/store.md) d [e](examples/allreduce.c) [`f`](docs/python.md)
`[g](nowhere.md)`

    [h](nowhere.md)

```
[i](nowhere.md)
```
""", self.read("CONTRIBUTING.md"))
        with open(os.path.join(TREE, "examples", "allreduce.c"), encoding="utf-8") as file:
            self.assertEqual(self.read("examples/allreduce.c"), file.read())

    def test_a_link_that_leads_nowhere(self):
        self.change("CONTRIBUTING.md", lambda text: text + "\n[a](docs/nowhere.md)\n")
        done = self.make()
        self.assertEqual(done.returncode, 1)
        self.assertIn("CONTRIBUTING.md: the link to docs/nowhere.md leads nowhere", done.stderr)

    def test_what_is_not_made_any_more_goes(self):
        os.makedirs(os.path.join(self.out, "docs"))
        left = os.path.join(self.out, "docs", "left.md")
        with open(left, "w", encoding="utf-8") as file:
            file.write("# left\n")
        self.assertEqual(self.make().returncode, 0)
        self.assertFalse(os.path.exists(left))
        path = os.path.join(self.out, "docs", "install.md")
        before = os.stat(path).st_mtime_ns
        self.assertEqual(self.make().returncode, 0)
        self.assertEqual(os.stat(path).st_mtime_ns, before) # so that Sphinx need not read it again

    def test_mypy_finds_nothing(self):
        if subprocess.run([sys.executable, "-c", "import mypy"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("mypy is not installed")
        result = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--python-version", "3.9", "--cache-dir",
                                 os.environ["GCOLL_MYPY_CACHE"], "sources.py"], stdout=subprocess.PIPE,
                                env=dict(os.environ, MYPYPATH=os.path.join(TREE, "tools", "man")),
                                cwd=os.path.join(TREE, "tools", "site"))
        self.assertEqual(result.returncode, 0, result.stdout.decode())


if __name__ == "__main__":
    unittest.main()
