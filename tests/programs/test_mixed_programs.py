"""Whole programs, half in K and half in the functions of the engine, as public code mixes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backplane import backend as K
from backplane.engines import installed

RNG = np.random.default_rng(0)


class OfTensorFlow:
    """Called on our tensors themselves."""

    def __init__(self) -> None:
        import tensorflow as tf

        self.tf = tf

    def softmax(self, x: Any, axis: int) -> Any:
        return self.tf.nn.softmax(x, axis=axis)

    def predictions(self, u: Any, w: Any) -> Any:
        return self.tf.einsum("bid,ijde->bije", u, w)

    def concat(self, parts: Any, axis: int) -> Any:
        return self.tf.concat(parts, axis)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return self.tf.where(condition, x, y)

    def cross_entropy(self, labels: Any, logits: Any) -> Any:
        return self.tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)


class OfPyTorch:
    """Called on our tensors themselves."""

    def __init__(self) -> None:
        import torch

        self.torch = torch

    def softmax(self, x: Any, axis: int) -> Any:
        return self.torch.softmax(x, axis)

    def predictions(self, u: Any, w: Any) -> Any:
        return self.torch.einsum("bid,ijde->bije", u, w)

    def concat(self, parts: Any, axis: int) -> Any:
        return self.torch.cat(parts, dim=axis)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return self.torch.where(condition, x, y)

    def cross_entropy(self, labels: Any, logits: Any) -> Any:
        loss = self.torch.nn.functional.binary_cross_entropy_with_logits
        return loss(logits, labels, reduction="none")


class OfJAX:
    """Through `K.native`, because JAX has no dispatch."""

    def __init__(self) -> None:
        import jax

        self.jax, self.jnp = jax, jax.numpy

    def softmax(self, x: Any, axis: int) -> Any:
        return K.native(lambda t: self.jax.nn.softmax(t, axis=axis), x)

    def predictions(self, u: Any, w: Any) -> Any:
        return K.native(lambda a: self.jnp.einsum("bid,ijde->bije", a, w), u)

    def concat(self, parts: Any, axis: int) -> Any:
        return K.native(lambda *xs: self.jnp.concatenate(xs, axis), *parts)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return K.native(self.jnp.where, condition, x, y)

    def cross_entropy(self, labels: Any, logits: Any) -> Any:
        def loss(z: Any, x: Any) -> Any:
            return self.jax.nn.softplus(x) - x * z

        return K.native(loss, labels, logits)


class OfK:
    """The same in functions of K: what all others are compared with."""

    def softmax(self, x: Any, axis: int) -> Any:
        return K.softmax(x, axis=axis)

    def predictions(self, u: Any, w: Any) -> Any:
        return K.sum(K.expand_dims(K.expand_dims(u, 2), -1) * w, axis=3)

    def concat(self, parts: Any, axis: int) -> Any:
        return K.concatenate(parts, axis=axis)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return K.switch(condition, x, y)

    def cross_entropy(self, labels: Any, logits: Any) -> Any:
        return K.binary_crossentropy(labels, logits, from_logits=True)


MIXED = {"tensorflow": OfTensorFlow, "torch": OfPyTorch, "jax": OfJAX}
Trained = tuple[list[np.ndarray], list[np.ndarray]]


def trained(
    inputs: list[Any], values: list[np.ndarray], loss: Any, weights: list[Any], rate: float
) -> Trained:
    """Losses of a few steps of plain descent, and the weights after them."""
    slopes = K.gradients(loss, weights)
    updates = [K.update_sub(w, rate * g) for w, g in zip(weights, slopes, strict=True)]
    step = K.function(inputs, [loss], updates=updates)
    return [step(values)[0] for _ in range(8)], [K.get_value(w) for w in weights]


def capsules(lib: Any) -> Trained:
    """Two layers of capsules with routing by agreement, and the margin loss."""
    u, labels = K.placeholder((None, 6, 4)), K.placeholder((None, 3))
    w = K.variable(np.random.default_rng(1).normal(0, 0.3, (6, 3, 4, 5)))

    def squash(s: Any) -> Any:
        square = K.sum(K.square(s), axis=-1, keepdims=True) + K.epsilon()
        return square / (1.0 + square) / K.sqrt(square) * s

    votes = lib.predictions(u, w)
    agreement = K.zeros_like(votes[..., 0])
    for i in range(3):
        shares = lib.softmax(agreement, 2)
        v = squash(K.sum(K.expand_dims(shares, -1) * votes, axis=1))
        if i < 2:
            agreement = agreement + K.sum(votes * K.expand_dims(v, 1), axis=-1)
    length = K.sqrt(K.sum(K.square(v), axis=-1) + K.epsilon())
    margin = labels * K.square(K.maximum(0.0, 0.9 - length))
    margin = margin + 0.5 * (1 - labels) * K.square(K.maximum(0.0, length - 0.1))
    values = [RNG_VALUES["u"], np.eye(3, dtype="float32")[[0, 1, 2, 0]]]
    return trained([u, labels], values, K.mean(K.sum(margin, axis=-1)), [w], 1.0)


def detection(lib: Any) -> Trained:
    """A loss of boxes, objects and classes on a grid, of unknown size, behind one convolution."""
    image, truth = K.placeholder((None, None, None, 2)), K.placeholder((None, None, None, 8))
    kernel = K.variable(np.random.default_rng(2).normal(0, 0.2, (3, 3, 2, 8)))
    raw = K.conv2d(image, kernel, padding="same")
    boxes = lib.concat([K.sigmoid(raw[..., :2]), K.exp(raw[..., 2:4])], -1)
    present = truth[..., 4:5]
    error = K.abs(boxes - truth[..., :4])
    smooth = lib.where(error < 0.5, error * error, error - 0.25)
    objects = lib.cross_entropy(present, raw[..., 4:5])
    chosen = lib.softmax(raw[..., 5:], 3)
    classes = -K.log(K.sum(chosen * truth[..., 5:], axis=-1, keepdims=True) + K.epsilon())
    weighted = K.sum(present * (smooth + classes), axis=[1, 2, 3]) + K.sum(objects, axis=[1, 2, 3])
    values = [RNG_VALUES["image"], RNG_VALUES["truth"]]
    return trained([image, truth], values, K.mean(weighted), [kernel], 0.02)


def _truth() -> np.ndarray:
    boxes = RNG.uniform(0, 1, (2, 4, 5, 4))
    present = RNG.integers(0, 2, (2, 4, 5, 1))
    return np.concatenate([boxes, present, np.eye(3)[RNG.integers(0, 3, (2, 4, 5))]], -1)


RNG_VALUES = {
    "u": RNG.normal(size=(4, 6, 4)).astype("float32"),
    "image": RNG.normal(size=(2, 4, 5, 2)).astype("float32"),
    "truth": _truth().astype("float32"),
}


@pytest.mark.parametrize("program", [capsules, detection])
@pytest.mark.parametrize("name", [name for name in MIXED if installed(name)])
def test_half_in_k_and_half_in_the_engine(name: str, program: Callable[[Any], Trained]) -> None:
    with K.engine(name):
        losses, weights = program(MIXED[name]())
    with K.engine("numpy"):
        wanted, expected = program(OfK())
    assert losses[-1] < 0.9 * losses[0]
    np.testing.assert_allclose(losses, wanted, rtol=1e-4)
    for found, exact in zip(weights, expected, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-3, atol=1e-5)
