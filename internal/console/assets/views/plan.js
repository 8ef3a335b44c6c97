import { get } from "../api.js";
import { append, command, count, h, note, workloadLink } from "../dom.js";
import { flows } from "../flows.js";
import { table } from "../table.js";
import { change } from "./values.js";
import { planStates, waitingText } from "./policies.js";

// show shows what Berth has to patch for a policy.
export async function show(page, parameters) {
  const { policies } = await get("policies");
  const name = parameters.get("name") ?? (policies.find((p) => p.approvals.length > 0) ?? policies.find((p) => p.status.plan) ?? policies[0])?.name;
  append(page, h("h1", {}, "Plan"));
  if (!name) {
    append(page, note("There is no PlacementPolicy, so there is no plan."));
    return;
  }
  append(page, h("div", { class: "tools" }, h("label", {}, "Policy ", h("select", { onchange: (event) => { location.hash = `#/plan?name=${encodeURIComponent(event.target.value)}`; } },
    policies.map((p) => h("option", { value: p.name, selected: p.name === name }, p.name))))));
  const plan = await get("plan", { name });
  const waits = plan.approvals.filter((a) => a.plan);
  append(page,
    h("p", { class: "lead" }, plan.total === 0 ? "No object has to be patched: all have the values that the policy decides, as far as it may change them."
      : `Berth has to patch ${count(plan.total, "object")} to bring them into line with the policy.`),
    (plan.errors ?? []).map((text) => note(`The policy can't decide objects: ${text}`, "error")),
    plan.status && h("p", {}, `The plan in the status of the policy ${planStates[plan.status.state] ?? plan.status.state}: ${plan.status.done ?? 0} of ${count(plan.status.moves, "object")} are done.`, plan.status.message && ` The reason: ${plan.status.message}.`),
    plan.status?.causes?.length > 0 && h("ul", { "aria-label": "Causes of the plan" }, plan.status.causes.map((text) => h("li", {}, text))),
    plan.waiting.map((w) => h("p", {}, waitingText(w))),
    waits.map((a) => [h("h2", {}, "Approve it"), h("p", {}, "The console changes nothing. This command shows the plan again, asks, and approves exactly this plan:"), command(a.command)]),
    waits.length > 0 && plan.digest && !waits.some((a) => a.id === plan.digest) && note("Some objects of the approved plan are patched already, so its digest is another one than that of what is left."),
    plan.flows.length > 0 && [h("h2", {}, "Before and after"), flows(plan.flows)],
    left(plan),
    plan.total > 0 && [h("h2", {}, count(plan.total, "object")), table({
      caption: "Objects to patch", rows: plan.moves,
      columns: [
        { title: "Object", cell: (m) => [workloadLink(m), h("small", {}, m.resource), m.evict && " (evict)"], sort: (m) => `${m.namespace}/${m.name}` },
        { title: "Change", cell: (m) => m.changes.map((v) => change(v)) },
      ],
      more: plan.total > plan.moves.length && h("p", {}, `The first ${plan.moves.length} of ${plan.total.toLocaleString("en")}. The command below prints all.`),
    })],
    h("h2", {}, "On the command line"), command(plan.command));
}

// left says which objects the plan leaves alone.
function left(plan) {
  const rows = [[plan.denied, "the policy denies them"], [plan.undecided, "the policy can't decide them"], [plan.leftAlone, "no patch or eviction can change them"]].filter(([n]) => n > 0);
  return rows.map(([n, why]) => note(`${count(n, "object")} differ and are left alone: ${why}.`.replace("1 object differ and are", "1 object differs and is")));
}
