#!/usr/bin/env python3
"""Compares the error ids in the sources with docs/errors.md: each id used is documented once, and nothing else is."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
used = {}
for folder in ("support", "artifact", "schema", "models", "convert", "dialects", "passes", "codegen", "compiler",
               "runtime", "inspect", "tools"):
    for path in sorted((root / folder).rglob("*")):
        if path.suffix in (".cpp", ".h", ".td") and path.is_file():
            for found in re.findall(r'["\[](NB\d{4})["\]]', path.read_text(encoding="utf-8")):
                used.setdefault(found, path.relative_to(root))
documented = re.findall(r"^\| (NB\d{4}) \|", (root / "docs/errors.md").read_text(encoding="utf-8"), re.M)

faults = [f"{name}: used in {used[name]}, not in docs/errors.md" for name in sorted(set(used) - set(documented))]
faults += [f"{name}: in docs/errors.md, used nowhere" for name in sorted(set(documented) - set(used))]
faults += [f"{name}: documented twice" for name in sorted({n for n in documented if documented.count(n) > 1})]
print("\n".join(faults) if faults else f"{len(documented)} error ids documented")
sys.exit(bool(faults))
