#!/usr/bin/env python3
"""Writes test/vectors/rope.json: rotary frequencies of the three scalings with 50-digit decimal arithmetic, from the
published formulas (in terms of wavelengths), not from the product's code.

    python3 test/oracle/rope_frequencies.py [--check]
"""
import json
import pathlib
import sys
from decimal import Decimal, getcontext

getcontext().prec = 50
PI = Decimal("3.14159265358979323846264338327950288419716939937510")

CASES = [
    {"head_dim": 64, "rope_theta": 100000.0},
    {"head_dim": 128, "rope_theta": 1000000.0},
    {"head_dim": 2, "rope_theta": 10000.0},
    {"head_dim": 16, "rope_theta": 10000.0, "scaling": {"rope_type": "linear", "factor": 2.5}},
    {"head_dim": 64, "rope_theta": 500000.0,
     "scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                 "original_max_position_embeddings": 8192}},
    {"head_dim": 128, "rope_theta": 500000.0,
     "scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                 "original_max_position_embeddings": 8192}},
]


def frequencies(case):
    d, scaling = case["head_dim"], case.get("scaling", {})
    out = []
    for i in range(d // 2):
        f = (-(Decimal(2 * i) / Decimal(d)) * Decimal(case["rope_theta"]).ln()).exp()
        kind = scaling.get("rope_type")
        if kind == "linear":
            f = f / Decimal(scaling["factor"])
        if kind == "llama3":
            factor, low, high = (Decimal(scaling[k]) for k in ("factor", "low_freq_factor", "high_freq_factor"))
            old = Decimal(scaling["original_max_position_embeddings"])
            wave = 2 * PI / f
            if wave > old / low:
                f = f / factor
            elif wave >= old / high:
                smooth = (old / wave - low) / (high - low)
                f = (1 - smooth) * f / factor + smooth * f
        out.append(float(f))
    return out


def main():
    text = json.dumps([{**c, "frequencies": frequencies(c)} for c in CASES], indent=1) + "\n"
    path = pathlib.Path(__file__).resolve().parents[1] / "vectors" / "rope.json"
    if "--check" in sys.argv:
        sys.exit(0 if path.read_text() == text else f"{path} differs")
    path.write_text(text)


if __name__ == "__main__":
    main()
