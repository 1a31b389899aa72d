from __future__ import annotations

from typing import Any

import pytest

from hubaudit.hub.children_claims import ModelShape, adapter_claim, card_claim, shape_of, wrong_shape


@pytest.mark.parametrize("named", ["Org/Tiny", "/home/me/tiny", "out/checkpoint/final", "", None, 3])
def test_an_adapter_that_does_not_contradict_its_card(named: Any) -> None:
    assert adapter_claim("org/tiny", named) is None


def test_an_adapter_and_a_card_of_another_base() -> None:
    assert adapter_claim("org/tiny", "other/tiny") == "its adapter_config.json names another base: other/tiny"
    assert card_claim("org/tiny", ["org/large", "org/x"]) == "its card names another base: org/large"
    assert card_claim("org/tiny", ["org/large", "ORG/tiny"]) is None
    assert card_claim("org/tiny", []) is None


def test_padding_and_added_tokens_are_no_other_vocabulary() -> None:
    base = ModelShape(vocabulary=151643, hidden_size=64)
    assert wrong_shape(base, ModelShape(vocabulary=152064)) is None
    assert wrong_shape(base, ModelShape(vocabulary=151643 + 1025)) is not None
    assert wrong_shape(base, ModelShape()) is None
    assert wrong_shape(ModelShape(), ModelShape(hidden_size=3)) is None


def test_shapes_of_configs_of_several_kinds() -> None:
    assert shape_of({"n_embd": 8, "n_layer": 2, "vocab_size": 50}) == ModelShape(
        hidden_size=8, n_layers=2, vocabulary=50
    )
    nested = {"model_type": "gemma3", "text_config": {"hidden_size": 9, "num_hidden_layers": 3}, "auto_map": {"a": "b"}}
    assert shape_of(nested) == ModelShape(model_type="gemma3", hidden_size=9, n_layers=3, remote_code=True)
    assert shape_of({"hidden_size": -1, "num_hidden_layers": True, "vocab_size": "9", "text_config": 3}) == ModelShape()
