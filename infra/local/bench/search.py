"""How long a search of all that one person may keep takes over HTTP."""

from collections.abc import Iterator
from typing import Any

from infra.local.bench.bench_stack import BenchStack, timed
from infra.local.bench.numbers import Measure, at_most, measure

CONVERSATIONS, MESSAGES, CHARS = 100, 200, 500


def search_measures(stack: BenchStack) -> Iterator[Measure]:
    api = stack.api()
    for number in range(CONVERSATIONS):
        api.call("POST", "/api/conversations", {"title": f"Talk {number}", "messages": _messages(number)})
    for name, wanted in (("of which each has the word", "weight"), ("of which one has the word", "talk-007")):
        samples = [timed(api, "POST", "/api/conversations/search", {"q": wanted}) for _ in range(10)]
        yield measure(f"search 100 × 200 messages, {name}", "ms", samples, at_most(1_500))
    api.close()


def _messages(number: int) -> list[dict[str, Any]]:
    """The words that are looked for stand in the oldest one."""
    texts = [f"{n} of talk-{number:03} and weight." if n == 0 else f"{n} of many more." for n in range(MESSAGES)]
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": text.ljust(CHARS, "x")} for n, text in enumerate(texts)]
