"""Blocks of text as the source of manual pages (man(7))."""

import re
from typing import Callable, List, Optional, Sequence, Tuple

import blocks
from blocks import Block

COLUMNS = 78          # of a line of source


def escape(text: str) -> str:
    """Text in which nothing is a request or an escape."""
    for letter, name in (("\\", "\\e"), ("-", "\\-"), ("`", "\\(ga"), ("^", "\\(ha"), ("~", "\\(ti"), ("'", "\\(aq"),
                         ('"', "\\(dq")):
        text = text.replace(letter, name)
    return text


class Words(blocks.Words):
    """Names of gcoll in bold, and what stands in backquotes."""

    def plain(self, text: str) -> str:
        return escape(text)

    def code(self, text: str) -> str:
        return "\\fB%s\\fP" % escape(text)

    def reference(self, name: str, section: str) -> str:
        return "\\fB%s\\fP(%s)" % (escape(name), section)

    def inline(self, text: str) -> str:
        return lines_of(super().inline(text))


def lines_of(text: str) -> str:
    """Wraps; a sentence begins a line. No line begins with a control character."""
    lines = []
    for sentence in re.split(r"(?<=[.!?]) (?=(?:\\f[BI])?[A-Z*])", text):
        line = ""
        for word in sentence.split():
            if line and len(line) + 1 + len(word) > COLUMNS:
                lines.append(line)
                line = word
            else:
                line += (" " if line else "") + word
        if line:
            lines.append(line)
    return "\n".join(("\\&" + line if line[0] in ".'" else line) for line in lines)


def code(lines: List[str]) -> str:
    text = ["\\&" + escape(line) if line else "" for line in lines]
    return "\n".join([".PP", ".in +4n", ".nf"] + text + [".fi", ".in"])


class Page(blocks.Page):
    """The source of a page, in parts."""

    def __init__(self, name: str, section: str, version: str) -> None:
        super().__init__(name, section)
        title = '.TH "%s" "%s" "" "gcoll %s" "gcoll manual"' % (escape(name), section, version)
        self.parts = [title, ".nh", ".ad l"]

    def add(self, heading: str, text: str) -> None:
        if text:
            self.parts.append(".SH %s\n%s" % (escape(heading), text))

    def sub(self, title: str, text: str) -> None:
        self.parts.append(".SS %s\n%s" % (escape(title), text))

    def title(self, names: Sequence[str], summary: str) -> None:
        self.add("NAME", "%s \\- %s" % (", ".join(map(escape, names)), escape(summary)))

    def synopsis(self, parts: Sequence[Tuple[str, Sequence[Sequence[str]]]], command: str = "") -> None:
        lines = []
        for header, declarations in parts:
            lines.append(".nf\n\\fB#include <gcoll/%s.h>\\fP\n.fi" % header)
            for rows in declarations:
                lines.append(".PP\n.nf\n" + "\n".join(escape(row) for row in rows) + "\n.fi")
        if command:
            lines.append(".PP\n" + escape(command))
        self.add("SYNOPSIS", "\n".join(lines))

    def usage(self, lines: Sequence[str]) -> None:
        self.add("SYNOPSIS", ".nf\n%s\n.fi" % "\n".join("\\fB%s\\fP" % escape(text) for text in lines))

    def see_also(self, pages: Sequence[Tuple[str, str]]) -> None:
        self.add("SEE ALSO", ",\n".join("\\fB%s\\fP(%s)" % (escape(name), section) for name, section in pages))

    def text(self) -> str:
        return ".\\\" Made by tools/man/pages.py: change the headers, the documents or that.\n" + "\n".join(self.parts) + "\n"


class Form(blocks.Form):
    """Manual pages."""

    def words(self, known: Callable[[str], Optional[str]]) -> Words:
        return Words(known)

    def page(self, name: str, section: str, version: str) -> Page:
        return Page(name, section, version)

    def join(self, texts: Sequence[str]) -> str:
        return "\n".join(text for text in texts if text)

    def item(self, term: str, text: str) -> str:
        return ".TP\n%s\n%s" % (term, text)

    def parameter(self, terms: Sequence[str], texts: Sequence[str]) -> str:
        return ".TP\n%s\n%s" % (", ".join("\\fI%s\\fP" % escape(term) for term in terms), "\n.IP\n".join(texts))

    def member(self, names: Sequence[str], described: List[Block], words: blocks.Words) -> str:
        out = [".TP\n" + ", ".join("\\fI%s\\fP" % escape(name) for name in names)]
        if not described or described[0].kind != "text":
            out.append("\\&")
        if described:
            out.append(self.render(described[:1], words))
        if len(described) > 1:
            out.append(".RS\n%s\n.RE" % self.render(described[1:], words, begins=False))
        return "\n".join(out)

    def constant(self, name: str, value: str, described: List[Block], words: blocks.Words) -> str:
        out = [".TP\n\\fB%s\\fP" % escape(name)]
        if value:
            out.append(words.inline(value + (":" if described else "")))
        if described or not value:
            out.append(self.render(described, words) or "See the header.")
        return "\n".join(out)

    def render(self, parts: Sequence[Block], words: blocks.Words, begins: bool = True) -> str:
        """Parts of a text as roff. begins: they stand right behind a heading."""
        out = []
        for number, block in enumerate(parts):
            if block.kind == "text":
                if number > 0 or not begins:
                    out.append(".PP")
                out.append(words.inline(block.text))
            elif block.kind == "code":
                out.append(code(block.lines))
            elif block.kind == "heading":
                out.append(".SS %s" % escape(block.text))
            elif block.kind == "bullets":
                for mark, text in block.items:
                    out.append(".IP %s 3" % ("\\(bu" if mark in "-*" else escape(mark)))
                    out.append(words.inline(text))
            else:
                for term, text in block.items:
                    out.append(".TP")
                    out.append(words.inline(term).replace("\n", " "))
                    out.append(words.inline(text) if text.strip() else "\\&")
        return "\n".join(out)
