import { useMemo, useState } from "preact/hooks";
import { get, messageOf } from "../api";
import { Note } from "../components/basics";
import { useData } from "../hooks";
import type { InventoryObject } from "../types.gen";

// path returns the path of a label as --set takes it.
const path = (key: string) => (/^[A-Za-z0-9_-]+$/.test(key) ? `metadata.labels.${key}` : `metadata.labels['${key}']`);

const referenceTo = (o: InventoryObject) => [o.resource, o.namespace, o.name].filter(Boolean).join("/");

/** Objects is the form with which the user changes labels of a cluster or node, cordons a node, or removes one of them. */
export function Objects({ clusters, nodes, first, set, assign, remove }: {
  clusters: readonly string[]; nodes: readonly string[]; first: string; set: readonly string[]; assign: (prefix: string, assignment: string) => void; remove: (reference: string) => void;
}) {
  const [name, setName] = useState(first);
  const kind = clusters.includes(name) ? "name" : nodes.includes(name) ? "node" : undefined;
  // There may be thousands, and the page renders again at each key.
  const places = useMemo(() => <datalist id="places">{[...clusters, ...nodes].map((item) => <option key={item} value={item} />)}</datalist>, [clusters, nodes]);
  return (
    <fieldset class="labels">
      <legend>A cluster or a node</legend>
      <input type="text" list="places" value={name} placeholder="Name of a cluster or node" aria-label="The cluster or node to change" onChange={(event) => setName(event.currentTarget.value)} />
      {places}
      {kind && <Parts key={name} parameters={{ [kind]: name }} tried={set} assign={assign} remove={remove} />}
    </fieldset>
  );
}

function Parts({ parameters, tried, assign, remove }: {
  parameters: Record<string, string>; tried: readonly string[]; assign: (prefix: string, assignment: string) => void; remove: (reference: string) => void;
}) {
  const loaded = useData((signal) => get("cluster", parameters, signal), [parameters]);
  const [key, setKey] = useState("");
  if (loaded.error) return <Note kind="error" text={messageOf(loaded.error)} />;
  const inventory = loaded.data?.inventory;
  if (!inventory) return null;
  if (inventory.length === 0) return <p>No inventory has this cluster.</p>;
  return (
    <>
      {inventory.map((o) => {
        const subject = referenceTo(o);
        const set = (label: string, value: string) => assign(`${subject}:${path(label)}=`, `${subject}:${path(label)}=${value.trim()}`);
        // changed returns what the user tries in place of a value.
        const changed = (field: string) => {
          const prefix = `${subject}:${field}=`;
          return tried.find((assignment) => assignment.startsWith(prefix))?.slice(prefix.length);
        };
        return (
          <div key={subject}>
            <p class="facts">{subject}</p>
            {Object.entries(o.labels ?? {}).sort().map(([label, value]) => (
              <div class="row" key={label}>
                <span>{label}{changed(path(label)) !== undefined && <small>was {value === "" ? "empty" : value}</small>}</span>
                <input type="text" value={changed(path(label)) ?? value} aria-label={`The value of the label ${label}`} onChange={(event) => set(label, event.currentTarget.value)} />
              </div>
            ))}
            <div class="row">
              <input type="text" placeholder="another label" aria-label="The name of another label" value={key} onInput={(event) => setKey(event.currentTarget.value.trim())} />
              <input type="text" placeholder="its value" aria-label="The value of the label that you named" onChange={(event) => key !== "" && set(key, event.currentTarget.value)} />
            </div>
            <div class="tools">
              {o.unschedulable !== undefined && (
                <label><input type="checkbox" checked={(changed("spec.unschedulable") ?? String(o.unschedulable)) === "true"} onChange={(event) => assign(`${subject}:spec.unschedulable=`, `${subject}:spec.unschedulable=${event.currentTarget.checked}`)} /> Cordoned</label>
              )}
              <button type="button" onClick={() => remove(subject)}>Remove {o.name}</button>
            </div>
          </div>
        );
      })}
    </>
  );
}
