"""Secret settings: given as they are, or as `ssm:<parameter>` and read from the Parameter Store."""

CACHE_S = 300


def resolve(value: str | None) -> str | None:
    """The secret itself. Parameter Store values are kept for five minutes."""
    if value is None or not value.startswith("ssm:"):
        return value
    from aws_lambda_powertools.utilities import parameters

    return parameters.get_parameter(value.removeprefix("ssm:"), decrypt=True, max_age=CACHE_S)
