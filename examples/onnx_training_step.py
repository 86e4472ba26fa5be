"""Export a whole training step as an ONNX model, and train with it in plain ONNX Runtime.

    python examples/onnx_training_step.py                 # both, and compare
    python examples/onnx_training_step.py write step.onnx # needs Backplane
    python examples/onnx_training_step.py run step.onnx   # needs NumPy and ONNX Runtime only

The model is a classifier of two interleaved spirals with dropout, trained by gradient descent with
momentum. The file holds the forward pass, its gradients, the updates, the initial weights and the
key of dropout's random numbers.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np

STEPS = 300


def spirals(seed: int, count: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """Points of two spirals, and which one each is on."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, count)
    turn = np.sqrt(rng.uniform(0.02, 1.0, count))
    angle = 2 * np.pi * turn + np.pi * label
    points = turn[:, None] * np.stack([np.cos(angle), np.sin(angle)], -1)
    return points.astype("float32"), label.astype("int32")


def step_function():
    """One training step as a K function of points and labels; it gives loss and accuracy."""
    from backplane import backend as K

    rng = np.random.default_rng(0)
    points = K.placeholder((None, 2), name="points")
    labels = K.placeholder((None,), dtype="int32", name="labels")
    weights, h = [], points
    sizes = [2, 64, 64, 2]
    for i, (inputs, outputs) in enumerate(pairwise(sizes)):
        w = K.variable(rng.normal(0, np.sqrt(2 / inputs), (inputs, outputs)), name=f"w{i}")
        b = K.zeros((outputs,), name=f"b{i}")
        weights += [w, b]
        h = K.bias_add(K.dot(h, w), b)
        if i < len(sizes) - 2:
            h = K.dropout(K.relu(h), 0.1, seed=i)
    loss = K.mean(K.sparse_categorical_crossentropy(labels, h, from_logits=True))
    hit = K.equal(K.argmax(h), K.cast(labels, "int64"))
    accuracy = K.mean(K.cast(hit, "float32"))
    updates = []
    for w, g in zip(weights, K.gradients(loss, weights), strict=True):
        velocity = K.zeros(K.int_shape(w), name=f"velocity_of_{w.name}")
        new = 0.9 * velocity - 0.05 * g
        updates += [K.update(velocity, new), K.update(w, w + new)]
    return K.function([points, labels], [loss, accuracy], updates=updates, name="step")


def write(path: Path) -> list[float]:
    """Write the model; then train with Backplane. Returns the losses."""
    from backplane import backend as K

    with K.engine("cntk"):
        step = step_function()
        step.to_onnx(path, outputs=["loss", "accuracy"])
        return [float(step(list(spirals(i)))[0]) for i in range(STEPS)]


def run(path: Path) -> list[float]:
    """Train with ONNX Runtime alone. Returns the losses."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path)
    outputs = [output.name for output in session.get_outputs()]
    state: dict[str, np.ndarray] = {}
    losses = []
    for i in range(STEPS):
        points, labels = spirals(i)
        values = session.run(outputs, {"points": points, "labels": labels, **state})
        results = dict(zip(outputs, values, strict=True))
        # What the step made of a weight is that weight in the next step.
        state = {
            name.removesuffix(".new"): value
            for name, value in results.items()
            if name.endswith(".new")
        }
        losses.append(float(results["loss"]))
        if i % 50 == 0 or i == STEPS - 1:
            print(f"step {i:3}: loss {losses[-1]:.4f}, accuracy {results['accuracy']:.2f}")
    return losses


def main() -> None:
    """Write, run, or both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["write", "run", "both"], default="both")
    parser.add_argument("path", nargs="?", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.path or Path(folder) / "step.onnx"
        ours = write(path) if arguments.what != "run" else None
        theirs = run(path) if arguments.what != "write" else None
    if ours and theirs:
        gap = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
        print(f"largest difference between the losses of both: {gap:.1e}")


if __name__ == "__main__":
    main()
