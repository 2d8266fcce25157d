"""The table of behaviours in docs/security.md."""

from pathlib import Path

from tests.hostile.behaviours import BEHAVIOURS
from tests.hostile.run import Found

DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"
BEGIN, END = "<!-- made by python -m tests.hostile -->", "<!-- end -->"


def table(found: Found) -> str:
    """What was found of each behaviour, and what bounds it."""
    rows = ["| What a site does | Outcome | What bounds it |", "|---|---|---|"]
    for each in BEHAVIOURS:
        picture = f"; its picture: `{found.pictures.get(each.name, 'none')}`" if each.picture else ""
        outcome = found.outcomes.get(each.name, "none")
        rows.append(f"| {each.does} | `{outcome}`{picture} | {each.bound} |")
    return "\n".join(rows)


def written() -> str:
    """The table as the document has it."""
    return DOCUMENT.read_text("utf-8").partition(BEGIN)[2].partition(END)[0].strip()


def write(found: Found) -> None:
    """Puts the table in its place."""
    before, _, rest = DOCUMENT.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    DOCUMENT.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{after}", "utf-8")
