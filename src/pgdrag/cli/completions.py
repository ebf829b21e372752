"""`pgdrag completions`: the words of a shell's completion, written down so that TAB starts no Python.

Commands, options and the choices of options are fixed; other arguments complete as files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

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


# A command ("": pgdrag itself), its subcommands with their summaries, and its options with their choices.
_Words = tuple[str, dict[str, str], list[tuple[Any, list[str]]]]


def completions(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish")
    ],
) -> None:
    """Print a completion script for your shell.

    For bash: pgdrag completions bash > ~/.local/share/bash-completion/completions/pgdrag.
    For zsh: source <(pgdrag completions zsh), in ~/.zshrc.
    For fish: pgdrag completions fish > ~/.config/fish/completions/pgdrag.fish.
    """
    print(completion_script(shell), end="")


def completion_script(shell: str) -> str:
    """Return the script that a shell reads."""
    words = list(_all_words())
    if shell == "fish":
        return "".join(f"{line}\n" for line in _fish(words))
    choices, commands = [], []
    for command, subcommands, options in words:
        names = [*subcommands]
        for option, choice in options:
            names += [*option.opts, *option.secondary_opts]
            if choice:
                keys = "|".join(f'"{command} {name}"' for name in option.opts)
                choices.append(f'        {keys}) words="{" ".join(choice)}" ;;')
        commands.append(f'            "{command}") words="{" ".join(names)}" ;;')
    script = _BASH.format(
        groups=",".join(command for command, *_ in words if " " in command),
        choices="\n".join(choices),
        commands="\n".join(commands),
    )
    return script if shell == "bash" else _ZSH + script


def _all_words() -> Iterator[_Words]:
    from pgdrag.cli import COMMANDS, app, load_command

    summaries = {name: summary for name, (_, summary) in COMMANDS.items()}
    yield "", summaries, _options(typer.main.get_command(app))
    for name in COMMANDS:
        command = load_command(name)
        subcommands = getattr(command, "commands", {})
        summaries = {key: x.get_short_help_str(200) for key, x in subcommands.items()}
        context = command.make_context(name, [], resilient_parsing=True)
        for argument in command.params:
            if argument.param_type_name == "argument":
                summaries |= dict.fromkeys(_choices(argument, context), "")
        yield name, summaries, _options(command)
        for key, subcommand in subcommands.items():
            yield f"{name} {key}", {}, _options(subcommand)


def _options(command: Any) -> list[tuple[Any, list[str]]]:
    context = command.make_context("pgdrag", [], resilient_parsing=True)
    options = [x for x in command.get_params(context) if x.param_type_name == "option"]
    return [(option, _choices(option, context)) for option in options]


def _choices(parameter: Any, context: Any) -> list[str]:
    items = parameter.shell_complete(context, "")
    return [str(x.value).replace(" ", "\\ ") for x in items if x.type == "plain"]


def _fish(words: list[_Words]) -> Iterator[str]:
    yield "complete -c pgdrag -f -n __fish_use_subcommand"
    for command, subcommands, options in words:
        seen = "; and ".join(f"__fish_seen_subcommand_from {x}" for x in command.split())
        at = seen or "__fish_use_subcommand"
        if seen and subcommands:
            at += f"; and not __fish_seen_subcommand_from {' '.join(subcommands)}"
        for name, summary in subcommands.items():
            yield f"complete -c pgdrag -f -n '{at}' -a {name} -d {_quoted(summary)}"
        for option, choice in options:
            names = " ".join(
                f"-l {x[2:]}" if x.startswith("--") else f"-s {x[1:]}"
                for x in (*option.opts, *option.secondary_opts)
            )
            value = f" -x -a {_quoted(' '.join(choice))}" if choice else " -r"
            value = "" if option.is_flag else value
            yield f"complete -c pgdrag -n '{at}' {names}{value} -d {_quoted(option.help or '')}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
