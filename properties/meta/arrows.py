"""Do the #include lines obey the arrows between the rooms?

usage: arrows.py [ROOT]

    reference/core <- reference <- properties, fixtures <- conformance

Prints each line that does not, as file:line, and exits 1. Finding no include at all is a failure too.
"""

import os
import re
import sys
from pathlib import Path, PurePosixPath

PLAIN = "implementations/plain"

# A room, and what its files may include: rooms, or single files. Sub-rooms come with their room.
ALLOWED = {
    "reference/core": ["reference/core"],
    "reference": ["reference"],
    "fixtures": ["reference", "fixtures"],
    "conformance": ["reference", "fixtures", "properties", "conformance", "optimized", PLAIN],
    "properties": ["reference", "optimized", "properties"],
    "optimized": ["optimized"],
    # The kernels know nothing of the judge; what times them starts the peers as the judge starts a child.
    "optimized/bench": ["optimized", "conformance/child.hpp", "fixtures/core/files.hpp"],
    # Its agreement with the reference is evidence only as long as the two share the vocabulary alone.
    PLAIN: [PLAIN] + [f"reference/core/{stem}.hpp" for stem in ("dtype", "tensor", "parameters")],
}
ROOMS = {room.split("/")[0] for room in ALLOWED} | {"plugins"}
GENERATED = "posproof"  # the lists that CMake makes of schemes.cmake
NO_LISTS = {PLAIN, "optimized"}

SOURCES = {".c", ".cc", ".cpp", ".h", ".hpp", ".inc"}
SKIPPED = {"build", "reports", "node_modules"}
INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')


def inside(path, place):
    return path == place or path.startswith(place + "/")


def room_of(path):
    """The innermost room with a rule, or None."""
    return max((room for room in ALLOWED if inside(path, room)), key=len, default=None)


def sources(root):
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED and not f.startswith("."))
        for file in sorted(files):
            if Path(file).suffix in SOURCES:
                yield (Path(folder) / file).relative_to(root).as_posix()


def target_of(root, path, written):
    """What an include names inside the house, as a path from the root, or None."""
    parts = PurePosixPath(written).parts
    if parts[0] in ROOMS or parts[0] == GENERATED:
        return os.path.normpath(written)
    beside = os.path.normpath(PurePosixPath(path).parent / written)
    return beside if (root / beside).is_file() else None


def trouble(path, target):
    """Why the file may not include the target, or None."""
    room = room_of(path)
    if room is None:
        return f"no rule says what {PurePosixPath(path).parent} may include"
    if inside(target, GENERATED):
        return f"{room} knows no list of schemes" if room in NO_LISTS else None
    if any(inside(target, place) for place in ALLOWED[room]):
        return None
    return f"{room} may include only {', '.join(ALLOWED[room])}"


def check(root):
    """The number of includes that stay in the house, and a line for each that is wrong."""
    seen, wrong = 0, []
    for path in sources(root):
        text = (root / path).read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            found = INCLUDE.match(line)
            target = target_of(root, path, found.group(1)) if found else None
            if target is None:
                continue
            seen += 1
            if "tests" in PurePosixPath(path).parts:
                continue
            reason = trouble(path, target)
            if reason:
                wrong.append(f"{path}:{number}: includes {target}; {reason}")
    return seen, wrong


def main():
    if len(sys.argv) > 2:
        raise SystemExit(__doc__)
    root = Path(sys.argv[1] if len(sys.argv) == 2 else Path(__file__).resolve().parents[2])
    seen, wrong = check(root)
    for line in wrong:
        print(line)
    if seen == 0:
        print(f"{root}: has no #include of the house; nothing was checked")
        return 1
    print(f"{seen} includes, {len(wrong)} against the arrows")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
