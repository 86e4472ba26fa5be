"""A model of Keras 3 that trains on ONNX Runtime, and leaves for plain ONNX Runtime.

The network learns to tell three spirals apart. Neither TensorFlow nor JAX nor PyTorch has a part in
it. The file that `model.export` writes needs neither Keras nor Backplane: ONNX Runtime alone runs
it, and paints the picture.
"""

import argparse
import os
import tempfile

os.environ["KERAS_BACKEND"] = "backplane.cntk"  # ONNX Runtime, under the name that K knows it by

import backplane.keras3  # noqa: F401, I001 - before Keras
import keras
import matplotlib.pyplot as plt
import numpy as np
import onnxruntime

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=1500)
parser.add_argument("--out", default="keras_onnx.png")
options = parser.parse_args()

keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
BATCHES, BATCH = 10, 128
spiral = rng.integers(0, 3, BATCHES * BATCH)
radius = np.sqrt(rng.uniform(0.01, 1, len(spiral)))
angle = 5 * radius + spiral * 2 * np.pi / 3 + rng.normal(0, 0.12, len(spiral))
points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).astype("float32")

model = keras.Sequential([keras.Input((2,), name="points")])
for _ in range(3):
    model.add(keras.layers.Dense(48, activation="tanh"))
    model.add(keras.layers.LayerNormalization())
model.add(keras.layers.Dense(3, activation="softmax"))
model.compile(keras.optimizers.Adam(0.005), "sparse_categorical_crossentropy", metrics=["accuracy"])
epochs = max(options.steps // BATCHES, 1)
history = model.fit(points, spiral, batch_size=BATCH, epochs=epochs, verbose=0).history
print(f"loss {history['loss'][-1]:.4f}, accuracy {history['accuracy'][-1]:.3f}")

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "spirals.onnx")
    model.export(path, format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

axis = np.linspace(-1.15, 1.15, 240, dtype="float32")
plane = np.stack(np.meshgrid(axis, axis), axis=-1)
[chances] = session.run(None, {session.get_inputs()[0].name: plane.reshape(-1, 2)})
difference = np.abs(chances - model.predict(plane.reshape(-1, 2), batch_size=4096, verbose=0)).max()
print(f"ONNX Runtime alone differs by {difference:.1e} at most")

COLORS = np.array([[0.16, 0.43, 0.75], [0.93, 0.55, 0.18], [0.29, 0.62, 0.36]])
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
picture = 1 - (1 - chances.reshape(240, 240, 3) @ COLORS) * 0.75
left.imshow(picture.clip(0, 1), extent=(-1.15, 1.15, -1.15, 1.15), origin="lower")
left.scatter(*points.T, s=5, c=COLORS[spiral], edgecolors="white", linewidths=0.2)
left.set_title("painted by ONNX Runtime alone")
left.set_axis_off()
right.plot(np.arange(1, epochs + 1) * BATCHES, history["loss"], color=COLORS[0])
right.set(xlabel="step", ylabel="loss", yscale="log", title="training on ONNX Runtime, by Keras")
figure.savefig(options.out, dpi=100)
