"use strict";
function sort(table, head) {
  const place = head.cellIndex, before = head.getAttribute("aria-sort"), lang = document.documentElement.lang;
  const rising = before ? before === "descending" : place === 0 || head.className === "text";
  const written = row => row.cells[place].dataset.sort ?? row.cells[place].textContent.trim();
  const compare = (one, other) => {
    if (one === "" || other === "") return (one === "") - (other === "");  // what is undefined comes last in both orders
    const order = isNaN(one) || isNaN(other) ? one.localeCompare(other, lang, { numeric: true }) : one - other;
    return rising ? order : -order;
  };
  table.querySelector("[aria-sort]").removeAttribute("aria-sort");
  head.setAttribute("aria-sort", rising ? "ascending" : "descending");
  table.tBodies[0].append(...[...table.tBodies[0].rows].sort((one, other) => compare(written(one), written(other))));
}

for (const table of document.querySelectorAll(".slices")) {
  for (const head of table.tHead.rows[0].cells) {
    const button = Object.assign(document.createElement("button"), { type: "button", onclick: () => sort(table, head) });
    button.append(...head.childNodes);
    head.append(button);
  }
  const controls = table.closest("details").querySelector(".controls"), rows = [...table.tBodies[0].rows];
  const [text, significant] = controls.querySelectorAll("input"), shown = controls.querySelector("output");
  controls.hidden = false;
  controls.oninput = () => {
    const wanted = text.value.trim().toLowerCase(), named = row => row.cells[0].textContent.toLowerCase().includes(wanted);
    for (const row of rows) row.hidden = !named(row) || (significant.checked && !row.classList.contains("beyond"));
    shown.value = shown.dataset.text.replace("{0}", rows.filter(row => !row.hidden).length).replace("{1}", rows.length);
  };
  controls.oninput();
}

// On a phone rows are cards, by "display: block", which takes the tables' roles away.
const roles = { table: "table", thead: "rowgroup", tbody: "rowgroup", tr: "row", td: "cell", "thead th": "columnheader", "tbody th": "rowheader" };
for (const [tag, role] of Object.entries(roles)) {
  for (const part of document.querySelectorAll(tag === "table" ? ".cards" : `.cards ${tag}`)) part.setAttribute("role", role);
}

const numbers = JSON.parse(document.getElementById("result").textContent);
document.querySelector(".json pre").textContent = JSON.stringify(numbers, null, 2);
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open]):not(.json)")];
  closed.forEach(each => (each.open = true));
});
addEventListener("afterprint", () => closed.forEach(each => (each.open = false)));
