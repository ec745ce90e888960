#!/usr/bin/env python3
"""check_exports.py HEADER LIBRARY: the library exports the functions that the header declares, and nothing else."""
import pathlib
import re
import subprocess
import sys

header = re.sub(r"/\*.*?\*/", "", pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"), flags=re.S)
declared = set(re.findall(r"NINFER_API\s[^;(]*?\b(ninfer_\w+)\(", header))
listing = subprocess.run(["nm", "-D", "--defined-only", sys.argv[2]], check=True, capture_output=True, text=True).stdout
exported = {line.split()[-1].split("@")[0] for line in listing.splitlines()} - {"NINFER_1"}

faults = [f"{name}: declared, not exported" for name in sorted(declared - exported)]
faults += [f"{name}: exported, not declared" for name in sorted(exported - declared)]
if len(declared) < 20:
    faults.append(f"only {len(declared)} functions found in the header")
print("\n".join(faults) if faults else f"{len(declared)} functions")
sys.exit(bool(faults))
