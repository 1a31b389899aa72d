"""Omega, differentiable, and the features that it compares."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Literal, get_args

import torch

from hubaudit.errors import InputError, VariantError
from hubaudit.load.head_input import head_input
from hubaudit.load.structure import output_module
from hubaudit.train.reference import Reference

__all__ = ["ALIGNMENTS", "AlignmentName", "evaluating", "omega", "reference_features"]

AlignmentName = Literal["identity", "procrustes"]
ALIGNMENTS = get_args(AlignmentName)


def omega(z_base: torch.Tensor, z_now: torch.Tensor, alignment: AlignmentName = "identity") -> torch.Tensor:
    """Similarity of the shape of two feature matrices, 1 for the same up to scale.

    Args:
        z_base: The base's features, (n, d).
        z_now: The current model's features of the same tokens, (n, d).
        alignment: `identity` is `<Z_0, Z_t> / (|Z_0| |Z_t|)`; `procrustes` takes the nuclear norm of `Z_0^T Z_t`,
            which is the best over all rotations and says less about a head that stays where it is.

    Returns:
        A scalar of float32, or float64 where both are; differentiable in both matrices.

    Raises:
        InputError: If the shapes differ or the alignment's name is unknown.

    Source:
        PRISM, Eq. (3) and (8). Equal to `omega` of the metric `prism_bound` with equal weights.

    Example:
        >>> z = torch.tensor([[3.0, 4.0], [1.0, 0.0]])
        >>> float(omega(z, 2 * z))
        1.0
    """
    if z_base.shape != z_now.shape or z_base.dim() != 2:
        raise InputError(f"expected two matrices of one shape, got {tuple(z_base.shape)} and {tuple(z_now.shape)}")
    if alignment not in ALIGNMENTS:
        raise InputError(f"alignment: expected one of {', '.join(ALIGNMENTS)}, got {alignment!r}")
    # Under autocast a product of bfloat16 has three digits: 1 - Omega would be noise.
    with torch.autocast(z_now.device.type, enabled=False):
        dtype = torch.promote_types(torch.promote_types(z_base.dtype, z_now.dtype), torch.float32)
        first, second = z_base.to(dtype), z_now.to(dtype)
        # Unit norms before the product, not after it, so that large features do not overflow nor lose digits.
        first, second = first / torch.linalg.matrix_norm(first), second / torch.linalg.matrix_norm(second)
        if alignment == "identity":
            similarity: torch.Tensor = 1 - (first - second).square().sum() / 2
        else:
            similarity = torch.linalg.matrix_norm(first.T @ second, ord="nuc")
        return similarity


def reference_features(model: Any, reference: Reference) -> torch.Tensor:
    """What the model's head receives for each token of the reference set.

    Args:
        model: A causal language model, wrapped by accelerate or PEFT or not.
        reference: On the model's device.

    Returns:
        Features of the tokens without padding, (tokens, d), with their graph where gradients are on.

    Raises:
        VariantError: If the model has no output head, or calls it other than once with a row a token.
    """
    shape = reference.input_ids.shape
    with head_input(output_module(_bare(model))) as taken:
        model(input_ids=reference.input_ids, attention_mask=reference.attention_mask, use_cache=False)
    if len(taken) != 1 or taken[0].shape[:-1] != shape:
        found = ", ".join(str(list(states.shape)) for states in taken) or "no call"
        raise VariantError(
            f"expected one call of the head with {list(shape)} rows, got {found}; this cannot be trained"
        )
    return taken[0][reference.attention_mask.bool()]


@contextlib.contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """The model in eval mode, so that dropout is no drift; the modes of all its modules return."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _bare(model: Any) -> Any:
    """The module that knows its head, inside what distributes it."""
    while not callable(getattr(model, "get_output_embeddings", None)) and hasattr(model, "module"):
        model = model.module
    return model
