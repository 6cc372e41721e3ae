"""Imported by each handler before anything else: keeps out of a start what no start needs.

botocore looks for urllib3's adapter of pyOpenSSL, which passkeys bring along, and takes nothing from it but the class
of the standard library. Without the adapter it takes the same class directly, some 50 ms sooner.
"""

import sys

sys.modules.setdefault("urllib3.contrib.pyopenssl", None)  # type: ignore[arg-type]
