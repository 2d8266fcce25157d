"""What a record says of what it lacks."""

from collections.abc import Mapping


def shown_of(unread: Mapping[str, str]) -> dict[str, str]:
    """What is shown in place of each field. A reason follows it, which is checked to be there."""
    parts = {field: said.partition(": ") for field, said in unread.items()}
    assert all(reason for _, _, reason in parts.values()), unread
    return {field: shown for field, (shown, _, _) in parts.items()}
