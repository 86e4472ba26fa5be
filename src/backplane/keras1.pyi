"""The types of K as Keras 1 had it. Written by scripts/make_keras1_stub.py: do not edit."""

# mypy: disable-error-code="overload-overlap"

from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

import numpy as np

from backplane.backend.control import Branch
from backplane.backend.session import Session
from backplane.backend.types import Axes
from backplane.backend.types import Axis
from backplane.backend.types import CausalPadding
from backplane.backend.types import DType
from backplane.backend.types import NativeT, Symbolic, TensorLike
from backplane.backend.types import Padding
from backplane.backend.types import PoolMode
from backplane.backend.types import Seed
from backplane.backend.types import Shape
from backplane.backend.types import Size
from backplane.backend.types import Sizes
from backplane.backend.types import TensorLike
from backplane.backend.types import Tree
from backplane.core.graph import Tensor
from backplane.core.variable import Variable
from backplane.backend import abs as abs
from backplane.backend import all as all
from backplane.backend import any as any
from backplane.backend import arange as arange
from backplane.backend import argmax as argmax
from backplane.backend import argmin as argmin
from backplane.backend import backend as backend
from backplane.backend import batch_flatten as batch_flatten
from backplane.backend import batch_set_value as batch_set_value
from backplane.backend import cast as cast
from backplane.backend import cast_to_floatx as cast_to_floatx
from backplane.backend import clear_session as clear_session
from backplane.backend import clip as clip
from backplane.backend import concatenate as concatenate
from backplane.backend import cos as cos
from backplane.backend import count_params as count_params
from backplane.backend import ctc_batch_cost as ctc_batch_cost
from backplane.backend import ctc_label_dense_to_sparse as ctc_label_dense_to_sparse
from backplane.backend import dot as dot
from backplane.backend import dropout as dropout
from backplane.backend import dtype as dtype
from backplane.backend import elu as elu
from backplane.backend import epsilon as epsilon
from backplane.backend import equal as equal
from backplane.backend import eval as eval
from backplane.backend import exp as exp
from backplane.backend import eye as eye
from backplane.backend import flatten as flatten
from backplane.backend import floatx as floatx
from backplane.backend import foldl as foldl
from backplane.backend import foldr as foldr
from backplane.backend import gather as gather
from backplane.backend import get_uid as get_uid
from backplane.backend import get_value as get_value
from backplane.backend import get_variable_shape as get_variable_shape
from backplane.backend import gradients as gradients
from backplane.backend import greater as greater
from backplane.backend import greater_equal as greater_equal
from backplane.backend import hard_sigmoid as hard_sigmoid
from backplane.backend import in_top_k as in_top_k
from backplane.backend import int_shape as int_shape
from backplane.backend import is_sparse as is_sparse
from backplane.backend import learning_phase as learning_phase
from backplane.backend import log as log
from backplane.backend import manual_variable_initialization as manual_variable_initialization
from backplane.backend import max as max
from backplane.backend import maximum as maximum
from backplane.backend import mean as mean
from backplane.backend import min as min
from backplane.backend import minimum as minimum
from backplane.backend import ndim as ndim
from backplane.backend import normalize_batch_in_training as normalize_batch_in_training
from backplane.backend import not_equal as not_equal
from backplane.backend import ones as ones
from backplane.backend import ones_like as ones_like
from backplane.backend import permute_dimensions as permute_dimensions
from backplane.backend import pow as pow
from backplane.backend import prod as prod
from backplane.backend import py_all as py_all
from backplane.backend import random_binomial as random_binomial
from backplane.backend import random_normal_variable as random_normal_variable
from backplane.backend import random_uniform_variable as random_uniform_variable
from backplane.backend import repeat as repeat
from backplane.backend import repeat_elements as repeat_elements
from backplane.backend import reset_uids as reset_uids
from backplane.backend import reshape as reshape
from backplane.backend import reverse as reverse
from backplane.backend import round as round
from backplane.backend import set_epsilon as set_epsilon
from backplane.backend import set_floatx as set_floatx
from backplane.backend import set_learning_phase as set_learning_phase
from backplane.backend import set_session as set_session
from backplane.backend import set_value as set_value
from backplane.backend import shape as shape
from backplane.backend import sigmoid as sigmoid
from backplane.backend import sign as sign
from backplane.backend import sin as sin
from backplane.backend import softplus as softplus
from backplane.backend import softsign as softsign
from backplane.backend import sqrt as sqrt
from backplane.backend import square as square
from backplane.backend import squeeze as squeeze
from backplane.backend import std as std
from backplane.backend import stop_gradient as stop_gradient
from backplane.backend import sum as sum
from backplane.backend import switch as switch
from backplane.backend import tanh as tanh
from backplane.backend import tile as tile
from backplane.backend import to_dense as to_dense
from backplane.backend import transpose as transpose
from backplane.backend import update as update
from backplane.backend import update_add as update_add
from backplane.backend import update_sub as update_sub
from backplane.backend import var as var
from backplane.backend import zeros as zeros
from backplane.backend import zeros_like as zeros_like

__all__ = [
    "abs",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "asymmetric_spatial_2d_padding",
    "asymmetric_temporal_padding",
    "atrous_conv2d",
    "backend",
    "batch_dot",
    "batch_flatten",
    "batch_get_value",
    "batch_normalization",
    "batch_set_value",
    "binary_crossentropy",
    "cast",
    "cast_to_floatx",
    "categorical_crossentropy",
    "clear_session",
    "clip",
    "concatenate",
    "conv1d",
    "conv2d",
    "conv3d",
    "cos",
    "count_params",
    "ctc_batch_cost",
    "ctc_decode",
    "ctc_label_dense_to_sparse",
    "deconv2d",
    "dot",
    "dropout",
    "dtype",
    "elu",
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
    "image_dim_ordering",
    "in_test_phase",
    "in_top_k",
    "in_train_phase",
    "int_shape",
    "is_keras_tensor",
    "is_sparse",
    "l2_normalize",
    "learning_phase",
    "legacy_weight_ordering",
    "lesser",
    "lesser_equal",
    "log",
    "manual_variable_initialization",
    "map_fn",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "moving_average_update",
    "ndim",
    "normalize_batch_in_training",
    "not_equal",
    "one_hot",
    "ones",
    "ones_like",
    "pack",
    "permute_dimensions",
    "placeholder",
    "pool2d",
    "pool3d",
    "pow",
    "print_tensor",
    "prod",
    "py_all",
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
    "separable_conv2d",
    "set_epsilon",
    "set_floatx",
    "set_image_dim_ordering",
    "set_learning_phase",
    "set_legacy_weight_ordering",
    "set_session",
    "set_value",
    "shape",
    "sigmoid",
    "sign",
    "sin",
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
    "tanh",
    "temporal_padding",
    "tile",
    "to_dense",
    "transpose",
    "update",
    "update_add",
    "update_sub",
    "var",
    "variable",
    "zeros",
    "zeros_like",
]

@overload
def asymmetric_spatial_2d_padding(x: Symbolic, top_pad: int=..., bottom_pad: int=..., left_pad: int=..., right_pad: int=..., dim_ordering: str=...) -> Tensor: ...
@overload
def asymmetric_spatial_2d_padding(x: np.ndarray | np.generic, top_pad: int=..., bottom_pad: int=..., left_pad: int=..., right_pad: int=..., dim_ordering: str=...) -> Any: ...
@overload
def asymmetric_spatial_2d_padding(x: NativeT, top_pad: int=..., bottom_pad: int=..., left_pad: int=..., right_pad: int=..., dim_ordering: str=...) -> NativeT: ...
@overload
def asymmetric_spatial_2d_padding(x: TensorLike, top_pad: int=..., bottom_pad: int=..., left_pad: int=..., right_pad: int=..., dim_ordering: str=...) -> Any: ...
@overload
def asymmetric_temporal_padding(x: Symbolic, left_pad: int=..., right_pad: int=...) -> Tensor: ...
@overload
def asymmetric_temporal_padding(x: np.ndarray | np.generic, left_pad: int=..., right_pad: int=...) -> Any: ...
@overload
def asymmetric_temporal_padding(x: NativeT, left_pad: int=..., right_pad: int=...) -> NativeT: ...
@overload
def asymmetric_temporal_padding(x: TensorLike, left_pad: int=..., right_pad: int=...) -> Any: ...
@overload
def atrous_conv2d(x: Symbolic, kernel: Symbolic, rate: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., image_shape: Any=..., filter_shape: Any=...) -> Tensor: ...
@overload
def atrous_conv2d(x: np.ndarray | np.generic, kernel: TensorLike, rate: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., image_shape: Any=..., filter_shape: Any=...) -> Any: ...
@overload
def atrous_conv2d(x: NativeT, kernel: TensorLike, rate: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., image_shape: Any=..., filter_shape: Any=...) -> NativeT: ...
@overload
def atrous_conv2d(x: TensorLike, kernel: TensorLike, rate: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., image_shape: Any=..., filter_shape: Any=...) -> Any: ...
def batch_dot(x: Any, y: Any, axes: Any=...) -> Any:
    ...
def batch_get_value(xs: Iterable[TensorLike]) -> list[np.ndarray]:
    ...
@overload
def batch_normalization(x: Symbolic, mean: Symbolic, var: Symbolic, beta: Symbolic | None, gamma: Symbolic | None, epsilon: float | Tensor=...) -> Tensor: ...
@overload
def batch_normalization(x: np.ndarray | np.generic, mean: TensorLike, var: TensorLike, beta: TensorLike | None, gamma: TensorLike | None, epsilon: float | Tensor=...) -> Any: ...
@overload
def batch_normalization(x: NativeT, mean: TensorLike, var: TensorLike, beta: TensorLike | None, gamma: TensorLike | None, epsilon: float | Tensor=...) -> NativeT: ...
@overload
def batch_normalization(x: TensorLike, mean: TensorLike, var: TensorLike, beta: TensorLike | None, gamma: TensorLike | None, epsilon: float | Tensor=...) -> Any: ...
@overload
def binary_crossentropy(output: Symbolic, target: Symbolic, from_logits: bool=...) -> Tensor: ...
@overload
def binary_crossentropy(output: np.ndarray | np.generic, target: TensorLike, from_logits: bool=...) -> Any: ...
@overload
def binary_crossentropy(output: NativeT, target: TensorLike, from_logits: bool=...) -> NativeT: ...
@overload
def binary_crossentropy(output: TensorLike, target: TensorLike, from_logits: bool=...) -> Any: ...
@overload
def categorical_crossentropy(output: Symbolic, target: Symbolic, from_logits: bool=...) -> Tensor: ...
@overload
def categorical_crossentropy(output: np.ndarray | np.generic, target: TensorLike, from_logits: bool=...) -> Any: ...
@overload
def categorical_crossentropy(output: NativeT, target: TensorLike, from_logits: bool=...) -> NativeT: ...
@overload
def categorical_crossentropy(output: TensorLike, target: TensorLike, from_logits: bool=...) -> Any: ...
@overload
def conv1d(x: Symbolic, kernel: Symbolic, stride: Sizes=..., border_mode: CausalPadding=..., image_shape: Any=..., filter_shape: Any=...) -> Tensor: ...
@overload
def conv1d(x: np.ndarray | np.generic, kernel: TensorLike, stride: Sizes=..., border_mode: CausalPadding=..., image_shape: Any=..., filter_shape: Any=...) -> Any: ...
@overload
def conv1d(x: NativeT, kernel: TensorLike, stride: Sizes=..., border_mode: CausalPadding=..., image_shape: Any=..., filter_shape: Any=...) -> NativeT: ...
@overload
def conv1d(x: TensorLike, kernel: TensorLike, stride: Sizes=..., border_mode: CausalPadding=..., image_shape: Any=..., filter_shape: Any=...) -> Any: ...
@overload
def conv2d(x: Symbolic, kernel: Symbolic, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., image_shape: Any=..., filter_shape: Any=..., filter_dilation: Sizes=...) -> Tensor: ...
@overload
def conv2d(x: np.ndarray | np.generic, kernel: TensorLike, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., image_shape: Any=..., filter_shape: Any=..., filter_dilation: Sizes=...) -> Any: ...
@overload
def conv2d(x: NativeT, kernel: TensorLike, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., image_shape: Any=..., filter_shape: Any=..., filter_dilation: Sizes=...) -> NativeT: ...
@overload
def conv2d(x: TensorLike, kernel: TensorLike, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., image_shape: Any=..., filter_shape: Any=..., filter_dilation: Sizes=...) -> Any: ...
@overload
def conv3d(x: Symbolic, kernel: Symbolic, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., volume_shape: Any=..., filter_shape: Any=..., filter_dilation: Sizes=...) -> Tensor: ...
@overload
def conv3d(x: np.ndarray | np.generic, kernel: TensorLike, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., volume_shape: Any=..., filter_shape: Any=..., filter_dilation: Sizes=...) -> Any: ...
@overload
def conv3d(x: NativeT, kernel: TensorLike, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., volume_shape: Any=..., filter_shape: Any=..., filter_dilation: Sizes=...) -> NativeT: ...
@overload
def conv3d(x: TensorLike, kernel: TensorLike, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., volume_shape: Any=..., filter_shape: Any=..., filter_dilation: Sizes=...) -> Any: ...
def ctc_decode(y_pred: TensorLike, input_length: TensorLike, greedy: bool=..., beam_width: int=..., top_paths: int=...) -> tuple[list[Tensor], Tensor]:
    ...
@overload
def deconv2d(x: Symbolic, kernel: Symbolic, output_shape: Shape, strides: Sizes=..., border_mode: str=..., dim_ordering: str=..., image_shape: object=..., filter_shape: object=...) -> Tensor: ...
@overload
def deconv2d(x: np.ndarray | np.generic, kernel: TensorLike, output_shape: Shape, strides: Sizes=..., border_mode: str=..., dim_ordering: str=..., image_shape: object=..., filter_shape: object=...) -> Any: ...
@overload
def deconv2d(x: NativeT, kernel: TensorLike, output_shape: Shape, strides: Sizes=..., border_mode: str=..., dim_ordering: str=..., image_shape: object=..., filter_shape: object=...) -> NativeT: ...
@overload
def deconv2d(x: TensorLike, kernel: TensorLike, output_shape: Shape, strides: Sizes=..., border_mode: str=..., dim_ordering: str=..., image_shape: object=..., filter_shape: object=...) -> Any: ...
@overload
def expand_dims(x: Symbolic, dim: Axis=...) -> Tensor: ...
@overload
def expand_dims(x: np.ndarray | np.generic, dim: Axis=...) -> Any: ...
@overload
def expand_dims(x: NativeT, dim: Axis=...) -> NativeT: ...
@overload
def expand_dims(x: TensorLike, dim: Axis=...) -> Any: ...
def function(inputs: Any, outputs: Any, updates: Any=..., **kwargs: Any) -> Any:
    ...
def get_session() -> Session:
    ...
def image_dim_ordering() -> str:
    ...
def in_test_phase(x: Branch, alt: Branch) -> Any:
    ...
def in_train_phase(x: Branch, alt: Branch) -> Any:
    ...
def is_keras_tensor(x: Any) -> bool:
    ...
@overload
def l2_normalize(x: Symbolic, axis: Axes) -> Tensor: ...
@overload
def l2_normalize(x: np.ndarray | np.generic, axis: Axes) -> Any: ...
@overload
def l2_normalize(x: NativeT, axis: Axes) -> NativeT: ...
@overload
def l2_normalize(x: TensorLike, axis: Axes) -> Any: ...
def legacy_weight_ordering() -> bool:
    ...
@overload
def lesser(x: Symbolic, y: Symbolic) -> Tensor: ...
@overload
def lesser(x: np.ndarray | np.generic, y: TensorLike) -> Any: ...
@overload
def lesser(x: NativeT, y: TensorLike) -> NativeT: ...
@overload
def lesser(x: TensorLike, y: TensorLike) -> Any: ...
@overload
def lesser_equal(x: Symbolic, y: Symbolic) -> Tensor: ...
@overload
def lesser_equal(x: np.ndarray | np.generic, y: TensorLike) -> Any: ...
@overload
def lesser_equal(x: NativeT, y: TensorLike) -> NativeT: ...
@overload
def lesser_equal(x: TensorLike, y: TensorLike) -> Any: ...
def map_fn(fn: Callable[..., Any], elems: TensorLike | Sequence[TensorLike], name: str | None=...) -> Any:
    ...
@overload
def moving_average_update(variable: Symbolic, value: Symbolic, momentum: Symbolic) -> Tensor: ...
@overload
def moving_average_update(variable: np.ndarray | np.generic, value: TensorLike, momentum: TensorLike) -> Any: ...
@overload
def moving_average_update(variable: NativeT, value: TensorLike, momentum: TensorLike) -> NativeT: ...
@overload
def moving_average_update(variable: TensorLike, value: TensorLike, momentum: TensorLike) -> Any: ...
@overload
def one_hot(indices: Symbolic, nb_classes: Size) -> Tensor: ...
@overload
def one_hot(indices: np.ndarray | np.generic, nb_classes: Size) -> Any: ...
@overload
def one_hot(indices: NativeT, nb_classes: Size) -> NativeT: ...
@overload
def one_hot(indices: TensorLike, nb_classes: Size) -> Any: ...
def pack(x: Sequence[TensorLike] | TensorLike) -> Tensor:
    ...
def placeholder(shape: Shape | None=..., ndim: int | None=..., dtype: DType | None=..., sparse: bool=..., name: str | None=...) -> Tensor:
    ...
@overload
def pool2d(x: Symbolic, pool_size: Sizes, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., pool_mode: PoolMode=...) -> Tensor: ...
@overload
def pool2d(x: np.ndarray | np.generic, pool_size: Sizes, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., pool_mode: PoolMode=...) -> Any: ...
@overload
def pool2d(x: NativeT, pool_size: Sizes, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., pool_mode: PoolMode=...) -> NativeT: ...
@overload
def pool2d(x: TensorLike, pool_size: Sizes, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., pool_mode: PoolMode=...) -> Any: ...
@overload
def pool3d(x: Symbolic, pool_size: Sizes, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., pool_mode: PoolMode=...) -> Tensor: ...
@overload
def pool3d(x: np.ndarray | np.generic, pool_size: Sizes, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., pool_mode: PoolMode=...) -> Any: ...
@overload
def pool3d(x: NativeT, pool_size: Sizes, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., pool_mode: PoolMode=...) -> NativeT: ...
@overload
def pool3d(x: TensorLike, pool_size: Sizes, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=..., pool_mode: PoolMode=...) -> Any: ...
@overload
def print_tensor(x: Symbolic, message: str=...) -> Tensor: ...
@overload
def print_tensor(x: np.ndarray | np.generic, message: str=...) -> Any: ...
@overload
def print_tensor(x: NativeT, message: str=...) -> NativeT: ...
@overload
def print_tensor(x: TensorLike, message: str=...) -> Any: ...
@overload
def random_normal(shape: Shape, mean: Symbolic=..., std: Symbolic=..., dtype: DType | None=..., seed: Seed=...) -> Tensor: ...
@overload
def random_normal(shape: Shape, mean: np.ndarray | np.generic=..., std: TensorLike=..., dtype: DType | None=..., seed: Seed=...) -> Any: ...
@overload
def random_normal(shape: Shape, mean: NativeT=..., std: TensorLike=..., dtype: DType | None=..., seed: Seed=...) -> NativeT: ...
@overload
def random_normal(shape: Shape, mean: TensorLike=..., std: TensorLike=..., dtype: DType | None=..., seed: Seed=...) -> Any: ...
def random_uniform(shape: Shape, low: float | Tensor=..., high: float | Tensor=..., dtype: DType | None=..., seed: Seed=...) -> Tensor:
    ...
@overload
def relu(x: Symbolic, alpha: Symbolic=..., max_value: Symbolic | None=...) -> Tensor: ...
@overload
def relu(x: np.ndarray | np.generic, alpha: TensorLike=..., max_value: TensorLike | None=...) -> Any: ...
@overload
def relu(x: NativeT, alpha: TensorLike=..., max_value: TensorLike | None=...) -> NativeT: ...
@overload
def relu(x: TensorLike, alpha: TensorLike=..., max_value: TensorLike | None=...) -> Any: ...
@overload
def resize_images(X: Symbolic, height_factor: int, width_factor: int, dim_ordering: str) -> Tensor: ...
@overload
def resize_images(X: np.ndarray | np.generic, height_factor: int, width_factor: int, dim_ordering: str) -> Any: ...
@overload
def resize_images(X: NativeT, height_factor: int, width_factor: int, dim_ordering: str) -> NativeT: ...
@overload
def resize_images(X: TensorLike, height_factor: int, width_factor: int, dim_ordering: str) -> Any: ...
@overload
def resize_volumes(X: Symbolic, depth_factor: int, height_factor: int, width_factor: int, dim_ordering: str) -> Tensor: ...
@overload
def resize_volumes(X: np.ndarray | np.generic, depth_factor: int, height_factor: int, width_factor: int, dim_ordering: str) -> Any: ...
@overload
def resize_volumes(X: NativeT, depth_factor: int, height_factor: int, width_factor: int, dim_ordering: str) -> NativeT: ...
@overload
def resize_volumes(X: TensorLike, depth_factor: int, height_factor: int, width_factor: int, dim_ordering: str) -> Any: ...
def rnn(step_function: Callable[..., Any], inputs: Tree, initial_states: Sequence[Tree] | Tensor, go_backwards: bool=..., mask: TensorLike | None=..., constants: Sequence[TensorLike] | None=..., unroll: bool=..., input_length: TensorLike | None=...) -> tuple[Any, Any, Any]:
    ...
@overload
def separable_conv2d(x: Symbolic, depthwise_kernel: Symbolic, pointwise_kernel: Symbolic, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=...) -> Tensor: ...
@overload
def separable_conv2d(x: np.ndarray | np.generic, depthwise_kernel: TensorLike, pointwise_kernel: TensorLike, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=...) -> Any: ...
@overload
def separable_conv2d(x: NativeT, depthwise_kernel: TensorLike, pointwise_kernel: TensorLike, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=...) -> NativeT: ...
@overload
def separable_conv2d(x: TensorLike, depthwise_kernel: TensorLike, pointwise_kernel: TensorLike, strides: Sizes=..., border_mode: Padding=..., dim_ordering: str=...) -> Any: ...
def set_image_dim_ordering(dim_ordering: str) -> None:
    ...
def set_legacy_weight_ordering(value: bool) -> None:
    ...
@overload
def softmax(x: Symbolic) -> Tensor: ...
@overload
def softmax(x: np.ndarray | np.generic) -> Any: ...
@overload
def softmax(x: NativeT) -> NativeT: ...
@overload
def softmax(x: TensorLike) -> Any: ...
@overload
def sparse_categorical_crossentropy(output: Symbolic, target: Symbolic, from_logits: bool=...) -> Tensor: ...
@overload
def sparse_categorical_crossentropy(output: np.ndarray | np.generic, target: TensorLike, from_logits: bool=...) -> Any: ...
@overload
def sparse_categorical_crossentropy(output: NativeT, target: TensorLike, from_logits: bool=...) -> NativeT: ...
@overload
def sparse_categorical_crossentropy(output: TensorLike, target: TensorLike, from_logits: bool=...) -> Any: ...
@overload
def spatial_2d_padding(x: Symbolic, padding: int | Sequence[int]=..., dim_ordering: str=...) -> Tensor: ...
@overload
def spatial_2d_padding(x: np.ndarray | np.generic, padding: int | Sequence[int]=..., dim_ordering: str=...) -> Any: ...
@overload
def spatial_2d_padding(x: NativeT, padding: int | Sequence[int]=..., dim_ordering: str=...) -> NativeT: ...
@overload
def spatial_2d_padding(x: TensorLike, padding: int | Sequence[int]=..., dim_ordering: str=...) -> Any: ...
@overload
def spatial_3d_padding(x: Symbolic, padding: int | Sequence[int]=..., dim_ordering: str=...) -> Tensor: ...
@overload
def spatial_3d_padding(x: np.ndarray | np.generic, padding: int | Sequence[int]=..., dim_ordering: str=...) -> Any: ...
@overload
def spatial_3d_padding(x: NativeT, padding: int | Sequence[int]=..., dim_ordering: str=...) -> NativeT: ...
@overload
def spatial_3d_padding(x: TensorLike, padding: int | Sequence[int]=..., dim_ordering: str=...) -> Any: ...
def stack(x: Sequence[TensorLike] | TensorLike) -> Tensor:
    ...
@overload
def temporal_padding(x: Symbolic, padding: int | Sequence[int]=...) -> Tensor: ...
@overload
def temporal_padding(x: np.ndarray | np.generic, padding: int | Sequence[int]=...) -> Any: ...
@overload
def temporal_padding(x: NativeT, padding: int | Sequence[int]=...) -> NativeT: ...
@overload
def temporal_padding(x: TensorLike, padding: int | Sequence[int]=...) -> Any: ...
def variable(value: TensorLike, dtype: DType | None=..., name: str | None=...) -> Variable:
    ...
