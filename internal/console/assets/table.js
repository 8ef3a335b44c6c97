import { h, replace } from "./dom.js";

const step = 200;

// table returns a table that the user can sort by its columns. A column has a title, a function cell that returns the content for a row, and
// may have a function sort that returns the value to sort by, and numeric.
export function table({ caption, columns, rows, empty = "None.", row: attributes = () => ({}), more }) {
  if (rows.length === 0) return h("p", { class: "empty" }, empty);
  let shown = step, by = -1, descending = false;
  const body = h("tbody"), foot = h("div", { class: "more" });
  const headers = columns.map((column, i) => h("th", { scope: "col", class: column.numeric ? "number" : undefined },
    column.sort ? h("button", { type: "button", onclick: () => sort(i) }, column.title) : column.title));
  function sort(i) {
    descending = by === i ? !descending : Boolean(columns[i].numeric);
    by = i;
    draw();
  }
  function sorted() {
    if (by < 0) return rows;
    const of = columns[by].sort, sign = descending ? -1 : 1;
    return [...rows].sort((a, b) => {
      const x = of(a), y = of(b);
      return sign * (typeof x === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true }));
    });
  }
  function draw() {
    headers.forEach((header, i) => {
      if (i === by) header.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else header.removeAttribute("aria-sort");
    });
    replace(body, sorted().slice(0, shown).map((row) => h("tr", attributes(row),
      columns.map((column, i) => h(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : undefined, class: column.numeric ? "number" : undefined }, column.cell(row))))));
    replace(foot,
      shown < rows.length && h("button", { type: "button", onclick: () => { shown += step; draw(); } }, `Show ${Math.min(step, rows.length - shown)} more of ${rows.length.toLocaleString("en")}`),
      shown >= rows.length && more);
  }
  draw();
  return h("div", { class: "table" }, h("table", {}, h("caption", { class: "hidden" }, caption), h("thead", {}, h("tr", {}, headers)), body), foot);
}
