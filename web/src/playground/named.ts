import type { ClusterPart } from "../components/basics";
import type { ExplainReason } from "../types.gen";

/** partIn returns the label, annotation, or field of a cluster that a reference in Rego names; undefined if a change can set none of it. */
function partIn(reference: string): ClusterPart | undefined {
  // An object has labels and annotations, too.
  if (/^(?:\w+\()*input\b/.test(reference)) return undefined;
  const [, map, quoted, plain] = /\.(label|annotation)s(?:\["([^"]+)"\]|\.(\w+))/.exec(reference) ?? [], key = quoted ?? plain;
  if (map !== undefined && key !== undefined) return map === "label" ? { label: key } : { annotation: key };
  const [, field] = /^[^"]*\.(region|zones|provider)\b/.exec(reference) ?? [];
  return field === undefined ? undefined : { field };
}

/** partOf returns the first part of a cluster that reasons name and a change can set, with the policy; undefined if there is none. */
export function partOf(reasons: readonly ExplainReason[]): ClusterPart | undefined {
  for (const r of reasons) {
    const part = (r.values ?? []).map((v) => partIn(v.reference)).find((found) => found !== undefined) ?? partOf(r.because ?? []);
    if (part) return { policy: r.policy, ...part };
  }
  return undefined;
}
