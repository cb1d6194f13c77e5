"""Is every claim of docs/claims.md made executable, and does what it names hold?

usage: claims.py PATH_TO_POSPROOF [CLAIMS.md]

A row names laws and ids of cases in backticks, or is *empirical* with a source. What is named must
exist, and must pass on the reference. Every section of the chapter and its quiz must be there.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "Quiz"]
EXPERIMENTS = "25"


def rows_of(text):
    """(section, claim, evidence) of every row of every table."""
    section = None
    for line in text.splitlines():
        if line.startswith("## "):
            section = line[3:].split(".")[0].strip()
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if not line.startswith("|") or line.startswith("|---") or cells[0] == "claim":
            continue
        if len(cells) != 2:
            yield section, line, ""
        else:
            yield section, *cells


def faults_of(text, known):
    faults, named, sections = [], [], set()
    for section, claim, evidence in rows_of(text):
        sections.add(section)
        names = re.findall(r"`([^`]+)`", evidence)
        empirical = re.fullmatch(r"\*empirical\*: .{10,}", evidence)
        if not names and not empirical:
            faults.append(f"section {section}: neither a test nor a source: {claim}")
        faults += [f"section {section}: {name} does not exist: {claim}" for name in names if name not in known]
        named += [name for name in names if name in known]
    faults += [f"section {section} has no row" for section in SECTIONS if section not in sections]
    return faults, sorted(set(named))


def known_names(posproof):
    """Names of laws and ids of cases."""
    listed = subprocess.run([posproof, "list"], capture_output=True, text=True, check=True).stdout
    laws = [line.split()[1] for line in listed.splitlines() if line.startswith("law ")]
    chapter = json.loads((ROOT / "fixtures" / "chapter.json").read_text())
    return set(laws) | {test["id"] for group in chapter["groups"] for test in group["tests"]}


def failures_of(posproof, named):
    command = [posproof, "verify", "builtin:reference", "--laws", EXPERIMENTS, "--format", "json"]
    for name in named:
        command += ["--case", name]
    ran = subprocess.run(command, capture_output=True, text=True)
    report = json.loads(ran.stdout)
    verdicts = {law["law"]: law["verdict"] for law in report["laws"]}
    verdicts |= {result["case"]: result["verdict"] for result in report["results"]}
    return [f"{name} is {verdicts.get(name, 'not run')}" for name in named if verdicts.get(name) != "pass"]


def main(posproof, claims=ROOT / "docs" / "claims.md"):
    faults, named = faults_of(Path(claims).read_text(), known_names(posproof))
    faults += failures_of(posproof, named)
    for fault in faults:
        print(fault)
    rows = len(list(rows_of(Path(claims).read_text())))
    print(f"{rows} claims, {len(named)} laws and cases named, {len(faults)} faults")
    return 1 if faults or not named else 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
