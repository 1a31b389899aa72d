"""A report as the table of PRISM's section 5, CSV: one line a variant and task."""

from __future__ import annotations

import csv
import io

from hubaudit.report.schema import Report, VariantReport

__all__ = ["COLUMNS", "to_csv"]

COLUMNS = (
    *("model", "dataset", "family", "method", "rho_T", "rho_P", "omega", "delta", "gamma", "bound", "abs_risk_gap"),
    *("kl", "logratio_bound", "bound_procrustes", "delta_procrustes", "omega_procrustes"),
    *("n_items", "n_tokens", "engine", "dtype", "spec"),
)
"""The paper's columns first, T the base and P the variant; then what it does not print."""

# Spreadsheets run a cell that begins with one of these as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def to_csv(report: Report) -> str:
    """The table as CSV (RFC 4180) with a header; an undefined figure is an empty cell.

    Args:
        report: The report.

    Returns:
        Text with lines that end in CRLF. Names from outside that a spreadsheet would run as a formula begin
        with an apostrophe.
    """
    text = io.StringIO()
    table = csv.DictWriter(text, COLUMNS)
    table.writeheader()
    for task in (task.name for task in report.tasks):
        for variant in report.variants:
            if task in variant.prism_bound and variant.model is not None:
                table.writerow(_row(report, variant, task))
    return text.getvalue()


def _row(report: Report, variant: VariantReport, task: str) -> dict[str, str | float | None]:
    assert variant.model is not None
    bound, rotated = variant.prism_bound[task], variant.prism_bound_procrustes.get(task)
    family, _, method = variant.model.format.partition(":")
    return {
        "model": _safe(report.base.repo_id or report.base.spec),
        "dataset": _safe(task),
        "family": _safe(family),
        "method": _safe(method),
        "rho_T": bound.rho_base,
        "rho_P": bound.rho_variant,
        "omega": bound.omega,
        "delta": bound.delta,
        "gamma": bound.gamma,
        "bound": bound.bound,
        "abs_risk_gap": None if bound.risk_gap is None else abs(bound.risk_gap),
        "kl": bound.kl,
        "logratio_bound": bound.logratio_bound,
        "bound_procrustes": None if rotated is None else rotated.bound,
        "delta_procrustes": None if rotated is None else rotated.delta,
        "omega_procrustes": None if rotated is None else rotated.omega,
        "n_items": bound.n_items,
        "n_tokens": bound.n_tokens,
        "engine": _safe(variant.model.engine),
        "dtype": _safe(variant.model.dtype),
        "spec": _safe(variant.spec),
    }


def _safe(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text
