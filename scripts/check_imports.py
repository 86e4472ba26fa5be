"""Check who imports whom: layers of Backplane, circles of modules or folders, engines' libraries.

    python scripts/check_imports.py [ROOT]

ROOT is the package folder, `src/backplane` by default. Prints one line per forbidden import and per
circle, and exits with 1 if there is any. An import counts wherever it stands: in a function, under
`TYPE_CHECKING`, or as `importlib.import_module("a.literal.name")`. What a layer may not know, it
may not know in a type hint either.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from backplane.known_engines import ENGINES

PACKAGE = "backplane"

LAYERS: dict[str, set[str]] = {
    "config": set(),
    "core": set(),
    "ops": {"core"},
    "compile": {"core", "ops", "registry", "protocol"},
    "registry": {"core", "protocol"},
    "engine": {"core", "protocol", "registry"},
    "protocol": {"core"},
    "views": {"core", "ops", "compile", "registry", "protocol"},
    "backend": {"core", "ops", "compile", "views", "registry", "protocol", "config"},
    "interop": {"core", "ops", "compile", "views", "registry", "protocol", "config", "backend"},
    "keras3": {
        "core",
        "ops",
        "compile",
        "views",
        "registry",
        "protocol",
        "config",
        "backend",
        "interop",
    },
    "cli": {
        "core",
        "ops",
        "compile",
        "views",
        "registry",
        "protocol",
        "config",
        "backend",
        "interop",
        "keras3",
    },
}
"""Layer → the others that it may import. A layer is a folder or a module of the package, but for
`engines`, which has three parts: each engine's own folder (`engine`), which nobody may import; what
an engine is, and lowerings that several share (`protocol`); and the registry that finds engines by
name, where everyone else meets them, so that nobody can know a particular one."""

PARTS = {
    "__main__": "cli",
    **dict.fromkeys(ENGINES, "interop"),
    "keras1": "interop",
    "interop.keras3": "keras3",  # K in models of Keras uses the functions below Keras.
    "_files": "config",
    "_keras_json": "config",
    "_watching": "config",
    "known_engines": "config",
    "project": "config",
    "engines": "registry",
    "engines.base": "protocol",
    "engines.layouts": "protocol",
    "engines.ownership": "protocol",
    "engines.factorizations": "protocol",
    "engines.fast": "protocol",
    "engines.formulas": "protocol",
    "engines.kernel_table": "protocol",
    "engines.kernels": "protocol",
    "engines.placement": "protocol",
    "engines.programs": "protocol",
    "engines.roles": "protocol",
    "engines.table": "protocol",
    "engines.yielding": "protocol",
    "engines.arrays": "protocol",
}
"""Parts of the package whose layer is not the first word of their name."""

ALSO = {
    ("backplane.engines", "config"),
    ("backplane.engines.kernels", "config"),
    ("backplane.views.drawing", "config"),
    ("backplane.views.layout", "config"),
}
"""(module, layer) that goes beyond what the module's layer may import: the registry's default is
the engine that was configured, the user's table of kernels lies beside `keras.json`, and pictures
need libraries for which `project` knows the command that installs them."""

LIBRARIES: dict[str, set[str]] = {
    **{
        library: {f"engines.{known.folder}"}
        for name, known in ENGINES.items()
        if name != "numpy"
        for library in known.libraries
    },
    "torch": {"engines.torch", "interop.dynamo", "interop.fx", "interop.keras3"},
    "tensorflow": {"engines.tensorflow", "interop.keras3"},
    "jax": {"engines.jax", "interop.keras3"},
    "jaxlib": {"engines.jax"},
    "numba": {"engines.pytensor"},
    "keras": {"interop", "keras3"},
}
"""Library of an engine → the parts of the package that may import it."""


MUTUAL = {"backplane.engines.pytensor.fast", "backplane.keras3.ops"}
"""Folders that may import modules that import them. PyTensor's linker is for the `ArrayOp` that
runs the fast steps of optimizers, and Keras asks for `Variable` among its operations."""


class Import(NamedTuple):
    """One import: where it stands, and the full name of what it asks for."""

    file: Path
    line: int
    importer: str
    target: str


def module_name(file: Path, root: Path) -> str:
    """The dotted name of `file`, where `root` is the folder of the package."""
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join([PACKAGE, *(part for part in parts if part != "__init__")])


def imports(file: Path, root: Path) -> Iterator[Import]:
    """Every import in `file`."""
    importer = module_name(file, root)
    package = importer if file.name == "__init__.py" else importer.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        for target in _targets(node, package, root):
            yield Import(file, node.lineno, importer, target)  # type: ignore[attr-defined]


def _targets(node: ast.AST, package: str, root: Path) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, *base.split(".")]).rstrip(".")
        return sorted({_module_of(base, alias.name, root) for alias in node.names})
    if isinstance(node, ast.Call) and node.args:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        called = node.func.id if isinstance(node.func, ast.Name) else called
        name = node.args[0]
        if called in {"import_module", "__import__"} and isinstance(name, ast.Constant):
            return [str(name.value)]
    return []


def _module_of(base: str, name: str, root: Path) -> str:
    """`from base import name` asks for `base.name` if that is a module of ours, else for `base`."""
    whole = f"{base}.{name}"
    if base.partition(".")[0] != PACKAGE:
        return whole
    place = root.joinpath(*whole.split(".")[1:])
    return whole if place.is_dir() or place.with_suffix(".py").exists() else base


def layer_of(module: str) -> str:
    """The layer of a module of ours; empty for the package itself."""
    inside = module.removeprefix(PACKAGE).removeprefix(".")
    part = ".".join(inside.split(".")[:2])
    if part in PARTS:
        return PARTS[part]
    top = inside.partition(".")[0]
    return "engine" if top == "engines" else top


def complaint(found: Import) -> str | None:
    """What is wrong with an import, or None."""
    top = found.target.partition(".")[0]
    if top in LIBRARIES:
        homes = LIBRARIES[top]
        if any(_within(found.importer, f"{PACKAGE}.{home}") for home in homes):
            return None
        return f"the library {top} may only be imported in {', '.join(sorted(homes))}"
    layer = layer_of(found.importer)
    if top != PACKAGE or not layer:
        return None  # Of the package itself, tests see to it that it imports lazily.
    if layer not in LAYERS:
        return f"{layer} is no layer: add it to LAYERS, with what it may import"
    target = layer_of(found.target)
    if layer == target == "engine":
        own = ".".join(found.importer.split(".")[:3])
        return None if _within(found.target, own) else "an engine may not import another"
    if target == layer or target in LAYERS[layer] or (found.importer, target) in ALSO:
        return None
    return f"{layer} may import {', '.join(sorted(LAYERS[layer])) or 'nothing of ours but itself'}"


def _within(module: str, part: str) -> bool:
    return module == part or module.startswith(f"{part}.")


def circles(files: list[Path], root: Path) -> list[list[str]]:
    """The modules that import each other, in groups, and the folders that do so as wholes. Imports
    inside of functions count too: a base that needs its subclass is a circle whenever it asks for
    it.
    """
    edges = {module_name(file, root): {i.target for i in imports(file, root)} for file in files}
    groups = _groups(edges)
    folders = {module_name(file, root) for file in files if file.name == "__init__.py"}
    for above in sorted({folder.rpartition(".")[0] for folder in folders} - {"", PACKAGE}):
        wholes = {f for f in folders if f.rpartition(".")[0] == above} - MUTUAL
        groups += [group for group in _groups(_merged(edges, wholes)) if wholes & {*group}]
    return groups


def _merged(edges: dict[str, set[str]], wholes: set[str]) -> dict[str, set[str]]:
    """`edges` where all modules of a folder among `wholes` are one."""

    def whole(module: str) -> str:
        return next((folder for folder in wholes if _within(module, folder)), module)

    merged: dict[str, set[str]] = {}
    for module, targets in edges.items():
        others = {whole(target) for target in targets} - {whole(module)}
        merged.setdefault(whole(module), set()).update(others)
    return merged


def _groups(edges: dict[str, set[str]]) -> list[list[str]]:
    reached = {module: _reachable(module, edges) for module in edges}
    groups = {
        tuple(sorted(other for other in reached[module] if module in reached.get(other, ())))
        for module in edges
        if module in reached[module]
    }
    return [list(group) for group in sorted(groups)]


def _reachable(module: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(edges[module])
    while waiting:
        target = waiting.pop()
        if target not in found:
            found.add(target)
            waiting += edges.get(target, ())
    return found


def main(arguments: list[str]) -> int:
    """Check the package; print what is forbidden; return the exit status."""
    root = Path(arguments[0] if arguments else f"src/{PACKAGE}")
    files = sorted(root.rglob("*.py"))
    if not files:
        print(f"{root}: no Python files there")
        return 1
    bad = 0
    for found in (found for file in files for found in imports(file, root)):
        if wrong := complaint(found):
            print(f"{found.file}:{found.line}: imports {found.target}: {wrong}")
            bad += 1
    for group in circles(files, root):
        print(f"{root}: these import each other: {', '.join(group)}")
        bad += 1
    if not bad:
        print(f"imports: {len(files)} files, all as they should be")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
