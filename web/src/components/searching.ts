import type { Place } from "../types.gen";

/** labelIn returns the key of the label that a text is, KEY=VALUE, or KEY= for any value; undefined if it is none. */
export function labelIn(text: string): string | undefined {
  return /^([^=\s]+)=\S*$/.exec(text)?.[1];
}

/** namedLike returns the clusters whose names have a part: the one with that name first, then those whose names begin with it. */
export function namedLike(places: readonly Place[], part: string): Place[] {
  const wanted = part.toLowerCase();
  const order = ({ name }: Place) => (name.toLowerCase() === wanted ? 0 : name.toLowerCase().startsWith(wanted) ? 1 : 2);
  return places.filter((p) => p.name.toLowerCase().includes(wanted)).sort((a, b) => order(a) - order(b) || a.name.localeCompare(b.name, "en", { numeric: true }));
}
