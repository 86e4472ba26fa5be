"""The generation of Keras that a script was written for: 1, 2 or 3, as its imports and spellings
tell.

Nothing is imported or run for that. The lists name what only one of the generations has; what two
of them share, such as `Convolution2D` or `keras.utils.np_utils`, tells nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

KEYWORDS = {
    1: """
        atrous_rate b_constraint b_regularizer border_mode consume_less dim_ordering dropout_U
        dropout_W filter_dilation inner_activation inner_init nb_classes nb_col nb_epoch nb_filter
        nb_row nb_val_samples nb_worker samples_per_epoch subsample subsample_length U_regularizer
        W_constraint W_regularizer
    """,
    2: """
        bias_initializer bias_regularizer data_format depthwise_initializer dilation_rate epochs
        filters initial_epoch kernel_constraint kernel_initializer kernel_regularizer kernel_size
        recurrent_activation recurrent_dropout recurrent_initializer return_state steps_per_epoch
        use_bias validation_steps
    """,
}
"""Names of arguments, of layers and models most of all."""

NAMES = {
    1: """
        AtrousConvolution1D AtrousConvolution2D Deconvolution2D Highway MaxoutDense Merge
        ParametricSoftplus SReLU TimeDistributedDense merge
    """,
    2: """
        Conv1D Conv2D Conv2DTranspose Conv3D ConvRNN2D CuDNNGRU CuDNNLSTM DepthwiseConv2D
        SeparableConv2D StackedRNNCells add concatenate
    """,
    3: "KerasTensor ops random saving",
}
"""Names that are imported from `keras`, or from modules below it."""

MODULES = {
    1: "keras.initializations keras.regularizers.WeightRegularizer keras.utils.visualize_util",
    2: "keras.initializers keras.losses keras.engine.base_layer keras.legacy tensorflow.keras",
    3: "keras.distribution keras.ops keras.random keras.saving keras.src keras_core",
}

FUNCTIONS = {
    1: """
        asymmetric_spatial_2d_padding asymmetric_temporal_padding atrous_conv2d deconv2d
        image_dim_ordering legacy_weight_ordering lesser lesser_equal pack set_image_dim_ordering
    """,
    2: """
        bias_add constant control_dependencies conv2d_transpose cumprod cumsum image_data_format
        is_tensor less less_equal local_conv1d local_conv2d logsumexp name_scope
        set_image_data_format slice truncated_normal
    """,
}
"""Functions of K."""

METHODS = {1: "get_output_shape_for", 2: "compute_output_shape"}
"""Methods that a layer of one's own defines."""

VALUES = {1: "th tf"}
"""Arguments that are strings: the orderings of images."""

DEFAULT = 2


class Generation(NamedTuple):
    """A generation of Keras, and the spellings that tell it, in order."""

    number: int
    cues: tuple[str, ...]


def of_script(text: str) -> Generation | None:
    """The generation of Keras that a script was written for; None if it imports no Keras.

    What speaks for Keras 3 decides. Else the generation with more different spellings wins, and
    Keras 2 where there are as many of both.

    Args:
        text: The source of the script. One that Python cannot read counts as importing nothing.

    Example:
        >>> from backplane.interop import generation
        >>> generation.of_script("from keras import backend as K; K.lesser(x, y)")
        Generation(number=1, cues=('lesser',))
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    if not any(_is_keras(module) for node in ast.walk(tree) for module in _modules(node)):
        return None
    signs: dict[int, set[str]] = {1: set(), 2: set(), 3: set()}
    backends = {name for node in ast.walk(tree) for name in _backends(node)}
    for node in ast.walk(tree):
        for table, words in _spellings(node, backends):
            for number, listed in table.items():
                signs[number] |= words & set(listed.split())
    number = DEFAULT
    if signs[3]:
        number = 3
    elif len(signs[1]) > len(signs[2]):
        number = 1
    return Generation(number, tuple(sorted(signs[number])))


def _is_keras(module: str) -> bool:
    return f"{module}.".startswith(("keras.", "keras_core.", "tensorflow.keras."))


def _modules(node: ast.AST) -> Iterator[str]:
    """The modules that an import may load."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _backends(node: ast.AST) -> Iterator[str]:
    """The names under which an import binds `keras.backend`."""
    if isinstance(node, ast.ImportFrom) and node.module and _is_keras(node.module):
        yield from (alias.asname or alias.name for alias in node.names if alias.name == "backend")
    elif isinstance(node, ast.Import):
        listed = (alias for alias in node.names if alias.name.endswith("keras.backend"))
        yield from (alias.asname or "backend" for alias in listed)


def _spellings(node: ast.AST, backends: set[str]) -> Iterator[tuple[dict[int, str], set[str]]]:
    """The words of a node, each with the lists in which they may stand."""
    modules = list(_modules(node))
    prefixes = {".".join(m.split(".")[:n]) for m in modules for n in range(1, m.count(".") + 2)}
    yield MODULES, prefixes
    if isinstance(node, ast.ImportFrom) and _is_keras(node.module or ""):
        yield (FUNCTIONS if "backend" in str(node.module) else NAMES), {a.name for a in node.names}
    elif isinstance(node, ast.Call):
        yield KEYWORDS, {keyword.arg for keyword in node.keywords if keyword.arg}
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        yield VALUES, {str(v.value) for v in given if isinstance(v, ast.Constant)}
    elif isinstance(node, ast.FunctionDef):
        yield METHODS, {node.name}
    elif isinstance(node, ast.Attribute):
        owner = ast.unparse(node.value)
        if owner.rpartition(".")[2] in backends | {"backend"}:
            yield FUNCTIONS, {node.attr}
        elif owner == "keras":
            yield NAMES, {node.attr}
