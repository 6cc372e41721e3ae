"""The devices that take pushes: the key they subscribe with, and their subscriptions."""

from pydantic import Field
from typing_extensions import TypedDict

from deckhand.domain.errors import InvalidSubscription, PushNotConfigured, UnknownHost
from deckhand.domain.push_endpoint import connect_to, parse_endpoint
from deckhand.domain.push_keys import checked_point, checked_secret
from deckhand.domain.subscription import Subscription
from deckhand.domain.times import iso
from deckhand.operations.arguments import Arguments, Nothing
from deckhand.operations.caller import Caller
from deckhand.operations.registry import Http, operation
from deckhand.operations.shapes import Done
from deckhand.storage.subscriptions import Subscriptions


class DeviceKeys(Arguments):
    p256dh: str = Field(max_length=200, description="The device's public key, in base64url.")
    auth: str = Field(max_length=200, description="The device's secret, in base64url.")


class Device(Arguments):
    endpoint: str = Field(description="The subscription's endpoint.")


class NewDevice(Device):
    keys: DeviceKeys
    nickname: str | None = Field(default=None, max_length=80, description="What the person calls the device.")


class PushKey(TypedDict):
    """`key` is the `applicationServerKey` in base64url, `keyId` a short name that changes with it."""

    key: str
    keyId: str


class SubscribedDevice(Done):
    """`created` is false when the device was known, which then has the new keys."""

    id: str
    created: bool


@operation(
    summary="Read the key for subscribing to pushes", input=Nothing, http=Http("GET", "/api/push/vapid-public-key")
)
def read_push_key(caller: Caller, _: Nothing) -> PushKey:
    """Raises `PushNotConfigured`."""
    from deckhand.push.vapid import key_id, public_key

    secret = caller.push.key()
    if not secret:
        raise PushNotConfigured()
    key = public_key(secret)
    return {"key": key, "keyId": key_id(key)}


@operation(
    summary="Subscribe a device to pushes",
    input=NewDevice,
    http=Http("POST", "/api/push/subscribe", status=201, known=200, limit=16 * 1024),
    mutates=True,
)
def subscribe_device(caller: Caller, given: NewDevice) -> SubscribedDevice:
    """Raises `InvalidSubscription`."""
    endpoint = parse_endpoint(given.endpoint, allow_loopback=caller.push.allow_loopback)
    try:
        connect_to(endpoint, caller.push.resolve)
    except UnknownHost:
        raise InvalidSubscription("The endpoint's host is not known.") from None
    now = iso(caller.now())
    subscription = Subscription(
        endpoint=endpoint.url,
        p256dh=checked_point(given.keys.p256dh),
        auth=checked_secret(given.keys.auth),
        nickname=(given.nickname or "").strip(),
        created_at=now,
        seen_at=now,
    )
    created = _subscriptions(caller).put(caller.principal.user, subscription, token=caller.new_id())
    return {"ok": True, "id": subscription.id, "created": created}


@operation(
    summary="Say that a device is still there",
    input=Device,
    http=Http("POST", "/api/push/heartbeat"),
    mutates=True,
    recorded=False,
)
def refresh_device(caller: Caller, given: Device) -> Done:
    """Raises `UnknownSubscription`: the device should subscribe anew."""
    _subscriptions(caller).seen(caller.principal.user, given.endpoint, at=iso(caller.now()), token=caller.new_id())
    return {"ok": True}


@operation(
    summary="Unsubscribe a device from pushes",
    input=Device,
    http=Http("POST", "/api/push/unsubscribe", status=204),
    mutates=True,
)
def unsubscribe_device(caller: Caller, given: Device) -> None:
    """Nothing, also when the device is not known."""
    _subscriptions(caller).drop(caller.principal.user, given.endpoint)


def _subscriptions(caller: Caller) -> Subscriptions:
    return Subscriptions(caller.store, caller.principal.tenant)
