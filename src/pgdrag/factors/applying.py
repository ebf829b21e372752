"""How is a treatment applied to a cluster, read back, and reliably undone?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pgdrag.driver.progress import TrialLog
from pgdrag.errors import PgdragError, ServerLost
from pgdrag.factors import Factor, Here, Problem, all_factors
from pgdrag.host.interrupts import uninterrupted
from pgdrag.host.process_alive import wait_until
from pgdrag.model import Applied, Recordings, Trial
from pgdrag.model.recordings import together
from pgdrag.servers.cluster import Cluster

START_TIMEOUT_S = 120.0
# A process just forked does not yet say what it is.
_IN_SIGHT_TIMEOUT_S = 2.0


class AppliedTreatment:
    """A treatment's levels on one cluster.

    Attributes:
        applied: what is known of each level so far, read back from the running system.
        recordings: what the factors did within the window, once that has ended.
        failures: why levels were not in force to the end, though they were not undone; as clauses.
    """

    def __init__(
        self, trial: Trial, cluster: Cluster, here: Here, problems: Sequence[Problem], log: TrialLog
    ) -> None:
        refused = {problem.level: problem for problem in problems}
        self.applied = [Applied(x.level, None, x.message) for x in refused.values()]
        self.recordings = Recordings()
        self.failures: list[str] = []
        self._trial, self._cluster, self._here, self._log = trial, cluster, here, log
        levels = [x for x in trial.treatment.levels if x not in refused]
        self._levels: dict[Factor, dict[str, str]] = {
            kind(): {x.name: x.value for x in levels if x.kind == kind.name}
            for kind in all_factors().values()
        }
        self._window_unix_s = 0.0
        self._life: tuple[object, ...] | None = None
        self._was_crashed: bool | None = None

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Apply the treatment, start the server, read every level back; undo at the end.

        Raises:
            ServerDidNotStart: it does not start with these levels.
        """
        try:
            for factor in self._levels:
                factor.serve(self._trial)
            for factor, levels in self._levels.items():
                factor.before_start(self._cluster, levels)
            with self._log.phase("start"):
                self._start()
                self._note_life()
                for factor, levels in self._levels.items():
                    factor.after_start(self._cluster, levels)
                self._read_back(late=False)
            yield
            self._read_back(late=True)
            self.recordings = together(x.recordings(self._window_unix_s) for x in self._levels)
        finally:
            self._undo()

    def window_began(self, window_unix_s: float) -> None:
        """Start what is to happen within the measured window."""
        self._window_unix_s = window_unix_s
        for factor in self._levels:
            factor.window_began(self._cluster)

    def is_crashed(self) -> bool:
        """Tell whether the server has restarted or is gone."""
        if self._was_crashed is not None:
            return self._was_crashed  # since then, an undo may have stopped it
        if self._life is None:
            return False
        now = self._cluster.life()
        # What was not in sight at the start tells nothing.
        return any(was and is_ != was for was, is_ in zip(self._life, now, strict=True))

    def refuse_crash(self) -> None:
        """Raise `ServerLost` if the server did not survive the load."""
        if self.is_crashed():
            raise ServerLost("the server crashed under load", detail=self._cluster.log_tail())

    def _note_life(self) -> None:
        def is_in_sight() -> bool:
            self._life = self._cluster.life()
            return self._life[1] is not None

        if not wait_until(is_in_sight, _IN_SIGHT_TIMEOUT_S):
            self._log.warnings.append(
                "pgdrag may not see the server's processes in /proc here: a crash shows only in the server's "
                "lock file"
            )

    def _start(self) -> None:
        """Start the server; one that runs already is restarted only where a setting needs it."""
        if self._cluster.is_running():
            if not self._needs_restart(self._cluster.unapplied) and self._cluster.reload():
                return
            self._cluster.stop()
        self._cluster.start(timeout_s=START_TIMEOUT_S)

    def _needs_restart(self, names: frozenset[str]) -> bool:
        """Tell whether one of these settings, or one that is not known, takes effect only at a start."""
        known = self._here.settings.settings
        return any(name not in known or known[name].context == "postmaster" for name in names)

    def _read_back(self, *, late: bool) -> None:
        for factor, levels in self._levels.items():
            if factor.reads_back_late is late:
                self.applied += factor.read_back(self._cluster, levels)

    def _undo(self) -> None:
        """Restore what outlives the cluster, the newest first; no signal and no failure spares the rest."""
        with uninterrupted():
            with self._by_itself("the server was not inspected"):
                self._was_crashed = self.is_crashed()
            for factor in reversed(self._levels):
                with self._by_itself(f"whether {factor.name} held to the end is unknown"):
                    self.failures += filter(None, [factor.failure(self._cluster)])
                with self._by_itself(f"{factor.name} was not undone"):
                    factor.undo(self._cluster)

    @contextmanager
    def _by_itself(self, what: str) -> Iterator[None]:
        """Turn an error of a step into a warning, so that the other steps are still taken."""
        try:
            yield
        except PgdragError as error:
            self._log.warnings.append(f"{what}: {error.message}")
        except Exception as error:
            self._log.warnings.append(f"{what}: {type(error).__name__}: {error}")
