"""What Keras' backends have in the module `trainer`."""

from backplane.keras3.trainer import BackplaneTrainer as Trainer

__all__ = ["Trainer"]
