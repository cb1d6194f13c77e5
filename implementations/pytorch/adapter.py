"""Positional encodings in PyTorch, as the models of Hugging Face compute them.

It keeps their steps, types and order, and lets through what they let through: a rope_theta of 0 gives
infinities, a query that sees no key averages all of them.
"""

import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
import posproof
from posproof import Unsupported

FLOATS = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


# Sinusoidal: FastSpeech2 and the PyTorch tutorial alternate, diffusers' get_timestep_embedding concatenates.


def sinusoidal_table(positions, d_model, base=10000, layout="interleaved", denominator="half", odd="refuse", scale=1):
    if scale != 1:
        raise Unsupported("scales the tokens, not the table")
    if d_model % 2 and odd == "refuse":
        raise ValueError(f"d_model {d_model} is odd")
    half = d_model // 2
    if layout == "interleaved":
        if denominator != "half" or d_model % 2:
            raise Unsupported("interleaved with an even d_model and denominator half only")
        frequency = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(base) / d_model))
        angle = positions.float()[:, None] * frequency
        table = torch.zeros(len(positions), d_model)
        table[:, 0::2] = torch.sin(angle)
        table[:, 1::2] = torch.cos(angle)
        return table
    if d_model % 2 and denominator == "half":
        raise Unsupported("divides by floor(d_model / 2)")
    shift = 0 if denominator == "half" else 1
    if half == shift:
        raise Unsupported("divides by d_model / 2 - 1, which is 0 here")
    exponent = -math.log(base) * torch.arange(half, dtype=torch.float32) / (half - shift)
    angle = positions.float()[:, None] * torch.exp(exponent)
    waves = [torch.sin(angle), torch.cos(angle)]
    table = torch.cat(waves if layout == "concat" else waves[::-1], dim=-1)
    return F.pad(table, (0, d_model % 2))


# Learned: OPT and BART add 2, RoBERTa padding_idx + 1.


def learned_embed(table, positions, offset=0, padding_idx=None):
    if padding_idx is not None:
        offset += padding_idx + 1
    return F.embedding(positions + offset, table)


# Shaw: Wav2Vec2-BERT's relative_key; there is no value term.


def shaw_key_logits(q, relative_keys, q_positions, k_positions, max_distance, sign="k-q"):
    if sign != "k-q":
        raise Unsupported("no clipping with sign q-k")
    distance = torch.clamp(k_positions[None, :] - q_positions[:, None], -max_distance, max_distance)
    vectors = F.embedding(distance + max_distance, relative_keys).to(q.dtype)
    return torch.einsum("...hld,lrd->...hlr", q, vectors)


# RoPE: Llama rotates halves, GPT-J every two, GPT-NeoX the first lanes.


def inv_freq(
    head_dim, rotary_dim=None, partial_rotary_factor=None, rope_theta=10000, rope_scaling={},
    max_position_embeddings=None, seq_len=None,
):  # fmt: skip
    dim = int(head_dim * (1.0 if partial_rotary_factor is None else partial_rotary_factor))
    if rotary_dim is not None:
        if partial_rotary_factor is not None and rotary_dim != dim:
            raise ValueError(f"rotary_dim {rotary_dim}, but partial_rotary_factor makes it {dim}")
        dim = rotary_dim
    # No model runs with these: cat((freqs, freqs)) and the lanes that it multiplies differ in width.
    if dim % 2 or not 2 <= dim <= head_dim:
        raise ValueError(f"{dim} of {head_dim} lanes cannot be rotated in pairs")
    frequency = 1.0 / (float(rope_theta) ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim))
    return scaled(frequency, **rope_scaling)


def scaled(frequency, rope_type="default", factor=None):
    if rope_type == "default":
        return frequency
    if rope_type != "linear":
        raise ValueError(f"unknown rope_type {rope_type}")
    # As the configurations up to transformers 4.42 did; later ones only warn.
    if not factor or factor <= 0:
        raise ValueError(f"rope_scaling factor {factor}")
    return frequency / factor


def rope_inv_freq(**parameters):
    return {"inv_freq": inv_freq(**parameters), "attention_factor": torch.tensor(1.0)}


def angles(positions, frequency):
    """[..., T] and [P] to [..., T, P], the matrix product of LlamaRotaryEmbedding."""
    expanded = frequency[:, None].expand(*positions.shape[:-1], -1, 1)
    return (expanded @ positions[..., None, :].float()).transpose(-1, -2)


def rope_cos_sin(positions, **parameters):
    freqs = angles(positions, inv_freq(**parameters))
    emb = torch.cat((freqs, freqs), dim=-1)
    pairs = freqs.shape[-1]
    return {"cos": emb.cos()[..., :pairs], "sin": emb.sin()[..., :pairs]}


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


def rotate_every_two(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def turned(x, cos, sin, layout):
    """x [..., H, T, D] by cos, sin [..., T, P]."""
    if layout == "half":
        cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((sin, sin), dim=-1)
    else:
        cos, sin = torch.repeat_interleave(cos, 2, dim=-1), torch.repeat_interleave(sin, 2, dim=-1)
    cos, sin = cos.to(x.dtype).unsqueeze(-3), sin.to(x.dtype).unsqueeze(-3)
    width = cos.shape[-1]
    rotated, passed = x[..., :width], x[..., width:]
    other = rotate_half(rotated) if layout == "half" else rotate_every_two(rotated)
    return torch.cat((rotated * cos + other * sin, passed), dim=-1)


def rope_rotate(x, cos, sin, layout="half", inverse=False):
    if inverse:
        raise Unsupported("no inverse rotation")
    return turned(x.transpose(-2, -3), cos, sin, layout).transpose(-2, -3)


def rope_apply(x, positions, layout="half", inverse=False, **parameters):
    freqs = angles(positions, inv_freq(**parameters))
    return rope_rotate(x, freqs.cos(), freqs.sin(), layout, inverse)


# ALiBi: BLOOM's slopes, MPT's where alibi_bias_max is not 8; BLOOM's bias is slope * j, MPT's slope * (j - i).


def bloom_slopes(num_heads):
    whole = 2 ** math.floor(math.log2(num_heads))
    base = torch.tensor(2.0 ** -(2.0 ** (3 - math.log2(whole))), dtype=torch.float32)
    slopes = torch.pow(base, torch.arange(1, whole + 1, dtype=torch.int32))
    if whole == num_heads:
        return slopes
    extra_base = torch.tensor(2.0 ** -(2.0 ** (3 - math.log2(2 * whole))), dtype=torch.float32)
    powers = torch.arange(1, 2 * (num_heads - whole) + 1, 2, dtype=torch.int32)
    return torch.cat((slopes, torch.pow(extra_base, powers)))


def mpt_slopes(num_heads, bias_max):
    whole = 2 ** math.ceil(math.log2(num_heads))
    exponents = torch.arange(1, whole + 1).float() * (bias_max / whole)
    slopes = 1.0 / torch.pow(2, exponents)
    return slopes if whole == num_heads else torch.cat((slopes[1::2], slopes[::2]))[:num_heads]


def alibi_slopes(num_heads, rule="press", bias_max=8):
    if rule != "press":
        raise Unsupported("no geometric slopes")
    return bloom_slopes(num_heads) if bias_max == 8 else mpt_slopes(num_heads, bias_max)


def alibi_bias(q_positions, k_positions, num_heads, rule="press", bias_max=8, causal=True, form="distance", **shard):
    if shard:
        raise Unsupported("no shards of heads")
    slopes = alibi_slopes(num_heads, rule, bias_max)[:, None, None]
    if form == "key":
        return (slopes * k_positions[None, None, :]).expand(-1, len(q_positions), -1)
    distance = k_positions[None, :] - q_positions[:, None]
    # jina-bert's encoder has the symmetric form.
    return slopes * (distance if causal else -distance.abs())


# T5: T5Attention's buckets.


def t5_bucket(relative_positions, num_buckets=32, max_distance=128, bidirectional=True):
    buckets = torch.zeros_like(relative_positions)
    if bidirectional:
        num_buckets //= 2
        buckets += (relative_positions > 0).long() * num_buckets
        distance = torch.abs(relative_positions)
    else:
        distance = -torch.min(relative_positions, torch.zeros_like(relative_positions))
    max_exact = num_buckets // 2
    far = torch.log(distance.float() / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)
    far = torch.clamp(max_exact + far.long(), max=num_buckets - 1)
    return buckets + torch.where(distance < max_exact, distance, far)


def t5_bias(q_positions, k_positions, table, **parameters):
    buckets = t5_bucket(k_positions[None, :] - q_positions[:, None], **parameters)
    return F.embedding(buckets, table).permute(2, 0, 1)


# Attention: the eager form, scores in the type of the inputs and their softmax in f32.


def attention(q, k, v, scheme={}, causal=False, scale=None, q_positions=None, k_positions=None, key_mask=None, **tensors):
    name, parameters = scheme.get("name", "nope"), scheme.get("parameters", {})
    i = torch.arange(q.shape[-2]) if q_positions is None else q_positions
    j = torch.arange(k.shape[-2]) if k_positions is None else k_positions
    if name in ("alibi", "shaw", "t5") and (q.ndim > 3 and tensors or i.ndim + j.ndim > 2):
        raise Unsupported("one table and one set of relative positions for the whole batch")
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if name == "rope":
        q, k = q.transpose(-2, -3), k.transpose(-2, -3)
        q = rope_apply(q, i, **parameters).transpose(-2, -3)
        k = rope_apply(k, j, **parameters).transpose(-2, -3)
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    if name == "shaw":
        if "relative_values" in tensors:
            raise Unsupported("no value term")
        scores = scores + shaw_key_logits(q, tensors["relative_keys"], i, j, **parameters) * scale
    elif name == "alibi":
        bias = alibi_bias(i, j, **parameters)
        # BLOOM casts its bias to the type of the scores, MPT adds it in f32.
        scores = scores + (bias.to(scores.dtype) if parameters.get("form") == "key" else bias)
    elif name == "t5":
        scores = scores + t5_bias(i, j, tensors["table"], **parameters)

    hidden = torch.zeros(scores.shape[-2:], dtype=torch.bool)
    if causal:
        hidden = hidden | (j[..., None, :] > i[..., :, None])
    if key_mask is not None:
        hidden = hidden | (key_mask[..., None, :] == 0)
    # One mask for all heads: [..., Lq, Lk] to [..., 1, Lq, Lk].
    mask = torch.zeros(hidden.shape, dtype=scores.dtype).masked_fill(hidden, torch.finfo(scores.dtype).min)
    scores = scores + mask.unsqueeze(-3)
    weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype)
    return torch.matmul(weights, v)


def operation(function):
    """Tensors in, in the type of the wire; parameters as keywords, so that an unknown one is an error."""

    def run(parameters, **inputs):
        for name, values in inputs.items():
            dtype = FLOATS.get(posproof.wire_dtype(name), torch.int64)
            inputs[name] = torch.from_numpy(values).to(dtype)
        keywords = {name: value for name, value in parameters.items() if name != "dtype"}
        with torch.no_grad():
            result = function(**keywords, **inputs)
        if isinstance(result, dict):
            return {name: array(values) for name, values in result.items()}
        return array(result)

    return run


def array(tensor):
    # numpy has no bf16.
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


# No f16 matrix product on the CPU. Slopes and softmax are f32, so f64 would be one in name only.
DTYPES = {
    "shaw.key_logits": ["f64", "f32", "bf16"],
    "alibi.slopes": ["f32", "f16", "bf16"],
    "alibi.bias": ["f32", "f16", "bf16"],
    "attention": ["f32", "bf16"],
}
ROPE = {"rope_scaling.rope_type": ["default", "linear"]}

if __name__ == "__main__":
    torch.set_num_threads(1)
    posproof.serve(
        {
            "sinusoidal.table": operation(sinusoidal_table),
            "learned.embed": operation(learned_embed),
            "shaw.key_logits": operation(shaw_key_logits),
            "rope.inv_freq": operation(rope_inv_freq),
            "rope.cos_sin": operation(rope_cos_sin),
            "rope.apply": operation(rope_apply),
            "rope.rotate": operation(rope_rotate),
            "alibi.slopes": operation(alibi_slopes),
            "alibi.bias": operation(alibi_bias),
            "t5.bucket": operation(t5_bucket),
            "t5.bias": operation(t5_bias),
            "attention": operation(attention),
        },
        name="pytorch",
        version=torch.__version__,
        dtypes=DTYPES,
        parameters={"rope.inv_freq": ROPE, "rope.cos_sin": ROPE, "rope.apply": ROPE},
    )
