#!/usr/bin/env python3
"""Writes the seeds of test/fuzz/corpus from the fixtures and vectors in this repository.

Only files named seed-* are written; what a fuzzer found (found-*) is kept. Run it again after a fixture changed.
plan seeds come from `fuzz_plan_seed`, a program of the build: pass its path as the only argument (optional).
"""
import json
import os
import struct
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CORPUS = os.path.join(ROOT, "test/fuzz/corpus")


def read(path, mode="rb"):
    with open(os.path.join(ROOT, path), mode) as f:
        return f.read()


def write(target, name, data):
    folder = os.path.join(CORPUS, target)
    os.makedirs(folder, exist_ok=True)
    if isinstance(data, str):
        data = data.encode()
    with open(os.path.join(folder, "seed-" + name), "wb") as f:
        f.write(data)


def clean(target):
    folder = os.path.join(CORPUS, target)
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if name.startswith("seed-"):
            os.remove(os.path.join(folder, name))


BASE = {"components": {"text": {"config": {}, "resources": {"tokenizer.json": "t"}}},
        "objects": [{"id": "t", "kind": "resource", "encoding": "raw_bytes_v1", "offset": 0, "bytes": 5},
                    {"id": "w", "kind": "tensor", "shape": [2, 130], "format": "q5_g64_fp16", "layout": "row_split_k128_v1",
                     "offset": 256, "bytes": 528}],
        "bindings": {"p": {"object": "w"}, "r": {"parts": [{"object": "w", "range": [130, 260]}]}},
        "uses": [{"parameter": "p", "input": "x", "activation_policy": "A16Only"}],
        "files": [{"path": None, "payload_bytes": 784}]}


def directories():
    clean("directory")
    cases = json.loads(read("test/conformance/fixtures/v3_directory_cases.json"))
    for i, case in enumerate(cases[::4]):
        write("directory", f"v3-{i:02}", b"\x02" + case["json"].encode())
    write("directory", "v3-base", b"\x02" + json.dumps(BASE).encode())
    for framing, fixture in ((2, "v2_nine.ninfer"),):
        data = read("test/conformance/fixtures/" + fixture)
        (size,) = struct.unpack_from("<Q", data, 8)
        text = next(data[start:start + size] for start in (16, 32) if data[start:start + 1] == b"{")
        root = json.loads(text)
        for key in root:
            if isinstance(root[key], list):
                root[key] = root[key][:3]
        write("directory", f"v{framing}", bytes([framing - 1]) + json.dumps(root).encode())
        write("directory", "v1", bytes([0]) + json.dumps(root).encode())


def containers():
    clean("container")
    small = json.dumps(BASE).encode()
    write("container", "single", b"\x01" + small)
    parts = json.loads(small)
    parts["files"] = [{"path": None, "payload_bytes": 512}, {"path": "x.ninfer.part-0001", "payload_bytes": 272}]
    for name, mode in (("parts", 1), ("missing", 3), ("short", 5), ("foreign", 9), ("index", 17), ("long", 33)):
        write("container", "part-" + name, bytes([mode]) + json.dumps(parts).encode())
    whole = bytearray(b"NINFER\0\3" + struct.pack("<Q", len(small)) + bytes(range(16)) + small)
    whole += bytes(-len(whole) % 4096) + bytes(784)
    write("container", "file-v3", b"\x00" + bytes(whole))
    v2 = read("test/conformance/fixtures/v2_nine.ninfer")
    write("container", "file-v2-nine", b"\x00" + v2)
    write("container", "file-v2-cut", b"\x00" + v2[:3000])
    write("container", "file-v1-magic", b"\x00" + v2[:7] + b"\x01" + v2[8:3000])
    write("container", "part-magic", b"\x00NINPRT\0\3" + bytes(24))


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors():
    clean("safetensors")
    header = {"__metadata__": {"format": "pt"}, "b": tensor("BF16", [3, 2], 4, 16), "a": tensor("F32", [], 0, 4)}
    text = json.dumps(header)
    write("safetensors", "header", b"\x01" + text.encode())
    write("safetensors", "file", b"\x00" + struct.pack("<Q", len(text)) + text.encode() + bytes(16))
    for i, dtype in enumerate(("F64", "I8", "F8_E4M3", "BOOL", "I64", "U32", "F16")):
        size = {"F64": 8, "I64": 8, "U32": 4, "F16": 2}.get(dtype, 1)
        write("safetensors", "dtype-" + dtype, b"\x01" + json.dumps({"w": tensor(dtype, [2, 3], 0, 6 * size)}).encode())
    write("safetensors", "twice", b'\x01{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}')
    write("safetensors", "overflow", b'\x01{"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}}')
    write("safetensors", "length", b"\x00" + struct.pack("<Q", 1 << 63) + b"{}")


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def gguf():
    clean("gguf")

    def u32(key, value):
        return text(key) + struct.pack("<II", 4, value)

    def f32(key, value):
        return text(key) + struct.pack("<If", 6, value)

    def string(key, value):
        return text(key) + struct.pack("<I", 8) + text(value)

    def array(key, kind, values):
        body = b"".join(text(v) if kind == 8 else struct.pack("<i", v) for v in values)
        return text(key) + struct.pack("<IIQ", 9, kind, len(values)) + body

    def build(entries, tensors):
        infos, data = b"", b""
        for name, kind, shape, raw in tensors:
            data += bytes(-len(data) % 32)
            infos += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", d) for d in reversed(shape))
            infos += struct.pack("<IQ", kind, len(data))
            data += raw
        head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries)) + b"".join(entries) + infos
        return head + bytes(-len(head) % 32) + data

    tokens = ["<|endoftext|>", "<|im_end|>"] + [chr(c) for c in range(ord("a"), ord("z") + 1)] + ["ab", "abc"]
    a = "llama."
    entries = [string("general.architecture", "llama"), string("general.name", "tiny"), u32(a + "block_count", 1),
               u32(a + "context_length", 128), u32(a + "embedding_length", 8), u32(a + "feed_forward_length", 16),
               u32(a + "attention.head_count", 2), u32(a + "attention.head_count_kv", 1),
               f32(a + "attention.layer_norm_rms_epsilon", 0.0001), f32(a + "rope.freq_base", 10000.0),
               string("tokenizer.ggml.model", "gpt2"), string("tokenizer.ggml.pre", "smollm"),
               array("tokenizer.ggml.tokens", 8, tokens), array("tokenizer.ggml.token_type", 5, [3, 3] + [1] * (len(tokens) - 2)),
               array("tokenizer.ggml.merges", 8, ["a b", "ab c"]), u32("tokenizer.ggml.eos_token_id", 1),
               string("tokenizer.chat_template", "{{ messages[0].content }}")]
    embedding = ("token_embd.weight", 0, [40, 8], bytes(40 * 8 * 4))
    write("gguf", "tiny", build(entries, [embedding]))
    for pre in ("llama-bpe", "qwen2", "default"):
        changed = [string("tokenizer.ggml.pre", pre) if b"tokenizer.ggml.pre" in e else e for e in entries]
        write("gguf", "pre-" + pre, build(changed, [embedding]))
    h = "qwen35."
    hybrid = [string("general.architecture", "qwen35"), u32(h + "rope.dimension_count", 4), u32(h + "attention.key_length", 8),
              array(h + "rope.dimension_sections", 5, [1, 1, 0, 0]), u32(h + "full_attention_interval", 2), u32(h + "nextn_predict_layers", 1)]
    hybrid += [u32(h + key, value) for key, value in {"block_count": 3, "context_length": 128, "embedding_length": 8, "feed_forward_length": 16,
               "attention.head_count": 2, "attention.head_count_kv": 1, "ssm.conv_kernel": 4, "ssm.state_size": 4, "ssm.group_count": 1,
               "ssm.time_step_rank": 2, "ssm.inner_size": 8}.items()]
    hybrid += [f32(h + "attention.layer_norm_rms_epsilon", 0.0001), f32(h + "rope.freq_base", 10000.0)]
    write("gguf", "hybrid", build(hybrid, [embedding]))
    write("gguf", "hybrid-layers", build(hybrid + [array(h + "attention.recurrent_layers", 5, [1, 0, 0])], [embedding]))
    blocks = {8: 34, 2: 18, 6: 22, 20: 18, 3: 20, 7: 24}
    write("gguf", "blocks", build([], [(f"t{k}", k, [2, 32], bytes(range(1, 2 * n + 1))) for k, n in blocks.items()]))
    big = {10: 84, 11: 110, 12: 144, 13: 176, 14: 210, 23: 136}
    write("gguf", "superblocks", build([], [(f"t{k}", k, [1, 256], bytes((7 * i) % 251 for i in range(n))) for k, n in big.items()]))
    write("gguf", "rope", build(entries, [embedding, ("rope_freqs.weight", 0, [2], struct.pack("<2f", 1.0, 8.0))]))
    nested = text("k") + struct.pack("<IIQ", 9, 9, 2) + struct.pack("<IQI", 5, 1, 7) + struct.pack("<IQ", 8, 0)
    write("gguf", "nested", build([nested, text("u") + struct.pack("<IQ", 10, 9), text("t") + struct.pack("<IB", 7, 1)], []))
    write("gguf", "counts", b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1 << 60))


def tokenizers():
    clean("tokenizer")
    for name in ("gpt2", "gpt2_prefix", "llama3", "qwen2", "smollm", "added"):
        value = json.loads(read(f"test/vectors/tokenizer/{name}.json"))
        merges = value["model"]["merges"][:20]
        vocab, keep = value["model"]["vocab"], set()
        for merge in merges:
            left, right = merge if isinstance(merge, list) else merge.split(" ")
            keep |= {left, right, left + right}
        letters = [t for t in vocab if len(t) == 1][:120]
        names = {t.get("content") for t in value.get("added_tokens", [])}
        value["model"]["merges"] = merges
        value["model"]["vocab"] = {t: i for t, i in vocab.items() if t in keep or t in letters or t in names}
        write("tokenizer", name, json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    base = '"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"],"unk_token":"a"}'
    write("tokenizer", "split", "{" + base + ',"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?i:\'s|[^a]+)|\\\\s+(?!\\\\S)"},'
          '"behavior":"MergedWithNext","invert":true},"decoder":{"type":"ByteLevel"}}')
    write("tokenizer", "normal", "{" + base + ',"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Lowercase"},'
          '{"type":"NFD"}]},"decoder":{"type":"ByteLevel"},"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":'
          '{"id":"<s>"}},{"Sequence":{"id":"A"}}]},"added_tokens":[{"id":3,"content":"<s>","special":true,"lstrip":true,"rstrip":true,'
          '"single_word":true,"normalized":true}]}')


def templates():
    clean("template")
    for name, source in json.loads(read("test/vectors/chat_template.json"))["templates"].items():
        write("template", "".join(c if c.isalnum() else "-" for c in name), source)
    write("template", "macro", "{% macro f(a, b=2) %}{{ a }}{{ f(a - 1) if a > 0 else b }}{% endmacro %}{{ f(3) }}")
    write("template", "namespace", "{% set n = namespace(x='a', l=[]) %}{% for i in range(3) %}{% set n.x = n.x ~ n.x %}"
          "{% set n.l = n.l + [i] %}{% endfor %}{{ n.x|upper }}{{ n.l[::-1]|tojson(indent=2) }}{{ n.x.split('a')|join(',') }}")


def indexes():
    clean("index")
    good = {"metadata": {"total_size": 8}, "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    write("index", "good", json.dumps(good))
    names = ["../other/m.safetensors", "/etc/m.safetensors", "a/../../m.safetensors", "./m.safetensors", "m.safetensors\0x",
             "C:\\m.safetensors", "sub/m.safetensors", "", ".", "..", "\u2215", "\ud800"]
    for i, name in enumerate(names):
        write("index", f"name-{i:02}", json.dumps({"weight_map": {"w": name}}))
    write("index", "twice", '{"weight_map":{"w":"a","w":"b"}}')


def configs():
    clean("config")
    model = {"architectures": ["LlamaForCausalLM"], "hidden_size": 128, "vocab_size": 8, "num_hidden_layers": 1,
             "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 64, "intermediate_size": 128,
             "tie_word_embeddings": True, "rms_norm_eps": 0.0001}
    head, at = {}, 0

    def add(name, dtype, shape, size):
        nonlocal at
        head[name] = tensor(dtype, shape, at, at + size)
        at += size

    q = "model.layers.0.self_attn.q_proj."
    int4 = {"quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "symmetric": True,
                                                                             "strategy": "group", "group_size": 64}}},
            "ignore": ["lm_head", "re:.*mlp.*", "re:.*[kvo]_proj"]}
    add(q + "weight_packed", "I32", [128, 16], 128 * 16 * 4)
    add(q + "weight_scale", "BF16", [128, 2], 512)
    add(q + "weight_shape", "I64", [2], 16)
    write("config", "int4", json.dumps({"config": dict(model, quantization_config=int4), "header": head}))
    head, at = {}, 0
    fp8 = {"quant_method": "compressed-tensors", "format": "float-quantized",
           "config_groups": {"group_0": {"targets": ["re:.*q_proj$"], "weights": {"num_bits": 8, "type": "float", "symmetric": True,
                                                                                  "strategy": "channel"}}}}
    add(q + "weight", "F8_E4M3", [128, 128], 128 * 128)
    add(q + "weight_scale", "BF16", [128, 1], 256)
    write("config", "fp8", json.dumps({"config": dict(model, quantization_config=fp8), "header": head}))
    head, at = {}, 0
    nvfp4 = {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized",
             "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "symmetric": True,
                                                                              "strategy": "tensor_group", "group_size": 16}}}}
    add(q + "weight_packed", "U8", [128, 64], 128 * 64)
    add(q + "weight_scale", "F8_E4M3", [128, 8], 1024)
    add(q + "weight_global_scale", "F32", [1], 4)
    write("config", "nvfp4", json.dumps({"config": dict(model, quantization_config=nvfp4), "header": head}))
    head, at = {}, 0
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": True, "desc_act": False, "checkpoint_format": "gptq"}
    add(q + "qweight", "I32", [16, 128], 8192)
    add(q + "qzeros", "I32", [2, 16], 128)
    add(q + "scales", "F16", [2, 128], 512)
    add(q + "g_idx", "I32", [128], 512)
    write("config", "gptq", json.dumps({"config": dict(model, quantization_config=gptq), "header": head}))
    side = {"hf_quant_config.json": {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16,
                                                                                       "exclude_modules": ["lm_head"]}}}
    head, at = {}, 0
    add(q + "weight", "U8", [128, 64], 8192)
    add(q + "weight_scale", "F8_E4M3", [128, 8], 1024)
    add(q + "weight_scale_2", "F32", [], 4)
    write("config", "modelopt", json.dumps({"config": model, "side": side, "header": head}))
    for method in ("awq", "bitsandbytes", "aqlm", "quip", "vptq", "hqq", "fbgemm_fp8", "fp8", "mxfp4", "unheard"):
        write("config", "method-" + method, json.dumps({"config": dict(model, quantization_config={"quant_method": method}), "header": {}}))


def images():
    clean("image")
    folder = "test/vectors/vision"
    for name in sorted(os.listdir(os.path.join(ROOT, folder))):
        if name.endswith((".png", ".jpg")):
            write("image", name, read(f"{folder}/{name}"))
    config = json.loads(read(f"{folder}/vectors.json"))["patches"][0]["config"]
    write("image", "config", json.dumps(config))


def plans(program):
    clean("plan")
    folder = os.path.join(CORPUS, "plan")
    os.makedirs(folder, exist_ok=True)
    subprocess.run([program, os.path.join(folder, "seed-small")], check=True)


def main():
    for make in (directories, containers, safetensors, gguf, tokenizers, templates, indexes, configs, images):
        make()
    if len(sys.argv) > 1:
        plans(sys.argv[1])
    for target in sorted(os.listdir(CORPUS)):
        folder = os.path.join(CORPUS, target)
        sizes = [os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder)]
        print(f"{target}: {len(sizes)} inputs, {sum(sizes)} bytes")


if __name__ == "__main__":
    main()
