"""Saving the values of variables and the state of random numbers to a file, and loading them again,
on any engine.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from backplane import engines
from backplane.backend._args import as_flag, as_path
from backplane.backend.random import random_state as present_state
from backplane.backend.random import set_random_state
from backplane.core.graph import Tensor
from backplane.core.mesh import check_layout
from backplane.core.spec import Spec
from backplane.core.tracebacks import boundary
from backplane.core.variable import Variable, contents, hold
from backplane.engines.base import Engine
from backplane.engines.roles.processes import agree, texts

if TYPE_CHECKING:
    from pathlib import Path

    from backplane.backend._state_files import State

# Modules that only files need are imported where they are used: `import` need not wait for them.

__all__ = ["load_state", "save_state"]

Named = Mapping[str, Variable] | Sequence[Variable]
"""Variables by name, or variables that are known by their own names."""

T = TypeVar("T")


@boundary
def save_state(path: str | os.PathLike[str], variables: Named) -> None:
    """Save the values of variables, and the state of random numbers, to a file, in one step.

    The file has the format safetensors, which other libraries read. The values are those of one
    moment: no update of another thread falls between them. They are first written to a file beside
    `path`, which takes its place when everything is on the disk. So `path` holds the old state or
    the new one, whatever happens meanwhile. What `K.random_state` returns is saved with the values,
    so a program that loads them goes on with the same random numbers.

    With several processes, each calls this function, and all return when the state is there. The
    first one writes `path`. Values that lie on the mesh in parts are not put together: each process
    writes its parts to a file of its own in the folder `<path>.parts`, which belongs to `path`. The
    state can be loaded on any mesh and on a single device. An addition of Backplane.

    Args:
        path: The file's name.
        variables: A dict from names to variables, or a list of variables, which are saved under
            their own names. `K.variable` makes names unique within a process (`w`, `w_1`), so a
            dict is the better choice for programs that build a model more than once.

    Raises:
        ValueError: if two variables have the same name, or one has the name `__metadata__`, which
            the format keeps for itself.
        TypeError: if something else than a variable is given.
        OSError: if the file cannot be written. What was there before is still there.
        ImportError: if the library safetensors is missing.

    Example:
        >>> import os, tempfile
        >>> from backplane import backend as K
        >>> w = K.variable([1.0, 2.0], name="w")
        >>> path = os.path.join(tempfile.mkdtemp(), "state.safetensors")
        >>> K.save_state(path, [w])
        >>> K.set_value(w, [0.0, 0.0])
        >>> K.load_state(path, [w])
        {'w': array([1., 2.], dtype=float32)}
        >>> K.get_value(w)
        array([1., 2.], dtype=float32)
    """
    from backplane import _files
    from backplane.backend import _state_files

    named = _by_name(variables, "K.save_state")
    _state_files.library("K.save_state")
    engine = _sharing(named.values())
    agree(engine, "K.save_state: the list of names", "\n".join(named))
    found, random = contents(list(named.values()), engine, present_state)
    values = dict(zip(named, found, strict=True))
    split = {name: v for name, v in values.items() if isinstance(v, list)}
    whole = {n: np.asarray(v, order="C") for n, v in values.items() if not isinstance(v, list)}
    file, token, parts = as_path(path, "K.save_state: path"), "", {}
    if split:
        token = texts(engine, os.urandom(8).hex())[0]
        own = _state_files.parts_folder(file) / f"{token}-{engine.process}.safetensors"
        try:
            written = _in_all(engine, lambda: _state_files.write_parts(own, split), "K.save_state")
        except OSError:
            own.unlink(missing_ok=True)
            raise
        parts = _table(named, _state_files.told(engine, written))

    def finish() -> None:
        if engine.process == 0:
            _files.replace(file, _state_files.packed(whole, parts, random))
            _state_files.remove_other_parts(file, token)

    _in_all(engine, finish, "K.save_state")


def _table(
    variables: Mapping[str, Variable], written: Sequence[Mapping[str, list[Any]]]
) -> dict[str, tuple[Any, ...]]:
    """The table of parts, from those that each process has written."""
    specs = {name: variables[name].spec for name in written[0]}
    return {
        name: (spec.dtype, spec.shape, [part for parts in written for part in parts[name]])
        for name, spec in specs.items()
    }


@boundary
def load_state(
    path: str | os.PathLike[str],
    variables: Named | None = None,
    random_state: bool = True,
) -> dict[str, np.ndarray]:
    """Load what `K.save_state` has saved, on the same engine or on another one.

    The file is checked before any variable changes. If all names, shapes and dtypes fit, all
    variables are set at once. Random numbers then go on from the saved state, as after
    `K.set_random_state`: a run that is resumed has the losses of one that nothing has stopped. A
    file of an older version has no such state, and a warning says so.

    With several processes, each calls this function; if one of them cannot read what it needs, no
    variable changes in any. An addition of Backplane.

    Args:
        path: The file; or a folder, whose newest complete file is taken. Each newer file that is
            torn, altered or cannot be read is named in a warning.
        variables: As in `K.save_state`: the variables to set. Without them nothing is set.
        random_state: Whether the state of random numbers is set too. False is for weights that are
            only the start of something else.

    Returns:
        A dict from names to arrays: everything that the file holds. If values were saved in parts,
        and `variables` are given, only what had to be read as a whole.

    Raises:
        FileNotFoundError: if there is no such file, or no complete one in the folder.
        ValueError: if the file or one of its parts is damaged, missing or altered, if it lacks one
            of the variables, or if a shape or dtype differs. No variable has changed then.
        ImportError: if the library safetensors is missing.

    Example:
        >>> import os, tempfile
        >>> from backplane import backend as K
        >>> path = os.path.join(tempfile.mkdtemp(), "state.safetensors")
        >>> K.save_state(path, {"bias": K.zeros((2,))})
        >>> K.load_state(path)
        {'bias': array([0., 0.], dtype=float32)}
    """
    from pathlib import Path

    given = Path(as_path(path, "K.load_state: path"))
    with_random = as_flag(random_state, "K.load_state: random_state")
    if variables is None:
        return _newest(given, None, _whole) if given.is_dir() else _read(given, _whole)
    named = _by_name(variables, "K.load_state")
    engine = _sharing(named.values(), engines.for_programs())
    read = partial(_for_variables, named=named, engine=engine)
    if given.is_dir():
        loaded = _newest(given, engine, read)
    else:
        loaded = _in_all(engine, lambda: _read(given, read), "K.load_state")
    _in_all(engine, loaded.check, "K.load_state")
    hold(list(named.values()), loaded.values)
    if with_random and loaded.random is not None:
        set_random_state(loaded.random)
    elif with_random:
        warnings.warn(
            f"K.load_state: {os.fspath(path)!r} was saved without the state of random numbers, by "
            "an older version: random tensors go on from where they are",
            stacklevel=2,
        )
    return loaded.state


class _Loaded(NamedTuple):
    """The values that have been read for variables."""

    state: dict[str, np.ndarray]
    values: list[dict[Any, Any]]
    """For each variable what it is to hold."""
    random: str | None = None
    misfit: ValueError | None = None

    def check(self) -> None:
        """Raise the error if a value does not fit."""
        if self.misfit is not None:
            raise self.misfit


def _for_variables(state: State, named: Mapping[str, Variable], engine: Engine) -> _Loaded:
    """The values of variables. Processes of a mesh read the parts that their layouts need."""
    try:
        for name, variable in named.items():
            _check(name, variable, state, engine)
    except ValueError as error:
        return _Loaded({}, [], misfit=error)
    whole = dict(state.whole)
    values: list[dict[Any, Any]] = []
    for name, variable in named.items():
        if name in state.in_parts and engine.mesh is not None and any(variable.layout or ()):
            assert variable.layout is not None
            parts = state.in_parts[name]
            dtype = parts.dtype.name
            value = engine.assembled(parts.read, parts.shape, dtype, variable.layout)
            values.append({engine: value})
        else:
            if name not in whole:
                whole[name] = state.in_parts[name].whole()
            values.append({None: whole[name].copy()})  # The caller gets the array itself.
    return _Loaded(whole, values, state.random)


def _whole(state: State) -> dict[str, np.ndarray]:
    return state.whole | {name: value.whole() for name, value in state.in_parts.items()}


def _sharing(variables: Iterable[Variable], first: Engine | None = None) -> Engine:
    """The engine over a mesh: `first`, a variable's, or else the one in force."""
    held = [engine for variable in variables for engine in variable.values]
    for engine in (first, *held):
        if isinstance(engine, Engine) and engine.mesh is not None:
            return engine
    return engines.for_programs()


def _in_all(engine: Engine, attempt: Callable[[], T], what: str) -> T:
    """The result of `attempt`, if it succeeds in all processes that share the mesh. Else each of
    them gets the error.
    """
    failed: OSError | ValueError | None = None
    try:
        result = attempt()
    except (OSError, ValueError) as error:
        failed = error
    told = texts(engine, f"{type(failed).__name__}: {failed}" if failed else "")
    if failed is not None:
        raise failed
    for process, text in enumerate(told):
        if text:
            kind = ValueError if text.startswith("ValueError") else OSError
            raise kind(f"{what}: process {process} has failed with {text}")
    return result


def _by_name(variables: Named, what: str) -> dict[str, Variable]:
    wanted = "variables must be a list of variables, or a dict from names to variables"
    if isinstance(variables, Tensor) or not isinstance(variables, Iterable):
        raise TypeError(f"{what}: {wanted}; got {type(variables).__name__}")
    given: list[tuple[Any, Any]] = [(getattr(v, "name", None), v) for v in variables]
    if isinstance(variables, Mapping):
        given = list(variables.items())
    for name, variable in given:
        if not isinstance(name, str) or not isinstance(variable, Variable):
            raise TypeError(f"{what}: {wanted}; got {name!r}: {type(variable).__name__}")
    named = dict(given)
    if "__metadata__" in named:
        raise ValueError(f"{what}: in safetensors files, no value can have the name '__metadata__'")
    if len(named) < len(given):
        [(twice, _)] = Counter(name for name, _ in given).most_common(1)
        raise ValueError(
            f"{what}: two variables are called {twice!r}; give a dict with a name for each"
        )
    return named


def _check(name: str, variable: Variable, state: State, engine: Engine) -> None:
    """Raise a ValueError if the state has no value that fits."""
    value = state.in_parts.get(name, state.whole.get(name))
    if value is None:
        there = ", ".join(sorted([*state.whole, *state.in_parts])) or "nothing"
        raise ValueError(f"K.load_state: the file has no {name!r}; it holds {there}")
    if not variable.spec.accepts(Spec(value.shape, value.dtype.name)):
        raise ValueError(
            f"K.load_state: {name!r} is {value.dtype.name} {value.shape} in the file, but the "
            f"variable is {variable.spec.dtype} {tuple(variable.spec.shape)}"
        )
    if engine.mesh is not None and variable.layout is not None:
        check_layout(variable.layout, value.shape, engine.mesh, f"K.load_state: {name!r}")


def _newest(folder: Path, engine: Engine | None, use: Callable[[State], T]) -> T:
    """The result of `use` for the newest file, the same in all processes, for which it succeeds."""
    files = [file for file in folder.iterdir() if file.is_file() and not file.name.startswith(".")]
    names = [f.name for f in sorted(files, key=lambda f: f.stat().st_mtime_ns, reverse=True)]
    if engine is not None:
        from backplane.backend import _state_files

        names = _state_files.told(engine, names)[0]
    for name in names:
        attempt = partial(_read, folder / name, use)
        try:
            return attempt() if engine is None else _in_all(engine, attempt, "K.load_state")
        except (ValueError, OSError) as error:
            warnings.warn(f"{error}; the file before it is tried", stacklevel=3)
    raise FileNotFoundError(f"K.load_state: no complete state in {str(folder)!r}")


def _read(file: Path, use: Callable[[State], T]) -> T:
    """The result of `use` for the state in a file, which may be replaced meanwhile."""
    from backplane.backend import _state_files

    while True:
        before = file.stat()
        try:
            return use(_state_files.read(file))
        except ValueError:
            now = file.stat()
            if (now.st_ino, now.st_mtime_ns) == (before.st_ino, before.st_mtime_ns):
                raise
