"""Layer traces of CUDA plans on the fake driver, against the float64 oracle. Cases of fakecuda.py."""
import json
import os

from e2e import check, distance

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FIXTURES = os.path.join(ROOT, "test", "conformance", "fixtures")


def layer_traces(case, yardsticks):
    """The residual stream of the golden hybrid after every step, in chunks and one by one. Bounds: for what the embedding gives, one
    rounding to BF16; then multiples of the error of the same model with BF16 operators. Two rows of it are stored, nine are compared: the
    largest along the stream serves every place."""
    model = os.path.join(FIXTURES, "v3_single.ninfer")
    vectors = json.load(open(os.path.join(FIXTURES, "v3_single_forward.json")))
    oracle = os.path.join(ROOT, "test", "vectors", "traces", "v3_single.jsonl")
    with open(oracle) as f:
        rows = [json.loads(line) for line in f]
    tokens, rows = rows[0]["tokens"], rows[1:]
    width = len(rows[0]["values"])
    bounds = {"text/token_embedding": max(max(map(abs, r["values"])) / (sum(x * x for x in r["values"]) / width) ** .5
                                          for r in rows if r["output"] == "text/token_embedding") * 2 ** -9}
    def yardstick(stored):
        exact, rounded = (vectors[key][stored]["data"] for key in ("oracle_f64", "reference_bf16_ops"))
        return max(distance(rounded[a:a + width], exact[a:a + width]) for a in range(0, len(exact), width))

    stream = yardsticks * max(map(yardstick, ("layer0_mixer", "layer0_mlp", "layer1_mixer", "layer1_mlp")))
    bounds |= {f"text/layers/{i}{s}": stream for i in range(2) for s in ("/mixer", "")}
    bounds["text/final_norm"] = yardsticks * yardstick("final_hidden")
    for options, calls in (((), 3), (("--spec", "mtp", "--draft-tokens", 2), len(tokens))):
        plan, kernels = case.build_model(model, "--trace-layers", "--max-context", 32, "--prefill-chunk", 4, *options)
        for how in ((), ("--one-by-one",)):
            report = json.loads(case.run(case.tool("ninfer-exec"), "logits", plan, "-m", model, "--target", "cuda", "--tokens",
                                         ",".join(map(str, tokens)), "--trace-against", oracle, "-o", "json", *how,
                                         NINFER_FAKECUDA_KERNELS=kernels).stdout)
            check([row["output"] for row in report] == list(bounds), f"outputs {[row['output'] for row in report]}")
            for row in report:
                # A plan that keeps hidden rows for a draft layer norms them all, another one the last of each call.
                expected = calls if row["output"] == "text/final_norm" and not how else len(tokens)
                check(row["rows"] == expected, f"{row['output']}: {row['rows']} rows, expected {expected}")
                bound = bounds[row["output"]]
                print(f"{' '.join(how) or 'chunks of 4'} {row['output']}: {row['worst']:.3g} <= {bound:.3g}")
                check(row["worst"] <= bound, f"{how} {row['output']} at {row['position']}: {row['worst']} > {bound}")
