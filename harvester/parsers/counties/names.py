"""Separates the names of owners from addresses, agents and notices."""

import re
from collections.abc import Sequence
from enum import StrEnum
from itertools import takewhile

_STATES = (
    "AL AK AZ AR CA CO CT DE DC FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH OK OR"
    " PA PR RI SC SD TN TX UT VT VA WA WV WI WY GU VI AS MP AA AE AP"
).replace(" ", "|")
_COUNTRIES = (
    "CANADA|MEXICO|UNITED KINGDOM|ENGLAND|SCOTLAND|IRELAND|FRANCE|GERMANY|ITALY|SPAIN|SWITZERLAND|AUSTRIA|NETHERLANDS"
    "|BELGIUM|SWEDEN|NORWAY|DENMARK|ISRAEL|JAPAN|CHINA|HONG KONG|TAIWAN|SINGAPORE|SOUTH KOREA|INDIA|AUSTRALIA"
    "|NEW ZEALAND|BRAZIL|ARGENTINA|CHILE|COLOMBIA|VENEZUELA|COSTA RICA|PANAMA|BAHAMAS|BERMUDA"
)
_STREETS = (
    "ALLEY ALY AVE AVENUE AV BLVD BOULEVARD BND CIR CIRCLE CT COURT CV COVE DR DRIVE HWY HIGHWAY LN LANE LOOP PIKE PKWY"
    " PARKWAY PL PLACE PLZ PLAZA RD ROAD RTE ROUTE SQ SQUARE ST STREET TER TERR TERRACE TPKE TRL TRAIL WAY"
).replace(" ", "|")
_is_care_of = re.compile(r"%\s*\S|c\s*[/\\]\s*o\b|c\.o\.|(in )?care of\b|attn\b|attention\b", re.IGNORECASE).match
_is_box = re.compile(
    r"p\.?\s*o\.?\s*(box|drawer)\b|post office box\b|(rr|hc|rural route|rt|star route|psc|cmr)\s*#?\s*\d+\b.*\bbox\b"
    r"|unit \d+ box \d",
    re.IGNORECASE,
).match
is_city = re.compile(rf".*[a-z].*\b(?:{_STATES})\.?,?\s+\d{{5}}(?:[- ]?\d{{4}})?", re.IGNORECASE).fullmatch
"""Matches a line that ends with a city, its state and ZIP code."""
_is_street = re.compile(
    rf"\d+[a-z]?(?:[-/]\d+[a-z]?)?\s+(?:\S+\s+){{1,5}}?(?:{_STREETS})\.?(?:\s+[NSEW]{{1,2}}\.?)?"
    r"(?:,?\s+(?:apt|unit|ste|suite|fl|floor|lot|bldg|#).*)?",
    re.IGNORECASE,
).fullmatch
_is_abroad = re.compile(rf"(?:.*\W)?(?:{_COUNTRIES})\.?", re.IGNORECASE).fullmatch
_is_number_word = re.compile(
    rf"(?:one|two|three|four|five|six|ten)\s.*\b(?:{_STREETS}|center|tower)", re.IGNORECASE
).fullmatch
_is_share = re.compile(r"%|\b\d+/\d+\b").search
_is_house = re.compile(r"\d+\S{0,5}\s+\S.*").fullmatch
_is_company = re.compile(
    r"\b(?:llc|l\.l\.c|inc|corp|co|company|ltd|l?lp|trust|trustees?|bank|assoc\w*|assn|partner\w*|holdings?|propert\w+"
    r"|foundation)\b",
    re.IGNORECASE,
).search

_is_unit = re.compile(r"(?:apt|unit|ste|suite|floor|bldg|#)\.?\s*#?\s*[\w-]+", re.IGNORECASE).fullmatch
is_notice = re.compile(
    r"[*\s\[(<-]*(?:(?:the|this|owners?'?s?|names?|information|records?|data|not|is|are|no|public|various|multiple)\s+)*"
    r"(?:confidential|withheld|redacted|suppressed|restricted|protected|undisclosed|private|unavailable|unlisted"
    r"|not (?:available|shown|public|on file|disclosed|displayed|released)|non-?disclosure|privacy"
    r"|unknown(?: owners?)?|owners?(?: names?| of record)?"
    r"|exempt(?:ion)?|current owner|n/?a|none|null|tbd|x{4,})"
    r"(?: (?:owners?|names?|information|records?|data|by (?:law|request|owner)|(?:per|under|pursuant to|from) .*))?"
    r"[*.\s\])>-]*"
    r"|.*\b(?:password[- ]protected|please (?:log|sign) ?in|(?:log|sign) ?in to (?:view|see)|click here|privacy act"
    r"|not (?:shown|displayed|available) online|for privacy reasons|by state statute|exempt from public)\b.*",
    re.IGNORECASE,
).fullmatch
"""Matches a notice in place of a withheld name or address: `CONFIDENTIAL`, `please log in`."""
MAX_LINE = 300
"""Maximum number of characters of a name. A longer text is about something else."""


_START, _AGENT, _ADDRESS = range(3)
"""The part that the line above belongs to."""


class LineKind(StrEnum):
    """The kind of a line in a cell with owners."""

    NAME = "name"
    MAILING = "mailing"
    """An agent, or a part of an address."""
    NOTICE = "notice"
    """A notice in place of a name."""


def line_kinds(lines: Sequence[str], *, with_address: bool = False) -> list[LineKind]:
    """Returns the kinds of the lines. No line may be empty.

    The first line is a name unless its form excludes that. A name between an agent and an address is the agent's.
    `with_address`: an address follows the names; if no form reveals it, it starts at the first house number.
    """
    found: list[LineKind] = []
    part = _START
    lines = [line.rstrip(" ,;") for line in lines]
    for line, below in zip(lines, [*lines[1:], ""], strict=False):
        if _is_care_of(line):
            kind, part = LineKind.MAILING, _AGENT
        elif (
            (_is_box(line) and not _is_company(line))
            or is_city(line)
            or (found and _is_of_address(line, below, within=bool(part)))
        ):
            kind, part = LineKind.MAILING, _START if is_city(line) else _ADDRESS
        elif len(line) > MAX_LINE or is_notice(line) or _is_number(line):
            kind = LineKind.NOTICE
        elif part == _ADDRESS or (part == _AGENT and (_is_box(below) or is_city(below) or _is_below_name(below))):
            kind = LineKind.MAILING
        else:
            kind, part = LineKind.NAME, _START
        found.append(kind)
    for end in (at for at, line in enumerate(lines) if at and (is_city(line) or _is_abroad(line))):
        begin = next((at for at in range(end - 1, -1, -1) if not at or not _may_be_above_city(lines[at])), 0) + 1
        if begin < end:
            found[begin : end + 1] = [LineKind.MAILING] * (end + 1 - begin)
    if with_address and LineKind.MAILING not in found:
        houses = (at for at, line in enumerate(lines) if at and _is_house(line) and _may_be_above_city(line))
        begin = next(houses, len(lines))
        found[begin:] = [LineKind.MAILING] * (len(lines) - begin)
    return found


def agents_only(lines: Sequence[str]) -> list[str]:
    """Returns the agents above an address among the owners, for a parcel whose address is also shown elsewhere."""
    return list(takewhile(lambda line: not (_is_box(line) or is_city(line) or _is_house(line)), lines))


def care_of(name: str) -> str:
    """Returns the line of an address that names the recipient, with C/O if it has no such mark."""
    return name if _is_care_of(name) else f"C/O {name}"


def _is_of_address(line: str, below: str, *, within: bool) -> bool:
    """Returns True for a line below a name if it is a street, a number within an address, or a house above its city."""
    is_house = bool(_is_house(line)) and not _is_company(line) and bool(is_city(below))
    return is_house or _is_below_name(line) or (within and _is_number(line))


def _may_be_above_city(line: str) -> bool:
    """Returns True if a line between a name and a city or country may belong to the address: it has a number."""
    has_number = any(map(str.isdigit, line)) and not _is_share(line)
    return bool(has_number or _is_number_word(line)) and not _is_company(line)


def _is_number(line: str) -> bool:
    return not any(map(str.isalpha, line))


def _is_below_name(line: str) -> bool:
    """Returns True for a line that belongs to an address if a name is above it: alone, `12 OAK ST` may be a company."""
    return bool(_is_street(line) or _is_unit(line))
