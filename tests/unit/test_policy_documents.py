"""An owner's document: checked before it is stored, with the place of every fault."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deckhand.operations.catalog  # noqa: F401 - all operations are declared
from deckhand.domain.access import Access
from deckhand.domain.principal import Principal
from deckhand.operations.policy import policy_schema
from deckhand.policy.check import MAX_NESTING, MAX_POLICIES, check
from deckhand.policy.engine import FRESH_S, Engine
from deckhand.policy.rules import Rules, keeps_policy, shipped
from tests.policies import document, engine

SCHEMA = policy_schema()
ANY = "permit (principal, action, resource)"
OWNER = Principal("user", "ann", "ann", "owner")
TOKEN = Principal("token", "t1", "ann", "owner")
EDITOR = Principal("user", "bob", "bob", "editor")
BROKEN = "permit (principal, action"
FAILING = f"{ANY} when {{ 9223372036854775807 + 1 == 2 }};"


def append(principal: Principal) -> Access:
    return Access(principal, "append_row", "api", mutates=True, destructive=False, card="mood")


def read_policy(principal: Principal) -> Access:
    return Access(principal, "read_policy", "api", mutates=False, destructive=False)


# -- faults with their places


def test_what_ships_fits_the_schema() -> None:
    assert check(shipped().replace('@id("', '@id("my-'), SCHEMA) == []


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        (f"{ANY} when {{ 1 + }};", "}", "unexpected token"),
        (f"{ANY}\nunles {{ true }};", "unles", "invalid policy condition"),
        ("permit (principal,\n  actn, resource);", "actn", "invalid variable"),
        (ANY, "", "unexpected end of input"),
        (f"{ANY} when {{}};", "when", "cannot be empty"),
        (f'// a comment; with a semicolon\n{ANY} when {{ context.chanel == "api" }};', "chanel", "not found"),
        ('forbid (principal, action == Action::"fly", resource);', 'Action::"fly"', "unrecognized action"),
        ('forbid (principal in Role::"owners", action, resource);', 'Role::"owners"', "not declared"),
        ('forbid (principal == Person::"ann", action, resource);', "Person", "unrecognized entity type"),
        (
            'forbid (principal, action == Action::"list_reports", resource == Card::"a");',
            "forbid",
            "unable to find an applicable action",
        ),
        ('@id("owner-everything") permit (principal, action, resource);', "@", "is taken"),
        ("permit (principal == ?principal, action, resource);", "permit", "templates are not used"),
        (f"{ANY} when {{ context.confirmed == 1 }};", "permit", "not compatible"),
        (f'{ANY} when {{ "open }};', "permit", "invalid token"),
    ],
)
def test_a_fault_is_told_with_its_line_and_column(text: str, at: str, message: str) -> None:
    whole = f'@id("fine")\n{ANY}; // é\n\n   {text}'
    fault = check(whole, SCHEMA)[0]
    lines = whole.split("\n")
    assert message in fault.message
    assert lines[fault.line - 1][fault.column - 1 :].startswith(at)
    assert fault.line >= 4


def test_a_fault_of_every_policy_is_told_once_in_the_order_of_the_text() -> None:
    faults = check(f"{ANY} when {{ context.a }};\n{ANY};\n{ANY} when {{ context.b }};", SCHEMA)
    assert [(fault.line, fault.column) for fault in faults] == [(1, 53), (3, 53)]


def test_two_policies_cannot_have_one_name() -> None:
    assert [fault.line for fault in check(f'@id("a") {ANY};\n@id("b") {ANY};\n@id("a") {ANY};', SCHEMA)] == [3]


@pytest.mark.parametrize(
    "text",
    [
        f"{ANY} when {{ {'(' * 30_000}true{')' * 30_000} }};",
        f"{ANY} when {{ {'[' * 30_000}{']' * 30_000} }};",
        f"{ANY} when {{ context{'.a' * 30_000} }};",
        f"{ANY} when {{ {'if true then ' * 2_000}true{' else true' * 2_000} }};",
        f"{ANY} when {{ {' && '.join(['true'] * 5_000)} }};",
    ],
    ids=["brackets", "sets", "members", "ifs", "ands"],
)
def test_what_would_end_the_process_never_reaches_the_parser(text: str) -> None:
    assert check(text, SCHEMA)[0].message.startswith(f"a policy has at most {MAX_NESTING}")


def test_a_document_has_a_bound() -> None:
    assert check(f"{ANY};" * MAX_POLICIES, SCHEMA) == []
    assert check(f"{ANY};\n" * (MAX_POLICIES + 1), SCHEMA)[0].line == MAX_POLICIES + 1


def test_a_carriage_return_ends_a_comment_for_us_as_for_the_parser() -> None:
    assert check(f"// hidden\r{ANY} when {{ context.nothing }};", SCHEMA) != []


PIECES = st.sampled_from(
    [
        "permit",
        "forbid",
        "(",
        ")",
        "principal",
        ",",
        "action",
        "resource",
        ";",
        "when",
        "{",
        "}",
        '"',
        "//",
        "\r",
        "\n",
        "@id",
    ]
)


@given(st.lists(PIECES | st.text(max_size=3), max_size=25).map(" ".join))
def test_any_text_is_either_refused_or_can_be_used(text: str) -> None:
    if not check(text, SCHEMA):
        Rules(text)


# -- lock-out


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", True),
        ("forbid (principal, action, resource);", False),
        ('forbid (principal, action == Action::"write_policy", resource);', False),
        ('forbid (principal, action in Action::"govern", resource) unless { principal is User };', True),
        ('forbid (principal == User::"ann", action, resource);', False),
        ('forbid (principal, action, resource) when { context.channel == "chat" };', True),
        (FAILING, False),
    ],
)
def test_a_document_keeps_an_owner_who_can_change_it(text: str, kept: bool) -> None:
    assert keeps_policy(Rules(text), [OWNER]) == kept


def test_one_owner_who_can_is_enough() -> None:
    assert keeps_policy(Rules("forbid (principal is User, action, resource);"), [OWNER, TOKEN])


# -- a stored document that cannot be used


@pytest.mark.parametrize("text", [BROKEN, FAILING])
def test_a_document_that_cannot_be_used_denies_all_but_an_owners_repair(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    policy = engine(text)
    with caplog.at_level(logging.ERROR):
        for principal in (OWNER, TOKEN, EDITOR):
            assert policy.decide(append(principal)).verdict == "deny"
            assert not policy.offers(append(principal))
            assert (policy.decide(read_policy(principal)).verdict == "allow") == (principal is not EDITOR)
    assert caplog.records
    assert text not in caplog.text


def test_a_repair_goes_by_the_api_only() -> None:
    chat = Access(OWNER, "read_policy", "chat", mutates=False, destructive=False)
    assert engine(BROKEN).decide(chat).verdict == "deny"


# -- a changed document


def test_a_change_is_seen_within_the_time_and_read_once_in_it() -> None:
    stored = [document("")]
    clock, reads = [0.0], []

    def find(tenant: str) -> object:
        reads.append(tenant)
        return stored[0]

    policy = Engine(find, confirm_writes="destructive", monotonic=lambda: clock[0])  # type: ignore[arg-type]
    assert policy.decide(append(EDITOR)).verdict == "allow"
    stored[0] = document("forbid (principal, action, resource);", version=2)
    assert policy.decide(append(EDITOR)).verdict == "allow"
    clock[0] = FRESH_S
    assert policy.decide(append(EDITOR)).verdict == "deny"
    assert reads == ["main", "main"]


def test_each_tenant_has_a_document_of_its_own() -> None:
    found = {"one": document("forbid (principal, action, resource);")}
    policy = Engine(found.get, confirm_writes="destructive", monotonic=lambda: 0.0)
    for tenant, verdict in (("one", "deny"), ("two", "allow")):
        assert policy.decide(append(Principal("user", "bob", "bob", "editor", tenant))).verdict == verdict


# -- shadow


def test_a_shadow_is_told_of_and_never_enforced(caplog: pytest.LogCaptureFixture) -> None:
    policy = engine("", shadow='@id("calm") forbid (principal, action == Action::"append_row", resource);')
    with caplog.at_level(logging.INFO):
        assert policy.decide(append(EDITOR)).verdict == "allow"
        assert policy.decide(read_policy(OWNER)).verdict == "allow"
    (told,) = [record for record in caplog.records if record.message == "shadow policy differs"]
    assert (told.verdict, told.shadow, told.shadowPolicies) == ("allow", "deny", ["calm"])  # type: ignore[attr-defined]
    assert (told.operation, told.principal) == ("append_row", "user:bob")  # type: ignore[attr-defined]


def test_a_shadow_that_cannot_be_used_changes_nothing() -> None:
    assert engine("", shadow=BROKEN).decide(append(EDITOR)).verdict == "allow"
