"""The benchmark as a user calls it: its files, its messages, its exit status. No test asserts a time.

usage: bench_test.py PATH_TO_POSPROOF
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

POSPROOF = sys.argv.pop(1) if len(sys.argv) > 1 else sys.exit(__doc__)
QUICK = ("--seconds", "0.01", "--rounds", "1")
ONE = ("--work", "table_f32_row")

# Speaks as a peer does; a second work makes it leave.
FAKE = """
import json, sys
print(json.dumps({"peer": "fake", "version": "7", "works": ["table_f32_row", "table_f32_cache"]}), flush=True)
for line in sys.stdin:
    if json.loads(line)["work"] != "table_f32_row":
        sys.exit("Error: tired")
    print(json.dumps({"work": "table_f32_row", "min_ns": 1.5, "median_ns": 2.5, "runs": 3}), flush=True)
"""


def bench(*words, **environment):
    return subprocess.run([POSPROOF, "bench", *words], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.json, cls.svg, cls.page = (pathlib.Path(cls.folder.name, name) for name in ("b.json", "b.svg", "b.md"))
        cls.done = bench("--no-peers", *ONE, *QUICK, "--json", str(cls.json), "--picture", str(cls.svg),
                         "--markdown", str(cls.page))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_exit_status_and_nothing_else_left(self):
        self.assertEqual((self.done.returncode, self.done.stderr), (0, ""))
        self.assertEqual({file.name for file in pathlib.Path(self.folder.name).iterdir()}, {"b.json", "b.svg", "b.md"})

    def test_json_has_the_promised_fields(self):
        run = json.loads(self.json.read_text())
        self.assertEqual(set(run), {"date", "cpu", "isa", "compiler", "posproof", "rounds", "seconds", "roofs", "peers",
                                    "works"})
        self.assertEqual((run["peers"], run["rounds"], run["seconds"]), ([], 1, 0.01))
        self.assertIn(run["isa"], ("scalar", "avx2", "avx512"))
        self.assertRegex(run["date"], r"^\d{4}-\d\d-\d\d$")
        [work] = run["works"]
        self.assertEqual(set(work), {"work", "shape", "bytes", "flops", "ours", "floors", "peers", "required"})
        self.assertEqual((work["work"], work["bytes"], work["peers"]), ("table_f32_row", 512, {}))
        self.assertEqual(set(work["floors"]), {"non-temporal fill", "plain fill", "memset"})
        for timing in (work["ours"], *work["floors"].values()):
            self.assertEqual(set(timing), {"min_ns", "median_ns"})
            self.assertGreater(timing["min_ns"], 0)
            self.assertGreaterEqual(timing["median_ns"], timing["min_ns"])
        [required] = work["required"]
        self.assertEqual(set(required), {"against", "ratio_is", "limit", "ratio", "met"})
        self.assertEqual((required["limit"], required["ratio"], required["met"]), (0.06, None, None))

    def test_picture_is_xml_that_needs_nothing_else(self):
        root = xml.etree.ElementTree.parse(self.svg).getroot()
        self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
        text = self.svg.read_text()
        self.assertIn("prefers-color-scheme:dark", text)
        self.assertIn("table f32 row", text)
        self.assertNotIn("href", text)

    def test_page_says_what_wrote_it_and_shows_the_picture(self):
        page = self.page.read_text()
        self.assertTrue(page.startswith("# Performance\n"))
        self.assertIn("Written by `posproof bench --markdown FILE`", page)
        self.assertIn("](b.svg)", page)
        self.assertIn("| table_f32_row |", page)
        for place in (os.getcwd(), self.folder.name, os.uname().nodename):
            self.assertNotIn(place, page)
        for line in page.splitlines():
            if line.startswith("|"):
                self.assertGreaterEqual(line.count("|"), 4, line)

    def test_what_was_not_run_is_said(self):
        self.assertIn("not run: the peers (--no-peers)", self.done.stdout)
        self.assertRegex(self.done.stdout, r"not run +time of running product, required ≤ 0.06")


class Isas(unittest.TestCase):
    def test_a_chosen_one_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "b.json")
            done = bench("--no-peers", *ONE, *QUICK, "--isa", "scalar", "--json", str(file))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(file.read_text())["isa"], "scalar")


class Mistakes(unittest.TestCase):
    def test_a_work_that_is_unknown(self):
        done = bench("--no-peers", "--work", "table_f33")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no work has 'table_f33' in its name: table_f32_memory", done.stderr)

    def test_calls_that_are_wrong(self):
        for words, message in (
            (("--isa", "sse9"), "sse9"),
            (("--rounds", "0"), "--rounds"),
            (("--seconds", "0"), "--seconds"),
            (("--repetitions", "3"), "--repetitions"),
        ):
            done = bench("--no-peers", *ONE, *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn(message, done.stderr)

    def test_files_that_cannot_be_written_stop_it_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "file").touch()
            for option in ("--json", "--picture", "--markdown"):
                for place in ("none/b", "file/b", "."):
                    done = bench("--no-peers", *ONE, *QUICK, option, str(pathlib.Path(folder, place)))
                    self.assertEqual((done.returncode, done.stdout), (2, ""), (option, place))
                    self.assertIn(option, done.stderr)
            self.assertEqual([file.name for file in pathlib.Path(folder).iterdir()], ["file"])


class Peers(unittest.TestCase):
    def bench(self, peers, *words):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "fake.py").write_text(FAKE)
            pathlib.Path(folder, "peers.json").write_text(peers if isinstance(peers, str) else json.dumps(peers))
            file = pathlib.Path(folder, "b.json")
            done = bench(*words, *QUICK, "--json", str(file), POSPROOF_PEERS=str(pathlib.Path(folder, "peers.json")))
            return done, json.loads(file.read_text()) if file.exists() else None

    def test_are_timed_or_listed_as_not_run_with_the_reason(self):
        done, run = self.bench([
            {"name": "running product", "command": ["python3", "fake.py"]},
            {"name": "missing", "command": ["no-such-program"]},
            {"name": "mute", "command": ["true"]},
            {"name": "vain", "command": ["sh", "-c", "echo hello; cat"]},
            {"name": "broken", "command": ["python3", "-c", "import no_such_module"]},
            {"name": "chatty", "command": ["sh", "-c", "echo Error: no disk >&2; echo v20 >&2"]},
        ], *ONE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(run["peers"][0], {"name": "running product", "version": "7", "ran": True})
        self.assertEqual(run["works"][0]["peers"], {"running product": {"min_ns": 1.5, "median_ns": 2.5}})
        self.assertEqual(run["works"][0]["required"][0]["met"], False)
        why = {peer["name"]: peer["why"] for peer in run["peers"][1:] if peer["ran"] is False}
        self.assertIn("no-such-program", why["missing"])
        self.assertIn("exit status 0", why["mute"])
        self.assertIn("did not say what it times", why["vain"])
        self.assertIn("ModuleNotFoundError: No module named 'no_such_module'", why["broken"])
        self.assertEqual(why["chatty"], "did not start: Error: no disk")
        for name, reason in why.items():
            self.assertIn(f"not run: {name}: {reason}", done.stdout)

    def test_one_that_leaves_is_told_and_the_rest_goes_on(self):
        done, run = self.bench([{"name": "fake", "command": ["python3", "fake.py"]}], "--work", "table_f32")
        self.assertEqual((done.returncode, run["peers"][0]["ran"]), (0, False))
        self.assertIn("gave no time of table_f32_cache: Error: tired", run["peers"][0]["why"])
        timed = {work["work"]: work["peers"] for work in run["works"]}
        self.assertEqual(timed["table_f32_cache"], {})
        self.assertEqual(timed["table_f32_memory"], {})

    def test_a_list_that_is_none(self):
        for peers, found in (("[", "no JSON"), ("{}", "object"), ('[{"name": "a"}]', '{"name":"a"}')):
            done, run = self.bench(peers, *ONE)
            self.assertEqual((done.returncode, run), (2, None))
            self.assertIn(f"peers.json: found {found}, allowed is", done.stderr)


if __name__ == "__main__":
    unittest.main()
