"""The engines that ship with Backplane, one row each.

All that has to know them by name reads these rows: the settings, the registry, the command line,
the scripts, the tests and the Makefile. Nothing is imported here, so that all of them can.
"""

from __future__ import annotations

from typing import NamedTuple


class KnownEngine(NamedTuple):
    """The facts about an engine before it is loaded.

    Attributes:
        title: The name that people know it by.
        folder: Its folder under `engines`, which is also the top-level module of its library.
        others: Further libraries that it needs.
        values_from: Further top-level modules whose objects may be, or derive from, its tensors.
        aliases: Other names for it, which `K.backend()` repeats as configured: the libraries that
            continue the documented ones.
        introduced: Whether its library must know our tensors before it first meets one, because it
            has no protocol for foreign ones.
        module: A module of the library, if its top-level one has no file of its own. Else any
            folder of that name would pass for the library.
        launcher: The command that starts its processes, one for each device, and the variable of
            the environment by which they know it.
        in_keras: Whether Keras 3 has a backend of that name, and so can read it in `keras.json`.
        spellings: What people also write for it; `K.backend()` answers with the documented name.
        successor: The library that really runs, if it goes by another name than the title's.
    """

    title: str
    folder: str
    others: tuple[str, ...] = ()
    values_from: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    spellings: tuple[str, ...] = ()
    introduced: bool = False
    launcher: tuple[str, str] | None = None
    in_keras: bool = True
    module: str = "__init__"
    successor: str = ""

    @property
    def libraries(self) -> tuple[str, ...]:
        """The top-level modules that must be installed."""
        return (self.folder, *self.others)


ENGINES = {
    "numpy": KnownEngine("NumPy", "numpy"),
    "tensorflow": KnownEngine(
        "TensorFlow", "tensorflow", values_from=("keras",), spellings=("tf",)
    ),
    "jax": KnownEngine("JAX", "jax", values_from=("jaxlib",), introduced=True),
    "torch": KnownEngine(
        "PyTorch", "torch", spellings=("pytorch",), launcher=("torchrun", "TORCHELASTIC_RUN_ID")
    ),
    "theano": KnownEngine(
        "Theano",
        "pytensor",
        aliases=("pytensor",),
        introduced=True,
        in_keras=False,
        successor="PyTensor",
    ),
    "cntk": KnownEngine(
        "CNTK",
        "onnxruntime",
        others=("onnx",),
        aliases=("onnxruntime",),
        in_keras=False,
        successor="ONNX Runtime",
    ),
    "mlx": KnownEngine("MLX", "mlx", module="core", in_keras=False),
}
"""By the name in `keras.json`, which is also that of the module bound to the engine
(`backplane.jax`) and of the extra that installs its library. When nothing is configured, the first
installed one after NumPy is taken: the order is that of preference. NumPy is always installed."""

ALIASES = {alias: name for name, known in ENGINES.items() for alias in known.aliases}
SPELLINGS = {written: name for name, known in ENGINES.items() for written in known.spellings}


def canonical(name: str) -> str | None:
    """The name under which an engine of Backplane is registered.

    Args:
        name: as in `keras.json` or `KERAS_BACKEND`. `backplane.jax`, by which classic Keras loads
            Backplane as an external backend, means `jax` here.

    Returns:
        One of `ENGINES`, or None: then it names a module of someone else's.

    Example:
        >>> canonical("pytensor"), canonical("backplane.jax"), canonical("my_package.my_module")
        ('theano', 'jax', None)
    """
    name = spelled(name.removeprefix("backplane."))
    name = ALIASES.get(name, name)
    return name if name in ENGINES else None


def spelled(name: str) -> str:
    """The name of an engine as documented; other names, which mean modules, stay as they are.

    Example:
        >>> spelled(" TensorFlow"), spelled("PyTorch"), spelled("My_Package")
        ('tensorflow', 'torch', 'My_Package')
    """
    plain = name.strip().lower()
    plain = SPELLINGS.get(plain, plain)
    return plain if plain in ENGINES or plain in ALIASES else name
