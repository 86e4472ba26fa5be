"""Loops: primitives that hold closed graphs, and the builders that trace them.

The gradient of a scan is a scan in the other direction, which needs values of the forward steps. So
every scan *offers* the stack of every intermediate value of its body as a further result. The
backward step reads the stacks that it needs, and the compiler drops the others (`compile.passes`).
Offers are ordinary results, so gradients of gradients need nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from backplane.core.graph import Graph, Placeholder, Tensor, constant, substitute, toposort
from backplane.core.primitive import OUTPUT, primitive
from backplane.core.sizes import Assumption, Sizes, assumption, origin, tie_all
from backplane.core.spec import Spec, is_float
from backplane.core.traits import Axis, Cotangents, Memory
from backplane.ops.autodiff import gradients, reached
from backplane.ops.bodies import over, trace
from backplane.ops.creation import sizes_among
from backplane.ops.elementwise import add, bit_and, cast, mul
from backplane.ops.indexing import pad, part
from backplane.ops.shaping import concat, squeeze, sum_to_like, zeros_like

Step = Callable[[list[Tensor], list[Tensor]], tuple[Sequence[Tensor], Sequence[Tensor]]]


NOTHING_TO_DO = "there are no steps or elements: an axis that needs one has size 0"
"""The error of a loop that gives its last output, or begins with its first element."""


# --- scan -----------------------------------------------------------------------------------------


def _steps_of_stack(output: Tensor, axis: int) -> Sequence[Axis]:
    """A stack has a row for each row of the sequences. Under an assumption, its rows have the sizes
    of the body's results, and final states those that they start with.
    """
    scan, index = output.inputs[0], output.params["index"]
    carry, xs = scan.params["carry"], scan.params["xs"]
    stacked = index >= carry
    if stacked and axis == 0:
        return [(scan.inputs[carry], 0)] if xs else ()
    if (assumed := assumption()) is None:
        return ()
    body: Graph = scan.params["body"]
    inside = assumed.loops.get(scan)
    if inside is None:
        inside = assumed.loops[scan] = sizes_inside(assumed, body, scan.inputs, carry, xs)
    origins = inside.origin(body.outputs[index], axis - stacked)
    return [origins] if origins in inside.same.values() else ()


def sizes_inside(
    outside: Sizes, body: Graph, operands: Sequence[Tensor], carry: int, xs: int
) -> Assumption:
    """The unknown sizes in a scan's body: those of the operands, unless a step changes them."""
    same: dict[Axis, Axis] = {}
    for i, (leaf, source) in enumerate(zip(body.inputs, operands, strict=True)):
        skip = int(carry <= i < carry + xs)
        for axis, n in enumerate(leaf.spec.shape):
            if n is None and source.spec.shape[axis + skip] is None:
                same[leaf, axis] = outside.origin(source, axis + skip)
    ends = dict(zip(body.inputs[:carry], body.outputs, strict=False))
    while True:
        sizes = Assumption(same)
        kept = {
            (leaf, axis): source
            for (leaf, axis), source in same.items()
            if leaf not in ends or sizes.origin(ends[leaf], axis) == source
        }
        if len(kept) == len(same):
            return sizes
        same = kept


@primitive(name="scan", multiple=True, memory=Memory.ANY, axes=_steps_of_stack)
def scan_(
    *operands: Spec, body: Graph, carry: int, xs: int, reverse: bool, length: int | None
) -> list[Spec]:
    """Run `body` once per position of the leading axis of the sequences `xs`, and hand the carry on
    from step to step.

    The operands are `carry` tensors to start from, `xs` sequences (time first), and constants.
    `body` maps carry, rows of the sequences and constants to the next carry and ys. The results are
    the final carry, then the stacked ys. With `reverse` the steps run from the last position to the
    first, and each y keeps its place. Without sequences `length` says how many steps there are.
    After zero steps the carry is the initial one, and the stacks are empty.
    """
    size = length
    for spec in operands[carry : carry + xs]:
        if not spec.shape:
            raise ValueError("scan: each sequence needs a leading time axis, got a scalar")
        size = spec.shape[0] if size is None else size
        if spec.shape[0] is not None and spec.shape[0] != size:
            raise ValueError(f"scan: sequences of {size} and {spec.shape[0]} steps")
    if xs == 0 and length is None:
        raise ValueError("scan: without sequences the length must be given")
    finals = [t.spec for t in body.outputs[:carry]]
    for i, (spec, start) in enumerate(zip(finals, operands[:carry], strict=True)):
        if not spec.accepts(start):
            raise ValueError(f"scan: state {i} starts as {start} but a step makes it {spec}")
    stacked = [Spec((size, *t.spec.shape), t.spec.dtype) for t in body.outputs[carry:]]
    return [*finals, *stacked]


scan_.vjp(lambda g, y, *operands, **loop: _Backward(g, y, operands, **loop).cotangents())


class _Backward:
    """Builds the backward scan of one forward scan."""

    def __init__(
        self,
        g: Cotangents,
        y: list[Tensor],
        operands: Sequence[Tensor],
        *,
        body: Graph,
        carry: int,
        xs: int,
        reverse: bool,
        length: int | None,
    ) -> None:
        self.y, self.operands, self.body = y, operands, body
        self.carry, self.xs, self.reverse = carry, xs, reverse
        self.length = length if length is not None or not xs else operands[carry].spec.shape[0]
        self.g_final, self.g_ys = g[:carry], g[carry:]
        floats = [i for i, t in enumerate(body.inputs) if is_float(t.spec.dtype)]
        self.moving = [j for j, gj in enumerate(self.g_ys) if gj is not None]
        self.state = self._live([i for i in floats if i < carry])
        self.sequences = [i for i in floats if carry <= i < carry + xs]
        self.constants = [i for i in floats if i >= carry + xs]

    def _live(self, states: Sequence[int]) -> list[int]:
        """The states through which a cotangent flows, from their end or from a step's results."""
        order = toposort(self.body.outputs)
        reached_from = {i: reached(order, [self.body.inputs[i]]) for i in states}
        losses = {self.body.outputs[self.carry + j] for j in self.moving}
        live: set[int] = set()
        while True:
            flowing = {
                i for i in states
                if self.g_final[i] is not None or not losses.isdisjoint(reached_from[i])
            }  # fmt: skip
            if flowing == live:
                return sorted(live)
            live = flowing
            losses |= {self.body.outputs[i] for i in live}

    def cotangents(self) -> Cotangents:
        """One cotangent, or None, per operand of the forward scan."""
        inputs = self.body.inputs
        d_state = [Placeholder(inputs[i].spec) for i in self.state]
        d_ys = [Placeholder(self.body.outputs[self.carry + j].spec) for j in self.moving]
        losses = [self.body.outputs[i] for i in self.state]
        losses += [self.body.outputs[self.carry + j] for j in self.moving]
        wrt = [inputs[i] for i in (*self.state, *self.sequences, *self.constants)]
        flowed = gradients(losses, wrt, [*d_state, *d_ys])
        positions = (*self.state, *self.sequences, *self.constants)
        flowing = {i: t for i, t in zip(positions, flowed, strict=True) if t is not None}
        following = [
            flowing[i] if i in flowing else zeros_like(d)
            for i, d in zip(self.state, d_state, strict=True)
        ]
        self.constants = [i for i in self.constants if i in flowing]
        totals = [Placeholder(inputs[i].spec) for i in self.constants]
        following += [add(t, flowing[i]) for i, t in zip(self.constants, totals, strict=True)]
        flows = [i for i in self.sequences if i in flowing]
        d_xs = [flowing[i] for i in flows]
        results = self._scan([*d_state, *totals], d_ys, following, d_xs)
        by_operand = dict(zip((*self.state, *self.constants, *flows), results, strict=False))
        for i in self.state:
            # The first step may have made the state larger.
            by_operand[i] = sum_to_like(by_operand[i], self.operands[i], inputs[i])
        # A loop without steps hands its start on as its end.
        known = set(flowing) if self.length else {*self.state, *flowing}
        return [by_operand[i] if i in known else None for i in range(len(self.operands))]

    def _scan(
        self,
        carried: list[Placeholder],
        d_ys: list[Placeholder],
        new_carry: list[Tensor],
        new_ys: list[Tensor],
    ) -> list[Tensor]:
        """Close the backward step over the forward values that it reads, and run it."""
        saved, shared = self._forward_values([*new_carry, *new_ys], {*carried, *d_ys})
        fresh = {t: Placeholder(t.spec) for t in (*saved, *shared)}
        closed = substitute([*new_carry, *new_ys], fresh)
        binders = [*carried, *d_ys, *[fresh[t] for t in saved], *[fresh[t] for t in shared]]
        sequences = [g for g in self.g_ys if g is not None] + list(saved.values())
        if self.length is None and not sequences:
            # Only a sequence tells the number of steps.
            binders.insert(len(carried), Placeholder(self.body.inputs[self.carry].spec))
            sequences = [self.operands[self.carry]]
        return _node(
            [*self._starts(), *sequences, *shared.values()],
            Graph(binders, closed),
            len(carried),
            len(sequences),
            not self.reverse,
            self.length,
        )

    def _starts(self) -> list[Tensor]:
        starts = []
        for i in self.state:
            g = self.g_final[i]
            starts.append(zeros_like(self.y[i]) if g is None else g)
        return starts + [zeros_like(self.operands[i]) for i in self.constants]

    def _forward_values(
        self, outputs: list[Tensor], own: set[Tensor]
    ) -> tuple[dict[Tensor, Tensor], dict[Tensor, Tensor]]:
        """The values of the forward step that the backward step reads: those that change from step
        to step, each with the stack that holds them, and the constants, each with its operand.
        """
        offered = {t: self.y[i] for i, t in enumerate(self.body.outputs) if i >= self.carry}
        position = {t: i for i, t in enumerate(self.body.inputs)}
        forward = toposort(self.body.outputs)
        sizes = sizes_among(forward)
        # Sizes are read again from their tensors, because engines need them as plain ints.
        stop = [t for t in forward if t in offered and t not in sizes]
        saved: dict[Tensor, Tensor] = {}
        shared: dict[Tensor, Tensor] = {}
        for t in toposort(outputs, stop=[*stop, *position]):
            if t in own:
                continue
            i = position.get(t)
            if i is not None and i >= self.carry:
                (saved if i < self.carry + self.xs else shared)[t] = self.operands[i]
            elif t in offered and t not in sizes:
                saved[t] = offered[t]
        return saved, shared


def _node(
    operands: Sequence[Tensor], body: Graph, carry: int, xs: int, reverse: bool, length: int | None
) -> list[Tensor]:
    """A scan node whose body also gives every intermediate value, as an offer to its gradient."""
    order, listed = toposort(body.outputs), set(body.outputs[carry:])
    passed = listed | sizes_among(order)
    offers = [t for t in order if t not in passed and _may_be_read(t, body, carry)]
    offering = Graph(body.inputs, [*body.outputs, *offers])
    return scan_(*operands, body=offering, carry=carry, xs=xs, reverse=reverse, length=length)


def _may_be_read(t: Tensor, body: Graph, carry: int) -> bool:
    if t.op is None:
        return t in body.inputs[:carry]
    return t.op is OUTPUT or not t.op.multiple


def scan(
    step: Step,
    init: Sequence[Tensor],
    xs: Sequence[Tensor],
    *,
    reverse: bool = False,
    length: int | None = None,
) -> tuple[list[Tensor], list[Tensor]]:
    """Trace `step(carry, x) -> (carry, ys)` and scan it over the leading axis of `xs`: the final
    carry and the stacked ys. `step` may use tensors from outside, and may draw random numbers: each
    step draws its own. ValueError if a step changes the number, the dtypes or the known sizes of
    the carried tensors.
    """
    n_carry, n_xs = len(init), len(xs)
    items = [Spec(t.spec.shape[1:], t.spec.dtype) for t in xs]
    carried = [Spec(t.spec.shape, t.spec.dtype) for t in init]
    steady = True
    while True:
        count = [0]

        def run(*inputs: Tensor, tied: bool = steady, count: list[int] = count) -> Sequence[Tensor]:
            tie_all(inputs[n_carry:], xs, 1)
            if tied:
                tie_all(inputs, init)
            carry, ys = step(list(inputs[:n_carry]), list(inputs[n_carry:]))
            if len(carry) != n_carry:
                raise ValueError(f"a step gives {len(carry)} states, it was given {n_carry}")
            count[0] = len(ys)
            return [*carry, *ys]

        body, captured, keys = trace(run, [*carried, *items])
        ends = body.outputs[:n_carry]
        widened = [wider(a, t.spec, i) for i, (a, t) in enumerate(zip(carried, ends, strict=True))]
        keeps = not steady or all(map(_keeps_sizes, body.outputs, init))
        if keeps and widened == carried:
            break
        carried, steady = widened, steady and keeps
    tie_all(body.inputs[n_carry + n_xs :], captured)
    if keys:
        body, init, n_carry = _with_counter(body, list(init), n_carry, len(keys))
    results = _node([*init, *xs, *captured, *keys], body, n_carry, n_xs, reverse, length)
    finals = results[1:n_carry] if keys else results[:n_carry]
    return finals, results[n_carry : n_carry + count[0]]


def first_items(xs: Sequence[Tensor], *, reverse: bool = False) -> list[Tensor]:
    """The items that the first step of a scan over `xs` gets; zeros where there is known to be no
    step.

    K's loops call a step function of the user's once on these before they trace it, as classic
    Keras did. A tensor that the step builds in its first call and uses in later ones (recurrent
    layers keep their dropout masks so) then stands before the loop, and is the same for all steps.
    """
    start, stop = (-1, None) if reverse else (0, 1)
    items = []
    for x in xs:
        if x.spec.shape[0] == 0:
            x = pad(x, padding=((0, 1), *[(0, 0)] * (x.ndim - 1)), value=0)
        items.append(squeeze(part(x, 0, start, stop), axes=(0,)))
    return items


def _keeps_sizes(end: Tensor, start: Tensor) -> bool:
    """Whether a step is certain to hand on a state with the unknown sizes that it started with."""
    sizes = zip(end.spec.shape, start.spec.shape, strict=False)
    return all(
        not (n is None and m is None) or origin(end, i) == origin(start, i)
        for i, (n, m) in enumerate(sizes)
    )


def wider(start: Spec, end: Spec, i: int) -> Spec:
    """A spec that fits both the start and the result of a step: a known size may become unknown."""
    if not start.accepts(end):
        raise ValueError(
            f"state {i} has shape {start.shape} and dtype {start.dtype}, but a step makes it shape "
            f"{tuple(end.shape)} and dtype {end.dtype}"
        )
    sizes = zip(start.shape, end.shape, strict=True)
    return Spec(tuple(a if a == b else None for a, b in sizes), start.dtype)


def _with_counter(
    body: Graph, init: list[Tensor], n_carry: int, n_keys: int
) -> tuple[Graph, list[Tensor], int]:
    """The body with a step counter as its first state. The counter is folded into the keys, which
    are the last inputs of the body.
    """
    counter = Placeholder(Spec((), "int64"))
    given = [Placeholder(t.spec) for t in body.inputs[-n_keys:]]
    folded = {
        old: fold(new, counter) for old, new in zip(body.inputs[-n_keys:], given, strict=True)
    }
    outputs = substitute(body.outputs, folded)
    inputs = [counter, *body.inputs[:-n_keys], *given]
    following = add(counter, constant(1, "int64"))
    return Graph(inputs, [following, *outputs]), [constant(0, "int64"), *init], n_carry + 1


def fold(key: Tensor, counter: Tensor) -> Tensor:
    """A key for one step of a loop: `key` with the step's number mixed into its last word.

    The arithmetic is in int64, where no product overflows, because not all engines multiply uint32.
    """
    last = cast(part(key, 0, 3, 4), dtype="int64")
    mixed = add(add(mul(last, constant(40503, "int64")), counter), constant(1, "int64"))
    word = cast(bit_and(mixed, constant(0xFFFFFFFF, "int64")), dtype="uint32")
    return concat(part(key, 0, 0, 3), word, axis=0)


# --- while ----------------------------------------------------------------------------------------


@primitive(name="while_loop", multiple=True, memory=Memory.ANY)
def while_loop_(*operands: Spec, test: Graph, body: Graph, carry: int) -> list[Spec]:
    """Run `body` on the carry as long as `test` holds. There is no gradient: since the number of
    steps is unknown, nothing can be kept for a backward loop. Use a scan with a mask instead.
    """
    return [t.spec for t in body.outputs[:carry]]


def while_loop(
    test: Callable[..., Tensor], step: Callable[..., Sequence[Tensor]], init: Sequence[Tensor]
) -> list[Tensor]:
    """Trace `test(*carry)` and `step(*carry)` and loop from `init`."""
    specs = [t.spec for t in init]
    tested, captured_by_test, _ = trace(lambda *c: [test(*c)], specs)
    stepped, captured_by_step, _ = trace(step, specs)
    captured = list(dict.fromkeys([*captured_by_test, *captured_by_step]))
    tested = over(captured, tested, captured_by_test)
    stepped = over(captured, stepped, captured_by_step)
    return while_loop_(*init, *captured, test=tested, body=stepped, carry=len(init))
