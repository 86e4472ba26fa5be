"""The primitives of the graph, by theme; importing this package declares all of them.

Each module imports only those above it:

- `creation`: sizes, numbers and tensors made of them
- `effects`: passing a value on and doing something besides, updates of variables
- `indexing`: parts of tensors
- `shaping`: shapes, broadcasting and sums, joining
- `elementwise_families`: how element-wise primitives are declared in a line
- `elementwise`: arithmetic, functions, comparison, choice, conversion
- `lift`: whatever may stand for a tensor as a tensor; promotion of dtypes
- `autodiff`: gradients
- `native`: functions of an engine's library
- `remat`: gradients that compute again
- `branches`: branches
- `control`: loops
- `reduction`: reductions, elements in order, cumulative operations, normalization
- `linear`: products of matrices
- `axes`: axes in another order, axes made one, products over axes
- `ragged`: rows of different lengths, sums of probabilities
- `einsum`: sums of products of tensors
- `ctc`: a loss of sequences that are not aligned
- `angles`: the angle of a point
- `scattering`: rows that are combined with rows of a table, or by segments
- `rectifiers`: piecewise linear activations
- `groups`: what programs write as a dozen operations and libraries compute by one kernel
- `sparse`: products of matrices in compressed rows
- `fourier`: Fourier transforms
- `factorization`: factors of matrices and equations, and `spectra`: singular values, eigenvalues
- `recurrence`: the loops of an LSTM and of a GRU
- `random`: random numbers
- `windows`, `convolution`, `pooling`: windows that slide along spatial axes
- `picking`: one element along an axis, which a label names
- `updates`: steps of optimizers
- `operators`: what `+`, `[]`, … do

Arguments are canonical here: axes are sorted tuples of non-negative integers, and operands have
equal dtypes. `backplane.backend` accepts the friendly forms and makes them canonical.
"""

# Each of these imports those of the others that it builds on.
from backplane.ops import (  # noqa: F401
    angles,
    ctc,
    fourier,
    groups,
    operators,
    picking,
    pooling,
    random,
    rectifiers,
    recurrence,
    remat,
    scattering,
    sparse,
    spectra,
    updates,
)
