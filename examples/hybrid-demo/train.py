#!/usr/bin/env python3
"""Trains the hybrid demo model and its draft layer on the text of the first demo and writes a Hugging Face style checkpoint folder.

First the model and link 1 of the draft chain together, then the draft layer alone on a chain of three links.

usage: train.py OUT_DIR [--steps N] [--draft-steps N] [--seed S] [--threads N] [--measure]
Needs PyTorch (CPU). --measure trains nothing: it reads OUT_DIR/model.safetensors and prints the figures of the README.
"""
import argparse
import json
import math
import os
import random
import struct
import sys
import time

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "demo"))
import corpus  # noqa: E402
import folder  # noqa: E402
import model  # noqa: E402

SEQ, BATCH, LINKS, DRAFT_WEIGHT = 96, 32, 3, 0.3


class Adam:
    def __init__(self, tensors, rate, steps):
        self.tensors, self.rate, self.steps, self.n = tensors, rate, steps, 0
        self.m = [torch.zeros_like(t) for t in tensors]
        self.s = [torch.zeros_like(t) for t in tensors]

    @torch.no_grad()
    def step(self, loss):
        """One step down the gradient of `loss`: norm clipped to 1, warm-up of 100 steps, cosine decay to 2 %."""
        self.n += 1
        n = self.n
        rate = self.rate * min(1, n / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * n / self.steps)))
        with torch.enable_grad():
            grads = torch.autograd.grad(loss, self.tensors)
        clip = min(1.0, 1.0 / (math.sqrt(sum(float(g.square().sum()) for g in grads)) + 1e-9))
        for t, g, m, s in zip(self.tensors, grads, self.m, self.s):
            m.lerp_(g * clip, 0.1)
            s.lerp_((g * clip).square(), 0.02)
            t -= rate * (m / (1 - 0.9 ** n)) / ((s / (1 - 0.98 ** n)).sqrt() + 1e-8)


def loss_at(p, hidden, ids, weight, ahead):
    """Weighted cross-entropy of predicting, from the state at t, the token at t+ahead."""
    last = ids.shape[1] - ahead
    each = F.cross_entropy(model.head(p, hidden[:, :last]).flatten(0, 1), ids[:, ahead:].flatten(), reduction="none")
    w = weight[:, ahead:].flatten()
    return (each * w).sum() / w.sum()


@torch.no_grad()
def generate(p, bpe, questions, limit=48):
    """Greedy token ids per question: (length of the prompt, prompt and answer up to its stop token)."""
    rows = [bpe.encode(corpus.prompt(q)) for q in questions]
    lengths, end = [len(r) for r in rows], bpe.special["<|im_end|>"]
    active = list(range(len(rows)))
    while active:
        longest = max(len(rows[i]) for i in active)
        # The model is causal: what pads the shorter rows on the right changes nothing.
        hidden = model.trunk(p, torch.tensor([rows[i] + [0] * (longest - len(rows[i])) for i in active]))
        state = torch.stack([h[len(rows[i]) - 1] for h, i in zip(hidden, active)])
        for i, token in zip(active, model.head(p, state).argmax(-1).tolist()):
            rows[i].append(token)
        active = [i for i in active if rows[i][-1] != end and len(rows[i]) < lengths[i] + limit]
    return list(zip(lengths, rows))


def right_answers(p, bpe, tests):
    answers = generate(p, bpe, [q for q, _ in tests])
    return sum(row[n:] == bpe.encode(a + "<|im_end|>") for (n, row), (_, a) in zip(answers, tests)), answers


@torch.no_grad()
def agreement(p, answers):
    """How often the links of the draft chain name the greedy token of the model, over generated answers.

    Returns per link the share given that all links before it agreed, and per window w = 1..LINKS the mean number of tokens a round of
    w drafts and one verification yields, and the share of drafts accepted.
    """
    seen, agreed = [0] * LINKS, [0] * LINKS
    rounds, tokens, accepted, drafted = ([0] * (LINKS + 1) for _ in range(4))
    for n, row in answers:
        ids = torch.tensor([row])
        links = [model.head(p, d)[0].argmax(-1).tolist() for d in model.drafts(p, model.trunk(p, ids), ids, LINKS)]
        for t in range(n - 1, len(row) - 2):
            for s in range(LINKS):
                if t + s + 2 >= len(row):
                    break
                seen[s] += 1
                if links[s][t] != row[t + s + 2]:
                    break
                agreed[s] += 1
        for w in range(1, LINKS + 1):
            t = n - 1  # the token at t+1 is known from the prompt's own evaluation
            while t + 2 < len(row):
                took = 0
                while took < w and t + took + 2 < len(row) and links[took][t] == row[t + took + 2]:
                    took += 1
                rounds[w] += 1
                drafted[w] += w
                accepted[w] += took
                tokens[w] += min(took + 1, len(row) - t - 2)
                t += took + 1
    return ([a / s for a, s in zip(agreed, seen)],
            {w: (tokens[w] / rounds[w], accepted[w] / drafted[w]) for w in range(1, LINKS + 1)})


def rounded(p):
    return {k: v.detach().bfloat16().float() for k, v in p.items()}


def save(p, bpe, out):
    tensors = {k: v.detach().numpy() for k, v in p.items()}
    folder.write(out, tensors, model.CONFIG | {"eos_token_id": bpe.special["<|im_end|>"]}, bpe)


def load(out):
    with open(f"{out}/model.safetensors", "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(size)), bytearray(f.read())
    header.pop("__metadata__")
    return {k: torch.frombuffer(data, dtype=torch.bfloat16, count=math.prod(h["shape"]), offset=h["data_offsets"][0])
            .reshape(h["shape"]).float() for k, h in header.items()}


def report(p, bpe, count):
    right, answers = right_answers(p, bpe, corpus.test_set(count))
    shares, windows = agreement(p, answers)
    return (f"held-out {right}/{count}, drafts agree " + ", ".join(f"{s:.1%}" for s in shares) + "; " +
            "; ".join(f"window {w}: {t:.2f} tokens a round, {a:.1%} accepted" for w, (t, a) in windows.items()))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("out")
    ap.add_argument("--steps", type=int, default=1500)
    ap.add_argument("--draft-steps", type=int, default=400)
    ap.add_argument("--seed", type=int, default=7)
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--measure", action="store_true")
    args = ap.parse_args()
    torch.set_num_threads(args.threads)
    rng = random.Random(args.seed)
    bpe = corpus.tokenizer_of(rng, model.VOCAB)
    if args.measure:
        print(report(load(args.out), bpe, 200))
        return
    p, began, mean = model.init(args.seed), time.time(), None
    optimiser = Adam(list(p.values()), 3e-3, args.steps)
    for n in range(1, args.steps + args.draft_steps + 1):
        ids, weight = (torch.tensor(x) for x in corpus.rows(rng, bpe, BATCH, SEQ + 1))
        if n <= args.steps:
            hidden = model.trunk(p, ids)
            (draft,) = model.drafts(p, hidden, ids, 1)
            main_loss = loss_at(p, hidden, ids, weight, 1)
            loss = main_loss + DRAFT_WEIGHT * loss_at(p, draft, ids, weight, 2)
        else:
            if n == args.steps + 1:
                p = {k: v.detach() for k, v in p.items()}
                layer = [v.requires_grad_() for k, v in p.items() if k.startswith("mtp.")]
                optimiser, mean = Adam(layer, 1e-3, args.draft_steps), None
            with torch.no_grad():
                hidden = model.trunk(p, ids)
            loss = main_loss = sum(loss_at(p, d, ids, weight, s + 2)
                                   for s, d in enumerate(model.drafts(p, hidden, ids, LINKS))) / LINKS
        optimiser.step(loss)
        value = float(main_loss.detach())
        mean = value if mean is None else 0.98 * mean + 0.02 * value
        if n % 250 == 0 or n in (args.steps, args.steps + args.draft_steps):
            print(f"step {n} loss {mean:.4f} {report(rounded(p), bpe, 60)} {time.time() - began:.0f} s", flush=True)
            save(p, bpe, args.out)


if __name__ == "__main__":
    main()
