"""A whole training step as one ONNX graph, gradients made by hand, its state bound in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from benchmarks.problem import Optimizer, Run, Training

OPSET = 21


class Graph:
    """Nodes of an ONNX graph; a value is its name."""

    def __init__(self, prefix: str = "v") -> None:
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.names = 0

    def name(self) -> str:
        """A new name."""
        self.names += 1
        return f"{self.prefix}{self.names}"

    def constant(self, value: Any, dtype: str = "float32") -> str:
        """A constant."""
        name = self.name()
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def op(self, kind: str, *inputs: str, results: int = 1, **attributes: Any) -> Any:
        """A node; its result, or a tuple of several."""
        names = [self.name() for _ in range(results)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if results == 1 else tuple(names)

    def sum(self, x: str, *axes: int, keep: bool = False) -> str:
        """Sum over axes."""
        return self.op("ReduceSum", x, self.constant(axes, "int64"), keepdims=int(keep))

    def maximum(self, x: str, axis: int) -> str:
        """Maximum along an axis, which stays with one element."""
        return self.op("ReduceMax", x, self.constant([axis], "int64"), keepdims=1)

    def reshape(self, x: str, *shape: int) -> str:
        """Another shape."""
        return self.op("Reshape", x, self.constant(shape, "int64"))

    def slice(self, x: str, axis: int, start: int, stop: int) -> str:
        """A part of an axis."""
        return self.op("Slice", x, *(self.constant([n], "int64") for n in (start, stop, axis)))

    def scan(
        self, body: Callable[..., Any], states: list[str], rows: list[str], backwards: bool = False
    ) -> tuple[str, ...]:
        """A loop over the first axis of `rows`. `body(graph, *states, *rows)` gives the names of
        the new states and of what is stacked; so does this.
        """
        inner = Graph(self.name() + "_")
        names = [inner.name() for _ in (*states, *rows)]
        news, stacked = body(inner, *names)
        ends = [inner.op("Identity", n) for n in news] + stacked
        graph = helper.make_graph(
            inner.nodes,
            "body",
            [_unknown(n) for n in names],
            [_unknown(n) for n in ends],
            inner.constants,
        )
        return self.op(
            "Scan",
            *states,
            *rows,
            results=len(ends),
            body=graph,
            num_scan_inputs=len(rows),
            scan_input_directions=[int(backwards)] * len(rows),
            scan_output_directions=[int(backwards)] * len(stacked),
        )

    def session(self, inputs: list[Any], outputs: dict[str, Any]) -> ort.InferenceSession:
        """Compile. `inputs`: value infos; `outputs`: name in the graph → (name, value type)."""
        for node in self.nodes:  # given names themselves: an Identity would copy
            for names in (node.input, node.output):
                names[:] = [outputs[n].name if n in outputs else n for n in names]
        graph = helper.make_graph(
            self.nodes, "step", inputs, list(outputs.values()), self.constants
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 10
        onnx.checker.check_model(model)
        return session(model)


def session(model: Any) -> ort.InferenceSession:
    """A session with one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_mem_pattern = False  # half the memory, in the same time
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def info(name: str, array: np.ndarray) -> Any:
    """The declaration of an input or output like `array`."""
    kind = TensorProto.FLOAT if array.dtype == np.float32 else TensorProto.INT32
    return helper.make_tensor_value_info(name, kind, array.shape)


def _unknown(name: str) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def _updates(
    g: Graph, opt: Optimizer, weights: list[str], state: list[str], gradients: list[str]
) -> tuple[list[str], list[str]]:
    """New weights and new state."""
    c, op = g.constant, g.op
    if not opt.adam:
        steps = [op("Mul", d, c(opt.rate)) for d in gradients]
        if not opt.momentum:
            return [op("Sub", w, s) for w, s in zip(weights, steps, strict=True)], []
        moved = [
            op("Sub", op("Mul", v, c(opt.momentum)), s) for v, s in zip(state, steps, strict=True)
        ]
        return [op("Add", w, v) for w, v in zip(weights, moved, strict=True)], moved
    t = op("Add", state[0], c(1))
    powers = [op("Sub", c(1), op("Pow", c(b), t)) for b in (opt.beta1, opt.beta2)]
    rate = op("Mul", c(opt.rate), op("Div", op("Sqrt", powers[1]), powers[0]))
    news, states = [], [t]
    for w, m, v, d in zip(weights, state[1::2], state[2::2], gradients, strict=True):
        new_m = op("Add", op("Mul", m, c(opt.beta1)), op("Mul", d, c(1 - opt.beta1)))
        square = op("Mul", op("Mul", d, d), c(1 - opt.beta2))
        new_v = op("Add", op("Mul", v, c(opt.beta2)), square)
        below = op("Add", op("Sqrt", new_v), c(opt.epsilon))
        news.append(op("Sub", w, op("Div", op("Mul", rate, new_m), below)))
        states += [new_m, new_v]
    return news, states


Loss = Callable[[Graph, list[str], str, str, Training], tuple[str, list[str]]]
"""Writes forward and backward pass; gives the loss and the gradients."""


def train(problem: Training, loss_of: Loss) -> Run:
    """State in, state out; two sets of buffers are bound that take turns, so nothing is copied."""
    opt = problem.optimizer
    zeros = [np.zeros_like(p) for p in problem.parameters]
    pairs = [z for z in zeros for _ in range(2)]
    extra = [np.zeros((), "float32"), *pairs] if opt.adam else zeros if opt.momentum else []
    initial = [*problem.parameters, *extra]
    g = Graph()
    names = [f"s{i}" for i in range(len(initial))]
    count = len(problem.parameters)
    weights, state = names[:count], names[count:]
    loss, gradients = loss_of(g, weights, "x", "y", problem)
    news = [n for part in _updates(g, opt, weights, state, gradients) for n in part]
    inputs = [info("x", problem.x), info("y", problem.y)]
    inputs += [info(n, a) for n, a in zip(names, initial, strict=True)]
    outputs = {loss: helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])}
    outputs |= {new: info(f"new_{n}", a) for n, new, a in zip(names, news, initial, strict=True)}
    run = g.session(inputs, outputs)
    return _bound(run, problem, names, initial)


def _bound(
    run: ort.InferenceSession, problem: Training, names: list[str], initial: list[np.ndarray]
) -> Run:
    sets = [[ort.OrtValue.ortvalue_from_numpy(a.copy()) for a in initial] for _ in range(2)]
    result = ort.OrtValue.ortvalue_from_numpy(np.zeros((), "float32"))
    bindings = []
    for source, target in (sets, sets[::-1]):
        binding = run.io_binding()
        for name, a, b in zip(names, source, target, strict=True):
            binding.bind_ortvalue_input(name, a)
            binding.bind_ortvalue_output(f"new_{name}", b)
        binding.bind_ortvalue_output("loss", result)
        bindings.append(binding)
    turn = [0]

    def call() -> float:
        binding = bindings[turn[0]]
        turn[0] ^= 1
        binding.bind_cpu_input("x", problem.x)
        binding.bind_cpu_input("y", problem.y)
        run.run_with_iobinding(binding)
        return float(result.numpy())

    def reset() -> None:
        turn[0] = 0
        for value, a in zip(sets[0], initial, strict=True):
            value.update_inplace(a)

    return Run(call, (), reset)
