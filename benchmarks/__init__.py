"""Benchmarks: Backplane beside the best hand-written programs, Keras 3 and the reference K.

python -m benchmarks --help
"""
