"""Rules that decide the outcome: data, tried in order, each with a name. The common rules are in rules.toml.

All conditions of a rule must hold. A condition with a list holds if any entry matches. Words are compared without
regard to case.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Annotated, Any, Literal, NamedTuple, Self

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from harvester.exceptions import TooCostlyError
from harvester.outcomes.answer import LIKE_200, NO_ERROR, Answer
from harvester.outcomes.outcome import Outcome
from harvester.patterns import BoundedPattern, Expression

Kind = Literal["json", "html", "text", "other"]
Matches = Callable[[Answer], bool]


def _statuses(status: int | str) -> int | str:
    if isinstance(status, str) and not re.fullmatch("[1-9]xx", status):
        raise ValueError("is a number, or a class like 5xx")
    return status


def _template(reason: str) -> str:
    try:
        reason.format(said="", status=0, name="", head="")
    except (KeyError, IndexError, ValueError):
        raise ValueError("knows only {said}, {status}, {name} and {head}") from None
    return reason


Status = Annotated[int | str, AfterValidator(_statuses)]
Reason = Annotated[str, AfterValidator(_template)]
Words = Annotated[str, AfterValidator(str.lower), Field(min_length=3)]


class RuleBase(BaseModel):
    """The verdict of a rule that matches."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9-]{1,60}$")
    outcome: Outcome
    reason: Reason = "{said}"
    """May contain {said} (the whole text), {status}, {name} (name of a JSON error), {head} (its message up to a colon).
    """
    known: bool = True
    """True if the failure is understood; else it is counted as unclassified."""


class Rule(RuleBase):
    """A rule on an answer."""

    status: tuple[Status, ...] = ()
    """`404`, or `"5xx"`. 200 stands for 201 and 203 too."""
    header: tuple[Expression, ...] = ()
    """`name`, or `name: expression` that is searched in the header's value."""
    kind: tuple[Kind, ...] = ()
    """Kind of the body, see Answer.kind."""
    error: tuple[Expression, ...] = ()
    """The whole name or code of a JSON error, see answer.read_error. An empty text matches a body without an error."""
    message: tuple[Words, ...] = ()
    """Words in the message of a JSON error."""
    title: tuple[Words, ...] = ()
    """Words in the title of the page."""
    text: tuple[Words, ...] = ()
    """Words in the visible text of the page."""
    markup: tuple[Words, ...] = ()
    """Words in the beginning of the body, including markup."""
    pattern: tuple[Expression, ...] = ()
    """Expressions searched in the beginning of the body, including markup."""
    url: tuple[Expression, ...] = ()
    """Expressions searched in the address of the response, after redirects."""
    smaller: int | None = Field(None, gt=0)
    """Bytes that the body must be smaller than. Pages that a site puts in place of another are small."""
    bounced: bool | None = None
    """True to match only if a redirect led to another page than the requested one; False for the opposite."""
    wants_json: bool | None = None
    cut_short: bool | None = None
    conditional: bool | None = None
    """True to match only if the request asked for the page if it changed; False for the opposite."""

    @model_validator(mode="after")
    def _has_conditions(self) -> Self:
        if self.model_fields_set <= RuleBase.model_fields.keys():
            raise ValueError("It would match every answer: give it a condition")
        return self

    @staticmethod
    def _compile(pattern: str) -> Any:
        return re.compile(pattern, re.IGNORECASE)

    @property
    def reads_page(self) -> bool:
        """True if the rule searches words of a page. JSON that was delivered as requested has no such words."""
        return bool(self.title or self.text or self.markup)

    @cached_property
    def conditions(self) -> tuple[Matches, ...]:
        """The conditions, cheap ones first."""
        return tuple(self._conditions())

    def matches(self, answer: Answer) -> bool:
        """True if all conditions hold. The answer must be one that `is_about` accepts."""
        for condition in self.conditions:  # noqa: SIM110  a generator costs twice as much
            if not condition(answer):
                return False
        return True

    def is_about(self, status: int, kind: str, marked: bool, failing: bool, bounced: bool) -> bool:
        """True if the rule can match answers with these features. It is used to skip rules without trying them.

        `marked`: the answer has a header that rules name. `failing`: its JSON body has an error. `bounced`: see
        Answer.bounced.
        """
        fine = status in LIKE_200
        statuses = {status, f"{status // 100}xx", *((200,) if fine else ())}
        return (
            (not self.status or not statuses.isdisjoint(self.status))
            and (not self.kind or kind in self.kind)
            and not (self.reads_page and (kind == "other" or (kind == "json" and fine)))
            and (marked or not self.header)
            and (failing or not (self.message or (self.error and "" not in self.error)))
            and (self.bounced is None or self.bounced is bounced)
        )

    def _conditions(self) -> Iterator[Matches]:
        if self.smaller is not None:
            most = self.smaller
            yield lambda answer: len(answer.body) < most
        if self.url:
            in_url = self._compile(_any(self.url)).search
            yield lambda answer: in_url(answer.response.url) is not None
        if self.header:
            headers = [_header(each, self._compile) for each in self.header]
            yield lambda answer: any(is_there(answer) for is_there in headers)
        if self.error:
            is_error = self._compile(_any(self.error)).fullmatch
            yield lambda answer: is_error(answer.error.name) is not None
        if self.wants_json is not None:
            yield lambda answer: answer.wants_json is self.wants_json
        if self.cut_short is not None:
            yield lambda answer: answer.cut_short is self.cut_short
        if self.conditional is not None:
            yield lambda answer: answer.conditional is self.conditional
        if self.message:
            yield lambda answer: _has(answer.error.message.lower(), self.message)
        if self.title:
            yield lambda answer: _has(answer.title, self.title)
        if self.markup:
            yield lambda answer: _has(answer.markup, self.markup)
        if self.pattern:
            in_markup = self._compile(_any(self.pattern)).search
            yield lambda answer: in_markup(answer.markup) is not None
        if self.text:
            yield _says(self.text)


class OwnRule(Rule):
    """A rule in a site's entry: its patterns are written by users, and have a bound of time."""

    @staticmethod
    def _compile(pattern: str) -> Any:
        return BoundedPattern(pattern, ignore_case=True)


class FailureRule(RuleBase):
    """A rule on an exception: a request that got no answer."""

    reason: str = "{said}"
    error: tuple[str, ...] = Field(min_length=1)
    """Classes, as the package's name and their own: `scrapy.DownloadTimeoutError`. Subclasses count.

    Also the system's errors: `errno.EMFILE`.
    """
    text: tuple[Words, ...] = ()
    """Words in the message of the exception."""
    pattern: Expression | None = None
    """Expression searched in the message. `reason` can use its named groups, and `{mb}` if one is named `bytes`."""

    @cached_property
    def expression(self) -> re.Pattern[str]:
        return re.compile(self.pattern or "", re.IGNORECASE)

    def match(self, classes: set[str], said: str) -> dict[str, str] | None:
        """Returns the groups of the pattern; None when the rule does not match."""
        if classes.isdisjoint(self.error) or (self.text and not _has(said.lower(), self.text)):
            return None
        found = self.expression.search(said)
        if found is None:
            return None
        groups = found.groupdict(default="")
        return groups | {"mb": f"{int(groups['bytes']) / 2**20:g}"} if "bytes" in groups else groups


class RuleBook:
    """Rules in order. Rules that cannot match are skipped before they are tried."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._marks = frozenset(_header_name(each) for rule in self.rules for each in rule.header)
        self._about: dict[tuple[int, str, bool, bool, bool], tuple[Rule, ...]] = {}

    def first(self, answer: Answer) -> Rule | None:
        """Returns the first rule that matches."""
        marked = not self._marks.isdisjoint(answer.response.headers)
        key = (answer.status, answer.kind, marked, answer.error is not NO_ERROR, answer.bounced)
        about = self._about.get(key)
        if about is None:
            about = self._about[key] = tuple(rule for rule in self.rules if rule.is_about(*key))
        for rule in about:
            try:
                if rule.matches(answer):
                    return rule
            except TooCostlyError as error:  # the page cannot be classified
                said = str(error).replace("{", "{{").replace("}", "}}")
                return rule.model_copy(update={"outcome": Outcome.INVALID, "reason": said})
        return None


class SiteRules(NamedTuple):
    """The part of a site's entry about responses."""

    book: RuleBook | None = None
    """Rules that are tried before the common ones."""
    page_ending: str = ""
    """Text at the end of every complete HTML page of the site."""


NO_RULES = SiteRules()


class CommonRules(BaseModel):
    """The content of rules.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    answers: tuple[Rule, ...]
    failures: tuple[FailureRule, ...]


@lru_cache(maxsize=1)
def common_rules() -> CommonRules:
    """Returns the rules that hold for all sites."""
    text = (files("harvester.outcomes") / "rules.toml").read_bytes()
    return TypeAdapter(CommonRules).validate_python(msgspec.toml.decode(text))


@lru_cache(maxsize=1)
def common_book() -> RuleBook:
    return RuleBook(common_rules().answers)


def _any(patterns: Iterable[str]) -> str:
    return "|".join(f"(?:{pattern})" for pattern in patterns)


def _has(text: str, words: tuple[str, ...]) -> bool:
    for each in words:  # noqa: SIM110
        if each in text:
            return True
    return False


def _says(phrases: tuple[str, ...]) -> Matches:
    """Matches a page whose visible text has one of the phrases.

    Most pages lack the words already in their markup, which is much faster to check.
    """
    longest_first = [sorted(re.findall("[a-z]{4,}", phrase), key=len, reverse=True) for phrase in phrases]

    def says(answer: Answer) -> bool:
        for phrase, words in zip(phrases, longest_first, strict=True):
            for word in words:
                if word not in answer.small_page:
                    break
            else:
                if phrase in answer.text:
                    return True
        return False

    return says


def _header_name(condition: str) -> bytes:
    return condition.partition(":")[0].strip().title().encode()


def _header(condition: str, compiled: Callable[[str], Any]) -> Matches:
    name, search = _header_name(condition), compiled(condition.partition(":")[2].strip()).search

    def is_there(answer: Answer) -> bool:
        values: list[bytes] = dict.get(answer.response.headers, name, [])
        return any(search(value.decode("latin-1")) for value in values)

    return is_there
