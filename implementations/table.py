"""Prints one table of all reports under a folder: operations by implementations.

usage: table.py FOLDER    (FOLDER/<name>/report.json, or FOLDER/<name>/not_run with the reason)
Exit status 1 when anything failed, did not run, or ran no case.
"""

import json
import pathlib
import sys

BAD = ("convention", "fail", "error", "crash", "timeout")


def cell(report, operation):
    verdicts = [r["verdict"] for r in report["results"] if r["operation"] == operation]
    if all(v == "unsupported" for v in verdicts):
        return "-"
    bad = sum(v in BAD for v in verdicts)
    if bad:
        return f"{bad} FAIL"
    grade = report["grade"].get(operation) or f"{verdicts.count('waived')} waived"
    recipe = report["recipe"].get(operation, "exact")
    if recipe == "exact":
        return grade
    return grade + (" ~" if operation in report["recipe_exceptions"] else " ") + recipe


def main(folder):
    reports, not_run = {}, {}
    for path in sorted(pathlib.Path(folder).iterdir()):
        if (path / "not_run").exists():
            not_run[path.name] = (path / "not_run").read_text().strip()
        elif (path / "report.json").exists():
            reports[path.name] = json.loads((path / "report.json").read_text())
    if not reports:
        print("no report: nothing ran")
        return 1
    operations = sorted({r["operation"] for report in reports.values() for r in report["results"]})
    rows = [["operation", *reports]]
    rows += [[op, *(cell(report, op) for report in reports.values())] for op in operations]
    for verdict in ("pass", "refused", "unsupported", "waived", *BAD):
        counts = [str(report["summary"][verdict]) for report in reports.values()]
        if any(count != "0" for count in counts):
            rows.append([verdict, *counts])
    for verdict in ("pass", "unsupported", "waived", *BAD):
        counts = [str(sum(law["verdict"] == verdict for law in report["laws"])) for report in reports.values()]
        if any(count != "0" for count in counts):
            rows.append([f"laws: {verdict}", *counts])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())
    print("grades: P0 correctly rounded, P1 f64 phase, P2 f32 phase, P3 rounded to 16 bits on the way;")
    print("without a phase: exact, bound. A recipe is another engine's rounding that is followed"
          " (~ in most cases).")
    failed = [name for name, report in reports.items()
              if any(report["summary"][v] for v in BAD) or report["unmatched_waivers"]
              or any(law["verdict"] in BAD for law in report["laws"])
              or all(r["verdict"] == "unsupported" for r in report["results"])]
    for name in failed:
        print(f"FAIL {name}: {folder}/{name}/report.json")
    for name, why in not_run.items():
        print(f"not run: {name}: {why}")
    print(f"{len(reports)} judged, {len(failed)} failed, {len(not_run)} not run; "
          f"reports in {folder}/<name>/report.json and junit.xml")
    return 1 if failed or not_run else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
