import { h, plain, replace } from "./dom.js";

// editor returns a field for text with the numbers of lines. change is called when the user changes the text.
export function editor({ label, change }) {
  const numbers = h("pre", { class: "numbers", "aria-hidden": "true" });
  const area = h("textarea", {
    spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", "aria-label": label,
    oninput: () => {
      number();
      change();
    },
    onscroll: () => { numbers.scrollTop = area.scrollTop; },
    onkeydown: (event) => {
      // Escape lets the user leave the field with Tab.
      if (event.key === "Escape") free = true;
      else if (event.key === "Tab" && !event.shiftKey && !free) {
        event.preventDefault();
        area.setRangeText("  ", area.selectionStart, area.selectionEnd, "end");
        area.dispatchEvent(new Event("input"));
      } else if (event.key !== "Tab") free = false;
    },
    onfocus: () => { free = true; },
  });
  let free = true, marks = new Map();

  function number() {
    const n = area.value.split("\n").length;
    replace(numbers, Array.from({ length: n }, (_, i) => h("span", { class: marks.get(i + 1), title: marks.has(i + 1) ? "This line has a mistake" : undefined }, String(i + 1))));
    numbers.scrollTop = area.scrollTop;
  }
  number();

  return {
    element: h("div", { class: "editor" }, numbers, area),
    get text() { return area.value; },
    set text(value) {
      area.value = value;
      marks = new Map();
      number();
    },
    // mark marks the lines of mistakes.
    mark(mistakes) {
      marks = new Map();
      for (const m of mistakes) {
        if (m.line > 0 && marks.get(m.line) !== "error") marks.set(m.line, m.error ? "error" : "warning");
      }
      number();
    },
    // go sets the cursor to a line and column.
    go(line, column) {
      const before = area.value.split("\n").slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
      area.focus();
      area.setSelectionRange(before + column - 1, before + column - 1);
      area.scrollTop = Math.max(0, (line - 5) * 18);
    },
    // describe adds a text for screen readers.
    describe(text) { area.setAttribute("aria-description", plain(text)); },
  };
}
