#!/usr/bin/env python3
"""Tiny random checkpoints of the hybrid family, saved and evaluated by Hugging Face transformers, for test/vectors/hybrid.

Needs torch, safetensors and transformers >= 5 with models/qwen3_5 and models/qwen3_5_moe (made with the versions in each logits.json).
usage: hybrid_checkpoints.py [--out DIR] [NAME...]

Each folder DIR/NAME holds config.json and model.safetensors as save_pretrained writes them, and logits.json:
  tokens, positions         the prompt, and the positions whose logits are stored
  logits_f64                base64 of little-endian float64 [positions][vocab]: the library's code with its internal casts to
                            float32 lifted to float64 (rotary frequencies too), so what differs from it is rounding alone
  library_f32_error         distance of the library's own float32 run from that, as below
  library_f32_step_error    the same, evaluated one token at a time through its cache
  mtp_logits_f64            (checkpoints with a draft layer) [tokens-1][vocab]. The library reads no draft layer: these come from its
                            decoder layer, norm and embedding modules joined as test/vectors/hybrid/README.md says
Checkpoints with a vision tower also hold embeddings.json: for each of `images`
  grid                      rows and columns of patches; element i of all its patches together is the byte
                            (7 i^2 + 31 i + 13 n) mod 256 of image n, normalised as (b / 255 - 0.5) / 0.5 in float32
  embeddings_f64            base64 of float64 [patches / merge^2][hidden] behind the merger, computed as the logits are
  library_f32_error         distance of the library's own float32 run
Distance: max over positions of max |difference| / rms of the exact logits of that position.
Weights are bfloat16 values (A_log and dt_bias binary32 where the folder says so): recipe bf16 keeps every word.
"""
import argparse
import base64
import json
import os
import shutil
import types

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import vision_utils
from transformers.models.qwen3_5 import modeling_qwen3_5 as dense
from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe as moe

HERE = os.path.dirname(os.path.abspath(__file__))

TEXT = dict(vocab_size=128, hidden_size=64, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, head_dim=32,
            max_position_embeddings=512, linear_num_key_heads=2, linear_key_head_dim=16, linear_num_value_heads=4,
            linear_value_head_dim=16, linear_conv_kernel_dim=4, bos_token_id=None, eos_token_id=2)
ROPE = dict(rope_type="default", rope_theta=10000000.0, partial_rotary_factor=0.25, mrope_section=[2, 1, 1], mrope_interleaved=True)
# Other numbers everywhere: three value heads per key head, dk != dv, three taps, half of the head rotates, the full layer first.
OTHER = dict(TEXT, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, head_dim=16, intermediate_size=48,
             linear_num_key_heads=1, linear_key_head_dim=32, linear_num_value_heads=3, linear_value_head_dim=16,
             linear_conv_kernel_dim=3, rms_norm_eps=1e-5,
             layer_types=["full_attention", "linear_attention", "linear_attention"])
OTHER_ROPE = dict(ROPE, rope_theta=10000.0, partial_rotary_factor=0.5)
VISION = dict(depth=1, hidden_size=16, intermediate_size=32, num_heads=2, patch_size=4, spatial_merge_size=1,
              num_position_embeddings=16, out_hidden_size=64)
# Two merged squares per side at least, three heads of 12 (three pairs per axis), a table whose side is odd.
TOWER = dict(depth=2, hidden_size=36, intermediate_size=44, num_heads=3, patch_size=4, spatial_merge_size=2,
             num_position_embeddings=49, out_hidden_size=32)
SMALL = dict(TEXT, hidden_size=32, num_hidden_layers=1, layer_types=["full_attention"], intermediate_size=32)
GRIDS = {"vision": [(2, 2), (2, 12), (12, 2), (6, 4), (10, 8), (4, 14)], "dense-vision-mtp": [(1, 1), (3, 5), (4, 4)]}
MOE = dict(TEXT, num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"], num_attention_heads=4,
           num_key_value_heads=2, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=16)

# name: library module, model class, config class, config, wide decay terms, draft layer. With a draft layer experts are stored in
# banks, as published checkpoints do; without one as save_pretrained writes them, every expert for itself.
CASES = {
    "dense-tied": (dense, "Qwen3_5ForCausalLM", "Qwen3_5TextConfig",
                   dict(TEXT, intermediate_size=64, tie_word_embeddings=True, rope_parameters=ROPE), False, False),
    "dense-vision-mtp": (dense, "Qwen3_5ForConditionalGeneration", "Qwen3_5Config",
                         dict(tie_word_embeddings=False, text_config=dict(OTHER, tie_word_embeddings=False, rope_parameters=OTHER_ROPE),
                              vision_config=VISION), True, True),
    "moe": (moe, "Qwen3_5MoeForCausalLM", "Qwen3_5MoeTextConfig",
            dict(MOE, tie_word_embeddings=False, rope_parameters=ROPE), True, False),
    "moe-mtp": (moe, "Qwen3_5MoeForCausalLM", "Qwen3_5MoeTextConfig",
                dict(MOE, num_hidden_layers=2, layer_types=["linear_attention", "full_attention"], num_experts=3,
                     tie_word_embeddings=True, rope_parameters=ROPE), False, True),
}
CASES["vision"] = (dense, "Qwen3_5ForConditionalGeneration", "Qwen3_5Config",
                   dict(tie_word_embeddings=True, text_config=dict(SMALL, tie_word_embeddings=True, rope_parameters=ROPE),
                        vision_config=TOWER), False, False)
TOKENS = {"dense-tied": 70}


def fill(named, generator, wide):
    """Random weights of a size that makes every term of the formulas count; bfloat16 values."""
    for name, p in named:
        normal = torch.randn(p.shape, generator=generator)
        if name.endswith("A_log"):
            value = torch.log(0.01 + 4 * torch.rand(p.shape, generator=generator))
        elif name.endswith("dt_bias"):
            value = normal
        elif name.endswith("linear_attn.norm.weight"):
            value = 1 + 0.3 * normal
        elif name.endswith("conv1d.weight"):
            value = 0.6 * normal
        elif p.dim() == 1:
            value = 0.3 * normal
        elif name.endswith("embed_tokens.weight"):
            value = normal
        else:
            value = normal / p.shape[-1] ** 0.5
        if not (wide and name.endswith(("A_log", "dt_bias"))):
            value = value.to(torch.bfloat16).float()
        p.data.copy_(value)


class Lifted:
    """The torch module with float32 standing for float64."""
    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def in_float64(module, run):
    """run() with the library module's casts to float32 made casts to float64."""
    tensor_float, softmax = torch.Tensor.float, torch.nn.functional.softmax
    lifted = Lifted()
    lifted.nn = types.SimpleNamespace(**{k: getattr(torch.nn, k) for k in dir(torch.nn)})
    functional = types.SimpleNamespace(**{k: getattr(torch.nn.functional, k) for k in dir(torch.nn.functional)})
    functional.softmax = lambda x, dim=None, dtype=None, **kw: softmax(x, dim=dim, dtype=torch.float64)
    lifted.nn.functional = functional
    kept = module.torch, module.nn, module.F
    try:
        module.torch, module.nn, module.F = lifted, lifted.nn, functional
        torch.Tensor.float = torch.Tensor.double
        return run()
    finally:
        module.torch, module.nn, module.F = kept
        torch.Tensor.float = tensor_float


def make_embeddings(name, out):
    """embeddings.json of a checkpoint that is there."""
    folder = os.path.join(out, name)
    tower = dense.Qwen3_5ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    tower = tower.model.visual.eval()
    config, images = tower.config, []
    width = 3 * config.temporal_patch_size * config.patch_size ** 2

    def run(patches, grid):
        return tower(hidden_states=patches, grid_thw=torch.tensor([[1, *grid]])).pooler_output

    with torch.no_grad():
        inputs, plain = [], []
        for n, (height, columns) in enumerate(GRIDS[name]):
            i = torch.arange(height * columns * width, dtype=torch.int64)
            pixels = ((7 * i * i + 31 * i + 13 * n) % 256).double()
            inputs.append(((pixels / 255 - 0.5) / 0.5).float().view(-1, width))
            plain.append(run(inputs[-1], (height, columns)))
        tower.double()
        rotary = tower.rotary_pos_emb
        rotary.inv_freq = in_float64(dense, lambda: rotary.compute_axial_rope_parameters(config)[0])
        assert rotary.inv_freq.dtype == torch.float64
        for grid, patches, float32 in zip(GRIDS[name], inputs, plain):
            kept, vision_utils.torch = vision_utils.torch, Lifted()
            try:
                exact = in_float64(dense, lambda: run(patches.double(), grid))
            finally:
                vision_utils.torch = kept
            assert exact.dtype == torch.float64
            images.append(dict(grid=list(grid), embeddings_f64=pack(exact), library_f32_error=distance(float32, exact)))
    stored = dict(transformers=transformers.__version__, torch=torch.__version__, images=images)
    json.dump(stored, open(os.path.join(folder, "embeddings.json"), "w"), indent=0)
    print(f"{name}: embeddings of {len(images)} images; library f32 {max(i['library_f32_error'] for i in images):.3g}")


def distance(got, exact):
    scale = exact.pow(2).mean(-1).sqrt()
    return float(((got.double() - exact).abs().amax(-1) / scale).max())


def pack(values):
    return base64.b64encode(values.double().contiguous().numpy().astype("<f8").tobytes()).decode()


class Draft(torch.nn.Module):
    """The draft layer out of the library's own modules."""

    def __init__(self, module, text):
        super().__init__()
        prefix = "Qwen3_5Moe" if module is moe else "Qwen3_5"
        norm, layer = getattr(module, prefix + "RMSNorm"), getattr(module, prefix + "DecoderLayer")
        one = type(text)(**{**text.to_dict(), "num_hidden_layers": 1, "layer_types": ["full_attention"]})
        one._attn_implementation = one._experts_implementation = "eager"
        self.fc = torch.nn.Linear(2 * text.hidden_size, text.hidden_size, bias=False)
        self.pre_fc_norm_embedding = norm(text.hidden_size, eps=text.rms_norm_eps)
        self.pre_fc_norm_hidden = norm(text.hidden_size, eps=text.rms_norm_eps)
        self.layers = torch.nn.ModuleList([layer(one, 0)])
        self.norm = norm(text.hidden_size, eps=text.rms_norm_eps)

    def forward(self, hidden, embeddings, rotary, head):
        """Final hidden states of the target at 0..T-2 and embeddings of the tokens at 1..T-1."""
        rows = hidden.shape[1]
        positions = torch.arange(rows)[None]
        mask = torch.full((rows, rows), float("-inf"), dtype=hidden.dtype).triu(1)[None, None]
        u = self.fc(torch.cat([self.pre_fc_norm_embedding(embeddings), self.pre_fc_norm_hidden(hidden)], -1))
        u = self.layers[0](u, position_embeddings=rotary(u, positions), attention_mask=mask, position_ids=positions)
        return head(self.norm(u[0] if isinstance(u, tuple) else u))[0]


def make(name, out):
    module, model_class, config_class, config, wide, draft = CASES[name]
    config = getattr(__import__(module.__name__, fromlist=["x"]), config_class)(**config)
    config._attn_implementation = config._experts_implementation = "eager"
    config.get_text_config()._experts_implementation = "eager"
    model = getattr(module, model_class)(config).float().eval()
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    fill(model.named_parameters(), generator, wide)
    model.tie_weights()
    text = config.get_text_config()
    language = model.model.language_model if hasattr(model.model, "language_model") else model.model
    mtp = Draft(module, text).float().eval() if draft else None
    if mtp:
        fill([("mtp." + k, p) for k, p in mtp.named_parameters()], generator, wide)

    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    for extra in ("generation_config.json",):
        if os.path.exists(os.path.join(folder, extra)):
            os.unlink(os.path.join(folder, extra))
    path = os.path.join(folder, "model.safetensors")
    tensors = load_file(path)
    if mtp:
        tensors = {k: p.data for k, p in model.named_parameters()}
        tensors.update({"mtp." + k: p.data for k, p in mtp.named_parameters()})
    narrow = lambda k, t: t.float() if wide and k.endswith(("A_log", "dt_bias")) else t.to(torch.bfloat16)
    save_file({k: narrow(k, t).contiguous() for k, t in tensors.items()}, path, metadata={"format": "pt"})
    if mtp:
        config_path = os.path.join(folder, "config.json")
        saved = json.load(open(config_path))
        saved.get("text_config", saved).update(mtp_num_hidden_layers=1, mtp_use_dedicated_embeddings=False)
        json.dump(saved, open(config_path, "w"), indent=2, sort_keys=True)

    count = TOKENS.get(name, 24)
    tokens = [(i * i * 7 + i * 31 + 5) % text.vocab_size for i in range(count)]
    positions = sorted({*range(8), 15, 16, 23, *(p for p in (31, 63, 64, 65, 69) if p < count)})
    ids = torch.tensor([tokens])
    with torch.no_grad():
        plain = model(input_ids=ids).logits[0]
        past, steps = None, []
        for t in range(count):
            done = model(input_ids=ids[:, t:t + 1], past_key_values=past, use_cache=True)
            past = done.past_key_values
            steps.append(done.logits[0, -1])
        model.double()
        rotary = language.rotary_emb
        rotary.inv_freq = in_float64(module, lambda: rotary.compute_default_rope_parameters(rotary.config)[0])
        exact = in_float64(module, lambda: model(input_ids=ids).logits[0])
        assert rotary.inv_freq.dtype == torch.float64
        assert exact.dtype == torch.float64
        stored = dict(model=model_class, transformers=transformers.__version__, torch=torch.__version__, tokens=tokens,
                      positions=positions, logits_f64=pack(exact[positions]), library_f32_error=distance(plain, exact),
                      library_f32_step_error=distance(torch.stack(steps), exact))
        if mtp:
            mtp.double()
            run = lambda: mtp(language(input_ids=ids).last_hidden_state[:, :-1], language.embed_tokens(ids[:, 1:]), rotary,
                              model.lm_head)
            stored["mtp_logits_f64"] = pack(in_float64(module, run))
    json.dump(stored, open(os.path.join(folder, "logits.json"), "w"), indent=0)
    print(f"{name}: {os.path.getsize(path)} bytes, {len(tensors)} tensors; library f32 {stored['library_f32_error']:.3g}, "
          f"steps {stored['library_f32_step_error']:.3g}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", default=os.path.join(HERE, "..", "vectors", "hybrid"))
    ap.add_argument("--embeddings-only", action="store_true", help="leave the checkpoints as they are")
    ap.add_argument("names", nargs="*", default=list(CASES))
    args = ap.parse_args()
    torch.set_num_threads(1)
    for name in args.names:
        if not args.embeddings_only:
            make(name, args.out)
        if name in GRIDS:
            make_embeddings(name, args.out)


if __name__ == "__main__":
    main()
