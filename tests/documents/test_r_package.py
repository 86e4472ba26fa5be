"""The files of the R package, without R: what is generated, and what its tests cover."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "r" / "tests" / "testthat"


def test_every_function_of_the_document_is_called_in_them():
    facts = json.loads((ROOT / "tests/facts/signatures.json").read_text(encoding="utf-8"))
    table = {entry["name"] for entry in facts["functions"] if "001" in entry["documents"]}
    assert len(table) == 145
    files = TESTS.glob("test-*.R")
    # `covers` fails unless the test really calls the function.
    called = [n for f in files for n in re.findall(r'^covers\("(\w+)"', f.read_text("utf-8"), re.M)]
    assert len(set(called)) == len(called)
    assert table <= set(called)
