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

  // Folded parts: everything is unfolded without scripts, and folded with them; a link to something unfolds it.
  const folded = [...document.querySelectorAll("details")];
  for (const one of folded) one.open = false;
  function reveal(element) {
    for (let fold = element.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    if (element.matches("tr[hidden]")) select("");
    element.scrollIntoView();
  }
  function follow() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target) reveal(target);
  }

  // A button selects the claims with its verdict; pressed again, or "all", it shows all of them.
  const rows = document.querySelectorAll("#claims tr[data-verdict]");
  const verdicts = [...document.querySelectorAll("button[data-show]")];
  function select(verdict) {
    for (const one of verdicts) one.setAttribute("aria-pressed", one.dataset.show === verdict);
    for (const row of rows) row.hidden = verdict !== "" && row.dataset.verdict !== verdict;
  }
  for (const one of verdicts) {
    one.addEventListener("click", () => {
      select(one.getAttribute("aria-pressed") === "true" ? "" : one.dataset.show);
      document.getElementById("all-claims").open = true;
    });
  }
  addEventListener("hashchange", follow);
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    link.addEventListener("click", () => { if (link.hash === location.hash) follow(); });
  }

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

  // What is folded is printed.
  let open = [];
  addEventListener("beforeprint", () => {
    open = folded.filter((one) => one.open);
    for (const one of folded) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of folded) one.open = open.includes(one);
  });

  follow();
}
