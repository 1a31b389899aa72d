"""The map from features to logits: a matrix, and what some architectures put around it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from hubaudit.errors import InputError
from hubaudit.stats.arrays import Array, as_array, check_rows, namespace, place_like, to_numpy

__all__ = ["Head"]

_BLOCK_ROWS = 8192


@dataclasses.dataclass(frozen=True, eq=False)
class Head:
    """An output head, `logits(z) = cap(scale * (z @ weight.T + bias))` with `cap(v) = softcap * tanh(v / softcap)`.

    Args:
        weight: One row a token of the vocabulary, (V, d): numpy or torch, any float dtype, any device.
        bias: One number a token, (V,), or None.
        scale: Multiplier of the raw output (Cohere, Granite, MuP), dimensionless; folded into the rows.
        softcap: The cap c of Gemma's `c * tanh(v / c)`, in logits, or None.
        tied: Whether the weight is also the input embedding.
        quantized: Whether the file stores the weight quantized. Information only: nothing here depends on it.

    Raises:
        InputError: If the shapes do not fit, `scale` is 0 or not finite, or `softcap` is not positive.

    Example:
        >>> Head([[1.0, 0.0], [0.0, 2.0]], scale=0.5).logits([[3.0, 4.0]])
        array([[1.5, 4. ]], dtype=float32)
    """

    weight: Array
    bias: Array | None = None
    scale: float = 1.0
    softcap: float | None = None
    tied: bool = False
    quantized: bool = False

    def __post_init__(self) -> None:
        weight = check_rows(self.weight, "head weights")
        object.__setattr__(self, "weight", weight)
        if self.bias is not None:
            bias = as_array(self.bias)
            if tuple(bias.shape) != (weight.shape[0],):
                raise InputError(
                    f"expected a head bias of shape ({weight.shape[0]},), one number a row of the weight, "
                    f"got {tuple(bias.shape)}; give the bias of the same head"
                )
            object.__setattr__(self, "bias", place_like(bias, weight))
        if not math.isfinite(self.scale) or self.scale == 0:
            raise InputError(f"expected a finite head scale other than 0, got {self.scale}; use 1 where there is none")
        if self.softcap is not None and not (math.isfinite(self.softcap) and self.softcap > 0):
            raise InputError(f"expected a positive soft cap, got {self.softcap}; use None where there is none")

    @property
    def n_rows(self) -> int:
        """Rows of the matrix, which may be more than the tokenizer has tokens."""
        return int(self.weight.shape[0])

    @property
    def width(self) -> int:
        """Width d of the features that it takes."""
        return int(self.weight.shape[1])

    def narrow(self, n_rows: int) -> Head:
        """The head of the first `n_rows` tokens, sharing this one's memory.

        Args:
            n_rows: Tokens that stay, 1 to V.

        Returns:
            This very head where nothing leaves.

        Raises:
            InputError: If there are not that many rows.
        """
        if not 1 <= n_rows <= self.n_rows:
            raise InputError(f"expected 1 to {self.n_rows} head rows to keep, got {n_rows}; take the common ids only")
        if n_rows == self.n_rows:
            return self
        bias = None if self.bias is None else self.bias[:n_rows]
        return dataclasses.replace(self, weight=self.weight[:n_rows], bias=bias)

    def rows(self, start: int, stop: int, dtype: str = "float32") -> Array:
        """Rows `start` to `stop` with the scale folded in, (stop - start, d), in the weight's library and device."""
        xp = namespace(self.weight)
        block = xp.astype(self.weight[start:stop], getattr(xp, dtype), copy=False)
        return block if self.scale == 1 else block * self.scale

    def biases(self, start: int, stop: int, dtype: str = "float32") -> Array:
        """Biases of the same rows with the scale folded in, (stop - start,); zeros where there is no bias."""
        xp = namespace(self.weight)
        if self.bias is None:
            return xp.zeros_like(self.weight[start:stop, 0], dtype=getattr(xp, dtype))
        return xp.astype(self.bias[start:stop], getattr(xp, dtype)) * self.scale

    def cap(self, values: Array) -> Array:
        """Apply the soft cap, if there is one, to scaled logits of any shape."""
        return values if self.softcap is None else self.softcap * namespace(values).tanh(values / self.softcap)

    def logits(self, z: Any) -> Array:
        """Logits of features.

        Args:
            z: Features at the input of the head, (n, d).

        Returns:
            Logits, (n, V), float32, in the weight's library and on its device. This is the whole array at once:
            for probes and tests; figures over many tokens come from `row_statistics`, which works in chunks.

        Raises:
            InputError: If the features have another width than the head.
        """
        self.check_width(z := check_rows(z, "features"), "features")
        xp = namespace(self.weight)
        z = xp.astype(place_like(z, self.weight), xp.float32)
        raw = z @ self.rows(0, self.n_rows).T
        return self.cap(raw if self.bias is None else raw + self.biases(0, self.n_rows))

    def check_width(self, z: Array, name: str) -> None:
        """Raise InputError unless the rows of `z` are as wide as this head's."""
        if int(z.shape[1]) != self.width:
            raise InputError(
                f"expected {name} of width {self.width}, the width of the head's rows, got {int(z.shape[1])}; "
                "give the features at the input of this very head"
            )

    def same_map(self, other: Head) -> bool:
        """Whether both heads give the same logits for all features: equal numbers, whatever the dtype they are in."""
        if self is other:
            return True
        if (self.n_rows, self.width, self.softcap) != (other.n_rows, other.width, other.softcap):
            return False
        shared = self.weight is other.weight and self.bias is other.bias
        return (shared and self.scale == other.scale) or self._same_numbers(other)

    def _same_numbers(self, other: Head) -> bool:
        xp = namespace(self.weight)
        for start in range(0, self.n_rows, _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, self.n_rows)
            # Compared in float64, where the product of a bfloat16 or float32 number and the scale is exact enough.
            ours, theirs = (head.rows(start, stop, "float64") for head in (self, other))
            if not bool(xp.all(ours == place_like(theirs, ours))):
                return False
            ours_bias, theirs_bias = (to_numpy(head.biases(start, stop, "float64")) for head in (self, other))
            if not np.array_equal(ours_bias, theirs_bias):
                return False
        return True
