#!/usr/bin/env python3
"""gpu-check on the driver of test/fakecuda: a small pack passes, and each planted fault is reported as a failure of its section.
usage: gpu_check_test.py SOURCE_DIR BUILD_DIR COMPILER. Exit code 77: no NVRTC, nothing was run."""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

KEYS = ["linear_q4g64_r9_k72", "pack_q5g64", "norm_k33", "argmax_b1"]
SECTIONS = ["pack", "device", "wrappers", "operators", "demo", "models"]


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


class Test:
    def __init__(self, source, build, compiler, tmp):
        sys.path.insert(0, f"{source}/test/fakecuda")
        import host_kernels
        self.source, self.build, self.compiler, self.tmp = source, build, compiler, pathlib.Path(tmp)
        self.driver = f"{build}/test-bin/libfakecuda.so"
        self.host_kernels = host_kernels
        done = subprocess.run([f"{source}/scripts/gpu-check", "--pack", f"{tmp}/pack", "--target", "sm_89", "--small", "--no-build", "--build", build,
                               "--jobs", "2", "--dump", f"{tmp}/texts", "--scratch", tmp, "--keys", *KEYS], capture_output=True, text=True)
        if done.returncode == 77:
            print(done.stderr)
            sys.exit(77)
        check(done.returncode == 0, done.stderr)
        self.kernels = self.library("kernels", {})

    def library(self, name, changes):
        """The kernels as host code, with texts replaced: {file: [(old, new), ...]}."""
        folder = self.tmp / f"{name}.cu"
        shutil.copytree(self.tmp / "texts", folder)
        for file, replacements in changes.items():
            text = (folder / file).read_text()
            for old, new in replacements:
                check(old in text, f"{file} has no '{old}'")
                text = text.replace(old, new)
            (folder / file).write_text(text)
        out = self.tmp / f"{name}.so"
        self.host_kernels.build(self.source, self.compiler, self.driver, folder, out)
        return out

    def run(self, code, *options, pack="pack", kernels=None, **variables):
        out = self.tmp / "out.json"
        out.unlink(missing_ok=True)
        environment = {**os.environ, "NINFER_CUDA_DRIVER": self.driver, "NINFER_FAKECUDA_KERNELS": str(kernels or self.kernels), **variables}
        done = subprocess.run([f"{self.tmp}/{pack}/gpu-check", "--out", out, "--budget", "4000", *options], capture_output=True, text=True, env=environment)
        check(done.returncode == code, f"exit code {done.returncode}, expected {code}: {done.stdout}{done.stderr}")
        report = json.loads(out.read_text())
        check([s["name"] for s in report["sections"]] == SECTIONS, "sections")
        check(report["exit_code"] == code and report["status"] == {0: "pass", 1: "fail"}.get(code, "not run"), "status of the report")
        self.text = done.stdout
        return report, {s["name"]: s for s in report["sections"]}

    def copy(self, name, file, change):
        """A pack with one file changed, and with its digest as it should be."""
        shutil.copytree(self.tmp / "pack", self.tmp / name)
        path = self.tmp / name / file
        path.write_bytes(change(path.read_bytes()))
        manifest = json.loads((self.tmp / name / "manifest.json").read_text())
        manifest["files"][file] = hashlib.sha256(path.read_bytes()).hexdigest()
        (self.tmp / name / "manifest.json").write_text(json.dumps(manifest))

    def fails(self, section, text, *options, **how):
        _, sections = self.run(1, "--only", section, *options, **how)
        check(sections[section]["status"] == "fail" and text in sections[section]["reason"], f"{section}: {sections[section]}")
        return sections


def statuses(sections):
    return {name: s["status"] for name, s in sections.items()}


def main():
    source, build, compiler = sys.argv[1:]
    with tempfile.TemporaryDirectory() as tmp:
        t = Test(source, build, compiler, tmp)

        report, sections = t.run(0)
        check(set(statuses(sections).values()) == {"pass"}, statuses(sections))
        check(report["device"]["name"] == "Fake GPU sm_89" and "Fake GPU sm_89" in t.text, "the device is named")
        check(sections["operators"]["details"]["passed"] >= 5, sections["operators"])
        check(len(sections["wrappers"]["details"]["cases"]) > 25, "wrappers")
        model = sections["models"]["details"]["models"][0]
        check(model["decode_tok_s"] > 0 and model["launches_per_token"] > 20 and len(model["kernels"]) > 20, model)
        check(model["read_bytes_per_token"] > 100_000, model)

        # No GPU: nothing passes.
        for variables, reason in (({"NINFER_FAKECUDA_DEVICES": ""}, "no CUDA device"),
                                  ({"NINFER_CUDA_DRIVER": "/nowhere/libcuda.so.1"}, "no NVIDIA driver")):
            _, sections = t.run(77, **variables)
            check(set(list(statuses(sections).values())[1:]) == {"not run"}, statuses(sections))
            check(reason in sections["device"]["reason"] and reason in sections["models"]["reason"], sections["device"])
        # Another GPU; a driver that does not start.
        _, sections = t.run(1, NINFER_FAKECUDA_DEVICES="86=NVIDIA Fake 3090")
        check(sections["device"]["reason"] == "pack: sm_89, this machine: sm_86 (NVIDIA Fake 3090)", sections["device"])
        check(set(list(statuses(sections).values())[2:]) == {"not run"}, statuses(sections))
        _, sections = t.run(1, NINFER_FAKECUDA_FAIL="cuInit:1:200")
        check("CUDA_ERROR_INVALID_IMAGE" in sections["device"]["reason"], sections["device"])
        # No time: what was not run says so.
        _, sections = t.run(76, "--budget", "3")
        check(sections["models"] | {"reason": "time", "status": "not run"} == sections["models"], sections["models"])

        # A wrapper whose device half differs from its twin, for each kind of comparison; the others pass.
        wrong = t.library("wrong", {
            "check_wrappers.cu": [("shuffleXor(v, 4)", "shuffleXor(v, 5)"), ("asBits(d[i])", "asBits(d[i ^ 1])"), ("exp2Approx(x)", "exp2Approx(x) * 1.000001f"),
                                  ("straight[4], transposed[4];", "straight[4], transposed[4]; const u32 row4 = row ^ 1;"),
                                  ("loadMatrixTransposed(transposed, &shared->words[warp][row * 4])", "loadMatrixTransposed(transposed, &shared->words[warp][row4 * 4])"),
                                  ("floatToF16(x)", "floatToF16(x * 1.0001f)"), ("asBits(maximum(x, y))", "asBits(x > y ? x : y)"),
                                  ("store(out + 2 * blocks, sum)", "store(out + 2 * blocks, sum + 1)")],
            "ni_norm_k33_sm89.cu": [(".width = 33", ".width = 34")], # writes behind its rows
            "ni_argmax_b1_sm89.cu": [(".blocks = 1", ".blocks = 2")]})
        sections = t.fails("wrappers", "check_shuffle", kernels=wrong)
        failed = {c["name"] for c in sections["wrappers"]["details"]["cases"] if c["status"] == "fail"}
        check(failed == {"check_shuffle", "check_mma", "check_mma_f16", "check_exp2", "check_load_matrix", "check_float_to_f16", "check_maximum", "check_atomic"}, failed)
        sections = t.fails("operators", "2 of ", kernels=wrong)
        messages = {f["name"].rsplit("/", 1)[1]: f["message"] for f in sections["operators"]["details"]["failures"]}
        check(set(messages) == {"ni_norm_k33", "ni_argmax_b1"}, messages)
        check("wrote outside its buffers, behind 'out'" in messages["ni_norm_k33"], messages)

        # Damaged files: by digest; machine code that the driver refuses; other logits than the plan's.
        cubin = "sm_89/ni_argmax_b1_sm89.cubin"
        shutil.copytree(t.tmp / "pack", t.tmp / "torn")
        damaged = bytearray((t.tmp / "torn" / cubin).read_bytes())
        damaged[len(damaged) // 2] ^= 1
        (t.tmp / "torn" / cubin).write_bytes(damaged)
        _, sections = t.run(1, "--only", "wrappers", pack="torn")
        check(sections["pack"]["status"] == "fail" and cubin in sections["pack"]["reason"], sections["pack"])
        t.copy("bad", cubin, lambda data: data[:100] + bytes(len(data) - 100))
        t.fails("operators", "cuModuleLoadData", pack="bad")
        t.copy("other", "demo.logits", lambda data: data[4:] + data[:4])
        t.fails("demo", "position", pack="other")
        # A launch that fails.
        t.fails("wrappers", "CUDA_ERROR_LAUNCH_FAILED", NINFER_FAKECUDA_FAIL="cuLaunchKernel:3:719")
    print("ok gpu-check")


if __name__ == "__main__":
    main()
