"""What ships: who may do what, through which channel, and what needs a person's yes."""

import itertools
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.domain.access import Access, Verdict
from deckhand.domain.principal import Channel, Kind, Principal, Role
from deckhand.operations.catalog import REGISTRY
from deckhand.policy.groups import GROUPS, group_of
from tests.policies import SHIPPED, engine

CHANNELS: tuple[Channel, ...] = get_args(Channel)
ASKING: tuple[Channel, ...] = ("chat", "direct", "mcp", "schedule", "bus")
ROLES: tuple[Role, ...] = get_args(Role)
INITIALS = {"owner": "O", "editor": "E", "agent": "A", "viewer": "V", "operator": "P"}


def who(role: Role, kind: Kind = "user") -> Principal:
    return Principal(kind, "ann", "ann", role)


def asked(principal: Principal, operation: str, channel: Channel = "api", **more: object) -> Access:
    known = REGISTRY.find(operation)
    mutates, destructive = (known.mutates, known.destructive) if known else (True, False)
    access = Access(principal, operation, channel, mutates=mutates, destructive=destructive)
    return replace(access, **more)  # type: ignore[arg-type]


def verdict(access: Access) -> Verdict:
    return SHIPPED.decide(access).verdict


# -- every operation

ALLOWED = {
    "read": "OEAV",
    "write": "OEA",
    "converse": "OEAV",
    "personal": "OEAV",
    "account": "OEV",
    "operate": "OP",
    "govern": "O",
}
"""Who may call the operations of a group over HTTP."""


@pytest.mark.parametrize("operation", REGISTRY.all(), ids=lambda operation: operation.name)
def test_every_operation_has_a_group_and_is_for_the_roles_of_that_group(operation: object) -> None:
    name = operation.name  # type: ignore[attr-defined]
    group = group_of(name)
    assert group is not None, f"{name} is the owners' alone until policy/groups.py names its group"
    allowed = "".join(INITIALS[role] for role in ROLES if verdict(asked(who(role), name)) == "allow")
    assert set(allowed) == set(ALLOWED[group])


def test_every_group_is_in_the_table() -> None:
    assert set(ALLOWED) == set(GROUPS)


@pytest.mark.parametrize("operation", REGISTRY.all(), ids=lambda operation: operation.name)
def test_a_group_fits_what_the_operation_does(operation: object) -> None:
    group, mutates = group_of(operation.name), operation.mutates  # type: ignore[attr-defined]
    http = operation.http  # type: ignore[attr-defined]
    assert (group == "read") <= (not mutates)
    assert (group == "write") <= mutates
    assert (group == "operate") == bool(http and http.admin)


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("role", ROLES)
def test_a_new_operation_without_a_group_is_the_owners_alone(role: Role, channel: Channel) -> None:
    assert verdict(asked(who(role), "launch_rocket", channel)) == ("allow" if role == "owner" else "deny")


# -- role x operation x channel x confirmed


def expected(role: Role, operation: str, channel: Channel, *, confirmed: bool, destructive: bool) -> Verdict:
    group = group_of(operation)
    assert group is not None
    if INITIALS[role] not in ALLOWED[group]:
        return "deny"
    if not destructive or channel == "api":
        return "allow"
    if channel == "direct":
        return "deny"
    return "allow" if confirmed else "confirm"


@pytest.mark.parametrize("confirmed", [False, True])
@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("role", ROLES)
def test_role_operation_channel_and_confirmation_decide(role: Role, channel: Channel, confirmed: bool) -> None:
    assert verdict(asked(who(role), "chat", channel, confirmed=confirmed)) == (
        "deny" if role == "operator" else "allow"
    )
    for known in REGISTRY.all():
        # Of some operations it is the single call that destroys something or not.
        for destructive in {known.destructive, known.destructive or known.destroys is not None}:
            given = {"confirmed": confirmed, "destructive": destructive}
            access = asked(who(role), known.name, channel, card="mood" if known.card else None, **given)
            assert verdict(access) == expected(role, known.name, channel, **given), known.name


def test_the_direct_service_writes_and_destroys_nothing_whatever_was_confirmed() -> None:
    service = Principal("service", "direct", "service:direct", "agent")
    assert verdict(asked(service, "append_row", "direct", card="mood")) == "allow"
    for channel, confirmed in itertools.product(CHANNELS, (False, True)):
        decision = SHIPPED.decide(asked(service, "remove_row", channel, card="mood", confirmed=confirmed))
        assert decision.verdict == "deny"
        assert "service-destroys-nothing" in decision.policies


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_role_is_the_same_for_every_kind_of_principal(kind: Kind) -> None:
    assert verdict(asked(who("viewer", kind), "read_manifest", card="mood")) == "allow"
    assert verdict(asked(who("viewer", kind), "append_row", card="mood")) == "deny"


# -- the switch


@pytest.mark.parametrize("channel", ASKING)
@pytest.mark.parametrize(
    ("switch", "append", "remove"),
    [("all", "confirm", "confirm"), ("destructive", "allow", "confirm"), ("none", "allow", "allow")],
)
def test_confirm_writes_says_what_needs_a_yes(channel: Channel, switch: str, append: Verdict, remove: Verdict) -> None:
    policy = engine(confirm_writes=switch)  # type: ignore[arg-type]
    editor = who("editor")
    assert policy.decide(asked(editor, "append_row", channel, card="mood")).verdict == append
    assert policy.decide(asked(editor, "read_manifest", channel, card="mood")).verdict == "allow"
    if channel != "direct":
        assert policy.decide(asked(editor, "remove_row", channel, card="mood")).verdict == remove
    assert policy.decide(asked(editor, "remove_row", "api", card="mood")).verdict == "allow"


def test_a_decision_names_the_policies_that_made_it() -> None:
    editor = who("editor")
    assert SHIPPED.decide(asked(editor, "append_row", "chat", card="mood")).policies == ("editor-writes",)
    assert SHIPPED.decide(asked(editor, "remove_row", "chat", card="mood")).policies == ("confirm-destructive",)
    assert SHIPPED.decide(asked(editor, "remove_row", "direct", card="mood")).policies == ("direct-destroys-nothing",)
    assert SHIPPED.decide(asked(editor, "read_feedback")).policies == ()


# -- tokens that are narrowed


def token(
    role: Role = "agent", *, operations: Iterable[str] | None = None, cards: Iterable[str] | None = None
) -> Principal:
    return Principal(
        "token",
        "t1",
        "ann",
        role,
        operations=None if operations is None else frozenset(operations),
        cards=None if cards is None else frozenset(cards),
    )


def test_a_token_for_some_operations_has_no_others() -> None:
    narrow = token(operations=["append_row"])
    assert verdict(asked(narrow, "append_row", card="mood")) == "allow"
    denied = SHIPPED.decide(asked(narrow, "read_manifest", card="mood"))
    assert (denied.verdict, denied.policies) == ("deny", ("token-operations",))


@pytest.mark.parametrize(
    ("named", "other"),
    [("append_row", "add_row"), ("list_rows", "read_manifest_rows"), ("delete_row", "remove_row")],
)
def test_a_tool_and_the_route_of_the_same_act_are_one_to_a_token(named: str, other: str) -> None:
    narrow = token(operations=[named])
    for name in (named, other):
        assert verdict(asked(narrow, name, card="mood")) == "allow"
    assert verdict(asked(narrow, "update_row", card="mood")) == "deny"


def test_a_token_for_some_cards_has_no_others_and_nothing_that_is_about_all() -> None:
    narrow = token(cards=["mood"])
    assert verdict(asked(narrow, "append_row", card="mood")) == "allow"
    for access in (
        asked(narrow, "append_row", card="weight"),
        asked(narrow, "append_row"),
        asked(narrow, "reorder_manifests"),
        asked(narrow, "read_report"),
    ):
        assert SHIPPED.decide(access).policies == ("token-cards",)
    assert verdict(asked(narrow, "list_manifests")) == "allow"
    assert verdict(asked(narrow, "read_conversation")) == "allow"


def test_a_scope_never_widens_a_role() -> None:
    wide = token("viewer", operations=["append_row", "read_policy"], cards=["mood"])
    assert verdict(asked(wide, "append_row", card="mood")) == "deny"
    assert verdict(asked(wide, "read_policy")) == "deny"


def test_an_owner_token_is_narrowed_like_any_other() -> None:
    assert verdict(asked(token("owner", operations=["append_row"]), "delete_manifest", card="mood")) == "deny"


def test_a_tool_is_offered_when_some_card_allows_it() -> None:
    assert SHIPPED.offers(asked(token(cards=["mood"]), "append_row", "chat"))
    assert SHIPPED.offers(asked(who("editor"), "remove_row", "chat"))
    assert not SHIPPED.offers(asked(who("viewer"), "append_row", "chat"))


# -- a document


def test_004_12_one_call_of_two_users_has_two_outcomes() -> None:
    policy = engine('forbid (principal == User::"ann", action, resource == Card::"mood");')
    ann, bob = who("editor"), Principal("user", "bob", "bob", "editor")
    assert policy.decide(asked(ann, "append_row", "chat", card="mood")).verdict == "deny"
    assert policy.decide(asked(bob, "append_row", "chat", card="mood")).verdict == "allow"


def test_002_44_what_is_forbidden_stays_so_whatever_else_permits() -> None:
    policy = engine(
        '@id("no-mood") forbid (principal, action in Action::"write", resource == Card::"mood");\n'
        "permit (principal, action, resource);"
    )
    for role, channel, confirmed in itertools.product(ROLES, CHANNELS, (False, True)):
        access = asked(who(role), "append_row", channel, card="mood", confirmed=confirmed)
        assert policy.decide(access) == replace(policy.decide(access), verdict="deny", policies=("no-mood",))


def test_a_document_can_give_a_viewer_one_card_and_the_tool_is_offered() -> None:
    policy = engine('permit (principal == User::"ann", action == Action::"append_row", resource == Card::"mood");')
    viewer = who("viewer")
    assert policy.decide(asked(viewer, "append_row", "chat", card="mood")).policies == ("policy 1",)
    assert policy.decide(asked(viewer, "append_row", "chat", card="weight")).verdict == "deny"
    assert policy.offers(asked(viewer, "append_row", "chat"))
    assert not policy.offers(asked(viewer, "update_row", "chat"))


def test_a_document_may_ask_for_a_yes() -> None:
    policy = engine(
        '@id("ask") forbid (principal, action == Action::"append_row", resource) unless { context.confirmed };'
    )
    access = asked(who("agent", "token"), "append_row", "chat", card="mood")
    assert policy.decide(access) == replace(policy.decide(access), verdict="confirm", policies=("ask",))
    assert policy.decide(replace(access, confirmed=True)).verdict == "allow"


def test_policies_of_a_long_document_are_named_by_their_place() -> None:
    policy = engine(
        "\n".join(f'forbid (principal, action, resource == Card::"c{n}");' for n in range(30)),
    )
    for n in range(30):
        assert policy.decide(asked(who("editor"), "append_row", card=f"c{n}")).policies == (f"policy {n + 1}",)


@given(st.text(max_size=80))
def test_any_card_id_is_only_ever_a_card_id(card: str) -> None:
    policy = engine('permit (principal, action == Action::"append_row", resource == Card::"mood");')
    decided = policy.decide(asked(who("viewer"), "append_row", card=card)).verdict
    assert decided == ("allow" if card == "mood" else "deny")


def test_a_card_id_that_cannot_be_put_to_the_engine_is_denied() -> None:
    assert verdict(asked(who("owner"), "append_row", card="\ud800")) == "deny"


# -- one act, two names


@pytest.mark.parametrize(
    "names", [("append_row", "add_row"), ("remove_row", "delete_row"), ("list_cards", "list_manifests")]
)
def test_004_14_what_is_said_of_a_tool_holds_for_its_route_and_the_other_way_round(names: tuple[str, str]) -> None:
    for named, other in itertools.product(names, names):
        forbids = engine(f'@id("no") forbid (principal, action == Action::"{named}", resource);')
        permits = engine(f'@id("yes") permit (principal, action == Action::"{named}", resource);')
        assert forbids.decide(asked(who("owner"), other, card="mood")).policies == ("no",)
        assert "yes" in permits.decide(asked(who("operator"), other, card="mood", confirmed=True)).policies


@pytest.mark.parametrize("tool", REGISTRY.tools(), ids=lambda tool: tool.name)
@pytest.mark.parametrize("role", ROLES)
def test_004_14_chat_adds_no_bypass(role: Role, tool: object) -> None:
    name = tool.name  # type: ignore[attr-defined]
    for channel in ASKING:
        if verdict(asked(who(role), name, card="mood")) == "deny":
            assert verdict(asked(who(role), name, channel, card="mood", confirmed=True)) == "deny"


# -- loading


def test_no_function_loads_the_engine_when_it_starts() -> None:
    program = (
        "import sys\n"
        "import functions.chat.handler, functions.manifests.handler, functions.conversations.handler\n"
        "import functions.jobs.handler\n"
        "assert 'deckhand.policy.engine' in sys.modules\n"
        "assert 'cedarpy' not in sys.modules\n"
    )
    environment = {
        "PYTHONPATH": ".:layers/deckhand/python",
        "PATH": "/usr/bin:/bin",
        "AWS_DEFAULT_REGION": "eu-north-1",
    }
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=60)
