"""Does posproof notice? Eleven one-line changes to the numpy adapter, one at a time.

usage: numpy_mutants.py PATH_TO_POSPROOF

Each must make `posproof verify` exit 1 with the verdict on the operation that is wrong, and leave
the schemes that share no code with it alone.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

IMPLEMENTATIONS = Path(__file__).resolve().parents[2] / "implementations"
WRONG = {"convention", "fail", "error", "crash", "timeout"}

# Name, the line as it stands, the line as it becomes, operation, verdict.
MUTANTS = [
    (
        "layouts swapped",
        'first, second = (i, i + pairs) if layout == "half" else (2 * i, 2 * i + 1)',
        'first, second = (i, i + pairs) if layout == "interleaved" else (2 * i, 2 * i + 1)',
        "rope.apply",
        "convention",
    ),
    (
        "sign of sin",
        "s = -s if inverse else s",
        "s = s if inverse else -s",
        "rope.apply",
        "fail",
    ),
    (
        "inv_freq rounded to bf16",
        "inv_freq = 1.0 / base ** (np.arange(0, width, 2) / width)",
        'inv_freq = posproof.round_to(1.0 / base ** (np.arange(0, width, 2) / width), "bf16").astype(np.float64)',
        "rope.inv_freq",
        "fail",
    ),
    (
        "positions rounded to bf16",
        "position = positions.astype(np.float64)",
        'position = posproof.round_to(positions, "bf16").astype(np.float64)',
        "rope.cos_sin",
        "fail",
    ),
    (
        "base ignored",
        "base = float(rope_theta)",
        "base = 10000.0",
        "rope.inv_freq",
        "fail",
    ),
    (
        "last pair skipped",
        "i = np.arange(pairs)",
        "i = np.arange(pairs - 1)",
        "rope.apply",
        "fail",
    ),
    (
        "second batch row unrotated",
        "return np.stack([rotated(x[b], cos[b], sin[b], layout, inverse) for b in range(len(x))])",
        "return np.stack([x[b] if b == 1 else rotated(x[b], cos[b], sin[b], layout, inverse) for b in range(len(x))])",
        "rope.apply",
        "fail",
    ),
    (
        "clip one short",
        "return np.clip(distance, -max_distance, max_distance) + max_distance",
        "return np.clip(distance, -max_distance, max_distance - 1) + max_distance",
        "shaw.key_logits",
        "fail",
    ),
    (
        "slope of head h taken from h-1",
        "return slopes[heads, None, None] * distance",
        "return slopes[heads - 1, None, None] * distance",
        "alibi.bias",
        "fail",
    ),
    (
        "table row clamped instead of refused",
        "rows = inside(positions.astype(np.int64) + first, len(table))",
        "rows = np.clip(positions.astype(np.int64) + first, 0, len(table) - 1)",
        "learned.embed",
        "fail",
    ),
    (
        "log of a T5 bucket one ulp low",
        "while n**ranges < power:",
        "while n**ranges <= power:",
        "t5.bucket",
        "fail",
    ),
]


def verdicts(posproof, adapter):
    """Exit code and {operation: the wrong verdicts on it} of one judged adapter."""
    call = [posproof, "verify", f"cmd:/usr/bin/python3 '{adapter}'", "--format", "json"]
    ran = subprocess.run(call, stdout=subprocess.PIPE, timeout=300)
    try:
        results = json.loads(ran.stdout)["results"]
    except (ValueError, KeyError):
        raise SystemExit(f"{call}: exit {ran.returncode}, no results in {ran.stdout[:200]!r}")
    wrong = {}
    for result in results:
        if result["verdict"] in WRONG:
            wrong.setdefault(result["operation"], set()).add(result["verdict"])
    return ran.returncode, wrong


def trouble(returncode, wrong, operation, verdict):
    """What is missing from the answer to a mutant, or None."""
    scheme = operation.split(".")[0]
    unrelated = [o for o in wrong if o.split(".")[0] not in (scheme, "attention")]
    if returncode != 1:
        return f"exit {returncode}, not 1"
    if verdict not in wrong.get(operation, ()):
        return f"no {verdict} on {operation}; wrong are {wrong}"
    if unrelated:
        return f"{', '.join(unrelated)} is wrong too"
    return None


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    posproof = sys.argv[1]
    original = (IMPLEMENTATIONS / "numpy" / "adapter.py").read_text()
    noticed = 0
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(IMPLEMENTATIONS / "python", Path(folder) / "python")
        adapter = Path(folder) / "numpy" / "adapter.py"
        adapter.parent.mkdir()

        adapter.write_text(original)
        returncode, wrong = verdicts(posproof, adapter)
        if returncode != 0:
            raise SystemExit(f"the adapter itself is not clean: exit {returncode}, wrong {wrong}")

        for name, before, after, operation, verdict in MUTANTS:
            found = original.count(f" {before}\n")
            if found != 1:
                raise SystemExit(f"{name}: its line stands {found} times in the adapter, not once: {before}")
            adapter.write_text(original.replace(f" {before}\n", f" {after}\n"))
            missing = trouble(*verdicts(posproof, adapter), operation, verdict)
            noticed += missing is None
            print(f"{'noticed' if missing is None else 'MISSED '}  {name}: " + (missing or f"{verdict} on {operation}"), flush=True)
    print(f"{noticed} of {len(MUTANTS)} noticed")
    return 0 if noticed == len(MUTANTS) else 1


if __name__ == "__main__":
    sys.exit(main())
