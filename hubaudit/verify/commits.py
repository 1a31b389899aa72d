"""Whether the commits that a report names are still on the Hub."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hubaudit.hub.access import retried
from hubaudit.report.schema import Report
from hubaudit.verify.check import Check, Checks

__all__ = ["check_commits"]

_PINNED = re.compile(r"([\w.-]+/[\w.-]+)@([0-9a-f]{40})\b", re.ASCII)
NAME = "the commit is on the Hub"


def check_commits(report: Report) -> list[Check]:
    """Ask the Hub for the commit of the base, of every variant and of every dataset.

    Args:
        report: The report.

    Returns:
        One entry a commit; without a network, and for local models, skipped ones with the reason.
    """
    checks = Checks("commits")
    seen = set()
    for where, kind, repo_id, revision in _commits(report):
        here = checks.at(where)
        if repo_id is None or revision is None:
            here.skip(NAME, "read from local files, so there is no commit")
        elif (kind, repo_id, revision) not in seen:
            seen.add((kind, repo_id, revision))
            _ask(here, kind, repo_id, revision)
    return checks.found


def _commits(report: Report) -> Iterator[tuple[str, str, str | None, str | None]]:
    yield "base", "model", report.base.repo_id, report.base.revision
    for variant in report.variants:
        if variant.model is not None and variant.model.spec.partition(":")[0] not in ("rtn", "bnb"):
            yield variant.spec, "model", variant.model.repo_id, variant.model.revision
    sources = [(f"task {task.name}", task.source) for task in report.tasks]
    if report.contrast is not None:
        sources.append(("contrast", report.contrast.source))
    for where, source in sources:
        for repo_id, revision in _PINNED.findall(source):
            yield where, "dataset", repo_id, revision


def _ask(checks: Checks, kind: str, repo_id: str, revision: str) -> None:
    from huggingface_hub import HfApi
    from huggingface_hub.constants import HF_HUB_OFFLINE
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    if HF_HUB_OFFLINE:
        checks.skip(NAME, "HF_HUB_OFFLINE forbids to ask")
        return
    api, name = HfApi(library_name="hubaudit"), f"{NAME}: {repo_id}"
    try:
        info = retried(lambda: api.repo_info(repo_id, repo_type=kind, revision=revision))
    except GatedRepoError:
        checks.skip(name, "the repo is gated, and this login has no access")
    except RepositoryNotFoundError:
        checks.same(name, "no such repo, or a private one", revision)
    except (RevisionNotFoundError, HFValidationError):
        checks.same(name, "no such commit", revision)
    except Exception as exc:  # the HTTP client's own tree: no network, a server in trouble
        checks.skip(name, f"the Hub could not be asked ({type(exc).__name__})")
    else:
        checks.same(name, str(info.sha), revision)
