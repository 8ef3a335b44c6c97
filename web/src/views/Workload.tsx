import type { ComponentChildren } from "preact";
import { useContext, useState } from "preact/hooks";
import { get, query } from "../api";
import { Badge, ClusterLink, ClusterNames, Command, Joined, Lines, More, Note, PolicyLink, Select, Waiting, WhatIfLink, WorkloadLink } from "../components/basics";
import { KeyValue } from "../components/Change";
import { type Column, Table } from "../components/Table";
import { Clusters, useData, useUnready } from "../hooks";
import { partOf } from "../playground/named";
import { meanings } from "../states";
import { count, qualified } from "../text";
import {
  type ExplainCandidate, type ExplainCandidates, type ExplainDemanded, type ExplainKey, type ExplainMismatch, type ExplainPolicy, type ExplainRank, type ExplainReason, type FleetChoice, type FleetExplained,
  type FleetMember, type FleetReasons, fleetStates,
} from "../types.gen";

export default function Workload({ parameters }: { parameters: URLSearchParams }) {
  return (
    <div class="page workload">
      {parameters.get("name") ? <Explained of={object(parameters)} limit={parameters.get("limit") ?? undefined} /> : <List parameters={parameters} />}
    </div>
  );
}

/** Named identifies an object. */
interface Named {
  resource: string;
  namespace: string;
  name: string;
}

function object(parameters: URLSearchParams): Named {
  const text = (name: string) => parameters.get(name) ?? "";
  return { resource: text("resource"), namespace: text("namespace"), name: text("name") };
}

/** Explained shows a workload. */
function Explained({ of, limit }: { of: Named; limit: string | undefined }) {
  const loaded = useData((signal) => get("workload", { ...of, limit }, signal), [of, limit]);
  if (!loaded.data?.explanation) return <Waiting of={loaded} title="Workload" />;
  const { places, explanation, command } = loaded.data;
  const plan = explanation.policies?.find((p) => places?.reason?.split(/[\s:;,()]+/).includes(p.name) && places.reason.includes(`plan of PlacementPolicy ${p.name}`))?.name;
  return (
    <>
      <h1>{qualified(of)} <small>{explanation.object.kind}</small> {places && <Badge state={places.state} />}</h1>
      {places && <Now of={places} />}
      {places && <p class="lead">{places.reason ? <Lines text={places.reason.replace(/^it /, "It ")} /> : meanings[places.state]}{plan && <>{" "}<a href={`#/plan?${query({ name: plan })}`}>See the plan</a></>}</p>}
      {places?.follows && <p>It has the clusters of {places.follows}, which controls it.</p>}
      {places?.node && <p>It is on the node {places.node}.</p>}
      {!places && <Note text="No policy matches it." />}
      {places && <Whereabouts of={places} />}
      {explanation.delivery && <section><h2>Delivery</h2><p>{explanation.delivery}</p></section>}
      <Candidates title="Clusters" of={explanation.clusters} object={of} places={places?.places ?? []} policies={explanation.policies ?? []} />
      <Candidates title="Nodes" of={explanation.nodes} object={of} places={[]} policies={[]} />
      <Decisions policies={explanation.policies ?? []} />
      <Values keys={explanation.keys ?? []} />
      <Mismatches list={explanation.mismatches ?? []} />
      <section><h2>On the command line</h2><Command text={command} /></section>
      <p><a href={`#/history?${query({ ...of })}`}>The history of this workload</a></p>
    </>
  );
}

const listColumns: Column<FleetMember>[] = [
  { title: "Workload", cell: (o) => <><WorkloadLink of={o} /><small>{o.kind}</small></>, sort: qualified },
  { title: "State", cell: (o) => <Badge state={o.state} />, sort: (o) => fleetStates.indexOf(o.state) },
  { title: "Clusters today", cell: (o) => <ClusterNames names={o.clusters} />, sort: (o) => (o.clusters ?? []).join() },
  { title: "Clusters decided", cell: (o) => <ClusterNames names={o.decided} />, sort: (o) => (o.decided ?? []).join() },
  { title: "Policies", cell: (o) => o.policies?.join(", "), sort: (o) => (o.policies ?? []).join() },
  { title: "Why", cell: (o) => <span class="reason">{o.reason?.split("\n")[0]}</span> },
];

/** pageSize is the number of workloads of one page. */
const pageSize = 500;

/** List shows the workloads, the gravest state first. */
function List({ parameters }: { parameters: URLSearchParams }) {
  const state = parameters.get("state") ?? undefined, policy = parameters.get("policy") ?? undefined, offset = Number(parameters.get("offset") ?? 0);
  const loaded = useData((signal) => get("objects", { state, policy, offset, limit: pageSize }, signal), [state, policy, offset]);
  if (!loaded.data) return <Waiting of={loaded} title="Workloads" />;
  const { total } = loaded.data, rows = loaded.data.objects ?? [];
  const go = (next: { state?: string | undefined; policy?: string | undefined; offset?: number | undefined }) => { location.hash = `#/workload?${query(next)}`; };
  return (
    <>
      <h1>Workloads</h1>
      <p class="lead">Choose a workload to see what its developer requested, what each policy decided, and why each cluster was chosen or not.</p>
      <div class="tools">
        <Select label="State" value={state ?? ""} choices={[["", "all"], ...fleetStates.map((s) => [s, s] as const)]} onChange={(value) => go({ state: value || undefined, policy })} />
        {policy && <button type="button" aria-label={`Show the workloads of all policies, not only of ${policy}`} onClick={() => go({ state })}>Policy {policy} ×</button>}
        <span class="total">{count(total, "workload")}</span>
        {offset > 0 && <button type="button" onClick={() => go({ state, policy, offset: Math.max(0, offset - pageSize) || undefined })}>Previous page</button>}
        {offset + rows.length < total && <button type="button" onClick={() => go({ state, policy, offset: offset + pageSize })}>Next page</button>}
      </div>
      <Table caption="Workloads" rows={rows} columns={listColumns} empty="No workload that policies place matches."
        more={<More shown={rows.length} total={total} hint="Find others with the search above, or go to the next page." />} />
    </>
  );
}

/** Now says in a sentence where a workload is, and where it has to go. */
function Now({ of: { places, state } }: { of: FleetExplained }) {
  const names = (...changes: (string | undefined)[]) => (places ?? []).filter((p) => changes.includes(p.change)).map((p) => p.cluster);
  const is = names(undefined, "Leaving"), leaves = names("Leaving"), comes = names("Arriving"), list = (of: string[]) => <b><ClusterNames names={of} /></b>;
  if (is.length + comes.length === 0) return null;
  return (
    <p class="lead">
      {is.length > 0 ? <>Now on {list(is)}</> : "Now on no cluster"}
      {leaves.length > 0 && <>; has to leave {list(leaves)}</>}
      {comes.length > 0 && <>{leaves.length > 0 ? " for " : "; has to come to "}{list(comes)}</>}
      {leaves.length + comes.length === 0 && (state === "Running" || state === "Moving") && ", where policies place it"}.
    </p>
  );
}

/** Whereabouts shows the clusters of a workload as boxes: those that it keeps, leaves, and comes to. */
function Whereabouts({ of }: { of: FleetExplained }) {
  const places = of.places ?? [];
  return (
    <section>
      <h2>{places.some((p) => p.change === "Arriving") ? "Where it is, and where it goes" : "Where it is"}</h2>
      {places.length === 0 ? <p>It names no cluster, and no policy chooses one.</p> : <ul class="chips">{places.map((p) => <Chip key={p.cluster} place={p} state={of.state} />)}</ul>}
    </section>
  );
}

function ChosenBy({ of }: { of: FleetChoice }) {
  return <>chosen by <PolicyLink name={of.policy} />{of.rule && <>, <PolicyLink name={of.policy} part={{ rule: of.rule }}>rule {of.rule}</PolicyLink></>}</>;
}

function Chip({ place: p, state }: { place: FleetReasons; state: string }) {
  const isUnready = useUnready();
  return (
    <li class={(p.change ?? state).toLowerCase()}>
      <span class="name"><ClusterLink name={p.cluster} /></span>
      <span class="change">{p.change ? { Arriving: "not there yet, comes here", Leaving: "still there, has to leave" }[p.change] : "stays"}</span>
      {isUnready(p.cluster) && <span class="bad">not ready</span>}
      {p.replicas !== undefined && <span>{count(p.replicas, "replica")}</span>}
      {p.by?.map((choice) => <span key={choice.policy}><ChosenBy of={choice} /></span>)}
      {p.ranks?.map((rank) => <span key={rank.policy}>rank {rank.rank} of {rank.of}, score {rank.score}</span>)}
      {p.against?.map((r, i) => <Reason key={i} of={r} />)}
    </li>
  );
}

const titles: Record<string, string> = { annotations: "annotation", labels: "label", scheduling: "scheduling" };

const keyColumns: Column<ExplainKey>[] = [
  { title: "Value", cell: (k) => <>{titles[k.field] ? `${titles[k.field]} ` : ""}<b>{k.key}</b></> },
  { title: "The developer requested", cell: (k) => <KeyValue field={k.field} name={k.key} text={k.requested} /> },
  { title: "The object has", cell: (k) => <KeyValue field={k.field} name={k.key} text={k.current} /> },
  { title: "Policies decided", cell: (k) => <KeyValue field={k.field} name={k.key} text={k.decided} earlier={k.current ?? null} /> },
  {
    title: "Decided by", cell: (k) => (
      <>
        {k.policy ? <PolicyLink name={k.policy} /> : "the developer"}
        {k.overrides?.map((other) => <div key={other}>wins over <PolicyLink name={other} />, which sets another value</div>)}
        {k.kept && <div>The current value stays: {k.kept}</div>}
        {k.waits && <div>{k.waits}</div>}
      </>
    ),
  },
];

/** Values shows what the developer requested, what the object has, and what policies decided. */
function Values({ keys }: { keys: ExplainKey[] }) {
  return <section><h2>Requested, current, decided</h2><Table caption="Values" rows={keys} columns={keyColumns} empty="No policy sets a value." /></section>;
}

/** Decisions shows what each policy decides, in order of precedence. */
function Decisions({ policies }: { policies: ExplainPolicy[] }) {
  if (policies.length === 0) return null;
  return (
    <section>
      <h2>What each policy decides</h2>
      {policies.length > 1 && <p>In order of precedence. If two policies set the same value, the first one wins; a cluster is chosen if all of them allow it.</p>}
      <ol class="cards">{policies.map((p) => <Decision key={p.name} of={p} />)}</ol>
    </section>
  );
}

function Decision({ of: p }: { of: ExplainPolicy }) {
  const clusters = p.decision?.clusters;
  return (
    <li class={p.error || p.decision?.errors ? "card bad" : "card"}>
      <h3><PolicyLink name={p.name} /> <small>priority {p.priority} · {p.mode} · generation {p.generation}</small></h3>
      {p.rollout && <p>{p.rollout}</p>}
      {p.error && <Note kind="error" text={`can't decide: ${p.error}`} />}
      {p.rule ? <p>The rule <PolicyLink name={p.name} part={{ rule: p.rule }}><b>{p.rule}</b></PolicyLink> decides it.</p> : p.hasRules && <p>None of its rules applies.</p>}
      {p.decision?.errors?.map((text) => <Note key={text} kind="error" text={`denies it: ${text}`} />)}
      {p.decision?.warnings?.map((text) => <Note key={text} text={`warns: ${text}`} />)}
      {clusters && <p>Allows {clusters.length === 0 ? <b class="bad">no cluster</b> : <>{count(clusters.length, "cluster")}: <ClusterNames names={clusters} /></>}</p>}
      {p.follows && <p>Leaves it the clusters of {p.follows}, which controls it.</p>}
      {[...(p.ambiguousClusters ?? []), ...(p.stays ?? []), ...(p.moves ?? [])].map((text) => <p key={text}>{text}</p>)}
      {p.reads && <p class="facts">Reads <Joined items={p.reads.map((read) => `${read.resource} (${count(read.objects, "object")})`)} /></p>}
    </li>
  );
}

/** Preferences shows what a cluster gets of each preference of a rule. */
function Preferences({ of: r }: { of: ExplainRank }) {
  return <div class="facts"><Joined by=" · " items={(r.preferences ?? []).map((p) => `${p.subject} ${p.value ?? "missing"}: ${p.score} of ${p.weight}`)} /></div>;
}

/** Result shows whether a cluster or node is chosen, and whether the object has to leave it, or comes to it. */
function Result({ row, place }: { row: ExplainCandidate; place: FleetReasons | undefined }) {
  if (place?.change === "Leaving") return <Badge state="leaving">has to leave</Badge>;
  if (place?.change === "Arriving") return <Badge state="arriving">comes here</Badge>;
  return row.chosen ? <Badge state="running">chosen</Badge> : <Badge state="lost">{isOutranked(row) ? "outranked" : "not allowed"}</Badge>;
}

/** isOutranked reports whether a cluster is not chosen only because others come first. */
function isOutranked(row: ExplainCandidate): boolean {
  return (row.reasons?.length ?? 0) > 0 && (row.reasons ?? []).every((r) => r.outranked);
}

/** Order says how the rules of policies choose among eligible clusters, of which ranks are the ranks. */
function Order({ policies, ranks }: { policies: readonly ExplainPolicy[]; ranks: readonly ExplainRank[] }) {
  const order = "a fixed order, which follows from the names of the workload and the cluster";
  // The list may lack clusters, of which the scores are not known.
  const isTied = (p: ExplainPolicy) => {
    const own = ranks.filter((r) => r.policy === p.name), [first] = own;
    return first !== undefined && own.length === first.of && own.every((r) => r.score === first.score);
  };
  return (
    <>
      {policies.map((p) => p.selection && (
        <p key={p.name} class="hint">
          <PolicyLink name={p.name} part={{ rule: p.rule }}>{p.name}, rule {p.rule}</PolicyLink> chooses {p.selection.limit ? <>at most {count(p.selection.limit, "eligible cluster")}</> : "among the eligible clusters"}
          {p.selection.spread && ", spread over domains"}. {isTied(p) ? `Their scores are a tie, broken by ${order}.`
            : p.selection.minGain > 1 ? `The lower level comes first: how many steps of ${p.selection.minGain} the score is below the best one. Within a level, ${order}, decides.`
              : `The higher score comes first. Between equal ones, ${order}, decides.`}
        </p>
      ))}
    </>
  );
}

/** useFound returns the cluster whose name is most like a text, with its reason, if the list has no such cluster, because it has only some. */
function useFound(of: ExplainCandidates | undefined, object: Named, text: string): ExplainCandidate[] {
  const clusters = useContext(Clusters), listed = of?.listed ?? [], isMissing = of && text !== "" && listed.length < of.total && !listed.some((row) => row.name.includes(text));
  const name = isMissing ? [...clusters.keys()].filter((name) => name.includes(text)).sort((a, b) => a.length - b.length)[0] : undefined;
  const loaded = useData((signal) => (name === undefined ? Promise.resolve(undefined) : get("workload", { ...object, whyNot: name }, signal)), [object, name]);
  return loaded.data?.explanation?.clusters?.listed ?? [];
}

/** Candidates shows each cluster or node, with the reason if it lost. */
function Candidates({ title, of, object, places, policies }: {
  title: "Clusters" | "Nodes"; of: ExplainCandidates | undefined; object: Named; places: readonly FleetReasons[]; policies: readonly ExplainPolicy[];
}) {
  const [text, setText] = useState(""), found = useFound(title === "Clusters" ? of : undefined, object, text);
  if (!of) return null;
  const rank = (row: ExplainCandidate) => row.ranks?.[0]?.rank ?? Infinity, placeOf = (row: ExplainCandidate) => places.find((p) => p.cluster === row.name);
  const order = (row: ExplainCandidate) => {
    const change = placeOf(row)?.change;
    return change === "Leaving" ? 1 : change === "Arriving" ? 2 : row.chosen ? 0 : 3;
  };
  const rows = [...(of.listed ?? []), ...found].sort((a, b) => order(a) - order(b) || (rank(a) === rank(b) ? 0 : rank(a) - rank(b)));
  const ranks = rows.flatMap((row) => row.ranks ?? []);
  const columns: Column<ExplainCandidate>[] = [
    { title: title.slice(0, -1), cell: (row) => (title === "Clusters" ? <><ClusterLink name={row.name} /><WhatIf of={row} /></> : row.name), sort: (row) => row.name },
    { title: "Result", cell: (row) => <Result row={row} place={placeOf(row)} />, sort: order },
  ];
  if (ranks.length > 0) {
    columns.push(
      { title: "Rank", numeric: true, cell: (row) => row.ranks?.map((r) => `${r.rank} of ${r.of}`).join("; "), sort: rank },
      { title: "Score", numeric: true, cell: (row) => row.ranks?.map((r) => r.score).join("; "), sort: (row) => row.ranks?.[0]?.score ?? -Infinity },
    );
  }
  if (ranks.some((r) => r.level !== 0)) {
    columns.push({ title: "Level", numeric: true, cell: (row) => row.ranks?.map((r) => r.level).join("; "), sort: (row) => row.ranks?.[0]?.level ?? Infinity });
  }
  columns.push({
    title: "Why", cell: (row) => (
      <>
        {row.chosen && placeOf(row)?.by?.map((choice) => <div key={choice.policy} class="reason"><ChosenBy of={choice} /></div>)}
        {row.ranks?.map((r, i) => <Preferences key={i} of={r} />)}
        {row.reasons?.map((r, i) => <Reason key={i} of={r} />)}
        {row.waits && <div class="reason">{row.chosen ? "The object is not there yet: " : "The object stays there for now: "}{row.waits}</div>}
      </>
    ),
  });
  return (
    <section>
      <h2>{title}: {of.chosen} of {of.total} chosen, and why not the others</h2>
      <Order policies={policies} ranks={ranks} />
      {rows.length > 8 && <input type="search" placeholder={`Name of a ${title === "Clusters" ? "cluster" : "node"}`} aria-label={`Show ${title.toLowerCase()} by name`} onInput={(event) => setText(event.currentTarget.value.trim())} />}
      <Table fixed caption={title} rows={rows.filter((row) => row.name.includes(text))} columns={columns} empty={rows.length < of.total ? `None of the first ${rows.length} has such a name.` : "None has such a name."} />
      {rows.length < of.total && <p class="facts">The first {rows.length} of {of.total.toLocaleString("en")}. <a href={`#/workload?${query({ ...object, limit: of.total })}`}>Find the reasons for all {of.total.toLocaleString("en")}</a></p>}
    </section>
  );
}

/** WhatIf leads to the form that changes a cluster, at what the reason names. A cluster that is not chosen has no link if the form can't change that. */
function WhatIf({ of: { name: cluster, reasons } }: { of: ExplainCandidate }) {
  const lost = reasons?.filter((r) => !r.outranked) ?? [], part = partOf(lost);
  if (lost.length > 0 && !part) return null;
  return <small><WhatIfLink cluster={cluster} part={part} aria-label={`What if ${cluster} changes?`} title={`What if ${cluster} changes?`}>What if</WhatIfLink></small>;
}

/** Reason shows why a cluster or node is not chosen. */
function Reason({ of: r }: { of: ExplainReason }): ComponentChildren {
  const place = r.field ?? (r.rule ? `line ${r.line}, rule ${r.rule}` : "");
  const where = r.policy && <small><PolicyLink name={r.policy} part={r.field ? { field: r.field } : { line: r.line }}>{r.policy}{place && `: ${place}`}</PolicyLink></small>;
  if (r.unmet) return <div class="reason">{r.unmet} {where}{r.demanded && <Demanded of={r.demanded} />}</div>;
  return (
    <div class="reason">
      {r.message && <div>{r.outranked ? r.message.replace("chooses other clusters", "eligible, but other clusters come first") : r.message} {where}</div>}
      {r.expression && <div><code>{r.expression}</code> fails {where}</div>}
      {r.values?.map((v) => <div key={v.reference} class="facts"><code>{v.reference}</code> is <code>{v.value === null ? "undefined" : JSON.stringify(v.value)}</code></div>)}
      {r.demanded && <Demanded of={r.demanded} />}
      {r.because?.map((b, i) => <Reason key={i} of={b} />)}
    </div>
  );
}

/** Demanded shows the value of the object that a requirement compares clusters with. */
function Demanded({ of: d }: { of: ExplainDemanded }) {
  const source = d.source.replace(/^metadata\.(label|annotation)s\[(.*)\]$/, "$1 $2");
  return <div class="facts">{d.default ? <>{d.value} is the default: the workload lacks the {source}</> : <>The workload asks for {d.value} with the {source}</>}</div>;
}

function Mismatches({ list }: { list: ExplainMismatch[] }) {
  if (list.length === 0) return null;
  return (
    <section>
      <h2>Policies that do not match</h2>
      <ul>{list.map((m) => <li key={m.policy}><PolicyLink name={m.policy} />: spec.{m.part === "rollout" ? m.part : `match.${m.part}`}: {m.reason}</li>)}</ul>
    </section>
  );
}
