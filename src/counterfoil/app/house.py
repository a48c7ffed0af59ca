"""The house as a value: an open ledger and what stands on it. Two can live in one process."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

from counterfoil.app.holder import Holder
from counterfoil.app.settings import Settings, load_settings
from counterfoil.app.wiring import close_ledger, open_ledger
from counterfoil.core import codec
from counterfoil.core.errors import ValueRefused
from counterfoil.ledger import runs, steps
from counterfoil.ledger.record import Ledger, expect
from counterfoil.ledger.runs import Driver, NewRun
from counterfoil.ledger.states import ExecutionStatus
from counterfoil.ledger.steps import StepEnd
from counterfoil.ledger.unit import Unit
from counterfoil.ledger.values import Refusal, RunRow, StepRow
from counterfoil.ledger.writer import Pending

T = TypeVar("T")


def open_house(path: Path | str | None = None, *, settings: Settings | None = None) -> "House":
    """Open a ledger, bringing its schema up to date.

    ``path``: the SQLite file; by default the settings' ledger.
    Raises ``StoreUnavailable`` and ``MigrationRefused``.
    """
    chosen = settings or load_settings()
    if path is not None:
        chosen = chosen.model_copy(update={"ledger": Path(path)})
    return House(chosen, open_ledger(chosen))


class House:
    """An open ledger. Use it as a context manager, from plain threads or from asyncio."""

    def __init__(self, settings: Settings, ledger: Ledger) -> None:
        self.settings = settings
        self.ledger = ledger
        self._holder: Holder | None = None

    @property
    def holder(self) -> Holder:
        """This process as a holder, registered at first use."""
        if self._holder is None:
            folder = self.settings.ledger_file.parent / "holders"
            self._holder = Holder(self.ledger, folder, "process")
        return self._holder

    def run(
        self,
        *,
        subject_kind: str,
        subject_id: str,
        key: str | None = None,
        input: Any = None,
    ) -> "Run":
        """A run to enter with ``with`` or ``async with``.

        ``key``: the unfinished run of that key goes on under a new fence; without one every
        call is a new run.
        """
        return Run(self, subject_kind, subject_id, key, input)

    def close(self) -> None:
        if self._holder is not None:
            self._holder.release()
            self._holder = None
        close_ledger(self.ledger)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await asyncio.to_thread(self.close)


class Run:
    """One run while it is open: it succeeds when its block ends, fails when the block raises.

    An interrupt or a cancellation ends nothing: the run stays open and can be entered again by
    its key.
    """

    def __init__(
        self, house: House, subject_kind: str, subject_id: str, key: str | None, input: Any
    ) -> None:
        self._house = house
        self._ledger = house.ledger
        self._new = (subject_kind, subject_id, key, input)
        self._driver: Driver | None = None
        self._recorded: dict[str, StepRow] = {}
        self._counts: dict[str, int] = {}
        self._row: RunRow | None = None

    @property
    def id(self) -> str:
        return self._open.run_id

    @property
    def _open(self) -> Driver:
        if self._driver is None:
            raise ValueRefused("the run is not open", hint="enter it: with house.run(...) as run")
        return self._driver

    def step(self, name: str, work: Callable[[], T | Awaitable[T]]) -> "Step[T]":
        """An operation that is done once: its result is recorded and answers from then on.

        ``await`` it on asyncio, or ``.wait()`` in a plain thread. The n-th step of one name is
        the same step when the run is entered again.
        """
        count = self._counts[name] = self._counts.get(name, 0) + 1
        key = name if count == 1 else f"{name}#{count}"
        return Step(self, key, work)

    def __enter__(self) -> Self:
        self._enter(self._ledger.do(self._start))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, Exception):
            self._ledger.do(lambda unit: self._end(unit, error))

    async def __aenter__(self) -> Self:
        holder = await asyncio.to_thread(lambda: self._house.holder)
        assert holder is not None
        self._enter(await self._ledger.perform(self._start))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, Exception):
            await self._ledger.perform(lambda unit: self._end(unit, error))

    def _start(self, unit: Unit) -> tuple[RunRow, Driver] | Refusal:
        kind, subject, key, value = self._new
        ledger, holder_id = self._ledger, self._house.holder.id
        before = runs.open_with_key(unit.connection, ledger.scope, key) if key else None
        if before is not None:
            driver = runs.take(unit, ledger.scope, before, holder_id)
            return driver if isinstance(driver, Refusal) else (before, driver)
        prepared = ledger.prepare(value)
        new = NewRun(
            kind,
            subject,
            prepared,
            input_hash=ledger.key.of(codec.encode_safely(value).encode("ascii")),
            input_hash_key=ledger.key.id,
            holder_id=holder_id,
            run_key=key,
        )
        row = runs.create(unit, ledger.scope, new)
        if isinstance(row, Refusal):
            return row
        driver = Driver(row.id, holder_id, row.fence)
        moved = runs.move(unit, ledger.scope, driver, row.status, ExecutionStatus.RUNNING)
        return moved if isinstance(moved, Refusal) else (moved, driver)

    def _enter(self, started: tuple[RunRow, Driver]) -> None:
        self._row, self._driver = started
        if self._driver.fence > 1:
            found = self._ledger.read(
                lambda connection: steps.of_run(connection, self._ledger.scope, self.id)
            )
            self._recorded = {step.step_key: step for step in found}

    def _end(self, unit: Unit, error: BaseException | None) -> RunRow | Refusal:
        scope = self._ledger.scope
        row = runs.get(unit.connection, scope, self.id)
        assert row is not None
        if error is None:
            return runs.move(
                unit, scope, self._open, row.status, ExecutionStatus.SUCCEEDED, cause="finished"
            )
        message = str(codec.describe_error(error)["message"])
        return runs.move(
            unit,
            scope,
            self._open,
            row.status,
            ExecutionStatus.FAILED,
            cause="error",
            message=message,
            error_code=type(error).__name__,
        )

    def _recorded_result(self, key: str) -> tuple[bool, Any]:
        step = self._recorded.get(key)
        if step is None or step.status != ExecutionStatus.SUCCEEDED:
            return False, None
        if step.result_json is not None:
            return True, codec.decode(step.result_json)
        return True, codec.decode(self._ledger.blobs.get(step.result_sha256).decode("ascii"))

    def _record(self, key: str, started_at: int, value: Any, error: str) -> Pending[str | Refusal]:
        ledger, driver = self._ledger, self._open
        prepared = ledger.prepare(value)
        overflow = None
        if prepared.overflow is not None:
            overflow = ledger.keep(prepared.overflow, "json", "application/json")
        end = StepEnd(key, "step", prepared, started_at, overflow=overflow, error_code=error)
        known = key in self._recorded
        return ledger.submit(
            lambda unit: steps.record(unit, ledger.scope, driver, end, known=known)
        )


class Step(Generic[T]):
    """A step to await, or to wait for."""

    __slots__ = ("_key", "_run", "_work")

    def __init__(self, run: Run, key: str, work: Callable[[], T | Awaitable[T]]) -> None:
        self._run = run
        self._key = key
        self._work = work

    def wait(self) -> T:
        """Do it, record it durably, and return its result; from a plain thread."""
        found, value = self._run._recorded_result(self._key)
        if found:
            return cast("T", value)
        started_at = self._run._ledger.clock.now_us()
        try:
            result = self._work()
        except Exception as error:
            described = codec.describe_error(error)
            pending = self._run._record(self._key, started_at, described, type(error).__name__)
            expect(pending.wait())
            raise
        if inspect.isawaitable(result):
            raise ValueRefused(
                f"step {self._key!r} is asynchronous", hint="await the step instead of wait()"
            )
        expect(self._run._record(self._key, started_at, result, "").wait())
        return result

    def __await__(self) -> Generator[Any, None, T]:
        return self._perform().__await__()

    async def _perform(self) -> T:
        found, value = self._run._recorded_result(self._key)
        if found:
            return cast("T", value)
        started_at = self._run._ledger.clock.now_us()
        try:
            result = self._work()
            if inspect.isawaitable(result):
                result = await result
        except Exception as error:
            described = codec.describe_error(error)
            pending = self._run._record(self._key, started_at, described, type(error).__name__)
            expect(await pending)
            raise
        expect(await self._run._record(self._key, started_at, result, ""))
        return cast("T", result)
