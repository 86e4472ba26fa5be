"""Numbers that become integers or bools: nothing is lost in silence, whatever way they take."""

import numpy as np
import pytest

from backplane import backend as K
from documents.covering import covers

RANGE = r"(holds whole numbers from|with fractions|numbers other than 0 and 1)"


def by_update(number, dtype):
    v = K.variable(0, dtype=dtype)
    K.function([], [], [(v, number)])([])
    return K.get_value(v)


def by_setting(number, dtype):
    v = K.variable(0, dtype=dtype)
    K.set_value(v, number)
    return K.get_value(v)


def by_several(number, dtype):
    v, w = K.variable(0, dtype=dtype), K.variable(0.0)
    K.batch_set_value([(w, 1.5), (v, number)])
    return K.get_value(v)


def by_feeding(number, dtype):
    x = K.placeholder((), dtype=dtype)
    return K.function([x], [K.identity(x)])([number])[0]


def by_session(number, dtype):
    x = K.placeholder((), dtype=dtype)
    return K.get_session().run(K.identity(x), {x: number})


WAYS = {
    "K.variable": lambda n, dtype: K.get_value(K.variable(n, dtype=dtype)),
    "K.constant": lambda n, dtype: K.eval(K.constant(n, dtype=dtype)),
    "K.set_value": by_setting,
    "K.batch_set_value": by_several,
    "K.function": by_feeding,
    "session.run": by_session,
    "updates": by_update,
    "K.update": lambda n, dtype: K.eval(K.update(K.variable(0, dtype=dtype), n)),
}


@covers("set_value", "variable", "constant", "update")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_one_rule(engine, way, dtype):
    take = WAYS[way]
    for good in (1, 1.0, np.float64(1), np.array(1, "int64"), np.array(1.0, "float16"), True):
        found = take(good, dtype)
        assert (found.dtype, found) == (dtype, 1)
    wrong = [1.7, -0.5, np.float32(0.5), np.array(1.5), np.nan, np.inf]
    wrong += [2, -1, 2.0] if dtype == "bool" else [2.0**70]
    for bad in wrong:
        with pytest.raises((TypeError, ValueError), match=RANGE):
            take(bad, dtype)
    for bad in (1.7, np.array(0.25)):
        with pytest.raises(TypeError, match=r"fractions|numbers other than 0 and 1"):
            take(bad, dtype)


@covers("update_add", "update_sub")
def test_updates_by_numbers(engine):
    v = K.variable(3, dtype="int32")
    K.function([], [], [K.update_add(v, 2.0)])([])
    K.function([], [], [K.update_sub(v, np.array(1.0))])([])
    assert K.get_value(v) == 4
    for update in (K.update_add, K.update_sub, K.update):
        with pytest.raises(TypeError, match=rf"K\.{update.__name__}: .*with fractions"):
            update(v, 1.7)
    with pytest.raises(TypeError, match=r"K\.moving_average_update: .*is int32, .* is float32"):
        K.moving_average_update(v, 1, 0.5)


def test_updates_by_tensors(engine):
    x = K.placeholder(())
    v, flag = K.variable(3, dtype="int32"), K.variable(0, dtype="bool")
    for update in (K.update_add, K.update_sub, K.update):
        with pytest.raises(TypeError, match=rf"K\.{update.__name__}: .*K\.cast\(x, 'int32'\)"):
            update(v, x)
    with pytest.raises(TypeError, match=r"K\.function: updates\[0\]: .*is bool, .* is float32"):
        K.function([x], [], [(flag, x)])
    K.function([x], [], [(v, K.cast(x, "int32")), (flag, x > 0)])([2.7])
    assert (K.get_value(v), K.get_value(flag)) == (2, True)


@covers("arange")
def test_ranges():
    assert K.eval(K.arange(0.0, 3.0)).tolist() == [0, 1, 2]
    assert K.eval(K.arange(0, 1, 0.25, "float32")).tolist() == [0, 0.25, 0.5, 0.75]
    with pytest.raises(TypeError, match=r"K\.arange: .*with fractions"):
        K.arange(0, 1, 0.25)


def test_the_message_shows_a_number():
    with pytest.raises(TypeError, match=r"K\.variable: value: takes int32, got .* such as 1\.75;"):
        K.variable([1.0, 1.75], dtype="int32")
