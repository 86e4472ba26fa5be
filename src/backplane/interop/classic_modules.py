"""Modules of classic Keras that Backplane replaces or completes where it is Keras' backend.

`install` puts a finder before Python's. It acts only if `KERAS_BACKEND` names a module of Backplane
and the `keras` that is found is a classic one:

- `keras.backend.tensorflow_backend` is our namespace, without TensorFlow: scripts import it for
  `get_session` and the like. So are `keras.backend.theano_backend` and `cntk_backend`.
- `keras.backend` of Keras 2.3 lists the names that it takes from a backend, and leaves out those
  that only TensorFlow had (`get_session`, `clear_session`) or that 2.3 removed
  (`image_dim_ordering`). It gets all names of ours.
- `batch_dot` before Keras 2.3 on TensorFlow took all axes but the last two of tensors with four
  axes or more for those of the samples, against its own documentation. Programs of that time rely
  on it.
- `K.backend()` tells a program the name in `BACKPLANE_KERAS_NAME`, if that is set; Keras itself
  hears the true one. Many programs refuse every name but those of Keras' own backends.
- Keras 2.1 and older know no external backends. While their `keras.backend` is imported,
  `KERAS_BACKEND` is `tensorflow`, so that it takes its names from that module of ours; afterwards
  `K.backend()` says the true name, as in Keras 2.2 and 2.3.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from backplane import _keras_json as keras_json
from backplane import config, engines
from backplane.core.graph import Tensor
from backplane.ops.lift import promoted
from backplane.ops.linear import matmul
from backplane.ops.shaping import expand_dims, squeeze

PREFIX = "backplane."
BACKEND = "keras.backend"
TENSORFLOW_BACKEND = "keras.backend.tensorflow_backend"
BACKENDS = (TENSORFLOW_BACKEND, "keras.backend.theano_backend", "keras.backend.cntk_backend")
TOPOLOGY = "keras.engine.topology"
CALLBACKS = "keras.callbacks"
RESOURCES = "pkg_resources"
KERNELS = ("keras.utils.np_utils", "keras.utils.conv_utils")
LAYERS = ("keras.layers.core", "keras.layers.convolutional")


Execute = Callable[[ModuleType], None]


@contextmanager
def _named(backend: str) -> Iterator[None]:
    """Let the environment name that backend for a while, and `keras.json` none, as Keras reads it:
    releases before 2.2 refuse names that they do not know.
    """
    before, load = os.environ["KERAS_BACKEND"], json.load

    def without_backend(file: Any) -> Any:
        return {name: value for name, value in load(file).items() if name != "backend"}

    os.environ["KERAS_BACKEND"] = backend
    json.load = without_backend  # type: ignore[assignment]
    try:
        yield
    finally:
        os.environ["KERAS_BACKEND"], json.load = before, load


def _backend(execute: Execute, ours: str, module: ModuleType) -> None:
    """`keras.backend` of a release with external backends gets our module as an attribute, and the
    names that Keras takes from its own backends alone, such as `clear_session`.
    """
    try:
        execute(module)
    except ValueError as error:
        reason = error.__context__
        if isinstance(reason, ImportError):
            raise reason from None  # Keras says only that it cannot import the backend.
        raise
    own = vars(importlib.import_module(TENSORFLOW_BACKEND))
    vars(module).update({name: own[name] for name in own["__all__"] if name not in vars(module)})
    _of_its_time(module, ours)


def _old_backend(execute: Execute, ours: str, module: ModuleType) -> None:
    """`keras.backend` without external backends, while the environment names one it knows."""
    with _named("tensorflow"):
        execute(module)
    vars(module)["_BACKEND"] = ours
    _of_its_time(module, ours)


def _of_its_time(module: ModuleType, ours: str) -> None:
    """Give `keras.backend` the functions that its release, or a program, needs to differ."""
    told = os.environ.get("BACKPLANE_KERAS_NAME", ours)

    def backend() -> str:
        """The name of the backend."""
        asks = sys._getframe(1).f_globals.get("__name__", "")
        return ours if asks.partition(".")[0] == "keras" else told

    vars(module)["backend"] = backend
    # Names such as `K.tf`, which K answers or refuses with a reason.
    vars(module)["__getattr__"] = vars(importlib.import_module(TENSORFLOW_BACKEND))["__getattr__"]
    folder = Path(str(module.__file__)).parents[1]
    text = (folder / "__init__.py").read_text(encoding="utf-8")
    version = re.search(r"__version__ = .(\d+)\.(\d+)", text)
    if version is not None and (int(version[1]), int(version[2])) < (2, 3):
        documented = vars(module)["batch_dot"]
        vars(module)["batch_dot"] = functools.partial(_batch_dot, documented)


def _batch_dot(documented: Callable[..., Any], x: Any, y: Any, axes: Any = None) -> Any:
    """`K.batch_dot` as Keras before 2.3 computed it on TensorFlow."""
    x, y = promoted(x, y)
    rank = y.ndim
    if rank < max(x.ndim, 4):  # TensorFlow failed where `x` has more axes.
        return documented(x, y, axes=axes)
    a, b = (axes, axes) if isinstance(axes, int) else axes or (rank - 1, rank - 2)
    # Single axes at the end of `x` make up for those that it lacks, and leave the result again.
    wide = expand_dims(x, axes=tuple(range(x.ndim, rank))) if x.ndim < rank else x
    product = matmul(wide, y, transpose_x=a != rank - 1, transpose_y=b == rank - 1)
    return squeeze(product, axes=tuple(range(x.ndim - 1, rank - 1)))


def _topology(execute: Execute, ours: str, module: ModuleType) -> None:
    """`keras.engine.topology` of a release without external backends.

    When it loads weights, it looks up in a table of three backends whether the one that wrote them
    flips kernels. Only Theano's did, so all other names are answered with no.
    """
    execute(module)
    if "_need_convert_kernel" in vars(module):
        vars(module)["_need_convert_kernel"] = lambda original: original == "theano"


def _callbacks(execute: Execute, ours: str, module: ModuleType) -> None:
    """`keras.callbacks` of Keras 1, which imports `parse_version`, gone from setuptools 82."""
    if importlib.util.find_spec(RESOURCES) is not None:
        return execute(module)
    resources = ModuleType(RESOURCES)
    vars(resources)["parse_version"] = lambda text: importlib.import_module(
        "packaging.version"
    ).parse(text)
    sys.modules[RESOURCES] = resources
    try:
        execute(module)
    finally:
        del sys.modules[RESOURCES]


class _Kernel(np.ndarray):
    """An array that takes a list of slices as its index, as arrays did before NumPy 1.23."""

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(tuple(index) if isinstance(index, list) else index)


def _kernels(execute: Execute, ours: str, module: ModuleType) -> None:
    """The module of `convert_kernel`, which indexes the kernel with a list of slices."""
    execute(module)
    convert = vars(module).get("convert_kernel")
    if convert is not None:

        @functools.wraps(convert)
        def convert_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            return convert(np.asarray(kernel).view(_Kernel), *args, **kwargs)

        vars(module)["convert_kernel"] = convert_kernel


def _is_keras_1() -> bool:
    return "image_data_format" not in vars(sys.modules["keras.backend.common"])


class _AsTensorFlow(ModuleType):
    """`keras.backend` that says that it is TensorFlow."""

    _BACKEND = "tensorflow"

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.modules[BACKEND], name)

    def backend(self) -> str:
        """The name of TensorFlow."""
        return self._BACKEND


def _layers(execute: Execute, ours: str, module: ModuleType) -> None:
    """Layers that do more on TensorFlow than elsewhere: `Lambda` infers its shape there, and in
    Keras 1 separable convolutions run. Keras 1 knows no third backend.
    """
    execute(module)
    if _is_keras_1():
        vars(module)["K"] = _AsTensorFlow(BACKEND)
    elif "Lambda" in vars(module):
        _infer_shapes(vars(module)["Lambda"], vars(module)["K"])


def _infer_shapes(layer: Any, backend: ModuleType) -> None:
    """Let `Lambda` find the shapes of its results by calling its function on placeholders, as Keras
    does on its own backends. On others it takes the shape of the input, which fails where the
    function returns several tensors.
    """
    given, called = layer.compute_output_shape, layer.call

    @functools.wraps(called)
    def call(self: Any, inputs: Any, mask: Any = None) -> Any:
        self._input_dtypes = (
            [backend.dtype(x) for x in inputs]
            if isinstance(inputs, list)
            else backend.dtype(inputs)
        )
        return called(self, inputs, mask)

    @functools.wraps(given)
    def compute_output_shape(self: Any, input_shape: Any) -> Any:
        if self._output_shape is not None:
            return given(self, input_shape)
        dtypes = getattr(self, "_input_dtypes", None)
        if isinstance(input_shape, list):
            kinds = dtypes if isinstance(dtypes, list) else [dtypes] * len(input_shape)
            x = [backend.placeholder(s, dtype=d) for s, d in zip(input_shape, kinds, strict=True)]
        else:
            x = backend.placeholder(input_shape, dtype=dtypes)
        y = self.call(x)
        return [backend.int_shape(t) for t in y] if isinstance(y, list) else backend.int_shape(y)

    layer.call, layer.compute_output_shape = call, compute_output_shape


def _empty(module: ModuleType) -> None:
    """Executes a module that has no code."""


def _tensorflow_backend(execute: Execute, ours: str, module: ModuleType) -> None:
    """Fill `keras.backend.tensorflow_backend` with our names, but not those that Keras has."""
    with _named(ours):
        own = importlib.import_module(ours)
    common = vars(sys.modules["keras.backend.common"])
    if _is_keras_1():
        own = importlib.import_module("backplane.keras1")
        Tensor.tells_phase = True
    names = {name: getattr(own, name) for name in own.__all__ if name != "backend"}
    names |= {name: value for name, value in common.items() if name in names}
    vars(module).update(names, __all__=list(names), __getattr__=own.__getattr__)


KERAS_OWN = ("", "tensorflow", "theano", "cntk")
"""The backends in Keras itself, and no choice."""


def in_file() -> str:
    """The backend that `keras.json` names; nothing if it names none or there is no file."""
    try:
        given = keras_json.given(keras_json.path())
    except FileNotFoundError:
        return ""
    return str(given.get(keras_json.OWN_BACKEND) or given.get("backend") or "")


def _check_named(backend: str) -> None:
    """ModuleNotFoundError, with the reason, for a name that no engine and no module has. Keras only
    says that it is unable to import the backend, or fails an assertion.
    """
    choice = config.Choice(backend, "KERAS_BACKEND")
    if not backend:
        choice = config.Choice(in_file(), keras_json.path())
    if choice.name in KERAS_OWN or choice.engine is not None:
        return
    package = choice.name.rpartition(".")[0]
    if package and importlib.util.find_spec(package.partition(".")[0]) is None:
        spec = None
    else:
        spec = importlib.util.find_spec(choice.name)
    if spec is None:
        raise ModuleNotFoundError(engines.unknown(choice), name=choice.name)


class _Finder(MetaPathFinder):
    """Finds the module that is ours, and modules of Keras that need care before or after them."""

    def __init__(self) -> None:
        self.ours = ""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of such a module, else None."""
        if name == BACKEND:
            self.ours = os.environ.get("KERAS_BACKEND", "")
            if any((Path(folder) / "backend" / "common.py").is_file() for folder in path or ()):
                _check_named(self.ours)
        if name not in CONCERNED or not self.ours.startswith(PREFIX):
            return None
        spec = ModuleSpec(name, Loader()) if name in BACKENDS else PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        around = _around(name, Path(spec.origin or name))
        if around is not None:
            loader: Any = spec.loader
            execute = getattr(loader, "exec_module", _empty)
            loader.exec_module = functools.partial(around, execute, self.ours)
        return spec


def _around(name: str, file: Path) -> Callable[[Execute, str, ModuleType], None] | None:
    """The work that this release of Keras needs before and after a module of it is executed."""
    if name in AROUND:
        return AROUND[name]
    if not file.with_name("common.py").is_file():
        return None  # No classic Keras: Keras 3 chooses its backends by itself.
    loads = file.with_name("load_backend.py")
    text = (loads if loads.is_file() else file).read_text(encoding="utf-8")
    return _backend if "import_module" in text else _old_backend


AROUND = {
    **dict.fromkeys(BACKENDS, _tensorflow_backend),
    TOPOLOGY: _topology,
    CALLBACKS: _callbacks,
    **dict.fromkeys(KERNELS, _kernels),
    **dict.fromkeys(LAYERS, _layers),
}
CONCERNED = frozenset((BACKEND, *AROUND))


def install() -> None:
    """Put the finder before Python's own, once."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
