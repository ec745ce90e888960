"""Vision towers of CUDA plans on the fake driver, against the embeddings of transformers. Cases of fakecuda.py."""
import array
import base64
import json
import os
import sys

from e2e import HYBRID, ROOT, check, distance

sys.path.append(os.path.join(ROOT, "test", "oracle"))
import vision_forward  # noqa: E402


def tower(case, kind, most, yardsticks):
    """Every committed image that fits `most` patches. The bound of an image: the error of the same tower with BF16 operators, the largest of
    its embeddings, by an oracle whose exact run must agree with the stored embeddings."""
    folder = os.path.join(HYBRID, kind)
    model = f"{case.tmp}/{kind}.ninfer"
    case.run(case.tool("ninfer-convert"), folder, "-o", model, "--recipe", "bf16", "--vision", "--no-tokenizer", "--force")
    plan, kernels = case.build_model(model, "--vision", "--vision-max-patches", most)
    oracle = vision_forward.Tower(folder)
    width = 3 * oracle.config["temporal_patch_size"] * oracle.config["patch_size"] ** 2
    hidden, images = oracle.config["out_hidden_size"], 0
    for n, image in enumerate(json.load(open(f"{folder}/embeddings.json"))["images"]):
        rows, columns = image["grid"]
        if rows * columns > most:
            continue
        values = vision_forward.pixels(n, rows * columns * width)
        patches = [values[i:i + width] for i in range(0, len(values), width)]
        exact = array.array("d", base64.b64decode(image["embeddings_f64"]))
        wanted = [exact[i:i + hidden] for i in range(0, len(exact), hidden)]
        worst = lambda got: max(distance(row, want) for row, want in zip(got, wanted))
        unrounded = worst(oracle.forward(patches, rows, columns, False))
        check(unrounded < 1e-6, f"the oracle is {unrounded:.3g} away from transformers")
        yardstick = worst(oracle.forward(patches, rows, columns, True))
        with open(f"{case.tmp}/patches", "wb") as f:
            f.write(array.array("f", values).tobytes())
        got = array.array("f", case.run(case.tool("ninfer-exec"), "embed", plan, "--target", "cuda", "--patches", f"{case.tmp}/patches", "--grid",
                                        f"{rows}x{columns}", "-o", "raw", NINFER_FAKECUDA_KERNELS=kernels).stdout)
        check(len(got) == len(exact), f"{len(got)} values")
        error = worst([got[i:i + hidden] for i in range(0, len(got), hidden)])
        print(f"{kind} {rows}x{columns}, plan for {most}: {error:.3g}, {error / yardstick:.2f} times the BF16 operators")
        check(error <= yardsticks * yardstick, f"{kind} {rows}x{columns}: {error:.3g} > {yardsticks} * {yardstick:.3g}")
        images += 1
    check(images > 0, "no image")


def vision_transformers(case, yardsticks):
    """Linear maps of many rows and of up to 16; merged squares of one patch and of four. The kernels of many rows want widths that are
    multiples of 8, which those of the tower `vision` are not: its plan is for few."""
    tower(case, "dense-vision-mtp", 80, yardsticks)
    tower(case, "dense-vision-mtp", 16, yardsticks)
    tower(case, "vision", 16, yardsticks)
