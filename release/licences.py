"""Which notices must accompany the load driver's binary? They are THIRD-PARTY.txt, which is in every wheel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from release.crates import ROOT, Crate, driver_crates

_INTRODUCTION = """\
The load driver of pgdrag, pgdrag-driver, is one binary that these Rust crates are compiled into. Where a crate offers a
choice of licences that includes the Apache License 2.0, it is used under that licence, whose text is at the end. The
notices of all others follow the list. The binary also contains the Rust standard library (https://www.rust-lang.org),
copyright (c) The Rust Project Developers, used under the Apache License 2.0; its compiler-builtins have parts of LLVM
(Apache License 2.0 with LLVM exception) and of musl (MIT).

`make docs` writes this file from Cargo.lock.
"""


def notices(crates: Iterable[Crate]) -> str:
    """Return the crates with their licences, and the texts that their licences want to accompany the binary."""
    theirs = [crate for crate in crates if not crate.is_ours]
    rule = "=" * 120
    listed = "\n".join(f"{crate.name} {crate.version}: {crate.licence}" for crate in theirs)
    parts = [_INTRODUCTION, f"{listed}\n"]
    for text, names in _texts(theirs).items():
        parts.append(f"{rule}\n{', '.join(names)}\n{rule}\n\n{text}\n")
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8").strip()
    return "\n".join([*parts, f"{rule}\nApache License 2.0\n{rule}\n\n{licence}\n"])


def _texts(crates: Iterable[Crate]) -> dict[str, list[str]]:
    """Each text once, with the crates that want it."""
    found: dict[str, list[str]] = {}
    for crate in crates:
        for text in _texts_wanted(crate):
            found.setdefault(text, []).append(f"{crate.name} {crate.version}")
    return found


def _texts_wanted(crate: Crate) -> Iterator[str]:
    offers_apache = "Apache-2.0" in crate.licence.split(" OR ")
    for name, text in crate.texts.items():
        is_notice = name.upper().startswith("NOTICE")
        if is_notice or not (offers_apache or "APACHE" in name.upper()):
            yield "\n".join(line.rstrip() for line in text.strip().splitlines())


if __name__ == "__main__":
    print(notices(driver_crates()), end="")
