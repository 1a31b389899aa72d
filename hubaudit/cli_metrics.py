"""`hubaudit metrics`: the four evaluate modules in the local cache and on the Hub."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hubaudit.modules.install import MetricStatus, install_metrics, installed_metrics, modules_cache
from hubaudit.modules.push import plan_push, push_metrics

__all__ = ["metrics_app"]

_MEANING = {
    "current": "evaluate.load finds this version of hubaudit's",
    "outdated": "of another version; run `hubaudit metrics install`",
    "shadowed": "evaluate.load finds a newer file that is not hubaudit's; run `hubaudit metrics install`",
    "missing": "not installed; run `hubaudit metrics install`",
}

metrics_app = typer.Typer(
    help="Modules for evaluate.load: correctness_agreement, direction_floor, prism_bound, translation_attenuation.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@metrics_app.command("install")
def install() -> None:
    """Make `evaluate.load("prism_bound")` and its three siblings work by bare name, online or not."""
    _show(install_metrics())


@metrics_app.command("list")
def show() -> None:
    """Say which of the metrics are installed and whether they are current."""
    _show(installed_metrics())


@metrics_app.command("push")
def push(
    namespace: Annotated[str, typer.Option("--namespace", help="User or organization of the Hub.")],
    yes: Annotated[bool, typer.Option("--yes", help="Write to the Hub; without it, only say what would be.")] = False,
) -> None:
    """Publish each metric as a Space, for `evaluate.load("NAMESPACE/prism_bound")`."""
    plans = plan_push(namespace)
    if not yes:
        for plan in plans:
            typer.echo(f"{plan.repo_id} (Space)")
            for file in plan.files:
                typer.echo(f"  {file.name}  {file.stat().st_size} bytes")
        typer.echo("Nothing was written; add --yes to create these Spaces or update them.")
        return
    for url in push_metrics(plans):
        typer.echo(url)


def _show(statuses: list[MetricStatus]) -> None:
    table = Table("metric", "state", "meaning")
    for status in statuses:
        table.add_row(status.name, status.state, _MEANING[status.state])
    console = Console()
    console.print(table)
    console.print(f"Module cache: {modules_cache()}", soft_wrap=True, highlight=False)
