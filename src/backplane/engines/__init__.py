"""The registry of engines: finds them by name, loads them on first use, knows which one is current,
and tells whose tensor a value is.

An engine's module is imported when the engine is first needed, never before. Third-party engines
register under the entry point group `backplane.engines`: name → object, an `Engine` instance.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

import numpy as np

from backplane import config
from backplane.core import context, registry
from backplane.core.hooks import HOOKS
from backplane.core.mesh import MESHES, current_mesh
from backplane.engines.base import Engine
from backplane.known_engines import ALIASES, ENGINES, SPELLINGS, canonical
from backplane.project import install_command

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "backplane.engines"

LARGEST_ON_HEAP = (1 << 25) - (1 << 16)
"""Bytes: the largest block, within some thousands, that glibc is willing to keep on its heap."""

_loaded: dict[str, Engine] = {}
_default: list[Engine] = []


def names() -> list[str]:
    """The names of all known engines, installed or not. Third-party engines come last."""
    return [*ENGINES, *(point.name for point in _third_party())]


def _third_party() -> Iterable[EntryPoint]:
    """The entry points of other packages' engines."""
    # Imported here, because it takes longer than all of this package and few programs need it.
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def installed(name: str) -> bool:
    """Whether the engine's library can be found. This imports nothing."""
    name = canonical(name) or name
    if name in ENGINES:
        known = ENGINES[name]
        return all(_is_there(library, known.module) for library in known.libraries)
    return any(point.name == name for point in _third_party())


def _is_there(library: str, module: str) -> bool:
    """Whether a library can be found. A folder without modules of Python is none."""
    spec = importlib.util.find_spec(library)
    if spec is None or spec.origin is not None:
        return spec is not None
    return PathFinder.find_spec(module, spec.submodule_search_locations) is not None


def get(name: str) -> Engine:
    """The engine called `name`, which is loaded if necessary. ValueError if no engine has that
    name; ImportError, with the install command, if its library is missing.
    """
    if name not in _loaded:
        name = canonical(name) or name
    if name not in _loaded:
        _loaded[name] = _load(name)
    return _loaded[name]


def _keep_freed_memory() -> None:
    """Have the allocator of the system keep what a program frees for its next run, because memory
    that comes anew comes page by page. glibc keeps up to twice the largest block that was freed so
    far, or 64 MB. A training step of a translator takes 0.76 of the time on PyTorch and 0.73 on
    PyTensor, and one of a GPT of width 128 takes 0.95 on PyTorch.
    """
    np.empty(LARGEST_ON_HEAP, "uint8")


def _load(name: str) -> Engine:
    _keep_freed_memory()
    if name in ENGINES:
        folder = ENGINES[name].folder
        if not installed(name):
            raise ImportError(
                f"engine {name!r} needs the library {folder!r}, which is not installed: "
                + install_command(name)
            )
        with context.uncollected():
            engine: Engine = importlib.import_module(f"backplane.engines.{folder}").ENGINE
            # Otherwise the collector goes through the library's objects while the first graphs are
            # built. With PyTorch that is two fifths of our own work on a ResNet-50.
            context.make_old()
        return engine
    for point in _third_party():
        if point.name == name:
            return point.load()
    known = ", ".join(names())
    raise ValueError(f"no engine is called {name!r}{suggestion(name)}; there are {known}")


def suggestion(name: str) -> str:
    """` (did you mean 'numpy'?)` if an engine's name is almost `name`; otherwise nothing."""
    known = [*names(), *ALIASES, *SPELLINGS]
    return registry.suggestion(name.strip().lower(), known)


def current() -> Engine:
    """The engine in force: that of the innermost `use`, or else the configured one."""
    engine: Engine = context.current().engine or (_default or _configure())[0]
    return engine


def _configure() -> list[Engine]:
    """`_default`, with the configured engine in it."""
    choice = configured()
    _default.append(get(choice.engine or choice.name))
    return _default


def for_programs() -> Engine:
    """The engine that compiles and runs functions: the one in force, on the device or over the mesh
    in force. ValueError if it cannot compute on such a mesh, or if there is a device too.
    """
    now = context.current()
    engine: Engine = now.engine or (_default or _configure())[0]
    if now.device is not None and now.device.name == engine.name:
        engine = now.device
    if not MESHES or (mesh := current_mesh()) is None:
        return engine
    if engine.device is not None:
        raise ValueError(
            f"K.device: programs run on {engine.device!r} or on the mesh {mesh}, not on both"
        )
    return engine.on_mesh(mesh)


def is_default(engine: Engine) -> bool:
    """Whether `engine` is the one that serves outside of `use`."""
    return _default[:1] == [engine]


DEFAULT_CHANGED: list[Callable[[], None]] = []
"""Called after `set_default`, for those who remember what `current` was outside `use`."""


def configured() -> config.Choice:
    """The engine that the configuration asks for. ImportError if its library is missing."""
    return config.choose_engine(installed)


def is_external(choice: config.Choice) -> bool:
    """Whether the choice names somebody else's module: no engine of ours, none registered."""
    return choice.engine is None and not installed(choice.name)


def unknown(choice: config.Choice) -> str:
    """The message if that module cannot be found."""
    return (
        f"{choice.origin} asks for the backend {choice.name!r}, which is neither an engine nor a "
        f"module that can be found{suggestion(choice.name)}. The engines are {', '.join(names())}."
    )


def set_default(engine: Engine) -> None:
    """Make `engine` the one in force outside of `use`."""
    _default[:] = [engine]
    for tell in DEFAULT_CHANGED:
        tell()


def override_default(engine: Engine) -> Callable[[], None]:
    """Make `engine` the configured one, until the returned function is called."""
    before = _default[:]
    _default[:] = [engine]
    undo_backend = config.override_backend(engine.name)

    def undo() -> None:
        _default[:] = before
        undo_backend()

    return undo


@contextmanager
def use(name: str) -> Iterator[Engine]:
    """Context manager: everything inside is built for, and runs on, the engine called `name`."""
    engine = get(name)
    with context.changed(engine=engine):
        yield engine


def engine_of(value: object) -> Engine | None:
    """The engine whose tensor `value` is, or None. Only imported libraries are asked."""
    kind = type(value)
    name = _owners.get(kind)
    if name is None:
        name = _owners[kind] = _find_owner(value)
    return get(name) if name else None


_owners: dict[type, str] = {}


def meet(*names: str) -> None:
    """Load these engines if their libraries are in use already: the libraries then know our
    tensors. Without names, the engines whose libraries have to know them beforehand.
    """
    for name in names or INTRODUCED:
        if name not in _loaded and ENGINES[name].folder in sys.modules:
            get(name)


INTRODUCED = [name for name, known in ENGINES.items() if known.introduced]


def _find_owner(value: object) -> str:
    roots = {base.__module__.partition(".")[0] for base in type(value).__mro__}
    for name, known in ENGINES.items():
        asked = name != "numpy" and sys.modules.get(known.folder) is not None
        if asked and roots & {known.folder, *known.values_from} and get(name).owns(value):
            return name
    for name, engine in _loaded.items():
        if name not in ENGINES and engine.owns(value):
            return name
    return ""


def sparse_parts(value: Any) -> Any:
    """The parts of a sparse tensor of an engine's library; anything else as it is."""
    root = type(value).__module__.partition(".")[0]
    for name, known in ENGINES.items():
        if known.folder == root:
            return get(name).sparse_parts(value)
    return value


HOOKS["engine_of"] = engine_of
