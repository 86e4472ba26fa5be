"""Keras' backend functions of the module `nn`."""
