"""One worker's queue for one host: the waiting requests, and the questions to Redis. Pure: no traffic, no clock."""

import random
from asyncio import Future, TimerHandle, get_running_loop
from collections import deque
from typing import NamedTuple
from weakref import WeakSet

from harvester.sites.politeness import Limits

AHEAD_S = 0.2
"""Seconds that a slot may lie ahead when it is given; five times as many when no other worker uses the host."""
LEAST_INTERVAL_S = 0.001
"""Seconds between slots, at least, also for a site without a rate."""
BLOCK_S = 0.1
"""Seconds of slots that one worker may get together."""
LONE_BLOCK_S = 1.0
"""Seconds of slots that a worker may get together if no other worker uses the host."""
GRACE_S = 0.25
"""Seconds that a slot may be used late before it is lost. A process with a late event loop gets more."""
ON_THE_WAY_S = 1.0
"""Seconds of difference between the travel times of two requests, for hosts that count requests in a window."""
BEAT_S = 1.0
"""Seconds between the reports of a worker with permits to Redis, at most. The answer holds its share."""
PERMIT_LEASE_S = 5.0
"""Seconds that Redis keeps the permits of a silent worker."""
IDLE_S = 2.0
"""Seconds that a worker keeps unused permits."""
QUEUE_S = 4.0
"""Seconds of work that may wait for one host while the downloader has little room for other hosts."""
_MARGIN_S = 0.5
"""Seconds that a worker considers its permits lost earlier than Redis does."""


class SlotAnswer(NamedTuple):
    """The result of the script slots.lua. Durations are microseconds."""

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
    """The time when one request may leave, and the time when the slot is lost."""

    at: float
    old_at: float
    mark: int
    """The name of the slot in Redis's window of the host."""


class HostQueue:
    """One worker's state of a host that workers share. Times are of the worker's monotonic clock."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.name = name
        self._limits = limits
        self._pace_s = max(limits.interval_s, LEAST_INTERVAL_S)
        """Seconds between slots. Longer than this worker's interval if another worker has a longer one."""
        self.waiting: deque[Future[Slot]] = deque()
        """Requests in their order of arrival."""
        self._impatient: WeakSet[Future[Slot]] = WeakSet()
        self.timer: TimerHandle | None = None
        self.paused_until = 0.0
        self.untold = False
        """True while the pause must still be reported to Redis."""
        self.is_known = False
        """True if Redis counts this worker at the host."""
        self._under_way = 0
        self._permits = 0
        self._share = 0
        """Permits to shrink to because other workers need some."""
        self._others_lack = False
        self._alone = False
        """True if no other worker uses the host."""
        self._away_until = 0.0
        """Time when the last request returns that was sent away because too many waited."""
        self._slots: deque[Slot] = deque()
        self._unused: list[int] = []
        """Marks of slots that need not count in the host's window."""
        self._telling = 0
        """Number of unused marks in the question that is not answered yet."""
        self._block = 1
        self._lost = False
        """True if a slot of the last block was not used."""
        self._late_s = 0.0
        """Seconds that this process was lately late for a slot."""
        self._answered_in_s = 0.0
        """Seconds that Redis lately took to answer."""
        self._grace_s = self._kept_s = GRACE_S
        """Seconds after which a slot is too late: since the last answer came, and since Redis granted the slot."""
        self._last_at = 0.0
        """Time when the last request left."""
        self._used_at = 0.0
        """Time when a request last left or ended."""
        self._asked_at = 0.0
        self._ask_again_at = 0.0
        """Time when Redis has slots again, after it had none left."""
        self._lease_until = 0.0
        self._is_asked = False
        """True while an answer is awaited."""
        self._is_due = False
        """True if a question to Redis is due for any reason."""
        self._told_permits = self._told_demand = 0

    def adapt(self, limits: Limits) -> None:
        """Applies the current limits of the site."""
        if limits.interval_s > 1.5 * self._limits.interval_s:
            self._drop_slots()  # they were given for a shorter interval
        self._limits = limits

    def join(self, again: bool = False, patient: bool = True) -> Future[Slot]:
        """Adds a request to the queue. With `again`, the request had its slot and could not use it."""
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
        """Returns True if the waiting requests take longer than QUEUE_S, and more than one waits."""
        return len(self.waiting) > max(1, QUEUE_S / self._pace_s)

    def away(self, now: float, interval_s: float) -> float:
        """Returns the seconds that a request stays away: until half of the queue has left, and a different time for
        each."""
        self._away_until = max(self._away_until, now + QUEUE_S / 2) + interval_s
        return self._away_until - now

    def send_away(self, exception: Exception) -> None:
        """Raises the exception in all requests that are not patient."""
        for request in self._impatient:
            if not request.done():
                request.set_exception(exception)
        self._impatient.clear()

    def serve(self, now: float) -> float | None:
        """Releases the requests whose slot has come. Returns the time when something may change by itself."""
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
        """Records that a timer ran this many seconds late."""
        self._late_s = max(seconds, 0.9 * self._late_s)

    def left(self, now: float) -> None:
        """Records the end of a request. The permit is saved for the next one, unless other workers need it."""
        self._under_way -= 1
        self._used_at = now
        self._shrink()

    def pause(self, until: float) -> bool:
        """Pauses the host. Returns True if the pause is new or longer."""
        is_news = until > self.paused_until + 1
        self.paused_until = max(until, self.paused_until)
        return is_news

    def permits_are_free(self) -> None:
        """Records that another worker returned permits."""
        self._is_due |= bool(self.waiting) and self._under_way >= self._permits

    def beat(self, now: float) -> None:
        """Decides whether a question to Redis is due. Must be called several times a second."""
        is_paused = self.paused_until > now + BEAT_S
        if not self._under_way and (is_paused or not self.waiting):
            if self.is_known and now - self._used_at >= IDLE_S:
                self.give_back()
                self._is_due = True
        elif now - self._asked_at >= BEAT_S:
            self._is_due = True

    def give_back(self) -> None:
        """Returns all slots and unused permits."""
        self._drop_slots()
        self._permits = self._under_way

    def is_over(self, now: float) -> bool:
        """Returns True if the queue holds no state worth saving."""
        busy = self.waiting or self._under_way or self.is_known or self._is_asked or self._is_due or self.untold
        return not busy and self.paused_until <= now

    def must_ask(self, now: float) -> bool:
        """Returns True if a question to Redis must leave now."""
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
        """Returns the question: the arguments of slots.lua from the second on."""
        self._is_asked, self._is_due, self._asked_at = True, False, now
        if self._lease_until <= now:
            self._permits = self._under_way  # Redis may have given the others to other workers
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
        """Applies the answer. Returns True if it reports a new pause."""
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
        if self._limits.window_requests:  # Redis counts a slot only for the time that the question named
            grace_s = min(grace_s, asked_at + self._kept_s - now)
        for number in range(answer.slots):
            at = now + answer.start / 1e6 + number * self._pace_s
            self._slots.append(Slot(at, at + grace_s, answer.mark + number * answer.pace))
        # Each worker without a slot returns at a random time, so that the same worker is not always too late.
        self._ask_again_at = now + answer.again / 1e6 + AHEAD_S * random.uniform(0, 0.9) if answer.again else 0.0
        # A nearly equal pause is enough: a pause that comes by the channel gets a little longer on its way.
        if self.untold and now + answer.pause / 1e6 > self.paused_until - 1:
            self.untold = False
        elif not answer.pause and self.paused_until > now + 2:
            self.untold = True  # Redis lost the pause
        return bool(answer.pause) and self.pause(now + answer.pause / 1e6)

    def _drop_slots(self) -> None:
        while self._slots:
            self.not_used(self._slots.popleft())

    def not_used(self, slot: Slot) -> None:
        """Marks the slot as unused, so that it need not count in the host's window."""
        if self._limits.window_requests:
            self._unused.append(slot.mark)

    def _marks(self) -> str:
        """Returns the marks of unused slots. They are sent again if no answer comes."""
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
