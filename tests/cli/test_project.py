"""The version and the address are written once."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

import backplane
from backplane import project

ROOT = Path(__file__).parents[2]


def test_every_file_has_the_version() -> None:
    assert backplane.__version__ == project.VERSION
    for file in ("CITATION.cff", "r/DESCRIPTION"):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^[Vv]ersion: {re.escape(project.VERSION)}$", text, re.MULTILINE)


def test_links_of_the_readme_are_absolute_once_there_is_an_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    monkeypatch.setattr(project, "ADDRESS", "https://example.org/b")
    made = project.absolute(readme)
    links = re.findall(r"\]\(([^)]+)\)", made)
    assert len(links) > 20
    assert all(link.startswith("https://") for link in links)
    assert "](https://example.org/b/raw/main/docs/assets/idea.svg)" in made
    assert "](https://example.org/b/blob/main/docs/faq.md)" in made
    assert "[![What" not in made or "](https://example.org/b/blob/main/docs/gallery.md)" in made
    assert set(project.urls()) == {"Source", "Issues", "Changelog"}


def test_nothing_is_invented_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "ADDRESS", "")
    assert project.urls() == {}
    assert project.absolute("[a](docs/a.md)") == "[a](docs/a.md)"


def test_files_of_other_tools_get_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "ADDRESS", "https://example.org/b")
    made = runpy.run_path(str(ROOT / "scripts" / "make_metadata.py"))
    texts = {file.name: text for file, text in made["files"]()}
    assert "\nrepository-code: https://example.org/b\n" in texts["CITATION.cff"]
    assert (
        "\nURL: https://example.org/b\nBugReports: https://example.org/b/issues\n"
        in (texts["DESCRIPTION"])
    )


@pytest.mark.parametrize("extra", ["", "check"])
def test_the_oldest_releases(
    extra: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["oldest.py", *extra.split()])
    runpy.run_path(str(ROOT / "scripts" / "oldest.py"), run_name="__main__")
    found = capsys.readouterr().out.split()
    assert all("==" in requirement for requirement in found)
    assert any(requirement.startswith("numpy==") for requirement in found)
    assert ("pytest==9" in found) == bool(extra)
