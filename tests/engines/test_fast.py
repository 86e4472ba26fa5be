"""The pieces that serve only speed: programs reach them, and give the same numbers without them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane import engines
from backplane.compile import passes
from backplane.compile.program import clear_programs
from backplane.engines import fast, kernels
from backplane.engines.arrays.fast import buffers, updates
from backplane.known_engines import ENGINES
from backplane.ops.reduction import sort

DOCS = Path(__file__).parents[2] / "docs" / "how-it-works.md"
FOLDERS = {known.folder: name for name, known in ENGINES.items()}

Numbers = Sequence[np.ndarray]


def pieces() -> Iterator[fast.Piece]:
    """All rows, of the engines that are installed."""
    for folder in ("arrays", *FOLDERS):
        place = Path(engines.__file__).parent / folder / "fast"
        if place.is_dir() and engines.installed(FOLDERS.get(folder, "numpy")):
            yield from importlib.import_module(f"backplane.engines.{folder}.fast").PIECES


PIECES = {piece.name: piece for piece in pieces()}


# --- programs that reach the pieces ---------------------------------------------------------------


def values(*shape: int) -> np.ndarray:
    """Numbers between -1 and 1."""
    return np.random.default_rng(5).uniform(-1, 1, shape).astype("float32")


def convolved(*kernel: int, size: int = 8, **options: Any) -> Numbers:
    """A convolution with both gradients."""
    x, w = K.variable(values(2, size, size, kernel[2])), K.variable(values(*kernel))
    layer = K.depthwise_conv2d if options.pop("depthwise", False) else K.conv2d
    y = layer(x, w, padding="same", **options)
    loss = K.sum(K.square(y))
    return K.function([], [y, *K.gradients(loss, [x, w])])([])


def strided() -> Numbers:
    """A convolution with strides over an image of few channels."""
    return convolved(4, 4, 3, 32, size=32, strides=(2, 2))


def predicted(**options: Any) -> Numbers:
    """A convolution and a normalization, with weights that stay the same."""
    x = K.placeholder((2, 16, 16, 8))
    scales = [K.variable(1.5 + values(32)) for _ in range(4)]
    y = K.conv2d(x, K.variable(values(3, 3, 8, 32)), padding="same")
    f = K.function([x], [K.relu(K.batch_normalization(y, *scales))], **options)
    return [f([values(2, 16, 16, 8)])[0] for _ in range(18)][-1:]


def stepped(size: int, **options: Any) -> Numbers:
    """Three steps of momentum."""
    p, m, x = K.variable(values(size)), K.zeros((size,)), K.placeholder((size,))
    speed = 0.9 * m - 0.01 * K.gradients(K.sum(K.square(p - x)), [p])[0]
    f = K.function([x], [], updates=[(m, speed), (p, p + speed)], **options)
    for _ in range(3):
        f([values(size)])
    return [K.get_value(p), K.get_value(m)]


def looped() -> Numbers:
    """A training step of a recurrent layer, whose stacks are large."""
    x, w = K.variable(values(64, 16, 64)), K.variable(0.1 * values(64, 64))

    def step(row: Any, states: Any) -> Any:
        h = K.tanh(row + K.dot(states[0], w))
        return h, [h]

    y = K.rnn(step, x, [K.zeros((64, 64))])[0]
    f = K.function([], [K.mean(y), *K.gradients(K.mean(K.square(y)), [w])])
    return [f([]) for _ in range(2)][-1]


def chained() -> Numbers:
    """A chain of element-wise operations on a large array."""
    x = K.variable(values(2**22))
    return K.function([], [K.mean(K.square(K.sigmoid(x) * K.tanh(x) + K.relu(x)))])([])


def attended() -> Numbers:
    """Attention over many places, without a gradient."""
    q, k = [K.variable(values(2, 4, 130, 8)) for _ in range(2)]
    scores = K.matmul(q, K.permute_dimensions(k, (0, 1, 3, 2))) / 8**0.5
    return K.function([], [K.matmul(K.softmax(scores), k)])([])


def sorted_rows() -> Numbers:
    """Rows in order, and the positions of their elements."""
    order = sort(K.variable(values(5, 40)))
    return K.function([], [order[0], K.cast(order[1], "float32")])([])


def drawn() -> Numbers:
    """Random words on the processor, by the accelerator's lowering where the piece is on."""
    from backplane.engines.torch import random

    key = engines.get("torch").from_numpy(np.array([3, 7, 1, 0], np.uint32))
    if not fast.applies("torch.threefry"):
        return [random.random_bits(key, shape=(5, 3)).numpy()]
    return [random.threefry.bits(key, (5, 3), key.device).numpy()]


LARGE = 2**19
Program = Callable[..., Numbers]

REACHED: dict[str, tuple[str, str, Program]] = {
    "arrays.buffers": ("numpy", "Buffers._keep", looped),
    "arrays.updates": ("numpy", "_by_formula.<locals>.update", lambda: stepped(LARGE)),
    "jax.cpu": ("jax", "conv", lambda: convolved(3, 3, 8, 8)),
    "jax.depthwise": ("jax", "conv", lambda: convolved(3, 3, 8, 1, depthwise=True)),
    "jax.sorting": ("jax", "as_integers", sorted_rows),
    "jax.ynnpack": ("jax", "serves", predicted),
    "onnxruntime.folding": ("cntk", "fold", predicted),
    "onnxruntime.frozen": ("cntk", "Settling.__call__", predicted),
    "onnxruntime.updates": ("cntk", "stepping.<locals>.run", lambda: stepped(LARGE)),
    "pytensor.linker": ("theano", "Emission.__init__", lambda **o: stepped(64, **o)),
    "pytensor.calls": ("theano", "_ufunc", lambda **o: stepped(64, **o)),
    "pytensor.updates": ("theano", "_written", lambda: stepped(LARGE)),
    "tensorflow.direct": ("tensorflow", "call.<locals>.run", lambda: stepped(64)),
    "tensorflow.updates": ("tensorflow", "_write", lambda: stepped(LARGE)),
    "torch.attention": ("torch", "attention.<locals>.lowering", attended),
    "torch.blocks": ("torch", "_combined", chained),
    "torch.phases": (
        "torch",
        "Phases.input_grad",
        lambda: convolved(4, 4, 3, 32, size=32, strides=(2, 2)),
    ),
    "torch.products": ("torch", "Products.conv", lambda: convolved(3, 3, 256, 256, size=2)),
    "torch.threefry": ("torch", "bits", drawn),
    "torch.updates": ("torch", "momentum_update", lambda: stepped(LARGE)),
}
"""For each piece the engine, a function in its module without which it does nothing, and a program
in which that runs."""


@contextmanager
def watched(file: str) -> Iterator[set[str]]:
    """Context manager: the names of the functions in a file that run inside, and do not answer that
    they do not serve.
    """
    seen: set[str] = set()

    def look(frame: Any, event: str, result: Any) -> None:
        if event == "return" and frame.f_code.co_filename == file and result is not False:
            seen.add(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield seen
    finally:
        sys.setprofile(before)


def switched_off(piece: fast.Piece) -> tuple[AbstractContextManager[Any], dict[str, Any]]:
    """What switches a piece off: a context manager, and options of `K.function`."""
    kind, _, name = piece.off.partition(" ")
    if kind == "pass":
        return passes.without(name), {}
    if kind == "choice":
        plain = kernels.CHOICES[name].without_table
        return kernels.forced(**{name.replace(".", "__"): plain}), {}
    if kind == "option":
        option, _, value = name.partition("=")
        assert value == "True"
        return fast.without(piece.name), {option: True}
    return fast.without(name if kind == "piece" else piece.name), {}


@pytest.mark.parametrize("name", PIECES)
def test_a_piece_is_reached_and_without_it_numbers_are_the_same(name: str) -> None:
    engine, heart, program = REACHED[name]
    folder, module = name.split(".")
    file = str(Path(engines.__file__).parent / folder / "fast" / f"{module}.py")
    results = []
    with engines.use(engine):
        for on in (True, False):
            clear_programs()
            buffers.LOOPS.clear()
            if engine == "theano":
                from backplane.engines.pytensor.fast.updates import _compiled

                _compiled.cache_clear()
            if engine == "jax":
                sys.modules["jax"].clear_caches()  # Of kernels, which programs share.
            off, options = switched_off(PIECES[name])
            with watched(file) as seen:
                if on:
                    results.append(program())
                else:
                    with off:
                        results.append(program(**options))
            assert (heart in seen) is on, seen
    clear_programs()
    for fast_one, plain in zip(*results, strict=True):
        scale = np.abs(plain).max()
        np.testing.assert_allclose(fast_one, plain, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize(("size", "taken"), [(16, False), (1 << 17, True)])
def test_small_variables_are_left_to_chains(
    size: int, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(updates.LEAST, "gradient_update", 1 << 17)
    with K.engine("numpy"):
        p, x = K.variable(np.ones(size)), K.placeholder((size,))
        g = K.gradients(K.sum(K.exp(p) * x), [p])[0]
        f = K.function([x], [], updates=[(p, p - 0.5 * g)])
        f([np.full(size, 2.0)])
        assert ("gradient_update" in f.source()) is taken
        np.testing.assert_allclose(K.get_value(p), 1 - np.e, rtol=1e-6)


def test_each_module_has_a_row() -> None:
    root = Path(engines.__file__).parent
    modules = {f"{f.parts[-3]}.{f.stem}" for f in root.glob("*/fast/[!_]*.py")}
    assert modules == set(REACHED)
    assert set(PIECES) == {m for m in modules if m.partition(".")[0] in {*_installed(), "arrays"}}
    switches = {"pass": passes.NAMES, "choice": kernels.CHOICES, "piece": PIECES}
    for piece in PIECES.values():
        kind, _, name = piece.off.partition(" ")
        assert not piece.off or kind == "option" or name in switches[kind]


def _installed() -> list[str]:
    return [folder for folder, name in FOLDERS.items() if engines.installed(name)]


def test_the_page_has_the_rows() -> None:
    page = DOCS.read_text(encoding="utf-8")
    for piece in PIECES.values():
        off = piece.off or f"piece {piece.name}"
        row = f"| `{piece.name}` | {piece.purpose} | {piece.gain} | {piece.when} | {off} |\n"
        assert row in page, row
