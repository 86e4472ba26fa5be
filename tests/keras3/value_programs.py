"""Programs of `programs.py` whose models take values of the engine's library: in layers, operators,
and batches.
"""

import itertools
import operator

import keras
import numpy as np
from keras import layers as L
from problems import IMAGES, ROWS, TARGETS, losses, mlp


def values_to_the_left():
    """Values of the engine's library stand to the left of symbolic tensors: in regularizers, in
    layers, and in layers of the user.
    """
    ops = keras.ops

    class Layer(L.Layer):
        def __init__(self):
            super().__init__()
            self.half, self.rows = ops.convert_to_tensor(0.5), ops.ones((5,))

        def call(self, x):
            y = self.half * x + self.rows * (self.half - x) / (self.rows + ops.square(x))
            return y + ops.cast(x > self.half, "float32") * self.rows

    parts = [L.Dense(5, kernel_regularizer="l1", bias_regularizer="l2"), L.PReLU(), Layer()]
    return losses(keras.Sequential([keras.Input((5,)), *parts, L.Dense(2)]), ROWS, TARGETS)


def operators_of_values_and_tensors():
    """Each operator with a value of the engine's library on one side and a symbolic tensor on the
    other one: all of a dtype are outputs of one model, since compiling is what takes time.
    """
    numbers = np.array([[1.0, 3.0, 2.0], [4.0, 2.0, 3.0]], "float32")
    kinds = {
        "float32": (
            "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lt", "le", "gt",
            "ge", "eq", "ne",
        ),
        "int32": (
            "floordiv", "mod", "and_", "or_", "xor", "lshift", "rshift", "lt", "ge", "eq", "ne",
        ),
        "bool": ("and_", "or_", "xor", "eq", "ne"),
    }  # fmt: skip

    class Apply(L.Layer):
        def __init__(self, name, value, swapped):
            super().__init__()
            self.operator, self.value, self.swapped = getattr(operator, name), value, swapped

        def call(self, x):
            return self.operator(*((x, self.value) if self.swapped else (self.value, x)))

        def compute_output_spec(self, x):
            return keras.KerasTensor(x.shape, x.dtype)

    compared = 0
    for dtype, names in kinds.items():
        rows = (numbers > 2 if dtype == "bool" else numbers).astype(dtype)
        x, outputs, wanted = keras.Input((3,), dtype=dtype), [], {}
        for name, swapped, whole in itertools.product(names, (False, True), (False, True)):
            value = rows[::-1, : 2 if name == "matmul" else None] if whole else rows[:1, :1]
            if name == "matmul" and swapped != whole:
                value = np.eye(3 if swapped else 2, dtype=dtype)
            elif name == "matmul":
                value = np.ones((3, 2) if swapped else (2, 2), dtype)
            outputs.append(Apply(name, keras.ops.convert_to_tensor(value), swapped)(x))
            operands = (rows, value) if swapped else (value, rows)
            wanted[name, swapped, whole] = getattr(operator, name)(*operands)
        found = keras.Model(x, outputs).predict(rows, verbose=0)
        for y, (key, expected) in zip(found, wanted.items(), strict=True):
            np.testing.assert_allclose(y, expected, rtol=1e-5, err_msg=f"{dtype} {key}")
        compared += len(found)
    return compared


def images_of_values():
    """Layers that change images draw the same numbers on every engine, on values and in models."""
    kinds = {
        "crop": L.RandomCrop(4, 4, seed=1), "flip": L.RandomFlip(seed=1),
        "rotation": L.RandomRotation(0.1, seed=1), "zoom": L.RandomZoom(0.1, seed=1),
        "translation": L.RandomTranslation(0.1, 0.1, seed=1), "shear": L.RandomShear(0.1, seed=1),
        "contrast": L.RandomContrast(0.3, seed=1), "brightness": L.RandomBrightness(0.3, seed=1),
        "erasing": L.RandomErasing(seed=1), "blur": L.RandomGaussianBlur(seed=1),
        "perspective": L.RandomPerspective(seed=1), "mixture": L.MixUp(seed=1),
    }  # fmt: skip
    found = {}
    for name, layer in kinds.items():
        y = keras.ops.convert_to_numpy(layer(IMAGES[:4], training=True))
        found[name] = [y.mean().item(), np.abs(y).mean().item(), y.std().item()]
    start = keras.ops.convert_to_tensor(2)
    rows = keras.ops.convert_to_tensor(IMAGES)[start : start + 3, ..., start:]
    return {**found, "slices": keras.ops.convert_to_numpy(rows).ravel().tolist()}


def batches_of_threads():
    """Threads make the batches with functions of Keras and with operators of the library."""

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            rows = slice(5 * index, 5 * index + 5)
            x = keras.ops.multiply(ROWS[rows], 2.0)
            return x * 0.5 + x[:, :1], keras.ops.add(keras.ops.ones((5, 2)), index)

    model = mlp()
    model.compile("sgd", "mse")
    batches = Batches(workers=2, use_multiprocessing=False, max_queue_size=4)
    return {"loss": model.fit(batches, shuffle=False, verbose=0, epochs=2).history["loss"]}
