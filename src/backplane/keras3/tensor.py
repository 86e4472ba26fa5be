"""The symbolic tensor that Keras 3 sees: a thin shell around a tensor of a graph.

Core's tensors compare by identity, so that they can be keys and members of lists. Keras compares
tensors element by element. So Keras gets this class, whose operators are Keras' functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from backplane.core import graph
from backplane.core.variable import Variable
from backplane.keras3 import trace

_CHANGING = (graph.Placeholder, Variable)

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The functions of operators, by name. The modules in `ops` put them here, because they are written
over tensors themselves.
"""


def _operator(name: str, swapped: bool = False) -> Callable[..., Any]:
    def method(self: Tensor, *others: object) -> Any:
        function = FUNCTIONS[name]
        return function(*others, self) if swapped else function(self, *others)

    return method


def _comparison(name: str) -> Callable[..., Any]:
    compare = _operator(name)

    def method(self: Tensor, other: object) -> Any:
        # `tensor == None` and `tensor == "auto"` ask what a value is; they compare no elements.
        return NotImplemented if other is None or isinstance(other, str) else compare(self, other)

    return method


_OPERATORS = {
    name: name
    for name in (
        "add", "subtract", "multiply", "floor_divide", "power", "matmul", "bitwise_and",
        "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "equal", "not_equal", "less",
        "less_equal", "greater", "greater_equal",
    )
} | {"divide": "true_divide", "remainder": "mod"}  # fmt: skip
"""The functions that NumPy calls for operators between its arrays and other objects, and the names
they have here."""


class Tensor:
    """A tensor of a graph, with the operators and attributes that Keras' code uses.

    Attributes:
        core: The tensor of the graph.
    """

    __slots__ = ("__dict__", "__weakref__", "core")
    __array_priority__ = 1000

    def __init__(self, core: graph.Tensor) -> None:
        self.core = core

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """`array + tensor` is computed as `keras.ops.add`; other functions of NumPy are refused."""
        name = _OPERATORS.get(ufunc.__name__)
        if name is not None and method == "__call__" and not options:
            return FUNCTIONS[name](*inputs)
        known = (name or ufunc.__name__) in FUNCTIONS
        use = f"keras.ops.{name or ufunc.__name__}" if known else "functions of keras.ops"
        raise TypeError(
            f"numpy.{ufunc.__name__} takes values, but {self!r} is symbolic, as all tensors are "
            f"inside of models and steps; use {use}"
        )

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The sizes of the axes; None for one that is unknown until the program runs."""
        return tuple(self.core.spec.shape)

    @property
    def dtype(self) -> str:
        """The name of the dtype."""
        return self.core.spec.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.core.ndim

    @property
    def name(self) -> str:
        """The name of the tensor in the graph."""
        return self.core.name

    @property
    def T(self) -> Any:  # noqa: N802 - its name in NumPy
        """The tensor with its axes in reverse order."""
        return FUNCTIONS["transpose"](self)

    def astype(self, dtype: Any) -> Any:
        """The tensor in another dtype."""
        return FUNCTIONS["cast"](self, dtype)

    def reshape(self, *shape: Any) -> Any:
        """The elements in another shape, given as numbers or as one tuple."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
        return FUNCTIONS["reshape"](self, sizes)

    def __repr__(self) -> str:
        return f"<symbolic tensor {self.name!r} shape={self.shape} dtype={self.dtype}>"

    __add__, __radd__ = _operator("add"), _operator("add", True)
    __sub__, __rsub__ = _operator("subtract"), _operator("subtract", True)
    __mul__, __rmul__ = _operator("multiply"), _operator("multiply", True)
    __truediv__, __rtruediv__ = _operator("true_divide"), _operator("true_divide", True)
    __floordiv__, __rfloordiv__ = _operator("floor_divide"), _operator("floor_divide", True)
    __mod__, __rmod__ = _operator("mod"), _operator("mod", True)
    __pow__, __rpow__ = _operator("power"), _operator("power", True)
    __matmul__, __rmatmul__ = _operator("matmul"), _operator("matmul", True)
    __and__, __rand__ = _operator("bitwise_and"), _operator("bitwise_and", True)
    __or__, __ror__ = _operator("bitwise_or"), _operator("bitwise_or", True)
    __xor__, __rxor__ = _operator("bitwise_xor"), _operator("bitwise_xor", True)
    __lshift__, __rlshift__ = _operator("left_shift"), _operator("left_shift", True)
    __rshift__, __rrshift__ = _operator("right_shift"), _operator("right_shift", True)
    __eq__, __ne__ = _comparison("equal"), _comparison("not_equal")
    __lt__, __le__ = _operator("less"), _operator("less_equal")
    __gt__, __ge__ = _operator("greater"), _operator("greater_equal")
    __neg__, __abs__, __invert__ = _operator("negative"), _operator("abs"), _operator("bitwise_not")
    __hash__ = object.__hash__

    def __getitem__(self, key: Any) -> Any:
        return FUNCTIONS["getitem"](self, key)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"len of {self!r}: it has no axes")
        if self.shape[0] is None:
            raise TypeError(f"len of {self!r}: the size of its first axis is unknown")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        if not self.has_value:
            raise TypeError(
                f"{self!r} has no truth value: it is computed when the program runs. Use "
                "keras.ops.cond, or keras.ops.where, to choose inside of a model or a train_step"
            )
        return bool(self.core.eval())

    @property
    def has_value(self) -> bool:
        """Whether the value can be computed now: nothing has to be fed, and no variable is read
        whose value a traced step would take for granted.
        """
        traced = trace.current()
        open_leaves = (graph.Placeholder,) if traced is None or traced.eager else _CHANGING
        return not any(isinstance(t, open_leaves) for t in graph.toposort([self.core]))

    def numpy(self) -> np.ndarray:
        """The value as an array, where nothing has to be fed to compute it.

        Raises:
            TypeError: if the tensor depends on what a program is fed.
        """
        if not self.has_value:
            raise TypeError(
                f"{self!r} has no value: it is computed when the program runs. Inside of `fit`, "
                "and while Keras finds out shapes, tensors are symbolic. Use keras.ops, not NumPy; "
                "or compile the model with run_eagerly=True, to look at values"
            )
        return self.core.eval()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def item(self) -> Any:
        """The value of a tensor with one element, as a Python number."""
        return self.numpy().item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        return self.item().__index__()

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: object) -> Tensor:
        return self
