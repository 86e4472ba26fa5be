"""Goes the way of a newcomer to Keras 3 on Backplane: a fresh environment, an install, three lines.

python scripts/check_newcomer.py numpy torch cntk

Each engine gets an environment in `build/newcomer-ENGINE`, with nothing else in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = """
import importlib.util
import backplane.keras3
import keras
import numpy as np

x = np.random.default_rng(0).normal(size=(256, 8)).astype("float32")
y = (x.sum(axis=1) > 0).astype("float32")
model = keras.Sequential([keras.layers.Dense(16, "relu"), keras.layers.Dense(1, "sigmoid")])
model.compile("adam", "binary_crossentropy")
losses = model.fit(x, y, epochs=3, verbose=0).history["loss"]
assert losses[-1] < losses[0], losses
assert keras.backend.backend() == "backplane"
model.save("model.keras")
again = keras.models.load_model("model.keras")
np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))
if importlib.util.find_spec("onnxruntime"):
    model.export("model.onnx", format="onnx", verbose=False)
"""


def main(engines: list[str]) -> int:
    """Try each engine; return the exit status."""
    return max([_tried(engine) for engine in engines], default=0)


def _tried(engine: str) -> int:
    folder = ROOT / "build" / f"newcomer-{engine}"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python, extra = folder / "bin" / "python", "" if engine == "numpy" else f"[{engine}]"
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    given = ["-c", "constraints.txt", f".{extra}", "keras"]
    subprocess.run([python, *install, *given], cwd=ROOT, check=True)
    settings = {"KERAS_BACKEND": f"backplane.{engine}", "KERAS_HOME": str(folder)}
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-c", PROGRAM], cwd=folder, env={**environment, **settings}, check=False
    )
    size = sum(f.lstat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6
    print(f"{engine}: {'fits' if not done.returncode else 'FAILED'}, {size:.0f} MB installed")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
