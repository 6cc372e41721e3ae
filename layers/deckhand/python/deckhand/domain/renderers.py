"""What the known renderers need of a manifest. Unknown renderers are accepted: they show a placeholder until one
ships.
"""

from collections.abc import Mapping
from typing import Any

from deckhand.domain.faults import Faults

KIND = "renderer"
VIEWS = ("view", "trends", "calendar", "reports", "dayDetail")
CHARTS = ("line-chart", "area-chart", "bar-chart")
ROLES = ("primary", "secondary", "annotation", "ring-segment")


def check_renderers(manifest: Mapping[str, Any], faults: Faults) -> None:
    meta = manifest["meta"]
    for view in VIEWS:
        if view in meta and faults.mapping(KIND, f"meta.{view}", meta[view]):
            _check_view(view, meta[view], faults)
    view = meta.get("view")
    if isinstance(view, Mapping) and view.get("component") == "combination-card":
        _check_combination(manifest, view, faults)


def _check_view(name: str, view: Mapping[str, Any], faults: Faults) -> None:
    path = f"meta.{name}"
    if "enabled" in view:
        faults.boolean(KIND, f"{path}.enabled", view["enabled"])
    if "component" in view:
        faults.text(KIND, f"{path}.component", view["component"])
    if "display" in view:
        faults.mapping(KIND, f"{path}.display", view["display"])
    if view.get("component") in CHARTS and "series" in view:
        _check_series(view["series"], faults, f"{path}.series")


def _check_series(series: Any, faults: Faults, path: str) -> None:
    if not isinstance(series, list):
        faults.add(KIND, path, "must be a list of objects with a field")
        return
    for n, one in enumerate(series):
        if faults.mapping(KIND, f"{path}[{n}]", one):
            faults.text(KIND, f"{path}[{n}].field", one.get("field"))


def _check_combination(manifest: Mapping[str, Any], view: Mapping[str, Any], faults: Faults) -> None:
    combines = view.get("combines")
    if not isinstance(combines, list) or not combines:
        faults.add(KIND, "meta.view.combines", "must be a list with at least one source")
    for n, donor in enumerate(combines if isinstance(combines, list) else []):
        path = f"meta.view.combines[{n}]"
        if not faults.mapping(KIND, path, donor):
            continue
        faults.text(KIND, f"{path}.sourceId", donor.get("sourceId"))
        if "role" in donor:
            faults.one_of(KIND, f"{path}.role", donor["role"], ROLES)
        if donor.get("role") == "ring-segment" and ("goalDaily" in donor) == ("goalWeekly" in donor):
            faults.add(KIND, path, "a ring segment has exactly one of goalDaily and goalWeekly")
    if manifest.get("data") not in (None, []):
        faults.add(KIND, "data", "a combination card has no data of its own: it must be []")
