"""How a training step is written by hand in each library: state, optimizer, inputs and results.

What differs between models, the loss, is in `benchmarks.workloads`.
"""
