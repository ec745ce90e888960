#!/usr/bin/env python3
"""Adds up JUnit files: a line per suite, the names of what failed or was skipped, then the one closing line.

A required file that is missing, unreadable or holds no test counts as one failure, so a suite that did not run
can't pass.
"""
import argparse
import os
import sys
import xml.etree.ElementTree as ET


def count(path):
    passed, failed, skipped = 0, [], []
    for case in ET.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname') or ''} {case.get('name')}".strip()
        status = case.get("status")
        if case.find("failure") is not None or case.find("error") is not None or status == "fail":
            failed.append(name)
        elif case.find("skipped") is not None or status in ("notrun", "disabled"):
            skipped.append(name)
        else:
            passed += 1
    return passed, failed, skipped


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("folder")
    ap.add_argument("--require", nargs="+", default=[])
    ap.add_argument("--broken", type=int, default=0, help="failures that left no file, such as a failed build")
    args = ap.parse_args()
    total = [0, args.broken, 0]
    for name in args.require:
        path = os.path.join(args.folder, name)
        try:
            passed, failed, skipped = count(path)
        except (OSError, ET.ParseError) as why:
            passed, failed, skipped = 0, [f"{name}: not run ({why})"], []
        if passed + len(failed) + len(skipped) == 0:
            failed = [f"{name}: no test ran"]
        print(f"{name}: {passed} passed, {len(failed)} failed, {len(skipped)} skipped")
        for what, names in (("failed", failed), ("skipped", skipped)):
            for n in names:
                print(f"  {what}: {n}")
        total = [total[0] + passed, total[1] + len(failed), total[2] + len(skipped)]
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main())
