"""Groups of nearby points, and how far apart two points of two groups can be at most."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from hubaudit.stats.arrays import Float64

__all__ = ["PointGroups"]

Indices = npt.NDArray[np.intp]
Float32 = npt.NDArray[np.float32]

_LARGEST_COUNT, _ROWS_A_GROUP = 512, 64
_DRAWS = 8
_ROUNDS = 2
_SAMPLE = 16384


class PointGroups:
    """Points x_i in groups with centres c_a, in the order in which a search should take them.

    With e_i = x_i - c_a and f_j = x_j - c_b, the product `x_i . x_j` is at least
    `x_i . c_b + c_a . x_j - c_a . c_b - |e_i| |f_j|`, so the squared distance is at most the sum of a term of row i,
    a term of row j and one of both groups. Any centres give valid bounds; near ones give sharp bounds.

    Args:
        coordinates: The points' coordinates in some orthonormal directions, (m, k), float32.
        radii: The points' full norms, (m,), at least those of the coordinates.
        allowance: What rounding may have added to a squared distance of float32 products, >= 0.
    """

    def __init__(self, coordinates: Float32, radii: Float64, allowance: float) -> None:
        centres = _centres(coordinates, max(1, min(_LARGEST_COUNT, len(radii) // _ROWS_A_GROUP)))
        products = coordinates @ centres.T
        groups = (products - _half_squares(centres).astype(np.float32)).argmax(axis=1)
        by_group = np.argsort(groups, kind="stable")
        taken, starts = np.unique(groups[by_group], return_index=True)
        centres, ends = centres[taken].astype(np.float64), [*starts[1:].tolist(), len(radii)]
        own = products[np.arange(len(radii)), groups].astype(np.float64)
        spread = radii**2 - 2.0 * own + 2.0 * _half_squares(centres)[np.searchsorted(taken, groups)]
        spread = np.sqrt(np.maximum(spread, 0) + allowance)
        spreads = np.maximum.reduceat(spread[by_group], starts)
        longest = np.maximum.reduceat(radii[by_group], starts)
        # Terms of rows and groups: r_i^2 - 2 x_i . c_b for all b, and the largest of each group.
        terms = products if len(taken) == products.shape[1] else products[:, taken]
        terms *= -2
        terms += (radii[:, None] ** 2).astype(np.float32)
        largest = np.stack(
            [terms[by_group[start:end]].max(axis=0) for start, end in zip(starts.tolist(), ends, strict=True)]
        ).astype(np.float64)
        both = 2 * centres @ centres.T
        bounds = largest + largest.T + both + 2 * np.outer(spreads, spreads)
        bounds = np.minimum(bounds, (longest[:, None] + longest) ** 2)

        # Groups with the largest bound come first: they raise the best distance, which rules out the others.
        turn = np.argsort(-bounds.max(axis=1), kind="stable")
        place = np.empty_like(turn)
        place[turn] = np.arange(len(turn))
        group_of_row = place[np.searchsorted(taken, groups)]
        self.order: Indices = np.argsort(group_of_row, kind="stable")
        self.group: Indices = group_of_row[self.order]
        self.starts: Indices = np.searchsorted(self.group, np.arange(len(turn) + 1))
        self._bounds, self._largest, self._both = (x[turn][:, turn] for x in (bounds, largest, both))
        self._terms, self._spread, self._column = terms, spread[self.order], turn
        self._spreads, self._longest, self._radii = spreads[turn], longest[turn], radii[self.order]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def widest(self, count: int) -> list[tuple[Indices, Indices]]:
        """The pairs of groups with the largest bounds, as positions in `order`: good ones to begin with."""
        bounds = np.triu(self._bounds)
        flat = np.argpartition(-bounds, min(count, bounds.size) - 1, axis=None)[:count]
        first, second = np.unravel_index(flat[np.argsort(-bounds.ravel()[flat], kind="stable")], bounds.shape)
        members = [np.arange(start, stop) for start, stop in itertools.pairwise(self.starts.tolist())]
        return [(members[a], members[b]) for a, b in zip(first.tolist(), second.tolist(), strict=True)]

    def candidates(self, group: int, threshold: float) -> tuple[Indices, Indices]:
        """Rows of one group, and rows of it and later ones, that may be further apart than a threshold.

        Args:
            group: Number of the group, in `order`.
            threshold: A squared distance, already lowered by what rounding needs.

        Returns:
            Positions in `order` of the rows of the group and of the rows to compare them with; empty where no pair
            can exceed the threshold.
        """
        live = np.flatnonzero(self._bounds[group, group:] > threshold) + group
        none = np.empty(0, dtype=np.intp)
        if not len(live):
            return none, none
        mine = np.arange(self.starts[group], self.starts[group + 1])
        constant = self._largest[live, group] + self._both[group, live]
        reach = (
            self._terms[self.order[mine]][:, self._column[live]]
            + 2 * np.outer(self._spread[mine], self._spreads[live])
            + constant
        )
        reach = np.minimum(reach, (self._radii[mine, None] + self._longest[live]) ** 2)
        mine = mine[reach.max(axis=1) > threshold]
        theirs = np.flatnonzero(np.isin(self.group, live))
        constant = (self._largest[group] + self._both[group])[self.group[theirs]]
        reach = (
            self._terms[self.order[theirs], self._column[group]]
            + 2 * self._spread[theirs] * self._spreads[group]
            + constant
        )
        reach = np.minimum(reach, (self._radii[theirs] + self._longest[group]) ** 2)
        theirs = theirs[reach > threshold]
        return (mine, theirs) if len(mine) and len(theirs) else (none, none)


def _half_squares(centres: npt.NDArray[np.floating]) -> Float64:
    return np.asarray(0.5 * (centres.astype(np.float64) ** 2).sum(axis=1))


def _centres(coordinates: Float32, count: int) -> Float32:
    """Centres by k-means on an evenly spaced sample, started as k-means|| does (Bahmani et al. 2012).

    Rows are drawn in a few rounds, far ones more often: so nearly every cluster has a centre of its own.
    """
    rng = np.random.default_rng(0)  # decides the time, never the answer
    sample = coordinates[:: max(1, len(coordinates) // _SAMPLE)]
    squares = 2 * _half_squares(sample).astype(np.float32)
    part = -(-count // _DRAWS)
    drawn = rng.choice(len(sample), min(part, len(sample)), replace=False)
    nearest = np.full(len(sample), np.inf)
    centres = sample[drawn]
    while len(centres) < count:
        distances = (squares[drawn] - 2 * sample @ sample[drawn].T).min(axis=1) + squares
        nearest = np.minimum(nearest, np.maximum(distances, 0))
        if not nearest.any():
            break
        drawn = np.unique(rng.choice(len(sample), min(part, count - len(centres)), p=nearest / nearest.sum()))
        centres = np.concatenate([centres, sample[drawn]])
    for _ in range(_ROUNDS):
        groups = (sample @ centres.T - _half_squares(centres).astype(np.float32)).argmax(axis=1)
        order = np.argsort(groups, kind="stable")
        _, starts, sizes = np.unique(groups[order], return_index=True, return_counts=True)
        centres = (np.add.reduceat(sample[order], starts, axis=0) / sizes[:, None]).astype(np.float32)
    return centres
