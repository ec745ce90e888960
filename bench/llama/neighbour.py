#!/usr/bin/env python3
"""Decode beside a busy neighbour, and with less than the machine's CPUs: ninfer and llama.cpp, each as a ratio to its own speed on
the quiet machine. Neighbours are processes that do nothing but count, at the same priority; quotas are control groups (version 1 or
2), for which this must be root. Runs of both engines alternate; models and plans are those compare.py left in --work.
"""
import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys

import compare

CASES = {  # busy processes beside, CPUs of a quota, CPUs it may use
    "quiet": (0, None, None),
    "one neighbour": (1, None, None),
    "two neighbours": (2, None, None),
    "quota of 1.5 CPUs": (0, 1.5, None),
    "quota of 1 CPU": (0, 1.0, None),
    "one CPU": (0, None, "0"),
    "one CPU and one neighbour": (1, None, "0"),
}
HERE = os.path.dirname(os.path.abspath(__file__))
PERIOD = 100000  # microseconds, the usual one of containers


@contextlib.contextmanager
def neighbours(count, cpus):
    """`count` busy processes; gone afterwards."""
    pin = ["taskset", "-c", cpus] if cpus else []
    burners = [subprocess.Popen(pin + ["sh", "-c", "while :; do :; done"]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


@contextlib.contextmanager
def quota(cpus):
    """A control group of so many CPUs; yields the command prefix that runs something in it."""
    if cpus is None:
        yield []
        return
    one = os.path.isdir("/sys/fs/cgroup/cpu")
    group = os.path.join("/sys/fs/cgroup", "cpu" if one else "", f"ninfer-bench-{os.getpid()}")
    os.mkdir(group)
    try:
        limits = {"cpu.cfs_period_us": PERIOD, "cpu.cfs_quota_us": int(PERIOD * cpus)} if one else {"cpu.max": f"{int(PERIOD * cpus)} {PERIOD}"}
        for name, value in limits.items():
            with open(os.path.join(group, name), "w") as f:
                f.write(str(value))
        yield ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', group]
    finally:
        os.rmdir(group)


class Neighbour:
    def __init__(self, args):
        self.args = args

    def run(self, prefix, *command):
        return json.loads(compare.run(*prefix, *command))

    def ours(self, prefix, plan, threads):
        rows = self.run(prefix, f"{self.args.build}/bin/ninfer-exec", "bench", plan, *(["-t", threads] if threads != "-" else []), "-p", 0,
                        "-n", self.args.tokens, "-r", 1, "-o", "json", *self.args.options.split())
        return rows[-1]["t/s"]

    def theirs(self, prefix, model, threads):
        out = self.run(prefix, sys.executable, f"{HERE}/peer.py", "bench", model, threads, "1", self.args.tokens)
        return out[f"tg{self.args.tokens}"]

    def measure(self, recipe, threads):
        stem = os.path.join(self.args.work, self.args.model)
        kind = compare.PEERS[recipe][0][0]
        plan, model = self.args.plan or f"{stem}-{recipe}.plan.bin", f"{stem}-{kind}.gguf"
        mine, peer = {}, {}
        for _ in range(self.args.rounds):
            for case in self.args.cases.split(","):
                busy, cpus, where = CASES[case]
                with neighbours(busy, where), quota(cpus) as prefix:
                    prefix = prefix + (["taskset", "-c", where] if where else [])
                    mine.setdefault(case, []).append(self.ours(prefix, plan, threads))
                    if not self.args.alone and threads != "-":
                        peer.setdefault(case, []).append(self.theirs(prefix, model, threads))
        for case in mine:
            cells = [f"{statistics.median(v[case]):.1f} [{min(v[case]):.1f} .. {max(v[case]):.1f}] | {statistics.median(v[case]) / statistics.median(v['quiet']):.2f}"
                     for v in (mine, peer) if v]
            print(f"| {recipe} | {threads} | {case} | {' | '.join(cells)} |", flush=True)
        return dict(recipe=recipe, threads=threads, ninfer=mine, llama=peer)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build", required=True, help="build folder of ninfer")
    ap.add_argument("--work", required=True, help="folder of compare.py's models and plans")
    ap.add_argument("--model", default="qwen3-0.6b")
    ap.add_argument("--recipes", default="q4,w8")
    ap.add_argument("--threads", default="1,2", help="-: ninfer's own choice")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--tokens", type=int, default=64)
    ap.add_argument("--cases", default=",".join(CASES), help="the first must be quiet")
    ap.add_argument("--alone", action="store_true", help="ninfer only")
    ap.add_argument("--plan", help="this plan in place of the model's")
    ap.add_argument("--options", default="", help="further options of ninfer-exec bench")
    ap.add_argument("--json", help="write every number there")
    args = ap.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # neighbours and groups do not outlive this
    bench = Neighbour(args)
    print("| ninfer | threads | case | ninfer t/s | of quiet | llama.cpp t/s | of quiet |\n|---|---|---|---|---|---|---|")
    compare.save(args.json, [bench.measure(r, t) for r in args.recipes.split(",") for t in args.threads.split(",")])


if __name__ == "__main__":
    main()
