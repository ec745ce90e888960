#!/usr/bin/env python3
"""Makes test/vectors/tiny_logits.json: exact logits of random models with head sizes and formats that the demo model does not
have, by decoder_forward.py and hybrid_forward.py. usage: tiny_vectors.py FOLDER_OF_make_tiny_artifact_AND_make_qwen_artifact. Needs
numpy. Stored as demo_vectors.py does.
"""
import base64
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

import decoder_forward as oracle
import hybrid_forward

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS = [(i * 37 + 11) % 251 for i in range(70)]
POSITIONS = [0, 1, 15, 16, 31, 63, 64, 69]
COMMON = ["--layers", "2", "--vocab", "256", "--max-positions", "96"]
MODELS = {
    # Two query heads per KV head of 64; rows of 256 and 384 codes.
    "q4-d64": ["--arch", "Qwen3ForCausalLM", "--hidden", "256", "--heads", "4", "--kv-heads", "2", "--head-dim", "64",
               "--intermediate", "384", "--format", "Q4G64_F16S"],
    # One KV head of 128; rows that end inside a block of 128; three formats, the head in another one.
    "mixed-d128": ["--arch", "LlamaForCausalLM", "--hidden", "192", "--heads", "4", "--kv-heads", "1", "--head-dim", "128",
                   "--intermediate", "320", "--format", "Q6G64_F16S", "--mlp", "FP8_E4M3FN_ROW_BF16S", "--head", "W8G32_F16S",
                   "--embedding", "Q5G64_F16S"],
}


# Gated DeltaNet with heads of 64, attention with output gates and partial rotation; the published mix of integer formats.
HYBRID = ["--preset", "tiny", "--recipe", "mixed", "--random", "3", "--no-mtp", "--vocab", "256", "--max-positions", "128", "--hidden",
          "256", "--heads", "4", "--kv-heads", "2", "--head-dim", "64", "--intermediate", "256", "--key-heads", "2", "--key-dim", "64",
          "--value-heads", "4", "--value-dim", "32", "--layers", "4"]
HYBRID_POSITIONS = [0, 1, 15, 16, 31, 39]


class Rounded(hybrid_forward.Model):
    """Operands and results of linear maps, norms and rotations, and the residual stream, rounded to BF16."""

    def linear(self, x, name, n):
        return oracle.to_bf16(super().linear(oracle.to_bf16(x), name, n))

    def norm(self, x, weight):
        return oracle.to_bf16(super().norm(oracle.to_bf16(x), weight))

    def rope(self, x, positions):
        return oracle.to_bf16(super().rope(x, positions))

    def layer(self, x, prefix, mixer):
        middle = oracle.to_bf16(x + mixer(self.offset_norm(x, prefix + "input_norm")))
        return middle, oracle.to_bf16(middle + self.mlp(self.offset_norm(middle, prefix + "post_attention_norm"), prefix + "mlp/"))


def entry(options, exact, coarse, **more):
    rms = np.sqrt((exact * exact).mean(-1))
    distances = [float(x) for x in np.abs(coarse - exact).max(-1) / rms]
    print(options[:2], "BF16 operators:", [f"{x:.3g}" for x in distances])
    return {"options": options, "logits": base64.b64encode(exact.astype("<f4").tobytes()).decode(), "bf16_operators": distances, **more}


def main():
    out = {"tokens": TOKENS, "positions": POSITIONS, "models": {}}
    with tempfile.TemporaryDirectory() as tmp:
        for name, options in MODELS.items():
            path = f"{tmp}/{name}.ninfer"
            subprocess.run([f"{sys.argv[1]}/make_tiny_artifact", path, *COMMON, *options], check=True, capture_output=True)
            artifact = oracle.Artifact(path)
            exact = oracle.forward(artifact, TOKENS, "bf16")[POSITIONS]
            coarse = oracle.forward(artifact, TOKENS, "bf16", oracle.to_bf16)[POSITIONS]
            out["models"][name] = entry(COMMON + options, exact, coarse)
        path = f"{tmp}/hybrid.ninfer"
        subprocess.run([f"{sys.argv[1]}/make_qwen_artifact", path, *HYBRID], check=True, capture_output=True)
        artifact, tokens = hybrid_forward.Artifact(path), TOKENS[:HYBRID_POSITIONS[-1] + 1]
        exact, coarse = (model(artifact, "bf16").text(np.array(tokens))["logits"][HYBRID_POSITIONS]
                         for model in (hybrid_forward.Model, Rounded))
        out["models"]["hybrid"] = entry(HYBRID, exact, coarse, tokens=tokens, positions=HYBRID_POSITIONS)
    with open(os.path.join(HERE, "..", "vectors", "tiny_logits.json"), "w", encoding="utf-8") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
