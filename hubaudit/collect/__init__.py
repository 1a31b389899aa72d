"""Forward passes and the evidence they leave on disk; torch ends here."""

from hubaudit.collect.evidence import Evidence, EvidenceStore, ModelFacts
from hubaudit.collect.plan import Plan, build_plan
from hubaudit.collect.run import collect

__all__ = ["Evidence", "EvidenceStore", "ModelFacts", "Plan", "build_plan", "collect"]
