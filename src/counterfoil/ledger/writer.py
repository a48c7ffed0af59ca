"""The group writer: many units of work in one commit, nobody answered before it returned.

Each unit runs in a savepoint of its own. When the engine ends the transaction (disk full, an
interrupt), the whole group counts as not committed and every unit runs again alone. When a
commit's reply is lost, the hash of the last entry that the group wrote tells whether it took
effect: it is looked up, never repeated blindly.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Generator
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from counterfoil.core.clock import Clock
from counterfoil.core.errors import StoreError, StoreUnavailable
from counterfoil.core.ids import Ids
from counterfoil.core.redaction import Redactor
from counterfoil.ledger import journal
from counterfoil.ledger.unit import Unit, Work
from counterfoil.ledger.values import Refusal
from counterfoil.ports.store import CommitReplyLost, Connection, Store

T = TypeVar("T")
Answer = tuple[Any, BaseException | None]
MOST_IN_A_GROUP = 256
RECONNECT_SECONDS = 0.25


class Pending(Generic[T]):
    """The answer to come of a unit: ``await`` it on asyncio, or ``wait()`` in a plain thread."""

    __slots__ = ("_done", "_error", "_future", "_loop", "_value", "settled", "work")

    def __init__(self, work: Work[T], loop: asyncio.AbstractEventLoop | None) -> None:
        self.work = work
        self._loop = loop
        self._future: asyncio.Future[None] | None = loop.create_future() if loop else None
        self._done = threading.Lock()
        self._done.acquire()
        self._value: Any = None
        self._error: BaseException | None = None
        self.settled = False

    def wait(self) -> T:
        """Block until the unit's group is durable. Raises what the unit raised."""
        with self._done:
            return self._answer()

    def __await__(self) -> Generator[Any, None, T]:
        if self._future is None:
            raise RuntimeError("this unit was handed in outside an event loop: use wait()")
        yield from self._future
        return self._answer()

    def _answer(self) -> T:
        if self._error is not None:
            raise self._error
        answer: T = self._value
        return answer

    def _settle(self, value: T | None, error: BaseException | None) -> None:
        self._value, self._error = value, error
        self.settled = True
        self._done.release()

    def _wake(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


class GroupWriter:
    """Owns the one writing connection of a process, and the thread that commits with it.

    A plain thread that finds nobody at work commits its own unit itself: the way to the
    writer's thread and back costs as much as the unit.
    """

    def __init__(self, store: Store, *, clock: Clock, ids: Ids, redactor: Redactor) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._redactor = redactor
        self._waiting: deque[Pending[Any]] = deque()
        self._guard = threading.Lock()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._asleep = False
        self._closing = threading.Event()
        self._closed = False
        self._at_work: int | None = None
        self._trouble = ""
        self._connection: Connection | None = store.connect()
        self._thread = threading.Thread(target=self._serve, name="ledger-writer", daemon=True)
        self._thread.start()

    @property
    def trouble(self) -> str:
        """Why nothing can be recorded now; empty while the store takes writes."""
        return self._trouble

    def submit(self, work: Work[T]) -> Pending[T]:
        """Hand in a unit. Raises ``StoreUnavailable`` once the writer is closed."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        pending: Pending[T] = Pending(work, loop)
        if self._at_work == threading.get_ident():
            raise _nested()
        with self._guard:
            if self._closed:
                raise _over()
            self._waiting.append(pending)
            self._ring()
        return pending

    def do(self, work: Work[T]) -> T:
        """Do a unit from a plain thread and wait until it is durable. Raises what it raised."""
        pending: Pending[T] = Pending(work, None)
        me = threading.get_ident()
        if self._at_work == me:
            raise _nested()
        try:
            if self._takes_turn(pending, me):
                self._commit_in_turn([pending])
        finally:
            if self._at_work == me:
                self._give_turn_back()
        return pending.wait()

    def _takes_turn(self, pending: Pending[Any], me: int) -> bool:
        """True when nobody is at work or waits; else the unit was handed in."""
        with self._guard:
            if self._closed:
                raise _over()
            if self._at_work is None and not self._waiting:
                self._at_work = me
                return True
            self._waiting.append(pending)
            self._ring()
            return False

    def _give_turn_back(self) -> None:
        self._at_work = None  # first of all: an interrupt of this thread must not keep the turn
        with self._guard:
            if self._waiting or self._closed:
                self._ring()

    def _ring(self) -> None:
        """Wake the writer's thread, once. The caller holds the guard."""
        if self._asleep:
            self._asleep = False
            self._bell.put(None)

    def close(self) -> None:
        """Commit what was handed in, then end the thread and the connection."""
        with self._guard:
            self._closed = True
            self._closing.set()
            self._ring()
        self._thread.join()
        self._drop_connection()

    def _serve(self) -> None:
        while group := self._next_group():
            try:
                self._commit_in_turn(group)
            finally:
                self._give_turn_back()

    def _next_group(self) -> list[Pending[Any]]:
        """What waits, when it is the writer's turn; nothing at all once the ledger is closed."""
        while True:
            with self._guard:
                if self._at_work is None and (self._waiting or self._closed):
                    self._at_work = threading.get_ident()
                    size = min(len(self._waiting), MOST_IN_A_GROUP)
                    return [self._waiting.popleft() for _ in range(size)]
                self._asleep = True
            self._bell.get()

    def _commit_in_turn(self, group: list[Pending[Any]]) -> None:
        """Commit a group in the thread whose turn it is, and answer all of it.

        The answers go out last: who is woken finds this thread done with all but its sleep.
        """
        answers: list[Answer] | None = None
        interrupt: BaseException | None = None
        try:
            with self._store.queue():
                answers = self._try(group)
                if answers is None:
                    self._one_by_one(group)
        except BaseException as error:  # nobody may wait for ever, or inherit a transaction
            self._trouble = self._trouble or str(error)
            self._drop_connection()
            left = [] if answers else [pending for pending in group if not pending.settled]
            self._answer(left, [(None, error)] * len(left))
            if not left and not isinstance(error, Exception):
                interrupt = error
        if answers is not None:
            self._answer(group, answers)
        if interrupt is not None:
            raise interrupt

    def _one_by_one(self, group: list[Pending[Any]]) -> None:
        """Each alone, and each answered at once: the store may go away before the next."""
        for pending in group:
            alone = self._try([pending])
            refused = StoreUnavailable(self._trouble or "the store ended the transaction")
            self._answer([pending], alone or [(None, refused)])

    def _try(self, group: list[Pending[Any]]) -> list[Answer] | None:
        """One transaction. None: the engine ended it, or it is known not to have committed."""
        answers: list[Answer] = []
        kept: list[Unit] = []
        alone = len(group) == 1
        try:
            connection = self._begun()
        except StoreError as error:  # none of them ran: alone they would wait once more each
            return [(None, error)] * len(group)
        try:
            now = self._clock.now_us()
            for pending in group:
                unit = Unit(connection, now, self._ids, self._redactor)
                answers.append(_run(connection, pending.work, unit, kept, alone=alone))
                if alone and not kept:
                    return answers
                if not connection.in_transaction:
                    raise StoreUnavailable("the engine ended the transaction")
            connection.commit()
        except CommitReplyLost as lost:
            return answers if self._took_effect(kept, lost) else None
        except Exception as error:
            self._trouble = str(error)
            self._roll_back(connection)
            return [(None, error)] if alone else None
        self._trouble = ""
        return answers

    def _begun(self) -> Connection:
        """The connection with a transaction open; a new one where the last one failed."""
        try:
            if self._connection is None:
                self._connection = self._store.connect()
            self._connection.begin()
        except StoreError as error:
            self._trouble = error.message
            self._drop_connection()
            raise
        return self._connection

    def _roll_back(self, connection: Connection) -> None:
        try:
            connection.rollback()
        except StoreError:
            self._drop_connection()

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(StoreError):
                connection.close()

    def _took_effect(self, kept: list[Unit], lost: Exception) -> bool:
        """Ask a new connection whether the group's last entry is there; wait for the store.

        A group without any entry is done again: its units are idempotent.
        """
        self._trouble = str(lost) or "the reply to a commit was lost"
        proofs = [entry for unit in kept for entry in journal.last_entries(unit)]
        while True:
            self._drop_connection()
            try:
                self._connection = self._store.connect()
                found = bool(proofs) and journal.holds(self._connection, *proofs[-1])
            except StoreUnavailable as error:
                self._trouble = error.message
                if self._closing.wait(RECONNECT_SECONDS):
                    raise StoreUnavailable(
                        "the reply to a commit was lost and the ledger was closed before the "
                        f"store could be asked: {error.message}",
                        hint="look whether the record is there before you do it again",
                    ) from error
            else:
                self._trouble = ""
                return found

    def _answer(self, group: list[Pending[Any]], answers: list[Answer]) -> None:
        loops: dict[asyncio.AbstractEventLoop, list[Pending[Any]]] = {}
        for pending, (value, error) in zip(group, answers, strict=True):
            pending._settle(value, error)
            if pending._loop is not None:
                loops.setdefault(pending._loop, []).append(pending)
        for loop, pendings in loops.items():
            _wake_on(loop, pendings)


def _run(
    connection: Connection,
    work: Callable[[Unit], Any],
    unit: Unit,
    kept: list[Unit],
    *,
    alone: bool,
) -> Answer:
    """Run a unit in its savepoint; for one that is ``alone`` the transaction is the savepoint."""
    if not alone:
        connection.savepoint()
    value: Any = None
    failure: BaseException | None = None
    try:
        value = work(unit)
        if not isinstance(value, Refusal):
            if unit.moves:
                raise RuntimeError("a unit moved a row and no journal entry tells of it")
            journal.write_heads(unit)
            if not alone:
                connection.release()
            kept.append(unit)
            return value, None
    except StoreUnavailable:
        raise
    except BaseException as error:  # whatever a unit raises is its caller's, not the writer's
        failure = error
    if connection.in_transaction:
        connection.rollback() if alone else connection.rollback_to_savepoint()
    return (None, failure) if failure else (value, None)


def _nested() -> RuntimeError:
    return RuntimeError("a unit of work cannot hand in another: it touches its own only")


def _over() -> StoreUnavailable:
    return StoreUnavailable("the ledger is closed")


def _wake_all(pendings: list[Pending[Any]]) -> None:
    for pending in pendings:
        pending._wake()


def _wake_on(loop: asyncio.AbstractEventLoop, pendings: list[Pending[Any]]) -> None:
    try:
        loop.call_soon_threadsafe(_wake_all, pendings)
    except RuntimeError:  # the loop is closed: nobody waits there any more
        return
