"""`tests/README.md`, which says where tests are: it names every folder that there is."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_it_names_the_folders_there_are() -> None:
    text = (TESTS / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)/`", text)) - {"ops"}
    assert named == {f.name for f in TESTS.iterdir() if f.is_dir() and any(f.glob("*.py"))}


def test_folders_of_the_package_have_tests_of_the_same_name() -> None:
    """Those of which it says so."""
    text = (TESTS / "README.md").read_text(encoding="utf-8")
    [line] = [line for line in text.splitlines() if "the folder of the same name" in line]
    package = TESTS.parent / "src" / "backplane"
    names = re.findall(r"`(\w+)/`", line.partition(": the folder")[0])
    assert len(names) > 4
    for name in names:
        assert (package / name).is_dir(), name
        assert list((TESTS / name).glob("test_*.py")), name
