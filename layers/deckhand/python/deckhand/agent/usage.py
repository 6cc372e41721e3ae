"""Token counts in the layouts that gateways use."""

from collections.abc import Mapping
from typing import Any

from deckhand.agent.chat import Usage

_INPUT = ("prompt_tokens", "input_tokens")
_OUTPUT = ("completion_tokens", "output_tokens")
_DETAILS = ("prompt_tokens_details", "input_tokens_details")
_CACHED = ("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens", "cache_read_tokens")
_WRITTEN = ("cache_creation_input_tokens", "cache_write_tokens", "cache_creation_tokens", "cache_write_input_tokens")


def read_usage(reported: Any) -> Usage | None:
    """The counts as reported; None when there is no count at all, which is not the same as zero."""
    if not isinstance(reported, Mapping):
        return None
    places = [reported, *(inner for key in _DETAILS if isinstance(inner := reported.get(key), Mapping))]
    counts = [_count(places, names) for names in (_INPUT, _OUTPUT, _CACHED, _WRITTEN)]
    if all(count is None for count in counts):
        return None
    fresh, output, cached, written = (count or 0 for count in counts)
    return Usage(fresh, output, cached, written)


def _count(places: list[Mapping[str, Any]], names: tuple[str, ...]) -> int | None:
    """The largest of the synonyms: some gateways fill one and leave the others at zero."""
    found = [count for place in places for name in names if (count := _read(place.get(name))) is not None]
    return max(found, default=None)


def _read(value: Any) -> int | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value < 2**53 else None
