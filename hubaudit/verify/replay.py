"""The audit behind a report, set up again from what the report says."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hubaudit.collect import Evidence, EvidenceStore, Plan, collect
from hubaudit.collect.run import model_facts
from hubaudit.compare import Weights
from hubaudit.errors import InputError
from hubaudit.hub import resolve_base, resolve_variant
from hubaudit.load import BaseContext, LoadedModel, ModelSource, content_id, load_model
from hubaudit.load.llamacpp import LlamaCppModel, load_llamacpp
from hubaudit.pipeline import Pipeline
from hubaudit.report.schema import ModelReport, Report
from hubaudit.settings import AuditSettings
from hubaudit.tasks.read import TASK_NAMES
from hubaudit.tasks.vocabulary import load_tokenizer

if TYPE_CHECKING:
    from hubaudit.progress import Progress

__all__ = ["NO_EVIDENCE", "Replay", "StoredOnly", "settings_of"]

NO_EVIDENCE = "the cache holds no evidence of it for this machine, these versions and these inputs"
_MADE = ("bnb", "rtn")
_OWN_PROBE = "difference of means of the base"


class StoredOnly(Pipeline):
    """An audit that takes its evidence from the cache and refuses to load a model."""

    def _load(self, source: ModelSource, context: BaseContext) -> LoadedModel:
        raise InputError(f"{source.spec}: {NO_EVIDENCE}; audit again with the same options, or use --rerun")

    def _load_llamacpp(self, source: ModelSource, dense: Evidence) -> LlamaCppModel:
        raise InputError(f"{source.spec}: {NO_EVIDENCE}; audit again with the same options, or use --rerun")


class Replay(StoredOnly):
    """The same inputs and plan, open to running a few items."""

    def __init__(self, settings: AuditSettings, progress: Progress) -> None:
        """Read the inputs again.

        Raises:
            InputError: If a task's file is not there any more.
            AccessError: If the base or a dataset cannot be read.
        """
        super().__init__(settings, progress)
        self.base = resolve_base(settings.base, progress=progress)
        self.context = BaseContext.from_folder(self.base.path)
        self.tokenizer = load_tokenizer(self.base.path)
        tasks, contrast = self._read_tasks()
        self.plan: Plan = self._plan(tasks, contrast, self.tokenizer, self.context)
        self.base_id = content_id(self.base)

    def source(self, spec: str) -> ModelSource:
        """A variant's files."""
        return resolve_variant(spec, self.base, progress=self.progress)

    def load(self, source: ModelSource) -> LoadedModel:
        """Load a model as the audit did."""
        return load_model(source, base=self.context, dtype=self.settings.dtype, device=self.settings.device)

    def stored(self, source: ModelSource, content: str) -> Evidence:
        """What the audit kept of a variant, in the engine that its figures come from."""
        if self._in_llamacpp(source):
            return self._open_llamacpp(self.plan, source, content, self.base_id)
        return self._open(self.plan, source, content, self.base_id)

    def rerun(self, source: ModelSource, entry: Evidence, store: EvidenceStore) -> None:
        """Fill an entry as the audit did: with the dense engine, or through it with llama.cpp."""
        in_llamacpp = self._in_llamacpp(source)
        dense = store.open(entry.plan, {"spec": source.spec, "engine": "dense"}) if in_llamacpp else entry
        model = self.load(source)
        try:
            collect(model, dense, model_facts(model, source.spec))
        finally:
            model.close()
        if in_llamacpp:
            self._collect_llamacpp(source, dense, entry)

    def _load_llamacpp(self, source: ModelSource, dense: Evidence) -> LlamaCppModel:
        return load_llamacpp(source, dense.head(), device=self.device)


def settings_of(report: Report, *, cache_dir: Path | None) -> AuditSettings:
    """The settings of the audit that wrote a report, every Hub reference pinned to its commit.

    Args:
        report: The report.
        cache_dir: Where evidence is kept, or None for the user's cache folder.

    Raises:
        InputError: If the report does not say enough.
    """
    try:
        limit, batch_tokens = report.settings["limit"], report.settings["batch_tokens"]
        weights, dtype = report.settings["weights"], report.settings["dtype"]
    except KeyError as exc:
        raise InputError(
            f"expected {exc} among the report's settings, got none; audit again with this version"
        ) from exc
    contrast, probe = None, None
    if report.contrast is not None:
        named = report.contrast.name in ("builtin", "advbench-alpaca")
        contrast = report.contrast.name if named else report.contrast.source.replace(", ", ",")
        probes = {variant.monitor.probe for variant in report.variants if variant.monitor is not None}
        given = sorted(name for name in probes if not name.startswith(_OWN_PROBE))
        probe = Path(given[0]) if given else None
    names = [task.name if task.name in TASK_NAMES else task.source for task in report.tasks]
    if "builtin" in names:
        # The name stands for both built-in sets.
        names = [name for name in names if name != "builtin-answers"]
    settings = AuditSettings(
        base=pinned(report.base),
        variants=tuple(dict.fromkeys(variant_specs(report).values())),
        tasks=tuple(names),
        contrast=contrast,
        probe=probe,
        limit=None if limit is None else int(limit),
        layers=tuple(report.contrast.layers) if report.contrast is not None else None,
        device=report.environment.get("device", "cpu"),
        dtype=str(dtype),
        batch_tokens=int(batch_tokens) if batch_tokens else None,
        weights=cast("Weights", weights),
        seed=report.seed,
        engine_gguf="llamacpp" if report.settings.get("engine_gguf") == "llamacpp" else "dense",
    )
    return dataclasses.replace(settings, cache_dir=cache_dir)


def variant_specs(report: Report) -> dict[str, str]:
    """The finished variants by the report's spec, each with a reference that is pinned where it came from the Hub."""
    return {variant.spec: pinned(variant.model) for variant in report.variants if variant.model is not None}


def pinned(model: ModelReport) -> str:
    """A reference to exactly what was audited."""
    if model.repo_id is None or model.revision is None or model.spec.partition(":")[0] in _MADE:
        return model.spec
    file = model.spec.partition(":")[2]
    return f"{model.repo_id}@{model.revision}" + (f":{file}" if file else "")
