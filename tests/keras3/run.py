"""Runs the programs of modules in one process: `python run.py MODULE…`, on the backend of
KERAS_BACKEND, Backplane's or Keras' own. It writes what each program returns, or how it fails, to
MODULE.json in the current folder, where programs find and put files, too. `MODULE.PROGRAM` is a
single one.

A module has PROGRAMS: functions without arguments, whose results JSON can hold. To import Keras and
an engine takes longer than most of them.
"""

import gc
import importlib
import json
import os
import sys
import traceback
import warnings
from pathlib import Path

if os.environ["KERAS_BACKEND"].startswith("backplane"):
    import backplane.keras3  # noqa: F401
import keras


def told(program):
    """What the program returns, or its error as a user sees it, and all frames."""
    keras.utils.clear_session()
    # This collects garbage. What is left are modules and caches, which need not be looked through
    # again after each program: on TensorFlow that took a fifth of all the time.
    gc.freeze()
    keras.utils.set_random_seed(1)
    try:
        return {"value": program()}
    except Exception as error:  # noqa: BLE001 - the test of that program shows it
        notes = getattr(error, "__notes__", ())
        text = "\n".join([f"{type(error).__name__}: {error}", *notes])
        return {"error": text, "trace": traceback.format_exc()}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if os.environ["KERAS_BACKEND"].endswith("tensorflow"):
        import tensorflow as tf

        # Programs run a few times: their graphs need not be made fast.
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    for given in sys.argv[1:]:
        name, _, only = given.partition(".")
        programs = importlib.import_module(name).PROGRAMS
        found = {p.__name__: told(p) for p in programs if only in ("", p.__name__)}
        Path(f"{name}.json").write_text(json.dumps(found))
