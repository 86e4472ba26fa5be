"""Operators of values and symbolic tensors on an engine that is chosen by `K.engine`, after Keras
has started on another one. `python later_engine.py ENGINE` prints how many it compared.
"""

import operator
import sys

import numpy as np

import backplane.keras3  # noqa: F401
from backplane import backend as K

# isort: split
import keras
from keras import ops

NAMES = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne",
)  # fmt: skip
ROWS = np.array([[1.0, 3.0, 2.0], [4.0, 2.0, 3.0]], "float32")


class Model(keras.Model):
    """A step of the user with an operator in it."""

    def __init__(self, function, value, swapped):
        super().__init__()
        self.dense, self.function = keras.layers.Dense(3), function
        self.value, self.swapped = value, swapped

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        loss = self.compute_loss(x, y, self(x, training=True))
        weights = self.trainable_weights
        self.optimizer.apply(K.gradients(loss, weights), weights)
        found = self.function(x, self.value) if self.swapped else self.function(self.value, x)
        return {"loss": loss, "sum": ops.sum(ops.cast(found, "float32"))}


compared = 0
with K.engine(sys.argv[1]):
    value = ops.convert_to_tensor(ROWS[:1])
    for name in NAMES:
        function = getattr(operator, name)
        for swapped in False, True:
            model = Model(function, value, swapped)
            model.compile("sgd", "mse")
            found = model.fit(ROWS, ROWS, verbose=0).history["sum"][0]
            wanted = function(ROWS, ROWS[:1]) if swapped else function(ROWS[:1], ROWS)
            np.testing.assert_allclose(found, np.sum(wanted, dtype="float32"), rtol=1e-4)
            compared += 1
print(compared)
