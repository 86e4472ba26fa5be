"""Run programs of `programs.py` and write what they return: run.py RESULT.json [PROGRAM ...]."""

import json
import os
import sys
import tempfile
import traceback
import warnings

engine = os.environ["KERAS_BACKEND"].split(".")[-1]
if engine != "tensorflow":
    # Keras looks for TensorFlow to write to its file systems, and goes on without.
    sys.modules["tensorflow"] = None
# Keras' own syntax and calls are of another time.
warnings.simplefilter("ignore")

import backplane.interop.classic  # noqa: E402, F401
import numpy as np  # noqa: E402
from programs import PROGRAMS  # noqa: E402

from backplane import backend as K  # noqa: E402


def run(program):
    """What the program returns, or why it does not."""
    K.clear_session()
    K.set_random_seed(0, portable=True)
    np.random.seed(0)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return program(folder)
    except Exception:
        return traceback.format_exc()


chosen = sys.argv[2:] or list(PROGRAMS)
results = {name: run(PROGRAMS[name]) for name in chosen}
with open(sys.argv[1], "w") as file:
    json.dump(results, file, default=float)
