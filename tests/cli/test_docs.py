"""`backplane docs` and `backplane examples`: what comes with the package, and how to get at it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from backplane.cli import main
from backplane.cli.docs import READ_FIRST, programs, topics

ROOT = Path(__file__).parents[2]


def said(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == code, result.output
    return result.output


def test_topics_are_the_pages() -> None:
    pages = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    assert {f"{topic}.md" for topic in topics()} == pages
    listed = {row["topic"]: row["title"] for row in json.loads(said("docs", "--json"))}
    assert listed.keys() == topics().keys()
    assert listed["debugging"].startswith("Debugging")
    assert "backplane docs TOPIC" in said("docs")


@pytest.mark.parametrize("topic", ["debugging", "docs/debugging.md", "start/new-programs", "start"])
def test_a_page(topic: str) -> None:
    text = said("docs", topic)
    assert text.startswith("# ")
    assert json.loads(said("docs", topic, "--json"))["text"] + "\n" == text


def test_the_last_part_of_a_name_will_do() -> None:
    assert said("docs", "new-programs") == said("docs", "start/new-programs")


def test_a_topic_that_is_not_there() -> None:
    assert "did you mean debugging?" in said("docs", "debuging", code=2)


def test_the_pages_to_read_are_those_of_the_site() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    menu = text[text.index("  - Start:") : text.index("  - Reference:")]
    pages = [page.removesuffix(".md") for page in re.findall(r"[\w/-]+\.md", menu)]
    assert [page for page in pages if not page.startswith("gallery/")] == list(READ_FIRST)
    listed = said("docs")
    assert listed.index("faq ") < listed.index("For reference:") < listed.index("primitives ")


def test_a_word_leads_to_the_pages_that_mention_it() -> None:
    assert "pages that mention it: devices, " in said("docs", "GPU", code=2)
    assert "no topic 'qwertz'; `backplane docs` lists them" in said("docs", "qwertz", code=2)


def test_examples_are_the_programs() -> None:
    files = {p.stem for p in (ROOT / "examples").rglob("*.py")}
    assert programs().keys() == files
    rows = json.loads(said("examples", "--json"))
    assert {row["example"] for row in rows} == files
    assert all(row["shows"] for row in rows)


def test_an_example() -> None:
    file = ROOT / "examples" / "gallery" / "deep_dream.py"
    assert said("examples", "deep_dream") == file.read_text(encoding="utf-8")
    assert "deep_dream" in said("examples", "deep_draem", code=2)


def test_messages_name_pages_that_exist() -> None:
    """What a user reads names a command, which a file of the repository is not for all."""
    known = topics()
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for topic in re.findall(r"`backplane docs ([\w/-]+)`", text):
            assert topic in known or topic == "TOPIC", (file, topic)
        shown = re.sub(r'""".*?"""|#.*', "", text, flags=re.DOTALL)
        assert "docs/" not in re.sub(r"https?://\S+", "", shown.replace('"^docs/', "")), file
