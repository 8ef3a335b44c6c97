import { type Changed, listsOf } from "../changes";
import type { WhatifObject } from "../types.gen";

/** without returns the names that are in one list and not in the other one, sorted. */
function without(list: readonly string[], other: readonly string[]): string[] {
  const known = new Set(other);
  return list.filter((name) => !known.has(name)).sort();
}

/** differenceOf returns what a change does, apart from the clusters that stay. */
function differenceOf(v: Changed): unknown {
  const lists = listsOf(v);
  return [v.field, v.key, lists ? [without(lists.before, lists.after), without(lists.after, lists.before)] : [v.from, v.to], v.pending ?? false, v.waits ?? ""];
}

/** Group are objects to which the same happens, and of which the same clusters come and go. */
export interface Group {
  key: string;
  objects: WhatifObject[];
  /** isSame reports whether the objects keep the same clusters, too. */
  isSame: boolean;
}

/** grouped returns objects in groups: those to which the same kind of thing happens one after the other, the largest first. */
export function grouped(objects: readonly WhatifObject[]): Group[] {
  const groups = new Map<string, Group>();
  // Most objects have the same values as the one before.
  const known = new Map<string, string>();
  for (const o of objects) {
    const whole = JSON.stringify([o.transition, o.values, o.reasons, o.dropped]);
    let key = known.get(whole);
    const isNew = key === undefined;
    if (key === undefined) {
      const values = o.values?.map((v) => [differenceOf(v), v.planned && differenceOf({ ...v, to: v.planned.to, pending: v.planned.pending ?? false, waits: v.planned.waits ?? "" })]);
      key = JSON.stringify([o.transition, values, o.reasons, o.dropped?.map(differenceOf)]);
      known.set(whole, key);
    }
    const group = groups.get(key);
    if (group) {
      group.objects.push(o);
      group.isSame &&= !isNew;
    } else groups.set(key, { key, objects: [o], isSame: true });
  }
  const kinds = [...new Set(objects.map((o) => o.transition))], kindOf = ({ objects: [o] }: Group) => (o ? kinds.indexOf(o.transition) : 0);
  return [...groups.values()].sort((a, b) => kindOf(a) - kindOf(b) || b.objects.length - a.objects.length);
}
