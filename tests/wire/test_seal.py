"""Sealing: the format, and that only authentic, fresh datagrams of this group ever open."""

import struct
import zlib
from pathlib import Path

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import (
    ConfigError,
    LocalProtocolError,
    RemoteProtocolError,
    ReplayError,
    SealError,
)
from semcast.ids import ID_MAX, Source
from semcast.wire import seal
from semcast.wire.header import (
    AES_256_GCM,
    CHACHA20_POLY1305,
    DATAGRAM_BYTES_MAX,
    HEADER_BYTES,
    PACKET_MAX,
    PLAIN,
    trailer_bytes,
)
from semcast.wire.keys import UNSEALED, Keyring, Unsealed
from semcast.wire.opener import REFUSALS, Opener
from semcast.wire.seal import KEY_BLOCKS_MAX, Sealer

GROUP, SOURCE = 0x0123_4567_89AB_CDEF, Source(0x1A2B_3C4D_5E6F, 0x77)
SECRET, OTHER_SECRET = bytes(range(32)), bytes(range(1, 33))
FRAMES = b"frames of one datagram"
SUITES = [AES_256_GCM, CHACHA20_POLY1305]
ALL_SUITES = [PLAIN, *SUITES]
GOLDEN = Path(__file__).parent / "golden"


def keys_for(suite: int) -> Keyring | Unsealed:
    return UNSEALED if suite == PLAIN else Keyring(SECRET)


def sealer_for(suite: int, source: Source = SOURCE, group: int = GROUP) -> Sealer:
    keys = keys_for(suite)
    return Sealer(group, source, keys) if suite == PLAIN else Sealer(group, source, keys, suite)


def reference(suite: int, packet: int, frames: bytes) -> bytes:
    """A datagram of SOURCE built from the description, by nothing of semcast."""
    key_id = 0 if suite == PLAIN else 1
    about = struct.pack("<BHQQQ", suite, key_id, GROUP, SOURCE.sender, SOURCE.incarnation)
    header = b"\x01" + about + struct.pack("<Q", packet)
    if suite == PLAIN:
        body = header + frames
        check = struct.pack("<I", zlib.crc32(body))
        if len(body) > 2048:
            check = AESGCM(bytes(32)).encrypt(bytes(12), b"", body)[:4]
        return body + check
    hkdf = HKDF(algorithm=SHA256(), length=32, salt=b"semcast datagram\x01", info=about)
    key, nonce = hkdf.derive(SECRET), struct.pack("<IQ", 0, packet)
    cipher = AESGCM(key) if suite == AES_256_GCM else ChaCha20Poly1305(key)
    return header + cipher.encrypt(nonce, frames, header)


# The format


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        (PLAIN, "datagram_plain"),
        (AES_256_GCM, "datagram_aes_256_gcm"),
        (CHACHA20_POLY1305, "datagram_chacha20_poly1305"),
    ],
)
def test_the_format_is_the_golden_one(suite: int, name: str) -> None:
    """The files hold `reference(suite, 3, FRAMES).hex()`, in lines of 64 digits.

    Never make them again for version 1: members of two releases talk to each other.
    """
    golden = bytes.fromhex((GOLDEN / f"{name}.hex").read_text())
    assert reference(suite, 3, FRAMES) == golden
    sealer = sealer_for(suite)
    assert [sealer.seal(b"one"), sealer.seal(b"two"), sealer.seal(FRAMES)][2] == golden
    opened = Opener(GROUP, keys_for(suite)).open(golden)
    assert (opened.frames, opened.header.packet) == (FRAMES, 3)
    assert (opened.header.suite, opened.header.source) == (suite, SOURCE)


@given(suite=st.sampled_from(ALL_SUITES), batches=st.lists(st.binary(max_size=200), max_size=8))
def test_what_is_sealed_opens_to_itself_with_growing_numbers(
    suite: int, batches: list[bytes]
) -> None:
    sealer, opener = sealer_for(suite), Opener(GROUP, keys_for(suite))
    for number, frames in enumerate(batches, 1):
        datagram = sealer.seal(frames)
        assert datagram == reference(suite, number, frames)
        opened = opener.open(datagram)
        assert (opened.header.packet, opened.frames) == (number, frames)
    assert opener.opened == sealer.packet == len(batches)
    assert not any(opener.refused.values())


@pytest.mark.parametrize("suite", ALL_SUITES)
@pytest.mark.parametrize("more", [-1, 0, 1, 60_000])
def test_every_size_has_the_check_that_it_should_have(suite: int, more: int) -> None:
    """Plain datagrams have another one from 2,049 bytes on."""
    frames = bytes(2048 - HEADER_BYTES + more)
    datagram = sealer_for(suite).seal(frames)
    assert datagram == reference(suite, 1, frames)
    for at in (HEADER_BYTES, len(datagram) - 1):
        altered = bytearray(datagram)
        altered[at] ^= 1
        with pytest.raises(SealError):
            Opener(GROUP, keys_for(suite)).open(bytes(altered))


@pytest.mark.parametrize("suite", SUITES)
def test_frames_are_not_readable_on_the_wire(suite: int) -> None:
    assert FRAMES not in sealer_for(suite).seal(FRAMES)
    assert FRAMES in sealer_for(PLAIN).seal(FRAMES)


@pytest.mark.parametrize("suite", ALL_SUITES)
def test_the_largest_datagram_passes_and_a_larger_one_is_refused(suite: int) -> None:
    sealer, opener = sealer_for(suite), Opener(GROUP, keys_for(suite))
    most = sealer.frames_bytes_max
    with pytest.raises(LocalProtocolError, match=f"{most + 1} bytes .* most is {most}"):
        sealer.seal(bytes(most + 1))
    datagram = sealer.seal(bytes(most))
    assert len(datagram) == DATAGRAM_BYTES_MAX
    assert opener.open(datagram).header.packet == 1  # The refused call spent no number.
    with pytest.raises(RemoteProtocolError, match=f"{DATAGRAM_BYTES_MAX + 1} bytes"):
        opener.open(datagram + b"\0")


# INV-NONCE


@given(one=st.tuples(*[st.integers(0, ID_MAX)] * 3), other=st.tuples(*[st.integers(0, ID_MAX)] * 3))
def test_every_group_sender_and_incarnation_seals_with_a_key_of_its_own(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    """With one key and one nonce, AES-GCM would give equal ciphertexts; headers aside."""
    bodies = [
        Sealer(group, Source(sender, incarnation), Keyring(SECRET)).seal(FRAMES)[HEADER_BYTES:-16]
        for group, sender, incarnation in (one, other)
    ]
    assert (bodies[0] == bodies[1]) == (one == other)


def test_a_restart_with_a_larger_incarnation_has_another_key() -> None:
    bodies = {
        Sealer(GROUP, Source(1, incarnation), Keyring(SECRET)).seal(FRAMES)[HEADER_BYTES:-16]
        for incarnation in range(50)
    }
    assert len(bodies) == 50


def test_key_id_and_suite_change_the_key_too() -> None:
    def body(key_id: int, suite: int) -> bytes:
        keys = Keyring(SECRET, key_id)
        return Sealer(GROUP, SOURCE, keys, suite).seal(FRAMES)[HEADER_BYTES:-16]

    assert len({body(key_id, suite) for key_id in (1, 2) for suite in SUITES}) == 4


@pytest.mark.parametrize("suite", ALL_SUITES)
def test_a_sealer_never_goes_past_its_packet_limit(suite: int) -> None:
    sealer = Sealer(GROUP, SOURCE, keys_for(suite), suite or AES_256_GCM, packets_max=3)
    assert len({sealer.seal(FRAMES) for _ in range(3)}) == 3
    for _ in range(2):
        with pytest.raises(LocalProtocolError, match="sealed 3 packets"):
            sealer.seal(FRAMES)
    assert sealer.packet == 3


def test_a_key_seals_so_many_blocks_and_rotating_it_makes_room() -> None:
    keys = Keyring(SECRET)
    # 22 bytes are two blocks, and one is for the tag.
    sealer = Sealer(GROUP, SOURCE, keys, key_blocks_max=7)
    sealer.seal(FRAMES)
    sealer.seal(FRAMES)
    keys.install(2, OTHER_SECRET)  # Installing is not using: nothing is counted anew.
    with pytest.raises(LocalProtocolError, match=r"key 1 has sealed 6 blocks .* rotate"):
        sealer.seal(FRAMES)
    keys.use(2)
    assert Opener(GROUP, keys).open(sealer.seal(FRAMES)).header.packet == 3


def test_changing_keys_back_and_forth_repeats_no_packet_number() -> None:
    keys = Keyring(SECRET)
    keys.install(2, OTHER_SECRET)
    sealer, opener = Sealer(GROUP, SOURCE, keys), Opener(GROUP, keys)
    seen = []
    for key_id in (1, 2, 1, 2, 1):
        keys.use(key_id)
        seen.append(opener.open(sealer.seal(FRAMES)).header)
    assert [header.key_id for header in seen] == [1, 2, 1, 2, 1]
    assert [header.packet for header in seen] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("limit", [0, -1, PACKET_MAX + 1])
def test_a_limit_out_of_range_is_refused(limit: int) -> None:
    with pytest.raises(ConfigError, match=f"packets_max is {limit}"):
        Sealer(GROUP, SOURCE, UNSEALED, packets_max=limit)
    with pytest.raises(ConfigError, match="key_blocks_max"):
        Sealer(GROUP, SOURCE, UNSEALED, key_blocks_max=KEY_BLOCKS_MAX + 1)


# What does not open


@pytest.mark.parametrize("suite", ALL_SUITES)
def test_a_flip_of_any_bit_is_refused_and_leaves_no_trace(suite: int) -> None:
    sealer, opener = sealer_for(suite), Opener(GROUP, keys_for(suite))
    opener.open(sealer.seal(FRAMES))
    datagram = sealer.seal(FRAMES)
    for bit in range(len(datagram) * 8):
        altered = bytearray(datagram)
        altered[bit // 8] ^= 1 << bit % 8
        with pytest.raises((SealError, ReplayError, RemoteProtocolError)):
            opener.open(bytes(altered))
    assert sum(opener.refused.values()) == len(datagram) * 8
    assert opener.open(datagram).frames == FRAMES
    assert len(opener._guard) == 1


@pytest.mark.parametrize("suite", ALL_SUITES)
def test_a_datagram_cut_short_at_any_length_is_refused(suite: int) -> None:
    opener, datagram = Opener(GROUP, keys_for(suite)), sealer_for(suite).seal(FRAMES)
    for size in range(len(datagram)):
        with pytest.raises(RemoteProtocolError):
            opener.open(datagram[:size])
    assert opener.refused["length"] == HEADER_BYTES + trailer_bytes(suite)
    assert sum(opener.refused.values()) == len(datagram)
    assert opener.open(datagram).frames == FRAMES


@given(
    suite=st.sampled_from(ALL_SUITES),
    group_suite=st.sampled_from(ALL_SUITES),
    keep=st.integers(0, HEADER_BYTES),
    noise=st.binary(max_size=120),
)
def test_arbitrary_bytes_raise_the_three_errors_and_nothing_else(
    suite: int, group_suite: int, keep: int, noise: bytes
) -> None:
    """From pure noise to noise behind an authentic header, in every kind of group."""
    opener = Opener(GROUP, keys_for(group_suite))
    datagram = sealer_for(suite).seal(FRAMES)[:keep] + noise
    with pytest.raises((SealError, ReplayError, RemoteProtocolError)):
        opener.open(datagram)
    assert sum(opener.refused.values()) == 1
    assert set(opener.refused) == set(REFUSALS)
    assert (opener.opened, len(opener._guard), len(opener._known)) == (0, 0, 0)


@given(
    suite=st.sampled_from(ALL_SUITES),
    keep=st.integers(0, HEADER_BYTES + len(FRAMES)),
    noise=st.binary(max_size=120),
)
def test_arbitrary_bytes_that_begin_like_a_sender_who_is_known_fare_no_better(
    suite: int, keep: int, noise: bytes
) -> None:
    sealer, opener = sealer_for(suite), Opener(GROUP, keys_for(suite))
    opener.open(sealer.seal(FRAMES))
    with pytest.raises((SealError, ReplayError, RemoteProtocolError)):
        opener.open(sealer.seal(FRAMES)[:keep] + noise)
    assert sum(opener.refused.values()) == 1
    assert (opener.opened, len(opener._guard), len(opener._known)) == (1, 1, 1)
    assert opener.open(sealer.seal(FRAMES)).frames == FRAMES


@pytest.mark.parametrize("suite", SUITES)
def test_another_secret_does_not_open(suite: int) -> None:
    opener = Opener(GROUP, Keyring(OTHER_SECRET))
    with pytest.raises(SealError, match="compare fingerprints"):
        opener.open(sealer_for(suite).seal(FRAMES))
    assert opener.refused["tag"] == 1


@pytest.mark.parametrize("suite", ALL_SUITES)
def test_another_group_is_refused_even_with_the_same_secret(suite: int) -> None:
    opener = Opener(GROUP + 1, keys_for(suite))
    with pytest.raises(RemoteProtocolError, match="group 123456789abcdef reached"):
        opener.open(sealer_for(suite).seal(FRAMES))
    assert opener.refused["group"] == 1
    # Nor does a header that claims the right group help: the key is another.
    datagram = bytearray(sealer_for(suite).seal(FRAMES))
    datagram[4:12] = (GROUP + 1).to_bytes(8, "little")
    with pytest.raises(SealError):
        opener.open(bytes(datagram))
    assert opener.refused["tag"] == 1


def test_a_key_that_is_not_installed_is_refused_by_its_id() -> None:
    opener = Opener(GROUP, Keyring(SECRET, 2))
    with pytest.raises(SealError, match="under key 1, which is not installed"):
        opener.open(sealer_for(AES_256_GCM).seal(FRAMES))
    assert opener.refused["key"] == 1


@pytest.mark.parametrize("suite", SUITES)
def test_neither_a_sealed_nor_an_unsealed_group_takes_the_other_kind(suite: int) -> None:
    sealed, unsealed = Opener(GROUP, Keyring(SECRET)), Opener(GROUP, UNSEALED)
    with pytest.raises(SealError, match=r"plain datagram .* in a sealed group"):
        sealed.open(sealer_for(PLAIN).seal(FRAMES))
    with pytest.raises(SealError, match=r"sealed datagram .* in an unsealed group"):
        unsealed.open(sealer_for(suite).seal(FRAMES))
    assert sealed.refused["suite"] == unsealed.refused["suite"] == 1


def test_members_may_use_different_suites_under_one_secret() -> None:
    opener = Opener(GROUP, Keyring(SECRET))
    for sender, suite in enumerate(SUITES):
        opened = opener.open(sealer_for(suite, Source(sender, 1)).seal(FRAMES))
        assert (opened.header.suite, opened.frames) == (suite, FRAMES)


def test_another_version_is_counted_as_such() -> None:
    opener, datagram = Opener(GROUP, UNSEALED), sealer_for(PLAIN).seal(FRAMES)
    with pytest.raises(RemoteProtocolError, match="version 2"):
        opener.open(b"\x02" + datagram[1:])
    with pytest.raises(RemoteProtocolError, match="suite 9"):
        opener.open(b"\x01\x09" + datagram[2:])
    assert (opener.refused["version"], opener.refused["malformed"]) == (1, 1)


def test_a_cipher_that_openssl_lacks_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    datagram = sealer_for(CHACHA20_POLY1305).seal(FRAMES)

    def unsupported(_key: bytes) -> None:
        raise UnsupportedAlgorithm("no such cipher")

    monkeypatch.setitem(seal.__dict__["_CIPHERS"], CHACHA20_POLY1305, unsupported)
    with pytest.raises(SealError):
        Opener(GROUP, Keyring(SECRET)).open(datagram)
    with pytest.raises(ConfigError, match="use the other suite"):
        sealer_for(CHACHA20_POLY1305)


# Replays


@pytest.mark.parametrize("suite", ALL_SUITES)
def test_no_datagram_opens_twice(suite: int) -> None:
    sealer, opener = sealer_for(suite), Opener(GROUP, keys_for(suite))
    datagrams = [sealer.seal(FRAMES) for _ in range(5)]
    for datagram in datagrams:
        opener.open(datagram)
    for datagram in datagrams:
        with pytest.raises(ReplayError, match="seen before"):
            opener.open(datagram)
    assert (opener.opened, opener.refused["seen"]) == (5, 5)


@given(order=st.permutations(range(16)))
def test_any_reordering_inside_the_window_opens(order: list[int]) -> None:
    sealer, opener = sealer_for(AES_256_GCM), Opener(GROUP, Keyring(SECRET), window_size=16)
    datagrams = [sealer.seal(bytes([number])) for number in range(16)]
    assert [opener.open(datagrams[number]).frames[0] for number in order] == order


def test_a_datagram_older_than_the_window_is_refused() -> None:
    sealer, opener = sealer_for(AES_256_GCM), Opener(GROUP, Keyring(SECRET), window_size=16)
    datagrams = [sealer.seal(FRAMES) for _ in range(17)]
    opener.open(datagrams[16])
    with pytest.raises(ReplayError, match="too old"):
        opener.open(datagrams[0])
    assert opener.open(datagrams[1]).header.packet == 2
    assert opener.refused["too_old"] == 1


def test_an_older_incarnation_is_refused_after_the_newer_one_was_heard() -> None:
    old, new = (sealer_for(AES_256_GCM, Source(1, incarnation)) for incarnation in (1, 2))
    opener = Opener(GROUP, Keyring(SECRET))
    opener.open(old.seal(FRAMES))
    opener.open(new.seal(FRAMES))
    with pytest.raises(ReplayError, match="incarnation 2"):
        opener.open(old.seal(FRAMES))
    assert opener.refused["old_incarnation"] == 1
    assert opener.open(new.seal(FRAMES)).frames == FRAMES


@pytest.mark.parametrize("suite", ALL_SUITES)
@pytest.mark.parametrize("size", [0, 22, 5000])
def test_a_replay_is_known_to_be_genuine_or_forged_and_counted_once(suite: int, size: int) -> None:
    sealer, opener = sealer_for(suite), Opener(GROUP, keys_for(suite))
    datagram = sealer.seal(bytes(size))
    opener.open(datagram)
    former = sealer_for(suite, Source(SOURCE.sender, SOURCE.incarnation - 1)).seal(bytes(size))
    for one in (datagram, former):
        with pytest.raises(ReplayError):
            opener.open(one)
        assert opener.authentic(one)
        for at in range(HEADER_BYTES, len(one), 97):
            forged = one[:at] + bytes([one[at] ^ 1]) + one[at + 1 :]
            assert not opener.authentic(forged)
    assert (opener.refused["seen"], opener.refused["old_incarnation"]) == (1, 1)
    assert sum(opener.refused.values()) == 2
    assert opener.opened == 1


FORGED_SOURCES = st.tuples(
    st.sampled_from([SOURCE.sender, 5]), st.sampled_from([SOURCE.incarnation, 0, ID_MAX])
)


@given(
    forged=st.lists(
        st.tuples(st.sampled_from(SUITES), FORGED_SOURCES, st.integers(1, PACKET_MAX)), max_size=10
    )
)
def test_forgeries_move_no_window_and_push_nothing_out_of_the_cache(
    forged: list[tuple[int, tuple[int, int], int]],
) -> None:
    """A life that is known may begin with either suite; forgeries of it cost one key for each."""
    sealer, opener = sealer_for(AES_256_GCM), Opener(GROUP, Keyring(SECRET))
    early, late = sealer.seal(b"early"), sealer.seal(b"late")
    opener.open(late)
    known = dict(opener._known)
    for suite, (sender, incarnation), packet in forged:
        about = struct.pack("<BBHQQQQ", 1, suite, 1, GROUP, sender, incarnation, packet)
        with pytest.raises((SealError, ReplayError)):
            opener.open(about + late[HEADER_BYTES:])
    assert known.items() <= opener._known.items()
    assert len(opener._known) <= len(SUITES)
    assert len(opener._guard) == 1
    assert opener.open(early).frames == b"early"
    assert opener.open(sealer.seal(b"next")).frames == b"next"


# Bounds


def test_caches_are_bounded_by_senders_keys_and_suites_not_by_restarts() -> None:
    keys, other_keys = Keyring(SECRET), Keyring(OTHER_SECRET, 2)
    keys.install(2, OTHER_SECRET)
    opener = Opener(GROUP, keys, sources_max=3)
    for incarnation in range(5):
        for sender in range(3):
            source = Source(sender, incarnation)
            for own_keys, suite in ((keys, AES_256_GCM), (other_keys, CHACHA20_POLY1305)):
                sealer = Sealer(GROUP, source, own_keys, suite)
                for _ in range(suite):
                    datagram = sealer.seal(FRAMES)  # The second suite goes on where one ended.
                opener.open(datagram)
    assert (len(opener._known), len(opener._prefixes), len(opener._guard)) == (2 * 3, 3, 3)
    keys.remove(2)
    opener.open(Sealer(GROUP, Source(0, 9), keys).seal(FRAMES))
    assert (len(opener._known), len(opener._prefixes), len(opener._guard)) == (1, 1, 3)


def test_senders_beyond_the_bound_are_refused_and_the_others_go_on() -> None:
    opener = Opener(GROUP, Keyring(SECRET), sources_max=2)
    known = [sealer_for(AES_256_GCM, Source(sender, 1)) for sender in (1, 2)]
    for sealer in known:
        opener.open(sealer.seal(FRAMES))
    with pytest.raises(ReplayError, match="raise sources_max"):
        opener.open(sealer_for(AES_256_GCM, Source(3, 1)).seal(FRAMES))
    assert opener.refused["no_room"] == 1
    assert all(opener.open(sealer.seal(FRAMES)).frames == FRAMES for sealer in known)


# Callers' mistakes


def test_no_keys_at_all_is_an_error_that_names_the_choice() -> None:
    none: Keyring = None  # type: ignore[assignment]
    with pytest.raises(ConfigError, match=r"keys is None.*UNSEALED"):
        Sealer(GROUP, SOURCE, none)
    with pytest.raises(ConfigError, match=r"keys is None.*UNSEALED"):
        Opener(GROUP, none)


@pytest.mark.parametrize("suite", [PLAIN, 3, -1])
def test_a_suite_that_does_not_seal_is_refused_for_a_keyring(suite: int) -> None:
    with pytest.raises(ConfigError, match=f"suite {suite} does not seal.*UNSEALED"):
        Sealer(GROUP, SOURCE, Keyring(SECRET), suite)


@pytest.mark.parametrize("group", [-1, ID_MAX + 1])
def test_ids_out_of_range_are_refused_before_anything_is_sent(group: int) -> None:
    with pytest.raises(ConfigError, match="group id"):
        Sealer(group, SOURCE, UNSEALED)
    with pytest.raises(ConfigError, match="group id"):
        Opener(group, UNSEALED)
    with pytest.raises(ConfigError, match="sender id"):
        Sealer(GROUP, Source(group, 1), UNSEALED)
    with pytest.raises(ConfigError, match="incarnation"):
        Sealer(GROUP, Source(1, group), UNSEALED)
