"""The command line: arguments in, tables and files out, exit codes of `hubaudit.errors`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from hubaudit.cli_agree import agree_command
from hubaudit.cli_attention import attention_command
from hubaudit.cli_diff import diff_command
from hubaudit.cli_each_variant import VARIANTS_FAILED
from hubaudit.cli_metrics import metrics_app
from hubaudit.cli_publish import publish_command
from hubaudit.cli_space import space_app
from hubaudit.cli_structure import structure_command
from hubaudit.cli_variants import variants_command
from hubaudit.cli_verify import verify_command
from hubaudit.errors import HubAuditError, InputError
from hubaudit.findings import FINDINGS
from hubaudit.settings import DEFAULT_CONTRAST, DEFAULT_TASKS, AuditSettings
from hubaudit.terminal_progress import listener

if TYPE_CHECKING:
    from hubaudit.gate import Gate
    from hubaudit.report.schema import Report

__all__ = ["app", "main"]

INTERRUPTED = 130
GATE_FIRED = 1

app = typer.Typer(
    name="hubaudit",
    help="Tells what quantization and fine-tuning changed in a model of the Hugging Face Hub.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="rich",
)
app.add_typer(metrics_app, name="metrics")
app.add_typer(space_app, name="space")

_FINDINGS_HELP = "[bold]Findings[/bold] (for --fail-on):\n\n" + "\n\n".join(
    f"[cyan]{name}[/cyan] {text}" for name, text in FINDINGS.items()
)
_CODES_HELP = (
    "\n\n[bold]Exit codes[/bold]: 0 done; 1 --fail-on fired; 2 bad arguments or input; 3 a repo or dataset could not "
    "be read; 4 some variants failed, the report holds the rest; 5 out of disk or memory; 130 interrupted."
)

Out = Annotated[Path, typer.Option("--out", help="Folder for report.json, report.md, report.html and plots.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no table; errors still appear.")]
FailOn = Annotated[
    list[str] | None,
    typer.Option("--fail-on", help="Exit with 1 on a finding or a comparison, as in correctness_agreement<0.95."),
]
CacheDir = Annotated[
    Path | None, typer.Option("--cache-dir", help="Where evidence is kept (default: ~/.cache/hubaudit).")
]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        from hubaudit.version import __version__

        typer.echo(f"hubaudit {__version__}")
        raise typer.Exit


@app.command(epilog=_FINDINGS_HELP + _CODES_HELP)
def audit(
    base: Annotated[str, typer.Argument(help="Hub id, id@revision, or a local folder.")],
    variants: Annotated[
        list[str] | None,
        typer.Argument(
            help="Hub ids, ORG/NAME:QUANT, ORG/NAME:file.gguf, ORG/NAME:* (every quant), folders, .gguf files, "
            "adapters, bnb:int8|nf4|fp4, rtn:BITS, rtn:BITS@gGROUP or rtn:4,v=6."
        ),
    ] = None,
    discover: Annotated[
        bool, typer.Option("--discover", help="Add the base's most downloaded children on the Hub.")
    ] = False,
    max_variants: Annotated[int | None, typer.Option(help="Most variants to discover (default 8).")] = None,
    formats: Annotated[str | None, typer.Option(help="Formats to discover, as gguf,gptq,lora.")] = None,
    max_size: Annotated[str | None, typer.Option(help="Largest weights to discover, as 2GB.")] = None,
    tasks: Annotated[
        str, typer.Option(help="Names or paths of .jsonl and .txt files, joined by commas; none for no task.")
    ] = ",".join(DEFAULT_TASKS),
    contrast: Annotated[
        str, typer.Option(help="advbench-alpaca, builtin, two files joined by a comma, or none.")
    ] = DEFAULT_CONTRAST,
    probe: Annotated[Path | None, typer.Option(help="A saved linear probe: direction, threshold, layer.")] = None,
    limit: Annotated[int, typer.Option(help="Items a task and prompts a class, a seeded sample; 0 takes all.")] = 256,
    layers: Annotated[
        str | None, typer.Option(help="Decoder blocks to read, joined by commas; 0 is the first.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, bfloat16, float16 or float32.")] = "auto",
    batch_tokens: Annotated[
        int | None, typer.Option(help="Tokens of a batch, padding included (default 1024, on a GPU 8192).")
    ] = None,
    weights: Annotated[str, typer.Option(help="item or token: what weighs the same in risks and drift.")] = "item",
    seed: Annotated[int, typer.Option(help="Seed of every sample and resampling.")] = 0,
    engine_gguf: Annotated[
        str,
        typer.Option(
            help="dense, or llamacpp: GGUF files run in llama.cpp too; their drift is split into weights and engine."
        ),
    ] = "dense",
    structure: Annotated[
        bool, typer.Option("--structure", help="Compare the weights too, by layer and projection.")
    ] = False,
    out: Out = Path("audit-report"),
    cache_dir: CacheDir = None,
    resume: Annotated[bool, typer.Option(help="Use evidence of earlier runs.")] = True,
    plan: Annotated[bool, typer.Option("--plan", help="Print what would run, and exit.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    fail_on: FailOn = None,
) -> None:
    """Compare variants with their base: agreement, bound, divergence, directions and monitor."""
    if weights not in ("item", "token"):
        raise InputError(f"--weights must be item or token, but got {weights!r}")
    if engine_gguf not in ("dense", "llamacpp"):
        raise InputError(f"--engine-gguf must be dense or llamacpp, but got {engine_gguf!r}")
    settings = AuditSettings(
        base=base,
        variants=tuple(variants or ()),
        discover=discover,
        max_variants=max_variants,
        formats=_names(formats or ""),
        max_size=max_size,
        tasks=_names(tasks),
        contrast=None if contrast == "none" else contrast,
        probe=probe,
        limit=limit or None,
        layers=_numbers(layers),
        device=device,
        dtype=dtype,
        batch_tokens=batch_tokens,
        weights="item" if weights == "item" else "token",
        seed=seed,
        engine_gguf="llamacpp" if engine_gguf == "llamacpp" else "dense",
        structure=structure,
        cache_dir=cache_dir,
        resume=resume,
    )
    _run(settings, out, plan=plan, as_json=as_json, quiet=quiet, fail_on=fail_on or [])


@app.command()
def demo(
    out: Out = Path("demo-report"),
    cache_dir: CacheDir = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    fail_on: FailOn = None,
) -> None:
    """Audit eight variants of a real 135M model that pip can install; no network, a few minutes."""
    from hubaudit.demo import demo_settings

    with listener(quiet=quiet) as progress:
        settings = demo_settings(cache_dir, progress)
    _run(settings, out, plan=False, as_json=as_json, quiet=quiet, fail_on=fail_on or [])


@app.command()
def report(
    path: Annotated[Path, typer.Argument(help="A report.json.")],
    form: Annotated[
        str | None, typer.Option("--format", help="md, html, json or csv (PRISM's table); without it, the terminal's.")
    ] = None,
) -> None:
    """Show a stored report."""
    from hubaudit.report.schema import read_report

    stored = read_report(path)
    if form is None:
        from hubaudit.report.terminal import print_report

        print_report(stored, Console())
        return
    typer.echo(_rendered(stored, form), nl=False)


app.command("agree")(agree_command)
app.command("attention")(attention_command)
app.command("diff")(diff_command)
app.command("publish")(publish_command)
app.command("structure")(structure_command)
app.command("variants")(variants_command)
app.command("verify")(verify_command)


def _rendered(stored: Report, form: str) -> str:
    if form == "json":
        return stored.to_json()
    if form == "md":
        from hubaudit.report.markdown import to_markdown

        return to_markdown(stored)
    if form == "html":
        from hubaudit.report.html import to_html

        return to_html(stored)
    if form == "csv":
        from hubaudit.report.table import to_csv

        return to_csv(stored)
    raise InputError(f"--format must be md, html, json or csv, but got {form!r}")


def _names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    return () if names == ("none",) else names


def _numbers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as exc:
        raise InputError(f"--layers must be whole numbers joined by commas, but got {text!r}") from exc


def _run(settings: AuditSettings, out: Path, *, plan: bool, as_json: bool, quiet: bool, fail_on: list[str]) -> None:
    from hubaudit.gate import parse_gate

    gates = [parse_gate(text) for text in fail_on]
    from hubaudit.pipeline import Pipeline
    from hubaudit.report.terminal import print_report
    from hubaudit.report.write import check_writable, write_report

    if plan:
        with listener(quiet=quiet) as progress:
            text = Pipeline(settings, progress).forecast().text()
        typer.echo(text)
        return
    check_writable(out)
    with listener(quiet=quiet) as progress:
        pipeline = Pipeline(settings, progress)
        result = pipeline.run()
        paths = write_report(result, out)
    if as_json:
        typer.echo(result.to_json(), nl=False)
    elif not quiet:
        console = Console()
        print_report(result, console)
        console.print(f"Report: {paths['html']}", soft_wrap=True, highlight=False)
    raise typer.Exit(_exit_code(result, gates, interrupted=pipeline.interrupted))


def _exit_code(result: Report, gates: list[Gate], *, interrupted: bool) -> int:
    if interrupted:
        return INTERRUPTED
    failures = [variant.error for variant in result.variants if variant.error is not None]
    if failures:
        # With nothing left to report, the failure itself is the outcome.
        return VARIANTS_FAILED if len(failures) < len(result.variants) else failures[0].exit_code
    fired = [line for gate in gates for line in gate.fired(result)]
    for line in fired:
        typer.echo(f"fail-on: {line}", err=True)
    return GATE_FIRED if fired else 0


def main() -> None:
    """Entry point: one clear line for a user's mistake, never a traceback."""
    # Their warnings are about retries and cards; what matters to the user arrives as an error of ours.
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    os.environ.setdefault("DATASETS_VERBOSITY", "error")
    try:
        app()
    except HubAuditError as exc:
        typer.echo(f"error: {exc}", err=True)
        sys.exit(exc.exit_code)
    except KeyboardInterrupt:
        typer.echo("interrupted; run the same command again to go on from here", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of a pipe went away; that is its right.
        sys.stderr.close()
        sys.exit(0)
