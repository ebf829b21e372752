"""What is a release made of? The software bill of materials, in CycloneDX 1.6 (https://cyclonedx.org)."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import Distribution, distribution
from typing import Any

from packaging.requirements import Requirement

from release.crates import ROOT, Crate

_IN_DRIVER, _IN_WHEEL, _BESIDE = "in the load driver", "in the wheel", "installed by pip"


def bill_of_materials(
    version: str, crates: Iterable[Crate], *, rustc: str, made_unix_s: int
) -> dict[str, Any]:
    """Return the bill of all that a wheel contains, and of the packages that pip installs beside it.

    The versions of the latter are those of the environment that this runs in; pip may choose others.

    Args:
        version: of pgdrag.
        crates: what is in the driver.
        rustc: version of the compiler, whose standard library is in the driver.
        made_unix_s: when the release was made.
    """
    crates = list(crates)
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(made_unix_s, UTC).isoformat(),
            "component": _package("pypi", "pgdrag", version, _expression("Apache-2.0"))
            | {"type": "application"},
        },
        "components": [
            *map(_crate, crates),
            _package("generic", "rust-std", rustc, _expression("Apache-2.0 OR MIT"), _IN_DRIVER),
            _package("npm", "uplot", _uplot_version(), _expression("MIT")),
            *(
                _package("pypi", one.name, one.version, _licence(one), _BESIDE)
                for one in installed_beside("pgdrag")
            ),
        ],
        "dependencies": [
            {
                "ref": _reference("cargo", crate.name, crate.version),
                "dependsOn": [_reference("cargo", *one) for one in crate.depends_on],
            }
            for crate in crates
        ],
    }
    # The same release has the same number.
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bill, sort_keys=True))
    return bill | {"serialNumber": f"urn:uuid:{number}"}


def installed_beside(name: str) -> list[Distribution]:
    """Return what a distribution requires in this environment, directly or not, by name."""
    found: dict[str, Distribution] = {}
    to_visit = [(name, "")]
    visited = set()
    while to_visit:
        one, extra = to_visit.pop()
        if (one, extra) in visited:
            continue
        visited.add((one, extra))
        found[one.lower()] = distribution(one)
        for text in found[one.lower()].requires or ():
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                to_visit += [(wanted.name, x) for x in ("", *wanted.extras)]
    del found[name]
    return [found[key] for key in sorted(found)]


def _crate(crate: Crate) -> dict[str, Any]:
    licence = _expression(crate.licence)
    found = _package("cargo", crate.name, crate.version, licence, _IN_DRIVER)
    if crate.sha256:
        found["hashes"] = [{"alg": "SHA-256", "content": crate.sha256}]
    return found


def _package(
    kind: str, name: str, version: str, licence: dict[str, Any], place: str = _IN_WHEEL
) -> dict[str, Any]:
    reference = _reference(kind, name, version)
    return {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": version,
        "purl": reference,
        "licenses": [licence],
        "properties": [{"name": "pgdrag:place", "value": place}],
    }


def _reference(kind: str, name: str, version: str) -> str:
    known_as = re.sub(r"[-_.]+", "-", name).lower() if kind == "pypi" else name
    return f"pkg:{kind}/{known_as}@{version}"


def _expression(licence: str) -> dict[str, Any]:
    return {"expression": licence}


def _licence(one: Distribution) -> dict[str, Any]:
    """What a distribution says of its licence, as an expression or else in its own words."""
    if "License-Expression" in one.metadata:
        return _expression(one.metadata["License-Expression"])
    classifiers = one.metadata.get_all("Classifier") or []
    words = [x.rpartition(" :: ")[2] for x in classifiers if x.startswith("License :: ")]
    if "License" in one.metadata:
        words += one.metadata["License"].splitlines()[:1]
    return {"license": {"name": words[0] if words else "unknown"}}


def _uplot_version() -> str:
    page = (ROOT / "src/pgdrag/report/assets/uplot/README.md").read_text(encoding="utf-8")
    return page.splitlines()[0].removeprefix("# uPlot ")
