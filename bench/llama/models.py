"""Random models of public shapes as F16 GGUF files: one source for both engines, so that each quantizes the same values."""
import os

import numpy as np

SHAPES = {
    "smollm2-135m": dict(arch="llama", hidden=576, layers=30, heads=9, kv=3, dim=64, inner=1536, vocab=49152, theta=100000.0, positions=8192),
    "qwen3-0.6b": dict(arch="qwen3", hidden=1024, layers=28, heads=16, kv=8, dim=128, inner=3072, vocab=151936, theta=1e6, positions=40960),
    "qwen3-1.7b": dict(arch="qwen3", hidden=2048, layers=28, heads=16, kv=8, dim=128, inner=6144, vocab=151936, theta=1e6, positions=40960),
}
EPS = 1e-6


def write(name, path):
    """Writes the F16 source of shape `name` (tied head, no tokenizer) unless it is there."""
    import gguf
    if os.path.exists(path):
        return
    s = SHAPES[name]
    w = gguf.GGUFWriter(path + ".part", s["arch"], use_temp_file=True)
    w.add_name(f"random {name}")
    w.add_context_length(s["positions"])
    w.add_embedding_length(s["hidden"])
    w.add_block_count(s["layers"])
    w.add_feed_forward_length(s["inner"])
    w.add_head_count(s["heads"])
    w.add_head_count_kv(s["kv"])
    w.add_key_length(s["dim"])
    w.add_value_length(s["dim"])
    w.add_rope_dimension_count(s["dim"])
    w.add_rope_freq_base(s["theta"])
    w.add_layer_norm_rms_eps(EPS)
    w.add_vocab_size(s["vocab"])
    w.add_tokenizer_model("no_vocab")
    w.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    rng = np.random.default_rng(1)

    def matrix(tensor, n, k):
        w.add_tensor(tensor, (rng.standard_normal((n, k), dtype=np.float32) * np.float32(k ** -0.5)).astype(np.float16))

    def vector(tensor, n):
        w.add_tensor(tensor, (1 + 0.1 * rng.standard_normal(n)).astype(np.float32))

    matrix("token_embd.weight", s["vocab"], s["hidden"])
    for i in range(s["layers"]):
        b = f"blk.{i}."
        vector(b + "attn_norm.weight", s["hidden"])
        matrix(b + "attn_q.weight", s["heads"] * s["dim"], s["hidden"])
        matrix(b + "attn_k.weight", s["kv"] * s["dim"], s["hidden"])
        matrix(b + "attn_v.weight", s["kv"] * s["dim"], s["hidden"])
        matrix(b + "attn_output.weight", s["hidden"], s["heads"] * s["dim"])
        if s["arch"] == "qwen3":
            vector(b + "attn_q_norm.weight", s["dim"])
            vector(b + "attn_k_norm.weight", s["dim"])
        vector(b + "ffn_norm.weight", s["hidden"])
        matrix(b + "ffn_gate.weight", s["inner"], s["hidden"])
        matrix(b + "ffn_up.weight", s["inner"], s["hidden"])
        matrix(b + "ffn_down.weight", s["hidden"], s["inner"])
    vector("output_norm.weight", s["hidden"])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    os.rename(path + ".part", path)
