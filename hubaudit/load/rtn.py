"""Simulated round-to-nearest quantization of a dense base: `rtn:4`, `rtn:4@g64`, `rtn:4,v=6,o=5`."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import torch

from hubaudit.errors import InputError
from hubaudit.load.assemble import assemble
from hubaudit.load.dense import read_folder_model
from hubaudit.load.folder import check_weights
from hubaudit.load.model import LoadedModel, ModelSource
from hubaudit.load.projection_names import IN_BLOCKS, Place, place_of, split, write_parts
from hubaudit.load.sizes import StoredSize, count_parameters
from hubaudit.load.structure import linear_modules, output_matrix, text_config
from hubaudit.load.weight_error import WeightError

__all__ = ["RtnSpec", "load_rtn", "round_parts_", "round_to_nearest_"]

_MIXED = f"(?:,(?:{'|'.join(IN_BLOCKS)})=[2-8])*"
_OPTION = re.compile(rf"(?P<bits>[2-8])(?:@g(?P<group>[1-9]\d{{0,5}}))?(?P<mixed>{_MIXED})")
_DEFAULT_GROUP = 128
_GROUP_OVERHEAD_BITS = 32  # a float16 scale and a float16 minimum
# Rows of a weight that are rounded at once, so that float32 copies stay small.
_BLOCK_ELEMENTS = 1 << 22


@dataclasses.dataclass(frozen=True)
class RtnSpec:
    """Bits a weight, weights that share a scale and a minimum, and projections that get other bits."""

    bits: int
    group: int = _DEFAULT_GROUP
    mixed: tuple[tuple[str, int], ...] = ()

    @classmethod
    def parse(cls, option: str | None) -> RtnSpec:
        """Read `BITS`, `BITS@gGROUP`, and behind either `,PROJECTION=BITS` any number of times.

        Raises:
            InputError: If it is none of these, bits are outside 2 to 8, the group is below 2, or a projection is
                named twice.
        """
        match = _OPTION.fullmatch(option or "")
        if match is None or match["group"] == "1":
            raise InputError(
                f"rtn:{option}: expected rtn:BITS or rtn:BITS@gGROUP with 2 to 8 bits and a group of 2 or more, as "
                f"rtn:4@g128, or with other bits for some of {', '.join(IN_BLOCKS)}, as rtn:4@g128,v=6."
            )
        pairs = [pair.split("=") for pair in match["mixed"].split(",")[1:]]
        mixed = {name: int(bits) for name, bits in pairs}
        if len(mixed) < len(pairs):
            raise InputError(f"rtn:{option}: a projection is named twice; name each once")
        return cls(int(match["bits"]), int(match["group"] or _DEFAULT_GROUP), tuple(mixed.items()))

    def of(self, part: str) -> RtnSpec:
        """What one projection gets."""
        return RtnSpec(dict(self.mixed).get(part, self.bits), self.group)

    def __str__(self) -> str:
        return f"{self.bits}@g{self.group}" + "".join(f",{name}={bits}" for name, bits in self.mixed)


def load_rtn(
    source: ModelSource, *, dtype: torch.dtype, device: torch.device, trust_remote_code: bool = False
) -> LoadedModel:
    """Load the base and round the linear layers of its decoder; embeddings and head stay as they are.

    Raises:
        InputError: If the option is malformed.
        ModelFileError: If the base cannot be loaded.
    """
    spec = RtnSpec.parse(source.option)
    weights = check_weights(source.path)
    model = read_folder_model(source.path, dtype=dtype, device=device, trust_remote_code=trust_remote_code)
    error = WeightError()
    n_quantized = n_groups = packed_bits = 0
    config = text_config(model)
    for name, module in linear_modules(model):
        matrix = output_matrix(module)
        n_quantized += matrix.numel()
        n_groups += matrix.shape[0] * math.ceil(matrix.shape[1] / spec.group)
        place, stored = place_of(f"{name}.weight"), module.weight
        if place is None or not spec.mixed:
            packed_bits += matrix.numel() * spec.bits
            round_to_nearest_(matrix, spec, error)
        else:
            assert isinstance(stored, torch.Tensor)
            packed_bits += round_parts_(stored.detach(), place, config, spec, error)
    n_parameters = count_parameters(model)
    packed_bits += n_groups * _GROUP_OVERHEAD_BITS
    bits = packed_bits + (n_parameters - n_quantized) * weights.bits_per_element
    return assemble(
        source,
        model,
        file_format=f"rtn:{spec}",
        dtype=dtype,
        device=device,
        size=StoredSize(n_parameters, n_quantized, bits),
        weight_error=error.relative,
        notes=[
            f"Simulated {spec.bits}-bit rounding of the decoder's linear weights in groups of {spec.group}"
            f"{_exceptions(spec)}; embeddings and head keep the base's precision."
        ],
    )


def _exceptions(spec: RtnSpec) -> str:
    return f" ({', '.join(f'{name} in {bits} bits' for name, bits in spec.mixed)})" if spec.mixed else ""


@torch.no_grad()
def round_parts_(weight: torch.Tensor, place: Place, config: Any, spec: RtnSpec, error: WeightError) -> int:
    """Round a stored weight in place, each projection in it to its own bits.

    Args:
        weight: As a file or a module holds it, also transposed or fused.
        place: Its place.
        config: The text configuration.
        spec: Bits and group.
        error: Where the error is counted.

    Returns:
        Bits that the levels take, without scales and minimums.
    """
    n_bits, matrices = 0, split(weight, place, config)
    for part, matrix in matrices.items():
        own = spec.of(part)
        n_bits += matrix.numel() * own.bits
        round_to_nearest_(matrix, own, error)
    # For most layouts they are views of the weight, and this writes nothing.
    write_parts(weight, place, config, matrices)
    return n_bits


@torch.no_grad()
def round_to_nearest_(weight: torch.Tensor, spec: RtnSpec, error: WeightError) -> None:
    """Replace a weight by its rounding, in place.

    A group of `spec.group` neighbours along a row (the input dimension; the last group may be shorter)
    is spread over 2^bits levels between its minimum and its maximum: `q = round((w - min) / step)`,
    `w' = q * step + min` with `step = (max - min) / (2^bits - 1)`. Step and minimum are float16, as
    they would be stored; the result is rounded to the weight's dtype.

    Args:
        weight: Shape (outputs, inputs), any float dtype, also a transposed view.
        spec: Bits and group.
        error: Where the error is counted, after all rounding.

    Source:
        The asymmetric group-wise simulation of Cosine Similarity Is Not Evidence, Sec. 5 (it reports a
        relative weight error of .1066 at 4 bits, 17 times that at 8); the levels are those of GGUF's Q4_1.
    """
    n_rows, n_inputs = weight.shape
    n_whole = n_inputs // spec.group * spec.group
    block = max(1, _BLOCK_ELEMENTS // n_inputs)
    for start in range(0, n_rows, block):
        rows = weight[start : start + block]
        base = rows.float()
        rounded = torch.empty_like(base)
        if n_whole:
            groups = base[:, :n_whole].reshape(len(base), -1, spec.group)
            rounded[:, :n_whole] = _round_groups(groups, spec.bits).reshape(len(base), -1)
        if n_whole < n_inputs:
            rounded[:, n_whole:] = _round_groups(base[:, n_whole:], spec.bits)
        rounded = rounded.to(weight.dtype)
        error.add(base, rounded)  # before the copy: for float32 weights `base` is the weight itself
        rows.copy_(rounded)


def _round_groups(groups: torch.Tensor, bits: int) -> torch.Tensor:
    """Round float32 groups, which lie along the last dimension."""
    top = 2**bits - 1
    low, high = groups.aminmax(dim=-1, keepdim=True)
    step = ((high - low) / top).half().float()
    low = low.half().float()
    # A group of equal numbers, or one so narrow that its step is 0 in float16, becomes its minimum.
    levels = torch.where(step > 0, (groups - low) / step, 0).round_().clamp_(0, top)
    return levels.mul_(step).add_(low)
