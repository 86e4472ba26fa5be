"""Functions of NumPy and of the engines' libraries that are called on our tensors.

Each library asks operands that it does not know by a protocol of its own. NumPy's functions are
those of K, on every engine (`_numpy_table.py`). A call of an engine's library becomes a part of the
graph, as `K.native` makes it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import MethodDescriptorType
from typing import Any

import numpy as np

from backplane import engines
from backplane.backend import _numpy_arrays, _numpy_elements  # noqa: F401 - what `find` finds
from backplane.backend._call import is_closed
from backplane.backend._numpy_table import OPERATORS, PARTNERS, find, name_of, refused
from backplane.backend._trace import run_now
from backplane.backend.functions import call_of
from backplane.core import context
from backplane.core.graph import Tensor
from backplane.core.hooks import HOOKS
from backplane.ops.lift import as_tensor

# --- NumPy ----------------------------------------------------------------------------------------

ALONG: dict[tuple[str, Any], Any] = {
    ("reduce", np.add): np.sum, ("reduce", np.multiply): np.prod,
    ("reduce", np.maximum): np.max, ("reduce", np.minimum): np.min,
    ("reduce", np.logical_and): np.all, ("reduce", np.logical_or): np.any,
    ("accumulate", np.add): np.cumsum, ("accumulate", np.multiply): np.cumprod,
}  # fmt: skip
"""The functions that `reduce` and `accumulate` of a ufunc are."""


def _ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """A function of NumPy with a tensor of ours among its operands. TypeError if K has none."""
    called = method == "__call__"
    bound = context.current().bound
    if bound is not None and bound.engine.calls_numpy:
        return call_of(
            bound.engine.name, ufunc if called else getattr(ufunc, method), inputs, options
        )
    out = options.get("out", (None,))
    # `array += tensor` gives the array as `out`. The name is then bound to the result, as for any
    # immutable object.
    if all(x is None for x in out) or (called and len(options) == 1 and out[0] is inputs[0]):
        options = {name: value for name, value in options.items() if name != "out"}
    if not called:
        return _method(ufunc, method, inputs, options)
    if not options:
        if ufunc in OPERATORS:
            return _operator(OPERATORS[ufunc], *inputs)
        if ufunc in (np.equal, np.not_equal) and not isinstance(inputs[0], Tensor):
            # `array == tensor`: tensors are equal only to themselves.
            return ufunc is np.not_equal
    return _of_numpy(ufunc, name_of(ufunc), inputs, options)


def _method(ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """`reduce`, `accumulate` or `outer` of a ufunc."""
    name = f"{name_of(ufunc)}.{method}"
    function = ALONG.get((method, ufunc))
    if function is not None:
        if len(inputs) == 1:  # The method goes along the first axis, the function along all.
            options = {"axis": 0, **options}
        return _of_numpy(function, name, inputs, options)
    if method == "outer" and find(ufunc) is not None:
        x, y = map(as_tensor, inputs)
        columns = tuple([slice(None)] * x.ndim + [None] * y.ndim)
        return _of_numpy(ufunc, name, (x[columns], y), options)
    raise TypeError(_refusal(name, ""))


def _array_function(function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
    bound = context.current().bound
    if bound is not None and bound.engine.calls_numpy:
        return call_of(bound.engine.name, function, args, kwargs)
    given = {name: value for name, value in kwargs.items() if name != "out" or value is not None}
    return _of_numpy(function, name_of(function), args, given)


def _of_numpy(function: Any, name: str, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """A function of NumPy in terms of K. TypeError if K has none, or none with such arguments."""
    own = find(function)
    given = "" if own is None else refused(own, args, options)
    if own is None or given:
        raise TypeError(_refusal(f"{name}{given}", PARTNERS.get(function, "")))
    return own(*args, **options)


def _refusal(name: str, partner: str) -> str:
    instead = f"K.{partner}" if partner else "the functions of K"
    return (
        f"{name} takes no symbolic tensors: use {instead}, or K.eval for a value. On the engines "
        "numpy and cntk, K.native calls a function of arrays inside a graph"
    )


def _array(x: Tensor, dtype: Any) -> np.ndarray:
    """The values of a tensor inside of a function of arrays."""
    bound = context.current().bound
    if bound is not None and bound.engine.calls_numpy:
        return np.asarray(bound[x], dtype)
    engines.meet("tensorflow")
    raise TypeError(f"{x!r} is symbolic and has no values yet: use K.eval or K.function")


# --- the engines' libraries -----------------------------------------------------------------------


def _value(x: Tensor, name: str) -> Any:
    """The value of a tensor inside of a function of that engine. TypeError outside of one."""
    bound = context.current().bound
    if bound is not None and bound.engine.name == name:
        return bound[x]
    raise TypeError(
        f"{x!r} is symbolic and cannot become a value of {name}: use the functions of K, or "
        f"K.native(function, tensor) with K.engine({name!r})"
    )


def _tf_tensor(x: Tensor) -> Any:
    engines.meet("tensorflow")  # Its dispatcher takes the call when this error is raised.
    return _value(x, "tensorflow")


def _present(x: Tensor, name: str) -> Any:
    """The value of a tensor in a native function, or of a closed one; None if it has none."""
    bound = context.current().bound
    engine = engines.get(name)
    if bound is not None and bound.engine is engine:
        return bound[x]
    if engine.holds(x.spec.dtype) and is_closed([x]):
        return run_now(as_tensor, (x,), {}, engine)
    return None


def _jax_array(x: Tensor) -> Any:
    """The value of `Tensor.__jax_array__`."""
    value = _present(x, "jax")
    if value is not None:
        return value
    # JAX's operators ask, and so does what flattens the arguments of a compiled function. Both can
    # go on with the tensor itself.
    caller = sys._getframe(2).f_code.co_filename
    return x if caller.endswith(("array_methods.py", "as_pytrees.py")) else _value(x, "jax")


def _mlx_array(x: Tensor) -> Any:
    """The value for MLX's operators, which leave nothing to their right operand."""
    value = _present(x, "mlx")
    if value is not None:
        return value
    raise TypeError(
        f"{x!r} is symbolic and cannot become a value of mlx: use the functions of K, or "
        "K.native(function, tensor) with K.engine('mlx'); an array of MLX to the left of an "
        "operator must be K.eval(array)"
    )


REFLECTED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
NAMES = {
    "add": "add add_v2 _add_dispatch", "sub": "sub subtract", "mul": "mul multiply",
    "truediv": "div true_divide truediv", "floordiv": "floor_divide floor_div floordiv",
    "mod": "remainder floor_mod", "pow": "pow", "matmul": "matmul",
    "lt": "lt less", "le": "le less_equal", "gt": "gt greater", "ge": "ge greater_equal",
    "and": "bitwise_and logical_and and", "or": "bitwise_or logical_or or",
    "xor": "bitwise_xor logical_xor xor",
}  # fmt: skip
"""Our operators, and what the functions behind those of PyTorch and TensorFlow are called."""

OPERATOR_OF = {name: operator for operator, names in NAMES.items() for name in names.split()}


def _operated(function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """The result of a library's operator with a tensor of ours, else NotImplemented."""
    operator = OPERATOR_OF.get(function.__name__.strip("_"), OPERATOR_OF.get(function.__name__))
    if operator is None or len(operands) != 2:
        return NotImplemented
    return _operator(operator, *operands)


def _operator(operator: str, x: Any, y: Any) -> Any:
    """An operator, of which at least one operand is a tensor of ours."""
    if isinstance(x, Tensor):
        return HOOKS[operator](x, y)
    return HOOKS[REFLECTED.get(operator, f"r{operator}")](y, x)


def _torch_function(function: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> Any:
    # An operator comes as a method of the tensor class, some of which are written in Python;
    # `torch.mul` comes as a function.
    name = getattr(function, "__qualname__", "")
    method = isinstance(function, MethodDescriptorType) or name.startswith(METHODS)
    result = _operated(function, args) if method and not kwargs else NotImplemented
    return call_of("torch", function, args, kwargs) if result is NotImplemented else result


METHODS = ("Tensor.", "TensorBase.")
"""The beginnings of the names of PyTorch's tensor methods."""


def _tf_function(function: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> Any:
    # TensorFlow's operators always give `name`, even if it is None. Hardly anybody else does.
    operands = [*args, *[value for key, value in kwargs.items() if key != "name"]]
    result = _operated(function, operands) if "name" in kwargs else NotImplemented
    return call_of("tensorflow", function, args, kwargs) if result is NotImplemented else result


HOOKS.update(
    ufunc=_ufunc,
    array_function=_array_function,
    array=_array,
    torch_function=_torch_function,
    tf_tensor=_tf_tensor,
    tf_function=_tf_function,
    jax_array=_jax_array,
    mlx_array=_mlx_array,
)
