"""The house as a value: an open ledger and what stands on it. Two can live in one process."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from counterfoil.app.holder import Holder, is_gone
from counterfoil.app.settings import Settings, load_settings
from counterfoil.app.steps import Step, StepBook, note, open_book, refuse_unstorable
from counterfoil.app.wiring import close_ledger, open_ledger
from counterfoil.core import codec, failures
from counterfoil.core.errors import Conflict, CounterfoilError, ValueRefused
from counterfoil.core.ids import ARTIFACT
from counterfoil.ledger import artifacts, holders, runs
from counterfoil.ledger.artifacts import Stored
from counterfoil.ledger.record import Ledger
from counterfoil.ledger.runs import Driver, NewRun
from counterfoil.ledger.states import ExecutionStatus
from counterfoil.ledger.unit import Unit, Work
from counterfoil.ledger.values import Refusal, RefusalCode, RunRow, Scope

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
        self._guard = threading.Lock()
        self._keys_guard = threading.Lock()
        self._open_keys: set[str] = set()

    @property
    def holder(self) -> Holder:
        """This process as a holder, registered at first use."""
        with self._guard:
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
        call is a new run. Entering raises ``Conflict`` while another process drives that run,
        or when it is a run of something else or of another input.
        """
        for what, name in (("subject", subject_id), ("key", key or "")):
            refuse_unstorable(what, name)
        return Run(self, subject_kind, subject_id, key, input)

    def _claim(self, key: str | None) -> None:
        """Have one run of a key open at a time. Raises ``Conflict``."""
        if key is None:
            return
        with self._keys_guard:
            if key in self._open_keys:
                raise Conflict(f"the run with the key {key!r} is open in this process already")
            self._open_keys.add(key)

    def _free(self, key: str | None) -> None:
        if key is not None:
            with self._keys_guard:
                self._open_keys.discard(key)

    def close(self) -> None:
        """Release what this process holds and close the ledger."""
        try:
            if self._holder is not None:
                self._holder.release()
                self._holder = None
        finally:
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

    An interrupt or a cancellation ends nothing: the run is given up and can be entered again by
    its key. When the end of a block that raised cannot be recorded, the block's own error is
    raised all the same, with a note.
    """

    def __init__(
        self, house: House, subject_kind: str, subject_id: str, key: str | None, input: Any
    ) -> None:
        self._house = house
        self._ledger = house.ledger
        self._subject = (subject_kind, subject_id)
        self._key = key
        self._input = input
        self._book: StepBook | None = None
        self._counts: dict[str, int] = {}

    @property
    def id(self) -> str:
        return self._open.driver.run_id

    @property
    def _open(self) -> StepBook:
        if self._book is None:
            raise ValueRefused("the run is not open", hint="enter it: with house.run(...) as run")
        return self._book

    def step(self, name: str, work: Callable[[], T | Awaitable[T]]) -> "Step[T]":
        """An operation that is done once: its result is recorded and answers from then on.

        ``await`` it on asyncio, or ``.wait()`` in a plain thread. The n-th step of one name is
        the same step when the run is entered again.
        """
        refuse_unstorable("step", name)
        count = self._counts[name] = self._counts.get(name, 0) + 1
        key = name if count == 1 else f"{name}#{count}"
        return Step(self._open, key, work)

    def __enter__(self) -> Self:
        self._house._claim(self._key)
        try:
            self._enter(self._ledger.do(self._prepare()))
        except BaseException:
            self._house._free(self._key)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            work = self._closing(error)
            if work is not None:
                self._ledger.do(work)
        except CounterfoilError as refused:
            if error is None:
                raise
            note(error, "the run's end", refused)
        finally:
            self._house._free(self._key)

    async def __aenter__(self) -> Self:
        self._house._claim(self._key)
        try:
            work = await asyncio.to_thread(self._prepare)
            driver = await self._ledger.perform(work)
            await asyncio.to_thread(self._enter, driver)
        except BaseException:
            self._house._free(self._key)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            work = self._closing(error)
            if work is not None:
                await self._ledger.perform(work)
        except CounterfoilError as refused:
            if error is None:
                raise
            note(error, "the run's end", refused)
        finally:
            self._house._free(self._key)

    def _prepare(self) -> Work[Driver | Refusal]:
        """All that is not the unit's: the holder, the input's form and its bytes."""
        ledger, holder_id = self._ledger, self._house.holder.id
        prepared = ledger.prepare(self._input)
        stored = ledger.keep_exact(prepared)
        new = NewRun(
            *self._subject,
            prepared,
            input_hash=ledger.key.of(codec.encode_safely(self._input).encode("ascii")),
            input_hash_key=ledger.key.id,
            holder_id=holder_id,
            run_key=self._key,
            input_artifact_id=ledger.ids.new(ARTIFACT) if stored else None,
        )
        return lambda unit: self._start(unit, new, stored)

    def _start(self, unit: Unit, new: NewRun, stored: Stored | None) -> Driver | Refusal:
        scope = self._ledger.scope
        key = new.run_key
        before = runs.open_with_key(unit.connection, scope, key) if key is not None else None
        if before is not None:
            return self._why_not(unit, before, new) or runs.take(unit, scope, before, new.holder_id)
        row = runs.create(unit, scope, new)
        if isinstance(row, Refusal):
            return row
        if stored is not None:
            kept = artifacts.record(
                unit, scope, row.id, stored, fence=row.fence, artifact_id=new.input_artifact_id
            )
            if isinstance(kept, Refusal):
                return kept
        driver = Driver(row.id, new.holder_id, row.fence)
        moved = runs.move(unit, scope, driver, row.status, ExecutionStatus.RUNNING)
        return moved if isinstance(moved, Refusal) else driver

    def _why_not(self, unit: Unit, before: RunRow, new: NewRun) -> Refusal | None:
        """Why the unfinished run of this key cannot be gone on with here."""
        name = f"the key {new.run_key!r} is that of {before.id}"
        if (before.subject_kind, before.subject_id) != (new.subject_kind, new.subject_id):
            what = f"{before.subject_kind} {before.subject_id}"
            return Refusal(RefusalCode.CONFLICT, f"{name}, a run of {what}", before.status)
        same = (before.input_hash_key, before.input_hash) == (new.input_hash_key, new.input_hash)
        if self._input is not None and not same:
            return Refusal(RefusalCode.CONFLICT, f"{name}, which has another input", before.status)
        if before.holder_id == new.holder_id:
            return None
        holder = holders.get(unit.connection, self._ledger.scope, before.holder_id)
        if holder is None or is_gone(holder, unit.now):
            return None
        return Refusal(
            RefusalCode.CONFLICT,
            f"{before.id} is driven by process {holder.pid} on {holder.host}",
            before.status,
        )

    def _enter(self, driver: Driver) -> None:
        self._counts.clear()
        self._book = open_book(self._ledger, driver)

    def _closing(self, error: BaseException | None) -> Work[RunRow | Refusal] | None:
        """The unit that ends the run. None after an interrupt, which only gives it up."""
        scope, driver = self._ledger.scope, self._open.driver
        if error is not None and not isinstance(error, Exception):
            with contextlib.suppress(CounterfoilError):
                self._ledger.submit(lambda unit: _give_up(unit, scope, driver))
            return None
        move = partial(runs.move, target=ExecutionStatus.SUCCEEDED, cause="finished")
        if error is not None:
            move = partial(
                runs.move,
                target=ExecutionStatus.FAILED,
                cause="error",
                message=str(failures.describe_error(error)["message"]),
                error_code=type(error).__name__,
            )

        def end(unit: Unit) -> RunRow | Refusal:
            row = runs.get(unit.connection, scope, driver.run_id)
            assert row is not None
            return move(unit, scope, driver, row.status)

        return end


def _give_up(unit: Unit, scope: Scope, driver: Driver) -> Driver | Refusal | None:
    """Leave the run to whoever enters it next, unless somebody has it already."""
    row = runs.get(unit.connection, scope, driver.run_id)
    if row is None or row.fence != driver.fence:
        return None
    return runs.take(unit, scope, row, "")
