"""What the tests of the settings share."""

from __future__ import annotations

import json

import pytest

from backplane import config


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A fresh process, as far as the settings go: the path of a keras.json that is absent."""
    monkeypatch.setattr(config, "_state", config._State())
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    return tmp_path / "home" / "keras.json"


@pytest.fixture
def put(file):
    """Writes that keras.json: bytes, text, or an object."""

    def write(content):
        if isinstance(content, dict):
            content = json.dumps(content, indent=4)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)

    return write
