"""Items and conditions in DynamoDB's own notation. Every attribute name goes through an alias, since names like
`token` may be reserved words (bug case 45).
"""

from collections.abc import Mapping
from typing import Any

from deckhand.storage.port import Condition, Item, Key, Presence, Table
from deckhand.storage.ranges import KeyRange

Attributes = Mapping[str, Mapping[str, str]]

_IS_LIVE = "(attribute_not_exists(#expires) OR #expires > :now)"


def to_attributes(item: Item, token: str) -> dict[str, dict[str, str]]:
    attributes = {
        "pk": {"S": item.pk},
        "sk": {"S": item.sk},
        "version": {"N": str(item.version)},
        "body": {"S": item.body},
        "token": {"S": token},
    }
    if item.expires is not None:
        # The table's TTL attribute: a Number of whole seconds.
        attributes["expires"] = {"N": str(item.expires)}
    return attributes


def live_item(table: Table, attributes: Attributes | None, now: float) -> Item | None:
    """The item, or None when it is absent or expired."""
    if not attributes:
        return None
    expires = int(attributes["expires"]["N"]) if "expires" in attributes else None
    if expires is not None and expires <= now:
        return None
    texts = {name: attributes[name]["S"] for name in ("pk", "sk", "body")}
    return Item(table, **texts, version=int(attributes["version"]["N"]), expires=expires)


def written_by(token: str, attributes: Attributes | None) -> bool:
    return attributes is not None and attributes.get("token") == {"S": token}


def key_attributes(key: Key) -> dict[str, dict[str, str]]:
    return {"pk": {"S": key.pk}, "sk": {"S": key.sk}}


def condition_fields(condition: Condition, now: int) -> dict[str, Any]:
    """The fields of a request that carry the condition; an expired item counts as absent. `now` in whole seconds."""
    if condition is None:
        return {}
    if condition is Presence.ABSENT:
        expression, names = "attribute_not_exists(#pk) OR #expires <= :now", ["pk", "expires"]
    elif condition is Presence.EXISTS:
        expression, names = f"attribute_exists(#pk) AND {_IS_LIVE}", ["pk", "expires"]
    else:
        expression, names = f"#version = :version AND {_IS_LIVE}", ["version", "expires"]
    values = {":now": {"N": str(now)}}
    if not isinstance(condition, Presence):
        values[":version"] = {"N": str(condition.version)}
    return {
        "ConditionExpression": expression,
        "ExpressionAttributeNames": {f"#{name}": name for name in names},
        "ExpressionAttributeValues": values,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def range_fields(pk: str, keys: KeyRange) -> dict[str, Any]:
    """A key condition that is at most one key too wide at either end: BETWEEN includes its bounds."""
    values = {":pk": {"S": pk}}
    if keys.low is not None:
        values[":low"] = {"S": keys.low}
    if keys.end is not None:
        values[":end"] = {"S": keys.end}
    if keys.low is not None and keys.end is not None:
        expression = "#pk = :pk AND #sk BETWEEN :low AND :end"
    elif keys.low is not None:
        expression = "#pk = :pk AND #sk >= :low"
    elif keys.end is not None:
        expression = "#pk = :pk AND #sk < :end"
    else:
        expression = "#pk = :pk"
    names = ("pk", "sk") if len(values) > 1 else ("pk",)
    return {
        "KeyConditionExpression": expression,
        "ExpressionAttributeNames": {f"#{name}": name for name in names},
        "ExpressionAttributeValues": values,
    }
