"""Runs bounded functions: `python -m harvester.bounded.child`. The process ends when its standard input is closed."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from importlib import import_module
from traceback import format_exception
from typing import Any, BinaryIO

from harvester.bounded.frames import ITEM, PART, RAISED, READY, RESULT, dumps_in_parts, read_frame, write_frame


def serve(calls: BinaryIO, answers: BinaryIO) -> None:
    """Answers one call after the other. The parent enforces the limits; this process limits only its own CPU time."""

    def answer(kind: str, value: Any) -> None:
        write_frame(answers, (kind, value))
        answers.flush()

    with suppress(EOFError):
        while True:
            (module, name, cpu_s), _ = read_frame(calls)
            function: Any = reduce(getattr, name.split("."), import_module(module))
            answer(READY, None)
            arguments, _ = read_frame(calls)
            _bound_time(cpu_s)
            _answer(function, arguments, answer)
            del arguments


def _answer(function: Callable[..., Any], arguments: tuple[Any, ...], answer: Callable[[str, Any], None]) -> None:
    try:
        result = function(*arguments)
        if hasattr(result, "__next__"):
            for each in result:
                answer(ITEM, each)
            result = []
        answer(RESULT, dumps_in_parts(result, lambda part: answer(PART, part)))
    except Exception as error:  # noqa: BLE001  raised again by the parent
        answer(RAISED, (type(error), error.args, error.__dict__, "".join(format_exception(error))))


def _bound_time(cpu_s: float) -> None:
    """Limits the CPU time of this process, in case the parent is dead and cannot end it."""
    try:
        import resource
    except ImportError:  # Windows
        return
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (int(used + 2 * cpu_s) + 1, resource.RLIM_INFINITY))


if __name__ == "__main__":
    stdin, stdout = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a function that prints must not write into the answers
    sys.stdin.close()
    serve(stdin, stdout)
