#!/usr/bin/env python3
"""Converts a synthetic checkpoint and says how long it took, how much memory it needed and how fast the
artifact reached the disk, next to dd writing as many bytes to the same disk in the same session.

    conversion.py BIN FOLDER [--layers 24] [--recipe w8 q4 ...] [--rounds 3] [--threads N]

BIN holds ninfer-make-checkpoint and ninfer-convert. Works in a new folder below FOLDER (24 layers: 8 GB)
and removes it. Figures are medians over the rounds; dd and conversion alternate."""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


def timed(command):
    """Wall time, user + system time and peak resident bytes of a command that must succeed."""
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = child.stdout.read(), child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{command[0]}: status {status}\n{err.decode()}")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, out


def dd(path, size):
    start = time.monotonic()
    subprocess.run(["dd", "if=/dev/zero", f"of={path}", "bs=4M", f"count={size}", "iflag=count_bytes",
                    "conv=fsync", "status=none"], check=True)
    seconds = time.monotonic() - start
    os.unlink(path)
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--recipe", nargs="+", default=["w8"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="ninfer-bench-", dir=options.folder))
    try:
        source, target = work / "source", work / "model.ninfer"
        print(subprocess.run([options.bin / "ninfer-make-checkpoint", source, str(options.layers)], check=True,
                             capture_output=True, text=True).stdout, end="")
        source_bytes = sum(f.stat().st_size for f in source.iterdir())
        print(f"{'recipe':8} {'wall s':>8} {'cpu s':>8} {'peak MB':>8} {'source MB/s':>12} {'artifact':>10} "
              f"{'written MB/s':>13} {'dd MB/s':>9}")
        for recipe in options.recipe:
            walls, cpus, peaks, dds = [], [], [], []
            for _ in range(options.rounds):
                wall, cpu, peak, _ = timed([options.bin / "ninfer-convert", source, "-o", target, "--recipe", recipe,
                                            "--no-tokenizer", "--report", "none", "-t", str(options.threads)])
                size = target.stat().st_size
                target.unlink()
                walls.append(wall)
                cpus.append(cpu)
                peaks.append(peak)
                dds.append(dd(work / "dd", size))
            wall = statistics.median(walls)
            print(f"{recipe:8} {wall:8.2f} {statistics.median(cpus):8.2f} {max(peaks) / 1e6:8.0f} "
                  f"{source_bytes / wall / 1e6:12.0f} {size / 1e6:7.0f} MB {size / wall / 1e6:13.0f} "
                  f"{size / statistics.median(dds) / 1e6:9.0f}", flush=True)
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
