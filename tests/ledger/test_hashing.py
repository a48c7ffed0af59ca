"""The ledger's key: one for each ledger, made once, and never in a hash that can be guessed."""

import hashlib
import hmac
import threading
from typing import Any

from counterfoil.ledger import hashing


def test_a_ledger_has_one_key_whoever_asks_first(open_bench: Any) -> None:
    benches = [open_bench() for _ in range(4)]
    keys = []
    threads = [
        threading.Thread(target=lambda bench=bench: keys.append(bench.submit(hashing.load_key)))
        for bench in benches
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(keys) == 4
    assert len(set(keys)) == 1
    assert keys[0].id == "k1"
    assert len(keys[0].secret) == 32


def test_the_hash_of_a_request_is_keyed() -> None:
    key = hashing.HashKey("k1", b"a" * 32)
    assert key.of(b"1234") == hmac.new(b"a" * 32, b"1234", "sha256").hexdigest()
    assert key.of(b"1234") != hashing.HashKey("k1", b"b" * 32).of(b"1234")


def test_the_hash_of_a_text_is_that_of_its_utf8() -> None:
    assert hashing.sha256_text("ä") == hashlib.sha256(b"\xc3\xa4").hexdigest()
    assert len(hashing.sha256_text("\ud800")) == 64
