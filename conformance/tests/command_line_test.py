"""The command line as a user meets it: what it prints, and its exit status.

usage: command_line_test.py PATH_TO_POSPROOF
"""

import json
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

POSPROOF = sys.argv.pop(1) if len(sys.argv) > 1 else sys.exit(__doc__)


def posproof(*words, stdin=None):
    return subprocess.run([POSPROOF, *words], input=stdin, capture_output=True, text=True, timeout=120)


def as_json(*words):
    done = posproof(*words, "--format", "json")
    return done.returncode, json.loads(done.stdout)


# Turns the other way.
BACKWARDS = """
import sys
sys.path.insert(0, {python!r})
import numpy, posproof

def rope(parameters, x, positions):
    d = parameters["head_dim"]
    angle = -positions[..., None, None] * 10000.0 ** (-numpy.arange(0, d, 2) / d)
    a, b, cos, sin = x[..., : d // 2], x[..., d // 2 :], numpy.cos(angle), numpy.sin(angle)
    return numpy.concatenate((a * cos - b * sin, b * cos + a * sin), -1)

takes = dict(layout=["half"], rope_theta=[10000], inverse=[False], **{{"rope_scaling.rope_type": ["default"]}})
refused = posproof.Unsupported
def careful(parameters, x, positions):
    if parameters.get("rotary_dim", x.shape[-1]) != x.shape[-1] or "partial_rotary_factor" in parameters:
        raise refused("partial")
    return rope(parameters, x, positions)

posproof.serve({{"rope.apply": careful}}, name="backwards", parameters={{"rope.apply": takes}})
"""


class Laws(unittest.TestCase):
    LAW = "rope/the_first_pair_turns_by_one_radian_per_position"

    def test_are_counted_with_the_promised_fields(self):
        status, report = as_json("verify", "builtin:plain", "--scheme", "learned", "--laws", "20")
        self.assertEqual(status, 0)
        self.assertGreater(len(report["laws"]), 5)
        for law in report["laws"]:
            self.assertEqual(set(law), {"law", "verdict", "tests", "message", "counterexample", "reproduce"})
            self.assertEqual((law["verdict"], law["counterexample"]), ("pass", None), law)
            self.assertGreaterEqual(law["tests"], 20)
        self.assertEqual(as_json("verify", "builtin:plain", "--scheme", "learned")[1]["laws"], [])

    def test_one_law_by_name_asks_no_case(self):
        status, report = as_json("verify", "builtin:plain", "--case", self.LAW)
        self.assertEqual((status, len(report["laws"]), report["results"]), (0, 1, []))

    def test_a_counterexample_is_replayed_from_one_printed_line_and_from_its_file(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "backwards.py")
            program.write_text(BACKWARDS.format(python=str(pathlib.Path("implementations/python").resolve())))
            command = f"cmd:/usr/bin/python3 {program}"
            done = posproof("verify", command, "--operation", "rope.apply", "--laws", "60", "--seed", "11",
                            "--report", folder, "--format", "json")
            self.assertEqual(done.returncode, 1, done.stderr)
            laws = {law["law"]: law for law in json.loads(done.stdout)["laws"]}
            found = laws[self.LAW]
            self.assertEqual(found["verdict"], "fail")
            self.assertEqual(laws["rope/rotation_preserves_the_norm_of_every_pair"]["verdict"], "pass")
            self.assertIn("--laws 60 --seed 11 --case", found["reproduce"])

            words = shlex.split(found["reproduce"])
            self.assertEqual(words[:2], ["posproof", "verify"])
            status, again = as_json(*words[1:])
            self.assertEqual(status, 1)
            self.assertEqual(again["laws"], [found])

            file = pathlib.Path(folder, "counterexamples", self.LAW.replace("/", ".") + ".json")
            status, cases = as_json("verify", command, "--case", str(file))
            self.assertEqual((status, cases["results"][0]["verdict"]), (1, "fail"))
            self.assertEqual(as_json("verify", "builtin:plain", "--case", str(file))[0], 0)


class Compute(unittest.TestCase):
    def test_prints_the_true_value(self):
        done = posproof("compute", "rope.cos_sin", '{"head_dim":2}', "--input", "positions=0,1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("0.5403023058681398", done.stdout)
        self.assertIn("0.8414709848078965", done.stdout)

    def test_lists_take_the_shape_that_the_others_leave(self):
        done = posproof("compute", "rope.apply", '{"head_dim":4}', "--input", "x=1,2,3,4",
                        "--input", "positions=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("y f64 [1,1,4]", done.stdout)
        self.assertIn("-1.98411064855554", done.stdout)

    def test_takes_nested_arrays_and_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "x.json")
            path.write_text('{"dtype":"f32","shape":[1,1,2],"data":[1,0]}')
            done = posproof("compute", "rope.apply", '{"head_dim":2}', "--input", f"x=@{path}",
                            "--input", "positions=[1]", "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["outputs"]["y"]["dtype"], "f32")

    def test_shows_another_answer_beside_the_truth(self):
        done = posproof("compute", "alibi.slopes", '{"num_heads":8}', "--with", "builtin:plain")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("with builtin:plain\nslopes f64 [8]\n0.5 0.25", done.stdout)
        self.assertIn("pass: exact", done.stdout)
        done = posproof("compute", "alibi.slopes", '{"num_heads":8}', "--with", "cmd:cat", "--format", "json")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(json.loads(done.stdout)["with"]["verdict"], "error")

    def test_bad_calls_say_what_is_wrong_and_exit_with_2(self):
        for words, message in [
            (["rope.cos_sin", '{"head_dim":4,"rotary_dim":3}', "--input", "positions=1"], "rotary_dim: found 3"),
            (["rope.cos_sin", '{"head_dim":4,"theta":3}', "--input", "positions=1"], "theta: unknown parameter"),
            (["rope.cos_sin", '{"head_dim":4', "--input", "positions=1"], "is not JSON"),
            (["rope.cossin", "{}"], "operation: 'rope.cossin' is not one of"),
            (["rope.cos_sin", '{"head_dim":4}'], "positions: missing input"),
            (["rope.cos_sin", '{"head_dim":4}', "--input", "position=1"], "has no input 'position'"),
            (["rope.cos_sin", '{"head_dim":4}', "--input", "positions=x"], "'x' is not a number"),
            (["rope.cos_sin", '{"head_dim":4}', "--input", "positions=1.5"], "1.5"),
            (["rope.cos_sin", '{"head_dim":4}', "--input", "positions=2147483648"], "2147483648"),
            (["rope.cos_sin", '{"head_dim":4}', "--input", "positions=@/nonexistent"], "/nonexistent"),
            (["rope.cos_sin", '{"head_dim":4}', "--input", "positions=[[1],[2,3]]"], "unequal"),
        ]:
            done = posproof("compute", *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(message, done.stderr)
            self.assertEqual(done.stdout, "")


class Serve(unittest.TestCase):
    def test_is_an_oracle(self):
        asked = ['{"cmd":"start","protocol":1}',
                 '{"cmd":"run","id":5,"operation":"alibi.slopes","parameters":{"num_heads":2},"inputs":{}}',
                 '{"cmd":"run","id":6,"operation":"alibi.slopes","parameters":{"num_heads":0},"inputs":{}}',
                 '{"cmd":"stop"}']
        done = posproof("serve", "builtin:reference", stdin="\n".join(asked) + "\n")
        started, slopes, refused = map(json.loads, done.stdout.splitlines())
        self.assertEqual(done.returncode, 0)
        self.assertEqual(started["protocol"], 1)
        self.assertEqual(slopes["outputs"]["slopes"]["data"], [0.0625, 0.00390625])
        self.assertEqual(refused["id"], 6)
        self.assertIn("num_heads", refused["refused"])

    def test_of_a_wrapped_program_is_judged_like_the_program(self):
        status, report = as_json("verify", f"cmd:{POSPROOF} serve builtin:plain64", "--operation", "alibi.bias")
        self.assertEqual(status, 0)
        self.assertGreater(report["summary"]["pass"], 10)


class Verify(unittest.TestCase):
    def test_reports_have_the_promised_fields(self):
        status, report = as_json("verify", "builtin:plain", "--scheme", "rope")
        self.assertEqual(status, 0)
        self.assertEqual(report["implementation"]["name"], "builtin:plain")
        self.assertEqual(set(report["summary"]), {"pass", "convention", "unsupported", "refused", "fail",
                                                  "error", "crash", "timeout", "waived"})
        self.assertEqual(report["grade"]["rope.apply"], "P2")
        self.assertEqual(report["grades"]["rope.apply"]["f64"], "P2")
        self.assertEqual(set(report["results"][0]),
                         {"case", "operation", "verdict", "grade", "message", "worst", "reproduce"})
        self.assertEqual(report["laws"], [])
        self.assertEqual(report["diagnosis"], [])

    def test_the_replay_command_runs_just_that_case(self):
        _, report = as_json("verify", "builtin:plain", "--operation", "t5.bucket")
        words = report["results"][3]["reproduce"].split()
        self.assertEqual(words[:2], ["posproof", "verify"])
        status, replayed = as_json(*words[1:])
        self.assertEqual(status, 0)
        self.assertEqual([r["case"] for r in replayed["results"]], [report["results"][3]["case"]])

    def test_writes_reports_and_counterexamples_that_replay(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "wrong.py")
            program.write_text(
                "import json\n"
                "print(json.dumps({'protocol': 1, 'implementation': {'name': 'wrong', 'version': '1', 'language': 'python'},"
                " 'operations': {'alibi.slopes': {}}}), flush=True) if input() else 0\n"
                "while True:\n"
                "    r = json.loads(input())\n"
                "    if r['cmd'] == 'stop': break\n"
                "    n = max(r['parameters']['num_heads'], 1)\n"
                "    print(json.dumps({'id': r['id'], 'outputs': {'slopes': {'dtype': r['parameters'].get('dtype', 'f64'),"
                " 'shape': [n], 'data': [2.0 ** -(8 * h / n) for h in range(n)]}}}), flush=True)\n")
            name = f"cmd:/usr/bin/env python3 {program}"
            done = posproof("verify", name, "--report", f"{folder}/out")
            self.assertEqual(done.returncode, 1)
            self.assertIn("FAIL alibi.slopes", done.stdout)
            xml.etree.ElementTree.parse(f"{folder}/out/junit.xml")
            report = json.loads(pathlib.Path(folder, "out/report.json").read_text())
            self.assertIsNone(report["grade"]["alibi.slopes"])
            found = sorted(pathlib.Path(folder, "out/counterexamples").iterdir())
            self.assertEqual(len(found), report["summary"]["fail"] + report["summary"]["error"])
            self.assertGreater(report["summary"]["refused"] + report["summary"]["fail"], 20)
            for path in found:  # those that had to be refused among them
                status, replayed = as_json("verify", name, "--case", str(path))
                self.assertEqual(status, 1)
                self.assertEqual(replayed["results"][0]["case"], path.stem)
            refusal = next(json.loads(path.read_text()) for path in found if '"refused"' in path.read_text())
            del refusal["result"]
            program.with_name("case.json").write_text(json.dumps(refusal))
            done = posproof("verify", name, "--case", f"{folder}/case.json")
            self.assertEqual(done.returncode, 2)
            self.assertIn("num_heads: found", done.stderr)

    def test_a_fixture_file_is_a_set_of_cases(self):
        status, report = as_json("verify", "builtin:plain64", "--case", "fixtures/chapter.json")
        self.assertEqual(status, 0)
        self.assertEqual(report["summary"]["pass"], 7)

    def test_programs_that_do_not_play_get_a_verdict_and_no_hang(self):
        for command, verdict in [("false", "crash"), ("cat", "error"), ("sleep 1000", "timeout"),
                                 ("printf half", "crash")]:
            begun = time.monotonic()
            status, report = as_json("verify", f"cmd:{command}", "--timeout", "0.5", "--scheme", "alibi")
            self.assertEqual(status, 1, command)
            self.assertEqual(report["summary"][verdict], len(report["results"]), command)
            self.assertGreater(len(report["results"]), 0)
            self.assertTrue(report["start_failure"])
            self.assertLess(time.monotonic() - begun, 30)

    def test_bad_calls_say_what_is_wrong_and_exit_with_2(self):
        for words, message in [
            (["builtin:plane"], "builtin:plain"),
            (["plain"], "neither builtin:NAME nor cmd:"),
            (["cmd:no-such-program-anywhere"], "no-such-program-anywhere"),
            (["builtin:plain", "--scheme", "ropes"], "'ropes' is not one of"),
            (["builtin:plain", "--operation", "rope"], "'rope' is not one of"),
            (["builtin:plain", "--case", "rope-apply-00000000"], "no id of a case, name of a law or file"),
            (["builtin:plain", "--case", "rope/no_such_law"], "no id of a case, name of a law or file"),
            (["builtin:plain", "--laws", "0"], "--laws"),
            (["builtin:plain", "--laws", "5", "--seed", "x"], "--seed"),
            (["builtin:plain", "--grade", "P4"], "'P4' is not one of"),
            (["builtin:plain", "--recipe", "hf"], "'hf' is not one of"),
            (["builtin:plain", "--waivers", "/nonexistent"], "/nonexistent"),
            (["builtin:plain", "--timeout", "0"], "--timeout"),
            (["builtin:plain", "--timeout", "nan"], "--timeout"),
            (["builtin:plain", "--grade", "P1", "--recipe", "hf_f32"], "--grade and --recipe"),
            (["builtin:plain", "--report", "README.md"], "--report: README.md"),
            (["builtin:plain", "--format", "xml"], "--format"),
            (["builtin:plain", "--frobnicate"], "--frobnicate"),
            ([], "IMPLEMENTATION"),
        ]:
            done = posproof("verify", *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(message, done.stderr)

    def test_waivers_that_match_nothing_fail_the_run(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write('[{"case": "alibi-slopes-00000000", "reason": "stale"}]')
            file.flush()
            done = posproof("verify", "builtin:plain", "--operation", "alibi.slopes", "--waivers", file.name)
            self.assertEqual(done.returncode, 1)
            self.assertIn("matches no failure", done.stdout)
            file.seek(0)
            file.write('[{"case": "a", "kind": "b", "reason": ""}]')
            file.truncate()
            file.flush()
            done = posproof("verify", "builtin:plain", "--waivers", file.name)
            self.assertEqual(done.returncode, 2)
            self.assertIn("waiver 0", done.stderr)


ANSWERING = """
import json, os, subprocess, sys
for line in sys.stdin:
    r = json.loads(line)
    if r["cmd"] == "stop": break
    if r["cmd"] == "start":
        answer = {"protocol": 1, "implementation": {"name": "mini", "version": "1", "language": "python"},
                  "operations": %s}
    else:
        answer = {"id": r["id"], %s}
    print(json.dumps(answer), flush=True)
"""


class Mini(unittest.TestCase):
    """Small programs that declare `operations` and answer every case with `answer`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def mini(self, answer, operations="{'alibi.slopes': {}}"):
        path = self.folder / "mini.py"
        path.write_text(ANSWERING % (operations, answer))
        return f"cmd:{sys.executable} {path}"

    def test_a_waiver_does_not_make_good_what_never_started(self):
        waivers = self.folder / "waivers.json"
        case = as_json("verify", "builtin:plain", "--operation", "alibi.slopes")[1]["results"][0]["case"]
        waivers.write_text(json.dumps([{"case": case, "reason": "known"}]))
        done = posproof("verify", "cmd:false", "--case", case, "--waivers", str(waivers))
        self.assertEqual(done.returncode, 1)
        self.assertIn("CRASH at start", done.stdout)

    def test_names_that_do_not_exist_are_noted(self):
        done = posproof("verify", self.mini("'unsupported': 'no'", "{'alibi.slope': {}, 'alibi.slopes': "
                        "{'parameters': {'num_head': [8], 'rule': ['pres']}}}"), "--scheme", "alibi")
        for text in ("NOTE it declares alibi.slope,", "num_head for alibi.slopes", 'rule = "pres"'):
            self.assertIn(text, done.stdout)
        self.assertNotIn("NOTE", posproof("verify", "builtin:plain", "--scheme", "alibi").stdout)

    def test_two_answers_in_one_are_an_error_and_null_is_no_answer(self):
        for answer, verdict in [("'refused': 'a', 'unsupported': 'b'", "error"),
                                ("'refused': None, 'unsupported': 'b'", "unsupported")]:
            _, report = as_json("verify", self.mini(answer), "--operation", "alibi.slopes")
            self.assertEqual(report["summary"][verdict], len(report["results"]), answer)

    def test_reports_are_well_formed_whatever_a_message_holds(self):
        out = self.folder / "out"
        posproof("verify", self.mini(r"'error': '\uffff\ufffe\u0001<&'"), "--operation", "alibi.slopes",
                 "--report", str(out))
        xml.etree.ElementTree.parse(out / "junit.xml")

    def test_deep_nesting_is_no_end_of_the_program(self):
        deep = self.folder / "deep.json"
        deep.write_text("[" * 200000 + "]" * 200000)
        self.assertEqual(posproof("compute", "t5.bucket", "--input", f"relative_positions=@{deep}").returncode, 2)
        self.assertEqual(posproof("verify", "builtin:plain", "--case", str(deep)).returncode, 2)
        self.assertEqual(posproof("verify", "builtin:plain", "--waivers", str(deep)).returncode, 2)
        self.assertEqual(posproof("serve", "builtin:reference", stdin=deep.read_text() + "\n").returncode, 0)
        program = self.mini("'error': 0}; print('[' * 200000 + ']' * 200000, flush=True); _ = {")
        _, report = as_json("verify", program, "--operation", "alibi.slopes")
        self.assertEqual(report["summary"]["error"], len(report["results"]))

    def test_a_report_keeps_what_it_did_not_judge(self):
        out = self.folder / "out"
        wrong = self.mini("'outputs': {}")
        posproof("verify", wrong, "--operation", "alibi.slopes", "--report", str(out))
        found = sorted((out / "counterexamples").iterdir())
        (out / "counterexamples" / "mine.json").write_text("{}")
        posproof("verify", wrong, "--case", str(found[0]), "--report", str(out))
        self.assertEqual(len(list((out / "counterexamples").iterdir())), len(found) + 1)
        posproof("verify", "builtin:plain", "--operation", "alibi.slopes", "--report", str(out))
        self.assertEqual([path.name for path in (out / "counterexamples").iterdir()], ["mine.json"])

    def test_the_replay_of_a_file_names_the_file(self):
        case = self.folder / "it's.json"
        case.write_text('{"operation": "alibi.slopes", "parameters": {"num_heads": 5}, "inputs": {}}')
        _, report = as_json("verify", self.mini("'outputs': {}"), "--case", str(case))
        self.assertIn(str(case), shlex.split(report["results"][0]["reproduce"]))

    def test_an_interrupted_run_leaves_no_grandchild(self):
        mark = self.folder / "pid"
        command = f"cmd:sh -c 'sleep 300 & echo $! > {mark}; wait'"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            run = subprocess.Popen([POSPROOF, "verify", command], stdout=subprocess.DEVNULL)
            while not (mark.exists() and mark.read_text().strip()):
                time.sleep(0.02)
            run.send_signal(number)
            self.assertEqual(run.wait(timeout=20), -number)
            deadline = time.monotonic() + 20
            stat = pathlib.Path(f"/proc/{mark.read_text().strip()}/stat")
            while stat.exists() and stat.read_text().split()[2] != "Z" and time.monotonic() < deadline:
                time.sleep(0.02)
            self.assertFalse(stat.exists() and stat.read_text().split()[2] != "Z")
            mark.unlink()


class Everything(unittest.TestCase):
    def test_output_that_cannot_be_written_is_said(self):
        with open("/dev/full", "w") as full:
            for words in (["list"], ["compute", "alibi.slopes", '{"num_heads":3}']):
                done = subprocess.run([POSPROOF, *words], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 2)
                self.assertIn("cannot be written", done.stderr)

    def test_serving_what_never_starts_is_a_failure(self):
        self.assertEqual(posproof("serve", "cmd:false").returncode, 1)

    def test_version_and_list(self):
        self.assertRegex(posproof("--version").stdout, r"^posproof \d+\.\d+\.\d+$")
        listed = posproof("list")
        self.assertEqual(listed.returncode, 0)
        for word in ("rope.apply", "convention K-RL1", "alibi.bias", "builtin:plain64"):
            self.assertIn(word, listed.stdout)
        self.assertEqual(posproof().returncode, 2)


if __name__ == "__main__":
    unittest.main()
