"""Classic Keras on a current Python: `import backplane.interop.classic` before `import keras`.

Keras 2.0 to 2.3 were written for Python 3.7 and NumPy 1.16. This module puts back what Python,
NumPy (`backplane.interop.removed`), h5py and PyYAML have removed since and those releases use;
nothing of Keras itself is changed. What still exists is left as it is. Each entry says what was
removed, when, and what needs it.

It also lets Keras 2.1 and older, which know no external backends, take `KERAS_BACKEND=backplane.…`
(see `backplane.interop.classic_modules`). In all releases, `KERAS_BACKEND=jax` means
`backplane.jax`.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import numpy as np

from backplane.interop import classic_modules, removed
from backplane.known_engines import canonical


class _Text(str):
    """Text from an HDF5 attribute, with the `decode` of the bytes that h5py 2 returned."""

    __slots__ = ()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The text itself, which is decoded already."""
        return str(self)


def restore_h5py() -> None:
    """Let Keras use h5py 3 as it used h5py 2."""
    try:
        attributes = import_module("h5py").AttributeManager
    except ImportError:
        return  # Keras works without h5py too, but for its files.
    # h5py 3 gives text as str, and lists of text as arrays of str. h5py 2 gave bytes and arrays of
    # bytes, so Keras decodes keras_version, backend, model_config, and the names of layers and
    # weights. h5py 3 also opens a file for reading if no mode is given. Before, the mode was "a",
    # and Keras relies on it to make files in memory. `fid`, through which Keras asks a file for its
    # bytes, is now called `id`.
    file = import_module("h5py").File
    file.__init__.__defaults__ = ("a", *file.__init__.__defaults__[1:])
    file.fid = property(lambda self: self.id)
    read = attributes.__getitem__
    if getattr(read, "decodable", False):
        return

    def item(self: Any, name: str) -> Any:
        value = read(self, name)
        if isinstance(value, np.ndarray) and value.dtype == object:
            return np.char.encode(value.astype(str), "utf-8")
        if isinstance(value, np.ndarray) and value.shape == (0,):
            # From NumPy 2.2 on, an empty array is neither true nor false, but Keras asks
            # `if weight_names:`. Of an array of bytes it makes a list before that.
            return value.astype(np.bytes_)
        return _Text(value) if type(value) is str else value

    item.decodable = True  # type: ignore[attr-defined]
    attributes.__getitem__ = item


def restore_yaml() -> None:
    """Let `yaml.load` be called without a loader."""
    try:
        yaml: Any = import_module("yaml")
    except ImportError:
        return  # Only `model_from_yaml` needs it.
    # PyYAML 6 requires the argument Loader, but Keras before 2.3 calls `yaml.load(text)`. The
    # default is the full loader, as it was in PyYAML 5.1.
    load = yaml.load
    if load.__defaults__ is None:
        yaml.load = lambda stream, Loader=yaml.FullLoader: load(stream, Loader)


def choose_ours() -> None:
    """Let the names of engines mean ours: `KERAS_BACKEND=jax` becomes `backplane.jax`. Without the
    variable, `backplane.backend` serves, which takes the engine from `keras.json`, unless that file
    names a module.
    """
    asked = os.environ.get("KERAS_BACKEND")
    name = asked or classic_modules.in_file() or "tensorflow"
    engine = canonical(str(name))
    if engine is not None and not str(name).startswith("backplane."):
        os.environ["KERAS_BACKEND"] = f"backplane.{engine if asked else 'backend'}"


removed.restore()
restore_h5py()
restore_yaml()
choose_ours()
classic_modules.install()
