import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, messageOf } from "../api";
import { Joined, Note } from "../components/basics";
import { useData } from "../hooks";
import type { InventoryObject, ValuesView } from "../types.gen";
import { labelsIn, pathOf, tried } from "./assignments";

const referenceTo = (o: InventoryObject) => [o.resource, o.namespace, o.name].filter(Boolean).join("/");

/** Assign gives a field a value, removes it (null), or leaves it as it is (undefined). */
type Assign = (field: string, value: string | null | undefined) => void;

// The cluster or node that the user chose stays while the page is open.
let kept = "";

/** selectAll selects the whole text of a field, so that typing replaces it. */
const selectAll = (event: { currentTarget: HTMLInputElement }) => event.currentTarget.select();

/**
 * Objects is the form with which the user changes labels of a cluster or node, cordons a node, or removes one of them. It begins with the
 * object first, and its part focus, such as label tier, if they are given.
 */
export function Objects({ clusters, nodes, values, first, focus, set, assign, remove }: {
  clusters: readonly string[]; nodes: readonly string[]; values: ValuesView | undefined; first: string; focus: string; set: readonly string[]; assign: Assign; remove: (reference: string) => void;
}) {
  const [name, setName] = useState(first || kept);
  kept = name;
  const kind = clusters.includes(name) ? "name" : nodes.includes(name) ? "node" : undefined;
  // There may be thousands, and the page renders again at each key.
  const places = useMemo(() => <datalist id="places">{[...clusters, ...nodes].map((item) => <option key={item} value={item} />)}</datalist>, [clusters, nodes]);
  return (
    <fieldset class="labels">
      <legend>What if a cluster changes?</legend>
      <input type="text" list="places" value={name} placeholder="Name of a cluster or node" aria-label="The cluster or node to change" onFocus={selectAll} onInput={(event) => setName(event.currentTarget.value)} />
      {places}
      {kind
        ? <Parts key={name} parameters={{ [kind]: name }} focus={first === name ? focus : undefined} values={values} set={set} assign={assign} remove={remove} />
        : name !== "" && <p class="facts">No cluster or node has this name.</p>}
    </fieldset>
  );
}

/**
 * Parts changes the objects that represent a cluster. It sets the focus to the part focus, or to the first one that policies read if focus is
 * empty, and nowhere if it is undefined.
 */
function Parts({ parameters, focus, values, set, assign, remove }: {
  parameters: Record<string, string>; focus: string | undefined; values: ValuesView | undefined; set: readonly string[]; assign: Assign; remove: (reference: string) => void;
}) {
  const loaded = useData((signal) => get("cluster", parameters, signal), [parameters]);
  const parts = useRef<HTMLDivElement>(null), inventory = loaded.data?.inventory;
  // The user may press a key as soon as the form is there.
  useLayoutEffect(() => {
    if (focus === undefined || !inventory) return;
    const rows = [...(parts.current?.querySelectorAll<HTMLElement>(".row") ?? [])];
    const named = focus === "" ? undefined : rows.find((r) => r.dataset["part"] === focus || r.dataset["field"] === focus);
    const row = named ?? rows.find((r) => r.dataset["read"] !== undefined) ?? rows[0];
    [...(row?.querySelectorAll("input") ?? [])].at(named ? -1 : 0)?.focus();
  }, [inventory === undefined]);
  if (loaded.error) return <Note kind="error" text={messageOf(loaded.error)} />;
  if (!inventory) return null;
  if (inventory.length === 0) return <p>No inventory has this cluster.</p>;
  return <div ref={parts}>{inventory.map((o) => <Part key={referenceTo(o)} of={o} focus={focus} values={values} set={set} assign={assign} remove={remove} />)}</div>;
}

/** Part changes one object. If it lacks the label focus, the form begins with the name of that label. */
function Part({ of: o, focus, values, set, assign, remove }: { of: InventoryObject; focus: string | undefined; values: ValuesView | undefined; set: readonly string[]; assign: Assign; remove: (reference: string) => void }) {
  const subject = referenceTo(o), labels = o.labels ?? {}, fields = o.fields ?? [];
  const wanted = focus?.startsWith("label ") ? focus.slice("label ".length) : "";
  const [draft, setDraft] = useState(wanted in labels ? "" : wanted);
  const readBy = (label: string) => [...(o.readBy?.[label] ?? []), ...(o.readBy?.["*"] ?? [])];
  const field = (path: string) => `${subject}:${path}`;
  const names = [...new Set([...Object.keys(labels), ...labelsIn(set, subject).filter((label) => label !== draft)])].sort();
  const elsewhere = fields.filter((f) => !names.some((label) => pathOf(label) === f.path));
  const cordoned = field("spec.unschedulable");
  return (
    <>
      <p class="facts">{subject}</p>
      {names.map((label) => {
        const same = fields.find((f) => f.path === pathOf(label));
        return (
          <Row key={label} field={same?.name} name={`label ${label}`} value={labels[label]} tried={tried(set, field(pathOf(label)))} readBy={[...readBy(label), ...(same?.readBy ?? [])]}
            assign={(value) => assign(field(pathOf(label)), value)}>
            {label}<Elsewhere label={label} of={o} />
          </Row>
        );
      })}
      <AnotherLabel of={o} values={values} draft={draft} setDraft={setDraft} current={tried(set, field(pathOf(draft)))} assign={(label, value) => assign(field(pathOf(label)), value)} />
      {elsewhere.map((f) => (
        <Row key={f.path} name={`field ${f.name}`} value={f.value === "" ? undefined : f.value} tried={tried(set, field(f.path))} readBy={f.readBy ?? []} assign={(value) => assign(field(f.path), value)}>
          <i>{f.name}</i><small>{f.path}</small>
        </Row>
      ))}
      {o.annotations?.map((f) => (
        <Row key={f.path} name={`annotation ${f.name}`} value={f.value === "" ? undefined : f.value} tried={tried(set, field(f.path))} readBy={f.readBy ?? []} assign={(value) => assign(field(f.path), value)}>
          {f.name}<small>annotation</small>
        </Row>
      ))}
      <div class="tools">
        {o.unschedulable !== undefined && (
          <label><input type="checkbox" checked={(tried(set, cordoned) ?? String(o.unschedulable)) === "true"}
            onChange={(event) => assign(cordoned, event.currentTarget.checked === o.unschedulable ? undefined : String(event.currentTarget.checked))} /> Cordoned</label>
        )}
        <button type="button" onClick={() => remove(subject)}>Remove {o.name}</button>
      </div>
    </>
  );
}

/** Row changes or removes a label, an annotation, or a field. The value is undefined if the object lacks it today. field is what policies know a label as. */
function Row({ name, field, value, tried: now, readBy, assign, children }: {
  name: string; field?: string | undefined; value: string | undefined; tried: string | null | undefined; readBy: readonly string[]; assign: (value: string | null | undefined) => void; children: ComponentChildren;
}) {
  const isChanged = now !== undefined;
  return (
    <div class="row" data-part={name} data-field={field && `field ${field}`} data-read={readBy.length > 0 ? "" : undefined}>
      <span>
        {children}
        {readBy.length > 0 && <small class="read" title={`Policies that read it: ${readBy.join(", ")}`}>read by {readBy.slice(0, 3).join(", ")}{readBy.length > 3 && ` and ${readBy.length - 3} more`}</small>}
        {isChanged && <small>{value === undefined ? "new" : `was ${value === "" ? "empty" : value}`}</small>}
        {now === "" && value !== undefined && <small>empty, not removed</small>}
      </span>
      <input type="text" value={now === null ? "" : now ?? value ?? ""} placeholder={now === null ? "removed" : ""} aria-label={`The value of the ${name}`} onFocus={selectAll}
        onInput={(event) => {
          const next = event.currentTarget.value.trim();
          assign(next === (value ?? "") ? undefined : next);
        }} />
      {now === null || isChanged && value === undefined
        ? <button type="button" aria-label={`Keep the ${name} as it is`} onClick={() => assign(undefined)}>Keep</button>
        : value !== undefined ? <button type="button" aria-label={`Remove the ${name}`} onClick={() => assign(null)}>Remove</button> : <span />}
    </div>
  );
}

/** AnotherLabel adds a label that the object lacks. */
function AnotherLabel({ of: o, values, draft, setDraft, current, assign }: {
  of: InventoryObject; values: ValuesView | undefined; draft: string; setDraft: (label: string) => void; current: string | null | undefined; assign: (label: string, value: string | undefined) => void;
}) {
  const labels = o.labels ?? {}, [text, setText] = useState(""), was = useRef(false);
  // Another part of the page may take the change back.
  useEffect(() => {
    if (was.current && current === undefined && text !== "") {
      setDraft("");
      setText("");
    }
    was.current = current !== undefined;
  }, [current, draft]);
  const known = [...new Set([...Object.keys(o.readBy ?? {}), ...Object.keys(values?.labels ?? {})])].filter((label) => label !== "*" && !(label in labels)).sort();
  const set = (label: string, value: string) => {
    if (draft !== "" && draft !== label && !(draft in labels)) assign(draft, undefined);
    was.current = false;
    setDraft(label);
    setText(value);
    if (label !== "" && !(label in labels)) assign(label, value === "" ? undefined : value);
  };
  return (
    <>
      <div class="row" data-part={`label ${draft}`}>
        <input type="text" list="labels" placeholder="another label" aria-label="The name of another label" value={draft} onInput={(event) => set(event.currentTarget.value.trim(), text)} />
        <input type="text" placeholder="its value" aria-label="The value of the label that you named" value={text} onFocus={selectAll} onInput={(event) => set(draft, event.currentTarget.value.trim())} />
        <span />
      </div>
      <datalist id="labels">{known.map((label) => <option key={label} value={label} />)}</datalist>
      {draft in labels && <p class="facts">The object has the label {draft}: change it above.</p>}
      {draft !== "" && !(draft in labels) && <p class="facts"><Joined by=" " items={[!o.readBy?.[draft] && !o.readBy?.["*"] && "No policy reads this label.", <Elsewhere label={draft} of={o} />]} /></p>}
    </>
  );
}

const titles: Record<string, string> = { region: "region", zone: "zones", zones: "zones", provider: "provider" };

/** Elsewhere says that policies know a field by the name of a label, and where the object has that field. */
function Elsewhere({ label, of: o }: { label: string; of: InventoryObject }) {
  const found = o.fields?.find((f) => f.name === titles[label] && f.path !== pathOf(label));
  return found ? <small>The field {found.name}, which policies can read, is <code>{found.path}</code>, not this label.</small> : null;
}
