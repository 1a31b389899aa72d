"""`hubaudit space`: the web page on this machine, or on the Hub."""

from __future__ import annotations

import importlib.util
from typing import Annotated

import typer

from hubaudit.errors import InputError, MissingExtraError

__all__ = ["space_app"]

space_app = typer.Typer(
    help="The web page: audit models, read audits, compare predictions.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@space_app.command("run")
def run(
    host: Annotated[str, typer.Option(help="Address to serve at; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 7860,
    browser: Annotated[bool, typer.Option("--browser", help="Open the page in a browser.")] = False,
) -> None:
    """Serve the page on this machine until Ctrl-C; the demo's audit is shown at once."""
    if importlib.util.find_spec("gradio") is None:
        raise MissingExtraError("the page needs gradio; install it with `pip install 'hubaudit[space]'`")
    from hubaudit.space.app import SpaceApp
    from hubaudit.space.layout import launch_options, queued

    app = SpaceApp.from_environment(own_token=host in ("127.0.0.1", "localhost", "::1"))
    page = queued(app)
    try:
        page.launch(server_name=host, server_port=port or None, inbrowser=browser, quiet=False, **launch_options(app))
    except OSError as exc:  # gradio's own words name its environment variable
        raise InputError(
            f"cannot serve at {host}:{port}: the port is taken or the address is not ours; try --port 0"
        ) from exc


@space_app.command("push")
def push(
    repo: Annotated[str, typer.Argument(metavar="ORG/NAME", help="The Space to create or update.")],
    yes: Annotated[bool, typer.Option("--yes", help="Write to the Hub; without it, only say what would be.")] = False,
) -> None:
    """Publish the page as a Space of your own."""
    from hubaudit.publish.spaces import write_space
    from hubaudit.space.push import plan_space

    plan = plan_space(repo)
    if yes:
        typer.echo(write_space(plan.repo_id, plan.files))
        return
    typer.echo(f"{plan.repo_id} (Space)")
    for path, content in plan.files.items():
        typer.echo(f"  {path}  {len(content)} bytes")
    typer.echo("Nothing was written; add --yes to create this Space or update it.")
