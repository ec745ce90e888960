#!/usr/bin/env python3
"""Trains the demo model (a Qwen3-style decoder: grouped-query attention, q/k norms, tied head) with numpy alone
and writes a Hugging Face style checkpoint folder. Forward and backward passes are written out by hand.

usage: train.py OUT_DIR [--steps N] [--stop N] [--seed S]
Needs numpy with a fast BLAS (the PyPI wheel; set OPENBLAS_NUM_THREADS=1): about 0.3 s a step, six minutes for the
committed model.
"""
import argparse
import random
import time

import numpy as np

import corpus
import folder

HIDDEN, LAYERS, HEADS, KV_HEADS, DIM, INNER, THETA, EPS = 128, 3, 4, 2, 32, 256, 10000.0, 1e-6
SEQ, BATCH, VOCAB = 96, 32, 512
F = np.float32


def init(rng):
    def normal(n, k, scale=1.0):
        return (rng.standard_normal((n, k)) * scale / np.sqrt(k)).astype(F)
    p = {"embed": (rng.standard_normal((VOCAB, HIDDEN)) * 0.08).astype(F), "final": np.ones(HIDDEN, F)}
    out = 1.0 / np.sqrt(2 * LAYERS)
    for i in range(LAYERS):
        p |= {f"{i}.n1": np.ones(HIDDEN, F), f"{i}.n2": np.ones(HIDDEN, F),
              f"{i}.qn": np.ones(DIM, F), f"{i}.kn": np.ones(DIM, F),
              f"{i}.q": normal(HEADS * DIM, HIDDEN), f"{i}.k": normal(KV_HEADS * DIM, HIDDEN),
              f"{i}.v": normal(KV_HEADS * DIM, HIDDEN), f"{i}.o": normal(HIDDEN, HEADS * DIM, out),
              f"{i}.g": normal(INNER, HIDDEN), f"{i}.u": normal(INNER, HIDDEN), f"{i}.d": normal(HIDDEN, INNER, out)}
    return p


def norm(x, w):
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + F(EPS))
    return x * r * w, (x, r, w)


def norm_back(dy, saved):
    x, r, w = saved
    dw = (dy * x * r).reshape(-1, w.size).sum(0)
    t = dy * w
    return r * (t - x * r * r * (t * x).mean(-1, keepdims=True)), dw


def rope_tables(length):
    f = THETA ** (-np.arange(DIM // 2) * 2.0 / DIM)
    a = np.arange(length)[:, None] * f
    return np.cos(a).astype(F), np.sin(a).astype(F)


def rotate(x, cos, sin, sign=1):
    a, b = x[..., :DIM // 2], x[..., DIM // 2:]
    s = sin * F(sign)
    return np.concatenate([a * cos - b * s, b * cos + a * s], -1)


def forward(p, ids, keep=True):
    """ids [B,T] -> logits [B,T,V]; `keep` returns what the backward pass needs."""
    B, T = ids.shape
    cos, sin = rope_tables(T)
    mask = np.triu(np.full((T, T), -1e30, F), 1)
    x, tape = p["embed"][ids], []
    for i in range(LAYERS):
        h, s1 = norm(x, p[f"{i}.n1"])
        q = lin(h, p[f"{i}.q"].T).reshape(B, T, HEADS, DIM).transpose(0, 2, 1, 3)
        k = lin(h, p[f"{i}.k"].T).reshape(B, T, KV_HEADS, DIM).transpose(0, 2, 1, 3)
        v = lin(h, p[f"{i}.v"].T).reshape(B, T, KV_HEADS, DIM).transpose(0, 2, 1, 3)
        q, sq = norm(q, p[f"{i}.qn"])
        k, sk = norm(k, p[f"{i}.kn"])
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        G = HEADS // KV_HEADS
        qg = q.reshape(B, KV_HEADS, G, T, DIM)
        s = qg @ k[:, :, None].transpose(0, 1, 2, 4, 3) * F(DIM ** -0.5) + mask
        s = np.exp(s - s.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        a = (s @ v[:, :, None]).reshape(B, HEADS, T, DIM).transpose(0, 2, 1, 3).reshape(B, T, HEADS * DIM)
        x1 = x + lin(a, p[f"{i}.o"].T)
        h2, s2 = norm(x1, p[f"{i}.n2"])
        g, u = lin(h2, p[f"{i}.g"].T), lin(h2, p[f"{i}.u"].T)
        sig = 1 / (1 + np.exp(-g))
        m = g * sig * u
        if keep:
            tape.append((h, s1, sq, sk, qg, k, v, s, a, h2, s2, g, u, sig, m))
        x = x1 + lin(m, p[f"{i}.d"].T)
    y, sf = norm(x, p["final"])
    return lin(y, p["embed"].T), (tape, y, sf, cos, sin)


def lin(x, w):
    """x [B,T,k] times w [k,n]; two dimensions at a time, which the BLAS does much faster than a stack of products."""
    return (x.reshape(-1, x.shape[-1]) @ w).reshape(*x.shape[:-1], w.shape[1])


def mm(a, b):
    """Sum over batch and time of outer products: [B,T,n] x [B,T,k] -> [n,k]."""
    return a.reshape(-1, a.shape[-1]).T @ b.reshape(-1, b.shape[-1])


def step(p, ids, target, weight):
    """Weighted cross-entropy and its gradient."""
    logits, (tape, y, sf, cos, sin) = forward(p, ids)
    B, T, V = logits.shape
    logits -= logits.max(-1, keepdims=True)
    e = np.exp(logits)
    z = e.sum(-1, keepdims=True)
    bi, ti = np.indices((B, T))
    w = weight / weight.sum()
    loss = float(((np.log(z[..., 0]) - logits[bi, ti, target]) * w).sum())
    d = e / z
    d[bi, ti, target] -= 1
    d *= w[..., None]
    g = {"embed": mm(d, y)}
    dx, g["final"] = norm_back(lin(d, p["embed"]), sf)
    for i in reversed(range(LAYERS)):
        h, s1, sq, sk, qg, k, v, s, a, h2, s2, gt, u, sig, m = tape[i]
        g[f"{i}.d"] = mm(dx, m)
        dm = lin(dx, p[f"{i}.d"])
        du = dm * gt * sig
        dg = dm * u * sig * (1 + gt * (1 - sig))
        g[f"{i}.g"], g[f"{i}.u"] = mm(dg, h2), mm(du, h2)
        t, g[f"{i}.n2"] = norm_back(lin(dg, p[f"{i}.g"]) + lin(du, p[f"{i}.u"]), s2)
        dx = dx + t
        g[f"{i}.o"] = mm(dx, a)
        da = lin(dx, p[f"{i}.o"]).reshape(B, T, HEADS, DIM).transpose(0, 2, 1, 3).reshape(qg.shape)
        dv = (s.swapaxes(-1, -2) @ da).sum(2)
        ds = da @ v[:, :, None].swapaxes(-1, -2)
        ds = s * (ds - (ds * s).sum(-1, keepdims=True)) * F(DIM ** -0.5)
        dq = (ds @ k[:, :, None]).reshape(B, HEADS, T, DIM)
        dk = (ds.swapaxes(-1, -2) @ qg).sum(2)
        dq, g[f"{i}.qn"] = norm_back(rotate(dq, cos, sin, -1), sq)
        dk, g[f"{i}.kn"] = norm_back(rotate(dk, cos, sin, -1), sk)
        dq, dk, dv = (t.transpose(0, 2, 1, 3).reshape(B, T, -1) for t in (dq, dk, dv))
        g[f"{i}.q"], g[f"{i}.k"], g[f"{i}.v"] = mm(dq, h), mm(dk, h), mm(dv, h)
        t, g[f"{i}.n1"] = norm_back(lin(dq, p[f"{i}.q"]) + lin(dk, p[f"{i}.k"]) + lin(dv, p[f"{i}.v"]), s1)
        dx = dx + t
    np.add.at(g["embed"], ids, dx)
    return loss, g


def batch(rng, bpe):
    ids, weight = corpus.rows(rng, bpe, BATCH, SEQ + 1)
    ids, weight = np.array(ids, np.int64), np.array(weight, F)
    return ids[:, :-1], ids[:, 1:], weight[:, 1:]


def generate(p, bpe, question, limit=32):
    ids = bpe.encode(corpus.prompt(question))
    n = len(ids)
    while len(ids) < n + limit:
        nxt = int(forward(p, np.array([ids]), keep=False)[0][0, -1].argmax())
        if nxt == bpe.special["<|im_end|>"]:
            break
        ids.append(nxt)
    return bpe.decode(ids[n:])


def save(p, bpe, out):
    names = {"embed": "model.embed_tokens.weight", "final": "model.norm.weight"}
    hf = {"n1": "input_layernorm", "n2": "post_attention_layernorm", "qn": "self_attn.q_norm", "kn": "self_attn.k_norm",
          "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj",
          "g": "mlp.gate_proj", "u": "mlp.up_proj", "d": "mlp.down_proj"}
    for i in range(LAYERS):
        names |= {f"{i}.{s}": f"model.layers.{i}.{n}.weight" for s, n in hf.items()}
    folder.write(out, {hf: p[key] for key, hf in names.items()}, {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": HIDDEN, "vocab_size": VOCAB,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": DIM,
        "intermediate_size": INNER, "max_position_embeddings": 512, "rms_norm_eps": EPS, "rope_theta": THETA,
        "rope_scaling": None, "tie_word_embeddings": True, "hidden_act": "silu", "attention_bias": False,
        "use_sliding_window": False, "bos_token_id": None, "eos_token_id": bpe.special["<|im_end|>"],
        "torch_dtype": "bfloat16"}, bpe)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("out")
    ap.add_argument("--steps", type=int, default=4500, help="length of the learning-rate schedule")
    ap.add_argument("--stop", type=int, help="end after this step of the schedule (the committed model: 1250 of 4500)")
    ap.add_argument("--seed", type=int, default=7)
    args = ap.parse_args()
    rng = random.Random(args.seed)
    bpe = corpus.tokenizer_of(rng, VOCAB)
    p = init(np.random.default_rng(args.seed))
    m = {k: np.zeros_like(v) for k, v in p.items()}
    s = {k: np.zeros_like(v) for k, v in p.items()}
    began, mean = time.time(), None
    last = min(args.steps, args.stop or args.steps)
    for n in range(1, last + 1):
        loss, g = step(p, *batch(rng, bpe))
        mean = loss if mean is None else 0.98 * mean + 0.02 * loss
        clip = min(1.0, 1.0 / (np.sqrt(sum(float((v * v).sum()) for v in g.values())) + 1e-9))
        rate = 3e-3 * min(1, n / 100) * (0.02 + 0.98 * 0.5 * (1 + np.cos(np.pi * n / args.steps)))
        for k in p:
            d = g[k] * F(clip)
            m[k] += F(0.1) * (d - m[k])
            s[k] += F(0.02) * (d * d - s[k])
            p[k] -= F(rate) * (m[k] / F(1 - 0.9 ** n)) / (np.sqrt(s[k] / F(1 - 0.98 ** n)) + F(1e-8))
        if n % 250 == 0 or n == last:
            tests = corpus.test_set(60)
            right = sum(generate(p, bpe, q) == a for q, a in tests)
            print(f"step {n} loss {mean:.4f} held-out {right}/{len(tests)} {time.time() - began:.0f} s", flush=True)
            save(p, bpe, args.out)


if __name__ == "__main__":
    main()
