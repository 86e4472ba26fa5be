"""Sparse matrices in compressed rows, in the place of dense ones.

A graph knows a sparse matrix by its spec. In a program it is a dense one, unless it is large, few
of its elements are other than 0, and something multiplies it. Then the program takes the parts of
its compressed rows (`ops.sparse`), and those of its transpose if a product needs that, as every
gradient does. What is fed is converted once: an equal matrix that is fed later finds the parts that
were made for the first one. A variable is converted once per write, and a constant once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np

from backplane.compile import passes
from backplane.compile.feeds import Feed, as_array, check_shape
from backplane.compile.plan import Plan
from backplane.core.graph import (
    Constant,
    Placeholder,
    Tensor,
    constant,
    is_array,
    rebuild,
    rewrite,
    toposort,
)
from backplane.core.sparse import Parts, Rows, compressed, stored
from backplane.core.spec import Spec
from backplane.core.variable import Variable
from backplane.engines.base import Engine
from backplane.ops.creation import Amount, as_scalar, dim, size_at
from backplane.ops.effects import identity, stop_gradient, to_dense, to_sparse
from backplane.ops.elementwise import cast
from backplane.ops.linear import matmul
from backplane.ops.shaping import transpose
from backplane.ops.sparse import dense_of_rows, row_count, rows_matmul

LEAST_SIZE = 1 << 15
"""Elements of a matrix from which on compressed rows serve. Converting a smaller one takes longer
than multiplying it."""
MOST_FULL = 1 / 16
"""The share of elements other than 0 up to which they serve: a product of 1024 × 1024 with 64
columns takes as long in both forms at a share of 1/12 on PyTorch, 1/14 on JAX and 1/20 on NumPy."""
KEPT = 4
"""Matrices whose parts an input remembers."""

Orientation = bool
"""Whether the parts are those of the transposed matrix."""


# --- which leaves -----------------------------------------------------------------------------


def is_thin(shape: Sequence[int], count: int) -> bool:
    """Whether compressed rows serve for a matrix with `count` elements other than 0."""
    size = math.prod(shape)
    return size >= LEAST_SIZE and count <= size * MOST_FULL


def holds_thin(value: object) -> bool:
    """Whether a value that is fed for a sparse matrix is better taken in compressed rows."""
    if isinstance(value, Variable):
        return is_thin(value.spec.shape, int(np.count_nonzero(value.numpy())))  # type: ignore[arg-type]
    if isinstance(value, Constant):
        value = value.value
    if isinstance(value, np.ndarray):
        return value.ndim == 2 and is_thin(value.shape, int(np.count_nonzero(value)))
    parts = stored(value)
    return parts is not None and is_thin(parts[0], len(parts[2][-1]))


def multiplied(outputs: Sequence[Tensor], inputs: Iterable[Tensor]) -> set[Tensor]:
    """The sparse leaves of a graph that something multiplies."""
    order = toposort(outputs, stop=inputs)
    leaves = [t for t in order if isinstance(t, Placeholder | Variable) or is_array(t)]
    # From a tensor to the leaf whose elements it has, converted or transposed.
    behind: dict[Tensor, Tensor] = {t: t for t in leaves if t.spec.sparse}
    if not behind:
        return set()
    for t in order:
        if t.op in _SAME and t.inputs[0] in behind:
            behind[t] = behind[t.inputs[0]]
    products = [t for t in order if t.op is matmul and t.ndim == 2]
    return {behind[x] for t in products for x in t.inputs if x in behind}


_SAME = frozenset((to_dense, to_sparse, identity, stop_gradient, cast, transpose))


def thin_in(plan: Plan, values: Sequence[Any]) -> set[Tensor]:
    """The matrices that a function's programs take in compressed rows, given the first feeds."""
    engine, options = plan.engine, dict(plan.options)
    on = passes.applies("compressed_rows", passes.Job(engine))
    if not on or engine.mesh is not None or not engine.has_kernels(options):
        return set()
    given: dict[Tensor, Any] = dict(zip(plan.inputs, values, strict=False))
    candidates = multiplied(plan.graph, plan.inputs).difference(plan.updated)
    return {t for t in candidates if holds_thin(given.get(t, t))}


def in_rows(
    plan: Plan, leaves: Set[Tensor], fed: list[Tensor]
) -> tuple[list[Tensor], list[Tensor], dict[Tensor, Thin]]:
    """A function's graph and what is fed, with the parts in the place of the matrices in `leaves`,
    and these parts.
    """
    if not leaves:
        return plan.graph, fed, {}
    graph, thin = thinned(plan.graph, leaves, plan.inputs)
    return graph, [x for t in fed for x in (thin[t].fed() if t in thin else [t])], thin


def makers(plan: Plan, thin: Mapping[Tensor, Thin]) -> dict[Tensor, Any]:
    """By placeholder and variable: what makes the parts of its value."""
    made_by: dict[Tensor, Any] = {}
    for i, t in enumerate(plan.inputs):
        if t in thin:
            what = f"K.function {plan.name!r}: input {i} ({t.name!r})"
            made_by[t] = Feeding(thin[t], plan.engine, plan.feeds[i], what)
    for v in plan.variables:
        if v in thin:
            made_by[v] = Reading(thin[v], plan.engine)
    return made_by


# --- the graph --------------------------------------------------------------------------------


class Thin:
    """The parts of one matrix in a graph."""

    def __init__(self, leaf: Tensor) -> None:
        self.leaf = leaf
        self.parts: dict[Orientation, list[Tensor]] = {}
        """The operands of `rows_matmul`, as placeholders or constants."""

    def oriented(self, turned: Orientation) -> list[Tensor]:
        """The parts of the matrix, or of the transposed one."""
        if turned not in self.parts:
            self.parts[turned] = self._constants(turned) or self._placeholders(turned)
        return self.parts[turned]

    def _constants(self, turned: Orientation) -> list[Tensor]:
        if not is_array(self.leaf):
            return []
        rows = _of_dense(self.leaf.value)
        return [constant(x) for x in (rows.transposed() if turned else rows)]

    def _placeholders(self, turned: Orientation) -> list[Tensor]:
        height, width = self.leaf.spec.shape[turned], self.leaf.spec.shape[not turned]
        offsets = None if height is None else height + 1
        dtypes = self.leaf.spec.dtype, "int32", "int32", "int32", "int8"
        sizes = None, None, offsets, None, width
        name = f"{self.leaf.name}/{'columns' if turned else 'rows'}"
        parts = zip(Rows._fields, sizes, dtypes, strict=True)
        return [Placeholder(Spec((n,), dtype), f"{name}/{part}") for part, n, dtype in parts]

    def size(self, axis: int) -> Amount:
        """A size of the matrix."""
        if not self.parts:
            self.oriented(False)
        ((turned, (_, _, offsets, _, across)), *_) = self.parts.items()
        return row_count(offsets) if bool(axis) == turned else size_at(across, 0)

    def fed(self) -> list[Tensor]:
        """The value that the program takes for it."""
        ends = [t for turned in sorted(self.parts) for t in self.parts[turned]]
        return [t for t in ends if isinstance(t, Placeholder)]


def _of_dense(array: np.ndarray) -> Rows:
    rows, columns = np.nonzero(array)
    return compressed(array.shape, "coo", (rows, columns, array[rows, columns]))


class _View(NamedTuple):
    """A tensor with the elements of a thin matrix."""

    thin: Thin
    turned: Orientation = False
    casts: tuple[str, ...] = ()

    def of(self, node: Tensor) -> _View:
        """The result of a node that converts or transposes it."""
        turned = node.op is transpose and node.params["perm"] == (1, 0)
        casts = (*self.casts, node.spec.dtype) if node.op is cast else self.casts
        return _View(self.thin, self.turned ^ turned, casts)

    def converted(self, x: Tensor) -> Tensor:
        """The elements in the dtype of the view."""
        for dtype in self.casts:
            x = cast(x, dtype=dtype)
        return x

    def times(self, y: Tensor) -> Tensor:
        """The product with a dense matrix."""
        values, *places = self.thin.oriented(self.turned)
        return rows_matmul(self.converted(values), *places, y)

    def dense(self) -> Tensor:
        """The elements as a dense matrix."""
        matrix = self.converted(dense_of_rows(*self.thin.oriented(False)))
        return transpose(matrix, perm=(1, 0)) if self.turned else matrix


def thinned(
    outputs: Sequence[Tensor], leaves: Iterable[Tensor], inputs: Iterable[Tensor]
) -> tuple[list[Tensor], dict[Tensor, Thin]]:
    """A graph that takes the parts of the matrices in `leaves`, which something multiplies."""
    known = {leaf: Thin(leaf) for leaf in leaves}
    views: dict[Tensor, _View] = {leaf: _View(thin) for leaf, thin in known.items()}
    for t in toposort(outputs, stop=inputs):
        if t.op in _SAME and t.inputs[0] in views:
            views[t] = views[t.inputs[0]].of(t)
    dense: dict[_View, Tensor] = {}

    def as_dense(t: Tensor, new: Tensor) -> Tensor:
        if t not in views:
            return new
        if views[t] not in dense:
            dense[views[t]] = views[t].dense()
        return dense[views[t]]

    def rule(node: Tensor, operands: tuple[Tensor, ...]) -> Tensor | None:
        if node in views:
            return node  # What reads it asks for it.
        if not any(t in views for t in node.inputs):
            return None
        if node.op is dim:
            view = views[node.inputs[0]]
            return as_scalar(view.thin.size(node.params["axis"] ^ view.turned))
        if node.op is matmul and node.ndim == 2:
            first, second = node.inputs
            if first in views:
                return _product(views[first], as_dense(second, operands[1]), **node.params)
            # The product of both transposed, transposed.
            tx, ty = node.params["transpose_x"], node.params["transpose_y"]
            product = _product(views[second], operands[0], transpose_x=not ty, transpose_y=not tx)
            return transpose(product, perm=(1, 0))
        return rebuild(node, tuple(map(as_dense, node.inputs, operands)))

    results = rewrite(outputs, rule)
    return list(map(as_dense, outputs, results)), known


def _product(x: _View, y: Tensor, *, transpose_x: bool, transpose_y: bool) -> Tensor:
    """The product of a thin matrix and a dense one."""
    y = transpose(y, perm=(1, 0)) if transpose_y else y
    return x._replace(turned=x.turned ^ transpose_x).times(y)


# --- values -----------------------------------------------------------------------------------


class Fed(NamedTuple):
    """The parts of a matrix that was fed, as the program takes them."""

    shape: tuple[int, ...]
    parts: list[Any]


class _Converter:
    """Makes the values of what a program takes for a thin matrix."""

    def __init__(self, thin: Thin, engine: Engine) -> None:
        self.engine = engine
        self.orientations = sorted(thin.parts)
        self.take = engine.from_numpy if "eager" in engine.capabilities else engine.feed

    def parts(self, rows: Rows) -> list[Any]:
        """The parts as values of the engine."""
        parts = [rows.transposed() if turned else rows for turned in self.orientations]
        if "static" in self.engine.capabilities:
            # One program serves for all matrices with about as many entries.
            parts = [part.padded(_rounded(len(part.values))) for part in parts]
        return [self.take(x) for part in parts for x in part]


def _rounded(count: int) -> int:
    """The next number with 4 significant bits."""
    step = 1 << max(count.bit_length() - 4, 4)
    return -(-count // step) * step


class Feeding(_Converter):
    """The arrays that are fed for a placeholder. Equal matrices are converted once."""

    def __init__(self, thin: Thin, engine: Engine, feed: Feed, what: str) -> None:
        super().__init__(thin, engine)
        self.feed, self.what, self.spec = feed, what, thin.leaf.spec
        self.kept: list[tuple[Any, Parts, Fed]] = []

    def __call__(self, value: Any) -> Fed:
        """The parts of what is fed."""
        if type(value) is list and len(value) == 1:
            (value,) = value
        matrix = stored(value)
        if matrix is None:
            return self._dense(value)
        shape, form, parts = matrix
        kind = shape, form, [(x.dtype, x.shape) for x in parts]
        for other, copies, fed in self.kept:
            if other == kind and all(map(_equal, copies, parts)):
                return fed
        check_shape(shape, self.spec, self.what)
        copies = tuple([np.array(x) for x in parts])
        values = as_array(copies[-1], np.dtype(self.spec.dtype), self.what)
        fed = Fed(shape, self.parts(compressed(shape, form, (*copies[:-1], values))))
        self.kept = [(kind, copies, fed), *self.kept[: KEPT - 1]]
        return fed

    def _dense(self, value: Any) -> Fed:
        fed = self.feed(value, self.engine, False)
        array = fed if isinstance(fed, np.ndarray) else self.engine.to_numpy(fed)
        return Fed(array.shape, self.parts(_of_dense(array)))


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays of one dtype and shape have the same bits."""
    words = f"u{min(a.itemsize, 8)}"
    x, y = (np.ascontiguousarray(array).view(words) for array in (a, b))
    return a is b or np.array_equal(x, y)


class Reading(_Converter):
    """The value of a variable. It is converted once per write."""

    def __init__(self, thin: Thin, engine: Engine) -> None:
        super().__init__(thin, engine)
        self.last: tuple[Any, list[Any]] = (None, [])

    def __call__(self, variable: Variable) -> list[Any]:
        """The parts of the value that the variable has now."""
        values, (known, parts) = variable.values, self.last
        if values is not known:  # A write replaces the dict.
            parts = self.parts(_of_dense(variable.numpy()))
            self.last = values, parts
        return parts
