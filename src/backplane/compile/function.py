"""`K.function`: from placeholders to NumPy results, with updates applied all or not at all."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from backplane.compile.codegen.buffers import alias_root, shared
from backplane.compile.codegen.calls import Call, straight
from backplane.compile.diagnosis import conflict
from backplane.compile.feeds import Feed, feed_for
from backplane.compile.policy import PLAIN, Planned, Policy, planned
from backplane.compile.program import compiled
from backplane.compile.progress import shown
from backplane.compile.source_map import explain, place_of, tell
from backplane.core.context import watcher
from backplane.core.graph import KeySource, Placeholder, Tensor, constant, substitute, toposort
from backplane.core.mesh import Mesh, check_layout, whole
from backplane.core.sizes import assuming
from backplane.core.spec import Spec
from backplane.core.variable import Variable
from backplane.engines.base import Engine
from backplane.ops import indexing
from backplane.ops.effects import shard, updates_in
from backplane.ops.shaping import squeeze


class Function:
    """A compiled function; see `K.function` for the arguments."""

    def __init__(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Tensor],
        updates: Sequence[tuple[Variable, Tensor]] = (),
        *,
        engine: Engine,
        name: str | None = None,
        options: tuple[tuple[str, Any], ...] = (),
        policy: Policy = PLAIN,
    ) -> None:
        self.name = name or "function"
        self.engine = engine
        self.options = options
        self.policy = policy
        self.loss_scale: Variable | None = None
        """The variable by which a program with float16 multiplies its loss."""
        results, pairs = self._graph(inputs, outputs, self._all_updates(outputs, updates))
        self.outputs = results[: len(outputs)]
        self._collect_leaves(results)
        self._settle([*self.variables, *pairs])
        self._check_layouts()
        # In the order of the variables, because engines that reuse their memory pair them in order.
        rank = {v: i for i, v in enumerate(self.variables)}
        news = [*zip(pairs, results[len(outputs) :], strict=True)]
        news.sort(key=lambda pair: rank.get(pair[0], len(rank)))
        self.updated = [v for v, _ in news]
        self.news = [new for _, new in news]
        self.feeds: list[Feed] = [
            feed_for(p, i, self.name, policy.parts) for i, p in enumerate(self.inputs)
        ]
        kept = {alias_root(t) for t in self.news}
        self.kept = [p in kept for p in self.inputs]
        self.switches = [i for i, p in enumerate(self.inputs) if is_switch(p)]
        self.batches = [
            i for i, p in enumerate(self.inputs)
            if p.ndim and p.spec.shape[0] is None and not p.spec.sparse
        ]  # fmt: skip
        """The inputs that have a batch axis of unknown size."""
        self.alike: list[Placeholder] = []
        """Those that have had one size when the function was first called. Its program expects
        that."""
        self._calls: dict[tuple[Any, ...], Call] = {}
        self._apart: dict[tuple[Any, ...], Call] = {}
        """Where `_calls` expect batches of one size: the calls for others."""
        self.call: Call | None = None
        """The straight-line call, once there is one that serves whatever is fed."""

    # --- construction -----------------------------------------------------------------------------

    @staticmethod
    def _all_updates(
        outputs: Sequence[Tensor], updates: Sequence[tuple[Variable, Tensor]]
    ) -> dict[Variable, Tensor]:
        """The explicit updates, and those on the way to the outputs. Later ones win."""
        pairs: dict[Variable, Tensor] = {}
        for update in updates_in([*outputs, *(value for _, value in updates)]):
            pairs[update.variable] = update
        pairs.update(updates)
        return pairs

    @staticmethod
    def _cut(inputs: Sequence[Any]) -> tuple[list[Placeholder], dict[Tensor, Tensor]]:
        """Placeholders for all inputs, because any tensor may be fed, and what they replace."""
        cuts: dict[Tensor, Tensor] = {}
        found = []
        for t in inputs:
            p = t if isinstance(t, Placeholder) else Placeholder(t.spec, t.name)
            found.append(p)
            if p is not t:
                cuts[t] = p
        return found, cuts

    def _graph(
        self, inputs: Sequence[Any], outputs: Sequence[Tensor], pairs: dict[Variable, Tensor]
    ) -> tuple[list[Tensor], dict[Variable, Tensor]]:
        """The graph that is computed: the outputs and new values, and the latter by variable."""
        self.inputs, cuts = self._cut(inputs)
        if self.policy is not PLAIN:
            outputs, pairs, self.loss_scale = self._planned(outputs, pairs, cuts)
            cuts = {}
        mesh = self.engine.mesh
        if mesh is not None:
            pairs = {v: _laid_out(new, v, mesh) for v, new in pairs.items()}
        results = [*outputs, *pairs.values()]
        return substitute(results, cuts) if cuts else results, pairs

    def _planned(
        self, outputs: Sequence[Tensor], pairs: dict[Variable, Tensor], cuts: dict[Tensor, Tensor]
    ) -> Planned:
        """The graph as the policy changes it."""
        dtype = self.policy.precision
        if dtype is not None and dtype not in self.engine.capabilities:
            raise NotImplementedError(
                f"K.function {self.name!r}: the engine {self.engine.name!r} has no {dtype}, which "
                "is asked for as the precision"
            )
        try:
            return planned(self.policy, self.inputs, outputs, pairs, cuts)
        except ValueError as error:
            raise ValueError(f"K.function {self.name!r}: {error}") from None

    def _collect_leaves(self, results: Sequence[Tensor]) -> None:
        """Sort the leaves into variables, key sources and defaults. Refuse placeholders that are
        not fed.
        """
        fed = set(self.inputs)
        self.variables: list[Variable] = []
        self.keys: list[KeySource] = []
        self.defaults: dict[Tensor, Tensor] = {}
        for node in toposort(results, stop=self.inputs):
            if isinstance(node, Variable):
                self.variables.append(node)
            elif isinstance(node, KeySource):
                self.keys.append(node)
            elif isinstance(node, Placeholder) and node not in fed:
                if node.default is None:
                    raise ValueError(
                        f"K.function {self.name!r}: the placeholder {node.name!r} "
                        f"(built at {node.where}) is needed for the outputs but is no input"
                    )
                self.defaults[node] = constant(node.default, node.spec.dtype)

    def _settle(self, variables: Sequence[Variable]) -> None:
        """Run on the device where the variables are. Those that are on none go there too.

        Raises:
            ValueError: if they are on different devices.
        """
        own, places = self.engine, dict[Engine, str]()
        if own.device is not None or own.mesh is not None:
            places[own] = f"the function on {own.device or own.mesh}"
        for v in variables:
            if isinstance(v.home, Engine) and v.home.name == own.name:
                places.setdefault(v.home, f"the variable {v.name!r} on {v.home.device}")
        if len(places) > 1:
            raise ValueError(
                f"K.function {self.name!r}: everything must be on one device, but there are "
                f"{', '.join(places.values())}"
            )
        if places and own.mesh is None:
            (self.engine,) = places
            for v in variables:
                v.home = v.home or self.engine

    def _check_layouts(self) -> None:
        """ValueError if a variable cannot lie on the mesh in its layout."""
        if self.engine.mesh is not None:
            for v in self.variables:
                if v.layout is not None:
                    what = f"K.function {self.name!r}: the variable {v.name!r}"
                    check_layout(v.layout, v.spec.shape, self.engine.mesh, what)

    # --- running ----------------------------------------------------------------------------------

    def __call__(self, values: Sequence[Any] = ()) -> list[np.ndarray]:
        """Run on a list of values, one per input, and return the outputs as NumPy arrays."""
        if (watching := watcher()) is not None:
            found: list[np.ndarray] = watching.call(self, self.checked_count(values))
            return found
        if self.call is not None:
            return self.call(values)
        return self._checked(values)

    def checked_count(self, values: Any) -> Sequence[Any]:
        """`values`, after a check that there is one for each input. A learning phase at the end
        may be left out, and lists of arrays among the values are joined.
        """
        if not isinstance(values, list | tuple):
            raise TypeError(
                f"K.function {self.name!r}: inputs must be a list or tuple of values, "
                f"got {type(values).__name__}"
            )
        given = len(values)
        if given < len(self.feeds) and all(p.default is not None for p in self.inputs[given:]):
            # Agents leave it out where no layer asks for it.
            values = [*values, *(p.default for p in self.inputs[given:])]
        if len(values) != len(self.feeds):
            joined = _joined(values)
            values = joined if len(joined) == len(self.feeds) else values
        if len(values) != len(self.feeds):
            raise ValueError(
                f"K.function {self.name!r} takes {len(self.feeds)} values "
                f"({', '.join(p.name for p in self.inputs)}), got {len(values)}"
            )
        checked: Sequence[Any] = values
        return checked

    def _checked(self, values: Any) -> list[np.ndarray]:
        """Check the number of values, and run the variant that the switches among them choose."""
        values = self.checked_count(values)
        key = tuple([self.feeds[i](values[i], self.engine, False) for i in self.switches])
        call = self._calls.get(key)
        if call is not None:
            return call(list(values))
        with shown(f"Compiling {self.name!r} for {self.engine.name}"):
            call = self._calls[key] = self._straight(key, alike=self._are_alike(values))
            self.call = self.call or (self._by_switches() if self.switches else call)
            return call(list(values))  # Some engines compile in the first run.

    def _are_alike(self, values: Sequence[Any]) -> bool:
        """Whether there are several batches, all of one size. Where programs know that, nothing is
        prepared for a batch that is broadcast to another: most of the steps of a masked LSTM's
        gradient would be.
        """
        if len(self.batches) < 2 or self.engine.mesh is not None:
            return False
        shapes = [getattr(values[i], "shape", None) for i in self.batches]
        sizes = {shape[0] if isinstance(shape, tuple) and shape else None for shape in shapes}
        return len(sizes) == 1 and None not in sizes

    def _straight(self, key: tuple[Any, ...], alike: bool) -> Call:
        batches = [self.inputs[i] for i in self.batches] if alike else []
        self.alike = self.alike or batches
        variant = Variant(self, *self.fixed(key), batches)
        return straight(self, variant, _slow(self), _other_sizes(self, key) if alike else None)

    def apart(self, key: tuple[Any, ...]) -> Call:
        """The call for batches of different sizes."""
        call = self._apart.get(key)
        if call is None:
            with shown(f"Compiling {self.name!r} for {self.engine.name}"):
                call = self._apart[key] = self._straight(key, alike=False)
        return call

    def _by_switches(self) -> Call:
        """The call that looks up the variant by the values of the switches. It leaves new values,
        and wrong ones, to `_checked`.
        """
        find, checked = self._calls.get, _slow(self)
        take, one = itemgetter(*self.switches), len(self.switches) == 1

        def call(inputs: Any = ()) -> list[np.ndarray]:
            try:
                key = take(inputs)
                chosen = find((key,) if one else key)
            except (LookupError, TypeError):
                chosen = None
            return checked(inputs) if chosen is None else chosen(inputs)

        return call

    def without_graph(self) -> Call:
        """The call of a function that has no inputs. It refers to variables, but to no computed
        tensor. So it can be kept with the outputs, and is freed with them.
        """
        with shown(f"Compiling {self.name!r} for {self.engine.name}"):
            return straight(self, Variant(self, *self.fixed(())), _takes_nothing)

    def fixed(self, switches: tuple[Any, ...]) -> tuple[list[Placeholder], dict[Tensor, Tensor]]:
        """The inputs that are left, and what replaces leaves, for given values of the learning
        phase.
        """
        replace = dict(self.defaults)
        for i, value in zip(self.switches, switches, strict=True):
            replace[self.inputs[i]] = constant(value, self.inputs[i].spec.dtype)
        return [p for i, p in enumerate(self.inputs) if i not in self.switches], replace


def _laid_out(new: Tensor, variable: Variable, mesh: Mesh) -> Tensor:
    """The new value of a variable in the layout of the old one."""
    layout = variable.layout or whole(variable.ndim)
    check_layout(layout, variable.spec.shape, mesh, f"the variable {variable.name!r}")
    return shard(new, layout=layout)


def _joined(values: Sequence[Any]) -> list[Any]:
    """The values, with those of lists of arrays in the place of the lists: code for `tf.keras`
    feeds `(inputs, targets, sample_weights)`.
    """
    found: list[Any] = []
    for value in values:
        listed = isinstance(value, list | tuple) and all(hasattr(x, "shape") for x in value)
        found += value if listed else [value]
    return found


def _slow(function: Function) -> Call:
    """The checked call."""
    return _weakly(function, Function._checked)


def _other_sizes(function: Function, key: tuple[Any, ...]) -> Call:
    """The call for batches of different sizes."""

    def run(owner: Function, values: Any) -> list[np.ndarray]:
        return owner.apart(key)(values)

    return _weakly(function, run)


def _weakly(function: Function, run: Callable[[Function, Any], list[np.ndarray]]) -> Call:
    """`run` of the function. It refers to that weakly, because the function holds the caller of
    this: a reference cycle would keep the variables until Python's collector runs.
    """
    found = weakref.ref(function)

    def call(values: Any = ()) -> list[np.ndarray]:
        owner = found()
        if owner is None:  # somebody has kept the compiled call alone
            raise ReferenceError("the function of this call does not exist any more")
        return run(owner, values)

    return call


def _takes_nothing(values: Sequence[Any]) -> list[np.ndarray]:
    raise ValueError(f"the function has no inputs, got {len(values)} values")


class Variant:
    """One compiled program of a function."""

    def __init__(
        self,
        function: Function,
        inputs: Sequence[Tensor],
        replace: dict[Tensor, Tensor],
        alike: Sequence[Tensor] = (),
    ) -> None:
        """`alike`: the inputs whose batches are sure to have one size."""
        self.engine = engine = function.engine
        self.variables = function.variables
        self.updated = function.updated
        self.count = len(function.outputs)
        results = [*function.news, *function.outputs]
        self.keys = function.keys
        fed, state, replace = signature(function, inputs, replace)
        with assuming(alike):
            self.run, self.constants, results, self.written = compiled(
                engine, fed, results, state=state, replace=replace, options=function.options
            )
        count = len(function.news)
        self.copied, self.lent = shared(results[count:], results[:count])
        # Without inputs all sizes were known when the graph was built, and it need not be kept.
        self.inputs = list(inputs)
        self.graph = [*function.news, *function.outputs] if self.inputs else []

    def failed(self, error: Exception, values: Sequence[Any]) -> None:
        """Add to an error which primitive failed and where it was built.

        Raises:
            ValueError: in place of `error`, if the shapes of the values do not fit together. It is
                the same on every engine.
            IndexError: if an index of `gather` is out of range.
        """
        shapes = map(self._shape, values)
        given = {p: p.spec._replace(shape=s) for p, s in zip(self.inputs, shapes, strict=True)}
        found = conflict(self.graph, given)
        if found is None or not found.certain:
            place = explain(error, self.engine, self.run)
            if found is None or not found.explains(place.where if place else None):
                return
        better = ValueError(str(found.error))
        tell(better, self.engine, place_of(found.node))
        raise better from error

    def _shape(self, value: Any) -> tuple[int | None, ...]:
        known = self.engine.spec_of(value) if self.engine.owns(value) else value
        return tuple(known.shape)


def signature(
    function: Function, inputs: Sequence[Tensor], replace: dict[Tensor, Tensor]
) -> tuple[list[Tensor], dict[int, int], dict[Tensor, Tensor]]:
    """What the program of a function takes, which of that is replaced by which output, and what
    replaces leaves.
    """
    # Keys travel as one array, so a call converts once, however many random ops there are.
    packed = Placeholder(Spec((len(function.keys), 4), "uint32"))
    replace = {**replace, **{k: _row(packed, i) for i, k in enumerate(function.keys)}}
    fed = [*inputs, *([packed] if function.keys else []), *function.variables]
    first = len(fed) - len(function.variables)
    position = {v: first + i for i, v in enumerate(function.variables)}
    state = {position[v]: i for i, v in enumerate(function.updated) if v in position}
    return fed, state, replace


def is_switch(p: Tensor) -> bool:
    """Whether the value fed for this placeholder chooses between programs. It must be a scalar with
    a default.
    """
    return isinstance(p, Placeholder) and p.default is not None and p.spec.shape == ()


def _row(packed: Tensor, index: int) -> Tensor:
    part = indexing.slice(packed, slices=((index, index + 1, 1), (None, None, 1)))
    return squeeze(part, axes=(0,))
