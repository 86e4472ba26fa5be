"""The K that `tensorflow.keras.backend` serves, against the facts about tf.keras 2.15."""

from __future__ import annotations

import inspect
import json
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from backplane import backend
from backplane.interop.tf_keras_names import OTHERWISE, Backend
from facts.test_signatures import described, parameters, same_default

FACTS = json.loads(Path(__file__).with_name("tf_keras.json").read_text(encoding="utf-8"))
FUNCTIONS = FACTS["functions"]
K = Backend(base="backplane.backend")


@pytest.mark.parametrize("entry", FUNCTIONS, ids=lambda entry: entry["name"])
def test_signatures(entry: dict[str, Any]) -> None:
    function = reduce(getattr, entry["name"].split("."), K)
    renamed = entry.get("renamed", {})
    wanted = parameters(entry["signature"])
    given = list(inspect.signature(function).parameters.values())
    shown = f"K.{entry['name']}{inspect.signature(function)}, in tf.keras {entry['signature']}"
    placed = [p for p in wanted if p.kind is p.POSITIONAL_OR_KEYWORD]
    head = given[: len(placed)]
    assert [p.name for p in head] == [renamed.get(p.name, p.name) for p in placed], shown
    for want, have in zip(placed, head, strict=True):
        assert have.kind is have.POSITIONAL_OR_KEYWORD, shown
        assert same_default(want.default, have.default), f"{shown}: the default of {want.name}"
    # What follows can be left out.
    assert all(p.default is not p.empty or p.kind is p.VAR_KEYWORD for p in given[len(head) :])
    stars = [described(p)[0] for p in wanted[len(placed) :]]
    assert set(stars) <= {described(p)[0] for p in given}, shown


def test_parameters_under_both_names() -> None:
    assert K.batch_get_value(tensors=[]) == K.batch_get_value(ops=[]) == []
    for setter, name, value in (("set_epsilon", "e", 1e-7), ("set_floatx", "floatx", "float32")):
        getattr(K, setter)(**{name: value})
        getattr(K, setter)(value=value)


def test_the_facts_are_in_order() -> None:
    names = [entry["name"] for entry in FUNCTIONS]
    assert names == sorted(set(names))
    assert set(OTHERWISE) < set(names)


def test_the_rest_is_k() -> None:
    for name in set(backend.__all__) - OTHERWISE.keys():
        assert getattr(K, name) is getattr(backend, name)
    assert set(backend.__all__) <= set(dir(K))
    assert backend.__all__ == K.__all__
    with pytest.raises(AttributeError, match="no_such_name"):
        K.no_such_name  # noqa: B018
