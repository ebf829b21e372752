"""Which twin does a workload mean, and what is said of a file that is none?"""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from test_twin_file import TWIN

from pgdrag.errors import TwinError
from pgdrag.twins import twin_bytes
from pgdrag.workloads.twin import TwinWorkload


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.twin"
    path.write_bytes(twin_bytes(TWIN))
    return path


def of(path: Path | str, **more: object) -> TwinWorkload:
    return TwinWorkload.model_validate({"file": str(path), **more})


def test_the_content_and_not_the_name_of_the_file_keys_the_dataset(
    file: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "other.twin"
    copy.write_bytes(file.read_bytes())
    assert of(file).dataset() == of(copy).dataset()
    assert of(file).dataset() != of(file, scale=0.5).dataset()


def test_a_file_is_found_beside_the_experiment_that_names_it(file: Path) -> None:
    context = {"directory": str(file.parent)}
    found = TwinWorkload.model_validate({"file": file.name}, context=context)
    assert found.file == str(file)


def test_another_file_than_the_run_began_with_is_refused(file: Path) -> None:
    parameters = of(file).model_dump(mode="json")
    assert TwinWorkload.model_validate(parameters).twin == TWIN
    file.unlink()
    with pytest.raises(TwinError, match="could not read"):
        _ = TwinWorkload.model_validate({**parameters, "digest": "0"}).twin
    file.write_bytes(b"another")
    with pytest.raises(TwinError, match="another file than when the run began"):
        _ = TwinWorkload.model_validate({**parameters, "digest": "1"}).twin


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "no such file"),
        (b"SELECT 1", "not a twin.*pgdrag capture twin"),
        (twin_bytes(TWIN)[:-9], "torn or damaged"),
    ],
)
def test_a_file_that_is_no_twin_is_refused(file: Path, content: bytes | None, what: str) -> None:
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ValidationError, match=rf"(?s)file\n.*{what}"):
        of(file)
