"""Is what the documents point to there, and does what they tell people to type work?"""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pgdrag.cli import COMMANDS, load_command
from pgdrag.experiment import load_experiment, shipped_files
from pgdrag.workloads import all_workloads
from pgdrag.workloads._reading import PROFILES

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
    + [*(ROOT / "docs").rglob("*.md")]
)
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def prose_of(text: str) -> str:
    """The text without code, in which brackets are no links."""
    return re.sub(r"`[^`\n]*`", "", FENCED.sub("", text))


def blocks(text: str, language: str) -> list[str]:
    return [code for found, code in FENCED.findall(text) if found == language]


def commands_of(text: str) -> list[list[str]]:
    """Every `pgdrag …` that a console block shows or a line of prose has between backticks."""
    lines = [
        line.removeprefix("$ ")
        for block in blocks(text, "console")
        for line in block.splitlines()
        if line.startswith("$ pgdrag ")
    ]
    lines += re.findall(r"`(pgdrag [^`\n]+)`", FENCED.sub("", text))
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_somewhere(document: Path) -> None:
    targets = LINK.findall(prose_of(document.read_text(encoding="utf-8")))
    relative = [x for x in targets if not re.match(r"[a-z]+:|#", x)]
    broken = [x for x in relative if not (document.parent / x.partition("#")[0]).exists()]
    assert broken == []


def test_links_of_documents_are_found_at_all() -> None:
    assert "ARCHITECTURE.md" in LINK.findall(prose_of(README))
    assert LINK.findall("![a picture](a/b.png)") == ["a/b.png"]


def test_files_and_folders_that_the_architecture_names_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w./-]+(?:\.py|\.toml|/))`", text)
    assert "trial.py" in named
    places = [ROOT, *(path for path in (ROOT / "src/pgdrag").rglob("*") if path.is_dir())]
    places.append(ROOT / "src/pgdrag")
    assert [x for x in named if not any((place / x).exists() for place in places)] == []


def test_the_experiment_in_the_readme_loads(tmp_path: Path) -> None:
    (text,) = blocks(README, "toml")
    path = tmp_path / "cache.toml"
    path.write_text(text, encoding="utf-8")
    experiment = load_experiment(str(path))
    assert experiment.name == tomllib.loads(text)["name"]
    assert [len(experiment.study(scale).rungs) for scale in experiment.scales] == [2]


def parse(arguments: list[str]) -> Any:
    """Read arguments as the command line does, without doing what they ask for."""
    name, *rest = arguments
    return load_command(name).make_context(name, list(rest))


README_COMMANDS = commands_of(README)


@pytest.mark.parametrize("arguments", README_COMMANDS, ids=" ".join)
def test_a_command_in_the_readme_parses(arguments: list[str]) -> None:
    context = parse(arguments)
    named = context.params.get("experiment")
    assert named is None or named.endswith(".toml") or named in shipped_files()
    scale = context.params.get("scale")
    if scale and named in shipped_files():
        assert scale in load_experiment(named).scales


def test_a_command_that_does_not_exist_would_be_noticed() -> None:
    assert len(README_COMMANDS) >= 5
    with pytest.raises(KeyError):
        parse(["compair", "a.conf"])
    with pytest.raises(Exception, match="No such option"):
        parse(["run", "slow-42k", "--sacle", "demo"])


def test_every_environment_variable_is_in_the_reference() -> None:
    page = (ROOT / "docs/reference/command-line.md").read_text()
    named = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r'"(PGDRAG_[A-Z_]+)"', path.read_text())
    }
    assert named
    assert {name for name in named if f"`{name}`" not in page} == set()


def test_every_command_is_in_the_reference() -> None:
    page = (ROOT / "docs/reference/command-line.md").read_text()
    names = {
        f"{name} {subcommand}".strip()
        for name in COMMANDS
        for subcommand in getattr(load_command(name), "commands", [""])
    }
    assert "tpcc check" in names
    assert {name for name in names if f"`pgdrag {name}" not in page} == set()


def test_every_key_of_a_workload_is_in_the_reference() -> None:
    page = (ROOT / "docs/reference/experiment-file.md").read_text()
    for name, kind in all_workloads().items():
        described = page.partition(f'`kind = "{name}"`')[2].partition("`kind = ")[0]
        assert {key for key in kind.model_fields if f"`{key}`" not in described} == set()


def test_every_profile_is_called_in_the_page_as_it_is_in_the_code() -> None:
    page = (ROOT / "docs/how-to/another-program.md").read_text()
    for name, profile in PROFILES.items():
        assert f"| `{name}` |" in page
        assert f"# {name}\n{profile.setup}\n{profile.call}\n" in page
