"""A process that builds, loads, calls and trains published architectures on one backend of Keras 3.

The backend is in KERAS_BACKEND: one of Keras' own, or `backplane.ENGINE`. Weights, inputs and
labels are drawn by NumPy from seeds, so every process has the same numbers, and no files pass
between them.
"""

from __future__ import annotations

import gc
import inspect
import math
import re
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.memory import held
from benchmarks.workers import serve

BATCH = 8
CLASSES = 10
SIZE = 64
"""Pixels of a side, where the model takes images that small."""
TOKENS, VOCABULARY = 16, 100
RATE = 1e-4
STEPS = 2
"""The loss of the second step is the loss after the first."""

ROUNDING, ROUNDINGS = 2.0**-24, 4
"""Half of the last bit of a float32, and how often it is drawn."""
REFERENCE = "keras3-tensorflow"

APPLICATIONS, HUB = "keras.applications", "keras_hub"

Built = tuple[Any, Any, Any]
"""What predicts, what is trained, and the inputs, with one axis for the batch."""


def applications(keras: Any) -> list[str]:
    """Names of the functions in `keras.applications` that build models."""
    return [name for name, found in vars(keras.applications).items() if inspect.isfunction(found)]


def application(keras: Any, name: str) -> Built:
    """A model of `keras.applications` for small images, with logits."""
    build = getattr(keras.applications, name)
    size = SIZE
    while True:
        try:
            model = build(
                weights=None, input_shape=(size, size, 3), classes=CLASSES,
                classifier_activation=None,
            )  # fmt: skip
            break
        except ValueError as error:
            least = re.search(r"must be at least (\d+)x", str(error))
            if least is None or int(least[1]) <= size:
                raise
            size = int(least[1])
    scaled = (keras.layers.Rescaling, keras.layers.Normalization)
    inside = any(isinstance(layer, scaled) for layer in model.layers)
    images = _images(size)
    return model, model, images if inside else images / 127.5 - 1


def bert(keras: Any, hub: Any) -> Built:
    """`BertBackbone`, two layers of width 32, with padding."""
    backbone = hub.models.BertBackbone(
        vocabulary_size=VOCABULARY, num_layers=2, num_heads=2, hidden_dim=32, intermediate_dim=64,
        max_sequence_length=TOKENS,
    )  # fmt: skip
    return _classified(keras, backbone, {**_tokens(), "segment_ids": _integers(2)})


def gpt2(keras: Any, hub: Any) -> Built:
    """`GPT2Backbone`, two layers of width 32, with padding."""
    backbone = hub.models.GPT2Backbone(
        vocabulary_size=VOCABULARY, num_layers=2, num_heads=2, hidden_dim=32, intermediate_dim=64,
        max_sequence_length=TOKENS,
    )  # fmt: skip
    return _classified(keras, backbone, _tokens())


def llama3(keras: Any, hub: Any) -> Built:
    """`Llama3Backbone`, two layers of width 32, four heads over two of keys and values."""
    backbone = hub.models.Llama3Backbone(
        vocabulary_size=VOCABULARY, num_layers=2, num_query_heads=4, num_key_value_heads=2,
        hidden_dim=32, intermediate_dim=64,
    )  # fmt: skip
    return _classified(keras, backbone, _tokens())


def t5(keras: Any, hub: Any) -> Built:
    """`T5Backbone`, encoder and decoder of two layers of width 32."""
    backbone = hub.models.T5Backbone(
        vocabulary_size=VOCABULARY, num_layers=2, num_heads=2, hidden_dim=32, intermediate_dim=64,
    )  # fmt: skip
    tokens = _tokens()
    both = {f"{side}_{name}": rows for side in ("encoder", "decoder")
            for name, rows in tokens.items()}  # fmt: skip
    return _classified(keras, backbone, both)


def vit(keras: Any, hub: Any) -> Built:
    """`ViTBackbone`, two layers of width 32, patches of 8 × 8."""
    backbone = hub.models.ViTBackbone(
        image_shape=(32, 32, 3), patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64
    )
    return _classified(keras, backbone, _images(32) / 127.5 - 1)


def resnet(keras: Any, hub: Any) -> Built:
    """`ResNetBackbone`, three stages of one block."""
    backbone = hub.models.ResNetBackbone(
        input_conv_filters=[64], input_conv_kernel_sizes=[7], stackwise_num_filters=[64, 128, 256],
        stackwise_num_blocks=[1, 1, 1], stackwise_num_strides=[1, 2, 2],
        block_type="bottleneck_block", image_shape=(None, None, 3),
    )  # fmt: skip
    return _classified(keras, backbone, _images(SIZE) / 127.5 - 1)


BACKBONES: dict[str, Callable[[Any, Any], Built]] = {
    f.__name__: f for f in (bert, gpt2, llama3, t5, vit, resnet)
}


def _classified(keras: Any, backbone: Any, inputs: Any) -> Built:
    """A backbone, and a classifier of the mean of the first of its outputs."""
    first = keras.tree.flatten(backbone.output)[0]
    pooled = keras.ops.mean(first, axis=tuple(range(1, len(first.shape) - 1)))
    logits = keras.layers.Dense(CLASSES)(pooled)
    return backbone, keras.Model(backbone.input, logits), inputs


def _images(size: int) -> Any:
    return np.random.default_rng(0).uniform(0, 255, (BATCH, size, size, 3)).astype("float32")


def _integers(below: int) -> Any:
    return np.random.default_rng(0).integers(0, below, (BATCH, TOKENS)).astype("int32")


def _tokens() -> dict[str, Any]:
    """Rows of tokens of different lengths."""
    lengths = TOKENS - 3 * np.arange(BATCH)[:, None]
    padding = (np.arange(TOKENS) < lengths).astype("int32")
    return {"token_ids": _integers(VOCABULARY), "padding_mask": padding}


def seed_weights(model: Any, name: str, rounding: float = 0.0) -> str:
    """Give each weight numbers from a seed, such that activations keep their size: kernels by their
    fan-in, positive variances, scales near 1.

    Args:
        model: The model.
        name: The seed.
        rounding: What each weight is changed by at most, as a share of it.

    Returns:
        A checksum of the order and the shapes of the weights, which all backends share.
    """
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    noise = np.random.default_rng(1)
    listing = ""
    for weight in model.weights:
        kind, shape = weight.path.rsplit("/", 1)[-1], tuple(weight.shape)
        listing += f"{kind}{shape}"
        if "float" not in str(weight.dtype):
            continue
        draw = rng.standard_normal(shape, "float32")
        if "var" in kind:
            draw = (0.5 + np.abs(draw)).astype("float32")
        elif "gamma" in kind or "scale" in kind:
            draw = 1 + draw / 10
        elif "kernel" in kind:
            draw *= math.sqrt(2 / math.prod(shape[:-1] if shape[-1] > 1 else shape[:-2]))
        else:
            draw /= 10
        if rounding:
            draw *= 1 + rounding * noise.uniform(-1, 1, shape).astype("float32")
        weight.assign(draw)
    return f"{zlib.crc32(listing.encode()):08x}"


def averages(keras: Any, model: Any) -> list[Any]:
    """The layers of batch normalization, which keep moving averages."""
    kind = keras.layers.BatchNormalization
    return [layer for layer in model._flatten_layers() if isinstance(layer, kind)]


def measure_averages(keras: Any, model: Any, x: Any) -> list[Any]:
    """Set moving averages to the moments of a batch, as they are after training: with averages that
    do not fit, the activations of deep networks grow or vanish from layer to layer.

    Returns:
        The averages, as arrays.
    """
    found = averages(keras, model)
    momenta = [layer.momentum for layer in found]
    for layer in found:
        layer.momentum = 0.0
    if found:
        model(x, training=True)
    for layer, momentum in zip(found, momenta, strict=True):
        layer.momentum = momentum
    return [np.asarray(w) for layer in found for w in layer.non_trainable_variables]


def _set_averages(keras: Any, model: Any, arrays: list[Any]) -> None:
    """Set moving averages to what `measure_averages` returned."""
    variables = [w for layer in averages(keras, model) for w in layer.non_trainable_variables]
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)


def without_dropout(model: Any) -> None:
    """Set the rates of dropout to 0: each backend draws masks of its own."""
    for layer in model._flatten_layers():
        for name in ("rate", "drop_path_rate", "_dropout"):
            if isinstance(getattr(layer, name, None), float):
                setattr(layer, name, 0.0)


class Server:
    """Builds and runs one model after the other."""

    def __init__(self, stack: str) -> None:
        if stack.startswith("backplane"):
            import backplane.keras3  # noqa: F401
        import keras

        if stack.endswith("torch"):
            import torch

            torch.set_num_threads(1)
        self.keras = keras
        self.reference = stack == REFERENCE

    def names(self) -> list[str]:
        """The models of `keras.applications`."""
        return applications(self.keras)

    def release(self) -> str:
        """The installed release of keras_hub."""
        import keras_hub

        return str(keras_hub.__version__)

    def run(self, group: str, name: str, file: str) -> dict[str, Any]:
        """Build a model, give it its weights, predict, and train two steps. The reference writes
        predictions, losses and moving averages into the file, and others compare theirs.

        Returns:
            What identifies the model; seconds for all of it; the memory that the process held at
            most; and for others than the reference the differences.
        """
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        begun = perf_counter()
        keras = self.keras
        keras.utils.set_random_seed(0)
        if group == HUB:
            import keras_hub

            predictor, model, x = BACKBONES[name](keras, keras_hub)
        else:
            predictor, model, x = application(keras, name)
        without_dropout(model)
        found: dict[str, Any] = {
            "weights": seed_weights(model, name),
            "parameters": model.count_params(),
            "size": None if isinstance(x, dict) else x.shape[1],
        }
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        # A few calls do not pay for a graph of TensorFlow.
        settings = {"jit_compile": False, "run_eagerly": self.reference}
        for part in (predictor, model):
            part.compile(keras.optimizers.SGD(RATE), loss, **settings)
        if self.reference:
            found |= _refer(keras, predictor, model, x, name, Path(file))
        else:
            found |= _compare(keras, predictor, model, x, Path(file))
        found["memory"] = held("VmHWM")
        found["seconds"] = perf_counter() - begun
        del predictor, model
        keras.utils.clear_session()
        gc.collect()
        return found

    def memory(self) -> int:
        """Bytes that the process holds."""
        return held("VmRSS")


def _refer(
    keras: Any, predictor: Any, model: Any, x: Any, name: str, file: Path
) -> dict[str, float]:
    """Write the file of a model.

    Returns:
        How much the predictions depend on the inputs, and how much they and the losses depend on
        the last bit of the weights.
    """
    kept = measure_averages(keras, model, x)
    outputs = _predictions(keras, predictor, x)
    losses = _losses(model, x)
    changes, moved = np.zeros(STEPS), 0.0
    for _ in range(ROUNDINGS):
        seed_weights(model, name, ROUNDING)
        _set_averages(keras, model, kept)
        moved = max(moved, _difference(_predictions(keras, predictor, x), outputs))
        changes = np.maximum(changes, np.abs(np.divide(_losses(model, x), losses) - 1))
    arrays = {f"average{i}": a for i, a in enumerate(kept)}
    arrays |= {f"output{i}": a for i, a in enumerate(outputs)}
    np.savez(file, losses=losses, **arrays)
    spreads = [np.std(part, axis=0).max() / np.abs(part).max() for part in outputs]
    return {
        "spread": float(min(spreads)),
        "first": float(losses[0]),
        "second": float(losses[1]),
        "predictions_rounding": moved,
        "first_rounding": float(changes[0]),
        "second_rounding": float(changes[1]),
    }


def _compare(keras: Any, predictor: Any, model: Any, x: Any, file: Path) -> dict[str, float]:
    """The differences of the predictions over their largest, and of the losses over the losses."""
    with np.load(file) as held_by_reference:
        wanted = dict(held_by_reference)
    _set_averages(keras, model, [a for name, a in wanted.items() if name.startswith("average")])
    found = _predictions(keras, predictor, x)
    difference = _difference(found, [wanted[f"output{i}"] for i in range(len(found))])
    losses = np.abs(np.divide(_losses(model, x), wanted["losses"]) - 1)
    return {"predictions": difference, "first": float(losses[0]), "second": float(losses[1])}


def _difference(found: list[Any], outputs: list[Any]) -> float:
    """The largest difference of predictions over the largest of them."""
    difference = 0.0
    for i, (part, output) in enumerate(zip(found, outputs, strict=True)):
        if output.shape != part.shape:
            raise ValueError(f"output {i} has shape {part.shape}, not {output.shape}")
        difference = max(difference, float(np.abs(part - output).max() / np.abs(output).max()))
    return difference


def _predictions(keras: Any, predictor: Any, x: Any) -> list[Any]:
    return [np.asarray(part) for part in keras.tree.flatten(predictor.predict_on_batch(x))]


def _losses(model: Any, x: Any) -> list[float]:
    labels = np.arange(BATCH) % CLASSES
    return [float(model.train_on_batch(x, labels)) for _ in range(STEPS)]


if __name__ == "__main__":
    serve(Server, *sys.argv[1:])
