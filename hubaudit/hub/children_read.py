"""A child's repo -> what the listing says about it, from the file list, small JSON files and ranges of headers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from hubaudit.errors import HubAuditError
from hubaudit.hub.access import hub_errors
from hubaudit.hub.child import Child, Relation
from hubaudit.hub.children_claims import ModelShape, adapter_claim, shape_of, wrong_shape
from hubaudit.hub.children_format import StoredFormat, recognise
from hubaudit.hub.children_gguf import read_quant
from hubaudit.hub.quants import group_quants
from hubaudit.hub.remote_file import RemoteFile, read_json
from hubaudit.hub.remote_header import (
    FLOAT_DTYPES,
    MAX_SAFETENSORS_HEADER,
    StoredTensor,
    file_of_head,
    head_of,
    safetensors_header,
)
from hubaudit.hub.remote_header_gguf import KnownLengths
from hubaudit.hub.repo_files import ADAPTER_CONFIG, ADAPTER_WEIGHTS, RepoFiles, folder_files, list_files

__all__ = ["BaseFacts", "Repo", "read_base", "read_repo"]

_CONFIG, _INDEX = "config.json", "model.safetensors.index.json"
_OTHER_CONFIGS = ("quantize_config.json", "quant_config.json")
_MAX_INDEX = 16 << 20
_MAX_SHARDS_READ = 4
# PEFT methods that put virtual tokens before the prompt, so that variant and base see different tokens.
_VIRTUAL_TOKENS = ("PROMPT_TUNING", "PREFIX_TUNING", "P_TUNING", "MULTITASK_PROMPT_TUNING", "CPT")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Repo:
    """What the Hub's list of models says about a child."""

    repo_id: str
    revision: str
    relation: Relation | None
    """None where its card does not say."""
    downloads: int
    tags: tuple[str, ...]
    wrong_base: str | None
    """Why its card contradicts the tag that it was found by."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BaseFacts:
    """What children are held against."""

    repo_id: str
    revision: str
    shape: ModelShape
    """Empty where the base's config.json could not be read."""
    n_parameters: int | None
    """From the size of its plain weights; None where they are not plain."""


def read_base(repo_id: str, revision: str | None) -> tuple[BaseFacts, str | None]:
    """Read a base's config.

    Args:
        repo_id: The base.
        revision: Branch, tag or commit; None for the default branch.

    Returns:
        The facts, and why they are incomplete, if so: a gated base with open quants is the normal case.

    Raises:
        AccessError: If the repo does not exist.
    """
    files = list_files(repo_id, revision)
    config, trouble = _json(files, _CONFIG)
    width = recognise(files.sizes, config).bits if config else None
    size = _weight_bytes(files) if width else None
    n_parameters = int(size * 8 / width) if size and width else None
    shape = shape_of(config)
    return BaseFacts(repo_id=files.repo_id, revision=files.revision, shape=shape, n_parameters=n_parameters), trouble


def read_repo(repo: Repo, base: BaseFacts, known: KnownLengths) -> list[Child]:
    """Read one child.

    Args:
        repo: The child.
        base: The base that it names.
        known: Lengths of tokenizers in GGUF headers, from earlier children; this one's are added.

    Returns:
        One entry a quant of a GGUF repo, else one. Whatever goes wrong is the entry's `reason`.
    """
    try:
        with hub_errors(repo.repo_id):
            return _read(repo, base, known)
    except HubAuditError as exc:
        failed = Child(
            spec=f"{repo.repo_id}@{repo.revision}",
            repo_id=repo.repo_id,
            revision=repo.revision,
            relation=repo.relation or "finetune",
            format="unknown",
            downloads=repo.downloads,
            reason=_first_line(exc),
            wrong_base=repo.wrong_base,
        )
        return [failed]


def _read(repo: Repo, base: BaseFacts, known: KnownLengths) -> list[Child]:
    files = list_files(repo.repo_id, repo.revision)
    plain = Child(
        spec=f"{files.repo_id}@{files.revision}",
        repo_id=files.repo_id,
        revision=files.revision,
        relation=repo.relation or "quantized",
        format="gguf",
        downloads=repo.downloads,
        wrong_base=repo.wrong_base,
    )
    quants = group_quants(files.sizes)
    children = []
    for quant in quants:
        # One damaged file must not hide the repo's others.
        child, trouble = plain, None
        try:
            with hub_errors(repo.repo_id):
                child = read_quant(plain, quant, files, base.shape, base.n_parameters, known)
        except HubAuditError as exc:
            trouble = _first_line(exc)
        if trouble:
            child = dataclasses.replace(
                plain,
                spec=f"{plain.spec}:{quant.files[0]}",
                quant=quant.label,
                bits=quant.bits,
                size_bytes=quant.size_bytes,
                reason=trouble,
            )
        children.append(child)
    if not quants or _holds_folder(files):
        children.append(_folder(plain, repo, base, files))
    return children


def _holds_folder(files: RepoFiles) -> bool:
    return any("/" not in name and name.endswith(".safetensors") for name in files.sizes)


def _folder(plain: Child, repo: Repo, base: BaseFacts, files: RepoFiles) -> Child:
    config, trouble = _json(files, _CONFIG)
    other: Mapping[str, Any] = {}
    if "quantization_config" not in config and not trouble:
        other = next((_json(files, name)[0] for name in _OTHER_CONFIGS if name in files.sizes), {})
    stored = recognise(files.sizes, config, tags=repo.tags, quantize_config=other)
    relation = repo.relation or _relation(stored)
    child = dataclasses.replace(plain, format=stored.name, bits=stored.bits, relation=relation)
    reason = stored.reason or trouble or _remote_code(base.shape, shape_of(config))
    if stored.name == "lora":
        return _adapter(child, reason, base, files)
    size = _weight_bytes(files)
    child = dataclasses.replace(
        child,
        size_bytes=size,
        bits_per_weight=round(size * 8 / base.n_parameters, 3) if size and base.n_parameters else None,
        reason=reason,
        wrong_base=child.wrong_base or wrong_shape(base.shape, shape_of(config)),
    )
    return child if reason else _with_head(child, base, files)


def _with_head(child: Child, base: BaseFacts, files: RepoFiles) -> Child:
    """Add what the header of the file with the head says; a damaged header is why it cannot be loaded."""
    try:
        with hub_errors(child.repo_id):
            found = head_of(_head_tensors(files))
    except HubAuditError as exc:
        return dataclasses.replace(child, reason=_first_line(exc))
    if found is None:
        return child
    quantized, dtype, weight = found
    stated = ModelShape()
    if weight is not None and len(weight.shape) == 2:
        # The file cannot lie about its shape as the config can.
        stated = ModelShape(vocabulary=weight.shape[0], hidden_size=weight.shape[1])
    wrong = child.wrong_base or wrong_shape(base.shape, stated)
    return dataclasses.replace(child, head_quantized=quantized, head_type=dtype, wrong_base=wrong)


def _head_tensors(files: RepoFiles) -> dict[str, StoredTensor]:
    """The tensors of the file that holds the head."""
    names = [name for name in folder_files(files) if name.endswith(".safetensors")]
    if len(names) > 1 and _INDEX in files.sizes:
        index, _ = _json(files, _INDEX, limit=_MAX_INDEX)
        where = file_of_head(index.get("weight_map"))
        names = [name for name in names if name == where] or names
    for name in reversed(names[-_MAX_SHARDS_READ:]):
        tensors = _header(files, name)
        if head_of(tensors) is not None:
            return tensors
    return {}


def _header(files: RepoFiles, name: str) -> dict[str, StoredTensor]:
    budget = MAX_SAFETENSORS_HEADER + (1 << 20)
    file = RemoteFile(files.repo_id, name, revision=files.revision, size=files.sizes[name], budget=budget)
    return safetensors_header(file)


def _adapter(child: Child, reason: str | None, base: BaseFacts, files: RepoFiles) -> Child:
    config, trouble = _json(files, ADAPTER_CONFIG)
    reason = reason or trouble
    if config.get("peft_type") in _VIRTUAL_TOKENS:
        reason = reason or "it puts virtual tokens before the prompt, so its tokens are not the base's"
    wrong = child.wrong_base or adapter_claim(base.repo_id, config.get("base_model_name_or_path"))
    tensors: dict[str, StoredTensor] = {}
    if not reason:
        try:
            with hub_errors(child.repo_id):
                tensors = _header(files, ADAPTER_WEIGHTS)
        except HubAuditError as exc:
            reason = _first_line(exc)
    # A query projection reads the residual stream, so its factor A has the base's width.
    sides = [tensor.shape[-1] for name, tensor in tensors.items() if "q_proj.lora_A" in name and tensor.shape]
    if sides:
        wrong = wrong or wrong_shape(base.shape, ModelShape(hidden_size=sides[0]))
    heads = [tensor.dtype for name, tensor in tensors.items() if name.endswith("lm_head.weight")]
    return dataclasses.replace(
        child,
        size_bytes=files.sizes.get(ADAPTER_WEIGHTS),
        reason=reason,
        wrong_base=wrong,
        head_quantized=heads[0] not in FLOAT_DTYPES if heads else None,
        head_type=heads[0] if heads else None,
    )


def _remote_code(base: ModelShape, found: ModelShape) -> str | None:
    """A config that names code of its own is no obstacle where transformers knows the base's model type."""
    if not found.remote_code or (found.model_type == base.model_type and not base.remote_code):
        return None
    return "it wants to run code of its own (auto_map in config.json), which hubaudit refuses"


def _relation(stored: StoredFormat) -> Relation:
    if stored.name == "lora":
        return "adapter"
    return "finetune" if stored.name in ("safetensors", "pickle", "flax", "none", "unknown") else "quantized"


def _weight_bytes(files: RepoFiles) -> int:
    """Bytes of the weights that would be loaded; of formats that cannot be, of all files."""
    if _holds_folder(files):
        return sum(files.sizes[name] for name in folder_files(files) if name.endswith(".safetensors"))
    return sum(files.sizes.values())


def _json(files: RepoFiles, name: str, *, limit: int = 4 << 20) -> tuple[Mapping[str, Any], str | None]:
    """A JSON file, and why it could not be read; empty without a reason where the repo has none."""
    if name not in files.sizes:
        return {}, None
    try:
        with hub_errors(files.repo_id):
            found = read_json(files.repo_id, name, revision=files.revision, size=files.sizes[name], limit=limit)
            return found, None
    except HubAuditError as exc:
        return {}, _first_line(exc)


def _first_line(exc: HubAuditError) -> str:
    return str(exc).strip().partition("\n")[0][:400]
