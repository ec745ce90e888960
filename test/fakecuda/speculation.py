"""Speculative decoding of CUDA plans on the fake driver: what the phases compute, against exact logits, and that the answers are
those of plain decoding. Cases of fakecuda.py."""
import array
import base64
import json
import os
import re
import struct

import corpus
from e2e import check, distance

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FIXTURES = os.path.join(ROOT, "test", "conformance", "fixtures")
DEMO = os.path.join(ROOT, "examples", "hybrid-demo", "hybrid-demo-w8.ninfer")
DECODE, VERIFY, DRAFT = range(3)
NAMES = "decode", "verify", "draft"


def probe(case, plan, kernels, model, target, tokens, rows, accepts):
    """Logits by kind and position of a scripted run (DraftProbe.cpp): {(kind, position): [rows of logits, one per visit]}."""
    done = case.run(os.path.join(case.args.tiny, "draft_probe"), plan, model, target, ",".join(map(str, tokens)), rows,
                    ",".join(map(str, accepts)), NINFER_FAKECUDA_KERNELS=kernels)
    out, at = {}, 0
    while at < len(done.stdout):
        kind, position, count = struct.unpack_from("<3i", done.stdout, at)
        out.setdefault((kind, position), []).append(array.array("f", done.stdout[at + 12:at + 12 + 4 * count]))
        at += 12 + 4 * count
    return out


def compare(visits, kind, exact, bounds, most_bound):
    """Every visited row that has exact logits: at most its bound, and the exact row's most likely token where that leads by more than
    the two errors. Returns the number of rows and the largest share of a bound."""
    worst = count = 0
    for (k, position), rows in visits.items():
        if k != kind or position not in exact:
            continue
        want, bound = exact[position], bounds.get(position, most_bound)
        rms = (sum(x * x for x in want) / len(want)) ** .5
        for row in rows:
            d = distance(row, want)
            check(d <= bound, f"{NAMES[kind]} position {position}: {d:.3g} > {bound:.3g}")
            best, second = sorted(want)[-1], sorted(want)[-2]
            check(best - second <= 2 * bound * rms or row[want.index(best)] == max(row), f"{NAMES[kind]} position {position}: argmax")
            worst, count = max(worst, d / bound), count + 1
    return count, worst


def golden(case, yardsticks):
    """The golden hybrid artifact, whose draft layer has an indexed head: decode, verify after every way of accepting, draft. Bounds
    as for every logit: multiples of the error of the same model with BF16 operators, here the largest of its nine rows."""
    model = os.path.join(FIXTURES, "v3_single.ninfer")
    vectors = json.load(open(os.path.join(FIXTURES, "v3_single_forward.json")))
    plan, kernels = case.build_model(model, "--spec", "mtp", "--draft-tokens", 3, "--max-context", 32, "--prefill-chunk", 9)
    exact, bounds = {}, {}
    for trace in ("logits", "mtp_logits_proposal"):
        rows, width = vectors["oracle_f64"][trace]["shape"]
        want, rounded = (vectors[name][trace]["data"] for name in ("oracle_f64", "reference_bf16_ops"))
        exact[trace] = {r: want[r * width:(r + 1) * width] for r in range(rows)}
        bounds[trace] = yardsticks * max(distance(rounded[r * width:(r + 1) * width], exact[trace][r]) for r in range(rows))
    for rows, accepts in ((4, (4,)), (3, (2, 0, 1, 3)), (2, (1,))):
        visits = probe(case, plan, kernels, model, "cuda", vectors["ids"], rows, accepts)
        for kind, trace in ((DECODE, "logits"), (VERIFY, "logits"), (DRAFT, "mtp_logits_proposal")):
            count, worst = compare(visits, kind, exact[trace], {}, bounds[trace])
            check(count > 0, f"no {NAMES[kind]} row")
            print(f"golden, {rows} rows, accepted {accepts}: {count} {NAMES[kind]} rows, at most {worst * yardsticks:.2f} times the "
                  "BF16 operators")


def verified_logits(case, stored, yardsticks):
    """The random hybrid of logits-hybrid with a draft layer: its text model is the same, and so are the exact logits and the bounds,
    for every row that is verified at a stored position."""
    exact = array.array("f", base64.b64decode(stored["logits"]))
    vocab = len(exact) // len(stored["positions"])
    exact = {p: exact[i * vocab:(i + 1) * vocab] for i, p in enumerate(stored["positions"])}
    bounds = {p: yardsticks * stored["bf16_operators"][i] for i, p in enumerate(stored["positions"])}
    plan, kernels = case.build("hybrid-mtp", "--spec", "mtp", "--draft-tokens", 4, "--prefill-chunk", 32)
    for rows, accepts in ((5, (5,)), (5, (1, 3, 0, 2)), (2, (2, 1))):
        visits = probe(case, plan, kernels, case.model("hybrid-mtp"), "cuda", stored["tokens"], rows, accepts)
        count, worst = compare(visits, VERIFY, exact, bounds, 0)
        check(count >= 4, f"{count} verified rows at stored positions")
        print(f"hybrid-mtp, {rows} rows, accepted {accepts}: {count} rows, at most {worst * yardsticks:.2f} times the BF16 operators")


def drafts(done):
    told = re.search(rb"drafts +(\d+) rounds, (\d+) drafted, (\d+) accepted, ([0-9.]+) tokens per round", done.stderr)
    return [float(x) for x in told.groups()]


def answers(case, plan, kernels, model, depths, tokens, prompt):
    """Greedy answers at every depth, beside plain decoding of the same plan. The draft counts of each depth."""
    command = [case.tool("ninfer-exec"), plan, "-m", model, "--target", "cuda", "--ids", "--ignore-eos", "-n", tokens, *prompt]
    plain = case.run(*command, "--spec", "off", NINFER_FAKECUDA_KERNELS=kernels).stdout
    check(len(plain.split()) == tokens, f"{len(plain.split())} tokens")
    counts = []
    for depth in depths:
        done = case.run(*command, "--draft-tokens", depth, "--stats", NINFER_FAKECUDA_KERNELS=kernels)
        check(done.stdout == plain, f"{depth} drafts per round give another answer:\n{done.stdout.split()}\n{plain.split()}")
        check(b"live: device 0, host 0, modules 0, streams 0, events 0, graphs 0, contexts 0" in done.stderr, done.stderr.decode())
        counts.append(drafts(done))
        print(f"{os.path.basename(model)}, {depth} drafts per round: {counts[-1]}")
    return plain, counts


def speculative_demo(case):
    """The trained draft layer: answers of plain decoding. In a conversation, whose answers are those of the reference target, as many
    drafts are accepted as there: a draft layer that computed something else would be refused more often."""
    plan, kernels = case.build_model(DEMO, "--spec", "mtp", "--draft-tokens", 3, "--max-context", 512)
    answers(case, plan, kernels, DEMO, (1, 3), 60, ["-p", "What is 12 plus 30?"])
    # Graphs: one of decode and draft_next, up to four of verify, commit and draft by rows, one of the draft behind the prompt; 5 kinds at least.
    for capture, code in ((5, 1), (16, 0)):
        case.run(case.tool("ninfer-exec"), plan, "-m", DEMO, "--target", "cuda", "-p", "What is 12 plus 30?", "-n", 40, "--ignore-eos",
                 "--draft-tokens", 3, code=code, NINFER_FAKECUDA_KERNELS=kernels,
                 NINFER_FAKECUDA_FAIL=f"cuStreamBeginCapture:{capture}:719")
    questions = "".join(f"{question}\n/clear\n" for question, _ in corpus.test_set(3)).encode()
    chat = [case.tool("ninfer-exec"), "chat", plan, "-m", DEMO, "--draft-tokens", 3, "--stats", "--target"]
    want = case.run(*chat, "reference", input=questions)
    got = case.run(*chat, "cuda", input=questions, NINFER_FAKECUDA_KERNELS=kernels)
    check(want.stdout and got.stdout == want.stdout, f"{got.stdout} instead of {want.stdout}")
    check(drafts(got) == drafts(want), f"drafts {drafts(got)}, on the reference target {drafts(want)}")
    print(f"three questions: {drafts(got)}")


def speculative_random(case, recipe):
    """A random model, whose drafts are nearly all refused: every round drops rows that were verified."""
    plan, kernels = case.build(recipe, "--spec", "mtp", "--draft-tokens", 3, "--prefill-chunk", 32)
    answers(case, plan, kernels, case.model(recipe), (1, 3), 48, ["--tokens", "11,48,85,122,159"])
