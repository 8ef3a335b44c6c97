import { useState } from "preact/hooks";
import { get, query } from "../api";
import { Badge, Note, Notes, Waiting } from "../components/basics";
import { Table } from "../components/Table";
import { useData } from "../hooks";
import { count, qualified } from "../text";
import type { QuotaAmount, QuotaView } from "../types.gen";

/** resourceOf returns the type of a quota. */
export function resourceOf(q: { kind: string }): string {
  return `${q.kind.toLowerCase()}s.placement.berth.dev`;
}

export default function Quotas() {
  const loaded = useData((signal) => get("quotas", {}, signal), []);
  const [text, setText] = useState("");
  if (!loaded.data) return <div class="page quotas"><Waiting of={loaded} title="Quotas" /></div>;
  const quotas = loaded.data.quotas ?? [];
  return (
    <div class="page quotas">
      <h1>Quotas</h1>
      <Notes texts={loaded.data.notes} />
      {quotas.length === 0 ? <p class="empty">There is no ScopedQuota and no ClusterScopedQuota.</p> : (
        <>
          <ul class="legend facts">
            <li><span class="key used" />used by objects</li>
            <li><span class="key reserved" />reserved: admitted, and the object is not seen yet</li>
            <li><span class="key over" />above the limit</li>
          </ul>
          {quotas.length > 6 && <input type="search" placeholder="Namespace or name" aria-label="Show quotas by namespace or name" onInput={(event) => setText(event.currentTarget.value.trim())} />}
          <div class="quota-list">{quotas.filter((q) => `${q.namespace ?? ""}/${q.name}`.includes(text)).map((q) => <Quota key={`${q.kind} ${qualified(q)}`} of={q} />)}</div>
        </>
      )}
    </div>
  );
}

function Quota({ of: q }: { of: QuotaView }) {
  const amounts = q.amounts ?? [], namespaces = q.namespaces ?? [];
  return (
    <section class="card">
      <h2>{qualified(q)} <small>{q.kind}</small></h2>
      <p class="facts">
        {q.mode === "Enforce" ? "enforced" : `mode ${q.mode}`}
        {q.selectedNamespaces !== undefined && ` · ${count(q.selectedNamespaces, "namespace")} share it`}
        {q.scopes && q.scopes.length > 0 && ` · counts only ${q.scopes.join(", ")}`}
      </p>
      {q.ready && <Note text={q.ready} />}
      {amounts.map((a) => <Amount key={a.resource} of={a} />)}
      {namespaces.length > 0 && (
        <details>
          <summary>Usage by namespace</summary>
          <Table caption={`Usage of ${q.name} by namespace`} rows={namespaces} columns={[
            { title: "Namespace", cell: (n) => n.namespace, sort: (n) => n.namespace },
            ...amounts.map((a) => ({ title: a.resource, numeric: true, cell: (n: (typeof namespaces)[number]) => n.used?.[a.resource] ?? "0" })),
          ]} />
        </details>
      )}
      <p><a href={`#/playground?${query({ resource: resourceOf(q), namespace: q.namespace ?? "", name: q.name })}`}>Try another limit</a></p>
    </section>
  );
}

function Amount({ of: a }: { of: QuotaAmount }) {
  const part = (name: string, share: number) => <span class={name} style={{ width: `${Math.min(100, share * 100)}%` }} />;
  const over = a.usedShare > 1;
  return (
    <div class="usage">
      <span>{a.resource}</span>
      <div class="bar" role="img" aria-label={`${a.used} of ${a.hard} used, ${a.reserved} of it reserved`}>
        {over ? part("over", 1) : <>{part("used", Math.max(0, a.usedShare - a.reservedShare))}{part("reserved", Math.min(a.usedShare, a.reservedShare))}</>}
      </div>
      <span>{a.used} of {a.hard}{a.reservedShare > 0 && <small>{a.reserved} reserved</small>}{over && <Badge state="violating">exceeded</Badge>}</span>
    </div>
  );
}
