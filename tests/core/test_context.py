"""Threads and asyncio tasks never see what surrounds the graphs that others build."""

import asyncio
import contextvars
import gc
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import waiting
from backplane import backend as K
from backplane.core import context
from backplane.core.graph import constant
from backplane.ops.elementwise import neg
from interrupting import Interrupt
from trust.faults import Injector, raising
from waiting import LIMIT


def meanwhile(surroundings, function):
    """What `function` gives in a thread while this one is inside `surroundings`."""
    with surroundings, ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def test_updates_of_another_thread_are_not_waited_for():
    v = K.variable(1.0)
    tensor = meanwhile(K.control_dependencies([K.update_add(v, 10.0)]), lambda: v * 2.0)
    assert K.function([], [tensor])([])[0] == 2
    assert K.get_value(v) == 1


def test_names_have_the_scopes_of_their_own_thread():
    with K.name_scope("outer"):
        assert meanwhile(K.name_scope("a"), lambda: K.variable(0.0, name="w").name) == "w"
        assert K.variable(0.0, name="w").name == "outer/w"


def test_the_line_of_a_gradient_is_not_that_of_another_thread():
    line = context.changed(line=context.Where("elsewhere.py", 1, "f"))
    node = meanwhile(line, lambda: neg(constant(1.0)))
    assert node.where.filename == __file__


def test_tasks_have_their_own_engine_and_scopes():
    async def build(name, entered, other):
        with K.engine("numpy"), K.name_scope(name):
            entered.set()
            await other.wait()
            return K.variable(0.0, name="w").name, context.current().scopes

    async def both():
        a, b = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(build("a", a, b), build("b", b, a))

    assert asyncio.run(both()) == [("a/w", ("a",)), ("b/w", ("b",))]


def test_blocks_may_be_left_in_another_order_than_entered():
    engine, scope = K.engine("numpy"), K.name_scope("a")
    engine.__enter__()
    scope.__enter__()
    engine.__exit__(None, None, None)
    assert (context.current().engine, context.current().scopes) == (None, ("a",))
    scope.__exit__(None, None, None)
    assert context.current().scopes == ()


def test_a_block_leaves_no_variable_behind():
    """NumPy sets its own variable faster where no other is set: at each call of a program."""

    def build():
        with K.name_scope("a"), K.engine("numpy"):
            x = K.variable([1.0])
            K.gradients(x * x, [x])
        return list(contextvars.copy_context())

    assert contextvars.Context().run(build) == []


def test_a_block_may_be_left_in_a_copy_of_its_context():
    def build():
        scope = K.name_scope("a")
        scope.__enter__()
        copy = contextvars.copy_context()
        copy.run(scope.__exit__, None, None, None)
        return copy.run(context.current).scopes, context.current().scopes

    assert contextvars.Context().run(build) == ((), ("a",))


def test_an_empty_list_of_control_inputs_keeps_those_outside_and_none_clears_them():
    v = K.variable(1.0)
    with K.control_dependencies([K.update_add(v, 1.0)]):
        with K.control_dependencies([]):
            inner = v * 1.0
        with K.control_dependencies(None):
            plain = v * 1.0
    np.testing.assert_array_equal(K.function([], [plain])([])[0], 1)
    np.testing.assert_array_equal(K.function([], [inner])([])[0], 2)


def test_identifiers_of_many_threads_are_unique():
    start = threading.Barrier(8)

    def many(_):
        start.wait(LIMIT)
        return [K.get_uid("threads") for _ in range(2000)]

    with ThreadPoolExecutor(8) as pool:
        found = [uid for uids in pool.map(many, range(8)) for uid in uids]
    assert sorted(found) == list(range(1, 16001))


@pytest.mark.parametrize("kind", ["return", "begin"])
def test_an_interrupt_leaves_no_block_behind(kind):
    """Python may run the handler of a signal, which raises, at the end of each call into C and at
    the beginning of each function that is written in Python.
    """

    def blocks():
        with context.changed(line=("inner",)), context.changed(scopes=("a",)):
            pass

    before, number = context.current(), 0
    reached = True
    while reached:
        number += 1
        injector = Injector(kind, number, raising(Interrupt))
        try:
            with injector.armed():
                blocks()
        except Interrupt:
            # A block whose end was never reached ends with its generator, which is young. To look
            # at all objects each time would take minutes beside many tests.
            gc.collect(1)
        reached = injector.reached
        assert context.current() is before, injector.place
    assert number > 5


AFTER_LOADING = """
import gc
from backplane import engines

gc.collect()
engine = engines.get("numpy")
young = [*gc.get_objects(generation=0), *gc.get_objects(generation=1)]
assert not any(one is engine or one is vars(engine) for one in young)
assert any(one is engine for one in gc.get_objects())
assert not gc.get_freeze_count()
"""


def test_the_collector_does_not_go_through_a_loaded_library_as_if_it_were_young():
    waiting.run([sys.executable, "-c", AFTER_LOADING], check=True)


def test_what_somebody_has_frozen_stays_frozen(monkeypatch):
    called = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 1)
    monkeypatch.setattr(gc, "unfreeze", lambda: called.append("unfreeze"))
    context.make_old()
    assert not called


def test_warnings_belong_to_the_line_of_the_user_not_to_that_of_another_library():
    library = {"warn": context.warn}
    exec(compile("def call(): warn('look')", "/site-packages/library.py", "exec"), library)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        library["call"]()
    line = sys._getframe().f_lineno - 1
    assert [(str(x.message), x.filename, x.lineno) for x in told] == [("look", __file__, line)]
