"""Links in docs/ that are right in the repository and differ on the site, and what drawings become
there.
"""

from __future__ import annotations

import re
from typing import Any

LINKS = {"](../CONTRIBUTING.md": "](contributing.md", "](../CHANGELOG.md": "](changelog.md"}

EXAMPLES = re.compile(r"\[([\w.]+)\]\(\.\./examples/[^)]*\)")
"""Links to examples, which the site shows as the names of their files."""

DRAWING = re.compile(r"^(!\[[^\]]*\]\(([^)]*\.svg)\))$", re.MULTILINE)
"""A drawing on a line of its own. On the site a click opens it in its full size."""

IDEA = re.compile(r"^(!\[[^\]]*\]\(assets/idea)\.svg\)$", re.MULTILINE)
"""The picture of the landing page, which has a tall form for narrow screens."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for each page."""
    for repository, site in LINKS.items():
        markdown = markdown.replace(repository, site)
    markdown = IDEA.sub(r"\1.svg){ .wide }\n\1-narrow.svg){ .narrow }", markdown)
    markdown = DRAWING.sub(r"[\1](\2)", markdown)
    return EXAMPLES.sub(r"`\1`", markdown)
