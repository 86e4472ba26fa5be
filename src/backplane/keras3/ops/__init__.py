"""The functions of Keras' backend, by the modules in which Keras keeps them."""

import keras  # noqa: F401 - first: on this backend Keras itself imports the modules below
