import { get, post } from "./api.js";
import { describe } from "./source.js";
import { badge, count, h, note, plain, replace, say } from "./dom.js";

const views = [
  { path: "fleet", title: "Fleet", load: () => import("./views/fleet.js") },
  { path: "workload", title: "Workload", load: () => import("./views/workload.js") },
  { path: "policies", title: "Policies", load: () => import("./views/policies.js") },
  { path: "plan", title: "Plan", load: () => import("./views/plan.js") },
  { path: "quotas", title: "Quotas", load: () => import("./views/quotas.js") },
  { path: "playground", title: "Playground", load: () => import("./views/playground.js") },
];

const main = document.getElementById("main");
const links = new Map(views.map((view) => [view.path, h("a", { href: `#/${view.path}` }, view.title)]));
replace(document.getElementById("views"), ...links.values());

// leave ends what the current view does in the background.
let leave = () => {};
let visit = 0;

// show shows the view of the address.
async function show() {
  const [path, query] = location.hash.replace(/^#\//, "").split("?");
  const view = views.find((v) => v.path === path) ?? views[0];
  for (const [name, link] of links) {
    if (name === view.path) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${view.title} – Berth`;
  leave();
  leave = () => {};
  const mine = ++visit;
  const page = h("div", { class: `page ${view.path}` });
  const waiting = setTimeout(() => replace(main, h("p", { class: "loading" }, "Reading the cluster and deciding its objects…")), 150);
  let end;
  try {
    end = await (await view.load()).show(page, new URLSearchParams(query));
  } catch (err) {
    page.append(h("h1", {}, view.title), note(err.message, "error"));
  }
  clearTimeout(waiting);
  if (mine !== visit) {
    end?.();
    return;
  }
  leave = end ?? leave;
  replace(main, page);
  page.dispatchEvent(new Event("shown"));
  say(view.title);
}

document.getElementById("refresh").addEventListener("click", async (event) => {
  event.target.disabled = true;
  try {
    await post("refresh");
  } catch (err) {
    main.prepend(note(err.message, "error"));
  } finally {
    event.target.disabled = false;
  }
  await show();
});

// The theme is that of the system, unless the user chooses another one.
const theme = document.getElementById("theme");
const dark = () => (localStorage.getItem("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
function paint() {
  document.documentElement.dataset.theme = dark() ? "dark" : "light";
  theme.textContent = dark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Use the ${dark() ? "light" : "dark"} theme`);
  document.dispatchEvent(new Event("themed"));
}
theme.addEventListener("click", () => {
  localStorage.setItem("theme", dark() ? "light" : "dark");
  paint();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
paint();

// The search finds workloads by a part of their names.
const find = document.getElementById("find"), found = document.getElementById("found");
let search, chosen = -1;
function close() {
  found.hidden = true;
  find.setAttribute("aria-expanded", "false");
  find.removeAttribute("aria-activedescendant");
  chosen = -1;
}
async function lookUp() {
  search?.abort();
  search = new AbortController();
  const text = find.value.trim();
  if (text === "") return close();
  try {
    const result = await get("objects", { q: text, limit: 12 }, { signal: search.signal });
    replace(found, result.objects.map((o, i) => h("li", { role: "option", id: `found-${i}`, onclick: () => open(o) },
      badge(o.state, ""), h("span", {}, o.namespace ? `${o.namespace}/${o.name}` : o.name), h("small", {}, o.kind))),
    h("li", { class: "rest" }, result.total > 12 ? `${count(result.total, "workload")} in all` : result.total === 0 ? "No workload that policies place has such a name." : ""));
    found.hidden = false;
    chosen = -1;
    find.setAttribute("aria-expanded", "true");
    say(count(result.total, "workload"));
    found.objects = result.objects;
  } catch (err) {
    if (err.name !== "AbortError") say(err.message);
  }
}
function open(o) {
  close();
  find.value = "";
  location.hash = `#/workload?${new URLSearchParams({ resource: o.resource, namespace: o.namespace ?? "", name: o.name })}`;
}
let typing;
find.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(lookUp, 120);
});
find.addEventListener("keydown", (event) => {
  const options = [...found.querySelectorAll("[role=option]")];
  if (event.key === "Escape") return close();
  if (found.hidden || options.length === 0) return;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    chosen = (chosen + (event.key === "ArrowDown" ? 1 : -1) + options.length) % options.length;
    options.forEach((option, i) => option.setAttribute("aria-selected", String(i === chosen)));
    find.setAttribute("aria-activedescendant", options[chosen].id);
  } else if (event.key === "Enter") {
    open(found.objects[Math.max(chosen, 0)]);
  }
});
find.addEventListener("blur", () => setTimeout(close, 200));
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
    event.preventDefault();
    find.focus();
  }
});

addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
await show();
if (document.getElementById("source").textContent === "") {
  get("fleet").then(describe).catch((err) => say(plain(err.message)));
}
