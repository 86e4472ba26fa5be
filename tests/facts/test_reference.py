"""The generated page docs/reference.md lists the functions that there are."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from backplane import backend as K

ROOT = Path(__file__).parents[2]
FACTS = json.loads(Path(__file__).with_name("signatures.json").read_text(encoding="utf-8"))
NAMES = [entry["name"] for entry in FACTS["functions"]]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "make_reference", ROOT / "scripts" / "make_reference.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def listed() -> dict[str, str]:
    """Rows of the committed page by name."""
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    return {m[1]: m[0] for m in re.finditer(r"^\| `(\w+)\(.*$", text, re.MULTILINE)}


def test_the_page_has_every_documented_function_then_the_additions(generator: ModuleType) -> None:
    rows = listed()
    assert list(rows) == NAMES + [entry["name"] for entry in generator.additions()]
    assert [name for name in rows if not hasattr(K, name)] == []


def test_the_page_has_the_documents_and_signatures_of_the_facts(generator: ModuleType) -> None:
    rows = listed()
    for entry in FACTS["functions"]:
        start = f"| `{entry['name']}{entry['signature']}` | {' '.join(entry['documents'])} | "
        assert rows[entry["name"]].startswith(start)
    for entry in generator.additions():
        assert rows[entry["name"]].startswith(f"| `{entry['name']}{entry['signature']}` | ")


def test_the_lists_of_what_a_function_has_are_of_functions_of_k() -> None:
    for key in ("no_tensor", "no_gradient"):
        assert FACTS[key] == sorted(set(FACTS[key]))
        assert all(hasattr(K, name) for name in FACTS[key])
    assert not set(FACTS["no_tensor"]) & set(FACTS["no_gradient"])


def test_cells(generator: ModuleType) -> None:
    record = {
        "tanh": {"numpy": {"value", "spec", "gradient"}, "torch": {"value"}},
        "argmax": {"numpy": {"value", "spec"}},
        "epsilon": {"any": {"value"}},
    }
    cells = [
        [generator.cell(name, engine, record, FACTS) for engine in ("numpy", "torch")]
        for name in ("tanh", "argmax", "epsilon", "exp")
    ]
    assert cells == [["✓✓✓", "✓✗✗"], ["✓✓–", "✗✗–"], ["✓––", "✓––"], ["✗✗✗", "✗✗✗"]]
    text = generator.page(FACTS, record)
    assert "| function | documents | numpy | torch |" in text
    assert "| `argmax(x, axis=-1)` | 001 003 | ✓✓– | ✗✗– |" in text


def test_several_runs_are_taken_together(generator: ModuleType, tmp_path: Path) -> None:
    for name, engine in (("a", "numpy"), ("b", "jax")):
        (tmp_path / name).write_text(json.dumps({"tanh": {engine: ["value"]}}), encoding="utf-8")
    found = generator.merged([tmp_path / "a", tmp_path / "b"])
    assert found == {"tanh": {"numpy": {"value"}, "jax": {"value"}}}
    assert generator.main([str(tmp_path / "none")]) == 2
