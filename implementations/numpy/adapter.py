"""Positional encodings as a careful person writes them in numpy: float64 inside, one rounding at the end.

Formulas: Vaswani 2017 section 3.5, Shaw 2018 eqs. 3-5, Su 2021 eq. 34, Press 2021 section 3,
Raffel 2020 section 2.1 with the buckets of mesh-tensorflow.
"""

import functools
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
import posproof


def one_of(name, value, *allowed):
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; allowed are {', '.join(allowed)}")


def at_least(name, value, lowest):
    if value < lowest:
        raise ValueError(f"{name} is {value}; it must be at least {lowest}")


def above_zero(name, value):
    if not value > 0:
        raise ValueError(f"{name} is {value}; it must be above 0")


# Sinusoidal and learned: rows that are added to the tokens.


def sinusoidal_table(positions, d_model, base=10000, layout="interleaved", denominator="half", odd="refuse", scale=1):
    at_least("d_model", d_model, 1)
    above_zero("base", base)
    one_of("layout", layout, "interleaved", "concat", "concat_cos_first")
    one_of("denominator", denominator, "half", "half_minus_one")
    one_of("odd", odd, "refuse", "zero_pad")
    if d_model % 2 and odd == "refuse":
        raise ValueError(f"d_model is {d_model}; it must be even")
    pairs = d_model // 2
    # A single pair has frequency 1 under either denominator.
    divisor = d_model / 2 if denominator == "half" else max(pairs - 1, 1)
    angle = positions[:, None].astype(np.float64) * base ** -(np.arange(pairs) / divisor)
    table = np.zeros((len(positions), d_model))
    if layout == "interleaved":
        table[:, 0 : 2 * pairs : 2], table[:, 1 : 2 * pairs : 2] = np.sin(angle), np.cos(angle)
    elif layout == "concat":
        table[:, :pairs], table[:, pairs : 2 * pairs] = np.sin(angle), np.cos(angle)
    else:
        table[:, :pairs], table[:, pairs : 2 * pairs] = np.cos(angle), np.sin(angle)
    return scale * table


def inside(rows, count):
    if rows.size and (rows.min() < 0 or rows.max() >= count):
        raise IndexError(f"row {rows.min()} to {rows.max()} of a table of {count}")
    return rows


def learned_embed(table, positions, offset=0, padding_idx=None):
    if positions.size:
        at_least("positions", positions.min(), 0)
    first = offset if padding_idx is None else offset + padding_idx + 1
    rows = inside(positions.astype(np.int64) + first, len(table))
    return table[rows]


# Shaw: one learned vector per clipped distance.


def relative_row(q_positions, k_positions, max_distance, sign="k-q"):
    at_least("max_distance", max_distance, 0)
    one_of("sign", sign, "k-q", "q-k")
    distance = k_positions.astype(np.int64)[None, :] - q_positions.astype(np.int64)[:, None]
    distance = distance if sign == "k-q" else -distance
    return np.clip(distance, -max_distance, max_distance) + max_distance


def relative_table(table, max_distance):
    if len(table) != 2 * max_distance + 1:
        raise ValueError(f"a table of {len(table)} rows; max_distance {max_distance} has {2 * max_distance + 1}")
    return table.astype(np.float64)


def shaw_key_logits(q, relative_keys, q_positions, k_positions, max_distance, sign="k-q"):
    rows = relative_row(q_positions, k_positions, max_distance, sign)
    return np.einsum("hqd,qkd->hqk", q.astype(np.float64), relative_table(relative_keys, max_distance)[rows])


def shaw_value_term(weights, relative_values, q_positions, k_positions, max_distance, sign="k-q"):
    rows = relative_row(q_positions, k_positions, max_distance, sign)
    return np.einsum("hqk,qkd->hqd", weights.astype(np.float64), relative_table(relative_values, max_distance)[rows])


# RoPE.


def rotary_width(head_dim, rotary_dim=None, partial_rotary_factor=None):
    at_least("head_dim", head_dim, 1)
    width = head_dim if rotary_dim is None else rotary_dim
    if partial_rotary_factor is not None:
        width = int(head_dim * partial_rotary_factor)
        if rotary_dim not in (None, width):
            raise ValueError(f"rotary_dim is {rotary_dim}, but head_dim {head_dim} times {partial_rotary_factor} is {width}")
    if width % 2 or not 2 <= width <= head_dim:
        raise ValueError(f"rotary_dim is {width}; it must be even, from 2 to head_dim {head_dim}")
    return width


def scaling_divisor(
    rope_type="default", factor=None, original_max_position_embeddings=None, attention_factor=None, beta_fast=32,
    beta_slow=1, mscale=None, mscale_all_dim=None, truncate=True, short_factor=None, long_factor=None,
    low_freq_factor=None, high_freq_factor=None, mrope_section=None, mrope_interleaved=False,
):  # fmt: skip
    one_of("rope_type", rope_type, "default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional")
    for name, value in {"factor": factor, "beta_fast": beta_fast, "beta_slow": beta_slow}.items():
        if value is not None:
            above_zero(name, value)
    if rope_type not in ("default", "linear") or mrope_section is not None:
        raise posproof.Unsupported("rope_type default and linear only, one axis")
    if rope_type == "default":
        return 1.0
    if factor is None:
        raise ValueError("rope_type linear needs a factor")
    return float(factor)


def frequencies(
    head_dim, rotary_dim=None, partial_rotary_factor=None, rope_theta=10000, rope_scaling={},
    max_position_embeddings=None, seq_len=None,
):  # fmt: skip
    width = rotary_width(head_dim, rotary_dim, partial_rotary_factor)
    above_zero("rope_theta", rope_theta)
    base = float(rope_theta)
    inv_freq = 1.0 / base ** (np.arange(0, width, 2) / width)
    try:
        return inv_freq / scaling_divisor(**rope_scaling)
    except TypeError as unknown_key:
        raise ValueError(f"rope_scaling: {unknown_key}") from None


def cos_sin(positions, frequency):
    position = positions.astype(np.float64)
    angle = position[..., None] * frequency
    return np.cos(angle), np.sin(angle)


def rotated(x, cos, sin, layout="half", inverse=False):
    """x [T,H,D] by cos, sin [T,pairs]; the lanes past the pairs stay as they are."""
    one_of("layout", layout, "half", "interleaved")
    if 2 * cos.shape[-1] > x.shape[-1]:
        raise ValueError(f"{cos.shape[-1]} pairs in a head of {x.shape[-1]}")
    pairs = cos.shape[-1]
    i = np.arange(pairs)
    first, second = (i, i + pairs) if layout == "half" else (2 * i, 2 * i + 1)
    c, s = cos[:, None, i], sin[:, None, i]
    s = -s if inverse else s
    y = x.astype(np.float64)
    x1, x2 = y[..., first], y[..., second]
    y[..., first], y[..., second] = x1 * c - x2 * s, x1 * s + x2 * c
    return y


def rope_inv_freq(**parameters):
    return {"inv_freq": frequencies(**parameters), "attention_factor": 1.0}


def rope_cos_sin(positions, **parameters):
    cos, sin = cos_sin(positions, frequencies(**parameters))
    return {"cos": cos, "sin": sin}


def rope_apply(x, positions, layout="half", inverse=False, **parameters):
    if x.shape[-1] != parameters.get("head_dim"):
        raise ValueError(f"head_dim is {parameters.get('head_dim')}, but x has {x.shape[-1]} lanes")
    cos, sin = cos_sin(positions, frequencies(**parameters))
    return rope_rotate(x, cos, sin, layout, inverse)


def rope_rotate(x, cos, sin, layout="half", inverse=False):
    cos, sin = cos.astype(np.float64), sin.astype(np.float64)
    if x.ndim == 3:
        return rotated(x, cos, sin, layout, inverse)
    return np.stack([rotated(x[b], cos[b], sin[b], layout, inverse) for b in range(len(x))])


# ALiBi.


def alibi_slopes(num_heads, rule="press", bias_max=8):
    at_least("num_heads", num_heads, 1)
    one_of("rule", rule, "press", "geometric")
    if rule == "geometric":
        return np.array([2.0 ** -(bias_max * h / num_heads) for h in range(1, num_heads + 1)])
    whole = 1 << (num_heads.bit_length() - 1)
    slopes = [2.0 ** -(bias_max * h / whole) for h in range(1, whole + 1)]
    # The heads beyond the power of two take every other slope of twice as many.
    slopes += [2.0 ** -(bias_max * h / (2 * whole)) for h in range(1, 2 * (num_heads - whole), 2)]
    return np.array(slopes)


def alibi_bias(
    q_positions, k_positions, num_heads, rule="press", bias_max=8, causal=True, form="distance", head_offset=0,
    local_heads=None,
):  # fmt: skip
    one_of("form", form, "distance", "key")
    slopes = alibi_slopes(num_heads, rule, bias_max)
    local_heads = num_heads - head_offset if local_heads is None else local_heads
    if head_offset < 0 or local_heads < 1 or head_offset + local_heads > num_heads:
        raise ValueError(f"heads {head_offset} to {head_offset + local_heads} of {num_heads}")
    heads = np.arange(head_offset, head_offset + local_heads)
    i, j = q_positions.astype(np.float64)[:, None], k_positions.astype(np.float64)[None, :]
    distance = np.broadcast_to(j, (len(i), j.size)) if form == "key" else j - i if causal else -np.abs(i - j)
    return slopes[heads, None, None] * distance


# T5.


@functools.lru_cache
def t5_begins(max_exact, max_distance, ranges):
    """The first distance of each logarithmic range but the first: a logarithm of floats misses some by one."""
    begins = []
    for t in range(1, ranges):
        power = max_distance**t * max_exact ** (ranges - t)
        n = round(max_exact * (max_distance / max_exact) ** (t / ranges)) - 1
        while n**ranges < power:
            n += 1
        begins.append(n)
    return begins


def t5_bucket(relative_positions, num_buckets=32, max_distance=128, bidirectional=True):
    sides = 2 if bidirectional else 1
    per_side = num_buckets // sides
    max_exact = per_side // 2
    if max_exact < 1 or max_distance <= max_exact:
        raise ValueError(f"{num_buckets} buckets, of which {max_exact} exact, up to distance {max_distance}")
    relative = relative_positions.astype(np.int64)
    side = np.where(relative > 0, per_side, 0) if bidirectional else 0
    distance = np.abs(relative) if bidirectional else np.maximum(-relative, 0)
    far = max_exact + np.searchsorted(t5_begins(max_exact, max_distance, per_side - max_exact), distance, side="right")
    return side + np.where(distance < max_exact, distance, far)


def t5_bias(q_positions, k_positions, table, num_buckets=32, **parameters):
    if len(table) != num_buckets:
        raise ValueError(f"a table of {len(table)} rows; num_buckets is {num_buckets}")
    relative = k_positions.astype(np.int64)[None, :] - q_positions.astype(np.int64)[:, None]
    buckets = t5_bucket(relative, num_buckets, **parameters)
    return np.moveaxis(table[buckets], -1, 0)


# Attention.

RANKS = {"q": 3, "k": 3, "v": 3, "q_positions": 1, "k_positions": 1, "key_mask": 1, "table": 2,
         "relative_keys": 2, "relative_values": 2}  # fmt: skip


def attention(scheme={"name": "nope"}, causal=False, scale=None, **inputs):
    if inputs["q"].ndim == 3:
        return one_attention(scheme, causal, scale, **inputs)
    rows = []
    for b in range(len(inputs["q"])):
        row = {name: values[b] if values.ndim > RANKS[name] else values for name, values in inputs.items()}
        rows.append(one_attention(scheme, causal, scale, **row))
    return np.stack(rows)


def one_attention(scheme, causal, scale, q, k, v, q_positions=None, k_positions=None, key_mask=None, **tensors):
    name, parameters = scheme["name"], scheme.get("parameters", {})
    q, k, v = (values.astype(np.float64) for values in (q, k, v))
    i = np.arange(q.shape[1]) if q_positions is None else q_positions.astype(np.int64)
    j = np.arange(k.shape[1]) if k_positions is None else k_positions.astype(np.int64)
    if name == "rope":
        q = rope_apply(q.swapaxes(0, 1), i, **parameters).swapaxes(0, 1)
        k = rope_apply(k.swapaxes(0, 1), j, **parameters).swapaxes(0, 1)
    logits = q @ k.swapaxes(1, 2)
    if name == "shaw":
        logits = logits + shaw_key_logits(q, tensors["relative_keys"], i, j, **parameters)
    logits = logits * (q.shape[-1] ** -0.5 if scale is None else scale)
    if name == "alibi":
        bias = alibi_bias(i, j, **parameters)
        if len(bias) != len(q):
            raise ValueError(f"slopes for {len(bias)} heads, but q has {len(q)}")
        logits = logits + bias
    elif name == "t5":
        logits = logits + t5_bias(i, j, tensors["table"], **parameters)
    elif name not in ("nope", "rope", "shaw"):
        raise posproof.Unsupported(f"scheme {name}")

    visible = np.ones(logits.shape[1:], bool)
    if causal:
        visible &= j[None, :] <= i[:, None]
    if key_mask is not None:
        visible &= key_mask[None, :] != 0
    if not visible.any(axis=1).all():
        raise ValueError("a query sees no key")
    logits = np.where(visible, logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    out = weights @ v
    if name == "shaw" and "relative_values" in tensors:
        out = out + shaw_value_term(weights, tensors["relative_values"], i, j, **parameters)
    return out


def operation(function):
    """Parameters as keywords: an unknown one is an error without another line."""

    def run(parameters, **inputs):
        return function(**{name: value for name, value in parameters.items() if name != "dtype"}, **inputs)

    return run


ROPE = {"rope_scaling.rope_type": ["default", "linear"]}

if __name__ == "__main__":
    posproof.serve(
        {
            "sinusoidal.table": operation(sinusoidal_table),
            "learned.embed": operation(learned_embed),
            "shaw.key_logits": operation(shaw_key_logits),
            "shaw.value_term": operation(shaw_value_term),
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
        name="numpy",
        version=np.__version__,
        parameters={"rope.inv_freq": ROPE, "rope.cos_sin": ROPE, "rope.apply": ROPE,
                    "attention": {"scheme.name": ["nope", "rope", "alibi", "shaw", "t5"]}},
    )  # fmt: skip
