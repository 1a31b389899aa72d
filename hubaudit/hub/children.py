"""The Hub's children of a base: quantized, adapter and fine-tuned repos, with what their headers say."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from hubaudit.errors import InputError
from hubaudit.hub.access import hub_errors
from hubaudit.hub.child import RELATIONS, Child, Relation
from hubaudit.hub.children_claims import card_claim
from hubaudit.hub.children_read import BaseFacts, Repo, read_base, read_repo
from hubaudit.hub.reference import HUB_ID
from hubaudit.hub.remote_header_gguf import KnownLengths
from hubaudit.progress import Progress, Silent

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ExpandModelProperty_T, ModelInfo

__all__ = ["DEFAULT_LIMIT", "Listing", "list_children"]

DEFAULT_LIMIT = 60
_WORKERS = 8
_MAX_SCANNED = 1000
_MAX_LIMIT = 1000
_SHA = re.compile(r"[0-9a-f]{40}")
# Only what is needed: a card with hostile metadata cannot break the list if it is not in it.
_FIELDS: list[ExpandModelProperty_T] = ["sha", "downloads", "tags"]


@dataclasses.dataclass(frozen=True)
class Listing:
    """The children of a base."""

    base: BaseFacts
    children: list[Child]
    """By downloads, the quants of a repo together, the largest first."""
    notes: list[str]
    """What the list does not show."""


def list_children(
    base: str,
    *,
    limit: int = DEFAULT_LIMIT,
    relations: Sequence[Relation] = RELATIONS,
    progress: Progress | None = None,
) -> Listing:
    """List the quantized, adapter and fine-tuned children of a base; no weights are downloaded.

    Args:
        base: Hub id, `ORG/NAME` or `ORG/NAME@revision`.
        limit: Most repos, the most downloaded ones.
        relations: Which kinds to list.
        progress: Is told of repos that were read.

    Returns:
        The children. One that cannot be read is listed with the reason.

    Raises:
        InputError: If `base` is no Hub id or `limit` not in 1 to 1000.
        AccessError: If the base does not exist or the Hub cannot be asked.
    """
    if not 1 <= limit <= _MAX_LIMIT:
        raise InputError(f"the limit must be 1 to {_MAX_LIMIT} repos, but got {limit}")
    match = HUB_ID.fullmatch(base)
    if match is None or Path(base).expanduser().exists():
        raise InputError(f"{base!r}: expected a Hub id ORG/NAME, since only the Hub knows a model's children")
    facts, trouble = read_base(match["repo"], match["revision"])
    progress = progress or Silent()
    repos, notes = _search(facts.repo_id, relations, limit)
    if trouble:
        notes.append(f"the base's config.json could not be read, so no child is held against it: {trouble}")
    progress.begin(f"reading the children of {base}", len(repos))
    try:
        children = _read_all(repos, facts, progress)
    finally:
        progress.end()
    kept = [child for child in children if child.relation in relations]
    return Listing(facts, kept, notes)


def _search(base_id: str, relations: Sequence[Relation], limit: int) -> tuple[list[Repo], list[str]]:
    """The most downloaded repos that name the base, and whether there are more."""
    from huggingface_hub import HfApi

    api = HfApi()
    found: dict[str, Repo] = {}
    skipped, more = 0, False
    with hub_errors(base_id):
        # The last search finds repos whose card names the base and not how they relate to it.
        for relation in (*relations, None):
            tag = f"base_model:{relation}:{base_id}" if relation else f"base_model:{base_id}"
            listed = api.list_models(filter=tag, sort="downloads", expand=_FIELDS)
            taken = 0
            for info in islice(listed, _MAX_SCANNED):
                if taken == limit:
                    more = True
                    break
                if info.id in found or info.id == base_id or (relation is None and _related(info, base_id)):
                    continue
                repo = _repo(info, relation, base_id)
                if repo is None:
                    skipped += 1
                    continue
                found[repo.repo_id] = repo
                taken += 1
    repos = sorted(found.values(), key=lambda repo: (-repo.downloads, repo.repo_id))
    more = more or len(repos) > limit
    notes = [f"the {limit} most downloaded repos are shown, there are more; raise --limit"] if more else []
    if skipped:
        notes.append(f"{skipped} repos were left out, since their id or commit cannot be one")
    return repos[:limit], notes


def _related(info: ModelInfo, base_id: str) -> bool:
    """Whether the Hub knows how the repo relates to the base: merges do, and are no variants."""
    return any(re.fullmatch(r"base_model:[a-z_]+:" + re.escape(base_id), tag) for tag in _tags(info))


def _repo(info: ModelInfo, relation: Relation | None, base_id: str) -> Repo | None:
    if not HUB_ID.fullmatch(info.id) or "@" in info.id or ".." in info.id or not _SHA.fullmatch(info.sha or ""):
        return None
    tags = _tags(info)
    named = [tag.removeprefix("base_model:") for tag in tags if re.fullmatch(r"base_model:[^:]+", tag)]
    downloads = info.downloads if isinstance(info.downloads, int) and info.downloads > 0 else 0
    return Repo(
        repo_id=info.id,
        revision=str(info.sha),
        relation=relation,
        downloads=downloads,
        tags=tags,
        wrong_base=card_claim(base_id, named),
    )


def _tags(info: ModelInfo) -> tuple[str, ...]:
    return tuple(tag for tag in info.tags or () if isinstance(tag, str))


def _read_all(repos: list[Repo], base: BaseFacts, progress: Progress) -> list[Child]:
    known: KnownLengths = {}
    done: dict[str, list[Child]] = {}

    def read(repo: Repo) -> None:
        done[repo.repo_id] = read_repo(repo, base, known)
        progress.advance(1)

    # The first GGUF repo alone: the others then know how long the tokenizer in their headers is.
    first = [repo for repo in repos if "gguf" in repo.tags][:1]
    for repo in first:
        read(repo)
    pool = ThreadPoolExecutor(max_workers=_WORKERS)
    try:
        for _ in pool.map(read, [repo for repo in repos if repo not in first]):
            pass
    finally:
        pool.shutdown(cancel_futures=True)
    return _flat(done[repo.repo_id] for repo in repos)


def _flat(groups: Iterable[list[Child]]) -> list[Child]:
    return [child for group in groups for child in group]
