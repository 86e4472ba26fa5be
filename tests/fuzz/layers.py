"""Kinds of lines: products, windows, normalization, losses, large arrays."""

from __future__ import annotations

from fuzz.catalogue import FORMATS, entry
from fuzz.writer import LIMITS, Var, Writer

# --- products and windows -------------------------------------------------------------------------


@entry(7)
def dot(w: Writer) -> str:
    x = w.tensor("float", where=lambda v: 1 <= v.ndim <= 3, shape=lambda: w.shape(2))
    shape = (x.shape[-1], w.size())
    if w.chance(15):
        shape = (w.size(), *shape)
    return f"K.dot({x}, {w.exactly(shape, 'float', x.dtype if w.chance(90) else None)})"


@entry(4)
def batch_dot(w: Writer) -> str:
    x = w.tensor("float", where=lambda v: 2 <= v.ndim <= 4, shape=lambda: w.shape(3))
    axis = w.between(1, x.ndim - 1)
    rank = w.between(2, 3)
    other = w.between(1, rank - 1)
    shape = [x.shape[0], *[w.size() for _ in range(rank - 1)]]
    shape[other] = x.shape[axis]
    return f"K.batch_dot({x}, {w.exactly(tuple(shape), 'float', x.dtype)}, axes=({axis}, {other}))"


@entry(2)
def bias(w: Writer) -> str:
    x = w.tensor("float", where=lambda v: 2 <= v.ndim <= 5, shape=lambda: w.shape(w.between(2, 4)))
    layout = w.pick(FORMATS)
    channels = x.shape[-1] if layout == FORMATS[0] or x.ndim == 2 else x.shape[1]
    return f"K.bias_add({x}, {w.weights((channels,), x.dtype)}, {layout!r})"


def image(w: Writer, spatial: int, layout: str, least: int = 1) -> Var:
    """A tensor with a batch, channels and `spatial` axes of at least `least`."""
    places = range(1, spatial + 1) if layout == FORMATS[0] else range(2, spatial + 2)

    def shape() -> tuple[int, ...]:
        space = [w.between(least, least + 4) for _ in range(spatial)]
        channels, batch = w.between(1, 3), w.pick((2, 1, 3, 0))
        return (batch, *space, channels) if layout == FORMATS[0] else (batch, channels, *space)

    return w.tensor(
        "float",
        rank=spatial + 2,
        where=lambda v: min(v.shape[1:]) > 0 and min(v.shape[i] for i in places) >= least,
        shape=shape,
    )


def windows(w: Writer, spatial: int) -> tuple[Var, str, list[int], str]:
    layout = w.pick(FORMATS)
    window = [w.between(1, 3) for _ in range(spatial)]
    x = image(w, spatial, layout, max(window))
    return x, layout, window, w.pick(("valid", "same"))


@entry(6)
def convolve(w: Writer) -> str:
    spatial = w.pick((2, 2, 1, 3))
    x, layout, window, padding = windows(w, spatial)
    channels = x.shape[-1] if layout == FORMATS[0] else x.shape[1]
    if spatial == 1 and w.chance(20) and layout == FORMATS[0]:
        padding = "causal"
    strides, dilation = w.pick((1, 1, 2)), 1
    if strides == 1 and w.chance(15) and padding != "valid":
        dilation = 2
    name, filters = f"conv{spatial}d", w.between(1, 3)
    if spatial == 2 and w.chance(25):
        name = "depthwise_conv2d"
    kernel = w.weights((*window, channels, filters), x.dtype)
    rest = f"{(strides,) * spatial}, {padding!r}, {layout!r}, {(dilation,) * spatial}"
    if spatial == 2 and w.chance(15):
        point = w.weights((1, 1, channels * filters, 2), x.dtype)
        return f"K.separable_conv2d({x}, {kernel}, {point}, {rest})"
    if spatial == 1:
        rest = f"{strides}, {padding!r}, {layout!r}, {dilation}"
    return f"K.{name}({x}, {kernel}, {rest})"


@entry(2)
def convolve_back(w: Writer) -> str:
    layout = w.pick(FORMATS)
    x = image(w, 2, layout)
    last = layout == FORMATS[0]
    space, channels = (x.shape[1:3], x.shape[3]) if last else (x.shape[2:], x.shape[1])
    stride, filters, window = w.between(1, 2), w.between(1, 2), w.between(2, 3)
    out = tuple(n * stride for n in space)
    shape = (x.shape[0], *out, filters) if last else (x.shape[0], filters, *out)
    kernel = w.weights((window, window, filters, channels), x.dtype)
    return f"K.conv2d_transpose({x}, {kernel}, {shape}, ({stride}, {stride}), 'same', {layout!r})"


@entry(5)
def pool(w: Writer) -> str:
    spatial = w.pick((2, 2, 3))
    x, layout, window, padding = windows(w, spatial)
    strides = tuple(w.pick((1, 2)) for _ in window)
    return (
        f"K.pool{spatial}d({x}, {tuple(window)}, {strides}, {padding!r}, {layout!r},"
        f" {w.pick(('max', 'avg'))!r})"
    )


@entry(1)
def resize(w: Writer) -> str:
    layout = w.pick(FORMATS)
    x = image(w, 2, layout)
    kind = w.pick(("nearest", "bilinear"))
    return f"K.resize_images({x}, {w.between(1, 3)}, {w.between(1, 2)}, {layout!r}, {kind!r})"


# --- normalization and losses ---------------------------------------------------------------------


@entry(3)
def normalize(w: Writer) -> str:
    x = w.tensor("float", where=lambda v: 2 <= v.ndim <= 4, shape=lambda: w.shape(w.between(2, 4)))
    vector = (x.shape[-1],)
    beta, gamma = (w.exactly(vector, "float", x.dtype) for _ in range(2))
    if w.chance(50):
        axes = list(range(x.ndim - 1))
        return f"K.normalize_batch_in_training({x}, {gamma}, {beta}, {axes})[{w.below(3)}]"
    mean, var = (w.exactly(vector, "float", x.dtype) for _ in range(2))
    return f"K.batch_normalization({x}, {mean}, K.abs({var}), {beta}, {gamma})"


@entry(4)
def loss(w: Writer) -> str:
    y = w.tensor(
        "float", where=lambda v: v.ndim >= 2 and v.shape[-1] > 0, shape=lambda: (w.size(), 3)
    )
    if y.ndim < 2 or y.shape[-1] == 0:
        return f"K.square({y})"
    logits = w.chance(50)
    if w.chance(40):
        given = y if logits else f"K.sigmoid({y})"
        return f"K.binary_crossentropy({w.exactly(y.shape, 'float', y.dtype)}, {given}, from_logits={logits})"
    given = y if logits else f"K.softmax({y})"
    if w.chance(50):
        target = w.exactly(y.shape, "float", y.dtype)
        return f"K.categorical_crossentropy({target}, {given}, from_logits={logits})"
    classes = w.input(y.shape[:-1], "int32")
    labels = f"K.clip({classes}, 0, {y.shape[-1] - 1})"
    given = str(given).replace(str(y), f"K.reshape({y}, {y.shape})")
    return f"K.sparse_categorical_crossentropy({labels}, {given}, from_logits={logits})"


@entry(1)
def large(w: Writer) -> str | None:
    """A chain of element-wise operations at one of the sizes from which engines work in blocks."""
    if w.chance(60):
        return None
    size = w.pick(LIMITS[: 5 if w.chance(80) else None]) + w.between(-1, 1)
    shape = w.pick(((size,), (2, size // 2), (size // 64, 64), (size // 7, 7)))
    dtype = w.pick(("float32", "float64", "float32", "float16"))
    value = f"np.random.default_rng({w.below(99)}).normal(0, 1, {shape}).astype({dtype!r})"
    x = w.line("v", f"K.variable({value}, {dtype!r})")
    y = w.exactly(shape[-1:] if shape[-1] < 100 else (), "float", dtype)
    for _ in range(w.between(1, 5)):
        text = w.pick(
            (
                "K.tanh({})",
                "{} * {y}",
                "{} + {y}",
                "K.relu({})",
                "K.exp(-K.abs({}))",
                "{} / (1 + K.abs({y}))",
                "K.sqrt(K.abs({}))",
                "K.maximum({}, {y})",
            )
        )
        x = w.line("t", text.format(x, y=y))
    axis = w.pick((None, -1, 0))
    return (
        f"K.{w.pick(('mean', 'max', 'min', 'sum', 'std'))}({x}, axis={axis})[:5]"
        if axis is not None and len(shape) > 1
        else f"K.{w.pick(('mean', 'max', 'min', 'sum'))}({x})"
    )
