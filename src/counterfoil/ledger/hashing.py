"""The two kinds of hash: plain ones for integrity, keyed ones for identity.

A request's hash is keyed, so that a low-entropy secret cannot be guessed from it; the key lives
in the ledger's own meta table and never leaves it.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass

from counterfoil.ledger.queries import queries
from counterfoil.ledger.unit import Unit

_CURRENT = "hash_key/current"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_text(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class HashKey:
    """The ledger's key for request hashes; rows keep its id."""

    id: str
    secret: bytes

    def of(self, data: bytes) -> str:
        return hmac.new(self.secret, data, hashlib.sha256).hexdigest()


def load_key(unit: Unit) -> HashKey:
    """The ledger's key, made at first use."""
    sql = queries("meta")
    unit.run(sql["put_new"], {"key": _CURRENT, "value": f"k1:{secrets.token_hex(32)}"})
    row = unit.one(sql["get"], {"key": _CURRENT})
    assert row is not None
    key_id, _, secret = str(row[0]).partition(":")
    return HashKey(key_id, bytes.fromhex(secret))
