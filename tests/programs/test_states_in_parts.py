"""States whose values are in the files of several processes, read by a single one."""

import numpy as np
import pytest

from backplane import _files
from backplane import backend as K
from backplane.backend import _state_files

VALUES = np.arange(24.0, dtype="float32").reshape(4, 6)
FIRST, SECOND = "0123456789abcdef", "fedcba9876543210"


def save(file, values, token):
    """What two processes do that hold `w` in two parts each, and all of `b`."""
    names = [_state_files.parts_folder(file) / f"{token}-{i}.safetensors" for i in range(2)]
    blocks = [[((2 * i, j), values[2 * i : 2 * i + 2, j : j + 3]) for j in (0, 3)] for i in (0, 1)]
    written = [_state_files.write_parts(names[i], {"w": blocks[i]}) for i in range(2)]
    table = {"w": ("float32", values.shape, [part for parts in written for part in parts["w"]])}
    content = _state_files.packed({"b": values[0]}, table, K.random_state())
    return names, lambda: _files.replace(str(file), content)


@pytest.fixture
def state(tmp_path):
    """A file, and those of the parts."""
    names, finish = save(tmp_path / "state", VALUES, FIRST)
    finish()
    return tmp_path / "state", names


def test_a_single_process_reads_all_parts(state):
    found = K.load_state(state[0])
    np.testing.assert_array_equal(found["w"], VALUES)
    w, b = K.variable(0 * VALUES), K.zeros((6,))
    found = K.load_state(state[0], {"w": w, "b": b})
    assert sorted(found) == ["b", "w"]
    np.testing.assert_array_equal(K.get_value(w), VALUES)
    np.testing.assert_array_equal(K.get_value(b), VALUES[0])


@pytest.mark.parametrize(
    "region", [(slice(0, 2), slice(0, 3)), (slice(1, 3), slice(2, 5)), (slice(3, 3), slice(None))]
)
def test_a_region_needs_the_parts_that_it_meets(state, region):
    file, names = state
    in_parts = _state_files.read(file).in_parts["w"]
    np.testing.assert_array_equal(in_parts.read(region), VALUES[region])
    names[1].unlink()
    in_parts = _state_files.read(file).in_parts["w"]
    if region[0].stop <= 2 or region[0] == slice(3, 3):
        np.testing.assert_array_equal(in_parts.read(region), VALUES[region])
    else:
        with pytest.raises(ValueError, match=rf"{names[1].name}' is missing"):
            in_parts.read(region)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda content: content[:-1], "is damaged"),
        (lambda content: b"", "is damaged"),
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "was altered"),
        (lambda content: content.replace(b"from 2, 0", b"from 2, 1"), "is damaged"),
    ],
)
def test_bad_parts(state, harm, words):
    file, names = state
    names[1].write_bytes(harm(names[1].read_bytes()))
    w = K.ones((4, 6))
    with pytest.raises(ValueError, match=rf"{names[1].name}' {words}.*a part of the state .*state"):
        K.load_state(file, {"w": w})
    assert K.get_value(w).min() == 1


def test_parts_of_another_state_do_not_pass(state):
    """The names of the parts stay, but not their content."""
    file, names = state
    others, _ = save(file, VALUES + 1, SECOND)
    names[0].write_bytes(others[0].read_bytes())
    with pytest.raises(ValueError, match="was altered"):
        K.load_state(file)


def test_a_process_that_dies_between_the_parts_and_the_state_leaves_the_one_before(state):
    file, names = state
    save(file, VALUES + 1, SECOND)
    np.testing.assert_array_equal(K.load_state(file)["w"], VALUES)
    mine = names[0].with_name("notes.txt")
    mine.touch()
    K.save_state(file, {"w": K.variable(VALUES + 2)})  # has no parts
    np.testing.assert_array_equal(K.load_state(file)["w"], VALUES + 2)
    assert list(mine.parent.iterdir()) == [mine]
    mine.unlink()
    K.save_state(file, {"w": K.variable(VALUES)})
    assert not mine.parent.exists()


def test_the_last_complete_state_of_a_folder(state):
    file, names = state
    K.save_state(file.with_name("before"), {"w": K.variable(VALUES - 1)})
    file.touch()
    names[0].unlink()
    with pytest.warns(UserWarning, match="is missing, a part of the state.*file before it"):
        found = K.load_state(file.parent)
    np.testing.assert_array_equal(found["w"], VALUES - 1)


def test_a_state_that_is_replaced_while_it_is_read(state, monkeypatch):
    """Another process has put a new state into the place of the old one, and removed its parts."""
    file, names = state
    read = _state_files.InParts.whole

    def replaced(self):
        if names[0].exists():
            save(file, VALUES + 1, SECOND)[1]()
            _state_files.remove_other_parts(str(file), SECOND)
        return read(self)

    monkeypatch.setattr(_state_files.InParts, "whole", replaced)
    np.testing.assert_array_equal(K.load_state(file)["w"], VALUES + 1)
