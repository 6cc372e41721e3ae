"""What ends a command with one line for the person who gave it."""


class CommandError(Exception):
    """The message is one sentence, without anything secret in it."""

    def __init__(self, sentence: str) -> None:
        super().__init__(" ".join(sentence.split()))
