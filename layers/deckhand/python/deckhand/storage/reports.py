"""Ingested reports: texts in a bucket, or in a local folder. The port has two implementations."""

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
        if not file.is_file():
            return None
        changed = datetime.fromtimestamp(file.stat().st_mtime, UTC)
        return StoredReport(name, file.read_bytes().decode("utf-8", "replace"), changed.isoformat(timespec="seconds"))

    def put(self, name: str, text: str) -> bool:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file, draft = self._folder / name, self._folder / f"{name}.new"
            new = not file.exists()
            draft.write_bytes(text.encode())
            draft.replace(file)
        except OSError as failed:
            raise StorageUnavailable() from failed
        return new

    def remove(self, name: str) -> bool:
        file = self._folder / name
        if not file.is_file():
            return False
        file.unlink()
        return True


class BucketReports:
    """One object a report, under the tenant's prefix."""

    def __init__(self, bucket: str, prefix: str, *, endpoint: str | None = None) -> None:
        self._bucket, self._prefix, self._endpoint = bucket, prefix, endpoint
        self._client: Any = None

    def get(self, name: str) -> StoredReport | None:
        from botocore.exceptions import ClientError

        try:
            found = self._s3().get_object(Bucket=self._bucket, Key=self._prefix + name)
            text = found["Body"].read().decode("utf-8", "replace")
        except ClientError as failed:
            if failed.response["Error"]["Code"] in ("NoSuchKey", "404"):
                return None
            raise StorageUnavailable() from failed
        return StoredReport(name, text, found["LastModified"].astimezone(UTC).isoformat(timespec="seconds"))

    def put(self, name: str, text: str) -> bool:
        new = self.get(name) is None
        self._call(
            "put_object",
            Bucket=self._bucket,
            Key=self._prefix + name,
            Body=text.encode(),
            ContentType="text/plain; charset=utf-8",
        )
        return new

    def remove(self, name: str) -> bool:
        if self.get(name) is None:
            return False
        self._call("delete_object", Bucket=self._bucket, Key=self._prefix + name)
        return True

    def _s3(self) -> Any:
        import boto3

        if self._client is None:
            self._client = boto3.client("s3", endpoint_url=self._endpoint)
        return self._client

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(self._s3(), method)(*args, **kwargs)
        except (BotoCoreError, ClientError) as failed:
            raise StorageUnavailable() from failed
