"""What does the server, or libpq, say of an error?"""

from __future__ import annotations

import psycopg


def words_of(error: Exception) -> str:
    """Return why something went wrong in one line: the server's own words, where it said some."""
    if isinstance(error, psycopg.Error) and error.diag.message_primary:
        return error.diag.message_primary
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    refused = next((x.partition("FATAL:")[2].strip() for x in lines if "FATAL:" in x), "")
    if refused or not lines:
        return refused or type(error).__name__
    # psycopg's own words before those of libpq.
    return lines[0].removeprefix("connection failed: ").removeprefix("connection is bad: ")
