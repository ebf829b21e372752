"""Which Rust crates are in the load driver's binary, and under which licences?"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
_LICENCE_FILE = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


@dataclass(frozen=True)
class Crate:
    """A crate that is compiled into the driver.

    Attributes:
        licence: an SPDX expression.
        texts: its licence files, by name.
        depends_on: names and versions of the crates that it needs.
        sha256: of the package, in hexadecimal; None for the crates of this repository.
    """

    name: str
    version: str
    licence: str
    texts: Mapping[str, str]
    depends_on: tuple[tuple[str, str], ...]
    sha256: str | None

    @property
    def is_ours(self) -> bool:
        """Whether it is a crate of this repository."""
        return self.sha256 is None


def driver_crates() -> list[Crate]:
    """Return the crates of the driver's binary for all platforms, itself among them, by name.

    What only builds or tests it, or expands its macros, is not in the binary.

    Raises:
        subprocess.CalledProcessError: cargo cannot say, or cannot download a crate.
    """
    filters = [word for target in TARGETS for word in ("--filter-platform", target)]
    command = ["cargo", "metadata", "--locked", "--format-version", "1", *filters]
    answer = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in answer["packages"]}
    nodes = {node["id"]: node for node in answer["resolve"]["nodes"]}
    needed: dict[str, tuple[str, ...]] = {}
    to_visit = [x for x, package in packages.items() if package["name"] == "pgdrag-driver"]
    while to_visit:
        one = to_visit.pop()
        if one not in needed:
            needed[one] = tuple(
                dependency["pkg"]
                for dependency in nodes[one]["deps"]
                if any(kind["kind"] is None for kind in dependency["dep_kinds"])
                and not _is_macro(packages[dependency["pkg"]])
            )
            to_visit += needed[one]
    sums = _checksums()
    found = [
        Crate(
            name=package["name"],
            version=package["version"],
            licence=package["license"].replace("/", " OR "),
            texts=_licence_files(Path(package["manifest_path"]).parent),
            depends_on=tuple(
                sorted((packages[x]["name"], packages[x]["version"]) for x in needed[one])
            ),
            sha256=sums.get((package["name"], package["version"])),
        )
        for one, package in packages.items()
        if one in needed
    ]
    return sorted(found, key=lambda crate: (crate.name, crate.version))


def _is_macro(package: Mapping[str, Any]) -> bool:
    return any("proc-macro" in target["kind"] for target in package["targets"])


def _licence_files(folder: Path) -> dict[str, str]:
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(folder.iterdir())
        if path.is_file() and _LICENCE_FILE.match(path.name)
    }


def _checksums() -> dict[tuple[str, str], str]:
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))
    return {
        (one["name"], one["version"]): one["checksum"]
        for one in lock["package"]
        if "checksum" in one
    }
