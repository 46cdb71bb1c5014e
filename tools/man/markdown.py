"""Blocks of text as Markdown: the reference of the site. Of each header one document, with a section for each manual page."""

import re
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import blocks
from blocks import Block


def escape(text: str) -> str:
    """Text in which nothing is markup."""
    return re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", text)


def code(text: str) -> str:
    """A span of code. Line ends and a table's bars are none of its concern: no text has both."""
    fence = "``" if "`" in text else "`"
    return fence + text + fence


def same_words(one: str, other: str) -> bool:
    return re.sub(r"[\\`.:]|\[|\]\([^)]*\)", "", one) == re.sub(r"[\\`.:]|\[|\]\([^)]*\)", "", other)


class Words(blocks.Words):
    """Names of gcoll are links, where a section or a document is about them."""

    def __init__(self, known: Callable[[str], Optional[str]], places: Dict[str, str]) -> None:
        super().__init__(known)
        self.places = places

    def plain(self, text: str) -> str:
        return escape(text)

    def code(self, text: str) -> str:
        return code(text)

    def reference(self, name: str, section: str) -> str:
        return link(name, self.places)


def link(name: str, places: Dict[str, str]) -> str:
    header = re.match(r"gcoll-(\w+)$", name)
    text = code("gcoll/%s.h" % header.group(1)) if header else code(name)
    return "[%s](%s)" % (text, places[name]) if name in places else text


class Page(blocks.Page):
    """A document or, of a manual page of section 3, a section of one."""

    def __init__(self, name: str, section: str, places: Dict[str, str]) -> None:
        super().__init__(name, section)
        self.places = places

    def add(self, heading: str, text: str) -> None:
        """The description needs no heading. Within a section of one function headings would crowd the table of contents."""
        if not text:
            return
        if heading == "DESCRIPTION" and len(self.parts) > 1 and same_words(self.parts[1], text.split("\n\n")[0]):
            del self.parts[1] # the summary, which the description begins with
        if heading != "DESCRIPTION":
            name = heading[0] + heading[1:].lower() if heading.isupper() else heading
            self.parts.append("**%s**" % escape(name) if self.section == "3" else "## " + escape(name))
        self.parts.append(text)

    def sub(self, title: str, text: str) -> None:
        self.parts += ["**%s**" % escape(title) if self.section == "3" else "## " + escape(title), text]

    def title(self, names: Sequence[str], summary: str) -> None:
        header = re.match(r"gcoll-(\w+)$", self.name)
        if header:
            self.parts.append("# gcoll/%s.h" % header.group(1))
        elif self.section == "3":
            self.parts.append("## " + escape(self.name))
        else:
            self.parts.append("# " + escape(names[0]))
        if self.section != "3":
            self.parts.append(escape(summary[0].upper() + summary[1:] + "."))

    def synopsis(self, parts: Sequence[Tuple[str, Sequence[Sequence[str]]]], command: str = "") -> None:
        lines = []
        for header, declarations in parts:
            if self.section != "3" or len(parts) > 1:
                lines.append("#include <gcoll/%s.h>" % header)
            lines += [row for rows in declarations for row in rows]
        self.parts.append("```c\n%s\n```" % "\n".join(lines))
        if command:
            self.parts.append("```sh\n%s\n```" % command)

    def usage(self, lines: Sequence[str]) -> None:
        self.parts.append("```sh\n%s\n```" % "\n".join(lines))

    def see_also(self, pages: Sequence[Tuple[str, str]]) -> None:
        if pages:
            self.parts.append("See also: " + ", ".join(link(name, self.places) for name, _ in pages))

    def text(self) -> str:
        return "\n\n".join(self.parts) + "\n"


class Form(blocks.Form):
    """Documents of the site. places: where names are described, as links have it."""

    def __init__(self, places: Dict[str, str]) -> None:
        self.places = places

    def words(self, known: Callable[[str], Optional[str]]) -> Words:
        return Words(known, self.places)

    def page(self, name: str, section: str, version: str) -> Page:
        del version
        return Page(name, section, self.places)

    def join(self, texts: Sequence[str]) -> str:
        return "\n\n".join(text for text in texts if text)

    @staticmethod
    def _within(text: str) -> str:
        """What belongs to a term: the first line behind its mark, the others below it."""
        return ":   " + text.replace("\n", "\n    ").replace("\n    \n", "\n\n")

    def item(self, term: str, text: str) -> str:
        return "%s\n%s" % (term.replace("\n", " "), self._within(text or "\u00a0"))

    def parameter(self, terms: Sequence[str], texts: Sequence[str]) -> str:
        return self.item(", ".join(code(term) for term in terms), "\n\n".join(texts))

    def member(self, names: Sequence[str], described: List[Block], words: blocks.Words) -> str:
        return self.item(", ".join(code(name) for name in names), self.render(described, words))

    def constant(self, name: str, value: str, described: List[Block], words: blocks.Words) -> str:
        text = self.render(described, words)
        if value:
            return self.item(code(name), self.join([code(value) + (":" if text else ""), text]))
        return self.item(code(name), text or "See the header.")

    def render(self, parts: Sequence[Block], words: blocks.Words, begins: bool = True) -> str:
        del begins
        out = []
        for block in parts:
            if block.kind == "text":
                out.append(words.inline(block.text))
            elif block.kind == "code":
                out.append("```%s\n%s\n```" % (self._language(block.lines), "\n".join(block.lines)))
            elif block.kind == "heading":
                out.append("### " + escape(block.text))
            elif block.kind == "bullets":
                out.append("\n".join("%s %s" % (mark, words.inline(text)) for mark, text in block.items))
            else:
                out += [self.item(words.inline(term), words.inline(text)) for term, text in block.items]
        return "\n\n".join(out)

    @staticmethod
    def _language(lines: Sequence[str]) -> str:
        return "c" if any(re.search(r"[;{}]\s*(/\*.*)?$", line) for line in lines) else "text"
