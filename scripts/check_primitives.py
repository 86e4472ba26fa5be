"""Check that primitives are Python objects wherever graphs are built and looked through.

    python scripts/check_primitives.py [FOLDER …]

FOLDER is a folder or module, by default those in FOLDERS. Who means a primitive imports it:
`from backplane.ops.linear import matmul`, `matmul(x, y, …)`, `node.op is matmul`. Only the tables
of engines have names for keys. Prints one line for each place that names a primitive by a string,
and exits with 1 if there is any:

- `PRIMITIVES["matmul"]`, `primitive("matmul")`, `apply("matmul", …)`
- `node.op.name == "matmul"`, also with `!=` and `in`, and `name == "matmul"` of such a name
- a list, set, tuple or dictionary of three or more names of primitives; not in `backend/`, whose
  lists are of K functions and of Python's operators, which have some of the same names
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import backplane.ops  # noqa: F401 - declares all primitives
from backplane.core.registry import PRIMITIVES

FOLDERS = [f"src/backplane/{name}" for name in ("core", "ops", "compile", "backend")]
LOOKUPS = {"primitive", "apply"}
LIST = 3
"""From so many names of primitives on, a collection is taken for a list of them. Some names are
plain words too."""


def _text(node: ast.AST) -> str | None:
    """The string that a literal is, or None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def _called(node: ast.Call) -> str:
    """The name of the function that is called, without the module it is taken from."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _items(node: ast.AST) -> list[ast.expr]:
    """The elements of a literal collection; the keys of a dictionary."""
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key is not None]
    return node.elts if isinstance(node, ast.Set | ast.List | ast.Tuple) else []


def _is_op_name(node: ast.AST) -> bool:
    """Whether it reads the name of a node's primitive: `node.op.name`, `op.name`."""
    if not isinstance(node, ast.Attribute) or node.attr != "name":
        return False
    owner = node.value
    return (isinstance(owner, ast.Attribute) and owner.attr == "op") or (
        isinstance(owner, ast.Name) and owner.id == "op"
    )


def _assigned_names(tree: ast.AST) -> set[str]:
    """Variables that hold the name of a node's primitive."""
    return {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_op_name(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def named(tree: ast.AST, lists: bool) -> Iterator[tuple[int, str]]:
    """The lines of a module that name a primitive by a string, and what they do; whether `lists`
    of names count.
    """
    aliases = _assigned_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            owner = node.value
            table = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if table == "PRIMITIVES" and _text(node.slice):
                yield node.lineno, f"looks up {_text(node.slice)!r}"
        elif isinstance(node, ast.Call):
            if _called(node) in LOOKUPS and node.args and _text(node.args[0]) in PRIMITIVES:
                yield node.lineno, f"calls {_text(node.args[0])!r}"
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            asks = any(_is_op_name(s) or getattr(s, "id", None) in aliases for s in sides)
            texts = [_text(s) for side in sides for s in (side, *_items(side))]
            if asks and any(texts):
                yield node.lineno, f"recognises {', '.join(repr(t) for t in texts if t)}"
        elif lists and isinstance(node, ast.expr):
            names = [_text(item) for item in _items(node)]
            listed = [name for name in names if name in PRIMITIVES]
            if len(listed) >= LIST:
                yield node.lineno, f"lists {', '.join(map(repr, listed[:LIST]))}, …"


def main(arguments: list[str]) -> int:
    """Check the folders; print what names primitives; return the exit status."""
    places = [Path(name) for name in arguments or FOLDERS]
    files = [f for p in places for f in (sorted(p.rglob("*.py")) if p.is_dir() else [p])]
    bad = 0
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        for line, what in named(tree, lists="backend" not in file.parts):
            print(f"{file}:{line}: {what}: import the primitive")
            bad += 1
    if not bad:
        print(f"primitives: {len(files)} files, none names one by a string")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
