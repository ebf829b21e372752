"""A wheel goes where the host's program is looked for, into a virtual environment, and once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

import pgdrag
from pgdrag.errors import UsageError
from pgdrag.fleet.file import SshHost
from pgdrag.fleet.installing import install_wheel

# Each program is one of a host whose shell has no login: its home is a directory of the test.
SSH = '#!/bin/sh\nfor command; do :; done\nHOME={home} exec sh -c "$command"\n'
PYTHON = f"""#!/bin/sh
[ "$1 $2" = "-m venv" ] || exit 1
mkdir -p "$3/bin"
touch "$3/pyvenv.cfg"
cat > "$3/bin/python" <<'END'
#!/bin/sh
cat "$5" > "$(dirname "$0")/installed"
printf '#!/bin/sh\\necho pgdrag {pgdrag.__version__}\\n' > "$(dirname "$0")/pgdrag"
chmod +x "$(dirname "$0")/pgdrag"
END
chmod +x "$3/bin/python"
"""
BROKEN = "#!/bin/sh\necho 'Error: venv is not here' >&2\necho 'See the manual.' >&2\nexit 1\n"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    made = tmp_path / f"pgdrag-{pgdrag.__version__}-py3-none-any.whl"
    made.write_bytes(b"a wheel")
    return made


def install(
    tmp_path: Path,
    wheel: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str = "pgdrag",
    python: str = PYTHON,
) -> Sequence[str]:
    for name, content in (("ssh", SSH.format(home=tmp_path)), ("python3", python)):
        path = tmp_path / "path" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/path:{os.defpath}")
    return list(install_wheel([SshHost(host="db1", program=program)], wheel))


@pytest.mark.parametrize(
    ("program", "environment"),
    [("pgdrag", ".local/share/pgdrag/venv"), ("~/lab/bin/pgdrag", "lab")],
)
def test_a_host_without_the_program_gets_it_once(
    tmp_path: Path,
    wheel: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    environment: str,
) -> None:
    (first,) = install(tmp_path, wheel, monkeypatch, program)
    assert first == f"Installed {wheel.name} on db1."
    assert (tmp_path / environment / "bin/installed").read_bytes() == b"a wheel"
    assert install(tmp_path, wheel, monkeypatch, program) == [
        f"db1 has pgdrag {pgdrag.__version__}."
    ]


def test_what_fails_there_is_said_with_its_reason(
    tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (said,) = install(tmp_path, wheel, monkeypatch, python=BROKEN)
    assert said == "Could not install pgdrag on db1: Error: venv is not here"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("~/lab/pgdrag", '"~/lab/pgdrag" is not in a directory "bin" of a virtual environment'),
        ("~/usr/bin/pgdrag", "error: {home}/usr is no virtual environment"),
    ],
)
def test_nothing_is_installed_beside_the_programs_of_others(
    tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch, program: str, reason: str
) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    (said,) = install(tmp_path, wheel, monkeypatch, program)
    assert said == f"Could not install pgdrag on db1: {reason.format(home=tmp_path)}"
    assert not list((tmp_path / "usr/bin").iterdir())


def test_what_is_no_wheel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a wheel of pgdrag"):
        list(install_wheel([], tmp_path / "pgdrag.whl"))
