"""Runs the trials of a study on a server that exists, and knows beforehand what it would do there."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from pgdrag.driver.connection_string import Server, refuse_standby
from pgdrag.driver.process import Driver, find_driver
from pgdrag.driver.progress import TrialLog
from pgdrag.english import listed
from pgdrag.errors import ServerError, ServerLost, UsageError
from pgdrag.existing.altering import (
    COMES_BACK_S,
    AlteredSettings,
    RoleSettings,
    SystemSettings,
    read_back,
)
from pgdrag.existing.datasets import Upkeep, require_dataset, upkeep_of
from pgdrag.existing.operating_system import host_in_force, host_kinds, host_line
from pgdrag.existing.own_database import OwnDatabase
from pgdrag.existing.permission import (
    DATABASE,
    Permission,
    level_problems,
    refuse_meaningless_names,
    refuse_out_of_reach,
    refuse_unasked_changes,
)
from pgdrag.existing.server_lock import ServerLock
from pgdrag.existing.standing import Standing, look_at
from pgdrag.existing.trial import run_trial_there
from pgdrag.factors import Here, Phase, Problem, is_of
from pgdrag.factors.programs import refuse_without_consent
from pgdrag.factors.treated_workload import workload_of
from pgdrag.host.auto_conf import FILE
from pgdrag.host.machine import this_host
from pgdrag.host.process_alive import wait_until
from pgdrag.host.undo import UndoJournal, take_warnings
from pgdrag.host.undo.reaching import PATIENCE_S
from pgdrag.model import (
    Applied,
    ExistingPlace,
    Host,
    Level,
    Result,
    Study,
    Treatment,
    Trial,
    WorkloadSpec,
)
from pgdrag.model.events import Listener, PhaseStarted, ignore
from pgdrag.servers.binaries import find_binaries
from pgdrag.servers.catalog import load_settings_catalog
from pgdrag.servers.conf import fold
from pgdrag.servers.datasets import populate
from pgdrag.servers.scratch import Scratch
from pgdrag.units import format_duration
from pgdrag.workloads import Workload

# At the rate that is assumed of a throw-away server.
_LOADING_S = 1 / 40e6


@dataclass
class ExistingTrialRunner:
    """Runs trials on a server that exists.

    Attributes:
        standing: what the server is, and what it had before anything was changed.
        here: what is known of it, as a throw-away server's place.
        permission: what may change there.
        undone: what was undone when it was closed, and what was not; sentences.
    """

    standing: Standing
    here: Here
    driver: Driver
    permission: Permission
    _lock: ServerLock
    _settings: AlteredSettings | None = None
    _own: OwnDatabase | None = None
    _upkeep: Upkeep = field(default_factory=Upkeep)
    undone: list[str] = field(default_factory=list)
    dataset_warnings: tuple[str, ...] = ()
    _wait_s: float = 0.0
    _listen: Listener = ignore

    @classmethod
    def open(
        cls, server: Server, scratch: Scratch, permission: Permission, *, wait_s: float = 0.0
    ) -> Self:
        """Return what runs trials on a server; it is only read.

        Args:
            wait_s: how long a run waits for that of another pgdrag that begins before it.

        Raises:
            ServerLost: it does not answer.
        """
        standing = look_at(server)
        refuse_out_of_reach(permission.allowed, standing)
        refuse_meaningless_names(permission.allowed, standing.settings)
        here = Here(
            settings=standing.settings,
            newest_settings=load_settings_catalog(find_binaries(None), scratch),
            scratch_root=Path(standing.data_directory or scratch.root),
            allowed=permission.allowed,
        )
        lock, driver = ServerLock(server), Driver(find_driver())
        return cls(standing, here, driver, permission, lock, _wait_s=wait_s)

    @property
    def version(self) -> str:
        """The server's version."""
        return self.standing.server.version

    @property
    def wanted(self) -> str | None:
        """Which of pgdrag's own servers it is: none."""
        return None

    @property
    def place(self) -> ExistingPlace:
        """The server, as a study keeps it."""
        server = self.standing.server
        return ExistingPlace(
            server.name,
            server.public_conninfo(),
            self.standing.system_identifier,
            DATABASE in self.permission.allowed,
            self.permission.restart_command,
        )

    def now_s(self) -> float:
        """Return the time of this machine's steady clock, in seconds."""
        return time.monotonic()

    def allow(self, names: Iterable[str]) -> None:
        """Let trials also do this: see `Here.allowed`."""
        self.here = replace(self.here, allowed=self.here.allowed.union(names))

    def check(self, levels: Sequence[Level], workload: WorkloadSpec | None = None) -> list[Problem]:
        """Return which levels of one treatment are out of reach there, and why."""
        here = replace(self.here, workload=workload)
        return level_problems(levels, here, self.standing, self.permission)

    def changes(self, study: Study) -> list[Level]:
        """Return what a study sets on the server."""
        return self._possible([x for x in study.levels if is_of(Phase.SETTINGS, x.kind)])

    def host_changes(self, study: Study) -> list[Level]:
        """Return what a study sets of the operating system."""
        kinds = host_kinds()
        return self._possible([level for level in study.levels if level.kind in kinds])

    def _possible(
        self, levels: Sequence[Level], workload: WorkloadSpec | None = None
    ) -> list[Level]:
        refused = {problem.level for problem in self.check(levels, workload)}
        return [level for level in levels if level not in refused]

    def change_lines(self, study: Study) -> tuple[str, ...]:
        """Return what a study sets on the server, a line for each setting: with its value there, and when it is in force."""
        values: dict[str, list[str]] = {}
        for level in self.changes(study):
            values.setdefault(level.name, []).append(level.shown)
        lines = [f"{name}: {self._now(name)} -> {', '.join(x)}" for name, x in values.items()]
        return (*lines, *self._host_lines(study))

    def _host_lines(self, study: Study) -> list[str]:
        values: dict[tuple[str, str], list[Level]] = {}
        for level in self.host_changes(study):
            values.setdefault((level.kind, level.name), []).append(level)
        return [host_line(x[0], [one.shown for one in x], self.here) for x in values.values()]

    def _now(self, name: str) -> str:
        setting = self.standing.settings.find(name)
        when = "restart" if setting.context == "postmaster" else "reload"
        return f"{setting.readable(setting.boot_value or '')} (by a {when})"

    def refusal(self, study: Study) -> str:
        """Return why a study would be refused, in one line; "": it would not."""
        try:
            self.refuse(study)
        except UsageError as error:
            return f"{error.message}. {error.hint or ''}".rstrip()
        return ""

    def refuse(self, study: Study) -> None:
        """Refuse a study that was not allowed or does not suit this server; nothing is changed.

        Raises:
            UsageError: with what would be changed, or what stands in the way.
        """
        standing, server = self.standing, self.standing.server
        changes = self.changes(study)
        refuse_unasked_changes(changes, server.name, self.permission)
        refuse_standby(
            server, "an experiment", "Name its primary, or a copy that has been promoted."
        )
        self._refuse_loading(standing, changes)
        added = [level for rung in study.rungs[1:] for level in rung.added]
        if added and not self._possible(added, study.workload):
            raise UsageError(
                f"{server.name} can have none of the treatments",
                detail="; ".join(
                    dict.fromkeys(x.message for x in self.check(added, study.workload))
                ),
                hint="Omit --dsn to have them on a throw-away server.",
            )
        if self._needs_restart(changes) and not standing.data_directory:
            raise UsageError(
                f"cannot restart {server.name}: its data directory cannot be written to from here",
                detail="If the server does not start with a value, pgdrag takes it back in postgresql.auto.conf.",
                hint="Run pgdrag on the server's machine, as the user that it runs as or as root.",
            )
        if standing.waiting and self._needs_restart(changes):
            raise UsageError(
                f"cannot restart {server.name}: other changes wait for a restart ({', '.join(standing.waiting)})",
                detail="A restart would also apply changes that pgdrag did not make.",
                hint="Restart the server, or revert them first.",
            )
        workloads = [workload_of(study.workload, rung.treatment) for rung in study.rungs]
        if not self.place.has_own_database:
            for workload in workloads:
                self._require_dataset(workload)
        elif len({repr(workload.dataset()) for workload in workloads}) > 1:
            raise UsageError(
                "the treatments need different datasets, and a database of pgdrag's own holds one",
                hint="Run those with the same dataset (pgdrag run --only), or omit --dsn.",
            )

    def prepare(self, study: Study, listen: Listener) -> None:
        """Make the workload's own database where that is allowed; else see that the dataset is there.

        Raises:
            UsageError: the study is refused.
        """
        self.refuse(study)
        self._listen = listen
        changes = self.changes(study)
        if self._wait_s:
            listen(PhaseStarted("wait until no other pgdrag runs there"))
        self._lock.take(self._wait_s)
        self._refuse_stale(changes)
        if self.host_changes(study):
            UndoJournal.open()
        workload = workload_of(study.workload, study.rungs[0].treatment)
        refuse_without_consent(workload.programs(), self.here.allowed)
        if self.place.has_own_database and self._own is None:
            listen(PhaseStarted("make a database"))
            self._own = OwnDatabase.make(self.standing, self.permission.restart_command)
            self.dataset_warnings = populate(workload, self._own.server.target, self.driver, listen)
        self._upkeep = upkeep_of(self.server, workload)
        if changes and self._settings is None:
            self._settings = self._altered(changes)

    @property
    def server(self) -> Server:
        """The way to the load's database."""
        return self.standing.server if self._own is None else self._own.server

    def loading_s(self, study: Study) -> float:
        """Return how long it takes to load the dataset, in seconds."""
        return _LOADING_S * self.disk_bytes(study)

    def disk_bytes(self, study: Study) -> int:
        """Return how much disk space the study takes there, where that is known."""
        if not self.place.has_own_database:
            return 0
        return workload_of(study.workload, Treatment("")).dataset_bytes()

    def free_bytes(self) -> int | None:
        """Return None: the free space of an existing server is unknown."""
        return None

    def host(self, study: Study | None = None) -> Host:
        """Return the machine of the load, with the server in place of its file system."""
        return replace(this_host(Path.cwd()), file_system=self.standing.server.name)

    def adapted(self, study: Study) -> Study:
        """Return a study as it is run there: it says where, and its data is not checked, as no trial restores it."""
        notes = (*study.notes, *self.notes(study))
        return replace(study, place=self.place, notes=notes, is_checked=False)

    def notes(self, study: Study) -> tuple[str, ...]:
        """Return what every result must say: sentences."""
        server = self.standing.server
        if self.place.has_own_database:
            where = "a database that pgdrag made"
            upkeep = "VACUUM of its tables, and a CHECKPOINT where the role may"
        else:
            where = "the dataset that is there"
            upkeep = upkeep_of(server, workload_of(study.workload, Treatment(""))).words
        found = [
            f"Trials run on the existing server {server.name}, on {where}. Caches stay warm and nothing is restored "
            "between trials, so the dataset grows; other clients may be active.",
            f"Before every trial, in all arms: {upkeep}.",
        ]
        changes = self.changes(study)
        if changes:
            how = self._altered(changes).how
            found.append(
                f"Settings are set {how}; what a treatment does not set has the server's own value."
            )
        if self.host_changes(study):
            found.append(
                "Values of the operating system are changed while the server runs: memory that it has mapped before "
                "is not affected; everything else on this machine is."
            )
        if not server.is_local:
            found.append("The load came from another machine: latencies include the network.")
        if server.is_encrypted:
            found.append("Sessions use TLS; latencies include its cost.")
        return tuple(found)

    def run(self, trial: Trial, listen: Listener) -> Result:
        """Run one trial; anything that the treatment does to the server is an outcome, not an error."""
        levels = self._possible(trial.treatment.levels, trial.workload)
        with ExitStack() as host:
            change = host_in_force(self.standing.data_directory, levels)
            result = run_trial_there(trial, self, lambda: host.enter_context(change), listen)
        return replace(result, warnings=(*result.warnings, *take_warnings()))

    def begin(self, log: TrialLog) -> None:
        """See that the server is there, and that no other pgdrag works there, before anything is changed.

        Raises:
            ServerError: as of `stay_alone`; or the server has not come back, so that no trial could be run.
        """
        if lost := self._lost():
            # After a crash under the trial before, the server is still recovering.
            name, at_most = self.standing.server.name, format_duration(COMES_BACK_S)
            explanation = f"Lost {name}: {lost}. Waiting up to {at_most} for it; Ctrl-C ends the run and keeps its trials."
            with log.phase("wait for the server", COMES_BACK_S, explanation):
                is_back = wait_until(lambda: not self._lost(), COMES_BACK_S)
            if not is_back:
                raise ServerError(
                    f"lost {name}, and waited {at_most} for it: {lost}",
                    detail="Every finished trial is in the journal.",
                    hint='Start the server, and run "pgdrag resume last" to go on.',
                )
        self.stay_alone()

    def apply(self, levels: Sequence[Level], log: TrialLog) -> list[Applied]:
        """Put settings in force, and return what the server has of them, and why it refuses the others.

        Raises:
            SettingError: it refuses all.
        """
        if self._settings is None:
            return []
        with log.phase("apply settings"):
            refused = self._settings.apply({level.name: level.value for level in levels})
        log.warnings.extend(f"left out: {why}" for why in refused.values())
        # The lock is free during a restart: another pgdrag may have taken it.
        self.stay_alone()
        there = replace(self.standing, server=self.server)
        taken = [level for level in levels if level.name not in refused]
        left_out = [Applied(x, None, refused[x.name]) for x in levels if x.name in refused]
        return read_back(there, taken, how=self._settings.how) + left_out

    def stay_alone(self) -> None:
        """See that no other pgdrag works there.

        Raises:
            ServerError: one does, and what it changed may have been in force.
            ServerLost: the server does not answer.
        """
        self._lock.keep()

    def keep_up(self, log: TrialLog) -> None:
        """Do what is done before each trial."""
        with log.phase("upkeep"):
            self._upkeep.run(self.server)

    def close(self) -> None:
        """Give the server its own settings back, and drop what was made; what fails stays in the undo journal."""
        own, self._own = self._own, None
        settings, self._settings = self._settings, None
        if (own or settings) and (lost := self._lost()):
            name, at_most = self.standing.server.name, format_duration(PATIENCE_S)
            explanation = f"Lost {name}: {lost}. Waiting up to {at_most} for it, to undo what was changed there; Ctrl-C acts after that."
            self._listen(PhaseStarted("undo the changes", PATIENCE_S, explanation))
        results = [
            settings.undo() if settings is not None else None,
            own.drop() if own is not None else None,
        ]
        self.undone += [result.sentence for result in results if result is not None]
        self._lock.give_up()

    def _lost(self) -> str:
        """Return why the server cannot be reached; "": it answers."""
        try:
            self.server.connect(application_name="pgdrag").close()
        except ServerLost as error:
            return error.message
        return ""

    def _altered(self, changes: Iterable[Level]) -> AlteredSettings:
        if self.permission.by_role(self.standing):
            return RoleSettings(self.standing, self.server.target)
        command, is_restarted = self.permission.restart_command, self._needs_restart(changes)
        return SystemSettings(
            self.standing, command, is_restarted=is_restarted, aside=self._lock.aside
        )

    def _needs_restart(self, changes: Iterable[Level]) -> bool:
        find = self.standing.settings.find
        return any(find(level.name).context == "postmaster" for level in changes)

    def _refuse_stale(self, changes: Sequence[Level]) -> None:
        """Refuse to continue with facts that were read before the server was locked."""
        was, now = self.standing, look_at(self.standing.server)
        names = {fold(level.name) for level in changes}
        differ = [x for x in sorted(names) if was.in_force.get(x) != now.in_force.get(x)]
        if differ or (was.conf != now.conf and not self.permission.by_role(was)):
            raise UsageError(
                f"settings of {was.server.name} have changed since pgdrag looked at them ({listed(differ or [FILE])})",
                hint="Run the command again.",
            )
        self._refuse_loading(now, changes)

    def _refuse_loading(self, standing: Standing, changes: Sequence[Level]) -> None:
        """Refuse a run whose reloads would apply what others have written and not loaded."""
        if changes and standing.no_loading and not self.permission.by_role(standing):
            raise UsageError(
                f"cannot let {standing.server.name} read its configuration again: {standing.no_loading}",
                detail="A reload would also apply changes that pgdrag did not make.",
                hint="Reload or revert them first.",
            )

    def _require_dataset(self, workload: Workload) -> None:
        if workload.uses_dataset:
            require_dataset(self.standing.server, workload)
