"""The file `keras.json`: where it is, what it may hold, reading it, and writing the default one."""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from numbers import Real
from typing import Any, NamedTuple

from backplane import _files

# Not `json`, unless a person wrote the file, nor `pathlib` and `dataclasses`: nothing else that a
# small program on NumPy imports needs them, and together they take 6 ms.

FLOATX = ("float16", "float32", "float64")
DATA_FORMATS = ("channels_first", "channels_last")
OWN_BACKEND = "backplane_backend"
"""The key for an engine that Keras 3 does not have. `import keras` fails for such a name under
`backend`, and Keras leaves keys alone that it does not know."""
DIM_ORDERINGS = {"th": "channels_first", "tf": "channels_last"}
"""Keras 1's names for the data formats."""


class Settings(NamedTuple):
    """The content of `keras.json`, with the documented defaults in the documented order."""

    image_data_format: str = "channels_last"
    epsilon: float = 1e-7
    floatx: str = "float32"
    backend: str = "tensorflow"


_LINES = [
    f'    "{k}": "{v}"' if isinstance(v, str) else f'    "{k}": {v}'
    for k, v in Settings()._asdict().items()
]
DEFAULT_TEXT = "\n".join(["{", ",\n".join(_LINES), "}", ""])
"""The default settings as `json.dumps` with an indent of 4 writes them."""


def path() -> str:
    """The place where `keras.json` is looked for.

    Returns:
        The file in the folder `KERAS_HOME`; else in `.keras` in the home folder; else, where no
        file is there and none can be written, in a folder of this user's among the temporary files.

    Example:
        >>> os.path.basename(path())
        'keras.json'
    """
    if given := os.environ.get("KERAS_HOME"):
        return os.path.join(os.path.expanduser(given), "keras.json")
    home = os.path.expanduser("~")
    usual = os.path.join(home, ".keras", "keras.json")
    if os.access(home, os.W_OK) or os.path.exists(usual):
        return usual
    # Where all users share one folder of temporary files, each has a folder of their own in it.
    user = f"-{os.getuid()}" if hasattr(os, "getuid") else ""
    # Imported here: it brings the decompressors and `random`, which `import` need not wait for.
    import tempfile

    return os.path.join(tempfile.gettempdir(), f".keras{user}", "keras.json")


def write(file: str) -> None:
    """Put the default settings into `file` in one step: nobody ever reads half of them.

    Where that is not possible (a read-only or full disk), nothing happens: it must not keep anyone
    from working.

    Args:
        file: `keras.json`, which must be absent; its folder is made.

    Example:
        >>> from tempfile import mkdtemp
        >>> file = os.path.join(mkdtemp(), "keras.json")
        >>> write(file)
        >>> with open(file, encoding="utf-8") as stream:
        ...     print(stream.read(), end="")
        {
            "image_data_format": "channels_last",
            "epsilon": 1e-07,
            "floatx": "float32",
            "backend": "tensorflow"
        }
    """
    with suppress(OSError):
        if os.path.islink(file):
            # It points nowhere just now, perhaps to a disk that is not mounted. It is not ours.
            return
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with _files.beside(file, DEFAULT_TEXT.encode()) as part:
            _place(part, file)


def _place(part: str, file: str) -> None:
    """Give the file `part` the name `file` too. `os.replace` would take the place of a file that
    somebody has made meanwhile.
    """
    try:
        os.link(part, file)
    except FileExistsError:
        pass
    except (OSError, AttributeError):  # a disk without links: exclusive, if not in one step
        with open(file, "xb") as stream:
            try:
                stream.write(DEFAULT_TEXT.encode())
                stream.flush()
            except BaseException:
                os.unlink(file)
                raise


def read(file: str) -> tuple[Settings, bool]:
    """The settings in `file`, and whether a person chose the engine there.

    Args:
        file: `keras.json`.

    Returns:
        The settings, with defaults for keys that are absent; and whether `backend` is among those
        given. A file that says in every setting what `write` writes was chosen by nobody, so there
        the second value is False.

    Raises:
        FileNotFoundError: if there is no such file.
        OSError: if it cannot be read.
        ValueError: if it holds no JSON object, or an unfit value: says file, line and key.

    Example:
        >>> from tempfile import mkdtemp
        >>> file = os.path.join(mkdtemp(), "keras.json")
        >>> with open(file, "w", encoding="utf-8") as stream:
        ...     _ = stream.write('{"floatx": "float64", "backend": "jax"}')
        >>> settings, chosen = read(file)
        >>> settings.floatx, settings.backend, chosen
        ('float64', 'jax', True)
    """
    content = _content(file)
    if content == DEFAULT_TEXT.encode():
        return Settings(), False
    text, given = _parse(file, content)
    values = {}
    for key, (name, check) in _CHECKS.items():
        if key in given:
            try:
                values[name] = check(given[key])
            except ValueError as error:
                line = _line_of(key, text)
                raise ValueError(f"{file}, line {line}, key {key!r}: {error}") from None
    settings = Settings(**values)
    written_by_us = len(values) == len(settings) and settings == Settings()
    return settings, ("backend" in given or OWN_BACKEND in given) and not written_by_us


def given(file: str) -> dict[str, object]:
    """Everything that `file` holds, unchecked, by key. The errors are those of `read`.

    Example:
        >>> from tempfile import mkdtemp
        >>> file = os.path.join(mkdtemp(), "keras.json")
        >>> write(file)
        >>> given(file)["backend"]
        'tensorflow'
    """
    return _parse(file, _content(file))[1]


def _content(file: str) -> bytes:
    try:
        # A FIFO would keep us waiting for somebody to write into it.
        waits = stat.S_ISFIFO(os.stat(file).st_mode)
        if not waits:
            with open(file, "rb") as stream:
                content = stream.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        # OSError picks the fitting subclass (PermissionError, …) from the number.
        raise OSError(
            error.errno, f"the settings cannot be read ({error.strerror})", file
        ) from error
    if waits:
        raise OSError(f"the settings cannot be read (it is a FIFO): {file!r}")
    return content


def _parse(file: str, content: bytes) -> tuple[str, dict[str, object]]:
    import json

    try:
        # Windows editors begin a file with a byte order mark, which "utf-8-sig" drops.
        text = content.decode("utf-8-sig")
        given = json.loads(text)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{file}, line {line}: not UTF-8 text ({error.reason})") from error
    except json.JSONDecodeError as error:
        keys = re.findall(r'"(\w+)"\s*:', error.doc[: error.pos])
        where = f", at key {keys[-1]!r}" if keys else ""
        raise ValueError(
            f"{file}, line {error.lineno}, column {error.colno}{where}: not JSON ({error.msg})"
        ) from error
    except (ValueError, RecursionError) as error:
        # A number of thousands of digits, or as many brackets.
        raise ValueError(f"{file}: not settings ({error})") from error
    if not isinstance(given, dict):
        raise ValueError(f"{file}, line 1: expected an object {{…}}, not {text.strip()[:40]!r}")
    return text, given


def _line_of(key: str, text: str) -> int:
    # The last one: where a key is given twice, that is the value JSON readers take.
    places = [match.start() for match in re.finditer(rf'"{key}"\s*:', text)]
    return text.count("\n", 0, places[-1]) + 1 if places else 1


def _one_of(accepted: tuple[str, ...], what: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if isinstance(value, str) and value in accepted:
            return value
        raise ValueError(f"{what} must be one of {', '.join(map(repr, accepted))}, not {value!r}")

    return check


check_floatx = _one_of(FLOATX, "floatx")
check_data_format = _one_of(DATA_FORMATS, "the image data format")
check_dim_ordering = _one_of(tuple(DIM_ORDERINGS), "the image dim ordering")


def check_epsilon(value: object) -> float:
    """`value` as a float if it can serve as epsilon; ValueError otherwise."""
    with suppress(OverflowError):
        # bool is a number to Python; in a settings file it is a mistake.
        if not isinstance(value, bool) and isinstance(value, Real):
            number = float(value)
            if math.isfinite(number) and number >= 0:
                return number
    raise ValueError(f"epsilon must be a finite number, zero or above, not {value!r}")


def check_backend(value: object) -> str:
    """`value` if it can be the name of an engine or of a module; ValueError otherwise."""
    if isinstance(value, str) and value:
        return value
    raise ValueError(f"backend must be the name of an engine or a module, not {value!r}")


# Key in the file → setting and its check. Later ones win, so Keras 1's key comes first. Other keys
# are left alone: Keras itself keeps more in this file.
_CHECKS: Mapping[str, tuple[str, Callable[[object], Any]]] = {
    "image_dim_ordering": ("image_data_format", lambda v: DIM_ORDERINGS[check_dim_ordering(v)]),
    "image_data_format": ("image_data_format", check_data_format),
    "epsilon": ("epsilon", check_epsilon),
    "floatx": ("floatx", check_floatx),
    "backend": ("backend", check_backend),
    OWN_BACKEND: ("backend", check_backend),
}

KEYS = tuple(_CHECKS)
"""The keys that are read."""
