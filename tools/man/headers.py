"""Reads the public headers: declarations, and the comments that describe them.

A comment describes the declarations that follow it without a blank line between. A comment with a blank line behind it
describes the section that it begins ("---- Title ----"), or the header.
"""

import os
import re
from dataclasses import dataclass, field
from typing import List, Optional, Tuple


@dataclass
class Member:
    """Fields of a struct that share a comment, or a value of an enumeration, or a macro."""
    names: List[str]
    text: str                # the declaration, or the value
    comment: List[str]


@dataclass
class Declaration:
    kind: str                # function, callback, struct, enum, opaque
    name: str
    text: str                # without comments, white space as single spaces; a struct or enum: one line a field
    parameters: List[str] = field(default_factory=list)
    members: List[Member] = field(default_factory=list)
    receivers: List[str] = field(default_factory=list)  # parameters that point to a pointer, which the function sets


@dataclass
class Section:
    title: str
    comment: List[str]


@dataclass
class Group:
    """Declarations that share a comment."""
    comment: List[str]       # lines as they stand in the header, without the comment's marks
    section: Optional[Section]
    declarations: List[Declaration] = field(default_factory=list)


@dataclass
class Header:
    name: str                # "context" of gcoll/context.h
    summary: str
    comment: List[str] = field(default_factory=list)
    sections: List[Section] = field(default_factory=list)
    groups: List[Group] = field(default_factory=list)
    macros: List[Member] = field(default_factory=list)


def comment_lines(comment: str) -> List[str]:
    """The lines of a comment. Each keeps its indentation, counted from where text begins."""
    lines = []
    for number, line in enumerate(comment[2:-2].split("\n")):
        if number > 0:
            line = re.sub(r"^\s*\*", "", line)
        lines.append(re.sub(r"^ ", "", line).rstrip())
    while lines and not lines[0]:
        del lines[0]
    while lines and not lines[-1]:
        del lines[-1]
    return lines


def without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def flat(text: str) -> str:
    """White space as single spaces, and none inside brackets' edges."""
    text = re.sub(r"\s+", " ", without_comments(text)).strip()
    return re.sub(r"\( ", "(", re.sub(r" ([,;)])", r"\1", text))


def parameters_of(text: str) -> Tuple[List[str], List[str]]:
    """The names of a function's parameters, and those of them that point to a pointer, which the function sets. text is
    from its opening bracket to its closing one."""
    inner = text[1:-1].strip()
    if inner in ("void", ""):
        return [], []
    parts, depth, begin = [], 0, 0
    for place, letter in enumerate(inner):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(inner[begin:place])
            begin = place + 1
    parts.append(inner[begin:])
    names = []
    receivers = []
    for part in parts:
        if part.strip() != "...":
            match = re.search(r"\(\*(\w+)\)", part) or re.search(r"(\w+)\s*(?:\[\w*\])?\s*$", part)
            assert match is not None, part
            names.append(match.group(1))
            if "**" in part:
                receivers.append(names[-1])
    return names, receivers


def closing(text: str, place: int) -> int:
    """Where the bracket at `place` closes. Comments are skipped."""
    pairs = {"(": ")", "{": "}"}
    opening, ending, depth = text[place], pairs[text[place]], 0
    while True:
        if text.startswith("/*", place):
            place = text.index("*/", place) + 2
            continue
        if text[place] == opening:
            depth += 1
        elif text[place] == ending:
            depth -= 1
            if depth == 0:
                return place
        place += 1


def members_of(body: str, separator: str) -> List[Member]:
    """Fields of a struct (separator ;) or values of an enumeration (separator ,), with the comments at them."""
    members: List[Member] = []
    before: List[str] = []
    place = 0
    while True:
        gap = re.compile(r"\s*").match(body, place)
        assert gap is not None
        if gap.group().count("\n") > 1:
            before = []
        place = gap.end()
        if place == len(body):
            return members
        if body.startswith("/*", place):
            end = body.index("*/", place) + 2
            before = comment_lines(body[place:end])
            place = end
            continue
        end = place
        depth = 0
        while end < len(body) and (depth > 0 or body[end] != separator):
            if body.startswith("/*", end):
                end = body.index("*/", end) + 2
                continue
            depth += {"(": 1, ")": -1}.get(body[end], 0)
            end += 1
        inner = re.search(r"/\*.*?\*/", body[place:end], flags=re.S)
        text = flat(body[place:end])
        place = min(end + 1, len(body))
        behind = re.compile(r"[ \t]*(/\*.*?\*/)", flags=re.S).match(body, place)
        comment, before = before, []
        if behind:
            comment = comment_lines(behind.group(1))
            place = behind.end()
        elif inner:
            comment = comment_lines(inner.group())
        if separator == ",":
            name, _, value = text.partition("=")
            members.append(Member([name.strip()], value.strip(), comment))
        else:
            pointer = re.search(r"\(\*(\w+)\)", text)
            names = [pointer.group(1)] if pointer else re.findall(r"(\w+)\s*(?:\[[^\]]*\])?\s*(?:,|$)", text)
            if not comment and members and gap.group().count("\n") == 1 and names[0].endswith("_arg"):
                comment = ["Goes with `%s`, and is passed to it unchanged." % members[-1].names[0]]
            members.append(Member(names, text + ";", comment))


def declaration_of(text: str) -> Optional[Declaration]:
    """A declaration; None for what needs no page."""
    plain = flat(text)
    match = re.match(r"typedef (struct|enum) (\w+) \{", plain)
    if match:
        kind, name = match.groups()
        body = text[text.index("{") + 1:closing(text, text.index("{"))]
        members = members_of(body, ";" if kind == "struct" else ",")
        if kind == "struct":
            rows = [member.text for member in members]
        else:
            rows = [member.names[0] + (" = " + member.text if member.text else "") + "," for member in members]
        lines = ["typedef %s %s {" % (kind, name)] + ["    " + row for row in rows] + ["} %s;" % name]
        return Declaration(kind, name, "\n".join(lines), members=members)
    match = re.match(r"typedef struct (\w+) \1;$", plain)
    if match:
        return Declaration("opaque", match.group(1), plain)
    match = re.match(r"typedef .*?\(\*(\w+)\)(\(.*\));$", plain)
    if match:
        return Declaration("callback", match.group(1), plain, *parameters_of(match.group(2))[:1])
    match = re.match(r"(GCOLL_API |static inline )(.*?\b(\w+)(\([^{]*\)))(;$| \{)", plain)
    if match:
        names, receivers = parameters_of(match.group(4))
        return Declaration("function", match.group(3), match.group(2) + ";", names, receivers=receivers)
    return None


def read(folder: str, file: str) -> Header:
    with open(os.path.join(folder, file), encoding="ascii") as stream:
        text = stream.read()
    header = Header(file[:-2], "")
    section: Optional[Section] = None
    group: Optional[Group] = None
    place = 0
    is_first = True
    while True:
        gap = re.compile(r"\s*").match(text, place)
        assert gap is not None
        if gap.group().count("\n") > 1:
            group = None
        place = gap.end()
        if place == len(text):
            return header
        if text.startswith("/*", place):
            end = text.index("*/", place) + 2
            lines = comment_lines(text[place:end])
            title = re.match(r"---- (.*?) -+$", lines[0]) if lines else None
            if is_first:
                head = re.match(r"gcoll/\w+\.h - (.*)", lines[0])
                assert head is not None, file + ": the first comment must begin with its name and ' - '"
                header.comment = [head.group(1)] + lines[1:]
                is_first = False
            elif title:
                section = Section(title.group(1), lines[1:])
                header.sections.append(section)
                group = None
            elif re.compile(r"[ \t]*\n[ \t]*\n").match(text, end):
                (section.comment if section else header.comment).extend([""] + lines)
            else:
                group = Group(lines, section)
                header.groups.append(group)
            place = end
        elif text[place] == "#":
            end = place
            while text[end] != "\n" or text[end - 1] == "\\":
                end = text.index("*/", end) + 2 if text.startswith("/*", end) else end + 1
            line = text[place:end].replace("\\\n", "\n")
            comment = re.search(r"/\*.*?\*/", line, flags=re.S)
            lines = comment_lines(comment.group()) if comment else []
            if not lines and group and not group.declarations:
                lines = group.comment
            macro = re.match(r"#define (\w+(?:\([\w, ]*\))?)\s+(.*)", flat(line), flags=re.S)
            if macro and not macro.group(1).endswith("_H"):
                header.macros.append(Member([macro.group(1)], macro.group(2), lines))
            place = end
        elif re.compile(r"GCOLL_(BEGIN|END)_DECLS").match(text, place):
            place = text.index("DECLS", place) + 5
        else:
            end = place
            while text[end] not in ";{(":
                if text.startswith("/*", end):
                    end = text.index("*/", end) + 1
                end += 1
            while text[end] != ";":
                if text[end] in "({":
                    end = closing(text, end)
                    if text[end] == "}" and text.startswith("static inline", place):
                        break
                elif text.startswith("/*", end):
                    end = text.index("*/", end) + 1
                end += 1
            declaration = declaration_of(text[place:end + 1])
            if declaration:
                if group is None:
                    group = Group([], section)
                    header.groups.append(group)
                group.declarations.append(declaration)
            place = end + 1


def read_all(folder: str) -> List[Header]:
    """All public headers, in the order in which gcoll/gcoll.h lists them for reading."""
    files = [name for name in sorted(os.listdir(folder)) if name.endswith(".h")]
    headers = {name[:-2]: read(folder, name) for name in files if name != "export.h"}
    order = [match.group(1) for line in headers["gcoll"].comment
             for match in [re.match(r"\s+gcoll/(\w+)\.h\s", line)] if match]
    return [headers[name] for name in ["gcoll"] + order + sorted(set(headers) - set(order) - {"gcoll"})]
