"""The functions of `keras.ops.nn` and `keras.ops.image` on symbolic tensors, with gradients.

Keras' own tests check their values (`tests/keras_suite`). Here the symbolic form on each engine,
with a batch of unknown size, is compared with the values on NumPy, and gradients with differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from backplane import backend as K
from backplane.backend._trees import map_leaves
from backplane.engines.base import Engine
from backplane.keras3.ops import image, nn
from backplane.keras3.tensor import Tensor

RNG = np.random.default_rng(5)
ROWS = RNG.normal(size=(3, 6)).astype("float32")
IMAGES = RNG.uniform(0.05, 0.95, size=(2, 6, 7, 4)).astype("float32")
COLORS = RNG.uniform(0.05, 0.95, size=(2, 5, 6, 3)).astype("float32")
SHARES = (np.exp(ROWS) / np.exp(ROWS).sum(1, keepdims=True)).astype("float32")
LOGITS = RNG.normal(size=(2, 7, 5)).astype("float32")
VECTOR = RNG.uniform(0.5, 1.5, size=4).astype("float32")
MAP = np.array([0.9, 0.2, -1.3, -0.15, 1.1, 1.2, 0, 0], "float32")
HEADS = RNG.normal(size=(2, 5, 4, 3)).astype("float32")


def kernel(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype("float32")


class Case(NamedTuple):
    """A call: all of its arrays are tensors, and the first one has a batch of unknown size."""

    name: str
    function: Callable[..., Any]
    arrays: list[np.ndarray]
    keywords: dict[str, Any]
    slopes: bool

    def __repr__(self) -> str:
        words = [str(v) for v in self.keywords.values()]
        return "-".join([self.name, *words])


def case(name: str, *arrays: Any, slopes: bool = True, **keywords: Any) -> Case:
    """`arrays` may end in numbers, which stay as they are."""
    tensors = [a for a in arrays if isinstance(a, np.ndarray)]
    rest = arrays[len(tensors) :]
    home = nn if hasattr(nn, name) else image
    chosen = getattr(home, name)
    return Case(name, lambda *xs, **kw: chosen(*xs, *rest, **kw), tensors, keywords, slopes)


SMOOTH = (
    "sigmoid", "tanh", "tanh_shrink", "softplus", "silu", "squareplus", "log_sigmoid", "selu",
    "elu", "celu", "gelu", "softsign", "sparse_plus", "softmax", "log_softmax", "glu",
    "leaky_relu", "relu", "relu6", "hard_silu", "hard_sigmoid", "hard_tanh", "sparse_sigmoid",
    "soft_shrink", "hard_shrink",
)  # fmt: skip
CASES = [
    *[case(name, ROWS) for name in SMOOTH],
    case("gelu", ROWS, approximate=False), case("softmax", ROWS, axis=None),
    case("sparsemax", ROWS, slopes=False), case("threshold", ROWS, 0.3, -1.0),
    *[case("max_pool", IMAGES, 2, 2, p) for p in ("valid", "same")],
    *[case("average_pool", IMAGES, (3, 2), 2, p) for p in ("valid", "same")],
    case("adaptive_average_pool", IMAGES, (4, 3), "channels_last"),
    case("adaptive_max_pool", IMAGES, (4, 3), "channels_last"),
    case("conv", IMAGES, kernel(3, 2, 2, 4), 2, "same"),
    case("conv", IMAGES, kernel(3, 2, 4, 2), 1, "valid", dilation_rate=2),
    case("depthwise_conv", IMAGES, kernel(3, 2, 4, 2), 1, "same"),
    case("separable_conv", IMAGES, kernel(3, 2, 4, 1), kernel(1, 1, 4, 3), 1, "same"),
    *[
        case("conv_transpose", IMAGES, kernel(3, 2, 5, 4), stride, padding, more)
        for stride, more in ((1, None), (2, None), (3, 1), (2, 3))
        for padding in ("valid", "same")
    ],
    case("one_hot", np.array([[0, 2], [-1, 3]]), 4, slopes=False),
    case("multi_hot", np.array([[0, 2], [1, 3]]), 4, slopes=False),
    case("categorical_crossentropy", SHARES, SHARES[::-1].copy()),
    case("categorical_crossentropy", SHARES, ROWS, True),
    case("binary_crossentropy", SHARES, SHARES[::-1].copy()),
    case("binary_crossentropy", SHARES, ROWS, True),
    case("moments", IMAGES, (0, 1)), case("moments", IMAGES, (1, 2), True),
    case("batch_normalization", IMAGES, VECTOR, VECTOR + 1, axis=-1),
    case("dot_product_attention", HEADS, HEADS, HEADS, is_causal=True),
    case("unfold", IMAGES, (3, 2), padding=1, stride=2),
    case("fold", np.asarray(kernel(2, 8, 12)), (5, 4), 2),
    case("depth_to_space", IMAGES, 2), case("space_to_depth", IMAGES[:, :, :6], 2),
    case("psnr", ROWS, ROWS + 0.3, 1.0),
    *[
        case("ctc_decode", LOGITS, np.array([7, 5]), strategy, 5, 2, slopes=False)
        for strategy in ("greedy", "beam_search")
    ],
    case("rgb_to_grayscale", COLORS), case("rgb_to_hsv", COLORS), case("hsv_to_rgb", COLORS),
    *[
        case("resize", IMAGES, size, method, antialias=True)
        for method in ("bilinear", "bicubic", "lanczos3", "nearest") for size in ((4, 9), (9, 3))
    ],
    case("gaussian_blur", IMAGES, (3, 5), (1.0, 0.7)), case("sobel_edges", IMAGES),
    *[
        case("affine_transform", IMAGES, MAP, "bilinear", mode, 0.3)
        for mode in ("constant", "nearest", "wrap", "mirror", "reflect")
    ],
    case("scale_and_translate", IMAGES, np.array([0.6, 0.7], "float32"),
         np.array([0.3, -1.2], "float32"), slopes=False),
]  # fmt: skip


def _called(given: Case, xs: list[Any]) -> list[Any]:
    if given.name == "scale_and_translate":
        x, scale, shift = xs
        return [image.scale_and_translate(x, (2, 5, 6, 4), scale, shift, (1, 2), "cubic")]
    found: list[Any] = []
    map_leaves(found.append, given.function(*xs, **given.keywords))
    return found


def _on_numpy(given: Case, arrays: list[np.ndarray]) -> list[np.ndarray]:
    with K.engine("numpy"):
        return [np.asarray(y) for y in _called(given, arrays)]


@pytest.mark.parametrize("given", CASES, ids=repr)
def test_symbolic_with_an_open_batch(engine: Engine, given: Case) -> None:
    expected = _on_numpy(given, given.arrays)
    shapes = [(None, *a.shape[1:]) if i == 0 else a.shape for i, a in enumerate(given.arrays)]
    inputs = [
        K.placeholder(shape=s, dtype=str(a.dtype))
        for s, a in zip(shapes, given.arrays, strict=True)
    ]
    outputs = [y.core for y in _called(given, [Tensor(x) for x in inputs])]
    weights = [RNG.uniform(0.5, 1.5, size=y.shape).astype("float32") for y in expected]
    slopes = []
    if given.slopes:
        loss = sum(K.sum(y * w) for y, w in zip(outputs, weights, strict=True))
        slopes = [K.gradients(loss, inputs)[0]]
    values = K.function(inputs, [*outputs, *slopes])(given.arrays)
    for value, wanted in zip(values, expected, strict=False):
        assert value.shape == wanted.shape
        assert value.dtype == wanted.dtype
        np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=2e-5)
    if given.slopes:
        _check_slope(given, weights, values[-1])


def _check_slope(given: Case, weights: list[np.ndarray], slope: np.ndarray) -> None:
    """The gradient by the first operand, along one direction, beside a difference. Keras' dtype
    rules know no float64, so differences have few digits.
    """
    first, *others = given.arrays
    direction = np.random.default_rng(1).normal(size=first.shape).astype("float32")
    direction /= np.linalg.norm(direction)

    def total(by: float) -> float:
        found = _on_numpy(given, [first + np.float32(by) * direction, *others])
        pairs = zip(weights, found, strict=True)
        return sum(float(np.sum(w.astype("float64") * y)) for w, y in pairs)

    difference = (total(3e-3) - total(-3e-3)) / 6e-3
    np.testing.assert_allclose(np.sum(slope * direction), difference, rtol=1e-2, atol=2e-3)


def test_elastic_deformations_are_the_same_everywhere(engine: Engine) -> None:
    moved = image.elastic_transform(COLORS, alpha=3.0, sigma=1.0, seed=7)
    with K.engine("numpy"):
        expected = image.elastic_transform(COLORS, alpha=3.0, sigma=1.0, seed=7)
    assert not np.allclose(expected, COLORS)
    np.testing.assert_allclose(np.asarray(moved), expected, rtol=1e-4, atol=1e-4)
