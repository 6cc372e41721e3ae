"""The rules of accounts, ids in base64, and recovery codes."""

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.domain import recovery
from deckhand.domain.account import (
    SESSION_IDLE_S,
    SESSION_LIFE_S,
    Account,
    Credential,
    OpenSession,
    counter_rises,
    session_expiry,
    shown_credential,
)
from deckhand.domain.base64url import from_base64, to_base64url
from deckhand.edge.identity import network

PHONE = Credential(id="phone", public_key="k", counter=0, created_at=0)
ANN = Account(id="ann", name="Ann", role="owner", created_at=0, credentials=(PHONE,))


def sessions(*credentials: str | None) -> tuple[OpenSession, ...]:
    return tuple(OpenSession(hash=f"s{n}", credential=one, created_at=n) for n, one in enumerate(credentials))


def test_a_credential_takes_its_sessions_with_it_and_no_others() -> None:
    account = ANN.model_copy(update={"sessions": sessions("phone", None, "key", "phone")})
    assert [one.hash for one in account.removing("phone").sessions] == ["s1", "s2"]


@pytest.mark.parametrize(
    ("role", "disabled", "kept"), [("owner", False, 1), ("editor", False, 0), ("owner", True, 0), ("viewer", True, 0)]
)
def test_sessions_outlive_a_change_only_while_what_they_may_do_stays(role: str, disabled: bool, kept: int) -> None:
    account = ANN.model_copy(update={"sessions": sessions("phone")})
    assert len(account.becoming(role=role, disabled=disabled).sessions) == kept  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("account", "rules"),
    [
        (ANN, True),
        (ANN.removing("phone"), False),
        (ANN.becoming(role="editor", disabled=False), False),
        (ANN.becoming(role="owner", disabled=True), False),
    ],
)
def test_an_owner_counts_who_can_come_in(account: Account, *, rules: bool) -> None:
    assert account.rules is rules


def test_what_is_shown_of_a_passkey_is_not_its_key() -> None:
    assert "public_key" not in shown_credential(PHONE)
    assert "k" not in shown_credential(PHONE).values()


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_case_66_a_counter_passes_when_it_rises_or_was_never_used(stored: int, new: int) -> None:
    assert counter_rises(stored, new) == (new > stored or (stored, new) == (0, 0))


@given(st.integers(0, 10**10), st.integers(0, SESSION_LIFE_S))
def test_a_session_never_outlives_thirty_days_nor_seven_idle_ones(created: int, used_after: int) -> None:
    expiry = session_expiry(created_at=created, used_at=created + used_after)
    assert expiry - created <= SESSION_LIFE_S
    assert expiry - (created + used_after) <= SESSION_IDLE_S


@given(st.binary(max_size=70))
def test_case_68_all_forms_of_base64_give_the_same_bytes(data: bytes) -> None:
    plain = to_base64url(data)
    padded = plain + "=" * (-len(plain) % 4)
    standard = padded.replace("-", "+").replace("_", "/")
    assert {from_base64(form) for form in (plain, padded, standard, standard.rstrip("="))} == {data}


@pytest.mark.parametrize("text", ["%%%", "a", "é", "a b", "AAAA=AAAA", "\ud800", "AAA\n"])
def test_what_is_no_base64_is_none(text: str) -> None:
    assert from_base64(text) is None


def test_a_recovery_code_is_read_however_it_is_written() -> None:
    code = recovery.new_code(os.urandom)
    assert re.fullmatch(r"([A-Z2-7]{4}-){5}[A-Z2-7]{4}", code.text)
    for written in (code.text, code.text.lower(), code.text.replace("-", ""), f"  {code.text.replace('-', ' ')}\n"):
        assert recovery.read_code(written) == code


def test_what_looks_alike_in_a_recovery_code_is_taken_for_it() -> None:
    assert recovery.read_code("01" * 12) == recovery.read_code("OI" * 12)


@pytest.mark.parametrize("text", ["", "A" * 23, "A" * 25, "9" * 24, "ß" * 24, "Ａ" * 24])
def test_what_is_no_recovery_code_is_none(text: str) -> None:
    assert recovery.read_code(text) is None


def test_only_its_own_code_proves_what_is_stored() -> None:
    code, other = recovery.new_code(os.urandom), recovery.new_code(os.urandom)
    kept = recovery.stored(code, "ann", os.urandom)
    assert recovery.proves(code, kept)
    assert not recovery.proves(other, kept)
    assert not recovery.proves(code, recovery.NOBODYS)
    assert code.proof not in kept.to_json()


@pytest.mark.parametrize(
    ("address", "stands_for"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8:0:1:2:3:4:5", "2001:db8:0:1::/64"),
        ("", ""),
        ("unix:", "unix:"),
    ],
)
def test_an_address_stands_for_a_household(address: str, stands_for: str) -> None:
    assert network(address) == stands_for
