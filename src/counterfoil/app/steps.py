"""Durable steps of a run: each is done once, and its recorded result answers from then on."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, Generic, NoReturn, TypeVar, cast

from counterfoil.core import codec, failures
from counterfoil.core.errors import CounterfoilError, ValueRefused
from counterfoil.ledger import steps
from counterfoil.ledger.record import Ledger, expect
from counterfoil.ledger.runs import Driver
from counterfoil.ledger.states import ExecutionStatus
from counterfoil.ledger.steps import StepEnd
from counterfoil.ledger.unit import Work
from counterfoil.ledger.values import Refusal, StepRow

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StepBook:
    """What an open run knows of its steps.

    ``before`` are those recorded when it was entered; ``known`` the keys that have a row.
    """

    ledger: Ledger
    driver: Driver
    before: dict[str, StepRow]
    known: set[str]

    def succeeded(self, key: str) -> StepRow | None:
        """The step of this key, when it had succeeded before the run was entered."""
        step = self.before.get(key)
        return step if step is not None and step.status == ExecutionStatus.SUCCEEDED else None

    def result_of(self, step: StepRow) -> Any:
        if step.result_json is not None:
            return codec.decode(step.result_json)
        return codec.decode(self.ledger.blobs.get(step.result_sha256).decode("ascii"))

    def recording(self, end: StepEnd) -> Work[str | Refusal]:
        """The unit that records a step's end; a large result is stored before its row is."""
        scope, driver, known = self.ledger.scope, self.driver, end.key in self.known
        if end.result.overflow is not None:
            end = replace(end, overflow=self.ledger.keep_exact(end.result))
        return lambda unit: steps.record(unit, scope, driver, end, known=known)


def open_book(ledger: Ledger, driver: Driver) -> StepBook:
    """The steps of a run as its driver finds them. A run under its first fence has none."""
    before: dict[str, StepRow] = {}
    if driver.fence > 1:
        found = ledger.read(
            lambda connection: steps.of_run(connection, ledger.scope, driver.run_id)
        )
        before = {step.step_key: step for step in found}
    return StepBook(ledger, driver, before, set(before))


class Step(Generic[T]):
    """A step to await, or to wait for.

    When its work is done and its result cannot be recorded, waiting for the same object again
    records it and does not do the work again.
    """

    __slots__ = ("_at_work", "_book", "_kept", "_key", "_outcome", "_started_at", "_work")

    def __init__(self, book: StepBook, key: str, work: Callable[[], T | Awaitable[T]]) -> None:
        self._book = book
        self._key = key
        self._work = work
        self._at_work = threading.Lock()
        self._outcome: tuple[T] | None = None
        self._kept = False
        self._started_at = 0

    def wait(self) -> T:
        """Do it, record it durably, and return its result; from a plain thread."""
        self._begin()
        try:
            before = self._book.succeeded(self._key)
            if before is not None:
                return cast("T", self._book.result_of(before))
            if self._outcome is None:
                try:
                    result = self._work()
                    if inspect.isawaitable(result):
                        self._refuse_awaitable(result)
                    self._outcome = (result,)
                except Exception as error:
                    self._record(self._failure(error), error)
                    raise
            if not self._kept:
                self._record(self._success(self._outcome[0]))
            return self._outcome[0]
        finally:
            self._at_work.release()

    def __await__(self) -> Generator[Any, None, T]:
        return self._perform().__await__()

    async def _perform(self) -> T:
        self._begin()
        try:
            before = self._book.succeeded(self._key)
            if before is not None:
                return cast("T", await asyncio.to_thread(self._book.result_of, before))
            if self._outcome is None:
                try:
                    result = self._work()
                    self._outcome = (await result if inspect.isawaitable(result) else result,)
                except Exception as error:
                    await self._arecord(self._failure(error), error)
                    raise
            if not self._kept:
                await self._arecord(self._success(self._outcome[0]))
            return self._outcome[0]
        finally:
            self._at_work.release()

    def _begin(self) -> None:
        """Take the step's lock; who called lets go of it."""
        if not self._at_work.acquire(blocking=False):
            raise ValueRefused(f"step {self._key!r} is at work already", hint="wait for it once")
        if self._outcome is None:
            self._started_at = self._book.ledger.clock.now_us()

    def _refuse_awaitable(self, result: Awaitable[T]) -> NoReturn:
        if inspect.iscoroutine(result):
            result.close()
        raise ValueRefused(
            f"step {self._key!r} is asynchronous", hint="await the step instead of wait()"
        )

    def _success(self, result: T) -> StepEnd:
        prepared = self._book.ledger.prepare(result)
        return StepEnd(self._key, "step", prepared, self._started_at)

    def _failure(self, error: Exception) -> StepEnd:
        described = self._book.ledger.prepare(failures.describe_error(error))
        return StepEnd(
            self._key, "step", described, self._started_at, error_code=type(error).__name__
        )

    def _record(self, end: StepEnd, failure: Exception | None = None) -> None:
        try:
            self._book.ledger.do(self._book.recording(end))
        except CounterfoilError as refused:
            self._not_recorded(refused, failure)
        else:
            self._recorded(failure)

    async def _arecord(self, end: StepEnd, failure: Exception | None = None) -> None:
        try:
            if end.result.overflow is None:
                work = self._book.recording(end)
            else:
                work = await asyncio.to_thread(self._book.recording, end)
            expect(await self._book.ledger.submit(work))
        except CounterfoilError as refused:
            self._not_recorded(refused, failure)
        else:
            self._recorded(failure)

    def _not_recorded(self, refused: CounterfoilError, failure: Exception | None) -> None:
        """The work's own failure goes before the refusal to record it."""
        if failure is None:
            raise refused
        note(failure, f"the failure of step {self._key}", refused)

    def _recorded(self, failure: Exception | None) -> None:
        self._book.known.add(self._key)
        self._kept = failure is None


def refuse_unstorable(what: str, name: str) -> None:
    """Raises ``ValueRefused`` for a name that no engine can keep as it is."""
    try:
        unstorable = b"\0" in name.encode("utf-8")
    except UnicodeEncodeError:
        unstorable = True
    if unstorable:
        raise ValueRefused(
            f"the {what} {name!r} holds NUL or half a surrogate pair", hint="give plain text"
        )


def note(error: BaseException, what: str, refused: CounterfoilError) -> None:
    """Tell on the caller's own error that the ledger did not take it."""
    error.add_note(f"counterfoil: {what} could not be recorded: {refused.message}")
