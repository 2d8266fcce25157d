"""The target that counts official suites tells what went wrong from what goes another way on purpose."""

import json
from pathlib import Path

import pytest

from tests.suites.__main__ import main
from tests.suites.robots_suite import robotstxt


def test_a_case_that_is_required_and_goes_wrong_fails_the_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "JSONTestSuite" / "test_parsing"
    texts.mkdir(parents=True)
    assert main(tmp_path / "nowhere", is_long=False) == 1, "no suite is there"
    for name, text in (("y_number", "1"), ("n_comma", "[1,]"), ("n_number_NaN", "[NaN]"), ("i_deep", "[")):
        (texts / f"{name}.json").write_text(text, "utf-8")
    assert main(tmp_path, is_long=False) == 0
    shown = capsys.readouterr().out
    assert "| JSONTestSuite | files that are none (n), refused | 1 | 2 | 1 | 0 |" in shown
    (texts / "y_other.json").write_text("[1,]", "utf-8")
    assert main(tmp_path, is_long=False) == 1


def test_expectations_are_read_from_c(tmp_path: Path) -> None:
    lines = [
        "TEST(RobotsUnittest, Own) {",
        '  const absl::string_view robots = "user-agent: FooBot\\n"',
        '      "disallow: /x\\n";',
        f'  EXPECT_FALSE(IsUserAgentAllowed(robots, "FooBot", {json.dumps("http://a.example/x")}));',
        '  EXPECT_TRUE(IsUserAgentAllowed(robots, "FooBot", "http://a.example/y"));',
        '  EXPECT_TRUE(IsUserAgentAllowed(robots, "FooBot", made(7)));',
        "}",
        "",
    ]
    (tmp_path / "robots_test.cc").write_text("\n".join(lines).replace("\\\\n", "\\n"), "utf-8")
    read, unread = robotstxt(tmp_path)
    assert (read.right, read.of, unread.of) == (2, 2, 1)
