"""What `make bench` measures of the seen requests is the frontier's own script."""

from redis import Redis

from tests.bench.seen import Ours, batches


def test_the_measured_set_knows_what_was_added_and_nothing_else(redis_url: str) -> None:
    with Redis.from_url(redis_url) as client:
        ours = Ours(client)
        assert [ours.add(numbers) for numbers in batches(3000, seed=1)] == [1000, 1000, 1000]
        assert [ours.add(numbers) for numbers in batches(3000, seed=1)] == [0, 0, 0]
        assert [ours.holds(numbers) for numbers in batches(3000, seed=1)] == [1000, 1000, 1000]
        assert [ours.holds(numbers) for numbers in batches(3000, seed=2)] == [0, 0, 0]
        for key in client.scan_iter("harvester:{bench:start_urls}:*"):
            client.delete(key)
