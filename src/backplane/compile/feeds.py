"""Feeding: checks what a caller gives for a placeholder, and makes a program's value of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from backplane.compile.accumulation import is_split
from backplane.core.graph import Constant, Placeholder, Tensor, converted
from backplane.core.mesh import Mesh, feed_layout
from backplane.core.sparse import dense_array, is_sparse_matrix, is_triple
from backplane.core.spec import Spec
from backplane.core.variable import Variable
from backplane.engines import engine_of
from backplane.engines.base import Engine

Feed = Callable[[Any, Engine, bool], Any]
"""(value, engine, keep): with `keep` the program may keep the value, which then must be a copy."""

_KINDS = "biuf"


def feed_for(placeholder: Placeholder, position: int, function: str, parts: int = 1) -> Feed:
    """The checker and converter of one input of a function, which splits its batch in `parts`."""
    spec = placeholder.spec
    dtype = np.dtype(spec.dtype)
    shape, rank = spec.shape, len(spec.shape)
    what = f"K.function {function!r}: input {position} ({placeholder.name!r})"
    if placeholder.default is not None and rank == 0:
        return lambda value, engine, keep: _switch(value, what, spec)

    splits = parts > 1 and is_split(placeholder)

    def check_rows(sizes: Any) -> None:
        if splits and sizes[0] % parts:
            raise ValueError(
                f"{what}: accumulate={parts} takes a multiple of {parts} rows, got {sizes[0]}"
            )

    def feed(value: Any, engine: Engine, keep: bool) -> Any:
        if type(value) is not np.ndarray or value.dtype is not dtype:
            if type(value) is list and len(value) == 1 and _ndim(value[0]) == rank:
                (value,) = value  # Of the lists of arrays that `checked_count` joins.
            if isinstance(value, Constant | Variable):
                value = value.eval()
            if isinstance(value, Tensor):
                raise TypeError(f"{what}: the symbolic {value!r} cannot be fed, only values")
            owner = engine_of(value)
            if owner is not None and owner.name == engine.name:
                _check_native(value, engine, spec, what)
                check_has_value(value, engine, what)
                check_rows(value.shape)
                if engine.mesh is not None:
                    return _split(value, placeholder, engine, engine.mesh, what)
                return engine.from_numpy(engine.to_numpy(value)) if keep else engine.detached(value)
            if spec.sparse and is_triple(value):
                value = dense_array(value)
            value = as_array(value, dtype, what)
        if value.shape != shape:
            check_shape(value.shape, spec, what)
        check_rows(value.shape)
        if engine.mesh is not None:
            value = np.array(value) if keep else value
            return _split(value, placeholder, engine, engine.mesh, what)
        return engine.from_numpy(np.array(value)) if keep else engine.feed(value)

    return feed


def _split(value: Any, placeholder: Placeholder, engine: Engine, mesh: Mesh, what: str) -> Any:
    """`value`, split over the mesh as the layout of the placeholder says."""
    spec = placeholder.spec
    first = spec.shape[0] if spec.shape else None
    layout = feed_layout(placeholder.layout, value.shape, first, mesh, what)
    return engine.placed(value, spec.dtype, layout)


def _ndim(value: object) -> int | None:
    shape = getattr(value, "shape", None)
    return None if shape is None else len(shape)


def check_has_value(value: object, engine: Engine, what: str) -> None:
    """TypeError if `value` belongs to a function that its library is tracing or transforming."""
    if not engine.has_value(value):
        raise TypeError(
            f"{what}: got a tensor of {engine.library} that has no value yet, because it belongs "
            "to a function that is being traced, transformed or compiled. K.function and K.eval "
            "give NumPy arrays and need values: call them outside of that function, and the other "
            "K functions, on its tensors, inside of it"
        )


def as_array(value: object, dtype: np.dtype[Any], what: str) -> np.ndarray:
    """`value` as an array of `dtype`. Integers and bools lose nothing (`converted`). TypeError if
    it holds no numbers, or such as an integer type or bool would lose. ValueError if it is ragged,
    or holds numbers outside the range of an integer type.
    """
    owner = engine_of(value)
    if owner is not None:
        check_has_value(value, owner, what)
        value = owner.to_numpy(value)
    elif is_sparse_matrix(value):
        value = dense_array(value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{what}: the value is not a regular array ({error})") from None
    if array.dtype == dtype:
        return array
    if array.dtype == object and dtype.kind in "iu" and all(type(n) is int for n in array.flat):
        return converted(array, dtype, what)  # Some need more than 64 bits.
    if array.dtype.kind not in _KINDS and array.dtype.name != "bfloat16":
        raise TypeError(
            f"{what}: takes {dtype.name}, got {type(value).__name__} of dtype {array.dtype}"
        )
    return converted(array, dtype, what)


def _switch(value: object, what: str, spec: Spec) -> float:
    """The learning phase: 0 or 1, as a Python number. None is its default."""
    array = np.asarray(0 if value is None else value)
    if array.size != 1 or array.dtype.kind not in _KINDS or array.item() not in (0, 1):
        raise ValueError(f"{what}: takes one number, 0 (test) or 1 (train), got {value!r}")
    return bool(array) if spec.dtype == "bool" else array.item()


def _check_native(value: object, engine: Engine, spec: Spec, what: str) -> None:
    given = engine.spec_of(value)
    if given.dtype != spec.dtype:
        raise TypeError(f"{what}: takes {spec.dtype}, got a tensor of {given.dtype}")
    check_shape(given.shape, spec, what)


def check_shape(given: tuple[int | None, ...], spec: Spec, what: str) -> None:
    """ValueError unless a value of shape `given` fits."""
    if len(given) != len(spec.shape):
        raise ValueError(
            f"{what}: takes shape {tuple(spec.shape)} ({len(spec.shape)} axes), got shape "
            f"{tuple(given)}"
        )
    for axis, (n, m) in enumerate(zip(given, spec.shape, strict=True)):
        if m is not None and n is not None and n != m:
            raise ValueError(
                f"{what}: takes shape {tuple(spec.shape)}, got shape {tuple(given)}: "
                f"axis {axis} has {n} elements instead of {m}"
            )
