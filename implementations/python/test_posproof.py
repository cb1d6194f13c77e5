"""Tests of posproof.py: /usr/bin/python3 test_posproof.py"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from fractions import Fraction
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import posproof

# Significant bits, exponent of the smallest subnormal, largest finite value.
FORMATS = {
    "f32": (24, -149, Fraction(2**24 - 1) * 2**104),
    "f16": (11, -24, Fraction(65504)),
    "bf16": (8, -133, Fraction(255) * 2**120),
}


def nearest_even(value, dtype):
    """Exact rational rounding, an arithmetic of its own."""
    bits, smallest, largest = FORMATS[dtype]
    exact = Fraction(value)
    quantum = Fraction(2) ** smallest
    while abs(exact) >= quantum * 2**bits:
        quantum *= 2
    rounded = round(exact / quantum) * quantum
    if abs(rounded) > largest:
        return float("inf") if rounded > 0 else float("-inf")
    return float(rounded)


def bits(values, dtype):
    return base64.b64decode(posproof.encode(values, dtype)["data"])


class Rounding(unittest.TestCase):
    def near_ties(self, dtype):
        significant, smallest, _ = FORMATS[dtype]
        rng = np.random.default_rng(7)
        highest = {"f32": 128, "f16": 16, "bf16": 128}[dtype]
        for exponent in [*range(smallest - 2, smallest + significant + 3), -3, 0, 1, *range(highest - 3, highest + 1)]:
            for numerator in rng.integers(1, 2**significant, 6):
                grid = np.ldexp(float(2 * numerator + 1), int(exponent) - significant)
                yield from (grid, -grid, np.nextafter(grid, np.inf), np.nextafter(grid, 0.0))

    def test_ties_go_to_even_and_neighbours_to_their_side(self):
        for dtype in FORMATS:
            for value in self.near_ties(dtype):
                self.assertEqual(float(posproof.round_to(value, dtype)), nearest_even(value, dtype), (dtype, value.hex()))

    def test_rounds_once_where_a_step_through_f32_would_round_twice(self):
        # Just above a tie of the short type by less than f32 resolves.
        self.assertEqual(posproof.round_to(1 + 2.0**-8 + 2.0**-40, "bf16"), 1 + 2.0**-7)
        self.assertEqual(posproof.round_to(1 + 2.0**-11 + 2.0**-40, "f16"), 1 + 2.0**-10)
        self.assertEqual(posproof.round_to(np.longdouble(1) + np.longdouble(2) ** -8 + np.longdouble(2) ** -60, "bf16"),
                         1 + 2.0**-7 if np.finfo(np.longdouble).nmant > 52 else 1)

    def test_overflow_is_infinite_from_half_an_ulp_on(self):
        for dtype, (significant, _, largest) in FORMATS.items():
            edge = float(largest) * (1 + 2.0**-significant / (2 - 2.0 ** (1 - significant)))
            self.assertEqual(posproof.round_to(edge, dtype), np.inf, dtype)
            self.assertEqual(posproof.round_to(np.nextafter(edge, 0), dtype), float(largest), dtype)

    def test_signs_of_zero_survive(self):
        for dtype in posproof.FLOATS:
            self.assertTrue(np.signbit(posproof.round_to(-0.0, dtype)), dtype)
            if dtype != "f64":
                self.assertTrue(np.signbit(posproof.round_to(-1e-300, dtype)), dtype)

    def test_integers_are_never_made_of_fractions_or_cut(self):
        with self.assertRaises(TypeError):
            posproof.round_to([1.5], "int64")
        with self.assertRaises(OverflowError):
            posproof.round_to([2**31], "int32")
        self.assertEqual(posproof.round_to([-(2**31)], "int32"), -(2**31))


class Tensors(unittest.TestCase):
    SPECIALS = [0.0, -0.0, 1.5, -2.0, np.nan, np.inf, -np.inf]
    SUBNORMAL = {"f64": 5e-324, "f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}

    def test_round_trip_of_every_type_in_both_spellings(self):
        for dtype in posproof.FLOATS:
            values = np.array(self.SPECIALS + [self.SUBNORMAL[dtype]])
            for numbers in (False, True):
                tensor = json.loads(json.dumps(posproof.encode(values.reshape(2, 4), dtype, numbers), allow_nan=False))
                back = posproof.decode(tensor)
                self.assertEqual(back.shape, (2, 4))
                np.testing.assert_array_equal(back.ravel().astype("f8"), values, dtype)
                np.testing.assert_array_equal(np.signbit(back.ravel()), np.signbit(values), dtype)
        for dtype, edge in (("int32", 2**31 - 1), ("int64", 2**63 - 1)):
            for numbers in (False, True):
                back = posproof.decode(posproof.encode([-edge - 1, 0, edge], dtype, numbers))
                self.assertEqual(back.tolist(), [-edge - 1, 0, edge])
                self.assertEqual(back.dtype, dtype)

    def test_numpy_types_of_what_arrives(self):
        wanted = {"f64": "f8", "f32": "f4", "f16": "f2", "bf16": "f4"}
        for dtype, numpy_type in wanted.items():
            self.assertEqual(posproof.decode({"dtype": dtype, "shape": [1], "data": [1]}).dtype, numpy_type)

    def test_spelling_of_numbers(self):
        self.assertEqual(posproof.encode(self.SPECIALS, "f32", numbers=True)["data"],
                         [0.0, "-0", 1.5, -2.0, "NaN", "Infinity", "-Infinity"])
        self.assertEqual(posproof.encode(np.float32(0.1), "f32", numbers=True), {"dtype": "f32", "shape": [], "data": [0.10000000149011612]})

    def test_base64_is_little_endian(self):
        self.assertEqual(bits(1.0, "f64"), b"\0\0\0\0\0\0\xf0\x3f")
        self.assertEqual(bits(1.0, "f32"), b"\0\0\x80\x3f")
        self.assertEqual(bits(1.0, "f16"), b"\0\x3c")
        self.assertEqual(bits(1.0, "bf16"), b"\x80\x3f")
        self.assertEqual(bits([1], "int32"), b"\1\0\0\0")

    def test_f16_bits_pass_through_unchanged(self):
        payload = np.array([0x7E5A, 0x8000, 0x0001], "<u2").view("<f2")
        self.assertEqual(bits(payload, "f16"), payload.tobytes())

    def test_rows_come_in_order_from_a_transposed_array(self):
        self.assertEqual(posproof.decode(posproof.encode(np.arange(6.0).reshape(2, 3).T, "bf16")).tolist(), [[0, 3], [1, 4], [2, 5]])

    def test_empty(self):
        for dtype in ("f32", "bf16", "int64"):
            self.assertEqual(posproof.decode(posproof.encode(np.zeros((0, 3), "i8"), dtype, True)).shape, (0, 3))

    def test_malformed(self):
        good = {"dtype": "f32", "shape": [2], "data": [1, 2]}
        for change in ({"dtype": "f8"}, {"shape": [3]}, {"data": ["nan", 1]}, {"data": "AAA"}, {"data": "AAAA"}, {"data": "AAAA!AAAAAAA="}, {"shape": [-1]}):
            with self.assertRaises(ValueError, msg=change):
                posproof.decode({**good, **change})
        with self.assertRaises(ValueError):
            posproof.decode([1, 2])


ADAPTER = """
    import os, subprocess, sys
    sys.path.insert(0, HERE)
    import numpy, posproof

    def apply(parameters, x, positions):
        print("into the answers")
        os.write(1, b"into the answers\\n")
        subprocess.run(["echo", "into the answers"])
        return 2 * x + positions[0]

    def trouble(parameters, positions):
        kind = parameters["kind"]
        if kind == "int": return numpy.array([1, 2])
        if kind == "list": return [numpy.array([1, 2])] + [3]
        if kind == "read": return [len(sys.stdin.read())]
        if kind == "index": return positions[7]
        if kind == "value": raise ValueError("too far")
        if kind == "unsupported": raise posproof.Unsupported("not built in")
        if kind == "zero": return [1 // 0]
        if kind == "exit": sys.exit(3)

    posproof.serve({
        "rope.apply": apply,
        "sinusoidal.table": trouble,
        "t5.bucket": lambda parameters, relative_positions: relative_positions.astype("int32"),
        "rope.cos_sin": lambda parameters, positions: {"cos": [0.5 + 2**-30], "sin": [1]},
        "t5.bias": lambda parameters, table, **rest: [len(posproof.wire_dtype()), len(posproof.wire_dtype("table")), len(posproof.wire_dtype("q_positions"))],
        "rope.rotate": lambda parameters, x, cos, sin: x,
        "my.operation": lambda parameters: 1.0,
    }, name="mine", version="7", dtypes={"rope.apply": ["f32"]}, parameters={"rope.apply": {"layout": ["half"]}})
"""


class Serve(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        adapter = Path(self.folder.name) / "adapter.py"
        adapter.write_text(f"HERE = {str(HERE)!r}\n" + textwrap.dedent(ADAPTER))
        self.errors = tempfile.TemporaryFile()
        # A buffered stdout is the harder one to keep clean.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        self.process = subprocess.Popen([sys.executable, str(adapter)], env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors)

    def tearDown(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()
        self.folder.cleanup()

    def raw(self, line):
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def ask(self, **request):
        return self.raw(json.dumps(request).encode())

    def run_operation(self, operation, parameters=None, **inputs):
        answer = self.ask(cmd="run", id=17, operation=operation, parameters=parameters or {}, inputs=inputs)
        self.assertEqual(answer.pop("id"), 17)
        return answer

    def trouble(self, kind, **parameters):
        return self.run_operation("sinusoidal.table", {"kind": kind, **parameters}, positions=posproof.encode([0], "int64"))

    def test_start(self):
        about = self.ask(cmd="start", protocol=1)
        self.assertEqual(about["protocol"], 1)
        self.assertEqual(about["implementation"], {"name": "mine", "version": "7", "language": "python"})
        self.assertIs(about["base64"], True)
        self.assertEqual(about["operations"]["rope.apply"], {"dtypes": ["f32"], "parameters": {"layout": ["half"]}})
        self.assertEqual(about["operations"]["t5.bucket"], {"dtypes": ["f64", "f32", "f16", "bf16"], "parameters": {}})
        self.assertIn("error", self.ask(cmd="start", protocol=2))

    def test_outputs_take_the_type_of_the_float_inputs(self):
        for dtype in posproof.FLOATS:
            for numbers in (False, True):
                x = posproof.encode([1.0, 3.0], dtype, numbers)
                y = self.run_operation("rope.apply", x=x, positions=posproof.encode([1], "int32", numbers))["outputs"]["y"]
                self.assertEqual(y["dtype"], dtype)
                self.assertIsInstance(y["data"], str)
                self.assertEqual(posproof.decode(y).tolist(), [3, 7])

    def test_outputs_of_mixed_inputs_take_the_type_of_x(self):
        one = {dtype: posproof.encode([1.0], dtype) for dtype in posproof.FLOATS}
        self.assertEqual(self.run_operation("rope.rotate", cos=one["f32"], sin=one["f32"], x=one["bf16"])["outputs"]["y"]["dtype"], "bf16")

    def test_outputs_without_float_inputs_take_the_parameter_dtype(self):
        positions = posproof.encode([0], "int64")
        for dtype in ("f64", "f32", "bf16"):
            outputs = self.run_operation("rope.cos_sin", {"dtype": dtype}, positions=positions)["outputs"]
            self.assertEqual(outputs["cos"]["dtype"], dtype)
        outputs = self.run_operation("rope.cos_sin", positions=positions)["outputs"]
        self.assertEqual(posproof.decode(outputs["cos"]).tolist(), [0.5 + 2**-30])

    def test_buckets_are_int64(self):
        answer = self.run_operation("t5.bucket", relative_positions=posproof.encode([5], "int32"))
        self.assertEqual(answer["outputs"]["buckets"]["dtype"], "int64")
        self.assertEqual(posproof.decode(answer["outputs"]["buckets"]).tolist(), [5])

    def test_functions_learn_the_type_on_the_wire(self):
        answer = self.run_operation("t5.bias", table=posproof.encode([1.0], "bf16"), q_positions=posproof.encode([0], "int64"))
        self.assertEqual(answer["outputs"]["bias"]["dtype"], "bf16")
        self.assertEqual(posproof.decode(answer["outputs"]["bias"]).tolist(), [len("bf16"), len("bf16"), len("int64")])

    def test_value_and_index_errors_are_refusals(self):
        self.assertEqual(self.trouble("value"), {"refused": "too far"})
        self.assertIn("out of bounds", self.trouble("index")["refused"])

    def test_unsupported(self):
        self.assertEqual(self.trouble("unsupported"), {"unsupported": "not built in"})
        self.assertIn("alibi.bias", self.run_operation("alibi.bias")["unsupported"])

    def test_other_exceptions_are_errors_with_their_traceback_on_stderr(self):
        self.assertRegex(self.trouble("zero")["error"], "^ZeroDivisionError: integer division")
        self.assertEqual(self.trouble("missing return")["error"][:9], "TypeError")
        self.errors.seek(0)
        self.assertIn(b"Traceback", self.errors.read())

    def test_several_outputs_need_names(self):
        self.assertIn("dict", self.run_operation("my.operation")["error"])

    def test_an_input_that_is_no_tensor_is_an_error_not_a_refusal(self):
        self.assertIn("input positions", self.run_operation("sinusoidal.table", positions={"dtype": "f9", "shape": [], "data": []})["error"])

    def test_lines_that_are_no_request(self):
        for line in (b"garbage", b"[]", b"{}", b'{"cmd":"dance"}'):
            self.assertIn("error", self.raw(line))
        self.assertEqual(self.ask(cmd="start", protocol=1)["protocol"], 1)

    def test_nothing_but_answers_reaches_stdout(self):
        x, positions = posproof.encode([1.0], "f32"), posproof.encode([0], "int64")
        for _ in range(2):
            self.assertIn("outputs", self.run_operation("rope.apply", x=x, positions=positions))
        self.errors.seek(0)
        self.assertEqual(self.errors.read().count(b"into the answers"), 6)

    def test_a_function_that_reads_stdin_does_not_eat_requests(self):
        self.process.stdin.write(json.dumps({"cmd": "run", "id": 1, "operation": "sinusoidal.table", "parameters": {"kind": "read"},
                                             "inputs": {"positions": posproof.encode([0], "int64")}}).encode() + b"\n")
        self.assertEqual(self.ask(cmd="start", protocol=1)["id"], 1)
        self.assertEqual(json.loads(self.process.stdout.readline())["protocol"], 1)

    def test_stop_and_end_of_input_end_it(self):
        self.process.stdin.write(b'{"cmd":"stop"}\n')
        self.process.stdin.flush()
        self.assertEqual(self.process.wait(timeout=20), 0)
        self.assertEqual(self.process.stdout.read(), b"")

    def test_declaring_what_is_not_served_is_a_mistake(self):
        with self.assertRaisesRegex(ValueError, "rope.aply"):
            posproof.serve({"rope.apply": None}, "mine", dtypes={"rope.aply": ["f32"]})


class Oracle(unittest.TestCase):
    """Against an adapter that stands in for `posproof serve`: it echoes what it was asked."""

    STANDIN = """
        import sys
        sys.path.insert(0, HERE)
        import numpy, posproof
        if sys.argv[1:] != ["serve", "builtin:reference"]: sys.exit(2)

        def echo(parameters, **inputs):
            if "refuse" in parameters: raise ValueError(parameters["refuse"])
            if "break" in parameters: raise KeyError("k")
            if "die" in parameters: sys.exit(3)
            codes = ["f64", "f32", "f16", "bf16", "int32", "int64"]
            return {name: [codes.index(posproof.wire_dtype(name)), *values.ravel()] for name, values in inputs.items()}

        posproof.serve({"an.operation": echo}, name="stand-in")
    """

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.program = Path(self.folder.name) / "posproof"
        self.program.write_text(f"#!{sys.executable}\nHERE = {str(HERE)!r}\n" + textwrap.dedent(self.STANDIN))
        os.chmod(self.program, 0o755)
        self.addCleanup(self.folder.cleanup)

    def test_types_of_the_inputs(self):
        with posproof.oracle(self.program) as truth:
            got = truth("an.operation", None, a=[1, 2], b=[0.5], c=np.float32([2]), d=np.float16([3]), e=np.int32([4]))
            self.assertEqual({name: values.tolist() for name, values in got.items()},
                             {"a": [5, 1, 2], "b": [0, 0.5], "c": [1, 2], "d": [2, 3], "e": [4, 4]})
            got = truth("an.operation", {}, "bf16", x=[1.0], positions=[1])
            self.assertEqual((got["x"].tolist(), got["positions"].tolist()), ([3, 1], [5, 1]))
            self.assertEqual(truth("an.operation", {}, {"x": "f32"}, x=[1.0], y=[1.0])["y"].tolist(), [0, 1])
            self.assertEqual(truth("an.operation", {}, {"x": "f32"}, x=[1], y=[1.0])["x"].tolist(), [1, 1])

    def test_refusals_and_trouble(self):
        with posproof.oracle([str(self.program)]) as truth:
            with self.assertRaisesRegex(ValueError, "odd"):
                truth("an.operation", {"refuse": "odd"})
            with self.assertRaisesRegex(RuntimeError, "KeyError"):
                truth("an.operation", {"break": 1})
            with self.assertRaisesRegex(RuntimeError, "other.operation"):
                truth("other.operation")
            with self.assertRaisesRegex(RuntimeError, "without an answer"):
                truth("an.operation", {"die": 1})

    def test_a_program_that_does_not_speak_the_protocol(self):
        with self.assertRaisesRegex(RuntimeError, "without an answer"):
            with posproof.oracle("false"):
                pass
        with self.assertRaisesRegex(RuntimeError, "not an answer"):
            with posproof.oracle("echo"):
                pass
        with self.assertRaises(FileNotFoundError):
            with posproof.oracle(self.program.parent / "missing"):
                pass


class Usage(unittest.TestCase):
    def test_run_as_a_program_it_tells_how_to_use_it(self):
        ran = subprocess.run([sys.executable, str(HERE / "posproof.py")], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.assertEqual(ran.returncode, 0)
        self.assertIn(b"posproof.serve(", ran.stdout)


if __name__ == "__main__":
    unittest.main()
