"""Random models of public shapes as F16 GGUF files: one source for both engines, so that each quantizes the same values."""
import os

import numpy as np

SHAPES = {
    "smollm2-135m": dict(arch="llama", hidden=576, layers=30, heads=9, kv=3, dim=64, inner=1536, vocab=49152, theta=100000.0, positions=8192),
    "qwen3-0.6b": dict(arch="qwen3", hidden=1024, layers=28, heads=16, kv=8, dim=128, inner=3072, vocab=151936, theta=1e6, positions=40960),
    "qwen3-1.7b": dict(arch="qwen3", hidden=2048, layers=28, heads=16, kv=8, dim=128, inner=6144, vocab=151936, theta=1e6, positions=40960),
    # Gated DeltaNet in three of four layers: `delta` is its heads (keys, values), their width and the taps of its convolution.
    "qwen3.5-0.8b": dict(arch="qwen35", hidden=1024, layers=24, heads=8, kv=2, dim=256, inner=3584, vocab=248320, theta=1e7, positions=262144,
                         delta=(16, 16, 128, 4)),
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
    hybrid = "delta" in s
    w.add_rope_dimension_count(s["dim"] // 4 if hybrid else s["dim"])
    if hybrid:
        key_heads, value_heads, width, taps = s["delta"]
        w.add_rope_dimension_sections([11, 11, 10, 0])
        w.add_ssm_conv_kernel(taps)
        w.add_ssm_state_size(width)
        w.add_ssm_group_count(key_heads)
        w.add_ssm_time_step_rank(value_heads)
        w.add_ssm_inner_size(value_heads * width)
        w.add_full_attention_interval(4)
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
        if hybrid and (i + 1) % 4 != 0:
            channels = (2 * key_heads + value_heads) * width
            matrix(b + "attn_qkv.weight", channels, s["hidden"])
            matrix(b + "attn_gate.weight", value_heads * width, s["hidden"])
            w.add_tensor(b + "ssm_conv1d.weight", rng.uniform(-0.87, 0.87, (channels, taps)).astype(np.float32))  # keeps the variance
            w.add_tensor(b + "ssm_dt.bias", rng.uniform(-4, 0, value_heads).astype(np.float32))
            w.add_tensor(b + "ssm_a", -rng.uniform(0.5, 8, value_heads).astype(np.float32))
            matrix(b + "ssm_beta.weight", value_heads, s["hidden"])
            matrix(b + "ssm_alpha.weight", value_heads, s["hidden"])
            vector(b + "ssm_norm.weight", width)
            matrix(b + "ssm_out.weight", s["hidden"], value_heads * width)
        else:
            matrix(b + "attn_q.weight", s["heads"] * s["dim"] * (2 if hybrid else 1), s["hidden"])  # with output gates
            matrix(b + "attn_k.weight", s["kv"] * s["dim"], s["hidden"])
            matrix(b + "attn_v.weight", s["kv"] * s["dim"], s["hidden"])
            matrix(b + "attn_output.weight", s["hidden"], s["heads"] * s["dim"])
            if s["arch"] != "llama":
                vector(b + "attn_q_norm.weight", s["dim"])
                vector(b + "attn_k_norm.weight", s["dim"])
        vector(b + ("post_attention_norm.weight" if hybrid else "ffn_norm.weight"), s["hidden"])
        matrix(b + "ffn_gate.weight", s["inner"], s["hidden"])
        matrix(b + "ffn_up.weight", s["inner"], s["hidden"])
        matrix(b + "ffn_down.weight", s["hidden"], s["inner"])
    vector("output_norm.weight", s["hidden"])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    os.rename(path + ".part", path)
