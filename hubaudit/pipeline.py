"""The steps of an audit in order: the only file that knows them all."""

from __future__ import annotations

import dataclasses
import datetime
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from hubaudit.ahead import Ahead
from hubaudit.choose_variants import choose_variants
from hubaudit.collect import Evidence, EvidenceStore, Plan, build_plan, collect
from hubaudit.collect.llamacpp_run import collect_llamacpp
from hubaudit.collect.precision import computed_in
from hubaudit.collect.run import model_facts
from hubaudit.collect.shared_prefix import SharedPrefixCheck
from hubaudit.compare import Answers, changed_items, compare_answers, compare_features, read_answers
from hubaudit.contrasts import Probe, base_probe, compare_directions, compare_monitor, read_probe
from hubaudit.diagnose import diagnose
from hubaudit.engine_split import split_engine
from hubaudit.environment import compute_key, environment
from hubaudit.errors import AccessError, HubAuditError, InputError
from hubaudit.floor import floor_figures, floor_plans
from hubaudit.forecast import Forecast, audit_seconds, operations_a_second, pass_seconds
from hubaudit.hub import resolve_base, resolve_variant
from hubaudit.load import BaseContext, LoadedModel, ModelSource, content_id, load_model
from hubaudit.load.dense import described_parameters
from hubaudit.load.extras import require
from hubaudit.load.llamacpp import LlamaCppModel, load_llamacpp
from hubaudit.load.llamacpp_library import library_version
from hubaudit.load.memory import memory_guard
from hubaudit.load.placement import dtype_name, resolve_device, resolve_dtype
from hubaudit.progress import short_spec, time_left
from hubaudit.rank import pool_ranks, rank_variants
from hubaudit.record import contrast_report, model_report, task_reports
from hubaudit.report.schema import BaseReport, ComputeFloor, Failure, Finding, Report, VariantReport
from hubaudit.series import find_series
from hubaudit.settings import default_cache_dir
from hubaudit.structure import compare_structure
from hubaudit.tasks import (
    ContrastSet,
    Task,
    load_contrast,
    load_task,
    max_length,
    tokenize_contrast,
    tokenize_task,
)
from hubaudit.tasks.vocabulary import compare_tokenizers, load_tokenizer
from hubaudit.version import __version__

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from hubaudit.progress import Progress
    from hubaudit.settings import AuditSettings

__all__ = ["Pipeline"]

DEFAULT_THETA0_DEGREES = 5.0
N_LAYERS_READ = 6
# On a CPU more only leaves the caches; on a GPU fewer leave it idle.
BATCH_TOKENS = {"cpu": 1024, "cuda": 8192}
HAS_OWN_FILES = ("dense", "gguf", "lora")
BUILTIN_TASKS = ("builtin", "builtin-answers")


_Files = Ahead[tuple[ModelSource, str]]


class Pipeline:
    """One audit from settings to report."""

    def __init__(self, settings: AuditSettings, progress: Progress) -> None:
        """Prepare; nothing is read yet."""
        self.settings = settings
        self.progress = progress
        self.device = resolve_device(settings.device)
        self.batch_tokens = settings.batch_tokens or BATCH_TOKENS[self.device.type]
        self.findings: list[Finding] = []
        self.seconds: dict[str, float] = {}
        self.interrupted = False
        cache = settings.cache_dir or default_cache_dir()
        folder = cache if settings.resume else cache / f"run-{os.getpid()}-{time.time_ns()}"
        self.store = EvidenceStore(folder / "evidence", self.device)

    def run(self) -> Report:
        """Audit the base and every variant.

        A variant's failure is written into the report and the others go on. When the user interrupts, what
        is finished stays, `interrupted` is set and the rest is marked.
        """
        settings = self.settings
        base_source = resolve_base(settings.base, progress=self.progress)
        specs, self.findings[:] = choose_variants(settings, base_source, self.progress)
        context = BaseContext.from_folder(base_source.path)
        tokenizer = load_tokenizer(base_source.path)
        with self._timed("tasks"):
            tasks, contrast = self._read_tasks()
            plan = self._plan(tasks, contrast, tokenizer, context)
        base_id = content_id(base_source)
        base = self._open(plan, base_source, base_id, base_id)
        # Each variant's files are fetched and hashed while the model before it runs.
        ahead = self._ahead(specs[0], base_source) if specs else None
        floors = self._base(base, base_source, base_id, context)
        base_hidden = base.hidden()
        labels = np.asarray([1] * len(contrast.prompts_a) + [0] * len(contrast.prompts_b)) if contrast else None
        probe = self._probe(base_hidden, labels, plan, base.facts.n_layers) if labels is not None else None
        with self._timed("k_feat"):
            diameter = base.k_feat
        with self._timed("floor"), memory_guard("the statistics of the base"):
            other = _other_dtype(base.facts.dtype)
            floor = floor_figures(floors, labels, settings.weights, settings.seed, other, k_feat=diameter)
        job = _Job(plan, context, tokenizer, base_source, base_id, base, read_answers(base), base_hidden, labels, probe)
        variants = []
        started = time.perf_counter()
        for done, spec in enumerate(specs):
            if done and not self.interrupted:
                left = (time.perf_counter() - started) / done * (len(specs) - done)
                self.progress.say(f"{done} of {len(specs)} variants done, about {time_left(left)} left")
            files, more = ahead, done + 1 < len(specs) and not self.interrupted
            ahead = self._ahead(specs[done + 1], base_source) if more else None
            variants.append(self._variant(spec, files, job, floor, diameter))
        report = self._report(job, tasks, contrast, floor, variants)
        diagnose(report)
        return report

    def forecast(self, *, speed: float | None = None) -> Forecast:
        """What would run and about how long it takes; configuration and tokenizer are fetched, no weights.

        Args:
            speed: Operations a second where the audit will run; None measures this machine.
        """
        settings = self.settings
        source = resolve_base(settings.base, weights=False, progress=self.progress)
        specs, _ = choose_variants(settings, source, self.progress)
        context = BaseContext.from_folder(source.path)
        config = context.config.get_text_config()
        tasks, contrast = self._read_tasks()
        plan = self._plan(tasks, contrast, load_tokenizer(source.path), context)
        dtype = resolve_dtype(settings.dtype, self.device)
        rows = sum(task.n_gold_tokens for task in plan.tasks) + plan.n_prompts * len(plan.layers)
        n_parameters = described_parameters(context.config)
        speed = speed or operations_a_second(self.device, dtype)
        sample = sum(part.n_tokens for part in floor_plans(plan, self.batch_tokens).values())
        one, floor = (
            pass_seconds(plan, n_tokens, n_parameters=n_parameters, config=config, speed=speed)
            for n_tokens in (plan.n_tokens, sample)
        )
        # llama.cpp runs a GGUF file beside the dense engine.
        twice = sum(map(_looks_like_gguf, specs)) if settings.engine_gguf == "llamacpp" else 0
        prompts = None
        if contrast is not None:
            layers = ", ".join(map(str, plan.layers))
            prompts = f"{contrast.name}: {len(contrast.prompts_a)} + {len(contrast.prompts_b)} prompts, layers {layers}"
        return Forecast(
            base=source.spec,
            revision=source.revision,
            variants=specs,
            tasks=tuple((task.name, len(task.items), task.n_gold_tokens, task.source) for task in plan.tasks),
            contrast=prompts,
            n_tokens=plan.n_tokens,
            n_parameters=n_parameters,
            device=str(self.device),
            dtype=dtype_name(dtype),
            evidence_bytes=rows * int(config.hidden_size) * dtype.itemsize,
            seconds=audit_seconds(
                one, floor, n_models=1 + len(specs) + twice, model_bytes=n_parameters * dtype.itemsize
            ),
        )

    # ---- inputs -------------------------------------------------------------------------------------------

    def _read_tasks(self) -> tuple[list[Task], ContrastSet | None]:
        settings = self.settings
        names: list[str] = []
        for name in settings.tasks:
            names += BUILTIN_TASKS if name == "builtin" else (name,)
        tasks: list[Task] = []
        for name in names:
            try:
                tasks.append(load_task(name, limit=settings.limit, seed=settings.seed))
            except AccessError as exc:
                self._replaced(name, str(exc))
                known = {task.name for task in tasks} | set(names)
                tasks += [
                    load_task(builtin, limit=settings.limit, seed=settings.seed)
                    for builtin in BUILTIN_TASKS
                    if builtin not in known
                ]
        repeated = sorted({task.name for task in tasks if [t.name for t in tasks].count(task.name) > 1})
        if repeated:
            raise InputError(f"two tasks are both named {repeated[0]!r}; rename one of the files")
        if settings.contrast is None:
            return tasks, None
        try:
            return tasks, load_contrast(settings.contrast, limit=settings.limit, seed=settings.seed)
        except AccessError as exc:
            self._replaced(settings.contrast, str(exc))
            return tasks, load_contrast("builtin", limit=settings.limit, seed=settings.seed)

    def _replaced(self, name: str, why: str) -> None:
        text = f"{name} was replaced by the built-in set: {why}"
        self.findings.append(Finding(id="dataset_replaced", severity="warning", text=text))
        self.progress.say(text)

    def _plan(
        self,
        tasks: list[Task],
        contrast: ContrastSet | None,
        tokenizer: PreTrainedTokenizerBase,
        context: BaseContext,
    ) -> Plan:
        config = context.config.get_text_config()
        longest = max_length(config)
        tokenized = [tokenize_task(task, tokenizer, max_length=longest) for task in tasks]
        prompts = tokenize_contrast(contrast, tokenizer, max_length=longest) if contrast else ()
        if contrast and not tokenizer.chat_template:
            text = "the base has no chat template; the contrast prompts were used as they are"
            self.findings.append(Finding(id="no_chat_template", severity="notice", text=text))
        layers = self._layers(int(config.num_hidden_layers)) if contrast else ()
        return build_plan(tokenized, prompts, batch_tokens=self.batch_tokens, layers=layers)

    def _layers(self, n_layers: int) -> tuple[int, ...]:
        if self.settings.layers is None:
            spread = np.linspace(0.25, 0.9, N_LAYERS_READ) * (n_layers - 1)
            return tuple(sorted({round(layer) for layer in spread.tolist()}))
        outside = [layer for layer in self.settings.layers if not 0 <= layer < n_layers]
        if outside:
            raise InputError(f"--layers: expected layers from 0 to {n_layers - 1}, but got {outside[0]}")
        return tuple(sorted(set(self.settings.layers)))

    def _probe(self, hidden: Any, labels: Any, plan: Plan, n_layers: int) -> Probe:
        if self.settings.probe is not None:
            probe = read_probe(self.settings.probe, width=hidden.shape[2], n_layers=n_layers, n_prompts=hidden.shape[0])
            if probe.layer not in plan.layers:
                raise InputError(
                    f"{self.settings.probe}: the probe reads layer {probe.layer}; add it with --layers {probe.layer}"
                )
            return probe
        middle = plan.layers[len(plan.layers) // 2]
        return base_probe(hidden, labels, plan.layers, middle)

    # ---- models -------------------------------------------------------------------------------------------

    def _open(self, plan: Plan, source: ModelSource, content: str, base_content: str, **more: str) -> Evidence:
        dtype = resolve_dtype(self.settings.dtype, self.device)
        key = {"content": content, "base": base_content, "dtype": str(dtype), **compute_key(self.device), **more}
        return self.store.open(plan, key)

    def _base(self, evidence: Evidence, source: ModelSource, content: str, context: BaseContext) -> dict[str, Evidence]:
        """Collect the base, and a sample of it again in other ways of computing."""
        plans = floor_plans(evidence.plan, self.batch_tokens)
        floors = {name: self._open(plan, source, content, content, way=name) for name, plan in plans.items()}
        if all(entry.complete for entry in (evidence, *floors.values())):
            self.progress.say(f"{short_spec(source.spec)}: evidence of an earlier run is used")
            return floors
        import torch

        model = self._load(source, context)
        try:
            facts = model_facts(model, content)
            check = self._collect(model, evidence, content, "base")
            with self._step("compute floor", sum(plan.n_tokens for plan in plans.values())), self._timed("floor"):
                for name, entry in floors.items():
                    if name == "dtype":
                        other = getattr(torch, _other_dtype(model.dtype))
                        with computed_in(model, other):
                            collect(model, entry, facts, check=check, advance=self.progress.advance)
                    else:
                        collect(model, entry, facts, check=check, advance=self.progress.advance)
        finally:
            model.close()
        return floors

    def _load(self, source: ModelSource, context: BaseContext) -> LoadedModel:
        self.store.release()
        with self._step(f"loading {short_spec(source.spec)}", 0), self._timed(f"load {source.spec}"):
            return load_model(source, base=context, dtype=self.settings.dtype, device=self.settings.device)

    def _collect(self, model: LoadedModel, evidence: Evidence, content: str, label: str) -> SharedPrefixCheck:
        with self._step(f"running {short_spec(label)}", evidence.plan.n_tokens), self._timed(f"run {label}"):
            return collect(model, evidence, model_facts(model, content), advance=self.progress.advance)

    def _in_llamacpp(self, source: ModelSource) -> bool:
        return source.kind == "gguf" and self.settings.engine_gguf == "llamacpp"

    def _open_llamacpp(self, plan: Plan, source: ModelSource, content: str, base_content: str) -> Evidence:
        return self._open(plan, source, content, base_content, engine=f"llama-cpp-python {library_version()}")

    def _load_llamacpp(self, source: ModelSource, dense: Evidence) -> LlamaCppModel:
        with self._step(f"loading {short_spec(source.spec)} into llama.cpp", 0):
            return load_llamacpp(source, dense.head(), device=self.device)

    def _collect_llamacpp(self, source: ModelSource, dense: Evidence, evidence: Evidence) -> None:
        if evidence.complete:
            return
        with self._timed(f"llama.cpp {source.spec}"):
            model = self._load_llamacpp(source, dense)
            try:
                with self._step(f"running {short_spec(source.spec)} in llama.cpp", evidence.plan.n_tokens):
                    collect_llamacpp(
                        model,
                        evidence,
                        dense.facts,
                        batch_tokens=self.batch_tokens,
                        advance=self.progress.advance,
                    )
            finally:
                model.close()

    def _ahead(self, spec: str, base: ModelSource) -> _Files:
        def fetch() -> tuple[ModelSource, str]:
            source = resolve_variant(spec, base, progress=self.progress)
            return source, content_id(source)

        return Ahead(fetch)

    def _variant(
        self, spec: str, files: _Files | None, job: _Job, floor: ComputeFloor, diameter: float
    ) -> VariantReport:
        if self.interrupted or files is None:
            return VariantReport(spec=spec, status="interrupted", error=_interrupted())
        try:
            return self._audit_variant(spec, files, job, floor, diameter)
        except HubAuditError as exc:
            self.progress.say(f"{spec}: {exc}")
            failure = Failure(type=type(exc).__name__, message=str(exc), exit_code=exc.exit_code)
            return VariantReport(spec=spec, status="failed", error=failure)
        except KeyboardInterrupt:
            self.interrupted = True
            return VariantReport(spec=spec, status="interrupted", error=_interrupted())

    def _audit_variant(
        self, spec: str, files: _Files, job: _Job, floor: ComputeFloor, diameter: float
    ) -> VariantReport:
        settings = self.settings
        with self._timed(f"wait for {spec}"):
            source, content = files.result()
        if self._in_llamacpp(source):
            require("llama_cpp", extra="llamacpp", what=spec)
        tokenizer = None
        if source.kind in HAS_OWN_FILES:
            tokenizer = compare_tokenizers(source.path, job.tokenizer, job.plan)
        dense = self._open(job.plan, source, content, job.base_id)
        if dense.complete:
            self.progress.say(f"{short_spec(spec)}: evidence of an earlier run is used")
        else:
            model = self._load(source, job.context)
            try:
                self._collect(model, dense, content, spec)
            finally:
                model.close()
        evidence = dense
        if self._in_llamacpp(source):
            evidence = self._open_llamacpp(job.plan, source, content, job.base_id)
            self._collect_llamacpp(source, dense, evidence)
        started = time.perf_counter()
        answers = read_answers(evidence)
        agreement = compare_answers(job.answers, answers, job.plan, seed=settings.seed)
        with memory_guard(f"the statistics of {spec}"):
            features = compare_features(job.base, evidence, weights=settings.weights, k_feat=diameter, procrustes=True)
        report = VariantReport(
            spec=spec,
            status="done",
            model=model_report(source, evidence, tokenizer),
            correctness_agreement={
                task.name: agreement[task.name][task.headline_metric]
                for task in job.plan.tasks
                if task.name in agreement
            },
            agreement_by_metric=agreement,
            prism_bound={task: drift.bound for task, drift in features.items()},
            prism_bound_procrustes={
                task: drift.procrustes for task, drift in features.items() if drift.procrustes is not None
            },
            divergence={task: drift.divergence for task, drift in features.items()},
            changed_items=changed_items(job.answers, answers, job.plan, decode=job.tokenizer.decode),
        )
        if evidence is not dense:
            with memory_guard(f"the statistics of {spec}"):
                report.engine_split = split_engine(
                    job.base,
                    dense,
                    evidence,
                    answers=job.answers,
                    total=(features, agreement),
                    weights=settings.weights,
                    seed=settings.seed,
                    k_feat=diameter,
                )
        if settings.structure:
            with self._timed(f"weights of {spec}"):
                report.structure = compare_structure(job.base_source, source, self.progress)
        # llama.cpp shows no hidden layers: the dense engine's stand for them.
        self._contrast(report, job, dense, floor)
        report.seconds = {"statistics": time.perf_counter() - started}
        return report

    def _contrast(self, report: VariantReport, job: _Job, evidence: Evidence, floor: ComputeFloor) -> None:
        if job.labels is None or job.probe is None:
            return
        hidden = evidence.hidden()
        if hidden.shape != job.base_hidden.shape:
            return
        theta0 = {
            layer: max(DEFAULT_THETA0_DEGREES, floor.direction_degrees.get(layer) or 0.0) for layer in job.plan.layers
        }
        report.direction_floor = compare_directions(
            job.base_hidden, hidden, job.labels, job.plan.layers, theta0_degrees=theta0, seed=self.settings.seed
        )
        report.translation_attenuation, report.monitor = compare_monitor(
            job.probe, job.base_hidden, hidden, job.labels, job.plan.layers, seed=self.settings.seed
        )

    # ---- report -------------------------------------------------------------------------------------------

    def _report(
        self,
        job: _Job,
        tasks: list[Task],
        contrast: ContrastSet | None,
        floor: ComputeFloor,
        variants: list[VariantReport],
    ) -> Report:
        settings = self.settings
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        names = [task.name for task in tasks]
        return Report(
            created=now.isoformat(),
            hubaudit_version=__version__,
            environment=environment(self.device),
            seed=settings.seed,
            settings={
                "limit": settings.limit,
                "batch_tokens": self.batch_tokens,
                "weights": settings.weights,
                "dtype": settings.dtype,
                "alignment": "identity",
                "engine_gguf": settings.engine_gguf,
            },
            base=BaseReport(**model_report(job.base_source, job.base).model_dump()),
            tasks=task_reports(job.plan, job.answers),
            contrast=contrast_report(contrast, job.plan, job.probe.layer) if contrast and job.probe else None,
            compute_floor=floor,
            variants=variants,
            ranking=rank_variants(variants, names),
            ranking_pooled=pool_ranks(variants, names),
            series=find_series(variants, names),
            findings=self.findings,
            seconds=self.seconds,
        )

    @contextmanager
    def _step(self, label: str, total: int) -> Iterator[None]:
        self.progress.begin(label, total)
        try:
            yield
        finally:
            self.progress.end()

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started


@dataclasses.dataclass(frozen=True)
class _Job:
    """What every variant is compared with."""

    plan: Plan
    context: BaseContext
    tokenizer: PreTrainedTokenizerBase
    base_source: ModelSource
    base_id: str
    base: Evidence
    answers: list[Answers]
    base_hidden: Any
    labels: Any
    probe: Probe | None


def _looks_like_gguf(spec: str) -> bool:
    return spec.lower().endswith(".gguf") or (":" in spec and not spec.startswith(("bnb:", "rtn:")))


def _other_dtype(dtype: str) -> str:
    """The dtype that the compute floor runs the base in again."""
    return "bfloat16" if dtype == "float32" else "float32"


def _interrupted() -> Failure:
    message = "interrupted before it was finished; run the same command again to go on from here"
    return Failure(type="KeyboardInterrupt", message=message, exit_code=130)
