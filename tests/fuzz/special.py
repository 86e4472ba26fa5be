"""Kinds of lines: random numbers, CTC, local convolution, sparse matrices."""

from __future__ import annotations

import numpy as np

from fuzz.catalogue import entry
from fuzz.writer import Writer

# --- random numbers -------------------------------------------------------------------------------


def portable(w: Writer, text: str) -> str:
    """Text of a tensor that is equal on all engines."""
    return f"[K.set_random_seed({w.below(99)}, portable=True), {text}, K.set_random_seed(None)][1]"


@entry(3)
def random(w: Writer) -> str:
    """Samples of the portable generator, which are compared one by one."""
    shape, dtype = w.shape(), w.dtype("float")
    if w.chance(40):
        x = w.tensor("float", where=lambda v: v.ndim >= 1, shape=lambda: w.shape(2))
        noise = tuple(1 if w.chance(40) else n for n in x.shape)
        drawn = w.pick((
            f"K.dropout({x}, {w.pick(('0.5', '0.1', '0.9'))}, seed={w.below(99)})",
            f"K.dropout({x}, 0.5, {noise}, seed={w.below(99)})",
            f"K.map_fn(lambda e: e + K.random_uniform((), seed={w.below(99)}, dtype={x.dtype!r}), {x})",
        ))  # fmt: skip
        return portable(w, drawn)
    rest = f"dtype={dtype!r}, seed={w.below(99)}"
    kind = w.pick(("uniform", "normal", "binomial", "truncated"))
    drawn = {
        "uniform": f"K.random_uniform({shape}, -1.0, 2.0, {rest})",
        "normal": f"K.random_normal({shape}, 0.5, 2.0, {rest})",
        "binomial": f"K.random_binomial({shape}, 0.3, {rest})",
        "truncated": f"K.truncated_normal({shape}, 0.0, 1.0, {rest})",
    }[kind]
    return portable(w, drawn)


@entry(1)
def moments(w: Writer) -> str:
    """Moments and limits of samples of the engine's own generator."""
    rest = f"dtype={w.pick(('float32', 'float64'))!r}, seed={w.below(999)}"
    uniform = f"K.random_uniform((4000,), 2.0, 3.0, {rest})"
    power = w.pick((1, 2, 3))
    return str(w.pick((
        f"K.mean(K.pow({uniform}, {power}))",
        f"K.mean(K.pow(K.random_normal((4000,), 1.0, 0.5, {rest}), {power}))",
        f"K.std(K.truncated_normal((4000,), 0.0, 1.0, {rest}))",
        f"K.mean(K.random_binomial((4000,), 0.3, {rest}))",
        f"K.all(K.greater_equal({uniform}, 1.99))",
        f"K.any(K.greater({uniform}, 3.01))",
        f"K.max(K.abs(K.truncated_normal((4000,), 0.0, 1.0, {rest}))) < 2.01",
    )))  # fmt: skip


# --- classes and sequences ------------------------------------------------------------------------


@entry(2)
def ctc(w: Writer) -> str:
    """The CTC loss of a softmax."""
    x = w.tensor(
        "float", rank=3, where=lambda v: v.shape[1] > 0 and v.shape[2] > 1,
        shape=lambda: (w.between(1, 2), w.between(1, 5), w.between(2, 4)),
    )  # fmt: skip
    if x.shape[1] == 0 or x.shape[2] < 2:
        return f"K.square({x})"
    samples, steps, classes = x.shape
    most = w.between(1, 3)
    labels, ends, lengths = (w.input((samples, n), "int32") for n in (most, 1, 1))
    return (
        f"K.ctc_batch_cost(K.clip({labels}, 0, {classes - 2}), K.softmax({x}),"
        f" K.clip({ends}, 1, {steps}), K.clip({lengths}, 0, {most}))"
    )


@entry(1)
def top(w: Writer) -> str | None:
    x = w.tensor("float", rank=2, where=lambda v: v.shape[1] > 0, shape=lambda: (w.size(), 3))
    if x.shape[1] == 0:
        return None
    targets = w.input((x.shape[0],), w.pick(("int32", "int64")))
    return f"K.in_top_k({x}, K.clip({targets}, 0, {x.shape[1] - 1}), {w.between(1, 4)})"


# --- windows --------------------------------------------------------------------------------------


@entry(2)
def convolve_locally(w: Writer) -> str:
    spatial, last = w.pick((1, 2)), w.chance(60)
    window, stride = w.between(1, 2), w.between(1, 2)
    out = [w.between(1, 3) for _ in range(spatial)]
    space = [(n - 1) * stride + window for n in out]
    batch, channels, filters = w.pick((1, 2, 3, 0)), w.between(1, 2), w.between(1, 2)
    last = last or spatial == 1
    x = w.exactly((batch, *space, channels) if last else (batch, channels, *space))
    kernel = w.weights((int(np.prod(out)), window**spatial * channels, filters), x.dtype)
    layout = "channels_last" if last else "channels_first"
    sizes = f"{(window,) * spatial}, {(stride,) * spatial}"
    if spatial == 1:
        return f"K.local_conv1d({x}, {kernel}, {sizes}, {layout!r})"
    return f"K.local_conv2d({x}, {kernel}, {sizes}, {tuple(out)}, {layout!r})"


# --- sparse matrices ------------------------------------------------------------------------------


@entry(2)
def sparse(w: Writer) -> str:
    """A product with a sparse matrix, or its dense form."""
    rows, columns = w.size(), w.size()
    dtype = w.pick(("float32", "float64"))
    value = (
        f"np.random.default_rng({w.below(999)}).choice([0.0, 0.0, 0.0, 1.5, -2.0, 0.1],"
        f" {(rows, columns)}).astype({dtype!r})"
    )
    x = w.sparse((rows, columns), dtype, value)
    if w.chance(40):
        return f"K.to_dense({x})"
    if w.chance(20):
        return f"K.square({x})"
    return f"K.dot({x}, {w.exactly((columns, w.size()), 'float', dtype)})"
