#!/usr/bin/env python3
"""Writes the checkpoints under test/vectors/quantized with the real quantization libraries.

Every folder holds what the library wrote for a one-layer Llama with seeded random weights (config.json, side files,
model.safetensors; or model.gguf) and expected.json: per tensor the SHA-256 of its codes, of its scales, and of the
values the library itself gives back for the file. Nothing here shares code with convert/.

    pip install llmcompressor                              # one environment: compressed-tensors
    pip install nvidia-modelopt auto-round gptqmodel gguf  # another: the rest (the pins of the two do not agree)
    GPTQMODEL_CPU_WORKERS=4 python3 test/oracle/quantized_checkpoints.py METHOD...     (or: list)

expected.json, per tensor: `codes` signed bytes [N,K] (integers), E2M1 words one per byte (NVFP4) or E4M3FN words (FP8);
`scales` binary32 in the order [N, groups of the source]; `values` [N,K] in `dtype`, negative zeros made positive.
"""
import copy
import hashlib
import importlib.metadata
import json
import os
import pathlib
import shutil
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent / "vectors" / "quantized"
LINEARS = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj",
           "mlp.down_proj"]
NAMES = ["model.layers.0." + name for name in LINEARS]
HIDDEN, VOCABULARY = 128, 32
torch.set_num_threads(1)


# --- the model --------------------------------------------------------------------------------------------------------

def intermediate(kind):
    """256 rows and columns for 4 bit codes, 192 for 8 bit ones, which keeps the files small."""
    return 256 if kind == "normal" else 192


def base_model(kind, dtype=torch.bfloat16):
    """kind "normal" and "small" (8 bit codes): normal weights; "row": the largest magnitude of every row is 448 times a short BF16 number, so an FP8 scale of a
    row (or of the tensor) fits BF16; "positive": in every group of 32 the largest magnitude is positive and well above
    the others, so no int8 code is -128."""
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=HIDDEN, intermediate_size=intermediate(kind), num_hidden_layers=1,
                         num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=256,
                         tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, architectures=["LlamaForCausalLM"])
    model = LlamaForCausalLM(config)
    random = np.random.default_rng(20250729)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            continue
        w = random.normal(0, 0.05, parameter.shape).astype(np.float32)
        if kind == "row" and "layers" in name:
            w = np.clip(w, -0.1, 0.1)
            for n in range(w.shape[0]):
                w[n, n % w.shape[1]] = 448 * 2.0 ** -12 * (8 + n % 8) / 8
        if kind == "positive" and "layers" in name:
            groups = w.reshape(-1, 32)
            top = np.abs(groups).max(1)
            groups[:] = np.clip(groups, -0.9 * top[:, None], None)
            groups[np.arange(len(groups)), np.arange(len(groups)) % 32] = 1.0625 * top
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(w).to(torch.bfloat16).float())
    return model.to(dtype).eval()


def tokenizer():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    words = Tokenizer(models.WordLevel({f"t{i}": i for i in range(VOCABULARY)}, unk_token="t0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="t0", bos_token="t1", eos_token="t2", pad_token="t3")


def calibration():
    random = np.random.default_rng(7)
    return [[int(t) for t in random.integers(4, VOCABULARY, 128)] for _ in range(8)]


# --- output -----------------------------------------------------------------------------------------------------------

def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def entry(codes, scales, values, **more):
    values = (values + torch.zeros((), dtype=values.dtype)).contiguous()  # -0 + 0 = +0
    dtype = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}[values.dtype]
    words = values.view(torch.int32 if dtype == "float32" else torch.int16).numpy()
    return dict(shape=list(values.shape), codes=digest(codes), scales=digest(np.asarray(scales, np.float32)), dtype=dtype,
                values=digest(words), **more)


def publish(method, source, tensors, tool, packages, note=""):
    """Copies the files the library wrote (no tokenizer) and writes expected.json."""
    target = ROOT / method
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for file in sorted(pathlib.Path(source).iterdir()):
        if file.name in ("config.json", "hf_quant_config.json", "quantize_config.json", "quantization_config.json",
                         "model.safetensors", "model.gguf"):
            shutil.copyfile(file, target / file.name)
    expected = dict(tool=tool, versions={p: importlib.metadata.version(p) for p in packages}, tensors=tensors)
    if note:
        expected["note"] = note
    (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    total = sum(f.stat().st_size for f in target.iterdir())
    print(f"{method}: {total} bytes, {len(tensors)} tensors")


def read_all(folder):
    from safetensors.torch import load_file
    return load_file(str(pathlib.Path(folder) / "model.safetensors"))


def split_nibbles(packed):
    low, high = packed & 15, packed >> 4
    return np.stack([low, high], -1).reshape(packed.shape[0], -1)


# --- compressed-tensors -----------------------------------------------------------------------------------------------

def compressed_tensors(method, kind, work, **modifier):
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32
    from compressed_tensors.quantization import QuantizationConfig
    from compressed_tensors.quantization.lifecycle.forward import dequantize
    from datasets import Dataset
    from llmcompressor import oneshot
    from llmcompressor.modifiers.quantization import QuantizationModifier
    from transformers import AutoModelForCausalLM
    base_model(kind).save_pretrained(work / "base")
    tokenizer().save_pretrained(work / "base")
    model = AutoModelForCausalLM.from_pretrained(work / "base", dtype=torch.bfloat16)
    data = {}
    if modifier.get("scheme") == "NVFP4":
        rows = calibration()
        data = dict(dataset=Dataset.from_dict({"input_ids": rows, "attention_mask": [[1] * 128] * len(rows)}),
                    max_seq_length=128, num_calibration_samples=len(rows), tokenizer=tokenizer())
    oneshot(model=model, recipe=QuantizationModifier(ignore=["lm_head"], **modifier), **data)
    model.save_pretrained(work / "out", save_compressed=True)

    written = json.loads((work / "out" / "config.json").read_text())["quantization_config"]
    scheme = next(iter(QuantizationConfig.model_validate(written).config_groups.values()))
    format_name = written["config_groups"]["group_0"].get("format") or written["format"]
    tensors, all_tensors = {}, read_all(work / "out")
    for name in NAMES:
        state = {k[len(name) + 1:]: v for k, v in all_tensors.items() if k.startswith(name + ".")}
        own = BaseCompressor.get_value_from_registry(format_name).decompress(dict(state), scheme)["weight"]
        scale, more = state["weight_scale"].float(), {}
        if "weight_global_scale" in state:
            packed = state["weight_packed"]
            codes = split_nibbles(packed.numpy())
            values = dequantize(x_q=unpack_fp4_from_uint8(packed, packed.shape[0], packed.shape[1] * 2).float(), scale=scale,
                                global_scale=state["weight_global_scale"].float(), args=scheme.weights, dtype=torch.float32)
        elif "weight_packed" in state:
            shape = torch.Size(state["weight_shape"].tolist())
            unpacked = unpack_from_int32(state["weight_packed"], scheme.weights.num_bits, shape)
            codes = unpacked.numpy()
            values = dequantize(x_q=unpacked, scale=scale, args=scheme.weights, dtype=torch.float32)
        else:
            codes = state["weight"].view(torch.uint8).numpy()
            values = dequantize(x_q=state["weight"], scale=scale, args=scheme.weights, dtype=torch.float32)
        if "input_global_scale" in state:
            more["input_global_scale"] = float(state["input_global_scale"])
        own = (own + torch.zeros((), dtype=own.dtype)).contiguous()
        more["decompressed"] = dict(dtype=str(own.dtype).split(".")[1],
                                    sha256=digest(own.view(torch.int32 if own.dtype == torch.float32 else torch.int16).numpy()))
        tensors[name + ".weight"] = entry(codes, scale.reshape(scale.shape[0], -1).numpy(), values, **more)
    publish(method, work / "out", tensors, "llmcompressor oneshot, save_pretrained(save_compressed=True)",
            ["llmcompressor", "compressed-tensors", "transformers", "torch", "safetensors"])


def grouped(bits, group):
    return {"group_0": {"targets": ["Linear"], "weights": {"num_bits": bits, "type": "int", "symmetric": True,
                                                           "strategy": "group", "group_size": group}}}


# --- GPTQ and AutoRound -----------------------------------------------------------------------------------------------

def gptq_words(tensors, name, bits):
    """Codes [N,K] with the zero point 2^(bits-1) taken off, scales [N,groups]."""
    words = tensors[name + ".qweight"].numpy().view(np.uint32)
    per = 32 // bits
    codes = np.stack([(words >> (bits * i)) & ((1 << bits) - 1) for i in range(per)], 1).reshape(-1, words.shape[1])
    return (codes.T.astype(np.int16) - (1 << (bits - 1))).astype(np.int8), tensors[name + ".scales"].float().T.numpy()


def gptq(method, kind, work, bits, group, label):
    from gptqmodel import BACKEND, GPTQModel, QuantizeConfig
    base_model(kind, torch.float16).save_pretrained(work / "base")
    tokenizer().save_pretrained(work / "base")
    config = QuantizeConfig(bits=bits, group_size=group, sym=True, desc_act=False, act_group_aware=False, format=label,
                            offload_to_disk=False)
    model = GPTQModel.load(str(work / "base"), config)
    model.quantize([{"input_ids": row, "attention_mask": [1] * len(row)} for row in calibration()], batch_size=1)
    model.save(str(work / "out"))
    loaded = GPTQModel.load(str(work / "out"), dtype=torch.float16, backend=BACKEND.GPTQ_TORCH if hasattr(BACKEND, "GPTQ_TORCH") else BACKEND.TORCH,
                            device="cpu")
    modules, tensors, result = dict(loaded.model.named_modules()), read_all(work / "out"), {}
    for name in NAMES:
        values = modules[name].dequantize_weight().detach().T.contiguous()
        codes, scales = gptq_words(tensors, name, bits)
        result[name + ".weight"] = entry(codes, scales, values)
    publish(method, work / "out", result, "GPTQModel.quantize and save; values: TorchLinear.dequantize_weight of the loaded file",
            ["gptqmodel", "transformers", "torch", "safetensors"])


def auto_round(method, kind, work, group, export):
    from auto_round import AutoRound
    from auto_round_extension.torch.qlinear_torch_zp import QuantLinear
    model = base_model(kind, torch.float16)
    AutoRound(model, tokenizer(), scheme="W4A16", iters=0, disable_opt_rtn=True, group_size=group, sym=True,
              device_map="cpu").quantize_and_save(str(work / "out"), format=export)
    folder = next((work / "out").rglob("model.safetensors")).parent
    tensors, result, negative = read_all(folder), {}, 0
    for name in NAMES:
        n, k = tensors[name + ".qweight"].shape[1], tensors[name + ".qweight"].shape[0] * 8
        layer = QuantLinear(4, group, k, n, bias=False)
        layer.load_state_dict({part: tensors[f"{name}.{part}"] for part in ("qweight", "qzeros", "scales")})
        values = layer(torch.eye(k)).T.to(torch.float16).contiguous()
        codes, scales = gptq_words(tensors, name, 4)
        negative += int((scales < 0).sum())
        result[name + ".weight"] = entry(codes, scales, values, negative_scales=int((scales < 0).sum()))
    publish(method, folder, result, f"AutoRound.quantize_and_save(format={export!r}); values: its QuantLinear on a unit matrix",
            ["auto-round", "transformers", "torch", "safetensors"], note=f"{negative} scales are negative")


# --- ModelOpt ---------------------------------------------------------------------------------------------------------

def modelopt(method, kind, work, config_name):
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint
    from modelopt.torch.quantization.qtensor import FP8QTensor, NVFP4QTensor
    model = base_model(kind)
    rows = torch.tensor(calibration())
    model = mtq.quantize(model, copy.deepcopy(getattr(mtq, config_name)), lambda m: m(rows))
    export_hf_checkpoint(model, export_dir=str(work / "out"))
    tensors, result = read_all(work / "out"), {}
    for name in NAMES:
        weight, scale, more = tensors[name + ".weight"], tensors[name + ".weight_scale"], {}
        if name + ".weight_scale_2" in tensors:
            shape = (weight.shape[0], weight.shape[1] * 2)
            values = NVFP4QTensor(torch.Size(shape), torch.float32, weight).dequantize(
                torch.float32, scale=scale, double_scale=tensors[name + ".weight_scale_2"], block_sizes={-1: 16})
            codes, more["weight_scale_2"] = split_nibbles(weight.numpy()), float(tensors[name + ".weight_scale_2"])
        else:
            by_row = scale if scale.dim() == 0 else scale.reshape(-1, 1)
            values = FP8QTensor(weight.shape, torch.float32, weight).dequantize(torch.float32, scale=by_row)
            codes = weight.view(torch.uint8).numpy()
        if name + ".input_scale" in tensors:
            more["input_scale"] = float(tensors[name + ".input_scale"])
        result[name + ".weight"] = entry(codes, scale.float().reshape(max(1, scale.shape[0] if scale.dim() else 1), -1).numpy(),
                                         values, **more)
    publish(method, work / "out", result, f"mtq.quantize({config_name}), export_hf_checkpoint; values: its QTensor.dequantize",
            ["nvidia-modelopt", "transformers", "torch", "safetensors"])


# --- GGUF -------------------------------------------------------------------------------------------------------------

def gguf_blocks(method, kind, work):
    """One file with all four types. Values and blocks by the package, but the package has no IQ4_NL encoder: those blocks
    are made here by the table of the format and only read back by the package."""
    import gguf
    from gguf import GGMLQuantizationType as T
    model, result = base_model(kind), {}
    (work / "out").mkdir()
    writer = gguf.GGUFWriter(str(work / "out" / "model.gguf"), "llama")
    writer.add_name("blocks")
    writer.add_block_count(1)
    writer.add_context_length(256)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(intermediate(kind))
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(VOCABULARY)
    plan = {"self_attn.q_proj": ("attn_q", T.Q8_0), "self_attn.k_proj": ("attn_k", T.Q4_0), "self_attn.v_proj": ("attn_v", T.Q5_0),
            "self_attn.o_proj": ("attn_output", T.IQ4_NL), "mlp.gate_proj": ("ffn_gate", T.Q4_0), "mlp.up_proj": ("ffn_up", T.Q5_0),
            "mlp.down_proj": ("ffn_down", T.IQ4_NL), "input_layernorm": ("attn_norm", None),
            "post_attention_layernorm": ("ffn_norm", None)}
    fixed = {"model.embed_tokens.weight": ("token_embd.weight", T.Q8_0), "lm_head.weight": ("output.weight", T.Q8_0),
             "model.norm.weight": ("output_norm.weight", None)}
    table = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)
    for name, parameter in model.named_parameters():
        data = parameter.detach().float().numpy()
        short = name.removeprefix("model.layers.0.").removesuffix(".weight")
        target, kind_of = fixed[name] if name in fixed else ("blk.0." + plan[short][0] + ".weight", plan[short][1])
        if kind_of is None:
            writer.add_tensor(target, data)
            continue
        if short in ("self_attn.q_proj", "self_attn.k_proj"):  # rotary halves become neighbours inside a head
            data = data.reshape(2, 2, 32, HIDDEN).swapaxes(1, 2).reshape(data.shape)
        if kind_of == T.IQ4_NL:
            groups = data.reshape(-1, 32)
            scale = (np.abs(groups).max(1) / 120).astype(np.float16)
            codes = np.abs(groups[:, :, None] / scale.astype(np.float32)[:, None, None] - table).argmin(2).astype(np.uint8)
            blocks = np.concatenate([scale.view(np.uint8).reshape(-1, 2), codes[:, :16] | codes[:, 16:] << 4], 1)
            blocks = blocks.reshape(data.shape[0], -1)
        else:
            blocks = gguf.quants.quantize(data, kind_of)
        writer.add_tensor(target, blocks, raw_dtype=kind_of)
        values = torch.from_numpy(gguf.quants.dequantize(blocks, kind_of)).contiguous()
        size = blocks.shape[1] * 32 // data.shape[1]
        per_block = blocks.reshape(data.shape[0], -1, size)
        scales = per_block[:, :, :2].copy().view(np.float16)[:, :, 0].astype(np.float32)
        with np.errstate(divide="ignore", invalid="ignore"):
            codes = np.where(np.repeat(scales, 32, 1) != 0, values.numpy() / np.repeat(scales, 32, 1), 0)
        assert np.array_equal(codes, np.rint(codes))
        result[target] = entry(codes.astype(np.int8), scales, values, type=kind_of.name)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    publish(method, work / "out", result, "gguf.quants.quantize and GGUFWriter (IQ4_NL blocks: by the table of the format)",
            ["gguf", "numpy"])


# --- the list ---------------------------------------------------------------------------------------------------------

METHODS = {
    "compressed-tensors-nvfp4": (compressed_tensors, "normal", dict(scheme="NVFP4", targets="Linear")),
    "compressed-tensors-fp8": (compressed_tensors, "small", dict(scheme="FP8_DYNAMIC", targets="Linear")),
    "compressed-tensors-int4-g64": (compressed_tensors, "normal", dict(config_groups=grouped(4, 64))),
    "compressed-tensors-int4-g128": (compressed_tensors, "normal", dict(config_groups=grouped(4, 128))),
    "compressed-tensors-int8-g32": (compressed_tensors, "positive", dict(config_groups=grouped(8, 32))),
    "gptq-v1-int4-g128": (gptq, "normal", dict(bits=4, group=128, label="gptq")),
    "gptq-v2-int4-g64": (gptq, "normal", dict(bits=4, group=64, label="gptq_v2")),
    "gptq-v1-int8-g32": (gptq, "positive", dict(bits=8, group=32, label="gptq")),
    "auto-round-gptq": (auto_round, "normal", dict(group=64, export="auto_gptq")),
    "auto-round-packed": (auto_round, "normal", dict(group=128, export="auto_round:auto_gptq")),
    "modelopt-nvfp4": (modelopt, "normal", dict(config_name="NVFP4_DEFAULT_CFG")),
    "modelopt-fp8": (modelopt, "row", dict(config_name="FP8_DEFAULT_CFG")),
    "modelopt-fp8-rows": (modelopt, "row", dict(config_name="FP8_PER_CHANNEL_PER_TOKEN_CFG")),
    "gguf-blocks": (gguf_blocks, "normal", {}),
}


def main():
    if sys.argv[1:] in ([], ["list"]):
        print(*METHODS, sep="\n")
        return
    for method in sys.argv[1:]:
        function, kind, options = METHODS[method]
        with tempfile.TemporaryDirectory() as work:
            function(method, kind, pathlib.Path(work), **options)


if __name__ == "__main__":
    main()
