"""Ingested reports: texts in a bucket, or in a local folder. The port has two implementations."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from deckhand.domain.errors import StorageUnavailable


@dataclass(frozen=True, slots=True)
class StoredReport:
    """`text` is the whole text; `ingested_at` an instant in ISO 8601."""

    name: str
    text: str
    ingested_at: str


class Reports(Protocol):
    """Names are checked by the caller. Raises `StorageUnavailable`."""

    def get(self, name: str) -> StoredReport | None: ...

    def put(self, name: str, text: str) -> bool:
        """True when the report is new."""
        ...

    def remove(self, name: str) -> bool: ...


class FolderReports:
    """One file a report. The folder is made with the first one."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)

    def get(self, name: str) -> StoredReport | None:
        file = self._folder / name
        try:
            changed, text = file.stat().st_mtime, file.read_bytes().decode("utf-8", "replace")
        except (FileNotFoundError, IsADirectoryError):
            return None
        except OSError as failed:
            raise StorageUnavailable() from failed
        return StoredReport(name, text, datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds"))

    def put(self, name: str, text: str) -> bool:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            # No report's name begins with a dot.
            file, draft = self._folder / name, self._folder / f".{name}.new"
            new = not file.exists()
            draft.write_bytes(text.encode())
            draft.replace(file)
        except OSError as failed:
            raise StorageUnavailable() from failed
        return new

    def remove(self, name: str) -> bool:
        try:
            (self._folder / name).unlink()
        except FileNotFoundError:
            return False
        except OSError as failed:
            raise StorageUnavailable() from failed
        return True


class BucketReports:
    """One object a report, under the tenant's prefix."""

    def __init__(self, bucket: str, prefix: str, *, endpoint: str | None = None) -> None:
        self._bucket, self._prefix, self._endpoint = bucket, prefix, endpoint
        self._client: Any = None

    def get(self, name: str) -> StoredReport | None:
        found = self._found("get_object", name)
        if found is None:
            return None
        text = self._call(found["Body"].read).decode("utf-8", "replace")
        return StoredReport(name, text, found["LastModified"].astimezone(UTC).isoformat(timespec="seconds"))

    def put(self, name: str, text: str) -> bool:
        new = self._found("head_object", name) is None
        self._call(
            self._s3().put_object,
            Bucket=self._bucket,
            Key=self._prefix + name,
            Body=text.encode(),
            ContentType="text/plain; charset=utf-8",
        )
        return new

    def remove(self, name: str) -> bool:
        if self._found("head_object", name) is None:
            return False
        self._call(self._s3().delete_object, Bucket=self._bucket, Key=self._prefix + name)
        return True

    def _found(self, method: str, name: str) -> Any:
        """What S3 says of the object; None when there is none."""
        from botocore.exceptions import ClientError

        try:
            return self._call(getattr(self._s3(), method), Bucket=self._bucket, Key=self._prefix + name)
        except StorageUnavailable as failed:
            refused = failed.__cause__
            if isinstance(refused, ClientError) and refused.response["Error"]["Code"] in ("NoSuchKey", "404"):
                return None
            raise

    def _s3(self) -> Any:
        import boto3

        if self._client is None:
            self._client = boto3.client("s3", endpoint_url=self._endpoint)
        return self._client

    def _call(self, method: Callable[..., Any], **given: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return method(**given)
        except (BotoCoreError, ClientError) as failed:
            raise StorageUnavailable() from failed
