import { useEffect, useMemo, useState } from "preact/hooks";
import { kindOf, layout, pathOf, shades } from "../charts/flows";
import { useUnready } from "../hooks";
import { count } from "../text";
import type { Flow } from "../types.gen";
import { Note } from "./basics";

const shorter = (name: string, most: number) => (name.length > most ? `${name.slice(0, most - 1)}…` : name);

const narrow = matchMedia("(max-width: 700px)");

/** useNarrow reports whether the window is narrow. */
function useNarrow(): boolean {
  const [is, setIs] = useState(narrow.matches);
  useEffect(() => {
    const changed = () => setIs(narrow.matches);
    narrow.addEventListener("change", changed);
    return () => narrow.removeEventListener("change", changed);
  }, []);
  return is;
}

/** most is how many clusters are named that are not ready. */
const most = 5;

/** UnreadyTargets warns of flows to clusters that are not ready. */
export function UnreadyTargets({ flows }: { flows: readonly Flow[] | null }) {
  const isUnready = useUnready(), counts = new Map<string, number>();
  for (const flow of flows ?? []) {
    if (isUnready(flow.to)) counts.set(flow.to, (counts.get(flow.to) ?? 0) + flow.objects);
  }
  if (counts.size === 0) return null;
  const lines = [...counts].slice(0, most).map(([name, n]) => `${count(n, "workload")} would come to ${name}, which is not ready.`);
  if (counts.size > most) lines.push(`The same holds for ${count(counts.size - most, "more cluster")}.`);
  return <Note text={[...lines, `A rule avoids such clusters if it requires {field: ready, operator: In, values: ["true"]}.`].join("\n")} />;
}

/** Flows is a picture of how many workloads leave which cluster and come to which other one. The note says what it counts. */
export function Flows({ flows, note }: { flows: readonly Flow[] | null; note?: string }) {
  const size = useNarrow() ? "narrow" : "wide";
  const isUnready = useUnready();
  const drawn = useMemo(() => (flows && flows.length > 0 ? layout(flows, size) : null), [flows, size]);
  if (!drawn || !flows) return null;
  const { graph, width, height, labels } = drawn, short = (name: string) => shorter(name, size === "narrow" ? 13 : 22);
  const text = flows.slice(0, 10).map((flow) => `${flow.objects} from ${flow.from || "none"} to ${flow.to || "none"}`).join("; ");
  return (
    <figure class="flows">
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`Flows of workloads between clusters: ${text}`}>
        <text class="side" x={labels + 12} y={12} text-anchor="end">leave</text>
        <text class="side" x={width - labels - 12} y={12}>come to</text>
        {[...graph.links].sort((a, b) => b.value - a.value).map((band) => (
          <g key={`${band.from} ${band.to} ${band.pending} ${band.planned}`}>
            <path class="edge" d={pathOf(band) ?? ""} stroke-width={Math.max(2, band.width ?? 0) + 2} />
            <path class={`band ${kindOf(band)}`} d={pathOf(band) ?? ""} stroke-width={Math.max(2, band.width ?? 0)}>
              <title>{`${count(band.value, "workload")}: ${band.from || "no other cluster"} → ${band.to || "no other cluster"}${band.pending ? ", waiting" : ""}${band.planned ? ", which wait already to leave it" : ""}`}</title>
            </path>
          </g>
        ))}
        {graph.nodes.map((end) => {
          const x0 = end.x0 ?? 0, x1 = end.x1 ?? 0, y0 = end.y0 ?? 0, y1 = end.y1 ?? 0;
          const nowhere = end.name === "" ? "nowhere" : "", isBad = end.side === "to" && isUnready(end.name);
          return (
            <g key={end.id}>
              <rect class={`end ${nowhere}`} x={x0} y={y0} width={x1 - x0} height={Math.max(3, y1 - y0)} rx={2} />
              <text class={isBad ? "bad" : nowhere} x={end.side === "from" ? x0 - 6 : x1 + 6} y={(y0 + y1) / 2 + 4} text-anchor={end.side === "from" ? "end" : "start"}>
                {`${short(end.name || "no other cluster")} · ${(end.value ?? 0).toLocaleString("en")}`}<title>{isBad ? `${end.name} is not ready` : end.name}</title>
              </text>
            </g>
          );
        })}
      </svg>
      <figcaption class="hint">
        {note}
        <ul class="legend" aria-label="Workloads by color">{shades(flows).map(({ kind, text }) => <li key={kind}><span class={`key band ${kind}`} />{text}</li>)}</ul>
      </figcaption>
    </figure>
  );
}
