"""`hubaudit variants`: what the Hub has of a base, and what of it can be audited."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

from hubaudit.errors import InputError
from hubaudit.terminal_progress import listener

__all__ = ["variants_command"]


def variants_command(
    base: Annotated[str, typer.Argument(help="Hub id, ORG/NAME or ORG/NAME@revision.")],
    limit: Annotated[int, typer.Option(help="Most repos, the most downloaded ones.")] = 60,
    relations: Annotated[
        str, typer.Option(help="Which kinds, joined by commas: quantized, adapter, finetune.")
    ] = "quantized,adapter,finetune",
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON on standard output.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress; errors still appear.")] = False,
) -> None:
    """List a base's quantized, adapter and fine-tuned children on the Hub; no weights are downloaded."""
    from hubaudit.hub.child import RELATIONS
    from hubaudit.hub.children import list_children

    wanted = [name.strip() for name in relations.split(",") if name.strip()]
    chosen = [relation for relation in RELATIONS if relation in wanted]
    if not chosen or len(chosen) != len(set(wanted)):
        raise InputError(f"--relations must be among {', '.join(RELATIONS)}, joined by commas, but got {relations!r}")
    with listener(quiet=quiet) as progress:
        listing = list_children(base, limit=limit, relations=chosen, progress=progress)
    if as_json:
        # Escaped to ASCII: names come from repos that nobody vouches for, and end in a terminal.
        document = {
            "base": {"repo_id": listing.base.repo_id, "revision": listing.base.revision},
            "children": [child.to_dict() for child in listing.children],
            "notes": listing.notes,
        }
        typer.echo(json.dumps(document, indent=1, allow_nan=False))
        return
    from hubaudit.variants_view import print_children

    print_children(listing, Console())
