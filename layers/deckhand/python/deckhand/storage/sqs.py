"""The job queue on SQS. Its redrive policy (template.yaml) puts a job aside after five tries."""

from collections.abc import Callable, Sequence
from typing import Any

from deckhand.domain.errors import StorageUnavailable
from deckhand.domain.job import Job

BATCH = 10
"""As many as SQS takes in a call."""


class SqsQueue:
    """The client is made on first use: most requests send nothing."""

    def __init__(self, url: str, *, endpoint: str | None = None) -> None:
        self._url, self._endpoint = url, endpoint
        self._client: Any = None

    def send(self, job: Job) -> None:
        self._call(lambda client: client.send_message(QueueUrl=self._url, MessageBody=job.to_json()))

    def send_many(self, jobs: Sequence[Job]) -> None:
        """In batches, which the permission to send one message covers, too. One alone needs none."""
        if len(jobs) == 1:
            self.send(jobs[0])
            return
        for start in range(0, len(jobs), BATCH):
            entries = [
                {"Id": str(number), "MessageBody": job.to_json()}
                for number, job in enumerate(jobs[start : start + BATCH])
            ]
            answer = self._call(
                lambda client, entries=entries: client.send_message_batch(QueueUrl=self._url, Entries=entries)  # type: ignore[misc]
            )
            if answer.get("Failed"):
                raise StorageUnavailable()

    def delay(self, receipt: str, seconds: float) -> None:
        hidden = {"ReceiptHandle": receipt, "VisibilityTimeout": int(seconds)}
        self._call(lambda client: client.change_message_visibility(QueueUrl=self._url, **hidden))

    def _call(self, call: Callable[[Any], Any]) -> Any:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError

        if self._client is None:
            self._client = boto3.client("sqs", endpoint_url=self._endpoint)
        try:
            return call(self._client)
        except (BotoCoreError, ClientError) as failed:
            raise StorageUnavailable() from failed
