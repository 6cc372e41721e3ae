"""Both places where reports lie, by one suite: a folder, and a bucket."""

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from deckhand.domain.errors import StorageUnavailable
from deckhand.storage.reports import BucketReports, FolderReports, Reports

TEXT = "---\ntitle: Blüte\n---\r\nFerritin 30 \u2028🙂\n"


@pytest.fixture(params=["folder", "bucket"])
def reports(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reports]:
    if request.param == "folder":
        yield FolderReports(tmp_path / "reports")
        return
    for name, value in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "test"), ("DEFAULT_REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    with mock_aws():
        boto3.client("s3").create_bucket(Bucket="reports")
        yield BucketReports("reports", "main/reports/")


def test_a_report_is_kept_to_the_letter(reports: Reports) -> None:
    assert reports.put("blood.md", TEXT) is True
    stored = reports.get("blood.md")
    assert stored is not None
    assert (stored.name, stored.text) == ("blood.md", TEXT)
    assert stored.ingested_at.endswith("+00:00")


def test_a_report_is_put_again_as_the_same(reports: Reports) -> None:
    reports.put("a.md", "old")
    assert reports.put("a.md", "new") is False
    stored = reports.get("a.md")
    assert stored is not None
    assert stored.text == "new"


def test_what_is_not_there_is_nothing(reports: Reports) -> None:
    assert reports.get("a.md") is None
    assert reports.remove("a.md") is False


def test_a_removed_report_is_gone_and_no_other(reports: Reports) -> None:
    reports.put("a.md", "a")
    reports.put("a.md.new", "b")
    assert reports.remove("a.md") is True
    assert reports.get("a.md") is None
    assert reports.get("a.md.new") is not None


def test_a_folder_that_cannot_be_used_is_a_store_that_failed(tmp_path: Path) -> None:
    (tmp_path / "reports").write_text("a file")
    reports = FolderReports(tmp_path / "reports")
    for use in (lambda: reports.put("a.md", "a"), lambda: reports.get("a.md"), lambda: reports.remove("a.md")):
        with pytest.raises(StorageUnavailable):
            use()


@mock_aws
def test_a_bucket_that_cannot_be_reached_is_a_store_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "test"), ("DEFAULT_REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    with pytest.raises(StorageUnavailable):
        BucketReports("nowhere", "main/").get("a.md")
