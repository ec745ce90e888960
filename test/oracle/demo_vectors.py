#!/usr/bin/env python3
"""Makes test/vectors/demo_logits.json: exact logits of the demo model in every recipe, by decoder_forward.py.

usage: demo_vectors.py PATH_TO_ninfer-convert. Needs numpy. Stored per recipe and KV codec: logits (base64 float32) at a few
positions, and for those the distance of the BF16-per-operator evaluation, max |difference| / rms(exact logits).
"""
import base64
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

import decoder_forward as oracle

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
TOKENS = [(i * 37 + 11) % 509 for i in range(70)]
POSITIONS = [0, 1, 15, 16, 31, 63, 64, 69]


def main():
    out = {"tokens": TOKENS, "positions": POSITIONS, "recipes": {}}
    with tempfile.TemporaryDirectory() as tmp:
        for recipe in ["bf16", "w8", "q6", "q5", "q4", "mixed"]:
            path = f"{tmp}/{recipe}.ninfer"
            subprocess.run([sys.argv[1], f"{ROOT}/examples/demo/checkpoint", "-o", path, "--recipe", recipe], check=True,
                           capture_output=True)
            artifact = oracle.Artifact(path)
            out["recipes"][recipe] = {}
            for kv in ["bf16", "f32"]:
                exact = oracle.forward(artifact, TOKENS, kv)[POSITIONS]
                coarse = oracle.forward(artifact, TOKENS, kv, oracle.to_bf16)[POSITIONS]
                rms = np.sqrt((exact * exact).mean(-1))
                out["recipes"][recipe][kv] = {
                    "logits": base64.b64encode(exact.astype("<f4").tobytes()).decode(),
                    "bf16_operators": [float(x) for x in np.abs(coarse - exact).max(-1) / rms]}
                print(recipe, kv, "BF16 operators:", [f"{x:.3g}" for x in out["recipes"][recipe][kv]["bf16_operators"]])
    with open(os.path.join(HERE, "..", "vectors", "demo_logits.json"), "w", encoding="utf-8") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
