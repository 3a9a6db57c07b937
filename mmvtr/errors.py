"""Errors that a user can mend, and no built-in class says."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator


class UserError(RuntimeError):
    """Raised for what a user can mend: a damaged file, weights of another model, a missing state.

    A tool prints its message alone (:mod:`mmvtr.cli.start`).
    """


class AlreadyReported(UserError):
    """Raised for what another process has printed: a tool ends with ``status`` alone."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


class UnknownKey(UserError, KeyError):
    """Raised for a name that is not in a table; its text is a sentence, without quotes."""

    def __str__(self) -> str:
        return str(self.args[0])


@contextmanager
def refusing_code(name: str) -> Iterator[None]:
    """Replace a library's refusal to run a model's own code with a one-sentence error.

    Args:
        name: the model's name, for the message.

    Raises:
        ValueError: the model that is loaded inside needs ``trust_remote_code``.
    """
    try:
        yield
    except ValueError as error:
        if 'trust_remote_code' not in str(error):
            raise
        raise ValueError(
            f'{name[-200:]} cannot be loaded without code that comes with it, which is not run: '
            'look at that code, and give the model in code or in a config of your own'
        ) from error
