"""The command that makes a report again, with every reference pinned to what was audited."""

from __future__ import annotations

import re
import shlex

from hubaudit.report.schema import ModelReport, Report, VariantReport

__all__ = ["audit_command"]

# Nothing that a code block, a shell or a reader could take for something else.
_PLAIN = re.compile(r"[\w./:@+*,=%~ -]{1,300}", re.ASCII)
_VERSION = re.compile(r"[A-Za-z0-9.+!]{1,40}", re.ASCII)
_MADE_ON_THE_SPOT = re.compile(r"(bnb|rtn):\S+")
_PINNED_DATASET = re.compile(r"[\w.-]+/[\w.-]+@\S+.*")
_BUILTIN = "hubaudit builtin"


def audit_command(report: Report) -> str | None:
    """The audit as it was run, with revisions.

    Args:
        report: The report. Its local folders and files appear by their last name only.

    Returns:
        Two lines for a POSIX shell, the first installs this version of hubaudit; or None where a reference holds
        signs that could be taken for something else.
    """
    words = ["hubaudit", "audit", _pinned(report.base.spec, report.base)]
    words += [_variant(variant) for variant in report.variants if variant.status == "done"]
    words += ["--tasks", ",".join(_tasks(report)) or "none"]
    contrast = report.contrast
    words += ["--contrast", "none" if contrast is None else ",".join(map(_last, contrast.name.split(",")))]
    if contrast is not None and contrast.layers:
        words += ["--layers", ",".join(str(layer) for layer in contrast.layers)]
    words += ["--limit", str(report.settings.get("limit") or 0)]
    for key in ("batch_tokens", "weights"):
        value = report.settings.get(key)
        if value is not None:
            words += ["--" + key.replace("_", "-"), str(value)]
    words += ["--dtype", report.base.dtype, "--seed", str(report.seed)]
    if not all(_PLAIN.fullmatch(word) and "--" not in word.removeprefix("--") for word in words):
        return None
    if not _VERSION.fullmatch(report.hubaudit_version):
        return None
    return f"pip install hubaudit=={report.hubaudit_version}\n{shlex.join(words)}"


def _variant(variant: VariantReport) -> str:
    if variant.model is None or _MADE_ON_THE_SPOT.fullmatch(variant.spec):
        return variant.spec
    return _pinned(variant.spec, variant.model)


def _pinned(spec: str, model: ModelReport) -> str:
    """`org/name@old:file` with the commit that was audited; a path by its last name."""
    if model.repo_id is None or model.revision is None:
        return _last(spec)
    _, colon, file = spec.partition(":")
    return f"{model.repo_id}@{model.revision}{colon}{file}"


def _tasks(report: Report) -> list[str]:
    """Names as `--tasks` takes them: the built-in set is one name for several tasks, a file is named by itself."""
    names = []
    for task in report.tasks:
        if task.source.startswith(_BUILTIN):
            name = "builtin"
        else:
            name = task.name if _PINNED_DATASET.fullmatch(task.source) else _last(task.source)
        if name not in names:
            names.append(name)
    return names


def _last(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]
