"""Reports: texts that were taken in, with an optional front matter, and the catalogue that the prompt shows.

---
title: Blood panel
date: 2026-03-01
status: unverified
format: scan
summary:
  - Ferritin 30
---
"""

import re
from collections.abc import Iterable

from deckhand.domain.model import Model

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
MAX_BYTES = 1024 * 1024
CATALOGUE_BYTES, NOTE_BYTES = 8_000, 100
MAX_BULLETS, MAX_BULLET = 5, 200
SCANS = ("scan", "photo", "image")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class Report(Model):
    """`date` is the one on the document, else the day it was taken in. `verified` False: a scan whose text nobody has
    checked. `size` is the text's length in bytes."""

    name: str
    ingested_at: str
    title: str
    date: str
    format: str
    verified: bool
    rejected: bool
    bullets: tuple[str, ...]
    size: int
    text: str = ""


def valid_name(name: str) -> bool:
    return NAME.fullmatch(name) is not None and ".." not in name


def parse(name: str, raw: str, ingested_at: str) -> Report:
    """Never fails: a text without front matter is a hand-written report."""
    fields, bullets, text = _front_matter(raw)
    status, source = fields.get("status", "").lower(), fields.get("format", "text").lower()
    date = fields.get("date", "")
    return Report(
        name=name,
        ingested_at=ingested_at,
        title=fields.get("title", name)[:200],
        date=date if _DATE.fullmatch(date) else ingested_at[:10],
        format=source,
        verified=status == "verified" or (status != "unverified" and source not in SCANS),
        rejected=status == "rejected",
        bullets=tuple(bullet[:MAX_BULLET] for bullet in bullets[:MAX_BULLETS]),
        size=len(text.encode()),
        text=text,
    )


def _front_matter(raw: str) -> tuple[dict[str, str], list[str], str]:
    # A byte order mark or blank lines before it must not hide that a scan is unverified.
    lines = raw.lstrip("\ufeff \t\r\n").split("\n")
    if lines[0].strip() != "---":
        return {}, [], raw
    end = next((n for n, line in enumerate(lines[1:], start=1) if line.strip() == "---"), None)
    if end is None:
        return {}, [], raw
    fields: dict[str, str] = {}
    bullets: list[str] = []
    for line in lines[1:end]:
        if line.lstrip().startswith("- "):
            bullets.append(line.lstrip()[2:].strip())
        elif ":" in line:
            key, _, value = line.partition(":")
            fields[key.strip().lower()] = value.strip().strip("\"'")
    return fields, bullets, "\n".join(lines[end + 1 :])


def catalogue(reports: Iterable[Report]) -> str:
    """Newest document first, within 8,000 bytes including the note on what was left out; empty without reports."""
    ordered = sorted(reports, key=lambda report: (report.date, report.name), reverse=True)
    blocks: list[str] = []
    size = 0
    for number, report in enumerate(ordered, start=1):
        block = _entry(report)
        size += len(block.encode())
        room = CATALOGUE_BYTES if number == len(ordered) else CATALOGUE_BYTES - NOTE_BYTES
        if size > room:
            left = len(ordered) - len(blocks)
            return "".join(blocks) + f"({left} older reports are not listed; read_report knows them by name.)\n"
        blocks.append(block)
    return "".join(blocks)


def _entry(report: Report) -> str:
    head = f"- {report.name}: {report.title} ({report.format}, {report.date})"
    if report.rejected:
        return f"{head} rejected: ignore it\n"
    if not report.verified:
        return f"{head} not checked by a person yet: its text is withheld\n"
    return "".join([f"{head}\n", *(f"  - {bullet}\n" for bullet in report.bullets)])
