"""`pgdrag schema`: what is in the JSON that a command prints?"""

from __future__ import annotations

from typing import Annotated

import typer

from pgdrag.cli.plain_output import print_json
from pgdrag.english import did_you_mean
from pgdrag.errors import UsageError


def schema(
    document: Annotated[
        str | None,
        typer.Argument(
            metavar="DOCUMENT", help="Name of a document (default: list them)", show_default=False
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of what --json prints."""
    from pgdrag.cli.documents import documents
    from pgdrag.cli.place import plain_table, stdout

    known = documents()
    if document is None:
        table = plain_table("document", "printed by", "what it is", whole=("document",))
        for name, one in known.items():
            table.add_row(name, ", ".join(one.commands), one.title)
        stdout(piped_width=140).print(table)
        return
    if document not in known:
        raise UsageError(
            f'there is no document "{document}"',
            hint=did_you_mean(document, known) or 'List them with "pgdrag schema".',
        )
    print_json(known[document].schema())
