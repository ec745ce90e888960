#!/usr/bin/env python3
"""Compares the numbered rules of the ninfer dialect: docs/dialect/spec.md declares each one, a comment in
dialects/ninfer marks its check, and a case of the invalid tests is named after it. Prints what is missing."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RULE = r"[a-z_]+_c[0-9]+"


def main():
    spec = (ROOT / "docs/dialect/spec.md").read_text()
    declared = re.findall(rf"^- `({RULE})` ", spec, re.MULTILINE)
    problems = [f"{rule}: declared twice in spec.md" for rule in sorted({r for r in declared if declared.count(r) > 1})]

    checked = set()
    for path in sorted((ROOT / "dialects/ninfer").iterdir()):
        if path.suffix in (".td", ".cpp", ".h"):
            for comment in re.findall(r"//(.*)", path.read_text()):
                checked.update(re.findall(rf"\b{RULE}\b", comment))
    tested = set()
    for path in sorted((ROOT / "test/lit/dialect/ninfer").glob("*invalid*.mlir")):
        tested.update(re.findall(rf"@({RULE})(?:_[a-z_]+)?\b", path.read_text()))

    for name, found in (("no check in dialects/ninfer", checked), ("no negative test", tested)):
        problems += [f"{rule}: {name}" for rule in declared if rule not in found]
        problems += [f"{rule}: not declared in docs/dialect/spec.md" for rule in sorted(found - set(declared))]
    for problem in problems:
        print(problem)
    if not problems:
        print(f"{len(declared)} rules, each with a check and a negative test")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
