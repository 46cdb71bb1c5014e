"""The package against the library's headers: structs, constants, functions, collectives, and the version."""

import os
import re
import subprocess
import unittest

import gcoll
from gcoll import _buffers, _collectives, _context, _library, _store

SOURCE = os.environ["GCOLL_TREE"]


def headers():
    folder = os.path.join(SOURCE, "gcoll")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".h"):
            with open(os.path.join(folder, name)) as file:
                yield name, re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)


def exported(*names):
    """The functions that headers declare."""
    found = set()
    for name, text in headers():
        if not names or name in names:
            found.update(re.findall(r"GCOLL_API[^;]*?\b(gcoll_\w+)\s*\(", text))
    return found


class Layout(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        text = subprocess.run([os.environ["GCOLL_LAYOUT"]], check=True, stdout=subprocess.PIPE).stdout.decode()
        cls.facts = {}
        for line in text.splitlines():
            kind, name, value = line.split()
            cls.facts.setdefault(kind, {})[name] = int(value)

    def test_structs_have_the_same_fields_at_the_same_places(self):
        ours, theirs = {}, self.facts["offsetof"]
        for name, struct in _library.STRUCTS.items():
            for field in struct._fields_:
                ours["%s.%s" % (name, field[0])] = getattr(struct, field[0]).offset
        self.assertEqual(ours, theirs)

    def test_structs_have_the_same_sizes(self):
        import ctypes
        self.assertEqual({name: ctypes.sizeof(struct) for name, struct in _library.STRUCTS.items()},
                         self.facts["sizeof"])

    def test_statuses(self):
        theirs = {re.sub("GCOLL_(ERR_)?", "", name): value for name, value in self.facts["value"].items()
                  if re.match("GCOLL_(ERR_|OK|WOKEN)", name)}
        self.assertEqual({status.name: status.value for status in gcoll.Status}, theirs)

    def test_every_status_has_an_exception(self):
        for status in gcoll.Status:
            if status not in (gcoll.Status.OK, gcoll.Status.WOKEN):
                error = gcoll._errors.error_of(status, "x")
                self.assertIsNot(type(error), gcoll.Error)
                self.assertEqual(error.status, status)

    def test_names_of_types_operations_and_collectives(self):
        self.assertEqual({name: k for k, name in enumerate(_buffers.TYPE_NAMES)}, self.facts["type"])
        self.assertEqual(_collectives.OPS, self.facts["op"])
        self.assertEqual({name: k for k, name in enumerate(_collectives.COLLECTIVES)}, self.facts["collective"])

    def test_limits_and_flags(self):
        value = self.facts["value"]
        self.assertEqual(_collectives.USER_OP, value["GCOLL_USER"])
        self.assertEqual(_collectives._MAX_ELEMENT_BYTES, value["GCOLL_MAX_ELEMENT_BYTES"])
        self.assertEqual(_collectives._MAX_LIST, value["GCOLL_MAX_LIST"])
        self.assertEqual(1024, value["GCOLL_MAX_BUFFERS"])
        self.assertEqual(32, value["GCOLL_MAX_EXCHANGES"])
        self.assertEqual(_store._VALUE_MAX, value["GCOLL_STORE_VALUE_MAX"])
        self.assertEqual(1, value["GCOLL_PUT_NOTIFY"])
        self.assertEqual(-1, value["GCOLL_COLOR_NONE"])
        self.assertEqual(_context._GROW_MOST, value["GCOLL_GROW_MOST"])
        self.assertEqual(_collectives.SAMES, {"ranks": value["GCOLL_SAME_ON_RANKS"],
                                              "runs": value["GCOLL_SAME_IN_RUNS"],
                                              "nowhere": value["GCOLL_SAME_NOWHERE"]})
        self.assertEqual([value["GCOLL_LOG_" + level.upper()] for level in _context._LEVELS], [0, 1, 2, 3])


class Functions(unittest.TestCase):
    def test_every_collective_of_the_library_can_be_called(self):
        named = set()
        for function in exported("collectives.h", "operations.h"):
            match = re.match("gcoll_(.*)_create$", function)
            if match and function not in ("gcoll_call_create",):
                named.add(match.group(1))
        self.assertGreater(len(named), 15)
        self.assertEqual(set(_collectives.C_COLLECTIVES), named)
        for method, _ in _collectives.C_COLLECTIVES.values():
            for form in (gcoll.Context, gcoll.Started, gcoll.Prepared):
                self.assertTrue(callable(getattr(form, method)))

    def test_declared_functions_are_in_the_headers(self):
        self.assertLessEqual(set(_library.FUNCTIONS), exported())

    def test_every_function_of_the_library_can_be_reached(self):
        """Each is called by the package, or is a form of one that is, or stands here with a reason."""
        in_c = "planners, plans and simulations are written and looked at in C, or by the tool gcoll_plan"
        python_has = "Python has its own means"
        reasons = {
            "gcoll_operation_wait": "Operation.start gives a Request, which waits",
            "gcoll_operation_test": "Operation.start gives a Request, which tests",
            "gcoll_pair_probe": "Context.probe looks at any number of ranks",
            "gcoll_collective_call_init": "the struct is zero but for its size",
            "gcoll_allreduce_options_init": "the options of gcoll_collective_call say all",
            "gcoll_broadcast_options_init": "the options of gcoll_collective_call say all",
            "gcoll_barrier_options_init": "the options of gcoll_collective_call say all",
            "gcoll_transport_parse": "Context takes the text, and its errors say what is allowed",
            "gcoll_transport_options": "gcoll_bench --help and docs/ list them",
            "gcoll_store_set_timeout": "Store.get and Store.wait have a timeout each",
            "gcoll_store_lacks": "an operation that a store lacks raises UnsupportedError",
            "gcoll_context_register": in_c, "gcoll_algorithm_check": in_c, "gcoll_algorithm_uses_arrival": in_c,
            "gcoll_context_device_times": "times of devices are for the benchmark",
            "gcoll_arrival_stats": "arrival_stats gives them as text",
            "gcoll_arrival_site_text": "arrival_stats gives them as text",
            "gcoll_memory_kind_name": python_has, "gcoll_memory_local_name": python_has,
            "gcoll_memory_local_parse": python_has, "gcoll_type_size": python_has, "gcoll_type_name": python_has,
            "gcoll_type_parse": python_has, "gcoll_op_name": python_has, "gcoll_op_parse": python_has,
            "gcoll_op_check": "the library checks each call itself", "gcoll_codec_parse": in_c,
        }
        reasons.update({name: in_c for name in exported("plan.h", "simulate.h")})
        forms = {"gcoll_" + name + form for name in _collectives.C_COLLECTIVES for form in ("", "_start", "_create")}
        self.assertGreater(len(exported()), 150)
        left = exported() - set(_library.FUNCTIONS) - forms - set(reasons)
        self.assertEqual(left, set(), "bind these, or say here why not")
        self.assertEqual(set(reasons) & set(_library.FUNCTIONS), set(), "these are bound")
        self.assertEqual(set(reasons) - exported(), set(), "these are no functions of the library")

    def test_every_declared_function_is_used(self):
        folder = os.path.dirname(gcoll.__file__)
        text = ""
        for name in os.listdir(folder):
            if name.endswith(".py"):
                with open(os.path.join(folder, name)) as file:
                    text += file.read()
        unused = [name for name in _library.FUNCTIONS if "api." + name not in text]
        self.assertEqual(unused, [])

    def test_numbers_of_parameters(self):
        for name, text in headers():
            for function, parameters in re.findall(r"GCOLL_API[^;]*?\b(gcoll_\w+)\s*\(([^;]*)\);", text):
                if function not in _library.FUNCTIONS:
                    continue
                flat = re.sub(r"\([^()]*\)", "", parameters)
                count = 0 if flat.strip() == "void" else flat.count(",") + 1
                self.assertEqual(len(_library.FUNCTIONS[function][1]), count, function)


class Version(unittest.TestCase):
    def test_package_library_and_header_have_one_version(self):
        with open(os.path.join(SOURCE, "gcoll", "version.h")) as file:
            parts = re.findall(r"GCOLL_VERSION_\w+ (\d+)", file.read())
        self.assertEqual(gcoll.__version__, ".".join(parts))
        self.assertEqual(gcoll.version(), gcoll.__version__)
        with open(os.path.join(SOURCE, "bindings", "python", "pyproject.toml")) as file:
            self.assertIn('version = "%s"' % gcoll.__version__, file.read())


if __name__ == "__main__":
    unittest.main()
