"""Fine-tuning that keeps the base's features: the shape regularizer, replay to compare it with, and what to expect."""

from hubaudit.train.penalty import omega
from hubaudit.train.signals import GatingSignals, SetSignals
from hubaudit.train.trainer import ReplayRegularizer, ReplayTrainer, ShapeRegularizer, ShapeTrainer

__all__ = [
    "GatingSignals",
    "ReplayRegularizer",
    "ReplayTrainer",
    "SetSignals",
    "ShapeRegularizer",
    "ShapeTrainer",
    "omega",
]
