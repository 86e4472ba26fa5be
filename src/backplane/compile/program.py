"""Compiled programs, shared between equal graphs, and the functions of closed graphs.

`compiled` takes a graph from inputs to outputs, runs the passes, turns array constants into inputs,
and returns a callable that runs the graph. Programs of equal structure are compiled once per
process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from backplane.compile import passes
from backplane.compile.aliases import shared, writes_over
from backplane.compile.cache_key import key_of, lifted
from backplane.compile.codegen.loop_steps import StepEmitter
from backplane.compile.codegen.programs import Emitter, emit
from backplane.compile.fuse.readers import users_of
from backplane.core.context import uncollected
from backplane.core.graph import (
    Constant,
    Graph,
    Placeholder,
    Tensor,
    is_array,
    nested,
    sorted_once,
    specs_of,
    toposort,
)
from backplane.core.hooks import HOOKS
from backplane.core.primitive import OUTPUT
from backplane.core.sizes import assumption
from backplane.core.variable import Variable
from backplane.engines.base import Engine
from backplane.engines.programs import Steps
from backplane.engines.roles.processes import agree
from backplane.engines.table import NOTHING
from backplane.ops.indexing import gather
from backplane.ops.updates import rows_add, rows_set

CACHE_LIMIT = 1024
"""Programs kept; the least recently used are dropped."""


class Statistics:
    """Counts since the start of the process, for tests and curious users."""

    def __init__(self) -> None:
        self.compilations = 0
        self.cache_hits = 0


statistics = Statistics()
_programs: OrderedDict[Hashable, Callable[..., tuple[Any, ...]]] = OrderedDict()


def clear_programs() -> None:
    """Forget all compiled programs."""
    _programs.clear()


class Request(NamedTuple):
    """An order for a program: a graph from inputs to outputs, for an engine. `K.function`
    makes it (`request_of`), and so do eager calls and whoever runs a graph op by op.
    """

    engine: Engine
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    """The new values of variables, then the others."""
    news: int = 0
    """The number of new values of variables."""
    state: Mapping[int, int] = NOTHING
    """From the positions of inputs that are replaced to those of their new values."""
    replace: Mapping[Tensor, Tensor] = NOTHING
    """Leaves that become others."""
    eager: bool = False
    """Whether the emitted Python itself is wanted, with each `stop_gradient` for the engine's own
    tape."""
    options: tuple[tuple[str, Any], ...] = ()
    """Wishes that are passed on to the engine."""
    rows: int | None = None
    """The size of a usual batch, where it is known."""


class Prepared(NamedTuple):
    """The graph of a request after the passes, ready to be emitted. `prepared` makes it."""

    request: Request
    known: list[Tensor]
    """The outputs as the first pass left them."""
    inputs: list[Tensor]
    """The inputs of the request, then the constants that became inputs."""
    outputs: list[Tensor]
    order: Sequence[Tensor]
    """All nodes, operands before users."""

    def key(self) -> Hashable:
        """A key that is equal for graphs that share a program."""
        engine, given, assumed = self.request.engine, self.request.inputs, assumption()
        return (
            engine.name,
            engine.device,
            engine.mesh,
            self.request.eager,
            tuple([isinstance(t, Variable) for t in given]),
            tuple(sorted(self.request.state.items())),
            self.request.options,
            passes.switched_off(),
            # The inputs whose first axes the program expects to have one size.
            None if assumed is None else tuple([(t, 0) in assumed.same for t in given]),
            key_of(self.order, self.inputs, self.outputs),
        )


class Compiled(NamedTuple):
    """A compiled program, and what callers must know about the memory of its results. `compiled`
    makes it.
    """

    run: Callable[..., tuple[Any, ...]]
    """Takes the values of the inputs, then `constants`, and returns those of the outputs."""
    constants: list[Any]
    """The native values of the constants that became inputs."""
    copied: list[bool]
    """The outputs behind the new values that share memory with something else, so that users get
    copies."""
    lent: list[bool]
    """The new values that share memory with something else."""
    written: frozenset[int]
    """The outputs that are new values of variables, written over the old ones. The calls that
    `run` returns last write them."""


@uncollected()
def compiled(request: Request) -> Compiled:
    """The program of a graph."""
    engine, graph = request.engine, prepared(request)
    key = graph.key()
    _lay_out_kernels(engine, graph.order)
    function = _programs.get(key)
    if function is None:
        function = _programs[key] = _compile(graph)
        statistics.compilations += 1
        if len(_programs) > CACHE_LIMIT:
            _programs.popitem(last=False)
    else:
        statistics.cache_hits += 1
        _programs.move_to_end(key)
    written = frozenset([i for i, t in enumerate(graph.outputs) if writes_over(t)])
    if not written.issubset(request.state.values()):
        function, written = _committing(function, engine), frozenset()
    constants = graph.inputs[len(request.inputs) :]
    copied, lent = shared(graph.known[request.news :], graph.known[: request.news])
    return Compiled(
        function, [_native(engine, t, request.eager) for t in constants], copied, lent, written
    )


def _lay_out_kernels(engine: Engine, order: Sequence[Tensor]) -> None:
    """Tell variables in which order in memory this program reads their elements fastest."""
    for node in order:
        entry = engine.table.get(node.op.name) if node.op is not None else None
        if entry is not None and entry.order is not None:
            weight = node.inputs[1]
            wish = entry.order(weight.spec) if isinstance(weight, Variable) else None
            if wish is not None:
                weight.order = engine, wish


@sorted_once()
def prepared(request: Request) -> Prepared:
    """Run the passes."""
    engine, inputs, eager = request.engine, request.inputs, request.eager
    options = dict(request.options)
    news = {inputs[i]: o for i, o in request.state.items()}
    in_place = news if news and engine.updates_in_place(options) else {}
    loops = not engine.has_kernels(options)
    job = passes.Job(
        engine, request.replace, keep_stops=eager, loops=loops, state=in_place, news=news,
        rows=request.rows or passes.USUAL_ROWS,
    )  # fmt: skip
    known, outputs = passes.optimized(request.outputs, job)
    # Libraries that build graphs of their own order them themselves. ONNX Runtime takes the results
    # the other way round.
    runs = "host_shapes" in engine.capabilities
    order = _in_order_of_depth(outputs, inputs) if runs else toposort(outputs, stop=inputs)
    # The value of a symbolic constant is known only when the program runs.
    arrays = [t for t in lifted(order) if is_array(t) or not (eager or engine.is_symbolic(t.value))]
    return Prepared(request, known, [*inputs, *arrays], outputs, order)


def _in_order_of_depth(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Sequence[Tensor]:
    """All nodes, operands before users, and what shallow results need before the rest. So the
    gradient of a late layer's weights is computed when its operands are, and frees them.
    """
    leaves, depth = set(inputs), dict[Tensor, int]()
    results = list(outputs)
    for node in toposort(outputs, stop=inputs):
        leaf = node in leaves or not node.inputs
        depth[node] = 0 if leaf else 1 + max([depth[t] for t in node.inputs])
        if node.op is not None and node.op.in_place:
            results += node.inputs  # One node may update all variables.
    return toposort(sorted(results, key=depth.__getitem__), stop=inputs)


def _committing(
    function: Callable[..., tuple[Any, ...]], engine: Engine
) -> Callable[..., tuple[Any, ...]]:
    """`function`, which runs the calls that it has returned last, for callers that expect none."""

    def run(*inputs: object) -> tuple[Any, ...]:
        *results, later = function(*inputs)
        engine.commit(later)
        return tuple(results)

    return run


def _native(engine: Engine, t: Tensor, eager: bool) -> Any:
    assert isinstance(t, Constant)
    if isinstance(t.value, np.ndarray):
        runs_eagerly = "eager" in engine.capabilities
        return engine.from_numpy(t.value) if runs_eagerly else engine.feed(t.value)
    if not engine.owns(t.value):
        kind = f"{type(t.value).__module__}.{type(t.value).__name__}"
        raise TypeError(
            f"a tensor of type {kind} is used in a program for the engine {engine.name!r}: take "
            "its values (K.eval gives a NumPy array) or choose its engine with K.engine"
        )
    return t.value if eager else engine.detached(t.value)


def _compile(graph: Prepared) -> Callable[..., tuple[Any, ...]]:
    request, _, inputs, _, order = graph
    engine, state = request.engine, request.state
    dtypes = frozenset([spec.dtype for t in nested(order) for spec in specs_of(t)])
    if missing := dtypes & engine.missing_dtypes:
        raise NotImplementedError(
            f"the engine {engine.name!r} has no {' and no '.join(sorted(missing))}, which the "
            "program uses: cast to another dtype, or choose another engine"
        )
    if engine.largest_size < Engine.largest_size:
        _check_sizes(engine, [*inputs, *order])
    emitted = emitter_for(graph).emit()
    if engine.mesh is not None:
        agree(engine, "the program of a function", emitted.source)
    program = emitted._replace(
        state=state,
        dtypes=dtypes,
        operations=[t.op.name for t in order if t.op is not None and t.op is not OUTPUT],
        tables=_tables(graph),
        reads_variables=any(isinstance(t, Variable) for t in inputs),
        lasting=[i for i, t in enumerate(inputs) if not isinstance(t, Placeholder)],
        options=dict(request.options),
    )
    return engine.eager(program) if request.eager else engine.compile(program)


def emitter_for(graph: Prepared) -> Emitter:
    """The writer of a prepared graph's text."""
    request, options = graph.request, dict(graph.request.options)
    engine, eager = request.engine, request.eager
    return Emitter(
        graph.inputs,
        graph.outputs,
        engine,
        news={graph.outputs[i] for i in request.state.values()},
        order=graph.order,
        writes="out" in engine.capabilities
        or (not eager and "blocks" in engine.capabilities and not options.get("compile")),
        hands_out=eager or bool(options.get("native")),
    )


def _check_sizes(engine: Engine, order: Sequence[Tensor]) -> None:
    """Raise NotImplementedError if an axis is longer than the engine can count."""
    most = engine.largest_size
    for node in nested(order):
        sizes = [n for spec in specs_of(node) for n in spec.shape if n is not None]
        if max(sizes, default=0) > most:
            raise NotImplementedError(
                f"the engine {engine.name!r} has no axes of more than {most} elements, got {node!r}"
            )


# --- inputs of which only rows are read and written, such as embeddings ---------------------------

_CHANGES = frozenset([rows_add, rows_set])
"""Primitives that change rows of their first operand."""


def _tables(graph: Prepared) -> frozenset[int]:
    """The positions of the inputs that are read by lookups along the first axis alone. Of those
    that the program replaces, the new value is the old one with other rows, or with
    sums added to rows, and nothing else reads it.
    """
    users = users_of(graph.order)
    return frozenset([i for i in range(len(graph.inputs)) if _is_table(i, graph, users)])


def _is_table(i: int, graph: Prepared, users: Mapping[Tensor, Sequence[Tensor]]) -> bool:
    x, outputs, state = graph.inputs[i], graph.outputs, graph.request.state
    readers = users.get(x, ())
    added = [t for t in readers if t.op in _CHANGES and t.inputs[0] is x]
    lookups = [t for t in readers if t.op is gather and t.inputs[0] is x and not t.params["axis"]]
    if len(lookups) + len(added) < len(readers) or x in outputs:
        return False
    if i not in state:
        return bool(lookups) and not added
    while len(added) == 1:
        (x,) = added
        added = [t for t in users.get(x, ()) if t.op in _CHANGES and t.inputs[0] is x]
        if len(added) < len(users.get(x, ())):
            return False
    return x.op in _CHANGES and [o for o, t in enumerate(outputs) if t is x] == [state[i]]


# --- closed graphs: engines ask for the bodies of loops and for branches --------------------------


@sorted_once()
def closed(graph: Graph, engine: Engine) -> list[Tensor]:
    """The outputs of a closed graph, ready for emission."""
    # Eager calls run these graphs too, and the engine's own tape must see where it stops.
    return passes.optimized(graph.outputs, passes.Job(engine, keep_stops=True)).outputs


def callable_of(graph: Graph, engine: Engine) -> Callable[..., tuple[Any, ...]]:
    """A function over engine values that evaluates a closed graph. It is made once per engine."""
    key = engine, passes.switched_off()
    function: Callable[..., tuple[Any, ...]] | None = graph.cache.get(key)
    if function is None:
        function = emit(graph.inputs, closed(graph, engine), engine, whole=False).function
        graph.cache[key] = function
    return function


def steps_of(body: Graph, engine: Engine, carry: int, xs: int) -> Steps:
    """A loop's body as steps that write to memory which is kept. They are made once per engine."""
    key = engine, carry, xs, passes.switched_off()
    steps: Steps | None = body.cache.get(key)
    if steps is None:
        steps = StepEmitter(body, closed(body, engine), engine, carry, xs).steps()
        body.cache[key] = steps
    return steps


HOOKS.update(callable_of=callable_of, steps_of=steps_of)
