"""A Keras 3 model on PyTorch with the accelerator of `fake_accelerator`: where its tensors are.

`python -m devices.fake_keras FILE` writes the devices to a JSON file.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from devices import fake_accelerator  # noqa: F401  # before PyTorch is first asked


def main(file: str) -> None:
    """Build a model with its optimizer, call it, and use an operation on arrays."""
    os.environ["KERAS_BACKEND"] = "backplane.torch"
    import backplane.keras3  # noqa: F401
    from backplane.engines.torch.engine import TorchEngine

    kind: Any = TorchEngine
    kind.fetch = kind.to_numpy = lambda self, value: np.zeros(value.shape)
    import keras

    model = keras.Sequential([keras.layers.Dense(3, activation="relu"), keras.layers.Dense(1)])
    x = np.ones((4, 2), "float32")
    result = model(x)
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    made = keras.ops.exp(x)
    with keras.device("cpu:0"):
        apart = keras.Variable(np.ones(2, "float32"))
    found = {
        "weights": sorted({str(w.value.device) for w in model.weights}),
        "slots": sorted({str(v.value.device) for v in model.optimizer.variables}),
        "results": [str(x.device) for x in (result, made)],
        "chosen": str(apart.value.device),
    }
    Path(file).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
