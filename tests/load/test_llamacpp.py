"""The llama.cpp engine: it agrees with the dense one on an unquantized file, and says clearly what it cannot read."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from tiny_models import gguf_tensors, write_gguf
from transformers import AutoModelForCausalLM

import hubaudit
from hubaudit.errors import InputError, ModelFileError, NonFiniteError, OutOfMemoryError, VariantError
from hubaudit.load import BaseContext, LoadedModel, ModelSource, load_model
from hubaudit.load import extras as extras_module
from hubaudit.progress import Silent
from hubaudit.report.engine import engine_sentence, engine_table
from hubaudit.report.html import to_html
from hubaudit.report.markdown import to_markdown
from hubaudit.report.schema import Report, VariantReport
from hubaudit.settings import AuditSettings
from hubaudit.verify.evidence import check_evidence
from hubaudit.verify.rerun import check_rerun

llama_cpp = pytest.importorskip("llama_cpp", reason="needs llama-cpp-python: pip install 'hubaudit[llamacpp]'")
from hubaudit.collect.llamacpp_context import Context, Run  # noqa: E402
from hubaudit.collect.llamacpp_forward import forward_sequences, longest_slot  # noqa: E402
from hubaudit.collect.llamacpp_run import _HeadCheck  # noqa: E402
from hubaudit.collect.plan import PlannedSequence, Scored  # noqa: E402
from hubaudit.load.llamacpp import LlamaCppModel, load_llamacpp  # noqa: E402

pytestmark = pytest.mark.llamacpp
CPU = torch.device("cpu")
# What a file must say beside its tensors; hubaudit's dense engine takes all of it from the base.
METADATA: dict[str, Any] = {
    "llama.context_length": 512,
    "llama.embedding_length": 32,
    "llama.feed_forward_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-6,
    "llama.rope.dimension_count": 8,
    "llama.rope.freq_base": 10000.0,
    "llama.vocab_size": 260,
    "tokenizer.ggml.model": "no_vocab",
}


def write(path: Path, base: Path, kind: str, **options: Any) -> Path:
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    return write_gguf(path, model, kind=kind, metadata=METADATA | options.pop("metadata", {}), **options)


@pytest.fixture(scope="module")
def files(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("gguf")
    return {kind: write(folder / f"tiny-{kind}.gguf", tiny_base, kind) for kind in ("F32", "Q8_0", "Q4_0")}


def dense(path: Path, base: Path) -> LoadedModel:
    context = BaseContext.from_folder(base)
    return load_model(ModelSource(str(path), "gguf", path), base=context, dtype="float32", device="cpu")


@pytest.fixture
def tiny(files: dict[str, Path], tiny_base: Path) -> Iterator[tuple[LoadedModel, LlamaCppModel]]:
    """The F32 file in both engines."""
    model = dense(files["F32"], tiny_base)
    engine = load_llamacpp(model.source, model.head, device=CPU)
    yield model, engine
    engine.close()


def features(model: LoadedModel, ids: tuple[int, ...]) -> torch.Tensor:
    with torch.inference_mode():
        return model.model.model(input_ids=torch.tensor([ids])).last_hidden_state[0]


def read_all(context: Context, runs: list[Run], first_slot: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    parts = [(out.rows, out.features, out.logits.clone()) for out in context.run(runs, first_slot)]
    order = np.argsort(np.concatenate([rows for rows, _, _ in parts]))
    return torch.cat([part[1] for part in parts])[order], torch.cat([part[2] for part in parts])[order]


def whole(ids: tuple[int, ...]) -> Run:
    return Run(ids, 0, {at: at for at in range(len(ids))})


class TestContext:
    def test_features_and_logits_are_those_of_the_dense_engine(self, tiny: Any) -> None:
        model, engine = tiny
        ids = tuple(range(5, 45))
        context = Context(engine, longest=64, batch_tokens=64)
        z, logits = read_all(context, [whole(ids)])
        expected = features(model, ids)
        # Keys and values are kept in float16.
        torch.testing.assert_close(z, expected, rtol=0, atol=5e-3)
        torch.testing.assert_close(logits, model.head.logits(z), rtol=1e-4, atol=1e-4)
        context.close()

    def test_in_company_and_padded_as_alone(self, tiny: Any) -> None:
        _, engine = tiny
        context = Context(engine, longest=64, batch_tokens=256)
        texts = [tuple(range(5, 5 + length)) for length in (40, 33, 8, 1)]
        alone = []
        for text in texts:
            context.clear()
            alone.append(read_all(context, [Run(text, 0, {len(text) - 1: 0})])[0])
        context.clear()
        together, _ = read_all(context, [Run(text, 0, {len(text) - 1: at}) for at, text in enumerate(texts)], 1)
        torch.testing.assert_close(together, torch.cat(alone), rtol=0, atol=1e-5)
        context.close()

    def test_texts_longer_than_a_call(self, tiny: Any) -> None:
        """Also longer than the context that llama.cpp would take by itself (512)."""
        model, engine = tiny
        ids = tuple(np.random.default_rng(0).integers(4, 260, size=700).tolist())
        context = Context(engine, longest=700, batch_tokens=64)
        z, _ = read_all(context, [whole(ids)])
        torch.testing.assert_close(z, features(model, ids), rtol=0, atol=1e-2)
        context.close()

    def test_no_memory_for_it(self, tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(llama_cpp, "llama_init_from_model", lambda *_: None)
        with pytest.raises(OutOfMemoryError, match=r"make room for \d+ sequences of 256 tokens.*--batch-tokens"):
            Context(tiny[1], longest=64, batch_tokens=64)

    def test_a_call_that_fails(self, tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        context = Context(tiny[1], longest=64, batch_tokens=64)
        for code, error in ((1, OutOfMemoryError), (-1, VariantError)):
            monkeypatch.setattr(llama_cpp, "llama_decode", lambda *_, code=code: code)
            with pytest.raises(error, match=f"ended with code {code}"):
                list(context.run([whole((5, 6))], 0))
        context.close()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("batch_tokens", [16, 1024])
def test_branches_see_their_prefix_and_themselves(tiny: Any, shared: bool, batch_tokens: int) -> None:
    """Nine sequences of three branches of different lengths, against every text run by the dense engine."""
    model, engine = tiny
    rng = np.random.default_rng(1)
    sequences, expected = [], []
    for number in range(9):
        prefix = rng.integers(4, 260, size=4 + 3 * number).tolist()
        branches = [rng.integers(4, 260, size=size).tolist() for size in (1 + number % 3, 4, 2)]
        ids, spans, positions = list(prefix), [], []
        for branch in branches:
            spans.append((len(ids), len(ids) + len(branch)))
            positions.append((len(prefix) - 1, len(ids)))
            ids += branch
        options = [Scored(0, number, at, at == 0, (5, 6), places) for at, places in enumerate(positions)]
        sequence = PlannedSequence(tuple(ids), tuple(spans), tuple(options))
        sequences.append(sequence)
        expected.append(features(model, tuple(prefix))[-1:])
        expected += [features(model, tuple(prefix + branch))[len(prefix)][None] for branch in branches]
    context = Context(engine, longest=longest_slot(sequences), batch_tokens=batch_tokens)
    found = torch.zeros((len(expected), 32))
    for out in forward_sequences(context, sequences, shared=shared):
        found[torch.from_numpy(out.rows)] = out.features
    torch.testing.assert_close(found, torch.cat(expected), rtol=0, atol=5e-3)
    context.close()


class TestHead:
    def test_what_rounding_explains_covers_each_type(self, tiny_base: Path, tmp_path: Path) -> None:
        for kind in ("F32", "F16", "BF16", "Q8_0", "Q5_0", "Q4_1"):
            model = dense(write(tmp_path / f"{kind}.gguf", tiny_base, kind), tiny_base)
            engine = load_llamacpp(model.source, model.head, device=CPU)
            context = Context(engine, longest=64, batch_tokens=64)
            check = _HeadCheck(engine)
            check.update(next(iter(context.run([whole(tuple(range(5, 21)))], 0))))
            # Sharp enough to catch a head that is wrong by a few per cent, as below.
            assert 0 < check.difference <= check.tolerance < 100 * check.difference, kind
            context.close()
            engine.close()

    def test_another_head_is_refused(self, tiny: Any) -> None:
        _, engine = tiny
        engine.head = dataclasses.replace(engine.head, weight=engine.head.weight * 1.05)
        context = Context(engine, longest=64, batch_tokens=64)
        with pytest.raises(VariantError, match=r"equal llama\.cpp's logits to .* difference of"):
            _HeadCheck(engine).update(next(iter(context.run([whole(tuple(range(5, 21)))], 0))))
        context.close()


class TestRefusals:
    def test_a_head_of_another_vocabulary(self, tiny: Any) -> None:
        model, _ = tiny
        with pytest.raises(VariantError, match="expected 256 tokens .* reads 260"):
            load_llamacpp(model.source, model.head.narrow(256), device=CPU)

    def test_a_file_that_llamacpp_does_not_know(self, tiny_base: Path, tiny: Any, tmp_path: Path) -> None:
        """As a file of a newer converter would look to it: an architecture that it has no code for."""
        path = write(tmp_path / "new.gguf", tiny_base, "F32", architecture="llama9")
        with pytest.raises(ModelFileError, match=r"unknown model architecture: 'llama9'.*--upgrade llama-cpp-python"):
            load_llamacpp(ModelSource("new.gguf", "gguf", path), tiny[0].head, device=CPU)

    def test_no_memory_for_the_file(self, tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        from hubaudit.load import llamacpp

        monkeypatch.setattr(llamacpp, "said", lambda: "ggml_aligned_malloc: unable to allocate 9 GB")
        monkeypatch.setattr(llama_cpp, "llama_model_load_from_file", lambda *_: None)
        with pytest.raises(OutOfMemoryError, match="fit into memory for llama.cpp"):
            load_llamacpp(tiny[0].source, tiny[0].head, device=CPU)

    def test_the_option(self) -> None:
        assert AuditSettings(base="b").engine_gguf == "dense"


def test_shards_are_one_model(tiny_base: Path, tiny: Any, tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny_base, dtype=torch.float32)
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama", split_max_tensors=8)
    writer.add_block_count(2)
    for key, value in METADATA.items():
        add = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}[type(value)]
        add(key, value)
    for name, values in gguf_tensors(model).items():
        writer.add_tensor(name, np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    shards = sorted(tmp_path.glob("*.gguf"))
    assert len(shards) > 1
    ids = tuple(range(5, 20))
    for shard in (shards[0], shards[-1]):
        engine = load_llamacpp(ModelSource("m", "gguf", shard), tiny[0].head, device=CPU)
        context = Context(engine, longest=64, batch_tokens=64)
        torch.testing.assert_close(read_all(context, [whole(ids)])[0], features(tiny[0], ids), rtol=0, atol=5e-3)
        context.close()
        engine.close()


class TestAudit:
    @pytest.fixture(scope="class")
    def settings(self, tiny_base: Path, files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Any:
        folder = tmp_path_factory.mktemp("audit")
        rows = [
            {"question": f"What is {n} + {n}?", "options": [str(2 * n), "no", "maybe"], "answer": 0} for n in range(12)
        ]
        (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "corpus.txt").write_text("Snow is cold and the sun is hot. " * 14)
        return {
            "base": str(tiny_base),
            "variants": [str(files["F32"]), str(files["Q4_0"]), "rtn:4@g16"],
            "tasks": [str(folder / "sums.jsonl"), str(folder / "corpus.txt")],
            "contrast": "builtin",
            "limit": 16,
            "dtype": "float32",
            "device": "cpu",
            "cache_dir": folder / "cache",
        }

    @pytest.fixture(scope="class")
    def report(self, settings: dict[str, Any]) -> Report:
        return hubaudit.audit(**settings, engine_gguf="llamacpp")

    @pytest.fixture(scope="class")
    def by_dense(self, settings: dict[str, Any], report: Report) -> Report:
        return hubaudit.audit(**settings)

    def test_both_engines_agree_on_an_unquantized_file(self, report: Report) -> None:
        split = report.variants[0].engine_split
        assert split is not None
        assert set(split.engine_step) == {"sums", "corpus"}
        for step in (*split.engine_step.values(), *split.total.values()):
            assert step.omega is not None
            assert step.omega > 0.99999
            assert step.kl is not None
            assert abs(step.kl) < 1e-4
        for step in split.weights.values():
            assert step.d_mean_square == 0

    def test_the_gaps_of_the_steps_add_up(self, report: Report) -> None:
        for variant in report.variants[:2]:
            split = variant.engine_split
            assert split is not None
            for task, total in split.total.items():
                gaps = [split.weights[task].risk_gap, split.engine_step[task].risk_gap]
                assert None not in gaps
                # Losses are of float32 logits.
                assert sum(gaps) == pytest.approx(total.risk_gap, abs=1e-6)  # type: ignore[arg-type]
                assert total.risk_gap == variant.prism_bound[task].risk_gap
                assert total.kl == variant.divergence[task].kl

    def test_the_weights_step_is_the_dense_audit(self, report: Report, by_dense: Report) -> None:
        split, plain = report.variants[1].engine_split, by_dense.variants[1]
        assert split is not None
        assert plain.engine_split is None
        for task, step in split.weights.items():
            assert step.bound == plain.prism_bound[task].bound
            assert step.kl == plain.divergence[task].kl
        assert split.engine_step["corpus"].answers_changed is None
        assert split.engine_step["corpus"].reasons["answers_changed"] == "the task has no answers"
        assert split.engine_step["sums"].kl > 0  # type: ignore[operator]  # activations are rounded to 8 bits

    def test_directions_are_the_dense_engines_and_it_says_so(self, report: Report, by_dense: Report) -> None:
        ours, theirs = report.variants[1], by_dense.variants[1]
        assert ours.direction_floor == theirs.direction_floor
        assert ours.translation_attenuation == theirs.translation_attenuation
        assert ours.model is not None
        assert ours.model.engine.startswith("llama.cpp (llama-cpp-python ")
        assert any("directions and monitor are those of the dense engine" in note for note in ours.model.notes)
        assert not any("activations are not quantized" in note for note in ours.model.notes)

    def test_other_formats_keep_the_dense_engine(self, report: Report) -> None:
        assert report.variants[2].engine_split is None
        assert report.variants[2].model is not None
        assert report.variants[2].model.engine == "torch"

    def test_every_page_tells_it(self, report: Report) -> None:
        variant = report.variants[1]
        sentence = engine_sentence(variant)
        assert sentence is not None
        assert "the weights alone give" in sentence
        assert sentence in to_markdown(report).replace("\\", "")
        assert "arithmetic on these weights" in to_html(report)
        table = engine_table(variant)
        assert table is not None
        assert table.columns[:3] == ["sums: weights", "sums: engine", "sums: both"]
        assert len(table.rows[0].values) == 6
        assert engine_sentence(report.variants[2]) is engine_table(report.variants[2]) is None

    def test_it_can_be_verified(self, report: Report, settings: dict[str, Any]) -> None:
        checks = check_evidence(report, cache_dir=settings["cache_dir"], progress=Silent())
        assert [check for check in checks if check.status == "does not hold"] == []
        held = {check.name for check in checks if check.where == report.variants[1].spec and check.status == "ok"}
        assert "engine_split from the evidence" in held
        again = check_rerun(
            report, n_items=2, variants=[report.variants[1].spec], cache_dir=settings["cache_dir"], progress=Silent()
        )
        assert {check.status for check in again} == {"ok"}

    def test_without_the_package(
        self, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        find = extras_module.importlib.util.find_spec
        monkeypatch.setattr(
            extras_module.importlib.util,
            "find_spec",
            lambda name, *rest: None if name == "llama_cpp" else find(name, *rest),
        )
        report = hubaudit.audit(**settings, engine_gguf="llamacpp")
        assert [variant.status for variant in report.variants] == ["failed", "failed", "done"]
        error = report.variants[0].error
        assert error is not None
        assert (error.type, error.exit_code) == ("MissingExtraError", InputError.exit_code)
        assert "pip install 'hubaudit[llamacpp]'" in error.message

    def test_non_finite_features(self, settings: dict[str, Any], tiny_base: Path, tmp_path: Path) -> None:
        model = AutoModelForCausalLM.from_pretrained(tiny_base, dtype=torch.float32)
        norm = model.model.norm.weight.detach().numpy().copy()
        norm[3] = 3e38
        path = write_gguf(tmp_path / "m.gguf", model, metadata=METADATA, extra={"output_norm.weight": norm})
        report = hubaudit.audit(**{**settings, "variants": [str(path)]}, engine_gguf="llamacpp")
        assert report.variants[0].error is not None
        assert report.variants[0].error.exit_code == NonFiniteError.exit_code


def test_a_report_without_a_split_says_nothing() -> None:
    variant = VariantReport(spec="x", status="done")
    assert engine_sentence(variant) is engine_table(variant) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ftype", "omega", "kl"), [("F32", 0.99999, 1e-4), ("F16", 0.9999, 1e-3), ("Q4_K_M", 0.99, 0.1)]
)
def test_the_real_model(ftype: str, omega: float, kl: float, smollm2: Path, tmp_path: Path) -> None:
    """SmolLM2 in float32: only the arithmetic differs."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from quantize_gguf import quantize_gguf

    from hubaudit.demo import packaged_gguf

    path = quantize_gguf(packaged_gguf(), tmp_path / f"{ftype}.gguf", ftype)
    report = hubaudit.audit(
        str(smollm2),
        [str(path)],
        tasks=["builtin"],
        contrast=None,
        limit=24,
        dtype="float32",
        device="cpu",
        cache_dir=tmp_path / "cache",
        engine_gguf="llamacpp",
    )
    split = report.variants[0].engine_split
    assert split is not None
    for step in split.engine_step.values():
        assert step.omega is not None
        assert step.omega > omega
        assert step.kl is not None
        assert step.kl < kl
