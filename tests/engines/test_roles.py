"""The roles that an engine is made of."""

from __future__ import annotations

from backplane.engines.base import Engine

ROLES = [role for role in Engine.__mro__ if role is not object]


def members(role: type) -> set[str]:
    """The members that a role adds, those without a value included."""
    names = {*vars(role), *vars(role).get("__annotations__", ())}
    return {name for name in names if not name.startswith("_")}


def test_a_role_is_small_and_no_member_stands_in_two() -> None:
    for role in ROLES:
        assert 0 < len(members(role)) <= 14, role.__name__
    names = [name for role in ROLES for name in members(role)]
    assert len(names) == len(set(names))
