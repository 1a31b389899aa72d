"""GPTQ and AWQ tensors -> dense matrices: bits out of 32-bit words, less zeros, times scales."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import torch

from hubaudit.errors import ModelFileError

__all__ = ["PackedLayer", "check_gptq", "expand_awq", "expand_gptq"]

_WORD = 32
_BLOCK_COLUMNS = 1024
"""Columns that are unpacked at once: 1024 of 16,384 rows take 64 MB an array."""
# AWQ's GEMM kernel: the value at bits 4i of word j is column 8j + this[i].
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
_AWQ_BITS = 4

Words = npt.NDArray[np.uint32]


@dataclasses.dataclass(frozen=True)
class PackedLayer:
    """The tensors of one quantized linear layer."""

    name: str
    qweight: torch.Tensor
    """int32, GPTQ (inputs * bits / 32, outputs), AWQ (inputs, outputs / 8)."""
    qzeros: torch.Tensor
    """int32, (groups, outputs * bits / 32)."""
    scales: torch.Tensor
    """(groups, outputs), a float dtype."""
    g_idx: torch.Tensor | None = None
    """int32, (inputs,): the group of each input; None where inputs are grouped in order."""


def expand_gptq(layer: PackedLayer, *, bits: int, group_size: int, zeros_less_one: bool) -> torch.Tensor:
    """The dense matrix of a GPTQ layer.

    Args:
        layer: Its tensors.
        bits: 2, 3, 4 or 8.
        group_size: Inputs of a group; -1 or 0 for all.
        zeros_less_one: Whether the file holds zero points less one (checkpoint format `gptq`, v1), or as they are
            (`gptq_v2`).

    Returns:
        The weight, (outputs, inputs), float32.

    Raises:
        ModelFileError: If the shapes contradict each other.

    Source:
        The packing of AutoGPTQ and GPTQModel: values follow each other from the lowest bit, across words.
    """
    groups = check_gptq(layer, bits=bits, group_size=group_size)
    inputs, outputs = len(groups), int(layer.scales.shape[1])
    zeros = _unpack(_words(layer.qzeros).T, bits, outputs).T
    if zeros_less_one:
        zeros = (zeros + np.uint32(1)) & np.uint32(2**bits - 1)
    words = _words(layer.qweight)
    return _dense(layer, zeros, groups, lambda columns: _unpack(words[:, columns], bits, inputs))


def check_gptq(layer: PackedLayer, *, bits: int, group_size: int) -> npt.NDArray[np.int64]:
    """Check a GPTQ layer's shapes and groups; arguments and errors as of `expand_gptq`.

    Returns:
        The group of each input, (inputs,).
    """
    outputs = _outputs(layer)
    inputs = layer.qweight.shape[0] * _WORD // bits
    groups = _groups(layer, inputs, group_size)
    expected = (inputs * bits // _WORD, outputs), (int(layer.scales.shape[0]), outputs * bits // _WORD)
    _check_shapes(layer, *expected)
    return groups


def expand_awq(layer: PackedLayer, *, group_size: int) -> torch.Tensor:
    """The dense matrix of an AWQ layer in its GEMM form, 4 bits.

    Args:
        layer: Its tensors.
        group_size: Inputs of a group; -1 or 0 for all.

    Returns:
        The weight, (outputs, inputs), float32.

    Raises:
        ModelFileError: If the shapes contradict each other.

    Source:
        The packing of AutoAWQ's WQLinear_GEMM.
    """
    inputs, outputs = int(layer.qweight.shape[0]), _outputs(layer)
    per_word = _WORD // _AWQ_BITS
    _check_shapes(layer, (inputs, outputs // per_word), (int(layer.scales.shape[0]), outputs // per_word))
    groups = _groups(layer, inputs, group_size)
    words, zeros = _words(layer.qweight), _unpack_awq(_words(layer.qzeros))

    def values(columns: slice) -> Words:
        return _unpack_awq(words[:, columns.start // per_word : -(-columns.stop // per_word)])

    return _dense(layer, zeros, groups, values)


def _dense(layer: PackedLayer, zeros: Words, groups: npt.NDArray[np.int64], values: object) -> torch.Tensor:
    """Values less zeros, times scales, transposed, some columns at a time."""
    assert callable(values)
    scales = layer.scales.float().numpy()
    outputs, inputs = scales.shape[1], len(groups)
    dense = np.empty((outputs, inputs), dtype=np.float32)
    for start in range(0, outputs, _BLOCK_COLUMNS):
        columns = slice(start, min(start + _BLOCK_COLUMNS, outputs))
        block = values(columns).astype(np.float32)
        block -= zeros[:, columns][groups].astype(np.float32)
        block *= scales[:, columns][groups]
        dense[columns] = block.T
    return torch.from_numpy(dense)


def _unpack(words: Words, bits: int, count: int) -> Words:
    """Values of `bits` that follow each other down the columns, (count, columns)."""
    offsets = np.arange(count) * bits
    first, shift = offsets // _WORD, (offsets % _WORD).astype(np.uint32)[:, None]
    values: Words = words[first] >> shift
    crossing = np.flatnonzero(shift[:, 0] + bits > _WORD)
    if len(crossing):
        values[crossing] |= words[first[crossing] + 1] << (np.uint32(_WORD) - shift[crossing])
    values &= np.uint32(2**bits - 1)
    return values


def _unpack_awq(words: Words) -> Words:
    per_word = _WORD // _AWQ_BITS
    values = np.empty((*words.shape, per_word), dtype=np.uint32)
    for place, column in enumerate(_AWQ_ORDER):
        values[:, :, column] = (words >> np.uint32(_AWQ_BITS * place)) & np.uint32(2**_AWQ_BITS - 1)
    return values.reshape(words.shape[0], -1)


def _words(tensor: torch.Tensor) -> Words:
    return np.ascontiguousarray(tensor.numpy()).view(np.uint32)


def _outputs(layer: PackedLayer) -> int:
    tensors = (layer.qweight, layer.qzeros, layer.scales)
    if any(tensor.dim() != 2 or not tensor.numel() for tensor in tensors):
        raise _mismatch(layer, "three matrices")
    if layer.qweight.dtype != torch.int32 or layer.qzeros.dtype != torch.int32 or not layer.scales.is_floating_point():
        raise _mismatch(layer, "int32 words and float scales")
    return int(layer.scales.shape[1])


def _groups(layer: PackedLayer, inputs: int, group_size: int) -> npt.NDArray[np.int64]:
    """The group of each input, (inputs,)."""
    n_groups = int(layer.scales.shape[0])
    if layer.g_idx is not None:
        groups = layer.g_idx.numpy().astype(np.int64)
    else:
        groups = np.arange(inputs) // (group_size if group_size > 0 else inputs)
    if groups.shape != (inputs,) or groups.min() < 0 or groups.max() >= n_groups:
        raise _mismatch(layer, f"a group from 0 to {n_groups - 1} for each of {inputs} inputs")
    return groups


def _check_shapes(layer: PackedLayer, qweight: tuple[int, int], qzeros: tuple[int, int]) -> None:
    if tuple(layer.qweight.shape) != qweight or tuple(layer.qzeros.shape) != qzeros:
        raise _mismatch(layer, f"shapes {list(qweight)} and {list(qzeros)}")


def _mismatch(layer: PackedLayer, expected: str) -> ModelFileError:
    found = ", ".join(str(list(tensor.shape)) for tensor in (layer.qweight, layer.qzeros, layer.scales))
    return ModelFileError(
        f"{layer.name[:120]}: expected {expected} of packed weights, zeros and scales, got {found}; the quantization's "
        "settings and the weights do not belong together: download the model again"
    )
