"""Plug-ins from outside are found like those in a folder, and a broken one is an error that says what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdrag import registry
from pgdrag.errors import PluginError
from pgdrag.experiment import shipped_experiments
from pgdrag.factors import Phase, all_factors, kind_of
from pgdrag.horizon.holders import Holder, all_holders

HOLDER = """
from pgdrag.horizon.holders.session import SessionHolder

class Base(SessionHolder):
    statements = ("BEGIN", "SELECT 1")
    column = "backend_xmin"

class Mine(Base):
    name = "{name}"
    summary = "a holder of this test"
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package of a plug-in, whose text a test writes."""
    metadata = tmp_path / "plugin_of_test-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: plugin-of-test\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[pgdrag]\nours = plugin_of_test\n")
    (tmp_path / "plugin_of_test").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "plugin_of_test", raising=False)
    _forget()
    yield tmp_path / "plugin_of_test" / "__init__.py"
    sys.modules.pop("plugin_of_test", None)
    _forget()


def _forget() -> None:
    registry._entry_points.cache_clear()
    registry._plugin_modules.cache_clear()


def test_a_plug_in_is_found_but_not_a_base_class_without_a_name(plugin: Path) -> None:
    plugin.write_text(HOLDER.format(name="mine"))
    assert issubclass(all_holders()["mine"], Holder)
    assert "snapshot" in all_holders()


def test_a_name_that_is_taken_is_refused(plugin: Path) -> None:
    plugin.write_text(HOLDER.format(name="snapshot"))
    with pytest.raises(PluginError, match='two plug-ins of one kind are named "snapshot"'):
        all_holders()


def test_a_plug_in_that_cannot_be_imported_is_named(plugin: Path) -> None:
    plugin.write_text("import no_such_module")
    with pytest.raises(PluginError, match='could not load plug-in "ours": ModuleNotFoundError'):
        all_holders()


def test_a_factor_of_a_plug_in_is_not_what_plain_settings_are(plugin: Path) -> None:
    plugin.write_text(
        "from pgdrag.factors import Phase\n"
        "from pgdrag.factors.setting import Setting\n"
        "class Mine(Setting):\n"
        "    name, summary, phase = 'a_setting', 'sorts first', Phase.SETTINGS\n"
    )
    assert next(iter(all_factors())) == "a_setting"
    assert kind_of(Phase.SETTINGS) == "setting"


def test_an_experiment_of_a_plug_in_is_found_by_name(plugin: Path) -> None:
    plugin.write_text("")
    (plugin.parent / "catalog").mkdir()
    text = Path(next(iter(shipped_experiments().values())).path).read_text()
    name = next(iter(shipped_experiments()))
    (plugin.parent / "catalog" / "mine.toml").write_text(text.replace(f'"{name}"', '"mine"', 1))
    assert shipped_experiments()["mine"].name == "mine"
    assert name in shipped_experiments()
