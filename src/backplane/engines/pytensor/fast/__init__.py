"""What serves only speed on PyTensor. The option `compile=True`, or a mode that PyTensor's flags
choose, does without the first two.

- `linker`: a graph as straight-line Python, instead of PyTensor's compilation, which takes a second
  to minutes.
- `calls`: PyTensor's operations as functions on arrays. Their `perform` methods take several times
  as long for small arrays.
- `updates`: a step of an optimizer as one loop of Numba: 1/3.5 of the time of NumPy's calls for
  Adam, which serve in the first step and without the pass `optimizer_steps`.
"""
