"""Benchmark items and contrast sets, as text and as token ids with gold spans."""

from hubaudit.tasks.contrast import ContrastSet, load_contrast
from hubaudit.tasks.items import Item, Task, TaskKind
from hubaudit.tasks.read import TASK_NAMES, load_task
from hubaudit.tasks.tokens import (
    ScoredOption,
    TokenizedItem,
    TokenizedTask,
    max_length,
    tokenize_contrast,
    tokenize_task,
)

__all__ = [
    "TASK_NAMES",
    "ContrastSet",
    "Item",
    "ScoredOption",
    "Task",
    "TaskKind",
    "TokenizedItem",
    "TokenizedTask",
    "load_contrast",
    "load_task",
    "max_length",
    "tokenize_contrast",
    "tokenize_task",
]
