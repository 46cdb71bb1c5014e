"""The manual pages against the headers, the programs and the sources. Reads headers and pages by means of its own, so
that a fault of tools/man/pages.py shows."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

TREE = os.environ["GCOLL_TREE"]
PAGES = os.environ["GCOLL_MAN_PAGES"]
PROGRAMS = dict(entry.split("=", 1) for entry in os.environ["GCOLL_MAN_PROGRAMS"].split("|") if entry)

GROFF = ("groff", "-man", "-ww", "-Tutf8", "-z")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def flat(text):
    return re.sub(r"\s+", " ", text).strip()


# ---- Headers

def headers(tree):
    folder = os.path.join(tree, "gcoll")
    return {name[:-2]: read(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.endswith(".h")}


def code(text):
    """A header without comments and lines of the preprocessor."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.M)


def last_name(declaration):
    return re.search(r"(\w+)(?: ?\[\w*\])?$", declaration.strip()).group(1)


def functions(tree):
    """Of each function its header, its declaration and the names of its parameters."""
    found = {}
    for header, text in headers(tree).items():
        plain = flat(code(text))
        for declaration in (re.findall(r"GCOLL_API ((?!extern)[^;{]*?\b(gcoll_\w+) ?\(([^;{]*)\)) ?;", plain) +
                            re.findall(r"static inline ([^;{]*?\b(gcoll_\w+)\(([^;{]*)\)) \{", plain)):
            whole, name, inside = declaration
            names = [] if inside == "void" else [last_name(part) for part in inside.split(",") if part.strip() != "..."]
            found[name] = (header, whole + ";", names)
    return found


def types(tree):
    """Of each struct and enumeration its header, and the names in it; and of each function type."""
    found = {}
    for header, text in headers(tree).items():
        plain = flat(code(text))
        for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (gcoll_\w+);", plain):
            members = []
            for field in body.split(";"):
                pointer = re.search(r"\(\*(\w+)\)", field)
                parts = [] if pointer else [part.strip() for part in field.split(",") if part.strip()]
                members += [pointer.group(1)] if pointer else [last_name(part) for part in parts]
            found[name] = (header, members)
        for body, name in re.findall(r"typedef enum \w+ \{(.*?)\} (gcoll_\w+);", plain):
            found[name] = (header, [part.split("=")[0].strip() for part in body.split(",") if part.strip()])
        for name, inside in re.findall(r"typedef [^;{]*?\(\*(gcoll_\w+)\)\(([^;]*)\);", plain):
            found[name] = (header, [last_name(part) for part in inside.split(",")])
    return found


def macros(tree):
    return {(header, name) for header, text in headers(tree).items() if header not in ("export", "gcoll")
            for name in re.findall(r"^#define (GCOLL_\w+)[ (]", text, flags=re.M) if not name.endswith("_H")}


# ---- Pages

def plain(source):
    """Source of a page as text."""
    text = re.sub(r"\\f[BIRP]", "", source)
    text = text.replace("\\&", "").replace("\\-", "-").replace("\\e", "\\")
    for name, letter in (("ga", "`"), ("ha", "^"), ("ti", "~"), ("aq", "'"), ("dq", '"'), ("bu", "*")):
        text = text.replace("\\(" + name, letter)
    return text


class Page:
    def __init__(self, pages, name, section):
        self.path = os.path.join(pages, "man" + section, "%s.%s" % (name, section))
        self.source = read(self.path)
        alias = re.match(r"\.so (\S+)\n", self.source)
        if alias:
            self.source = read(os.path.join(pages, alias.group(1)))
        parts = re.findall(r"^\.SH ([^\n]*)\n(.*?)(?=^\.SH |\Z)", self.source, flags=re.M | re.S)
        self.parts = {title: plain(text) for title, text in parts}

    def words(self):
        """What the page says outside of its name, synopsis and references."""
        return "\n".join(text for title, text in self.parts.items() if title not in ("NAME", "SYNOPSIS", "SEE ALSO"))

    def synopsis(self):
        return flat(re.sub(r"^\.(nf|fi|PP)$", "", self.parts["SYNOPSIS"], flags=re.M))


def page_files(pages):
    return [(name[:-2], name[-1]) for section in ("1", "3", "7") if os.path.isdir(os.path.join(pages, "man" + section))
            for name in sorted(os.listdir(os.path.join(pages, "man" + section)))]


def whole_pages(pages):
    """Paths of pages that are no other names of pages."""
    paths = [os.path.join(pages, "man" + section, "%s.%s" % (name, section)) for name, section in page_files(pages)]
    return [path for path in paths if not read(path).startswith(".so ")]


def says(text, name):
    return re.search(r"(?<!\w)%s(?!\w)" % re.escape(name), text) is not None


def problems_of_functions(tree, pages):
    problems = []
    for name, (header, declaration, parameters) in functions(tree).items():
        try:
            page = Page(pages, name, "3")
        except FileNotFoundError:
            problems.append("%s has no page" % name)
            continue
        if not says(page.parts.get("NAME", ""), name):
            problems.append("the page of %s has another name" % name)
        if "#include <gcoll/%s.h>" % header not in page.synopsis():
            problems.append("the page of %s does not include gcoll/%s.h" % (name, header))
        if declaration not in page.synopsis():
            problems.append("the synopsis of %s is not '%s'" % (name, declaration))
        problems += ["the page of %s does not say what %s is" % (name, parameter)
                     for parameter in parameters if not says(page.words(), parameter)]
    return problems


def problems_of_types(tree, pages):
    problems = []
    for name, (_, members) in types(tree).items():
        try:
            page = Page(pages, name, "3")
        except FileNotFoundError:
            problems.append("%s has no page" % name)
            continue
        problems += ["the page of %s does not name %s" % (name, member)
                     for member in members if not says(page.words(), member)]
    for header, macro in sorted(macros(tree)):
        if not says(Page(pages, "gcoll-" + header, "7").words(), macro):
            problems.append("the page of gcoll/%s.h does not name %s" % (header, macro))
    return problems


def problems_of_references(tree, pages):
    """Pages of nothing, references to nothing, and headers without a page."""
    there = set(page_files(pages))
    opaque = re.findall(r"typedef struct (gcoll_\w+) \1;", " ".join(headers(tree).values()))
    known = set(functions(tree)) | set(types(tree)) | set(opaque)
    problems = ["%s(3) is of nothing" % name for name, section in there if section == "3" and name not in known]
    wanted = {("gcoll" if header == "gcoll" else "gcoll-" + header, "7")
              for header in headers(tree) if header != "export"}
    problems += ["%s(7) is missing" % name for name, _ in wanted - there]
    for name, section in there:
        page = Page(pages, name, section)
        head = page.parts["NAME"].strip()
        if "\n" in head or " - " not in head or len(head.split(" - ", 1)[1]) < 8:
            problems.append("%s(%s) has no name and description in one line" % (name, section))
        for reference in re.findall(r"\b(gcoll[-\w]*)\(([137])\)", plain(page.source)):
            if reference not in there:
                problems.append("%s(%s) refers to %s(%s)" % (name, section, *reference))
    return problems


def sources(tree, folders, endings):
    for folder in folders:
        for place, _, names in os.walk(os.path.join(tree, folder)):
            for name in names:
                if name.endswith(endings):
                    yield read(os.path.join(place, name))


def problems_of_variables(tree, pages):
    """Environment variables that the library or a program reads, and those of the page."""
    chapter = plain(Page(pages, "gcoll-environment", "7").source).split(".SH ENVIRONMENT", 1)[1]
    said = set(re.findall(r"(?<!\w)GCOLL_[A-Z_]*[A-Z]", chapter))
    named = set()
    for text in sources(tree, ("gcoll", "transport", "cuda", "algorithms", "tools"), (".c", ".h")):
        named |= set(re.findall(r'"(GCOLL_[A-Z_]+)"', text))
    for text in sources(tree, ("bindings/python/gcoll",), (".py",)):
        named |= set(re.findall(r'environ\.get\("(GCOLL_[A-Z_]+[A-Z])"', text))
        if '"GCOLL_TORCH_" + field.name' in text:
            fields = re.findall(r"^    (\w+): Optional\[\w+\] = None$", text, flags=re.M)
            named |= {"GCOLL_TORCH_" + field.upper() for field in fields}
    return (["%s is read, and not on the page" % name for name in sorted(named - said)] +
            ["%s is on the page, and not read" % name for name in sorted(said - named)])


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True).stdout.decode()


def problems_of_programs(pages, programs):
    """Flags and words of --help that a program's page lacks."""
    problems = []
    for name, command in programs.items():
        page = Page(pages, name, "1").words()
        helps = [output(*shlex.split(command), "--help")]
        if name == "gcoll_plan":
            for subcommand in re.findall(r"^  ([a-z]+)  ", helps[0].split("\n\n")[1], flags=re.M):
                helps.append(output(*shlex.split(command), subcommand, "--help"))
        for text in helps:
            for word in re.findall(r"^  (--[a-z-]+|[a-z_]+=?) ", text, flags=re.M):
                if not re.search(r"(?<![\w-])%s(?![\w-])" % re.escape(word), page):
                    problems.append("%s(1) does not name %s" % (name, word))
    return problems


class Pages(unittest.TestCase):
    def test_functions(self):
        self.assertGreater(len(functions(TREE)), 220)
        self.assertEqual(problems_of_functions(TREE, PAGES), [])

    def test_types_and_constants(self):
        self.assertGreater(len(types(TREE)), 50)
        self.assertGreater(len(macros(TREE)), 40)
        self.assertEqual(problems_of_types(TREE, PAGES), [])

    def test_references(self):
        self.assertEqual(problems_of_references(TREE, PAGES), [])

    def test_items_of_a_list_are_whole(self):
        """The rules of types, whose second lines stand below the first ones."""
        text = Page(PAGES, "gcoll-types", "7").parts["DESCRIPTION"]
        self.assertNotIn("\n.nf\n", text.partition("\nConstants")[0].partition(".SS")[0])
        for rule in ("result is rounded once, to nearest even; a NaN stays a NaN.", "min(-0,+0) is -0 and max(-0,+0) is +0."):
            self.assertIn(rule, flat(text))

    def test_variables(self):
        self.assertEqual(problems_of_variables(TREE, PAGES), [])

    def test_programs(self):
        self.assertEqual(problems_of_programs(PAGES, PROGRAMS), [])

    def test_groff_has_no_warning(self):
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        self.assertEqual(output(*GROFF, *whole_pages(PAGES)), "")

    def test_mandoc_has_no_warning(self):
        if not shutil.which("mandoc"):
            self.skipTest("mandoc is not installed")
        result = subprocess.run(["mandoc", "-Tlint", "-Wwarning"] + whole_pages(PAGES), stdout=subprocess.PIPE)
        self.assertEqual(result.stdout.decode(), "")

    def test_mypy_finds_nothing(self):
        if subprocess.run([sys.executable, "-c", "import mypy"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("mypy is not installed")
        folder = os.path.join(TREE, "tools", "man")
        files = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".py")]
        result = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--python-version", "3.9", "--cache-dir",
                                 os.environ["GCOLL_MYPY_CACHE"]] + files, stdout=subprocess.PIPE, cwd=folder)
        self.assertEqual(result.returncode, 0, result.stdout.decode())

    def test_the_index_of_pages_can_read_their_names(self):
        if not shutil.which("lexgrog"):
            self.skipTest("lexgrog is not installed")
        found = output("lexgrog", *whole_pages(PAGES))
        for path in whole_pages(PAGES):
            self.assertIn('%s: "%s - ' % (path, os.path.basename(path)[:-2]), found)


class Checks(unittest.TestCase):
    """The checks above notice what they are for."""

    def setUp(self):
        self.place = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.place)
        self.pages = os.path.join(self.place, "pages")
        for section in ("1", "3", "7"):
            if os.path.isdir(os.path.join(PAGES, "man" + section)):
                shutil.copytree(os.path.join(PAGES, "man" + section), os.path.join(self.pages, "man" + section))

    def change(self, page, old, new):
        path = os.path.join(self.pages, page)
        text = read(path)
        self.assertIn(old, text)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))

    def test_a_missing_page(self):
        os.remove(os.path.join(self.pages, "man3", "gcoll_allreduce_start.3"))
        self.assertEqual(problems_of_functions(TREE, self.pages), ["gcoll_allreduce_start has no page"])
        self.assertNotEqual(problems_of_references(TREE, PAGES + "/nowhere"), [])

    def test_another_declaration(self):
        self.change("man3/gcoll_gather.3", "uint32_t root", "int32_t root")
        self.assertEqual([problem.split(" is not")[0] for problem in problems_of_functions(TREE, self.pages)],
                         ["the synopsis of gcoll_gather" + form for form in ("", "_start", "_create")])

    def test_a_parameter_without_a_word(self):
        self.change("man3/gcoll_pair_sendrecv.3", "recv_tag", "tag")
        self.assertIn("the page of gcoll_pair_sendrecv does not say what recv_tag is",
                      problems_of_functions(TREE, self.pages))

    def test_a_page_that_groff_does_not_like(self):
        if not shutil.which("groff"):
            self.skipTest("groff is not installed")
        self.change("man3/gcoll_put.3", ".SH ERRORS", ".QQ\n.SH ERRORS")
        self.assertIn("QQ", output(*GROFF, os.path.join(self.pages, "man3", "gcoll_put.3")))

    def test_a_header_that_does_not_describe_a_parameter(self):
        tree = os.path.join(self.place, "tree")
        for folder in ("gcoll", "docs"):
            os.makedirs(os.path.join(tree, folder))
            for name in os.listdir(os.path.join(TREE, folder)):
                if name.endswith((".h", ".md")):
                    shutil.copy(os.path.join(TREE, folder, name), os.path.join(tree, folder))
        path = os.path.join(tree, "gcoll", "region.h")
        text = read(path)
        declaration = re.search(r"GCOLL_API gcoll_status gcoll_put\([^;]*;", text).group()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(declaration, declaration.replace("offset", "place")))
        output(sys.executable, os.path.join(TREE, "tools", "man", "pages.py"), tree, self.pages)
        self.assertEqual(problems_of_functions(tree, self.pages), ["the page of gcoll_put does not say what place is"])

    def test_another_header(self):
        self.change("man3/gcoll_put.3", "gcoll/region.h", "gcoll/plan.h")
        self.assertEqual(problems_of_functions(TREE, self.pages),
                         ["the page of gcoll_put does not include gcoll/region.h"])

    def test_a_field_and_a_constant_that_are_missing(self):
        self.change("man3/gcoll_grow_options.3", "\\fImost\\fP", "\\fIleast\\fP")
        self.change("man7/gcoll-store.7", "GCOLL_STORE_LINGER_MS", "GCOLL_LINGER")
        self.assertEqual(problems_of_types(TREE, self.pages),
                         ["the page of gcoll_grow_options does not name most",
                          "the page of gcoll/store.h does not name GCOLL_STORE_LINGER_MS"])

    def test_a_page_of_nothing_and_a_reference_to_nothing(self):
        self.change("man7/gcoll.7", "gcoll\\-stats\\fP(7)", "gcoll\\-statistics\\fP(7)")
        shutil.copy(os.path.join(self.pages, "man3", "gcoll_put.3"), os.path.join(self.pages, "man3", "gcoll_putt.3"))
        problems = problems_of_references(TREE, self.pages)
        self.assertIn("gcoll_putt(3) is of nothing", problems)
        self.assertIn("gcoll(7) refers to gcoll-statistics(7)", problems)

    def test_a_variable_that_is_missing_and_one_that_is_not_read(self):
        self.change("man7/gcoll-environment.7", "GCOLL_WATCH", "GCOLL_LOOK")
        self.assertEqual(problems_of_variables(TREE, self.pages), ["GCOLL_WATCH is read, and not on the page",
                                                                   "GCOLL_LOOK is on the page, and not read"])

    def test_a_flag_that_is_missing(self):
        if "gcoll_trace" not in PROGRAMS:
            self.skipTest("there are no pages of programs")
        self.change("man1/gcoll_trace.1", "\\-\\-quiet", "\\-\\-silent")
        self.assertEqual(problems_of_programs(self.pages, {"gcoll_trace": PROGRAMS["gcoll_trace"]}),
                         ["gcoll_trace(1) does not name --quiet"])


if __name__ == "__main__":
    unittest.main()
