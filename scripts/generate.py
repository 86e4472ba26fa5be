"""Write all files that are derived from others.

    python scripts/generate.py [--check]

They are the stubs of K and of K in Keras 1, the modules bound to engines (`backplane.jax`, …), the
pages of primitives and of other libraries' names, the R functions with their help pages, and the
version and address in CITATION.cff and r/DESCRIPTION. With
`--check` nothing is written, and the exit status tells whether all of them are up to date, and
whether the results of benchmarks, from which pages come, are JSON. `docs/reference.md` is not among
them: it says what passed in a run of the tests (`scripts/make_reference.py`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import make_keras1_stub
import make_metadata
import make_migration
import make_primitives
import make_r
import make_stubs
from backplane.known_engines import ENGINES

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks/results"

BOUND = '''\
"""K on {title}: `from backplane import {name} as K`.

Classic Keras takes it as its backend with `KERAS_BACKEND=backplane.{name}`. Written by
scripts/generate.py: do not edit.
"""

from backplane.interop import namespace as _namespace

globals().update(_namespace.namespace("{name}"))
'''


def files() -> Iterator[tuple[Path, str]]:
    """Each derived file with its text."""
    for name, known in ENGINES.items():
        yield ROOT / f"src/backplane/{name}.py", BOUND.format(name=name, title=known.title)
    yield from make_stubs.files()
    yield from make_keras1_stub.files()
    yield from make_primitives.files()
    yield from make_migration.files()
    yield from make_r.files()
    yield from make_metadata.files()


def unreadable(folder: Path) -> Iterator[str]:
    """What is said of each file in a folder that should be JSON and is not."""

    def refuse(name: str) -> NoReturn:
        raise ValueError(f"{name} is no number of JSON")

    for file in sorted(folder.glob("*.json")):
        try:
            json.loads(file.read_text(encoding="utf-8"), parse_constant=refuse)
        except ValueError as error:
            yield f"{file.name}: not JSON: {error}"


def main(arguments: list[str]) -> int:
    """Write the files, or compare; return the exit status."""
    wanted = dict(files())
    stale = sorted(set(make_r.PAGES.glob("k_*.Rd")) - wanted.keys())
    changed = [f for f, text in wanted.items() if not f.exists() or f.read_text("utf-8") != text]
    if "--check" in arguments:
        for file in [*stale, *changed]:
            print(f"{file.relative_to(ROOT)}: out of date, run scripts/generate.py")
        broken = list(unreadable(RESULTS))
        for line in broken:
            print(f"{RESULTS.relative_to(ROOT)}/{line}")
        return 1 if stale or changed or broken else 0
    for file in stale:
        file.unlink()
    for file in changed:
        file.parent.mkdir(exist_ok=True)
        file.write_text(wanted[file], encoding="utf-8")
    print(f"{len(wanted)} files, {len(changed)} written, {len(stale)} removed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
