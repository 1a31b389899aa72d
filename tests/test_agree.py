"""`hubaudit agree`: joining two files, the figures of real predictions, the table, the JSON and the plot."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from hubaudit.agree import MAX_SUBJECTS, Agreement, agree
from hubaudit.agree_view import agreement_plot, print_agreement
from hubaudit.cli import app
from hubaudit.errors import InputError
from hubaudit.report.plots.style import png

GOLDEN = Path(__file__).parent / "golden" / "lm_eval_samples"
"""Written by lm-eval 0.4.13 itself, see golden/make_lm_eval_samples.py."""


def golden(model: str, task: str) -> Path:
    return GOLDEN / model / f"samples_{task}_golden.jsonl"


def golden_rows(model: str, task: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in golden(model, task).read_text(encoding="utf-8").split("\n") if line]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def tables(folder: Path, rows: str) -> tuple[Path, Path]:
    """Two CSV files from lines of `id base variant reference subject`."""
    paths = folder / "base.csv", folder / "variant.csv"
    parts = [line.split() for line in rows.strip().splitlines()]
    for column, path in enumerate(paths, start=1):
        lines = [f"{part[0]},{part[column]},{part[3]},{part[4]}" for part in parts]
        path.write_text("id,prediction,reference,subject\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return paths


def shown(agreement: Agreement, width: int = 80) -> str:
    stream = io.StringIO()
    print_agreement(agreement, Console(file=stream, width=width))
    return stream.getvalue()


BY_HAND = """
q1 A A A x
q2 A B A x
q3 B A A x
q4 B C A y
q5 B B A y
q6 A A A y
"""


def test_the_textbook_case(shared: Path) -> None:
    # data/README.md: gemma-2-2b-it int4 on mmlu, accuracy .570 -> .570, yet 46 lost, 46 gained, 42 to another wrong.
    flips = shared / "data" / "flips"
    found = agree(
        flips / "google__gemma-2-2b-it__fp16__mmlu.json",
        flips / "google__gemma-2-2b-it__int4__mmlu.json",
        references=shared / "data" / "mmlu.jsonl",
    )
    result, counts = found.result, found.counts
    assert (result.n, round(result.base_accuracy, 3), round(result.variant_accuracy, 3)) == (975, 0.570, 0.570)
    assert result.correctness_agreement is not None
    assert round(result.correctness_agreement, 3) == 0.917
    assert (counts.lost, counts.gained, counts.changed_wrong) == (46, 46, 42)
    assert sum((counts.kept, counts.lost, counts.gained, counts.changed_wrong, counts.same_wrong)) == 975
    assert (len(found.changed["regressions"]), len(found.changed["wrong_to_other_wrong"])) == (46, 42)


@pytest.mark.parametrize("precision", ["int8", "int4"])
@pytest.mark.parametrize(
    "model", ["Qwen__Qwen2.5-1.5B-Instruct", "google__gemma-2-2b-it", "meta-llama__Llama-3.2-3B-Instruct"]
)
@pytest.mark.parametrize("benchmark", ["mmlu", "arc", "csqa"])
def test_real_predictions_agree_with_plain_counts(shared: Path, model: str, precision: str, benchmark: str) -> None:
    paths = [shared / f"data/flips/{model}__{name}__{benchmark}.json" for name in ("fp16", precision)]
    items = shared / f"data/{benchmark}.jsonl"
    base, variant = (json.loads(path.read_text())["preds"] for path in paths)
    right = [json.loads(line)["answer"] for line in items.read_text().splitlines()]
    rows = list(zip(base, variant, right, strict=True))
    counts = agree(paths[0], paths[1], references=items).counts
    assert counts.kept == sum(b == r == v for b, v, r in rows)
    assert counts.lost == sum(b == r != v for b, v, r in rows)
    assert counts.gained == sum(v == r != b for b, v, r in rows)
    assert counts.changed_wrong == sum(b != r != v and b != v for b, v, r in rows)
    assert counts.same_wrong == sum(b != r != v and b == v for b, v, r in rows)


def test_tables_by_hand(tmp_path: Path) -> None:
    found = agree(*tables(tmp_path, BY_HAND))
    assert found.changed == {"regressions": ["q2"], "recoveries": ["q3"], "wrong_to_other_wrong": ["q4"]}
    assert found.result.correctness_agreement == pytest.approx(2 / 3)
    assert (found.result.same_answer_rate, found.result.flip_rate) == (pytest.approx(3 / 6), pytest.approx(2 / 6))
    assert [found.by_subject[name].lost for name in ("x", "y")] == [1, 0]
    assert found.by_subject["y"].changed_wrong == 1
    assert found.result.by_subject is not None
    assert found.result.by_subject["x"].correctness_agreement == pytest.approx(1 / 2)


def test_the_order_of_the_rows_does_not_matter(tmp_path: Path) -> None:
    base, variant = tables(tmp_path, BY_HAND)
    expected = agree(base, variant)
    head, *rows = variant.read_text().splitlines()
    variant.write_text("\n".join([head, *reversed(rows)]) + "\n")
    assert agree(base, variant) == expected


class TestLmEval:
    @pytest.mark.parametrize("metric", ["acc", "acc_norm", "acc_bytes"])
    def test_counts_are_those_of_the_metric(self, metric: str) -> None:
        found = agree(golden("base", "options"), golden("variant", "options"), metric=metric)
        rows = list(zip(golden_rows("base", "options"), golden_rows("variant", "options"), strict=True))
        assert found.counts.kept == sum(one[metric] and two[metric] for one, two in rows)
        assert found.counts.lost == sum(one[metric] > two[metric] for one, two in rows)
        assert found.counts.gained == sum(one[metric] < two[metric] for one, two in rows)
        assert (found.metric, found.answers_known, found.differences) == (metric, True, ())
        assert sorted(found.by_subject) == ["astronomy", "biology", "chemistry"]

    def test_a_filter_is_compared_with_itself(self, tmp_path: Path) -> None:
        # lm-eval writes filters one after the other; the other order in the variant's file must not matter.
        swapped = write_rows(tmp_path / "variant.jsonl", golden_rows("variant", "numbers")[::-1])
        found = agree(golden("base", "numbers"), swapped)
        expected = agree(golden("base", "numbers"), golden("variant", "numbers"))
        assert found.filter_name == "strict-match"
        assert found.counts == expected.counts
        assert found.result.n == 8

    def test_other_sets_and_other_hashes_are_counted(self, tmp_path: Path) -> None:
        rows = golden_rows("variant", "options")
        rows[1]["doc_hash"] = "other"
        rows[2]["target_hash"] = "other"
        rows[3]["prompt_hash"] = rows[4]["prompt_hash"] = "other"
        added = rows[0] | {"doc_id": 77}
        found = agree(golden("base", "options"), write_rows(tmp_path / "v.jsonl", [*rows[1:], added]))
        assert [(entry.kind, entry.count, entry.first, entry.compared) for entry in found.differences] == [
            ("only in the base's file", 1, "0", False),
            ("only in the variant's file", 1, "77", False),
            ("different document", 1, "1", False),
            ("different target", 1, "2", False),
            ("different prompt", 2, "3", True),
        ]
        assert found.result.n == 5
        text = shown(found, 200)
        assert "1 item only in the base's file, left out; the first is 0" in text
        assert "2 items with a different prompt, compared; the first is 3" in text

    def test_without_answers_changes_between_wrong_ones_are_undefined(self, tmp_path: Path) -> None:
        paths = []
        for model in ("base", "variant"):
            rows = golden_rows(model, "options")
            for row in rows:
                row["filtered_resps"] = [["-3.0", "False"]]
            paths.append(write_rows(tmp_path / f"{model}.jsonl", rows))
        found = agree(*paths, metric="acc")
        assert not found.answers_known
        figures = found.to_dict()["correctness_agreement"]
        for key in ("wrong_to_other_wrong", "same_answer_rate", "churn_rate"):
            assert figures[key] is None
            assert "not which answer" in figures["reasons"][key]
        assert "wrong_to_other_wrong" not in found.to_dict()["changed_items"]
        assert (
            figures["flip_rate"]
            == agree(golden("base", "options"), golden("variant", "options"), metric="acc").result.flip_rate
        )
        assert "only right and wrong" in shown(found, 200)

    def test_two_right_answers_are_the_same_answer(self, tmp_path: Path) -> None:
        rows = [{"doc_id": 0, "filtered_resps": ["42"], "exact_match": 1.0, "filter": "none"}]
        base = write_rows(tmp_path / "b.jsonl", rows)
        variant = write_rows(tmp_path / "v.jsonl", [rows[0] | {"filtered_resps": ["42.0"]}])
        assert agree(base, variant).result.same_answer_rate == 1


class TestErrors:
    def test_forms_that_do_not_fit(self, tmp_path: Path) -> None:
        base, variant = tables(tmp_path, BY_HAND)
        with pytest.raises(InputError, match="is lm-eval samples and .* is a table of predictions"):
            agree(golden("base", "options"), variant)
        with pytest.raises(InputError, match="--metric and --filter are for lm-eval's samples"):
            agree(base, variant, metric="acc")

    def test_no_common_item(self, tmp_path: Path) -> None:
        base, variant = tables(tmp_path, BY_HAND)
        variant.write_text(variant.read_text().replace("q", "other"))
        with pytest.raises(InputError, match="6 only in the base's file, first 'q1'"):
            agree(base, variant)

    def test_lists_of_other_lengths(self, tmp_path: Path) -> None:
        base, variant = tmp_path / "b.json", tmp_path / "v.json"
        base.write_text('["A", "B"]')
        variant.write_text('["A"]')
        with pytest.raises(InputError, match="expected 2 answers as in .* but got 1"):
            agree(base, variant)

    def test_no_reference(self, tmp_path: Path) -> None:
        base = tmp_path / "b.json"
        base.write_text('["A", "B"]')
        with pytest.raises(InputError, match="line 1: expected the right answer of '1' .* --references"):
            agree(base, base)

    def test_letters_against_numbers_are_pointed_out(self, tmp_path: Path) -> None:
        base, variant = tables(tmp_path, "1 A A 0 x\n2 B B 1 x")
        found = agree(base, variant)
        assert found.result.correctness_agreement is None
        assert "the base is 'A', its reference '0'" in found.warnings[0]

    def test_too_many_subjects(self, tmp_path: Path) -> None:
        rows = "\n".join(f"{i} A A A s{i}" for i in range(MAX_SUBJECTS + 1))
        found = agree(*tables(tmp_path, rows))
        assert found.result.by_subject is None
        assert "no figure for each" in found.warnings[0]

    def test_an_endless_subject_is_shortened(self, tmp_path: Path) -> None:
        found = agree(*tables(tmp_path, f"1 A A A {'s' * 10_000}\n2 A A A t"))
        assert [len(name) for name in found.by_subject] == [100, 1]


class TestCommand:
    def run(self, *arguments: object) -> Any:
        return CliRunner().invoke(app, ["agree", *map(str, arguments)])

    def test_table(self, tmp_path: Path) -> None:
        done = self.run(*tables(tmp_path, BY_HAND))
        assert done.exit_code == 0
        for text in (
            "Kept",
            "66.7%",
            "2 of 3 right answers",
            "Ceiling",
            "Changed while wrong",
            "McNemar p",
            "2 subjects",
        ):
            assert text in done.stdout

    def test_json(self, tmp_path: Path) -> None:
        done = self.run(*tables(tmp_path, BY_HAND), "--json", "--tost-margin", "0.5")
        read = json.loads(done.stdout)
        assert read["correctness_agreement"]["regressions"] == 1
        assert read["correctness_agreement"]["tost_margin"] == 0.5
        assert read["correctness_agreement"]["by_subject"]["x"]["n"] == 3
        assert read["changed_items"]["recoveries"] == ["q3"]

    def test_plot(self, tmp_path: Path) -> None:
        path = tmp_path / "made" / "plot.png"
        assert self.run(*tables(tmp_path, BY_HAND), "--plot", path).exit_code == 0
        assert path.read_bytes().startswith(b"\x89PNG")
        done = self.run(*tables(tmp_path, BY_HAND), "--plot", tmp_path / "plot.pdf")
        assert isinstance(done.exception, InputError)

    def test_bad_input_is_exit_code_2(self, tmp_path: Path) -> None:
        done = self.run(tmp_path / "absent.json", tmp_path / "absent.json")
        assert isinstance(done.exception, InputError)
        assert done.exception.exit_code == 2


def test_the_bars_of_the_plot_are_the_counts(tmp_path: Path) -> None:
    (axes,) = agreement_plot(agree(*tables(tmp_path, BY_HAND))).axes
    widths = [patch.get_width() for patch in axes.patches]  # type: ignore[attr-defined]  # bars are rectangles
    assert widths[:5] == pytest.approx([2 / 6, 1 / 6, 1 / 6, 1 / 6, 1 / 6])
    assert len(widths) == 15
    assert [label.get_text() for label in axes.get_yticklabels()] == ["all items", "x", "y"]


def test_hostile_texts_neither_steer_the_terminal_nor_the_plot(tmp_path: Path) -> None:
    nasty = "[red]\x1b[2J$x_{$\u202e"
    rows = [
        {"id": f"{nasty}{i}", "prediction": nasty, "reference": "A", "subject": f"{nasty}{i % 2}"} for i in range(4)
    ]
    base = write_rows(tmp_path / "b.jsonl", rows)
    variant = write_rows(tmp_path / "v.jsonl", rows[1:])
    found = agree(base, variant)
    text = shown(found)
    assert "[red]" in text
    assert not {"\x1b", "\u202e"} & set(text)
    assert png(agreement_plot(found)).startswith(b"\x89PNG")
    assert json.dumps(found.to_dict()).isascii()
