"""Newer networks with attention: of words, of patches, of windows and of sounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.networks.language import text
from benchmarks.networks.problem import Batch, Network, Sizes
from benchmarks.networks.vision import images

# --- LLaMA, https://arxiv.org/abs/2302.13971 ------------------------------------------------------


def _turns(s: Sizes, function: Any) -> np.ndarray:
    """The sines or cosines of rotary embeddings, https://arxiv.org/abs/2104.09864."""
    half = s["width"] // s["heads"] // 2
    angles = np.outer(np.arange(s["steps"]), 10_000.0 ** (-np.arange(half) / half))
    return function(angles)[:, None].astype("float32")


def _rotated(L: Any, x: Any, s: Sizes) -> Any:
    """The pairs of features of each head, turned by an angle that grows with the place."""
    sin, cos = (L.constant(f.__name__, lambda f=f: _turns(s, f)) for f in (np.sin, np.cos))
    width = s["width"] // s["heads"]
    x = L.reshape(x, s["steps"], s["heads"], width)
    a, b = x[..., : width // 2], x[..., width // 2 :]
    x = L.concat([a * cos - b * sin, a * sin + b * cos])
    return L.reshape(x, s["steps"], s["width"])


def llama(L: Any, batch: Batch, s: Sizes) -> Any:
    """A decoder without biases, with gated layers."""
    width = s["width"]
    x = L.lookup(L.table(s["words"], width), batch["x"])
    for _ in range(s["layers"]):
        h = L.rms_norm(x)
        q, k, v = (L.dense(h, width, bias=False) for _ in range(3))
        q, k = _rotated(L, q, s), _rotated(L, k, s)
        x = x + L.dense(L.attention(q, k, v, s["heads"], causal=True), width, bias=False)
        h = L.rms_norm(x)
        gate, up = L.dense(h, s["inner"], bias=False), L.dense(h, s["inner"], bias=False)
        x = x + L.dense(L.silu(gate) * up, width, bias=False)
    return L.dense(L.rms_norm(x), s["words"], bias=False)


LLAMA = Network(
    "LLaMA-like decoder, 4 layers of width 128",
    llama,
    text,
    {
        "batch": 8, "steps": 64, "words": 256, "width": 128, "inner": 344, "layers": 4, "heads": 4,
    },
    {"batch": 2, "steps": 5, "words": 11, "width": 8, "inner": 12, "layers": 2, "heads": 2},
)  # fmt: skip

# --- ViT, https://arxiv.org/abs/2010.11929 --------------------------------------------------------


def patches(L: Any, x: Any, side: int, size: int, channels: int = 3) -> Any:
    """Images cut into squares, as rows."""
    count = side // size
    x = L.transpose(L.reshape(x, count, size, count, size, channels), 0, 1, 3, 2, 4, 5)
    return L.reshape(x, count * count, size * size * channels)


def vit(L: Any, batch: Batch, s: Sizes) -> Any:
    """An encoder of patches, whose mean is classified."""
    width = s["width"]
    x = L.dense(patches(L, batch["x"], s["side"], s["patch"]), width)
    x = x + L.weight(((s["side"] // s["patch"]) ** 2, width), "plain", 0.02)
    for _ in range(s["layers"]):
        h = L.layer_norm(x)
        q, k, v = (L.dense(h, width) for _ in range(3))
        x = x + L.dense(L.attention(q, k, v, s["heads"]), width)
        x = x + L.dense(L.gelu(L.dense(L.layer_norm(x), 4 * width), exact=True), width)
    return L.dense(L.layer_norm(L.mean_over(x, 1)), s["classes"])


VIT = Network(
    "ViT, 6 layers of width 192, 64 patches",
    vit,
    images,
    {
        "batch": 8, "side": 32, "patch": 4, "classes": 100, "width": 192, "layers": 6, "heads": 3,
    },
    {"batch": 2, "side": 4, "patch": 2, "classes": 3, "width": 8, "layers": 2, "heads": 2},
)  # fmt: skip

# --- windows as in Swin V2, https://arxiv.org/abs/2111.09883 --------------------------------------


def _distances(s: Sizes) -> np.ndarray:
    """Logarithms of how far two places of a window are apart, for all distances that there are."""
    reach = s["window"] - 1
    steps = np.arange(-reach, reach + 1) * 8.0 / max(reach, 1)
    steps = np.sign(steps) * np.log2(np.abs(steps) + 1) / 3
    return np.stack(np.meshgrid(steps, steps, indexing="ij"), -1).reshape(-1, 2).astype("float32")


def _pairs(s: Sizes) -> np.ndarray:
    """For each pair of places of a window, which distance it has."""
    size = s["window"]
    place = np.stack(np.meshgrid(*[np.arange(size)] * 2, indexing="ij"), -1).reshape(-1, 2)
    apart = place[:, None] - place[None] + size - 1
    return (apart[..., 0] * (2 * size - 1) + apart[..., 1]).ravel().astype("int32")


def _seams(s: Sizes) -> np.ndarray:
    """What keeps places apart that moving around the border brought together."""
    size, half = s["window"], s["window"] // 2
    count = s["side"] // s["patch"]
    part = (np.arange(count) >= count - size).astype(int) + (np.arange(count) >= count - half)
    parts = part[:, None] * 3 + part
    parts = parts.reshape(count // size, size, count // size, size).swapaxes(1, 2)
    parts = parts.reshape(-1, size * size)
    return np.where(parts[:, :, None] == parts[:, None], 0, -100)[:, None].astype("float32")


def _windowed(L: Any, x: Any, s: Sizes, shifted: bool) -> Any:
    """Attention inside of each window, by angles; every other layer moves the windows by a half."""
    size, width, heads = s["window"], s["width"], s["heads"]
    grid, places = s["side"] // s["patch"] // size, size * size
    x = L.reshape(x, grid * size, grid * size, width)
    if shifted:
        x = L.roll(L.roll(x, -(size // 2), 1), -(size // 2), 2)
    x = L.transpose(L.reshape(x, grid, size, grid, size, width), 0, 1, 3, 2, 4, 5)
    x = L.reshape(x, grid * grid, places, width)
    q, k, v = (
        L.transpose(
            L.reshape(L.dense(x, width), grid * grid, places, heads, width // heads), 0, 1, 3, 2, 4
        )
        for _ in range(3)
    )
    scale = L.exp(L.vector(heads, float(np.log(10))))[:, None, None]
    table = L.relu(L.dense(L.constant("distances", lambda: _distances(s)), s["inner"]))
    table = L.dense(table, heads, bias=False)
    bias = L.reshape(L.at(table, L.constant("pairs", lambda: _pairs(s))), places, heads)
    bias = 16.0 * L.sigmoid(L.transpose(bias, 2, 0, 1))
    if shifted:
        bias = bias + L.constant("seams", lambda: _seams(s))
    y = L.weighed(L.unit(q) * scale, L.unit(k), v, bias)
    y = L.dense(L.reshape(L.transpose(y, 0, 1, 3, 2, 4), grid * grid, places, width), width)
    y = L.transpose(L.reshape(y, grid, grid, size, size, width), 0, 1, 3, 2, 4, 5)
    y = L.reshape(y, grid * size, grid * size, width)
    if shifted:
        y = L.roll(L.roll(y, size // 2, 1), size // 2, 2)
    return L.reshape(y, (grid * size) ** 2, width)


def swin(L: Any, batch: Batch, s: Sizes) -> Any:
    """One stage; norms after the blocks."""
    width = s["width"]
    x = L.layer_norm(L.dense(patches(L, batch["x"], s["side"], s["patch"]), width))
    for layer in range(s["layers"]):
        x = x + L.layer_norm(_windowed(L, x, s, layer % 2 == 1))
        x = x + L.layer_norm(L.dense(L.gelu(L.dense(x, 4 * width), exact=True), width))
    return L.dense(L.layer_norm(L.mean_over(x, 1)), s["classes"])


SWIN = Network(
    "windows as in Swin V2, 4 layers of width 96, 256 places",
    swin,
    images,
    {
        "batch": 4, "side": 64, "patch": 4, "classes": 100, "width": 96, "layers": 4, "heads": 3,
        "window": 8, "inner": 64,
    },
    {
        "batch": 2, "side": 8, "patch": 2, "classes": 3, "width": 8, "layers": 2, "heads": 2,
        "window": 2, "inner": 5,
    },
)  # fmt: skip

# --- Conformer, https://arxiv.org/abs/2005.08100 --------------------------------------------------


def sounds(rng: np.random.Generator, s: Sizes) -> dict[str, np.ndarray]:
    """Spectra, and a class for each of them."""
    shape = s["batch"], s["steps"]
    x = rng.standard_normal((*shape, s["inputs"]), "float32")
    return {"x": x, "labels": rng.integers(0, s["classes"], shape, dtype="int32")}


def _half(L: Any, x: Any, width: int) -> Any:
    """Half of a dense block."""
    return x + 0.5 * L.dense(L.silu(L.dense(L.layer_norm(x), 4 * width)), width)


def conformer(L: Any, batch: Batch, s: Sizes) -> Any:
    """Attention and a convolution between two halves of a dense block."""
    width = s["width"]
    x = L.dense(batch["x"], width)
    for _ in range(s["layers"]):
        x = _half(L, x, width)
        h = L.layer_norm(x)
        q, k, v = (L.dense(h, width) for _ in range(3))
        x = x + L.dense(L.attention(q, k, v, s["heads"]), width)
        h = L.image(L.glu(L.dense(L.layer_norm(x), 2 * width)))
        h = L.channels_last(L.silu(L.batch_norm(L.depthwise_row(h, s["kernel"]))))
        x = x + L.dense(h, width)
        x = L.layer_norm(_half(L, x, width))
    return L.dense(x, s["classes"])


CONFORMER = Network(
    "Conformer, 4 layers of width 144",
    conformer,
    sounds,
    {
        "batch": 4, "steps": 100, "inputs": 80, "classes": 40, "width": 144, "layers": 4,
        "heads": 4, "kernel": 15,
    },
    {
        "batch": 2, "steps": 7, "inputs": 5, "classes": 4, "width": 8, "layers": 2, "heads": 2,
        "kernel": 3,
    },
)  # fmt: skip

NETWORKS = {"llama": LLAMA, "vit": VIT, "swin": SWIN, "conformer": CONFORMER}
