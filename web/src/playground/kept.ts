import type { Tried } from "./share";

/** kept is what the user tried (now), which stays while the page is open, and what a link has put aside (earlier). */
export const kept: { now?: Tried; earlier?: Tried } = {};

/** isChanged reports whether there is a change to try. A text that is empty, or that the user has not changed, is none. */
export function isChanged(tried: Tried): boolean {
  return tried.text !== "" && tried.text !== tried.original || tried.set.length > 0 || tried.remove.length > 0;
}

/** startAnew has the playground start without changes. It keeps those before, which the user can bring back. */
export function startAnew(): void {
  if (kept.now && isChanged(kept.now)) kept.earlier = kept.now;
  delete kept.now;
}
