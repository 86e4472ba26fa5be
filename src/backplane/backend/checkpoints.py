"""Saving the values of variables to a file, and loading them again, on any engine."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from backplane import engines
from backplane.backend._args import as_dtype
from backplane.backend.state import batch_set_value
from backplane.core.variable import Variable, arrays
from backplane.engines.base import Engine

if TYPE_CHECKING:
    from pathlib import Path

# Modules that only files need are imported where they are used: `import` need not wait for them.

__all__ = ["load_state", "save_state"]

Named = Mapping[str, Variable] | Sequence[Variable]
"""Variables by name, or variables that are known by their own names."""

DIGEST = "backplane.sha256"
"""The key of the checksum over all names, dtypes, shapes and values, in the file's metadata."""

DTYPES = {
    "BOOL": "bool",
    "BF16": "bfloat16",
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
"""Names of dtypes in the file → ours."""

INSTALL = 'pip install "keras-backplane[state]"'


def save_state(path: str | os.PathLike[str], variables: Named) -> None:
    """Save the values of variables to a file, in one step.

    The file has the format safetensors, which other libraries read. The values are those of one
    moment: no update of another thread falls between them. They are first written to a file beside
    `path`, which takes its place when everything is on the disk. So `path` holds the old state or
    the new one, whatever happens meanwhile.

    The values are whole, however a mesh splits them, so they can be loaded on another mesh. With
    several processes, each calls this function. The first one writes, and all return when the file
    is there. An addition of Backplane.

    Args:
        path: The file's name.
        variables: A dict from names to variables, or a list of variables, which are saved under
            their own names. `K.variable` makes names unique within a process (`w`, `w_1`), so a
            dict is the better choice for programs that build a model more than once.

    Raises:
        ValueError: if two variables have the same name.
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
    # Imported here: whatever imports K would wait for it.
    from backplane import _files

    named = _by_name(variables, "K.save_state")
    values = arrays(list(named.values()))  # All processes of a mesh take part in this.
    state = {name: np.asarray(v, order="C") for name, v in zip(named, values, strict=True)}
    content = _library("K.save_state").numpy.save(state, {DIGEST: _digest(state)})
    engine, failed = _sharing(named.values()), None
    if engine.process == 0:
        try:
            _files.replace(os.fspath(path), content)
        except OSError as error:
            failed = error
    if engine.everyone(np.array([failed is not None])).any():
        raise failed or OSError(f"K.save_state: process 0 could not write {os.fspath(path)!r}")


def load_state(
    path: str | os.PathLike[str], variables: Named | None = None
) -> dict[str, np.ndarray]:
    """Load what `K.save_state` has saved, on the same engine or on another one.

    The file is checked before any variable changes. If all names, shapes and dtypes fit, all
    variables are set at once. An addition of Backplane.

    Args:
        path: The file; or a folder, whose newest complete file is taken. Each newer file that is
            torn or was altered is named in a warning.
        variables: As in `K.save_state`: the variables to set. Without them nothing is set.

    Returns:
        A dict from names to arrays: everything that the file holds.

    Raises:
        FileNotFoundError: if there is no such file, or no complete one in the folder.
        ValueError: if the file is torn or was altered, if it lacks one of the variables, or if a
            shape or dtype differs. No variable has changed then.
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

    given = Path(path)
    state = _newest(given) if given.is_dir() else _read(given)
    if variables is not None:
        named = _by_name(variables, "K.load_state")
        for name, variable in named.items():
            _check(name, variable, state)
        batch_set_value([(variable, state[name]) for name, variable in named.items()])
    return state


def _sharing(variables: Iterable[Variable]) -> Engine:
    """The engine over the mesh that holds one of the variables, or else the one in force."""
    for variable in variables:
        for engine in variable.values:
            if isinstance(engine, Engine) and engine.mesh is not None:
                return engine
    return engines.for_programs()


def _by_name(variables: Named, what: str) -> dict[str, Variable]:
    given: list[tuple[Any, Any]] = (
        list(variables.items())
        if isinstance(variables, Mapping)
        else [(getattr(variable, "name", None), variable) for variable in variables]
    )
    for name, variable in given:
        if not isinstance(name, str) or not isinstance(variable, Variable):
            raise TypeError(
                f"{what}: variables must be a list of variables, or a dict from names to "
                f"variables; got {name!r}: {type(variable).__name__}"
            )
    named = dict(given)
    if len(named) < len(given):
        [(twice, _)] = Counter(name for name, _ in given).most_common(1)
        raise ValueError(
            f"{what}: two variables are called {twice!r}; give a dict with a name for each"
        )
    return named


def _check(name: str, variable: Variable, state: Mapping[str, np.ndarray]) -> None:
    if name not in state:
        there = ", ".join(sorted(state)) or "nothing"
        raise ValueError(f"K.load_state: the file has no {name!r}; it holds {there}")
    value = state[name]
    fits = [n in (None, m) for n, m in zip(variable.spec.shape, value.shape, strict=False)]
    same_rank = len(variable.spec.shape) == value.ndim
    if not (same_rank and all(fits)) or value.dtype.name != variable.spec.dtype:
        raise ValueError(
            f"K.load_state: {name!r} is {value.dtype.name} {value.shape} in the file, and the "
            f"variable is {variable.spec.dtype} {tuple(variable.spec.shape)}"
        )


def _newest(folder: Path) -> dict[str, np.ndarray]:
    files = [file for file in folder.iterdir() if file.is_file() and not file.name.startswith(".")]
    for file in sorted(files, key=lambda file: file.stat().st_mtime_ns, reverse=True):
        try:
            return _read(file)
        except ValueError as error:
            warnings.warn(f"{error}; the file before it is tried", stacklevel=3)
    raise FileNotFoundError(f"K.load_state: no complete state in {str(folder)!r}")


def _read(file: Path) -> dict[str, np.ndarray]:
    import json

    library = _library("K.load_state")
    content = file.read_bytes()
    try:
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        state = {name: _array(**given) for name, given in library.deserialize(content)}
    except (library.SafetensorError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"K.load_state: {str(file)!r} is torn or no state: {error}") from error
    if header.get("__metadata__", {}).get(DIGEST) != _digest(state):
        raise ValueError(
            f"K.load_state: {str(file)!r} was altered, or K.save_state has not written it: its "
            "checksum does not fit"
        )
    return state


def _array(dtype: str, shape: Sequence[int], data: bytes) -> np.ndarray:
    return np.frombuffer(data, as_dtype(DTYPES[dtype])).reshape(shape).copy()


def _digest(state: Mapping[str, np.ndarray]) -> str:
    import hashlib

    digest = hashlib.sha256()
    for name, value in sorted(state.items()):
        digest.update(f"{name}\0{value.dtype.name}\0{value.shape}\0".encode())
        digest.update(value.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _library(what: str) -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise ImportError(f"{what} needs the library safetensors: {INSTALL}") from error
    return safetensors
