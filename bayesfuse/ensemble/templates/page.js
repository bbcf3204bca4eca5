"use strict";
const search = document.getElementById("search");
const labels = document.querySelector("#labels ~ .scroll table");
const count = document.getElementById("count");

search.addEventListener("input", () => {
  const words = search.value.toLowerCase();
  let shown = 0;
  for (const row of labels.tBodies[0].rows) {
    row.hidden = !row.textContent.toLowerCase().includes(words);
    shown += !row.hidden;
  }
  count.textContent = words ? `${shown.toLocaleString("en")} rows` : "";
});

function compare(one, other) {
  const [a, b] = [one.dataset.number, other.dataset.number];
  if (a !== undefined && b !== undefined) return a - b;
  return one.textContent.localeCompare(other.textContent, "en", { numeric: true });
}

for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th"), body = head.closest("table").tBodies[0];
    const rises = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", rises ? "ascending" : "descending");
    const rows = [...body.rows];
    const sign = rises ? 1 : -1, at = head.cellIndex;
    rows.sort((one, other) => sign * compare(one.cells[at], other.cells[at]));
    body.append(...rows);
  });
}

document.getElementById("download").addEventListener("click", (event) => {
  const text = JSON.parse(document.getElementById("csv").textContent);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = event.currentTarget.dataset.name;
  link.click();
  URL.revokeObjectURL(link.href);
});

let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open])")];
  for (const part of folded) part.open = true;
});
addEventListener("afterprint", () => {
  for (const part of folded) part.open = false;
});
