// A click on the head of a column sorts its table by it: numbers the largest first, words from A to Z; once more, the other way.
for (const head of document.querySelectorAll("table.sortable th button")) {
  head.addEventListener("click", () => {
    const cell = head.closest("th"), column = cell.cellIndex, body = cell.closest("table").tBodies[0];
    const by = row => row.cells[column].dataset.by ?? row.cells[column].textContent.trim();
    const rows = [...body.rows], isNumber = rows.every(row => by(row) === "" || !isNaN(by(row)));
    const before = cell.getAttribute("aria-sort"), first = isNumber ? "descending" : "ascending";
    const order = before === null ? first : before === "ascending" ? "descending" : "ascending";
    const up = (a, b) => isNumber ? (by(a) || -1) - (by(b) || -1) : by(a).localeCompare(by(b));
    rows.sort(order === "ascending" ? up : (a, b) => up(b, a));
    for (const other of cell.parentNode.cells) other.removeAttribute("aria-sort");
    cell.setAttribute("aria-sort", order);
    body.append(...rows);
  });
}
