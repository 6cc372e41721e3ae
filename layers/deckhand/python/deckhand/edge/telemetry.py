"""What operators see of a turn: one log line a step when asked for, one set of metrics a turn. Structure only,
never text.
"""

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from deckhand.agent.outcome import Outcome, Step

logger = Logger(child=True)

NAMESPACE, SERVICE = "Deckhand", "deckhand"


class Telemetry:
    """Metrics are flushed at the turn's end: the handler's own decorators end before a stream does."""

    def __init__(self, *, debug: bool) -> None:
        self._debug = debug
        self._first_text_ms: dict[str, float] = {}

    def step(self, turn_id: str, step: Step) -> None:
        if step.first_text_ms is not None:
            self._first_text_ms.setdefault(turn_id, step.first_text_ms)
        if self._debug:
            usage = step.usage
            logger.info(
                "chat step",
                turn=turn_id,
                iter=step.number,
                gw_ms=round(step.total_ms),
                first_text_ms=None if step.first_text_ms is None else round(step.first_text_ms),
                finish=step.finish,
                tools=list(step.tools),
                usage="none" if usage is None else None,
                input=usage.input_tokens if usage else None,
                output=usage.output_tokens if usage else None,
                cached=usage.cached_tokens if usage else None,
                cwrite=usage.cache_write_tokens if usage else None,
            )

    def ended(self, turn_id: str, outcome: Outcome) -> None:
        metrics = Metrics(namespace=NAMESPACE, service=SERVICE)
        metrics.add_dimension(name="outcome", value=outcome.capped_by or outcome.status)
        metrics.add_metric(name="Turns", unit=MetricUnit.Count, value=1)
        metrics.add_metric(name="Steps", unit=MetricUnit.Count, value=outcome.steps)
        if (first := self._first_text_ms.pop(turn_id, None)) is not None:
            metrics.add_metric(name="TimeToFirstToken", unit=MetricUnit.Milliseconds, value=first)
        if (usage := outcome.usage) is not None:
            metrics.add_metric(name="InputTokens", unit=MetricUnit.Count, value=usage.input_tokens)
            metrics.add_metric(name="OutputTokens", unit=MetricUnit.Count, value=usage.output_tokens)
            metrics.add_metric(name="CachedTokens", unit=MetricUnit.Count, value=usage.cached_tokens)
            metrics.add_metric(name="CacheWriteTokens", unit=MetricUnit.Count, value=usage.cache_write_tokens)
        metrics.flush_metrics()
