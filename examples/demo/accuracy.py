#!/usr/bin/env python3
"""Exact-answer accuracy of a demo model per format, through ninfer-convert, ninfer-build and ninfer-exec chat.

usage: accuracy.py BIN_DIR [--checkpoint DIR] [--questions 200] [--recipes bf16 w8 q6 q5 q4 mixed] [--target cpu:native]
Prints one Markdown row per recipe: artifact bytes, right answers, share.
"""
import argparse
import os
import subprocess
import tempfile

import corpus

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("bin")
    ap.add_argument("--checkpoint", default=os.path.join(HERE, "checkpoint"), help="default: that of this folder")
    ap.add_argument("--questions", type=int, default=200)
    ap.add_argument("--recipes", nargs="+", default=["bf16", "w8", "q6", "q5", "q4", "mixed"])
    ap.add_argument("--target", default="cpu:native")
    args = ap.parse_args()
    tool = lambda name: os.path.join(args.bin, name)
    tests = corpus.test_set(args.questions)
    print("| recipe | artifact bytes | right | share |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as tmp:
        for recipe in args.recipes:
            model, plan = f"{tmp}/{recipe}.ninfer", f"{tmp}/{recipe}.plan.bin"
            quiet = dict(check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            subprocess.run([tool("ninfer-convert"), args.checkpoint, "-o", model, "--recipe", recipe], **quiet)
            subprocess.run([tool("ninfer-build"), model, "-o", plan, "--target", args.target], **quiet)
            right = 0
            for question, answer in tests:
                run = subprocess.run([tool("ninfer-exec"), "chat", plan, "-p", question, "-n", "48"], check=True,
                                     capture_output=True, text=True)
                right += run.stdout.strip() == answer
            print(f"| {recipe} | {os.path.getsize(model)} | {right} of {len(tests)} | {right / len(tests):.1%} |", flush=True)


if __name__ == "__main__":
    main()
