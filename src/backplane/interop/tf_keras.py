"""`tensorflow.keras` as scripts of 2019 to 2023 import it: the installed Keras, with our backend.

`from tensorflow.keras import backend as K` then means what `from keras import backend as K` means,
but for what tf.keras defined otherwise (`backplane.interop.tf_keras_names`). And
`tensorflow.keras.layers` is `keras.layers`: of classic Keras, or of Keras 3 with the names that it
keeps for TensorFlow's users. TensorFlow itself is imported only by scripts that say so.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

TENSORFLOW = "tensorflow"
NAME = "tensorflow.keras"
OF_KERAS_3 = "keras._tf_keras.keras"
"""The package in Keras 3 that TensorFlow 2 takes for `tensorflow.keras`."""


def _own(name: str) -> str:
    """The module that `name`, in or below `tensorflow.keras`, stands for."""
    part = name.removeprefix(NAME)
    if part == ".backend" or part.startswith(".backend."):
        return f"keras{part}"
    return (OF_KERAS_3 if importlib.util.find_spec("keras._tf_keras") else "keras") + part


class Same(Loader):
    """Gives a module under another name, which `own` tells."""

    def __init__(self, own: Callable[[str], str]) -> None:
        self.own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module itself."""
        module = importlib.import_module(self.own(spec.name))
        # The import system writes the spec of the other name into it; `exec_module` undoes that.
        self.kept = {name: vars(module)[name] for name in ("__spec__", "__loader__")}
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: it has been executed."""
        vars(module).update(self.kept)


class _Backend(Loader):
    """Makes `tensorflow.keras.backend`."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module."""
        from backplane.interop.tf_keras_names import Backend  # Here: it needs K.

        return Backend(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: it is complete."""


class _TfKeras(ModuleType):
    """`tensorflow.keras` itself."""

    def __init__(self) -> None:
        super().__init__(NAME)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        if name == "backend":
            return importlib.import_module(f"{NAME}.backend")
        return getattr(importlib.import_module(_own(NAME)), name)


def _with_keras(execute: Callable[[ModuleType], None], tensorflow: ModuleType) -> None:
    execute(tensorflow)
    vars(tensorflow)["keras"] = sys.modules[NAME]


class _Finder(MetaPathFinder):
    """Finds what is below `tensorflow.keras`, and TensorFlow, to give it that attribute."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of such a module, else None."""
        if name == f"{NAME}.backend":
            return ModuleSpec(name, _Backend(), is_package=True)
        if name.startswith(f"{NAME}."):
            ours = importlib.util.find_spec(_own(name))
            packaged = ours is not None and ours.submodule_search_locations is not None
            return ours and ModuleSpec(name, Same(_own), is_package=packaged)
        spec = PathFinder.find_spec(name, path) if name == TENSORFLOW else None
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            loader.exec_module = functools.partial(_with_keras, loader.exec_module)
        return spec


def install() -> None:
    """Let `tensorflow.keras` mean the installed Keras from now on, in this process.

    Example:
        >>> from backplane.interop import tf_keras
        >>> tf_keras.install()  # doctest: +SKIP
        >>> from tensorflow.keras import backend as K  # doctest: +SKIP
        >>> K.__name__  # doctest: +SKIP
        'tensorflow.keras.backend'
    """
    sys.modules[NAME] = _TfKeras()
    sys.meta_path.insert(0, _Finder())
