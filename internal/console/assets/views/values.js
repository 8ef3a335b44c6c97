import { h } from "../dom.js";

// listOf returns the names in the text of a list of clusters; undefined if it is none.
function listOf(text) {
  if (text === null || text === undefined) return [];
  try {
    const names = JSON.parse(text).flat();
    return names.every((name) => typeof name === "string") ? names : undefined;
  } catch {
    return undefined;
  }
}

// change shows a value before and after. In lists of clusters, it marks the names that come and go.
export function change(v) {
  const before = listOf(v.from), after = listOf(v.to);
  const clusters = v.field === "clusters" || v.key === "placement.berth.dev/clusters";
  if (clusters && before && after) {
    const names = [...new Set([...before, ...after])].sort();
    return h("div", { class: "change" }, names.map((name) => h("span", { class: !after.includes(name) ? "gone" : !before.includes(name) ? "new" : "kept" },
      !after.includes(name) ? "−" : !before.includes(name) ? "+" : "", name)),
    names.length === 0 && "no clusters", v.pending && h("small", {}, "at its next update"));
  }
  const value = (text) => text === null || text === undefined ? h("i", {}, "none") : h("code", {}, text);
  return h("div", { class: "change" }, h("small", {}, `${v.field} ${v.key}: `), value(v.from), " → ", value(v.to), v.pending && h("small", {}, " at its next update"));
}
