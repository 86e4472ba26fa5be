"""Sizes that no machine, or no engine, can hold, are refused before anything is allocated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backplane import backend as K

HUGE = 2**62
BEYOND_ADDRESSES = 2**46
"""So many float32 numbers need more bytes than a process has addresses."""

IMPOSSIBLE = {
    "zeros": lambda: K.zeros((2**31, 2**31)),
    "ones": lambda: K.ones((HUGE,)),
    "constant": lambda: K.constant(1.0, shape=(2**32, 2**32)),
    "eye": lambda: K.eye(2**31),
    "arange": lambda: K.arange(HUGE, dtype="int64"),
    "placeholder": lambda: K.placeholder((2**31, 2**31)),
    "random_normal": lambda: K.random_normal((HUGE,)),
    "random_uniform_variable": lambda: K.random_uniform_variable((HUGE,), 0.0, 1.0),
    "tile": lambda: K.tile(K.ones((2, 3)), (HUGE, 1)),
    "repeat": lambda: K.repeat(K.ones((2, 3)), HUGE),
    "repeat_elements": lambda: K.repeat_elements(K.ones((2, 3)), HUGE, 0),
    "temporal_padding": lambda: K.temporal_padding(K.ones((1, 2, 3)), (HUGE, HUGE)),
    "resize_images": lambda: K.resize_images(K.ones((1, 2, 2, 1)), HUGE, 1, "channels_last"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_more_elements_than_64_bits_count(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^K\.{name}: .*has more than 2\*\*60 elements"):
        IMPOSSIBLE[name]()


@pytest.mark.parametrize("what", ["pool_size", "strides"])
def test_windows_that_integers_of_engines_do_not_hold(what: str) -> None:
    given = {"pool_size": (2, 2), "strides": (1, 1), what: (2**31, 1)}
    with pytest.raises(ValueError, match=rf"^K\.pool2d: {what} must be .*below 2\*\*31"):
        K.pool2d(K.ones((1, 4, 4, 1)), **given)


ALLOCATIONS = {
    "tile": lambda: K.tile(K.ones((2, 3)), (BEYOND_ADDRESSES, 1)),
    "pad": lambda: K.temporal_padding(K.ones((1, 2, 3)), (BEYOND_ADDRESSES, 0)),
    "random": lambda: K.random_uniform((BEYOND_ADDRESSES,)),
}


@pytest.mark.parametrize("name", ALLOCATIONS)
def test_too_little_memory(engine: Any, name: str) -> None:
    tensor = ALLOCATIONS[name]()
    if engine.largest_size < BEYOND_ADDRESSES:
        with pytest.raises(NotImplementedError, match=f"{engine.name}.* has no axes of more than"):
            K.eval(tensor)
    else:
        with pytest.raises(MemoryError, match=r"^K\.eval: "):
            K.eval(tensor)
    assert K.eval(K.ones((2,)) + 1).tolist() == [2, 2]


@pytest.mark.parametrize("make", [K.zeros, K.ones, K.arange])
def test_too_little_memory_for_an_array(make: Any) -> None:
    with pytest.raises(MemoryError, match=rf"^K\.{make.__name__}: "):
        make(BEYOND_ADDRESSES, dtype="float32")


@pytest.mark.parametrize("numbers", [(5, 0, -1), (0, 255, 2), (0, 200_001, 3), (4, 4), (0, 5, 7)])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "float32"])
def test_ranges_are_made_in_blocks(numbers: tuple[int, ...], dtype: str) -> None:
    found = K.eval(K.arange(*numbers, dtype=dtype))
    assert found.dtype == dtype
    assert np.array_equal(found, np.arange(*numbers))


def test_the_last_number_of_a_range_must_fit() -> None:
    assert K.eval(K.arange(0, 256, dtype="uint8"))[-1] == 255
    with pytest.raises(ValueError, match="got 256"):
        K.arange(0, 257, 2, dtype="uint8")


@pytest.mark.parametrize("call", ["reshape", "tile", "dropout"])
@pytest.mark.usefixtures("engine")
def test_sizes_of_uint64(call: str) -> None:
    """They may be larger than any size, which libraries notice late and in words of their own."""
    x, size = np.ones((2, 3), "float32"), np.array([2**63], "uint64")
    calls = {
        "reshape": lambda: K.reshape(x, shape=size),
        "tile": lambda: K.tile(x, n=size),
        "dropout": lambda: K.dropout(x, 0.5, noise_shape=size, seed=1),
    }
    with pytest.raises(TypeError, match=rf"K\.{call}: .*uint64"):
        calls[call]()
