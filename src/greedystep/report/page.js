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
