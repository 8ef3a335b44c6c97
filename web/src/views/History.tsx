import { useState } from "preact/hooks";
import { get, query } from "../api";
import { More, Notes, PolicyLink, Waiting, WorkloadLink } from "../components/basics";
import { Change } from "../components/Change";
import { type Column, Table } from "../components/Table";
import { useData } from "../hooks";
import { count, qualified, when } from "../text";
import type { DecisionlogChange, DecisionlogEntry, PolicyEvent } from "../types.gen";

const resourceOf = (e: DecisionlogEntry) => (e.object.group ? `${e.object.resource}.${e.object.group}` : e.object.resource);

const actions: Record<string, string> = { create: "created", update: "updated", patch: "patched", evict: "evicted" };

// split returns the field and the key in the subject of a change, such as "annotation a/b".
function split(change: DecisionlogChange) {
  const at = change.field.indexOf(" ");
  return { field: change.field.slice(0, at < 0 ? undefined : at), key: at < 0 ? "" : change.field.slice(at + 1), from: change.from, to: change.to };
}

const columns: Column<DecisionlogEntry>[] = [
  { title: "Time", cell: (e) => when(e.time), sort: (e) => e.time },
  { title: "Object", cell: (e) => <><WorkloadLink of={{ ...e.object, resource: resourceOf(e) }} /><small>{e.object.kind}</small></>, sort: (e) => qualified(e.object) },
  { title: "What happened", cell: (e) => <>{actions[e.action] ?? e.action}{e.user && ` by ${e.user}`}</>, sort: (e) => e.action },
  { title: "From and to", cell: (e) => <>{e.changes?.map((c, i) => <Change key={i} of={split(c)} />)}{e.moreChanges !== undefined && `${e.moreChanges} other changes`}</> },
  { title: "Why", cell: (e) => e.causes?.map((text) => <div key={text}>{text}</div>) },
  {
    title: "Policies", cell: (e) => (
      <>
        {e.policies?.map((p) => <div key={p.name}><PolicyLink name={p.name} /><small>generation {p.generation}</small></div>)}
        {e.approvedBy && <div>approved by {e.approvedBy.join(", ")}</div>}
      </>
    ),
  },
];

const eventColumns: Column<PolicyEvent>[] = [
  { title: "Time", cell: (e) => when(e.time), sort: (e) => e.time },
  { title: "Policy", cell: (e) => <PolicyLink name={e.policy} />, sort: (e) => e.policy },
  { title: "What happened", cell: (e) => <>{e.text}{e.details?.map((text, i) => <div key={i} class="facts">{text}</div>)}</>, sort: (e) => e.kind },
];

/** pageSize is the number of decisions of one page. */
const pageSize = 200;

export default function History({ parameters }: { parameters: URLSearchParams }) {
  const given = Object.fromEntries(["policy", "resource", "namespace", "name"].map((name) => [name, parameters.get(name) ?? undefined]));
  const [text, setText] = useState(""), [offset, setOffset] = useState(0);
  const loaded = useData((signal) => get("history", { ...given, q: text || undefined, offset, limit: pageSize }, signal), [given, text, offset]);
  const { data } = loaded;
  const about = given["name"] ? qualified({ namespace: given["namespace"], name: given["name"] }) : given["policy"] ? `the policy ${given["policy"]}` : "";
  return (
    <div class="page history">
      {data && <h1>History</h1>}
      {about !== "" && <p class="actions"><span>Of {about} only.</span> <a href={`#/history?${query({})}`}>Show all</a></p>}
      {!data ? <Waiting of={loaded} title="History" /> : (
        <>
          <Notes texts={data.notes} />
          {data.log ? (
            <section>
              <h2>Decisions in the log</h2>
              <div class="tools">
                {!given["name"] && <input type="search" placeholder="Namespace or name" aria-label="Show decisions by a part of the namespace or name" value={text}
                  onInput={(event) => { setText(event.currentTarget.value.trim()); setOffset(0); }} />}
                <span class="total">{count(data.total, "decision")}</span>
                {offset > 0 && <button type="button" onClick={() => setOffset(Math.max(0, offset - pageSize))}>Newer</button>}
                {offset + pageSize < data.total && <button type="button" onClick={() => setOffset(offset + pageSize)}>Older</button>}
              </div>
              <Table caption="Decisions" rows={data.decisions ?? []} columns={columns} empty={about === "" || text !== "" ? "The log has no such decision." : `There is a log of decisions, and it has none on ${about}.`}
                more={<More shown={data.decisions?.length ?? 0} total={data.total} />} />
            </section>
          ) : (
            <p class="lead">
              There is no log of decisions, so that only the plans in the status of policies are known. To see each move, start the manager
              with <code>--decision-log=stdout</code>, and the console with <code>--log FILE</code>.
            </p>
          )}
          {text === "" && !given["name"] && (
            <section>
              <h2>Plans and conditions of policies</h2>
              <Table caption="Events of policies" rows={data.events ?? []} columns={eventColumns} empty="The status of no policy has one." />
            </section>
          )}
        </>
      )}
    </div>
  );
}
