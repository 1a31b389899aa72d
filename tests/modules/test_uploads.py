"""What a page's visitor may paste or upload, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hubaudit.errors import InputError
from hubaudit.modules import uploads
from hubaudit.modules.uploads import read_text, read_upload


def test_json_columns_and_rows_and_csv_are_the_same() -> None:
    expected = {"labels": [0, 1], "answer": ["a", "b"]}
    assert read_text(json.dumps(expected)) == expected
    assert read_text('[{"labels": 0, "answer": "a"}, {"labels": 1, "answer": "b"}]') == expected
    assert read_text("labels,answer\n0,a\n1,b\n") == expected


def test_csv_cells() -> None:
    assert read_text('a,b,c\n1,1.5,"x, y"\n2,2,\n') == {"a": [1, 2], "b": [1.5, 2.0], "c": ["x, y", None]}
    assert read_text("z.1,z.0\n1,2\n3,4\n") == {"z": [[2, 1], [4, 3]]}


def test_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", labels=np.array([0, 1]), z=np.eye(2, dtype=np.float16))
    arrays = read_upload(tmp_path / "a.npz")
    assert arrays["labels"].tolist() == [0, 1]
    assert arrays["z"].dtype == np.float16
    (tmp_path / "b.csv").write_text("\ufefflabels\n0\n", encoding="utf-8")
    assert read_upload(tmp_path / "b.csv") == {"labels": [0]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" ", "got nothing"),
        ("{", "text that is none"),
        ("[" * 100_000, "text that is none"),
        ("[1, 2]", "got neither"),
        ("{}", "got neither"),
        ('[{"a": 1}, {"b": 1}]', "same names"),
        ("a,b\n1\n", "got 1 in row 2"),
        ("a,b\n", "header line"),
        ("a,a\n1,2\n", "every column once"),
        ("z.0,z.2\n1,2\n", "number them from 0"),
        ('a\n"x', "check the quotes"),
    ],
)
def test_refused_text(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_text(text)


def test_refused_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.pkl").write_bytes(b"")
    with pytest.raises(InputError, match="got 'a.pkl'"):
        read_upload(tmp_path / "a.pkl")
    (tmp_path / "b.npz").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"numpy\.savez"):
        read_upload(tmp_path / "b.npz")
    (tmp_path / "c.csv").write_bytes(b"a\n\xff\n")
    with pytest.raises(InputError, match="UTF-8"):
        read_upload(tmp_path / "c.csv")
    # Unpickling would run whatever the file says.
    np.savez(tmp_path / "d.npz", z=np.array([{"an": "object"}], dtype=object))
    with pytest.raises(InputError, match="numbers or strings"):
        read_upload(tmp_path / "d.npz")
    # Few bytes in the file, more than the limit once unpacked.
    np.savez_compressed(tmp_path / "e.npz", z=np.zeros(100_000))
    monkeypatch.setattr(uploads, "MAX_BYTES", 100_000)
    assert (tmp_path / "e.npz").stat().st_size < 100_000
    with pytest.raises(InputError, match="at most 100000 bytes, got 8"):
        read_upload(tmp_path / "e.npz")
    (tmp_path / "f.json").write_text(json.dumps({"z": "x" * 200_000}))
    with pytest.raises(InputError, match="at most 100000 bytes"):
        read_upload(tmp_path / "f.json")
    monkeypatch.setattr(uploads, "MAX_NUMBERS", 3)
    with pytest.raises(InputError, match="at most 3 values, got 4"):
        read_text('{"z": [[1, 2], [3, 4]]}')
