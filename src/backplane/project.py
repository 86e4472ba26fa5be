"""The project's name and address. Metadata, messages and the site are made from them."""

from __future__ import annotations

from types import ModuleType

NAME = "keras-backplane"
"""The name of the distribution."""

VERSION = "0.1.0"

ADDRESS = ""
"""The address of the source and the tracker, such as `https://example.org/backplane`; empty until
they have a public place."""


def install_command(extra: str) -> str:
    """The command that installs an extra, from where Backplane itself was installed: a folder, a
    wheel, or a package index.
    """
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        text = distribution(NAME).read_text("direct_url.json")
    except PackageNotFoundError:
        text = None
    source = json.loads(text or "{}")  # PEP 610; there is no such file for what an index gave.
    path = Path(url2pathname(urlsplit(source.get("url", "")).path))
    if not source or not path.is_absolute() or not path.exists():
        return f'pip install "{NAME}[{extra}]"'
    editable = "-e " if source.get("dir_info", {}).get("editable") else ""
    return f'pip install {editable}"{path}[{extra}]"'


def library(module: str, extra: str, what: str) -> ModuleType:
    """A module of a library that comes with an extra. The ImportError begins with `what`."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        command = install_command(extra)
        raise ImportError(f"{what}, which is not installed: {command}") from error


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
