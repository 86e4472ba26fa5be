"""Programs that an engine once got wrong, as `fuzz` printed them. Each runs on every engine."""

import numpy as np


def gradient_by_the_result_of_an_operation_without_one(K):
    x = K.placeholder((2, None))
    t = x // 2
    y = t * x
    return {x: np.array([[1.5, -2.0], [3.0, 5.0]])}, K.gradients(y, [t, x]), []


def gradient_by_ones(K):
    x = K.placeholder((2, 2, 2, 3), dtype="float64")
    t = K.ones_like(x)
    y = K.pool2d(t, (1, 1), (1, 2), "valid", "channels_last", "avg")
    return {x: np.zeros((2, 2, 2, 3))}, K.gradients(y, [t]), []


def average_of_single_elements_beside_a_step_of_momentum(K):
    """The pooled value was a view of the variable, which the step had written over."""
    v = K.variable(np.random.default_rng(995).normal(0, 20, (3, 3, 1, 5)))
    m = K.zeros((3, 3, 1, 5))
    pooled = K.pool2d(v, (1, 1), (2, 1), "valid", "channels_first", "avg")
    (g,) = K.gradients(K.sum(v * 0.5), [v])
    new = 0.9 * m - 0.1 * g
    return {}, [pooled], [(m, new), (v, v + new)]


def means_of_many_rows(K):
    """The rows were added one by one: the mean was wrong in the fourth digit."""
    v = K.variable(np.full((18724, 2), 1.1))
    w = K.variable(np.full((16411, 3), 1.1))  # a prime number of rows
    return {}, [f(x, axis=0) for f in (K.mean, K.sum) for x in (v, w)], []


def sums_between_other_axes(K):
    x = K.variable(np.full((2, 20000, 2), 1.1))
    y = K.variable(np.full((3, 5000, 2, 70), 1.1))
    z = K.variable(np.full((16385,), 1.1))
    sums = [K.mean(x, axis=1), K.sum(x, axis=[0, 1]), K.mean(y, [1, 3], keepdims=True)]
    return {}, [*sums, K.sum(y, axis=1), K.mean(z)], []


def means_of_pixels_of_an_unknown_number_of_images(K):
    x = K.placeholder((None, 40, 40, 2))
    y = K.placeholder((None, 2, 40, 40))
    fed = {x: np.full((9, 40, 40, 2), 1.1), y: np.full((9, 2, 40, 40), 1.1)}
    return fed, [K.mean(x, [0, 1, 2]), K.sum(x, [0, 1]), K.mean(y, [0, 2, 3]), K.mean(x)], []


def transposed_convolution_that_is_asked_for_no_images(K):
    """TensorFlow's optimizer divided by the size of the batch."""
    x = K.placeholder((None, 1, 3, 1))
    kernel = K.constant(np.full((2, 2, 1, 1), 0.5))
    y = K.conv2d_transpose(x, kernel, (0, 1, 3, 1), (1, 1), "same", "channels_first")
    return {x: np.zeros((0, 1, 3, 1))}, [K.permute_dimensions(x, (1, 2, 3, 0)) // x, y], []


def slope_of_maxima_with_gaps_in_halves(K, dtype="float16"):
    """ONNX Runtime has no kernel for float16."""
    x = K.placeholder((1, 3, 7, 6), dtype=dtype)
    y = K.pool2d(x, (1, 3), (1, 2), "same", "channels_first", "max")
    value = np.random.default_rng(459).normal(0, 1, (1, 3, 7, 6)).astype("float32")
    return {x: value}, K.gradients(y, [x]), []


def gather_of_nothing(K):
    x = K.placeholder((None, 2))
    return {x: np.ones((3, 2))}, [K.gather(x, [])], []


def classes_among_which_all_are_best(K):
    x = K.placeholder((2, 3))
    i = K.placeholder((2,), dtype="int32")
    return {x: np.eye(2, 3), i: [1, 2]}, [K.in_top_k(x, i, 2**31)], []


def slope_of_maxima_beside_the_number_zero(K):
    """An operand that kernels do not read was taken for that number."""
    x = K.placeholder((2, 7, 2, None), dtype="float64")
    i = K.placeholder((), dtype="int64")
    y = K.pool2d(x, (3, 1), (1, 2), "same", "channels_last", "max")
    (g,) = K.gradients(y, [x])
    value = np.random.default_rng(3).normal(0, 1, (2, 7, 2, 3))
    return {x: value, i: 1}, [K.gather(g, K.maximum(i, 0))], []


def slope_of_maxima_in_halves(K, dtype="bfloat16"):
    """TensorFlow's kernel for bfloat16 ended the process."""
    x = K.placeholder((1, 4, 4, 2), dtype=dtype)
    y = K.pool2d(x, (2, 2), (2, 2), "same", "channels_last", "max")
    value = np.random.default_rng(1).normal(0, 1, (1, 4, 4, 2)).astype("float32")
    return {x: value}, [y, K.gradients(y, [x])[0]], []


def softmax_of_nothing(K):
    x = K.placeholder((2, 0), dtype="float64")
    return {x: np.zeros((2, 0))}, [K.softmax(x), K.log(K.softmax(x))], []


def sigmoid_of_a_constant_in_halves(K, dtype="bfloat16"):
    """It was folded by NumPy, which does not know bfloat16."""
    x = K.placeholder((2, 3), dtype=dtype)
    y = K.sigmoid(K.constant(np.linspace(-2, 2, 6).reshape((2, 3)), dtype))
    return {x: np.ones((2, 3), "float32")}, [x * y], []


def slope_of_rows_without_elements(K):
    """MLX ended the process, and TensorFlow's kernel refused the empty result."""
    x = K.placeholder((1, 0, 1), dtype="float64")
    y = K.placeholder((None, None))
    i = K.placeholder((None,), dtype="int64")
    rows = [K.gather(x, 0), K.gather(x, i), K.gather(y, i)]
    fed = {x: np.zeros((1, 0, 1)), y: np.zeros((3, 0)), i: [0, 0]}
    return fed, [g for t in rows for g in K.gradients(t, [x, y]) if g is not None], []


def logarithm_of_the_sum_of_nothing(K):
    """MLX refused it in float64."""
    x = K.placeholder((5, None), dtype="float64")
    y = K.placeholder((2, 3), dtype="float64")
    fed = {x: np.zeros((5, 0)), y: [[1e3, 0.0, -np.inf], [-np.inf] * 3]}
    results = [K.logsumexp(t, axis) for t in (x, y) for axis in (None, 1)]
    return fed, [*results, *K.gradients(results[3], [y])], []


def rows_of_no_samples(K):
    """JAX gave them another number of axes."""
    x = K.placeholder((0, 7))
    i = K.placeholder((0, 3), dtype="int32")
    y = K.placeholder((0, 7, 3))
    fed = {x: np.zeros((0, 7)), i: np.zeros((0, 3)), y: np.zeros((0, 7, 3))}
    return fed, [K.gather(x, i), K.ctc_batch_cost(i, K.softmax(y), i[:, :1], i[:, :1])], []


def products_of_transposed_stacks_without_rows(K):
    """ONNX Runtime ended the process."""
    x = K.placeholder((None, None, None))
    w = K.placeholder((2, 2, 2))
    i = K.placeholder((0, 3, 2))
    t = K.batch_dot(K.permute_dimensions(x, (1, 0, 2)), w)
    y = K.map_fn(lambda e: K.map_fn(lambda d: d * 2, e), K.local_conv1d(i, w, (1,), (2,)))
    fed = {x: np.zeros((0, 2, 2)), w: np.ones((2, 2, 2)), i: np.zeros((0, 3, 2))}
    return fed, [t, y, *K.gradients(y, [i, w])], []


def slope_of_kernels_without_images(K):
    """ONNX Runtime did not return."""
    x, k = K.placeholder((0, 2, 5, 5, 6)), K.placeholder((2, 3, 3, 2, 1))
    y = K.conv3d(x, k, (1, 1, 1), "same", "channels_first", (1, 1, 1))
    fed = {x: np.zeros((0, 2, 5, 5, 6)), k: np.ones((2, 3, 3, 2, 1))}
    return fed, K.gradients(y, [x, k]), []


def reductions_of_transposed_nothing(K):
    """MLX did not write their results."""
    x = K.placeholder((None, 3, 5, 7))
    y = K.permute_dimensions(x, (0, 2, 3, 1))
    tests = [f(y > 0, axis=[0, 1]) for f in (K.any, K.all)]
    sums = [f(y, axis=[0, 1]) for f in (K.sum, K.prod, K.mean, K.logsumexp)]
    return {x: np.zeros((0, 3, 5, 7))}, [*tests, *sums, K.cumsum(y, axis=0)], []


def softmax_of_unknown_nothing(K):
    """MLX refused the largest element."""
    fed, results = {}, []
    for dtype in ("float32", "float64"):
        x = K.placeholder((None, None), dtype=dtype)
        fed[x] = np.zeros((0, 3))
        for axis in (0, 1):
            y = K.softmax(x, axis)
            results += [y, K.log(y), *K.gradients(K.log(y), [x])]
    return fed, results, []


def quotients_of_infinity(K):
    """MLX gave NaN."""
    x, y = K.placeholder((4, 1)), K.placeholder((3,))
    fed = {x: np.array([[33.5], [-0.5], [0.0], [np.inf]]), y: np.array([np.inf, -np.inf, 2.0])}
    return fed, [x // y, x % y], []


def sign_of_nothing_known_in_halves(K, dtype="float16"):
    """ONNX Runtime gave 0 for NaN."""
    x = K.placeholder((None,), dtype=dtype)
    return {x: np.array([np.nan, 1.5, -2.0, 0.0], "float32")}, [K.sign(x)], []


def slope_of_a_minimum_of_products_in_halves(K, dtype="float16"):
    """ONNX Runtime left out the rounding of the products, so none of them equalled the minimum."""
    rng = np.random.default_rng(393)
    x, k = K.placeholder((1, 3, 7, 1), dtype=dtype), K.placeholder((2, 3, 1, 1), dtype=dtype)
    y = K.conv2d(x, k, (2, 2), "same", "channels_last")
    fed = {x: rng.normal(0, 1, (1, 3, 7, 1)), k: rng.normal(0, 1, (2, 3, 1, 1))}
    fed = {t: value.astype("float16").astype("float32") for t, value in fed.items()}
    return fed, K.gradients(K.clip(y + K.min(y), 1, 2), [k]), []


def pooling_of_slopes_without_images(K):
    """TensorFlow ended the process."""
    x = K.placeholder((0, 4, 4, 2))
    y = K.pool2d(x, (3, 3), (2, 2), "valid", "channels_last", "max")
    (g,) = K.gradients(y, [x])
    pooled = [K.pool2d(g, (2, 2), (1, 1), "same", "channels_last", m) for m in ("avg", "max")]
    return {x: np.zeros((0, 4, 4, 2))}, pooled, []


def extremes_of_many_with_nan(K):
    """JAX passed NaN over."""
    values = np.arange(4096.0).reshape(64, 64)
    values[3, 5] = np.nan
    x = K.placeholder((64, 64))
    axes = [None, 0, 1]
    return {x: values}, [f(x, axis=a) for f in (K.max, K.min) for a in axes], []


def convolution_with_one_window_along_the_last_axis_in_halves(K, dtype="bfloat16"):
    """PyTorch's kernels for processors with AMX gave other numbers."""
    x = K.placeholder((3, 2, 6, 5, None), dtype=dtype)
    k = K.variable(np.random.default_rng(642).integers(-2, 3, (2, 1, 3, 2, 3)), dtype)
    y = K.conv3d(x, k, (2, 2, 2), "valid", "channels_first")
    z = K.conv2d(x[:, :, 0], k[0], (1, 3), "same", "channels_first")
    value = np.random.default_rng(744).integers(-2, 3, (3, 2, 6, 5, 4)).astype("float32")
    return {x: value}, [y, z, *K.gradients(K.sum(K.square(y)), [x, k])], []


def slope_by_the_root_of_the_number_zero(K):
    """The search for a normalization found none of the operands of a maximum."""
    v = K.variable(np.ones((3, 2)))
    (g,) = K.gradients(K.sum(v * K.sqrt(K.constant(0.0))), [v])
    return {}, [g], []


def maxima_of_padded_negative_numbers(K):
    """ONNX Runtime left the zeros out, and refused those that are wider than the window."""
    x = K.placeholder((1, 2, 4, 4))
    around = K.spatial_2d_padding(x, ((1, 1), (1, 1)), "channels_first")
    wide = K.spatial_2d_padding(x, ((2, 2), (1, 0)), "channels_first")
    y = K.pool2d(around, (3, 3), (1, 1), "valid", "channels_first", "max")
    z = K.pool2d(wide, (3, 1), (1, 1), "same", "channels_first", "max")
    values = -np.arange(1.0, 33).reshape(1, 2, 4, 4)
    return {x: values}, [y, z, *K.gradients(K.sum(K.square(y)), [x])], []


def product_of_a_dilated_convolution_along_an_unknown_axis(K):
    """TensorFlow's optimizer took an axis of size 1 for as long as this one, and did not squeeze it."""
    x = K.placeholder((2, 3, None))
    k = K.constant(np.random.default_rng(9).normal(size=(3, 3, 2)))
    y = K.conv1d(x, k, 1, "same", "channels_first", 2)
    z = K.batch_dot(y, K.constant(np.random.default_rng(225).normal(size=(2, 6, 4))), axes=(2, 1))
    value = np.random.default_rng(195).normal(size=(2, 3, 6))
    return {x: value}, [z, *K.gradients(K.sum(K.square(z)), [x])], []


def steps_that_overflow_in_halves_behind_a_softmax(K):
    """The reference expected NaN alone. ONNX Runtime keeps float16 in float32, and has infinities."""
    v = K.variable(np.random.default_rng(649).normal(0, 20, (2, 3)), "float16")
    labels = K.placeholder((None,), dtype="int32")
    scores = K.softmax(K.reshape(v, (2, 3)))
    spread = K.var(K.sparse_categorical_crossentropy(K.clip(labels, 0, 2), scores), axis=0)
    (g,) = K.gradients(K.mean(K.square(v - 1)) * spread, [v])
    velocity = K.zeros((2, 3), "float16")
    step = 0.9 * velocity - 0.1 * g
    return {labels: [4, 4]}, [], [(velocity, step), (v, v + 0.9 * step - 0.1 * g)]


CORPUS = [f for f in globals().values() if getattr(f, "__module__", "") == __name__]
