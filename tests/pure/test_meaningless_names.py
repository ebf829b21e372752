"""What --allow-change may name, and what names nothing."""

from __future__ import annotations

import pytest

from pgdrag.errors import UsageError
from pgdrag.existing.permission import CLASSES, refuse_meaningless_names
from pgdrag.servers.settings import SettingsCatalog

NO_SETTINGS = SettingsCatalog(180_000, {})


def test_classes_paths_and_names_with_points_may_change() -> None:
    refuse_meaningless_names(
        [*CLASSES, "/dev/sda", "vm.swappiness", "net.bridge.bridge-nf-call-iptables"], NO_SETTINGS
    )


@pytest.mark.parametrize("name", ["nosuch", "", "work-mem"])
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="names nothing that can change"):
        refuse_meaningless_names([name], NO_SETTINGS)
