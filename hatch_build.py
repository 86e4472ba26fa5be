"""The metadata that hatchling cannot read from a file: the version, addresses, and the README with
links that work on a package index. All of it comes from `src/backplane/project.py`.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ProjectMetadata(MetadataHookInterface):
    """Called by hatchling for each build."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in the fields that `pyproject.toml` calls dynamic."""
        project = runpy.run_path(str(Path(self.root, "src", "backplane", "project.py")))
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["version"] = project["VERSION"]
        metadata["urls"] = project["urls"]()
        text = project["absolute"](readme)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
