"use strict";
// The controls of the page. Without this script everything is visible, and nothing here is needed to read it.
{
  const root = document.documentElement;
  root.classList.add("live");

  // Light and dark: as the reader's system says, until the button is pressed.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const name = () => { button.textContent = isDark() ? "Light page" : "Dark page"; };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  dark.addEventListener("change", name);
  name();

  // Rows of the claims by their verdict.
  const rows = document.querySelectorAll("#claims tr[data-verdict]");
  const verdicts = [...document.querySelectorAll("button[data-show]")];
  for (const one of verdicts) {
    one.addEventListener("click", () => {
      one.setAttribute("aria-pressed", one.getAttribute("aria-pressed") !== "true");
      const shown = new Set(verdicts.filter((v) => v.getAttribute("aria-pressed") === "true").map((v) => v.dataset.show));
      for (const row of rows) row.hidden = !shown.has(row.dataset.verdict);
    });
  }
  // A link to a claim that is filtered away shows it again.
  addEventListener("hashchange", () => {
    const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (row && row.hidden) {
      row.hidden = false;
      row.scrollIntoView();
    }
  });

  // A click on a heading sorts its table, a second one the other way round; what has no number comes last.
  const amount = (cell) => Number(cell.textContent.replace("∞", "Infinity"));
  function order(one, other) {
    if (!one.classList.contains("number")) {
      return one.textContent.localeCompare(other.textContent, "en", { numeric: true });
    }
    return amount(one) - amount(other);
  }
  function sort(heading) {
    const body = heading.closest("table").tBodies[0], column = heading.cellIndex;
    const isUp = heading.getAttribute("aria-sort") !== "ascending";
    for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", isUp ? "ascending" : "descending");
    const isGap = (row) => row.cells[column].textContent === "–";
    const sorted = [...body.rows].filter((row) => !isGap(row))
      .sort((a, b) => (isUp ? 1 : -1) * order(a.cells[column], b.cells[column]));
    body.append(...sorted, ...[...body.rows].filter(isGap));
  }
  for (const heading of document.querySelectorAll(".wide th")) {
    heading.tabIndex = 0;
    heading.addEventListener("click", () => sort(heading));
    heading.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(heading); });
  }

  // Long parts are folded up on the screen, and printed.
  const folded = [...document.querySelectorAll("details")];
  for (const one of folded) one.open = false;
  let open = [];
  addEventListener("beforeprint", () => {
    open = folded.filter((one) => one.open);
    for (const one of folded) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of folded) one.open = open.includes(one);
  });
}
