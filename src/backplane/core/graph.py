"""Tensors: immutable nodes that know how they are computed and what they will be.

A tensor is either a leaf (placeholder, constant, variable, key source) or the result of a primitive
on other tensors. A primitive with several results makes one node whose `spec` is a tuple of specs,
and one `output` tensor per result. A tensor never refers to its users, so Python frees whatever
nobody holds any more.
"""

from __future__ import annotations

import itertools
import os
from _thread import allocate_lock  # `threading` imports much more than this.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard, TypeVar

import numpy as np

from backplane.core.context import Where, current, scoped_name, user_line
from backplane.core.mesh import Layout
from backplane.core.spec import DType, Shape, Spec

if TYPE_CHECKING:
    from backplane.core.primitive import Primitive

_serial = itertools.count()
_drawing = allocate_lock()

OPERATORS: dict[str, Callable[..., Any]] = {}
"""What `+`, `[]`, … do, by method name without underscores. `ops` fills it: core knows no op."""


def _operator(name: str) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: Any) -> Tensor:
        result: Tensor = OPERATORS[name](self, *args)
        return result

    method.__name__ = f"__{name}__"
    return method


TensorT = TypeVar("TensorT", bound="Tensor")

GIVEN_NAME = "given_name"
"""The attribute with the name that a user gave, without a number that makes it unique."""


class Tensor:
    """A value to be computed. It never changes, but other libraries may hang attributes on it."""

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_name",
        "_phased",
        "inputs",
        "op",
        "params",
        "serial",
        "spec",
        "where",
    )

    __array_priority__ = 1000

    tells_phase: ClassVar[bool] = False
    """Whether each tensor has `_uses_learning_phase`: Keras 1 reads it without asking."""

    def __init__(
        self,
        op: Primitive[Any] | None,
        inputs: tuple[Tensor, ...],
        params: Mapping[str, Any],
        spec: Spec,
        where: Where | None,
        name: str | tuple[str, ...] | None = None,
    ) -> None:
        """`name`: a name, or the scopes of one that is made when somebody asks for it."""
        self.op = op
        self.inputs = inputs
        self.params = params
        self.spec = spec
        self.where = where
        self.serial = next(_serial)
        self._name = name
        self._phased: bool | None = None

    # --- what Keras code reads --------------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        """The static shape; unknown sizes are None."""
        return Shape(self.spec.shape)

    def get_shape(self) -> Shape:
        """The static shape, TensorFlow's spelling."""
        return Shape(self.spec.shape)

    def set_shape(self, shape: Any) -> None:
        """Check that a shape fits. A tensor never changes, so nothing else becomes of it: what
        `K.int_shape` gives then is what classic Keras notes for the output of a layer.

        Raises:
            ValueError: if it does not fit.
        """
        sizes = tuple([None if n is None else int(n) for n in shape])
        if not self.spec.accepts(Spec(sizes, self.spec.dtype)):
            raise ValueError(f"set_shape({sizes}) contradicts the shape of {self!r}")
        self._keras_shape = sizes

    if not TYPE_CHECKING:  # Otherwise checkers would take any name for an attribute.

        def __getattr__(self, name: str) -> Any:
            more = WITHOUT.get(name, "")
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{more}")

    @property
    def static_shape(self) -> tuple[int | None, ...]:
        """The static shape, with the sizes that classic Keras has added (`_keras_shape`)."""
        found: tuple[int | None, ...] = self.__dict__.get("keras_shape", self.spec.shape)
        return found

    @property
    def _keras_shape(self) -> tuple[int | None, ...]:
        """The static shape.

        Raises:
            AttributeError: in a step function of a loop, if nobody has set it. A model of classic
                Keras that is called on a row takes the attribute for a sign that the row has
                `_uses_learning_phase` too.
        """
        if current().step and "keras_shape" not in self.__dict__:
            raise AttributeError("_keras_shape")
        return self.static_shape

    @_keras_shape.setter
    def _keras_shape(self, shape: Any) -> None:
        """The shape that classic Keras notes for the output of a layer. Keras may name sizes that
        the spec does not know (`Lambda(output_shape=…)`), but it cannot contradict sizes that the
        spec knows.
        """
        known = self.spec.shape
        if shape is not None and (not known or (len(shape) == len(known) + 1 and shape[-1] == 1)):
            # A layer that computes a loss gives a scalar, or one number per sample, but says
            # (None, 1): Keras makes the placeholder of the targets from this.
            self.__dict__["keras_shape"] = tuple(shape)
        elif shape is not None and len(shape) == len(known):
            pairs = zip(known, shape, strict=True)
            self.__dict__["keras_shape"] = tuple(m if n is None else n for n, m in pairs)

    @property
    def _uses_learning_phase(self) -> bool:
        """Whether the tensor is computed from the learning phase. The answer is remembered for
        every node on the way, because Keras asks after each layer.

        Raises:
            AttributeError: in a step function of a loop, if it is not, and nobody has set the
                attribute: there Keras 2 asks with `hasattr`.
        """
        if self._phased is None:
            waiting = [self]
            while waiting:
                node = waiting[-1]
                unknown = [t for t in node.inputs if t._phased is None]
                if unknown:
                    waiting += unknown
                    continue
                node._phased = _is_phase(node) or any(t._phased for t in node.inputs)
                waiting.pop()
        known = self._phased or self.tells_phase or "_phase_is_set" in self.__dict__
        if not known and current().step:
            raise AttributeError("_uses_learning_phase")
        return bool(self._phased)

    @_uses_learning_phase.setter
    def _uses_learning_phase(self, value: bool) -> None:
        self._phased = bool(value)
        self.__dict__["_phase_is_set"] = True

    @property
    def dtype(self) -> DType:
        """The name of the dtype: a string that also has `.name`."""
        return DType(self.spec.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.spec.shape)

    @property
    def name(self) -> str:
        """The name that was given, or else one made of the name scopes, the primitive's name and a
        serial number.
        """
        if not isinstance(self._name, str):
            own = f"{self.op.name if self.op else 'tensor'}_{self.serial}"
            self._name = "/".join([*(self._name or ()), own])
        return self._name

    def __repr__(self) -> str:
        spec: Any = self.spec
        if not isinstance(spec, Spec):
            return f"<node {self.name!r} with {len(spec)} results>"
        kind = type(self).__name__ if self.op is None else "Tensor"
        return f"<{kind} {self.name!r} shape={tuple(spec.shape)} dtype={spec.dtype}{self._made()}>"

    def _made(self) -> str:
        """How the tensor is computed, for `repr`."""
        if self.op is None:
            return ""
        # One of several results is that of the node that has them all.
        single = not self.inputs or isinstance(self.inputs[0].spec, Spec)
        node = self if single else self.inputs[0]
        assert node.op is not None
        names = [t.name for t in node.inputs]
        shown = names if len(names) <= 6 else [*names[:5], "…"]
        return f" = {node.op.name}({', '.join(shown)})"

    def _repr_html_(self) -> str:
        """What notebooks show: the facts, and the line that built the tensor."""
        import html  # Here: only notebooks need it.

        rows = [repr(self), *([f"built at {self.where}"] if self.where is not None else [])]
        return f"<code>{'<br>'.join([html.escape(row) for row in rows])}</code>"

    # --- operators; == is identity, so that tensors can be keys and members of lists
    # ----------------

    __add__, __radd__ = _operator("add"), _operator("radd")
    __sub__, __rsub__ = _operator("sub"), _operator("rsub")
    __mul__, __rmul__ = _operator("mul"), _operator("rmul")
    __truediv__, __rtruediv__ = _operator("truediv"), _operator("rtruediv")
    __floordiv__, __rfloordiv__ = _operator("floordiv"), _operator("rfloordiv")
    __mod__, __rmod__ = _operator("mod"), _operator("rmod")
    __pow__, __rpow__ = _operator("pow"), _operator("rpow")
    __matmul__, __rmatmul__ = _operator("matmul"), _operator("rmatmul")
    __lt__, __le__ = _operator("lt"), _operator("le")
    __gt__, __ge__ = _operator("gt"), _operator("ge")
    __and__, __rand__ = _operator("and"), _operator("rand")
    __or__, __ror__ = _operator("or"), _operator("ror")
    __xor__, __rxor__ = _operator("xor"), _operator("rxor")
    __neg__, __abs__, __invert__ = _operator("neg"), _operator("abs"), _operator("invert")
    __getitem__ = _operator("getitem")

    def eval(self, session: Any = None, feed_dict: Any = None) -> Any:
        """The value as a NumPy array: `K.eval`, with TensorFlow's spelling and arguments."""
        return OPERATORS["eval"](self, session, feed_dict)

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self!r} has no truth value yet: it is symbolic. Use K.switch or K.in_train_phase to "
            "choose inside the graph, or K.eval to compute it."
        )

    def __iter__(self) -> Iterator[Tensor]:
        shape = self.spec.shape
        if not shape:
            raise TypeError(f"{self!r} has no axes to iterate over")
        if shape[0] is None:
            raise TypeError(
                f"{self!r} cannot be iterated over: the size of its first axis is unknown"
            )
        return (self[i] for i in range(shape[0]))

    # --- what other libraries ask of an operand: `backend` answers ----------------------------

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return OPERATORS["array"](self, dtype)  # type: ignore[no-any-return]

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """`array + tensor`, and functions of NumPy: `np.exp(tensor)`."""
        return OPERATORS["ufunc"](ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return OPERATORS["array_function"](function, args, kwargs)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return OPERATORS["torch_function"](function, args, kwargs or {})

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Any:
        return OPERATORS["tf_tensor"](self)

    def __jax_array__(self) -> Any:
        """The value as a JAX array; the tensor itself if it has none yet, or none that JAX keeps as
        it is: then `jax_array + tensor` is left to K.
        """
        return OPERATORS["jax_array"](self)

    def __mlx_array__(self) -> Any:
        return OPERATORS["mlx_array"](self)

    def __float__(self) -> float:
        raise TypeError(f"{self!r} is symbolic and has no value yet: use K.eval or K.function")

    def __int__(self) -> int:
        raise TypeError(f"{self!r} is symbolic and has no value yet: use K.eval or K.function")

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self


WITHOUT = {
    "graph": ": there is no global graph; a tensor itself holds what it is computed from",
    "consumers": ": a tensor does not know its users",
    "device": ": a graph runs where its engine does",
    "numpy": ": it is symbolic; use K.eval or K.function",
}
"""What is said of attributes that tensors of TensorFlow have, and ours have not."""


def with_given_name(made: TensorT, name: str | None) -> TensorT:
    """`made`, which remembers the name that the user gave, if there is one."""
    if name is not None:
        made.__dict__[GIVEN_NAME] = scoped_name(name)
    return made


class Placeholder(Tensor):
    """A leaf whose value is fed at each call. If nothing is fed, it takes its `default`."""

    __slots__ = ("default", "layout")

    def __init__(self, spec: Spec, name: str | None = None, default: Any = None) -> None:
        super().__init__(None, (), {}, spec, user_line(), name)
        self.default = default
        self.layout: Layout | None = None
        """How what is fed is split over a mesh, if the user has said so ."""


class ArrayInput(Placeholder):
    """Stands for a NumPy array among native tensors while a call is traced. Tensors beside it
    decide the dtype of a result, as they do beside an array in a graph.
    """

    __slots__ = ()


def _is_phase(node: Tensor) -> bool:
    """Whether `node` is a learning phase: a scalar that need not be fed."""
    return isinstance(node, Placeholder) and node.default is not None and not node.spec.shape


class Constant(Tensor):
    """A leaf with a fixed value: a NumPy array, which nobody writes to, or a value of an engine."""

    __slots__ = ("value",)

    def __init__(self, value: Any, spec: Spec, name: str | None = None) -> None:
        super().__init__(None, (), {}, spec, None, name)
        self.value = value

    def _made(self) -> str:
        """The value, if it is small."""
        few = isinstance(self.value, np.ndarray) and self.value.size <= 8
        return f" value={self.value.tolist()}" if few else ""


def is_scalar(node: Tensor) -> TypeGuard[Constant]:
    """Whether `node` is a constant number. Such constants stay in programs as they are."""
    return (
        isinstance(node, Constant) and isinstance(node.value, np.ndarray) and node.value.ndim == 0
    )


class KeySource(Tensor):
    """A leaf that gives a new random key at each run: (seed low, seed high, counter, fold).

    The counter grows with each run of a program that reads the source, so a seed gives the same
    sequence of samples in every process.
    """

    __slots__ = ("counter", "given", "seed")

    def __init__(self, seed: int, given: bool = True) -> None:
        super().__init__(None, (), {}, Spec((4,), "uint32"), user_line(), None)
        self.seed = seed
        self.given = given
        """Whether somebody chose the seed. If not, a forked child draws other numbers."""
        self.counter = 0

    def words(self) -> tuple[int, int, int, int]:
        """The next key, without drawing it."""
        high = (self.seed >> 32) & 0xFFFFFFFF
        return (
            self.seed & 0xFFFFFFFF,
            high if self.given else high ^ _process[0],
            self.counter & 0xFFFFFFFF,
            0,
        )

    def draw(self) -> np.ndarray:
        """Draw the next key, as an array. Several threads may draw at once."""
        key: np.ndarray = draw([self])[0]
        return key


_process = [0]
"""A number that differs in each forked child."""


def draw(sources: Sequence[KeySource]) -> np.ndarray:
    """Draw the next key of each source. Several threads may draw at once."""
    with _drawing:
        keys = [source.words() for source in sources]
        for source in sources:
            source.counter += 1
    return np.array(keys, np.uint32)


def undraw(sources: Sequence[KeySource], keys: np.ndarray) -> None:
    """Give back keys that were drawn for nothing, unless somebody has drawn since."""
    with _drawing:
        for source, key in zip(sources, keys, strict=True):
            if (source.counter - 1) & 0xFFFFFFFF == key[2]:
                source.counter -= 1


def _after_fork() -> None:
    _drawing._at_fork_reinit()  # type: ignore[attr-defined]
    _process[0] = int.from_bytes(os.urandom(4), "little")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def constant(value: Any, dtype: str | None = None) -> Constant:
    """A constant leaf from a number or an array."""
    array = np.asarray(value, dtype=dtype)
    return Constant(array, Spec(array.shape, array.dtype.name))


def converted(array: np.ndarray, dtype: Any, what: str) -> np.ndarray:
    """A copy of `array` in another dtype. Fractions are cut off for integer types.

    Raises:
        ValueError: names `what`, if an integer type cannot hold the numbers (NaN is one of them).
    """
    target = np.dtype(dtype)
    if target.kind not in "iu" or array.dtype.kind not in "iufO" or not array.size:
        return array.astype(target)
    if array.dtype.kind in "iu":
        found = array.astype(target)
        if (found == array).all():
            return found
    low, high, info = _number(array.min()), _number(array.max()), np.iinfo(target)
    if not (info.min <= low and high <= info.max):
        wrong = high if info.min <= low else low
        raise ValueError(
            f"{what}: {target.name} holds whole numbers from {info.min} to {info.max}, got {wrong}"
        )
    return array.astype(target)


def _number(value: Any) -> Any:
    """The whole part as a Python number, which compares exactly; float64 rounds."""
    return np.trunc(value).item() if isinstance(value, np.generic) else value


class Graph:
    """A closed graph: a function of its own inputs. Its leaves are these inputs, or constants.

    Loops and branches have graphs as parameters. `compile.cache_key` compares them by structure.
    """

    __slots__ = ("__weakref__", "cache", "inputs", "outputs")

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.cache: dict[Any, Any] = {}

    def __repr__(self) -> str:
        ins = ", ".join(f"{t.spec.dtype}{list(t.spec.shape)}" for t in self.inputs)
        outs = ", ".join(f"{t.spec.dtype}{list(t.spec.shape)}" for t in self.outputs)
        return f"<Graph ({ins}) -> ({outs})>"


def toposort(outputs: Iterable[Tensor], stop: Iterable[Tensor] = ()) -> list[Tensor]:
    """All nodes that `outputs` need, operands before users. Nodes in `stop` count as leaves."""
    seen: set[Tensor] = set()
    leaves = set(stop)
    order: list[Tensor] = []
    stack: list[Tensor | None] = list(outputs)
    stack.reverse()
    while stack:
        node = stack.pop()
        if node is None:  # a mark: all that the node below it needs is in the order
            order.append(stack.pop())  # type: ignore[arg-type]
        elif node not in seen:
            seen.add(node)
            if node.inputs and node not in leaves:
                stack += (node, None)
                stack += node.inputs[::-1]
            else:
                order.append(node)
    return order


def rebuild(node: Tensor, inputs: tuple[Tensor, ...], keep_spec: bool = False) -> Tensor:
    """The same primitive on other operands. Its spec is inferred again, unless `keep_spec`."""
    assert node.op is not None
    spec = node.spec if keep_spec else node.op.infer(inputs, node.params)
    return Tensor(node.op, inputs, node.params, spec, node.where, node._name)


def rewrite(
    outputs: Sequence[Tensor],
    rule: Callable[[Tensor, tuple[Tensor, ...]], Tensor | None],
    *,
    replace: Mapping[Tensor, Tensor] | None = None,
    keep_specs: bool = False,
) -> list[Tensor]:
    """Build `outputs` again from the leaves on, sharing the parts that stay the same.

    `rule(node, inputs)` gets each node with its new operands. It returns what takes the place of
    the node, or None for the same primitive on these operands. Tensors in `replace` are replaced
    first, and the walk does not visit what they were computed from. With `keep_specs` specs are not
    inferred again.
    """
    new: dict[Tensor, Tensor] = dict(replace or {})
    for node in toposort(outputs, stop=new):
        if node not in new:
            inputs = tuple([new[t] for t in node.inputs])
            found = rule(node, inputs)
            if found is None:
                found = node if inputs == node.inputs else rebuild(node, inputs, keep_specs)
            new[node] = found
    return [new[t] for t in outputs]


def substitute(outputs: Sequence[Tensor], mapping: Mapping[Tensor, Tensor]) -> list[Tensor]:
    """`outputs` with the tensors in `mapping` replaced, sharing the parts that stay the same."""
    return rewrite(outputs, lambda node, inputs: None, replace=mapping)


def depends_on(outputs: Iterable[Tensor], sources: Iterable[Tensor]) -> set[Tensor]:
    """The nodes that `outputs` need and that are computed from any of `sources`,
    including these.
    """
    reached = set(sources)
    found: set[Tensor] = set()
    for node in toposort(outputs):
        if node in reached or any(t in found for t in node.inputs):
            found.add(node)
    return found
