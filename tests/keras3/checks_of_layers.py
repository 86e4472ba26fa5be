"""Checks of Keras' layers on one engine, which `KERAS_BACKEND` names. `test_layers` runs them in a
process of its own, because Keras has one backend in a process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import backplane.keras3  # noqa: F401 - before Keras

# isort: split
import keras
from keras import layers

CHECKS: list[Callable[[Path], None]] = []


def check(function: Callable[[Path], None]) -> Callable[[Path], None]:
    """Decorator: a check gets a folder for its files."""
    CHECKS.append(function)
    return function


@check
def packed_embeddings_take_lora(folder: Path) -> None:
    """Embeddings of 4 bits are packed; their adapter is trained, and they are not."""
    layer = layers.Embedding(10, 16)
    layer.build()
    layer.quantize("int4")
    layer.enable_lora(2)
    packed = np.array(layer._embeddings)
    model = keras.Sequential([layer])
    model.compile("sgd", "mse")
    x = np.arange(8).reshape(4, 2)
    before = np.array(layer.lora_embeddings_b)
    model.fit(x, np.ones((4, 2, 16), "float32"), verbose=0)
    assert np.any(np.array(layer.lora_embeddings_b) != before)
    np.testing.assert_array_equal(np.array(layer._embeddings), packed)
    model.save(folder / "packed.keras")
    again = keras.saving.load_model(folder / "packed.keras")
    assert again.predict(x, verbose=0).shape == (4, 2, 16)


@check
def strings_are_no_tensors(folder: Path) -> None:
    """Layers that take strings get arrays of strings as they are."""
    words = np.array([["a"], ["c"], ["b"]])
    assert not keras.ops.is_tensor(words)
    lookup = layers.StringLookup(vocabulary=["a", "b"])
    np.testing.assert_array_equal(np.array(lookup(words)), [[1], [0], [2]])
    hashed = layers.Hashing(num_bins=1)(words)
    np.testing.assert_array_equal(np.array(hashed), np.zeros((3, 1)))
    assert np.shape(layers.Hashing(3)(words)) == (3, 1)
    back = layers.StringLookup(vocabulary=["a", "ü"], invert=True)(np.array([[2, 1], [0, 2]]))
    assert back.tolist() == [["ü", "a"], ["[UNK]", "ü"]]


@check
def layers_that_cannot_be_traced_look_at_values(folder: Path) -> None:
    """A model with such a layer predicts batch by batch."""
    lookup = layers.IntegerLookup(vocabulary=[7, 9])
    inputs = keras.Input((1,), dtype="int64")
    model = keras.Model(inputs, layers.Dense(1)(layers.Embedding(3, 2)(lookup(inputs))))
    x = np.array([[7], [8], [9], [9]])
    np.testing.assert_array_equal(np.array(lookup(x)), [[1], [0], [2], [2]])
    predicted = model.predict(x, batch_size=2, verbose=0)
    assert predicted.shape == (4, 1, 1)
    np.testing.assert_allclose(predicted[2], predicted[3])


@check
def arrays_of_the_user_stay_as_they_are(folder: Path) -> None:
    """Layers that compute in place do so in their own memory."""
    for dtype in ("float32", "int64"):
        images = np.full((4, 4, 3), 250, dtype)
        tensor = keras.ops.convert_to_tensor(images)
        bright = layers.RandomBrightness([0.5, 1.0], seed=1)(images)
        assert np.all(images == 250)
        assert np.array(bright).max() == 255
        tensor += 1
        assert np.all(images == 250)


@check
def blanks_among_labels_of_ctc(folder: Path) -> None:
    """A blank that counts as a label takes a step of its own, as in the other backends."""
    logits = (np.arange(24).reshape((2, 4, 3)).astype("float32") - 12) / 100
    labels = np.array([[1, 2, 1, 0], [1, 2, 0, 2]])
    loss = keras.losses.CTC(reduction="none")(labels, logits)
    np.testing.assert_allclose(np.array(loss), [2.4429314, 2.4543598], rtol=1e-5)


@check
def casts_to_integers_saturate(folder: Path) -> None:
    """Numbers beyond the range of integers become the nearest of them, NaN becomes 0."""
    x = keras.ops.convert_to_tensor(np.array([-3.5, 300.7, 1e10, -1e10, np.nan], "float32"))
    expected = {
        "uint8": [0, 255, 255, 0, 0],
        "int8": [-3, 127, 127, -128, 0],
        "int32": [-3, 300, 2**31 - 1, -(2**31), 0],
    }
    for dtype, wanted in expected.items():
        found = keras.ops.convert_to_numpy(keras.ops.cast(x, dtype))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, wanted)


@check
def seeds_move_on_alike(folder: Path) -> None:
    """Without a seed of their own, functions draw from a global state, the same on all engines."""
    keras.utils.set_random_seed(77)
    first, second = (keras.ops.convert_to_numpy(keras.random.normal((2,))) for _ in range(2))
    found = np.concatenate([first, second])
    np.testing.assert_allclose(found, EXPECTED, rtol=1e-4)


EXPECTED = [0.9084759, 0.2769741, -0.1375016, -1.4604632]
"""What `seeds_move_on_alike` finds on every engine."""


if __name__ == "__main__":
    for function in CHECKS:
        print(function.__name__, flush=True)
        function(Path(sys.argv[1]))
