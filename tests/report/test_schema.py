"""The schema: exported, current, described, and strict about what it reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hubaudit.errors import InputError
from hubaudit.report.export_schema import SCHEMA_PATH, schema_text
from hubaudit.report.schema import SCHEMA_VERSION, Report, read_report


def test_the_exported_schema_is_current() -> None:
    assert SCHEMA_PATH.read_text(encoding="utf-8") == schema_text(), (
        "the schema changed; run `python -m hubaudit.report.export_schema`"
    )


def test_every_field_is_described_in_one_sentence() -> None:
    schema = json.loads(schema_text())
    classes = {"Report": schema, **schema["$defs"]}
    for name, definition in classes.items():
        for key, field in definition["properties"].items():
            assert field.get("description", "").endswith("."), f"{name}.{key}"


def test_a_report_fits_the_schema(report: Report, hostile: Report) -> None:
    schema = json.loads(schema_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for one in (report, hostile):
        jsonschema.validate(json.loads(one.to_json()), schema)
    broken = json.loads(report.to_json())
    broken["variants"][0]["status"] = "perhaps"
    with pytest.raises(jsonschema.ValidationError, match="'perhaps' is not one of"):
        jsonschema.validate(broken, schema)


def test_json_is_strict_and_survives_a_round_trip(report: Report) -> None:
    text = report.to_json()

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    json.loads(text, parse_constant=refuse)
    assert Report.model_validate_json(text) == report
    assert Report.model_validate_json(text).to_json() == text


def test_unknown_keys_of_newer_minor_versions_are_ignored(report: Report, tmp_path: Path) -> None:
    content = json.loads(report.to_json())
    content["schema_version"] = SCHEMA_VERSION.split(".")[0] + ".9"
    content["new_block"] = {"a": 1}
    content["variants"][0]["prism_bound"]["arc"]["new_figure"] = 1.5
    path = tmp_path / "report.json"
    path.write_text(json.dumps(content))
    assert read_report(path).variants == report.variants


def spoil(change: Callable[[dict[str, Any]], object]) -> Callable[[str], str]:
    def spoiled(text: str) -> str:
        content = json.loads(text)
        change(content)
        return json.dumps(content)

    return spoiled


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:1000], "not a hubaudit report: top level: Invalid JSON"),
        (lambda _: "[]", "not a hubaudit report"),
        (spoil(lambda content: content.pop("base")), "not a hubaudit report: base: Field required"),
        (
            spoil(lambda content: content["variants"][0]["prism_bound"]["arc"].update(bound="big")),
            "variants.0.prism_bound.arc.bound: Input should be a valid number",
        ),
        (spoil(lambda content: content.update(schema_version="99.0")), "schema version 99.0, but this hubaudit reads"),
    ],
)
def test_what_is_no_report(change: Callable[[str], str], message: str, report: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(change(report.to_json()))
    with pytest.raises(InputError, match=re.escape(message)):
        read_report(path)


def test_missing_too_large_and_binary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="cannot read this as a report"):
        read_report(tmp_path / "missing.json")
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot read this as a report"):
        read_report(binary)
    monkeypatch.setattr("hubaudit.report.schema.MAX_REPORT_BYTES", 2)
    with pytest.raises(InputError, match="has at most 2 bytes, but this file has 3"):
        read_report(binary)
