"""The version and the address in the files that other tools read: CITATION.cff, r/DESCRIPTION."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from backplane.project import ADDRESS, VERSION

ROOT = Path(__file__).resolve().parents[1]


def files() -> Iterator[tuple[Path, str]]:
    """Both files with their text."""
    citation, r = ROOT / "CITATION.cff", ROOT / "r" / "DESCRIPTION"
    yield citation, _with(citation, "version", VERSION, "repository-code", ADDRESS)
    issues = f"{ADDRESS}/issues" if ADDRESS else ""
    text = _with(r, "Version", VERSION, "URL", ADDRESS)
    yield r, _field(text, "BugReports", issues, below="URL")


def _with(file: Path, version: str, number: str, address: str, url: str) -> str:
    text = re.sub(
        rf"^{version}: .*$", f"{version}: {number}", file.read_text("utf-8"), flags=re.MULTILINE
    )
    return _field(text, address, url, below=version)


def _field(text: str, name: str, value: str, below: str) -> str:
    """The text with a field behind another one, or without it if there is no value."""
    text = re.sub(rf"^{name}: .*\n", "", text, flags=re.MULTILINE)
    if not value:
        return text
    return re.sub(rf"^({below}: .*\n)", rf"\1{name}: {value}\n", text, flags=re.MULTILINE)
