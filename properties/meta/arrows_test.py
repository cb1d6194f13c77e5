"""arrows.py can fail: one wrong include per rule, each in a house that is right otherwise."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ARROWS = Path(__file__).with_name("arrows.py")

RIGHT = {
    "reference/core/tensor.hpp": [],
    "reference/core/registry.cpp": ["posproof/schemes.inc"],
    "reference/rope.hpp": ["reference/core/tensor.hpp"],
    "fixtures/rope.cpp": ["reference/rope.hpp", "posproof/schemes_with_cases.inc"],
    "conformance/judge.hpp": ["fixtures/core/case.hpp", "reference/core/tensor.hpp"],
    "conformance/builtin.cpp": ["implementations/plain/plain.hpp", "optimized/rope.hpp"],
    "conformance/cli/verify.cpp": ["properties/core/law.hpp", "conformance/judge.hpp"],
    "properties/rope.cpp": ["optimized/rope.hpp", "reference/rope.hpp"],
    "optimized/rope.cpp": ["optimized/core/isa.hpp", "hwy/highway.h", "rope.hpp"],
    "optimized/rope.hpp": [],
    "optimized/bench/peers.hpp": ["optimized/rope.hpp", "conformance/child.hpp", "fixtures/core/files.hpp"],
    "implementations/plain/plain.hpp": ["reference/core/tensor.hpp", "implementations/plain/rope.hpp"],
    "reference/tests/rope_test.cpp": ["conformance/judge.hpp"],
}

# A file, and an include that it may not have.
WRONG = [
    ("reference/core/truth.hpp", "reference/rope.hpp"),
    ("reference/core/truth.hpp", "../rope.hpp"),
    ("reference/rope.cpp", "fixtures/core/case.hpp"),
    ("reference/rope.cpp", "properties/core/law.hpp"),
    ("reference/rope.cpp", "conformance/judge.hpp"),
    ("reference/rope.cpp", "optimized/rope.hpp"),
    ("reference/rope.cpp", "implementations/plain/plain.hpp"),
    ("fixtures/rope.cpp", "conformance/judge.hpp"),
    ("fixtures/rope.cpp", "properties/core/law.hpp"),
    ("fixtures/rope.cpp", "optimized/rope.hpp"),
    ("properties/rope.cpp", "plugins/wavelet.hpp"),
    ("properties/rope.cpp", "conformance/judge.hpp"),
    ("properties/rope.cpp", "properties/../conformance/judge.hpp"),
    ("properties/rope.cpp", "fixtures/core/case.hpp"),
    ("properties/rope.cpp", "implementations/plain/plain.hpp"),
    ("implementations/plain/rope.hpp", "reference/rope.hpp"),
    ("implementations/plain/rope.hpp", "reference/core/truth.hpp"),
    ("implementations/plain/rope.hpp", "posproof/schemes.inc"),
    ("implementations/plain/rope.hpp", "fixtures/core/case.hpp"),
    ("optimized/rope.cpp", "reference/core/tensor.hpp"),
    ("optimized/rope.cpp", "conformance/judge.hpp"),
    ("optimized/core/isa.hpp", "posproof/schemes.inc"),
    ("optimized/bench/peers.hpp", "conformance/judge.hpp"),
    ("optimized/bench/peers.hpp", "reference/rope.hpp"),
    ("optimized/rope.cpp", "conformance/child.hpp"),
    ("attic/rope.cpp", "reference/rope.hpp"),
]


class Arrows(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)

    def write(self, path, lines):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        with open(self.root / path, "a") as file:
            file.writelines(line + "\n" for line in lines)

    def build(self):
        for path, includes in RIGHT.items():
            self.write(path, ["#pragma once"] + [f'#include "{include}"' for include in includes])

    def run_arrows(self):
        ran = subprocess.run([sys.executable, ARROWS, self.root], stdout=subprocess.PIPE, text=True)
        return ran.returncode, ran.stdout

    def test_a_house_that_is_right_passes(self):
        self.build()
        code, output = self.run_arrows()
        self.assertEqual(code, 0, output)
        self.assertIn("0 against the arrows", output)

    def test_each_wrong_include_is_named(self):
        for path, include in WRONG:
            for form in ('#include "{}"', "#  include <{}>"):
                if include.startswith("..") and "<" in form:
                    continue
                with self.subTest(path=path, include=include, form=form):
                    self.setUp()
                    self.build()
                    before = (self.root / path).read_text().count("\n") if (self.root / path).exists() else 0
                    self.write(path, [form.format(include)])
                    code, output = self.run_arrows()
                    self.assertEqual(code, 1, output)
                    self.assertIn(f"{path}:{before + 1}: includes ", output)
                    self.assertEqual(output.count(": includes "), 1, output)

    def test_a_tree_without_includes_does_not_pass(self):
        self.write("reference/rope.cpp", ["int nothing;", "#include <vector>"])
        code, output = self.run_arrows()
        self.assertEqual(code, 1)
        self.assertIn("nothing was checked", output)


if __name__ == "__main__":
    unittest.main()
