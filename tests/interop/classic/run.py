"""Run programs and write what they return: run.py RESULT.json [PROGRAM ...].

They are those of `programs.py` and `programs_larger.py`, or of `programs_1_….py` for Keras 1.
"""

import gc
import json
import os
import sys
import tempfile
import traceback
import warnings


def prepare():
    """What must come before the import of Keras."""
    if os.environ["KERAS_BACKEND"] != "backplane.tensorflow":
        # Keras looks for TensorFlow to write to its file systems, and goes on without.
        sys.modules["tensorflow"] = None
    # Keras' own syntax and calls are of another time.
    warnings.simplefilter("ignore")
    import backplane.interop.classic  # noqa: F401


def run(program):
    """What the program returns, or why it does not."""
    import keras
    import numpy as np

    from backplane import backend as K

    K.clear_session()
    # The programs for Keras 1 set all weights, and return nothing that depends on a random number.
    K.set_random_seed(0, portable=keras.__version__ >= "2")
    np.random.seed(0)  # noqa: NPY002 - Keras shuffles and draws its seeds with it.
    try:
        with tempfile.TemporaryDirectory() as folder:
            return program(folder)
    except Exception:  # noqa: BLE001 - The test that asks for this program shows it.
        return traceback.format_exc()


def main(result, *chosen):
    prepare()
    import keras

    if os.environ["KERAS_BACKEND"] == "backplane.tensorflow":
        import tensorflow as tf

        # Programs run a few times: their graphs need not be made fast.
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    if keras.__version__ < "2":
        import programs_1_layers
        import programs_1_models

        PROGRAMS = programs_1_layers.PROGRAMS | programs_1_models.PROGRAMS
    else:
        from programs import PROGRAMS
    if keras.__version__ >= "2.3":
        import programs_larger

        PROGRAMS = PROGRAMS | programs_larger.PROGRAMS

    gc.freeze()  # What has been imported stays: the collector need not look through it.
    results = {name: run(PROGRAMS[name]) for name in chosen or PROGRAMS}
    with open(result, "w") as file:
        json.dump(results, file, default=float)


main(*sys.argv[1:])
