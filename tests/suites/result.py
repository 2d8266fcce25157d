"""What a part of a suite came to."""

from dataclasses import dataclass, field


@dataclass
class Result:
    """The cases of one part of a suite."""

    suite: str
    part: str
    is_required: bool = True
    """Whether a case that goes wrong fails the target."""
    right: int = 0
    of: int = 0
    wrong: list[str] = field(default_factory=list)
    """Names of the cases that went wrong."""
    chosen: list[str] = field(default_factory=list)
    """Those that go another way because the project has chosen so."""

    def count(self, is_right: bool, name: str, *, is_chosen: bool = False) -> None:
        """Counts a case. `is_chosen`: that it goes another way is meant."""
        self.of += 1
        if is_right:
            self.right += 1
        elif is_chosen:
            self.chosen.append(name)
        else:
            self.wrong.append(name)

    @property
    def has_failed(self) -> bool:
        return self.is_required and bool(self.wrong)
