import { get } from "../api.js";
import { append, badge, count, h, note, replace, say, workloadLink } from "../dom.js";
import { describePlace, picture } from "../picture.js";
import { describe } from "../source.js";
import { meanings, states, summary } from "../states.js";
import { table } from "../table.js";

const sizes = {
  workloads: { title: "workloads", of: (p) => p.objects },
  replicas: { title: "replicas", of: (p) => p.replicas },
  cpu: { title: "CPU", of: (p) => p.cpu?.allocatable ?? 0 },
  memory: { title: "memory", of: (p) => p.memory?.allocatable ?? 0 },
  equal: { title: "nothing", of: () => 1 },
};

const worst = (p) => states.find((state) => p.states[state] > 0);

const groupings = {
  region: { title: "region", of: (p) => p.region || "unknown region" },
  zone: { title: "zone", of: (p) => p.zones?.join(", ") || "unknown zone" },
  state: { title: "gravest state", of: (p) => worst(p) ?? "no workloads" },
  policy: { title: "policies", of: (p) => p.policies.join(", ") || "no policy" },
  none: { title: "nothing", of: () => "all clusters" },
};

// grouped returns the groups of clusters by name.
function grouped(places, of) {
  const groups = new Map();
  for (const p of places) {
    const name = p.name === "" ? "in no cluster" : of(p);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(p);
  }
  return [...groups].map(([name, list]) => ({ name, places: list })).sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
}

// weights returns a function that returns how large a cluster is. Small and empty clusters stay large enough to be seen.
function weights(places, of) {
  const total = places.reduce((sum, p) => sum + of(p), 0);
  const least = total > 0 ? total / places.length * 0.2 : 1;
  return (p) => Math.max(of(p), least);
}

function choice(label, values, value, change) {
  return h("label", {}, `${label} `, h("select", { onchange: (event) => change(event.target.value) },
    Object.entries(values).map(([name, { title }]) => h("option", { value: name, selected: name === value }, title))));
}

// What the user chose stays while the page is open.
const settings = { group: "region", size: "workloads", table: false };

// show shows the fleet.
export async function show(page, parameters) {
  const fleet = await get("fleet");
  describe(fleet);
  const hidden = new Set();
  let text = "";
  const details = h("aside", { class: "details", "aria-live": "polite", "aria-label": "The chosen cluster" });
  const canvas = picture({ choose });
  const body = h("div", { class: "body" });

  const matches = (p) => {
    const visible = hidden.size === 0 || states.some((state) => !hidden.has(state) && p.states[state] > 0);
    return visible && (text === "" || [p.name, p.region, ...(p.zones ?? []), ...p.policies].some((value) => value?.toLowerCase().includes(text)));
  };

  function lay() {
    canvas.lay(grouped(fleet.places, groupings[settings.group].of), weights(fleet.places, sizes[settings.size].of));
  }

  function filter() {
    canvas.filter(matches);
    if (settings.table) list();
    if (text !== "" || hidden.size > 0) say(`${count(fleet.places.filter(matches).length, "cluster")} match`);
  }

  function list() {
    replace(body, table({
      caption: "Clusters", rows: fleet.places.filter(matches), empty: "No cluster matches.",
      columns: [
        { title: "Cluster", cell: (p) => h("button", { type: "button", class: "link", onclick: () => choose(p) }, p.name || "in no cluster"), sort: (p) => p.name },
        { title: "Region", cell: (p) => p.region, sort: (p) => p.region ?? "" },
        { title: "Ready", cell: (p) => p.ready === undefined ? "unknown" : p.ready ? "yes" : "no", sort: (p) => String(p.ready) },
        { title: "Workloads", numeric: true, cell: (p) => p.objects.toLocaleString("en"), sort: (p) => p.objects },
        ...[...states].reverse().map((state) => ({ title: state, numeric: true, cell: (p) => p.states[state] ?? 0, sort: (p) => p.states[state] ?? 0 })),
        { title: "Arriving", numeric: true, cell: (p) => p.arriving, sort: (p) => p.arriving },
        { title: "Leaving", numeric: true, cell: (p) => p.leaving, sort: (p) => p.leaving },
        { title: "CPU in use", numeric: true, cell: (p) => used(p.cpu), sort: (p) => p.cpu?.used === undefined ? -1 : p.cpu.used / p.cpu.allocatable },
      ],
    }));
  }

  function arrange() {
    if (settings.table) list();
    else {
      replace(body, canvas.element);
      lay();
    }
  }

  async function choose(p) {
    canvas.select(p);
    page.classList.add("open");
    const chosen = { state: undefined };
    const members = h("div", { class: "members" });
    const load = async () => {
      replace(members, h("p", { class: "loading" }, "Loading…"));
      const result = await get("objects", { cluster: p.name, state: chosen.state, limit: 200 });
      replace(members, table({
        caption: `Workloads in ${p.name}`, rows: result.objects, empty: "No workloads.",
        columns: [
          { title: "Workload", cell: (o) => [workloadLink(o), h("small", {}, o.kind)], sort: (o) => `${o.namespace}/${o.name}` },
          { title: "State", cell: (o) => [badge(o.state), o.change && badge(o.change)], sort: (o) => states.indexOf(o.state) },
          { title: "Replicas", numeric: true, cell: (o) => o.here ?? "", sort: (o) => o.here ?? -1 },
        ],
        more: result.total > result.objects.length && h("p", {}, `The first ${result.objects.length} of ${result.total.toLocaleString("en")}. Find others with the search above.`),
      }));
    };
    replace(details,
      h("button", { type: "button", class: "close", "aria-label": "Close", onclick: shut }, "×"),
      h("h2", {}, p.name || "In no cluster"),
      h("p", { class: "facts" }, [p.region && `region ${p.region}`, p.zones?.length > 0 && `zones ${p.zones.join(", ")}`,
        p.ready === true && "ready", p.ready === false && h("b", { class: "bad" }, "not ready"), p.ready === undefined && p.name && "in no inventory"]
        .filter(Boolean).map((fact, i) => [i > 0 && " · ", fact])),
      p.name === "" && h("p", {}, "Policies match these workloads, and they name no cluster: most often because a policy denies them."),
      stack(p), bar("CPU", p.cpu, (n) => `${round(n)} cores`), bar("Memory", p.memory, (n) => `${round(n / 2 ** 30)} GiB`),
      (p.arriving > 0 || p.leaving > 0) && h("p", {}, [p.arriving > 0 && `${p.arriving} arriving`, p.leaving > 0 && `${p.leaving} leaving`].filter(Boolean).join(", ")),
      p.policies.length > 0 && h("p", {}, "Policies: ", p.policies.map((name, i) => [i > 0 && ", ", h("a", { href: `#/policies?name=${encodeURIComponent(name)}` }, name)])),
      p.name !== "" && h("p", {}, h("a", { href: `#/playground?cluster=${encodeURIComponent(p.name)}` }, "Try another label")),
      h("div", { class: "choices" }, choice("Show", { "": { title: "all workloads" }, ...Object.fromEntries(states.map((state) => [state, { title: state }])) }, "", (value) => {
        chosen.state = value || undefined;
        load();
      })),
      members);
    await load();
  }

  function shut() {
    page.classList.remove("open");
    canvas.select(null);
    replace(details);
  }

  append(page,
    h("h1", { class: "hidden" }, "Fleet"),
    fleet.notes.map((text) => note(text)),
    h("div", { class: "tools" },
      h("div", { class: "legend", role: "group", "aria-label": "States to show" }, states.map((state) => h("button", {
        type: "button", class: "toggle", "aria-pressed": "true", title: meanings[state],
        onclick: (event) => {
          if (!hidden.delete(state)) hidden.add(state);
          event.currentTarget.setAttribute("aria-pressed", String(!hidden.has(state)));
          filter();
        },
      }, badge(state, ""), h("b", {}, (fleet.states[state] ?? 0).toLocaleString("en")), ` ${state.toLowerCase()}`))),
      h("span", { class: "grow" }),
      h("input", { type: "search", placeholder: "Cluster or region", size: 15, "aria-label": "Show clusters by name, region, zone, or policy", oninput: (event) => {
        text = event.target.value.trim().toLowerCase();
        filter();
      } }),
      choice("Group", groupings, settings.group, (value) => {
        settings.group = value;
        arrange();
      }),
      choice("Size", sizes, settings.size, (value) => {
        settings.size = value;
        arrange();
      }),
      h("button", { type: "button", onclick: (event) => {
        settings.table = !settings.table;
        event.target.textContent = settings.table ? "Picture" : "Table";
        canvas.zoom.hidden = settings.table;
        arrange();
      } }, settings.table ? "Picture" : "Table"),
      canvas.zoom),
    fleet.places.length === 0
      ? note("There is no cluster: no inventory that Berth knows has one, and no workload names one.")
      : h("div", { class: "split" }, body, details),
    fleet.places.length > 0 && h("p", { class: "hint" }, h("b", {}, `${count(fleet.objects, "workload")} in ${count(fleet.places.filter((p) => p.name !== "").length, "cluster")}. `), "Each box is a cluster. Its colors are the shares of its workloads in each state. Hatched clusters are not ready. Click on a cluster to see its workloads. Zoom with the wheel, or double-click on a group."));
  canvas.element.addEventListener("resized", lay);
  if (fleet.places.length > 0) {
    arrange();
    const first = fleet.places.find((p) => p.name === parameters.get("cluster"));
    if (parameters.has("cluster") && first) await choose(first);
    else if (parameters.has("cluster")) page.prepend(note(`No cluster has the name ${parameters.get("cluster")}.`));
  }
  return () => canvas.end();
}

const round = (n) => n.toLocaleString("en", { maximumFractionDigits: n < 10 ? 1 : 0 });

const used = (a) => a?.used === undefined ? "" : `${Math.round(a.used / a.allocatable * 100)} %`;

// stack shows the states of the workloads of a cluster.
function stack(p) {
  if (p.objects === 0) return h("p", {}, "No workloads.");
  return h("div", {},
    h("div", { class: "stack", role: "img", "aria-label": describePlace(p) }, states.filter((state) => p.states[state] > 0).map((state) => {
      const part = h("span", { class: state.toLowerCase() });
      part.style.flexGrow = p.states[state];
      return part;
    })),
    h("p", { class: "facts" }, `${count(p.objects, "workload")}: ${summary(p.states)}`));
}

// bar shows what is used of a resource.
function bar(title, a, text) {
  if (!a) return "";
  const filled = h("span");
  filled.style.width = `${Math.min(100, (a.used ?? 0) / a.allocatable * 100)}%`;
  return h("div", { class: "usage" }, h("span", {}, title), h("div", { class: "bar" }, filled),
    h("span", {}, a.used === undefined ? text(a.allocatable) : `${text(a.used)} of ${text(a.allocatable)}`));
}
