"""CloudFormation's short forms (`!Ref`, `!Sub`, …), as far as a laptop needs them.

Parameters give their defaults, pseudo-parameters fixed local values, and a resource its own logical name: what names a
table or a queue in the cloud needs only to be the same name everywhere here.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

PSEUDO_PARAMETERS: Mapping[str, Any] = {
    "AWS::AccountId": "000000000000",
    "AWS::NoValue": None,
    "AWS::Partition": "aws",
    "AWS::Region": "us-east-1",
    "AWS::StackId": "arn:aws:cloudformation:us-east-1:000000000000:stack/deckhand/local",
    "AWS::StackName": "deckhand",
    "AWS::URLSuffix": "amazonaws.com",
}


class TemplateError(Exception):
    """The template holds something that cannot be read here; the sentence names it."""


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's tags; `!Sub x` becomes `{"Fn::Sub": x}`."""


def _long_form(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)  # type: ignore[arg-type]
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _long_form)


def load(path: Path) -> dict[str, Any]:
    """The template with short forms written out as long ones, nothing resolved yet."""
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 (a SafeLoader)
    except yaml.YAMLError as error:
        raise TemplateError(f"{path} is not readable YAML: {error}") from error
    if not isinstance(document, dict):
        raise TemplateError(f"{path} holds no template")
    return document


class Resolver:
    """Gives intrinsic functions their local values."""

    def __init__(self, template: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
        declared = template.get("Parameters") or {}
        defaults = {name: body.get("Default", "") for name, body in declared.items()}
        self._values = {**PSEUDO_PARAMETERS, **defaults, **parameters}
        self._conditions: Mapping[str, Any] = template.get("Conditions") or {}
        self._mappings: Mapping[str, Any] = template.get("Mappings") or {}

    def resolve(self, value: Any) -> Any:
        """`value` with every intrinsic inside it resolved; entries that resolve to `AWS::NoValue` are left out."""
        if isinstance(value, list):
            return [item for item in map(self.resolve, value) if item is not None]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((name, argument),) = value.items()
            if name == "Ref":
                return self._values.get(argument, argument)
            if name == "Condition" and isinstance(argument, str):
                return self._condition(argument)
            if name.startswith("Fn::"):
                return self._function(name.removeprefix("Fn::"), argument)
        return {key: item for key, raw in value.items() if (item := self.resolve(raw)) is not None}

    def _condition(self, name: str) -> bool:
        if name not in self._conditions:
            raise TemplateError(f"The template has no condition {name}")
        return bool(self.resolve(self._conditions[name]))

    def _function(self, name: str, argument: Any) -> Any:
        if name == "If":
            return self.resolve(argument[1] if self._condition(argument[0]) else argument[2])
        value = self.resolve(argument)
        match name:
            case "Sub":
                return self._substitute(value)
            case "GetAtt":
                return ".".join(value)
            case "Join":
                return str(value[0]).join(map(str, value[1]))
            case "Select":
                return value[1][int(value[0])]
            case "Split":
                return str(value[1]).split(value[0])
            case "FindInMap":
                return self._mappings[value[0]][value[1]][value[2]]
        return self._logic(name, value)

    @staticmethod
    def _logic(name: str, value: Any) -> Any:
        match name:
            case "Equals":
                return str(value[0]) == str(value[1])
            case "Not":
                return not value[0]
            case "And":
                return all(value)
            case "Or":
                return any(value)
        # What is left (Base64, Cidr, GetAZs, ImportValue, …) describes the cloud, which nothing here reads.
        return str(value)

    def _substitute(self, argument: Any) -> str:
        text, own = (argument[0], argument[1]) if isinstance(argument, list) else (argument, {})

        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name.startswith("!"):
                return f"${{{name[1:]}}}"
            return str(own.get(name, self._values.get(name, name)))

        return re.sub(r"\$\{([^}]+)\}", value, str(text))
