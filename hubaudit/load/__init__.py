"""From files to a model whose head, format and size are known. Importing this loads no torch."""

from __future__ import annotations

from hubaudit.load.content import content_id
from hubaudit.load.loader import load_model
from hubaudit.load.model import BaseContext, HeadCheck, LoadedModel, ModelSource

__all__ = ["BaseContext", "HeadCheck", "LoadedModel", "ModelSource", "content_id", "load_model"]
