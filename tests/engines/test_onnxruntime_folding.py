"""ONNX Runtime: sums and products per channel around convolutions with constant weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.engines.onnxruntime import engine
from backplane.engines.onnxruntime.fast import frozen
from spying import Spy

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The third call with the same values finds the session."""
    monkeypatch.setattr(frozen, "CALLS", 0)
    with engines.use("cntk"):
        yield


Kinds = Callable[..., Counter[str]]


@pytest.fixture
def kinds_of(spied: Spy) -> Kinds:
    """Counts the operations on what is not constant in the model with constants, whose results are
    compared with those of the program.
    """
    made = spied(engine, "model")

    def kinds(x: Any, *results: Any) -> Counter[str]:
        made.clear()
        f = K.function([x], [*results])
        given = rng.normal(size=(2, *K.int_shape(x)[1:])).astype("float32")
        plain = f([given])
        for _ in range(2):
            found = f([given])
        assert len(made) == 2
        for a, b in zip(found, plain, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        return varying_kinds(made[-1].result.graph)

    return kinds


def varying_kinds(graph: Any) -> Counter[str]:
    """How often each operation is there that reads something that is not constant."""
    constants = {"", *[t.name for t in graph.initializer]}
    counted: Counter[str] = Counter()
    for node in graph.node:
        if constants.issuperset(node.input):
            constants.update(node.output)
        else:
            counted[node.op_type] += 1
    return counted


def vector(*shape: int) -> Any:
    return K.variable(rng.uniform(0.5, 1.5, shape))


def normed(y: Any) -> Any:
    n = K.int_shape(y)[-1]
    return K.batch_normalization(y, *[vector(n) for _ in range(4)])


def image(channels: int = 8) -> Any:
    return K.placeholder((None, 6, 6, channels))


def enlarged(x: Any, filters: int = 3) -> Any:
    _, height, width, channels = K.int_shape(x)
    kernel = K.variable(rng.normal(size=(4, 4, filters, channels)))
    shape = (K.shape(x)[0], 2 * height, 2 * width, filters)
    return K.conv2d_transpose(x, kernel, shape, strides=(2, 2), padding="same")


def convolved(x: Any, filters: int = 4) -> Any:
    kernel = K.variable(rng.normal(size=(3, 3, K.int_shape(x)[-1], filters)))
    return K.conv2d(x, kernel, padding="same")


def varying(found: Counter[str]) -> int:
    """Sums and products that are left."""
    return found["Add"] + found["Sub"] + found["Mul"] + found["Div"]


def test_a_normalization_becomes_part_of_a_transposed_convolution(
    kinds_of: Kinds,
) -> None:
    x = image()
    y = K.bias_add(enlarged(x), vector(3))
    found = kinds_of(x, K.relu(normed(y)))
    assert found["ConvTranspose"] == 1
    assert varying(found) == found["BatchNormalization"] == 0


CHAINS: dict[str, Any] = {
    "bias": lambda y, c, n: y + c,
    "difference": lambda y, c, n: y - c,
    "from": lambda y, c, n: c - y,
    "quotient": lambda y, c, n: 2.0 * y / c,
    "long": lambda y, c, n: (n - ((y + c) * n - 3.0)) / c + 0.5,
    "row": lambda y, c, n: y * K.reshape(c, (1, 1, 1, -1)) + n,
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_any_kind(name: str, kinds_of: Kinds) -> None:
    x = image()
    y = CHAINS[name](enlarged(x), vector(3), vector(3))
    found = kinds_of(x, y)
    assert found["ConvTranspose"] == 1
    assert varying(found) == 0
    y = convolved(K.relu(CHAINS[name](x, vector(8), vector(8))))
    found = kinds_of(x, y)
    assert found["BatchNormalization"] == 1
    assert varying(found) == 0


def test_a_normalization_before_a_convolution_is_one_operation(
    kinds_of: Kinds,
) -> None:
    x = image()
    for between in (K.relu, lambda y: y, lambda y: K.relu(y, max_value=6.0)):
        y = K.concatenate([convolved(x), x])
        found = kinds_of(x, convolved(between(normed(y))))
        assert found["BatchNormalization"] == 1
        assert varying(found) == 0


def test_what_others_read_stays(kinds_of: Kinds) -> None:
    x = image()
    y = enlarged(x)
    found = kinds_of(x, normed(y), y)
    assert found["ConvTranspose"] == 1
    assert varying(found) == 3
    z = enlarged(x) + vector(3)
    found = kinds_of(x, K.sin(z) * z, z * vector(3))
    assert found["ConvTranspose"] == 1
    assert varying(found) == 2


def test_a_loop_may_read_what_a_chain_is_made_of(kinds_of: Kinds) -> None:
    x = image()
    y = enlarged(x)
    steps = K.map_fn(lambda row: K.sum(row * K.mean(y)), y)
    found = kinds_of(x, normed(y), steps)
    assert found["ConvTranspose"] == 1


def test_constants_that_vary_along_other_axes_stay(kinds_of: Kinds) -> None:
    x = image()
    for c in (vector(12, 12, 3), vector(12, 1), vector(1, 12, 1, 1)):
        found = kinds_of(x, enlarged(x) * c)
        assert varying(found) == 1
    one = image(1)
    found = kinds_of(one, convolved(one * vector(5)))
    assert found["BatchNormalization"] == 0
    more = kinds_of(x, enlarged(x) + vector(1, 1, 1, 1, 3))
    assert varying(more) == 1


def test_without_convolutions_nothing_changes(kinds_of: Kinds) -> None:
    x = image()
    found = kinds_of(x, K.relu(normed(x)))
    assert found["BatchNormalization"] == 0
    assert varying(found) == 3


def test_sequences_are_normalized_before_convolutions(kinds_of: Kinds) -> None:
    x = K.placeholder((None, 9, 8))
    kernel = K.variable(rng.normal(size=(3, 8, 4)))
    y = K.conv1d(K.relu(normed(x)), kernel, padding="causal")
    assert kinds_of(x, y)["BatchNormalization"] == 1
