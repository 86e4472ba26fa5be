"""Calls of every K function with one bad argument, and what their errors must say.

`CALLS` has a good call of each function. Each of its arguments is replaced by each of `bad_values`.
Such a call may succeed, because much is accepted. If it fails, then with one of the documented
errors, which names the function and the argument.
"""

from __future__ import annotations

import re
import time
import traceback
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from backplane import backend as K

CALLS = """
abs(x=X) all(x=B, axis=0, keepdims=True) any(x=B, axis=0, keepdims=True)
arange(start=0, stop=4, step=1, dtype='int32') argmax(x=X, axis=0) argmin(x=X, axis=0)
asymmetric_temporal_padding(x=X3, left_pad=1, right_pad=1)
asymmetric_spatial_2d_padding(x=X4, top_pad=1, bottom_pad=1, left_pad=1, right_pad=1, dim_ordering='tf')
batch_dot(x=X3, y=Y3, axes=(2,1)) batch_flatten(x=X3) batch_get_value(ops=[V]) batch_set_value(tuples=[(V,A)])
batch_normalization(x=X, mean=X1, var=X1, beta=X1, gamma=X1, axis=-1, epsilon=1e-3)
bias_add(x=X, bias=X1, data_format='channels_last') binary_crossentropy(target=X, output=X, from_logits=True)
cast(x=X, dtype='int32') cast_to_floatx(x=A) categorical_crossentropy(target=X, output=X, from_logits=True, axis=-1)
clip(x=X, min_value=0., max_value=1.) concatenate(tensors=[X,X], axis=0)
constant(value=A, dtype='float32', shape=(2,3), name='c')
conv1d(x=X3, kernel=K1, strides=1, padding='same', data_format='channels_last', dilation_rate=1)
conv2d(x=X4, kernel=K2, strides=(1,1), padding='same', data_format='channels_last', dilation_rate=(1,1))
conv2d_transpose(x=X4, kernel=K2, output_shape=(1,4,4,2), strides=(1,1), padding='same', data_format='channels_last', dilation_rate=(1,1))
conv3d(x=X5, kernel=K3, strides=(1,1,1), padding='same', data_format='channels_last', dilation_rate=(1,1,1))
conv3d_transpose(x=X5, kernel=K3, output_shape=(1,3,3,3,2), strides=(1,1,1), padding='same', data_format='channels_last')
cos(x=X) count_params(x=V) cumprod(x=X, axis=0) cumsum(x=X, axis=0)
ctc_batch_cost(y_true=I, y_pred=Y3, input_length=L, label_length=L)
ctc_decode(y_pred=Y3, input_length=N1, greedy=True, beam_width=3, top_paths=1, merge_repeated=False)
ctc_label_dense_to_sparse(labels=I, label_lengths=N1)
deconv2d(x=X4, kernel=K2, output_shape=(1,4,4,2), strides=(1,1), border_mode='same', dim_ordering='tf')
depthwise_conv2d(x=X4, depthwise_kernel=K2, strides=(1,1), padding='same', data_format='channels_last', dilation_rate=(1,1))
dot(x=X, y=W) dropout(x=X, level=.5, noise_shape=(2,1), seed=1) dtype(x=X) elu(x=X, alpha=1.)
equal(x=X, y=X) erf(x=X) erfinv(x=X) eval(x=V) exp(x=X) expand_dims(x=X, axis=0) eye(size=3, dtype='float32', name='e')
flatten(x=X) foldl(fn=F2, elems=X, initializer=X1, name='f') foldr(fn=F2, elems=X, initializer=X1, name='f')
function(inputs=[P], outputs=[P], updates=[(V,V)], name='f') gather(reference=X, indices=N1) get_uid(prefix='a')
get_value(x=V) get_variable_shape(x=V) gradients(loss=V, variables=[V]) greater(x=X, y=X) greater_equal(x=X, y=X)
hard_sigmoid(x=X) identity(x=X, name='i') in_test_phase(x=X, alt=X, training=1) in_train_phase(x=X, alt=X, training=1)
in_top_k(predictions=X, targets=N1, k=1) int_shape(x=X) is_keras_tensor(x=P) is_placeholder(x=P) is_sparse(tensor=P)
is_tensor(x=X) is_variable(x=X) l2_normalize(x=X, axis=0) less(x=X, y=X) less_equal(x=X, y=X)
local_conv1d(inputs=X3, kernel=KL1, kernel_size=(2,), strides=(1,), data_format='channels_last')
local_conv2d(inputs=X4, kernel=KL2, kernel_size=(2,2), strides=(1,1), output_shape=(3,3), data_format='channels_last')
log(x=X) logsumexp(x=X, axis=0, keepdims=True) map_fn(fn=F1, elems=X, name='m', dtype='float32')
max(x=X, axis=0, keepdims=True) maximum(x=X, y=X) mean(x=X, axis=0, keepdims=True) min(x=X, axis=0, keepdims=True)
minimum(x=X, y=X) moving_average_update(x=V, value=A, momentum=.9) name_scope(name='s') ndim(x=X)
normalize_batch_in_training(x=X, gamma=X1, beta=X1, reduction_axes=[0], epsilon=1e-3)
normalize_data_format(value='channels_last') not_equal(x=X, y=X) one_hot(indices=I, num_classes=5)
ones(shape=(2,), dtype='float32', name='o') ones_like(x=X, dtype='float32', name='o')
pattern_broadcast(x=X, broadcastable=[False, False]) permute_dimensions(x=X, pattern=(1,0))
placeholder(shape=(2,), dtype='float32', sparse=False, name='p') placeholder(ndim=2)
pool2d(x=X4, pool_size=(2,2), strides=(1,1), padding='same', data_format='channels_last', pool_mode='max')
pool3d(x=X5, pool_size=(2,2,2), strides=(1,1,1), padding='same', data_format='channels_last', pool_mode='avg')
pow(x=X, a=2) print_tensor(x=X, message='') prod(x=X, axis=0, keepdims=True)
random_binomial(shape=(2,), p=.5, dtype='float32', seed=1) random_normal(shape=(2,), mean=0., stddev=1., dtype='float32', seed=1)
random_normal_variable(shape=(2,), mean=0., scale=1., dtype='float32', name='r', seed=1)
random_uniform(shape=(2,), minval=0., maxval=1., dtype='float32', seed=1)
random_uniform_variable(shape=(2,), low=0., high=1., dtype='float32', name='r', seed=1)
relu(x=X, alpha=.1, max_value=1., threshold=0.) repeat(x=X, n=2) repeat_elements(x=X, rep=2, axis=0) reshape(x=X, shape=(3,2))
resize_images(x=X4, height_factor=2, width_factor=2, data_format='channels_last', interpolation='nearest')
resize_volumes(x=X5, depth_factor=2, height_factor=2, width_factor=2, data_format='channels_last') reverse(x=X, axes=0)
rnn(step_function=FS, inputs=X3, initial_states=[X], go_backwards=True, mask=M, constants=[X], unroll=False, input_length=4)
round(x=X) separable_conv1d(x=X3, depthwise_kernel=K1, pointwise_kernel=PW1, strides=1, padding='same', data_format='channels_last', dilation_rate=1)
separable_conv2d(x=X4, depthwise_kernel=K2, pointwise_kernel=PW, strides=(1,1), padding='same', data_format='channels_last', dilation_rate=(1,1))
set_random_seed(seed=1, portable=False) set_value(x=V, value=A) shape(x=X) sigmoid(x=X) sign(x=X) sin(x=X) size(x=X, name='s')
set_epsilon(e=1e-7) set_floatx(floatx='float32') set_image_data_format(data_format='channels_last')
set_image_dim_ordering(dim_ordering='tf') set_learning_phase(value=0) engine(name='numpy')
slice(x=X, start=(0,0), size=(1,2)) softmax(x=X, axis=-1) softplus(x=X) softsign(x=X)
sparse_categorical_crossentropy(target=N1, output=X, from_logits=True, axis=-1)
spatial_2d_padding(x=X4, padding=((1,1),(1,1)), data_format='channels_last')
spatial_3d_padding(x=X5, padding=((1,1),(1,1),(1,1)), data_format='channels_last') sqrt(x=X) square(x=X) squeeze(x=S, axis=0)
stack(x=[X,X], axis=0) std(x=X, axis=0, keepdims=True) stop_gradient(variables=X) sum(x=X, axis=0, keepdims=True)
switch(condition=C, then_expression=X, else_expression=X) tanh(x=X) temporal_padding(x=X3, padding=(1,1))
tile(x=X, n=(2,1)) to_dense(tensor=X) transpose(x=X) truncated_normal(shape=(2,), mean=0., stddev=1., dtype='float32', seed=1)
update(x=V, new_x=A) update_add(x=V, increment=A) update_sub(x=V, decrement=A) var(x=X, axis=0, keepdims=True)
variable(value=A, dtype='float32', name='v', constraint=None) zeros(shape=(2,), dtype='float32', name='z')
zeros_like(x=X, dtype='float32', name='z')
"""

SHAPES = {
    "X": (2, 3), "X1": (3,), "X3": (2, 4, 3), "Y3": (2, 3, 5), "X4": (1, 4, 4, 2), "X5": (1, 3, 3, 3, 2),
    "W": (3, 2), "S": (1, 2), "K1": (2, 3, 2), "K2": (2, 2, 2, 2), "K3": (2, 2, 2, 2, 2),
    "KL1": (3, 6, 2), "KL2": (9, 8, 2), "PW": (1, 1, 4, 2), "PW1": (1, 6, 2), "A": (2, 3),
}  # fmt: skip
INTEGERS = {"I": (2, 2), "L": (2, 1), "N1": (2,)}
BOOLS = {"B": (2, 3), "M": (2, 4), "C": ()}

LARGE = ("2**31", "[2**31,2**31]")
"""Sizes for which there may be too little memory."""
FILLING = (
    "arange",
    "constant",
    "ones",
    "zeros",
    "random_normal_variable",
    "random_uniform_variable",
)
"""Functions that fill memory at once, however large it is: gigabytes are no error."""

MOST_SECONDS = 60
"""A call that takes longer hangs; a busy machine may need some for beam search on JAX."""

ERRORS = (ValueError, TypeError, IndexError, NotImplementedError)


def operands(symbolic: bool) -> dict[str, Any]:
    """The names that stand for good arguments."""

    def made(shape: tuple[int, ...], dtype: str) -> Any:
        return K.placeholder(shape, dtype=dtype) if symbolic else np.ones(shape, dtype)

    found = {n: made(s, "float32") for n, s in SHAPES.items()}
    found |= {n: made(s, "int32") for n, s in INTEGERS.items()}
    found |= {n: made(s, "bool") for n, s in BOOLS.items()}
    return found | {
        "A": np.ones((2, 3), "float32"), "V": K.ones((2, 3)), "P": K.placeholder((2, 3)), "K": K,
        "F1": lambda x: x * 2, "F2": lambda a, x: a + x, "FS": lambda x, s: (x, [x]),
    }  # fmt: skip


def bad_values() -> dict[str, Any]:
    """Values that hardly any parameter takes, by their text."""
    circle: list[Any] = [1]
    circle.append(circle)
    texts = """None 'nonsense' '' b'x' 1.5 -1 0 7 2**31 2**63 -2**70 float('nan') float('inf') True 1j [] () {} set()
    [None] ['a'] [[1],[1,2]] [1.5] [-1] [2**31,2**31] [2**63] [float('nan')] (0,0) (5,) (-9,) [0,1,2,3,4,5,6]
    (1,(2,3)) {'a':1} {1} object() int len (lambda:1) Ellipsis slice(1) iter([1]) range(3) np.array('a') np.array([None])
    np.array([np.nan]) np.float32('nan') np.array(2) np.zeros((0,)) np.zeros((2,3),complex) np.zeros((1,)*6)
    np.array([2**63],'uint64') bytearray(2) K K.placeholder(()) K.placeholder((7,))
    K.placeholder((2,3),dtype='bool') K.placeholder((2,3),dtype='int32') K.placeholder((None,)*6) K.placeholder((),dtype='int32')
    K.placeholder((2,3),sparse=True) K.variable(1.) 'float99' '1' [[]] {**{}}"""
    values = {t: eval(t, {"K": K, "np": np}) for t in texts.split()}
    return values | {"circle": circle, "deep": _deep(), "long": "a" * 10**5}


def _deep() -> Any:
    value: Any = 1
    for _ in range(3000):
        value = [value]
    return value


class Finding(NamedTuple):
    """A call that fails in another way than documented."""

    call: str
    parameter: str
    reason: str
    error: BaseException | None

    def __str__(self) -> str:
        return f"{self.call}: {self.reason}: {type(self.error).__name__}: {str(self.error)[:200]}"


def good_calls() -> Iterator[tuple[str, str]]:
    """(name, arguments) of each good call."""
    yield from re.findall(
        r"(?m)(?:^| )(\w+)\(((?:[^()]|\([^()]*(?:\([^()]*\)[^()]*)*\))*)\)", CALLS
    )


def calls(symbolic: bool) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """(name, parameter, text of the bad value, arguments) of all bad calls."""
    for name, arguments in good_calls():
        good = eval(f"dict({arguments})", operands(symbolic))
        for parameter in good:
            K.clear_session()
            for text, value in bad_values().items():
                if text in LARGE and (not symbolic or name in FILLING):
                    continue  # a computation that is too large is the engine's error
                yield name, parameter, text, {**good, parameter: value}


def _in_a_step(error: BaseException, given: object) -> bool:
    """Whether a function that the caller gave has failed: `int` asks a tensor for its value, which
    K's traceback hides.
    """
    frames = traceback.extract_tb(error.__traceback__)
    asked = callable(given) and "is symbolic and has no value yet" in str(error)
    return asked or any(f.name in ("<lambda>", "__int__", "__len__", "__index__") for f in frames)


def judged(name: str, parameter: str, text: str, given: dict[str, Any]) -> Finding | None:
    """Make a call; what is wrong about its error, if anything is."""
    call = f"K.{name}({parameter}={text})"
    start = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(K, name)(**given)
    except ERRORS as error:
        if _in_a_step(error, given[parameter]):
            return None
        message = str(error)
        if not message.startswith(f"K.{name}"):
            return Finding(call, parameter, "does not name the function", error)
        # A value may be good in itself, and not fit to another argument: then either may be named.
        names = [parameter] if isinstance(error, TypeError) else list(given)
        if not any(re.search(rf"\b{n}\b", message.partition(name)[2]) for n in names):
            return Finding(call, parameter, "does not name the argument", error)
    except MemoryError as error:
        if text not in LARGE:
            return Finding(call, parameter, "is no documented error", error)
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        return Finding(call, parameter, "is no documented error", error)
    finally:
        took = time.monotonic() - start
    if took > MOST_SECONDS:
        return Finding(call, parameter, f"takes {took:.1f} s", None)
    return None
