"""Arguments of K functions: makes the friendly forms canonical."""

from __future__ import annotations

import contextlib
import functools
import operator
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from backplane import config
from backplane.backend._errors import described
from backplane.backend.types import TensorLike
from backplane.compile.constants import fold
from backplane.core.graph import Tensor, is_array, rewrite
from backplane.core.registry import suggestion
from backplane.core.shapes import check_elements, normalize_axes, normalize_axis
from backplane.core.spec import DTYPES, is_integer
from backplane.core.tracebacks import boundary
from backplane.engines import engine_of
from backplane.ops.creation import dim, filled, like
from backplane.ops.lift import as_tensor, cast_to
from backplane.ops.shaping import stack

F = TypeVar("F", bound=Callable[..., Any])


def also_named(**names: str) -> Callable[[F], F]:
    """Decorator for functions whose parameters have other names in tf.keras: maps these."""

    def decorate(function: F) -> F:
        @boundary
        @functools.wraps(function)
        def wrapper(*args: object, **kwargs: object) -> Any:
            return function(*args, **{names.get(name, name): v for name, v in kwargs.items()})

        return wrapper  # type: ignore[return-value]

    return decorate


def as_items(value: Any, what: str, kind: str = "a list") -> list[Any]:
    """The items of an iterable. TypeError for anything else, and for single things: a tensor, a
    string, a dict.
    """
    items = None
    with contextlib.suppress(TypeError):
        items = iter(value)
    if items is None or isinstance(value, Tensor | str | bytes | dict):
        raise TypeError(f"{what} must be {kind}, got {described(value)}")
    return list(items)


def as_path(value: Any, what: str) -> str:
    """The path of a file as a string; the TypeError for anything else names `what`."""
    try:
        return os.fsdecode(value)
    except TypeError:
        raise TypeError(f"{what} must be the path of a file, got {described(value)}") from None


def as_int(value: Any, what: str) -> int:
    """A Python int from an int, a NumPy int, or a whole float, as R has them. The TypeError names
    `what`.
    """
    if isinstance(value, bool | str) or value is None:
        raise TypeError(f"{what} must be an int, got {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        pass
    else:
        if not -(2**63) <= number < 2**64:
            raise ValueError(f"{what} must be an int of 64 bits, got {value!r}")
        return number
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return int(value)
    if isinstance(value, np.ndarray) and value.ndim == 0 and not np.ma.is_masked(value):
        return as_int(value[()], what)
    raise TypeError(f"{what} must be an int, got {value!r}")


def as_count(value: object, what: str) -> int:
    """An int of 0 or more; the ValueError for a negative one names `what`."""
    count = as_int(value, what)
    if count < 0:
        raise ValueError(f"{what} must be 0 or more, got {value}")
    check_size(count, what)
    return count


def check_size(size: int, what: str) -> None:
    """Raise ValueError, naming `what`, for a size that no engine's integers hold."""
    if size >= 2**63:
        raise ValueError(f"{what} must be below 2**63, got {size}")


FLAGS = (bool, int, np.bool_, np.integer, type(None))
"""The types of what says yes or no; None stands for no."""


def as_flag(value: Any, what: str) -> bool:
    """A Python bool; the TypeError for what is neither true nor false names `what`."""
    if not isinstance(value, FLAGS) or value not in (0, 1, None):
        raise TypeError(f"{what} must be True or False, got {value!r}")
    return bool(value)


def as_name(name: Any, what: str) -> str | None:
    """A name or None; the TypeError for anything else names `what`."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"{what} must be a string, got {name!r}")
    return name


def as_float(value: Any, what: str) -> float:
    """A Python float; the TypeError for anything else names `what`."""
    if isinstance(value, str) or value is None:
        raise TypeError(f"{what} must be a number, got {value!r}")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{what} must be a number, got {value!r}") from None


def as_dtype(dtype: object, default: str | None = None) -> str:
    """The plain name of a dtype, a string or an object of NumPy or an engine. ValueError for
    others.
    """
    if dtype is None:
        return default or config.floatx()
    given = dtype if isinstance(dtype, str) else getattr(dtype, "name", None)
    given = "float" if dtype is float else given
    if isinstance(given, str):
        name = ALIASES.get(given, given)
        if name[-1:].isdigit() and name not in DTYPES:  # As in `<f4`.
            name = _numpy_name(name) or name
    else:
        # `torch.float32`, `mlx.core.float32`; types of Python and NumPy have a NumPy dtype.
        text = str(dtype)
        spelled = text.startswith(("torch.", "mlx."))
        name = text.rpartition(".")[2] if spelled else _numpy_name(dtype)
    name = str.__str__(name).removesuffix("_ref")
    if name not in DTYPES:
        near = suggestion(name, DTYPES, cutoff=0.5)
        raise ValueError(f"dtype {dtype!r} is unknown{near}; there are {', '.join(sorted(DTYPES))}")
    if name == "bfloat16":
        import ml_dtypes  # noqa: F401 - NumPy knows the name from then on.
    return name


ALIASES = {"float": "float32", "single": "float32", "double": "float64", "half": "float16",
           "int": "int64", "bool_": "bool"}  # fmt: skip
"""Other names of dtypes, as TensorFlow reads them; Python's `float` is the first one."""


def _numpy_name(dtype: Any) -> str:
    try:
        return str(np.dtype(dtype).name)
    except (TypeError, ValueError, SyntaxError):
        return ""


def as_axis(axis: object, x: Tensor, what: str = "axis") -> int:
    """One non-negative axis of `x`."""
    return normalize_axis(as_int(axis, what), x.ndim, what)


def as_new_axis(axis: object, x: Tensor, what: str = "axis") -> int:
    """The place of an axis to be added to `x`, counted from the front."""
    return normalize_axis(as_int(axis, what), x.ndim + 1, what)


def as_axes(axes: object, x: Tensor, what: str = "axis") -> tuple[int, ...]:
    """Sorted non-negative axes of `x` from None (all), an int, or a sequence of ints."""
    if axes is None:
        return normalize_axes(None, x.ndim)
    axes = entries_of(axes, "axis")
    if isinstance(axes, list | tuple | set | frozenset | range):
        return normalize_axes([as_int(a, what) for a in axes], x.ndim, what)
    return normalize_axes([as_int(axes, what)], x.ndim, what)


def as_sizes(value: object, count: int, what: str) -> tuple[int, ...]:
    """`count` ints, from one int or a sequence of `count`; the ValueError names `what`."""
    value = entries_of(value, what)
    if isinstance(value, list | tuple):
        sizes = tuple(as_int(v, what) for v in value)
    else:
        sizes = (as_int(value, what),) * count
    for size in sizes:
        check_size(size, what)
    if len(sizes) != count:
        raise ValueError(f"{what} must be {count} ints, got {value!r}")
    return sizes


def entries_of(shape: Any, what: str) -> Any:
    """The entries of a shape as a list or tuple, whichever object of a library it is:
    `tf.TensorShape`, `torch.Size`, a range, an array. Anything else, such as a number or a tensor,
    is returned as it is. ValueError, with `what`, if the number of its entries is unknown.
    """
    if isinstance(shape, list | tuple | int | Tensor):
        return shape
    if isinstance(shape, np.ndarray):
        return shape.tolist()
    unordered = isinstance(shape, str | bytes | set | frozenset | dict)
    if not isinstance(shape, Iterable) or unordered or engine_of(shape) is not None:
        return shape
    try:
        return tuple(shape)
    except ValueError:
        raise ValueError(f"{what} has an unknown number of sizes: {shape!r}") from None


def as_shape(shape: object, what: str = "shape") -> tuple[list[Tensor], tuple[int | None, ...]]:
    """A shape as `(dims, sizes)`: sizes known now, and a scalar int tensor for each None. `shape`
    is an int, a sequence of ints and scalar integer tensors, or an integer vector tensor such as
    `K.shape(x)`, whose known sizes are recovered. A size of -1 is passed on. TypeError for sizes
    that are not integers; ValueError for tensors that are not vectors of known length.
    """
    if isinstance(shape, Tensor):
        return _of_vector(shape, what)
    shape = entries_of(shape, what)
    if not isinstance(shape, list | tuple):
        engine = engine_of(shape) if len(getattr(shape, "shape", ())) else None
        if engine is not None and not engine.has_value(shape):
            return _of_vector(as_tensor(shape), what)
        shape = (shape,) if engine is None else engine.to_numpy(shape).tolist()
    dims: list[Tensor] = []
    sizes: list[int | None] = []
    for size in shape:
        if isinstance(size, Tensor) or engine_of(size) is not None:
            size = as_tensor(size)
            known = known_integers(size) if not size.ndim else None
            sizes.append(None if known is None else int(known))
            if known is None:
                dims.append(_scalar(size, what))
        elif size is None:
            raise TypeError(
                f"{what}: each size must be an int, got None in {tuple(shape)}; K.shape(x) gives "
                "the sizes of a tensor that are unknown before a value is fed"
            )
        else:
            number = as_int(size, f"{what}: each size")
            check_size(number, what)
            sizes.append(number)
    return dims, tuple(sizes)


def as_new_shape(shape: object, what: str) -> tuple[list[Tensor], tuple[int | None, ...]]:
    """The result of `as_shape` for a tensor to be created, whose shape must be possible."""
    dims, sizes = as_shape(shape, what)
    check_possible(sizes, what)
    return dims, sizes


def check_possible(sizes: Sequence[int | None], what: str) -> None:
    """ValueError, naming `what`, for a negative size, or too many elements for any machine."""
    if any(n is not None and n < 0 for n in sizes):
        raise ValueError(f"{what}: sizes must be 0 or more, got {tuple(sizes)}")
    try:
        check_elements(sizes)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


def as_entries(values: object, what: str) -> list[int | Tensor]:
    """Numbers that are given like a shape: ints, and scalar tensors for unknown ones."""
    dims, sizes = as_shape(values, what)
    return filled(sizes, dims)


def _scalar(size: Tensor, what: str) -> Tensor:
    if size.spec.shape != () or not is_integer(size.spec.dtype):
        raise TypeError(
            f"{what}: each size must be an int or a scalar integer tensor, got {size!r}"
        )
    if size.spec.dtype == "uint64":
        raise TypeError(f"{what}: sizes are int64, which cannot hold all of uint64, got {size!r}")
    return size


def _of_vector(shape: Tensor, what: str) -> tuple[list[Tensor], tuple[int | None, ...]]:
    spec = shape.spec
    if len(spec.shape) != 1 or spec.shape[0] is None or not is_integer(spec.dtype):
        raise ValueError(
            f"{what} must be an integer vector of known length, got {described(shape)}"
        )
    return as_shape([shape[i] for i in range(spec.shape[0])], what)


def shape_vector(dims: Sequence[Tensor], sizes: Sequence[int | None]) -> Tensor:
    """The int32 vector of sizes. It is constant if all sizes are known."""
    if not dims:
        return as_tensor(np.asarray(sizes, np.int32))
    scalars = [cast_to(as_tensor(n, "int32"), "int32") for n in filled(sizes, dims)]
    return stack(scalars, 0)


def as_integers(x: TensorLike, what: str) -> Tensor:
    """A tensor of integers. An empty list is one too."""
    tensor = as_tensor(x)
    if isinstance(x, list | tuple) and 0 in tensor.spec.shape:
        return cast_to(tensor, "int32")
    if not is_integer(tensor.spec.dtype):
        raise TypeError(
            f"{what} must hold integers, got dtype {tensor.spec.dtype}; convert it by K.cast"
        )
    return tensor


# --- integers that are known while a graph is built -----------------------------------------------

FAR = 64
"""Nodes behind a tensor up to which it is looked at."""


def known_integers(x: Tensor) -> np.ndarray | None:
    """The values of an integer scalar or vector that follow from constants and known sizes alone,
    such as those of `K.prod(K.int_shape(y)[1:])`; None if they depend on anything else.
    """
    if x.ndim > 1 or not is_integer(x.spec.dtype):
        return None
    sizes: dict[Tensor, Tensor] = {}
    waiting, seen = [x], {x}
    while waiting:
        node = waiting.pop()
        if node.op is dim:
            size = node.inputs[0].spec.shape[node.params["axis"]]
            if size is None:
                return None
            sizes[node] = like(size, node)
        elif node.op is None:
            if not is_array(node):
                return None
        else:
            waiting += [t for t in node.inputs if t not in seen]
            seen.update(node.inputs)
        if len(seen) > FAR:
            return None
    (found,) = rewrite([x], fold, replace=sizes)
    return found.value if is_array(found) else None
