"""Settings: float type, epsilon, image layout, and which engine was asked for.

They come, each overriding the one before, from the documented defaults, from `keras.json`, from
`KERAS_BACKEND` (engine only) and from the setters below. Nothing is read or written until `load`
is called, which `backplane.backend` does when it is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from backplane import _keras_json as keras_json
from backplane._keras_json import DIM_ORDERINGS, Settings
from backplane._watching import noted as noted
from backplane._watching import watched as watched
from backplane.known_engines import ENGINES, canonical, spelled
from backplane.project import install_command

if TYPE_CHECKING:
    import numpy.typing as npt

OURSELVES = ("backplane", "backplane.backend", "backplane.keras1")
"""Names by which classic Keras finds this package. They do not tell the package which engine to
use."""


class Choice(NamedTuple):
    """The engine to use: its name as configured, and what made the choice."""

    name: str
    origin: str

    @property
    def engine(self) -> str | None:
        """The canonical engine name (`theano` for `pytensor`); None for an external module."""
        return canonical(self.name)

    @property
    def announcement(self) -> str:
        """The line for stderr: `Using TensorFlow backend.` It also names the library that stands in
        for Theano or CNTK, and the reason, if nobody asked for the engine.
        """
        if self.engine is None:
            return f"Using {self.name} backend."
        known = ENGINES[self.engine]
        notes = [known.successor, self.origin if self.origin == FALLBACK else ""]
        more = "; ".join([note for note in notes if note])
        return f"Using {known.title} backend{f' ({more})' if more else ''}."


FALLBACK = "the first installed engine: nothing is configured and TensorFlow is not installed"


class _State:
    def __init__(self) -> None:
        self.settings = Settings()
        # The file whose `backend` was chosen by a person; None if it was not, or there is none.
        self.chosen_in: str | None = None
        # Names that a setter was called for: `load` leaves these alone, whenever it comes.
        self.touched: frozenset[str] = frozenset()
        # The name that `choose_engine` settled on.
        self.in_use: str | None = None
        # Who keeps float type, epsilon and image data format instead of this module (`follow`).
        self.owner: Any = None


_state = _State()


# The engine -----------------------------------------------------------------------------------


def backend() -> str:
    """The name of the engine in use, as configured.

    Returns:
        String: what `choose_engine` settled on; before that, what is configured.

    Example:
        >>> from backplane import config
        >>> config.backend()
        'tensorflow'
    """
    return _state.in_use or spelled(os.environ.get("KERAS_BACKEND") or _state.settings.backend)


def choose_engine(installed: Callable[[str], bool]) -> Choice:
    """Settle which engine serves: `KERAS_BACKEND`, else `keras.json`, else the first installed.

    A file that equals in every setting what `load` writes when there is none was chosen by nobody,
    so its `tensorflow` is a default that gives way where TensorFlow is not installed. The choice is
    remembered: `backend` returns its name.

    Args:
        installed: tells for a canonical engine name whether its library can be found. It should
            look (`importlib.util.find_spec`), not import.

    Returns:
        The choice. A name that is no engine of ours is taken for an external module, unchecked.

    Raises:
        ImportError: if the library of an engine asked for by name is missing.

    Example:
        >>> from backplane import config
        >>> config.choose_engine(lambda name: name in {"jax", "numpy"}).name
        'jax'
        >>> config.choose_engine(lambda name: True).announcement
        'Using TensorFlow backend.'
    """
    choice = next((c for c in _asked() if c.name not in OURSELVES), None) or _first(installed)
    engine = choice.engine
    if engine is not None and not installed(engine):
        _raise_missing(choice, engine, installed)
    _state.in_use = choice.name
    return choice


def _asked() -> Iterator[Choice]:
    """The engines that a person asked for. The source that counts most comes first."""
    if name := os.environ.get("KERAS_BACKEND"):
        yield Choice(spelled(name), "KERAS_BACKEND")
    if _state.chosen_in is not None:
        yield Choice(spelled(_state.settings.backend), _state.chosen_in)


def _first(installed: Callable[[str], bool]) -> Choice:
    default = Settings().backend
    if installed(default):
        return Choice(default, "the default")
    return Choice(next(_preferred(installed), "numpy"), FALLBACK)


def _preferred(installed: Callable[[str], bool]) -> Iterator[str]:
    """The installed engines, the most preferred first: NumPy, which always is there, comes last."""
    return filter(installed, sorted(ENGINES, key=lambda name: name == "numpy"))


def _raise_missing(choice: Choice, engine: str, installed: Callable[[str], bool]) -> NoReturn:
    there = ", ".join(_preferred(installed))
    raise ImportError(
        f"{choice.origin} asks for the engine {choice.name!r}, whose library is not installed. "
        f"Install it with: {install_command(engine)}. "
        f"Or ask for an installed one: {there}."
    )


def override_backend(name: str) -> Callable[[], None]:
    """Let `backend` answer with that name until the returned function is called.

    Args:
        name: as in `choose_engine`.

    Example:
        >>> from backplane import config
        >>> undo = config.override_backend("jax")
        >>> config.backend()
        'jax'
        >>> undo()
    """
    return _changed("in_use", name)


def _changed(name: str, value: Any) -> Callable[[], None]:
    undo = partial(setattr, _state, name, getattr(_state, name))
    setattr(_state, name, value)
    return undo


def load() -> None:
    """Take the settings from `keras.json`, or write it with the defaults if there is none.

    Values that a setter was called for stay as they are. If the file cannot be written, the
    defaults serve without one.

    Raises:
        ValueError: if the file is no JSON object or holds an unfit value; the message says file,
            line and key. The file stays as it was.
        OSError: if the file is there and cannot be read.

    Example:
        >>> from backplane import config
        >>> config.load()
        >>> config.floatx()
        'float32'
    """
    file = keras_json.path()
    try:
        found, chosen = keras_json.read(file)
    except FileNotFoundError:
        keras_json.write(file)
        found, chosen = Settings(), False
    kept = {name: getattr(_state.settings, name) for name in _state.touched}
    _state.settings = found._replace(**kept)
    _state.chosen_in = file if chosen else None


# Getters and setters --------------------------------------------------------------------------


def follow(owner: Any) -> Callable[[], None]:
    """Read and write float type, epsilon and image data format elsewhere, until the returned
    function is called.

    Args:
        owner: has the functions `floatx`, `set_floatx`, … of this module.

    Example:
        >>> from types import SimpleNamespace
        >>> from backplane import config
        >>> undo = config.follow(SimpleNamespace(floatx=lambda: "float16"))
        >>> config.floatx()
        'float16'
        >>> undo()
        >>> config.floatx()
        'float32'
    """
    return _changed("owner", owner)


def _owner() -> Any:
    """The object that the settings are read from and written to, if that is not this module: the
    one given to `follow`, or `keras.backend.common` of classic Keras, if that is loaded. Settings
    that are kept twice would drift apart.
    """
    if _state.owner is not None:
        return _state.owner
    common = sys.modules.get("keras.backend.common")
    # Ours may stand under that name (`backplane run`), and so may a package of Keras 3.
    return common if common is not None and "_FLOATX" in vars(common) else None


def _get(name: str) -> Any:
    return noted(_READERS[name])


def _read(name: str) -> Any:
    owner = _owner()
    if owner is None:
        return getattr(_state.settings, name)
    if name == "image_data_format" and not hasattr(owner, name):  # Keras 1
        return DIM_ORDERINGS[owner.image_dim_ordering()]
    return getattr(owner, name)()


_READERS = {name: partial(_read, name) for name in ("epsilon", "floatx", "image_data_format")}


def _set(name: str, value: object) -> None:
    owner = _owner()
    if name == "image_data_format" and owner is not None and not hasattr(owner, name):  # Keras 1
        owner.set_image_dim_ordering(_dim_ordering(value))
    elif owner is not None:
        getattr(owner, f"set_{name}")(value)
    if _state.owner is not None:
        return
    _state.settings = _state.settings._replace(**{name: value})  # type: ignore[arg-type]
    _state.touched |= {name}


def epsilon() -> float:
    """The fuzz factor of numeric expressions: what keeps them from dividing by zero.

    Returns:
        A float.

    Example:
        >>> from backplane import config
        >>> config.epsilon()
        1e-07
    """
    return float(_get("epsilon"))


def set_epsilon(e: float) -> None:
    """Set the fuzz factor of numeric expressions.

    Args:
        e: float, zero or above.

    Raises:
        ValueError: if it is no finite number, or negative.

    Example:
        >>> from backplane import config
        >>> config.set_epsilon(1e-5)
        >>> config.epsilon()
        1e-05
    """
    _set("epsilon", keras_json.check_epsilon(e))


def floatx() -> str:
    """The default float type.

    Returns:
        String: `'float16'`, `'float32'` or `'float64'`.

    Example:
        >>> from backplane import config
        >>> config.floatx()
        'float32'
    """
    return str(_get("floatx"))


def set_floatx(floatx: str) -> None:
    """Set the default float type.

    Args:
        floatx: `'float16'`, `'float32'` or `'float64'`.

    Raises:
        ValueError: if it is anything else.

    Example:
        >>> from backplane import config
        >>> config.set_floatx("float64")
        >>> config.floatx()
        'float64'
    """
    _set("floatx", keras_json.check_floatx(floatx))


def cast_to_floatx(x: npt.ArrayLike) -> npt.NDArray[np.floating[Any]]:
    """Cast an array to the default float type.

    Args:
        x: NumPy array, or what NumPy makes one of.

    Returns:
        NumPy array of the type `floatx()`; `x` itself if it is one already.

    Example:
        >>> import numpy as np
        >>> from backplane import config
        >>> config.cast_to_floatx(np.array([1.0, 2.0])).dtype
        dtype('float32')
    """
    return np.asarray(x, dtype=floatx())


def image_data_format() -> str:
    """The default image data format.

    Returns:
        String: `'channels_first'` or `'channels_last'`.

    Example:
        >>> from backplane import config
        >>> config.image_data_format()
        'channels_last'
    """
    return str(_get("image_data_format"))


def set_image_data_format(data_format: str) -> None:
    """Set the default image data format.

    Args:
        data_format: `'channels_first'` or `'channels_last'`.

    Raises:
        ValueError: if it is anything else.

    Example:
        >>> from backplane import config
        >>> config.set_image_data_format("channels_first")
        >>> config.image_data_format()
        'channels_first'
    """
    _set("image_data_format", keras_json.check_data_format(data_format))


def normalize_data_format(value: Any) -> str:
    """A data format argument in its canonical form.

    Args:
        value: `'channels_first'` or `'channels_last'` in any case, or None for the default.

    Returns:
        `'channels_first'` or `'channels_last'`.

    Raises:
        ValueError: if it is anything else.

    Example:
        >>> from backplane import config
        >>> config.normalize_data_format(None), config.normalize_data_format("Channels_First")
        ('channels_last', 'channels_first')
    """
    if value is None:
        return image_data_format()
    return keras_json.check_data_format(value.lower() if isinstance(value, str) else value)


def image_dim_ordering() -> str:
    """The default image data format by its Keras 1 name.

    Returns:
        String: `'th'` (channels first) or `'tf'` (channels last).

    Example:
        >>> from backplane import config
        >>> config.image_dim_ordering()
        'tf'
    """
    return _dim_ordering(image_data_format())


def _dim_ordering(data_format: object) -> str:
    return next(old for old, new in DIM_ORDERINGS.items() if new == data_format)


def set_image_dim_ordering(dim_ordering: str) -> None:
    """Set the default image data format by its Keras 1 name.

    Args:
        dim_ordering: `'th'` (channels first) or `'tf'` (channels last).

    Raises:
        ValueError: if it is anything else.

    Example:
        >>> from backplane import config
        >>> config.set_image_dim_ordering("th")
        >>> config.image_data_format()
        'channels_first'
    """
    _set("image_data_format", DIM_ORDERINGS[keras_json.check_dim_ordering(dim_ordering)])
