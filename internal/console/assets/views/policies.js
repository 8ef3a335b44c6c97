import { get } from "../api.js";
import { append, badge, command, count, h, lines, note, replace } from "../dom.js";
import { states } from "../states.js";
import { table } from "../table.js";

const ready = (p) => p.status.conditions?.find((c) => c.type === "Ready");

// waitingText says what objects of a policy wait for.
export function waitingText(w) {
  const n = w.objects ?? 0;
  return `${count(n, "object")} ${n === 1 ? "waits" : "wait"} ${w.message ?? `(${w.reason})`}`;
}

// planStates are the states of plans as text.
export const planStates = { Proposed: "is not carried out", WaitingForApproval: "waits for an approval", InProgress: "is carried out", Completed: "is completed" };

// show shows the policies, and one of them in detail.
export async function show(page, parameters) {
  const { policies, notes } = await get("policies");
  const details = h("div");
  append(page,
    h("h1", {}, "Policies"),
    notes.map((text) => note(text)),
    table({
      caption: "Policies", rows: policies, empty: "There is no PlacementPolicy.",
      columns: [
        { title: "Policy", cell: (p) => h("a", { href: `#/policies?name=${encodeURIComponent(p.name)}` }, p.name), sort: (p) => p.name },
        { title: "Ready", cell: (p) => p.errors?.length > 0 ? badge("violating", "can't decide") : ready(p) ? badge(ready(p).status === "True" ? "running" : "waiting", ready(p).status === "True" ? "ready" : ready(p).reason) : "no status", sort: (p) => ready(p)?.status ?? "" },
        { title: "Mode", cell: (p) => p.mode, sort: (p) => p.mode },
        { title: "Priority", numeric: true, cell: (p) => p.priority, sort: (p) => p.priority },
        ...[...states].reverse().map((state) => ({ title: state, numeric: true, cell: (p) => p.states ? (p.states[state] ?? 0).toLocaleString("en") : "?", sort: (p) => p.states?.[state] ?? -1 })),
        { title: "Waits for", cell: (p) => (p.status.waiting ?? []).map((w) => h("div", {}, waitingText(w))) },
        { title: "Stage", cell: (p) => p.status.rollout?.stage ?? "" },
        { title: "Plan", cell: (p) => p.status.plan ? h("a", { href: `#/plan?name=${encodeURIComponent(p.name)}` }, `${planStates[p.status.plan.state] ?? p.status.plan.state}, ${p.status.plan.done ?? 0} of ${p.status.plan.moves} done`) : "" },
      ],
    }),
    details);
  const p = policies.find((policy) => policy.name === (parameters.get("name") ?? (policies.length === 1 ? policies[0].name : "")));
  if (p) {
    replace(details, detail(p));
    page.addEventListener("shown", () => policies.length > 1 && details.scrollIntoView({ block: "nearest" }));
  } else if (parameters.has("name")) {
    replace(details, note(`There is no PlacementPolicy ${parameters.get("name")}.`));
  }
}

function detail(p) {
  const at = encodeURIComponent(p.name);
  return h("section", { class: "card wide", "aria-label": `Policy ${p.name}` },
    h("h2", {}, p.name),
    h("p", { class: "actions" },
      h("a", { class: "button", href: `#/playground?policy=${at}` }, "Try a change"),
      h("a", { class: "button", href: `#/plan?name=${at}` }, "Plan"),
      h("a", { class: "button", href: `#/workload?policy=${at}` }, "Workloads")),
    (p.errors ?? []).map((text) => note(`It can't decide any object: ${text}`, "error")),
    h("div", { class: "columns" },
      h("div", {},
        h("h3", {}, "Version"),
        h("dl", {},
          h("dt", {}, "Generation"), h("dd", {}, p.generation),
          h("dt", {}, "In force"), h("dd", {}, p.status.generationInForce ? `generation ${p.status.generationInForce}` : "unknown"),
          p.status.rollout?.previousRevision && [h("dt", {}, "In other stages"), h("dd", {}, `revision ${p.status.rollout.previousRevision}`)],
          h("dt", {}, "Mode"), h("dd", {}, p.mode),
          h("dt", {}, "Remediation"), h("dd", {}, p.remediation),
          h("dt", {}, "Priority"), h("dd", {}, p.priority)),
        h("h3", {}, p.rules ? count(p.rules.length, "rule") : p.remote ? "A remote engine decides" : "Rego decides"),
        p.rules && h("ol", {}, p.rules.map((name) => h("li", {}, name, decided(p, name)))),
        p.remote && h("p", {}, p.remote)),
      h("div", {},
        h("h3", {}, "Objects"),
        h("dl", {}, [["Matched", p.status.matched], ["In violation", p.status.violations], ["Would be denied", p.status.wouldDeny], ["Would be moved", p.status.wouldMove],
          ["Can't be decided", p.status.undecided], ["With a conflict", p.status.conflicted], ["Patched so far", p.status.remediated]]
          .filter(([, n]) => n !== undefined).map(([title, n]) => [h("dt", {}, title), h("dd", {}, n.toLocaleString("en"))])),
        p.status.matched === undefined && h("p", {}, "The status has no counts."),
        (p.status.waiting?.length > 0 || p.status.paused) && h("h3", {}, "What waits, and why"),
        (p.status.waiting ?? []).map((w) => h("p", {}, waitingText(w))),
        p.status.moving?.length > 0 && [h("h3", {}, "Moving"), h("ul", {}, p.status.moving.map((m) => h("li", {}, `${m.resource} ${m.namespace ? `${m.namespace}/` : ""}${m.name} since ${new Date(m.since).toLocaleString()}`)))],
        p.status.failures && [h("h3", {}, `${count(p.status.failures.objects ?? 0, "object")} failed`),
          h("ul", {}, (p.status.failures.sample ?? []).map((f) => h("li", {}, `${f.resource} ${f.namespace ? `${f.namespace}/` : ""}${f.name}: ${f.reason}`, f.message && `: ${f.message}`)))])),
    stages(p),
    p.approvals.length > 0 && [h("h3", {}, "Waits for an approval"), p.approvals.map((a) => [h("p", {}, a.plan ? "Look at the plan first. Then approve it:" : "To let the rollout go on to its next stage:"), command(a.command)])],
    p.status.conditions?.length > 0 && [h("h3", {}, "Conditions"), table({
      caption: "Conditions", rows: p.status.conditions,
      columns: [
        { title: "Type", cell: (c) => c.type, sort: (c) => c.type },
        { title: "Status", cell: (c) => c.status, sort: (c) => c.status },
        { title: "Reason", cell: (c) => c.reason },
        { title: "Message", cell: (c) => lines(c.message ?? "") },
      ],
    })],
    p.status.findings?.length > 0 && [h("h3", {}, "Findings"), h("ul", {}, p.status.findings.map((f) => h("li", {}, f.message ?? JSON.stringify(f))))]);
}

// decided says how many existing objects a rule decides, as the status has it.
function decided(p, name) {
  const rule = p.status.rules?.find((r) => r.name === name);
  return rule && h("small", {}, ` decides ${count(rule.objects ?? 0, "object")}`);
}

// stages shows how far a rollout is.
function stages(p) {
  const rollout = p.status.rollout;
  if (p.stages.length === 0 && !rollout) return "";
  const list = rollout?.stages ?? p.stages.map((name) => ({ name }));
  return [h("h3", {}, "Stages"),
    rollout?.message && h("p", {}, rollout.message),
    h("ol", { class: "stages" }, list.map((stage, i) => h("li", { class: i < (rollout?.reached ?? 0) ? "reached" : undefined },
      h("b", {}, stage.name), h("span", {}, i < (rollout?.reached ?? 0) ? "reached" : "not reached"),
      stage.matched !== undefined && h("span", {}, `${stage.moved ?? 0} of ${stage.matched} moved`),
      stage.failed > 0 && h("span", { class: "bad" }, `${stage.failed} failed`), stage.denied > 0 && h("span", { class: "bad" }, `${stage.denied} denied`))))];
}
