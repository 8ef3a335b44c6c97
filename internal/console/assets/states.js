// The states of workloads, and what they mean.

export const states = ["Violating", "Moving", "Waiting", "Running"];

export const meanings = {
  Violating: "A policy denies the workload or can't decide it, its last move failed, or it differs and Berth does not patch it.",
  Moving: "Berth moved the workload to other clusters, in which it does not run yet.",
  Waiting: "The workload differs from what policies decide, and Berth is going to patch it.",
  Running: "The workload has the placement that policies decide.",
};

// colors returns the colors of the theme by name.
export function colors() {
  const style = getComputedStyle(document.documentElement);
  return new Proxy({}, { get: (_, name) => style.getPropertyValue(`--${String(name).toLowerCase()}`).trim() });
}

// summary returns the counts of states as text, the gravest first.
export function summary(counts) {
  return states.filter((state) => counts[state] > 0).map((state) => `${counts[state].toLocaleString("en")} ${state.toLowerCase()}`).join(", ");
}
