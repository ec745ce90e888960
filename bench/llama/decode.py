#!/usr/bin/env python3
"""Decode of ninfer beside llama.cpp where the memory is not the same all the time: short runs in turns, the read probe around each.

A virtual machine's neighbours change its memory bandwidth within seconds, and with it the ratio of two engines that it limits. So a run is
kept only when the probes before and after it agree, and pairs of neighbouring runs are grouped by what the probe read: "slow" and "fast" are below and above
the middle of the extremes when these are 1.25 or more apart. Takes the options of compare.py that it knows.
"""
import argparse
import json
import os
import statistics

import compare
import models

AGREE, APART = 1.15, 1.25


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build", required=True)
    ap.add_argument("--work", required=True)
    ap.add_argument("--models", default=",".join(models.SHAPES))
    ap.add_argument("--recipes", default=",".join(compare.PEERS))
    ap.add_argument("--threads", default="1,2")
    ap.add_argument("--rounds", type=int, default=8, help="pairs of runs")
    ap.add_argument("--policy", default="AllowA8", choices=["A16Only", "AllowA8"])
    ap.add_argument("--json", help="write every measurement here")
    args = ap.parse_args()
    args.contexts, args.kv = [], "bf16"
    bench, everything = compare.Bench(args), []

    def probe(threads):
        return json.loads(compare.run(os.path.join(bench.bin, "read_probe"), 1024, 0.1))[threads]

    print("| model | ninfer | llama.cpp | threads | memory | probe GB/s | pairs | ninfer t/s | llama.cpp t/s | ratio | share of the probe |")
    print("|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for name in args.models.split(","):
        models.write(name, bench.path(name, "f16.gguf"))
        for recipe in args.recipes.split(","):
            kind, ftype = compare.PEERS[recipe][0]
            (artifact, plan), model = bench.ours(name, recipe), bench.theirs(name, kind, ftype)
            for threads in args.threads.split(","):
                pairs = []
                before = probe(threads)
                for _ in range(args.rounds):
                    rows = json.loads(compare.run(f"{bench.bin}/ninfer-exec", "bench", plan, "-t", threads, "-p", "0", "-n", compare.GENERATED,
                                                  "-r", 1, "-o", "json"))
                    between = probe(threads)
                    theirs = bench.measure_theirs(model, threads, [2])[f"tg{compare.GENERATED}"]
                    after = probe(threads)
                    pairs.append(dict(ninfer=rows[0]["t/s"], llama=theirs, probes=[before, between, after]))
                    before = after
                everything.append(dict(model=name, recipe=recipe, peer=kind, threads=int(threads), bytes=os.path.getsize(artifact), pairs=pairs))
                print_groups(everything[-1])
        if args.json:
            with open(args.json, "w") as f:
                json.dump(everything, f, indent=1)


def print_groups(result):
    probes = [p for pair in result["pairs"] for p in pair["probes"]]
    middle = (min(probes) + max(probes)) / 2 if max(probes) >= APART * min(probes) else None
    kept = [pair for pair in result["pairs"] if max(pair["probes"]) <= AGREE * min(pair["probes"])]
    for state in ("slow", "fast") if middle else ("steady",):
        group = [p for p in kept if not middle or (p["probes"][1] > middle) == (state == "fast")]
        head = f"| {result['model']} | {result['recipe']} | {result['peer']} | {result['threads']} | {state} | "
        if not group:
            print(head + "| 0 | | | | |", flush=True)
            continue
        mine, peer = ([p[who] for p in group] for who in ("ninfer", "llama"))
        shares = [p["ninfer"] * result["bytes"] / 1e9 / statistics.mean(p["probes"][:2]) for p in group]
        print(head + f"{statistics.median(p['probes'][1] for p in group):.1f} | {len(group)} | {compare.spread(mine)} | {compare.spread(peer)} | "
              f"{statistics.median(a / b for a, b in zip(mine, peer)):.2f} | {statistics.median(shares):.2f} |", flush=True)
    if len(kept) < len(result["pairs"]):
        print(f"| {result['model']} | {result['recipe']} | | {result['threads']} | changing, left out | | {len(result['pairs']) - len(kept)} | | | | |", flush=True)


if __name__ == "__main__":
    main()
