// The page reads without this script; it sorts the table and shows explanations to touch and keyboard.
document.documentElement.classList.remove("no-script");
const explain = document.getElementById("explain");
for (const button of document.querySelectorAll("#figures thead button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th"), body = document.querySelector("#figures tbody");
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => row.children[head.cellIndex].dataset.sort;
    const compare = (a, b) => {
      if (a === b) return 0;
      if (a === "" || b === "") return a === "" ? 1 : -1;  // undefined figures stay last
      const numbers = a - b, order = Number.isNaN(numbers) ? a.localeCompare(b) : numbers;
      return down ? -order : order;
    };
    body.append(...[...body.rows].sort((a, b) => compare(key(a), key(b))));
  });
}
const show = (event) => {
  const figure = event.target.closest("abbr[title]");
  explain.textContent = figure ? figure.title : "";
};
document.addEventListener("click", show);
document.addEventListener("focusin", show);
// One stop for the tab key; the arrow keys move between the figures.
const grid = document.querySelector("#figures tbody");
const cells = () => [...(grid ? grid.rows : [])].map((row) => [...row.querySelectorAll("abbr[title]")]);
if (grid && cells()[0]) cells()[0][0].tabIndex = 0;
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") explain.textContent = "";
  const moves = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  const move = moves[event.key], here = document.activeElement;
  if (!move || !grid || !grid.contains(here) || here.tagName !== "ABBR") return;
  const rows = cells(), line = rows.findIndex((row) => row.includes(here));
  const next = rows[line + move[0]]?.[rows[line].indexOf(here) + move[1]];
  if (!next) return;
  event.preventDefault();
  here.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});
