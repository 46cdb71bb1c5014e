#!/usr/bin/env python3
"""Makes the manual pages: section 3 of the functions and types of the public headers, 7 of the headers, 1 of programs.

Usage: pages.py SOURCE OUTPUT [--program NAME=COMMAND]...

SOURCE is the tree. OUTPUT gets man1, man3 and man7; pages that are there from an earlier run, and are not made any
more, go. A function and those that share its comment, or are other forms of it, have one page. All names of a page lead
to it.
"""

import argparse
import os
import re
import shlex
import subprocess
from typing import Dict, List, Optional, Set, Tuple

import blocks
import headers
import roff

STATUSES = "INVALID|NO_MEMORY|UNSUPPORTED|TIMEOUT|IO|PEER|PROTOCOL|MISMATCH|ABORTED|NOT_FOUND|STATE|INTERNAL"
FORMS = ("_start", "_create")

# Programs: their document, which of its sections their page has, and what else to read.
PROGRAMS = {
    "gcoll_bench": ("benchmark.md", ["Where the ranks are", "What is timed", "Collectives and sizes", "Columns",
                                     "A page of the results", "How far it is", "The check", "Traces", "Resources", "Ranks that come late", "Exit status"],
                    ["gcoll_plan", "gcoll_trace"]),
    "gcoll_plan": ("gcoll_plan.md", ["Algorithms of your own"], ["gcoll_bench", "gcoll-plan", "gcoll-simulate"]),
    "gcoll_trace": ("trace.md", ["What gcoll_trace says", "Steps and slow links", "The files"],
                    ["gcoll_top", "gcoll-trace"]),
    "gcoll_top": ("watch.md", ["For programs, and on several hosts", "The socket"], ["gcoll_trace", "gcoll-stats"]),
}


def first_sentence(text: str) -> str:
    """What stands behind the name of a page: the first sentence, without the full stop."""
    text = re.sub(r"\s*\([^)]*\)", "", text).replace("`", "")
    sentence = re.split(r"[.;:](?:\s|$)", text, maxsplit=1)[0]
    if len(sentence) < 20:
        sentence = re.split(r"\.(?:\s|$)", text, maxsplit=1)[0]
    if not re.match(r"[A-Z]{2}", sentence):
        sentence = sentence[0].lower() + sentence[1:]
    return sentence


def full_statuses(text: str) -> str:
    """The names of statuses in full, as programs write them."""
    return re.sub(r"(?<![A-Z_/`\"])(%s)\b(?![_/])" % STATUSES, r"GCOLL_ERR_\1", text)


def wrap_declaration(text: str) -> List[str]:
    """A function's declaration in lines of a terminal's width."""
    lines = []
    line = ""
    for part in re.split(r"(?<=,) ", text):
        if line and len(line) + 1 + len(part) > roff.COLUMNS - 4:
            lines.append(line)
            line = "    " + part
        else:
            line += (" " if line else "") + part
    return lines + [line]


class Description:
    """A comment of functions, divided: what they do, what the parameters mean, and errors."""

    # A sentence behind the words on a parameter that is about the call again.
    OF_THE_CALL = re.compile(r"(Blocks|Costs|Takes|Makes|Works|Returns|Sends|Does) ")

    def __init__(self, lines: List[str], parameters: List[str]) -> None:
        self.blocks: List[blocks.Block] = []
        self.errors: List[blocks.Block] = []
        self.parameters: Dict[str, List[str]] = {}
        names = "|".join(sorted((re.escape(name) for name in parameters), key=len, reverse=True)) or "$^"
        one = r"\*?(?:%s)(?:\[\w*\])?" % names
        self.label = re.compile(
            r"(?:^|(?<=[.;:)] ))(?:(?P<names>%s(?:(?:, | and )%s)*)|"
            r"(?P<errors>Errors?\b[^.:]{0,60})|(?P<other>In place\b[^.:]{0,60})):(?: |$)" % (one, one))
        in_errors = False
        for block in blocks.comment_blocks(lines):
            block.text = full_statuses(block.text)
            block.items = [(full_statuses(term), full_statuses(text)) for term, text in block.items]
            if block.kind == "text":
                if in_errors and not block.gap:
                    self.errors.append(block)
                else:
                    in_errors = self._take(block)
            elif in_errors or (block.kind == "definitions" and block.items[0][0].startswith("GCOLL_ERR_")):
                self.errors.append(block)
                in_errors = True
            else:
                self.blocks.append(block)

    @staticmethod
    def _paragraph(text: str) -> blocks.Block:
        block = blocks.Block("text", True)
        block.text = text.strip()
        return block

    def _plain(self, text: str) -> Tuple[str, bool]:
        """Takes sentences that say an error out of a text. Also whether the last one goes on behind the text."""
        kept = []
        is_open = False
        for sentence in re.split(r"(?<=[.]) (?=\*?[A-Za-z`\"])", text.strip()):
            is_error = re.match(r"GCOLL_ERR_\w+[, :]|Errors? (are )?(those|as) of ", sentence)
            if is_error:
                self.errors.append(self._paragraph(sentence))
            elif sentence:
                kept.append(sentence)
            is_open = bool(is_error) and not sentence.rstrip().endswith(".")
        return " ".join(kept), is_open

    def _take(self, block: blocks.Block) -> bool:
        """A paragraph. Whether what follows belongs to errors."""
        matches = list(self.label.finditer(block.text))
        begin = matches[0].start() if matches else len(block.text)
        kept, is_open = self._plain(block.text[:begin])
        pieces = [kept] if kept else []
        for number, match in enumerate(matches):
            end = matches[number + 1].start() if number + 1 < len(matches) else len(block.text)
            text = block.text[match.end():end].strip()
            is_open = False
            if match.group("names"):
                text, is_open = self._plain(text)
                sentences = re.split(r"(?<=[.]) (?=[A-Z])", text)
                turn = next((i for i, sentence in enumerate(sentences) if i > 0 and self.OF_THE_CALL.match(sentence)),
                            len(sentences))
                pieces += sentences[turn:]
                for name in re.findall(r"\*?(\w+)(?:\[\w*\])?(?:, | and |$)", match.group("names")):
                    self.parameters.setdefault(name, []).append(self._sentence(" ".join(sentences[:turn])))
            elif match.group("errors"):
                label = match.group("errors")
                rest = label[len("Errors"):].lstrip(", ") if label.startswith("Errors") else ""
                rest = re.sub(r"^which ", "these ", rest)
                if rest:
                    text = (rest[0].upper() + rest[1:] + ": " + text).strip()
                if text:
                    self.errors.append(self._paragraph(text))
                is_open = not text or text.endswith(":")
            else:
                text, is_open = self._plain(match.group("other") + ": " + text)
                pieces.append(text)
        if pieces:
            self.blocks.append(self._paragraph(" ".join(pieces)))
        return is_open

    @staticmethod
    def _sentence(text: str) -> str:
        text = text.strip().rstrip(";,")
        return text if not text or text[-1] in ".:" else text + "."


class Manual:
    def __init__(self, source: str, output: str, programs: Dict[str, List[str]]) -> None:
        self.source, self.output, self.programs = source, output, programs
        self.form: blocks.Form = roff.Form()
        self.headers = headers.read_all(os.path.join(source, "gcoll"))
        self.by_name = {header.name: header for header in self.headers}
        parts = {macro.names[0]: macro.text for macro in self.by_name["version"].macros}
        self.version = ".".join(parts["GCOLL_VERSION_" + part] for part in ("MAJOR", "MINOR", "PATCH"))
        self.sections = {"gcoll-" + header.name: "7" for header in self.headers if header.name != "gcoll"}
        self.sections.update({name: "1" for name in programs})
        for header in self.headers:
            for group in header.groups:
                if any(declaration.kind != "opaque" for declaration in group.declarations):
                    self.sections.update({declaration.name: "3" for declaration in group.declarations})
        self.written: Set[str] = set()

    def known(self, name: str) -> Optional[str]:
        return self.sections.get(name)

    def write(self, page: blocks.Page, aliases: List[str]) -> None:
        folder = os.path.join(self.output, "man" + page.section)
        os.makedirs(folder, exist_ok=True)
        texts = {page.name: page.text()}
        texts.update({alias: ".so man%s/%s.%s\n" % (page.section, page.name, page.section) for alias in aliases})
        for name, text in texts.items():
            path = os.path.join(folder, "%s.%s" % (name, page.section))
            assert path not in self.written, path
            self.written.add(path)
            with open(path, "w", encoding="ascii") as file:
                file.write(text)

    def remove_others(self) -> None:
        for section in ("man1", "man3", "man7"):
            folder = os.path.join(self.output, section)
            for name in os.listdir(folder) if os.path.isdir(folder) else []:
                if os.path.join(folder, name) not in self.written:
                    os.remove(os.path.join(folder, name))

    # ---- Parameters that a header describes for all of its functions

    def includes(self, name: str) -> List[str]:
        """A header, and those that it includes."""
        with open(os.path.join(self.source, "gcoll", name + ".h"), encoding="ascii") as file:
            direct = re.findall(r'#include "gcoll/(\w+)\.h"', file.read())
        found = [name]
        for other in direct:
            found += [header for header in self.includes(other) if header not in found]
        return found

    def common_parameters(self, name: str) -> Dict[str, str]:
        found: Dict[str, str] = {}
        for header in self.includes(name):
            if header not in self.by_name:
                continue
            wanted = False
            for block in blocks.comment_blocks(self.by_name[header].comment[1:]):
                if block.kind == "definitions" and wanted:
                    for term, text in block.items:
                        for parameter in term.split(", "):
                            found.setdefault(parameter, full_statuses(text.rstrip(".") + "."))
                wanted = block.kind == "text" and block.text.startswith("Parameters") and block.text.endswith(":")
        return found

    # ---- Section 3

    def forms(self) -> Dict[str, List[headers.Declaration]]:
        """The started and the persistent form of each collective."""
        blocking = {d.name for group in self.by_name["collectives"].groups for d in group.declarations
                    if d.kind == "function"}
        found: Dict[str, List[headers.Declaration]] = {}
        for group in self.by_name["operations"].groups:
            for declaration in group.declarations:
                for form in FORMS:
                    base = declaration.name[:-len(form)]
                    if declaration.name.endswith(form) and base in blocking:
                        found.setdefault(base, []).append(declaration)
        return found

    @staticmethod
    def lines_of(declaration: headers.Declaration) -> List[str]:
        return wrap_declaration(declaration.text) if declaration.kind == "function" else declaration.text.split("\n")

    def related(self, words: blocks.Words, names: Set[str], more: List[str]) -> List[Tuple[str, str]]:
        """Pages that a text mentions, and more, but not those of `names`."""
        found = [(name, section) for name, section in words.mentioned if name not in names]
        for name in more:
            if name in self.sections and name not in names and (name, self.sections[name]) not in found:
                found.append((name, self.sections[name]))
        return sorted(found, key=lambda entry: (entry[1], entry[0]))

    def members(self, declaration: headers.Declaration, words: blocks.Words) -> str:
        out = []
        for member in declaration.members:
            parts = blocks.comment_blocks([full_statuses(line) for line in member.comment], offset=7)
            if parts and parts[0].kind == "text":
                text = parts[0].text
                if re.match(r"[a-z]+[ ,;]", text) and not text.startswith("auto "):
                    parts[0].text = text[0].upper() + text[1:]
                parts[0].text += "" if text[-1] in ".:," else "."
            out.append(self.form.member(member.names, parts, words))
        return self.form.join(out)

    def reference(self, header: headers.Header, group: headers.Group, forms: List[headers.Declaration]) -> None:
        declarations = group.declarations
        named = [d for d in declarations if d.kind != "opaque"]
        functions = [d for d in declarations + forms if d.kind in ("function", "callback")]
        name = named[0].name
        names = [d.name for d in declarations + forms]
        if not group.comment:
            raise SystemExit("gcoll/%s.h: %s has no comment" % (header.name, name))
        words = self.form.words(lambda other: None if other in names else self.known(other))
        page = self.form.page(name, "3", self.version)
        parameters = list(dict.fromkeys(p for d in functions for p in d.parameters))
        description = Description(group.comment, parameters)
        if not description.blocks:
            raise SystemExit("gcoll/%s.h: the comment of %s does not say what it is" % (header.name, name))
        page.title(names, first_sentence(description.blocks[0].text))
        synopsis = [(header.name, [self.lines_of(d) for d in declarations])]
        if forms:
            synopsis.append(("operations", [self.lines_of(d) for d in forms]))
        page.synopsis(synopsis)
        page.add("DESCRIPTION", self.form.render(description.blocks, words))
        if forms:
            paragraphs = [block for block in blocks.comment_blocks(self.by_name["operations"].comment[1:])
                          if block.text.startswith("NAME_")]
            page.sub("Forms", self.form.render(paragraphs, words))
        common = self.common_parameters("operations" if forms else header.name)
        receivers = {p for d in functions for p in d.receivers}
        entries: List[Tuple[List[str], List[str]]] = [] # terms, and what they mean
        for parameter in parameters:
            term = "*" + parameter if parameter in receivers else parameter
            texts = description.parameters.get(parameter) or ([common[term]] if term in common else [])
            if entries and texts == entries[-1][1]:
                entries[-1][0].append(term)
            elif texts:
                entries.append(([term], texts))
        page.add("PARAMETERS", self.form.join([self.form.parameter(terms, [words.inline(text) for text in texts])
                                               for terms, texts in entries]))
        for declaration in named:
            if declaration.members:
                page.add("FIELDS" if declaration.kind == "struct" else "VALUES", self.members(declaration, words))
        returns_status = any(d.text.startswith("gcoll_status ") for d in functions if d.kind == "function")
        if returns_status:
            page.add("RETURN VALUE", words.inline("`GCOLL_OK`, or another status, of which `gcoll_last_error` gives "
                                                  "the details. Outputs are written on success only."))
        errors = list(description.errors)
        if forms:
            errors += [self._every(block) for block in blocks.comment_blocks(header.comment[1:])
                       if block.text.startswith("Errors of every")]
        page.add("ERRORS", self.form.render(errors, words))
        if group.section and functions:
            page.add("NOTES", self.form.render(self.section_blocks(group.section), words))
        types = re.findall(r"\bgcoll_\w+", " ".join(d.text for d in functions))
        page.see_also(self.related(words, set(names), types + ["gcoll-" + header.name]))
        self.write(page, [other for other in names if other != name])

    @staticmethod
    def _every(block: blocks.Block) -> blocks.Block:
        block.text = full_statuses(re.sub(r"^Errors of every collective: ", "", block.text))
        return block

    @staticmethod
    def section_blocks(section: headers.Section) -> List[blocks.Block]:
        return blocks.comment_blocks([full_statuses(line) for line in section.comment])

    # ---- Section 7

    def overview(self, header: headers.Header) -> None:
        name = "gcoll-" + header.name
        words = self.form.words(lambda other: None if other == name else self.known(other))
        page = self.form.page(name, "7", self.version)
        page.title([name], self.summary(header))
        page.synopsis([(header.name, [])])
        lines = [full_statuses(line) for line in self.body(header)]
        if not lines or not lines[0].strip(): # the text begins with code
            summary = self.summary(header)
            lines = [summary[0].upper() + summary[1:] + (":" if lines else ".")] + lines
        page.add("DESCRIPTION", self.form.render(blocks.comment_blocks(lines), words))
        for section in header.sections:
            if section.comment:
                page.sub(section.title, self.form.render(self.section_blocks(section), words))
        for heading, kinds in (("FUNCTIONS", ("function",)), ("TYPES", ("struct", "enum", "callback"))):
            page.add(heading, self.table(header, kinds, words))
        constants = []
        for macro in header.macros:
            parts = blocks.comment_blocks([full_statuses(line) for line in macro.comment])
            value = macro.text if len(macro.text) < 40 else "" # else a macro of several lines
            constants.append(self.form.constant(macro.names[0], value, parts, words))
        page.add("CONSTANTS", self.form.join(constants))
        if header.name == "environment":
            self.add_document(page, "environment.md", None, words)
        others = ["gcoll-" + other for other in self.includes(header.name)]
        page.see_also(self.related(words, {name}, others) + [("gcoll", "7")])
        self.write(page, [])

    @staticmethod
    def summary(header: headers.Header) -> str:
        """The first sentence of a header, which may take several lines."""
        lines = header.comment
        blank = next((number for number, line in enumerate(lines) if not line.strip()), len(lines))
        return re.split(r"\.(?:\s|$)", " ".join(lines[:blank]), maxsplit=1)[0]

    @staticmethod
    def body(header: headers.Header) -> List[str]:
        """A header's comment behind its first paragraph."""
        lines = header.comment
        blank = next((number for number, line in enumerate(lines) if not line.strip()), len(lines))
        rest = re.sub(r"^[^.]*\.(?:\s|$)", "", " ".join(lines[:blank]), count=1)
        return ([rest] if rest.strip() else []) + lines[blank:]

    def table(self, header: headers.Header, kinds: Tuple[str, ...], words: blocks.Words) -> str:
        rows = []
        forms = self.forms()
        started = {d.name for declarations in forms.values() for d in declarations}
        for group in header.groups:
            wanted = [d for d in group.declarations if d.kind in kinds and d.name not in started]
            if wanted:
                parts = Description(group.comment, []).blocks
                if not parts:
                    raise SystemExit("gcoll/%s.h: %s has no comment" % (header.name, wanted[0].name))
                sentence = first_sentence(parts[0].text)
                rows.append(self.form.item(", ".join(words.inline(d.name) for d in wanted),
                                           words.inline(sentence[0].upper() + sentence[1:] + ".")))
        if header.name == "operations" and "function" in kinds:
            for base, declarations in forms.items():
                rows.append(self.form.item(", ".join(words.inline(d.name) for d in declarations),
                                           words.inline("Forms of %s." % base)))
        return self.form.join(rows)

    def add_document(self, page: blocks.Page, document: str, wanted: Optional[List[str]], words: blocks.Words) -> None:
        """Sections of a document. wanted: their titles, which must be there; None: all, and the text before them."""
        with open(os.path.join(self.source, "docs", document), encoding="utf-8") as file:
            chapters = re.split(r"^## ", file.read(), flags=re.M)
        found = {}
        for chapter in chapters[1:]:
            title, _, text = chapter.partition("\n")
            found[title.strip()] = text
        if wanted is None:
            page.add("ENVIRONMENT", self.form.render(blocks.markdown_blocks(chapters[0].split("\n")[1:]), words))
            for title, text in found.items():
                page.sub(title, self.form.render(blocks.markdown_blocks(text.split("\n")), words))
            return
        for title in wanted:
            if title not in found:
                raise SystemExit("docs/%s has no section '%s'" % (document, title))
            page.add(title.upper(), self.form.render(blocks.markdown_blocks(found[title].split("\n")), words))

    def opening(self, document: str) -> List[blocks.Block]:
        with open(os.path.join(self.source, "docs", document), encoding="utf-8") as file:
            return blocks.markdown_blocks(re.split(r"^## ", file.read(), flags=re.M)[0].split("\n")[1:])

    def front(self) -> None:
        header = self.by_name["gcoll"]
        words = self.form.words(self.known)
        page = self.form.page("gcoll", "7", self.version)
        page.title(["gcoll"], "collective operations without MPI")
        page.synopsis([("gcoll", [])], "cc app.c $(pkg-config --cflags --libs gcoll)")
        parts = blocks.comment_blocks([line for line in header.comment[1:]])
        listing = next(number for number, block in enumerate(parts) if block.text.startswith("Read on"))
        summary = self.summary(header)
        page.add("DESCRIPTION", self.form.join([words.inline(summary[0].upper() + summary[1:] + "."),
                                                self.form.render(parts[:listing], words, begins=False)]))
        rows = []
        for other in self.headers[1:]:
            rows.append(self.form.item(words.inline("gcoll/%s.h" % other.name), words.inline(self.summary(other) + ".")))
        page.add("PAGES", self.form.join(["From simple to advanced:"] + rows))
        page.add("PROGRAMS", self.form.join([self.form.item(words.inline(name), words.inline(text)) for name, text in (
            ("gcoll_bench", "Times and checks collective operations."),
            ("gcoll_plan", "Proves, draws, prices and compares algorithms without running them."),
            ("gcoll_trace", "Says from the files of a job's ranks where each rank was, and who keeps the others."),
            ("gcoll_top", "Shows what the ranks of this host do."))]))
        page.add("ENVIRONMENT", words.inline("gcoll/environment.h lists the variables that the library reads."))
        page.see_also(self.related(words, set(), []))
        self.write(page, [])

    # ---- Section 1

    def program(self, name: str, command: List[str]) -> None:
        document, wanted, more = PROGRAMS[name]
        words = self.form.words(lambda other: None if other == name else self.known(other))
        lines = self.help_of(command + ["--help"])
        opening = self.opening(document)
        page = self.form.page(name, "1", self.version)
        summary = {"gcoll_trace": "reads what the ranks of a job recorded",
                   "gcoll_top": "shows what the ranks of this host do"}
        head = re.match(r"%s - (.*)" % name, lines[0])
        page.title([name], head.group(1) if head else summary[name])
        usage = re.match(r"usage: (.*)", lines[0])
        if name == "gcoll_plan":
            usages = ["gcoll_plan SUBCOMMAND [FLAG...]"]
        else:
            usages = [usage.group(1) if usage else name + " [FLAG...]"]
        page.usage(usages)
        page.add("DESCRIPTION", self.form.render(opening, words))
        page.add("OPTIONS", self.form.render(blocks.help_blocks(lines[1:]), words).lstrip("\n"))
        if name == "gcoll_plan":
            for subcommand in re.findall(r"^  ([a-z]+)  +\S", "\n".join(lines), flags=re.M):
                text = self.help_of(command + [subcommand, "--help"])
                parts = blocks.help_blocks(text)
                for block in parts:
                    if block.kind == "heading":
                        block.kind, block.text = "text", block.text + ":"
                page.add("gcoll_plan " + subcommand, self.form.render(parts, words))
        self.add_document(page, document, wanted, words)
        page.see_also(self.related(words, {name}, more + ["gcoll-environment"]) + [("gcoll", "7")])
        self.write(page, [])

    @staticmethod
    def help_of(command: List[str]) -> List[str]:
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=60).stdout.decode("utf-8")
        return text.rstrip("\n").split("\n")

    def run(self) -> None:
        forms = self.forms()
        merged = {d.name for declarations in forms.values() for d in declarations}
        self.front()
        for header in self.headers[1:]:
            self.overview(header)
            for group in header.groups:
                group.declarations = [d for d in group.declarations if d.name not in merged]
                if any(d.kind != "opaque" for d in group.declarations):
                    others = [form for d in group.declarations for form in forms.get(d.name, [])
                              if header.name == "collectives"]
                    self.reference(header, group, others)
        for name, command in self.programs.items():
            self.program(name, command)
        self.remove_others()


def arguments_of(description: Optional[str]) -> Tuple[str, str, Dict[str, List[str]]]:
    """The command line: the tree, where to write, and programs with their commands."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("output")
    parser.add_argument("--program", action="append", default=[], help="NAME=COMMAND, whose --help is read")
    arguments = parser.parse_args()
    programs = {}
    for text in arguments.program:
        name, _, command = text.partition("=")
        programs[name] = shlex.split(command)
    return arguments.source, arguments.output, programs


def main() -> None:
    Manual(*arguments_of(__doc__)).run()


if __name__ == "__main__":
    main()
