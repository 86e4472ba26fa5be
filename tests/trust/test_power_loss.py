"""A process that ends in the midst of writing `keras.json` leaves the old file or the new one."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

import waiting
from backplane import _keras_json as keras_json
from backplane.cli import settings
from interrupting import Interrupt, handling
from trust.faults import FAULTS, Injector, raising

OLD = '{"floatx": "float64", "backend": "torch", "theirs": [1]}'
NEW = json.loads(OLD) | {"backend": "numpy"}

DYING = """
import json, os, sys
from backplane import _keras_json as keras_json
from backplane.cli import settings
file, old, action = sys.argv[1:]
def absent():
    if os.path.exists(file):
        os.unlink(file)
def begin():
    absent()
    if old:
        with open(file, "w") as stream:
            stream.write(old)
for number in range(1, 10_000):
    begin()
    child = os.fork()
    if not child:
        left = [number]
        def die(frame, event, function):
            left[0] -= event == "c_call"
            if not left[0]:
                os._exit(9)
        sys.setprofile(die)
        if action == "use":
            settings._write_choice(file, "numpy")
        else:
            keras_json.write(file)
        sys.setprofile(None)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if os.path.exists(file):
        with open(file) as stream:
            print(json.dumps(stream.read()))
    else:
        print("null")
    if not status:
        break
print(json.dumps(number))
"""


def _states(file: Path, old: str, action: str) -> list[str | None]:
    """What is in the file when the process ends before its first, second, … call into C."""
    arguments = [sys.executable, "-c", DYING, str(file), old, action]
    done = waiting.run(arguments, check=True)
    *states, number = map(json.loads, done.stdout.splitlines())
    assert number == len(states) > 10
    return states


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("old", [OLD, ""])
def test_the_process_dies_while_an_engine_is_chosen(tmp_path: Path, old: str) -> None:
    states = _states(tmp_path / "keras.json", old, "use")
    # Where there was no file, `use` begins with the default one.
    accepted = [old] if old else [None, keras_json.DEFAULT_TEXT]
    new = NEW if old else json.loads(keras_json.DEFAULT_TEXT) | {"backend": "numpy"}
    assert states[0] == (old or None)
    assert json.loads(states[-1] or "") == new
    assert {s for s in states if s not in accepted} == {states[-1]}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_the_process_dies_while_the_default_file_is_written(tmp_path: Path) -> None:
    states = _states(tmp_path / "keras.json", "", "write")
    assert set(states) == {None, keras_json.DEFAULT_TEXT}


# A signal between Python's `open` and `with` leaves the stream to Python.
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("fault", FAULTS)
def test_each_step_of_choosing_an_engine_fails(tmp_path: Path, fault: str) -> None:
    kind, act, expected = FAULTS[fault]
    file = tmp_path / "keras.json"
    for number in range(1, 10_000):
        file.write_text(OLD)
        injector, raised = Injector(kind, number, act), False
        try:
            with handling(signal.SIGTERM), injector.armed():
                settings._write_choice(str(file), "numpy")
        except expected:
            raised = True
        found = json.loads(file.read_text())
        assert found in ([json.loads(OLD), NEW] if raised else [NEW]), injector.place
        if not injector.reached:
            assert number > 5
            return


@pytest.mark.parametrize("action", ["use", "write"])
def test_the_content_is_on_the_disk_before_it_has_the_name(
    tmp_path: Path, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may store names before contents: without `fsync`, power loss leaves an empty file."""
    file, synced, named = tmp_path / "keras.json", {}, []

    def fsync(descriptor: int) -> None:
        found = os.fstat(descriptor)
        synced[found.st_ino] = found.st_size

    def checked(function, part, name):
        found = os.stat(part)
        assert synced.get(found.st_ino) == found.st_size > 0
        named.append(name)
        return function(part, name)

    link, replace = os.link, os.replace
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", lambda a, b: checked(link, a, b))
    monkeypatch.setattr(os, "replace", lambda a, b: checked(replace, a, b))
    if action == "use":
        settings._write_choice(str(file), "numpy")
    else:
        keras_json.write(str(file))
    assert set(named) == {str(file)}


def test_a_disk_without_links_keeps_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, opened = tmp_path / "keras.json", open

    def failing(name, mode="r", **given):
        stream = opened(name, mode, **given)
        if name == str(file):
            stream.write = raising(Interrupt)
        return stream

    monkeypatch.setattr(os, "link", raising(OSError))
    monkeypatch.setattr(keras_json, "open", failing, raising=False)
    with pytest.raises(Interrupt):
        keras_json.write(str(file))
    assert list(tmp_path.iterdir()) == []
