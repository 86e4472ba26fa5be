"""The files of `K.save_state`, in the format safetensors.

A state is one file. Values whose parts are in several processes are in further files, one for each
process, in a folder beside it (`parts_folder`). The file of the state says which parts there are,
where in the values they belong, and their checksums. So it makes them valid by its own appearance.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backplane.backend._args import as_dtype
from backplane.core.variable import Block
from backplane.engines.base import Engine
from backplane.engines.roles.processes import texts
from backplane.project import install_command

# Modules that only files need are imported where they are used: `import` need not wait for them.

DIGEST = "backplane.sha256"
"""The key of the checksum over all names, dtypes, shapes and values, the table of parts and the
state of random numbers, in the file's metadata."""

RANDOM = "backplane.random"
"""The key of the state of random numbers."""

PARTS = "backplane.parts"
"""The key of the table of parts."""

DTYPES = {
    "BOOL": "bool",
    "BF16": "bfloat16",
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
"""Names of dtypes in the file → ours."""

OURS = re.compile(r"\.?[0-9a-f]{16}-\d+\.safetensors.*")
"""The names of files with parts, those of files that were not finished too."""


def told(engine: Engine, thing: object) -> list[Any]:
    """The messages of each process to the others: lists, dicts, texts and numbers."""
    return [json.loads(text) for text in texts(engine, json.dumps(thing))]


def library(what: str) -> Any:
    """The module safetensors. The ImportError begins with `what`."""
    try:
        import safetensors.numpy
    except ImportError as error:
        command = install_command("state")
        raise ImportError(f"{what} needs the library safetensors: {command}") from error
    return safetensors


class Part(NamedTuple):
    """A part of a value, as a process has saved it."""

    file: str
    """The name of the file in the folder of the parts."""
    key: str
    """Its name in that file."""
    start: Sequence[int]
    """The position of its first element in the value."""
    shape: Sequence[int]
    digest: str


class InParts:
    """A value whose parts are in several files."""

    def __init__(
        self, state: Path, dtype: str, shape: Sequence[int], parts: Sequence[Sequence[Any]]
    ) -> None:
        self.state, self.dtype, self.shape = state, np.dtype(as_dtype(dtype)), tuple(shape)
        self._parts = [Part(*part) for part in parts]
        self._read: dict[int, np.ndarray] = {}

    def read(self, region: Sequence[slice]) -> np.ndarray:
        """The elements in these slices, read from the parts that hold some of them. ValueError if
        one of these parts is missing, torn or altered.
        """
        pairs = zip(region, self.shape, strict=True)
        wanted = [(start, stop) for start, stop, _ in [part.indices(n) for part, n in pairs]]
        result = np.empty([stop - start for start, stop in wanted], self.dtype)
        for i, part in enumerate(self._parts):
            to, source = [], []
            for (start, stop), first, n in zip(wanted, part.start, part.shape, strict=True):
                a, b = max(start, first), min(stop, first + n)
                to.append(slice(a - start, b - start))
                source.append(slice(a - first, b - first))
            if all(s.start < s.stop for s in source):
                if i not in self._read:
                    self._read[i] = self._checked(part)
                result[tuple(to)] = self._read[i][tuple(source)]
        return result

    def whole(self) -> np.ndarray:
        """All elements."""
        return self.read([slice(None)] * len(self.shape))

    def _checked(self, part: Part) -> np.ndarray:
        file = parts_folder(self.state) / part.file
        whose = f", a part of the state {str(self.state)!r}"
        safetensors = library("K.load_state")
        try:
            with safetensors.safe_open(file, "np") as content:
                value: np.ndarray = content.get_tensor(part.key)
        except FileNotFoundError as error:
            raise ValueError(f"K.load_state: {str(file)!r} is missing{whose}") from error
        except (safetensors.SafetensorError, OSError) as error:
            raise ValueError(f"K.load_state: {str(file)!r} is damaged{whose}: {error}") from error
        if digest({part.key: value}) != part.digest or value.dtype != self.dtype:
            raise ValueError(
                f"K.load_state: {str(file)!r} was altered{whose}: the checksum of {part.key!r} "
                "does not match"
            )
        return value


class State(NamedTuple):
    """The content of a file."""

    whole: dict[str, np.ndarray]
    in_parts: dict[str, InParts]
    random: str | None
    """The result of `K.random_state`. Files that older versions have saved lack it."""


# --- writing --------------------------------------------------------------------------------------


def parts_folder(file: str | os.PathLike[str]) -> Path:
    """The folder of a state's parts."""
    return Path(f"{os.path.realpath(file)}.parts")


def packed(
    state: Mapping[str, np.ndarray],
    parts: Mapping[str, Any] | None = None,
    random: str | None = None,
) -> bytes:
    """The content of a file. `parts` is the table of parts that are in other files: for each name
    the arguments of `InParts`. `random` is the state of random numbers.
    """
    texts = {PARTS: json.dumps(parts) if parts else None, RANDOM: random}
    marks = {key: text for key, text in texts.items() if text is not None}
    marks[DIGEST] = digest(state, *marks.values())
    return library("K.save_state").numpy.save(dict(state), marks)


def write_parts(file: Path, values: Mapping[str, Sequence[Block]]) -> dict[str, list[Part]]:
    """Write one process's parts of values. Returns what the table says of them, by name. After an
    OSError nothing is left of them.
    """
    # Imported here: whatever imports K would wait for it.
    from backplane import _files

    parts_of: dict[str, list[Part]] = {name: [] for name in values}
    state: dict[str, np.ndarray] = {}
    for name, blocks in values.items():
        for start, block in blocks:
            key = f"{name} from {', '.join(map(str, start))}"
            state[key] = np.asarray(block, order="C")
            mark = digest({key: state[key]})
            parts_of[name].append(Part(file.name, key, start, block.shape, mark))
    if state:
        file.parent.mkdir(exist_ok=True)
        _files.replace(os.fspath(file), packed(state))
    return parts_of


def remove_other_parts(file: str, token: str) -> None:
    """Remove the parts of older states from the folder, and the folder if it is empty then. Those
    of the present state begin with `token`; it is empty if there are none.
    """
    folder = parts_folder(file)
    if not folder.is_dir():
        return
    for part in folder.iterdir():
        if OURS.fullmatch(part.name) and not (token and part.name.startswith(token)):
            part.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()


# --- reading --------------------------------------------------------------------------------------


def read(file: Path) -> State:
    """The state in a file. FileNotFoundError if there is none, ValueError if it is damaged or was
    altered.
    """
    safetensors = library("K.load_state")
    content = file.read_bytes()
    try:
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        state = {name: _array(**given) for name, given in safetensors.deserialize(content)}
    except (safetensors.SafetensorError, ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"K.load_state: {str(file)!r} is damaged, or is no saved state: {error}"
        ) from error
    marks = header.get("__metadata__", {})
    texts = [marks[key] for key in (PARTS, RANDOM) if key in marks]
    if marks.get(DIGEST) != digest(state, *texts):
        raise ValueError(
            f"K.load_state: {str(file)!r} was altered, or was not written by K.save_state: its "
            "checksum does not match"
        )
    parts = json.loads(marks.get(PARTS, "{}"))
    in_parts = {name: InParts(file, *given) for name, given in parts.items()}
    return State(state, in_parts, marks.get(RANDOM))


def _array(dtype: str, shape: Sequence[int], data: bytes) -> np.ndarray:
    return np.frombuffer(data, as_dtype(DTYPES[dtype])).reshape(shape).copy()


def digest(state: Mapping[str, np.ndarray], *texts: str) -> str:
    """The checksum over arrays, with their names, dtypes and shapes, and over texts."""
    import hashlib

    checksum = hashlib.sha256("".join(texts).encode())
    for name, value in sorted(state.items()):
        checksum.update(f"{name}\0{value.dtype.name}\0{value.shape}\0".encode())
        checksum.update(value.reshape(-1).view(np.uint8).data)
    return checksum.hexdigest()
