"""One worker's part of one host: who waits here, what may go, and what must be asked of Redis. No traffic, no clock."""

import random
from asyncio import Future, TimerHandle, get_running_loop
from collections import deque
from typing import NamedTuple
from weakref import WeakSet

from harvester.sites.politeness import Limits

AHEAD_S = 0.2
"""How far ahead a slot may lie when it is given; five times as far when no other worker asks the host."""
LEAST_INTERVAL_S = 0.001
"""Between the slots of a site that has no rate any more."""
BLOCK_S = 0.1
"""The time whose slots one worker may be given together."""
LONE_BLOCK_S = 1.0
"""The same for one that is alone."""
GRACE_S = 0.25
"""How late a slot may be used before it is lost. Event loops that are late themselves have longer."""
ON_THE_WAY_S = 1.0
"""By how much the ways of two requests to the host may differ, where it counts those of a window."""
BEAT_S = 1.0
"""How often at least a worker that has permits reports to Redis, and learns its share."""
PERMIT_LEASE_S = 5.0
"""How long Redis keeps the permits of a worker that it does not hear of."""
IDLE_S = 2.0
"""How long a worker keeps permits that it does not use."""
QUEUE_S = 4.0
"""How much work may wait here for a host while the worker has little room for the requests of others."""
_MARGIN_S = 0.5
"""How much earlier than Redis a worker considers its permits lost."""


class SlotAnswer(NamedTuple):
    """What the script slots.lua returns. Durations in microseconds."""

    start: int
    mark: int
    slots: int
    pace: int
    again: int
    pause: int
    permits: int
    share: int
    lacking: int
    alone: int


class Slot(NamedTuple):
    """When one request may leave, and when it is too late."""

    at: float
    old_at: float
    mark: int
    """By which Redis knows it in the host's window."""


class HostQueue:
    """What a worker knows of a host that it shares with others. Times are of the worker's monotonic clock."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.name = name
        self._limits = limits
        self._pace_s = max(limits.interval_s, LEAST_INTERVAL_S)
        """Between slots; longer than this worker's own interval when another worker has a longer one."""
        self.waiting: deque[Future[Slot]] = deque()
        """Requests in the order in which they came."""
        self._impatient: WeakSet[Future[Slot]] = WeakSet()
        self.timer: TimerHandle | None = None
        self.paused_until = 0.0
        self.untold = False
        """Whether Redis must still be told of the pause."""
        self.is_known = False
        """Whether Redis counts this worker among those at the host."""
        self._under_way = 0
        self._permits = 0
        self._share = 0
        """Permits to shrink to, because other workers need some."""
        self._others_lack = False
        self._alone = False
        """Whether no other worker is at the host."""
        self._away_until = 0.0
        """When the last of those comes back that were sent away since too many waited."""
        self._slots: deque[Slot] = deque()
        self._unused: list[int] = []
        """Marks of slots that need not count in the host's window."""
        self._telling = 0
        """How many of them the question tells whose answer is awaited."""
        self._block = 1
        self._lost = False
        """Whether a slot of the last block was not used."""
        self._late_s = 0.0
        """How late this process lately was when a slot came."""
        self._answered_in_s = 0.0
        """How long Redis lately took to answer."""
        self._grace_s = self._kept_s = GRACE_S
        """How late the slots asked for last may be used: after they were heard of, after they were given."""
        self._last_at = 0.0
        """When a request left last."""
        self._used_at = 0.0
        """When one left or came to its end last."""
        self._asked_at = 0.0
        self._ask_again_at = 0.0
        """When slots may be had again, since there were none."""
        self._lease_until = 0.0
        self._is_asked = False
        """Whether an answer is awaited."""
        self._is_due = False
        """Whether Redis must be asked whatever the reason."""
        self._told_permits = self._told_demand = 0

    def adapt(self, limits: Limits) -> None:
        """Takes over what is known of the site now."""
        if limits.interval_s > 1.5 * self._limits.interval_s:
            self._drop_slots()  # they were given for a quicker one
        self._limits = limits

    def join(self, again: bool = False, patient: bool = True) -> Future[Slot]:
        """One more request waits; `again`: one that had its slot and could not use it."""
        request: Future[Slot] = get_running_loop().create_future()
        if not patient:
            self._impatient.add(request)
        if again:
            self._under_way -= 1
            self.waiting.appendleft(request)
        else:
            self.waiting.append(request)
        return request

    def is_crowded(self) -> bool:
        """Whether enough requests wait for as long as QUEUE_S, and the next one to go."""
        return len(self.waiting) > max(1, QUEUE_S / self._pace_s)

    def away(self, now: float, interval_s: float) -> float:
        """For how long one more may stay away: until half of the others have gone, and each a moment of its own."""
        self._away_until = max(self._away_until, now + QUEUE_S / 2) + interval_s
        return self._away_until - now

    def send_away(self, exception: Exception) -> None:
        """Raises it in all requests that are not patient."""
        for request in self._impatient:
            if not request.done():
                request.set_exception(exception)
        self._impatient.clear()

    def serve(self, now: float) -> float | None:
        """Lets requests go whose slot has come. Returns when something may change by itself."""
        while self.waiting and self.waiting[0].done():
            self.waiting.popleft()
        if self.paused_until > now:
            self._drop_slots()
            return self.paused_until if self.waiting else None
        while self._slots and self._slots[0].old_at <= now:
            self.not_used(self._slots.popleft())
            self._lost = True
        while self.waiting and self._slots and self._has_permit(now):
            at = max(self._slots[0].at, self._last_at + self._pace_s / 2)
            if at > now:
                return at
            given, request = self._slots.popleft(), self.waiting.popleft()
            if request.done():
                self.not_used(given)
            else:
                self._under_way += 1
                self._last_at = self._used_at = now
                request.set_result(given)
        return self._ask_again_at if self.waiting and self._ask_again_at > now else None

    def was_late(self, seconds: float) -> None:
        """The process looked here that much after it meant to."""
        self._late_s = max(seconds, 0.9 * self._late_s)

    def left(self, now: float) -> None:
        """A request came to its end. Its permit is kept, unless other workers lack it."""
        self._under_way -= 1
        self._used_at = now
        self._shrink()

    def pause(self, until: float) -> bool:
        """The host wants to be left alone. Returns whether that is news."""
        is_news = until > self.paused_until + 1
        self.paused_until = max(until, self.paused_until)
        return is_news

    def permits_are_free(self) -> None:
        """Another worker gave some back."""
        self._is_due |= bool(self.waiting) and self._under_way >= self._permits

    def beat(self, now: float) -> None:
        """To be called several times a second."""
        is_paused = self.paused_until > now + BEAT_S
        if not self._under_way and (is_paused or not self.waiting):
            if self.is_known and now - self._used_at >= IDLE_S:
                self.give_back()
                self._is_due = True
        elif now - self._asked_at >= BEAT_S:
            self._is_due = True

    def give_back(self) -> None:
        """Nothing is wanted here any more."""
        self._drop_slots()
        self._permits = self._under_way

    def is_over(self, now: float) -> bool:
        """Whether nothing need be remembered."""
        busy = self.waiting or self._under_way or self.is_known or self._is_asked or self._is_due or self.untold
        return not busy and self.paused_until <= now

    def must_ask(self, now: float) -> bool:
        """Whether Redis must be asked now."""
        if self._is_asked:
            return False
        if self._is_due or self.untold or self._permits < self._told_permits:
            return True
        if not self.waiting or self.paused_until > now:
            return False
        if self._lease_until <= now:
            return True
        if self._under_way >= self._permits:
            return self._demand(now) > self._told_demand
        return self._wanted(now) > 0 and now >= self._ask_again_at

    def ask(self, now: float) -> list[int | str]:
        """The question, as slots.lua takes it from its second argument on."""
        self._is_asked, self._is_due, self._asked_at = True, False, now
        if self._lease_until <= now:
            self._permits = self._under_way  # the others may have been given to other workers
        self._told_demand = self._demand(now)
        telling_until = self.paused_until if self.untold else 0.0
        wanted = self._wanted(now)
        if wanted:
            most = max(1, int((LONE_BLOCK_S if self._alone else BLOCK_S) / self._pace_s))
            self._block = max(1, self._block // 2) if self._lost else min(self._block * 2, most)
            self._lost = False
        self._grace_s = GRACE_S + 2 * self._late_s
        self._kept_s = self._grace_s + self._answered_in_s
        return [
            round(max(self._limits.interval_s, LEAST_INTERVAL_S) * 1e6),
            wanted,
            round(AHEAD_S * 1e6),
            self._limits.concurrency,
            self._permits,
            self._under_way,
            self._told_demand,
            int(self.is_known),
            round(PERMIT_LEASE_S * 1e6),
            max(0, round((telling_until - now) * 1e6)),
            self._limits.window_requests,
            round(self._limits.window_s * 1e6),
            round((self._kept_s + ON_THE_WAY_S) * 1e6),
            self._marks(),
        ]

    def hear(self, answer: SlotAnswer, asked_at: float, now: float) -> bool:
        """Takes in the answer. Returns whether it tells of a pause that was not known here."""
        self._is_asked = False
        del self._unused[: self._telling]
        self._lease_until = asked_at + PERMIT_LEASE_S - _MARGIN_S
        self._permits = self._told_permits = answer.permits
        self._share = answer.share
        self._others_lack = bool(answer.lacking)
        self._alone = bool(answer.alone)
        self._pace_s = answer.pace / 1e6
        self.is_known = bool(answer.permits or self._told_demand)
        self._shrink()
        self._answered_in_s = max(now - asked_at, 0.9 * self._answered_in_s)
        grace_s = self._grace_s
        if self._limits.window_requests:  # it counts a slot for no longer than was said when it was asked for
            grace_s = min(grace_s, asked_at + self._kept_s - now)
        for number in range(answer.slots):
            at = now + answer.start / 1e6 + number * self._pace_s
            self._slots.append(Slot(at, at + grace_s, answer.mark + number * answer.pace))
        # Who was sent away comes back at a moment of its own, so that it is not always the same one that is too late.
        self._ask_again_at = now + answer.again / 1e6 + AHEAD_S * random.uniform(0, 0.9) if answer.again else 0.0
        # Nearly as long is as good: what is heard of it on the channel makes it a little longer here.
        if self.untold and now + answer.pause / 1e6 > self.paused_until - 1:
            self.untold = False
        elif not answer.pause and self.paused_until > now + 2:
            self.untold = True  # Redis lost it
        return bool(answer.pause) and self.pause(now + answer.pause / 1e6)

    def _drop_slots(self) -> None:
        while self._slots:
            self.not_used(self._slots.popleft())

    def not_used(self, slot: Slot) -> None:
        """The slot need not count in the host's window: no request left with it."""
        if self._limits.window_requests:
            self._unused.append(slot.mark)

    def _marks(self) -> str:
        """Of slots not used. They are told again when no answer comes."""
        self._telling = len(self._unused)
        return " ".join(map(str, self._unused))

    def _has_permit(self, now: float) -> bool:
        return self._under_way < self._permits and now < self._lease_until

    def _shrink(self) -> None:
        share = 0 if self._others_lack and not self.waiting else self._share
        self._permits = min(self._permits, max(self._under_way, share))

    def _demand(self, now: float) -> int:
        waiting = 0 if self.paused_until > now else len(self.waiting)
        return min(self._limits.concurrency, self._under_way + waiting)

    def _wanted(self, now: float) -> int:
        if self.paused_until > now or len(self._slots) > self._block // 2:
            return 0
        return max(0, min(self._block, len(self.waiting) - len(self._slots)))
