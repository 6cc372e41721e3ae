"""JSON merge patch (RFC 7396)."""

from typing import Any


def merge(target: Any, patch: Any) -> Any:
    """The patched value; `target` is left as it is. In an object null removes a name, and lists replace lists whole."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result
