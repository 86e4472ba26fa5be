"""The table of other libraries' names: what it says to write is there, and it has no idle lines."""

from __future__ import annotations

import ast
import inspect
import re

import pytest

from backplane import backend as K
from backplane.backend import _elsewhere

ROWS = [row for _, rows in _elsewhere.tables() for row in rows]


def calls(row: _elsewhere.Row) -> list[ast.Call]:
    """The calls of K in what a row says to write."""
    trees = [ast.parse(text) for text in re.findall(r"`([^`]+)`", row.here) if "…" not in text]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    return [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func).startswith("K.")]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.names[0])
def test_what_a_row_says_is_there(row):
    for name in re.findall(r"\bK\.(\w+)", row.here):
        assert name in K.__all__
    for call in calls(row):
        signature = inspect.signature(getattr(K, ast.unparse(call.func).removeprefix("K.")))
        given = [a for a in call.args if not isinstance(a, ast.Starred)]
        signature.bind(*given, **{k.arg: k.value for k in call.keywords})


def test_names_that_k_has_need_no_row():
    for row in ROWS:
        for name in row.names:
            plain = name.rpartition(".")[2]
            assert plain not in K.__all__ or f"K.{plain}" in row.here, name


def test_every_name_is_there_once():
    names = [name for row in ROWS for name in row.names]
    assert len(names) == len(set(names))
    assert len(names) > 200


def test_attributes_that_are_asked_for_stay_absent():
    x = K.placeholder((2, 3))
    for name in ("mean", "T", "numpy", "assign", "__array_interface__", "_foo", "foo"):
        assert not hasattr(x, name)
