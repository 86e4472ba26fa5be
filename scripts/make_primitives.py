"""The tables of docs/primitives.md, from the declarations of the primitives in `ops/`.

The text above the line `MARK` in that page is written by hand and stays.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

from backplane import ops
from backplane.core.primitive import Primitive
from backplane.core.registry import PRIMITIVES
from backplane.core.spec import BOOL, DTYPES, FLOAT, INTEGER, NUMBER, Spec
from backplane.core.traits import Memory

PAGE = Path(__file__).resolve().parents[1] / "docs" / "primitives.md"
MARK = "<!-- Below: written by scripts/make_primitives.py from the declarations. Do not edit. -->"

KINDS = {
    FLOAT: "float",
    INTEGER: "int",
    BOOL: "bool",
    NUMBER: "number",
    INTEGER | BOOL: "int, bool",
}
"""What sets of dtypes are called."""


def files() -> Iterator[tuple[Path, str]]:
    """The page with its text."""
    head = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    yield PAGE, head + "\n".join([MARK, *tables()]) + "\n"


def tables() -> Iterator[str]:
    """A section for each module of `ops` that declares primitives."""
    # The package lists its modules, each after those that it imports: the first that has a
    # primitive is the one that declares it.
    modules = re.findall(r"^- (.*): (.*)$", ops.__doc__ or "", re.MULTILINE)
    waiting = dict.fromkeys(PRIMITIVES.values())
    for listed, theme in modules:
        names = re.findall(r"`(\w+)`", listed)
        found = [p for name in names for p in vars(sys.modules[f"{ops.__name__}.{name}"]).values()]
        here = [p for p in waiting if any(p is value for value in found)]
        for p in here:
            del waiting[p]
        if here:
            yield from ("", f"## {theme[0].upper()}{theme[1:]}", "")
            yield "`" + "`, `".join(f"ops/{name}.py" for name in names) + "`"
            yield from (
                "",
                "| name | operands; parameters | result | traits |",
                "|---|---|---|---|",
            )
            yield from map(row, here)
    assert not waiting, f"no module of ops has {waiting}"


def row(p: Primitive[Any]) -> str:
    """One line of a table."""
    text = " ".join(p.doc.split()).replace("|", "\\|")
    return f"| `{p.name}` | {signature(p)} | {text} | {', '.join(traits(p))} |"


def signature(p: Primitive[Any]) -> str:
    """Operands and parameters; the dtypes of element-wise operands."""
    operands, parameters = [], []
    for q in inspect.signature(p.infer_rule).parameters.values():
        if "Spec" in str(q.annotation):
            operands.append(f"*{q.name}" if q.kind is q.VAR_POSITIONAL else q.name)
        elif q.kind is q.VAR_KEYWORD:  # `**window: Unpack[Geometry]`
            (given,) = get_args(get_type_hints(p.infer_rule)[q.name])
            parameters += [f"`{name}`" for name in get_type_hints(given)]
        else:
            parameters.append(f"`{q.name}`")
    dtypes = f" {kind}" if (kind := accepted(p, len(operands))) else ""
    return "; ".join(filter(None, [f"`{', '.join(operands)}`{dtypes}", ", ".join(parameters)]))


def accepted(p: Primitive[Any], operands: int) -> str:
    """The name of the dtypes that an element-wise primitive without parameters takes."""
    if not p.elementwise:
        return ""
    taken = set()
    for dtype in DTYPES:
        try:
            p.infer_rule(*[Spec((), dtype)] * operands)
        except TypeError:
            continue
        taken.add(dtype)
    return KINDS.get(frozenset(taken), "")


MEMORY = {
    Memory.FRESH: "fresh memory",
    Memory.VIEW: "may be a view",
    Memory.ANY: "may be an operand",
}


def traits(p: Primitive[Any]) -> Iterator[str]:
    """What passes and code generation ask."""
    yield MEMORY[p.memory]
    yield from (word for word, holds in (
        ("element-wise", p.elementwise),
        ("reduction", p.reduction),
        ("effect", p.effect),
        ("writes in place", p.in_place),
        ("decomposed where missing", p.decomposition is not None),
        ("no gradient", not p.differentiable),
    ) if holds)  # fmt: skip
    if p.linear:
        names = list(inspect.signature(p.infer_rule).parameters)
        yield "linear in " + " and ".join(names[min(i, len(names) - 1)] for i in p.linear)
