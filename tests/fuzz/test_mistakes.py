"""What errors say: the words that help, and the same ones on each engine."""

from __future__ import annotations

import re
from functools import cache

import pytest

from backplane import backend as K
from tests.fuzz.mistakes import TABLES, message, mistakes, names

VARYING = re.compile(r"0x[0-9a-f]+|_\d+\b")
"""Addresses and serial numbers."""


@cache
def on_numpy(table: str) -> dict[str, str]:
    with K.engine("numpy"):
        given = names()
        return {row.call: message(row.call, given) for row in mistakes(table)}


@pytest.mark.parametrize("table", TABLES)
def test_what_errors_say(engine, table):
    given = names()
    elsewhere = on_numpy(table)
    wrong = []
    for call, error, words in mistakes(table):
        said = message(call, given)
        missing = [word for word in words if word not in said]
        if not said.startswith(f"{error}: ") or missing:
            wrong.append(f"{call} -> {said}; not {error}: {missing}")
        if VARYING.sub("", said) != VARYING.sub("", elsewhere[call]):
            wrong.append(f"{call} -> {said}; on NumPy {elsewhere[call]}")
    assert not wrong, "\n".join(wrong)


def test_functions_that_have_run_say_the_same(engine):
    """The first call compiles. What later ones run is text of our own."""
    given = names()
    a = given["A"]
    for _ in range(2):
        for name, feeds in (("f", [a, a]), ("u", [a, a]), ("p", [a, 1]), ("p", [a, 0])):
            given[name](feeds)
    given["g"](a)
    for call in ("f(A, A)", "f(A)", "f([A])", "g(A, A)", "u(A, A)", "p(A, 1)", "f(None)"):
        assert message(call, given) == on_numpy("functions").get(call, message(call, given))
    assert message("f(x=A, y=A)", given).startswith("TypeError: K.function 'f'")


def test_a_message_is_short():
    given = names() | {"many": [K.placeholder((None, 3)) for _ in range(50)]}
    for call in ("K.function(many, many, accumulate=0)", "K.function(many, [None])"):
        assert len(message(call, given)) < 400
