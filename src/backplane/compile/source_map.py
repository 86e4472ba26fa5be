"""Leads from a line of an emitted program to its node, so that errors can name the user's line."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from backplane.core.context import Where
from backplane.core.graph import Tensor
from backplane.core.numbers import complaint
from backplane.core.primitive import Primitive
from backplane.core.registry import PRIMITIVES
from backplane.core.source import marked
from backplane.engines.base import Engine
from backplane.ops.control import NOTHING_TO_DO
from backplane.ops.effects import check_numerics
from backplane.ops.indexing import gather, scatter_add


class Place(NamedTuple):
    """The mark of an emitted line: its primitive, and the user's line that built the node."""

    op: Primitive[Any]
    where: Where | None
    spec: Any = None
    """The spec of the line's result; a tuple of specs if there are several results."""
    message: str = ""
    """The user's own message, of a primitive that has one."""


def place_of(node: Tensor) -> Place:
    """The place of a node."""
    assert node.op is not None
    return Place(node.op, node.where, node.spec, node.params.get("message", ""))


def built_at(error: BaseException) -> Place | None:
    """The place that failed, from an error's traceback; None if no emitted program is in it."""
    place: Place | None = None
    trace = error.__traceback__
    while trace is not None:
        place = marked(trace.tb_frame.f_code.co_filename, trace.tb_lineno) or place
        trace = trace.tb_next
    return place


_LINE = re.compile(r"\[(<backplane program \d+>):(\d+)\]")
"""The form in which a function that the engine's runtime calls names its emitted line."""


def explain(
    error: BaseException, engine: Engine, run: Callable[..., Any] | None = None
) -> Place | None:
    """Add to an error from a running program which primitive failed and where it was built, which
    is returned if it is known. If the program `run` is a graph of the engine's own, the engine
    knows the line (`located`). IndexError, FloatingPointError (`check_numerics`) and MemoryError
    take the place of what the engine raises for them.
    """
    place = built_at(error)
    if place is None and (line := getattr(run, "failing_line", lambda _: None)(error)):
        place = marked(*line)
    if place is None and (named := _LINE.search(str(error))):
        place = marked(named[1], int(named[2]))
    if place is not None:
        failed_at(place, error, engine)
    if _is_shortage(error, engine):
        raise MemoryError(str(error)) from error
    return place


def _is_shortage(error: BaseException, engine: Engine) -> bool:
    """Whether the engine's library says in an error of its own that memory is short."""
    own = not isinstance(error, MemoryError | ValueError | TypeError | NotImplementedError)
    return own and re.search(engine.shortage, str(error)) is not None


def failed_at(place: Place, error: BaseException, engine: Engine) -> None:
    """Add the place that failed to an error, or raise another one for it, as `explain` does."""
    better = error
    if place.op is check_numerics and not isinstance(error, TypeError | NotImplementedError):
        if type(error) is not FloatingPointError:
            better = complaint(place.message, *engine.bad_numbers(error))
    elif _is_shortage(error, engine):
        better = MemoryError(str(error))
    elif place.op in (gather, scatter_add) and isinstance(error, engine.index_errors):
        better = IndexError(f"{written(place)}: an index is out of range: {error}")
    tell(better, engine, place)
    if better is not error:
        raise better from error


def tell(error: BaseException, engine: Engine, place: Place) -> None:
    """Add to an error the primitive that failed, its name scope, and where it was built."""
    at = f", built at {calls_of(place.where)}" if place.where else ""
    scopes = place.where.scopes if place.where else ()
    inside = f" in {'/'.join(scopes)!r}" if scopes else ""
    error.add_note(
        f"backplane: while running {place.op.name!r}{inside} on the engine {engine.name!r}{at}"
    )


MOST_WRITTEN = 60
"""Characters of the user's code that an error quotes."""


def written(place: Place) -> str:
    """The user's expression that failed: the function that was called, such as `K.dot`, or the
    expression, such as `x + y`. The primitive's name if nobody knows.
    """
    where = place.where
    text = where.expression if where is not None else ""
    try:
        tree: ast.AST = ast.parse(f"({text})", mode="eval").body
    except (SyntaxError, ValueError):
        try:
            tree = ast.parse(text).body[0]  # `x += y`
        except (SyntaxError, ValueError, IndexError):
            return place.op.name
    if isinstance(tree, ast.Call):
        tree = tree.func
    elif not isinstance(tree, _OPERATIONS):
        return place.op.name
    plain = ast.unparse(tree)
    if len(plain) > MOST_WRITTEN:
        plain = f"{plain[: MOST_WRITTEN - 1]}…"
    return f"the gradient of {plain}" if where is not None and where.gradient else plain


_OPERATIONS = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.AugAssign)


def in_users_words(error: Exception, place: Place) -> Exception:
    """A spec rule's error, with the user's expression in place of the primitive's name."""
    what, text = written(place), str(error)
    inner, colon, rest = text.partition(": ")
    text = rest if colon and inner in PRIMITIVES else text
    if isinstance(error, IndexError):
        if what.endswith("]"):
            return IndexError(f"{what}: {text}")
        # A loop's last output, or the element that a fold begins with.
        text = NOTHING_TO_DO
    return ValueError(f"{what}: {text}")


def calls_of(where: Where) -> str:
    """A line of the user's code, and below it the lines of the user's calls that led to it."""
    return "\n  called from ".join(map(str, where.chain()))
