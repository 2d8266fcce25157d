"""Re-checks: how late new things are seen under each policy, with the same number of requests; see docs/rechecks.md.

    python -m tests.bench.recheck [seeds] [accounts]   the table, by default of five seeds and 10,000 accounts each
    python -m tests.bench.recheck picture              draws docs/images/rechecks.png, of 2,000 accounts
    python -m tests.bench.recheck tune                 with which numbers StormCrawler's rule does best

A simulation of 180 days: accounts.py says how accounts post, looking.py how they are looked at. A seed takes a minute
of CPU and half a gigabyte. Exit code 1 when `budget` misses a target.
"""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from tests.bench.accounts import KINDS, LEAST_RATE, MOST_RATE, Accounts
from tests.bench.looking import (
    AdaptiveRule,
    BudgetRule,
    EveryRule,
    Looks,
    OptimumRule,
    StormCrawlerRule,
    simulate,
    with_as_many_looks,
)

SEEDS, ACCOUNTS, DAYS = 5, 10_000, 180
LOOKS_EACH = 2
"""A day, for each account on average: under every policy."""
LONGEST_DAYS, GROW, SHRINK = 2, 0.5, 0.5
"""With which StormCrawler's rule does best (`tune`); its shortest interval follows from the number of looks."""

FIXED, TUNED, TOKENS, BUDGET = "fixed interval", "StormCrawler, tuned", "adaptive", "budget"
OPTIMUM, BY_THE_HOUR = "optimum: knows the rates", "... and those of each hour"
TARGETS = {OPTIMUM: 1.15, TUNED: 0.85, FIXED: 0.45}
"""The mean delay of `budget` is at most so many times theirs."""
PICTURE = Path(__file__).parents[2] / "docs" / "images" / "rechecks.png"


def policies(accounts: Accounts) -> Iterator[tuple[str, Looks]]:
    """Each policy on the same accounts."""
    number, a_day = accounts.number, float(accounts.number * LOOKS_EACH)
    yield FIXED, simulate(accounts, EveryRule(number, 1 / LOOKS_EACH), a_day)
    yield TUNED, with_as_many_looks(partial(storm_crawler, number), 0.16, accounts, a_day, more=False)[1]
    yield TOKENS, with_as_many_looks(partial(AdaptiveRule, number), 3.2, accounts, a_day, more=True)[1]
    yield BUDGET, simulate(accounts, BudgetRule(number, a_day), a_day)
    yield OPTIMUM, simulate(accounts, OptimumRule(accounts), a_day)
    yield BY_THE_HOUR, simulate(accounts, OptimumRule(accounts, by_the_hour=True), a_day)


def storm_crawler(number: int, shortest: float) -> StormCrawlerRule:
    return StormCrawlerRule(number, shortest, LONGEST_DAYS, GROW, SHRINK)


def main(seeds: int = SEEDS, number: int = ACCOUNTS) -> int:
    """Prints the table; 1 when a target is missed."""
    print(f"Delay of new things in hours: {number:,} accounts, {number * LOOKS_EACH:,} looks a day, {DAYS} days")
    kinds = "".join(f"{kind:>8}" for kind in KINDS)
    print(f"{'':<28}{'mean':>7}{'budget/it':>11}{'90% below':>11}{'empty':>7}{'looks':>8}{kinds}", flush=True)
    missed = False
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        for seed, found in enumerate(processes.map(one_seed, range(1, seeds + 1), [number] * seeds), start=1):
            print(f"seed {seed}")
            for name, looks in found.items():
                print(f"  {name:<26}{_row(looks, found[BUDGET], number * LOOKS_EACH)}", flush=True)
            missed |= any(found[BUDGET].delay_h > most * found[name].delay_h for name, most in TARGETS.items())
    print(f"At most {', '.join(f'{most} of {name!r}' for name, most in TARGETS.items())} is wanted of budget's mean.")
    return int(missed)


def one_seed(seed: int, number: int) -> dict[str, Looks]:
    """What each policy comes to."""
    return dict(policies(Accounts(number, DAYS, seed)))


def _row(looks: Looks, budget: Looks, a_day: float) -> str:
    kinds = "".join(f"{hours:8.2f}" for hours in looks.by_kind_h.values())
    ratio = budget.delay_h / looks.delay_h
    return f"{looks.delay_h:7.2f}{ratio:11.2f}{looks.p90_h:11.1f}{looks.empty:7.0%}{looks.a_day / a_day:8.1%}{kinds}"


def tune(number: int = 500) -> int:
    """Prints StormCrawler's rule with other numbers, the best last."""
    accounts, a_day, tried = Accounts(number, DAYS, 1), float(number * LOOKS_EACH), []
    for numbers in product((1, 1.5, 2, 3, 14), (0.15, 0.25, 0.5, 1), (0.25, 0.5, 0.75)):

        def rule(shortest: float, numbers: tuple[float, float, float] = numbers) -> StormCrawlerRule:
            return StormCrawlerRule(number, shortest, *numbers)

        shortest, looks = with_as_many_looks(rule, 0.2, accounts, a_day, more=False)
        tried.append((looks.delay_h, numbers, shortest))
    for delay, (longest, grow, shrink), shortest in sorted(tried, reverse=True):
        print(f"{delay:6.2f} h: longest {longest} d, growing {grow}, shrinking {shrink}, shortest {shortest:.3f} d")
    return 0


def picture(number: int = 2000) -> int:
    """Draws how late things are seen under each policy, and those of accounts that post seldom or often."""
    from matplotlib.figure import Figure

    accounts = Accounts(number, DAYS, 1)
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    bars, lines = figure.subplots(1, 2, width_ratios=(2, 3))
    edges = np.geomspace(LEAST_RATE, MOST_RATE, 13)
    middles = np.sqrt(edges[1:] * edges[:-1])
    of_group = np.digitize(accounts.rate, edges) - 1
    for place, (name, looks) in enumerate(list(policies(accounts))[:-1]):
        (bar,) = bars.barh(place, looks.delay_h, color=f"C{place}")
        bars.bar_label(bars.containers[-1], fmt="%.1f h", padding=3)
        means = [np.nanmean(looks.by_account_h[of_group == group]) for group in range(len(middles))]
        lines.loglog(middles, means, "o-", color=bar.get_facecolor(), markersize=4, label=name)
    bars.set_yticks(range(len(TARGETS) + 2), [FIXED, TUNED, TOKENS, BUDGET, "optimum"])
    bars.invert_yaxis()
    bars.set_xlim(0, 7)
    bars.set_xlabel("mean delay of a new thing, hours")
    lines.set_xlabel("new things a day of an account")
    lines.set_ylabel("mean delay, hours")
    lines.set_title(f"{number:,} accounts, {LOOKS_EACH} looks a day for each on average", fontsize=10)
    lines.legend(fontsize=8)
    lines.grid(alpha=0.3)
    figure.savefig(PICTURE, dpi=110)
    print(PICTURE)
    return 0


if __name__ == "__main__":
    words = sys.argv[1:]
    named = {"picture": picture, "tune": tune}
    sys.exit(named[words[0]]() if words and words[0] in named else main(*map(int, words)))
