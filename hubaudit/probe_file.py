"""A user's linear probe as a file that an audit reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hubaudit.errors import InputError
from hubaudit.files import write_file

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["save_probe"]


def save_probe(path: Path | str, direction: npt.ArrayLike, *, threshold: float, layer: int) -> None:
    """Save a linear probe for `hubaudit audit --probe`.

    Args:
        path: A safetensors file to write.
        direction: (width,), pointing to class A, such as the coefficients of a logistic regression.
        threshold: `h . direction` above which a prompt counts as class A; minus a regression's intercept.
        layer: Decoder block whose output is read at the prompt's last token, 0 = the first.

    Raises:
        InputError: If the direction is no finite vector, or it is all zeros, or the layer is negative.

    Example:
        >>> save_probe("probe.safetensors", [0.5, -1.0], threshold=0.1, layer=12)  # doctest: +SKIP
    """
    import numpy as np
    from safetensors.numpy import save

    values = np.asarray(direction, dtype=np.float32)
    values = values.reshape(-1) if values.ndim == 2 and values.shape[0] == 1 else values
    if values.ndim != 1 or not np.isfinite(values).all() or not values.any() or not np.isfinite(threshold):
        raise InputError(
            f"expected a finite direction of shape (width,) that is not 0 and a finite threshold, got shape "
            f"{values.shape} and {threshold}"
        )
    if layer < 0:
        raise InputError(f"expected a decoder block, 0 = the first, got layer {layer}")
    parts = {"direction": values, "threshold": np.array([threshold], np.float64), "layer": np.array([layer])}
    write_file(Path(path), save(parts))
