"""Writes a Hugging Face style checkpoint folder: BF16 weights, config, tokenizer, chat template and generation settings."""
import json
import os
import struct

import numpy as np

TEMPLATE = ("{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + "
            "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")


def to_bf16(a):
    """Nearest-even BF16 words of a finite float32 array."""
    u = a.astype(np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def write(out, tensors, config, bpe):
    """`tensors`: name -> float32 array; `config`: the members of config.json; `bpe`: tokenizer.Bpe."""
    header, blobs, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name in sorted(tensors):
        data = to_bf16(tensors[name]).tobytes()
        header[name] = {"dtype": "BF16", "shape": list(tensors[name].shape), "data_offsets": [at, at + len(data)]}
        blobs.append(data)
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(out, exist_ok=True)
    with open(f"{out}/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))

    def put(name, value):
        with open(f"{out}/{name}", "w", encoding="utf-8") as f:
            f.write(value if isinstance(value, str) else json.dumps(value, indent=1) + "\n")
    put("config.json", config)
    put("tokenizer.json", bpe.to_json())
    put("chat_template.jinja", TEMPLATE)
    put("tokenizer_config.json", {"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": False, "bos_token": None,
                                  "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
                                  "clean_up_tokenization_spaces": False,
                                  "model_max_length": config["max_position_embeddings"], "chat_template": TEMPLATE})
    put("generation_config.json", {"eos_token_id": [bpe.special["<|im_end|>"], bpe.special["<|endoftext|>"]],
                                   "do_sample": False})
