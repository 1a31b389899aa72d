from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hubaudit.collect import EvidenceStore, Plan, collect
from hubaudit.collect import evidence as evidence_module
from hubaudit.collect import run as run_module
from hubaudit.collect.run import model_facts
from hubaudit.errors import OutOfDiskError, VariantError
from hubaudit.load import LoadedModel


def entry(tmp_path: Path, plan: Plan, **key: Any) -> Any:
    return EvidenceStore(tmp_path / "evidence").open(plan, {"content": "x", **key})


def many_shards(tiny_plan: Callable[..., Plan]) -> Plan:
    plan = tiny_plan(batch_tokens=1)
    assert len(plan.shards) > 1
    return plan


def test_what_is_stored_comes_back(tmp_path: Path, tiny_model: LoadedModel, tiny_plan: Callable[..., Plan]) -> None:
    plan = many_shards(tiny_plan)
    evidence = entry(tmp_path, plan)
    assert not evidence.complete
    tokens = []
    collect(tiny_model, evidence, model_facts(tiny_model, "x"), advance=tokens.append)
    again = entry(tmp_path, plan)
    assert again.complete
    assert sum(tokens) == plan.n_tokens
    assert again.facts.n_layers == 2
    assert torch.equal(torch.as_tensor(again.head().weight), tiny_model.head.weight)
    assert again.hidden().shape == (17, 2, 32)
    rows = sum(again.features(shard).shape[0] for shard in range(len(plan.shards)))
    assert rows == sum(task.n_gold_tokens for task in plan.tasks)


def test_prompts_are_in_order_whatever_the_batches(
    tmp_path: Path, tiny_model: LoadedModel, tiny_plan: Callable[..., Plan]
) -> None:
    hidden = []
    for batch_tokens in (1, 512):
        evidence = entry(tmp_path, tiny_plan(batch_tokens))
        collect(tiny_model, evidence, model_facts(tiny_model, "x"))
        hidden.append(torch.from_numpy(evidence.hidden()))
    torch.testing.assert_close(hidden[0], hidden[1], atol=1e-4, rtol=1e-4)


def test_a_killed_run_goes_on_where_it_stopped(
    tmp_path: Path, tiny_model: LoadedModel, tiny_plan: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = many_shards(tiny_plan)
    evidence = entry(tmp_path, plan)
    run_shard, ran = run_module._run_shard, []

    def killed_at_second(model: LoadedModel, plan: Plan, shard: int, *args: Any, **kwargs: Any) -> Any:
        if shard == 1 and not ran[1:]:
            ran.append(shard)
            raise KeyboardInterrupt
        ran.append(shard)
        return run_shard(model, plan, shard, *args, **kwargs)

    monkeypatch.setattr(run_module, "_run_shard", killed_at_second)
    with pytest.raises(KeyboardInterrupt):
        collect(tiny_model, evidence, model_facts(tiny_model, "x"))
    assert evidence.has_shard(0)
    assert not evidence.complete
    collect(tiny_model, evidence, model_facts(tiny_model, "x"))
    assert ran.count(0) == 1
    assert evidence.complete


def test_a_broken_shard_is_run_again(tmp_path: Path, tiny_model: LoadedModel, tiny_plan: Callable[..., Plan]) -> None:
    evidence = entry(tmp_path, tiny_plan())
    collect(tiny_model, evidence, model_facts(tiny_model, "x"))
    shard = next(evidence.folder.glob("*.safetensors"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[:100])
    assert not evidence.complete
    collect(tiny_model, evidence, model_facts(tiny_model, "x"))
    assert shard.read_bytes() == whole


def test_whatever_can_change_a_figure_is_in_the_key(tmp_path: Path, tiny_plan: Callable[..., Plan]) -> None:
    plan = tiny_plan()
    folders = {
        entry(tmp_path, plan).folder,
        entry(tmp_path, plan, threads="4").folder,
        entry(tmp_path, plan, content="y").folder,
        entry(tmp_path, tiny_plan(batch_tokens=1)).folder,
    }
    assert len(folders) == 4


def test_token_ids_outside_the_vocabulary(
    tmp_path: Path, tiny_model: LoadedModel, tiny_plan: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Plan, "max_token_id", property(lambda _: 260))
    with pytest.raises(VariantError, match="the head has 260 tokens, but the base's prompts use token id 260"):
        collect(tiny_model, entry(tmp_path, tiny_plan()), model_facts(tiny_model, "x"))


def test_a_full_disk_is_told_as_such(
    tmp_path: Path, tiny_model: LoadedModel, tiny_plan: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    evidence = entry(tmp_path, tiny_plan())
    with pytest.raises(OutOfDiskError, match="the disk is full"):
        collect(tiny_model, evidence, model_facts(tiny_model, "x"))
    assert list(evidence.folder.iterdir()) == []


def test_k_feat_is_computed_once_for_each_head(
    tmp_path: Path, tiny_model: LoadedModel, tiny_plan: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = entry(tmp_path, tiny_plan())
    collect(tiny_model, evidence, model_facts(tiny_model, "x"))
    value = evidence.k_feat
    assert value == pytest.approx(float(torch.cdist(tiny_model.head.weight, tiny_model.head.weight).max()), rel=1e-5)

    def again(_: object) -> float:
        raise AssertionError("computed again")

    monkeypatch.setattr(evidence_module, "k_feat", again)
    other = entry(tmp_path, tiny_plan(), model="another with the same head")
    collect(tiny_model, other, model_facts(tiny_model, "x"))
    assert other.k_feat == value


def test_a_broken_k_feat_file_is_computed_again(
    tmp_path: Path, tiny_model: LoadedModel, tiny_plan: Callable[..., Plan]
) -> None:
    evidence = entry(tmp_path, tiny_plan())
    collect(tiny_model, evidence, model_facts(tiny_model, "x"))
    value = evidence.k_feat
    (file,) = (tmp_path / "evidence" / "heads").glob("*.k_feat.json")
    file.write_text("[")
    assert entry(tmp_path, tiny_plan()).k_feat == value


def test_k_feat_that_does_not_fit_is_computed_on_the_cpu(
    tmp_path: Path, tiny_model: LoadedModel, tiny_plan: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = entry(tmp_path, tiny_plan())
    collect(tiny_model, evidence, model_facts(tiny_model, "x"))
    compute, tries = evidence_module.k_feat, []

    def first_fails(head: object) -> float:
        tries.append(head)
        if len(tries) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return compute(head)

    monkeypatch.setattr(evidence_module, "k_feat", first_fails)
    assert evidence.k_feat == pytest.approx(compute(tiny_model.head))
    assert len(tries) == 2


def test_a_head_is_hashed_once(
    tmp_path: Path, tiny_model: LoadedModel, tiny_plan: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EvidenceStore(tmp_path / "evidence")
    saved: list[set[str]] = []
    save = evidence_module.save
    monkeypatch.setattr(evidence_module, "save", lambda tensors: saved.append(set(tensors)) or save(tensors))
    entries = [store.open(tiny_plan(), {"n": n}) for n in range(3)]
    for one in entries:
        collect(tiny_model, one, model_facts(tiny_model, "x"))
    assert sum("weight" in names for names in saved) == 1
    assert len({one.head_digest for one in entries}) == 1
    assert entries[0].head().weight is entries[1].head().weight
