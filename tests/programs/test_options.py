"""Options are checked when they are given, and what has no effect is told."""

import gc

import numpy as np
import pytest

from backplane import backend as K
from documents.covering import covers


def inputs():
    return K.placeholder((None, 4)), K.placeholder((None, 5, 4)), K.variable(np.ones((4, 2)))


def step(x, states):
    return x, states


X, SEQUENCE, W = inputs()
Y = K.dot(X, W)
F = K.function([X], [Y])
ROWS = np.ones((3, 4), "float32")

FLAGS = {
    "sum": lambda v: K.sum(X, keepdims=v),
    "mean": lambda v: K.mean(ROWS, 1, v),
    "any": lambda v: K.any(X, axis=0, keepdims=v),
    "std": lambda v: K.std(X, keepdims=v),
    "binary_crossentropy": lambda v: K.binary_crossentropy(X, X, from_logits=v),
    "sparse_categorical_crossentropy": lambda v: K.sparse_categorical_crossentropy(
        K.argmax(X), X, v
    ),
    "binary_focal_crossentropy": lambda v: K.binary_focal_crossentropy(X, X, v),
    "ctc_decode": lambda v: K.ctc_decode(SEQUENCE, [5], greedy=v),
    "rnn": lambda v: K.rnn(step, SEQUENCE, [], unroll=v),
    "placeholder": lambda v: K.placeholder((2, 2), sparse=v),
    "print_tensor": lambda v: K.print_tensor(X, summary=v),
    "debug": lambda v: K.debug(inf=v),
    "load_state": lambda v: K.load_state("no file", [], random_state=v),
    "set_random_seed": lambda v: K.set_random_seed(1, portable=v),
    "manual_variable_initialization": lambda v: K.manual_variable_initialization(v),
    "native": lambda v: K.native(np.tanh, X, stateful=v),
    "function": lambda v: K.function([X], [Y], freeze=v),
}


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("wrong", ["no", 0.5, [False], np.zeros(2)])
def test_flags(name, wrong):
    gc.collect()  # Functions of other tests, whose state could vanish meanwhile.
    before = K.random_state()
    with pytest.raises(TypeError, match=rf"K\.{name}: .* must be True or False, got "):
        FLAGS[name](wrong)
    assert K.random_state() == before


def test_flags_of_functions():
    with pytest.raises(TypeError, match=r"map: progress must be True or False, got 'no'"):
        F.map([[ROWS]], progress="no")
    with pytest.raises(TypeError, match=r"to_onnx: freeze must be True or False, got 'no'"):
        F.to_onnx("no file", freeze="no")
    with pytest.raises(TypeError, match=r"to_onnx: opset must be an int, got 'no'"):
        F.to_onnx("no file", opset="no")


@pytest.mark.parametrize("right", [True, False, 1, 0, np.bool_(True), None])
def test_right_flags(right):
    assert K.ndim(K.sum(X, 0, right)) == (2 if right else 1)
    assert K.sum(ROWS, 0, right).ndim == (2 if right else 1)


OTHERS = {
    "compile mode": (lambda: K.function([X], [Y], compile="fast"), r"K\.function: compile must"),
    "compile number": (lambda: K.function([X], [Y], compile=3), r"K\.function: compile must"),
    "compile argument": (
        lambda: K.function([X], [Y], compile={"modee": "default"}),
        r"K\.function: compile: unknown .*'modee'",
    ),
    "compile mode argument": (
        lambda: K.function([X], [Y], compile={"mode": "fast"}),
        r"K\.function: compile must .* got 'fast'",
    ),
    "name": (lambda: K.function([X], [Y], name=3), r"K\.function: name must be a string, got 3"),
    "variable name": (
        lambda: K.variable(1.0, name=3),
        r"K\.variable: name must be a string, got 3",
    ),
    "placeholder name": (lambda: K.placeholder((1,), name=3), r"K\.placeholder: name must be a s"),
    "scope": (lambda: K.name_scope(3), r"K\.name_scope: name must be a string, got 3"),
    "constraint": (lambda: K.variable(1.0, constraint="no"), r"K\.variable: constraint must be a"),
    "gradient": (lambda: K.native(np.tanh, X, gradient="no"), r"K\.native: gradient must be a f"),
    "eager": (lambda: K.eager("no"), r"K\.eager: func must be a function, got 'no'"),
    "format": (lambda: K.print_tensor(X, format="xx"), r"K\.print_tensor: format must fit numbers"),
    "format of ints": (
        lambda: K.print_tensor(K.argmax(X), format="%d"),
        r"K\.print_tensor: format must fit numbers of int64",
    ),
    "summarize": (lambda: K.print_tensor(X, summarize="no"), r"K\.print_tensor: summarize must"),
    "few": (lambda: K.print_tensor(X, summarize=-2), r"K\.print_tensor: summarize must be -1 or"),
    "boxes": (lambda: K.plot_graph(Y, max_nodes="no"), r"K\.plot_graph: max_nodes must be an int"),
    "training": (lambda: K.in_train_phase(X, X, training=0.5), r"training must be 0, 1, a bool"),
    "fed phase": (
        lambda: K.function([X, K.symbolic_learning_phase()], [K.in_train_phase(X, 2 * X)])(
            [ROWS, 0.5]
        ),
        r"takes one number, 0 \(test\) or 1 \(train\), got 0.5",
    ),
    "p": (lambda: K.random_binomial((2,), p=1.5), r"K\.random_binomial: p must be in \[0, 1\]"),
    "stddev": (lambda: K.random_normal((2,), stddev=-1.0), r"K\.random_normal: stddev must be 0"),
    "cut": (lambda: K.truncated_normal((2,), 0, -1), r"K\.truncated_normal: stddev must be 0"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_options(name):
    call, words = OTHERS[name]
    with pytest.raises((TypeError, ValueError), match=words):
        call()


@pytest.mark.parametrize("compile", [None, False, 0, {}])
def test_right_options(engine, compile):
    x = K.placeholder((None,))
    assert K.function([x], [2 * x], compile=compile, freeze=True)([[1.0]])[0] == 2


# --- two updates of one variable ------------------------------------------------------------------


@covers("function")
def test_two_updates_of_one_variable_warn(engine):
    v = K.variable(1.0, name="v")
    first, second = K.update_add(v, 1.0), K.update_add(v, 10.0)
    for updates in ([first, second], [(v, v + 1.0), second], [first, (v, v + 10.0)]):
        K.set_value(v, 1.0)
        with pytest.warns(UserWarning, match=r"K\.function 'twice': .*two updates of the var.*v"):
            f = K.function([], [], updates, name="twice")
        f([])
        assert K.get_value(v) == 11
    with pytest.warns(UserWarning, match=r"two updates of the variable") as found:
        K.function([], [first], [second])
    assert found[0].filename == __file__


def test_updates_that_agree_or_follow_do_not_warn(engine):
    v = K.variable(1.0)
    new = v + 1.0
    update = K.update(v, new)
    K.function([], [], [update, update])([])
    K.function([], [update], [(v, new)])([])
    assert K.get_value(v) == 3
    first = K.update_add(v, 1.0)
    with K.control_dependencies([first]):
        second = K.update_add(v, 10.0)
    K.function([], [], [first, second])([])
    assert K.get_value(v) == 14
