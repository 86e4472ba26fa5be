"""Training steps and predictions of a network, one module for each kind of program.

Each has `train(network, batch, sizes)` and `predict(network, batch, sizes)`, which return a run.
"""
