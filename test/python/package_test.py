"""The package as users get it: docstrings, the guide's programs, types, and an installation by pip."""

import contextlib
import doctest
import importlib
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy  # noqa: F401
except ImportError:
    print("skipped: needs numpy (Debian: python3-numpy)")
    sys.exit(77)

import gcoll

TREE = os.environ["GCOLL_TREE"]
PACKAGE = os.path.join(TREE, "bindings", "python", "gcoll")
# torch.py is the backend's, which has its own tests and needs torch.
MODULES = sorted(name[:-3] for name in os.listdir(PACKAGE) if name.endswith(".py") and name != "torch.py")


def run(*command, **options):
    result = subprocess.run(command, timeout=150, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    return result.returncode, result.stdout.decode()


class Docstrings(unittest.TestCase):
    def test_examples_run(self):
        tried = 0
        for name in MODULES:
            module = gcoll if name == "__init__" else importlib.import_module("gcoll." + name)
            report = io.StringIO()
            with contextlib.redirect_stdout(report):
                failed, attempted = doctest.testmod(module)
            self.assertEqual(failed, 0, report.getvalue())
            tried += attempted
        self.assertGreater(tried, 80)

    def test_everything_public_has_a_docstring(self):
        for name in gcoll.__all__:
            value = getattr(gcoll, name)
            if not callable(value):
                continue
            self.assertTrue(value.__doc__, name)
            if isinstance(value, type):
                for attribute, member in vars(value).items():
                    if not attribute.startswith("_") and (callable(member) or isinstance(member, property)):
                        self.assertTrue(member.__doc__, "%s.%s" % (name, attribute))

    def test_every_collective_has_an_example(self):
        for name, member in vars(gcoll.Collectives).items():
            if not name.startswith("_"):
                self.assertIn(">>>", member.__doc__, name)


class Guide(unittest.TestCase):
    """docs/python.md: its programs run, alone or as two ranks."""

    @classmethod
    def setUpClass(cls):
        with open(os.path.join(TREE, "docs", "python.md")) as file:
            cls.text = file.read()

    def test_programs_run(self):
        programs = re.findall(r"```python\n(.*?)```", self.text, re.S)
        self.assertGreater(len(programs), 5)
        for program in programs:
            compile(program, "docs/python.md", "exec")
            size = 2
            with tempfile.TemporaryDirectory() as folder:
                ranks = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, cwd=folder,
                                          env=dict(os.environ, GCOLL_RANK=str(rank), GCOLL_SIZE=str(size),
                                                   GCOLL_STORE="file:" + folder)) for rank in range(size)]
                for rank in ranks:
                    out = rank.communicate(timeout=60)[0]
                    self.assertEqual(rank.returncode, 0, program + out.decode())

    def test_the_first_program_is_the_example(self):
        with open(os.path.join(TREE, "examples", "allreduce.py")) as file:
            self.assertIn("```python\n%s```" % file.read(), self.text)

    def test_methods_that_it_names_exist(self):
        for name in re.findall(r"`context\.(?:start\.|prepare\.)?(\w+)", self.text):
            self.assertTrue(hasattr(gcoll.Context, name) or name in ("start", "prepare", "progress_thread"), name)
        for name in re.findall(r"`gcoll\.(\w+)", self.text):
            self.assertTrue(hasattr(gcoll, name) or name in ("bench", "torch"), name)


class Types(unittest.TestCase):
    def test_mypy_finds_nothing(self):
        status, out = run(sys.executable, "-c", "import mypy")
        if status:
            self.skipTest("needs mypy (Debian: mypy)")
        status, out = run(sys.executable, "-m", "mypy", "--strict", "--python-version", "3.9", "--cache-dir",
                          os.environ["GCOLL_MYPY_CACHE"], *[os.path.join(PACKAGE, name + ".py") for name in MODULES],
                          cwd=os.path.join(TREE, "bindings", "python"))
        self.assertEqual((status, out.splitlines()[-1:]),
                         (0, ["Success: no issues found in %d source files" % len(MODULES)]), out)


class Installation(unittest.TestCase):
    def test_pip_installs_the_tree_without_network(self):
        for needed in ("venv", "ensurepip", "setuptools", "wheel"):
            if run(sys.executable, "-c", "import " + needed)[0]:
                self.skipTest("needs %s (Debian: python3-venv python3-setuptools python3-wheel)" % needed)
        with tempfile.TemporaryDirectory() as place:
            source, env = os.path.join(place, "source"), os.path.join(place, "env")
            # A copy: the build writes into the folder.
            subprocess.run(["cp", "-r", os.path.join(TREE, "bindings", "python"), source], check=True)
            outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            outside["PIP_NO_INDEX"] = "1"
            status, out = run(sys.executable, "-m", "venv", "--system-site-packages", env, env=outside)
            self.assertEqual(status, 0, out)
            status, out = run(os.path.join(env, "bin", "pip"), "install", "--no-build-isolation", source, env=outside)
            self.assertEqual(status, 0, out)
            python = os.path.join(env, "bin", "python")
            outside.update(GCOLL_RANK="0", GCOLL_SIZE="1", GCOLL_STORE="file:" + place)
            status, out = run(python, os.path.join(TREE, "examples", "allreduce.py"), env=outside, cwd=place)
            self.assertEqual((status, out), (0, "rank 0 of 1: the sum is 1\n"))
            status, out = run(python, "-c", "import gcoll; print(gcoll.__file__)", env=outside, cwd=place)
            self.assertTrue(out.startswith(env), out)
            self.assertTrue(os.path.exists(os.path.join(os.path.dirname(out.strip()), "py.typed")))

    def test_a_library_beside_the_package_is_found(self):
        with tempfile.TemporaryDirectory() as place:
            subprocess.run(["cp", "-r", PACKAGE, place], check=True)
            environment = {name: value for name, value in os.environ.items() if name != "GCOLL_LIBRARY"}
            environment["PYTHONPATH"] = place
            code = "import gcoll; print(gcoll.version(), gcoll._api.path)"
            status, out = run(sys.executable, "-c", code, env=environment)
            if status:  # else this system has gcoll installed
                self.assertIn("ImportError: gcoll: the C library was not found", out)
                self.assertIn("GCOLL_LIBRARY", out)
            os.symlink(os.environ["GCOLL_LIBRARY"], os.path.join(place, "gcoll", "libgcoll.so"))
            status, out = run(sys.executable, "-c", code, env=environment)
            self.assertEqual((status, out.split()[1:]), (0, [os.path.join(place, "gcoll", "libgcoll.so")]), out)

    def test_import_needs_no_library(self):
        status, out = run(sys.executable, "-c", "import gcoll", env=dict(os.environ, GCOLL_LIBRARY="/nowhere"))
        self.assertEqual((status, out), (0, ""))
        status, out = run(sys.executable, "-c", "import gcoll; gcoll.version()",
                          env=dict(os.environ, GCOLL_LIBRARY="/nowhere"))
        self.assertEqual(status, 1)
        self.assertIn("/nowhere", out)


if __name__ == "__main__":
    unittest.main()
