"""Users of a deployment: invites, roles, and that an owner is always left."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from deckhand.domain.subscription import Subscription
from deckhand.storage.port import ItemStore, Op
from deckhand.storage.subscriptions import Subscriptions
from tests.deck import HookedStore
from tests.people import Browser, Deployment
from tests.stores import Clock, new_token

FAILED = (401, "sign_in_failed")
LAST_OWNER = (409, "last_owner")
FORBIDDEN = (403, "forbidden")
MOMENT_TEXT = "2027-01-15T08:00:00.000Z"


def change(owner: Browser, user: str, **wish: Any) -> Any:
    return owner("PATCH", f"/api/users/{user}", wish)


# -- invites


def test_an_invite_lets_one_person_in_with_its_role(deployment: Deployment, clock: Clock) -> None:
    owner = deployment.owner()
    answer = owner("POST", "/api/invites", {"role": "editor"})
    assert answer.status == 201
    assert answer.body["expiresAt"] == "2027-01-22T08:00:00.000Z"
    guest = deployment.browser()
    told = guest.enrol(invite=answer.body["code"], name="Grace").body["user"]
    assert (told["name"], told["role"], guest.signed_in) == ("Grace", "editor", True)
    assert told["id"] not in ("owner", "")
    assert deployment.browser().enrol(invite=answer.body["code"]).refusal == FAILED


def test_of_two_with_one_invite_one_comes_in(deployment: Deployment) -> None:
    code = deployment.owner()("POST", "/api/invites", {"role": "viewer"}).body["code"]
    guests = [deployment.browser(), deployment.browser()]
    asked = [guest("POST", "/auth/register/options", {"invite": code}).body for guest in guests]
    answers = [
        guest("POST", "/auth/register/verify", guest.device.create(options))
        for guest, options in zip(guests, asked, strict=True)
    ]
    assert [answer.status for answer in answers] == [201, 401]
    assert [guest.signed_in for guest in guests] == [True, False]


def test_an_invite_lasts_seven_days(deployment: Deployment, clock: Clock) -> None:
    code = deployment.owner()("POST", "/api/invites", {"role": "viewer"}).body["code"]
    clock.time += 7 * 24 * 3600
    assert deployment.browser().enrol(invite=code).refusal == FAILED


@pytest.mark.parametrize("ending", [{"role": "editor"}, {"disabled": True}])
@pytest.mark.parametrize("begun", [False, True])
def test_an_invite_holds_while_whoever_made_it_has_their_role(
    deployment: Deployment, ending: dict[str, Any], begun: bool
) -> None:
    owner = deployment.owner()
    other = deployment.guest(owner, "owner")
    code, user, guest = other("POST", "/api/invites", {"role": "owner"}).body["code"], other.user, deployment.browser()
    options = guest("POST", "/auth/register/options", {"invite": code}).body if begun else {}
    assert change(owner, user, **ending).status == 200
    answer = guest("POST", "/auth/register/verify", guest.device.create(options)) if begun else guest.enrol(invite=code)
    assert answer.refusal == FAILED
    assert not guest.signed_in


@pytest.mark.parametrize("ends", ["revoked", "expired"])
def test_an_invite_of_a_token_ends_with_it(deployment: Deployment, clock: Clock, ends: str) -> None:
    owner, guest = deployment.owner(), deployment.browser()
    token = owner("POST", "/api/tokens", {"name": "t", "role": "owner", "expiresAt": "2027-01-15T09:00:00Z"}).body
    program = deployment.browser(Authorization=f"Bearer {token['secret']}")
    code = program("POST", "/api/invites", {"role": "owner"}).body["code"]
    if ends == "revoked":
        assert owner("DELETE", f"/api/tokens/{token['id']}").status == 200
    else:
        clock.time += 3600
    assert guest.enrol(invite=code).refusal == FAILED


@pytest.mark.parametrize("asks", ["session", "token"])
@pytest.mark.parametrize("ending", [{"role": "viewer"}, {"disabled": True}])
def test_no_token_is_made_for_somebody_whose_role_ends_meanwhile(
    clocked_store: ItemStore, clock: Clock, ending: dict[str, Any], asks: str
) -> None:
    hooked = HookedStore(clocked_store)
    deployment = Deployment(hooked, clock)
    owner = deployment.owner()
    other = deployment.guest(owner, "editor")
    user = other.user
    if asks == "token":
        secret = other("POST", "/api/tokens", {"name": "first", "role": "editor"}).body["secret"]
        other = deployment.browser(Authorization=f"Bearer {secret}")

    def ends(ops: Sequence[Op]) -> None:
        if any(op.key.pk == "main#tokens" for op in ops):
            hooked.before = None
            assert change(owner, user, **ending).status == 200

    hooked.before = ends
    assert other("POST", "/api/tokens", {"name": "late", "role": "editor"}).refusal == (403, "forbidden")
    assert owner("GET", "/api/tokens").body == {"tokens": []}


@pytest.mark.parametrize("first", ["the policy", "the user"])
def test_no_owner_who_may_change_the_policy_goes_while_it_becomes_theirs_alone(
    clocked_store: ItemStore, clock: Clock, first: str
) -> None:
    hooked = HookedStore(clocked_store)
    deployment = Deployment(hooked, clock)
    owner = deployment.owner()
    other = deployment.guest(owner, "owner").user
    only = f'forbid (principal, action == Action::"write_policy", resource) unless {{ principal == User::"{other}" }};'
    steps: dict[str, Callable[[], Any]] = {
        "the policy": lambda: owner("PUT", "/api/policy", {"policy": only}),
        "the user": lambda: change(owner, other, role="viewer"),
    }

    def quicker(ops: Sequence[Op]) -> None:
        if any(op.key.pk in ("main#policy", "main#users") for op in ops):
            hooked.before = None
            assert steps.pop(first)().status == 200

    hooked.before = quicker
    [slower] = [step for name, step in steps.items() if name != first]
    assert slower().refusal == (409, "would_lock_out")


@pytest.mark.parametrize("role", ["agent", "operator", "Owner", "", None, 1])
def test_an_invite_is_for_a_role_of_people(deployment: Deployment, role: Any) -> None:
    assert deployment.owner()("POST", "/api/invites", {"role": role}).refusal == (422, "invalid")


# -- who may do what


@pytest.mark.parametrize("role", ["editor", "viewer"])
def test_only_owners_look_after_users(deployment: Deployment, role: str) -> None:
    owner = deployment.owner()
    guest = deployment.guest(owner, role)
    assert guest("POST", "/api/invites", {"role": "owner"}).refusal == FORBIDDEN
    assert guest("GET", "/api/users").refusal == FORBIDDEN
    assert guest("GET", "/api/users/owner").refusal == FORBIDDEN
    assert change(guest, guest.user, role="owner").refusal == FORBIDDEN
    assert guest("GET", f"/api/users/{guest.user}").body["user"]["role"] == role


def test_owners_see_all_users_and_nothing_secret(deployment: Deployment, clock: Clock) -> None:
    owner = deployment.owner()
    clock.time += 1
    guest = deployment.guest(owner, "viewer")
    assert owner("GET", "/api/users").body["users"] == [
        {
            "id": "owner",
            "name": "Ada",
            "role": "owner",
            "disabled": False,
            "createdAt": "2027-01-15T08:00:00.000Z",
            "credentials": 1,
        },
        {
            "id": guest.user,
            "name": "Viewer",
            "role": "viewer",
            "disabled": False,
            "createdAt": "2027-01-15T08:00:01.000Z",
            "credentials": 1,
        },
    ]


def test_a_viewers_session_reads_cards_and_writes_none(deployment: Deployment) -> None:
    guest = deployment.guest(deployment.owner(), "viewer")
    assert guest("GET", "/api/manifests").status == 200
    assert guest("POST", "/api/manifests", {"meta": {"id": "a", "label": "A"}}).refusal == FORBIDDEN


def test_a_new_role_ends_the_sessions_that_had_the_old_one(deployment: Deployment) -> None:
    owner = deployment.owner()
    guest = deployment.guest(owner, "editor")
    user = guest.user
    assert change(owner, user, role="viewer").body["user"]["role"] == "viewer"
    assert not guest.signed_in
    assert guest.sign_in().body["user"]["role"] == "viewer"


def test_a_new_name_ends_no_session(deployment: Deployment) -> None:
    owner = deployment.owner()
    guest = deployment.guest(owner, "editor")
    assert change(owner, guest.user, name=" Grace ", role="editor").body["user"]["name"] == "Grace"
    assert guest("GET", "/auth/status").body["user"]["name"] == "Grace"


def test_who_is_disabled_is_out_at_once_and_comes_in_by_no_way(deployment: Deployment) -> None:
    owner = deployment.owner()
    guest = deployment.guest(owner, "editor")
    user = guest.user
    code = guest("POST", "/api/recovery-codes").body["codes"][0]
    assert change(owner, user, disabled=True).body["user"]["disabled"] is True
    assert not guest.signed_in
    assert guest.sign_in().refusal == FAILED
    assert guest("POST", "/auth/login/recovery", {"code": code}).refusal == FAILED
    change(owner, user, disabled=False)
    assert guest("POST", "/auth/login/recovery", {"code": code}).status == 200


def test_tokens_of_a_user_never_have_more_rights_than_they(deployment: Deployment) -> None:
    owner = deployment.owner()
    guest = deployment.guest(owner, "editor")
    user = guest.user
    for role in ("editor", "viewer"):
        assert guest("POST", "/api/tokens", {"name": role, "role": role}).status == 201
    owner("POST", "/api/tokens", {"name": "mine", "role": "owner"})
    change(owner, user, role="viewer")
    assert {token["name"] for token in owner("GET", "/api/tokens").body["tokens"]} == {"viewer", "mine"}
    change(owner, user, disabled=True)
    assert [token["name"] for token in owner("GET", "/api/tokens").body["tokens"]] == ["mine"]


@pytest.mark.parametrize("user", ["nobody", "x" * 65, "x" * 3000])
def test_a_user_that_is_unknown_is_a_404(deployment: Deployment, user: str) -> None:
    owner = deployment.owner()
    assert owner("GET", f"/api/users/{user}").refusal == (404, "unknown_user")
    assert change(owner, user, name="x").refusal == (404, "unknown_user")


@pytest.mark.parametrize("wish", [{"role": "agent"}, {"name": " "}, {"name": "x" * 81}, {"disabled": "?"}, {"id": "x"}])
def test_what_a_user_cannot_become_is_refused(deployment: Deployment, wish: dict[str, Any]) -> None:
    assert change(deployment.owner(), "owner", **wish).refusal == (422, "invalid")


# -- an owner is left


@pytest.mark.parametrize("wish", [{"role": "editor"}, {"disabled": True}])
def test_the_last_owner_stays_one(deployment: Deployment, wish: dict[str, Any]) -> None:
    owner = deployment.owner()
    deployment.guest(owner, "editor")
    assert change(owner, "owner", **wish).refusal == LAST_OWNER
    assert owner.signed_in


def test_the_last_passkey_of_the_last_owner_stays(deployment: Deployment) -> None:
    owner = deployment.owner()
    assert owner("DELETE", f"/api/credentials/{owner.device.id}").refusal == LAST_OWNER
    assert owner.signed_in


def test_while_there_is_another_owner_one_may_go(deployment: Deployment) -> None:
    owner = deployment.owner()
    other = deployment.guest(owner, "owner")
    assert change(other, "owner", disabled=True).status == 200
    assert not owner.signed_in
    assert other("DELETE", f"/api/credentials/{other.device.id}").refusal == LAST_OWNER
    assert change(other, other.user, role="viewer").refusal == LAST_OWNER


def test_an_owner_without_a_passkey_or_who_is_disabled_counts_for_none(deployment: Deployment) -> None:
    owner = deployment.owner()
    other = deployment.guest(owner, "owner")
    assert other("DELETE", f"/api/credentials/{other.device.id}").status == 200
    assert change(owner, "owner", role="editor").refusal == LAST_OWNER


@pytest.mark.parametrize("wish", [{"role": "editor"}, {"disabled": True}, None])
def test_the_only_owner_who_may_change_the_policy_stays_one(
    deployment: Deployment, wish: dict[str, Any] | None
) -> None:
    owner = deployment.owner()
    other = deployment.guest(owner, "owner")
    only = 'forbid (principal, action == Action::"write_policy", resource) unless { principal == User::"owner" };'
    assert owner("PUT", "/api/policy", {"policy": only}).status == 200
    key = f"/api/credentials/{owner.device.id}"
    answer = owner("DELETE", key) if wish is None else change(other, "owner", **wish)
    assert answer.refusal == (409, "would_lock_out")
    assert change(owner, other.user, role="editor").status == 200, "who does not govern it may go"


def test_a_document_that_only_somebody_could_change_who_cannot_sign_in_is_refused(deployment: Deployment) -> None:
    owner = deployment.owner()
    other = deployment.guest(owner, "owner").user
    only = f'forbid (principal, action == Action::"write_policy", resource) unless {{ principal == User::"{other}" }};'
    assert change(owner, other, disabled=True).status == 200
    assert owner("PUT", "/api/policy", {"policy": only}).refusal == (409, "would_lock_out")
    assert change(owner, other, disabled=False).status == 200
    assert owner("PUT", "/api/policy", {"policy": only}).status == 200


def test_others_may_remove_their_last_passkey(deployment: Deployment) -> None:
    guest = deployment.guest(deployment.owner(), "viewer")
    assert guest("DELETE", f"/api/credentials/{guest.device.id}").status == 200
    assert not guest.signed_in


@pytest.mark.parametrize("credential", ["AAAA", "%%%", "=", "x" * 5000])
def test_a_passkey_that_is_unknown_is_a_404(deployment: Deployment, credential: str) -> None:
    owner = deployment.owner()
    assert owner("DELETE", f"/api/credentials/{credential}").refusal == (404, "unknown_credential")


def test_nobody_removes_another_persons_passkey(deployment: Deployment) -> None:
    owner = deployment.owner()
    guest = deployment.guest(owner, "viewer")
    assert owner("DELETE", f"/api/credentials/{guest.device.id}").refusal == (404, "unknown_credential")


def test_a_passkey_is_named_in_any_form_of_base64(deployment: Deployment) -> None:
    owner = deployment.owner()
    other = deployment.guest(owner, "owner")
    padded = other.device.id + "=" * (-len(other.device.id) % 4)
    assert other("DELETE", f"/api/credentials/{padded}").status == 200


def test_passkeys_and_codes_are_managed_by_people_only(clocked_store: ItemStore, clock: Clock) -> None:
    deployment = Deployment(clocked_store, clock)
    owner = deployment.owner()
    token = owner("POST", "/api/tokens", {"name": "all", "role": "owner"}).body["secret"]
    program = deployment.browser(Authorization=f"Bearer {token}")
    for method, path in (
        ("GET", "/api/credentials"),
        ("DELETE", f"/api/credentials/{owner.device.id}"),
        ("POST", "/api/recovery-codes"),
    ):
        assert program(method, path).refusal == FORBIDDEN
    assert program("POST", "/api/invites", {"role": "viewer"}).status == 201


# -- devices that get pushes


def subscribe(browser: Browser, endpoint: str) -> None:
    with browser.deployment.on_time():
        subscription = Subscription(
            endpoint=endpoint, p256dh="k", auth="a", created_at=MOMENT_TEXT, seen_at=MOMENT_TEXT
        )
        Subscriptions(browser.deployment.store, "main").put(browser.user, subscription, token=new_token())


def endpoints(deployment: Deployment, user: str) -> list[str]:
    return [one.subscription.endpoint for one in Subscriptions(deployment.store, "main").all(user)]


def test_signing_out_drops_the_device_that_is_named_and_no_other_persons(deployment: Deployment) -> None:
    owner = deployment.owner()
    guest = deployment.guest(owner, "viewer")
    user = guest.user
    for browser, name in ((owner, "mine"), (guest, "theirs"), (guest, "other")):
        subscribe(browser, f"https://push.example.test/{name}")
    assert guest("POST", "/auth/logout", {"endpoint": "https://push.example.test/mine"}).status == 200
    assert endpoints(deployment, "owner") == ["https://push.example.test/mine"]
    guest.sign_in()
    assert guest("POST", "/auth/logout", {"endpoint": "https://push.example.test/theirs"}).status == 200
    assert endpoints(deployment, user) == ["https://push.example.test/other"]


def test_the_devices_of_who_is_disabled_are_dropped(deployment: Deployment) -> None:
    owner = deployment.owner()
    guest = deployment.guest(owner, "viewer")
    user = guest.user
    subscribe(guest, "https://push.example.test/theirs")
    change(owner, user, disabled=True)
    assert endpoints(deployment, user) == []


# -- whoever else the policy lets look after users


def test_nobody_gives_or_takes_more_than_they_have(deployment: Deployment) -> None:
    owner = deployment.owner()
    editor, viewer = deployment.guest(owner, "editor"), deployment.guest(owner, "viewer")
    policy = 'permit (principal in Role::"editor", action in Action::"govern", resource);'
    assert owner("PUT", "/api/policy", {"policy": policy}).status == 200
    # A process that has not read the document before: others go by what they read for some seconds.
    editor.deployment = Deployment(deployment.store, deployment.clock)
    assert editor("POST", "/api/invites", {"role": "editor"}).status == 201
    assert change(editor, viewer.user, role="editor").status == 200
    assert editor("POST", "/api/invites", {"role": "owner"}).refusal == FORBIDDEN
    assert change(editor, editor.user, role="owner").refusal == FORBIDDEN
    assert change(editor, "owner", disabled=True).refusal == FORBIDDEN
