"""Numbers of a sentence, so that a test holds them without the sentence's words."""

import re

_NUMBER = re.compile(r"(?<![\w.-])\d+(?:,\d{3})*(?:\.\d+)?")


def numbers_of(text: str) -> list[float]:
    """Returns the numbers of a text, in their order: of "7 of 1,203 (0.5%)" these are 7, 1203 and 0.5."""
    return [float(each.replace(",", "")) for each in _NUMBER.findall(text)]
