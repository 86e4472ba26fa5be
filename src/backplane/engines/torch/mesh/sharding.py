"""Lowerings over the processes of a mesh: each process computes its part with the lowerings of a
single one, and DTensor moves the parts.

The rules of DTensor for PyTorch's operators do not serve here. Ours are per primitive (`splits`),
so that a lowering of a single process runs as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.distributed.tensor import DeviceMesh, DTensor, Partial, Placement, Replicate, Shard

from backplane.core.mesh import Layout, Mesh, check_layout
from backplane.core.registry import PRIMITIVES
from backplane.core.spec import Spec
from backplane.core.traits import Memory
from backplane.engines.arrays.control import Rows
from backplane.engines.factorizations import is_half
from backplane.engines.layouts import warn_of_gathering
from backplane.engines.programs import emitted_line
from backplane.engines.table import Entry, Lowering, Table, Value, host_shape
from backplane.engines.torch.mesh.parts import (
    Placements,
    gathered,
    laid_out,
    moved,
    of_parts,
    part,
    placements_of,
    whole,
)
from backplane.engines.torch.mesh.splits import STACK, UNBIND, Split, has_rule, splits

SHAPES = frozenset(("shape", "kernel_shape"))
"""The parameters that give the shape of a result."""

MOST_PLANS = 256
"""The plans that are kept for each operation of a program. Each combination of shapes and layouts
needs one."""

AS_THEY_ARE = ("dim", "barrier")
"""Lowerings that read no elements."""


# --- operations -----------------------------------------------------------------------------------


class _Plan(NamedTuple):
    """A way to run one operation on operands with given places."""

    operands: Sequence[Placements]
    lowering: Lowering
    """The function that each process runs on its parts."""
    result: Placements
    divisor: int = 1
    """The number of means that the sum over the processes adds up."""
    again: Placements | None = None
    """The placements to which the results of the parts are moved, before they are reduced once
    more."""


class Operation:
    """A primitive over a mesh, as a lowering."""

    def __init__(
        self, mesh: DeviceMesh, name: str, entry: Entry, specs: Sequence[Spec], /, **params: Any
    ) -> None:
        self.mesh, self.name, self.entry = mesh, name, entry
        self.specs, self.params = specs, params
        self.host: int | None = PRIMITIVES[name].host if name in PRIMITIVES else None
        self.plain = entry.lowering(specs, params)
        self.plans: dict[Any, _Plan] = {}

    def __call__(self, *operands: Value) -> Any:
        """The result, in parts if the operands are and the primitive allows it."""
        if not any(isinstance(x, DTensor) for x in operands):
            return self.plain(*operands)
        key = tuple(map(_facts, operands))
        plan = self.plans.get(key)
        if plan is None:
            if len(self.plans) == MOST_PLANS:  # Sizes that change all the time must not pile up.
                self.plans.clear()
            plan = self.plans[key] = _Planner(self, operands).plan()
        parts = [
            part(x, at, self.mesh) if isinstance(x, torch.Tensor) else x
            for x, at in zip(operands, plan.operands, strict=False)
        ]
        # Sizes among the operands are parameters of the plan.
        results = plan.lowering(*parts)
        if isinstance(results, list | tuple):
            return [self._joined(y, plan) for y in results]
        return self._joined(results, plan)

    def _joined(self, y: Value, plan: _Plan) -> Value:
        if plan.again is not None:
            y = moved(y, plan.result, plan.again, self.mesh)
            return self(of_parts(y, plan.again, self.mesh))
        y = of_parts(y, plan.result, self.mesh)
        return y / plan.divisor if plan.divisor > 1 else y


def _facts(x: Any) -> Any:
    """The facts that a plan depends on."""
    if isinstance(x, DTensor):
        return x.shape, x.placements
    return x.shape if isinstance(x, torch.Tensor) else x


class _Planner:
    """Chooses how an operation runs on operands with given places."""

    def __init__(self, operation: Operation, operands: Sequence[Any]) -> None:
        self.operation, self.mesh = operation, operation.mesh
        count = len(operands) if operation.host is None else operation.host
        self.operands, dims = operands[:count], operands[count:]
        self.whole = [tuple(x.shape) if _is_read(x) else () for x in self.operands]
        self.params = dict(operation.params)
        for key in SHAPES & self.params.keys():
            self.params[key] = _static(self.params[key], dims, self.operands[0])
        self.given: list[Placements] = [
            x.placements if isinstance(x, DTensor) else whole(self.mesh) for x in self.operands
        ]
        self.shapes = [list(shape) for shape in self.whole]
        """The shapes of the parts, as far as axes of the mesh have been looked at."""
        self.results = {key: list(self.params[key]) for key in SHAPES & self.params.keys()}
        """The same for parameters that give the shape of the result."""

    def plan(self) -> _Plan:
        """The plan. It warns if operands must be gathered because of the primitive."""
        operation = self.operation
        possible = splits(operation.name, self.whole, **self.params)
        chosen = [self._chosen(possible, axis) for axis in range(self.mesh.ndim)]
        lost = [split.result == "whole" and self._is_cut(a) for a, split in enumerate(chosen)]
        if any(lost) and self.mesh.get_rank() == 0:
            _warn(operation.name, self.operands)
        again = any(split.result == "again" for split in chosen)
        params = {**self.params, **{key: tuple(sizes) for key, sizes in self.results.items()}}
        specs = [
            spec._replace(shape=tuple(shape)) if _is_read(x) else spec
            for x, spec, shape in zip(self.operands, operation.specs, self.shapes, strict=False)
        ]
        lowering = operation.entry.lowering(
            specs, {**params, "keepdims": True} if again else params
        )
        held, averaged = (
            [axis for axis, split in enumerate(chosen) if split.result == kind]
            for kind in ("held", "mean")
        )
        return _Plan(
            [self._places(i, chosen) for i in range(len(self.operands))],
            self._held(lowering, held) if held else lowering,
            tuple([_joined(split, again) for split in chosen]),
            math.prod(map(self.mesh.size, averaged)),
            self._kept(chosen) if again else None,
        )

    def _held(self, lowering: Lowering, axes: Sequence[int]) -> Lowering:
        """`gather` from a part of a table, which is split along the parameter `axis`."""
        axis: int = self.params["axis"]
        whole, count, number = self.whole[0][axis], self.shapes[0][axis], 0
        for place in axes:
            number = number * self.mesh.size(place) + self.mesh.get_local_rank(place)
        start = number * count

        def run(x: Value, indices: Value) -> Value:
            places = indices.to(torch.int64)
            places = torch.where(places < 0, places + whole, places)
            if bool(((places < 0) | (places >= whole)).any()):
                raise IndexError(f"there are {whole} slices")
            here = (places >= start) & (places < start + count)
            taken = lowering(x, torch.where(here, places - start, 0))
            shape = (*(1,) * axis, *here.shape, *(1,) * (x.ndim - axis - 1))
            return torch.where(here.reshape(shape), taken, taken.new_zeros(()))

        return run

    def _is_cut(self, axis: int) -> bool:
        return any(isinstance(places[axis], Shard) for places in self.given)

    def _chosen(self, possible: Sequence[Split], axis: int) -> Split:
        """The split that keeps one operand in place and moves the fewest elements."""
        parts = self.mesh.size(axis)
        fit = [s for s in possible if self._divides(s, parts)]
        ways = [s for s in fit if self._keeps_one(s, axis)]
        if not ways and self.operation.name == UNBIND and self._is_cut(axis):
            ways = fit[:1]  # The rows of a loop come one by one, but each can be in parts.
        if not ways:
            return Split([None for _ in self.operands], "whole")
        best = min(ways, key=lambda s: self._cost(s, axis))
        for shape, i in zip(self.shapes, best.operands, strict=True):
            if i is not None:
                shape[i] //= parts
        if isinstance(best.result, int):
            for sizes in self.results.values():
                sizes[best.result] //= parts
        return best

    def _keeps_one(self, split: Split, axis: int) -> bool:
        pairs = zip(self.given, split.operands, strict=True)
        return any(i is not None and places[axis] == Shard(i) for places, i in pairs)

    def _divides(self, split: Split, parts: int) -> bool:
        pairs = zip(self.shapes, split.operands, strict=True)
        sizes = [shape[i] for shape, i in pairs if i is not None]
        if isinstance(split.result, int):
            sizes += [shape[split.result] for shape in self.results.values()]
        return all(n % parts == 0 for n in sizes)

    def _cost(self, split: Split, axis: int) -> float:
        """About how many elements are sent. A sum over the processes counts like an operand."""
        counts = [math.prod(shape) for shape in self.whole]
        sent = [
            n
            for n, places, i in zip(counts, self.given, split.operands, strict=True)
            if isinstance(places[axis], Shard) and (i is None or places[axis] != Shard(i))
        ]
        return sum(sent) + (0 if isinstance(split.result, int) else 2 * min(counts))

    def _kept(self, chosen: Sequence[Split]) -> Placements:
        """The places of the first operand, but for axes that are reduced."""
        pairs = zip(self._places(0, chosen), chosen, strict=True)
        return tuple([Replicate() if s.result == "again" else place for place, s in pairs])

    def _places(self, i: int, chosen: Sequence[Split]) -> Placements:
        axes = [split.operands[i] for split in chosen]
        return tuple([Replicate() if axis is None else Shard(axis) for axis in axes])


def _joined(split: Split, again: bool) -> Placement:
    """The placements of the results. Before a reduction is repeated, they have all axes."""
    if split.result == "whole":
        return Replicate()
    if again:
        (axis,) = split.operands
        assert axis is not None
        return Shard(axis)
    return Shard(split.result) if isinstance(split.result, int) else Partial("sum")


def _is_read(x: Value | None) -> bool:
    return isinstance(x, torch.Tensor)


def _static(shape: Sequence[int | None], dims: Sequence[Value], x: Value) -> tuple[int, ...]:
    """A parameter that is a shape, with all sizes as numbers."""
    sizes = host_shape(shape, dims)
    if -1 not in sizes:
        return sizes
    rest = -math.prod(sizes)
    return tuple([x.numel() // max(rest, 1) if n == -1 else n for n in sizes])


def _warn(name: str, operands: Sequence[Value]) -> None:
    """Tell which line of the user's program has operands gathered."""
    kinds = [_described(x) for x in operands if isinstance(x, DTensor)]
    warn_of_gathering(
        f"{name!r} cannot keep the layout of its operands on the mesh: {', '.join(kinds)}. Every "
        "process gathers the whole of them",
        emitted_line(),
    )


def _described(x: DTensor) -> str:
    """The shape of a tensor and its layout, as users write it."""
    names = x.device_mesh.mesh_dim_names or ()
    layout: list[Any] = [None] * x.ndim
    for name, place in zip(names, x.placements, strict=True):
        if isinstance(place, Shard):
            before = layout[place.dim]
            layout[place.dim] = name if before is None else (before, name)
    return f"{tuple(x.shape)} in the layout {tuple(layout)}"


# --- the table ------------------------------------------------------------------------------------


def over(mesh: DeviceMesh, known: Mesh, table: Table) -> Table:
    """The lowerings of a table over a mesh. None of them writes to memory that it is given. What
    can be decomposed but not split is left out.
    """
    made = Table()
    for name, entry in table.items():
        op = PRIMITIVES[name]
        decomposes = op.decomposition and entry.unless is not is_half  # Factors: halves alone.
        if op.in_place or (decomposes and not has_rule(op)):
            continue
        kind: Any = _observer if op.effect and op.memory is Memory.VIEW else Operation
        made[name] = entry._replace(
            function=partial(kind, mesh, name, entry), builds=True, out=0, into=False, over=None,
            view=False,
        )  # fmt: skip
    made.update({name: table[name] for name in AS_THEY_ARE})

    @made.build("shard")
    def shard(specs: Sequence[Spec], *, layout: Layout) -> Lowering:
        placements = placements_of(layout, mesh)

        def lowering(x: Value) -> Value:
            check_layout(layout, x.shape, known, "K.shard")
            return laid_out(x, placements, mesh)

        return lowering

    return made


def _observer(
    mesh: DeviceMesh, name: str, entry: Entry, specs: Sequence[Spec], **params: Any
) -> Lowering:
    """A lowering that looks at its operand, all of it, and returns it."""
    look = Operation(mesh, name, entry, specs, **params).plain

    def lowering(x: Value) -> Value:
        look(gathered(x))
        return x

    return lowering


def rows(mesh: DeviceMesh, plain: Rows) -> Rows:
    """The operations of loops on values, over a mesh."""
    of = Operation(mesh, UNBIND, Entry(plain.of), ())
    stack = Operation(mesh, STACK, Entry(lambda *xs: plain.stack(xs)), ())
    return Rows(of=of, stack=lambda xs: stack(*xs), zeros=plain.zeros)
