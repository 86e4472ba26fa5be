"""TensorFlow 2: eager tensors and `tf.function`."""

from backplane.engines.tensorflow.engine import ENGINE

__all__ = ["ENGINE"]
