"""A model on loopback that answers the Anthropic Messages API from a script.

Standard library only, so that it starts anywhere an agent is tested::

    with ScriptedModel([Call("Bash", {"command": "date"}), Say("Done.")]) as model:
        run_agent(ANTHROPIC_BASE_URL=model.base_url, ANTHROPIC_API_KEY="any")

As a program it prints its address and serves until it is interrupted:
``python -m counterfoil.testing.scripted_model script.json``.
"""

import argparse
import contextlib
import json
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from counterfoil.core.errors import CounterfoilError
from counterfoil.testing.model_script import (
    Cut,
    Hang,
    Refuse,
    Say,
    Script,
    Step,
    beginning,
    events,
    message,
    script_from_json,
)

COUNTED_TOKENS = 42


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request as it came in. Header names are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the tools that the client offers."""
        return tuple(tool.get("name", "") for tool in self.body.get("tools") or ())

    @property
    def words(self) -> str:
        """All that the user's side of the conversation says, tool results included."""
        said = [item for item in self.body.get("messages") or () if item.get("role") == "user"]
        return json.dumps([item.get("content") for item in said], ensure_ascii=False)


class ScriptedModel:
    """Serves a script on a free loopback port; a context manager.

    A sequence is answered in the order of the requests; a mapping has one such sequence for
    each conversation whose user text contains the key (``""`` matches any), so that several
    agents can be served at once. The last step repeats for ever, as clients retry. A request
    to count tokens takes no step.
    """

    def __init__(self, script: Script, port: int = 0) -> None:
        scripts = dict(script) if isinstance(script, Mapping) else {"": script}
        self._scripts: dict[str, Sequence[Step]] = scripts
        self._taken = dict.fromkeys(scripts, 0)
        self._requests: list[ModelRequest] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = _Server(("127.0.0.1", port), self)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.02},
            name="scripted-model",
            daemon=True,
        )

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> tuple[ModelRequest, ...]:
        """All requests so far, in the order of their arrival."""
        with self._lock:
            return tuple(self._requests)

    @property
    def asked(self) -> tuple[ModelRequest, ...]:
        """The requests that took a step of the script."""
        return tuple(item for item in self.requests if _takes_a_step(item))

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop serving and let go of every client that hangs."""
        self._closing.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def take(self, request: ModelRequest) -> tuple[Step | None, str]:
        """Record a request; the step that answers it, if it takes one, and an id for it."""
        with self._lock:
            self._requests.append(request)
            number = f"{self._server.server_address[1]}{len(self._requests):05}"
            if not _takes_a_step(request):
                return None, number
            key = next((key for key in self._scripts if key in request.words), None)
            if key is None:
                return Refuse(400, "invalid_request_error", "No script matches."), number
            steps = self._scripts[key]
            step = steps[min(self._taken[key], len(steps) - 1)]
            self._taken[key] += 1
            return step, number

    def pause(self, seconds: float | None) -> None:
        """Wait, but not beyond the model's end."""
        self._closing.wait(seconds)


def _takes_a_step(request: ModelRequest) -> bool:
    return request.method == "POST" and request.path.partition("?")[0].endswith("/messages")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], model: ScriptedModel) -> None:
        self.model = model
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is not worth a traceback."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are recorded, not printed."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        request = self._read()
        step, number = self.server.model.take(request)
        model = str(request.body.get("model", "scripted"))
        if step is None:
            self._send_json(200, {"input_tokens": COUNTED_TOKENS})
        elif isinstance(step, Refuse):
            error = {"type": step.kind, "message": step.message}
            body = {"type": "error", "error": error, "request_id": f"req_{number}"}
            self._send_json(step.status, body, step.headers)
        elif isinstance(step, Hang):
            self.server.model.pause(None)
            self.close_connection = True
        elif isinstance(step, Cut):
            self._stream(beginning(step, model, number))
            self.close_connection = True
        elif request.body.get("stream"):
            self._stream(events(step, model, number), getattr(step, "pause_seconds", 0.0))
            self._chunk(b"")
        else:
            self._send_json(200, message(step, model, number))

    def _read(self) -> ModelRequest:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            raw = b"".join(self._chunks())
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body: Any = {}
        with contextlib.suppress(ValueError):
            body = json.loads(raw or b"{}")
        headers = {name.lower(): value for name, value in self.headers.items()}
        return ModelRequest(
            self.command, self.path, headers, body if isinstance(body, dict) else {}
        )

    def _chunks(self) -> Iterable[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _send_json(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stream(self, answer: Iterable[Mapping[str, Any]], pause_seconds: float = 0.0) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in answer:
            if pause_seconds and event["type"] == "content_block_delta":
                self.server.model.pause(pause_seconds)
            self._chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Serve a script file (or one polite sentence) until interrupted; exit code 2: unreadable."""
    parser = argparse.ArgumentParser(
        prog="python -m counterfoil.testing.scripted_model",
        description="Answer the Anthropic Messages API on loopback from a script.",
    )
    parser.add_argument("script", nargs="?", type=Path, help="a JSON file with steps")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    options = parser.parse_args(argv)
    try:
        script = script_from_json(options.script.read_text()) if options.script else [Say("Done.")]
        model = ScriptedModel(script, options.port)
    except (CounterfoilError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    with model, contextlib.suppress(KeyboardInterrupt):
        print(model.base_url, flush=True)
        threading.Event().wait()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
