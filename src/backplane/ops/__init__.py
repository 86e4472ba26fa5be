"""The primitives by theme. A theme is imported when one of its primitives is first asked for.

Arguments are canonical here: axes are sorted tuples of non-negative integers, operands have equal
dtypes. The friendly forms are those of `backplane.backend`.
"""

from backplane.core.registry import HOMES

THEMES = {
    "control": "cond scan while_loop",
    "convolution": "conv conv_bias conv_input_grad conv_kernel_grad",
    "creation": "arange dim full",
    "effects": "check_windows identity print stop_gradient",
    "elementwise": "abs add bit_and bit_or bit_xor cast cos div equal erfinv exp expm1 floor"
    " floordiv less less_equal log log1p logical_and logical_not logical_or maximum minimum mod"
    " mul mul_no_nan neg not_equal pow relu relu_grad round shift_left shift_right sigmoid"
    " sigmoid_grad sign sin softplus sqrt sub tanh tanh_grad where",
    "indexing": "dynamic_slice dynamic_slice_grad flip gather head pad scatter_add slice"
    " slice_grad",
    "linear": "matmul matmul_add",
    "pooling": "avg_pool avg_pool_grad max_pool max_pool_grad max_pool_take",
    "random": "random_bits random_normal random_uniform",
    "reduction": "all any argmax argmin cumprod cumsum log_softmax logsumexp max mean min prod"
    " softmax sum top_k",
    "shaping": "broadcast_to concat expand_dims reshape squeeze sum_to transpose",
    "sparse": "to_dense to_sparse",
    "updates": "adam_update gradient_update momentum_update",
}
"""Module of this package → the primitives that it declares."""

HOMES |= {name: f"{__name__}.{theme}" for theme, names in THEMES.items() for name in names.split()}
