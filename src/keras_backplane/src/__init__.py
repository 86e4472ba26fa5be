"""The layout that Keras' protocol for pluggable backends asks for (module `keras_NAME.src`)."""

import backplane.keras3  # noqa: F401 - the hook, before Keras
from backplane.keras3.layer import BackplaneLayer as Layer
from backplane.keras3.ops.core import IS_THREAD_SAFE as IS_THREAD_SAFE
from backplane.keras3.ops.core import SUPPORTS_COMPLEX_DTYPES as SUPPORTS_COMPLEX_DTYPES
from backplane.keras3.ops.core import SUPPORTS_RAGGED_TENSORS as SUPPORTS_RAGGED_TENSORS
from backplane.keras3.ops.core import SUPPORTS_SPARSE_TENSORS as SUPPORTS_SPARSE_TENSORS
from backplane.keras3.ops.core import Variable as Variable
from backplane.keras3.ops.core import compute_output_spec as compute_output_spec
from backplane.keras3.ops.core import device_scope as device_scope
from backplane.keras3.ops.core import name_scope as name_scope
from backplane.keras3.trainer import BackplaneTrainer as Trainer
from keras_backplane.src import ops as ops
from keras_backplane.src import random as random
from keras_backplane.src import rnn as rnn

SUPPORTS_GRADIENT = True
distribution_lib = None

__all__ = [
    "IS_THREAD_SAFE",
    "SUPPORTS_COMPLEX_DTYPES",
    "SUPPORTS_GRADIENT",
    "SUPPORTS_RAGGED_TENSORS",
    "SUPPORTS_SPARSE_TENSORS",
    "Layer",
    "Trainer",
    "Variable",
    "compute_output_spec",
    "device_scope",
    "distribution_lib",
    "name_scope",
    "ops",
    "random",
    "rnn",
]
