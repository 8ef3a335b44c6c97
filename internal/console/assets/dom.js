// Elements of pages. All text of others goes through plain, so that it can't hide or reorder the text around it.

// plain returns a text in which characters without a glyph are replaced by escapes.
export function plain(text) {
  return String(text).replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

const namespace = "http://www.w3.org/2000/svg";

function build(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "selected" || name === "disabled" || name === "hidden") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  return append(element, ...children);
}

// append appends elements and texts. Nothing is appended for null, undefined, false, and "".
export function append(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    element.append(child instanceof Node ? child : plain(child));
  }
  return element;
}

// h returns an element of HTML. Properties that start with "on" are listeners.
export function h(name, properties, ...children) {
  return build(document.createElement(name), properties, children);
}

// s returns an element of SVG.
export function s(name, properties, ...children) {
  return build(document.createElementNS(namespace, name), properties, children);
}

// replace replaces the content of an element.
export function replace(element, ...children) {
  element.replaceChildren();
  return append(element, ...children);
}

// lines returns the lines of a message.
export function lines(text) {
  return String(text).split("\n").map((line, i) => [i > 0 && h("br"), line.replaceAll("\t", "    ")]);
}

// count returns a number with its noun.
export function count(n, one, many = one + "s") {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

// say has screen readers read a text.
export function say(text) {
  document.getElementById("status").textContent = plain(text);
}

// note returns a note on the page. kind is "warning" or "error".
export function note(text, kind = "warning") {
  return h("p", { class: `note ${kind}`, role: kind === "error" ? "alert" : undefined }, lines(text));
}

// command returns a command with a button that copies it.
export function command(text) {
  const button = h("button", {
    type: "button", class: "copy", "aria-label": `Copy the command ${plain(text)}`,
    onclick: async () => {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      say("Copied");
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    },
  }, "Copy");
  return h("div", { class: "command" }, h("code", {}, text), button);
}

// workloadLink returns a link to the view of a workload.
export function workloadLink(o) {
  const query = new URLSearchParams({ resource: o.resource, namespace: o.namespace ?? "", name: o.name });
  return h("a", { href: `#/workload?${query}` }, o.namespace ? `${o.namespace}/${o.name}` : o.name);
}

// clusterLink returns a link to a cluster in the picture of the fleet.
export function clusterLink(name) {
  return h("a", { href: `#/fleet?${new URLSearchParams({ cluster: name })}` }, name);
}

// badge returns a state as a mark with its color.
export function badge(state, text = state) {
  return h("span", { class: `badge ${String(state).toLowerCase()}` }, text);
}
