#!/usr/bin/env python3
"""Compares every tensor of a converted artifact with its GGUF source, values from the reference package `gguf`.

Exact provenance (preserved, widened, narrowed) must give equal values; converted tensors must lie within half a step of
the stored scale (plus the clamp at the lower end of the code range and the rounding of the scale itself). The rotary
row order of llama GGUFs is undone here from its definition. Also loads the made tokenizer.json with the reference
`tokenizers` package and compares texts of all ids. Needs: pip install gguf numpy tokenizers.

    python3 test/oracle/check_gguf_conversion.py SOURCE.gguf MODEL.ninfer
"""
import sys

import numpy as np
from gguf import GGUFReader, quants
from tokenizers import Tokenizer

from decoder_forward import Artifact

NAMES = {"input_norm": "attn_norm", "attention/query": "attn_q", "attention/key": "attn_k", "attention/value": "attn_v",
         "attention/query_norm": "attn_q_norm", "attention/key_norm": "attn_k_norm", "attention/output": "attn_output",
         "post_attention_norm": "ffn_norm", "mlp/gate": "ffn_gate", "mlp/up": "ffn_up", "mlp/down": "ffn_down"}


def source_name(parameter, tensors):
    if parameter == "text/output_head":
        return "output.weight" if "output.weight" in tensors else "token_embd.weight"
    if parameter in ("text/token_embedding", "text/final_norm"):
        return {"text/token_embedding": "token_embd.weight", "text/final_norm": "output_norm.weight"}[parameter]
    _, _, layer, rest = parameter.split("/", 3)
    return f"blk.{layer}.{NAMES[rest]}.weight"


def main():
    reader, artifact = GGUFReader(sys.argv[1]), Artifact(sys.argv[2])
    tensors = {t.name: t for t in reader.tensors}
    config = artifact.directory["components"]["text"]["config"]
    llama = config["architectures"] == ["LlamaForCausalLM"]
    record = artifact.directory["provenance"]["tensors"]
    worst, exact, converted = 0.0, 0, 0
    for parameter, binding in artifact.directory["bindings"].items():
        t = tensors[source_name(parameter, tensors)]
        source = quants.dequantize(t.data, t.tensor_type).astype(np.float64)
        if llama and parameter.endswith(("attention/query", "attention/key")):
            rows, k = source.shape
            d = config["head_dim"]
            source = source.reshape(rows // d, d // 2, 2, k).swapaxes(1, 2).reshape(rows, k)
        stored = artifact.tensor(artifact.objects[binding["object"]])
        assert stored.shape == source.shape, parameter
        kind = record[binding["object"]]
        assert kind[0] == t.tensor_type.name, (parameter, kind)
        if kind[1] != "converted":
            assert np.array_equal(stored, source), f"{parameter}: values differ ({kind})"
            exact += 1
            continue
        converted += 1
        fmt = artifact.objects[binding["object"]]["format"]
        group, qmax = {"q4_g64_fp16": (64, 7), "q5_g64_fp16": (64, 15), "q6_g64_fp16": (64, 31), "q8_g32_fp16": (32, 127)}[fmt]
        n, k = source.shape
        pad = -k % group
        amax = np.abs(np.pad(source, ((0, 0), (0, pad)))).reshape(n, -1, group).max(-1)
        step = np.repeat(amax / qmax, group, axis=1)[:, :k]
        error = np.abs(stored - source) / np.where(step > 0, step, 1)
        worst = max(worst, error.max())
        assert error.max() < 0.5 + qmax * 2.0 ** -10, f"{parameter}: {error.max()} steps"
    resource = artifact.raw(artifact.objects[artifact.directory["components"]["text"]["resources"]["tokenizer.json"]])
    tokenizer = Tokenizer.from_str(resource.tobytes().decode())
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    for i, token in enumerate(tokens):
        assert tokenizer.id_to_token(i) == token, (i, token)
    print(f"{exact} tensors exact, {converted} converted (largest error {worst:.4f} steps), {len(tokens)} tokens equal")


if __name__ == "__main__":
    main()
