import { sankey, sankeyLinkHorizontal, type SankeyGraph, type SankeyLink, type SankeyNode } from "d3-sankey";
import type { Flow } from "../types.gen";

/** others is the name of the clusters that are joined because their flows are small. */
export const others = "other clusters";

const shown = 12, bar = 12, top = 24;

/** sizes are the width of the picture, and the room in it for the names of clusters at each side. */
const sizes = { wide: { width: 640, labels: 190 }, narrow: { width: 380, labels: 118 } };

type Side = "from" | "to";

/** End is a cluster that workloads leave or come to. An empty name stands for none. */
export interface End {
  id: string;
  side: Side;
  name: string;
}

/** Band is a flow between two ends. */
export interface Band {
  from: string;
  to: string;
  pending: boolean;
  planned: boolean;
}

export type PlacedEnd = SankeyNode<End, Band>;
export type PlacedBand = SankeyLink<End, Band>;

/** merged returns the largest flows. The clusters with the smaller ones are joined. */
export function merged(flows: readonly Flow[]): Flow[] {
  const keep = (side: Side) => {
    const sizes = new Map<string, number>();
    for (const flow of flows) sizes.set(flow[side], (sizes.get(flow[side]) ?? 0) + flow.objects);
    return new Set([...sizes].sort((a, b) => b[1] - a[1]).slice(0, shown).map(([name]) => name));
  };
  const kept = { from: keep("from"), to: keep("to") };
  const out = new Map<string, Flow>();
  for (const flow of flows) {
    const from = kept.from.has(flow.from) ? flow.from : others, to = kept.to.has(flow.to) ? flow.to : others;
    const planned = flow.planned ?? false, key = JSON.stringify([from, to, flow.pending, planned]);
    const sum = out.get(key) ?? { from, to, pending: flow.pending, planned, objects: 0 };
    sum.objects += flow.objects;
    out.set(key, sum);
  }
  return [...out.values()];
}

/** layout returns the ends and bands of a picture with their places, its size, and the room for names. */
export function layout(flows: readonly Flow[], size: keyof typeof sizes): { graph: SankeyGraph<End, Band>; width: number; height: number; labels: number } {
  const { width, labels } = sizes[size];
  const list = merged(flows);
  const ends = new Map<string, End>();
  const end = (side: Side, name: string) => {
    const id = `${side} ${name}`;
    ends.set(id, { id, side, name });
    return id;
  };
  const links = list.map((flow) => ({
    source: end("from", flow.from), target: end("to", flow.to), value: flow.objects, from: flow.from, to: flow.to, pending: flow.pending, planned: flow.planned ?? false,
  }));
  const most = Math.max(...(["from", "to"] as const).map((side) => [...ends.values()].filter((e) => e.side === side).length));
  const height = top + 70 + most * 28;
  const order = (a: PlacedEnd, b: PlacedEnd) => Number(a.name === others) - Number(b.name === others) || (b.value ?? 0) - (a.value ?? 0) || a.name.localeCompare(b.name);
  const graph = sankey<End, Band>().nodeId((e) => e.id).nodeWidth(bar).nodePadding(16).nodeSort(order)
    .extent([[labels, top], [width - labels, height - 4]])({ nodes: [...ends.values()], links });
  return { graph, width, height, labels };
}

/** pathOf returns the middle line of a band. */
export const pathOf = sankeyLinkHorizontal<End, Band>();

/** kindOf returns how a band is colored. */
export function kindOf(band: Band): string {
  return `${colorOf(band)} ${band.planned ? "planned" : ""}`.trim();
}

function colorOf(band: Band): string {
  return band.pending ? "pending" : band.from === "" ? "added" : band.to === "" ? "removed" : "moved";
}

const texts: Record<string, string> = {
  moved: "move from one cluster to another",
  added: "come to a cluster, and leave none",
  removed: "leave a cluster, and come to none",
  pending: "move after an approval, or at their next update",
  "moved planned": "move now from a cluster that they wait already to leave",
  "removed planned": "leave now a cluster that they wait already to leave, and come to none",
  "pending planned": "wait already to leave that cluster, and would come to another one than planned",
};

/** shades returns the kinds of some flows, and what they mean. */
export function shades(flows: readonly Flow[]): { kind: string; text: string }[] {
  const kinds = new Set(flows.map((flow) => kindOf({ ...flow, planned: flow.planned ?? false })));
  return Object.entries(texts).filter(([kind]) => kinds.has(kind)).map(([kind, text]) => ({ kind, text }));
}
