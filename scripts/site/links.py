"""What differs between a page in the repository and on the site: links, drawings, and what the
search finds first.
"""

from __future__ import annotations

import re
from typing import Any

from backplane.project import ADDRESS, VERSION

LINKS = {"](../CONTRIBUTING.md": "](contributing.md", "](../CHANGELOG.md": "](changelog.md"}

PROGRAMS = re.compile(r"\[([\w.]+)\]\(\.\./examples/gallery/(\w+)\.py\)")
"""Links to programs of the gallery, each of which has a page."""

EXAMPLES = re.compile(r"\[([\w./]+)\]\(\.\./examples/[^)]*\)")
"""Links to other examples, which the site shows as the names of their files."""

DRAWING = re.compile(r"^(!\[[^\]]*\]\(([^)]*\.svg)\))$", re.MULTILINE)
"""A drawing on a line of its own. On the site a click opens it in its full size."""

IDEA = re.compile(r"^(!\[[^\]]*\]\(assets/idea)\.svg\)$", re.MULTILINE)
"""The picture of the landing page, which has a tall form for narrow screens."""

LISTS = ("reference.md", "reference/index.md")
"""Lists of names. The search leads to the functions themselves."""

MEASURED = (
    "benchmarks", "changelog", "compatibility", "contributing", "history", "how-it-works",
    "keras-3-applications", "keras-3-speed", "measurements", "networks", "primitives", "releasing",
)  # fmt: skip
"""Pages that the search shows last: measurements, and what only developers read. A word in a title
counts a thousand times as much as one in the text, so they count less than a thousandth."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for each page."""
    uri = page.file.src_uri
    if uri in LISTS:
        page.meta["search"] = {"exclude": True}
    elif uri.startswith("reference/"):
        page.meta["search"] = {"boost": 4}
    elif uri.removesuffix(".md") in MEASURED:
        page.meta["search"] = {"boost": 0.001}
    if uri == "index.md":
        source = f" · [Source]({ADDRESS})" if ADDRESS else ""
        markdown = markdown.replace("<!-- version -->", f"Version {VERSION}{source}")
    for repository, site in LINKS.items():
        markdown = markdown.replace(repository, site)
    markdown = PROGRAMS.sub(r"[\1](gallery/\2.md)", markdown)
    markdown = IDEA.sub(r"\1.svg){ .wide }\n\1-narrow.svg){ .narrow }", markdown)
    markdown = DRAWING.sub(r"[\1](\2)", markdown)
    return EXAMPLES.sub(r"`\1`", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Called by mkdocs with what became of a page. The search reads no source code."""
    source = 'class="mkdocstrings-source"'
    return html.replace(f"<details {source}", f"<details data-search-exclude {source}")
