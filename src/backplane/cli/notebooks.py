"""An example program as a Jupyter notebook."""

from __future__ import annotations

import ast
import json
import zlib
from typing import Any

PARSED = "parser.parse_args()"
"""The line by which programs read their options. A notebook has none: the cell gives a list to
change."""

IMPORTS = (ast.Import, ast.ImportFrom)


def notebook(text: str) -> str:
    """A program as a notebook in JSON: its docstring, then a cell for each paragraph."""
    body = ast.parse(text).body
    cells = [_cell("markdown", _title(ast.literal_eval(body[0].value)))]  # type: ignore[attr-defined]
    lines = text.replace(PARSED, "parser.parse_args([])").splitlines()
    start = body[1].lineno
    for statement, following in zip(body[1:], [*body[2:], None], strict=True):
        end = statement.end_lineno or statement.lineno
        imports = isinstance(statement, IMPORTS) and isinstance(following, IMPORTS)
        if following is None or (not lines[end].strip() and not imports):
            cells.append(_cell("code", "\n".join(lines[start - 1 : end])))
            # Comments above the next statement belong to it.
            start = end + 1
            while start <= len(lines) and not lines[start - 1].strip():
                start += 1
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    content = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _title(docstring: str) -> str:
    first, _, rest = docstring.strip().partition("\n\n")
    return f"# {' '.join(first.split()).rstrip('.')}\n\n{rest}"


def _cell(kind: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "cell_type": kind,
        "id": f"{zlib.crc32(source.encode()):08x}",
        "metadata": {},
        "source": source.splitlines(keepends=True),
    }
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell
