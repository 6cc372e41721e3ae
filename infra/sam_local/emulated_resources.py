"""Makes the tables, bucket and queue that environment.json names, in an emulator of AWS: `sam local` makes none.

    .venv/bin/python infra/sam_local/emulated_resources.py http://172.17.0.1:4566

Prints the queue's URL.
"""

import sys

import boto3


def make(endpoint: str) -> str:
    session = boto3.Session("test", "test", region_name="us-east-1")
    dynamodb = session.client("dynamodb", endpoint_url=endpoint)
    for table in ("deck", "turns", "identity"):
        dynamodb.create_table(
            TableName=table,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        )
    session.client("s3", endpoint_url=endpoint).create_bucket(Bucket="reports")
    return session.client("sqs", endpoint_url=endpoint).create_queue(QueueName="jobs")["QueueUrl"]


if __name__ == "__main__":
    print(make(sys.argv[1]))
