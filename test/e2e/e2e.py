#!/usr/bin/env python3
"""End-to-end cases over the built tools and the demo models. usage: e2e.py --bin DIR --tiny TOOL CASE

Exact logits come from test/vectors/demo_logits.json (test/oracle/demo_vectors.py, float64, independent code).
Criteria, on max |difference| / rms(exact logits) at each stored position:
  f32   4e-5: float32 sums of at most 256 terms through 3 layers; 256 * 2^-24 = 1.5e-5 per dot product at worst.
        layer-traces: the same for the residual stream, whose sums are those of the layers before it
  a16   the error of the same model with every operator rounded to BF16 (stored beside the logits): the profile
        promises activations at least as fine as 16-bit floats.
The hybrid-transformers cases take checkpoints and exact logits from test/vectors/hybrid (Hugging Face transformers in float64):
  and so do the vision-transformers cases, with the embeddings of images.
  1e-5: float32 activations and cache, weights word for word; the library's own float32 run is 3e-6 to 3e-5 away from them.
"""
import argparse
import array
import base64
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(ROOT, "examples", "demo"))
import corpus  # noqa: E402

CHECKPOINT = os.path.join(ROOT, "examples", "demo", "checkpoint")
HYBRID_DEMO = os.path.join(ROOT, "examples", "hybrid-demo")
HYBRID = os.path.join(ROOT, "test", "vectors", "hybrid")
F32_CRITERION = 4e-5
HYBRID_CRITERION = 1e-5


class Failure(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failure(text)


class Case:
    def __init__(self, args, tmp):
        self.bin, self.tiny_tool, self.tmp = args.bin, args.tiny, tmp
        self.exec_command = args.exec.split() if args.exec else [self.tool("ninfer-exec")]
        self.given_targets = args.targets.split(",") if args.targets else None

    def tool(self, name):
        return os.path.join(self.bin, name)

    def run(self, *command, code=0, **kw):
        """Runs a command and checks its exit code; returns the CompletedProcess (bytes)."""
        done = subprocess.run([str(c) for c in command], capture_output=True, **kw)
        check(done.returncode == code, f"exit code {done.returncode}, expected {code}: {' '.join(map(str, command))}\n"
                                       f"{done.stderr.decode(errors='replace')}")
        return done

    def convert(self, recipe="w8", checkpoint=CHECKPOINT):
        path = f"{self.tmp}/{recipe}.ninfer"
        if not os.path.exists(path):
            self.run(self.tool("ninfer-convert"), checkpoint, "-o", path, "--recipe", recipe)
        return path

    def build(self, model, *options, name="plan"):
        path = f"{self.tmp}/{name}.plan.bin"
        self.run(self.tool("ninfer-build"), model, "-o", path, *options)
        return path

    def logits(self, plan, target, tokens, *options):
        out = self.run(*self.exec_command, "logits", plan, "--target", target, "--tokens",
                       ",".join(map(str, tokens)), "-o", "raw", *options).stdout
        return array.array("f", out)

    def targets(self):
        if self.given_targets:
            return self.given_targets
        flags = set(re.search(r"^flags\s*: (.*)$", open("/proc/cpuinfo").read(), re.M).group(1).split())
        out = ["reference", "cpu:x86-64-v3"]
        return out + (["cpu:x86-64-v4"] if {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"} <= flags else [])


def distance(row, exact):
    rms = math.sqrt(sum(x * x for x in exact) / len(exact))
    worst = max(abs(a - b) if math.isfinite(a) else math.inf for a, b in zip(row, exact))
    return worst / rms


def logits_case(case, recipe):
    vectors = json.load(open(os.path.join(ROOT, "test", "vectors", "demo_logits.json")))
    tokens, positions = vectors["tokens"], vectors["positions"]
    model = case.convert(recipe)
    for kv in ("f32", "bf16"):
        stored = vectors["recipes"][recipe][kv]
        exact = array.array("f", base64.b64decode(stored["logits"]))
        vocab = len(exact) // len(positions)
        targets = case.targets()
        plan = case.build(model, "--kv-dtype", kv, *[x for t in targets for x in ("--target", t)], name=kv)
        for target in targets:
            each = case.logits(plan, target, tokens, "--each", "--one-by-one")
            check(len(each) == vocab * len(tokens), f"{target}: {len(each)} logits")
            for i, p in enumerate(positions):
                want = exact[i * vocab:(i + 1) * vocab]
                # BF16 words of the cache flip on the last bit of a key or value, so only f32 caches are held to the f32 bound.
                exactly = (target == "reference" or recipe == "bf16") and kv == "f32"
                bound = F32_CRITERION if exactly else stored["bf16_operators"][i]
                for how, row in (("decode", each[p * vocab:(p + 1) * vocab]),
                                 ("prefill", case.logits(plan, target, tokens[:p + 1]))):
                    d = distance(row, want)
                    check(d <= bound, f"{recipe} kv {kv} {target} {how} position {p}: {d:.3g} > {bound:.3g}")
                    print(f"{recipe} kv {kv} {target} {how} position {p}: {d:.3g} <= {bound:.3g}")


def layer_traces(case):
    """The residual stream of the demo model after every step, in chunks and one by one, against the float64 oracle."""
    oracle = os.path.join(ROOT, "test", "vectors", "traces", "demo_bf16.jsonl")
    with open(oracle) as f:
        tokens = json.loads(f.readline())["tokens"]
    model = case.convert("bf16")
    targets = case.targets()
    plan = case.build(model, "--trace-layers", "--kv-dtype", "f32", "--prefill-chunk", "4",
                      *[x for t in targets for x in ("--target", t)])
    names = ["text/token_embedding", *[f"text/layers/{i}{s}" for i in range(3) for s in ("/mixer", "")], "text/final_norm"]
    for target in targets:
        for how in ((), ("--one-by-one",)):
            rows = json.loads(case.run(case.tool("ninfer-exec"), "logits", plan, "--target", target, "--tokens",
                                       ",".join(map(str, tokens)), "--trace-against", oracle, "-o", "json", *how).stdout)
            check([r["output"] for r in rows] == names, f"{target}: outputs {[r['output'] for r in rows]}")
            for row in rows:
                expected = len(tokens) if how or row["output"] != names[-1] else 3
                check(row["rows"] == expected, f"{target} {row['output']}: {row['rows']} rows, expected {expected}")
                check(row["worst"] <= F32_CRITERION, f"{target} {how} {row['output']}: {row['worst']} > {F32_CRITERION}")
                print(f"{target} {' '.join(how) or 'chunks of 4'} {row['output']}: {row['worst']:.3g} <= {F32_CRITERION:.3g}")
    # A plan without the option knows nothing of it; the option changes the plan.
    plain = case.build(model, "--kv-dtype", "f32", name="plain")
    case.run(case.tool("ninfer-exec"), "logits", plain, "--tokens", "1", "--trace", f"{case.tmp}/t.jsonl", code=5)


def hybrid_transformers(case, kind):
    """A checkpoint as transformers saves it, converted word for word, against the logits of transformers."""
    vectors = json.load(open(os.path.join(HYBRID, kind, "logits.json")))
    tokens, positions = vectors["tokens"], vectors["positions"]
    exact = array.array("d", base64.b64decode(vectors["logits_f64"]))
    vocab = len(exact) // len(positions)
    model = f"{case.tmp}/{kind}.ninfer"
    report = json.loads(case.run(case.tool("ninfer-convert"), os.path.join(HYBRID, kind), "-o", model, "--recipe", "bf16",
                                 "--no-tokenizer", "--report", "json").stdout)
    check(report["provenance"]["converted"] == 0, f"{kind}: values changed: {report['provenance']}")
    targets = case.targets()
    plan = case.build(model, "--kv-dtype", "f32", "--prefill-chunk", 16, *[x for t in targets for x in ("--target", t)])
    for target in targets:
        each, worst = case.logits(plan, target, tokens, "--each", "--one-by-one"), {"decode": 0, "prefill": 0}
        check(len(each) == vocab * len(tokens), f"{target}: {len(each)} logits")
        for i, p in enumerate(positions):
            want = exact[i * vocab:(i + 1) * vocab]
            for how, row in (("decode", each[p * vocab:(p + 1) * vocab]), ("prefill", case.logits(plan, target, tokens[:p + 1]))):
                worst[how] = max(worst[how], distance(row, want))
        print(f"{kind} {target}: decode {worst['decode']:.3g}, prefill {worst['prefill']:.3g}, criterion {HYBRID_CRITERION}; "
              f"float32 of the library {vectors['library_f32_error']:.3g}")
        check(max(worst.values()) <= HYBRID_CRITERION, f"{kind} {target}: {worst} > {HYBRID_CRITERION}")


def floats(values):
    return array.array("f", values).tobytes()


def vision_transformers(case, kind):
    """The vision tower of a checkpoint, converted word for word, against the embeddings of transformers."""
    folder = os.path.join(HYBRID, kind)
    vectors, config = json.load(open(f"{folder}/embeddings.json")), json.load(open(f"{folder}/config.json"))
    vision, hidden = config["vision_config"], config["text_config"]["hidden_size"]
    width = 3 * vision["temporal_patch_size"] * vision["patch_size"] ** 2
    model = f"{case.tmp}/{kind}.ninfer"
    case.run(case.tool("ninfer-convert"), folder, "-o", model, "--recipe", "bf16", "--vision", "--no-tokenizer")
    targets = case.targets()
    plan = case.build(model, "--vision", "--vision-max-patches", 80, *[x for t in targets for x in ("--target", t)])
    for target in targets:
        worst = 0
        for n, image in enumerate(vectors["images"]):
            rows, columns = image["grid"]
            pixels = [(7 * i * i + 31 * i + 13 * n) % 256 for i in range(rows * columns * width)]
            with open(f"{case.tmp}/patches", "wb") as f:
                f.write(floats((b / 255 - 0.5) / 0.5 for b in pixels))
            exact, first = array.array("d", base64.b64decode(image["embeddings_f64"])), None
            for threads in (1, 3):
                out = case.run(case.tool("ninfer-exec"), "embed", plan, "--target", target, "--patches", f"{case.tmp}/patches",
                               "--grid", f"{rows}x{columns}", "-o", "raw", "-t", threads).stdout
                check(first in (None, out), f"{kind} {target} {image['grid']}: {threads} threads give other bits")
                first = out
            got = array.array("f", first)
            check(len(got) == len(exact), f"{kind} {target} {image['grid']}: {len(got)} values, expected {len(exact)}")
            worst = max([worst] + [distance(got[a:a + hidden], exact[a:a + hidden]) for a in range(0, len(exact), hidden)])
        library = max(i["library_f32_error"] for i in vectors["images"])
        print(f"{kind} {target}: {worst:.3g}, criterion {HYBRID_CRITERION}; float32 of the library {library:.3g}")
        check(worst <= HYBRID_CRITERION, f"{kind} {target}: {worst} > {HYBRID_CRITERION}")


def embed_images(case):
    """Image files through the whole way, and everything that must be refused."""
    images = os.path.join(ROOT, "test", "vectors", "vision")
    vectors = json.load(open(f"{images}/vectors.json"))["patches"][0]
    source = f"{case.tmp}/checkpoint"
    shutil.copytree(os.path.join(HYBRID, "vision"), source)
    with open(f"{source}/preprocessor_config.json", "w") as f:
        json.dump(vectors["config"], f)
    model, bare = f"{case.tmp}/model.ninfer", f"{case.tmp}/bare.ninfer"
    for folder, path in ((source, model), (os.path.join(HYBRID, "vision"), bare)):
        case.run(case.tool("ninfer-convert"), folder, "-o", path, "--recipe", "bf16", "--vision", "--no-tokenizer")
    plan = case.build(model, "--vision", "--vision-max-patches", 64, "--target", "cpu:x86-64-v3", "--target", "reference")
    execute = case.tool("ninfer-exec")
    # The patches that Pillow and the library make of the image; a few elements may be one of 255 levels apart.
    levels, grid = base64.b64decode(vectors["levels"]), "x".join(map(str, vectors["grid"]))
    with open(f"{case.tmp}/patches", "wb") as f:
        f.write(floats((b / 255 - 0.5) / 0.5 for b in levels))
    ready = ("--patches", f"{case.tmp}/patches", "--grid")
    want = array.array("f", case.run(execute, "embed", plan, *ready, grid, "-o", "raw").stdout)
    for target in ("cpu:x86-64-v3", "reference"):
        done = json.loads(case.run(execute, "embed", plan, f"{images}/{vectors['file']}", "--target", target).stdout)
        check(done["grid"] == vectors["grid"], f"grid {done['grid']}")
        got = [v for row in done["embeddings"] for v in row]
        check(len(got) == len(want), f"{len(got)} values")
        check(distance(got, want) < 0.05, f"{target}: {distance(got, want)} away from the patches of the library")
    case.run(execute, "embed", plan, f"{images}/rgb.jpg", "-o", "raw", "--out", f"{case.tmp}/out.f32")
    check(os.path.getsize(f"{case.tmp}/out.f32") % (4 * 32) == 0, "embeddings of 32 elements")

    plain = case.build(bare, "--vision", "--vision-max-patches", 64, "--target", "reference", name="bare")
    text = case.build(model, "--target", "reference", name="text")
    png = open(f"{images}/rgb.png", "rb").read()
    head = b"IHDR" + struct.pack(">IIBBBBB", 100000, 100000, 8, 2, 0, 0, 0)
    bad = {"cut.png": png[:200], "noise.jpg": b"\xff\xd8\xff" + bytes(range(200)), "text.png": b"hello", "empty.png": b"",
           "bomb.png": png[:8] + struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head)) + struct.pack(">I", 1 << 20) + b"IDAT"}
    for name, data in bad.items():
        with open(f"{case.tmp}/{name}", "wb") as f:
            f.write(data)
    for options, code, says in [((plan, f"{case.tmp}/cut.png"), 3, b"NB0723"), ((plan, f"{case.tmp}/noise.jpg"), 3, b"NB0723"),
                                ((plan, f"{case.tmp}/text.png"), 3, b"neither a PNG nor a JPEG"), ((plan, f"{case.tmp}/empty.png"), 3, b"NB0723"),
                                ((plan, f"{case.tmp}/bomb.png"), 5, b"100000 x 100000 pixels"), ((plan, f"{images}/cmyk.jpg"), 5, b"CMYK"),
                                ((plan, f"{case.tmp}/none.png"), 3, b"none.png"), ((plan,), 2, b"expected an image"),
                                ((plan, *ready, "6x7"), 2, b"NB0676"), ((plan, *ready, "3x16"), 2, b"multiples of 2"),
                                ((plan, *ready, "six"), 2, b"ROWSxCOLUMNS"), ((plan, *ready, "100x100"), 2, b"NB0676"),
                                ((plain, f"{images}/rgb.png"), 5, b"NB0725"), ((text, f"{images}/rgb.png"), 5, b"NB0675")]:
        done = case.run(execute, "embed", *options, code=code)
        check(done.stderr.startswith(b"error") and says in done.stderr and not done.stdout, f"{options}: {done.stderr!r}")
    case.run(execute, "embed", plain, f"{images}/rgb.png", "--config", f"{source}/preprocessor_config.json")
    build = case.tool("ninfer-build")
    for options, code, says in [(("--vision", "--vision-max-patches", 6), 2, b"multiple of 4"),
                                (("--vision-max-patches", 8), 2, b"without --vision"),
                                (("--vision", "--vision-max-patches", 8192), 5, b"at most 4096, got 8192")]:
        done = case.run(build, model, "-o", f"{case.tmp}/x", *options, code=code)
        check(says in done.stderr, f"{options}: {done.stderr!r}")
    done = case.run(build, case.convert("w8"), "-o", f"{case.tmp}/x", "--vision", code=5)
    check(b"NB0308" in done.stderr, done.stderr.decode())


def prefill_equals_decode(case):
    """Every prompt length 1..70 over chunk sizes: prefill(T) against T decode steps, f32 profile and f32 cache."""
    tokens = [(i * 91 + 5) % 509 for i in range(70)]
    model = case.convert("bf16")
    for chunk in (1, 5, 16, 64):
        plan = case.build(model, "--kv-dtype", "f32", "--prefill-chunk", chunk, "--target", "cpu:x86-64-v3")
        each = case.logits(plan, "cpu:x86-64-v3", tokens, "--each", "--one-by-one")
        vocab = len(each) // len(tokens)
        for t in range(1, len(tokens) + 1) if chunk == 16 else (1, 2, 4, 5, 6, 15, 16, 17, 63, 64, 65, 70):
            d = distance(case.logits(plan, "cpu:x86-64-v3", tokens[:t]), each[(t - 1) * vocab:t * vocab])
            check(d <= F32_CRITERION, f"chunk {chunk}, {t} tokens: {d:.3g} > {F32_CRITERION}")


def greedy_equal(case):
    plan = case.build(case.convert("mixed"), *[x for t in case.targets() for x in ("--target", t)])
    for question, _ in corpus.test_set(8):
        answers = {t: case.run(case.tool("ninfer-exec"), "chat", plan, "--target", t, "-p", question, "-n", 64).stdout
                   for t in case.targets()}
        check(len(set(answers.values())) == 1, f"{question}: {answers}")
    for threads in (1, 2, 3):
        out = case.run(case.tool("ninfer-exec"), plan, "--target", "cpu:x86-64-v3", "-t", threads, "-n", 64, "--ignore-eos",
                       "--tokens", "257,5,6,7").stdout
        check(threads == 1 or out == first, f"{threads} threads give another text")
        first = out


def answers_right(case, plan, target, tests, least):
    right = sum(case.run(case.tool("ninfer-exec"), "chat", plan, "--target", target, "-p", q, "-n", 48).stdout.decode().strip() == a
                for q, a in tests)
    print(f"{target}: {right} of {len(tests)} right")
    check(right >= least, f"{target}: only {right} of {len(tests)} answers are right, expected {least}")


def accuracy(case):
    """The trained task through convert, build and chat; the trainer saw 57 of 60 right, BF16 weights, other questions."""
    plan = case.build(case.convert("w8"), "--target", "cpu:x86-64-v3")
    answers_right(case, plan, "cpu:x86-64-v3", corpus.test_set(60), 54)


def hybrid_demo(case):
    """The trained hybrid: the committed artifact byte for byte, and its task on every target. Every answer must be right: along
    the 60 answers the likeliest token leads by 0.44 rms of the exact logits or more (test/oracle/hybrid_forward.py), and BF16 operators,
    the yardstick of the 16-bit profile, move no logit of the first demo by more than 0.07."""
    model = case.convert("w8", os.path.join(HYBRID_DEMO, "checkpoint"))
    read = lambda p: open(p, "rb").read()
    check(read(model) == read(os.path.join(HYBRID_DEMO, "hybrid-demo-w8.ninfer")),
          "converting the hybrid demo checkpoint no longer gives hybrid-demo-w8.ninfer")
    targets = case.targets()
    plan = case.build(model, *[x for t in targets for x in ("--target", t)])
    for target in targets:
        answers_right(case, plan, target, corpus.test_set(60), 60)


def speculative(case):
    """The trained draft layer: 2000 greedy tokens as in plain decoding at every depth (300 on the slow reference target), sampled ones
    on the reference target, whose verified rows are decoded rows to the bit, and the conversation of 60 questions. There a round of
    three drafts gives 3.64 tokens in the trainer's float64 measurement over 200 questions (examples/hybrid-demo/README.md); 3.4
    leaves room for the other sample of questions: rounds cut short by the end of an answer."""
    plan = case.build(os.path.join(HYBRID_DEMO, "hybrid-demo-w8.ninfer"), "--spec", "mtp", "--draft-tokens", 5, "--max-context", 2304,
                      *[x for t in case.targets() for x in ("--target", t)])
    execute = lambda *options, **kw: case.run(case.tool("ninfer-exec"), *options, "-m",
                                              os.path.join(HYBRID_DEMO, "hybrid-demo-w8.ninfer"), **kw)
    questions = "".join(f"{question}\n/clear\n" for question, _ in corpus.test_set(60)).encode()
    for target in case.targets():
        samplings = [()] if target != "reference" else [(), ("--temp", 1, "-s", 3), ("--temp", 1.5, "--top-p", 0.9,
                                                                                     "--repeat-penalty", 1.2, "-s", 4)]
        for sampling in samplings:
            answer = [plan, "--target", target, "-t", 1, "-p", "What is 12 plus 30?", "--ids", "--ignore-eos",
                      "-n", 300 if target == "reference" else 2000, *sampling]
            plain = execute(*answer, "--spec", "off").stdout
            for depth in range(1, 6):
                check(execute(*answer, "--draft-tokens", depth).stdout == plain,
                      f"{target}, {sampling}: {depth} drafts per round give another answer")
        chat = ["chat", plan, "--target", target, "-t", 1]
        plain = execute(*chat, "--spec", "off", input=questions)
        done = execute(*chat, "--draft-tokens", 3, "--stats", input=questions)
        check(done.stdout == plain.stdout, f"{target}: other answers to the questions")
        told = re.search(rb"drafts +(\d+) rounds, (\d+) drafted, (\d+) accepted, ([0-9.]+) tokens per round", done.stderr)
        print(target, told.group(0).decode())
        check(float(told.group(4)) >= 3.4, f"{target}: {told.group(4)} tokens per round, expected 3.4")


def identical_rebuild(case):
    model = case.convert("mixed")
    read = lambda p: open(p, "rb").read()
    options = ("--target", "cpu:x86-64-v3", "--target", "reference")
    check(read(case.build(model, *options, name="a")) == read(case.build(model, *options, name="b")), "two builds differ")
    again = f"{case.tmp}/again.ninfer"
    case.run(case.tool("ninfer-convert"), CHECKPOINT, "-o", again, "--recipe", "mixed", "--threads", 1)
    check(read(model) == read(again), "two conversions differ")
    committed = os.path.join(ROOT, "examples", "demo", "demo-w8.ninfer")
    check(read(case.convert("w8")) == read(committed), "converting the demo checkpoint no longer gives demo-w8.ninfer")


def peak_kib(*command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    child = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = child.communicate()
    check(child.returncode == 0, err.decode())
    return max(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, before), out


def memory_and_kernels(case):
    """A sparse directory of 8B shapes: memory of the build does not follow the payload, kernels do not follow the layers."""
    kernels, peaks = {}, []
    for layers in (2, 32):
        path = f"{case.tmp}/big{layers}.ninfer"
        case.run(case.tiny_tool, path, "--sparse", "--layers", layers, "--hidden", 4096, "--heads", 32, "--kv-heads", 8,
                 "--head-dim", 128, "--intermediate", 14336, "--vocab", 128256)
        peak, out = peak_kib(case.tool("ninfer-build"), path, "-o", f"{case.tmp}/big.plan.bin", "--target", "cpu:x86-64-v3",
                             "--report", "json")
        kernels[layers] = json.loads(out)["targets"][0]["kernels"]
        kernels[layers] = len(kernels[layers]) if isinstance(kernels[layers], list) else kernels[layers]
        peaks.append(peak)
        print(f"{layers} layers, payload {os.path.getsize(path)} bytes: {kernels[layers]} kernels, peak {peak} KiB")
    check(kernels[2] == kernels[32], f"kernels grow with layers: {kernels}")
    check(peaks[1] < 1.25 * peaks[0], f"memory grows with the payload: {peaks} KiB")


def bad_plans(case):
    """Damaged and foreign plans: documented exit code, one message, no crash, nothing run."""
    model = case.convert("w8")
    plan = case.build(model, "--target", "cpu:x86-64-v3")
    data = open(plan, "rb").read()
    execute = case.tool("ninfer-exec")

    def expect(content, codes, what):
        path = f"{case.tmp}/bad.plan.bin"
        with open(path, "wb") as f:
            f.write(content)
        done = subprocess.run([execute, path, "--weights", model, "--tokens", "1", "-n", "1"], capture_output=True)
        check(done.returncode in codes, f"{what}: exit code {done.returncode}, expected one of {codes}: {done.stderr.decode()}")
        check(done.stderr.startswith(b"error") and not done.stdout, f"{what}: {done.stderr!r} {done.stdout!r}")

    rng = random.Random(4)
    for cut in [0, 1, 7, 8, 63, 64, 4095, 4096, 4097, len(data) // 2, len(data) - 1]:
        expect(data[:cut], {3}, f"cut at {cut}")
    expect(data + b"\0", {3}, "one byte more")
    for _ in range(60):
        at = rng.randrange(len(data))
        expect(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1:], {3, 4}, f"bit flipped in byte {at}")
    other = f"{case.tmp}/other.ninfer"
    case.run(case.tiny_tool, other, "--layers", 1)
    done = case.run(execute, plan, "--weights", other, "--tokens", "1", code=4)
    check(b"other.ninfer" in done.stderr, done.stderr.decode())
    case.run(execute, f"{case.tmp}/none.plan.bin", "--tokens", "1", code=3)
    case.run(execute, plan, "--weights", f"{case.tmp}/none.ninfer", "--tokens", "1", code=3)


def bad_input(case):
    model = case.convert("w8")
    plan = case.build(model, "--target", "cpu:x86-64-v3", "--max-context", 64)
    execute = case.tool("ninfer-exec")
    for options, says in [(("-p", ""), b"empty"), (("-p", b"\xff\xfe"), b"UTF-8"), (("--tokens", "1,99999"), b"99999"),
                          (("--tokens", ",".join(["5"] * 65)), b"64"), (("--temp", "-1", "-p", "x"), b"temperature"),
                          (("--no-such-option",), b"no-such-option")]:
        done = subprocess.run([execute, plan, *options], capture_output=True)
        check(done.returncode == 2 and done.stderr.startswith(b"error") and says in done.stderr,
              f"{options}: exit code {done.returncode}: {done.stderr!r}")
    build = case.tool("ninfer-build")
    for options, code in [((f"{case.tmp}/none.ninfer", "-o", f"{case.tmp}/x"), 3), ((model, "-o", f"{case.tmp}/no/dir/x"), 1),
                          ((model, "-o", f"{case.tmp}/x", "--target", "cpu:pentium"), (2, 4, 5)),
                          ((model, "-o", f"{case.tmp}/x", "--max-context", "0"), 2)]:
        done = subprocess.run([build, *options], capture_output=True)
        codes = code if isinstance(code, tuple) else (code,)
        check(done.returncode in codes and b"error" in done.stderr, f"{options}: {done.returncode} {done.stderr!r}")
        check(not os.path.exists(f"{case.tmp}/x"), f"{options} left a file")
    junk = f"{case.tmp}/junk.ninfer"
    for content in [b"", b"NINFER\0\x03", os.urandom(5000), open(model, "rb").read()[:6000]]:
        with open(junk, "wb") as f:
            f.write(content)
        done = case.run(build, junk, "-o", f"{case.tmp}/x", code=3)
        check(b"junk.ninfer" in done.stderr, done.stderr.decode())


def closed_streams(case):
    """Closed standard streams: no file that a tool opens takes their numbers."""
    model = case.convert("w8")
    plan = case.build(model, "--target", "cpu:x86-64-v3", "--max-context", 64)
    execute, other = case.tool("ninfer-exec"), f"{case.tmp}/other.bin"
    # Without this the plan was descriptor 0, and its bytes the prompt.
    done = subprocess.run(["sh", "-c", f"exec '{execute}' '{plan}' <&-"], capture_output=True)
    check(done.returncode == 2 and b"standard input: the prompt is empty" in done.stderr, f"{done}")
    done = subprocess.run(["sh", "-c", f"exec '{execute}' '{plan}' -p a -n 3 >&-"], capture_output=True)
    check(done.returncode == 1 and b"NB0906" in done.stderr, f"{done}")
    # What is written to a closed stream stays out of the files a tool writes at the time.
    each = f"{case.tmp}/each.csv"
    command = f"exec '{execute}' perplexity '{plan}' --tokens {','.join(['5'] * 32)} -c 32 --each '{each}'"
    check(subprocess.run(["sh", "-c", command], stdout=subprocess.DEVNULL).returncode == 0, command)
    want = open(each).read()
    subprocess.run(["sh", "-c", command + " >&- 2>&-"])
    check(open(each).read() == want and want.startswith("window,"), open(each).read())
    subprocess.run(["sh", "-c", f"exec '{case.tool('ninfer-build')}' '{model}' -o '{other}' --target cpu:x86-64-v3 --max-context 64 <&- >&- 2>&-"])
    check(open(other, "rb").read() == open(plan, "rb").read(), "a plan built without standard streams")
    check(subprocess.run([execute, "--help"], stdout=open("/dev/full", "wb"), stderr=subprocess.DEVNULL).returncode == 1, "--help on a full disk")


def leftovers(case, before):
    return sorted(set(os.listdir(case.tmp)) - set(before))


def kill_while_writing(case):
    """kill -9 at random moments: the final name holds nothing or a complete file, and the next run cleans up."""
    rng = random.Random(9)
    target = f"{case.tmp}/out.ninfer"
    command = [case.tool("ninfer-convert"), CHECKPOINT, "-o", target, "--recipe", "w8", "--force"]
    begun = time.time()
    case.run(*command)
    whole, size = time.time() - begun, os.path.getsize(target)
    for _ in range(40):
        if os.path.exists(target) and rng.random() < 0.5:
            os.unlink(target)
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.random() * whole)
        child.send_signal(signal.SIGKILL)
        child.wait()
        if os.path.exists(target):
            check(os.path.getsize(target) == size, f"{target} has {os.path.getsize(target)} bytes, expected {size}")
            case.run(case.tool("ninfer-inspect"), target)
    case.run(*command)
    check(leftovers(case, []) == ["out.ninfer"], f"left behind: {leftovers(case, [])}")


def full_disk(case):
    """A file size limit stands in for a full disk: documented code, a message, nothing under the final name. The tools
    themselves see to it that the limit is an error of the write and not a signal that ends them."""
    model = case.convert("w8")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    before = os.listdir(case.tmp)
    for command in ([case.tool("ninfer-convert"), CHECKPOINT, "-o", f"{case.tmp}/new.ninfer", "--recipe", "w8"],
                    [case.tool("ninfer-convert"), "upgrade", model, f"{case.tmp}/split.ninfer", "--max-file-bytes", "100000"],
                    [case.tool("ninfer-inspect"), "verify", model, "--hash", "write"],
                    [case.tool("ninfer-build"), model, "-o", f"{case.tmp}/new.plan.bin", "--target", "cpu:x86-64-v3"]):
        done = subprocess.run(command, capture_output=True, preexec_fn=limit)
        check(done.returncode == 1 and b"error" in done.stderr, f"{command[0]}: {done.returncode} {done.stderr!r}")
        check(not leftovers(case, before), f"{command[0]} left {leftovers(case, before)}")


CASES = {f"logits-{r}": (lambda c, r=r: logits_case(c, r)) for r in ("bf16", "w8", "q6", "q5", "q4", "mixed")}
CASES |= {f"hybrid-transformers-{k}": (lambda c, k=k: hybrid_transformers(c, k))
          for k in ("dense-tied", "dense-vision-mtp", "moe", "moe-mtp", "vision")}
CASES |= {f"vision-transformers-{k}": (lambda c, k=k: vision_transformers(c, k)) for k in ("vision", "dense-vision-mtp")}
CASES |= {f.__name__.replace("_", "-"): f for f in (
    embed_images, layer_traces, prefill_equals_decode, greedy_equal, accuracy, hybrid_demo, speculative, identical_rebuild, memory_and_kernels,
    bad_plans, bad_input, closed_streams,
    kill_while_writing, full_disk)}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", required=True)
    ap.add_argument("--tiny", required=True, help="the make_tiny_artifact tool")
    ap.add_argument("--exec", help="command line of ninfer-exec for the logits cases, say under an emulator")
    ap.add_argument("--targets", help="targets of those cases, separated by commas, instead of what this machine runs")
    ap.add_argument("case", choices=sorted(CASES))
    args = ap.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        try:
            CASES[args.case](Case(args, tmp))
        except Failure as why:
            print(f"FAILED {args.case}: {why}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
