import { type FleetState, fleetStates, type WhatifTransition } from "./types.gen";

/** Counts are numbers of workloads by state. */
export type Counts = Partial<Record<FleetState, number>> | null;

/** meanings say what the states of workloads mean. */
export const meanings: Record<FleetState, string> = {
  Violating: "A policy denies the workload or can't decide it, its last move failed, or it differs and Berth does not patch it.",
  Moving: "Berth moved the workload to other clusters, in which it does not run yet.",
  Waiting: "The workload differs from what policies decide, and Berth is going to patch it.",
  Running: "The workload has the placement that policies decide.",
};

/** inState returns the number of workloads in a state. */
export function inState(counts: Counts, state: FleetState): number {
  return counts?.[state] ?? 0;
}

/** summary returns the counts of states as text, the gravest first. */
export function summary(counts: Counts): string {
  return fleetStates.filter((state) => inState(counts, state) > 0).map((state) => `${inState(counts, state).toLocaleString("en")} ${state.toLowerCase()}`).join(", ");
}

/** Transition is how the page shows what happens to an object. */
interface Transition {
  title: string;
  kind: "violating" | "running" | "moving" | "waiting" | "lost";
  text: string;
}

export const transitions: Record<WhatifTransition, Transition> = {
  Denied: { title: "denied", kind: "violating", text: "A policy denies the object. An existing object stays as it is, and its next update is denied." },
  Undecidable: { title: "undecidable", kind: "violating", text: "A policy can't decide the object." },
  Allowed: { title: "released", kind: "running", text: "Policies no longer deny the object, or all can decide it again." },
  Moved: { title: "would move", kind: "moving", text: "The clusters or the scheduling fields change." },
  Changed: { title: "would change", kind: "moving", text: "Only other labels or annotations change." },
  Pending: { title: "newly waiting", kind: "waiting", text: "Policies decide other values, for which the object waits: it gets them with an approval, or at an update." },
  Replanned: { title: "waiting for another move", kind: "waiting", text: "The object waits already, and would get other values, or wait in another way." },
  Kept: { title: "no longer waiting", kind: "running", text: "The object waits already for a change that would no longer be needed. It would stay as it is." },
  Matched: { title: "newly matched", kind: "lost", text: "Other policies match the object, and nothing changes." },
  Unmatched: { title: "no longer matched", kind: "lost", text: "Fewer policies match the object, and nothing changes." },
  Unenforced: { title: "no longer enforced", kind: "lost", text: "A policy that matches the object is no longer enforced, and nothing changes." },
  Waiting: { title: "waiting as before", kind: "waiting", text: "The object waits already, and stays the same." },
};

/** planStates are the states of plans as text. */
export const planStates: Record<string, string> = {
  Proposed: "is not carried out", WaitingForApproval: "waits for an approval", InProgress: "is carried out", Completed: "is completed",
};

/** waitingText says what objects of a policy wait for. */
export function waitingText(w: { objects?: number; message?: string; reason?: string }): string {
  const n = w.objects ?? 0;
  return `${n.toLocaleString("en")} ${n === 1 ? "object waits" : "objects wait"} ${w.message ?? `(${w.reason})`}`;
}
