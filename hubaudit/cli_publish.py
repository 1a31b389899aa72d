"""`hubaudit publish`: a report into the model cards of its variants."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hubaudit.errors import HubAuditError, InputError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

    from hubaudit.publish import Pushed, RepoPlan, Target

__all__ = ["publish_command"]


def publish_command(
    path: Annotated[Path, typer.Argument(metavar="REPORT.json", help="A report that `hubaudit audit` wrote.")],
    repo: Annotated[
        str | None,
        typer.Option(help="Only this repo of the report; or, for variants from local files, the repo they are in."),
    ] = None,
    variant: Annotated[
        list[str] | None, typer.Option(help="Only this variant, as the report names it; may be repeated.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Open a pull request in each repo.")] = False,
    direct: Annotated[bool, typer.Option("--direct", help="Commit to each repo; no pull request.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print plan and outcome as JSON.")] = False,
) -> None:
    """Write a report into its variants' model cards: metadata, a section, report.json and plots.

    Without --yes or --direct nothing is written: the plan and the card's diff are printed.
    """
    from hubaudit.publish import choose_targets, hide_tokens
    from hubaudit.report.schema import read_report

    chosen = choose_targets(read_report(path), repo=repo, variants=variant or [])
    from huggingface_hub import HfApi
    from huggingface_hub.constants import HF_HUB_OFFLINE

    if HF_HUB_OFFLINE:
        raise InputError("publishing needs the Hub, but HF_HUB_OFFLINE is set; unset it")
    api = HfApi(library_name="hubaudit")
    outcomes: list[dict[str, Any]] = []
    failure: HubAuditError | None = None
    for target in chosen.targets:
        try:
            outcomes.append(_handled(target, api, write=yes or direct, direct=direct, show=not as_json))
        except HubAuditError as exc:
            # One repo that refuses is no reason to leave the others out.
            failure = failure or exc
            message = hide_tokens(str(exc))
            outcomes.append({"repo_id": target.repo_id, "outcome": "failed", "error": message})
            typer.echo(f"error: {message}", err=True)
    if as_json:
        skipped = [{"spec": spec, "reason": reason} for spec, reason in chosen.skipped]
        typer.echo(json.dumps({"repos": outcomes, "skipped": skipped}, indent=1, allow_nan=False))
    else:
        _print_end(chosen.skipped, outcomes, wrote=yes or direct)
    if failure is not None:
        raise typer.Exit(failure.exit_code)


def _handled(target: Target, api: HfApi, *, write: bool, direct: bool, show: bool) -> dict[str, Any]:
    """Plan one repo, show the plan, write it where asked for, and say what came of it."""
    from hubaudit.publish import plan_repo, push

    plan = plan_repo(target, api)
    if show:
        _print_plan(plan, direct=direct)
    pushed: Pushed | None = None
    if not plan.changes:
        outcome, url = "unchanged", None
    elif plan.open_request and not direct:
        outcome, url = "already_proposed", plan.open_request
    elif write:
        pushed = push(plan, api, direct=direct)
        outcome, url = ("pull_request" if pushed.is_pull_request else "committed"), pushed.url
    else:
        outcome, url = "planned", None
    if show:
        _print_outcome(outcome, url, pushed)
    return {
        "repo_id": plan.repo_id,
        "outcome": outcome,
        "url": url,
        "parent_commit": plan.parent_commit,
        "variants": plan.variants,
        "files": [{"path": file.path, "action": file.action, "size_bytes": len(file.content)} for file in plan.files],
        "results": plan.results,
        "older_requests": list(plan.older_requests),
        "diff": plan.diff,
    }


def _print_plan(plan: RepoPlan, *, direct: bool) -> None:
    from hubaudit.report.text import clean, plural, size

    kind = "commit to" if direct else "pull request to"
    typer.echo(f"{kind} {plan.repo_id}, on top of {plan.parent_commit or 'nothing'}")
    typer.echo(f"{plural(len(plan.variants), 'variant')}: {', '.join(map(clean, plan.variants))}")
    n_metrics = sum(len(result["metrics"]) for result in plan.results)
    typer.echo(f"model-index: {plural(n_metrics, 'figure')} on {plural(len(plan.results), 'dataset')}")
    for file in plan.files:
        typer.echo(f"  {file.action:<7}{file.path}" + (f" ({size(len(file.content))})" if file.content else ""))
    for url in plan.older_requests:
        typer.echo(f"an older pull request of hubaudit is open; close it once this one is there: {clean(url)}")
    if plan.diff:
        # The card is others' text: its lines stay, nothing in it steers the terminal.
        typer.echo("\n" + "\n".join(_printable(line) for line in plan.diff.rstrip("\n").split("\n")) + "\n")


def _print_outcome(outcome: str, url: str | None, pushed: Pushed | None) -> None:
    from hubaudit.report.text import clean

    told = {
        "unchanged": "nothing to do: the repo holds this report already",
        "already_proposed": f"nothing to do: an open pull request proposes this report: {url}",
        "pull_request": f"opened {url}",
        "committed": f"committed {url}",
        "planned": "not written",
    }
    typer.echo(clean(told[outcome]))
    for warning in pushed.warnings if pushed else ():
        typer.echo(f"the Hub says: {clean(warning)}", err=True)
    typer.echo("")


def _print_end(skipped: list[tuple[str, str]], outcomes: list[dict[str, Any]], *, wrote: bool) -> None:
    from hubaudit.report.text import clean

    for spec, reason in skipped:
        typer.echo(f"left out: {clean(spec)} ({reason})")
    if not wrote and any(entry["outcome"] == "planned" for entry in outcomes):
        typer.echo("This was a dry run; --yes opens the pull requests, --direct commits.")


def _printable(line: str) -> str:
    """The line with its blanks, without signs that steer the terminal or the reading direction."""
    return "".join(char if char.isprintable() or char == "\t" else "\ufffd" for char in line.rstrip("\r"))
