"""Names that scripts took from `keras.backend.tensorflow_backend` besides the API.

Keras never documented these names, but scripts use them:
`K.tensorflow_backend._get_available_gpus()`, `K.tensorflow_backend.set_session(…)`,
`K._to_tensor(…)`. This module has those that mean something without TensorFlow 1, and all of K.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from backplane import config, engines
from backplane.backend import phase
from backplane.backend.normalization import normalize_batch_in_training
from backplane.core.graph import Tensor
from backplane.core.tracebacks import boundary
from backplane.core.variable import Variable
from backplane.ops.lift import as_tensor, cast_to

_regular_normalize_batch_in_training = normalize_batch_in_training
_broadcast_normalize_batch_in_training = normalize_batch_in_training
_fused_normalize_batch_in_training = normalize_batch_in_training

LIBRARIES = {
    "tf": ("TensorFlow", "tensorflow", "tensorflow"),
    "T": ("Theano", "theano", "pytensor.tensor"),
    "th": ("Theano", "theano", "pytensor"),
    "theano": ("Theano", "theano", "pytensor"),
    "C": ("CNTK", "", ""),
}
"""Names by which K leaked the library below it: the library's name, the engine that has it, and the
module.
"""


def is_symbolic(x: Any) -> bool:
    """Whether `x` is a tensor of the graph, but not a variable.

    Example:
        >>> from backplane import backend as K
        >>> K.is_symbolic(K.placeholder(ndim=1)), K.is_symbolic(K.zeros((2,)))
        (True, False)
    """
    return isinstance(x, Tensor) and not isinstance(x, Variable)


def _to_tensor(x: Any, dtype: str) -> Tensor:
    """`x` as a tensor of `dtype`."""
    tensor = as_tensor(x, None if isinstance(x, Tensor) else str(dtype))
    return cast_to(tensor, str(dtype))


def _get_available_gpus() -> list[str]:
    """The devices over which K would spread a model: none, as graphs run on their engine's."""
    return []


def _is_tf_1() -> bool:
    """Whether TensorFlow 1 is in use: never."""
    return False


global_learning_phase_is_set = phase.is_set

SETTINGS = {
    "_BACKEND": config.backend,
    "_FLOATX": config.floatx,
    "_EPSILON": config.epsilon,
    "_IMAGE_DATA_FORMAT": config.image_data_format,
}
"""The private names of the settings, which scripts imported from `keras.backend.common`."""


@boundary
def leaked(name: str) -> Any:
    """The value of `K.name`, for a name outside of the API. AttributeError if there is none."""
    if name == "tensorflow_backend":
        return sys.modules[__name__]
    if name in SETTINGS:
        return SETTINGS[name]()
    if name == "experimental":  # `tf.keras.backend.experimental.enable_tf_random_generator`
        return sys.modules["backplane.backend.random_generator"]
    if name in globals() and not name.startswith("__"):
        return globals()[name]
    if name in LIBRARIES:
        title, engine, module = LIBRARIES[name]
        if engines.current().name == engine:
            return import_module(module)
        raise AttributeError(
            f"K has no attribute {name!r}: {title} itself is not part of K on the engine "
            f"{engines.current().name!r}. Use the function of K that does the same."
        )
    if name.startswith("_"):
        raise AttributeError(f"K has no attribute {name!r}")
    from backplane.backend._elsewhere import for_function  # Here: only mistakes need the tables.

    raise AttributeError(f"K has no attribute {name!r}{for_function(name)}")


def __getattr__(name: str) -> Any:
    """All of K, and its settings under their old private names (PEP 562)."""
    return getattr(sys.modules["backplane.backend"], name)
