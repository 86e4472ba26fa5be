"""The name `keras.backend` for ours, so that scripts written for classic Keras run unchanged.

`install` makes `from keras import backend as K`, `import keras.backend` and imports from modules
below it (`keras.backend.common`, `keras.backend.tensorflow_backend`) mean `backplane.backend`, in
this process only. So does `keras.backend` under its later name, `tensorflow.keras.backend`
(`tf_keras`). Everything else of `keras` is that of the installed one, which is loaded when it
is first asked for; without one, `keras` has the backend alone. An installed classic Keras is given
ours as its external backend instead, so that its layers compute with it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from backplane.interop import removed, tf_keras
from backplane.interop.tf_keras import Same

KERAS = "keras"
BACKEND = "keras.backend"

OURS = {1: "backplane.keras1", 2: "backplane.backend", 3: "backplane.backend"}
"""Generation of Keras → the module of ours that its `keras.backend` is."""

BELOW = {
    "keras.backend.common": "backplane.backend.common",
    "keras.backend.load_backend": "backplane.backend",
    "keras.backend.tensorflow_backend": "backplane.backend.tensorflow_backend",
    "keras.backend.theano_backend": "backplane.backend.tensorflow_backend",
    "keras.backend.cntk_backend": "backplane.backend.tensorflow_backend",
}
"""From the name in scripts to the module of ours that it means. All mean the one module for Keras
1."""


ADVICE = (
    "no Keras is installed, and Backplane has keras.backend only. Install Keras 3 "
    "(pip install keras), or Keras 2 for scripts that need it (pip install keras==2.3.1; with "
    "TensorFlow beside it, see `backplane docs classic-keras`)"
)
"""Advice for a script that asks for more of Keras than there is."""


RELEASES = {1: "1.2.2", 2: "2.3.1"}
"""Generation of Keras → its last release that takes our backend."""


def advice(error: BaseException, generation: int) -> str | None:
    """Advice for a script that fails with Keras 3: to install the Keras of its generation."""
    keras = sys.modules.get(KERAS)
    version = str(getattr(keras, "__version__", "")) if "keras.src" in sys.modules else ""
    if generation not in RELEASES or not version or not _is_of_keras(error):
        return None
    return (
        f"The script was written for Keras {generation}, and Keras {version} is installed, which "
        f"lacks some of it: pip install keras=={RELEASES[generation]}, in an environment of its "
        "own (`backplane docs classic-keras`)"
    )


def _is_of_keras(error: BaseException) -> bool:
    """Whether an error names Keras, or was raised in it."""
    trace, inside = error.__traceback__, False
    while trace is not None:
        inside = str(trace.tb_frame.f_globals.get("__name__", "")).startswith("keras.")
        trace = trace.tb_next
    return inside or (isinstance(error, ImportError | AttributeError) and KERAS in str(error))


class _Keras(ModuleType):
    """`keras` itself: our backend, and the rest from the installed one, loaded when asked for."""

    def __init__(self, installed: ModuleSpec | None) -> None:
        super().__init__(KERAS)
        self.__path__ = list(installed.submodule_search_locations or ()) if installed else []
        self._installed = installed

    def __getattr__(self, name: str) -> Any:
        if name == "backend":
            return importlib.import_module(BACKEND)
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        if self._load():
            return getattr(self, name)
        missing = "" if self.__path__ else f": {ADVICE}"
        raise AttributeError(f"module 'keras' has no attribute {name!r}{missing}")

    def _load(self) -> bool:
        """Execute the installed Keras in this very module. False if that was done before."""
        spec = vars(self).get("_installed")
        if spec is None:
            return False
        self._installed = None
        self.__file__ = spec.origin
        self.__spec__, self.__loader__, self.__package__ = spec, spec.loader, KERAS
        self.backend = importlib.import_module(BACKEND)
        spec.loader.exec_module(self)
        # Its __init__ may have bound its own backend again.
        self.backend = importlib.import_module(BACKEND)
        return True


class _Finder(MetaPathFinder):
    """Finds `keras` and the aliases below it."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def _ours(self, name: str) -> str | None:
        if name == BACKEND or (name in BELOW and self.backend == OURS[1]):
            return self.backend
        return BELOW.get(name)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of an alias. Keras itself is loaded before any other part of Keras."""
        ours = self._ours(name)
        if ours is not None:
            return ModuleSpec(name, Same(lambda _: ours), is_package=name == BACKEND)
        if name.startswith("keras."):
            keras = sys.modules.get(KERAS)
            if isinstance(keras, _Keras):
                keras._load()
                if not keras.__path__:
                    raise ModuleNotFoundError(f"No module named {name!r}: {ADVICE}", name=name)
        return None


def install(keras: int = 2) -> None:
    """Let `keras.backend` mean `backplane.backend` from now on, in this process.

    Args:
        keras: The generation of Keras for which the program was written. For 1, `keras.backend`
            means `backplane.keras1`. An installed Keras 1 or 2 makes its own `keras.backend` of our
            functions, whatever is given.

    Raises:
        RuntimeError: if a `keras` has been imported already.

    Example:
        >>> import sys
        >>> from backplane.interop import alias
        >>> alias.install()  # doctest: +SKIP
        >>> from keras import backend as K  # doctest: +SKIP
        >>> K.__name__  # doctest: +SKIP
        'backplane.backend'
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if KERAS in sys.modules:
        raise RuntimeError("keras has been imported already: install the alias before that")
    removed.restore()
    tf_keras.install()
    installed = PathFinder.find_spec(KERAS)
    if installed is not None and _is_classic(installed):
        importlib.import_module("backplane.interop.classic")
        return
    sys.modules[KERAS] = _Keras(installed)
    sys.meta_path.insert(0, _Finder(OURS[keras]))


def _is_classic(spec: ModuleSpec) -> bool:
    """Whether it is a Keras of version 1.0 to 2.3, which has backends that can be replaced."""
    folders = spec.submodule_search_locations or ()
    return any((Path(folder) / "backend" / "common.py").is_file() for folder in folders)
