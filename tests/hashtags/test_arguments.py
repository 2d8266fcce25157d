"""What the spider of hashtags is asked for: what cannot be meant is refused, with what to do."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from scrapy import Request
from scrapy.http import Headers, TextResponse

from harvester.config import load_config
from harvester.exceptions import UsageError
from harvester.items import Found, ItemResult
from harvester.jobs.documents import JobItem
from harvester.spiders.hashtags.arguments import HashtagsArguments
from harvester.spiders.hashtags.requests import WantedTag
from harvester.spiders.hashtags.spider import HashtagsSpider
from tests.hashtags.conftest import Crawls

USAGE = 2


def spider(**given: str) -> HashtagsSpider:
    arguments = HashtagsSpider.parse_arguments(given)
    assert isinstance(arguments, HashtagsArguments)
    return HashtagsSpider(load_config(), arguments)


def keys(**given: str) -> list[str]:
    return [found.key for found in spider(**given).items_of_arguments()]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sources": "myspace"}, "'instagram' or 'youtube'"),
        ({"sources": ""}, "sources: "),
        ({"tags": "cats,two words"}, "tags: 'two words'"),
        ({"tags": "#"}, "tags: '#'"),
        ({"regions": "USA"}, "'USA'"),
        ({"instances": "https://mastodon.social/about"}, "instances: "),
        ({"period": "14"}, "'7', '30' or '120'"),
        ({"collect": "likes"}, "'trends', 'tags' or 'counts'"),
        ({"max_posts": "0"}, "max_posts: "),
        ({"honour_opt_outs": "sometimes"}, "honour_opt_outs: "),
        ({"hashtags": "cats"}, "hashtags: "),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        spider(**given)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "key", "said"),
    [
        ("tag", "cats", "mastodon mastodon.social #cats"),
        ("tag", "youtube", "mastodon mastodon.social #cats"),
        ("chart", "myspace US", "google US"),
        ("chart", "google #cats", "google US"),
        ("tag", "youtube #two words", "hashtag"),
        ("tag", "google #cats", "google "),
        ("tag", "youtube US #cats", "youtube "),
        ("chart", "instagram US", "instagram "),
        ("chart", "tiktok US", "7, 30 or 120"),
        ("chart", "google USA", "country"),
        ("chart", "mastodon", "host"),
    ],
)
def test_an_item_that_cannot_be_asked_for_is_refused(kind: str, key: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        HashtagsSpider.check_item(Found(kind, key))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "key", "usual", "given"),
    [
        ("tag", "mastodon HTTPS://Mastodon.Social/ #ＣＡＴＳ", "mastodon mastodon.social #cats", {"tag": "ＣＡＴＳ"}),
        ("tag", "youtube   #Fußball", "youtube #fussball", {"tag": "Fußball"}),
        ("chart", "google de", "google DE", {}),
        ("chart", "tiktok de 120", "tiktok DE 120", {}),
        ("chart", "bluesky", "bluesky world", {}),
        ("chart", "mastodon http://127.0.0.1:2584", "mastodon http://127.0.0.1:2584", {}),
    ],
)
def test_two_ways_to_write_an_item_are_one(kind: str, key: str, usual: str, given: dict[str, str]) -> None:
    checked = HashtagsSpider.check_item(Found(kind, key))
    assert (checked.key, checked.input) == (usual, given)
    assert WantedTag.of(usual).key == usual


def test_each_source_and_region_and_each_source_and_hashtag_is_an_item(tmp_path: Path) -> None:
    (tmp_path / "tags.csv").write_text("tag,note\n#Cats,x\nRain,y\n")
    every = "google,mastodon,bluesky,tiktok,instagram,youtube"
    found = keys(sources=every, tags=f"cats,@{tmp_path}/tags.csv", regions="us,DE", instances="a.example", period="30")
    assert found == [
        *("google US", "google DE", "mastodon a.example", "mastodon a.example #cats", "mastodon a.example #rain"),
        *("bluesky world", "bluesky #cats", "bluesky #rain", "tiktok US 30", "tiktok DE 30"),
        *("instagram #cats", "instagram #rain", "youtube US", "youtube DE", "youtube #cats", "youtube #rain"),
    ]
    assert keys(collect="tags", tags="cats", instances="a.example") == ["mastodon a.example #cats"]
    assert keys(collect="trends", tags="cats", sources="google") == ["google US"]


def test_a_file_of_tags_is_part_of_what_tells_jobs_apart_and_not_of_what_a_job_keeps(tmp_path: Path) -> None:
    file = tmp_path / "tags.txt"
    scopes = set()
    for content in ("cats\n", "rain\n"):
        file.write_text(content)
        scopes.add(spider(tags=f"@{file}").scope)
    assert len(scopes | {spider(tags="cats").scope, spider(tags="#Cats").scope}) == 3
    kept = spider(tags=f"dogs,@{file}").arguments.kept()
    assert "tags" not in kept
    assert HashtagsArguments(**kept)


@pytest.mark.parametrize(
    ("content", "said"),
    [("cats\ntwo words\n", "Line 2, 'two words'"), (None, "No such file or directory")],
)
def test_a_file_of_tags_that_cannot_be_used_is_refused(tmp_path: Path, content: str | None, said: str) -> None:
    file = tmp_path / "tags.txt"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError) as refused:
        keys(tags=f"@{file}", sources="mastodon")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sources": "youtube"}, "HARVESTER_YOUTUBE_KEY"),
        ({"sources": "instagram", "tags": "cats"}, "HARVESTER_INSTAGRAM_TOKEN"),
        ({"sources": "google", "collect": "tags", "tags": "cats"}, "-a collect=trends,tags"),
    ],
)
async def test_what_nothing_can_come_of_is_refused_before_anything_is_fetched(given: dict[str, str], said: str) -> None:
    made = spider(**given)

    async def signed_in() -> None:
        """Nobody: there is no crawl here."""

    made.sign_in = signed_in  # type: ignore[method-assign]
    with pytest.raises(UsageError) as refused:
        await made.before()
    assert said in str(refused.value)


def test_an_item_of_a_service_whose_key_is_gone_says_so() -> None:
    item = JobItem("id", "job", "tag", "youtube #cats", {"tag": "cats"}, 0, 1, "")
    (said,) = spider().requests_of([item])
    assert isinstance(said, ItemResult)
    assert (said.state, said.outcome) == ("failed", "auth_required")
    assert "HARVESTER_YOUTUBE_KEY" in said.reason


def test_a_key_is_in_no_address_and_goes_over_https_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARVESTER_ALLOW_PRIVATE_HOSTS", "false")
    monkeypatch.setenv("HARVESTER_YOUTUBE_KEY", "a-secret-key-of-mine")
    made = spider(sources="youtube")
    made.arguments_of = lambda page: made.arguments  # type: ignore[method-assign]
    (request,) = made.requests_of([JobItem("id", "job", "tag", "youtube #cats", {"tag": "cats"}, 0, 1, "")])
    assert isinstance(request, Request)
    assert "secret" not in f"{request.url} {request.meta} {request.headers} {made.keys}"
    monkeypatch.setenv("HARVESTER_YOUTUBE_URL", "http://www.googleapis.com/youtube/v3")
    load_config.cache_clear()
    with pytest.raises(UsageError, match="https"):
        _ = spider(sources="youtube").keys


@pytest.mark.parametrize(
    ("links", "query"),
    [
        (['<https://a.example/x?max_id=5>; rel="next", <?min_id=9>; rel="prev"'], "max_id=5&limit=40"),
        (['<?max_id=5>; rel="next"', "</style.css>; rel=preload; as=style"], "max_id=5&limit=40"),
        (['<https://a.example/x?min_id=9>; rel="prev"'], None),
        (['<http://[x/?max_id=5>; rel="next"'], None),
        ([], None),
    ],
)
def test_the_next_page_of_a_timeline_is_the_one_that_a_header_calls_so(links: list[str], query: str | None) -> None:
    made = spider()
    made.arguments_of = lambda page: made.arguments  # type: ignore[method-assign]
    url = "https://a.example/api/v1/timelines/tag/cats?limit=40"
    response = TextResponse(url, headers=Headers({"Link": links}), body=b"[{}]", request=Request(url))
    *_, last = made.read_timeline(response, "a.example", 200)
    assert (urlsplit(last.url).query if isinstance(last, Request) else None) == query


async def test_nothing_to_ask_for_ends_a_crawl_with_a_sentence(crawls: Crawls) -> None:
    assert await crawls.run("hashtags", sources="google", collect="tags", tags="cats") == USAGE
    assert "-a collect=trends,tags" in crawls.said
