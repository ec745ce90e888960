#!/usr/bin/env python3
"""CUDA plans of small models through the real tools on the fake driver. usage: fakecuda.py --bin DIR --compiler CXX
--fakecuda LIB --tiny FOLDER CASE

Exact logits come from test/vectors/{demo,tiny}_logits.json (float64, independent code). Criterion, on max |difference| / rms(exact)
at each stored position: twice the error of the same model with every operator rounded to BF16, which is stored beside the
logits. A CUDA plan stores activations in BF16 after every kernel and rounds the operands of tensor cores, so it rounds where
that model does; its sums run in another order, so single roundings fall otherwise and its error is another draw of the same
size, not the same number: hence the factor.
Exit code 77: no NVRTC, nothing was run.
"""
import argparse
import array
import base64
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [HERE, os.path.join(ROOT, "test", "e2e"), os.path.join(ROOT, "examples", "demo")]
import corpus  # noqa: E402
import host_kernels  # noqa: E402
import speculation  # noqa: E402
import traces  # noqa: E402
import vision  # noqa: E402
from e2e import CHECKPOINT, Failure, check, distance  # noqa: E402

YARDSTICKS = 2
DEMO, TINY = (json.load(open(os.path.join(ROOT, "test", "vectors", f"{name}_logits.json"))) for name in ("demo", "tiny"))


# Models like the random hybrid of the stored logits, which has no draft layer: what their options replace.
SPARSE = ("--preset tiny", "--preset tiny-moe --experts 8 --experts-per-token 8")
RANDOM = {"experts": [SPARSE], "hybrid-mtp": [("--no-mtp", "")],
          "experts-mtp": [("--preset tiny", "--preset tiny-moe --experts 6 --experts-per-token 2"), ("--no-mtp", "--proposal 96")]}


class Case:
    def __init__(self, args, tmp, sm):
        self.args, self.tmp, self.sm = args, tmp, sm

    def tool(self, name):
        return os.path.join(self.args.bin, name)

    def run(self, *command, code=0, input=None, **variables):
        environment = {**os.environ, "NINFER_CUDA_DRIVER": self.args.fakecuda, "NINFER_FAKECUDA_REPORT": "1",
                       "NINFER_FAKECUDA_DEVICES": f"{self.sm}=Fake GPU sm_{self.sm}",
                       **{k: str(v) for k, v in variables.items()}}
        done = subprocess.run([str(c) for c in command], capture_output=True, env=environment, input=input)
        check(done.returncode == code, f"exit code {done.returncode}, expected {code}: {' '.join(map(str, command))}\n"
                                       f"{done.stderr.decode(errors='replace')}")
        return done

    def model(self, recipe):
        path = f"{self.tmp}/{recipe}.ninfer"
        if not os.path.exists(path) and recipe in TINY["models"]:
            tool = "make_qwen_artifact" if recipe == "hybrid" else "make_tiny_artifact"
            self.run(os.path.join(self.args.tiny, tool), path, *TINY["models"][recipe]["options"])
        elif not os.path.exists(path) and recipe in RANDOM:
            options = " ".join(TINY["models"]["hybrid"]["options"])
            for old, new in RANDOM[recipe]:
                options = options.replace(old, new)
            self.run(os.path.join(self.args.tiny, "make_qwen_artifact"), path, *options.split())
        elif not os.path.exists(path):
            self.run(self.tool("ninfer-convert"), CHECKPOINT, "-o", path, "--recipe", recipe)
        return path

    def build(self, recipe, *options, name="plan"):
        """A plan and the library of its kernels."""
        return self.build_model(self.model(recipe), *options, name=name)

    def build_model(self, model, *options, name="plan"):
        plan, dump = f"{self.tmp}/{name}.plan.bin", f"{self.tmp}/{name}.cu"
        done = subprocess.run([self.tool("ninfer-build"), model, "-o", plan, "--target", f"cuda:sm_{self.sm}", "--target",
                               "reference", "--dump-kernels", dump, *map(str, options)], capture_output=True)
        text = done.stderr.decode(errors="replace")
        if "NB0485" in text:
            print("not run: no NVRTC")
            sys.exit(77)
        check(done.returncode == 0, text)
        kernels = f"{self.tmp}/{name}.so"
        host_kernels.build(ROOT, self.args.compiler, self.args.fakecuda, dump, kernels)
        return plan, kernels

    def logits(self, plan, kernels, tokens, *options, target="cuda", **variables):
        done = self.run(self.tool("ninfer-exec"), "logits", plan, "--target", target, "--tokens", ",".join(map(str, tokens)),
                        "-o", "raw", *options, NINFER_FAKECUDA_KERNELS=kernels, **variables)
        check(target != "cuda" or b"live: device 0, host 0, modules 0, streams 0, events 0, graphs 0, contexts 0" in done.stderr,
              f"not everything was released: {done.stderr.decode()}")
        return array.array("f", done.stdout)


def logits_case(case, recipe, kv="bf16"):
    """Decode (a captured graph) and prefill against the exact logits."""
    vectors = TINY if recipe in TINY["models"] else DEMO
    stored = TINY["models"][recipe] if recipe in TINY["models"] else DEMO["recipes"][recipe][kv]
    exact = array.array("f", base64.b64decode(stored["logits"]))
    positions = stored.get("positions", vectors["positions"])
    vocab = len(exact) // len(positions)
    plan, kernels = case.build(recipe, "--kv-dtype", kv, "--prefill-chunk", 32 if recipe == "hybrid" else 64)
    tokens = stored.get("tokens", vectors["tokens"])
    each = case.logits(plan, kernels, tokens, "--each", "--one-by-one")
    check(len(each) == vocab * len(tokens), f"{len(each)} logits")
    worst = 0
    for i, p in enumerate(positions):
        want, bound = exact[i * vocab:(i + 1) * vocab], YARDSTICKS * stored["bf16_operators"][i]
        for how, row in (("decode", each[p * vocab:(p + 1) * vocab]), ("prefill", case.logits(plan, kernels, tokens[:p + 1]))):
            d = distance(row, want)
            worst = max(worst, d / stored["bf16_operators"][i])
            print(f"{recipe} kv {kv} {how} position {p}: {d:.3g}, BF16 operators {bound / YARDSTICKS:.3g}")
            check(d <= bound, f"{recipe} {how} position {p}: {d:.3g} > {bound:.3g}")
            check(max(range(vocab), key=row.__getitem__) == max(range(vocab), key=want.__getitem__), f"argmax at position {p}")
    print(f"{recipe} kv {kv}: at most {worst:.2f} times the BF16 operators")


def experts(case):
    """The hybrid model with experts, against its reference plan: its layers round as those of its dense twin do, so the twin's
    yardstick serves; the worst position's but for the first, where the twin's states are empty and its error stands out. Every
    token has all experts: a choice between nearly equal ones may fall either way, and then another function is computed."""
    stored = TINY["models"]["hybrid"]
    plan, kernels = case.build("experts", "--prefill-chunk", 32)
    tokens, bound = stored["tokens"], YARDSTICKS * max(stored["bf16_operators"][1:])
    want = case.logits(plan, kernels, tokens, "--each", "--one-by-one", target="reference")
    got = case.logits(plan, kernels, tokens, "--each", "--one-by-one")
    vocab = len(want) // len(tokens)
    rows = [(f"decode {t}", got[t * vocab:(t + 1) * vocab], want[t * vocab:(t + 1) * vocab]) for t in range(len(tokens))]
    rows.append(("prefill", case.logits(plan, kernels, tokens), want[-vocab:]))
    for how, row, exact in rows:
        d = distance(row, exact)
        print(f"{how}: {d:.3g} of {bound:.3g}")
        check(d <= bound, f"{how}: {d:.3g} > {bound:.3g}")


def int8_cache(case):
    """Against the reference plan with the same cache: both round keys and values to the same codes."""
    plan, kernels = case.build("w8", "--kv-dtype", "int8")
    tokens = [(i * 37 + 11) % 509 for i in range(24)]
    vocab = 512
    want = case.logits(plan, kernels, tokens, "--each", "--one-by-one", target="reference")
    got = case.logits(plan, kernels, tokens, "--each", "--one-by-one")
    bound = YARDSTICKS * max(DEMO["recipes"]["w8"]["bf16"]["bf16_operators"])
    for t in range(len(tokens)):
        d = distance(got[t * vocab:(t + 1) * vocab], want[t * vocab:(t + 1) * vocab])
        check(d <= bound, f"position {t}: {d:.3g} > {bound:.3g}")


def greedy(case):
    """Questions answered token for token as the reference plan answers them; other orders of threads, races reported."""
    plan, kernels = case.build("mixed")
    for question, _ in corpus.test_set(2):
        command = (case.tool("ninfer-exec"), "chat", plan, "-p", question, "-n", 24, "--target")
        want = case.run(*command, "reference").stdout
        got = case.run(*command, "cuda", NINFER_FAKECUDA_KERNELS=kernels).stdout
        check(want and got == want, f"{question}: {got} instead of {want}")
    tokens = [11, 48, 85, 122, 159]
    forward = case.logits(plan, kernels, tokens, "--each")
    for order in ("reverse", "random"):
        again = case.logits(plan, kernels, tokens, "--each", NINFER_FAKECUDA_ORDER=order, NINFER_FAKECUDA_RACES=1)
        check(again == forward, f"order {order} gives other logits")


def mismatches(case):
    """Case 10: another device, another driver, none at all. Both sides are named, nothing is allocated."""
    plan, kernels = case.build("w8")

    def refused(message, code=4, target="cuda", **variables):
        done = case.run(case.tool("ninfer-exec"), "logits", plan, "--target", target, "--tokens", "1,2", code=code,
                        NINFER_FAKECUDA_KERNELS=kernels, **variables)
        text = done.stderr.decode()
        check(message in text, f"expected '{message}', got: {text}")
        check("live: device" not in text or "live: device 0, host 0" in text, text)

    refused("plan: cuda:sm_89, this machine: sm_86 (NVIDIA Fake 3090)", NINFER_FAKECUDA_DEVICES="86=NVIDIA Fake 3090")
    refused("plan: cuda:sm_89, this machine: sm_90 (One), sm_120 (Two)", NINFER_FAKECUDA_DEVICES="90=One;120=Two")
    refused("plan: cuda:sm_89, this machine: no CUDA device", NINFER_FAKECUDA_DEVICES="")
    refused("plan: cuda:sm_89 needs a driver of CUDA 13.0 or later, this machine: CUDA 12.9", NINFER_FAKECUDA_VERSION=12999 - 9)
    refused("plan: cuda:sm_89, this machine: no NVIDIA driver", NINFER_CUDA_DRIVER="/nowhere/libcuda.so.1")
    refused("has no cuInit, it is too old", NINFER_CUDA_DRIVER="libm.so.6")
    refused("does not start: cuInit: CUDA_ERROR_INVALID_IMAGE", NINFER_FAKECUDA_FAIL="cuInit:1:200")
    refused("device memory: needs", code=6, NINFER_FAKECUDA_MEMORY=3 << 20)
    # One of several devices fits; a plan with another target falls back to it, with a warning.
    case.run(case.tool("ninfer-exec"), "logits", plan, "--target", "cuda", "--tokens", "1,2", "-o", "raw",
             NINFER_FAKECUDA_KERNELS=kernels, NINFER_FAKECUDA_DEVICES="86=Other;89=This")
    done = case.run(case.tool("ninfer-exec"), "logits", plan, "--tokens", "1,2", "-o", "raw", NINFER_FAKECUDA_DEVICES="")
    check(b"running reference; plan: cuda:sm_89, this machine: no CUDA device" in done.stderr, done.stderr.decode())


def prepack(case):
    """Packed weights from a file: the same logits without a pack launch; refused for everything they were not made for."""
    packed = f"{case.tmp}/w8.packed"
    plan, kernels = case.build("w8", "--prepack", packed, "--target", "cuda:sm_86", "--cache", f"{case.tmp}/cache")
    tokens = [(i * 37 + 11) % 509 for i in range(9)]

    def logits(*options, plan=plan, **variables):
        return case.logits(plan, kernels, tokens, *options, **variables)

    want = logits("--one-by-one")
    # Both architectures pack alike: one section, behind a header of 4096 bytes.
    figures = json.loads(case.run(case.tool("ninfer-build"), case.model("w8"), "-o", plan, "--target", f"cuda:sm_{case.sm}", "--target",
                                  "cuda:sm_86", "--target", "reference", "--prepack", packed, "--cache", f"{case.tmp}/cache", "--report", "json").stdout)
    size = os.path.getsize(packed)
    check(figures["prepacked"] == {"file": packed, "bytes": size, "sections": 1}, figures["prepacked"])
    check(size == 4096 + figures["targets"][0]["ledger"]["packed_bytes"], f"{size} bytes")
    check(logits("--one-by-one", "--prepacked", packed) == want, "logits differ from those of weights packed on the device")
    done = case.run(case.tool("ninfer-exec"), "logits", plan, "--target", "cuda", "--tokens", "1", "--stats", "--progress", "json",
                    "--prepacked", packed, NINFER_FAKECUDA_KERNELS=kernels, NINFER_FAKECUDA_FAIL="cuMemcpyHtoDAsync:99:719")
    lines = [json.loads(line) for line in done.stderr.decode().splitlines() if line.startswith("{")]
    check(lines and lines[-1]["done"] == lines[-1]["total"] == size - 4096 and lines[-1]["unit"] == "bytes", str(lines))
    check(f"from {packed}" in done.stderr.decode(), done.stderr.decode())
    done = case.run(case.tool("ninfer-exec"), "logits", plan, "--target", "cuda", "--tokens", "1", "-o", "raw", "--progress", "json",
                    NINFER_FAKECUDA_KERNELS=kernels)
    lines = [json.loads(line) for line in done.stderr.decode().splitlines() if line.startswith("{")]
    check(lines and lines[-1]["done"] == lines[-1]["total"] > 100_000 and lines[-1]["phase"] == "upload weights", str(lines))
    # One decode call is all that is launched: nothing is packed on the device.
    launches = figures["targets"][0]["launches"]["decode"]
    for number, code in ((launches, 1), (launches + 1, 0)):
        case.run(case.tool("ninfer-exec"), "logits", plan, "--target", "cuda", "--tokens", "1", "-o", "raw", "--prepacked", packed, code=code,
                 NINFER_FAKECUDA_KERNELS=kernels, NINFER_FAKECUDA_FAIL=f"cuLaunchKernel:{number}:719")
    # A plan with other phases over the same packing takes the file too.
    other, kernels = case.build("w8", "--prefill-chunk", 16, "--cache", f"{case.tmp}/cache", name="other")
    check(len(logits("--one-by-one", "--prepacked", packed, plan=other)) == len(want), "another plan of the same packing")

    def refused(code, message, file=packed, plan=plan, artifact=None, target="cuda"):
        options = ["-m", artifact] if artifact else []
        done = case.run(case.tool("ninfer-exec"), "logits", plan, "--target", target, "--tokens", "1,2", "--prepacked", file, *options,
                        code=code, NINFER_FAKECUDA_KERNELS=kernels)
        text = done.stderr.decode()
        check(message in text and "live: device 0, host 0" in text or message in text and "live:" not in text, text)

    def changed(name, change):
        path = f"{case.tmp}/{name}.packed"
        with open(packed, "rb") as f:
            data = bytearray(f.read())
        with open(path, "wb") as f:
            f.write(change(data) or data)
        return path

    # The digests in the header are those of what was written, and cover it.
    inspect = case.tool("ninfer-inspect")
    page = case.run(inspect, packed, "--hash").stdout.decode()
    with open(packed, "rb") as f:
        digest = hashlib.sha256(f.read()[4096:]).hexdigest()
    check(digest in page and "content     agrees" in page, page)
    for at in (4096, size // 2, size - 1):
        done = case.run(inspect, changed("content", lambda d: d.__setitem__(at, d[at] ^ 1)), "--hash", code=3)
        check(b"NB0647" in done.stderr and digest.encode() in done.stderr and not done.stdout, done.stderr.decode())

    # Other weights of equal storage: one code of the artifact is another.
    data = bytearray(open(case.model("w8"), "rb").read())
    data[len(data) // 2] ^= 1
    refit = f"{case.tmp}/refit.ninfer"
    open(refit, "wb").write(data)
    refused(4, "NB0648", artifact=refit)
    refused(4, "made from other weights", artifact=refit)
    mixed, _ = case.build("q4", "--cache", f"{case.tmp}/cache", name="q4")
    refused(4, "made from an artifact of storage", plan=mixed)
    refused(2, "NB0649", target="reference")
    refused(3, "truncated", file=changed("short", lambda d: d[:-1]))
    refused(3, "something was appended", file=changed("long", lambda d: d + b"0"))
    refused(3, "the header is damaged", file=changed("flip", lambda d: d.__setitem__(50, d[50] ^ 1)))
    refused(4, "file: version 1, this build: 2", file=changed("version", lambda d: d.__setitem__(8, 1)))
    refused(3, "not a file of ninfer-build --prepack", file=case.model("w8"))
    refused(3, "NB0901", file=f"{case.tmp}/none")

    def header(data, at, value):
        """Changes a header and its digest, which is of the header with zeros in its place."""
        data[at] = value
        data[104:136] = bytes(32)
        data[104:136] = hashlib.sha256(data[:4096]).digest()

    refused(4, "file: layout 9, this build: 1 (panel-16x128)", file=changed("layout", lambda d: header(d, 16, 9)))
    refused(4, "made for another plan", file=changed("plan", lambda d: header(d, 192, d[192] ^ 1)))
    # A failure of the device on the way.
    for call in ("cuMemHostAlloc:1:2", "cuEventCreate:2:719", "cuMemcpyHtoDAsync:1:719", "cuEventRecord:1:719", "cuStreamSynchronize:1:719"):
        done = case.run(case.tool("ninfer-exec"), "logits", plan, "--target", "cuda", "--tokens", "1", "--prepacked", packed,
                        code=6 if call.endswith(":2") else 1, NINFER_FAKECUDA_KERNELS=kernels, NINFER_FAKECUDA_FAIL=call)
        check(b"live: device 0, host 0, modules 0, streams 0, events 0, graphs 0, contexts 0" in done.stderr, done.stderr.decode())
    # A full disk, and kills: the file that is there stays until the new one is complete.
    folder = f"{case.tmp}/there"
    os.mkdir(folder)
    old = {"p.bin": b"", "p.packed": b"NINPACK\0 an older one"}
    new = {"p.bin": open(plan, "rb").read(), "p.packed": open(packed, "rb").read()}
    again = [case.tool("ninfer-build"), case.model("w8"), "-o", f"{folder}/p.bin", "--target", f"cuda:sm_{case.sm}", "--target", "cuda:sm_86", "--target",
             "reference", "--cache", f"{case.tmp}/cache", "--prepack", f"{folder}/p.packed", "--report", "none"]

    def found():
        return {name: open(os.path.join(folder, name), "rb").read() for name in os.listdir(folder)}

    for name, data in old.items():
        open(os.path.join(folder, name), "wb").write(data)
    full = subprocess.run(again, capture_output=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)))
    check(full.returncode == 1 and b"NB0906" in full.stderr and found() == old, f"{full.returncode} {full.stderr.decode()}")
    start = time.monotonic()
    case.run(*again)
    whole = time.monotonic() - start
    check(found() == new, "a build with a full disk before it differs")
    for i in range(10):
        for name, data in old.items():
            open(os.path.join(folder, name), "wb").write(data)
        process = subprocess.Popen(again, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(whole * i / 9)
        process.kill()
        process.wait()
        state = found()
        check(set(state) == set(old) and all(state[name] in (old[name], new[name]) for name in old), "a killed build left a torn file")
        check(state["p.bin"] == new["p.bin"] or state["p.packed"] == old["p.packed"], "packed weights appeared before their plan")
    # ninfer-build: no CUDA target; no plan; another file under that name.
    build = (case.tool("ninfer-build"), case.model("w8"))
    for code, message, options in ((2, "NB0403", ["-o", f"{case.tmp}/x.bin", "--target", "reference", "--prepack", f"{case.tmp}/x"]),
                                   (2, "NB0900", ["--dry-run", "--prepack", f"{case.tmp}/x"]),
                                   (2, "NB0905", ["-o", f"{case.tmp}/x.bin", "--target", f"cuda:sm_{case.sm}", "--prepack", plan]),
                                   (2, "NB0403", ["-o", f"{case.tmp}/x.bin", "--target", f"cuda:sm_{case.sm}", "--prepack", f"{case.tmp}/x.bin"])):
        done = case.run(*build, *options, code=code)
        check(message in done.stderr.decode(), done.stderr.decode())
        check(not os.path.exists(f"{case.tmp}/x") and not os.path.exists(f"{case.tmp}/x.bin"), f"{options} left a file")


def failures(case):
    """Every call of the driver fails once: an error with the name of the call, no crash, everything released."""
    plan, kernels = case.build("w8")
    # The n-th call, so that each place of the runtime that makes it is hit.
    calls = [("cuDriverGetVersion", 1), ("cuDevicePrimaryCtxRetain", 1), ("cuMemGetInfo", 1), ("cuMemGetInfo", 2), ("cuMemAlloc", 1),
             ("cuMemAlloc", 2), ("cuMemAlloc", 3), ("cuMemHostAlloc", 1), ("cuMemHostAlloc", 2), ("cuMemHostAlloc", 3),
             ("cuMemcpyHtoDAsync", 1), ("cuMemcpyHtoDAsync", 58), ("cuMemcpyHtoDAsync", 59), ("cuMemsetD8Async", 1), ("cuStreamCreate", 1),
             ("cuStreamCreate", 2), ("cuStreamSynchronize", 1), ("cuStreamSynchronize", 4), ("cuStreamBeginCapture", 1),
             ("cuStreamEndCapture", 1), ("cuGraphInstantiate", 1), ("cuGraphLaunch", 1), ("cuGraphLaunch", 2), ("cuEventCreate", 2),
             ("cuEventRecord", 3), ("cuEventSynchronize", 3), ("cuModuleLoadData", 2), ("cuModuleGetFunction", 2),
             ("cuLaunchKernel", 1), ("cuLaunchKernel", 40), ("cuMemcpyDtoHAsync", 1)]
    for call, number in calls:
        for result, code in ((719, 1), (2, 6)):
            if call == "cuDriverGetVersion":
                code = 4
            done = case.run(case.tool("ninfer-exec"), "logits", plan, "--target", "cuda", "--tokens", "1,2,3", "--one-by-one",
                            code=code, NINFER_FAKECUDA_KERNELS=kernels, NINFER_FAKECUDA_FAIL=f"{call}:{number}:{result}")
            text = done.stderr.decode()
            name = "CUDA_ERROR_OUT_OF_MEMORY" if result == 2 else "CUDA_ERROR_LAUNCH_FAILED"
            check(f"{call}: {name}" in text, f"{call} {number}: {text}")
            check("live: device 0, host 0, modules 0, streams 0, events 0, graphs 0, contexts 0" in text, f"{call} {number}: {text}")


CASES = {"speculative-demo": speculation.speculative_demo, "speculative-golden": lambda case: speculation.golden(case, YARDSTICKS),
         "speculative-logits": lambda case: speculation.verified_logits(case, TINY["models"]["hybrid"], YARDSTICKS),
         "speculative-dense": lambda case: speculation.speculative_random(case, "hybrid-mtp"),
         "vision-transformers": lambda case: vision.vision_transformers(case, YARDSTICKS),
         "layer-traces": lambda case: traces.layer_traces(case, YARDSTICKS),
         "speculative-sparse": lambda case: speculation.speculative_random(case, "experts-mtp"), "mismatches": mismatches, "prepack": prepack, "failures": failures, "greedy": greedy, "int8-cache": int8_cache, "experts": experts,
         **{f"logits-{r}": (lambda case, r=r: logits_case(case, r)) for r in [*DEMO["recipes"], *TINY["models"]]}}
SUFFIXES = {"": 89, "-sm75": 75}  # the architecture; sm_75 multiplies binary16


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--fakecuda", required=True)
    parser.add_argument("--tiny", required=True)
    parser.add_argument("case", choices=[case + suffix for case in CASES for suffix in SUFFIXES])
    args = parser.parse_args()
    name, sm = next((args.case.removesuffix(suffix), sm) for suffix, sm in reversed(SUFFIXES.items()) if args.case.endswith(suffix))
    with tempfile.TemporaryDirectory() as tmp:
        try:
            CASES[name](Case(args, tmp, sm))
        except Failure as failure:
            sys.exit(f"FAILED {args.case}: {failure}")
    print(f"ok {args.case}")


if __name__ == "__main__":
    main()
