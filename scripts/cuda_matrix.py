#!/usr/bin/env python3
"""Writes the support matrix of docs/cuda.md from the JSON of check_cuda_kernels --json. Usage: cuda_matrix.py FILE"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FORMATS = ("q4g64", "q5g64", "q6g64", "w8g32", "nvfp4", "fp8", "bf16")


def group_of(record):
    """(kernel, format or codec) of a name such as ni_linear_q4g64_r1_k5120_sm89."""
    name = record["name"]
    if m := re.match(r"ni_(attention_decode|attention_prefill|rope_append)_.*_(bf16|int8)(_|$)", name):
        return m.group(1), m.group(2) + " cache"
    for fmt in FORMATS:
        if m := re.match(rf"ni_(\w+?)_{fmt}(_|$)", name):
            return m.group(1), fmt
    return re.match(r"ni_([a-z_]+?)(_[a-z]+\d.*|_k\d.*)?_sm\d+", name).group(1), ""


def main():
    records = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    bad = [r["name"] for r in records if not r["ok"]]
    if bad:
        sys.exit("refused kernels, no matrix: " + ", ".join(bad))
    archs = sorted({r["sm"] for r in records})
    groups = {}
    for r in records:
        groups.setdefault(group_of(r), {}).setdefault(r["sm"], []).append(r["registers"])
    lines = ["| kernel | format | keys | " + " | ".join(f"sm_{a}" for a in archs) + " |", "|---|---|---|" + "---|" * len(archs)]
    for (kernel, fmt), by_arch in sorted(groups.items(), key=lambda g: (g[0][0], FORMATS.index(g[0][1]) if g[0][1] in FORMATS else 9)):
        keys = {len(v) for v in by_arch.values()}
        if len(keys) != 1 or set(by_arch) != set(archs):
            sys.exit(f"{kernel} {fmt}: not every key was compiled for every architecture")
        lines.append(f"| {kernel} | {fmt} | {keys.pop()} | " + " | ".join(str(max(by_arch[a])) for a in archs) + " |")
    page = ROOT / "docs/cuda.md"
    text = page.read_text(encoding="utf-8")
    table = "<!-- cuda-matrix -->\n" + "\n".join(lines) + "\n<!-- /cuda-matrix -->"
    page.write_text(re.sub(r"<!-- cuda-matrix -->.*<!-- /cuda-matrix -->", table, text, flags=re.S), encoding="utf-8")
    print(f"{len(records)} kernels, {len(groups)} groups")


if __name__ == "__main__":
    main()
