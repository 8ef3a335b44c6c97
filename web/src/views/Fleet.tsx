import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../api";
import { describePlace, type Picture } from "../charts/picture";
import { Badge, Joined, Mark, More, nameClass, Note, Notes, PolicyLink, Select, Waiting, WhatIfLink, WorkloadLink } from "../components/basics";
import { ClusterPicture } from "../components/ClusterPicture";
import { labelIn, namedLike } from "../components/searching";
import { type Column, Table } from "../components/Table";
import { useData } from "../hooks";
import { inState, meanings, summary } from "../states";
import { count, qualified, say } from "../text";
import { type Amount, type FleetMember, type FleetState, fleetStates, type FleetView, type Place } from "../types.gen";

const sizes: Record<string, { title: string; of: (p: Place) => number }> = {
  workloads: { title: "workloads", of: (p) => p.objects },
  replicas: { title: "replicas", of: (p) => p.replicas },
  cpu: { title: "CPU", of: (p) => p.cpu?.allocatable ?? 0 },
  memory: { title: "memory", of: (p) => p.memory?.allocatable ?? 0 },
  equal: { title: "nothing", of: () => 1 },
};

const gravest = (p: Place) => fleetStates.find((state) => inState(p.states, state) > 0);

const groupings: Record<string, { title: string; of: (p: Place) => string }> = {
  region: { title: "region", of: (p) => p.region || "unknown region" },
  zone: { title: "zone", of: (p) => p.zones?.join(", ") || "unknown zone" },
  state: { title: "gravest state", of: (p) => gravest(p) ?? "no workloads" },
  policy: { title: "policies", of: (p) => p.policies?.join(", ") || "no policy" },
  none: { title: "nothing", of: () => "all clusters" },
};

const choices = (from: Record<string, { title: string }>) => Object.entries(from).map(([value, { title }]) => [value, title] as const);

// grouped returns the groups of clusters by name.
function grouped(places: Place[], of: (p: Place) => string) {
  const groups = new Map<string, Place[]>();
  for (const p of places) {
    const name = p.name === "" ? "in no cluster" : of(p);
    groups.set(name, [...(groups.get(name) ?? []), p]);
  }
  return [...groups].map(([name, items]) => ({ name, items })).sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
}

// weights returns a function that returns how large a cluster is. Small and empty clusters stay large enough to be visible.
function weights(places: Place[], of: (p: Place) => number): (p: Place) => number {
  const total = places.reduce((sum, p) => sum + of(p), 0), least = total > 0 ? (total / places.length) * 0.2 : 1;
  return (p) => Math.max(of(p), least);
}

// What the user chose stays while the page is open.
const settings = { group: "region", size: "workloads", table: false };

export default function Fleet({ parameters }: { parameters: URLSearchParams }) {
  const loaded = useData((signal) => get("fleet", {}, signal), []);
  if (!loaded.data) return <div class="page fleet"><Waiting of={loaded} title="Fleet" /></div>;
  return <Shown fleet={loaded.data} wanted={parameters.get("cluster")} />;
}

function Shown({ fleet, wanted }: { fleet: FleetView; wanted: string | null }) {
  const [group, setGroup] = useState(settings.group), [size, setSize] = useState(settings.size), [table, setTable] = useState(settings.table);
  Object.assign(settings, { group, size, table });
  const [only, setOnly] = useState<FleetState | undefined>(undefined), [text, setText] = useState("");
  const [chosen, setChosen] = useState<string | undefined>(wanted ?? undefined);
  useEffect(() => setChosen(wanted ?? undefined), [wanted]);
  const picture = useRef<Picture | null>(null);
  // from is where the user chose the cluster. The focus goes to the cluster's details, and back to there when they are closed.
  const from = useRef<HTMLElement | null>(null);
  const choose = (p: Place) => {
    from.current = document.activeElement instanceof HTMLElement ? document.activeElement : null;
    setChosen(p.name);
  };
  const close = () => {
    setChosen(undefined);
    from.current?.focus();
    from.current = null;
  };
  const places = fleet.places ?? [];
  const labeled = useLabeled(text);
  const matches = useCallback((p: Place) => {
    const visible = only === undefined || inState(p.states, only) > 0, part = text.toLowerCase();
    return visible && (labeled ? labeled.has(p.name) : [p.name, p.region, ...(p.zones ?? []), ...(p.policies ?? [])].some((value) => part === "" || value?.toLowerCase().includes(part)));
  }, [only, text, labeled]);
  const groups = useMemo(() => grouped(places, (groupings[group] ?? groupings["region"]!).of), [fleet, group]);
  const weight = useMemo(() => weights(places, (sizes[size] ?? sizes["workloads"]!).of), [fleet, size]);
  useEffect(() => {
    if (text !== "" || only !== undefined) say(`${count(places.filter(matches).length, "cluster")} match`);
  }, [matches]);
  // The user may press Enter before the page shows what the text matches.
  const chooseFirst = (part: string) => {
    const first = part === "" ? undefined : namedLike(places, part)[0] ?? places.find((p) => p.name !== "" && matches(p));
    if (first) choose(first);
  };
  const place = chosen === undefined ? undefined : places.find((p) => p.name === chosen);
  return (
    <div class={`page fleet ${place ? "open" : ""}`}>
      <h1 class="hidden">Fleet</h1>
      <Notes texts={fleet.notes} />
      {chosen !== undefined && !place && <Note text={`No cluster has the name ${chosen}.`} />}
      <div class="tools">
        <div class="legend" role="group" aria-label="Show only one state">
          {fleetStates.map((state) => (
            <button key={state} type="button" class="toggle" aria-pressed={only === state} title={`${meanings[state]} ${only === state ? "Click to show all." : "Click to show only these."}`} onClick={() => setOnly(only === state ? undefined : state)}>
              <Mark state={state} /><span><b>{inState(fleet.states, state).toLocaleString("en")}</b> {state.toLowerCase()}</span>
            </button>
          ))}
        </div>
        <span class="grow" />
        <input type="search" placeholder="Cluster, region, key=value" size={25} aria-label="Show clusters by name, region, zone, policy, or label"
          onInput={(event) => setText(event.currentTarget.value.trim())} onKeyDown={(event) => { if (event.key === "Enter") chooseFirst(event.currentTarget.value.trim()); }} />
        <Select label="Group" value={group} choices={choices(groupings)} onChange={setGroup} />
        <Select label="Size" value={size} choices={choices(sizes)} onChange={setSize} />
        <button type="button" onClick={() => setTable(!table)}>{table ? "Picture" : "Table"}</button>
      </div>
      {places.length === 0
        ? <Note text="There is no cluster: no inventory that Berth knows has one, and no workload names one." />
        : (
          <>
            <div class="split">
              <div class="body">
                {table
                  ? <Table caption="Clusters" rows={places.filter(matches)} columns={columns(choose)} empty="No cluster matches." />
                  : (
                    <ClusterPicture groups={groups} weight={weight} matches={matches} only={only} selected={chosen} onChoose={choose} onReady={(p) => { picture.current = p; }} />
                  )}
              </div>
              {place && <Details key={place.name} place={place} only={only} focus={from.current !== null} onClose={close} />}
            </div>
            <div class="under">
              <p class="hint">
                <b>{count(fleet.objects, "workload")} in {count(places.filter((p) => p.name !== "").length, "cluster")}.</b> Each box is a cluster. Its colors are the shares
                of its workloads in each state; a workload counts in each of its clusters. Hatched clusters are not ready. Click on a cluster to see its workloads.
              </p>
              {!table && (
                <div class="zoom">
                  <button type="button" aria-label="Zoom in" title="Zoom in, also with the wheel" onClick={() => picture.current?.zoom(1.5)}>+</button>
                  <button type="button" aria-label="Zoom out" onClick={() => picture.current?.zoom(1 / 1.5)}>−</button>
                  <button type="button" title="Show the whole picture. A double click on a group shows the group." onClick={() => picture.current?.fit()}>Fit</button>
                </div>
              )}
            </div>
          </>
        )}
    </div>
  );
}

function columns(choose: (p: Place) => void): Column<Place>[] {
  return [
    { title: "Cluster", cell: (p) => <button type="button" class="link" onClick={() => choose(p)}>{p.name || "in no cluster"}</button>, sort: (p) => p.name },
    { title: "Region", cell: (p) => p.region, sort: (p) => p.region ?? "" },
    { title: "Ready", cell: (p) => (p.ready === undefined ? "unknown" : p.ready ? "yes" : "no"), sort: (p) => String(p.ready) },
    { title: "Workloads", numeric: true, cell: (p) => p.objects.toLocaleString("en"), sort: (p) => p.objects },
    ...[...fleetStates].reverse().map((state) => ({ title: state, numeric: true, cell: (p: Place) => inState(p.states, state), sort: (p: Place) => inState(p.states, state) })),
    { title: "Arriving", numeric: true, cell: (p) => p.arriving, sort: (p) => p.arriving },
    { title: "Leaving", numeric: true, cell: (p) => p.leaving, sort: (p) => p.leaving },
    { title: "CPU in use", numeric: true, cell: (p) => percent(p.cpu), sort: (p) => (p.cpu?.used === undefined ? -1 : p.cpu.used / p.cpu.allocatable) },
  ];
}

const percent = (a?: Amount) => (a?.used === undefined ? "" : `${Math.round((a.used / a.allocatable) * 100)} %`);

const round = (n: number) => n.toLocaleString("en", { maximumFractionDigits: n < 10 ? 1 : 0 });

/** Details shows a cluster and its workloads: at first those in the state only, if that is given. */
function Details({ place: p, only, focus, onClose }: { place: Place; only: FleetState | undefined; focus: boolean; onClose: () => void }) {
  const [state, setState] = useState<string>(only ?? ""), panel = useRef<HTMLElement>(null);
  useEffect(() => setState(only ?? ""), [only]);
  useEffect(() => {
    if (focus) panel.current?.focus();
  }, []);
  const facts: ComponentChildren[] = [
    p.region && `region ${p.region}`, p.zones && p.zones.length > 0 && `${p.zones.length === 1 ? "zone" : "zones"} ${p.zones.join(", ")}`, p.ready === true && "ready",
    p.ready === false && <b class="bad">not ready</b>, p.ready === undefined && p.name && "in no inventory",
  ];
  const moves = [p.arriving > 0 && `${p.arriving} arriving`, p.leaving > 0 && `${p.leaving} leaving`].filter(Boolean);
  return (
    <aside ref={panel} class="details" tabIndex={-1} aria-label="The chosen cluster" onKeyDown={(event) => { if (event.key === "Escape") onClose(); }}>
      <button type="button" class="close" aria-label="Close" onClick={onClose}>×</button>
      <h2>{p.name || "In no cluster"}</h2>
      <p class="facts"><Joined items={facts} by=" · " /></p>
      {p.name !== "" && <p><WhatIfLink class="button" cluster={p.name}>What if a label changes?</WhatIfLink></p>}
      {p.name === "" && <p>Policies match these workloads, and they name no cluster: most often because a policy denies them.</p>}
      <Stack place={p} />
      <Usage title="CPU" amount={p.cpu} text={(n) => `${round(n)} cores`} />
      <Usage title="Memory" amount={p.memory} text={(n) => `${round(n / 2 ** 30)} GiB`} />
      {moves.length > 0 && <p>{moves.join(", ")}</p>}
      {p.policies && p.policies.length > 0 && <p>Policies: <Joined items={p.policies.map((name) => <PolicyLink key={name} name={name} />)} /></p>}
      {p.name !== "" && <Labels cluster={p.name} />}
      <Select label="Show" value={state} choices={[["", "all workloads"], ...fleetStates.map((s) => [s, s] as const)]} onChange={setState} />
      <Members cluster={p.name} state={state} />
    </aside>
  );
}

/** Labels shows the labels of a cluster. */
function Labels({ cluster }: { cluster: string }) {
  const loaded = useData((signal) => get("cluster", { name: cluster }, signal), [cluster]);
  const labels = (loaded.data?.inventory ?? []).flatMap((o) => Object.entries(o.labels ?? {}).sort());
  if (labels.length === 0) return null;
  return (
    <p class="label-list">
      {"Labels, of which you can try a change: "}
      <Joined by=" " items={labels.map(([key, value]) => <WhatIfLink cluster={cluster} part={{ label: key }} title={`What if the label ${key} changes?`}><code class={nameClass(`${key}=${value}`)}>{key}={value}</code></WhatIfLink>)} />
    </p>
  );
}

/** useLabeled returns the names of the clusters with a label, KEY=VALUE; undefined for a text that is none. */
function useLabeled(text: string): ReadonlySet<string> | undefined {
  const label = labelIn(text) === undefined ? "" : text;
  const found = useData((signal) => (label === "" ? Promise.resolve(undefined) : get("labeled", { label }, signal)), [label]).data;
  return useMemo(() => (label === "" ? undefined : new Set(found?.clusters ?? [])), [label, found]);
}

const memberColumns: Column<FleetMember>[] = [
  { title: "Workload", cell: (o) => <><WorkloadLink of={o} /><small>{o.kind}</small></>, sort: qualified },
  { title: "State", cell: (o) => <span class="badges"><Badge state={o.state} />{o.change && <Badge state={o.change} />}</span>, sort: (o) => fleetStates.indexOf(o.state) },
  { title: "Replicas", numeric: true, cell: (o) => o.here ?? "", sort: (o) => o.here ?? -1 },
];

function Members({ cluster, state }: { cluster: string; state: string }) {
  const loaded = useData((signal) => get("objects", { cluster, state: state || undefined, limit: 200 }, signal), [cluster, state]);
  if (loaded.error) return <Note kind="error" text={loaded.error.message} />;
  if (!loaded.data) return <p class="loading">Loading…</p>;
  const rows = loaded.data.objects ?? [];
  return (
    <div class="members">
      <Table caption={`Workloads in ${cluster}`} rows={rows} empty="No workloads." columns={memberColumns}
        more={<More shown={rows.length} total={loaded.data.total} hint="Find others with the search above." />} />
    </div>
  );
}

/** Stack shows the states of the workloads of a cluster. */
function Stack({ place: p }: { place: Place }) {
  if (p.objects === 0) return <p>No workloads.</p>;
  return (
    <div>
      <div class="stack" role="img" aria-label={describePlace(p)}>
        {fleetStates.filter((state) => inState(p.states, state) > 0).map((state) => <span key={state} class={state.toLowerCase()} style={{ flexGrow: inState(p.states, state) }} />)}
      </div>
      <p class="facts">{count(p.objects, "workload")}: {summary(p.states)}</p>
    </div>
  );
}

/** Usage shows what is used of a resource. */
function Usage({ title, amount, text }: { title: string; amount: Amount | undefined; text: (n: number) => string }) {
  if (!amount) return null;
  return (
    <div class="usage">
      <span>{title}</span>
      <div class="bar"><span style={{ width: `${Math.min(100, ((amount.used ?? 0) / amount.allocatable) * 100)}%` }} /></div>
      <span>{amount.used === undefined ? text(amount.allocatable) : `${text(amount.used)} of ${text(amount.allocatable)}`}</span>
    </div>
  );
}
