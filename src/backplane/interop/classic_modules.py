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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

PREFIX = "backplane."
BACKEND = "keras.backend"
TENSORFLOW_BACKEND = "keras.backend.tensorflow_backend"
TOPOLOGY = "keras.engine.topology"


Execute = Callable[[ModuleType], None]


class _Loader(Loader):
    """A loader that loads a module of Keras as `loader` does, or an empty one if there is none, and
    fills it by `execute`.
    """

    def __init__(self, loader: Any, execute: Execute) -> None:
        self.loader = loader
        self.execute = execute

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As Keras' own loader does."""
        made: ModuleType | None = None if self.loader is None else self.loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module."""
        self.execute(module)


@contextmanager
def _named(backend: str) -> Iterator[None]:
    """Let the environment name that backend for a while."""
    before = os.environ["KERAS_BACKEND"]
    os.environ["KERAS_BACKEND"] = backend
    try:
        yield
    finally:
        os.environ["KERAS_BACKEND"] = before


def _backend(execute: Execute, ours: str, module: ModuleType) -> None:
    """`keras.backend` of a release with external backends gets our module as an attribute."""
    execute(module)
    importlib.import_module(TENSORFLOW_BACKEND)


def _old_backend(execute: Execute, ours: str, module: ModuleType) -> None:
    """`keras.backend` of a release without external backends, executed while the environment names
    a backend that it knows.
    """
    with _named("tensorflow"):
        execute(module)
    vars(module)["_BACKEND"] = ours


def _topology(execute: Execute, ours: str, module: ModuleType) -> None:
    """`keras.engine.topology` of a release without external backends.

    When it loads weights, it looks up in a table of three backends whether the one that wrote them
    flips kernels. Only Theano's did, so all other names are answered with no.
    """
    execute(module)
    if "_need_convert_kernel" in vars(module):
        vars(module)["_need_convert_kernel"] = lambda original: original == "theano"


def _tensorflow_backend(ours: str, module: ModuleType) -> None:
    """Fill `keras.backend.tensorflow_backend` with our names, but not those that Keras has."""
    with _named(ours):
        own = importlib.import_module(ours)
    names = {name: getattr(own, name) for name in own.__all__ if name != "backend"}
    common = vars(sys.modules["keras.backend.common"])
    names |= {name: value for name, value in common.items() if name in names}
    vars(module).update(names, __all__=list(names), __getattr__=own.__getattr__)


class _Finder(MetaPathFinder):
    """A finder of the module that is ours, and of those modules of Keras that need something done
    before or after them.
    """

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
            return ModuleSpec(
                name, _Loader(None, partial(_tensorflow_backend, self.ours)), is_package=False
            )
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.origin is None or spec.loader is None:
            return spec
        around = _around(name, Path(spec.origin))
        if around is not None:
            execute = partial(around, spec.loader.exec_module, self.ours)
            spec.loader = _Loader(spec.loader, execute)
        return spec


def _around(name: str, file: Path) -> Callable[[Execute, str, ModuleType], None] | None:
    """What this release of Keras needs done before and after a module of it is executed."""
    if name == TOPOLOGY:
        return _topology
    if not file.with_name("common.py").is_file():
        return None  # No classic Keras: Keras 3 chooses its backends by itself.
    loads = file.with_name("load_backend.py")
    text = (loads if loads.is_file() else file).read_text(encoding="utf-8")
    return _backend if "import_module" in text else _old_backend


def install() -> None:
    """Put the finder before Python's own, once."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
