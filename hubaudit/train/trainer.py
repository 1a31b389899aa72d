"""A penalty on a reference set, added to any `transformers.Trainer` by a mixin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import Trainer

from hubaudit.errors import InputError
from hubaudit.train.base_state import STATE_FILE, State, as_base, load_state, measure, save_state
from hubaudit.train.penalty import ALIGNMENTS, AlignmentName, evaluating, omega, reference_features
from hubaudit.train.reference import Reference, read_reference
from hubaudit.train.signals import GatingSignals, set_signals

__all__ = ["ReplayRegularizer", "ReplayTrainer", "ShapeRegularizer", "ShapeTrainer"]

if TYPE_CHECKING:

    class _Mixin(Trainer):  # type: ignore[misc]  # transformers is not typed
        """What a mixin may call."""
else:
    _Mixin = object


class _ReferenceRegularizer(_Mixin):
    """Once an optimizer step, adds the gradient of `strength * penalty(model)` to that of the task.

    The penalty has a forward pass and a backward pass of its own, before the last batch of an accumulation, outside the
    synchronisation of gradients: the task's backward pass then carries both. It is not part of evaluation.
    """

    _log_name: str

    def __init__(
        self,
        *args: Any,
        reference: Sequence[str | Sequence[int]],
        strength: float,
        reference_max_tokens: int | None = None,
        **kwargs: Any,
    ) -> None:
        if not (isinstance(strength, int | float) and math.isfinite(strength) and strength >= 0):
            raise InputError(f"strength (lambda): expected a finite number of at least 0, got {strength!r}")
        super().__init__(*args, **kwargs)
        if self.accelerator.distributed_type == "DEEPSPEED":
            raise InputError("the penalty's own backward pass does not work under DeepSpeed; use DDP or FSDP")
        self._strength = float(strength)
        self._max_tokens = reference_max_tokens
        self._reference = self._read(reference)
        self._base: State | None = None
        self._penalties: list[torch.Tensor] = []

    def penalty(self, model: Any, reference: Reference, base: State) -> torch.Tensor:
        """What is added to the task's loss, before `strength`; a scalar with its graph."""
        raise NotImplementedError

    def training_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        """One batch of the task; before the last of an accumulation, the penalty."""
        if self._base is None:
            self._base = self._base_state(model)
        added = None
        if self._strength > 0 and self.accelerator.sync_gradients:
            added = self._add_penalty(model, self._base)
        loss: torch.Tensor = super().training_step(model, inputs, *args, **kwargs)
        return loss if added is None else loss + added.to(loss.device)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """The mean penalty since the last entry goes along with the training loss."""
        if self._penalties and "loss" in logs:
            logs[self._log_name] = torch.stack(self._penalties).mean().item()
            self._penalties.clear()
        super().log(logs, *args, **kwargs)

    def gating_signals(self, sets: Mapping[str, Sequence[str | Sequence[int]]] | None = None) -> GatingSignals:
        """The paper's two signals for the model as it is now, each with an interval; `print` shows a table.

        Run with `strength=0` first: they say how far an unregularized run drifts and whether that drift is shape.

        Args:
            sets: Held-out sets by name, texts or token ids, for models with adapters, which can be switched off; None
                takes the reference set.

        Returns:
            For each set `1 - Omega`, the share of shape in the drift and the change of the loss, and their means.

        Raises:
            InputError: If a set is empty, or the base's features are not at hand.
        """
        model, device = self.accelerator.unwrap_model(self.model), self._device(self.model)
        if sets is None:
            base = self._base or load_state(Path(self.args.output_dir), self._reference)
            if base is None:
                if not _has_adapters(model):
                    raise InputError("the base's features are not at hand: call train() first")
                base = self._measure_base(self.model)
            found = [set_signals("reference", self._reference, base, measure(self.model, self._reference, device))]
            return GatingSignals.of(tuple(found))
        if not sets:
            raise InputError("sets: expected at least one set, got none")
        if not _has_adapters(model):
            raise InputError("other sets need a model with adapters, which are switched off for the base; pass none")
        found = []
        for name, sequences in sets.items():
            reference = self._read(sequences)
            with as_base(model):
                base = measure(self.model, reference, device)
            found.append(set_signals(name, reference, base, measure(self.model, reference, device)))
        return GatingSignals.of(tuple(found))

    def _add_penalty(self, model: Any, base: State) -> torch.Tensor:
        # DataParallel would split the set over devices, where it cannot be put together again with its graph.
        model = model.module if isinstance(model, torch.nn.DataParallel) else model
        with self.accelerator.no_sync(model), evaluating(model):
            with self.compute_loss_context_manager():
                penalty = self.penalty(model, self._reference.to(self._device(model)), base)
            added = self._strength * penalty
            # accelerate divides by its own count of accumulated batches; this is one a step.
            self.accelerator.backward(added * self.accelerator.gradient_accumulation_steps)
        self._penalties.append(penalty.detach())
        return added.detach()

    def _base_state(self, model: Any) -> State:
        folder, resumed = Path(self.args.output_dir), self.state.global_step > 0
        state = load_state(folder, self._reference) if resumed else None
        if state is None:
            if resumed and not _has_adapters(self.accelerator.unwrap_model(model)):
                raise InputError(
                    f"{folder / STATE_FILE} is missing, so the base's features of the reference set are lost: the "
                    "resumed model is not the base any more. Copy the file beside the checkpoints, or start anew."
                )
            state = self._measure_base(model)
            if self.accelerator.is_main_process:
                save_state(folder, state, self._reference)
        return state

    def _measure_base(self, model: Any) -> State:
        with as_base(self.accelerator.unwrap_model(model)):
            return measure(model, self._reference, self._device(model))

    def _read(self, sequences: Sequence[str | Sequence[int]]) -> Reference:
        tokenizer, model = self.processing_class, self.accelerator.unwrap_model(self.model)
        vocabulary = model.get_input_embeddings().weight.shape[0]
        return read_reference(sequences, tokenizer, vocabulary=vocabulary, max_tokens=self._max_tokens)

    def _device(self, model: Any) -> torch.device:
        device: torch.device = self.accelerator.unwrap_model(model).get_input_embeddings().weight.device
        return device


class ShapeRegularizer(_ReferenceRegularizer):
    """Mixin for a Trainer: `L = CE + shape_lambda * (1 - Omega(Z_ref_base, Z_ref_now))`.

    The features are what the head receives for the reference set's tokens. The base's are computed once, at the first
    step, with adapters switched off, and kept as `shape_reference.safetensors` in the output folder for runs that
    resume; the gradient goes through the current model only. Both passes are without dropout and gradient
    checkpointing; the penalty is computed in float32, also under mixed precision. Logs gain `one_minus_omega`.

    Args:
        *args: The Trainer's.
        reference: Texts or token ids of what the model shall keep, some dozens of sequences that are not in the
            training set. They are one batch in memory.
        shape_lambda: Weight of the penalty, at least 0; the paper's best was 1. With 0 the run is the Trainer's own.
        alignment: `identity`, the paper's, or `procrustes`.
        reference_max_tokens: Cut each sequence of the reference set to this many tokens.
        **kwargs: The Trainer's.

    Raises:
        InputError: If the reference set is empty or not of the model's tokens, or `shape_lambda` is negative, NaN or
            infinite.

    Source:
        PRISM, section 3.5, Eq. (8).

    Example:
        >>> from trl import SFTTrainer  # doctest: +SKIP
        >>> class ShapeSFTTrainer(ShapeRegularizer, SFTTrainer):  # doctest: +SKIP
        ...     pass
        >>> ShapeSFTTrainer(model, args=args, train_dataset=data, reference=texts, shape_lambda=1.0)  # doctest: +SKIP
    """

    _log_name = "one_minus_omega"

    def __init__(
        self,
        *args: Any,
        reference: Sequence[str | Sequence[int]],
        shape_lambda: float = 1.0,
        alignment: AlignmentName = "identity",
        reference_max_tokens: int | None = None,
        **kwargs: Any,
    ) -> None:
        if alignment not in ALIGNMENTS:
            raise InputError(f"alignment: expected one of {', '.join(ALIGNMENTS)}, got {alignment!r}")
        self._alignment: AlignmentName = alignment
        kwargs |= {"reference": reference, "strength": shape_lambda, "reference_max_tokens": reference_max_tokens}
        super().__init__(*args, **kwargs)

    def penalty(self, model: Any, reference: Reference, base: State) -> torch.Tensor:
        """`1 - Omega` of the reference set."""
        now = reference_features(model, reference)
        return 1 - omega(base.features.to(now.device), now, self._alignment)


class ReplayRegularizer(_ReferenceRegularizer):
    """Mixin for a Trainer: `L = CE + replay_lambda * CE_reference`, the baseline that shape is compared with.

    Args:
        *args: The Trainer's.
        reference: Texts or token ids that are trained on again, one batch in memory.
        replay_lambda: Weight of their cross-entropy, at least 0; the paper's best was 0.01.
        reference_max_tokens: Cut each sequence of the reference set to this many tokens.
        **kwargs: The Trainer's.

    Raises:
        InputError: As `ShapeRegularizer`, or if no sequence has two tokens.

    Source:
        PRISM, sections 5.1 and 5.4.
    """

    _log_name = "reference_loss"

    def __init__(
        self,
        *args: Any,
        reference: Sequence[str | Sequence[int]],
        replay_lambda: float = 0.01,
        reference_max_tokens: int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs |= {"reference": reference, "strength": replay_lambda, "reference_max_tokens": reference_max_tokens}
        super().__init__(*args, **kwargs)
        if self._reference.input_ids.shape[1] < 2:
            raise InputError(
                "reference: expected sequences of at least two tokens, got one token each; replay predicts"
            )

    def penalty(self, model: Any, reference: Reference, base: State) -> torch.Tensor:
        """Mean cross-entropy of the reference set's tokens."""
        output = model(
            input_ids=reference.input_ids,
            attention_mask=reference.attention_mask,
            labels=reference.labels,
            use_cache=False,
        )
        loss: torch.Tensor = output["loss"] if isinstance(output, dict) else output[0]
        return loss


class ShapeTrainer(ShapeRegularizer, Trainer):  # type: ignore[misc]  # transformers is not typed
    """`transformers.Trainer` with the shape regularizer; arguments as `ShapeRegularizer`."""


class ReplayTrainer(ReplayRegularizer, Trainer):  # type: ignore[misc]  # transformers is not typed
    """`transformers.Trainer` with replay; arguments as `ReplayRegularizer`."""


def _has_adapters(model: Any) -> bool:
    return callable(getattr(model, "disable_adapter", None))
