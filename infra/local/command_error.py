"""What ends a command with one line for the person who gave it."""

from infra.local.terminal_text import one_line


class CommandError(Exception):
    """The message is one sentence, without anything secret in it."""

    def __init__(self, sentence: str) -> None:
        super().__init__(one_line(sentence))
