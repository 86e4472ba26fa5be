"""Spies on what engines call."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from spying import Call, Spy


@pytest.fixture
def spied(monkeypatch: pytest.MonkeyPatch) -> Spy:
    """`spied(module, name)` gives the calls of a function of a module from then on."""

    def spy(module: ModuleType, name: str) -> list[Call]:
        function = getattr(module, name)
        calls: list[Call] = []

        def noted(*args: Any, **options: Any) -> Any:
            calls.append(call := Call(args))
            call.result = function(*args, **options)
            return call.result

        monkeypatch.setattr(module, name, noted)
        return calls

    return spy
