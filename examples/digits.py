"""Train a small convolutional classifier of handwritten digits, written only in K, on every engine.

    python examples/digits.py                    # every installed engine in turn
    python examples/digits.py --backend jax      # one of them (may be given several times)

The images are the 1,797 real digits of 8 × 8 pixels that scikit-learn ships. At the end all engines
predict the test images from equal weights, and the table shows by how much they differ.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass

os.environ.setdefault("KERAS_BACKEND", "numpy")

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from sklearn.datasets import load_digits

from backplane import backend as K
from backplane import engines

CLASSES = 10


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test images (n, 8, 8, 1) in [0, 1], and their labels."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.images))
    images = (digits.images[order, :, :, None] / 16.0).astype("float32")
    labels = digits.target[order].astype("int32")
    return images[:1437], labels[:1437], images[1437:], labels[1437:]


class Classifier:
    """Two convolutions with batch normalization and max-pooling, a dense layer, dropout,
    softmax.
    """

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.weights: list = []
        self.statistics: list = []
        self.updates: list = []
        self.x = K.placeholder(shape=(None, 8, 8, 1), name="images")
        self.labels = K.placeholder(shape=(None,), dtype="int32", name="labels")
        h = self.block(self.x, 1, 16)
        h = self.block(h, 16, 32)
        h = K.relu(self.dense(K.batch_flatten(h), 2 * 2 * 32, 64))
        h = K.in_train_phase(lambda: K.dropout(h, 0.3, seed=1), h)
        self.prediction = K.softmax(self.dense(h, 64, CLASSES))

    def weight(self, shape: tuple[int, ...], fan_in: int):
        """A trainable variable with He's initial values (0 for biases)."""
        values = (
            self.rng.standard_normal(shape) * np.sqrt(2.0 / fan_in) if fan_in else np.zeros(shape)
        )
        self.weights.append(K.variable(values))
        return self.weights[-1]

    def dense(self, x, inputs: int, outputs: int):
        """Matrix product with weights, plus a bias."""
        return K.bias_add(
            K.dot(x, self.weight((inputs, outputs), inputs)), self.weight((outputs,), 0)
        )

    def block(self, x, channels: int, filters: int):
        """Convolution, batch normalization, relu, pooling."""
        h = K.conv2d(x, self.weight((3, 3, channels, filters), 9 * channels), padding="same")
        h = K.relu(self.batch_normalization(h, filters))
        return K.pool2d(h, (2, 2), strides=(2, 2), pool_mode="max")

    def batch_normalization(self, x, filters: int):
        """By the batch's own moments in training, by their moving averages in test."""
        gamma, beta = K.ones((filters,)), K.zeros((filters,))
        mean, var = K.zeros((filters,)), K.ones((filters,))
        self.weights += [gamma, beta]
        self.statistics += [mean, var]
        normed, batch_mean, batch_var = K.normalize_batch_in_training(x, gamma, beta, [0, 1, 2])
        self.updates += [
            K.moving_average_update(mean, batch_mean, 0.9),
            K.moving_average_update(var, batch_var, 0.9),
        ]
        return K.in_train_phase(normed, lambda: K.batch_normalization(x, mean, var, beta, gamma))

    def train_function(self, rate: float = 2e-3):
        """One step of Adam (Kingma and Ba 2015), as updates of variables."""
        loss = K.mean(K.sparse_categorical_crossentropy(self.labels, self.prediction))
        step = K.variable(0.0, name="step")
        t = step + 1.0
        size = rate * K.sqrt(1.0 - K.pow(0.999, t)) / (1.0 - K.pow(0.9, t))
        updates = [*self.updates, K.update(step, t)]
        for w, g in zip(self.weights, K.gradients(loss, self.weights), strict=False):
            m, v = K.zeros(K.int_shape(w)), K.zeros(K.int_shape(w))
            new_m, new_v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * K.square(g)
            updates += [K.update(m, new_m), K.update(v, new_v)]
            updates.append(K.update(w, w - size * new_m / (K.sqrt(new_v) + 1e-7)))
        return K.function(
            [self.x, self.labels, K.learning_phase()], [loss], updates=updates, name="train"
        )

    def predict_function(self):
        """From images to probabilities, in the test phase."""
        return K.function([self.x], [self.prediction], name="predict")

    def state(self) -> list[np.ndarray]:
        """The values of all variables that a prediction depends on."""
        return K.batch_get_value(self.weights + self.statistics)

    def set_state(self, values: list[np.ndarray]) -> None:
        """Take over what `state` gave."""
        K.batch_set_value(list(zip(self.weights + self.statistics, values, strict=False)))


@dataclass
class Result:
    """What training on one engine gave."""

    engine: str
    accuracy: float
    seconds: float
    state: list[np.ndarray]
    difference: float = 0.0


def train(engine: str, epochs: int, batch: int, progress: Progress) -> Result:
    """Train on one engine and measure the accuracy on the test images."""
    images, labels, test_images, test_labels = load()
    started = time.perf_counter()
    with K.engine(engine):
        model = Classifier()
        step, predict = model.train_function(), model.predict_function()
        rng = np.random.default_rng(1)
        batches = len(images) // batch
        task = progress.add_task(f"{engine:11}", total=epochs * batches, loss="")
        for _ in range(epochs):
            order = rng.permutation(len(images))
            for i in range(batches):
                rows = order[i * batch : (i + 1) * batch]
                loss = step([images[rows], labels[rows], 1])[0]
                progress.update(task, advance=1, loss=f"loss {float(loss):.4f}")
        correct = predict([test_images])[0].argmax(-1) == test_labels
        seconds = time.perf_counter() - started
        return Result(engine, float(correct.mean()), seconds, model.state())


def compare(results: list[Result]) -> None:
    """Let every engine predict from the first one's weights, and keep the largest difference."""
    test_images = load()[2]
    expected = None
    for result in results:
        with K.engine(result.engine):
            model = Classifier()
            model.set_state(results[0].state)
            found = model.predict_function()([test_images])[0]
        expected = found if expected is None else expected
        result.difference = float(np.abs(found - expected).max())


def table(results: list[Result]) -> Table:
    shown = Table(title="Handwritten digits, one program in K")
    shown.add_column("engine")
    for title in ("test accuracy", "seconds", "largest difference of predictions"):
        shown.add_column(title, justify="right")
    for r in results:
        shown.add_row(r.engine, f"{r.accuracy:.2%}", f"{r.seconds:.1f}", f"{r.difference:.1e}")
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--backend", action="append", help="engine to train on; default: all installed"
    )
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32)
    arguments = parser.parse_args()
    names = arguments.backend or [name for name in engines.names() if engines.installed(name)]
    console = Console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[loss]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        results = [train(name, arguments.epochs, arguments.batch, progress) for name in names]
    compare(results)
    console.print(table(results))
    failed = [r.engine for r in results if r.accuracy < 0.97 or r.difference > 1e-4]
    if failed:
        console.print(f"[red]below 97 % accuracy or apart by more than 1e-4: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
