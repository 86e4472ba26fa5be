"""What programs consist of: for each kind of line, how to write it.

An entry draws operands that fit, and returns the text of the line's value; None if it cannot.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from backplane.core.spec import is_float
from fuzz.writer import Var, Writer

Entry = Callable[[Writer], "str | None"]
ENTRIES: dict[str, tuple[int, Entry]] = {}
"""Name → how often it is drawn, and the function that writes it."""

FORMATS = ("channels_last", "channels_first")


def entry(weight: int = 2) -> Callable[[Entry], Entry]:
    def register(function: Entry) -> Entry:
        ENTRIES[function.__name__] = (weight, function)
        return function

    return register


# --- element by element ---------------------------------------------------------------------------

UNARY = {
    "float": "exp log sqrt square sin cos sigmoid tanh softplus softsign hard_sigmoid elu relu erf"
    " erfinv round sign abs".split(),
    "number": "abs square sign round exp sqrt relu sigmoid".split(),
}


@entry(14)
def unary(w: Writer) -> str:
    kind = "number" if w.chance(15) else "float"
    return f"K.{w.pick(UNARY[kind])}({w.tensor(kind)})"


@entry(14)
def arithmetic(w: Writer) -> str:
    x = w.tensor("number")
    op = w.pick(("+", "*", "-", "/", "+", "*", "-", "//", "%"))
    y = w.beside(x, "number" if w.chance(20) else None)
    if op in ("//", "%") and not (is_float(x.dtype) or is_float(y.dtype)):
        return f"{x} {op} K.maximum({y}, 1)"  # an integer over 0 may be an error
    return f"{x} {op} {y}"


@entry(6)
def with_number(w: Writer) -> str:
    x = w.tensor("number")
    n = w.pick(("0", "1", "2", "3")) if x.dtype[0] == "u" else w.number()
    op = w.pick(("+", "*", "-", "/", "*", "//", "%"))
    if op in "//%" and float(n) == 0:
        return f"{x} + {n}"
    return f"{n} {op} {x}" if w.chance(30) and op not in "//%" else f"{x} {op} {n}"


@entry(4)
def choose(w: Writer) -> str:
    x = w.tensor("number")
    return f"K.{w.pick(('maximum', 'minimum'))}({x}, {w.beside(x)})"


@entry(3)
def power(w: Writer) -> str:
    x = w.tensor("float")
    exponent = w.pick(("2", "3", "0.5", "-1", "0", "1", "-0.5", "2.5"))
    return f"K.pow({x}, {w.beside(x) if w.chance(20) else exponent})"


@entry(3)
def clip(w: Writer) -> str:
    x = w.tensor("number")
    low = w.between(0 if x.dtype[0] == "u" else -2, 1)
    return f"K.clip({x}, {low}, {low + w.between(0, 3)})"


@entry(2)
def relu(w: Writer) -> str:
    x = w.tensor("float")
    return f"K.relu({x}, {w.pick((0.0, 0.1))}, {w.pick((None, 1.5, 6.0))}, {w.pick((0.0, 0.5))})"


@entry(5)
def compare(w: Writer) -> str:
    x = w.tensor("number")
    name = w.pick(["equal", "not_equal", "greater", "greater_equal", "less", "less_equal"])
    return f"K.{name}({x}, {w.beside(x)})"


@entry(2)
def logic(w: Writer) -> str:
    x = w.tensor("bool" if w.chance(70) else "int")
    if w.chance(20):
        return f"~{x}"
    return f"{x} {w.pick('&|^')} {w.beside(x)}"


@entry(5)
def where(w: Writer) -> str:
    x = w.tensor("any")
    y = w.exactly(x.shape, dtype=x.dtype, kind="any")
    condition = w.exactly(x.shape, "bool") if w.chance(70) else w.exactly((), "bool")
    return f"K.switch({condition}, {x}, {y})"


@entry(3)
def cast(w: Writer) -> str:
    return f"K.cast({w.tensor('any')}, {w.dtype('any')!r})"


@entry(2)
def pass_on(w: Writer) -> str:
    name = w.pick(("identity", "stop_gradient", "zeros_like", "ones_like"))
    return f"K.{name}({w.tensor('any')})"


# --- reductions -----------------------------------------------------------------------------------

REDUCTIONS = ["sum", "mean", "sum", "mean", "prod", "std", "var", "logsumexp"]


@entry(12)
def reduce(w: Writer) -> str:
    x = w.tensor("number" if w.chance(20) else "float")
    return f"K.{w.pick(REDUCTIONS)}({x}, axis={w.axes(x)}, keepdims={w.chance(40)})"


@entry(4)
def extremum(w: Writer) -> str | None:
    x = w.tensor("number", where=lambda v: 0 not in v.shape)
    if 0 in x.shape:
        return None
    return f"K.{w.pick(('max', 'min'))}({x}, axis={w.axes(x)}, keepdims={w.chance(40)})"


@entry(1)
def any_all(w: Writer) -> str:
    x = w.tensor("bool")
    return f"K.{w.pick(('any', 'all'))}({x}, axis={w.axes(x)}, keepdims={w.chance(40)})"


def with_axes(w: Writer, kind: str = "float", most: int = 4) -> Var:
    return w.tensor(
        kind, where=lambda v: 1 <= v.ndim <= most, shape=lambda: w.shape(w.between(1, 3))
    )


@entry(4)
def along(w: Writer) -> str | None:
    x = with_axes(w, "number")
    axis = w.axis(x)
    name = w.pick(("cumsum", "cumprod", "argmax", "argmin"))
    if name.startswith("arg") and x.shape[axis] == 0:
        return None
    return f"K.{name}({x}, axis={axis})"


@entry(5)
def normalized(w: Writer) -> str | None:
    x = with_axes(w)
    name = w.pick(("softmax", "softmax", "l2_normalize"))
    if name == "softmax" and x.ndim < 2:
        return None
    return f"K.{name}({x}, axis={w.axis(x)})"


# --- shapes ---------------------------------------------------------------------------------------


@entry(4)
def reshape(w: Writer) -> str:
    x = w.tensor("any")
    count = int(np.prod(x.shape))
    if count == 0:
        return f"K.reshape({x}, {x.shape[::-1]})"
    first = w.pick([n for n in range(1, 8) if count % n == 0])
    sizes = w.pick(
        ((first, count // first), (count,), (-1,), (first, -1), (first, 1, count // first))
    )
    return f"K.reshape({x}, {sizes})"


@entry(5)
def move(w: Writer) -> str | None:
    x = with_axes(w, "any")
    rank = x.ndim
    order = list(range(rank))
    for i in range(rank - 1):
        j = w.between(i, rank - 1)
        order[i], order[j] = order[j], order[i]
    ones = [i for i, n in enumerate(x.shape) if n == 1]
    rows = [
        f"K.permute_dimensions({x}, {tuple(order)})",
        f"K.transpose({x})",
        f"K.expand_dims({x}, {w.between(-rank - 1, rank)})",
        f"K.reverse({x}, {w.axis(x)})",
        f"K.flatten({x})",
        f"K.squeeze({x}, {w.pick(ones)})" if ones else f"K.expand_dims({x}, -1)",
    ]
    if rank > 1:
        rows.append(f"K.batch_flatten({x})")
    return str(w.pick(rows))


@entry(4)
def copies(w: Writer) -> str:
    x = with_axes(w, "any")
    if x.ndim == 2 and w.chance(30):
        return f"K.repeat({x}, {w.between(0, 3)})"
    if w.chance(50):
        return f"K.repeat_elements({x}, {w.between(1, 3)}, {w.axis(x)})"
    return f"K.tile({x}, {[w.pick((1, 2, 1, 3, 0)) for _ in x.shape]})"


@entry(5)
def join(w: Writer) -> str:
    x = with_axes(w, "any")
    axis = w.axis(x)
    parts = [x]
    for _ in range(w.between(0, 2)):
        sizes = list(x.shape)
        sizes[axis] = w.size()
        parts.append(w.exactly(x.shape if w.chance(50) else tuple(sizes), "any", x.dtype))
    if len({p.shape for p in parts}) == 1 and w.chance(40):
        return f"K.stack([{', '.join(map(str, parts))}], axis={w.between(-x.ndim - 1, x.ndim)})"
    return f"K.concatenate([{', '.join(map(str, parts))}], axis={axis})"


@entry(6)
def part(w: Writer) -> str:
    x = with_axes(w, "any")
    items = []
    for n in x.shape[: w.between(1, x.ndim)]:
        low, high = w.between(-n, n), w.between(-n, n)
        items.append(w.pick([
            f"{low}:{high}", ":", f"::{w.between(1, 3)}", f":{high}", f"{low}:", "::-1",
            *([str(w.between(-n, n - 1))] * 2 if n else []),
        ]))  # fmt: skip
    if w.chance(20):
        items.insert(w.below(len(items) + 1), "None")
    return f"{x}[{', '.join(items)}]"


@entry(3)
def rows(w: Writer) -> str | None:
    x = with_axes(w, "any")
    n = x.shape[0]
    if n == 0:
        return None
    if w.chance(30):
        return f"K.gather({x}, {[w.below(n) for _ in range(w.between(1, 4))]})"
    i = w.input(w.shape(w.between(0, 2)), w.pick(("int32", "int64")))
    return f"K.gather({x}, K.clip({i}, 0, {n - 1}))"


@entry(2)
def border(w: Writer) -> str:
    if w.chance(50):
        x = w.tensor("any", rank=3)
        return f"K.temporal_padding({x}, ({w.below(3)}, {w.below(3)}))"
    x = w.tensor("any", rank=4)
    pairs = tuple((w.below(3), w.below(3)) for _ in range(2))
    return f"K.spatial_2d_padding({x}, {pairs}, {w.pick(FORMATS)!r})"


@entry(1)
def sizes(w: Writer) -> str:
    x = with_axes(w, "any")
    return str(w.pick((f"K.shape({x})", f"K.shape({x})[{w.axis(x)}]", f"K.size({x})")))


@entry(1)
def one_hot(w: Writer) -> str:
    return (
        f"K.one_hot(K.clip({w.tensor('int', where=lambda v: v.ndim < 3)}, 0, 4), {w.between(1, 5)})"
    )
