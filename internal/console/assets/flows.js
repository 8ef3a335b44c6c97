import { count, h, plain, s } from "./dom.js";

const others = "other clusters";

const shown = 12, width = 640, bar = 12, gap = 8, labels = 190;

// merged returns the largest flows. The clusters with the smaller ones are joined.
function merged(flows) {
  const size = new Map();
  const key = (flow, end) => `${end}\n${flow[end]}`;
  for (const flow of flows) {
    for (const end of ["from", "to"]) size.set(key(flow, end), (size.get(key(flow, end)) ?? 0) + flow.objects);
  }
  const keep = (end) => new Set([...size.keys()].filter((k) => k.startsWith(end)).sort((a, b) => size.get(b) - size.get(a)).slice(0, shown));
  const kept = { from: keep("from"), to: keep("to") };
  const out = new Map();
  for (const flow of flows) {
    const from = kept.from.has(key(flow, "from")) ? flow.from : others;
    const to = kept.to.has(key(flow, "to")) ? flow.to : others;
    const id = `${from}\n${to}\n${flow.pending}`;
    const sum = out.get(id) ?? { from, to, pending: flow.pending, objects: 0 };
    sum.objects += flow.objects;
    out.set(id, sum);
  }
  return [...out.values()];
}

// columnOf returns the ends of flows on one side, the largest first, with their places.
function columnOf(flows, end, scale) {
  const nodes = new Map();
  for (const flow of flows) {
    const node = nodes.get(flow[end]) ?? { name: flow[end], objects: 0, used: 0 };
    node.objects += flow.objects;
    nodes.set(flow[end], node);
  }
  let y = 0;
  const sorted = [...nodes.values()].sort((a, b) => (a.name === others) - (b.name === others) || b.objects - a.objects || a.name.localeCompare(b.name));
  for (const node of sorted) {
    node.y = y;
    node.height = Math.max(3, node.objects * scale);
    y += Math.max(node.height, 15) + gap;
  }
  return { nodes, sorted, height: y - gap };
}

const none = { from: "no other cluster", to: "no other cluster" };

// flows returns a picture of how many workloads leave which cluster and come to which other one; "" if there are none.
export function flows(list) {
  if (list.length === 0) return "";
  const merge = merged(list);
  const total = merge.reduce((sum, flow) => sum + flow.objects, 0);
  const scale = 220 / total;
  const left = columnOf(merge, "from", scale), right = columnOf(merge, "to", scale);
  const height = Math.max(left.height, right.height) + 24;
  const x1 = labels, x2 = width - labels;
  const bands = merge.sort((a, b) => left.nodes.get(a.from).y - left.nodes.get(b.from).y || right.nodes.get(a.to).y - right.nodes.get(b.to).y).map((flow) => {
    const from = left.nodes.get(flow.from), to = right.nodes.get(flow.to);
    const y1 = 24 + from.y + from.used, y2 = 24 + to.y + to.used;
    const t1 = from.height * flow.objects / from.objects, t2 = to.height * flow.objects / to.objects;
    from.used += t1;
    to.used += t2;
    const a = x1 + bar, b = x2 - bar, m = (a + b) / 2;
    const kind = flow.from === "" ? "added" : flow.to === "" ? "removed" : "moved";
    return s("path", {
      class: `band ${flow.pending ? "pending" : kind}`,
      d: `M${a},${y1} C${m},${y1} ${m},${y2} ${b},${y2} L${b},${y2 + t2} C${m},${y2 + t2} ${m},${y1 + t1} ${a},${y1 + t1} Z`,
    }, s("title", {}, `${count(flow.objects, "workload")}: ${flow.from || none.from} → ${flow.to || none.to}${flow.pending ? ", at the next update" : ""}`));
  });
  const side = (column, end, x, textX, anchor) => column.sorted.map((node) => [
    s("rect", { class: node.name === "" ? "end nowhere" : "end", x, y: 24 + node.y, width: bar, height: node.height, rx: 2 }),
    s("text", { class: node.name === "" ? "nowhere" : undefined, x: textX, y: 24 + node.y + Math.max(node.height, 15) / 2 + 4, "text-anchor": anchor },
      `${short(node.name || none[end])} · ${node.objects.toLocaleString("en")}`, s("title", {}, node.name)),
  ]);
  const text = list.slice(0, 10).map((flow) => `${flow.objects} from ${flow.from || "none"} to ${flow.to || "none"}`).join("; ");
  return h("figure", { class: "flows" },
    s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": plain(`Flows of workloads between clusters: ${text}`) },
      s("text", { class: "side", x: x1 + bar, y: 12, "text-anchor": "end" }, "leave"),
      s("text", { class: "side", x: x2 - bar, y: 12 }, "come to"),
      bands, side(left, "from", x1, x1 - 6, "end"), side(right, "to", x2 - bar, x2 + 6, "start")));
}

function short(name) {
  return name.length > 22 ? `${name.slice(0, 21)}…` : name;
}
