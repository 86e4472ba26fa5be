"""Functions that are written as text: what their code shares, and what it does not."""

import gc
import linecache
import traceback

import pytest

from backplane.core.source import Source, _code, marked


def written(name, number):
    source = Source("test", number=number)
    with source.block("def outer():"):
        with source.block("def inner():"):
            source.line("return number / 0", mark=name)
        source.line("return inner()")
    return source.function("outer")


def failing(function):
    """The innermost place of the error that a call raises."""
    with pytest.raises(ZeroDivisionError) as caught:
        function()
    return traceback.extract_tb(caught.tb)[-1]


def test_equal_texts_share_code_and_nothing_else():
    first = written("first", 1)
    before = _code.cache_info()
    second = written("second", 2)
    after = _code.cache_info()
    assert (after.hits - before.hits, after.misses - before.misses) == (1, 0)
    places = [failing(f) for f in (first, second)]
    assert places[0].filename != places[1].filename
    assert [marked(place.filename, place.lineno) for place in places] == ["first", "second"]
    assert [place.line for place in places] == ["return number / 0"] * 2
    assert first.__globals__["number"] == 1
    assert second.__globals__["number"] == 2


def test_the_text_goes_with_its_function_though_the_code_is_kept():
    function = written("gone", 1)
    place = failing(function)
    assert place.filename in linecache.cache
    del function
    gc.collect()  # The error refers to itself, by its traceback.
    assert place.filename not in linecache.cache
    assert marked(place.filename, place.lineno) is None
    assert failing(written("again", 1)).line == "return number / 0"
