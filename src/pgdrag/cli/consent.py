"""How does a command ask before it does what cannot be taken back, or what a stranger wrote?

There is one form: the reasons, one a line; a question, if there is a terminal to ask on; otherwise an error that
names the option that answers it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from pgdrag.cli.place import say
from pgdrag.english import capital, without_controls
from pgdrag.errors import UsageError
from pgdrag.experiment.consent import NeededConsent, RememberedConsent
from pgdrag.model.program import Program


def can_answer() -> bool:
    """Tell whether a person is there to read a question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(
    question: str,
    *,
    reasons: Sequence[str] = (),
    refusal: str = "cannot ask without a terminal",
    hint: str = "Give --yes.",
    cancelled: str = "nothing was done",
    default: bool = False,
) -> None:
    """Ask a question that is answered with yes or no.

    Args:
        reasons: sentences, which may have several lines; printed before the question.
        refusal: the error's message if nobody can answer.
        hint: which option says yes, as a sentence.
        cancelled: what a "no" means.

    Raises:
        UsageError: there is no terminal to ask on, or the answer was no.
    """
    if not can_answer():
        said = [x for x in reasons if x.rstrip(".").lower() != refusal.lower()]
        raise UsageError(refusal, detail="\n".join(said) or None, hint=hint)
    for reason in reasons:
        say(reason, "yellow")
    if not typer.confirm(without_controls(question), default=default, err=True):
        raise UsageError(f"cancelled; {cancelled}")


def agree(
    needed: NeededConsent,
    subject: str,
    *,
    allow_run: bool,
    remember: bool,
    allow_change: Sequence[str] = (),
    run_id: str = "",
) -> frozenset[str]:
    """Return what is allowed of what an experiment, or a run of a journal, needs: all of it.

    Args:
        subject: what needs it: 'experiment "x"'.
        allow_run, allow_change: consent that the command line gives.
        remember: remember consent that is given now.
        run_id: of the run that goes on; consent to its beginning holds.

    Raises:
        UsageError: consent to some of it is missing.
    """
    remembered = RememberedConsent()
    given = frozenset(allow_change)
    if allow_run:
        given |= {program.key for program in needed.programs}
    missing = needed.without(given)
    if missing and not remembered.includes(needed, run_id):
        _ask_for(missing, subject)
    if needed and remember:
        if word := needed.unresolved_word:
            say(
                f'Consent was not remembered: with "{word}" in the command, pgdrag cannot tell which files it runs.',
                "yellow",
            )
        else:
            remembered.add(needed)
    return needed.keys | given


def _ask_for(missing: NeededConsent, subject: str) -> None:
    options = ["--allow-run"] if missing.programs else []
    options += [f"--allow-change {name}" for name in missing.changes]
    ask(
        "Allow this?",
        refusal=f"{subject} needs consent to what it does on this machine",
        reasons=_lines(missing),
        hint=f"If you trust it, add {' '.join(options)}.",
        cancelled="nothing was run",
    )


def _lines(needed: NeededConsent) -> list[str]:
    return [*map(program_words, needed.programs), *(f"Changes {name}" for name in needed.changes)]


def program_words(program: Program) -> str:
    """Return what is run, for what and where."""
    where = f" in {program.directory}" if program.directory else ""
    command = program.command.replace("\n", "\n    ")
    return capital(f"to {program.purpose}, runs{where}:\n    {command}")
