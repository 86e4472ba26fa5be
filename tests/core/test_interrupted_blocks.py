"""An interrupt at any time leaves none of the package's context variables set."""

import contextvars
import gc
import sys

import pytest

from backplane import backend as K
from backplane.compile import passes
from backplane.core import context, graph, sizes
from backplane.keras3 import call, settings, trace
from interrupting import Interrupt
from trust.faults import Injector, raising


def of_onnx():
    from backplane.engines.onnxruntime import builder

    return builder.made_by(sys._getframe())


def of_pytensor():
    from backplane.engines.pytensor import control

    return control.in_mode(True)


def of_tensorflow():
    from backplane.engines.tensorflow import control

    return control.own_program(few_rows=True)


BLOCKS = {
    "name_scope": lambda: K.name_scope("a"),
    "engine": lambda: K.engine("numpy"),
    "device": lambda: K.device("cpu"),
    "control_dependencies": lambda: K.control_dependencies(None),
    "learning_phase_scope": lambda: K.learning_phase_scope(1),
    "mixed_precision": lambda: K.mixed_precision("float16"),
    "debug": K.debug,
    "passes.without": lambda: passes.without("simplify"),
    "sizes that are equal": lambda: sizes.assuming([K.placeholder((None,)) for _ in range(2)]),
    "graphs sorted once": graph.sorted_once,
    "steps of Keras 3": call.tracing,
    "float64 of Keras 3": lambda: settings.float64_kept(True),
    "traces of Keras 3": trace.recording,
    "nodes of ONNX Runtime": of_onnx,
    "graphs of PyTensor": of_pytensor,
    "programs of TensorFlow": of_tensorflow,
}


def state():
    """All that a block may leave behind: every context variable, and the lists of open blocks."""
    found = {v: x for v, x in contextvars.copy_context().items() if x is not v.get(None) or x}
    return found, list(context.WATCHING), list(passes._blocks)


def interrupted(work, kind, number):
    """Whether `work` has reached that step, at which an interrupt then came."""
    injector = Injector(kind, number, raising(Interrupt))
    try:
        with injector.armed():
            work()
    except Interrupt:
        # A block whose end was never reached ends with its generator.
        gc.collect(1)
    return injector.reached


def leaves_nothing(work, kind, stride=1, least=1):
    """Interrupt `work` at every step, or every `stride`-th one, of which there are more than
    `least`.
    """
    work()
    before, number = state(), 1
    while interrupted(work, kind, number):
        assert state() == before, number
        number += stride
    assert number > least


@pytest.mark.parametrize("kind", ["return", "begin"])
@pytest.mark.parametrize("name", BLOCKS)
def test_no_block_is_left_open(name, kind):
    def work():
        with BLOCKS[name]():
            pass

    leaves_nothing(work, kind)


@pytest.mark.parametrize("kind", ["return", "begin"])
def test_no_function_of_keras_3_is_left_inside(kind):
    def nothing():
        pass

    leaves_nothing(call._inside(nothing), kind)


# Python drops what is raised as a generator is closed, as one is that `any` has read in part.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["return", "begin"])
def test_no_graph_is_left_in_construction(kind):
    """A gradient moves on the line to which new tensors belong."""
    x, w = K.placeholder((2, 3)), K.zeros((3, 3))

    def work():
        K.gradients(K.sum(K.tanh(K.dot(x, w))), [w])

    # Each step would take a minute: there are thousands.
    leaves_nothing(work, kind, stride=7, least=100)
