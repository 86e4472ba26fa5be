"""Write docs/reference.md: the functions of K, and what the tests found on each engine. The command
`backplane explain` reads the same from a data file, which this script writes too.

    pytest --record=build/conformance.json
    python scripts/make_reference.py [RECORD ...]

RECORD is what such a run wrote, `build/conformance.json` by default; several are taken together.
The names, documents and signatures are those of tests/facts/signatures.json, which a test compares
with the package; the additions are the functions of K whose docstrings say that they are one.
Exits with 1 if the record has a gap: an engine without a passing test of something that the facts
say a function has.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from backplane.cli.check import ASPECTS
from backplane.known_engines import ENGINES

ROOT = Path(__file__).resolve().parents[1]
FACTS = ROOT / "tests" / "facts" / "signatures.json"
PAGE = ROOT / "docs" / "reference.md"
DATA = ROOT / "src" / "backplane" / "cli" / "functions.json"

TICK, NONE, GAP = "✓", "–", "✗"
EVERY = "any"
"""Stands in a record for all engines: the test was of something that none takes part in."""

HEADER = """\
# Reference

Use this page when you want to know what the tests confirm for a function on each engine.
`scripts/make_reference.py` writes it from a run of the tests. It lists the functions that the [five
documents](compatibility.md#the-five-documents) name, with the signature of the newest document that
gives one. Each docstring says more: `help(K.conv2d)`.

Under each engine: whether the tests confirm its **value**, its **spec** (that shape and dtype are
what was inferred before anything is computed) and its **gradient**, in this order. ✓ they do;
– there is none, because the function returns no tensor, or no gradient flows through what it
returns; ✗ not yet. Functions that no engine takes part in are confirmed once for all of them.
"""

ADDITIONS = """
## Additions

Functions of Backplane that no document names.
"""

ADDITION = "An addition of Backplane"
"""What the docstring of such a function says."""

# Names and signatures only: which engine is configured does not matter.
os.environ["KERAS_BACKEND"] = "numpy"

Record = dict[str, dict[str, set[str]]]


def merged(paths: Iterable[Path]) -> Record:
    """Function → engine → aspects, from the files of one or more runs."""
    record: Record = {}
    for path in paths:
        for name, engines in json.loads(path.read_text(encoding="utf-8")).items():
            for engine, aspects in engines.items():
                record.setdefault(name, {}).setdefault(engine, set()).update(aspects)
    return record


def additions() -> list[dict[str, str]]:
    """Name and signature, without types, of the functions of K that no document has."""
    from backplane import backend as K

    found = []
    for name in sorted(K.__all__):
        function = getattr(K, name)
        if ADDITION in (function.__doc__ or ""):
            plain = [
                p.replace(annotation=p.empty)
                for p in inspect.signature(function).parameters.values()
            ]
            found.append({"name": name, "signature": str(inspect.Signature(plain))})
    return found


def expected(name: str, facts: dict[str, Any]) -> tuple[str, ...]:
    """The aspects that a function has."""
    if name in facts["no_tensor"]:
        return ASPECTS[:1]
    return ASPECTS[:2] if name in facts["no_gradient"] else ASPECTS


def cell(name: str, engine: str, record: Record, facts: dict[str, Any]) -> str:
    """Three signs, one per aspect."""
    found = record.get(name, {})
    passed = found.get(engine, set()) | found.get(EVERY, set())
    wanted = expected(name, facts)
    return "".join(NONE if a not in wanted else TICK if a in passed else GAP for a in ASPECTS)


def page(facts: dict[str, Any], record: Record) -> str:
    """The text of the page."""
    tested = {engine for engines in record.values() for engine in engines}
    engines = [engine for engine in ENGINES if engine in tested]

    def table(entries: list[dict[str, Any]], *more: str) -> list[str]:
        heads = ["function", *more, *engines]
        lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
        for entry in entries:
            cells = (cell(entry["name"], engine, record, facts) for engine in engines)
            call = f"`{entry['name']}{entry['signature']}`"
            lines.append(f"| {' | '.join([call, *(' '.join(entry[m]) for m in more), *cells])} |")
        return lines

    documented = table(facts["functions"], "documents")
    return "\n".join([HEADER, *documented, ADDITIONS, *table(additions())]) + "\n"


def data(facts: dict[str, Any], record: Record) -> str:
    """What `backplane explain` reads, with a line for each function: its documents, the aspects
    that are confirmed on most engines, and those of the other engines.
    """
    tested = {engine for engines in record.values() for engine in engines}
    engines = [engine for engine in ENGINES if engine in tested]
    lines = []
    for entry in (*facts["functions"], *additions()):
        seen = {e: _words(cell(entry["name"], e, record, facts)) for e in engines}
        ((usual, _),) = Counter(seen.values()).most_common(1)
        but = {e: words for e, words in seen.items() if words != usual}
        row = {"documents": entry.get("documents", []), "confirmed": usual}
        lines.append(
            f"  {json.dumps(entry['name'])}: {json.dumps(row | ({'but': but} if but else {}))}"
        )
    listed = ",\n".join(lines)
    return f'{{\n "engines": {json.dumps(engines)},\n "functions": {{\n{listed}\n }}\n}}\n'


def _words(signs: str) -> str:
    return ", ".join(a for a, sign in zip(ASPECTS, signs, strict=True) if sign == TICK)


def main(arguments: list[str]) -> int:
    """Write the page; 1 if it has gaps."""
    paths = [Path(a) for a in arguments] or [ROOT / "build" / "conformance.json"]
    missing = [str(p) for p in paths if not p.is_file()]
    if missing:
        print(f"no {', '.join(missing)}: run pytest --record=build/conformance.json first")
        return 2
    facts = json.loads(FACTS.read_text(encoding="utf-8"))
    record = merged(paths)
    text = page(facts, record)
    PAGE.write_text(text, encoding="utf-8")
    DATA.write_text(data(facts, record), encoding="utf-8")
    gaps = [line.split("(")[0].lstrip("| `") for line in text.splitlines()[1:] if GAP in line]
    listed = {e["name"] for e in (*facts["functions"], *additions())}
    gaps = [name for name in gaps if name in listed]
    print(f"{PAGE.relative_to(ROOT)}: {len(listed)} functions, {len(gaps)} with gaps")
    if gaps:
        print(", ".join(gaps))
    return 1 if gaps else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
