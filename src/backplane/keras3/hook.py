"""The import hook: Keras 3 finds Backplane as one of its backends.

Keras picks its backend from a closed list, by chains of `if backend() == "tensorflow": … elif …`.
Seven modules end such a chain with an error. While they are imported, their syntax trees get one
more branch, made of the branch for NumPy. And the modules `keras.src.backend.backplane.…` exist:
they hold the functions of `backplane.keras3`.
"""

from __future__ import annotations

import ast
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from backplane import config as backplane_config
from backplane import engines
from backplane.keras3 import inventory
from backplane.keras3.inventory import SERVED
from backplane.known_engines import canonical

NAME = "backplane"
"""The result of `keras.backend.backend()`."""

PREFIX = f"keras.src.backend.{NAME}"

AT_TOP = {
    "core": (
        "IS_THREAD_SAFE", "SUPPORTS_COMPLEX_DTYPES", "SUPPORTS_RAGGED_TENSORS",
        "SUPPORTS_SPARSE_TENSORS", "Variable", "cast", "compute_output_spec", "cond",
        "convert_to_numpy", "convert_to_tensor", "device_scope", "is_tensor", "name_scope",
        "random_seed_dtype", "shape", "vectorized_map",
    ),
    "rnn": ("bidirectional_gru", "bidirectional_lstm", "cudnn_ok", "gru", "lstm", "rnn"),
}  # fmt: skip
"""The names that the package of the backend itself has, by module."""

_installed: list[MetaPathFinder] = []


def install() -> None:
    """Put the finder in place. To install twice is to install once."""
    if not _installed:
        _installed.append(Finder())
        sys.meta_path.insert(0, _installed[0])


def asked(name: str) -> bool:
    """Whether the name of a backend means this one: `backplane`, or `backplane.ENGINE`.

    Raises:
        ValueError: if there is no such engine.
    """
    first, _, engine = name.partition(".")
    if first != NAME:
        return False
    if engine and canonical(engine) is None:
        raise ValueError(
            f"KERAS_BACKEND={name}: there is no engine {engine!r}{engines.suggestion(engine)}; "
            f"there are {', '.join(engines.names())}"
        )
    return True


class Finder(MetaPathFinder):
    """Finds the modules of the backend, and those of Keras that are to know it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module that this finder is for; None for all others."""
        if fullname == PREFIX or fullname.startswith(f"{PREFIX}."):
            short = fullname[len(PREFIX) + 1 :]
            if short and short not in SERVED:
                return None
            return ModuleSpec(fullname, _Server(short), is_package=not short)
        if fullname not in (CONFIG, ITEMS) and fullname not in CHANGED:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return spec
        spec.loader = _Changed(spec.loader.name, spec.loader.path)
        return spec


class _Server(Loader):
    """Makes a module of the backend."""

    def __init__(self, short: str) -> None:
        self.short = short

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to Python to make an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module with our functions."""
        if self.short:
            ours = importlib.import_module(SERVED[self.short])
            vars(module).update({k: v for k, v in vars(ours).items() if not k.startswith("__")})
            vars(module)["__getattr__"] = _refusal(self.short)
            return
        for short, names in AT_TOP.items():
            served = importlib.import_module(f"{PREFIX}.{short}")
            vars(module).update({name: _member(served, name) for name in names})
        for short in ("image", "linalg", "math", "nn", "numpy", "random"):
            vars(module)[short] = importlib.import_module(f"{PREFIX}.{short}")
        _tell_what_is_lacking()


def _tell_what_is_lacking() -> None:
    """Warn if the installed Keras asks for functions that this backend does not have."""
    from keras.src.version import __version__

    if found := inventory.notice(__version__):
        warnings.warn(found, stacklevel=2)


def _member(served: ModuleType, name: str) -> Any:
    """A function of a module; if there is none, one that says so when it is called."""
    if name in vars(served):
        return vars(served)[name]

    def refuse(*args: object, **kwargs: object) -> Any:
        return getattr(served, name)

    return refuse


def _refusal(short: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module of the backend."""

    def refuse(name: str) -> Any:
        raise AttributeError(
            f"the backend 'backplane' has no function {short}.{name}; "
            "`python -m backplane.keras3.inventory` lists all that this Keras has and it lacks"
        )

    return refuse


class _Changed(SourceFileLoader):
    """Loads a module of Keras whose syntax tree is changed first, if Keras runs on this backend.
    There is no cached code of such a module.
    """

    def get_code(self, fullname: str) -> CodeType | None:
        """The code of the changed tree."""
        if fullname not in CHANGED or (fullname not in FIRST and not _runs_here()):
            return super().get_code(fullname)
        tree = self.tree()
        CHANGED[fullname](tree)
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)

    def tree(self) -> ast.Module:
        """The syntax tree as it is."""
        return ast.parse(self.get_data(self.path), self.path)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module. The one with Keras' settings comes first, and tells which backend is
        asked for.
        """
        super().exec_module(module)
        settings = vars(module)
        if module.__name__ == CONFIG and asked(settings["_BACKEND"]):
            settings["_BACKEND"] = NAME
            _check_all()
            _take_over()
        if module.__name__ == ITEMS and _runs_here():
            importlib.import_module("backplane.keras3.ops.parts").let_steps_go_back(module)


CONFIG = "keras.src.backend.config"
ITEMS = "keras.src.ops.numpy"
"""The module with the operation of `x[key]`. It is changed after it has run: it is large, and
Python has it compiled."""
FIRST = ("keras.src.backend", "keras.src.backend.common.dtypes")
"""Modules that are loaded before Keras' settings, so they are changed whatever these are. What is
added to them asks for the backend."""


def _runs_here() -> bool:
    """Whether Keras runs on this backend."""
    config = sys.modules.get(CONFIG)
    return config is not None and config._BACKEND == NAME


def _check_all() -> None:
    """Look for the places to be changed before Keras meets the first of them.

    Raises:
        ImportError: names all modules in which there is none.
    """
    lacking = []
    for fullname, change in CHANGED.items():
        spec = PathFinder.find_spec(fullname, _folder_of(fullname))
        loader = None if spec is None else spec.loader
        if not isinstance(loader, SourceFileLoader) or not change(
            _Changed(fullname, loader.path).tree()
        ):
            lacking.append(fullname)
    if lacking:
        raise ImportError(
            f"this Keras is not one that backplane.keras3 knows: no choice of a backend was found "
            f"in {', '.join(lacking)}"
        )


def _take_over() -> None:
    """Let K follow Keras' settings, and take Keras' objects by this package's adapter."""
    from backplane.backend import _adapters

    _adapters.ADAPTERS["keras.src.backend.common"] = ADAPTER
    _adapters.ADAPTERS["backplane.keras3"] = ADAPTER
    backplane_config.follow(sys.modules[CONFIG])


ADAPTER = "backplane.keras3.adapter"


def _folder_of(fullname: str) -> list[str]:
    """The folders in which a module of Keras lies, without importing anything."""
    [root] = sys.modules["keras"].__path__
    return [os.path.join(root, *fullname.split(".")[1:-1])]


# --- the changes ----------------------------------------------------------------------------------


def _asks_for(test: ast.expr) -> str | None:
    """The first name in `backend() == "name"`, `self._backend == "name"` or `backend() in ("name",
    "other")`; None for anything else.
    """
    if not isinstance(test, ast.Compare) or "backend" not in ast.unparse(test.left):
        return None
    names = test.comparators[0]
    if isinstance(names, ast.Tuple) and names.elts:
        names = names.elts[0]
    return str(names.value) if isinstance(names, ast.Constant) else None


class _ToOurs(ast.NodeTransformer):
    """Turns imports of Keras' NumPy backend into imports of this one."""

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        """NumPy's has no module for distributions."""
        if ast.unparse(node) == "distribution_lib = None":
            return ast.ImportFrom(PREFIX, [ast.alias("distribution_lib")], 0)
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        module = (node.module or "").replace("keras.src.backend.numpy", PREFIX)
        names = [ast.alias(a.name.replace("Numpy", "Backplane"), a.asname) for a in node.names]
        return ast.ImportFrom(module, names, node.level)


def _extend_chain(tree: ast.Module) -> bool:
    """Add a branch to the chain that ends with an error. Returns whether there is one."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.If) or _asks_for(node.test) != "tensorflow":
            continue
        branches = [node]
        while len(branches[-1].orelse) == 1 and isinstance(branches[-1].orelse[0], ast.If):
            branches.append(branches[-1].orelse[0])
        last, model = branches[-1], [b for b in branches if _asks_for(b.test) == "numpy"]
        if model and len(last.orelse) == 1 and isinstance(last.orelse[0], ast.Raise):
            body = [_ToOurs().visit(ast.parse(ast.unparse(s)).body[0]) for s in model[0].body]
            last.orelse = [ast.If(_renamed(model[0].test), body, last.orelse)]
            return True
    return False


def _extend_onnx(tree: ast.Module) -> bool:
    """Let the export of ONNX models know this backend: its chain ends with an error, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and _asks_for(node.test) == "tensorflow":
            last = node
            while len(last.orelse) == 1 and isinstance(last.orelse[0], ast.If):
                last = last.orelse[0]
            if len(last.orelse) == 1 and isinstance(last.orelse[0], ast.Raise):
                body = ast.parse(_EXPORT).body
                last.orelse = [ast.If(_renamed(node.test), body, last.orelse)]
                return True
    return False


_EXPORT = f"""
from {PREFIX}.export import export_onnx as _export
_export(model, filepath, input_signature, locals().get("input_names"), opset_version)
"""
"""The code of this backend's branch. The names are those of Keras' function, which before Keras
3.15 has no `input_names`."""


def _renamed(test: ast.expr) -> ast.expr:
    """The condition of another backend's branch, for this one."""
    found = ast.parse(ast.unparse(test), mode="eval").body
    assert isinstance(found, ast.Compare)
    return ast.Compare(found.left, [ast.Eq()], [ast.Constant(NAME)])


def _extend_dynamic(tree: ast.Module) -> bool:
    """Let `DynamicBackend` know this backend: in the list that it accepts, and in its choice."""
    accepts = chooses = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotIn):
            names = node.comparators[0]
            if isinstance(names, ast.Tuple) and "backend" in ast.unparse(node.left):
                names.elts.append(ast.Constant(NAME))
                accepts = True
        elif isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            last = node.body[-1]
            if isinstance(last, ast.If) and _asks_for(last.test):
                text = f"return getattr(importlib.import_module('{PREFIX}'), name)"
                node.body.append(ast.If(_renamed(last.test), ast.parse(text).body, []))
                chooses = True
    return accepts and chooses


def _freeze_variable(tree: ast.Module) -> bool:
    """Let `Embedding.enable_lora` freeze its variable. Its property is an array where embeddings
    are packed, and NumPy's arrays take no attributes. Newer releases may not need that.
    """
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Assign)
            and isinstance(target := node.targets[0], ast.Attribute)
            and ast.unparse(target) == "self.embeddings.trainable"
        ):
            target.value = ast.Attribute(ast.Name("self", ast.Load()), "_embeddings", ast.Load())
    return True


def _keep_float64(tree: ast.Module) -> bool:
    """Let results of float64 keep it where the user asked for it, as Keras does on TensorFlow. Its
    table narrows all dtypes of 64 bits on other backends. Returns whether the table was found.
    """
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        for place, statement in enumerate(function.body):
            if isinstance(statement, ast.Assign) and "BIT64_TO_BIT32" in ast.unparse(statement):
                text = _KEPT.format(dtype=ast.unparse(statement.targets[0]))
                function.body[place:place] = ast.parse(text).body
                return True
    return False


_KEPT = f"""
if {{dtype}} == "float64" and config.backend() == {NAME!r}:
    from backplane.keras3.settings import keeps_float64
    if keeps_float64():
        return {{dtype}}
"""


class _ToNewTensors(ast.NodeTransformer):
    """Turns `x *= y` into `x = x * y`."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        if not isinstance(node.target, ast.Name):
            return node
        value = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
        return ast.copy_location(ast.Assign([node.target], value), node)


def _write_over_nothing(tree: ast.Module) -> bool:
    """Keep the user's tensors as they are. Outside of steps, `x *= y` writes over the memory of a
    tensor of PyTorch or MLX, and `x` may be one that the user gave.
    """
    _ToNewTensors().visit(tree)
    return True


AUGMENTATION = "keras.src.layers.preprocessing.image_preprocessing"

CHANGED: dict[str, Callable[[ast.Module], bool]] = {
    "keras.src.backend": _extend_chain,
    "keras.src.backend.common.dtypes": _keep_float64,
    "keras.src.layers.core.embedding": _freeze_variable,
    "keras.src.layers.layer": _extend_chain,
    f"{AUGMENTATION}.aug_mix": _write_over_nothing,
    f"{AUGMENTATION}.random_brightness": _write_over_nothing,
    "keras.src.losses.loss": _write_over_nothing,
    "keras.src.models.model": _extend_chain,
    "keras.src.export.onnx": _extend_onnx,
    "keras.src.export.saved_model": _extend_chain,
    "keras.src.utils.backend_utils": _extend_dynamic,
}
"""Module of Keras → what changes its syntax tree, and returns whether it found the place."""
