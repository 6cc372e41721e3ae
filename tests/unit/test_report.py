"""Reports: their front matter, and the catalogue that the prompt shows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deckhand.domain.report import CATALOGUE_BYTES, MAX_BULLET, MAX_BULLETS, Report, catalogue, parse, valid_name

TAKEN_IN = "2026-04-20T08:00:00+00:00"


def scan(name: str = "blood.md", *, status: str = "unverified", date: str = "2026-03-01", bullets: int = 1) -> Report:
    lines = [f"title: Panel\ndate: {date}\nstatus: {status}\nformat: scan\nsummary:"]
    lines += [f"  - Ferritin {n}" for n in range(bullets)]
    return parse(name, "---\n" + "\n".join(lines) + "\n---\nFerritin 30\n", TAKEN_IN)


def written(name: str, date: str, *, title: str = "Note", bullet: str = "") -> Report:
    return parse(name, f"---\ntitle: {title}\ndate: {date}\nsummary:\n- {bullet}\n---\ntext", TAKEN_IN)


def test_a_text_without_front_matter_is_a_report_of_the_day_it_came() -> None:
    report = parse("a.md", "just text", TAKEN_IN)
    assert (report.title, report.date, report.format, report.verified) == ("a.md", "2026-04-20", "text", True)
    assert report.text == "just text"


def test_the_front_matter_is_no_part_of_the_text() -> None:
    report = scan()
    assert (report.title, report.date, report.format) == ("Panel", "2026-03-01", "scan")
    assert report.bullets == ("Ferritin 0",)
    assert report.text == "Ferritin 30\n"
    assert report.size == len(b"Ferritin 30\n")


@pytest.mark.parametrize("status", ["unverified", "", "ok", "Verified!"])
def test_a_scan_is_unverified_until_it_says_verified(status: str) -> None:
    assert scan(status=status).verified is False
    assert scan(status="verified").verified is True


@pytest.mark.parametrize("format_", ["Scan", "SCAN ", "photo", "Image"])
def test_the_kind_of_a_scan_is_known_however_it_is_written(format_: str) -> None:
    assert parse("a.md", f"---\nformat: {format_}\n---\nx", TAKEN_IN).verified is False


def test_a_report_is_summed_up_in_few_short_lines() -> None:
    report = parse("a.md", "---\nsummary:\n" + f"- {'x' * 1000}\n" * 9 + "---\n", TAKEN_IN)
    assert len(report.bullets) == MAX_BULLETS
    assert {len(bullet) for bullet in report.bullets} == {MAX_BULLET}


@given(st.text())
def test_any_text_is_a_report(text: str) -> None:
    report = parse("a.md", text, TAKEN_IN)
    assert text.endswith(report.text)


def test_the_catalogue_is_empty_without_reports() -> None:
    assert catalogue([]) == ""


def test_the_catalogue_begins_with_the_newest_document() -> None:
    text = catalogue([written("old.md", "2025-01-01"), written("new.md", "2026-01-01")])
    assert text.index("new.md") < text.index("old.md")


def test_the_catalogue_withholds_what_nobody_checked_and_what_was_rejected() -> None:
    text = catalogue([scan("a.md"), scan("b.md", status="rejected"), scan("c.md", status="verified")])
    assert text.count("Ferritin") == 1
    assert "not checked" in text
    assert "rejected" in text


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=300), max_size=120))
def test_the_catalogue_has_at_most_8000_bytes(titles: list[str]) -> None:
    made = [written(f"r{n}.md", "2026-01-01", title=title, bullet=title) for n, title in enumerate(titles)]
    assert len(catalogue(made).encode()) <= CATALOGUE_BYTES == 8_000


def test_the_catalogue_says_how_many_it_left_out() -> None:
    made = [written(f"r{n:03d}.md", "2026-01-01", bullet="é" * 200) for n in range(100)]
    text = catalogue(made)
    listed = text.count("- r")
    assert listed < 100
    assert f"({100 - listed} older" in text


@pytest.mark.parametrize("name", ["..", "a..b", ".hidden", "a/b", "a\\b", "", "a" * 129, "a\x00", "ä.md", "a b", "a\n"])
def test_a_name_that_could_lead_elsewhere_is_none(name: str) -> None:
    assert not valid_name(name)


@pytest.mark.parametrize("name", ["blood.md", "2026-03-01_panel.txt", "A", "a" * 128])
def test_a_plain_name_is_one(name: str) -> None:
    assert valid_name(name)
