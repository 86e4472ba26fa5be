"""Keras' backend functions of the module `rnn`."""
