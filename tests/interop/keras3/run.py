"""Runs all programs, or those named, and writes what they return, or how they fail, as JSON."""

import gc
import importlib
import importlib.util
import json
import sys
import traceback

import keras

from backplane import backend as K

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

    # Programs run a few times: their graphs need not be made fast.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
modules = ["models", "graphs", "behaviour", "every_function"]
if importlib.util.find_spec("onnxruntime"):
    modules.append("exported")
loaded = [importlib.import_module(module) for module in modules]
gc.collect()
gc.freeze()
results = {}
for module in loaded:
    for program in module.PROGRAMS:
        if sys.argv[3:] and program.__name__ not in sys.argv[3:]:
            continue
        try:
            results[program.__name__] = {"value": program(sys.argv[2])}
        except Exception:  # noqa: BLE001 - the test of that program fails with it
            results[program.__name__] = {"error": traceback.format_exc()}
        K.clear_session()
        # This collects garbage. What is left are modules and caches, which stay: to look through
        # them after each program took up to half of all the time.
        keras.backend.clear_session()
        gc.freeze()
with open(sys.argv[1], "w") as file:
    json.dump(results, file)
