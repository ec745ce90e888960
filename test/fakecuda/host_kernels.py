#!/usr/bin/env python3
"""host_kernels.py SOURCE_DIR COMPILER FAKECUDA FOLDER OUT.so: the .cu files of FOLDER (ninfer-build --dump-kernels) as host
code for the fake driver. Every kernel is compiled through test/emulator/ni_host.h; the texts are those NVRTC saw."""
import pathlib
import subprocess
import sys
import tempfile


def build(source, compiler, fakecuda, folder, out):
    headers, lines = [], []
    for file in sorted(pathlib.Path(folder).glob("*.cu")):
        for line in file.read_text().splitlines():
            if line.startswith("#include"):
                if line not in headers:
                    headers.append(line)
            elif line.strip():
                lines.append(line)
    if not lines:
        sys.exit(f"host_kernels.py: {folder}: no .cu files")
    with tempfile.TemporaryDirectory() as temporary:
        unit = pathlib.Path(temporary) / "kernels.cpp"
        unit.write_text("\n".join(headers + lines) + "\n")
        subprocess.run([compiler, "-std=c++20", "-O2", "-fPIC", "-shared", f"-I{source}", f"-I{source}/test/emulator",
                        f"-I{source}/codegen/cuda/kernels", str(unit), str(fakecuda), "-o", str(out)], check=True)


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    build(*sys.argv[1:])
