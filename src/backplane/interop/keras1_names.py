"""The names of K in Keras 1, for `backplane.keras1` and for an installed Keras 1.

Most functions are those of `backplane.backend`. Where `backend/_keras1.py` has another signature, a
function with that signature hands its arguments on, in today's spelling. Such calls do not warn:
who takes this namespace wants Keras 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from backplane import backend as K
from backplane.backend import _keras1
from backplane.backend import keras1 as only_then
from backplane.backend.tensorflow_backend import is_symbolic

AS_TODAY = [
    "abs", "all", "any", "arange", "argmax", "argmin", "backend", "batch_flatten",
    "batch_set_value", "cast", "cast_to_floatx", "clear_session", "clip", "concatenate", "cos",
    "count_params", "ctc_batch_cost", "ctc_label_dense_to_sparse", "dot", "dropout", "dtype", "elu",
    "epsilon", "equal", "eval", "exp", "eye", "flatten", "floatx", "foldl", "foldr", "gather",
    "get_uid", "get_value", "get_variable_shape", "gradients", "greater",
    "greater_equal", "hard_sigmoid", "in_top_k", "int_shape", "is_sparse", "learning_phase", "log",
    "manual_variable_initialization", "max", "maximum", "mean", "min", "minimum", "ndim",
    "normalize_batch_in_training", "not_equal", "ones", "ones_like", "permute_dimensions",
    "pow", "prod", "py_all", "random_binomial",
    "random_normal_variable", "random_uniform_variable", "repeat", "repeat_elements", "reset_uids",
    "reshape", "reverse", "round", "set_epsilon", "set_floatx", "set_learning_phase", "set_session",
    "set_value", "shape", "sigmoid", "sign", "sin", "softplus", "softsign", "sqrt", "square",
    "squeeze", "std", "stop_gradient", "sum", "switch", "tanh", "tile", "to_dense", "transpose",
    "update", "update_add", "update_sub", "var", "zeros", "zeros_like",
]  # fmt: skip
"""Functions that have not changed."""


def names() -> dict[str, Any]:
    """The namespace, for the globals of a module.

    Example:
        >>> from backplane.interop.keras1_names import names
        >>> "lesser" in names(), "less" in names()
        (True, False)
    """
    functions = {name: getattr(K, name) for name in AS_TODAY}
    functions |= {name: _translating(name) for name in _keras1.SIGNATURES}
    functions |= {name: getattr(only_then, name).__wrapped__ for name in only_then.__all__}
    functions |= {function.__name__: function for function in _OWN}
    return functions | {"__all__": sorted(functions), "__getattr__": _leaked}


def _translating(name: str) -> Callable[..., Any]:
    """A function with the signature of Keras 1 that calls today's."""
    today = getattr(K, _keras1.TODAY.get(name, name))
    signature = _keras1.signature(name)

    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"K.{name}: {error}") from None
        return today(**_keras1.translated(name, given))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _described(name, today)
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _described(name: str, today: Callable[..., Any]) -> str:
    """The first lines of today's docstring, and where to read on."""
    renamed = [(old, _keras1.RENAMED.get(old, old)) for old in _keras1.signature(name).parameters]
    lines = [f"`{old}` is called `{new}` there." for old, new in renamed if new not in (old, None)]
    lines += [f"`{old}` is not needed." for old, new in renamed if new is None]
    summary = (today.__doc__ or "").partition("\n\n")[0]
    see = f"`backplane.backend.{today.__name__}` describes the arguments."
    return "\n".join([summary, "", see, *lines])


def _leaked(name: str) -> Any:
    """The value of `K.name`, for a name that is not part of Keras 1's API."""
    if name in K.__all__:
        raise AttributeError(
            f"K has no attribute {name!r} in Keras 1; `from backplane import backend as K` has it"
        )
    return K.__getattr__(name)


def is_keras_tensor(x: Any) -> bool:
    """Whether `x` is a symbolic tensor, but not a variable.

    Example:
        >>> from backplane import keras1 as K
        >>> K.is_keras_tensor(K.placeholder((2,))), K.is_keras_tensor(K.zeros((2,)))
        (True, False)
    """
    return is_symbolic(x)


def batch_dot(x: Any, y: Any, axes: Any = None) -> Any:
    """Multiply each sample of a batch with its counterpart; `backplane.backend.batch_dot` describes
    the arguments.

    For two matrices, `axes` may be 0: the product is then summed over the samples.

    Example:
        >>> from backplane import keras1 as K
        >>> K.int_shape(K.batch_dot(K.ones((32, 20)), K.ones((32, 20)), axes=0))
        (20, 1)
    """
    if axes in (0, [0, 0], (0, 0)) and K.ndim(x) == K.ndim(y) == 2:
        return K.batch_dot(K.transpose(x), K.transpose(y), axes=1)
    return K.batch_dot(x, y, axes)


def function(inputs: Any, outputs: Any, updates: Any = [], **kwargs: Any) -> Any:  # noqa: B006
    """A function that computes tensors; `backplane.backend.function` describes the arguments.

    Other arguments, such as `mode`, were Theano's. They are ignored, with a warning.

    Example:
        >>> from backplane import keras1 as K
        >>> x = K.placeholder((2,))
        >>> K.function([x], [x * 2.0])([[1.0, 2.0]])
        [array([2., 4.], dtype=float32)]
    """
    if kwargs:
        warnings.warn(
            f"K.function: {', '.join(kwargs)} {'are' if len(kwargs) > 1 else 'is'} of Theano and "
            "ignored",
            stacklevel=2,
        )
    return K.function(inputs, outputs, updates)


_weight_ordering = {"legacy": False}


def legacy_weight_ordering() -> bool:
    """Whether Keras orders the weights of a model as its releases before 1.0 did.

    Example:
        >>> from backplane import keras1 as K
        >>> K.legacy_weight_ordering()
        False
    """
    return _weight_ordering["legacy"]


def set_legacy_weight_ordering(value: bool) -> None:
    """Set what `K.legacy_weight_ordering` returns. Backplane itself does not read it.

    Args:
        value: Boolean.

    Raises:
        ValueError: if it is neither True nor False.

    Example:
        >>> from backplane import keras1 as K
        >>> K.set_legacy_weight_ordering(False)
    """
    if value not in (True, False):
        raise ValueError(f"K.set_legacy_weight_ordering: value must be a bool, got {value!r}")
    _weight_ordering["legacy"] = value


_OWN = (batch_dot, function, is_keras_tensor, legacy_weight_ordering, set_legacy_weight_ordering)
