"""The job queue on SQS. Its redrive policy (template.yaml) puts a job aside after five tries."""

from typing import Any

from deckhand.domain.errors import StorageUnavailable
from deckhand.domain.job import Job


class SqsQueue:
    """The client is made on first use: most requests send nothing."""

    def __init__(self, url: str, *, endpoint: str | None = None) -> None:
        self._url, self._endpoint = url, endpoint
        self._client: Any = None

    def send(self, job: Job) -> None:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError

        if self._client is None:
            self._client = boto3.client("sqs", endpoint_url=self._endpoint)
        try:
            self._client.send_message(QueueUrl=self._url, MessageBody=job.to_json())
        except (BotoCoreError, ClientError) as failed:
            raise StorageUnavailable() from failed
