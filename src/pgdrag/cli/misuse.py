"""What is wrong with a command line that Typer refuses, in the style of all other errors?

Typer says it in click's words, which differ from version to version. Here the same mistakes are named
as in an experiment file, with what was meant where that can be guessed.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pgdrag.english import did_you_mean, listed
from pgdrag.errors import UsageError
from pgdrag.units import parse_seconds

# What other tools call an option, most of all pgbench, and what it may be here; the first that a command has.
_OTHER_TOOLS = {
    "-c": ("--connections", "--client"),
    "--client": ("--connections",),
    "--clients": ("--connections", "--client"),
    "--connections": ("--client",),
    "-j": ("--threads",),
    "--jobs": ("--threads",),
    "--threads": ("--jobs",),
    "-T": ("--measure", "--for"),
    "--time": ("--measure", "--for"),
    "--duration": ("--measure", "--time", "--for"),
    "--timeout": ("--budget",),
    "--max-time": ("--budget",),
    "-s": ("--pgbench-scale",),
    "-w": ("--warehouses",),
    "--warmup": ("--warm-up",),
    "-n": ("--max-pairs", "--max-trials", "--replicates", "--pairs"),
    "--runs": ("--max-pairs", "--max-trials", "--replicates", "--pairs"),
    "--repeat": ("--max-pairs", "--max-trials", "--replicates", "--pairs"),
    "--iterations": ("--max-pairs", "--max-trials", "--replicates", "--pairs"),
    "-o": ("--output", "--html"),
    "--out": ("--output", "--html"),
    "--output": ("--html",),
    "--version": ("--postgres",),
    "--pg": ("--postgres",),
    "--force": ("--yes", "--replace", "--overwrite"),
    "-f": ("--file",),
    "-v": ("--version",),
    "-V": ("--version",),
    "-h": ("--help",),
    "-?": ("--help",),
}
_CONNECTION = ("-d", "-U", "-p", "-h", "--host", "--port", "--user", "--username", "--dbname")
_DSN_HINT = 'Name the server by DSN, such as "host=db1 port=5432 user=me dbname=bench".'
_OTHER_COMMANDS = {"help": "--help", "version": "--version"}


def is_help(error: Any) -> bool:
    """Tell whether it is the help of a group, shown because no command was named."""
    return type(error).__name__ == "NoArgsIsHelpError"


def usage_error(error: Any) -> UsageError:
    """Return what Typer refused as an error with a hint.

    Args:
        error: of click, or of Typer's own copy of click, of whatever version.
    """
    context, kind = getattr(error, "ctx", None), type(error).__name__
    path = context.command_path if context else "pgdrag"
    text = error.message.rstrip(".")
    if kind == "NoSuchOption":
        names_server = context is not None and any(x.name == "dsn" for x in context.command.get_params(context))  # fmt: skip
        hint = _meant(error.option_name, _options(context), path, names_server=names_server)
        return UsageError(f'{path} has no option "{error.option_name}"', hint=hint)
    if kind == "MissingParameter":
        return UsageError(f"missing {named(error.param)}", hint=_usage(context))
    if kind == "BadParameter":
        return UsageError(f"{named(error.param)}{_wanted(error)}", hint=_hint(error))
    if kind == "BadOptionUsage":
        return _bad_option(error)
    if extra := re.fullmatch(r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)", text, re.S):
        return _unexpected(extra[1], context)
    if unknown := re.match(r"No such command '(.*?)'", text):
        return _unknown_command(unknown[1], context, path)
    return UsageError(f"{text[:1].lower()}{text[1:]}", hint=_usage(context))


def named(parameter: Any) -> str:
    """Return `argument B`, or `option --warehouses`."""
    if parameter.param_type_name == "argument":
        return f"argument {parameter.metavar or parameter.name.upper()}"
    return f"option {max(parameter.opts, key=len)}"


def _usage(context: Any) -> str | None:
    if context is None:
        return None
    usage = " ".join(context.get_usage().replace("{", "").replace("}", "").split()[1:]).replace(
        "......", "..."
    )
    return f'Write: {usage}; "{context.command_path} --help" says more.'


def _options(context: Any) -> list[str]:
    parameters = context.command.get_params(context) if context else []
    return [name for x in parameters for name in (*x.opts, *x.secondary_opts) if name[:1] == "-"]


def _meant(name: str, known: Iterable[str], path: str, *, names_server: bool) -> str:
    options = [x for x in known if x.startswith("--")]
    meant = next((x for x in _OTHER_TOOLS.get(name, ()) if x in options), None)
    if name in _CONNECTION and meant is None and "--for" not in options and names_server:
        return _DSN_HINT
    hint = f'Did you mean "{meant}"?' if meant else did_you_mean(name, options)
    return hint or f'Run "{path} --help" for its options.'


def _wanted(error: Any) -> str:
    """Return ` must be at least 1, not 0`, from what pydantic says of the value, where Typer asks it."""
    try:
        (details,) = error.__cause__.errors()
    except (AttributeError, ValueError):
        return f": {error.message.rstrip('.')}".replace("'", '"')
    from pgdrag.wrong_values import wanted

    # What was typed is text to pydantic, also where it is a number.
    return re.sub(r'not "(-?[\d.]+)"$', r"not \1", wanted(details).rstrip(".").replace("'", '"'))


def _hint(error: Any) -> str | None:
    if error.param.metavar == "SECONDS" and (typed := re.search(r'"(.+?)"', _wanted(error))):
        with contextlib.suppress(UsageError):
            return f"Write the number of seconds alone: {parse_seconds(typed[1]):g}."
    choices = re.findall(r"'([^']+)'", error.message)
    return did_you_mean(choices[0], choices[1:]) or None if len(choices) > 2 else None


def _bad_option(error: Any) -> UsageError:
    name = error.option_name
    if "does not take" in error.message:
        return UsageError(f"option {name} takes no value", hint=f"Write {name} alone.")
    # Of an option with one value click says "an argument".
    several = re.search(r"requires (\d+) arguments", error.message)
    if several:
        values = " VALUE" * int(several[1])
        return UsageError(f"option {name} needs {several[1]} values", hint=f"Write {name}{values}.")
    return UsageError(f"option {name} needs a value", hint=f"Write {name} VALUE.")


def _unexpected(extra: str, context: Any) -> UsageError:
    hint = _usage(context)
    if re.search(r"(^| )=|=( |$)", extra):
        hint = 'Write a setting without blanks around "=", such as work_mem=64MB, or quote the whole argument.'
    elif option := _of_files(context):
        hint = f"To name several files, repeat the option: {option} FILE {option} FILE; a directory stands for its files."
    return UsageError(f'unexpected argument "{extra}"', hint=hint)


def _of_files(context: Any) -> str | None:
    """Return a repeatable option that files were named with: the shell makes several arguments of `--log *.json`."""
    for x in context.command.get_params(context) if context else []:
        given = context.params.get(x.name)
        if isinstance(given, list | tuple) and given and isinstance(given[0], Path):
            return str(x.opts[0])
    return None


def _unknown_command(name: str, context: Any, path: str) -> UsageError:
    other = _OTHER_COMMANDS.get(name)
    known = list(context.command.commands)
    near = [f'"{each}"' for each in difflib.get_close_matches(name, known, n=2)]
    hint = f'Run "{path} --help" for its commands.'
    if other:
        hint = f'Write "{path} {other}".'
    elif near:
        hint = f"Did you mean {listed(near, 'or')}?"
    return UsageError(f'{path} has no command "{name}"', hint=hint)
