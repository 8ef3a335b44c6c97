import { h, plain, replace } from "./dom.js";

// describe shows in the header what was read, and when.
export function describe(fleet) {
  const source = document.getElementById("source");
  source.title = plain(fleet.source);
  replace(source, h("b", {}, fleet.source.split(", ").map((name) => name.split("/").pop()).join(", ")), ` read at ${new Date(fleet.readAt).toLocaleTimeString()}`);
}
