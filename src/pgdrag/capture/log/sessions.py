"""Which statements of a session are one transaction? A message after the other is read, and whole transactions are handed on.

BEGIN and COMMIT tell, and the virtual transaction's number where the log has it. A statement without them is a
transaction of its own. What began before the log, or ends after it, is cut.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from pgdrag.capture.log.formats import ERRORS, Entry
from pgdrag.capture.log.texts import SeenStatement, StatementTexts, Values
from pgdrag.capture.log.values import SpreadCount
from pgdrag.twins.transactions import Ending

_MOST_SESSIONS = 20_000
MOST_STATEMENTS = 5_000  # of a transaction
_MOST_HELD = 50
_MESSAGE = re.compile(
    r"(?:duration: (\d+\.\d+) ms)?(?:(?:  )?(statement|execute fetch from|execute|parse|bind|fastpath function call)(?: [^\n]*?)?: )?"
)

_PLANNED = re.compile(r"\s*(?:select|insert|update|delete|with|merge|values)\b", re.IGNORECASE)


class Executed(NamedTuple):
    """An execution of a statement."""

    statement: SeenStatement
    values: Values
    begin_s: float
    end_s: float


@dataclass
class Transaction:
    """A transaction that is whole.

    Attributes:
        begin_end_s: when BEGIN had ended; None without one.
        closing_s: when the statement that ended it was begun; None without one.
    """

    executed: list[Executed]
    begin_s: float
    end_s: float = 0.0
    is_block: bool = False
    ending: Ending = "commit"
    begin_end_s: float | None = None
    closing_s: float | None = None
    number: str = ""
    has_failed: bool = False
    is_too_long: bool = False


@dataclass
class Session:
    """A session while its messages are read.

    Attributes:
        current: its transaction, a block or what may get more statements.
        held: single statements that may be of a block whose BEGIN was before the log; None: they cannot.
        pending: a statement that has begun, by log_statement: text, detail, transaction, query's id, beginning.
        previous: shape and values of its last transaction, for `shapes.py`.
    """

    user: str
    is_own: bool
    current: Transaction | None = None
    held: list[Transaction] | None = field(default_factory=list)
    pending: Entry | None = None
    last_end_s: float | None = None
    last_s: float = 0.0
    transactions: int = 0
    previous: object = None


Hand = Callable[[Session, Transaction], None]


class Sessions:
    """The sessions of a log.

    Attributes:
        sessions: how many sent a statement.
        cut: transactions without beginning or end.
        errors: by SQLSTATE.
        timed, untimed: statements with a duration and without.
        named, unnamed: statements with a plan that were prepared under a name, and those sent otherwise.
        transactions: of each session that has ended.
        at_once: sessions that were busy within the same second.
    """

    def __init__(self, texts: StatementTexts, hand: Hand, *, own: Callable[[Entry], bool]) -> None:
        self._texts, self._hand, self._own = texts, hand, own
        self._open: dict[str, Session] = {}
        self.sessions = self.cut = self.timed = self.untimed = self.whole_blocks = 0
        self.named = self.unnamed = 0
        self.errors: Counter[str] = Counter()
        self.transactions, self.at_once = SpreadCount(), SpreadCount()
        self._second, self._busy = -1, set[str]()

    def read(self, entry: Entry) -> None:
        """Read the next message."""
        session = self._open.get(entry.session)
        if session is None:
            if len(self._open) >= _MOST_SESSIONS:
                self._end_oldest()
            session = self._open[entry.session] = Session(entry.user, self._own(entry))
        if session.is_own:
            return
        session.last_s = entry.at_s
        if entry.severity in ERRORS:
            self._read_error(session, entry)
            if entry.severity != "ERROR":
                self._end(self._open.pop(entry.session))
            return
        match = _MESSAGE.match(entry.message)
        assert match is not None, "all of it is optional"
        duration, kind = match.groups()
        if kind in ("parse", "bind", "fastpath function call", "execute fetch from"):
            return
        if kind is None:
            is_bare = match.end() == len(entry.message)  # auto_explain adds a plan
            if is_bare and duration is not None and session.pending is not None:
                pending, session.pending = session.pending, None
                self._execute(session, pending, pending.message, entry.at_s, float(duration))
            return
        self._flush(session)
        text = entry.message[match.end() :]
        self._count_sent(text, is_named=kind == "execute" and "<unnamed>" not in match[0])
        if duration is None:
            session.pending = entry._replace(message=text)
        else:
            self._execute(session, entry, text, entry.at_s, float(duration))

    def end(self) -> None:
        """Hand on what is whole at the end of the log."""
        for session in self._open.values():
            self._end(session)
        self._open.clear()
        if self._busy:
            self.at_once.add(len(self._busy))
            self._busy.clear()

    def _count_sent(self, text: str, *, is_named: bool) -> None:
        if _PLANNED.match(text):
            self.named += is_named
            self.unnamed += not is_named

    def _flush(self, session: Session) -> None:
        """Take a statement whose end the log does not tell as one without a duration."""
        pending, session.pending = session.pending, None
        if pending is not None:
            self._execute(session, pending, pending.message, pending.at_s, None)

    def _execute(
        self, session: Session, entry: Entry, text: str, end_s: float, duration_ms: float | None
    ) -> None:
        self.timed += duration_ms is not None
        self.untimed += duration_ms is None
        self._note_busy(entry.session, end_s)
        begin_s = end_s - (duration_ms or 0.0) / 1000
        parts = self._texts.read(text, entry.user, entry.query_id, entry.detail)
        for at, (statement, values) in enumerate(parts):
            statement.calls += 1
            match statement.kind:
                case "begin":
                    self._begin(session, entry, begin_s, end_s)
                case "statement":
                    executed = Executed(statement, values, begin_s, end_s)
                    self._add(session, executed, entry.transaction, is_with_last=at > 0)
                case ending:
                    self._finish(session, ending, begin_s, end_s)
                    if statement.is_chain:
                        self._begin(session, entry, end_s, end_s)
            begin_s = end_s

    def _note_busy(self, session: str, at_s: float) -> None:
        second = int(at_s)
        if second != self._second:
            # Seconds without any busy session count, too.
            idle = second - self._second - 1 if self._second >= 0 else 0
            if self._busy:
                self.at_once.add(len(self._busy))
            if idle > 0:
                self.at_once.add(0, idle)
            self._second = second
            self._busy.clear()
        self._busy.add(session)

    def _begin(self, session: Session, entry: Entry, begin_s: float, end_s: float) -> None:
        if session.current is not None and session.current.is_block:
            self._cut(session)
        self._settle(session)
        session.current = Transaction(
            [], begin_s, end_s, is_block=True, begin_end_s=end_s, number=entry.transaction or ""
        )

    def _add(
        self, session: Session, executed: Executed, number: str | None, *, is_with_last: bool
    ) -> None:
        current = session.current
        if current is not None and current.is_block and number and current.number and number != current.number:  # fmt: skip
            self._cut(session)
            current = None
        is_same = is_with_last or (bool(number) and current is not None and current.number == number)  # fmt: skip
        if current is None or not (current.is_block or is_same):
            if number is not None and session.held is not None:
                session.held = None  # the number tells which statements are one transaction
            self._release(session)
            current = session.current = Transaction([], executed.begin_s, number=number or "")
        current.number = current.number or number or ""
        current.end_s = executed.end_s
        if len(current.executed) < MOST_STATEMENTS:
            current.executed.append(executed)
        else:
            current.is_too_long = True

    def _finish(self, session: Session, ending: Ending, begin_s: float, end_s: float) -> None:
        current = session.current
        if current is None or not current.is_block:
            # It began before the log; so, for all that is known, did everything that was held.
            self.cut += 1
            session.current, session.held = None, None
            return
        current.ending = "error" if current.has_failed else ending
        current.closing_s, current.end_s = begin_s, end_s
        session.current = None
        self.whole_blocks += 1
        self._hand_on(session, current)

    def _settle(self, session: Session) -> None:
        """Hand on what was held: it was no block's."""
        self._release(session)
        held, session.held = session.held, None
        for transaction in held or ():
            self._hand_on(session, transaction)

    def _release(self, session: Session) -> None:
        """Hand on single statements that are over, or hold them."""
        current, session.current = session.current, None
        if current is None:
            return
        if session.held is None:
            self._hand_on(session, current)
            return
        session.held.append(current)
        if len(session.held) > _MOST_HELD:
            self._settle(session)

    def _read_error(self, session: Session, entry: Entry) -> None:
        self.errors[entry.sqlstate] += 1
        session.pending = None
        if session.current is not None and session.current.is_block:
            session.current.has_failed = True

    def _cut(self, session: Session) -> None:
        self.cut += 1
        session.current = None

    def _hand_on(self, session: Session, transaction: Transaction) -> None:
        self.sessions += session.transactions == 0
        session.transactions += 1
        self._hand(session, transaction)
        session.last_end_s = transaction.end_s

    def _end(self, session: Session) -> None:
        self._flush(session)
        if session.current is not None and session.current.is_block:
            self._cut(session)
        self._settle(session)
        if session.transactions:
            self.transactions.add(session.transactions)

    def _end_oldest(self) -> None:
        """Forget the half of the sessions that said nothing for the longest time."""
        oldest = sorted(self._open, key=lambda name: self._open[name].last_s)[: _MOST_SESSIONS // 2]
        for name in oldest:
            self._end(self._open.pop(name))
