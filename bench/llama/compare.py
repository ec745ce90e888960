#!/usr/bin/env python3
"""ninfer beside llama.cpp on this machine: the same random F16 models, quantized by each, runs alternating (A B A B).

scripts/bench-vs-llama sets up what this needs and calls it. Prints one Markdown table per model: medians, spreads, and the median of
the ratios of neighbouring runs. Absolute speeds are the machine's; ratios travel.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

import models

HERE = os.path.dirname(os.path.abspath(__file__))
# recipe: peer types (name, ftype of llama.h), nearest bits per weight first
PEERS = {"q4": [("Q4_0", 2), ("Q4_K", 15)], "q5": [("Q5_0", 8), ("Q5_K", 17)], "q6": [("Q6_K", 18)], "w8": [("Q8_0", 7)]}
# load: open up to a context; first token: and one token; start: the first token without the time the same token takes once more
STARTS = ("load s", "first token s", "start s")
PROMPTS, GENERATED = [2, 4, 8, 16, 128, 512], 64
DEEP = 32  # tokens generated behind each of --contexts


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nfailed with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


class Bench:
    def __init__(self, args):
        self.args, self.bin = args, os.path.join(args.build, "bin")
        os.makedirs(args.work, exist_ok=True)

    def path(self, *parts):
        return os.path.join(self.args.work, "-".join(parts))

    def ours(self, name, recipe):
        """Artifact and plan; policy AllowA8, as the peer's activations are 8-bit too."""
        artifact, plan = self.path(name, recipe + ".ninfer"), self.path(name, recipe + ".plan.bin")
        if not os.path.exists(artifact):
            run(f"{self.bin}/ninfer-convert", self.path(name, "f16.gguf"), "-o", artifact, "--recipe", recipe, "--no-tokenizer",
                "--activation-policy", self.args.policy, "--report", "none")
        room = max([1024] + [depth + DEEP + 8 for depth in self.args.contexts])
        run(f"{self.bin}/ninfer-build", artifact, "-o", plan, "--max-context", room, "--prefill-chunk", "512", "--report", "none",
            "--kv-dtype", self.args.kv, "--cache", self.path("kernels"))
        return artifact, plan

    def theirs(self, name, kind, ftype):
        out = self.path(name, kind + ".gguf")
        if not os.path.exists(out):
            run(sys.executable, f"{HERE}/peer.py", "quantize", self.path(name, "f16.gguf"), out + ".part", ftype)
            os.rename(out + ".part", out)
        return out

    def measure_ours(self, plan, threads):
        rows = json.loads(run(f"{self.bin}/ninfer-exec", "bench", plan, "-t", threads, "-p", ",".join(map(str, PROMPTS)), "-n",
                              GENERATED, "-r", 1, "-o", "json"))
        out = {row["test"]: row["t/s"] for row in rows}
        return out | self.start_ours(plan, threads)

    def start_ours(self, plan, threads):
        start = json.loads(run(f"{self.bin}/ninfer-exec", "bench", plan, "-t", threads, "--startup", "-r", 1, "-o", "json"))
        seconds = {row["startup"]: row["ms"] / 1e3 for row in start}
        return {"load s": seconds["all"] - seconds["first token"], "first token s": seconds["all"],
                "start s": seconds["all without again"]}

    def measure_theirs(self, model, threads, prompts=PROMPTS):
        return json.loads(run(sys.executable, f"{HERE}/peer.py", "bench", model, threads, ",".join(map(str, prompts)), GENERATED))

    def starts(self, artifact, plan, model, threads):
        """Cold and warm starts alternating, a process each. Cold: the page cache has nothing of the files (the disk's own caches may);
        warm: as the cold start of the same engine left it there."""
        mine, peer = {"cold": [], "warm": []}, {"cold": [], "warm": []}
        for _ in range(self.args.rounds):
            drop(artifact, plan, model)
            for state in mine:
                mine[state].append(self.start_ours(plan, threads))
            for state in peer:
                peer[state].append(self.measure_theirs(model, threads, []))
        return mine, peer

    def deep_ours(self, plan, threads):
        depths = ",".join(map(str, self.args.contexts))
        rows = json.loads(run(f"{self.bin}/ninfer-exec", "bench", plan, "-t", threads, "-p", "0", "-n", DEEP, "-d", depths, "-r", 1,
                              "--no-warmup", "-o", "json"))
        return {row["test"]: row["t/s"] for row in rows}

    def deep_theirs(self, model, threads, flash):
        return json.loads(run(sys.executable, f"{HERE}/peer.py", "contexts", model, threads, ",".join(map(str, self.args.contexts)), DEEP,
                              flash))

    def contexts(self, name, recipe, kind, ftype, threads):
        """Rows of decode speed against context, the peer with and without its flash attention; the three take turns."""
        _, plan = self.ours(name, recipe)
        model = self.theirs(name, kind, ftype)
        rounds = []
        for _ in range(self.args.rounds):
            rounds.append(dict(ninfer=self.deep_ours(plan, threads), on=self.deep_theirs(model, threads, "on"),
                               off=self.deep_theirs(model, threads, "off")))
        for depth in self.args.contexts:
            test = f"tg{DEEP} @ d{depth}"
            mine, on, off = ([r[who][test] for r in rounds] for who in ("ninfer", "on", "off"))
            ratios = [statistics.median(a / b for a, b in zip(mine, peer)) for peer in (on, off)]
            print(f"| {recipe} {self.args.kv} | {kind} | {threads} | {depth} | {spread(mine)} | {spread(on)} | {spread(off)} | {ratios[0]:.2f} | "
                  f"{ratios[1]:.2f} |", flush=True)
        return dict(model=name, recipe=recipe, peer=kind, kv=self.args.kv, threads=int(threads), contexts=rounds)

    def compare(self, name, recipe, kind, ftype, threads):
        artifact, plan = self.ours(name, recipe)
        model = self.theirs(name, kind, ftype)
        mine, peer = [], []
        for _ in range(self.args.rounds):
            mine.append(self.measure_ours(plan, threads))
            peer.append(self.measure_theirs(model, threads))
        sizes = os.path.getsize(artifact) / 1e6, os.path.getsize(model) / 1e6
        return sizes, mine, peer


def drop(*paths):
    """Takes files out of the page cache. Pages not yet written stay, so they are written first."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def spread(values):
    return f"{statistics.median(values):.1f} [{min(values):.1f} .. {max(values):.1f}]"


def save(path, everything):
    if path:
        with open(path, "w") as f:
            json.dump(everything, f, indent=1)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build", required=True, help="build folder of ninfer")
    ap.add_argument("--work", required=True, help="folder for models and plans; kept")
    ap.add_argument("--models", default=",".join(models.SHAPES))
    ap.add_argument("--recipes", default=",".join(PEERS))
    ap.add_argument("--threads", default="1,2")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--policy", default="AllowA8", choices=["A16Only", "AllowA8"])
    ap.add_argument("--nearest", action="store_true", help="beside the peer's type of nearest bits only, not its others")
    ap.add_argument("--start", action="store_true", help="cold and warm starts only")
    ap.add_argument("--contexts", default=[], type=lambda text: sorted(int(n) for n in text.split(",")),
                    help="instead: decode speed after so many tokens (128,1024,4000), beside the peer with flash attention and without")
    ap.add_argument("--kv", default="bf16", choices=["bf16", "f32", "int8"], help="cache of ninfer (the peer's is f16)")
    ap.add_argument("--json", help="write every measurement here")
    args = ap.parse_args()
    bench, everything = Bench(args), []
    with open("/proc/cpuinfo") as f:
        cpu = next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    probe = os.path.join(bench.bin, "read_probe")
    for name in args.models.split(","):
        models.write(name, bench.path(name, "f16.gguf"))
        print(f"\n## {name}\n\n{cpu}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}; medians of {args.rounds} [range]; ratio: median of the "
              "rounds' ratios\n", flush=True)
        if args.contexts:
            print("| ninfer | llama.cpp | threads | context | ninfer t/s | llama.cpp t/s, flash attention | without | ratio | ratio |")
            print("|---|---|---|---|---|---|---|---|---|")
            for recipe in args.recipes.split(","):
                for kind, ftype in PEERS[recipe][:1]:
                    for threads in args.threads.split(","):
                        everything.append(bench.contexts(name, recipe, kind, ftype, threads))
            save(args.json, everything)
            continue
        print("| ninfer | MB | llama.cpp | MB | threads | test | ninfer t/s | llama.cpp t/s | ratio | GB/s of the probe's |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for recipe in args.recipes.split(","):
            for kind, ftype in PEERS[recipe][:1] if args.nearest else PEERS[recipe]:
                for threads in args.threads.split(","):
                    bandwidth = None
                    if os.path.exists(probe) and threads in "12":
                        bandwidth = json.loads(run(probe, 1024, 0.1, bench.path(name, "f16.gguf")))[threads]
                    head = "| {} | {:.0f} | {} | {:.0f} | {} |"
                    if args.start:
                        artifact, plan = bench.ours(name, recipe)
                        model = bench.theirs(name, kind, ftype)
                        sizes = os.path.getsize(artifact) / 1e6, os.path.getsize(model) / 1e6
                        mine, peer = bench.starts(artifact, plan, model, threads)
                        everything.append(dict(model=name, recipe=recipe, peer=kind, threads=int(threads), megabytes=sizes, ninfer=mine, llama=peer))
                        for state in mine:
                            for what in STARTS:
                                a, b = [m[what] * 1e3 for m in mine[state]], [p[what] * 1e3 for p in peer[state]]
                                print(head.format(recipe, sizes[0], kind, sizes[1], threads), f"{state} {what[:-2]}, ms | {spread(a)} | {spread(b)} | "
                                      f"{statistics.median(x / y for x, y in zip(a, b)):.3f} | |", flush=True)
                        continue
                    sizes, mine, peer = bench.compare(name, recipe, kind, ftype, threads)
                    everything.append(dict(model=name, recipe=recipe, peer=kind, threads=int(threads), megabytes=sizes, probe=bandwidth,
                                           ninfer=mine, llama=peer))
                    for what in STARTS:
                        a, b = [m[what] * 1e3 for m in mine], [p[what] * 1e3 for p in peer]
                        print(f"| {recipe} | {sizes[0]:.0f} | {kind} | {sizes[1]:.0f} | {threads} | {what[:-2]}, ms | {spread(a)} | {spread(b)} | "
                              f"{statistics.median(x / y for x, y in zip(a, b)):.3f} | |", flush=True)
                    for test in [f"tg{GENERATED}"] + [f"pp{n}" for n in PROMPTS]:
                        a, b = [m[test] for m in mine], [p[test] for p in peer]
                        share = ""
                        if test.startswith("tg") and bandwidth:
                            share = f"{statistics.median(a) * sizes[0] / 1e3:.1f} of {bandwidth:.1f}"
                        print(f"| {recipe} | {sizes[0]:.0f} | {kind} | {sizes[1]:.0f} | {threads} | {test} | {spread(a)} | {spread(b)} | "
                              f"{statistics.median(x / y for x, y in zip(a, b)):.2f} | {share} |", flush=True)
        save(args.json, everything)


if __name__ == "__main__":
    main()
