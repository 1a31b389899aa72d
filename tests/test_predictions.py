"""Reading prediction files: lm-eval's own samples, JSON, CSV, and every way in which a file can be wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hubaudit.errors import InputError
from hubaudit.predictions import read_predictions, with_references

GOLDEN = Path(__file__).parent / "golden" / "lm_eval_samples"
"""Written by lm-eval 0.4.13 itself, see golden/make_lm_eval_samples.py."""


def write(folder: Path, name: str, content: str | list[dict[str, Any]]) -> Path:
    """A file with a text, or with a list's objects as JSON Lines."""
    path = folder / name
    text = content if isinstance(content, str) else "".join(json.dumps(row) + "\n" for row in content)
    path.write_text(text, encoding="utf-8")
    return path


def sample(doc_id: int, likelihoods: list[float], options: list[str], **fields: Any) -> dict[str, Any]:
    """One of lm-eval's samples of a task with options."""
    arguments = {f"gen_args_{i}": {"arg_0": "Question:", "arg_1": text} for i, text in enumerate(options)}
    return {
        "doc_id": doc_id,
        "doc": {},
        "target": "0",
        "arguments": arguments,
        "filtered_resps": [[str(value), "False"] for value in likelihoods],
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
    } | fields


def golden_rows(model: str, task: str) -> list[dict[str, Any]]:
    text = (GOLDEN / model / f"samples_{task}_golden.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


class TestLmEval:
    @pytest.mark.parametrize("model", ["base", "variant"])
    @pytest.mark.parametrize(
        ("metric", "length"),
        [("acc", lambda text: 1), ("acc_norm", len), ("acc_bytes", lambda text: len(text.encode()))],
    )
    def test_answers_and_correctness_are_those_of_lm_eval(
        self, model: str, metric: str, length: Callable[[str], int]
    ) -> None:
        found = read_predictions(GOLDEN / model / "samples_options_golden.jsonl", metric=metric)
        rows = golden_rows(model, "options")
        assert list(found.items) == [str(row["doc_id"]) for row in rows]
        assert len(rows) == 8
        assert found.possible[0]
        for row, item in zip(rows, found.items.values(), strict=True):
            choices = row["doc"]["choices"]
            scores = [float(pair[0]) / length(text) for pair, text in zip(row["filtered_resps"], choices, strict=True)]
            best = scores.index(max(scores))
            assert item.answers[0] == str(best)
            assert item.right == bool(row[metric]) == (best == row["doc"]["gold"])
            assert item.subject == row["doc"]["subject"]
            assert set(item.hashes) == {"document", "prompt", "target"}

    def test_several_targets_and_mutual_information(self) -> None:
        several = read_predictions(GOLDEN / "base" / "samples_several_targets_golden.jsonl")
        assert several.metric == "acc"
        assert several.possible == (True,)
        assert any(item.right and item.answers[0] != "0" for item in several.items.values())
        mutual = read_predictions(GOLDEN / "base" / "samples_mutual_golden.jsonl", metric="acc_mutual_info")
        # lm-eval's own verdict agrees with the option that we choose, for every item
        assert mutual.possible == (True,)
        assert sum(bool(item.right) for item in mutual.items.values()) > 0

    def test_generations_by_filter(self) -> None:
        path = GOLDEN / "base" / "samples_numbers_golden.jsonl"
        strict, flexible = read_predictions(path), read_predictions(path, filter_name="flexible-extract")
        assert (strict.metric, strict.filter_name) == ("exact_match", "strict-match")
        assert "flexible-extract" in strict.warnings[0]
        assert flexible.warnings == ()
        rows = [row for row in golden_rows("base", "numbers") if row["filter"] == "flexible-extract"]
        assert [item.answers for item in flexible.items.values()] == [(row["filtered_resps"][0],) for row in rows]
        assert [item.right for item in flexible.items.values()] == [row["exact_match"] == 1 for row in rows]

    def test_a_line_separator_inside_a_text_ends_no_line(self) -> None:
        path = GOLDEN / "base" / "samples_options_golden.jsonl"
        assert "\u2028" in path.read_text(encoding="utf-8")
        assert len(read_predictions(path).items) == 8

    def test_norm_divides_by_the_option_without_its_blank(self, tmp_path: Path) -> None:
        # By hand: without the blanks -2.1/1 < -6/3 chooses the second, with them -2.1/2 > -6/4 the first.
        row = sample(0, [-2.1, -6.0], [" a", " bcd"], target="1", acc=0, acc_norm=1)
        found = read_predictions(write(tmp_path, "s.jsonl", [row]))
        assert found.metric == "acc_norm"
        assert found.items["0"].answers == ("1", "0")
        assert found.possible == (True, False)

    def test_the_reading_that_contradicts_the_metric_is_not_possible(self, tmp_path: Path) -> None:
        row = sample(0, [-2.1, -6.0], [" a", " bcd"], target="0", acc=1, acc_norm=1)
        assert read_predictions(write(tmp_path, "s.jsonl", [row])).possible == (False, True)

    def test_options_in_the_contexts_leave_only_right_and_wrong(self, tmp_path: Path) -> None:
        row = sample(0, [-2.0, -1.0], [" is late.", " is late."], target="is late.", acc=1, acc_norm=1)
        path = write(tmp_path, "s.jsonl", [row])
        assert read_predictions(path).items["0"].answers == ()
        assert read_predictions(path, metric="acc").items["0"].answers == ("1",)

    def test_the_first_of_equal_log_likelihoods(self, tmp_path: Path) -> None:
        path = write(tmp_path, "s.jsonl", [sample(0, [-3.0, -1.0, -1.0], [" a", " b", " c"], acc=0, target="0")])
        assert read_predictions(path, metric="acc").items["0"].answers == ("1",)

    def test_files_before_0_4_3(self, tmp_path: Path) -> None:
        row = {
            "doc_id": 3,
            "doc": {},
            "target": 1,
            "arguments": [["Q", " aaa"], ["Q", " b"]],
            "filtered_resps": [[-3.0, False], [-2.0, False]],
            "acc": 1.0,
            "acc_norm": 0.0,
        }
        found = read_predictions(write(tmp_path, "s.jsonl", [row]))
        assert (found.metric, found.filter_name, found.possible) == ("acc_norm", "none", (True, True))
        assert found.items["3"].answers == ("0", "0")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"acc": 0.5}, "line 2: expected 0 or 1 as acc, but got 0.5"),
            ({"acc": [1]}, "line 2: expected 0 or 1 as acc, but got a list"),
            ({"filtered_resps": [["nan", "False"], ["-1", "False"]]}, "line 2: expected a log-likelihood"),
            ({"filtered_resps": [["\x1b[31m", "False"], ["-1", "False"]]}, r"got '\\x1b\[31m'"),
            ({"filtered_resps": "x"}, "line 2: expected a list as filtered_resps"),
            ({"doc_id": [1]}, "line 2: expected a number or text as doc_id, but got a list"),
            ({"doc_id": 0}, "line 2: expected every item once, but '0' stands in line 1 too"),
            ({"filter": 7}, "line 2: expected a text as filter, but got 7"),
        ],
    )
    def test_bad_lines(self, tmp_path: Path, change: dict[str, Any], message: str) -> None:
        rows = [sample(i, [-1.0, -2.0], [" a", " b"], acc=1) for i in range(2)]
        path = write(tmp_path, "s.jsonl", [rows[0], rows[1] | change])
        with pytest.raises(InputError, match=message):
            read_predictions(path, metric="acc")

    def test_unknown_metrics_and_filters_list_what_is_there(self) -> None:
        path = GOLDEN / "base" / "samples_options_golden.jsonl"
        with pytest.raises(InputError, match="'f1' with 0 or 1, but such metrics are 'acc', 'acc_norm', 'acc_bytes'"):
            read_predictions(path, metric="f1")
        with pytest.raises(InputError, match="of the filter 'best', but the file has 'none'"):
            read_predictions(path, filter_name="best")


class TestTables:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("p.csv", "id,prediction,reference,subject\n1,A,B,x\n2, 3.5 ,3.5,y\n3,,C,y\n"),
            ("p.csv", '\ufeffID;Pred;Gold;Category\r\n1;"A";B;x\r\n2;3.5;3.5;y\r\n\r\n3;;C;y\r\n'),
            ("p.tsv", "item_id\tresponse\ttarget\tsubject\n1\tA\tB\tx\n2\t3.5\t3.5\ty\n3\t\tC\ty\n"),
            (
                "p.jsonl",
                [
                    {"id": 1, "pred": "A", "answer": "B", "subject": "x"},
                    {"id": 2, "pred": 3.5, "answer": "3.5", "subject": "y"},
                    {"id": "3", "pred": None, "answer": "C", "subject": "y"},
                ],
            ),
            (
                "p.json",
                '[{"id": 1, "output": "A", "ref": "B", "subject": "x"},\n {"id": 2, "output": 3.5, "ref": 3.5,'
                ' "subject": "y"}, {"id": 3, "output": " ", "ref": "C", "subject": "y"}]',
            ),
        ],
    )
    def test_the_same_table_in_every_form(self, tmp_path: Path, name: str, content: Any) -> None:
        found = read_predictions(write(tmp_path, name, content))
        assert [(key, item.answers, item.reference, item.subject) for key, item in found.items.items()] == [
            ("1", ("A",), "B", "x"),
            ("2", ("3.5",), "3.5", "y"),
            ("3", (None,), "C", "y"),
        ]
        assert not found.by_position

    @pytest.mark.parametrize(
        "content", ['["A", 2, 2.0, null, true]', '{"model": "m", "preds": ["A", 2, 2.0, null, true]}']
    )
    def test_bare_lists(self, tmp_path: Path, content: str) -> None:
        found = read_predictions(write(tmp_path, "p.json", content))
        assert [item.answers[0] for item in found.items.values()] == ["A", "2", "2", None, "true"]
        assert found.by_position

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("p.json", "", "the file is empty"),
            ("p.json", "[]", "the list is empty"),
            ("p.json", "[1, NaN]", "entry 2: expected a text, a number or null, but got NaN"),
            ("p.json", '["A", ["B"]]', "entry 2: expected a text, a number or null, but got a list"),
            ("p.json", '{"model": "m"}', "expected a list under preds, predictions or answers"),
            ("p.json", '[{"id": 1, "prediction": "A"}, 3]', "entry 2: expected an object as the first is, but got 3"),
            ("p.json", "[" * 100_000, "nested too deeply"),
            ("p.json", '["A"', "expected JSON, but got"),
            ("p.json", "cos\nsystem\n(S'ls'\ntR.", r"but it begins with \"cos\\nsystem"),
            ("p.jsonl", '{"id": 1, "prediction": "A"}\n{"id": 2', "line 2: expected JSON"),
            ("p.jsonl", '{"id": 1, "prediction": "A"}\n[1]', "line 2: expected a JSON object, but got a list"),
            ("p.jsonl", '{"id": 1, "x\\u001b[2J": "A"}', r"line 1: expected a field prediction, .*'x\\x1b\[2J'"),
            ("p.jsonl", '{"prediction": "A"}', "line 1: expected a field id, item_id"),
            ("p.jsonl", '{"id": null, "prediction": "A"}', "line 1: expected an id, but it is empty"),
            ("p.csv", "id,answer\n1,A\n", "line 2: expected a field prediction, pred"),
            ("p.csv", "id,prediction\n", "at least one row under the names"),
            ("p.csv", "id,prediction\n1,A\n2,B,C\n", "line 3: expected 2 cells as in the first line, but got 3"),
            ("p.csv", "id,id,prediction\n1,1,A\n", "line 1: expected every column once"),
            ("p.csv", 'id,prediction\n1,"A\n', "expected CSV, but"),
            ("p.csv", "id,prediction\n1," + "A" * 200_000 + "\n", "field larger than field limit"),
            ("p.csv", "id,prediction\n1,A\n1,B\n", "line 3: expected every item once, but '1' stands in line 2 too"),
        ],
    )
    def test_bad_files(self, tmp_path: Path, name: str, content: str, message: str) -> None:
        with pytest.raises(InputError, match=message) as caught:
            read_predictions(write(tmp_path, name, content))
        assert str(caught.value).isprintable()
        assert len(str(caught.value).replace(str(tmp_path), "")) < 400

    def test_what_is_no_text_file(self, tmp_path: Path) -> None:
        pickled = tmp_path / "p.json"
        pickled.write_bytes(b"\x80\x04\x95\xff\xfe")
        with pytest.raises(InputError, match="cannot be read as UTF-8"):
            read_predictions(pickled)
        for path in (tmp_path, Path("/dev/zero")):
            with pytest.raises(InputError, match="it is a folder or a device"):
                read_predictions(path)
        with pytest.raises(InputError, match="there is no such file"):
            read_predictions(tmp_path / "absent.json")

    def test_files_above_the_limit_are_refused_unread(self, tmp_path: Path) -> None:
        path = tmp_path / "p.json"
        with path.open("wb") as file:
            file.truncate(513 * 2**20)  # sparse: no byte is written
        with pytest.raises(InputError, match="expected at most"):
            read_predictions(path)


class TestReferences:
    def test_by_position_and_by_id(self, tmp_path: Path) -> None:
        items = [{"id": "q1", "answer": "A", "subject": "x"}, {"id": "q2", "answer": "B", "subject": "y"}]
        references = write(tmp_path, "r.jsonl", items)
        bare = with_references(read_predictions(write(tmp_path, "p.json", '["B", "B"]')), references)
        assert [(item.reference, item.subject) for item in bare.items.values()] == [("A", "x"), ("B", "y")]
        table = read_predictions(write(tmp_path, "p.csv", "id,prediction\nq2,B\n"))
        assert with_references(table, references).items["q2"].reference == "B"

    @pytest.mark.parametrize(
        ("name", "content"),
        [("r.json", '["A", "B"]'), ("r.csv", "answer\nA\nB\n"), ("r.jsonl", '{"gold": "A"}\n{"gold": "B"}')],
    )
    def test_forms_without_ids(self, tmp_path: Path, name: str, content: str) -> None:
        answers = read_predictions(write(tmp_path, "p.json", '["B", "B"]'))
        found = with_references(answers, write(tmp_path, name, content))
        assert [item.reference for item in found.items.values()] == ["A", "B"]

    @pytest.mark.parametrize(
        ("answers", "references", "message"),
        [
            ('["A"]', '{"answer": "A"}\n{"answer": "B"}', "expected as many answers as .* has items, 2, but got 1"),
            ('[{"id": 9, "pred": "A"}]', '{"id": 1, "answer": "A"}', "but '9' is not in it"),
            ('["A"]', '{"answer": ""}', "line 1: expected the right answer, but it is empty"),
            ('["A"]', '{"question": "A"}', "line 1: expected a field reference, ref"),
        ],
    )
    def test_errors(self, tmp_path: Path, answers: str, references: str, message: str) -> None:
        read = read_predictions(write(tmp_path, "p.json", answers))
        with pytest.raises(InputError, match=message):
            with_references(read, write(tmp_path, "r.jsonl", references))

    def test_samples_hold_their_own(self, tmp_path: Path) -> None:
        samples = read_predictions(GOLDEN / "base" / "samples_options_golden.jsonl")
        with pytest.raises(InputError, match="not for lm-eval's samples"):
            with_references(samples, write(tmp_path, "r.jsonl", '{"answer": "A"}'))
