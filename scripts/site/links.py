"""Links in docs/ that are right in the repository and have another name on the site."""

from __future__ import annotations

from typing import Any

LINKS = {"](../CONTRIBUTING.md": "](contributing.md", "](../CHANGELOG.md": "](changelog.md"}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for each page."""
    for repository, site in LINKS.items():
        markdown = markdown.replace(repository, site)
    return markdown
