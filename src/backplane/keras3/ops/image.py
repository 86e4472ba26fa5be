"""Keras' backend functions of the module `image`."""
