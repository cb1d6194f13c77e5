#!/usr/bin/python3
"""Times PyTorch's fastest way through each work, on one thread; an object a line, see child.h.

"Fastest" was measured here among what PyTorch 1.13's operators can say: Hugging Face's code, the same with
out=, in place, by chunks that stay in cache, through complex numbers, and for f16 by way of f32.
"""

import json
import math
import os
import sys
import time
from pathlib import Path

ENVIRONMENT = {
    "ATEN_CPU_CAPABILITY": "avx512",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_CORETYPE": "SkylakeX",
    # Results in pages that are there already and are huge.
    "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=8589934592"
    ":glibc.malloc.hugetlb=1",
}
# The BLAS that Debian prefers may be the reference one, 30 times slower; `install` fetches OpenBLAS.
openblas = Path(__file__).resolve().parent / "node_modules/openblas/usr/lib/x86_64-linux-gnu/openblas-serial"
if openblas.is_dir():
    ENVIRONMENT["LD_LIBRARY_PATH"] = str(openblas)
with open("/proc/cpuinfo") as cpuinfo:
    if not {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= set(cpuinfo.read().split()):
        del ENVIRONMENT["ATEN_CPU_CAPABILITY"], ENVIRONMENT["OPENBLAS_CORETYPE"]
# The dynamic linker reads these before Python runs.
if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ENVIRONMENT})

import torch
import torch.nn.functional as F

torch.set_num_threads(1)
torch.set_grad_enabled(False)
torch.manual_seed(1)

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
PAIRS = 64
HEADS = 32


def inverse_frequencies():
    return (10000.0 ** (-torch.arange(PAIRS, dtype=torch.float64) / PAIRS)).float()


# cos and sin tables


def table(begin, count, cos=None, sin=None):
    """By chunks of rows, so that both functions read the angles from cache."""
    inv_freq = inverse_frequencies()
    positions = torch.arange(begin, begin + count).float()[:, None].split(1024)
    cos = torch.zeros(count, PAIRS) if cos is None else cos
    sin = torch.zeros(count, PAIRS) if sin is None else sin
    angle = torch.empty(min(count, 1024), PAIRS)

    def run():
        for p, c, s in zip(positions, cos.split(1024), sin.split(1024)):
            torch.mul(p, inv_freq, out=angle)
            torch.cos(angle, out=c)
            torch.sin(angle, out=s)
        return cos, sin

    return run


# RoPE


def rope_inputs(dtype, tokens, begin=0):
    cos, sin = table(begin, tokens)()
    x = torch.randn(tokens, HEADS, 2 * PAIRS).to(dtype)
    return x, cos[:, None], sin[:, None]


def halves(x):
    return x[..., :PAIRS], x[..., PAIRS:]


def rope_half_out(x, cos, sin):
    """Into another tensor: fastest where all of it stays in cache."""
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    y = torch.empty_like(x)
    x1, x2 = halves(x)
    y1, y2 = halves(y)

    def run():
        torch.mul(x1, cos, out=y1).addcmul_(x2, sin, value=-1)
        torch.mul(x2, cos, out=y2).addcmul_(x1, sin)
        return y

    return run


def rope_half_in_place(x, cos, sin, chunk):
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    kept = torch.empty(chunk, HEADS, PAIRS, dtype=x.dtype)

    def run():
        for part, c, s in zip(x.split(chunk), cos.split(chunk), sin.split(chunk)):
            x1, x2 = halves(part)
            torch.mul(x1, s, out=kept)
            x1.mul_(c).addcmul_(x2, s, value=-1)
            x2.mul_(c).add_(kept)
        return x

    return run


def rope_half_by_f32(x, cos, sin, chunk):
    """f16 has no addcmul, and its other operators are not vectorised."""
    wide = torch.empty(chunk, HEADS, 2 * PAIRS)
    x1, x2 = halves(wide)
    kept = torch.empty(chunk, HEADS, PAIRS)

    def run():
        for part, c, s in zip(x.split(chunk), cos.split(chunk), sin.split(chunk)):
            wide.copy_(part)
            torch.mul(x1, s, out=kept)
            x1.mul_(c).addcmul_(x2, s, value=-1)
            x2.mul_(c).add_(kept)
            part.copy_(wide)
        return x

    return run


def as_complex(x):
    return torch.view_as_complex(x.view(*x.shape[:-1], PAIRS, 2))


def rope_interleaved_complex(x, cos, sin):
    """As Meta's llama does, in place."""
    pairs, turns = as_complex(x), torch.complex(cos, sin)

    def run():
        pairs.mul_(turns)
        return x

    return run


def rope_interleaved_by_f32(x, cos, sin, chunk):
    """Strided 16-bit operators take 12 times as long."""
    wide = torch.empty(chunk, HEADS, 2 * PAIRS)
    pairs, turns = as_complex(wide), torch.complex(cos, sin)

    def run():
        for part, z in zip(x.split(chunk), turns.split(chunk)):
            wide.copy_(part)
            pairs.mul_(z)
            part.copy_(wide)
        return x

    return run


def rope(dtype, layout, size):
    tokens = {"memory": 4096, "cache": 64}[size]
    inputs = rope_inputs(DTYPES[dtype], tokens)
    if dtype == "f32" and layout == "interleaved":
        return rope_interleaved_complex(*inputs)
    if layout == "interleaved":
        return rope_interleaved_by_f32(*inputs, chunk={"memory": 128, "cache": 16}[size])
    if dtype == "f16":
        return rope_half_by_f32(*inputs, chunk=min(tokens, 128))
    if size == "cache":
        return rope_half_out(*inputs)
    return rope_half_in_place(*inputs, chunk={"f32": 32, "bf16": 128}[dtype])


def rope_decode():
    """Its row of cos and sin is looked up in a table made before."""
    x = torch.randn(1, HEADS, 2 * PAIRS)
    y = torch.empty_like(x)
    all_cos, all_sin = table(0, 4096)()
    x1, x2 = halves(x)
    y1, y2 = halves(y)

    def run():
        cos, sin = all_cos[4000], all_sin[4000]
        torch.mul(x1, cos, out=y1).addcmul_(x2, sin, value=-1)
        torch.mul(x2, cos, out=y2).addcmul_(x1, sin)
        return y

    run.x = x
    return run


# Biases


def slopes():
    return 2.0 ** (-8 * torch.arange(1, HEADS + 1) / HEADS)


def alibi_fill(length=2048):
    m = slopes()[:, None, None]
    bias = torch.zeros(HEADS, length, length)

    def run():
        i = torch.arange(length).float()
        distance = (i[:, None] - i[None]).abs_().neg_()
        return torch.mul(m, distance, out=bias)

    return run


def alibi_add(length=2048):
    """As BLOOM and MPT do: softmax does not see what a row has in common, so key positions will do."""
    bias = slopes()[:, None, None] * torch.arange(1 - length, 1).float()
    scores = torch.zeros(HEADS, length, length)
    run = lambda: scores.add_(bias)
    run.bias = bias
    return run


def t5_bucket(relative_position, num_buckets=32, max_distance=128):
    num_buckets //= 2
    bucket = (relative_position > 0).to(torch.long) * num_buckets
    distance = torch.abs(relative_position)
    max_exact = num_buckets // 2
    large = max_exact + (
        torch.log(distance.float() / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)
    ).to(torch.long)
    large = torch.min(large, torch.full_like(large, num_buckets - 1))
    return bucket + torch.where(distance < max_exact, distance, large)


def t5_fill(length=1024, heads=8):
    """Hugging Face's compute_bias: every pair gets a bucket of its own, the result is a permuted view.

    One who knows that the bias is Toeplitz makes it in a seventh of the time with as_strided.
    """
    weight = torch.randn(32, heads)

    def run():
        query = torch.arange(length)[:, None]
        key = torch.arange(length)[None]
        return F.embedding(t5_bucket(key - query), weight).permute(2, 0, 1).unsqueeze(0)

    run.weight = weight
    return run


# Shaw


def shaw_index(length, k):
    i = torch.arange(length)
    return (i[None] - i[:, None]).clamp(-k, k) + k


def shaw_logits(length=1024, width=64, heads=8, k=16):
    """q·Eᵀ, then gather; an einsum over E[index] takes ten times as long."""
    q = torch.randn(heads, length, width)
    embedding = torch.randn(2 * k + 1, width)
    index = shaw_index(length, k).expand(heads, -1, -1)
    logits = torch.zeros(heads, length, length)
    run = lambda: torch.gather(q @ embedding.t(), 2, index, out=logits)
    run.inputs = q, embedding
    return run


def shaw_values(length=1024, width=64, heads=8, k=16):
    """The weights of each clipped offset, then one product.

    The inner offsets are a band that as_strided reads, both ends sums under a mask, as a product. scatter_add
    takes four times as long, so does an einsum over E[index].
    """
    weights = torch.softmax(torch.randn(heads, length, length), -1)
    embedding = torch.randn(2 * k + 1, width)
    offset = torch.arange(length)[None] - torch.arange(length)[:, None]
    ends = torch.stack((offset <= -k, offset >= k), -1).float()
    row = length + 2 * k

    def run():
        padded = F.pad(weights, (k, k))
        of_offset = padded.as_strided((heads, length, 2 * k + 1), (length * row, row + 1, 1)).clone()
        of_offset[..., :: 2 * k] = torch.bmm(weights.transpose(0, 1), ends).transpose(0, 1)
        return of_offset @ embedding

    run.inputs = weights, embedding
    return run


# Learned


def learned_inputs(size=4096):
    return torch.randn(size, size), torch.randperm(size), torch.zeros(size, size)


def learned_gather(size=4096):
    rows, positions, y = learned_inputs(size)
    run = lambda: torch.index_select(rows, 0, positions, out=y)
    run.inputs = rows, positions
    return run


def learned_add(size=4096):
    """Whole: chunks that stay in cache gain nothing."""
    rows, positions, y = learned_inputs(size)
    x = torch.randn(size, size)
    run = lambda: torch.add(x, torch.index_select(rows, 0, positions, out=y), out=y)
    run.inputs = rows, positions, x
    return run


WORKS = {
    "table_f32_memory": lambda: table(0, 131072),
    "table_f32_cache": lambda: table(0, 2048),
    "table_f32_row": lambda: table(100000, 1),
    **{
        f"rope_{dtype}_{layout}_{size}": lambda dtype=dtype, layout=layout, size=size: rope(dtype, layout, size)
        for dtype in DTYPES
        for layout in ("half", "interleaved")
        for size in ("memory", "cache")
    },
    "rope_f32_half_decode": rope_decode,
    "alibi_fill_f32": alibi_fill,
    "alibi_add_f32": alibi_add,
    "t5_fill_f32": t5_fill,
    "shaw_logits_f32": shaw_logits,
    "shaw_values_f32": shaw_values,
    "learned_gather_f32": learned_gather,
    "learned_add_f32": learned_add,
}


# Checks: small sizes against the plain formula in f64.


def near(what, got, expected, tolerance):
    worst = (got.double() - expected).abs().max().item()
    if not worst <= tolerance or got.shape != expected.shape:
        sys.exit(f"PyTorch: {what} is off by {worst}, allowed {tolerance}")


def exact_turns(begin, count):
    angle = torch.arange(begin, begin + count).double()[:, None] * 10000.0 ** (
        -torch.arange(PAIRS, dtype=torch.float64) / PAIRS
    )
    return torch.polar(torch.ones_like(angle), angle)


def rotated(x, turns, layout):
    x = x.double()
    if layout == "interleaved":
        return torch.view_as_real(as_complex(x) * turns[:, None]).reshape(x.shape)
    y = torch.complex(*halves(x)) * turns[:, None]
    return torch.cat((y.real, y.imag), -1)


def check():
    for begin, count in ((0, 2048), (100000, 1), (131008, 64)):
        cos, sin = table(begin, count)()
        turns = exact_turns(begin, count)
        near("cos", cos, turns.real, 1e-2)
        near("sin", sin, turns.imag, 1e-2)

    turns = exact_turns(0, 64)
    for dtype, tolerance in (("f32", 1e-4), ("f16", 1e-2), ("bf16", 8e-2)):
        for layout, ways in {
            "half": {
                "f32": [rope_half_out, lambda *a: rope_half_in_place(*a, chunk=32)],
                "f16": [lambda *a: rope_half_by_f32(*a, chunk=32)],
                "bf16": [rope_half_out, lambda *a: rope_half_in_place(*a, chunk=32)],
            }[dtype],
            "interleaved": [rope_interleaved_complex]
            if dtype == "f32"
            else [lambda *a: rope_interleaved_by_f32(*a, chunk=16)],
        }.items():
            for way in ways:
                x, cos, sin = rope_inputs(DTYPES[dtype], 64)
                expected = rotated(x, turns, layout)
                near(f"rope {dtype} {layout}", way(x, cos, sin)(), expected, tolerance)
    decode = rope_decode()
    near("rope decode", decode(), rotated(decode.x, exact_turns(4000, 1), "half"), 5e-3)

    n = 200
    i = torch.arange(n).double()
    m = 2.0 ** (-torch.arange(1, HEADS + 1, dtype=torch.float64) / 4)[:, None, None]
    near("alibi bias", alibi_fill(n)(), -m * (i[:, None] - i[None]).abs(), 1e-4)
    near("alibi scores", alibi_add(n)(), (m * (i - n + 1)).expand(-1, n, -1), 1e-4)

    fill = t5_fill(n)
    offset = (i[None] - i[:, None]).long()
    bucket = [
        16 * (o > 0) + (abs(o) if abs(o) < 8 else min(15, 8 + int(math.log(abs(o) / 8) / math.log(16) * 8 + 1e-9)))
        for o in offset.flatten().tolist()
    ]
    expected = fill.weight.double()[torch.tensor(bucket)].view(n, n, -1).permute(2, 0, 1)[None]
    near("t5 bias", fill(), expected, 0)

    index = offset.clamp(-16, 16) + 16
    logits, values = shaw_logits(n), shaw_values(n)
    q, embedding = logits.inputs
    near("shaw logits", logits(), torch.einsum("hid,ijd->hij", q.double(), embedding.double()[index]), 1e-4)
    weights, embedding = values.inputs
    near("shaw values", values(), torch.einsum("hij,ijd->hid", weights.double(), embedding.double()[index]), 1e-4)

    gather, add = learned_gather(n), learned_add(n)
    rows, positions = gather.inputs
    near("learned rows", gather(), torch.stack([rows[p] for p in positions.tolist()]).double(), 0)
    rows, positions, x = add.inputs
    near("learned sums", add(), x.double() + torch.stack([rows[p] for p in positions.tolist()]), 1e-5)


def timed(work, seconds):
    run = WORKS[work]()
    now = time.perf_counter_ns
    run()
    batch = 1
    while batch < 1 << 24:
        start = now()
        for _ in range(batch):
            run()
        if now() - start >= 50000:
            break
        batch *= 2
    nanoseconds = []
    start = now()
    while len(nanoseconds) < 3 or now() - start < seconds * 1e9:
        begin = now()
        for _ in range(batch):
            run()
        nanoseconds.append((now() - begin) / batch)
    nanoseconds.sort()
    n = len(nanoseconds)
    median = (nanoseconds[(n - 1) // 2] + nanoseconds[n // 2]) / 2
    return {"work": work, "min_ns": nanoseconds[0], "median_ns": median, "runs": n * batch}


def gemm_rate():
    """GFLOP/s of a square product: a BLAS that does not know the CPU shows here."""
    a = torch.randn(1024, 1024)
    best = math.inf
    for _ in range(4):
        start = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - start)
    return round(2 * 1024**3 / best / 1e9, 1)


def main():
    check()
    start = {"peer": "PyTorch", "version": torch.__version__, "works": list(WORKS), "gemm_gflops": gemm_rate()}
    print(json.dumps(start), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        work = request["work"]
        if work in WORKS:
            answer = timed(work, request.get("seconds", 0.3))
        else:
            answer = {"work": work, "unsupported": "PyTorch has no such operator"}
        print(json.dumps(answer), flush=True)


main()
