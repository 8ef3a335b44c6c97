import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { ValuesView } from "../types.gen";
import { type Place, placeOf } from "./place";

/** Schema is as much of JSON Schema as completion reads. */
export interface Schema {
  type?: string | string[];
  description?: string;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
}

/** Known is what completion suggests: fields of the schema of policies, and values of the cluster. */
export interface Known {
  schema: Schema | undefined;
  values: ValuesView | undefined;
}

/** schemaAt returns the schema of what a path leads to. */
export function schemaAt(schema: Schema | undefined, path: (string | number)[]): Schema | undefined {
  let at = schema;
  for (const step of path) {
    if (typeof step === "number") at = at?.items;
    else at = at?.properties?.[step] ?? (typeof at?.additionalProperties === "object" ? at.additionalProperties : undefined);
  }
  return at;
}

/** Suggestion is a text that completes a word. */
export interface Suggestion {
  text: string;
  detail?: string | undefined;
  info?: string | undefined;
  /** after is what follows a key: nothing for a value, or the start of its value. */
  after?: string;
}

/** suggest returns what completes a place. */
export function suggest(place: Place, known: Known): Suggestion[] {
  if (place.role === "block") return inRego(place, known);
  const below = place.key === undefined ? undefined : schemaAt(known.schema, [...place.path, place.key]);
  // The first key of a map looks like a value.
  if (place.role === "value" && (below?.properties ?? typeof below?.additionalProperties === "object")) {
    return suggest({ ...place, role: "key", path: [...place.path, place.key ?? ""], key: undefined, siblings: new Map() }, known);
  }
  const live = liveValues(place, known.values).map((text) => ({ text, detail: "in the cluster" }));
  if (place.kind !== "" && place.kind !== "PlacementPolicy") return place.role === "key" ? [] : live;
  if (place.role === "key") return [...keys(place, schemaAt(known.schema, place.path)), ...live.map((s) => ({ ...s, after: ": " }))];
  return [...constants(below ?? schemaAt(known.schema, place.path)), ...live];
}

function keys(place: Place, schema: Schema | undefined): Suggestion[] {
  return Object.entries(schema?.properties ?? {}).filter(([name]) => !place.siblings.has(name) && name !== "status").map(([name, property]) => {
    const next = "\n".padEnd(place.column + 1) + "  ";
    const after = place.inFlow ? ": " : property.properties ? `:${next}` : property.items?.properties ? `:${next}- ` : ": ";
    return { text: name, detail: [property.type].flat().join(" or "), info: property.description, after };
  });
}

function constants(schema: Schema | undefined): Suggestion[] {
  const values = schema?.const !== undefined ? [schema.const] : schema?.enum ?? (schema?.type === "boolean" ? [true, false] : []);
  return values.map((value) => ({ text: String(value), detail: value === schema?.default ? "default" : undefined }));
}

// The keys of a requirement whose values are names of what clusters have.
const subjects = ["label", "annotation", "property", "allocatable", "free", "field"];

/** liveValues returns the names or values that the cluster has for a place. */
export function liveValues(place: Place, values: ValuesView | undefined): string[] {
  if (!values) return [];
  const path = place.path.map((step) => (typeof step === "number" ? "*" : step)), last = path.at(-1) ?? "";
  const within = (name: string) => path.includes(name);
  const objects = within("namespaceSelector") ? values.namespaceLabels : within("annotations") ? values.objectAnnotations : values.objectLabels;
  if (last === "matchLabels") return place.key === undefined ? names(objects) : list(objects, place.key);
  if (within("matchExpressions") || within("annotations") && within("when")) {
    if (place.key === "key") return names(objects);
    return place.role === "item" ? list(objects, place.siblings.get("key")) : [];
  }
  if (last === "valueFrom") return place.key === "label" ? names(values.objectLabels) : place.key === "annotation" ? names(values.objectAnnotations) : [];
  if (!within("require") && !within("prefer") && !within("spread")) return [];
  const labels = merged(values.labels, values.nodeLabels);
  if (place.role === "value") {
    return { label: names(labels), annotation: names(values.annotations), property: names(values.properties), allocatable: values.resources ?? [], free: values.resources ?? [] }[place.key ?? ""] ?? [];
  }
  const subject = subjects.find((name) => place.siblings.has(name));
  if (place.role !== "item" || !subject) return [];
  const of = { field: values.fields, label: labels, annotation: values.annotations, property: values.properties }[subject];
  return of ? list(of, place.siblings.get(subject)) : [];
}

type Lists = Record<string, string[] | null> | null;

const names = (of: Lists) => Object.keys(of ?? {}).sort();

const list = (of: Lists, name: string | undefined) => of?.[name ?? ""] ?? [];

function merged(a: Lists, b: Lists): Lists {
  const out = { ...a };
  for (const [name, values] of Object.entries(b ?? {})) out[name] = [...new Set([...(out[name] ?? []), ...(values ?? [])])];
  return out;
}

// What Rego of a policy reads and decides.
const rego: [string, string][] = [
  ["input", "the object that is decided, as its developer requested it"], ["data.clusters", "the clusters of all inventories, by name"], ["data.nodes", "the nodes, by name"],
  ["data.namespaces", "the namespaces, by name"], ["clusters", "decides the clusters: a set of names"], ["labels", "decides labels"], ["annotations", "decides annotations"],
  ["errors", "denies the object: a set of messages"], ["warnings", "warns: a set of messages"], ["contains", ""], ["import", ""], ["some", ""], ["every", ""], ["not", ""],
];

function inRego(place: Place, known: Known): Suggestion[] {
  const labels = new Set([...names(known.values?.labels ?? null), ...names(known.values?.objectLabels ?? null)]);
  return [
    ...rego.map(([text, info]) => ({ text, info })),
    ...[...labels].filter((name) => place.word.length > 0 && /^[A-Za-z_]\w*$/.test(name)).map((text) => ({ text, detail: "label" })),
  ];
}

/** quoted returns a value as YAML reads it as a text. */
export function quoted(value: string): string {
  const plain = /^[A-Za-z_/][A-Za-z0-9_./-]*$/.test(value) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(value);
  return plain ? value : JSON.stringify(value);
}

/** complete returns the source of completions for an editor. */
export function complete(known: () => Known): (context: CompletionContext) => CompletionResult | null {
  return (context) => {
    const text = context.state.doc.toString(), place = placeOf(text, context.pos);
    if (!place) return null;
    if (!context.explicit && place.word === "" && place.role !== "item") return null;
    const options = suggest(place, known()).map((s): Completion => {
      const isText = place.role === "item" || place.role === "value";
      const inQuotes = isText && /["']$/.test(text.slice(0, context.pos - place.word.length));
      const apply = isText && s.after === undefined && s.detail === "in the cluster" && !inQuotes ? quoted(s.text) : s.text + (s.after ?? "");
      return { label: s.text, apply, type: s.after === undefined ? "constant" : "property", ...(s.detail ? { detail: s.detail } : {}), ...(s.info ? { info: s.info } : {}) };
    });
    return options.length === 0 ? null : { from: context.pos - place.word.length, options, validFor: /^[\w./-]*$/ };
  };
}
