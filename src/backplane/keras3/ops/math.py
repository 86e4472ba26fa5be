"""Keras' backend functions of the module `math`."""
