"""Import TensorFlow without its start-up notes, unless the user asked to see its log."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from backplane.engines.table import in_wider

# These two kinds of line are logged before TensorFlow reads any setting, and say nothing is wrong.
_NOTES = (b"WARNING: All log messages before absl::InitializeLog()", b"I0000 ")


@contextmanager
def _without_notes() -> Iterator[None]:
    """Hold back what is written to the process' stderr; pass on all but the start-up notes."""
    try:
        stderr = os.dup(2)
    except OSError:  # a process without a stderr
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            held.seek(0)
            rest = b"".join(line for line in held if not line.startswith(_NOTES))
            if rest:
                os.write(stderr, rest)
            os.close(stderr)


KERAS_3 = frozenset(("tensorflow", "jax", "torch", "numpy", "openvino"))
"""The backends that Keras 3 knows."""


def _configured() -> str:
    """The name that Keras would find in the environment or in `keras.json`."""
    if name := os.environ.get("KERAS_BACKEND"):
        return name
    home = os.environ.get("KERAS_HOME") or os.path.join(os.path.expanduser("~"), ".keras")
    try:
        with open(os.path.join(home, "keras.json"), encoding="utf-8") as file:
            return str(json.load(file).get("backend", "tensorflow"))
    except (OSError, ValueError, AttributeError):
        return "tensorflow"


@contextmanager
def _acceptable_to_keras() -> Iterator[None]:
    """TensorFlow imports Keras 3, which fails on `theano` or `cntk`: it gets its own default."""
    if "keras" in sys.modules or _configured() in KERAS_3:
        yield
        return
    before = os.environ.get("KERAS_BACKEND")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    try:
        yield
    finally:
        if before is None:
            del os.environ["KERAS_BACKEND"]
        else:
            os.environ["KERAS_BACKEND"] = before


if "tensorflow" in sys.modules or "TF_CPP_MIN_LOG_LEVEL" in os.environ:
    with _acceptable_to_keras():
        import tensorflow as tf
else:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    with _without_notes(), _acceptable_to_keras():
        import tensorflow as tf

try:
    from tensorflow.python.autograph.core import config as _autograph
except ImportError:  # pragma: no cover - none of the supported releases
    pass
else:
    # A user's `tf.function` would rewrite our source too, for no use: no `if` in it asks a tensor.
    _autograph.CONVERSION_RULES = (
        _autograph.DoNotConvert("backplane"),
        *_autograph.CONVERSION_RULES,
    )

raw = tf.raw_ops

HALVES = {tf.float16: tf.float32, tf.bfloat16: tf.float32}
"""Kernels for half precision add up in half precision, where 2048 + 1 is 2048."""


computed_in = partial(in_wider, tf.cast)
"""Makes a function that computes some dtypes in others."""


def opaque(x: Any) -> Any:
    """`x`, as an operation that the optimizer leaves in place. Tapes have its gradient."""
    return raw.PlaceholderWithDefault(input=x, shape=x.shape)


__all__ = ["HALVES", "computed_in", "opaque", "raw", "tf"]
