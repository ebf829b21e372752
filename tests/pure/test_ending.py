"""However a command ends, its status and its last words say how, and nothing of it stays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from pgdrag import errors
from pgdrag.cli import app
from pgdrag.cli.ending import status_of
from pgdrag.errors import PgdragError, UsageError

EPILOG = str(app.info.epilog)
# What commands print with, more than a buffer holds: signs that not every locale has, and a document.
TEXT = "1.17× slower (1.09–1.25) ✓ café …"
PRINTING = {
    "text": f"print({TEXT!a} * 2000)",
    "table": f"from pgdrag.cli.place import stdout; stdout().print({TEXT!a} * 2000)",
    "document": f"from pgdrag.cli.plain_output import print_document; print_document({TEXT!a} * 2000)",
    "little": f"print({TEXT!a})",
}


def ended(
    command: str, out: int = subprocess.PIPE, first: str = "", **environment: str
) -> tuple[int, bytes, str]:
    """Run Python's text as a command is run; return its status and what it wrote."""
    program = f"{first}\nfrom pgdrag.cli.ending import run_to_end\ndef command():\n    {command}\nrun_to_end(command)"
    kept = {name: x for name, x in os.environ.items() if name[:3] not in ("LC_", "LAN")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=kept | environment,
        stdout=out,
        stderr=subprocess.PIPE,
        check=False,
        timeout=120,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return done.returncode, done.stdout or b"", done.stderr.decode(errors="replace")


def raising(error: BaseException) -> Callable[[], NoReturn]:
    def command() -> NoReturn:
        raise error

    return command


def test_a_command_ends_with_the_status_that_it_returns() -> None:
    assert [status_of(lambda: 3), status_of(lambda: None)] == [3, 0]


def test_an_error_of_the_users_is_told_in_three_lines(capsys: pytest.CaptureFixture[str]) -> None:
    error = UsageError("arms differ", detail="By a lot.", hint="Name others.")
    assert status_of(raising(error)) == 2
    told = "error: arms differ\ndetail: By a lot.\nhint: Name others.\n"
    assert capsys.readouterr() == ("", told)


def test_a_bug_never_looks_like_an_answer_and_says_how_to_report_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert status_of(raising(AssertionError("rates are positive"))) == 70
    _, told = capsys.readouterr()
    assert "Traceback" in told
    assert "rates are positive" in told
    assert "error: internal error: AssertionError\n" in told
    assert "hint: Report it" in told


def test_a_file_that_a_command_did_not_expect_to_fail_is_a_bug_not_a_lost_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert status_of(raising(PermissionError(13, "Permission denied", "x"))) == 70
    assert "internal error: PermissionError" in capsys.readouterr().err


def test_an_interruption_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "pgdrag: interrupted\n"


def test_an_interruption_within_executed_text_is_130_too() -> None:
    assert ended("exec('raise KeyboardInterrupt')") == (130, b"", "pgdrag: interrupted\n")


def test_the_statuses_are_in_one_table_and_in_the_help() -> None:
    text = (Path(__file__).parents[2] / "docs/reference/command-line.md").read_text()
    table = text.partition("## Exit status")[2].partition("\n## ")[0]
    known = set(errors.EXIT_STATUSES)
    assert known == {
        x for name, x in vars(errors).items() if re.fullmatch("EXIT_(?!STATUSES).*", name)
    }
    assert {int(x) for x in re.findall(r"^\| (\d+) \|", table, re.M)} == known
    assert {int(x) for x in re.findall(r"\b(\d+) [a-z]", EPILOG)} == known


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("printing", PRINTING)
def test_output_that_cannot_be_written_is_an_error_with_its_reason(printing: str) -> None:
    with Path("/dev/full").open("w") as full:
        status, _, err = ended(PRINTING[printing], full.fileno())
    assert status == 2
    assert err == "error: could not write to standard output: no space left on device\n"


@pytest.mark.parametrize("printing", PRINTING)
def test_a_reader_that_has_gone_ends_a_command_as_sigpipe_would(printing: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert ended(PRINTING[printing], writer) == (141, b"", "")
    finally:
        os.close(writer)


def test_a_closed_output_is_none_that_a_file_could_take_the_place_of(tmp_path: Path) -> None:
    """The next file that is opened would be number 1: standard output to every program that is started."""
    command = f"file = open({str(tmp_path / 'file')!r}, 'w'); print('lost'); return file.fileno()"
    assert ended(command, first="import os\nos.close(0); os.close(1)")[0] > 2


@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
    ids=str,
)
def test_any_locale_can_be_written_to_and_documents_are_utf_8(locale: dict[str, str]) -> None:
    """The locale C is UTF-8 to Python, unless that is switched off."""
    both = f"{PRINTING['little']}; print({TEXT!a}, file=__import__('sys').stderr); {PRINTING['document']}"
    status, out, _ = ended(both, **locale)
    line, _, document = out.partition(b"\n")
    assert status == 0
    assert document.decode() == TEXT * 2000 + "\n"
    plain = b"1.17x slower (1.09-1.25) + cafe ..."
    if locale == {"PYTHONIOENCODING": "latin-1"}:
        plain = "1.17× slower (1.09-1.25) + café ...".encode("latin-1")
    assert line in (plain, TEXT.encode())
    assert (line == TEXT.encode()) == (len(locale) == 1 and "LC_ALL" in locale)


def test_a_name_that_is_no_text_can_be_printed() -> None:
    """As of a file: its bytes that are no UTF-8 are surrogates to Python."""
    assert ended("print('\\udcff.conf')")[:2] == (0, b"?.conf\n")


# Each imports a module more, so that the signal comes at another moment of the start.
INTERRUPTED_AT = "import sys, os, signal\nfrom pgdrag.__main__ import main\nleft = {left}\ndef look(event, found):\n    global left\n    if event == 'import' and (left := left - 1) == 0: os.kill(os.getpid(), signal.SIGINT)\nsys.addaudithook(look)\nsys.argv = ['pgdrag', '--help']\nmain()\n"


@pytest.mark.parametrize("left", [1, 20, 60, 100])
def test_ctrl_c_while_pgdrag_is_loaded_leaves_no_traceback(left: int) -> None:
    run = INTERRUPTED_AT.format(left=left)
    done = subprocess.run(
        [sys.executable, "-c", run], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "pgdrag: interrupted\n")


def test_what_ignores_ctrl_c_still_does() -> None:
    """As a job that a shell runs in the background."""
    run = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + INTERRUPTED_AT
    done = subprocess.run(
        [sys.executable, "-c", run.format(left=30)], capture_output=True, check=False, timeout=120
    )
    assert done.returncode == 0


def test_an_interrupt_that_python_could_not_raise_is_raised_again() -> None:
    """In a destructor: Python would print it and go on."""
    first = "import os, signal, time\nclass Told:\n    def __del__(self): os.kill(os.getpid(), signal.SIGTERM); time.sleep(0.01)"
    assert ended("Told(); time.sleep(60)", first=first) == (130, b"", "pgdrag: interrupted\n")


def test_what_an_interruption_left_half_closed_says_nothing_as_python_ends() -> None:
    first = (
        "def half_closed():\n    try: yield\n    finally: raise ValueError('closed twice')\n"
        "kept = half_closed(); next(kept)"
    )
    assert ended("raise KeyboardInterrupt", first=first) == (130, b"", "pgdrag: interrupted\n")


def test_signals_are_those_of_the_documented_statuses() -> None:
    assert errors.EXIT_INTERRUPTED == 128 + signal.SIGINT
    assert errors.EXIT_BROKEN_PIPE == 128 + signal.SIGPIPE
    assert issubclass(UsageError, PgdragError)
