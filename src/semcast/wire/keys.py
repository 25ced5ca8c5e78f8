"""The secrets of a group: secrets and key ids in, keys of single sources and fingerprints out.

Knows nothing of datagrams, and makes no randomness: a secret is made elsewhere (`semcast keys
new`) and handed in. A secret is kept only as its HKDF pseudo-random key, and nothing here shows
it: not `repr`, not an error, not `list`.
"""

import hashlib
import hmac
from typing import Final, NamedTuple, final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from semcast.errors import ConfigError
from semcast.ids import ID_MAX
from semcast.wire.header import KEY_ID_MAX, VERSION

SECRET_BYTES_MIN: Final = 16
SECRET_BYTES_MAX: Final = 1024
KEY_BYTES: Final = 32
KEYS_MAX: Final = 16
GROUP_NAME_BYTES_MAX: Final = 255

# HKDF's salt: what the keys are for, and the datagram version, so that no other use of the same
# secret and no later version of ours ever derives the same keys.
_SALT: Final = b"semcast datagram" + bytes([VERSION])
_FINGERPRINT_INFO: Final = b"fingerprint"
_GROUP_LABEL: Final = b"semcast group\0"


@final
class Secret:
    """What all members of a group share. Anyone who has it is a member, so it is never shown."""

    def __init__(self, material: bytes) -> None:
        if not SECRET_BYTES_MIN <= len(material) <= SECRET_BYTES_MAX:
            raise ConfigError(
                f"the secret has {len(material)} bytes; it needs {SECRET_BYTES_MIN} to "
                f"{SECRET_BYTES_MAX}, best 32 random ones: make one with `semcast keys new`"
            )
        # HKDF-Extract. [RFC 5869 §2.2]
        self._prk: Final = hmac.digest(_SALT, material, "sha256")
        # Safe to show: 64 bits that say which secret this is and nothing about what it is.
        self.fingerprint: Final = self.derive(_FINGERPRINT_INFO)[:8].hex()

    def derive(self, info: bytes) -> bytes:
        """HKDF-Expand: a key of its own for every `info`. [RFC 5869 §2.3]"""
        return HKDFExpand(SHA256(), KEY_BYTES, info).derive(self._prk)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._prk, other._prk)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"Secret(fingerprint={self.fingerprint})"


class KeyInfo(NamedTuple):
    """What may be shown of an installed key."""

    key_id: int
    fingerprint: str
    in_use: bool


@final
class Keyring:
    """The installed secrets of a group, one of which is in use for sealing.

    Rotation without a gap is three steps, each finished on all members before the next begins:
    `install` the new secret, `use` it, `remove` the old one. Datagrams under any installed key
    open, so no order of members within a step loses anything.
    """

    def __init__(self, secret: bytes | Secret, key_id: int = 1) -> None:
        _require_key_id(key_id)
        # INV-IN-USE: the key in use is installed; so a keyring is never empty.
        self._secrets: Final[dict[int, Secret]] = {key_id: _as_secret(secret)}
        self._in_use = key_id
        # Grows with every change, so that whoever caches derived keys knows when to drop them. A
        # plain attribute, because it is read for every datagram.
        self.version = 1

    @property
    def in_use(self) -> int:
        """The id of the key that seals from now on."""
        return self._in_use

    def install(self, key_id: int, secret: bytes | Secret) -> bool:
        """Open datagrams under this key too. False if it was installed already."""
        _require_key_id(key_id)
        new = _as_secret(secret)
        held = self._secrets.get(key_id)
        if held == new:
            return False
        if held is not None:
            raise ConfigError(
                f"key {key_id} is installed with another secret ({held.fingerprint}, not "
                f"{new.fingerprint}); install under a new id, or remove {key_id} first"
            )
        if len(self._secrets) >= KEYS_MAX:
            raise ConfigError(
                f"{len(self._secrets)} keys are installed, the most a keyring holds; "
                "remove the ones no longer in use"
            )
        self._secrets[key_id] = new
        self.version += 1
        return True

    def use(self, key_id: int) -> None:
        """Seal with this key from now on."""
        self.secret(key_id)  # Raises if it is not installed.
        if key_id != self._in_use:
            self._in_use = key_id
            self.version += 1

    def remove(self, key_id: int) -> bool:
        """No longer open datagrams under this key. False if it was not installed."""
        if key_id == self._in_use:
            raise ConfigError(f"key {key_id} is in use; use another one before removing it")
        if self._secrets.pop(key_id, None) is None:
            return False
        self.version += 1
        return True

    def list(self) -> tuple[KeyInfo, ...]:
        """The installed keys by id, with fingerprints to compare between members."""
        return tuple(
            KeyInfo(key_id, secret.fingerprint, key_id == self._in_use)
            for key_id, secret in sorted(self._secrets.items())
        )

    def secret(self, key_id: int) -> Secret:
        """The secret installed under this id, to derive a source's key from."""
        secret = self._secrets.get(key_id)
        if secret is None:
            raise ConfigError(f"key {key_id} is not installed; installed: {sorted(self._secrets)}")
        return secret

    def __contains__(self, key_id: int) -> bool:
        return key_id in self._secrets

    def __repr__(self) -> str:
        return f"Keyring(installed={sorted(self._secrets)}, in_use={self._in_use})"


@final
class Unsealed:
    """The type of UNSEALED: a group that chose to run in the clear."""

    def __repr__(self) -> str:
        return "UNSEALED"


# Has to be passed in place of a Keyring and is never a default: in an unsealed group anyone on the
# network can delete messages by forging what replaces them.
UNSEALED: Final = Unsealed()


def require_keys(keys: object) -> Keyring | Unsealed:
    """`keys` if it is a Keyring or UNSEALED; anything else, above all None, is an error."""
    if isinstance(keys, (Keyring, Unsealed)):
        return keys
    given = "None" if keys is None else type(keys).__name__
    raise ConfigError(
        f"keys is {given}: pass a Keyring with the group's secret (make one with `semcast keys "
        "new`), or pass UNSEALED to run without protection on a network you trust"
    )


def group_id(name: str) -> int:
    """The 62-bit id of the group with this name, the same everywhere and for ever."""
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"group name {name[:64]!r} is not valid Unicode (a lone surrogate); use printable text"
        ) from None
    if not 1 <= len(encoded) <= GROUP_NAME_BYTES_MAX:
        raise ConfigError(
            f"group name of {len(encoded)} bytes; it needs 1 to {GROUP_NAME_BYTES_MAX} (UTF-8)"
        )
    if any(character < " " or "\x7f" <= character <= "\x9f" for character in name):
        raise ConfigError(f"group name {name!r} has a control character; use printable text")
    return int.from_bytes(hashlib.sha256(_GROUP_LABEL + encoded).digest()[:8], "little") & ID_MAX


def _as_secret(secret: bytes | Secret) -> Secret:
    return secret if isinstance(secret, Secret) else Secret(secret)


def _require_key_id(key_id: int) -> None:
    if not 1 <= key_id <= KEY_ID_MAX:
        raise ConfigError(f"key id {key_id}; it goes from 1 to {KEY_ID_MAX}")
