#!/usr/bin/env python3
"""Makes the sources of the site: documents of the tree, pictures of the algorithms, and the reference from the headers.

Usage: sources.py SOURCE OUTPUT [--program NAME=COMMAND]...

SOURCE is the tree. OUTPUT gets Markdown for Sphinx, in the folders of the tree, so that links between documents are good as
they are. README.md becomes the start page. Links to headers lead to the reference; links to other files of the tree lead to
copies; links to folders become text. With the program gcoll_plan, each algorithm of docs/algorithms.md gets its picture.
Files that are there from an earlier run, and are not made any more, go.
"""

import os
import re
import subprocess
import sys
from typing import Callable, Dict, List, Set, Tuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "man"))
import blocks # noqa: E402  # pylint: disable=wrong-import-position
import headers # noqa: E402  # pylint: disable=wrong-import-position
import markdown # noqa: E402  # pylint: disable=wrong-import-position
import pages # noqa: E402  # pylint: disable=wrong-import-position

# The documents by subject: a title, and files. Each document of the tree is in one of them, which Sphinx checks.
SUBJECTS = (
    ("Guide", ("docs/install", "docs/embedding", "docs/python", "docs/torch", "docs/types", "docs/launchers",
               "docs/rendezvous", "docs/environment", "docs/failures", "docs/elastic", "docs/security", "docs/checksum", "docs/codecs",
               "docs/cases", "docs/trace", "docs/watch", "docs/statistics", "examples/train/README",
               "bindings/python/README")),
    ("From another library", ("docs/from-mpi", "docs/from-nccl", "docs/from-gloo")),
    ("Ways of bytes", ("docs/transports", "docs/shared-memory", "docs/ibverbs", "docs/rdma-guest", "docs/cuda")),
    ("Algorithms", ("docs/algorithms", "docs/tuning", "docs/arrival-patterns", "docs/gcoll_plan", "docs/simulator",
                    "docs/network", "docs/plans-as-files")),
    ("Performance", ("docs/performance", "docs/benchmark", "docs/reproduction", "docs/netlab")),
    ("Reference", ("reference/index",)),
    ("Project", ("ARCHITECTURE", "CONTRIBUTING", "docs/decisions", "CHANGELOG")),
)

# How many ranks a picture has: a number that is no power of two, or one for algorithms that need that.
RANKS = (5, 4, 8)


def fail(text: str) -> None:
    raise SystemExit("tools/site/sources.py: " + text)


class Output:
    """A folder. Files whose text is what it was stay untouched, so that Sphinx reads them once."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.written: Set[str] = set()

    def write(self, name: str, data: bytes) -> None:
        path = os.path.join(self.folder, name)
        self.written.add(os.path.normpath(path))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path):
            with open(path, "rb") as file:
                if file.read() == data:
                    return
        with open(path, "wb") as file:
            file.write(data)

    def remove_others(self) -> None:
        for folder, _, names in os.walk(self.folder):
            for name in names:
                if os.path.normpath(os.path.join(folder, name)) not in self.written:
                    os.remove(os.path.join(folder, name))


# ---- Documents of the tree


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Changes the lines of a document that are no code."""
    out = []
    fenced = False
    blank, indented = True, False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        indented = not fenced and line.startswith("    ") and (blank or indented)
        out.append(line if fenced or indented else change(line))
        blank = not line.strip()
    return "\n".join(out)


class Documents:
    def __init__(self, source: str, output: Output) -> None:
        self.source, self.output = source, output
        self.headers = {header.name for header in headers.read_all(os.path.join(source, "gcoll"))}

    def target(self, document: str, link: str) -> Tuple[str, bool]:
        """Where a link of a document leads on the site, and whether it is one there."""
        if re.match(r"[a-z]+:|#", link):
            return link, True
        path, mark, anchor = link.partition("#")
        folder = os.path.dirname(document)
        name = os.path.normpath(os.path.join(folder, path))
        if name.startswith("..") or not os.path.exists(os.path.join(self.source, name)):
            fail("%s: the link to %s leads nowhere" % (document, link))
        header = re.match(r"gcoll/(\w+)\.h$", name)
        if name == "README.md":
            name = "index.md"
        elif header and header.group(1) in self.headers:
            name = "reference/%s.md" % ("index" if header.group(1) == "gcoll" else header.group(1))
        elif os.path.isdir(os.path.join(self.source, name)):
            return "", False
        elif not name.endswith(".md"):
            with open(os.path.join(self.source, name), "rb") as file:
                self.output.write(name, file.read())
        return os.path.relpath(name, folder or ".") + mark + anchor, True

    def links(self, document: str, line: str) -> str:
        def changed(match: "re.Match[str]") -> str:
            target, is_link = self.target(document, match.group(2))
            return "[%s](%s)" % (match.group(1), target) if is_link else match.group(1)
        pieces = re.split(r"(`+[^`]+`+(?!\]))", line) # what is code is no link; the text of a link may be code
        return "".join(piece if piece.startswith("`") else re.sub(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)", changed, piece)
                       for piece in pieces)

    def copy(self, name: str, change: Callable[[str], str] = lambda text: text, to: str = "") -> None:
        with open(os.path.join(self.source, name + ".md"), encoding="utf-8") as file:
            text = file.read()
        text = change(outside_code(text, lambda line: self.links(name + ".md", line)))
        self.output.write((to or name) + ".md", text.encode("utf-8"))


def start_page(text: str) -> str:
    """README.md with the tables of contents behind it, which the sidebar shows."""
    trees = ["```{toctree}\n:hidden:\n:caption: %s\n\n%s\n```" % (title, "\n".join(names)) for title, names in SUBJECTS]
    return text.rstrip() + "\n\n" + "\n\n".join(trees) + "\n"


# ---- Pictures


class Pictures:
    def __init__(self, plan: List[str], output: Output) -> None:
        self.plan, self.output = plan, output

    def draw(self, collective: str, algorithm: str) -> int:
        """Draws an algorithm, and returns of how many ranks."""
        said = ""
        for ranks in RANKS:
            command = self.plan + ["draw", "--collective", collective, "--algorithm", algorithm, "--ranks", str(ranks)]
            if algorithm == "hierarchical":
                command += ["--ranks-per-host", "2"]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            if done.returncode == 0:
                self.output.write("docs/algorithms/%s-%s.svg" % (collective, algorithm), done.stdout)
                return ranks
            said = done.stderr.decode("utf-8", "replace")
        fail("gcoll_plan draws no %s of %s: %s" % (algorithm, collective, said))
        return 0

    def insert(self, text: str) -> str:
        """Puts its picture behind each algorithm's section."""
        out: List[str] = []
        collective, algorithm = "", ""
        for line in text.split("\n") + ["## "]:
            if line.startswith("#") and algorithm:
                ranks = self.draw(collective, algorithm)
                out.append("![%s by %s, %d ranks: messages between ranks over virtual time](algorithms/%s-%s.svg)\n" %
                           (collective, algorithm, ranks, collective, algorithm))
                algorithm = ""
            second = re.match(r"## (?:(\w+)(?: and \w+)?)?$", line)
            third = re.match(r"### ([a-z0-9_]+)$", line)
            if line.startswith("## "):
                collective = second.group(1) if second and second.group(1) and second.group(1).islower() else ""
            elif third and collective:
                algorithm = third.group(1)
            out.append(line)
        return "\n".join(out[:-1])


# ---- The reference


class Reference(pages.Manual):
    """What the manual pages say, as a document for each header and for each program."""

    def __init__(self, source: str, output: Output, programs: Dict[str, List[str]]) -> None:
        super().__init__(source, output.folder, programs)
        self.folder = output
        self.documents: Dict[str, List[str]] = {}
        self.header = ""
        places = {"gcoll-" + header.name: header.name + ".md" for header in self.headers[1:]}
        places.update({name: name + ".md" for name in programs})
        places["gcoll"] = "index.md"
        forms = self.forms()
        merged = {d.name for declarations in forms.values() for d in declarations}
        for header in self.headers[1:]:
            for group in header.groups:
                own = [d for d in group.declarations if d.name not in merged]
                named = [d for d in own if d.kind != "opaque"]
                if named:
                    others = [form for d in own for form in forms.get(d.name, [])] if header.name == "collectives" else []
                    places.update({d.name: "%s.md#%s" % (header.name, slug(named[0].name)) for d in own + others})
        self.form = markdown.Form(places)

    def write(self, page: blocks.Page, aliases: List[str]) -> None:
        del aliases
        if page.section != "3":
            self.header = page.name[len("gcoll-"):] if page.name.startswith("gcoll-") else page.name
        self.documents.setdefault(self.header, []).append(page.text())

    def add_document(self, page: blocks.Page, document: str, wanted: object, words: blocks.Words) -> None:
        """The site has the document itself."""
        page.parts.append("[%s](../docs/%s) tells more." % (self.title_of(document), document))

    def opening(self, document: str) -> List[blocks.Block]:
        return []

    def title_of(self, document: str) -> str:
        with open(os.path.join(self.source, "docs", document), encoding="utf-8") as file:
            return markdown.escape(file.readline().lstrip("# ").strip())

    def remove_others(self) -> None:
        """All pages are made: writes the documents."""
        names = [header.name for header in self.headers[1:]] + list(self.programs)
        tree = "```{toctree}\n:hidden:\n\n%s\n```\n" % "\n".join(names)
        for name, texts in self.documents.items():
            text = "\n".join(texts)
            if name == "gcoll":
                text = text.replace("# gcoll\n", "# Reference\n", 1) + "\n" + tree
            self.folder.write("reference/%s.md" % ("index" if name == "gcoll" else name), text.encode("utf-8"))


def slug(heading: str) -> str:
    """As GitHub makes anchors of headings, and MyST."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def main() -> None:
    source, folder, programs = pages.arguments_of(__doc__)
    output = Output(folder)
    documents = Documents(source, output)
    Reference(source, output, programs).run()
    for name in ["README"] + [name for _, names in SUBJECTS for name in names if name != "reference/index"]:
        if name == "README":
            documents.copy(name, start_page, "index")
        elif name == "docs/algorithms" and "gcoll_plan" in programs:
            documents.copy(name, Pictures(programs["gcoll_plan"], output).insert)
        else:
            documents.copy(name)
    here = os.path.dirname(os.path.abspath(__file__))
    for name in ("conf.py", "site.css"):
        with open(os.path.join(here, name), "rb") as file:
            output.write(name if name == "conf.py" else os.path.join("_static", name), file.read())
    output.remove_others()


if __name__ == "__main__":
    main()
