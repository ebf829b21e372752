"""Files of settings on a real server: it takes what is applied, and shows the values that were meant."""

from __future__ import annotations

from pathlib import Path

from pgdrag.experiment.arms import read_arm
from pgdrag.experiment.formats import all_formats, read_configuration
from pgdrag.factors.setting import Setting
from pgdrag.servers.cluster import Cluster
from pgdrag.trial import ServerTrialRunner

FILES = Path(__file__).parents[1] / "pure/configurations"
# One file of each format, the fullest; what only a large machine has is left out.
EACH = (
    "rhel/postgresql.conf",
    "patroni/patroni.yml",
    "psql/pg_settings.csv",
    "psql/json_agg.json",
    "operators/cut-out.yaml",
    "operators/cloudnativepg.yaml",
    "operators/zalando.yaml",
    "operators/crunchy.yaml",
    "operators/configmap.yaml",
    "services/rds.json",
    "services/cloud-sql.yaml",
    "services/azure.json",
)
LARGE = {"shared_buffers"}


def test_each_format_is_tried() -> None:
    assert {read_configuration(FILES / x).format for x in EACH} == set(all_formats())


def test_no_file_has_a_level_that_this_server_refuses(bench: ServerTrialRunner) -> None:
    included = ("conf.d", "shared")
    paths = [x for x in FILES.rglob("*.*") if x.is_file() and x.parent.name not in included]
    assert len(paths) >= 20
    arms = [read_arm(str(path), bench.here.settings) for path in paths]
    assert [x.message for arm in arms for x in bench.check(arm.levels)] == []


def test_a_server_starts_with_each_and_shows_what_was_meant(
    bench: ServerTrialRunner, cluster: Cluster
) -> None:
    for file in EACH:
        arm = read_arm(str(FILES / file), bench.here.settings)
        levels = {x.name: x.value for x in arm.levels if x.name not in LARGE}
        factor = Setting()
        factor.before_start(cluster, levels)
        cluster.start()
        found = factor.read_back(cluster, levels)
        cluster.stop()
        wrong = [x for x in found if x.note and not x.level.name.startswith("log")]
        assert wrong == [], file
