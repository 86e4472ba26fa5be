"""What `covers` says goes into the record."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def recorded(request: pytest.FixtureRequest) -> None:
    used = "engine" in request.fixturenames
    engine = request.getfixturevalue("engine").name if used else "any"
    for name, aspect in getattr(request.function, "covered", ()):
        request.node.user_properties.append(("conformance", (name, engine, aspect)))
