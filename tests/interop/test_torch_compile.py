"""K functions inside `torch.compile` and `torch.export`: in the graph, not beside it."""

from __future__ import annotations

import functools
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch._dynamo.exc import Unsupported

import waiting
from backplane import backend as K
from cases import CASES
from cases.record import Arg, Case

EYE = np.eye(3, dtype="float32") * 2.0

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No compiled code from other tests."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def loss(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """With an array, numbers, a setting (epsilon) and an axis among what K functions read."""
    scores = K.softmax(K.dot(K.tanh(x), EYE), axis=-1)
    penalty: torch.Tensor = 0.1 * K.sum(K.square(K.clip(x, -1.0, 0.5)))
    return K.mean(K.categorical_crossentropy(y, scores)) + penalty


def data(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch of inputs, which take gradients, and of targets."""
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(n, 3, generator=generator).requires_grad_()
    return x, torch.rand(n, 3, generator=generator)


def with_slope(function: Any, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Value and gradient."""
    x, y = data(n)
    value = function(x, y)
    value.backward()
    assert x.grad is not None
    return value.detach(), x.grad


class Counting:
    """A backend that counts the graphs it is given."""

    def __init__(self, name: str) -> None:
        self.graphs = 0
        self.inner = torch._dynamo.lookup_backend(name)

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        return self.inner(graph, inputs)


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_forward_and_backward_in_one_graph(backend: str, dynamic: bool | None) -> None:
    counting = Counting(backend)
    compiled = torch.compile(loss, fullgraph=True, backend=counting, dynamic=dynamic)
    for n in (4, 5, 6, 4):
        torch.testing.assert_close(with_slope(compiled, n), with_slope(loss, n))
    # None: the compiler keeps the size open once it has seen a second one.
    assert counting.graphs == {None: 2, True: 1, False: 3}[dynamic]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_inductor() -> None:
    compiled = torch.compile(loss, fullgraph=True)
    for n in (4, 5):
        torch.testing.assert_close(with_slope(compiled, n), with_slope(loss, n))


class Layer(torch.nn.Module):
    """Dense, as a user of K writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = torch.nn.Parameter(torch.linspace(-1.0, 1.0, 6).reshape(3, 2))
        self.bias = torch.nn.Parameter(torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = K.relu(K.bias_add(K.dot(x, self.kernel), self.bias), alpha=0.1)
        return found


def test_a_module_trains_alike() -> None:
    def trained(compile_it: bool) -> list[float]:
        layer = Layer()
        model = torch.compile(layer, fullgraph=True, backend="aot_eager") if compile_it else layer
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            value = K.mean(K.square(model(data(6)[0].detach()) - 1.0))
            value.backward()
            optimizer.step()
            losses.append(value.item())
        return losses

    plain = trained(False)
    assert plain[-1] < 0.8 * plain[0]
    np.testing.assert_allclose(trained(True), plain, rtol=1e-5)


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict: bool) -> None:
    x = data(4)[0].detach()
    rows = torch.export.Dim("rows", min=2)
    exported = torch.export.export(Layer(), (x,), dynamic_shapes=({0: rows},), strict=strict)
    other = data(7)[0].detach()
    torch.testing.assert_close(exported.module()(other), Layer()(other))


def test_sizes_and_dtypes_are_numbers_and_strings() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        rows, columns = K.int_shape(x)
        found: torch.Tensor = x * rows * columns * K.ndim(x)
        return found if K.dtype(x) == "float32" else -found

    x = data(4)[0].detach()
    compiled = torch.compile(scaled, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), x * 24)
    torch.testing.assert_close(compiled(x.double()), x.double() * -24)


def test_settings_are_those_of_the_time_of_compilation() -> None:
    def loss_of_zero(x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = K.binary_crossentropy(torch.ones(1), x)
        return found

    for epsilon in (1e-2, 1e-4):
        K.set_epsilon(epsilon)
        torch._dynamo.reset()
        compiled = torch.compile(loss_of_zero, fullgraph=True, backend="eager")
        assert compiled(torch.zeros(1)).item() == pytest.approx(-np.log(epsilon), rel=1e-3)


def test_random_numbers_without_a_seed_come_from_the_own_generator() -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = K.dropout(K.tanh(x) * 0.0 + 1.0, 0.5) * 3.0
        return found

    x = torch.ones(64)
    compiled = torch.compile(noisy, fullgraph=True, backend="aot_eager")
    first, second = compiled(x), compiled(x)
    assert set(first.unique().tolist()) == {0.0, 6.0}
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    again = compiled(x)
    torch.manual_seed(3)
    torch.testing.assert_close(compiled(x), again)


def test_random_numbers_with_a_seed_are_drawn_beside_the_graph() -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = K.dropout(x, 0.5, seed=3) + 1.0
        return found

    x = torch.ones(64)
    torch.testing.assert_close(torch.compile(noisy, backend="aot_eager")(x), noisy(x))
    torch._dynamo.reset()
    with pytest.raises(Unsupported, match=r"K\.dropout draws random numbers with a seed"):
        torch.compile(noisy, fullgraph=True, backend="aot_eager")(x)


def step(x: Any, states: Any) -> Any:
    new = K.tanh(x + states[0])
    return new, [new]


def test_functions_that_use_nothing_around_them_are_traced() -> None:
    def last(x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = K.rnn(step, x, [x[:, 0] * 0.0])[0]
        return found

    x = torch.randn(2, 5, 3)
    torch.testing.assert_close(torch.compile(last, fullgraph=True, backend="aot_eager")(x), last(x))


def test_functions_that_use_tensors_around_them_run_beside_the_graph() -> None:
    def chosen(x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = K.switch(K.sum(x) > 0, lambda: K.exp(x), lambda: -x) + 1.0
        return found

    x = torch.randn(2, 3)
    compiled = torch.compile(chosen, backend="aot_eager")
    for value in (x.abs(), -x.abs()):
        torch.testing.assert_close(compiled(value), chosen(value))
    torch._dynamo.reset()
    with pytest.raises(Unsupported, match=r"K\.switch: torch\.compile cannot make a function"):
        torch.compile(chosen, fullgraph=True, backend="aot_eager")(x)


def test_errors_are_those_of_the_call() -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = K.dot(x, x)
        return found

    x = torch.randn(2, 3)
    with pytest.raises(ValueError, match=r"^K\.dot: "):
        torch.compile(wrong, backend="eager")(x)
    torch._dynamo.reset()
    with pytest.raises(Unsupported, match=r"K\.dot: .*equal sizes"):
        torch.compile(wrong, fullgraph=True, backend="eager")(x)


def test_a_function_around_a_k_function_is_itself() -> None:
    @functools.wraps(K.tanh)
    def doubled(x: torch.Tensor) -> Any:
        return 2.0 * K.tanh(x)

    x = torch.randn(3)
    compiled = torch.compile(lambda x: doubled(x), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), 2.0 * torch.tanh(x))


def test_pytorch_may_be_imported_after_k() -> None:
    program = """
import sys
from backplane import backend as K
assert "torch" not in sys.modules
import torch
double = torch.compile(lambda x: K.exp(K.log(x) + K.log(2.0 * x)), fullgraph=True, backend="eager")
print(double(torch.tensor([1.0, 2.0])).round().tolist())
"""
    done = waiting.run([sys.executable, "-c", program])
    assert done.stdout == "[2.0, 8.0]\n", done.stderr


BESIDE = {
    "print_tensor": "prints",
    "check_numerics": "looks at the values",
    "native": "calls a function of the caller's",
    "asymmetric_temporal_padding": "warns that it is a function of Keras 1",
    "asymmetric_spatial_2d_padding": "warns that it is a function of Keras 1",
    "deconv2d": "warns that it is a function of Keras 1",
}
"""Functions that do something besides computing, by what."""


def _firsts() -> list[Case]:
    """The first case of each function that native tensors can be passed to."""
    found: dict[str, Case] = {}
    for case in CASES:
        if hasattr(K, case.name) and case.eager and case.name not in BESIDE and not case.needs:
            found.setdefault(case.name, case)
    return list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("case", _firsts(), ids=lambda case: case.name)
def test_all_functions_are_part_of_the_graph(case: Case) -> None:
    K.set_floatx(case.dtypes[0])
    tensors = [torch.from_numpy(np.array(a)) for a in case.arrays(case.dtypes[0])]
    k_function = getattr(K, case.name)

    def function(*given: torch.Tensor) -> Any:
        arguments = _with(case.args, list(given))
        if case.fn is not None:
            return case.fn(K, *arguments, **case.kwargs)
        return k_function(*arguments, **case.kwargs)

    wanted = function(*tensors)
    found = torch.compile(function, fullgraph=True, backend="aot_eager")(*tensors)
    torch.testing.assert_close(found, wanted, equal_nan=True)


def _with(value: Any, tensors: list[torch.Tensor]) -> Any:
    """A nest with tensors in the places of its `Arg`s."""
    if isinstance(value, Arg):
        return tensors.pop(0)
    if isinstance(value, list):
        return [_with(v, tensors) for v in value]
    if isinstance(value, tuple):
        return tuple([_with(v, tensors) for v in value])
    return value
