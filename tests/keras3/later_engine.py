"""Operators of values and symbolic tensors on engines that `K.engine` chooses, after Keras has
started on another one. `python later_engine.py ENGINE…` prints how many it compared on each.
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


def applied(x, y):
    """The result of each operator, with either operand to the left."""
    pairs = {"left": (x, y), "right": (y, x)}
    return {f"{n} {side}": getattr(operator, n)(*pairs[side]) for n in NAMES for side in pairs}


class Model(keras.Model):
    """A step of the user with operators in it."""

    def __init__(self, value):
        super().__init__()
        self.dense, self.value = keras.layers.Dense(3), value

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        loss = self.compute_loss(x, y, self(x, training=True))
        weights = self.trainable_weights
        self.optimizer.apply(K.gradients(loss, weights), weights)
        results = applied(self.value, x)
        return {"loss": loss, **{k: ops.sum(ops.cast(y, "float32")) for k, y in results.items()}}


for engine in sys.argv[1:]:
    with K.engine(engine):
        model = Model(ops.convert_to_tensor(ROWS[:1]))
        model.compile("sgd", "mse")
        found = model.fit(ROWS, ROWS, verbose=0).history
        wanted = applied(ROWS[:1], ROWS)
        for name, value in wanted.items():
            total = np.sum(value, dtype="float32")
            np.testing.assert_allclose(found[name][0], total, rtol=1e-4, err_msg=name)
        print(engine, len(wanted))
