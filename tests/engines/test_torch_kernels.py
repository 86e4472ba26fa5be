"""Kernels of convolutions lie in memory as PyTorch's convolutions read them."""

from __future__ import annotations

import numpy as np
import pytest

from backplane import backend as K
from backplane.engines import get, kernels

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
CASES = {
    "conv1d": ((4, 9, 3), (3, 3, 5)),
    "conv2d": ((4, 9, 9, 3), (3, 3, 3, 5)),
    "conv3d": ((4, 5, 5, 5, 3), (3, 3, 3, 3, 5)),
}


def _array(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def _native(variable):
    return variable.values[get("torch")]


def _has_outputs_first(variable) -> bool:
    value = _native(variable)
    return value.movedim(-1, 0).is_contiguous() and not value.is_contiguous()


@pytest.fixture(autouse=True)
def _on_torch():
    with K.engine("torch"):
        yield


@pytest.mark.parametrize("name", CASES)
def test_the_first_program_lays_out_its_kernels(name):
    images, shape = CASES[name]
    kernel, x = K.variable(_array(*shape)), K.placeholder(images)
    before = K.get_value(kernel)
    f = K.function([x], [getattr(K, name)(x, kernel, padding="same")])
    given = _array(*images)
    (y,) = f([given])
    assert _has_outputs_first(kernel)
    with K.engine("numpy"):
        np.testing.assert_allclose(
            y, getattr(K, name)(given, before, padding="same"), rtol=1e-4, atol=1e-5
        )
    assert K.get_value(kernel).flags.c_contiguous
    np.testing.assert_array_equal(K.get_value(kernel), before)


def test_new_values_are_laid_out_too():
    images, shape = CASES["conv2d"]
    kernel, x = K.variable(_array(*shape)), K.placeholder(images)
    f = K.function([x], [K.conv2d(x, kernel)])
    given = _array(*images)
    (y,) = f([given])
    K.set_value(kernel, 2 * K.get_value(kernel))
    np.testing.assert_allclose(f([given])[0], 2 * y, rtol=1e-6)
    assert _has_outputs_first(kernel)


def test_other_engines_get_the_usual_order():
    images, shape = CASES["conv2d"]
    kernel, x = K.variable(_array(*shape)), K.placeholder(images)
    K.function([x], [K.conv2d(x, kernel)])([_array(*images)])
    K.set_value(kernel, _array(*shape))
    with K.engine("numpy"):
        K.eval(kernel + 1.0)
    assert kernel.values[get("numpy")].flags.c_contiguous


@pytest.mark.parametrize("side", [2, 9], ids=["as a product", "as a convolution"])
def test_training_keeps_the_layout_and_the_memory(side):
    kernel, x = K.variable(_array(3, 3, 4, 64)), K.placeholder((2, side, side, 4))
    loss = K.mean(K.square(K.conv2d(x, kernel, padding="same")))
    (slope,) = K.gradients(loss, [kernel])
    step = K.function([x], [loss], updates=[K.update_sub(kernel, 0.1 * slope)])
    look = K.function([x], [loss])
    given = _array(2, side, side, 4)
    (first,) = look([given])
    place = _native(kernel).data_ptr()
    losses = [step([given])[0] for _ in range(3)]
    assert losses[0] == pytest.approx(first, rel=1e-5)
    assert losses[2] < losses[1] < losses[0]
    assert _native(kernel).data_ptr() == place
    assert _has_outputs_first(kernel)


def test_kernels_of_one_element_and_other_variables_stay_as_they_are():
    kernel, shift = K.variable(_array(1, 1, 3, 5)), K.variable(_array(3, 3, 3, 5))
    x = K.placeholder((2, 4, 4, 3))
    K.function([x], [K.conv2d(x, kernel), shift + 1.0])([_array(2, 4, 4, 3)])
    assert _native(kernel).is_contiguous()
    assert _native(shift).is_contiguous()


PRODUCTS = {
    "one element": ((2, 6, 6, 32), (1, 1, 32, 40), {}),
    "one element, every second one": ((4, 9, 9, 32), (1, 1, 32, 40), {"strides": (2, 2)}),
    "few windows": ((8, 3, 3, 32), (3, 3, 32, 40), {"padding": "same"}),
    "one axis": ((8, 9, 32), (3, 32, 40), {"strides": 2}),
    "three axes": ((8, 3, 3, 3, 32), (2, 2, 2, 32, 40), {}),
    "channels too few for oneDNN": ((8, 3, 3, 8), (3, 3, 8, 40), {"padding": "same"}),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("whole", [True, False], ids=["batch known", "batch unknown"])
def test_products_by_onednn_are_those_of_convolutions(name, whole):
    """With a bias, and with the gradients by the image, the kernel and the bias."""
    images, shape, options = PRODUCTS[name]
    x = K.placeholder(images if whole else (None, *images[1:]))
    kernel, bias = K.variable(_array(*shape) / 8), K.variable(_array(shape[-1]))
    convolve = {3: K.conv1d, 4: K.conv2d, 5: K.conv3d}[len(images)]
    y = K.bias_add(convolve(x, kernel, **options), bias)
    slopes = K.gradients(K.sum(K.square(y)), [x, kernel, bias])
    given, found = _array(*images), []
    every = float("inf")
    for limits in ({"windows": every, "kernels": every, "products": 0.0},
                   {"windows": every, "kernels": every, "products": every},
                   {"windows": 0.0, "kernels": 0.0}):  # fmt: skip
        with kernels.forced(**{f"torch__{choice}": n for choice, n in limits.items()}):
            found.append(K.function([x], [y, *slopes])([given]))
    for results in zip(*found, strict=True):
        for other in results[1:]:
            np.testing.assert_allclose(results[0], other, rtol=2e-4, atol=2e-4)


def test_products_by_onednn_leave_a_tape_what_it_needs():
    """Eager convolutions of PyTorch's tensors, and mapped ones."""
    import torch

    x, kernel = (torch.tensor(_array(*s)) for s in ((4, 3, 3, 32), (1, 1, 32, 40)))
    with kernels.forced(torch__products=0.0):
        kernel.requires_grad_()
        K.sum(K.square(K.conv2d(x, kernel))).backward()
        with torch.no_grad():
            y = K.conv2d(x, kernel)
            mapped = torch.vmap(lambda image: K.conv2d(image[None], kernel)[0])(x)
    expected = (x.reshape(-1, 32) @ kernel[0, 0]).reshape(4, 3, 3, 40)
    slope = torch.autograd.grad((expected**2).sum(), kernel)[0]
    torch.testing.assert_close(kernel.grad, slope, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(y, expected.detach(), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(mapped, expected.detach(), rtol=1e-4, atol=1e-4)


def _momentum(p, g, m):
    new = 0.9 * m - 0.01 * g
    return [(m, new), (p, p + new)]


def _adam(p, g, m, v):
    new_m, new_v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * K.square(g)
    return [(m, new_m), (v, new_v), (p, p - 0.01 * new_m / (K.sqrt(new_v) + 1e-7))]


@pytest.mark.parametrize(
    ("step", "states", "kernel"), [(_momentum, 1, "_fused_sgd_"), (_adam, 2, "_fused_adam_")]
)
def test_fused_steps_copy_no_kernel(monkeypatch, step, states, kernel):
    """PyTorch's own copy what is not contiguous, there and back."""
    fused, straight = getattr(torch, kernel), []

    def watched(*tensors, **options):
        straight.extend(x.is_contiguous() for group in tensors for x in group if x.ndim)
        return fused(*tensors, **options)

    monkeypatch.setattr(torch, kernel, watched)
    given, first = _array(4, 9, 9, 3), [_array(3, 3, 3, 5), _array(1, 1, 5, 7)]

    def trained():
        x, weights = K.placeholder((None, 9, 9, 3)), [K.variable(w) for w in first]
        y = x
        for w in weights:
            y = K.conv2d(y, w, padding="same")
        updates = []
        for w, g in zip(weights, K.gradients(K.mean(K.square(y)), weights), strict=True):
            updates += step(w, g, *[K.zeros(w.shape) for _ in range(states)])
        f = K.function([x], [], updates=updates)
        for _ in range(3):
            f([given])
        return [K.get_value(w) for w in weights]

    found = trained()
    assert straight
    assert all(straight)
    with K.engine("numpy"):
        for w, wanted in zip(found, trained(), strict=True):
            np.testing.assert_allclose(w, wanted, rtol=1e-4, atol=1e-5)
