"""The outcomes of programs with Keras 3 as a fixture."""

from __future__ import annotations

import pytest

from interop.environments import shared_folder
from keras3.outcomes import Outcomes


@pytest.fixture
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """What programs return on engines and on Keras' own JAX."""
    return Outcomes(shared_folder(tmp_path_factory) / "keras3")
