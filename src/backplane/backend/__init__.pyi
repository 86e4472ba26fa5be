"""What type checkers see of K. Written by scripts/make_stubs.py from the chapters: do not edit."""

# mypy: disable-error-code="overload-overlap"

from typing import Any, overload

import numpy as np

from backplane.backend import tensorflow_backend as tensorflow_backend

from backplane.backend.types import DType
from backplane.backend.types import NativeT, Symbolic, TensorLike
from backplane.backend.types import Shape
from backplane.backend.types import Sizes
from backplane.backend.types import TensorLike
from backplane.core.graph import Tensor
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any
from backplane.backend.activation import elu as elu
from backplane.backend.activation import hard_sigmoid as hard_sigmoid
from backplane.backend.activation import relu as relu
from backplane.backend.activation import sigmoid as sigmoid
from backplane.backend.activation import softmax as softmax
from backplane.backend.activation import softplus as softplus
from backplane.backend.activation import softsign as softsign
from backplane.backend.activation import tanh as tanh
from backplane.backend.arithmetic import abs as abs
from backplane.backend.arithmetic import cast as cast
from backplane.backend.arithmetic import clip as clip
from backplane.backend.arithmetic import cos as cos
from backplane.backend.arithmetic import exp as exp
from backplane.backend.arithmetic import identity as identity
from backplane.backend.arithmetic import log as log
from backplane.backend.arithmetic import maximum as maximum
from backplane.backend.arithmetic import minimum as minimum
from backplane.backend.arithmetic import pow as pow
from backplane.backend.arithmetic import round as round
from backplane.backend.arithmetic import sign as sign
from backplane.backend.arithmetic import sin as sin
from backplane.backend.arithmetic import sqrt as sqrt
from backplane.backend.arithmetic import square as square
from backplane.backend.common import backend as backend
from backplane.backend.common import cast_to_floatx as cast_to_floatx
from backplane.backend.common import eager as eager
from backplane.backend.common import engine as engine
from backplane.backend.common import epsilon as epsilon
from backplane.backend.common import floatx as floatx
from backplane.backend.common import get_uid as get_uid
from backplane.backend.common import image_data_format as image_data_format
from backplane.backend.common import name_scope as name_scope
from backplane.backend.common import normalize_data_format as normalize_data_format
from backplane.backend.common import reset_uids as reset_uids
from backplane.backend.common import set_epsilon as set_epsilon
from backplane.backend.common import set_floatx as set_floatx
from backplane.backend.common import set_image_data_format as set_image_data_format
from backplane.backend.common import symbolic as symbolic
from backplane.backend.comparison import equal as equal
from backplane.backend.comparison import greater as greater
from backplane.backend.comparison import greater_equal as greater_equal
from backplane.backend.comparison import less as less
from backplane.backend.comparison import less_equal as less_equal
from backplane.backend.comparison import not_equal as not_equal
from backplane.backend.control import in_test_phase as in_test_phase
from backplane.backend.control import in_train_phase as in_train_phase
from backplane.backend.control import map_fn as map_fn
from backplane.backend.control import switch as switch
from backplane.backend.convolution import conv1d as conv1d
from backplane.backend.convolution import conv2d as conv2d
from backplane.backend.convolution import conv2d_transpose as conv2d_transpose
from backplane.backend.convolution import conv3d as conv3d
from backplane.backend.convolution import conv3d_transpose as conv3d_transpose
from backplane.backend.convolution import depthwise_conv2d as depthwise_conv2d
from backplane.backend.convolution import separable_conv1d as separable_conv1d
from backplane.backend.convolution import separable_conv2d as separable_conv2d
from backplane.backend.creation import arange as arange
from backplane.backend.creation import constant as constant
from backplane.backend.creation import eye as eye
from backplane.backend.creation import ones as ones
from backplane.backend.creation import placeholder as placeholder
from backplane.backend.creation import variable as variable
from backplane.backend.creation import zeros as zeros
from backplane.backend.ctc import ctc_decode as ctc_decode
from backplane.backend.ctc import ctc_label_dense_to_sparse as ctc_label_dense_to_sparse
from backplane.backend.graph import eval as eval
from backplane.backend.graph import function as function
from backplane.backend.graph import gradients as gradients
from backplane.backend.graph import stop_gradient as stop_gradient
from backplane.backend.inspection import count_params as count_params
from backplane.backend.inspection import dtype as dtype
from backplane.backend.inspection import get_variable_shape as get_variable_shape
from backplane.backend.inspection import int_shape as int_shape
from backplane.backend.inspection import is_keras_tensor as is_keras_tensor
from backplane.backend.inspection import is_placeholder as is_placeholder
from backplane.backend.inspection import is_tensor as is_tensor
from backplane.backend.inspection import is_variable as is_variable
from backplane.backend.inspection import ndim as ndim
from backplane.backend.inspection import shape as shape
from backplane.backend.keras1 import image_dim_ordering as image_dim_ordering
from backplane.backend.keras1 import set_image_dim_ordering as set_image_dim_ordering
from backplane.backend.linear import batch_dot as batch_dot
from backplane.backend.linear import bias_add as bias_add
from backplane.backend.linear import dot as dot
from backplane.backend.linear import l2_normalize as l2_normalize
from backplane.backend.linear import transpose as transpose
from backplane.backend.loss import binary_crossentropy as binary_crossentropy
from backplane.backend.loss import categorical_crossentropy as categorical_crossentropy
from backplane.backend.loss import in_top_k as in_top_k
from backplane.backend.loss import sparse_categorical_crossentropy as sparse_categorical_crossentropy
from backplane.backend.normalization import batch_normalization as batch_normalization
from backplane.backend.normalization import normalize_batch_in_training as normalize_batch_in_training
from backplane.backend.padding import spatial_2d_padding as spatial_2d_padding
from backplane.backend.padding import spatial_3d_padding as spatial_3d_padding
from backplane.backend.padding import temporal_padding as temporal_padding
from backplane.backend.phase import clear_session as clear_session
from backplane.backend.phase import learning_phase as learning_phase
from backplane.backend.phase import set_learning_phase as set_learning_phase
from backplane.backend.pooling import local_conv1d as local_conv1d
from backplane.backend.pooling import local_conv2d as local_conv2d
from backplane.backend.pooling import pool2d as pool2d
from backplane.backend.pooling import pool3d as pool3d
from backplane.backend.random import random_binomial as random_binomial
from backplane.backend.random import random_normal as random_normal
from backplane.backend.random import random_normal_variable as random_normal_variable
from backplane.backend.random import random_uniform as random_uniform
from backplane.backend.random import random_uniform_variable as random_uniform_variable
from backplane.backend.random import set_random_seed as set_random_seed
from backplane.backend.random import truncated_normal as truncated_normal
from backplane.backend.recurrence import rnn as rnn
from backplane.backend.reduction import all as all
from backplane.backend.reduction import any as any
from backplane.backend.reduction import argmax as argmax
from backplane.backend.reduction import argmin as argmin
from backplane.backend.reduction import cumprod as cumprod
from backplane.backend.reduction import cumsum as cumsum
from backplane.backend.reduction import logsumexp as logsumexp
from backplane.backend.reduction import max as max
from backplane.backend.reduction import mean as mean
from backplane.backend.reduction import min as min
from backplane.backend.reduction import prod as prod
from backplane.backend.reduction import std as std
from backplane.backend.reduction import sum as sum
from backplane.backend.reduction import var as var
from backplane.backend.resizing import resize_images as resize_images
from backplane.backend.resizing import resize_volumes as resize_volumes
from backplane.backend.selection import concatenate as concatenate
from backplane.backend.selection import gather as gather
from backplane.backend.selection import one_hot as one_hot
from backplane.backend.selection import reverse as reverse
from backplane.backend.selection import slice as slice
from backplane.backend.selection import stack as stack
from backplane.backend.session import control_dependencies as control_dependencies
from backplane.backend.session import get_session as get_session
from backplane.backend.session import manual_variable_initialization as manual_variable_initialization
from backplane.backend.session import py_all as py_all
from backplane.backend.session import py_sum as py_sum
from backplane.backend.session import set_session as set_session
from backplane.backend.shaping import batch_flatten as batch_flatten
from backplane.backend.shaping import expand_dims as expand_dims
from backplane.backend.shaping import flatten as flatten
from backplane.backend.shaping import permute_dimensions as permute_dimensions
from backplane.backend.shaping import repeat as repeat
from backplane.backend.shaping import repeat_elements as repeat_elements
from backplane.backend.shaping import reshape as reshape
from backplane.backend.shaping import squeeze as squeeze
from backplane.backend.shaping import tile as tile
from backplane.backend.sparse import is_sparse as is_sparse
from backplane.backend.sparse import to_dense as to_dense
from backplane.backend.state import batch_get_value as batch_get_value
from backplane.backend.state import batch_set_value as batch_set_value
from backplane.backend.state import get_value as get_value
from backplane.backend.state import moving_average_update as moving_average_update
from backplane.backend.state import set_value as set_value
from backplane.backend.state import update as update
from backplane.backend.state import update_add as update_add
from backplane.backend.state import update_sub as update_sub

__all__ = [
    "abs",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "asymmetric_spatial_2d_padding",
    "asymmetric_temporal_padding",
    "backend",
    "batch_dot",
    "batch_flatten",
    "batch_get_value",
    "batch_normalization",
    "batch_set_value",
    "bias_add",
    "binary_crossentropy",
    "cast",
    "cast_to_floatx",
    "categorical_crossentropy",
    "clear_session",
    "clip",
    "concatenate",
    "constant",
    "control_dependencies",
    "conv1d",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "cos",
    "count_params",
    "ctc_batch_cost",
    "ctc_decode",
    "ctc_label_dense_to_sparse",
    "cumprod",
    "cumsum",
    "deconv2d",
    "depthwise_conv2d",
    "dot",
    "dropout",
    "dtype",
    "eager",
    "elu",
    "engine",
    "epsilon",
    "equal",
    "eval",
    "exp",
    "expand_dims",
    "eye",
    "flatten",
    "floatx",
    "foldl",
    "foldr",
    "function",
    "gather",
    "get_session",
    "get_uid",
    "get_value",
    "get_variable_shape",
    "gradients",
    "greater",
    "greater_equal",
    "hard_sigmoid",
    "identity",
    "image_data_format",
    "image_dim_ordering",
    "in_test_phase",
    "in_top_k",
    "in_train_phase",
    "int_shape",
    "is_keras_tensor",
    "is_placeholder",
    "is_sparse",
    "is_tensor",
    "is_variable",
    "l2_normalize",
    "learning_phase",
    "less",
    "less_equal",
    "local_conv1d",
    "local_conv2d",
    "log",
    "logsumexp",
    "manual_variable_initialization",
    "map_fn",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "moving_average_update",
    "name_scope",
    "ndim",
    "normalize_batch_in_training",
    "normalize_data_format",
    "not_equal",
    "one_hot",
    "ones",
    "ones_like",
    "pattern_broadcast",
    "permute_dimensions",
    "placeholder",
    "pool2d",
    "pool3d",
    "pow",
    "print_tensor",
    "prod",
    "py_all",
    "py_sum",
    "random_binomial",
    "random_normal",
    "random_normal_variable",
    "random_uniform",
    "random_uniform_variable",
    "relu",
    "repeat",
    "repeat_elements",
    "reset_uids",
    "reshape",
    "resize_images",
    "resize_volumes",
    "reverse",
    "rnn",
    "round",
    "separable_conv1d",
    "separable_conv2d",
    "set_epsilon",
    "set_floatx",
    "set_image_data_format",
    "set_image_dim_ordering",
    "set_learning_phase",
    "set_random_seed",
    "set_session",
    "set_value",
    "shape",
    "sigmoid",
    "sign",
    "sin",
    "size",
    "slice",
    "softmax",
    "softplus",
    "softsign",
    "sparse_categorical_crossentropy",
    "spatial_2d_padding",
    "spatial_3d_padding",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "stop_gradient",
    "sum",
    "switch",
    "symbolic",
    "tanh",
    "temporal_padding",
    "tile",
    "to_dense",
    "transpose",
    "truncated_normal",
    "update",
    "update_add",
    "update_sub",
    "var",
    "variable",
    "zeros",
    "zeros_like",
]

@overload
def foldl(fn: Callable[..., Any], elems: Symbolic | Sequence[Symbolic], initializer: Any=None, name: str | None=None) -> Tensor: ...
@overload
def foldl(fn: Callable[..., Any], elems: np.ndarray | np.generic | Sequence[np.ndarray | np.generic], initializer: Any=None, name: str | None=None) -> Any: ...
@overload
def foldl(fn: Callable[..., Any], elems: NativeT | Sequence[NativeT], initializer: Any=None, name: str | None=None) -> NativeT: ...
@overload
def foldl(fn: Callable[..., Any], elems: TensorLike | Sequence[TensorLike], initializer: Any=None, name: str | None=None) -> Any: ...
@overload
def foldr(fn: Callable[..., Any], elems: Symbolic | Sequence[Symbolic], initializer: Any=None, name: str | None=None) -> Tensor: ...
@overload
def foldr(fn: Callable[..., Any], elems: np.ndarray | np.generic | Sequence[np.ndarray | np.generic], initializer: Any=None, name: str | None=None) -> Any: ...
@overload
def foldr(fn: Callable[..., Any], elems: NativeT | Sequence[NativeT], initializer: Any=None, name: str | None=None) -> NativeT: ...
@overload
def foldr(fn: Callable[..., Any], elems: TensorLike | Sequence[TensorLike], initializer: Any=None, name: str | None=None) -> Any: ...
@overload
def ones_like(x: Symbolic, dtype: DType | None=None, name: str | None=None) -> Tensor: ...
@overload
def ones_like(x: np.ndarray | np.generic, dtype: DType | None=None, name: str | None=None) -> Any: ...
@overload
def ones_like(x: NativeT, dtype: DType | None=None, name: str | None=None) -> NativeT: ...
@overload
def ones_like(x: TensorLike, dtype: DType | None=None, name: str | None=None) -> Any: ...
@overload
def zeros_like(x: Symbolic, dtype: DType | None=None, name: str | None=None) -> Tensor: ...
@overload
def zeros_like(x: np.ndarray | np.generic, dtype: DType | None=None, name: str | None=None) -> Any: ...
@overload
def zeros_like(x: NativeT, dtype: DType | None=None, name: str | None=None) -> NativeT: ...
@overload
def zeros_like(x: TensorLike, dtype: DType | None=None, name: str | None=None) -> Any: ...
@overload
def ctc_batch_cost(y_true: Symbolic, y_pred: Symbolic, input_length: Symbolic, label_length: Symbolic) -> Tensor: ...
@overload
def ctc_batch_cost(y_true: np.ndarray | np.generic, y_pred: TensorLike, input_length: TensorLike, label_length: TensorLike) -> Any: ...
@overload
def ctc_batch_cost(y_true: NativeT, y_pred: TensorLike, input_length: TensorLike, label_length: TensorLike) -> NativeT: ...
@overload
def ctc_batch_cost(y_true: TensorLike, y_pred: TensorLike, input_length: TensorLike, label_length: TensorLike) -> Any: ...
@overload
def print_tensor(x: Symbolic, message: str='') -> Tensor: ...
@overload
def print_tensor(x: np.ndarray | np.generic, message: str='') -> Any: ...
@overload
def print_tensor(x: NativeT, message: str='') -> NativeT: ...
@overload
def print_tensor(x: TensorLike, message: str='') -> Any: ...
@overload
def size(x: Symbolic, name: str | None=None) -> Tensor: ...
@overload
def size(x: np.ndarray | np.generic, name: str | None=None) -> Any: ...
@overload
def size(x: NativeT, name: str | None=None) -> NativeT: ...
@overload
def size(x: TensorLike, name: str | None=None) -> Any: ...
@overload
def asymmetric_spatial_2d_padding(x: Symbolic, top_pad: int=1, bottom_pad: int=1, left_pad: int=1, right_pad: int=1, dim_ordering: str='default') -> Tensor: ...
@overload
def asymmetric_spatial_2d_padding(x: np.ndarray | np.generic, top_pad: int=1, bottom_pad: int=1, left_pad: int=1, right_pad: int=1, dim_ordering: str='default') -> Any: ...
@overload
def asymmetric_spatial_2d_padding(x: NativeT, top_pad: int=1, bottom_pad: int=1, left_pad: int=1, right_pad: int=1, dim_ordering: str='default') -> NativeT: ...
@overload
def asymmetric_spatial_2d_padding(x: TensorLike, top_pad: int=1, bottom_pad: int=1, left_pad: int=1, right_pad: int=1, dim_ordering: str='default') -> Any: ...
@overload
def asymmetric_temporal_padding(x: Symbolic, left_pad: int=1, right_pad: int=1) -> Tensor: ...
@overload
def asymmetric_temporal_padding(x: np.ndarray | np.generic, left_pad: int=1, right_pad: int=1) -> Any: ...
@overload
def asymmetric_temporal_padding(x: NativeT, left_pad: int=1, right_pad: int=1) -> NativeT: ...
@overload
def asymmetric_temporal_padding(x: TensorLike, left_pad: int=1, right_pad: int=1) -> Any: ...
@overload
def deconv2d(x: Symbolic, kernel: Symbolic, output_shape: Shape, strides: Sizes=(1, 1), border_mode: str='valid', dim_ordering: str='default', image_shape: object=None, filter_shape: object=None) -> Tensor: ...
@overload
def deconv2d(x: np.ndarray | np.generic, kernel: TensorLike, output_shape: Shape, strides: Sizes=(1, 1), border_mode: str='valid', dim_ordering: str='default', image_shape: object=None, filter_shape: object=None) -> Any: ...
@overload
def deconv2d(x: NativeT, kernel: TensorLike, output_shape: Shape, strides: Sizes=(1, 1), border_mode: str='valid', dim_ordering: str='default', image_shape: object=None, filter_shape: object=None) -> NativeT: ...
@overload
def deconv2d(x: TensorLike, kernel: TensorLike, output_shape: Shape, strides: Sizes=(1, 1), border_mode: str='valid', dim_ordering: str='default', image_shape: object=None, filter_shape: object=None) -> Any: ...
@overload
def dropout(x: Symbolic, level: Symbolic, noise_shape: Shape | None=None, seed: int | None=None) -> Tensor: ...
@overload
def dropout(x: np.ndarray | np.generic, level: TensorLike, noise_shape: Shape | None=None, seed: int | None=None) -> Any: ...
@overload
def dropout(x: NativeT, level: TensorLike, noise_shape: Shape | None=None, seed: int | None=None) -> NativeT: ...
@overload
def dropout(x: TensorLike, level: TensorLike, noise_shape: Shape | None=None, seed: int | None=None) -> Any: ...
@overload
def pattern_broadcast(x: Symbolic, broadcastable: Iterable[bool]) -> Tensor: ...
@overload
def pattern_broadcast(x: np.ndarray | np.generic, broadcastable: Iterable[bool]) -> Any: ...
@overload
def pattern_broadcast(x: NativeT, broadcastable: Iterable[bool]) -> NativeT: ...
@overload
def pattern_broadcast(x: TensorLike, broadcastable: Iterable[bool]) -> Any: ...
