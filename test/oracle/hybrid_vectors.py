#!/usr/bin/env python3
"""Writes test/vectors/hybrid.json: operators of the hybrid family in float64, and the words of the int8 KV codec.

Written from the formulas of the models (docs/runtime.md names them); shares no code with the product. Inputs are float32
numbers, so JSON holds them exactly. Needs numpy.

usage: hybrid_vectors.py OUT.json
"""
import json
import sys

import numpy as np

rng = np.random.default_rng(20240917)


def f32(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def bf16(*shape):
    words = (f32(*shape).view(np.uint32) >> 16).astype(np.uint16)
    return words, (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def flat(x):
    return [float(v) for v in np.asarray(x).reshape(-1)]


def ints(x):
    return [int(v) for v in np.asarray(x).reshape(-1)]


sigmoid = lambda x: 1 / (1 + np.exp(-x))


def conv(taps, widths, rows):
    c = sum(widths)
    u, tail = f32(rows, c), f32(taps - 1, c)
    words, w = bf16(taps, c)
    history = np.concatenate([tail, u]).astype(np.float64)
    pre = np.stack([(w * history[t:t + taps]).sum(0) for t in range(rows)])
    cut = np.cumsum(widths)[:-1]
    return {"taps": taps, "widths": widths, "rows": rows, "u": [flat(p) for p in np.split(u, cut, 1)], "weight": ints(words),
            "tail": flat(tail), "out": [flat(p) for p in np.split(pre * sigmoid(pre), cut, 1)],
            "tail_after": flat(history[rows:])}


def delta(nk, dk, nv, dv, rows):
    q, k, v = f32(rows, nk, dk), f32(rows, nk, dk), f32(rows, nv, dv)
    a, b = f32(rows, nv, scale=2), f32(rows, nv, scale=2)
    a[0, 0] = 25  # beyond the switch of softplus, with a rate that leaves some of the state
    a_log, dt_bias, state = np.log(rng.uniform(0.05, 4, nv)).astype(np.float32), f32(nv), f32(nv, dv, dk)
    a_log[0] = np.log(np.float32(0.02))
    wide = lambda x: x.astype(np.float64)
    unit = lambda x: wide(x) / np.sqrt((wide(x) ** 2).sum(-1, keepdims=True) + 1e-6)
    qn, kn, s = unit(q), unit(k), wide(state)
    x = wide(a) + wide(dt_bias)
    g = -np.exp(wide(a_log)) * np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20))))
    beta, out = sigmoid(wide(b)), np.zeros((rows, nv, dv))
    for t in range(rows):
        for j in range(nv):
            kt, qt = kn[t, j // (nv // nk)], qn[t, j // (nv // nk)]
            s[j] = np.exp(g[t, j]) * s[j]
            e = wide(v)[t, j] - s[j] @ kt
            s[j] = s[j] + beta[t, j] * np.outer(e, kt)
            out[t, j] = s[j] @ qt / np.sqrt(dk)
    return {"key_heads": nk, "key_dim": dk, "value_heads": nv, "value_dim": dv, "rows": rows, "query": flat(q), "key": flat(k),
            "value": flat(v), "a": flat(a), "b": flat(b), "a_log": flat(a_log), "dt_bias": flat(dt_bias), "state": flat(state),
            "out": flat(out), "state_after": flat(s)}


def gated_norm(heads, dim, rows, eps):
    x, gate = f32(rows, heads, dim), f32(rows, heads, dim, scale=3)
    words, w = bf16(dim)
    y = x.astype(np.float64)
    y = y / np.sqrt((y * y).mean(-1, keepdims=True) + eps) * w * gate.astype(np.float64) * sigmoid(gate.astype(np.float64))
    return {"heads": heads, "dim": dim, "rows": rows, "eps": eps, "x": flat(x), "gate": flat(gate), "weight": ints(words),
            "out": flat(y)}


def int8_row(label, x):
    """One head: groups of 64. All in float32, as the codec is defined."""
    x = np.asarray(x, np.float32)
    codes, scales = [], []
    for at in range(0, len(x), 64):
        group = x[at:at + 64]
        step = np.abs(group).max() / np.float32(127)
        scale = np.float16(min(step, np.float32(65504)))
        inverse = np.float32(1) / np.float32(scale) if scale > 0 else np.float32(0)
        codes += ints(np.clip(np.rint(group * inverse), -127, 127))
        scales.append(int(scale.view(np.uint16)))
    return {"label": label, "x": ints(x.view(np.uint32)), "codes": codes, "scales": scales}


def int8_rows():
    ramp = np.arange(-64, 64, dtype=np.float32)
    ties = np.concatenate([[127], np.arange(-31, 32) + 0.5]).astype(np.float32) / 8
    subnormal = np.float32(1.4 * 127 * 2.0 ** -24) * np.linspace(-1, 1, 64).astype(np.float32)
    half = lambda f: np.concatenate([[np.float32(127 * f)], np.float32(127 * f) * np.linspace(0, 1, 19)])
    rows = [("zero", [0.0, -0.0] * 16), ("one", [3.0]), ("negative largest", [-5.0, 1.0, 4.99, 0.02]), ("ramp", ramp / 3),
            ("ties at half codes", ties), ("subnormal scale rounded down: codes clamp", subnormal),
            ("scale underflows", np.full(64, 127 * 2.0 ** -25)), ("scale just above the underflow", np.full(64, 127 * 2.0 ** -25 * 1.001)),
            ("tie of the scale, to even below", half(1 + 2.0 ** -11)), ("tie of the scale, to even above", half(1 + 3 * 2.0 ** -11)),
            ("largest scale", half(65504.0)), ("beyond the largest scale", [3e38, -1e7, 65504.0, 1.0])]
    # Where a product with the reciprocal and a quotient round to different codes.
    # Only next to ties do they differ, and not for every scale.
    near = (np.arange(0.5, 120)[:, None] * (1 + np.arange(-2, 3) * 2.0 ** -24)).reshape(-1)
    for top in np.linspace(100, 120, 2000).astype(np.float32):
        scale = np.float32(np.float16(top / np.float32(127)))
        x = (near * scale).astype(np.float32)
        other = x[np.rint(x * (np.float32(1) / scale)) != np.rint(x / scale)]
        if len(other) >= 12:
            break
    assert len(other) >= 12
    rows.append(("reciprocal, not quotient", np.concatenate([[top], other[:63]])))
    rows += [("random %d" % n, f32(n, scale=2.0 ** (n % 7 - 3))) for n in (20, 64, 96, 128, 130, 256)]
    return [int8_row(*row) for row in rows]


def main():
    out = {"causal_conv": [conv(4, [3, 3, 5], 6), conv(4, [2, 2, 2], 2), conv(1, [1, 2, 1], 3), conv(8, [2, 1, 2], 5)],
           "gated_delta": [delta(2, 5, 4, 3, 6), delta(1, 16, 1, 2, 9), delta(3, 4, 3, 4, 1)],
           "gated_head_norm": [gated_norm(3, 5, 2, 1e-6)], "int8": int8_rows()}
    # One value per line would be thousands of lines: one line per member instead.
    with open(sys.argv[1], "w") as f:
        f.write("{\n" + ",\n".join('"%s": [\n%s\n]' % (k, ",\n".join(json.dumps(c) for c in v)) for k, v in out.items()) + "\n}\n")


main()
