"""`keras.src.backend.nn`: activations, windows, normalization, attention, losses and CTC."""

from backplane.keras3.ops.nn.activation import (
    celu,
    elu,
    gelu,
    glu,
    hard_shrink,
    hard_sigmoid,
    hard_silu,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_shrink,
    softmax,
    softplus,
    softsign,
    sparse_plus,
    sparse_sigmoid,
    sparsemax,
    squareplus,
    tanh,
    tanh_shrink,
    threshold,
)
from backplane.keras3.ops.nn.attention import dot_product_attention
from backplane.keras3.ops.nn.blocks import depth_to_space, fold, space_to_depth, unfold
from backplane.keras3.ops.nn.convolution import conv, conv_transpose, depthwise_conv, separable_conv
from backplane.keras3.ops.nn.ctc import ctc_decode, ctc_loss
from backplane.keras3.ops.nn.loss import (
    binary_crossentropy,
    categorical_crossentropy,
    multi_hot,
    one_hot,
    psnr,
    sparse_categorical_crossentropy,
)
from backplane.keras3.ops.nn.normalization import batch_normalization, moments
from backplane.keras3.ops.nn.pooling import (
    adaptive_average_pool,
    adaptive_max_pool,
    average_pool,
    max_pool,
)

__all__ = [
    "adaptive_average_pool", "adaptive_max_pool", "average_pool", "batch_normalization",
    "binary_crossentropy", "categorical_crossentropy", "celu", "conv", "conv_transpose",
    "ctc_decode", "ctc_loss", "depth_to_space", "depthwise_conv", "dot_product_attention", "elu",
    "fold", "gelu", "glu", "hard_shrink", "hard_sigmoid", "hard_silu", "hard_tanh", "leaky_relu",
    "log_sigmoid", "log_softmax", "max_pool", "moments", "multi_hot", "one_hot", "psnr", "relu",
    "relu6", "selu", "separable_conv", "sigmoid", "silu", "soft_shrink", "softmax", "softplus",
    "softsign", "space_to_depth", "sparse_categorical_crossentropy", "sparse_plus",
    "sparse_sigmoid", "sparsemax", "squareplus", "tanh", "tanh_shrink", "threshold", "unfold",
]  # fmt: skip
