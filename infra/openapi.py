"""Write the OpenAPI document to infra/openapi.json: `python -m infra.openapi`."""

import json
from pathlib import Path

from deckhand.edge.openapi import document

FILE = Path(__file__).parent / "openapi.json"


def text() -> str:
    return json.dumps(document(), ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
