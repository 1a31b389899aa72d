"""A report into the cards of the repos that it is about: plan first, then one commit a repo."""

from hubaudit.publish.plan import PlannedFile, RepoPlan, plan_repo
from hubaudit.publish.push import Pushed, hide_tokens, push
from hubaudit.publish.targets import Target, Targets, choose_targets

__all__ = [
    "PlannedFile",
    "Pushed",
    "RepoPlan",
    "Target",
    "Targets",
    "choose_targets",
    "hide_tokens",
    "plan_repo",
    "push",
]
