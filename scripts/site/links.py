"""What differs between a page in the repository and on the site: links, drawings, and whether the
search finds it.
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


LISTS = ("reference.md", "reference/index.md")
"""Lists of names. The search leads to the functions themselves."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for each page."""
    if page.file.src_uri in LISTS:
        page.meta["search"] = {"exclude": True}
    for repository, site in LINKS.items():
        markdown = markdown.replace(repository, site)
    markdown = IDEA.sub(r"\1.svg){ .wide }\n\1-narrow.svg){ .narrow }", markdown)
    markdown = DRAWING.sub(r"[\1](\2)", markdown)
    return EXAMPLES.sub(r"`\1`", markdown)
