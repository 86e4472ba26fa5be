"""Functions of NumPy and of the engines' libraries that are called on our tensors.

Each library asks operands that it does not know by a protocol of its own. A function of K serves
where there is one of the same name and meaning. Otherwise the call becomes a part of the graph, as
`K.native` makes it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import MethodDescriptorType
from typing import Any

import numpy as np

from backplane import engines
from backplane.backend._call import is_closed
from backplane.backend._trace import run_now
from backplane.backend.functions import call_of
from backplane.core import context
from backplane.core.graph import OPERATORS, Tensor
from backplane.engines.base import Engine
from backplane.ops.lift import as_tensor

# --- NumPy ----------------------------------------------------------------------------------------

UFUNCS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv",
    "floor_divide": "floordiv", "remainder": "mod", "power": "pow", "matmul": "matmul",
    "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "invert": "invert",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "absolute": "abs", "negative": "neg",
}  # fmt: skip
"""NumPy's functions behind operators."""

OF_K = {
    "cos", "exp", "log", "maximum", "minimum", "sign", "sin", "sqrt", "square", "tanh",
    "all", "any", "expand_dims", "max", "mean", "min", "prod", "reshape", "std", "sum", "var",
}  # fmt: skip
"""NumPy's functions that K has under the same name, with the same first arguments and defaults."""


def _ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """A function of NumPy with a tensor of ours among its operands.

    Raises:
        TypeError: where there is no such function of tensors.
    """
    name, called = ufunc.__name__, method == "__call__"
    function = ufunc if called else getattr(ufunc, method)
    bound = context.current().bound
    if bound is not None and bound.engine.calls_numpy:
        return call_of(bound.engine.name, function, inputs, options)
    # `array += tensor` gives the array as `out`. The name is then bound to the result, as for any
    # immutable object.
    in_place = options.keys() == {"out"} and options["out"][0] is inputs[0]
    if called and (in_place or not options):
        if name in UFUNCS:
            return OPERATORS[UFUNCS[name]](*inputs)
        if name in ("equal", "not_equal"):
            return name == "not_equal"  # Tensors are equal only to themselves.
    given = f" with {', '.join(options)}" if called and options else ""
    return _of_numpy(function, f"np.{name}{'' if called else f'.{method}'}{given}", inputs, options)


def _array_function(function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
    return _of_numpy(function, f"np.{function.__name__}", args, kwargs)


def _of_numpy(function: Any, name: str, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """A function of NumPy: K's if it has it, else a part of the graph of an engine on which
    functions are NumPy's.
    """
    bound = context.current().bound
    engine: Engine = engines.current() if bound is None else bound.engine
    known = bound is None and getattr(function, "__name__", "") in OF_K
    if known and len(args) <= 2 and not options.keys() - {"axis", "keepdims"}:
        from backplane import backend  # Here: the namespace imports this module.

        return getattr(backend, function.__name__)(*args, **options)
    if engine.calls_numpy and "out" not in options:
        return call_of(engine.name, function, args, options)
    raise TypeError(
        f"{name} takes no symbolic tensors: use the functions of K, or K.eval for a value"
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
    """The value of a tensor inside of a function of that engine.

    Raises:
        TypeError: outside of one.
    """
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


def _jax_array(x: Tensor) -> Any:
    """What `Tensor.__jax_array__` gives."""
    bound = context.current().bound
    engine = engines.get("jax")
    if bound is not None and bound.engine is engine:
        return bound[x]
    if engine.holds(x.spec.dtype) and is_closed([x]):
        return run_now(as_tensor, (x,), {}, engine)
    # JAX's operators ask, and so does what flattens the arguments of a compiled function. Both can
    # go on with the tensor itself.
    caller = sys._getframe(2).f_code.co_filename
    return x if caller.endswith(("array_methods.py", "as_pytrees.py")) else _value(x, "jax")


REFLECTED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
NAMES = {
    "add": "add add_v2 _add_dispatch", "sub": "sub subtract", "mul": "mul multiply",
    "truediv": "div true_divide truediv", "floordiv": "floor_divide floor_div",
    "mod": "remainder floor_mod", "pow": "pow", "matmul": "matmul",
    "lt": "lt less", "le": "le less_equal", "gt": "gt greater", "ge": "ge greater_equal",
    "and": "bitwise_and logical_and and", "or": "bitwise_or logical_or or",
    "xor": "bitwise_xor logical_xor xor",
}  # fmt: skip
"""Our operators, and what the functions behind those of PyTorch and TensorFlow are called."""

OPERATOR_OF = {name: operator for operator, names in NAMES.items() for name in names.split()}


def _operated(function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """The result of an operator of another library between its tensor and one of ours, by K's rule
    for `native + tensor`. NotImplemented if the function is no operator.
    """
    operator = OPERATOR_OF.get(function.__name__.strip("_"), OPERATOR_OF.get(function.__name__))
    if operator is None or len(operands) != 2:
        return NotImplemented
    x, y = operands
    if isinstance(x, Tensor):
        return OPERATORS[operator](x, y)
    return OPERATORS[REFLECTED.get(operator, f"r{operator}")](y, x)


def _torch_function(function: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> Any:
    # An operator comes as a method of the tensor class; `torch.mul` comes as a function.
    method = isinstance(function, MethodDescriptorType) and not kwargs
    found = _operated(function, args) if method else NotImplemented
    return call_of("torch", function, args, kwargs) if found is NotImplemented else found


def _tf_function(function: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> Any:
    # TensorFlow's operators always give `name`, even if it is None. Hardly anybody else does.
    operands = [*args, *[value for key, value in kwargs.items() if key != "name"]]
    found = _operated(function, operands) if "name" in kwargs else NotImplemented
    return call_of("tensorflow", function, args, kwargs) if found is NotImplemented else found


OPERATORS.update(
    ufunc=_ufunc,
    array_function=_array_function,
    array=_array,
    torch_function=_torch_function,
    tf_tensor=_tf_tensor,
    tf_function=_tf_function,
    jax_array=_jax_array,
    mlx_array=lambda x: _value(x, "mlx"),
)
