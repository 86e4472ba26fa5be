"""Modules of classic Keras that Backplane replaces or completes where it is Keras' backend.

`install` puts a finder before Python's. It acts only if `KERAS_BACKEND` names a module of Backplane
and the `keras` that is found is a classic one:

- `keras.backend.tensorflow_backend` is our namespace, without TensorFlow: scripts import it for
  `get_session` and the like.
- Keras 2.1 and older know no external backends. While their `keras.backend` is imported,
  `KERAS_BACKEND` is `tensorflow`, so that it takes its names from that module of ours; afterwards
  `K.backend()` says the true name, as in Keras 2.2 and 2.3.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

PREFIX = "backplane."
BACKEND = "keras.backend"
TENSORFLOW_BACKEND = "keras.backend.tensorflow_backend"
TOPOLOGY = "keras.engine.topology"


class _Around(Loader):
    """Loads a module of Keras as it is, with something done before or after."""

    def __init__(self, loader: Any, ours: str) -> None:
        self.loader = loader
        self.ours = ours

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As Keras' own loader does."""
        made: ModuleType | None = self.loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """As Keras' own loader does."""
        self.loader.exec_module(module)


class _Backend(_Around):
    """`keras.backend` of a release with external backends: `K.tensorflow_backend` besides."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute it, then import that module, which becomes an attribute."""
        super().exec_module(module)
        importlib.import_module(TENSORFLOW_BACKEND)


class _OldBackend(_Around):
    """`keras.backend` of a release without external backends."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute it while the environment names a backend that it knows."""
        os.environ["KERAS_BACKEND"] = "tensorflow"
        try:
            super().exec_module(module)
        finally:
            os.environ["KERAS_BACKEND"] = self.ours
        vars(module)["_BACKEND"] = self.ours


class _Topology(_Around):
    """`keras.engine.topology` of a release without external backends. When it loads weights, it
    looks up whether the backend that wrote them flips kernels; its table has three backends.
    """

    def exec_module(self, module: ModuleType) -> None:
        """Execute it, then answer that question for it: of all backends, Theano's alone did."""
        super().exec_module(module)
        if "_need_convert_kernel" in vars(module):
            vars(module)["_need_convert_kernel"] = lambda original: original == "theano"


class _TensorflowBackend(_Around):
    """Fills `keras.backend.tensorflow_backend` with our names."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """An ordinary module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Take over the names of our module, but for those that Keras has itself."""
        before = os.environ["KERAS_BACKEND"]
        os.environ["KERAS_BACKEND"] = self.ours
        try:
            ours = importlib.import_module(self.ours)
        finally:
            os.environ["KERAS_BACKEND"] = before
        names = {name: getattr(ours, name) for name in ours.__all__ if name != "backend"}
        common = vars(sys.modules["keras.backend.common"])
        names |= {name: value for name, value in common.items() if name in names}
        vars(module).update(names, __all__=list(names), __getattr__=ours.__getattr__)


class _Finder(MetaPathFinder):
    """Finds the module that is ours, and those of Keras that something is done around."""

    def __init__(self) -> None:
        self.ours = ""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of such a module, else None."""
        if name == BACKEND:
            self.ours = os.environ.get("KERAS_BACKEND", "")
        if name not in (BACKEND, TENSORFLOW_BACKEND, TOPOLOGY) or not self.ours.startswith(PREFIX):
            return None
        if name == TENSORFLOW_BACKEND:
            return ModuleSpec(name, _TensorflowBackend(None, self.ours), is_package=False)
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.origin is not None and spec.loader is not None:
            spec.loader = _around(name, Path(spec.origin))(spec.loader, self.ours)
        return spec


def _around(name: str, file: Path) -> type[_Around]:
    """What is to be done around a module of Keras, as its release needs it."""
    if name == TOPOLOGY:
        return _Topology
    if not file.with_name("common.py").is_file():
        return _Around  # No classic Keras: Keras 3 chooses its backends by itself.
    loads = file.with_name("load_backend.py")
    text = (loads if loads.is_file() else file).read_text(encoding="utf-8")
    return _Backend if "import_module" in text else _OldBackend


def install() -> None:
    """Put the finder before Python's own, once."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
