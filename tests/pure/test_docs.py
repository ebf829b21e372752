"""Is what the documents point to there, and can what they tell people to type be read?

What they tell people to type is run by tests/postgres/test_documents.py.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown import markdown
from markdown.extensions.toc import slugify
from markdown_it import MarkdownIt

from console import DOCUMENTS, ROOT, console_blocks, has_shape
from documentation.reference import PAGES
from pgdrag.cli import COMMANDS, load_command
from pgdrag.experiment import load_experiment, shipped_files
from pgdrag.workloads import all_workloads
from pgdrag.workloads._reading import PROFILES

README = (ROOT / "README.md").read_text(encoding="utf-8")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
NAMES_OF_SESSIONS = (["observer"], ["collectors"])
each_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT))
)


def prose_of(text: str) -> str:
    """The text without code, in which brackets are no links."""
    return re.sub(r"`[^`\n]*`", "", FENCED.sub("", text))


def blocks(text: str, language: str) -> list[str]:
    return [code for found, code in FENCED.findall(text) if found == language]


def anchors_of(text: str) -> set[str]:
    """The anchors that a page's headings have both on the site and where the repository is read."""
    headings = [
        re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", x) for x in HEADING.findall(FENCED.sub("", text))
    ]
    site = {slugify(re.sub(r"[`*]", "", heading), "-") for heading in headings}
    repository = {
        re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings
    }
    return site & repository


@each_document
def test_relative_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for link in LINK.findall(prose_of(text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        assert target.exists(), link
        if anchor:
            assert anchor in anchors_of(target.read_text(encoding="utf-8")), link


@each_document
def test_pages_of_the_site_lead_to_no_file_beside_it(document: Path) -> None:
    docs = ROOT / "docs"
    if document.is_relative_to(docs):
        links = LINK.findall(prose_of(document.read_text(encoding="utf-8")))
        relative = [x.partition("#")[0] for x in links if not re.match(r"[a-z]+:|#", x)]
        assert [
            x for x in relative if not (document.parent / x).resolve().is_relative_to(docs)
        ] == []


def test_links_and_anchors_of_documents_are_found_at_all() -> None:
    assert "ARCHITECTURE.md" in LINK.findall(prose_of(README))
    assert LINK.findall("![a picture](a/b.png)") == ["a/b.png"]
    assert anchors_of("# A `b` (c)\n## D – e\n```\n# f\n```\n") == {"a-b-c"}


@each_document
def test_what_is_a_list_or_a_table_is_one_on_the_site_as_well(document: Path) -> None:
    """The site's Markdown wants four spaces where others are content with two."""
    if not document.is_relative_to(ROOT / "docs"):
        return
    text = document.read_text(encoding="utf-8")
    common = MarkdownIt("commonmark").enable("table").render(text)
    site = markdown(text, extensions=["tables", "pymdownx.superfences"])
    for tag in ("li", "tr", "blockquote", "h1", "h2", "h3"):
        assert site.count(f"<{tag}>") == common.count(f"<{tag}>"), tag
    assert "```" not in site


@pytest.mark.parametrize("page", PAGES)
def test_the_generated_reference_says_what_the_code_says(page: str) -> None:
    written = (ROOT / "docs/reference" / page).read_text(encoding="utf-8")
    assert written == PAGES[page](), "run: make docs"


def test_every_page_is_in_the_contents_of_the_site() -> None:
    contents = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    named = set(re.findall(r"[\w./-]+\.md", str(contents)))
    docs = ROOT / "docs"
    assert named == {str(path.relative_to(docs)) for path in docs.rglob("*.md")}


def test_files_and_folders_that_the_architecture_names_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w./-]+(?:\.py|\.toml|/))`", text)
    assert "trial.py" in named
    places = [ROOT, *(path for path in (ROOT / "src/pgdrag").rglob("*") if path.is_dir())]
    places.append(ROOT / "src/pgdrag")
    assert [x for x in named if not any((place / x).exists() for place in places)] == []


def test_the_experiment_in_the_how_to_loads(tmp_path: Path) -> None:
    (text,) = blocks((ROOT / "docs/how-to/experiment.md").read_text(encoding="utf-8"), "toml")
    path = tmp_path / "cache.toml"
    path.write_text(text, encoding="utf-8")
    experiment = load_experiment(str(path))
    assert experiment.name == tomllib.loads(text)["name"]
    assert [len(experiment.study(scale).rungs) for scale in experiment.scales] == [2]


def parse(arguments: Sequence[str]) -> Any:
    """Read arguments as the command line does, without doing what they ask for."""
    name, *rest = arguments
    return load_command(name).make_context(name, list(rest))


COMMANDS_SHOWN = [
    shown.words[1:]
    for document in DOCUMENTS
    for block in console_blocks(document)
    for shown in block.commands
    if shown.is_ours
]


@pytest.mark.parametrize("arguments", COMMANDS_SHOWN, ids=" ".join)
def test_a_command_in_a_document_parses(arguments: tuple[str, ...]) -> None:
    context = parse(arguments)
    named = context.params.get("experiment")
    scale = context.params.get("scale")
    if named in shipped_files() and scale:
        assert scale in load_experiment(named).scales


@each_document
def test_a_command_in_a_sentence_exists_with_its_options(document: Path) -> None:
    prose = FENCED.sub("", document.read_text(encoding="utf-8"))
    named = [x.split() for x in re.findall(r"`pgdrag ([a-z][^`\n]*)`", prose)]
    for words in (x for x in named if x not in NAMES_OF_SESSIONS):
        command = load_command(words[0])
        if len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
            command = getattr(command, "commands", {}).get(words[1], command)
        known = {
            name for option in command.params for name in (*option.opts, *option.secondary_opts)
        }
        wanted = {word.partition("=")[0].strip("[],") for word in words if word.startswith("--")}
        assert wanted <= known | {"--help"}, words


def test_a_command_that_does_not_exist_would_be_noticed() -> None:
    assert len(COMMANDS_SHOWN) >= 100
    with pytest.raises(KeyError):
        parse(["compair", "a.conf"])
    with pytest.raises(Exception, match="No such option"):
        parse(["run", "slow-42k", "--sacle", "demo"])


@each_document
def test_every_block_of_commands_runs_or_says_why_not(document: Path) -> None:
    for block in console_blocks(document):
        assert block.commands, "there is no line with a prompt"
        if block.how != "not run":
            assert all(shown.is_ours for shown in block.commands), block


def test_output_has_the_shape_of_what_is_shown_with_other_numbers() -> None:
    shown = ("A: 1,205/s (95 % CI 1.1–2)", "…", "done in 3 s")
    assert has_shape("A:  87.2/s (95 % CI 0.9–11)\nand more\nand more\ndone in 12.5 ms\n", shown)
    assert not has_shape(
        "A:  87.2/s (95 % CI 0.9–11)\nand more\nand more\ndone in 12 rows\n", shown
    )
    assert not has_shape("A: 87.2/s (95 % CI 0.9–11)\n", shown)
    assert not has_shape("B: 87.2/s (95 % CI 0.9–11)\nx\ndone in 12 s\n", shown)


def test_a_block_says_how_far_it_goes_and_why(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- not run: needs root -->\n```console\n$ sudo pgdrag run os-io  # slow\nRan.\n```\n"
        "```\n$ pgdrag list > a.txt\n```\n```\nno prompt\n```\n"
    )
    first, second = console_blocks(page)
    assert (first.how, first.why, second.how) == ("not run", "needs root", "run")
    (shown,), (redirected,) = first.commands, second.commands
    assert shown.words == ("pgdrag", "run", "os-io")
    assert shown.output == ("Ran.",)
    assert (redirected.words, redirected.into) == (("pgdrag", "list"), "a.txt")


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
