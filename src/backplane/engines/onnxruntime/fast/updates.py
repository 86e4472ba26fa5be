"""Steps of optimizers in the memory of the variables.

A session writes to nothing that it is fed: a step would write all weights anew, and a whole table
for some of its rows. So the session computes gradients, and NumPy does the step in calls that run
when the session has succeeded and nothing else can fail. Only arrays that a step has made are
written to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from backplane.core.spec import Spec
from backplane.engines.arrays.fast import updates
from backplane.engines.formulas import counts
from backplane.engines.onnxruntime.builder import Symbol
from backplane.engines.programs import Program
from backplane.engines.table import Table, Value, element_count

TABLE = Table()

Call = Callable[..., tuple[Value, ...]]
T = TypeVar("T")

LARGE = 1 << 18
"""Elements of all variables together from which on a step writes to them. A batch that reads 256
rows of 32 numbers takes 0.15 ms of 0.08 for a table of 1,000 rows, 0.17 of 0.48 for 10,000 and 0.26
of 6.9 for 100,000. Where a batch reads 8,192 rows of 30,000, both take 2.4 ms."""
MEAN = 1 << 15
"""Elements of a variable on average from which on NumPy's calls are worth it. With 150,000 a
training step of a ResNet-50 takes 0.91 of the time, and with 63,000 one of a VAE 0.83. With 10,000
to 16,000 those of a U-Net and a GPT take 1.00, and one of MobileNetV2 1.07."""

ROWS = 1 << 13
"""Rows of a table from which on a step writes those that were read: a session takes some 10 ns for
each row of the table. A batch that reads 256 rows takes 41 µs of 360 for 33,000 rows of one number,
54 of 67 for 8,300 rows of 16 and 54 of 43 for 4,200."""


class Step(NamedTuple):
    """A step of an optimizer."""

    news: list[Symbol]
    """Stand for the variables after the step."""
    function: Callable[..., updates.Later]
    operands: tuple[Symbol, ...]
    """The inputs of the function."""


FUNCTIONS = {**updates.TABLE, **updates.LARGE}


def _variables(name: str, operands: Sequence[T]) -> Sequence[T]:
    """The operands of a step that it replaces."""
    if name == "rows_update":
        return operands[1:2]
    if name == "rows_write":
        return operands[: len(operands) // 3]
    numbers, replaces = counts(name)
    count = (len(operands) - numbers) // (replaces + 1)
    return operands[numbers : numbers + replaces * count]


def _is_small(name: str, specs: Sequence[Spec], **params: bool) -> bool:
    variables = _variables(name, specs)
    if name.startswith("rows_") and max((spec.shape[0] or 0) for spec in variables) >= ROWS:
        return False
    total = sum(map(element_count, variables))
    return total < LARGE or total < MEAN * len(variables)


def _later(name: str, *operands: Symbol, **params: bool) -> tuple[list[Symbol], list[Step]]:
    """The lowering of a step, which is done when the session has run."""
    news = [Symbol("", x.dtype, x.shape) for x in _variables(name, operands)]
    return news, [Step(news, partial(FUNCTIONS[name].function, **params), operands)]


for _name in FUNCTIONS:
    TABLE.add(_name, unless=partial(_is_small, _name))(partial(_later, _name))


class Placed(NamedTuple):
    """A step, by positions."""

    function: Callable[..., updates.Later]
    operands: list[int | None]
    """Among the inputs of the program; None for what the session computes."""
    outputs: list[int | None]
    """Of the new values among the results; None for what nobody reads."""


class Parts(NamedTuple):
    """A program as a session, and the steps that are done after it."""

    results: list[Symbol]
    """The outputs of the session: the program's results but for those of steps, then the operands
    of steps that are no inputs."""
    specs: list[Spec]
    steps: list[Placed]


def parts_of(given: Sequence[Symbol], results: Sequence[Any], program: Program) -> Parts:
    """Of a program's inputs and results; the last part is a list of steps, if there are any."""
    count = len(program.outputs)
    plain = dict(enumerate(results[:count]))
    places = {id(x): o for o, x in plain.items()}
    inputs = {x.name: i for i, x in enumerate(given)}
    steps, computed = [], list[Symbol]()
    for step in [step for listed in results[count:] for step in listed]:
        outputs = [places.get(id(x)) for x in step.news]
        operands = [inputs.get(x.name) for x in step.operands]
        steps.append(Placed(step.function, operands, outputs))
        computed += [x for x, i in zip(step.operands, operands, strict=True) if i is None]
        for o in outputs:
            plain.pop(-1 if o is None else o, None)
    specs = [program.outputs[o] for o in plain]
    specs += [Spec(x.shape or (), x.dtype) for x in computed]
    return Parts([*plain.values(), *computed], specs, steps)


def stepping(call: Call, steps: Sequence[Placed], count: int) -> Call:
    """`call`, which returns `count` results of the session, and the calls of the steps."""

    def run(*inputs: Value) -> tuple[Value, ...]:
        results = list(call(*inputs))
        plain, computed = results[:count], iter(results[count:])
        calls: list[Any] = []
        news: dict[int, Value] = {}
        for step in steps:
            operands = [next(computed) if i is None else inputs[i] for i in step.operands]
            arrays, more = step.function(*operands)
            # A session of another function may have taken a variable for a constant, which it
            # knows by the array's identity (`frozen.py`).
            pairs = zip(step.outputs, arrays, strict=True)
            news.update({o: updates.renamed(x) for o, x in pairs if o is not None})
            calls += more
        for o in sorted(news):
            plain.insert(o, news[o])
        return (*plain, calls)

    return run if steps else call
