"""Logits -> log-likelihoods of options, in float32 from the stored features, never from bf16 logits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch

from hubaudit.collect.plan import PlannedSequence, Scored
from hubaudit.stats.head import Head

__all__ = ["OptionScorer", "OptionScores", "gold_rows", "score_options"]

LOGITS_PER_CHUNK = 2**23


@dataclasses.dataclass(frozen=True)
class OptionScores:
    """Scores of the options of some sequences, in running order."""

    log_likelihood: npt.NDArray[np.float64]
    """(options,) sum of the target tokens' log-probabilities, nats."""
    predicted_ids: npt.NDArray[np.int64]
    """(gold tokens,) most probable token at each gold position."""


class OptionScorer:
    """Scores options from logits that arrive in blocks of rows, in any order."""

    def __init__(self, sequences: Sequence[PlannedSequence]) -> None:
        """Prepare for the scored positions of some sequences, numbered in running order."""
        pairs = [
            (option, row, token, scored.gold)
            for option, (scored, rows) in enumerate(_options_with_rows(sequences))
            for row, token in zip(rows, scored.target_ids, strict=True)
        ]
        columns = np.asarray(pairs, dtype=np.int64).reshape(len(pairs), 4).T
        self._option_of, self._row_of, self._token_of, gold = columns
        self._gold_of = gold.astype(bool)
        self.n_rows = sum(len(sequence.scored_positions) for sequence in sequences)
        self._log_p = np.zeros(len(pairs))
        self._best = np.zeros(self.n_rows, dtype=np.int64)

    def update(self, rows: npt.NDArray[np.int64], logits: torch.Tensor) -> None:
        """Read the logits of some positions.

        Args:
            rows: (n,) which scored positions they are of.
            logits: (n, V) float32, on any device.
        """
        place = np.full(self.n_rows, -1)
        place[rows] = np.arange(len(rows))
        here = np.flatnonzero(place[self._row_of] >= 0)
        at = torch.from_numpy(place[self._row_of[here]]).to(logits.device)
        tokens = torch.from_numpy(self._token_of[here]).to(logits.device)
        normalizer = torch.logsumexp(logits, dim=-1)
        self._log_p[here] = (logits[at, tokens] - normalizer[at]).double().cpu().numpy()
        self._best[rows] = logits.argmax(dim=-1).cpu().numpy()

    def scores(self) -> OptionScores:
        """The scores, once every position has been read."""
        sums = np.asarray(np.bincount(self._option_of, weights=self._log_p), dtype=np.float64)
        return OptionScores(sums, self._best[self._row_of[self._gold_of]])


def score_options(features: torch.Tensor, sequences: Sequence[PlannedSequence], head: Head) -> OptionScores:
    """Score every option of some sequences.

    Args:
        features: (positions, d): the scored positions of each sequence in order.
        sequences: The sequences they belong to.
        head: The model's head.

    Returns:
        Log-likelihoods, and the predictions at gold positions.
    """
    scorer = OptionScorer(sequences)
    step = max(1, LOGITS_PER_CHUNK // head.weight.shape[0])
    for start in range(0, scorer.n_rows, step):
        rows = np.arange(start, min(start + step, scorer.n_rows))
        scorer.update(rows, head.logits(features[start : start + step].to(head.weight.device)))
    return scorer.scores()


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
