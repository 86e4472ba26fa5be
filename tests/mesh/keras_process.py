"""Models of Keras 3 on the devices of `keras.distribution`: `python -m mesh.keras_process FILE`
writes what the programs return to FILE-INDEX. KERAS_BACKEND is `backplane.jax` or
`backplane.torch`.

MESH_DEVICES says how many devices there are: of one process on JAX, and one for each process on
PyTorch. An ADDRESS, a COUNT and an INDEX after FILE connect processes by `initialize`.
"""

import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np

import backplane.keras3  # noqa: F401

if os.environ["KERAS_BACKEND"] == "backplane.jax":
    import jax

    jax.config.update("jax_num_cpu_devices", int(os.environ["MESH_DEVICES"]))

# isort: split
import keras
from keras import distribution as D
from keras import layers as L

rng = np.random.default_rng(0)
ROWS = rng.normal(size=(44, 6)).astype("float32")
TARGETS = rng.normal(size=(44, 4)).astype("float32")


def losses():
    """Two epochs of batches of 16, the last of which has 12 rows; and predictions."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((6,)),
            L.Dense(8, activation="relu", name="wide"),
            L.BatchNormalization(name="normal"),
            L.Dropout(0.2),
            L.Dense(4, name="narrow"),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    history = model.fit(ROWS, TARGETS, batch_size=16, epochs=2, shuffle=False, verbose=0)
    found = model.evaluate(ROWS, TARGETS, batch_size=16, verbose=0)
    predicted = model.predict(ROWS, batch_size=16, verbose=0)
    numbers = [*history.history["loss"], *history.history["mae"], *found, float(predicted.sum())]
    return model, [float(x) for x in numbers]


def alone():
    return losses()[1]


def data_parallel():
    with D.DataParallel().scope():
        model, found = losses()
    kernel = model.get_layer("wide").kernel.cell
    on = [engine for engine in kernel.values if getattr(engine, "mesh", None) is not None]
    return [found, on[0].mesh.sizes]


def model_parallel():
    count = len(D.list_devices())
    mesh = D.DeviceMesh((count // 2, 2), ["rows", "model"])
    layouts = D.LayoutMap(mesh)
    layouts[".*wide/kernel"] = (None, "model")
    layouts[".*wide/bias"] = ("model",)
    layouts[".*narrow/kernel"] = D.TensorLayout(["model", None])
    layouts[".*normal/output"] = ("rows", "model")
    with D.ModelParallel(layout_map=layouts, batch_dim_name="rows").scope():
        model, found = losses()
    split = [v for v in model.optimizer.variables if v.cell.layout and any(v.cell.layout)]
    wide = model.get_layer("wide").kernel
    return [found, [list(x) for x in wide.cell.layout], list(wide.value.shape), len(split)]


def devices():
    return [D.list_devices(), D.get_device_count("cpu"), D.get_device_count("gpu")]


def other_devices():
    distribution = D.DataParallel(devices=list(reversed(D.list_devices())))
    try:
        return str(distribution.device_mesh.backend_mesh)
    except ValueError as error:
        return str(error)


if __name__ == "__main__":
    file, *connection = sys.argv[1:]
    if connection:
        address, count, index = connection
        D.initialize(address, int(count), int(index))
    elif "RANK" in os.environ:
        D.initialize()
    warnings.simplefilter("error")
    programs = [alone, devices, data_parallel, model_parallel, other_devices]
    found = {program.__name__: program() for program in programs}
    index = os.environ.get("RANK", connection[2] if connection else "0")
    Path(f"{file}-{index}").write_text(json.dumps(found))
