"""Text of comments, of Markdown and of --help as blocks, which roff.py and markdown.py write."""

import re
from typing import Callable, List, Optional, Sequence, Tuple

HEADER_COLUMNS = 110  # of the public headers; a line of a comment that ends much earlier was ended on purpose


class Words:
    """Turns running text into the source of a page. `known` gives the section of a manual page, or None."""

    def __init__(self, known: Callable[[str], Optional[str]]) -> None:
        self.known = known
        self.mentioned: List[Tuple[str, str]] = []

    def plain(self, text: str) -> str:
        raise NotImplementedError

    def code(self, text: str) -> str:
        raise NotImplementedError

    def reference(self, name: str, section: str) -> str:
        raise NotImplementedError

    def _name(self, name: str) -> str:
        section = self.known(name)
        if section is None:
            return self.code(name)
        if (name, section) not in self.mentioned:
            self.mentioned.append((name, section))
        return self.reference(name, section)

    def inline(self, text: str) -> str:
        """One paragraph; names of gcoll, and what stands in backquotes, are told from the rest."""
        pieces = []
        place = 0
        pattern = re.compile(r"`([^`]+)`|\bgcoll/(\w+)\.h\b|\b(gcoll_[a-z0-9_]*[a-z0-9])\b(?:\(\))?|"
                             r"\b(GCOLL_[A-Z0-9_]*[A-Z0-9])\b")
        for match in pattern.finditer(text):
            pieces.append(self.plain(text[place:match.start()]))
            quoted, header, name, constant = match.groups()
            if quoted is not None:
                whole = re.match(r"(gcoll_[a-z0-9_]+)(\(\))?$", quoted)
                pieces.append(self._name(whole.group(1)) if whole else self.code(quoted))
            elif header is not None:
                pieces.append(self._name("gcoll-" + header))
            elif name is not None:
                pieces.append(self._name(name))
            else:
                pieces.append(self.code(constant))
            place = match.end()
        pieces.append(self.plain(text[place:]))
        return "".join(pieces)


class Block:
    """A part of a text: paragraph, code, bullets or definitions. `gap`: there is a blank line before it."""

    def __init__(self, kind: str, gap: bool) -> None:
        self.kind, self.gap = kind, gap
        self.text = ""
        self.items: List[Tuple[str, str]] = []
        self.lines: List[str] = []


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _bullets(part: Sequence[str]) -> List[Tuple[str, str]]:
    """Marks and texts of a list whose first line is an item; a line that is none goes on with the item before it."""
    items: List[Tuple[str, str]] = []
    for text in part:
        mark = re.match(r"\s*(- |\d+\. )(.*)", text)
        if _indent(text) == _indent(part[0]) and mark:
            items.append((mark.group(1).strip(), mark.group(2)))
        else:
            items[-1] = (items[-1][0], items[-1][1] + " " + text.strip())
    return items


def comment_blocks(lines: List[str], offset: int = 3) -> List[Block]:
    """The parts of a comment, whose lines keep their indentation. offset: columns before the text in the header."""
    blocks: List[Block] = []
    gap = False
    number = 0
    paragraph: Optional[Block] = None
    while number < len(lines):
        line = lines[number]
        if not line.strip():
            gap, paragraph = True, None
            number += 1
            continue
        if line.startswith(" - "):  # a list that stands one column within its text
            begin, paragraph = number, None
            while number < len(lines) and (lines[number].startswith(" - ") or _indent(lines[number]) > 1):
                number += 1
            blocks.append(Block("bullets", gap))
            blocks[-1].items = _bullets(lines[begin:number])
            gap = False
            continue
        if _indent(line) < 2:
            ends = number > 0 and lines[number - 1].rstrip()[-1:] in (".", ":", ")") and (
                len(lines[number - 1]) + offset + 1 + len(line.split()[0]) + 1 < HEADER_COLUMNS)
            if paragraph is None or ends:
                paragraph = Block("text", gap or paragraph is not None)
                paragraph.gap = gap
                blocks.append(paragraph)
            paragraph.text += (" " if paragraph.text else "") + line.strip()
            gap = False
            number += 1
            continue
        begin, paragraph = number, None
        while number < len(lines):
            if lines[number].strip():
                if _indent(lines[number]) < 2:
                    break
            elif number + 1 == len(lines) or _indent(lines[number + 1]) < 4 or _indent(lines[begin]) < 4:
                break
            number += 1
        part = lines[begin:number]
        block = Block("code", gap)
        gap = False
        outer = _indent(part[0])
        heads = [text for text in part if _indent(text) == outer]
        if outer < 4 and all(re.match(r"\s*(- |\d+\. )", text) for text in heads):
            block.kind = "bullets"
            block.items = _bullets(part)
        elif outer < 4 and all(len(re.split(r"\s{2,}", text.strip())) == 2 for text in heads):
            block.kind = "definitions"
            for text in part:
                if _indent(text) == outer:
                    term, meaning = re.split(r"\s{2,}", text.strip(), maxsplit=1)
                    block.items.append((term, meaning))
                else:
                    block.items[-1] = (block.items[-1][0], block.items[-1][1] + " " + text.strip())
        else:
            least = min(_indent(text) for text in part if text.strip())
            block.lines = [text[least:] for text in part]
        blocks.append(block)
    return blocks


def _markdown_line(text: str) -> str:
    """Running text of Markdown: links lose their targets, emphasis its marks."""
    text = re.sub(r"\[\w+\.md\]\((\w+\.md)[^)]*\)", r"docs/\1", text)
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\*\*([^*]+)\*\*", lambda match: "`%s`" % match.group(1).replace("`", ""), text)
    return re.sub(r"(?<![\w*])\*(?![\s*])([^*]+)\*(?!\w)", r"\1", text)


def _cells(row: str) -> List[str]:
    return [_markdown_line(cell.strip()) for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def markdown_blocks(lines: List[str]) -> List[Block]:
    blocks: List[Block] = []
    number = 0
    paragraph: Optional[Block] = None
    while number < len(lines):
        line = lines[number]
        number += 1
        if not line.strip():
            paragraph = None
        elif line.startswith("```"):
            block = Block("code", True)
            while not lines[number].startswith("```"):
                block.lines.append(lines[number])
                number += 1
            number += 1
            blocks.append(block)
            paragraph = None
        elif line.startswith("#"):
            block = Block("heading", True)
            block.text = line.lstrip("# ")
            blocks.append(block)
            paragraph = None
        elif line.startswith("|"):
            heads = _cells(line)
            number += 1
            block = Block("definitions", True)
            while number < len(lines) and lines[number].startswith("|"):
                cells = _cells(lines[number])
                number += 1
                if len(heads) == 2 or not any(heads[1:]):
                    text = "; ".join(cell for cell in cells[1:] if cell)
                else:
                    text = "; ".join("%s: %s" % (head, cell) if head else cell
                                     for head, cell in zip(heads[1:], cells[1:]) if cell)
                block.items.append((cells[0], text))
            blocks.append(block)
            paragraph = None
        elif line.startswith("    ") and paragraph is None:
            block = Block("code", True)
            block.lines.append(line[4:])
            while number < len(lines) and (lines[number].startswith("    ") or (
                    not lines[number].strip() and number + 1 < len(lines) and lines[number + 1].startswith("    "))):
                block.lines.append(lines[number][4:])
                number += 1
            blocks.append(block)
        elif re.match(r"(- |\d+\. )", line):
            mark = re.match(r"(- |\d+\. )(.*)", line)
            assert mark is not None
            if not blocks or blocks[-1].kind != "bullets" or paragraph is not blocks[-1]:
                blocks.append(Block("bullets", True))
            blocks[-1].items.append((mark.group(1).strip(), _markdown_line(mark.group(2))))
            paragraph = blocks[-1]
        elif paragraph is not None and paragraph.kind == "bullets":
            paragraph.items[-1] = (paragraph.items[-1][0], paragraph.items[-1][1] + " " + _markdown_line(line.strip()))
        else:
            if paragraph is None:
                paragraph = Block("text", True)
                blocks.append(paragraph)
            paragraph.text += (" " if paragraph.text else "") + line.strip()
    for block in blocks:
        if block.kind == "text":
            block.text = _markdown_line(block.text)
    return blocks


def help_blocks(lines: List[str]) -> List[Block]:
    """What a program prints for --help: titles with a colon, and below each the flags or words that it explains."""
    blocks: List[Block] = []
    number = 0
    title = ""
    item = re.compile(r"  (--?[a-z-]+(?: [A-Z][\w.=:/]*| FILE\.so)?|[a-z_0-9]+=?) +(\S.*)$")
    while number < len(lines):
        line = lines[number]
        if not line.strip():
            number += 1
        elif not line.startswith(" "):
            if line.rstrip().endswith(":"):
                before, _, title = line.rstrip()[:-1].replace(" (defaults in parentheses)", "").rpartition(". ")
                if before:
                    blocks.append(Block("text", True))
                    blocks[-1].text = before + "."
                block = Block("heading", True)
                block.text = title
                number += 1
            else:
                block = Block("text", True)
                while number < len(lines) and lines[number].strip() and not lines[number].startswith(" "):
                    block.text += (" " if block.text else "") + lines[number].strip()
                    number += 1
            blocks.append(block)
        else:
            part = []
            while number < len(lines) and lines[number].startswith(" "):
                part.append(lines[number])
                number += 1
            flags = [item.match(text) for text in part]
            is_list = flags[0] and all(flag or text.startswith("    ") for flag, text in zip(flags, part))
            if is_list and not title.startswith("Example"):
                block = Block("definitions", True)
                for flag, text in zip(flags, part):
                    if flag:
                        block.items.append(("`%s`" % flag.group(1), flag.group(2)))
                    else:
                        block.items[-1] = (block.items[-1][0], block.items[-1][1] + " " + text.strip())
            else:
                block = Block("code", True)
                least = min(_indent(text) for text in part)
                block.lines = [text[least:] for text in part]
            blocks.append(block)
    return blocks


class Page:
    """A page that is being written, from its title to what else to read."""

    def __init__(self, name: str, section: str) -> None:
        self.name, self.section = name, section
        self.parts: List[str] = []

    def add(self, heading: str, text: str) -> None:
        """A part; none, if its text is empty."""
        raise NotImplementedError

    def sub(self, title: str, text: str) -> None:
        """A part of the part before."""
        raise NotImplementedError

    def title(self, names: Sequence[str], summary: str) -> None:
        raise NotImplementedError

    def synopsis(self, parts: Sequence[Tuple[str, Sequence[Sequence[str]]]], command: str = "") -> None:
        """Headers, each with declarations, each in lines; and how to compile what uses them."""
        raise NotImplementedError

    def usage(self, lines: Sequence[str]) -> None:
        """How a program is called."""
        raise NotImplementedError

    def see_also(self, pages: Sequence[Tuple[str, str]]) -> None:
        """Names with their sections."""
        raise NotImplementedError

    def text(self) -> str:
        raise NotImplementedError


class Form:
    """What pages are written in."""

    def words(self, known: Callable[[str], Optional[str]]) -> Words:
        raise NotImplementedError

    def page(self, name: str, section: str, version: str) -> Page:
        raise NotImplementedError

    def join(self, texts: Sequence[str]) -> str:
        raise NotImplementedError

    def item(self, term: str, text: str) -> str:
        """A term, and what it means, both written already."""
        raise NotImplementedError

    def parameter(self, terms: Sequence[str], texts: Sequence[str]) -> str:
        raise NotImplementedError

    def member(self, names: Sequence[str], described: List[Block], words: Words) -> str:
        raise NotImplementedError

    def constant(self, name: str, value: str, described: List[Block], words: Words) -> str:
        """value: empty, if it takes several lines."""
        raise NotImplementedError

    def render(self, parts: Sequence[Block], words: Words, begins: bool = True) -> str:
        """begins: the text stands right behind a heading."""
        raise NotImplementedError
