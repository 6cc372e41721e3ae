"""Devices that take pushes: the key, subscribing, being heard of, unsubscribing."""

import base64
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from deckhand.domain.base64url import to_base64url
from deckhand.domain.subscription import Subscription, subscription_id
from deckhand.push.vapid import new_key, public_key
from deckhand.storage.sqlite import SqliteStore
from deckhand.storage.subscriptions import Subscriptions
from tests.api import Api
from tests.people import Deployment
from tests.push_service import Device
from tests.stores import Clock, new_token
from tests.unit.test_push_endpoint import CASE_65

KEY = new_key()
FCM = "https://fcm.googleapis.com/fcm/send/"


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    with closing(SqliteStore(":memory:", now=Clock())) as made:
        yield made


@pytest.fixture
def api(store: SqliteStore) -> Iterator[Api]:
    made = Api(store, DECKHAND_VAPID_KEY=KEY)
    yield made
    made.close()


def devices(store: SqliteStore, user: str) -> list[str]:
    return sorted(stored.subscription.endpoint for stored in Subscriptions(store, "main").all(user))


def test_the_key_is_the_public_half_and_its_id_changes_with_it(api: Api, store: SqliteStore) -> None:
    answer = api("GET", "/api/push/vapid-public-key")
    assert answer.status == 200
    assert answer.body["key"] == public_key(KEY)
    other = Api(store, DECKHAND_VAPID_KEY=new_key())
    assert other("GET", "/api/push/vapid-public-key").body["keyId"] != answer.body["keyId"]
    other.close()


def test_the_key_may_be_pem_or_der_and_is_the_same() -> None:
    secret = int.from_bytes(base64.urlsafe_b64decode(f"{KEY}="))
    key = ec.derive_private_key(secret, ec.SECP256R1())
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, *plain).decode()
    der = "".join(pem.splitlines()[1:-1])
    assert public_key(pem) == public_key(der) == public_key(KEY) == public_key(f" {KEY}\n")


@pytest.mark.parametrize("key", ["", "A" * 43, "-----BEGIN NOTHING-----"])
def test_without_a_key_that_can_be_read_there_are_no_pushes(store: SqliteStore, key: str) -> None:
    api = Api(store, DECKHAND_VAPID_KEY=key)
    assert api("GET", "/api/push/vapid-public-key").refusal == (503, "push_not_configured")
    api.close()


def test_a_device_subscribes_once_and_again_with_new_keys(api: Api, store: SqliteStore) -> None:
    first, second = Device(f"{FCM}a"), Device(f"{FCM}a")
    made = api("POST", "/api/push/subscribe", {**first.body, "nickname": " Phone "})
    assert (made.status, made.body) == (201, {"ok": True, "id": subscription_id(f"{FCM}a"), "created": True})
    assert api("POST", "/api/push/subscribe", {**second.body, "nickname": None}).status == 200
    (stored,) = Subscriptions(store, "main").all("ann")
    assert stored.subscription.p256dh == second.keys["p256dh"]


@pytest.mark.parametrize("url", CASE_65)
def test_case_65_an_endpoint_in_a_private_network_is_a_400(api: Api, store: SqliteStore, url: str) -> None:
    refused = api("POST", "/api/push/subscribe", {**Device(f"{FCM}a").body, "endpoint": url})
    assert refused.refusal == (400, "invalid_subscription")
    assert devices(store, "ann") == []


def test_a_name_that_leads_into_a_private_network_is_a_400(store: SqliteStore) -> None:
    api = Api(store, DECKHAND_VAPID_KEY=KEY)
    body = Device("https://push.example.org/x").body
    api.parts.__dict__["push"] = replace(api.parts.push, resolve=lambda _: ["10.0.0.1"])
    assert api("POST", "/api/push/subscribe", body).refusal == (400, "invalid_subscription")
    api.parts.__dict__["push"] = replace(api.parts.push, resolve=lambda _: ["93.184.216.34"])
    assert api("POST", "/api/push/subscribe", body).status == 201
    api.close()


def test_keys_that_are_none_are_refused(api: Api) -> None:
    device = Device(f"{FCM}a")
    for keys in ({**device.keys, "p256dh": to_base64url(b"\4" * 65)}, {**device.keys, "auth": "AAAA"}):
        refused = api("POST", "/api/push/subscribe", {"endpoint": device.endpoint, "keys": keys})
        assert refused.refusal == (400, "invalid_subscription")
    assert api("POST", "/api/push/subscribe", {"endpoint": device.endpoint}).refusal == (422, "invalid")


def test_a_heartbeat_of_an_unknown_device_is_a_404(api: Api) -> None:
    device = Device(f"{FCM}a")
    assert api("POST", "/api/push/heartbeat", {"endpoint": device.endpoint}).refusal == (404, "unknown_subscription")
    api("POST", "/api/push/subscribe", device.body)
    assert api("POST", "/api/push/heartbeat", {"endpoint": device.endpoint}).body == {"ok": True}
    assert api("POST", "/api/push/heartbeat", {"endpoint": device.endpoint}, token="bob").status == 404


def test_unsubscribing_has_no_answer_and_may_be_repeated(api: Api, store: SqliteStore) -> None:
    device = Device(f"{FCM}a")
    api("POST", "/api/push/subscribe", device.body)
    for _ in range(2):
        gone = api("POST", "/api/push/unsubscribe", {"endpoint": device.endpoint})
        assert (gone.status, gone.content) == (204, "")
    assert devices(store, "ann") == []


def test_nobody_unsubscribes_another_persons_device(api: Api, store: SqliteStore) -> None:
    device = Device(f"{FCM}a")
    api("POST", "/api/push/subscribe", device.body)
    assert api("POST", "/api/push/unsubscribe", {"endpoint": device.endpoint}, token="bob").status == 204
    assert devices(store, "ann") == [device.endpoint]
    assert api("POST", "/api/push/heartbeat", {"endpoint": device.endpoint}).status == 200


def test_a_device_belongs_to_whoever_subscribed_on_it_last(api: Api, store: SqliteStore) -> None:
    device = Device(f"{FCM}shared")
    api("POST", "/api/push/subscribe", device.body)
    assert api("POST", "/api/push/subscribe", device.body, token="bob").status == 201
    assert (devices(store, "ann"), devices(store, "bob")) == ([], [device.endpoint])
    api("POST", "/api/push/unsubscribe", {"endpoint": device.endpoint}, token="ann")
    assert api("POST", "/api/push/subscribe", device.body, token="bob").status == 200


def test_of_more_than_20_devices_the_one_seen_least_recently_goes(store: SqliteStore) -> None:
    subscriptions = Subscriptions(store, "main")
    template = Device(f"{FCM}x").subscription
    for number in range(21):
        if number == 20:
            subscriptions.seen("ann", f"{FCM}0", at="2026-05-01T00:00:00.000Z", token=new_token())
        at = f"2026-04-20T08:00:{number:02d}.000Z"
        one = template.model_copy(update={"endpoint": f"{FCM}{number}", "created_at": at, "seen_at": at})
        assert subscriptions.put("ann", one, token=new_token())
    kept = devices(store, "ann")
    assert len(kept) == 20
    assert f"{FCM}0" in kept
    assert f"{FCM}1" not in kept


def test_a_dead_device_that_subscribed_anew_meanwhile_stays(store: SqliteStore) -> None:
    subscriptions, device = Subscriptions(store, "main"), Device(f"{FCM}a")
    subscriptions.put("ann", device.subscription, token=new_token())
    (read,) = subscriptions.all("ann")
    subscriptions.put("ann", Device(f"{FCM}a").subscription, token=new_token())
    subscriptions.drop_dead("ann", read, token=new_token())
    assert devices(store, "ann") == [device.endpoint]
    subscriptions.drop_dead("ann", subscriptions.all("ann")[0], token=new_token())
    assert devices(store, "ann") == []
    assert subscriptions.put("bob", device.subscription, token=new_token())


def test_signing_out_drops_the_device_that_it_names_and_no_other() -> None:
    clock = Clock()
    with closing(SqliteStore(":memory:", now=clock)) as store:
        owner = Deployment(store, clock).owner()
        for name in "ab":
            assert owner("POST", "/api/push/subscribe", Device(f"{FCM}{name}").body).status == 201
        assert owner("POST", "/auth/logout", {"endpoint": f"{FCM}a"}).body == {"ok": True}
        assert devices(store, "owner") == [f"{FCM}b"]
        owner("POST", "/auth/logout", {"endpoint": f"{FCM}b"})
        assert devices(store, "owner") == [f"{FCM}b"], "nobody is signed in any more"


def test_all_devices_of_a_person_can_be_dropped(store: SqliteStore) -> None:
    subscriptions = Subscriptions(store, "main")
    for name in "abc":
        subscriptions.put("ann", Device(f"{FCM}{name}").subscription, token=new_token())
    subscriptions.drop_all("ann")
    subscriptions.drop_all("ann")
    assert devices(store, "ann") == []


def test_a_subscription_is_kept_as_it_was_given() -> None:
    kept = Device(f"{FCM}a").subscription
    assert Subscription.model_validate_json(kept.to_json()) == kept
