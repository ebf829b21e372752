"""Write log records as the server does: src/backend/utils/error/{elog,csvlog,jsonlog}.c say how."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from pgdrag.servers.log_formats import LogMessage


def logged(unix_s: float, message: str, severity: str = "LOG", sqlstate: str = "") -> LogMessage:
    """A message as it is read; its time has milliseconds."""
    moment = datetime.fromtimestamp(unix_s, UTC)
    return LogMessage(f"{moment:%Y-%m-%d %H:%M:%S.%f}", severity, message, sqlstate)


def json_record(message: str, *, timestamp: str, severity: str, sqlstate: str, pid: int) -> str:
    entry: dict[str, object] = {"timestamp": timestamp, "user": "u", "dbname": "d", "pid": pid}
    entry |= {"session_id": "6921a1b2.3e8", "line_num": 7, "vxid": "3/4", "txid": 0}
    entry |= {"error_severity": severity}
    if sqlstate != "00000":
        entry["state_code"] = sqlstate
    entry |= {"message": message, "application_name": "psql", "query_id": 0}
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"


def csv_record(message: str, *, timestamp: str, severity: str, sqlstate: str, pid: int) -> str:
    def quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    user, host, tag = quoted("u"), quoted("[local]"), quoted("UPDATE")
    start = f"{timestamp},{user},{quoted('d')},{pid},{host},6921a1b2.3e8,7,{tag}"
    moved = f"2026-11-21 11:00:00 UTC,3/4,0,{severity},{sqlstate},{quoted(message)}"
    return f'{start},{moved},,,,,,{quoted("SELECT 1")},,,{quoted("psql")},"client backend",,0\n'


WRITERS = {".json": json_record, ".csv": csv_record}
