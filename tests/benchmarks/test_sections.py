"""The page of which several programs each write one section."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import kernels, sections
from benchmarks.networks import resources, resources_page


def test_a_section_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    marks = "<!-- {0}: written by a program -->\nold\n<!-- end of {0} -->\n"
    file.write_text(f"# Page\n\n{marks.format('one')}\n{marks.format('two')}\nend\n")
    sections.write("one", "# One\n\n```\n# no heading\n```\n\n## Part\n", file)
    text = file.read_text()
    assert "-->\n## One\n\n```\n# no heading\n```\n\n### Part\n<!-- end of one -->" in text
    assert marks.format("two") in text
    assert text.endswith("\nend\n")
    with pytest.raises(ValueError, match="no section three"):
        sections.write("three", "", file)


def test_the_sections_are_made_of_the_results(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    before = sections.PAGE.read_text(encoding="utf-8")
    file.write_text(before, encoding="utf-8")
    found = json.loads(resources.FILE.read_text("utf-8"))
    sections.write("resources", resources_page.text(found), file)
    table = json.loads(kernels.RESULTS.read_text("utf-8"))
    processors = table.pop(kernels.PROCESSORS)
    sections.write("kernels", kernels.text(table, processors), file)
    assert file.read_text(encoding="utf-8") == before
