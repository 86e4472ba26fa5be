"""The passes over a graph before code generation, in their order. Programs, bodies of loops and
exported models go through the same list.

Each row says what a pass is for, what it gains, and for which programs it runs. Results are the
same without it. Programs that are compiled inside `with without("hoist"):` go without that pass, so
that it can be measured and tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

from backplane.compile.fuse.groups import groups_in
from backplane.compile.fuse.rows import add_rows
from backplane.compile.fuse.scales import with_scales
from backplane.compile.fuse.updates import find_updates, keep_to_rows
from backplane.compile.passes.hoist import hoist
from backplane.compile.passes.hold import hold
from backplane.compile.passes.join_groups import join_groups, join_normalizations, join_products
from backplane.compile.passes.join_loops import join_loops
from backplane.compile.passes.loop_body import Joining
from backplane.compile.passes.lower import LOOPS, lower, write_out
from backplane.compile.passes.peephole import peephole, peephole_lowered
from backplane.compile.passes.prune import prune
from backplane.compile.passes.simplify import simplify
from backplane.core.context import assigned
from backplane.core.graph import Tensor, rebuild, rewrite, substitute, toposort
from backplane.core.primitive import OUTPUT, Primitive
from backplane.engines import kernels
from backplane.engines.base import Engine
from backplane.engines.table import NOTHING
from backplane.ops.autodiff import Group
from backplane.ops.control import scan_
from backplane.ops.elementwise import erf, pow, sigmoid, sqrt, tanh
from backplane.ops.indexing import pad, scatter_add
from backplane.ops.pooling import max_pool_grad
from backplane.ops.rectifiers import clipped_relu

Outputs = Sequence[Tensor]


USUAL_ROWS = 32
"""The size of a batch of which nothing is known."""


class Job(NamedTuple):
    """The purpose for which a graph is compiled."""

    engine: Engine
    replace: Mapping[Tensor, Tensor] = NOTHING
    """Leaves to be replaced: the learning phase by a number, a key by its row among all keys."""
    keep_stops: bool = False
    """Whether `stop_gradient` is kept, for an engine's own tape."""
    loops: bool = False
    """Whether primitives that stand for loops are written out, for the library's own compiler."""
    state: Mapping[Tensor, int] = NOTHING
    """From variables whose memory may be written over to the positions of their new values among
    the outputs."""
    news: Mapping[Tensor, int] = NOTHING
    """The same for all variables that the program replaces."""
    rows: int = USUAL_ROWS
    """As so many rows counts an unknown number of them."""


class Pass(NamedTuple):
    """One row of the list."""

    name: str
    run: Callable[[Outputs, Job], list[Tensor]] | None
    """None if the work is done elsewhere: by `compile.sparse` before the passes, by
    `compile.codegen` while it writes the text, or by the engine when a function has been called
    some times."""
    purpose: str
    gain: str
    """The gain that was measured."""
    holds: frozenset[Primitive[Any]] = frozenset()
    """Without any of these primitives there is nothing to do."""
    when: Callable[[Job], bool] = lambda job: True
    """For which programs it pays."""
    optional: bool = True
    """Whether it can be switched off."""
    lowered: Callable[[Outputs, Job], list[Tensor]] | None = None
    """Its part for the graph in the primitives of the engine. These run after all others, also in
    the order of the list."""


def _joining(outputs: Outputs, job: Job) -> Joining:
    """On a mesh, products in the steps of a gradient would be added up over the devices in each.

    Where the compiler joins a step's product with what follows it, steps that read rows of stacks
    are slower, unless a gradient needs these stacks anyway: an LSTM's prediction takes 1.5 times as
    long on JAX. What a prediction computes after its loops has no such price.
    """
    engine = job.engine
    if engine.mesh is not None:
        return Joining(lambda rows: True, rows_first=True)
    pays = partial(_few_rows, kernels.engines_limit(engine.name, "loops"), job.rows)
    sums = partial(_few_operands, kernels.engines_limit(engine.name, "sums"), job.rows)
    lines = [t.where for t in toposort(outputs) if t.where is not None]
    predicts = not job.keep_stops and not any(line.gradient for line in lines)
    stays = predicts and "fuses" in engine.capabilities
    return Joining(pays, before=(lambda rows: False) if stays else None, sums=sums)


def _joined_without_gradients(outputs: Outputs, job: Job) -> list[Tensor]:
    """Kernels of attention look at values, which compilers do not know."""
    joined = list(outputs) if job.keep_stops else join_normalizations(outputs, job.engine)
    values_are_known = not (job.keep_stops or job.loops) and job.engine.mesh is None
    return join_products(joined, job.engine) if values_are_known else joined


def _kept_to_rows(outputs: Outputs, job: Job) -> Outputs:
    fits = job.news and job.engine.mesh is None
    return keep_to_rows(outputs, job.news, job.state, job.engine) if fits else outputs


def _few_rows(limit: float, usual: int, rows: int | None) -> bool:
    """Whether one product for all steps of a loop is faster than one product per step. Where a
    compiler writes the loop, the rows of a step stay in the cache, and the stacks cost more.
    """
    return (usual if rows is None else rows) < limit


def _few_operands(limit: float, usual: int, product: Tensor) -> bool:
    """Whether xᵀ · y of all steps at once is faster than to add it up step by step. At once, all x
    and y are written to stacks and read again; step by step, the whole sum is in each step.
    """
    x, y = (t.spec.shape for t in product.inputs)
    rows = usual if x[0] is None else x[0]
    return rows * (x[1] + y[1]) < limit * x[1] * y[1]


PASSES = (
    Pass(
        "simplify",
        lambda outputs, job: simplify(outputs, job.replace, keep_stops=job.keep_stops),
        purpose="fold constants, take branches that are known, merge equal nodes, drop the useless",
        gain="training programs have 8 to 15 % fewer nodes; where all batches that are fed have one"
        " size, a training step of a masked LSTM and GRU that drop states takes 0.67 of the time on"
        " TensorFlow, 0.69 on PyTorch, 0.77 on ONNX Runtime, 0.82 on NumPy, 0.83 on PyTensor and"
        " 0.98 on JAX; decompositions may be written plainly",
        lowered=lambda outputs, job: simplify(outputs, keep_stops=job.keep_stops, lowered=True),
    ),
    Pass(
        "join_groups",
        lambda outputs, job: join_groups(outputs),
        purpose="let one kernel compute what is written as several operations: GELU, SiLU, hard"
        " SiLU, normalization, in predictions also by given moments or by the mean square, and"
        " attention",
        gain="a training step of a GPT of width 128 takes 0.67 of the time on PyTorch and 0.81 on"
        " NumPy, together with plain products in the gradients of quotients; of convolutions with"
        " group normalization and SiLU, 16 × 16 × 64, 0.84 on PyTorch, and with hard SiLU, 28 × 28"
        " × 64, 0.70. On TensorFlow, whose optimizer joins normalization by given moments with the"
        " convolution before it, a prediction takes 0.80 of the time for MobileNetV2, 0.86 for a"
        " CTC recognizer, 0.94 for DenseNet-121, 0.97 for ResNet-50 and 1.01 for DCGAN; PyTorch's"
        " `batch_norm` takes 0.85 to 1.2 of the time of what it would replace, and is not used."
        " Normalization by the mean square takes 0.41 to 0.56 of the time on ONNX Runtime, a block"
        " of two layers with it 0.96; PyTorch's `rms_norm` takes as long as what it would replace."
        " Attention over 128 places or more on PyTorch: predictions of a GPT, BERT, LLaMA, ViT,"
        " Conformer and Swin of such sizes take 0.81 to 0.99 of the time. The kernels of ONNX"
        " Runtime and MLX take 0.9 to 1.5 and 0.9 to 1.1 of it, and are not used",
        holds=frozenset([clipped_relu, erf, pow, sigmoid, sqrt, tanh]),
        lowered=_joined_without_gradients,
    ),
    Pass(
        "write_out",
        lambda outputs, job: write_out(outputs, job.engine, taped=job.keep_stops or job.loops),
        purpose="write as loops what the engine has no kernel for: the loss of CTC, an LSTM, a GRU",
        gain="the loss of 8 samples, 24 steps and 27 classes takes 0.3 ms on PyTorch with its"
        " gradient, and 3.5 ms as a loop",
        holds=LOOPS,
        optional=False,
    ),
    Pass(
        "join_loops",
        lambda outputs, job: join_loops(outputs, job.engine, training=not job.loops),
        purpose="let kernels compute the loop of an LSTM or a GRU whose gates nobody reads, or the"
        " loop of an LSTM and that of its gradient",
        gain="a training step of an LSTM of 8 to 128 units takes 0.2 to 0.8 of the time on PyTorch,"
        " and of 256 units, with 64 samples, as long as without. Without gradients, an LSTM of 8 to"
        " 128 units takes 0.5 to 0.85 of the time on PyTorch; predictions of a CTC recognizer and"
        " of a translator 0.70 and 0.89 on ONNX Runtime; a GRU of 32, 128 and 256 units 0.5, 0.8"
        " and 0.95 there, and of 32 and 128 units 0.86 and 0.96 on PyTorch, if it resets after the"
        " product",
        holds=frozenset([scan_]),
        when=lambda job: not job.keep_stops and job.engine.mesh is None,
    ),
    Pass(
        "hold",
        lambda outputs, job: hold(outputs),
        purpose="compute a tensor once that is compared with elements of itself, such as its"
        " maximum; keep powers whose logarithm is taken",
        gain="none: without it, 4 % of the elements of some gradients of `K.max` are lost on JAX,"
        " and the logarithm of (-4)^0.5 is a number there",
        when=lambda job: "fuses" in job.engine.capabilities,
        optional=False,
    ),
    Pass(
        "prune",
        lambda outputs, job: prune(outputs),
        purpose="drop results, states and operands of loops that nobody reads",
        gain="of 38 and 60 results that the scans of an LSTM's training offer, 20 and 6 are left",
        holds=frozenset([scan_]),
    ),
    Pass(
        "hoist",
        lambda outputs, job: prune(hoist(outputs, _joining(outputs, job))),
        purpose="do once before or after a loop what all its steps can do together",
        gain="a training step of an LSTM takes 0.67 to 0.94 of the time, on JAX 0.76 to 1.0; on JAX"
        " predictions keep products of inputs in loops, which takes 0.3 to 0.8 for an LSTM; that"
        " gradients of all gates are stacked as one takes 0.74 to 1.13 for a GRU; a loop with"
        " nothing left to do (`foldl` of a sum) disappears",
        holds=frozenset([scan_]),
    ),
    Pass(
        "rows",
        lambda outputs, job: add_rows(_kept_to_rows(outputs, job), job.engine),
        purpose="compute the step of an optimizer for the rows of a table that a batch reads, where"
        " its normal form shows that others stay as they are, as plain descent and Adagrad do",
        gain="Adagrad on 2.6 million rows of 16, of which a batch reads 6,656, takes 2.6 ms instead"
        " of 364 on PyTensor, 2.9 instead of more than 200 on PyTorch, 3.2 instead of 558 on NumPy,"
        " 2.8 instead of 525 on JAX, 3.5 instead of 464 on TensorFlow, 18 instead of 538 on ONNX"
        " Runtime, and 649 instead of 1,308 on MLX; descent on a million rows of 32, of which it"
        " reads 256, 0.4 ms instead of 97 on JAX, 23 instead of 51 on TensorFlow, and 88 instead of"
        " 103 on MLX",
        holds=frozenset([scatter_add]),
    ),
    Pass(
        "optimizer_steps",
        lambda outputs, job: find_updates(outputs, job.state, job.engine),
        purpose="compute the step of an optimizer by one kernel, in place",
        gain="a step of Adam reads every weight once instead of a dozen times; descent on a table"
        " of a million rows of 32 writes the 256 that a batch reads: 0.7 ms instead of 46 on NumPy,"
        " 0.8 instead of 78 on PyTorch, 0.26 instead of 6.9 on ONNX Runtime for 100,000 rows; there"
        " a training step of a ResNet-50 takes 0.91 of the time; RMSprop, Adagrad, Adamax, Adadelta"
        " and AMSGrad on 1.5 million weights take 0.1 to 0.5 of the time on PyTorch, 0.2 to 0.5 on"
        " ONNX Runtime",
        when=lambda job: bool(job.state),
    ),
    Pass(
        "peephole",
        lambda outputs, job: peephole(outputs, job.engine),
        purpose="let kernels do what stands beside them: make the border of zeros around an image,"
        " add a bias, take all parts of a tensor such as gates, mask the maxima of a pooling",
        gain="borders: MobileNetV2 takes 0.96 of the time for a training step on PyTorch and ONNX"
        " Runtime, and 0.85 and 0.95 for a prediction; NumPy pads either way. Biases: one pass over"
        " memory less. Parts: on TensorFlow, where each slice along such an axis copies, the"
        " prediction of a CTC recognizer takes 0.94 of the time, that of bidirectional layers 0.98"
        " and that of a ConvLSTM 0.99; their training steps take 0.98, 0.98 and 0.97. Maxima: a"
        " training step of a CNN takes 0.93 of the time on NumPy and ONNX Runtime; compilers that"
        " fuse lose a third of the memory by it, and go without",
        holds=frozenset([max_pool_grad, pad]),
        lowered=lambda outputs, job: peephole_lowered(outputs, job.engine),
    ),
    Pass(
        "lower",
        lambda outputs, job: lower(outputs, job.engine),
        purpose="write the graph in the primitives that the engine has",
        gain="an engine need not have all of them",
        optional=False,
    ),
    Pass(
        "compressed_rows",
        None,
        purpose="multiply large sparse matrices in compressed rows",
        gain="a training step of two graph convolutions, 5,000 nodes, 50,000 edges, 64 wide, takes"
        " 0.05 of the time on PyTorch and JAX",
    ),
    Pass(
        "reuse",
        None,
        purpose="write a result over an operand that nothing reads any more",
        gain="new memory comes page by page from the system: a sixth of an LSTM's training step",
    ),
    Pass(
        "tiling",
        None,
        purpose="compute chains of element-wise operations on large arrays block by block",
        gain="`mean(square(sigmoid(x) * tanh(x) + relu(x)))` of 4M float32 takes half of the time"
        " on NumPy, 0.4 on PyTorch; where the cache has 32 MB, 0.87 and 1.17",
        when=lambda job: "blocks" in job.engine.capabilities,
    ),
    Pass(
        "freeze",
        None,
        purpose="make constants of variables that stay the same, which the library optimizes",
        gain="predictions on ONNX Runtime take 0.21 of the time for MobileNetV2, 0.26 for ResNet-50"
        ", 0.41 to 0.69 for DenseNet-121, a U-Net, DCGAN, WGAN-GP and a CTC recognizer, and 0.70 to"
        " 0.98 for others",
        when=lambda job: "freezes" in job.engine.capabilities,
    ),
)

NAMES = tuple(dict.fromkeys([row.name for row in PASSES if row.optional]))
"""The passes that can be switched off."""

_off: ContextVar[frozenset[str]] = ContextVar("passes that are switched off", default=frozenset())
_blocks: list[None] = []
"""One entry for each `without` that is open anywhere. PyTorch's compiler follows calls of loops and
branches through `switched_off`, and cannot look into a context variable."""
NONE: frozenset[str] = frozenset()


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Context manager: programs that are compiled inside go without these passes. ValueError for
    names that are none, or that cannot be left out.
    """
    if unknown := sorted({*names} - {*NAMES}):
        raise ValueError(f"no pass is called {', '.join(unknown)}: there are {', '.join(NAMES)}")
    with assigned(_off, _off.get() | {*names}):
        try:
            _blocks.append(None)
            yield
        finally:
            _blocks.pop()


def switched_off() -> frozenset[str]:
    """The names of the passes that are switched off now."""
    return _off.get() if _blocks else NONE


def applies(name: str, job: Job) -> bool:
    """Whether a pass that belongs to code generation is to be done for this program."""
    return name not in switched_off() and all(row.when(job) for row in PASSES if row.name == name)


def recognized(order: Sequence[Tensor]) -> list[Group]:
    """The groups whose gradients are primitives, for gradients of what is written out."""
    return [] if "join_groups" in switched_off() else with_scales(groups_in(order), order)


class Optimized(NamedTuple):
    """A graph after all passes."""

    known: list[Tensor]
    """The outputs after the first pass. They tell what each output is."""
    outputs: list[Tensor]
    """The outputs after all passes, ready for code generation. They tell how each output is
    computed."""


def optimized(outputs: Outputs, job: Job) -> Optimized:
    """Run the passes."""
    off = _off.get()
    if "simplify" in off:
        outputs = substitute(outputs, job.replace)
    known: list[Tensor] = []
    present: set[Primitive[Any] | None] = set()
    rows = [row for row in PASSES if row.when(job)]
    for row in rows:
        fits = not (row.holds and present.isdisjoint(row.holds))
        run = row.run if row.name not in off and fits else None
        if run is not None:
            outputs = run(outputs, job)
        if not known or (run is not None and row.name == "write_out"):
            known = known or list(outputs)
            present = {node.op for node in toposort(outputs)}
    for row in rows:
        if row.lowered is not None and row.name not in off:
            outputs = row.lowered(outputs, job)
    return Optimized(known, _one_per_result(outputs))


def _one_per_result(outputs: Outputs) -> list[Tensor]:
    """`outputs`, in which no result of a node is picked twice. Code generation names results by the
    tensors that pick them. Each gradient may pick them anew, as does each rewriting of a graph.
    """
    picked = [(t.inputs[0], t.params["index"]) for t in toposort(outputs) if t.op is OUTPUT]
    if len(set(picked)) == len(picked):
        return list(outputs)
    first: dict[tuple[Tensor, int], Tensor] = {}

    def shared(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor | None:
        if node.op is not OUTPUT:
            return None
        made = node if inputs == node.inputs else rebuild(node, inputs, keep_spec=True)
        return first.setdefault((inputs[0], node.params["index"]), made)

    return rewrite(outputs, shared, keep_specs=True)
