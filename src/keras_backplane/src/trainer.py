"""The classes of Keras' backends in the module `trainer`."""

from backplane.keras3.trainer import BackplaneTrainer as Trainer

__all__ = ["Trainer"]
