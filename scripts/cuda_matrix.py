#!/usr/bin/env python3
"""Writes the support matrix of docs/cuda.md. Usage: cuda_matrix.py COMPILED TESTS
COMPILED  what check_cuda_kernels --json wrote: every key for every architecture
TESTS     what cuda_kernels_test --gtest_list_tests printed: the names of tests end in the key they emulate"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FORMATS = ("q4g64", "q5g64", "q6g64", "w8g32", "nvfp4", "fp8", "bf16")
CACHES = ("attention_decode", "attention_prefill", "attention_rows", "rope_append")


def key_of(name):
    return re.sub(r"_sm\d+$", "", name)


def group_of(key):
    """(kernel, format or codec) of a key such as ni_linear_q4g64_r1_k5120: the words before the first one with a digit."""
    words = key.removeprefix("ni_").split("_")
    size = next((i for i, word in enumerate(words) if re.search(r"\d", word)), len(words))
    kernel, rest = "_".join(words[:size]), words[size:]
    if kernel in CACHES:
        return kernel, next(word for word in rest if word in ("bf16", "int8")) + " cache"
    return kernel, rest[0] if rest and rest[0] in FORMATS else ""


def emulated_keys(path):
    keys, suite = set(), ""
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        name = line.split("#")[0].strip()
        if not line.startswith(" "):
            suite = name
        elif "/" in name:
            last = name.split("/")[-1]
            keys.add("ni_pack_" + last if suite.startswith("Formats/Pack") else last)
    return keys


def main():
    records = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    bad = [r["name"] for r in records if not r["ok"]]
    if bad:
        sys.exit("refused kernels, no matrix: " + ", ".join(bad))
    tested = emulated_keys(sys.argv[2])
    missing = sorted({key_of(r["name"]) for r in records} - tested)
    if missing:
        sys.exit("compiled, but emulated by no test: " + ", ".join(missing))
    archs = sorted({r["sm"] for r in records})
    groups = {}
    for r in records:
        groups.setdefault(group_of(key_of(r["name"])), {}).setdefault(r["sm"], {})[key_of(r["name"])] = r["registers"]
    lines = ["| kernel | format | " + " | ".join(f"sm_{a}" for a in archs) + " |", "|---|---|" + "---|" * len(archs)]
    for (kernel, fmt), by_arch in sorted(groups.items(), key=lambda g: (g[0][0], FORMATS.index(g[0][1]) if g[0][1] in FORMATS else 9)):
        if len({frozenset(keys) for sm, keys in by_arch.items() if sm >= 80}) > 1:
            sys.exit(f"{kernel} {fmt}: not every key was compiled for every architecture from sm_80 on")
        cells = [f"{len(by_arch[a])} CE {max(by_arch[a].values())}" if a in by_arch else "-" for a in archs]
        lines.append(f"| {kernel} | {fmt} | " + " | ".join(cells) + " |")
    page = ROOT / "docs/cuda.md"
    text = page.read_text(encoding="utf-8")
    table = "<!-- cuda-matrix -->\n" + "\n".join(lines) + "\n<!-- /cuda-matrix -->"
    page.write_text(re.sub(r"<!-- cuda-matrix -->.*<!-- /cuda-matrix -->", lambda _: table, text, flags=re.S), encoding="utf-8")
    print(f"{len(records)} kernels, {len({key_of(r['name']) for r in records})} keys, {len(groups)} groups")


if __name__ == "__main__":
    main()
