"""Whether a report holds: its identities, its commits, its evidence, and a sample of it run again."""

from hubaudit.verify.check import Check
from hubaudit.verify.commits import check_commits
from hubaudit.verify.source import find_report
from hubaudit.verify.whole import check_identities

__all__ = ["Check", "check_commits", "check_identities", "find_report"]
