import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { get, query } from "../api";
import { Badge, Command, Lines, Note, Notes, type Part, PolicyLink, Waiting } from "../components/basics";
import { type Column, Table } from "../components/Table";
import { useData } from "../hooks";
import { inState, planStates, waitingText } from "../states";
import { count, when } from "../text";
import { fleetStates, type PolicyView, type V1Condition } from "../types.gen";

const ready = (p: PolicyView) => p.status.conditions?.find((c) => c.type === "Ready");

function Ready({ of: p }: { of: PolicyView }) {
  const condition = ready(p);
  if (p.errors && p.errors.length > 0) return <Badge state="violating">can't decide</Badge>;
  if (!condition) return <>no status</>;
  return condition.status === "True" ? <Badge state="running">ready</Badge> : <Badge state="waiting">{condition.reason}</Badge>;
}

const columns: Column<PolicyView>[] = [
  { title: "Policy", cell: (p) => <PolicyLink name={p.name} />, sort: (p) => p.name },
  { title: "Ready", cell: (p) => <Ready of={p} />, sort: (p) => ready(p)?.status ?? "" },
  { title: "Mode", cell: (p) => p.mode, sort: (p) => p.mode },
  { title: "Priority", numeric: true, cell: (p) => p.priority, sort: (p) => p.priority },
  ...[...fleetStates].reverse().map((state) => ({
    title: state, numeric: true, cell: (p: PolicyView) => (p.states ? inState(p.states, state).toLocaleString("en") : "?"), sort: (p: PolicyView) => (p.states ? inState(p.states, state) : -1),
  })),
  { title: "Waits for", cell: (p) => p.status.waiting?.map((w) => <div key={w.reason}>{waitingText(w)}</div>) },
  { title: "Stage", cell: (p) => p.status.rollout?.stage },
  {
    title: "Plan", cell: (p) => p.status.plan && (
      <a href={`#/plan?${query({ name: p.name })}`}>{planStates[p.status.plan.state ?? ""] ?? p.status.plan.state}, {p.status.plan.done ?? 0} of {p.status.plan.moves} done</a>
    ),
  },
];

export default function Policies({ parameters }: { parameters: URLSearchParams }) {
  const loaded = useData((signal) => get("policies", {}, signal), []);
  if (!loaded.data) return <div class="page policies"><Waiting of={loaded} title="Policies" /></div>;
  const policies = loaded.data.policies ?? [];
  const name = parameters.get("name") ?? (policies.length === 1 ? policies[0]?.name : undefined);
  const shown = policies.find((p) => p.name === name);
  return (
    <div class="page policies">
      <h1>Policies</h1>
      <Notes texts={loaded.data.notes} />
      <Table caption="Policies" rows={policies} columns={columns} empty="There is no PlacementPolicy." />
      {shown ? <Detail key={shown.name} of={shown} scroll={policies.length > 1} part={partOf(parameters)} /> : name !== undefined && <Note text={`There is no PlacementPolicy ${name}.`} />}
    </div>
  );
}

/** partOf returns the part of a policy that the address names. */
function partOf(parameters: URLSearchParams): Part {
  const line = Number(parameters.get("line"));
  return { field: parameters.get("field") ?? undefined, rule: parameters.get("rule") ?? undefined, line: line > 0 ? line : undefined };
}

/** Manifest shows the YAML of a policy, with a part marked. */
function Manifest({ name, part }: { name: string; part: Part }) {
  const loaded = useData((signal) => get("policy", { name, ...part }, signal), [name, part]), marked = useRef<HTMLElement>(null);
  const { manifest = "", from = 0, to = 0 } = loaded.data ?? {};
  // A new reading leaves the page where the user is.
  useLayoutEffect(() => marked.current?.scrollIntoView({ block: "center" }), [JSON.stringify(part), loaded.data === undefined]);
  if (loaded.error) return <Note kind="error" text={loaded.error.message} />;
  if (!loaded.data) return null;
  const lines = manifest.trimEnd().split("\n"), text = (list: string[]) => list.map((line, i) => <span key={i}>{line}<br /></span>);
  return (
    <>
      <h3>As YAML</h3>
      <pre class="manifest" tabIndex={0} role="region" aria-label={`The policy ${name} as YAML`}>
        {from > 0 ? <>{text(lines.slice(0, from - 1))}<mark ref={marked}>{text(lines.slice(from - 1, to))}</mark>{text(lines.slice(to))}</> : text(lines)}
      </pre>
    </>
  );
}

/** Facts shows numbers with their names. */
function Facts({ of }: { of: readonly (readonly [title: string, value: string | number | undefined])[] }) {
  return <dl>{of.filter(([, value]) => value !== undefined).map(([title, value]) => <><dt>{title}</dt><dd>{typeof value === "number" ? value.toLocaleString("en") : value}</dd></>)}</dl>;
}

const conditionColumns: Column<V1Condition>[] = [
  { title: "Type", cell: (c) => c.type, sort: (c) => c.type },
  { title: "Status", cell: (c) => c.status, sort: (c) => c.status },
  { title: "Reason", cell: (c) => c.reason },
  { title: "Message", cell: (c) => <Lines text={c.message} /> },
];

/** Detail shows a policy. */
function Detail({ of: p, scroll, part }: { of: PolicyView; scroll: boolean; part: Part }) {
  const section = useRef<HTMLElement>(null);
  useEffect(() => {
    if (scroll) section.current?.scrollIntoView({ block: "nearest" });
  }, []);
  return (
    <section ref={section} class="card wide" aria-label={`Policy ${p.name}`}>
      <h2>{p.name}</h2>
      <p class="actions">
        <a class="button" href={`#/playground?${query({ policy: p.name })}`}>Try a change</a>
        <a class="button" href={`#/plan?${query({ name: p.name })}`}>Plan</a>
        <a class="button" href={`#/workload?${query({ policy: p.name })}`}>Workloads</a>
        <a class="button" href={`#/history?${query({ policy: p.name })}`}>History</a>
      </p>
      {p.errors?.map((text) => <Note key={text} kind="error" text={`It can't decide any object: ${text}`} />)}
      <div class="columns"><Version of={p} /><Objects of={p} /></div>
      <Manifest name={p.name} part={part} />
      <Stages of={p} />
      {p.approvals && p.approvals.length > 0 && (
        <>
          <h3>Waits for an approval</h3>
          {p.approvals.map((a) => <div key={a.id}><p>{a.plan ? "Look at the plan first. Then approve it:" : "To let the rollout go on to its next stage:"}</p><Command text={a.command} /></div>)}
        </>
      )}
      {p.status.conditions && p.status.conditions.length > 0 && <><h3>Conditions</h3><Table caption="Conditions" rows={p.status.conditions} columns={conditionColumns} /></>}
      {p.status.findings && p.status.findings.length > 0 && <><h3>Findings</h3><ul>{p.status.findings.map((f, i) => <li key={i}>{f}</li>)}</ul></>}
    </section>
  );
}

function Version({ of: p }: { of: PolicyView }) {
  const decided = (name: string) => p.status.rules?.find((r) => r.name === name);
  return (
    <div>
      <h3>Version</h3>
      <Facts of={[
        ["Generation", String(p.generation)], ["In force", p.status.generationInForce ? `generation ${p.status.generationInForce}` : "unknown"],
        ["In other stages", p.status.rollout?.previousRevision ? `revision ${p.status.rollout.previousRevision}` : undefined],
        ["Mode", p.mode], ["Remediation", p.remediation], ["Priority", p.priority],
      ]} />
      <h3>{p.rules ? count(p.rules.length, "rule") : p.remote ? "A remote engine decides" : "Rego decides"}</h3>
      {p.rules && <ol>{p.rules.map((name) => <li key={name}><PolicyLink name={p.name} part={{ rule: name }}>{name}</PolicyLink>{" "}{decided(name) && <small>decides {count(decided(name)?.objects ?? 0, "object")}</small>}</li>)}</ol>}
      {p.remote && <p>{p.remote}</p>}
    </div>
  );
}

function Objects({ of: p }: { of: PolicyView }) {
  const { status } = p;
  return (
    <div>
      <h3>Objects</h3>
      <Facts of={[
        ["Matched", status.matched], ["Differ from the decision", status.violations], ["Would be denied", status.wouldDeny], ["Would be moved", status.wouldMove],
        ["Can't be decided", status.undecided], ["With a conflict", status.conflicted], ["Patched so far", status.remediated],
      ]} />
      {(status.violations ?? 0) > 0 && <p class="facts">Objects that differ are violating, moving, or waiting: the table above counts each. A rule decides only the matched objects to which it applies.</p>}
      {status.matched === undefined && <p>The status has no counts.</p>}
      {((status.waiting?.length ?? 0) > 0 || status.paused) && <h3>What waits, and why</h3>}
      {status.waiting?.map((w) => <p key={w.reason}>{waitingText(w)}</p>)}
      {status.moving && status.moving.length > 0 && (
        <><h3>Moving</h3><ul>{status.moving.map((m, i) => <li key={i}>{m.object} since {when(m.since)}</li>)}</ul></>
      )}
      {status.failures && (
        <>
          <h3>{count(status.failures.objects ?? 0, "object")} failed</h3>
          <ul>{status.failures.sample?.map((f, i) => <li key={i}>{f.object}: {f.reason}{f.message && `: ${f.message}`}</li>)}</ul>
        </>
      )}
    </div>
  );
}

/** Stages shows how far a rollout is. */
function Stages({ of: p }: { of: PolicyView }) {
  const { rollout } = p.status;
  if (!rollout && (p.stages?.length ?? 0) === 0) return null;
  const list: { name?: string; matched?: number; moved?: number; failed?: number; denied?: number }[] = rollout?.stages ?? (p.stages ?? []).map((name) => ({ name }));
  const reached = rollout?.reached ?? 0;
  return (
    <>
      <h3>Stages</h3>
      {rollout?.message && <p>{rollout.message}</p>}
      <ol class="stages">
        {list.map((stage, i) => (
          <li key={stage.name} class={i < reached ? "reached" : undefined}>
            <b>{stage.name}</b><span>{i < reached ? "reached" : "not reached"}</span>
            {stage.matched !== undefined && <span>{stage.moved ?? 0} of {stage.matched} moved</span>}
            {(stage.failed ?? 0) > 0 && <span class="bad">{stage.failed} failed</span>}
            {(stage.denied ?? 0) > 0 && <span class="bad">{stage.denied} denied</span>}
          </li>
        ))}
      </ol>
    </>
  );
}
