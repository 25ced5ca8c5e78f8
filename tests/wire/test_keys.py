"""Secrets stay secret, keys rotate, group ids stay what they are."""

import hmac
import itertools

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import ConfigError, SealError
from semcast.ids import ID_MAX, Source
from semcast.wire.header import AES_256_GCM, CHACHA20_POLY1305, KEY_ID_MAX
from semcast.wire.keys import (
    KEYS_MAX,
    SECRET_BYTES_MAX,
    UNSEALED,
    KeyInfo,
    Keyring,
    Secret,
    group_id,
    require_keys,
)
from semcast.wire.opener import Opener
from semcast.wire.seal import Sealer

OLD, NEW = b"old secret, 32 bytes of anything", b"new secret, 32 bytes of anything"
GROUP, FRAMES = 99, b"frames"
SECRETS = st.binary(min_size=16, max_size=64)


@pytest.mark.parametrize("size", [0, 1, 15, SECRET_BYTES_MAX + 1])
def test_a_secret_of_the_wrong_size_is_refused_and_says_how_to_make_one(size: int) -> None:
    with pytest.raises(ConfigError, match=f"{size} bytes.*semcast keys new"):
        Secret(b"x" * size)
    with pytest.raises(ConfigError, match="semcast keys new"):
        Keyring(b"x" * size)


@given(material=SECRETS, info=st.binary(max_size=40))
def test_keys_are_derived_by_hkdf_sha256_as_documented(material: bytes, info: bytes) -> None:
    hkdf = HKDF(algorithm=SHA256(), length=32, salt=b"semcast datagram\x01", info=info)
    assert Secret(material).derive(info) == hkdf.derive(material)


@given(one=SECRETS, other=SECRETS)
def test_fingerprints_tell_secrets_apart(one: bytes, other: bytes) -> None:
    assert (Secret(one).fingerprint == Secret(other).fingerprint) == (one == other)
    assert (Secret(one) == Secret(other)) == (one == other)
    assert hash(Secret(one)) == hash(Secret(bytes(one)))


@given(material=SECRETS)
def test_nothing_that_can_be_printed_shows_the_secret(material: bytes) -> None:
    secret, ring = Secret(material), Keyring(material)
    prk = hmac.digest(b"semcast datagram\x01", material, "sha256")
    shown = [repr(secret), str(secret), repr(ring), str(ring), repr(ring.list())]
    with pytest.raises(ConfigError) as refused:
        ring.install(1, material + b"!")
    for text in [*shown, str(refused.value)]:
        for hidden in (material, prk):
            assert hidden.hex() not in text
            assert repr(hidden)[2:-1] not in text


def test_the_fingerprint_is_no_part_of_a_key_of_a_source() -> None:
    secret = Secret(OLD)
    assert len(secret.fingerprint) == 16
    # Infos of sources have 27 bytes, the fingerprint's has 11: they never coincide.
    assert bytes.fromhex(secret.fingerprint) != secret.derive(b"fingerprint" + bytes(16))[:8]


def test_install_use_remove_list() -> None:
    ring = Keyring(OLD)
    assert ring.list() == (KeyInfo(1, Secret(OLD).fingerprint, True),)
    assert ring.install(2, NEW)
    assert ring.in_use == 1
    ring.use(2)
    assert ring.list() == (
        KeyInfo(1, Secret(OLD).fingerprint, False),
        KeyInfo(2, Secret(NEW).fingerprint, True),
    )
    assert ring.remove(1)
    assert 1 not in ring
    assert 2 in ring
    assert ring.list() == (KeyInfo(2, Secret(NEW).fingerprint, True),)


def test_commands_may_be_repeated() -> None:
    ring = Keyring(Secret(OLD))
    ring.install(2, NEW)
    ring.use(2)
    version = ring.version
    assert not ring.install(2, Secret(NEW))
    ring.use(2)
    assert not ring.remove(3)
    assert ring.version == version


def test_every_change_shows_in_the_version() -> None:
    ring = Keyring(OLD)
    versions = [ring.version]
    for change in (lambda: ring.install(2, NEW), lambda: ring.use(2), lambda: ring.remove(1)):
        change()
        versions.append(ring.version)
    assert all(earlier < later for earlier, later in itertools.pairwise(versions))


def test_an_id_is_not_given_to_a_second_secret() -> None:
    ring = Keyring(OLD)
    with pytest.raises(ConfigError, match="key 1 is installed with another secret"):
        ring.install(1, NEW)
    assert ring.list() == Keyring(OLD).list()


def test_the_key_in_use_cannot_be_removed() -> None:
    ring = Keyring(OLD, 7)
    with pytest.raises(ConfigError, match="key 7 is in use"):
        ring.remove(7)
    assert 7 in ring


def test_a_key_that_is_not_installed_cannot_be_used() -> None:
    ring = Keyring(OLD, 7)
    with pytest.raises(ConfigError, match=r"key 8 is not installed; installed: \[7\]"):
        ring.use(8)
    assert ring.in_use == 7


@pytest.mark.parametrize("key_id", [-1, 0, KEY_ID_MAX + 1])
def test_a_key_id_out_of_range_is_refused(key_id: int) -> None:
    with pytest.raises(ConfigError, match=f"key id {key_id};"):
        Keyring(OLD, key_id)
    with pytest.raises(ConfigError, match=f"key id {key_id};"):
        Keyring(OLD).install(key_id, NEW)


def test_a_keyring_is_bounded() -> None:
    ring = Keyring(OLD)
    for key_id in range(2, KEYS_MAX + 1):
        ring.install(key_id, NEW)
    with pytest.raises(ConfigError, match=f"{KEYS_MAX} keys are installed"):
        ring.install(KEYS_MAX + 1, NEW)
    assert len(ring.list()) == KEYS_MAX


@pytest.mark.parametrize("keys", [None, b"a secret that is not in a keyring", False])
def test_running_unsealed_is_a_choice_never_a_default(keys: object) -> None:
    with pytest.raises(ConfigError, match="pass UNSEALED"):
        require_keys(keys)


def test_a_keyring_and_unsealed_are_keys() -> None:
    ring = Keyring(OLD)
    assert require_keys(ring) is ring
    assert require_keys(UNSEALED) is UNSEALED
    assert repr(UNSEALED) == "UNSEALED"


# Rotation


class Node:
    """A member as far as sealing goes."""

    def __init__(self, sender: int, suite: int) -> None:
        self.keys = Keyring(OLD)
        self.sealer = Sealer(GROUP, Source(sender, 1), self.keys, suite)
        self.opener = Opener(GROUP, self.keys)


def everybody_talks(nodes: list[Node], in_flight: list[bytes]) -> list[bytes]:
    """All get what was sent before the last step and what is sent after it; none may refuse."""
    sent = [node.sealer.seal(FRAMES) for node in nodes]
    for node in nodes:
        for datagram in [*sent, *in_flight]:
            assert node.opener.open(datagram).frames == FRAMES
    return [node.sealer.seal(FRAMES) for node in nodes]


@pytest.mark.parametrize("suite", [AES_256_GCM, CHACHA20_POLY1305])
@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
def test_rotation_refuses_no_datagram_whatever_the_order_of_members(
    suite: int, order: tuple[int, ...]
) -> None:
    nodes = [Node(sender, suite) for sender in range(3)]
    in_flight = everybody_talks(nodes, [])
    for at in order:
        nodes[at].keys.install(2, NEW)
        in_flight = everybody_talks(nodes, in_flight)
    for at in reversed(order):
        nodes[at].keys.use(2)
        in_flight = everybody_talks(nodes, in_flight)
    # Before removing, what was sealed under the old key must have arrived.
    in_flight = everybody_talks(nodes, in_flight)
    for at in order:
        nodes[at].keys.remove(1)
        in_flight = everybody_talks(nodes, in_flight)
    assert [sum(node.opener.refused.values()) for node in nodes] == [0, 0, 0]
    assert [node.keys.in_use for node in nodes] == [2, 2, 2]


def test_after_removal_recordings_under_the_old_key_no_longer_open() -> None:
    node = Node(1, AES_256_GCM)
    heard, recorded = node.sealer.seal(FRAMES), node.sealer.seal(FRAMES)
    node.opener.open(heard)
    node.keys.install(2, NEW)
    node.keys.use(2)
    node.keys.remove(1)
    with pytest.raises(SealError, match="not installed"):
        node.opener.open(recorded)


def test_an_id_that_is_reused_for_another_secret_uses_no_stale_key() -> None:
    node, elsewhere = Node(1, AES_256_GCM), Opener(GROUP, Keyring(NEW))
    heard, recorded = node.sealer.seal(FRAMES), node.sealer.seal(FRAMES)
    node.opener.open(heard)
    node.keys.install(2, OLD)
    node.keys.use(2)
    node.keys.remove(1)
    node.keys.install(1, NEW)
    node.keys.use(1)
    with pytest.raises(SealError, match="does not open with key 1"):
        node.opener.open(recorded)
    assert elsewhere.open(node.sealer.seal(FRAMES)).header.packet == 3


# Names of groups


def test_group_ids_never_change() -> None:
    # sha256(b"semcast group\0" + name), the first 8 bytes little-endian, without the top 2 bits.
    assert group_id("quotes") == 0x25B7CB05D935196A
    assert group_id("Börse") == 0x1BFA3F7C209AA7D1


@given(name=st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=63))
def test_any_printable_name_gives_an_id_in_range(name: str) -> None:
    assert 0 <= group_id(name) <= ID_MAX
    assert group_id(name) != group_id(name + "'")


@pytest.mark.parametrize("name", ["a\n", "\x00", "a\tb", "\x1b[31m", "\x7f", "\x9f"])
def test_a_name_with_control_characters_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="control character"):
        group_id(name)


@pytest.mark.parametrize(("name", "size"), [("", 0), ("x" * 256, 256), ("é" * 128, 256)])
def test_a_name_of_the_wrong_length_is_refused(name: str, size: int) -> None:
    with pytest.raises(ConfigError, match=f"{size} bytes"):
        group_id(name)
    assert group_id("x" * 255) >= 0


def test_a_name_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(ConfigError, match="surrogate"):
        group_id("\ud800")
