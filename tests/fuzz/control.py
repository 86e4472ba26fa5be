"""Kinds of lines: branches, loops, gradients."""

from __future__ import annotations

from backplane.core.graph import toposort
from backplane.core.spec import is_float
from fuzz.catalogue import entry, with_axes
from fuzz.writer import Var, Writer

# --- loops and branches ---------------------------------------------------------------------------


@entry(3)
def branch(w: Writer) -> str:
    x = w.tensor("float")
    y = w.exactly(x.shape, "float", x.dtype)
    one, two = f"lambda: {x} * {y}", f"lambda: K.tanh({y})"
    if w.chance(40):
        return f"K.in_train_phase({one}, {two})"
    return f"K.switch({w.exactly((), 'bool')}, {one}, {two})"


@entry(5)
def recur(w: Writer) -> str:
    x = w.tensor("float", rank=3)
    units = w.pick((2, 3, 1))
    state = w.exactly((x.shape[0], units), "float", x.dtype)
    inner, outer = (w.exactly((n, units), "float", x.dtype) for n in (x.shape[2], units))
    step = w.pick((
        f"K.tanh(K.dot(x, {inner}) + K.dot(s[0], {outer}))",
        f"K.sigmoid(K.dot(x, {inner})) * s[0] + K.mean(K.dot(s[0], {outer}))",
        f"0.5 * s[0] + K.dot(x, {inner})",
    ))  # fmt: skip
    mask = f"{w.exactly(x.shape[:2], 'bool')}" if w.chance(30) and x.shape[1] else None
    unroll = w.chance(15) and 0 < x.shape[1] < 6 and mask is None
    inputs = f"K.reshape({x}, {x.shape})" if unroll else x
    return (
        f"K.rnn(lambda x, s: (lambda y: (y, [y]))({step}), {inputs}, [{state}],"
        f" go_backwards={w.chance(30)}, mask={mask}, unroll={unroll}){w.pick(('[0]', '[1]', '[2][0]'))}"
    )


@entry(4)
def fold(w: Writer) -> str | None:
    x = with_axes(w)
    if w.chance(40):
        body = w.pick(
            (
                f"K.square(e) + {w.number()}",
                "K.exp(-K.abs(e))",
                "K.sum(e) * e",
                "e / (1 + K.max(K.abs(e)))",
            )
        )
        if 0 in x.shape and "max" in body:
            return None
        return f"K.map_fn(lambda e: {body}, {x})"
    state = w.exactly(x.shape[1:], "float", x.dtype)
    body = w.pick(("0.5 * a + e", "K.tanh(a) * e", "K.maximum(a, e)", "a - K.sin(e)"))
    return f"K.{w.pick(('foldl', 'foldr'))}(lambda a, e: {body}, {x}, {state})"


@entry(2)
def nested(w: Writer) -> str | None:
    """A loop in a loop, or in a branch."""
    x = w.tensor("float", where=lambda v: 2 <= v.ndim <= 3, shape=lambda: w.shape(2))
    if w.chance(30):
        return f"K.map_fn(lambda e: K.map_fn(lambda d: K.tanh(d) * {w.number()}, e), {x})"
    state = w.exactly(x.shape[1:], "float", x.dtype)
    loop = f"K.foldl(lambda a, e: 0.5 * a + K.sin(e), {x}, {state})"
    if w.chance(50):
        inner = f"K.foldl(lambda b, d: b + K.sin(d), e, {w.exactly((), 'float', x.dtype)})"
        if x.ndim == 2:
            return f"K.map_fn(lambda e: {inner}, {x})"
    return f"K.switch({w.exactly((), 'bool')}, lambda: {loop}, lambda: K.tanh({state}))"


# --- gradients ------------------------------------------------------------------------------------


@entry(10)
def gradient(w: Writer) -> str | None:
    return slope(w, [v for v in w.pool if is_float(v.dtype) and v.name[0] == "t"])


@entry(3)
def second_gradient(w: Writer) -> str | None:
    return slope(w, [v for v in w.pool if v.name in w.gradients])


def slope(w: Writer, results: list[Var]) -> str | None:
    """The gradient of one of the last results by something that it was computed from."""
    if not results:
        return None
    y = results[-1 - min(w.below(len(results)), w.below(8))]
    reached = set(toposort([y.tensor]))
    sources = [v for v in w.pool if v.tensor in reached and is_float(v.dtype) and v is not y]
    leaves = [v for v in sources if v.name[0] in "xv"]
    if not sources:
        return None
    x = w.pick(leaves if leaves and w.chance(80) else sources)
    return f"K.gradients({y}, [{x}])[0]"
