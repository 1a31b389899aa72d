"""Which parameter, or which part of one, a GGUF tensor fills."""

from __future__ import annotations

import dataclasses
from typing import Any

import gguf
import torch
from torch import nn

from hubaudit.errors import ModelFileError
from hubaudit.load.gguf_arch import Architecture
from hubaudit.load.gguf_file import GgufFile, TensorInfo
from hubaudit.load.structure import output_module

__all__ = ["EMBEDDING_TENSOR", "HEAD_TENSOR", "Target", "match_tensors"]

HEAD_TENSOR, EMBEDDING_TENSOR = "output.weight", "token_embd.weight"

# What the base's configuration already says, or what only llama.cpp needs.
_IGNORED = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")


@dataclasses.dataclass(frozen=True)
class Target:
    """Where a tensor goes: a parameter, or one half of the second dimension of fused experts."""

    parameter_name: str
    view: torch.Tensor
    """The part of the parameter to fill; it shares the parameter's memory."""


def match_tensors(model: nn.Module, file: GgufFile, architecture: Architecture, config: Any) -> dict[str, Target]:
    """Pair every tensor of the file with its place in the model, one to one.

    Args:
        model: Built from the base's configuration, weights allocated but not set.
        file: The GGUF file.
        architecture: Its architecture.
        config: The base's text configuration.

    Returns:
        A target for each tensor that is to be read.

    Raises:
        ModelFileError: If a parameter has no tensor, a tensor no parameter, or shapes differ; the message
            names the tensor, what was expected and what was found.
    """
    name = file.paths[0].name
    targets = _targets(model, architecture, config.num_hidden_layers, name)
    wanted = {tensor for tensor in file.tensors if not _ignored(tensor)}
    missing = sorted(set(targets) - wanted)
    if missing:
        raise ModelFileError(
            f"{name}: expected tensor {missing[0]} of shape {list(targets[missing[0]].view.shape)} for the base's "
            f"{targets[missing[0]].parameter_name}, got none ({len(missing)} missing of {len(targets)}). Give the "
            "base that this file was made from."
        )
    unexpected = sorted(wanted - set(targets))
    if unexpected:
        raise ModelFileError(
            f"{name}: expected only tensors that the base has a place for, got {unexpected[0]} of shape "
            f"{list(file.tensors[unexpected[0]].shape)} ({len(unexpected)} such). Give the base that this file was "
            "made from."
        )
    for tensor, target in targets.items():
        _check_shape(file.tensors[tensor], target, architecture, config, name)
    return targets


def _ignored(tensor: str) -> bool:
    return tensor in _IGNORED or tensor.endswith(".attn_rot_embd.weight") or ".rope_factors_" in tensor


def _targets(model: nn.Module, architecture: Architecture, n_layers: int, file_name: str) -> dict[str, Target]:
    number = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}[architecture.name]
    name_map = gguf.get_tensor_name_map(number, n_layers)
    head = output_module(model)
    heads = {id(parameter) for parameter in head.parameters(recurse=False)}
    targets: dict[str, Target] = {}
    # A tied head appears once, under the embedding's name, which is what the file calls it too.
    for name, parameter in model.named_parameters():
        places = _tensor_names(name, parameter.data, name_map, is_head=id(parameter) in heads)
        if not places:
            raise ModelFileError(
                f"{file_name}: expected a GGUF name for the base's parameter {name}, the gguf package knows none for "
                f"the architecture {architecture.name}. Use a safetensors or bitsandbytes variant."
            )
        for tensor, view in places:
            targets[tensor] = Target(name, view)
    return targets


def _tensor_names(
    name: str, parameter: torch.Tensor, name_map: Any, *, is_head: bool
) -> list[tuple[str, torch.Tensor]]:
    """The file's names for a parameter: one, or two for gate and up projections of experts, which it keeps apart."""
    stem, suffix = name, ".weight"
    for ending in (".weight", ".bias"):
        if name.endswith(ending):
            stem, suffix = name.removesuffix(ending), ending
    if stem.endswith(".experts.gate_up_proj"):
        half = parameter.shape[1] // 2
        down = name_map.get_name(stem.replace("gate_up_proj", "down_proj"))
        if down is not None:
            return [
                (down.replace("_down_", "_gate_") + suffix, parameter[:, :half]),
                (down.replace("_down_", "_up_") + suffix, parameter[:, half:]),
            ]
    found = name_map.get_name(stem)
    if found is None and is_head:
        found = HEAD_TENSOR.removesuffix(".weight")  # some architectures list no head of their own
    return [(found + suffix, parameter)] if found is not None else []


def _check_shape(info: TensorInfo, target: Target, architecture: Architecture, config: Any, name: str) -> None:
    restore = architecture.restorer(info.name, config)
    shape: tuple[int, ...] = info.shape
    if restore is not None:
        try:
            shape = tuple(restore(torch.empty(shape, device="meta")).shape)
        except RuntimeError:  # it cannot be divided into the base's heads
            shape = ()
    # A vector may be stored as a matrix of one row or the other way round; the numbers are the same.
    if [size for size in shape if size != 1] != [size for size in target.view.shape if size != 1]:
        raise ModelFileError(
            f"{name}: expected tensor {info.name} to fill the base's {target.parameter_name} of shape "
            f"{list(target.view.shape)}, got the shape {list(info.shape)}. Give the base that this file was made from."
        )
