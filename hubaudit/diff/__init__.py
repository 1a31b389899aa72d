"""What changed between two audits of a base."""

from hubaudit.diff.reports import Difference, compare_reports
from hubaudit.diff.rows import Row

__all__ = ["Difference", "Row", "compare_reports"]
