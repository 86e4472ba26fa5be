"""`install` and `uninstall`: the names of K in `keras.backend` of Keras 3."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import keras
import numpy as np

from backplane import backend as K
from backplane import config, engines
from backplane.core import context
from backplane.interop.keras3.variables import MAKERS

TENSORFLOW = "keras._tf_keras.keras.backend"
"""The module that is `tf.keras.backend`. It has more names, made of TensorFlow."""

LAMBDAS = "keras.src.utils.python_utils"
"""The module whose globals the code of a saved `Lambda` layer sees once it is loaded."""


class Installation(AbstractContextManager["Installation"]):
    """The result of `install`; as a context manager it uninstalls at its end."""

    def __exit__(self, *exception: object) -> None:
        uninstall()


_added: list[tuple[ModuleType, dict[str, Any]]] = []
_undo: list[Callable[[], None]] = []


def install() -> Installation:
    """Fill the names of K that `keras.backend` of Keras 3 lacks with those of Backplane.

    `from keras import backend as K` then gives all of K, computed on the backend that Keras 3 uses.
    Names that Keras has stay Keras' own. With the TensorFlow backend `tf.keras.backend` is filled
    too. Until `uninstall`

    - the engine in force is that of Keras' backend, and `K.floatx`, `K.epsilon` and
      `K.image_data_format` are read from and written to `keras.config`;
    - K functions without symbolic tensors compute at once (eager mode), so that `K.constant(2.0)`
      is a tensor of the backend;
    - `K.variable` and its kin in `keras.backend` make a `keras.Variable`;
    - a `Lambda` layer that is loaded from a file finds `K` and `np`, as in Keras 2.

    Returns:
        A context manager that uninstalls at its end. To use it is optional; to install twice is to
        install once.

    Raises:
        ImportError: if there is no Keras, or one of Keras 2.
        ValueError: if Keras runs on a backend that is no engine of Backplane.

    Example:
        >>> from backplane.interop import keras3
        >>> with keras3.install():
        ...     from keras import backend as K
        ...
        ...     hasattr(K, "placeholder")
        True
        >>> hasattr(K, "placeholder")
        False
    """
    if not _undo:
        engine = engines.get(keras.backend.backend())
        names = {name: getattr(K, name) for name in K.__all__} | MAKERS
        _add(keras.backend, names)
        if engine.name == "tensorflow":
            _add(importlib.import_module(TENSORFLOW), names)
        _add(importlib.import_module(LAMBDAS), {"K": keras.backend, "np": np})
        _undo.append(engines.override_default(engine))
        _undo.append(config.follow(keras.backend))
        _undo.append(context.set_default_mode("eager"))
    return Installation()


def _add(module: ModuleType, names: dict[str, Any]) -> None:
    added = {name: value for name, value in names.items() if name not in vars(module)}
    vars(module).update(added)
    _added.append((module, added))


def uninstall() -> None:
    """Take out what `install` put in; what somebody else has put in its place stays.

    Example:
        >>> from backplane.interop import keras3
        >>> keras3.uninstall()
    """
    for module, added in _added:
        for name, value in added.items():
            if vars(module).get(name) is value:
                delattr(module, name)
    _added.clear()
    while _undo:
        _undo.pop()()
