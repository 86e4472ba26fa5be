"""The documentation site builds without a warning, and leads to every page and function."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

import waiting
from backplane import backend as K

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    silent = {"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}
    done = waiting.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, **silent},
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return folder


@pytest.mark.parametrize("file", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"])
def test_links_of_files_beside_the_pages_lead_somewhere(file):
    text = (ROOT / file).read_text(encoding="utf-8")
    links = re.findall(r"\]\(((?!https?:)[^)#\s]+)[^)]*\)", text)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.slow
def test_every_page_is_in_the_navigation(site):
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"[\w/-]+\.md", text))
    pages = {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")}
    assert pages <= listed
    built = {str(p.relative_to(site).with_suffix(".md")) for p in site.rglob("*.html")}
    assert built - {"404.md"} == listed


@pytest.mark.slow
def test_every_function_has_its_place_and_example(site):
    for chapter in K._CHAPTERS:
        name = chapter.__name__.rpartition(".")[2]
        page = (site / "reference" / f"{name}.html").read_text(encoding="utf-8")
        missing = [f for f in chapter.__all__ if f'id="{chapter.__name__}.{f}"' not in page]
        assert not missing
        assert page.count("Tests confirm:") == len(chapter.__all__)


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?://[^"]*"', text), page
