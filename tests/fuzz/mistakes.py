"""Mistakes that people make, and what the errors must say of them.

Each line of a table is a call, behind `->` the error's type, and the words that its message must
have, separated by `|`. All engines say the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from backplane import backend as K

FUNCTIONS = """
f(A, A) -> TypeError: K.function 'f' takes 2 values (x, y) in one list, f([a, b]); got 2 arguments
f(A) -> TypeError: K.function 'f': inputs must be a list or tuple of values, f([a, b]), got ndarray
f([A]) -> ValueError: K.function 'f' takes 2 values (x, y), got 1
f([A, A, A]) -> ValueError: K.function 'f' takes 2 values (x, y), got 3
f([[A, A, A]]) -> ValueError: K.function 'f' takes 2 values (x, y), got 1
f({'x': A, 'y': A}) -> TypeError: K.function 'f' | inputs | got dict
f(None) -> TypeError: K.function 'f' | inputs | got NoneType
f(x=A, y=A) -> TypeError: K.function 'f' | keyword
f([A, 'a']) -> TypeError: K.function 'f': input 1 ('y') | float32 | str
f([A, None]) -> TypeError: K.function 'f': input 1 ('y') | float32 | NoneType
f([A, X]) -> TypeError: K.function 'f': input 1 ('y') | symbolic
f([A, [[1, 2], [1]]]) -> ValueError: K.function 'f': input 1 ('y') | not a regular array
f([A, ones(3)]) -> ValueError: K.function 'f': input 1 ('y') | (None, 3) | (3,)
f([A, ones(2, 4)]) -> ValueError: K.function 'f': input 1 ('y') | (None, 3) | (2, 4)
g(A, A) -> TypeError: K.function 'g' takes 1 value (x), f(a); got 2 arguments
u(A, A) -> TypeError: K.function 'u' takes 2 values (x, y) in one list, f([a, b]); got 2 arguments
p(A, 1) -> TypeError: K.function 'p' takes 2 values | in one list, f([a, b]); got 2 arguments
K.function([X], [K.gradients(K.sum(Y), [X])[0]]) -> TypeError: K.function: outputs[0] | got None, which K.gradients gives
K.function([X], None) -> TypeError: K.function: outputs[0] must be a tensor, got None
K.function([X], [X], [(V, None)]) -> TypeError: K.function: updates[0] | None, which K.gradients gives
K.function([X], [X], [X]) -> TypeError: K.function: updates[0] must come from K.update
K.function([X], [X], V) -> TypeError: K.function: updates must be a list
K.function([X], [X], (V, V)) -> TypeError: K.function: updates[0] must come from K.update
K.function([A], [X]) -> TypeError: K.function: inputs[0] must be a tensor, got ndarray
K.function(['x'], [X]) -> TypeError: K.function: inputs[0] must be a tensor, got str
K.function(None, [X]) -> TypeError: K.function: inputs[0] must be a tensor, got NoneType
K.function([X], [X + Y]) -> ValueError: K.function 'function': the result depends on the placeholder 'y' | has no value
K.function([X, X], [X]) -> ValueError: K.function: inputs has the same tensor twice
K.function([X], [X], precision='fp16') -> ValueError: K.function: precision must be one of bfloat16, float16, got 'fp16'
K.function([X], [X], precision=16) -> ValueError: K.function: precision must be one of bfloat16, float16, got 16
K.function([X], [X], precison='float16') -> ValueError: K.function: unknown keyword argument 'precison' (did you mean 'precision'?) | inputs, outputs, updates, name, precision, loss_scale, accumulate, compile, freeze
K.function([X], [X], feed_dict={}) -> ValueError: K.function: unknown keyword argument 'feed_dict' | Session.run
K.function([X], [X], accumulate=0) -> ValueError: K.function: accumulate must be a whole number, 1 or more, got 0
K.function([X], [X], precision='float16', loss_scale='fast') -> ValueError: K.function: loss_scale must be | 'fast'
K.mixed_precision('fp16') -> ValueError: K.mixed_precision: dtype must be one of bfloat16, float16, got 'fp16'
K.eval([V, V]) -> TypeError: K.eval: x must be one tensor, got a list of 2 | K.function([], tensors)([]) | K.batch_get_value
K.eval({'v': V}) -> TypeError: K.eval: x must be one tensor, got a dict of 1
K.eval(None) -> TypeError: K.eval: x must be a tensor, an array or numbers, got None, which K.gradients gives
K.eval('x') -> TypeError: K.eval: x must be a tensor, an array or numbers, got 'x'
K.eval(X) -> ValueError: K.eval: | the placeholder 'x' | has no value
K.eval(V, 1) -> TypeError: eval() | 1 positional argument
K.gradients(K.sum(X), None) -> TypeError: K.gradients: variables must be symbolic tensors, got NoneType
K.gradients(3.0, [X]) -> TypeError: K.gradients: loss must be symbolic tensors, got float
"""
"""Functions, what is fed to them, and evaluation."""

STEPS = """
K.rnn(lambda x, s: x, S, [Z]) -> TypeError: K.rnn: step_function must return a pair (output, new_states), got a tensor of shape (2, 4)
K.rnn(lambda x, s: None, S, [Z]) -> TypeError: K.rnn: step_function must return a pair (output, new_states), got None
K.rnn(lambda x, s: (x, s, s), S, [Z]) -> TypeError: K.rnn: step_function must return a pair (output, new_states), got a tuple of 3
K.rnn(lambda x, s: (x, None), S, [Z]) -> TypeError: K.rnn: step_function must return its new states as a list | got None
K.rnn(lambda x, s: (None, s), S, [Z]) -> TypeError: K.rnn: step_function must return a tensor as its output, got None
K.rnn(lambda x, s: (x, []), S, [Z]) -> ValueError: K.rnn: a step must return as many states as initial_states has (1), got 0
K.rnn(lambda x: (x, []), S, []) -> TypeError: K.rnn: step_function is called with (x_t, states): | 2 were given
K.rnn(3, S, []) -> TypeError: K.rnn: step_function must be a function of (x_t, states), got 3
K.rnn(lambda x, s: (x, s), A, []) -> ValueError: K.rnn: inputs must have at least 3 axes, got shape (2, 3)
K.map_fn(lambda: 1.0, A) -> TypeError: K.map_fn: fn is called with an element: | 1 was given
K.map_fn(lambda x: None, A) -> TypeError: K.map_fn: fn must return a tensor, got None
K.map_fn(A, lambda x: x) -> TypeError: K.map_fn: fn must be a function
K.foldl(lambda x: x, A) -> TypeError: K.foldl: fn is called with (accumulator, element): | 2 were given
K.foldr(lambda a, x: None, A) -> TypeError: K.foldr: fn must return a tensor like the accumulator, got None
K.foldl(lambda a, x: (a, a), A) -> TypeError: K.foldl: fn must return a tensor like the accumulator, got a tuple of 2
K.switch(K.sum(X) > 0, lambda x: x, lambda: 1.0) -> TypeError: K.switch: then_expression is called with no arguments:
K.switch(X > 0, 1.0, lambda x: x) -> TypeError: K.switch: else_expression is called with no arguments:
K.switch(K.sum(X) > 0, lambda: None, lambda: 1.0) -> TypeError: K.switch: then_expression must be a tensor, or a function that returns one, got None
K.in_train_phase(lambda x: x, A) -> TypeError: K.in_train_phase: x is called with no arguments:
K.in_train_phase(A, lambda x: x, training=0) -> TypeError: K.in_train_phase: alt is called with no arguments:
"""
"""Functions that the user gives: steps of loops, branches."""

KEYWORDS = """
K.mean(X, axes=0) -> TypeError: K.mean: unknown keyword argument 'axes' (did you mean 'axis'?); there are x, axis, keepdims
K.sum(X, keep_dims=True) -> TypeError: K.sum: unknown keyword argument 'keep_dims' (did you mean 'keepdims'?)
K.variable(1.0, trainable=False) -> TypeError: K.variable: unknown keyword argument 'trainable'; there are value, dtype, name, constraint
K.dot(X) -> TypeError: K.dot: missing 1 required positional argument: 'y'; the arguments are (x, y)
K.dot(X, Y, Y) -> TypeError: K.dot: takes 2 positional arguments but 3 were given; the arguments are (x, y)
K.set_epsilon(eps=1.0) -> TypeError: K.set_epsilon: unknown keyword argument 'eps'; there are e
K.zeros((2,), 'fp16') -> ValueError: K.zeros: dtype 'fp16' is unknown (did you mean 'float16'?); there are
"""
"""Arguments that a function does not have."""

NAMES = """
K.reduce_mean -> AttributeError: K has no attribute 'reduce_mean': write K.mean(x, axis)
K.concat([X, Y], 1) -> AttributeError: K has no attribute 'concat': write K.concatenate(values, axis)
K.convert_to_tensor(A) -> AttributeError: write K.constant(value)
K.cat -> AttributeError: write K.concatenate(tensors, axis)
K.placehodler((2,)) -> AttributeError: K has no attribute 'placehodler' (did you mean 'placeholder'?)
K.conv2D -> AttributeError: K has no attribute 'conv2D' (did you mean 'conv2d'?)
K.Session -> AttributeError: write K.get_session(), or better K.function(inputs, outputs)
K.arcsinh(X) -> AttributeError: K.native(fn, x) calls a function of the engine's own library, such as np.arcsinh
K.get_default_graph() -> AttributeError: there is no global graph
K.dtype_of -> AttributeError: K has no attribute 'dtype_of'
X.mean() -> AttributeError: Placeholder has no attribute 'mean': write K.mean(x)
X.T -> AttributeError: Placeholder has no attribute 'T': write K.transpose(x)
X.reshape((3,)) -> AttributeError: Placeholder has no attribute 'reshape': write K.reshape(x, shape)
(X + 1).sum(axis=0) -> AttributeError: Tensor has no attribute 'sum': write K.sum(x)
(X + 1).view(3) -> AttributeError: Tensor has no attribute 'view': write K.reshape(x, shape)
X.size() -> AttributeError: Placeholder has no attribute 'size': write K.size(x)
X.numpy() -> AttributeError: Placeholder has no attribute 'numpy': | K.eval(x)
X.astype('int32') -> AttributeError: write K.cast(x, dtype)
X.detach() -> AttributeError: write K.stop_gradient(x)
X.dimshuffle(1, 0) -> AttributeError: write K.permute_dimensions(x, (1, 0))
X.reduce_sum() -> AttributeError: write K.sum(x, axis)
V.assign(A) -> AttributeError: Variable has no attribute 'assign': write K.update(w, value) inside functions, K.set_value(w, value) outside
V.assign_add(A) -> AttributeError: Variable has no attribute 'assign_add': write K.update_add(w, increment)
V.get_value() -> AttributeError: Variable has no attribute 'get_value': write K.get_value(x)
V.backward() -> AttributeError: write K.gradients(loss, variables)
"""
"""Names of other libraries on K, its tensors and its variables."""

ARGUMENTS = """
K.placeholder((2,), 'float64') -> TypeError: K.placeholder: ndim must be an int, got 'float64'
K.placeholder((2,), name=5) -> TypeError: K.placeholder: name must be a string, got 5
K.placeholder((2, 'a')) -> TypeError: K.placeholder: shape: each size must be an int, got 'a'
K.placeholder(None) -> ValueError: K.placeholder: one of shape and ndim must be given
K.variable([[1, 2], [3]]) -> ValueError: K.variable: value is not a regular array
K.variable(X) -> ValueError: K.variable: the result depends on the placeholder 'x' | has no value
K.variable(A, constraint=5) -> TypeError: K.variable: constraint must be a function, got 5
K.variable(A, name=7) -> TypeError: K.variable: name must be a string, got 7
K.variable(None) -> TypeError: K.variable: value must hold numbers, got NoneType
K.zeros((2, None)) -> TypeError: K.zeros: shape: each size must be an int, got None
K.permute_dimensions(A, None) -> TypeError: K.permute_dimensions: pattern must be a list of ints, got None
K.permute_dimensions(A, (0, 0)) -> ValueError: K.permute_dimensions: pattern must name each of the 2 axes
K.concatenate(A) -> TypeError: K.concatenate: tensors must be a list, got a tensor of shape (2, 3)
K.concatenate(A, A) -> TypeError: K.concatenate: tensors must be a list, got a tensor of shape (2, 3)
K.stack([A, ones(3)]) -> ValueError: K.stack: x must hold tensors of one shape, got (2, 3) and (3,)
K.batch_get_value(V) -> TypeError: K.batch_get_value: ops must be a list of variables, got a tensor of shape (3,)
K.batch_get_value(None) -> TypeError: K.batch_get_value: ops must be a list of variables, got None
K.batch_set_value([V]) -> TypeError: K.batch_set_value: tuples must be a list of pairs (variable, value)
K.batch_set_value(V) -> TypeError: K.batch_set_value: tuples must be a list of pairs (variable, value), got a tensor
K.batch_set_value({V: A}) -> TypeError: K.batch_set_value: tuples must be a list of pairs (variable, value), got a dict of 1
K.batch_set_value([(V, ones(4))]) -> ValueError: K.batch_set_value: the variable 'v' has shape (3,), the value has shape (4,)
K.set_value(X, A) -> TypeError: K.set_value: x must be a variable
K.update(V, ones(4)) -> ValueError: K.update: the variable 'v' has shape (3,), the new value has shape (4,)
K.get_value(X) -> ValueError: K.get_value: the result depends on the placeholder 'x' | has no value
K.get_value([V, V]) -> TypeError: K.get_value: x must be one tensor, got a list of 2 | K.batch_get_value
K.pattern_broadcast(A, 5) -> TypeError: K.pattern_broadcast: broadcastable must be a list of bools, got 5
K.control_dependencies(5).__enter__() -> TypeError: K.control_dependencies: control_inputs must be a list, got 5
K.set_random_seed(-1) -> ValueError: K.set_random_seed: seed must be 0 or more, got -1
K.set_random_seed('a') -> TypeError: K.set_random_seed: seed must be an int, got 'a'
K.set_learning_phase('train') -> ValueError: K.set_learning_phase: value must be 0 or 1, got 'train'
K.set_floatx('float') -> ValueError: K.set_floatx: floatx must be one of 'float16', 'float32', 'float64', not 'float'
K.engine(None).__enter__() -> TypeError: K.engine: name must be a string such as 'torch', got None
K.engine('tensorflwo').__enter__() -> ValueError: K.engine: name must be that of an engine: no engine is called 'tensorflwo' (did you mean 'tensorflow'?); there are
K.name_scope(5).__enter__() -> TypeError: K.name_scope: name must be a string, got 5
K.device(None).__enter__() -> TypeError: K.device: name must be a string such as 'gpu:0', got None
K.native(np.sum, X, spec=5) -> TypeError: K.native: spec must be a pair (shape, dtype), or a list of such, got 5
K.rnn(lambda x, s: (x, s), S, None) -> TypeError: K.rnn: initial_states must be a list of tensors, got None
K.rnn(lambda x, s: (x, s), S, [Z], constants=5) -> TypeError: K.rnn: constants must be a list of tensors, got 5
K.rnn(lambda x, s: ('a', s), S, [Z]) -> TypeError: K.rnn: step_function must return a tensor as its output, got 'a'
K.rnn(lambda x, s: (x, [None]), S, [Z]) -> TypeError: K.rnn: step_function must return a tensor among its new states, got None
K.rnn(lambda x, s: (x, s), S, Z, mask=A) -> ValueError: K.rnn: mask must have shape (samples, time) or (samples, time, 1), here (2, 5), got (2, 3)
K.map_fn(lambda x: 'a', A) -> TypeError: K.map_fn: fn must return a tensor, got 'a'
K.foldl(lambda a, x: 'a', A) -> TypeError: K.foldl: fn must return a tensor, got 'a'
K.conv2d(P, ones(3, 3, 4, 2)) -> ValueError: K.conv2d: x has 3 channels, but the kernel (3, 3, 4, 2) is for 4
K.conv2d(P, ones(3, 3, 3, 2), padding='sane') -> ValueError: K.conv2d: padding must be one of "valid", "same", got 'sane'
K.conv2d(P, ones(3, 3, 3, 2), data_format='NHWC') -> ValueError: K.conv2d: data_format must be "channels_first" or "channels_last", got 'NHWC'
K.conv2d(P, ones(3, 3, 3, 2), strides=(1, 2, 3)) -> ValueError: K.conv2d: strides must be 2 ints, got (1, 2, 3)
K.pool2d(P, (2, 2), pool_mode='maximum') -> ValueError: K.pool2d: pool_mode must be "max" or "avg", got 'maximum'
K.resize_images(P, 2, 2, 'channels_last', 'cubic') -> ValueError: K.resize_images: interpolation must be
K.dropout(A, 1.5) -> ValueError: K.dropout: level must be in [0, 1), got 1.5
K.one_hot(A, 3) -> TypeError: K.one_hot: indices must hold integers, got dtype float32; convert it by K.cast
K.reshape(A, np.array(2)) -> ValueError: K.reshape: shape must be an integer vector of known length
K.in_test_phase(A, len) -> TypeError: K.in_test_phase: alt is called with no arguments
K.in_test_phase(len, A, training=K.placeholder(())) -> TypeError: K.in_test_phase: x is called with no arguments
K.name_scope([[1]]) -> TypeError: K.name_scope: name must be a string, got a list of 1
K.reshape(A, (4, 2)) -> ValueError: K.reshape: cannot reshape (2, 3) (6 elements) to (4, 2) (8 elements)
K.sum(X, axis='1') -> TypeError: K.sum: axis must be an int, got '1'
K.gather(A, [1.5]) -> TypeError: K.gather: indices must hold integers, got dtype float32; convert it by K.cast
K.print_tensor(None) -> TypeError: K.print_tensor: x: expected a tensor, an array or numbers, got None
K.save_state('/tmp/x', V) -> TypeError: K.save_state: variables must be a list of variables, or a dict
K.save_state(5, [V]) -> TypeError: K.save_state: path must be the path of a file, got 5
K.load_state(None, [V]) -> TypeError: K.load_state: path must be the path of a file, got None
K.function([X], [X]).map(5) -> TypeError: K.function 'function': map: iterable must be a list | got 5
K.get_session().run('x') -> TypeError: Session.run: fetches must be tensors, got 'x'
K.get_session().run(V, {'x': A}) -> TypeError: Session.run: feed_dict must have tensors as keys, got 'x'
K.set_session(5) -> TypeError: K.set_session: session must have a method run, got 5
K.plot_graph(5) -> TypeError: K.plot_graph: x must be a tensor
"""
"""Arguments of the wrong type, rank, size or value."""

OPERATORS = """
X + ones(4) -> ValueError: x + y: shapes (None, 3) and (4,) do not broadcast together
X * [1, 2] -> ValueError: x * y: shapes (None, 3) and (2,) do not broadcast together
ones(4) - X -> ValueError: y - x: shapes | do not broadcast together
X + 'a' -> TypeError: x + y: y: expected a tensor, an array or numbers, got 'a'
None / X -> TypeError: y / x: y: expected a tensor, an array or numbers, got None
X < 'a' -> TypeError: x < y: y: expected a tensor, an array or numbers, got 'a'
X ** None -> TypeError: x ** y: y: expected a tensor, an array or numbers, got None
X & Y -> TypeError: & takes bools or integers, got dtype float32
X['a'] -> TypeError: x[...]: an index must be an integer, a slice, None or ..., got 'a'
X[:, 5] -> IndexError: x[...]: index 5 is out of range for axis 1 of size 3
X[:, :, :] -> IndexError: x[...]: 3 indices for a tensor of shape (None, 3)
bool(X) -> TypeError: has no truth value yet: it is symbolic. Use K.switch
float(X) -> TypeError: is symbolic and has no value yet: use K.eval or K.function
[i for i in X] -> TypeError: cannot be iterated over: the size of its first axis is unknown
"""
"""Operators of tensors."""

TABLES = {
    "names": NAMES,
    "arguments": ARGUMENTS,
    "operators": OPERATORS,
    "functions": FUNCTIONS,
    "steps": STEPS,
    "keywords": KEYWORDS,
}


class Mistake(NamedTuple):
    """A call, the type of its error, and the words in its message."""

    call: str
    error: str
    words: tuple[str, ...]


def mistakes(table: str) -> Iterator[Mistake]:
    """The rows of a table."""
    for line in TABLES[table].strip().splitlines():
        call, _, wanted = line.partition(" -> ")
        error, _, words = wanted.partition(": ")
        yield Mistake(call, error, tuple(word.strip() for word in words.split(" | ")))


def names() -> dict[str, Any]:
    """What calls may use: placeholders X and Y, a variable V, an array A, functions f, g, …"""
    K.clear_session()  # Names are unique: each table has the same.
    x, y = K.placeholder((None, 3), name="x"), K.placeholder((None, 3), name="y")
    v = K.variable(np.ones(3), name="v")
    return {
        "K": K, "np": np, "X": x, "Y": y, "V": v, "A": np.ones((2, 3), "float32"),
        "S": K.placeholder((2, 5, 4), name="s"), "Z": K.placeholder((2, 4), name="z"),
        "I": K.placeholder((None,), dtype="int32", name="i"),
        "P": K.placeholder((None, 8, 8, 3), name="p"),
        "ones": lambda *shape: np.ones(shape, "float32"),
        "f": K.function([x, y], [x + y], name="f"),
        "g": K.function(x, x * 2, name="g"),
        "u": K.function([x, y], [x + y], [(v, v * 2)], name="u"),
        "p": K.function([x, K.learning_phase()], [K.in_train_phase(x, 2 * x)], name="p"),
    }  # fmt: skip


def message(call: str, given: dict[str, Any]) -> str:
    """What the call's error says, with its type; "no error" if there is none."""
    try:
        eval(call, dict(given))
    except Exception as error:  # noqa: BLE001 - all are looked at
        return f"{type(error).__name__}: {error}"
    return "no error"
