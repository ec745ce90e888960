#!/usr/bin/env python3
"""Independent oracle: a dense hybrid artifact (Qwen3.5 family) of framing 3, forward in float64, straight from the file.

Shares no code with the product: the framing, the packed planes and the formulas of text and MTP are written here again from
docs/container.md, docs/formats.md and the description of the models. No intermediate value is rounded, but for the KV cache
when --kv asks for it. Needs numpy.

usage: hybrid_forward.py MODEL.ninfer --tokens 1,2,3 [--kv f64|f32|bf16|int8] [--out traces.npz] [--json K]
       hybrid_forward.py MODEL.ninfer --tokens 1,2,3 --trace LAYERS.jsonl
       hybrid_forward.py MODEL.ninfer --compare FORWARD.json   (exit status 1 unless the ten digits of every value agree)
  --out    every trace: layerI_mixer, layerI_mlp (residual stream after it), final_hidden, logits, layerI_gdn_{g,beta,state_v_k,conv_tail}, mtp_*
  --trace  what ninfer-exec logits --trace writes: the residual stream in its lines, ten digits
  --json   print for every position the K largest logits as [id, value] pairs, and the root mean square
"""
import argparse
import json
import struct
import sys

import numpy as np


class Artifact:
    def __init__(self, path):
        with open(path, "rb") as f:
            data = f.read()
        assert data[:8] == b"NINFER\0\x03", "framing 3 expected"
        (size,) = struct.unpack_from("<Q", data, 8)
        self.directory = json.loads(data[32:32 + size].decode())
        self.payload = np.frombuffer(data, np.uint8)[(32 + size + 4095) // 4096 * 4096:]
        self.objects = {o["id"]: o for o in self.directory["objects"]}
        self.decoded = {}

    def object(self, name):
        if name not in self.decoded:
            o = self.objects[name]
            self.decoded[name] = self.decode(o, self.payload[o["offset"]:o["offset"] + o["bytes"]])
        return self.decoded[name]

    @staticmethod
    def decode(o, raw):
        """Represented values as float64 (int32 words as int64)."""
        fmt, shape = o["format"], o["shape"]
        plane_end = lambda n: (n + 255) // 256 * 256
        if fmt == "int32":
            return raw.view("<i4").astype(np.int64).reshape(shape)
        if fmt == "fp32":
            return raw.view("<f4").astype(np.float64).reshape(shape)
        if fmt == "bf16":
            return bf16_values(raw.view("<u2")).reshape(shape)
        n, k = shape
        if fmt == "fp8_e4m3fn_row_bf16":
            scales = bf16_values(raw[plane_end(n * k):plane_end(n * k) + 2 * n].view("<u2"))
            return e4m3_values(raw[:n * k]).reshape(n, k) * scales[:, None]
        if fmt == "nvfp4":
            # codes [n][k/2], low nibble first; scales in tiles of 128 rows by 4 blocks; one float32 divisor
            magnitude = np.array([0, .5, 1, 1.5, 2, 3, 4, 6])
            nibbles = np.stack([raw[:n * k // 2] & 15, raw[:n * k // 2] >> 4], -1).reshape(n, k)
            value = magnitude[nibbles & 7] * np.where(nibbles & 8, -1.0, 1.0)
            blocks, at = k // 16, plane_end(n * k // 2)
            rows, cols = np.meshgrid(np.arange(n), np.arange(blocks), indexing="ij")
            tile = rows // 128 * ((blocks + 3) // 4) + cols // 4
            place = tile * 512 + rows % 32 * 16 + rows % 128 // 32 * 4 + cols % 4
            scale_bytes = (n + 127) // 128 * 128 * ((blocks + 3) // 4 * 4)
            scales = e4m3_values(raw[at:at + scale_bytes])[place]
            divisor = float(raw[-4:].view("<f4")[0])
            # The represented value is one correctly rounded float32 division of the exact product.
            exact = value.reshape(n, blocks, 16) * scales[:, :, None]
            return (exact.astype(np.float32) / np.float32(divisor)).astype(np.float64).reshape(n, k)
        bits, group = {"q4_g64_fp16": (4, 64), "q5_g64_fp16": (5, 64), "q6_g64_fp16": (6, 64), "q8_g32_fp16": (8, 32)}[fmt]
        padded = (k + 127) // 128 * 128
        low = n * padded if bits == 8 else n * padded // 2
        high = 0 if bits == 8 else n * padded * (bits - 4) // 8
        scales_at = plane_end(low) + plane_end(high)
        scales = raw[scales_at:scales_at + n * padded // group * 2].view("<f2").astype(np.float64)
        if bits == 8:
            codes = raw[:low].view(np.int8).astype(np.int64)
        else:
            codes = np.stack([raw[:low] & 15, raw[:low] >> 4], -1).reshape(-1).astype(np.int64)
            if high:
                upper = np.unpackbits(raw[plane_end(low):plane_end(low) + high], bitorder="little").astype(np.int64)
                codes += (upper.reshape(-1, bits - 4) << np.arange(4, bits)).sum(-1)
            codes -= (codes >> (bits - 1)) << bits
        return (codes.reshape(-1, group) * scales[:, None]).reshape(n, padded)[:, :k]

    def parameter(self, name, *shape):
        binding = self.directory["bindings"][name]
        if "object" in binding:
            return self.object(binding["object"]).reshape(shape)
        parts = [self.object(p["object"]).reshape(-1)[p["range"][0]:p["range"][1]] for p in binding["parts"]]
        return np.concatenate(parts).reshape(shape)


def bf16_values(words):
    return (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def e4m3_values(codes):
    codes = codes.astype(np.int64)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    size = np.where(exponent == 0, mantissa * 2.0 ** -9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    return np.where(codes & 128, -size, size)


def cached(x, kv):
    """What a KV cache of codec `kv` gives back for rows x[..., dim]."""
    if kv == "f64":
        return x
    x = x.astype(np.float32)
    if kv == "bf16":
        u = x.view(np.uint32).astype(np.uint64)
        return bf16_values(((u + 0x7FFF + (u >> 16 & 1)) >> 16).astype(np.uint16))
    if kv == "int8":
        out = np.empty(x.shape)
        for at in range(0, x.shape[-1], 64):
            g = x[..., at:at + 64]
            scale = np.minimum(np.abs(g).max(-1, keepdims=True) / np.float32(127), np.float32(65504)).astype(np.float16)
            scale = scale.astype(np.float32)
            inverse = np.where(scale > 0, np.float32(1) / np.where(scale > 0, scale, np.float32(1)), np.float32(0))
            out[..., at:at + 64] = np.clip(np.rint(g * inverse), -127, 127).astype(np.float64) * scale
        return out
    return x.astype(np.float64)


def sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def silu(x):
    return x * sigmoid(x)


class Model:
    def __init__(self, artifact, kv="f64", eps=None):
        self.a, self.kv = artifact, kv
        self.c = artifact.directory["components"]["text"]["config"]
        assert self.c["architectures"] == ["Qwen3_5ForCausalLM"], "the dense hybrid only"
        self.eps = float(np.float32(self.c["rms_norm_eps"])) if eps is None else eps
        self.H, self.V = self.c["hidden_size"], self.c["vocab_size"]

    def norm(self, x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * weight

    def offset_norm(self, x, name, width=None):
        return self.norm(x, 1 + self.a.parameter(name, width or self.H))

    def linear(self, x, name, n):
        return x @ self.a.parameter(name, n, x.shape[-1]).T

    def rope(self, x, positions):
        r = self.c["rope_parameters"]
        width = int(x.shape[-1] * r["partial_rotary_factor"])
        half = width // 2
        # Text only: the three position axes are equal.
        angle = np.asarray(positions, np.float64)[:, None] * float(r["rope_theta"]) ** (-2.0 * np.arange(half) / width)
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        p, q, rest = x[..., :half], x[..., half:width], x[..., width:]
        return np.concatenate([p * cos - q * sin, q * cos + p * sin, rest], -1)

    def attention(self, h, prefix, positions):
        T, D = len(h), self.c["head_dim"]
        hq, hk = self.c["num_attention_heads"], self.c["num_key_value_heads"]
        q = self.linear(h, prefix + "query", hq * D).reshape(T, hq, D)
        gate = self.linear(h, prefix + "gate", hq * D)
        k = self.linear(h, prefix + "key", hk * D).reshape(T, hk, D)
        v = self.linear(h, prefix + "value", hk * D).reshape(T, hk, D)
        q = self.rope(self.offset_norm(q, prefix + "query_norm", D), positions)
        k = self.rope(self.offset_norm(k, prefix + "key_norm", D), positions)
        k, v = cached(k, self.kv), cached(v, self.kv)
        mixed = np.empty((T, hq, D))
        for j in range(hq):
            s = q[:, j] @ k[:, j * hk // hq].T / np.sqrt(D)
            s = np.where(np.tri(T, dtype=bool), s, -np.inf)
            p = np.exp(s - s.max(-1, keepdims=True))
            mixed[:, j] = p / p.sum(-1, keepdims=True) @ v[:, j * hk // hq]
        return self.linear(mixed.reshape(T, hq * D) * sigmoid(gate), prefix + "output", self.H)

    def delta_net(self, h, prefix, trace):
        T, c = len(h), self.c
        nk, dk, nv, dv = (c["linear_" + n] for n in ("num_key_heads", "key_head_dim", "num_value_heads", "value_head_dim"))
        taps, kw, vw = c["linear_conv_kernel_dim"], nk * dk, nv * dv
        u = np.concatenate([self.linear(h, prefix + n, w) for n, w in (("query", kw), ("key", kw), ("value", vw))], -1)
        z = self.linear(h, prefix + "z", vw).reshape(T, nv, dv)
        alpha, b = self.linear(h, prefix + "a_projection", nv), self.linear(h, prefix + "b_projection", nv)
        w = self.a.parameter(prefix + "convolution", taps, 2 * kw + vw)
        history = np.concatenate([np.zeros((taps - 1, 2 * kw + vw)), u])
        mixed = silu(sum(w[j] * history[j:j + T] for j in range(taps)))
        q, k = mixed[:, :kw].reshape(T, nk, dk), mixed[:, kw:2 * kw].reshape(T, nk, dk)
        v = mixed[:, 2 * kw:].reshape(T, nv, dv)
        q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6) for x in (q, k))
        x = alpha + self.a.parameter(prefix + "dt_bias", nv)
        g = -np.exp(self.a.parameter(prefix + "a_log", nv)) * np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20))))
        beta = sigmoid(b)
        state, o = np.zeros((nv, dv, dk)), np.empty((T, nv, dv))
        for t in range(T):
            for j in range(nv):
                kt, qt = k[t, j * nk // nv], q[t, j * nk // nv]
                state[j] *= np.exp(g[t, j])
                e = v[t, j] - state[j] @ kt
                state[j] += beta[t, j] * np.outer(e, kt)
                o[t, j] = state[j] @ qt / np.sqrt(dk)
        trace.update(g=g, beta=beta, state_v_k=state, conv_tail=history[T:])
        y = self.norm(o, self.a.parameter(prefix + "norm", dv)) * silu(z)
        return self.linear(y.reshape(T, vw), prefix + "output", self.H)

    def mlp(self, h, prefix):
        width = self.c["intermediate_size"]
        product = silu(self.linear(h, prefix + "gate", width)) * self.linear(h, prefix + "up", width)
        return self.linear(product, prefix + "down", self.H)

    def layer(self, x, prefix, mixer):
        middle = x + mixer(self.offset_norm(x, prefix + "input_norm"))
        return middle, middle + self.mlp(self.offset_norm(middle, prefix + "post_attention_norm"), prefix + "mlp/")

    def text(self, tokens, positions=None):
        """All traces of the target model, one row per token."""
        positions = np.arange(len(tokens)) if positions is None else positions
        out = {}
        x = self.a.parameter("text/token_embedding", self.V, self.H)[tokens]
        out["token_embedding"] = x
        for i, kind in enumerate(self.c["layer_types"]):
            prefix, trace = f"text/layers/{i}/", {}
            mixer = ((lambda h: self.attention(h, prefix + "attention/", positions)) if kind == "full_attention"
                     else (lambda h: self.delta_net(h, prefix + "gdn/", trace)))
            out[f"layer{i}_mixer"], x = self.layer(x, prefix, mixer)
            out[f"layer{i}_mlp"] = x
            out.update({f"layer{i}_gdn_{n}": v for n, v in trace.items()})
        out["final_hidden"] = self.offset_norm(x, "text/final_norm")
        out["logits"] = out["final_hidden"] @ self.head().T
        return out

    def head(self):
        name = "text/output_head" if "text/output_head" in self.a.directory["bindings"] else "text/token_embedding"
        return self.a.parameter(name, self.V, self.H)

    def mtp(self, tokens, hidden, positions=None):
        """The draft layer over the shifted prompt: row t has hidden state t and token t + 1, at the position of t."""
        positions = np.arange(len(tokens)) if positions is None else positions
        e = self.offset_norm(self.a.parameter("text/token_embedding", self.V, self.H)[tokens[1:]], "mtp/embedding_norm")
        r = self.offset_norm(hidden[:-1], "mtp/hidden_norm")
        stem = self.linear(np.concatenate([e, r], -1), "mtp/input_projection", self.H)
        prefix = "mtp/layers/0/"
        _, u = self.layer(stem, prefix, lambda h: self.attention(h, prefix + "attention/", positions[:-1]))
        d = self.offset_norm(u, "mtp/final_norm")
        out = {"mtp_stem": stem, "mtp_hidden": d, "mtp_logits_full": d @ self.head().T}
        if "proposal/head" in self.a.directory["bindings"]:
            rows = self.a.directory["components"]["text"]["proposal"].get("rows", self.V)
            out["mtp_logits_proposal"] = d @ self.a.parameter("proposal/head", rows, self.H).T
        return out

    def forward(self, tokens, positions=None):
        out = self.text(tokens, positions)
        if "mtp" in self.a.directory["components"]:
            out.update(self.mtp(tokens, out["final_hidden"], positions))
        return out


def write_trace(path, tokens, outputs):
    with open(path, "w", encoding="utf-8") as f:
        f.write(json.dumps({"tokens": tokens}, separators=(",", ":")) + "\n")
        for name, rows in outputs:
            for position, row in enumerate(rows):
                values = ",".join(f"{v:.10g}" for v in row)
                f.write(f'{{"output":"{name}","position":{position},"values":[{values}]}}\n')


def compare(model, path):
    """Differences from traces written with ten significant digits, beyond half a unit of the tenth digit of each value,
    relative to the largest value of the trace."""
    with open(path) as f:
        expected = json.load(f)
    out = model.forward(expected["ids"], np.array(expected["positions"]))
    worst = 0.0
    for name, trace in expected["oracle_f64"].items():
        source = "layer0_" + name if name.startswith("gdn_") else name
        got, want = out[source], np.array(trace["data"]).reshape(trace["shape"])
        if name in expected["rows_kept"]:
            got = got[expected["rows_kept"][name]]
        digit = 10.0 ** (np.floor(np.log10(np.maximum(np.abs(want), 1e-300))) - 9)
        largest, error = np.abs(want).max(), np.abs(got - want)
        beyond = np.maximum(error - digit / 2, 0).max() / largest
        worst = max(worst, beyond)
        print(f"{name:22} {str(want.shape):14} largest difference {error.max() / largest:.1e}, beyond the digits {beyond:.1e}")
    return worst


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("--tokens")
    ap.add_argument("--kv", choices=["f64", "f32", "bf16", "int8"], default="f64")
    ap.add_argument("--out")
    ap.add_argument("--trace")
    ap.add_argument("--json", type=int)
    ap.add_argument("--compare")
    args = ap.parse_args()
    if args.compare:
        # The traces of the golden file were made with 1e-6 itself; a config holds the binary32 number next to it.
        model = Model(Artifact(args.model), eps=1e-6)
        sys.exit(int(compare(model, args.compare) > 1e-12))
    model = Model(Artifact(args.model), args.kv)
    tokens = [int(t) for t in args.tokens.split(",")]
    out = model.forward(tokens)
    if args.out:
        np.savez(args.out, **out)
    if args.trace:
        names = [("text/token_embedding", "token_embedding")]
        for i in range(len(model.c["layer_types"])):
            names += [(f"text/layers/{i}/mixer", f"layer{i}_mixer"), (f"text/layers/{i}", f"layer{i}_mlp")]
        names.append(("text/final_norm", "final_hidden"))
        write_trace(args.trace, tokens, [(name, out[key]) for name, key in names])
    if args.json:
        rows = []
        for row in out["logits"]:
            top = np.argsort(-row, kind="stable")[:args.json]
            rows.append({"top": [[int(t), float(row[t])] for t in top], "rms": float(np.sqrt((row * row).mean()))})
        json.dump({"tokens": tokens, "kv": args.kv, "rows": rows}, sys.stdout)
        print()


if __name__ == "__main__":
    main()
