#!/usr/bin/env python3
"""Writes test/vectors/ggml/blocks.json: blocks of every ggml type the converter reads, with the binary32 values the
reference Python package `gguf` gives them. Needs: pip install gguf numpy. Deterministic.

Blocks are random bytes with chosen scale words: normal, subnormal, negative, zero, largest. Values are binary32 words in
hexadecimal, most significant digit first, in element order.

    python3 test/oracle/ggml_blocks.py [--check]
"""
import json
import pathlib
import sys

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

# Byte offsets of binary16 words (scale, minimum) inside a block.
HALF_WORDS = {
    T.Q4_0: [0], T.Q5_0: [0], T.Q8_0: [0], T.IQ4_NL: [0], T.Q4_1: [0, 2], T.Q5_1: [0, 2],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_XS: [0],
}
EDGE_WORDS = [0x3C00, 0x0001, 0x03FF, 0x0400, 0x8001, 0xB1C7, 0x0000, 0x7BFF, 0xFBFF]


def blocks_of(kind, rng):
    size, block_bytes = quants.GGML_QUANT_SIZES[kind]
    count = len(EDGE_WORDS) + 1 if size == 32 else 5
    raw = rng.integers(0, 256, size=(count, block_bytes), dtype=np.uint8)
    for i in range(count):
        for j, at in enumerate(HALF_WORDS[kind]):
            if i < len(EDGE_WORDS):
                word = EDGE_WORDS[(i + 2 * j) % len(EDGE_WORDS)]
            else:
                word = int(rng.integers(0, 0x7C00)) | int(rng.integers(0, 2)) << 15
            raw[i, at] = word & 0xFF
            raw[i, at + 1] = word >> 8
    return raw


def main():
    rng = np.random.default_rng(20240607)
    out = {"source": "gguf.quants.dequantize", "iq4_nl_values": [int(v) for v in quants.IQ4_NL.kvalues], "types": {}}
    for kind in HALF_WORDS:
        raw = blocks_of(kind, rng)
        with np.errstate(all="ignore"):
            values = quants.dequantize(raw.reshape(-1), kind).astype(np.float32).reshape(-1)
        out["types"][kind.name] = {
            "columns": int(values.size),
            "blocks": raw.tobytes().hex(),
            "values": "".join(f"{int(w):08x}" for w in values.view(np.uint32)),
        }
    text = json.dumps(out, indent=1) + "\n"
    path = pathlib.Path(__file__).resolve().parents[1] / "vectors" / "ggml" / "blocks.json"
    if "--check" in sys.argv:
        if path.read_text() != text:
            sys.exit(f"{path} differs from what this script writes")
        return
    path.write_text(text)


if __name__ == "__main__":
    main()
