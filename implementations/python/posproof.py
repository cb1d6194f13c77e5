"""posproof for Python: have your positional encodings judged, or ask for the true values.

To be judged, write plain functions and one call:

    import numpy, posproof

    def slopes(parameters):
        n = parameters["num_heads"]
        return 2.0 ** (-8.0 * numpy.arange(1, n + 1) / n)

    posproof.serve({"alibi.slopes": slopes}, name="mine", version="1.0")

    $ posproof verify cmd:"python3 mine.py"

To know what is right, inside a test of your own:

    with posproof.oracle() as truth:
        cos = truth("rope.cos_sin", {"head_dim": 64}, positions=[0, 1])["cos"]

`posproof list` names the operations, their parameters and their tensors.
Needs numpy and nothing else.
"""

import base64
import contextlib
import json
import os
import subprocess
import sys
import traceback

import numpy as np

PROTOCOL = 1
FLOATS = ("f64", "f32", "f16", "bf16")

_NUMPY = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "bf16": "<f4", "int64": "<i8", "int32": "<i4"}
_SPECIAL = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf, "-0": -0.0}
# Significant bits, exponent of the smallest subnormal.
_SHORT = {"f16": (11, -24), "bf16": (8, -133)}
_OUTPUT = {"sinusoidal.table": "table", "learned.embed": "rows", "shaw.key_logits": "logits",
           "shaw.value_term": "out", "rope.apply": "y", "rope.rotate": "y", "alibi.slopes": "slopes",
           "alibi.bias": "bias", "t5.bucket": "buckets", "t5.bias": "bias", "attention": "out"}
# Where float inputs differ in type (a bf16 x with f32 cos), these name the output's.
_LEADING = ("x", "q", "weights", "table")

_wire = {}


class Unsupported(Exception):
    """Raise it in an operation for what the implementation does not have; posproof counts no failure."""


def round_to(values, dtype):
    """Values rounded once to `dtype`, to nearest even.

    dtype: f64, f32, f16, bf16, int64, int32. The result has the numpy type of that name, float32
    for bf16. Overflow is infinite, subnormals are kept, -0 and NaN too. TypeError for fractions
    where an integer is due, OverflowError for an integer that does not fit.
    """
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"numbers expected, got {values.dtype}")
    target = np.dtype(_NUMPY[dtype])
    if target.kind == "i":
        if values.dtype.kind == "f":
            raise TypeError(f"{dtype} expected, got {values.dtype}")
        if values.size and not (np.iinfo(target).min <= int(values.min()) and int(values.max()) <= np.iinfo(target).max):
            raise OverflowError(f"an integer does not fit {dtype}")
        return values.astype(target)
    with np.errstate(all="ignore"):
        if dtype not in _SHORT:
            return values.astype(target)
        bits, smallest = _SHORT[dtype]
        wide = values.astype(np.promote_types(values.dtype, np.float64))
        quantum = np.maximum(np.frexp(wide)[1] - bits, smallest)
        return np.asarray(np.ldexp(np.rint(np.ldexp(wide, -quantum)), quantum)).astype(target)


def encode(values, dtype, numbers=False):
    """The protocol's TENSOR of an array: base64, or a list of numbers."""
    values = round_to(values, dtype)
    if numbers:
        data = [_spelled(v) for v in values.ravel().tolist()]
    else:
        if dtype == "bf16":
            values = (values.view("<u4") >> 16).astype("<u2")
        data = base64.b64encode(values.tobytes()).decode()
    return {"dtype": dtype, "shape": list(values.shape), "data": data}


def decode(tensor):
    """The array of a TENSOR; bf16 comes as float32. ValueError says what is wrong with it."""
    if not isinstance(tensor, dict) or not {"dtype", "shape", "data"} <= tensor.keys():
        raise ValueError("a tensor has dtype, shape and data")
    dtype, shape, data = tensor["dtype"], tensor["shape"], tensor["data"]
    if dtype not in _NUMPY:
        raise ValueError(f"unknown dtype {dtype!r}; known are {', '.join(_NUMPY)}")
    if any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"shape {shape}")
    if isinstance(data, str):
        raw = base64.b64decode(data, validate=True)
        if dtype == "bf16":
            values = (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
        else:
            values = np.frombuffer(raw, _NUMPY[dtype])
    elif dtype in FLOATS:
        values = round_to(np.array([_read(v) for v in data], "f8"), dtype)
    else:
        values = round_to(np.array(data) if data else np.zeros(0, "i8"), dtype)
    return values.reshape(shape).copy()


def _read(value):
    if isinstance(value, str) and value not in _SPECIAL:
        raise ValueError(f"{value!r} is no number")
    return _SPECIAL.get(value, value)


def _spelled(value):
    if isinstance(value, int):
        return value
    if value != value:
        return "NaN"
    if value in (np.inf, -np.inf):
        return "Infinity" if value > 0 else "-Infinity"
    return "-0" if value == 0 and np.signbit(value) else value


def wire_dtype(name=None):
    """The type that input `name` has on the wire in the running call; without a name, the outputs'.

    For functions that round as they go: a bf16 input arrives as float32, and only this tells.
    """
    return _wire["inputs"][name] if name else _wire["output"]


def serve(operations, name, version="", dtypes=FLOATS, parameters=None):
    """Answers posproof on stdin and stdout until it says stop; the heart of an adapter.

    operations: {"rope.apply": fn}, each called as fn(parameters, **inputs): the parameters are a
        dict, the inputs numpy arrays under the names of the operation (bf16 as float32). It returns
        the output, or a dict of them where there are several. They are rounded to the type of the
        float inputs, else to parameters["dtype"] (f64); integer arrays of operations without float
        inputs go out as int64.
    dtypes: the float types that it takes, for all operations or as {operation: [...]}.
    parameters: {operation: {parameter: [values it takes]}}; one left out takes anything.

    A ValueError or IndexError is a refusal, Unsupported says so, any other exception is an error;
    its traceback goes to stderr, once per line that raised, and so does whatever the functions print.
    """
    dtypes = dtypes if isinstance(dtypes, dict) else {operation: dtypes for operation in operations}
    parameters = parameters or {}
    for declared in {*dtypes, *parameters} - operations.keys():
        raise ValueError(f"{declared} is declared but not served")
    about = {"protocol": PROTOCOL,
             "implementation": {"name": name, "version": version, "language": "python"}, "base64": True,
             "operations": {o: {"dtypes": list(dtypes.get(o, FLOATS)), "parameters": parameters.get(o, {})}
                            for o in operations}}

    # Nobody else may write to, or read from, the two ends of the protocol: not print(), not a C library.
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)
    sys.stdout = sys.stderr

    for line in requests:
        try:
            request = json.loads(line)
            command = request["cmd"]
        except (ValueError, KeyError, TypeError):
            answer = {"id": None, "error": f"not a request: {line[:80].decode(errors='replace').strip()}"}
        else:
            if command == "stop":
                return
            if command == "start":
                asked = request.get("protocol")
                answer = about if asked == PROTOCOL else {"error": f"protocol {asked} asked, {PROTOCOL} spoken"}
            elif command == "run":
                answer = {"id": request.get("id"), **_run(operations, request)}
            else:
                answer = {"id": request.get("id"), "error": f"unknown cmd {command!r}"}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def _run(operations, request):
    operation, arguments = request.get("operation"), request.get("parameters", {})
    if operation not in operations:
        return {"unsupported": f"{operation} is not served"}
    inputs = {}
    for name, tensor in request.get("inputs", {}).items():
        try:
            inputs[name] = decode(tensor)
        except Exception as why:
            return {"error": f"input {name}: {why!r}"}
    _wire["inputs"] = {name: tensor["dtype"] for name, tensor in request.get("inputs", {}).items()}
    floats = {name: dtype for name, dtype in _wire["inputs"].items() if dtype in FLOATS}
    leading = [floats[name] for name in _LEADING if name in floats] or list(floats.values())
    _wire["output"] = leading[0] if leading else arguments.get("dtype", "f64")
    try:
        result = operations[operation](arguments, **inputs)
        if not isinstance(result, dict):
            result = {_OUTPUT.get(operation): result}
    except Unsupported as why:
        return {"unsupported": str(why)}
    except (ValueError, IndexError) as why:
        return {"refused": str(why) or type(why).__name__}
    except Exception as why:
        return _failed(why)
    try:
        if None in result:
            raise TypeError(f"{operation} has to return a dict of its outputs")
        outputs = {}
        for name, values in result.items():
            whole = not floats and np.asarray(values).dtype.kind in "iu"
            outputs[name] = encode(values, "int64" if whole else _wire["output"])
        return {"outputs": outputs}
    except Exception as why:
        return _failed(why)


_told = set()


def _failed(why):
    place = traceback.extract_tb(why.__traceback__)[-1]
    if (place.filename, place.lineno) not in _told:  # once: laws ask what must be refused many times
        _told.add((place.filename, place.lineno))
        traceback.print_exception(type(why), why, why.__traceback__)
    return {"error": f"{type(why).__name__}: {why}"}


@contextlib.contextmanager
def oracle(command="posproof", implementation="builtin:reference"):
    """The true values, from `posproof serve`; use it with `with`.

    It gives truth(operation, parameters, dtypes, **inputs) -> {output name: array}.
    dtypes: the type of the float inputs, one name for all or {input: name}; those not named go by
    their own numpy type, lists of whole numbers as int64 and other lists as f64.
    ValueError where the operation refuses its input, RuntimeError for any other trouble.

        with posproof.oracle() as truth:
            truth("rope.apply", {"head_dim": 4}, "bf16", x=[[[1., 2., 3., 4.]]], positions=[1])["y"]
    """
    words = [command] if isinstance(command, (str, os.PathLike)) else list(command)
    words += ["serve", implementation]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(request):
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass
        line = process.stdout.readline()
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise RuntimeError(f"{words}: " + (f"not an answer: {line[:80]!r}" if line else "ended without an answer"))
        return answer

    def truth(operation, parameters=None, dtypes=None, /, **inputs):
        tensors = {}
        for name, values in inputs.items():
            values = np.asarray(values)
            named = dtypes.get(name) if isinstance(dtypes, dict) else dtypes if values.dtype.kind == "f" else None
            own = {"<f4": "f32", "<f2": "f16", "<i4": "int32"}.get(values.dtype.newbyteorder("<").str)
            dtype = named or own or ("f64" if values.dtype.kind == "f" else "int64")
            tensors[name] = encode(values, dtype, numbers=not start.get("base64"))
        answer = ask({"cmd": "run", "id": 0, "operation": operation, "parameters": parameters or {}, "inputs": tensors})
        if "refused" in answer:
            raise ValueError(answer["refused"])
        if "outputs" not in answer:
            raise RuntimeError(f"{operation}: {answer}")
        return {name: decode(tensor) for name, tensor in answer["outputs"].items()}

    try:
        start = ask({"cmd": "start", "protocol": PROTOCOL})
        if start.get("protocol") != PROTOCOL:
            raise RuntimeError(f"{words}: {start}")
        yield truth
    finally:
        with contextlib.suppress(OSError):
            process.stdin.write(b'{"cmd":"stop"}\n')
            process.stdin.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


if __name__ == "__main__":
    print(__doc__)
