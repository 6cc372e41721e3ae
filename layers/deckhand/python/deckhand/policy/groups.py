"""Which group of actions each operation belongs to. Policies speak of groups; an operation without one is the owners'
alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

Group = Literal["read", "write", "converse", "personal", "account", "operate", "govern"]
GROUPS: tuple[Group, ...] = ("read", "write", "converse", "personal", "account", "operate", "govern")
LIST = "list"
"""A group beside the others: what shows many cards, each as far as the principal may see it, or none at all."""

CHAT = "chat"
"""The one action that is no operation: starting, watching and stopping turns."""

_MEMBERS: Mapping[Group, str] = {
    # The deck: cards, their rows, reports, documents.
    "read": """
        list_manifests list_cards list_view list_card_settings list_prompts list_templates list_docs list_reports
        read_manifest read_manifest_meta read_data read_manifest_rows list_rows read_doc read_report
        get_recent_activity hygiene_scan orphan_report validate_manifest
    """,
    "write": """
        create_manifest create_from_template patch_manifest delete_manifest hide_card show_card reorder_manifests
        write_manifest_data append_row add_row update_row change_row remove_row delete_row reorder_rows order_rows
        rename_data_field set_notification remove_notification put_report remove_report note_feedback
    """,
    # One's own conversations.
    "converse": """
        chat list_conversations create_conversation read_conversation rename_conversation replace_messages
        create_grant list_grants revoke_grant
        delete_conversation search_conversations read_history replace_history delete_history
    """,
    # How Deckhand serves one person: reminders, devices, zone, usage.
    "personal": """
        list_notifications set_notification_state set_global_notification_state send_test_notification set_time_zone
        read_usage read_push_key subscribe_device refresh_device unsubscribe_device
    """,
    # One's own ways in.
    "account": """
        create_token list_tokens revoke_token list_credentials remove_credential make_recovery_codes read_user
    """,
    # What the deployment's operator looks after.
    "operate": "read_feedback",
    # Other people, and the rules.
    "govern": """
        list_users change_user create_invite read_policy write_policy explain_policy list_audit list_switches
        switch_agent
    """,
}
_LISTS = """
    list_manifests list_cards list_view list_card_settings list_prompts list_templates list_docs read_doc
    get_recent_activity hygiene_scan validate_manifest list_notifications
"""

OF_CONVERSATIONS = frozenset({CHAT, "list_conversations", "search_conversations"})
"""What may be about one conversation, or look through all that the caller has, each as far as they may see it."""

_ONE_ACT = (
    ("append_row", "add_row"),
    ("update_row", "change_row"),
    ("remove_row", "delete_row"),
    ("reorder_rows", "order_rows"),
    ("read_manifest_rows", "list_rows"),
    ("list_manifests", "list_cards"),
    ("create_manifest", "create_from_template"),
)
"""A tool and the route of the same act, so that what a policy, or a token's scope, says of one name holds for both."""

_NARROWER = frozenset({"create_from_template"})
"""They do one part of their act, so that a token for them alone does not cover the rest of it."""

_NAMES: Mapping[str, Sequence[str]] = {name: names for names in _ONE_ACT for name in names}
_GROUP_OF: Mapping[str, Group] = {name: group for group, names in _MEMBERS.items() for name in names.split()}
_LISTING = frozenset(_LISTS.split())


def group_of(operation: str) -> Group | None:
    return _GROUP_OF.get(operation)


def names_of(operation: str) -> Sequence[str]:
    """All names of the act that an operation is, its own among them."""
    return _NAMES.get(operation, (operation,))


def scope_of(operations: Iterable[str]) -> frozenset[str]:
    """What a token for these operations covers: whoever names a tool means its route, too."""
    return frozenset(
        name for operation in operations for name in ((operation,) if operation in _NARROWER else names_of(operation))
    )


def parents(operation: str) -> list[str]:
    """The groups of actions that an operation is in, none for one without a group."""
    group = group_of(operation)
    return [] if group is None else [group, LIST] if operation in _LISTING else [group]
