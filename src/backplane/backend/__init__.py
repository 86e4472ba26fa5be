"""The K namespace: every function of the Keras backend API, by chapter. No logic here.

A chapter is imported when one of its functions is first asked for (PEP 562), because a program
needs few of the chapters and every module costs its start 0.2 ms. What type checkers see is in
`__init__.pyi`.
"""

import sys as _sys
from importlib import import_module as _import_module

from backplane import config as _config
from backplane import engines as _engines
from backplane.backend import _mixing  # noqa: F401 - operators on tensors of two kinds
from backplane.backend import graph as _graph  # noqa: F401 - sets what `Tensor.eval` does

_CHAPTERS = {
    "backend.activation": "elu hard_sigmoid relu sigmoid softmax softplus softsign tanh",
    "backend.arithmetic": "abs cast clip cos exp identity log maximum minimum pow round sign"
    " sin sqrt square",
    "backend.common": "eager engine get_uid name_scope reset_uids symbolic",
    "backend.comparison": "equal greater greater_equal less less_equal not_equal",
    "backend.control": "foldl foldr in_test_phase in_train_phase map_fn switch",
    "backend.convolution": "conv1d conv2d conv2d_transpose conv3d conv3d_transpose"
    " depthwise_conv2d separable_conv1d separable_conv2d",
    "backend.creation": "arange constant eye ones ones_like placeholder variable zeros zeros_like",
    "backend.ctc": "ctc_batch_cost ctc_decode ctc_label_dense_to_sparse",
    "backend.effects": "print_tensor",
    "backend.graph": "eval function gradients stop_gradient",
    "backend.inspection": "count_params dtype get_variable_shape int_shape is_keras_tensor"
    " is_placeholder is_tensor is_variable ndim shape size",
    "backend.keras1": "asymmetric_spatial_2d_padding asymmetric_temporal_padding deconv2d"
    " image_dim_ordering set_image_dim_ordering",
    "backend.linear": "batch_dot bias_add dot l2_normalize transpose",
    "backend.loss": "binary_crossentropy categorical_crossentropy in_top_k"
    " sparse_categorical_crossentropy",
    "backend.normalization": "batch_normalization normalize_batch_in_training",
    "backend.padding": "spatial_2d_padding spatial_3d_padding temporal_padding",
    "backend.phase": "clear_session learning_phase set_learning_phase",
    "backend.pooling": "local_conv1d local_conv2d pool2d pool3d",
    "backend.random": "dropout random_binomial random_normal random_normal_variable random_uniform"
    " random_uniform_variable set_random_seed truncated_normal",
    "backend.recurrence": "rnn",
    "backend.reduction": "all any argmax argmin cumprod cumsum logsumexp max mean min prod std"
    " sum var",
    "backend.resizing": "resize_images resize_volumes",
    "backend.selection": "concatenate gather one_hot reverse slice stack",
    "backend.session": "control_dependencies get_session manual_variable_initialization"
    " pattern_broadcast py_all py_sum set_session",
    "backend.shaping": "batch_flatten expand_dims flatten permute_dimensions repeat repeat_elements"
    " reshape squeeze tile",
    "backend.sparse": "is_sparse to_dense",
    "backend.state": "batch_get_value batch_set_value get_value moving_average_update set_value"
    " update update_add update_sub",
    "config": "backend cast_to_floatx epsilon floatx image_data_format normalize_data_format"
    " set_epsilon set_floatx set_image_data_format",
}
"""Module of Backplane → the functions of K in it."""

_HOME = {
    name: f"backplane.{module}" for module, names in _CHAPTERS.items() for name in names.split()
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    """A function of K from its chapter, or a name that Keras leaked, such as
    `K.tensorflow_backend`.
    """
    if name in _HOME:
        found = getattr(_import_module(_HOME[name]), name)
        globals()[name] = found  # Python finds it there from now on, without this function.
        return found
    from backplane.backend.tensorflow_backend import leaked

    return leaked(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_config.load()
_choice = _engines.configured()
if _engines.is_external(_choice):
    from backplane.backend import _external

    _external.take(_choice.name, globals())
if _config.names_ourselves():
    # Classic Keras copies what it finds in the dictionary of the module.
    for _name in __all__:
        __getattr__(_name)
print(_choice.announcement, file=_sys.stderr)
