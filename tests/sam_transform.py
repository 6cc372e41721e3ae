"""Prints a template as CloudFormation gets to see it: the transform of SAM applied, as JSON. Runs on SAM's own Python.

    .tools/sam/bin/python tests/sam_transform.py template.yaml '{"ChatModel": "m"}'

Nothing is built or uploaded: code has the address of a bucket that isn't there. No network, no credentials.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from samtranslator.translator.transform import transform  # type: ignore[import-not-found]
from samtranslator.yaml_helper import yaml_parse  # type: ignore[import-not-found]


class NoManagedPolicies:
    """Stands for the loader that would ask IAM for the ARNs of AWS's own policies."""

    def load(self) -> dict[str, str]:
        return {}


def transformed(path: Path, parameters: dict[str, Any]) -> Any:
    template = yaml_parse(path.read_text())
    for resource in template["Resources"].values():
        for name in ("CodeUri", "ContentUri"):
            if name in resource["Properties"]:
                resource["Properties"][name] = "s3://bucket/key"
    return transform(template, parameters, NoManagedPolicies())


if __name__ == "__main__":
    os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    json.dump(transformed(Path(sys.argv[1]), json.loads(sys.argv[2])), sys.stdout)
