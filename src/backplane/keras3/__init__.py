"""Backplane below Keras 3: the backend on which unmodified models train on every engine.

    import os
    os.environ["KERAS_BACKEND"] = "backplane.torch"  # or .numpy, .jax, .tensorflow, …
    import backplane.keras3  # before Keras
    import keras

The import puts a finder in place (`hook`). When Keras is imported then, it finds this package as
its backend `backplane`.
"""

from __future__ import annotations

from backplane.keras3 import hook

hook.install()
