"""Networks on images."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.networks.problem import MOMENTUM, Batch, Network, Sizes


def images(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Uniform pixels and random classes."""
    shape = s["batch"], s["side"], s["side"], 3
    labels = rng.integers(0, s["classes"], s["batch"], dtype="int32")
    return {"x": rng.random(shape, dtype="float32"), "labels": labels}


# --- ResNet-50, https://arxiv.org/abs/1512.03385 --------------------------------------------------


def resnet50(L: Any, batch: Batch, s: Sizes) -> Any:
    """The stem, then stages of bottlenecks."""
    x = L.conv(L.image(batch["x"]), s["width"], 7, 2, bias=False)
    x = L.max_pool(L.relu(L.batch_norm(x)), 3, 2)
    for stage, blocks in enumerate(s["blocks"]):
        filters = s["width"] * 2**stage
        for block in range(blocks):
            x = _bottleneck(L, x, filters, 2 if stage and not block else 1, first=not block)
    return L.dense(L.global_pool(x), s["classes"])


def _bottleneck(L: Any, x: Any, filters: int, strides: int, first: bool) -> Any:
    y = L.relu(L.batch_norm(L.conv(x, filters, 1, bias=False)))
    y = L.relu(L.batch_norm(L.conv(y, filters, 3, strides, bias=False)))
    # Blocks that change nothing at first: https://arxiv.org/abs/1706.02677.
    y = L.batch_norm(L.conv(y, 4 * filters, 1, bias=False), 0.0)
    if first:
        x = L.batch_norm(L.conv(x, 4 * filters, 1, strides, bias=False))
    return L.relu(x + y)


RESNET50 = Network(
    "ResNet-50",
    resnet50,
    images,
    {"batch": 8, "side": 64, "classes": 100, "width": 64, "blocks": (3, 4, 6, 3)},
    {"batch": 2, "side": 32, "classes": 3, "width": 4, "blocks": (1, 2)},
    optimizer=MOMENTUM,
    keras3=True,
    tolerance=0.02,
)

# --- MobileNetV2, https://arxiv.org/abs/1801.04381 ------------------------------------------------


def mobilenet_v2(L: Any, batch: Batch, s: Sizes) -> Any:
    """Inverted residuals: wide inside, narrow between them."""
    x = L.relu6(L.batch_norm(L.conv(L.image(batch["x"]), s["stem"], 3, 2, bias=False)))
    narrow = s["stem"]
    for factor, filters, repeats, strides in s["blocks"]:
        for i in range(repeats):
            y = x
            if factor > 1:
                y = L.relu6(L.batch_norm(L.conv(y, factor * narrow, 1, bias=False)))
            y = L.relu6(L.batch_norm(L.depthwise(y, 3, 1 if i else strides)))
            y = L.batch_norm(L.conv(y, filters, 1, bias=False))
            x = x + y if i else y
            narrow = filters
    x = L.relu6(L.batch_norm(L.conv(x, s["head"], 1, bias=False)))
    return L.dense(L.global_pool(x), s["classes"])


MOBILENET_V2 = Network(
    "MobileNetV2",
    mobilenet_v2,
    images,
    {
        "batch": 16, "side": 64, "classes": 100, "stem": 32, "head": 1280,
        "blocks": (
            (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1),
        ),
    },
    {
        "batch": 2, "side": 16, "classes": 3, "stem": 4, "head": 8,
        "blocks": ((1, 3, 1, 1), (2, 4, 2, 2)),
    },
    optimizer=MOMENTUM,
    keras3=True,
    tolerance=0.02,
)  # fmt: skip

# --- DenseNet-121, https://arxiv.org/abs/1608.06993 -----------------------------------------------


def densenet(L: Any, batch: Batch, s: Sizes) -> Any:
    """Each layer reads the channels of all before it; transitions halve them."""
    growth = s["growth"]
    x = L.conv(L.image(batch["x"]), 2 * growth, 7, 2, bias=False)
    x = L.max_pool(L.relu(L.batch_norm(x)), 3, 2)
    channels = 2 * growth
    for stage, layers in enumerate(s["layers"]):
        if stage:
            channels //= 2
            x = L.conv(L.relu(L.batch_norm(x)), channels, 1, bias=False)
            x = L.avg_pool(x, 2)
        for _ in range(layers):
            y = L.conv(L.relu(L.batch_norm(x)), 4 * growth, 1, bias=False)
            y = L.conv(L.relu(L.batch_norm(y)), growth, 3, bias=False)
            x = L.join([x, y])
            channels += growth
    return L.dense(L.global_pool(L.relu(L.batch_norm(x))), s["classes"])


_DENSENET = {"batch": 8, "side": 64, "classes": 100, "growth": 32, "layers": (6, 12, 24, 16)}
_TINY_DENSENET = {"batch": 2, "side": 16, "classes": 3, "growth": 2, "layers": (2, 2)}

DENSENET121 = Network(
    "DenseNet-121, 64 × 64",
    densenet,
    images,
    _DENSENET,
    _TINY_DENSENET,
    optimizer=MOMENTUM,
    keras3=True,
    tolerance=0.02,
)
DENSENET121_128 = Network(
    "DenseNet-121, 128 × 128",
    densenet,
    images,
    {**_DENSENET, "batch": 4, "side": 128},
    {**_TINY_DENSENET, "side": 32},
    optimizer=MOMENTUM,
    keras3=True,
    tolerance=0.02,
)

# --- U-Net, https://arxiv.org/abs/1505.04597 ------------------------------------------------------


def pixels(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Uniform pixels, each of a random class."""
    shape = s["batch"], s["side"], s["side"]
    labels = rng.integers(0, s["classes"], shape, dtype="int32")
    return {"x": rng.random((*shape, 3), dtype="float32"), "labels": labels}


def unet(L: Any, batch: Batch, s: Sizes) -> Any:
    """Down by pooling, up by transposed convolutions, across by joining."""
    x, across = L.image(batch["x"]), []
    for level in range(s["levels"]):
        x = _two(L, x, s["width"] * 2**level)
        across.append(x)
        x = L.max_pool(x, 2, 2)
    x = _two(L, x, s["width"] * 2 ** s["levels"])
    for level in reversed(range(s["levels"])):
        filters = s["width"] * 2**level
        x = _two(L, L.join([across[level], L.conv_transpose(x, filters, 2, 2)]), filters)
    return L.channels_last(L.conv(x, s["classes"], 1))


def _two(L: Any, x: Any, filters: int) -> Any:
    return L.relu(L.conv(L.relu(L.conv(x, filters, 3)), filters, 3))


UNET = Network(
    "U-Net",
    unet,
    pixels,
    {"batch": 8, "side": 64, "classes": 4, "width": 16, "levels": 3},
    {"batch": 2, "side": 8, "classes": 2, "width": 2, "levels": 2},
    keras3=True,
)

# --- EfficientNet, https://arxiv.org/abs/1905.11946 -----------------------------------------------


def efficientnet(L: Any, batch: Batch, s: Sizes) -> Any:
    """Inverted residuals whose channels are weighed by a look at all of them."""
    x = L.silu(L.batch_norm(L.conv(L.image(batch["x"]), s["stem"], 3, 2, bias=False)))
    narrow = s["stem"]
    for factor, filters, repeats, strides, size in s["blocks"]:
        for i in range(repeats):
            y, wide = x, factor * narrow
            if factor > 1:
                y = L.silu(L.batch_norm(L.conv(y, wide, 1, bias=False)))
            y = L.silu(L.batch_norm(L.depthwise(y, size, 1 if i else strides)))
            look = L.silu(L.dense(L.global_pool(y), max(narrow // 4, 1)))
            y = L.scaled(y, L.sigmoid(L.dense(look, wide)))
            y = L.batch_norm(L.conv(y, filters, 1, bias=False))
            x = x + y if i else y
            narrow = filters
    x = L.silu(L.batch_norm(L.conv(x, s["head"], 1, bias=False)))
    return L.dense(L.global_pool(x), s["classes"])


EFFICIENTNET = Network(
    "EfficientNet-B0",
    efficientnet,
    images,
    {
        "batch": 8, "side": 64, "classes": 100, "stem": 32, "head": 1280,
        "blocks": (
            (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
            (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
        ),
    },
    {
        "batch": 2, "side": 16, "classes": 3, "stem": 4, "head": 8,
        "blocks": ((1, 3, 1, 1, 3), (2, 4, 2, 2, 5)),
    },
    optimizer=MOMENTUM,
    tolerance=0.02,
)  # fmt: skip

NETWORKS = {
    "resnet50": RESNET50,
    "mobilenet-v2": MOBILENET_V2,
    "densenet121": DENSENET121,
    "densenet121-128": DENSENET121_128,
    "unet": UNET,
    "efficientnet": EFFICIENTNET,
}
