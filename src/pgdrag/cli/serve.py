"""`pgdrag serve`: a page on this machine with the runs of the journal, live and past."""

from __future__ import annotations

from typing import Annotated

import typer

from pgdrag.errors import EXIT_DONE


def serve(
    port: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=65535, help="Port of 127.0.0.1 to listen on (0: a free one)"
        ),
    ] = 0,
) -> int:
    """Show runs live in a browser, and start and stop them.

    Prints an address for this machine's browsers. It has a token: whoever has the address can do what you can do with
    pgdrag here. Stop it with Ctrl-C; runs go on.
    """
    from pgdrag.cli.findings import findings_of
    from pgdrag.cli.place import open_journal, report_path, stderr
    from pgdrag.serve.pages import RunPages
    from pgdrag.serve.server import PageServer

    open_journal().close()  # says what is wrong with it before anybody looks
    with PageServer(port) as server:
        server.pages = RunPages(
            server.root, server.has_ended, open_journal, findings_of, report_path
        )
        print(server.url, flush=True)
        stderr().print("Open this address in a browser on this machine. Ctrl-C stops the page.")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            stderr().print("Stopped. Runs that are in progress go on.")
    return EXIT_DONE
