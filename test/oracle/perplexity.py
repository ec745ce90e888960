#!/usr/bin/env python3
"""Independent oracle of ninfer-exec perplexity for dense decoders: decoder_forward.py over windows of token ids, in float64.

usage: perplexity.py MODEL.ninfer TOKENS [--context 512] [--first N] [--windows N] [--kv f32|bf16] [--against EACH.csv]
TOKENS: a file of ids separated by commas or white space. --against: the file of `ninfer-exec perplexity --each`, for the largest and the mean
difference of a loss. Needs numpy.
"""
import argparse
import csv
import re

import numpy as np

import decoder_forward as oracle


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("tokens")
    ap.add_argument("--context", type=int, default=512)
    ap.add_argument("--first", type=int)
    ap.add_argument("--windows", type=int)
    ap.add_argument("--kv", choices=["f32", "bf16"], default="f32")
    ap.add_argument("--against")
    args = ap.parse_args()
    with open(args.tokens) as f:
        tokens = [int(t) for t in re.split(r"[,\s]+", f.read().strip())]
    first = args.context // 2 if args.first is None else args.first
    count = len(tokens) // args.context
    if args.windows:
        count = min(count, args.windows)
    artifact = oracle.Artifact(args.model)
    losses = {}
    for w in range(count):
        ids = np.array(tokens[w * args.context:(w + 1) * args.context])
        logits = oracle.forward(artifact, ids, args.kv)
        top = logits.max(-1, keepdims=True)
        logp = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
        for at in range(first + 1, args.context):
            losses[w, at] = -logp[at - 1, ids[at]]
    values = np.array(list(losses.values()))
    error = values.std(ddof=1) / np.sqrt(len(values))
    print(f"tokens {len(values)} nll {values.mean():.6f} +- {error:.6f} ppl {np.exp(values.mean()):.5f} +- {np.exp(values.mean()) * error:.5f}")
    if args.against:
        with open(args.against) as f:
            found = {(int(r["window"]), int(r["position"])): float(r["nll"]) for r in csv.DictReader(f)}
        d = np.array([found[k] - v for k, v in losses.items()])
        print(f"difference: largest {np.abs(d).max():.3g}, mean {d.mean():.3g} +- {d.std(ddof=1) / np.sqrt(len(d)):.3g}")


if __name__ == "__main__":
    main()
