#!/usr/bin/env python3
"""Writes image_prompts.json beside the checkpoints of test/vectors/hybrid that have a vision tower: logits of prompts that hold
images, by Hugging Face transformers in float64 (its own forward: tower, embeddings in place of placeholders, three-axis
positions, rope_deltas).

Needs torch, safetensors and transformers >= 5 with models/qwen3_5. usage: image_prompts.py [--out DIR] [NAME...]

  placeholder               the token id that stands for an image's embeddings; it is in no text
  prompts                   for each of them
    tokens                  the whole sequence, an image being as many placeholders as it has embeddings
    images                  of each: `first`, its first token; `grid`, rows and columns of patches; `image`, the number n of the
                            pattern of its pixels (hybrid_checkpoints.py)
    rope_delta              largest position + 1 - number of tokens, up to the last image and behind it
    positions, logits_f64   base64 of float64 [positions][vocab]: before images, at their ends, behind the last one
    library_f32_error       distance of the library's own float32 run (hybrid_checkpoints.py)
    draft_top, draft_margin (checkpoints with a draft layer) for every position but the last: the token with the largest
                            logit of the draft layer's row there, and how far the second is below, over the rms of the row
    next_top, next_margin   the same for the row behind it, made from that token and the layer's own last result
The same logits come out of the library one token at a time through its cache and rope_deltas (asserted, 1e-9).
"""
import argparse
import json
import os

import torch
import transformers
from safetensors.torch import load_file
from transformers import vision_utils

from hybrid_checkpoints import HERE, Draft, Lifted, dense, distance, in_float64, pack

PLACEHOLDER = 100
# Numbers are lengths of text, pairs are grids.
PROMPTS = {
    "vision": [[5, (6, 4), 9], [3, (2, 12), 2, (10, 8), 8], [(12, 2), 6]],
    "dense-vision-mtp": [[4, (3, 5), 10], [2, (1, 1), 3, (4, 4), 1, (3, 5), 9]],
}


def pixels(n, grid, width):
    i = torch.arange(grid[0] * grid[1] * width, dtype=torch.int64)
    return ((((7 * i * i + 31 * i + 13 * n) % 256).double() / 255 - 0.5) / 0.5).float().view(-1, width)


class Oracle:
    def __init__(self, folder):
        make = dense.Qwen3_5ForConditionalGeneration.from_pretrained
        self.model = make(folder, dtype=torch.float32, attn_implementation="eager").eval()
        self.model.config.image_token_id = PLACEHOLDER
        vision = self.vision = self.model.config.vision_config
        self.width = 3 * vision.temporal_patch_size * vision.patch_size ** 2
        self.draft = None
        stored = {k[4:]: v for k, v in load_file(os.path.join(folder, "model.safetensors")).items() if k.startswith("mtp.")}
        if stored:
            self.draft = Draft(dense, self.model.config.get_text_config()).float().eval()
            self.draft.load_state_dict({k: v.float() for k, v in stored.items()})

    def to_double(self):
        self.model.double()
        text, tower = self.model.model.language_model.rotary_emb, self.model.model.visual.rotary_pos_emb
        text.inv_freq = in_float64(dense, lambda: text.compute_default_rope_parameters(text.config)[0])
        tower.inv_freq = in_float64(dense, lambda: tower.compute_axial_rope_parameters(self.vision)[0])
        if self.draft:
            self.draft.double()

    def exactly(self, run):
        kept, vision_utils.torch = vision_utils.torch, Lifted()
        try:
            out = in_float64(dense, run)
        finally:
            vision_utils.torch = kept
        assert out.dtype == torch.float64
        return out

    def arguments(self, tokens, images, dtype):
        return dict(input_ids=torch.tensor([tokens]),
                    pixel_values=torch.cat([pixels(i["image"], i["grid"], self.width) for i in images]).to(dtype),
                    image_grid_thw=torch.tensor([[1, *i["grid"]] for i in images]),
                    mm_token_type_ids=torch.tensor([[int(t == PLACEHOLDER) for t in tokens]]))

    def step_by_step(self, tokens, images, prompt):
        """Logits of the tokens from `prompt` on, each a call of its own."""
        self.model.model.rope_deltas = None
        done = self.model(**self.arguments(tokens[:prompt], images, torch.float64), use_cache=True)
        rows = [done.logits[0, -1:]]
        for token in tokens[prompt:]:
            done = self.model(input_ids=torch.tensor([[token]]), past_key_values=done.past_key_values, use_cache=True)
            rows.append(done.logits[0])
        return torch.cat(rows)

    def drafts(self, tokens, images):
        """Rows of the draft layer over the shifted prompt, then for each the row behind it."""
        model, draft, count = self.model, self.draft, len(tokens)
        arguments = self.arguments(tokens, images, torch.float64)
        seen = []
        hook = model.model.language_model.register_forward_pre_hook(
            lambda module, args, kwargs: seen.append((kwargs["inputs_embeds"], kwargs["position_ids"])), with_kwargs=True)
        model.model.rope_deltas = None
        hidden = model.model(**arguments).last_hidden_state[0]
        hook.remove()
        (embeddings, positions), = seen
        embeddings, positions = embeddings[0], positions[:, 0]
        table, rotary = model.model.language_model.embed_tokens, model.model.language_model.rotary_emb

        def layer(hidden, embeddings, positions):
            rows = len(hidden)
            mask = torch.full((rows, rows), float("-inf"), dtype=hidden.dtype).triu(1)[None, None]
            u = draft.fc(torch.cat([draft.pre_fc_norm_embedding(embeddings), draft.pre_fc_norm_hidden(hidden)], -1))[None]
            u = draft.layers[0](u, position_embeddings=rotary(u, positions[:, None]), attention_mask=mask,
                                position_ids=positions[:1])
            return draft.norm((u[0] if isinstance(u, tuple) else u)[0])

        first = layer(hidden[:-1], embeddings[1:], positions[:, :-1])
        logits = model.lm_head(first)
        follow = []
        for t in range(count - 1):
            token = logits[t].argmax()
            behind = torch.cat([hidden[:t + 1], first[t:t + 1]]), torch.cat([embeddings[1:t + 2], table(token[None])])
            follow.append(model.lm_head(layer(*behind, positions[:, :t + 2]))[-1])
        return torch.stack([logits, torch.stack(follow)])


def margins(rows):
    top = rows.topk(2, -1).values
    return ((top[:, 0] - top[:, 1]) / rows.pow(2).mean(-1).sqrt()).tolist()


def make(name, out):
    folder = os.path.join(out, name)
    merge = Oracle(folder).vision.spatial_merge_size
    vocabulary, prompts = 128, []
    for spans in PROMPTS[name]:
        tokens, images = [], []
        for span in spans:
            if isinstance(span, int):
                text = [(i * i * 7 + i * 31 + 5) % vocabulary for i in range(len(tokens), len(tokens) + span)]
                tokens += [t if t != PLACEHOLDER else 1 for t in text]
            else:
                images.append(dict(first=len(tokens), grid=list(span), image=len(images)))
                tokens += [PLACEHOLDER] * (span[0] * span[1] // merge ** 2)
        oracle, behind = Oracle(folder), len(tokens) - spans[-1] + 1
        with torch.no_grad():
            plain = oracle.model(**oracle.arguments(tokens, images, torch.float32)).logits[0]
            oracle.to_double()

            def run():
                oracle.model.model.rope_deltas = None
                return oracle.model(**oracle.arguments(tokens, images, torch.float64)).logits[0]

            exact = oracle.exactly(run)
            delta = int(oracle.model.model.rope_deltas[0])
            steps = oracle.exactly(lambda: oracle.step_by_step(tokens, images, behind))
            assert distance(steps, exact[behind - 1:]) < 1e-9
            # Before and at the end of images, and the text behind the last one.
            ends = [i["first"] + i["grid"][0] * i["grid"][1] // merge ** 2 - 1 for i in images]
            positions = sorted({i["first"] - 1 for i in images if i["first"]} | set(ends) | set(range(behind - 1, len(tokens))))
            stored = dict(tokens=tokens, images=images, rope_delta=delta, positions=positions, logits_f64=pack(exact[positions]),
                          library_f32_error=distance(plain, exact))
            if oracle.draft:
                rows = oracle.exactly(lambda: oracle.drafts(tokens, images))
                for which, values in zip(("draft", "next"), rows):
                    stored[which + "_top"] = values.argmax(-1).tolist()
                    stored[which + "_margin"] = [round(m, 6) for m in margins(values)]
        prompts.append(stored)
        print(f"{name}: {len(tokens)} tokens, {len(images)} images, rope_delta {delta}; library f32 {stored['library_f32_error']:.3g}")
    stored = dict(transformers=transformers.__version__, torch=torch.__version__, placeholder=PLACEHOLDER, prompts=prompts)
    with open(os.path.join(folder, "image_prompts.json"), "w") as f:
        json.dump(stored, f, separators=(",", ":"))
        f.write("\n")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", default=os.path.join(HERE, "..", "vectors", "hybrid"))
    ap.add_argument("names", nargs="*", default=list(PROMPTS))
    args = ap.parse_args()
    torch.set_num_threads(1)
    for name in args.names:
        make(name, args.out)


if __name__ == "__main__":
    main()
