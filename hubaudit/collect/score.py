"""Features -> log-likelihoods of options, in float32 from the stored features, never from bf16 logits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch

from hubaudit.collect.plan import PlannedSequence, Scored
from hubaudit.stats.head import Head

__all__ = ["OptionScores", "gold_rows", "score_options"]

LOGITS_PER_CHUNK = 2**23


@dataclasses.dataclass(frozen=True)
class OptionScores:
    """Scores of the options of some sequences, in running order."""

    log_likelihood: npt.NDArray[np.float64]
    """(options,) sum of the target tokens' log-probabilities, nats."""
    predicted_ids: npt.NDArray[np.int64]
    """(gold tokens,) most probable token at each gold position."""


def score_options(features: torch.Tensor, sequences: Sequence[PlannedSequence], head: Head) -> OptionScores:
    """Score every option of some sequences.

    Args:
        features: (positions, d): the scored positions of each sequence in order.
        sequences: The sequences they belong to.
        head: The model's head.

    Returns:
        Log-likelihoods, and the predictions at gold positions.
    """
    pairs = [
        (option, row, token, scored.gold)
        for option, (scored, rows) in enumerate(_options_with_rows(sequences))
        for row, token in zip(rows, scored.target_ids, strict=True)
    ]
    if not pairs:
        return OptionScores(np.zeros(0), np.zeros(0, dtype=np.int64))
    option_of, row_of, token_of, gold_of = (np.asarray(column) for column in zip(*pairs, strict=True))
    log_p = np.zeros(len(pairs))
    best = np.zeros(features.shape[0], dtype=np.int64)
    step = max(1, LOGITS_PER_CHUNK // head.weight.shape[0])
    for start in range(0, features.shape[0], step):
        logits = head.logits(features[start : start + step].to(head.weight.device))
        here = np.flatnonzero((row_of >= start) & (row_of < start + step))
        rows = torch.from_numpy(row_of[here] - start).to(logits.device)
        tokens = torch.from_numpy(token_of[here]).to(logits.device)
        normalizer = torch.logsumexp(logits, dim=-1)
        log_p[here] = (logits[rows, tokens] - normalizer[rows]).double().cpu().numpy()
        best[start : start + step] = logits.argmax(dim=-1).cpu().numpy()
    sums = np.asarray(np.bincount(option_of, weights=log_p), dtype=np.float64)
    return OptionScores(sums, best[row_of[gold_of]])


def gold_rows(sequences: Sequence[PlannedSequence]) -> npt.NDArray[np.int64]:
    """Which of the scored positions predict a gold token, in the order of `Plan.shard_rows`."""
    gold = [row for scored, rows in _options_with_rows(sequences) if scored.gold for row in rows]
    return np.asarray(gold, dtype=np.int64)


def _options_with_rows(sequences: Sequence[PlannedSequence]) -> Iterator[tuple[Scored, list[int]]]:
    """Every option with the rows of the scored positions that predict its tokens."""
    start = 0
    for sequence in sequences:
        row_of = {position: start + row for row, position in enumerate(sequence.scored_positions)}
        for scored in sequence.scored:
            yield scored, [row_of[position] for position in scored.positions]
        start += len(row_of)
