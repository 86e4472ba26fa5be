"""What a test outside the conformance cases shows of which functions, for the record; and what a
document's print shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backplane import backend as K
from backplane.cli.check import ASPECTS


def covers(*names: str, spec: bool = False, gradient: bool = False) -> Callable[[Any], Any]:
    """Decorator: the test checks the values of these functions, and more if it says so.

    A test without the fixture `engine` is about something that no engine takes part in.
    """
    shown = [a for a, found in zip(ASPECTS, (True, spec, gradient), strict=True) if found]

    def decorate(test: Any) -> Any:
        test.covered = [*getattr(test, "covered", []), *((n, a) for n in names for a in shown)]
        return test

    return decorate


def shown(x: Any) -> tuple[Any, str]:
    """What a document's print of a tensor tells."""
    return K.int_shape(x), K.dtype(x)
