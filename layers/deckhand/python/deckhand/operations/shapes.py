"""Answers of more than one family. None of these types exists for a running function: they are what mypy holds the
operations to, and what the OpenAPI document is made from.
"""

from typing import Literal

from typing_extensions import TypedDict


class Done(TypedDict):
    ok: Literal[True]
