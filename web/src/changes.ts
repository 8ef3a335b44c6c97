/** Changed is a value before and after. */
export interface Changed {
  field: string;
  key: string;
  from: string | null;
  to: string | null;
  pending?: boolean;
  waits?: string;
}

/** listOf returns the names in the text of a list of clusters; undefined if it is none. */
export function listOf(text: string | null): string[] | undefined {
  if (text === null) return [];
  try {
    const names: unknown = JSON.parse(text);
    const flat = Array.isArray(names) ? (names as unknown[]).flat() : undefined;
    return flat?.every((name) => typeof name === "string") ? flat : undefined;
  } catch {
    return undefined;
  }
}

/** listsOf returns the clusters before and after a change; undefined if it is no change of clusters. */
export function listsOf(v: Changed): { before: string[]; after: string[] } | undefined {
  if (v.field !== "clusters" && v.key !== "placement.berth.dev/clusters") return undefined;
  const before = listOf(v.from), after = listOf(v.to);
  return before && after && { before, after };
}
