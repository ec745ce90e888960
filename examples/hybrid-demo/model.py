"""The hybrid demo model in PyTorch: Gated DeltaNet and gated attention layers and a draft layer, in the tensor names of a checkpoint.

Written from the formulas of docs/models/qwen3_5.md. B rows of T tokens; a parameter is looked up by its name in the checkpoint.
"""
import math

import torch
import torch.nn.functional as F

HIDDEN, INNER, VOCAB, EPS = 128, 256, 512, 1e-6
LAYERS = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
HEADS, KV_HEADS, DIM = 4, 2, 32
THETA, ROTARY_FACTOR, SECTIONS = 10000.0, 0.5, [3, 3, 2]
KEY_HEADS, KEY_DIM, VALUE_HEADS, VALUE_DIM, TAPS = 2, 32, 4, 32, 4
KEYS, VALUES = KEY_HEADS * KEY_DIM, VALUE_HEADS * VALUE_DIM
CHANNELS = 2 * KEYS + VALUES

CONFIG = {
    "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "hidden_size": HIDDEN, "vocab_size": VOCAB,
    "num_hidden_layers": len(LAYERS), "layer_types": LAYERS, "intermediate_size": INNER, "hidden_act": "silu",
    "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": DIM, "attention_bias": False,
    "attn_output_gate": True, "rms_norm_eps": EPS, "max_position_embeddings": 4096, "tie_word_embeddings": True,
    "rope_parameters": {"rope_type": "default", "rope_theta": THETA, "partial_rotary_factor": ROTARY_FACTOR,
                        "mrope_section": SECTIONS, "mrope_interleaved": True},
    "linear_num_key_heads": KEY_HEADS, "linear_key_head_dim": KEY_DIM, "linear_num_value_heads": VALUE_HEADS,
    "linear_value_head_dim": VALUE_DIM, "linear_conv_kernel_dim": TAPS, "mamba_ssm_dtype": "float32",
    "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False, "bos_token_id": None, "dtype": "bfloat16"}


def shapes():
    """name -> shape of every tensor of the checkpoint."""
    out = {"model.embed_tokens.weight": (VOCAB, HIDDEN), "model.norm.weight": (HIDDEN,), "mtp.fc.weight": (HIDDEN, 2 * HIDDEN)}
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        out[f"mtp.{name}.weight"] = (HIDDEN,)
    attention = {"self_attn.q_proj": (2 * HEADS * DIM, HIDDEN), "self_attn.k_proj": (KV_HEADS * DIM, HIDDEN),
                 "self_attn.v_proj": (KV_HEADS * DIM, HIDDEN), "self_attn.o_proj": (HIDDEN, HEADS * DIM),
                 "self_attn.q_norm": (DIM,), "self_attn.k_norm": (DIM,)}
    delta = {"linear_attn.in_proj_qkv": (CHANNELS, HIDDEN), "linear_attn.in_proj_z": (VALUES, HIDDEN),
             "linear_attn.in_proj_a": (VALUE_HEADS, HIDDEN), "linear_attn.in_proj_b": (VALUE_HEADS, HIDDEN),
             "linear_attn.conv1d": (CHANNELS, 1, TAPS), "linear_attn.norm": (VALUE_DIM,),
             "linear_attn.out_proj": (HIDDEN, VALUES)}
    rest = {"input_layernorm": (HIDDEN,), "post_attention_layernorm": (HIDDEN,), "mlp.gate_proj": (INNER, HIDDEN),
            "mlp.up_proj": (INNER, HIDDEN), "mlp.down_proj": (HIDDEN, INNER)}
    layers = [(f"model.layers.{i}.", kind) for i, kind in enumerate(LAYERS)] + [("mtp.layers.0.", "full_attention")]
    for prefix, kind in layers:
        for name, shape in ((attention if kind == "full_attention" else delta) | rest).items():
            out[f"{prefix}{name}.weight"] = shape
        if kind == "linear_attention":
            out |= {prefix + "linear_attn.A_log": (VALUE_HEADS,), prefix + "linear_attn.dt_bias": (VALUE_HEADS,)}
    return out


def init(seed):
    g = torch.Generator().manual_seed(seed)
    p = {}
    for name, shape in shapes().items():
        if name.endswith("A_log"):
            value = torch.log(1 + 15 * torch.rand(shape, generator=g))
        elif name.endswith("dt_bias"):  # softplus(dt_bias) from 0.001 to 0.1: heads that forget fast and heads that do not
            value = torch.log(torch.expm1(torch.exp(torch.rand(shape, generator=g) * math.log(100) + math.log(0.001))))
        elif name.endswith("linear_attn.norm.weight"):
            value = torch.ones(shape)
        elif len(shape) == 1:
            value = torch.zeros(shape)  # the other norms multiply by 1 + w
        else:
            value = torch.randn(shape, generator=g) * (0.08 if "embed" in name else shape[-1] ** -0.5)
            if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
                value /= math.sqrt(2 * len(LAYERS))
        p[name] = value.requires_grad_()
    return p


def norm(x, w):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * (1 + w)


def rotate(x, first):
    """x [B,T,heads,DIM] at positions first, first+1, ..."""
    half = int(DIM * ROTARY_FACTOR) // 2
    angle = torch.arange(first, first + x.shape[1])[:, None, None] * THETA ** (-torch.arange(half) / half)
    cos, sin = angle.cos(), angle.sin()
    a, b, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def projections(p, name, h, first):
    """Queries [B,HEADS,T,DIM], keys and values repeated to as many heads, and the output gate [B,T,HEADS*DIM]."""
    B, T, _ = h.shape
    q, gate = F.linear(h, p[name + "q_proj.weight"]).view(B, T, HEADS, 2, DIM).unbind(3)
    k = F.linear(h, p[name + "k_proj.weight"]).view(B, T, KV_HEADS, DIM)
    v = F.linear(h, p[name + "v_proj.weight"]).view(B, T, KV_HEADS, DIM)
    q = rotate(norm(q, p[name + "q_norm.weight"]), first).transpose(1, 2)
    k = rotate(norm(k, p[name + "k_norm.weight"]), first)
    k, v = (x.transpose(1, 2).repeat_interleave(HEADS // KV_HEADS, 1) for x in (k, v))
    return q, k, v, gate.reshape(B, T, HEADS * DIM)


def gated_output(p, name, a, gate):
    return F.linear(a.transpose(1, 2).flatten(2) * gate.sigmoid(), p[name + "o_proj.weight"])


def full_attention(p, name, h):
    q, k, v, gate = projections(p, name, h, 0)
    return gated_output(p, name, F.scaled_dot_product_attention(q, k, v, is_causal=True), gate)


def delta_rule(q, k, v, g, beta):
    """q, k [B,heads,T,KEY_DIM] of unit length, v [B,heads,T,VALUE_DIM], g and beta [B,heads,T]; from an empty state.

    What step t writes is u_t = beta_t (v_t - exp(g_t) S_(t-1) k_t), and S_t = sum over j <= t of exp(g_(j+1) + .. + g_t) u_j k_j^T.
    So the u solve one unit lower triangular system, and no loop over time is needed.
    """
    total = g.cumsum(-1)
    reach = torch.exp((total[..., :, None] - total[..., None, :]).tril()).tril()
    system = (beta[..., None] * reach * (k @ k.transpose(-1, -2))).tril(-1)
    u = torch.linalg.solve_triangular(system, beta[..., None] * v, upper=False, unitriangular=True)
    return (reach * (q @ k.transpose(-1, -2))) @ u / math.sqrt(KEY_DIM)


def linear_attention(p, name, h):
    B, T, _ = h.shape
    u = F.linear(h, p[name + "in_proj_qkv.weight"]).transpose(1, 2)
    c = F.silu(F.conv1d(F.pad(u, (TAPS - 1, 0)), p[name + "conv1d.weight"], groups=CHANNELS)).transpose(1, 2)
    q, k, v = c.split([KEYS, KEYS, VALUES], -1)
    q, k = (x.reshape(B, T, KEY_HEADS, KEY_DIM).transpose(1, 2) for x in (q, k))
    q, k = (x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6) for x in (q, k))
    q, k = (x.repeat_interleave(VALUE_HEADS // KEY_HEADS, 1) for x in (q, k))
    v = v.reshape(B, T, VALUE_HEADS, VALUE_DIM).transpose(1, 2)
    g = -p[name + "A_log"].exp() * F.softplus(F.linear(h, p[name + "in_proj_a.weight"]) + p[name + "dt_bias"])
    beta = F.linear(h, p[name + "in_proj_b.weight"]).sigmoid()
    o = delta_rule(q, k, v, g.transpose(1, 2), beta.transpose(1, 2)).transpose(1, 2)
    o = o * torch.rsqrt(o.square().mean(-1, keepdim=True) + EPS) * p[name + "norm.weight"]
    return F.linear(o.flatten(2) * F.silu(F.linear(h, p[name + "in_proj_z.weight"])), p[name + "out_proj.weight"])


def feed_forward(p, prefix, x):
    h = norm(x, p[prefix + "post_attention_layernorm.weight"])
    gate, up = (F.linear(h, p[f"{prefix}mlp.{m}_proj.weight"]) for m in ("gate", "up"))
    return x + F.linear(F.silu(gate) * up, p[prefix + "mlp.down_proj.weight"])


def trunk(p, ids):
    """ids [B,T] -> normalised last hidden state [B,T,HIDDEN]."""
    x = F.embedding(ids, p["model.embed_tokens.weight"])
    for i, kind in enumerate(LAYERS):
        prefix = f"model.layers.{i}."
        h = norm(x, p[prefix + "input_layernorm.weight"])
        x = x + (full_attention(p, prefix + "self_attn.", h) if kind == "full_attention"
                 else linear_attention(p, prefix + "linear_attn.", h))
        x = feed_forward(p, prefix, x)
    return norm(x, p["model.norm.weight"])


def head(p, hidden):
    return F.linear(hidden, p["model.embed_tokens.weight"])


def drafts(p, hidden, ids, depth):
    """The draft layer run `depth` times in a chain from every position at once.

    hidden [B,T,HIDDEN] of the trunk, ids [B,T]. Link s (1, 2, ..) of the chain that starts at position t lies at position t+s-1,
    reads the token at t+s (beyond the row: token 0) and predicts the one at t+s+1. Its cache holds link 1 of positions 0..t, made
    from hidden states of the trunk, and then the earlier links of its own chain. Yields the normalised output of each link.
    """
    B, T, _ = hidden.shape
    name, causal = "mtp.layers.0.self_attn.", torch.full((T, T), -torch.inf).triu(1)
    own = []
    for s in range(1, depth + 1):
        token = F.embedding(F.pad(ids[:, s:], (0, min(s, T))), p["model.embed_tokens.weight"])
        x = F.linear(torch.cat([norm(token, p["mtp.pre_fc_norm_embedding.weight"]),
                                norm(hidden, p["mtp.pre_fc_norm_hidden.weight"])], -1), p["mtp.fc.weight"])
        h = norm(x, p["mtp.layers.0.input_layernorm.weight"])
        q, k, v, gate = projections(p, name, h, s - 1)
        if s == 1:
            keys, values = k, v
        else:
            own.append((k, v))
        scores = [q @ keys.transpose(-1, -2) / math.sqrt(DIM) + causal]
        scores += [(q * k).sum(-1, keepdim=True) / math.sqrt(DIM) for k, _ in own]
        weight = torch.cat(scores, -1).softmax(-1)
        a = weight[..., :T] @ values
        for i, (_, v) in enumerate(own):
            a = a + weight[..., T + i:T + i + 1] * v
        hidden = norm(feed_forward(p, "mtp.layers.0.", x + gated_output(p, name, a, gate)), p["mtp.norm.weight"])
        yield hidden
