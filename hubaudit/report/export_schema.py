"""Write the report's JSON Schema into the package: `python -m hubaudit.report.export_schema`."""

from __future__ import annotations

import json
from pathlib import Path

from hubaudit.report.schema import SCHEMA_VERSION, Report

__all__ = ["SCHEMA_PATH", "main", "schema_text"]

SCHEMA_PATH = Path(__file__).with_name("report.schema.json")
"""Where the exported schema lies in the package."""


def schema_text() -> str:
    """The JSON Schema of `report.json` as text, draft 2020-12, ending in a newline."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": f"hubaudit report, schema version {SCHEMA_VERSION}",
        **Report.model_json_schema(mode="serialization"),
    }
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the schema next to this file."""
    SCHEMA_PATH.write_text(schema_text(), encoding="utf-8")
    print(SCHEMA_PATH)


if __name__ == "__main__":
    main()
