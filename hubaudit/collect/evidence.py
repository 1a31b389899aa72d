"""Evidence on disk: content-addressed, written atomically, resumable, read shard by shard."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch.utils.weak import WeakTensorKeyDictionary

from hubaudit.collect.plan import Plan
from hubaudit.files import write_file
from hubaudit.load.memory import is_out_of_memory
from hubaudit.stats.head import Head
from hubaudit.stats.k_feat import k_feat, k_feat_case

__all__ = ["Evidence", "EvidenceStore", "ModelFacts"]

# Raise it whenever the meaning of a stored tensor changes; older evidence is then collected again.
EVIDENCE_VERSION = 2


@dataclasses.dataclass(frozen=True)
class ModelFacts:
    """What the report says about a loaded model, kept beside its evidence."""

    content_id: str
    format: str
    engine: str
    dtype: str
    n_parameters: int
    n_layers: int
    quantized_fraction: float
    bits_per_weight: float
    size_bytes: int
    weight_error: float | None
    head_tied: bool
    head_quantized: bool
    head_scale: float
    head_softcap: float | None
    check_max_difference: float
    check_tolerance: float
    notes: tuple[str, ...]


class EvidenceStore:
    """A folder of evidence, one entry for each (model, plan, way of computing)."""

    def __init__(self, folder: Path, device: torch.device | None = None) -> None:
        """Use a folder, which need not exist yet; heads are read onto `device`, where their products are computed."""
        self.folder = folder
        self._heads = _Heads(folder / "heads", device or torch.device("cpu"))

    def release(self) -> None:
        """Let go of heads in memory, so that the next model fits; they are read again when needed."""
        self._heads.release()

    def open(self, plan: Plan, key: dict[str, Any]) -> Evidence:
        """The entry of one model for one plan, empty when it was never collected.

        Args:
            plan: What is run.
            key: Everything else that can change a figure: content, format, dtype, threads, versions.
        """
        text = json.dumps({"version": EVIDENCE_VERSION, "plan": plan.digest, **key}, sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:32]
        return Evidence(self.folder / name, self._heads, plan)


class _Heads:
    """Heads by the hash of their numbers; most variants have the base's."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        self.folder = folder
        self.device = device
        # A model's head is hashed once, however many entries it ends.
        self._digests = WeakTensorKeyDictionary()
        self._last: dict[str, tuple[torch.Tensor, torch.Tensor | None]] = {}

    def path(self, digest: str) -> Path:
        """Where a head is, or would be."""
        return self.folder / f"{digest}.safetensors"

    def keep(self, head: Head) -> str:
        """Store a head unless it is there, and return its hash."""
        digest: str | None = self._digests.get(head.weight, None)  # type: ignore[no-untyped-call]
        if digest is None or not self.path(digest).exists():
            tensors = {"weight": head.weight.detach().cpu().contiguous()}
            if head.bias is not None:
                tensors["bias"] = head.bias.detach().cpu().contiguous()
            content = save(tensors)
            self._digests[head.weight] = digest = hashlib.sha256(content).hexdigest()[:32]
            if not self.path(digest).exists():
                write_file(self.path(digest), content)
        return digest

    def k_feat(self, digest: str, head: Head) -> float:
        """The diameter of a head, from its file where it was computed before."""
        path = self.path(digest).with_suffix(".k_feat.json")
        key = f"{k_feat_case(head)}, scale {head.scale!r}"
        try:
            known = json.loads(path.read_text())
        except (OSError, ValueError):
            known = {}
        value = known.get(key) if isinstance(known, dict) else None
        if not isinstance(value, float):
            value = _k_feat(head)
            write_file(path, json.dumps({key: value}).encode())
        return value

    def load(self, digest: str) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Weight and bias, on the CPU memory-mapped; the last two are the same objects when asked for again."""
        if digest in self._last:
            self._last[digest] = self._last.pop(digest)
        else:
            while len(self._last) > 1:
                del self._last[next(iter(self._last))]
            with safe_open(self.path(digest), framework="pt", device=str(self.device)) as stream:
                bias = stream.get_tensor("bias") if "bias" in stream.keys() else None  # noqa: SIM118 (not a dict)
                self._last[digest] = stream.get_tensor("weight"), bias
        return self._last[digest]

    def release(self) -> None:
        """Forget the heads in memory."""
        self._last.clear()


def _k_feat(head: Head) -> float:
    """The diameter, on the CPU where its working copies do not fit on the head's device."""
    try:
        return k_feat(head)
    except RuntimeError as exc:
        if not is_out_of_memory(exc):
            raise
    bias = None if head.bias is None else head.bias.cpu()
    return k_feat(dataclasses.replace(head, weight=head.weight.cpu(), bias=bias))


class Evidence:
    """What one model left for one plan."""

    def __init__(self, folder: Path, heads: _Heads, plan: Plan) -> None:
        """Address an entry; nothing is read or written yet."""
        self.folder = folder
        self.plan = plan
        self._heads = heads

    def has_shard(self, shard: int) -> bool:
        """Whether a shard is stored and readable."""
        try:
            with safe_open(self._shard_path(shard), framework="pt"):
                return True
        except (OSError, SafetensorError):
            return False

    def write_shard(self, shard: int, tensors: dict[str, torch.Tensor]) -> None:
        """Store a shard: features, log_likelihood, predicted_ids, hidden."""
        contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
        write_file(self._shard_path(shard), save(contiguous))

    def finish(self, facts: ModelFacts, head: Head) -> None:
        """Store the head and mark the entry complete."""
        digest = self._heads.keep(head)
        manifest = {"facts": dataclasses.asdict(facts), "head": digest, "shards": len(self.plan.shards)}
        write_file(self.folder / "manifest.json", json.dumps(manifest, indent=1).encode())

    @property
    def complete(self) -> bool:
        """Whether every shard, the head and the manifest are there."""
        try:
            manifest = self._manifest()
        except (OSError, ValueError):
            return False
        return self._heads.path(manifest["head"]).exists() and all(
            self.has_shard(shard) for shard in range(len(self.plan.shards))
        )

    @property
    def facts(self) -> ModelFacts:
        """What the report says about the model."""
        values = self._manifest()["facts"]
        return ModelFacts(**{**values, "notes": tuple(values["notes"])})

    @property
    def head_digest(self) -> str:
        """Hash of the head's weights: equal for two models with the same head."""
        return str(self._manifest()["head"])

    def head(self) -> Head:
        """The model's head, on the store's device."""
        facts = self.facts
        weight, bias = self._heads.load(self.head_digest)
        return Head(
            weight=weight,
            bias=bias,
            scale=facts.head_scale,
            softcap=facts.head_softcap,
            tied=facts.head_tied,
            quantized=facts.head_quantized,
        )

    @property
    def k_feat(self) -> float:
        """Diameter of the head's rows, computed once for each head and kept beside it."""
        return self._heads.k_feat(self.head_digest, self.head())

    def features(self, shard: int) -> torch.Tensor:
        """(rows, d) head inputs at the gold tokens of one shard, in the model's dtype."""
        return self._tensor(shard, "features")

    def predicted_ids(self, shard: int) -> npt.NDArray[np.int64]:
        """(rows,) most probable token at each gold position of one shard."""
        return np.asarray(self._tensor(shard, "predicted_ids").numpy())

    def log_likelihoods(self, shard: int) -> npt.NDArray[np.float64]:
        """(options,) log-likelihood of each option of one shard, nats."""
        return np.asarray(self._tensor(shard, "log_likelihood").numpy())

    def hidden(self) -> npt.NDArray[np.float32]:
        """(prompts, layers, width) hidden states of the contrast prompts' last tokens, in prompt order."""
        parts: list[npt.NDArray[np.float32]] = []
        order: list[int] = []
        for shard in range(len(self.plan.shards)):
            prompts = [index for sequence in self.plan.shard_sequences(shard) for index, _ in sequence.prompts]
            if prompts:
                order += prompts
                parts.append(self._tensor(shard, "hidden").float().numpy())
        if not any(len(part) for part in parts):  # no prompts, or an engine that shows no hidden states
            return np.zeros((0, len(self.plan.layers), 0), dtype=np.float32)
        return np.asarray(np.concatenate(parts)[np.argsort(order)])

    def _tensor(self, shard: int, name: str) -> torch.Tensor:
        with safe_open(self._shard_path(shard), framework="pt") as stream:
            tensor: torch.Tensor = stream.get_tensor(name)
        return tensor

    def _manifest(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text())
        return content

    def _shard_path(self, shard: int) -> Path:
        return self.folder / f"{shard:05d}.safetensors"
