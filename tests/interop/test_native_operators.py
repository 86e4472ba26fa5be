"""Operators between a tensor of an engine's library and a tensor of K, on both sides."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.core.graph import Tensor

ARITHMETIC = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.matmul,
]  # fmt: skip
COMPARISON = [operator.lt, operator.le, operator.gt, operator.ge]
BITS = [operator.and_, operator.or_, operator.xor]
IN_PLACE = {
    operator.iadd: operator.add, operator.isub: operator.sub, operator.imul: operator.mul,
    operator.itruediv: operator.truediv, operator.ifloordiv: operator.floordiv,
    operator.imod: operator.mod, operator.ipow: operator.pow,
}  # fmt: skip
OPERATORS = {
    "float32": [*ARITHMETIC, *COMPARISON],
    "int32": [op for op in [*ARITHMETIC, *COMPARISON, *BITS] if op is not operator.truediv],
    "bool": BITS,
}
LEFT, RIGHT = np.array([[1, 2], [3, 4]]), np.array([[2, 1], [1, 3]])

PARTNERS: dict[str, Callable[[str], Tensor]] = {
    "known": lambda dtype: K.placeholder((2, 2), dtype=dtype),
    "batch": lambda dtype: K.placeholder((None, 2), dtype=dtype),
    "unknown": lambda dtype: K.placeholder((None, None), dtype=dtype),
    "variable": lambda dtype: K.variable(RIGHT.astype(dtype), dtype=dtype),
    "constant": lambda dtype: K.constant(RIGHT.astype(dtype), dtype=dtype),
    "computed": lambda dtype: K.reshape(K.placeholder((None,), dtype=dtype), (-1, 2)),
}


def natives(engine: Any) -> list[Callable[[np.ndarray], Any]]:
    """From an array to each kind of value of the library, and to itself."""
    made: list[Callable[[np.ndarray], Any]] = [lambda array: array]
    if engine.name == "tensorflow":
        tf = importlib.import_module("tensorflow")
        made += [tf.constant, tf.Variable]
    elif engine.name == "theano":
        pt = importlib.import_module("pytensor")
        made += [pt.tensor.as_tensor_variable, pt.shared]
    elif engine.name not in ("numpy", "cntk"):
        made.append(engine.from_numpy)
    if engine.name == "torch":
        torch = importlib.import_module("torch")
        made.append(lambda a: torch.nn.Parameter(torch.from_numpy(a), a.dtype.kind == "f"))
    return made


def value(y: Any, x: Tensor) -> np.ndarray:
    inputs = [t for t in (x, *x.inputs) if K.is_placeholder(t)]
    given = [(RIGHT if t.ndim == 2 else RIGHT.ravel()).astype(t.dtype) for t in inputs]
    if not inputs and not isinstance(y, Tensor) and K.backend() != "theano":
        return K.eval(y)
    return K.function(inputs, [y])(given)[0]


def leaves_no_operator(engine: Any, native: Any, x: Tensor, op: Any) -> bool:
    """Arrays of MLX refuse a right operand that has no value, and any in a matrix product."""
    if engine.name != "mlx" or isinstance(native, np.ndarray):
        return False
    return op is operator.matmul or any(K.is_placeholder(t) for t in (x, *x.inputs))


@pytest.mark.parametrize("kind", PARTNERS)
@pytest.mark.parametrize("dtype", OPERATORS)
def test_operators(engine, dtype, kind):
    left, right = LEFT.astype(dtype), RIGHT.astype(dtype)
    found, wanted = {}, {}
    for make in natives(engine):
        for op in OPERATORS[dtype]:
            x, native = PARTNERS[kind](dtype), make(left.copy())
            key = (op.__name__, type(native).__name__)
            found[*key, "K"], wanted[*key, "K"] = (op(x, native), x), op(right, left)
            if leaves_no_operator(engine, native, x, op):
                with pytest.raises(TypeError, match=r"K\.eval\(array\)|incompatible function"):
                    op(native, x)
            else:
                found["K", *key], wanted["K", *key] = (op(native, x), x), op(left, right)
    for key, (y, x) in found.items():
        result = value(y, x)
        assert result.dtype.kind == wanted[key].dtype.kind, key
        assert result.dtype.itemsize <= 4, key
        np.testing.assert_allclose(result, wanted[key], rtol=1e-5, err_msg=str(key))


@pytest.mark.parametrize("kind", ["known", "unknown"])
def test_augmented_assignment_binds_the_name_anew(engine, kind):
    for make in natives(engine):
        if "Variable" in type(make(np.zeros(1))).__name__ and engine.name == "tensorflow":
            continue  # TensorFlow refuses `variable += value` of its own tensors too.
        for op, plain in IN_PLACE.items():
            x, native = PARTNERS[kind]("float32"), make(LEFT.astype("float32"))
            if leaves_no_operator(engine, native, x, op):
                continue
            y = op(native, x)
            np.testing.assert_allclose(value(y, x), plain(LEFT, RIGHT), rtol=1e-5)


def test_gradients_pass_through_the_operators(engine):
    for make in natives(engine):
        for op in (operator.pow, operator.truediv, operator.matmul):
            x, native = PARTNERS["unknown"]("float32"), make(LEFT.astype("float32"))
            if leaves_no_operator(engine, native, x, op):
                continue
            (slope,) = K.gradients(K.sum(op(native, x)), [x])
            (same,) = K.gradients(K.sum(op(LEFT, x)), [x])
            ours, theirs = K.function([x], [same, slope])([RIGHT])
            np.testing.assert_allclose(theirs, ours, rtol=1e-5)
