"""The names and signatures of K, against the facts in signatures.json."""

import inspect
import json
from pathlib import Path

import pytest

FACTS = json.loads(Path(__file__).with_name("signatures.json").read_text(encoding="utf-8"))
FUNCTIONS = FACTS["functions"]
UNDOCUMENTED = [entry for entry in FACTS["classic_exports"] if not entry["documented"]]
REQUIRED = inspect.Parameter.empty


def parameters(signature):
    """The parameters that a fact such as ``"(x, axis=None)"`` describes."""
    scope = {}
    exec(f"def fact{signature}: pass", scope)
    return list(inspect.signature(scope["fact"]).parameters.values())


def described(parameter):
    """A parameter as it is compared: by name, default and star, never by its annotation."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return stars.get(parameter.kind, "") + parameter.name, parameter.default


def same_default(wanted, given):
    """Equal, and of one type: 0 is no False, and a list is no tuple."""
    if isinstance(wanted, tuple) and isinstance(given, tuple) and len(wanted) == len(given):
        return all(map(same_default, wanted, given))
    return wanted is given or (type(wanted) is type(given) and wanted == given)


def check(entry):
    from backplane import backend as K

    assert hasattr(K, entry["name"]), f"K.{entry['name']} is missing"
    function = getattr(K, entry["name"])
    assert callable(function), f"K.{entry['name']} cannot be called"
    wanted = parameters(entry["signature"])
    given = list(inspect.signature(function).parameters.values())
    shown = f"K.{entry['name']}{inspect.signature(function)}, documented {entry['signature']}"

    head = given[: len(wanted)]
    assert [described(p)[0] for p in head] == [described(p)[0] for p in wanted], shown
    for want, have in zip(wanted, head, strict=True):
        assert same_default(want.default, have.default), f"{shown}: the default of {want.name}"
        if want.kind is want.POSITIONAL_OR_KEYWORD:
            assert have.kind is want.kind, f"{shown}: {want.name} is taken by place and by name"

    allowed = parameters(f"({', '.join(entry.get('extensions', []))})")
    extra = given[len(wanted) :]
    known = iter(map(described, allowed))
    assert all(described(p) in known for p in extra), (
        f"{shown}: only {entry.get('extensions', [])} may follow"
    )


@pytest.mark.parametrize("entry", FUNCTIONS, ids=lambda entry: entry["name"])
def test_documented_function_has_its_documented_signature(entry):
    check(entry)


@pytest.mark.parametrize("entry", UNDOCUMENTED, ids=lambda entry: entry["name"])
def test_what_classic_keras_exports_beside_the_documents(entry):
    check(entry)


def test_what_no_document_names_says_that_it_is_an_addition():
    from backplane import backend as K

    known = {entry["name"] for entry in (*FUNCTIONS, *FACTS["classic_exports"])}
    older = {"get_variable_shape"}  # of Keras 1 and 2.0
    for name in sorted(set(K.__all__) - known - older):
        assert "An addition of Backplane" in getattr(K, name).__doc__, name


def test_the_facts_are_in_order_and_complete():
    names = [entry["name"] for entry in FUNCTIONS]
    assert names == sorted(set(names))
    assert len(names) == 163
    documented = [entry["name"] for entry in FACTS["classic_exports"] if entry["documented"]]
    assert set(documented) <= set(names)
    for entry in FUNCTIONS:
        assert all(
            p.default is not REQUIRED or p.kind is p.VAR_KEYWORD
            for p in parameters(f"({', '.join(entry.get('extensions', []))})")
        )
        assert entry["source"] in ("document", "classic")
        assert (entry["source"] == "document") == ("from" in entry)
        assert set(entry.get("older", {})) < set(entry["documents"])
