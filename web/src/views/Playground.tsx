import { useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, isAbort, messageOf, post, query } from "../api";
import { Badge, Command, CopyButton, Lines, Note, Notes, Waiting, WorkloadLink } from "../components/basics";
import { Change } from "../components/Change";
import { Editor } from "../components/Editor";
import { Flows, UnreadyTargets } from "../components/Flows";
import { type Column, Table } from "../components/Table";
import type { Known, Schema } from "../editor/completion";
import type { Editing } from "../editor/editor";
import { Reading, useData } from "../hooks";
import { assigned, described, fieldOf } from "../playground/assignments";
import { Contract } from "../playground/Contract";
import { type Group, grouped } from "../playground/groups";
import { isChanged as isTried, kept } from "../playground/kept";
import { Objects } from "../playground/Objects";
import { edited } from "../playground/rules";
import { RulesForm } from "../playground/RulesForm";
import { packed, save, type Tried, unpacked } from "../playground/share";
import { transitions } from "../states";
import { count, qualified, say } from "../text";
import { type Changes, type Mistake, type WhatifObject, type WhatifReport, type WhatifTransition, whatifTransitions, type WhatifValue, type WhatifView } from "../types.gen";
import { resourceOf } from "./Quotas";

const template = `apiVersion: placement.berth.dev/v1alpha1
kind: PlacementPolicy
metadata:
  name: example
spec:
  match:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], resources: [deployments]}
  rules:
  - name: eu
    require:
    - {field: region, operator: In, values: [eu]}
`;

const nothing: Tried = { text: "", original: "", source: "", set: [], remove: [] };

// The last link that was opened. The user may have changed what it had.
let opened = "";

// Whether the form for clusters is above the text, which stays so until a link chooses a cluster or a text.
let objectsFirst = false;

/** delay is how long the user has to pause before a change is tried, in milliseconds. */
const delay = 20;

/** Choice is an object whose manifest the user can edit. */
interface Choice {
  source: string;
  title: string;
  load: () => Promise<{ manifest: string }>;
}

const policyChoice = (name: string): Choice => ({ source: `policy/${name}`, title: name, load: () => get("policy", { name }) });

const objectChoice = (o: { resource: string; namespace: string; name: string }): Choice => ({
  source: `${o.resource}/${o.namespace}/${o.name}`, title: qualified(o), load: () => get("manifest", o),
});

/** changesOf returns the changes for the console. A text that the user has not changed is none. */
function changesOf(tried: Tried): Changes {
  return { manifests: tried.text === tried.original ? "" : tried.text, set: tried.set, delete: tried.remove };
}

export default function Playground({ parameters }: { parameters: URLSearchParams }) {
  const loaded = useData(async (signal) => {
    // What the user may not read is missing: a note says so with the first answer.
    const quotas = get("quotas", {}, signal).then((v) => v.quotas ?? [], () => []), fleet = get("fleet", {}, signal).then((v) => v.places ?? [], () => []);
    const [policies, places] = [await get("policies", {}, signal), await fleet];
    return { policies: policies.policies ?? [], quotas: await quotas, clusters: places.map((p) => p.name).filter((name) => name !== "") };
  }, []);
  if (!loaded.data) return <div class="page playground"><Waiting of={loaded} title="Playground" /></div>;
  const { policies, quotas, clusters } = loaded.data;
  const choices = { policies: policies.map((p) => policyChoice(p.name)), quotas: quotas.map((q) => objectChoice({ resource: resourceOf(q), namespace: q.namespace ?? "", name: q.name })) };
  const awaited = policies.filter((p) => p.status.waiting?.some((w) => (w.objects ?? 0) > 0)).map((p) => p.name);
  return <Trying parameters={parameters} choices={choices} clusters={clusters} awaited={awaited.length === 1 ? awaited[0] : undefined} />;
}

/** Trying has the changes and their result. awaited is the policy for which all workloads wait that wait now; undefined if there are several. */
function Trying({ parameters, choices, clusters, awaited }: {
  parameters: URLSearchParams; choices: { policies: Choice[]; quotas: Choice[] }; clusters: string[]; awaited: string | undefined;
}) {
  const [tried, setTried] = useState(kept.now ?? nothing), [error, setError] = useState(""), [form, setForm] = useState(false);
  kept.now = tried;
  const change = (next: Partial<Tried>) => setTried((now) => ({ ...now, ...next }));
  // The revision of the text counts its changes that the editor has not made.
  const [revision, setRevision] = useState(0);
  const replace = (next: Partial<Tried>) => {
    change(next);
    setRevision((n) => n + 1);
  };
  const values = useData((signal) => get("values", {}, signal), []).data, schema = useData((signal) => get("schema", {}, signal), []).data as Schema | undefined;
  const known = useMemo<Known>(() => ({ schema, values }), [schema, values]);
  const editing = useRef<Editing | null>(null);
  const attempt = useAttempt(tried);
  const choose = async (source: string) => {
    const choice = [...choices.policies, ...choices.quotas].find((c) => c.source === source);
    const original = choice ? (await choice.load()).manifest : "";
    replace({ source, original, text: choice ? original : template });
  };
  const start = async () => {
    setError("");
    const link = parameters.get("change"), policy = parameters.get("policy"), resource = parameters.get("resource");
    if (link) {
      if (link === opened) return;
      opened = link;
      const shared = await unpacked(link);
      const choice = [...choices.policies, ...choices.quotas].find((c) => c.source === shared.source);
      replace({ ...shared, original: choice ? (await choice.load()).manifest : "" });
      return;
    }
    const named = policy ? `policy/${policy}` : resource ? `${resource}/${parameters.get("namespace") ?? ""}/${parameters.get("name") ?? ""}` : undefined;
    // What the user tried of this object stays.
    if (tried.text === "" || named !== undefined && named !== tried.source) await choose(named ?? choices.policies[0]?.source ?? "");
  };
  useEffect(() => {
    start().catch((err: unknown) => setError(messageOf(err)));
  }, [parameters.toString()]);
  const attempted = attempt.answer;
  const mistakes = attempted?.mistakes ?? none;
  const assign = (field: string, value: string | null | undefined) => setTried((now) => ({ ...now, set: assigned(now.set, field, value) }));
  const first = parameters.get("cluster") ?? "";
  const focus = ["label", "annotation", "field"].flatMap((kind) => (parameters.get(kind) ? [`${kind} ${parameters.get(kind)}`] : []))[0] ?? "";
  if (first !== "") objectsFirst = true;
  else if (parameters.has("policy") || parameters.has("resource")) objectsFirst = false;
  const objects = (
    <div key="objects">
      <Objects key={`${first} ${focus}`} clusters={clusters} nodes={values?.nodes ?? noNodes} values={values} first={first} focus={focus} set={tried.set} assign={assign}
        remove={(reference) => change({ remove: [...tried.remove.filter((other) => other !== reference), reference] })} />
      <Earlier bringBack={(earlier) => replace(joined(earlier, tried))} />
    </div>
  );
  const text = (
    <div key="text">
      <div class="tools">
        <label>Policy or quota <select id="policy" value={tried.source} onChange={(event) => void choose(event.currentTarget.value).catch((err: unknown) => setError(messageOf(err)))}>
          <option value="">a new policy</option>
          <optgroup label="Policies">{choices.policies.map((c) => <option key={c.source} value={c.source}>{c.title}</option>)}</optgroup>
          {choices.quotas.length > 0 && <optgroup label="Quotas">{choices.quotas.map((c) => <option key={c.source} value={c.source}>{c.title}</option>)}</optgroup>}
        </select></label>
        <button type="button" aria-pressed={form} onClick={() => setForm(!form)}>Form</button>
      </div>
      <div class={form ? "beside" : ""}>
        {form && <RulesForm text={tried.text} values={values} edit={(edit) => replace({ text: edited(tried.text, edit) })} />}
        <Editor text={tried.text} revision={revision} label="Policies to try, as YAML" known={known} mistakes={mistakes} onChange={(text) => change({ text })} onReady={(e) => { editing.current = e; }} />
      </div>
      <p class="hint">Ctrl-Space completes. Press Escape and then Tab to leave the text.</p>
      <Mistakes list={mistakes} go={(m) => editing.current?.go(m.line, m.column)} />
    </div>
  );
  return (
    <div class="page playground">
      <h1>Playground</h1>
      <p class="lead">Change a policy, a quota, or a cluster, and see at once which workloads would move, be denied, or be released. Nothing is applied.</p>
      {error !== "" && <Note kind="error" text={error} />}
      <div class={`split even ${form ? "formed" : ""}`}>
        <div>
          {objectsFirst ? [objects, text] : [text, objects]}
          <Contract />
          <Summary attempt={attempt} />
        </div>
        <Result attempt={attempt} tried={tried} change={replace} awaited={awaited} />
      </div>
    </div>
  );
}

const none: Mistake[] = [], noNodes: string[] = [];

/** Attempt is the answer to the changes. */
interface Attempt {
  answer?: WhatifView | undefined;
  /** changes are those that the answer is for. */
  changes?: Changes | undefined;
  error?: string | undefined;
  busy: boolean;
  isChanged: boolean;
}

/** useAttempt finds out what changes would do, when the user pauses. */
function useAttempt(tried: Tried): Attempt {
  const [attempt, setAttempt] = useState<{ answer?: WhatifView; changes?: Changes; error?: string }>({}), [busy, setBusy] = useState(false);
  const changes = changesOf(tried), key = JSON.stringify(changes), reading = useContext(Reading), isChanged = isTried(tried);
  useEffect(() => {
    // The first question decides all objects, so that the answers to the next ones come at once. An error is shown with the first answer.
    post("whatif", { manifests: "", set: [], delete: [] }).catch(() => {});
  }, []);
  // An ordinary effect would begin the pause only after the next picture.
  useLayoutEffect(() => {
    if (!isChanged) {
      setAttempt({});
      return undefined;
    }
    const end = new AbortController();
    const timer = setTimeout(() => {
      setBusy(true);
      post("whatif", { ...changes, limit: page }, end.signal).then((answer) => {
        setAttempt({ answer, changes });
        setBusy(false);
      }, (err: unknown) => {
        if (isAbort(err)) return;
        setAttempt({ changes, error: messageOf(err) });
        setBusy(false);
      });
    }, delay);
    return () => {
      clearTimeout(timer);
      end.abort();
    };
  }, [key, reading]);
  return { ...attempt, busy, isChanged };
}

function Mistakes({ list, go }: { list: readonly Mistake[]; go: (m: Mistake) => void }) {
  return (
    <ul class="mistakes">
      {list.map((m, i) => (
        <li key={i} class={m.error ? "error" : "warning"}>
          {m.line > 0 && <><button type="button" class="link" onClick={() => go(m)}>Line {m.line}, column {m.column}</button>: </>}<Lines text={m.message} />
        </li>
      ))}
    </ul>
  );
}

/** Earlier offers the changes that a link has put aside. */
function Earlier({ bringBack }: { bringBack: (earlier: Tried) => void }) {
  const [earlier, setEarlier] = useState(kept.earlier);
  if (!earlier) return null;
  const bring = () => {
    delete kept.earlier;
    setEarlier(undefined);
    bringBack(earlier);
  };
  return <p class="facts">This started without your earlier changes. <button type="button" onClick={bring}>Bring them back</button></p>;
}

/** joined returns earlier changes together with the present ones, which win. */
function joined(earlier: Tried, now: Tried): Tried {
  const set = [...earlier.set.filter((text) => !now.set.some((other) => fieldOf(other) === fieldOf(text))), ...now.set];
  return { ...(now.text === now.original ? earlier : now), set, remove: [...new Set([...earlier.remove, ...now.remove])] };
}

/** Sentence says which changes the result is for, with a button for each that takes it back. before are the values of the fields in set. */
function Sentence({ changes, before, tried, change }: { changes: Changes; before: readonly (string | null)[]; tried: Tried; change: (next: Partial<Tried>) => void }) {
  const was = (value: string | null | undefined) => (value === undefined ? "" : value === null ? " (new)" : ` (was ${value === "" ? "empty" : value})`);
  const subject = tried.source === "" ? "the new text" : `the text of ${tried.source.slice(tried.source.lastIndexOf("/") + 1)}`;
  const parts: { text: string; undo: Partial<Tried> }[] = [
    ...(changes.set ?? []).map((text, i) => ({ text: described(text) + was(before[i]), undo: { set: tried.set.filter((other) => other !== text) } })),
    ...(changes.delete ?? []).map((text) => ({ text: `${text.slice(text.lastIndexOf("/") + 1)} is removed`, undo: { remove: tried.remove.filter((other) => other !== text) } })),
    ...(changes.manifests === "" ? [] : [{ text: `${subject} is applied`, undo: { text: tried.original } }]),
  ];
  return (
    <p class="tried">
      {"If "}
      {parts.map(({ text, undo }, i) => (
        <span key={i}>{i > 0 && (i === parts.length - 1 ? " and " : ", ")}<b>{text}</b>{"\u00a0"}<button type="button" aria-label={`Take back: ${text}`} title="Take it back" onClick={() => change(undo)}>×</button></span>
      ))}
      <button type="button" class="undo" onClick={() => change({ set: [], remove: [], text: tried.original })}>Undo all</button>
    </p>
  );
}

/** inShort says in a few words what an answer says. */
function inShort(answer: WhatifView, separator: string): string {
  const errors = (answer.mistakes ?? []).filter((m) => m.error).length, totals = answer.report?.totals ?? {};
  const happens = whatifTransitions.filter((t) => (totals[t] ?? 0) > 0).map((t) => `${totals[t]?.toLocaleString("en")} ${transitions[t].title}`);
  return errors > 0 ? count(errors, "error") : happens.length === 0 ? "Nothing would happen" : happens.join(separator);
}

/** Summary stays at the bottom of a narrow window while its user makes changes, above the result. */
function Summary({ attempt: { answer, isChanged } }: { attempt: Attempt }) {
  if (!isChanged || !answer) return null;
  const show = () => {
    const result = document.querySelector<HTMLElement>(".result");
    result?.scrollIntoView();
    result?.focus({ preventScroll: true });
  };
  return <div class="summary"><b>{inShort(answer, " · ")}</b><button type="button" onClick={show}>Show</button></div>;
}

/** Result shows what the changes would do. */
function Result({ attempt, tried, change, awaited }: { attempt: Attempt; tried: Tried; change: (next: Partial<Tried>) => void; awaited: string | undefined }) {
  const { answer, changes, error, busy, isChanged } = attempt;
  useEffect(() => {
    if (answer) say(inShort(answer, ", "));
  }, [answer]);
  // The page renders again at each key, and the rows take longest. They change only with the answer.
  const report = useMemo(() => (answer?.report && changes ? <Report answer={answer} report={answer.report} changes={changes} awaited={awaited} /> : null), [answer, changes, awaited]);
  return (
    <div class="result" aria-busy={busy} tabIndex={-1}>
      {!isChanged && <p class="empty">Change the policy, or a cluster. What would happen to the workloads is shown here at once. Nothing is applied.</p>}
      {isChanged && changes && <><h2>What would happen</h2><Sentence changes={changes} before={answer?.before ?? []} tried={tried} change={change} /></>}
      {isChanged && error !== undefined && <Note kind="error" text={error} />}
      {isChanged && answer && (
        <>
          <Notes texts={answer.notes} />
          {report ?? <><Commands of={answer} />{(answer.mistakes?.length ?? 0) > 0 && <p class="empty">Correct the errors to see what the change would do.</p>}</>}
          {!hasErrors(answer) && <Keep answer={answer} tried={tried} />}
        </>
      )}
    </div>
  );
}

/**
 * columnsOf returns the columns of groups of objects. shared is what all that wait would wait for, and all reports whether the groups have all
 * objects.
 */
function columnsOf(shared: string | undefined, all: boolean): Column<Group>[] {
  return [
    { title: "What happens", cell: ({ objects: [o] }) => o && <Badge state={transitions[o.transition].kind}>{transitions[o.transition].title}</Badge> },
    { title: "From and to", cell: ({ objects: [o], isSame }) => o && <Differences of={o} shared={shared} kept={isSame} /> },
    { title: "Objects", cell: (g) => <Members key={g.key} of={g.objects} all={all} /> },
  ];
}

/** few is how many objects of a group are named, unless the user wants all. */
const few = 6;

/** Members names the objects of a group. */
function Members({ of: objects, all }: { of: readonly WhatifObject[]; all: boolean }) {
  const [whole, setWhole] = useState(false), hidden = whole ? 0 : Math.max(0, objects.length - few);
  return (
    <>
      {objects.length > 1 && <b>{all ? "" : "at least "}{count(objects.length, "object")}</b>}
      <ul class="objects">
        {objects.slice(0, objects.length - hidden).map((o) => <li key={`${o.resource} ${qualified(o)}`}><WorkloadLink of={o} /><small>{o.kind}</small></li>)}
        {hidden > 0 && <li><button type="button" class="link" onClick={() => setWhole(true)}>{`and ${hidden} more`}</button></li>}
      </ul>
    </>
  );
}

/**
 * Differences shows the values that an object would get, those for which it waits already, and why. It shows clusters that stay only if kept is
 * true.
 */
function Differences({ of: o, shared, kept }: { of: WhatifObject; shared: string | undefined; kept: boolean }) {
  return (
    <>
      {o.values?.map((v, i) => <div key={i}><Change of={v} shared={shared} kept={kept} /><Instead of={v} kept={kept} /></div>)}
      {o.reasons?.map((text) => <div key={text}><Lines text={text} /></div>)}
      {o.dropped && <small>would stay as it is, and no longer wait for this change:</small>}
      {o.dropped?.map((v, i) => <Change key={i} of={unhindered(v)} dropped kept={kept} />)}
    </>
  );
}

/** unhindered returns a change without what it waits for. */
const unhindered = (v: WhatifValue): WhatifValue => ({ ...v, pending: false, waits: "" });

/** Instead shows what an object waits for already, instead of a change. */
function Instead({ of: v, kept }: { of: WhatifValue; kept: boolean }) {
  if (!v.planned) return null;
  if (v.planned.to === v.to) return <small>{`it waits for this change already${v.planned.waits ? `, ${v.planned.waits}` : ""}`}</small>;
  return <div class="instead"><small>it waits already, instead, for</small><Change of={unhindered({ ...v, to: v.planned.to })} kept={kept} /></div>;
}

/** sharedWait returns what all rows that wait would wait for; undefined if they differ. */
function sharedWait(rows: readonly WhatifObject[]): string | undefined {
  const waits = new Set(rows.flatMap((o) => o.values ?? []).filter((v) => v.pending || v.waits).map((v) => v.waits));
  return waits.size === 1 ? [...waits][0] : undefined;
}

/** page is how many objects an answer has, and each request for more. */
const page = 50;

/** mostWaiting is how many of the objects that wait as before can be read (whatif.MaxStillWaiting). */
const mostWaiting = 1000;

/** groupsShown is how many groups of objects are shown, unless the user wants all. */
const groupsShown = 8;

/** useRows returns the objects of an answer to which something would happen, and what reads more of them: the answer has only the first ones. */
function useRows(answer: WhatifView, only: WhatifTransition | undefined, changes: Changes) {
  const [read, setRead] = useState<{ of: WhatifView; only: WhatifTransition | undefined; rows: WhatifObject[] } | undefined>(undefined), [error, setError] = useState("");
  const first = answer.report?.objects ?? [], total = totalOf(answer, only);
  // The objects are sorted by what happens to them, so the first ones that are chosen are the first of all that are.
  const rows = read?.of === answer && read.only === only ? read.rows : only ? first.filter((o) => o.transition === only) : first;
  // What answers an earlier question would replace the rows of a later one.
  const last = useRef<object | undefined>(undefined);
  const more = () => {
    const question = {};
    last.current = question;
    post("whatif", { ...changes, ...(only ? { transition: only } : {}), offset: rows.length, limit: page }).then((next) => {
      if (last.current === question) setRead({ of: answer, only, rows: [...rows, ...(next.report?.objects ?? [])] });
    }, (err: unknown) => setError(messageOf(err)));
  };
  useEffect(() => {
    last.current = undefined;
    setError("");
    if (total > 0 && rows.length === 0) more();
  }, [answer, only]);
  return { rows, total, more, error };
}

/** totalOf returns how many objects an answer has to which something would happen: only what is given, or anything. */
function totalOf(answer: WhatifView, only: WhatifTransition | undefined): number {
  if (only === "Waiting") return Math.min(answer.report?.waiting ?? 0, mostWaiting);
  return only ? answer.report?.totals?.[only] ?? 0 : answer.total;
}

/** outcome says what the totals of a report mean. It counts workloads, and not their clusters. */
function outcome(report: WhatifReport): string {
  const n = (...of: WhatifTransition[]) => of.reduce((sum, t) => sum + (report.totals?.[t] ?? 0), 0), workloads = (k: number) => count(k, "workload");
  const moved = n("Moved"), released = n("Allowed"), changed = n("Changed"), denied = n("Denied", "Undecidable"), later = n("Pending", "Replanned"), dropped = n("Kept");
  if (whatifTransitions.every((t) => n(t) === 0)) return "Nothing would change.";
  const parts = [
    moved > 0 ? `${workloads(moved)} would move at once` : released === 0 && `Nothing moves${later > 0 ? " at once" : ""}`, released > 0 && `${workloads(released)} would be released`,
    changed > 0 && `${workloads(changed)} would get other labels or annotations`,
    denied > 0 && `${workloads(denied)} would be denied or undecidable`, later > 0 && `${workloads(later)} would wait to move`,
    dropped > 0 && `${workloads(dropped)} would no longer wait to move`,
  ];
  return `${parts.filter(Boolean).join("; ")}.`;
}

/** Unaffected says why changes that do nothing do nothing, as far as that is known. */
function Unaffected({ changes }: { changes: Changes }) {
  const found = useData((signal) => post("unaffected", changes, signal), [changes]).data;
  return <>{found?.reasons?.map((text) => <p key={text}>{text}</p>)}</>;
}

/** AsBefore says how many workloads wait whether the changes are made or not, and shows them if the user wants. */
function AsBefore({ count: n, show }: { count: number; show: (() => void) | undefined }) {
  if (n === 0) return null;
  return <>{n === 1 ? "1 workload waits already, and stays the same. " : `${n.toLocaleString("en")} workloads wait already, and stay the same. `}{show && <button type="button" class="link" onClick={show}>{n === 1 ? "Show it" : "Show them"}</button>}</>;
}

function Report({ answer, report, changes, awaited }: { answer: WhatifView; report: WhatifReport; changes: Changes; awaited: string | undefined }) {
  const [only, setOnly] = useState<WhatifTransition | undefined>(undefined);
  const happens = whatifTransitions.filter((t) => (report.totals?.[t] ?? 0) > 0);
  const waiting = report.waiting ?? 0, tiles = waiting > 0 ? [...happens, "Waiting" as const] : happens;
  const chosen = only && tiles.includes(only) ? only : undefined;
  const { rows, total, more, error } = useRows(answer, chosen, changes), isWhole = rows.length === total;
  const groups = useMemo(() => grouped(rows), [rows]), [allGroups, setAllGroups] = useState(false);
  const shared = useMemo(() => sharedWait(rows), [rows]), columns = useMemo(() => columnsOf(shared, isWhole), [shared, isWhole]), sentence = outcome(report);
  const hidden = allGroups ? 0 : Math.max(0, groups.length - groupsShown);
  const showWaiting = waiting > 0 && chosen === undefined ? () => setOnly("Waiting") : undefined;
  return (
    <>
      <p><b>{sentence}</b> {count(report.unchanged, "workload")} {report.unchanged === 1 ? "stays" : "stay"} unchanged. <AsBefore count={waiting} show={showWaiting} /></p>
      {happens.length === 0 && <Unaffected changes={changes} />}
      {tiles.length > 0 && <p class="facts">{chosen === undefined ? "Select a number to see only these workloads in the list." : "Select the number again to see all in the list."}</p>}
      <div class="totals">
        {tiles.map((t) => (
          <button key={t} type="button" class={`total ${transitions[t].kind}`} title={transitions[t].text} aria-pressed={chosen === t} onClick={() => setOnly(chosen === t ? undefined : t)}>
            <b>{(t === "Waiting" ? waiting : report.totals?.[t] ?? 0).toLocaleString("en")}</b>{transitions[t].title}
          </button>
        ))}
      </div>
      {chosen === "Waiting" && awaited !== undefined && <p><a href={`#/plan?${query({ name: awaited })}`}>The plan of {awaited}, as it is today without the change, has all that wait</a></p>}
      <UnreadyTargets flows={answer.flows} />
      {report.findings?.map((f) => <Note key={f.message} kind={f.error ? "error" : "warning"} text={`${f.object}: ${f.message}`} />)}
      {report.rules && report.rules.length > 1 && (
        <ul class="facts">{report.rules.map((r) => <li key={`${r.policy} ${r.rule}`}>{r.policy}: the rule {r.rule} decides {count(r.after, "object")}{r.before !== r.after && ` (before: ${r.before})`}</li>)}</ul>
      )}
      {error !== "" && <Note kind="error" text={error} />}
      <Flows flows={answer.flows} note="This counts only what the change alters. A workload that leaves or comes to several clusters counts once for each." />
      {shared && <p class="facts">The waiting workloads of this list wait {shared}.</p>}
      {tiles.length > 0 && total > 0 && (
        <Table all caption="Objects to which something would happen" rows={groups.slice(0, groups.length - hidden)} columns={columns} empty="Reading them…"
          more={hidden > 0 ? <button type="button" onClick={() => setAllGroups(true)}>Show {count(hidden, "more change")}</button>
            : !isWhole && <button type="button" onClick={more}>Show {Math.min(page, total - rows.length)} more of {total.toLocaleString("en")}</button>} />
      )}
      {showWaiting && happens.length > 0 && <p class="facts">Not in the list: <AsBefore count={waiting} show={showWaiting} /></p>}
      <Commands of={answer} />
    </>
  );
}

/** Keep shows what the user can export. */
function Keep({ answer, tried }: { answer: WhatifView; tried: Tried }) {
  const [exported, setExported] = useState("");
  const link = async () => `${location.href.split("#")[0]}#/playground?${query({ change: await packed(tried) })}`;
  const test = async () => {
    const file = await post("testcase", changesOf(tried));
    save(file.name, file.file);
    const of = file.cases < file.total ? ` of ${file.total.toLocaleString("en")} objects` : "";
    setExported(`${file.name} has ${count(file.cases, "case")}${of}. ${file.needsManifest ? "Put it beside changes.yaml, and run" : "Run"} kubectl berth test ${file.name}.`);
  };
  const run = (action: () => Promise<void>) => void action().catch((err: unknown) => setExported(messageOf(err)));
  return (
    <>
      <h2>Keep the change</h2>
      <div class="tools">
        {tried.text !== tried.original && <button type="button" onClick={() => { save("changes.yaml", tried.text); say("Exported"); }}>Export the YAML</button>}
        <button type="button" onClick={() => run(test)}>Export a test</button>
        <CopyButton text={link}>Copy a link</CopyButton>
      </div>
      {exported !== "" && <p role="status">{exported}</p>}
      <p class="facts">Computed in {answer.milliseconds} ms, with the code of kubectl berth whatif.</p>
    </>
  );
}

const hasErrors = (answer: WhatifView) => answer.mistakes?.some((m) => m.error) ?? false;

/** Commands shows the commands that make the changes. */
function Commands({ of: answer }: { of: WhatifView }) {
  if (hasErrors(answer) || !answer.commands || answer.commands.length === 0) return null;
  return (
    <>
      <h2>Make the change</h2>
      <p>The console changes nothing. The first command predicts the same; the others make the change.</p>
      {answer.commands.map((text) => <Command key={text} text={text} />)}
      {answer.approvals?.map((a) => <div key={a.command}><p>{`${count(a.objects, "workload")} then ${a.objects === 1 ? "waits" : "wait"} for an approval:`}</p><Command text={a.command} /></div>)}
    </>
  );
}
