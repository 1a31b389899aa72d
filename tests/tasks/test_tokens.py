from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hubaudit.errors import InputError, ModelFileError, VariantError
from hubaudit.tasks import ContrastSet, Item, Task, tokenize_contrast, tokenize_task
from hubaudit.tasks.formats import answer_item, question_item
from hubaudit.tasks.vocabulary import compare_tokenizers, load_tokenizer


def one(item: Item, tokenizer: Any, *, joined: bool = True, max_length: int = 512) -> Any:
    task = Task("t", "multiple_choice", "here", "acc", (item,), joined)
    return tokenize_task(task, tokenizer, max_length=max_length).items[0]


def test_inputs_and_targets(tiny_tokenizer: Any) -> None:
    item = one(question_item("i", "Why?", ["so", "no"], 0), tiny_tokenizer)
    ids = tiny_tokenizer.encode("Why? so")
    assert list(item.options[0].input_ids) == ids[:-1]
    assert list(item.options[0].target_ids) == ids[4:]
    assert item.lengths == (2, 2)


def test_trailing_spaces_of_the_context_belong_to_the_continuation(tiny_tokenizer: Any) -> None:
    item = one(Item("i", ("Why? ",), ("so",), ("so",), 0), tiny_tokenizer)
    assert list(item.options[0].target_ids) == tiny_tokenizer.encode(" so")


def test_a_long_context_loses_its_left(tiny_tokenizer: Any) -> None:
    item = one(question_item("i", "x" * 100 + "Why?", ["so", "no"], 0), tiny_tokenizer, max_length=10)
    assert len(item.options[0].input_ids) == 10
    assert list(item.options[0].input_ids) == tiny_tokenizer.encode("xxxxWhy? s")


def test_an_option_without_tokens_is_refused(tiny_tokenizer: Any) -> None:
    item = Item("i", ("Why?", "Why?"), (" so", ""), ("so", "nothing"), 0)
    with pytest.raises(InputError, match="item i: the option 'nothing' has no tokens"):
        one(item, tiny_tokenizer)


def test_an_option_longer_than_the_context_is_refused(tiny_tokenizer: Any) -> None:
    with pytest.raises(InputError, match="an option has 21 tokens, but the model takes 10"):
        one(answer_item("i", "p", " " + "y" * 20), tiny_tokenizer, max_length=10)


def test_without_a_context_the_first_token_is_eos(tiny_tokenizer: Any) -> None:
    item = one(Item("i", ("",), ("abc",), ("abc",), 0), tiny_tokenizer)
    assert item.options[0].input_ids[0] == tiny_tokenizer.eos_token_id
    assert len(item.options[0].target_ids) == 3


def test_contrast_goes_through_the_chat_template(tiny_tokenizer: Any) -> None:
    contrast = ContrastSet("c", "here", ("do",), ("be",))
    first, second = tokenize_contrast(contrast, tiny_tokenizer, max_length=100)
    assert tiny_tokenizer.decode(first) == "<|user|>do<|assistant|>"
    assert first[-1] == second[-1]


def test_tokens_that_are_used_must_mean_the_same(tiny_base: Path, tiny_tokenizer: Any, tmp_path: Path) -> None:
    text = (tiny_base / "tokenizer.json").read_text()
    same = compare_tokenizers(tiny_base, tiny_tokenizer, SimpleNamespace(token_ids=frozenset(range(260))))
    assert same is not None
    assert (same.n_differing, same.special_tokens, same.chat_template) == (0, [], "same")
    # Two letters change places: ids mean other bytes than in the base.
    swapped = text.replace('"x":', '"@@":').replace('"y":', '"x":').replace('"@@":', '"y":')
    (tmp_path / "tokenizer.json").write_text(swapped)
    (tmp_path / "tokenizer_config.json").write_text((tiny_base / "tokenizer_config.json").read_text())
    x = tiny_tokenizer.convert_tokens_to_ids("x")
    with pytest.raises(VariantError, match=rf"foreign tokens: id {x} is 'x' in the base but 'y' here"):
        compare_tokenizers(tmp_path, tiny_tokenizer, SimpleNamespace(token_ids=frozenset([x])))
    found = compare_tokenizers(tmp_path, tiny_tokenizer, SimpleNamespace(token_ids=frozenset([5])))
    assert found is not None
    assert found.n_differing == 2


def test_another_template_and_other_special_tokens_are_seen(
    tiny_base: Path, tiny_tokenizer: Any, tmp_path: Path
) -> None:
    nothing = SimpleNamespace(token_ids=frozenset())
    shutil.copy(tiny_base / "tokenizer.json", tmp_path)
    settings = json.loads((tiny_base / "tokenizer_config.json").read_text())
    settings |= {"eos_token": "x", "chat_template": "{{ messages }}"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    found = compare_tokenizers(tmp_path, tiny_tokenizer, nothing)
    assert found is not None
    assert (found.special_tokens, found.chat_template) == (["eos_token"], "differs")
    del settings["chat_template"]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    found = compare_tokenizers(tmp_path, tiny_tokenizer, nothing)
    assert found is not None
    assert found.chat_template == "missing"


def test_a_folder_without_tokenizer(tmp_path: Path, tiny_tokenizer: Any) -> None:
    with pytest.raises(ModelFileError, match="tokenizer cannot be read"):
        load_tokenizer(tmp_path)
    assert compare_tokenizers(tmp_path, tiny_tokenizer, SimpleNamespace(token_ids=frozenset([1]))) is None
