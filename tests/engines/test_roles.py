"""The roles that an engine is made of, and the folders of what serves only speed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from backplane import engines
from backplane.engines.base import Engine

ROLES = [role for role in Engine.__mro__ if role is not object]
FAST = sorted(Path(engines.__file__).parent.glob("*/fast/__init__.py"))


def members(role: type) -> set[str]:
    """The members that a role adds, those without a value included."""
    names = {*vars(role), *vars(role).get("__annotations__", ())}
    return {name for name in names if not name.startswith("_")}


def test_a_role_is_small_and_no_member_stands_in_two() -> None:
    for role in ROLES:
        assert 0 < len(members(role)) <= 14, role.__name__
    names = [name for role in ROLES for name in members(role)]
    assert len(names) == len(set(names))


def test_what_serves_only_speed_is_listed_with_what_it_gains() -> None:
    assert len(FAST) == 6
    for file in FAST:
        said = ast.get_docstring(ast.parse(file.read_text())) or ""
        listed = re.findall(r"^- `(\w+)`: ", said, re.M)
        assert sorted(listed) == sorted(p.stem for p in file.parent.glob("[!_]*.py")), file
