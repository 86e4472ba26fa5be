"""K for R: arguments in the forms that R gives them, and results in forms that reticulate hands
over unchanged.

The R package in `r/` calls K through `call`. R has no scalars, and its `axis = 1` is a double. So
whole numbers become integers here wherever K wants integers; the tables below tell that by the
names of parameters. `scripts/make_r.py` reads the same tables to write the R functions.

R's vectors and arrays arrive here as NumPy arrays with R's own axes, its lists as lists, and its
single numbers as numbers.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backplane import backend as K
from backplane import engines
from backplane.backend._kfunction import KFunction
from backplane.backend._trees import flatten
from backplane.core.graph import Tensor
from backplane.core.sparse import SparseTensor

AXES = frozenset(("axes", "axis", "pattern"))
"""Parameters that count axes: from 0 in `K$…`, as in Python, and from 1 in the functions `k_…`."""

INTEGERS = frozenset({
    "beam_width", "bottom_pad", "broadcastable", "depth_factor", "dilation_rate",
    "filter_shape", "height_factor", "ignore_class", "image_shape", "k", "kernel_size", "left_pad",
    "max_nodes", "n", "ndim", "noise_shape", "num_classes", "num_segments", "output_shape",
    "padding", "pool_size", "reduction_axes", "rep", "right_pad", "seed",
    "set_learning_phase.value", "shape", "size", "start", "step", "stop", "strides", "summarize",
    "top_pad", "top_paths", "training", "width_factor",
}) | AXES  # fmt: skip
"""Parameters that are integers, or lists of them."""

INDICES = frozenset({
    "indices", "input_length", "label_length", "label_lengths", "labels", "segment_ids",
    "sparse_categorical_crossentropy.target", "targets", "y_true",
})  # fmt: skip
"""Parameters that are tensors of integers."""

LISTS = frozenset({
    "batch_set_value.tuples", "concatenate.tensors", "control_inputs", "function.inputs",
    "function.outputs", "function.updates", "gradients.variables", "batch_get_value.ops",
    "einsum.operands", "stack.x",
})  # fmt: skip
"""Parameters that are lists. A list of R that has names arrives as a dict, and its names are
dropped."""

ALIGNED = {"batch_get_value": "ops", "gradients": "variables"}
"""Functions with a result for each element of a list. The results get the names of the list's
elements."""

BIGGEST = 2**31 - 1
"""R's integers end here; larger ones go to R as doubles."""


def call(name: str, args: Sequence[Any], kwargs: Any, one_based: bool = False) -> Any:
    """Call a function of K with arguments from R.

    Args:
        name: Its name in K.
        args: Arguments by position.
        kwargs: Arguments by name (R's empty list is no dict).
        one_based: Whether axes count from 1.

    Returns:
        Its result; numbers and arrays as `plain` makes them. Where no tensor of an engine was
        given, the engine's results come as arrays: arrays in, arrays out.

    Raises:
        AttributeError: if K has no such function.
        Exception: what the function raises.
    """
    function = getattr(K, name)
    parameters, many = _parameters(function)
    given = dict(zip([p.name for p in parameters], args, strict=False))
    rest = args[len(given) :]
    placed = [*given, *[p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]]
    if twice := given.keys() & dict(kwargs or {}).keys():
        raise TypeError(f"K.{name}: got {', '.join(twice)} twice")
    given.update(kwargs or {})
    labels = {n: list(value) for n, value in given.items() if isinstance(value, dict)}
    given = {n: _fitting(name, n, value, one_based) for n, value in given.items()}
    _fit_ranks(name, given)
    if many in given:  # a list of R, or the only one
        value = given.pop(many)
        rest = [*rest, *(value if isinstance(value, list | tuple) else [value])]
        placed += [p.name for p in parameters]  # by position too, as they come before
    first = [given.pop(n) for n in dict.fromkeys(placed) if n in given]
    try:
        result = function(*first, *rest, **given)
    except (IndexError, TypeError, ValueError) as error:
        if one_based and any(a in str(error) for a in AXES & {*placed, *given}):
            error.args = (f"{error} (this message counts axes from 0, k_{name} from 1)",)
        raise
    if isinstance(result, KFunction):
        inputs = first[0] if first else given["inputs"]
        return Function(result, inputs, labels.get("inputs"), labels.get("outputs"))
    values = flatten([*first, *rest, *given.values()])
    native = any(not isinstance(v, np.ndarray) and engines.engine_of(v) is not None for v in values)
    result = plain(result, arrays=not native)
    return _labelled(result, labels.get(ALIGNED.get(name, "")))


def _labelled(result: Any, labels: list[str] | None) -> Any:
    """A result of as many parts as a list of R had, with the names that the list gave them."""
    return result if labels is None else dict(zip(labels, result, strict=True))


def _parameters(function: Callable[..., Any]) -> tuple[list[inspect.Parameter], str]:
    """The parameters that can be given by position, and the one that takes all further arguments,
    such as `operands`; none where Python does not tell.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [], ""
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return placed, next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "")


def _fitting(function: str, parameter: str, value: Any, one_based: bool) -> Any:
    """An argument in the form that K takes."""
    names = {parameter, f"{function}.{parameter}"}
    if isinstance(value, dict) and tuple(value) == SparseTensor._fields:
        return SparseTensor(**value)
    if names & LISTS and isinstance(value, dict):
        return list(value.values())
    if names & INTEGERS:
        value = integers(value)
        if one_based and parameter in AXES:
            value = from_zero(value, f"k_{function}: {parameter}")
        return value
    return indices(value) if names & INDICES else value


def integers(value: Any) -> Any:
    """`value` with whole floats made ints and arrays made lists. K itself refuses fractions."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [integers(v) for v in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def indices(value: Any) -> Any:
    """`value` with arrays of whole floats made arrays of integers, and whole floats ints."""
    if isinstance(value, list | tuple):
        return [indices(v) for v in value]
    if isinstance(value, float):
        return integers(value)
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        whole = np.array_equal(value, np.trunc(value)) and np.all(np.abs(value) <= BIGGEST)
        return value.astype(np.int32) if whole else value
    return value


def from_zero(axes: Any, what: str) -> Any:
    """Axes that count from 1 (negative ones from the end) as axes that count from 0. ValueError for
    0.
    """
    if isinstance(axes, list):
        return [from_zero(axis, what) for axis in axes]
    if not isinstance(axes, int) or isinstance(axes, bool):
        return axes
    if axes == 0:
        raise ValueError(f"{what}: axes count from 1 here, or from -1 at the end; got 0")
    return axes - 1 if axes > 0 else axes


# --- one number where one axis is meant ----------------------------------------------------------


def _fit_ranks(name: str, given: dict[str, Any]) -> None:
    """R's vectors of length one are numbers here, unless a variable says that they have an axis."""
    if name == "set_value" and {"x", "value"} <= given.keys():
        given["value"] = ranked(given["x"], given["value"])
    elif name == "batch_set_value" and "tuples" in given:
        given["tuples"] = [(x, ranked(x, value)) for x, value in given["tuples"]]


def ranked(x: Any, value: Any) -> Any:
    """`value`, or an array of one element if it is a number and the tensor `x` has one axis."""
    if isinstance(x, Tensor) and x.ndim == 1 and isinstance(value, int | float):
        return np.array([value])
    return value


@dataclass(eq=False, repr=False)
class Function:
    """The function that `K$function` returns. It takes a list of values and gives arrays.

    Where the list of outputs had names, so has the list of results; where that of the inputs had
    names, so may the list of values, in any order.
    """

    _function: KFunction
    _inputs: Any
    _names: list[str] | None
    _labels: list[str] | None

    def __call__(self, inputs: Any = ()) -> Any:
        """Run it; see `KFunction`. ValueError also for names that are not the inputs'."""
        if isinstance(inputs, dict):
            inputs = self._in_order(inputs)
        if not isinstance(self._inputs, list | tuple):
            inputs = ranked(self._inputs, inputs)
        elif isinstance(inputs, list | tuple) and len(inputs) == len(self._inputs):
            inputs = [ranked(x, v) for x, v in zip(self._inputs, inputs, strict=True)]
        return _labelled(plain(self._function(inputs)), self._labels)

    def _in_order(self, values: dict[str, Any]) -> list[Any]:
        if self._names is None or values.keys() != set(self._names):
            wanted = "none" if self._names is None else ", ".join(self._names)
            raise ValueError(
                f"K.function {self.name!r}: the values are named {', '.join(values)}, the inputs "
                f"{wanted}"
            )
        return [values[name] for name in self._names]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def __repr__(self) -> str:
        return f"<K function {self._function.name!r}>"


# --- results --------------------------------------------------------------------------------------


def plain(value: Any, arrays: bool = False) -> Any:
    """A result in the form that becomes the right thing in R.

    Args:
        value: Any result of K.
        arrays: Whether tensors of an engine become arrays.

    Returns:
        Arrays without axes as numbers; lists as tuples, as reticulate makes vectors of some lists;
        sparse tensors as dicts of their parts, which are lists with names in R; integers that R
        does not have as floats; all else as it is.
    """
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.name == "bfloat16":
            value = value.astype(np.float32)
        return value if value.ndim else plain(value.item())
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value) if abs(value) <= BIGGEST else float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, SparseTensor):
        value = value._asdict()
    if isinstance(value, list | tuple):
        return tuple(plain(v, arrays) for v in value)
    if isinstance(value, dict):
        return {key: plain(v, arrays) for key, v in value.items()}
    owner = engines.engine_of(value) if arrays else None
    return value if owner is None else plain(owner.to_numpy(value))


# --- operators ------------------------------------------------------------------------------------

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "^": operator.pow, "%%": operator.mod, "%/%": operator.floordiv,
    "==": K.equal, "!=": K.not_equal,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "&": operator.and_, "|": operator.or_,
}  # fmt: skip
UNARY: dict[str, Callable[[Any], Any]] = {
    "+": lambda x: x,
    "-": operator.neg,
    "!": operator.invert,
}


def operate(sign: str, *operands: Any) -> Any:
    """The result of an operator of R on tensors, numbers and arrays. TypeError if there is no such
    operator.
    """
    return UNARY[sign](*operands) if len(operands) == 1 else BINARY[sign](*operands)


def subset(x: Tensor, subscripts: Sequence[Any], drop: bool = True) -> Tensor:
    """`x[i, j, …]` of R.

    Args:
        x: Tensor.
        subscripts: One per axis: None (the whole axis), a number, an array of numbers, or an array
            of truth values, as long as the axis. Numbers count from 1; negative ones leave out,
            which needs an axis of known size.
        drop: Whether an axis goes where its subscript is one positive number.

    Raises:
        IndexError: for another number of subscripts than `x` has axes, and subscripts that are not
            there.
        TypeError: for subscripts that are neither numbers nor truth values.
    """
    if len(subscripts) != x.ndim:
        raise IndexError(
            f"x[...]: {x!r} has {x.ndim} axes and takes as many subscripts, got {len(subscripts)}"
        )
    for axis in reversed(range(x.ndim)):
        key = _key(subscripts[axis], x.spec.shape[axis], axis + 1, drop)
        if key is not None:
            x = x[(slice(None),) * axis + (key,)]
    return x


def _key(subscript: Any, size: int | None, axis: int, drop: bool) -> Any:
    """A subscript as Python writes it; None for the whole axis."""
    if subscript is None:
        return None
    array = None if isinstance(subscript, Tensor) else np.asarray(subscript)
    if array is None or array.dtype.kind not in "bif" or array.ndim > 1:
        raise TypeError(
            f"x[...]: subscript {axis} must be numbers or truth values, got {subscript!r}; "
            "k_gather takes tensors of indices, which count from 0"
        )
    places = _places(array, size, axis)
    single = array.ndim == 0 and array.dtype.kind != "b" and array > 0
    if single and drop:
        return int(places[0])
    steps = np.diff(places)
    if len(places) and (steps == 1).all():
        return slice(int(places[0]), int(places[-1]) + 1)
    return places


def _places(array: np.ndarray, size: int | None, axis: int) -> np.ndarray:
    """The places that a subscript names, from 0."""
    flat = np.atleast_1d(array)
    if flat.dtype.kind == "b":
        if len(flat) != size:
            raise IndexError(
                f"x[...]: subscript {axis} has {len(flat)} truth values for an axis of "
                f"{'unknown size' if size is None else f'{size} elements'}"
            )
        return np.flatnonzero(flat)
    whole = flat.astype(np.int64)
    if (whole != flat).any() or (whole == 0).any() or (np.sign(whole) != np.sign(whole[:1])).any():
        raise IndexError(
            f"x[...]: subscript {axis} must be whole numbers from 1 up, or all negative to leave "
            f"out, got {flat.tolist()}"
        )
    if size is not None and (np.abs(whole) > size).any():
        raise IndexError(
            f"x[...]: subscript {axis} is out of bounds: the axis has {size} elements, "
            f"got {flat.tolist()}"
        )
    if (whole > 0).all():
        return whole - 1
    if size is None:
        raise IndexError(
            f"x[...]: subscript {axis} leaves out elements of an axis of unknown size, which is "
            "not possible"
        )
    return np.setdiff1d(np.arange(size), -whole - 1)
