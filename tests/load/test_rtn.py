"""Simulated rounding, against its literal definition and GGUF's own lattice."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from tiny_models import save_tiny

from hubaudit.errors import InputError
from hubaudit.load import LoadedModel, ModelSource, load_model
from hubaudit.load.projection_names import place_of, split
from hubaudit.load.rtn import RtnSpec, round_to_nearest_
from hubaudit.load.weight_error import WeightError


def rounded(weight: torch.Tensor, spec: str) -> tuple[torch.Tensor, float]:
    result, error = weight.clone(), WeightError()
    round_to_nearest_(result, RtnSpec.parse(spec), error)
    assert error.relative is not None
    return result, error.relative


def literal(weight: np.ndarray, bits: int, group: int) -> np.ndarray:
    """The definition in plain loops; step and minimum are float16."""
    result = weight.astype(np.float64)
    for row in range(weight.shape[0]):
        for start in range(0, weight.shape[1], group):
            values = weight[row, start : start + group].astype(np.float64)
            low = float(np.float16(values.min()))
            step = float(np.float16((values.max() - values.min()) / (2**bits - 1)))
            for column, value in enumerate(values, start):
                level = min(max(round((value - low) / step), 0), 2**bits - 1)
                result[row, column] = low + level * step
    return result


@pytest.mark.parametrize("bits", range(2, 9))
@pytest.mark.parametrize(("columns", "group"), [(256, 128), (200, 128), (100, 128), (96, 32)])
def test_the_literal_definition(bits: int, columns: int, group: int) -> None:
    weight = torch.randn(5, columns, generator=torch.Generator().manual_seed(bits))
    result, error = rounded(weight, f"{bits}@g{group}")
    expected = literal(weight.numpy(), bits, group)
    # float32 arithmetic: a value within 1e-6 of a step's middle may round the other way; none does here.
    np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=1e-6)
    direct = np.linalg.norm(expected - weight.numpy()) / np.linalg.norm(weight.numpy())
    assert error == pytest.approx(direct, rel=1e-5)


def test_by_hand() -> None:
    # 2 bits over [0, 3]: levels 0 1 2 3; over [-1, 2]: levels -1 0 1 2. Halves go to the even level.
    weight = torch.tensor([[0.0, 0.4, 1.6, 3.0, -1.0, 0.75, 1.4, 2.0]])
    result, error = rounded(weight, "2@g4")
    assert result.tolist() == [[0.0, 0.0, 2.0, 3.0, -1.0, 1.0, 1.0, 2.0]]
    # Errors .4 .4 .25 .4; squares .16*3 + .0625 over the squares of the weights.
    assert error == pytest.approx((0.5425 / (0.16 + 2.56 + 9 + 1 + 0.5625 + 1.96 + 4)) ** 0.5, rel=1e-6)


def test_groups_of_equal_numbers_and_tiny_ones() -> None:
    weight = torch.tensor([[0.5, 0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0], [1e-9, -1e-9, 2e-9, 0.0]])
    result, _ = rounded(weight, "4@g4")
    assert torch.equal(result[:2], weight[:2])
    assert result[2].tolist() == [0.0] * 4  # below float16


def test_the_lattice_of_q4_1_is_left_alone() -> None:
    """GGUF's Q4_1 is 4 bits in groups of 32 with a float16 minimum: rounding it again changes almost nothing."""
    weight = np.random.default_rng(0).normal(size=(64, 256)).astype(np.float32)
    kind = gguf.GGMLQuantizationType.Q4_1
    on_lattice = torch.from_numpy(np.array(gguf.quants.dequantize(gguf.quants.quantize(weight, kind), kind)))
    assert rounded(on_lattice, "4@g32")[1] < 1e-3
    assert rounded(on_lattice, "4@g128")[1] > 0.05
    # And on the original weights it is as good as Q4_1 itself, to 1 %.
    of_q4_1 = float((on_lattice - torch.from_numpy(weight)).norm() / torch.from_numpy(weight).norm())
    assert rounded(torch.from_numpy(weight), "4@g32")[1] == pytest.approx(of_q4_1, rel=0.01)


def test_error_falls_seventeen_times_from_four_to_eight_bits() -> None:
    """Cosine Similarity Is Not Evidence, Sec. 5: INT8's weight error is 17 times smaller than INT4's."""
    weight = torch.randn(256, 1024, generator=torch.Generator().manual_seed(0))
    ratio = rounded(weight, "4@g128")[1] / rounded(weight, "8@g128")[1]
    assert ratio == pytest.approx(255 / 15, rel=0.02)


def test_bfloat16_weights_and_transposed_views() -> None:
    weight = torch.randn(64, 128, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    plain, error = rounded(weight, "4")
    assert torch.equal(plain, torch.from_numpy(literal(weight.float().numpy(), 4, 128)).to(torch.bfloat16))
    storage = weight.T.contiguous()
    round_to_nearest_(storage.T, RtnSpec.parse("4"), counted := WeightError())
    assert torch.equal(storage.T, plain)
    assert counted.relative == error


def test_rows_beyond_one_block_are_rounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.randn(50, 64, generator=torch.Generator().manual_seed(0))
    whole = rounded(weight, "3@g64")
    monkeypatch.setattr("hubaudit.load.rtn._BLOCK_ELEMENTS", 7 * 64)
    monkeypatch.setattr("hubaudit.load.weight_error._BLOCK_ELEMENTS", 3 * 64)
    blocks = rounded(weight, "3@g64")
    assert torch.equal(blocks[0], whole[0])
    assert blocks[1] == pytest.approx(whole[1], rel=1e-12)


def load(folder: Path, option: str, dtype: str = "float32") -> LoadedModel:
    return load_model(ModelSource(f"rtn:{option}", "rtn", folder, option), base=None, dtype=dtype, device="cpu")


@pytest.mark.parametrize("model_type", ["llama", "gpt2"])
def test_only_linear_weights_of_the_decoder_change(model_type: str, tmp_path: Path) -> None:
    source = save_tiny(tmp_path, model_type, tie_word_embeddings=True)
    loaded = load(tmp_path, "4@g32")
    ours = dict(loaded.model.named_parameters())
    squared_error = squared_norm = 0.0
    for name, parameter in source.named_parameters():
        values = parameter.detach()
        block = name.startswith(("model.layers.", "transformer.h."))
        changed = block and values.dim() == 2
        assert torch.equal(ours[name], values) != changed, name
        if changed:
            # GPT-2 keeps its weights as (inputs, outputs); groups run along the inputs.
            expected = literal(values.T.numpy() if model_type == "gpt2" else values.numpy(), 4, 32)
            expected = expected.T if model_type == "gpt2" else expected
            np.testing.assert_allclose(ours[name].numpy(), expected, atol=1e-6)
            squared_error += float((ours[name] - values).double().square().sum())
            squared_norm += float(values.double().square().sum())
    assert loaded.weight_error == pytest.approx((squared_error / squared_norm) ** 0.5, rel=1e-6)
    assert (loaded.format, loaded.engine) == ("rtn:4@g32", "torch")
    assert not loaded.head.quantized


def test_sizes_by_hand(tmp_path: Path) -> None:
    save_tiny(tmp_path, "llama", dtype=torch.bfloat16)
    loaded = load(tmp_path, "3", dtype="bfloat16")
    linear = 2 * (64 * 64 * 2 + 32 * 64 * 2 + 96 * 64 * 3)
    others = 2 * 96 * 64 + 5 * 64  # embedding and head apart, norms
    # Rows have 64 or 96 inputs, so each row is one group: q k v o gate up of 64, down of 96.
    groups = 2 * (64 + 32 + 32 + 64 + 96 + 96 + 64)
    bits = linear * 3 + groups * 32 + others * 16
    assert loaded.quantized_fraction == pytest.approx(linear / (linear + others), abs=1e-12)
    assert loaded.bits_per_weight == pytest.approx(bits / (linear + others), abs=1e-12)
    assert loaded.size_bytes == bits / 8


@pytest.mark.parametrize("option", ["", "1", "9", "16", "4@128", "4@g0", "4@g1", "4@g", "g128", "4.5", "-4", None])
def test_bad_specs(option: str | None, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected rtn:BITS or rtn:BITS@gGROUP"):
        load(tmp_path, option)  # type: ignore[arg-type]  # None is what a bare "rtn" gives


@pytest.mark.parametrize("model_type", ["llama", "phi3", "gpt_neox"])
def test_projections_with_bits_of_their_own(model_type: str, tmp_path: Path) -> None:
    save_tiny(tmp_path, model_type)

    def matrices(option: str) -> dict[tuple[int | None, str], torch.Tensor]:
        loaded = load_model(ModelSource("m", "rtn", tmp_path, option, None, None), dtype="float32", device="cpu")
        config, found = loaded.model.config, {}
        sizes.append(loaded.bits_per_weight)
        for name, parameter in loaded.model.named_parameters():
            if (place := place_of(name)) is not None:
                for part, matrix in split(parameter.detach(), place, config).items():
                    found[place.layer, part] = matrix.clone()
        return found

    sizes: list[float] = []
    low, high, mixed = matrices("3@g32"), matrices("6@g32"), matrices("3@g32,v=6,down=6")
    for key, matrix in mixed.items():
        assert torch.equal(matrix, high[key] if key[1] in ("v", "down") else low[key]), key
    assert not torch.equal(low[0, "v"], high[0, "v"])
    assert sizes[0] < sizes[2] < sizes[1]


def test_mixed_specs_are_read_and_refused() -> None:
    spec = RtnSpec.parse("4,v=6,down=5")
    assert (spec.of("v").bits, spec.of("q").bits, str(spec)) == (6, 4, "4@g128,v=6,down=5")
    for option in ("4,v", "4,v=9", "4,head=5", "4,v=5,v=6", "4,,v=5"):
        with pytest.raises(InputError, match=r"as rtn:4|named twice"):
            RtnSpec.parse(option)
