#!/usr/bin/env python3
"""Independent oracle: logits of a dense decoder artifact, in float64, straight from the file.

Shares no code with the product: the framing, the packed planes and the model's formulas are written here again from
docs/container.md, docs/formats.md and docs/models/decoder.md. Needs numpy.

usage: decoder_forward.py MODEL.ninfer --tokens 1,2,3 [--kv bf16|f32] [--out logits.npy] [--trace LAYERS.jsonl] [--json K]
  --trace    what ninfer-exec logits --trace writes: the residual stream in its lines, ten digits
  --json K   print for every position the K largest logits as [id, value] pairs, and the root mean square
"""
import argparse
import json
import struct
import sys

import numpy as np


class Artifact:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = np.frombuffer(f.read(), np.uint8)
        assert self.data[:8].tobytes() == b"NINFER\0\x03", "framing 3 expected"
        (size,) = struct.unpack_from("<Q", self.data.tobytes()[:16], 8)
        self.directory = json.loads(self.data[32:32 + size].tobytes().decode())
        self.base = (32 + size + 4095) // 4096 * 4096
        self.objects = {o["id"]: o for o in self.directory["objects"]}
        self.cache = {}

    def raw(self, o):
        at = self.base + o["offset"]
        return self.data[at:at + o["bytes"]]

    def tensor(self, o):
        """Represented values of one object as float64."""
        if o["id"] not in self.cache:
            self.cache[o["id"]] = self.decode(o)
        return self.cache[o["id"]]

    def decode(self, o):
        raw, shape, fmt = self.raw(o), o["shape"], o["format"]
        if fmt == "bf16":
            words = raw.view("<u2").astype(np.uint32) << 16
            return words.view(np.float32).astype(np.float64).reshape(shape)
        if fmt == "fp32":
            return raw.view("<f4").astype(np.float64).reshape(shape)
        n, k = shape
        if fmt == "fp8_e4m3fn_row_bf16":
            codes = raw[:n * k].astype(np.int64)
            at = (n * k + 255) // 256 * 256
            scales = (raw[at:at + 2 * n].view("<u2").astype(np.uint32) << 16).view(np.float32)
            e, m = (codes >> 3) & 15, codes & 7
            value = np.where(e == 0, m * 2.0 ** -9, (1 + m / 8) * 2.0 ** (e - 7.0)) * np.where(codes & 128, -1, 1)
            return value.reshape(n, k) * scales.astype(np.float64)[:, None]
        bits, group = {"q4_g64_fp16": (4, 64), "q5_g64_fp16": (5, 64), "q6_g64_fp16": (6, 64), "q8_g32_fp16": (8, 32)}[fmt]
        kp = (k + 127) // 128 * 128
        g = kp // group
        up = lambda x: (x + 255) // 256 * 256
        base = n * kp if bits == 8 else n * kp // 2
        high = n * kp // 8 * max(0, bits - 4) if bits != 8 else 0
        high_at = up(base)
        scale_at = high_at + up(high)
        scales = raw[scale_at:scale_at + 2 * n * g].view("<f2").astype(np.float64).reshape(n, g)
        if bits == 8:
            codes = raw[:base].view(np.int8).astype(np.int64)
        else:
            codes = np.empty(n * kp, np.int64)
            codes[0::2], codes[1::2] = raw[:base] & 15, raw[:base] >> 4
            plane = raw[high_at:high_at + high]
            if bits == 5:
                codes |= np.unpackbits(plane, bitorder="little").astype(np.int64) << 4
            if bits == 6:
                pair = np.unpackbits(plane, bitorder="little").reshape(-1, 2).astype(np.int64)
                codes |= (pair[:, 0] | pair[:, 1] << 1) << 4
            codes = np.where(codes >= 1 << (bits - 1), codes - (1 << bits), codes)
        value = codes.reshape(n, g, group) * scales[:, :, None]
        return value.reshape(n, kp)[:, :k]

    def parameter(self, name, shape):
        b = self.directory["bindings"][name]
        if "object" in b:
            v = self.tensor(self.objects[b["object"]])
        else:
            v = np.concatenate([self.tensor(self.objects[p["object"]]).reshape(-1)[p["range"][0]:p["range"][1]]
                                for p in b["parts"]])
        return v.reshape(shape)


def inverse_frequencies(c):
    d = c["head_dim"]
    f = float(c["rope_theta"]) ** (-np.arange(d // 2) * 2.0 / d)
    s = c.get("rope_scaling")
    if s and s.get("rope_type", s.get("type")) == "linear":
        f = f / s["factor"]
    elif s and s.get("rope_type", s.get("type")) == "llama3":
        low, high, old = s["low_freq_factor"], s["high_freq_factor"], s["original_max_position_embeddings"]
        wave = 2 * np.pi / f
        mix = (old / wave - low) / (high - low)
        f = np.where(wave > old / low, f / s["factor"],
                     np.where(wave < old / high, f, (1 - mix) * f / s["factor"] + mix * f))
    return f


def to_bf16(x):
    u = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    u = ((u + 0x7FFF + ((u >> 16) & 1)) >> 16 << 16).astype(np.uint32)
    return u.view(np.float32).astype(np.float64)


def forward(a, tokens, kv="bf16", rounding=None, trace=None):
    """Logits [T,V] in float64. `trace`, a list, receives (output of ninfer-exec logits --trace, rows). `rounding` = to_bf16 rounds every operator's result, which is how the reference code of these
    models computes; its distance from the exact result is the yardstick of the 16-bit activation profile."""
    r = rounding or (lambda x: x)
    keep = lambda name, x: x if trace is None else (trace.append((name, x)), x)[1]
    c = a.directory["components"]["text"]["config"]
    H, D, hq, hk, I, V = (c[k] for k in ("hidden_size", "head_dim", "num_attention_heads", "num_key_value_heads",
                                         "intermediate_size", "vocab_size"))
    eps = np.float64(np.float32(c["rms_norm_eps"]))
    T = len(tokens)
    norm = lambda x, w: r(x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w)
    angle = np.arange(T)[:, None] * inverse_frequencies(c)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]

    def rope(x):
        p, q = x[..., :D // 2], x[..., D // 2:]
        return r(np.concatenate([p * cos - q * sin, q * cos + p * sin], -1))

    x = keep("text/token_embedding", a.parameter("text/token_embedding", (V, H))[tokens])
    for i in range(c["num_hidden_layers"]):
        w = lambda name, *shape: a.parameter(f"text/layers/{i}/{name}", shape)
        h = norm(x, w("input_norm", H))
        q = r(h @ w("attention/query", hq * D, H).T).reshape(T, hq, D)
        k = r(h @ w("attention/key", hk * D, H).T).reshape(T, hk, D)
        v = r(h @ w("attention/value", hk * D, H).T).reshape(T, hk, D)
        if c["architectures"] == ["Qwen3ForCausalLM"]:
            q, k = norm(q, w("attention/query_norm", D)), norm(k, w("attention/key_norm", D))
        q, k = rope(q), rope(k)
        if kv == "bf16":
            k, v = to_bf16(k), to_bf16(v)
        out = np.empty((T, hq, D))
        for j in range(hq):
            s = q[:, j] @ k[:, j // (hq // hk)].T / np.sqrt(D) + np.triu(np.full((T, T), -np.inf), 1)
            s = np.exp(s - s.max(-1, keepdims=True))
            out[:, j] = s / s.sum(-1, keepdims=True) @ v[:, j // (hq // hk)]
        x = keep(f"text/layers/{i}/mixer", r(x + r(r(out.reshape(T, hq * D)) @ w("attention/output", H, hq * D).T)))
        h = norm(x, w("post_attention_norm", H))
        g = r(h @ w("mlp/gate", I, H).T)
        down = r(r(g / (1 + np.exp(-g)) * r(h @ w("mlp/up", I, H).T)) @ w("mlp/down", H, I).T)
        x = keep(f"text/layers/{i}", r(x + down))
    return r(keep("text/final_norm", norm(x, a.parameter("text/final_norm", (H,)))) @ a.parameter("text/output_head", (V, H)).T)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("--tokens", required=True)
    ap.add_argument("--kv", choices=["bf16", "f32"], default="bf16")
    ap.add_argument("--out")
    ap.add_argument("--trace")
    ap.add_argument("--json", type=int)
    args = ap.parse_args()
    tokens = [int(t) for t in args.tokens.split(",")]
    trace = []
    logits = forward(Artifact(args.model), tokens, args.kv, trace=trace)
    if args.trace:
        with open(args.trace, "w", encoding="utf-8") as f:
            f.write(json.dumps({"tokens": tokens}, separators=(",", ":")) + "\n")
            for name, rows in trace:
                for position, row in enumerate(rows):
                    values = ",".join(f"{v:.10g}" for v in row)
                    f.write(f'{{"output":"{name}","position":{position},"values":[{values}]}}\n')
    if args.out:
        np.save(args.out, logits)
    if args.json:
        rows = []
        for row in logits:
            top = np.argsort(-row, kind="stable")[:args.json]
            rows.append({"top": [[int(t), float(row[t])] for t in top], "rms": float(np.sqrt((row * row).mean()))})
        json.dump({"tokens": tokens, "kv": args.kv, "rows": rows}, sys.stdout)
        print()


if __name__ == "__main__":
    main()
