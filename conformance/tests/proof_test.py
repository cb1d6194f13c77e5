"""`posproof prove` as a user calls it: proof_test.py POSPROOF."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

POSPROOF = sys.argv.pop()


def prove(*arguments):
    return subprocess.run([POSPROOF, "prove", *arguments], capture_output=True, text=True)


class Proof(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = pathlib.Path(folder.name) / "state.json"

    def sampled(self, *arguments):
        done = prove("--sample", "40", "--state", str(self.state), *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return json.loads(self.state.read_text())

    def test_a_sample_of_every_table_has_nothing_wrong(self):
        state = self.sampled()
        # 40 chunks of 2^16 positions of 5 bases, of 128 + 48 + 40 pairs.
        self.assertEqual(state["values"], 40 * 65536 * 5 * 2 * 216)
        self.assertEqual((state["chunks"], state["drawn"]), (600, 2400))
        # sin 0 of every pair, and about one value in 700000.
        self.assertGreater(state["undecided"], 5 * 216)
        self.assertLess(state["undecided"], state["values"] // 100000)
        self.assertEqual((state["wrong"], state["examples"]), (0, []))

    def test_shards_add_up_to_the_whole(self):
        whole = self.sampled()
        parts = []
        for shard in ("1/7", "2/7", "3/7", "4/7", "5/7", "6/7", "7/7"):
            self.state = self.state.with_name(shard.replace("/", "of"))
            parts.append(self.sampled("--shard", shard))
        for key in ("chunks", "values", "undecided", "drawn"):
            self.assertEqual(sum(part[key] for part in parts), whole[key], key)

    def test_an_interrupted_run_goes_on_where_it_was(self):
        whole = self.sampled()
        self.state.write_text(json.dumps({**whole, "chunks": 590, "values": 7, "undecided": 0, "drawn": 0}))
        resumed = self.sampled()
        self.assertEqual((resumed["chunks"], resumed["drawn"]), (600, 40))
        self.assertEqual(resumed["values"], 7 + 10 * 65536 * 80)

    def test_a_state_with_something_wrong_fails(self):
        whole = self.sampled()
        self.state.write_text(json.dumps({**whole, "wrong": 1, "examples": ["this one"]}))
        done = prove("--sample", "40", "--state", str(self.state))
        self.assertEqual(done.returncode, 1)
        self.assertIn("WRONG this one", done.stdout)

    def test_another_state_is_refused_and_kept(self):
        whole = self.sampled()
        for change, message in (
            ({"shard": "1/2"}, "shard: found"),
            ({"sample": 3}, "sample: found"),
            ({"chunks": 601}, "chunks: found 601"),
            ({"wrong": "none"}, "wrong: found"),
            ({"isa": "sse2"}, "isa: found"),
        ):
            self.state.write_text(json.dumps({**whole, **change}))
            before = self.state.read_bytes()
            done = prove("--sample", "40", "--state", str(self.state))
            self.assertEqual(done.returncode, 2, change)
            self.assertIn(message, done.stderr)
            self.assertEqual(self.state.read_bytes(), before)
        self.state.write_text("not JSON")
        self.assertEqual(prove("--sample", "40", "--state", str(self.state)).returncode, 2)

    def test_a_wrong_call_is_told(self):
        for arguments, message in (
            (("--shard", "0/3"), "--shard: found 0/3"),
            (("--shard", "4/3"), "--shard: found 4/3"),
            (("--shard", "1"), "--shard: found '1'"),
            (("--shard", "1/2x"), "--shard: found '1/2x'"),
            (("--sample", "0"), "--sample"),
            (("--isa", "sse2"), "--isa: found 'sse2'"),
            (("--sample", "1", "--state", "/nowhere/state.json"), "/nowhere/state.json"),
        ):
            done = prove(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
