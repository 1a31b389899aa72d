"""The report's schema: what an audit writes, and what every page, card and gate reads.

The blocks of figures are the result classes of `hubaudit.stats`, so that a key, its unit and its
description are written once. Strict JSON: no NaN, undefined is null with a reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from hubaudit.errors import InputError
from hubaudit.report.block import Block
from hubaudit.report.series_block import Series
from hubaudit.report.structure_block import Structure
from hubaudit.stats.correctness_agreement import CorrectnessAgreement
from hubaudit.stats.direction_floor import DirectionFloor
from hubaudit.stats.divergence import Divergence
from hubaudit.stats.prism_bound import PrismBound
from hubaudit.stats.ranking import PooledRanking, Ranking
from hubaudit.stats.translation_attenuation import TranslationAttenuation

__all__ = [
    "SCHEMA_VERSION",
    "BaseReport",
    "ChangedItem",
    "ComputeFloor",
    "ContrastReport",
    "EngineSplit",
    "EngineStep",
    "Failure",
    "Finding",
    "Floor",
    "HeadReport",
    "Monitor",
    "Report",
    "TaskReport",
    "TokenizerReport",
    "VariantReport",
    "read_report",
]

SCHEMA_VERSION = "1.1"
MAX_REPORT_BYTES = 64 * 2**20


class Finding(Block):
    """One sentence that a reader needs, and what to do about it."""

    id: str
    """Which rule fired; the list is in `hubaudit audit --help` and in the README."""
    severity: Literal["info", "notice", "warning"]
    """How much it matters to someone who deploys the variant."""
    text: str
    """The finding in plain words, with its numbers."""
    remedy: str | None = None
    """What to do about it, where there is something to do."""
    task: str | None = None
    """The task it was seen on, or null."""
    layer: int | None = None
    """The decoder block it was seen at, or null."""


class HeadReport(Block):
    """The output head: how features become logits."""

    vocabulary: int
    """Rows of the head, tokens."""
    width: int
    """Columns of the head: width of the features."""
    bias: bool
    """Whether the head adds a bias."""
    scale: float
    """Multiplier of the head's output, measured."""
    softcap: float | None
    """Soft cap c of c*tanh(v/c), measured, or null."""
    tied: bool
    """Whether the head is the input embedding."""
    quantized: bool
    """Whether the head's weights were stored quantized."""
    check_max_difference: float
    """Largest difference between our head map and the model's own logits on the probe batch."""
    check_tolerance: float
    """The difference that rounding alone explains."""


class TokenizerReport(Block):
    """How the variant's own tokenizer differs from the base's, which tokenizes every text of the audit."""

    n_tokens: int
    """Tokens that the variant's tokenizer names."""
    n_differing: int
    """Ids of the base that have another name in the variant; none of them is used by the audit."""
    special_tokens: list[str]
    """Roles whose token differs, as eos_token, where the variant states them."""
    chat_template: Literal["same", "differs", "missing", "added"]
    """The variant's chat template beside the base's."""


class ModelReport(Block):
    """What was loaded, and how."""

    spec: str
    """The reference as the user typed it."""
    repo_id: str | None
    """Hub repo, or null for a local folder."""
    revision: str | None
    """Full commit SHA that was audited, or null."""
    content_id: str
    """Hash of what was loaded: commit or file contents, with the options."""
    format: str
    """Storage format, with the quantization type."""
    engine: str
    """What ran the forward passes."""
    dtype: str
    """Number format of the activations."""
    head: HeadReport
    """The output head."""
    n_parameters: int
    """Parameters, tied ones counted once."""
    quantized_fraction: float
    """Share of the parameters that is stored quantized."""
    bits_per_weight: float
    """Stored bits over parameters, scales and zero points included."""
    size_bytes: int
    """Stored size of the weights in bytes."""
    weight_error: float | None = None
    """Relative error ||W_variant - W_base|| / ||W_base|| of the quantized weights, where both were at hand."""
    tokenizer: TokenizerReport | None = None
    """The variant's own tokenizer beside the base's; null for the base, and where the variant has none."""
    notes: list[str] = Field(default_factory=list)
    """What was done while loading, in plain sentences."""


class BaseReport(ModelReport):
    """The base that every variant is compared with."""


class TaskReport(Block):
    """One task: where its items come from and how they are scored."""

    name: str
    """Name of the task."""
    kind: Literal["multiple_choice", "answer", "corpus"]
    """How its items are scored."""
    source: str
    """Dataset id with revision, or file, that the items were read from."""
    headline_metric: str
    """The score that decides which answers count as correct."""
    n_items: int
    """Items that were scored."""
    n_tokens: int
    """Tokens of the gold answers: the rows of the feature matrices."""
    item_ids: list[str]
    """Which items: the seeded sample."""
    base_accuracy: dict[str, float]
    """The base's accuracy by metric."""


class ContrastReport(Block):
    """The two lists of prompts whose activations give a direction."""

    name: str
    """Name or files of the contrast set."""
    source: str
    """Where the prompts were read from."""
    n_a: int
    """Prompts of class A (label 1)."""
    n_b: int
    """Prompts of class B (label 0)."""
    layers: list[int]
    """Decoder blocks whose output was read, 0 = the first."""
    monitor_layer: int
    """The block whose probe gives the decision values."""


class Floor(Block):
    """What the base differs from itself by when only the computation changes."""

    n_items: int
    """Items of the sample."""
    bound: float | None = None
    """Bound of the base against itself, nats per token."""
    d_mean_square: float | None = None
    """Mean squared feature difference of the base against itself."""
    kl: float | None = None
    """Mean KL divergence of the base against itself, nats per token."""
    risk_gap: float | None = None
    """Absolute risk gap of the base against itself, nats per token."""
    flips: int | None = None
    """Items whose answer changed."""


class ComputeFloor(Block):
    """The floor of every figure: the larger of another batch composition and the other dtype."""

    other_dtype: str
    """The dtype that the base was run in again."""
    batch: dict[str, Floor] = Field(default_factory=dict)
    """By task: same dtype, every sequence in a batch of its own."""
    dtype: dict[str, Floor] = Field(default_factory=dict)
    """By task: the other dtype, the same batches."""
    direction_degrees: dict[int, float | None] = Field(default_factory=dict)
    """By layer: angle between the base's direction in the two dtypes."""


class ChangedItem(Block):
    """An item whose answer changed."""

    item_id: str
    """Which item."""
    gold: str
    """The right answer."""
    base_answer: str
    """What the base answered."""
    variant_answer: str
    """What the variant answered."""
    kind: Literal["regression", "recovery", "wrong_to_other_wrong"]
    """Whether the answer was lost, won, or only moved."""


class Monitor(Block):
    """Decision values of a linear monitor on the same prompts, for the scatter plot."""

    layer: int
    """Decoder block that the probe reads."""
    probe: str
    """Where the probe comes from."""
    labels: list[int]
    """Class of each prompt of the evaluation half."""
    base_scores: list[float]
    """Decision values of the base."""
    variant_scores: list[float]
    """Decision values of the variant."""


class Failure(Block):
    """Why a variant could not be audited."""

    type: str
    """Class of the error."""
    message: str
    """The message, with the next step."""
    exit_code: int
    """The exit code that this error alone would give."""


class EngineStep(Block):
    """What two ways of computing the same tokens differ by."""

    n_items: int
    """Items compared."""
    n_tokens: int
    """Scored positions compared."""
    d_mean_square: float | None
    """Mean square drift of the features, in squared feature units."""
    omega: float | None
    """Similarity of the features; 1 means no change of shape."""
    bound: float | None
    """Upper bound of the absolute risk gap, nats per token."""
    kl: float | None
    """Mean KL divergence of the later from the earlier distribution, nats per token."""
    kl_se: float | None
    """Its standard error, clustered by item."""
    top1_agreement: float | None
    """Share of positions with the same most probable token."""
    risk_gap: float | None
    """Risk of the later minus risk of the earlier, nats per token; the two steps add up to the total."""
    answers_changed: float | None
    """Share of items whose answer differs, under the headline metric."""
    reasons: dict[str, str] = Field(default_factory=dict)
    """Why a figure is null."""


class EngineSplit(Block):
    """A GGUF variant's drift, split into the file's weights and the engine that runs them."""

    engine: str
    """The engine, with its version."""
    dense_dtype: str
    """Number format of the dense engine, which the step `weights` runs in and the step `engine` starts from."""
    weights: dict[str, EngineStep]
    """By task: from the base to the file's weights, expanded to dense ones."""
    engine_step: dict[str, EngineStep]
    """By task: from those to the engine on the same file."""
    total: dict[str, EngineStep]
    """By task: from the base to the engine."""


class VariantReport(Block):
    """Everything that was found out about one variant."""

    spec: str
    """The reference as the user typed it."""
    status: Literal["done", "failed", "interrupted"]
    """Whether the figures below are complete."""
    error: Failure | None = None
    """Why it failed, or null."""
    model: ModelReport | None = None
    """What was loaded, or null when loading failed."""
    correctness_agreement: dict[str, CorrectnessAgreement] = Field(default_factory=dict)
    """By task, for the headline metric."""
    agreement_by_metric: dict[str, dict[str, CorrectnessAgreement]] = Field(default_factory=dict)
    """By task and metric (acc, acc_norm, exact_match)."""
    prism_bound: dict[str, PrismBound] = Field(default_factory=dict)
    """By task."""
    prism_bound_procrustes: dict[str, PrismBound] = Field(default_factory=dict)
    """By task, with the variant's features rotated onto the base's as well as a rotation can."""
    divergence: dict[str, Divergence] = Field(default_factory=dict)
    """By task."""
    direction_floor: dict[int, DirectionFloor] = Field(default_factory=dict)
    """By layer."""
    translation_attenuation: TranslationAttenuation | None = None
    """The linear monitor's decision values."""
    monitor: Monitor | None = None
    """The decision values themselves."""
    structure: Structure | None = None
    """Weight errors by layer and projection, where they were asked for (--structure)."""
    engine_split: EngineSplit | None = None
    """The drift split into weights and engine, where llama.cpp ran the variant."""
    below_floor: dict[str, list[str]] = Field(default_factory=dict)
    """By task: figures that lie below the compute floor and so mean nothing."""
    changed_items: dict[str, list[ChangedItem]] = Field(default_factory=dict)
    """By task: the items whose answer changed."""
    findings: list[Finding] = Field(default_factory=list)
    """What to read first."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """Wall time by step; not part of any comparison."""


class Report(Block):
    """One audit of a base and its variants."""

    schema_version: str = SCHEMA_VERSION
    """Version of this schema."""
    created: str
    """When the audit ended, ISO 8601, UTC."""
    hubaudit_version: str
    """Version of hubaudit."""
    environment: dict[str, str]
    """Python, packages, platform, device and threads."""
    seed: int
    """Seed of every sample and resampling."""
    settings: dict[str, str | int | float | bool | None]
    """The options that can change a figure."""
    base: BaseReport
    """The base."""
    tasks: list[TaskReport]
    """The tasks."""
    contrast: ContrastReport | None
    """The contrast set, or null."""
    compute_floor: ComputeFloor | None
    """What the computation alone changes."""
    variants: list[VariantReport]
    """One entry a variant, in the order they were given."""
    ranking: dict[str, Ranking] = Field(default_factory=dict)
    """By task: which figure ranks the variants as the risk gap does."""
    ranking_pooled: PooledRanking | None = None
    """The same over all tasks, or null for fewer than two."""
    series: list[Series] = Field(default_factory=list)
    """Checkpoints of a training run: drift and forgetting by step, by run and task."""
    findings: list[Finding] = Field(default_factory=list)
    """What concerns the whole audit."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """Wall time by step; not part of any comparison."""

    def to_json(self) -> str:
        """The report as strict JSON, indented by 1, ending in a newline."""
        return self.model_dump_json(indent=1) + "\n"


def read_report(path: Path | str) -> Report:
    """Read and check a report.

    Args:
        path: A `report.json`, at most 64 MiB.

    Returns:
        The report.

    Raises:
        InputError: If the file is missing, too large, no JSON, or no report of a known schema version.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > MAX_REPORT_BYTES:
            raise InputError(
                f"{path}: a report has at most {MAX_REPORT_BYTES} bytes, but this file has {size}; "
                "pass the report.json that `hubaudit audit` wrote"
            )
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"{path}: cannot read this as a report ({exc}); pass the path of a report.json") from exc
    try:
        report = Report.model_validate_json(text)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "top level"
        raise InputError(
            f"{path}: not a hubaudit report: {where}: {first['msg']}; pass the report.json that `hubaudit audit` wrote"
        ) from exc
    if report.schema_version.split(".")[0] != SCHEMA_VERSION.split(".")[0]:
        raise InputError(
            f"{path}: schema version {report.schema_version}, but this hubaudit reads {SCHEMA_VERSION}; "
            "install the hubaudit version named in the report"
        )
    return report
