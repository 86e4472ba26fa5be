"""Keras' backend functions of the module `linalg`."""
