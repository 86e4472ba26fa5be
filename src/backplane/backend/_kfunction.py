"""The functions that `K.function` returns."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from operator import length_hint
from typing import TYPE_CHECKING, Any

import numpy as np

from backplane.backend._args import as_count, as_flag, as_int
from backplane.backend._errors import described
from backplane.backend._trees import is_nest, matched
from backplane.backend.types import File
from backplane.compile.progress import counted
from backplane.core.tracebacks import boundary, hide

if TYPE_CHECKING:
    from backplane.backend._buckets import Sizes
    from backplane.compile.function import Function
    from backplane.views.profile import Profile
    from backplane.views.words import Text

Given = Callable[[list[np.ndarray]], Any]
"""Makes what a call returns of the list of arrays."""


class KFunction:
    """The function that `K.function` returns. Call it with a list of values, one per input.

    If the function was made with a single input outside of a list, it takes a single value. If it
    was made with a single output outside of a list, it returns a single array. If it was made with
    a dict or nested lists of inputs, it takes values in the same structure; so with outputs.

    Args:
        inputs: List or tuple of values (arrays, numbers, nested lists, tensors of the engine,
            variables and constants), in the order of the function's inputs. None stands for the
            default of the learning phase.

    Returns:
        List of NumPy arrays, one per output (or one array, or what the outputs were given in).

    Raises:
        TypeError: if `inputs` is not a list or tuple, or a value has no numbers of a fitting dtype.
        ValueError: if a value or the number of values does not fit. No variable is changed then.
    """

    # This slot gets the compiled call itself once there is one. Python finds a call of the instance
    # there, with no function of ours in between.
    __slots__ = ("__call__", "__dict__", "__weakref__")
    __signature__ = Signature([Parameter("inputs", Parameter.POSITIONAL_OR_KEYWORD, default=())])
    __call__: Callable[..., Any]

    def __init__(
        self, function: Function, fixed: dict[int, Any], takes: Any, given: Given | None
    ) -> None:
        self._function = function
        self._fixed = fixed
        self._takes = takes
        """The structure of the values that are fed, with the number of axes at each place; None for
        a plain list of values."""
        self._given = given
        """Makes what a call returns of the list of arrays, if that is something else."""
        self.name = function.plan.name
        self.loss_scale = function.plan.loss_scale
        own = weakref.ref(self)  # A strong reference would make a cycle.

        def first(*args: Any, **kwargs: Any) -> Any:
            try:
                return own()._run(*args, **kwargs)  # type: ignore[union-attr]
            except Exception as error:
                hide(error)
                raise

        self.__call__ = first

    def _run(self, *given: Any, **named: Any) -> Any:
        """The call until it is compiled. With single values and fixed numbers, it stays in use."""
        inputs = given[0] if given else named.pop("inputs", ())
        if len(given) > 1 or named:
            form = None if self._takes is None else "f(a)"
            raise self._function.refusal(len(given), named, form)
        outputs = self._function(self._values(inputs))
        if self._takes is not None or self._given is not None or self._fixed:
            return outputs if self._given is None else self._given(outputs)
        if self._function.call is not None:
            self.__call__ = self._function.call
        return outputs

    def _values(self, inputs: Any) -> Any:
        """The values for the compiled function, made from what the caller gives."""
        values = inputs
        if is_nest(self._takes):
            values = matched(self._takes, inputs, f"K.function {self.name!r}: inputs")
        elif self._takes is not None:
            values = inputs if _is_single(inputs, self._takes) else [inputs]
        if self._fixed and isinstance(values, list | tuple):
            values = self._without_fixed(values)
        return values

    @boundary
    def map(
        self, iterable: Iterable[Any], prefetch: int = 2, progress: bool = False
    ) -> Iterator[Any]:
        """Call the function on one item after the other, while a thread reads the next ones.

        The thread takes items from `iterable`, and checks, converts and copies their values. So a
        reader may use its arrays again. Results come in the order of the items. An error in reading
        or converting is raised after the results of the items before it. Nothing runs before the
        first result is asked for, and nothing is left running when the loop over the results ends
        early: it waits for the item that is being read.

        Args:
            iterable: What the function is called with: lists of values, or single values if the
                function was made with a single input outside of a list.
            prefetch: How many items to read before they are needed. With 0 there is no thread.
            progress: Whether to show a bar on stderr, if that is a terminal.

        Returns:
            Iterator of what the calls return.

        Raises:
            TypeError: if `iterable` cannot be iterated over.
            ValueError: if `prefetch` is not a whole number, 0 or more.

        Example:
            >>> from backplane import backend as K
            >>> x = K.placeholder((None,))
            >>> f = K.function([x], [K.sum(x)])
            >>> [y.item() for (y,) in f.map([[i, i]] for i in range(3))]
            [0.0, 2.0, 4.0]
        """
        if type(prefetch) is not int or prefetch < 0:
            raise ValueError(
                f"K.function {self.name!r}: map: prefetch must be a whole number, 0 or more, "
                f"got {prefetch!r}"
            )
        shows = as_flag(progress, f"K.function {self.name!r}: map: progress")
        from backplane.compile.stream import mapped, prepared_for  # Here: few programs read ahead.

        def prepare(item: Any) -> list[Any]:
            return prepared_for(self._function, self._values(item))

        def run(values: list[Any]) -> Any:
            outputs = self._function(values)
            return outputs if self._given is None else self._given(outputs)

        try:
            items = iter(iterable)
        except TypeError:
            raise TypeError(
                f"K.function {self.name!r}: map: iterable must be a list, a generator or "
                f"another iterable of items, got {described(iterable)}"
            ) from None
        total = length_hint(iterable)
        return mapped(items, prepare, run, prefetch, counted(self.name if shows else None, total))

    @boundary
    def in_buckets(
        self, buckets: Sizes | Mapping[int, Sizes], check: bool = True
    ) -> Callable[..., Any]:
        """The function with its feeds padded by zeros to a few sizes, for engines that compile anew
        for each size, such as JAX. Other engines run it on what is fed.

        Results whose axes have the size of an input are cut to what was fed. Whatever else is
        computed must not depend on the padding: sequences need a mask among the inputs, which is
        padded with zeros too. The first call that pads compares all outputs and new values of
        variables with those of the unpadded feeds, and refuses a function that gives others.

        Args:
            buckets: The sizes that axis 1 may have: a list, or a number whose multiples they are.
                For other axes, a dict from axes to sizes. The axis of an input is padded if its
                size is unknown to the placeholder.
            check: Whether to compare. A function with random numbers cannot be compared.

        Returns:
            A callable that takes and returns what this function does.

        Raises:
            ValueError: if a size is no whole number of 1 or more, or no input has an unknown size
                at these axes, or `check` is asked for with random numbers.

        Example:
            >>> from backplane import backend as K
            >>> x, mask = K.placeholder((None, None)), K.placeholder((None, None))
            >>> f = K.function([x, mask], [K.sum(K.exp(x) * mask, axis=1), x * 2])
            >>> sums, twice = f.in_buckets([4, 8])([[[0.0, 0.0, 0.0]], [[1.0, 1.0, 0.0]]])
            >>> sums.tolist(), twice.shape
            ([2.0], (1, 3))
        """
        from backplane.backend._buckets import Bucketed  # Here: few programs pad.

        return Bucketed(self._function, self._values, self._given, buckets, check)

    def __repr__(self) -> str:
        from backplane.views.words import spec_text  # Here: few programs show a function.

        f = self._function.plan
        takes = ", ".join([f"{p.name}: {spec_text(p.spec)}" for p in f.inputs])
        gives = ", ".join([spec_text(t.spec) for t in f.outputs])
        count = len(f.updated)
        updates = f", updates {count} variable{'s' * (count != 1)}" if count else ""
        return f"<K.function {self.name!r} ({takes}) -> ({gives}){updates}, on {f.engine.name}>"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def summary(self, unknown: int = 1) -> Text:
        """The inputs, outputs, variables and cost of the function, as a text.

        Args:
            unknown: What an unknown size counts as in the estimates of memory and work.

        Returns:
            A string. Consoles and notebooks show it as it is.

        Example:
            >>> from backplane import backend as K
            >>> x, w = K.placeholder((None, 3), name="x"), K.variable([[1.0], [2.0], [3.0]])
            >>> "3 in 1 variables" in K.function([x], [K.dot(x, w)]).summary()
            True
        """
        from backplane.views.summary import summary  # Here: it needs rich.

        what = f"K.function {self.name!r}: summary: unknown"
        return summary(self._function.plan, as_count(unknown, what))

    def source(self, learning_phase: int = 0) -> Text:
        """The program that is emitted for the engine. Behind each line that runs a primitive stand
        the dtype and shape of its result, and the user's line that built it. The bodies of loops
        and branches follow.

        Args:
            learning_phase: 0 (test) or 1 (train), for a function with the learning phase among its
                inputs.

        Returns:
            A string. Consoles and notebooks show it as it is.

        Example:
            >>> from backplane import backend as K
            >>> x = K.placeholder((None, 3), name="x")
            >>> "t1 = tanh(a0)" in K.function([x], [K.tanh(x)]).source()
            True
        """
        from backplane.views.listing import source

        return source(self._function, [learning_phase] * len(self._function.plan.switches))

    @boundary
    def profile(self, *feeds: Any, repeat: int = 5) -> Profile:
        """Measure the time and the memory of each op, each line of the user's code, and each name
        scope.

        The ops run one by one, as they are after the passes, loops in Python. An engine that fuses
        ops, or computes them in blocks, is quicker in a call, whose time stands beside. Variables
        and random numbers are afterwards as they were before.

        Args:
            *feeds: One value for each input.
            repeat: How often to run, after a first time that does not count.

        Returns:
            An object that prints as tables. Its method `flame` writes a flame graph, `trace` a file
            for the usual viewers of traces, and `by` returns the numbers.

        Raises:
            ValueError: if a value, or the number of values, does not fit, or `repeat` is below 1.

        Example:
            >>> from backplane import backend as K
            >>> x = K.placeholder((None, 3))
            >>> profile = K.function([x], [K.sum(K.tanh(x))]).profile([[1.0, 2.0, 3.0]])
            >>> sorted(row[0] for row in profile.by("op"))
            ['sum', 'tanh']
        """
        from backplane.views.profile import profile

        values = self._function.checked_count(list(feeds))
        what = f"K.function {self.name!r}: profile: repeat"
        if as_count(repeat, what) == 0:
            raise ValueError(f"{what} must be 1 or more, got {repeat}")
        return profile(self._function, values, repeat)

    @boundary
    def to_onnx(
        self,
        path: File,
        outputs: Sequence[str] | None = None,
        learning_phase: int = 0,
        *,
        inputs: Sequence[str] | None = None,
        freeze: bool = False,
        opset: int | None = None,
    ) -> None:
        """Write the function as an ONNX model, which ONNX Runtime runs without Backplane.

        The model's inputs have the names of the placeholders. Variables, and the keys of random
        numbers, are further inputs. The file stores their present values, so they need not be fed.
        The new value of a variable is an output with the variable's name and `.new` behind it; feed
        it back in the next call. The model is checked before it is written.

        Args:
            path: File to write. By custom its name ends in `.onnx`.
            outputs: Names for the outputs. By default they are those that `K.identity(y, name)`
                gave, else `output_0`, `output_1`, …
            learning_phase: 0 (test) or 1 (train), for a function with the learning phase among its
                inputs. The phase is not an input of the model.
            inputs: Names for the inputs, in the order of the function's inputs without the
                learning phase. By default they are those that `K.placeholder(name=…)` was given.
            freeze: Whether variables that the function does not update are constants of the model,
                which ONNX Runtime optimizes, in the place of inputs with a value.
            opset: Version of ONNX's operators; by default the one that the engine `cntk` uses.

        Raises:
            ImportError: if onnx and onnxruntime are not installed.
            ValueError: if `inputs` or `outputs` does not hold one name for each, all different, or
                if the function cannot be written in that `opset`.

        Example:
            >>> import os, tempfile, onnxruntime
            >>> from backplane import backend as K
            >>> x, w = K.placeholder((None, 2), name="x"), K.variable([3.0, 4.0], name="w")
            >>> f = K.function([x], [K.sum(x * w)], updates=[K.update_add(w, [1.0, 1.0])])
            >>> path = os.path.join(tempfile.mkdtemp(), "f.onnx")
            >>> f.to_onnx(path, outputs=["y"])
            >>> session = onnxruntime.InferenceSession(path)
            >>> feed = {"x": [[1.0, 1.0]]}
            >>> y, w = session.run(["y", "w.new"], feed)
            >>> y, session.run(["y"], {**feed, "w": w})[0]
            (array(7., dtype=float32), array(9., dtype=float32))
        """
        # Here, not above: few programs write models.
        from backplane.compile.export import Wishes, export

        what = f"K.function {self.name!r}: to_onnx"
        frozen = as_flag(freeze, f"{what}: freeze")
        version = None if opset is None else as_int(opset, f"{what}: opset")
        wishes = Wishes(outputs, learning_phase, inputs, frozen, version)
        export(self._function.plan, path, wishes)

    def _without_fixed(self, inputs: Sequence[Any]) -> list[Any]:
        """Drop the values for inputs that are numbers, such as a fixed learning phase."""
        for i, number in self._fixed.items():
            if i < len(inputs) and inputs[i] != number:
                raise ValueError(
                    f"K.function {self.name!r}: input {i} was fixed to {number!r} when the "
                    f"function was made (K.set_learning_phase), got {inputs[i]!r}"
                )
        return [v for i, v in enumerate(inputs) if i not in self._fixed]


def _is_single(inputs: Any, ndim: int) -> bool:
    """Whether `inputs` is a list with the one value, of `ndim` axes, and not that value itself."""
    return (
        isinstance(inputs, list | tuple)
        and len(inputs) == 1
        and (isinstance(inputs[0], np.ndarray | list | tuple) or not ndim)
    )
