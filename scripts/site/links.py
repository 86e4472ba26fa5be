"""Links in docs/ that are right in the repository and have another name on the site."""

from __future__ import annotations

import re
from typing import Any

LINKS = {"](../CONTRIBUTING.md": "](contributing.md", "](../CHANGELOG.md": "](changelog.md"}

EXAMPLES = re.compile(r"\[([\w.]+)\]\(\.\./examples/[^)]*\)")
"""Links to examples, which the site shows as the names of their files."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for each page."""
    for repository, site in LINKS.items():
        markdown = markdown.replace(repository, site)
    return EXAMPLES.sub(r"`\1`", markdown)
