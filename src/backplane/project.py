"""The project's name and address. Metadata, messages and the site are made from them."""

from __future__ import annotations

NAME = "keras-backplane"
"""The name of the distribution."""

VERSION = "0.1.0"

ADDRESS = ""
"""The address of the source and the tracker, such as `https://example.org/backplane`; empty until
they have a public place."""


def urls() -> dict[str, str]:
    """The addresses by their names in the metadata of a package."""
    if not ADDRESS:
        return {}
    return {
        "Source": ADDRESS,
        "Issues": f"{ADDRESS}/issues",
        "Changelog": f"{ADDRESS}/blob/main/CHANGELOG.md",
    }


def absolute(markdown: str) -> str:
    """A page of the repository with absolute links, for package indexes."""
    import re

    if not ADDRESS:
        return markdown
    pictures = re.sub(
        r"(!\[[^\]]*\]\()(?!https?:)([^)]+)\)", rf"\1{ADDRESS}/raw/main/\2)", markdown
    )
    return re.sub(r"(\]\()(?!https?:|#)([^)]+)\)", rf"\1{ADDRESS}/blob/main/\2)", pictures)
