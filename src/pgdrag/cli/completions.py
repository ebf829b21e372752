"""`pgdrag completions`: the words of a shell's completion, written down so that TAB starts no Python.

Commands, options and the choices of options are fixed; other arguments complete as files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

_BASH = """\
_pgdrag() {{
    local command="" word words
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case ",{groups}," in
            *",$command $word,"*) command="$command $word"; continue ;;
        esac
        [ -n "$command" ] || case "$word" in -*) ;; *) command="$word" ;; esac
    done
    case "$command ${{COMP_WORDS[COMP_CWORD-1]}}" in
{choices}
        *) case "$command" in
{commands}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _pgdrag pgdrag
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


class Shell(StrEnum):
    """The shells that have completion."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@dataclass(frozen=True)
class _Option:
    names: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...]


@dataclass(frozen=True)
class _Words:
    """What can follow a command; "" is pgdrag itself."""

    command: str
    subcommands: dict[str, str]  # with summaries
    options: tuple[_Option, ...]


def completions(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish")],
) -> None:
    """Print a completion script for your shell.

    For bash: pgdrag completions bash > ~/.local/share/bash-completion/completions/pgdrag.
    For zsh: source <(pgdrag completions zsh), in ~/.zshrc.
    For fish: pgdrag completions fish > ~/.config/fish/completions/pgdrag.fish.
    """
    print(completion_script(shell), end="")


def completion_script(shell: Shell) -> str:
    """Return the script that a shell reads."""
    words = list(_all_words())
    if shell is Shell.FISH:
        return "".join(f"{line}\n" for line in _fish(words))
    choices = [
        f'        "{one.command} {name}") words="{" ".join(option.choices)}" ;;'
        for one in words
        for option in one.options
        if option.choices
        for name in option.names
    ]
    commands = [
        f'            "{one.command}") words="'
        f'{" ".join([*one.subcommands, *(name for x in one.options for name in x.names)])}" ;;'
        for one in words
    ]
    script = _BASH.format(
        groups=",".join(one.command for one in words if " " in one.command),
        choices="\n".join(choices),
        commands="\n".join(commands),
    )
    return script if shell is Shell.BASH else _ZSH + script


def _all_words() -> Iterator[_Words]:
    from pgdrag.cli import COMMANDS, app, load_command

    summaries = {name: summary for name, (_, summary) in COMMANDS.items()}
    yield _Words("", summaries, _options(typer.main.get_command(app)))
    for name in COMMANDS:
        command = load_command(name)
        subcommands = getattr(command, "commands", {})
        summaries = {key: x.get_short_help_str(200) for key, x in subcommands.items()}
        context = command.make_context(name, [], resilient_parsing=True)
        for argument in command.params:
            if argument.param_type_name == "argument":
                summaries |= dict.fromkeys(_choices(argument, context), "")
        yield _Words(name, summaries, _options(command))
        for key, subcommand in subcommands.items():
            yield _Words(f"{name} {key}", {}, _options(subcommand))


def _options(command: Any) -> tuple[_Option, ...]:
    context = command.make_context("pgdrag", [], resilient_parsing=True)
    return tuple(
        _Option(
            (*x.opts, *x.secondary_opts),
            x.help or "",
            not x.is_flag,
            _choices(x, context),
        )
        for x in command.get_params(context)
        if x.param_type_name == "option"
    )


def _choices(parameter: Any, context: Any) -> tuple[str, ...]:
    items = parameter.shell_complete(context, "")
    return tuple(str(x.value).replace(" ", "\\ ") for x in items if x.type == "plain")


def _fish(words: list[_Words]) -> Iterator[str]:
    yield "complete -c pgdrag -f -n __fish_use_subcommand"
    for one in words:
        seen = "; and ".join(f"__fish_seen_subcommand_from {x}" for x in one.command.split())
        at = seen or "__fish_use_subcommand"
        below = at
        if seen and one.subcommands:
            below += f"; and not __fish_seen_subcommand_from {' '.join(one.subcommands)}"
        for name, summary in one.subcommands.items():
            yield f"complete -c pgdrag -f -n '{below}' -a {name} -d {_quoted(summary)}"
        for option in one.options:
            names = " ".join(
                f"-l {x[2:]}" if x.startswith("--") else f"-s {x[1:]}" for x in option.names
            )
            value = " -r" if option.takes_value else ""
            if option.choices:
                value = f" -x -a {_quoted(' '.join(option.choices))}"
            yield f"complete -c pgdrag -n '{below}' {names}{value} -d {_quoted(option.help)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
