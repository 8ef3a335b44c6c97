import { get, query } from "../api";
import { Command, More, Note, Select, Waiting, WorkloadLink } from "../components/basics";
import { Change } from "../components/Change";
import { Flows, UnreadyTargets } from "../components/Flows";
import { type Column, Table } from "../components/Table";
import { useData } from "../hooks";
import { planStates, waitingText } from "../states";
import { count, qualified } from "../text";
import type { PlanView, RemediationPlan, WhatifMove } from "../types.gen";

export default function Plan({ parameters }: { parameters: URLSearchParams }) {
  const loaded = useData((signal) => get("policies", {}, signal), []);
  if (!loaded.data) return <div class="page plan"><Waiting of={loaded} title="Plan" /></div>;
  const policies = loaded.data.policies ?? [];
  const first = policies.find((p) => (p.approvals?.length ?? 0) > 0) ?? policies.find((p) => p.status.plan) ?? policies[0];
  const name = parameters.get("name") ?? first?.name;
  return (
    <div class="page plan">
      <h1>Plan</h1>
      {name === undefined ? <Note text="There is no PlacementPolicy, so there is no plan." /> : (
        <>
          <div class="tools"><Select label="Policy" value={name} choices={policies.map((p) => [p.name, p.name] as const)} onChange={(value) => { location.hash = `#/plan?${query({ name: value })}`; }} /></div>
          <OfPolicy name={name} />
        </>
      )}
    </div>
  );
}

const columns: Column<WhatifMove>[] = [
  { title: "Object", cell: (m) => <><WorkloadLink of={m} /><small>{m.resource}</small>{m.evict && " (evict)"}</>, sort: qualified },
  { title: "Change", cell: (m) => m.changes?.map((v, i) => <Change key={i} of={v} />) },
];

function OfPolicy({ name }: { name: string }) {
  const loaded = useData((signal) => get("plan", { name }, signal), [name]);
  if (loaded.error) return <Note kind="error" text={loaded.error.message} />;
  if (!loaded.data) return <p class="loading">Deciding the objects…</p>;
  const plan = loaded.data, moves = plan.moves ?? [], waits = (plan.approvals ?? []).filter((a) => a.plan);
  return (
    <>
      <p class="lead">
        {plan.total === 0 && plan.errors && plan.errors.length > 0 ? "The console can't tell which objects have to be patched. In the cluster, an earlier version of the policy, or its remote engine, may decide them."
          : plan.total === 0 ? "No object has to be patched: all have the values that the policy decides, as far as it may change them."
          : `Berth has to patch ${count(plan.total, "object")} to bring them into line with the policy.`}
      </p>
      {plan.errors?.map((text) => <Note key={text} kind="error" text={`The policy can't decide objects: ${text}`} />)}
      {plan.status && <Status of={plan.status} />}
      {plan.waiting?.map((w) => <p key={w.reason}>{waitingText(w)}</p>)}
      {waits.map((a) => (
        <div key={a.id}>
          <h2>Approve it</h2>
          <p>The console changes nothing. This command shows the plan again, asks, and approves exactly this plan:</p>
          <Command text={a.command} />
        </div>
      ))}
      {waits.length > 0 && plan.digest && !waits.some((a) => a.id === plan.digest)
        && <Note text="Some objects of the approved plan are patched already, so its digest is another one than that of what is left." />}
      {plan.flows && plan.flows.length > 0 && <><h2>Before and after</h2><UnreadyTargets flows={plan.flows} /><Flows flows={plan.flows} /></>}
      <Left plan={plan} />
      {plan.total > 0 && (
        <>
          <h2>{count(plan.total, "object")}</h2>
          <Table caption="Objects to patch" rows={moves} columns={columns} more={<More shown={moves.length} total={plan.total} hint="The command below prints all." />} />
        </>
      )}
      <h2>On the command line</h2>
      <Command text={plan.command} />
    </>
  );
}

/** Status shows the plan in the status of a policy. */
function Status({ of: s }: { of: RemediationPlan }) {
  return (
    <>
      <p>
        The plan in the status of the policy {planStates[s.state ?? ""] ?? s.state}: {s.done ?? 0} of {count(s.moves ?? 0, "object")} are done.
        {s.message && ` The reason: ${s.message}.`}{s.approval?.user && ` ${s.approval.user} approved it.`}
      </p>
      {s.causes && s.causes.length > 0 && <ul aria-label="Causes of the plan">{s.causes.map((text) => <li key={text}>{text}</li>)}</ul>}
    </>
  );
}

/** Left says how many objects violate the policy and are not in the plan, and why. */
function Left({ plan }: { plan: PlanView }) {
  const rows: [number, string][] = [[plan.denied, "denied by the policy"], [plan.undecided, "not decided, because of an error"], [plan.leftAlone, "different only in values that Berth can't change"]];
  return <>{rows.filter(([n]) => n > 0).map(([n, why]) => <Note key={why} text={`${count(n, "object")} ${n === 1 ? "is" : "are"} not in the plan, but ${why}.`} />)}</>;
}
