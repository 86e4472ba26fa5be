"""Evaluating, differentiating and compiling graphs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, ValuesView
from inspect import Parameter, Signature, signature
from operator import length_hint
from typing import TYPE_CHECKING, Any

import numpy as np

from backplane import engines
from backplane.backend._adapters import LIFT, adaptable, adapter_among
from backplane.backend._args import as_count
from backplane.backend._call import api
from backplane.backend._errors import described, explained, unknown_keywords
from backplane.backend._function_arguments import NO_GRADIENT, as_input, as_output, as_updates
from backplane.backend._trees import as_list, as_pairs, flatten
from backplane.backend.devices import policy_of
from backplane.backend.types import DType, File, LossScale, TensorLike
from backplane.compile.feeds import check_has_value
from backplane.compile.progress import counted
from backplane.core.context import WATCHING, watcher
from backplane.core.graph import OPERATORS, Constant, Tensor
from backplane.core.variable import Variable
from backplane.engines import engine_of
from backplane.engines.base import Engine
from backplane.ops import autodiff, effects
from backplane.ops.lift import as_tensor

if TYPE_CHECKING:
    from backplane.backend._buckets import Sizes
    from backplane.compile.function import Function
    from backplane.views.profile import Profile
    from backplane.views.words import Text

__all__ = ["eval", "function", "gradients", "stop_gradient"]


class KFunction:
    """What `K.function` returns. Call it with a list of values, one per input.

    If the function was made with a single input outside of a list, it takes a single value. If it
    was made with a single output outside of a list, it returns a single array.

    Args:
        inputs: List or tuple of values (arrays, numbers, nested lists, tensors of the engine), in
            the order of the function's inputs.

    Returns:
        List of NumPy arrays, one per output (or one array).

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
        self, function: Function, fixed: dict[int, Any], one_in: bool, one_out: bool
    ) -> None:
        self._function = function
        self._fixed = fixed
        self._one_in = one_in
        self._one_out = one_out
        self.name = function.name
        self.loss_scale = function.loss_scale
        own = weakref.ref(self)  # A strong reference would make a cycle.
        self.__call__ = lambda *args, **kwargs: own()._run(*args, **kwargs)  # type: ignore[union-attr]

    def _run(self, *given: Any, **named: Any) -> Any:
        """The call until it is compiled. With single values and fixed numbers, it stays in use."""
        inputs = given[0] if given else named.pop("inputs", ())
        if len(given) > 1 or named:
            form = "f(a)" if self._one_in else None
            raise self._function.refusal(len(given), named, form)
        outputs = self._function(self._values(inputs))
        if self._one_in or self._one_out or self._fixed:
            return outputs[0] if self._one_out else outputs
        if self._function.call is not None:
            self.__call__ = self._function.call
        return outputs

    def _values(self, inputs: Any) -> Any:
        """The values for the compiled function, made from what the caller gives."""
        single = self._one_in and not (isinstance(inputs, list | tuple) and _is_single(inputs))
        values = [inputs] if single else inputs
        if self._fixed and isinstance(values, list | tuple):
            values = self._without_fixed(values)
        return values

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
        from backplane.compile.stream import mapped, prepared_for  # Here: few programs read ahead.

        def prepare(item: Any) -> list[Any]:
            return prepared_for(self._function, self._values(item))

        def run(values: list[Any]) -> Any:
            outputs = self._function(values)
            return outputs[0] if self._one_out else outputs

        items = iter(iterable)
        total = length_hint(iterable)
        return mapped(
            items, prepare, run, prefetch, counted(self.name if progress else None, total)
        )

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
            ValueError: if the sizes are no whole numbers from 1 on, or no input has an unknown size
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

        return Bucketed(self._function, self._values, self._one_out, buckets, check)

    def __repr__(self) -> str:
        from backplane.views.words import spec_text  # Here: few programs show a function.

        f = self._function
        takes = ", ".join([f"{p.name}: {spec_text(p.spec)}" for p in f.inputs])
        gives = ", ".join([spec_text(t.spec) for t in f.outputs])
        count = len(f.updated)
        updates = f", updates {count} variable{'s' * (count != 1)}" if count else ""
        return f"<K.function {self.name!r} ({takes}) -> ({gives}){updates}, on {f.engine.name}>"

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def summary(self, unknown: int = 1) -> Text:
        """What the function takes, gives, keeps and costs, as a text.

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
        return summary(self._function, as_count(unknown, what))

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

        return source(self._function, [learning_phase] * len(self._function.switches))

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

        wishes = Wishes(outputs, learning_phase, inputs, freeze, opset)
        export(self._function, path, wishes)

    def _without_fixed(self, inputs: Sequence[Any]) -> list[Any]:
        """Drop the values for inputs that are numbers, such as a learning phase that is set for
        good.
        """
        for i, number in self._fixed.items():
            if i < len(inputs) and inputs[i] != number:
                raise ValueError(
                    f"K.function {self.name!r}: input {i} was fixed to {number!r} when the "
                    f"function was made (K.set_learning_phase), got {inputs[i]!r}"
                )
        return [v for i, v in enumerate(inputs) if i not in self._fixed]


def _is_single(inputs: Sequence[Any]) -> bool:
    return len(inputs) == 1 and isinstance(inputs[0], np.ndarray | list | tuple)


@adaptable
def function(
    inputs: TensorLike | Sequence[TensorLike],
    outputs: TensorLike | Iterable[TensorLike | None],
    updates: Iterable[Any] | None = None,
    name: str | None = None,
    precision: DType | None = None,
    loss_scale: LossScale = None,
    accumulate: int = 1,
    **kwargs: Any,
) -> KFunction:
    """Compile a function from tensors to NumPy arrays, with updates of variables.

    All outputs and all updates are computed from the values that the variables had before. Then all
    updates are written. If anything fails, none is.

    Args:
        inputs: Placeholder or list of placeholders. Any other tensor may be an input too; what is
            fed takes the place of its value.
        outputs: Tensor or list of tensors.
        updates: List of what `K.update` and its kin return, or of pairs `(variable, new_value)`.
        name: Name for error messages.
        precision: `"bfloat16"` or `"float16"`: what `K.mixed_precision` does, for this function.
        loss_scale: As for `K.mixed_precision`. The variable that holds the scale is the function's
            attribute `loss_scale`.
        accumulate: Into how many parts to split the batch: the first axis of what is fed for
            placeholders whose first size is unknown. The parts are computed one after the other,
            so that less memory is needed. Gradients of variables are averaged over the parts, and
            what is computed from them runs once. Updates that read the batch itself, such as moving
            averages, run once for each part. Outputs that are scalars are averaged, and those that
            have one row for each row of the batch are joined. For a loss that is a mean over the
            rows nothing else changes.
        **kwargs: `compile` asks the engine for a compiler that it does not use by itself:
            `torch.compile` on torch (True, a mode, or a dict of its arguments), `mx.compile` on
            mlx, PyTensor's own mode on theano, and XLA for the whole program on tensorflow. Other
            engines ignore it. `freeze=False` keeps ONNX Runtime from making constants of variables
            that stay the same (docs/onnx.md). Classic Keras passed further arguments to
            `Session.run`. Here they are refused.

    Returns:
        A callable that takes a list of values and returns a list of NumPy arrays.

    Raises:
        ValueError: for unknown keyword arguments, if a placeholder is needed but not an input, or
            if the batch cannot be split.
        NotImplementedError: if the engine does not have the dtype of `precision`.
        TypeError: for inputs, outputs or updates that are not tensors.

    Example:
        >>> from backplane import backend as K
        >>> x, w = K.placeholder(shape=(None, 2)), K.variable([1.0, 2.0])
        >>> f = K.function([x], [K.sum(x * w, axis=1)], updates=[K.update_add(w, [1.0, 1.0])])
        >>> f([[[1.0, 1.0]]])
        [array([3.], dtype=float32)]
        >>> f([[[1.0, 1.0]]])
        [array([5.], dtype=float32)]
    """
    options = tuple(sorted((k, as_pairs(kwargs.pop(k))) for k in list(kwargs) if k in OPTIONS))
    if kwargs:
        known = [*list(signature(function).parameters)[:-1], *OPTIONS]
        raise ValueError(
            f"K.function: {unknown_keywords(sorted(kwargs), known)}. "
            "There is no Session.run to pass others to"
        )
    one_in = not isinstance(inputs, list | tuple)
    one_out = not isinstance(outputs, list | tuple | ValuesView)
    given = as_list(inputs)
    fixed = {i: t for i, t in enumerate(given) if isinstance(t, bool | int) and t in (0, 1)}
    tensors = [as_input(t, i) for i, t in enumerate(given) if i not in fixed]
    if len(set(tensors)) != len(tensors):
        raise ValueError("K.function: inputs has the same tensor twice")
    results = [as_output(t, i) for i, t in enumerate(as_list(outputs))]
    pairs = as_updates(updates)
    made = _compiler()(
        tensors,
        results,
        pairs,
        engine=engines.for_programs(),
        name=name,
        options=options,
        policy=policy_of(precision, loss_scale, accumulate),
    )
    return KFunction(made, fixed, one_in, one_out)


OPTIONS = ("compile", "freeze")
"""Keyword options of `K.function` that are handed to the engine."""


@adaptable
def gradients(
    loss: Tensor | Sequence[Tensor], variables: Tensor | Sequence[Tensor]
) -> list[Tensor | None]:
    """Gradients of `loss` with respect to tensors.

    Args:
        loss: Tensor or list of tensors. The elements of a tensor that is not a scalar are summed.
        variables: Tensor or list of tensors: variables, placeholders, or any tensors in between.

    Returns:
        List of tensors with the shapes of `variables`. An entry is None if `loss` does not depend
        on that tensor through differentiable functions. For a single tensor the result is a list
        too, as in classic Keras. The results are tensors like any others and can be differentiated
        again.

    Raises:
        TypeError: if `loss` or one of `variables` is not a symbolic tensor.

    Example:
        >>> from backplane import backend as K
        >>> x = K.variable([1.0, 2.0, 3.0])
        >>> (g,) = K.gradients(K.sum(x * x), [x])
        >>> K.eval(g)
        array([2., 4., 6.], dtype=float32)
    """
    losses, wrt = list(map(LIFT[0], as_list(loss))), as_list(variables)
    for what, listed in (("loss", losses), ("variables", wrt)):
        for t in listed:
            if not isinstance(t, Tensor):
                raise TypeError(
                    f"K.gradients: {what} must be symbolic tensors, got {type(t).__name__}; for "
                    "native tensors use their engine's own gradients"
                )
    return autodiff.gradients(losses, wrt)


@api
def stop_gradient(variables: TensorLike | Sequence[TensorLike]) -> Any:
    """Tensors with the same values, through which no gradient flows.

    Args:
        variables: Tensor or list of tensors.

    Returns:
        A tensor or a list of tensors.

    Example:
        >>> from backplane import backend as K
        >>> x = K.variable(3.0)
        >>> K.eval(K.gradients(x * K.stop_gradient(x), [x])[0]).item()
        3.0
    """
    if isinstance(variables, list | tuple):
        return type(variables)(effects.stop_gradient(as_tensor(v)) for v in variables)
    return effects.stop_gradient(as_tensor(variables))


def eval(x: TensorLike) -> np.ndarray:
    """The value of a tensor or variable as a NumPy array.

    Args:
        x: Variable, engine tensor, array, or a tensor that depends on no placeholder. The learning
            phase counts as 0.

    Raises:
        ValueError: if `x` depends on a placeholder.

    Example:
        >>> from backplane import backend as K
        >>> K.eval(K.variable([[1, 2], [3, 4]], dtype="float32"))
        array([[1., 2.],
               [3., 4.]], dtype=float32)
    """
    # A tensor that was computed before keeps its call, which needs no function of ours around it.
    if isinstance(x, Tensor) and not (WATCHING and watcher() is not None):
        calls: dict[Engine, Call] | None = x.__dict__.get(CALLS)
        if calls is not None and (call := calls.get(engines.for_programs())) is not None:
            return call([])[0]
    return _eval(x)


def _eval_anything(x: TensorLike) -> np.ndarray:
    # The same as `adaptable` does, but our own tensors take a short cut.
    adapter = None if isinstance(x, Tensor) else adapter_among((x,))
    return evaluate(x) if adapter is None else adapter.call(eval, (x,), {})


_eval_anything.__name__ = "eval"  # Errors name it.
_eval = explained(_eval_anything)

Call = Callable[[list[Any]], list[np.ndarray]]


def evaluate(x: Any, feed: dict[Tensor, Any] | None = None) -> np.ndarray:
    """Compute a tensor as `K.eval` does, with values for placeholders."""
    if not isinstance(x, Tensor):
        owner = engine_of(x)
        if owner is None:
            return _array(x)
        check_has_value(x, owner, "K.eval")
        return np.asarray(owner.to_numpy(x))
    engine = engines.for_programs()
    if feed or (WATCHING and watcher() is not None):
        feed = feed or {}
        return _once(list(feed), x, engine)(list(feed.values()))[0]
    if isinstance(x, Variable):
        return x.numpy()
    if isinstance(x, Constant) and isinstance(x.value, np.ndarray):
        return np.array(x.value)
    call = _once([], x, engine).without_graph()
    x.__dict__.setdefault(CALLS, {})[engine] = call
    return call([])[0]


def _array(x: Any) -> np.ndarray:
    """What is neither a tensor nor native, as an array.

    Raises:
        TypeError: if it holds no numbers, or several tensors.
    """
    if isinstance(x, list | tuple | dict) and any(isinstance(t, Tensor) for t in flatten(x)):
        raise TypeError(
            f"x must be one tensor, got {described(x)}; K.function([], tensors)([]) computes "
            "several at once, and K.batch_get_value(variables) reads several variables"
        )
    array = np.asarray(x)
    if array.dtype.kind in "OSU":
        given = NO_GRADIENT if x is None else described(x)
        raise TypeError(f"x must be a tensor, an array or numbers, got {given}")
    return array


def _compiler() -> type[Function]:
    """The class of compiled functions. The compiler is imported when there is something to compile:
    it is a fourth of what K is.
    """
    from backplane.compile.function import Function

    return Function


def _once(inputs: list[Tensor], x: Tensor, engine: Engine) -> Function:
    """The function that computes `x`, most likely a few times only."""
    options = (("once", True),) if "once" in engine.capabilities else ()
    return _compiler()(inputs, [x], engine=engine, name="eval", options=options)


eval.__qualname__ = "K.eval"  # Python's own error for too many arguments begins with this name.

CALLS = "_calls"
"""Where a tensor keeps what computes it, by engine, from its first evaluation on."""


def _eval_method(x: Tensor, session: Any, feed_dict: Any) -> Any:
    return evaluate(x, feed_dict) if feed_dict else eval(x)


OPERATORS["eval"] = _eval_method
