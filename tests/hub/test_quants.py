from __future__ import annotations

import pytest

from hubaudit.hub.quants import group_quants


def test_shards_are_one_quant_and_its_size_is_their_sum() -> None:
    (quant,) = group_quants({f"UD-Q4_K_XL/m-UD-Q4_K_XL-0000{n}-of-00003.gguf": 10**n for n in (2, 1, 3)})
    assert quant.label == "UD-Q4_K_XL"
    assert quant.files[0] == "UD-Q4_K_XL/m-UD-Q4_K_XL-00001-of-00003.gguf"
    assert len(quant.files) == 3
    assert quant.size_bytes == 1110
    assert quant.missing == ()


def test_a_missing_shard_is_named_and_an_absurd_count_is_bounded() -> None:
    (quant,) = group_quants({"m-Q8_0-00001-of-00003.gguf": 1, "m-Q8_0-00003-of-00003.gguf": 1})
    assert quant.missing == ("m-Q8_0-00002-of-00003.gguf",)
    (quant,) = group_quants({"m-Q8_0-00001-of-99999.gguf": 1})
    assert len(quant.missing) == 999


@pytest.mark.parametrize(
    "name", ["mmproj-model-f16.gguf", "model.mmproj-Q8_0.gguf", "imatrix.gguf", "m-imatrix.gguf", "mtp/m-Q4_0.gguf"]
)
def test_files_that_are_no_language_model_are_left_out(name: str) -> None:
    assert group_quants({name: 1, "README.md": 1, "model.safetensors": 1}) == []


@pytest.mark.parametrize(
    ("name", "label", "bits", "plain"),
    [
        ("tiny-Q4_K_M.gguf", "Q4_K_M", 4, False),
        ("tiny-fp16-q4_k_m.gguf", "Q4_K_M", 4, False),
        ("tiny.i1-IQ2_XS.gguf", "i1-IQ2_XS", 2, False),
        ("Qwen3-8B-UD-Q4_K_XL.gguf", "UD-Q4_K_XL", 4, False),
        ("gpt-oss-MXFP4_MOE.gguf", "MXFP4_MOE", 4, False),
        ("BF16/tiny.gguf", "BF16", 16, True),
        ("tiny.fp16.gguf", "FP16", 16, True),
        ("TINY-Q8_0.GGUF", "Q8_0", 8, False),
        ("ggml-model.gguf", "ggml-model", None, False),
    ],
)
def test_the_last_label_of_a_name_counts(name: str, label: str, bits: int | None, plain: bool) -> None:
    (quant,) = group_quants({name: 7})
    assert (quant.label, quant.bits, quant.plain) == (label, bits, plain)


def test_two_models_of_one_label_stay_apart_and_the_largest_is_first() -> None:
    quants = group_quants({"a-Q4_0.gguf": 5, "b-Q4_0.gguf": 9, "c.gguf": None})
    assert [quant.files[0] for quant in quants] == ["b-Q4_0.gguf", "a-Q4_0.gguf", "c.gguf"]
    assert quants[-1].size_bytes is None
