"""What of a log the console shows.  The log file has all of it."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from typing import Iterator


def consoles(logger: logging.Logger) -> list[logging.Handler]:
    """Return a logger's handlers that write to no file."""
    return [h for h in logger.handlers if not isinstance(h, logging.FileHandler)]


@contextmanager
def file_only(logger: logging.Logger) -> Iterator[None]:
    """Send all but errors to the log file alone within this context."""

    def errors(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR

    shown = consoles(logger)
    for handler in shown:
        handler.addFilter(errors)
    try:
        yield
    finally:
        for handler in shown:
            handler.removeFilter(errors)


class _Kept(logging.Handler):
    """Handler that collects distinct messages."""

    def __init__(self, kept: list[str]) -> None:
        super().__init__(logging.WARNING)
        self.kept = kept

    def emit(self, record: logging.LogRecord) -> None:
        message = ' '.join(record.getMessage().split())
        if message not in self.kept:
            self.kept.append(message)


@contextmanager
def warnings_of(logger: logging.Logger) -> Iterator[list[str]]:
    """Collect a logger's warnings within this context, each once."""
    kept: list[str] = []
    handlers, level = logger.handlers, logger.level
    logger.handlers = [_Kept(kept)]
    logger.setLevel(logging.WARNING)
    try:
        yield kept
    finally:
        logger.handlers = handlers
        logger.setLevel(level)


_LOGGED: set[str] = set()


@contextmanager
def without_repeats(logger: logging.Logger) -> Iterator[None]:
    """Suppress repeated messages within this context, also on consoles with :func:`is_new`.

    For what is done twice, once to see whether it can be done.
    """

    def first(record: logging.LogRecord) -> bool:
        new = is_new(record)
        _LOGGED.add(record.getMessage())
        return new

    logger.addFilter(first)
    try:
        yield
    finally:
        logger.removeFilter(first)


def is_new(record: logging.LogRecord) -> bool:
    """Return whether a message is new within :func:`without_repeats`."""
    return record.getMessage() not in _LOGGED


def raise_on_full_disk(logger: logging.Logger) -> None:
    """End the run if the log cannot be written; ``logging`` would print a trace per line."""
    for handler in logger.handlers:
        if isinstance(handler, logging.FileHandler):
            handler.handleError = _Raise(handler.baseFilename)


class _Raise:
    """Log handler that raises write errors with the name of the file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, self.path) from error
        raise error
